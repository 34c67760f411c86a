"""A design for the vendors' own tools: constraints and a script for Vivado or Quartus, cores for FuseSoC."""

import json
import math
import re
from pathlib import Path
from typing import Any

from skiptile import __version__
from skiptile.gen.design import Design
from skiptile.gen.generate import make_files, write_files
from skiptile.gen.templates import template
from skiptile.golden.checks import check_choice

DEFAULT_FREQUENCY = 100.0
DEFAULT_PARTS = {"vivado": "xc7a100tcsg324-1", "quartus": "5CSEMA5F31C6"}

# What is written for each tool: the end of the file's name, and its template.
FILES = {
    "vivado": {".xdc": "export.xdc.jinja", "_vivado.tcl": "export_vivado.tcl.jinja"},
    "quartus": {
        ".sdc": "export.sdc.jinja",
        "_pins.tcl": "export_pins.tcl.jinja",
        "_quartus.tcl": "export_quartus.tcl.jinja",
    },
    "fusesoc": {
        ".xdc": "export.xdc.jinja",
        "_ooc.tcl": "export_ooc.tcl.jinja",
        ".sdc": "export.sdc.jinja",
        "_pins.tcl": "export_pins.tcl.jinja",
        ".core": "export.core.jinja",
        ".eda.yml": "export.eda.yml.jinja",
    },
}

_LOWEST, _HIGHEST = 1, 2000  # MHz: beyond what any device's clock network does
_WORDS = r"[A-Za-z0-9]{4,32}(-[A-Za-z0-9]{1,12}){0,4}"
_PARTS = {"vivado": rf"(?=(?i:x[acq])){_WORDS}", "quartus": rf"(?!(?i:x[acq]))(?=.*\d){_WORDS}"}

# Edalize wants the family beside the part; Quartus itself finds it. The first beginning that fits counts.
_FAMILIES = {
    "5AGZ": "Arria V GZ",
    "5A": "Arria V",
    "5C": "Cyclone V",
    "5S": "Stratix V",
    "10A": "Arria 10",
    "10CL": "Cyclone 10 LP",
    "10CX": "Cyclone 10 GX",
    "10M": "MAX 10",
    "1S": "Stratix 10",
    "A5": "Agilex 5",
    "AGF": "Agilex 7",
    "AGI": "Agilex 7",
    "AGM": "Agilex 7",
    "EP4CE": "Cyclone IV E",
    "EP4CG": "Cyclone IV GX",
}


def export_files(
    design: Design,
    folder: Path,
    *,
    to: str,
    part: str | None = None,
    frequency: float = DEFAULT_FREQUENCY,
    naming: str = "amaranth",
) -> list[Path]:
    """Write a design and all that one of the vendors' tools needs for it.

    The Verilog and, last, the manifest are those of `skiptile.gen.generate.generate_files`; between them are
    ``<name>.f``, a list of the sources, and the tool's `FILES`. As there, nothing is written before all is
    made, and a failure leaves no half-written file and no new folder.

    Args:
        design: what to export.
        folder: where to.
        to: the tool, one of `FILES`.
        part: the device; by default the tool's of `DEFAULT_PARTS`. For "fusesoc" a part of either vendor:
            its tool is then the one that the EDAM describes, otherwise Vivado.
        frequency: that the clock shall have, in MHz.
        naming: of the streams' ports, one of `skiptile.gen.naming.NAMINGS`.

    Returns:
        The files, in the order in which they were written.

    Raises:
        OSError: with the path as its ``filename``: not a folder, no permission, no space.
        TypeError, ValueError: an unknown tool or naming, a part or a frequency that cannot be.
    """
    check_choice("to", to, FILES)
    check_frequency(frequency)
    vendor, part = choose_part(to, part)
    made = make_files(design, naming=naming)
    verilog, manifest = f"{design.name}.v", f"{design.name}.json"
    values = _values(json.loads(made[manifest]), vendor, part, frequency)
    texts = {end: template(name).render(values) for end, name in FILES[to].items()}
    return write_files(
        folder,
        {
            verilog: made[verilog],
            f"{design.name}.f": f"{verilog}\n".encode(),
            **{f"{design.name}{end}": text.encode() for end, text in texts.items()},
            manifest: made[manifest],
        },
    )


def check_frequency(frequency: object) -> None:
    """Raise unless ``frequency`` is one that a clock can have, in MHz."""
    allowed = f"a number of MHz from {_LOWEST} to {_HIGHEST}"
    if isinstance(frequency, bool) or not isinstance(frequency, int | float):
        raise TypeError(f"frequency must be {allowed}, not {frequency!r}")
    if not _LOWEST <= frequency <= _HIGHEST:  # refuses what is not a number as well
        raise ValueError(f"frequency must be {allowed}, not {frequency!r}")


def choose_part(to: str, part: str | None) -> tuple[str, str]:
    """The vendor's tool, a key of `DEFAULT_PARTS`, and the part for it.

    Nothing but letters, digits and hyphens gets through, since the part goes into Tcl and YAML.

    Args:
        to: one of `FILES`.
        part: None for the default.

    Raises:
        ValueError: no part of that tool has such a name; for "fusesoc", its family is not known.
    """
    vendors = [to] if to in DEFAULT_PARTS else list(DEFAULT_PARTS)
    if part is None:
        return vendors[0], DEFAULT_PARTS[vendors[0]]
    for vendor in vendors:
        if re.fullmatch(_PARTS[vendor], part):
            if to == "fusesoc" and vendor == "quartus" and _family(part) is None:
                beginnings = ", ".join(_FAMILIES)
                raise ValueError(
                    f"part must be one for Vivado or begin with one of {beginnings}, not {part!r}"
                )
            return vendor, part
    names = " or ".join(vendor.capitalize() for vendor in vendors)
    examples = " or ".join(DEFAULT_PARTS[vendor] for vendor in vendors)
    raise ValueError(f"part must be the name of one for {names}, such as {examples}, not {part!r}")


def _family(part: str) -> str | None:
    """Quartus' name of the family of a part."""
    found = (family for beginning, family in _FAMILIES.items() if part.upper().startswith(beginning))
    return next(found, None)


def _values(facts: dict[str, Any], vendor: str, part: str, frequency: float) -> dict[str, Any]:
    """What the templates use, from a manifest and the checked options."""
    parts = DEFAULT_PARTS | {vendor: part}
    picoseconds = math.floor(1e6 / frequency)  # down: a design that meets the period has the frequency
    ports = [port for port in facts["ports"] if port["name"] != facts["clock"]]
    return {
        "name": facts["design"],
        "kind": facts["kind"],
        "core": f"skiptile:generated:{facts['design']}",
        "version": __version__,
        "vendor": vendor,
        "part": part,
        "parts": parts,
        "family": _family(parts["quartus"]),
        "mhz": f"{frequency:.10g}",
        "period": f"{picoseconds // 1000}.{picoseconds % 1000:03}",
        "inputs": [_pattern(port) for port in ports if port["direction"] == "input"],
        "outputs": [_pattern(port) for port in ports if port["direction"] == "output"],
    }


def _pattern(port: dict[str, Any]) -> str:
    """All bits of a port, as Tcl commands take it; in braces, since the brackets are no command."""
    return port["name"] if port["width"] == 1 else f"{port['name']}[*]"

"""A netlist of standard cells: its area, and the delay of its slowest path before layout, by OpenSTA."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skiptile.gen import cache, netlist
from skiptile.gen.placement import own_name
from skiptile.gen.processes import ToolError, run
from skiptile.gen.targets import Library, tool_path
from skiptile.gen.yosys import run_yosys, yosys_version

_FIGURES = "figures.json"
# Inputs come from registers and outputs go to registers that take no time of their own.
_SCRIPT = """
read_liberty {liberty}
read_verilog netlist.v
link_design {top}
create_clock -name clk -period {period} [get_ports clk]
set_input_delay 0 -clock clk [get_ports {{{inputs}}}]
set_output_delay 0 -clock clk [all_outputs]
report_checks -path_delay max -digits 4 -fields {{net}}
"""
_PERIOD_NS = 1000


@dataclass(frozen=True)
class Figures:
    """What a netlist of standard cells comes to.

    Attributes:
        area_um2: of its cells.
        delay_ns: of the slowest path, setup included.
        names: along that path, from register to register.
    """

    area_um2: float
    delay_ns: float
    names: list[str]


def analyse(text: str, top: str, library: Library, *, timeout: float | None = None) -> Figures:
    """Area and delay of the netlist ``text``, JSON with the module ``top``.

    Raises:
        ToolError: OpenSTA or the library is missing, or OpenSTA failed or took more than ``timeout`` seconds.
        YosysError: Yosys failed, or took more.
        OSError: the cache cannot be written.
    """
    if library.missing:
        raise ToolError(library.missing)
    liberty = library.liberty
    whole = json.loads(text)
    module = whole["modules"][top]
    name_registers(module)
    inputs = (name for name, port in module["ports"].items() if port["direction"] == "input")
    patterns = " ".join(f"{name}*" for name in inputs if name != "clk")
    script = _SCRIPT.format(liberty=liberty, top=top, period=_PERIOD_NS, inputs=patterns)

    def build(place: Path) -> None:
        (place / "netlist.json").write_text(json.dumps(whole))
        (place / "script.tcl").write_text(script)
        statistics = f"tee -q -o area.json stat -json -liberty {liberty}"
        passes = ["read_json netlist.json", statistics, "write_verilog -noattr netlist.v"]
        run_yosys(passes, place, timeout=timeout)
        area = json.loads((place / "area.json").read_text())["design"]["area"]
        command = [tool_path("sta") or "sta", "-exit", "-no_splash", "script.tcl"]
        output = run(command, place, failure="delays could not be told", timeout=timeout)
        (place / _FIGURES).write_text(json.dumps({"area_um2": area, **_read(output)}))
        for name in ("netlist.json", "netlist.v", "script.tcl", "area.json"):
            (place / name).unlink()

    key = cache.key([json.dumps(whole), script, yosys_version(), sta_version(), liberty.read_text()])
    place = cache.built(f"delay-{key}", build, timeout=timeout)
    return Figures(**json.loads((place / _FIGURES).read_text()))


def sta_version() -> str:
    """Of OpenSTA, which is there."""
    return run([tool_path("sta") or "sta", "-version"], Path.cwd(), failure="OpenSTA failed").strip()


def name_registers(module: netlist.Netlist) -> None:
    """Name flip-flops after what they drive: their names are all that is left of the design's own."""
    names = {}
    for net, entry in sorted(module["netnames"].items(), key=lambda item: (-item[0].count("."), item[0])):
        entry.pop("signed", None)  # OpenSTA does not read it
        if not net.startswith("$"):
            names |= {bit: f"{net}[{place}]" for place, bit in enumerate(entry["bits"])}
    cells = module["cells"]
    for name, cell in list(cells.items()):
        driven = names.get(cell["connections"].get("Q", [None])[0])
        if driven is not None and driven not in cells:
            cells[driven] = cells.pop(name)


def _read(output: str) -> dict[str, Any]:
    """Delay and names of the path that OpenSTA reports."""
    ends = re.findall(r"^(?:Startpoint|Endpoint): (\S+)", output, re.MULTILINE)
    slack = re.search(r"^\s*(-?[\d.]+)\s+slack", output, re.MULTILINE)
    if len(ends) != 2 or slack is None:
        raise ToolError(f"delays could not be told, sta says: {output.strip()[-300:]}")
    nets = re.findall(r"(\S+) \(net\)$", output, re.MULTILINE)
    names = [own_name(name.replace("\\", "")) for name in (ends[0], *nets, ends[1])]
    return {"delay_ns": round(_PERIOD_NS - float(slack[1]), 4), "names": names}

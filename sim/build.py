"""From Verilog and manifest to a shared library that simulates it."""

import re
import subprocess
from pathlib import Path
from typing import Any

from skiptile.sim import cache, tools
from skiptile.sim.tools import ToolError

HARNESS = Path(__file__).with_name("harness.cpp")
LIBRARY = "model.so"

# Above this many multipliers the element is compiled on its own, once: builds stay short, and code that
# fits the instruction cache runs faster. Below, one flat model is faster (benchmarks/simulation_speed.py).
MOST_FLAT = 256


def build(manifest: dict[str, Any], verilog: str, *, random_start: bool = False, flat: bool | None = None) -> Path:
    """The shared library of a design, from the cache or built now.

    Args:
        manifest, verilog: as `skiptile generate` writes them.
        random_start: registers begin with random values that depend on a seed; otherwise with zeros.
        flat: one model for all of it, or the element on its own; by its size if not given.

    Raises:
        ToolError: a tool is missing, or the build failed.
        OSError: the cache cannot be written.
    """
    tools.check_build_tools()
    if flat is None:
        flat = manifest["capacities"].get("multipliers", 0) <= MOST_FLAT
    header, control = _header(manifest), _control(manifest, flat)
    flags = _flags(random_start, flat)
    parts = [verilog, header, control, HARNESS.read_text(), *flags, tools.verilator().version, tools.machine()]
    name = f"model-{cache.key(parts)}"
    return cache.built(name, lambda place: _build(place, verilog, header, control, flags)) / LIBRARY


def _flags(random_start: bool, flat: bool) -> list[str]:
    start = "unique" if random_start else "fast"
    optimise = "-O2" if random_start else "-O3"  # random starts are for tests, which build more than they run
    flags = [
        *("--cc", "--exe", "--build", "--top-module", "TOP", "--prefix", "Vtop", "-O3", "-Wno-fatal"),
        *("-Wno-lint", "--x-assign", start, "--x-initial", start, "--no-timing"),
        *("-CFLAGS", f"-I.. -fPIC {optimise} -march=native -std=c++17", "-LDFLAGS", "-shared -fPIC"),
    ]
    return flags if flat else [*flags, "--hierarchical"]


def _build(place: Path, verilog: str, header: str, control: str, flags: list[str]) -> None:
    """Write the inputs into ``place`` and leave nothing in it but the library."""
    top = re.search(r"// top (\w+)", header)
    assert top is not None
    (place / "design.v").write_text(verilog)
    (place / "design.h").write_text(header)
    (place / "control.vlt").write_text(control)
    found = tools.verilator()
    command = [str(found.command), *(top[1] if flag == "TOP" else flag for flag in flags)]
    command += ["--Mdir", "obj", "-o", f"../{LIBRARY}", "control.vlt", "design.v", str(HARNESS)]
    environment = tools.build_environment()
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode or not (place / LIBRARY).exists():
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        raise ToolError(f"the Verilated model did not build: {' '.join(lines[:2]) or done.stderr[-500:]}")
    for path in [place / "obj", *place.glob("design.*"), place / "control.vlt"]:
        cache.remove(path)


def _control(manifest: dict[str, Any], flat: bool) -> str:
    """Verilator's control file: what is public, and what is compiled on its own."""
    design = manifest["design"]
    lines = ["`verilator_config"]
    ports = sorted({(port["module"], port["port"]) for probe in manifest["probes"] for port in probe["ports"]})
    lines += [f'public_flat_rd -module "{module}" -var "{port}"' for module, port in ports]
    if not flat:
        lines.append(f'hier_block -module "{design}__element"')
    return "\n".join(lines) + "\n"


def _header(manifest: dict[str, Any]) -> str:
    """design.h: where the streams' signals and the probes are in the Verilated class."""
    inputs = [stream for stream in manifest["streams"] if stream["direction"] == "input"]
    outputs = [stream for stream in manifest["streams"] if stream["direction"] == "output"]
    design = manifest["design"]
    probes = [
        f"top.rootp->{_mangled(design + '.' + port['instance'] + '.' + port['port'])}"
        for probe in manifest["probes"]
        for port in probe["ports"]
    ]
    lines = [
        f"// top {design}",
        '#include "Vtop.h"',
        '#include "Vtop___024root.h"',
        "using Top = Vtop;",
        f"constexpr int INPUTS = {len(inputs)}, OUTPUTS = {len(outputs)}, PROBES = {len(probes)};",
        "inline void bind(Top& top, Stream* inputs, Stream* outputs, Probe* probes) {",
    ]
    for array, streams in (("inputs", inputs), ("outputs", outputs)):
        for index, stream in enumerate(streams):
            payload, valid, ready = (f"top.{_mangled(stream[part])}" for part in ("payload", "valid", "ready"))
            lines.append(
                f"    {array}[{index}] = {{&{payload}, sizeof({payload}), &{valid}, &{ready}}};"
            )
    for index, probe in enumerate(probes):
        lines.append(f"    probes[{index}] = {{&{probe}, sizeof({probe})}};")
    return "\n".join([*lines, "}", ""])


def _mangled(name: str) -> str:
    """A Verilog name as Verilator writes it in C++."""
    return name.replace("__", "___05F").replace(".", "__DOT__")

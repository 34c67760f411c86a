"""A design through Yosys: its netlist for a target, and what is in it."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skiptile.gen import cache, netlist
from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.targets import Target
from skiptile.gen.templates import template
from skiptile.gen.verilog import generate
from skiptile.gen.yosys import run_yosys, yosys_version

_NETLIST = "netlist.json"
_SECONDS = "seconds"
_STATISTICS = "statistics.json"


@dataclass(frozen=True)
class Synthesised:
    """A design's netlist.

    Attributes:
        design: what was synthesised.
        text: the netlist as JSON: one module, the design's.
        counts: as `netlist.count` gives them.
        seconds: that Yosys took.
    """

    design: Design
    text: str
    counts: dict[str, int | None]
    seconds: float

    @property
    def module(self) -> netlist.Netlist:
        """The netlist, to be changed at will."""
        return json.loads(self.text)["modules"][self.design.name]


def synthesise(design: Design, target: Target, *, timeout: float | None = None) -> Synthesised:
    """Map ``design`` to the target's cells, or take its netlist from the cache.

    Raises:
        YosysError: Yosys failed, or took more than ``timeout`` seconds.
        ToolError: another process that makes the same netlist took more than these.
        OSError: the cache cannot be written.
    """
    return synthesise_verilog(design, {"design.v": generate(design)}, design.name, target, timeout=timeout)


def synthesise_verilog(
    design: Design, sources: dict[str, str], top: str, target: Target, *, timeout: float | None = None
) -> Synthesised:
    """Map the module ``top`` of some Verilog, ``design`` and what is around it, as `synthesise` does.

    Args:
        sources: Verilog by file name.

    Returns:
        The netlist; its module has the design's name.

    Raises:
        As `synthesise`.
    """
    commands = target.commands(top)
    files = target.files | sources

    def build(place: Path) -> None:
        start = time.monotonic()
        for name, text in files.items():
            (place / name).write_text(text)
        passes = [f"read_verilog {' '.join(sources)}", *commands, "clean", f"write_json {_NETLIST}"]
        run_yosys(passes, place, timeout=timeout)
        whole = json.loads((place / _NETLIST).read_text())
        module = whole["modules"][top]
        netlist.absorb_registers(module)
        netlist.free_carry_inputs(module)
        text = json.dumps({"creator": whole["creator"], "modules": {design.name: module}})
        (place / _NETLIST).write_text(text)
        (place / _SECONDS).write_text(str(time.monotonic() - start))
        for name in files:
            (place / name).unlink()

    parts = [
        *(*sources.values(), *commands, *target.files.values()),
        *(yosys_version(), Path(netlist.__file__).read_text()),
    ]
    place = cache.built(f"netlist-{cache.key(parts)}", build, timeout=timeout)
    text = (place / _NETLIST).read_text()
    counts = netlist.count(json.loads(text)["modules"][design.name], target.cells)
    return Synthesised(design, text, counts, float((place / _SECONDS).read_text()))


def estimate(design: Design, target: Target, *, timeout: float | None = None) -> dict[str, int | None]:
    """About what is in the netlist of ``design``, for a device: a module used many times is mapped once.

    Returns:
        Counts as `netlist.count` gives them. The whole shares logic across the modules' borders, so it has a
        few percent more or less of LUTs and flip-flops, and as many multipliers and memories.

    Raises:
        As `synthesise`.
    """
    verilog, commands = generate(design), target.commands(design.name, flat=False)

    def build(place: Path) -> None:
        (place / "design.v").write_text(verilog)
        passes = ["read_verilog design.v", *commands, f"tee -q -o {_STATISTICS} stat -json"]
        run_yosys(passes, place, timeout=timeout)
        (place / "design.v").unlink()

    name = f"estimate-{cache.key([verilog, *commands, yosys_version()])}"
    place = cache.built(name, build, timeout=timeout)
    types = json.loads((place / _STATISTICS).read_text())["design"]["num_cells_by_type"]
    return netlist.count_types(types, target.cells)


def frame(
    synthesised: Synthesised, target: Target, *, timeout: float | None = None
) -> tuple[str, dict[str, int | None]]:
    """A frame with four pins and the design in it, unchanged (gen/fit.v.jinja).

    Returns:
        Its netlist as JSON, and what is in it, as `netlist.count` gives it.

    Raises:
        As `synthesise`.
    """
    design = synthesised.design
    interface = manifest(design, "")
    verilog, stub = _frame_verilog(design.name, interface)
    commands = target.commands("fit", pads=True)

    def build(place: Path) -> None:
        (place / "fit.v").write_text(verilog)
        (place / "stub.v").write_text(stub)
        passes = ["read_verilog -lib stub.v", "read_verilog fit.v", *commands, f"write_json {_NETLIST}"]
        run_yosys(passes, place, timeout=timeout)

    name = f"frame-{cache.key([verilog, stub, *commands, yosys_version()])}"
    whole = json.loads((cache.built(name, build, timeout=timeout) / _NETLIST).read_text())
    outer = whole["modules"]["fit"]
    netlist.insert(outer, "dut", synthesised.module)
    text = json.dumps({"creator": whole["creator"], "modules": {"fit": outer}})
    return text, netlist.count(outer, target.cells)


def _frame_verilog(name: str, interface: dict[str, Any]) -> tuple[str, str]:
    """The frame, and the design as a black box."""
    ports = [port for port in interface["ports"] if port["name"] not in ("clk", "rst")]
    widths = {"input": 0, "output": 0}
    connected = []
    for port in ports:
        direction, start = port["direction"], widths[port["direction"]]
        widths[direction] += port["width"]
        bits = f"[{widths[direction] - 1}:{start}]"
        signal = ("chain" if direction == "input" else "given") + bits
        connected.append({"name": port["name"], "signal": signal})
    reductions, sources = [], [{"name": "captured", "width": widths["output"]}]
    while sources[-1]["width"] > 4:
        reductions.append(-(-sources[-1]["width"] // 4))
        sources.append({"name": f"reduced{len(reductions) - 1}", "width": reductions[-1]})
    verilog = template("fit.v.jinja").render(
        design=name,
        inputs=widths["input"],
        outputs=widths["output"],
        ports=connected,
        reductions=reductions,
        sources=sources,
    )
    header = ", ".join(f"{port['direction']} [{port['width'] - 1}:0] {port['name']}" for port in ports)
    stub = f"(* blackbox *)\nmodule {name}(input clk, input rst, {header});\nendmodule\n"
    return verilog, stub

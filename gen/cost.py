"""What a design costs on a target, and what it does for that: cells, clock, throughput."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from skiptile.gen import placement, standard_cells, synthesis
from skiptile.gen.design import Design
from skiptile.gen.placement import Placement
from skiptile.gen.processes import ToolError
from skiptile.gen.targets import TARGETS, Library, Router, Target
from skiptile.gen.yosys import yosys_version

Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and a word on what they are."""

WORDS = {
    "lut": "LUTs",
    "ff": "flip-flops",
    "dsp": "DSP blocks",
    "bram": "block RAMs",
    "lutram": "LUT RAMs",
}
ZEROS = ("zeros_0.5", "zeros_0.7", "zeros_0.9")  # what `predicted_speedup` of a design that skips has
MANY_MULTIPLIERS = 128  # from here on synthesis takes so long that what can't fit is found out before
SURE_PART = 0.8  # of an estimate that must fit, or the whole will not
INSIDE = "dut."  # what is the design's own in the frame


class DesignTooBig(ToolError):
    """A design needs more than a device has; by how much of each."""


def find_target(name: str) -> Target:
    """The target ``name``.

    Raises:
        ValueError: there is none.
    """
    if name not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not {name!r}")
    return TARGETS[name]


def report(
    design: Design,
    target: str,
    *,
    seeds: int = 3,
    timeout: float = 3600,
    progress: Progress = lambda done, total, what: None,
) -> dict[str, Any]:
    """Synthesise ``design`` and, where the target has a tool for it, find out how fast it is.

    Args:
        target: one of `TARGETS`.
        seeds: placements, with seeds 1 .. ``seeds``.
        timeout: seconds for synthesis, and for each of them.
        progress: told how far it is.

    Returns:
        What docs/synthesis.md says, for JSON. What a target does not have is None.

    Raises:
        ValueError: an unknown target.
        DesignTooBig: for the device.
        ToolError: a tool is missing, fails, or runs out of time.
        YosysError: Yosys fails, or runs out of time.
        OSError: the cache cannot be written.
    """
    chosen = find_target(target)
    if chosen.missing:
        raise ToolError(chosen.missing)
    steps = 1 + (seeds if isinstance(chosen.timing, Router) else 0)
    progress(0, steps, f"{design.name}: synthesis")
    check_estimate(design, target, chosen, timeout=timeout)
    synthesised = synthesis.synthesise(design, chosen, timeout=timeout)
    check_capacity(design.name, synthesised.counts, target, chosen)
    following = {Router: "place and route", Library: "delays"}.get(type(chosen.timing), "synthesis")
    progress(1, steps, f"{design.name}: {following}")
    result = {
        "design": design.name,
        "target": target,
        **synthesised.counts,
        **dict.fromkeys(("area_um2", "delay_ns", "fmax_median_mhz", "critical_path", "frame_limits")),
        "fmax_mhz": [],
        "seconds": synthesised.seconds,
        "tools": {"yosys": yosys_version()},
    }
    if isinstance(chosen.timing, Router):
        framed, counts = synthesis.frame(synthesised, chosen, timeout=timeout)
        check_capacity(f"{design.name} in its frame", counts, target, chosen)
        placements = placement.place(
            framed,
            chosen.timing,
            range(1, seeds + 1),
            timeout=timeout,
            progress=lambda done, total: progress(1 + done, 1 + total, f"{design.name}: place and route"),
        )
        result["tools"][chosen.timing.name] = placement.router_version(chosen.timing)
        result |= _of_placements(placements)
        result["seconds"] += sum(each.seconds for each in placements)
    elif isinstance(chosen.timing, Library):
        figures = standard_cells.analyse(synthesised.text, design.name, chosen.timing, timeout=timeout)
        result["tools"]["opensta"] = standard_cells.sta_version()
        result |= _of_standard_cells(figures)
    result["seconds"] = round(result["seconds"], 1)
    result["throughput"] = throughput(design, result)
    return result


def check_estimate(design: Design, device: str, target: Target, *, timeout: float | None = None) -> None:
    """Raise `DesignTooBig` before a long synthesis, if what is estimated is well beyond the device.

    Args:
        device: its name.
        timeout: seconds.
    """
    if target.capacity and design.params.capacities.get("multipliers", 0) >= MANY_MULTIPLIERS:
        counts = synthesis.estimate(design, target, timeout=timeout)
        check_capacity(design.name, counts, device, target, part=SURE_PART)


def check_capacity(
    name: str, counts: Mapping[str, int | None], device: str, target: Target, *, part: float = 1
) -> None:
    """Raise `DesignTooBig` unless the device has enough of everything.

    Args:
        name: of the design.
        counts: what is in it, as `netlist.count` gives them.
        device: its name.
        part: of the counts that must fit; below 1 they are an estimate.
    """
    needs = {kind: count or 0 for kind, count in counts.items()}
    needs["lut"] += target.cells.luts_per_lutram * needs["lutram"]
    about = "about " if part < 1 else ""
    exceeded = [
        f"{about}{needs[kind]:,} {WORDS[kind]}, the device has {there:,}"
        for kind, there in target.capacity.items()
        if part * needs[kind] > there
    ]
    if exceeded:
        raise DesignTooBig(f"{name} is too big for {device}: it needs {'; '.join(exceeded)}")


def _of_placements(placements: Sequence[Placement]) -> dict[str, Any]:
    frequencies = [each.fmax_mhz for each in placements]
    typical = next(each for each in placements if each.fmax_mhz == statistics.median_low(frequencies))
    path = typical.path
    ends = (path[0]["from"], path[-1]["to"])
    steps = [step for step in path if step["kind"] != "clk-skew"]
    passed = (step[key] for step in steps for key in ("from", "net", "to"))
    names = [ends[0], *(name for name in passed if name.startswith(INSIDE)), ends[1]]
    return {
        "fmax_mhz": frequencies,
        "fmax_median_mhz": round(statistics.median(frequencies), 2),
        "critical_path": _path(names, sum(step["ns"] for step in path)),
        "frame_limits": not all(name.startswith(INSIDE) for name in ends),
    }


def _of_standard_cells(figures: standard_cells.Figures) -> dict[str, Any]:
    fmax = round(1000 / figures.delay_ns, 2)
    return {
        "area_um2": round(figures.area_um2, 1),
        "delay_ns": figures.delay_ns,
        "fmax_mhz": [fmax],
        "fmax_median_mhz": fmax,
        "critical_path": _path(figures.names, figures.delay_ns),
    }


def _path(names: Sequence[str], ns: float) -> dict[str, Any]:
    """A path in the design's own names, those that repeat said once."""
    own = [name.removeprefix(INSIDE) for name, _ in groupby(names)]
    own = [name for name, _ in groupby(name for name in own if name and not name.startswith("_"))]
    ends = (own[0], own[-1]) if own else ("", "")
    return {"from": ends[0], "to": ends[1], "ns": round(ns, 3), "through": own}


def throughput(design: Design, result: dict[str, Any]) -> dict[str, Any] | None:
    """Products per second, all of them and per cell: at peak, and worth as many with a share of random zeros.

    None where the clock is not known or the design has no multipliers.
    """
    multipliers = design.params.capacities.get("multipliers")
    if not multipliers or not result["fmax_median_mhz"]:
        return None
    speedups = {
        "peak": 1.0,
        **dict.fromkeys(ZEROS, 1.0),
        **design.params.describe().get("predicted_speedup", {}),
    }
    peak = multipliers * result["fmax_median_mhz"] * 1e6
    return {name: _per_cell(peak * factor, result) for name, factor in speedups.items()}


def _per_cell(products: float, result: dict[str, Any]) -> dict[str, float | None]:
    def per(amount: float | None) -> float | None:
        return round(products / amount) if amount else None

    area = result["area_um2"]
    return {
        "products_per_s": round(products),
        "per_lut": per(result["lut"]),
        "per_dsp": per(result["dsp"]),
        "per_mm2": per(area and area / 1e6),
    }

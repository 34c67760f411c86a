"""What designs cost, for people: a column for each design, and beside it its ratio to the first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from skiptile.report import plain

Report = Mapping[str, Any]
Value = float | int | None


@dataclass(frozen=True)
class Row:
    """A figure.

    Attributes:
        label: its name.
        value: of a report; None where it has none.
        text: of the value.
    """

    label: str
    value: Callable[[Report], Value]
    text: Callable[[Report], str]


def table(reports: Sequence[Report]) -> Table:
    """A rich table of what `skiptile.gen.cost.report` gives for one target; the first is the reference."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    result.add_column(plain(reports[0]["target"]))
    for index, report in enumerate(reports):
        result.add_column(plain(report["design"]), justify="right", overflow="fold")
        if index:
            result.add_column("ratio", justify="right")
    for row in _rows(reports):
        if all(row.value(report) is None for report in reports):
            continue
        reference, cells = row.value(reports[0]), [row.label]
        for index, report in enumerate(reports):
            cells.append(row.text(report) if row.value(report) is not None else "-")
            if index:
                cells.append(_ratio(row.value(report), reference))
        result.add_row(*map(Text, cells))
    return result


def paths(reports: Sequence[Report]) -> list[str]:
    """A line for each design that says where its clock is limited."""
    lines = []
    for report in reports:
        path = report["critical_path"]
        if path is None:
            continue
        way = " -> ".join(map(plain, path["through"]))
        line = f"{plain(report['design'])}: slowest path, {path['ns']:.2f} ns: {way}"
        if report["frame_limits"]:
            line += "; it touches the frame's registers, so the design alone may be faster"
        lines.append(line)
    return lines


def _rows(reports: Sequence[Report]) -> list[Row]:
    rates = [report["throughput"] for report in reports if report["throughput"]]
    skipped = [name for name in (rates or [{}])[0] if any(rate[name] != rate["peak"] for rate in rates)]
    return [
        _count("LUTs", "lut"),
        _count("carry cells", "carry"),
        _count("LUT RAMs", "lutram"),
        _count("flip-flops", "ff"),
        _count("DSP blocks", "dsp"),
        _count("block RAMs", "bram"),
        _count("gates", "gates"),
        _count("area, µm²", "area_um2"),
        Row("delay, ns", lambda report: report["delay_ns"], lambda report: f"{report['delay_ns']:.2f}"),
        Row("Fmax, MHz", lambda report: report["fmax_median_mhz"], _fmax),
        *(row for name in ("peak", *skipped) for row in _throughput(name)),
        Row("run time, s", lambda report: report["seconds"], lambda report: f"{report['seconds']:,.0f}"),
    ]


def _count(label: str, key: str) -> Row:
    return Row(label, lambda report: report[key], lambda report: f"{report[key]:,.0f}")


def _fmax(report: Report) -> str:
    least, most = min(report["fmax_mhz"]), max(report["fmax_mhz"])
    median = f"{report['fmax_median_mhz']:.1f}"
    return median if least == most else f"{median} ({least:.1f} .. {most:.1f})"


def _throughput(name: str) -> list[Row]:
    """Products per second, and per cell: at peak, or with random zeros."""
    what = "at peak" if name == "peak" else f"at {float(name.removeprefix('zeros_')):.0%} zeros"
    units = {
        "products_per_s": (f"products {what}, G/s", 1e9),
        "per_lut": ("  per LUT, M/s", 1e6),
        "per_dsp": ("  per DSP block, M/s", 1e6),
        "per_mm2": ("  per mm², G/s", 1e9),
    }

    def row(key: str, label: str, unit: float) -> Row:
        def value(report: Report) -> Value:
            return ((report["throughput"] or {}).get(name) or {}).get(key)

        return Row(label, value, lambda report: f"{(value(report) or 0) / unit:,.3f}")

    return [row(key, label, unit) for key, (label, unit) in units.items()]


def _ratio(value: Value, reference: Value) -> str:
    return f"{value / reference:.2f}" if value is not None and reference else "-"

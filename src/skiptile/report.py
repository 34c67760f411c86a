"""The results of a run, for people and for programs: a table, one line, JSON.

Results are the plain dict that ``skiptile run`` makes. Names in it are a user's text: whatever they hold,
they are shown, never run. A value that is undefined (None) is shown as "-".
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from skiptile.golden.files import write_atomically

Results = Mapping[str, Any]
Row = Mapping[str, Any]

ERROR = "of results against float64 of the real tensors: norm of the difference / norm; in totals the worst"
OVERFLOW = "results that lost a product too large for the accumulator's window"
EXACT = "every result compared, bit for bit, with the golden model; -: nothing was simulated"

_PASS_SHORT = {"input-gradient": "in-grad", "weight-gradient": "wt-grad"}


# Values as text


def plain(text: object) -> str:
    """One line without control characters, so that a name cannot steer a terminal or a browser."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def count(value: float | None) -> str:
    """A number of things with its thousands set apart."""
    return "-" if value is None else f"{value:,}"


def factor(value: float | None) -> str:
    """A speed-up."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.2f}x" if value < 100 else f"{value:,.0f}x"


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction in percent; only exact ones are 0 % and 100 %."""
    if value is None or not math.isfinite(value):
        return "-"
    text, least = f"{100 * value:.{digits}f}", 10.0**-digits
    if float(text) == 0 and value > 0:
        return f"<{least:.{digits}f}"
    if float(text) == 100 and value < 1:
        return f">{100 - least:.{digits}f}"
    return text


def deviation(value: float | None) -> str:
    """A relative error; only an exact nought is 0."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.1e}" if value else "0"


def change(before: float | None, after: float | None, digits: int = 1, arrow: str = "→") -> str:
    """Two fractions in percent, or one where they are the same."""
    first, second = percent(before, digits), percent(after, digits)
    return second if first == second else f"{first}{arrow}{second}"


def fact(value: object) -> str:
    """A free-form value: number, text, or a table of them."""
    if isinstance(value, dict):
        return ", ".join(f"{plain(name)} {fact(entry)}" for name, entry in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else plain(value)


def formats_used(formats: Mapping[str, str]) -> str:
    """The formats of the tensors: one, or the activations' and those that differ from it."""
    most = formats["activation"]
    others = [f", {name}s {formats[name]}" for name in ("weight", "gradient") if formats[name] != most]
    return plain(most + "".join(others))


def short_format(name: str) -> str:
    """A format's name where room is scarce: as in the names of a design's sisters."""
    return plain(name.removeprefix("float8_"))


def short_pass(name: str) -> str:
    """A pass's name, in as few letters as a table on a terminal has room for."""
    return _PASS_SHORT.get(name, plain(name))


def ratio(before: float | None, after: float | None) -> float | None:
    """How many times faster ``after`` is; None where either is unknown or no work."""
    return before / after if before and after else None


def differs(a: float | None, b: float | None) -> bool:
    """Whether two counts differ by more than 1 %, so that a reader must see both."""
    return a is not None and b is not None and abs(a - b) > 0.01 * min(a, b)


# What every view needs


def by_step(layers: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each training step, in the order given."""
    steps: dict[str, list[Row]] = {}
    for row in layers:
        steps.setdefault(row.get("step") or "", []).append(row)
    return steps


def _utilisation(rows: list[Row]) -> float | None:
    busy = [(row["utilisation"], row["cycles"]) for row in rows if row["cycles"]]
    if not busy or any(utilisation is None for utilisation, _ in busy):
        return None
    return sum(utilisation * cycles for utilisation, cycles in busy) / sum(cycles for _, cycles in busy)


def totals(results: Results) -> list[Row]:
    """A row per pass and one for all, with the utilisation that their layers have together."""
    layers = results["layers"]
    rows = [
        {**total, "layer": "all layers", "pass": name, "utilisation": _utilisation(members)}
        for name, total in results["passes"].items()
        for members in [[row for row in layers if row["pass"] == name]]
    ]
    return [
        *rows,
        {**results["total"], "layer": "all layers", "pass": "all", "utilisation": _utilisation(layers)},
    ]


def exactness(results: Results) -> tuple[bool | None, str]:
    """Whether all results that were compared are right, None if none was; and that in words."""
    if not results["layers"]:
        return False, "no results"
    verdicts = [row["exact"] for row in results["layers"] if row["exact"] is not None]
    if not verdicts:
        return None, "nothing was simulated, so nothing was compared"
    wrong = verdicts.count(False)
    if wrong:
        return False, f"{wrong} of {len(verdicts)} results NOT exact"
    if not results["total"]["exact"]:
        return False, "NOT exact in total"
    return True, f"all {len(verdicts)} results exact" if len(verdicts) > 1 else "the one result exact"


def mixed_formats(results: Results) -> bool:
    """Whether operands had more than one format, so that a reader must see which."""
    return len({row[key] for row in results["layers"] for key in ("format_a", "format_b")}) > 1


def legend(results: Results) -> list[tuple[str, str]]:
    """What the columns mean, in plain words."""
    words = _SYSTOLIC if results["kind"] == "systolic-tile" else _mac_tile(results)
    return [
        ("zeros a, b", "% of zeros in each operand: as real numbers → in the tile's number format"),
        *words.items(),
        ("error", ERROR),
        ("exact", EXACT),
    ]


def _mac_tile(results: Results) -> dict[str, str]:
    """What the columns mean that kinds of blocks count by their own rules."""
    steps = results["geometry"].get("lookahead", 0)
    most = str(steps + 1) if isinstance(steps, int) else "lookahead + 1"
    return {
        "side": "the operand whose zeros are skipped",
        "cycles": "clock cycles in which the tile issues products; dense: of the tile that skips nothing",
        "elapsed": "all clock cycles from the first input to the last result, waiting included",
        "ideal": "cycles if every lane of a row could take any remaining product of its reduction",
        "capped": f"the same, but at most {most} steps of a reduction finish in one cycle, as in the tile",
        "speed-up": "dense cycles / cycles; real zeros: with only the zeros that the real numbers have",
        "util": "share of multiplier slots in issue cycles that do useful work",
    }


_SYSTOLIC = {
    "side": "the operand that is the weights: the one that takes fewer cycles",
    "cycles": "clock cycles from the first input to the last result, as elapsed; dense: with dense weights",
    "ideal": "cycles if every multiplier worked in each of them; capped is the same",
    "speed-up": "dense cycles / cycles; real zeros: with only the zeros that the real numbers have",
    "util": "share of multipliers at work, on average",
}


def subject(results: Row) -> str:
    """What ran, on what, in which formats."""
    formats = formats_used(results["formats"])
    return f"{plain(results['workload'])} on {plain(results['design'])} in {formats}"


def summary(results: Results) -> str:
    """One line: how much faster, in which formats, and whether it is right."""
    passes = [f"{plain(name)} {factor(total['speedup'])}" for name, total in results["passes"].items()]
    by_pass = f" ({', '.join(passes)})" if passes else ""
    total = results["total"]
    lost = f", overflow {count(total['overflow'])} ({OVERFLOW})" if total["overflow"] else ""
    return (
        f"{subject(results)}: {factor(total['speedup'])} over dense{by_pass}, {exactness(results)[1]}{lost}"
    )


# The table


@dataclass(frozen=True)
class Column:
    """A column of a table on a terminal; what is not to be folded is never cut either."""

    header: str | Text
    cell: Callable[[Row, bool], str]  # of a row, in ASCII only
    in_totals: bool = True
    left: bool = False
    folds: bool = False
    style: Callable[[Row], str] = lambda _: ""

    def text(self, row: Row, ascii_only: bool) -> Text:
        return Text(self.cell(row, ascii_only), style=self.style(row))


def empty_table(columns: Iterable[Column], gap: int = 1, longest: int | None = None) -> Table:
    """A table of these columns, ``gap`` more than one space apart, of which some fold at ``longest``."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(
            column.header,
            justify="left" if column.left else "right",
            vertical="bottom",
            no_wrap=not column.folds,  # numbers stay whole
            overflow="fold",
            max_width=longest if column.folds else None,
        )
    return table


def legend_table(meanings: Iterable[tuple[str, str]], ascii_only: bool) -> Table:
    """What the columns mean, below a table."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, meaning in meanings:
        meaning = meaning.replace("→", "->") if ascii_only else meaning
        grid.add_row(Text(name, style="bold", no_wrap=True), Text(meaning, style="dim"))
    return grid


def _tick(row: Row, ascii_only: bool) -> str:
    if row["exact"] is None:
        return "-"
    return ("yes" if ascii_only else "✓") if row["exact"] else "NO"


ERROR_COLUMN = Column("error", lambda row, _: deviation(row["error"]))
EXACT_COLUMN = Column(
    "exact", _tick, style=lambda row: {True: "green", False: "bold red", None: "dim"}[row["exact"]]
)


def _short_count(value: int | None) -> str:
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if value is not None and value >= 10 * size:
            return f"{value / size:.5g}{unit}"
    return count(value)


def _zeros(operand: str) -> Column:
    def cell(row: Row, ascii_only: bool) -> str:
        before, after = row[f"zeros_{operand}_real"], row[f"zeros_{operand}"]
        return change(before, after, 0, ">" if ascii_only else "→")

    return Column(f"zeros\n{operand} %", cell, in_totals=False)


def _counted(header: str, key: str) -> Column:
    return Column(header, lambda row, _: _short_count(row[key]))


_LAYER = [
    Column("layer", lambda row, _: plain(row["layer"]), left=True, folds=True),
    Column("pass", lambda row, _: short_pass(row["pass"]), left=True),
]
_SHAPE = [
    Column(
        "m x k x n",
        lambda row, _: (
            (f"{row['groups']} * " if row["groups"] != 1 else "") + f"{row['m']} x {row['k']} x {row['n']}"
        ),
        in_totals=False,
    )
]
_ZEROS = [_zeros("a"), _zeros("b"), Column("side", lambda row, _: plain(row["side"]), in_totals=False)]
_CYCLES = [
    _counted("dense\ncycles", "dense_cycles"),
    _counted("cycles", "cycles"),
    _counted("ideal\ncycles", "ideal_cycles"),
    _counted("capped\nideal", "ideal_capped_cycles"),
]
_RATES = [
    Column("speed\nup", lambda row, _: factor(row["speedup"])),
    Column("real\nzeros", lambda row, _: factor(row["real_speedup"])),
    Column("util\n%", lambda row, _: percent(row["utilisation"], 0)),
]
_ELAPSED = [_counted("dense\nelapsed", "dense_elapsed"), _counted("elapsed", "elapsed")]
_RIGHT = [ERROR_COLUMN, EXACT_COLUMN]


class _ResultsTable:
    """Takes the form that the console has room for: one table, with shapes or without, or two narrow ones."""

    def __init__(self, results: Results):
        self._results = results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one = [*_LAYER, *_ZEROS, *_CYCLES, *_RATES, *_ELAPSED, *_RIGHT]
        two = [[*_LAYER, *_ZEROS, *_RATES, *_RIGHT], [*_LAYER, *_CYCLES, *_ELAPSED]]
        tables: list[Table] = []
        forms = [([one[:2] + _SHAPE + one[2:]], 1, 24), ([one], 1, 24), ([one], 0, 16), (two, 0, 24)]
        for columns_of_each, gap, longest in forms:
            tables = [self._table(columns, gap, longest, options.ascii_only) for columns in columns_of_each]
            unlimited = options.update(max_width=10_000)
            if max(Measurement.get(console, unlimited, t).maximum for t in tables) <= options.max_width:
                break
        for table in tables:
            yield table
            yield ""
        yield legend_table(legend(self._results), options.ascii_only)

    def _table(self, columns: list[Column], gap: int, longest_name: int, ascii_only: bool) -> Table:
        table = empty_table(columns, gap, longest_name)
        for step, rows in by_step(self._results["layers"]).items():
            if step:
                table.add_row(Text(plain(step), style="bold"))
            for row in rows:
                table.add_row(*(column.text(row, ascii_only) for column in columns))
            table.add_section()
        for row in totals(self._results):
            cells = [c.text(row, ascii_only) if c.in_totals else Text() for c in columns]
            table.add_row(*cells, style="bold" if row["pass"] == "all" else None)
        return table


def table(results: Results) -> _ResultsTable:
    """A rich renderable: a row per layer and pass, grouped by training step, then totals and a legend."""
    return _ResultsTable(results)


def write_json(results: Results, path: Path | str) -> None:
    """Write the results as strict JSON, whole or not at all; raises OSError with the path."""
    text = json.dumps(results, indent=1, allow_nan=False)
    write_atomically(Path(path), text.encode() + b"\n")

"""The results of a run, for people and for programs: a table, one line, JSON, and one HTML page.

Results are the plain dict that ``skiptile run`` makes. Names in it are a user's text: whatever they hold,
they are shown, never run. A value that is undefined (None) is shown as "-".
"""

import base64
import hashlib
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

from skiptile.gen.output import write_atomically

Results = Mapping[str, Any]
Row = Mapping[str, Any]

_PASS_SHORT = {"forward": "forward", "input-gradient": "in-grad", "weight-gradient": "wt-grad"}


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


def _totals(results: Results) -> list[Row]:
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


def _exactness(results: Results) -> tuple[bool | None, str]:
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


def _legend(results: Results) -> list[tuple[str, str]]:
    """What the columns mean, in plain words."""
    steps = results["geometry"].get("lookahead")
    most = "lookahead + 1" if steps is None else str(int(steps) + 1)
    return [
        ("zeros a, b", "% of zeros in each operand: as real numbers → in the tile's number format"),
        ("side", "the operand whose zeros are skipped"),
        ("cycles", "clock cycles in which the tile issues products; dense: of the tile that skips nothing"),
        ("elapsed", "all clock cycles from the first input to the last result, waiting included"),
        ("ideal", "cycles if every lane of a row could take any remaining product of its reduction"),
        ("capped", f"the same, but at most {most} steps of a reduction finish in one cycle, as in the tile"),
        ("speed-up", "dense cycles / cycles; real zeros: with only the zeros that the real numbers have"),
        ("util", "share of multiplier slots in issue cycles that do useful work"),
        ("exact", "every result compared, bit for bit, with the golden model; -: nothing was simulated"),
    ]


def summary(results: Results) -> str:
    """One line: how much faster, and whether it is right."""
    passes = ", ".join(
        f"{plain(name)} {factor(total['speedup'])}" for name, total in results["passes"].items()
    )
    speedup = factor(results["total"]["speedup"])
    return (
        f"{plain(results['workload'])} on {plain(results['design'])}: {speedup} over dense"
        f"{f' ({passes})' if passes else ''}, {_exactness(results)[1]}"
    )


# The table


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[Row, bool], str]  # of a row, in ASCII only
    in_totals: bool = True
    left: bool = False


def _short_count(value: int | None) -> str:
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if value is not None and value >= 10 * size:
            return f"{value / size:.5g}{unit}"
    return count(value)


def _zeros(operand: str) -> _Column:
    def cell(row: Row, ascii_only: bool) -> str:
        before, after = row[f"zeros_{operand}_real"], row[f"zeros_{operand}"]
        return change(before, after, 0, ">" if ascii_only else "→")

    return _Column(f"zeros\n{operand} %", cell, in_totals=False)


def _counted(header: str, key: str) -> _Column:
    return _Column(header, lambda row, _: _short_count(row[key]))


def _tick(row: Row, ascii_only: bool) -> str:
    if row["exact"] is None:
        return "-"
    return ("yes" if ascii_only else "✓") if row["exact"] else "NO"


_LAYER = [
    _Column("layer", lambda row, _: plain(row["layer"]), left=True),
    _Column("pass", lambda row, _: _PASS_SHORT.get(row["pass"], plain(row["pass"])), left=True),
]
_SHAPE = [
    _Column(
        "m x k x n",
        lambda row, _: (f"{row['groups']} * " if row["groups"] != 1 else "")
        + f"{row['m']} x {row['k']} x {row['n']}",
        in_totals=False,
    )
]
_ZEROS = [_zeros("a"), _zeros("b"), _Column("side", lambda row, _: plain(row["side"]), in_totals=False)]
_CYCLES = [
    _counted("dense\ncycles", "dense_cycles"),
    _counted("cycles", "cycles"),
    _counted("ideal\ncycles", "ideal_cycles"),
    _counted("capped\nideal", "ideal_capped_cycles"),
]
_RATES = [
    _Column("speed\nup", lambda row, _: factor(row["speedup"])),
    _Column("real\nzeros", lambda row, _: factor(row["real_speedup"])),
    _Column("util\n%", lambda row, _: percent(row["utilisation"], 0)),
]
_ELAPSED = [_counted("dense\nelapsed", "dense_elapsed"), _counted("elapsed", "elapsed")]
_EXACT = [_Column("exact", _tick)]


class _ResultsTable:
    """Takes the form that the console has room for: one table, with shapes or without, or two narrow ones."""

    def __init__(self, results: Results):
        self._results = results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one = [*_LAYER, *_ZEROS, *_CYCLES, *_RATES, *_ELAPSED, *_EXACT]
        two = [[*_LAYER, *_ZEROS, *_RATES, *_EXACT], [*_LAYER, *_CYCLES, *_ELAPSED]]
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
        legend = Table.grid(padding=(0, 2, 0, 0))
        for name, meaning in _legend(self._results):
            meaning = meaning.replace("→", "->") if options.ascii_only else meaning
            legend.add_row(Text(name, style="bold", no_wrap=True), Text(meaning, style="dim"))
        yield legend

    def _table(self, columns: list[_Column], gap: int, longest_name: int, ascii_only: bool) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False)
        for index, column in enumerate(columns):
            foldable = index == 0  # the layer's name, at most: numbers stay whole
            table.add_column(
                column.header,
                justify="left" if column.left else "right",
                vertical="bottom",
                no_wrap=not foldable,
                overflow="fold",
                max_width=longest_name if foldable else None,
            )
        for step, rows in by_step(self._results["layers"]).items():
            if step:
                table.add_row(Text(plain(step), style="bold"))
            for row in rows:
                table.add_row(*(self._cell(column, row, ascii_only) for column in columns))
            table.add_section()
        for row in _totals(self._results):
            cells = [self._cell(c, row, ascii_only) if c.in_totals else Text() for c in columns]
            table.add_row(*cells, style="bold" if row["pass"] == "all" else None)
        return table

    @staticmethod
    def _cell(column: _Column, row: Row, ascii_only: bool) -> Text:
        style = ""
        if column in _EXACT:
            style = {True: "green", False: "bold red", None: "dim"}[row["exact"]]
        return Text(column.cell(row, ascii_only), style=style)


def table(results: Results) -> _ResultsTable:
    """A rich renderable: a row per layer and pass, grouped by training step, then totals and a legend."""
    return _ResultsTable(results)


# Files


def write_json(results: Results, path: Path | str) -> None:
    """Write the results as strict JSON, whole or not at all; raises OSError with the path."""
    text = json.dumps(results, indent=1, allow_nan=False)
    write_atomically(Path(path), text.encode() + b"\n")


def write_html(results: Results, path: Path | str) -> None:
    """Write one page that needs no other file and no network, whole or not at all; raises OSError."""
    write_atomically(Path(path), html(results).encode())


def html(results: Results) -> str:
    """The page: facts, headline numbers, charts, and everything again as a table."""
    import jinja2  # slow to import, and needed for no other view
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from skiptile.charts import DRAW, make_charts

    charts = make_charts(results)
    data = json.dumps([json.loads(chart.figure.to_json() or "") for chart in charts], allow_nan=False)
    # Inside a script element no text is escaped, so nothing that could end it may be there.
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    scripts = [get_plotlyjs(), DRAW] if charts else []
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        plain=plain, count=count, factor=factor, percent=percent, fact=fact, words=_words
    )
    return environment.get_template("report.html.jinja").render(
        results=results,
        total=results["total"],
        steps=by_step(results["layers"]),
        totals=_totals(results),
        exactness=_exactness(results),
        legend=_legend(results),
        charts=charts,
        data=Markup(data),
        scripts=[Markup(script) for script in scripts],
        script_policy=" ".join(f"'sha256-{value}'" for value in hashes) or "'none'",
        change=change,
        ratio=ratio,
        differs=differs,
        verdict={True: "right", False: "wrong", None: "unknown"}.get,
        mark={True: "✓", False: "✗ no", None: "-"}.get,
    )


def _words(name: object) -> str:
    return plain(name).replace("_", " ")

"""Several runs side by side: a row for each, as a table on a terminal and as plain values."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from skiptile.report import (
    ERROR_COLUMN,
    EXACT,
    EXACT_COLUMN,
    OVERFLOW,
    Column,
    Results,
    Row,
    count,
    empty_table,
    exactness,
    factor,
    formats_used,
    legend_table,
    plain,
    ratio,
    short_pass,
    subject,
)

LEGEND = [
    ("speed-up", "dense cycles / cycles, of each pass and of all; elapsed: of all, waiting included"),
    (
        "error",
        "of a layer's results against float64 of the real tensors, at worst: norm of the difference / norm",
    ),
    ("overflow", OVERFLOW),
    ("exact", EXACT),
]


def compare(runs: Iterable[Results]) -> list[dict[str, Any]]:
    """A row per run: what ran, its speed-ups in cycles and in elapsed cycles, its worst error."""
    return [
        {
            "design": run["design"],
            "workload": run["workload"],
            "engine": run["engine"],
            "formats": {name: run["formats"][name] for name in ("activation", "weight", "gradient")},
            "passes": {name: total["speedup"] for name, total in run["passes"].items()},
            "speedup": run["total"]["speedup"],
            "elapsed_speedup": ratio(run["total"]["dense_elapsed"], run["total"]["elapsed"]),
            "error": run["total"]["error"],
            "overflow": run["total"]["overflow"],
            "exact": exactness(run)[0],
        }
        for run in runs
    ]


def pass_names(rows: Iterable[Row]) -> list[str]:
    """The passes that any of the runs has, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row["passes"]))


def differing(rows: Sequence[Row], keys: Iterable[str]) -> list[str]:
    """Those of the keys in which the runs are not all the same."""
    return [key for key in keys if any(row[key] != rows[0][key] for row in rows)]


def run_names(rows: Sequence[Row]) -> list[str]:
    """What tells the runs apart, in as few words as do; a number where nothing does."""
    keys = differing(rows, ("workload", "design", "formats", "engine")) or ["design"]
    names = [
        ", ".join(formats_used(row[key]) if key == "formats" else plain(row[key]) for key in keys)
        for row in rows
    ]
    return names if len(set(names)) == len(names) else [f"{i}: {name}" for i, name in enumerate(names, 1)]


class _ComparisonTable:
    """A row per run; names fold where the console is narrow, numbers do not."""

    def __init__(self, rows: Sequence[Row]):
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            *_naming(self._rows),
            *(_pass(name) for name in pass_names(self._rows)),
            Column("speed\nup", lambda row, _: factor(row["speedup"])),
            Column("elapsed", lambda row, _: factor(row["elapsed_speedup"])),
            ERROR_COLUMN,
            Column("over\nflow", lambda row, _: count(row["overflow"])),
            EXACT_COLUMN,
        ]
        table = empty_table(columns, gap=1 if options.max_width >= 100 else 0)
        for row in self._rows:
            table.add_row(*(column.text(row, options.ascii_only) for column in columns))
        yield table
        yield ""
        yield legend_table(LEGEND, options.ascii_only)


def _naming(rows: Sequence[Row]) -> list[Column]:
    """Columns for design and formats; one for all, which folds better, where there is more to name."""
    more = differing(rows, ("workload", "engine"))
    if not more:
        return [
            _named("design", lambda row: plain(row["design"])),
            _named("formats", lambda row: formats_used(row["formats"])),
        ]
    return [
        _named("run", lambda row: subject(row) + (f", {plain(row['engine'])}" if "engine" in more else ""))
    ]


def _named(header: str, name: Callable[[Row], str]) -> Column:
    return Column(header, lambda row, _: name(row), left=True, folds=True)


def _pass(name: str) -> Column:
    return Column(Text(short_pass(name)), lambda row, _: factor(row["passes"].get(name)))


def table(rows: Sequence[Row]) -> _ComparisonTable:
    """A rich renderable of the rows of `compare`."""
    return _ComparisonTable(rows)

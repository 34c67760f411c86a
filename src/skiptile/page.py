"""The HTML page of one run, or of several with their comparison on top."""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from skiptile import report
from skiptile.charts import DRAW, Chart, make_charts
from skiptile.comparison import LEGEND, compare, differing, pass_names, run_names
from skiptile.comparison_charts import make_comparison_charts
from skiptile.golden.files import write_atomically
from skiptile.report import Results


def write_html(runs: Sequence[Results], path: Path | str) -> None:
    """Write one page that needs no other file and no network, whole or not at all; raises OSError."""
    write_atomically(Path(path), html(runs).encode())


def html(runs: Sequence[Results]) -> str:
    """The page: of each run its facts, headline numbers, charts, and everything again as a table.

    Several runs are folded, each under its own heading, below a table and charts that set them side by side.
    """
    figures: list[Chart] = []

    def placed(charts: list[Chart]) -> list[tuple[int, Chart]]:
        """The charts with their places among all of the page's."""
        figures.extend(charts)
        return list(enumerate(charts, len(figures) - len(charts)))

    comparison = _comparison(runs, placed(make_comparison_charts(runs))) if len(runs) > 1 else None
    views = [_view(run, placed(make_charts(run))) for run in runs]
    data = json.dumps([json.loads(chart.figure.to_json() or "") for chart in figures], allow_nan=False)
    # Inside a script element no text is escaped, so nothing that could end it may be there.
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    scripts = [get_plotlyjs(), DRAW] if figures else []
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            title=comparison["title"] if comparison else views[0]["title"],
            comparison=comparison,
            runs=views,
            data=Markup(data),
            scripts=[Markup(script) for script in scripts],
            script_policy=" ".join(f"'sha256-{value}'" for value in hashes) or "'none'",
        )
    )


def _view(results: Results, charts: list[tuple[int, Chart]]) -> dict[str, Any]:
    """What the page shows of a run."""
    return {
        "title": f"{report.plain(results['workload'])} on {report.plain(results['design'])}",
        "results": results,
        "total": results["total"],
        "steps": report.by_step(results["layers"]),
        "totals": report.totals(results),
        "exactness": report.exactness(results),
        "legend": report.legend(results),
        "mixed": report.mixed_formats(results),
        "charts": charts,
    }


def _comparison(runs: Sequence[Results], charts: list[tuple[int, Chart]]) -> dict[str, Any]:
    """What the page shows of several runs side by side."""
    rows = compare(runs)
    shared = [key for key in ("workload", "design") if not differing(rows, [key])]
    subject = " on ".join(report.plain(rows[0][key]) for key in shared)
    return {
        "title": f"{subject}: {len(rows)} runs" if subject else f"{len(rows)} runs",
        "rows": rows,
        "names": run_names(rows),
        "passes": pass_names(rows),
        "differing": differing(rows, ("workload", "engine")),
        "legend": LEGEND,
        "charts": charts,
    }


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        plain=report.plain,
        count=report.count,
        factor=report.factor,
        percent=report.percent,
        deviation=report.deviation,
        fact=report.fact,
        formats=report.formats_used,
        short_format=report.short_format,
        words=lambda name: report.plain(name).replace("_", " "),
    )
    environment.globals.update(
        change=report.change,
        ratio=report.ratio,
        differs=report.differs,
        verdict={True: "right", False: "wrong", None: "unknown"}.get,
        mark={True: "✓", False: "✗ no", None: "-"}.get,
    )
    return environment

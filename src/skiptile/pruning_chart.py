"""The chart of a pruning study, accuracy against speed-up, and the page that shows it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import plotly.graph_objects as go
from markupsafe import Markup

from skiptile.charts import APART, AXIS_TITLE, BASELINE, LAYOUT, Y_AXIS, Chart, label
from skiptile.golden.files import write_atomically
from skiptile.report import count, factor, percent

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")

Row = Mapping[str, Any]


def make_pruning_chart(rows: Sequence[Row], reference: str) -> Chart:
    """Accuracy after fine-tuning against the speed-up over ``reference``; ValueError if no row has one.

    A mark for each row, its colour by scheme, its symbol by hardware; a line from one sparsity to the next.

    Args:
        rows: each with ``scheme``, ``hardware``, ``sparsity``, ``sparsity_reached``, ``dense_accuracy``,
            ``pruned_accuracy``, ``tuned_accuracy`` (0 .. 1), ``elapsed`` (clock cycles), and ``speedups``: by
            the name of what was measured as a reference, or None.
        reference: one of those names.
    """
    drawn = [row for row in rows if row["speedups"].get(reference)]
    if not drawn:
        raise ValueError(f"rows must have a speed-up over {reference!r}, but none has")
    schemes, hardware = (list(dict.fromkeys(row[key] for row in drawn)) for key in ("scheme", "hardware"))
    figure = go.Figure()
    figure.update_layout(LAYOUT, height=620, hovermode="closest")
    # a list of this length needs a place of its own: beside the marks it would cover them
    figure.update_layout(margin={"b": 64}, legend={"yref": "paper", "y": -0.14})
    for scheme, name in dict.fromkeys((row["scheme"], row["hardware"]) for row in drawn):
        own = [row for row in drawn if (row["scheme"], row["hardware"]) == (scheme, name)]
        color = APART[schemes.index(scheme) % len(APART)]
        figure.add_scatter(
            x=[row["speedups"][reference] for row in own],
            y=[100 * row["tuned_accuracy"] for row in own],
            mode="lines+markers+text",
            name=f"{label(scheme)}: {label(name)}",
            line={"color": color, "width": 1.5, "dash": "dot"},
            marker={"color": color, "size": 11, "symbol": SYMBOLS[hardware.index(name) % len(SYMBOLS)]},
            text=[percent(row["sparsity_reached"], 0) if row["sparsity"] else "" for row in own],
            textposition="top center",
            textfont={"color": color, "size": 11},
            hoverinfo="text",
            hovertext=[_hover(row) for row in own],
            cliponaxis=False,
        )
    trained = 100 * drawn[0]["dense_accuracy"]
    figure.add_hline(y=trained, line=BASELINE)
    least = min(100 * row["tuned_accuracy"] for row in drawn)
    figure.update_yaxes(
        Y_AXIS, range=[least - 0.5, max(100, trained) + 0.2], title={"text": "accuracy [%]", **AXIS_TITLE}
    )
    figure.update_yaxes(zeroline=False)
    figure.update_xaxes(
        Y_AXIS, rangemode="tozero", title={"text": f"speed-up over {label(reference)} [x]", **AXIS_TITLE}
    )
    return Chart(
        "Accuracy against speed-up",
        "On test images after fine-tuning, against elapsed clock cycles; the number at a mark is the share "
        "of zeros in the pruned layers' weights, in percent. Dashed: the accuracy before pruning.",
        figure,
        560,
    )


def write_pruning_page(rows: Sequence[Row], reference: str, title: str, path: Path) -> None:
    """Write the chart as one page that needs no other file and no network, whole or not at all.

    Raises ValueError as `make_pruning_chart`, and OSError.
    """
    chart = make_pruning_chart(rows, reference)
    drawn = chart.figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        div_id="chart",  # plotly's own are random
        config={
            "displaylogo": False,
            "responsive": True,
            "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
        },
    )
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    template = environment.get_template("pruning.html.jinja")
    page = template.render(title=title, chart=chart, drawn=Markup(drawn))
    write_atomically(path, page.encode())


def _hover(row: Row) -> str:
    zeros = f", {percent(row['sparsity_reached'])} % zeros" if row["sparsity"] else ""
    speedups = [f"{factor(value)} over {label(name)}" for name, value in row["speedups"].items() if value]
    return "<br>".join(
        [
            f"<b>{label(row['scheme'])}</b>{zeros}",
            f"{label(row['hardware'])}: elapsed {count(row['elapsed'])}",
            *speedups,
            f"accuracy {percent(row['dense_accuracy'])} % dense, {percent(row['pruned_accuracy'])} % pruned, "
            f"{percent(row['tuned_accuracy'])} % fine-tuned",
        ]
    )

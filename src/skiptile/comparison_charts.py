"""The charts that set several runs side by side."""

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from skiptile.charts import (
    APART,
    AXIS_TITLE,
    BASELINE,
    LAYOUT,
    Y_AXIS,
    Chart,
    hover,
    label,
    same_scale,
    words,
)
from skiptile.comparison import compare, pass_names, run_names
from skiptile.report import Results, deviation, factor


def make_comparison_charts(runs: Sequence[Results]) -> list[Chart]:
    """Speed-up by pass and run, and the errors of each run; none where no run has a layer."""
    if not any(run["layers"] for run in runs):
        return []
    return [
        Chart(
            "Speed-up by pass and run",
            "Dense cycles over cycles, all layers and training steps together. Dashed: the dense tile.",
            _speedups(runs),
            200 + 4 * 24 * len(runs),
        ),
        Chart(
            "Error by run",
            "Of results against float64 of the real tensors: norm of the difference over the norm, a dot for "
            "each layer and step. The scale is logarithmic and has no place for 0, which stands as a word "
            "where a pass has no other error; - where it has none at all.",
            _errors(runs),
            200 + 120 * len(runs),
        ),
    ]


def _speedups(runs: Sequence[Results]) -> go.Figure:
    rows = compare(runs)
    places = [*pass_names(rows), "all"]
    figure = _figure("speed-up [x]", [label(place) for place in places])
    width = 0.8 / len(rows)
    for index, (name, row) in enumerate(zip(run_names(rows), rows, strict=True)):
        values = [*(row["passes"].get(place) for place in places[:-1]), row["speedup"]]
        at = [place + (index - (len(rows) - 1) / 2) * width for place in range(len(places))]
        figure.add_bar(
            x=at,
            y=values,
            width=0.95 * width,
            name=label(name),
            marker={"color": _color(index)},
            hoverinfo="text",
            hovertext=[
                f"<b>{label(name)}</b><br>{label(place)}: {factor(value)}"
                for place, value in zip(places, values, strict=True)
            ],
        )
        undefined = {x: "-" for x, value in zip(at, values, strict=True) if value is None}
        if undefined:
            figure.add_trace(words(undefined))
    same_scale(figure, least=1)
    figure.add_hline(y=1, line=BASELINE)
    return figure


def _errors(runs: Sequence[Results]) -> go.Figure:
    rows = compare(runs)
    names, passes = run_names(rows), pass_names(rows)
    figure = _figure("error", [label(name).replace(", ", ",<br>") for name in names])
    layers = [row for run in runs for row in run["layers"]]
    known = [row["error"] for row in layers if row["error"]] or [1.0]
    lowest, highest = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    figure.update_yaxes(type="log", range=[lowest - 0.1, max(highest, lowest + 1) + 0.1], tickformat=".0e")
    figure.update_yaxes(dtick=1 + (highest - lowest) // 10)
    for index, name in enumerate(passes):
        dots: dict[str, list[Any]] = {"x": [], "y": [], "hovertext": []}
        empty: dict[float, str] = {}
        for place, (run, run_name) in enumerate(zip(runs, names, strict=True)):
            x = place + (index - (len(passes) - 1) / 2) * 0.6 / len(passes)
            drawn = [row for row in run["layers"] if row["pass"] == name and row["error"]]
            dots["x"] += [x] * len(drawn)
            dots["y"] += [row["error"] for row in drawn]
            dots["hovertext"] += [f"{label(run_name)}<br>{hover(row)}" for row in drawn]
            if not drawn:
                empty[x] = deviation(run["passes"].get(name, {}).get("error"))
        marker = {"color": _color(index), "size": 9, "opacity": 0.6}
        figure.add_scatter(**dots, mode="markers", name=label(name), marker=marker, hoverinfo="text")
        if empty:
            figure.add_trace(words(empty, height=10.0**lowest))
    return figure


def _figure(y_title: str, places: list[str]) -> go.Figure:
    """An empty panel with these words along x, at 0, 1, 2 ..."""
    figure = go.Figure()
    figure.update_layout(LAYOUT, height=360, showlegend=True)
    room = max(0, 4 - len(places)) / 2 + 0.6  # few places do not get giant bars
    figure.update_xaxes(
        tickvals=list(range(len(places))),
        ticktext=places,
        range=[-room, len(places) - 1 + room],
        showgrid=False,
        zeroline=False,
        automargin=True,
    )
    figure.update_yaxes(Y_AXIS, title={"text": y_title, **AXIS_TITLE}, automargin=True)
    return figure


def _color(index: int) -> str:
    return APART[index % len(APART)]

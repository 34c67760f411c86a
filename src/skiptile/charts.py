"""The charts of the HTML report.

Plotly reads its labels as a little HTML of its own, so every name passes through ``label`` on its way there.
"""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skiptile.report import Results, Row, change, count, deviation, factor, percent, plain, ratio

# Okabe and Ito's palette, which colour-blind readers can tell apart; the steps of a training, which have an
# order, in one hue from light to dark.
_STEPS = ["#a6cee8", "#4a97cf", "#0a4f87", "#062b4a"]
_ORANGE, _VERMILLION, _GREY, _INK, _GRID = "#e69f00", "#d55e00", "#8a94a0", "#1c2630", "#e3e8ed"
APART = ["#0072b2", _ORANGE, "#009e73", "#cc79a7", "#56b4e9", _VERMILLION]
BASELINE = {"color": _INK, "width": 1, "dash": "dash"}
LAYOUT: dict[str, Any] = {
    "template": "none",
    "barmode": "overlay",
    "margin": {"l": 64, "r": 16, "t": 64, "b": 40},
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": _INK},
    "legend": {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"},
    "hoverlabel": {"bgcolor": "white", "bordercolor": _GREY, "font": {"color": _INK}, "align": "left"},
    "modebar": {"bgcolor": "white", "color": _GREY, "activecolor": _INK},
}
Y_AXIS: dict[str, Any] = {"gridcolor": _GRID, "zeroline": True, "zerolinecolor": _GREY, "tickformat": ","}
AXIS_TITLE: dict[str, Any] = {"standoff": 8, "font": {"size": 13}}
_LABEL_LENGTH = 18

# Draws what the page carries as data, so that no script is ever made from names; what is folded away has no
# width to draw in, and waits.
DRAW = """
for (const [index, figure] of JSON.parse(document.getElementById("figures").textContent).entries()) {
  const place = document.getElementById("chart-" + index);
  const folded = place.closest("details:not([open])");
  const draw = () => Plotly.newPlot(place, figure.data, figure.layout, {
    displaylogo: false, responsive: true,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  });
  if (folded) folded.addEventListener("toggle", draw, {once: true}); else draw();
}
"""

Value = Callable[[Row, str], float | None]  # of a row, and of the operand that the panel shows


@dataclass(frozen=True)
class Chart:
    """A figure, with what the page says about it and the width in pixels below which it cannot be read."""

    title: str
    text: str
    figure: go.Figure
    min_width: int


@dataclass(frozen=True)
class _Series:
    """One quantity of every layer and pass: a bar per step, or a mark on each bar."""

    name: str
    value: Value
    symbol: str = ""  # of the mark; none: a bar
    color: str = ""


def label(text: object) -> str:
    """Any text as plotly shows it verbatim."""
    return html.escape(plain(text), quote=False)


def make_charts(results: Results) -> list[Chart]:
    """The charts of a run; none where there is no layer."""
    if not results["layers"]:
        return []
    grid = _Grid(results)
    speedup = grid.figure(
        [
            _Series("speed-up", lambda row, _: row["speedup"]),
            _Series(
                "capped ideal",
                lambda row, _: ratio(row["dense_cycles"], row["ideal_capped_cycles"]),
                "line-ew-open",
                _VERMILLION,
            ),
            _Series("zeros of real numbers alone", lambda row, _: row["real_speedup"], "circle", _ORANGE),
        ],
        "speed-up [x]",
    )
    speedup.add_hline(y=1, line=BASELINE)
    zeros = grid.figure(
        [
            _Series("as in the tile's format", lambda row, operand: row[f"zeros_{operand}"]),
            _Series("as real numbers", lambda row, operand: row[f"zeros_{operand}_real"], "circle", _ORANGE),
        ],
        "zeros [%]",
        columns=("a", "b"),
        percent=True,
    )
    utilisation = grid.figure(
        [
            _Series("sparse tile", lambda row, _: row["utilisation"]),
            _Series("dense tile, same work", _dense_utilisation, "diamond", _ORANGE),
        ],
        "utilisation [%]",
        percent=True,
    )
    return [
        Chart(
            "Speed-up",
            "Dense cycles over cycles, per layer and pass; the dashed line is the dense tile. The capped "
            "ideal is the most that the window, or a systolic tile's multipliers, allow; the dot is the "
            "speed-up from the zeros of the real numbers alone, without those that rounding to the tile's "
            "format makes.",
            speedup,
            grid.min_width(1),
        ),
        Chart(
            "Zeros",
            "Share of zeros in each operand, before and after the numbers are rounded to the tile's format.",
            zeros,
            grid.min_width(2),
        ),
        Chart(
            "Utilisation",
            "Share of multiplier slots in issue cycles that do useful work: a non-zero pair, scheduled once. "
            "The diamond is the same useful work spread over the dense tile's cycles.",
            utilisation,
            grid.min_width(1),
        ),
        Chart(
            "Cycles and elapsed",
            "Clock cycles of both tiles, all training steps together. Cycles are those in which products are "
            "issued; elapsed counts every clock from the first input to the last result. Where the two "
            "differ, the tile waits: for input, for the end of a reduction, or for its results to leave.",
            grid.cycles_figure(),
            grid.min_width(1, bars=4),
        ),
    ]


def _dense_utilisation(row: Row, _: str) -> float | None:
    slower = ratio(row["dense_cycles"], row["cycles"])
    return None if slower is None or row["utilisation"] is None else row["utilisation"] / slower


class _Grid:
    """A panel per pass, all with the same layers along x, and a place for each step's bar at its layer."""

    def __init__(self, results: Results):
        self._rows: list[Row] = results["layers"]
        self._passes = list(dict.fromkeys(row["pass"] for row in self._rows))
        self._layers = list(dict.fromkeys(row["layer"] for row in self._rows))
        self._steps = list(dict.fromkeys(row["step"] or "" for row in self._rows))

    def min_width(self, columns: int, bars: int | None = None) -> int:
        return 160 + columns * len(self._layers) * (10 * (bars or len(self._steps)) + 8)

    def figure(
        self, series: list[_Series], y_title: str, columns: tuple[str, ...] = ("",), percent: bool = False
    ) -> go.Figure:
        figure = self._panels(y_title, columns, percent)
        scale = 100 if percent else 1
        for one in series:
            for index, step in enumerate([""] if one.symbol else self._steps):
                for at, operand, rows in self._panel_rows(columns):
                    own = rows if one.symbol else [row for row in rows if (row["step"] or "") == step]
                    values = [one.value(row, operand) for row in own]
                    trace: dict[str, Any] = {
                        "x": [self._x(row) for row in own],
                        "y": [None if value is None else scale * value for value in values],
                        "name": f"{one.name}, {label(step)}" if step else one.name,
                        "legendgroup": f"{one.name} {index}",
                        "showlegend": at == (1, 1),
                        "hoverinfo": "text",
                        "hovertext": [hover(row) for row in own],
                    }
                    figure.add_trace(self._shaped(one, index, trace), row=at[0], col=at[1])
                    if not one.symbol:
                        self._mark_undefined(figure, at, trace)
        same_scale(figure, least=100 if percent else 1)
        return figure

    def cycles_figure(self) -> go.Figure:
        figure = self._panels("clock cycles", ("",), percent=False)
        kinds = [
            ("dense cycles", "dense_cycles", "#c3cad1"),
            ("dense elapsed", "dense_elapsed", _GREY),
            ("sparse cycles", "cycles", _STEPS[0]),
            ("sparse elapsed", "elapsed", _STEPS[2]),
        ]
        for index, (name, key, color) in enumerate(kinds):
            for at, _, rows in self._panel_rows(("",)):
                layers = list(dict.fromkeys(row["layer"] for row in rows))
                sums = [_sum(row[key] for row in rows if row["layer"] == layer) for layer in layers]
                trace: dict[str, Any] = {
                    "x": [self._layers.index(layer) + (index - 1.5) * 0.2 for layer in layers],
                    "y": sums,
                    "name": name,
                    "legendgroup": name,
                    "showlegend": at == (1, 1),
                    "hoverinfo": "text",
                    "hovertext": [
                        f"<b>{label(layer)}</b><br>{name}: {count(value)}"
                        for layer, value in zip(layers, sums, strict=True)
                    ],
                }
                figure.add_trace(go.Bar(**trace, width=0.19, marker={"color": color}), row=at[0], col=at[1])
                self._mark_undefined(figure, at, trace)
        same_scale(figure, least=1)
        return figure

    def _panels(self, y_title: str, columns: tuple[str, ...], percent: bool) -> go.Figure:
        count, height, gap = len(self._passes), 190, 0.04
        titles = [
            f"<b>{label(name)}</b>" + (f", operand {operand}" if operand else "")
            for name in self._passes
            for operand in columns
        ]
        total = height * count + 130
        figure = make_subplots(
            rows=count,
            cols=len(columns),
            shared_xaxes=True,
            shared_yaxes=True,
            subplot_titles=titles,
            vertical_spacing=36 / total if count > 1 else 0,
            horizontal_spacing=gap,
        )
        figure.update_layout(LAYOUT, height=total)
        for index in range(len(titles)):  # plotly puts them in the middle
            left = index % len(columns) * (1 + gap) / len(columns)
            figure.update_annotations(x=left, xanchor="left", font={"size": 13}, selector=index)
        places = list(range(len(self._layers)))
        room = max(0, 4 - len(places)) / 2 + 0.6  # few layers do not get giant bars
        figure.update_xaxes(
            tickvals=places,
            ticktext=[label(_shortened(layer)) for layer in self._layers],
            range=[-room, len(places) - 1 + room],
            showgrid=False,
            zeroline=False,
            automargin=True,
        )
        figure.update_yaxes(Y_AXIS)
        figure.update_yaxes(title={"text": y_title, **AXIS_TITLE}, automargin=True, col=1)
        if percent:
            figure.update_yaxes(tickvals=[0, 25, 50, 75, 100])
        figure.update_xaxes(title={"text": "layer", **AXIS_TITLE}, row=count)
        return figure

    def _panel_rows(self, columns: tuple[str, ...]) -> list[tuple[tuple[int, int], str, list[Row]]]:
        return [
            ((1 + index, 1 + column), operand, [row for row in self._rows if row["pass"] == name])
            for index, name in enumerate(self._passes)
            for column, operand in enumerate(columns)
        ]

    def _x(self, row: Row) -> float:
        middle = (len(self._steps) - 1) / 2
        offset = (self._steps.index(row["step"] or "") - middle) * 0.8 / len(self._steps)
        return self._layers.index(row["layer"]) + offset

    def _shaped(self, series: _Series, index: int, trace: dict[str, Any]) -> go.Bar | go.Scatter:
        if not series.symbol:
            # One step alone takes the middle hue.
            color = _STEPS[min(index, len(_STEPS) - 1)] if len(self._steps) > 1 else _STEPS[1]
            return go.Bar(**trace, width=0.76 / len(self._steps), marker={"color": color})
        marker: dict[str, Any] = {"symbol": series.symbol, "color": series.color, "size": 7}
        if series.symbol.startswith("line"):
            marker |= {"size": 11, "line": {"width": 2.5, "color": series.color}}
        else:
            marker |= {"line": {"width": 1, "color": _INK}}
        return go.Scatter(**trace, mode="markers", marker=marker, cliponaxis=False)

    @staticmethod
    def _mark_undefined(figure: go.Figure, at: tuple[int, int], trace: dict[str, Any]) -> None:
        """A dash where there is no bar, so that undefined is not read as nought."""
        places = [x for x, y in zip(trace["x"], trace["y"], strict=True) if y is None]
        if places:
            figure.add_trace(words(dict.fromkeys(places, "-")), row=at[0], col=at[1])


def words(texts: dict[float, str], height: float = 0) -> go.Scatter:
    """Short words at places along x, where there is no value to draw."""
    return go.Scatter(
        x=list(texts),
        y=[height] * len(texts),
        mode="text",
        text=list(texts.values()),
        textfont={"size": 18},
        textposition="top center",
        hoverinfo="skip",
        showlegend=False,
    )


def same_scale(figure: go.Figure, least: float) -> None:
    """Panels to be compared have one scale, from nought."""
    values = [value for trace in figure.to_dict()["data"] for value in trace["y"] if value is not None]
    figure.update_yaxes(range=[0, 1.1 * max([least, *values])])


def _shortened(name: object) -> str:
    text = plain(name)
    half = _LABEL_LENGTH // 2  # names of layers often differ at their ends only
    return text if len(text) <= _LABEL_LENGTH else f"{text[:half]}…{text[-half:]}"


def _sum(values: Any) -> int | None:
    values = list(values)
    return None if any(value is None for value in values) else sum(values)


def hover(row: Row) -> str:
    """All about one layer and pass."""
    step = f", {label(row['step'])}" if row["step"] else ""
    capped = ratio(row["dense_cycles"], row["ideal_capped_cycles"])
    lines = [
        f"<b>{label(row['layer'])}</b>, {label(row['pass'])}{step}",
        f"speed-up {factor(row['speedup'])}, capped ideal {factor(capped)}, "
        f"from real zeros {factor(row['real_speedup'])}",
        f"cycles {count(row['dense_cycles'])} dense, {count(row['cycles'])} sparse",
        f"elapsed {count(row['dense_elapsed'])} dense, {count(row['elapsed'])} sparse",
        f"zeros a {_zeros(row, 'a')} %, b {_zeros(row, 'b')} %, skipped on {label(row['side'])}",
        f"utilisation {label(percent(row['utilisation']))} %",
        f"{label(row['format_a'])} x {label(row['format_b'])}: error {deviation(row['error'])}",
    ]
    return "<br>".join(lines)


def _zeros(row: Row, operand: str) -> str:
    return label(change(row[f"zeros_{operand}_real"], row[f"zeros_{operand}"]))

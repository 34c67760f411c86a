"""The page and its charts, of one run and of several."""

import base64
import hashlib
import html
import json
import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from made_up_results import CASES, CNN, HOSTILE, PASSES, RUNS, make, overflowing

from skiptile import charts, comparison, page, report
from skiptile.comparison_charts import make_comparison_charts


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def results(case):
    return CASES[case]


class Page(HTMLParser):
    """What a browser would make of the page: elements, attributes, text, scripts."""

    VOID = ("meta", "link", "img", "br")
    TAGS = (
        *("html", "head", "meta", "link", "title", "style", "body", "main", "header", "h1", "h2", "h3", "p"),
        *("dl", "dt", "dd", "div", "b", "span", "small", "section", "noscript", "details", "summary", "a"),
        *("table", "thead", "tbody", "tr", "th", "td", "br", "script"),
    )

    def __init__(self, text):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.cells: list[str] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append("")
        if tag == "td":
            self.cells.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[-1] += data
        elif "td" in self.open:
            self.cells[-1] += data
        if inside not in ("script", "style"):
            self.words += data


@cache
def page_of(case: str) -> Page:
    return Page(page.html(RUNS[case]))


@pytest.mark.parametrize("case", RUNS)
def test_page_is_well_formed_and_self_contained(case):
    page = page_of(case)
    assert page.open == []
    assert set(page.tags) <= set(Page.TAGS)
    loads = [value for name, value in page.attributes if name in ("src", "href", "srcset", "action", "data")]
    several = len(RUNS[case]) > 1
    assert loads == ["data:,", *(f"#run-{i}" for i, _ in enumerate(RUNS[case], 1) if several)]
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert len(page.scripts) == (3 if any(run["layers"] for run in RUNS[case]) else 0)


def test_page_has_every_value_in_its_table_without_scripts(case, results):
    page = page_of(case)
    mixed = case in ("fp8", "hostile")
    columns = 17 + mixed
    assert len(page.cells) == columns * (len(results["layers"]) + len(results["passes"]) + 1)
    for index, row in enumerate(results["layers"]):
        cells = page.cells[columns * index : columns * (index + 1)]
        assert cells[0] == report.plain(row["layer"])
        assert cells[1] == report.plain(row["pass"])
        assert cells[6 + mixed] == f"{row['dense_cycles']:,}"
        assert cells[12 + mixed] == report.factor(row["speedup"])
        assert cells[15 + mixed] == report.deviation(row["error"])


def test_page_shows_formats_of_operands_only_where_they_differ():
    assert page_of("fp8").cells[3] == "e4m3fn × e4m3fn"
    assert "e5m2 × e4m3fn" in page_of("fp8").cells
    assert "float8_e4m3fn, gradients float8_e5m2" in page_of("fp8").words
    assert "int8 ×" not in page_of("cnn").words
    assert "formatsint8" in page_of("cnn").words.replace("\n", "")


def test_page_counts_overflow_only_where_there_was_one():
    assert "overflow" not in page_of("cnn").words
    overflown = Page(page.html([overflowing()]))
    assert overflown.cells[18 * 3 + 16] == "1,234"
    assert "overflow 1,234" in overflown.words


@pytest.mark.parametrize("case", ["hostile", "hostile runs"])
def test_names_stay_text(case):
    text = page.html(RUNS[case])
    read = Page(text)
    for name in HOSTILE:
        assert report.plain(name) in read.words
    # Past the page's own markup, only plotly.js itself may hold these.
    own = text.replace(read.scripts[1], "")
    assert "<img" not in own
    assert "</script><b>" not in own
    assert "https://example.com" in own
    assert '<a href="h' not in own
    figures = read.scripts[0]
    assert not set("<>&") & set(figures)
    assert "49" not in re.findall(r"markup.{0,12}", read.words)


@pytest.mark.parametrize("case", ["hostile", "hostile runs"])
def test_plotly_gets_names_that_it_shows_verbatim(case):
    """Plotly makes bold text and links of what looks like HTML in any label."""
    figures = json.loads(page_of(case).scripts[0])
    ours = re.compile(r"</?b>|<br>")

    def check(value):
        if isinstance(value, dict):
            for inner in value.values():
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)
        elif isinstance(value, str):
            assert "<" not in ours.sub("", value)

    check(figures)
    for name in HOSTILE:
        heading = f"<b>{html.escape(report.plain(name), quote=False)}</b>"
        assert any(heading in hover for trace in figures[-4]["data"] for hover in trace["hovertext"])


@pytest.mark.parametrize("case", RUNS)
def test_script_policy_names_the_scripts_as_a_browser_sees_them(case):
    page = page_of(case)
    policy = next(value for name, value in page.attributes if name == "content" and "script-src" in value)
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    run = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.scripts[1:]]
    assert allowed == run
    assert "unsafe-inline" not in policy.split("script-src")[1]


def test_same_results_same_page():
    assert page.html([make(CNN)]) == page.html([make(CNN)])


def test_undefined_is_never_a_bar_of_nought():
    results = CASES["no work"]
    for chart in charts.make_charts(results):
        for trace in chart.figure.to_dict()["data"]:
            if trace.get("mode") == "text":
                assert trace["text"] == ["-"] * len(trace["x"])
    speedup = charts.make_charts(results)[0].figure.to_dict()["data"]
    assert [trace["y"] for trace in speedup if trace.get("mode") != "text"] == [[None]] * 3
    page = page_of("no work")
    assert page.cells[10:16] == ["-"] * 6
    assert "-" in page.words.split()


def test_every_layer_is_in_every_chart(results):
    for chart in charts.make_charts(results):
        drawn = [trace for trace in chart.figure.to_dict()["data"] if trace["type"] == "bar"]
        hovers = " ".join(text for trace in drawn for text in trace["hovertext"])
        for row in results["layers"]:
            assert charts.label(row["layer"]) in hovers
        assert chart.figure.layout["xaxis"].ticktext is not None


def test_bars_do_not_overlap():
    figure = charts.make_charts(CASES["cnn"])[0].figure.to_dict()
    bars = [trace for trace in figure["data"] if trace["type"] == "bar" and trace["xaxis"] == "x"]
    edges = sorted((x - bar["width"] / 2, x + bar["width"] / 2) for bar in bars for x in bar["x"])
    assert len(edges) == 15
    assert all(right < left for (_, right), (left, _) in pairwise(edges))


# Several runs


def test_page_of_runs_compares_them_and_has_all_of_each():
    page = page_of("three runs")
    rows = comparison.compare(RUNS["three runs"])
    for index, (row, name) in enumerate(zip(rows, comparison.run_names(rows), strict=True)):
        cells = page.cells[11 * index : 11 * (index + 1)]
        speedups = [*row["passes"].values(), row["speedup"], row["elapsed_speedup"]]
        assert cells[:3] == [name, "tile4x4", report.formats_used(row["formats"])]
        assert cells[3:8] == [report.factor(value) for value in speedups]
        assert cells[8:] == [report.deviation(row["error"]), "0", "✓"]
    single = [page_of(case).cells for case in ("cnn", "fp8", "undefined")]
    assert page.cells[33:] == [cell for cells in single for cell in cells]
    assert page.tags.count("details") == 3


def test_page_of_runs_has_plotly_once_and_a_place_for_every_figure():
    page = page_of("three runs")
    assert [len(script) > 1_000_000 for script in page.scripts] == [False, True, False]
    places = [value for name, value in page.attributes if name == "id" and value.startswith("chart-")]
    assert places == [f"chart-{i}" for i in range(2 + 3 * 4)]
    assert len(json.loads(page.scripts[0])) == len(places)


def test_page_of_one_run_compares_nothing():
    assert "details" not in page_of("cnn").tags
    assert "Comparison" not in page_of("cnn").words


def test_speedup_chart_has_every_pass_of_every_run():
    forward = make(CNN, passes=("forward",), design="inference")
    figure = make_comparison_charts([CASES["cnn"], forward])[0].figure.to_dict()
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    (words,) = (trace for trace in figure["data"] if trace.get("mode") == "text")
    assert [bar["name"] for bar in bars] == ["tile4x4", "inference"]
    assert list(figure["layout"]["xaxis"]["ticktext"]) == [*PASSES, "all"]
    speedup = forward["total"]["speedup"]
    assert bars[1]["y"] == [speedup, None, None, speedup]
    assert words["x"] == [bars[1]["x"][1], bars[1]["x"][2]]
    edges = sorted((x - bar["width"] / 2, x + bar["width"] / 2) for bar in bars for x in bar["x"])
    assert all(right < left for (_, right), (left, _) in pairwise(edges))


def test_error_chart_has_every_error_within_its_logarithmic_scale():
    none = make(CNN, undefined=True)
    for row in [*none["layers"], *none["passes"].values()]:
        row["error"] = 0.0 if row.get("pass") == "forward" else None
    none["passes"]["forward"]["error"] = 0.0
    figure = make_comparison_charts([CASES["cnn"], none, CASES["fp8"]])[1].figure.to_dict()
    assert figure["layout"]["yaxis"]["type"] == "log"
    low, high = (10**edge for edge in figure["layout"]["yaxis"]["range"])
    errors = [y for trace in figure["data"] if trace.get("mode") == "markers" for y in trace["y"]]
    assert len(errors) == 2 * 45
    assert all(low < error < high for error in errors)
    words = [trace for trace in figure["data"] if trace.get("mode") == "text"]
    assert [trace["text"] for trace in words] == [["0"], ["-"], ["-"]]
    assert all(low < y < high for trace in words for y in trace["y"])


def test_no_chart_compares_runs_of_nothing():
    assert make_comparison_charts(RUNS["runs of nothing"]) == []

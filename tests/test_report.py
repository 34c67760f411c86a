import base64
import errno
import hashlib
import html
import json
import os
import re
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from skiptile import charts, report

PASSES = ("forward", "input-gradient", "weight-gradient")
HOSTILE = [
    "</script><b>bold</b>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    '"><a href="https://example.com">x</a>',
    "[red]markup[/red] {{ 7 * 7 }} %{x} $x^2$ &amp;",
    "\x1b[31mred\x07\u202e\ud800\n",
]


def make(
    layers: list[str], steps=("start", "middle", "end"), passes=PASSES, undefined=False, **more
) -> dict[str, Any]:
    """Made-up results whose counters agree with each other."""
    rows: list[dict[str, Any]] = []
    for s, step in enumerate(steps):
        for p, name in enumerate(passes):
            for i, layer in enumerate(layers):
                dense = 12_345 * (1 + (i * 7 + p * 3) % 5)
                share = 0.45 + 0.03 * i % 0.2 + 0.08 * s - 0.05 * p
                cycles = int(dense * share)
                shape = {"groups": 1, "m": 1800, "k": 144, "n": 16}
                zeros = {"zeros_a": 0.62 - 0.1 * p, "zeros_b": 0.05}
                real = {"zeros_a_real": 0.55 - 0.1 * p, "zeros_b_real": 0.0}
                ideals = {"ideal_cycles": int(cycles * 0.7), "ideal_capped_cycles": int(cycles * 0.9)}
                elapsed = {"dense_elapsed": dense + 50, "elapsed": int(cycles * 1.04)}
                fast = {"speedup": dense / cycles, "real_speedup": dense / cycles / 1.1}
                rows.append(
                    {"step": step, "layer": layer, "pass": name, **shape, **zeros, **real, "side": "a"}
                    | {"dense_cycles": dense, "cycles": cycles, **ideals, "real_cycles": int(cycles * 1.1)}
                    | {**elapsed, **fast, "utilisation": 0.6, "exact": True}
                )
    if undefined:
        for row in rows[:: max(1, len(rows) // 3)]:
            row.update(dict.fromkeys(("dense_elapsed", "elapsed", "speedup", "real_speedup", "utilisation")))
            row.update(dense_cycles=0, cycles=0, ideal_cycles=0, ideal_capped_cycles=0, real_cycles=0, k=0)

    def total(rows):
        def add(key):
            values = [row[key] for row in rows]
            return None if None in values else sum(values)

        names = ("dense_cycles", "cycles", "ideal_cycles", "ideal_capped_cycles", "dense_elapsed", "elapsed")
        sums = {key: add(key) for key in names}
        fast = report.ratio(sums["dense_cycles"], sums["cycles"])
        real = report.ratio(sums["dense_cycles"], add("real_cycles"))
        return {**sums, "speedup": fast, "real_speedup": real, "exact": all(row["exact"] for row in rows)}

    results = {
        **{"design": "tile4x4", "workload": "digits-cnn", "engine": "rtl"},
        "facts": {"test_accuracy": 0.987, "data": "scikit-learn digits"},
        "geometry": {
            **{"rows": 4, "columns": 4, "lanes": 16, "lookahead": 2, "interconnect": "tensordash"},
            **{"format": "int8", "side": "b"},
        },
        "layers": rows,
        "total": total(rows),
        "passes": {name: total([row for row in rows if row["pass"] == name]) for name in passes},
    }
    return {**results, **more}


CNN = ["conv1", "conv2", "conv3", "fc1", "fc2"]
CASES = {
    "cnn": make(CNN),
    "undefined": make(CNN, undefined=True),
    "one layer": make(["only"], steps=("",), passes=("forward",)),
    "no work": make(["only"], steps=("",), passes=("forward",), undefined=True),
    "nothing": make([], facts={}),
    "60 layers": make([f"block{i}.conv" for i in range(60)]),
    "hostile": make(
        HOSTILE, steps=(HOSTILE[0],), passes=(*PASSES, HOSTILE[1]), design=HOSTILE[0], workload=HOSTILE[1],
        engine=HOSTILE[2], facts={HOSTILE[0]: HOSTILE[5]}, geometry={HOSTILE[3]: [[1, -1]]},
    ),
}  # fmt: skip


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def results(case):
    return CASES[case]


def shown(results, width, encoding="utf-8") -> str:
    class Stream(StringIO):
        pass

    stream = Stream()
    Stream.encoding = encoding  # type: ignore[assignment]
    Console(file=stream, width=width).print(report.table(results))
    return stream.getvalue()


# Values


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.5, "0.50x"), (1.827, "1.83x"), (1234.5, "1,234x"), (float("inf"), "-")],
)
def test_factor(value, text):
    assert report.factor(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(None, 0, "-"), (0, 0, "0"), (1.0, 1, "100.0"), (0.4567, 1, "45.7"), (0.0001, 0, "<1"),
     (0.9999, 0, ">99"), (0.99999, 1, ">99.9"), (0.0001, 1, "<0.1"), (0.996, 1, "99.6"),
     (float("nan"), 1, "-")],
)  # fmt: skip
def test_percent_never_rounds_to_all_or_nothing(value, digits, text):
    assert report.percent(value, digits) == text


def test_change_shows_one_number_where_nothing_changes():
    assert report.change(0.451, 0.523) == "45.1→52.3"
    assert report.change(0.5, 0.5) == "50.0"
    assert report.change(None, 0.5) == "-→50.0"


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [(1000, 1010, False), (1000, 1011, True), (1011, 1000, True), (None, 5, False), (0, 3, True)],
)
def test_differs_by_more_than_one_percent(a, b, apart):
    assert report.differs(a, b) is apart


def test_plain_leaves_no_control_character():
    for name in HOSTILE:
        assert report.plain(name).isprintable()
    assert report.plain("größe_1.conv") == "größe_1.conv"


# Summary


def test_summary():
    line = report.summary(CASES["cnn"])
    assert re.fullmatch(
        r"digits-cnn on tile4x4: \d\.\d\dx over dense \(forward \d\.\d\dx, input-gradient \d\.\d\dx, "
        r"weight-gradient \d\.\d\dx\), all 45 results exact",
        line,
    )


def test_summary_of_undefined_work_is_a_dash():
    assert report.summary(CASES["no work"]) == (
        "digits-cnn on tile4x4: - over dense (forward -), the one result exact"
    )


def test_nothing_is_not_exact():
    assert report.summary(CASES["nothing"]).endswith("no results")


def test_golden_engine_claims_nothing():
    results = make(["conv1", "fc1"])
    for row in [*results["layers"], *results["passes"].values(), results["total"]]:
        row["exact"] = None
    text = shown(results, 150)
    assert report.summary(results).endswith("nothing was simulated, so nothing was compared")
    assert "✓" not in text
    assert "NO" not in text
    assert "nothing was compared" in report.html(results)
    assert "✓" not in report.html(results)


def test_inexact_results_are_counted():
    results = make(CNN)
    results["layers"][3]["exact"] = results["layers"][9]["exact"] = False
    results["total"]["exact"] = False
    assert report.summary(results).endswith("2 of 45 results NOT exact")
    assert len(re.findall(r"\bNO\b", shown(results, 120))) == 3  # and the total
    assert "2 of 45 results NOT exact" in report.html(results)


# Table


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("case", ["cnn", "undefined", "one layer", "no work", "60 layers"])
def test_table_has_every_layer_and_keeps_its_width(case, width):
    text = shown(CASES[case], width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    times = 1 + (width == 80)  # two narrow tables
    for layer in {row["layer"] for row in CASES[case]["layers"]}:
        rows = [line for line in lines if line.startswith(layer + " ")]
        assert len(rows) == times * sum(row["layer"] == layer for row in CASES[case]["layers"])
    assert len(re.findall(r"^all layers ", text, re.MULTILINE)) == times * (1 + len(CASES[case]["passes"]))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_numbers_stay_whole(width):
    text = shown(CASES["cnn"], width)
    row = CASES["cnn"]["layers"][0]
    for key in ("dense_cycles", "cycles", "ideal_cycles", "ideal_capped_cycles", "dense_elapsed", "elapsed"):
        assert f"{row[key]:,}" in text
    assert "55→62" in text
    assert f"{row['speedup']:.2f}x" in text


def test_long_names_fold_and_numbers_do_not():
    name = "backbone.stage4.block17.bottleneck.conv3x3"
    text = shown(make([name], steps=("",)), 80)
    assert max(map(len, text.splitlines())) <= 80
    pieces = [line.split(" ")[0] for line in text.splitlines()]
    assert name in "".join(pieces)


def test_large_counts_are_shortened():
    results = make(["conv1"], steps=("",), passes=("forward",))
    results["layers"][0]["dense_cycles"] = 123_456_789_012
    assert "123.46G" in shown(results, 120)


def test_undefined_is_a_dash():
    row = next(line for line in shown(CASES["no work"], 120).splitlines() if line.startswith("only"))
    assert row.split() == ["only", "forward", "55→62", "0→5", "a", *"0000", *"-----", "✓"]


def test_names_are_not_markup_and_cannot_steer_the_terminal():
    text = shown(CASES["hostile"], 300)
    assert "[red]markup[/red]" in text
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_ascii_terminal():
    shown(CASES["cnn"], 120, "ascii").encode("ascii")


def test_legend_says_what_the_numbers_mean():
    text = " ".join(shown(CASES["cnn"], 120).split())
    for word in ("cycles clock", "elapsed all", "ideal cycles if", "capped the same", "at most 3 steps"):
        assert word in text


# JSON


def test_json_round_trip(results, tmp_path):
    path = tmp_path / "x.json"
    report.write_json(results, path)
    text = path.read_text()
    assert json.loads(text) == results
    assert list(json.loads(text)) == list(results)
    assert text.endswith("}\n")


def test_json_is_strict(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write_json(make(CNN, facts={"loss": float("nan")}), tmp_path / "x.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("write", [report.write_json, report.write_html])
def test_files_are_whole_or_absent(write, tmp_path, monkeypatch):
    with pytest.raises(OSError, match="missing/x"):
        write(CASES["cnn"], tmp_path / "missing" / "x")
    with pytest.raises(IsADirectoryError):
        write(CASES["cnn"], tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left.*x\.out"):
        write(CASES["cnn"], tmp_path / "x.out")
    assert os.listdir(tmp_path) == []


# HTML


class Page(HTMLParser):
    """What a browser would make of the page: elements, attributes, text, scripts."""

    VOID = ("meta", "link", "img", "br")

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
        elif inside == "td":
            self.cells[-1] += data
        if inside not in ("script", "style"):
            self.words += data


@cache
def page_of(case: str) -> Page:
    return Page(report.html(CASES[case]))


def test_page_is_well_formed_and_self_contained(case, results):
    page = page_of(case)
    assert page.open == []
    assert set(page.tags) <= {
        *("html", "head", "meta", "link", "title", "style", "body", "main", "header", "h1", "h2", "p"),
        *("dl", "dt", "dd", "div", "b", "span", "small", "section", "noscript"),
        *("table", "thead", "tbody", "tr", "th", "td"),
        "script",
    }
    loads = [value for name, value in page.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert loads == ["data:,"]
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert len(page.scripts) == (3 if results["layers"] else 0)


def test_page_has_every_value_in_its_table_without_scripts(case, results):
    page = page_of(case)
    assert len(page.cells) == 16 * (len(results["layers"]) + len(results["passes"]) + 1)
    for index, row in enumerate(results["layers"]):
        cells = page.cells[16 * index : 16 * index + 16]
        assert cells[0] == report.plain(row["layer"])
        assert cells[1] == report.plain(row["pass"])
        assert cells[6] == f"{row['dense_cycles']:,}"
        assert cells[12] == report.factor(row["speedup"])


def test_names_stay_text():
    text = report.html(CASES["hostile"])
    page = Page(text)
    for name in HOSTILE:
        assert report.plain(name) in page.words
    # Past the page's own markup, only plotly.js itself may hold these.
    own = text.replace(page.scripts[1], "")
    assert "<img" not in own
    assert "</script><b>" not in own
    assert "https://example.com" in own
    assert "<a href" not in own
    figures = page.scripts[0]
    assert not set("<>&") & set(figures)
    assert "49" not in re.findall(r"markup.{0,12}", page.words)


def test_plotly_gets_names_that_it_shows_verbatim():
    """Plotly makes bold text and links of what looks like HTML in any label."""
    figures = json.loads(page_of("hostile").scripts[0])
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
        assert any(heading in hover for trace in figures[0]["data"] for hover in trace["hovertext"])


def test_script_policy_names_the_scripts_as_a_browser_sees_them(case):
    page = page_of(case)
    policy = next(value for name, value in page.attributes if name == "content" and "script-src" in value)
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    run = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.scripts[1:]]
    assert allowed == run
    assert "unsafe-inline" not in policy.split("script-src")[1]


def test_same_results_same_page():
    assert report.html(make(CNN)) == report.html(make(CNN))


def test_undefined_is_never_a_bar_of_nought():
    results = CASES["no work"]
    for chart in charts.make_charts(results):
        for trace in chart.figure.to_dict()["data"]:
            if trace.get("mode") == "text":
                assert trace["text"] == ["-"] * len(trace["x"])
    speedup = charts.make_charts(results)[0].figure.to_dict()["data"]
    assert [trace["y"] for trace in speedup if trace.get("mode") != "text"] == [[None]] * 3
    page = page_of("no work")
    assert page.cells[10:15] == ["-"] * 5
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

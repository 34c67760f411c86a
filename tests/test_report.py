import errno
import json
import os
import re

import pytest
from made_up_results import CASES, CNN, HOSTILE, make, overflowing, shown

from skiptile import page, report


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def results(case):
    return CASES[case]


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.0023456, "2.3e-03"),
        (12.0, "1.2e+01"),
        (1e-30, "1.0e-30"),
        (float("inf"), "-"),
    ],
)
def test_only_an_exact_nought_is_shown_as_0(value, text):
    assert report.deviation(value) == text


@pytest.mark.parametrize(
    ("formats", "text"),
    [
        (["int8"] * 3, "int8"),
        (["float8_e4m3fn", "float8_e4m3fn", "float8_e5m2"], "float8_e4m3fn, gradients float8_e5m2"),
        (["int8", "int16", "int8"], "int8, weights int16"),
        (["a\n", "b", "c"], "a\\n, weights b, gradients c"),
    ],
)
def test_formats_are_told_once_where_they_are_the_same(formats, text):
    names = ("activation", "weight", "gradient")
    assert report.formats_used(dict(zip(names, formats, strict=True))) == text


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
        r"digits-cnn on tile4x4 in int8: \d\.\d\dx over dense \(forward \d\.\d\dx, input-gradient \d\.\d\dx, "
        r"weight-gradient \d\.\d\dx\), all 45 results exact",
        line,
    )


def test_summary_of_undefined_work_is_a_dash():
    assert report.summary(CASES["no work"]) == (
        "digits-cnn on tile4x4 in int8: - over dense (forward -), the one result exact"
    )


def test_summary_names_mixed_formats():
    line = report.summary(CASES["fp8"])
    assert line.startswith("digits-cnn on tile4x4 in float8_e4m3fn, gradients float8_e5m2: ")


def test_summary_tells_of_overflow_only_if_there_was_one():
    assert "overflow" not in report.summary(CASES["cnn"])
    assert ", all 45 results exact, overflow 1,234 (results that lost" in report.summary(overflowing())


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
    assert "nothing was compared" in page.html([results])
    assert "✓" not in page.html([results])


def test_inexact_results_are_counted():
    results = make(CNN)
    results["layers"][3]["exact"] = results["layers"][9]["exact"] = False
    results["total"]["exact"] = False
    assert report.summary(results).endswith("2 of 45 results NOT exact")
    assert len(re.findall(r"\bNO\b", shown(results, 120))) == 3  # and the total
    assert "2 of 45 results NOT exact" in page.html([results])


# Table


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("case", ["cnn", "undefined", "one layer", "no work", "60 layers"])
def test_table_has_every_layer_and_keeps_its_width(case, width):
    text = shown(CASES[case], width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    times = 1 + (width == 80 or (case, width) == ("60 layers", 120))  # two narrow tables
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
    assert "2.3e-03" in text


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
    assert row.split() == ["only", "forward", "55→62", "0→5", "a", *"0000", *"------", "✓"]


def test_names_are_not_markup_and_cannot_steer_the_terminal():
    text = shown(CASES["hostile"], 300)
    assert "[red]markup[/red]" in text
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_ascii_terminal():
    shown(CASES["cnn"], 120, "ascii").encode("ascii")


def test_legend_says_what_the_numbers_mean():
    text = " ".join(shown(CASES["cnn"], 120).split())
    for word in (
        "cycles clock",
        "elapsed all",
        "ideal cycles if",
        "capped the same",
        "at most 3 steps",
        "float64",
    ):
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


def write_page(results, path):
    page.write_html([results], path)


@pytest.mark.parametrize("write", [report.write_json, write_page])
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

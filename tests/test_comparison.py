"""Several runs side by side, and the files that they are read from."""

import json
import re
from typing import Any

import pytest
from made_up_results import CASES, CNN, FP8, PASSES, RUNS, make, overflowing, shown

from skiptile import comparison, report
from skiptile.results import ResultsError, read_results


def test_comparison_has_a_row_for_each_run():
    rows = comparison.compare(RUNS["three runs"])
    assert [row["formats"]["gradient"] for row in rows] == ["int8", "float8_e5m2", "int8"]
    total = CASES["cnn"]["total"]
    assert rows[0] == {
        **{"design": "tile4x4", "workload": "digits-cnn", "engine": "rtl", "exact": True},
        "formats": dict.fromkeys(("activation", "weight", "gradient"), "int8"),
        "passes": {name: CASES["cnn"]["passes"][name]["speedup"] for name in PASSES},
        "speedup": total["dense_cycles"] / total["cycles"],
        "elapsed_speedup": total["dense_elapsed"] / total["elapsed"],
        **{"error": 0.0069, "overflow": 0},
    }
    assert rows[2]["elapsed_speedup"] is None


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([make(CNN)], ["tile4x4"]),
        ([make(CNN), make(CNN, formats=FP8)], ["int8", "float8_e4m3fn, gradients float8_e5m2"]),
        ([make(CNN), make(CNN, design="a\nb", engine="golden")], ["tile4x4, rtl", "a\\nb, golden"]),
        ([make(CNN), make(CNN, workload="own")], ["digits-cnn", "own"]),
        ([make(CNN), make(CNN)], ["1: tile4x4", "2: tile4x4"]),
        ([make(CNN), make(CNN, design="b"), make(CNN)], ["1: tile4x4", "2: b", "3: tile4x4"]),
    ],
)
def test_runs_are_told_apart_by_what_differs(runs, names):
    assert comparison.run_names(comparison.compare(runs)) == names


@pytest.mark.parametrize("width", [80, 100, 150])
def test_comparison_keeps_its_width_and_its_words_whole(width):
    three = comparison.compare(RUNS["three runs"])
    other = comparison.compare([overflowing(), make(CNN, workload="a-longer-name", engine="golden")])
    for rows, headers in ((three, ["design", "formats"]), ([*three, *other], ["run"])):
        text = shown(rows, width, view=comparison.table)
        assert max(map(len, text.splitlines())) <= width
        words = re.sub(r",(?!\d)", " ", text).split()
        assert set(headers) == {"run", "design", "formats"} & set(words)
        for row in rows:
            speedups = (*row["passes"].values(), row["speedup"], row["elapsed_speedup"])
            assert {report.factor(speedup) for speedup in speedups} <= set(words)
        assert {"float8_e4m3fn", "float8_e5m2", "tile4x4"} <= set(words)
        assert words.count("6.9e-03") == words.count("✓") == len(rows)
    assert {"a-longer-name", "golden", "1,234"} <= set(words)


def test_comparison_shows_what_is_not_exact():
    wrong = make(CNN)
    wrong["layers"][3]["exact"] = wrong["total"]["exact"] = False
    rows = comparison.compare([CASES["cnn"], wrong])
    assert [row["exact"] for row in rows] == [True, False]
    assert re.findall(r"✓|\bNO\b", shown(rows, 150, view=comparison.table)) == ["✓", "NO"]
    assert re.findall(r"yes|NO", shown(rows, 150, "ascii", comparison.table)) == ["yes", "NO"]


def test_comparison_names_neither_steer_the_terminal_nor_are_markup():
    text = shown(comparison.compare(RUNS["hostile runs"]), 300, view=comparison.table)
    assert "\x1b" not in text
    assert "[red]markup[/red]" in text
    markup = make(["x"], passes=("[red]a[/red]",))
    assert "[red]a[/red]" in shown(comparison.compare([markup]), 150, view=comparison.table)


# Files of results


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_results_are_read_as_they_were_written(results, tmp_path):
    report.write_json(results, tmp_path / "x.json")
    assert read_results(tmp_path / "x.json") == results


def test_keys_that_nobody_asked_for_stay_out_of_the_comparison(tmp_path):
    results = make(["conv1"])
    for place in (results, results["formats"], results["total"], results["passes"]["forward"]):
        place["more"] = float("nan")
    (tmp_path / "x.json").write_text(json.dumps(results))
    assert comparison.compare([read_results(tmp_path / "x.json")]) == comparison.compare([make(["conv1"])])


def paths_to(value: Any, path: tuple = ()) -> list[tuple]:
    """Where each key of the results is, the first of each list standing for all."""
    if isinstance(value, list):
        return paths_to(value[0], (*path, 0))
    if not isinstance(value, dict) or path in (("facts",), ("geometry",)):
        return []
    inner = [found for key in value for found in ((*path, key), *paths_to(value[key], (*path, key)))]
    return [found for found in inner if found[:2] != ("passes", "input-gradient")]


NOT_NEEDED = {
    ("layers", 0, "design"),
    ("layers", 0, "real_cycles"),
    ("passes", "forward"),
    ("passes", "weight-gradient"),
}
NEEDED = [path for path in paths_to(make(["conv1"])) if path not in NOT_NEEDED]


@pytest.mark.parametrize("path", NEEDED, ids=lambda path: ".".join(map(str, path)))
def test_a_key_that_is_missing_or_of_the_wrong_type_is_named(path, tmp_path):
    *place, key = path
    for spoil in (lambda inner: inner.pop(key), lambda inner: inner.update({key: -1})):
        results = make(["conv1"])
        inner = results
        for step in place:
            inner = inner[step]
        spoil(inner)
        (tmp_path / "x.json").write_text(json.dumps(results))
        with pytest.raises(
            ResultsError, match=rf"^\S*/x\.json: not the results of a run: \S*\b{key} (is missing|must be)"
        ):
            read_results(tmp_path / "x.json")


@pytest.mark.parametrize("key", ["cycles", "speedup", "error", "utilisation", "exact"])
@pytest.mark.parametrize("value", ["NaN", "1e999", "true", '"7"', "[]", "-0.5", "1" + "0" * 400, "Infinity"])
def test_no_number_is_taken_that_cannot_be_one(key, value, tmp_path):
    results = make(["conv1"])
    results["layers"][1][key] = "HERE"
    (tmp_path / "x.json").write_text(json.dumps(results).replace('"HERE"', value))
    if (key, value) == ("exact", "true"):
        assert read_results(tmp_path / "x.json")["layers"][1]["exact"] is True
    else:
        with pytest.raises(ResultsError, match=rf"layers\[1\]\.{key} must be .*, not .{{1,41}}$"):
            read_results(tmp_path / "x.json")

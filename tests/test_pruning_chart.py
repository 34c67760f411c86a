"""The chart of a pruning study and its page."""

import re

import pytest

from skiptile.pruning_chart import make_pruning_chart, write_pruning_page

REFERENCE = "dense tile"


def row(scheme, sparsity, speedup, hardware="sparse tile", tuned=0.98):
    return {
        "scheme": scheme,
        "hardware": hardware,
        "sparsity": sparsity,
        "sparsity_reached": sparsity - 0.01 if sparsity else 0.0,
        "dense_accuracy": 0.99,
        "pruned_accuracy": 0.5,
        "tuned_accuracy": tuned,
        "elapsed": 12_345,
        "speedups": {REFERENCE: speedup, "other": None},
    }


ROWS = [
    row("dense", 0.0, 1.0, "dense tile"),
    row("magnitude", 0.5, 1.5),
    row("magnitude", 0.75, 2.0, tuned=0.95),
    row("tile-wise", 0.5, 1.75),
    row("tile-wise", 0.5, 1.25, "dense tile"),
]


def test_a_mark_for_each_row():
    chart = make_pruning_chart(ROWS, REFERENCE)
    traces = chart.figure.data
    assert [(list(trace.x), list(trace.y)) for trace in traces] == [
        ([1.0], [98.0]),
        ([1.5, 2.0], [98.0, 95.0]),
        ([1.75], [98.0]),
        ([1.25], [98.0]),
    ]
    assert [trace.text for trace in traces] == [("",), ("49", "74"), ("49",), ("49",)]
    assert traces[0].marker.color != traces[1].marker.color != traces[2].marker.color
    assert traces[2].marker.color == traces[3].marker.color  # one scheme
    assert traces[0].marker.symbol == traces[3].marker.symbol != traces[2].marker.symbol
    low, high = chart.figure.layout.yaxis.range
    assert low < 95
    assert high > 99


def test_all_about_a_mark():
    (text,) = make_pruning_chart(ROWS[2:3], REFERENCE).figure.data[0].hovertext
    assert text.split("<br>") == [
        "<b>magnitude</b>, 74.0 % zeros",
        "sparse tile: elapsed 12,345",
        "2.00x over dense tile",
        "accuracy 99.0 % dense, 50.0 % pruned, 95.0 % fine-tuned",
    ]


def test_rows_without_a_speedup_are_left_out():
    assert len(make_pruning_chart([*ROWS[:2], row("n:m", 0.5, None)], REFERENCE).figure.data) == 2
    with pytest.raises(ValueError, match=r"rows must have a speed-up over 'other', but none has$"):
        make_pruning_chart(ROWS, "other")


def test_page_stands_alone(tmp_path):
    path = tmp_path / "page.html"
    write_pruning_page([*ROWS, row("</script><b>", 0.5, 1.0)], REFERENCE, "A & B", path)
    text = path.read_text()
    assert "<h1>A &amp; B</h1>" in text
    assert "Accuracy against speed-up" in text
    assert "Plotly.newPlot" in text
    assert "</script><b>" not in text
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=\"(?!data:)", text)
    write_pruning_page([*ROWS, row("</script><b>", 0.5, 1.0)], REFERENCE, "A & B", path)
    assert path.read_text() == text

"""Golden vectors against plain loops over what the ports' contract says."""

from fractions import Fraction

import numpy as np
import pytest
from fraction_reference import Reference

from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.golden.mac_tile_cases import random_case


def tile(rows, columns, lanes, lookahead, **options):
    return MacTileParams(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead, **options)


TILES = [
    tile(1, 1, 1, 0, max_reduction=1),
    tile(2, 3, 4, 0),
    tile(4, 2, 3, 2, output_rows=2),
    tile(1, 1, 5, 3, side="both"),
    tile(3, 1, 2, 1, output_rows=3, max_reduction=7),
]
OTHERS = [
    tile(2, 3, 2, 2, format="bfloat16"),
    tile(1, 1, 4, 3, side="both", format="float16", format_b="float8_e5m2"),
    tile(2, 1, 2, 0, output_rows=2, format="float8_e4m3fn", out="raw"),
    tile(2, 1, 2, 1, format="int8", format_b="int16", out="int8"),
]
each_tile = pytest.mark.parametrize("params", TILES, ids=lambda p: f"{p.rows}x{p.columns}x{p.lanes}")


def reductions(inputs):
    """``a`` and ``b`` of each reduction as a receiver of the beats understands them, (steps, -, lanes)."""
    a, b = [], []
    for beat in range(len(inputs["last"])):
        count = inputs["count"][beat]
        a.extend(inputs["a"][beat][:count].astype(int))
        b.extend(inputs["b"][beat][:count].astype(int))
        if inputs["last"][beat]:
            yield np.array(a), np.array(b)
            a, b = [], []
    assert not a


@each_tile
def test_outputs_follow_from_the_inputs(params):
    inputs, outputs = random_case(params, 30, 5)
    assert outputs.keys() == {"result", "row", "last", "cycles", "steps", "effectual"}
    beat = 0
    for a, b in reductions(inputs):
        pairs = (b != 0) & (a != 0) if params.side == "both" else b != 0
        cycles = schedule(pairs, np.arange(len(a)) == len(a) - 1, params).cycles
        for row in range(0, params.rows, params.output_rows):
            results = [
                [np.sum(a[:, column] * b[:, each]) for column in range(params.columns)]
                for each in range(row, row + params.output_rows)
            ]
            assert np.array_equal(outputs["result"][beat].ravel(), np.ravel(results))
            assert outputs["row"][beat] == row
            assert outputs["last"][beat] == (row + params.output_rows == params.rows)
            assert outputs["cycles"][beat] == cycles
            assert outputs["steps"][beat] == len(a)
            assert outputs["effectual"][beat] == pairs.sum()
            beat += 1
    assert beat == len(outputs["last"]) == 30 * params.result_beats


@pytest.mark.parametrize("params", OTHERS, ids=lambda p: f"{p.format}-{p.format_b}")
def test_results_of_other_formats_follow_from_the_inputs(params):
    inputs, outputs = random_case(params, 25, 3)
    arithmetic = params.arithmetic
    shifts = inputs["shift"][inputs["last"] == 1] if arithmetic.shift_bits else np.zeros(25, int)
    if arithmetic.shift_bits:
        assert len(set(shifts)) > 5
    results, flags = (
        outputs[name].reshape(25, params.rows, params.columns) if name in outputs else None
        for name in ("result", "flags")
    )
    reference = Reference(**{name: getattr(params, name) for name in params.ARITHMETIC_KEYS})
    for index, (a, b) in enumerate(reductions(inputs)):
        for row, column in np.ndindex(params.rows, params.columns):
            x, y = a[:, column].ravel().tolist(), b[:, row].ravel().tolist()
            if arithmetic.is_float:
                wanted = reference.dot(x, y)
                assert (results[index, row, column], flags[index, row, column]) == wanted
            else:
                total = Fraction(sum(map(int.__mul__, x, y)), 1 << int(shifts[index]))
                assert results[index, row, column] == max(-128, min(127, round(total)))
    if arithmetic.is_float:
        assert len(np.unique(flags)) > 1


@each_tile
def test_beats_keep_the_contract(params):
    inputs, outputs = random_case(params, 40, 6)
    for values, fields in ((inputs, params.input_fields), (outputs, params.output_fields)):
        shapes = {field.name: field.shape for field in fields}
        assert all(array.shape[1:] == shapes[name] for name, array in values.items())
    partial = inputs["count"] != params.window_steps
    assert np.all(inputs["last"][partial] == 1)
    assert np.all((inputs["count"] >= 1) & (inputs["count"] <= params.window_steps))
    assert inputs["last"].sum() == 40


def test_the_first_reduction_fills_the_accumulators():
    params = tile(2, 2, 4, 1, max_reduction=30)
    inputs, outputs = random_case(params, 1, 0)
    assert np.all(outputs["result"] == 30 * 128 * 128)
    assert outputs["steps"][0] == params.max_steps == inputs["count"].sum()


def test_what_stands_beyond_the_count_is_not_zero():
    params = tile(2, 2, 4, 7, interconnect="lookahead")
    inputs, _ = random_case(params, 20, 1)
    beyond = np.arange(params.window_steps) >= inputs["count"][:, None]
    assert np.mean(inputs["a"][beyond] != 0) > 0.9
    assert np.mean(inputs["b"][beyond] != 0) > 0.9


def test_data_are_varied_and_repeatable():
    params = tile(4, 4, 8, 2)
    inputs, outputs = random_case(params, 100, 2)
    for name in ("a", "b"):
        assert {-128, 0, 127} <= set(inputs[name].ravel())
    steps, pairs = outputs["steps"][::4], outputs["effectual"][::4]
    assert steps.min() == 1
    assert (steps[0], steps[-1]) == (24, 32 * params.window_steps)  # full scale, uneven zeros
    assert steps[:-1].max() == 24
    density = pairs / (steps * params.rows * params.lanes)
    assert density.min() == 0
    assert density.max() == 1
    again, other = random_case(params, 100, 2), random_case(params, 100, 3)
    assert all(np.array_equal(again[0][name], inputs[name]) for name in inputs)
    assert not np.array_equal(other[1]["result"][:10], outputs["result"][4:14])

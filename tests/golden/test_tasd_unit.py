"""What a TASD unit must give: against `golden.tasd`, and against Python's own sorting of exact values."""

import itertools

import numpy as np
import pytest

from skiptile.golden import tasd
from skiptile.golden.formats import FORMATS, FloatFormat, IntegerFormat
from skiptile.golden.tasd_unit import TasdUnitParams, expected_outputs, take
from skiptile.golden.tasd_unit_cases import BLOCKS, numbers, random_case

SIZES = (1, 2, 4, 8, 16)


def naive(block, n, format):
    """(value, index, residue) of each step, one maximum after the other, by exact values."""
    values = [abs(float(value)) for value in format.decode(block)]
    rest, free, steps = list(block), list(range(len(block))), []
    for _ in range(n):
        index = max(free, key=lambda place: (values[place], -place))
        free.remove(index)
        rest[index] = 0
        steps.append((int(block[index]), index, [int(number) for number in rest]))
    return steps


def steps_of(taken):
    return [
        (int(value), int(index), residue.tolist())
        for value, index, residue in zip(taken.values, taken.indices, taken.residues, strict=True)
    ]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("m", SIZES)
def test_takes_one_maximum_after_the_other(name, m, seed):
    rng = np.random.default_rng([seed, m])
    for kind in BLOCKS.values():
        block = kind(rng, FORMATS[name], m)
        n = int(rng.integers(1, m + 1))
        assert steps_of(take(block, n, name)) == naive(block, n, FORMATS[name])


def test_every_block_of_four_corners():
    format = FORMATS["int8"]
    blocks = np.array(list(itertools.product([-128, -127, -1, 0, 1, 127], repeat=4)), np.int8)
    taken = take(blocks, 4, "int8")
    for k, block in enumerate(blocks):
        steps = zip(
            taken.values[k].tolist(), taken.indices[k].tolist(), taken.residues[k].tolist(), strict=True
        )
        assert list(steps) == naive(block, 4, format)


@pytest.mark.parametrize("name", ["int8", "float8_e5m2", "bfloat16"])
def test_is_the_unit_of_the_series_as_long_as_there_are_non_zeros(name, seed):
    rng = np.random.default_rng(seed)
    for kind, m in itertools.product(BLOCKS.values(), SIZES):
        block = kind(rng, FORMATS[name], m)
        emitted, residue = tasd.unit(block, m, name)
        taken = take(block, m, name)
        count = len(emitted)
        assert list(zip(taken.values[:count], taken.indices[:count], strict=True)) == emitted
        assert np.all(FORMATS[name].is_zero(taken.values[count:]))
        if count:
            assert np.array_equal(taken.residues[count - 1], residue)


def test_a_series_of_equal_blocks_is_one_longer_run():
    rng = np.random.default_rng(5)
    blocks = rng.integers(-5, 6, (30, 8)).astype(np.int8)
    (first, second), residue = tasd.decompose(blocks, [(2, 8), (3, 8)])
    taken = take(blocks, 5, "int8")
    for part, term in ((slice(0, 2), first), (slice(2, 5), second)):
        rebuilt = np.zeros_like(blocks)
        np.put_along_axis(rebuilt, taken.indices[:, part], taken.values[:, part], axis=1)
        assert np.array_equal(rebuilt, term)
    assert np.array_equal(taken.residues[:, -1], residue)


def test_any_leading_shape_and_plain_numbers():
    block = np.array([[[0.5, -3.0]], [[-np.inf, np.inf]]])
    taken = take(block, 2)
    assert taken.values.tolist() == [[[-3, 0.5]], [[-np.inf, np.inf]]]
    assert taken.indices.tolist() == [[[1, 0]], [[0, 1]]]
    assert taken.residues.shape == (2, 1, 2, 2)
    assert taken.residues[0, 0].tolist() == [[0.5, 0], [0, 0]]


def test_indices_of_a_block_of_zeros_do_not_repeat_and_minus_zero_stays():
    minus = 1 << 15
    taken = take(np.array([minus, 0, minus, 1], np.uint16), 3, "float16")
    assert taken.indices.tolist() == [3, 0, 1]
    assert taken.values.tolist() == [1, minus, 0]
    assert taken.residues.tolist() == [[minus, 0, minus, 0], [0, 0, minus, 0], [0, 0, minus, 0]]


def test_what_cannot_be_taken():
    with pytest.raises(ValueError, match="n must be an integer from 1 to 4, not 5"):
        take(np.zeros(4, np.int8), 5, "int8")
    with pytest.raises(ValueError, match=r"block must hold 1 to 16 values in a row, not shape \(17,\)"):
        take(np.zeros(17, np.int8), 1, "int8")
    with pytest.raises(ValueError, match="block must hold no NaN, but 1 of its 4 values are"):
        take(np.array([0, 0x7E00, 0, 0], np.uint16), 1, "float16")
    with pytest.raises(TypeError, match="int8 must be given as an array of int8 bit patterns, not of int64"):
        take(np.zeros(4, np.int64), 1, "int8")


# ---- parameters ----


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"m": 3}, ValueError, "m must be a power of two from 1 to 16, not 3"),
        ({"m": 32}, ValueError, "m must be a power of two from 1 to 16, not 32"),
        ({"m": 0}, ValueError, "m must be a power of two from 1 to 16, not 0"),
        ({"m": "8"}, TypeError, "m must be an integer, not '8'"),
        ({"m": 8, "format": "int4"}, ValueError, "format must be one of 'int8', .*, not 'int4'"),
        ({"m": 8, "format": 8}, TypeError, "format must be one of 'int8', .*, not 8"),
    ],
)
def test_wrong_parameters(options, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        TasdUnitParams(**options)


def test_table_of_a_design_file():
    params = TasdUnitParams.from_dict({"m": 4, "format": "float16"})
    assert TasdUnitParams.from_dict(params.to_dict()) == params
    assert TasdUnitParams.from_dict({"m": 4}).format == "int8"
    with pytest.raises(ValueError, match=r"^\[tasd-unit\] lacks the key 'm'$"):
        TasdUnitParams.from_dict({})
    with pytest.raises(ValueError, match=r"^\[tasd-unit\] has the unknown key 'n'; allowed are m, format$"):
        TasdUnitParams.from_dict({"m": 4, "n": 2})


@pytest.mark.parametrize(("m", "index", "count"), [(1, 1, 1), (2, 1, 2), (4, 2, 3), (8, 3, 4), (16, 4, 5)])
def test_widths(m, index, count):
    assert TasdUnitParams(m=m, format="float16").widths == {"value": 16, "index": index, "n": count}


def test_the_contract_speaks_of_nan_where_there_is_one():
    def last(format):
        return TasdUnitParams(m=2, format=format).contract[-1]

    assert last("float16") == "No NaN is sent; one would count as a magnitude above infinity, by its pattern."
    assert "above all numbers" in last("float8_e4m3fn")
    assert "NaN" not in last("int8") + last("float4_e2m1fn")


# ---- random cases ----


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("m", SIZES)
def test_random_cases_hold_what_is_hard(name, m):
    format = FORMATS[name]
    inputs, outputs = random_case(TasdUnitParams(m=m, format=name), 7 * 16, 3)
    blocks, counts = inputs["block"], inputs["n"]
    present = set(blocks.ravel().tolist())
    assert set(counts.tolist()) == set(range(1, m + 1))
    assert len(outputs["done"]) == counts.sum()
    assert (format.is_zero(blocks).all(axis=1)).any()
    if m > 1:
        assert ((np.abs(format.decode(blocks)) == np.abs(format.decode(blocks[:, :1]))).all(axis=1)).any()
    if isinstance(format, IntegerFormat):
        assert format.smallest in present
    if isinstance(format, FloatFormat):
        assert {0, 1 << format.bits - 1} <= present
        assert format.is_subnormal(blocks).any()
        assert format.infinity_bits is None or format.infinity_bits in present
        assert not format.is_nan(blocks).any()
    assert set(numbers(format).tolist()) >= {0, 1}


def test_random_cases_depend_on_the_seed_alone():
    params = TasdUnitParams(m=8)
    one, same, other = (random_case(params, 20, seed)[0]["block"] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_done_and_last_and_an_n_that_cannot_be():
    params = TasdUnitParams(m=2)
    beats = {
        "block": np.array([[1, -2], [3, 3], [0, 5]]),
        "n": np.array([0, 3, 1]),
        "last": np.array([0, 1, 1]),
    }
    outputs = expected_outputs(params, beats)
    assert outputs["value"].tolist() == [-2, 3, 3, 5]
    assert outputs["index"].tolist() == [1, 0, 1, 1]
    assert outputs["done"].tolist() == [1, 0, 1, 1]
    assert outputs["last"].tolist() == [0, 0, 1, 1]
    assert outputs["residue"].tolist() == [[1, 0], [0, 3], [0, 0], [0, 0]]

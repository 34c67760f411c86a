import itertools

import numpy as np
import pytest
from pysim import run_stream

from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.tasd_unit import TasdUnitParams, expected_outputs
from skiptile.golden.tasd_unit_cases import random_case
from skiptile.hw.tasd_unit import TasdUnit

SIZES = (1, 2, 4, 8, 16)
SOME_FORMATS = ("int8", "float4_e2m1fn", "float16")
PACES = [(0, 0), (0.5, 0), (0, 0.5), (0.3, 0.8), (0.8, 0.3), (0.5, 0.5)]


def check(params, inputs, wanted=None, **options):
    """Every beat is golden's; without stalls there is no bubble."""
    wanted = expected_outputs(params, inputs) if wanted is None else wanted
    cycles = len(wanted["done"])
    run = run_stream(TasdUnit(params), inputs, params.input_fields, params.output_fields, cycles, **options)
    for name, values in wanted.items():
        assert np.array_equal(run.outputs[name], values), name
    least = cycles + params.latencies["result"]
    assert run.elapsed >= least
    if not options.get("idle") and not options.get("stall"):
        assert run.elapsed == least
    return run


def beats(blocks, n):
    blocks = np.asarray(blocks)
    return {
        "block": blocks,
        "n": np.broadcast_to(n, len(blocks)),
        "last": np.arange(len(blocks)) % 3 == 0,
    }


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("format", SOME_FORMATS)
def test_random_blocks(m, format, seed):
    params = TasdUnitParams(m=m, format=format)
    check(params, *random_case(params, 21, seed))


@pytest.mark.exhaustive
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("idle", "stall"), PACES)
def test_random_blocks_of_any_format(m, format, idle, stall, seed):
    params = TasdUnitParams(m=m, format=format)
    check(params, *random_case(params, 7 * m + 20, seed), idle=idle, stall=stall, seed=seed)


@pytest.mark.parametrize("m", [1, 2, 8])
@pytest.mark.parametrize(("idle", "stall"), PACES[1:])
def test_stalls_lose_nothing(m, idle, stall, seed):
    params = TasdUnitParams(m=m)
    check(params, *random_case(params, 25, seed), idle=idle, stall=stall, seed=seed)


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("format", ["int8", "float6_e2m3fn"])
def test_every_tie(m, format):
    """All blocks of equal magnitudes of both signs, a larger one and zero, all the way down."""
    sign = 1 << FORMATS[format].bits - 1
    floats = isinstance(FORMATS[format], FloatFormat)
    patterns = [sign, 3, 3 | sign, 4] if floats else [0, -128, 127, -127]
    blocks = list(itertools.product(patterns, repeat=m))
    check(TasdUnitParams(m=m, format=format), beats(blocks, m))


@pytest.mark.exhaustive
@pytest.mark.parametrize("format", ["int8", "float8_e4m3fn", "float8_e5m2"])
def test_every_pair_of_numbers(format):
    patterns = np.arange(256)
    if isinstance(FORMATS[format], FloatFormat):
        patterns = patterns[~FORMATS[format].is_nan(patterns.astype(np.uint8))]
    else:
        patterns = patterns - 128
    check(TasdUnitParams(m=2, format=format), beats(list(itertools.product(patterns, repeat=2)), 2))


def test_ties_of_sixteen_by_every_set_of_eight():
    """Of 16 places the larger numbers stand in any 8 of the first 12."""
    places = list(itertools.combinations(range(12), 8))
    blocks = np.full((len(places), 16), 7)
    for block, chosen in zip(blocks, places, strict=True):
        block[list(chosen)] = -8
    check(TasdUnitParams(m=16), beats(blocks[::10], 9))


def test_the_smallest_integer_is_the_largest_magnitude():
    run = check(TasdUnitParams(m=4), beats([[127, -127, -128, 0], [-128, 1, -128, 127]], 4))
    assert run.outputs["value"].tolist() == [-128, 127, -127, 0, -128, -128, 127, 1]


def test_blocks_of_one_number_follow_each_other_every_cycle():
    run = check(TasdUnitParams(m=8), beats(np.arange(80).reshape(10, 8), 1))
    assert run.outputs["index"].tolist() == [7] * 10
    assert run.elapsed == 10 + 4


@pytest.mark.parametrize(("m", "n"), [(1, 0), (2, 0), (2, 3), (8, 0), (8, 9), (8, 15), (16, 31)])
def test_an_n_that_cannot_be_counts_as_the_nearest_one(m, n):
    blocks = np.arange(3 * m).reshape(3, m)
    check(TasdUnitParams(m=m), beats(blocks, [n, m, n]))


def test_nan_counts_as_above_infinity():
    """Golden knows no NaN; their patterns are in the order of integers."""
    infinity, nan, largest = 0x7C00, 0x7E00, 0x7BFF
    params = TasdUnitParams(m=4, format="float16")
    inputs = beats([[largest, infinity, nan, nan | 0x8001]], 4)
    run = run_stream(TasdUnit(params), inputs, params.input_fields, params.output_fields, 4)
    assert run.outputs["value"].tolist() == [nan | 0x8001, nan, infinity, largest]

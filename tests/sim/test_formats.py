"""Every number format on the delivered Verilog: the same right bits on every architecture."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from format_tiles import ARCHITECTURES, GEOMETRIES, LONGEST, PAIRS, tile, tiles
from verilog_tools import needs_verilator

from skiptile import sim
from skiptile.golden import exact
from skiptile.golden.arithmetic import FLAGS
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import random_case
from skiptile.golden.operands import corners, full_scale, random_operands

pytestmark = needs_verilator

NARROW = [pair for pair in PAIRS if all(FORMATS[name].bits == 8 for name in pair)]
FLOATS = [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)


@each_pair
def test_a_random_job_has_the_same_bits_everywhere(pair, seed):
    rng = np.random.default_rng(seed)
    a, b = FORMATS[pair[0]], FORMATS[pair[1]]
    for specials, k in ((0, 300), (0.003, 50), (0.3, 3)):
        operands = (
            random_operands(rng, a, (7, k), zeros=0.3, specials=specials),
            random_operands(rng, b, (k, 11), zeros=0.6, specials=specials),
        )
        results = [sim.load(params, random_start=True).matmul(*operands) for params in tiles(pair)]
        wanted = exact.matmul(*operands, *pair, out=tiles(pair)[0].out)
        assert len(np.unique(wanted)) > 3
        for result, counters in results:
            assert result.dtype == wanted.dtype
            assert np.array_equal(result, wanted)
            assert counters.overflow == results[0][1].overflow


@each_pair
def test_stalls_change_no_bit(pair, seed):
    for params in tiles(pair):
        model = sim.load(params, random_start=True)
        beats, wanted = random_case(params, 30, seed)
        for idle, stall in ((0, 0), (0.5, 0.1), (0.1, 0.9)):
            run = model.stream(beats, idle, stall, seed)
            for name, values in wanted.items():
                assert np.array_equal(run.outputs[name], values), (name, idle, stall)


def float32_of_products(pair, a, b, window):
    """Patterns of all products of ``a`` by ``b``, by float64, which holds each of them exactly."""
    x, y = FORMATS[pair[0]].decode(a)[:, None], FORMATS[pair[1]].decode(b)[None]
    with np.errstate(invalid="ignore"):
        products = np.where((x == 0) | (y == 0), 0, x * y)
    msb, lsb = window
    finite = np.isfinite(products)
    too_large = finite & (np.abs(products) >= 2.0 ** (msb + 1))
    kept = np.trunc(np.where(finite, products, 0) * 2.0**-lsb) * 2.0**lsb + 0.0
    products = np.where(too_large, np.copysign(np.inf, products), np.where(finite, kept, products))
    patterns = products.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(products), 0x7FC00000, patterns), too_large


@pytest.mark.parametrize("pair", NARROW, ids="-".join)
def test_all_pairs_of_eight_bits(pair):
    """65,536 products, each a reduction of its own, on each architecture."""
    a, b = (np.arange(256, dtype=np.uint8).view(FORMATS[name].dtype) for name in pair)
    for params in tiles(pair):
        result, _ = sim.load(params, random_start=True).matmul(a[:, None], b[None])
        if params.arithmetic.is_float:
            wanted, _ = float32_of_products(pair, a, b, params.arithmetic.products)
        else:
            wanted = np.multiply.outer(a.astype(int), b.astype(int))
        assert np.array_equal(result, wanted)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair[0] in FLOATS], ids="-".join)
def test_every_class_by_every_class(pair):
    """A zero annihilates NaN and infinities; subnormals are numbers; with and without skipping."""
    a, b = corners(FORMATS[pair[0]]), corners(FORMATS[pair[1]])
    for params in tiles(pair):
        result, counters = sim.load(params, random_start=True).matmul(a[:, None], b[None])
        wanted, too_large = float32_of_products(pair, a, b, params.arithmetic.window)
        assert np.array_equal(result, wanted)
        assert counters.overflow == too_large.sum()
        effectual = ~FORMATS[pair[1]].is_zero(b)
        assert counters.effectual == effectual.sum() * -(-len(a) // params.columns)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair[0] in FLOATS], ids="-".join)
def test_sums_of_special_numbers(pair, seed):
    """Infinities of both signs, NaN and numbers in one sum, in any order."""
    rng = np.random.default_rng(seed)
    a = rng.choice(corners(FORMATS[pair[0]]), (30, 3))
    b = rng.choice(corners(FORMATS[pair[1]]), (3, 30))
    for params, order in zip(tiles(pair), ([2, 0, 1], [1, 2, 0]), strict=True):
        model = sim.load(params, random_start=True)
        result, counters = model.matmul(a[:, order], b[order])
        wanted = exact.product(a, b, params.arithmetic)
        assert np.array_equal(result, wanted.results)
        assert counters.overflow == exact.count_overflow(wanted.flags)


@each_pair
def test_full_scale_operands_for_the_longest_reduction(pair):
    for params in tiles(pair):
        arithmetic = params.arithmetic
        x, y = full_scale(arithmetic)
        product = Fraction(float(arithmetic.a.decode(np.array(x, arithmetic.a.dtype))))
        product *= Fraction(float(arithmetic.b.decode(np.array(y, arithmetic.b.dtype))))
        assert 2 * product >= Fraction(2) ** (arithmetic.window[0] + (1 if arithmetic.is_float else 0))
        a = np.full((2, LONGEST), x, arithmetic.a.dtype)
        b = np.full((LONGEST, 2), y, arithmetic.b.dtype)
        if arithmetic.is_float:
            b[:, 1] |= 1 << arithmetic.b.bits - 1
        result, _ = sim.load(params, random_start=True).matmul(a, b)
        total = float(LONGEST * product)  # 12 bits and a product's: exact
        if arithmetic.is_float:
            assert np.array_equal(result.view(np.float32), np.float32([[total, -total]] * 2))
        else:
            assert np.array_equal(result, np.full((2, 2), int(total)))


OPTIONS = {
    "integers, shifted": {"format": "int8", "format_b": "int16", "out": "int8", "output_rows": 2},
    "shifted, dense": {"format": "int16", "out": "int16", "lookahead": 0},
    "brain floats": {"format": "bfloat16", "out": "bfloat16", "saturate": True, "accumulator": (3, -20)},
    "to FP8": {"format": "float16", "format_b": "bfloat16", "out": "float8_e4m3fn", "output_rows": 2},
    "raw": {"format": "bfloat16", "out": "raw", "accumulator": (20, -50)},
    "FP6 and FP4": {"format": "float6_e3m2fn", "format_b": "float4_e2m1fn", "out": "float6_e2m3fn"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_other_windows_and_read_outs(options, seed):
    rng = np.random.default_rng(seed)
    params = MacTileParams(rows=2, columns=1, lanes=3, max_reduction=500, **options)
    model, arithmetic = sim.load(params, random_start=True), params.arithmetic
    for shift in {0, arithmetic.accumulator_bits // 2} if arithmetic.shift_bits else {0}:
        a = random_operands(rng, arithmetic.a, (5, 40), zeros=0.2)
        b = random_operands(rng, arithmetic.b, (40, 7), zeros=0.6)
        result, _ = model.matmul(a, b, shift=shift)
        wanted = exact.product(a, b, arithmetic, shift).results
        assert result.dtype == wanted.dtype == arithmetic.result_dtype
        assert np.array_equal(result, wanted)
    beats, golden = random_case(params, 40, seed)
    run = model.stream(beats, 0.3, 0.3, seed)
    assert all(np.array_equal(run.outputs[name], values) for name, values in golden.items())


def test_what_a_model_refuses():
    model = sim.load(tiles(("bfloat16", "bfloat16"))[0], random_start=True)
    a, b = np.zeros((2, 3), np.uint16), np.zeros((3, 2), np.uint16)
    with pytest.raises(TypeError, match="a must be an array of uint16, bfloat16 bits, not of float32"):
        model.matmul(a.astype(np.float32), b)
    with pytest.raises(ValueError, match="shift belongs to an integer out, not to out = 'float32'"):
        model.matmul(a, b, shift=1)


# ---- the full sweeps ----

EVERY_PAIR = [
    *itertools.combinations_with_replacement(FLOATS, 2),
    ("int8", "int16"),
    ("int16", "int8"),
    *PAIRS,
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_architecture_in_every_geometry(pair, architecture, geometry, seed):
    check_random_case(tile(pair, architecture, geometry), seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("pair", EVERY_PAIR, ids="-".join)
def test_every_pair_of_formats(pair, seed):
    check_random_case(tile(pair, "tensordash", "1x1"), seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("lanes", [1, 3, 8, 32])
@pytest.mark.parametrize("out", ["raw", *FLOATS])
def test_every_read_out(out, lanes, seed):
    params = MacTileParams(rows=1, columns=2, lanes=lanes, format="bfloat16", out=out, max_reduction=100)
    check_random_case(params, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("max_reduction", [4, 1 << 24])
@pytest.mark.parametrize(
    "window", [(15, -48), (15, -40), (0, -3), (-20, -30), (60, -3), (127, -100), (255, -266)]
)
def test_every_window(window, max_reduction, seed):
    params = MacTileParams(
        rows=2, columns=1, lanes=4, format="bfloat16", accumulator=window, max_reduction=max_reduction
    )
    check_random_case(params, seed)


def check_random_case(params, seed):
    model = sim.load(params, random_start=True)
    beats, golden = random_case(params, 60, seed)
    assert len(np.unique(golden["result"])) > 3
    if "flags" in golden and "nan" in params.arithmetic.flags:
        assert (golden["flags"] >> FLAGS.index("nan") & 1).any()
    run = model.stream(beats, 0.2, 0.4, seed)
    for name, values in golden.items():
        assert np.array_equal(run.outputs[name], values), name

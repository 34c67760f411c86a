"""Exact products against fractions: every product, window and rounding computed in another way."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from fraction_reference import Reference

from skiptile.golden import exact
from skiptile.golden.arithmetic import FLAGS, Arithmetic
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.operands import corners, full_scale, random_operands

EIGHT = ("float8_e4m3fn", "float8_e5m2")
SIXTEEN = ("float16", "bfloat16")
FLOATS = [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]


def check(a, b, **options):
    reference = Reference(**options, max_reduction=a.shape[1])
    got = exact.product(a, b, reference.arithmetic)
    results, flags = reference.matmul(a, b)
    assert got.results.dtype == reference.arithmetic.result_dtype
    assert np.array_equal(got.results, results)
    assert np.array_equal(got.flags, flags)
    return got


@pytest.mark.parametrize("format_b", EIGHT)
@pytest.mark.parametrize("format", EIGHT)
def test_all_pairs_of_eight_bits(format, format_b):
    patterns = np.arange(256, dtype=np.uint8)
    got = check(patterns[:, None], patterns[None], format=format, format_b=format_b)
    assert len(np.unique(got.results)) > 500


def test_all_pairs_of_int8():
    values = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(
        exact.matmul(values[:, None], values[None], "int8", "int8", out="raw"),
        np.multiply.outer(np.arange(-128, 128), np.arange(-128, 128)),
    )


@pytest.mark.parametrize("format_b", SIXTEEN)
@pytest.mark.parametrize("format", SIXTEEN)
def test_corners_of_sixteen_bits(format, format_b):
    a, b = corners(FORMATS[format]), corners(FORMATS[format_b])
    got = check(a[:, None], b[None], format=format, format_b=format_b)
    classes = {frozenset(name for k, name in enumerate(FLAGS) if flag >> k & 1) for flag in got.flags.flat}
    assert classes >= {frozenset(), frozenset({"nan"}), frozenset({"pinf"}), frozenset({"ninf"})}
    assert got.flags.max() < 8 or "bfloat16" in (format, format_b)


@pytest.mark.parametrize(
    ("format", "format_b", "accumulator"),
    [
        ("float16", "float16", None),
        ("bfloat16", "bfloat16", None),
        ("bfloat16", "bfloat16", "exact"),
        ("float16", "bfloat16", None),
    ],
)
def test_random_pairs_of_sixteen_bits(format, format_b, accumulator, seed):
    """1e5 products of any patterns, NaN and infinities among them, as sums of one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 1 << 16, (400, 1)).astype(np.uint16)
    b = rng.integers(0, 1 << 16, (1, 250)).astype(np.uint16)
    check(a, b, format=format, format_b=format_b, accumulator=accumulator)


@pytest.mark.parametrize("format_b", FLOATS)
@pytest.mark.parametrize("format", FLOATS)
def test_sums_in_every_pair_of_formats(format, format_b, seed):
    rng = np.random.default_rng(seed)
    for specials, k in ((0, 40), (0.02, 20)):
        a = random_operands(rng, FORMATS[format], (4, k), zeros=0.2, specials=specials)
        b = random_operands(rng, FORMATS[format_b], (k, 5), zeros=0.2, specials=specials)
        for accumulator in (None, "exact"):
            check(a, b, format=format, format_b=format_b, accumulator=accumulator)


@pytest.mark.parametrize(("out", "saturate"), [("raw", False), *itertools.product(FLOATS, (False, True))])
def test_every_read_out(out, saturate, seed):
    rng = np.random.default_rng(seed)
    for format in ("float8_e4m3fn", "float8_e5m2", "bfloat16"):
        a = random_operands(rng, FORMATS[format], (8, 6), zeros=0.5, specials=0.03)
        b = random_operands(rng, FORMATS[format], (6, 8), zeros=0.5, specials=0.03)
        check(a, b, format=format, out=out, saturate=saturate)


WINDOWS = [(15, -48), (3, -3), (0, -3), (-20, -30), (30, -3), (15, -49), (60, -3), (100, -100)]


@pytest.mark.parametrize(
    ("format", "window"),
    [*itertools.product(["float8_e5m2", "float16"], WINDOWS[:5]),
     *itertools.product(["bfloat16", "float32"], WINDOWS)],
)  # fmt: skip
def test_windows(format, window, seed):
    """Narrower and wider than products on either side; both compiled loops, and none."""
    rng = np.random.default_rng(seed)
    a = random_operands(rng, FORMATS[format], (6, 30), zeros=0.2, specials=0.01)
    b = random_operands(rng, FORMATS[format], (30, 6), zeros=0.2, specials=0.01)
    for out in ("float32", "raw"):
        check(a, b, format=format, accumulator=window, out=out)


@pytest.mark.parametrize("format", ["float8_e5m2", "float16", "bfloat16"])
def test_order_does_not_matter(format, seed):
    rng = np.random.default_rng(seed)
    a = random_operands(rng, FORMATS[format], (5, 3000), zeros=0.3)
    b = random_operands(rng, FORMATS[format], (3000, 4), zeros=0.3)
    wanted = exact.matmul(a, b, format, format)
    for _ in range(3):
        order = rng.permutation(3000)
        assert np.array_equal(exact.matmul(a[:, order], b[order], format, format), wanted)


@pytest.mark.parametrize("format", ["int16", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_long_sums_lose_nothing(format):
    """More products than one block of BLAS takes, at full scale: each slice's sums are at their largest."""
    k = (1 << 18) + 3
    arithmetic = Arithmetic(format=format, max_reduction=k, out="raw")
    x, y = full_scale(arithmetic)
    a = np.full((1, k), x, arithmetic.a.dtype)
    b = np.full((k, 1), y, arithmetic.b.dtype)
    one = Reference(format=format, out="raw")
    expected = k * one.dot([x], [y])[0]
    assert expected.bit_length() <= arithmetic.accumulator_bits - 1
    assert int(exact.product(a, b, arithmetic).results[0, 0]) == expected


@pytest.mark.parametrize("format_b", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("place", range(24))
def test_long_sums_of_wide_products(format_b, place):
    """All ones in both operands, at every place of a digit: more terms than a digit holds without a carry."""
    k, one = (1 << 17) + 3, FORMATS["float32"]
    a = (one.encode(np.array(2.0 ** (place - 10))) + (1 << 23) - 1).astype(np.uint32)
    b = FORMATS[format_b].encode(np.array(1.0)) + (1 << FORMATS[format_b].fraction_bits) - 1
    b = b.astype(FORMATS[format_b].dtype)
    product = Fraction(float(one.decode(a))) * Fraction(float(FORMATS[format_b].decode(b)))
    options = {"format": "float32", "format_b": format_b, "accumulator": "exact", "out": "raw"}
    arithmetic = Arithmetic(**options, max_reduction=k)
    got = exact.product(np.full((1, k), a), np.full((k, 1), b), arithmetic)
    assert Fraction(got.results[0, 0]) * Fraction(2) ** arithmetic.window[1] == k * product


def test_rounding_once():
    """The sum 1 + 2^-8 + 2^-40 in bfloat16: through float32 it would be 1 (ml_dtypes pull request 401)."""
    one, small, tiny = FORMATS["bfloat16"].encode(np.array([1, 2.0**-8, 2.0**-40]))
    a = np.array([[one, small, tiny]])
    b = np.full((3, 1), one)
    assert exact.matmul(a, b, "bfloat16", "bfloat16", out="bfloat16") == FORMATS["bfloat16"].encode(1.0078125)


def test_a_sum_that_needs_all_its_bits():
    """2^200 + 1 - 2^200 is 1 in an unbounded sum."""
    big, one, minus = FORMATS["bfloat16"].encode(np.array([2.0**100, 1, -(2.0**100)]))
    a, b = np.array([[big, one, big]]), np.array([[big], [one], [minus]])
    assert exact.matmul(a, b, "bfloat16", "bfloat16", accumulator="exact") == np.float32(1).view(np.uint32)


@pytest.mark.parametrize("shift", [0, 1, 5, 12, 21, 40, 63])
@pytest.mark.parametrize("out", ["int8", "int16"])
def test_shifted_integers(out, shift, seed):
    rng = np.random.default_rng(seed)
    a = random_operands(rng, FORMATS["int8"], (20, 30))
    b = random_operands(rng, FORMATS["int16"], (30, 20))
    got = exact.matmul(a, b, "int8", "int16", out=out, shift=shift)
    sums = a.astype(int) @ b.astype(int)
    limits = np.iinfo(out)
    wanted = [max(limits.min, min(limits.max, round(Fraction(int(s), 1 << shift)))) for s in sums.flat]
    assert got.dtype == np.dtype(out)
    assert got.ravel().tolist() == wanted


def test_integers_as_floats():
    a, b = np.array([[-128, 127, 1]], np.int8), np.array([[32767], [-32768], [1]], np.int16)
    got = exact.matmul(a, b, "int8", "int16", out="float32")
    assert got.view(np.float32) == np.float32(-128 * 32767 - 127 * 32768 + 1)


@pytest.mark.parametrize("format", ["int8", "float8_e4m3fn", "bfloat16"])
@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_empty_products(format, m, k, n):
    dtype = FORMATS[format].dtype
    got = exact.matmul(np.zeros((m, k), dtype), np.zeros((k, n), dtype), format, format)
    assert got.shape == (m, n)
    assert not got.any()


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "message"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2), np.uint16), {}, TypeError,
         "a must be an array of uint16, bfloat16 bits, not of float64"),
        (np.zeros((2, 3), np.uint16), np.zeros((2, 3), np.uint16), {}, ValueError, r"\(2, 3\) and \(2, 3\)"),
        (np.zeros((2, 3), np.uint16), np.zeros((3, 2), np.uint16), {"out": "int8"}, ValueError,
         "out = 'int8' belongs to integers, not to format = 'bfloat16'"),
        (np.zeros((2, 3), np.uint16), np.zeros((3, 2), np.uint16), {"accumulator": (3, 4)}, ValueError,
         "accumulator.msb must not be below accumulator.lsb, not 3 with lsb = 4"),
        (np.zeros((2, 3), np.uint16), np.zeros((3, 2), np.uint16), {"shift": 1}, ValueError,
         "shift belongs to an integer out, not to out = 'float32'"),
        (np.zeros((2, 3), np.uint16), [[1]], {}, TypeError, "b must be an array .* not of list"),
    ],
)  # fmt: skip
def test_what_it_refuses(a, b, options, error, message):
    with pytest.raises(error, match=message):
        exact.matmul(a, b, "bfloat16", "bfloat16", **options)


@pytest.mark.parametrize("shift", [-1, 64, 1.5, True])
def test_shifts_that_are_refused(shift):
    a = np.ones((1, 1), np.int8)
    with pytest.raises((TypeError, ValueError), match=f"shift must be an integer from 0 to 63, not {shift}"):
        exact.matmul(a, a, "int8", "int8", out="int8", shift=shift)
    assert exact.matmul(a, a, "int8", "int8", out="int8", shift=np.int64(0)) == 1


def test_patterns_that_do_not_exist():
    a, b = np.array([[2, 0x22]], np.uint8), np.array([[2], [2]], np.uint8)
    with pytest.raises(ValueError, match="a: float4_e2m1fn has 4 bits, not the pattern 0x22"):
        exact.matmul(a, b, "float4_e2m1fn", "float4_e2m1fn")
    with pytest.raises(ValueError, match="b: float4_e2m1fn has 4 bits, not the pattern 0x22"):
        exact.matmul(b.T, a.T, "float4_e2m1fn", "float4_e2m1fn")


def test_integers_are_exact_by_any_name():
    a = np.full((1, 3), -128, np.int8)
    assert exact.matmul(a, a.T, "int8", "int8", out="raw", accumulator="exact") == 3 * 128 * 128

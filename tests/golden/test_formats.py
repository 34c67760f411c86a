"""Number formats against ml_dtypes, and against exact fractions with nothing of the same method in them."""

from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from skiptile.golden.formats import FORMATS, FloatFormat

FLOATS = [format for format in FORMATS.values() if isinstance(format, FloatFormat)]
TABULATED = [format for format in FLOATS if format.bits <= 16]
each_float = pytest.mark.parametrize("format", FLOATS, ids=lambda f: f.name)
each_tabulated = pytest.mark.parametrize("format", TABULATED, ids=lambda f: f.name)


def numpy_type(format):
    return np.dtype(getattr(ml_dtypes, format.name, format.name))


def patterns(format):
    return np.arange(1 << format.bits).astype(format.dtype)


def finite_magnitudes(format):
    """Pattern and exact value of each finite number without a sign, from the definition."""
    for code in range(format.largest_bits + 1):
        field, fraction = code >> format.fraction_bits, code & (1 << format.fraction_bits) - 1
        if field:
            fraction += 1 << format.fraction_bits
        scale = Fraction(2) ** (max(field, 1) - format.bias - format.fraction_bits)
        yield code, fraction * scale


def nearest(format, value):
    """The pattern that a real number of no sign rounds to, by a search with fractions."""
    known = dict(finite_magnitudes(format))
    beyond = format.largest_bits + 1  # a number of the same spacing if exponents went on
    top = known[format.largest_bits]
    known[beyond] = top + (top - known[format.largest_bits - 1])
    ranked = sorted(known, key=lambda code: (abs(known[code] - value), code & 1))
    return min(ranked[0], beyond)


@each_tabulated
def test_every_pattern_decodes_as_in_ml_dtypes(format):
    with np.errstate(invalid="ignore"):  # signalling NaN
        wanted = patterns(format).view(numpy_type(format)).astype(np.float64)
    got = format.decode(patterns(format))
    assert np.array_equal(got, wanted, equal_nan=True)
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


@each_tabulated
def test_every_value_encodes_to_its_pattern(format):
    values = format.decode(patterns(format))
    wanted = np.where(np.isnan(values), format.nan_bits or 0, patterns(format))
    assert np.array_equal(format.encode(values), wanted)


@pytest.mark.parametrize("format", [f for f in FLOATS if f.bits <= 8], ids=lambda f: f.name)
def test_rounding_is_to_the_nearest_fraction(format):
    """Every value, every mid-point, and their neighbours in float64."""
    exact = [value for _, value in finite_magnitudes(format)]
    exact.append(2 * exact[-1] - exact[-2])
    points = sorted({*exact, *((a + b) / 2 for a, b in pairwise(exact))})
    values = [float(point) for point in points]
    values += [np.nextafter(value, side) for value in values for side in (0, np.inf)]
    limit = format.largest_bits if format.nan_bits is None else format.largest_bits + 1
    for value in values:
        code = min(nearest(format, Fraction(value)), limit)
        assert format.encode(value) == code, value
        assert format.encode(value, saturate=True) == min(code, format.largest_bits)
        sign = 0 if code == format.nan_bits else 1 << format.bits - 1
        assert format.encode(-value) == code | sign


@each_float
def test_random_values_encode_as_in_ml_dtypes(format):
    """From float32, which every one of these conversions of ml_dtypes takes as it is."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 32, 200_000, np.uint32).view(np.float32)
    near = format.largest * rng.uniform(-2.5, 2.5, 50_000)
    with np.errstate(over="ignore"):
        values = np.concatenate([values, near.astype(np.float32)])
        values = values[~np.isnan(values)]
        wanted = values.astype(numpy_type(format)).view(format.dtype)
    got = format.encode(values)
    if format.nan_bits is not None:
        wanted = np.where(format.is_nan(wanted), format.nan_bits, wanted)
    assert np.array_equal(got, wanted)


def test_rounded_once():
    """ml_dtypes goes through float32 and gets 1.0 (its pull request 401)."""
    assert FORMATS["bfloat16"].encode(1 + 2**-8 + 2**-40) == 0x3F81
    assert FORMATS["bfloat16"].encode(1 + 2**-8) == 0x3F80
    assert FORMATS["float32"].encode(1 + 2**-24 + 2**-52) == 0x3F800001


@pytest.mark.parametrize(
    ("name", "bias", "exponents", "largest", "normal", "subnormal", "nan", "infinity"),
    [
        ("float4_e2m1fn", 1, (0, 2), 6, 1, 0.5, None, None),
        ("float6_e2m3fn", 1, (0, 2), 7.5, 1, 0.125, None, None),
        ("float6_e3m2fn", 3, (-2, 4), 28, 0.25, 0.0625, None, None),
        ("float8_e4m3fn", 7, (-6, 8), 448, 2**-6, 2**-9, 0x7F, None),
        ("float8_e5m2", 15, (-14, 15), 57344, 2**-14, 2**-16, 0x7E, 0x7C),
        ("float16", 15, (-14, 15), 65504, 2**-14, 2**-24, 0x7E00, 0x7C00),
        ("bfloat16", 127, (-126, 127), (2 - 2**-7) * 2.0**127, 2**-126, 2**-133, 0x7FC0, 0x7F80),
        (
            "float32",
            127,
            (-126, 127),
            (2 - 2**-23) * 2.0**127,
            2**-126,
            2**-149,
            0x7FC00000,
            0x7F800000,
        ),
    ],
)
def test_published_properties(name, bias, exponents, largest, normal, subnormal, nan, infinity):
    format = FORMATS[name]
    assert (format.bias, format.least_exponent, format.greatest_exponent) == (bias, *exponents)
    assert (format.largest, format.smallest_normal, format.smallest_subnormal) == (largest, normal, subnormal)
    assert (format.nan_bits, format.infinity_bits) == (nan, infinity)
    assert (format.has_nan, format.has_infinities) == (nan is not None, infinity is not None)


@each_tabulated
def test_classes(format):
    bits, values = patterns(format), format.decode(patterns(format))
    assert np.array_equal(format.is_zero(bits), values == 0)
    assert np.array_equal(format.is_nan(bits), np.isnan(values))
    assert np.array_equal(format.is_infinite(bits), np.isinf(values))
    small = (values != 0) & (np.abs(values) < format.smallest_normal)
    assert np.array_equal(format.is_subnormal(bits), small)


@each_float
def test_beyond_the_range(format):
    beyond = np.array([np.inf, -np.inf, 1e300, -1e300])
    largest = np.array([1, -1, 1, -1]) * format.largest
    assert np.array_equal(format.decode(format.encode(beyond, saturate=True)), largest)
    got = format.decode(format.encode(beyond))
    if format.has_infinities:
        assert np.array_equal(got, np.sign(beyond) * np.inf)
    elif format.has_nan:
        assert np.isnan(got).all()
    else:
        assert np.array_equal(got, largest)
    assert np.array_equal(np.signbit(format.decode(format.encode([1e-300, -1e-300, -0.0]))), [0, 1, 1])


@each_float
def test_nan(format):
    if format.has_nan:
        for saturate in (False, True):
            assert format.encode(np.array([np.nan, -np.nan]), saturate).tolist() == [format.nan_bits] * 2
    else:
        with pytest.raises(ValueError, match=f"^{format.name} has no NaN$"):
            format.encode(np.nan)


def test_integers():
    int8 = FORMATS["int8"]
    assert int8.encode([0.5, 1.5, -0.5, -2.5, 126.5]).tolist() == [0, 2, 0, -2, 126]
    assert int8.encode([127.5, -129, np.inf], saturate=True).tolist() == [127, -128, 127]
    everything = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(int8.encode(int8.decode(everything)), everything)
    assert int8.is_zero(everything).sum() == 1
    with pytest.raises(ValueError, match=r"^int8 holds -128 to 127, not 128; saturate=True clips$"):
        int8.encode([1, 127.5])
    with pytest.raises(ValueError, match=r"^int8 has no NaN$"):
        int8.encode(np.nan, saturate=True)


def test_bad_input():
    with pytest.raises(TypeError, match=r"^float8_e5m2 must be given as an array of uint8 bit patterns, not"):
        FORMATS["float8_e5m2"].decode(np.zeros(3))
    with pytest.raises(ValueError, match=r"^float6_e2m3fn has 6 bits, not the pattern 0x40$"):
        FORMATS["float6_e2m3fn"].is_zero(np.array([1, 64], np.uint8))
    for values in (np.array(["1"]), np.array([1j]), np.zeros(1, np.longdouble)):
        with pytest.raises(TypeError, match=r"^values must be real numbers of at most 64 bits, not"):
            FORMATS["float16"].encode(values)


@each_float
def test_shapes_are_kept(format):
    for shape in ((), (0,), (2, 3), (1, 0, 4)):
        assert format.encode(np.ones(shape)).shape == shape
        assert format.decode(format.encode(np.ones(shape))).shape == shape

"""Quantisation against exact rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skiptile.golden.formats import FORMATS
from skiptile.golden.quantise import check_finite, quantise, tensor_formats


def exact(tensor):
    """round(x * 127 / max|x|) half to even, in rational numbers."""
    values = [Fraction(float(value)) for value in tensor.ravel()]
    peak = max(abs(value) for value in values)
    return np.array([round(value * 127 / peak) for value in values], np.int8).reshape(tensor.shape)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-3, 0, 5])
def test_random_tensors(dtype, exponent):
    tensor = (np.random.default_rng(0).standard_normal((40, 50)) * 2.0**exponent).astype(dtype)
    q, scale = quantise(tensor)
    np.testing.assert_array_equal(q, exact(tensor))
    assert q.dtype == np.int8
    assert q.min() >= -127
    assert np.abs(q).max() == 127
    assert scale == float(np.abs(tensor.astype(np.float64)).max()) / 127
    np.testing.assert_allclose(q * scale, tensor, atol=scale * 0.5000001, rtol=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("peak", [1, 3, 254, 100, 127, 2**-10])
def test_ties_go_to_even(dtype, peak):
    """(n + 1/2) * peak / 127 is a tie only if it is a number of this format; its neighbours never are."""
    ties = (np.arange(-127, 127) + 0.5) * peak / 127
    near = ties.astype(dtype)
    tensor = np.concatenate(
        [near, np.nextafter(near, dtype(0)), np.nextafter(near, dtype(np.inf)), [dtype(peak)]]
    )
    q, _ = quantise(tensor.astype(dtype))
    np.testing.assert_array_equal(q, exact(tensor))
    if peak == 254:
        np.testing.assert_array_equal(
            quantise(np.array([254, 1, 3, 5, -1, -3], dtype))[0], [127, 0, 2, 2, 0, -2]
        )


def test_division_by_the_rounded_scale_would_be_wrong():
    """The pixel 8 of 0 .. 16 is exactly 63.5 of 127, whatever max / 127 rounds to."""
    q, _ = quantise(np.arange(17, dtype=np.float32) / 16)
    assert q[8] == 64
    assert q[16] == 127
    for peak in np.random.default_rng(1).uniform(0.5, 2, 500).astype(np.float32):
        tensor = np.array([peak, peak / 2, -peak / 2], np.float32)
        assert quantise(tensor)[0].tolist() == [127, 64, -64]


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [
        (np.float16, 65504), (np.float16, 2.0**-24), (np.float16, 1023 * 2.0**-24),
        (np.float32, np.finfo(np.float32).max), (np.float32, 2.0**-149),
        (np.float32, (2**23 - 1) * 2.0**-149),
        (np.float64, np.finfo(np.float64).max), (np.float64, 2.0**-1022), (np.float64, 200 * 2.0**-1074),
    ],
)  # fmt: skip
def test_ends_of_the_range(dtype, peak):
    tensor = np.array([peak, -peak, peak / 2, 0, peak / 3, -0.0], dtype)
    q, scale = quantise(tensor)
    np.testing.assert_array_equal(q, exact(tensor))
    assert scale == float(dtype(peak)) / 127
    assert 0 < scale < math.inf


@pytest.mark.parametrize(
    "tensor", [np.zeros((2, 3)), np.array([0.0, -0.0]), np.zeros((0, 4)), np.full(3, 5e-324)]
)
def test_zeros_have_scale_one(tensor):
    q, scale = quantise(tensor)
    assert scale == 1.0
    assert q.shape == tensor.shape
    assert q.dtype == np.int8
    assert not q.any()


def test_shape_and_input_are_kept():
    tensor = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    before = tensor.copy()
    assert quantise(tensor.transpose(3, 1, 0, 2))[0].shape == (5, 3, 2, 4)
    assert quantise(np.float32(-2.5))[0].shape == ()
    assert quantise(np.float32(-2.5))[0] == -127
    np.testing.assert_array_equal(tensor, before)


def test_not_finite_is_refused():
    tensor = np.ones((2, 3, 4), np.float32)
    tensor[1, 0, 2] = np.nan
    tensor[1, 2, 3] = -np.inf
    match = r"tensor must be finite to be quantised, but 2 of its 24 values .* first at index \(1, 0, 2\)"
    with pytest.raises(ValueError, match=match):
        quantise(tensor)
    with pytest.raises(ValueError, match=r"weight must be finite .* index \(1, 2\)"):
        check_finite(tensor[:, 2, 1:], name="weight")
    check_finite(np.zeros(0), name="weight")


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.bool_, np.complex64, object])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match="w must hold float16, float32 or float64 to be quantised, not"):
        quantise(np.ones(3, dtype), name="w")


@pytest.mark.parametrize("format", ["int16", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
@pytest.mark.parametrize("exponent", [-40, -3, 20])
def test_every_format_takes_a_scale_that_uses_its_range(format, exponent):
    tensor = np.random.default_rng(0).standard_normal((40, 50)) * 2.0**exponent
    patterns, scale = quantise(tensor, format)
    target = FORMATS[format]
    numbers = target.decode(patterns)
    assert patterns.dtype == target.dtype
    assert np.isfinite(numbers).all()
    if format == "bfloat16":
        assert scale == 1
    else:
        assert target.largest / 2 < np.abs(numbers).max() <= target.largest
        assert format == "int16" or math.frexp(scale)[0] == 0.5
    wanted = [round(Fraction(v) / Fraction(float(np.abs(tensor).max())) * 32767) for v in tensor.ravel()]
    if format == "int16":
        assert patterns.ravel().tolist() == wanted
    else:
        assert np.array_equal(patterns, target.encode(tensor / scale))


def test_the_largest_value_itself_fits():
    for format in ("float8_e4m3fn", "float8_e5m2", "float16"):
        largest = FORMATS[format].largest
        assert quantise(np.array([largest]), format)[1] == 1
        assert quantise(np.array([np.nextafter(largest, np.inf)]), format)[1] == 2


def test_int8_tensors_are_taken_as_they_are():
    tensor = np.array([-128, 0, 127], np.int8)
    assert quantise(tensor)[0] is tensor
    for format in ("int16", "bfloat16"):
        patterns, scale = quantise(tensor, format)
        assert (FORMATS[format].decode(patterns) * scale).tolist() == [-128, 0, 127]


def test_schemes():
    assert tensor_formats("fp8") == {
        "activation": "float8_e4m3fn", "weight": "float8_e4m3fn", "gradient": "float8_e5m2",
    }  # fmt: skip
    assert set(tensor_formats("float16").values()) == {"float16"}
    with pytest.raises(ValueError, match=r"formats must be one of fp8, int8, .*, not 'fp9'"):
        tensor_formats("fp9")


@pytest.mark.parametrize("format", ["int8", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_the_least_numbers(format):
    tensor = np.array([5e-324, 0, -5e-324])
    patterns, scale = quantise(tensor, format)
    numbers = FORMATS[format].decode(patterns)
    assert np.isfinite(numbers).all()
    assert numbers[1] == 0
    assert scale > 0


@pytest.mark.parametrize(("value", "format"), [(3.4e38, "bfloat16"), (1e39, "float32")])
def test_what_is_too_large_for_a_format_without_a_scale(value, format):
    with pytest.raises(ValueError, match=rf"w must be at most 3\.\d*e\+38 in magnitude for {format}, not"):
        quantise(np.array([1, -value]), format, name="w")
    with pytest.raises(ValueError, match="format must be one of"):
        quantise(np.array([1.0]), "float64")

"""Quantisation of real tensors to a number format: one scale per tensor, rounded once to nearest even."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skiptile.golden.checks import check_choice
from skiptile.golden.formats import FORMATS, FloatFormat, IntegerFormat

__all__ = ["SCHEMES", "check_finite", "quantise", "tensor_formats"]

SCHEMES = {
    "fp8": {"activation": "float8_e4m3fn", "weight": "float8_e4m3fn", "gradient": "float8_e5m2"},
}
"""Choices of a format for each tensor, beside those of one format for all."""


def tensor_formats(scheme: str) -> dict[str, str]:
    """The format of each tensor: of a scheme's name, or of a format's, which all take."""
    if scheme in SCHEMES:
        return dict(SCHEMES[scheme])
    if scheme not in FORMATS:
        raise ValueError(f"formats must be one of {', '.join((*SCHEMES, *FORMATS))}, not {scheme!r}")
    return dict.fromkeys(("activation", "weight", "gradient"), scheme)


def check_finite(tensor: np.ndarray, *, name: str = "tensor") -> None:
    """Raise ValueError, saying how many and where the first, if a float tensor holds NaN or infinities."""
    bad = ~np.isfinite(tensor)
    count = np.count_nonzero(bad)
    if count:
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), tensor.shape))
        raise ValueError(
            f"{name} must be finite to be quantised, but {count} of its {tensor.size} values are NaN or "
            f"infinite, the first at index {first}"
        )


def quantise(tensor: Any, format: str = "int8", *, name: str = "tensor") -> tuple[np.ndarray, float]:
    """Quantise a float tensor: ``tensor ~ scale * number``, and the numbers' bit patterns.

    Integers: scale = max|x| / largest, symmetric, so that the smallest integer is not used. Floats of fewer
    than 8 exponent bits: scale is the least power of two that leaves no number too large. Others, whose range
    is float32's: no scale.

    Args:
        tensor: array of float16, float32 or float64, any shape; int8 is taken as it is where the format is
            an integer one, as real numbers where it is not.
        format: name of a format.
        name: What errors call it.

    Returns:
        patterns: array of the format's type and the same shape.
        scale: 1.0 for a tensor that is empty or all zero (or so small that max|x| / largest is zero in
            float64): any scale represents zeros exactly, and 1.0 neither divides by zero nor wipes out a
            product of scales.

    Raises:
        TypeError: If the tensor holds something else.
        ValueError: If it holds NaN or infinities; says how many, and the index of the first. A value that is
            too large for a format without a scale; an unknown format.
    """
    check_choice("format", format, FORMATS)
    tensor, target = np.asarray(tensor), FORMATS[format]
    if tensor.dtype == np.int8:
        if isinstance(target, IntegerFormat):
            return tensor.astype(target.dtype, copy=False), 1.0
        tensor = tensor.astype(np.float64)
    if tensor.dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"{name} must hold float16, float32 or float64 to be quantised, not {tensor.dtype}")
    check_finite(tensor, name=name)
    if isinstance(target, FloatFormat):
        values = tensor.astype(np.float64)
        scale = _power_of_two(values, target)
        patterns = target.encode(values / scale)
        if target.is_infinite(patterns).any():
            raise ValueError(
                f"{name} must be at most {target.largest:.4g} in magnitude for {format}, not "
                f"{np.abs(values).max():.4g}"
            )
        return patterns, scale
    return _to_integers(tensor, target)


def _power_of_two(values: np.ndarray, target: FloatFormat) -> float:
    peak = float(np.abs(values).max(initial=0.0))
    if peak == 0 or target.exponent_bits >= 8:
        return 1.0
    exponent = math.frexp(peak)[1] - math.frexp(target.largest)[1]
    if math.ldexp(peak, -exponent) > target.largest:
        exponent += 1
    return math.ldexp(1, max(exponent, -1022))  # smaller ones are no normal numbers


def _to_integers(tensor: np.ndarray, target: IntegerFormat) -> tuple[np.ndarray, float]:
    """The real number x * largest / max|x|, rounded once, half to even, whatever the scale rounds to."""
    values = tensor.astype(np.float64).ravel()
    largest = target.largest
    peak = float(np.abs(values).max(initial=0.0))
    scale = peak / largest
    if scale == 0.0:
        return np.zeros(tensor.shape, target.dtype), 1.0
    mantissa, exponent = math.frexp(peak)
    values = np.ldexp(values, -exponent)  # exact; largest times the largest float64 would overflow
    quotients = values * largest / mantissa
    q = np.rint(quotients)
    # Product and quotient were rounded, which can make or hide a tie. (Not so for narrow floats in int8: the
    # product is exact, and a quotient that is no tie is further from one than float64 rounds.)
    if tensor.dtype == np.float64 or target.bits > 8:
        near = np.abs(np.abs(quotients - np.trunc(quotients)) - 0.5) < 1e-10
        for index in np.flatnonzero(near):
            q[index] = round(Fraction(values[index]) * largest / Fraction(mantissa))
    return q.astype(target.dtype).reshape(tensor.shape), scale

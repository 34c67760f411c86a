"""Quantisation of real tensors to int8: per tensor, symmetric, to nearest even."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["check_finite", "quantise"]


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


def quantise(tensor: Any, *, name: str = "tensor") -> tuple[np.ndarray, float]:
    """Quantise a float tensor: ``tensor ~ scale * q`` with q of int8 in -127 .. 127.

    The real number x * 127 / max|x| is rounded once, half to even, whatever the scale itself rounds to.

    Args:
        tensor: array of float16, float32 or float64, any shape.
        name: What errors call it.

    Returns:
        q: int8 array of the same shape.
        scale: max|x| / 127; 1.0 for a tensor that is empty or all zero (or so small that max|x| / 127 is zero
            in float64): any scale represents zeros exactly, and 1.0 neither divides by zero nor wipes out a
            product of scales.

    Raises:
        TypeError: If the tensor holds something else than these floats.
        ValueError: If it holds NaN or infinities; says how many, and the index of the first.
    """
    tensor = np.asarray(tensor)
    if tensor.dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"{name} must hold float16, float32 or float64 to be quantised, not {tensor.dtype}")
    check_finite(tensor, name=name)
    values = tensor.astype(np.float64).ravel()
    peak = float(np.abs(values).max(initial=0.0))
    scale = peak / 127
    if scale == 0.0:
        return np.zeros(tensor.shape, np.int8), 1.0
    mantissa, exponent = math.frexp(peak)
    values = np.ldexp(values, -exponent)  # exact, so that 127 times the largest float64 does not overflow
    quotients = values * 127 / mantissa
    q = np.rint(quotients)
    if tensor.dtype == np.float64:
        # Product and quotient were rounded, which can make or hide a tie. (Not so for narrower floats: the
        # product is exact, and a quotient that is no tie is further from one than float64 rounds.)
        near = np.abs(np.abs(quotients - np.trunc(quotients)) - 0.5) < 1e-12
        for index in np.flatnonzero(near):
            q[index] = round(Fraction(values[index]) * 127 / Fraction(mantissa))
    return q.astype(np.int8).reshape(tensor.shape), scale

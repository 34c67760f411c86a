"""Random operands for tests and benches, in any format: bit patterns that reach every class of number."""

import numpy as np

from skiptile.golden.arithmetic import Arithmetic
from skiptile.golden.formats import FloatFormat, Format, IntegerFormat

Generator = np.random.Generator


def corners(format: Format) -> np.ndarray:
    """One or more patterns of every class, of both signs: zeros, subnormals, normals, infinities, NaN."""
    if isinstance(format, IntegerFormat):
        ends = [format.smallest, format.smallest + 1, -1, 0, 1, format.largest]
        return np.array(ends, format.dtype)
    normal, one = 1 << format.fraction_bits, format.bias << format.fraction_bits
    unsigned = {0, 1, normal - 1, normal, one, one + 1, format.largest_bits - 1, format.largest_bits}
    if format.infinity_bits is not None:
        unsigned.add(format.infinity_bits)
    if format.nan_bits is not None:
        unsigned |= {format.nan_bits, (1 << format.bits - 1) - 1}
        if format.infinity_bits is not None:
            unsigned.add(format.infinity_bits + 1)  # the least NaN, a signalling one
    codes = np.array(sorted(unsigned))
    return np.concatenate([codes, codes | 1 << format.bits - 1]).astype(format.dtype)


def finite_corners(format: Format) -> np.ndarray:
    """The numbers among `corners`."""
    patterns = corners(format)
    return patterns[np.isfinite(format.decode(patterns))]


def random_operands(
    rng: Generator, format: Format, shape: tuple[int, ...], *, zeros: float = 0.0, specials: float = 0.0
) -> np.ndarray:
    """Bit patterns over the format's range, some of them `finite_corners`.

    Floats of a very wide range keep to exponents from 2^-30 to 2^6, whose products a window can hold.

    Args:
        zeros: share of positive zeros among the numbers; floats get a few negative ones too.
        specials: share of `corners`: NaN, infinities, and numbers of the widest range.
    """
    if isinstance(format, IntegerFormat):
        patterns = rng.integers(format.smallest, format.largest + 1, shape).astype(format.dtype)
        edges = np.array([format.smallest, format.largest], format.dtype)
    else:
        patterns, edges = _random_floats(rng, format, shape), finite_corners(format)
        if _is_wide(format):
            edges = edges[np.abs(format.decode(edges)) < 2]
    patterns = np.where(rng.random(shape) < 0.1, rng.choice(edges, shape), patterns)
    patterns = np.where(rng.random(shape) < zeros, 0, patterns)
    if specials:
        patterns = np.where(rng.random(shape) < specials, rng.choice(corners(format), shape), patterns)
    return patterns.astype(format.dtype)


def full_scale(arithmetic: Arithmetic) -> tuple[int, int]:
    """Patterns of two positive operands (negative integers) whose product is the largest that is kept."""
    a, b = arithmetic.a, arithmetic.b
    if isinstance(a, IntegerFormat) or isinstance(b, IntegerFormat):
        return (-1 << a.bits - 1), (-1 << b.bits - 1)
    excess = max(0, arithmetic.products[0] - arithmetic.window[0])
    room_a, room_b = (format.largest_bits >> format.fraction_bits for format in (a, b))
    second = min(excess // 2, room_b)
    first = min(excess - second, room_a)
    second = min(excess - first, room_b)
    return a.largest_bits - (first << a.fraction_bits), b.largest_bits - (second << b.fraction_bits)


def _is_wide(format: FloatFormat) -> bool:
    return format.exponent_bits >= 8


def _random_floats(rng: Generator, format: FloatFormat, shape: tuple[int, ...]) -> np.ndarray:
    low, high = 0, (format.largest_bits >> format.fraction_bits) + 1
    if _is_wide(format):
        low, high = format.bias - 30, format.bias + 7
    codes = rng.integers(low << format.fraction_bits, high << format.fraction_bits, shape)
    codes = np.minimum(codes, format.largest_bits)
    return codes | rng.integers(0, 2, shape) << format.bits - 1

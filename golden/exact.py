"""Exact matrix products: the one right answer that every architecture must give.

Sums are kept as digits: integers whose sum, each times its power of two, is the exact value. Where
products keep all their bits, the digits come from float64 BLAS on slices of the operands that are narrow
enough for no sum to be rounded; where a window cuts products off, from a compiled loop over products.
"""

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

from skiptile.golden.arithmetic import FLAGS, Arithmetic
from skiptile.golden.formats import FloatFormat, Format, IntegerFormat

SLICE_BITS = 20  # products of two slices leave 13 bits of float64 for sums
LIMB_BITS = 24  # digits of the compiled loop; a product's significand has at most two
MOST_TERMS = 1 << 62 - 2 * LIMB_BITS  # added to a limb, two products' parts each, before its carry is taken
Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Product:
    """A matrix product as an architecture gives it.

    Attributes:
        results: (M, N), bit patterns or integers, of `Arithmetic.result_dtype`.
        flags: (M, N), bits in the order of `FLAGS`: a product was NaN; was, or counts as, an infinity of
            either sign; was finite but too large for the window.
    """

    results: np.ndarray
    flags: np.ndarray


def matmul(
    a_bits: np.ndarray,
    b_bits: np.ndarray,
    format_a: str,
    format_b: str,
    out: str = "float32",
    accumulator: Any = None,
    *,
    saturate: bool = False,
    shift: int = 0,
) -> np.ndarray:
    """``a @ b`` of raw bit patterns (M, K) and (K, N), accumulated exactly and rounded once: (M, N).

    Args:
        a_bits, b_bits: of the formats' `dtype`.
        format_a, format_b: names of `golden.formats.FORMATS`.
        out: a float format's name, "raw" for the accumulators, or (integers) "int8" or "int16".
        accumulator: None: the default window of a product; "exact": the unbounded sum; or (msb, lsb).
        saturate: floats too large become the largest finite value.
        shift: integer ``out``: divide by 2^shift first, to nearest even.

    Raises:
        TypeError, ValueError: patterns of another type, shapes that do not fit, formats that cannot be mixed,
            an impossible window.
    """
    k = np.shape(a_bits)[1] if np.ndim(a_bits) == 2 else 1
    arithmetic = Arithmetic(
        format=format_a,
        format_b=format_b,
        accumulator=accumulator,
        out=out,
        saturate=saturate,
        max_reduction=max(1, k),
    )
    check_operands(a_bits, b_bits, arithmetic)
    return product(a_bits, b_bits, arithmetic, shift).results


def check_operands(a: np.ndarray, b: np.ndarray, arithmetic: Arithmetic) -> None:
    """Raise unless ``a @ b`` has a meaning: bit patterns of the formats, (M, K) and (K, N)."""
    for name, operand, format in (("a", a, arithmetic.a), ("b", b, arithmetic.b)):
        if not isinstance(operand, np.ndarray) or operand.dtype != format.dtype:
            found = operand.dtype if isinstance(operand, np.ndarray) else type(operand).__name__
            what = format.name if isinstance(format, IntegerFormat) else f"{format.dtype}, {format.name} bits"
            raise TypeError(f"{name} must be an array of {what}, not of {found}")
        try:
            format.checked(operand)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a @ b needs shapes (M, K) and (K, N), not {a.shape} and {b.shape}")


def product(a: np.ndarray, b: np.ndarray, arithmetic: Arithmetic, shift: int = 0) -> Product:
    """``a @ b`` of raw bit patterns (M, K) and (K, N) in ``arithmetic``, whatever its ``max_reduction``.

    ``shift`` belongs to integer results.
    """
    arithmetic.check_shift(shift)
    digits, radix, lsb, flags = _accumulate(a, b, arithmetic)
    out = arithmetic.out_format
    if isinstance(out, FloatFormat):
        sums = np.ldexp(_round_to_odd(digits, radix), lsb)
        return Product(_float_results(sums, flags, out, arithmetic.saturate), flags)
    dtype = arithmetic.result_dtype if out is None else np.dtype(np.int64)
    sums = _integers(digits, radix, lsb - arithmetic.window[1], dtype)
    return Product(sums if out is None else _shifted(sums, shift, out), flags)


def decode(results: np.ndarray, arithmetic: Arithmetic, shift: int = 0) -> np.ndarray:
    """Real numbers, float64, that results stand for; raw sums wider than 53 bits are rounded."""
    out = arithmetic.out_format
    if out is not None:
        return out.decode(results) * 2.0**shift
    return results.astype(np.float64) * 2.0 ** arithmetic.window[1]


def least_shift(a: np.ndarray, b: np.ndarray, arithmetic: Arithmetic) -> int:
    """The least shift with which no integer result of ``a @ b`` is saturated; 0 for other results."""
    out = arithmetic.out_format
    if not isinstance(out, IntegerFormat):
        return 0
    sums = product(a, b, replace(arithmetic, out="raw")).results
    return max(0, int(np.abs(sums).max(initial=0)).bit_length() - out.bits + 1)


def count_overflow(flags: np.ndarray) -> int:
    """How many results lost a product that was too large for the window."""
    return int(np.count_nonzero(flags & _flag("overflow")))


# ---- accumulation ----


def _accumulate(
    a: np.ndarray, b: np.ndarray, arithmetic: Arithmetic
) -> tuple[np.ndarray, int, int, np.ndarray]:
    """Digits (digits, M, N) of the sums, their radix, the weight of the first, and flags (M, N).

    The sum is ``2^lsb * sum over i of digits[i] * 2^(radix * i)``.
    """
    values_a, values_b = arithmetic.a.decode(a), arithmetic.b.decode(b)
    flags = np.zeros((len(a), b.shape[1]), np.uint8)
    if not (np.isfinite(values_a).all() and np.isfinite(values_b).all()):
        flags |= _special_flags(values_a, values_b)
    lost = arithmetic.truncates or arithmetic.overflows
    width = max(_scaled_bits(arithmetic.a), _scaled_bits(arithmetic.b))
    if not lost and width <= 2 * SLICE_BITS:
        radix = SLICE_BITS if width <= SLICE_BITS else -(-width // 2)
        digits = _sliced(_scaled(values_a, arithmetic.a), _scaled(values_b, arithmetic.b), width, radix)
        return digits, radix, arithmetic.products[1], flags
    first, second = arithmetic.float_operands
    digits, radix, overflow = _windowed(_finite(a, values_a, first), _finite(b, values_b, second), arithmetic)
    flags |= np.where(overflow & 1, _flag("pinf", "overflow"), 0).astype(np.uint8)
    flags |= np.where(overflow & 2, _flag("ninf", "overflow"), 0).astype(np.uint8)
    return digits, radix, arithmetic.window[1], flags


def _flag(*names: str) -> int:
    return sum(1 << FLAGS.index(name) for name in names)


def _special_flags(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which sums have a NaN or an infinity among their products; a zero annihilates either."""

    def some(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first.astype(np.float32) @ second.astype(np.float32) > 0

    nan = some(np.isnan(a), b != 0) | some(a != 0, np.isnan(b))
    infinite = {}
    for name, signs in (("pinf", (1, -1)), ("ninf", (-1, 1))):
        infinite[name] = np.zeros_like(nan)
        for sign_a, sign_b in zip((1, -1), signs, strict=True):
            towards_a, towards_b = a * sign_a > 0, b * sign_b > 0  # NaN is neither
            infinite[name] |= some(towards_a & np.isinf(a), towards_b) | some(
                towards_a, towards_b & np.isinf(b)
            )
    flags = np.where(nan, _flag("nan"), 0)
    for name, where in infinite.items():
        flags |= np.where(where, _flag(name), 0)
    return flags.astype(np.uint8)


def _scaled_bits(format: Format) -> int:
    """Bits of a magnitude in units of the least one."""
    if isinstance(format, FloatFormat):
        return format.greatest_exponent - format.least_exponent + format.fraction_bits + 1
    return format.bits


def _scaled(values: np.ndarray, format: Format) -> np.ndarray:
    """Finite values in units of the least one; zero for others."""
    if not isinstance(format, FloatFormat):
        return values
    return np.where(np.isfinite(values), values, 0) * 2.0 ** (format.fraction_bits - format.least_exponent)


def _sliced(a: np.ndarray, b: np.ndarray, width: int, radix: int) -> np.ndarray:
    """Digits of the products of integers of ``width`` bits, by float64 BLAS, whose sums stay below 2^53."""
    slices_a, slices_b = _slices(a, width, radix), _slices(b, width, radix)
    digits = np.zeros((len(slices_a) + len(slices_b) - 1, len(a), b.shape[1]), np.int64)
    block = 1 << 53 - 2 * min(width, radix)
    for start in range(0, a.shape[1], block):
        part = slice(start, start + block)
        for i, first in enumerate(slices_a):
            for j, second in enumerate(slices_b):
                digits[i + j] += (first[:, part] @ second[part]).astype(np.int64)
    return digits


def _slices(values: np.ndarray, width: int, radix: int) -> list[np.ndarray]:
    if width <= radix:
        return [values]
    high = np.trunc(values * 2.0**-radix)
    return [values - high * 2.0**radix, high]


def _finite(bits: np.ndarray, values: np.ndarray, format: FloatFormat) -> Arrays:
    """Significands, zero for NaN and infinities, and exponents; both contiguous."""
    significands, exponents = format.significands(bits)
    return (
        np.ascontiguousarray(np.where(np.isfinite(values), significands, 0)),
        np.ascontiguousarray(exponents),
    )


def _windowed(a: Arrays, b: Arrays, arithmetic: Arithmetic) -> tuple[np.ndarray, int, np.ndarray]:
    """Digits (digits, M, N) and their radix for the sums of (M, K) by (K, N), and which lost a product.

    The latter is 1 for a positive product that was too large, 2 for a negative one, 3 for both.
    """
    msb, lsb = arithmetic.window
    width = msb - lsb + 1
    shape = (len(a[0]), b[0].shape[1])
    overflow = np.zeros(shape, np.uint8)
    if width <= 64:
        digits = np.zeros((2, *shape), np.int64)
        _add_narrow(*a, *b, lsb, width, digits, overflow)
        return digits, 32, overflow
    digits = np.zeros((width // LIMB_BITS + 3, *shape), np.int64)
    for start in range(0, a[0].shape[1], MOST_TERMS):
        part = slice(start, start + MOST_TERMS)
        _carry(digits, LIMB_BITS)
        _add_wide(a[0][:, part], a[1][:, part], b[0][part], b[1][part], lsb, width, digits, overflow)
    return digits, LIMB_BITS, overflow


@numba.njit(cache=True)
def _add_narrow(significand_a, exponent_a, significand_b, exponent_b, lsb, width, digits, overflow):
    """Add products to two digits of 32 bits: a window of at most 64 bits.

    Few branches, so that it is vectorised.
    """
    m, k = significand_a.shape
    for row in range(m):
        low, high, lost = digits[0, row], digits[1, row], overflow[row]
        for place in range(k):
            significand, exponent = significand_a[row, place], exponent_a[row, place] - lsb
            if significand == 0:
                continue
            for column in range(significand_b.shape[1]):
                value = significand * significand_b[place, column]
                position = exponent + exponent_b[place, column]
                magnitude = np.uint64(abs(value)) >> np.uint64(min(max(-position, 0), 63))
                left = np.uint64(min(max(position, 0), 63))
                room = np.uint64(min(max(width - max(position, 0), 0), 63))
                too_large = magnitude >> room != 0
                kept = np.uint64(0) if too_large else magnitude << left
                sign = value >> 63
                low[column] += (np.int64(kept & np.uint64(0xFFFFFFFF)) ^ sign) - sign
                high[column] += (np.int64(kept >> np.uint64(32)) ^ sign) - sign
                lost[column] |= np.uint8(too_large) * np.uint8(1 if value > 0 else 2)


@numba.njit(cache=True)
def _add_wide(significand_a, exponent_a, significand_b, exponent_b, lsb, width, digits, overflow):
    """Add products to any number of digits of `LIMB_BITS`."""
    m, k = significand_a.shape
    mask = (1 << LIMB_BITS) - 1
    for row in range(m):
        for place in range(k):
            for column in range(significand_b.shape[1]):
                value = significand_a[row, place] * significand_b[place, column]
                if value == 0:
                    continue
                position = exponent_a[row, place] + exponent_b[place, column] - lsb
                magnitude = abs(value) >> min(max(-position, 0), 63)
                position = max(position, 0)
                if position >= width or magnitude >> min(width - position, 63) != 0:
                    overflow[row, column] |= np.uint8(1 if value > 0 else 2)
                    continue
                digit = position // LIMB_BITS
                shift = position - digit * LIMB_BITS
                sign = -1 if value < 0 else 1
                digits[digit, row, column] += sign * ((magnitude & mask) << shift)
                digits[digit + 1, row, column] += sign * (magnitude >> LIMB_BITS << shift)


# ---- read-out ----


def _carry(digits: np.ndarray, radix: int) -> None:
    """Make all digits but the last 0 .. 2^radix - 1; the last one then has the sum's sign."""
    for i in range(len(digits) - 1):
        digits[i + 1] += digits[i] >> radix
        digits[i] &= (1 << radix) - 1


def _round_to_odd(digits: np.ndarray, radix: int) -> np.ndarray:
    """The sums in float64: exact, or cut after 32 bits or more and made odd.

    Rounding such a number to 30 bits or fewer gives what rounding the sum itself would (Boldo and
    Melquiond, 2008).
    """
    room = np.zeros((-(-64 // radix), *digits.shape[1:]), np.int64)
    digits = np.concatenate([digits, room])
    _carry(digits, radix)
    negative = digits[-1] < 0
    digits[:, negative] *= -1
    _carry(digits, radix)
    mantissa, exponent = np.zeros(negative.shape, np.int64), np.zeros(negative.shape, np.int32)
    sticky = np.zeros(negative.shape, bool)
    for digit in digits[::-1]:
        full = mantissa >> 63 - radix != 0  # no room for a digit
        sticky |= full & (digit != 0)
        mantissa = np.where(full, mantissa, (mantissa << radix) + digit)
        exponent += np.where(full, radix, 0).astype(np.int32)
    excess = np.where(mantissa >> 53 != 0, 10, 0)
    sticky |= mantissa & (1 << excess) - 1 != 0
    values = np.ldexp((mantissa >> excess | sticky).astype(np.float64), exponent + excess.astype(np.int32))
    return np.where(negative, -values, values)


def _float_results(sums: np.ndarray, flags: np.ndarray, out: FloatFormat, saturate: bool) -> np.ndarray:
    """Patterns of sums and of what the flags say; NaN in a format without one is its largest value."""
    positive, negative = (flags & _flag(name) != 0 for name in ("pinf", "ninf"))
    nan = flags & _flag("nan") != 0
    nan |= positive & negative
    sums = np.where(positive, np.inf, np.where(negative, -np.inf, sums))
    bits = out.encode(np.where(nan, 0, sums), saturate=saturate)
    return np.where(nan, out.largest_bits if out.nan_bits is None else out.nan_bits, bits).astype(out.dtype)


def _integers(digits: np.ndarray, radix: int, scale: int, dtype: np.dtype) -> np.ndarray:
    """Sums times 2^scale as integers of ``dtype``."""
    total = np.zeros(digits.shape[1:], dtype)
    for i, digit in enumerate(digits):
        total += digit.astype(dtype) << radix * i + scale
    return total


def _shifted(sums: np.ndarray, shift: int, out: IntegerFormat) -> np.ndarray:
    """Sums / 2^shift, to nearest even, saturated."""
    if shift:
        half = 1 << shift - 1
        odd = sums >> shift & 1
        sums = sums + (half - 1) + odd >> shift
    return np.clip(sums, out.smallest, out.largest).astype(out.dtype)

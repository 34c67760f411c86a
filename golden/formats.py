"""Number formats: raw bit patterns to values and back, each value rounded once.

Names are those of NumPy and ``ml_dtypes``. Floats are IEEE 754 (2019), OCP 8-bit Floating Point
Specification 1.0 (FP8) and OCP Microscaling Formats 1.0 (FP6, FP4). A format is one line of ``FORMATS``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skiptile.golden.checks import check_choice


@dataclass(frozen=True)
class IntegerFormat:
    """Two's complement integers.

    Parameters:
        name: as NumPy calls it.
        bits: width.
    """

    name: str
    bits: int

    @property
    def description(self) -> str:
        return f"{self.bits}-bit two's complement"

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type of raw bit patterns, which are the values themselves."""
        return np.dtype(self.name)

    @property
    def magnitude_bits(self) -> int:
        """The lowest bits, which are all zero in a zero alone."""
        return self.bits

    @property
    def largest(self) -> int:
        return (1 << self.bits - 1) - 1

    @property
    def smallest(self) -> int:
        return -(1 << self.bits - 1)

    def decode(self, bits: np.ndarray) -> np.ndarray:
        """Values, float64, of raw bit patterns; any shape.

        Raises:
            TypeError: patterns of another type than `dtype`.
        """
        return self.checked(bits).astype(np.float64)

    def encode(self, values: np.ndarray, saturate: bool = False) -> np.ndarray:
        """Raw bit patterns of real numbers, rounded to nearest even.

        Raises:
            ValueError: NaN; without ``saturate`` also a value beyond the format's range.
        """
        rounded = np.rint(_values(values))
        if np.isnan(rounded).any():
            raise ValueError(f"{self.name} has no NaN")
        limited = np.clip(rounded, self.smallest, self.largest)
        if not saturate and (limited != rounded).any():
            beyond = rounded[limited != rounded].flat[0]
            raise ValueError(
                f"{self.name} holds {self.smallest} to {self.largest}, not {beyond:g}; saturate=True clips"
            )
        return limited.astype(self.dtype)

    def is_zero(self, bits: np.ndarray) -> np.ndarray:
        """Which patterns are zero."""
        return self.checked(bits) == 0

    def checked(self, bits: np.ndarray) -> np.ndarray:
        """The patterns; TypeError if they have another type than `dtype`."""
        return _patterns(self.name, bits, self.dtype)


@dataclass(frozen=True)
class FloatFormat:
    """Binary floating point: a sign, ``exponent_bits`` and ``fraction_bits``, with subnormals.

    Parameters:
        name: as ``ml_dtypes`` or NumPy calls it.
        exponent_bits, fraction_bits: widths of the fields.
        specials: which patterns are no numbers: "ieee", the largest exponent is infinity and NaN; "nan",
            the pattern of all ones alone is NaN; "none", all are numbers, and encoding always saturates.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    specials: str = "ieee"

    def __post_init__(self) -> None:
        check_choice("specials", self.specials, ("ieee", "nan", "none"))

    # ---- derived properties ----

    @property
    def description(self) -> str:
        specials = {"ieee": "infinities and NaN", "nan": "NaN, no infinities", "none": "numbers only"}
        fields = f"1 sign, {self.exponent_bits} exponent, {self.fraction_bits} fraction bits"
        return f"{fields}; {specials[self.specials]}"

    @property
    def bits(self) -> int:
        """Width."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type of raw bit patterns: the narrowest unsigned one."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint16 if self.bits <= 16 else np.uint32)

    @property
    def magnitude_bits(self) -> int:
        """The lowest bits, which are all zero in a zero alone: all but the sign."""
        return self.bits - 1

    @property
    def bias(self) -> int:
        """What is taken from the exponent field."""
        return (1 << self.exponent_bits - 1) - 1

    @property
    def least_exponent(self) -> int:
        """Of a normal number, as a power of two; subnormals share it."""
        return 1 - self.bias

    @property
    def greatest_exponent(self) -> int:
        """Of a finite number, as a power of two."""
        return (self.largest_bits >> self.fraction_bits) - self.bias

    @property
    def has_infinities(self) -> bool:
        return self.specials == "ieee"

    @property
    def has_nan(self) -> bool:
        return self.specials != "none"

    @property
    def largest_bits(self) -> int:
        """Pattern of the largest finite value."""
        ones = (1 << self.bits - 1) - 1
        return ones - {"ieee": 1 << self.fraction_bits, "nan": 1, "none": 0}[self.specials]

    @property
    def infinity_bits(self) -> int | None:
        """Pattern of +infinity; None if there is none."""
        return self.largest_bits + 1 if self.has_infinities else None

    @property
    def nan_bits(self) -> int | None:
        """Pattern of the canonical, positive quiet NaN; None if there is none."""
        if self.specials == "ieee":
            return self.largest_bits + 1 | 1 << self.fraction_bits - 1
        return self.largest_bits + 1 if self.has_nan else None

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return float(self._magnitude(np.array(self.largest_bits)))

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.least_exponent

    @property
    def smallest_subnormal(self) -> float:
        return 2.0 ** (self.least_exponent - self.fraction_bits)

    # ---- conversion ----

    def decode(self, bits: np.ndarray) -> np.ndarray:
        """Values, float64, of raw bit patterns; any shape. Exact, NaN and infinities included.

        Raises:
            TypeError: patterns of another type than `dtype`.
            ValueError: patterns of more than `bits` bits.
        """
        patterns = self.checked(bits)
        return self._table[patterns] if self.bits <= 16 else self._decode(patterns)

    def encode(self, values: np.ndarray, saturate: bool = False) -> np.ndarray:
        """Raw bit patterns of real numbers, any shape, rounded once, to nearest even.

        Too large: infinity, or NaN where there is none; with ``saturate``, and in formats without either,
        the largest finite value, for infinities too. What rounds to zero keeps its sign.

        Args:
            values: float64, or what converts to it exactly.

        Raises:
            ValueError: NaN for a format that has none.
        """
        values = _values(values)
        nan, magnitude = np.isnan(values), np.abs(values)
        if nan.any() and self.nan_bits is None:
            raise ValueError(f"{self.name} has no NaN")
        finite = np.where(np.isfinite(magnitude), magnitude, 0)
        exponent = np.maximum(np.frexp(finite)[1] - 1, self.least_exponent)
        exponent = np.where(finite == 0, self.least_exponent, exponent)
        # Both scalings are by powers of two, so rint is the only rounding; a carry goes on into the exponent.
        fraction = np.rint(np.ldexp(finite, self.fraction_bits - exponent)).astype(np.int64)
        codes = (exponent - self.least_exponent).astype(np.int64) * (1 << self.fraction_bits) + fraction
        limit = self.largest_bits
        if not saturate and self.nan_bits is not None:
            limit = self.nan_bits if self.infinity_bits is None else self.infinity_bits
        codes = np.where((codes > self.largest_bits) | np.isinf(values), limit, codes)
        codes |= np.signbit(values).astype(np.int64) << self.bits - 1
        if self.nan_bits is not None:  # it has no sign
            beyond = codes & (1 << self.bits - 1) - 1 == self.nan_bits
            codes = np.where(nan | beyond, self.nan_bits, codes)
        return codes.astype(self.dtype)

    def significands(self, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Integers s and e, int64, such that a finite number is s * 2^e; any for NaN and infinities."""
        unsigned = self._unsigned(bits)
        field, fraction = unsigned >> self.fraction_bits, unsigned & (1 << self.fraction_bits) - 1
        fraction += np.minimum(field, 1) << self.fraction_bits
        negative = (np.asarray(bits) >> self.bits - 1) != 0
        return np.where(negative, -fraction, fraction), np.maximum(field, 1) - self.bias - self.fraction_bits

    # ---- classification of raw bit patterns ----

    def checked(self, bits: np.ndarray) -> np.ndarray:
        """The patterns, if they are this format's.

        Raises:
            TypeError: patterns of another type than `dtype`.
            ValueError: patterns of more than `bits` bits.
        """
        patterns = _patterns(self.name, bits, self.dtype)
        if self.bits < 8 * self.dtype.itemsize and (patterns >> self.bits).any():
            raise ValueError(f"{self.name} has {self.bits} bits, not the pattern {int(patterns.max()):#x}")
        return patterns

    def is_zero(self, bits: np.ndarray) -> np.ndarray:
        """Both zeros; subnormals are none."""
        return self.checked(bits) & (1 << self.bits - 1) - 1 == 0

    def is_nan(self, bits: np.ndarray) -> np.ndarray:
        least = self.largest_bits + (2 if self.has_infinities else 1)
        return self._unsigned(bits) >= least

    def is_infinite(self, bits: np.ndarray) -> np.ndarray:
        return self._unsigned(bits) == (-1 if self.infinity_bits is None else self.infinity_bits)

    def is_subnormal(self, bits: np.ndarray) -> np.ndarray:
        unsigned = self._unsigned(bits)
        return (unsigned > 0) & (unsigned < 1 << self.fraction_bits)

    # ---- inside ----

    @cached_property
    def _table(self) -> np.ndarray:
        return self._decode(np.arange(1 << self.bits))

    def _decode(self, patterns: np.ndarray) -> np.ndarray:
        unsigned = patterns.astype(np.int64) & (1 << self.bits - 1) - 1
        magnitude = self._magnitude(unsigned)
        magnitude = np.where(unsigned > self.largest_bits, np.nan, magnitude)
        if self.infinity_bits is not None:
            magnitude = np.where(unsigned == self.infinity_bits, np.inf, magnitude)
        return np.where(patterns >> self.bits - 1, -magnitude, magnitude)

    def _magnitude(self, unsigned: np.ndarray) -> np.ndarray:
        """Values of patterns without a sign, as if all were numbers."""
        field = unsigned >> self.fraction_bits
        fraction = (unsigned & (1 << self.fraction_bits) - 1) + (np.minimum(field, 1) << self.fraction_bits)
        return np.ldexp(fraction.astype(np.float64), np.maximum(field, 1) - self.bias - self.fraction_bits)

    def _unsigned(self, bits: np.ndarray) -> np.ndarray:
        return self.checked(bits).astype(np.int64) & (1 << self.bits - 1) - 1


Format = IntegerFormat | FloatFormat

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        IntegerFormat("int8", 8),
        IntegerFormat("int16", 16),
        FloatFormat("float4_e2m1fn", 2, 1, "none"),
        FloatFormat("float6_e2m3fn", 2, 3, "none"),
        FloatFormat("float6_e3m2fn", 3, 2, "none"),
        FloatFormat("float8_e4m3fn", 4, 3, "nan"),
        FloatFormat("float8_e5m2", 5, 2),
        FloatFormat("float16", 5, 10),
        FloatFormat("bfloat16", 8, 7),
        FloatFormat("float32", 8, 23),
    )
}


def _patterns(name: str, bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = np.asarray(bits)
    if bits.dtype != dtype:
        raise TypeError(f"{name} must be given as an array of {dtype} bit patterns, not of {bits.dtype}")
    return bits


def _values(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise TypeError(f"values must be real numbers of at most 64 bits, not {values.dtype}")
    return values.astype(np.float64)

"""What a processing element computes with: operands, the accumulator's window, and the read-out.

Products are accumulated exactly, in fixed point (Kulisch's long accumulator; de Dinechin's
application-specific one), so that the order of additions does not matter: every architecture gives the
same bits. DESIGN: "Numbers"; docs/number-formats.md tells users.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skiptile.golden.checks import check_choice, check_integer, check_keys
from skiptile.golden.formats import FORMATS, FloatFormat, Format, IntegerFormat
from skiptile.golden.payload import Field

Window = tuple[int, int]

LEAST_WINDOW_BITS = 4
MOST_ACCUMULATOR_BITS = 640
MOST_DEFAULT_BITS = 80  # products of a wider range get `WIDE_WINDOW` unless told otherwise
WIDE_WINDOW: Window = (15, -48)  # of bfloat16, by measurement: docs/results.md, "The window of bfloat16"
RAW = "raw"
FLAGS = ("nan", "pinf", "ninf", "overflow")  # of a result, least significant first
SHIFT_BITS = 6  # of the run-time field `shift`: integers' accumulators have at most 56 bits
SHIFTS_PER_STAGE = 3  # levels of a barrel shifter between two registers of the read-out


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """Operands, accumulator and read-out of a dot product, checked.

    Parameters:
        format: of operand ``a``.
        format_b: of operand ``b``; None: as ``format``.
        accumulator: floats only: (msb, lsb), the weights of one product's most and least significant bit
            that are kept, also as a table of the two; "exact": all that a product can have; None: the same
            where these are at most 80 bits, else `WIDE_WINDOW`.
        out: results: "raw", the accumulator itself; a float format, rounded once; int8 or int16 (integer
            operands), shifted and saturated. None: "raw" for integers, "float32" for floats.
        saturate: a float result too large, or infinite, becomes the largest finite value.
        max_reduction: longest dot product that the accumulator holds exactly, in products.

    After construction ``format_b`` and ``out`` are names; ``accumulator`` is (msb, lsb), None for integers.
    """

    format: str
    format_b: str | None = None
    accumulator: Any = None
    out: str | None = None
    saturate: bool = False
    max_reduction: int = 1

    def __post_init__(self) -> None:
        check_choice("format", self.format, FORMATS)
        if self.format_b is None:
            object.__setattr__(self, "format_b", self.format)
        check_choice("format_b", self.format_b, FORMATS)
        if isinstance(self.a, FloatFormat) != isinstance(self.b, FloatFormat):
            raise ValueError(
                f"format = {self.format!r} and format_b = {self.format_b!r} cannot be mixed: integers meet "
                "integers, floats meet floats"
            )
        object.__setattr__(self, "accumulator", self._checked_window())
        self._check_out()

    def _checked_window(self) -> Window | None:
        given = self.accumulator
        if not self.is_float:
            if given is not None and not (isinstance(given, str) and given == "exact"):
                raise ValueError(
                    f"accumulator belongs to floats, not to format = {self.format!r}: integers are summed "
                    "exactly"
                )
            return None
        most, least = self.products
        if given is None:
            return self.products if most - least < MOST_DEFAULT_BITS else WIDE_WINDOW
        if isinstance(given, str) and given == "exact":
            window = self.products
        elif isinstance(given, dict):
            check_keys("accumulator", given, ("msb", "lsb"), needed=("msb", "lsb"))
            window = (given["msb"], given["lsb"])
        elif isinstance(given, (tuple, list)) and len(given) == 2:
            window = (given[0], given[1])
        else:
            raise TypeError(f"accumulator must be 'exact' or {{ msb, lsb }}, not {given!r}")
        msb, lsb = window
        for name, value in (("accumulator.msb", msb), ("accumulator.lsb", lsb)):
            check_integer(name, value, -1024, 1024)
        if msb < lsb:
            raise ValueError(f"accumulator.msb must not be below accumulator.lsb, not {msb} with lsb = {lsb}")
        if msb - lsb + 1 < LEAST_WINDOW_BITS:
            raise ValueError(
                f"accumulator must keep at least {LEAST_WINDOW_BITS} bits of a product, not msb = {msb}, "
                f"lsb = {lsb}"
            )
        whole = most + 1 - sum(format.fraction_bits + 1 for format in self.float_operands)
        if msb < least or lsb > whole:
            raise ValueError(
                f"accumulator must have msb from {least}, the least product's, and lsb up to {whole}, where "
                f"the largest ends ({self.format}, {self.format_b}), not msb = {msb}, lsb = {lsb}"
            )
        bits = msb - lsb + 2 + self.growth_bits
        if bits > MOST_ACCUMULATOR_BITS:
            raise ValueError(
                f"accumulator must have at most {MOST_ACCUMULATOR_BITS} bits, not {bits} (msb = {msb}, "
                f"lsb = {lsb}, and max_reduction = {self.max_reduction})"
            )
        return window

    def _check_out(self) -> None:
        if self.out is None:
            object.__setattr__(self, "out", "float32" if self.is_float else RAW)
        check_choice("out", self.out, (RAW, *FORMATS))
        if not isinstance(self.saturate, bool):
            raise TypeError(f"saturate must be true or false, not {self.saturate!r}")
        if isinstance(self.out_format, IntegerFormat) and self.is_float:
            raise ValueError(f"out = {self.out!r} belongs to integers, not to format = {self.format!r}")
        if self.saturate and not isinstance(self.out_format, FloatFormat):
            raise ValueError(f"saturate belongs to a float out, not to out = {self.out!r}")

    # ---- formats ----

    def operand(self, name: str) -> Format:
        """The format of operand "a" or "b"."""
        return {"a": self.a, "b": self.b}[name]

    @property
    def a(self) -> Format:
        return FORMATS[self.format]

    @property
    def b(self) -> Format:
        return FORMATS[str(self.format_b)]

    @property
    def float_operands(self) -> tuple[FloatFormat, FloatFormat]:
        """Both formats, where they are floats'."""
        a, b = self.a, self.b
        assert isinstance(a, FloatFormat)
        assert isinstance(b, FloatFormat)
        return a, b

    @property
    def is_float(self) -> bool:
        return isinstance(self.a, FloatFormat)

    @property
    def out_format(self) -> Format | None:
        """None: the raw accumulator."""
        return FORMATS.get(str(self.out))

    # ---- products and their window ----

    @property
    def products(self) -> Window:
        """Weights (msb, lsb) of the bits that a finite product's magnitude can have."""
        a, b = self.a, self.b
        if isinstance(a, FloatFormat) and isinstance(b, FloatFormat):
            least = a.least_exponent - a.fraction_bits + b.least_exponent - b.fraction_bits
            return a.greatest_exponent + b.greatest_exponent + 1, least
        return a.bits + b.bits - 2, 0

    @property
    def window(self) -> Window:
        """Weights (msb, lsb) of the bits of a product's magnitude that are kept."""
        return self.accumulator or self.products

    @property
    def truncates(self) -> bool:
        """Whether a product can have bits below the window."""
        return self.window[1] > self.products[1]

    @property
    def overflows(self) -> bool:
        """Whether a finite product can be too large for the window."""
        return self.window[0] < self.products[0]

    @property
    def flags(self) -> tuple[str, ...]:
        """Those of `FLAGS` that can ever be set."""
        floats = [format for format in (self.a, self.b) if isinstance(format, FloatFormat)]
        infinite = self.overflows or any(format.has_infinities for format in floats)
        possible = {
            "nan": any(format.has_nan for format in floats),
            "pinf": infinite,
            "ninf": infinite,
            "overflow": self.overflows,
        }
        return tuple(flag for flag in FLAGS if possible[flag])

    # ---- widths ----

    @property
    def product_bits(self) -> int:
        """Bits of one product as it is added, sign included."""
        msb, lsb = self.window
        return msb - lsb + 2

    @property
    def growth_bits(self) -> int:
        """Bits that summing ``max_reduction`` products adds."""
        return (self.max_reduction - 1).bit_length()

    @property
    def accumulator_bits(self) -> int:
        return self.product_bits + self.growth_bits

    @property
    def state_bits(self) -> int:
        """Bits of an accumulator with its sticky flags."""
        return self.accumulator_bits + len(self.flags)

    @property
    def result_bits(self) -> int:
        return self.accumulator_bits if self.out_format is None else self.out_format.bits

    @property
    def result_signed(self) -> bool:
        """Whether a result is a number in two's complement, not a float's bit pattern."""
        return not isinstance(self.out_format, FloatFormat)

    @property
    def result_dtype(self) -> np.dtype:
        """NumPy's type of results; object for Python integers where int64 is too narrow."""
        if self.out_format is not None:
            return self.out_format.dtype
        return np.dtype(np.int64 if self.accumulator_bits <= 64 else object)

    @property
    def shift_bits(self) -> int:
        """Bits of the run-time field ``shift``; 0 where there is none."""
        return SHIFT_BITS if isinstance(self.out_format, IntegerFormat) else 0

    def check_shift(self, shift: int) -> None:
        """Raise unless results can be divided by 2^shift."""
        if not isinstance(self.out_format, IntegerFormat) and shift:
            raise ValueError(f"shift belongs to an integer out, not to out = {self.out!r}")
        number = int(shift) if isinstance(shift, np.integer) else shift
        check_integer("shift", number, 0, (1 << SHIFT_BITS) - 1)

    def changes(self, format: str, format_b: str) -> dict[str, Any]:
        """Parameters that change where operands have other formats.

        Window and read-out stay if the formats are its own or swapped; else the window is the default for the
        formats, and of the read-out what fits them stays. (`dataclasses.replace` would keep all of them.)
        """
        changes: dict[str, Any] = {"format": format, "format_b": format_b}
        if {format, format_b} != {self.format, self.format_b}:
            changes["accumulator"] = None
            if Arithmetic(format=format, format_b=format_b).is_float != self.is_float:
                changes |= {"out": None, "saturate": False}
        return changes

    # ---- fields of payloads ----

    def operand_field(self, name: str, shape: tuple[int, ...]) -> Field:
        """The field of operand ``name``, "a" or "b"."""
        format = self.operand(name)
        return Field(name, format.bits, shape, signed=isinstance(format, IntegerFormat))

    def result_fields(self, shape: tuple[int, ...]) -> tuple[Field, ...]:
        """``result`` and, for floats, ``flags``."""
        fields = [Field("result", self.result_bits, shape, signed=self.result_signed)]
        if self.is_float:
            fields.append(Field("flags", len(FLAGS), shape))
        return tuple(fields)

    @property
    def shift_fields(self) -> tuple[Field, ...]:
        """``shift`` of a reduction's last beat, for integer results."""
        return (Field("shift", self.shift_bits),) if self.shift_bits else ()

    # ---- latencies, in clock cycles ----

    @property
    def multiply_latency(self) -> int:
        """From operands to the term that is added: the product, and its place in the window."""
        return 2 if self.is_float else 1

    @property
    def aligned_bits(self) -> int:
        """Bits of a sum's magnitude, with as many above it as reach the results' least exponent."""
        assert isinstance(self.out_format, FloatFormat)
        return max(self.accumulator_bits - 1, self.out_format.least_exponent - self.window[1] + 1)

    @property
    def most_leading_zeros(self) -> int:
        """The farthest that a sum's magnitude is shifted left: to its end, or to the subnormals' place."""
        assert isinstance(self.out_format, FloatFormat)
        top = self.window[1] + self.aligned_bits - 1
        return min(self.aligned_bits - 1, top - self.out_format.least_exponent)

    @property
    def read_out_shifts(self) -> int:
        """Levels of the read-out's shifter."""
        if isinstance(self.out_format, FloatFormat):
            return self.most_leading_zeros.bit_length()
        return self.shift_bits

    @property
    def read_out_latency(self) -> int:
        """From an accumulator's content to the result that is given."""
        if self.out_format is None:
            return 0
        before = 2 if isinstance(self.out_format, FloatFormat) else 0  # magnitude, leading zeros
        return before + -(-self.read_out_shifts // SHIFTS_PER_STAGE) + 2  # rounding, limits

    # ---- for people and the manifest ----

    @property
    def contract(self) -> list[str]:
        """What a user of the results must know, in sentences."""
        msb, lsb = self.window
        sentences = []
        if self.is_float:
            sentences.append(
                "A product with a zero operand, of either sign, is exactly zero, also where the other "
                "operand is NaN or infinite."
            )
            sentences.append(
                "flags, from the least significant bit: a product was NaN; was or counts as +infinity; "
                "as -infinity; was finite but too large for the accumulator."
            )
        if self.truncates:
            sentences.append(f"Each product's magnitude is cut off below 2^{lsb} before it is added.")
        if self.overflows:
            sentences.append(
                f"A finite product of 2^{msb + 1} or more adds nothing, sets overflow and counts as an "
                "infinity of its sign."
            )
        out = self.out_format
        if out is None:
            unit = f" in units of 2^{lsb}" if self.is_float else ""
            sentences.append(f"result is the exact sum, two's complement{unit}.")
        elif isinstance(out, FloatFormat):
            limit = "infinity" if out.has_infinities else "NaN"
            if self.saturate or not out.has_nan:
                limit = "the largest finite value"
            sentences.append(
                f"result is the sum's {out.name} bit pattern, rounded once, to nearest even; too large: "
                f"{limit}."
            )
        else:
            sentences.append(
                "result is the sum divided by 2^shift of the reduction's last beat, to nearest even, and "
                f"saturated to {out.name}."
            )
        return sentences


def tree_stages(terms: int, radix: int = 2) -> int:
    """Levels of a tree that adds up ``terms`` numbers, ``radix`` at a time."""
    stages = 0
    while terms > 1:
        terms, stages = -(-terms // radix), stages + 1
    return stages

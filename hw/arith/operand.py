"""Operands: what the bits of a number say, without a register."""

from amaranth.hdl import Cat, Const, Value

from skiptile.golden.formats import FloatFormat, Format


def magnitude(bits: Value, format: Format) -> Value:
    """The bits that the effectual test looks at: for floats all but the sign, since both zeros are none."""
    return bits[:-1] if isinstance(format, FloatFormat) else bits


class FloatOperand:
    """The parts of a float.

    A number is ``significand * 2^(exponent + least_exponent - fraction_bits)``.

    Attributes:
        sign, significand, exponent: significand with its leading bit; exponent 0 for subnormals, too.
        zero, nan, infinite: its class.
    """

    def __init__(self, bits: Value, format: FloatFormat) -> None:
        fraction, field = bits[: format.fraction_bits], bits[format.fraction_bits : -1]
        normal = field.any()
        self.sign = bits[-1]
        self.significand = Cat(fraction, normal)
        self.exponent = (field - normal)[: format.exponent_bits]
        self.zero = ~magnitude(bits, format).any()
        self.nan: Value = Const(0)
        self.infinite: Value = Const(0)
        if format.specials == "ieee":
            self.nan = field.all() & fraction.any()
            self.infinite = field.all() & ~fraction.any()
        elif format.specials == "nan":
            self.nan = bits[:-1].all()

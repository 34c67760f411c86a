"""Operands: what the bits of a number say, without a register."""

from amaranth.hdl import Cat, Const, Value

from skiptile.golden.formats import FloatFormat


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
        self.zero = ~bits[: format.magnitude_bits].any()
        self.nan: Value = Const(0)
        self.infinite: Value = Const(0)
        if format.specials == "ieee":
            self.nan = field.all() & fraction.any()
            self.infinite = field.all() & ~fraction.any()
        elif format.specials == "nan":
            self.nan = bits[:-1].all()

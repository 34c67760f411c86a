"""Dot products by fractions, from the definition: nothing of golden's methods is in them."""

from fractions import Fraction
from functools import cache

import numpy as np

from skiptile.golden.arithmetic import FLAGS, Arithmetic


@cache
def power(exponent):
    return Fraction(2) ** exponent


def nearest(value, negative, out, saturate):
    """The pattern of a fraction rounded to nearest even: Python's own rounding of fractions."""
    if not value:
        return 0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()  # or one less
    exponent = max(out.least_exponent, exponent if magnitude >= power(exponent) else exponent - 1)
    unit = power(exponent - out.fraction_bits)
    code = (exponent - out.least_exponent << out.fraction_bits) + round(magnitude / unit)
    if code > out.largest_bits:
        return limit(negative, out, saturate)
    return code | negative << out.bits - 1


def limit(negative, out, saturate):
    """What a number too large, or an infinity, becomes."""
    if saturate or out.specials == "none":
        return out.largest_bits | negative << out.bits - 1
    return out.nan_bits if out.specials == "nan" else out.infinity_bits | negative << out.bits - 1


class Reference:
    """Dot products by fractions, from the definition."""

    def __init__(self, **options):
        self.arithmetic = Arithmetic(**options)
        a, b = self.arithmetic.a, self.arithmetic.b
        self.a, self.b = self.table(a), self.table(b)

    @staticmethod
    def table(format):
        """Value of a pattern: a fraction, or "nan", "inf", "-inf"."""

        @cache
        def value(pattern):
            number = float(format.decode(np.array([pattern], format.dtype))[0])
            return Fraction(number) if np.isfinite(number) else str(number)

        return value

    def product(self, x, y):
        """A fraction that is added, and the flags that are set."""
        if x == 0 or y == 0:
            return Fraction(0), set()
        if "nan" in (x, y):
            return Fraction(0), {"nan"}
        negative = sum(v[0] == "-" if isinstance(v, str) else v < 0 for v in (x, y)) == 1
        infinity = "ninf" if negative else "pinf"
        if isinstance(x, str) or isinstance(y, str):
            return Fraction(0), {infinity}
        msb, lsb = self.arithmetic.window
        magnitude = abs(x * y)
        if magnitude >= power(msb + 1):
            return Fraction(0), {infinity, "overflow"}
        kept = magnitude // power(lsb) * power(lsb)
        return -kept if negative else kept, set()

    def dot(self, a, b):
        """Result and flags of patterns (K,) and (K,)."""
        total, flags = Fraction(0), set()
        for x, y in zip(a, b, strict=True):
            added, set_now = self.product(self.a(x), self.b(y))
            total, flags = total + added, flags | set_now
        return self.read_out(total, flags), sum(1 << FLAGS.index(flag) for flag in flags)

    def read_out(self, total, flags):
        out = self.arithmetic.out_format
        if out is None:
            return int(total / power(self.arithmetic.window[1]))
        if "nan" in flags or {"pinf", "ninf"} <= flags:
            return out.largest_bits if out.nan_bits is None else out.nan_bits
        if flags:
            return limit("ninf" in flags, out, self.arithmetic.saturate)
        return nearest(total, int(total < 0), out, self.arithmetic.saturate)

    def matmul(self, a, b):
        pairs = [[self.dot(row, column) for column in b.T.tolist()] for row in a.tolist()]
        results = np.array([[pair[0] for pair in row] for row in pairs])
        return results, np.array([[pair[1] for pair in row] for row in pairs])

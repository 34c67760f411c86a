"""The element type: multiply, accumulate, zero test and read-out, for any format.

An array is written once, for this object. Products go to their place in the accumulator's window in
fixed point, so that sums are exact and their order does not matter (golden/arithmetic.py).
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from skiptile.golden.arithmetic import Arithmetic, tree_stages
from skiptile.hw.arith.operand import FloatOperand
from skiptile.hw.arith.shift import shifted_left
from skiptile.hw.pipeline import adder_tree, delayed

Term = tuple[Value, Value]  # a number, and the sticky flags that it sets, in the order of `Arithmetic.flags`


class ElementType:
    """Operations of a processing element.

    Parameters:
        arithmetic: formats, window and read-out.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic

    def magnitude(self, operand: str, bits: Value) -> Value:
        """The bits of operand "a" or "b" that are all zero where it is zero and annihilates its product."""
        return bits[: self.arithmetic.operand(operand).magnitude_bits]

    def multiply(self, m: Module, a: Value, b: Value, *, name: str) -> Term:
        """The product as it is added; latency `Arithmetic.multiply_latency`."""
        if self.arithmetic.is_float:
            return _FloatProduct(self.arithmetic, name).add_to(m, a, b)
        product = Signal(signed(self.arithmetic.product_bits), name=f"{name}_product", reset_less=True)
        m.d.sync += product.eq(a.as_signed() * b.as_signed())
        return product, Const(0, 0)

    def dot(self, m: Module, a: list[Value], b: list[Value]) -> Term:
        """The sum of products; latency `Arithmetic.multiply_latency` and the adder tree's."""
        products = [
            self.multiply(m, *pair, name=f"lane{lane}") for lane, pair in enumerate(zip(a, b, strict=True))
        ]
        total = adder_tree(m, [term for term, _ in products])
        if not self.arithmetic.flags:
            return total, Const(0, 0)
        flags = products[0][1]
        for _, more in products[1:]:
            flags |= more
        return total, delayed(m, flags, tree_stages(len(a)), name="flags", reset_less=True)

    def accumulate(self, m: Module, term: Term, *, enable: Value, first: Value) -> Value:
        """The accumulator with its flags, `Arithmetic.state_bits`; ``first`` starts a new sum."""
        accumulator = Signal(signed(self.arithmetic.accumulator_bits), reset_less=True)
        flags = Signal(len(self.arithmetic.flags), name="sticky_flags", reset_less=True)
        with m.If(enable):
            m.d.sync += [
                accumulator.eq(Mux(first, 0, accumulator) + term[0]),
                flags.eq(Mux(first, 0, flags) | term[1]),
            ]
        return Cat(accumulator, flags)

    def split(self, state: Value) -> Term:
        """The number and the flags of a state, of whatever width the number is."""
        width = len(state) - len(self.arithmetic.flags)
        return state[:width].as_signed(), state[width:]

    def added(self, state: Term, term: Term) -> Term:
        """The sum of both, in the state's width."""
        return (state[0] + term[0])[: len(state[0])].as_signed(), state[1] | term[1]


class _FloatProduct:
    """Multiplies significands, then moves the product to its place in the window.

    What is below the window is cut off the magnitude; what is above it sets the flag overflow.
    """

    def __init__(self, arithmetic: Arithmetic, name: str) -> None:
        self.flags = arithmetic.flags
        self.a, self.b = arithmetic.float_operands
        self.name = name
        self.significand_bits = self.a.fraction_bits + self.b.fraction_bits + 2
        msb, lsb = arithmetic.window
        window_bits = msb - lsb + 1
        below = lsb - arithmetic.products[1]  # bits of a product that are below the window
        self.dropped = min(max(below, 0), self.significand_bits)  # those that a kept product can have there
        self.offset = -below + self.dropped  # from the sum of exponents to the product's place
        self.most = self.dropped + window_bits - 1  # farthest place where a product is not too large
        exponents = sum(format.greatest_exponent - format.least_exponent for format in (self.a, self.b))
        self.farthest = exponents + self.offset  # place of the largest product
        # bits of a kept magnitude: none are above the largest product
        self.kept_bits = min(window_bits, self.farthest + self.significand_bits - self.dropped)

    def add_to(self, m: Module, a: Value, b: Value) -> Term:
        first, second = FloatOperand(a, self.a), FloatOperand(b, self.b)

        # ---- stage 1: multiply, add exponents, sort out what is not a number ----
        place = Signal(range(min(0, self.offset), self.farthest + 1), name=f"{self.name}_place")
        exponents = first.exponent + second.exponent
        m.d.comb += place.eq(exponents + self.offset if self.offset else exponents)
        too_low = place < 0 if self.offset < 0 else Const(0)
        too_high: Value = Const(0)
        if self.farthest > self.most:
            too_high = (place > self.most) & ~too_low
        nonzero = ~first.zero & ~second.zero
        is_nan = nonzero & (first.nan | second.nan)
        is_infinite = nonzero & ~first.nan & ~second.nan & (first.infinite | second.infinite)
        special = first.nan | second.nan | first.infinite | second.infinite

        significand = self._register(self.significand_bits, "significand")
        position = self._register(min(self.most, self.farthest).bit_length(), "position")
        sign, kept, nan, infinite, large = (
            self._register(1, what) for what in ("sign", "kept", "nan", "infinite", "large")
        )
        m.d.sync += [
            significand.eq(first.significand * second.significand),
            sign.eq(first.sign ^ second.sign),
            kept.eq(~special & ~too_low & ~too_high),
            position.eq(place),
        ]

        # ---- stage 2: to its place ----
        low, high = self.dropped, self.dropped + self.kept_bits
        more = self.significand_bits - 1 if "overflow" in self.flags else 0
        moved = shifted_left(m, significand, position, low, high + more, name=self.name)
        window = moved[: self.kept_bits]
        overflow: Value = Const(0)
        if "overflow" in self.flags:
            m.d.sync += large.eq(nonzero & ~special & too_high)
            beyond = moved[self.kept_bits :].any()
            overflow = large | (kept & beyond)
            keep = kept & ~beyond
        else:
            keep = kept
        magnitude = Signal(self.kept_bits, name=f"{self.name}_magnitude")
        term = Signal(signed(self.kept_bits + 1), name=f"{self.name}_term", reset_less=True)
        m.d.comb += magnitude.eq(window & keep.replicate(self.kept_bits))
        m.d.sync += term.eq(Mux(sign, -magnitude, magnitude))

        set_now: dict[str, Value] = {}
        if "nan" in self.flags:
            m.d.sync += nan.eq(is_nan)
            set_now["nan"] = nan
        if "pinf" in self.flags:
            if self.a.has_infinities or self.b.has_infinities:
                m.d.sync += infinite.eq(is_infinite)
            limit = infinite | overflow
            set_now |= {"pinf": limit & ~sign, "ninf": limit & sign, "overflow": overflow}
        flags = Signal(len(self.flags), name=f"{self.name}_flags", reset_less=True)
        m.d.sync += flags.eq(Cat(set_now[flag] for flag in self.flags))
        return term, flags

    def _register(self, width: int, what: str) -> Signal:
        return Signal(width, name=f"{self.name}_{what}", reset_less=True)

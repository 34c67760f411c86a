"""The processing element: multipliers, adder tree, accumulator, and its place in the drain chain."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.arith.element_type import ElementType
from skiptile.hw.hierarchy import Block
from skiptile.hw.operands import selected, words
from skiptile.hw.pipeline import delayed


class Element(Block):
    """Multiplies the lanes' operands, adds the products up and accumulates the sums.

    With lookahead it selects its own ``a`` operands from the column's window, first.
    Latency: from operands to accumulator `MacTileParams.element_latency`, less the cycles before them.

    Members:
        window, select: the column's window, the row's selects (with lookahead; more than one move).
        a: the lanes' operands of the column (without lookahead).
        b: the lanes' operands of the row, one cycle after ``window`` and ``select``.
        accumulate, first: the sum that leaves the tree is added, or starts a new one.
        capture: move the accumulator, with its sticky flags, to the drain register.
        shift: move the drain register of the next row here.
        below: the next row's ``result``.
        result: the drain register.
    """

    block_name = "element"
    has_reset = False

    a: Signal
    window: Signal
    select: Signal
    b: Signal
    accumulate: Signal
    first: Signal
    capture: Signal
    shift: Signal
    below: Signal
    result: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        arithmetic = params.arithmetic
        bits = params.lanes * arithmetic.a.bits
        operands: dict[str, object] = {"a": In(bits)}
        if params.lookahead:
            operands = {
                "window": In(len(params.reached_steps) * bits),
                "select": In(params.lanes * len(params.moves)),
            }
        super().__init__(
            {
                **operands,
                "b": In(params.lanes * arithmetic.b.bits),
                "accumulate": In(1),
                "first": In(1),
                "capture": In(1),
                "shift": In(1),
                "below": In(arithmetic.state_bits),
                "result": Out(arithmetic.state_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, arithmetic = self.params, self.params.arithmetic

        a = list(words(self.a, arithmetic.a.bits)) if not params.lookahead else []
        if params.lookahead:
            for lane, operand in enumerate(selected(self.window, self.select, params, arithmetic.a.bits)):
                # two: one ends the way through the multiplexer, the other is the multiplier's own
                a.append(delayed(m, operand, 2, name=f"a_lane{lane}", reset_less=True))

        element = ElementType(arithmetic)
        total = element.dot(m, a, words(self.b, arithmetic.b.bits))
        state = element.accumulate(m, total, enable=self.accumulate, first=self.first)

        drain = Signal(arithmetic.state_bits, reset_less=True)
        with m.If(self.capture):
            m.d.sync += drain.eq(state)
        with m.Elif(self.shift):
            m.d.sync += drain.eq(self.below)
        m.d.comb += self.result.eq(drain)
        return m

"""The processing element: multipliers, adder tree, accumulator, and its place in the drain chain."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.hierarchy import Block
from skiptile.hw.operands import selected
from skiptile.hw.pipeline import adder_tree


class Element(Block):
    """Multiplies the lanes' operands, adds the products up and accumulates the sums.

    With lookahead it selects its own ``a`` operands from the column's window, first.
    Latency: from operands to accumulator ``1 + tree_levels + 1`` cycles, with one more before it for
    the registers of the operands; see `MacTileParams.element_latency`.

    Members:
        window, select: the column's window, the row's selects (with lookahead; more than one move).
        a: the lanes' operands of the column (without lookahead).
        b: the lanes' operands of the row, one cycle after ``window`` and ``select``.
        accumulate, first: the sum that leaves the tree is added, or starts a new one.
        capture: move the accumulator to the drain register.
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
        bits = params.lanes * params.operand_bits
        operands: dict[str, object] = {"a": In(bits)}
        if params.lookahead:
            operands = {"window": In(len(params.reached_steps) * bits)}
            if params.select_bits:
                operands["select"] = In(params.lanes * params.select_bits)
        super().__init__({
            **operands,
            "b": In(bits),
            "accumulate": In(1),
            "first": In(1),
            "capture": In(1),
            "shift": In(1),
            "below": In(params.accumulator_bits),
            "result": Out(params.accumulator_bits),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        width = params.operand_bits
        bits = params.lanes * width

        if params.lookahead:
            select = self.select if params.select_bits else None
            a = Signal(bits, reset_less=True)
            m.d.sync += a.eq(Cat(selected(self.window, select, params)))
        else:
            a = self.a

        products: list[Value] = []
        for lane in range(params.lanes):
            product = Signal(signed(params.product_bits), name=f"product{lane}", reset_less=True)
            m.d.sync += product.eq(
                a.word_select(lane, width).as_signed() * self.b.word_select(lane, width).as_signed()
            )
            products.append(product)
        total = adder_tree(m, products)

        accumulator = Signal(signed(params.accumulator_bits), reset_less=True)
        with m.If(self.accumulate):
            m.d.sync += accumulator.eq(Mux(self.first, 0, accumulator) + total)

        drain = Signal(params.accumulator_bits, reset_less=True)
        with m.If(self.capture):
            m.d.sync += drain.eq(accumulator)
        with m.Elif(self.shift):
            m.d.sync += drain.eq(self.below)
        m.d.comb += self.result.eq(drain)
        return m

"""Operand selection: what the multipliers of a row get, and how many pairs that is."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import TALLY_RADIX, MacTileParams
from skiptile.hw.arith.element_type import ElementType
from skiptile.hw.hierarchy import Block
from skiptile.hw.pipeline import adder_tree, delayed, one_of


def words(packed: Value, width: int) -> list[Value]:
    """Equal parts of ``width`` bits."""
    return [packed.word_select(index, width) for index in range(len(packed) // width)]


def selected(window: Value, select: Value, params: MacTileParams, width: int) -> list[Value]:
    """Each lane's operand, zero for a lane without a pair.

    Args:
        window: reached steps of packed lanes of ``width`` bits.
        select: for each lane one bit for each of its moves. One bit each, since that takes fewer look-up
            tables than a multiplexer with an index, and gives zeros for nothing.
    """
    lanes, bits = params.lanes, params.lanes * width
    steps = {step: window.word_select(k, bits) for k, step in enumerate(params.reached_steps)}
    return [
        one_of(
            [steps[step].word_select((lane + offset) % lanes, width) for step, offset in params.moves],
            of_lane,
        )
        for lane, of_lane in enumerate(words(select, len(params.moves)))
    ]


class ScheduledOperands(Block):
    """The scheduled operands of a row: each lane's own of its window, zero for a lane without a pair.

    Latency: from ``select`` that of the window and 2 cycles to ``operands``; to ``pairs`` 1, and those of the
    adder tree.

    Members:
        window: the row's window, `MacTileParams.window_latency` cycles after ``select``.
        select: for each lane one bit for each of its moves: that whose pair it takes.
        late_select: ``select`` when the window is there.
        operands: the lanes' operands.
        pairs: how many lanes took a pair.
    """

    block_name = "operands"
    has_reset = False

    window: Signal
    select: Signal
    late_select: Signal
    operands: Signal
    pairs: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        bits, selects = params.lanes * params.arithmetic.b.bits, params.lanes * len(params.moves)
        super().__init__(
            {
                "select": In(selects),
                "late_select": Out(selects),
                "window": In(len(params.reached_steps) * bits),
                "operands": Out(bits),
                "pairs": Out(params.pairs_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        select = delayed(m, self.select, params.window_latency, name="select", reset_less=True)
        taken = Signal(params.lanes, reset_less=True)
        m.d.sync += taken.eq(Cat(moves.any() for moves in words(self.select, len(params.moves))))
        operands = Cat(selected(self.window, select, params, params.arithmetic.b.bits))
        m.d.comb += [
            self.late_select.eq(select),
            self.operands.eq(delayed(m, operands, 2, name="operands", reset_less=True)),
            self.pairs.eq(_number(m, taken)),
        ]
        return m


class DenseOperands(Block):
    """The operands of a row of the dense tile.

    Latency: 1 cycle to ``operands``; to ``pairs`` 2, and those of the adder tree.

    Members:
        data: the lanes' operands.
        operands: the same, registered.
        pairs: how many of them no zero annihilates.
    """

    block_name = "operands"
    has_reset = False

    data: Signal
    operands: Signal
    pairs: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        bits = params.lanes * params.arithmetic.b.bits
        super().__init__({"data": In(bits), "operands": Out(bits), "pairs": Out(params.pairs_bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        operands = Signal(len(self.data), reset_less=True)
        effectual = Signal(params.lanes, reset_less=True)
        element = ElementType(params.arithmetic)
        lanes = words(operands, params.arithmetic.b.bits)
        m.d.sync += [
            operands.eq(self.data),
            effectual.eq(Cat(element.magnitude("b", lane).any() for lane in lanes)),
        ]
        m.d.comb += [self.operands.eq(operands), self.pairs.eq(_number(m, effectual))]
        return m


def _number(m: Module, lanes: Signal) -> Value:
    """How many bits are set, after as many cycles as the adder tree has stages."""
    return adder_tree(m, list(lanes), radix=TALLY_RADIX, most=1, name="pairs")

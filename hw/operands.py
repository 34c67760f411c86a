"""Operand selection: what the multipliers of a row get, and how many pairs that is."""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from skiptile.golden.interconnect import Move
from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.hierarchy import Block
from skiptile.hw.pipeline import total


def selected(window: Sequence[Value], select: Value, moves: Sequence[Move], lanes: int) -> list[Value]:
    """Each lane's operand: from ``window`` (steps of packed lanes), by the index of its move."""
    width = len(window[0]) // lanes
    select_bits = len(select) // lanes
    operands = []
    for lane in range(lanes):
        places = [window[step].word_select((lane + offset) % lanes, width) for step, offset in moves]
        index = select.word_select(lane, select_bits)
        operands.append(Array(places)[index] if len(places) > 1 else places[0])
    return operands


class ScheduledOperands(Block):
    """The scheduled operands of a row: each lane's own of its window, zero for a lane without a pair.

    Latency: from ``select`` 2 cycles to ``operands``, 1 to ``pairs``.

    Members:
        window: the row's window, one cycle after ``select``.
        select, taken: for each lane the index of its move, and whether it took a pair at all.
        late_select: ``select`` when the window is there.
        operands: the lanes' operands.
        pairs: how many lanes took a pair.
    """

    block_name = "operands"
    has_reset = False

    window: Signal
    select: Signal
    taken: Signal
    late_select: Signal
    operands: Signal
    pairs: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        bits = params.lanes * params.operand_bits
        super().__init__({
            "window": In(params.window_steps * bits),
            "select": In(params.lanes * params.select_bits),
            "taken": In(params.lanes),
            "late_select": Out(params.lanes * params.select_bits),
            "operands": Out(bits),
            "pairs": Out(params.pairs_bits),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        bits = params.lanes * params.operand_bits
        select = Signal(len(self.select), reset_less=True)
        taken = Signal(params.lanes, reset_less=True)
        pairs = Signal(params.pairs_bits, reset_less=True)
        operands = Signal(bits, reset_less=True)
        window = [self.window.word_select(step, bits) for step in range(params.window_steps)]
        chosen = selected(window, select, params.moves, params.lanes)
        m.d.sync += [
            select.eq(self.select),
            taken.eq(self.taken),
            pairs.eq(total(list(self.taken))),
            operands.eq(
                Cat(operand & taken[lane].replicate(len(operand)) for lane, operand in enumerate(chosen))
            ),
        ]
        m.d.comb += [self.late_select.eq(select), self.operands.eq(operands), self.pairs.eq(pairs)]
        return m


class DenseOperands(Block):
    """The operands of a row of the dense tile.

    Latency: 1 cycle to ``operands``, 2 to ``pairs``.

    Members:
        data: the lanes' operands.
        operands: the same, registered.
        pairs: how many of them are not zero.
    """

    block_name = "operands"
    has_reset = False

    data: Signal
    operands: Signal
    pairs: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        bits = params.lanes * params.operand_bits
        super().__init__({"data": In(bits), "operands": Out(bits), "pairs": Out(params.pairs_bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        operands = Signal(len(self.data), reset_less=True)
        pairs = Signal(params.pairs_bits, reset_less=True)
        lanes = [operands.word_select(lane, params.operand_bits) for lane in range(params.lanes)]
        m.d.sync += [operands.eq(self.data), pairs.eq(total([lane.any() for lane in lanes]))]
        m.d.comb += [self.operands.eq(operands), self.pairs.eq(pairs)]
        return m

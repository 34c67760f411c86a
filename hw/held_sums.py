"""Sums of a column that wait for the next block of K: one for each row of a block of results."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.golden.systolic_tile import SystolicTileParams
from skiptile.hw.hierarchy import Block


class HeldSums(Block):
    """Adds what leaves a column to the sum that its row holds.

    Latency: 2 cycles, to ``total``. Throughput: a sum in each cycle, also of the same row again and again.

    Members:
        state: a sum with its flags, in the accumulator's width.
        row: which row of the block it is of.
        hold: it is added to what the row holds; otherwise it is a new sum.
        keep: the row holds the total from now on.
        total: the sum over all blocks of K so far.
    """

    block_name = "held_sums"
    has_reset = False

    state: Signal
    row: Signal
    hold: Signal
    keep: Signal
    total: Signal

    def __init__(self, params: SystolicTileParams) -> None:
        self.params = params
        bits = params.arithmetic.state_bits
        super().__init__(
            {
                "state": In(bits),
                "row": In(row_bits(params)),
                "hold": In(1),
                "keep": In(1),
                "total": Out(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = len(self.state)
        width = self.params.arithmetic.accumulator_bits
        m.submodules.held = held = Memory(shape=bits, depth=1 << len(self.row), init=[])
        write = held.write_port()
        read = held.read_port(transparent_for=(write,))
        late = {
            name: Signal(len(value), name=f"{name}_delayed", reset_less=True)
            for name, value in (("state", self.state), ("row", self.row), ("hold", self.hold))
        }
        keep = Signal(reset_less=True)
        m.d.sync += [
            late["state"].eq(self.state),
            late["row"].eq(self.row),
            late["hold"].eq(self.hold),
            keep.eq(self.keep),
        ]
        base = Signal(bits)
        total = Signal(bits)
        register = Signal(bits, name="total_register", reset_less=True)
        m.d.comb += [
            read.addr.eq(self.row),
            base.eq(Mux(late["hold"], read.data, 0)),
            total.eq(
                Cat(
                    (base[:width].as_signed() + late["state"][:width].as_signed())[:width],
                    base[width:] | late["state"][width:],
                )
            ),
            write.addr.eq(late["row"]),
            write.data.eq(total),
            write.en.eq(keep),
            self.total.eq(register),
        ]
        m.d.sync += register.eq(total)
        return m


def row_bits(params: SystolicTileParams) -> int:
    """Bits of the number of a row of held sums."""
    return max(1, (params.accumulator_depth - 1).bit_length())

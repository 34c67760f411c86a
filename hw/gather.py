"""The gather stage: activation vectors that are kept, and given again by their numbers."""

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.golden.systolic_tile import SystolicTileParams
from skiptile.hw.hierarchy import Block


class Gather(Block):
    """Passes an activation vector on, keeps it, or gives one that is kept.

    So a tile-wise packed layer, each tile of which multiplies rows of activations of its own, runs on the
    plain array (Guo et al., SC 2020).
    Latency: 1 cycle. Throughput: a vector in each cycle.

    Members:
        a: activations of all rows.
        keep: keep them in place ``pick``.
        recall: give those that are kept in place ``pick``, not ``a``.
        gathered: what the array multiplies.
    """

    block_name = "gather"
    has_reset = False

    a: Signal
    keep: Signal
    recall: Signal
    pick: Signal
    gathered: Signal

    def __init__(self, params: SystolicTileParams) -> None:
        bits = params.rows * params.arithmetic.a.bits
        self.pick_bits = params.pick_bits
        super().__init__(
            {
                "a": In(bits),
                "keep": In(1),
                "recall": In(1),
                "pick": In(params.pick_bits),
                "gathered": Out(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.kept = kept = Memory(shape=len(self.a), depth=1 << self.pick_bits, init=[])
        write, read = kept.write_port(), kept.read_port()
        passed = Signal.like(self.a, name="passed", reset_less=True)
        recalls = Signal(reset_less=True)
        m.d.comb += [
            write.addr.eq(self.pick),
            write.data.eq(self.a),
            write.en.eq(self.keep),
            read.addr.eq(self.pick),
        ]
        m.d.sync += [passed.eq(self.a), recalls.eq(self.recall)]
        m.d.comb += self.gathered.eq(passed)
        with m.If(recalls):
            m.d.comb += self.gathered.eq(read.data)
        return m

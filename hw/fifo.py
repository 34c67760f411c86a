"""A queue whose oldest entry is shown until it is taken."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.hw.hierarchy import Block


class Fifo(Block):
    """A first-word-fall-through queue that a writer fills on credit, so it never says that it is full.

    Latency: 1 cycle from ``write`` to ``valid``. Throughput: an entry per cycle at any depth that the
    writer's credit allows.

    (`amaranth.lib.fifo.SyncFIFO` does the same, but ports of its module have no names of their own in
    Verilog.)

    Parameters:
        name: its block name.
        width, depth: bits of an entry, number of entries.

    Members:
        write, write_data: store an entry; never when ``depth`` are held.
        valid, data: there is an entry; the oldest one.
        take: the oldest entry is taken; only when ``valid``.
    """

    has_reset = True

    write: Signal
    write_data: Signal
    valid: Signal
    data: Signal
    take: Signal

    def __init__(self, name: str, *, width: int, depth: int) -> None:
        self.block_name = name
        self.depth = depth
        super().__init__(
            {
                "write": In(1),
                "write_data": In(width),
                "valid": Out(1),
                "data": Out(width),
                "take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entries = Memory(shape=len(self.data), depth=self.depth, init=[])
        m.submodules.entries = entries
        write, read = entries.write_port(), entries.read_port(domain="comb")
        level = Signal(range(self.depth + 1))
        newest = Signal(range(self.depth))
        oldest = Signal(range(self.depth))
        m.d.comb += [
            write.addr.eq(newest),
            write.data.eq(self.write_data),
            write.en.eq(self.write),
            read.addr.eq(oldest),
            self.data.eq(read.data),
            self.valid.eq(level != 0),
        ]
        m.d.sync += level.eq(level + self.write - self.take)
        for pointer, moves in ((newest, self.write), (oldest, self.take)):
            with m.If(moves):
                m.d.sync += pointer.eq(Mux(pointer == self.depth - 1, 0, pointer + 1))
        return m

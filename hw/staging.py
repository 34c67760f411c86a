"""The staging window: the operands of the next few steps, in front of the multipliers.

Beats go into a small circular buffer with one memory for each slot, since step j of a beat always
comes through slot j. The window is a run of ``lookahead + 1`` steps, so each slot holds exactly one
of them: reading every slot at its own beat and rotating gives the window in order of position,
without any shifting of operands.
"""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import BUFFER_BEATS, MacTileParams
from skiptile.hw.hierarchy import Block

BEAT_BITS = (BUFFER_BEATS - 1).bit_length()


def rotated(slots: Sequence[Value], head: Value) -> list[Value]:
    """``slots`` in order of position: position k is slot (``head`` + k) mod their number."""
    count = len(slots)
    return [Array(slots[(first + k) % count] for first in range(count))[head] for k in range(count)]


def shifted(window: Sequence[Value], incoming: Sequence[Value], ending: Value, advance: Value) -> list[Value]:
    """The window after an advance.

    Args:
        window: what each position holds.
        incoming: what follows the window; after an ``ending`` window, the next reduction's start.
        ending: the window holds the last step of its reduction, so nothing is filled behind it
            until it is drained as a whole.
        advance: one bit for each advance 1 .. ``len(window)``, one of them set.
    """
    size = len(window)
    filled = [step & ~ending.replicate(len(step)) for step in incoming]
    result = []
    for k in range(size):
        choices = [*window[k + 1 :], *filled[:k], incoming[k]]  # after an advance of 1, 2, .. size
        gated = [choice & advance[j].replicate(len(choice)) for j, choice in enumerate(choices)]
        total = gated[0]
        for choice in gated[1:]:
            total |= choice
        result.append(total)
    return result


class StagingWindow(Block):
    """The operand window of one row, of operands "b", or column, of operands "a".

    Latency: 1 cycle from an address to ``window``.

    Members:
        write, write_beat, data: store a beat's steps, slot by slot.
        read_beats: for each slot, the beat to read.
        head: the slot of the window's first step.
        window: the window's steps that moves reach, in order of position; a step is its packed lanes.
    """

    has_reset = False

    write: Signal
    write_beat: Signal
    data: Signal
    read_beats: Signal
    head: Signal
    window: Signal

    def __init__(self, params: MacTileParams, operand: str) -> None:
        self.params = params
        arithmetic = params.arithmetic
        self.block_name = "window" if arithmetic.a.bits == arithmetic.b.bits else f"window_{operand}"
        steps = params.window_steps
        self.step_bits = bits = params.lanes * arithmetic.operand(operand).bits
        super().__init__(
            {
                "write": In(1),
                "write_beat": In(BEAT_BITS),
                "data": In(steps * bits),
                "read_beats": In(steps * BEAT_BITS),
                "head": In(range(steps)),
                "window": Out(len(params.reached_steps) * bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        steps = self.params.window_steps
        bits = self.step_bits
        slots = []
        for slot in range(steps):
            memory = Memory(shape=bits, depth=BUFFER_BEATS, init=[])
            m.submodules[f"slot{slot}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.write),
                write.addr.eq(self.write_beat),
                write.data.eq(self.data.word_select(slot, bits)),
                read.addr.eq(self.read_beats.word_select(slot, BEAT_BITS)),
            ]
            slots.append(read.data)
        window = Signal(len(self.window), reset_less=True)
        positions = rotated(slots, self.head)
        m.d.sync += window.eq(Cat(positions[step] for step in self.params.reached_steps))
        m.d.comb += self.window.eq(window)
        return m

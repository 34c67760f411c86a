"""The staging window: the operands of the next few steps, in front of the multipliers.

Beats go into a small circular buffer with one memory for each slot, since step j of a beat always
comes through slot j. The window is a run of ``lookahead + 1`` steps, so each slot holds exactly one
of them: reading every slot at its own beat and rotating gives the window in order of position,
without any shifting of operands.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.beats import address_bits
from skiptile.hw.hierarchy import Block
from skiptile.hw.pipeline import delayed, one_of


def rotated(slots: Sequence[Value], head: Value) -> list[Value]:
    """``slots`` in order of position: position k is slot (``head`` + k) mod their number."""
    count = len(slots)
    return [chosen([slots[(first + k) % count] for first in range(count)], head) for k in range(count)]


def chosen(choices: Sequence[Value], index: Value) -> Value:
    """That of ``choices`` with the number ``index``, by a tree of multiplexers."""
    if len(choices) == 1:
        return choices[0]
    half = 1 << (len(choices) - 1).bit_length() - 1
    return Mux(index[half.bit_length() - 1], chosen(choices[half:], index), chosen(choices[:half], index))


def queue_steps(params: MacTileParams) -> int:
    """Steps in the queue behind the window: as many as never run short, if a beat goes in wherever it can."""
    return 3 * params.window_steps - 1


def moved_on(queue: Sequence[Value], consumed: Value) -> list[Value]:
    """A queue after as many steps have left it as ``consumed`` says: one bit for each number from 0 on."""
    ahead = [*queue, *[Const(0, len(queue[0]))] * len(consumed)]
    return [one_of(ahead[k : k + len(consumed)], consumed) for k in range(len(queue))]


def inserted(steps: Sequence[Value], insert: Value, size: int) -> list[Value]:
    """A beat's ``steps`` at their places in a queue of ``size``; ``insert`` has a bit for the first one's."""
    places = []
    for k in range(size):
        there = [j for j in range(len(steps)) if 0 <= k - j < len(insert)]
        places.append(one_of([steps[j] for j in there], Cat(insert[k - j] for j in there)))
    return places


def filled(window: Sequence[Value], incoming: Sequence[Value], refills: Value, advance: Value) -> list[Value]:
    """The window after an advance.

    Args:
        window: what each position holds.
        incoming: what follows it, as far as it may be filled in.
        refills: steps may follow those that stay; otherwise the window is filled only when it is drained.
        advance: one bit for each advance 1 .. ``len(window)``, one of them set.
    """
    size = len(window)
    following = [step & refills.replicate(len(step)) for step in incoming]
    return [
        one_of([*window[k + 1 :], *following[:k], incoming[k]], advance)  # after an advance of 1, 2, .. size
        for k in range(size)
    ]


class StagingWindow(Block):
    """The operand window of one row, of operands "b", or column, of operands "a".

    Latency: `MacTileParams.window_latency` cycles from an address to ``window``.

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
                "write_beat": In(address_bits(params)),
                "data": In(steps * bits),
                "read_beats": In(steps * address_bits(params)),
                "head": In(range(steps)),
                "window": Out(len(params.reached_steps) * bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        steps = self.params.window_steps
        bits = self.step_bits
        early = self.params.window_latency - 1  # registers between memories and multiplexers
        slots = []
        for slot in range(steps):
            memory = Memory(shape=bits, depth=1 << address_bits(self.params), init=[])
            m.submodules[f"slot{slot}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.write),
                write.addr.eq(self.write_beat),
                write.data.eq(self.data.word_select(slot, bits)),
                read.addr.eq(self.read_beats.word_select(slot, address_bits(self.params))),
            ]
            slots.append(delayed(m, read.data, early, name=f"slot{slot}", reset_less=True))
        window = Signal(len(self.window), reset_less=True)
        positions = rotated(slots, delayed(m, self.head, early, name="head", reset_less=True))
        m.d.sync += window.eq(Cat(positions[step] for step in self.params.reached_steps))
        m.d.comb += self.window.eq(window)
        return m

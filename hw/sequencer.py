"""The order of things: which beats are stored, where the window is, and when it issues.

Beats wait in a circular buffer of `BUFFER_BEATS`. The window is a run of ``lookahead + 1`` steps
that begins at slot ``head`` of beat ``head_beat``, and never reaches into the next reduction: once
it holds a reduction's last step nothing is filled in behind it, and when all of it is drained it
jumps to slot 0 of the next beat. A cycle issues only when whatever the window can move to is there,
so what it decides depends on the data alone.
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import BUFFER_BEATS, MacTileParams
from skiptile.hw.hierarchy import Block
from skiptile.hw.staging import BEAT_BITS, rotated, shifted


class Sequencer(Block):
    """Control of a sparse tile's input.

    Members:
        valid, count, last, ready: the input stream's handshake and its beat's length.
        empty: in all rows, bit k: with this cycle's selections steps 0 .. k + 1 are drained.
        blocked: a new reduction must not issue.
        write, write_beat: store the incoming beat.
        read_beats, head, allow: for each slot the beat that holds what follows the window; the slot
            of its first step; for each of these steps whether it exists.
        ending, update, advance: as in `Scheduler`.
        window_beats, window_head: where the window was a cycle ago.
        issue, first, done: a cycle issues; it is its reduction's first; its last.
        late_issue, late_done, steps: the registered issue, and by how many steps it advances.
        input_stall, output_stall: what kept a pending reduction from issuing, registered.
    """

    block_name = "sequencer"
    has_reset = True

    valid: Signal
    count: Signal
    last: Signal
    ready: Signal
    empty: Signal
    blocked: Signal
    write: Signal
    write_beat: Signal
    read_beats: Signal
    head: Signal
    allow: Signal
    ending: Signal
    update: Signal
    advance: Signal
    window_beats: Signal
    window_head: Signal
    issue: Signal
    first: Signal
    done: Signal
    late_issue: Signal
    late_done: Signal
    steps: Signal
    input_stall: Signal
    output_stall: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        steps = params.window_steps
        super().__init__(
            {
                "valid": In(1),
                "count": In(range(steps + 1)),
                "last": In(1),
                "ready": Out(1),
                "empty": In(params.lookahead),
                "blocked": In(1),
                "write": Out(1),
                "write_beat": Out(BEAT_BITS),
                "read_beats": Out(steps * BEAT_BITS),
                "head": Out(range(steps)),
                "allow": Out(steps),
                "ending": Out(1),
                "update": Out(1),
                "advance": Out(steps),
                "window_beats": Out(steps * BEAT_BITS),
                "window_head": Out(range(steps)),
                "issue": Out(1),
                "first": Out(1),
                "done": Out(1),
                "late_issue": Out(1),
                "late_done": Out(1),
                "steps": Out(self.params.advance_bits),
                "input_stall": Out(1),
                "output_stall": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        steps = self.params.window_steps
        head_beat = Signal(BEAT_BITS)
        head_slot = Signal(range(steps))
        held = Signal(range(BUFFER_BEATS + 1))  # beats from head_beat on
        loaded = Signal()  # the window holds steps
        fresh = Signal(init=1)  # nothing of the pending reduction has issued
        write_beat = Signal(BEAT_BITS)
        beat_last = [Signal(name=f"beat{k}_last", reset_less=True) for k in range(BUFFER_BEATS)]

        # ---- the incoming beat ----
        m.d.comb += [
            self.ready.eq(held != BUFFER_BEATS),
            self.write.eq(self.valid & self.ready),
            self.write_beat.eq(write_beat),
        ]
        with m.If(self.write):
            m.d.sync += write_beat.eq(write_beat + 1)
            m.d.sync += Cat(beat_last).bit_select(write_beat, 1).eq(self.last)

        # ---- what follows the window ----
        def is_last(beat: Value) -> Value:
            return Array(beat_last)[beat]

        next_beat = Signal(BEAT_BITS)
        m.d.comb += next_beat.eq(head_beat + 1)
        next_is_last = Signal()
        m.d.comb += next_is_last.eq(is_last(next_beat))
        leaving = Signal(BEAT_BITS)  # beats that an ending window leaves behind
        m.d.comb += leaving.eq(Mux(is_last(head_beat), 1, 2))
        following = Signal()
        m.d.comb += following.eq(Mux(loaded, held > leaving, held != 0))
        start_beat = Signal(BEAT_BITS)
        m.d.comb += start_beat.eq(Mux(loaded, head_beat + leaving, head_beat))

        jumps = ~loaded | self.ending
        # slots whose step is in the beat after
        before = [head_slot.any(), *(head_slot > slot for slot in range(1, steps - 1)), Const(0)]
        read_beats = [Mux(jumps, start_beat, next_beat + earlier) for earlier in before]
        exists = [Mux(jumps, following, ~(earlier & next_is_last)) for earlier in before]
        m.d.comb += [
            self.read_beats.eq(Cat(Mux(jumps, start_beat, beat)[:BEAT_BITS] for beat in read_beats)),
            self.head.eq(Mux(jumps, 0, head_slot)),
            self.allow.eq(Cat(rotated(exists, self.head))),
        ]

        # ---- where reductions end ----
        ends = [self.last & (self.count == slot + 1) for slot in range(steps)]
        slots = []
        for slot in range(steps):
            beats = [Signal(name=f"end_slot{slot}_beat{k}", reset_less=True) for k in range(BUFFER_BEATS)]
            for k, beat in enumerate(beats):
                with m.If(self.write & (write_beat == k)):
                    m.d.sync += beat.eq(ends[slot])
            slots.append(Array(beats)[self.read_beats.word_select(slot, BEAT_BITS)])
        incoming = [end & self.allow[k] for k, end in enumerate(rotated(slots, self.head))]
        ends_at = Signal(steps)  # one bit for each position of the window
        with m.If(self.update):
            m.d.sync += ends_at.eq(Cat(shifted(list(ends_at), incoming, self.ending, self.advance)))
        m.d.comb += self.ending.eq(ends_at.any())

        # ---- issue and advance ----
        supplied = Signal()
        enough = (held > 1) & ((head_slot == 0) | next_is_last | (held > 2))
        m.d.comb += [
            supplied.eq(self.ending | enough),
            self.first.eq(fresh),
            self.issue.eq(loaded & supplied & ~(fresh & self.blocked)),
            self.update.eq(self.issue | (~loaded & following)),
        ]
        drained = [Const(1), *self.empty, Const(0)]
        m.d.comb += self.advance.eq(Cat(drained[j] & ~drained[j + 1] for j in range(steps)))
        everything = self.advance[steps - 1]
        m.d.comb += self.done.eq(self.issue & self.ending & everything)

        moved = Signal(range(2 * steps))
        m.d.comb += moved.eq(head_slot + total_advance(self.advance[: steps - 1]))
        whole = Signal()  # the window is drained as a whole
        carry = Signal()  # the head goes on to the next beat
        freed = Signal(BEAT_BITS)
        m.d.comb += [
            whole.eq(self.issue & everything),
            carry.eq(self.issue & (moved >= steps)),
            freed.eq(Mux(whole, Mux(self.ending, leaving, 1), carry)),
        ]
        with m.If(self.issue & ~everything):
            m.d.sync += head_slot.eq(Mux(moved >= steps, moved - steps, moved))
        with m.If(self.done):
            m.d.sync += head_slot.eq(0)
        m.d.sync += [
            head_beat.eq(head_beat + freed),
            held.eq(held + self.write - freed),
            fresh.eq(Mux(self.issue, self.done, fresh)),
        ]
        with m.If(self.done | ~loaded):
            m.d.sync += loaded.eq(following)

        # ---- what others see a cycle later ----
        m.d.sync += [
            self.window_beats.eq(Cat((head_beat + earlier)[:BEAT_BITS] for earlier in before)),
            self.window_head.eq(head_slot),
            self.late_issue.eq(self.issue),
            self.late_done.eq(self.done),
            self.steps.eq(Mux(self.done, total_advance(ends_at), total_advance(self.advance))),
            self.input_stall.eq(loaded & ~supplied),
            self.output_stall.eq(loaded & supplied & fresh & self.blocked),
        ]
        return m


def total_advance(one_hot: Value) -> Value:
    """The number that a one-hot ``one_hot`` stands for, bit k for k + 1; 0 for none."""
    count = len(one_hot)
    width = count.bit_length()
    return Cat(Cat(one_hot[k] for k in range(count) if (k + 1) >> bit & 1).any() for bit in range(width))

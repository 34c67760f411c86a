"""The order of things: which beats are stored, where the window is, and when it issues.

Beats wait in a circular buffer of `BUFFER_BEATS`. What the schedule needs of them, pairs and ends, goes on
into a short queue of steps, in order and without gaps, that the window is filled from (`scheduler.py`). The
window never reaches into the next reduction: once it holds a reduction's last step nothing is filled in
behind it, and when all of it is drained it is filled anew. A cycle issues only when whatever the window can
move to is in the queue, so what it decides depends on the data alone.

Only the window follows this cycle's decisions. The queue moves on a cycle later, and so do the places where
operands are read.
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import BUFFER_BEATS, MacTileParams
from skiptile.hw.hierarchy import Block
from skiptile.hw.staging import BEAT_BITS, filled, inserted, moved_on, one_of, queue_steps


class Sequencer(Block):
    """Control of a sparse tile's input.

    Members:
        valid, count, last, ready: the input stream's handshake and its beat's length.
        empty: in all rows, bit k: with this cycle's selections steps 0 .. k + 1 are drained.
        blocked: a new reduction must not issue.
        write, write_beat: store the incoming beat.
        next_beat, insert: the beat whose steps go into the queue, and where: one bit for each place of its
            first step, none if it waits.
        consumed: how many steps have left the queue in the cycle before, one bit for each number 0 ..
            ``lookahead + 1``.
        visible: for each of the next steps of the queue, whether the window may be filled with it.
        refills: whether it may also be while some of the window's steps stay.
        update, advance: the window moves on; by how much, one bit for each advance 1 .. ``lookahead + 1``.
        window_beats, window_head: where the window was a cycle ago: for each slot, its beat; its first slot.
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
    next_beat: Signal
    insert: Signal
    consumed: Signal
    visible: Signal
    refills: Signal
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
                "next_beat": Out(BEAT_BITS),
                "insert": Out(2 * steps),
                "consumed": Out(steps + 1),
                "visible": Out(steps),
                "refills": Out(1),
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
        loaded = Signal()  # the window holds steps
        fresh = Signal(init=1)  # nothing of the pending reduction has issued
        ends_at = Signal(steps)  # one bit for the window's step that is its reduction's last
        consumed = Signal(steps + 1, init=1)
        m.d.comb += self.consumed.eq(consumed)

        freed = self._follow(m, ends_at)
        waiting, there, ends = self._store(m, freed)
        held, held_ends = self._queue(m, waiting, there, ends)

        # ---- what the window can be filled with ----
        enough, ending = Signal(), Signal()
        before = [held_ends[:k].any() if k else Const(0) for k in range(steps + 1)]  # a reduction ends before
        m.d.comb += [
            ending.eq(ends_at.any()),
            enough.eq(held[steps - 1] | held_ends[:steps].any()),
            self.visible.eq(Cat(enough & ~before[k] for k in range(steps))),
            self.refills.eq(~ending),
        ]

        # ---- issue and advance ----
        supplied = ending | enough
        drained = [Const(1), *self.empty, Const(0)]
        everything = drained[steps - 1]
        m.d.comb += [
            self.first.eq(fresh),
            self.issue.eq(loaded & supplied & ~(fresh & self.blocked)),
            self.update.eq(self.issue | (~loaded & enough)),
            self.advance.eq(Cat(drained[j] & ~drained[j + 1] for j in range(steps))),
            self.done.eq(self.issue & ending & everything),
        ]
        incoming = [end & visible for end, visible in zip(held_ends, self.visible, strict=False)]
        with m.If(self.update):
            m.d.sync += ends_at.eq(Cat(filled(list(ends_at), incoming, self.refills, self.advance)))

        # ---- what leaves the queue: as many as the window advances, but none of the next reduction ----
        def consumes(most: int) -> Value:
            """One bit for each number of steps, if room for ``most`` is filled."""
            return Cat(
                Const(0),
                *(held_ends[k] & ~before[k] for k in range(most - 1)),
                ~before[most - 1],
                Const(0, steps - most),
            )

        none = Const(1, steps + 1)
        choices = [
            *(Mux(ending, none, consumes(a)) for a in range(1, steps)),
            Mux(enough, consumes(steps), none),
        ]
        m.d.sync += consumed.eq(Mux(self.update, one_of(choices, self.advance), none))
        m.d.sync += fresh.eq(Mux(self.issue, self.done, fresh))
        with m.If(self.done | ~loaded):
            m.d.sync += loaded.eq(enough)

        # ---- what others see a cycle later ----
        m.d.sync += [
            self.late_issue.eq(self.issue),
            self.late_done.eq(self.done),
            self.steps.eq(Mux(self.done, total_advance(ends_at), total_advance(self.advance))),
            self.input_stall.eq(loaded & ~supplied),
            self.output_stall.eq(loaded & supplied & fresh & self.blocked),
        ]
        return m

    def _store(self, m: Module, freed: Value) -> tuple[Value, Value, Value]:
        """The incoming beat; then the oldest that is not queued: is there one; its steps, its ends."""
        steps = self.params.window_steps
        held = Signal(range(BUFFER_BEATS + 1))  # beats that the window has not left behind
        waiting = Signal(range(BUFFER_BEATS + 1))  # beats whose steps are not queued
        write_beat, next_beat = Signal(BEAT_BITS), Signal(BEAT_BITS)
        taken = self.insert.any()
        m.d.comb += [
            self.ready.eq(held != BUFFER_BEATS),
            self.write.eq(self.valid & self.ready),
            self.write_beat.eq(write_beat),
            self.next_beat.eq(next_beat),
        ]
        m.d.sync += [
            held.eq(held + self.write - freed),
            waiting.eq(waiting + self.write - taken),
            write_beat.eq(write_beat + self.write),
            next_beat.eq(next_beat + taken),
        ]
        facts = Cat(
            *(self.count > slot if slot else Const(1) for slot in range(steps)),
            *(self.last & (self.count == slot + 1) for slot in range(steps)),
        )
        beats = [Signal(2 * steps, name=f"beat{k}", reset_less=True) for k in range(BUFFER_BEATS)]
        for k, beat in enumerate(beats):
            with m.If(self.write & (write_beat == k)):
                m.d.sync += beat.eq(facts)
        oldest = Signal(2 * steps)
        m.d.comb += oldest.eq(Array(beats)[next_beat])
        return waiting != 0, oldest[:steps], oldest[steps:]

    def _queue(self, m: Module, waiting: Value, there: Value, ends: Value) -> tuple[Value, Value]:
        """Which places of the queue hold a step, from the front on, and which of them a reduction's last."""
        steps = self.params.window_steps
        size = queue_steps(self.params)
        views = []
        for name, beat in (("steps", there), ("ends", ends)):
            queue, view = Signal(size, name=f"queue_of_{name}"), Signal(size, name=f"queued_{name}")
            m.d.comb += view.eq(Cat(moved_on(list(queue), self.consumed)))
            m.d.sync += queue.eq(view | Cat(inserted(list(beat), self.insert, size)))
            views.append(view)
        held, held_ends = views
        room = waiting & ~held[2 * steps - 1]
        at_end = [(held[k - 1] if k else Const(1)) & ~held[k] & room for k in range(2 * steps)]
        m.d.comb += self.insert.eq(Cat(at_end))
        return held, held_ends

    def _follow(self, m: Module, ends_at: Value) -> Value:
        """Keep up with the window, a cycle behind; returns how many beats it has left behind."""
        steps = self.params.window_steps
        head_beat, head_slot = Signal(BEAT_BITS), Signal(range(steps))
        advance = Signal(range(steps + 1))
        done = Signal(name="was_done")
        end_position = Signal(range(steps))
        m.d.sync += [
            advance.eq(Mux(self.issue, total_advance(self.advance), 0)),
            done.eq(self.done),
            end_position.eq(total_advance(ends_at >> 1)),
        ]
        moved = Signal(range(2 * steps))
        carry, crossed = Signal(), Signal()  # the head goes on to the next beat; the end is in the next beat
        freed = Signal(2)
        m.d.comb += [
            moved.eq(head_slot + advance),
            carry.eq(moved >= steps),
            crossed.eq((head_slot + end_position) >= steps),
            freed.eq(Mux(done, Mux(crossed, 2, 1), carry)),
        ]
        m.d.sync += [
            head_slot.eq(Mux(done, 0, Mux(carry, moved - steps, moved))),
            head_beat.eq(head_beat + freed),
        ]
        # slots whose step is in the beat after
        later = [head_slot.any(), *(head_slot > slot for slot in range(1, steps - 1)), Const(0)]
        m.d.comb += [
            self.window_beats.eq(Cat((head_beat + beat_later)[:BEAT_BITS] for beat_later in later)),
            self.window_head.eq(head_slot),
        ]
        return freed


def total_advance(one_hot: Value) -> Value:
    """The number that a one-hot ``one_hot`` stands for, bit k for k + 1; 0 for none."""
    count = len(one_hot)
    width = count.bit_length()
    return Cat(Cat(one_hot[k] for k in range(count) if (k + 1) >> bit & 1).any() for bit in range(width))

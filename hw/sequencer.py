"""The order of things: which beats are stored, where the window is, and when it issues.

Beats wait in a circular buffer of `BUFFER_BEATS`. What the schedule needs of them, pairs and ends, goes on
into a short queue of steps, in order and without gaps, that the window is filled from (`scheduler.py`). The
window never reaches into the next reduction: once it holds a reduction's last step nothing is filled in
behind it, and when all of it is drained it is filled anew. A cycle issues only when whatever the window can
move to is in the queue, so what it decides depends on the data alone.

Only the window follows this cycle's decisions. The queue moves on a cycle later, and so do the places where
operands are read.

With two contexts (`contexts.py`) a reduction's beats go to them in turn. Each has a window, a queue and half
of the buffer, and its *part* of the reduction, which it schedules as if it were a reduction of its own. Then
``next_beat`` and ``consumed`` are the early context's, all else that goes to the scheduler the late one's.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.beats import BEAT_BITS, Beats, address, address_bits
from skiptile.hw.contexts import Contexts
from skiptile.hw.hierarchy import Block
from skiptile.hw.lead import Lead
from skiptile.hw.pipeline import one_of
from skiptile.hw.staging import filled, inserted, moved_on, queue_steps


class Sequencer(Block):
    """Control of a sparse tile's input.

    Members:
        valid, count, last, ready: the input stream's handshake and its beat's length.
        empty: in all rows, bit k: with this cycle's selections steps 0 .. k + 1 are drained.
        blocks: in the next cycle a new reduction must not issue.
        write, write_beat: store what stands at the input, should it be a beat.
        next_beat, insert: the beat whose steps go into the queue, and where: one bit for each place of its
            first step, none if it waits.
        consumed: how many steps have left the queue in the cycle before, one bit for each number 0 ..
            ``lookahead + 1``.
        visible: for each of the next steps of the queue, whether the window may be filled with it.
        refills: whether it may also be while some of the window's steps stay.
        update, advance: the window moves on; by how much, one bit for each advance 1 .. ``lookahead + 1``.
        window_beats, window_head: where the window was a cycle ago: for each slot, its beat; its first slot.
        issue, first, done: a cycle issues; it is its reduction's first; its last. Contexts issue in turn, the
            first one first, until all parts have ended.
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
    blocks: Signal
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
                "blocks": In(1),
                "write": Out(1),
                "write_beat": Out(address_bits(params)),
                "next_beat": Out(address_bits(params)),
                "insert": Out(2 * steps),
                "consumed": Out(steps + 1),
                "visible": Out(steps),
                "refills": Out(1),
                "update": Out(1),
                "advance": Out(steps),
                "window_beats": Out(steps * address_bits(params)),
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
        contexts = Contexts(m, self.params.contexts)
        to_late, late = contexts.to_late, contexts.late
        beats = Beats(m, self.params, contexts, valid=self.valid, count=self.count, last=self.last)
        ahead = contexts.bank(1, "ahead", init=1)  # all of the pending reduction's part has issued
        lead = Lead(m, contexts)
        loaded = contexts.bank(1, "loaded")  # the window holds steps
        consumed = Signal(steps + 1, init=1)
        m.d.comb += self.consumed.eq(consumed)
        ends_at = Signal(steps)  # one bit for the window's step that is its part's last

        # ---- early: what the window can be filled with ----
        queue = self._queue(m, contexts, beats)
        enough, ending, visible, incoming_ends = Signal(), Signal(), Signal(steps), Signal(steps)
        m.d.comb += [
            ending.eq(ends_at.any()),
            enough.eq(queue.held[steps - 1] | queue.ends[:steps].any()),
            visible.eq(enough.replicate(steps) & Cat(~before for before in ends_before(queue.ends, steps))),
            incoming_ends.eq(queue.ends[:steps] & visible),
        ]

        # ---- late: issue and advance; what leaves the queue then ----
        window_ends, queue_ends = to_late(ends_at, "ends_at"), to_late(queue.ends[: steps - 1], "next_ends")
        enough, ending = to_late(enough, "enough"), to_late(ending, "ending")
        late_incoming = to_late(incoming_ends, "incoming_ends")
        m.d.comb += self.visible.eq(to_late(visible, "visible"))
        consumptions = consumed_by_advance(queue_ends, ending, enough)
        drained = [Const(1), *self.empty, Const(0)]
        everything = drained[steps - 1]
        update, part_done = Signal(), Signal()
        supplied = contexts.bank(1, "supplied")  # its next turn finds whatever it can move to
        go, turn = Signal(name="go"), Signal(name="turn", init=1)
        takes_part = Signal()  # issues, and its part of the reduction has not ended
        idle = to_late(~loaded.of(contexts.early), "idle")
        m.d.comb += [
            self.issue.eq(go),
            self.first.eq(turn & contexts.leads),
            self.refills.eq(~ending),
            update.eq(takes_part | (idle & enough)),
            self.update.eq(update),
            self.advance.eq(Cat(drained[j] & ~drained[j + 1] for j in range(steps))),
            part_done.eq(takes_part & ending & everything),
        ]
        m.d.sync += [
            ends_at.eq(
                Mux(
                    update,
                    Cat(filled(list(window_ends), list(late_incoming), self.refills, self.advance)),
                    window_ends,
                )
            ),
            consumed.eq(Mux(update, one_of(consumptions, self.advance), Const(1, steps + 1))),
        ]
        reloads = part_done | idle
        now = _Status(
            ahead=part_done | (ahead.of(late) & ~(go & turn)),
            loaded=Mux(reloads, enough, loaded.of(late)),
            supplied=Mux(reloads, enough & queue.enough_after, queue.enough_after | ending),
        )
        for bank, value in ((ahead, now.ahead), (loaded, now.loaded), (supplied, now.supplied)):
            bank.set(late, value)
        m.d.comb += self.done.eq(go & contexts.closes & Cat(ahead.all[:-1], now.ahead).all())
        others = zip(ahead.all[:-1], loaded.all[:-1], supplied.all[:-1], strict=True)
        status = [*(_Status(*other) for other in others), now]
        waits = lead.waits([each.ahead for each in status])
        goes, turns = self._decide(m, contexts, go, turn, status, waits)
        if contexts.count > 1:  # the last one's turn comes when the first one's is decided
            waits = [*waits[:-1], lead.waits(ahead.all)[-1]]
        m.d.sync += takes_part.eq(goes & (turns | ~contexts.of(contexts.early, waits)))

        # ---- what others see a cycle later ----
        steps_left = total_advance(window_ends)
        if contexts.count > 1:
            void = contexts.bank(1, "void")  # the window's part stands for none
            void.set(late, Mux(reloads, to_late(queue.voids[0], "void"), void.of(late)))
            steps_left = Mux(void.of(late), 0, steps_left)
        moved = Mux(part_done, steps_left, total_advance(self.advance))
        m.d.sync += [
            self.late_issue.eq(go),
            self.late_done.eq(self.done),
            self.steps.eq(Mux(takes_part, moved, 0)),
        ]
        freed = self._follow(m, contexts, takes_part, part_done, window_ends)
        beats.leave(queue.inserts, freed)
        lead.follow(go, turn, turns, freed[0])
        m.d.comb += [
            self.ready.eq(beats.ready),
            self.write.eq(beats.ready),
            self.write_beat.eq(beats.write_beat),
            self.next_beat.eq(beats.next_beat),
        ]
        return m

    def _decide(
        self,
        m: Module,
        contexts: Contexts,
        go: Signal,
        turn: Signal,
        status: list["_Status"],
        waits: list[Value],
    ) -> tuple[Value, Value]:
        """Whether all contexts issue in their next turns, and whether with the next reduction.

        They issue together, one after the other, when all have what they need, but for those that wait for
        the others; when the parts of all are done they begin the next reduction. It is decided as the last
        one's turn closes.

        Returns:
            What ``go`` and ``turn`` become.
        """
        turns = Cat(each.ahead for each in status).all()
        all_supplied = Cat(each.supplied for each in status).all()
        all_loaded = Cat(each.loaded for each in status).all()
        proceed = Cat(wait | each.supplied for wait, each in zip(waits, status, strict=True)).all()
        input_stall, output_stall = Signal(), Signal()
        decision = [
            (go, Mux(turns, all_supplied & ~self.blocks, proceed)),
            (turn, turns),
            (input_stall, Mux(turns, all_loaded & ~all_supplied, ~proceed)),
            (output_stall, turns & all_supplied & self.blocks),
        ]
        decided = [Mux(contexts.closes, value, register) for register, value in decision]
        m.d.sync += [register.eq(value) for (register, _), value in zip(decision, decided, strict=True)]
        m.d.sync += [self.input_stall.eq(input_stall), self.output_stall.eq(output_stall)]
        return decided[0], decided[1]

    def _queue(self, m: Module, contexts: Contexts, beats: Beats) -> "_Queue":
        """What the queue holds, and what is put behind that."""
        steps = self.params.window_steps
        size = queue_steps(self.params)
        known = {"held": beats.there, "ends": beats.ends}
        if contexts.count > 1:
            known["voids"] = beats.voids
        queues = {name: Signal(size, name=f"queue_{name}") for name in known}
        views = {name: Signal(size, name=f"queued_{name}") for name in known}
        for name, view in views.items():
            m.d.comb += view.eq(Cat(moved_on(list(queues[name]), self.consumed)))
        held = views["held"]
        room = beats.waiting & ~held[2 * steps - 1]
        insert = Signal(2 * steps, name="inserts")
        m.d.comb += insert.eq(
            Cat((held[k - 1] if k else Const(1)) & ~held[k] & room for k in range(2 * steps))
        )
        after = {name: Signal.like(view, name=f"{name}_after") for name, view in views.items()}
        for name, beat in known.items():
            value = views[name] | Cat(inserted(list(beat), insert, size))
            m.d.comb += after[name].eq(contexts.to_late(value, f"{name}_after"))
            m.d.sync += queues[name].eq(after[name])
        enough_after = after["held"][2 * steps - 1] | after["ends"][: 2 * steps].any()
        pairs_insert = insert & ~beats.voids[0].replicate(len(insert)) if contexts.count > 1 else insert
        m.d.comb += self.insert.eq(contexts.to_late(pairs_insert, "insert"))
        voids = views.get("voids", Const(0, size))
        return _Queue(held, views["ends"], voids, insert.any(), enough_after)

    def _follow(
        self, m: Module, contexts: Contexts, issues: Value, part_done: Value, ends_at: Value
    ) -> Value:
        """Keep up with the windows, a turn behind; returns how many beats the early context's has left."""
        steps = self.params.window_steps
        head_beat, head_slot = Signal(BEAT_BITS), Signal(range(steps))
        advance = Signal(range(steps + 1))
        done = Signal(name="was_done")
        end_position = Signal(range(steps))
        m.d.sync += [
            advance.eq(Mux(issues, total_advance(self.advance), 0)),
            done.eq(part_done),
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
        next_slot, next_beat = Signal.like(head_slot), Signal.like(head_beat)
        m.d.comb += [
            next_slot.eq(Mux(done, 0, Mux(carry, moved - steps, moved))),
            next_beat.eq(head_beat + freed),
        ]
        slot = contexts.to_late(next_slot, "next_slot")
        beat = contexts.to_late(next_beat, "next_beat_of_head")
        later = [slot.any(), *(slot > k for k in range(1, steps - 1)), Const(0)]  # slots of the beat after
        m.d.sync += [
            head_slot.eq(slot),
            head_beat.eq(beat),
            self.window_head.eq(slot),
            self.window_beats.eq(Cat(address((beat + one)[:BEAT_BITS], contexts.late) for one in later)),
        ]
        return freed


@dataclass(frozen=True)
class _Status:
    """Of a context: its part is done, its window holds steps, its next turn finds what it may need."""

    ahead: Value
    loaded: Value
    supplied: Value


@dataclass(frozen=True)
class _Queue:
    """The queue of steps behind the window, one bit for each of its places.

    Attributes:
        held, ends, voids: there is a step; it is its part's last; it stands for none (early).
        inserts: a beat's steps are put behind them (early).
        enough_after: they are then enough, however far the window advances (late).
    """

    held: Value
    ends: Value
    voids: Value
    inserts: Value
    enough_after: Value


def ends_before(ends: Value, count: int) -> list[Value]:
    """For each of the first ``count`` places, whether a part ends before it."""
    return [ends[:k].any() if k else Const(0) for k in range(count)]


def consumed_by_advance(ends: Value, ending: Value, enough: Value) -> list[Value]:
    """What leaves the queue with each advance 1, 2 .. of the window, one bit for each number of steps.

    Args:
        ends: for each of the queue's next steps but the last that a window holds, whether a part ends there.
        ending: a part ends in the window, so that it is filled anew only when it is drained.
        enough: the queue has what fills a drained window.
    """
    steps = len(ends) + 1
    before = ends_before(ends, steps)
    none = Const(1, steps + 1)

    def consumes(most: int) -> Value:
        """If room for ``most`` is filled: but none of the next part."""
        return Cat(
            Const(0),
            *(ends[k] & ~before[k] for k in range(most - 1)),
            ~before[most - 1],
            Const(0, steps - most),
        )

    return [
        *(Mux(ending, none, consumes(advance)) for advance in range(1, steps)),
        Mux(enough, consumes(steps), none),
    ]


def total_advance(one_hot: Value) -> Value:
    """The number that a one-hot ``one_hot`` stands for, bit k for k + 1; 0 for none."""
    count = len(one_hot)
    width = count.bit_length()
    return Cat(Cat(one_hot[k] for k in range(count) if (k + 1) >> bit & 1).any() for bit in range(width))

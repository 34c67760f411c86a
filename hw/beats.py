"""The books of the staging buffer: where beats are stored, which of them wait, what their steps are."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from skiptile.golden.mac_tile import BUFFER_BEATS, MacTileParams
from skiptile.hw.contexts import Contexts
from skiptile.hw.pipeline import delayed

BEAT_BITS = (BUFFER_BEATS - 1).bit_length()


def address_bits(params: MacTileParams) -> int:
    """Bits of a beat's place in the staging buffer: its context, and its number there."""
    return BEAT_BITS + params.contexts - 1


def address(beat: Value, context: Value) -> Value:
    """The place of a context's ``beat``; with one context the beat alone says it."""
    return beat if isinstance(context, Const) else Cat(beat, context)


class Beats:
    """Deals beats to contexts in turn, and keeps them in order until they are no longer needed.

    With two contexts a beat waits until it is known whether it is the last one of its context: until the
    next one comes, which goes to the other context. A reduction of a single beat leaves the second context
    a *void* step instead, which has no pairs.

    Attributes:
        ready: a beat can be taken. What stands at the input is then stored, whether it is valid or not, so
            that the memories' write enables need not wait for ``valid``.
        write_beat: where it is stored.
        waiting: the early context has a beat whose steps are not queued.
        next_beat: where the oldest of these is stored.
        there, ends, voids: of its steps: is there one; is it its part's last; does it stand for none.
    """

    def __init__(
        self, m: Module, params: MacTileParams, contexts: Contexts, *, valid: Value, count: Value, last: Value
    ) -> None:
        self._m, self._contexts = m, contexts
        steps = params.window_steps
        self._held = [Signal(range(BUFFER_BEATS + 1), name=f"held{c}") for c in range(contexts.count)]
        self._waiting = [Signal(range(BUFFER_BEATS + 1), name=f"waiting{c}") for c in range(contexts.count)]
        self._next = contexts.bank(BEAT_BITS, "next_beat")
        newest = contexts.bank(BEAT_BITS, "newest_beat")
        self.ready = Signal(name="room", init=1)
        taken = Signal(name="takes")
        m.d.comb += taken.eq(valid & self.ready)

        facts = Cat(
            *(count > slot for slot in range(1, steps)),
            *(last & (count == slot + 1) for slot in range(steps)),
        )
        if contexts.count == 1:
            dealt, self._stores, known = Const(0), [taken], [(taken, facts)]
        else:
            dealt, self._stores, known = self._deal(taken, last, facts, steps)
        rooms = []  # for one more beat in the next cycle, so that none of the places stays empty
        for beat, held, stores in zip(newest.all, self._held, self._stores, strict=True):
            m.d.sync += beat.eq(beat + stores)
            rooms.append((held < BUFFER_BEATS - 1) | ((held == BUFFER_BEATS - 1) & ~stores))
        m.d.sync += self.ready.eq(Cat(rooms).all())
        self.write_beat = address(newest.of(dealt), dealt)

        self._known = [event for event, _ in known]
        oldest = [self._keep(c, *what) for c, what in enumerate(known)]
        of_early = Signal(len(facts), name="oldest")
        m.d.comb += of_early.eq(contexts.of(contexts.early, oldest))
        self.there, self.ends = Cat(Const(1), of_early[: steps - 1]), of_early[steps - 1 : 2 * steps - 1]
        void = contexts.early & oldest[1][-1] if contexts.count > 1 else Const(0)
        self.voids = Cat(void, Const(0, steps - 1))
        self.next_beat = address(self._next.of(contexts.early), contexts.early)
        self.waiting = contexts.of(contexts.early, [waiting != 0 for waiting in self._waiting])

    def _deal(
        self, taken: Value, last: Value, facts: Value, steps: int
    ) -> tuple[Value, list[Value], list[tuple[Value, Value]]]:
        """Deal beats to two contexts.

        Returns:
            Whose the beat at the input is; for each context, whether a place of its is taken; and whether
            something becomes known of its newest beat, and what: ``facts`` and whether its step is void.
        """
        m = self._m
        dealt = Signal(name="dealt_context")
        behind = Signal(name="beat_behind")  # the beat before this one is of the same reduction
        m.d.sync += [
            dealt.eq(Mux(taken, ~last & ~dealt, dealt)),
            behind.eq(Mux(taken, ~last, behind)),
        ]
        full = Cat(Const(-1, steps - 1), Const(0, steps - 1), last)
        void = Cat(Const(0, steps - 1), Const(1, steps), Const(1, 1))
        single = taken & last & ~behind
        mine = [dealt == c for c in range(2)]
        stores: list[Value] = [taken & mine[0], (taken & mine[1]) | single]
        known = [
            (taken & Mux(mine[0], last, behind), Mux(mine[0], facts, full)),
            (
                taken & Mux(mine[1], last, behind | last),
                Mux(mine[1], Cat(facts, Const(0, 1)), Mux(behind, Cat(full, Const(0, 1)), void)),
            ),
        ]
        # Deciding whose beat it is leaves no time to store what is known of it in the same cycle.
        later = [
            (delayed(m, event, 1, name=f"known{c}"), delayed(m, told, 1, name=f"facts{c}", reset_less=True))
            for c, (event, told) in enumerate(known)
        ]
        return dealt, stores, later

    def _keep(self, context: int, known: Value, facts: Value) -> Value:
        """Note what has become known of a beat; returns what is known of the oldest one that waits."""
        m = self._m
        newest = Signal(BEAT_BITS, name=f"known_beat{context}")
        m.d.sync += newest.eq(newest + known)
        m.submodules[f"facts{context}"] = kept = Memory(shape=len(facts), depth=1 << BEAT_BITS, init=[])
        write, read = kept.write_port(), kept.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(known),
            write.addr.eq(newest),
            write.data.eq(facts),
            read.addr.eq(self._next.all[context]),
        ]
        return read.data

    def leave(self, queued: Value, freed: Value) -> None:
        """The early context's oldest waiting beat is queued; its window has left ``freed`` beats behind."""
        contexts = self._contexts
        for c in range(contexts.count):
            turn = contexts.early == c if contexts.count > 1 else Const(1)
            mine = queued & turn
            self._m.d.sync += [
                self._waiting[c].eq(self._waiting[c] + self._known[c] - mine),
                self._held[c].eq(self._held[c] + self._stores[c] - Mux(turn, freed, 0)),
                self._next.all[c].eq(self._next.all[c] + mine),
            ]

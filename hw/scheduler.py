"""The sparse scheduler of one row (TensorDash, MICRO 2020): who takes which pair, level by level.

The loop that limits the clock is here: zero bits of the window -> levels -> what is left -> how far
all rows can advance -> next window. It therefore holds nothing but one bit for each pair; operands
follow a cycle later (`staging.py`).
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.beats import address_bits
from skiptile.hw.contexts import Contexts
from skiptile.hw.hierarchy import Block
from skiptile.hw.operands import words
from skiptile.hw.staging import filled, inserted, moved_on, queue_steps

GROUP = 4  # lanes whose pairs one look-up table tells empty


class Selection:
    """Which lane takes what from a window.

    Parameters:
        m: the module that gets the logic.
        window: for each step its pairs, one bit for each lane.
        params: the tile.
        contexts: of the scheduler; with two, the first levels are early and the others late.

    Attributes:
        select: for each lane one bit for each of its moves; none is set where it takes nothing.
        left: for each step the pairs that stay; the head step is always drained.
        some_left: for each step but the head, whether pairs stay in each group of lanes.
    """

    def __init__(self, m: Module, window: Sequence[Value], params: MacTileParams, contexts: Contexts) -> None:
        lanes = params.lanes
        self._m, self._params = m, params
        self.select: list[Value] = [Const(0, len(params.moves))] * lanes
        left = list(window)
        levels = len(params.levels)
        early = levels - max(0, levels - 1) // 2  # what follows the levels takes about as long as two of them
        group = lanes if levels == 1 else GROUP
        for index, level in enumerate(params.levels):
            if index == early:
                later = {lane for level in params.levels[early:] for lane in level}
                own = [
                    contexts.to_late(window[0][lane], f"own_lane{lane}", reset_less=True)
                    if lane in later
                    else Const(0)
                    for lane in range(lanes)
                ]
                left = [Cat(own), *self._to_late(contexts, left)]
            left = self._decide(index, level, left)
        some_left = [Cat(step[k : k + group].any() for k in range(0, lanes, group)) for step in left[1:]]
        if early == levels:
            some_left = [
                contexts.to_late(some, f"some_left{k}", reset_less=True)
                for k, some in enumerate(some_left, 1)
            ]
            left = [left[0], *self._to_late(contexts, left)]
        self.some_left = some_left
        self.left = [Const(0, lanes), *left[1:]]

    def _to_late(self, contexts: Contexts, left: list[Value]) -> list[Value]:
        """All that has been decided, and what is left but of the head, when the context is late."""
        self.select = [
            contexts.to_late(select, f"select_lane{lane}", reset_less=True)
            for lane, select in enumerate(self.select)
        ]
        return [contexts.to_late(step, f"left{k}", reset_less=True) for k, step in enumerate(left[1:], 1)]

    def _decide(self, index: int, level: Sequence[int], left: list[Value]) -> list[Value]:
        """The lanes of one level choose; what they leave."""
        m, lanes, moves = self._m, self._params.lanes, self._params.moves
        cleared: list[list[Value]] = [[Const(0)] * lanes for _ in left]
        for lane in level:
            wanted = Signal(len(moves), name=f"wanted_lane{lane}")
            select = Signal(len(moves), name=f"select_lane{lane}")
            m.d.comb += [
                wanted.eq(Cat(left[step][(lane + offset) % lanes] for step, offset in moves)),
                select.eq(
                    wanted & ~Cat(wanted[:move].any() if move else Const(0) for move in range(len(moves)))
                ),
            ]
            for move, (step, offset) in list(enumerate(moves))[1:]:
                cleared[step][(lane + offset) % lanes] = select[move]
            self.select[lane] = select
        after = [left[0]]
        for step in range(1, len(left)):
            stays = Signal(lanes, name=f"left_level{index}_step{step}")
            m.d.comb += stays.eq(left[step] & ~Cat(cleared[step]))
            after.append(stays)
        return after


class Scheduler(Block):
    """The scheduler of one row.

    The window alone waits for this cycle's decisions; it is filled from a queue of steps that moves on a
    cycle later. Decisions are registered: ``select`` belongs to the issue of the cycle before.

    Members:
        write, write_beat, pairs: store a beat's pairs (steps of lanes; none beyond its count).
        next_beat, insert, consumed, visible, refills, update, advance: as in `Sequencer`.
        empty: bit k: with this cycle's selections, steps 0 .. k + 1 of the window are drained.
        select: for each lane one bit for each of its moves: that whose pair it takes.
    """

    block_name = "scheduler"
    has_reset = True

    write: Signal
    write_beat: Signal
    pairs: Signal
    next_beat: Signal
    insert: Signal
    consumed: Signal
    visible: Signal
    refills: Signal
    update: Signal
    advance: Signal
    empty: Signal
    select: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        steps, lanes = params.window_steps, params.lanes
        super().__init__(
            {
                "write": In(1),
                "write_beat": In(address_bits(params)),
                "pairs": In(steps * lanes),
                "next_beat": In(address_bits(params)),
                "insert": In(2 * steps),
                "consumed": In(steps + 1),
                "visible": In(steps),
                "refills": In(1),
                "update": In(1),
                "advance": In(steps),
                "empty": Out(params.lookahead),
                "select": Out(lanes * len(params.moves)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        steps, lanes = self.params.window_steps, self.params.lanes
        contexts = Contexts(m, self.params.contexts)

        # ---- early: what is taken, what is left ----
        queued = self._queue(m, contexts)
        # An empty window is all drained, so it is loaded by the same path as one that has just ended.
        window = [Signal(lanes, name=f"window{k}") for k in range(steps)]
        selection = Selection(m, window, self.params, contexts)

        # ---- late: how far that can advance, and what follows ----
        incoming = [queued[k] & self.visible[k].replicate(lanes) for k in range(steps)]
        for k in range(1, steps):
            m.d.comb += self.empty[k - 1].eq(~Cat(selection.some_left[:k]).any())
        stays = contexts.to_late(Cat(window), "window", reset_less=True)
        m.d.sync += Cat(window).eq(
            Mux(self.update, Cat(filled(selection.left, incoming, self.refills, self.advance)), stays)
        )

        select = Signal(len(self.select), reset_less=True)
        selects = Cat(selection.select)
        if contexts.count > 1:  # a context that waits for the other shows what it will take
            selects = Mux(self.update, selects, 0)
        m.d.sync += select.eq(selects)
        m.d.comb += self.select.eq(select)
        return m

    def _queue(self, m: Module, contexts: Contexts) -> list[Value]:
        """The pairs of the steps that follow the late context's window, in order."""
        steps, lanes, size = self.params.window_steps, self.params.lanes, queue_steps(self.params)
        bits = address_bits(self.params)
        m.submodules.beats = beats = Memory(shape=steps * lanes, depth=1 << bits, init=[])
        write, read = beats.write_port(), beats.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.write_beat),
            write.data.eq(self.pairs),
            read.addr.eq(self.next_beat),
        ]
        queue = [Signal(lanes, name=f"queue{k}") for k in range(size)]  # zero behind the last step
        queued = [
            contexts.to_late(step, f"queued{k}", reset_less=True)
            for k, step in enumerate(moved_on(queue, self.consumed))
        ]
        beat = contexts.to_late(read.data, "beat", reset_less=True)
        arriving = inserted(words(beat, lanes), self.insert, size)
        m.d.sync += [place.eq(old | new) for place, old, new in zip(queue, queued, arriving, strict=True)]
        return queued


class EffectualPairs(Block):
    """Finds a beat's pairs that no zero annihilates.

    Members:
        a: magnitudes of the beat's operands of the column (side "both").
        b: magnitudes of its operands of the row.
        count: steps in the beat; what stands beyond is none.
        pairs: for each step one bit for each lane.
    """

    block_name = "pairs"
    has_clock = False
    has_reset = False

    a: Signal
    b: Signal
    count: Signal
    pairs: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        steps, places = params.window_steps, params.window_steps * params.lanes
        operands = ("a", "b") if params.side == "both" else ("b",)
        super().__init__(
            {
                **{name: In(places * params.arithmetic.operand(name).magnitude_bits) for name in operands},
                "count": In(range(steps + 1)),
                "pairs": Out(places),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        b = words(self.b, params.arithmetic.b.magnitude_bits)
        a = words(self.a, params.arithmetic.a.magnitude_bits) if params.side == "both" else []
        for step in range(params.window_steps):
            for lane in range(params.lanes):
                place = step * params.lanes + lane
                pair = b[place].any()
                if a:
                    pair &= a[place].any()
                if step:  # a beat has one step at least
                    pair &= self.count > step
                m.d.comb += self.pairs[place].eq(pair)
        return m

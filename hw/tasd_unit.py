"""The `tasd-unit` (TASD, MLSys 2025): the n of largest magnitude of each block of m, one per cycle.

A tree of comparators over what is left of a block would stand in the loop from one number to the next. Here
all pairs of a block are compared once, on its way in, and the loop holds one bit per pair.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from skiptile.golden.formats import Format, IntegerFormat
from skiptile.golden.payload import payload_bits
from skiptile.golden.tasd_unit import BUFFER_BEATS, TasdUnitParams
from skiptile.hw.fifo import Fifo
from skiptile.hw.hierarchy import Block, Top, place
from skiptile.hw.payload import payload_layout


class Ranking(Block):
    """Which number of the current block is the largest of those that are not taken; of equals the first.

    Latency: 1 cycle from ``load``, none from ``taken``.

    Parameters:
        params: size of blocks, more than 1, and format.

    Members:
        load, magnitudes: compare those of a block, which becomes the current one.
        taken: numbers that are out of the running; not all.
        largest: one-hot.
    """

    has_reset = False

    load: Signal
    magnitudes: Signal
    taken: Signal
    largest: Signal

    def __init__(self, params: TasdUnitParams) -> None:
        self.block_name = "ranking"
        self.places = range(params.m)
        super().__init__(
            {
                "load": In(1),
                "magnitudes": In(params.m * params.number.magnitude_bits),
                "taken": In(params.m),
                "largest": Out(params.m),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = len(self.magnitudes) // len(self.places)
        magnitudes = [self.magnitudes.word_select(k, width) for k in self.places]
        beats: list[list[Value]] = [[Const(0)] * len(self.places) for _ in self.places]  # [j][k]: j beats k
        for k in self.places:
            for j in range(k):
                beats_later = Signal(name=f"number_{j}_beats_{k}", reset_less=True)
                with m.If(self.load):
                    m.d.sync += beats_later.eq(magnitudes[j] >= magnitudes[k])
                beats[j][k], beats[k][j] = beats_later, ~beats_later
        for k in self.places:
            others = Cat(self.taken[j] | beats[k][j] for j in self.places if j != k)
            m.d.comb += self.largest[k].eq(~self.taken[k] & others.all())
        return m


class Leaving(Block):
    """The beat of a number on its way out.

    Latency: 1 cycle; the muxes stand behind the registers, out of the loop that takes numbers.

    Parameters:
        params: size of blocks and format.

    Members:
        numbers: of the block.
        chosen: the number, one-hot.
        taken: numbers that are taken with it or before it.
        done, last: of the output payload.
        beat: the output payload, `TasdUnitParams.output_fields`.
    """

    has_reset = False

    numbers: Signal
    chosen: Signal
    taken: Signal
    done: Signal
    last: Signal
    beat: Signal

    def __init__(self, params: TasdUnitParams) -> None:
        self.block_name = "leaving"
        self.params = params
        super().__init__(
            {
                "numbers": In(params.m * params.number.bits),
                "chosen": In(params.m),
                "taken": In(params.m),
                "done": In(1),
                "last": In(1),
                "beat": Out(payload_bits(params.output_fields)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        places, width = range(self.params.m), self.params.number.bits
        late = {}
        for name in ("numbers", "chosen", "taken", "done", "last"):
            value = getattr(self, name)
            late[name] = Signal(value.shape(), name=f"late_{name}", reset_less=True)
            m.d.sync += late[name].eq(value)
        chosen, numbers = late["chosen"], [late["numbers"].word_select(k, width) for k in places]
        value = _either(Mux(chosen[k], numbers[k], 0) for k in places)
        index = [_either(chosen[k] for k in places if k >> bit & 1) for bit in range(self.params.index_bits)]
        residue = [Mux(late["taken"][k], 0, numbers[k]) for k in places]
        m.d.comb += self.beat.eq(Cat(value, index, late["done"], late["last"], residue))
        return m


class TasdUnit(Top):
    """Latency: `TasdUnitParams.latencies`. Throughput: a number per cycle, so a block in n cycles.

    Three stages: the next block, with its magnitudes; the current one, ranked, from which numbers are taken;
    and the number on its way out, with its block.

    Parameters:
        params: size of blocks and format.

    Members:
        i: a block per beat, `TasdUnitParams.input_fields`.
        o: n beats per block, `TasdUnitParams.output_fields`.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, params: TasdUnitParams) -> None:
        self.params = params
        super().__init__(
            {
                "i": In(stream.Signature(payload_layout(params.input_fields))),
                "o": Out(stream.Signature(payload_layout(params.output_fields))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        leaving = Leaving(params)
        place(m, "leaving", leaving, platform)
        next, current = _BlockRegisters("next", params), _BlockRegisters("current", params)
        taken = Signal(params.m)
        take, done = Signal(), Signal()  # a number of the current block; it is the block's last one
        moves = Signal()  # the next block becomes the current one
        largest = self._rank(m, platform, moves, taken)
        has_room = self._give(m, platform, take, leaving.beat)
        m.d.comb += [
            take.eq(current.valid & has_room),
            done.eq(current.left == 1),
            moves.eq(~current.valid | take & done),
            self.i.ready.eq(~next.valid | moves),
            leaving.numbers.eq(current.numbers),
            leaving.chosen.eq(largest),
            leaving.taken.eq(taken | largest),
            leaving.done.eq(done),
            leaving.last.eq(done & current.last),
        ]
        payload = self.i.payload
        with m.If(self.i.ready):
            m.d.sync += [
                next.valid.eq(self.i.valid),
                next.numbers.eq(payload.block.as_value()),
                next.left.eq(_limited(payload.n, params.m)),
                next.last.eq(payload.last),
            ]
        with m.If(moves):
            m.d.sync += [
                current.valid.eq(next.valid),
                current.numbers.eq(next.numbers),
                current.last.eq(next.last),
            ]
        with m.If(moves | take):
            m.d.sync += [
                current.left.eq(Mux(moves, next.left, current.left - 1)),
                taken.eq(Mux(moves, 0, leaving.taken)),
            ]
        return m

    def _rank(self, m: Module, platform: object, moves: Value, taken: Value) -> Value:
        """The largest number of the current block that is not ``taken``, one-hot."""
        if self.params.m == 1:
            return Const(1)
        ranking = Ranking(self.params)
        place(m, "ranking", ranking, platform)
        magnitudes = []
        for k in range(self.params.m):  # of the next block
            magnitude = _magnitude(self.i.payload.block[k].as_unsigned(), self.params.number)
            magnitudes.append(Signal(len(magnitude), name=f"next_magnitude_{k}", reset_less=True))
            with m.If(self.i.ready):
                m.d.sync += magnitudes[k].eq(magnitude)
        m.d.comb += [
            ranking.load.eq(moves),
            ranking.magnitudes.eq(Cat(magnitudes)),
            ranking.taken.eq(taken),
        ]
        return ranking.largest

    def _give(self, m: Module, platform: object, take: Value, beat: Value) -> Value:
        """Give the ``beat`` that comes a cycle after each ``take``; whether there is room for one more."""
        buffer = Fifo("output_buffer", width=len(beat), depth=BUFFER_BEATS)
        place(m, "output_buffer", buffer, platform)
        credit = Signal(range(BUFFER_BEATS + 1), init=BUFFER_BEATS)  # room that no beat has claimed yet
        leaves, given = Signal(), Signal()
        m.d.sync += [leaves.eq(take), credit.eq(credit - take + given)]
        m.d.comb += [
            buffer.write.eq(leaves),
            buffer.write_data.eq(beat),
            self.o.valid.eq(buffer.valid),
            Value.cast(self.o.payload).eq(buffer.data),
            given.eq(self.o.valid & self.o.ready),
            buffer.take.eq(given),
        ]
        return credit != 0


class _BlockRegisters:
    """A block with what came with it; ``left`` of its numbers are still to be taken."""

    def __init__(self, name: str, params: TasdUnitParams) -> None:
        self.valid = Signal(name=f"{name}_valid")
        self.numbers = Signal(params.m * params.number.bits, name=f"{name}_numbers", reset_less=True)
        self.left = Signal(params.count_bits, name=f"{name}_left", reset_less=True)
        self.last = Signal(name=f"{name}_last", reset_less=True)


def _limited(n: Value, most: int) -> Value:
    """``n``, made 1 .. ``most``."""
    at_least_one = Mux(n == 0, 1, n)
    return Mux(n > most, most, at_least_one) if most < (1 << len(n)) - 1 else at_least_one


def _magnitude(pattern: Value, format: Format) -> Value:
    """As `golden.nm.magnitudes` has it: unsigned, so that the smallest integer has one too."""
    if isinstance(format, IntegerFormat):
        return Mux(pattern[-1], -pattern, pattern)[: format.bits]
    return pattern[: format.magnitude_bits]


def _either(values: Iterable[Value]) -> Value:
    """The bitwise or of any number of values of equal width."""
    return reduce(or_, values, Const(0))

"""The way into the systolic tile: which beat may enter, and what it makes happen in the array and behind it.

Results cannot be stopped once their beat is in the array. So a beat enters when the output buffer has room
for what it completes (credit), and when no results of another beat leave the array at the same time.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from skiptile.golden.systolic_tile import BOTH, OUTPUT, WEIGHT, SystolicTileParams
from skiptile.hw.hierarchy import Block


def entry_layout(params: SystolicTileParams) -> data.StructLayout:
    """What a beat does in the array: members as `Admission.entry` tells."""
    members: dict[str, int] = {}
    if params.has(WEIGHT):
        members |= {"load": 1, "load_row": max(1, (params.rows - 1).bit_length()), "swap": 1}
    if params.has(OUTPUT):
        members |= {"accumulate": 1, "first": 1, "give": 1}
        if params.rows > 1:
            members["count"] = params.rows.bit_length()
    return data.StructLayout(members)


def exit_layout(params: SystolicTileParams) -> data.StructLayout:
    """What happens to sums that leave the array: members as `Admission.exit` tells."""
    members: dict[str, int] = {"give": 1, "last": 1}
    if params.has(WEIGHT):
        members |= {"held": 1, "first": 1, "hold": 1}
    if params.arithmetic.shift_bits:
        members["shift"] = params.arithmetic.shift_bits
    return data.StructLayout(members)


class Admission(Block):
    """Lets beats in.

    Members:
        valid, flags: a beat that waits, and its control fields.
        given: an output beat is taken from the output buffer.
        take: the beat enters.
        entry: for the array, in the same cycle: load into ``load_row``; swap; accumulate (the beat is
            output-stationary) and first; give the sums of ``count`` rows (more than one row).
        exit: for what leaves the array, in the cycle whose sums, `SystolicTileParams.array_latency` later,
            it is for: give them out, last of the job; (weight-stationary) they belong to the row of held
            sums that is ``first`` or comes next, and those are added (hold).
    """

    block_name = "admission"
    has_reset = True

    valid: Signal
    flags: data.View
    given: Signal
    take: Signal
    entry: data.View
    exit: data.View

    def __init__(self, params: SystolicTileParams) -> None:
        self.params = params
        super().__init__(
            {
                "valid": In(1),
                "flags": In(flags_layout(params)),
                "given": In(1),
                "take": Out(1),
                "entry": Out(entry_layout(params)),
                "exit": Out(exit_layout(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, flags = self.params, self.flags
        streamed: Value = Const(1 if params.has(OUTPUT) else 0, 1)
        if params.dataflow == BOTH:
            streamed = flags.output_stationary
        computes = flags.compute & ~streamed if params.has(WEIGHT) else Const(0, 1)
        completes = streamed & flags.give
        leaves = computes | completes  # sums leave the array in step with it

        credits = Signal(range(params.output_buffer_beats + 1), init=params.output_buffer_beats)
        leaving = Signal(range(max(2, params.rows)))  # rows of completed results that are still to leave
        count = flags.count if params.has(OUTPUT) else Const(1, 1)
        wanted = Signal(len(count))
        m.d.comb += [
            wanted.eq(Mux(completes, count, computes & flags.give)),
            self.take.eq(self.valid & ~(leaves & (leaving != 0)) & (wanted <= credits)),
        ]
        m.d.sync += credits.eq(credits - Mux(self.take, wanted, 0) + self.given)
        if params.has(WEIGHT):
            self._load(m, computes, streamed)
        if params.has(OUTPUT):
            m.d.comb += [
                self.entry.accumulate.eq(self.take & streamed),
                self.entry.first.eq(flags.first),
                self.entry.give.eq(self.take & completes),
            ]
            if params.rows > 1:
                m.d.comb += self.entry.count.eq(count)
            with m.If(self.take & completes):
                m.d.sync += leaving.eq(count - 1)
            with m.Elif(leaving != 0):
                m.d.sync += leaving.eq(leaving - 1)
        self._leave(m, computes, completes, leaving, count)
        return m

    def _load(self, m: Module, computes: Value, streamed: Value) -> None:
        """Rows of weights are counted from those that took over last."""
        entry, flags = self.entry, self.flags
        following = Signal.like(entry.load_row, name="next_row")
        m.d.comb += [
            entry.swap.eq(self.take & computes & flags.first),
            entry.load.eq(self.take & flags.load & ~streamed),
            entry.load_row.eq(Mux(entry.swap, 0, following)),
        ]
        m.d.sync += following.eq(entry.load_row + entry.load)

    def _leave(self, m: Module, computes: Value, completes: Value, leaving: Value, count: Value) -> None:
        params, flags, exit = self.params, self.flags, self.exit
        give = self.take & computes & flags.give
        last: Value = flags.last
        if params.has(OUTPUT):
            is_last = Signal()  # of the results that are still to leave
            with m.If(self.take & completes):
                m.d.sync += is_last.eq(flags.last)
            give |= (self.take & completes) | (leaving != 0)
            last = Mux(leaving == 0, flags.last & (~completes | (count == 1)), is_last & (leaving == 1))
        m.d.comb += [exit.give.eq(give), exit.last.eq(last)]
        if params.has(WEIGHT):
            m.d.comb += [
                exit.held.eq(self.take & computes),
                exit.first.eq(flags.first),
                exit.hold.eq(self.take & computes & flags.hold),
            ]
        if params.arithmetic.shift_bits:
            shift = Signal(params.arithmetic.shift_bits, reset_less=True)
            with m.If(leaving == 0):
                m.d.sync += shift.eq(flags.shift)
            m.d.comb += exit.shift.eq(Mux(leaving == 0, flags.shift, shift))


def flags_layout(params: SystolicTileParams) -> data.StructLayout:
    """The control fields of the input payload."""
    operands = ("a", "b", "index", "fresh", "pick")
    return data.StructLayout(
        {field.name: field.width for field in params.input_fields if field.name not in operands}
    )

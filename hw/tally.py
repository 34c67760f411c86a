"""Counters of a reduction: cycles, steps, effectual pairs and stalls."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from skiptile.golden.arithmetic import tree_stages
from skiptile.golden.mac_tile import STALL_BITS, TALLY_RADIX, MacTileParams
from skiptile.hw.fifo import Fifo
from skiptile.hw.hierarchy import Block, place
from skiptile.hw.payload import payload_layout
from skiptile.hw.pipeline import adder_tree, delayed


class Tally(Block):
    """Counts from issue to issue and keeps the counters of finished reductions until they are given.

    Members:
        issue, advance, done: the registered issue: whether, by how many steps, the reduction's last.
        input_stall, output_stall: a reduction is pending, but input is missing or results are in the way.
        pairs: for each row the pairs of the issue, one cycle and an adder tree of all lanes after ``issue``.
        counters, valid: the counters of the oldest finished reduction.
        given: the last beat of that reduction is taken.
    """

    block_name = "tally"
    has_reset = True

    issue: Signal
    advance: Signal
    done: Signal
    input_stall: Signal
    output_stall: Signal
    pairs: Signal
    counters: data.View
    valid: Signal
    given: Signal

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        super().__init__(
            {
                "issue": In(1),
                "advance": In(params.advance_bits),
                "done": In(1),
                "input_stall": In(1),
                "output_stall": In(1),
                "pairs": In(params.rows * params.pairs_bits),
                "counters": Out(payload_layout(params.counter_fields)),
                "valid": Out(1),
                "given": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        rows = [self.pairs.word_select(row, params.pairs_bits) for row in range(params.rows)]
        effectual = adder_tree(m, rows, radix=TALLY_RADIX, most=params.lanes, name="pairs")
        events = Cat(self.issue, self.done, self.input_stall, self.output_stall, self.advance)
        stages = tree_stages(params.lanes, TALLY_RADIX) + tree_stages(params.rows, TALLY_RADIX)
        late = delayed(m, events, 1 + stages, name="events")
        issue, done, input_stall, output_stall = late[0], late[1], late[2], late[3]
        increments = {
            "cycles": issue,
            "steps": Mux(issue, late[4:], 0),
            "effectual": Mux(issue, effectual, 0),
            "input_stalls": input_stall,
            "output_stalls": output_stall,
        }

        width, depth = len(self.counters.as_value()), params.output_buffer_beats + 2
        finished = Fifo("finished_counters", width=width, depth=depth)
        place(m, "finished", finished, platform)
        complete = Signal()  # the counters are a whole reduction's, the next one begins
        m.d.sync += complete.eq(done)
        sums = []
        for field in params.counter_fields:
            more = increments[field.name]
            if field.name.endswith("stalls"):
                sums.append(self._saturating(m, field.name, more, complete))
                continue
            count = Signal(field.width, name=field.name)  # what counts work cannot overflow
            m.d.sync += count.eq(Mux(complete, 0, count) + more)
            sums.append(count)
        m.d.comb += [
            finished.write_data.eq(Cat(sums)),
            finished.write.eq(complete),
            self.counters.as_value().eq(finished.data),
            self.valid.eq(finished.valid),
            finished.take.eq(self.given),
        ]
        return m

    def _saturating(self, m: Module, name: str, more: Value, restart: Value) -> Value:
        """A counter that stays at its largest value, as a stall may last for ever; the bit above says so."""
        count = Signal(STALL_BITS + 1, name=name)
        base = Signal.like(count, name=f"{name}_base")
        m.d.comb += base.eq(Mux(restart, 0, count))
        m.d.sync += count.eq(base + (more & ~base[-1]))
        shown = Signal(STALL_BITS, name=f"{name}_shown")
        m.d.comb += shown.eq(count[:-1] | count[-1].replicate(STALL_BITS))
        return shown

"""Counters of a reduction: cycles, steps, effectual pairs and stalls."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.fifo import Fifo
from skiptile.hw.hierarchy import Block, place
from skiptile.hw.payload import payload_layout
from skiptile.hw.pipeline import adder_tree, delayed, tree_stages

RADIX = 4  # rows added up in a cycle: counters must be complete before their reduction's results are


class Tally(Block):
    """Counts from issue to issue and keeps the counters of finished reductions until they are given.

    Members:
        issue, advance, done: the registered issue: whether, by how many steps, the reduction's last.
        input_stall, output_stall: a reduction is pending, but input is missing or results are in the way.
        pairs: for each row the pairs of the issue, one cycle after ``issue``.
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
        effectual = adder_tree(m, rows, radix=RADIX, name="pairs")
        events = Cat(self.issue, self.done, self.input_stall, self.output_stall, self.advance)
        late = delayed(m, events, 1 + tree_stages(params.rows, RADIX), name="events")
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
        sums = []
        for field in params.counter_fields:
            count = Signal(field.width, name=field.name)
            more = increments[field.name]
            if field.name.endswith("stalls"):  # a stall may last for ever; what counts work cannot overflow
                more &= ~count.all()
            following = Signal(field.width, name=f"{field.name}_next")
            m.d.comb += following.eq(count + more)
            m.d.sync += count.eq(Mux(done, 0, following))
            sums.append(following)
        m.d.comb += [
            finished.write_data.eq(Cat(sums)),
            finished.write.eq(done),
            self.counters.as_value().eq(finished.data),
            self.valid.eq(finished.valid),
            finished.take.eq(self.given),
        ]
        return m

"""The systolic tile `systolic-tile`: weight-stationary, output-stationary, or both.

Ports take and give aligned vectors; this module delays what enters the array, so that operands meet, and what
leaves it. Row ``rows - 1`` is where weights and sums enter, row 0 where sums leave. See DESIGN: "The systolic
tile", `golden/systolic_tile.py` for the cycles, and docs/systolic-tile.md.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from skiptile.golden.systolic_tile import BOTH, INPUT_BUFFER_BEATS, OUTPUT, WEIGHT, SystolicTileParams
from skiptile.hw.admission import Admission, entry_layout, flags_layout
from skiptile.hw.arith.read_out import read_out
from skiptile.hw.fifo import Fifo
from skiptile.hw.gather import Gather
from skiptile.hw.held_sums import HeldSums, row_bits
from skiptile.hw.hierarchy import Block, Top, place
from skiptile.hw.payload import payload_layout
from skiptile.hw.pipeline import delayed
from skiptile.hw.systolic_array import SystolicRow, extended, partial_state_bits


class SystolicTile(Top):
    """Multiplies activations by weights, a vector of each in a beat.

    Latency: `SystolicTileParams.latencies`. Throughput: a beat in and one out in each cycle, but for those
    beats that must wait until earlier results have left the array (`SystolicTileParams.contract`).

    Parameters:
        params: geometry, dataflow, format and sparsity.

    Members:
        i: `SystolicTileParams.input_fields`.
        o: a row of results, `SystolicTileParams.output_fields`.
    """

    repeated = SystolicRow.block_name

    i: stream.Interface
    o: stream.Interface

    def __init__(self, params: SystolicTileParams) -> None:
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
        self._platform = platform
        admission = Admission(params)
        self._place(m, "admission", admission)
        beat = self._buffered(m, admission)
        m.d.comb += [admission.flags[name].eq(beat[name]) for name, _ in flags_layout(params)]
        activations = self._gathered(m, beat, admission)
        late = params.gather_latency
        entry = data.View(
            entry_layout(params), delayed(m, Cat(admission.entry.as_value()), late, name="entry")
        )
        weights = delayed(m, self._weights(beat), late, name="weights", reset_less=True)
        exits = self._exits(m, admission)
        sums = self._array(m, activations, weights, entry, exits)
        self._connect_output(m, sums, exits[-1], admission)
        return m

    def _place(self, m: Module, name: str, block: Block) -> None:
        place(m, name, block, self._platform)

    # ---- the way in ----

    def _buffered(self, m: Module, admission: Admission) -> data.View:
        """The beat that waits: what it asks for decides when it may enter, but not when it is taken."""
        layout = payload_layout(self.params.input_fields)
        buffer = Fifo("input_buffer", width=layout.size, depth=INPUT_BUFFER_BEATS)
        self._place(m, "input_buffer", buffer)
        room = Signal(range(INPUT_BUFFER_BEATS + 1), init=INPUT_BUFFER_BEATS)
        taken = self.i.valid & self.i.ready
        m.d.sync += room.eq(room - taken + admission.take)
        m.d.comb += [
            self.i.ready.eq(room != 0),
            buffer.write.eq(taken),
            buffer.write_data.eq(self.i.payload.as_value()),
            admission.valid.eq(buffer.valid),
            buffer.take.eq(admission.take),
        ]
        return data.View(layout, buffer.data)

    def _gathered(self, m: Module, beat: data.View, admission: Admission) -> Value:
        """The activations of all rows."""
        activations = beat.a.as_value()
        if not self.params.gather_depth:
            return activations
        gather = Gather(self.params)
        self._place(m, "gather", gather)
        streams = admission.entry.accumulate
        m.d.comb += [
            gather.a.eq(activations),
            gather.keep.eq(streams & beat.fresh),
            gather.recall.eq(streams & ~beat.fresh),
            gather.pick.eq(beat.pick),
        ]
        return gather.gathered

    def _weights(self, beat: data.View) -> Value:
        """Weights with their indices, column by column."""
        params = self.params
        parts = []
        for column in range(params.columns):
            parts.append(Value.cast(beat.b[column]))
            if params.index_bits:
                parts.append(Value.cast(beat.index[column]))
        return Cat(parts)

    # ---- the array ----

    def _exits(self, m: Module, admission: Admission) -> list[data.View]:
        """`Admission.exit` as it is on its way beside the array, stage by stage."""
        stages = [admission.exit]
        for stage in range(self.params.gather_latency + self.params.array_latency):
            late = delayed(m, Cat(stages[-1].as_value()), 1, name=f"exit{stage}")
            stages.append(data.View(admission.exit.shape(), late))
        return stages

    def _array(
        self, m: Module, activations: Value, weights: Value, entry: data.View, exits: list[data.View]
    ) -> list[Value]:
        """The sums that leave each column, side by side, as `SystolicTileParams.array_latency` tells."""
        params = self.params
        rows = [SystolicRow(params) for _ in range(params.rows)]
        words = self._skewed(m, weights)
        stages = [entry]
        for stage in range(params.row_stages):
            late = delayed(m, Cat(stages[-1].as_value()), 1, name=f"entry{stage}")
            stages.append(data.View(entry.shape(), late))
        frees = delayed(m, self._gives(stages[params.row_stages - 1]), 1, name="free")
        bits = params.block * params.arithmetic.a.bits
        above, drained = Const(0, 1), Const(0, 1)
        for index in reversed(range(params.rows)):
            stage = (params.rows - 1 - index) // params.registers_every
            row = rows[index]
            self._place(m, f"row_{index}", row)
            a = activations.word_select(index, bits)
            if (params.rows - 1 - index) % params.registers_every == 0:  # registers in front of this row
                words = delayed(m, words, 1, name=f"weights{stage}", reset_less=True)
                if stage:
                    above = delayed(m, above, 1, name=f"sums{stage}", reset_less=True)
            m.d.comb += [
                row.a.eq(delayed(m, a, stage, name=f"a{index}", reset_less=True)),
                row.weights.eq(words),
                *self._controls(row, index, stages[stage], frees),
            ]
            if params.has(WEIGHT):
                m.d.comb += row.above.eq(above)
                above = row.below
            if params.has(OUTPUT):
                m.d.comb += row.drained_above.eq(drained)
                drained = row.drained
        return self._aligned(m, above, drained, exits)

    def _skewed(self, m: Module, weights: Value) -> Value:
        """Each column's weights as late as activations reach it."""
        params = self.params
        bits = params.weight_bits
        return Cat(
            delayed(
                m,
                weights.word_select(column, bits),
                column // params.registers_every,
                name=f"weight{column}",
                reset_less=True,
            )
            for column in range(params.columns)
        )

    def _gives(self, entry: data.View) -> Value:
        """Which rows give out their sums."""
        if not self.params.has(OUTPUT):
            return Const(0, self.params.rows)
        others = (entry.give & (entry.count > row) for row in range(1, self.params.rows))
        return Cat(entry.give, others)

    def _controls(self, row: SystolicRow, index: int, entry: data.View, frees: Value) -> list:
        params, statements = self.params, []
        if params.has(WEIGHT):
            statements += [row.load.eq(entry.load & (entry.load_row == index)), row.swap.eq(entry.swap)]
        if params.dataflow == BOTH:
            statements.append(row.streamed.eq(entry.accumulate))
        if params.has(OUTPUT):
            statements += [
                row.accumulate.eq(entry.accumulate),
                row.first.eq(entry.first),
                row.capture.eq(self._gives(entry)[index]),
                row.free.eq(frees[index]),
            ]
        return statements

    def _aligned(self, m: Module, below: Value, drained: Value, exits: list[data.View]) -> list[Value]:
        """What leaves each column, as late as in the last one."""
        params = self.params
        states = []
        for column in range(params.columns):
            late = params.column_stages - 1 - column // params.registers_every
            sums, drains = Const(0), Const(0)
            if params.has(OUTPUT):
                drains = drained.word_select(column, params.arithmetic.state_bits)
            if params.has(WEIGHT):
                sums = below.word_select(column, partial_state_bits(params))
                registers = 2 if params.has(OUTPUT) else 1  # as many as the sums that stay pass through
                sums = delayed(m, sums, registers, name=f"sums_of_column{column}", reset_less=True)
            state = sums if params.has(WEIGHT) else drains
            if params.dataflow == BOTH:
                state = Mux(exits[-1 - late].held, extended(params, sums), drains)
            states.append(delayed(m, state, late, name=f"aligned{column}", reset_less=True))
        return states

    # ---- the way out ----

    def _held(self, m: Module, states: list[Value], exit: data.View) -> list[Value]:
        """Sums over all blocks of K."""
        params = self.params
        bits = row_bits(params)
        row, following = Signal(bits), Signal(bits, name="next_row")
        m.d.comb += row.eq(Mux(exit.first, 0, following))
        with m.If(exit.held):
            m.d.sync += following.eq(row + 1)
        totals = []
        for column, state in enumerate(states):
            held = HeldSums(params)
            self._place(m, f"held_sums_{column}", held)
            m.d.comb += [
                held.state.eq(state if params.has(OUTPUT) else extended(params, state)),
                held.row.eq(row),
                held.hold.eq(exit.hold),
                held.keep.eq(exit.held & ~exit.give),
            ]
            totals.append(held.total)
        return totals

    def _connect_output(self, m: Module, states: list[Value], exit: data.View, admission: Admission) -> None:
        params = self.params
        if params.has(WEIGHT):
            states = self._held(m, states, exit)
        shift: Value = Const(0)
        if params.arithmetic.shift_bits:
            shift = delayed(m, exit.shift, params.hold_latency, name="shift", reset_less=True)
        results = read_out(m, params.arithmetic, states, shift, self._platform)
        late = params.hold_latency + params.arithmetic.read_out_latency
        tail = delayed(m, Cat(exit.give, exit.last), late, name="given")
        buffer = Fifo("output_buffer", width=len(results) + 1, depth=params.output_buffer_beats)
        self._place(m, "output_buffer", buffer)
        given = Signal()
        m.d.comb += [
            buffer.write.eq(tail[0]),
            buffer.write_data.eq(Cat(results, tail[1])),
            buffer.take.eq(given),
            self.o.valid.eq(buffer.valid),
            self.o.payload.as_value().eq(buffer.data),
            given.eq(self.o.valid & self.o.ready),
            admission.given.eq(given),
        ]

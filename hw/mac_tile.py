"""The sparse-skipping MAC tile `mac-tile` (TensorDash, MICRO 2020), and the dense tile beside it.

A row of elements shares the scheduled operand ``b``, its window and its scheduler; a column shares the
operand ``a`` and its window. See DESIGN: "The sparse-skipping MAC tile" for the contract, and
`golden/mac_tile.py` for what it computes.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import BUFFER_BEATS, MacTileParams
from skiptile.hw.arith.element_type import ElementType
from skiptile.hw.arith.read_out import read_out
from skiptile.hw.drain import Drain
from skiptile.hw.element import Element
from skiptile.hw.fifo import Fifo
from skiptile.hw.hierarchy import Block, Probe, Top, place
from skiptile.hw.operands import DenseOperands, ScheduledOperands, words
from skiptile.hw.payload import payload_layout
from skiptile.hw.pipeline import delayed
from skiptile.hw.scheduler import EffectualPairs, Scheduler
from skiptile.hw.sequencer import Sequencer
from skiptile.hw.staging import StagingWindow
from skiptile.hw.tally import Tally


@dataclass
class _Issue:
    """What the elements and the way out need to know of an issue; ``late_`` signals are registered.

    ``pairs`` is the number of each row's pairs, one cycle after ``late_issue``; ``shift`` is that of the
    reduction that is ``done``.
    """

    issue: Value
    first: Value
    done: Value
    late_issue: Value
    late_done: Value
    steps: Value
    input_stall: Value
    output_stall: Value
    pairs: list[Value]
    shift: Value


class MacTile(Top):
    """Multiplies streams of steps; without lookahead it is the dense tile, with the same ports and bits.

    Latency: `MacTileParams.latencies`. Throughput: one beat in and one out per cycle, unless the
    schedule takes longer or results are in the way.

    Parameters:
        params: geometry, format and sparsity.

    Members:
        i: beats of up to ``lookahead + 1`` steps, `MacTileParams.input_fields`.
        o: ``output_rows`` rows of results with their reduction's counters, `MacTileParams.output_fields`.
    """

    repeated = Element.block_name

    i: stream.Interface
    o: stream.Interface

    def __init__(self, params: MacTileParams) -> None:
        self.params = params
        super().__init__(
            {
                "i": In(stream.Signature(payload_layout(params.input_fields))),
                "o": Out(stream.Signature(payload_layout(params.output_fields))),
            }
        )

    @staticmethod
    def probes(params: MacTileParams) -> tuple[Probe, ...]:
        """Ports inside that show the schedule; ``issue`` says in which cycles the others are valid."""
        issue = [
            Probe("issue", 1, (("tally", "tally", "issue"),)),
            Probe("advance", params.advance_bits, (("tally", "tally", "advance"),)),
        ]
        if not params.lookahead:
            return tuple(issue)
        rows = [f"scheduler_{row}" for row in range(params.rows)]
        ports = tuple((row, "scheduler", "select") for row in rows)
        return (*issue, Probe("select", params.lanes * len(params.moves), ports, params.lanes))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        self._platform = platform

        drain = Drain(
            result_beats=params.result_beats,
            buffer_beats=params.output_buffer_beats,
            latency=params.element_latency,
            shift_bits=params.arithmetic.shift_bits,
        )
        elements = [[Element(params) for _ in range(params.columns)] for _ in range(params.rows)]
        feed = self._feed_sparse if params.lookahead else self._feed_dense
        issue = feed(m, elements, drain)

        latency = params.element_latency
        accumulate = delayed(m, issue.issue, latency - 1, name="issue")
        first = delayed(m, issue.first, latency - 1, name="first")
        self._place(m, "drain", drain)
        m.d.comb += drain.done.eq(issue.done)
        for r, row in enumerate(elements):
            for c, element in enumerate(row):
                below = r + params.output_rows
                self._place(m, f"element_{r}_{c}", element)
                m.d.comb += [
                    element.accumulate.eq(accumulate),
                    element.first.eq(first),
                    element.capture.eq(drain.capture),
                    element.shift.eq(drain.emit),
                    element.below.eq(elements[below][c].result if below < params.rows else 0),
                ]
        if params.arithmetic.shift_bits:
            m.d.comb += drain.done_shift.eq(issue.shift)
        given = [element.result for row in elements[: params.output_rows] for element in row]
        shift = drain.shift if params.arithmetic.shift_bits else Const(0)
        results = read_out(m, params.arithmetic, given, shift, platform)
        self._connect_output(m, issue, drain, results)
        return m

    def _place(self, m: Module, name: str, block: Block) -> None:
        place(m, name, block, self._platform)

    # ---- the way in ----

    def _beat(self, field: str, index: int) -> Value:
        """The incoming beat's steps of one row of ``b`` or one column of ``a``."""
        steps = self.i.payload[field]
        return Cat(Value.cast(steps[step][index]) for step in range(self.params.window_steps))

    def _magnitudes(self, field: str, index: int) -> Value:
        """What tells zeros, of the same operands."""
        arithmetic = self.params.arithmetic
        element, width = ElementType(arithmetic), arithmetic.operand(field).bits
        return Cat(element.magnitude(field, operand) for operand in words(self._beat(field, index), width))

    def _feed_dense(self, m: Module, elements: list[list[Element]], drain: Drain) -> _Issue:
        params = self.params
        fresh = Signal(init=1)
        issue = Signal()
        done = Signal()
        blocked = Signal()
        m.d.sync += blocked.eq(drain.blocks)
        stalled = fresh & blocked
        m.d.comb += [
            self.i.ready.eq(~stalled),
            issue.eq(self.i.valid & ~stalled),
            done.eq(issue & self.i.payload.last),
        ]
        with m.If(issue):
            m.d.sync += fresh.eq(done)

        columns = []
        for c in range(params.columns):
            data = self._beat("a", c)
            operands = Signal(len(data), name=f"column_operands_{c}", reset_less=True)
            m.d.sync += operands.eq(data)
            columns.append(operands)
        pairs: list[Value] = []
        for r, row in enumerate(elements):
            operands = DenseOperands(params)
            self._place(m, f"row_operands_{r}", operands)
            m.d.comb += operands.data.eq(self._beat("b", r))
            pairs.append(operands.pairs)
            for column, element in zip(columns, row, strict=True):
                m.d.comb += [element.a.eq(column), element.b.eq(operands.operands)]

        late_issue = Signal()
        late_done = Signal()
        steps = Signal.like(self.i.payload.count)
        input_stall = Signal()
        output_stall = Signal()
        m.d.sync += [
            late_issue.eq(issue),
            steps.eq(self.i.payload.count),
            late_done.eq(done),
            input_stall.eq(~fresh & ~self.i.valid),
            output_stall.eq(self.i.valid & stalled),
        ]
        shift = self.i.payload.shift if params.arithmetic.shift_bits else Const(0)
        return _Issue(
            issue, fresh, done, late_issue, late_done, steps, input_stall, output_stall, pairs, shift
        )

    def _feed_sparse(self, m: Module, elements: list[list[Element]], drain: Drain) -> _Issue:
        params = self.params
        sequencer = Sequencer(params)
        self._place(m, "sequencer", sequencer)
        payload = self.i.payload
        m.d.comb += [
            sequencer.valid.eq(self.i.valid),
            sequencer.count.eq(payload.count),
            sequencer.last.eq(payload.last),
            self.i.ready.eq(sequencer.ready),
            sequencer.blocks.eq(drain.blocks),
        ]

        columns = [self._window(m, sequencer, f"column_window_{c}", "a", c) for c in range(params.columns)]
        schedulers, pairs = [], []
        for r, row in enumerate(elements):
            window = self._window(m, sequencer, f"row_window_{r}", "b", r)
            scheduler = Scheduler(params)
            operands = ScheduledOperands(params)
            self._place(m, f"scheduler_{r}", scheduler)
            self._place(m, f"row_operands_{r}", operands)
            m.d.comb += [
                scheduler.write.eq(sequencer.write),
                scheduler.write_beat.eq(sequencer.write_beat),
                scheduler.pairs.eq(self._pairs(m, r)),
                *(
                    getattr(scheduler, name).eq(getattr(sequencer, name))
                    for name in (
                        *("next_beat", "insert", "consumed", "visible", "refills"),
                        *("update", "advance"),
                    )
                ),
                operands.window.eq(window.window),
                operands.select.eq(scheduler.select),
            ]
            schedulers.append(scheduler)
            pairs.append(operands.pairs)
            for column, element in zip(columns, row, strict=True):
                m.d.comb += [
                    element.window.eq(column.window),
                    element.select.eq(operands.late_select),
                    element.b.eq(operands.operands),
                ]
        empty = schedulers[0].empty
        for scheduler in schedulers[1:]:
            empty &= scheduler.empty
        m.d.comb += sequencer.empty.eq(empty)

        return _Issue(
            sequencer.issue,
            sequencer.first,
            sequencer.done,
            sequencer.late_issue,
            sequencer.late_done,
            sequencer.steps,
            sequencer.input_stall,
            sequencer.output_stall,
            pairs,
            self._pending_shift(m, sequencer) if params.arithmetic.shift_bits else Const(0),
        )

    def _pending_shift(self, m: Module, sequencer: Sequencer) -> Value:
        """The shift of the reduction that is issued: it came with that reduction's last beat."""
        shifts = Fifo("pending_shifts", width=self.params.arithmetic.shift_bits, depth=BUFFER_BEATS)
        self._place(m, "pending_shifts", shifts)
        m.d.comb += [
            shifts.write.eq(self.i.valid & self.i.ready & self.i.payload.last),
            shifts.write_data.eq(self.i.payload.shift),
            shifts.take.eq(shifts.valid & sequencer.done),  # it always is
        ]
        return shifts.data

    def _window(self, m: Module, sequencer: Sequencer, name: str, field: str, index: int) -> StagingWindow:
        window = StagingWindow(self.params, field)
        self._place(m, name, window)
        m.d.comb += [
            window.write.eq(sequencer.write),
            window.write_beat.eq(sequencer.write_beat),
            window.data.eq(self._beat(field, index)),
            window.read_beats.eq(sequencer.window_beats),
            window.head.eq(sequencer.window_head),
        ]
        return window

    def _pairs(self, m: Module, row: int) -> Value:
        pairs = EffectualPairs(self.params)
        self._place(m, f"pairs_{row}", pairs)
        m.d.comb += [pairs.b.eq(self._magnitudes("b", row)), pairs.count.eq(self.i.payload.count)]
        if self.params.side == "both":
            m.d.comb += pairs.a.eq(self._magnitudes("a", 0))
        return pairs.pairs

    # ---- the way out ----

    def _connect_output(self, m: Module, issue: _Issue, drain: Drain, results: Value) -> None:
        params = self.params
        tally = Tally(params)
        self._place(m, "tally", tally)
        buffer = Fifo("output_buffer", width=len(results), depth=params.output_buffer_beats)
        self._place(m, "output_buffer", buffer)
        payload = self.o.payload
        result_fields = ("result", "flags") if params.arithmetic.is_float else ("result",)
        given = Signal()
        row = Signal.like(payload.row)
        last = Signal()
        m.d.comb += [
            tally.issue.eq(issue.late_issue),
            tally.advance.eq(issue.steps),
            tally.done.eq(issue.late_done),
            tally.input_stall.eq(issue.input_stall),
            tally.output_stall.eq(issue.output_stall),
            tally.pairs.eq(Cat(issue.pairs)),
            tally.given.eq(given & last),
            buffer.write_data.eq(results),
            buffer.write.eq(delayed(m, drain.emit, params.arithmetic.read_out_latency, name="read_out")),
            buffer.take.eq(given),
            drain.given.eq(given),
            self.o.valid.eq(buffer.valid & tally.valid),
            given.eq(self.o.valid & self.o.ready),
            last.eq(row == params.rows - params.output_rows),
            Cat(payload[field].as_value() for field in result_fields).eq(buffer.data),
            payload.row.eq(row),
            payload.last.eq(last),
        ]
        with m.If(given):
            m.d.sync += row.eq(Mux(last, 0, row + params.output_rows))
        for field in params.counter_fields:
            m.d.comb += payload[field.name].eq(tally.counters[field.name])

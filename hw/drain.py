"""The way out: who may move results from the accumulators to the drain registers, and when.

Results are double-buffered: the accumulators work on one reduction while the drain registers give the
one before, ``result_beats`` beats of it, into an output buffer. Nothing on that way can be stopped
once it is in the pipeline, so beats are sent on credit: one for each place in the output buffer.

Everything here is decided when a reduction issues, ``latency`` cycles before it reaches the
accumulators, so that a stall is known in time; the signals to the elements follow by a delay line.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from skiptile.hw.hierarchy import Block
from skiptile.hw.pipeline import delayed


class Drain(Block):
    """Control of the drain registers.

    Parameters:
        result_beats: output beats of one reduction.
        buffer_beats: places in the output buffer; latency + 2 or more give a beat in each cycle.
        latency: cycles from an issue to its sum in the accumulator.
        shift_bits: width of what each reduction's results are shifted by; 0 where they are not.

    Members:
        done, done_shift: this cycle's issue is its reduction's last; that reduction's shift.
        blocks: in the next cycle a new reduction must not issue: both result buffers are full.
        given: an output beat is taken from the output buffer.
        capture: move the accumulators to the drain registers.
        emit, shift: give a beat and move the drain registers on; that beat's shift.
    """

    block_name = "drain"
    has_reset = True

    done: Signal
    done_shift: Signal
    blocks: Signal
    given: Signal
    capture: Signal
    emit: Signal
    shift: Signal

    def __init__(self, *, result_beats: int, buffer_beats: int, latency: int, shift_bits: int) -> None:
        self.result_beats = result_beats
        self.buffer_beats = buffer_beats
        self.latency = latency
        self.shift_bits = shift_bits
        shifts: dict[str, object] = (
            {"done_shift": In(shift_bits), "shift": Out(shift_bits)} if shift_bits else {}
        )
        super().__init__(
            {
                **shifts,
                "done": In(1),
                "blocks": Out(1),
                "given": In(1),
                "capture": Out(1),
                "emit": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        full, filling = (
            Signal(),
            Signal(),
        )  # the accumulators hold, or will hold, results that nobody has captured
        left = Signal(range(self.result_beats + 1))  # beats in the drain registers
        credits = Signal(range(self.buffer_beats + 1), init=self.buffer_beats)
        next_left, next_credits = Signal.like(left), Signal.like(credits)
        has_credit = Signal(init=1)
        free, frees = Signal(init=1), Signal()  # the drain registers are, or become, empty; in the next cycle
        emitting = Signal()
        capturing = Signal()
        m.d.comb += [
            emitting.eq((left != 0) & has_credit),
            capturing.eq(full & free),
            next_left.eq(Mux(capturing, self.result_beats, left - emitting)),
            next_credits.eq(credits - emitting + self.given),
            filling.eq(self.done | (full & ~free)),
            self.blocks.eq(filling & ~frees),
            frees.eq((next_left == 0) | ((next_left == 1) & (next_credits != 0))),
        ]
        m.d.sync += [
            full.eq(filling),
            left.eq(next_left),
            credits.eq(next_credits),
            has_credit.eq(next_credits != 0),
            free.eq(frees),
        ]
        m.d.comb += [
            self.capture.eq(delayed(m, capturing, self.latency - 1, name="capture")),
            self.emit.eq(delayed(m, emitting, self.latency - 1, name="emit")),
        ]
        if self.shift_bits:
            accumulated, drained = (
                Signal(self.shift_bits, reset_less=True),
                Signal(self.shift_bits, reset_less=True),
            )
            with m.If(self.done):
                m.d.sync += accumulated.eq(self.done_shift)
            with m.If(capturing):
                m.d.sync += drained.eq(accumulated)
            late = delayed(m, drained, self.latency - 1, name="shift", reset_less=True)
            m.d.comb += self.shift.eq(late)
        return m

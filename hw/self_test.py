"""A self-test for a board: block RAM gives a tile its input and says what must come out.

`SelfTest` drives the tile's streams, compares and reports; `BoardTop` adds the tile, an instance of its
delivered Verilog, and what a board has: clock, button, LEDs, a UART.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    Instance,
    Module,
    Mux,
    ResetInserter,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.payload import payload_layout
from skiptile.hw.uart import NUMBER_BITS, LinePrinter

WORD_BITS = 36  # of a block RAM of the ECP5, at its widest
PAUSE_BITS = 12
UNCHECKED = ("input_stalls", "output_stalls")
"""Fields of a tile's output that depend on when beats are given and taken, not on the data alone."""

LEDS = 8
PATIENCE_BITS = 16  # no result for so many cycles: 2 to the power of this, and the tile is taken for dead
RESET_CYCLES = 2  # of the tile's own reset
SETTLE_BITS = 8
POWER_ON_BITS = 8
POWER_ON = "power_on"
"""The counter that holds everything in reset after power-up: the one register with an initial value."""

PASS, FAIL, SILENT = range(3)
_NUMBERS = "run {0}: {1} reductions, {2} cycles for {3} steps, {4} errors"
_VERDICTS = (": PASS", ": FAIL", ", no answer: FAIL")


def checked_fields(params: MacTileParams) -> list[str]:
    """Fields of the tile's output that are compared, in order."""
    return [field.name for field in params.output_fields if field.name not in UNCHECKED]


@dataclass(frozen=True)
class Records:
    """Beats as the block RAM holds them, each after a pause.

    Attributes:
        payloads: of the beats, an integer each.
        pauses: clock cycles that each beat waits, below 2**PAUSE_BITS.
        bits: of a payload.
    """

    payloads: Sequence[int]
    pauses: Sequence[int]
    bits: int

    @property
    def words_per_beat(self) -> int:
        return -(-(PAUSE_BITS + self.bits) // WORD_BITS)

    @cached_property
    def words(self) -> list[int]:
        """The memory: for each beat its words, the least significant first, with the pause lowest."""
        mask, count = (1 << WORD_BITS) - 1, self.words_per_beat
        records = [
            payload << PAUSE_BITS | pause for payload, pause in zip(self.payloads, self.pauses, strict=True)
        ]
        return [record >> WORD_BITS * k & mask for record in records for k in range(count)]


@dataclass(frozen=True)
class Vectors:
    """What a self-test sends, and what must come back.

    Attributes:
        inputs: payloads of the tile's input.
        outputs: of its output, `checked_fields` alone, packed least significant first.
    """

    inputs: Records
    outputs: Records


class BeatReader(wiring.Component):
    """Reads beats from a memory of narrow words, one word a clock cycle; begins after each reset.

    A wide beat so needs no wide memory: words are shifted into a register, and the beat is shown once they
    are all there and its pause is over.

    Parameters:
        records: the beats.

    Members:
        o: the beats.
        done: all of them have been taken.
    """

    o: stream.Interface
    done: Signal

    def __init__(self, records: Records) -> None:
        self.records = records
        super().__init__({"o": Out(stream.Signature(records.bits)), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        records = self.records
        words, per_beat = records.words, records.words_per_beat
        m.submodules.memory = memory = Memory(shape=WORD_BITS, depth=len(words), init=words)
        read = memory.read_port()
        place = Signal(range(len(words) + 1))
        waiting = Signal()  # the memory's output holds a word that is not in the register yet
        beat = Signal(WORD_BITS * per_beat, reset_less=True)
        count = Signal(range(per_beat + 1))  # words in the register
        waited = Signal(PAUSE_BITS)
        shown = Signal()
        full = count == per_beat
        shift = waiting & ~full
        m.d.comb += [
            read.addr.eq(place),
            read.en.eq((place != len(words)) & (~waiting | shift)),
            self.o.payload.eq(beat[PAUSE_BITS : PAUSE_BITS + records.bits]),
            self.o.valid.eq(shown),
            self.done.eq((place == len(words)) & ~waiting & (count == 0)),
        ]
        m.d.sync += waiting.eq(read.en | (waiting & ~shift))
        with m.If(read.en):
            m.d.sync += place.eq(place + 1)
        with m.If(shift):
            m.d.sync += [beat.eq(Cat(beat, read.data)[WORD_BITS:]), count.eq(count + 1)]
        with m.If(full & ~shown):
            m.d.sync += [waited.eq(waited + 1), shown.eq(waited == beat[:PAUSE_BITS])]
        with m.If(shown & self.o.ready):
            m.d.sync += [shown.eq(0), count.eq(0), waited.eq(0)]
        return m


class SelfTest(wiring.Component):
    """Runs its vectors through a tile again and again, and reports each run.

    A run: reset the tile, send every input beat, compare every output beat, see that none follows, send one
    line, wait for the next period. A run fails if a beat differs, if one is too many, or if none comes for
    2**PATIENCE_BITS clock cycles. Fields `UNCHECKED` are not compared.

    Parameters:
        params: the tile.
        vectors: what it gets and must give.
        name: of the design, in the line.
        divisor: clock cycles of one bit on the UART.
        period: clock cycles from one run to the next; a run that takes longer skips some of them.

    Members:
        o, i: to the tile's ``i``, from its ``o``.
        tile_reset: the tile's reset, beside the common one.
        tx: the UART's wire.
        heartbeat, running: changes with each period; a run is under way.
        passed, failed: the last run passed; any run since the reset has failed.
        runs: how many have begun.
    """

    o: stream.Interface
    i: stream.Interface
    tile_reset: Signal
    tx: Signal
    heartbeat: Signal
    running: Signal
    passed: Signal
    failed: Signal
    runs: Signal

    def __init__(
        self, params: MacTileParams, vectors: Vectors, *, name: str, divisor: int, period: int
    ) -> None:
        self.params, self.vectors = params, vectors
        self.divisor, self.period = divisor, period
        self.lines = [f"skiptile {name}, {_NUMBERS}{verdict}\r\n" for verdict in _VERDICTS]
        super().__init__(
            {
                "o": Out(stream.Signature(payload_layout(params.input_fields))),
                "i": In(stream.Signature(payload_layout(params.output_fields))),
                "tile_reset": Out(1),
                "tx": Out(1),
                **dict.fromkeys(("heartbeat", "running", "passed", "failed"), Out(1)),
                "runs": Out(NUMBER_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given, expected = BeatReader(self.vectors.inputs), BeatReader(self.vectors.outputs)
        m.submodules.given = ResetInserter(self.tile_reset)(given)
        m.submodules.expected = ResetInserter(self.tile_reset)(expected)
        m.submodules.printer = printer = LinePrinter(self.lines, numbers=5, divisor=self.divisor)
        m.d.comb += [
            Value.cast(self.o.payload).eq(given.o.payload),
            self.o.valid.eq(given.o.valid),
            given.o.ready.eq(self.o.ready),
            self.tx.eq(printer.tx),
        ]

        payload = self.i.payload
        checked = Cat(Value.cast(payload[name]) for name in checked_fields(self.params))
        reductions, cycles, steps, errors = (
            Signal(NUMBER_BITS, name=name) for name in ("reductions", "cycles", "steps", "errors")
        )
        numbers = (self.runs, reductions, cycles, steps, errors)
        m.d.comb += printer.numbers.eq(Cat(numbers))
        quiet = Signal(PATIENCE_BITS)  # cycles since something happened
        verdict = Signal.like(printer.line)
        next_period = self._beat(m)
        m.d.comb += printer.line.eq(verdict)
        m.d.sync += quiet.eq(quiet + 1)

        with m.FSM(name="self_test"):
            with m.State("reset"):
                m.d.comb += self.tile_reset.eq(1)
                m.d.sync += [value.eq(0) for value in numbers[1:]]
                with m.If(quiet == RESET_CYCLES - 1):
                    m.d.sync += [quiet.eq(0), self.runs.eq(self.runs + 1)]
                    m.next = "run"
            with m.State("run"):
                m.d.comb += [
                    self.running.eq(1),
                    self.i.ready.eq(expected.o.valid),
                    expected.o.ready.eq(self.i.valid),
                ]
                with m.If(self.i.valid & expected.o.valid):
                    m.d.sync += [quiet.eq(0), errors.eq(errors + (checked != expected.o.payload))]
                    with m.If(payload.last):
                        m.d.sync += [
                            reductions.eq(reductions + 1),
                            cycles.eq(cycles + payload.cycles),
                            steps.eq(steps + payload.steps),
                        ]
                with m.If(expected.done):
                    m.d.sync += quiet.eq(0)
                    m.next = "settle"
                with m.Elif(quiet.all()):
                    m.d.sync += verdict.eq(SILENT)
                    m.next = "report"
            with m.State("settle"):  # whatever comes now is too much
                m.d.comb += [self.running.eq(1), self.i.ready.eq(1)]
                m.d.sync += [errors.eq(errors + self.i.valid), verdict.eq(Mux(errors == 0, PASS, FAIL))]
                with m.If(quiet[SETTLE_BITS]):
                    m.next = "report"
            with m.State("report"):
                m.d.comb += printer.start.eq(1)
                m.d.sync += [
                    self.passed.eq(verdict == PASS),
                    self.failed.eq(self.failed | (verdict != PASS)),
                ]
                m.next = "send"
            with m.State("send"), m.If(~printer.busy):
                m.next = "wait"
            with m.State("wait"), m.If(next_period):
                m.d.sync += quiet.eq(0)
                m.next = "reset"
        return m

    def _beat(self, m: Module) -> Value:
        """Whether a period ends; the heartbeat changes with it."""
        count = Signal(range(self.period))
        ends = count == self.period - 1
        m.d.sync += count.eq(Mux(ends, 0, count + 1))
        with m.If(ends):
            m.d.sync += self.heartbeat.eq(~self.heartbeat)
        return ends


class BoardTop(wiring.Component):
    """A tile and its self-test, with the pins of a board.

    After power-up, and while the button is pressed, everything is in reset; then runs follow each other,
    the first one at once. The tile is an instance of the module ``name``, as `skiptile generate` writes it.

    Parameters:
        params, vectors, name: as for `SelfTest`.
        clock_hz: of the board; runs begin a second apart.
        baud: bits per second on the UART.
        inverted: members that are low when active on this board.
        high: outputs that are tied high.

    Members:
        clk: the board's clock.
        button: resets everything.
        tx: the UART's wire.
        led: 0 heartbeat, 1 a run is under way, 2 the last run passed, 3 a run has failed since the reset,
            4 .. 7 the number of runs, lowest bits.
    """

    clk: Signal
    button: Signal
    tx: Signal
    led: Signal

    def __init__(
        self,
        params: MacTileParams,
        vectors: Vectors,
        *,
        name: str,
        clock_hz: int,
        baud: int,
        inverted: Collection[str] = (),
        high: Collection[str] = (),
    ) -> None:
        self.name, self.inverted, self.high = name, inverted, high
        self.self_test = SelfTest(params, vectors, name=name, divisor=round(clock_hz / baud), period=clock_hz)
        super().__init__(
            {
                "clk": In(1),
                "button": In(1),
                "tx": Out(1),
                "led": Out(LEDS),
                **dict.fromkeys(high, Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.self_test = test = self.self_test
        self._reset(m)
        leds = Cat(test.heartbeat, test.running, test.passed, test.failed, test.runs[: LEDS - 4])
        m.d.comb += [
            self.tx.eq(test.tx),
            self.led.eq(~leds if "led" in self.inverted else leds),
            *(getattr(self, name).eq(1) for name in self.high),
        ]
        m.submodules.tile = Instance(
            self.name,
            i_clk=ClockSignal(),
            i_rst=ResetSignal() | test.tile_reset,
            i_i__payload=Value.cast(test.o.payload),
            i_i__valid=test.o.valid,
            o_i__ready=test.o.ready,
            o_o__payload=Value.cast(test.i.payload),
            o_o__valid=test.i.valid,
            i_o__ready=test.i.ready,
        )
        return m

    def _reset(self, m: Module) -> None:
        """Make the clock domain, in reset after power-up and while the button is pressed."""
        m.domains.sync = ClockDomain()
        m.domains.always = ClockDomain(reset_less=True)
        pressed = Signal()
        m.submodules.synchroniser = FFSynchronizer(
            ~self.button if "button" in self.inverted else self.button, pressed, o_domain="always"
        )
        power_on = Signal(POWER_ON_BITS, name=POWER_ON)
        m.d.comb += [
            ClockSignal("sync").eq(self.clk),
            ClockSignal("always").eq(self.clk),
            ResetSignal("sync").eq(~power_on.all()),
        ]
        with m.If(pressed):
            m.d.always += power_on.eq(0)
        with m.Elif(~power_on.all()):
            m.d.always += power_on.eq(power_on + 1)

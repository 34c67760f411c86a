"""The self-test around a tile in Amaranth's simulator: what passes, what fails, and what it says."""

import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from skiptile.gen.board import make_vectors
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import random_case
from skiptile.hw import self_test
from skiptile.hw.mac_tile import MacTile
from skiptile.hw.self_test import PAUSE_BITS, WORD_BITS, BeatReader, Records, SelfTest, checked_fields

DIVISOR, PERIOD, JOBS = 1, 2500, 10
SMALL = {"rows": 4, "columns": 1, "lanes": 1, "lookahead": 1, "max_reduction": 100}
PARAMS = MacTileParams(**SMALL)
LINE = r"skiptile t, run (\d+): (\d+) reductions, (\d+) cycles for (\d+) steps, (\d+) errors(.*)\r\n"


class Whole(wiring.Component):
    """A self-test and a tile, with what can go wrong between them: ``fault`` is wrong, dead or extra."""

    def __init__(self, params, vectors, fault=None):
        self.test = SelfTest(params, vectors, name="t", divisor=DIVISOR, period=PERIOD)
        self.tile, self.fault = MacTile(params), fault
        super().__init__({"leds": Out(4), "tx": Out(1)})

    def elaborate(self, platform):
        m = Module()
        test, tile, fault = self.test, self.tile, self.fault
        m.submodules.test = test
        m.submodules.tile = ResetInserter(test.tile_reset)(tile)
        wiring.connect(m, test.o, tile.i)
        late = Signal(range(PERIOD))  # cycles since the last reset of the tile
        m.d.sync += late.eq(late + 1)
        with m.If(test.tile_reset):
            m.d.sync += late.eq(0)
        flipped = tile.o.payload.last if fault == "wrong" else 0
        extra = late == 700 if fault == "extra" else 0
        m.d.comb += [
            Value.cast(test.i.payload).eq(Value.cast(tile.o.payload) ^ flipped),
            test.i.valid.eq((tile.o.valid & (fault != "dead")) | extra),
            tile.o.ready.eq(test.i.ready),
            self.leds.eq(test.heartbeat | test.running << 1 | test.passed << 2 | test.failed << 3),
            self.tx.eq(test.tx),
        ]
        return m


def vectors_of(params, seed, jobs=JOBS):
    """Golden vectors; the first result waits until all behind it are ready, or stuck."""
    vectors = make_vectors(params, jobs, seed)
    pauses = [400] + [0] * (len(vectors.outputs.payloads) - 1)
    return replace(vectors, outputs=replace(vectors.outputs, pauses=pauses))


def watch(whole, lines):
    """Each line that is sent, with the LEDs after it; and the largest stall counters seen."""
    seen, stalls = [], {"input_stalls": 0, "output_stalls": 0}

    async def bench(ctx):
        text, bits, cycles, tx = "", [], 0, 1
        while len(seen) < lines:
            before, tx = tx, ctx.get(whole.tx)
            if not bits and before and not tx:
                bits, cycles = [0], 0
            elif bits:
                cycles += 1
                if cycles % DIVISOR == 0:
                    bits.append(tx)
                if len(bits) == 10:
                    text += chr(sum(bit << k for k, bit in enumerate(bits[1:9])))
                    bits = []
            if text.endswith("\n"):
                seen.append((re.fullmatch(LINE, text).groups(), ctx.get(whole.leds) & 0b1110))
                text = ""
            if ctx.get(whole.tile.o.valid):
                for name in stalls:
                    stalls[name] = max(stalls[name], ctx.get(whole.tile.o.payload[name]))
            await ctx.tick()

    simulator = Simulator(whole)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return seen, stalls


def counted(params, seed, jobs=JOBS):
    """What a run must count, from golden."""
    outputs = random_case(params, jobs, seed)[1]
    last = outputs["last"] == 1
    return [str(jobs), *(str(int(outputs[name][last].sum())) for name in ("cycles", "steps"))]


def test_two_runs_pass(seed):
    """The second one begins with the next period; input ran dry and results had to wait on the way."""
    seen, stalls = watch(Whole(PARAMS, vectors_of(PARAMS, seed)), lines=2)
    for number, (fields, leds) in enumerate(seen, 1):
        assert fields == (str(number), *counted(PARAMS, seed), "0", ": PASS")
        assert leds == 0b0100
    assert stalls["input_stalls"] > 0
    assert stalls["output_stalls"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"lookahead": 0, "rows": 2, "lanes": 3},
        pytest.param({"format": "float8_e4m3fn", "rows": 2, "output_rows": 2}, marks=pytest.mark.exhaustive),
        pytest.param({"side": "both", "rows": 1, "lanes": 2}, marks=pytest.mark.exhaustive),
        pytest.param({"out": "int8", "rows": 1, "columns": 2}, marks=pytest.mark.exhaustive),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_other_tiles_pass(options, seed):
    params = MacTileParams(**{**SMALL, **options})
    (((*fields, verdict), leds),) = watch(Whole(params, vectors_of(params, seed, 3)), lines=1)[0]
    assert fields == ["1", *counted(params, seed, 3), "0"]
    assert (verdict, leds) == (": PASS", 0b0100)


def test_wrong_expected_words_are_counted(seed):
    """Two words that differ are two beats in error; the tile's own counters are right all the same."""
    vectors = vectors_of(PARAMS, seed)
    payloads = list(vectors.outputs.payloads)
    payloads[0] ^= 1
    payloads[-1] ^= 1 << vectors.outputs.bits - 1
    wrong = replace(vectors, outputs=replace(vectors.outputs, payloads=payloads))
    ((fields, leds),) = watch(Whole(PARAMS, wrong), lines=1)[0]
    assert fields == ("1", *counted(PARAMS, seed), "2", ": FAIL")
    assert leds == 0b1000


def test_a_wrong_tile_fails(seed):
    """The lowest result bit of every reduction's last row is wrong."""
    (((*_, errors, verdict), leds),) = watch(Whole(PARAMS, vectors_of(PARAMS, seed), "wrong"), lines=1)[0]
    assert (errors, verdict, leds) == (str(JOBS), ": FAIL", 0b1000)


def test_a_dead_tile_fails(seed, monkeypatch):
    monkeypatch.setattr(self_test, "PATIENCE_BITS", 9)
    seen, _ = watch(Whole(PARAMS, vectors_of(PARAMS, seed), "dead"), lines=1)
    assert seen == [(("1", "0", "0", "0", "0", ", no answer: FAIL"), 0b1000)]


def test_a_beat_too_many_fails(monkeypatch):
    monkeypatch.setattr(self_test, "SETTLE_BITS", 9)
    vectors = vectors_of(PARAMS, 0, jobs=1)
    (((*_, errors, verdict), _),) = watch(Whole(PARAMS, vectors, "extra"), lines=1)[0]
    assert (errors, verdict) == ("1", ": FAIL")


# ---- what is in block RAM ----


def test_what_depends_on_timing_is_not_compared():
    assert checked_fields(PARAMS) == ["result", "row", "last", "cycles", "steps", "effectual"]
    floats = MacTileParams(**SMALL, format="bfloat16")
    assert checked_fields(floats)[:2] == ["result", "flags"]


def test_words():
    records = Records([0x123456789ABCDEF], [0x11], 60)
    assert records.words_per_beat == 2
    low, high = records.words
    assert low | high << WORD_BITS == 0x123456789ABCDEF << PAUSE_BITS | 0x11


@pytest.mark.parametrize("bits", [1, WORD_BITS - PAUSE_BITS, WORD_BITS - PAUSE_BITS + 1, 200])
@pytest.mark.parametrize("stall", [0, 0.7])
def test_beats_are_read(bits, stall, seed):
    """In order, each no earlier than its pause allows, and valid until taken; twice, after a reset."""
    rng = np.random.default_rng([seed, bits])
    payloads = [int.from_bytes(rng.bytes(25), "little") % (1 << bits) for _ in range(9)]
    pauses = [0, 0, 5, 300, *rng.integers(0, 30, 5).tolist()]
    reader = BeatReader(Records(payloads, pauses, bits))
    reset = Signal()
    taken, gaps = [], []

    async def bench(ctx):
        for _ in range(2):
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            waiting, gap = None, 0
            while not ctx.get(reader.done):
                ready = rng.random() >= stall
                ctx.set(reader.o.ready, ready)
                if ctx.get(reader.o.valid):
                    assert waiting in (None, ctx.get(reader.o.payload))
                    waiting = None if ready else ctx.get(reader.o.payload)
                    if ready:
                        taken.append(ctx.get(reader.o.payload))
                        gaps.append(gap)
                else:
                    assert waiting is None
                gap = 0 if ctx.get(reader.o.valid) else gap + 1
                await ctx.tick()
            assert not ctx.get(reader.o.valid)

    simulator = Simulator(ResetInserter(reset)(reader))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert taken == payloads * 2
    if not stall:
        assert all(gap >= pause for gap, pause in zip(gaps, pauses * 2, strict=True))

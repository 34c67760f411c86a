"""The read-out in Amaranth's simulator against fractions: every rounding, limit and flag."""

from fractions import Fraction

import numpy as np
import pytest
from amaranth.sim import Simulator
from fraction_reference import Reference, power

from skiptile.golden.arithmetic import FLAGS, Arithmetic
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.hw.arith.read_out import ReadOut

FLOATS = [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]


def run(arithmetic, states, shifts=()):
    """Results, and flags of float operands, of one state after the other."""
    block, taken = ReadOut(arithmetic), []

    async def bench(ctx):
        for index in range(len(states) + arithmetic.read_out_latency):
            if index < len(states):
                ctx.set(block.state, states[index])
                if arithmetic.shift_bits:
                    ctx.set(block.shift, shifts[index])
            if index >= arithmetic.read_out_latency:
                taken.append((ctx.get(block.result), ctx.get(block.flags) if arithmetic.is_float else 0))
            await ctx.tick()

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return taken


def sums(rng, arithmetic, count):
    """Accumulators of every length, both signs, with ties, carries and the ends among them."""
    most = arithmetic.accumulator_bits - 1
    values = [0, 1, -1, (1 << most) - 1, -(1 << most) + 1]
    for _ in range(count):
        length = int(rng.integers(1, most + 1))
        value = int.from_bytes(rng.bytes(90), "little") % (1 << length)
        if rng.random() < 0.7:  # few bits at the top, and then all ones or zeros, or a one behind
            head = min(length, int(rng.integers(1, 28)))
            tail = length - head
            value = (value >> tail << tail) + int(rng.choice([0, 1, 2])) * ((1 << tail) // 2)
            value += int(rng.choice([-1, 0, 1]))
        values.append(min(value, (1 << most) - 1) * int(rng.choice([-1, 1])))
    return values


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("out", FLOATS)
@pytest.mark.parametrize(
    ("format", "window"),
    [("float8_e4m3fn", None), ("bfloat16", None), ("bfloat16", (-100, -170)), ("float32", (140, 100)),
     ("bfloat16", (0, -3)), ("int8", None)],
)  # fmt: skip
def test_floats(format, window, out, saturate, seed):
    rng = np.random.default_rng(seed)
    options = {
        "format": format,
        "accumulator": window,
        "out": out,
        "saturate": saturate,
        "max_reduction": 100,
    }
    reference = Reference(**options)
    arithmetic = reference.arithmetic
    totals = sums(rng, arithmetic, 150)
    chosen = [
        int(f) if rng.random() < 0.1 else 0 for f in rng.integers(0, 1 << len(arithmetic.flags), len(totals))
    ]
    states = [
        (total & (1 << arithmetic.accumulator_bits) - 1) | flags << arithmetic.accumulator_bits
        for total, flags in zip(totals, chosen, strict=True)
    ]
    unit = power(arithmetic.window[1])
    for total, flags, (result, shown) in zip(totals, chosen, run(arithmetic, states), strict=True):
        names = {name for k, name in enumerate(arithmetic.flags) if flags >> k & 1}
        assert result == reference.read_out(total * unit, names - {"overflow"}), (total, names)
        assert shown == sum(1 << FLAGS.index(name) for name in names)


@pytest.mark.parametrize("out", ["int8", "int16"])
@pytest.mark.parametrize(("format", "max_reduction"), [("int8", 1), ("int8", 1 << 24), ("int16", 1000)])
def test_shifted_integers(format, max_reduction, out, seed):
    rng = np.random.default_rng(seed)
    arithmetic = Arithmetic(format=format, out=out, max_reduction=max_reduction)
    totals = sums(rng, arithmetic, 300)
    shifts = rng.integers(0, 1 << arithmetic.shift_bits, len(totals)).tolist()
    states = [total & (1 << arithmetic.accumulator_bits) - 1 for total in totals]
    limits = np.iinfo(out)
    for total, shift, (result, _) in zip(totals, shifts, run(arithmetic, states, shifts), strict=True):
        wanted = max(limits.min, min(limits.max, round(Fraction(total, 1 << shift))))
        assert result == wanted % (1 << limits.bits), (total, shift)

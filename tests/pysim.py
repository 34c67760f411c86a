"""Driving streams of a component in Amaranth's simulator, a port's payload as one integer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.sim import Simulator

from skiptile.golden.payload import Field, pack_integers, unpack_integers


@dataclass
class Run:
    """What came out, and what the watched signals were in each cycle of an issue."""

    outputs: dict[str, np.ndarray]
    elapsed: int
    samples: list[tuple[int, ...]]


def run_stream(
    component: wiring.Component,
    inputs: dict[str, np.ndarray],
    input_fields: Sequence[Field],
    output_fields: Sequence[Field],
    output_beats: int,
    *,
    idle: float = 0,
    stall: float = 0,
    seed: int = 0,
    watch: Callable[[], list[Value]] | None = None,
    watchdog: int = 2000,
) -> Run:
    """Send ``inputs`` to ``i`` and take ``output_beats`` from ``o``, then see that no more come.

    ``idle`` and ``stall`` are the probabilities of a cycle without a valid, without a ready. ``watch``
    gives signals, the first of which says in which cycles the others are kept.
    """
    rng = np.random.default_rng(seed)
    payloads = pack_integers(input_fields, inputs)
    taken: list[int] = []
    samples: list[tuple[int, ...]] = []
    times = {"first": 0, "last": 0}

    async def bench(ctx):
        i, o = component.i, component.o
        sent, waiting, cycle, quiet = 0, False, 0, 0
        while quiet < 20:
            if sent < len(payloads) and (waiting or rng.random() >= idle):
                ctx.set(Value.cast(i.payload), payloads[sent])
                ctx.set(i.valid, 1)
                waiting = True
            else:
                ctx.set(Value.cast(i.payload), int(rng.integers(1 << 30)))
                ctx.set(i.valid, 0)
            ctx.set(o.ready, int(rng.random() >= stall))
            takes = ctx.get(i.valid) and ctx.get(i.ready)
            gives = ctx.get(o.valid) and ctx.get(o.ready)
            if takes:
                times["first"] = times["first"] if sent else cycle
                sent, waiting = sent + 1, False
            if gives:
                taken.append(ctx.get(Value.cast(o.payload)))
                times["last"] = cycle
            if watched:
                values = tuple(ctx.get(signal) for signal in watched)
                if values[0]:
                    samples.append(values[1:])
            cycle += 1
            quiet = quiet + 1 if sent == len(payloads) and len(taken) >= output_beats else 0
            assert cycle < watchdog * (len(payloads) + 1), f"{sent} beats sent, {len(taken)} taken"
            await ctx.tick()

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    watched = watch() if watch else []
    simulator.add_testbench(bench)
    simulator.run()
    assert len(taken) == output_beats
    outputs = unpack_integers(output_fields, taken)
    return Run(outputs, times["last"] - times["first"] + 1, samples)

"""The systolic tile and its parts in Amaranth's simulator: quick, without a build. Sweeps: tests/sim."""

import numpy as np
import pytest
from amaranth.sim import Simulator
from pysim import run_stream

from skiptile.golden.systolic_tile import BOTH, OUTPUT, WEIGHT, SystolicTileParams, job_cycles
from skiptile.golden.systolic_tile_cases import random_case
from skiptile.golden.systolic_tile_jobs import SystolicJobs, sequence_beats
from skiptile.hw.gather import Gather
from skiptile.hw.held_sums import HeldSums
from skiptile.hw.systolic_tile import SystolicTile


def tile(rows, columns, dataflow, **options):
    return SystolicTileParams(rows=rows, columns=columns, dataflow=dataflow, **options)


def run_cycles(component, inputs, output, latency):
    """``output`` in each cycle, ``latency`` cycles after ``inputs``, rows of values by name."""
    given = []

    async def bench(ctx):
        for cycle in range(len(inputs) + latency):
            for name, value in (inputs[cycle] if cycle < len(inputs) else {}).items():
                ctx.set(getattr(component, name), value)
            await ctx.tick()
            if cycle >= latency - 1:
                given.append(ctx.get(output))

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return given[: len(inputs)]


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_held_sums_of_the_same_row_again_and_again(depth, seed):
    """Rows come in any order, the same one in consecutive cycles too: nothing is read too early."""
    rng = np.random.default_rng([seed, depth])
    component = HeldSums(tile(1, 1, WEIGHT, accumulator_depth=depth))
    inputs = [
        {
            "state": int(rng.integers(1 << 20)),
            "row": int(rng.integers(depth)),
            "hold": int(rng.random() < 0.8),
            "keep": int(rng.random() < 0.8),
        }
        for _ in range(200)
    ]
    for row in range(depth):  # they hold something first
        inputs.insert(0, {"state": 7 * row, "row": row, "hold": 0, "keep": 1})
    held, wanted = {}, []
    for beat in inputs:
        total = beat["state"] + (held[beat["row"]] if beat["hold"] else 0)
        wanted.append(total & (1 << len(component.state)) - 1)
        if beat["keep"]:
            held[beat["row"]] = total
    assert run_cycles(component, inputs, component.total, 2) == wanted


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_gather_gives_what_it_kept(depth, seed):
    """In the cycle after a vector is kept, too."""
    rng = np.random.default_rng([seed, depth])
    component = Gather(tile(2, 1, OUTPUT, gather_depth=depth))
    kept, inputs, wanted = {}, [], []
    for _ in range(300):
        pick, vector = int(rng.integers(depth)), int(rng.integers(1 << 16))
        keep, recall = (0, 1) if pick in kept and rng.random() < 0.6 else (int(rng.random() < 0.9), 0)
        inputs.append({"a": vector, "pick": pick, "keep": keep, "recall": recall})
        wanted.append(kept[pick] if recall else vector)
        if keep:
            kept[pick] = vector
    assert run_cycles(component, inputs, component.gathered, 1) == wanted


@pytest.mark.parametrize(("idle", "stall"), [(0, 0), (0.5, 0.8)])
@pytest.mark.parametrize(
    "params",
    [
        tile(1, 1, WEIGHT, accumulator_depth=1, max_reduction=1),
        tile(2, 3, BOTH, n=1, m=2, out="int8", accumulator_depth=1, registers_every=2),
        tile(3, 1, OUTPUT, format="float8_e4m3fn", gather_depth=2),
    ],
    ids=lambda params: params.dataflow,
)
def test_a_random_case(params, idle, stall, seed):
    beats, wanted = random_case(params, 8, seed)
    count = params.count_outputs(beats)
    run = run_stream(
        SystolicTile(params), beats, params.input_fields, params.output_fields, count, idle=idle, stall=stall
    )
    for name, values in wanted.items():
        assert np.array_equal(run.outputs[name], values), name


def test_results_that_leave_are_not_added_to_held_ones(seed):
    """When the last beat is gone, the input buffer shows one from before, of a job that held its sums."""
    rng = np.random.default_rng(seed)
    params = tile(3, 2, BOTH)
    products, wanted = [], []
    for m, k, dataflow in ((8, 10, WEIGHT), (3, 10, WEIGHT), (3, 1, OUTPUT)):
        a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(1, 128, (k, 2), np.int8)
        products.append(SystolicJobs(a, b, params, dataflow=dataflow))
        wanted.append(a.astype(int) @ b.astype(int))
    run = run_stream(
        SystolicTile(params), sequence_beats(products), params.input_fields, params.output_fields, 14
    )
    assert np.array_equal(run.outputs["result"], np.concatenate(wanted))


@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT])
def test_cycles_are_golden(dataflow, seed):
    rng = np.random.default_rng(seed)
    params = tile(2, 3, BOTH, accumulator_depth=3)
    for m, k, n in ((1, 1, 1), (2, 2, 3), (4, 5, 4)):
        a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
        jobs = SystolicJobs(a, b, params, dataflow=dataflow)
        run = run_stream(
            SystolicTile(params),
            jobs.beats(0, len(jobs)),
            params.input_fields,
            params.output_fields,
            jobs.result_beats,
        )
        assert run.elapsed == job_cycles(params, m, k, n, dataflow)
        c, _ = jobs.collect(run.outputs, run.elapsed)
        assert np.array_equal(c, a.astype(int) @ b.astype(int))

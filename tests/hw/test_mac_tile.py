"""The whole tile in Amaranth's simulator: quick and without a build; the sweeps are in tests/sim."""

import numpy as np
import pytest
from pysim import run_stream

from skiptile.golden import exact
from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.golden.mac_tile_jobs import TileJobs, count_product
from skiptile.hw.mac_tile import MacTile


def operands(rng, shape, zeros):
    return rng.integers(-128, 128, shape).astype(np.int8) * (rng.random(shape) >= zeros)


def run_product(params, a, b, **options):
    jobs = TileJobs(a, b, params)
    beats, results = jobs.beats(0, len(jobs)), len(jobs) * params.result_beats
    run = run_stream(MacTile(params), beats, params.input_fields, params.output_fields, results, **options)
    return jobs, run


@pytest.mark.parametrize(("idle", "stall"), [(0, 0), (0.5, 0.8)])
@pytest.mark.parametrize(
    "params",
    [
        MacTileParams(rows=1, columns=1, lanes=1, lookahead=0),
        MacTileParams(rows=2, columns=3, lanes=4, lookahead=0, output_rows=2),
        MacTileParams(rows=1, columns=1, lanes=1, lookahead=1),
        MacTileParams(rows=1, columns=4, lanes=4, lookahead=7, interconnect="lookahead"),
        MacTileParams(rows=4, columns=2, lanes=16, interconnect="tensordash-sim", output_rows=2),
        MacTileParams(rows=3, columns=1, lanes=3, interconnect=[[0, 0]]),
        MacTileParams(rows=1, columns=1, lanes=5, lookahead=3, side="both"),
        MacTileParams(rows=1, columns=1, lanes=5, lookahead=3, side="both", contexts=2),
        MacTileParams(rows=3, columns=2, lanes=8, contexts=2),
        MacTileParams(rows=2, columns=1, lanes=16, interconnect="two-level-5", contexts=2),
        MacTileParams(rows=1, columns=1, lanes=1, lookahead=1, contexts=2),
    ],
    ids=lambda p: f"{p.rows}x{p.columns}x{p.lanes}-{p.lookahead}-{p.contexts}",
)
def test_results_and_counters(params, idle, stall):
    rng = np.random.default_rng([params.rows, params.lanes, params.lookahead])
    a = operands(rng, (2 * params.columns + 1, 9 * params.lanes - 1), 0.2)
    b = operands(rng, (9 * params.lanes - 1, 2 * params.rows), 0.6)
    jobs, run = run_product(params, a, b, idle=idle, stall=stall)
    results = run.outputs["result"].reshape(len(jobs), params.rows, params.columns)
    assert np.array_equal(jobs.assemble(results), exact.product(a, b, params.arithmetic).results)
    rows = np.arange(0, params.rows, params.output_rows)
    assert np.array_equal(run.outputs["row"], np.tile(rows, len(jobs)))
    last = run.outputs["last"] == 1
    assert np.array_equal(last, np.tile(rows == rows[-1], len(jobs)))
    assert np.array_equal(run.outputs["cycles"][last], schedule(*jobs.effectual(0, len(jobs)), params).cycles)
    totals = count_product(a, b, params)
    assert run.outputs["steps"][last].sum() == totals.steps
    assert run.outputs["effectual"][last].sum() == totals.effectual


@pytest.mark.parametrize(("lookahead", "contexts"), [(0, 1), (2, 1), (5, 1), (1, 2), (2, 2), (5, 2)])
@pytest.mark.parametrize("zeros", [0.6, 1])
@pytest.mark.parametrize("steps", [1, 3, 4, 30])
def test_no_cycle_without_an_issue(steps, lookahead, contexts, zeros):
    """Elapsed cycles are the schedule's and constant latencies, where results are not in the way."""
    rng = np.random.default_rng([steps, lookahead])
    params = MacTileParams(rows=2, columns=1, lanes=4, lookahead=lookahead, contexts=contexts, output_rows=2)
    a, b = operands(rng, (4, 4 * steps), 0), operands(rng, (4 * steps, 8), zeros)
    _, run = run_product(params, a, b)
    cycles = run.outputs["cycles"].sum()
    assert run.elapsed == cycles + params.issue_latency + params.result_latency
    assert run.outputs["input_stalls"].sum() == run.outputs["output_stalls"].sum() == 0


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("steps", [1, 3, 4, 5, 9])
def test_reductions_as_long_as_their_results_do_not_wait(steps, contexts):
    """Four rows, given one by one: shorter reductions wait for the way out."""
    params = MacTileParams(rows=4, columns=1, lanes=2, contexts=contexts, output_rows=1)
    ones = np.ones((5, 2 * steps), np.int8)
    _, run = run_product(params, ones, ones[:4].T)
    cycles = run.outputs["cycles"][run.outputs["last"] == 1]
    constant = params.issue_latency + params.result_latency + params.result_beats - 1
    waited = run.elapsed - cycles.sum() - constant
    assert waited == 0 if cycles.min() >= params.result_beats else waited > 0


def test_stalls_are_counted():
    rng = np.random.default_rng(1)
    params = MacTileParams(rows=4, columns=1, lanes=4)
    a, b = operands(rng, (6, 8), 0), operands(rng, (8, 4), 0.5)
    jobs, run = run_product(params, a, b)
    # one reduction takes 1 or 2 cycles, its 4 rows of results take 4
    last = run.outputs["last"] == 1
    assert run.outputs["output_stalls"][last].sum() > len(jobs)
    assert run.outputs["input_stalls"][last].sum() == 0
    long, longer = operands(rng, (1, 400), 0), operands(rng, (400, 4), 0.5)
    _, run = run_product(params, long, longer, idle=0.9)
    assert run.outputs["input_stalls"][-1] > 100
    assert run.outputs["output_stalls"][-1] == 0


def test_full_scale_operands_for_the_longest_reduction():
    for value in (-128, 127):
        params = MacTileParams(rows=1, columns=1, lanes=16, max_reduction=1 << 12)
        a, b = np.full((1, 1 << 12), -128, np.int8), np.full((1 << 12, 1), value, np.int8)
        _, run = run_product(params, a, b)
        assert run.outputs["result"].item() == -128 * value * (1 << 12)


# Which of 40 beats are without a zero; the others are all zeros.
UNEVEN = {
    "even": lambda beat, rng: beat % 2 == 0,
    "odd": lambda beat, rng: beat % 2 == 1,
    "odd, then none": lambda beat, rng: (beat % 2 == 1) & (beat < 20),
    "even, then odd": lambda beat, rng: beat % 2 == (beat >= 20),
    "any": lambda beat, rng: rng.random(40)[beat] < 0.4,
}


@pytest.mark.parametrize("beats", UNEVEN)
@pytest.mark.parametrize("lookahead", [1, 2, 3, 5])
def test_two_contexts_wait_for_each_other_by_the_schedule_alone(lookahead, beats):
    """However uneven the zeros are: one half drained as fast as can be, and no cycle without an issue."""
    params = MacTileParams(rows=1, columns=1, lanes=2, lookahead=lookahead, contexts=2)
    beat = np.repeat(np.arange(40), params.lanes * params.window_steps)
    b = UNEVEN[beats](beat, np.random.default_rng(lookahead)).astype(np.int8)[:, None]
    jobs, run = run_product(params, np.ones((2, len(b)), np.int8), b)
    assert run.outputs["result"].ravel().tolist() == [b.sum()] * 2
    cycles = schedule(*jobs.effectual(0, 2), params).cycles
    assert run.outputs["cycles"].tolist() == cycles.tolist()
    assert run.elapsed == cycles.sum() + params.issue_latency + params.result_latency
    assert run.outputs["input_stalls"].sum() == 0
    paused = run_product(params, np.ones((2, len(b)), np.int8), b, idle=0.5)[1]
    assert paused.outputs["cycles"].tolist() == cycles.tolist()

"""The delivered Verilog against golden: results, issue cycles, selections, advances; every geometry."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from covering import covering_set

from skiptile import sim
from skiptile.golden import exact
from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.golden.mac_tile_cases import random_case
from skiptile.golden.mac_tile_jobs import TileJobs, count_product
from skiptile.golden.published import TENSORDASH_SPEEDUPS, ZEROS
from skiptile.golden.schedule import selected_moves

OPTIONS = {
    "geometry": [(1, 1), (1, 4), (2, 2), (3, 5), (4, 4)],
    "lanes": [1, 3, 4, 8, 16],
    "lookahead": [0, 1, 2, 3],
    "interconnect": ["tensordash", "tensordash-sim", "lookahead", "two-level-7"],
    "side": ["b", "both"],
    "output": ["row", "all rows"],
    "contexts": [1, 2],
}
COVERING = covering_set(OPTIONS, lambda c: c["side"] == "b" or c["geometry"] == (1, 1))
CHANCES = [0, 0.1, 0.5, 0.9]  # of a cycle without input, without readiness


def tile(geometry, lanes, lookahead, interconnect, side="b", output="row", contexts=1):
    rows, columns = geometry
    return MacTileParams(
        rows=rows,
        columns=columns,
        lanes=lanes,
        lookahead=lookahead,
        interconnect=interconnect,
        side=side,
        contexts=contexts,
        output_rows=1 if output == "row" else rows,
    )


PAPER_ROW = tile((1, 1), 16, 2, "tensordash")
OWN_LIST = tile((2, 1), 7, 2, [[0, 0], [2, -3], [1, 2], [1, 0]])
TWO_CONTEXTS = tile((2, 2), 8, 2, "two-level-5", contexts=2)
EVERYTHING = dict.fromkeys(
    tile(**dict(zip(OPTIONS, values, strict=True)))
    for values in itertools.product(*OPTIONS.values())
    if values[4] == "b" or values[0] == (1, 1)
)


def name_of(params):
    size = f"{params.rows}x{params.columns}x{params.lanes}"
    options = (params.lookahead, params.interconnect, params.side, params.output_rows, params.contexts)
    return "-".join([size, *map(str, options)])


def operands(rng, shape, zeros):
    return rng.integers(-128, 128, shape).astype(np.int8) * (rng.random(shape) >= zeros)


def shapes(rng, params, count):
    """Shapes below, at and above the tile, not multiples of it, and one."""
    fixed = [(1, 1, 1), (params.columns, params.lanes, params.rows), (1, 7 * params.lanes, 1)]
    for _ in range(count - len(fixed)):
        m, n = rng.integers(1, 3 * params.columns + 2), rng.integers(1, 3 * params.rows + 2)
        fixed.append((int(m), int(rng.integers(1, 12 * params.lanes + 2)), int(n)))
    return [(m, min(k, params.max_reduction), n) for m, k, n in fixed]


def check_schedule(run, pairs, ends, params):
    """Every issue of a run is golden's, and no counter is impossible."""
    wanted = schedule(pairs, ends, params)
    last = run.outputs["last"] == 1
    assert np.array_equal(run.outputs["cycles"][last], wanted.cycles)
    assert np.array_equal(run.trace["advance"].ravel(), wanted.advance)
    if params.lookahead:
        assert np.array_equal(selected_moves(run.trace["select"]), wanted.select)
    starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    assert np.array_equal(run.outputs["effectual"][last], np.add.reduceat(pairs.sum(axis=(1, 2)), starts))
    assert np.all(run.outputs["effectual"] <= run.outputs["cycles"] * params.rows * params.lanes)
    if params.contexts == 1:
        assert np.all(run.outputs["cycles"] <= run.outputs["steps"])


def check_product(model, params, a, b, **options):
    """One product under any stalls: golden's bits, golden's issues."""
    jobs = TileJobs(a, b, params)
    run = model.stream(jobs.beats(0, len(jobs)), trace=True, **options)
    check_schedule(run, *jobs.effectual(0, len(jobs)), params)
    results = run.outputs["result"].reshape(len(jobs), params.rows, params.columns)
    assert np.array_equal(jobs.assemble(results), exact.product(a, b, params.arithmetic).results)


def check_tile(params, products, seed):
    """Random products of many shapes and stalls, from random initial values; then without any stall."""
    rng = np.random.default_rng([42, seed])
    model = sim.load(params, random_start=True)
    for index, (m, k, n) in enumerate(shapes(rng, params, products)):
        a = operands(rng, (m, k), rng.choice([0, 0.3, 0.9, 1]))
        b = operands(rng, (k, n), rng.choice([0, 0.3, 0.6, 0.95, 1]))
        idle, stall = rng.choice(CHANCES, 2)
        check_product(model, params, a, b, idle=idle, stall=stall, seed=index)
        result, counters = model.matmul(a, b)
        golden = count_product(a, b, params)
        assert np.array_equal(result, exact.product(a, b, params.arithmetic).results)
        counted = (counters.cycles, counters.steps, counters.effectual)
        assert counted == (golden.cycles, golden.steps, golden.effectual)
        busy = counters.cycles + counters.input_stalls + counters.output_stalls
        assert counters.elapsed >= busy
        assert counters.input_stalls == 0


@pytest.mark.parametrize("params", [*(tile(**c) for c in COVERING), OWN_LIST], ids=name_of)
def test_rtl_is_golden(params, seed):
    check_tile(params, 12, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("params", EVERYTHING, ids=name_of)
def test_rtl_is_golden_everywhere(params, seed):
    check_tile(params, 8, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "params",
    [
        tile((8, 8), 16, 2, "tensordash"),
        tile((8, 8), 4, 0, "tensordash"),
        tile((2, 3), 32, 2, "tensordash"),
        tile((1, 2), 64, 7, "tensordash-sim"),
        tile((1, 1), 64, 1, "tensordash", side="both"),
        MacTileParams(rows=1, columns=1, lanes=1, max_reduction=1),
        MacTileParams(rows=1, columns=2, lanes=3, max_reduction=1 << 24, lookahead=7),
        tile((64, 1), 1, 1, "lookahead", output="all rows"),
        tile((1, 64), 1, 3, "tensordash"),
        tile((8, 8), 16, 2, "tensordash", contexts=2),
        tile((1, 2), 64, 7, "four-level-9", contexts=2),
        MacTileParams(rows=1, columns=1, lanes=1, max_reduction=1, contexts=2),
        MacTileParams(rows=2, columns=1, lanes=3, max_reduction=1 << 24, lookahead=1, contexts=2),
    ],
    ids=name_of,
)
def test_rtl_is_golden_at_the_limits(params, seed):
    check_tile(params, 8, seed)


def test_one_row_of_four_lanes_on_every_window():
    """All 2^12 contents of a window of three steps, each as a reduction of its own."""
    params = tile((1, 1), 4, 2, "tensordash")
    pairs = (np.arange(1 << 12)[:, None] >> np.arange(12) & 1).astype(bool).reshape(-1, 3, 4)
    check_windows(params, pairs)


@pytest.mark.parametrize("contexts", [1, 2])
def test_one_row_of_sixteen_lanes_on_random_windows(seed, contexts):
    rng = np.random.default_rng([9, seed])
    windows = rng.random((100_000, 3, 16)) < rng.random((100_000, 1, 1))
    check_windows(replace(PAPER_ROW, contexts=contexts), windows)


def check_windows(params, windows):
    """Each window (steps, lanes) is one beat and one reduction of a tile of one element."""
    count = len(windows)
    rng = np.random.default_rng(0)
    beats = {
        "a": rng.integers(-128, 128, (count, params.window_steps, 1, params.lanes)),
        "b": windows[:, :, None] * rng.integers(1, 128, (count, params.window_steps, 1, params.lanes)),
        "count": np.full(count, params.window_steps),
        "last": np.ones(count, int),
    }
    run = sim.load(params, random_start=True).stream(beats, trace=True)
    ends = np.tile(np.arange(params.window_steps) == params.window_steps - 1, count)
    check_schedule(run, windows.reshape(-1, 1, params.lanes), ends, params)
    assert np.array_equal(run.outputs["result"].ravel(), (beats["a"] * beats["b"]).sum(axis=(1, 2, 3)))


@pytest.mark.parametrize(
    "params", [PAPER_ROW, OWN_LIST, TWO_CONTEXTS, tile((2, 2), 3, 0, "tensordash")], ids=name_of
)
def test_neither_stalls_nor_resets_nor_first_values_matter(params):
    model = sim.load(params, random_start=True)
    beats, wanted = random_case(params, 40, 1)
    rng = np.random.default_rng(2)
    reference = model.stream(beats, trace=True)
    pattern = rng.random(97) < 0.5
    paces = [*itertools.product(CHANCES, CHANCES), (pattern, 0), (0, pattern), (pattern, pattern[::-1])]
    for seed, (idle, stall) in enumerate(paces * 5):
        reset_after = int(rng.integers(1, 200)) if seed >= len(paces) else None
        run = model.stream(beats, idle, stall, seed, trace=True, reset_after=reset_after)
        for name, values in wanted.items():
            assert np.array_equal(run.outputs[name], values), (name, idle, stall, seed, reset_after)
        assert set(run.trace) == set(reference.trace)
        for name in set(run.trace) - {"cycle"}:
            assert np.array_equal(run.trace[name], reference.trace[name])


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("beats", [1, 2, 3, 7])
def test_two_contexts_begin_in_turn(beats, phase):
    """A single reduction takes what the contract says, to the cycle, whichever context's turn it comes in."""
    params = TWO_CONTEXTS
    rng = np.random.default_rng([beats, phase])
    k = beats * params.window_steps * params.lanes
    jobs = TileJobs(operands(rng, (params.columns, k), 0), operands(rng, (k, params.rows), 0.5), params)
    pauses = np.arange(1000) < phase
    run = sim.load(params, random_start=True).stream(jobs.beats(0, 1), idle=pauses)
    latency = params.issue_latency + params.result_latency + params.result_beats - 1
    early = phase * (1 if beats == 1 else -1)
    assert run.elapsed == run.outputs["cycles"][-1] + latency - early


@pytest.mark.parametrize(
    "params",
    [TWO_CONTEXTS]
    + [
        pytest.param(tile((1, 1), lanes, lookahead, interconnect, contexts=2), marks=pytest.mark.exhaustive)
        for lookahead in range(1, 8)
        for lanes, interconnect in ((4, "tensordash"), (8, "lookahead"))
    ],
    ids=name_of,
)
def test_contexts_never_stop_each_other(params, seed):
    """Reductions of 4,096 steps whose beats are full or empty at random: no cycle without an issue."""
    model = sim.load(params, random_start=True)
    rng = np.random.default_rng([31, seed])
    k = 4096 * params.lanes
    for empty in (0.1, 0.5, 0.9):
        beats = rng.random(-(-4096 // params.window_steps)) < empty
        b = operands(rng, (k, params.rows), 0.1)
        b[np.repeat(beats, params.window_steps * params.lanes)[:k]] = 0
        a = operands(rng, (params.columns, k), 0)
        result, counters = model.matmul(a, b)
        golden = count_product(a, b, params)
        assert np.array_equal(result, a.astype(int) @ b.astype(int))
        assert (counters.cycles, counters.effectual) == (golden.cycles, golden.effectual)
        idle = params.issue_latency + params.result_latency + params.result_beats - 1
        assert counters.elapsed - counters.cycles in (idle - 1, idle)


@pytest.mark.parametrize("rows", [1, 4])
def test_published_speed_ups(rows):
    """The RTL reaches what PAPERS publishes for random zeros, and exactly what golden counts."""
    steps, seeds = 4096, 3
    params = MacTileParams(rows=rows, columns=1, lanes=16)
    model = sim.load(params, random_start=True)
    for zeros, wanted in zip(ZEROS, TENSORDASH_SPEEDUPS["tensordash", rows], strict=True):
        cycles = 0
        for seed in range(seeds):
            b = (np.random.default_rng(seed).random((steps * 16, rows)) >= zeros).astype(np.int8)
            a = np.ones((1, steps * 16), np.int8)
            counters = model.matmul(a, b)[1]
            assert counters.cycles == count_product(a, b, params).cycles
            cycles += counters.cycles
        assert seeds * steps / cycles == pytest.approx(wanted, rel=0.015)

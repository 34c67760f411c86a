"""The delivered Verilog against golden: results, issue cycles, selections, advances; every geometry."""

import numpy as np
import pytest
from covering import covering_set

from skiptile import sim
from skiptile.golden import exact
from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.golden.mac_tile_jobs import TileJobs, count_product

OWN_LIST = ((0, 0), (2, 0), (1, 0))
OPTIONS = {
    "geometry": [(1, 1), (1, 4), (2, 2), (3, 5), (4, 4)],
    "lanes": [1, 3, 4, 8, 16],
    "lookahead": [0, 1, 2, 3],
    "interconnect": ["tensordash", "tensordash-sim", "lookahead"],
    "side": ["b", "both"],
    "output": ["row", "all rows"],
}
COVERING = covering_set(OPTIONS, lambda c: c["side"] == "b" or c["geometry"] == (1, 1))
EVERYTHING = covering_set({"all": [None]}, lambda c: True)


def tile(geometry, lanes, lookahead, interconnect, side, output):
    rows, columns = geometry
    return MacTileParams(
        rows=rows,
        columns=columns,
        lanes=lanes,
        lookahead=lookahead,
        interconnect=interconnect,
        side=side,
        output_rows=1 if output == "row" else rows,
    )


def name_of(params):
    size = f"{params.rows}x{params.columns}x{params.lanes}"
    return f"{size}-{params.lookahead}-{params.interconnect}-{params.side}"


def operands(rng, shape, zeros):
    return rng.integers(-128, 128, shape).astype(np.int8) * (rng.random(shape) >= zeros)


def shapes(rng, params, count):
    """Shapes below, at and above the tile, not multiples of it, and one."""
    fixed = [(1, 1, 1), (params.columns, params.lanes, params.rows), (1, 7 * params.lanes, 1)]
    for _ in range(count - len(fixed)):
        m, n = rng.integers(1, 3 * params.columns + 2), rng.integers(1, 3 * params.rows + 2)
        fixed.append((int(m), int(rng.integers(1, 12 * params.lanes + 2)), int(n)))
    return fixed


def check_trace(model, params, a, b, *, idle, stall, seed):
    """One product, issue by issue, as golden schedules it."""
    jobs = TileJobs(a, b, params)
    run = model.stream(jobs.beats(0, len(jobs)), idle=idle, stall=stall, seed=seed, trace=True)
    wanted = schedule(*jobs.effectual(0, len(jobs)), params)
    last = run.outputs["last"] == 1
    assert np.array_equal(run.outputs["cycles"][last], wanted.cycles)
    assert np.array_equal(run.trace["advance"].ravel(), wanted.advance)
    if params.lookahead:
        select = run.trace.get("select", np.zeros_like(run.trace["taken"]))
        assert np.array_equal(np.where(run.trace["taken"], select, -1), wanted.select)
    results = run.outputs["result"].reshape(len(jobs), params.rows, params.columns)
    assert np.array_equal(jobs.assemble(results), exact.matmul(a, b))
    slots = run.outputs["cycles"] * params.rows * params.lanes
    assert np.all(run.outputs["effectual"] <= slots)
    assert np.all(run.outputs["cycles"] <= run.outputs["steps"])
    return run


@pytest.mark.parametrize("params", [tile(**c) for c in COVERING], ids=name_of)
def test_rtl_is_golden(params):
    rng = np.random.default_rng(42)
    model = sim.load(params)
    for index, (m, k, n) in enumerate(shapes(rng, params, 12)):
        a = operands(rng, (m, k), rng.choice([0, 0.3, 0.9, 1]))
        b = operands(rng, (k, n), rng.choice([0, 0.3, 0.6, 0.95, 1]))
        chances = [0, 0.1, 0.5, 0.9]
        idle, stall = rng.choice(chances, 2)
        check_trace(model, params, a, b, idle=idle, stall=stall, seed=index)
        result, counters = model.matmul(a, b)
        golden = count_product(a, b, params)
        assert np.array_equal(result, exact.matmul(a, b))
        assert (counters.cycles, counters.steps, counters.effectual) == (
            golden.cycles,
            golden.steps,
            golden.effectual,
        )
        assert counters.elapsed >= counters.cycles

import numpy as np
import pytest
from pysim import run_stream

from skiptile.golden.mac_tile import MacTileParams, TileJobs, count_product, schedule
from skiptile.hw.mac_tile import MacTile


def sparse(rng, shape, zeros):
    return rng.integers(-128, 128, shape).astype(np.int8) * (rng.random(shape) >= zeros)


def run_product(params, a, b, **options):
    jobs = TileJobs(a, b, params)
    return jobs, run_stream(
        MacTile(params),
        jobs.beats(0, len(jobs)),
        params.input_fields,
        params.output_fields,
        len(jobs) * params.result_beats,
        **options,
    )


@pytest.mark.parametrize(("idle", "stall"), [(0, 0), (0.5, 0), (0, 0.5), (0.3, 0.9)])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(("rows", "columns", "lanes"), [(1, 1, 1), (1, 4, 4), (2, 2, 3), (4, 2, 16)])
def test_products_and_counters(rows, columns, lanes, lookahead, idle, stall):
    rng = np.random.default_rng(rows * 100 + columns * 10 + lanes)
    params = MacTileParams(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead)
    a = sparse(rng, (2 * columns + 1, 9 * lanes - 1), 0.2)
    b = sparse(rng, (9 * lanes - 1, 2 * rows), 0.6)
    jobs, run = run_product(params, a, b, idle=idle, stall=stall)
    results = run.outputs["result"].reshape(len(jobs), params.rows, params.columns)
    assert np.array_equal(jobs.assemble(results), a.astype(np.int64) @ b)
    assert np.array_equal(run.outputs["row"], np.tile(np.arange(rows), len(jobs)))
    last = run.outputs["last"] == 1
    assert np.array_equal(last, np.tile(np.arange(rows) == rows - 1, len(jobs)))
    effectual, ends = jobs.effectual(0, len(jobs))
    assert np.array_equal(run.outputs["cycles"][last], schedule(effectual, ends, params).cycles)
    totals = count_product(a, b, params)
    assert run.outputs["steps"][last].sum() == totals.steps
    assert run.outputs["effectual"][last].sum() == totals.effectual

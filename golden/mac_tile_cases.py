"""Random jobs for a `mac-tile` and what must come out: golden vectors for any bench."""

from collections.abc import Iterable

import numpy as np

from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.golden.schedule import Schedule, schedule

LONGEST = 24  # steps
ZEROS = (0, 0.3, 0.6, 0.9, 1)

Arrays = dict[str, np.ndarray]
Product = tuple[np.ndarray, np.ndarray]  # a (columns, k) and b (k, rows) of one job


def random_case(params: MacTileParams, jobs: int, seed: int) -> tuple[Arrays, Arrays]:
    """Input payloads of ``jobs`` random reductions, and the output payloads that must follow.

    The first has full-scale operands throughout. Of the others, lengths run from one product to some
    windows of steps, operands over the format's whole range with its ends favoured, zeros from none to
    all. What stands beyond a beat's ``count`` is random.

    Returns:
        Per input field an array (beats, *shape), per output field an array (beats, *shape). The stall
        counters, which depend on when beats are given and taken, are not among the outputs.
    """
    rng = np.random.default_rng(seed)
    products = [_full_scale_product(params), *(_random_product(rng, params) for _ in range(jobs - 1))]
    inputs = _joined(TileJobs(a, b, params).beats(0, 1) for a, b in products)
    beyond = np.arange(params.window_steps) >= inputs["count"][:, None]
    for name in ("a", "b"):
        inputs[name][beyond] = _random_operands(rng, inputs[name][beyond].shape, zeros=0)
    return inputs, expected_outputs(params, inputs)[0]


def expected_outputs(params: MacTileParams, beats: Arrays) -> tuple[Arrays, Schedule]:
    """What ``beats``, input payloads as `random_case` gives them, must give, and every issue.

    From the beats alone, as their receiver understands them:
    ``acc[r][c] = sum over steps t, lanes l of a[t][c][l] * b[t][r][l]``.
    """
    place, count, last = np.arange(params.window_steps), beats["count"][:, None], beats["last"][:, None]
    counts = place < count
    a, b = (beats[name][counts].astype(np.int64) for name in ("a", "b"))
    ends = ((place == count - 1) & (last == 1))[counts]
    starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    pairs = b != 0
    if params.side == "both":
        pairs &= a != 0
    scheduled = schedule(pairs, ends, params)
    counters = {
        "cycles": scheduled.cycles,
        "steps": np.add.reduceat(np.ones(len(ends), np.int64), starts),
        "effectual": np.add.reduceat(pairs.sum(axis=(1, 2)), starts),
    }
    shape = next(field.shape for field in params.output_fields if field.name == "result")
    results = np.add.reduceat(np.einsum("tcl,trl->trc", a, b), starts)
    first_rows = np.arange(0, params.rows, params.output_rows)
    outputs = {
        "result": results.reshape(-1, *shape),
        "row": np.tile(first_rows, len(starts)),
        "last": np.tile(first_rows == first_rows[-1], len(starts)).astype(np.int64),
        **{name: np.repeat(values, params.result_beats) for name, values in counters.items()},
    }
    return outputs, scheduled


def _full_scale_product(params: MacTileParams) -> Product:
    k = _longest(params)
    return np.full((params.columns, k), -128, np.int8), np.full((k, params.rows), -128, np.int8)


def _random_product(rng: np.random.Generator, params: MacTileParams) -> Product:
    k = int(np.exp(rng.uniform(0, np.log(_longest(params) + 1))))  # short ones as often as long ones
    return (
        _random_operands(rng, (params.columns, k), zeros=rng.choice(ZEROS)),
        _random_operands(rng, (k, params.rows), zeros=rng.choice(ZEROS)),
    )


def _longest(params: MacTileParams) -> int:
    return min(params.max_reduction, LONGEST * params.lanes)


def _random_operands(rng: np.random.Generator, shape: tuple[int, ...], *, zeros: float) -> np.ndarray:
    values = rng.integers(-128, 128, shape, np.int8)
    ends = rng.choice(np.array([-128, 127], np.int8), shape)
    values = np.where(rng.random(shape) < 0.1, ends, values)
    return values * (rng.random(shape) >= zeros)


def _joined(parts: Iterable[Arrays]) -> Arrays:
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

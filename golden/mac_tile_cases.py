"""Random jobs for a `mac-tile` and what must come out: golden vectors for any bench."""

from collections.abc import Iterable

import numpy as np

from skiptile.golden import exact
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.golden.schedule import schedule

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
    tiles = [TileJobs(a, b, params) for a, b in products]
    inputs = _joined(tile.beats(0, 1) for tile in tiles)
    beyond = np.arange(params.window_steps) >= inputs["count"][:, None]
    for name in ("a", "b"):
        inputs[name][beyond] = _random_operands(rng, inputs[name][beyond].shape, zeros=0)
    return inputs, _outputs(params, products, tiles)


def _outputs(params: MacTileParams, products: list[Product], tiles: list[TileJobs]) -> Arrays:
    effectual, ends = zip(*(tile.effectual(0, 1) for tile in tiles), strict=True)
    cycles = schedule(np.concatenate(effectual), np.concatenate(ends), params).cycles
    counters = {
        "cycles": cycles,
        "steps": np.array([tile.steps for tile in tiles]),
        "effectual": np.array([pairs.sum() for pairs in effectual]),
    }
    shape = next(field.shape for field in params.output_fields if field.name == "result")
    results = np.array([exact.matmul(a, b).T for a, b in products])
    first_rows = np.arange(0, params.rows, params.output_rows)
    return {
        "result": results.reshape(-1, *shape),
        "row": np.tile(first_rows, len(tiles)),
        "last": np.tile(first_rows == first_rows[-1], len(tiles)).astype(np.int64),
        **{name: np.repeat(values, params.result_beats) for name, values in counters.items()},
    }


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

"""Random jobs for a `mac-tile` and what must come out: golden vectors for any bench."""

from collections.abc import Iterable

import numpy as np

from skiptile.golden.exact import product
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.golden.operands import full_scale, random_operands
from skiptile.golden.schedule import Schedule, schedule

LONGEST = 24  # steps
UNEVEN_BEATS = 32  # in one reduction
ZEROS = (0, 0.3, 0.6, 0.9, 1)
SPECIALS = (0, 0, 0.05, 0.5)  # shares of NaN, infinities and the like

Arrays = dict[str, np.ndarray]
Product = tuple[np.ndarray, np.ndarray]  # a (columns, k) and b (k, rows) of one job


def random_case(params: MacTileParams, jobs: int, seed: int) -> tuple[Arrays, Arrays]:
    """Input payloads of ``jobs`` random reductions, and the output payloads that must follow.

    The first has full-scale operands throughout, the last beats without a zero and beats of zeros by turns,
    so that of two contexts one is drained fast and the other slowly. Of the others, lengths run from one
    product to some windows of steps, operands over the format's whole range with its ends favoured, zeros
    from none to all. What stands beyond a beat's ``count`` is random.

    Returns:
        Per input field an array (beats, *shape), per output field an array (beats, *shape). The stall
        counters, which depend on when beats are given and taken, are not among the outputs.
    """
    rng = np.random.default_rng(seed)
    arithmetic = params.arithmetic
    between = (_random_product(rng, params) for _ in range(jobs - 2))
    products = [_full_scale_product(params), *between, _uneven_product(rng, params)][:jobs]
    shifts = (
        rng.integers(0, arithmetic.accumulator_bits, jobs) if arithmetic.shift_bits else np.zeros(jobs, int)
    )
    inputs = _joined(
        TileJobs(a, b, params, int(shift)).beats(0, 1) for (a, b), shift in zip(products, shifts, strict=True)
    )
    beyond = np.arange(params.window_steps) >= inputs["count"][:, None]
    for name, format in (("a", arithmetic.a), ("b", arithmetic.b)):
        inputs[name][beyond] = random_operands(rng, format, inputs[name][beyond].shape, specials=0.1)
    return inputs, expected_outputs(params, inputs)[0]


def expected_outputs(params: MacTileParams, beats: Arrays) -> tuple[Arrays, Schedule]:
    """What ``beats``, input payloads as `random_case` gives them, must give, and every issue.

    From the beats alone, as their receiver understands them:
    ``acc[r][c] = sum over steps t, lanes l of a[t][c][l] * b[t][r][l]``.
    """
    place, count, last = np.arange(params.window_steps), beats["count"][:, None], beats["last"][:, None]
    counts = place < count
    a, b = beats["a"][counts], beats["b"][counts]
    ends = ((place == count - 1) & (last == 1))[counts]
    starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    pairs = params.effectual(a, b)
    scheduled = schedule(pairs, ends, params)
    counters = {
        "cycles": scheduled.cycles,
        "steps": np.add.reduceat(np.ones(len(ends), np.int64), starts),
        "effectual": np.add.reduceat(pairs.sum(axis=(1, 2)), starts),
    }
    shifts = beats["shift"][beats["last"] == 1].tolist() if "shift" in beats else [0] * len(starts)
    products = [
        product(_flattened(a[start:stop]), _flattened(b[start:stop]).T, params.arithmetic, shift)
        for start, stop, shift in zip(starts, [*starts[1:], len(ends)], shifts, strict=True)
    ]
    numbers = {"result": np.stack([each.results.T for each in products])}
    if params.arithmetic.is_float:
        numbers["flags"] = np.stack([each.flags.T for each in products])
    shapes = {field.name: field.shape for field in params.output_fields}
    first_rows = np.arange(0, params.rows, params.output_rows)
    outputs = {
        **{name: values.reshape(-1, *shapes[name]) for name, values in numbers.items()},
        "row": np.tile(first_rows, len(starts)),
        "last": np.tile(first_rows == first_rows[-1], len(starts)).astype(np.int64),
        **{name: np.repeat(values, params.result_beats) for name, values in counters.items()},
    }
    return outputs, scheduled


def _flattened(steps: np.ndarray) -> np.ndarray:
    """(steps, width, lanes) to (width, steps * lanes)."""
    return steps.transpose(1, 0, 2).reshape(steps.shape[1], -1)


def _full_scale_product(params: MacTileParams) -> Product:
    k, arithmetic = _longest(params), params.arithmetic
    a, b = full_scale(arithmetic)
    return np.full((params.columns, k), a, arithmetic.a.dtype), np.full(
        (k, params.rows), b, arithmetic.b.dtype
    )


def _uneven_product(rng: np.random.Generator, params: MacTileParams) -> Product:
    """One in two beats is all zeros: even ones in the first half, odd ones in the second."""
    beat_products = params.window_steps * params.lanes
    k, arithmetic = min(params.max_reduction, UNEVEN_BEATS * beat_products), params.arithmetic
    beat = np.arange(k) // beat_products
    full = (beat % 2 == 0) == (beat >= UNEVEN_BEATS // 2)
    a = random_operands(rng, arithmetic.a, (params.columns, k))
    b = random_operands(rng, arithmetic.b, (k, params.rows))
    return a, np.where(full[:, None], b, arithmetic.b.dtype.type(0))


def _random_product(rng: np.random.Generator, params: MacTileParams) -> Product:
    k = int(np.exp(rng.uniform(0, np.log(_longest(params) + 1))))  # short ones as often as long ones
    specials = rng.choice(SPECIALS)
    shapes = ((params.arithmetic.a, (params.columns, k)), (params.arithmetic.b, (k, params.rows)))
    a, b = (random_operands(rng, *shape, zeros=rng.choice(ZEROS), specials=specials) for shape in shapes)
    return a, b


def _longest(params: MacTileParams) -> int:
    return min(params.max_reduction, LONGEST * params.lanes)


def _joined(parts: Iterable[Arrays]) -> Arrays:
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

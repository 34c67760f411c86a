"""Random jobs for a `systolic-tile` and what must come out: golden vectors for any bench."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from skiptile.golden.exact import product
from skiptile.golden.nm import Compressed, prune
from skiptile.golden.nm import compress as compressed
from skiptile.golden.operands import full_scale, random_operands
from skiptile.golden.systolic_tile import OUTPUT, WEIGHT, SystolicTileParams, block_rows
from skiptile.golden.systolic_tile_jobs import SystolicJobs, sequence_beats

Arrays = dict[str, np.ndarray]
Generator = np.random.Generator

LONGEST = 40  # products of a reduction, or 3 blocks of K
SPECIALS = (0, 0, 0.05, 0.5)  # shares of NaN, infinities and the like


class Row(NamedTuple):
    """A row of results to come: its operands, and what tells the beat.

    Attributes:
        a: (places,), weights: parts (places', columns) that follow each other.
        shift, last: of the beat.
    """

    a: np.ndarray
    weights: tuple[int, ...]
    shift: int
    last: int


def random_case(params: SystolicTileParams, jobs: int, seed: int) -> tuple[Arrays, Arrays]:
    """Input payloads of ``jobs`` random products, and the output payloads that must follow.

    The first has full-scale operands throughout. Sizes lie below, at and above the array's; operands are
    random, of every class; what a beat's flags say is ignored is random, too.

    Returns:
        Per input field an array (beats, *shape), per output field an array (beats, *shape).
    """
    rng = np.random.default_rng(seed)
    dataflows = [dataflow for dataflow in (WEIGHT, OUTPUT) if params.has(dataflow)]
    inputs = sequence_beats(
        [_product(rng, params, str(rng.choice(dataflows)), full=index == 0) for index in range(jobs)]
    )
    _fill_ignored(rng, params, inputs)
    return inputs, expected_outputs(params, inputs)


def _product(rng: Generator, params: SystolicTileParams, dataflow: str, *, full: bool) -> SystolicJobs:
    arithmetic = params.arithmetic
    m, k, n = _random_shape(rng, params, dataflow)
    if full:
        a, b = (
            np.full(shape, pattern, format.dtype)
            for shape, pattern, format in zip(
                ((m, k), (k, n)), full_scale(arithmetic), (arithmetic.a, arithmetic.b), strict=True
            )
        )
    else:
        specials = rng.choice(SPECIALS)
        a, b = (
            random_operands(rng, format, shape, zeros=rng.choice((0, 0.3, 0.9)), specials=specials)
            for shape, format in (((m, k), arithmetic.a), ((k, n), arithmetic.b))
        )
    shift = int(rng.integers(0, arithmetic.accumulator_bits)) if arithmetic.shift_bits else 0
    return SystolicJobs(a, random_pattern(rng, b, params), params, shift, dataflow)


def _random_shape(rng: Generator, params: SystolicTileParams, dataflow: str) -> tuple[int, int, int]:
    """M, K and N around the sizes of what the array takes at once, and 1."""
    along = params.rows * params.block if dataflow == WEIGHT else params.rows
    block = min(block_rows(params, dataflow), 24)
    m = rng.choice([1, int(rng.integers(1, block + 1)), int(rng.integers(1, 2 * block + 2))])
    k = rng.choice([1, along, int(rng.integers(1, 3 * along + 2))])
    n = rng.choice([1, params.columns, int(rng.integers(1, 2 * params.columns + 2))])
    return int(m), min(int(k), LONGEST * params.block, params.max_reduction), int(n)


def random_pattern(rng: Generator, b: np.ndarray, params: SystolicTileParams) -> np.ndarray | Compressed:
    """``b`` cut to a random n of the design's m, compressed; as it is where weights are dense."""
    if params.m is None:
        return b
    n = int(rng.integers(1, params.kept + 1))
    keys = rng.random(b.shape)
    kept = np.where(prune(keys, n, params.block), b, np.zeros((), b.dtype))
    return compressed(kept, n, params.block, str(params.format_b))


def _fill_ignored(rng: Generator, params: SystolicTileParams, beats: Arrays) -> None:
    """Random values in all that a receiver must not look at."""
    count = len(next(iter(beats.values())))
    outputs = params.is_streamed(beats)
    loads = ~outputs & (_flag(beats, "load", count) == 1)
    computes = ~outputs & (_flag(beats, "compute", count) == 1)
    fresh = outputs & (_flag(beats, "fresh", count, 1) == 1)
    gives = (outputs | computes) & (beats["give"] == 1)
    ignored = {
        "a": ~(computes | fresh),
        "b": ~(outputs | loads),
        "index": ~(outputs | loads),
        **dict.fromkeys(("fresh", "pick"), ~outputs),
        **dict.fromkeys(("load", "compute", "hold"), outputs),
        "count": ~(outputs & gives),
        **dict.fromkeys(("first", "give"), ~(outputs | computes)),
        **dict.fromkeys(("last", "shift"), ~gives),
    }
    ignored["hold"] = ignored["hold"] | ~computes
    formats = {"a": params.arithmetic.a, "b": params.arithmetic.b}
    for field in params.input_fields:
        if field.name == "output_stationary":
            continue
        where = ignored[field.name]
        shape = (int(where.sum()), *field.shape)
        if field.name in formats:
            values = random_operands(rng, formats[field.name], shape, specials=0.1)
        else:
            values = rng.integers(0, 1 << field.width, shape)
        beats[field.name][where] = values


def _flag(beats: Arrays, name: str, count: int, default: int = 0) -> np.ndarray:
    return beats.get(name, np.full(count, default))


# ---- what must come out ----


def expected_outputs(params: SystolicTileParams, beats: Arrays) -> Arrays:
    """What ``beats``, input payloads as `random_case` gives them, must give.

    From the beats alone, one after the other, as `SystolicTileParams.contract` tells their receiver.
    """
    receiver = _Receiver(params)
    rows = list(receiver.rows(beats))
    arithmetic = params.arithmetic
    results = np.zeros((len(rows), params.columns), arithmetic.result_dtype)
    flags = np.zeros((len(rows), params.columns), np.int64)
    alike: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        alike.setdefault((row.weights, row.shift), []).append(index)
    for (weights, shift), indices in alike.items():
        b = np.concatenate([receiver.weights[number] for number in weights])
        given = product(np.stack([rows[index].a for index in indices]), b, arithmetic, shift)
        results[indices], flags[indices] = given.results, given.flags
    outputs = {"result": results, "last": np.array([row.last for row in rows], np.int64)}
    return {**outputs, "flags": flags} if arithmetic.is_float else outputs


class _Receiver:
    """Understands beats; weights that were used, each place of a block on its own, are kept by number."""

    def __init__(self, params: SystolicTileParams) -> None:
        self.params = params
        self.weights: list[np.ndarray] = []
        self._loaded: list[np.ndarray] = []
        self._active: tuple[int, ...] = ()
        self._row = 0
        self._held: dict[int, tuple[list[np.ndarray], tuple[int, ...]]] = {}
        self._sums: tuple[list[np.ndarray], tuple[int, ...]] = ([], ())
        self._kept: dict[int, np.ndarray] = {}

    def rows(self, beats: Arrays) -> Iterator[Row]:
        outputs = self.params.is_streamed(beats)
        for index, output in enumerate(outputs):
            beat = {name: values[index] for name, values in beats.items()}
            yield from self._output_beat(beat) if output else self._weight_beat(beat)

    def _expanded(self, beat: Arrays) -> np.ndarray:
        """The beat's weights (block, columns): each at its place, zeros elsewhere."""
        expanded = np.zeros((self.params.block, self.params.columns), beat["b"].dtype)
        index = beat["index"] if "index" in beat else np.zeros(self.params.columns, np.int64)
        expanded[index, np.arange(self.params.columns)] = beat["b"]
        return expanded

    def _use(self, weights: np.ndarray) -> int:
        self.weights.append(weights)
        return len(self.weights) - 1

    def _weight_beat(self, beat: Arrays) -> Iterator[Row]:
        if beat["compute"]:
            if beat["first"]:
                self._active = (self._use(np.concatenate(self._loaded)),)
                self._loaded, self._row = [], 0
            used = len(self.weights[self._active[0]])
            a = beat["a"].reshape(-1)[:used]  # beyond, it is zero
            held, weights = self._held.get(self._row, ([], ())) if beat["hold"] else ([], ())
            sums = ([*held, a], (*weights, *self._active))
            self._held[self._row] = sums
            self._row += 1
            if beat["give"]:
                yield self._given(sums, beat, int(beat["last"]))
        if beat["load"]:
            self._loaded.append(self._expanded(beat))

    def _output_beat(self, beat: Arrays) -> Iterator[Row]:
        self._active = ()
        a = beat["a"].reshape(self.params.rows, self.params.block)
        if "fresh" in beat:
            a = self._kept[int(beat["pick"])] if not beat["fresh"] else a
            self._kept[int(beat["pick"])] = a
        held, weights = self._sums if not beat["first"] else ([], ())
        self._sums = ([*held, a], (*weights, self._use(self._expanded(beat))))
        if beat["give"]:
            for row in range(int(beat["count"])):
                last = int(beat["last"]) if row == beat["count"] - 1 else 0
                sums = ([part[row] for part in self._sums[0]], self._sums[1])
                yield self._given(sums, beat, last)

    def _given(self, sums: tuple[list[np.ndarray], tuple[int, ...]], beat: Arrays, last: int) -> Row:
        shift = int(beat["shift"]) if "shift" in beat else 0
        return Row(np.concatenate(sums[0]), sums[1], shift, last)

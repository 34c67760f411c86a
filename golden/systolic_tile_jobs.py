"""Matrix products on a `systolic-tile`: cut into folds and beats, and put together again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skiptile.golden.counters import Counters
from skiptile.golden.exact import check_operands, count_overflow
from skiptile.golden.nm import Compressed, compress, fullest_block
from skiptile.golden.systolic_tile import (
    BOTH,
    OUTPUT,
    WEIGHT,
    SystolicTileParams,
    best_dataflow,
    block_rows,
    compressed_length,
    count_cycles,
    cut,
    job_blocks,
)
from skiptile.golden.tilewise_packed import PackedLayer

Arrays = dict[str, np.ndarray]
Weights = np.ndarray | Compressed | PackedLayer | Sequence["np.ndarray | Compressed"]
"""(K, N) patterns; compressed; tile-wise packed; or the terms of a series, whose products are added up."""


@dataclass(frozen=True, eq=False)
class Panel:
    """Weights of some columns as the elements take them: ``length`` places along the reduction.

    Attributes:
        columns: of the product, (N',).
        vectors: (length,), which activations each place multiplies: rows of ``a``'s blocks.
        values, index: (length, N'), weights and their places in the block.
    """

    columns: np.ndarray
    vectors: np.ndarray
    values: np.ndarray
    index: np.ndarray

    @property
    def size(self) -> tuple[int, int]:
        """Length of the reduction, columns."""
        return self.values.shape[0], self.values.shape[1]


class Fold(NamedTuple):
    """What the array works on at a time.

    Attributes:
        rows: of ``a``.
        panel: its weights.
        places, columns: of the panel: the part of the reduction, and of the columns.
        hold, give: whether the sums are added to held ones; are complete.
    """

    rows: slice
    panel: Panel
    places: slice
    columns: slice
    hold: bool
    give: bool


class SystolicJobs:
    """A matrix product cut into folds: for each block of M, of N and of K, the last the innermost.

    Args:
        a: raw bit patterns (M, K).
        b: the weights (K, N); dense ones obey the design's n:m along K.
        params: the tile.
        shift: of integer results.
        dataflow: one that the design has; None: the one of fewer cycles, or of the gather stage for a packed
            layer.
        lossless: a dense ``b`` need not obey n:m: it is run as the shortest series that adds up to it.

    Raises:
        TypeError: operands of another type.
        ValueError: shapes that do not fit, a reduction longer than the accumulators hold, weights or a
            dataflow that the design cannot run, a shift that is out of range.
    """

    def __init__(
        self,
        a: np.ndarray,
        b: Weights,
        params: SystolicTileParams,
        shift: int = 0,
        dataflow: str | None = None,
        *,
        lossless: bool = False,
    ) -> None:
        params.arithmetic.check_shift(shift)
        params.check_dataflow(dataflow)
        self.params, self.shift = params, shift
        self.a, self.panels = _panels(a, b, params, lossless)
        (self.m, self.k), self.n = a.shape, _width(b)
        longest = max(self.k, *(panel.size[0] for panel in self.panels), 0)
        if longest > params.max_reduction:
            raise ValueError(
                f"the reduction of K = {longest} products exceeds max_reduction = {params.max_reduction}"
            )
        sizes = [panel.size for panel in self.panels]
        if dataflow is None and isinstance(b, PackedLayer) and params.gather_depth:
            dataflow = OUTPUT  # the gather stage's
        elif dataflow is None:
            dataflow = params.dataflow if params.dataflow != BOTH else best_dataflow(params, self.m, sizes)
        self.dataflow = dataflow
        self.blocks = job_blocks(params, self.m, sizes, dataflow)

    def __len__(self) -> int:
        """Parts that `beats` gives; none where there is nothing to multiply."""
        loads = 1 if self.dataflow == WEIGHT else 0
        return len(self.folds) + loads if self.folds else 0

    @property
    def beats_per_job(self) -> int:
        """Beats of a part at most."""
        if self.dataflow == WEIGHT:
            return max(self.params.rows, *(_size(fold.rows) for fold in self.folds))
        return max(_size(fold.places) for fold in self.folds)

    @property
    def result_beats(self) -> int:
        return sum(_size(fold.rows) for fold in self.folds if fold.give)

    @property
    def counters(self) -> Counters:
        """What golden counts.

        ``cycles`` and ``elapsed`` are all clock cycles; ``steps`` those of the tile with dense weights in its
        better dataflow; ``effectual`` the products that multipliers work on, zeros among them;
        ``ideal_cycles`` what they take if every multiplier works in each cycle.
        """
        params = self.params
        cycles = count_cycles(params, self.blocks)
        dense = params.dense
        steps = count_cycles(dense, job_blocks(dense, self.m, [(self.k, self.n)]))
        effectual = self.m * sum(length * width for length, width in (panel.size for panel in self.panels))
        ideal = -(-effectual // (params.rows * params.columns))
        return Counters(
            cycles=cycles,
            steps=steps,
            effectual=effectual,
            elapsed=cycles,
            input_stalls=0,
            output_stalls=0,
            ideal_cycles=ideal,
            ideal_capped_cycles=ideal,
        )

    # ---- what is sent ----

    def beats(self, start: int, stop: int) -> Arrays:
        """Input payloads of parts ``start`` .. ``stop`` - 1, per field (beats, *shape)."""
        part = self._weight_beats if self.dataflow == WEIGHT else self._output_beats
        parts = [part(index) for index in range(start, stop)]
        return {
            field.name: np.concatenate([part[field.name] for part in parts])
            for field in self.params.input_fields
        }

    @cached_property
    def folds(self) -> list[Fold]:
        """All of them, in order."""
        params, folds, start = self.params, [], 0
        parts = cut(self.m, block_rows(params, self.dataflow))
        for count in (size for size, times in parts for _ in range(times)):
            rows = slice(start, start + count)
            start += count
            for panel in self.panels:
                length, width = panel.size
                along = params.rows if self.dataflow == WEIGHT else max(length, 1)
                for column in range(0, width, params.columns):
                    columns = slice(column, min(column + params.columns, width))
                    for place in range(0, length, along):
                        places = slice(place, min(place + along, length))
                        folds.append(Fold(rows, panel, places, columns, place > 0, places.stop == length))
        return folds

    def blank(self, beats: int) -> Arrays:
        """Payloads of zeros."""
        types = {"a": self.params.arithmetic.a.dtype, "b": self.params.arithmetic.b.dtype}
        return {
            field.name: np.zeros((beats, *field.shape), types.get(field.name, np.int64))
            for field in self.params.input_fields
        }

    def _put_weights(self, beats: Arrays, fold: Fold) -> None:
        """The fold's weights in the first beats."""
        part = (fold.places, fold.columns)
        where = (slice(_size(fold.places)), slice(_size(fold.columns)))
        beats["b"][where] = fold.panel.values[part]
        if "index" in beats:
            beats["index"][where] = fold.panel.index[part]

    def _activations(self, fold: Fold) -> np.ndarray:
        """(rows of ``a``, places, ...) that the fold multiplies."""
        picked = self.a[fold.rows][:, fold.panel.vectors[fold.places]]
        return picked if self.params.m is not None else picked[:, :, 0]

    def _weight_beats(self, part: int) -> Arrays:
        """Activations of the fold before, if any, beside the weights of the fold ``part``, if any."""
        now = self.folds[part - 1] if part else None
        following = self.folds[part] if part < len(self.folds) else None
        computed = _size(now.rows) if now else 0
        loaded = _size(following.places) if following else 0
        beats = self.blank(max(computed, loaded))
        if following:
            self._put_weights(beats, following)
            beats["load"][:loaded] = 1
        if now:
            beats["a"][:computed, : _size(now.places)] = self._activations(now)
            beats["compute"][:computed] = 1
            beats["first"][0] = 1
            beats["hold"][:computed] = now.hold
            beats["give"][:computed] = now.give
            beats["last"][computed - 1] = part == len(self.folds)
            self._put_shift(beats)
        return beats

    def _output_beats(self, part: int) -> Arrays:
        fold = self.folds[part]
        rows, length = _size(fold.rows), _size(fold.places)
        beats = self.blank(length)
        self._put_weights(beats, fold)
        activations = self._activations(fold).swapaxes(0, 1)
        if self._picks is None:
            beats["a"][:, :rows] = activations
        else:
            beats["fresh"], beats["pick"] = self._picks[part]
            fresh = beats["fresh"] == 1
            beats["a"][fresh, :rows] = activations[fresh]
        beats["first"][0] = 1
        beats["give"][-1] = 1
        beats["count"][-1] = rows
        beats["last"][-1] = part == len(self.folds) - 1
        if self.params.dataflow == BOTH:
            beats["output_stationary"][:] = 1
        self._put_shift(beats)
        return beats

    def _put_shift(self, beats: Arrays) -> None:
        if "shift" in beats:
            beats["shift"][beats["give"] == 1] = self.shift

    @cached_property
    def _picks(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """``fresh`` and ``pick`` of each fold: a block of M keeps as many vectors as there is room for.

        Vectors beyond share the last place, and are sent again each time. None where nothing is kept.
        """
        depth, picks = self.params.gather_depth, []
        if not depth or self.dataflow != OUTPUT:
            return None
        vectors = np.unique(np.concatenate([panel.vectors for panel in self.panels]))
        room = depth if len(vectors) <= depth else depth - 1
        kept: dict[int, int] = {}
        rows = None
        for fold in self.folds:
            if fold.rows != rows:
                rows, kept = fold.rows, {}
            fresh, pick = [], []
            for vector in fold.panel.vectors[fold.places].tolist():
                fresh.append(int(vector not in kept))
                if vector not in kept and len(kept) < room:
                    kept[vector] = len(kept)
                pick.append(kept.get(vector, depth - 1))
            picks.append((np.array(fresh), np.array(pick)))
        return picks

    # ---- what comes back ----

    def collect(self, outputs: Arrays, elapsed: int) -> tuple[np.ndarray, Counters]:
        """``c`` (M, N), and the counters, from all output payloads and the clock cycles that they took."""
        arithmetic = self.params.arithmetic
        c = np.zeros((self.m, self.n), arithmetic.result_dtype)
        flags = np.zeros((self.m, self.n), np.int64)
        beat = 0
        for fold in self.folds:
            if not fold.give:
                continue
            beats, width = slice(beat, beat + _size(fold.rows)), _size(fold.columns)
            beat = beats.stop
            where = (fold.rows, fold.panel.columns[fold.columns])
            c[where] = outputs["result"][beats, :width]
            if arithmetic.is_float:
                flags[where] = outputs["flags"][beats, :width]
        return c, replace(self.counters, cycles=elapsed, elapsed=elapsed, overflow=count_overflow(flags))


def sequence_beats(products: Sequence[SystolicJobs]) -> Arrays:
    """Input payloads of products that follow each other: weights are loaded beside the activations before.

    `golden.systolic_tile.sequence_cycles` tells the clock cycles that they take.
    """
    if len({product.params for product in products}) != 1:
        raise ValueError(f"products that follow each other need one tile, not {len(products)} of several")
    parts: list[Arrays] = []
    beside = 0  # beats of activations at the end, without weights
    for product in products:
        for index in range(len(product)):
            beats = product.beats(index, index + 1)
            loads = product.dataflow == WEIGHT and index == 0
            if loads and beside:
                beats = _overlaid(parts[-1], beats, beside)
            if len(beats["first"]):
                parts.append(beats)
        if len(product):
            beside = _size(product.folds[-1].rows) if product.dataflow == WEIGHT else 0
    parts = parts or [products[0].blank(0)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _overlaid(activations: Arrays, weights: Arrays, count: int) -> Arrays:
    """Put the first weights beside the last ``count`` beats of activations; returns those that are left."""
    put = min(count, len(weights["load"]))
    start = len(activations["load"]) - count
    for name in ("b", "index", "load"):
        if name in activations:
            activations[name][start : start + put] = weights[name][:put]
    return {name: values[put:] for name, values in weights.items()}


def dense_operands(a: np.ndarray, b: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays whose product is ``a @ b``: the terms of a series follow each other along K."""
    terms: list[Any] = list(b) if isinstance(b, list | tuple) else [b]
    arrays = [term if isinstance(term, np.ndarray) else term.dense() for term in terms]
    return np.concatenate([a] * len(arrays), axis=1), np.concatenate(arrays)


def count_product(a: np.ndarray, b: Weights, params: SystolicTileParams, **options: Any) -> Counters:
    """What golden counts for the product ``a @ b`` on a tile; ``options`` as of `SystolicJobs`."""
    return SystolicJobs(a, b, params, **options).counters


def quicker_side(products: Sequence[tuple[np.ndarray, np.ndarray]], params: SystolicTileParams) -> str:
    """Which operand is better the weights: "b", or "a", so that the products are transposed."""
    formats = (params.format, str(params.format_b))
    straight, turned = params, params.with_formats(*reversed(formats))
    cycles = {
        "b": sum(count_product(a, b, straight, lossless=True).cycles for a, b in products),
        "a": sum(count_product(b.T, a.T, turned, lossless=True).cycles for a, b in products),
    }
    return min(("b", "a"), key=lambda side: cycles[side])


def _size(part: slice) -> int:
    return part.stop - part.start


def _width(b: Any) -> int:
    """Columns of the weights; of a series those of its terms."""
    return int((b if hasattr(b, "shape") else b[0]).shape[1])


# ---- weights in any form ----


def _panels(
    a: np.ndarray, b: Any, params: SystolicTileParams, lossless: bool
) -> tuple[np.ndarray, list[Panel]]:
    """Activations in blocks (M, blocks, m), and the panels that multiply them."""
    if isinstance(b, PackedLayer):
        return _packed_panels(a, b, params)
    terms = list(b) if isinstance(b, list | tuple) else [b]
    wrong = [type(term).__name__ for term in terms if not isinstance(term, np.ndarray | Compressed)]
    if wrong or not terms:
        raise TypeError(
            "b must be an array, a golden.nm.Compressed, a golden.tilewise_packed.PackedLayer, or a list of "
            f"terms of the first two, not {', '.join(wrong) or 'an empty list'}"
        )
    compressed = []
    for number, term in enumerate(terms):
        _check(a, term, params)
        try:
            compressed.append(shortest(term, params) if lossless else fitted(term, params))
        except ValueError as error:
            raise ValueError(f"term {number} of the series: {error}" if len(terms) > 1 else error) from error
    if len({term.shape for term in compressed}) > 1:
        shapes = ", ".join(str(term.shape) for term in compressed)
        raise ValueError(f"the terms of a series must have one shape, not {shapes}")
    parts = [_places(term) for term in compressed]
    columns = np.arange(compressed[0].shape[1])
    panel = Panel(columns, *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return _blocks(a, params.block), [panel]


def _packed_panels(
    a: np.ndarray, b: PackedLayer, params: SystolicTileParams
) -> tuple[np.ndarray, list[Panel]]:
    """A panel for each tile of the layer; leftover elements are in them (`PackedLayer.merged`)."""
    if params.m is not None:
        raise ValueError(
            f"a tile-wise packed layer needs a design with dense weights, not n = {params.n}, m = {params.m}"
        )
    _check(a, b, params)
    panels = [
        Panel(tile.columns, tile.rows, tile.values, np.zeros(tile.values.shape, np.uint8))
        for tile in b.merged().tiles
    ]
    return _blocks(a, 1), panels


def _check(a: np.ndarray, b: Any, params: SystolicTileParams) -> None:
    """Raise unless ``a @ b`` has a meaning."""
    check_operands(a, b if isinstance(b, np.ndarray) else b.dense(), params.arithmetic)


def fitted(b: np.ndarray | Compressed, params: SystolicTileParams) -> Compressed:
    """``b`` with blocks of the design's m, and at most its n in each.

    Raises:
        ValueError: a dense ``b`` with a block of more than n non-zeros (the first is named), or a compressed
            one whose pattern does not fit for all values that it could have.
    """
    format = str(params.format_b)
    if not isinstance(b, Compressed):
        return compress(b, params.kept, params.block, format)
    kept = min(b.n, params.block) if b.m >= params.block else b.n * (params.block // b.m)
    if kept > params.kept:
        has = f"{params.n}:{params.m}" if params.m is not None else "dense weights"
        raise ValueError(
            f"{b.n}:{b.m} weights can have {kept} non-zeros in {params.block} rows; the design has {has}"
        )
    return b if b.m == params.block else compress(b.dense(), kept, params.block, format)


def shortest(b: np.ndarray | Compressed, params: SystolicTileParams) -> Compressed:
    """All of ``b`` with as many values in each of the design's blocks as its fullest one has.

    Those beyond the design's n are the further terms of a series: on this array a place is a place.
    """
    dense, format = b if isinstance(b, np.ndarray) else b.dense(), str(params.format_b)
    return compress(dense, max(1, fullest_block(dense, params.block, format)), params.block, format)


def _places(b: Compressed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Block, values and index of each place along the compressed reduction; (length,) and (length, N)."""
    length = compressed_length(b.shape[0], b.n, b.m)
    blocks = np.repeat(np.arange(b.blocks), b.n)[:length]
    values, index = (array.reshape(b.blocks * b.n, b.shape[1])[:length] for array in (b.values, b.index))
    return blocks, values, index


def _blocks(a: np.ndarray, block: int) -> np.ndarray:
    """(M, K) to (M, blocks, block), zeros behind the last."""
    padded = np.pad(a, ((0, 0), (0, -a.shape[1] % block)))
    return padded.reshape(a.shape[0], padded.shape[1] // block, block)

"""Tile-wise pruning, TW and TEW: whole columns, then rows within tiles of columns, then single elements.

Guo et al., "Accelerating Sparse DNN Models without Hardware-Support via Tile-Wise Sparsity", SC 2020, arXiv
2008.13006. What is left of a layer is packed as smaller dense products, see `golden.tilewise_packed`.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skiptile.golden.checks import check_choice, check_integer
from skiptile.golden.formats import FORMATS
from skiptile.golden.tilewise_packed import (
    MOST_COLUMNS,
    PackedLayer,
    TileProduct,
    check_finite,
    check_values_type,
    load,
    save,
)

__all__ = ["PackedLayer", "Pruned", "TileProduct", "load", "prune", "save"]

Names = dict[Any, np.ndarray]


@dataclass(frozen=True, eq=False)
class Pruned:
    """Pruned layers, by the names of the weights.

    Attributes:
        masks: (K, N), bool: which weights stay.
        packed: the weights that stay, as tiles and leftovers.
    """

    masks: dict[Any, np.ndarray]
    packed: dict[Any, PackedLayer]

    @property
    def sparsity(self) -> float:
        """Share of weights that are pruned, over all layers; 0.0 if there is none."""
        weights = sum(mask.size for mask in self.masks.values())
        pruned = sum(int(np.count_nonzero(~mask)) for mask in self.masks.values())
        return pruned / weights if weights else 0.0


def prune(
    weights: Mapping[Any, np.ndarray],
    scores: Mapping[Any, np.ndarray],
    sparsity: float,
    group: int = 128,
    restore: float = 0.0,
    *,
    format: str | None = None,
) -> Pruned:
    """Prune layers together, so that those which matter less lose more.

    1. Drop whole columns, over all layers, of the least score: L2 norm of the elements' scores / K.
    2. Cut the columns that are left in each layer, from left to right, into tiles of ``group``.
    3. Drop rows of tiles, over all tiles of all layers, of the least score: L2 norm / the tile's width.
    4. Give back the ``restore`` best pruned elements, over all layers, as single ones.

    Steps 1 and 3 each drop a share of 1 - sqrt(1 - (sparsity + restore)) of the columns, and of the rows of
    tiles, that there are then: that number, in float64, rounded half to even. Step 4 gives back ``restore``
    times the number of all elements, rounded likewise, or all that are pruned. Scores are compared exactly,
    whatever the order of additions; among equal ones the lowest index stays, and is given back: first layer,
    then column; layer, tile, row; layer, row, column. As columns differ in length and tiles in width, and
    numbers are rounded, the sparsity that is reached, `Pruned.sparsity`, is not just the one asked for.

    Args:
        weights: (K, N) of each layer: real numbers, or raw bit patterns.
        scores: (K, N) of each layer, the elements' scores, real numbers whose sign does not matter; normally
            weight * gradient of the loss by it.
        sparsity: share of weights to prune, from 0 to below 1, over all layers.
        group: columns of a tile.
        restore: 0 is TW; above 0 TEW: share of single elements to give back (0.01 in the paper).
        format: name of `golden.formats.FORMATS` if weights are its bit patterns: checks them to be finite.

    Raises:
        TypeError, ValueError: one sentence that names the layer or parameter and what is allowed.
    """
    share = 1 - math.sqrt(1 - _checked_shares(sparsity, restore))
    check_integer("group", group, 1, MOST_COLUMNS)
    weights, elements = _checked_layers(weights, scores, format)
    columns = _kept_columns(elements, share)
    tiles = {
        name: [kept[start : start + group] for start in range(0, len(kept), group)]
        for name, kept in columns.items()
    }
    blocks = _kept_rows(elements, tiles, share)
    masks = {name: _block_mask(array.shape, blocks[name]) for name, array in elements.items()}
    leftovers = _best_pruned(elements, masks, float(restore))
    packed = {
        name: PackedLayer.gather(array, blocks[name], leftovers[name], group)
        for name, array in weights.items()
    }
    return Pruned({name: masks[name] | leftovers[name] for name in masks}, packed)


# ---- the steps ----


def _kept_columns(elements: Names, share: float) -> Names:
    """Indices of the columns that stay, of each layer."""
    vectors = [array.T if array.size else np.empty((0, 1)) for array in elements.values()]
    return dict(zip(elements, _highest(vectors, share), strict=True))


def _kept_rows(
    elements: Names, tiles: dict[Any, list[np.ndarray]], share: float
) -> dict[Any, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows and columns of each layer's tiles; without those that lose all rows."""
    cut = [(name, columns) for name in tiles for columns in tiles[name]]
    kept = _highest([elements[name][:, columns] for name, columns in cut], share)
    blocks: dict[Any, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in tiles}
    for (name, columns), rows in zip(cut, kept, strict=True):
        if rows.size:
            blocks[name].append((rows, columns))
    return blocks


def _block_mask(shape: tuple[int, ...], blocks: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    mask = np.zeros(shape, bool)
    for rows, columns in blocks:
        mask[np.ix_(rows, columns)] = True
    return mask


def _best_pruned(elements: Names, masks: Names, share: float) -> Names:
    """Masks of the pruned elements to give back: ``share`` of all elements, the first among equal ones."""
    pruned = np.concatenate([elements[name][~mask] for name, mask in masks.items()])
    count = min(round(share * sum(array.size for array in elements.values())), len(pruned))
    chosen = np.zeros(len(pruned), bool)
    if count:
        least = np.partition(pruned, -count)[-count]
        chosen = pruned > least
        chosen[np.flatnonzero(pruned == least)[: count - np.count_nonzero(chosen)]] = True
    back, start = {}, 0
    for name, mask in masks.items():
        back[name] = np.zeros_like(mask)
        size = mask.size - np.count_nonzero(mask)
        back[name][~mask] = chosen[start : start + size]
        start += size
    return back


# ---- vectors of the least score ----


def _highest(groups: list[np.ndarray], share: float) -> list[np.ndarray]:
    """Indices of what stays when ``share`` of all groups' vectors, which are rows, are dropped."""
    sizes = [len(vectors) for vectors in groups]
    stay = np.ones(sum(sizes), bool)
    stay[_lowest(groups, round(share * len(stay)))] = False
    return [np.flatnonzero(part) for part in np.split(stay, np.cumsum(sizes)[:-1])] if sizes else []


def _lowest(groups: list[np.ndarray], count: int) -> np.ndarray:
    """Indices, over all groups, of the ``count`` vectors of least L2 norm / length, the last of equal ones.

    Bounds in float64 decide about all but those close to the cut; these are compared as fractions.
    """
    if count == 0:
        return np.zeros(0, np.int64)
    low, high = _bounds(groups)
    cut_low, cut_high = (np.partition(bound, count - 1)[count - 1] for bound in (low, high))
    surely = np.flatnonzero(high < cut_low)
    close = np.flatnonzero((high >= cut_low) & (low <= cut_high))
    wanted = count - len(surely)
    if wanted < len(close):
        starts = np.cumsum([0, *(len(vectors) for vectors in groups)])
        places = np.searchsorted(starts, close, side="right") - 1
        exact = {
            index: _squared_score(groups[place][index - starts[place]])
            for index, place in zip(close.tolist(), places.tolist(), strict=True)
        }
        close = np.array(sorted(exact, key=lambda index: (exact[index], -index))[:wanted], np.int64)
    return np.concatenate([surely, close])


def _bounds(groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Below and above the squared score of each vector, in units of the greatest element's power of two."""
    exponent = np.frexp(max(vectors.max(initial=0.0) for vectors in groups))[1]
    low, high = [], []
    for vectors in groups:
        length = vectors.shape[1]
        scaled = np.ldexp(vectors, -exponent)
        squared = np.einsum("ij,ij->i", scaled, scaled) / float(length) ** 2
        error = squared * ((length + 4) * 2.0**-52) + length * 2.0**-1022  # of any order; of underflow
        low.append(squared - error)
        high.append(squared + error)
    return np.concatenate(low), np.concatenate(high)


def _squared_score(vector: np.ndarray) -> Fraction:
    """(L2 norm / length)^2, exact."""
    values, counts = np.unique(vector, return_counts=True)
    fractions, exponents = np.frexp(values)
    significands, least = np.ldexp(fractions, 53).astype(np.int64), int(exponents.min())
    total = sum(
        times * (significand << exponent - least) ** 2
        for times, significand, exponent in zip(
            counts.tolist(), significands.tolist(), exponents.tolist(), strict=True
        )
    )
    return total * Fraction(4) ** (least - 53) / len(vector) ** 2


# ---- checks ----


def _checked_shares(sparsity: object, restore: object) -> float:
    """Their sum: what to prune before elements are given back."""
    values = []
    for name, value in (("sparsity", sparsity), ("restore", restore)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
            raise TypeError(f"{name} must be a number from 0 to below 1, not {value!r}")
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be a number from 0 to below 1, not {value!r}")
        values.append(float(value))
    if sum(values) >= 1:
        raise ValueError(f"sparsity + restore must be below 1, not {sparsity!r} + {restore!r}")
    return sum(values)


def _checked_layers(
    weights: Mapping[Any, Any], scores: Mapping[Any, Any], format: str | None
) -> tuple[Names, Names]:
    """Weights, and magnitudes of the scores in float64."""
    if format is not None:
        check_choice("format", format, FORMATS)
    for what, layers in (("weights", weights), ("scores", scores)):
        if not isinstance(layers, Mapping):
            raise TypeError(f"{what} must be a dictionary of arrays by layer, not {type(layers).__name__}")
    if not weights:
        raise ValueError("weights must hold at least one layer, not none")
    for first, second, what in ((weights, scores, "weights"), (scores, weights, "scores")):
        for name in first:
            if name not in second:
                raise ValueError(
                    f"weights and scores must have the same layers, but {name!r} is in {what} only"
                )
    checked = {name: _checked_weights(name, array, format) for name, array in weights.items()}
    elements = {name: _magnitudes(name, scores[name], checked[name].shape) for name in checked}
    return checked, elements


def _checked_weights(name: Hashable, array: Any, format: str | None) -> np.ndarray:
    what = f"weights of layer {name!r}"
    array = _matrix(what, array)
    check_values_type(what, array)
    if format is None:
        check_finite(what, array)
        return array
    try:
        values = FORMATS[format].decode(array)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} must be {format} bit patterns: {error}") from error
    check_finite(what, values)
    return array


def _magnitudes(name: Hashable, array: Any, shape: tuple[int, ...]) -> np.ndarray:
    what = f"scores of layer {name!r}"
    array = _matrix(what, array)
    if array.shape != shape:
        raise ValueError(
            f"weights and scores of layer {name!r} must have the same shape, not {shape} and {array.shape}"
        )
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise TypeError(f"{what} must be real numbers of at most 64 bits, not {array.dtype}")
    check_finite(what, array)
    magnitudes = np.abs(array.astype(np.float64))
    if array.dtype.kind in "iu" and magnitudes.max(initial=0) >= 1 << 53:
        raise ValueError(f"{what} must be below 2^53 if they are integers, for float64 to hold them")
    return magnitudes


def _matrix(what: str, array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{what} must be an array of shape (K, N), not {type(array).__name__}")
    if array.ndim != 2:
        raise ValueError(f"{what} must be an array of shape (K, N), not of shape {array.shape}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)

"""The packed form of tile-wise pruned weights: small dense products, leftover elements, and their files."""

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skiptile.golden.checks import check_integer
from skiptile.golden.files import write_atomically

VERSION = 1  # of files
MOST_COLUMNS = (1 << 31) - 1  # of a tile
LEFTOVERS = ("leftover_rows", "leftover_columns", "leftover_values")
ARRAYS = ("shape", "group", "tile_sizes", "rows", "columns", "values", *LEFTOVERS)


class Tile(NamedTuple):
    """A dense part of a layer.

    Attributes:
        rows, columns: indices into the layer, int64, increasing.
        values: (rows, columns), the weights there.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray


class TileProduct(NamedTuple):
    """One small dense product: ``c[:, columns] += a @ b``."""

    a: np.ndarray
    b: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True, eq=False)
class PackedLayer:
    """What is left of a layer's weights (K, N): tiles without common columns, and elements outside of them.

    Parameters:
        shape: (K, N).
        group: columns of a tile at most.
        tiles: each of one row and one column or more.
        leftover_rows, leftover_columns: int64, where the leftover elements stand, by row, then column.
        leftover_values: their weights; its dtype is that of all values.

    Raises:
        TypeError, ValueError: what does not fit; the message begins with the parameter's or array's name.
    """

    shape: tuple[int, int]
    group: int
    tiles: tuple[Tile, ...]
    leftover_rows: np.ndarray
    leftover_columns: np.ndarray
    leftover_values: np.ndarray

    def __post_init__(self) -> None:
        _check_shape(self.shape)
        check_integer("group", self.group, 1, MOST_COLUMNS)
        _check_leftovers(self)
        for number, tile in enumerate(self.tiles):
            _check_tile(f"of tile {number}", tile, self)
        _check_disjoint(self)

    @classmethod
    def gather(
        cls,
        weights: np.ndarray,
        blocks: list[tuple[np.ndarray, np.ndarray]],
        leftovers: np.ndarray,
        group: int,
    ) -> "PackedLayer":
        """The packed form of ``weights`` (K, N).

        Args:
            blocks: rows and columns of each tile.
            leftovers: (K, N), bool: which elements are left over.
        """
        rows, columns = np.nonzero(leftovers)
        tiles = tuple(Tile(*block, weights[np.ix_(*block)]) for block in blocks)
        k, n = weights.shape
        return cls((k, n), group, tiles, rows, columns, weights[rows, columns])

    @property
    def dtype(self) -> np.dtype:
        """Of the weights."""
        return self.leftover_values.dtype

    def dense(self) -> np.ndarray:
        """The weights (K, N), zero where they are pruned."""
        weights = np.zeros(self.shape, self.dtype)
        for tile in self.tiles:
            weights[np.ix_(tile.rows, tile.columns)] = tile.values
        weights[self.leftover_rows, self.leftover_columns] = self.leftover_values
        return weights

    def products(self, a: np.ndarray) -> Iterator[TileProduct]:
        """Dense products whose results, added into columns of zeros (M, N), are ``a @ self.dense()``.

        One for each tile, no two of which meet in a column; then one of the leftovers, if there are any,
        which adds to columns already produced. Sums of integers and of raw accumulators are exact so; floats
        would be rounded twice: take the products of `merged`.

        Args:
            a: (M, K).

        Raises:
            ValueError: another shape.
        """
        if np.ndim(a) != 2 or np.shape(a)[1] != self.shape[0]:
            raise ValueError(f"a must have shape (M, {self.shape[0]}), not {np.shape(a)}")
        tiles = list(self.tiles)
        if self.leftover_rows.size:
            tiles.append(self._with_leftovers(self._empty_tile(np.unique(self.leftover_columns))))
        return (TileProduct(a[:, tile.rows], tile.values, tile.columns) for tile in tiles)

    def merged(self) -> "PackedLayer":
        """The same weights without leftovers: each column comes from one product, so floats are exact too.

        A tile's rows are extended by those of the leftovers in its columns, with zeros beside them; the
        leftovers in other columns become tiles of their own, of ``group`` columns or fewer.
        """
        taken = [tile.columns for tile in self.tiles]
        others = np.setdiff1d(self.leftover_columns, np.concatenate([np.zeros(0, np.int64), *taken]))
        tiles = [
            *self.tiles,
            *(self._empty_tile(others[k : k + self.group]) for k in range(0, len(others), self.group)),
        ]
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, self.dtype))
        return PackedLayer(self.shape, self.group, tuple(map(self._with_leftovers, tiles)), *none)

    def _empty_tile(self, columns: np.ndarray) -> Tile:
        return Tile(np.zeros(0, np.int64), columns, np.zeros((0, len(columns)), self.dtype))

    def _with_leftovers(self, tile: Tile) -> Tile:
        """The tile with the leftovers in its columns."""
        here = np.isin(self.leftover_columns, tile.columns)
        rows = np.union1d(tile.rows, self.leftover_rows[here])
        values = np.zeros((len(rows), len(tile.columns)), self.dtype)
        values[np.searchsorted(rows, tile.rows)] = tile.values
        places = np.searchsorted(tile.columns, self.leftover_columns[here])
        values[np.searchsorted(rows, self.leftover_rows[here]), places] = self.leftover_values[here]
        return Tile(rows, tile.columns, values)


# ---- checks ----


def check_values_type(what: str, values: np.ndarray) -> None:
    """Raise unless weights are real numbers of at most 64 bits, or bit patterns."""
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise TypeError(
            f"{what} must be real numbers of at most 64 bits, or bit patterns, not {values.dtype}"
        )


def check_finite(what: str, values: np.ndarray) -> None:
    """Raise, saying how many and where the first, if there are NaN or infinities."""
    bad = ~np.isfinite(values)
    if bad.any():
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
        raise ValueError(
            f"{what} must be finite, but {np.count_nonzero(bad)} of {bad.size} are NaN or infinite, "
            f"the first at index {first}"
        )


def _check_shape(shape: object) -> None:
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise TypeError(f"shape must be (K, N), not {shape!r}")
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError(f"shape must be two integers of 0 or more, not {shape!r}")


def _check_tile(where: str, tile: Tile, layer: PackedLayer) -> None:
    for name, indices, limit in zip(("rows", "columns"), tile[:2], layer.shape, strict=True):
        _check_indices(f"{name} {where}", indices, limit)
        if not indices.size:
            raise ValueError(f"{name} {where} must be one or more, not none")
        if (np.diff(indices) <= 0).any():
            raise ValueError(f"{name} {where} must be increasing, none of them twice")
    if len(tile.columns) > layer.group:
        raise ValueError(f"columns {where} must be at most group = {layer.group}, not {len(tile.columns)}")
    _check_values(f"values {where}", tile.values, (len(tile.rows), len(tile.columns)), layer.dtype)


def _check_leftovers(layer: PackedLayer) -> None:
    rows, columns = layer.leftover_rows, layer.leftover_columns
    _check_indices("leftover_rows", rows, layer.shape[0])
    _check_indices("leftover_columns", columns, layer.shape[1])
    if len(rows) != len(columns):
        raise ValueError(
            f"leftover_columns must be as many as leftover_rows, not {len(columns)} for {len(rows)}"
        )
    same, down = np.diff(rows) == 0, np.diff(rows) < 0
    if (down | same & (np.diff(columns) <= 0)).any():
        raise ValueError("leftover_rows must be sorted, with leftover_columns increasing within each row")
    dtype = getattr(layer.leftover_values, "dtype", None)
    _check_values("leftover_values", layer.leftover_values, (len(rows),), dtype)


def _check_disjoint(layer: PackedLayer) -> None:
    """No column in two tiles, no leftover in a tile."""
    owners: dict[int, int] = {}
    for number, tile in enumerate(layer.tiles):
        for column in tile.columns.tolist():
            if column in owners:
                raise ValueError(
                    f"columns of tile {number} must not be those of another, but {column} is in tile "
                    f"{owners[column]} too"
                )
            owners[column] = number
        inside = np.isin(layer.leftover_rows, tile.rows) & np.isin(layer.leftover_columns, tile.columns)
        if inside.any():
            row, column = int(layer.leftover_rows[inside][0]), int(layer.leftover_columns[inside][0])
            raise ValueError(
                f"leftover_rows must not meet a tile's elements, but ({row}, {column}) is in tile {number}"
            )


def _check_indices(what: str, indices: object, limit: int) -> None:
    if not isinstance(indices, np.ndarray) or indices.dtype != np.int64 or indices.ndim != 1:
        raise TypeError(f"{what} must be a list of int64, not {_described(indices)}")
    bad = indices[(indices < 0) | (indices >= limit)]
    if bad.size:
        raise ValueError(f"{what} must be from 0 to below {limit}, not {int(bad[0])}")


def _check_values(what: str, values: object, shape: tuple[int, ...], dtype: np.dtype | None) -> None:
    if not isinstance(values, np.ndarray) or values.shape != shape:
        raise ValueError(f"{what} must be an array of shape {shape}, not {_described(values)}")
    check_values_type(what, values)
    if values.dtype != dtype:
        raise TypeError(f"{what} must be {dtype}, as leftover_values are, not {values.dtype}")
    check_finite(what, values)


def _described(array: object) -> str:
    if isinstance(array, np.ndarray):
        return f"an array of {array.dtype} of shape {array.shape}"
    return type(array).__name__


# ---- files ----


def save(path: str | os.PathLike[str], packed: Mapping[str, PackedLayer]) -> None:
    """Write layers to a .npz file, which appears whole or not at all.

    Raises:
        TypeError, ValueError: what is no such dictionary.
        OSError: the file cannot be written; nothing is left of it, and an older one stays.
    """
    for name, layer in packed.items():
        if not isinstance(name, str) or not isinstance(layer, PackedLayer):
            raise TypeError(f"packed must hold PackedLayer by names, not {name!r}: {type(layer).__name__}")
        if not name or "\0" in name:
            raise ValueError(
                f"packed must name layers by one or more characters, none of them NUL, not {name!r}"
            )
    arrays = {"version": np.array(VERSION, np.int64), "layers": np.array(list(packed), np.str_)}
    for number, layer in enumerate(packed.values()):
        arrays |= {f"{number}.{name}": array for name, array in _arrays(layer).items()}
    file = io.BytesIO()
    np.savez(file, **arrays)  # pyright: ignore
    write_atomically(Path(path), file.getvalue())


def load(path: str | os.PathLike[str]) -> dict[str, PackedLayer]:
    """The layers that `save` wrote. The file is data: nothing in it is run, and everything is checked.

    Raises:
        ValueError: one sentence that names the file, the array and what is wrong.
        OSError: the file cannot be read.
    """
    arrays = _read(Path(path))
    try:
        return {name: _layer(number, arrays) for number, name in enumerate(_names(arrays))}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _arrays(layer: PackedLayer) -> dict[str, np.ndarray]:
    """A layer as the arrays of `ARRAYS`; those of all tiles one after the other."""
    sizes = [tile.values.shape for tile in layer.tiles]
    joined = {
        name: np.concatenate([np.zeros(0, dtype), *(getattr(tile, name).ravel() for tile in layer.tiles)])
        for name, dtype in (("rows", np.int64), ("columns", np.int64), ("values", layer.dtype))
    }
    return {
        "shape": np.array(layer.shape, np.int64),
        "group": np.array(layer.group, np.int64),
        "tile_sizes": np.array(sizes, np.int64).reshape(-1, 2),
        **joined,
        **{name: getattr(layer, name) for name in LEFTOVERS},
    }


def _read(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()  # an unreadable file is the system's error, a broken one ours
    try:
        if not zipfile.is_zipfile(io.BytesIO(data)):
            raise ValueError("not a zip archive")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays: dict[str, Any] = {name: archive[name] for name in archive.files}
    except (
        Exception
    ) as error:  # a broken archive raises what it likes, an array's impossible size MemoryError
        raise ValueError(f"{path}: not a readable .npz file of plain arrays ({error})") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # a member that is none is given as bytes
            raise ValueError(f"{path}: array {name!r} must be one of NumPy's, not other data")
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}


def _names(arrays: dict[str, np.ndarray]) -> list[str]:
    """The layers' names, after checking that the file holds what belongs to them, and no more."""
    if "version" not in arrays:
        raise ValueError("array 'version' is missing: not a file of packed layers")
    if not np.array_equal(arrays["version"], VERSION):
        raise ValueError(f"array 'version' must be {VERSION}, not {arrays['version'].tolist()!r}")
    layers = arrays.get("layers")
    if layers is None or layers.dtype.kind != "U" or layers.ndim != 1:
        raise ValueError(f"array 'layers' must be a list of names, not {_described(layers)}")
    names = layers.tolist()
    if len(set(names)) < len(names) or "" in names:
        raise ValueError(f"array 'layers' must hold names that differ, not {names!r}")
    wanted = ["version", "layers", *(f"{number}.{name}" for number in range(len(names)) for name in ARRAYS)]
    for name in wanted:
        if name not in arrays:
            raise ValueError(f"array {name!r} is missing")
    for name in sorted(arrays.keys() - wanted):
        raise ValueError(f"array {name!r} is unknown: {len(names)} layers have none of that name")
    return names


def _layer(number: int, arrays: dict[str, np.ndarray]) -> PackedLayer:
    parts = {name: arrays[f"{number}.{name}"] for name in ARRAYS}
    try:
        for name, shape in (("shape", (2,)), ("group", ())):
            _check_integers(name, parts[name], shape)
        tiles = _tiles(parts)
        k, n = parts["shape"].tolist()
        return PackedLayer((k, n), parts["group"].item(), tiles, *(parts[name] for name in LEFTOVERS))
    except (TypeError, ValueError) as error:  # which begins with the name of the array
        raise ValueError(f"array {number}.{error}") from error


def _tiles(parts: dict[str, np.ndarray]) -> tuple[Tile, ...]:
    sizes = parts["tile_sizes"]
    _check_integers("tile_sizes", sizes, (len(sizes) if sizes.ndim else 0, 2))
    pairs = [(rows, columns) for rows, columns in sizes.tolist()]  # whose sums and products cannot overflow
    if any(min(pair) < 1 for pair in pairs):
        raise ValueError("tile_sizes must be one or more")
    counts = {
        "rows": [rows for rows, _ in pairs],
        "columns": [columns for _, columns in pairs],
        "values": [rows * columns for rows, columns in pairs],
    }
    for name, each in counts.items():
        if parts[name].shape != (sum(each),):
            raise ValueError(f"{name} must have shape ({sum(each)},) for its tiles, not {parts[name].shape}")
    if not pairs:
        return ()
    split = (np.split(parts[name], np.cumsum(each)[:-1]) for name, each in counts.items())
    return tuple(
        Tile(rows, columns, values.reshape(len(rows), len(columns)))
        for rows, columns, values in zip(*split, strict=True)
    )


def _check_integers(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.dtype != np.int64 or array.shape != shape:
        raise ValueError(f"{name} must be int64 of shape {shape}, not {_described(array)}")

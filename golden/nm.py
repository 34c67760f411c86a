"""N:M structured sparsity: at most n non-zeros in every block of m consecutive places of the reduction.

An array whose multipliers each take one of m activations holds a weight (K, N) as `Compressed`: n values and
their places per block. ``docs/structured-sparsity.md`` shows the layout.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numba
import numpy as np

from skiptile.golden.checks import check_choice
from skiptile.golden.formats import FORMATS, FloatFormat, Format

__all__ = [
    "LARGEST_BLOCK",
    "Compressed",
    "check_pattern",
    "compress",
    "format_named",
    "fullest_block",
    "is_pattern",
    "magnitudes",
    "obeys",
    "prune",
    "select",
]

LARGEST_BLOCK = 16
DTYPES = tuple(sorted({format.dtype for format in FORMATS.values()}, key=str))


@dataclass(frozen=True, eq=False)
class Compressed:
    """A weight matrix (K, N) of which every block of ``m`` rows and one column holds at most ``n`` non-zeros.

    Block i is rows i*m .. i*m + m-1; where m does not divide K, rows of zeros follow the last one. Within a
    block places increase, so none repeats; a block with fewer non-zeros has zero values at places of its own.
    ``compress`` puts those at the lowest free places; any others are as good.

    Parameters:
        n, m: values and places of a block, 1 <= n <= m, m a power of two up to 16.
        shape: (K, N) of the matrix.
        values: (ceil(K / m), n, N), raw bit patterns of a format of ``golden.formats``.
        index: of the same shape, uint8: each value's place in its block, 0 .. m-1.

    Raises:
        TypeError, ValueError: anything else, and a value other than zero (the pattern of all zeros) in a row
            that the matrix does not have.
    """

    n: int
    m: int
    shape: tuple[int, int]
    values: np.ndarray
    index: np.ndarray

    def __post_init__(self) -> None:
        check_pattern(self.n, self.m)
        _check_shape(self.shape)
        stored = (self.blocks, self.n, self.shape[1])
        _check_array("values", self.values, DTYPES, stored, self.shape)
        _check_array("index", self.index, (np.dtype(np.uint8),), stored, self.shape)
        self._check_index()
        self._check_beyond()

    @property
    def blocks(self) -> int:
        """Blocks of a column."""
        return -(-self.shape[0] // self.m)

    def dense(self) -> np.ndarray:
        """The matrix, (K, N), of the values' type."""
        rows, columns = self.shape
        padded = np.zeros((self.blocks, self.m, columns), self.values.dtype)
        np.put_along_axis(padded, self.index.astype(np.intp), self.values, axis=1)
        return padded.reshape(self.blocks * self.m, columns)[:rows]

    def _check_index(self) -> None:
        beyond = self.index >= self.m
        if beyond.any():
            first = _first(beyond)
            raise ValueError(
                f"index must be 0 to {self.m - 1}, as m = {self.m}, not {self.index[first]} at {list(first)}"
            )
        falling = np.any(self.index[:, 1:] <= self.index[:, :-1], axis=1)
        if np.any(falling):
            block, column = _first(falling)
            raise ValueError(
                f"index must increase strictly within a block, not be "
                f"{self.index[block, :, column].tolist()} in block {block} of column {column}"
            )

    def _check_beyond(self) -> None:
        rows = np.arange(self.blocks)[:, None, None] * self.m + self.index
        stray = (rows >= self.shape[0]) & (self.values != 0)
        if stray.any():
            first = _first(stray)
            raise ValueError(
                f"values must be zero beyond the {self.shape[0]} rows of shape, not {self.values[first]} at "
                f"{list(first)}, which is row {rows[first]}"
            )


def compress(b: np.ndarray, n: int, m: int, format: str) -> Compressed:
    """``b`` (K, N), raw bit patterns, without its zeros; of both zeros of a float ``dense`` gives back +0.

    Raises:
        TypeError: patterns of another type than the format's.
        ValueError: n and m, a format or a shape that cannot be; a block of more than n non-zeros: names the
            first, block by block, then column by column.
    """
    nonzero = _nonzero(b, n, m, format)
    _check_obeys(nonzero, n, m, len(b))
    blocks, columns = len(nonzero) // m, nonzero.shape[1]
    # Non-zeros first, then the lowest free places: the n largest of a mask, ties to the lowest index.
    chosen = select(nonzero.view(np.uint8), [(n, m)], zeros=True).T
    index = (np.flatnonzero(chosen) % m).astype(np.uint8).reshape(columns, blocks, n).transpose(1, 2, 0)
    padded = np.zeros(nonzero.shape, b.dtype)
    padded[: len(b)] = b
    padded[~nonzero] = 0
    values = np.take_along_axis(padded.reshape(blocks, m, columns), index.astype(np.intp), axis=1)
    return Compressed(n, m, b.shape, values, np.ascontiguousarray(index))


def obeys(b: np.ndarray, n: int, m: int, format: str) -> bool:
    """Whether no block of m consecutive rows of ``b`` (K, N), raw bit patterns, has over n non-zeros."""
    return not (_counts(_nonzero(b, n, m, format), m) > n).any()


def fullest_block(b: np.ndarray, m: int, format: str) -> int:
    """The most non-zeros in a block of m consecutive rows of ``b`` (K, N), raw bit patterns."""
    return int(_counts(_nonzero(b, 1, m, format), m).max(initial=0))


def prune(weights: np.ndarray, n: int, m: int) -> np.ndarray:
    """Which ``weights`` to keep: the n of largest magnitude in every block of m along axis 0.

    Ties go to the lowest index. A block has exactly n of them, be they zeros; one that the end of the axis
    cuts to fewer than n keeps all.

    Args:
        weights: real numbers or integers, of at least one dimension; infinities are the largest.

    Returns:
        Booleans of the weights' shape.

    Raises:
        TypeError: something else than numbers of at most 64 bits.
        ValueError: NaN; says how many, and where the first.
    """
    check_pattern(n, m)
    return select(magnitudes(weights, name="weights"), [(n, m)], zeros=True) != 0


def is_pattern(n: object, m: object) -> bool:
    """Whether n of m can be: integers, 1 <= n <= m, m a power of two up to `LARGEST_BLOCK`."""
    return _is_integer(n) and _is_block(m) and 1 <= n <= m  # type: ignore[operator]


def check_pattern(n: int, m: int) -> None:
    """Raise unless `is_pattern`."""
    for name, value in (("n", n), ("m", m)):
        if not _is_integer(value):
            raise TypeError(f"{name} must be an integer, not {value!r}")
    if not _is_block(m):
        raise ValueError(f"m must be a power of two from 1 to {LARGEST_BLOCK}, not {m}")
    if not 1 <= n <= m:
        raise ValueError(f"n must be from 1 to m = {m}, not {n}")


def format_named(name: str) -> Format:
    """The format of that name, or a sentence with all names."""
    check_choice("format", name, FORMATS)
    return FORMATS[name]


# ---- the largest of each block ----


def magnitudes(tensor: np.ndarray, format: str | None = None, *, name: str = "tensor") -> np.ndarray:
    """Unsigned integers in the order of the entries' magnitudes, equal for equal ones; 0 for both zeros.

    Those of integers are the magnitudes themselves, also of the smallest integer.

    Args:
        tensor: of at least one dimension; real numbers, or with ``format`` raw bit patterns.
        name: what errors call it.

    Raises:
        TypeError: something else than numbers of at most 64 bits, or than the format's patterns.
        ValueError: no dimension; NaN: says how many, and where the first.
    """
    tensor = np.asarray(tensor)
    if tensor.ndim == 0:
        raise ValueError(f"{name} must have at least one dimension")
    if format is not None:
        found = format_named(format)
        found.is_zero(tensor)  # raises what is wrong with the patterns
        if isinstance(found, FloatFormat):
            _check_no_nan(found.is_nan(tensor), name)
            return tensor & np.array((1 << found.bits - 1) - 1, tensor.dtype)
    if tensor.dtype.kind not in "biuf" or tensor.dtype.itemsize > 8:
        raise TypeError(f"{name} must hold real numbers of at most 64 bits, not {tensor.dtype}")
    tensor = tensor.astype(tensor.dtype.newbyteorder("="), copy=False)
    bits = tensor.view(f"u{tensor.dtype.itemsize}")
    if tensor.dtype.kind == "f":
        _check_no_nan(np.isnan(tensor), name)
        return bits & np.array(np.iinfo(bits.dtype).max >> 1, bits.dtype)
    return np.where(tensor < 0, np.negative(bits), bits)


def select(
    magnitudes: np.ndarray, series: Iterable[tuple[int, int]], axis: int = 0, *, zeros: bool = False
) -> np.ndarray:
    """Who takes what: term after term takes the n largest of every block of m that earlier ones left.

    Args:
        magnitudes: unsigned integers, of at least one dimension.
        series: pairs (n, m).
        axis: along which blocks lie; the last one may be shorter.
        zeros: take zeros as well, after all others.

    Returns:
        uint8 of the same shape: the number of the term, from 1, that takes an entry; 0 for what stays.
        16 terms leave no non-zero, so no greater number occurs unless zeros are taken.
    """
    moved = np.moveaxis(magnitudes, axis, -1)
    rows = np.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    owner = np.zeros(rows.shape, np.uint8)
    for term, (n, m) in enumerate(series, 1):
        _select(rows, n, m, term, zeros, owner)
    return np.moveaxis(owner.reshape(moved.shape), -1, axis)


@numba.njit(cache=True)
def _select(rows, n, m, term, zeros, owner):
    length = rows.shape[1]
    for row in range(rows.shape[0]):
        for start in range(0, length, m):
            stop = min(start + m, length)
            for _ in range(n):
                best = -1
                for place in range(start, stop):
                    if owner[row, place] == 0 and (best < 0 or rows[row, place] > rows[row, best]):
                        best = place
                if best < 0 or (rows[row, best] == 0 and not zeros):
                    break
                owner[row, best] = term


# ---- checks ----


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_block(m: object) -> bool:
    return _is_integer(m) and 1 <= m <= LARGEST_BLOCK and m & m - 1 == 0  # type: ignore[operator]


def _first(where: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))


def _check_no_nan(nan: np.ndarray, name: str) -> None:
    if nan.any():
        raise ValueError(
            f"{name} must hold no NaN, but {np.count_nonzero(nan)} of its {nan.size} values are, the first "
            f"at index {_first(nan)}"
        )


def _check_shape(shape: tuple[int, int]) -> None:
    if not isinstance(shape, tuple) or not all(_is_integer(size) for size in shape):
        raise TypeError(f"shape must be a tuple (K, N) of integers, not {shape!r}")
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"shape must be (K, N), both at least 0, not {shape}")


def _check_array(
    name: str, array: np.ndarray, dtypes: Iterable[np.dtype], stored: tuple[int, ...], shape: tuple[int, int]
) -> None:
    if not isinstance(array, np.ndarray) or array.dtype not in dtypes:
        found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"{name} must be an array of {' or '.join(map(str, dtypes))}, not {found}")
    if array.shape != stored:
        raise ValueError(
            f"{name} must have shape (blocks, n, N) = {stored}, as the matrix has {shape}, not {array.shape}"
        )


def _nonzero(b: np.ndarray, n: int, m: int, format: str) -> np.ndarray:
    """Which entries of ``b``, zero rows up to a multiple of m added, are none of the format's zeros."""
    check_pattern(n, m)
    zero = format_named(format).is_zero(b)
    if zero.ndim != 2:
        raise ValueError(f"b must have shape (K, N), not {zero.shape}")
    return np.pad(~zero, ((0, -len(zero) % m), (0, 0)))


def _counts(nonzero: np.ndarray, m: int) -> np.ndarray:
    return nonzero.reshape(len(nonzero) // m, m, nonzero.shape[1]).sum(axis=1, dtype=np.uint8)


def _check_obeys(nonzero: np.ndarray, n: int, m: int, rows: int) -> None:
    counts = _counts(nonzero, m)
    if (counts > n).any():
        block, column = _first(counts > n)
        raise ValueError(
            f"b must have at most {n} non-zeros in {m} rows, not {counts[block, column]} as in rows "
            f"{block * m} to {min(block * m + m, rows) - 1} of column {column}"
        )

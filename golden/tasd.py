"""TASD: a tensor as a series of N:M-sparse ones (Jeong et al., MLSys 2025, arXiv 2403.07953).

``A ~ A1 + A2 + ...``: term i keeps, in every block of m_i consecutive entries along the reduction, the n_i of
largest magnitude of what the earlier terms left. (A1 + A2) B = A1 B + A2 B, so every term is an N:M product
into the same accumulators. Series are lists of (n, m). Throughout, an infinity is the largest magnitude, NaN
an error, and zeros, -0 among them, are never kept: they stay in the residue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from skiptile.golden.checks import check_integer
from skiptile.golden.nm import LARGEST_BLOCK, format_named, is_pattern, magnitudes, select

__all__ = [
    "Choice",
    "Kept",
    "Series",
    "checked",
    "cost",
    "decompose",
    "kept",
    "lossless",
    "merged",
    "search",
    "search_accuracy",
    "unit",
]

Series = tuple[tuple[int, int], ...]
"""As `checked` gives it; any sequence of pairs is taken."""
Choice = dict[str, Series | None]
"""Each layer's series; None: it stays dense."""
SMALLEST = 5e-324  # share of magnitude that is dropped where float64 would say none


@dataclass(frozen=True)
class Kept:
    """What a series keeps of a tensor, as shares of 1.

    Attributes:
        nonzeros: of the number of non-zeros; None if there are none.
        magnitude: of the sum of magnitudes; None if that is zero or infinite.
    """

    nonzeros: float | None
    magnitude: float | None


def checked(series: Any, name: str = "series") -> Series:
    """The series as a tuple of pairs.

    Raises:
        TypeError: no sequence.
        ValueError: no terms; a term that is no (n, m) with 1 <= n <= m and m a power of two up to 16.
    """
    if not isinstance(series, Sequence) or isinstance(series, str):
        raise TypeError(f"{name} must be a list of pairs (n, m), not {series!r}")
    if not series:
        raise ValueError(f"{name} must have at least one term (n, m)")
    for place, term in enumerate(series):
        pair = isinstance(term, Sequence) and len(term) == 2
        if not pair or not is_pattern(*term):
            raise ValueError(
                f"{name}[{place}] must be (n, m) with 1 <= n <= m and m a power of two up to "
                f"{LARGEST_BLOCK}, not {term!r}"
            )
    return tuple((n, m) for n, m in series)


def cost(series: Any) -> Fraction:
    """Multiplications per one of the dense product: the sum of n / m over the terms."""
    return sum((Fraction(n, m) for n, m in checked(series)), Fraction(0))


def merged(series: Any) -> Series:
    """The series with neighbours of equal m made one: n1:m then n2:m is (n1+n2):m, at most m:m.

    The merged term is the sum of the two and the residue is the same, for every tensor. Equal m with another
    m between them are left alone: merged, they may keep other entries. Of the eight 10 9 1 1 8 8 8 8 the
    series 1:4, 1:8, 1:4 keeps 10 9 1 8 8, but 2:4, 1:8 keeps 10 9 8 8 8.
    """
    result: list[tuple[int, int]] = []
    for n, m in checked(series):
        if result and result[-1][1] == m:
            n += result.pop()[0]
        result.append((min(n, m), m))
    return tuple(result)


def decompose(
    tensor: np.ndarray, series: Any, axis: int = -1, format: str | None = None
) -> tuple[list[np.ndarray], np.ndarray]:
    """The terms of a series and the residue: dense arrays of the tensor's shape and type.

    Every entry is in exactly one of them, and zero in all others, so their sum is the tensor exactly. Of
    equal magnitudes the one of lowest index is kept first. The end of the axis may cut the last block short.

    Args:
        tensor: real numbers or integers of at most 64 bits; with ``format``, its raw bit patterns.
        series: pairs (n, m), in order.
        axis: the reduction, along which blocks lie.
        format: name of a format of ``golden.formats``.

    Raises:
        TypeError: numbers or patterns of another type.
        ValueError: a series or an axis that cannot be; NaN: says how many, and where the first.
    """
    series = checked(series)
    tensor = np.asarray(tensor)
    owner = _owner(magnitudes(tensor, format), series, axis)
    *terms, residue = (_part(tensor, owner == term) for term in (*range(1, len(series) + 1), 0))
    return terms, residue


def lossless(tensor: np.ndarray, series: Any, axis: int = -1, format: str | None = None) -> bool:
    """Whether the residue of `decompose` is all zero."""
    order = magnitudes(tensor, format)
    return not order[_owner(order, checked(series), axis) == 0].any()


def kept(tensor: np.ndarray, series: Any, axis: int = -1, format: str | None = None) -> Kept:
    """The shares of non-zeros and of magnitude that the terms of `decompose` hold."""
    order = magnitudes(tensor, format)
    owner = _owner(order, checked(series), axis)
    nonzeros = int(np.count_nonzero(order))
    if not nonzeros:
        return Kept(None, None)
    absolute = _absolute(tensor, order, format)
    magnitude = 1 - _dropped(order, absolute, owner) if np.isfinite(absolute).all() else None
    return Kept(int(np.count_nonzero(owner)) / nonzeros, magnitude)


def unit(block: np.ndarray, n: int, format: str | None = None) -> tuple[list[tuple[Any, int]], np.ndarray]:
    """The TASD unit behind an array's output: one maximum of a block per step, ties to the lowest index.

    Args:
        block: 1 to 16 values, as `decompose` takes them.
        n: steps at most; it stops when nothing but zeros is left.

    Returns:
        emitted: (value, index) of each step, in the order of falling magnitude.
        residue: the block without them, for the unit of the next term.
    """
    check_integer("n", n, 1, LARGEST_BLOCK)
    rest, left = np.array(block), magnitudes(block, format, name="block").copy()
    if left.ndim != 1 or not 1 <= left.size <= LARGEST_BLOCK:
        raise ValueError(f"block must hold 1 to {LARGEST_BLOCK} values in a row, not shape {left.shape}")
    emitted = []
    for _ in range(n):
        index = int(np.argmax(left))
        if left[index] == 0:
            break
        emitted.append((rest[index], index))
        rest[index] = left[index] = 0
    return emitted, rest


# ---- a series for each layer ----


def search(
    layers: Mapping[str, np.ndarray],
    candidates: Sequence[Any],
    bound: float,
    *,
    axis: int = -1,
    format: str | None = None,
) -> Choice:
    """For each layer the cheapest series that drops at most the share ``bound`` of its sum of magnitudes.

    Candidates of equal `cost` are tried in their order. None, dense at cost 1, where none will do: so a
    series dearer than 1 is never chosen. To lose anything of a layer that holds infinities is to lose all.

    Args:
        layers: tensors by name, all with their reduction along ``axis``.
        bound: 0 .. 1.
    """
    _check_number("bound", bound)
    if not 0 <= bound <= 1:
        raise ValueError(f"bound must be from 0 to 1, the share of magnitude that may go, not {bound!r}")
    ordered = _by_cost(candidates)
    choice: Choice = {}
    for name, tensor in layers.items():
        order = magnitudes(tensor, format, name=f"layer {name!r}")
        choice[name] = _cheapest(order, _absolute(tensor, order, format), ordered, bound, axis)
    return choice


def search_accuracy(
    layers: Sequence[str], candidates: Sequence[Any], evaluate: Callable[[Choice], float], bound: float
) -> Choice:
    """For each layer the cheapest series that keeps ``evaluate(choice) >= bound``, greedily.

    Layer by layer, in the given order: candidates by `cost`, those of equal cost in their order, with the
    layers before as already chosen and those after dense. None, dense at cost 1, where none will do.

    Args:
        layers: names.
        evaluate: accuracy, or what else must stay high, of a series (or None) for every layer; NaN is
            never enough.
        bound: such as 0.99 times what the dense layers give.
    """
    _check_number("bound", bound)
    ordered = _by_cost(candidates)
    choice: Choice = dict.fromkeys(layers)
    for name in choice:
        tried = ({**choice, name: series} for series in ordered)
        choice = next((trial for trial in tried if evaluate(dict(trial)) >= bound), choice)
    return choice


def _by_cost(candidates: Sequence[Any]) -> list[Series]:
    if not candidates:
        raise ValueError("candidates must hold at least one series")
    series = [checked(candidate, f"candidates[{place}]") for place, candidate in enumerate(candidates)]
    return sorted((candidate for candidate in series if cost(candidate) <= 1), key=cost)


def _cheapest(
    order: np.ndarray, absolute: np.ndarray, ordered: list[Series], bound: float, axis: int
) -> Series | None:
    fits = (series for series in ordered if _dropped(order, absolute, _owner(order, series, axis)) <= bound)
    return next(fits, None)


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or value != value:
        raise TypeError(f"{name} must be a number, not {value!r}")


# ---- inside ----


def _owner(order: np.ndarray, series: Series, axis: int) -> np.ndarray:
    check_integer("axis", axis, -order.ndim, order.ndim - 1)
    return select(order, series, axis)


def _part(tensor: np.ndarray, where: np.ndarray) -> np.ndarray:
    part = np.zeros_like(tensor)
    np.copyto(part, tensor, where=where)
    return part


def _absolute(tensor: np.ndarray, order: np.ndarray, format: str | None) -> np.ndarray:
    """Magnitudes, float64, in units of about the largest finite one, so that their sum is finite."""
    tensor = np.asarray(tensor)
    if format is not None:
        values = np.abs(format_named(format).decode(tensor))
    else:
        values = (np.abs(tensor) if tensor.dtype.kind == "f" else order).astype(np.float64)
    peak = values.max(initial=0.0, where=np.isfinite(values))
    return np.ldexp(values, -int(np.frexp(peak)[1]))


def _dropped(order: np.ndarray, absolute: np.ndarray, owner: np.ndarray) -> float:
    """The residue's share of the sum of magnitudes: 0 only if it is all zero; 1 if that is not so and the
    sum is infinite."""
    left = owner == 0
    if not order[left].any():
        return 0.0
    total = float(absolute.sum())
    if np.isinf(total):
        return 1.0
    return min(1.0, max(SMALLEST, float(absolute[left].sum()) / total))

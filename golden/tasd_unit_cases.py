"""Random blocks for a `tasd-unit` and what must come out: golden vectors for any bench."""

from collections.abc import Callable

import numpy as np

from skiptile.golden.formats import FloatFormat, Format, IntegerFormat
from skiptile.golden.operands import corners
from skiptile.golden.tasd_unit import Arrays, TasdUnitParams, expected_outputs

Generator = np.random.Generator


def random_case(params: TasdUnitParams, jobs: int, seed: int) -> tuple[Arrays, Arrays]:
    """Input payloads of ``jobs`` random blocks, and the output payloads that must follow.

    The blocks are of each of `BLOCKS` in turn, and n goes through 1 .. m in a random order; every pair of
    the two is there once jobs reach 7 m.

    Returns:
        Per input field an array (beats, *shape), per output field an array (beats, *shape).
    """
    rng = np.random.default_rng(seed)
    kinds = list(BLOCKS.values())
    blocks = [kinds[job % len(kinds)](rng, params.number, params.m) for job in range(jobs)]
    last = rng.random(jobs) < 0.3
    last[-1] = True
    inputs = {
        "block": np.stack(blocks),
        "n": np.resize(1 + rng.permutation(params.m), jobs),
        "last": last.astype(np.int64),
    }
    return inputs, expected_outputs(params, inputs)


def numbers(format: Format) -> np.ndarray:
    """All patterns of `golden.operands.corners` but NaN: of integers the smallest is among them, of floats
    subnormals, both zeros and infinities."""
    patterns = corners(format)
    return patterns[~format.is_nan(patterns)] if isinstance(format, FloatFormat) else patterns


def random_numbers(rng: Generator, format: Format, m: int) -> np.ndarray:
    """Any patterns but NaN."""
    if isinstance(format, IntegerFormat):
        return rng.integers(format.smallest, format.largest + 1, m).astype(format.dtype)
    largest = format.infinity_bits or format.largest_bits
    return _any_sign(rng, format, rng.integers(0, largest + 1, m).astype(format.dtype))


def _corner_numbers(rng: Generator, format: Format, m: int) -> np.ndarray:
    return rng.choice(numbers(format), m)


def _ties(rng: Generator, format: Format, m: int) -> np.ndarray:
    """Two magnitudes and zero, with any signs."""
    two = np.append(random_numbers(rng, format, 2), format.dtype.type(0))
    return _any_sign(rng, format, rng.choice(two, m))


def _zeros(rng: Generator, format: Format, m: int) -> np.ndarray:
    """Floats have two."""
    return _any_sign(rng, format, np.zeros(m, format.dtype))


def _equal(rng: Generator, format: Format, m: int) -> np.ndarray:
    """One magnitude, with any signs."""
    return _any_sign(rng, format, np.repeat(_corner_numbers(rng, format, 1), m))


def _sparse(rng: Generator, format: Format, m: int) -> np.ndarray:
    return np.where(rng.random(m) < 0.7, _zeros(rng, format, m), random_numbers(rng, format, m))


def _small(rng: Generator, format: Format, m: int) -> np.ndarray:
    """Subnormals and the least normals of floats, integers of a few units."""
    least = 1 << format.fraction_bits if isinstance(format, FloatFormat) else 2
    return _any_sign(rng, format, rng.integers(0, least + 1, m).astype(format.dtype))


BLOCKS: dict[str, Callable[[Generator, Format, int], np.ndarray]] = {
    "random": random_numbers,
    "corners": _corner_numbers,
    "ties": _ties,
    "zeros": _zeros,
    "equal": _equal,
    "sparse": _sparse,
    "small": _small,
}


def _any_sign(rng: Generator, format: Format, patterns: np.ndarray) -> np.ndarray:
    """Each number or its negative; the smallest integer has none."""
    if isinstance(format, IntegerFormat):
        negatives = np.negative(patterns)  # of the smallest integer it is itself
    else:
        negatives = patterns ^ format.dtype.type(1 << format.bits - 1)
    return np.where(rng.random(patterns.shape) < 0.5, negatives, patterns)

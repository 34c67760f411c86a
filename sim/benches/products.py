"""What benches of blocks that multiply matrices share: operands, paces, the table of cases, and the testbed.

A bench's fixed cases are a table of shapes, data, idle input and back-pressure, seven of each, in which every
pair of two columns' values occurs; then late readiness, resets in mid-stream, and random cases.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, TypeVar

import numpy as np

from skiptile.golden.arithmetic import Arithmetic
from skiptile.golden.formats import Format, IntegerFormat
from skiptile.golden.operands import full_scale, random_operands
from skiptile.golden.quantise import quantise
from skiptile.sim.streams import (
    Arrays,
    ClockDomain,
    Monitor,
    Pace,
    Rule,
    Sink,
    Source,
    StreamPorts,
    Watchdog,
    always,
    follow,
    high,
    late,
    pattern,
    resting,
)

Generator = np.random.Generator
Shape = tuple[int, int, int]
"""M, K, N of a @ b."""


def next_prime(number: int) -> int:
    """The least prime above ``number``, for shapes that are no multiple of anything."""
    candidate = number + 1
    while any(candidate % divisor == 0 for divisor in range(2, candidate)):
        candidate += 1
    return candidate


# ---- operands ----


@dataclass(frozen=True)
class Operand:
    """An operand of a block: its format, and its pattern in the largest product that is kept."""

    format: Format
    full_scale: int


def half_zero(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers over the whole range, every other one zero."""
    return random_operands(rng, operand.format, shape, zeros=0.5)


def all_dense(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers over the whole range, none of them zero."""
    patterns = random_operands(rng, operand.format, shape)
    return np.where(operand.format.is_zero(patterns), 1, patterns).astype(operand.format.dtype)


def all_full_scale(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Both signs of it; of integers the largest beside the smallest."""
    format, pattern = operand.format, operand.full_scale
    other = format.largest if isinstance(format, IntegerFormat) else pattern | 1 << format.bits - 1
    return rng.choice(np.array([pattern, other], format.dtype), shape)


def all_zero(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Floats have two zeros."""
    format = operand.format
    negative = 0 if isinstance(format, IntegerFormat) else 1 << format.bits - 1
    return rng.choice(np.array([0, negative], format.dtype), shape)


def one_non_zero(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """In a random place."""
    patterns = np.zeros(shape, operand.format.dtype)
    patterns[tuple(rng.integers(shape))] = all_dense(rng, operand, (1,))[0]
    return patterns


def alternating(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """A chessboard of zeros."""
    patterns = all_dense(rng, operand, shape)
    return patterns * (np.indices(shape).sum(axis=0) % 2).astype(patterns.dtype)


@cache
def _digits() -> np.ndarray:
    """All pixels of scikit-learn's real images, 0 to 1; about half are zero."""
    from sklearn.datasets import load_digits

    pixels, _ = load_digits(return_X_y=True)
    return pixels.ravel() / pixels.max()


def digit_images(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Real pixels, quantised."""
    size = int(np.prod(shape))
    first = int(rng.integers(len(_digits())))
    pixels = np.take(_digits(), range(first, first + size), mode="wrap").reshape(shape)
    return quantise(pixels, operand.format.name)[0]


DATA: dict[str, Callable[[Generator, Operand, tuple[int, ...]], np.ndarray]] = {
    "random": half_zero,
    "full scale": all_full_scale,
    "all zero": all_zero,
    "all dense": all_dense,
    "one non-zero": one_non_zero,
    "alternating": alternating,
    "digit images": digit_images,
}


def matrices(
    rng: Generator, arithmetic: Arithmetic, data: str, shape: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """``a`` (M, K), and ``b`` (K, N) of the kind ``data``; with "full scale" both are."""
    m, k, n = shape
    a, b = map(Operand, (arithmetic.a, arithmetic.b), full_scale(arithmetic))
    if data == "full scale":
        left = all_full_scale(rng, a, (m, k))
    else:
        left = random_operands(rng, a.format, (m, k), zeros=0.3)
    return left, DATA[data](rng, b, (n, k)).T


# ---- the table of cases ----

PACES: dict[str, Callable[[Random], Pace]] = {
    "always": lambda rng: always,
    "rests .1": lambda rng: resting(0.1, rng),
    "rests .5": lambda rng: resting(0.5, rng),
    "rests .9": lambda rng: resting(0.9, rng),
    "every other": lambda rng: pattern([1, 0]),
    "bursts": lambda rng: pattern([1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    "follows": lambda rng: follow,
}
LATE: dict[str, Callable[[Random], Pace]] = {
    f"late {cycles}": lambda rng, cycles=cycles: late(cycles) for cycles in range(6)
}
MIXED = "mixed"  # shape and data of cases that are many random jobs
RESETS = 4  # fixed cases that are reset in mid-stream


@dataclass(frozen=True)
class Case:
    """One case; everything random in it comes from ``seed``.

    Attributes:
        name: for people and JUnit.
        shape, data: keys of the bench's shapes and of `DATA`, or `MIXED`.
        idle, stall: when input is given and output is taken; keys of `PACES` or `LATE`.
        interrupted: it is begun once before and reset in mid-stream.
    """

    name: str
    shape: str
    data: str
    idle: str
    stall: str
    interrupted: bool
    seed: tuple[int, int]

    @property
    def columns(self) -> dict[str, str]:
        return {
            "shape": self.shape,
            "data": self.data,
            "idle": self.idle,
            "back-pressure": self.stall,
            "reset": "mid-stream" if self.interrupted else "",
        }

    def paces(self, rng: Random) -> tuple[Pace, Pace]:
        """Of the input and of the output."""
        idle, stall = ((PACES | LATE)[name](rng) for name in (self.idle, self.stall))
        return idle, stall


AnyCase = TypeVar("AnyCase", bound=Case)


def table_of_cases(kind: type[AnyCase], shapes: Iterable[str], count: int, seed: int) -> list[AnyCase]:
    """The fixed cases of seven ``shapes``, and ``count`` random ones; all depend on the arguments alone."""
    return [
        kind(f"{index:03d} {' / '.join(row[:4])}{' / reset' if row[4] else ''}", *row, seed=(seed, index))
        for index, row in enumerate(_rows(list(shapes), count, np.random.default_rng(seed)))
    ]


def _rows(shapes: list[str], count: int, rng: Generator) -> Iterator[tuple[str, str, str, str, bool]]:
    """Shape, data, idle, back-pressure and whether the case is interrupted."""
    data, paces = list(DATA), list(PACES)
    size = len(paces)  # seven of each, a prime, so that every pair occurs: Bose's orthogonal array
    for s in range(size):
        for d in range(size):
            yield shapes[s], data[d], paces[(s + d) % size], paces[(s + 2 * d) % size], False
    for stall in LATE:
        yield MIXED, MIXED, "always", stall, False
    for index in range(RESETS):
        yield MIXED, MIXED, paces[index], paces[RESETS - 1 - index], True
    for _ in range(count):
        idle, stall = (str(pace) for pace in rng.choice(paces, 2))
        yield MIXED, MIXED, idle, stall, bool(rng.random() < 0.2)


# ---- the bench ----


class TB:
    """A design with a source, a sink, a monitor on both streams and a watchdog.

    Parameters:
        idle, stall: when input is given and output is taken.
        rule: makes, of the input's ports, the block's own rule on what its beats hold.
    """

    def __init__(
        self,
        dut: Any,
        manifest: Mapping[str, Any],
        idle: Pace,
        stall: Pace,
        rng: Random,
        *,
        rule: Callable[[StreamPorts], Rule] | None = None,
    ) -> None:
        self._reset_cycles = manifest["reset"]["cycles"]
        self._rng = rng
        self.domain = ClockDomain(dut[manifest["clock"]], dut[manifest["reset"]["port"]])
        self.i, self.o = (StreamPorts.find(dut, manifest, name) for name in ("i", "o"))
        self.input = Monitor(self.domain, self.i, rule=None if rule is None else rule(self.i))
        self.output = Monitor(self.domain, self.o)
        self.source = Source(self.domain, self.i, rng, pace=idle)
        self.sink = Sink(self.domain, self.o, pace=stall)
        Watchdog(self.domain, [self.input, self.output])

    async def reset(self) -> None:
        """Reset the design; nothing is left of what was going on."""
        self.source.waiting.clear()
        await self.domain.reset(self._reset_cycles)
        self.sink.taken.clear()

    async def interrupt(self, beats: Arrays) -> None:
        """Begin to give ``beats``, and reset the design in mid-stream."""
        self.source.send(self.i.pack(beats))
        await self.domain.cycles(self._rng.randrange(1, 60))
        await self.reset()

    async def run(self, beats: Arrays, outputs: int) -> Arrays:
        """Give ``beats``, take ``outputs`` beats, and see that no more come."""
        self.source.send(self.i.pack(beats))
        await self.domain.until(lambda: len(self.sink.taken) >= outputs)
        await self.domain.cycles(50)
        drained = self.source.done and len(self.sink.taken) == outputs and not high(self.o.valid)
        assert drained, (
            f"not drained: {self.input.state()}; {self.output.state()}; wanted are {outputs} beats"
        )
        return self.o.unpack(self.sink.taken)

    @property
    def elapsed(self) -> int:
        """Clock cycles from the first beat taken to the last result given."""
        return self.output.latest - self.input.first + 1


def compare(what: str, got: np.ndarray, wanted: np.ndarray) -> None:
    """Raise unless two integer arrays are equal; tells the first difference."""
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, expected {wanted.shape}"
    different = np.argwhere(got != wanted)
    if len(different):
        index = tuple(int(place) for place in different[0])
        raise AssertionError(
            f"{what}: {len(different)} of {got.size} differ, first at {index}: {got[index]}, "
            f"expected {wanted[index]}"
        )

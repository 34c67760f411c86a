"""Golden `tasd-unit`: at run time, the n of largest magnitude of each block of m numbers, one per cycle.

These are the TASD units of Jeong et al., MLSys 2025 (arXiv 2403.07953): they stand behind an array's output
and make a term of a series out of it; ``golden/tasd.py`` says what series are.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from skiptile.golden.checks import check_choice, check_integer, check_keys
from skiptile.golden.formats import FORMATS, FloatFormat, Format, IntegerFormat
from skiptile.golden.nm import LARGEST_BLOCK, check_pattern, magnitudes
from skiptile.golden.payload import Field

BUFFER_BEATS = 4  # a number's way from the block to the reader takes three cycles, which room for three hides
RESULT_LATENCY = 4

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class TasdUnitParams:
    """Parameters of a `tasd-unit`; every width, latency and capacity is derived here, once.

    Parameters:
        m: numbers of a block, a power of two from 1 to 16.
        format: of the numbers, a name of ``golden.formats``.

    Raises:
        TypeError, ValueError: names the parameter, its value and what is allowed.
    """

    m: int
    format: str = "int8"

    def __post_init__(self) -> None:
        check_pattern(1, self.m)
        check_choice("format", self.format, FORMATS)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "TasdUnitParams":
        check_keys("[tasd-unit]", table, ["m", "format"], needed=["m"])
        return cls(**table)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def number(self) -> Format:
        """The format itself."""
        return FORMATS[self.format]

    @property
    def index_bits(self) -> int:
        return max(1, (self.m - 1).bit_length())

    @property
    def count_bits(self) -> int:
        """Of ``n``, which may be ``m``."""
        return self.m.bit_length()

    @property
    def input_fields(self) -> tuple[Field, ...]:
        return (self._numbers("block", (self.m,)), Field("n", self.count_bits), Field("last", 1))

    @property
    def output_fields(self) -> tuple[Field, ...]:
        return (
            self._numbers("value", ()),
            Field("index", self.index_bits),
            Field("done", 1),
            Field("last", 1),
            self._numbers("residue", (self.m,)),
        )

    def _numbers(self, name: str, shape: tuple[int, ...]) -> Field:
        return Field(name, self.number.bits, shape, signed=isinstance(self.number, IntegerFormat))

    @property
    def widths(self) -> dict[str, int]:
        return {"value": self.number.bits, "index": self.index_bits, "n": self.count_bits}

    @property
    def latencies(self) -> dict[str, int]:
        return {"result": RESULT_LATENCY}

    @property
    def capacities(self) -> dict[str, int]:
        return {
            "comparators": self.m * (self.m - 1) // 2,
            "input_buffer_blocks": 2,
            "output_buffer_beats": BUFFER_BEATS,
        }

    @property
    def contract(self) -> list[str]:
        sentences = [
            f"n of a block is from 1 to {self.m} and makes as many output beats; 0 counts as 1, more than "
            f"{self.m} as {self.m}.",
            "Numbers come in the order of falling magnitude, of equal ones the lowest index first; none "
            "comes twice: a block with fewer than n non-zeros gives zeros, again the lowest index first.",
            "residue is the block with +0 in place of all that has been taken of it, this number included.",
        ]
        if isinstance(self.number, FloatFormat) and self.number.has_nan:
            above = "infinity" if self.number.has_infinities else "all numbers"
            sentences.append(f"No NaN is sent; one would count as a magnitude above {above}, by its pattern.")
        return sentences

    def describe(self) -> dict[str, dict[str, Any]]:
        """What more `skiptile show` has to say: nothing."""
        return {}


@dataclass(frozen=True, eq=False)
class Taken:
    """What `take` takes of blocks (..., m).

    Attributes:
        values: (..., n) raw bit patterns, in the order of falling magnitude.
        indices: (..., n) int64, their places in their blocks.
        residues: (..., n, m), the block after each of them.
    """

    values: np.ndarray
    indices: np.ndarray
    residues: np.ndarray


def take(block: np.ndarray, n: int, format: str | None = None) -> Taken:
    """The ``n`` of largest magnitude of each block, zeros after all others, ties to the lowest index.

    Unlike `golden.tasd.unit` it does not stop where only zeros are left: the hardware takes exactly n cycles.

    Args:
        block: (..., m), 1 <= m <= 16; real numbers, or with ``format`` raw bit patterns.
        n: 1 .. m.

    Raises:
        TypeError: something else than numbers of at most 64 bits, or than the format's patterns.
        ValueError: an n or m that cannot be; NaN.
    """
    block = np.asarray(block)
    order = magnitudes(block, format, name="block")
    m = block.shape[-1]
    if not 1 <= m <= LARGEST_BLOCK:
        raise ValueError(f"block must hold 1 to {LARGEST_BLOCK} values in a row, not shape {block.shape}")
    check_integer("n", n, 1, m)
    by_magnitude = np.argsort(~order, axis=-1, kind="stable")  # unsigned: ~ turns the order around
    rank = np.argsort(by_magnitude, axis=-1)
    indices = by_magnitude[..., :n]
    values = np.take_along_axis(block, indices, axis=-1)
    left = rank[..., None, :] > np.arange(n)[:, None]
    return Taken(values, indices, np.where(left, block[..., None, :], block.dtype.type(0)))


def expected_outputs(params: TasdUnitParams, beats: Arrays) -> Arrays:
    """What ``beats``, input payloads per field (beats, *shape), must give, per field (beats, *shape)."""
    counts = np.clip(beats["n"], 1, params.m)
    taken = take(beats["block"].astype(params.number.dtype), params.m, params.format)
    steps = np.arange(params.m)
    given = steps < counts[:, None]
    done = steps == counts[:, None] - 1
    return {
        "value": taken.values[given],
        "index": taken.indices[given],
        "done": done[given].astype(np.int64),
        "last": (done & (beats["last"][:, None] == 1))[given].astype(np.int64),
        "residue": taken.residues[given],
    }

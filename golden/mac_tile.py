"""The sparse-skipping MAC tile `mac-tile` (TensorDash, MICRO 2020): its parameters and what it computes.

``acc[r][c] = sum over steps t, lanes l of a[t][c][l] * b[t][r][l]``, for rows x columns processing
elements of ``lanes`` multipliers. Rows skip the zeros of ``b`` by looking ahead in a window of steps.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from skiptile.golden.checks import check_choice, check_integer, check_keys
from skiptile.golden.counters import Counters
from skiptile.golden.interconnect import (
    INTERCONNECTS,
    Move,
    check_moves,
    cut_moves,
    derive_levels,
    named_moves,
)
from skiptile.golden.payload import Field
from skiptile.golden.schedule import Schedule, count_cycles, schedule

__all__ = [
    "MacTileParams",
    "Schedule",
    "TileJobs",
    "count_cycles",
    "count_product",
    "predict_speedup",
    "schedule",
]

MOST_ELEMENTS = 64  # rows, columns or lanes
MOST_LOOKAHEAD = 7
MOST_REDUCTION = 1 << 24
STALL_BITS = 32  # width of the stall counters; they stay at their largest value
BUFFER_BEATS = 4  # beats in the staging buffer: the window's two, one behind it and one arriving
SIDES = {
    "b": "one scheduler per row skips the zeros of b",
    "both": "1x1 only: a pair is skipped when either operand is zero",
}
FORMATS = {"int8": "8-bit two's complement"}


@dataclass(frozen=True, kw_only=True)
class MacTileParams:
    """Parameters of a `mac-tile`, checked; every width, latency and capacity is derived here, once.

    Parameters:
        rows: rows of elements; a row shares one ``b`` operand, its window and its scheduler.
        columns: columns of elements; a column shares one ``a`` operand and its window.
        lanes: multipliers of an element.
        format: operands' number format.
        max_reduction: longest dot product, in products, that the accumulators hold exactly.
        side: whose zeros are skipped, "b" or (1x1 only) "both".
        lookahead: steps ahead of the current one that the window holds; 0 is the dense tile.
        interconnect: name of an interconnect, or a list of [step, lane offset].
        output_rows: rows of results in one output beat, a divisor of ``rows``.
    """

    rows: int
    columns: int
    lanes: int
    format: str = "int8"
    max_reduction: int = 65536
    side: str = "b"
    lookahead: int = 2
    interconnect: str | tuple[Move, ...] = "tensordash"
    output_rows: int = 1

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "lanes"):
            check_integer(name, getattr(self, name), 1, MOST_ELEMENTS)
        check_choice("format", self.format, FORMATS)
        check_integer("max_reduction", self.max_reduction, 1, MOST_REDUCTION)
        check_choice("side", self.side, SIDES)
        check_integer("lookahead", self.lookahead, 0, MOST_LOOKAHEAD)
        check_integer("output_rows", self.output_rows, 1, self.rows)
        if self.rows % self.output_rows:
            raise ValueError(
                f"output_rows must be a divisor of rows, not {self.output_rows} with rows = {self.rows}"
            )
        if self.side == "both" and (self.rows, self.columns) != (1, 1):
            raise ValueError(
                f"side = 'both' needs one row and one column, not rows = {self.rows}, "
                f"columns = {self.columns}"
            )
        if isinstance(self.interconnect, str):
            check_choice("interconnect", self.interconnect, INTERCONNECTS)
        elif self.lookahead:
            check_moves(self.interconnect, self.lanes, self.lookahead)
            moves = tuple((step, offset) for step, offset in self.interconnect)
            object.__setattr__(self, "interconnect", moves)
        if not self.lookahead:  # the dense tile has neither: one value, so that equal tiles are equal
            object.__setattr__(self, "interconnect", "tensordash")
            object.__setattr__(self, "side", "b")
        if self.max_reduction < self.lanes:
            raise ValueError(
                f"max_reduction must hold one step of lanes = {self.lanes} products, not {self.max_reduction}"
            )

    # ---- the design file's table ----

    SPARSITY_KEYS = ("side", "lookahead", "interconnect")

    def to_dict(self) -> dict[str, object]:
        """The table of the design file that makes these parameters."""
        table: dict[str, object] = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in self.SPARSITY_KEYS
        }
        if self.lookahead:
            interconnect = self.interconnect
            if not isinstance(interconnect, str):
                interconnect = [list(move) for move in interconnect]  # type: ignore[assignment]
            table["sparsity"] = {
                "side": self.side, "lookahead": self.lookahead, "interconnect": interconnect,
            }
        return table

    @classmethod
    def from_dict(cls, table: dict[str, object]) -> "MacTileParams":
        """Parameters from the table of a design file; without ``sparsity`` the tile is dense.

        Raises:
            TypeError, ValueError: naming the key, its value and what is allowed.
        """
        names = [field.name for field in fields(cls) if field.name not in cls.SPARSITY_KEYS]
        check_keys("[mac-tile]", table, (*names, "sparsity"))
        for name in ("rows", "columns", "lanes"):
            if name not in table:
                raise ValueError(f"[mac-tile] lacks the key {name!r}")
        values = {name: value for name, value in table.items() if name != "sparsity"}
        sparsity = table.get("sparsity", {"lookahead": 0})
        check_keys("[mac-tile.sparsity]", sparsity, cls.SPARSITY_KEYS)
        assert isinstance(sparsity, dict)
        return cls(**values, **sparsity)

    @property
    def dense(self) -> "MacTileParams":
        """The dense tile of the same geometry."""
        return replace(self, lookahead=0)

    # ---- the interconnect ----

    @property
    def moves(self) -> tuple[Move, ...]:
        """Moves in priority order, offsets 0 .. lanes - 1; only (0, 0) without lookahead."""
        if not self.lookahead:
            return ((0, 0),)
        if isinstance(self.interconnect, str):
            return cut_moves(named_moves(self.interconnect, self.lookahead), self.lanes, self.lookahead)
        return check_moves(self.interconnect, self.lanes, self.lookahead)

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Lanes that decide together, level by level."""
        return derive_levels(self.moves, self.lanes)

    @property
    def select_bits(self) -> int:
        """Bits of one lane's select; none where there is but one move."""
        return (len(self.moves) - 1).bit_length()

    @property
    def reach_steps(self) -> int:
        """Steps of the window that a move reaches, from the head on: no others' operands are needed."""
        return max(step for step, _ in self.moves) + 1

    # ---- derived widths ----

    @property
    def operand_bits(self) -> int:
        return 8

    @property
    def product_bits(self) -> int:
        """Bits of one product, sign included."""
        return 2 * self.operand_bits

    @property
    def accumulator_bits(self) -> int:
        """Bits that hold ``max_reduction`` products of the largest magnitude, sign included."""
        return self.product_bits + (self.max_reduction - 1).bit_length()

    @property
    def window_steps(self) -> int:
        """Steps in the window, and the most in one beat."""
        return self.lookahead + 1

    @property
    def max_steps(self) -> int:
        """Steps of the longest reduction."""
        return -(-self.max_reduction // self.lanes)

    @property
    def steps_bits(self) -> int:
        """Width of the counters of steps and cycles."""
        return self.max_steps.bit_length()

    @property
    def advance_bits(self) -> int:
        """Bits of the number of steps that one issue advances."""
        return min(self.window_steps, self.max_steps).bit_length()

    @property
    def pairs_bits(self) -> int:
        """Bits of the number of pairs that a row takes in one cycle."""
        return self.lanes.bit_length()

    @property
    def effectual_bits(self) -> int:
        """Width of the counter of effectual pairs."""
        return (self.max_steps * self.rows * self.lanes).bit_length()

    # ---- derived latencies, in clock cycles ----

    @property
    def tree_levels(self) -> int:
        """Levels of the adder tree, each a pipeline stage."""
        return (self.lanes - 1).bit_length()

    @property
    def issue_latency(self) -> int:
        """From taking a beat that ends its reduction to the first issue, when the tile is idle."""
        return 2 if self.lookahead else 0

    @property
    def element_latency(self) -> int:
        """From an issue to its sum in the accumulator."""
        operands = 3 if self.lookahead else 1  # select, window and operand registers; operands alone
        return operands + 1 + self.tree_levels + 1

    @property
    def result_latency(self) -> int:
        """From a reduction's last issue to its first result at the output, when nothing waits."""
        return self.element_latency + 2  # the drain registers and the output buffer

    # ---- derived capacities ----

    @property
    def result_beats(self) -> int:
        """Output beats of one reduction."""
        return self.rows // self.output_rows

    @property
    def output_buffer_beats(self) -> int:
        """Beats in the output buffer: as many as can be under way when one is given per cycle."""
        return self.element_latency + 2

    # ---- ports ----

    @property
    def input_fields(self) -> tuple[Field, ...]:
        """Fields of the input payload."""
        step_bits = self.operand_bits
        return (
            Field("a", step_bits, (self.window_steps, self.columns, self.lanes), signed=True),
            Field("b", step_bits, (self.window_steps, self.rows, self.lanes), signed=True),
            Field("count", self.window_steps.bit_length()),
            Field("last", 1),
        )

    @property
    def counter_fields(self) -> tuple[Field, ...]:
        """Counters of a reduction, in the output payload."""
        return (
            Field("cycles", self.steps_bits),
            Field("steps", self.steps_bits),
            Field("effectual", self.effectual_bits),
            Field("input_stalls", STALL_BITS),
            Field("output_stalls", STALL_BITS),
        )

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Fields of the output payload; ``row`` is the first of the beat's ``output_rows`` rows."""
        results = (self.columns,) if self.output_rows == 1 else (self.output_rows, self.columns)
        return (
            Field("result", self.accumulator_bits, results, signed=True),
            Field("row", max(1, (self.rows - 1).bit_length())),
            Field("last", 1),
            *self.counter_fields,
        )


class TileJobs:
    """A matrix product cut into the jobs of a tile (DESIGN: "Matrix products on a tile").

    Job (p, q) multiplies rows p * columns .. of ``a`` with columns q * rows .. of ``b``; missing ones
    are zero; q is the outer index. Each job is one reduction of ``steps`` steps.

    Args:
        a: (M, K) operands.
        b: (K, N) operands.
        params: the tile.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray, params: MacTileParams) -> None:
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"a @ b needs shapes (M, K) and (K, N), not {a.shape} and {b.shape}")
        (self.m, self.k), self.n = a.shape, b.shape[1]
        if self.k > params.max_reduction:
            raise ValueError(
                f"the reduction of K = {self.k} products exceeds max_reduction = {params.max_reduction}"
            )
        self.params = params
        self.steps = -(-self.k // params.lanes)
        self.a_blocks = _blocks(a, params.columns, params.lanes)
        self.b_blocks = _blocks(b.T, params.rows, params.lanes)

    def __len__(self) -> int:
        """Number of jobs; none where there is nothing to multiply."""
        return len(self.a_blocks) * len(self.b_blocks) if self.k else 0

    @property
    def beats_per_job(self) -> int:
        return -(-self.steps // self.params.window_steps)

    def beats(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Input payloads of jobs ``start`` .. ``stop`` - 1, per field (beats, *shape)."""
        params, window = self.params, self.params.window_steps
        q, p = np.divmod(np.arange(start, stop), len(self.a_blocks))
        tail = self.beats_per_job * window - self.steps
        pad = ((0, 0), (0, tail), (0, 0), (0, 0))

        def to_beats(blocks: np.ndarray, index: np.ndarray) -> np.ndarray:
            steps = np.pad(blocks, pad)[index]
            return steps.reshape(-1, window, *steps.shape[2:])

        count = np.full((stop - start, self.beats_per_job), window)
        count[:, -1] = window - tail
        last = np.zeros_like(count)
        last[:, -1] = 1
        assert params.lanes == self.a_blocks.shape[-1]
        return {
            "a": to_beats(self.a_blocks, p),
            "b": to_beats(self.b_blocks, q),
            "count": count.reshape(-1),
            "last": last.reshape(-1),
        }

    def effectual(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Effectual pairs (steps, rows, lanes) and ends (steps,) of jobs ``start`` .. ``stop`` - 1."""
        q, p = np.divmod(np.arange(start, stop), len(self.a_blocks))
        pairs = self.b_blocks[q] != 0
        if self.params.side == "both":
            pairs &= self.a_blocks[p] != 0
        ends = np.zeros((stop - start, self.steps), bool)
        ends[:, -1:] = True
        return pairs.reshape(-1, *pairs.shape[2:]), ends.reshape(-1)

    def assemble(self, results: np.ndarray) -> np.ndarray:
        """Results (jobs, rows, columns) to ``c`` (M, N)."""
        params = self.params
        if not len(self):
            return np.zeros((self.m, self.n), results.dtype)
        grid = results.reshape(len(self.b_blocks), len(self.a_blocks), params.rows, params.columns)
        whole = grid.transpose(1, 3, 0, 2).reshape(
            len(self.a_blocks) * params.columns, len(self.b_blocks) * params.rows
        )
        return whole[: self.m, : self.n]


def _blocks(vectors: np.ndarray, width: int, lanes: int) -> np.ndarray:
    """(V, K) to zero-padded (blocks, steps, width, lanes)."""
    count, k = vectors.shape
    blocks, steps = -(-count // width), -(-k // lanes)
    padded = np.zeros((blocks * width, steps * lanes), vectors.dtype)
    padded[:count, :k] = vectors
    return np.ascontiguousarray(padded.reshape(blocks, width, steps, lanes).transpose(0, 2, 1, 3))


def count_product(a: np.ndarray, b: np.ndarray, params: MacTileParams) -> Counters:
    """The schedule's counters for the whole product ``a @ b`` on a tile, by the fast path.

    With side "b" a schedule depends on ``b`` alone: it is made once for each block of its columns.
    """
    jobs = TileJobs(a, b, params)
    if not len(jobs):
        return Counters(ideal_cycles=0, ideal_capped_cycles=0)
    repeats = len(jobs.a_blocks) if params.side == "b" else 1
    total = Counters(ideal_cycles=0, ideal_capped_cycles=0)
    chunk = max(1, (1 << 24) // (jobs.steps * params.rows * params.lanes))
    indices = range(0, len(jobs), repeats)
    for first in range(0, len(indices), chunk):
        part = indices[first : first + chunk]
        pieces = [jobs.effectual(job, job + 1) for job in part]
        pairs = np.concatenate([piece[0] for piece in pieces])
        ends = np.concatenate([piece[1] for piece in pieces])
        busiest = pairs.reshape(len(part), jobs.steps, params.rows, -1).sum(axis=(1, 3)).max(axis=1)
        ideal = np.maximum(1, -(-busiest // params.lanes))
        total += Counters(
            cycles=int(count_cycles(pairs, ends, params).sum()),
            steps=len(ends),
            effectual=int(pairs.sum()),
            ideal_cycles=int(ideal.sum()),
            ideal_capped_cycles=int(np.maximum(ideal, -(-jobs.steps // params.window_steps)).sum()),
        )
    return Counters(
        cycles=total.cycles * repeats,
        steps=total.steps * repeats,
        effectual=total.effectual * repeats,
        ideal_cycles=(total.ideal_cycles or 0) * repeats,
        ideal_capped_cycles=(total.ideal_capped_cycles or 0) * repeats,
    )


def predict_speedup(params: MacTileParams, zeros: float, *, seed: int = 0) -> float:
    """Speed-up over dense for a long reduction whose zeros are random, a fraction ``zeros`` of all pairs."""
    steps = 4096
    rng = np.random.default_rng(seed)
    effectual = rng.random((steps, params.rows, params.lanes)) >= zeros
    ends = np.arange(steps) == steps - 1
    return steps / int(count_cycles(effectual, ends, params)[0])

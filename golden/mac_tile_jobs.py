"""Matrix products on a `mac-tile`: cut into jobs and beats, and put together again."""

from collections.abc import Sequence

import numpy as np

from skiptile.golden.counters import Counters
from skiptile.golden.exact import check_operands, count_overflow
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.schedule import count_cycles


class TileJobs:
    """A matrix product cut into the jobs of a tile (DESIGN: "Matrix products on a tile").

    Job (p, q) multiplies rows p * columns .. of ``a`` with columns q * rows .. of ``b``; missing ones
    are zero; q is the outer index. Each job is one reduction of ``steps`` steps.

    Args:
        a, b: raw bit patterns (M, K) and (K, N) of the tile's formats.
        params: the tile.
        shift: of integer results.

    Raises:
        TypeError: operands of another type.
        ValueError: shapes that do not fit each other, a reduction longer than the accumulators hold, or a
            shift that is out of range, or for results that have none.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray, params: MacTileParams, shift: int = 0) -> None:
        arithmetic = params.arithmetic
        check_operands(a, b, arithmetic)
        arithmetic.check_shift(shift)
        (self.m, self.k), self.n = a.shape, b.shape[1]
        if self.k > params.max_reduction:
            raise ValueError(
                f"the reduction of K = {self.k} products exceeds max_reduction = {params.max_reduction}"
            )
        self.params, self.shift = params, shift
        self.steps = -(-self.k // params.lanes)
        self.a_blocks = _blocks(a, params.columns, params.lanes)
        self.b_blocks = _blocks(b.T, params.rows, params.lanes)

    def __len__(self) -> int:
        """Number of jobs; none where there is nothing to multiply."""
        return len(self.a_blocks) * len(self.b_blocks) if self.k else 0

    @property
    def beats_per_job(self) -> int:
        return -(-self.steps // self.params.window_steps)

    @property
    def result_beats(self) -> int:
        return len(self) * self.params.result_beats

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
        return {
            "a": to_beats(self.a_blocks, p),
            "b": to_beats(self.b_blocks, q),
            "count": count.reshape(-1),
            "last": last.reshape(-1),
            **{field.name: last.reshape(-1) * self.shift for field in params.arithmetic.shift_fields},
        }

    def effectual(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Effectual pairs (steps, rows, lanes) and ends (steps,) of jobs ``start`` .. ``stop`` - 1."""
        q, p = np.divmod(np.arange(start, stop), len(self.a_blocks))
        pairs = self.params.effectual(self.a_blocks[p], self.b_blocks[q])
        ends = np.zeros((stop - start, self.steps), bool)
        ends[:, -1:] = True
        return pairs.reshape(-1, *pairs.shape[2:]), ends.reshape(-1)

    def collect(self, outputs: dict[str, np.ndarray], elapsed: int) -> tuple[np.ndarray, Counters]:
        """``c`` (M, N), and the sums of the counters, from all output payloads and the cycles they took."""
        params, arithmetic = self.params, self.params.arithmetic
        last = outputs["last"] == 1
        sums = {field.name: int(outputs[field.name][last].sum()) for field in params.counter_fields}
        if arithmetic.is_float:
            sums["overflow"] = count_overflow(outputs["flags"])
        results = outputs["result"].reshape(len(self), params.rows, params.columns)
        return self.assemble(results.astype(arithmetic.result_dtype)), Counters(elapsed=elapsed, **sums)

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


def sparser_side(products: Sequence[tuple[np.ndarray, np.ndarray]], params: MacTileParams) -> str:
    """Which operand has more zeros, to be skipped: "b", or "a", so that the products are transposed."""
    zeros = []
    for operands, format in zip(
        zip(*products, strict=True), (params.arithmetic.a, params.arithmetic.b), strict=True
    ):
        size = sum(operand.size for operand in operands)
        zeros.append(sum(int(format.is_zero(operand).sum()) for operand in operands) / max(size, 1))
    return "a" if zeros[0] > zeros[1] else "b"


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

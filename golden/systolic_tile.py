"""The systolic tile `systolic-tile`: its parameters, and the clock cycles that its jobs take.

An array of rows x columns elements, one multiplier each, multiplies ``a`` (M, K) by the weights ``b`` (K, N).
Weight-stationary: the elements hold K x N weights, activations flow past them, sums flow down the columns.
Output-stationary: the elements hold M x N sums, both operands flow. DESIGN: "The systolic tile".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skiptile.golden.arithmetic import Arithmetic, Window
from skiptile.golden.checks import check_choice, check_integer, check_keys
from skiptile.golden.nm import check_pattern
from skiptile.golden.payload import Field, payload_bits

WEIGHT, OUTPUT, BOTH = "weight-stationary", "output-stationary", "both"
DATAFLOWS = {
    WEIGHT: "elements hold weights, K x N of them",
    OUTPUT: "elements hold sums, M x N of them",
    BOTH: "chosen for each job",
}
MOST_ELEMENTS = 64  # rows or columns
MOST_REDUCTION = 1 << 24
MOST_DEPTH = 1 << 16
MOST_SIZE = 1 << 48  # of a product
INPUT_BUFFER_BEATS = 2


@dataclass(frozen=True, kw_only=True)
class SystolicTileParams:
    """Parameters of a `systolic-tile`, checked; every width, latency and capacity is derived here, once.

    Parameters:
        rows, columns: of elements.
        dataflow: "weight-stationary", "output-stationary", or "both", chosen for each job.
        format, format_b, accumulator, out, saturate: of operands, sums and results, as `Arithmetic` says.
        registers_every: elements between pipeline registers, along rows and columns.
        n, m: weights come compressed, n of every m along K (`golden.nm`); None: dense.
        accumulator_depth: rows of results that a column holds between blocks of K (weight-stationary).
        gather_depth: activation vectors that a stage in front of the array keeps and gives again by their
            numbers (output-stationary, dense); 0: no such stage.
        max_reduction: longest dot product, in products, that the accumulators hold exactly.
    """

    rows: int
    columns: int
    dataflow: str
    format: str = "int8"
    format_b: str | None = None
    accumulator: Window | str | dict[str, int] | None = None
    out: str | None = None
    saturate: bool = False
    registers_every: int = 1
    n: int | None = None
    m: int | None = None
    accumulator_depth: int = 256
    gather_depth: int = 0
    max_reduction: int = 65536

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "registers_every"):
            check_integer(name, getattr(self, name), 1, MOST_ELEMENTS)
        check_choice("dataflow", self.dataflow, DATAFLOWS)
        check_integer("max_reduction", self.max_reduction, 1, MOST_REDUCTION)
        check_integer("accumulator_depth", self.accumulator_depth, 1, MOST_DEPTH)
        check_integer("gather_depth", self.gather_depth, 0, MOST_DEPTH)
        for name in ("format_b", "accumulator", "out"):  # what they stand for, so that equal tiles are equal
            object.__setattr__(self, name, getattr(self.arithmetic, name))
        if (self.n is None) != (self.m is None):
            raise ValueError(f"n and m belong together, not n = {self.n!r} with m = {self.m!r}")
        if self.n is not None and self.m is not None:
            check_pattern(self.n, self.m)
            if self.m == 1:
                object.__setattr__(self, "n", None)
                object.__setattr__(self, "m", None)
        if self.gather_depth and not self.has(OUTPUT):
            raise ValueError(
                f"gather_depth = {self.gather_depth} needs an output-stationary dataflow, not dataflow = "
                f"{self.dataflow!r}"
            )
        if self.gather_depth and self.m is not None:
            raise ValueError(
                f"gather_depth = {self.gather_depth} needs dense weights, not n = {self.n}, m = {self.m}"
            )

    # ---- the design file's table ----

    SPARSITY_KEYS = ("n", "m")
    ARITHMETIC_KEYS = ("format", "format_b", "accumulator", "out", "saturate", "max_reduction")

    def to_dict(self) -> dict[str, object]:
        """The table of the design file that makes these parameters."""
        table: dict[str, object] = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in self.SPARSITY_KEYS
        }
        if self.accumulator is None:
            del table["accumulator"]
        else:
            table["accumulator"] = dict(zip(("msb", "lsb"), self.accumulator, strict=True))
        if self.m is not None:
            table["sparsity"] = {"n": self.n, "m": self.m}
        return table

    @classmethod
    def from_dict(cls, table: dict[str, object]) -> "SystolicTileParams":
        """Parameters from the table of a design file; without ``sparsity`` the weights are dense.

        Raises:
            TypeError, ValueError: naming the key, its value and what is allowed.
        """
        names = [field.name for field in fields(cls) if field.name not in cls.SPARSITY_KEYS]
        check_keys("[systolic-tile]", table, (*names, "sparsity"), needed=("rows", "columns", "dataflow"))
        values = {name: value for name, value in table.items() if name != "sparsity"}
        sparsity = table.get("sparsity", {})
        if "sparsity" in table:
            check_keys("[systolic-tile.sparsity]", sparsity, cls.SPARSITY_KEYS, needed=cls.SPARSITY_KEYS)
        assert isinstance(sparsity, dict)
        return cls(**values, **sparsity)  # type: ignore[arg-type]

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """What its elements compute with."""
        return Arithmetic(**{name: getattr(self, name) for name in self.ARITHMETIC_KEYS})

    def with_formats(self, format: str, format_b: str) -> "SystolicTileParams":
        """The tile for operands of other formats, in the same geometry (`Arithmetic.changes`)."""
        return replace(self, **self.arithmetic.changes(format, format_b))

    @property
    def is_dense(self) -> bool:
        """Whether its weights are."""
        return self.m is None

    @property
    def dense(self) -> "SystolicTileParams":
        """The tile for dense weights in the same geometry."""
        return replace(self, n=None, m=None)

    @property
    def pairs_per_cycle(self) -> int:
        """Products in a cycle: one of each element."""
        return self.rows * self.columns

    # ---- dataflows and blocks ----

    def has(self, dataflow: str) -> bool:
        """Whether jobs can have that dataflow."""
        return self.dataflow in (dataflow, BOTH)

    def check_dataflow(self, dataflow: str | None) -> None:
        """Raise unless a job can have ``dataflow``; None leaves the choice to the tile."""
        if dataflow is None:
            return
        check_choice("dataflow", dataflow, (WEIGHT, OUTPUT))
        if not self.has(dataflow):
            raise ValueError(f"dataflow must be {self.dataflow!r}, which the design has, not {dataflow!r}")

    @property
    def block(self) -> int:
        """Activations that an element chooses from: m, or 1 where weights are dense."""
        return self.m or 1

    @property
    def kept(self) -> int:
        """Weights of a block at most: n, or 1 where weights are dense."""
        return self.n or 1

    # ---- derived widths ----

    @property
    def index_bits(self) -> int:
        """Bits of a weight's place in its block; none where weights are dense."""
        return (self.block - 1).bit_length()

    @property
    def weight_bits(self) -> int:
        """Bits of a weight with its place."""
        return self.arithmetic.b.bits + self.index_bits

    @property
    def partial_bits(self) -> int:
        """Bits of a sum that leaves a column, of ``rows`` products, without flags."""
        return min(
            self.arithmetic.accumulator_bits, self.arithmetic.product_bits + (self.rows - 1).bit_length()
        )

    # ---- derived latencies, in clock cycles ----

    @property
    def row_stages(self) -> int:
        """Pipeline registers along a column."""
        return -(-self.rows // self.registers_every)

    @property
    def column_stages(self) -> int:
        """Pipeline registers along a row."""
        return -(-self.columns // self.registers_every)

    @property
    def gather_latency(self) -> int:
        """From an admitted beat to the array: reading kept activations."""
        return 1 if self.gather_depth else 0

    @property
    def element_latency(self) -> int:
        """From operands at an element's ports to the register that holds their sum."""
        return 1 + self.arithmetic.multiply_latency + 1

    @property
    def array_latency(self) -> int:
        """From operands at the array's edge to their complete sums, all columns side by side."""
        drain = 1 if self.has(OUTPUT) else 0
        return self.element_latency + self.row_stages + self.column_stages - 1 + drain

    @property
    def hold_latency(self) -> int:
        """From sums of the array to sums over all blocks of K."""
        return 2 if self.has(WEIGHT) else 0

    @property
    def result_latency(self) -> int:
        """From the beat that completes results to the first of them at the output, when nothing waits."""
        return (
            1  # input buffer
            + self.gather_latency
            + self.array_latency
            + self.hold_latency
            + self.arithmetic.read_out_latency
            + 1  # output buffer
        )

    # ---- derived capacities ----

    @property
    def output_buffer_beats(self) -> int:
        """Beats in the output buffer: as many as can be under way, and a whole array's results."""
        return self.result_latency + (self.rows if self.has(OUTPUT) else 0)

    # ---- for people and the manifest ----

    @property
    def widths(self) -> dict[str, int]:
        """Derived widths, in bits."""
        return {
            "operand_a": self.arithmetic.a.bits,
            "operand_b": self.arithmetic.b.bits,
            "index": self.index_bits,
            "product": self.arithmetic.product_bits,
            "accumulator": self.arithmetic.accumulator_bits,
            "result": self.arithmetic.result_bits,
            "input_payload": payload_bits(self.input_fields),
            "output_payload": payload_bits(self.output_fields),
        }

    @property
    def latencies(self) -> dict[str, int]:
        """Derived latencies, in clock cycles; constants of the design."""
        return {
            "element": self.element_latency,
            "array": self.array_latency,
            "result": self.result_latency,
        }

    @property
    def capacities(self) -> dict[str, int]:
        """What the tile holds."""
        return {
            "elements": self.rows * self.columns,
            "multipliers": self.rows * self.columns,
            "accumulator_rows": self.accumulator_depth if self.has(WEIGHT) else 0,
            "gather_vectors": self.gather_depth,
            "output_buffer_beats": self.output_buffer_beats,
            "max_reduction": self.max_reduction,
        }

    @property
    def contract(self) -> list[str]:
        """What a user of the ports must know, in sentences."""
        operand = "a[row]" if self.m is None else "a[row][index[column]]"
        sentences = [*self.arithmetic.contract]
        if self.has(WEIGHT):
            sentences += [
                "Weight-stationary: a beat with load stores b as row 0, 1, .. of the next weights; rows that "
                f"are not loaded are zero. At most {self.rows} rows.",
                "A beat with compute gives, in each column, the sum over rows of "
                f"{operand} * weights[row][column]; with first the loaded weights take over, for it and all "
                "that follow; load and compute may share a beat.",
                "The sums of the beats since first are rows 0, 1, .. of a block of results, at most "
                f"{self.accumulator_depth}: with hold they are added to the sums that the row holds; with "
                "give they are given out, else held.",
            ]
        if self.has(OUTPUT):
            sentences += [
                f"Output-stationary: every beat adds {operand} * b[column] to the sum of (row, column); with "
                "first sums begin anew; with give the sums of rows 0 .. count - 1 are given out, a row in "
                f"each beat of o. count is from 1 to {self.rows}.",
                "A beat that lets sums out waits until those of an earlier give have left: count cycles.",
            ]
        if self.dataflow == BOTH:
            sentences.append(
                "output_stationary says which of the two a beat is. Such a beat uses up the weights in use: "
                "the next one with compute needs first."
            )
        if self.gather_depth:
            sentences.append(
                "Output-stationary: with fresh a is used, and kept at place pick; else what is kept there is "
                f"used. pick is below {self.gather_depth}."
            )
        return [
            *sentences,
            "last marks a job's final beat; it comes out with the final beat of its results.",
            f"A sum of more than {self.max_reduction} products wraps the accumulators.",
            "A raised valid stays, with its payload, until ready; no path leads from any input to any "
            "output within a cycle.",
            "With input always valid and room for results a beat is taken in every cycle, but for those "
            "that wait as said.",
        ]

    def describe(self) -> dict[str, dict[str, Any]]:
        """What else `skiptile show` tells: the cycles of square products, and how many multipliers work."""
        rows: dict[str, Any] = {}
        for dataflow in (WEIGHT, OUTPUT):
            for size in [s for s in (32, 256) if s <= self.max_reduction and self.has(dataflow)]:
                cycles = job_cycles(self, size, size, size, dataflow)
                work = size * size * compressed_length(size, self.kept, self.block)
                share = work / (cycles * self.rows * self.columns)
                name = f"{dataflow.split('-')[0]}_{size}x{size}x{size}"
                rows[name] = f"{cycles} cycles, {share:.1%} of the multipliers at work"
        return {"predicted_cycles": rows} if rows else {}

    # ---- ports ----

    def is_streamed(self, beats: Mapping[str, np.ndarray]) -> np.ndarray:
        """Which beats are output-stationary."""
        if "output_stationary" in beats:
            return np.asarray(beats["output_stationary"]) == 1
        return np.full(len(beats["first"]), self.has(OUTPUT))

    def count_outputs(self, beats: Mapping[str, np.ndarray]) -> int:
        """Output beats that input payloads must give."""
        streamed, gives = self.is_streamed(beats), np.asarray(beats["give"]) == 1
        rows = int(np.sum(beats["count"][streamed & gives])) if self.has(OUTPUT) else 0
        return rows + (int(np.sum(~streamed & gives & (beats["compute"] == 1))) if self.has(WEIGHT) else 0)

    @property
    def input_fields(self) -> tuple[Field, ...]:
        """Fields of the input payload."""
        activations = (self.rows,) if self.m is None else (self.rows, self.m)
        flags = {
            "load": self.has(WEIGHT),
            "compute": self.has(WEIGHT),
            "first": True,
            "hold": self.has(WEIGHT),
            "give": True,
            "last": True,
            "output_stationary": self.dataflow == BOTH,
        }
        optional = [
            *([Field("index", self.index_bits, (self.columns,))] if self.index_bits else []),
            *([Field("fresh", 1), Field("pick", self.pick_bits)] if self.gather_depth else []),
            *([Field("count", self.rows.bit_length())] if self.has(OUTPUT) else []),
        ]
        return (
            self.arithmetic.operand_field("a", activations),
            self.arithmetic.operand_field("b", (self.columns,)),
            *optional,
            *(Field(name, 1) for name, there in flags.items() if there),
            *self.arithmetic.shift_fields,
        )

    @property
    def pick_bits(self) -> int:
        """Bits of the number of a kept vector."""
        return max(1, (self.gather_depth - 1).bit_length())

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Fields of the output payload: a row of results."""
        return (*self.arithmetic.result_fields((self.columns,)), Field("last", 1))


# ---- the cycle model ----


class Job(NamedTuple):
    """The shape of a product ``a @ b``: (M, K) by (K, N); the dataflow None is the tile's best."""

    m: int
    k: int
    n: int
    dataflow: str | None = None


class Run(NamedTuple):
    """A block of M against all blocks of N and K of a panel, as far as clock cycles go.

    Attributes:
        dataflow: one of the two.
        lead: beats before its first event: loads before the first activations, or operands up to the first
            sums that are complete.
        body: from there to its last beat.
        tail: beats of activations at its end beside which the next weights can be loaded, or results that
            its last beat completes.
    """

    dataflow: str
    lead: int
    body: int
    tail: int


class Block(NamedTuple):
    """Runs, one for each panel, for ``times`` blocks of M one after the other."""

    runs: list[Run]
    times: int


def cut(length: int, most: int) -> list[tuple[int, int]]:
    """``length`` in as few parts of at most ``most`` as can be, as equal as can be: (size, how many)."""
    parts = -(-length // most)
    if not parts:
        return []
    size, larger = divmod(length, parts)
    return [part for part in ((size + 1, larger), (size, parts - larger)) if part[1]]


def compressed_length(k: int, n: int, m: int) -> int:
    """Length of a reduction of ``k`` of which n of every m are there; the last block may be short."""
    return k // m * n + min(n, k % m)


def job_cycles(params: SystolicTileParams, m: int, k: int, n: int, dataflow: str | None = None) -> int:
    """Clock cycles of ``a @ b``, (m, k) by (k, n), from the first beat taken to the last result given.

    Input is always there and output always taken. With N:M weights, n of every m along K are there.

    Raises:
        TypeError, ValueError: a size that is none, a dataflow that the design does not have.
    """
    return sequence_cycles(params, [(m, k, n, dataflow)])


def sequence_cycles(params: SystolicTileParams, jobs: Iterable[tuple[Any, ...]]) -> int:
    """The same for jobs, each a `Job` or its values, that follow each other without a pause."""
    blocks: list[Block] = []
    for values in jobs:
        numbers: list[Any] = [int(value) if isinstance(value, np.integer) else value for value in values]
        job = Job(*numbers)
        for name, size in zip("mkn", job, strict=False):
            check_integer(name, size, 0, params.max_reduction if name == "k" else MOST_SIZE)
        length = compressed_length(job.k, params.kept, params.block)
        blocks += job_blocks(params, job.m, [(length, job.n)], job.dataflow)
    return count_cycles(params, blocks)


def job_blocks(
    params: SystolicTileParams, m: int, panels: list[tuple[int, int]], dataflow: str | None = None
) -> list[Block]:
    """The blocks of a product, in order, for panels (length of K, columns)."""
    params.check_dataflow(dataflow)
    if dataflow is None and params.dataflow == BOTH:
        dataflow = best_dataflow(params, m, panels)
    dataflow = dataflow or params.dataflow
    make = _weight_stationary if dataflow == WEIGHT else _output_stationary
    return [
        Block([make(params, rows, length, width) for length, width in panels if length and width], times)
        for rows, times in cut(m, block_rows(params, dataflow))
    ]


def best_dataflow(params: SystolicTileParams, m: int, panels: list[tuple[int, int]]) -> str:
    """The dataflow of fewer cycles."""
    return min(
        (WEIGHT, OUTPUT), key=lambda dataflow: count_cycles(params, job_blocks(params, m, panels, dataflow))
    )


def block_rows(params: SystolicTileParams, dataflow: str) -> int:
    """Rows of results in a block at most."""
    return params.accumulator_depth if dataflow == WEIGHT else params.rows


def _weight_stationary(params: SystolicTileParams, m: int, length: int, width: int) -> Run:
    """Each of the folds (block of N, block of K) takes its m beats, or as many as load the next weights."""
    across, along = -(-width // params.columns), -(-length // params.rows)
    folds, lead = across * along, min(length, params.rows)
    short = length - (along - 1) * params.rows  # rows of the last weights along K
    if along == 1:
        return Run(WEIGHT, lead, (folds - 1) * max(m, short) + m, m)
    body = across * max(m, short) + (folds - 1 - across) * max(m, params.rows) + m
    return Run(WEIGHT, lead, body, m)


def _output_stationary(params: SystolicTileParams, m: int, length: int, width: int) -> Run:
    """Each block of N takes its reduction, or as long as giving the m results before it."""
    across = -(-width // params.columns)
    return Run(OUTPUT, length, (across - 1) * max(length, m), m)


def count_cycles(params: SystolicTileParams, blocks: Iterable[Block]) -> int:
    """Clock cycles of blocks that follow each other, from the first beat taken to the last result given."""
    last: Run | None = None
    beats = 0
    for runs, times in blocks:
        if not runs:
            continue
        beats += _beats(runs, last) + (times - 1) * _beats(runs, runs[-1])
        last = runs[-1]
    if last is None:
        return 0
    given = last.tail - 1 if last.dataflow == OUTPUT else 0
    return beats + params.result_latency + given


def _beats(runs: Iterable[Run], before: Run | None) -> int:
    """Cycles from the last beat of the run ``before`` to the last one of ``runs``."""
    beats = 0
    for run in runs:
        wait = run.lead
        if before is not None and run.dataflow == WEIGHT:
            # weights are loaded beside activations, or while results are given, which sums wait for
            beside = before.dataflow == WEIGHT
            wait = max(run.lead - before.tail, 0) if beside else max(run.lead, before.tail - 1)
        elif before is not None and before.dataflow == OUTPUT:
            wait = max(run.lead, before.tail)
        beats += wait + run.body
        before = run
    return beats

"""The sparse-skipping MAC tile `mac-tile` (TensorDash, MICRO 2020): its parameters and what it computes.

``acc[r][c] = sum over steps t, lanes l of a[t][c][l] * b[t][r][l]``, for rows x columns processing
elements of ``lanes`` multipliers. Rows skip the zeros of ``b`` by looking ahead in a window of steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from skiptile.golden.arithmetic import Arithmetic, Window, tree_stages
from skiptile.golden.checks import check_choice, check_integer, check_keys
from skiptile.golden.interconnect import (
    INTERCONNECTS,
    Move,
    check_moves,
    cut_moves,
    derive_levels,
    named_moves,
)
from skiptile.golden.payload import Field, payload_bits
from skiptile.golden.schedule import Schedule, count_cycles, schedule

__all__ = [
    "MacTileParams",
    "Schedule",
    "count_cycles",
    "predict_speedup",
    "schedule",
]

MOST_ELEMENTS = 64  # rows, columns or lanes
MOST_LOOKAHEAD = 7
MOST_REDUCTION = 1 << 24
STALL_BITS = 32  # width of the stall counters; they stay at their largest value
TALLY_RADIX = 4  # numbers of pairs that are added up in a cycle
BUFFER_BEATS = 8  # of a context in the staging buffer: its window's two, those on the way, and `LEAD`
MOST_CONTEXTS = 2
SIDES = {
    "b": "one scheduler per row skips the zeros of b",
    "both": "1x1 only: a pair is skipped when either operand is zero",
}


@dataclass(frozen=True, kw_only=True)
class MacTileParams:
    """Parameters of a `mac-tile`, checked; every width, latency and capacity is derived here, once.

    Parameters:
        rows: rows of elements; a row shares one ``b`` operand, its window and its scheduler.
        columns: columns of elements; a column shares one ``a`` operand and its window.
        lanes: multipliers of an element.
        format, format_b: number formats of ``a`` and ``b``; ``format_b`` is ``format`` unless given.
        accumulator, out, saturate: of the sums and results, as `Arithmetic` says.
        max_reduction: longest dot product, in products, that the accumulators hold exactly.
        side: whose zeros are skipped, "b" or (1x1 only) "both".
        lookahead: steps ahead of the current one that the window holds; 0 is the dense tile.
        interconnect: name of an interconnect, or a list of [step, lane offset].
        contexts: windows that a reduction's beats go to in turn; with 2 the scheduler has two cycles for what
            it otherwise decides in one, so that the clock can be faster.
        output_rows: rows of results in one output beat, a divisor of ``rows``.
    """

    rows: int
    columns: int
    lanes: int
    format: str = "int8"
    format_b: str | None = None
    accumulator: Window | str | dict[str, int] | None = None
    out: str | None = None
    saturate: bool = False
    max_reduction: int = 65536
    side: str = "b"
    lookahead: int = 2
    interconnect: str | tuple[Move, ...] = "tensordash"
    contexts: int = 1
    output_rows: int = 1

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "lanes"):
            check_integer(name, getattr(self, name), 1, MOST_ELEMENTS)
        check_integer("max_reduction", self.max_reduction, 1, MOST_REDUCTION)
        for name in ("format_b", "accumulator", "out"):  # what they stand for, so that equal tiles are equal
            object.__setattr__(self, name, getattr(self.arithmetic, name))
        check_choice("side", self.side, SIDES)
        check_integer("lookahead", self.lookahead, 0, MOST_LOOKAHEAD)
        check_integer("contexts", self.contexts, 1, MOST_CONTEXTS)
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
        else:
            check_moves(self.interconnect, self.lanes, self.lookahead)
            moves = tuple((step, offset) for step, offset in self.interconnect)
            object.__setattr__(self, "interconnect", moves)
        if not self.lookahead:  # the dense tile has none of these: one value, so that equal tiles are equal
            object.__setattr__(self, "interconnect", "tensordash")
            object.__setattr__(self, "side", "b")
            object.__setattr__(self, "contexts", 1)
        if self.max_reduction < self.lanes:
            raise ValueError(
                f"max_reduction must hold one step of lanes = {self.lanes} products, not {self.max_reduction}"
            )

    # ---- the design file's table ----

    SPARSITY_KEYS = ("side", "lookahead", "interconnect", "contexts")
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
        if self.lookahead:
            interconnect = self.interconnect
            if not isinstance(interconnect, str):
                interconnect = [list(move) for move in interconnect]  # type: ignore[assignment]
            table["sparsity"] = {
                "side": self.side,
                "lookahead": self.lookahead,
                "interconnect": interconnect,
                "contexts": self.contexts,
            }
        return table

    @classmethod
    def from_dict(cls, table: dict[str, object]) -> "MacTileParams":
        """Parameters from the table of a design file; without ``sparsity`` the tile is dense.

        Raises:
            TypeError, ValueError: naming the key, its value and what is allowed.
        """
        names = [field.name for field in fields(cls) if field.name not in cls.SPARSITY_KEYS]
        check_keys("[mac-tile]", table, (*names, "sparsity"), needed=("rows", "columns", "lanes"))
        values = {name: value for name, value in table.items() if name != "sparsity"}
        sparsity = table.get("sparsity", {"lookahead": 0})
        check_keys("[mac-tile.sparsity]", sparsity, cls.SPARSITY_KEYS)
        assert isinstance(sparsity, dict)
        return cls(**values, **sparsity)

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """What its elements compute with."""
        return Arithmetic(**{name: getattr(self, name) for name in self.ARITHMETIC_KEYS})

    def with_formats(self, format: str, format_b: str) -> "MacTileParams":
        """The tile for operands of other formats, in the same geometry (`Arithmetic.changes`)."""
        return replace(self, **self.arithmetic.changes(format, format_b))

    @property
    def is_dense(self) -> bool:
        """Whether it skips nothing."""
        return not self.lookahead

    @property
    def dense(self) -> "MacTileParams":
        """The dense tile of the same geometry."""
        return replace(self, lookahead=0, interconnect="tensordash")

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
    def reached_steps(self) -> tuple[int, ...]:
        """Steps of the window that a move reaches, in order: no others' operands are needed."""
        return tuple(sorted({step for step, _ in self.moves}))

    # ---- pairs ----

    def effectual(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Which pairs are scheduled: bool (steps, rows, lanes).

        Args:
            a, b: bit patterns (steps, columns, lanes) and (steps, rows, lanes), or with more axes in front.
        """
        pairs = ~self.arithmetic.b.is_zero(b)
        return pairs & ~self.arithmetic.a.is_zero(a) if self.side == "both" else pairs

    @property
    def pairs_per_cycle(self) -> int:
        """Pairs that can be scheduled in a cycle."""
        return self.rows * self.lanes

    # ---- derived widths ----

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
        """Width of the counter of steps."""
        return self.max_steps.bit_length()

    @property
    def cycles_bits(self) -> int:
        """Width of the counter of cycles: each context has a turn, and one of them at least moves a step."""
        return (self.contexts * self.max_steps).bit_length()

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
        return tree_stages(self.lanes)

    @property
    def issue_latency(self) -> int:
        """From taking a beat that ends its reduction to the first issue, when the tile is idle.

        With two contexts for a reduction that begins in an even cycle after reset. In an odd one it is one
        cycle less for a single beat, and one more for others, whose second beat tells what the first is.
        """
        if not self.lookahead:
            return 0
        return 3 if self.contexts == 1 else 8

    @property
    def window_latency(self) -> int:
        """From where the window is to its operands: with two contexts they pass one more register."""
        return self.contexts

    @property
    def element_latency(self) -> int:
        """From an issue to its sum in the accumulator."""
        # select, the window and two for operands; operands alone
        operands = 1 + self.window_latency + 2 if self.lookahead else 1
        return operands + self.arithmetic.multiply_latency + self.tree_levels + 1

    @property
    def tally_latency(self) -> int:
        """From a reduction's last issue to its counters."""
        pairs = tree_stages(self.lanes, TALLY_RADIX) + tree_stages(self.rows, TALLY_RADIX)
        return 2 + pairs + 2  # pairs of each lane; their sum; counters and the queue of finished ones

    @property
    def result_latency(self) -> int:
        """From a reduction's last issue to its first result at the output, when nothing waits."""
        drained = self.element_latency + 1 + self.arithmetic.read_out_latency
        return max(drained + 1, self.tally_latency)  # output buffer; results have their counters beside them

    # ---- derived capacities ----

    @property
    def result_beats(self) -> int:
        """Output beats of one reduction."""
        return self.rows // self.output_rows

    @property
    def output_buffer_beats(self) -> int:
        """Beats in the output buffer: as many as can be under way when one is given per cycle."""
        return self.result_latency

    # ---- for people and the manifest ----

    @property
    def widths(self) -> dict[str, int]:
        """Derived widths, in bits."""
        return {
            "operand_a": self.arithmetic.a.bits,
            "operand_b": self.arithmetic.b.bits,
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
            "issue": self.issue_latency,
            "element": self.element_latency,
            "result": self.result_latency,
        }

    @property
    def capacities(self) -> dict[str, int]:
        """What the tile holds."""
        return {
            "elements": self.rows * self.columns,
            "multipliers": self.rows * self.columns * self.lanes,
            "window_steps": self.window_steps,
            "staging_beats": self.contexts * BUFFER_BEATS if self.lookahead else 0,
            "result_buffers": 2,
            "output_buffer_beats": self.output_buffer_beats,
            "result_beats": self.result_beats,
            "max_reduction": self.max_reduction,
            "max_steps": self.max_steps,
        }

    @property
    def contract(self) -> list[str]:
        """What a user of the ports must know, in sentences."""
        return [
            "result[row][column] is of the sum over steps and lanes of a[step][column][lane] * "
            "b[step][row][lane].",
            *self.arithmetic.contract,
            f"Every beat of i has count = {self.window_steps} but a reduction's last one, which has last = 1 "
            f"and count from 1 to {self.window_steps}; what stands beyond count is ignored.",
            f"A reduction of more than {self.max_reduction} products wraps the accumulators.",
            f"o gives rows 0 .. {self.rows - 1} of a reduction in order, {self.output_rows} in a beat, with "
            "its counters; last marks the final beat.",
            "A raised valid stays, with its payload, until ready; no path leads from any input to any "
            "output within a cycle.",
            "With input always valid, room for results and each reduction of at least result_beats cycles, a "
            "job list takes cycles + issue latency + result latency + result_beats - 1 clock cycles"
            + (", or one less or more: its contexts begin in turn." if self.contexts > 1 else "."),
        ]

    def describe(self) -> dict[str, dict[str, Any]]:
        """What else `skiptile show` tells: the scheduler, and the speed-up over dense for random zeros."""
        if not self.lookahead:
            return {}
        half = self.lanes / 2
        moves = [[step, offset - self.lanes if offset > half else offset] for step, offset in self.moves]
        return {
            "scheduler": {
                "moves": moves,
                "mux_inputs": len(moves),
                **self._left_out(),
                "levels": len(self.levels),
                "lanes_of_levels": [list(level) for level in self.levels],
            },
            "predicted_speedup": {
                f"zeros_{zeros}": round(predict_speedup(self, zeros), 2) for zeros in (0.5, 0.7, 0.9)
            },
        }

    def _left_out(self) -> dict[str, int]:
        """How many moves of a named list this size has no place for, if any."""
        if not isinstance(self.interconnect, str):
            return {}
        left_out = len(named_moves(self.interconnect, self.lookahead)) - len(self.moves)
        return {"moves_left_out": left_out} if left_out else {}

    # ---- ports ----

    def count_outputs(self, beats: Mapping[str, np.ndarray]) -> int:
        """Output beats that input payloads must give."""
        return int(np.sum(beats["last"])) * self.result_beats

    @property
    def input_fields(self) -> tuple[Field, ...]:
        """Fields of the input payload."""
        return (
            self.arithmetic.operand_field("a", (self.window_steps, self.columns, self.lanes)),
            self.arithmetic.operand_field("b", (self.window_steps, self.rows, self.lanes)),
            Field("count", self.window_steps.bit_length()),
            Field("last", 1),
            *self.arithmetic.shift_fields,
        )

    @property
    def counter_fields(self) -> tuple[Field, ...]:
        """Counters of a reduction, in the output payload."""
        return (
            Field("cycles", self.cycles_bits),
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
            *self.arithmetic.result_fields(results),
            Field("row", max(1, (self.rows - 1).bit_length())),
            Field("last", 1),
            *self.counter_fields,
        )


def predict_speedup(params: MacTileParams, zeros: float, *, seed: int = 0) -> float:
    """Speed-up over dense for a long reduction whose zeros are random, a fraction ``zeros`` of all pairs."""
    steps = 4096
    rng = np.random.default_rng(seed)
    effectual = rng.random((steps, params.rows, params.lanes)) >= zeros
    ends = np.arange(steps) == steps - 1
    return steps / int(count_cycles(effectual, ends, params)[0])

"""The cocotb bench of the `mac-tile`: results, counters and every issue against golden.

The fixed cases are a table of shapes, data, idle input and back-pressure, seven of each, in which every
pair of two columns' values occurs once; then late readiness, resets in mid-stream, and random cases.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import numpy as np

from skiptile.golden.formats import Format, IntegerFormat
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import expected_outputs, random_case
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.golden.operands import full_scale, random_operands
from skiptile.golden.payload import Field, unpack_integers
from skiptile.golden.quantise import quantise
from skiptile.golden.schedule import Schedule
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
Shape = tuple[int, int, int]  # M, K, N of a @ b

# ---- the table of cases ----


def _next_prime(number: int) -> int:
    """The least prime above ``number``."""
    candidate = number + 1
    while any(candidate % divisor == 0 for divisor in range(2, candidate)):
        candidate += 1
    return candidate


@dataclass(frozen=True)
class Operand:
    """An operand of the tile: its format, and its pattern in the largest product that is kept."""

    format: Format
    full_scale: int


def _dense(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    patterns = random_operands(rng, operand.format, shape)
    return np.where(operand.format.is_zero(patterns), 1, patterns).astype(operand.format.dtype)


def _full_scale(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Both signs of it; of integers the largest beside the smallest."""
    format, pattern = operand.format, operand.full_scale
    other = format.largest if isinstance(format, IntegerFormat) else pattern | 1 << format.bits - 1
    return rng.choice(np.array([pattern, other], format.dtype), shape)


def _all_zero(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    """Floats have two zeros."""
    format = operand.format
    negative = 0 if isinstance(format, IntegerFormat) else 1 << format.bits - 1
    return rng.choice(np.array([0, negative], format.dtype), shape)


def _one_non_zero(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    patterns = np.zeros(shape, operand.format.dtype)
    patterns[tuple(rng.integers(shape))] = _dense(rng, operand, (1,))[0]
    return patterns


def _alternating(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    patterns = _dense(rng, operand, shape)
    return patterns * (np.indices(shape).sum(axis=0) % 2).astype(patterns.dtype)


@cache
def _digits() -> np.ndarray:
    """All pixels of scikit-learn's real images, 0 to 1; about half are zero."""
    from sklearn.datasets import load_digits

    pixels, _ = load_digits(return_X_y=True)
    return pixels.ravel() / pixels.max()


def _real(rng: Generator, operand: Operand, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    first = int(rng.integers(len(_digits())))
    pixels = np.take(_digits(), range(first, first + size), mode="wrap").reshape(shape)
    return quantise(pixels, operand.format.name)[0]


SHAPES: dict[str, Callable[[MacTileParams], Shape]] = {
    "one": lambda p: (1, 1, 1),
    "below": lambda p: (max(1, p.columns - 1), max(1, p.lanes - 1), max(1, p.rows - 1)),
    "exact": lambda p: (p.columns, p.lanes * p.window_steps, p.rows),
    "above": lambda p: (p.columns + 1, p.lanes * p.window_steps + 1, p.rows + 1),
    "primes": lambda p: (_next_prime(p.columns), _next_prime(9 * p.lanes), _next_prime(p.rows)),
    "multiple": lambda p: (2 * p.columns, 4 * p.lanes * p.window_steps, 2 * p.rows),
    "long": lambda p: (1, 50 * p.lanes - 1, 1),
}
DATA: dict[str, Callable[[Generator, Operand, tuple[int, ...]], np.ndarray]] = {  # of the scheduled operand
    "random": lambda rng, operand, shape: random_operands(rng, operand.format, shape, zeros=0.5),
    "full scale": _full_scale,
    "all zero": _all_zero,
    "all dense": _dense,
    "one non-zero": _one_non_zero,
    "alternating": _alternating,
    "digit images": _real,
}
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
MIXED = "mixed"  # shape and data of cases with reductions of different lengths
RESETS = 4  # fixed cases that are reset in mid-stream
MOST_REDUCTIONS = 8  # of a mixed case


@dataclass(frozen=True)
class Case:
    """One case; everything random in it comes from ``seed``.

    Attributes:
        name: for people and JUnit.
        shape, data: keys of `SHAPES` and `DATA`, or `MIXED`.
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

    def beats(self, params: MacTileParams) -> Arrays:
        """Input payloads, per field (beats, *shape); what stands beyond ``count`` is random."""
        rng = np.random.default_rng(self.seed)
        if self.shape == MIXED:
            jobs, seed = (int(number) for number in rng.integers(1, (MOST_REDUCTIONS + 1, 1 << 31)))
            return random_case(params, jobs, seed)[0]
        m, k, n = SHAPES[self.shape](params)
        k = min(k, params.max_reduction)
        arithmetic = params.arithmetic
        full_scale_a, full_scale_b = full_scale(arithmetic)
        if self.data == "full scale":
            a = _full_scale(rng, Operand(arithmetic.a, full_scale_a), (m, k))
        else:
            a = random_operands(rng, arithmetic.a, (m, k), zeros=0.3)
        b = DATA[self.data](rng, Operand(arithmetic.b, full_scale_b), (n, k))
        shift = int(rng.integers(arithmetic.accumulator_bits)) if arithmetic.shift_bits else 0
        jobs = TileJobs(a, b.T, params, shift)
        beats = jobs.beats(0, len(jobs))
        beyond = np.arange(params.window_steps) >= beats["count"][:, None]
        for name, format in (("a", arithmetic.a), ("b", arithmetic.b)):
            beats[name][beyond] = random_operands(rng, format, beats[name][beyond].shape, specials=0.1)
        return beats


def cases(params: MacTileParams, count: int, seed: int) -> list[Case]:
    """The fixed cases and ``count`` random ones."""
    return [
        Case(f"{index:03d} {' / '.join(row[:4])}{' / reset' if row[4] else ''}", *row, seed=(seed, index))
        for index, row in enumerate(_rows(count, np.random.default_rng(seed)))
    ]


def _rows(count: int, rng: Generator) -> Iterator[tuple[str, str, str, str, bool]]:
    """Shape, data, idle, back-pressure and whether the case is interrupted."""
    shapes, data, paces = list(SHAPES), list(DATA), list(PACES)
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


class IssueTrace:
    """Follows the schedule through the manifest's probes: what was taken and advanced in each issue."""

    def __init__(
        self, domain: ClockDomain, dut: Any, manifest: Mapping[str, Any], params: MacTileParams
    ) -> None:
        self._params = params
        self._probes = {
            probe["name"]: [dut[port["instance"]][port["port"]] for port in probe["ports"]]
            for probe in manifest["probes"]
        }
        self._rows: list[dict[str, list[int]]] = []
        domain.agents.append(self)

    def clear(self) -> None:
        self._rows.clear()

    def drive(self) -> None:
        pass

    def sample(self) -> None:
        issue = self._probes.get("issue")
        if issue and high(issue[0]):
            row = {
                name: [int(str(handle.value), 2) for handle in handles]
                for name, handles in self._probes.items()
            }
            self._rows.append(row)

    def check(self, wanted: Schedule) -> None:
        """Compare with golden, as far as there are probes: the dense tile selects nothing."""
        if "advance" in self._probes:
            advance = np.array([row["advance"][0] for row in self._rows])
            compare("steps that an issue advances", advance, wanted.advance)
        if "taken" in self._probes:
            compare("selection of (issue, row, lane)", self._selections(), wanted.select)

    def _selections(self) -> np.ndarray:
        """Index of the move, -1 for none: (issues, rows, lanes)."""
        taken = self._lanes("taken", 1)
        if not self._params.select_bits:
            return taken - 1
        return np.where(taken, self._lanes("select", self._params.select_bits), -1)

    def _lanes(self, name: str, width: int) -> np.ndarray:
        """What a probe of each row showed, lane by lane: (issues, rows, lanes)."""
        lanes = Field("lanes", width, (self._params.lanes,))
        values = [value for row in self._rows for value in row[name]]
        return unpack_integers([lanes], values)["lanes"].reshape(len(self._rows), -1, self._params.lanes)


class TB:
    """The tile with a source, a sink, a monitor on both streams, a watchdog and the trace of issues."""

    def __init__(
        self,
        dut: Any,
        manifest: Mapping[str, Any],
        params: MacTileParams,
        idle: Pace,
        stall: Pace,
        rng: Random,
    ) -> None:
        self._reset_cycles = manifest["reset"]["cycles"]
        self.domain = ClockDomain(dut[manifest["clock"]], dut[manifest["reset"]["port"]])
        self.i, self.o = (StreamPorts.find(dut, manifest, name) for name in ("i", "o"))
        self.input = Monitor(self.domain, self.i, rule=beat_rule(self.i, params))
        self.output = Monitor(self.domain, self.o)
        self.trace = IssueTrace(self.domain, dut, manifest, params)
        self.source = Source(self.domain, self.i, rng, pace=idle)
        self.sink = Sink(self.domain, self.o, pace=stall)
        Watchdog(self.domain, [self.input, self.output])

    async def reset(self) -> None:
        """Reset the tile; nothing is left of what was going on."""
        self.source.waiting.clear()
        await self.domain.reset(self._reset_cycles)
        self.sink.taken.clear()
        self.trace.clear()

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


def beat_rule(ports: StreamPorts, params: MacTileParams) -> Rule:
    """What the tile may be sent: full beats, but for a reduction's last one."""

    def rule(payload: int) -> str | None:
        count, last = ports.extract(payload, "count"), ports.extract(payload, "last")
        if not 1 <= count <= params.window_steps:
            return f"count must be from 1 to {params.window_steps}, not {count}"
        if count < params.window_steps and not last:
            return (
                f"a partial beat in mid-reduction: count = {count}, not {params.window_steps}, with last = 0"
            )
        return None

    return rule


async def check(dut: Any, manifest: Mapping[str, Any], params: MacTileParams, case: Case) -> dict[str, int]:
    """Run ``case``: results, counters and issues are golden's, whatever the stalls."""
    rng = Random(str(case.seed))
    idle, stall = ((PACES | LATE)[name](rng) for name in (case.idle, case.stall))
    beats = case.beats(params)
    wanted, scheduled = expected_outputs(params, beats)
    tb = TB(dut, manifest, params, idle, stall, rng)
    await tb.reset()
    if case.interrupted:
        tb.source.send(tb.i.pack(beats))
        await tb.domain.cycles(rng.randrange(1, 60))
        await tb.reset()
    outputs = await tb.run(beats, len(wanted["row"]))
    for name, values in wanted.items():
        compare(name, outputs[name], values)
    tb.trace.check(scheduled)
    check_counters(tb, outputs, params, case)
    return {
        "reductions": len(scheduled.cycles),
        "cycles": int(scheduled.cycles.sum()),
        "elapsed": tb.elapsed,
    }


def check_counters(tb: TB, outputs: Arrays, params: MacTileParams, case: Case) -> None:
    """Bounds on the counters that golden does not know, and on all of them together."""
    last = outputs["last"] == 1
    cycles, effectual = outputs["cycles"][last], outputs["effectual"][last]
    stalls = {name: outputs[name][last].sum() for name in ("input_stalls", "output_stalls")}
    assert np.all(effectual <= cycles * params.rows * params.lanes), "a utilisation above 1"
    busy = cycles.sum() + sum(stalls.values())
    assert busy <= tb.elapsed, f"{busy} cycles of issues and stalls in {tb.elapsed} elapsed cycles"
    if case.idle == "always":
        assert stalls["input_stalls"] == 0, (
            f"{stalls['input_stalls']} input stalls though input was always there"
        )
        if case.stall == "always" and len(cycles) == 1:
            alone = cycles.sum() + params.issue_latency + params.result_latency + params.result_beats - 1
            assert tb.elapsed == alone, f"one reduction took {tb.elapsed} elapsed cycles, not {alone}"


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

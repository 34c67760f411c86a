"""The cocotb bench of the `mac-tile`: results, counters and every issue against golden.

`skiptile.sim.benches.products` says which cases there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import expected_outputs, random_case
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.golden.operands import random_operands
from skiptile.golden.payload import Field, unpack_integers
from skiptile.golden.schedule import Schedule, selected_moves
from skiptile.sim.benches import products
from skiptile.sim.benches.products import MIXED, Shape, compare, matrices, next_prime, table_of_cases
from skiptile.sim.streams import Arrays, ClockDomain, Rule, StreamPorts, high

SHAPES: dict[str, Callable[[MacTileParams], Shape]] = {
    "one": lambda p: (1, 1, 1),
    "below": lambda p: (max(1, p.columns - 1), max(1, p.lanes - 1), max(1, p.rows - 1)),
    "exact": lambda p: (p.columns, p.lanes * p.window_steps, p.rows),
    "above": lambda p: (p.columns + 1, p.lanes * p.window_steps + 1, p.rows + 1),
    "primes": lambda p: (next_prime(p.columns), next_prime(9 * p.lanes), next_prime(p.rows)),
    "multiple": lambda p: (2 * p.columns, 4 * p.lanes * p.window_steps, 2 * p.rows),
    "long": lambda p: (1, 50 * p.lanes - 1, 1),
}
MOST_REDUCTIONS = 8  # of a mixed case


@dataclass(frozen=True)
class Case(products.Case):
    """A product of matrices; `MIXED`: reductions of different lengths."""

    def beats(self, params: MacTileParams) -> Arrays:
        """Input payloads, per field (beats, *shape); what stands beyond ``count`` is random."""
        rng = np.random.default_rng(self.seed)
        if self.shape == MIXED:
            jobs, seed = (int(number) for number in rng.integers(1, (MOST_REDUCTIONS + 1, 1 << 31)))
            return random_case(params, jobs, seed)[0]
        m, k, n = SHAPES[self.shape](params)
        arithmetic = params.arithmetic
        a, b = matrices(rng, arithmetic, self.data, (m, min(k, params.max_reduction), n))
        shift = int(rng.integers(arithmetic.accumulator_bits)) if arithmetic.shift_bits else 0
        jobs = TileJobs(a, b, params, shift)
        beats = jobs.beats(0, len(jobs))
        beyond = np.arange(params.window_steps) >= beats["count"][:, None]
        for name, format in (("a", arithmetic.a), ("b", arithmetic.b)):
            beats[name][beyond] = random_operands(rng, format, beats[name][beyond].shape, specials=0.1)
        return beats


def cases(params: MacTileParams, count: int, seed: int) -> list[Case]:
    """The fixed cases and ``count`` random ones."""
    return table_of_cases(Case, SHAPES, count, seed)


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
        if "select" in self._probes:
            compare("selection of (issue, row, lane)", self._selections(), wanted.select)

    def _selections(self) -> np.ndarray:
        """Index of the move, -1 for none: (issues, rows, lanes)."""
        params = self._params
        lanes = Field("lanes", len(params.moves), (params.lanes,))
        values = [value for row in self._rows for value in row["select"]]
        bits = unpack_integers([lanes], values)["lanes"]
        return selected_moves(bits).reshape(len(self._rows), -1, params.lanes)


class TB(products.TB):
    """The tile, with the trace of its issues."""

    def __init__(
        self, dut: Any, manifest: Mapping[str, Any], params: MacTileParams, case: Case, rng: Random
    ) -> None:
        idle, stall = case.paces(rng)
        super().__init__(dut, manifest, idle, stall, rng, rule=lambda ports: beat_rule(ports, params))
        self.trace = IssueTrace(self.domain, dut, manifest, params)

    async def reset(self) -> None:
        """Reset the tile; nothing is left of what was going on."""
        await super().reset()
        self.trace.clear()


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
    beats = case.beats(params)
    wanted, scheduled = expected_outputs(params, beats)
    tb = TB(dut, manifest, params, case, Random(str(case.seed)))
    await tb.reset()
    if case.interrupted:
        await tb.interrupt(beats)
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
            # Contexts begin in turn, and a beat says nothing of itself before the next one comes.
            longer = outputs["steps"][0] > params.window_steps
            late = alone if params.contexts == 1 else alone + (1 if longer else -1)
            allowed = (alone, late)
            assert tb.elapsed in allowed, f"one reduction took {tb.elapsed} elapsed cycles, not {alone}"

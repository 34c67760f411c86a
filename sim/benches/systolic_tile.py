"""The cocotb bench of the `systolic-tile`: results and clock cycles against golden.

`skiptile.sim.benches.products` says which cases there are. Those of the table are a product in each dataflow
that the design has, one right behind the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from skiptile.golden.nm import prune
from skiptile.golden.systolic_tile import OUTPUT, WEIGHT, SystolicTileParams, count_cycles
from skiptile.golden.systolic_tile_cases import expected_outputs, random_case
from skiptile.golden.systolic_tile_jobs import SystolicJobs, sequence_beats
from skiptile.sim.benches import products
from skiptile.sim.benches.products import (
    MIXED,
    Generator,
    Shape,
    compare,
    matrices,
    next_prime,
    table_of_cases,
)
from skiptile.sim.streams import Arrays, StreamPorts

SHAPES: dict[str, Callable[[int, int, int], Shape]] = {  # of rows, columns, and what rows take of K
    "one": lambda rows, columns, along: (1, 1, 1),
    "below": lambda rows, columns, along: (max(1, rows - 1), max(1, along - 1), max(1, columns - 1)),
    "exact": lambda rows, columns, along: (rows, along, columns),
    "above": lambda rows, columns, along: (rows + 1, along + 1, columns + 1),
    "primes": lambda rows, columns, along: (next_prime(rows), next_prime(2 * along), next_prime(columns)),
    "multiple": lambda rows, columns, along: (2 * rows, 3 * along, 2 * columns),
    "long": lambda rows, columns, along: (21, 9 * along - 1, 1),
}
MOST_PRODUCTS = 8  # of a mixed case


@dataclass(frozen=True)
class Case(products.Case):
    """A product in each dataflow; `MIXED`: products of different shapes."""

    def beats(self, params: SystolicTileParams) -> tuple[Arrays, int | None]:
        """Input payloads, per field (beats, *shape), and their clock cycles, where golden tells them."""
        rng = np.random.default_rng(self.seed)
        if self.shape == MIXED:
            jobs, seed = (int(number) for number in rng.integers(1, (MOST_PRODUCTS + 1, 1 << 31)))
            return random_case(params, jobs, seed)[0], None
        sequence = [
            self._product(rng, params, dataflow) for dataflow in (WEIGHT, OUTPUT) if params.has(dataflow)
        ]
        rng.shuffle(sequence)  # type: ignore[arg-type]
        cycles = count_cycles(params, [block for product in sequence for block in product.blocks])
        return sequence_beats(sequence), cycles

    def _product(self, rng: Generator, params: SystolicTileParams, dataflow: str) -> SystolicJobs:
        arithmetic = params.arithmetic
        m, k, n = SHAPES[self.shape](params.rows, params.columns, params.rows * params.block)
        a, b = matrices(rng, arithmetic, self.data, (m, min(k, params.max_reduction), n))
        if params.m is not None:
            keys = np.where(arithmetic.b.is_zero(b), 0, 1 + rng.random(b.shape))
            b = np.where(prune(keys, params.kept, params.block), b, np.zeros((), b.dtype))
        shift = int(rng.integers(arithmetic.accumulator_bits)) if arithmetic.shift_bits else 0
        return SystolicJobs(a, b, params, shift, dataflow)


def cases(params: SystolicTileParams, count: int, seed: int) -> list[Case]:
    """The fixed cases and ``count`` random ones."""
    return table_of_cases(Case, SHAPES, count, seed)


class BeatRule:
    """What the tile may be sent: `SystolicTileParams.contract` for its sender.

    It follows what the sender has brought about: weights loaded and in use, rows of sums held, activations
    kept.
    """

    def __init__(self, ports: StreamPorts, params: SystolicTileParams) -> None:
        self._ports, self._params = ports, params
        self._names = {field.name for field in ports.fields}
        self.reset()

    def reset(self) -> None:
        """Nothing is there any more."""
        self._loaded = 0
        self._used: int | None = None  # rows of the weights in use
        self._row = 0
        self._held: set[int] = set()
        self._begun = False  # sums that stay
        self._kept: set[int] = set()

    def __call__(self, payload: int) -> str | None:
        beat = {
            name: self._ports.extract(payload, name) for name in self._names if name not in ("b", "index")
        }
        if beat.get("output_stationary", self._params.has(OUTPUT)):
            return self._streamed(beat)
        return self._computed(beat) or self._load(beat)

    def _load(self, beat: dict[str, int]) -> str | None:
        if beat["load"]:
            self._loaded += 1
            if self._loaded > self._params.rows:
                return f"weights are loaded for a row {self._loaded - 1} of {self._params.rows}"
        return None

    def _computed(self, beat: dict[str, int]) -> str | None:
        params = self._params
        if not beat["compute"]:
            return None
        if beat["first"]:
            self._used, self._loaded, self._row = self._loaded, 0, 0
        if self._used is None:
            return "activations come before a first"
        row = self._row
        self._row += 1
        if row >= params.accumulator_depth:
            return f"a block of results has a row {row}, where {params.accumulator_depth} are held"
        if beat["hold"] and row not in self._held:
            return f"hold on row {row}, which holds nothing"
        if beat["give"]:
            self._held.discard(row)
        else:
            self._held.add(row)
        return None

    def _streamed(self, beat: dict[str, int]) -> str | None:
        params = self._params
        self._used = None
        self._begun = self._begun or beat["first"] == 1
        if not self._begun:
            return "sums go on before a first"
        if beat["give"] and not 1 <= beat["count"] <= params.rows:
            return f"count must be from 1 to {params.rows}, not {beat['count']}"
        if params.gather_depth:
            if beat["pick"] >= params.gather_depth:
                return f"pick must be below {params.gather_depth}, not {beat['pick']}"
            if not beat["fresh"] and beat["pick"] not in self._kept:
                return f"nothing is kept at place {beat['pick']}"
            self._kept.add(beat["pick"])
        return None


class TB(products.TB):
    """The tile, with the rule on what it is sent."""

    beat_rule: BeatRule

    def __init__(
        self, dut: Any, manifest: Mapping[str, Any], params: SystolicTileParams, case: Case, rng: Random
    ) -> None:
        def rule(ports: StreamPorts) -> BeatRule:
            self.beat_rule = BeatRule(ports, params)
            return self.beat_rule

        idle, stall = case.paces(rng)
        super().__init__(dut, manifest, idle, stall, rng, rule=rule)

    async def reset(self) -> None:
        """Reset the tile; nothing is left of what was going on."""
        await super().reset()
        self.beat_rule.reset()


async def check(
    dut: Any, manifest: Mapping[str, Any], params: SystolicTileParams, case: Case
) -> dict[str, int]:
    """Run ``case``: results are golden's, whatever the stalls; so are clock cycles without stalls."""
    beats, cycles = case.beats(params)
    wanted = expected_outputs(params, beats)
    tb = TB(dut, manifest, params, case, Random(str(case.seed)))
    await tb.reset()
    if case.interrupted:
        await tb.interrupt(beats)
    outputs = await tb.run(beats, len(wanted["last"]))
    for name, values in wanted.items():
        compare(name, outputs[name], values)
    least = len(beats["first"]) + params.result_latency if cycles is None else cycles
    assert tb.elapsed >= least, f"{tb.elapsed} elapsed cycles, where there are {least} at least"
    if cycles is not None and case.idle == case.stall == "always":
        assert tb.elapsed == cycles, f"{tb.elapsed} elapsed cycles without stalls, not {cycles}"
    return {"beats": len(beats["first"]), "cycles": least, "elapsed": tb.elapsed}

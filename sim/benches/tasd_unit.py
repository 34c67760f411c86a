"""The cocotb bench of the `tasd-unit`: every beat and every cycle against golden.

The table of cases is that of `skiptile.sim.benches.products`, with the n of blocks in place of a shape.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from skiptile.golden.formats import IntegerFormat
from skiptile.golden.tasd_unit import TasdUnitParams, expected_outputs
from skiptile.golden.tasd_unit_cases import random_case
from skiptile.sim.benches import products
from skiptile.sim.benches.products import DATA, MIXED, TB, Generator, Operand, compare, table_of_cases
from skiptile.sim.streams import Arrays, Rule, StreamPorts

BLOCKS = 6  # of a case of the table
MOST_BLOCKS = 24  # of a mixed one

COUNTS: dict[str, Callable[[Generator, int], np.ndarray]] = {  # n of each block, for blocks of m
    "1": lambda rng, m: np.full(BLOCKS, 1),
    "2": lambda rng, m: np.full(BLOCKS, min(2, m)),
    "m/2": lambda rng, m: np.full(BLOCKS, max(1, m // 2)),
    "m-1": lambda rng, m: np.full(BLOCKS, max(1, m - 1)),
    "m": lambda rng, m: np.full(BLOCKS, m),
    "1 and m": lambda rng, m: np.resize([1, m], BLOCKS),
    "any": lambda rng, m: rng.integers(1, m + 1, BLOCKS),
}


@dataclass(frozen=True)
class Case(products.Case):
    """A stream of blocks; ``shape`` is a key of `COUNTS`."""

    @property
    def columns(self) -> dict[str, str]:
        others = super().columns
        return {"n": others.pop("shape"), **others}

    def beats(self, params: TasdUnitParams) -> Arrays:
        """Input payloads, per field (beats, *shape)."""
        rng = np.random.default_rng(self.seed)
        if self.shape == MIXED:
            jobs, seed = (int(number) for number in rng.integers(1, (MOST_BLOCKS + 1, 1 << 31)))
            return random_case(params, jobs, seed)[0]
        format = params.number
        largest = format.smallest if isinstance(format, IntegerFormat) else format.largest_bits
        return {
            "block": DATA[self.data](rng, Operand(format, largest), (BLOCKS, params.m)),
            "n": COUNTS[self.shape](rng, params.m),
            "last": rng.integers(0, 2, BLOCKS),
        }


def cases(params: TasdUnitParams, count: int, seed: int) -> list[Case]:
    """The fixed cases and ``count`` random ones."""
    return table_of_cases(Case, COUNTS, count, seed)


def beat_rule(ports: StreamPorts, params: TasdUnitParams) -> Rule:
    """What the unit may be sent."""

    def rule(payload: int) -> str | None:
        n = ports.extract(payload, "n")
        return None if 1 <= n <= params.m else f"n must be from 1 to {params.m}, not {n}"

    return rule


async def check(dut: Any, manifest: Mapping[str, Any], params: TasdUnitParams, case: Case) -> dict[str, int]:
    """Run ``case``: beats are golden's, whatever the stalls, and without stalls none comes late."""
    rng = Random(str(case.seed))
    beats = case.beats(params)
    wanted = expected_outputs(params, beats)
    tb = TB(dut, manifest, *case.paces(rng), rng, rule=lambda ports: beat_rule(ports, params))
    await tb.reset()
    if case.interrupted:
        await tb.interrupt(beats)
    cycles = len(wanted["value"])
    outputs = await tb.run(beats, cycles)
    for name, values in wanted.items():
        compare(name, outputs[name], values)
    least = cycles + params.latencies["result"]
    assert tb.elapsed >= least, f"{tb.elapsed} elapsed cycles, where there are {least} at least"
    if case.idle == case.stall == "always":
        assert tb.elapsed == least, f"{tb.elapsed} elapsed cycles without stalls, not {least}"
    return {"blocks": len(beats["n"]), "cycles": cycles, "elapsed": tb.elapsed}

"""Delivered Verilog as a NumPy function."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skiptile.gen.design import Design, read_design
from skiptile.gen.kinds import KINDS, products_of
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.golden.counters import Counters
from skiptile.golden.payload import pack, payload_words, unpack
from skiptile.sim.build import build
from skiptile.sim.harness import Pace, Simulation

BATCH_BYTES = 1 << 24  # of packed payloads that are in memory at once


@dataclass(frozen=True)
class StreamResult:
    """What a stream of beats gave.

    Attributes:
        outputs: per field of the output payload an array (beats, *shape).
        elapsed: clock cycles from the first beat taken to the last result given, both included.
        trace: as `Simulation.trace`; None unless asked for. For a `mac-tile`: "advance" (issues, 1, 1),
            and, where it is sparse, "select" (issues, rows, lanes), one bit for each move.
    """

    outputs: dict[str, np.ndarray]
    elapsed: int
    trace: dict[str, np.ndarray] | None


class Model:
    """A Verilated design. Calls do not depend on each other: each begins with a reset."""

    def __init__(self, design: Design, library: Path, description: dict[str, Any]) -> None:
        self.design = design
        self._library = library
        self._manifest = description

    def matmul(
        self,
        a: np.ndarray,
        b: Any,
        shift: int = 0,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, Counters]:
        """``a @ b`` for any M, K and N, with input always there and output always taken.

        Args:
            a, b: (M, K) and (K, N), raw bit patterns of the design's formats; ``b`` also in another form
                that the kind's jobs take.
            shift: integer results are divided by 2^shift, to nearest even, and saturated.
            progress: called now and then with jobs sent and jobs in all.
            options: of the kind's jobs, as ``dataflow`` of a `systolic-tile`'s.

        Returns:
            ``c`` (M, N), bit patterns of the results' format (integers for raw results), and the counters
            summed over all jobs.

        Raises:
            TypeError, ValueError: operands that the design cannot multiply.
            SimulationError: the design hangs or breaks its streams' protocol.
        """
        params = self.design.params
        jobs = products_of(self.design.kind).jobs(a, b, params, shift, **options)
        results = np.zeros((jobs.result_beats, payload_words(params.output_fields)), np.uint32)
        elapsed = self._run(jobs, results, progress or (lambda done, total: None)) if len(jobs) else 0
        return jobs.collect(unpack(params.output_fields, results), elapsed)

    def _run(self, jobs: Any, results: np.ndarray, progress: Callable[[int, int], None]) -> int:
        """Fill ``results``, packed payloads, and count the clock cycles."""
        fields = self.design.params.input_fields
        batch = max(1, BATCH_BYTES // (4 * payload_words(fields) * jobs.beats_per_job))
        with self._simulation() as simulation:
            simulation.expect("o", results)
            for start in range(0, len(jobs), batch):
                stop = min(start + batch, len(jobs))
                simulation.send("i", pack(fields, jobs.beats(start, stop)))
                for _ in simulation.run(more=stop < len(jobs)):
                    progress(start, len(jobs))
            simulation.settle()
            return simulation.elapsed

    def stream(
        self,
        beats: dict[str, np.ndarray],
        idle: Pace = None,
        stall: Pace = None,
        seed: int = 0,
        *,
        trace: bool = False,
        reset_after: int | None = None,
    ) -> StreamResult:
        """Send beats as they are, under idle input and stalled output.

        Args:
            beats: per field of the input payload an array (beats, *shape).
            idle, stall: chance of a cycle without valid, without ready; or a bool for each cycle, repeated.
            seed: of these chances, and of registers' first values where the model has random ones.
            trace: keep what each issue does.
            reset_after: first send the beats for so many clock cycles, then reset and send them again.

        Raises:
            SimulationError: the design hangs or breaks its streams' protocol.
        """
        params = self.design.params
        payloads = pack(params.input_fields, beats)
        results = np.zeros((params.count_outputs(beats), payload_words(params.output_fields)), np.uint32)
        with self._simulation(seed=seed, paces={"i": idle, "o": stall}, trace=trace) as simulation:
            if reset_after is not None:
                simulation.send("i", payloads)
                simulation.expect("o", results.copy())
                for _ in simulation.run(cycles=reset_after):
                    pass
                simulation.reset()
            simulation.send("i", payloads)
            simulation.expect("o", results)
            for _ in simulation.run():
                pass
            simulation.settle()
            outputs = unpack(params.output_fields, results)
            return StreamResult(outputs, simulation.elapsed, simulation.trace() if trace else None)

    def _simulation(self, **options: Any) -> Simulation:
        return Simulation(self._library, self._manifest, **options)


def load(design: Design | Path | str | Any, *, random_start: bool = False) -> Model:
    """The model of a design: built now, or taken from the cache.

    Args:
        design: a design, the path of a design file, or a kind's parameters.
        random_start: registers begin with random values (`Model.stream`'s seed), not with zeros.

    Raises:
        DesignError: the design file cannot be used.
        ToolError: a tool is missing, or the build failed.
    """
    design = _as_design(design)
    verilog = generate(design)
    description = manifest(design, verilog)
    return Model(design, build(description, verilog, random_start=random_start), description)


def _as_design(design: Design | Path | str | Any) -> Design:
    if isinstance(design, Design):
        return design
    if isinstance(design, str | os.PathLike):
        return read_design(Path(design))
    for kind, entry in KINDS.items():
        if isinstance(design, entry.params):
            return Design(kind.replace("-", "_"), kind, design)
    raise TypeError(f"design must be a path, a Design or a kind's parameters, not {type(design).__name__}")

"""Verifying a design: its Verilog, in a simulator, on its cocotb bench, against the golden model."""

import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.sim import tools
from skiptile.sim.benches import ENTRY, TASK_VARIABLE, Case, Task
from skiptile.sim.simulators import RESULTS, build_icarus, build_verilator, check_packages, run_bench

Progress = Callable[[float, int, str], None]
"""Called with cases done, cases in all, and a word on what they are."""

_TASK, _MEASURED = "task.json", "measured.jsonl"


@dataclass(frozen=True)
class CaseResult:
    """How one case went.

    Attributes:
        name: of the case.
        columns: what it was.
        measured: what the bench counted.
        seconds: that it took.
        error: what was wrong, None if nothing was.
        traceback: of the error.
    """

    name: str
    columns: dict[str, str]
    measured: dict[str, int]
    seconds: float
    error: str | None
    traceback: str


@dataclass(frozen=True)
class Outcome:
    """The results of a verification.

    Attributes:
        design, kind, simulator: what was verified, and on what.
        seed: of everything random.
        random_cases: how many of the cases were random.
        cases: all of them, in order.
        notes: sentences for the user.
    """

    design: str
    kind: str
    simulator: str
    seed: int
    random_cases: int
    cases: list[CaseResult]
    notes: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[CaseResult]:
        return [case for case in self.cases if case.error is not None]

    @property
    def passed(self) -> bool:
        """Whether there were cases and none failed."""
        return bool(self.cases) and not self.failures

    @property
    def rerun(self) -> str:
        """The options that run the same cases again."""
        return f"--cases {self.random_cases} --seed {self.seed}"

    def summary(self) -> str:
        """One sentence."""
        if self.passed:
            return f"{self.design}: all {len(self.cases)} cases passed (seed {self.seed})"
        count = f"{len(self.failures)} of {len(self.cases)} cases failed"
        return f"{self.design}: {count} with seed {self.seed}; run them again with {self.rerun}"

    def table(self) -> Table:
        """For people: a line for each case."""
        names = list(self.cases[0].columns) if self.cases else []
        table = Table(*names, title=self.design, title_justify="left", caption_justify="left", box=None)
        table.add_column("cycles", justify="right")
        table.add_column("result")
        for case in self.cases:
            values = (Text(value) for value in case.columns.values())
            table.add_row(*values, str(case.measured.get("cycles", "")), self._verdict(case))
        table.caption = Text("\n".join(self.notes)) if self.notes else None
        return table

    def _verdict(self, case: CaseResult) -> Text:
        if case.error is None:
            return Text("passed", "green")
        return Text(f"FAILED (seed {self.seed}): {case.error}", "red")

    def junit(self) -> str:
        """JUnit XML."""
        from junitparser import Failure, JUnitXml, TestCase, TestSuite

        suite = TestSuite(f"{self.design} on {self.simulator}")
        suite.add_property("seed", str(self.seed))
        for result in self.cases:
            case = TestCase(result.name, classname=f"{self.kind}.{self.design}", time=result.seconds)
            if result.error is not None:
                failure = Failure(f"{result.error} (run again with {self.rerun})")
                failure.text = result.traceback
                case.result = failure
            suite.add_testcase(case)
        xml = JUnitXml("skiptile verify")
        xml.add_testsuite(suite)
        return xml.tostring().decode()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "passed": self.passed, "failed": len(self.failures)}


def verify_design(
    design: Design,
    *,
    cases: int = 20,
    seed: int | None = None,
    waves: Path | None = None,
    progress: Progress | None = None,
    simulator: str = "verilator",
    verilog: str | None = None,
) -> Outcome:
    """Run the bench of ``design``'s kind on its Verilog.

    Args:
        design: what to verify.
        cases: random cases beside the bench's fixed ones.
        seed: of everything random; a new one if not given.
        waves: file for waves of all cases; its suffix becomes that of the format (Verilator only).
        progress: told how many cases are done.
        simulator: "verilator", or "icarus", which is slow but knows unknown values.
        verilog: to verify in place of the generated one, say a netlist; only its ports are looked at.

    Raises:
        ToolError: a tool is missing, a build failed, or the simulation crashed.
        OSError: the cache or the waves cannot be written.
    """
    check_packages()
    chosen = secrets.randbits(31) if seed is None else seed
    text = generate(design) if verilog is None else verilog
    description = manifest(design, text)
    if verilog is not None:
        description["probes"] = []
    task = Task(description, cases, chosen, os.getpid(), _MEASURED)
    with (
        tempfile.TemporaryDirectory(prefix="skiptile-verify-") as name,
        _waves(waves) as (trace, format, notes),
    ):
        if simulator == "icarus":
            built = build_icarus(description, text)
        else:
            built = build_verilator(description, text, waves=format)
        folder = Path(name)
        task.save(folder / _TASK)
        listed = task.case_list()
        run_bench(
            built,
            ENTRY,
            folder,
            seed=chosen,
            variables={TASK_VARIABLE: _TASK},
            waves=trace,
            watch=lambda: _report(folder, len(listed), progress),
        )
        results = _results(folder, listed)
    return Outcome(design.name, design.kind, simulator, chosen, cases, results, notes)


def _report(folder: Path, total: int, progress: Progress | None) -> None:
    if progress is not None:
        progress(len(_measured(folder)), total, "cases")


def _measured(folder: Path) -> dict[str, dict[str, int]]:
    """What the bench has counted so far, by the names of its cases."""
    path = folder / _MEASURED
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {entry["name"]: entry["measured"] for entry in map(json.loads, lines)}


def _results(folder: Path, listed: list[Case]) -> list[CaseResult]:
    """Join the bench's cases, cocotb's verdicts and what was measured."""
    from junitparser import JUnitXml, TestCase

    verdicts: dict[str, TestCase] = {
        test.name.removeprefix("bench/case="): test
        for suite in JUnitXml.fromfile(str(folder / RESULTS))
        for test in suite
    }
    measured = _measured(folder)
    return [_result(case, verdicts.get(case.name), measured.get(case.name, {})) for case in listed]


def _result(case: Case, verdict: Any, measured: dict[str, int]) -> CaseResult:
    if verdict is None:
        return CaseResult(case.name, case.columns, {}, 0, "did not run", "")
    error, traceback = None, ""
    if not verdict.is_passed:
        error, traceback = verdict.result[0].message, verdict.result[0].text or ""
    return CaseResult(case.name, case.columns, measured, verdict.time or 0, error, traceback)


@contextmanager
def _waves(path: Path | None) -> Iterator[tuple[Path | None, str | None, list[str]]]:
    """Gives the file for waves, their format and what to tell; at the end the file has its own name."""
    if path is None:
        yield None, None, []
        return
    format = "fst" if tools.has_fst() else "vcd"
    final = (
        path.with_suffix(f".{format}")
        if path.suffix in (".fst", ".vcd")
        else path.with_name(f"{path.name}.{format}")
    )
    notes = [f"waves: {final}"]
    if format == "vcd":
        notes[0] += " (VCD, as Verilator needs liblz4 to write FST: apt-get install liblz4-dev)"
    temporary = final.absolute().with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        yield temporary, format, notes
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)

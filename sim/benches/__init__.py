"""cocotb benches, one module for each kind of block, found by its name: `mac-tile` in `mac_tile.py`.

A bench module has:

- ``cases(params, count, seed) -> list``: its fixed cases and ``count`` random ones, the same list for the
  same arguments. Each has a ``name``, unlike any other's, and ``columns``, what a table shows of it.
- ``async check(dut, manifest, params, case) -> dict``: runs one case on the design and raises
  `AssertionError` unless all is right. Returns what was measured, for the table.

`skiptile.sim.benches.entry` is what cocotb loads: it makes a test of each case. What benches of blocks that
multiply matrices share is in `skiptile.sim.benches.products`.
"""

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from skiptile.gen.kinds import KINDS

TASK_VARIABLE = "SKIPTILE_BENCH_TASK"
ENTRY = "skiptile.sim.benches.entry"


class Case(Protocol):
    """One case of a bench."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> dict[str, str]: ...


def find_bench(kind: str) -> Any:
    """The bench module of a kind of block."""
    return import_module(f"{__name__}.{kind.replace('-', '_')}")


@dataclass(frozen=True)
class Task:
    """What a simulator's process is to do. It gets it as a file and writes measurements to another one.

    Attributes:
        manifest: of the design.
        cases: number of random cases.
        seed: of everything random.
        parent: process that waits for this one.
        measured: file with one line of JSON for each case that has ended.
    """

    manifest: dict[str, Any]
    cases: int
    seed: int
    parent: int
    measured: str

    @property
    def params(self) -> Any:
        """The design's parameter object."""
        return KINDS[self.manifest["kind"]].params.from_dict(self.manifest["parameters"])

    def case_list(self) -> list[Case]:
        """The bench's cases for this task."""
        return find_bench(self.manifest["kind"]).cases(self.params, self.cases, self.seed)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> "Task":
        return cls(**json.loads(path.read_text()))

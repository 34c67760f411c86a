"""What the benchmarks share: timing a call, the machine, cells after synthesis, tables in Markdown."""

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from skiptile.gen.design import Design
from skiptile.gen.verilog import generate
from skiptile.gen.yosys import run_yosys


def machine() -> str:
    """One line that tells on what numbers were measured."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            cpu = next(line.split(": ")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"


def seconds(call: Callable[[], Any], runs: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median time of ``runs`` calls: wall time, or that of another clock."""
    times = []
    for _ in range(runs):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def statistics_of(params: Any, synthesis: str, kind: str = "mac-tile") -> dict[str, Any]:
    """What Yosys' ``stat`` says of the design ``t`` of ``kind`` after ``synthesis``, all modules together."""
    with tempfile.TemporaryDirectory(prefix="skiptile-") as folder:
        place = Path(folder)
        (place / "design.v").write_text(generate(Design("t", kind, params)))
        run_yosys(["read_verilog design.v", synthesis, "tee -q -o stat.json stat -json"], place)
        return json.loads((place / "stat.json").read_text())["design"]


def print_table(title: str, header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """A table that can go into docs/results.md as it is."""
    print(f"\n{title}\n")
    print("| " + " | ".join(map(str, header)) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)

"""Time, memory and size of generated Verilog, each in a process of its own; imports are not counted."""

import json
import subprocess
import sys
from collections.abc import Iterator

from measuring import machine, print_table

SCRIPT = """
import json, re, resource, sys, time
from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.gen.verilog import generate
kind, table = sys.argv[1], json.loads(sys.argv[2])
design = Design("t", kind, KINDS[kind].params.from_dict(table))
start = time.perf_counter()
text = generate(design)
seconds = time.perf_counter() - start
memory = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([seconds, sum(memory) / 1024, len(re.findall("^module ", text, re.M)), text.count("\\n")]))
"""
MAC_TILES = [(1, 1, 1), (2, 2, 16), (4, 4, 16), (8, 8, 16), (16, 16, 16)]
SYSTOLIC_SIZES = (4, 8, 16, 32)


def designs() -> Iterator[tuple[str, str, str, dict[str, object]]]:
    """Size, what it is, kind and table."""
    for what, sparsity in (("dense", {}), ("sparse", {"sparsity": {}})):
        for rows, columns, lanes in MAC_TILES:
            size = {"rows": rows, "columns": columns, "lanes": lanes}
            yield f"{rows}x{columns}x{lanes}", f"{what} mac-tile", "mac-tile", {**size, **sparsity}
    for what, sparsity in (("", {}), (" 2:4", {"sparsity": {"n": 2, "m": 4}})):
        for size in SYSTOLIC_SIZES:
            table = {"rows": size, "columns": size, "dataflow": "both", **sparsity}
            yield f"{size}x{size}", f"systolic-tile{what}", "systolic-tile", table


def main() -> None:
    rows = []
    for size, what, kind, table in designs():
        runs = []
        for _ in range(3):
            command = [sys.executable, "-c", SCRIPT, kind, json.dumps(table)]
            runs.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
        seconds, memory, modules, lines = sorted(runs)[1]
        rows.append((size, what, f"{seconds:.1f}", f"{memory:.0f}", modules, f"{lines:,}"))
    print_table(
        f"Generating a tile, median of 3 ({machine()}):",
        ("tile", "", "seconds", "MiB", "modules", "lines"),
        rows,
    )


if __name__ == "__main__":
    main()

"""Time, memory and size of generated Verilog, each in a process of its own; imports are not counted."""

import json
import subprocess
import sys

from measuring import machine, print_table

SCRIPT = """
import json, re, resource, sys, time
from skiptile.gen.design import Design
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
rows, columns, lanes, lookahead = map(int, sys.argv[1:])
design = Design("t", "mac-tile", MacTileParams(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead))
start = time.perf_counter()
text = generate(design)
seconds = time.perf_counter() - start
memory = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([seconds, sum(memory) / 1024, len(re.findall("^module ", text, re.M)), text.count("\\n")]))
"""
TILES = [(1, 1, 1), (2, 2, 16), (4, 4, 16), (8, 8, 16), (16, 16, 16)]


def main() -> None:
    rows = []
    for lookahead in (0, 2):
        for geometry in TILES:
            runs = []
            for _ in range(3):
                command = [sys.executable, "-c", SCRIPT, *map(str, geometry), str(lookahead)]
                runs.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
            seconds, memory, modules, lines = sorted(runs)[1]
            name = "x".join(map(str, geometry))
            tile = "sparse" if lookahead else "dense"
            rows.append((name, tile, f"{seconds:.1f}", f"{memory:.0f}", modules, f"{lines:,}"))
    print_table(
        f"Generating a tile, median of 3 ({machine()}):",
        ("tile", "", "seconds", "MiB", "modules", "lines"),
        rows,
    )


if __name__ == "__main__":
    main()

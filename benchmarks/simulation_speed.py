"""Clock cycles per second of the fast model, all data in and out, and how long its build takes.

Cycles are per second of the process's own time: it has one thread, and other processes matter less.
Each line builds into an empty cache. ``--large`` adds a 16x16x16 mac-tile.
"""

import argparse
import os
import tempfile
import time
from typing import Any

import numpy as np
from measuring import machine, print_table, seconds

from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.systolic_tile import SystolicTileParams
from skiptile.sim import build
from skiptile.sim.model import Model

Tile = tuple[str, str, str, Any, tuple[int, int, int]]
"""Name, what it is, kind, parameters, and M, K and N of the job."""

MOST_FLAT_MEASURED = 1024  # multipliers


def mac_tile(rows: int, columns: int, lanes: int, lookahead: int) -> Tile:
    params = MacTileParams(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead)
    job = (columns * max(4, 400 // rows) // 4, 2000, rows * 4)
    what = "sparse" if lookahead else "dense"
    return f"{rows}x{columns}x{lanes}", f"{what} mac-tile", "mac-tile", params, job


def systolic_tile(size: int) -> Tile:
    params = SystolicTileParams(rows=size, columns=size, dataflow="both")
    return f"{size}x{size}", "systolic-tile", "systolic-tile", params, (256, 2000, 4 * size)


SMALLEST = mac_tile(1, 1, 1, 0)
TILES = [
    mac_tile(1, 1, 16, 2),
    mac_tile(4, 4, 16, 0),
    mac_tile(4, 4, 16, 2),
    mac_tile(8, 8, 16, 2),
    *(systolic_tile(size) for size in (4, 8, 16)),
]
LARGE = mac_tile(16, 16, 16, 2)


def measure(kind: str, params: Any, job: tuple[int, int, int], *, flat: bool) -> tuple[float, float]:
    """Seconds of the build without Verilator's own sources, and cycles per second."""
    design = Design("t", kind, params)
    verilog = generate(design)
    description = manifest(design, verilog)
    start = time.perf_counter()
    model = Model(design, build.build(description, verilog, flat=flat), description)
    built = time.perf_counter() - start
    rng = np.random.default_rng(0)
    m, k, n = job
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = (rng.integers(-128, 128, (k, n)) * (rng.random((k, n)) >= 0.6)).astype(np.int8)
    elapsed = model.matmul(a, b)[1].elapsed or 0
    return built, elapsed / seconds(lambda: model.matmul(a, b), clock=time.process_time)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", help="only tiles of this kind")
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    tiles = [*TILES, LARGE] if arguments.large else TILES
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SKIPTILE_CACHE"] = folder
        measure(*SMALLEST[2:], flat=True)  # compiles what all models share
        for name, what, kind, params, job in tiles:
            if arguments.kind not in (None, kind):
                continue
            elements = params.capacities["elements"]
            for flat in (True, False):
                if flat and params.capacities["multipliers"] > MOST_FLAT_MEASURED:
                    continue  # takes many minutes
                built, speed = measure(kind, params, job, flat=flat)
                chosen = "yes" if flat == (elements <= build.MOST_FLAT) else ""
                how = "flat" if flat else f"{KINDS[kind].component.repeated} on its own"
                rows.append((name, what, how, chosen, f"{built:.0f}", f"{speed:,.0f}"))
    print_table(
        f"Fast model, median of 5 ({machine()}):",
        ("tile", "", "built", "chosen", "build [s]", "cycles/s"),
        rows,
    )


if __name__ == "__main__":
    main()

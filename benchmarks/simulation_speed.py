"""Clock cycles per second of the fast model, all data in and out, and how long its build takes.

Each line builds into an empty cache. ``--large`` adds the 16x16x16 tile.
"""

import argparse
import math
import os
import tempfile
import time

import numpy as np
from measuring import machine, print_table, seconds

from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.sim import build
from skiptile.sim.model import Model

TILES = [(1, 1, 16, 2), (4, 4, 16, 0), (4, 4, 16, 2), (8, 8, 16, 2)]
LARGE = (16, 16, 16, 2)


def measure(tile: tuple[int, int, int, int], *, flat: bool) -> tuple[float, float]:
    """Seconds of the build without Verilator's own sources, and cycles per second."""
    rows, columns, lanes, lookahead = tile
    params = MacTileParams(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead)
    design = Design("t", "mac-tile", params)
    verilog = generate(design)
    description = manifest(design, verilog)
    start = time.perf_counter()
    model = Model(design, build.build(description, verilog, flat=flat), description)
    built = time.perf_counter() - start
    rng = np.random.default_rng(0)
    jobs = max(4, 400 // rows)
    a = rng.integers(-128, 128, (columns * jobs // 4, 2000)).astype(np.int8)
    b = (rng.integers(-128, 128, (2000, rows * 4)) * (rng.random((2000, rows * 4)) >= 0.6)).astype(np.int8)
    elapsed = model.matmul(a, b)[1].elapsed or 0
    return built, elapsed / seconds(lambda: model.matmul(a, b))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    tiles = [*TILES, LARGE] if parser.parse_args().large else TILES
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SKIPTILE_CACHE"] = folder
        measure((1, 1, 1, 0), flat=True)  # compiles what all models share
        for tile in tiles:
            multipliers = math.prod(tile[:3])
            for flat in (True, False):
                if flat and multipliers > build.MOST_FLAT:
                    continue  # takes many minutes
                built, speed = measure(tile, flat=flat)
                chosen = "yes" if flat == (multipliers <= build.MOST_FLAT) else ""
                name, kind = "x".join(map(str, tile[:3])), "sparse" if tile[3] else "dense"
                how = "flat" if flat else "element on its own"
                rows.append((name, kind, how, chosen, f"{built:.0f}", f"{speed:,.0f}"))
    print_table(
        f"Fast model, median of 5 ({machine()}):",
        ("tile", "", "built", "chosen", "build [s]", "cycles/s"),
        rows,
    )


if __name__ == "__main__":
    main()

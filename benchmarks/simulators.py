"""The fast model beside cocotb on the same job: one sparse 4x4x16 tile, a list of beats, all data in and out.

Both run the same Verilog on Verilator, alternately. "bench" is cocotb as `skiptile verify` uses it, with
monitors on every port; "lean" has nothing but a source and a sink.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

import cocotb_job
import numpy as np
from measuring import machine, print_table

from skiptile import sim
from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.sim.simulators import build_verilator, run_bench

RUNS = 5


def main() -> None:
    params = cocotb_job.PARAMS
    model, simulator = sim.load(params), build_verilator(*_described())
    a, b = cocotb_job.operands()
    beats = TileJobs(a, b, params).beats(0, len(TileJobs(a, b, params)))
    rates: dict[str, list[float]] = {"fast model": [], "cocotb, bench": [], "cocotb, lean": []}
    for _ in range(RUNS):
        start = time.perf_counter()
        result = model.stream(beats)
        rates["fast model"].append(result.elapsed / (time.perf_counter() - start))
        for name in ("bench", "lean"):
            with tempfile.TemporaryDirectory() as folder:
                variables = {cocotb_job.MONITORS: str(int(name == "bench"))}
                run_bench(simulator, "cocotb_job", Path(folder), seed=1, variables=variables)
                done = json.loads((Path(folder) / cocotb_job.RESULT).read_text())
            assert done["outputs"] == len(result.outputs["row"])
            assert done["elapsed"] in (result.elapsed, None)
            rates[f"cocotb, {name}"].append(result.elapsed / done["seconds"])
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print_table(
        f"Cycles per second on a job of {result.elapsed:,} cycles, median of {RUNS} ({machine()}):",
        ("simulator", "cycles/s", "fast model / this"),
        [(name, f"{rate:,.0f}", f"{medians['fast model'] / rate:.1f}") for name, rate in medians.items()],
    )


def _described() -> tuple[dict, str]:
    design = Design("t", "mac-tile", cocotb_job.PARAMS)
    verilog = generate(design)
    return manifest(design, verilog), verilog


if __name__ == "__main__":
    np.seterr(all="raise")
    main()

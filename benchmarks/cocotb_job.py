"""The job of simulators.py inside cocotb: loaded by the simulator's process."""

import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np

from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.sim.streams import ClockDomain, Monitor, Sink, Source, StreamPorts

PARAMS = MacTileParams(rows=4, columns=4, lanes=16)
MONITORS = "SKIPTILE_JOB_MONITORS"
RESULT = "job.json"


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (16, 4000)).astype(np.int8)
    b = rng.integers(-128, 128, (4000, 32)) * (rng.random((4000, 32)) >= 0.6)
    return a, b.astype(np.int8)


if "COCOTB_TEST_MODULES" in os.environ:

    @cocotb.test()
    async def job(dut: Any) -> None:
        checked = os.environ[MONITORS] == "1"
        design = Design("t", "mac-tile", PARAMS)
        description = manifest(design, generate(design))
        jobs = TileJobs(*operands(), PARAMS)
        domain = ClockDomain(dut.clk, dut.rst)
        i, o = (StreamPorts.find(dut, description, name) for name in ("i", "o"))
        monitors = [Monitor(domain, ports) for ports in (i, o)] if checked else []
        source = Source(domain, i, Random(0), decoys=checked)
        sink = Sink(domain, o, decoys=checked)
        payloads = i.pack(jobs.beats(0, len(jobs)))
        await domain.reset()
        begun = time.perf_counter()
        source.send(payloads)
        wanted = len(jobs) * PARAMS.result_beats
        await domain.until(lambda: len(sink.taken) == wanted)
        seconds = time.perf_counter() - begun
        elapsed = monitors[1].latest - monitors[0].first + 1 if checked else None
        result = {"seconds": seconds, "elapsed": elapsed, "outputs": len(sink.taken)}
        Path(RESULT).write_text(json.dumps(result))

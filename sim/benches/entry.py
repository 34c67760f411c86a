"""What cocotb loads: a test for each case of the design's bench. Runs only inside a simulator."""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import cocotb
from cocotb import Param

from skiptile.sim.benches import TASK_VARIABLE, Case, Task, find_bench


def _die_with(parent: int) -> None:
    """End this process when ``parent`` ends, however it does."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was faster
        os._exit(1)


TASK = Task.load(Path(os.environ[TASK_VARIABLE]))
_die_with(TASK.parent)
BENCH = find_bench(TASK.manifest["kind"])


@cocotb.test()
@cocotb.parametrize(case=[Param(case, case.name) for case in TASK.case_list()])
async def bench(dut: Any, case: Case) -> None:
    measured: dict[str, Any] = {}
    try:
        measured = await BENCH.check(dut, TASK.manifest, TASK.params, case)
    finally:
        with open(TASK.measured, "a") as file:
            file.write(json.dumps({"name": case.name, "measured": measured}) + "\n")

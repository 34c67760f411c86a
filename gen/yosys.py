"""Yosys, from the pyosys wheel, in a process of its own: an error in it ends the process."""

import subprocess
import sys
from pathlib import Path

_RUN = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""


class YosysError(RuntimeError):
    """A Yosys command failed: a fault of ours, not of the user's."""


def run_yosys(commands: list[str], folder: Path) -> str:
    """Run ``commands`` with ``folder`` as the working folder, and return what Yosys printed."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *commands], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise YosysError(f"Yosys failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout

"""Yosys, from the pyosys wheel, in a process of its own: an error in it ends the process."""

import sys
from importlib.metadata import version
from pathlib import Path

from skiptile.gen.processes import ToolError, run

_RUN = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""


class YosysError(RuntimeError):
    """A Yosys command failed: a fault of ours, not of the user's."""


def run_yosys(commands: list[str], folder: Path, *, timeout: float | None = None) -> str:
    """Run ``commands`` with ``folder`` as the working folder, and return what Yosys printed.

    Raises:
        YosysError: one of them failed, or they took more than ``timeout`` seconds.
    """
    try:
        return run([sys.executable, "-c", _RUN, *commands], folder, failure="Yosys failed", timeout=timeout)
    except ToolError as error:
        _, _, reason = str(error).partition(": ")
        raise YosysError(f"Yosys failed: {reason}") from error


def yosys_version() -> str:
    """Of the wheel that brings it."""
    return f"pyosys {version('pyosys')}"

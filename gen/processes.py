"""Tools in processes of their own: whatever ends us early ends them, and a failure is one sentence."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PATIENCE = 0.1  # seconds between looks at the clock


class ToolError(RuntimeError):
    """A tool is missing or failed; one sentence, with the command that installs it."""


def cores() -> int:
    """Cores that we may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    command: list[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    failure: str,
    timeout: float | None = None,
    stop: threading.Event | None = None,
) -> str:
    """Run ``command`` in ``folder`` and return what it printed.

    Args:
        environment: in place of ours.
        failure: the beginning of the sentence that says it failed.
        timeout: seconds after which it is stopped.
        stop: stops it early, from another thread.

    Raises:
        ToolError: it failed, with the first errors that it told, ran out of time, or was stopped.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output = _output(process, failure, timeout, stop)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode:
        errors = [line for line in output.splitlines() if re.search(r"error\S*:", line, re.IGNORECASE)]
        reason = " ".join(errors[:2]) or output[-500:]
        raise ToolError(f"{failure}, {Path(command[0]).name} says: {reason}")
    return output


def _output(
    process: subprocess.Popen[str], failure: str, timeout: float | None, stop: threading.Event | None
) -> str:
    """What ``process`` prints until it ends."""
    start = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=_PATIENCE)[0]
        except subprocess.TimeoutExpired:
            if timeout is not None and time.monotonic() - start >= timeout:
                raise ToolError(f"{failure}: stopped after {timeout:g} seconds") from None
            if stop is not None and stop.is_set():
                raise ToolError(f"{failure}: stopped") from None

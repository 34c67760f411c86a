"""Place and route: the clock that a netlist reaches, seed by seed, and the path that limits it."""

import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skiptile.gen import cache
from skiptile.gen.processes import ToolError, cores, run
from skiptile.gen.targets import Router, tool_path

_NETLIST, _REPORT = "netlist.json", "report.json"
_ASKED_MHZ = 400  # more than can be had, so that the tool does what it can


@dataclass(frozen=True)
class Placement:
    """One seed's result.

    Attributes:
        seed: of the placer.
        fmax_mhz: the highest clock frequency.
        path: the path that limits it: a step each, with "net", "from", "to", "kind" and "ns".
        seconds: that place and route took.
        used: of the device's cells, by their names.
    """

    seed: int
    fmax_mhz: float
    path: list[dict[str, Any]]
    seconds: float
    used: dict[str, dict[str, int]]


def place(
    text: str,
    router: Router,
    seeds: Iterable[int],
    *,
    timeout: float = 3600,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Placement]:
    """Place and route a netlist with each of ``seeds``, as many at a time as there are cores.

    Args:
        text: JSON of a netlist whose top needs few pins (`synthesis.frame`).
        timeout: seconds for one seed.
        progress: told how many of all seeds are done.

    Raises:
        ToolError: the tool is missing, fails, or runs out of time.
        OSError: the cache cannot be written.
    """
    if router.missing:
        raise ToolError(router.missing)
    seeds, placements, stop = list(seeds), [], threading.Event()
    with ThreadPoolExecutor(cores()) as pool:
        try:
            jobs = [pool.submit(_place_seed, text, router, seed, timeout, stop) for seed in seeds]
            for job in as_completed(jobs):
                placements.append(job.result())
                progress(len(placements), len(seeds))
        finally:
            stop.set()  # whatever ends us ends the others
            pool.shutdown(cancel_futures=True)
    return sorted(placements, key=lambda placement: placement.seed)


def _place_seed(text: str, router: Router, seed: int, timeout: float, stop: threading.Event) -> Placement:
    failure = f"seed {seed} could not be placed and routed"
    options = ("--freq", str(_ASKED_MHZ))
    folder = routed(text, router, seed, options, failure=failure, timeout=timeout, stop=stop)
    return _read(read_report(folder), seed)


def routed(
    text: str,
    router: Router,
    seed: int,
    options: Sequence[str],
    *,
    failure: str,
    timeout: float,
    stop: threading.Event | None = None,
    pack: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Path:
    """The folder of a netlist that was placed and routed, from the cache or now: what `read_report` reads.

    Args:
        text: JSON of the netlist.
        options: for the tool, beside the router's own.
        failure: what could not be done, for the error.
        timeout: seconds for each tool.
        stop: set by whoever no longer wants it.
        pack: a command for what was routed.
        keep: files that these leave, beside the report.

    Raises:
        ToolError: a tool fails, or runs out of time.
        OSError: the cache cannot be written.
    """
    tool, *own = router.command
    command = [
        *(tool_path(tool) or tool, *own, "--json", _NETLIST, "--report", _REPORT, *options),
        *("--timing-allow-fail", "--seed", str(seed)),  # how slow it is, we say ourselves
    ]

    def build(folder: Path) -> None:
        for name, content in (router.files | {_NETLIST: text}).items():
            (folder / name).write_text(content)
        start = time.monotonic()
        run(command, folder, failure=failure, timeout=timeout, stop=stop)
        if pack:
            run(list(pack), folder, failure="the bitstream could not be packed", timeout=timeout, stop=stop)
        report = json.loads((folder / _REPORT).read_text())
        report["seconds"] = time.monotonic() - start
        (folder / _REPORT).write_text(json.dumps(report))
        for path in folder.iterdir():
            if path.name not in (_REPORT, *keep):
                path.unlink()

    key = cache.key([text, *command[1:], *pack[1:], *router.files.values(), router_version(router)])
    return cache.built(f"placement-{key}", build, timeout=timeout, stop=stop)


def read_report(folder: Path) -> dict[str, Any]:
    """The tool's report, with ``seconds`` that it took, from a folder of `routed`."""
    return json.loads((folder / _REPORT).read_text())


def achieved_mhz(report: dict[str, Any]) -> float:
    """The frequency that all clocks of a report reach."""
    return min(clock["achieved"] for clock in report["fmax"].values())


def router_version(router: Router) -> str:
    """Of a place-and-route tool that is there."""
    return _version(tool_path(router.name) or "", router.name)


@functools.cache
def _version(path: str, name: str) -> str:
    """Asked once: a tool takes a third of a second to say it."""
    output = run([path, "--version"], Path.cwd(), failure=f"{name} failed")
    found = re.search(r"nextpnr-\S+\)?$", output.strip(), re.MULTILINE)
    return found[0].rstrip(")") if found else output.strip()


def _read(report: dict[str, Any], seed: int) -> Placement:
    path = next(each["path"] for each in report["critical_paths"] if each["from"] == each["to"])
    steps = [
        {
            "kind": step["type"],
            "ns": round(step["delay"], 3),
            "net": own_name(step.get("net", "")),
            "from": own_name(step["from"]["cell"]),
            "to": own_name(step["to"]["cell"]),
        }
        for step in path
    ]
    return Placement(seed, round(achieved_mhz(report), 2), steps, report["seconds"], report["utilization"])


def own_name(name: str) -> str:
    """The design's own name in a tool's, which adds types of cells, ports and bits to it."""
    return re.split(r"_[A-Z]|\$|\[", name)[0]

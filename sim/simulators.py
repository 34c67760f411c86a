"""Simulators with cocotb inside: building one for a design, and running a bench on it."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skiptile.gen import cache
from skiptile.sim import tools
from skiptile.sim.build import control_file
from skiptile.sim.tools import ToolError

LOG = "log.txt"
RESULTS = "results.xml"
PROGRAM = "simulator"

# Benches spend most of their time in Python, so what counts is how long a build takes.
_OPTIMISE = "-O1"
_OPTIMISE_RUNTIME = "-O0"
_LINES_OF_LOG = 30


class BenchCrash(ToolError):
    """A simulation ended before its bench did; tells the end of its log."""


@dataclass(frozen=True)
class Simulator:
    """A simulator that is built for one design.

    Attributes:
        top: name of the design's module.
        program: command that runs it.
        seed_options: that give registers random initial values; ``{seed}`` stands for a number.
        wave_options: that write waves; ``{file}`` stands for the file.
        environment: what cocotb must know of it.
    """

    top: str
    program: tuple[str, ...]
    seed_options: tuple[str, ...] = ()
    wave_options: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None

    def command(self, seed: int, waves: Path | None) -> list[str]:
        """What to run; the same ``seed``, the same initial values."""
        options = [option.format(seed=seed % ((1 << 31) - 1) + 1) for option in self.seed_options]
        if waves is not None:
            options += [option.format(file=waves) for option in self.wave_options]
        return [*self.program, *options]


# ---- building ----


def check_packages() -> None:
    """Raise `ToolError` unless the Python packages that benches need are installed."""
    for name in ("cocotb", "junitparser"):
        if find_spec(name) is None:
            raise ToolError(f"{name} is missing: pip install 'skiptile[sim]'")


def build_verilator(manifest: Mapping[str, Any], verilog: str, *, waves: str | None = None) -> Simulator:
    """A Verilated design with cocotb, from the cache or built now.

    Args:
        manifest, verilog: as `skiptile generate` writes them.
        waves: "fst" or "vcd" if it is to write waves.

    Raises:
        ToolError: a tool is missing, or the build failed.
        OSError: the cache cannot be written.
    """
    from cocotb_tools.config import libs_dir, share_dir

    tools.check_build_tools()
    top = manifest["design"]
    ports = (f'public_flat_rw -module "{top}" -var "{port["name"]}"' for port in manifest["ports"])
    control = control_file(manifest, *ports)  # without public ports cocotb finds no design
    libraries = f"-Wl,-rpath,{libs_dir} -L{libs_dir} -lcocotbvpi_verilator"
    flags = [
        *("--cc", "--exe", "--vpi", "--prefix", "Vtop", "-Mdir", "obj", "-o", f"../{PROGRAM}"),
        *("--no-timing", "-Wno-lint", "--x-assign", "unique", "--x-initial", "unique"),
        *("-LDFLAGS", libraries),
        str(share_dir / "lib" / "verilator" / "verilator.cpp"),
        *([f"--trace-{waves}"] if waves else []),
    ]
    versions = [version("cocotb"), *tools.versions(), _OPTIMISE, _OPTIMISE_RUNTIME]

    def build(place: Path) -> None:
        runtime = cache.built(
            f"cocotb-{cache.key([*flags, *versions])}", lambda empty: _build_runtime(empty, flags)
        )
        (place / "design.v").write_text(verilog)
        (place / "control.vlt").write_text(control)
        tools.verilate([*flags, "-CFLAGS", _OPTIMISE, "--top-module", top, "control.vlt", "design.v"], place)
        for compiled in runtime.iterdir():  # newer than the makefile, so it is not compiled again
            shutil.copy(compiled, place / "obj")
        _make(place)
        shutil.rmtree(place / "obj")

    folder = cache.built(f"bench-{cache.key([top, verilog, control, *flags, *versions])}", build)
    return Simulator(
        top,
        (str(folder / PROGRAM),),
        ("+verilator+rand+reset+2", "+verilator+seed+{seed}"),
        ("--trace", "--trace-file", "{file}"),
        {"COCOTB_TRUST_INERTIAL_WRITES": "1"},
    )


def _build_runtime(place: Path, flags: list[str]) -> None:
    """Leave Verilator's own part of every simulator in ``place``: most of what there is to compile."""
    (place / "nothing.v").write_text("module nothing(input clk); endmodule\n")
    tools.verilate([*flags, "-CFLAGS", _OPTIMISE_RUNTIME, "--top-module", "nothing", "nothing.v"], place)
    _make(place)
    for compiled in place.glob("obj/verilated*.o"):
        compiled.rename(place / compiled.name)
    shutil.rmtree(place / "obj")
    for rest in (place / "nothing.v", place / PROGRAM):
        rest.unlink()


def _make(place: Path) -> None:
    tools.make(["-C", "obj", "-f", "Vtop.mk"], place)


def build_icarus(manifest: Mapping[str, Any], verilog: str) -> Simulator:
    """A design for Icarus Verilog with cocotb, from the cache or built now. It knows unknown values.

    Raises:
        ToolError: Icarus is missing, or the build failed.
        OSError: the cache cannot be written.
    """
    from cocotb_tools.config import lib_entry

    if shutil.which("iverilog") is None:
        raise ToolError("Icarus Verilog is missing: apt-get install iverilog")
    top = manifest["design"]

    def build(place: Path) -> None:
        (place / "design.v").write_text(verilog)
        tools.run(["iverilog", "-g2005", "-s", top, "-o", PROGRAM, "design.v"], place)

    icarus = next(tool.version for tool in tools.inventory() if tool.name == "iverilog")
    folder = cache.built(f"icarus-{cache.key([top, verilog, str(icarus)])}", build)
    return Simulator(top, ("vvp", "-m", lib_entry("vpi", "icarus"), str(folder / PROGRAM), "-none"))


# ---- running ----


def run_bench(
    simulator: Simulator,
    module: str,
    folder: Path,
    *,
    seed: int,
    variables: Mapping[str, str] | None = None,
    waves: Path | None = None,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Run cocotb's tests in ``module``, and leave `RESULTS` and `LOG` in ``folder``.

    Args:
        simulator: of the design.
        module: as Python imports it.
        folder: the process' working folder.
        seed: of registers' initial values and of Python's ``random``.
        variables: more of the environment.
        waves: file for waves.
        watch: called now and then while it runs.

    Raises:
        BenchCrash: it ended without results.
    """
    environment = {**_environment(simulator, module, seed), **(variables or {})}
    with open(folder / LOG, "wb") as log:
        process = subprocess.Popen(
            simulator.command(seed, waves),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                watch()
        finally:
            process.kill()
            process.wait()
    if process.returncode or not (folder / RESULTS).exists():
        lines = (folder / LOG).read_text(errors="replace").splitlines()
        tail = "\n".join(lines[-_LINES_OF_LOG:])
        raise BenchCrash(
            f"the simulation ended with status {process.returncode}; the end of its log:\n{tail}"
        )


def _environment(simulator: Simulator, module: str, seed: int) -> dict[str, str]:
    """What cocotb is told; nothing of it comes from the user's own cocotb settings."""
    import find_libpython
    from cocotb_tools.config import pygpi_entry_point

    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("COCOTB_", "GPI_"))
    }
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYGPI_PYTHON_BIN": sys.executable,
        "GPI_USERS": f"{find_libpython.find_libpython()};{pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": simulator.top,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RESULTS_FILE": RESULTS,
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_ANSI_OUTPUT": "0",
        "COCOTB_REWRITE_ASSERTION_FILES": "",  # our own messages say what differs
        **(simulator.environment or {}),
    }

"""Verilog through the tools that a user has: lint, simulation, synthesis. A missing tool skips the test."""

import shutil
import subprocess

import pytest

from skiptile.gen.yosys import run_yosys
from skiptile.sim.tools import ToolError, build_environment, check_build_tools, verilator

needs_icarus = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="Icarus Verilog is missing: apt-get install iverilog"
)


def _verilator_missing():
    try:
        check_build_tools()
    except ToolError as error:
        return str(error)
    return ""


needs_verilator = pytest.mark.skipif(bool(_verilator_missing()), reason=_verilator_missing())


def run(command, folder, **options):
    """Standard output and error of a command that must succeed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def lint_verilator(folder, *files, options=()):
    """Fails on any warning of ``verilator -Wall``, since there they are errors."""
    command = [verilator().command, "--lint-only", "-Wall", *options, *files]
    run(command, folder, env=build_environment())


def compile_icarus(folder, *files, tops=()):
    """Fails on any warning of ``iverilog -Wall``."""
    options = [option for top in tops for option in ("-s", top)]
    assert run(["iverilog", "-Wall", "-g2005", "-o", "icarus.out", *options, *files], folder) == ""


def simulate_icarus(folder, *files):
    """What a testbench prints in Icarus."""
    compile_icarus(folder, *files)
    return run(["vvp", "-n", "icarus.out"], folder, timeout=120)


def build_verilator(folder, top, *files):
    """The program that a testbench becomes, compiled as quickly as can be."""
    quick = ["-CFLAGS", "-std=c++20", "-MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0", "-j", "2"]
    command = [verilator().command, "--binary", "--timing", "-Wall", *quick, "--top-module", top, *files]
    run(command, folder, env=build_environment())
    return folder / "obj_dir" / f"V{top}"


def check_yosys(folder, *files):
    """Fails if Yosys cannot read the files, or finds undriven or doubly driven nets or loops in them."""
    reads = [f"read_verilog {file}" for file in files]
    run_yosys([*reads, "hierarchy -check", "proc", "check -assert"], folder)


def check_with_every_tool(folder, text):
    """Fails on what Verilator, Icarus or Yosys says of one file of Verilog."""
    (folder / "t.v").write_text(text)
    lint_verilator(folder, "t.v")
    compile_icarus(folder, "t.v")
    check_yosys(folder, "t.v")

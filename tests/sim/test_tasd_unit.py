"""The delivered Verilog of a TASD unit: its bench, its testbench, what tools say of it, and faults found."""

from functools import cache
from pathlib import Path

import pytest
from verilog_tools import (
    check_with_every_tool,
    needs_icarus,
    needs_verilator,
    simulate_icarus,
)

from skiptile.gen.design import Design, read_design
from skiptile.gen.manifest import manifest
from skiptile.gen.testbench import make_testbench
from skiptile.gen.verilog import generate
from skiptile.golden.formats import FORMATS
from skiptile.golden.tasd_unit import TasdUnitParams
from skiptile.sim.verify import verify_design

EIGHT = Path(__file__).parents[2] / "designs" / "tasd_unit8.toml"
SIZES = (1, 2, 4, 8, 16)


def unit(m, format="int8"):
    return Design("t", "tasd-unit", TasdUnitParams(m=m, format=format))


@cache
def verilog(design):
    return generate(design)


@needs_verilator
@needs_icarus
@pytest.mark.parametrize(("m", "format"), [(1, "int8"), (2, "float16"), (8, "int8")])
def test_no_tool_warns(tmp_path, m, format):
    check_with_every_tool(tmp_path, verilog(unit(m, format)))


@needs_verilator
@needs_icarus
@pytest.mark.exhaustive
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("format", FORMATS)
def test_no_tool_warns_of_any_size_and_format(tmp_path, m, format):
    check_with_every_tool(tmp_path, verilog(unit(m, format)))


def test_modules_do_not_grow_with_the_block():
    assert verilog(unit(2)).count("\nmodule ") == verilog(unit(8)).count("\nmodule ") == 4


@needs_verilator
def test_bench_on_verilator():
    outcome = verify_design(read_design(EIGHT), cases=10, seed=1)
    assert outcome.passed, outcome.failures
    assert len(outcome.cases) > 60
    assert all(case.measured["elapsed"] > case.measured["cycles"] > 0 for case in outcome.cases)


@needs_verilator
@pytest.mark.exhaustive
@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("format", ["int8", "float6_e3m2fn", "float32"])
def test_bench_on_verilator_of_any_size(m, format):
    outcome = verify_design(unit(m, format), cases=20, seed=2)
    assert outcome.passed, outcome.failures


@needs_icarus
@pytest.mark.parametrize(
    ("m", "format"), [(2, "float8_e5m2"), pytest.param(1, "int8", marks=pytest.mark.exhaustive)]
)
def test_bench_in_icarus(m, format):
    """Where unknown values exist."""
    outcome = verify_design(unit(m, format), cases=1, seed=3, simulator="icarus")
    assert outcome.passed, outcome.failures


@needs_icarus
@pytest.mark.parametrize(("m", "format"), [(1, "int16"), (4, "bfloat16"), (8, "int8")])
def test_testbench_passes_in_icarus(tmp_path, m, format):
    design = unit(m, format)
    (tmp_path / "t.v").write_text(verilog(design))
    files = make_testbench(design, manifest(design, verilog(design)), jobs=60, seed=4)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert simulate_icarus(tmp_path, "t_tb.v", "t.v").startswith("PASS: 60 beats in, ")


MUTANTS = {
    "ties go to the highest index": (">=", ">", "index: "),
    "taken numbers stay in the running": ("taken <=", "taken <= 2'h0 &", "index: "),
}


@needs_icarus
@pytest.mark.exhaustive
@pytest.mark.parametrize(("old", "new", "fault"), MUTANTS.values(), ids=MUTANTS)
def test_faults_are_found(old, new, fault):
    text = verilog(unit(2))
    assert old in text
    outcome = verify_design(unit(2), cases=1, seed=5, simulator="icarus", verilog=text.replace(old, new))
    assert any(fault in case.error for case in outcome.failures), outcome.failures

"""Verification passes what is right and finds every kind of fault; with the seed to find it again."""

import json
import xml.etree.ElementTree as ElementTree
from functools import cache
from io import StringIO

import pytest
from rich.console import Console
from verilog_tools import needs_icarus, needs_verilator

from skiptile.gen.design import Design
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.sim import tools, verify
from skiptile.sim.simulators import BenchCrash
from skiptile.sim.tools import ToolError
from skiptile.sim.verify import verify_design

DENSE = Design("t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, lookahead=0))
SPARSE = Design("t", "mac-tile", MacTileParams(rows=2, columns=2, lanes=3, lookahead=2))
FLOATS = Design("t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, format="float8_e5m2"))
SHIFTED = Design(
    "t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, format="int8", out="int8", lookahead=1)
)
FLIP = "reg flip; always @(posedge clk) flip <= ~rst & ~flip; "
MUTANTS = {
    "valid falls": ("assign o__valid = ", f"{FLIP}assign o__valid = flip & ", "valid was taken back"),
    "payload changes": (
        "assign o__payload = ",
        f"{FLIP}assign o__payload = flip ^ ",
        "payload changed before ready",
    ),
    "valid waits for ready": (
        "assign o__valid = ",
        "assign o__valid = o__ready & ",
        "o__valid depends on an input in the same cycle",
    ),
    "ready follows valid": (
        "assign i__ready = ",
        "assign i__ready = i__valid & ",
        "i__ready depends on an input in the same cycle",
    ),
    "payload follows the input": (
        "assign o__payload = ",
        "assign o__payload = i__payload[0] ^ ",
        "o__payload depends on an input in the same cycle",
    ),
    "valid is unknown": ("assign o__valid = ", "assign o__valid = 1'bx & ", "valid is"),
    "payload is unknown": ("assign o__payload = ", "assign o__payload = 1'bx ^ ", "unknown bits"),
    "nothing comes": ("assign o__valid = ", "assign o__valid = 1'b0 & ", "nothing has moved for"),
    "a result is wrong": ("assign o__payload = ", "assign o__payload = 1'b1 ^ ", "result: "),
}


@cache
def verilog(design):
    return generate(design)


def text_of(table):
    console = Console(width=150, record=True, file=StringIO())
    console.print(table)
    return console.export_text()


@needs_icarus
@pytest.mark.parametrize(
    "design", [DENSE, SPARSE, FLOATS, SHIFTED], ids=["dense", "sparse", "floats", "shifted"]
)
def test_a_good_design_passes(design):
    """In Icarus, where unknown values exist; tests/test_cli.py does it in Verilator."""
    seen = []
    outcome = verify_design(
        design, cases=3, seed=1, simulator="icarus", progress=lambda *step: seen.append(step)
    )
    assert outcome.passed, outcome.failures
    assert outcome.summary() == f"t: all {len(outcome.cases)} cases passed (seed 1)"
    assert len({case.name for case in outcome.cases}) == len(outcome.cases) > 50
    assert all(case.measured["elapsed"] >= case.measured["cycles"] > 0 for case in outcome.cases)
    assert seen[-1][1] == len(outcome.cases)
    assert json.loads(json.dumps(outcome.to_dict()))["passed"]


IN_SHORT = ("valid falls", "valid waits for ready", "payload is unknown", "a result is wrong")


@needs_icarus
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        pytest.param(*mutant, id=name, marks=() if name in IN_SHORT else pytest.mark.exhaustive)
        for name, mutant in MUTANTS.items()
    ],
)
def test_every_fault_is_found(old, new, fault):
    text = verilog(DENSE)
    assert text.count(old) == 1
    outcome = verify_design(DENSE, cases=1, seed=2, simulator="icarus", verilog=text.replace(old, new))
    assert not outcome.passed
    assert any(fault in case.error for case in outcome.failures), {case.error for case in outcome.failures}
    assert outcome.summary().endswith("failed with seed 2; run them again with --cases 1 --seed 2")
    assert "FAILED (seed 2): " in text_of(outcome.table())
    suite = ElementTree.fromstring(outcome.junit()).find("testsuite")
    assert int(suite.get("failures")) == len(outcome.failures)
    assert "--cases 1 --seed 2" in suite.find("testcase/failure").get("message")


@needs_icarus
def test_a_wrong_schedule_is_found_though_results_are_right():
    """Taking each pair from its own place only is right in all but time."""
    text = verilog(SPARSE)
    slower = generate(
        Design("t", "mac-tile", MacTileParams(rows=2, columns=2, lanes=3, interconnect=[[0, 0]]))
    )
    assert text != slower
    outcome = verify_design(SPARSE, cases=1, seed=0, simulator="icarus", verilog=slower)
    assert {case.error.split(":")[0] for case in outcome.failures} == {"cycles"}


@needs_icarus
def test_a_crash_tells_the_end_of_the_log(monkeypatch):
    monkeypatch.setattr(verify, "ENTRY", "skiptile.sim.benches.no_such_module")
    with pytest.raises(BenchCrash, match="no_such_module"):
        verify_design(DENSE, cases=1, seed=0, simulator="icarus")


@needs_verilator
@pytest.mark.exhaustive
@pytest.mark.parametrize("format", ["fst", "vcd"])
def test_waves(tmp_path, monkeypatch, format):
    if format == "vcd":
        monkeypatch.setattr(tools, "has_fst", lambda: False)
    elif not tools.has_fst():
        pytest.skip("lz4's headers are missing: apt-get install liblz4-dev")
    outcome = verify_design(DENSE, cases=1, seed=0, waves=tmp_path / "t.fst")
    assert [path.name for path in tmp_path.iterdir()] == [f"t.{format}"]
    start = (tmp_path / f"t.{format}").read_bytes()[:8]
    assert start.startswith(b"$version" if format == "vcd" else b"\x00\x00\x00\x00")
    assert ("apt-get install liblz4-dev" in outcome.notes[0]) == (format == "vcd")


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr("skiptile.sim.simulators.find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"^cocotb is missing: pip install 'skiptile\[sim\]'$"):
        verify_design(DENSE)

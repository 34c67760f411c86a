"""What synthesis makes of each block is still that block: its netlist on its bench."""

import pytest
from verilog_tools import needs_icarus, needs_verilator

from skiptile.gen.design import Design
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.systolic_tile import SystolicTileParams
from skiptile.golden.tasd_unit import TasdUnitParams
from skiptile.sim import netlist
from skiptile.sim.netlist import NETLISTS, netlist_verilog, verify_netlist


def tile(**options):
    return Design("t", "mac-tile", MacTileParams(rows=1, columns=1, lanes=2, max_reduction=500, **options))


DESIGNS = {
    "dense": tile(lookahead=0),
    "sparse": tile(lookahead=2),
    "two contexts": tile(lookahead=2, contexts=2),
    "int16": tile(lookahead=0, format="int16"),
    "fp8": tile(lookahead=0, format="float8_e4m3fn"),
    "tasd": Design("t", "tasd-unit", TasdUnitParams(m=4)),
    "block RAM": Design(
        "t", "systolic-tile", SystolicTileParams(rows=1, columns=2, dataflow="weight-stationary")
    ),
    "gathering": Design(
        "t",
        "systolic-tile",
        SystolicTileParams(rows=2, columns=3, dataflow="output-stationary", gather_depth=40),
    ),
    "2:4": Design("t", "systolic-tile", SystolicTileParams(rows=1, columns=2, dataflow="both", n=2, m=4)),
    "systolic": Design(
        "t", "systolic-tile", SystolicTileParams(rows=2, columns=2, dataflow="both", accumulator_depth=8)
    ),
}


@needs_icarus
def test_ecp5_in_icarus(seed):
    """Registers begin unknown there, so reset alone must do."""
    outcome = verify_netlist(DESIGNS["dense"], "ecp5", cases=1, seed=seed, simulator="icarus")
    assert outcome.passed, outcome.failures
    assert outcome.notes == ["verified: the ecp5 netlist"]


@needs_verilator
@pytest.mark.exhaustive
@pytest.mark.parametrize("which", NETLISTS)
@pytest.mark.parametrize("name", DESIGNS)
def test_netlists(name, which, seed):
    outcome = verify_netlist(DESIGNS[name], which, cases=5, seed=seed)
    assert outcome.passed, outcome.failures


@needs_icarus
@pytest.mark.exhaustive
def test_a_wrong_netlist_is_found(monkeypatch):
    """A product's register left out: results come a cycle early."""
    text = netlist_verilog(DESIGNS["dense"], "ecp5")
    wrong = text.replace('.REG_OUTPUT_CLK("CLK0")', '.REG_OUTPUT_CLK("NONE")', 1)
    assert wrong != text
    monkeypatch.setattr(netlist, "netlist_verilog", lambda *_: wrong)
    assert not verify_netlist(DESIGNS["dense"], "ecp5", cases=1, seed=0, simulator="icarus").passed


def test_unknown_netlist():
    with pytest.raises(ValueError, match=r"^netlist must be one of generic, ecp5, not 'ice40'$"):
        netlist_verilog(DESIGNS["dense"], "ice40")

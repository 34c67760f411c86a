"""What synthesis makes of each block is still that block: its netlist on its bench."""

import re

import numpy as np
import pytest
from verilog_tools import needs_icarus, needs_verilator, run

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
    text, notes = netlist_verilog(DESIGNS["dense"], "ecp5")
    wrong = text.replace('.REG_OUTPUT_CLK("CLK0")', '.REG_OUTPUT_CLK("NONE")', 1)
    assert wrong != text
    monkeypatch.setattr(netlist, "netlist_verilog", lambda *_: (wrong, notes))
    assert not verify_netlist(DESIGNS["dense"], "ecp5", cases=1, seed=0, simulator="icarus").passed


def test_block_rams_are_told():
    design = Design("t", "systolic-tile", SystolicTileParams(rows=1, columns=1, dataflow="weight-stationary"))
    text, notes = netlist_verilog(design, "ecp5")
    assert "DP16KD" not in text
    assert notes == ["block RAMs stand as LUT RAMs: there is no model of them to simulate"]


def test_unknown_netlist():
    with pytest.raises(ValueError, match=r"^netlist must be one of generic, ecp5, not 'ice40'$"):
        netlist_verilog(DESIGNS["dense"], "ice40")


BENCH = """
module bench;
  reg clk = 0; reg [17:0] a, b; reg is_signed; wire [35:0] p;
  {mul}
  initial begin
{steps}
    $finish;
  end
endmodule
"""


@needs_icarus
@pytest.mark.parametrize("registers", [(), ("INPUTA",), ("INPUTA", "INPUTB"), ("INPUTA", "INPUTB", "OUTPUT")])
def test_the_multiplier(tmp_path, registers):
    """Extremes and random operands, signed and not, after as many clock edges as there are registers."""
    rng = np.random.default_rng(0)
    extremes = [0, 1, (1 << 18) - 1, 1 << 17, (1 << 17) - 1]  # -1, the least and the largest among them
    pairs = [(a, b) for a in extremes for b in extremes] + rng.integers(0, 1 << 18, (50, 2)).tolist()
    parameters = ", ".join(f'.REG_{side}_CLK("CLK0")' for side in registers)
    pins = [f".{side.upper()}{k}({side}[{k}])" for side in "ab" for k in range(18)]
    pins += [f".P{k}(p[{k}])" for k in range(36)] + [".SIGNEDA(is_signed)", ".SIGNEDB(is_signed)"]
    pins += [".CLK0(clk)", ".CE0(1'b1)", ".RST0(1'b0)"]
    instance = f"MULT18X18D {f'#({parameters}) ' if parameters else ''}mul({', '.join(pins)});"
    edges = "#1 clk = 1; #1 clk = 0; " * 3
    cases = [(a, b, is_signed) for a, b in pairs for is_signed in (0, 1)]
    steps = [f'    a = {a}; b = {b}; is_signed = {s}; #1 {edges}$display("%h", p);' for a, b, s in cases]
    (tmp_path / "mul.v").write_text(netlist._MULTIPLIER.read_text())
    (tmp_path / "bench.v").write_text(BENCH.format(mul=instance, steps="\n".join(steps)))
    printed = re.findall(r"^[0-9a-f]{9}$", simulate_quietly(tmp_path), re.MULTILINE)
    assert printed == [f"{product(a, b, s) % (1 << 36):09x}" for a, b, s in cases]


def product(a, b, is_signed):
    if is_signed:
        a, b = (x - (1 << 18) * (x >> 17) for x in (a, b))
    return a * b


def simulate_quietly(folder):
    """The bench leaves pins open, of which Icarus would warn."""
    run(["iverilog", "-g2005", "-o", "bench", "-s", "bench", "bench.v", "mul.v"], folder)
    return run(["vvp", "-n", "bench"], folder)

"""What synthesis makes of each block is still that block: its netlist on its bench."""

import re

import numpy as np
import pytest
from verilog_tools import needs_icarus, needs_verilator, run

from skiptile.gen.design import Design
from skiptile.gen.yosys import run_yosys
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


# ---- models of cells ----

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
    (tmp_path / "mul.v").write_text(netlist._OURS["MULT18X18D"].read_text())
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


MEMORY = """
module {name}(input clk, input [{a}:0] write_at, read_at, input [{e}:0] enable, input read,
              input [{w}:0] data, output reg [{w}:0] q);
  (* ram_style = "block" *) reg [{w}:0] m [0:(2 << {a}) - 1];
  integer k;
  always @(posedge clk) begin
    for (k = 0; k <= {e}; k = k + 1)
      if (enable[k]) m[write_at][k * {part} +: {part}] <= data[k * {part} +: {part}];
    if (read) q <= m[read_at];
  end
endmodule
"""

MEMORY_BENCH = """
module bench;
  reg clk = 0, read = 0;
  reg [{a}:0] write_at = 0, read_at = 0;
  reg [{e}:0] enable = 0;
  reg [{w}:0] data = 0;
  wire [{w}:0] wanted, found;
  integer k, differ = 0;
  wanted wanted_(clk, write_at, read_at, enable, read, data, wanted);
  found found_(.clk(clk), .write_at(write_at), .read_at(read_at), .enable(enable), .read(read),
               .data(data), .q(found));
  initial begin
    for (k = 0; k < 4000; k = k + 1) begin
      write_at = k < 16 ? {far} * k : {far} * ($random & 15);
      read_at = {far} * ($random & 15);
      enable = k < 16 ? -1 : $random;
      read = k > 20 && ($random & 3) != 0;
      data = {{$random, $random}};
      #1 clk = 1; #1 clk = 0; #1;
      if (k > 30 && wanted !== found) differ = differ + 1;
    end
    $display("%0d of %0d differ", differ, k);
    $finish;
  end
endmodule
"""


@needs_icarus
@pytest.mark.parametrize(
    ("width", "parts", "address_bits"),
    [(36, 4, 9)]
    + [
        pytest.param(*shape, marks=pytest.mark.exhaustive)
        for shape in ((36, 1, 9), (18, 2, 10), (18, 1, 10), (9, 1, 11), (4, 1, 12), (2, 1, 13), (1, 1, 14))
    ],
)
def test_the_block_ram(tmp_path, width, parts, address_bits):
    """A memory that Yosys maps to it does what the memory does, also where it is written and read at once."""
    shape = {"a": address_bits - 1, "e": parts - 1, "w": width - 1, "part": width // parts}
    shape["far"] = (1 << address_bits - 4) + 1  # between addresses, so that all of their bits count
    (tmp_path / "wanted.v").write_text(MEMORY.format(name="wanted", **shape))
    (tmp_path / "memory.v").write_text(MEMORY.format(name="found", **shape))
    (tmp_path / "bench.v").write_text(MEMORY_BENCH.format(**shape))
    run_yosys(["read_verilog memory.v", "synth_ecp5 -top found", "write_verilog -noattr found.v"], tmp_path)
    text = (tmp_path / "found.v").read_text()
    assert re.search(rf"DATA_WIDTH_B\(32'\w*d{width}\)", text), "not in block RAM"
    (tmp_path / "models.v").write_text(netlist.ecp5_models(text))
    run(
        ["iverilog", "-g2012", "-o", "b", "-s", "bench", "bench.v", "wanted.v", "found.v", "models.v"],
        tmp_path,
    )
    assert run(["vvp", "-n", "b"], tmp_path).splitlines()[-1] == "0 of 4000 differ"

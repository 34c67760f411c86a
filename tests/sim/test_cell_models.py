"""Our models of ECP5 cells, against arithmetic and against what Yosys maps to them."""

import re
import subprocess

import numpy as np
import pytest
from verilog_tools import needs_icarus, run

from skiptile.gen.yosys import run_yosys
from skiptile.sim import netlist

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
    assert simulate_memory(tmp_path) == "0 of 4000 differ"


def simulate_memory(folder):
    """The last line that the bench prints."""
    (folder / "models.v").write_text(netlist.ecp5_models((folder / "found.v").read_text()))
    sources = ["bench.v", "wanted.v", "found.v", "models.v"]
    run(["iverilog", "-g2012", "-o", "b", "-s", "bench", *sources], folder)
    return run(["vvp", "-n", "b"], folder).splitlines()[-1]


DUAL = """
module {name}(input clk, input [9:0] at0, at1, input on0, on1, write0, write1, reset0, reset1,
              input [17:0] data0, data1, output reg [17:0] q0, q1);
  (* ram_style = "block", no_rw_check *) reg [17:0] m [0:1023];
  {ports}
endmodule
"""
RESETS = {
    "SYNC": """
  always @(posedge clk)
    if (reset{k}) q{k} <= 0;
    else if (on{k}) begin
      if (write{k}) m[at{k}] <= data{k};
      {read}
    end""",
    "ASYNC": """
  always @(posedge clk) if (on{k} && write{k}) m[at{k}] <= data{k};
  always @(posedge clk, posedge reset{k})
    if (reset{k}) q{k} <= 0;
    else if (on{k}) {read}""",
}
READS = {
    "NORMAL": "if (!write{k}) q{k} <= m[at{k}];",
    "WRITETHROUGH": "q{k} <= write{k} ? data{k} : m[at{k}];",
    "READBEFOREWRITE": "q{k} <= m[at{k}];",
}
DUAL_BENCH = """
module bench;
  reg clk = 0, reset0 = 1, reset1 = 1, on0, on1, write0, write1;
  reg [9:0] at0, at1;
  reg [17:0] data0, data1;
  wire [17:0] wanted0, wanted1, found0, found1;
  reg writes0, writes1, reads0, reads1, wrong0 = 0, wrong1 = 0;
  integer k, disturbed = 0, differ = 0;
  wanted wanted_(clk, at0, at1, on0, on1, write0, write1, reset0, reset1, data0, data1, wanted0, wanted1);
  found found_(.clk(clk), .at0(at0), .at1(at1), .on0(on0), .on1(on1), .write0(write0), .write1(write1),
               .reset0(reset0), .reset1(reset1), .data0(data0), .data1(data1), .q0(found0), .q1(found1));
  initial begin
    for (k = 0; k < 4000; k = k + 1) begin
      #1 {{on0, on1}} = k < 16 ? 2 : $random;
      at0 = 65 * (k < 16 ? k : $random & 15);
      at1 = 65 * ($random & 15);
      {{reset0, reset1}} = k < 16 ? 0 : $random & $random;
      {{write0, write1}} = k < 16 ? 2 : $random;
      if (at0 == at1 && write0) write1 = 0;
      data0 = $random;
      data1 = $random;
      #1 writes0 = on0 && write0 && !({sync} && reset0);
      writes1 = on1 && write1 && !({sync} && reset1);
      reads0 = on0 && !({keeps0} && write0);
      reads1 = on1 && !({keeps1} && write1);
      if (reset0) wrong0 = 0;
      else if (reads0) wrong0 = writes1 && at0 == at1 && wanted_.m[at0] !== data1;
      if (reset1) wrong1 = 0;
      else if (reads1) wrong1 = writes0 && at0 == at1 && wanted_.m[at1] !== data0;
      disturbed = disturbed + wrong0 + wrong1;
      #1 clk = 1;
      #1 clk = 0;
      if (k > 100) differ = differ + ((wanted0 !== found0) !== wrong0) + ((wanted1 !== found1) !== wrong1);
    end
    $display("%0d differ, disturbed: %0d", differ, disturbed > 20);
    $finish;
  end
endmodule
"""


@needs_icarus
@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize(
    "modes", [("NORMAL", "WRITETHROUGH"), ("WRITETHROUGH", "READBEFOREWRITE"), ("READBEFOREWRITE", "NORMAL")]
)
def test_both_ports_of_the_block_ram(tmp_path, modes, reset):
    """Each writes and reads; a read of what the other changes is wrong, and every other one is right."""
    ports = "".join(RESETS[reset].format(k=k, read=READS[mode].format(k=k)) for k, mode in enumerate(modes))
    facts = {f"keeps{k}": int(mode == "NORMAL") for k, mode in enumerate(modes)}
    (tmp_path / "bench.v").write_text(DUAL_BENCH.format(sync=int(reset == "SYNC"), **facts))
    (tmp_path / "wanted.v").write_text(DUAL.format(name="wanted", ports=ports))
    (tmp_path / "memory.v").write_text(DUAL.format(name="found", ports=ports))
    run_yosys(["read_verilog memory.v", "synth_ecp5 -top found", "write_verilog -noattr found.v"], tmp_path)
    text = (tmp_path / "found.v").read_text()
    assert set(re.findall(r'[.]WRITEMODE_.."(\w+)"', text)) == set(modes)
    assert f'.RESETMODE("{reset}")' in text
    assert {"reset0", "reset1"} == set(re.findall(r"[.]RST[AB].(\w+)", text)), "resets are beside it"
    assert simulate_memory(tmp_path) == "0 differ, disturbed: 1"


@needs_icarus
@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ('REGMODE_B("OUTREG")', "output_registers"),
        ('CLKAMUX("INV")', "inverted_clocks"),
        ('CSDECODE_A("0b001")', "selection"),
    ],
)
def test_what_the_block_ram_has_no_model_of(tmp_path, parameter, message):
    (tmp_path / "bench.v").write_text(f"module bench; DP16KD #(.{parameter}) ram(); endmodule\n")
    command = ["iverilog", "-g2005", "-o", "b", "-s", "bench", "bench.v", str(netlist._OURS["DP16KD"])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode
    assert f"DP16KD_has_no_model_of_{message}" in done.stderr

"""The plain-Verilog testbench: it passes in Icarus and Verilator, and it can fail."""

import re
from functools import cache

import pytest
from verilog_tools import build_verilator, lint_verilator, needs_icarus, needs_verilator, run, simulate_icarus

from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.naming import NAMINGS
from skiptile.gen.testbench import make_testbench
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams

FILES = ("t_tb.v", "t.v")
DENSE = MacTileParams(rows=2, columns=3, lanes=4, lookahead=0)
SPARSE = MacTileParams(rows=2, columns=2, lanes=3, lookahead=2)
TILES = {
    "dense": DENSE,
    "sparse": SPARSE,
    "least": MacTileParams(rows=1, columns=1, lanes=1, lookahead=0, max_reduction=1),
    "least sparse": MacTileParams(rows=1, columns=1, lanes=1, lookahead=1, max_reduction=1),
    "all rows": MacTileParams(rows=3, columns=1, lanes=4, lookahead=3, output_rows=3),
    "both sides": MacTileParams(rows=1, columns=1, lanes=5, side="both"),
    "paper": MacTileParams(rows=4, columns=4, lanes=16),
    "bfloat16": MacTileParams(rows=2, columns=1, lanes=3, format="bfloat16"),
    "FP8, dense": MacTileParams(rows=1, columns=2, lanes=2, format="float8_e5m2", lookahead=0),
    "shifted": MacTileParams(rows=2, columns=1, lanes=2, format="int8", format_b="int16", out="int8"),
}


@cache
def verilog(params, naming):
    return generate(Design("t", "mac-tile", params), NAMINGS[naming])


def write(folder, params, *, jobs=20, seed=0, naming="amaranth"):
    design = Design("t", "mac-tile", params)
    text = verilog(params, naming)
    (folder / "t.v").write_text(text)
    facts = manifest(design, text, NAMINGS[naming])
    for name, data in make_testbench(design, facts, jobs=jobs, seed=seed).items():
        (folder / name).write_bytes(data)


def mutate(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text(), count=1)
    assert count == 1
    path.write_text(text)


@needs_icarus
@pytest.mark.parametrize("params", TILES.values(), ids=TILES)
def test_passes_in_icarus(tmp_path, params):
    write(tmp_path, params, seed=7)
    beats = 20 * params.result_beats
    assert re.fullmatch(rf"PASS: \d+ beats in, {beats} beats out\n", simulate_icarus(tmp_path, *FILES))


@needs_icarus
@pytest.mark.parametrize(("jobs", "seed"), [(1, 0), (200, 2**32 - 2), (20, 2**80)])
def test_passes_with_any_jobs_and_seed(tmp_path, jobs, seed):
    write(tmp_path, SPARSE, jobs=jobs, seed=seed)
    assert simulate_icarus(tmp_path, *FILES).startswith("PASS: ")


@needs_icarus
def test_passes_with_axi_names(tmp_path):
    write(tmp_path, SPARSE, naming="axi")
    assert simulate_icarus(tmp_path, *FILES).startswith("PASS: ")


FLIP = "reg flip; always @(posedge clk) flip <= ~rst & ~flip; "
MUTANTS = {
    "an adder subtracts": (r"(sum_stage0_0 }) \+", r"\1 -", r"result\[\d\] of output beat 0 is \w+, not \w+"),
    "a counter counts wrongly": (r"(: )cycles;", r"\1~cycles;", "cycles of output beat 0 is"),
    "last is inverted": (r"(tally_counters, )(last)", r"\1~\2", "last of output beat 0 is 1, not 0"),
    "nothing comes out": ("assign o__valid = ", r"\g<0>1'b0 & ", "nothing moved in 10000 cycles"),
    "ready is unknown": (
        "assign i__ready = ",
        r"\g<0>1'bx & ",
        "the input's ready is x, the output's valid 0",
    ),
    "valid falls": ("assign o__valid = ", rf"{FLIP}\g<0>flip & ", "was withdrawn before it was taken"),
    "payload changes": (
        "assign o__payload = ",
        rf"{FLIP}\g<0>{{flip, {{100{{1'b0}}}}}} ^ ",
        "changed before it was taken",
    ),
    "payload is unknown": (
        r"tally_counters, last",
        r"tally_counters ^ 1'bx, last",
        "output beat 0 has unknown bits",
    ),
    "a reset is not complete": (
        r"always @\(posedge clk\)\n    (cycles <= (\w+);(?s:.*?)assign \2 = rst )(?=\? \S+ : )",
        r"reg first; initial first = 1; always @(posedge clk) first <= first & rst;"
        r"always @(posedge clk) \g<1>& first ",
        r"cycles of output beat 0 is \w+, not",
    ),
}


@needs_verilator
def test_passes_and_fails_in_verilator(tmp_path):
    write(tmp_path, TILES["least sparse"])
    lint_verilator(tmp_path, "--timing", "--top-module", "t_tb", *FILES)
    binary = build_verilator(tmp_path, "t_tb", *FILES)
    assert re.search(r"^PASS: \d+ beats in, 20 beats out$", run([binary], tmp_path), re.MULTILINE)
    mutate(tmp_path / "t_tb_o.hex", "0\n", "1\n")
    assert re.search(r"^FAIL: result\[0\] of output beat \d+ is ", run([binary], tmp_path), re.MULTILINE)


@needs_icarus
@pytest.mark.parametrize(("pattern", "replacement", "message"), MUTANTS.values(), ids=MUTANTS)
def test_fails_where_the_verilog_is_wrong(tmp_path, pattern, replacement, message):
    write(tmp_path, DENSE, seed=4)  # so that the first reset interrupts a reduction
    mutate(tmp_path / "t.v", pattern, replacement)
    output = simulate_icarus(tmp_path, *FILES)
    assert re.search(rf"^FAIL: .*{message}", output, re.MULTILINE), output
    assert "PASS" not in output


@needs_icarus
def test_fails_where_too_much_comes_out(tmp_path):
    write(tmp_path, DENSE)
    mutate(tmp_path / "t_tb.v", "OUTPUT_BEATS = 40", "OUTPUT_BEATS = 39")
    assert "FAIL: more than the 39 output beats that were expected" in simulate_icarus(tmp_path, *FILES)


@needs_icarus
def test_pauses_are_random_and_many(tmp_path):
    """Both ends pause, and in between run at full speed; another SEED pauses elsewhere."""
    write(tmp_path, DENSE, jobs=100)
    watch = 'always @(posedge clk) if (!rst) $display("%b%b", in_valid, out_ready);\nendmodule'
    mutate(tmp_path / "t_tb.v", "endmodule", watch)
    first = simulate_icarus(tmp_path, *FILES)
    assert {"00", "01", "10", "11"} <= set(first.split())
    assert "10\n" * 5 in first
    assert "11\n" * 20 in first
    mutate(tmp_path / "t_tb.v", r"SEED = 32'd1", "SEED = 32'd2")
    assert simulate_icarus(tmp_path, *FILES) != first


def test_same_seed_same_files():
    design = Design("t", "mac-tile", SPARSE)
    facts = manifest(design, "")
    files = make_testbench(design, facts, jobs=5, seed=3)
    assert files == make_testbench(design, facts, jobs=5, seed=3)
    assert files["t_tb_i.hex"] != make_testbench(design, facts, jobs=5, seed=4)["t_tb_i.hex"]
    assert list(files) == ["t_tb.v", "t_tb_i.hex", "t_tb_o.hex"]

"""The generated Verilog as text, and what tools say of it."""

import os
import re
import subprocess
import sys
from functools import cache

import pytest
from verilog_tools import (
    check_with_every_tool,
    check_yosys,
    compile_icarus,
    lint_verilator,
    needs_icarus,
    needs_verilator,
)

from skiptile.gen.design import Design
from skiptile.gen.naming import NAMINGS
from skiptile.gen.verilog import generate
from skiptile.gen.yosys import YosysError, run_yosys
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.mac_tile import MacTileParams


def tile(rows, columns, lanes, lookahead=0, **options):
    return MacTileParams(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead, **options)


@cache
def verilog(params, name="t", naming="amaranth"):
    return generate(Design(name, "mac-tile", params), NAMINGS[naming])


def code(text):
    """Verilog without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def modules(text):
    return re.findall(r"^module (\w+)", text, re.MULTILINE)


# Every parameter at its least and greatest value somewhere, and the paper's tile.
TILES = {
    "least dense": tile(1, 1, 1, max_reduction=1),
    "dense": tile(2, 3, 4, output_rows=2),
    "least sparse": tile(1, 1, 1, 1, max_reduction=1),
    "longest lookahead": tile(1, 2, 3, 7, interconnect="lookahead"),
    "one move": tile(2, 1, 2, 2, interconnect=((0, 0),)),
    "shortest reduction": tile(2, 2, 3, 3, max_reduction=3, output_rows=2),
    "steps that no move reaches": tile(2, 1, 2, 3, interconnect=((0, 0), (3, 1))),
    "both sides": tile(1, 1, 4, side="both", lookahead=2),
    "longest reduction": tile(3, 1, 4, 1, max_reduction=1 << 24, output_rows=3),
    "paper": tile(4, 4, 16, 2),
    "two integers, shifted": tile(2, 1, 3, 2, format="int8", format_b="int16", out="int8"),
    "integers as floats": tile(1, 1, 2, format="int8", out="float16"),
    "two floats": tile(2, 1, 3, 2, format="float8_e5m2", format_b="float8_e4m3fn", out="float8_e5m2"),
    "half precision": tile(1, 2, 2, 1, format="float16", out="float16", saturate=True),
    "brain floats": tile(2, 2, 2, 2, format="bfloat16"),
    "both sides of floats": tile(1, 1, 3, side="both", lookahead=2, format="float16", format_b="bfloat16"),
    "the least window": tile(1, 1, 1, format="float4_e2m1fn", accumulator=(-2, -5), max_reduction=4),
    "far above what is": tile(1, 1, 2, format="float8_e4m3fn", accumulator=(60, -3), out="float8_e4m3fn"),
}
MORE_FORMATS = {
    "shifted, dense": tile(1, 2, 2, format="int16", out="int16"),
    "all rows of floats": tile(2, 2, 2, 1, format="float8_e4m3fn", output_rows=2),
    "least of all floats": tile(1, 1, 1, format="float4_e2m1fn", out="raw", max_reduction=1),
    "few bits of a product": tile(1, 1, 2, 1, format="bfloat16", accumulator=(0, -3), out="float6_e3m2fn"),
    "the least of a wide window": tile(1, 1, 2, 1, format="bfloat16", accumulator=(-266, -269)),
    "the highest bits": tile(1, 1, 3, 1, format="bfloat16", accumulator=(255, 240)),
    "wide by narrow": tile(1, 1, 1, format="float16", format_b="float6_e2m3fn"),
    "narrow by wide": tile(1, 1, 1, 1, format="float4_e2m1fn", format_b="float8_e5m2", accumulator="exact"),
    "far below the subnormals": tile(1, 1, 2, format="float32", accumulator=(-200, -230), out="float32"),
    "unbounded": tile(1, 1, 2, 1, format="bfloat16", accumulator="exact", max_reduction=1 << 24),
}
FLOATS = [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]
FORMAT_SWEEP = [
    tile(1, 1, 2, format=a, format_b=b, accumulator=accumulator)
    for a in FLOATS
    for b in FLOATS
    for accumulator in (None, "exact", (0, -4))
]
SWEEP = [
    tile(rows, columns, lanes, lookahead, interconnect=interconnect)
    for rows, columns in [(1, 1), (1, 4), (2, 2), (3, 5), (4, 4)]
    for lanes in (1, 3, 4, 8, 16)
    for lookahead in (0, 1, 2, 3)
    for interconnect in ("tensordash", "tensordash-sim", "lookahead")
    if lookahead or interconnect == "tensordash"
]
each_tile = pytest.mark.parametrize("params", TILES.values(), ids=TILES)


@needs_verilator
@needs_icarus
@each_tile
def test_no_tool_warns(tmp_path, params):
    check_with_every_tool(tmp_path, verilog(params))


@needs_verilator
@needs_icarus
@pytest.mark.exhaustive
@pytest.mark.parametrize("params", MORE_FORMATS.values(), ids=MORE_FORMATS)
def test_no_tool_warns_at_the_limits_of_formats(tmp_path, params):
    check_with_every_tool(tmp_path, verilog(params))


@needs_verilator
@needs_icarus
@pytest.mark.exhaustive
@pytest.mark.parametrize("params", FORMAT_SWEEP, ids=lambda p: f"{p.format}-{p.format_b}-{p.accumulator}")
def test_no_tool_warns_in_any_format(tmp_path, params):
    check_with_every_tool(tmp_path, verilog(params))


@needs_verilator
@needs_icarus
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "params",
    SWEEP,
    ids=lambda p: f"{p.rows}x{p.columns}x{p.lanes}-{p.lookahead}-{p.interconnect}",
)
def test_no_tool_warns_of_any_geometry(tmp_path, params):
    check_with_every_tool(tmp_path, generate(Design("t", "mac-tile", params)))


@needs_verilator
@needs_icarus
def test_axi_names(tmp_path):
    text = verilog(TILES["dense"], naming="axi")
    check_with_every_tool(tmp_path, text)
    header = re.search(r"^module t\((.*?)\);", text, re.MULTILINE | re.DOTALL)
    assert header is not None
    streams = {f"{stream}_t{part}" for stream in "io" for part in ("data", "valid", "ready")}
    assert set(re.split(r",\s*", header[1])) == {"clk", "rst", *streams}
    assert not re.search(r"\b[io]__(payload|valid|ready)\b", code(text))


@each_tile
def test_plain_verilog_without_initial_values(params):
    text = code(verilog(params))
    assert not re.search(r"\binitial\b|\breg\b[^;]*=|\\|\(\*|\$\w+", text.replace("$signed", ""))
    assert all(name == "t" or re.fullmatch(r"t__[a-z_]+", name) for name in modules(text))


@each_tile
def test_only_one_pragma_and_no_trace_of_the_maker(params):
    text = verilog(params)
    assert re.findall(r"verilator\s+\w+.*", text) == ["verilator lint_off DECLFILENAME */"]
    assert not re.search(r"yosys|/tmp|\.il\b|\.py\b|20\d\d-", text, re.IGNORECASE)
    assert text.startswith("// t: mac-tile, generated by Skiptile ")
    assert f"//   rows = {params.rows}\n" in text
    assert "What you generate is yours" in text
    assert text.endswith("endmodule\n")


def test_reset_reaches_only_what_is_reset():
    text = verilog(TILES["paper"])
    ports = dict(re.findall(r"^module (\w+)\((.*?)\);", text, re.MULTILINE | re.DOTALL))
    assert not re.search(r"\brst\b", ports["t__element"])
    assert not re.search(r"\brst\b|\bclk\b", ports["t__pairs"])
    assert re.search(r"\brst\b", ports["t__sequencer"])


@pytest.mark.parametrize("lookahead", [0, 2])
def test_modules_do_not_grow_with_the_array(lookahead):
    small, large = verilog(tile(2, 2, 4, lookahead)), verilog(tile(8, 8, 4, lookahead))
    assert modules(small) == modules(large)
    assert len(modules(large)) == len(set(modules(large)))
    assert len(re.findall(r"^  t__element (\w+) \($", large, re.MULTILINE)) == 64
    assert "t__element element_2_3 (" in large


def test_dense_tile_holds_nothing_of_the_sparse_hardware():
    dense, sparse = verilog(tile(2, 2, 4)), verilog(tile(2, 2, 4, 2))
    words = "scheduler|sequencer|window|select|taken|move|advance_|lookahead|staging"
    assert not re.search(words, code(dense))
    assert re.search(words, code(sparse))
    names = {"drain", "element", "finished_counters", "operands", "output_buffer", "tally"}
    assert set(modules(dense)) == {"t", *(f"t__{name}" for name in names)}
    names |= {"pairs", "scheduler", "sequencer", "window"}
    assert set(modules(sparse)) == {"t", *(f"t__{name}" for name in names)}


@needs_verilator
@needs_icarus
def test_two_designs_compile_together(tmp_path):
    (tmp_path / "one.v").write_text(verilog(TILES["one move"], "one"))
    (tmp_path / "one_dense.v").write_text(verilog(TILES["dense"], "one_dense"))
    files = ["one.v", "one_dense.v"]
    lint_verilator(tmp_path, *files, options=["-Wno-MULTITOP"])
    compile_icarus(tmp_path, *files, tops=["one", "one_dense"])
    check_yosys(tmp_path, *files)


def test_same_bytes_wherever_it_is_made(tmp_path):
    script = tmp_path / "make.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from skiptile.gen.design import Design\n"
        "from skiptile.gen.generate import generate_files\n"
        "from skiptile.golden.mac_tile import MacTileParams\n"
        "params = MacTileParams(rows=2, columns=1, lanes=3, lookahead=2)\n"
        "generate_files(Design('t', 'mac-tile', params), Path(sys.argv[1]), testbench=3)\n"
    )
    made = []
    for seed in ("0", "1"):
        folder = tmp_path / f"in{seed}"
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TMPDIR": str(folder)}
        subprocess.run([sys.executable, script, "out"], cwd=folder, env=environment, check=True)
        made.append({path.name: path.read_bytes() for path in (folder / "out").iterdir()})
        assert os.listdir(folder) == ["out"]
    assert made[0] == made[1]
    assert set(made[0]) == {"t.v", "t.json", "t_tb.v", "t_tb_i.hex", "t_tb_o.hex"}
    assert not any(os.fsencode(tmp_path) in data for data in made[0].values())


def test_a_failure_in_yosys_is_an_error_not_the_end(tmp_path):
    with pytest.raises(YosysError, match=r"^Yosys failed: .*no_such_pass"):
        run_yosys(["no_such_pass"], tmp_path)

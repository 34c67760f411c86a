"""The delivered Verilog of systolic tiles against golden: bits and clock cycles; and its bench."""

from dataclasses import replace
from functools import cache
from itertools import cycle
from itertools import product as every

import numpy as np
import pytest
from covering import covering_set
from format_tiles import LONGEST, PAIRS, tiles
from verilog_tools import needs_icarus, needs_verilator

from skiptile import sim
from skiptile.gen.design import Design
from skiptile.gen.verilog import generate
from skiptile.golden import exact, tasd
from skiptile.golden.formats import FORMATS
from skiptile.golden.nm import Compressed, compress, prune
from skiptile.golden.operands import random_operands
from skiptile.golden.payload import pack_integers, payload_bits
from skiptile.golden.systolic_tile import (
    BOTH,
    OUTPUT,
    WEIGHT,
    SystolicTileParams,
    job_cycles,
    sequence_cycles,
)
from skiptile.golden.systolic_tile_cases import expected_outputs, random_case, random_pattern
from skiptile.golden.systolic_tile_jobs import SystolicJobs, count_product, sequence_beats
from skiptile.golden.tilewise_packed import PackedLayer
from skiptile.sim.benches.systolic_tile import BeatRule
from skiptile.sim.streams import StreamPorts
from skiptile.sim.verify import verify_design

pytestmark = needs_verilator

SMALL = [(1, 1), (1, 4), (2, 2), (3, 5), (4, 4)]
CHANCES = [0, 0.1, 0.5, 0.9]  # of a cycle without input, without readiness
OPTIONS = {
    "geometry": SMALL,
    "dataflow": [WEIGHT, OUTPUT, BOTH],
    "registers_every": [1, 2, 64],
    "sparsity": [None, (1, 2), (2, 4), (3, 8), (4, 4), (16, 16)],
    "format": ["int8", "bfloat16", "float8_e4m3fn by float8_e5m2", "int16 to int8"],
    "accumulator_depth": [1, 5, 256],
    "gather_depth": [0, 1, 7],
}


def tile(geometry, dataflow=BOTH, sparsity=None, format="int8", **options):
    """``format`` may name that of ``b`` and that of results."""
    format, _, out = format.partition(" to ")
    format, _, format_b = format.partition(" by ")
    n, m = sparsity or (None, None)
    return SystolicTileParams(
        rows=geometry[0],
        columns=geometry[1],
        dataflow=dataflow,
        n=n,
        m=m,
        format=format,
        format_b=format_b or None,
        out=out or None,
        **options,
    )


def allowed(choice):
    return not choice["gather_depth"] or (choice["dataflow"] != WEIGHT and choice["sparsity"] is None)


# Every value of every option but geometry, and each pair of formats that other tiles are compared in.
TILES = [
    tile((3, 5), WEIGHT, (2, 4), "int8", registers_every=2, accumulator_depth=5),
    tile((1, 4), BOTH, None, "int16", gather_depth=7),
    tile((2, 2), BOTH, (1, 2), "float8_e4m3fn", registers_every=64, accumulator_depth=1),
    tile((1, 4), WEIGHT, (3, 8), "float8_e4m3fn by float8_e5m2", registers_every=2),
    tile((1, 1), BOTH, (16, 16), "float8_e5m2 by float8_e4m3fn", accumulator_depth=5),
    tile((3, 5), OUTPUT, None, "float8_e5m2", registers_every=64, gather_depth=1),
    tile((2, 2), WEIGHT, None, "float16", accumulator_depth=1),
    tile((2, 2), OUTPUT, (4, 4), "bfloat16", registers_every=2),
    tile((1, 4), BOTH, (1, 2), "int16 to int8", registers_every=2, accumulator_depth=5),
]
COVERING = [tile(**choice) for choice in covering_set(OPTIONS, allowed)]
OTHERS = ("format", "registers_every", "accumulator_depth")
PRODUCT = [
    tile(geometry, dataflow, sparsity, **dict(zip(OTHERS, others, strict=True)))
    for (geometry, dataflow, sparsity), others in zip(
        every(SMALL, OPTIONS["dataflow"], OPTIONS["sparsity"]),
        cycle(every(*(OPTIONS[name] for name in OTHERS))),
        strict=False,
    )
]
GATHERING = tile((3, 5), gather_depth=7, accumulator_depth=24)
DENSE, FULL, HALF = (tile((4, 4), BOTH, pattern, accumulator_depth=24) for pattern in (None, (4, 4), (2, 4)))


def name_of(params):
    sparsity = f"{params.n}:{params.m}" if params.m else "dense"
    size = f"{params.rows}x{params.columns}-{params.dataflow}-{sparsity}-{params.format}-{params.format_b}"
    return f"{size}-{params.registers_every}-{params.accumulator_depth}-{params.gather_depth}"


each_dataflow = pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT])


@cache
def model_of(params):
    return sim.load(params, random_start=True)


def dataflows(params):
    return [dataflow for dataflow in (WEIGHT, OUTPUT) if params.has(dataflow)]


def random_product(rng, params):
    """Operands of a shape below, at or above the array, not multiples of it, or of ones; some special."""
    arithmetic = params.arithmetic
    m, k, n = (
        int(rng.choice([1, size, int(rng.integers(1, 3 * size + 2))]))
        for size in (params.rows, params.rows * params.block, params.columns)
    )
    k = min(k, params.max_reduction)
    zeros, specials = rng.choice([0, 0.3, 0.9]), rng.choice([0, 0.05])
    a = random_operands(rng, arithmetic.a, (m, k), zeros=0.2, specials=specials)
    b = random_operands(rng, arithmetic.b, (k, n), zeros=zeros, specials=specials)
    shift = int(rng.integers(arithmetic.accumulator_bits)) if arithmetic.shift_bits else 0
    return a, random_pattern(rng, b, params), shift


def dense(b):
    return b.dense() if isinstance(b, Compressed) else b


def check_outputs(run, wanted, *context):
    for name, values in wanted.items():
        assert np.array_equal(run.outputs[name], values), (name, *context)


def check_product(model, a, b, shift=0, dataflow=None):
    """Golden's bits and, without stalls, golden's clock cycles to the last."""
    params = model.design.params
    result, counters = model.matmul(a, b, shift, dataflow=dataflow)
    wanted = exact.product(a, dense(b), params.arithmetic, shift)
    assert result.dtype == wanted.results.dtype
    assert np.array_equal(result, wanted.results), (a.shape, dense(b).shape, dataflow)
    assert counters.overflow == exact.count_overflow(wanted.flags)
    cycles = job_cycles(params, *a.shape, dense(b).shape[1], dataflow)
    if isinstance(b, np.ndarray) or b.n == params.kept:
        assert counters.cycles == counters.elapsed == cycles, (a.shape, b.shape, dataflow)
    else:  # compressed to fewer than the design's n
        assert counters.cycles <= cycles
    return counters


def check_tile(params, seed, jobs=20):
    """Random products under random stalls, from random initial values; then without any stall."""
    rng = np.random.default_rng([11, seed])
    model = model_of(params)
    for index in range(6):
        beats, wanted = random_case(params, jobs, int(rng.integers(1 << 30)))
        idle, stall = rng.choice(CHANCES, 2)
        check_outputs(model.stream(beats, idle, stall, index), wanted, idle, stall, index)
    for dataflow in (*dataflows(params), None):
        for _ in range(4):
            check_product(model, *random_product(rng, params), dataflow)


@pytest.mark.parametrize("params", TILES, ids=name_of)
def test_rtl_is_golden(params, seed):
    check_tile(params, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("params", COVERING, ids=name_of)
def test_rtl_is_golden_in_every_pair_of_options(params, seed):
    check_tile(params, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("params", PRODUCT, ids=name_of)
def test_rtl_is_golden_in_every_geometry_dataflow_and_sparsity(params, seed):
    check_tile(params, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "params",
    [
        tile((1, 1), WEIGHT, max_reduction=1, accumulator_depth=1),
        tile((1, 1), OUTPUT, max_reduction=1, gather_depth=1),
        tile((1, 64), BOTH, registers_every=3),
        tile((64, 1), BOTH, registers_every=64, max_reduction=1 << 24),
        tile((5, 3), BOTH, gather_depth=1 << 16, accumulator_depth=1 << 16),
        tile((3, 2), WEIGHT, (1, 16), "float32"),
        tile((2, 3), OUTPUT, (15, 16), "float4_e2m1fn by float6_e3m2fn to float6_e2m3fn"),
    ],
    ids=name_of,
)
def test_rtl_is_golden_at_the_limits(params, seed):
    check_tile(params, seed)


# ---- clock cycles ----


def check_shapes(params, count, seed):
    """Jobs of random shapes in both dataflows, each alone, then all behind each other."""
    rng = np.random.default_rng([12, seed, params.rows, params.columns])
    model = model_of(params)
    for dataflow in (WEIGHT, OUTPUT):
        for _ in range(count):
            check_product(model, *random_product(rng, params), dataflow)
    products = []
    for _ in range(count):
        a, b, _ = random_product(rng, params)
        products.append(SystolicJobs(a, b, params, dataflow=str(rng.choice([WEIGHT, OUTPUT]))))
    jobs = [(product.m, product.k, product.n, product.dataflow) for product in products]
    beats = sequence_beats(products)
    run = model.stream(beats)
    assert run.elapsed == sequence_cycles(params, jobs)
    check_outputs(run, expected_outputs(params, beats))


def sized(rows, columns):
    return tile((rows, columns), accumulator_depth=24)


# 200 of them; tiles that other tests build, where they can be had
SHAPES = {sized(1, 1): 40, TILES[1]: 40, sized(2, 2): 35, GATHERING: 35, DENSE: 35, sized(8, 8): 15}


@pytest.mark.parametrize("params", SHAPES, ids=name_of)
def test_cycles_are_golden(params, seed):
    check_shapes(params, SHAPES[params], seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("geometry", [*SMALL, (8, 8), (16, 16)], ids=str)
def test_cycles_are_golden_for_200_shapes(geometry, seed):
    check_shapes(sized(*geometry), 200, seed)


@pytest.mark.exhaustive
@each_dataflow
def test_a_large_job_keeps_the_array_busy(dataflow):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((128, 512), (512, 128)))
    counters = check_product(sim.load(tile((8, 8))), a, b, dataflow=dataflow)
    assert counters.effectual >= 0.99 * counters.cycles * 64


@each_dataflow
def test_every_place_filled_is_the_dense_array(dataflow, seed):
    """n = m: bit for bit and cycle for cycle, job by job and in a sequence."""
    rng = np.random.default_rng([13, seed])
    models = [model_of(params) for params in (DENSE, FULL)]
    operands = [random_product(rng, DENSE)[:2] for _ in range(20)]
    for a, b in operands:
        (one, counted), (other, counted_too) = (model.matmul(a, b, dataflow=dataflow) for model in models)
        assert np.array_equal(one, other)
        assert counted == counted_too
    runs = []
    for model, params in zip(models, (DENSE, FULL), strict=True):
        products = [SystolicJobs(a, b, params, dataflow=dataflow) for a, b in operands]
        runs.append(model.stream(sequence_beats(products)))
    assert runs[0].elapsed == runs[1].elapsed
    check_outputs(runs[0], runs[1].outputs)


@each_dataflow
def test_throughput_is_m_over_n_of_the_dense_array(dataflow):
    """With as many multipliers: 2:4 weights take half of the cycles, but for the constant latency."""
    rng = np.random.default_rng(14)
    a, b = rng.integers(-128, 128, (32, 256), np.int8), rng.integers(-128, 128, (256, 16), np.int8)
    b *= prune(b, 2, 4)
    assert DENSE.capacities["multipliers"] == HALF.capacities["multipliers"]
    whole, half = (
        check_product(model_of(params), a, b, dataflow=dataflow).cycles - params.result_latency
        for params in (DENSE, HALF)
    )
    assert 32 * 256 * 16 // 16 <= whole < 32 * 256 * 16 // 16 + 5
    assert 1.99 < whole / half < 2.01


# ---- bits ----


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_bits_are_those_of_the_mac_tile(pair, seed):
    rng = np.random.default_rng([15, seed])
    params = next(params for params in TILES if (params.format, params.format_b) == pair)
    a, b = (FORMATS[name] for name in pair)
    for specials, k in ((0, LONGEST // 10), (0.003, 50), (0.3, 3)):
        left = random_operands(rng, a, (5, k), zeros=0.3, specials=specials)
        right = random_operands(rng, b, (k, 7), specials=specials)
        right = dense(random_pattern(rng, right, params))
        wanted, counters = model_of(tiles(pair)[0]).matmul(left, right)
        assert len(np.unique(wanted)) > 3
        for dataflow in dataflows(params):
            found = check_product(model_of(params), left, right, dataflow=dataflow)
            result = model_of(params).matmul(left, right, dataflow=dataflow)[0]
            assert np.array_equal(result, wanted)
            assert found.overflow == counters.overflow


@pytest.mark.parametrize("params", [TILES[2], TILES[8], GATHERING], ids=name_of)
def test_neither_stalls_nor_resets_nor_first_values_matter(params):
    model = model_of(params)
    beats, wanted = random_case(params, 40, 1)
    rng = np.random.default_rng(2)
    pattern = rng.random(97) < 0.5
    paces = [*every(CHANCES, CHANCES), (pattern, 0), (0, pattern), (pattern, pattern[::-1])]
    for seed, (idle, stall) in enumerate(paces * 3):
        reset_after = int(rng.integers(1, 300)) if seed >= len(paces) else None
        run = model.stream(beats, idle, stall, seed, reset_after=reset_after)
        check_outputs(run, wanted, idle, stall, seed, reset_after)


@each_dataflow
def test_the_terms_of_a_series_stay_in_the_accumulators(dataflow, seed):
    rng = np.random.default_rng([16, seed])
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((9, 37), (37, 6)))
    model = model_of(HALF)
    for series in ([(1, 4)], [(2, 4), (1, 4)], [(2, 4), (1, 2)], [(2, 4), (2, 4)]):
        terms, residue = tasd.decompose(b, series, axis=0, format="int8")
        weights = [compress(term, *pattern, "int8") for term, pattern in zip(terms, series, strict=True)]
        result, counters = model.matmul(a, weights, dataflow=dataflow)
        assert np.array_equal(result, a.astype(int) @ (b.astype(int) - residue))
        assert counters.cycles == SystolicJobs(a, weights, HALF, dataflow=dataflow).counters.cycles
        assert residue.any() == (series != [(2, 4), (2, 4)])
    assert np.array_equal(result, a.astype(int) @ b.astype(int))


@each_dataflow
def test_a_packed_layer_runs_with_its_leftovers(dataflow, seed):
    rng = np.random.default_rng([17, seed])
    b = rng.integers(-128, 128, (23, 11), np.int8)
    blocks = [(np.arange(start, 23, 3), np.arange(4 * start, 4 * start + 3)) for start in range(3)]
    covered = np.zeros(b.shape, bool)
    for block in blocks:
        covered[np.ix_(*block)] = True
    layer = PackedLayer.gather(b, blocks, (rng.random(b.shape) < 0.2) & ~covered, 3)
    assert layer.leftover_values.size > 10
    a = rng.integers(-128, 128, (8, 23), np.int8)
    for params in (GATHERING, DENSE):
        result, counters = model_of(params).matmul(a, layer, dataflow=dataflow)
        assert np.array_equal(result, a.astype(int) @ layer.dense().astype(int))
        assert counters.cycles == SystolicJobs(a, layer, params, dataflow=dataflow).counters.cycles


def test_the_model_counts_what_golden_counts():
    rng = np.random.default_rng(18)
    a, b, _ = random_product(rng, HALF)
    assert model_of(HALF).matmul(a, b)[1] == count_product(a, b, HALF)
    nothing = np.zeros((0, a.shape[1]), np.int8)
    assert model_of(HALF).matmul(nothing, b)[1] == count_product(nothing, b, HALF)


# ---- what is refused ----


def test_what_a_model_refuses():
    a, b = np.ones((3, 8), np.int8), np.ones((8, 3), np.int8)
    model = model_of(HALF)
    for weights, message in (
        (b, "b must have at most 2 non-zeros in 4 rows, not 4 as in rows 0 to 3 of column 0"),
        ([b[:4], b[:4]], "a @ b needs shapes (M, K) and (K, N), not (3, 8) and (4, 3)"),
        (compress(b, 4, 4, "int8"), "4:4 weights can have 4 non-zeros in 4 rows; the design has 2:4"),
        (
            [compress(0 * b, 2, 4, "int8"), compress(0 * b, 4, 8, "int8")],
            "term 1 of the series: 4:8 weights can have 4 non-zeros in 4 rows; the design has 2:4",
        ),
    ):
        with pytest.raises(ValueError, match=r"non-zeros|shapes") as error:
            model.matmul(a, weights)
        assert str(error.value) == message
    stored = compress(0 * b, 2, 4, "int8")
    for index, message in ((1, "index must increase strictly within a block"), (4, "index must be 0 to 3")):
        with pytest.raises(ValueError, match=f"^{message}"):
            Compressed(2, 4, (8, 3), stored.values, np.full_like(stored.index, index))
    with pytest.raises(
        ValueError, match=r"^dataflow must be 'weight-stationary', which the design has, not 'ou"
    ):
        model_of(TILES[0]).matmul(a, 0 * b, dataflow=OUTPUT)
    with pytest.raises(ValueError, match=r"^dataflow must be one of .*, not 'rows'$"):
        model.matmul(a, 0 * b, dataflow="rows")


@pytest.mark.parametrize("params", [TILES[2], GATHERING], ids=name_of)
def test_no_beats_can_stop_a_tile(params, seed):
    """Weights never loaded, or for too many rows; sums never begun, or never held: it takes and gives all."""
    rng = np.random.default_rng([19, seed])
    count = 2000
    beats = {
        field.name: rng.integers(0, 1 << field.width, (count, *field.shape)) for field in params.input_fields
    }
    beats["count"] = rng.integers(1, params.rows + 1, count)
    for idle, stall in ((0, 0), (0.3, 0.5)):
        outputs = model_of(params).stream(beats, idle, stall, seed).outputs
        assert len(outputs["last"]) == params.count_outputs(beats) > count // 4


# ---- the bench ----


def rule_of(params):
    fields = params.input_fields
    return BeatRule(StreamPorts("i", False, fields, payload_bits(fields), None, None, None), params)


def faults(params, beats):
    return [fault for fault in map(rule_of(params), pack_integers(params.input_fields, beats)) if fault]


@pytest.mark.parametrize("params", [*TILES, GATHERING], ids=name_of)
def test_random_cases_keep_to_the_rules(params, seed):
    assert faults(params, random_case(params, 20, seed)[0]) == []


def test_what_must_not_be_sent_is_named():
    params = tile((2, 2), accumulator_depth=2, gather_depth=3)

    def first_fault(*beats):
        """Of beats that each name the fields that are not zero."""
        values = {
            field.name: np.array(
                [np.broadcast_to(beat.get(field.name, 0), field.shape) for beat in beats], np.int64
            )
            for field in params.input_fields
        }
        return next(iter(faults(params, values)), None)

    load, first, go = {"load": 1}, {"compute": 1, "first": 1}, {"compute": 1}
    streamed = {"output_stationary": 1, "first": 1, "fresh": 1}
    for fault, beats in (
        ("weights are loaded for a row 2 of 2", [load] * 3),
        (None, [load, load, first | load, load, first]),
        ("activations come before a first", [load, go]),
        (None, [load, first | {"a": [0, 1]}]),
        ("activations come before a first", [load, first, streamed, go]),
        ("a block of results has a row 2, where 2 are held", [load, first, go, go]),
        ("hold on row 1, which holds nothing", [load, first, first, go | {"hold": 1}]),
        ("hold on row 0, which holds nothing", [load, first | {"give": 1}, first | {"hold": 1}]),
        (None, [load, first, first | {"hold": 1, "give": 1}]),
        ("sums go on before a first", [streamed | {"first": 0}]),
        ("count must be from 1 to 2, not 0", [streamed | {"give": 1}]),
        ("count must be from 1 to 2, not 3", [streamed | {"give": 1, "count": 3}]),
        (None, [streamed | {"give": 1, "count": 2}]),
        ("pick must be below 3, not 3", [streamed | {"pick": 3}]),
        ("nothing is kept at place 1", [streamed, streamed | {"fresh": 0, "pick": 1}]),
        (None, [streamed | {"pick": 1}, streamed | {"fresh": 0, "pick": 1}]),
    ):
        found = first_fault(*beats)
        assert found == fault, beats


def verified(params, simulator, verilog=None):
    design = Design("t", "systolic-tile", params)
    return verify_design(design, cases=3, seed=1, simulator=simulator, verilog=verilog)


BENCHED = tile((2, 2), BOTH, (1, 2), "int8 to int8", accumulator_depth=5)


@needs_icarus
@pytest.mark.parametrize(
    ("params", "simulator"),
    [
        pytest.param(BENCHED, "icarus"),
        *(
            pytest.param(*more, marks=pytest.mark.exhaustive)
            for more in (
                (BENCHED, "verilator"),
                (GATHERING, "icarus"),
                (TILES[2], "icarus"),
                (TILES[6], "icarus"),
                (tile((1, 1), OUTPUT, max_reduction=1), "icarus"),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else name_of(value),
)
def test_the_bench_passes(params, simulator):
    outcome = verified(params, simulator)
    assert outcome.passed, outcome.failures
    assert len({case.name for case in outcome.cases}) == len(outcome.cases) > 50
    assert all(case.measured["elapsed"] >= case.measured["cycles"] > 0 for case in outcome.cases)


QUICKER = replace(BENCHED, registers_every=2)
SHALLOWER = replace(BENCHED, accumulator_depth=1)


@needs_icarus
@pytest.mark.parametrize(
    ("params", "sister", "fault"),
    [
        pytest.param(BENCHED, QUICKER, "elapsed cycles, where there are", id="quicker"),
        pytest.param(
            QUICKER, BENCHED, "elapsed cycles without stalls", id="slower", marks=pytest.mark.exhaustive
        ),
        pytest.param(BENCHED, SHALLOWER, "result: ", id="shallower", marks=pytest.mark.exhaustive),
    ],
)
def test_the_bench_finds_another_tile(params, sister, fault):
    """One of the same ports: all its results may be right."""
    outcome = verified(params, "icarus", generate(Design("t", "systolic-tile", sister)))
    assert not outcome.passed
    assert all(fault in case.error for case in outcome.failures), {case.error for case in outcome.failures}

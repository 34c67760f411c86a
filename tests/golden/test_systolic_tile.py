"""The systolic tile's parameters, its cycle model and its jobs, each against another way."""

import re
from itertools import product as every

import numpy as np
import pytest

from skiptile.golden import exact, tasd
from skiptile.golden.counters import Counters
from skiptile.golden.formats import FORMATS
from skiptile.golden.nm import compress, prune
from skiptile.golden.operands import random_operands
from skiptile.golden.systolic_tile import (
    BOTH,
    OUTPUT,
    WEIGHT,
    Job,
    SystolicTileParams,
    compressed_length,
    cut,
    job_cycles,
    sequence_cycles,
)
from skiptile.golden.systolic_tile_cases import expected_outputs, random_case, random_pattern
from skiptile.golden.systolic_tile_jobs import SystolicJobs, count_product, sequence_beats
from skiptile.golden.tilewise_packed import PackedLayer


def tile(rows=2, columns=3, dataflow=BOTH, **options):
    return SystolicTileParams(rows=rows, columns=columns, dataflow=dataflow, **options)


def dataflows(params):
    return [dataflow for dataflow in (WEIGHT, OUTPUT) if params.has(dataflow)]


# ---- parameters ----

FORMAT_NAMES = ", ".join(repr(name) for name in FORMATS)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"rows": 0}, ValueError, "rows must be an integer from 1 to 64, not 0"),
        ({"rows": 65}, ValueError, "rows must be an integer from 1 to 64, not 65"),
        ({"columns": -1}, ValueError, "columns must be an integer from 1 to 64, not -1"),
        ({"columns": True}, TypeError, "columns must be an integer from 1 to 64, not True"),
        ({"registers_every": 0}, ValueError, "registers_every must be an integer from 1 to 64, not 0"),
        ({"registers_every": 65}, ValueError, "registers_every must be an integer from 1 to 64, not 65"),
        (
            {"dataflow": "ws"},
            ValueError,
            "dataflow must be one of 'weight-stationary', 'output-stationary', 'both', not 'ws'",
        ),
        (
            {"dataflow": None},
            TypeError,
            "dataflow must be one of 'weight-stationary', 'output-stationary', 'both', not None",
        ),
        ({"format": "int9"}, ValueError, f"format must be one of {FORMAT_NAMES}, not 'int9'"),
        (
            {"format_b": "float16"},
            ValueError,
            "format = 'int8' and format_b = 'float16' cannot be mixed: integers meet integers, floats meet "
            "floats",
        ),
        (
            {"accumulator": (3, 0)},
            ValueError,
            "accumulator belongs to floats, not to format = 'int8': integers are summed exactly",
        ),
        (
            {"format": "bfloat16", "out": "int8"},
            ValueError,
            "out = 'int8' belongs to integers, not to format = 'bfloat16'",
        ),
        ({"max_reduction": 0}, ValueError, "max_reduction must be an integer from 1 to 16777216, not 0"),
        (
            {"max_reduction": (1 << 24) + 1},
            ValueError,
            "max_reduction must be an integer from 1 to 16777216, not 16777217",
        ),
        (
            {"accumulator_depth": 0},
            ValueError,
            "accumulator_depth must be an integer from 1 to 65536, not 0",
        ),
        (
            {"accumulator_depth": 65537},
            ValueError,
            "accumulator_depth must be an integer from 1 to 65536, not 65537",
        ),
        ({"gather_depth": -1}, ValueError, "gather_depth must be an integer from 0 to 65536, not -1"),
        ({"gather_depth": 65537}, ValueError, "gather_depth must be an integer from 0 to 65536, not 65537"),
        ({"gather_depth": 1.5}, TypeError, "gather_depth must be an integer from 0 to 65536, not 1.5"),
        (
            {"gather_depth": 1, "dataflow": WEIGHT},
            ValueError,
            "gather_depth = 1 needs an output-stationary dataflow, not dataflow = 'weight-stationary'",
        ),
        (
            {"gather_depth": 2, "n": 2, "m": 4},
            ValueError,
            "gather_depth = 2 needs dense weights, not n = 2, m = 4",
        ),
        ({"n": 2}, ValueError, "n and m belong together, not n = 2 with m = None"),
        ({"m": 4}, ValueError, "n and m belong together, not n = None with m = 4"),
        ({"n": 3, "m": 2}, ValueError, "n must be from 1 to m = 2, not 3"),
        ({"n": 0, "m": 4}, ValueError, "n must be from 1 to m = 4, not 0"),
        ({"n": 1, "m": 3}, ValueError, "m must be a power of two from 1 to 16, not 3"),
        ({"n": 1, "m": 32}, ValueError, "m must be a power of two from 1 to 16, not 32"),
        ({"n": "1", "m": 4}, TypeError, "n must be an integer, not '1'"),
    ],
)
def test_refused_parameters(changes, kind, message):
    with pytest.raises(kind) as error:
        tile(**changes)
    assert str(error.value) == message


LIMITS = [
    tile(1, 1, WEIGHT, max_reduction=1, accumulator_depth=1),
    tile(1, 1, OUTPUT, max_reduction=1, gather_depth=1),
    tile(64, 64, BOTH, registers_every=64, max_reduction=1 << 24, accumulator_depth=1 << 16),
    tile(64, 64, OUTPUT, gather_depth=1 << 16),
    tile(2, 3, BOTH, n=1, m=2),
    tile(2, 3, WEIGHT, n=16, m=16),
    tile(2, 3, OUTPUT, format="bfloat16", accumulator=(3, -9), out="float8_e5m2", saturate=True),
    tile(2, 3, BOTH, format="int8", format_b="int16", out="int8"),
]


@pytest.mark.parametrize("params", LIMITS, ids=str)
def test_table_and_back(params):
    again = SystolicTileParams.from_dict(params.to_dict())
    assert again == params
    assert hash(again) == hash(params)


def test_equal_tiles_are_equal_however_they_are_written():
    assert tile(format="int8", format_b="int8", out="raw") == tile()
    assert tile(n=1, m=1) == tile()
    assert tile(n=1, m=1).to_dict() == tile().to_dict()
    assert SystolicTileParams.from_dict({"rows": 2, "columns": 3, "dataflow": "both"}) == tile()


KEYS = (
    "rows, columns, dataflow, format, format_b, accumulator, out, saturate, registers_every, "
    "accumulator_depth, gather_depth, max_reduction, sparsity"
)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rows": None}, "[systolic-tile] lacks the key 'rows'"),
        ({"dataflow": None}, "[systolic-tile] lacks the key 'dataflow'"),
        ({"lanes": 3}, f"[systolic-tile] has the unknown key 'lanes'; allowed are {KEYS}"),
        ({"n": 1}, f"[systolic-tile] has the unknown key 'n'; allowed are {KEYS}"),
        ({"sparsity": 3}, "[systolic-tile.sparsity] must be a table, not 3"),
        ({"sparsity": {"n": 1}}, "[systolic-tile.sparsity] lacks the key 'm'"),
        (
            {"sparsity": {"n": 1, "m": 2, "side": "b"}},
            "[systolic-tile.sparsity] has the unknown key 'side'; allowed are n, m",
        ),
    ],
)
def test_refused_tables(table, message):
    whole = {"rows": 2, "columns": 3, "dataflow": "both", **table}
    with pytest.raises((TypeError, ValueError)) as error:
        SystolicTileParams.from_dict({key: value for key, value in whole.items() if value is not None})
    assert str(error.value) == message


def test_sums_hold_the_longest_reduction():
    """Full-scale integers, in the accumulators and in what leaves a column of ``rows`` products."""
    for rows, longest in every((1, 2, 5, 64), (1, 3, 64, 65536)):
        params = tile(rows, 1, WEIGHT, max_reduction=longest)
        assert (1 << params.arithmetic.accumulator_bits - 1) > 128 * 128 * longest
        assert (1 << params.partial_bits - 1) > 128 * 128 * min(rows, longest)


def test_the_contract_names_the_fields_that_there_are():
    for params in LIMITS:
        words = re.findall(r"\w+", " ".join(params.contract))
        names = {field.name for field in params.input_fields}
        for name in ("load", "hold", "count", "fresh", "output_stationary", "index"):
            assert (name in words) == (name in names), name


# ---- the cycle model ----


def naive_cycles(params, beats):
    """Clock cycles of beats, one after the other, by the rules of admission alone; output always taken.

    A beat takes a cycle. One whose sums leave the array waits while those of another one still do: ``count``
    cycles, a row of results in each.
    """
    now = free = given = 0
    for beat, streamed in enumerate(params.is_streamed(beats)):
        flag = {name: int(beats[name][beat]) for name in ("compute", "give", "count") if name in beats}
        completes = streamed and flag["give"]
        if completes or (not streamed and flag["compute"]):
            now = max(now, free)
            if completes:
                free = now + flag["count"]
                given = now + flag["count"] - 1
            elif flag["give"]:
                given = now
        now += 1
    return given + params.result_latency + 1


def zeros_product(params, job):
    arithmetic = params.arithmetic
    a, b = np.zeros((job.m, job.k), arithmetic.a.dtype), np.zeros((job.k, job.n), arithmetic.b.dtype)
    return SystolicJobs(a, b, params, dataflow=job.dataflow)


def random_jobs(rng, params, count):
    """Shapes below, at and above the array, and one."""
    along = params.rows * params.block
    sizes = [(1, size, int(rng.integers(1, 3 * size + 2))) for size in (params.rows, along, params.columns)]
    for _ in range(count):
        m, k, n = (int(rng.choice(options)) + int(rng.integers(0, 2)) for options in sizes)
        yield Job(m, k, n, str(rng.choice(dataflows(params))))


GEOMETRIES = [(1, 1), (1, 4), (2, 2), (3, 5), (4, 4), (8, 8), (16, 16)]
CYCLE_TILES = [
    tile(*geometry, dataflow, **options)
    for geometry, dataflow, options in every(
        GEOMETRIES,
        (WEIGHT, OUTPUT, BOTH),
        (
            {"accumulator_depth": 1},
            {"accumulator_depth": 5, "n": 2, "m": 4},
            {"registers_every": 2},
            {"n": 3, "m": 8},
        ),
    )
]


def test_one_job_takes_what_its_beats_take(seed):
    rng = np.random.default_rng([seed, 1])
    for params in CYCLE_TILES:
        for job in random_jobs(rng, params, 10):
            beats = sequence_beats([zeros_product(params, job)])
            assert job_cycles(params, *job) == naive_cycles(params, beats), (params, job)


def test_a_sequence_takes_what_its_beats_take(seed):
    """Weights are loaded beside the activations before; results leave while the next operands come."""
    rng = np.random.default_rng([seed, 2])
    for params in CYCLE_TILES:
        for _ in range(5):
            jobs = list(random_jobs(rng, params, int(rng.integers(2, 7))))
            beats = sequence_beats([zeros_product(params, job) for job in jobs])
            assert sequence_cycles(params, jobs) == naive_cycles(params, beats), (params, jobs)


def test_jobs_follow_each_other_without_a_bubble():
    """Long ones: nothing but their own products, the first operands and the latency at the end."""
    params = tile(4, 4, BOTH)
    for dataflow, first in ((WEIGHT, 4), (OUTPUT, 64)):
        job = Job(64, 64, 64, dataflow)
        work = 64 * 64 * 64 // 16
        for count in (1, 2, 10):
            cycles = sequence_cycles(params, [job] * count)
            tail = 4 if dataflow == WEIGHT else 3
            assert cycles == count * work + tail + params.result_latency, (dataflow, count, first)


def test_the_quicker_dataflow_is_taken():
    rng = np.random.default_rng(0)
    taken = set()
    for _ in range(100):
        m, k, n = (int(size) for size in rng.integers(1, 40, 3))
        params = tile(4, 4, BOTH)
        both = [job_cycles(params, m, k, n, dataflow) for dataflow in (WEIGHT, OUTPUT)]
        assert job_cycles(params, m, k, n) == min(both)
        a, b = np.zeros((m, k), np.int8), np.zeros((k, n), np.int8)
        taken.add(SystolicJobs(a, b, params).dataflow)
        assert count_product(a, b, params).cycles == min(both)
    assert taken == {WEIGHT, OUTPUT}


@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT])
def test_every_knob_turns_the_cycles_its_way(dataflow, seed):
    rng = np.random.default_rng([seed, 3])
    shapes = [[int(size) for size in rng.integers(1, 300, 3)] for _ in range(50)]

    def cycles(**changes):
        params = tile(**{"rows": 4, "columns": 4, "dataflow": dataflow, **changes})
        return np.array([job_cycles(params, *shape) for shape in shapes])

    for fewer, more in (
        (cycles(columns=8) - 8, cycles(columns=4)),  # latency, in which a larger array is longer
        (cycles(rows=8) - 2 * 8, cycles(rows=4)),
        (cycles(registers_every=4), cycles(registers_every=1)),
        (cycles(n=1, m=4), cycles(n=2, m=4)),
        (cycles(n=2, m=4), cycles(n=3, m=4)),
        (cycles(accumulator_depth=256), cycles(accumulator_depth=3)),
    ):
        assert np.all(fewer <= more)
    assert np.any(cycles(registers_every=4) < cycles(registers_every=1))
    assert np.any(cycles(n=1, m=4) < cycles(n=2, m=4))
    held = cycles(accumulator_depth=256), cycles(accumulator_depth=3)  # fewer rows than loading takes
    assert np.any(held[0] < held[1]) == (dataflow == WEIGHT)
    dense, full = cycles(), cycles(n=4, m=4)
    assert np.array_equal(dense, full)


def test_no_job_is_shorter_for_being_larger(seed):
    rng = np.random.default_rng([seed, 4])
    for params in CYCLE_TILES[::5]:
        for job in random_jobs(rng, params, 10):
            for name in "mkn":
                larger = job._replace(**{name: getattr(job, name) + 1})
                assert job_cycles(params, *larger) >= job_cycles(params, *job), (params, job, name)


def test_utilisation_is_never_above_one(seed):
    rng = np.random.default_rng([seed, 5])
    for params in CYCLE_TILES:
        for job in random_jobs(rng, params, 5):
            work = job.m * job.n * compressed_length(job.k, params.kept, params.block)
            assert work <= job_cycles(params, *job) * params.rows * params.columns


@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT])
def test_a_large_dense_job_keeps_the_array_busy(dataflow):
    cycles = job_cycles(tile(8, 8), 128, 512, 128, dataflow)
    assert 0.99 * cycles * 64 <= 128 * 512 * 128


def resnet18():
    """ResNet-18 at 224 x 224, an image: (M, K, N) of each layer."""
    layers = [(112**2, 3 * 49, 64), *[(56**2, 64 * 9, 64)] * 4]
    for size, channels in ((28, 128), (14, 256), (7, 512)):
        half = channels // 2
        layers += [(size**2, half * 9, channels), (size**2, half, channels)]
        layers += [(size**2, channels * 9, channels)] * 3
    return [*layers, (1, 512, 1000)]


@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT])
def test_a_whole_network(dataflow):
    layers = resnet18()
    assert sum(m * k * n for m, k, n in layers) == 1_814_073_344  # as published: 1.8 G
    params = tile(32, 32)
    total = 0
    for m, k, n in layers:
        cycles = job_cycles(params, m, k, n, dataflow)
        assert m * k * n <= cycles * 1024
        total += cycles
    sequence = sequence_cycles(params, [(*layer, dataflow) for layer in layers])
    assert 1_814_073_344 // 1024 < sequence <= total


def test_never_slower_than_published_without_double_buffers(seed):
    """SCALE-Sim's output-stationary array, where results wait for nothing: (R + C + K - 2) for each fold."""
    rng = np.random.default_rng([seed, 6])
    for geometry in GEOMETRIES:
        params = tile(*geometry, OUTPUT)
        for _ in range(50):
            m, n = (int(size) for size in rng.integers(1, 200, 2))
            k = int(rng.integers(params.rows, 400))
            folds = -(-m // params.rows) * -(-n // params.columns)
            published = folds * (params.rows + params.columns + k - 2)
            assert job_cycles(params, m, k, n) <= published + params.result_latency


def test_parts_are_few_and_equal():
    for length, most in every(range(1, 40), range(1, 12)):
        parts = [size for size, times in cut(length, most) for _ in range(times)]
        assert sum(parts) == length
        assert len(parts) == -(-length // most)
        assert max(parts) - min(parts) <= 1
        assert max(parts) <= most
    assert cut(0, 3) == []


def test_a_compressed_reduction_counts_what_can_be_there():
    for n, m in ((1, 1), (1, 2), (2, 4), (3, 8), (16, 16)):
        for k in range(50):
            kept = prune(np.ones((k, 1)), n, m)
            assert compressed_length(k, n, m) == np.count_nonzero(kept)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ((-1, 2, 3), "m must be an integer from 0 to "),
        ((1, 2.0, 3), "k must be an integer from 0 to "),
        ((1, 2, "3"), "n must be an integer from 0 to "),
        ((1, 2, 3, "rows"), "dataflow must be one of 'weight-stationary', 'output-stationary', not 'rows'"),
        ((1, 2, 3, OUTPUT), "dataflow must be 'weight-stationary', which the design has, not 'output-st"),
    ],
)
def test_refused_jobs(job, message):
    with pytest.raises((TypeError, ValueError)) as error:
        job_cycles(tile(dataflow=WEIGHT), *job)
    assert str(error.value).startswith(message)


# ---- jobs ----


def understood(a, b, params, shift=0, dataflow=None):
    """The product as the beats' receiver understands it, which knows nothing of jobs, and the counters."""
    jobs = SystolicJobs(a, b, params, shift, dataflow)
    if not len(jobs):
        outputs = {field.name: np.zeros((0, *field.shape), int) for field in params.output_fields}
        return jobs.collect(outputs, 0)
    beats = jobs.beats(0, len(jobs))
    outputs = expected_outputs(params, beats)
    assert len(outputs["last"]) == params.count_outputs(beats) == jobs.result_beats
    assert outputs["last"].tolist() == [0] * (jobs.result_beats - 1) + [1]
    cycles = naive_cycles(params, beats)
    assert cycles == jobs.counters.cycles
    assert all(len(jobs.beats(part, part + 1)["a"]) <= jobs.beats_per_job for part in range(len(jobs)))
    return jobs.collect(outputs, cycles)


def random_product(rng, params):
    """Operands of the tile's formats around its sizes; weights as random n of m, in either form."""
    arithmetic = params.arithmetic
    job = next(random_jobs(rng, params, 1))
    specials = float(rng.choice([0, 0.05]))
    a = random_operands(rng, arithmetic.a, (job.m, job.k), zeros=0.2, specials=specials)
    b = random_operands(rng, arithmetic.b, (job.k, job.n), zeros=0.3, specials=specials)
    b = random_pattern(rng, b, params)
    shift = int(rng.integers(arithmetic.accumulator_bits)) if arithmetic.shift_bits else 0
    return a, b, shift, job.dataflow


JOB_TILES = [
    tile(*geometry, dataflow, **options)
    for geometry, dataflow, options in every(
        [(1, 1), (1, 4), (2, 2), (5, 3)],
        (WEIGHT, OUTPUT, BOTH),
        (
            {"accumulator_depth": 1, "out": "int8"},
            {"accumulator_depth": 5, "n": 2, "m": 4, "format": "bfloat16"},
            {"n": 1, "m": 2},
            {"n": 8, "m": 8, "format": "float8_e4m3fn"},
            {"gather_depth": 1},
            {"gather_depth": 2},
            {"gather_depth": 100},
        ),
    )
    if "gather_depth" not in options or dataflow != WEIGHT
]


def dense(b):
    return b if isinstance(b, np.ndarray) else b.dense()


def test_beats_mean_the_product(seed):
    rng = np.random.default_rng([seed, 7])
    for params in JOB_TILES:
        for _ in range(4):
            a, b, shift, dataflow = random_product(rng, params)
            for weights in (b, dense(b)):
                c, counters = understood(a, weights, params, shift, dataflow)
                wanted = exact.product(a, dense(b), params.arithmetic, shift)
                assert c.dtype == wanted.results.dtype
                assert np.array_equal(c, wanted.results), (params, a.shape, dense(b).shape, dataflow)
                assert counters.overflow == exact.count_overflow(wanted.flags)
                assert counters.elapsed == counters.cycles


@pytest.mark.parametrize(("m", "k", "n"), [(0, 8, 3), (3, 0, 3), (3, 8, 0), (0, 0, 0)])
@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT, None])
@pytest.mark.parametrize(
    "options", [{}, {"n": 1, "m": 4}, {"format": "float16"}, {"gather_depth": 2}], ids=str
)
def test_nothing_to_multiply(m, k, n, dataflow, options):
    params = tile(**options)
    arithmetic = params.arithmetic
    a, b = np.zeros((m, k), arithmetic.a.dtype), np.zeros((k, n), arithmetic.b.dtype)
    c, counters = understood(a, b, params, dataflow=dataflow)
    assert np.array_equal(c, np.zeros((m, n)))
    none = Counters(elapsed=0, input_stalls=0, output_stalls=0, ideal_cycles=0, ideal_capped_cycles=0)
    assert counters == none == count_product(a, b, params)
    assert job_cycles(params, m, k, n, dataflow) == 0


def test_jobs_of_nothing_change_no_sequence(seed):
    rng = np.random.default_rng([seed, 8])
    params = tile(2, 2)
    products = [SystolicJobs(*random_product(rng, params)[:2], params) for _ in range(4)]
    nothing = zeros_product(params, Job(3, 0, 2, WEIGHT))
    alone, between = (
        sequence_beats(products),
        sequence_beats([p for each in products for p in (each, nothing)]),
    )
    assert all(np.array_equal(alone[name], between[name]) for name in alone)


def test_empty_blocks_and_short_ones():
    """Blocks without a non-zero, with fewer than n, and one that the end of K cuts short."""
    rng = np.random.default_rng(1)
    for k in (1, 2, 3, 5, 11):
        a, b = rng.integers(-128, 128, (3, k), np.int8), rng.integers(1, 128, (k, 4), np.int8)
        b[:, 0] = 0
        b[1:, 1] = 0
        b[np.arange(k) % 4 > 1] = 0
        for dataflow in (WEIGHT, OUTPUT):
            c, _ = understood(a, b, tile(n=2, m=4), dataflow=dataflow)
            assert np.array_equal(c, a.astype(int) @ b.astype(int))
            assert c.any()


# ---- series, tile-wise layers ----


@pytest.mark.parametrize("dataflow", [WEIGHT, OUTPUT])
@pytest.mark.parametrize("format", ["int8", "bfloat16"])
def test_the_terms_of_a_series_are_added_up(dataflow, format, seed):
    """Exactly, in the accumulators: floats are rounded once, after the last term."""
    rng = np.random.default_rng([seed, 9])
    params = tile(3, 2, format=format, n=4, m=8)
    arithmetic = params.arithmetic
    a = random_operands(rng, arithmetic.a, (7, 19))
    b = random_operands(rng, arithmetic.b, (19, 5))
    for series in ([(2, 4)], [(2, 4), (1, 8)], [(4, 8), (1, 2), (2, 4)]):
        parts, residue = tasd.decompose(b, series, axis=0, format=format)
        assert residue.any() or len(series) == 3
        terms = [compress(part, *pattern, format) for part, pattern in zip(parts, series, strict=True)]
        for weights in (terms, parts):
            c, counters = understood(a, weights, params, dataflow=dataflow)
            wanted = exact.product(np.hstack([a] * len(parts)), np.vstack(parts), arithmetic).results
            assert np.array_equal(c, wanted)
            assert counters.effectual > 0
        if not residue.any():
            assert np.array_equal(c, exact.product(a, b, arithmetic).results)


def test_a_lossless_series_is_the_dense_product(seed):
    rng = np.random.default_rng([seed, 10])
    params = tile(2, 2, n=2, m=4)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((5, 22), (22, 3)))
    terms, residue = tasd.decompose(b, [(2, 4), (2, 4)], axis=0, format="int8")
    assert not residue.any()
    for dataflow in (WEIGHT, OUTPUT):
        c, _ = understood(a, terms, params, dataflow=dataflow)
        assert np.array_equal(c, a.astype(int) @ b.astype(int))


def packed_layer(rng, format, k, n, group=3):
    """Tiles over some rows and columns, and leftovers in tiles' columns and in others."""
    b = random_operands(rng, FORMATS[format], (k, n))
    columns = rng.permutation(n)[: n - 2]
    blocks = [
        (np.sort(rng.permutation(k)[: int(rng.integers(1, k + 1))]), np.sort(columns[start : start + group]))
        for start in range(0, len(columns), group)
    ]
    covered = np.zeros((k, n), bool)
    for rows, across in blocks:
        covered[np.ix_(rows, across)] = True
    layer = PackedLayer.gather(b, blocks, (rng.random((k, n)) < 0.1) & ~covered, group)
    return layer, int(layer.leftover_rows.size)


@pytest.mark.parametrize("format", ["int8", "float16"])
@pytest.mark.parametrize("gather_depth", [0, 1, 2, 7, 100])
def test_a_packed_layer_is_multiplied_exactly(format, gather_depth, seed):
    rng = np.random.default_rng([seed, 11, gather_depth])
    params = tile(3, 2, format=format, gather_depth=gather_depth)
    leftovers = 0
    for _ in range(5):
        layer, size = packed_layer(rng, format, int(rng.integers(2, 25)), int(rng.integers(3, 12)))
        leftovers += size
        a = random_operands(rng, params.arithmetic.a, (int(rng.integers(1, 8)), layer.shape[0]))
        for dataflow in (WEIGHT, OUTPUT):
            c, counters = understood(a, layer, params, dataflow=dataflow)
            assert np.array_equal(c, exact.product(a, layer.dense(), params.arithmetic).results)
            sizes = [tile.values.size for tile in layer.merged().tiles]
            assert counters.effectual == len(a) * sum(sizes)
            assert counters.steps == job_cycles(params, len(a), *layer.shape)
    assert leftovers


def test_kept_activations_are_sent_once():
    """Where there is room for all: each vector of a block of M, in its first tile only."""
    rng = np.random.default_rng(12)
    a = rng.integers(-128, 128, (8, 20), np.int8)
    b = np.ones((20, 9), np.int8)
    fresh = {}
    for depth in (1, 2, 11, 20, 21, 64):
        params = tile(4, 3, OUTPUT, gather_depth=depth)
        jobs = SystolicJobs(a, b, params)
        beats = jobs.beats(0, len(jobs))
        assert np.all(beats["pick"] < depth)
        fresh[depth] = int(beats["fresh"].sum())
    assert fresh == {1: 120, 2: 116, 11: 80, 20: 40, 21: 40, 64: 40}


def test_a_layer_without_anything_left_is_zero():
    none = np.zeros(0, np.int64)
    layer = PackedLayer((6, 4), 2, (), none, none, np.zeros(0, np.int8))
    c, counters = understood(np.ones((3, 6), np.int8), layer, tile())
    assert np.array_equal(c, np.zeros((3, 4)))
    assert counters.cycles == 0


# ---- what cannot be multiplied ----


def ones_of(n, m, k=8):
    """Compressed n:m weights (k, 3), full."""
    return compress((np.arange(k)[:, None] % m < n) * np.ones((1, 3), np.int8), n, m, "int8")


A, B = np.ones((3, 8), np.int8), np.ones((8, 3), np.int8)
PAIRS = {"n": 2, "m": 4}


@pytest.mark.parametrize(
    ("b", "options", "message"),
    [
        (B, PAIRS, "b must have at most 2 non-zeros in 4 rows, not 4 as in rows 0 to 3 of column 0"),
        (ones_of(3, 4), PAIRS, "3:4 weights can have 3 non-zeros in 4 rows; the design has 2:4"),
        (ones_of(1, 1), PAIRS, "1:1 weights can have 4 non-zeros in 4 rows; the design has 2:4"),
        (ones_of(4, 8), PAIRS, "4:8 weights can have 4 non-zeros in 4 rows; the design has 2:4"),
        (
            [ones_of(2, 4), ones_of(4, 8)],
            PAIRS,
            "term 1 of the series: 4:8 weights can have 4 non-zeros in 4 rows; the design has 2:4",
        ),
        (
            [ones_of(2, 4), ones_of(2, 4, 4)],
            PAIRS,
            "a @ b needs shapes (M, K) and (K, N), not (3, 8) and (4, 3)",
        ),
        (
            [ones_of(2, 4), ones_of(2, 4).dense()[:, :2]],
            PAIRS,
            "the terms of a series must have one shape, not (8, 3), (8, 2)",
        ),
        (
            [ones_of(2, 4)] * 3,
            {**PAIRS, "max_reduction": 11},
            "the reduction of K = 12 products exceeds max_reduction = 11",
        ),
        (
            [],
            PAIRS,
            "b must be an array, a golden.nm.Compressed, a golden.tilewise_packed.PackedLayer, or a list of "
            "terms of the first two, not an empty list",
        ),
        (
            packed_layer(np.random.default_rng(0), "int8", 8, 3)[0],
            PAIRS,
            "a tile-wise packed layer needs a design with dense weights, not n = 2, m = 4",
        ),
        (B[:7], {}, "a @ b needs shapes (M, K) and (K, N), not (3, 8) and (7, 3)"),
        (B.astype(np.int16), {}, "b must be an array of int8, not of int16"),
        (B, {"max_reduction": 7}, "the reduction of K = 8 products exceeds max_reduction = 7"),
    ],
)
def test_refused_products(b, options, message):
    with pytest.raises((TypeError, ValueError)) as error:
        SystolicJobs(A, b, tile(**options))
    assert str(error.value) == message


def test_refused_options_of_a_product():
    with pytest.raises(ValueError, match=r"^shift belongs to an integer out, not to out = 'raw'$"):
        SystolicJobs(A, B, tile(), 5)
    with pytest.raises(ValueError, match=r"^dataflow must be 'output-stationary', which the design has, "):
        SystolicJobs(A, B, tile(dataflow=OUTPUT), dataflow=WEIGHT)


# ---- random cases ----


@pytest.mark.parametrize(
    "params", [tile(), tile(3, 1, n=2, m=4, out="int8"), tile(2, 2, OUTPUT, gather_depth=3)]
)
def test_random_cases_differ_by_seed_alone(params):
    cases = [random_case(params, 10, seed) for seed in (1, 1, 2)]
    for first, again, other in zip(*cases, strict=True):
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_random_cases_reach_every_flag_and_every_size():
    params = tile(3, 2, accumulator_depth=4, gather_depth=3)
    beats, outputs = random_case(params, 100, 5)
    for field in params.input_fields:
        assert len(np.unique(beats[field.name])) > 1, field.name
    streamed = params.is_streamed(beats)
    gives = streamed & (beats["give"] == 1)
    assert set(beats["count"][gives]) == {1, 2, 3}
    assert len(outputs["last"]) == params.count_outputs(beats)
    assert outputs["last"].sum() == 100
    assert len(np.unique(outputs["result"])) > 100


def test_steps_are_what_the_dense_array_takes():
    params = tile(4, 4, n=1, m=4)
    a, b = np.ones((64, 256), np.int8), ones_of(1, 4, 256)
    for dataflow in (WEIGHT, OUTPUT):
        counters = SystolicJobs(a, b, params, dataflow=dataflow).counters
        assert counters.steps == job_cycles(params.dense, 64, 256, 3)
        assert 3.5 < counters.steps / counters.cycles <= 4

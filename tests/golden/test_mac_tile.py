import numpy as np
import pytest

from skiptile.golden import exact
from skiptile.golden.counters import Counters
from skiptile.golden.formats import FORMATS
from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.golden.mac_tile_jobs import TileJobs, count_product


def params(**changes):
    return MacTileParams(**{"rows": 4, "columns": 4, "lanes": 16, **changes})


NAMES = ", ".join(repr(name) for name in FORMATS)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"rows": 0}, ValueError, "rows must be an integer from 1 to 64, not 0"),
        ({"rows": -1}, ValueError, "rows must be an integer from 1 to 64, not -1"),
        ({"columns": 65}, ValueError, "columns must be an integer from 1 to 64, not 65"),
        ({"lanes": 1.5}, TypeError, "lanes must be an integer from 1 to 64, not 1.5"),
        ({"lanes": True}, TypeError, "lanes must be an integer from 1 to 64, not True"),
        ({"lanes": "16"}, TypeError, "lanes must be an integer from 1 to 64, not '16'"),
        ({"format": "int9"}, ValueError, f"format must be one of {NAMES}, not 'int9'"),
        ({"format": 8}, TypeError, f"format must be one of {NAMES}, not 8"),
        ({"format_b": "x"}, ValueError, f"format_b must be one of {NAMES}, not 'x'"),
        ({"max_reduction": 0}, ValueError, "max_reduction must be an integer from 1 to 16777216, not 0"),
        (
            {"max_reduction": 15},
            ValueError,
            "max_reduction must hold one step of lanes = 16 products, not 15",
        ),
        ({"lookahead": 8}, ValueError, "lookahead must be an integer from 0 to 7, not 8"),
        ({"lookahead": -1}, ValueError, "lookahead must be an integer from 0 to 7, not -1"),
        ({"side": "a"}, ValueError, "side must be one of 'b', 'both', not 'a'"),
        (
            {"side": "both"},
            ValueError,
            "side = 'both' needs one row and one column, not rows = 4, columns = 4",
        ),
        ({"output_rows": 3}, ValueError, "output_rows must be a divisor of rows, not 3 with rows = 4"),
        ({"output_rows": 5}, ValueError, "output_rows must be an integer from 1 to 4, not 5"),
        (
            {"interconnect": "ring"},
            ValueError,
            "interconnect must be one of 'tensordash', 'tensordash-sim', 'lookahead', 'one-level-3', "
            "'two-level-4', 'two-level-5', 'two-level-7', 'four-level-6', 'four-level-8', 'four-level-9', "
            "not 'ring'",
        ),
        ({"contexts": 0}, ValueError, "contexts must be an integer from 1 to 2, not 0"),
        ({"contexts": 3}, ValueError, "contexts must be an integer from 1 to 2, not 3"),
        ({"interconnect": "ring", "lookahead": 0}, ValueError, None),  # its name is still checked
        (
            {"interconnect": [[1, 0]]},
            ValueError,
            "interconnect must start with [0, 0], or the head may never drain, not [1, 0]",
        ),
    ],
)
def test_refused_parameters(changes, kind, message):
    with pytest.raises(kind) as error:
        params(**changes)
    assert message is None or str(error.value) == message


@pytest.mark.parametrize(
    "tile",
    [
        params(),
        params(lookahead=0),
        params(lookahead=7, interconnect="lookahead", output_rows=2),
        params(interconnect=[[0, 0], [1, -1]]),
        params(interconnect="two-level-5", contexts=2),
        params(rows=1, columns=1, side="both", max_reduction=16),
        params(rows=1, columns=1, side="both", lookahead=0),
    ],
)
def test_table_and_back(tile):
    again = MacTileParams.from_dict(tile.to_dict())
    assert again == tile
    assert hash(again) == hash(tile)
    assert again.moves == tile.moves


def test_table_defaults():
    least = {"rows": 1, "columns": 1, "lanes": 1}
    assert MacTileParams.from_dict(least) == params(rows=1, columns=1, lanes=1, lookahead=0)
    assert MacTileParams.from_dict({**least, "sparsity": {}}) == params(rows=1, columns=1, lanes=1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rows": 1, "columns": 1}, "[mac-tile] lacks the key 'lanes'"),
        ({"rows": 1, "columns": 1, "lanes": 1, "lookahead": 1}, "[mac-tile] has the unknown key 'lookahead'"),
        (
            {"rows": 1, "columns": 1, "lanes": 1, "sparsity": {"lookhead": 1}},
            "[mac-tile.sparsity] has the unknown key 'lookhead'; allowed are "
            "side, lookahead, interconnect, contexts",
        ),
        ({"rows": 1, "columns": 1, "lanes": 1, "sparsity": 3}, "[mac-tile.sparsity] must be a table, not 3"),
    ],
)
def test_refused_tables(table, message):
    with pytest.raises((TypeError, ValueError)) as error:
        MacTileParams.from_dict(table)
    assert str(error.value).startswith(message)


def test_accumulators_hold_the_longest_reduction():
    for max_reduction in (16, 17, 65535, 65536, 65537):
        bits = params(max_reduction=max_reduction).arithmetic.accumulator_bits
        most, least = 128 * 128 * max_reduction, -128 * 127 * max_reduction
        assert -(1 << (bits - 1)) <= least
        assert most <= (1 << (bits - 1)) - 1 or most == 1 << (bits - 1)
        assert max_reduction > (1 << (bits - 17))  # not a bit more than it takes


def test_dense_of_a_tile():
    assert params(interconnect="lookahead").dense == params(lookahead=0)
    assert params(lookahead=0).moves == ((0, 0),)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 17, 3), (4, 16, 4), (9, 130, 11), (2, 3, 1)])
@pytest.mark.parametrize("geometry", [(4, 4, 16, 2), (3, 5, 3, 1), (1, 1, 1, 0)])
def test_jobs_cover_the_product(m, k, n, geometry):
    rows, columns, lanes, lookahead = geometry
    rng = np.random.default_rng([m, k, n])
    tile = params(rows=rows, columns=columns, lanes=lanes, lookahead=lookahead)
    a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    jobs = TileJobs(a, b, tile)
    assert len(jobs) == -(-m // columns) * -(-n // rows)
    beats = jobs.beats(0, len(jobs))
    assert np.all(beats["count"][beats["last"] == 0] == lookahead + 1)
    ends = np.flatnonzero(beats["last"])
    results = []
    for start, stop in zip([0, *ends[:-1] + 1], ends + 1, strict=True):
        steps_a = beats["a"][start:stop].reshape(-1, columns, lanes)[: jobs.steps].astype(int)
        steps_b = beats["b"][start:stop].reshape(-1, rows, lanes)[: jobs.steps].astype(int)
        assert beats["count"][start:stop].sum() == jobs.steps
        results.append(np.einsum("tcl,trl->rc", steps_a, steps_b))
    assert np.array_equal(jobs.assemble(np.array(results)), a.astype(int) @ b)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 3), (3, 0, 3), (3, 3, 0), (0, 0, 0)])
def test_nothing_to_multiply(m, k, n):
    a, b = np.zeros((m, k), np.int8), np.zeros((k, n), np.int8)
    jobs = TileJobs(a, b, params())
    assert len(jobs) == 0
    assert np.array_equal(jobs.assemble(np.zeros((0, 4, 4), np.int64)), np.zeros((m, n)))
    assert count_product(a, b, params()) == Counters(ideal_cycles=0, ideal_capped_cycles=0)


def test_refused_products():
    with pytest.raises(ValueError, match=r"shapes \(M, K\) and \(K, N\), not \(2, 3\) and \(2, 3\)"):
        TileJobs(np.zeros((2, 3), np.int8), np.zeros((2, 3), np.int8), params())
    with pytest.raises(ValueError, match="the reduction of K = 20 products exceeds max_reduction = 16"):
        TileJobs(np.zeros((2, 20), np.int8), np.zeros((20, 3), np.int8), params(max_reduction=16))


@pytest.mark.parametrize("side", ["b", "both"])
@pytest.mark.parametrize("lookahead", [0, 1, 2])
def test_counted_product_is_the_sum_of_its_jobs(side, lookahead):
    rng = np.random.default_rng(9)
    shape = {"rows": 1, "columns": 1} if side == "both" else {"rows": 2, "columns": 3}
    tile = params(**shape, lanes=4, lookahead=lookahead, side=side)
    a = rng.integers(-2, 3, (7, 30)).astype(np.int8)
    b = rng.integers(-1, 2, (30, 5)).astype(np.int8) * (rng.random((30, 5)) < 0.5)
    jobs = TileJobs(a, b, tile)
    wanted = {"cycles": 0, "steps": 0, "effectual": 0, "ideal_cycles": 0, "ideal_capped_cycles": 0}
    for job in range(len(jobs)):
        pairs, ends = jobs.effectual(job, job + 1)
        ideal = max(1, -(-int(pairs.sum(axis=(0, 2)).max()) // 4))
        wanted["cycles"] += schedule(pairs, ends, tile).cycles.sum()
        wanted["steps"] += len(ends)
        wanted["effectual"] += pairs.sum()
        wanted["ideal_cycles"] += ideal
        wanted["ideal_capped_cycles"] += max(ideal, -(-len(ends) // (lookahead + 1)))
    counted = count_product(a, b, tile)
    assert {name: getattr(counted, name) for name in wanted} == wanted
    assert counted.ideal_cycles <= counted.ideal_capped_cycles <= counted.cycles <= counted.steps


def test_counters_add_up():
    known = Counters(cycles=1, steps=2, effectual=3, elapsed=4)
    assert known + known == Counters(cycles=2, steps=4, effectual=6, elapsed=8)
    assert (known + Counters(cycles=1)).elapsed is None


def test_exact_matmul_at_full_scale():
    k = 1 << 16
    a = np.full((2, k), -128, np.int8)
    assert np.array_equal(exact.matmul(a, a.T, "int8", "int8", out="raw"), np.full((2, 2), 16384 * k))
    b = np.full((k, 1), 127, np.int8)
    assert np.array_equal(exact.matmul(a, b, "int8", "int8", out="raw"), np.full((2, 1), -128 * 127 * k))


def test_other_formats_in_the_same_geometry():
    tile = params(format="bfloat16", accumulator=(9, -9), out="float16", saturate=True)
    assert tile.with_formats("bfloat16", "bfloat16") == tile
    other = tile.with_formats("float8_e4m3fn", "float8_e5m2")
    assert (other.accumulator, other.out, other.saturate) == ((24, -25), "float16", True)
    integers = tile.with_formats("int8", "int16")
    assert (integers.accumulator, integers.out, integers.saturate) == (None, "raw", False)
    assert (integers.rows, integers.interconnect) == (tile.rows, tile.interconnect)


@pytest.mark.parametrize(
    ("lanes", "lookahead", "interconnect", "left_out"),
    [
        *((16, 2, "two-level-7", 2), (16, 3, "two-level-7", None)),
        *((16, 1, "tensordash", 3), (1, 2, "tensordash", 5), (16, 0, "tensordash", None)),
        *((16, 5, "lookahead", None), (4, 1, [[0, 0], [1, 1]], None)),
    ],
)
def test_moves_that_are_left_out_are_told(lanes, lookahead, interconnect, left_out):
    described = params(lanes=lanes, lookahead=lookahead, interconnect=interconnect).describe()
    assert described.get("scheduler", {}).get("moves_left_out") == left_out


def test_the_contract_tells_what_results_are():
    def contract(**changes):
        return " ".join(params(**changes).contract)

    assert "the exact sum, two's complement." in contract()
    assert "NaN" not in contract()
    assert "in units of 2^-18" in contract(format="float8_e4m3fn", out="raw")
    wide = contract(format="bfloat16")
    assert "cut off below 2^-48" in wide
    assert "2^16 or more" in wide
    assert "float32 bit pattern, rounded once" in wide
    assert "also where the other operand is NaN" in wide
    assert "cut off" not in contract(format="float16")
    assert "divided by 2^shift" in contract(out="int8")

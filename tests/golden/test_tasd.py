"""TASD series against plain loops, and the published and computed shares against binomial sums."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skiptile.golden import nm, tasd
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.operands import corners, random_operands

PATTERNS = [(n, m) for m in (1, 2, 4, 8, 16) for n in range(1, m + 1)]
FLOATS = [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]
SERIES = [
    [(2, 4)],
    [(2, 4), (1, 8)],
    [(1, 8), (2, 4)],
    [(1, 4), (1, 4), (1, 4)],
    [(1, 16), (3, 8), (1, 2)],
    [(4, 4), (1, 2)],
    [(1, 1)],
]
INF = float("inf")


def size(value):
    """Magnitude of a real number: exact."""
    value = value.item() if isinstance(value, np.generic) else value
    return abs(Fraction(value)) if abs(value) < INF else INF


def owners(values, series):
    """Number of the term, from 1, that takes each of a list of real numbers; 0 for none."""
    owner = [0] * len(values)
    for term, (n, m) in enumerate(series, 1):
        for start in range(0, len(values), m):
            places = [p for p in range(start, min(start + m, len(values))) if not owner[p] and values[p] != 0]
            for place in sorted(places, key=lambda p: (-size(values[p]), p))[:n]:
                owner[place] = term
    return owner


def by_loops(tensor, values, series, axis):
    """Terms and residue of a tensor that stands for ``values``."""
    owner = np.apply_along_axis(lambda line: owners(list(line), series), axis, values)
    parts = [np.where(owner == term, tensor, 0).astype(tensor.dtype) for term in range(len(series) + 1)]
    return parts[1:], parts[0]


def check(tensor, series, axis=-1, format=None):
    """Against the loops, and that each entry is whole and in one place."""
    values = tensor if format is None else FORMATS[format].decode(tensor)
    terms, residue = tasd.decompose(tensor, series, axis, format)
    wanted = by_loops(tensor, values, series, axis)
    assert len(terms) == len(series)
    for got, expected in zip((*terms, residue), (*wanted[0], wanted[1]), strict=True):
        assert (got.shape, got.dtype) == (tensor.shape, tensor.dtype)
        assert got.tobytes() == expected.tobytes()  # bit for bit, the signs of zeros too
    assert np.array_equal(sum(terms, residue), tensor)
    assert tasd.lossless(tensor, series, axis, format) == (not np.any(values[residue != 0]))
    return terms, residue


# ---- decompose ----


@pytest.mark.parametrize(("n", "m"), PATTERNS)
def test_one_term_with_every_tail(n, m, seed):
    rng = np.random.default_rng(seed)
    for length in {1, m - 1, m, m + 1, 3 * m - 1, 4 * m} - {0}:
        tensor = rng.integers(-3, 4, (5, length))  # many ties
        terms, residue = check(tensor, [(n, m)])
        assert nm.obeys(terms[0].T.astype(np.int8), n, m, "int8")
        assert n < m or not residue.any()


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_series_along_every_axis(series, axis, seed):
    rng = np.random.default_rng(seed)
    check(rng.integers(-9, 10, (7, 19, 10)), series, axis)
    check(np.asfortranarray(rng.standard_normal((7, 10, 9)))[:, ::-1], series, axis)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i1", "i2", "i4", "i8", "u1", "u2", "u8"])
def test_every_type_at_its_limits(dtype, seed):
    rng = np.random.default_rng(seed)
    limits = np.finfo(dtype) if "f" in dtype else np.iinfo(dtype)
    pool = [limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1]
    if "f" in dtype:
        pool += [np.inf, -np.inf, -0.0, limits.smallest_subnormal, -limits.smallest_subnormal]
    tensor = rng.choice(np.array(pool, dtype), (20, 21))
    owner = np.array([owners(list(row), [(2, 4), (1, 8)]) for row in tensor])
    terms, residue = tasd.decompose(tensor, [(2, 4), (1, 8)])
    for term, part in enumerate((residue, *terms)):
        assert part.dtype == tensor.dtype
        assert part.tobytes() == np.where(owner == term, tensor, 0).astype(dtype).tobytes()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_the_smallest_integer_is_the_largest_magnitude(dtype):
    limits = np.iinfo(dtype)
    tensor = np.array([limits.max, -limits.max, limits.min, 3], dtype)
    (first, second), residue = tasd.decompose(tensor, [(1, 4), (1, 4)])
    assert first.tolist() == [0, 0, limits.min, 0]
    assert second.tolist() == [limits.max, 0, 0, 0]
    assert residue.tolist() == [0, -limits.max, 0, 3]


@pytest.mark.parametrize("format", FORMATS)
def test_bit_patterns_of_every_format(format, seed):
    rng, found = np.random.default_rng(seed), FORMATS[format]
    numbers = corners(found)
    numbers = numbers[~np.isnan(found.decode(numbers))]
    for tensor in (rng.choice(numbers, (30, 19)), random_operands(rng, found, (30, 19), zeros=0.3)):
        for series in SERIES:
            check(tensor, series, -1, format)


@pytest.mark.parametrize("format", [name for name in FLOATS if FORMATS[name].bits <= 8])
def test_order_of_all_pairs_of_patterns(format):
    found = FORMATS[format]
    patterns = np.arange(1 << found.bits, dtype=found.dtype)
    patterns = patterns[~found.is_nan(patterns)]
    pairs = np.stack(np.meshgrid(patterns, patterns), -1).reshape(-1, 2)
    (term,), _ = tasd.decompose(pairs, [(1, 2)], format=format)
    sizes = np.abs(found.decode(pairs))
    second = sizes[:, 1] > sizes[:, 0]
    wanted = np.stack([~second & (sizes[:, 0] > 0), second], -1)
    assert np.array_equal(term, np.where(wanted, pairs, 0))


@pytest.mark.parametrize("format", FLOATS)
def test_negative_zero_stays_in_the_residue(format):
    found = FORMATS[format]
    minus = 1 << found.bits - 1
    tensor = np.array([minus, 0, minus | 1, minus], found.dtype)
    (term,), residue = tasd.decompose(tensor, [(4, 4)], format=format)
    assert term.tolist() == [0, 0, minus | 1, 0]
    assert residue.tolist() == [minus, 0, 0, minus]
    assert tasd.lossless(tensor, [(1, 4)], format=format)
    assert tasd.kept(tensor, [(1, 4)], format=format) == tasd.Kept(1.0, 1.0)


def test_corner_cases():
    (term,), residue = tasd.decompose([-1, -3, -2, -3], [(2, 4)])  # no maximum without a magnitude
    assert (term.tolist(), residue.tolist()) == ([0, -3, 0, -3], [-1, 0, -2, 0])
    (term,), residue = tasd.decompose(np.full(8, 7), [(3, 8)])
    assert term.tolist() == [7, 7, 7, 0, 0, 0, 0, 0]
    (term,), residue = tasd.decompose(np.array([1e308, -np.inf, np.inf, 2]), [(2, 4)])
    assert (term.tolist(), residue.tolist()) == ([0, -np.inf, np.inf, 0], [1e308, 0, 0, 2])
    (term,), residue = tasd.decompose(np.array([False, True, True]), [(1, 4)])
    assert (term.tolist(), residue.tolist()) == ([False, True, False], [False, False, True])
    (term,), residue = tasd.decompose(np.zeros((3, 6)), [(2, 4)])
    assert not term.any()
    assert not residue.any()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (0, 0, 3)])
def test_empty(shape):
    tensor = np.zeros(shape, np.float32)
    for axis in range(len(shape)):
        terms, residue = tasd.decompose(tensor, [(2, 4), (1, 8)], axis)
        assert [part.shape for part in (*terms, residue)] == [shape] * 3
        assert tasd.lossless(tensor, [(1, 4)], axis)
        assert tasd.kept(tensor, [(1, 4)], axis) == tasd.Kept(None, None)


def test_more_terms_than_can_hold_anything(seed):
    tensor = np.random.default_rng(seed).integers(1, 9, (2, 33))
    terms, residue = tasd.decompose(tensor, [(1, 16)] * 300)
    assert all(term.any() for term in terms[:16])
    assert not any(part.any() for part in (*terms[16:], residue))


def test_the_tensor_is_left_alone(seed):
    tensor = np.random.default_rng(seed).standard_normal((8, 8))
    before = tensor.copy()
    tensor.flags.writeable = False
    terms, residue = tasd.decompose(tensor, [(1, 4)])
    terms[0][:], residue[:] = 1, 1
    assert np.array_equal(tensor, before)


def test_each_term_fits_the_array(seed):
    """Terms compress, and the sum of their products is the product with what they keep."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-128, 128, (6, 30)), rng.integers(-128, 128, (30, 7)).astype(np.int8)
    terms, residue = tasd.decompose(b, [(2, 4), (1, 8)], axis=0)
    packed = [nm.compress(term, n, m, "int8") for term, (n, m) in zip(terms, [(2, 4), (1, 8)], strict=True)]
    assert np.array_equal(sum(a @ part.dense().astype(int) for part in packed), a @ (b.astype(int) - residue))
    assert residue.any()


# ---- unit ----


@pytest.mark.parametrize("format", ["int8", "float8_e5m2", "bfloat16", None])
@pytest.mark.parametrize("m", [1, 2, 4, 8, 16])
def test_unit_does_what_decompose_does(m, format, seed):
    rng = np.random.default_rng(seed)
    for n, _ in itertools.product(range(1, m + 1), range(5)):
        if format is None:
            block = rng.integers(-3, 4, m) / 4
        else:
            block = random_operands(rng, FORMATS[format], (m,), zeros=0.4)
        emitted, residue = tasd.unit(block, n, format)
        (term,), wanted = tasd.decompose(block, [(n, m)], format=format)
        assert residue.tobytes() == wanted.tobytes()
        rebuilt = np.zeros_like(block)
        for value, index in emitted:
            rebuilt[index] = value
        assert np.array_equal(rebuilt, term)
        values = block if format is None else FORMATS[format].decode(block)
        assert len(emitted) == min(n, np.count_nonzero(values))
        order = [(-size(values[index]), index) for _, index in emitted]
        assert order == sorted(order)


def test_unit_step_by_step():
    emitted, residue = tasd.unit(np.array([3, -128, 0, -3], np.int8), 3)
    assert emitted == [(-128, 1), (3, 0), (-3, 3)]
    assert residue.tolist() == [0, 0, 0, 0]
    emitted, residue = tasd.unit([0, -2, 0, 2, 1], 2)  # then the unit of the next term
    assert (emitted, tasd.unit(residue, 16)[0]) == ([(-2, 1), (2, 3)], [(1, 4)])
    assert tasd.unit(np.zeros(4), 4)[0] == []


# ---- merged, lossless ----


def test_merged():
    assert tasd.merged([(1, 4), (2, 4)]) == ((3, 4),)
    assert tasd.merged([(3, 4), (3, 4), (1, 8)]) == ((4, 4), (1, 8))
    assert tasd.merged([[1, 4], [1, 8], [1, 4]]) == ((1, 4), (1, 8), (1, 4))
    assert tasd.merged([(1, 8), (1, 4), (1, 4), (5, 8), (5, 8)]) == ((1, 8), (2, 4), (8, 8))


@pytest.mark.parametrize(
    "series", [[(1, 4), (2, 4)], [(3, 4), (3, 4), (1, 8)], [(1, 8), (1, 2), (1, 2), (1, 8)]]
)
def test_merged_keeps_the_same(series, seed):
    tensor = np.random.default_rng(seed).integers(-6, 7, (50, 22))
    terms, residue = tasd.decompose(tensor, series)
    fewer, same = tasd.decompose(tensor, tasd.merged(series))
    assert len(fewer) < len(terms)
    assert np.array_equal(residue, same)
    assert np.array_equal(sum(terms), sum(fewer))
    start = 0
    for (_, m), term in zip(tasd.merged(series), fewer, strict=True):
        run = len(list(itertools.takewhile(lambda pair, m=m: pair[1] == m, series[start:])))
        assert np.array_equal(sum(terms[start : start + run]), term)
        start += run


def test_terms_with_another_between_them_do_not_merge():
    tensor = np.array([10, 9, 1, 1, 8, 8, 8, 8])
    apart = sum(tasd.decompose(tensor, [(1, 4), (1, 8), (1, 4)])[0])
    together = sum(tasd.decompose(tensor, [(2, 4), (1, 8)])[0])
    assert apart.tolist() == [10, 9, 1, 0, 8, 8, 0, 0]
    assert together.tolist() == [10, 9, 0, 0, 8, 8, 8, 0]


def test_lossless():
    tensor = np.array([[1, 0, 2, 0, 0, 0, 0, 3], [0, 0, 0, 0, 1, 1, 1, 0]])
    assert tasd.lossless(tensor, [(3, 8)])
    assert not tasd.lossless(tensor, [(2, 4)])
    assert tasd.lossless(tensor, [(2, 4), (1, 8)])
    assert tasd.lossless(tensor, [(1, 2)], axis=0) == (not tensor.all(axis=0).any())
    assert tasd.lossless(np.full((3, 7), np.inf), [(1, 2), (2, 2)])


# ---- shares ----

DENSITIES = {
    ((2, 4),): {"0.05": 0.998, "0.1": 0.991, "0.2": 0.964, "0.3": 0.924, "0.5": 0.813},
    ((4, 8),): {"0.05": 1.000, "0.1": 0.999, "0.2": 0.993, "0.3": 0.971, "0.5": 0.863},
    ((2, 4), (1, 8)): {"0.2": 0.998, "0.3": 0.990, "0.5": 0.944},
}
SHARES = [(series, d, share) for series, table in DENSITIES.items() for d, share in table.items()]


def count_kept(series, first, second):
    """Of a block of two halves with so many non-zeros."""
    if series == ((4, 8),):
        return min(first + second, 4)
    halves = min(first, 2) + min(second, 2)
    return halves if len(series) == 1 else halves + min(first + second - halves, 1)


def halves(d):
    """Non-zeros of either half of a block of 8, independent of density d, and their probability."""
    for first, second in itertools.product(range(5), repeat=2):
        ways = math.comb(4, first) * math.comb(4, second)
        yield first, second, ways * d ** (first + second) * (1 - d) ** (8 - first - second)


@pytest.mark.parametrize(("series", "density", "share"), SHARES)
def test_share_of_nonzeros_in_closed_form(series, density, share):
    """Binomial sums, and all 256 blocks of 8 weighted by their probability: the same fraction."""
    d = Fraction(density)
    binomial = sum(p * count_kept(series, first, second) for first, second, p in halves(d)) / (8 * d)
    assert abs(binomial - Fraction(str(share))) <= Fraction(1, 2000)
    blocks = np.arange(256)[:, None] >> np.arange(8) & 1
    terms, _ = tasd.decompose(blocks * [3, -1, 4, 1, -5, 9, 2, 6], series)
    counts = np.count_nonzero(sum(terms), axis=1).tolist()
    weights = [d**k * (1 - d) ** (8 - k) for k in blocks.sum(axis=1).tolist()]
    assert sum(w * count for w, count in zip(weights, counts, strict=True)) / (8 * d) == binomial


@pytest.mark.parametrize(("series", "density", "share"), SHARES)
def test_share_of_nonzeros_of_a_sample(series, density, share, seed):
    """Within five standard errors, by the exact variance of a block, and the rounding of the table."""
    rng, d = np.random.default_rng(seed), float(density)
    tensor = rng.standard_normal((500, 400)) * (rng.random((500, 400)) < d)
    spread = sum(p * (count_kept(series, i, j) - share * (i + j)) ** 2 for i, j, p in halves(d))
    error = math.sqrt(spread / (tensor.size / 8)) / (8 * d)
    assert 0 < error < 0.003
    got = tasd.kept(tensor, series).nonzeros
    assert type(got) is float
    assert got == pytest.approx(share, abs=5 * error + 0.0005)


def test_kept_counts_and_sums():
    tensor = np.array([8, -1, 1, 0, 4, 0, 0, 2], np.int8)
    assert tasd.kept(tensor, [(1, 4)]) == tasd.Kept(2 / 5, 12 / 16)
    assert tasd.kept(tensor, [(2, 4)]) == tasd.Kept(4 / 5, 15 / 16)
    assert tasd.kept(tensor, [(3, 4)]) == tasd.Kept(1.0, 1.0)
    assert tasd.kept(tensor.reshape(2, 4), [(1, 2)], axis=0) == tasd.Kept(4 / 5, 12 / 16)
    bits = FORMATS["float8_e4m3fn"].encode(tensor)
    assert tasd.kept(bits, [(1, 4)], format="float8_e4m3fn") == tasd.Kept(2 / 5, 12 / 16)


def test_kept_where_it_is_undefined_or_would_overflow():
    assert tasd.kept(np.array([0.0, -0.0]), [(1, 2)]) == tasd.Kept(None, None)
    assert tasd.kept(np.array([np.inf, 1, -1, 0]), [(1, 4)]) == tasd.Kept(1 / 3, None)
    assert tasd.kept(np.array([-np.inf, 0]), [(1, 2)]) == tasd.Kept(1.0, None)
    huge = np.finfo(float).max
    assert tasd.kept(np.full(4, -huge), [(1, 4)]) == tasd.Kept(1 / 4, 1 / 4)
    assert tasd.kept(np.full(4, 5e-324), [(1, 4)]) == tasd.Kept(1 / 4, 1 / 4)
    assert tasd.kept(np.full(4, -(2**63)), [(1, 4)]) == tasd.Kept(1 / 4, 1 / 4)
    assert tasd.kept(np.array([-128, 127], np.int8), [(1, 2)]) == tasd.Kept(1 / 2, pytest.approx(128 / 255))
    assert tasd.kept(np.full(4, 60000, np.float16), [(1, 4)]) == tasd.Kept(1 / 4, 1 / 4)


# ---- search ----

CANDIDATES = [[(4, 8)], [(2, 4)], [(1, 4), (1, 8)], [(1, 4)], [(4, 4)], [(4, 4), (1, 8)], [(1, 8)]]


def cheapest_by_hand(tensor, bound):
    """Try every candidate; the dense layer is the last resort at cost 1."""
    best = (Fraction(1), len(CANDIDATES), None)
    for place, series in enumerate(CANDIDATES):
        dropped = sum(
            size(v) for row in tensor for v, o in zip(row, owners(row, series), strict=True) if not o
        )
        if dropped <= bound * sum(size(v) for row in tensor for v in row):
            best = min(
                best, (sum(Fraction(n, m) for n, m in series), place, tuple(series)), key=lambda b: b[:2]
            )
    return best[2]


@pytest.mark.parametrize("bound", [0, 0.01, 0.1, 0.25, 0.5, 0.9, 1])
def test_search_takes_the_cheapest_within_the_bound(bound, seed):
    rng = np.random.default_rng(seed)
    densities = (0.0, 0.02, 0.1, 0.3, 0.5, 1.0)
    layers = {f"d{d}": rng.integers(-9, 10, (8, 24)) * (rng.random((8, 24)) < d) for d in densities}
    choice = tasd.search(layers, CANDIDATES, bound)
    assert list(choice) == list(layers)
    assert choice == {name: cheapest_by_hand(tensor.tolist(), bound) for name, tensor in layers.items()}
    assert choice["d0.0"] == ((1, 8),)
    turned = {name: tensor.T for name, tensor in layers.items()}
    assert tasd.search(turned, CANDIDATES, bound, axis=0) == choice


def test_search_ties_and_the_dense_layer():
    layers = {"few": np.array([0, 5, 0, 0, 0, 0, 6, 7]), "full": np.arange(1, 9)}
    assert tasd.search(layers, [[(4, 8)], [(2, 4)]], 0) == {"few": ((4, 8),), "full": None}
    assert tasd.search(layers, [[(2, 4)], [(4, 8)]], 0) == {"few": ((2, 4),), "full": None}
    assert tasd.search(layers, [[(4, 4), (1, 8)]], 0) == {"few": None, "full": None}  # dearer than dense
    assert tasd.search(layers, [[(8, 8)]], 0) == {"few": ((8, 8),), "full": ((8, 8),)}
    assert tasd.search({}, CANDIDATES, 0.1) == {}


def test_search_on_bit_patterns_and_infinities():
    layer = {"x": FORMATS["float8_e5m2"].encode(np.array([4, 0.5, 0.25, 0.25]))}
    assert tasd.search(layer, CANDIDATES, 0.2, format="float8_e5m2") == {"x": ((1, 8),)}
    assert tasd.search(layer, CANDIDATES, 0.1, format="float8_e5m2") == {"x": ((1, 4), (1, 8))}
    infinite = {"x": np.array([np.inf, 1, 0, 0]), "y": np.array([1.0, 1e300, 0, 5e-324])}
    assert tasd.search(infinite, [[(1, 4)], [(2, 4)]], 0.9) == {"x": ((2, 4),), "y": ((1, 4),)}
    assert tasd.search(infinite, [[(1, 4)], [(2, 4)]], 0) == {"x": ((2, 4),), "y": None}


def test_search_accuracy_is_greedy():
    seen = []

    def evaluate(choice):
        """Each layer may cost less by so much in all: 3/4 + 1/2."""
        seen.append(dict(choice))
        choice_cost = sum(1 if series is None else tasd.cost(series) for series in choice.values())
        choice.clear()  # what is done to it does not matter
        return float(choice_cost)

    choice = tasd.search_accuracy(["a", "b", "c"], [[(2, 4)], [(4, 8)], [(1, 4)]], evaluate, 1.75)
    assert choice == {"a": ((1, 4),), "b": ((2, 4),), "c": None}
    assert seen[0] == {"a": ((1, 4),), "b": None, "c": None}
    assert [len(s) for s in seen] == [3] * 6
    assert [s["b"] for s in seen] == [None, ((1, 4),), ((2, 4),), ((2, 4),), ((2, 4),), ((2, 4),)]
    assert [s["c"] for s in seen[3:]] == [((1, 4),), ((2, 4),), ((4, 8),)]


def test_search_accuracy_without_an_answer():
    assert tasd.search_accuracy(["a"], [[(1, 4)]], lambda _: float("nan"), -1) == {"a": None}
    assert tasd.search_accuracy([], [[(1, 4)]], lambda _: 1.0, 0.5) == {}
    assert tasd.search_accuracy(["a"], [[(4, 4), (1, 4)]], lambda _: 1.0, 0.5) == {"a": None}


def test_cost():
    assert tasd.cost([(2, 4), (1, 8)]) == Fraction(5, 8)


# ---- errors ----

PAIR = r"must be \(n, m\) with 1 <= n <= m and m a power of two up to 16, not"


@pytest.mark.parametrize(
    ("series", "error", "message"),
    [
        ([], ValueError, r"series must have at least one term \(n, m\)"),
        ((), ValueError, r"series must have at least one term \(n, m\)"),
        (None, TypeError, r"series must be a list of pairs \(n, m\), not None"),
        ("2:4", TypeError, r"series must be a list of pairs \(n, m\), not '2:4'"),
        ((2, 4), ValueError, rf"series\[0\] {PAIR} 2"),
        ([(2, 4), (3, 2)], ValueError, rf"series\[1\] {PAIR} \(3, 2\)"),
        ([(0, 4)], ValueError, rf"series\[0\] {PAIR} \(0, 4\)"),
        ([(2, 6)], ValueError, rf"series\[0\] {PAIR} \(2, 6\)"),
        ([(2, 32)], ValueError, rf"series\[0\] {PAIR} \(2, 32\)"),
        ([(2, 4, 8)], ValueError, rf"series\[0\] {PAIR} \(2, 4, 8\)"),
        ([(2.0, 4)], ValueError, rf"series\[0\] {PAIR} \(2.0, 4\)"),
        ([(True, 4)], ValueError, rf"series\[0\] {PAIR} \(True, 4\)"),
        (["24"], ValueError, rf"series\[0\] {PAIR} '24'"),
    ],
)
def test_series_that_cannot_be(series, error, message):
    for call in (
        lambda: tasd.decompose(np.zeros(4), series),
        lambda: tasd.kept(np.zeros(4), series),
        lambda: tasd.lossless(np.zeros(4), series),
        lambda: tasd.merged(series),
        lambda: tasd.cost(series),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            call()
    named = message.replace("series", r"candidates\[1\]", 1)
    with pytest.raises(error, match=f"^{named}$"):
        tasd.search({"a": np.zeros(4)}, [[(1, 2)], series], 0)


@pytest.mark.parametrize(
    ("tensor", "axis", "format", "error", "message"),
    [
        (np.array([[1, np.nan], [np.nan, 0]]), -1, None, ValueError,
         r"tensor must hold no NaN, but 2 of its 4 values are, the first at index \(0, 1\)"),
        (np.array([0, 0x7E, 0xFF], np.uint8), -1, "float8_e4m3fn", ValueError,
         r"tensor must hold no NaN, but 1 of its 3 values are, the first at index \(2,\)"),
        (np.zeros((2, 3)), 2, None, ValueError, "axis must be an integer from -2 to 1, not 2"),
        (np.zeros((2, 3)), -3, None, ValueError, "axis must be an integer from -2 to 1, not -3"),
        (np.zeros((2, 3)), None, None, TypeError, "axis must be an integer from -2 to 1, not None"),
        (np.float32(1), -1, None, ValueError, "tensor must have at least one dimension"),
        (np.zeros(3, complex), -1, None, TypeError, "tensor must hold real numbers of .*, not complex128"),
        (np.zeros(3), -1, "float16", TypeError, "float16 must be given as .* uint16 .*, not of float64"),
        (np.full(3, 99, np.uint8), -1, "float4_e2m1fn", ValueError, "float4_e2m1fn has 4 bits, not .* 0x63"),
        (np.zeros(3), -1, "float64", ValueError, "format must be one of 'int8', .*, not 'float64'"),
    ],
)  # fmt: skip
def test_tensors_that_cannot_be(tensor, axis, format, error, message):
    for function in (tasd.decompose, tasd.kept, tasd.lossless):
        with pytest.raises(error, match=f"^{message}$"):
            function(tensor, [(2, 4)], axis, format)


@pytest.mark.parametrize(
    ("block", "n", "error", "message"),
    [
        (np.zeros(4), 0, ValueError, "n must be an integer from 1 to 16, not 0"),
        (np.zeros(4), 17, ValueError, "n must be an integer from 1 to 16, not 17"),
        (np.zeros(4), 1.0, TypeError, "n must be an integer from 1 to 16, not 1.0"),
        (np.zeros((2, 2)), 1, ValueError, r"block must hold 1 to 16 values in a row, not shape \(2, 2\)"),
        (np.zeros(17), 1, ValueError, r"block must hold 1 to 16 values in a row, not shape \(17,\)"),
        (np.zeros(0), 1, ValueError, r"block must hold 1 to 16 values in a row, not shape \(0,\)"),
        (3.0, 1, ValueError, "block must have at least one dimension"),
        ([1, np.nan], 1, ValueError, "block must hold no NaN, but 1 of its 2 values are, .*"),
    ],
)
def test_what_the_unit_refuses(block, n, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        tasd.unit(block, n)


@pytest.mark.parametrize(
    ("candidates", "bound", "error", "message"),
    [
        ([], 0.1, ValueError, "candidates must hold at least one series"),
        (
            [[(1, 4)]],
            1.5,
            ValueError,
            "bound must be from 0 to 1, the share of magnitude that may go, not 1.5",
        ),
        ([[(1, 4)]], -0.1, ValueError, "bound must be from 0 to 1, .*, not -0.1"),
        ([[(1, 4)]], float("nan"), TypeError, "bound must be a number, not nan"),
        ([[(1, 4)]], "0.1", TypeError, "bound must be a number, not '0.1'"),
        ([[(1, 4)]], True, TypeError, "bound must be a number, not True"),
    ],
)
def test_what_search_refuses(candidates, bound, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        tasd.search({"a": np.zeros(4)}, candidates, bound)


def test_search_names_the_layer():
    with pytest.raises(ValueError, match=r"^layer 'fc' must hold no NaN, but 1 of its 2 values are"):
        tasd.search({"fc": np.array([1, np.nan])}, [[(1, 4)]], 0.1)
    with pytest.raises(TypeError, match=r"^bound must be a number, not None$"):
        tasd.search_accuracy(["a"], [[(1, 4)]], lambda _: 1.0, None)
    with pytest.raises(ValueError, match=r"^candidates must hold at least one series$"):
        tasd.search_accuracy(["a"], [], lambda _: 1.0, 0.5)

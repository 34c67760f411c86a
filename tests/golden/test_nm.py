"""N:M sparsity against plain loops over blocks; everything that a file may hold by mistake."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from skiptile.golden import nm
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.operands import corners, random_operands

PATTERNS = [(n, m) for m in (1, 2, 4, 8, 16) for n in range(1, m + 1)]
FLOATS = [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]


def exact(value):
    """Magnitude of a number, a fraction; infinity as it is."""
    value = value.item() if isinstance(value, np.generic) else value
    return abs(Fraction(value)) if np.isfinite(float(value)) else float("inf")


def largest(values, n):
    """Places of the n of largest magnitude, ties to the lowest: by sorting, zeros last."""
    return sorted(range(len(values)), key=lambda place: (-exact(values[place]), place))[:n]


def prune_by_loops(weights, n, m):
    """A mask of a matrix."""
    mask = np.zeros(weights.shape, bool)
    for column in range(weights.shape[1]):
        for start in range(0, len(weights), m):
            for place in largest(weights[start : start + m, column], n):
                mask[start + place, column] = True
    return mask


def compress_by_loops(values, n, m):
    """Values and places as nested lists [block][column] of pairs in order of place."""
    blocks = []
    for start in range(0, len(values), m):
        rows = [*values[start : start + m].tolist(), *[[0] * values.shape[1]] * m][:m]
        columns = []
        for column in zip(*rows, strict=True):
            places = [place for place in range(m) if column[place] != 0]
            free = [place for place in range(m) if column[place] == 0]
            places = sorted(places + free[: n - len(places)])
            columns.append([(column[place], place) for place in places])
        blocks.append(columns)
    return blocks


def structured(rng, format, shape, n, m):
    """Patterns that obey n:m, with fewer non-zeros in many blocks, -0 among the zeros of floats."""
    b = random_operands(rng, format, shape, zeros=0.3)
    b[~prune_by_loops(format.decode(b), n, m)] = 0
    if isinstance(format, FloatFormat):
        negative = format.is_zero(b) & (rng.random(shape) < 0.5)
        b[negative] = 1 << format.bits - 1
    return b


# ---- compress and dense ----


@pytest.mark.parametrize(("n", "m"), PATTERNS)
def test_layout_and_round_trip_with_every_tail(n, m, seed):
    rng = np.random.default_rng(seed)
    format = FORMATS["int8"]
    for rows in {0, 1, m - 1, m, m + 1, 2 * m, 2 * m + m // 2, 3 * m - 1}:
        b = structured(rng, format, (rows, 5), n, m)
        packed = nm.compress(b, n, m, "int8")
        assert packed.values.shape == packed.index.shape == (packed.blocks, n, 5)
        assert (packed.values.dtype, packed.index.dtype) == (b.dtype, np.uint8)
        pairs = np.stack([packed.values.astype(int), packed.index], -1).transpose(0, 2, 1, 3)
        wanted = compress_by_loops(b, n, m)
        assert pairs.tolist() == [[[list(pair) for pair in column] for column in block] for block in wanted]
        assert packed.dense().dtype == b.dtype
        assert np.array_equal(packed.dense(), b)


@pytest.mark.parametrize("format", FORMATS)
def test_round_trip_in_every_format(format, seed):
    rng = np.random.default_rng(seed)
    found = FORMATS[format]
    b = structured(rng, found, (43, 17), 2, 4)
    b[:, 0] = 0
    b[np.arange(0, 43, 4), 0] = rng.choice(corners(found), 11)  # NaN and infinities are values like others
    packed = nm.compress(b, 2, 4, format)
    assert np.array_equal(packed.dense(), np.where(found.is_zero(b), 0, b))
    assert np.count_nonzero(packed.values) == np.count_nonzero(~found.is_zero(b)) > 100


@pytest.mark.parametrize("format", FLOATS)
def test_negative_zero_is_zero(format):
    found = FORMATS[format]
    b = np.full((8, 1), 1 << found.bits - 1, found.dtype)
    b[[1, 6, 7], 0] = 1
    packed = nm.compress(b, 2, 4, format)
    assert packed.values[:, :, 0].tolist() == [[0, 1], [1, 1]]
    assert packed.index[:, :, 0].tolist() == [[0, 1], [2, 3]]
    assert packed.dense()[:, 0].tolist() == [0, 1, 0, 0, 0, 0, 1, 1]


def test_all_zero():
    packed = nm.compress(np.zeros((6, 3), np.int16), 3, 4, "int16")
    assert not packed.values.any()
    assert packed.index[:, :, 1].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_n_equal_m_is_the_matrix_itself(seed):
    b = np.random.default_rng(seed).integers(-128, 128, (16, 6)).astype(np.int8)
    packed = nm.compress(b, 8, 8, "int8")
    assert np.array_equal(packed.values.reshape(16, 6), b)
    assert np.array_equal(packed.index.reshape(16, 6), np.arange(16)[:, None] % 8 + np.zeros((1, 6)))


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (0, 0)])
def test_empty(shape):
    packed = nm.compress(np.zeros(shape, np.uint8), 1, 4, "float8_e5m2")
    assert packed.dense().shape == shape
    assert nm.obeys(np.zeros(shape, np.uint8), 1, 4, "float8_e5m2")


def test_any_memory_layout(seed):
    b = structured(np.random.default_rng(seed), FORMATS["int8"], (20, 8), 2, 4)
    b.flags.writeable = False
    for same in (np.asfortranarray(b), np.repeat(b, 2, axis=1)[:, ::2], b[::-1][::-1]):
        assert np.array_equal(nm.compress(same, 2, 4, "int8").dense(), b)


def test_the_example_of_the_documentation():
    b = np.array(
        [[5, 0, 0, -1], [0, 0, 2, 0], [0, 0, 0, 0], [-3, 0, 4, 0],
         [0, 7, 0, 0], [0, 6, 0, 0], [1, 0, 0, 9], [0, 0, 0, 8]], np.int8,
    )  # fmt: skip
    packed = nm.compress(b, 2, 4, "int8")
    assert packed.values.tolist() == [[[5, 0, 2, -1], [-3, 0, 4, 0]], [[0, 7, 0, 9], [1, 6, 0, 8]]]
    assert packed.index.tolist() == [[[0, 0, 1, 0], [3, 1, 3, 1]], [[0, 0, 0, 2], [2, 1, 1, 3]]]


# ---- what does not obey ----


@pytest.mark.parametrize(("n", "m"), [pattern for pattern in PATTERNS if pattern[0] < pattern[1]])
def test_one_too_many(n, m):
    for rows in {n + 1, m, 2 * m + n + 1}:
        b = np.zeros((rows, 3), np.int8)
        start = (rows - n - 1) // m * m
        b[start : start + n, 1] = -1
        assert nm.obeys(b, n, m, "int8")
        b[start + n, 1] = 3
        assert not nm.obeys(b, n, m, "int8")
        where = f"not {n + 1} as in rows {start} to {min(start + m, rows) - 1} of column 1$"
        with pytest.raises(ValueError, match=f"^b must have at most {n} non-zeros in {m} rows, {where}"):
            nm.compress(b, n, m, "int8")


def test_names_the_first_block():
    b = np.zeros((12, 4), np.int8)
    b[4:8, 2] = b[4:7, 3] = b[8:12, 0] = 1
    with pytest.raises(ValueError, match="not 4 as in rows 4 to 7 of column 2"):
        nm.compress(b, 2, 4, "int8")


BAD_PATTERNS = [
    (0, 4, ValueError, "n must be from 1 to m = 4, not 0"),
    (5, 4, ValueError, "n must be from 1 to m = 4, not 5"),
    (-1, 1, ValueError, "n must be from 1 to m = 1, not -1"),
    (2, 6, ValueError, "m must be a power of two from 1 to 16, not 6"),
    (1, 0, ValueError, "m must be a power of two from 1 to 16, not 0"),
    (1, 32, ValueError, "m must be a power of two from 1 to 16, not 32"),
    (1, -4, ValueError, "m must be a power of two from 1 to 16, not -4"),
    (2.0, 4, TypeError, "n must be an integer, not 2.0"),
    (True, 4, TypeError, "n must be an integer, not True"),
    (2, "4", TypeError, "m must be an integer, not '4'"),
]


@pytest.mark.parametrize(("n", "m", "error", "message"), BAD_PATTERNS)
def test_patterns_that_cannot_be(n, m, error, message):
    assert not nm.is_pattern(n, m)
    b = np.zeros((4, 2), np.int8)
    empty = np.zeros((1, 1, 2), np.int8)
    for call in (
        lambda: nm.compress(b, n, m, "int8"),
        lambda: nm.obeys(b, n, m, "int8"),
        lambda: nm.prune(b, n, m),
        lambda: nm.Compressed(n, m, (4, 2), empty, empty.view(np.uint8)),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            call()


@pytest.mark.parametrize(
    ("b", "format", "error", "message"),
    [
        (np.zeros((4, 2)), "int8", TypeError, "int8 must be given as an array of int8 bit patterns, not of"),
        (np.zeros((4, 2), ">u2"), "float16", TypeError, "of uint16 bit patterns, not of >u2"),
        (np.full((4, 2), 64, np.uint8), "float6_e2m3fn", ValueError, "6 bits, not the pattern 0x40"),
        (np.zeros(4, np.int8), "int8", ValueError, r"b must have shape \(K, N\), not \(4,\)"),
        (np.zeros((1, 4, 2), np.int8), "int8", ValueError, r"b must have shape \(K, N\), not \(1, 4, 2\)"),
        (np.zeros((4, 2), np.int8), "int7", ValueError, "format must be one of 'int8', .*, not 'int7'"),
        (np.zeros((4, 2), np.int8), None, TypeError, "format must be one of 'int8', .*, not None"),
    ],
)
def test_matrices_that_cannot_be(b, format, error, message):
    for function in (nm.compress, nm.obeys):
        with pytest.raises(error, match=message):
            function(b, 2, 4, format)


# ---- Compressed, as from a file ----


def whole():
    """(6, 3) in 2:4: the last block's rows 6 and 7 do not exist."""
    b = np.array([[1, 0, 0], [2, 0, 3], [0, 0, 0], [0, 4, 0], [5, 0, 0], [6, 0, 7]], np.int8)
    return nm.compress(b, 2, 4, "int8")


def changed(array, where, value):
    array = array.copy()
    array[where] = value
    return array


def test_fillers_may_stand_anywhere():
    packed = whole()
    index = changed(packed.index, (1, slice(None), 1), [2, 3])  # rows 6 and 7
    assert np.array_equal(replace(packed, index=index).dense(), packed.dense())


@pytest.mark.parametrize("n", [1, 3])
def test_more_places_than_rows(n):
    packed = nm.compress(np.array([[9]], np.int8), n, 8, "int8")
    assert packed.index.ravel().tolist() == list(range(n))
    assert packed.dense().tolist() == [[9]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda p: {"shape": [6, 3]}, TypeError, r"shape must be a tuple \(K, N\) of integers, not \[6, 3\]"),
        (lambda p: {"shape": (6, 3.0)}, TypeError, r"shape must be a tuple .*, not \(6, 3.0\)"),
        (lambda p: {"shape": (6,)}, ValueError, r"shape must be \(K, N\), both at least 0, not \(6,\)"),
        (lambda p: {"shape": ()}, ValueError, r"shape must be \(K, N\), both at least 0, not \(\)"),
        (lambda p: {"shape": (-6, 3)}, ValueError, r"shape must be .*, not \(-6, 3\)"),
        (lambda p: {"shape": (9, 3)}, ValueError,
         r"values must have shape \(blocks, n, N\) = \(3, 2, 3\), as .* has \(9, 3\), not \(2, 2, 3\)"),
        (lambda p: {"n": 1}, ValueError, r"values must have shape .* = \(2, 1, 3\), .*, not \(2, 2, 3\)"),
        (lambda p: {"values": p.values.ravel()}, ValueError, r"values must have shape .*, not \(12,\)"),
        (lambda p: {"values": p.values.tolist()}, TypeError,
         "values must be an array of int16 or int8 or uint16 or uint32 or uint8, not list"),
        (lambda p: {"values": p.values.astype(float)}, TypeError, "values must be .*, not float64"),
        (lambda p: {"values": p.values.astype(object)}, TypeError, "values must be .*, not object"),
        (lambda p: {"index": p.index[:1]}, ValueError, r"index must have shape .*, not \(1, 2, 3\)"),
        (lambda p: {"index": p.index.astype(np.int8)}, TypeError, "index must be .* uint8, not int8"),
        (lambda p: {"index": None}, TypeError, "index must be an array of uint8, not NoneType"),
        (lambda p: {"index": changed(p.index, (1, 1, 2), 4)}, ValueError,
         r"index must be 0 to 3, as m = 4, not 4 at \[1, 1, 2\]"),
        (lambda p: {"index": changed(p.index, (0, 0, 0), 255)}, ValueError,
         r"index must be 0 to 3, as m = 4, not 255 at \[0, 0, 0\]"),
        (lambda p: {"index": changed(p.index, (0, slice(None), 1), [3, 3])}, ValueError,
         r"index must increase strictly within a block, not be \[3, 3\] in block 0 of column 1"),
        (lambda p: {"index": changed(p.index, (1, slice(None), 2), [1, 0])}, ValueError,
         r"index must increase strictly within a block, not be \[1, 0\] in block 1 of column 2"),
        (lambda p: {"index": changed(p.index, (1, 1, 2), 3)}, ValueError,
         r"values must be zero beyond the 6 rows of shape, not 7 at \[1, 1, 2\], which is row 7"),
        (lambda p: {"shape": (5, 3), "values": -p.values}, ValueError,
         r"values must be zero beyond .*, not -6 at .*"),
        (lambda p: {"shape": (5, 3)}, ValueError,
         r"values must be zero beyond the 5 rows of shape, not 6 at \[1, 1, 0\], which is row 5"),
    ],
)  # fmt: skip
def test_what_a_file_may_hold(change, error, message):
    packed = whole()
    with pytest.raises(error, match=f"^{message}$"):
        replace(packed, **change(packed))


# ---- prune ----


@pytest.mark.parametrize(("n", "m"), PATTERNS)
def test_prune_keeps_the_largest_with_every_tail(n, m, seed):
    rng = np.random.default_rng(seed)
    for rows in {0, 1, m, m + 1, 3 * m - 1, 4 * m}:
        weights = rng.integers(-3, 4, (rows, 6))  # many ties, many zeros
        mask = nm.prune(weights, n, m)
        assert mask.dtype == bool
        assert np.array_equal(mask, prune_by_loops(weights, n, m))
        assert nm.obeys(np.where(mask, weights, 0).astype(np.int8), n, m, "int8")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "i2", "i4", "i8", "u1", "u8", "?"])
def test_prune_of_every_type(dtype, seed):
    rng = np.random.default_rng(seed)
    weights = (rng.standard_normal((21, 9)) * 50).astype(np.int8).astype(dtype)
    if weights.dtype.kind == "i":
        weights[rng.random((21, 9)) < 0.3] = np.iinfo(dtype).min
        weights[rng.random((21, 9)) < 0.3] = np.iinfo(dtype).max
    assert np.array_equal(nm.prune(weights, 3, 8), prune_by_loops(weights, 3, 8))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_the_smallest_integer_is_the_largest_magnitude(dtype):
    limits = np.iinfo(dtype)
    weights = np.array([limits.max, limits.min, -limits.max, 0], dtype)
    assert nm.prune(weights, 1, 4).tolist() == [False, True, False, False]


def test_prune_corner_cases():
    assert nm.prune(np.full(8, -1.0), 2, 4).tolist() == [True, True, False, False] * 2
    assert nm.prune(np.zeros(5), 2, 4).tolist() == [True, True, False, False, True]
    assert nm.prune([-np.inf, np.inf, 1e308, 5e-324], 1, 2).tolist() == [True, False, True, False]
    assert nm.prune([5e-324, -0.0, 0.0, -5e-324], 2, 4).tolist() == [True, False, False, True]
    assert nm.prune([1.0, -2.0], 3, 16).tolist() == [True, True]
    assert nm.prune(np.zeros((0, 3)), 2, 4).shape == (0, 3)
    assert nm.prune(np.zeros((3, 0)), 2, 4).shape == (3, 0)


def test_prune_along_the_first_of_many_axes(seed):
    weights = np.random.default_rng(seed).standard_normal((10, 3, 2, 2))
    mask = nm.prune(weights, 2, 4)
    assert np.array_equal(mask.reshape(10, -1), prune_by_loops(weights.reshape(10, -1), 2, 4))


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.array([[1, 2], [np.nan, np.nan]]), ValueError,
         r"weights must hold no NaN, but 2 of its 4 values are, the first at index \(1, 0\)"),
        (1.0, ValueError, "weights must have at least one dimension"),
        (np.zeros(4, complex), TypeError, "weights must hold real .*, not complex128"),
        (["a"], TypeError, "weights must hold real numbers of at most 64 bits, not <U1"),
        ([None], TypeError, "weights must hold real numbers of at most 64 bits, not object"),
    ],
)  # fmt: skip
def test_what_prune_refuses(weights, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        nm.prune(weights, 2, 4)

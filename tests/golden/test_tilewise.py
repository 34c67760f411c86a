"""Tile-wise pruning against plain loops over fractions; the packed form against dense products; its files."""

import io
import itertools
import math
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from skiptile.golden import exact
from skiptile.golden.formats import FORMATS
from skiptile.golden.operands import random_operands
from skiptile.golden.tilewise import PackedLayer, load, prune, save
from skiptile.golden.tilewise_packed import Tile

NONE = np.zeros(0, np.int64)


# ---- the whole procedure again, in plain loops ----


def drop(vectors, share):
    """Keys of the vectors that stay; ``vectors`` is {key: list of scores} in order."""
    score = {
        key: sum(Fraction(float(x)) ** 2 for x in vector) / len(vector) ** 2
        for key, vector in vectors.items()
    }
    order = sorted(range(len(vectors)), key=lambda i: (list(score.values())[i], -i))
    dropped = set(order[: round(share * len(vectors))])
    return [key for i, key in enumerate(vectors) if i not in dropped]


def reference(scores, sparsity, group, restore=0.0):
    """Elements of tiles, and single ones, as sets of (layer, row, column); and the tiles' (rows, columns)."""
    share = 1 - math.sqrt(1 - (sparsity + restore))
    columns = {}
    for layer, array in scores.items():
        for column in range(array.shape[1] if array.shape[0] else 0):
            columns[layer, column] = [array[row, column] for row in range(array.shape[0])]
    left = drop(columns, share)
    tiles = {}
    for layer in scores:
        mine = [column for name, column in left if name == layer]
        while mine:
            tiles[layer, len(tiles)] = mine[:group]
            mine = mine[group:]
    rows = {}
    for (layer, number), wide in tiles.items():
        for row in range(scores[layer].shape[0]):
            rows[layer, number, row] = [scores[layer][row, column] for column in wide]
    kept = drop(rows, share)
    blocks = {layer: [] for layer in scores}
    for (layer, number), wide in tiles.items():
        mine = [row for name, tile, row in kept if (name, tile) == (layer, number)]
        if mine:
            blocks[layer].append((mine, wide))
    inside = {
        (layer, row, column)
        for layer in scores
        for rows_, wide in blocks[layer]
        for row in rows_
        for column in wide
    }
    everything = [(layer, *index) for layer, array in scores.items() for index in np.ndindex(array.shape)]
    outside = [place for place in everything if place not in inside]
    outside.sort(key=lambda place: -abs(scores[place[0]][place[1:]]))  # stable
    return blocks, inside, set(outside[: round(restore * len(everything))])


def check(scores, sparsity, group, restore=0.0):
    weights = {name: np.arange(1, array.size + 1).reshape(array.shape) for name, array in scores.items()}
    got = prune(weights, scores, sparsity, group, restore)
    blocks, inside, single = reference(scores, sparsity, group, restore)
    for name, array in scores.items():
        packed, mask = got.packed[name], np.zeros(array.shape, bool)
        for layer, row, column in inside | single:
            if layer == name:
                mask[row, column] = True
        assert got.masks[name].dtype == bool
        assert np.array_equal(got.masks[name], mask)
        assert [(tile.rows.tolist(), tile.columns.tolist()) for tile in packed.tiles] == blocks[name]
        places = zip(packed.leftover_rows.tolist(), packed.leftover_columns.tolist(), strict=True)
        assert list(places) == sorted(place[1:] for place in single if place[0] == name)
        assert np.array_equal(packed.dense(), np.where(mask, weights[name], 0))
        assert np.array_equal(packed.merged().dense(), packed.dense())
    return got


def random_layers(rng, integers):
    """One to four small layers; whole numbers make many ties."""
    layers = {}
    for number in range(rng.integers(1, 5)):
        shape = tuple(rng.integers(0 if rng.random() < 0.1 else 1, 13, 2))
        scale = 10.0 ** rng.integers(-2, 2)
        layers[f"fc{number}"] = rng.integers(0, 3, shape) if integers else rng.normal(size=shape) * scale
    return layers


@pytest.mark.parametrize("restore", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("integers", [False, True])
def test_random_layers(integers, restore, seed):
    rng = np.random.default_rng(seed)
    leftovers = tiles = 0
    for _ in range(150):
        got = check(random_layers(rng, integers), rng.random() * 0.79, int(rng.integers(1, 15)), restore)
        leftovers += sum(layer.leftover_rows.size for layer in got.packed.values())
        tiles += sum(len(layer.tiles) for layer in got.packed.values())
    assert tiles > 300
    assert (leftovers > 100) == (restore > 0)


@pytest.mark.parametrize("restore", [0.0, 0.1])
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.75, 0.89])
@pytest.mark.parametrize("group", [1, 2, 5, 128])
@pytest.mark.parametrize(
    "shapes", [[(1, 1)], [(1, 9)], [(9, 1)], [(4, 6), (1, 5), (7, 1)], [(0, 4), (5, 0), (4, 4)]]
)
def test_small_and_empty_layers(shapes, group, sparsity, restore, seed):
    rng = np.random.default_rng(seed)
    scores = {number: rng.random(shape) for number, shape in enumerate(shapes)}
    check(scores, sparsity, group, restore)


@pytest.mark.parametrize("value", [0.0, 0.1, 7.0, 1e-320, 1e300])
def test_equal_scores(value):
    """Of equal ones the lowest index stays: first layer, left columns, upper rows."""
    scores = {"x": np.full((4, 4), value), "y": np.full((4, 4), value)}
    got = check(scores, 0.75, 4)
    assert got.masks["x"].tolist() == [[True] * 4] * 2 + [[False] * 4] * 2
    assert not got.masks["y"].any()
    assert got.packed["y"].tiles == ()
    assert got.sparsity == 0.75
    check(scores, 0.5, 3, 0.25)


def test_scores_are_compared_exactly():
    """Sums that float64 cannot tell apart, squares that it cannot hold, and sums in another order."""
    one = 1 + 2.0**-52
    close = np.array([[1, one, 1], [2.0**-60, 0, 0]])  # squares 1 + 2^-120, above 1 + 2^-51, 1
    assert check({"x": close}, 1 - (2 / 3) ** 2, 1).masks["x"].any(axis=0).tolist() == [True, True, False]
    tiny = np.array([[2e-200, 1e-200, 3e-200, 1e200]])
    assert check({"x": tiny}, 1 - (3 / 4) ** 2, 8).masks["x"].tolist() == [[True, False, True, True]]
    rng = np.random.default_rng(1)
    column = rng.random(50)
    scores = np.stack([rng.permutation(column) for _ in range(8)], axis=1)
    assert np.flatnonzero(check({"x": scores}, 0.75, 1).masks["x"].any(axis=0)).tolist() == [0, 1, 2, 3]


def test_columns_of_different_lengths_are_scored_by_norm_over_length():
    """A column of 4 twos scores 4 / 4, a single 1 the same; a single 5 more."""
    got = check({"x": np.full((4, 1), 2.0), "y": np.array([[1.0, 5.0]])}, 1 - (2 / 3) ** 2, 1)
    assert got.masks["y"].tolist() == [[False, True]]
    assert got.masks["x"].any()


def test_sign_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    scores = {"x": -rng.random((20, 30)), "y": rng.normal(size=(10, 20))}
    negative = prune(scores, scores, 0.6, 8, 0.05)
    positive = prune(scores, {name: np.abs(array) for name, array in scores.items()}, 0.6, 8, 0.05)
    for name in scores:
        assert np.array_equal(negative.masks[name], positive.masks[name])
    least = np.array([[np.iinfo(np.int8).min, 1]], np.int8)
    assert prune({0: least}, {0: least}, 0.75).masks[0].tolist() == [[True, False]]


def test_nothing_is_pruned_at_zero(seed):
    scores = {"x": np.random.default_rng(seed).normal(size=(9, 300))}
    got = prune(scores, scores, 0)
    assert got.sparsity == 0
    assert [tile.values.shape for tile in got.packed["x"].tiles] == [(9, 128), (9, 128), (9, 44)]
    assert np.array_equal(got.packed["x"].dense(), scores["x"])
    assert prune(scores, scores, 0, restore=0.3).masks["x"].sum() > got.masks["x"].size * 0.9


def test_everything_is_pruned_near_one(seed):
    scores = {"x": np.random.default_rng(seed).random((6, 5)), "y": np.ones((3, 2))}
    got = check(scores, 1 - 1e-9, 4)
    assert got.sparsity == 1
    assert all(layer.tiles == () for layer in got.packed.values())
    assert list(got.packed["x"].merged().products(np.ones((2, 6)))) == []


def test_a_layer_may_lose_all_columns_and_a_tile_all_rows():
    scores = {"low": np.full((4, 4), 0.01), "high": np.ones((4, 4))}
    got = check(scores, 0.75, 4)
    assert not got.masks["low"].any()
    assert got.packed["low"].dense().tolist() == [[0] * 4] * 4
    halves = np.array([[1, 1, 0.1, 0.1]] * 4)
    got = check({"x": halves, "none": np.zeros((4, 4))}, 0.75, 2)
    assert [tile.columns.tolist() for tile in got.packed["x"].tiles] == [[0, 1]]


@pytest.mark.parametrize("restore", [0.0, 0.01])
@pytest.mark.parametrize("sparsity", [0.25, 0.5, 0.75, 0.9, 0.98])
def test_sparsity_of_big_layers(sparsity, restore, seed):
    """Uniform scores, columns of one length: as asked for if tiles are about equally wide, else more."""
    rng = np.random.default_rng(seed)
    scores = {name: rng.random((600, 500)) for name in "abc"}
    for group in (1, 500):
        got = prune(scores, scores, sparsity, group, restore)
        assert abs(got.sparsity - sparsity) < 0.01
        assert sum(layer.leftover_rows.size for layer in got.packed.values()) == round(restore * 900_000)
    # rows of a layer's last, narrow tile have higher scores, so that more of the wide ones go
    assert -0.01 < prune(scores, scores, sparsity, restore=restore).sparsity - sparsity < 0.1


def test_more_sparsity_never_leaves_more(seed):
    rng = np.random.default_rng(seed)
    scores = {name: rng.random((50, 60)) for name in "ab"}
    reached = [prune(scores, scores, step / 20, 1).sparsity for step in range(20)]
    assert reached[0] == 0
    assert reached[-1] > 0.9
    assert all(later > sooner for sooner, later in itertools.pairwise(reached))


def test_restored_elements_are_the_best_pruned():
    scores = np.ones((8, 8))
    scores[:, 4:] = 0.1
    scores[[2, 5, 7], [6, 4, 7]] = 0.3, 0.2, 0.2
    got = check({"x": scores}, 0.75 - 2 / 64, 8, 2 / 64).packed["x"]
    assert got.leftover_rows.tolist() == [4, 4]  # of the wide block's lower rows, which score 1
    low = np.where(scores == 1, 0.15, scores)
    low[:, :4] += 0.001
    got = check({"x": low}, 0.75 - 2 / 64, 8, 2 / 64).packed["x"]
    assert list(zip(got.leftover_rows, got.leftover_columns, strict=True)) == [(2, 6), (5, 4)]


# ---- the packed form ----


def pruned_patterns(rng, format, shape, specials=0.0, restore=0.03):
    """A packed layer of bit patterns, its dense form, and activations."""
    weights = random_operands(rng, FORMATS[format], shape)
    weights = np.where(np.isfinite(FORMATS[format].decode(weights)), weights, 0).astype(weights.dtype)
    packed = prune({0: weights}, {0: rng.random(shape)}, 0.7, 6, restore, format=format).packed[0]
    a = random_operands(rng, FORMATS[format], (7, shape[0]), zeros=0.2, specials=specials)
    return packed, packed.dense(), a


def run(packed, a, multiply, dtype):
    """``a @ packed`` on an engine of dense products."""
    c = np.zeros((len(a), packed.shape[1]), dtype)
    for product in packed.products(a):
        c[:, product.columns] += multiply(product.a, product.b)
    return c


@pytest.mark.parametrize("shape", [(40, 31), (1, 40), (40, 1), (13, 5)])
def test_products_of_integers(shape, seed):
    packed, dense, a = pruned_patterns(np.random.default_rng(seed), "int8", shape)
    assert dense.any()
    for layer in (packed, packed.merged()):
        for multiply in (
            lambda x, y: x.astype(int) @ y.astype(int),
            lambda x, y: exact.matmul(x, y, "int8", "int8", out="raw"),
        ):
            assert np.array_equal(run(layer, a, multiply, np.int64), a.astype(int) @ dense.astype(int))


def test_leftovers_as_a_sparse_pass(seed):
    """The side path that the coordinates are for."""
    packed, dense, a = pruned_patterns(np.random.default_rng(seed), "int8", (40, 31))
    a = a.astype(int)
    c = np.zeros((7, 31), int)
    for tile in packed.tiles:
        c[:, tile.columns] = a[:, tile.rows] @ tile.values
    places = (packed.leftover_rows, packed.leftover_columns, packed.leftover_values)
    assert len(places[0]) == round(0.03 * 40 * 31)
    for row, column, value in zip(*places, strict=True):
        c[:, column] += a[:, row] * int(value)
    assert np.array_equal(c, a @ dense)


@pytest.mark.parametrize("accumulator", [None, "exact"])
@pytest.mark.parametrize("format", ["bfloat16", "float8_e5m2", "float16"])
def test_merged_products_of_floats(format, accumulator, seed):
    """Each column from one product: the bits of the dense product, with NaN and infinities in activations."""
    packed, dense, a = pruned_patterns(np.random.default_rng(seed), format, (40, 31), specials=0.02)
    assert packed.leftover_rows.size
    merged = packed.merged()
    assert merged.leftover_rows.size == 0
    assert np.array_equal(merged.dense(), dense)
    columns = np.concatenate([tile.columns for tile in merged.tiles])
    assert len(set(columns.tolist())) == len(columns)

    def multiply(x, y):
        return exact.matmul(x, y, format, format, accumulator=accumulator)

    wanted = exact.matmul(a, dense, format, format, accumulator=accumulator)
    assert len(np.unique(wanted)) > 50
    assert np.array_equal(run(merged, a, multiply, np.uint32), wanted)


@pytest.mark.parametrize("accumulator", [None, "exact"])
def test_raw_accumulators_of_floats_add_up(accumulator, seed):
    packed, dense, a = pruned_patterns(np.random.default_rng(seed), "bfloat16", (40, 31))

    def multiply(x, y):
        return exact.matmul(x, y, "bfloat16", "bfloat16", out="raw", accumulator=accumulator)

    assert packed.leftover_rows.size
    assert np.array_equal(run(packed, a, multiply, object), multiply(a, dense))


def test_floats_need_merging():
    """1 + 2^-8 in a tile, 2^-8 left over: 1 + 2^-7 in bfloat16, but 1 if the parts are rounded."""
    bfloat16 = FORMATS["bfloat16"]
    one, small = bfloat16.encode(np.array([1, 2.0**-8]))
    tile = Tile(np.array([0, 1]), np.array([0]), np.array([[one], [small]]))
    packed = PackedLayer((3, 1), 1, (tile,), np.array([2]), np.array([0]), np.array([small]))
    a = np.full((1, 3), one)

    def results(layer):
        products = layer.products(a)
        return [exact.matmul(x, y, "bfloat16", "bfloat16", out="bfloat16").item() for x, y, _ in products]

    wanted = exact.matmul(a, packed.dense(), "bfloat16", "bfloat16", out="bfloat16").item()
    assert wanted == bfloat16.encode(1 + 2.0**-7)
    assert results(packed) == [one, small]
    assert bfloat16.encode(1 + 2.0**-8) == one != wanted
    assert results(packed.merged()) == [wanted]


def test_merged_tiles():
    """A tile takes the rows of leftovers in its columns; others become tiles of `group` columns or fewer."""
    tile = Tile(np.array([1, 3]), np.array([2, 5]), np.array([[1, 2], [3, 4]]))
    packed = PackedLayer(
        (6, 8), 2, (tile,), np.array([0, 0, 4, 4, 5]), np.array([5, 7, 0, 1, 2]), np.array([9, 8, 7, 6, 5])
    )
    merged = packed.merged()
    assert [(t.rows.tolist(), t.columns.tolist(), t.values.tolist()) for t in merged.tiles] == [
        ([0, 1, 3, 5], [2, 5], [[0, 9], [1, 2], [3, 4], [5, 0]]),
        ([4], [0, 1], [[7, 6]]),
        ([0], [7], [[8]]),
    ]
    assert (merged.shape, merged.group, merged.dtype) == ((6, 8), 2, packed.dtype)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.uint16, ">f4", ">u2"]
)
def test_values_keep_their_type(dtype, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 100, (8, 9)).astype(dtype)
    got = prune({"x": weights}, {"x": rng.random((8, 9)).astype(np.float32)}, 0.5, 4, 0.1)
    packed = got.packed["x"]
    assert packed.dtype == packed.merged().dtype == packed.dense().dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(packed.dense(), weights * got.masks["x"])


# ---- what pruning refuses ----

GOOD = np.ones((2, 3))
NAN = np.where(np.arange(6).reshape(2, 3) == 4, np.nan, 1)


@pytest.mark.parametrize(
    ("weights", "scores", "options", "error", "message"),
    [
        ({}, {}, {}, ValueError, "weights must hold at least one layer, not none"),
        ([GOOD], {}, {}, TypeError, "weights must be a dictionary of arrays by layer, not list"),
        ({"x": GOOD}, GOOD, {}, TypeError, "scores must be a dictionary of arrays by layer, not ndarray"),
        ({"x": GOOD}, {}, {}, ValueError,
         "weights and scores must have the same layers, but 'x' is in weights only"),
        ({"x": GOOD}, {"x": GOOD, "y": GOOD}, {}, ValueError,
         "weights and scores must have the same layers, but 'y' is in scores only"),
        ({"x": [[1]]}, {"x": GOOD}, {}, TypeError,
         "weights of layer 'x' must be an array of shape (K, N), not list"),
        ({"x": GOOD[0]}, {"x": GOOD[0]}, {}, ValueError,
         "weights of layer 'x' must be an array of shape (K, N), not of shape (3,)"),
        ({"x": GOOD}, {"x": GOOD[0]}, {}, ValueError,
         "scores of layer 'x' must be an array of shape (K, N), not of shape (3,)"),
        ({"x": GOOD}, {"x": GOOD.T}, {}, ValueError,
         "weights and scores of layer 'x' must have the same shape, not (2, 3) and (3, 2)"),
        ({"x": GOOD * 1j}, {"x": GOOD}, {}, TypeError,
         "weights of layer 'x' must be real numbers of at most 64 bits, or bit patterns, not complex128"),
        ({"x": GOOD > 0}, {"x": GOOD}, {}, TypeError,
         "weights of layer 'x' must be real numbers of at most 64 bits, or bit patterns, not bool"),
        ({"x": GOOD}, {"x": GOOD.astype(object)}, {}, TypeError,
         "scores of layer 'x' must be real numbers of at most 64 bits, not object"),
        ({"x": GOOD}, {"x": np.full((2, 3), -1 << 53)}, {}, ValueError,
         "scores of layer 'x' must be below 2^53 if they are integers, for float64 to hold them"),
        ({"x": NAN}, {"x": GOOD}, {}, ValueError,
         "weights of layer 'x' must be finite, but 1 of 6 are NaN or infinite, the first at index (1, 1)"),
        ({"x": GOOD}, {"x": NAN}, {}, ValueError,
         "scores of layer 'x' must be finite, but 1 of 6 are NaN or infinite, the first at index (1, 1)"),
        ({"x": GOOD}, {"x": GOOD * [1, 1, -np.inf]}, {}, ValueError,
         "scores of layer 'x' must be finite, but 2 of 6 are NaN or infinite, the first at index (0, 2)"),
        ({"x": np.full((2, 3), 0x7F80, np.uint16)}, {"x": GOOD}, {"format": "bfloat16"}, ValueError,
         "weights of layer 'x' must be finite, but 6 of 6 are NaN or infinite, the first at index (0, 0)"),
        ({"x": GOOD}, {"x": GOOD}, {"format": "bfloat16"}, TypeError,
         "weights of layer 'x' must be bfloat16 bit patterns: bfloat16 must be given as an array of uint16 "
         "bit patterns, not of float64"),
        ({"x": np.full((2, 3), 255, np.uint8)}, {"x": GOOD}, {"format": "float4_e2m1fn"}, ValueError,
         "weights of layer 'x' must be float4_e2m1fn bit patterns: float4_e2m1fn has 4 bits, not the pattern "
         "0xff"),
        ({"x": GOOD}, {"x": GOOD}, {"format": "int4"}, ValueError, "format must be one of 'int8', "),
        ({"x": GOOD}, {"x": GOOD}, {"sparsity": 1.0}, ValueError,
         "sparsity must be a number from 0 to below 1, not 1.0"),
        ({"x": GOOD}, {"x": GOOD}, {"sparsity": -0.1}, ValueError,
         "sparsity must be a number from 0 to below 1, not -0.1"),
        ({"x": GOOD}, {"x": GOOD}, {"sparsity": math.nan}, ValueError,
         "sparsity must be a number from 0 to below 1, not nan"),
        ({"x": GOOD}, {"x": GOOD}, {"sparsity": "0.5"}, TypeError,
         "sparsity must be a number from 0 to below 1, not '0.5'"),
        ({"x": GOOD}, {"x": GOOD}, {"restore": False}, TypeError,
         "restore must be a number from 0 to below 1, not False"),
        ({"x": GOOD}, {"x": GOOD}, {"restore": 10**400}, ValueError,
         "restore must be a number from 0 to below 1, not 1000"),
        ({"x": GOOD}, {"x": GOOD}, {"restore": 0.5}, ValueError,
         "sparsity + restore must be below 1, not 0.5 + 0.5"),
        ({"x": GOOD}, {"x": GOOD}, {"group": 0}, ValueError,
         "group must be an integer from 1 to 2147483647, not 0"),
        ({"x": GOOD}, {"x": GOOD}, {"group": 1.5}, TypeError,
         "group must be an integer from 1 to 2147483647, not 1.5"),
    ],
)  # fmt: skip
def test_what_pruning_refuses(weights, scores, options, error, message):
    with pytest.raises(error) as caught:
        prune(weights, scores, **{"sparsity": 0.5, **options})
    assert str(caught.value).startswith(message)


def test_numbers_of_numpy_are_numbers():
    assert prune({"x": GOOD}, {"x": GOOD}, np.float32(0.5), restore=np.float64(0.1)).masks["x"].any()


# ---- what a packed layer refuses ----


def layer(**changes):
    """A good layer of two tiles and two leftovers, but for the changes; tile=(number, field, value) too."""
    tiles = [
        Tile(np.array([0, 2]), np.array([1, 4]), np.ones((2, 2), np.float32)),
        Tile(np.array([1]), np.array([2, 3]), np.ones((1, 2), np.float32)),
    ]
    if "tile" in changes:
        number, field, value = changes.pop("tile")
        tiles[number] = tiles[number]._replace(**{field: value})
    parts = {
        "shape": (3, 5),
        "group": 2,
        "tiles": tuple(tiles),
        "leftover_rows": np.array([0, 1]),
        "leftover_columns": np.array([0, 1]),
        "leftover_values": np.ones(2, np.float32),
    }
    return PackedLayer(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"shape": [3, 5]}, TypeError, "shape must be (K, N), not [3, 5]"),
        ({"shape": (3, -5)}, ValueError, "shape must be two integers of 0 or more, not (3, -5)"),
        ({"shape": (3, 4)}, ValueError, "columns of tile 0 must be from 0 to below 4, not 4"),
        ({"shape": (1, 5)}, ValueError, "leftover_rows must be from 0 to below 1, not 1"),
        ({"group": 0}, ValueError, "group must be an integer from 1 to 2147483647, not 0"),
        ({"group": 1}, ValueError, "columns of tile 0 must be at most group = 1, not 2"),
        ({"tile": (0, "rows", [0, 2])}, TypeError, "rows of tile 0 must be a list of int64, not list"),
        ({"tile": (0, "rows", np.array([0, 2], np.int32))}, TypeError,
         "rows of tile 0 must be a list of int64, not an array of int32 of shape (2,)"),
        ({"tile": (0, "rows", NONE)}, ValueError, "rows of tile 0 must be one or more, not none"),
        ({"tile": (1, "columns", NONE)}, ValueError, "columns of tile 1 must be one or more, not none"),
        ({"tile": (0, "rows", np.array([2, 0]))}, ValueError,
         "rows of tile 0 must be increasing, none of them twice"),
        ({"tile": (0, "columns", np.array([1, 1]))}, ValueError,
         "columns of tile 0 must be increasing, none of them twice"),
        ({"tile": (0, "rows", np.array([-1, 0]))}, ValueError,
         "rows of tile 0 must be from 0 to below 3, not -1"),
        ({"tile": (1, "columns", np.array([2, 4]))}, ValueError,
         "columns of tile 1 must not be those of another, but 4 is in tile 0 too"),
        ({"tile": (1, "values", np.ones((2, 2), np.float32))}, ValueError,
         "values of tile 1 must be an array of shape (1, 2), not an array of float32 of shape (2, 2)"),
        ({"tile": (1, "values", np.ones((1, 2)))}, TypeError,
         "values of tile 1 must be float32, as leftover_values are, not float64"),
        ({"tile": (1, "values", np.full((1, 2), np.nan, np.float32))}, ValueError,
         "values of tile 1 must be finite, but 2 of 2 are NaN or infinite, the first at index (0, 0)"),
        ({"leftover_columns": np.array([0])}, ValueError,
         "leftover_columns must be as many as leftover_rows, not 1 for 2"),
        ({"leftover_columns": np.array([0, 5])}, ValueError,
         "leftover_columns must be from 0 to below 5, not 5"),
        ({"leftover_rows": np.array([1, 0])}, ValueError,
         "leftover_rows must be sorted, with leftover_columns increasing within each row"),
        ({"leftover_rows": np.array([0, 0]), "leftover_columns": np.array([0, 0])}, ValueError,
         "leftover_rows must be sorted, with leftover_columns increasing within each row"),
        ({"leftover_rows": np.array([0, 2])}, ValueError,
         "leftover_rows must not meet a tile's elements, but (2, 1) is in tile 0"),
        ({"leftover_values": [1, 2]}, ValueError,
         "leftover_values must be an array of shape (2,), not list"),
        ({"leftover_values": np.ones(2, bool)}, TypeError,
         "leftover_values must be real numbers of at most 64 bits, or bit patterns, not bool"),
        ({"leftover_values": np.array([1, np.inf], np.float32)}, ValueError,
         "leftover_values must be finite, but 1 of 2 are NaN or infinite, the first at index (1,)"),
    ],
)  # fmt: skip
def test_what_a_packed_layer_refuses(changes, error, message):
    with pytest.raises(error) as caught:
        layer(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize("shape", [(2, 5), (3,), (3, 1, 2)])
def test_products_refuse_another_shape(shape):
    with pytest.raises(ValueError, match=r"a must have shape \(M, 3\), not "):
        layer().products(np.zeros(shape))


# ---- files ----


def same(first, second):
    assert (first.shape, first.group, first.dtype) == (second.shape, second.group, second.dtype)
    assert len(first.tiles) == len(second.tiles)
    for one, other in zip(first.tiles, second.tiles, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))
    for name in ("leftover_rows", "leftover_columns", "leftover_values"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint16])
@pytest.mark.parametrize("restore", [0.0, 0.1])
def test_round_trip(tmp_path, restore, dtype, seed):
    rng = np.random.default_rng(seed)
    shapes = {"fc/1": (20, 30), "../évil": (7, 1), "file": (0, 4), "allow_pickle": (1, 9), "gone": (4, 5)}
    weights = {name: rng.integers(0, 99, shape).astype(dtype) for name, shape in shapes.items()}
    scores = {name: rng.random(shape) * (name != "gone") for name, shape in shapes.items()}
    packed = prune(weights, scores, 0.6, 4, restore).packed
    path = tmp_path / "packed.npz"
    save(path, packed)
    loaded = load(str(path))
    assert list(loaded) == list(packed)
    for name in packed:
        same(loaded[name], packed[name])
    save(tmp_path / "again.npz", loaded)
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.npz", "packed.npz"]


def test_no_layers_make_a_file_too(tmp_path):
    save(tmp_path / "x.npz", {})
    assert load(tmp_path / "x.npz") == {}


@pytest.mark.parametrize(
    ("packed", "error", "message"),
    [
        ({1: layer()}, TypeError, "packed must hold PackedLayer by names, not 1: PackedLayer"),
        ({"x": GOOD}, TypeError, "packed must hold PackedLayer by names, not 'x': ndarray"),
        ({"": layer()}, ValueError,
         "packed must name layers by one or more characters, none of them NUL, not ''"),
        ({"x\0": layer()}, ValueError,
         r"packed must name layers by one or more characters, none of them NUL, not 'x\x00'"),
    ],
)  # fmt: skip
def test_what_saving_refuses(tmp_path, packed, error, message):
    with pytest.raises(error) as caught:
        save(tmp_path / "x.npz", packed)
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    save(path, {"old": layer()})

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        save(path, {"new": layer()})
    assert list(load(path)) == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_where_no_file_can_be(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        save(tmp_path / "none" / "x.npz", {"x": layer()})
    assert caught.value.filename == str(tmp_path / "none" / "x.npz")
    with pytest.raises(IsADirectoryError) as caught:
        save(tmp_path, {"x": layer()})
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "x.npz")


def arrays_of(tmp_path):
    save(tmp_path / "good.npz", {"fc1": layer()})
    with np.load(tmp_path / "good.npz") as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": None}, "array 'version' is missing: not a file of packed layers"),
        ({"version": np.array(2)}, "array 'version' must be 1, not 2"),
        ({"version": np.array([1, 1])}, "array 'version' must be 1, not [1, 1]"),
        ({"layers": None}, "array 'layers' must be a list of names, not NoneType"),
        ({"layers": np.array([1])},
         "array 'layers' must be a list of names, not an array of int64 of shape (1,)"),
        ({"layers": np.array("x")},
         "array 'layers' must be a list of names, not an array of <U1 of shape ()"),
        ({"layers": np.array(["x", "x"])}, "array 'layers' must hold names that differ, not ['x', 'x']"),
        ({"layers": np.array(["x", ""])}, "array 'layers' must hold names that differ, not ['x', '']"),
        ({"layers": np.array(["x", "y"])}, "array '1.shape' is missing"),
        ({"layers": np.zeros(0, "U1")}, "array '0."),
        ({"0.rows": None}, "array '0.rows' is missing"),
        ({"1.rows": NONE}, "array '1.rows' is unknown: 1 layers have none of that name"),
        ({"0.shape": np.array([3, 5, 1])},
         "array 0.shape must be int64 of shape (2,), not an array of int64 of shape (3,)"),
        ({"0.shape": np.array([3.0, 5.0])},
         "array 0.shape must be int64 of shape (2,), not an array of float64 of shape (2,)"),
        ({"0.shape": np.array([-3, 5])}, "array 0.shape must be two integers of 0 or more, not (-3, 5)"),
        ({"0.group": np.array([2])},
         "array 0.group must be int64 of shape (), not an array of int64 of shape (1,)"),
        ({"0.group": np.array(-1)}, "array 0.group must be an integer from 1 to 2147483647, not -1"),
        ({"0.tile_sizes": np.array(3)},
         "array 0.tile_sizes must be int64 of shape (0, 2), not an array of int64 of shape ()"),
        ({"0.tile_sizes": np.array([[2, 2, 2]])},
         "array 0.tile_sizes must be int64 of shape (1, 2), not an array of int64 of shape (1, 3)"),
        ({"0.tile_sizes": np.array([[3, 2], [0, 2]])}, "array 0.tile_sizes must be one or more"),
        ({"0.tile_sizes": np.array([[2, 2]])}, "array 0.rows must have shape (2,) for its tiles, not (3,)"),
        ({"0.tile_sizes": np.array([[1 << 62, 1 << 62]] * 4)},
         f"array 0.rows must have shape ({1 << 64},) for its tiles, not (3,)"),
        ({"0.tile_sizes": np.zeros((0, 2), np.int64)},
         "array 0.rows must have shape (0,) for its tiles, not (3,)"),
        ({"0.tile_sizes": np.array([[1, 2], [2, 2]])},  # the same arrays cut elsewhere
         "array 0.rows of tile 1 must be increasing, none of them twice"),
        ({"0.values": np.ones((6, 1), np.float32)},
         "array 0.values must have shape (6,) for its tiles, not (6, 1)"),
        ({"0.values": np.ones(6)},
         "array 0.values of tile 0 must be float32, as leftover_values are, not float64"),
        ({"0.values": np.ones(6, "S1")}, "array 0.values of tile 0 must be real numbers of at most 64 bits, "
         "or bit patterns, not |S1"),
        ({"0.rows": np.array([0, 7, 1])}, "array 0.rows of tile 0 must be from 0 to below 3, not 7"),
        ({"0.rows": np.array([0, 2, 1], np.uint64)},
         "array 0.rows of tile 0 must be a list of int64, not an array of uint64 of shape (2,)"),
        ({"0.rows": np.array([2, 0, 1])}, "array 0.rows of tile 0 must be increasing, none of them twice"),
        ({"0.columns": np.array([1, 4, 2, 4])},
         "array 0.columns of tile 1 must not be those of another, but 4 is in tile 0 too"),
        ({"0.leftover_rows": np.array([0, 2])},
         "array 0.leftover_rows must not meet a tile's elements, but (2, 1) is in tile 0"),
        ({"0.leftover_rows": np.array([[0, 1]])},
         "array 0.leftover_rows must be a list of int64, not an array of int64 of shape (1, 2)"),
        ({"0.leftover_values": np.ones(3, np.float32)}, "array 0.leftover_values must be an array of shape "
         "(2,), not an array of float32 of shape (3,)"),
    ],
)  # fmt: skip
def test_corrupted_arrays(tmp_path, changes, message):
    arrays = {**arrays_of(tmp_path), **changes}
    path = tmp_path / "bad.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_no_pickle(tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path(tmp_path / "exploded").touch, ()

    arrays = {**arrays_of(tmp_path), "layers": np.array([Bomb()], object)}
    np.savez(tmp_path / "bad.npz", allow_pickle=True, **arrays)
    with pytest.raises(ValueError, match=r"not a readable \.npz file of plain arrays \(Object arrays"):
        load(tmp_path / "bad.npz")
    assert not (tmp_path / "exploded").exists()


def test_broken_archives(tmp_path, seed):
    """Cut off, or with bytes changed anywhere: one sentence, or (names, dates) the same layers."""
    arrays_of(tmp_path)
    whole = (tmp_path / "good.npz").read_bytes()
    rng = np.random.default_rng(seed)
    path, refused = tmp_path / "bad.npz", []
    cuts = [whole[: rng.integers(0, len(whole))] for _ in range(20)]
    for data in [b"", b"PK\3\4", *cuts, *(changed(whole, rng) for _ in range(200))]:
        path.write_bytes(data)
        try:
            loaded = load(path)
        except ValueError as error:
            refused.append(str(error))
        else:
            same(next(iter(loaded.values())), layer())
    assert len(refused) > 100
    assert all(message.startswith(f"{path}: ") for message in refused)


def changed(data, rng):
    data = bytearray(data)
    data[rng.integers(0, len(data))] ^= rng.integers(1, 256)
    return bytes(data)


def test_an_array_of_impossible_size(tmp_path):
    arrays = arrays_of(tmp_path)
    path = tmp_path / "bad.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            data = file.getvalue()
            if name == "0.rows":
                data = data.replace(b"(3,), }          ", b"(%d,), }" % (1 << 50) + b" ", 1)
            archive.writestr(f"{name}.npy", data)
        archive.writestr("notes.txt", "not an array")
    with pytest.raises(ValueError, match=r"bad\.npz: not a readable .*\("):
        load(path)


def test_a_member_that_is_no_array(tmp_path):
    arrays_of(tmp_path)
    path = tmp_path / "good.npz"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "not an array")
    with pytest.raises(ValueError, match=r"good\.npz: array 'notes\.txt' must be one of NumPy's"):
        load(path)


# ---- the documentation ----


def test_examples_of_the_documentation(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "tile-wise.md").read_text()
    blocks = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    wanted = [part.partition("```")[0] for part in text.split("```text\n")[1:]]
    assert blocks
    scope = {}
    for block in blocks:
        exec(block, scope)
    assert capsys.readouterr().out == "".join(wanted)

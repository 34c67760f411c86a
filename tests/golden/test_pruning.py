"""Pruning and fine-tuning: what the masks promise, of real weights and of the patterns that hardware gets."""

from dataclasses import replace

import numpy as np
import pytest

from skiptile.golden import nm
from skiptile.golden.pruning import SCHEMES, SPARSITIES, prune_network
from skiptile.golden.training import Network, small_cnn
from skiptile.golden.workloads import split_digits, train_on_digits, zeros

DENSE, MAGNITUDE, N_M, TILE_WISE, RESTORED = SCHEMES
EPOCHS = 1  # enough to move every weight, and for what these tests say of accuracy


@pytest.fixture(scope="module")
def digits():
    """With half of the training images, for speed."""
    digits = split_digits()
    return replace(
        digits, training_images=digits.training_images[:720], training_labels=digits.training_labels[:720]
    )


@pytest.fixture(scope="module")
def network(digits):
    network = small_cnn()
    train_on_digits(network, digits, epochs=6)
    return network


@pytest.fixture(scope="module")
def pruned(network, digits):
    """A function that prunes and fine-tunes, once for each scheme and share."""
    made = {}

    def prune(scheme, sparsity):
        key = scheme, sparsity
        if key not in made:
            made[key] = prune_network(network, digits, scheme, sparsity, epochs=EPOCHS, images=2)
        return made[key]

    return prune


@pytest.fixture(params=[(scheme, s) for scheme in SCHEMES[1:] for s in (0.5, 0.9)], ids=str)
def result(request, pruned):
    return pruned(*request.param)


def test_pruned_weights_are_exactly_zero(result):
    first, *inner, last = result.layers
    assert [layer.name for layer in result.layers] == ["conv1", "conv2", "conv3", "fc1", "fc2"]
    assert first.mask.all()
    assert last.mask.all()
    for layer in inner:
        assert not layer.mask.all()
        assert np.array_equal(layer.weight != 0, layer.mask)  # none trained away, none beside the mask
    for layer in result.layers:
        assert layer.weight.dtype == np.float32
        assert not layer.b[layer.weight == 0].any()


def test_sparsity_reached(result):
    """Columns and rows of tiles are dropped whole, so tile-wise only comes near; 1:8 is next to 90 %."""
    wanted = 0.875 if (result.scheme, result.sparsity) == (N_M, 0.9) else result.sparsity
    bound = {MAGNITUDE: 1e-3, N_M: 0.0}.get(result.scheme, 0.02)
    for layer in result.layers[1:-1]:
        assert layer.zeros == pytest.approx(wanted, abs=bound)
    assert result.sparsity_reached == pytest.approx(wanted, abs=bound)
    weights = sum(layer.weight.size for layer in result.layers)
    inner = sum(layer.weight.size for layer in result.layers[1:-1])
    assert result.sparsity_overall == pytest.approx(result.sparsity_reached * inner / weights)


def test_packed_forms_are_the_weights(result):
    for layer in result.layers:
        assert (layer.compressed is not None) == (result.scheme == N_M and not layer.mask.all())
        assert (layer.packed is not None) == (result.scheme in (TILE_WISE, RESTORED) and not layer.mask.all())
        for form in (layer.compressed, layer.packed):
            if form is not None:
                assert np.array_equal(form.dense(), layer.b)
        if layer.packed is not None:
            assert (result.scheme == RESTORED) == (layer.packed.leftover_rows.size > 0)
            assert max(len(tile.columns) for tile in layer.packed.tiles) <= 8


@pytest.mark.parametrize(("sparsity", "n"), list(zip(SPARSITIES, (4, 2, 1), strict=True)))
def test_n_of_m_is_obeyed_along_the_reduction(pruned, sparsity, n):
    for layer in pruned(N_M, sparsity).layers[1:-1]:
        assert (layer.compressed.n, layer.compressed.m) == (n, 8)
        assert nm.obeys(layer.b, n, 8, "int8")
        assert nm.obeys(layer.mask.astype(np.int8), n, 8, "int8")
        assert not nm.obeys(layer.b, n, 16, "int8")


def test_blocks_run_along_channels(pruned):
    """K is (ky, kx, channel), channel fastest: eight channels of one tap are a block."""
    mask = pruned(N_M, 0.5).layers[1].mask
    assert (mask.reshape(9, 2, 8, 32).sum(axis=2) == 4).all()


def test_largest_weights_stay(network, digits):
    result = prune_network(network, digits, MAGNITUDE, 0.9, epochs=1, rate=0.0, images=1)
    for layer, trained in zip(result.layers[1:-1], network.weighted[1:-1], strict=True):
        magnitudes = np.sort(np.abs(trained.weight), axis=None)
        kept = np.count_nonzero(layer.mask)
        assert np.array_equal(np.sort(np.abs(layer.weight[layer.mask])), magnitudes[-kept:])
    assert result.tuned_accuracy == result.pruned_accuracy


def test_products_are_those_of_the_network(pruned):
    """Patterns times scales are the layer's numbers; the first product's result feeds the second layer."""
    for layer in pruned(DENSE, 0).layers:
        scale = np.abs(layer.weight).max() / 127
        np.testing.assert_allclose(layer.b * scale, layer.weight, atol=0.51 * scale)
        assert layer.a.dtype == layer.b.dtype == np.int8
        assert layer.a.shape[1] == layer.b.shape[0]
    assert [layer.a.shape for layer in pruned(DENSE, 0).layers] == [
        (128, 9),
        (128, 144),
        (32, 288),
        (2, 512),
        (2, 64),
    ]
    assert 0.2 < zeros(pruned(DENSE, 0).layers[1].a) < 0.9  # ReLU's


def test_floats(network, digits):
    for scheme in (N_M, TILE_WISE):
        result = prune_network(network, digits, scheme, 0.5, epochs=1, images=1, format="bfloat16")
        for layer in result.layers[1:-1]:
            form = layer.compressed or layer.packed
            assert layer.b.dtype == np.uint16
            assert np.array_equal(layer.b != 0, layer.mask)
            assert np.array_equal(form.dense(), layer.b)


def test_accuracy(pruned):
    dense = pruned(DENSE, 0)
    assert dense.sparsity_reached == dense.sparsity_overall == 0
    assert dense.pruned_accuracy == dense.dense_accuracy > 0.96
    for scheme in SCHEMES[1:]:
        assert pruned(scheme, 0.5).dense_accuracy == dense.dense_accuracy
        assert pruned(scheme, 0.5).tuned_accuracy > dense.dense_accuracy - 0.02
        assert 0.1 < pruned(scheme, 0.9).pruned_accuracy < pruned(scheme, 0.9).tuned_accuracy - 0.05


def test_same_seed_same_result(network, digits, pruned):
    before = [layer.weight.copy() for layer in network.weighted]
    first = pruned(TILE_WISE, 0.5)
    again, other = (
        prune_network(network, digits, TILE_WISE, 0.5, epochs=EPOCHS, images=2, seed=seed) for seed in (0, 1)
    )
    assert again.tuned_accuracy == first.tuned_accuracy
    for one, two in zip(first.layers, again.layers, strict=True):
        assert np.array_equal(one.weight, two.weight)
        assert np.array_equal(one.b, two.b)
    assert not np.array_equal(other.layers[1].weight, first.layers[1].weight)
    assert np.array_equal(other.layers[1].mask, first.layers[1].mask)  # the seed is the fine-tuning's
    for layer, weight in zip(network.weighted, before, strict=True):
        assert np.array_equal(layer.weight, weight)


@pytest.mark.parametrize(
    ("scheme", "sparsity", "options", "error", "message"),
    [
        ("random", 0.5, {}, ValueError, r"scheme must be one of 'dense', .*, not 'random'"),
        (None, 0.5, {}, TypeError, r"scheme must be one of 'dense', .*, not None"),
        (MAGNITUDE, 1, {}, ValueError, "sparsity must be a number from 0 to below 1, not 1"),
        (N_M, -0.1, {}, ValueError, "sparsity must be a number from 0 to below 1, not -0.1"),
        (N_M, float("nan"), {}, ValueError, "sparsity must be a number from 0 to below 1, not nan"),
        (N_M, "half", {}, TypeError, "sparsity must be a number from 0 to below 1, not 'half'"),
        (DENSE, 0.5, {}, ValueError, "sparsity must be 0 in the scheme 'dense', not 0.5"),
        (N_M, 0.5, {"images": 360}, ValueError, "images must be an integer from 1 to 359, not 360"),
        (N_M, 0.5, {"format": "int4"}, ValueError, r"format must be one of 'int8', .*, not 'int4'"),
        (N_M, 0.5, {"epochs": 0}, ValueError, "epochs must be a positive integer, not 0"),
    ],
)
def test_refusals(network, digits, scheme, sparsity, options, error, message):
    with pytest.raises(error, match=message + "$"):
        prune_network(network, digits, scheme, sparsity, **options)


def test_a_network_needs_layers_between_the_first_and_the_last(network, digits):
    with pytest.raises(ValueError, match=r"network must have at least 3 weighted layers, not 2$"):
        prune_network(Network(network.weighted[:2]), digits, N_M, 0.5)

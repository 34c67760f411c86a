"""Pruning of a trained network, fine-tuning with the mask held, and what hardware then has to multiply.

The first and the last weighted layer stay dense, as is common practice. In the digits network conv1 has a K
of 9: a single step of 16 lanes, whatever is zero in it, and as blocks of eight one and a rest of one. The
columns of fc2 are the classes, of which tile-wise pruning would drop some. Together they are 2 % of the
weights and of the multiplications.

Every other layer loses the same share, in every scheme. One threshold for all layers, as in the tile-wise
paper, takes nearly all of fc1, which holds 70 % of these weights but 7 % of the multiplications, and least of
conv2, where the time goes: at 90 % little of the accuracy is left, and less of the speed-up.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from skiptile.golden import nm, tilewise
from skiptile.golden.checks import check_choice, check_integer
from skiptile.golden.formats import FORMATS
from skiptile.golden.lowering import lower
from skiptile.golden.quantise import tensor_formats
from skiptile.golden.tilewise_packed import PackedLayer
from skiptile.golden.training import Network, Weighted, softmax_cross_entropy
from skiptile.golden.workloads import SMOOTHING, Digits, LayerTensors, train_on_digits, zeros

__all__ = ["SCHEMES", "SPARSITIES", "PrunedLayer", "PrunedNetwork", "prune_network"]

DENSE, MAGNITUDE, N_M, TILE_WISE, RESTORED = SCHEMES = (
    "dense",
    "magnitude",
    "n:m",
    "tile-wise",
    "tile-wise, elements restored",
)
SPARSITIES = (0.5, 0.75, 0.9)
BLOCK = 8  # m of n:m
GROUP = 8  # columns of a tile: the paper's 128 are more than any layer here has; 8 fill an 8x8 array
RESTORE = 0.01  # as in the paper


@dataclass(frozen=True, eq=False)
class PrunedLayer:
    """A layer of a pruned network, its weights lowered to (K, N), and its forward product on a few images.

    Attributes:
        name: of the layer.
        mask: (K, N), bool: which weights stay; all in the first and the last layer.
        weight: (K, N), the fine-tuned weights; exactly zero where they are pruned.
        a, b: (M, K) activations and (K, N) weights, raw bit patterns with a scale each. ``b`` is zero where
            ``weight`` is, and where a weight is too small for the format.
        compressed: ``b`` in n:m; None in other schemes and in layers that stay dense.
        packed: ``b`` as tiles and leftovers; None in schemes that are not tile-wise and in layers that stay
            dense.
    """

    name: str
    mask: np.ndarray
    weight: np.ndarray
    a: np.ndarray
    b: np.ndarray
    compressed: nm.Compressed | None = None
    packed: PackedLayer | None = None

    @property
    def zeros(self) -> float:
        """Share of the weights that are zero, 0 .. 1, before they are rounded to a format."""
        return zeros(self.weight)


@dataclass(frozen=True, eq=False)
class PrunedNetwork:
    """A network after pruning and fine-tuning.

    Attributes:
        scheme: one of `SCHEMES`.
        sparsity: the share of weights that was to be pruned.
        format: of every ``a`` and ``b``.
        dense_accuracy, pruned_accuracy, tuned_accuracy: on the test images, 0 .. 1: before pruning, after it,
            after fine-tuning.
        layers: all weighted layers in order, the first and the last of them dense.
    """

    scheme: str
    sparsity: float
    format: str
    dense_accuracy: float
    pruned_accuracy: float
    tuned_accuracy: float
    layers: tuple[PrunedLayer, ...]

    @property
    def sparsity_reached(self) -> float:
        """Share of zeros in the weights of the layers that are pruned."""
        return _share_of_zeros(self.layers[1:-1])

    @property
    def sparsity_overall(self) -> float:
        """Share of zeros in the weights of all layers."""
        return _share_of_zeros(self.layers)


def prune_network(
    network: Network,
    digits: Digits,
    scheme: str,
    sparsity: float,
    *,
    epochs: int = 5,
    rate: float = 0.05,
    images: int = 8,
    format: str = "int8",
    seed: int = 0,
) -> PrunedNetwork:
    """Prune a trained network's layers but the first and the last, and fine-tune what is left.

    ========================  =========================================================================
    scheme                    what stays of a layer's weight (K, N), lowered as its forward pass is
    ========================  =========================================================================
    dense                     everything (sparsity 0); trained on for as long as the others
    magnitude                 the largest weights
    n:m                       the n largest of every 8 along K, n being 8 * (1 - sparsity), rounded, or 1:
                              4:8, 2:8 and, for 90 %, 1:8, which is 87.5 %
    tile-wise                 `golden.tilewise.prune`, tiles of 8 columns, by w * dL/dw, L being the loss
                              over all training images
    tile-wise, elements       the same, with 1 % of single elements given back
    restored
    ========================  =========================================================================

    Args:
        network: trained; it stays as it is.
        sparsity: share of each pruned layer's weights to prune, from 0 to below 1.
        epochs, rate, seed: of the fine-tuning, whose rate falls linearly to 0.
        images: the first of the test images, whose forward products are given.
        format: name of a format of ``golden.formats``, of activations and weights.

    Raises:
        TypeError, ValueError: an unknown scheme or format, a number out of range, a network of fewer than
            three weighted layers.
    """
    check_choice("scheme", scheme, SCHEMES)
    _check_sparsity(scheme, sparsity)
    check_integer("images", images, 1, len(digits.test_images))
    check_choice("format", format, FORMATS)
    if len(network.weighted) < 3:
        raise ValueError(f"network must have at least 3 weighted layers, not {len(network.weighted)}")
    with threadpool_limits(1, user_api="blas"):  # the same sums, however many cores there are
        network = copy.deepcopy(network)
        dense_accuracy = network.accuracy(digits.test_images, digits.test_labels)
        cuts = _cuts(network, digits, scheme, sparsity)
        for cut in cuts:
            cut.apply()
        pruned_accuracy = network.accuracy(digits.test_images, digits.test_labels)
        _fine_tune(network, digits, cuts, epochs, rate, seed)
        tuned_accuracy = network.accuracy(digits.test_images, digits.test_labels)
        network.forward(digits.test_images[:images])
    layers = tuple(_pruned_layer(cut, format) for cut in cuts)
    return PrunedNetwork(scheme, sparsity, format, dense_accuracy, pruned_accuracy, tuned_accuracy, layers)


# ---- what stays ----


@dataclass(frozen=True, eq=False)
class _Cut:
    """What stays of a layer: ``mask`` is (K, N), ``places`` the index of each entry in the flat weight."""

    layer: Weighted
    places: np.ndarray
    mask: np.ndarray
    n: int | None = None  # of n:m
    packed: PackedLayer | None = None

    @property
    def kept(self) -> np.ndarray:
        """The mask in the shape of the layer's weight."""
        kept = np.empty(self.layer.weight.size, bool)
        kept[self.places] = self.mask
        return kept.reshape(self.layer.weight.shape)

    def apply(self) -> None:
        self.layer.weight = np.where(self.kept, self.layer.weight, 0)


def _cuts(network: Network, digits: Digits, scheme: str, sparsity: float) -> list[_Cut]:
    """One for each weighted layer."""
    if scheme in (TILE_WISE, RESTORED):  # which need gradients
        logits = network.forward(digits.training_images)
        network.backward(softmax_cross_entropy(logits, digits.training_labels, smoothing=SMOOTHING)[1])
    first, *inner, last = network.weighted
    return [
        _cut(first, DENSE, sparsity),
        *(_cut(layer, scheme, sparsity) for layer in inner),
        _cut(last, DENSE, sparsity),
    ]


def _cut(layer: Weighted, scheme: str, sparsity: float) -> _Cut:
    places = _places(layer)
    weight = layer.weight.ravel()[places]
    if scheme == DENSE:
        return _Cut(layer, places, np.ones(weight.shape, bool))
    if scheme == MAGNITUDE:
        return _Cut(layer, places, _largest(weight, sparsity))
    if scheme == N_M:
        n = max(1, round(BLOCK * (1 - sparsity)))
        return _Cut(layer, places, nm.prune(weight, n, BLOCK), n=n)
    scores = weight * layer.weight_gradient.ravel()[places]
    restore = RESTORE if scheme == RESTORED else 0.0
    pruned = tilewise.prune({layer.name: weight}, {layer.name: scores}, sparsity, GROUP, restore)
    return _Cut(layer, places, pruned.masks[layer.name], packed=pruned.packed[layer.name])


def _places(layer: Weighted) -> np.ndarray:
    """(K, N): where in the flat weight each entry of the lowered one stands."""
    numbers = np.arange(layer.weight.size).reshape(layer.weight.shape)
    lowered = lower("forward", activation=layer.activation[:1], weight=numbers, convolution=layer.convolution)
    return lowered.products[0][1]


def _largest(weight: np.ndarray, sparsity: float) -> np.ndarray:
    """Mask without the share of least magnitude; of equal ones the first stay."""
    order = np.argsort(-np.abs(weight), axis=None, kind="stable")
    mask = np.ones(weight.size, bool)
    mask[order[weight.size - round(sparsity * weight.size) :]] = False
    return mask.reshape(weight.shape)


def _fine_tune(
    network: Network, digits: Digits, cuts: list[_Cut], epochs: int, rate: float, seed: int
) -> None:
    """Train on; without a gradient, a pruned weight has neither momentum nor update."""
    held = [(cut.layer, cut.kept) for cut in cuts]

    def hold(step: int, steps: int, loss: float) -> None:
        for layer, kept in held:
            layer.weight_gradient = np.where(kept, layer.weight_gradient, 0)

    train_on_digits(network, digits, epochs=epochs, rate=rate, seed=seed, observe=hold)


# ---- what hardware multiplies ----


def _pruned_layer(cut: _Cut, format: str) -> PrunedLayer:
    """Of the activations that the last forward pass left in the layer."""
    layer = cut.layer
    tensors = LayerTensors(
        "", layer.name, activation=layer.activation, weight=layer.weight, convolution=layer.convolution
    )
    a, b = tensors.quantised(tensor_formats(format)).tensors.lowered("forward").products[0]
    compressed = None if cut.n is None else nm.compress(b, cut.n, BLOCK, format)
    packed = None if cut.packed is None else _repacked(cut.packed, b)
    return PrunedLayer(layer.name, cut.mask, layer.weight.ravel()[cut.places], a, b, compressed, packed)


def _repacked(packed: PackedLayer, b: np.ndarray) -> PackedLayer:
    """The same tiles and leftovers with ``b``'s values."""
    leftovers = np.zeros(packed.shape, bool)
    leftovers[packed.leftover_rows, packed.leftover_columns] = True
    blocks = [(tile.rows, tile.columns) for tile in packed.tiles]
    return PackedLayer.gather(b, blocks, leftovers, packed.group)


def _share_of_zeros(layers: Iterable[PrunedLayer]) -> float:
    return zeros(np.concatenate([layer.weight.ravel() for layer in layers]))


def _check_sparsity(scheme: str, sparsity: object) -> None:
    if isinstance(sparsity, bool) or not isinstance(sparsity, int | float):
        raise TypeError(f"sparsity must be a number from 0 to below 1, not {sparsity!r}")
    if not 0 <= sparsity < 1:
        raise ValueError(f"sparsity must be a number from 0 to below 1, not {sparsity!r}")
    if scheme == DENSE and sparsity:
        raise ValueError(f"sparsity must be 0 in the scheme {DENSE!r}, not {sparsity!r}")

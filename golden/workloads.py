"""Workloads: the tensors of training steps, layer by layer, as lists of matrix products.

A workload comes from ``WORKLOADS`` (trained here, on real data) or from a user's own arrays
(``tensors_workload``). Its numbers are real; ``LayerTensors.quantised`` gives them a number format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skiptile.golden.lowering import NEEDS, PASSES, Convolution, Lowered, check, lower
from skiptile.golden.quantise import check_finite, quantise
from skiptile.golden.training import Network, small_cnn, train

__all__ = [
    "WORKLOADS",
    "Digits",
    "LayerTensors",
    "Workload",
    "digits_cnn",
    "split_digits",
    "tensors_workload",
    "train_on_digits",
    "zeros",
]

Progress = Callable[[int, int, str], None]
"""Called with work done, work in all, and a word on what is being done."""

EPOCHS, SMOOTHING = 10, 0.1  # of the digits network's training
PRODUCT = ("a", "b")
TENSORS = ("activation", "weight", "gradient")


def zeros(array: Any) -> float:
    """Fraction of zeros (0.0 and -0.0; NaN is none) in an array of numbers; 0.0 if it is empty."""
    array = np.asarray(array)
    return 1 - np.count_nonzero(array) / array.size if array.size else 0.0


@dataclass(frozen=True, eq=False)
class LayerTensors:
    """What the three training passes of one layer, in one training step, multiply.

    Parameters:
        step: When in training: ``start``, ``middle`` or ``end``; empty for a user's own tensors.
        layer: Name of the layer.
        activation, weight, gradient: array or None; the layer's input, its weight, and the gradient of the
            loss by its output (before an activation function); shapes as in
            ``skiptile.golden.lowering.lower``. A missing one leaves out its passes.
        convolution: None: fully connected.
        first: The network's first layer: nobody needs its input gradient, so that pass is left out.

    Raises:
        ValueError: If no pass can be made of the tensors, or they do not fit each other.
    """

    step: str
    layer: str
    activation: np.ndarray | None = None
    weight: np.ndarray | None = None
    gradient: np.ndarray | None = None
    convolution: Convolution | None = None
    first: bool = False

    def __post_init__(self):
        if not self.pass_names:
            raise ValueError(f"layer {self.layer!r} must have at least two of {', '.join(TENSORS)}")
        for name in self.pass_names:
            check(name, **self._operands())

    @property
    def pass_names(self) -> tuple[str, ...]:
        """The passes that are made, in the order of ``skiptile.golden.lowering.PASSES``."""
        present = {name for name in TENSORS if getattr(self, name) is not None}
        return tuple(
            name
            for name in PASSES
            if present.issuperset(NEEDS[name]) and not (self.first and name == "input-gradient")
        )

    def lowered(self, name: str) -> Lowered:
        """The matrix products of the pass ``name``, one of ``pass_names``."""
        return lower(name, **self._operands())

    def quantised(self, formats: Mapping[str, str]) -> "QuantisedTensors":
        """The same layer in number formats, one for each tensor, each with a scale of its own."""
        tensors, scales = {}, {}
        for name in TENSORS:
            tensor = getattr(self, name)
            if tensor is not None:
                what = f"{name} of layer {self.layer!r}"
                tensors[name], scales[name] = quantise(tensor, formats[name], name=what)
        return QuantisedTensors(replace(self, **tensors), formats, scales)

    def _operands(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*TENSORS, "convolution")}


@dataclass(frozen=True, eq=False)
class QuantisedTensors:
    """A layer's tensors as raw bit patterns.

    Attributes:
        tensors: the patterns.
        formats: name of each tensor's format.
        scales: of each tensor: the real number is the scale times what the pattern stands for.
    """

    tensors: LayerTensors
    formats: Mapping[str, str]
    scales: Mapping[str, float]

    def operand_formats(self, name: str) -> tuple[str, str]:
        """Formats of ``a`` and ``b`` in the pass ``name``."""
        first, second = NEEDS[name]
        return self.formats[first], self.formats[second]

    def scale(self, name: str) -> float:
        """Of the products of the pass ``name``."""
        first, second = NEEDS[name]
        return self.scales[first] * self.scales[second]


@dataclass(frozen=True, eq=False)
class Workload:
    """A named list of layers, and what there is to know about where they come from (``facts``, for JSON)."""

    name: str
    layers: tuple[LayerTensors, ...]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Digits:
    """Real handwritten digits, to train on and to test with.

    Attributes:
        training_images, test_images: (images, 1, 8, 8), float32, 0 .. 1.
        training_labels, test_labels: (images,), integers 0 .. 9.
    """

    training_images: np.ndarray
    training_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def split_digits(seed: int = 0) -> Digits:
    """Scikit-learn's 1,797 images of 8x8 pixels: four fifths to train on, by ``seed``, the rest to test.

    Raises:
        ImportError: If scikit-learn is not installed; the message says how to.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the workload digits-cnn needs scikit-learn's digits: pip install scikit-learn"
        ) from error
    pixels, labels = load_digits(return_X_y=True)  # (1797, 64), 0 .. 16
    images = np.asarray(pixels / 16, np.float32).reshape(-1, 1, 8, 8)
    labels = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(images))
    test, training = np.split(order, [len(order) // 5])
    return Digits(images[training], labels[training], images[test], labels[test])


def train_on_digits(
    network: Network,
    digits: Digits,
    *,
    epochs: int = EPOCHS,
    batch: int = 32,
    rate: float = 0.05,
    seed: int = 0,
    observe: Callable[[int, int, float], None] | None = None,
) -> float:
    """Train as `digits_cnn` does; arguments, loss and errors are those of ``skiptile.golden.training.train``.

    Labels are smoothed by 0.1: else the network soon knows its images by heart, and the gradients of the few
    that it does not know leave int8 nothing but zeros for all others.
    """
    from threadpoolctl import threadpool_limits

    # on matrices this small a second thread gains little, and costs much on a busy machine
    with threadpool_limits(1, user_api="blas"):
        return train(
            network,
            digits.training_images,
            digits.training_labels,
            epochs=epochs,
            batch=batch,
            rate=rate,
            smoothing=SMOOTHING,
            seed=seed,
            observe=observe,
        )


def digits_cnn(seed: int = 0, batch: int = 32, progress: Progress | None = None) -> Workload:
    """Steps of a small CNN's training on real handwritten digits, in float32.

    Trains ``small_cnn`` (16 and 32 channels, pooling, 32 channels, 64 and 10 outputs) for 10 epochs with
    ``train_on_digits`` and tests it on the images that ``split_digits`` keeps back. Takes the tensors of
    three steps: ``start`` is the fifth of all, ``middle`` is half-way, ``end`` is the last. At batch 32 a
    step is 46 million multiplications in its three passes (conv1 has no input gradient).

    Facts: ``test_accuracy`` (0 .. 1), ``final_loss``, ``training_images``, ``test_images``, ``epochs``,
    ``steps``, ``batch``, ``seed``, and ``captured_steps``, the number of each captured step.

    Raises:
        ImportError: If scikit-learn is not installed; the message says how to.
        ValueError: If batch is less than 1 or more than the training images.
    """
    digits = split_digits(seed)
    network = small_cnn(seed=seed)
    layers = []
    captured = {}

    def observe(step: int, steps: int, loss: float) -> None:
        wanted = {min(4, steps - 1): "start", steps // 2: "middle", steps - 1: "end"}
        if step in wanted:
            captured[wanted[step]] = step
            layers.extend(
                LayerTensors(
                    step=wanted[step],
                    layer=layer.name,
                    activation=layer.activation,
                    weight=layer.weight,
                    gradient=layer.gradient,
                    convolution=layer.convolution,
                    first=layer.first,
                )
                for layer in network.weighted
            )
        if progress is not None:
            progress(step + 1, steps, f"training, loss {loss:.3f}")

    final_loss = train_on_digits(network, digits, batch=batch, seed=seed, observe=observe)
    facts = {
        "test_accuracy": network.accuracy(digits.test_images, digits.test_labels),
        "final_loss": final_loss,
        "training_images": len(digits.training_images),
        "test_images": len(digits.test_images),
        "epochs": EPOCHS,
        "steps": EPOCHS * (len(digits.training_images) // batch),
        "batch": batch,
        "seed": seed,
        "captured_steps": captured,
    }
    return Workload("digits-cnn", tuple(layers), facts)


WORKLOADS: dict[str, Callable[..., Workload]] = {"digits-cnn": digits_cnn}
"""Each takes ``seed``, ``batch`` and ``progress``, all with defaults."""


def tensors_workload(
    arrays: Mapping[str, np.ndarray],
    convolutions: Mapping[str, Convolution] | None = None,
    *,
    name: str = "tensors",
) -> Workload:
    """A workload from a user's own arrays, named ``<layer>.<what>``.

    Args:
        arrays: mapping of str to array; per layer either ``.a`` (M, K) and ``.b`` (K, N), whose product is
            the one pass, ``forward``; or two or three of ``.activation``, ``.weight`` and ``.gradient``, with
            4 dimensions for a convolution and 2 for a fully connected layer, which give the passes that can
            be made of them. float16, float32 or float64 (to be quantised), or int8. Layers keep the order in
            which they first appear.
        convolutions: mapping of str to Convolution; by layer; one for every layer of four dimensions
            (``--conv`` on the command line).

    Raises:
        TypeError: A dtype that is not supported.
        ValueError: A name without a layer, an unknown suffix, a missing partner, dimensions or shapes that do
            not fit, a convolution missing or too many, NaN or infinities, no arrays. Messages name the array
            or layer.
    """
    convolutions = {} if convolutions is None else convolutions
    groups: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        layer, dot, suffix = key.rpartition(".")
        if not dot or not layer:
            raise ValueError(f"array must be named <layer>.<what>, such as conv1.weight, not {key!r}")
        if suffix not in PRODUCT + TENSORS:
            raise ValueError(f"array {key!r} must end in .{', .'.join(PRODUCT + TENSORS)}, not .{suffix}")
        groups.setdefault(layer, {})[suffix] = _checked(key, np.asarray(array))
    if not groups:
        raise ValueError("arrays must hold at least one layer, not none")
    for layer in convolutions:
        if layer not in groups:
            raise ValueError(
                f"--conv names the layer {layer!r}, but the arrays have only {', '.join(groups)}"
            )
    layers = tuple(_own_layer(layer, tensors, convolutions.get(layer)) for layer, tensors in groups.items())
    return Workload(name, layers)


def _checked(key: str, array: np.ndarray) -> np.ndarray:
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype not in (np.int8, np.float16, np.float32, np.float64):
        raise TypeError(f"array {key!r} must hold float16, float32, float64 or int8, not {array.dtype}")
    if array.dtype != np.int8:
        check_finite(array, name=f"array {key!r}")
    suffix = key.rpartition(".")[2]
    if suffix in PRODUCT and array.ndim != 2:
        raise ValueError(f"array {key!r} must have 2 dimensions, not shape {array.shape}")
    if suffix in TENSORS and array.ndim not in (2, 4):
        raise ValueError(
            f"array {key!r} must have 2 dimensions, or 4 for a convolution, not shape {array.shape}"
        )
    return array


def _own_layer(layer: str, tensors: dict[str, np.ndarray], convolution: Convolution | None) -> LayerTensors:
    suffixes = ", ".join(f".{suffix}" for suffix in tensors)
    if not tensors.keys().isdisjoint(PRODUCT):
        if tensors.keys() != set(PRODUCT):
            raise ValueError(f"layer {layer!r} must have both .a and .b and nothing else, not {suffixes}")
        if convolution is not None:
            raise ValueError(f"--conv names the layer {layer!r}, whose .a and .b are no convolution")
        a, b = tensors["a"], tensors["b"]
        if a.shape[1] != b.shape[0]:
            raise ValueError(
                f"layer {layer!r} must have as many columns in .a as rows in .b, not {a.shape} and {b.shape}"
            )
        # c = a @ b is what a fully connected layer computes, whose weight is (outputs, inputs)
        return LayerTensors("", layer, activation=a, weight=b.T)
    if len(tensors) < 2:
        raise ValueError(
            f"layer {layer!r} must have at least two of .{', .'.join(TENSORS)}, not only {suffixes}"
        )
    dimensions = {tensor.ndim for tensor in tensors.values()}
    if len(dimensions) > 1:
        shapes = ", ".join(f".{suffix} {tensor.shape}" for suffix, tensor in tensors.items())
        raise ValueError(f"layer {layer!r} must have arrays of equal dimensions, 2 or 4, not {shapes}")
    if dimensions == {4} and convolution is None:
        raise ValueError(
            f"layer {layer!r} has 4 dimensions and needs a stride and padding: --conv {layer}=stride,padding"
        )
    if dimensions == {2} and convolution is not None:
        raise ValueError(f"--conv names the layer {layer!r}, whose 2 dimensions are no convolution")
    try:
        return LayerTensors(
            "",
            layer,
            activation=tensors.get("activation"),
            weight=tensors.get("weight"),
            gradient=tensors.get("gradient"),
            convolution=convolution,
        )
    except ValueError as error:
        raise ValueError(f"layer {layer!r}: {error}") from error

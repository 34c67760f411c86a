"""Training of small convolutional networks with NumPy: the golden training code.

A layer's three passes run as the matrix products that ``skiptile.golden.lowering`` makes, so what trains here
is what a tile computes. ``matmul`` is the seam for other arithmetic: it gets every product's a (M, K) and
b (K, N) and returns c (M, N). Float32 unless told otherwise; the same seed gives the same network on the same
machine (a BLAS library may add in another order elsewhere).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from skiptile.golden.lowering import Convolution, lower

__all__ = ["Flatten", "Layer", "MaxPool", "Network", "Relu", "Sgd", "Weighted", "small_cnn",
           "softmax_cross_entropy", "train"]  # fmt: skip

Matmul = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Layer(Protocol):
    """What a ``Network`` is made of."""

    def forward(self, activation: np.ndarray) -> np.ndarray:
        """The layer's output; keeps what ``backward`` needs."""
        ...

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        """The gradient by the layer's input, from the one by its output."""
        ...


class Weighted:
    """A convolution or, with ``convolution=None``, a fully connected layer, each with a bias.

    Parameters:
        name: of the layer.
        shape: of the weight: (outputs, channels / groups, Kh, Kw) or (outputs, inputs).
        convolution: None: fully connected.
        rng: draws the weight, normal with variance 2 / fan-in (He et al., 2015); the bias starts at zero.
        first: Nothing before this layer learns, so ``backward`` leaves the input gradient out and returns
            zeros.
        dtype: of everything, float32 or float64.
        matmul: computes every product ``a @ b`` of the layer.

    Attributes:
        weight, bias: what is learned.
        activation, gradient: Input of the last ``forward``, and the output gradient given to the last
            ``backward``.
        weight_gradient, bias_gradient: Result of the last ``backward``.
    """

    activation: np.ndarray
    gradient: np.ndarray
    weight_gradient: np.ndarray
    bias_gradient: np.ndarray

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        *,
        rng: np.random.Generator,
        convolution: Convolution | None = None,
        first: bool = False,
        dtype: type = np.float32,
        matmul: Matmul = np.matmul,
    ):
        self.name = name
        self.convolution = convolution
        self.first = first
        self.matmul = matmul
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        self.weight = (deviation * rng.standard_normal(shape)).astype(dtype)
        self.bias = np.zeros(shape[0], dtype)

    def forward(self, activation: np.ndarray) -> np.ndarray:
        self.activation = activation
        bias = self.bias if self.convolution is None else self.bias[:, None, None]
        return self._run("forward") + bias

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        self.gradient = gradient
        self.weight_gradient = self._run("weight-gradient")
        self.bias_gradient = gradient.sum(axis=0 if self.convolution is None else (0, 2, 3))
        return np.zeros_like(self.activation) if self.first else self._run("input-gradient")

    def _run(self, pass_name: str) -> np.ndarray:
        lowered = lower(
            pass_name,
            activation=self.activation,
            weight=self.weight,
            gradient=None if pass_name == "forward" else self.gradient,
            convolution=self.convolution,
        )
        result = lowered.restore([self.matmul(a, b) for a, b in lowered.products])
        return result.astype(self.weight.dtype, copy=False)


class Relu:
    """max(x, 0); its gradient is 0 wherever x is not positive."""

    def forward(self, activation: np.ndarray) -> np.ndarray:
        self.positive = activation > 0
        return np.where(self.positive, activation, 0)

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        return np.where(self.positive, gradient, 0)


class MaxPool:
    """The largest of each 2x2 window; the first of equal ones takes the whole gradient.

    ValueError if the height or width is odd.
    """

    def forward(self, activation: np.ndarray) -> np.ndarray:
        images, channels, height, width = activation.shape
        if height % 2 or width % 2:
            raise ValueError(f"activation must have even height and width to be pooled, not {height}x{width}")
        halves = activation.reshape(images, channels, height // 2, 2, width // 2, 2)
        windows = halves.transpose(0, 1, 2, 4, 3, 5).reshape(images, channels, height // 2, width // 2, 4)
        self.largest = windows.argmax(axis=-1)[..., None]
        return np.take_along_axis(windows, self.largest, axis=-1)[..., 0]

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        images, channels, height, width = gradient.shape
        windows = np.zeros((images, channels, height, width, 4), gradient.dtype)
        np.put_along_axis(windows, self.largest, gradient[..., None], axis=-1)
        halves = windows.reshape(images, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
        return halves.reshape(images, channels, 2 * height, 2 * width)


class Flatten:
    """(images, channels, H, W) to (images, channels * H * W)."""

    def forward(self, activation: np.ndarray) -> np.ndarray:
        self.shape = activation.shape
        return activation.reshape(len(activation), -1)

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        return gradient.reshape(self.shape)


class Network:
    """Layers one after the other.

    ``weighted`` are those of them that learn. ``forward`` takes (images, channels, H, W) and returns the
    logits (images, classes).
    """

    def __init__(self, layers: Sequence[Layer]):
        self.layers = tuple(layers)
        self.weighted = tuple(layer for layer in self.layers if isinstance(layer, Weighted))

    def forward(self, images: np.ndarray) -> np.ndarray:
        for layer in self.layers:
            images = layer.forward(images)
        return images

    def backward(self, gradient: np.ndarray) -> None:
        """Leave each weighted layer's gradients in it, from the one by the logits."""
        for layer in reversed(self.layers):
            gradient = layer.backward(gradient)

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Fraction of the images whose largest logit is their label's."""
        return float(np.mean(self.forward(images).argmax(axis=1) == labels))


def softmax_cross_entropy(
    logits: np.ndarray, labels: np.ndarray, *, smoothing: float = 0.0
) -> tuple[float, np.ndarray]:
    """Mean loss of logits (images, classes) for integer labels (images,), and its gradient by the logits.

    ``smoothing`` (0 .. 1) is the share of each target that is spread over all classes (Szegedy et al., 2016).
    """
    images, classes = logits.shape
    target = np.full_like(logits, smoothing / classes)
    target[np.arange(images), labels] += 1 - smoothing
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -float(np.sum(target * log_softmax)) / images, (np.exp(log_softmax) - target) / images


class Sgd:
    """Stochastic gradient descent with momentum: v = momentum * v - rate * gradient, parameter += v."""

    def __init__(self, layers: Sequence[Weighted], *, momentum: float = 0.0):
        self.layers = tuple(layers)
        self.momentum = momentum
        self.velocity = [(np.zeros_like(layer.weight), np.zeros_like(layer.bias)) for layer in self.layers]

    def update(self, rate: float) -> None:
        """Move every weight and bias once, by the gradients that the last backward pass left.

        The old arrays are replaced, not written: those kept from an earlier step stay as they were.
        """
        velocity = []
        for layer, (weight, bias) in zip(self.layers, self.velocity, strict=True):
            weight = self.momentum * weight - rate * layer.weight_gradient
            bias = self.momentum * bias - rate * layer.bias_gradient
            layer.weight = layer.weight + weight
            layer.bias = layer.bias + bias
            velocity.append((weight, bias))
        self.velocity = velocity


def train(
    network: Network,
    images: np.ndarray,
    labels: np.ndarray,
    *,
    epochs: int,
    batch: int,
    rate: float = 0.05,
    momentum: float = 0.9,
    smoothing: float = 0.0,
    seed: int = 0,
    observe: Callable[[int, int, float], None] | None = None,
) -> float:
    """Train with momentum and a rate that falls linearly to 0; return the loss of the last step.

    Each epoch takes the images in a new random order; those that do not fill a last batch wait for another
    epoch. ``observe(step, steps, loss)`` is called in every step (0 .. steps-1) between the backward pass and
    the update: each weighted layer then holds activation, weight and gradient of that step.

    Raises:
        ValueError: If batch is not 1 .. number of images, or epochs is not positive.
    """
    if not 1 <= batch <= len(images):
        raise ValueError(f"batch must be 1 to {len(images)}, the number of images, not {batch!r}")
    if epochs < 1:
        raise ValueError(f"epochs must be a positive integer, not {epochs!r}")
    rng = np.random.default_rng(seed)
    optimiser = Sgd(network.weighted, momentum=momentum)
    per_epoch = len(images) // batch
    steps = epochs * per_epoch
    order = np.arange(0)
    loss = 0.0
    for step in range(steps):
        place = step % per_epoch
        if place == 0:
            order = rng.permutation(len(images))
        chosen = order[place * batch : (place + 1) * batch]
        logits = network.forward(images[chosen])
        loss, gradient = softmax_cross_entropy(logits, labels[chosen], smoothing=smoothing)
        network.backward(gradient)
        if observe is not None:
            observe(step, steps, loss)
        optimiser.update(rate * (1 - step / steps))
    return loss


def small_cnn(
    *,
    size: int = 8,
    channels: tuple[int, int, int] = (16, 32, 32),
    hidden: int = 64,
    classes: int = 10,
    seed: int = 0,
    dtype: type = np.float32,
    matmul: Matmul = np.matmul,
) -> Network:
    """conv1-conv2-pool-conv3-fc1-fc2 for images (images, 1, size, size).

    3x3 kernels with padding 1, a ReLU after every weighted layer but the last. The defaults are the demo's
    network for 8x8 digits: 47,530 parameters, 484,992 multiplications per image and pass. ValueError if
    ``size`` is odd.
    """
    if size < 2 or size % 2:
        raise ValueError(f"size must be a positive even number, not {size!r}")
    rng = np.random.default_rng(seed)
    same = Convolution(padding=1)
    first, second, third = channels
    kinds = {"rng": rng, "dtype": dtype, "matmul": matmul}
    return Network(
        [
            Weighted("conv1", (first, 1, 3, 3), convolution=same, first=True, **kinds),
            Relu(),
            Weighted("conv2", (second, first, 3, 3), convolution=same, **kinds),
            Relu(),
            MaxPool(),
            Weighted("conv3", (third, second, 3, 3), convolution=same, **kinds),
            Relu(),
            Flatten(),
            Weighted("fc1", (hidden, third * (size // 2) ** 2), **kinds),
            Relu(),
            Weighted("fc2", (classes, hidden), **kinds),
        ]
    )

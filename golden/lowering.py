"""Lowering: the three training passes of a layer as matrix products ``c = a @ b``, and their results back.

========================  ==============================  ============================  ===================
pass                      a (M, K)                        b (K, N)                      restored
========================  ==============================  ============================  ===================
``forward``               activation, unrolled            weight                        output
``input-gradient``        output gradient, unrolled       weight, rotated by 180°       input gradient
``weight-gradient``       output gradient                 activation, unrolled          weight gradient
========================  ==============================  ============================  ===================

Lowering moves data and computes nothing: any dtype goes in (numbers or raw bit patterns) and comes out
unchanged; padding is the all-zero bit pattern. The reduction K is flattened, (ky, kx, channel) with the
channel fastest, so a short channel count leaves no lane of a tile idle; the weight gradient's K is
(image, y, x), batch and positions together. Source: the three convolutions of training as in TensorDash
(MICRO 2020); unrolling ("im2col") after Chellapilla et al. (2006).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["NEEDS", "PASSES", "Convolution", "Lowered", "check", "lower"]

PASSES = ("forward", "input-gradient", "weight-gradient")

NEEDS = {
    "forward": ("activation", "weight"),
    "input-gradient": ("gradient", "weight"),
    "weight-gradient": ("gradient", "activation"),
}
"""The two tensors that each pass multiplies: what becomes ``a``, and what becomes ``b``."""

_GROUPED = {"activation": (1, "channels"), "weight": (0, "outputs"), "gradient": (1, "outputs")}
"""The axis of each tensor that groups cut, and what it counts."""

Size = int | Sequence[int]


@dataclass(frozen=True, init=False)
class Convolution:
    """How a two-dimensional convolution walks over its input.

    Parameters:
        stride, padding, dilation: int or pair of int; for height and width; one number stands for both.
            Padding is that of each edge, with zeros.
        groups: Channels and outputs are cut into this many groups, each convolved alone; as many groups as
            channels is a depthwise convolution.

    Raises:
        TypeError, ValueError: If a parameter is not an integer (or pair), is negative, or is 0 where it is
            not padding.
    """

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    def __init__(self, *, stride: Size = 1, padding: Size = 0, dilation: Size = 1, groups: int = 1):
        for name, value in (
            ("stride", _pair("stride", stride, 1)),
            ("padding", _pair("padding", padding, 0)),
            ("dilation", _pair("dilation", dilation, 1)),
            ("groups", _integer("groups", groups, 1)),
        ):
            object.__setattr__(self, name, value)

    def extent(self, kernel: Size) -> tuple[int, int]:
        """(height, width) that a kernel of (height, width) taps covers once dilated."""
        kernel = _pair("kernel", kernel, 1)
        return (self.dilation[0] * (kernel[0] - 1) + 1, self.dilation[1] * (kernel[1] - 1) + 1)

    def output_size(self, height: int, width: int, kernel: Size) -> tuple[int, int]:
        """(height, width) of the output for an input of ``height`` x ``width``.

        The ``kernel`` (height, width) may be larger than the input, but not than the padded input: the output
        would be empty (ValueError).
        """
        padded = (height + 2 * self.padding[0], width + 2 * self.padding[1])
        extent = self.extent(kernel)
        if extent[0] > padded[0] or extent[1] > padded[1]:
            raise ValueError(
                f"kernel must fit the padded input, but it covers {extent[0]}x{extent[1]} of "
                f"{padded[0]}x{padded[1]} (input {height}x{width}, padding {self.padding})"
            )
        return (
            (padded[0] - extent[0]) // self.stride[0] + 1,
            (padded[1] - extent[1]) // self.stride[1] + 1,
        )


@dataclass(frozen=True)
class Lowered:
    """One pass as matrix products, one per group (a single one for fully connected layers).

    Attributes:
        products: tuple of (a, b); a is (M, K), b is (K, N), for ``c = a @ b``. They may be views of the
            tensors: do not write to them.
        restore: Maps the results, one (M, N) array per product in the same order and of any one dtype, to the
            pass's tensor: output (images, outputs, Ho, Wo), input gradient (images, channels, H, W) or weight
            gradient (outputs, channels / groups, Kh, Kw); without a convolution (images, outputs), (images,
            inputs) or (outputs, inputs). ValueError if number or shape of the results differ.
    """

    products: tuple[tuple[np.ndarray, np.ndarray], ...]
    restore: Callable[[Sequence[np.ndarray]], np.ndarray]


def lower(
    pass_name: str,
    *,
    activation: Any = None,
    weight: Any = None,
    gradient: Any = None,
    convolution: Convolution | None = None,
    input_size: Size | None = None,
    kernel: Size | None = None,
) -> Lowered:
    """Lower one pass of a layer to matrix products.

    Only the two tensors of ``NEEDS[pass_name]`` are required; others that are given are checked against them,
    and give the sizes that two tensors leave open when the stride is not 1.

    Args:
        pass_name: One of ``PASSES``.
        activation: The layer's input: (images, channels, H, W), or (images, inputs) without a convolution.
        weight: (outputs, channels / groups, Kh, Kw), or (outputs, inputs).
        gradient: Of the loss by the layer's output: (images, outputs, Ho, Wo), or (images, outputs).
        convolution: None: the layer is fully connected.
        input_size, kernel: int or pair of int; (H, W) and (Kh, Kw), where activation or weight are not given.
            Needed only by ``input-gradient`` and ``weight-gradient`` with a stride that is not 1, which can
            leave input rows unused.

    Raises:
        ValueError: An unknown pass, a missing tensor, tensors that do not fit each other, an empty output.
    """
    tensors = _arrays(activation=activation, weight=weight, gradient=gradient)
    if convolution is None:
        _check_connected(pass_name, tensors, input_size, kernel)
        return _lower_connected(pass_name, tensors)
    geometry = _geometry(pass_name, tensors, convolution, input_size, kernel)
    return _lower_convolution(pass_name, tensors, convolution, geometry)


def check(
    pass_name: str,
    *,
    activation: Any = None,
    weight: Any = None,
    gradient: Any = None,
    convolution: Convolution | None = None,
    input_size: Size | None = None,
    kernel: Size | None = None,
) -> None:
    """Raise what ``lower`` would raise for the same arguments, without moving data."""
    tensors = _arrays(activation=activation, weight=weight, gradient=gradient)
    if convolution is None:
        _check_connected(pass_name, tensors, input_size, kernel)
    else:
        _geometry(pass_name, tensors, convolution, input_size, kernel)


# Arguments


def _integer(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value!r}")
    return int(value)


def _pair(name: str, value: object, least: int) -> tuple[int, int]:
    if isinstance(value, Integral):
        value = (value, value)
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"{name} must be an integer or a pair of integers, not {value!r}")
    return (_integer(name, value[0], least), _integer(name, value[1], least))


def _arrays(**tensors: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(tensor) for name, tensor in tensors.items() if tensor is not None}


def _check_needs(pass_name: str, tensors: dict[str, np.ndarray], dimensions: int, kind: str) -> None:
    if pass_name not in PASSES:
        raise ValueError(f"pass must be one of {', '.join(PASSES)}, not {pass_name!r}")
    for name in NEEDS[pass_name]:
        if name not in tensors:
            raise ValueError(f"{pass_name} needs {' and '.join(NEEDS[pass_name])}, but {name} is missing")
    for name, tensor in tensors.items():
        if tensor.ndim != dimensions:
            raise ValueError(
                f"{name} of a {kind} layer must have {dimensions} dimensions, not shape {tensor.shape}"
            )


def _agree(tensors: dict[str, np.ndarray], what: str, first: str, axis: int, second: str, other: int) -> None:
    """Check that two tensors, if both are given, have equal sizes (``what``) on ``axis`` and ``other``."""
    if first in tensors and second in tensors:
        shapes = tensors[first].shape, tensors[second].shape
        if shapes[0][axis] != shapes[1][other]:
            raise ValueError(
                f"{first} and {second} must agree on {what}, but their shapes are {shapes[0]} and {shapes[1]}"
            )


def _check_connected(
    pass_name: str, tensors: dict[str, np.ndarray], input_size: Size | None, kernel: Size | None
) -> None:
    for name, value in (("input_size", input_size), ("kernel", kernel)):
        if value is not None:
            raise ValueError(f"{name} must be left out of a fully connected layer, not {value!r}")
    _check_needs(pass_name, tensors, 2, "fully connected")
    _agree(tensors, "inputs", "activation", 1, "weight", 1)
    _agree(tensors, "outputs", "weight", 0, "gradient", 1)
    _agree(tensors, "images", "activation", 0, "gradient", 0)


@dataclass(frozen=True)
class _Geometry:
    """Spatial (height, width) of a convolution, complete and consistent."""

    input: tuple[int, int]
    kernel: tuple[int, int]
    output: tuple[int, int]


def _geometry(
    pass_name: str,
    tensors: dict[str, np.ndarray],
    convolution: Convolution,
    input_size: Size | None,
    kernel: Size | None,
) -> _Geometry:
    _check_needs(pass_name, tensors, 4, "convolution")
    groups = convolution.groups
    for name, tensor in tensors.items():
        axis, what = _GROUPED[name]
        if tensor.shape[axis] % groups:
            raise ValueError(
                f"{name} must have a multiple of {groups} {what} (groups), not shape {tensor.shape}"
            )
    if "activation" in tensors and "weight" in tensors:
        shapes = tensors["activation"].shape, tensors["weight"].shape
        if shapes[0][1] != shapes[1][1] * groups:
            raise ValueError(
                f"activation must have the weight's channels times the {groups} groups, "
                f"but their shapes are {shapes[0]} and {shapes[1]}"
            )
    _agree(tensors, "outputs", "weight", 0, "gradient", 1)
    _agree(tensors, "images", "activation", 0, "gradient", 0)

    size = _spatial("input_size", input_size, 1, tensors.get("activation"))
    taps = _spatial("kernel", kernel, 1, tensors.get("weight"))
    if taps is None:
        _check_unit_stride(pass_name, convolution, "weight or kernel")
        taps = _solve_kernel(convolution, tensors["activation"].shape, tensors["gradient"].shape)
    if size is None:
        _check_unit_stride(pass_name, convolution, "activation or input_size")
        size = _solve_input(convolution, taps, tensors["gradient"].shape)
    result = _Geometry(size, taps, convolution.output_size(*size, taps))
    if "gradient" in tensors and tensors["gradient"].shape[2:] != result.output:
        raise ValueError(
            f"gradient must have the output's size {result.output[0]}x{result.output[1]} "
            f"(input {size[0]}x{size[1]}, kernel {taps[0]}x{taps[1]}, {convolution}), "
            f"but its shape is {tensors['gradient'].shape}"
        )
    return result


def _spatial(name: str, given: Size | None, least: int, tensor: np.ndarray | None) -> tuple[int, int] | None:
    """(height, width) from an argument or a tensor's last two axes, which must agree; None without either."""
    if tensor is None:
        return None if given is None else _pair(name, given, least)
    size = _pair(name, tensor.shape[2:], least)
    if given is not None and _pair(name, given, least) != size:
        raise ValueError(f"{name} must be {size}, as in the tensor of shape {tensor.shape}, not {given!r}")
    return size


def _check_unit_stride(pass_name: str, convolution: Convolution, needed: str) -> None:
    if convolution.stride != (1, 1):
        raise ValueError(
            f"{pass_name} with stride {convolution.stride} needs {needed}: the gradient alone does not tell"
        )


def _solve_kernel(
    convolution: Convolution, activation: tuple[int, ...], gradient: tuple[int, ...]
) -> tuple[int, int]:
    """Kernel of a convolution of stride 1 between these two shapes."""
    spare = [activation[2 + i] + 2 * convolution.padding[i] - gradient[2 + i] for i in (0, 1)]
    if min(spare) < 0:
        raise ValueError(f"gradient {gradient} is too large for activation {activation} and {convolution}")
    return (spare[0] // convolution.dilation[0] + 1, spare[1] // convolution.dilation[1] + 1)


def _solve_input(
    convolution: Convolution, kernel: tuple[int, int], gradient: tuple[int, ...]
) -> tuple[int, int]:
    """Input size of a convolution of stride 1 with this kernel and shape of the gradient."""
    extent, padding = convolution.extent(kernel), convolution.padding
    height, width = (gradient[2 + i] + extent[i] - 1 - 2 * padding[i] for i in (0, 1))
    if min(height, width) < 1:
        raise ValueError(f"gradient {gradient} is too small for kernel {kernel} and {convolution}")
    return (height, width)


# Data movement


def _spread(
    tensor: np.ndarray, size: tuple[int, int], offset: tuple[int, int], step: tuple[int, int]
) -> np.ndarray:
    """Zeros of (images, *size, channels) with pixel (y, x) of an NCHW tensor put at offset + step * (y, x).

    What falls outside is dropped: an input gradient with more padding than kernel never looks there.
    """
    spread = np.zeros((tensor.shape[0], *size, tensor.shape[1]), tensor.dtype)
    source, target = [], []
    for i in (0, 1):
        first = max(0, -(offset[i] // step[i]))
        count = max(0, min(tensor.shape[2 + i], -((offset[i] - size[i]) // step[i])) - first)
        start = offset[i] + first * step[i]
        source.append(slice(first, first + count))
        target.append(slice(start, start + count * step[i], step[i]))
    spread[:, target[0], target[1], :] = tensor[:, :, source[0], source[1]].transpose(0, 2, 3, 1)
    return spread


def _unroll(
    tensor: np.ndarray, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> np.ndarray:
    """im2col: an NHWC tensor as (images * Ho * Wo, Kh * Kw * channels)."""
    extent = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
    windows = sliding_window_view(tensor, extent, axis=(1, 2))
    windows = windows[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    images, height, width, channels = windows.shape[:4]
    windows = windows.transpose(0, 1, 2, 4, 5, 3)
    return windows.reshape(images * height * width, math.prod(kernel) * channels)


def _taken(
    results: Sequence[np.ndarray], products: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[np.ndarray]:
    """The results of the products as arrays, after checking their number and shapes."""
    arrays = [np.asarray(result) for result in results]
    if len(arrays) != len(products):
        raise ValueError(f"results must be {len(products)} arrays, one per product, not {len(arrays)}")
    for index, (array, (a, b)) in enumerate(zip(arrays, products, strict=True)):
        if array.shape != (a.shape[0], b.shape[1]):
            raise ValueError(
                f"result {index} must have shape {(a.shape[0], b.shape[1])} for a product of "
                f"{a.shape} and {b.shape}, not {array.shape}"
            )
    return arrays


def _lower_connected(pass_name: str, tensors: dict[str, np.ndarray]) -> Lowered:
    if pass_name == "forward":
        product = (tensors["activation"], tensors["weight"].T)
    elif pass_name == "input-gradient":
        product = (tensors["gradient"], tensors["weight"])
    else:
        product = (tensors["gradient"].T, tensors["activation"])
    return Lowered((product,), lambda results: _taken(results, (product,))[0])


def _lower_convolution(
    pass_name: str, tensors: dict[str, np.ndarray], convolution: Convolution, geometry: _Geometry
) -> Lowered:
    pieces = zip(
        *(np.split(tensors[name], convolution.groups, _GROUPED[name][0]) for name in NEEDS[pass_name]),
        strict=True,
    )
    first, second = (tensors[name].shape for name in NEEDS[pass_name])
    if pass_name == "forward":
        products = [
            (_unroll_input(x, convolution, geometry), _matrix(w.transpose(2, 3, 1, 0))) for x, w in pieces
        ]
        axis, shape = 1, (first[0], *geometry.output, second[0])
    elif pass_name == "input-gradient":
        products = [
            (_unroll_gradient(g, convolution, geometry), _matrix(w[:, :, ::-1, ::-1].transpose(2, 3, 0, 1)))
            for g, w in pieces
        ]
        axis, shape = 1, (first[0], *geometry.input, second[1] * convolution.groups)
    else:
        products = [
            (_matrix(g.transpose(0, 2, 3, 1)).T, _unroll_input(x, convolution, geometry)) for g, x in pieces
        ]
        axis, shape = 0, (first[1], *geometry.kernel, second[1] // convolution.groups)

    def restore(results: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(_taken(results, products), axis).reshape(shape).transpose(0, 3, 1, 2)

    return Lowered(tuple(products), restore)


def _matrix(tensor: np.ndarray) -> np.ndarray:
    """All axes but the last made one."""
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def _unroll_input(tensor: np.ndarray, convolution: Convolution, geometry: _Geometry) -> np.ndarray:
    padding = convolution.padding
    size = (geometry.input[0] + 2 * padding[0], geometry.input[1] + 2 * padding[1])
    padded = _spread(tensor, size, padding, (1, 1))
    return _unroll(padded, geometry.kernel, convolution.stride, convolution.dilation)


def _unroll_gradient(tensor: np.ndarray, convolution: Convolution, geometry: _Geometry) -> np.ndarray:
    """The output gradient, unrolled for a row per input position.

    Position y of the input meets output oy at tap ky where y + padding = stride * oy + dilation * ky: with
    the gradient spread by the stride, a convolution of stride 1 with the rotated kernel.
    """
    extent, padding = convolution.extent(geometry.kernel), convolution.padding
    size = (geometry.input[0] + extent[0] - 1, geometry.input[1] + extent[1] - 1)
    offset = (extent[0] - 1 - padding[0], extent[1] - 1 - padding[1])
    spread = _spread(tensor, size, offset, convolution.stride)
    return _unroll(spread, geometry.kernel, (1, 1), convolution.dilation)

"""Lowering against direct loops, exact on integers, over awkward shapes."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from skiptile.golden.lowering import NEEDS, PASSES, Convolution, check, lower

# (images, channels, H, W), (outputs, Kh, Kw), convolution
CASES = {
    "same 3x3": ((2, 3, 5, 6), (4, 3, 3), Convolution(padding=1)),
    "valid 3x3": ((2, 2, 5, 4), (3, 3, 3), Convolution()),
    "1x1": ((2, 5, 3, 4), (2, 1, 1), Convolution()),
    "1x1 padded": ((1, 2, 3, 2), (3, 1, 1), Convolution(padding=(2, 1))),
    "1x1 stride 2": ((2, 3, 5, 4), (2, 1, 1), Convolution(stride=2)),
    "stride 2 leaves a row": ((1, 2, 6, 6), (3, 3, 3), Convolution(stride=2)),
    "stride 2 padded": ((2, 2, 7, 6), (3, 3, 3), Convolution(stride=2, padding=1)),
    "stride 3x1": ((1, 3, 9, 4), (2, 2, 3), Convolution(stride=(3, 1), padding=(0, 2))),
    "stride over kernel": ((2, 2, 8, 7), (2, 2, 1), Convolution(stride=3)),
    "stride over kernel padded": ((1, 1, 7, 8), (2, 1, 2), Convolution(stride=(3, 3), padding=(3, 2))),
    "padding over kernel": ((1, 2, 4, 3), (2, 2, 2), Convolution(stride=2, padding=3)),
    "dilated": ((2, 2, 7, 8), (3, 3, 2), Convolution(dilation=(2, 3))),
    "dilated stride 2": ((1, 2, 9, 8), (2, 3, 3), Convolution(stride=2, padding=(3, 2), dilation=(2, 3))),
    "two groups": ((2, 4, 5, 5), (6, 3, 3), Convolution(padding=1, groups=2)),
    "depthwise": ((2, 3, 5, 4), (3, 3, 3), Convolution(padding=1, groups=3)),
    "depthwise doubled": ((1, 3, 5, 6), (6, 3, 2), Convolution(stride=2, padding=(1, 0), groups=3)),
    "all at once": (
        (2, 4, 8, 9), (4, 3, 2), Convolution(stride=(2, 3), padding=(1, 3), dilation=(2, 1), groups=2)
    ),
    "kernel over input": ((2, 2, 2, 3), (3, 5, 4), Convolution(padding=(2, 1))),
    "kernel over input stride 2": ((1, 1, 1, 2), (2, 4, 5), Convolution(stride=2, padding=(3, 3))),
    "kernel is input": ((2, 2, 4, 3), (3, 4, 3), Convolution()),
    "one of all": ((1, 1, 1, 1), (1, 1, 1), Convolution()),
    "one row": ((2, 3, 1, 9), (2, 1, 4), Convolution(stride=(1, 2), padding=(0, 1))),
    "one column": ((2, 3, 9, 1), (2, 4, 1), Convolution(dilation=(2, 1))),
    "no images": ((0, 2, 4, 4), (3, 3, 3), Convolution(padding=1)),
    "no channels": ((2, 0, 4, 4), (3, 3, 3), Convolution(padding=1)),
}  # fmt: skip


def integers(rng, shape, dtype=np.int64):
    return rng.integers(-9, 10, shape).astype(dtype)


def tensors_of(shape, kernel, convolution, rng, dtype=np.int64):
    """Random integer activation, weight and output gradient of one case."""
    outputs, *taps = kernel
    size = convolution.output_size(shape[2], shape[3], taps)
    return {
        "activation": integers(rng, shape, dtype),
        "weight": integers(rng, (outputs, shape[1] // convolution.groups, *taps), dtype),
        "gradient": integers(rng, (shape[0], outputs, *size), dtype),
    }


def direct(tensors, convolution):
    """Output, input gradient and weight gradient by the definition of a convolution, product by product."""
    x, w, g = (tensors[name] for name in ("activation", "weight", "gradient"))
    results = np.zeros_like(g), np.zeros_like(x), np.zeros_like(w)
    per_group = w.shape[0] // convolution.groups
    for n, o, oy, ox in np.ndindex(g.shape):
        for c, ky, kx in np.ndindex(w.shape[1:]):
            y = oy * convolution.stride[0] + ky * convolution.dilation[0] - convolution.padding[0]
            z = ox * convolution.stride[1] + kx * convolution.dilation[1] - convolution.padding[1]
            channel = o // per_group * w.shape[1] + c
            if 0 <= y < x.shape[2] and 0 <= z < x.shape[3]:
                results[0][n, o, oy, ox] += x[n, channel, y, z] * w[o, c, ky, kx]
                results[1][n, channel, y, z] += g[n, o, oy, ox] * w[o, c, ky, kx]
                results[2][o, c, ky, kx] += g[n, o, oy, ox] * x[n, channel, y, z]
    return dict(zip(PASSES, results, strict=True))


def computed(pass_name, tensors, convolution=None, **sizes):
    lowered = lower(pass_name, **tensors, convolution=convolution, **sizes)
    return lowered.restore([a @ b for a, b in lowered.products])


@pytest.mark.parametrize("case", CASES)
def test_all_passes_equal_direct_loops(case):
    shape, kernel, convolution = CASES[case]
    tensors = tensors_of(shape, kernel, convolution, np.random.default_rng(len(case)))
    expected = direct(tensors, convolution)
    for name in PASSES:
        np.testing.assert_array_equal(computed(name, tensors, convolution), expected[name], err_msg=name)
        needed = {key: tensors[key] for key in NEEDS[name]}
        sizes = {"input-gradient": {"input_size": shape[2:]}, "weight-gradient": {"kernel": kernel[1:]}}
        result = computed(name, needed, convolution, **sizes.get(name, {}))
        np.testing.assert_array_equal(result, expected[name], err_msg=name)


def test_random_shapes():
    rng = np.random.default_rng(2020)
    tried = 0
    while tried < 150:
        groups = int(rng.integers(1, 4))
        stride, padding, dilation = ([int(v) for v in rng.integers(low, 4, 2)] for low in (1, 0, 1))
        convolution = Convolution(stride=stride, padding=padding, dilation=dilation, groups=groups)
        shape = (int(rng.integers(1, 3)), groups * int(rng.integers(1, 3)), *map(int, rng.integers(1, 8, 2)))
        kernel = (groups * int(rng.integers(1, 3)), *map(int, rng.integers(1, 4, 2)))
        try:
            convolution.output_size(shape[2], shape[3], kernel[1:])
        except ValueError:
            continue
        tried += 1
        tensors = tensors_of(shape, kernel, convolution, rng)
        expected = direct(tensors, convolution)
        for name in PASSES:
            result = computed(name, tensors, convolution)
            np.testing.assert_array_equal(
                result, expected[name], err_msg=f"{name} {shape} {kernel} {convolution}"
            )


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_adjoint(case):
    """<conv(x), g> = <x, dX(g)> = <w, dW(g)>, exactly."""
    shape, kernel, convolution = CASES[case]
    tensors = tensors_of(shape, kernel, convolution, np.random.default_rng(7))
    forward, inner, change = (computed(name, tensors, convolution) for name in PASSES)
    product = np.sum(forward * tensors["gradient"])
    assert np.sum(inner * tensors["activation"]) == product
    assert np.sum(change * tensors["weight"]) == product


@pytest.mark.parametrize("case", ["same 3x3", "all at once", "kernel over input"])
def test_gradients_equal_finite_differences(case):
    shape, kernel, convolution = CASES[case]
    rng = np.random.default_rng(3)
    tensors = {
        name: rng.standard_normal(tensor.shape)
        for name, tensor in tensors_of(shape, kernel, convolution, rng).items()
    }

    def loss():  # quadratic in the output, so that the gradient by it depends on the activation and weight
        return 0.5 * np.sum(computed("forward", {k: tensors[k] for k in NEEDS["forward"]}, convolution) ** 2)

    tensors["gradient"] = np.ascontiguousarray(computed("forward", tensors, convolution))
    for name, pass_name in (("activation", "input-gradient"), ("weight", "weight-gradient")):
        gradient = computed(pass_name, tensors, convolution)
        tensor = tensors[name]
        for index in rng.permutation(list(np.ndindex(tensor.shape)))[:30]:
            place, step = tuple(index), 1e-5
            value = tensor[place]
            tensor[place] = value + step
            above = loss()
            tensor[place] = value - step
            below = loss()
            tensor[place] = value
            assert gradient[place] == pytest.approx((above - below) / (2 * step), rel=1e-6, abs=1e-7)


def test_fully_connected():
    rng = np.random.default_rng(0)
    x, w, g = integers(rng, (5, 7)), integers(rng, (3, 7)), integers(rng, (5, 3))
    tensors = {"activation": x, "weight": w, "gradient": g}
    np.testing.assert_array_equal(computed("forward", tensors), np.einsum("ni,oi->no", x, w))
    np.testing.assert_array_equal(computed("input-gradient", tensors), np.einsum("no,oi->ni", g, w))
    np.testing.assert_array_equal(computed("weight-gradient", tensors), np.einsum("no,ni->oi", g, x))


def test_order_of_the_reduction():
    """K is (ky, kx, channel), channel fastest; in the weight gradient (image, y, x); nothing is padded."""
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    w = np.arange(2 * 3 * 2 * 3).reshape(2, 3, 2, 3)
    g = np.arange(2 * 2 * 3 * 3).reshape(2, 2, 3, 3)
    convolution = Convolution()
    ((a, b),) = lower("forward", activation=x, weight=w, convolution=convolution).products
    assert a.shape == (2 * 3 * 3, 2 * 3 * 3)
    np.testing.assert_array_equal(a[1], x[0, :, 0:2, 1:4].transpose(1, 2, 0).ravel())
    np.testing.assert_array_equal(b[:, 1], w[1].transpose(1, 2, 0).ravel())
    ((a, b),) = lower("input-gradient", weight=w, gradient=g, convolution=convolution).products
    assert a.shape == (2 * 4 * 5, 2 * 3 * 2)
    at_one_one = np.zeros((2, 3, 2), int)  # the window's first column lies left of the gradient
    at_one_one[:, 1:] = g[0, :, 0:2, 0:2].transpose(1, 2, 0)
    np.testing.assert_array_equal(a[6], at_one_one.ravel())
    np.testing.assert_array_equal(b[:2, 0], w[:, 0, 1, 2])
    ((a, b),) = lower("weight-gradient", activation=x, gradient=g, convolution=convolution).products
    assert a.shape == (2, 2 * 3 * 3)
    np.testing.assert_array_equal(a[1], g[:, 1].ravel())
    np.testing.assert_array_equal(b[10], x[1, :, 0:2, 1:4].transpose(1, 2, 0).ravel())


def test_one_product_per_group():
    tensors = tensors_of((2, 6, 4, 4), (9, 3, 3), Convolution(groups=3), np.random.default_rng(0))
    shapes = {
        name: [
            (a.shape, b.shape) for a, b in lower(name, **tensors, convolution=Convolution(groups=3)).products
        ]
        for name in PASSES
    }
    assert shapes["forward"] == [((8, 18), (18, 3))] * 3
    assert shapes["input-gradient"] == [((32, 27), (27, 2))] * 3
    assert shapes["weight-gradient"] == [((3, 8), (8, 18))] * 3


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.uint16, np.uint32, object])
def test_dtype_is_kept(dtype):
    shape, kernel, convolution = CASES["all at once"]
    tensors = tensors_of(shape, kernel, convolution, np.random.default_rng(0))
    typed = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    for name in PASSES:
        pairs = zip(
            lower(name, **typed, convolution=convolution).products,
            lower(name, **tensors, convolution=convolution).products,
            strict=True,
        )
        for (a, b), (c, d) in pairs:
            assert a.dtype == b.dtype == dtype
            np.testing.assert_array_equal(a, c.astype(dtype))
            np.testing.assert_array_equal(b, d.astype(dtype))


def test_results_of_another_dtype_come_back_as_they_are():
    tensors = tensors_of((1, 2, 3, 3), (2, 3, 3), Convolution(padding=1), np.random.default_rng(0), np.int8)
    lowered = lower("forward", **tensors, convolution=Convolution(padding=1))
    wide = lowered.restore([a.astype(object) @ b.astype(object) * 2**80 for a, b in lowered.products])
    assert wide.dtype == object
    assert wide.shape == (1, 2, 3, 3)
    assert all(value % 2**80 == 0 for value in wide.ravel())


def test_sizes_follow_from_two_tensors_at_stride_1():
    for case in ("same 3x3", "dilated", "two groups", "kernel over input", "1x1 padded"):
        shape, kernel, convolution = CASES[case]
        tensors = tensors_of(shape, kernel, convolution, np.random.default_rng(1))
        expected = direct(tensors, convolution)
        for name in PASSES:
            needed = {key: tensors[key] for key in NEEDS[name]}
            np.testing.assert_array_equal(computed(name, needed, convolution), expected[name])


@pytest.mark.parametrize("pass_name", PASSES)
def test_restore_refuses_wrong_results(pass_name):
    tensors = tensors_of((2, 4, 5, 5), (4, 3, 3), Convolution(groups=2), np.random.default_rng(0))
    lowered = lower(pass_name, **tensors, convolution=Convolution(groups=2))
    results = [a @ b for a, b in lowered.products]
    with pytest.raises(ValueError, match="results must be 2 arrays, one per product, not 1"):
        lowered.restore(results[:1])
    with pytest.raises(ValueError, match=r"result 1 must have shape \(\d+, \d+\) for a product of"):
        lowered.restore([results[0], results[1].T])


def test_convolution_makes_pairs():
    convolution = Convolution(stride=2, padding=[0, 3], dilation=(1, np.int64(2)), groups=4)
    assert convolution == Convolution(stride=(2, 2), padding=(0, 3), dilation=(1, 2), groups=4)
    assert Convolution() == Convolution(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)
    assert replace(convolution, groups=1).padding == (0, 3)
    assert hash(convolution) == hash(replace(convolution))
    with pytest.raises(FrozenInstanceError):
        convolution.groups = 2
    assert convolution.output_size(9, 8, (3, 3)) == (4, 5)
    assert Convolution(padding=2).output_size(1, 1, 5) == (1, 1)


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (ValueError, "stride must be at least 1, not 0", {"stride": 0}),
        (ValueError, "padding must be at least 0, not -1", {"padding": (0, -1)}),
        (ValueError, "dilation must be at least 1, not 0", {"dilation": (0, 1)}),
        (ValueError, "groups must be at least 1, not 0", {"groups": 0}),
        (TypeError, "groups must be an integer, not 1.5", {"groups": 1.5}),
        (TypeError, "stride must be an integer or a pair of integers, not 1.0", {"stride": 1.0}),
        (
            TypeError,
            r"padding must be an integer or a pair of integers, not \(1, 1, 1, 1\)",
            {"padding": (1, 1, 1, 1)},
        ),
        (TypeError, "stride must be an integer or a pair of integers, not '12'", {"stride": "12"}),
        (TypeError, "dilation must be an integer, not True", {"dilation": True}),
    ],
)
def test_convolution_refuses(error, match, arguments):
    with pytest.raises(error, match=match):
        Convolution(**arguments)


def test_empty_output_is_refused():
    with pytest.raises(
        ValueError, match=r"kernel must fit the padded input, but it covers 5x3 of 4x8 \(input 2x8"
    ):
        Convolution(padding=(1, 0), dilation=(2, 1)).output_size(2, 8, (3, 3))
    with pytest.raises(ValueError, match="kernel must be at least 1, not 0"):
        Convolution().output_size(2, 8, (0, 3))


X, W, G = np.zeros((2, 4, 6, 6)), np.zeros((8, 4, 3, 3)), np.zeros((2, 8, 4, 4))
SMALL = {"x": np.zeros((5, 7)), "w": np.zeros((3, 7)), "g": np.zeros((5, 3))}


@pytest.mark.parametrize(
    ("match", "pass_name", "arguments"),
    [
        ("pass must be one of forward, input-gradient, weight-gradient, not 'backward'", "backward",
         {"activation": X, "weight": W, "convolution": Convolution()}),
        ("forward needs activation and weight, but weight is missing", "forward",
         {"activation": X, "gradient": G, "convolution": Convolution()}),
        ("weight-gradient needs gradient and activation, but gradient is missing", "weight-gradient",
         {"activation": SMALL["x"], "weight": SMALL["w"]}),
        (r"activation of a convolution layer must have 4 dimensions, not shape \(5, 7\)", "forward",
         {"activation": SMALL["x"], "weight": W, "convolution": Convolution()}),
        (r"activation of a fully connected layer must have 2 dimensions, not shape \(2, 4, 6, 6\)", "forward",
         {"activation": X, "weight": SMALL["w"]}),
        (r"activation must have the weight's channels times the 1 .* \(2, 4, .* and \(8, 2, 3, 3\)",
         "forward", {"activation": X, "weight": W[:, :2], "convolution": Convolution()}),
        (r"activation must have a multiple of 3 channels \(groups\), not shape \(2, 4, 6, 6\)", "forward",
         {"activation": X, "weight": W[:6, :1], "convolution": Convolution(groups=3)}),
        (r"weight must have a multiple of 2 outputs \(groups\), not shape \(7, 2, 3, 3\)", "forward",
         {"activation": X, "weight": W[:7, :2], "convolution": Convolution(groups=2)}),
        (r"weight and gradient must agree on outputs, but their shapes are \(7, 4, 3, 3\) and \(2, 8, 4, 4\)",
         "input-gradient", {"weight": W[:7], "gradient": G, "convolution": Convolution()}),
        (r"activation and gradient must agree on images, but .* \(2, 4, 6, 6\) and \(1, 8, 4, 4\)",
         "weight-gradient", {"activation": X, "gradient": G[:1], "convolution": Convolution()}),
        (r"gradient must have the output's size 6x6 \(input 6x6, kernel 3x3, .* is \(2, 8, 4, 4\)",
         "weight-gradient",
         {"activation": X, "weight": W, "gradient": G, "convolution": Convolution(padding=1)}),
        (r"input-gradient with stride \(2, 1\) needs activation or input_size", "input-gradient",
         {"weight": W, "gradient": G, "convolution": Convolution(stride=(2, 1))}),
        (r"weight-gradient with stride \(2, 2\) needs weight or kernel", "weight-gradient",
         {"activation": X, "gradient": G, "convolution": Convolution(stride=2)}),
        (r"gradient must have the output's size 2x2", "weight-gradient",
         {"activation": X, "gradient": G, "kernel": 3, "convolution": Convolution(stride=2)}),
        (r"input_size must be \(6, 6\), as in the tensor of shape \(2, 4, 6, 6\), not 7", "input-gradient",
         {"activation": X, "weight": W, "gradient": G, "input_size": 7, "convolution": Convolution()}),
        (r"gradient must have the output's size 6x4", "weight-gradient",
         {"activation": X, "gradient": G, "convolution": Convolution(dilation=(5, 1))}),
        (r"gradient \(2, 8, 4, 4\) is too large for activation \(2, 4, 3, 6\)", "weight-gradient",
         {"activation": X[:, :, :3], "gradient": G, "convolution": Convolution()}),
        (r"gradient \(2, 8, 4, 4\) is too small for kernel \(3, 3\)", "input-gradient",
         {"weight": W, "gradient": G, "convolution": Convolution(padding=(0, 4))}),
        (r"kernel must fit the padded input, but it covers 3x3 of 2x6", "forward",
         {"activation": X[:, :, :2], "weight": W, "convolution": Convolution()}),
        ("input_size must be at least 1, not 0", "forward",
         {"activation": X[:, :, :0], "weight": W, "convolution": Convolution(padding=2)}),
        ("kernel must be at least 1, not 0", "forward",
         {"activation": X, "weight": W[:, :, :0], "convolution": Convolution()}),
        (r"activation and weight must agree on inputs, but their shapes are \(5, 7\) and \(3, 6\)", "forward",
         {"activation": SMALL["x"], "weight": SMALL["w"][:, 1:]}),
        ("kernel must be left out of a fully connected layer, not 3", "forward",
         {"activation": SMALL["x"], "weight": SMALL["w"], "kernel": 3}),
    ],
)  # fmt: skip
def test_refusals(match, pass_name, arguments):
    """``check`` raises the same as ``lower``."""
    for function in (lower, check):
        with pytest.raises(ValueError, match=match):
            function(pass_name, **arguments)

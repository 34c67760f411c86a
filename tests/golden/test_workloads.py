"""Workloads: the digits network's captured steps, and a user's own tensors."""

import sys

import numpy as np
import pytest

from skiptile.golden.lowering import PASSES, Convolution
from skiptile.golden.quantise import tensor_formats
from skiptile.golden.workloads import WORKLOADS, LayerTensors, digits_cnn, tensors_workload, zeros

LAYERS = ["conv1", "conv2", "conv3", "fc1", "fc2"]


@pytest.fixture(scope="module")
def progress():
    return []


@pytest.fixture(scope="module")
def digits(progress):
    return digits_cnn(progress=lambda *report: progress.append(report))


def test_digits_facts(digits):
    assert digits.name == "digits-cnn"
    assert WORKLOADS["digits-cnn"] is digits_cnn
    assert digits.facts["test_accuracy"] > 0.97
    assert digits.facts["training_images"] + digits.facts["test_images"] == 1797
    assert digits.facts["steps"] == 440
    assert digits.facts["captured_steps"] == {"start": 4, "middle": 220, "end": 439}


def test_digits_layers(digits):
    expected = [(step, layer) for step in ("start", "middle", "end") for layer in LAYERS]
    assert [(layer.step, layer.layer) for layer in digits.layers] == expected
    for layer in digits.layers:
        assert {layer.activation.dtype, layer.weight.dtype, layer.gradient.dtype} == {np.dtype(np.float32)}
        assert len(layer.activation) == len(layer.gradient) == 32
        assert (layer.convolution == Convolution(padding=1)) == layer.layer.startswith("conv")
        names = ("forward", "weight-gradient") if layer.layer == "conv1" else PASSES
        assert layer.pass_names == names
    products = [
        product
        for layer in digits.layers
        for name in layer.pass_names
        for product in layer.lowered(name).products
    ]
    assert sum(a.shape[0] * a.shape[1] * b.shape[1] for a, b in products) == 3 * 46_264_320


def test_digits_steps_differ(digits):
    for name in ("activation", "weight", "gradient"):
        steps = [getattr(layer, name) for layer in digits.layers if layer.layer == "conv2"]
        assert not np.array_equal(steps[0], steps[1])
        assert not np.array_equal(steps[1], steps[2])


def test_digits_are_sparse(digits):
    """Real ones: ReLU and pooling make zeros, and quantisation adds few of its own."""
    for layer in digits.layers:
        quantised = layer.quantised(tensor_formats("int8")).tensors
        for name in ("activation", "gradient"):
            if (name, layer.layer) != ("gradient", "fc2"):  # softmax leaves no zeros
                assert 0.2 < zeros(getattr(layer, name)) < 0.95
            assert zeros(getattr(layer, name)) <= zeros(getattr(quantised, name)) < 0.95
        assert zeros(layer.weight) == 0
    assert (
        min(zeros(layer.gradient) for layer in digits.layers if layer.layer == "conv2") > 0.75
    )  # under the pool


def test_digits_gradients_belong_to_the_layers(digits):
    """A layer's input gradient, through ReLU, is the gradient of the layer below it."""
    layers = {layer.layer: layer for layer in digits.layers if layer.step == "middle"}
    lowered = layers["fc2"].lowered("input-gradient")
    inner = lowered.restore([a @ b for a, b in lowered.products]) * (layers["fc2"].activation > 0)
    np.testing.assert_allclose(inner, layers["fc1"].gradient, rtol=1e-4, atol=1e-9)
    lowered = layers["conv1"].lowered("forward")
    output = lowered.restore([a @ b for a, b in lowered.products])
    sparse = layers["conv1"].gradient != 0
    assert sparse.shape == output.shape
    assert not (sparse & (layers["conv2"].activation == 0)).any()


def test_digits_progress(digits, progress):
    assert [report[0] for report in progress] == list(range(1, digits.facts["steps"] + 1))
    assert {report[1] for report in progress} == {digits.facts["steps"]}
    assert progress[-1][2].startswith("training, loss 0.5")


def test_digits_are_reproducible(digits):
    again = digits_cnn()
    assert again.facts == digits.facts
    for one, two in zip(digits.layers, again.layers, strict=True):
        assert np.array_equal(one.activation, two.activation)
        assert np.array_equal(one.weight, two.weight)
        assert np.array_equal(one.gradient, two.gradient)


@pytest.mark.exhaustive
def test_digits_follow_seed_and_batch(digits):
    other = digits_cnn(seed=1, batch=64)
    assert other.facts["test_accuracy"] > 0.95
    assert other.layers[0].activation.shape == (64, 1, 8, 8)
    assert not np.array_equal(other.layers[0].weight, digits.layers[0].weight)


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        ImportError, match=r"digits-cnn needs scikit-learn's digits: pip install scikit-learn$"
    ):
        digits_cnn()


def test_digits_refuse_a_batch():
    with pytest.raises(ValueError, match="batch must be 1 to 1438, the number of images, not 2000"):
        digits_cnn(batch=2000)


def test_zeros():
    assert zeros(np.array([0.0, -0.0, 1.0, np.nan])) == 0.5
    assert zeros(np.array([[0, 1], [0, 0]], np.int8)) == 0.75
    assert zeros(np.zeros((0, 3))) == 0.0
    assert isinstance(zeros(np.zeros(3)), float)


def test_quantised():
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (3, 5)).astype(np.int8)
    layer = LayerTensors(
        "end", "f", rng.standard_normal((4, 5)), weight, rng.standard_normal((4, 3)), first=True
    )
    quantised = layer.quantised(tensor_formats("int8")).tensors
    assert (quantised.step, quantised.layer, quantised.first) == ("end", "f", True)
    assert quantised.weight is weight
    assert {quantised.activation.dtype, quantised.gradient.dtype} == {np.dtype(np.int8)}
    assert np.abs(quantised.activation).max() == np.abs(quantised.gradient).max() == 127
    with pytest.raises(ValueError, match=r"activation of layer 'f' must be finite .* index \(0, 0\)"):
        LayerTensors("", "f", np.full((4, 5), np.nan), weight).quantised(tensor_formats("int8"))


def test_layer_refuses():
    with pytest.raises(ValueError, match="layer 'f' must have at least two of activation, weight, gradient"):
        LayerTensors("", "f", np.ones((2, 3)))
    with pytest.raises(
        ValueError, match=r"activation and weight must agree on inputs.*\(2, 3\) and \(4, 2\)"
    ):
        LayerTensors("", "f", np.ones((2, 3)), np.ones((4, 2)))


def test_own_product():
    a, b = np.arange(6, dtype=np.int8).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    (layer,) = tensors_workload({"block.0.q.a": a, "block.0.q.b": b}).layers
    assert layer.layer == "block.0.q"
    assert layer.step == ""
    (name,) = layer.pass_names
    lowered = layer.lowered(name)
    assert name == "forward"
    np.testing.assert_array_equal(lowered.products[0][0], a)
    np.testing.assert_array_equal(lowered.products[0][1], b)
    np.testing.assert_array_equal(lowered.restore([a @ b]), a @ b)


def test_own_layers():
    x, w, g = np.ones((2, 4, 5, 5)), np.ones((6, 2, 3, 3), np.float16), np.ones((2, 6, 3, 3), np.float32)
    arrays = {
        "late.weight": np.ones((3, 7), np.int8), "conv.gradient": g, "conv.weight": w,
        "conv.activation": x, "late.gradient": np.ones((2, 3)),
        "early.a": np.ones((1, 0)), "early.b": np.ones((0, 2)),
    }  # fmt: skip
    workload = tensors_workload(arrays, {"conv": Convolution(stride=2, padding=1, groups=2)}, name="mine")
    assert workload.name == "mine"
    assert [layer.layer for layer in workload.layers] == ["late", "conv", "early"]
    assert [layer.pass_names for layer in workload.layers] == [("input-gradient",), PASSES, ("forward",)]
    assert [len(workload.layers[1].lowered(name).products) for name in PASSES] == [2, 2, 2]


A, B, X4, W4 = np.ones((2, 3)), np.ones((3, 4)), np.ones((1, 2, 4, 4)), np.ones((3, 2, 3, 3))


@pytest.mark.parametrize(
    ("match", "arrays", "convolutions"),
    [
        ("arrays must hold at least one layer, not none", {}, {}),
        ("array must be named <layer>.<what>, such as conv1.weight, not 'weight'", {"weight": A}, {}),
        ("array must be named <layer>.<what>, such as conv1.weight, not '.a'", {".a": A}, {}),
        (r"array 'f.bias' must end in .a, .b, .activation, .weight, .gradient, not .bias", {"f.bias": A}, {}),
        ("layer 'f' must have both .a and .b and nothing else, not .b", {"f.b": B}, {}),
        ("layer 'f' must have both .a and .b and nothing else, not .a, .b, .weight",
         {"f.a": A, "f.b": B, "f.weight": A}, {}),
        ("layer 'f' must have at least two of .activation, .weight, .gradient, not only .weight",
         {"f.weight": A}, {}),
        (r"layer 'f' must have as many columns in .a as rows in .b, not \(2, 3\) and \(2, 3\)",
         {"f.a": A, "f.b": A}, {}),
        (r"array 'f.a' must have 2 dimensions, not shape \(1, 2, 4, 4\)", {"f.a": X4, "f.b": B}, {}),
        (r"array 'f.weight' must have 2 dimensions, or 4 for a convolution, not shape \(3,\)",
         {"f.weight": np.ones(3)}, {}),
        (r"layer 'f' must have arrays of equal dimensions, 2 or 4, not .activation \(1, .*, .weight \(2, 3\)",
         {"f.activation": X4, "f.weight": A}, {}),
        ("layer 'c' has 4 dimensions and needs a stride and padding: --conv c=stride,padding",
         {"c.activation": X4, "c.weight": W4}, {}),
        ("--conv names the layer 'd', but the arrays have only c, f",
         {"c.activation": X4, "c.weight": W4, "f.a": A, "f.b": B}, {"c": Convolution(), "d": Convolution()}),
        ("--conv names the layer 'f', whose 2 dimensions are no convolution",
         {"f.activation": A, "f.weight": A}, {"f": Convolution()}),
        ("--conv names the layer 'f', whose .a and .b are no convolution",
         {"f.a": A, "f.b": B}, {"f": Convolution()}),
        ("layer 'c': activation must have the weight's channels", {"c.activation": X4, "c.weight": W4[:, :1]},
         {"c": Convolution()}),
        ("layer 'c': kernel must fit the padded input", {"c.activation": X4[:, :, :2], "c.weight": W4},
         {"c": Convolution()}),
        ("layer 'c': weight-gradient with stride .* needs weight or kernel",
         {"c.activation": X4, "c.gradient": np.ones((1, 3, 1, 1))}, {"c": Convolution(stride=2)}),
        (r"array 'f.b' must be finite to be quantised, but 12 of its 12 values",
         {"f.a": A, "f.b": B * np.nan}, {}),
    ],
)  # fmt: skip
def test_own_tensors_refused(match, arrays, convolutions):
    with pytest.raises(ValueError, match=match):
        tensors_workload(arrays, convolutions)


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.bool_, np.complex64, object, "U3"])
def test_own_dtypes_refused(dtype):
    with pytest.raises(TypeError, match=r"array 'f.a' must hold float16, float32, float64 or int8, not"):
        tensors_workload({"f.a": np.ones((2, 3)).astype(dtype), "f.b": B})

"""The golden training code: layers against definitions, gradients against finite differences, learning."""

import numpy as np
import pytest

from skiptile.golden.lowering import Convolution
from skiptile.golden.training import (
    Flatten,
    MaxPool,
    Network,
    Relu,
    Sgd,
    Weighted,
    small_cnn,
    softmax_cross_entropy,
    train,
)


def problem(count, seed=0):
    """Images whose brighter quarter is their label, and the labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    images = rng.random((count, 1, 8, 8), np.float32) * 0.5
    for image, label in zip(images[:, 0], labels, strict=True):
        image[label // 2 * 4 :, label % 2 * 4 :][:4, :4] += 0.5
    return images, labels


def test_gradients_equal_finite_differences():
    """Every layer at once, in float64, for every weight and bias of a tiny network."""
    rng = np.random.default_rng(1)
    network = small_cnn(size=4, channels=(2, 3, 2), hidden=5, classes=3, seed=1, dtype=np.float64)
    for layer in network.weighted:  # no activation near 0, where ReLU has no derivative, in what follows
        layer.bias += 0.1 * rng.standard_normal(layer.bias.shape)
    images, labels = rng.standard_normal((3, 1, 4, 4)), np.array([0, 2, 1])

    def loss():
        return softmax_cross_entropy(network.forward(images), labels, smoothing=0.2)[0]

    network.backward(softmax_cross_entropy(network.forward(images), labels, smoothing=0.2)[1])
    for layer in network.weighted:
        for tensor, gradient in ((layer.weight, layer.weight_gradient), (layer.bias, layer.bias_gradient)):
            assert gradient.shape == tensor.shape
            assert np.abs(gradient).max() > 1e-3
            for index in np.ndindex(tensor.shape):
                value, step = tensor[index], 1e-6
                tensor[index] = value + step
                above = loss()
                tensor[index] = value - step
                below = loss()
                tensor[index] = value
                assert gradient[index] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)


def test_weighted_convolution():
    rng = np.random.default_rng(0)
    layer = Weighted("c", (3, 2, 3, 3), rng=rng, convolution=Convolution(padding=1))
    layer.bias = np.array([1, 2, 3], np.float32)
    x = np.zeros((1, 2, 4, 4), np.float32)
    x[0, 1, 2, 2] = 1
    output = layer.forward(x)
    assert output.dtype == np.float32
    np.testing.assert_array_equal(output[0, 2, 1:4, 1:4], layer.weight[2, 1, ::-1, ::-1] + np.float32(3))
    np.testing.assert_array_equal(output[0, :, 0, 0], layer.bias)
    assert layer.backward(np.ones_like(output)).shape == x.shape
    np.testing.assert_array_equal(layer.bias_gradient, [16, 16, 16])


def test_first_layer_makes_no_input_gradient():
    passes = []
    layer = Weighted("f", (3, 4), rng=np.random.default_rng(0), first=True,
                     matmul=lambda a, b: passes.append((a.shape, b.shape)) or a @ b)  # fmt: skip
    layer.forward(np.ones((2, 4), np.float32))
    assert not layer.backward(np.ones((2, 3), np.float32)).any()
    assert passes == [((2, 4), (4, 3)), ((3, 2), (2, 4))]


def test_relu():
    relu = Relu()
    np.testing.assert_array_equal(relu.forward(np.array([-1.0, 0.0, 2.0])), [0, 0, 2])
    np.testing.assert_array_equal(relu.backward(np.array([5.0, 6.0, 7.0])), [0, 0, 7])


def test_max_pool():
    pool = MaxPool()
    x = np.array([[1, 3, 5, 5], [2, 0, 5, 5], [-1, -2, 0, 9], [-3, -4, 8, 0]], np.float32)[None, None]
    np.testing.assert_array_equal(pool.forward(x)[0, 0], [[3, 5], [-1, 9]])
    back = pool.backward(np.array([[[[1, 2], [3, 4]]]], np.float32))
    np.testing.assert_array_equal(back[0, 0], [[0, 1, 2, 0], [0, 0, 0, 0], [3, 0, 0, 4], [0, 0, 0, 0]])
    assert back.dtype == np.float32
    with pytest.raises(ValueError, match="activation must have even height and width to be pooled, not 4x3"):
        pool.forward(x[..., :3])


def test_flatten():
    flatten = Flatten()
    x = np.arange(24).reshape(2, 3, 2, 2)
    assert flatten.forward(x).shape == (2, 12)
    np.testing.assert_array_equal(flatten.backward(flatten.forward(x)), x)


def test_softmax_cross_entropy():
    loss, gradient = softmax_cross_entropy(np.zeros((2, 4), np.float32), np.array([1, 3]))
    assert loss == pytest.approx(np.log(4))
    np.testing.assert_allclose(gradient * 8, [[1, -3, 1, 1], [1, 1, 1, -3]], rtol=1e-6)
    assert gradient.dtype == np.float32
    huge = np.array([[1e4, 0, -1e4]], np.float32)
    assert softmax_cross_entropy(huge, np.array([0]))[0] == 0
    assert softmax_cross_entropy(huge, np.array([2]))[0] == 2e4
    loss, gradient = softmax_cross_entropy(np.zeros((1, 4)), np.array([0]), smoothing=1.0)
    assert loss == pytest.approx(np.log(4))
    np.testing.assert_array_equal(gradient, np.zeros((1, 4)))


def test_sgd_with_momentum():
    layer = Weighted("f", (1, 1), rng=np.random.default_rng(0), dtype=np.float64)
    layer.weight, layer.bias = np.array([[1.0]]), np.array([2.0])
    layer.weight_gradient, layer.bias_gradient = np.array([[4.0]]), np.array([-2.0])
    kept = layer.weight
    optimiser = Sgd([layer], momentum=0.5)
    optimiser.update(0.25)
    assert (layer.weight.item(), layer.bias.item()) == (0.0, 2.5)
    optimiser.update(0.25)
    assert (layer.weight.item(), layer.bias.item()) == (-1.5, 3.25)
    assert kept.item() == 1.0


def test_network_learns_and_is_sparse():
    images, labels = problem(400)
    network = small_cnn(channels=(4, 8, 8), hidden=16, classes=4)
    seen = []

    def observe(step, steps, loss):
        zeros = [np.mean(layer.gradient == 0) for layer in network.weighted[:-1]]
        zeros += [np.mean(layer.activation == 0) for layer in network.weighted[1:]]
        seen.append((step, steps, loss, min(zeros)))

    final = train(network, images, labels, epochs=4, batch=30, observe=observe)
    assert [entry[:2] for entry in seen] == [(step, 52) for step in range(52)]  # 10 images wait in each epoch
    assert seen[0][2] > 1
    assert seen[-1][2] == final < 0.1
    assert min(entry[3] for entry in seen) > 0.2
    assert network.accuracy(*problem(200, seed=9)) > 0.95


def test_same_seed_same_network():
    images, labels = problem(60)

    def weights(seed, matmul=np.matmul):
        network = small_cnn(channels=(2, 3, 2), hidden=5, classes=4, seed=seed, matmul=matmul)
        train(network, images, labels, epochs=2, batch=16, seed=seed)
        return [tensor for layer in network.weighted for tensor in (layer.weight, layer.bias)]

    def coarse(a, b):
        return (a @ b).astype(np.float16).astype(np.float64)

    first, again, other, rounded = weights(0), weights(0), weights(1), weights(0, coarse)
    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert not any(np.array_equal(x, y) for x, y in zip(first, other, strict=True))
    assert not any(np.array_equal(x, y) for x, y in zip(first, rounded, strict=True))
    assert {tensor.dtype for tensor in first + rounded} == {np.dtype(np.float32)}


def test_digits_network_size():
    network = small_cnn()
    assert [layer.name for layer in network.weighted] == ["conv1", "conv2", "conv3", "fc1", "fc2"]
    assert sum(layer.weight.size + layer.bias.size for layer in network.weighted) == 47530
    work = []
    for layer in network.weighted:
        layer.matmul = lambda a, b: work.append(a.shape[0] * a.shape[1] * b.shape[1]) or a @ b
    assert network.forward(np.zeros((1, 1, 8, 8), np.float32)).shape == (1, 10)
    assert sum(work) == 484992


def test_refusals():
    images, labels = problem(10)
    network = Network([Flatten(), Weighted("f", (4, 64), rng=np.random.default_rng(0))])
    with pytest.raises(ValueError, match="batch must be 1 to 10, the number of images, not 11"):
        train(network, images, labels, epochs=1, batch=11)
    with pytest.raises(ValueError, match="epochs must be a positive integer, not 0"):
        train(network, images, labels, epochs=0, batch=5)
    for size in (7, 0):
        with pytest.raises(ValueError, match=f"size must be a positive even number, not {size}"):
            small_cnn(size=size)

"""A design as a NumPy function: any shape, any batch, and what it refuses."""

import numpy as np
import pytest
from verilog_tools import needs_verilator

from skiptile import sim
from skiptile.gen.design import Design, DesignError
from skiptile.golden.mac_tile import MacTileParams
from skiptile.sim import model as module

PARAMS = MacTileParams(rows=2, columns=3, lanes=4, lookahead=1, max_reduction=100)
pytestmark = needs_verilator


@pytest.fixture(scope="module")
def model():
    return sim.load(PARAMS)


def operands(*shape):
    return np.random.default_rng(shape).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("shape", [(0, 5, 2), (3, 0, 2), (3, 5, 0), (0, 0, 0)])
def test_empty_products_never_touch_the_rtl(model, shape):
    m, k, n = shape
    result, counters = model.matmul(operands(m, k), operands(k, n))
    assert result.dtype == np.int64
    assert result.shape == (m, n)
    assert not result.any()
    assert (counters.cycles, counters.steps, counters.effectual, counters.elapsed) == (0, 0, 0, 0)


@pytest.mark.parametrize("bytes_at_once", [1, 1000, 1 << 24])
def test_batches_change_nothing(model, monkeypatch, bytes_at_once):
    a, b = operands(10, 33), operands(33, 9)
    whole, counted = model.matmul(a, b)
    monkeypatch.setattr(module, "BATCH_BYTES", bytes_at_once)
    seen = []
    result, counters = model.matmul(a, b, progress=lambda done, total: seen.append((done, total)))
    assert np.array_equal(result, whole)
    assert np.array_equal(result, a.astype(int) @ b.astype(int))
    assert counters == counted
    assert all(done < total == 20 for done, total in seen)


def test_operands_may_be_views(model):
    a, b = operands(40, 12)[::4, ::-1], operands(9, 12).T
    assert np.array_equal(model.matmul(a, b)[0], a.astype(int) @ b.astype(int))


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (
            operands(2, 3).astype(float),
            operands(3, 2),
            TypeError,
            "a must be an array of int8, not of float64",
        ),
        (
            operands(2, 3),
            operands(3, 2).astype(np.uint8),
            TypeError,
            "b must be an array of int8, not of uint8",
        ),
        (operands(2, 3), operands(4, 2), ValueError, r"\(2, 3\) and \(4, 2\)"),
        (operands(3), operands(3, 2), ValueError, r"needs shapes \(M, K\) and \(K, N\), not \(3,\)"),
        (operands(1, 101), operands(101, 1), ValueError, "max_reduction = 100"),
    ],
)
def test_what_it_refuses(model, a, b, error, message):
    with pytest.raises(error, match=message):
        model.matmul(a, b)


def test_everything_that_names_a_design_gives_the_same_model(tmp_path, model):
    path = tmp_path / "mac_tile.toml"
    path.write_text(
        '[design]\nname = "mac_tile"\nkind = "mac-tile"\n[mac-tile]\nrows = 2\ncolumns = 3\nlanes = 4\n'
        "max_reduction = 100\n[mac-tile.sparsity]\nlookahead = 1\n"
    )
    for design in (path, str(path), Design("mac_tile", "mac-tile", PARAMS)):
        assert sim.load(design)._library == model._library
    with pytest.raises(TypeError, match="design must be a path, a Design or a kind's parameters, not int"):
        sim.load(4)
    path.write_text("[design]\n")
    with pytest.raises(DesignError, match=r"mac_tile\.toml"):
        sim.load(path)


def test_two_models_at_once(model):
    """Neither library sees the other's symbols."""
    other = sim.load(PARAMS.dense)
    a, b = operands(5, 20), operands(20, 4)
    results = [each.matmul(a, b) for each in (model, other, model)]
    assert all(np.array_equal(result, a.astype(int) @ b.astype(int)) for result, _ in results)
    assert results[0][1] == results[2][1]
    assert results[1][1].cycles == results[1][1].steps

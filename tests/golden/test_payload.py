import numpy as np
import pytest

from skiptile.golden.payload import Field, pack, payload_bits, payload_words, unpack

FIELDS = (
    Field("a", 8, (2, 3), signed=True),
    Field("flag", 1),
    Field("count", 3),
    Field("b", 8, (5,), signed=True),  # not on a byte's border
    Field("wide", 70, (2,), signed=True),
    Field("word", 32),
    Field("long", 63),
    Field("full", 64),
)


def values(rng, beats):
    return {
        "a": rng.integers(-128, 128, (beats, 2, 3)),
        "flag": rng.integers(0, 2, beats),
        "count": rng.integers(0, 8, beats),
        "b": rng.integers(-128, 128, (beats, 5)),
        "wide": np.array([[(-1) ** k * (1 << 68) // (k + 1) for k in range(2)]] * beats, object),
        "word": rng.integers(0, 1 << 32, beats),
        "long": rng.integers(0, 1 << 63, beats),
        "full": np.array([(1 << 64) - 1 - k for k in range(beats)], object),
    }


def by_hand(fields, record):
    """A payload as one integer, straight from the definition."""
    total = offset = 0
    for field in fields:
        for element in np.asarray(record[field.name], object).reshape(-1):
            total |= (int(element) & ((1 << field.width) - 1)) << offset
            offset += field.width
    return total


@pytest.mark.parametrize("order", [FIELDS, FIELDS[::-1], FIELDS[1:] + FIELDS[:1]])
def test_pack_is_the_definition_and_unpack_its_inverse(order):
    inputs = values(np.random.default_rng(1), 7)
    packed = pack(order, inputs)
    assert packed.dtype == np.uint32
    assert packed.shape == (7, payload_words(order))
    for beat in range(7):
        record = {name: value[beat] for name, value in inputs.items()}
        assert int.from_bytes(packed[beat].tobytes(), "little") == by_hand(order, record)
    for name, value in unpack(order, packed).items():
        assert value.shape == inputs[name].shape
        assert np.array_equal(value, inputs[name]), name


def test_sizes():
    assert payload_bits(FIELDS) == 48 + 1 + 3 + 40 + 140 + 32 + 63 + 64
    assert payload_words([Field("x", 33)]) == 2
    assert payload_words([Field("x", 32)]) == 1


def test_what_exceeds_a_width_is_cut():
    fields = [Field("x", 4), Field("y", 8), Field("z", 4)]
    packed = pack(fields, {"x": np.array([0x1F]), "y": np.array([-1]), "z": np.array([0x12])})
    assert packed[0, 0] == 0x2FFF
    assert pack([Field("x", 8)], {"x": np.array([300])})[0, 0] == 300 - 256


def test_no_beats():
    fields = [Field("x", 8, (3,))]
    assert pack(fields, {"x": np.zeros((0, 3), np.int8)}).shape == (0, 1)
    assert unpack(fields, np.zeros((0, 1), np.uint32))["x"].shape == (0, 3)

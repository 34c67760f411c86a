"""What a dot product's parameters mean, and which are refused."""

import numpy as np
import pytest

from skiptile.golden.arithmetic import FLAGS, WIDE_WINDOW, Arithmetic
from skiptile.golden.formats import FORMATS, FloatFormat


@pytest.mark.parametrize(
    ("format", "format_b", "window"),
    [
        ("float8_e4m3fn", None, (17, -18)),
        ("float8_e5m2", None, (31, -32)),
        ("float8_e4m3fn", "float8_e5m2", (24, -25)),
        ("float16", None, (31, -48)),
        ("bfloat16", None, WIDE_WINDOW),
        ("bfloat16", "float8_e4m3fn", WIDE_WINDOW),
        ("float32", "float16", WIDE_WINDOW),
    ],
)
def test_default_windows(format, format_b, window):
    arithmetic = Arithmetic(format=format, format_b=format_b)
    assert arithmetic.accumulator == window
    assert arithmetic == Arithmetic(format=format, format_b=format_b, accumulator=window)
    assert Arithmetic(format=format, accumulator={"msb": 3, "lsb": -5}).window == (3, -5)


def test_the_wide_window_holds_what_is_promised():
    assert WIDE_WINDOW[0] >= 15
    assert WIDE_WINDOW[1] <= -40


@pytest.mark.parametrize(
    "name", [name for name, format in FORMATS.items() if isinstance(format, FloatFormat)]
)
def test_an_unbounded_window_keeps_every_bit(name):
    format, arithmetic = FORMATS[name], Arithmetic(format=name, accumulator="exact")
    msb, lsb = arithmetic.window
    assert format.smallest_subnormal**2 == 2.0**lsb
    assert 2**msb <= int(format.largest) ** 2 if format.largest >= 1 << 20 else 2**msb <= format.largest**2
    assert int(format.largest * 8) ** 2 < 64 * 2 ** (msb + 1)
    assert not arithmetic.truncates
    assert not arithmetic.overflows


def test_flags_that_can_be_set():
    def flags(format, **options):
        return Arithmetic(format=format, **options).flags

    assert flags("int8") == flags("float6_e3m2fn") == ()
    assert flags("float8_e4m3fn") == ("nan",)
    assert flags("float16") == ("nan", "pinf", "ninf")
    assert flags("bfloat16") == FLAGS
    assert flags("float6_e3m2fn", accumulator=(3, -4)) == ("pinf", "ninf", "overflow")


def test_widths():
    arithmetic = Arithmetic(format="bfloat16", max_reduction=65536)
    assert arithmetic.accumulator_bits == WIDE_WINDOW[0] - WIDE_WINDOW[1] + 1 + 16 + 1
    assert Arithmetic(format="int8", format_b="int16", max_reduction=1000).accumulator_bits == 24 + 10
    assert Arithmetic(format="int8", max_reduction=1).accumulator_bits == 16
    assert Arithmetic(format="float16", out="bfloat16").result_bits == 16


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "fp8"}, ValueError, "format must be one of 'int8', .*, not 'fp8'"),
        ({"format": "int8", "format_b": "bfloat16"}, ValueError,
         "format = 'int8' and format_b = 'bfloat16' cannot be mixed"),
        ({"format": "int8", "accumulator": (3, 0)}, ValueError,
         "accumulator belongs to floats, not to format = 'int8'"),
        ({"format": "float16", "accumulator": (3, 4)}, ValueError,
         "accumulator.msb must not be below accumulator.lsb, not 3 with lsb = 4"),
        ({"format": "float16", "accumulator": {"msb": 3}}, ValueError, "accumulator lacks the key 'lsb'"),
        ({"format": "float16", "accumulator": {"msb": 3, "lsb": 0, "x": 1}}, ValueError,
         "accumulator has the unknown key 'x'"),
        ({"format": "float16", "accumulator": (3.0, 0)}, TypeError, "accumulator.msb must be an integer"),
        ({"format": "float16", "accumulator": "wide"}, TypeError,
         "accumulator must be 'exact' or { msb, lsb }, not 'wide'"),
        ({"format": "float16", "accumulator": (-60, -70)}, ValueError,
         "must have msb from -48, the least product's, and lsb up to 10, where .* not msb = -60"),
        ({"format": "float16", "accumulator": (3, 1)}, ValueError,
         "accumulator must keep at least 4 bits of a product, not msb = 3, lsb = 1"),
        ({"format": "float16", "accumulator": (31, 11)}, ValueError, "not msb = 31, lsb = 11"),
        ({"format": "float16", "accumulator": np.array([3, -3])}, TypeError, "accumulator must be 'exact'"),
        ({"format": "float32", "accumulator": (400, -250)}, ValueError,
         r"accumulator must have at most 640 bits, not 652 \(msb = 400, lsb = -250, and max_reduction = 1\)"),
        ({"format": "float32", "accumulator": "exact", "max_reduction": 1 << 100}, ValueError, "at most 640"),
        ({"format": "float16", "out": "int8"}, ValueError,
         "out = 'int8' belongs to integers, not to format = 'float16'"),
        ({"format": "float16", "out": "double"}, ValueError, "out must be one of 'raw', 'int8'"),
        ({"format": "int8", "saturate": True}, ValueError,
         "saturate belongs to a float out, not to out = 'raw'"),
        ({"format": "float16", "saturate": 1}, TypeError, "saturate must be true or false, not 1"),
    ],
)  # fmt: skip
def test_what_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        Arithmetic(**options)

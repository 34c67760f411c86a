"""Operands for tests reach every class of number."""

import numpy as np
import pytest

from skiptile.golden.arithmetic import Arithmetic
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.operands import corners, full_scale, random_operands

each_format = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
each_float = pytest.mark.parametrize(
    "format", [format for format in FORMATS.values() if isinstance(format, FloatFormat)], ids=lambda f: f.name
)


@each_float
def test_corners_hold_every_class_of_both_signs(format):
    patterns = corners(format)
    assert len(np.unique(patterns)) == len(patterns)
    signs = patterns >> format.bits - 1
    classes = {
        "zero": format.is_zero(patterns),
        "subnormal": format.is_subnormal(patterns),
        "infinite": format.is_infinite(patterns),
        "nan": format.is_nan(patterns),
        "largest": np.abs(format.decode(patterns)) == format.largest,
        "smallest normal": np.abs(format.decode(patterns)) == format.smallest_normal,
    }
    missing = {"infinite"} if not format.has_infinities else set()
    missing |= {"nan"} if not format.has_nan else set()
    for name, members in classes.items():
        assert set(signs[members]) == (set() if name in missing else {0, 1}), name


@each_format
def test_random_operands_keep_to_what_is_asked(format):
    rng = np.random.default_rng(0)
    plain = random_operands(rng, format, (40, 50))
    assert plain.dtype == format.dtype
    assert np.isfinite(format.decode(plain)).all()
    assert len(np.unique(plain)) >= min(50, 1 << format.bits - 1)
    assert np.mean(format.is_zero(random_operands(rng, format, (40, 50), zeros=0.7))) > 0.6
    assert format.is_zero(random_operands(rng, format, (9, 9), zeros=1)).all()
    special = random_operands(rng, format, (40, 50), specials=0.5)
    has_specials = isinstance(format, FloatFormat) and format.has_nan
    assert np.isnan(format.decode(special)).any() == has_specials


@pytest.mark.parametrize("format_b", ["float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("accumulator", [None, "exact", (15, -20), (0, -3)])
def test_full_scale_products_are_the_largest_that_are_kept(accumulator, format_b):
    arithmetic = Arithmetic(format="bfloat16", format_b=format_b, accumulator=accumulator)
    a, b = full_scale(arithmetic)
    x = float(arithmetic.a.decode(np.array(a, arithmetic.a.dtype)))
    y = float(arithmetic.b.decode(np.array(b, arithmetic.b.dtype)))
    msb = arithmetic.window[0]
    assert 2.0**msb <= x * y if msb < 1000 else True
    assert x * y / 2 < 2.0**msb

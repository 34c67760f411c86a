"""Barrel shifters, a signal for each level: a wire has no bits that nobody needs, and is written once."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def shifted_left(m: Module, value: Value, places: Value, low: int, high: int, *, name: str) -> Value:
    """Bits ``low`` .. ``high`` - 1 of ``value << places``."""
    if not len(places):
        return _bits(value, low, high)
    distance = 1 << len(places) - 1
    first = max(0, low - distance)  # what the levels before must give
    last = max(first, min(high, len(value) + distance - 1))
    before = shifted_left(m, value, places[:-1], first, last, name=name)
    moved = _bits(before, low - distance - first, high - distance - first)
    result = Signal(high - low, name=f"{name}_by{distance}")
    m.d.comb += result.eq(Mux(places[-1], moved, _bits(before, low - first, high - first)))
    return result


def _bits(value: Value, low: int, high: int) -> Value:
    """Bits ``low`` .. ``high`` - 1, zero where there are none."""
    start, stop = min(max(low, 0), len(value)), min(max(high, 0), len(value))
    below = min(high, 0) - min(low, 0)
    return Cat(Const(0, below), value[start:stop], Const(0, high - low - below - (stop - start)))

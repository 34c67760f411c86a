"""The read-out: an accumulator's content as a result, rounded once, to nearest even."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from skiptile.golden.arithmetic import FLAGS, SHIFTS_PER_STAGE, Arithmetic
from skiptile.golden.formats import FloatFormat, IntegerFormat
from skiptile.hw.hierarchy import Block, place
from skiptile.hw.pipeline import delayed


def expanded_flags(arithmetic: Arithmetic, flags: Value) -> Value:
    """All of `FLAGS`, from those that can be set."""
    return Cat(
        flags[arithmetic.flags.index(flag)] if flag in arithmetic.flags else Const(0) for flag in FLAGS
    )


def read_out(
    m: Module, arithmetic: Arithmetic, states: Sequence[Value], shift: Value, platform: object
) -> Value:
    """Results and flags, as they are in output payloads, of accumulators' ``states``.

    Latency: `Arithmetic.read_out_latency`. ``shift`` is ignored where results have none.
    """
    results, flags = [], []
    for index, state in enumerate(states):
        if arithmetic.out_format is None:
            results.append(state[: arithmetic.accumulator_bits])
            flags.append(expanded_flags(arithmetic, state[arithmetic.accumulator_bits :]))
            continue
        block = ReadOut(arithmetic)
        place(m, f"read_out_{index}", block, platform)
        m.d.comb += block.state.eq(state)
        if arithmetic.shift_bits:
            m.d.comb += block.shift.eq(shift)
        results.append(block.result)
        flags.append(block.flags if arithmetic.is_float else Const(0))
    return Cat(results, flags) if arithmetic.is_float else Cat(results)


class ReadOut(Block):
    """Rounds sums to a float format, or shifts and saturates them to an integer one.

    Latency: `Arithmetic.read_out_latency`. Throughput: one result per cycle.

    Parameters:
        arithmetic: whose ``out`` is not raw.

    Members:
        state: an accumulator with its flags, `Arithmetic.state_bits`.
        shift: places to the right (integer results only).
        result: bits of the result's format.
        flags: all of `FLAGS` (floats only).
    """

    block_name = "read_out"
    has_reset = False

    state: Signal
    shift: Signal
    result: Signal
    flags: Signal

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        ports: dict[str, object] = {"state": In(arithmetic.state_bits), "result": Out(arithmetic.result_bits)}
        if arithmetic.shift_bits:
            ports["shift"] = In(arithmetic.shift_bits)
        if arithmetic.is_float:
            ports["flags"] = Out(len(FLAGS))
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        out = self.arithmetic.out_format
        bits = self.arithmetic.accumulator_bits
        total = self.state[:bits].as_signed()
        if isinstance(out, IntegerFormat):
            self._to_integer(m, total, out)
        else:
            assert isinstance(out, FloatFormat)
            self._to_float(m, total, self.state[bits:], out)
        return m

    # ---- floats ----

    def _to_float(self, m: Module, total: Value, flags: Value, out: FloatFormat) -> None:
        before_limits = self.arithmetic.read_out_latency - 1
        late = delayed(m, flags, before_limits, name="flags", reset_less=True)
        negative = delayed(m, total[-1], before_limits, name="negative", reset_less=True)
        code = self._rounded(m, *self._normalised(m, total), out)
        self._limit(m, code, negative, late, out)

    def _normalised(self, m: Module, total: Value) -> tuple[Value, Value]:
        """The magnitude with its leading one at the top, or at the subnormals' place; how far it moved."""
        arithmetic = self.arithmetic
        width, most = arithmetic.aligned_bits, arithmetic.most_leading_zeros
        magnitude = Signal(width, reset_less=True)
        m.d.sync += magnitude.eq(Mux(total[-1], -total, total)[: arithmetic.accumulator_bits - 1])
        zeros = Signal(most.bit_length(), reset_less=True)
        m.d.sync += zeros.eq(leading_zeros(list(magnitude[width - most :])) if most else 0)
        value: Value = delayed(m, magnitude, 1, name="magnitude", reset_less=True)
        places: Value = zeros
        for stage, levels in enumerate(_stages(len(zeros))):
            for level in levels:
                shifted = Signal(width, name=f"shifted_by{1 << level}")
                m.d.comb += shifted.eq(Mux(places[level], Cat(Const(0, 1 << level), value), value))
                value = shifted
            value = delayed(m, value, 1, name=f"stage{stage}", reset_less=True)
            places = delayed(m, places, 1, name=f"zeros{stage}", reset_less=True)
        return value, places

    def _rounded(self, m: Module, value: Value, places: Value, out: FloatFormat) -> Signal:
        """Exponent and fraction as one number, so that rounding carries on into the exponent."""
        kept = out.fraction_bits + 1
        extended = Cat(Const(0, max(0, kept + 1 - len(value))), value)
        significand, guard, rest = extended[-kept:], extended[-kept - 1], extended[: -kept - 1]
        # the exponent of a value without leading zeros, less the least one
        top = self.arithmetic.window[1] + len(value) - 1 - out.least_exponent
        exponent = Mux(significand[-1], top - places, 0)[: max(1, top.bit_length())]
        code = Signal(out.fraction_bits + 2 + top.bit_length(), reset_less=True)
        up = guard & (rest.any() | significand[0])
        m.d.sync += code.eq(Cat(Const(0, out.fraction_bits), exponent) + significand + up)
        return code

    def _limit(self, m: Module, code: Value, negative: Value, flags: Value, out: FloatFormat) -> None:
        """Give the number, or what stands for one too large, an infinity or NaN."""
        arithmetic = self.arithmetic
        flag = {name: flags[k] for k, name in enumerate(arithmetic.flags)}
        plus, minus = flag.get("pinf", Const(0)), flag.get("ninf", Const(0))
        nan, limit, sign = Signal(name="is_nan"), Signal(name="is_limit"), Signal(name="sign")
        m.d.comb += [
            limit.eq(plus | minus | (code > out.largest_bits)),
            sign.eq(Mux(plus | minus, minus, negative)),
        ]
        is_nan = flag.get("nan", Const(0)) | (plus & minus)
        largest = out.infinity_bits
        if arithmetic.saturate or out.specials == "none":
            largest = out.largest_bits
        elif largest is None:  # a format with NaN alone
            is_nan, largest = is_nan | limit, out.largest_bits
        m.d.comb += nan.eq(is_nan)
        nan_bits = out.largest_bits if out.nan_bits is None else out.nan_bits
        number = Cat(Mux(limit, largest, code)[: out.bits - 1], sign)
        result = Signal(out.bits, name="rounded", reset_less=True)
        m.d.sync += result.eq(Mux(nan, nan_bits, number))
        m.d.comb += self.result.eq(result)
        if arithmetic.is_float:
            given = delayed(m, expanded_flags(arithmetic, flags), 1, name="given_flags", reset_less=True)
            m.d.comb += self.flags.eq(given)

    # ---- integers ----

    def _to_integer(self, m: Module, total: Value, out: IntegerFormat) -> None:
        value, sign = total[:-1], total[-1]
        guard, sticky, places = Const(0), Const(0), self.shift
        width = len(value)
        for stage, levels in enumerate(_stages(self.arithmetic.shift_bits)):
            for level in levels:
                distance, moves = 1 << level, places[level]
                gone = Cat(value, sign.replicate(max(0, distance - width)))[:distance]
                moved = Cat(value[distance:], sign.replicate(min(distance, width)))
                names = (f"{what}_by{distance}" for what in ("shifted", "guard", "sticky"))
                following = [Signal(bits, name=name) for bits, name in zip((width, 1, 1), names, strict=True)]
                m.d.comb += [
                    following[0].eq(Mux(moves, moved, value)),
                    following[1].eq(Mux(moves, gone[-1], guard)),
                    following[2].eq(sticky | (moves & (guard | gone[:-1].any()))),
                ]
                value, guard, sticky = following
            late = delayed(m, Cat(value, sign, guard, sticky), 1, name=f"stage{stage}", reset_less=True)
            value, sign, guard, sticky = late[:width], late[-3], late[-2], late[-1]
            left = places[: levels[-1]]
            places = delayed(m, left, 1, name=f"shift{stage}", reset_less=True) if len(left) else left
        value = Cat(value, sign).as_signed()
        rounded = Signal(signed(width + 2), reset_less=True)
        m.d.sync += rounded.eq(value + (guard & (sticky | value[0])))
        result = Signal(out.bits, name="saturated", reset_less=True)
        limited = Mux(rounded > out.largest, out.largest, Mux(rounded < out.smallest, out.smallest, rounded))
        m.d.sync += result.eq(limited)
        m.d.comb += self.result.eq(result)


def _stages(levels: int) -> list[range]:
    """Levels of a shifter, the farthest shifts first, parted where there are registers."""
    return [
        range(first - 1, max(first - SHIFTS_PER_STAGE, 0) - 1, -1)
        for first in range(levels, 0, -SHIFTS_PER_STAGE)
    ]


def leading_zeros(bits: list[Value]) -> Value:
    """Zeros above the highest one of ``bits``, least significant first; their number if there is none."""
    size = 1 << (len(bits) - 1).bit_length()
    padded = [*(Const(1) for _ in range(size - len(bits))), *bits]  # ends the count where the bits end
    count, _ = _leading_zeros(padded)
    return Cat(count) if size > len(bits) else Mux(Cat(bits).any(), Cat(count), len(bits))


def _leading_zeros(bits: list[Value]) -> tuple[list[Value], Value]:
    """Bits of the count for a power of two of ``bits``, and whether there is a one."""
    if len(bits) == 1:
        return [], bits[0]
    half = len(bits) // 2
    low, any_low = _leading_zeros(bits[:half])
    high, any_high = _leading_zeros(bits[half:])
    count = [Mux(any_high, above, under) for above, under in zip(high, low, strict=True)]
    return [*count, ~any_high], any_high | any_low

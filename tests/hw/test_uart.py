"""The UART: each bit lasts as long as it should, and lines hold their numbers."""

import pytest
from amaranth.sim import Simulator

from skiptile.hw.uart import DIGITS, NUMBER_BITS, LinePrinter, UartTransmitter, encode_line


def simulate(component, bench):
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("divisor", [1, 2, 3, 10])
def test_bits_on_the_wire(divisor):
    sent, wire = bytes([0x00, 0xFF, 0x55, 0xA3]), []
    uart = UartTransmitter(divisor=divisor)

    async def bench(ctx):
        left = list(sent)
        for _ in range((10 * divisor + 1) * len(sent) + 5):
            ctx.set(uart.i.valid, bool(left))
            ctx.set(uart.i.payload, left[0] if left else 0x99)
            taken = ctx.get(uart.i.ready) and left
            wire.append(ctx.get(uart.tx))
            await ctx.tick()
            if taken:
                left.pop(0)

    simulate(uart, bench)
    frames = [[1]]  # idle in the first cycle
    for byte in sent:
        bits = [0, *(byte >> index & 1 for index in range(8)), 1]
        frames.append([bit for bit in bits for _ in range(divisor)] + [1])
    expected = [level for frame in frames for level in frame]
    assert wire == expected + [1] * (len(wire) - len(expected))


def printed(printer, line, numbers):
    """What ``printer`` gives to its UART."""
    text = bytearray()

    async def bench(ctx):
        ctx.set(printer.numbers, sum(number << NUMBER_BITS * k for k, number in enumerate(numbers)))
        ctx.set(printer.line, line)
        ctx.set(printer.start, 1)
        await ctx.tick()
        ctx.set(printer.start, 0)
        previous, level, cycles, bits = 1, 1, 0, []
        quiet = 0
        while ctx.get(printer.busy) or quiet < 30:
            quiet = 0 if ctx.get(printer.busy) else quiet + 1
            previous, level = level, ctx.get(printer.tx)
            if not bits and previous and not level:
                cycles, bits = 0, [0]
            elif bits:
                cycles += 1
                if cycles % 2 == 0:
                    bits.append(level)
                if len(bits) == 10:
                    assert bits[-1] == 1
                    text.append(sum(bit << k for k, bit in enumerate(bits[1:9])))
                    bits = []
            await ctx.tick()

    simulate(printer, bench)
    return text.decode()


def test_lines_and_numbers():
    printer = LinePrinter(["nothing\n", "{0} of {1}, {0}!\r\n", "{2}"], numbers=3, divisor=2)
    largest = 2**NUMBER_BITS - 1
    assert len(str(largest)) == DIGITS
    assert printed(printer, 0, [1, 2, 3]) == "nothing\n"
    assert printed(printer, 1, [0, 10, 7]) == "0 of 10, 0!\r\n"
    assert printed(printer, 2, [0, 0, largest]) == str(largest)
    for number in (9, 99, 100, 4095, 90_909, 1_000_000):
        assert printed(printer, 2, [0, 0, number]) == str(number)


def test_encoded_lines():
    assert encode_line("a {0}{9}", 10) == b"a \x80\x89\0"
    with pytest.raises(ValueError, match=r"^line must be text in ASCII, not 'µ'$"):
        encode_line("µ", 1)
    with pytest.raises(ValueError, match=r"^line must have numbers below 2 only, not '\{2\}'$"):
        encode_line("{2}", 2)
    with pytest.raises(ValueError, match=r"^line must have its braces around a digit, not 'a \{b\}'$"):
        encode_line("a {b}", 2)

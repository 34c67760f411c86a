"""A UART that sends bytes, and one that sends lines of text with numbers in them."""

import re
from collections.abc import Sequence
from itertools import accumulate

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from skiptile.hw.operands import words

FRAME_BITS = 10  # start bit, 8 data bits, stop bit
NUMBER_BITS = 24
DIGITS = len(str(2**NUMBER_BITS - 1))

# In the memory that holds the text: the end of a line, and what stands for number 0, with those for the
# other numbers after it. ASCII has neither.
_END, _NUMBER = 0x00, 0x80


class UartTransmitter(wiring.Component):
    """Sends bytes over one wire: 8 data bits, least significant first, no parity, 1 stop bit.

    Latency: the start bit begins in the cycle after a byte is taken. Throughput: a byte every
    ``10 * divisor + 1`` clock cycles; the one more lengthens the stop bit.

    Parameters:
        divisor: clock cycles of one bit.

    Members:
        i: bytes.
        tx: the wire, high when idle.
    """

    i: stream.Interface
    tx: Signal

    def __init__(self, *, divisor: int) -> None:
        self.divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wire = Signal(init=1)
        following = Signal(FRAME_BITS - 1)  # bits after the one that is on the wire
        bits = Signal(range(FRAME_BITS + 1))
        cycles = Signal(range(self.divisor))
        m.d.comb += [self.i.ready.eq(bits == 0), self.tx.eq(wire)]
        with m.If(bits == 0), m.If(self.i.valid):
            m.d.sync += [
                Cat(wire, following).eq(Cat(Const(0, 1), self.i.payload, Const(1, 1))),
                bits.eq(FRAME_BITS),
                cycles.eq(self.divisor - 1),
            ]
        with m.Elif(cycles == 0):
            m.d.sync += [
                Cat(wire, following).eq(Cat(following, Const(1, 1))),
                bits.eq(bits - 1),
                cycles.eq(self.divisor - 1),
            ]
        with m.Else():
            m.d.sync += cycles.eq(cycles - 1)
        return m


class Decimal(wiring.Component):
    """The decimal digits of a number, most significant first, without leading zeros.

    Shifts the number bit by bit into decimal digits, each of which is doubled on the way ("double dabble").
    Latency: ``NUMBER_BITS`` cycles, and one for each leading zero. One number at a time.

    Members:
        i: numbers.
        o: their digits, four bits each, and above them whether a digit is its number's last.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(NUMBER_BITS)), "o": Out(stream.Signature(5))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number = Signal(NUMBER_BITS)
        digits = Signal(4 * DIGITS)
        left = Signal(range(NUMBER_BITS))  # bits to be shifted, or digits after the top one
        leading = Signal()
        top = digits[-4:]
        skipped = leading & (top == 0) & (left != 0)
        corrected = [Mux(digit >= 5, digit + 3, digit)[:4] for digit in words(digits, 4)]
        m.d.comb += self.o.payload.eq(Cat(top, left == 0))
        with m.FSM(name="decimal"):
            with m.State("idle"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [number.eq(self.i.payload), digits.eq(0), left.eq(NUMBER_BITS - 1)]
                with m.If(self.i.valid):
                    m.next = "shift"
            with m.State("shift"):
                m.d.sync += [Cat(number, digits).eq(Cat(Const(0, 1), number, *corrected)), left.eq(left - 1)]
                with m.If(left == 0):
                    m.d.sync += [left.eq(DIGITS - 1), leading.eq(1)]
                    m.next = "give"
            with m.State("give"):
                m.d.comb += self.o.valid.eq(~skipped)
                with m.If(skipped | self.o.ready):
                    m.d.sync += [digits.eq(digits << 4), left.eq(left - 1), leading.eq(skipped)]
                    with m.If(left == 0):
                        m.next = "idle"
        return m


class LinePrinter(wiring.Component):
    """Sends one of several lines of text over a UART, with numbers in them in decimal.

    Parameters:
        lines: the lines, in ASCII; ``{0}`` and so on stand for the numbers.
        numbers: how many numbers there are, at most 10.
        divisor: clock cycles of one bit.

    Members:
        start: send a line; only when not ``busy``.
        line: which one, in the cycle of ``start``.
        numbers: side by side, number 0 lowest; they must not change while ``busy``.
        busy: a line is being sent. The last byte may still be on the wire when that ends.
        tx: the wire.
    """

    start: Signal
    line: Signal
    numbers: Signal
    busy: Signal
    tx: Signal

    def __init__(self, lines: Sequence[str], *, numbers: int, divisor: int) -> None:
        self.divisor = divisor
        self._texts = [encode_line(line, numbers) for line in lines]
        super().__init__(
            {
                "start": In(1),
                "line": In(range(len(lines))),
                "numbers": In(NUMBER_BITS * numbers),
                "busy": Out(1),
                "tx": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.uart = uart = UartTransmitter(divisor=self.divisor)
        m.submodules.decimal = decimal = Decimal()
        whole = b"".join(self._texts)
        m.submodules.text = text = Memory(shape=8, depth=len(whole), init=list(whole))
        read = text.read_port()
        firsts = [0, *accumulate(map(len, self._texts))][:-1]
        place = Signal(range(len(whole)))
        m.d.comb += [
            read.addr.eq(place),
            read.en.eq(0),
            uart.i.payload.eq(read.data),
            decimal.i.payload.eq(Array(words(self.numbers, NUMBER_BITS))[read.data[:4]]),
            self.busy.eq(1),
            self.tx.eq(uart.tx),
        ]
        with m.FSM(name="printer"):
            with m.State("idle"):
                m.d.comb += self.busy.eq(0)
                with m.If(self.start):
                    m.d.sync += place.eq(Array(firsts)[self.line])
                    m.next = "read"
            with m.State("read"):
                m.d.comb += read.en.eq(1)
                m.d.sync += place.eq(place + 1)
                m.next = "decode"
            with m.State("decode"):
                with m.If(read.data == _END):
                    m.next = "idle"
                with m.Elif(read.data >= _NUMBER):
                    m.next = "convert"
                with m.Else():
                    m.next = "send"
            with m.State("send"):
                m.d.comb += uart.i.valid.eq(1)
                with m.If(uart.i.ready):
                    m.next = "read"
            with m.State("convert"):
                m.d.comb += decimal.i.valid.eq(1)
                with m.If(decimal.i.ready):
                    m.next = "digits"
            with m.State("digits"):
                m.d.comb += [
                    uart.i.payload.eq(ord("0") | decimal.o.payload[:4]),
                    uart.i.valid.eq(decimal.o.valid),
                    decimal.o.ready.eq(uart.i.ready),
                ]
                with m.If(decimal.o.valid & uart.i.ready & decimal.o.payload[4]):
                    m.next = "read"
        return m


def encode_line(line: str, numbers: int) -> bytes:
    """``line`` as the memory holds it.

    Raises:
        ValueError: it is not ASCII, has a number that is not there, or other braces.
    """
    if not line.isascii() or "\0" in line:
        raise ValueError(f"line must be text in ASCII, not {line!r}")
    if not re.fullmatch(r"([^{}]|\{\d\})*", line):
        raise ValueError(f"line must have its braces around a digit, not {line!r}")
    encoded = bytearray()
    for text, number in re.findall(r"([^{}]+)|\{(\d)\}", line):
        if number and int(number) >= numbers:
            raise ValueError(f"line must have numbers below {numbers} only, not {line!r}")
        encoded += text.encode() if text else bytes([_NUMBER + int(number)])
    return bytes(encoded) + bytes([_END])

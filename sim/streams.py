"""Streams of a design under cocotb: sources, sinks, one protocol monitor for every port, and a watchdog.

A `ClockDomain` calls its agents twice in each clock cycle. At the falling edge, in mid-cycle, sources and
sinks put on the values that the next rising edge is to see. At the rising edge all take note of what the
edge sees; then sources and sinks put on decoys, values that differ from the real ones, until the falling
edge. A design whose outputs come from registers notices nothing of a decoy, so a `Monitor` that finds an
output changed between mid-cycle and the edge has found a combinational path from an input.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NoReturn, Protocol

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.types import LogicArray

from skiptile.golden.payload import Field, pack_integers, unpack_integers

Arrays = dict[str, np.ndarray]
Pace = Callable[[bool], bool]
"""Asked once a cycle: is this side willing? Told whether the other side is. A source that has raised its
valid is not asked again until its beat is taken."""
Rule = Callable[[int], str | None]
"""Told each payload that is taken; says what is wrong with it."""


class ProtocolError(AssertionError):
    """A stream's contract was broken; the message names the stream, the cycle and the fault."""


class StuckError(AssertionError):
    """Nothing has moved for too long; the message tells the state of each stream."""


# ---- paces ----


def always(other: bool) -> bool:
    """Willing in every cycle."""
    return True


def follow(other: bool) -> bool:
    """Willing only while the other side is: ready only after valid, or valid only after ready."""
    return other


def resting(chance: float, rng: Random) -> Pace:
    """Not willing with probability ``chance``."""
    return lambda other: rng.random() >= chance


def pattern(willing: Sequence[bool | int]) -> Pace:
    """A fixed pattern, repeated."""
    turn = 0

    def pace(other: bool) -> bool:
        nonlocal turn
        turn += 1
        return bool(willing[(turn - 1) % len(willing)])

    return pace


def late(cycles: int) -> Pace:
    """Not willing before the other side has been for ``cycles`` cycles; from then on always."""
    left = cycles

    def pace(other: bool) -> bool:
        nonlocal left
        if not left:
            return True
        left -= other
        return False

    return pace


# ---- ports ----


@dataclass(frozen=True)
class StreamPorts:
    """The ports of one stream, as the manifest describes them; a payload is one integer.

    Attributes:
        name: of the stream.
        given: the design gives its beats ("output"), otherwise it takes them.
        fields: of the payload, least significant first.
        width: of the payload, in bits.
        payload, valid, ready: cocotb's handles.
    """

    name: str
    given: bool
    fields: tuple[Field, ...]
    width: int
    payload: Any
    valid: Any
    ready: Any

    @classmethod
    def find(cls, dut: Any, manifest: Mapping[str, Any], name: str) -> "StreamPorts":
        """The ports of the manifest's stream ``name`` on the design ``dut``."""
        stream = next(stream for stream in manifest["streams"] if stream["name"] == name)
        port = next(port for port in manifest["ports"] if port["name"] == stream["payload"])
        fields = tuple(
            Field(field["path"], field["element_width"], tuple(field["shape"]), field["signed"])
            for field in port["fields"]
        )
        handles = (dut[stream[part]] for part in ("payload", "valid", "ready"))
        return cls(name, stream["direction"] == "output", fields, port["width"], *handles)

    def pack(self, values: Mapping[str, np.ndarray]) -> list[int]:
        """Payloads from arrays (beats, *shape), one for each field."""
        return pack_integers(self.fields, values)

    def unpack(self, payloads: Sequence[int]) -> Arrays:
        """Payloads as arrays (beats, *shape), one for each field."""
        return unpack_integers(self.fields, payloads)

    def extract(self, payload: int, name: str) -> int:
        """The field ``name`` of one payload, as unsigned bits."""
        offset = 0
        for field in self.fields:
            if field.name == name:
                return payload >> offset & (1 << field.bits) - 1
            offset += field.bits
        raise KeyError(f"stream {self.name} has no field {name!r}")

    def garbage(self, rng: Random) -> int | LogicArray:
        """A payload that nobody may look at: unknown where the simulator has such values, else random."""
        if cocotb.SIM_NAME.startswith("Icarus"):
            return LogicArray("X" * self.width)
        return rng.getrandbits(self.width)


# ---- time ----


class Agent(Protocol):
    """Takes part in every clock cycle of a `ClockDomain`."""

    def drive(self) -> None:
        """Mid-cycle: put on what the coming edge is to see."""
        ...

    def sample(self) -> None:
        """The rising edge: everything still has the value from before it."""
        ...


class ClockDomain:
    """The clock, the reset and the agents of a design.

    Attributes:
        agents: called in this order.
        cycle: number of rising edges so far.
        in_reset: whether the coming (in `Agent.drive`) or present (in `Agent.sample`) edge is a reset.
        reset_edges: of the latest reset, so far.
        task: runs for ever; raises what an agent raises.
    """

    def __init__(self, clk: Any, rst: Any, *, period: int = 10) -> None:
        self.agents: list[Agent] = []
        self.cycle = 0
        self.in_reset = False
        self.reset_edges = 0
        self._rst = rst
        self._reset_left = 0
        self._rising, self._falling = RisingEdge(clk), FallingEdge(clk)
        Clock(clk, period, "step").start(start_high=False)
        self.task = cocotb.start_soon(self._run())

    async def reset(self, cycles: int = 2) -> None:
        """Reset the design for ``cycles`` rising edges."""
        self._reset_left = cycles
        self.reset_edges = 0
        await self.until(lambda: self.reset_edges == cycles)

    async def cycles(self, count: int) -> None:
        """Let ``count`` rising edges pass."""
        stop = self.cycle + count
        await self.until(lambda: self.cycle >= stop)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for ``condition``, looked at once a cycle."""
        while not condition():
            await self._rising

    async def _run(self) -> None:
        while True:
            await self._falling
            self.in_reset = self._reset_left > 0
            self._rst.value = int(self.in_reset)
            for agent in self.agents:
                agent.drive()
            await self._rising
            self.cycle += 1
            if self.in_reset:
                self._reset_left -= 1
                self.reset_edges += 1
            for agent in self.agents:
                agent.sample()
            self._rst.value = int(not self.in_reset)  # a decoy: reset is synchronous


# ---- both ends of a stream ----


class Source:
    """Gives beats to an input stream of the design; a reset takes back the beat on offer.

    Parameters:
        pace: when to raise valid for a new beat.
        decoys: put on decoys after each rising edge.

    Attributes:
        waiting: payloads that have not been offered yet.
    """

    def __init__(
        self,
        domain: ClockDomain,
        ports: StreamPorts,
        rng: Random,
        *,
        pace: Pace = always,
        decoys: bool = True,
    ) -> None:
        self.waiting: deque[int] = deque()
        self._domain, self._ports, self._rng, self._pace, self._decoys = domain, ports, rng, pace, decoys
        self._offer: int | None = None
        domain.agents.append(self)

    @property
    def done(self) -> bool:
        """Whether all beats have been taken."""
        return self._offer is None and not self.waiting

    def send(self, payloads: Iterable[int]) -> None:
        """Give these after all that are waiting."""
        self.waiting.extend(payloads)

    def drive(self) -> None:
        if self._domain.in_reset:
            self._offer = None
        elif self._offer is None and self.waiting and self._pace(high(self._ports.ready)):
            self._offer = self.waiting.popleft()
        self._put(self._offer is not None, self._offer)

    def sample(self) -> None:
        decoy = self._offer is None
        if high(self._ports.ready):
            self._offer = None
        if self._decoys:
            self._put(decoy, None)

    def _put(self, valid: bool, payload: int | None) -> None:
        self._ports.valid.value = int(valid)
        self._ports.payload.value = self._ports.garbage(self._rng) if payload is None else payload


class Sink:
    """Takes beats from an output stream of the design.

    Parameters:
        pace: when to be ready.
        decoys: put on decoys after each rising edge.

    Attributes:
        taken: payloads.
    """

    def __init__(
        self, domain: ClockDomain, ports: StreamPorts, *, pace: Pace = always, decoys: bool = True
    ) -> None:
        self.taken: list[int] = []
        self._domain, self._ports, self._pace, self._decoys = domain, ports, pace, decoys
        self._ready = False
        domain.agents.append(self)

    def drive(self) -> None:
        self._ready = not self._domain.in_reset and self._pace(high(self._ports.valid))
        self._ports.ready.value = int(self._ready)

    def sample(self) -> None:
        if self._ready and high(self._ports.valid):
            self.taken.append(int(str(self._ports.payload.value), 2))
        if self._decoys:
            self._ports.ready.value = int(not self._ready)


# ---- checks ----


class Monitor:
    """Checks the contract of streams on one stream; the same for inputs and outputs.

    A raised valid stays, with its payload, until it is taken. Handshake signals are 0 or 1 once the design
    has been reset, and so is every bit of a valid payload. No valid in reset. The design's outputs move at
    rising edges only.

    Parameters:
        rule: a block's own rule on what its beats hold.

    Attributes:
        beats: how many have been taken since the latest reset.
        first, latest: cycle of the first one and the latest one.
    """

    def __init__(self, domain: ClockDomain, ports: StreamPorts, *, rule: Rule | None = None) -> None:
        self.ports = ports
        self.beats, self.first, self.latest = 0, 0, 0
        self._domain, self._rule = domain, rule
        self._outputs = [ports.valid, ports.payload] if ports.given else [ports.ready]
        self._early: list[str] | None = None  # the design's outputs in mid-cycle
        self._pending: str | None = None  # payload of a valid that is not taken yet
        domain.agents.append(self)

    def state(self) -> str:
        """One clause for people."""
        valid, ready = (str(signal.value) for signal in (self.ports.valid, self.ports.ready))
        done = "given" if self.ports.given else "taken"
        return f"{self.ports.name} has {done} {self.beats} beats, valid is {valid}, ready is {ready}"

    def drive(self) -> None:
        self._early = [str(signal.value) for signal in self._outputs]

    def sample(self) -> None:
        self._check_registered()
        valid, ready = str(self.ports.valid.value), str(self.ports.ready.value)
        if self._domain.in_reset:
            self.beats, self._pending = 0, None
            if self._domain.reset_edges > 1 and valid != "0":
                self._fail(f"valid is {valid} in reset")
        elif self._domain.reset_edges:
            if valid not in "01" or ready not in "01":
                self._fail(f"valid is {valid}, ready is {ready}")
            self._check_beat(valid == "1", ready == "1")

    def _check_registered(self) -> None:
        late = [str(signal.value) for signal in self._outputs]
        for signal, before, now in zip(self._outputs, self._early or late, late, strict=True):
            if before != now:
                change = _change(before, now)
                self._fail(f"{signal._name} depends on an input in the same cycle: {change}")

    def _check_beat(self, valid: bool, ready: bool) -> None:
        if not valid:
            if self._pending is not None:
                self._fail("valid was taken back before ready")
            return
        payload = str(self.ports.payload.value)
        if self._pending not in (None, payload):
            self._fail(f"payload changed before ready: {_change(self._pending, payload)}")
        if payload.strip("01"):
            self._fail(f"a payload with unknown bits: {payload}")
        self._pending = None if ready else payload
        if ready:
            self._count(int(payload, 2))

    def _count(self, payload: int) -> None:
        self.latest = self._domain.cycle
        if not self.beats:
            self.first = self.latest
        self.beats += 1
        fault = self._rule(payload) if self._rule is not None else None
        if fault is not None:
            self._fail(f"{fault} (beat {self.beats})")

    def _fail(self, fault: str) -> NoReturn:
        raise ProtocolError(f"stream {self.ports.name}, cycle {self._domain.cycle}: {fault}")


class Watchdog:
    """Ends a test in which no stream has moved for ``patience`` cycles, and tells the state of each."""

    def __init__(self, domain: ClockDomain, monitors: Sequence[Monitor], *, patience: int = 1000) -> None:
        self._domain, self._monitors, self._patience = domain, monitors, patience
        self._beats, self._since = 0, 0
        domain.agents.append(self)

    def drive(self) -> None:
        pass

    def sample(self) -> None:
        beats = sum(monitor.beats for monitor in self._monitors)
        if beats != self._beats or self._domain.in_reset:
            self._beats, self._since = beats, self._domain.cycle
        elif self._domain.cycle - self._since > self._patience:
            states = "; ".join(monitor.state() for monitor in self._monitors)
            raise StuckError(f"nothing has moved for {self._patience} cycles: {states}")


def high(signal: Any) -> bool:
    return str(signal.value) == "1"


def _change(before: str, now: str) -> str:
    """Two values that differ, a long one by its lowest different bit."""
    if len(now) <= 64:
        return f"{before} -> {now}"
    bit = next(bit for bit in range(len(now)) if before[~bit] != now[~bit])
    return f"bit {bit} {before[~bit]} -> {now[~bit]}"

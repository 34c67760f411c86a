"""Blocks that many places use, emitted once.

Amaranth emits a module for every instance. When Verilog is generated, the ``platform`` is a
:class:`ModuleLibrary`: :func:`place` then puts an ``Instance`` of a shared module in a block's place,
and the library remembers the block, to be converted once. In simulation blocks stay submodules.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Flow, In


class Block(wiring.Component):
    """A component that can be emitted once and instantiated many times.

    Attributes:
        block_name: its name in Verilog, after the design's name and two underscores. Two blocks
            of a design have the same name only if they are the same hardware.
        has_clock: whether it has registers.
        has_reset: whether any of them is reset.
    """

    block_name: str
    has_clock: bool = True
    has_reset: bool

    def elaborate(self, platform: object) -> Module:
        raise NotImplementedError


@dataclass(frozen=True)
class Probe:
    """Ports of inner blocks that a simulation may watch.

    Attributes:
        name: what they show.
        width: bits of each of them.
        elements: equal parts of a port, a value for each.
        ports: (instance, block name, port) of each; a simulation sees them in this order.
    """

    name: str
    width: int
    ports: tuple[tuple[str, str, str], ...]
    elements: int = 1


class Top(wiring.Component):
    """A component that can be a design: streams at its ports, and probes inside.

    Attributes:
        repeated: name of the block that makes most of it, many times over; None if there is none.
    """

    repeated: ClassVar[str | None] = None

    @staticmethod
    def probes(params: Any) -> tuple[Probe, ...]:
        """What a simulation may watch in a design of ``params``; nothing by default."""
        return ()

    def elaborate(self, platform: object) -> Module:
        raise NotImplementedError


class ModuleLibrary:
    """The shared modules of one design, by name.

    Parameters:
        prefix: name of the design.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.blocks: dict[str, Block] = {}

    def instance(self, name: str, block: Block) -> Instance:
        """The instance ``name`` of ``block``'s shared module, connected to the block's own signals.

        Its wires in the parent are called ``<name>_<port>``.
        """
        module = f"{self.prefix}__{block.block_name}"
        known = self.blocks.setdefault(module, block)
        if type(known) is not type(block) or known.signature != block.signature:
            raise ValueError(f"two different blocks of this design are called {module}")
        block._MustUse__silence = True  # type: ignore[attr-defined]  # its shared module stands for it
        connections: dict[str, object] = {}
        if block.has_clock:
            connections["i_clk"] = ClockSignal()
        if block.has_reset:
            connections["i_rst"] = ResetSignal()
        for port, flow, value in _ports(block):
            value.name = f"{name}_{port}"
            connections[f"{'i' if flow == In else 'o'}_{port}"] = value
        return Instance(module, **connections)

    def shared(self, module: str) -> Block:
        """The block that the shared module ``module`` is made from, its signals called like its ports."""
        block = self.blocks[module]
        for port, _, value in _ports(block):
            value.name = port
        return block


def _ports(block: Block) -> list[tuple[str, Flow, Signal]]:
    """Name, direction and signal of each port."""
    ports = []
    for path, member, value in block.signature.flatten(block):
        signal = Value.cast(value)
        assert isinstance(signal, Signal)
        ports.append(("__".join(map(str, path)), member.flow, signal))
    return ports


def place(m: Module, name: str, block: Block, platform: object) -> None:
    """Add ``block`` to ``m`` as ``name``: itself, or an instance of its shared module."""
    m.submodules[name] = platform.instance(name, block) if isinstance(platform, ModuleLibrary) else block

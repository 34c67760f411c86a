"""Blocks that many places use, emitted once.

Amaranth emits a module for every instance. When Verilog is generated, the ``platform`` is a
:class:`ModuleLibrary`: :func:`placed` then puts an ``Instance`` of a shared module in a block's place
and the library remembers the block, to be converted once. In simulation blocks stay submodules.
"""

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class Block(wiring.Component):
    """A component that can be emitted once and instantiated many times.

    Attributes:
        block_name: its name in Verilog, after the design's name and two underscores. Two blocks
            of a design have the same name only if they are the same hardware.
        has_reset: whether any of its registers is reset.
    """

    block_name: str
    has_reset: bool

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

    def instance(self, block: Block) -> Instance:
        """An instance of ``block``'s shared module, connected to the block's own signals."""
        name = f"{self.prefix}__{block.block_name}"
        known = self.blocks.setdefault(name, block)
        if type(known) is not type(block) or known.signature != block.signature:
            raise ValueError(f"two different blocks of this design are called {name}")
        connections: dict[str, object] = {"i_clk": ClockSignal()}
        if block.has_reset:
            connections["i_rst"] = ResetSignal()
        for path, member, value in block.signature.flatten(block):
            direction = "i" if member.flow == In else "o"
            connections[f"{direction}_{'__'.join(map(str, path))}"] = Value.cast(value)
        return Instance(name, **connections)


def placed(block: Block, platform: object) -> Block | Instance:
    """What stands for ``block`` in its parent: itself, or an instance of its shared module."""
    return platform.instance(block) if isinstance(platform, ModuleLibrary) else block

"""Synthesised netlists in Yosys' JSON: counts, and what Yosys leaves to be done for DSP blocks.

A netlist here is the dict of one module: ports, cells, netnames; a bit is an integer, or a constant as text.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from skiptile.gen.targets import KINDS, Cells

Netlist = dict[str, Any]
Cell = dict[str, Any]
Pin = tuple[str, str]  # names of cell and port

OPERAND_BITS, PRODUCT_BITS = 18, 36  # of a MULT18X18D


def count(netlist: Netlist, cells: Cells) -> dict[str, int | None]:
    """How many cells of each of `KINDS` there are, as `count_types` says."""
    return count_types(Counter(cell["type"] for cell in netlist["cells"].values()), cells)


def count_types(types: Mapping[str, int], cells: Cells) -> dict[str, int | None]:
    """How many of each of `KINDS` so many cells of each type are, None for those that the target has not.

    ``lut`` includes those that carry cells take the place of.
    """
    counts: dict[str, int | None] = {}
    for kind in KINDS:
        weights: dict[str, int] = getattr(cells, kind)
        found = (
            number * weight
            for type, number in types.items()
            for pattern, weight in weights.items()
            if fnmatchcase(type, pattern)
        )
        counts[kind] = sum(found) if weights else None
    if counts["lut"] is not None:
        counts["lut"] += cells.luts_per_carry * (counts["carry"] or 0)
    return counts


# ---- registers of DSP blocks (ECP5) ----


def absorb_registers(netlist: Netlist) -> int:
    """Move the registers around each MULT18X18D into it; returns how many flip-flops are gone.

    Yosys uses the block's multiplier alone. Its input and output registers are free, and a path that need not
    leave the block is shorter. A register moves if all bits of its side have one, without enable or reset,
    and on the clock of the block's others.
    """
    multipliers = [name for name, cell in netlist["cells"].items() if cell["type"] == "MULT18X18D"]
    if not multipliers:
        return 0
    before = len(netlist["cells"])
    wires = _Wires(netlist)
    for name in multipliers:
        _absorb(netlist, wires, name)
    _remove_unused(netlist)
    return before - len(netlist["cells"])


class _Wires:
    """Who drives and who reads each bit."""

    def __init__(self, netlist: Netlist) -> None:
        self.cells = netlist["cells"]
        self.driver: dict[Any, Pin] = {}
        self.readers: dict[Any, list[Pin]] = defaultdict(list)  # of constants, too
        for name, port, bit, is_output in _pins(netlist):
            if is_output:
                self.driver[bit] = (name, port)
            else:
                self.readers[bit].append((name, port))
        for port, bit in _port_bits(netlist, "output"):
            self.readers[bit].append(("", port))

    def register_driving(self, bit: int) -> str | None:
        """The plain flip-flop whose output ``bit`` is."""
        name, _ = self.driver.get(bit, ("", ""))
        return name if name and _is_plain(self.cells[name]) else None

    def register_reading(self, bit: int) -> str | None:
        """The plain flip-flop that alone reads ``bit``."""
        readers = self.readers[bit]
        name, pin = readers[0] if len(readers) == 1 else ("", "")
        return name if name and pin == "DI" and _is_plain(self.cells[name]) else None

    def clock(self, register: str) -> int:
        return self.cells[register]["connections"]["CLK"][0]

    def together(self, registers: Mapping[str, str | None], clock: int | None) -> dict[str, str]:
        """``registers`` if all are there and on one clock, which is ``clock`` if that is given; else none."""
        found = {port: name for port, name in registers.items() if name is not None}
        clocks = {self.clock(name) for name in found.values()} | ({clock} - {None})
        return found if len(found) == len(registers) and len(clocks) == 1 else {}

    def connect_input(self, pin: Pin, bits: list[Any]) -> None:
        """Let ``pin`` read ``bits``."""
        name, port = pin
        connections = self.cells[name]["connections"]
        for bit in connections[port]:
            self.readers[bit].remove(pin)
        connections[port] = bits
        for bit in bits:
            self.readers[bit].append(pin)

    def take_over(self, pin: Pin, register: str) -> None:
        """Let ``pin`` drive what ``register``, which goes, has driven."""
        name, port = pin
        bits = self.cells.pop(register)["connections"]["Q"]
        self.cells[name]["connections"][port] = bits
        self.driver |= dict.fromkeys(bits, pin)


def _is_plain(cell: Cell) -> bool:
    """A rising-edge flip-flop without enable and reset that begins with 0."""
    parameters = cell["parameters"]
    if cell["type"] != "TRELLIS_FF" or parameters.get("REGSET", "RESET") != "RESET":
        return False
    if parameters.get("CLKMUX", "CLK") != "CLK":
        return False
    return not any(
        isinstance(bit, int) for port in ("CE", "LSR") for bit in cell["connections"].get(port, [])
    )


def _absorb(netlist: Netlist, wires: _Wires, name: str) -> None:
    cell = netlist["cells"][name]
    pins, clock = cell["connections"], None  # of the registers that are inside
    for side in "AB":
        bits = {port: pins[port][0] for port in (f"{side}{k}" for k in range(OPERAND_BITS)) if port in pins}
        bits = {port: bit for port, bit in bits.items() if isinstance(bit, int)}
        registers = {port: wires.register_driving(bit) for port, bit in bits.items()}
        registers = wires.together(registers, clock)
        for port, register in registers.items():
            clock = wires.clock(register)
            wires.connect_input((name, port), list(netlist["cells"][register]["connections"]["DI"]))
        if registers:
            _switch_on(cell, f"INPUT{side}")
    bits = {port: pins[port][0] for port in (f"P{k}" for k in range(PRODUCT_BITS)) if port in pins}
    bits = {port: bit for port, bit in bits.items() if wires.readers[bit]}
    registers = wires.together({port: wires.register_reading(bit) for port, bit in bits.items()}, clock)
    for port, register in registers.items():
        clock = wires.clock(register)
        wires.take_over((name, port), register)
    if registers:
        _switch_on(cell, "OUTPUT")
    if clock is not None:
        for port, bits_of in (("CLK0", [clock]), ("CE0", ["1"]), ("RST0", ["0"])):
            pins[port] = bits_of
            cell["port_directions"][port] = "input"


def _switch_on(cell: Cell, register: str) -> None:
    for what, source in (("CLK", "CLK0"), ("CE", "CE0"), ("RST", "RST0")):
        cell["parameters"][f"REG_{register}_{what}"] = source


def _remove_unused(netlist: Netlist) -> None:
    """Remove flip-flops that nobody reads any more."""
    read = {bit for _, _, bit, is_output in _pins(netlist) if not is_output}
    read |= {bit for _, bit in _port_bits(netlist, "output")}
    for name, cell in list(netlist["cells"].items()):
        if cell["type"] == "TRELLIS_FF" and cell["connections"]["Q"][0] not in read:
            del netlist["cells"][name]


def _pins(netlist: Netlist) -> Iterator[tuple[str, str, int, bool]]:
    """Cell, port and bit of each pin that is connected to a wire, and whether it is an output."""
    for name, cell in netlist["cells"].items():
        for port, bits in cell["connections"].items():
            is_output = cell["port_directions"][port] == "output"
            for bit in bits:
                if isinstance(bit, int):
                    yield name, port, bit, is_output


def _port_bits(netlist: Netlist, direction: str) -> Iterator[tuple[str, int]]:
    for name, port in netlist["ports"].items():
        if port["direction"] == direction:
            yield from ((name, bit) for bit in port["bits"] if isinstance(bit, int))


# ---- carry chains (Nexus) ----


def free_carry_inputs(netlist: Netlist) -> None:
    """Leave the carry input of each chain's first CCU2 open.

    It has no meaning there. Yosys ties it to a constant, and nextpnr takes an open one alone for a beginning.
    """
    cells = netlist["cells"].values()
    constants = {"0", "1"} | {
        bit for cell in cells if cell["type"] in ("VLO", "VHI") for bit in cell["connections"]["Z"]
    }
    for cell in cells:
        if cell["type"] == "CCU2" and set(cell["connections"].get("CIN", ())) & constants:
            del cell["connections"]["CIN"], cell["port_directions"]["CIN"]


# ---- a netlist in the place of a cell ----


def insert(outer: Netlist, name: str, inner: Netlist) -> None:
    """Put ``inner``'s cells in the place of ``outer``'s cell ``name``; they are called ``name``.something."""
    connections = outer["cells"].pop(name)["connections"]
    used = [bit for _, _, bit, _ in _pins(outer)] + [
        bit for direction in ("input", "output") for _, bit in _port_bits(outer, direction)
    ]
    offset = 1 + max(bit for bits in (used, *connections.values()) for bit in bits if isinstance(bit, int))
    renamed: dict[Any, Any] = {}
    for port, entry in inner["ports"].items():
        renamed |= dict(zip(entry["bits"], connections.get(port, []), strict=False))

    def bits(given: list[Any]) -> list[Any]:
        return [bit if isinstance(bit, str) else renamed.setdefault(bit, bit + offset) for bit in given]

    for inner_name, cell in inner["cells"].items():
        pins = {port: bits(given) for port, given in cell["connections"].items()}
        outer["cells"][f"{name}.{inner_name}"] = {**cell, "connections": pins}
    for inner_name, net in inner["netnames"].items():
        outer["netnames"][f"{name}.{inner_name}"] = {**net, "bits": bits(net["bits"])}

"""The boards that `skiptile board` knows. docs/board.md says how to add one to `BOARDS`."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skiptile.gen.processes import ToolError

BAUD = 115_200
PACKAGE = "pip install 'skiptile[fpga]'"
PACKER = "yowasp-ecppack"  # makes the bitstream


@dataclass(frozen=True)
class Board:
    """A board that `skiptile board` knows.

    Attributes:
        description: one line.
        platform: its class in amaranth-boards, which has pins and clock: module and name.
        target: its device, one of `skiptile.gen.targets.TARGETS`.
        options: for the place-and-route tool, beside the target's.
        pins: of the ports of `BoardTop`: resource, number and, after that, names inside of it.
        high: ports beside those, tied high.
        load: the command that loads a bitstream; ``{file}`` stands for it.
    """

    description: str
    platform: tuple[str, str]
    target: str
    options: tuple[str, ...]
    pins: Mapping[str, tuple[str, ...]]
    high: tuple[str, ...] = ()
    load: str = "openFPGALoader {file}"


BOARDS = {
    "ulx3s-85f": Board(
        "Radiona ULX3S with the LFE5U-85F: 25 MHz, 8 LEDs, UART over the USB of its FTDI chip",
        ("amaranth_boards.ulx3s", "ULX3S_85F_Platform"),
        "ecp5-85k",
        ("--speed", "6"),
        {
            "clk": ("clk25 0",),
            "button": ("button_fire 0",),
            "tx": ("uart 0 tx",),
            "led": tuple(f"led {number}" for number in range(8)),
            "esp32_gpio0": ("esp32 0 gpio0",),
        },
        high=("esp32_gpio0",),  # low, it looks like a pressed button to the ESP32, which may reload the FPGA
        load="openFPGALoader -b ulx3s {file}",
    ),
}


@dataclass(frozen=True)
class Constraints:
    """What a board's platform says.

    Attributes:
        lpf: sites, electrical standards and the clock, as nextpnr-ecp5 reads them.
        clock_hz: of the clock.
        inverted: ports that are low when active.
    """

    lpf: str
    clock_hz: int
    inverted: tuple[str, ...]


def read_constraints(board: Board) -> Constraints:
    """The constraints of ``board``, from the resources that amaranth-boards lists.

    Raises:
        ToolError: amaranth-boards is missing.
    """
    module, name = board.platform
    try:
        platform = getattr(importlib.import_module(module), name)()
    except ModuleNotFoundError as error:
        raise ToolError(f"amaranth-boards is missing: {PACKAGE}") from error
    lines, inverted = ["BLOCK ASYNCPATHS;", "BLOCK RESETPATHS;"], []
    for port, resources in board.pins.items():
        for index, resource in enumerate(resources):
            pin = _request(platform, resource)
            (facts,) = pin.io.metadata
            bit = f"{port}[{index}]" if len(resources) > 1 else port
            attributes = "".join(f" {key}={value}" for key, value in facts.attrs.items())
            lines += [f'LOCATE COMP "{bit}" SITE "{facts.name}";', f'IOBUF PORT "{bit}"{attributes};']
            if any(pin.invert) and port not in inverted:
                inverted.append(port)
    clock_hz = round(platform.default_clk_frequency)
    lines.append(f'FREQUENCY PORT "clk" {clock_hz} HZ;')
    return Constraints("\n".join([*lines, ""]), clock_hz, tuple(inverted))


def _request(platform: Any, resource: str) -> Any:
    """The port of one pin: ``resource`` is its resource's name and number, and names inside of it."""
    name, number, *inner = resource.split()
    port = platform.request(name, int(number), dir="-")
    for part in inner:
        port = getattr(port, part)
    return port

"""The kinds of hardware that a design file can ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring

from skiptile.golden.mac_tile import MacTileParams
from skiptile.hw.mac_tile import MacTile


@dataclass(frozen=True)
class Kind:
    """A kind of block.

    Attributes:
        params: class of its parameter object, the table of its design file.
        component: makes its RTL from the parameters.
        description: one line.
    """

    params: type[Any]
    component: Callable[[Any], wiring.Component]
    description: str


KINDS = {
    "mac-tile": Kind(MacTileParams, MacTile, "sparse-skipping MAC tile (TensorDash), or its dense sister"),
}

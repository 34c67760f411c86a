"""What runs matrix products: the RTL, or the golden model alone."""

from typing import Protocol

import numpy as np

from skiptile.gen.design import Design
from skiptile.golden import exact
from skiptile.golden.counters import Counters
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_jobs import count_product
from skiptile.sim.model import load

ENGINES = {
    "rtl": "the delivered Verilog, Verilated: cycles and elapsed cycles, every result compared",
    "golden": "the golden schedule alone: cycles, quickly; nothing is simulated or compared",
}


class Engine(Protocol):
    """Multiplies matrices on one design."""

    def matmul(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Counters]:
        """``a @ b`` of (M, K) and (K, N), and what it took."""
        ...


class GoldenEngine:
    """The golden model as an engine; it has no clock, so it knows no elapsed cycles and no stalls."""

    def __init__(self, params: MacTileParams) -> None:
        self.params = params

    def matmul(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Counters]:
        return exact.matmul(a, b), count_product(a, b, self.params)


def load_engine(name: str, design: Design) -> Engine:
    """The engine ``name`` of `ENGINES` for ``design``; "rtl" builds its model first."""
    return load(design) if name == "rtl" else GoldenEngine(design.params)

"""What runs matrix products: the RTL, or the golden model alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from skiptile.gen.design import Design
from skiptile.gen.kinds import products_of
from skiptile.golden import exact
from skiptile.golden.counters import Counters
from skiptile.sim.model import load


class Engine(Protocol):
    """Multiplies matrices on one design."""

    def matmul(self, a: np.ndarray, b: Any, shift: int = 0, **options: Any) -> tuple[np.ndarray, Counters]:
        """``a @ b`` of bit patterns (M, K) and (K, N), and what it took; options as of the kind's jobs."""
        ...


class GoldenEngine:
    """The golden model as an engine; it knows elapsed cycles and stalls only where they are the cycles."""

    def __init__(self, design: Design) -> None:
        self._params, self._products = design.params, products_of(design.kind)

    def matmul(self, a: np.ndarray, b: Any, shift: int = 0, **options: Any) -> tuple[np.ndarray, Counters]:
        counters = self._products.count(a, b, self._params, **options)
        product = exact.product(*self._products.operands(a, b), self._params.arithmetic, shift)
        return product.results, replace(counters, overflow=exact.count_overflow(product.flags))


ENGINES: dict[str, Callable[[Design], Engine]] = {"rtl": load, "golden": GoldenEngine}
"""By name; "rtl" builds its model first."""

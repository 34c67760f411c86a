"""The kinds of hardware that a design file can ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skiptile.golden import tasd_unit_cases
from skiptile.golden.counters import Counters
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import random_case
from skiptile.golden.mac_tile_jobs import TileJobs, count_product
from skiptile.golden.tasd_unit import TasdUnitParams
from skiptile.hw.hierarchy import Top
from skiptile.hw.mac_tile import MacTile
from skiptile.hw.tasd_unit import TasdUnit


@dataclass(frozen=True)
class Products:
    """How a kind of block multiplies matrices.

    Attributes:
        jobs: ``(a, b, params, shift)`` to the jobs of a product; `TileJobs` says what they offer.
        count: ``(a, b, params)`` to what golden counts for that product.
    """

    jobs: type[Any]
    count: Callable[[Any, Any, Any], Counters]


@dataclass(frozen=True)
class Kind:
    """A kind of block.

    Attributes:
        params: class of its parameter object, the table of its design file.
        component: class of its RTL, made from the parameters.
        products: how it multiplies matrices; None if it does not.
        random_case: ``(params, jobs, seed)`` to golden vectors: the input payloads of random jobs and the
            output payloads that must follow, per field an array (beats, *shape). A field of the output
            that depends on timing is left out.
        description: one line.
    """

    params: type[Any]
    component: type[Top]
    products: Products | None
    random_case: Callable[[Any, int, int], tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]
    description: str


KINDS = {
    "mac-tile": Kind(
        MacTileParams,
        MacTile,
        Products(TileJobs, count_product),
        random_case,
        "sparse-skipping MAC tile (TensorDash), or its dense sister",
    ),
    "tasd-unit": Kind(
        TasdUnitParams,
        TasdUnit,
        None,
        tasd_unit_cases.random_case,
        "the n largest of each block of m, one per cycle (TASD)",
    ),
}


def products_of(kind: str) -> Products:
    """How blocks of ``kind`` multiply matrices.

    Raises:
        ValueError: they do not.
    """
    products = KINDS[kind].products
    if products is None:
        raise ValueError(f"a design of kind {kind!r} does not multiply matrices")
    return products

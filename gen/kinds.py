"""The kinds of hardware that a design file can ask for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skiptile.golden import (
    mac_tile_cases,
    mac_tile_jobs,
    systolic_tile_cases,
    systolic_tile_jobs,
    tasd_unit_cases,
)
from skiptile.golden.counters import Counters
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.systolic_tile import SystolicTileParams
from skiptile.golden.tasd_unit import TasdUnitParams
from skiptile.hw.hierarchy import Top
from skiptile.hw.mac_tile import MacTile
from skiptile.hw.systolic_tile import SystolicTile
from skiptile.hw.tasd_unit import TasdUnit


@dataclass(frozen=True)
class Products:
    """How a kind of block multiplies matrices.

    Attributes:
        jobs: ``(a, b, params, shift, **options)`` to the jobs of a product; `TileJobs` says what they offer.
        count: ``(a, b, params, **options)`` to what golden counts for that product.
        side: ``(products, params)``, pairs (a, b) of the formats of ``params``, to the operand that is better
            at port b: "b", or "a", transposed.
        options: for any operands, whatever their zeros.
        operands: ``(a, b)``, ``b`` in any form that the jobs take, to two arrays with the same product.
    """

    jobs: type[Any]
    count: Callable[..., Counters]
    side: Callable[[Any, Any], str]
    options: Mapping[str, Any] = field(default_factory=dict)
    operands: Callable[[Any, Any], tuple[np.ndarray, np.ndarray]] = lambda a, b: (a, b)


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
        Products(mac_tile_jobs.TileJobs, mac_tile_jobs.count_product, mac_tile_jobs.sparser_side),
        mac_tile_cases.random_case,
        "sparse-skipping MAC tile (TensorDash), or its dense sister",
    ),
    "systolic-tile": Kind(
        SystolicTileParams,
        SystolicTile,
        Products(
            systolic_tile_jobs.SystolicJobs,
            systolic_tile_jobs.count_product,
            systolic_tile_jobs.quicker_side,
            {"lossless": True},
            systolic_tile_jobs.dense_operands,
        ),
        systolic_tile_cases.random_case,
        "systolic tile: weight- or output-stationary, N:M weights, tile-wise gather",
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

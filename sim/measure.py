"""Measuring a workload on a design, layer by layer and pass by pass, beside the dense tile."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skiptile.gen.design import Design
from skiptile.gen.kinds import products_of
from skiptile.golden import exact
from skiptile.golden.counters import Counters
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.workloads import LayerTensors, Workload, zeros
from skiptile.sim.engines import ENGINES, Engine

Progress = Callable[[float, int, str], None]
"""Called with passes done, passes in all, and a word on what is being done."""

Product = tuple[np.ndarray, np.ndarray]
Count = Callable[[np.ndarray, np.ndarray, MacTileParams], Counters]

SUMMED = (
    "dense_cycles",
    "cycles",
    "ideal_cycles",
    "ideal_capped_cycles",
    "real_cycles",
    "dense_elapsed",
    "elapsed",
)


class WorkloadError(ValueError):
    """A workload that does not fit the design."""


@dataclass(frozen=True)
class _Tiles:
    """A sparse tile, the dense one of the same geometry unless it is one, and what golden counts."""

    params: MacTileParams
    sparse: Engine
    dense: Engine | None
    count: Count
    compares: bool


def measure(
    workload: Workload, design: Design, *, engine: str = "rtl", progress: Progress | None = None
) -> dict[str, Any]:
    """Run every layer and pass of ``workload`` on ``design`` and on its dense sister.

    Per layer and pass the operand with more zeros goes to the scheduled port; the job is transposed
    where that is ``a``.

    Returns:
        The results of ``skiptile run --json``; docs/results-format.md says what each key means.

    Raises:
        WorkloadError: a reduction longer than the accumulators hold, named by layer and pass; or a design
            that does not multiply matrices.
    """
    params = design.params
    try:
        count = products_of(design.kind).count
    except ValueError as error:
        raise WorkloadError(f"{design.name}: {error}") from error
    jobs = [
        (real, quantised, name)
        for real, quantised in ((layer, layer.quantised()) for layer in workload.layers)
        for name in quantised.pass_names
    ]
    for _, quantised, name in jobs:
        _check_reduction(quantised, name, params)
    if progress is not None:
        progress(0, len(jobs), "building the models" if engine == "rtl" else "")
    tiles = _load_tiles(design, engine, count)
    rows: list[dict[str, Any]] = []
    for index, (real, quantised, name) in enumerate(jobs):
        what = f"{quantised.step} {quantised.layer} {name}".strip()

        def report(share: float, done: int = index, what: str = what) -> None:
            if progress is not None:
                progress(done + share, len(jobs), what)

        rows.append(_measure_pass(real, quantised, name, tiles, report))
    names = dict.fromkeys(row["pass"] for row in rows)
    return {
        "design": design.name,
        "workload": workload.name,
        "engine": engine,
        "facts": dict(workload.facts),
        "geometry": _geometry(params),
        "layers": rows,
        "passes": {name: _total([row for row in rows if row["pass"] == name]) for name in names},
        "total": _total(rows),
    }


def _load_tiles(design: Design, engine: str, count: Count) -> _Tiles:
    params = design.params
    make = ENGINES[engine]
    dense = None
    if params.lookahead:
        dense = make(replace(design, name="dense", params=params.dense))
    return _Tiles(params, make(design), dense, count, compares=engine == "rtl")


def _check_reduction(layer: LayerTensors, name: str, params: MacTileParams) -> None:
    k = layer.lowered(name).products[0][0].shape[1]
    if k > params.max_reduction:
        raise WorkloadError(
            f"layer {layer.layer!r}, pass {name}: a reduction of {k} products exceeds the design's "
            f"max_reduction = {params.max_reduction}"
        )


def _geometry(params: MacTileParams) -> dict[str, Any]:
    table = params.to_dict()
    sparsity = table.pop("sparsity", None)
    return {**table, **(sparsity if isinstance(sparsity, dict) else {"lookahead": 0})}


def _measure_pass(
    real: LayerTensors,
    quantised: LayerTensors,
    name: str,
    tiles: _Tiles,
    report: Callable[[float], None],
) -> dict[str, Any]:
    lowered, real_products = quantised.lowered(name), real.lowered(name).products
    zeros_a, zeros_b = _zeros(lowered.products)
    zeros_a_real, zeros_b_real = _zeros(real_products)
    side = "a" if (zeros_a or 0) > (zeros_b or 0) else "b"

    (m, k), n = lowered.products[0][0].shape, lowered.products[0][1].shape[1]
    sparse, dense = Counters(elapsed=0), Counters(elapsed=0)
    golden, golden_real = Counters(ideal_cycles=0, ideal_capped_cycles=0), Counters()
    matches = True
    groups = len(lowered.products)
    for group, (product, real_product) in enumerate(zip(lowered.products, real_products, strict=True)):
        report(group / groups)
        a, b = _oriented(product, side)
        wanted, counted = exact.matmul(a, b), tiles.count(a, b, tiles.params)
        golden += counted
        golden_real += tiles.count(*_oriented(_mask(real_product), side), tiles.params)
        result, counters = tiles.sparse.matmul(a, b)
        matches &= np.array_equal(result, wanted)
        for what in ("cycles", "steps", "effectual"):
            matches &= getattr(counters, what) == getattr(counted, what)
        sparse += counters
        report((group + 0.5) / groups)
        if tiles.dense is not None:
            result, counters = tiles.dense.matmul(a, b)
            matches &= np.array_equal(result, wanted) and counters.cycles == counted.steps
        dense += counters
    report(1)
    slots = sparse.cycles * tiles.params.rows * tiles.params.lanes
    return {
        "step": quantised.step,
        "layer": quantised.layer,
        "pass": name,
        "groups": len(lowered.products),
        "m": m,
        "k": k,
        "n": n,
        "zeros_a": zeros_a,
        "zeros_b": zeros_b,
        "zeros_a_real": zeros_a_real,
        "zeros_b_real": zeros_b_real,
        "side": side,
        "dense_cycles": dense.cycles,
        "cycles": sparse.cycles,
        "ideal_cycles": golden.ideal_cycles,
        "ideal_capped_cycles": golden.ideal_capped_cycles,
        "real_cycles": golden_real.cycles,
        "dense_elapsed": dense.elapsed,
        "elapsed": sparse.elapsed,
        "speedup": _ratio(dense.cycles, sparse.cycles),
        "real_speedup": _ratio(dense.cycles, golden_real.cycles),
        "utilisation": _ratio(sparse.effectual, slots),
        "exact": matches if tiles.compares and sparse.cycles else None,
    }


def _zeros(products: Iterable[Product]) -> tuple[float | None, float | None]:
    """Fraction of zeros in the first and in the second operands of ``products``, None if they are empty."""
    first, second = (np.concatenate([a.ravel() for a in arrays]) for arrays in zip(*products, strict=True))
    return zeros(first) if first.size else None, zeros(second) if second.size else None


def _oriented(product: Product, side: str) -> Product:
    """The product whose ``b`` is the operand ``side``: c = a @ b, or its transpose."""
    a, b = product
    return (a, b) if side == "b" else (b.T, a.T)


def _mask(product: Product) -> Product:
    """int8 operands with the zeros of real ones."""
    a, b = product
    return (a != 0).astype(np.int8), (b != 0).astype(np.int8)


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {key: _sum(row[key] for row in rows) for key in SUMMED}
    verdicts = [row["exact"] for row in rows if row["exact"] is not None]
    return {
        **sums,
        "speedup": _ratio(sums["dense_cycles"], sums["cycles"]),
        "real_speedup": _ratio(sums["dense_cycles"], sums["real_cycles"]),
        "exact": all(verdicts) if verdicts else None,
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _ratio(numerator: int | None, denominator: int | None) -> float | None:
    """A quotient, None where it has no meaning."""
    return None if numerator is None or not denominator else numerator / denominator

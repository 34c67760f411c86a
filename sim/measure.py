"""Measuring a workload on a design, layer by layer and pass by pass, beside the dense tile."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skiptile.gen.design import Design
from skiptile.golden import exact
from skiptile.golden.counters import Counters
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_jobs import count_product
from skiptile.golden.workloads import LayerTensors, Workload, zeros
from skiptile.sim.engines import Engine, load_engine

Progress = Callable[[float, int, str], None]
"""Called with passes done, passes in all, and a word on what is being done."""

Product = tuple[np.ndarray, np.ndarray]

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
    """A sparse tile and the dense one of the same geometry."""

    params: MacTileParams
    sparse: Engine
    dense: Engine
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
        WorkloadError: a reduction longer than the accumulators hold, named by layer and pass.
    """
    params = design.params
    jobs = [
        (real, quantised, name)
        for real, quantised in ((layer, layer.quantised()) for layer in workload.layers)
        for name in quantised.pass_names
    ]
    for _, quantised, name in jobs:
        _check_reduction(quantised, name, params)
    tiles = _load_tiles(design, engine)
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


def _load_tiles(design: Design, engine: str) -> _Tiles:
    params = design.params
    sparse = load_engine(engine, design)
    if params.lookahead:
        dense = load_engine(engine, replace(design, name=f"{design.name}_dense", params=params.dense))
    else:
        dense = sparse
    return _Tiles(params, sparse, dense, compares=engine == "rtl")


def _check_reduction(layer: LayerTensors, name: str, params: MacTileParams) -> None:
    k = layer.lowered(name).products[0][0].shape[1]
    if k > params.max_reduction:
        raise WorkloadError(
            f"layer {layer.layer!r}, pass {name}: a reduction of {k} products exceeds the design's "
            f"max_reduction = {params.max_reduction}"
        )


def _geometry(params: MacTileParams) -> dict[str, Any]:
    interconnect = params.interconnect if params.lookahead else "none"
    if not isinstance(interconnect, str):
        interconnect = " ".join(f"[{step},{offset}]" for step, offset in interconnect)
    return {
        "rows": params.rows,
        "columns": params.columns,
        "lanes": params.lanes,
        "lookahead": params.lookahead,
        "interconnect": interconnect,
        "format": params.format,
        "side": params.side,
    }


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
    side = "a" if zeros_a > zeros_b else "b"

    (m, k), n = lowered.products[0][0].shape, lowered.products[0][1].shape[1]
    sparse, dense = Counters(elapsed=0), Counters(elapsed=0)
    golden, golden_real = Counters(ideal_cycles=0, ideal_capped_cycles=0), Counters()
    matches = True
    groups = len(lowered.products)
    for group, (product, real_product) in enumerate(zip(lowered.products, real_products, strict=True)):
        report(group / groups)
        a, b = _oriented(product, side)
        wanted, counted = exact.matmul(a, b), count_product(a, b, tiles.params)
        golden += counted
        golden_real += count_product(*_oriented(_mask(real_product), side), tiles.params)
        result, counters = tiles.sparse.matmul(a, b)
        matches &= np.array_equal(result, wanted)
        matches &= (counters.cycles, counters.effectual) == (counted.cycles, counted.effectual)
        sparse += counters
        report((group + 0.5) / groups)
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
        "exact": matches if tiles.compares else None,
    }


def _zeros(products: Iterable[Product]) -> tuple[float, float]:
    """Fraction of zeros in the first and in the second operands of ``products``."""
    first, second = (np.concatenate([a.ravel() for a in arrays]) for arrays in zip(*products, strict=True))
    return zeros(first), zeros(second)


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
    verdicts = [row["exact"] for row in rows]
    return {
        **sums,
        "speedup": _ratio(sums["dense_cycles"], sums["cycles"]),
        "real_speedup": _ratio(sums["dense_cycles"], sums["real_cycles"]),
        "exact": None if None in verdicts else all(verdicts),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _ratio(numerator: int | None, denominator: int | None) -> float | None:
    """A quotient, None where it has no meaning."""
    return None if numerator is None or not denominator else numerator / denominator

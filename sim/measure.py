"""Measuring a workload on a design, layer by layer and pass by pass, beside the dense tile."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skiptile.gen.design import LONGEST_NAME, Design
from skiptile.gen.kinds import Products, products_of
from skiptile.golden import exact
from skiptile.golden.counters import Counters
from skiptile.golden.formats import FORMATS
from skiptile.golden.quantise import tensor_formats
from skiptile.golden.workloads import LayerTensors, QuantisedTensors, Workload, zeros
from skiptile.sim.engines import ENGINES, Engine

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
    "overflow",
)


class WorkloadError(ValueError):
    """A workload that does not fit the design."""


@dataclass(frozen=True)
class _Tiles:
    """A tile, the dense one of the same geometry unless it is one, and how its kind multiplies."""

    design: Design
    sparse: Engine
    dense: Engine | None
    products: Products
    compares: bool

    @property
    def params(self) -> Any:
        return self.design.params

    def count(self, a: np.ndarray, b: np.ndarray) -> Counters:
        """What golden counts."""
        return self.products.count(a, b, self.params, **self.products.options)


@dataclass(frozen=True)
class _Sisters:
    """The given design and those for other operands, made when a pass needs them."""

    design: Design
    engine: str
    products: Products
    made: dict[tuple[str, str], _Tiles] = field(default_factory=dict)

    def builds(self, formats: tuple[str, str]) -> bool:
        """Whether `tiles` will take its time."""
        return self.engine == "rtl" and formats not in self.made

    def tiles(self, formats: tuple[str, str]) -> _Tiles:
        if formats not in self.made:
            self.made[formats] = _load_tiles(sister(self.design, *formats), self.engine, self.products)
        return self.made[formats]


def sister(design: Design, format_a: str, format_b: str) -> Design:
    """The design for operands of other formats, in the same geometry."""
    params = design.params
    if (format_a, format_b) == (params.format, params.format_b):
        return design
    suffix = "".join(f"_{format.removeprefix('float8_')}" for format in dict.fromkeys((format_a, format_b)))
    name = design.name[: LONGEST_NAME - len(suffix)].rstrip("_") + suffix
    return replace(design, name=name, params=params.with_formats(format_a, format_b))


def measure(
    workload: Workload,
    design: Design,
    *,
    formats: str | None = None,
    engine: str = "rtl",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run every layer and pass of ``workload`` on ``design`` and on its dense sister.

    Per layer and pass the operand that is better there goes to port b (`Products.side`); the job is
    transposed where that is ``a``. A port has one format, so passes may need sisters of the design
    (`sister`).

    Args:
        formats: a scheme of `golden.quantise.tensor_formats`; None: activations and weights have the
            design's ``format``, gradients its ``format_b``.

    Returns:
        The results of ``skiptile run --json``; docs/results-format.md says what each key means.

    Raises:
        WorkloadError: a reduction longer than the accumulators hold, named by layer and pass; a design
            that does not multiply matrices; formats that are unknown.
    """
    params = design.params
    try:
        sisters = _Sisters(design, engine, products_of(design.kind))
        chosen = tensor_formats(formats or params.format)
    except ValueError as error:
        raise WorkloadError(f"{design.name}: {error}") from error
    if formats is None:
        chosen["gradient"] = params.format_b
    try:
        layers = [(layer, layer.quantised(chosen)) for layer in workload.layers]
    except ValueError as error:
        raise WorkloadError(str(error)) from error
    jobs = [(real, quantised, name) for real, quantised in layers for name in real.pass_names]
    for real, _, name in jobs:
        _check_reduction(real, name, params)
    rows: list[dict[str, Any]] = []
    for index, (real, quantised, name) in enumerate(jobs):
        what = f"{real.step} {real.layer} {name}".strip()

        def report(share: float, doing: str = "", done: int = index, what: str = what) -> None:
            if progress is not None:
                progress(done + share, len(jobs), f"{what}{doing}")

        rows.append(_measure_pass(real, quantised, name, sisters, report))
    names = dict.fromkeys(row["pass"] for row in rows)
    return {
        "design": design.name,
        "kind": design.kind,
        "workload": workload.name,
        "engine": engine,
        "formats": chosen,
        "facts": dict(workload.facts),
        "geometry": _geometry(params),
        "layers": rows,
        "passes": {name: _total([row for row in rows if row["pass"] == name]) for name in names},
        "total": _total(rows),
    }


def _load_tiles(design: Design, engine: str, products: Products) -> _Tiles:
    params = design.params
    make = ENGINES[engine]
    dense = None
    if not params.is_dense:
        dense = make(replace(design, name="dense", params=params.dense))
    return _Tiles(design, make(design), dense, products, compares=engine == "rtl")


def _check_reduction(layer: LayerTensors, name: str, params: Any) -> None:
    k = layer.lowered(name).products[0][0].shape[1]
    if k > params.max_reduction:
        raise WorkloadError(
            f"layer {layer.layer!r}, pass {name}: a reduction of {k} products exceeds the design's "
            f"max_reduction = {params.max_reduction}"
        )


def _geometry(params: Any) -> dict[str, Any]:
    table = params.to_dict()
    for key in params.ARITHMETIC_KEYS:  # sisters have others: see "formats"
        table.pop(key, None)
    return {**table, **table.pop("sparsity", {})}


@dataclass
class _Error:
    """Of results against float64: the norm of the difference over the norm."""

    difference: float = 0.0
    norm: float = 0.0

    def add(self, got: np.ndarray, wanted: np.ndarray) -> None:
        self.difference += float(np.sum((got - wanted) ** 2))
        self.norm += float(np.sum(wanted**2))

    @property
    def finite(self) -> bool:
        """Whether all results were."""
        return bool(np.isfinite(self.difference))

    @property
    def relative(self) -> float | None:
        """None where it is not defined or not finite."""
        return float(np.sqrt(self.difference / self.norm)) if self.norm and self.finite else None


def _measure_pass(
    real: LayerTensors,
    quantised: QuantisedTensors,
    name: str,
    sisters: _Sisters,
    report: Callable[..., None],
) -> dict[str, Any]:
    products, real_products = quantised.tensors.lowered(name).products, real.lowered(name).products
    formats = quantised.operand_formats(name)
    zeros_a, zeros_b = _zeros(products, formats)
    zeros_a_real, zeros_b_real = _zeros(real_products)
    given = sisters.design.params.with_formats(*formats)
    side = sisters.products.side(products, given)
    operands = formats if side == "b" else (formats[1], formats[0])
    report(0, ": building its models" if sisters.builds(operands) else "")
    tiles = sisters.tiles(operands)
    params, arithmetic = tiles.params, tiles.params.arithmetic

    (m, k), n = products[0][0].shape, products[0][1].shape[1]
    sparse, dense = Counters(elapsed=0), Counters(elapsed=0)
    golden, golden_real = Counters(ideal_cycles=0, ideal_capped_cycles=0), Counters()
    matches, error = True, _Error()
    groups = len(products)
    for group, (product, real_product) in enumerate(zip(products, real_products, strict=True)):
        report(group / groups)
        a, b = _oriented(product, side)
        real_a, real_b = _oriented(real_product, side)
        shift = exact.least_shift(a, b, arithmetic)
        wanted, counted = exact.product(a, b, arithmetic, shift), tiles.count(a, b)
        golden += counted
        golden_real += tiles.count(_mask(real_a, arithmetic.a.dtype), _mask(real_b, arithmetic.b.dtype))
        result, counters = tiles.sparse.matmul(a, b, shift, **tiles.products.options)
        matches &= np.array_equal(result, wanted.results)
        matches &= counters.overflow == exact.count_overflow(wanted.flags)
        for what in ("cycles", "steps", "effectual"):
            matches &= getattr(counters, what) == getattr(counted, what)
        error.add(
            exact.decode(result, arithmetic, shift) * quantised.scale(name),
            real_a.astype(np.float64) @ real_b.astype(np.float64),
        )
        sparse += counters
        report((group + 0.5) / groups)
        if tiles.dense is not None:
            result, counters = tiles.dense.matmul(a, b, shift, **tiles.products.options)
            matches &= np.array_equal(result, wanted.results) and counters.cycles == counted.steps
        dense += counters
    report(1)
    slots = sparse.cycles * params.pairs_per_cycle
    return {
        "step": real.step,
        "layer": real.layer,
        "pass": name,
        "design": tiles.design.name,
        "format_a": formats[0],
        "format_b": formats[1],
        "groups": groups,
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
        "finite": error.finite,
        "error": error.relative,
        "overflow": sparse.overflow,
        "exact": matches if tiles.compares and sparse.cycles else None,
    }


def _zeros(
    products: Iterable[Product], formats: tuple[str, str] | None = None
) -> tuple[float | None, float | None]:
    """Fraction of zeros in the first and in the second operands of ``products``, None if they are empty."""
    shares = []
    for index, arrays in enumerate(zip(*products, strict=True)):
        operands = np.concatenate([operand.ravel() for operand in arrays])
        if formats is not None:
            operands = ~FORMATS[formats[index]].is_zero(operands)
        shares.append(zeros(operands) if operands.size else None)
    return shares[0], shares[1]


def _oriented(product: Product, side: str) -> Product:
    """The product whose ``b`` is the operand ``side``: c = a @ b, or its transpose."""
    a, b = product
    return (a, b) if side == "b" else (b.T, a.T)


def _mask(operand: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Bit patterns with the zeros of real numbers: the pattern 1 is none in any format."""
    return (operand != 0).astype(dtype)


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {key: _sum(row[key] for row in rows) for key in SUMMED}
    verdicts = [row["exact"] for row in rows if row["exact"] is not None]
    return {
        **sums,
        "speedup": _ratio(sums["dense_cycles"], sums["cycles"]),
        "real_speedup": _ratio(sums["dense_cycles"], sums["real_cycles"]),
        "error": _worst(rows),
        "exact": all(verdicts) if verdicts else None,
    }


def _worst(rows: list[dict[str, Any]]) -> float | None:
    """The largest error; None where none is known, or one is beyond all numbers."""
    if not all(row["finite"] for row in rows):
        return None
    return max((row["error"] for row in rows if row["error"] is not None), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _ratio(numerator: int | None, denominator: int | None) -> float | None:
    """A quotient, None where it has no meaning."""
    return None if numerator is None or not denominator else numerator / denominator

"""Which window bfloat16 products need: errors on the digits workload, beside a float32 chain; and the area.

Errors are of results rounded to float32, against the unbounded sum of the same bfloat16 operands: norm of
the difference over the norm, the worst of all layers and passes. The weight, activation and gradient of
each product are as training has them; a loss scale multiplies gradients by a power of two.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from area import element_gates
from measuring import print_table

from skiptile.golden import exact
from skiptile.golden.arithmetic import Arithmetic
from skiptile.golden.formats import FORMATS
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.quantise import tensor_formats
from skiptile.golden.workloads import WORKLOADS, Workload

BFLOAT16, FLOAT32 = FORMATS["bfloat16"], FORMATS["float32"]
LOSS_SCALES = (0, 10, 16, 22)  # powers of two
WINDOWS = [(15, -16), (15, -24), (15, -32), (15, -40), (15, -48), (15, -56), (31, -32), (31, -48), (47, -64)]

Product = tuple[np.ndarray, np.ndarray]


def products(workload: Workload, loss_scale: int) -> Iterator[Product]:
    """Operands of all layers and passes, as bfloat16 patterns."""
    for layer in workload.layers:
        assert layer.gradient is not None
        scaled = replace(layer, gradient=layer.gradient * np.float32(2.0**loss_scale))
        for name in layer.pass_names:
            yield from scaled.quantised(tensor_formats("bfloat16")).tensors.lowered(name).products


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` with a float32 accumulator, in the order of K; the products themselves are exact."""
    x, y = (BFLOAT16.decode(operand).astype(np.float32) for operand in (a, b))
    total = np.zeros((len(x), y.shape[1]), np.float32)
    for k in range(x.shape[1]):
        total += x[:, k, None] * y[k]
    return total.astype(np.float64)


def relative(got: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def measure(operands: list[Product]) -> tuple[dict[str, float], dict[str, int]]:
    """The worst error of each way to accumulate, and how many results overflowed."""
    errors: dict[str, float] = {}
    overflows: dict[str, int] = {}

    def note(name: str, error: float, overflow: int) -> None:
        errors[name] = max(errors.get(name, 0.0), error)
        overflows[name] = overflows.get(name, 0) + overflow

    for a, b in operands:
        unbounded = Arithmetic(
            format="bfloat16", accumulator="exact", out="float32", max_reduction=a.shape[1]
        )
        wanted = exact.decode(exact.product(a, b, unbounded).results, unbounded)
        for window in WINDOWS:
            product = exact.product(a, b, replace(unbounded, accumulator=window))
            got = FLOAT32.decode(product.results)
            kept = np.isfinite(got)
            error = relative(got[kept], wanted[kept]) if kept.any() else float("inf")
            note(str(window), error, exact.count_overflow(product.flags))
        order = np.random.default_rng(0).permutation(a.shape[1])
        note("chain", relative(chain(a, b), wanted), 0)
        note("shuffled", relative(chain(a[:, order], b[order]), wanted), 0)
    return errors, overflows


def main() -> None:
    workload = WORKLOADS["digits-cnn"]()
    measured = [measure(list(products(workload, scale))) for scale in LOSS_SCALES]
    element = MacTileParams(rows=1, columns=1, lanes=16, lookahead=0, format="bfloat16")
    gates = {window: element_gates(replace(element, accumulator=window)) for window in WINDOWS}
    default = gates[element.accumulator]  # type: ignore[index]

    def cells(name: str) -> list[str]:
        return [
            f"{errors[name]:.0e}" + (f" ({overflows[name]:,} overflow)" if overflows[name] else "")
            for errors, overflows in measured
        ]

    rows: list[tuple[object, ...]] = [
        (f"2^{msb} .. 2^{lsb}", msb - lsb + 1, *cells(str((msb, lsb))), f"{gates[msb, lsb] / default:.2f}")
        for msb, lsb in WINDOWS
    ]
    rows.append(("float32 chain", "", *cells("chain"), ""))
    rows.append(("the same, shuffled", "", *cells("shuffled"), ""))
    print_table(
        "Worst relative error by window, bfloat16, digits workload; area of a dense element of 16 lanes:",
        ("window", "bits", *(f"loss scale 2^{scale}" for scale in LOSS_SCALES), "area"),
        rows,
    )


if __name__ == "__main__":
    main()

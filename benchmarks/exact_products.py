"""How fast golden multiplies exactly: million products per second, for every pair of operand formats."""

import numpy as np
from measuring import machine, print_table, seconds

from skiptile.golden import exact
from skiptile.golden.formats import FORMATS, FloatFormat
from skiptile.golden.quantise import quantise

M, K, N = 256, 2048, 256
PAIRS = [
    ("int8", "int8", None),
    ("int16", "int16", None),
    ("float8_e4m3fn", "float8_e4m3fn", None),
    ("float8_e4m3fn", "float8_e5m2", None),
    ("float8_e5m2", "float8_e5m2", None),
    ("float16", "float16", None),
    ("bfloat16", "bfloat16", None),
    ("bfloat16", "bfloat16", "exact"),
    ("bfloat16", "float16", None),
]


def main() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    rows = []
    for format_a, format_b, accumulator in PAIRS:
        a, b = quantise(x, format_a)[0], quantise(y, format_b)[0]
        out = "float32" if isinstance(FORMATS[format_a], FloatFormat) else "raw"

        def multiply(a=a, b=b, options=(format_a, format_b, out, accumulator)) -> np.ndarray:
            return exact.matmul(a, b, *options)

        multiply()  # compiles
        million = M * K * N / 1e6
        window = accumulator or "default"
        rows.append((f"`{format_a}`", f"`{format_b}`", window, f"{million / seconds(multiply):,.0f}"))
    print_table(
        f"Million products per second, {M} x {K} x {N} ({machine()}):",
        ("a", "b", "window", "million/s"),
        rows,
    )


if __name__ == "__main__":
    main()

"""Area of one element per format: cells of generic gates after Yosys' `synth`, dense and sparse.

"element" is the processing element alone, 16 lanes, with its operand muxes where it is sparse; "tile" the
whole 1x1 tile with scheduler, window, read-out and counters.
"""

from typing import Any

from measuring import print_table, statistics_of

from skiptile.golden.mac_tile import MacTileParams

PAIRS = [
    ("int8", "int8"),
    ("int16", "int16"),
    ("float4_e2m1fn", "float4_e2m1fn"),
    ("float6_e2m3fn", "float6_e2m3fn"),
    ("float6_e3m2fn", "float6_e3m2fn"),
    ("float8_e4m3fn", "float8_e4m3fn"),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float8_e5m2", "float8_e5m2"),
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
]


def gates(params: Any, module: str, kind: str = "mac-tile") -> int:
    """Cells of ``module`` in the design ``t`` of ``kind``, all that is in it included."""
    return statistics_of(params, f"synth -flatten -top {module}", kind)["num_cells"]


def element_gates(params: MacTileParams) -> int:
    """Cells of one element."""
    return gates(params, "t__element")


def main() -> None:
    rows = []
    for format, format_b in PAIRS:
        options = {"rows": 1, "columns": 1, "lanes": 16, "format": format, "format_b": format_b}
        dense, sparse = (MacTileParams(**options, lookahead=lookahead) for lookahead in (0, 2))
        elements = [element_gates(params) for params in (dense, sparse)]
        tiles = [gates(params, "t") for params in (dense, sparse)]
        name = format if format == format_b else f"{format} × {format_b}"
        window = dense.arithmetic.accumulator_bits
        ratios = [f"{sparse / dense:.2f}" for dense, sparse in (elements, tiles)]
        rows.append(
            (
                f"`{name}`",
                window,
                *(f"{n:,}" for n in elements),
                ratios[0],
                *(f"{n:,}" for n in tiles),
                ratios[1],
            )
        )
    print_table(
        "Generic gates, 16 lanes, `tensordash`:",
        ("format", "accumulator bits", "element dense", "sparse", "ratio", "tile dense", "sparse", "ratio"),
        rows,
    )


if __name__ == "__main__":
    main()

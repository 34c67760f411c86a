"""What sparsity adds to a 4x4 tile of 16 lanes on ECP5: LUT4 + 2 per carry cell, over dense.

    python benchmarks/sparse_area.py [area.json]

Modules that a tile has many times are synthesised once (`synth_ecp5 -noflatten`): minutes for all of it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import print_table, statistics_of

from skiptile.gen.netlist import count_types
from skiptile.gen.targets import TARGETS
from skiptile.golden.files import write_atomically
from skiptile.golden.mac_tile import MacTileParams

FORMATS = {
    "int8": {"format": "int8"},
    "bfloat16, 64 bits": {"format": "bfloat16", "accumulator": {"msb": 15, "lsb": -48}},
}
TILES: dict[str, dict[str, Any]] = {
    "dense": {"lookahead": 0},
    "two-level-5": {"interconnect": "two-level-5"},
    "two-level-5, 2 contexts": {"interconnect": "two-level-5", "contexts": 2},
    "two-level-7, 2 contexts": {"interconnect": "two-level-7", "lookahead": 3, "contexts": 2},
    "tensordash": {"interconnect": "tensordash"},
    "tensordash, 2 contexts": {"interconnect": "tensordash", "contexts": 2},
}


def cells(params: MacTileParams) -> dict[str, int]:
    """LUT4-equivalents, flip-flops, DSP blocks and LUT RAMs of the whole tile."""
    found = statistics_of(params, "synth_ecp5 -noflatten -top t")["num_cells_by_type"]
    counts = count_types(found, TARGETS["ecp5-85k"].cells)
    return {kind: counts[kind] or 0 for kind in ("lut", "ff", "dsp", "lutram")}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("output", type=Path, nargs="?", help="JSON of all figures")
    output = parser.parse_args(arguments).output
    results: dict[str, dict[str, dict[str, int]]] = {}
    for format_name, format_options in FORMATS.items():
        of_format = results[format_name] = {}
        for name, options in TILES.items():
            params = MacTileParams(rows=4, columns=4, lanes=16, **format_options, **options)
            of_format[name] = cells(params)
            print(f"{format_name}, {name}: {of_format[name]['lut']:,} LUTs", flush=True)
    rows = [
        (
            format_name,
            f"`{name}`",
            *(f"{count:,}" for count in counts.values()),
            f"{counts['lut'] / of_format['dense']['lut']:.2f}",
        )
        for format_name, of_format in results.items()
        for name, counts in of_format.items()
    ]
    header = ("format", "tile", "LUT4 + 2 per carry cell", "flip-flops", "DSPs", "LUT RAMs", "LUTs / dense")
    print_table("4x4 tile, 16 lanes, ECP5, by synthesis:", header, rows)
    if output:
        write_atomically(output, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()

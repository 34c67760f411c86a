"""What sparsity costs: LUTs, Fmax and throughput of 16-lane int8 tiles on ECP5-85k, dense and sparse.

    python benchmarks/synth.py cost.json                    all, about an hour
    python benchmarks/synth.py one.json --only dense1x1     one of them, or more
    python benchmarks/synth.py new.json --compare old.json  and what is different

What was placed before comes from the build cache, so a run that was stopped goes on where it was.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import print_table

from skiptile.gen.cost import report
from skiptile.gen.design import Design
from skiptile.golden.files import write_atomically
from skiptile.golden.interconnect import INTERCONNECTS
from skiptile.golden.mac_tile import MacTileParams

TARGET, SEEDS = "ecp5-85k", 3
TWO_LEVEL = ((0, 0), (1, -1), (1, 0), (2, 6), (2, -7))  # five moves that two levels decide
FIGURES = ("lut", "carry", "ff", "dsp", "lutram", "bram", "fmax_median_mhz")


def designs() -> dict[str, Design]:
    """What is measured, by name; the dense tile of a geometry first."""
    interconnects: dict[str, Any] = {
        "dense": None,
        **{name: name for name in INTERCONNECTS},
        "two-level": TWO_LEVEL,
    }
    wanted = [(1, name) for name in interconnects]
    wanted += [(2, name) for name in ("dense", "tensordash", "two-level")]
    return {f"{name}{size}x{size}": _design(name, size, interconnects[name]) for size, name in wanted}


def _design(name: str, size: int, interconnect: Any) -> Design:
    params = MacTileParams(
        rows=size,
        columns=size,
        lanes=16,
        lookahead=2 if interconnect else 0,
        interconnect=interconnect or "tensordash",
    )
    return Design(f"{name.replace('-', '_')}{size}", "mac-tile", params)


def show(results: dict[str, dict[str, Any]]) -> None:
    """The table of docs/results.md."""
    rows = []
    for name, result in results.items():
        dense = results.get(f"dense{name[-3:]}", result)
        per_lut = {key: rate["per_lut"] for key, rate in result["throughput"].items()}
        gains = (per_lut[key] / dense["throughput"][key]["per_lut"] for key in list(per_lut)[1:])
        frequencies = result["fmax_mhz"]
        row = (
            f"`{name}`",
            f"{result['lut']:,}",
            f"{result['lut'] / dense['lut']:.2f}",
            f"{result['ff']:,}",
            result["dsp"],
            f"{result['fmax_median_mhz']:.0f} ({min(frequencies):.0f} .. {max(frequencies):.0f})",
            *(f"{gain:.2f}" for gain in gains),
        )
        rows.append(row)
    header = ("tile", "LUTs", "/ dense", "flip-flops", "DSPs", "Fmax, MHz")
    gains = ("products/s per LUT at 50 % zeros / dense", "70 %", "90 %")
    print_table(f"int8, 16 lanes, {TARGET}, median of {SEEDS} seeds:", (*header, *gains), rows)


def compare(results: dict[str, dict[str, Any]], old: dict[str, dict[str, Any]]) -> None:
    """What is different from an earlier run."""
    rows = [
        (f"`{name}`", key, old[name][key], results[name][key])
        for name in results
        if name in old
        for key in FIGURES
        if old[name][key] != results[name][key]
    ]
    print_table("Changed:", ("tile", "figure", "before", "now"), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What sparsity costs on an FPGA.")
    parser.add_argument("output", type=Path, help="JSON of all figures")
    parser.add_argument("--only", action="append", choices=list(designs()), help="may be given again")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="show what changed since")
    options = parser.parse_args(arguments)
    old = json.loads(options.compare.read_text()) if options.compare else {}
    results = {}
    for name, design in designs().items():
        if options.only and name not in options.only:
            continue
        result = results[name] = report(design, TARGET, seeds=SEEDS)
        print(f"{name}: {result['lut']:,} LUTs, {result['fmax_median_mhz']:.0f} MHz", flush=True)
        write_atomically(options.output, (json.dumps(results, indent=1) + "\n").encode())
    show(results)
    if old:
        compare(results, old)


if __name__ == "__main__":
    main()

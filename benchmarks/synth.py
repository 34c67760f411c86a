"""What sparsity costs: LUTs, Fmax and throughput of 16-lane int8 tiles on ECP5-85k, dense and sparse.

    python benchmarks/synth.py cost.json                    all, some two hours
    python benchmarks/synth.py one.json --only dense-1x1     one of them, or more
    python benchmarks/synth.py new.json --compare old.json  and what is different

What was placed before comes from the build cache, so a run that was stopped goes on where it was.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import print_table

from skiptile.gen.cost import report
from skiptile.gen.design import Design
from skiptile.golden.files import write_atomically
from skiptile.golden.interconnect import INTERCONNECTS
from skiptile.golden.mac_tile import MacTileParams, predict_speedup

TARGET, SEEDS = "ecp5-85k", 3
MERIT_ZEROS = (0.5, 0.6, 0.7)  # random zeros over which the figure of merit is a mean
SHOWN_ZEROS = (0.5, 0.7, 0.9)
FIGURES = ("lut", "carry", "ff", "dsp", "lutram", "bram", "fmax_median_mhz")


def designs() -> dict[str, Design]:
    """What is measured, by name; the dense tile of a geometry first."""
    sparse = [(name, contexts) for name in INTERCONNECTS for contexts in (1, 2)]
    wanted = [(1, "dense", 1), *((1, *each) for each in sparse)]
    wanted += [(2, "dense", 1), *((2, name, 2) for name in ("tensordash", "two-level-5"))]
    return {_name(*each): _design(*each) for each in wanted}


def _name(size: int, interconnect: str, contexts: int) -> str:
    return f"{interconnect}{'' if contexts == 1 else f'-{contexts}-contexts'}-{size}x{size}"


def _design(size: int, interconnect: str, contexts: int) -> Design:
    dense = interconnect == "dense"
    params = MacTileParams(
        rows=size,
        columns=size,
        lanes=16,
        lookahead=0 if dense else 2,
        interconnect="tensordash" if dense else interconnect,
        contexts=contexts,
    )
    return Design(_name(size, interconnect, contexts).replace("-", "_"), "mac-tile", params)


def schedule_of(params: MacTileParams) -> dict[str, Any]:
    """What golden says of a tile: levels, moves, speed-up over dense by share of random zeros."""
    zeros = sorted({*SHOWN_ZEROS, *MERIT_ZEROS})
    speedup = {str(z): 1.0 if params.is_dense else predict_speedup(params, z) for z in zeros}
    return {
        "levels": 0 if params.is_dense else len(params.levels),
        "moves": len(params.moves),
        "speedup": speedup,
        "merit": statistics.mean(speedup[str(z)] for z in MERIT_ZEROS),
    }


def show(results: dict[str, dict[str, Any]]) -> None:
    """The table of docs/results.md."""
    rows = []
    for name, result in results.items():
        dense = results.get(f"dense-{name[-3:]}", result)
        schedule, frequencies = result["schedule"], result["fmax_mhz"]
        merit = schedule["merit"] * result["fmax_median_mhz"]
        gain = merit / dense["fmax_median_mhz"]  # also per DSP block: both have as many
        row = (
            f"`{name}`",
            f"{result['lut']:,}",
            f"{result['ff']:,}",
            result["dsp"],
            f"{result['fmax_median_mhz']:.0f} ({min(frequencies):.0f} .. {max(frequencies):.0f})",
            schedule["levels"] or "-",
            *(f"{schedule['speedup'][str(z)]:.2f}" for z in SHOWN_ZEROS),
            f"{merit:.0f}",
            f"{gain:.2f}",
            f"{gain * dense['lut'] / result['lut']:.2f}",
        )
        rows.append(row)
    header = ("tile", "LUTs", "flip-flops", "DSPs", "Fmax, MHz", "levels")
    speedups = tuple(f"speed-up at {z:.0%} zeros" for z in SHOWN_ZEROS)
    gains = ("speed-up x Fmax", "products/s per DSP / dense", "per LUT / dense")
    print_table(f"int8, 16 lanes, {TARGET}, median of {SEEDS} seeds:", (*header, *speedups, *gains), rows)


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
        result = report(design, TARGET, seeds=SEEDS)
        results[name] = result | {"schedule": schedule_of(design.params)}
        print(f"{name}: {result['lut']:,} LUTs, {result['fmax_median_mhz']:.0f} MHz", flush=True)
        write_atomically(options.output, (json.dumps(results, indent=1) + "\n").encode())
    show(results)
    if old:
        compare(results, old)


if __name__ == "__main__":
    main()

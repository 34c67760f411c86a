"""What sparsity costs and brings on ECP5-85k: LUTs, Fmax and throughput of tiles, dense beside sparse.

    python benchmarks/synth.py cost.json                    all, some two hours
    python benchmarks/synth.py one.json --only dense-1x1     one of them, or more
    python benchmarks/synth.py new.json --compare old.json  and what is different

What was placed before comes from the build cache, so a run that was stopped goes on where it was.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import print_table

from skiptile.gen.cost import report
from skiptile.gen.design import Design
from skiptile.golden.files import write_atomically
from skiptile.golden.interconnect import INTERCONNECTS, steps_ahead
from skiptile.golden.mac_tile import MacTileParams, predict_speedup
from skiptile.golden.systolic_tile import SystolicTileParams

TARGET = "ecp5-85k"
MERIT_ZEROS = (0.5, 0.6, 0.7)  # random zeros over which the figure of merit is a mean
SHOWN_ZEROS = (0.5, 0.7, 0.9)
FIGURES = ("lut", "carry", "ff", "dsp", "lutram", "bram", "fmax_median_mhz")
FORMATS = {
    "float8_e4m3fn": {"format": "float8_e4m3fn"},
    "bfloat16": {"format": "bfloat16", "accumulator": {"msb": 15, "lsb": -48}},  # a window of 64 bits
}


@dataclass(frozen=True)
class Tile:
    """One line of the tables: a design, the dense one that it is set against, and how often it is placed."""

    params: MacTileParams | SystolicTileParams
    dense: str
    seeds: int

    @property
    def kind(self) -> str:
        return "mac-tile" if isinstance(self.params, MacTileParams) else "systolic-tile"


def tiles() -> dict[str, Tile]:
    """What is measured, by name; each dense tile before those that are set against it."""
    every = [(name, contexts) for name in INTERCONNECTS for contexts in (1, 2)]
    some = [("tensordash", 2), ("two-level-5", 2), ("two-level-7", 2)]
    return dict(
        [
            *_mac_tiles(1, every, seeds=3),
            *_mac_tiles(2, some, seeds=3),
            *_mac_tiles(1, [*some, ("four-level-9", 2)], "float8_e4m3fn"),
            *_mac_tiles(1, [*some, ("four-level-9", 2)], "bfloat16"),
            *_systolic_tiles(8),
        ]
    )


def _mac_tiles(
    size: int, sparse: Sequence[tuple[str, int]], number_format: str = "int8", seeds: int = 1
) -> Iterator[tuple[str, Tile]]:
    suffix = f"{size}x{size}" if number_format == "int8" else f"{number_format}-{size}x{size}"
    dense = f"dense-{suffix}"
    options: dict[str, Any] = {"rows": size, "columns": size, "lanes": 16, **FORMATS.get(number_format, {})}
    yield dense, Tile(MacTileParams(**options, lookahead=0), dense, seeds)
    for interconnect, contexts in sparse:
        ahead = steps_ahead(interconnect)
        params = MacTileParams(**options, lookahead=ahead, interconnect=interconnect, contexts=contexts)
        name = interconnect if contexts == 1 else f"{interconnect}-{contexts}-contexts"
        yield f"{name}-{suffix}", Tile(params, dense, seeds)


def _systolic_tiles(size: int) -> Iterator[tuple[str, Tile]]:
    dense = f"systolic-dense-{size}x{size}"
    for name, n, m in ((dense, None, None), (f"systolic-2to4-{size}x{size}", 2, 4)):
        params = SystolicTileParams(rows=size, columns=size, dataflow="both", n=n, m=m)
        yield name, Tile(params, dense, seeds=1)


def schedule_of(params: MacTileParams | SystolicTileParams) -> dict[str, Any]:
    """What golden says of a tile: levels, moves, speed-up over dense by share of random zeros.

    A systolic tile's zeros are those that weights were pruned to, n of every m kept.
    """
    zeros = sorted({*SHOWN_ZEROS, *MERIT_ZEROS})
    if isinstance(params, SystolicTileParams):
        levels = moves = 0
        speedup = dict.fromkeys(map(str, zeros), params.block / params.kept)
    else:
        levels, moves = (0, 0) if params.is_dense else (len(params.levels), len(params.moves))
        speedup = {str(z): predict_speedup(params, z) for z in zeros}
    merit = statistics.mean(speedup[str(z)] for z in MERIT_ZEROS)
    return {"levels": levels, "moves": moves, "speedup": speedup, "merit": merit}


def show(results: Mapping[str, dict[str, Any]]) -> None:
    """The table of docs/results.md."""
    rows = []
    for name, result in results.items():
        dense = results.get(result["dense"])
        schedule, frequencies = result["schedule"], result["fmax_mhz"]
        merit = schedule["merit"] * result["fmax_median_mhz"]
        gains: tuple[str, str] = ("-", "-")
        if dense:
            gain = merit / dense["fmax_median_mhz"]  # also per DSP block: both have as many
            gains = (f"{gain:.2f}", f"{gain * dense['lut'] / result['lut']:.2f}")
        spread = f" ({min(frequencies):.0f} .. {max(frequencies):.0f})" if len(frequencies) > 1 else ""
        row = (
            f"`{name}`",
            f"{result['lut']:,}",
            f"{result['ff']:,}",
            result["dsp"],
            f"{result['fmax_median_mhz']:.0f}{spread}",
            schedule["levels"] or "-",
            *(f"{schedule['speedup'][str(z)]:.2f}" for z in SHOWN_ZEROS),
            f"{merit:.0f}",
            *gains,
        )
        rows.append(row)
    header = ("tile", "LUTs", "flip-flops", "DSPs", "Fmax, MHz", "levels")
    speedups = tuple(f"speed-up at {z:.0%} zeros" for z in SHOWN_ZEROS)
    merits = ("speed-up x Fmax", "products/s (per DSP) / dense", "per LUT / dense")
    title = f"{TARGET}; int8, 16 lanes where a name says nothing else; median of the seeds and their range:"
    print_table(title, (*header, *speedups, *merits), rows)


def compare(results: Mapping[str, dict[str, Any]], old: Mapping[str, dict[str, Any]]) -> None:
    """What is different from an earlier run."""
    rows = [
        (f"`{name}`", key, old[name][key], results[name][key])
        for name in results
        if name in old
        for key in FIGURES
        if old[name][key] != results[name][key]
    ]
    print_table("Changed:", ("tile", "figure", "before", "now"), rows)


def read_results(parser: argparse.ArgumentParser, path: Path) -> dict[str, dict[str, Any]]:
    """The figures of an earlier run."""
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"{path} can't be read: {error}")
    wanted = {*FIGURES, "fmax_mhz", "dense", "schedule"}
    if not isinstance(results, dict) or not all(
        isinstance(result, dict) and wanted <= result.keys() for result in results.values()
    ):
        parser.error(f"{path} does not hold the figures of a run")
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What sparsity costs and brings on an FPGA.")
    parser.add_argument(
        "output", type=Path, help="JSON of all figures; what it holds is replaced line by line"
    )
    parser.add_argument(
        "--only", action="append", choices=list(tiles()), help="measure this alone; may be given again"
    )
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="show what changed since")
    options = parser.parse_args(arguments)
    old = read_results(parser, options.compare) if options.compare else None
    results = read_results(parser, options.output) if options.output.exists() else {}
    if not options.output.parent.is_dir():
        parser.error(f"{options.output}: there is no folder {options.output.parent}")
    for name, tile in tiles().items():
        if options.only and name not in options.only:
            continue
        design = Design(name.replace("-", "_"), tile.kind, tile.params)
        result = report(design, TARGET, seeds=tile.seeds)
        results[name] = result | {"dense": tile.dense, "schedule": schedule_of(tile.params)}
        print(f"{name}: {result['lut']:,} LUTs, {result['fmax_median_mhz']:.0f} MHz", flush=True)
        results = {name: results[name] for name in tiles() if name in results}
        write_atomically(options.output, (json.dumps(results, indent=1) + "\n").encode())
    show(results)
    if old is not None:
        compare(results, old)


if __name__ == "__main__":
    main()

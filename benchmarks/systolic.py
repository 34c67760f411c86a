"""The systolic tile on RTL: utilisation, N:M weights, pipeline registers, TASD, area; ResNet-18 by the model.

Clock cycles of the Verilated tile must be those of the cycle model, and results the exact ones, or the run
ends with an error. "SCALE-Sim" are the cycles of that simulator's formulas (version 2), in which every fold
drains before the next one begins.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from area import gates
from rich.console import Console

from skiptile import sim
from skiptile.console import check_writable, stdout, write_json
from skiptile.golden import exact
from skiptile.golden.lowering import Convolution
from skiptile.golden.nm import compress, prune
from skiptile.golden.systolic_tile import (
    OUTPUT,
    WEIGHT,
    SystolicTileParams,
    job_cycles,
    sequence_cycles,
)
from skiptile.golden.systolic_tile_jobs import SystolicJobs
from skiptile.golden.tasd import decompose, kept
from skiptile.report import Column, count, empty_table, factor, percent

Rows = list[dict[str, Any]]

TILE = SystolicTileParams(rows=8, columns=8, dataflow="both")
N_M_TILE = replace(TILE, n=4, m=4)
DATAFLOWS = (WEIGHT, OUTPUT)
LEAST_WIDTH = 120  # of tables: a narrow terminal wraps them
SEED = 0

# ---- published ----

REDMULE_UTILISATION = 0.994
VEGETA_SPEEDUPS = {1: 3.74, 2: 2.20, 4: 1.09}  # over dense, by n of n:4
TASD_KEPT = {0.05: 0.998, 0.1: 0.991, 0.2: 0.964, 0.3: 0.924, 0.5: 0.813}  # of non-zeros, 2:4, by density


def scale_sim_cycles(params: SystolicTileParams, m: int, k: int, n: int, dataflow: str) -> int:
    """Dense."""
    rows, columns = params.rows, params.columns
    if dataflow == OUTPUT:
        return -(-m // rows) * -(-n // columns) * (rows + columns + k - 2)
    return -(-k // rows) * -(-n // columns) * (2 * rows + columns + m - 2)


# ---- a job on the RTL ----


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng([SEED, seed]).integers(-128, 128, shape).astype(np.int8)


def run(params: SystolicTileParams, a: np.ndarray, b: Any, dense: np.ndarray, dataflow: str) -> int:
    """Clock cycles of ``a @ b`` on RTL: those of the model; the results those of ``a @ dense``."""
    c, counters = sim.load(params).matmul(a, b, dataflow=dataflow)
    what = f"{a.shape} by {dense.shape}, {dataflow}"
    if not np.array_equal(c, exact.product(a, dense, params.arithmetic).results):
        raise click.ClickException(f"{what}: the result is not the exact product")
    model = SystolicJobs(a, b, params, dataflow=dataflow).counters.cycles
    if counters.cycles != model:
        raise click.ClickException(f"{what}: {counters.cycles} cycles on RTL, {model} by the model")
    return counters.cycles


def dense_cycles(params: SystolicTileParams, m: int, k: int, n: int, dataflow: str) -> int:
    """Clock cycles of a job with dense weights on RTL."""
    a, b = integers(1, m, k), integers(2, k, n)
    return run(params, a, b, b, dataflow)


# ---- the parts ----


def utilisation() -> Rows:
    shapes = [
        (128, 512, 128),
        (127, 511, 127),
        (129, 513, 129),
        (7, 7, 7),
        (8, 8, 8),
        (9, 9, 9),
        (1, 512, 128),
    ]
    rows = []
    for shape in shapes:
        for dataflow in DATAFLOWS:
            cycles, published = dense_cycles(TILE, *shape, dataflow), scale_sim_cycles(TILE, *shape, dataflow)
            rows.append(
                {
                    "job": "x".join(map(str, shape)),
                    "dataflow": dataflow,
                    "cycles": cycles,
                    "model": job_cycles(TILE, *shape, dataflow),
                    "utilisation": math.prod(shape) / (cycles * TILE.rows * TILE.columns),
                    "scale_sim": published,
                    "over_scale_sim": published / cycles,
                }
            )
    return rows


def patterns() -> Rows:
    shape, rows = (256, 512, 64), []
    for dataflow in DATAFLOWS:
        dense = dense_cycles(TILE, *shape, dataflow)
        rows.append(
            {"weights": "dense", "dataflow": dataflow, "cycles": dense, "speedup": 1.0, "published": None}
        )
        for n, published in sorted(VEGETA_SPEEDUPS.items(), reverse=True):
            a, b = integers(1, *shape[:2]), integers(2, *shape[1:])
            b[~prune(b, n, 4)] = 0
            cycles = run(N_M_TILE, a, compress(b, n, 4, "int8"), b, dataflow)
            rows.append(
                {
                    "weights": f"{n}:4",
                    "dataflow": dataflow,
                    "cycles": cycles,
                    "speedup": dense / cycles,
                    "published": published,
                }
            )
    return rows


def registers() -> Rows:
    shape, rows = (32, 64, 32), []
    for every in (1, 2, 4, 8):
        params = replace(TILE, registers_every=every)
        for dataflow in DATAFLOWS:
            rows.append(
                {
                    "registers_every": every,
                    "dataflow": dataflow,
                    "latency": params.result_latency,
                    "cycles": dense_cycles(params, *shape, dataflow),
                    "model": job_cycles(params, *shape, dataflow),
                }
            )
    return rows


def resnet18_layers(size: int = 224) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Name and (M, K, N) of each layer's forward pass, one image."""

    def convolution(channels: int, outputs: int, kernel: int, stride: int) -> tuple[int, int, int]:
        height, width = Convolution(stride=stride, padding=kernel // 2).output_size(size, size, kernel)
        return height * width, kernel * kernel * channels, outputs

    yield "conv1", convolution(3, 64, 7, 2)
    size //= 4  # with the pooling behind it
    channels = 64
    for stage, outputs in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            stride = 2 if stage > 1 and block == 0 else 1
            name = f"layer{stage}.{block}"
            yield f"{name}.conv1", convolution(channels, outputs, 3, stride)
            if stride == 2:
                yield f"{name}.downsample", convolution(channels, outputs, 1, stride)
            size //= stride
            yield f"{name}.conv2", convolution(outputs, outputs, 3, 1)
            channels = outputs
    yield "fc", (1, channels, 1000)


def resnet18() -> Rows:
    """On 32x32, by the model: a row for each layer, and all of them one after the other."""
    params, rows = replace(TILE, rows=32, columns=32), []
    layers = list(resnet18_layers())
    start = time.perf_counter()
    for name, shape in layers:
        cycles = {dataflow: job_cycles(params, *shape, dataflow) for dataflow in DATAFLOWS}
        rows.append({"layer": name, "m": shape[0], "k": shape[1], "n": shape[2], **cycles})
    together = {
        dataflow: sequence_cycles(params, [(*s, dataflow) for _, s in layers]) for dataflow in DATAFLOWS
    }
    best = sequence_cycles(params, [shape for _, shape in layers])
    seconds = time.perf_counter() - start
    for row in rows:
        row["best"] = min(row[dataflow] for dataflow in DATAFLOWS)
        shape = (row["m"], row["k"], row["n"])
        row["scale_sim"] = {dataflow: scale_sim_cycles(params, *shape, dataflow) for dataflow in DATAFLOWS}
        row["utilisation"] = row["m"] * row["k"] * row["n"] / (row["best"] * params.rows * params.columns)
    work = sum(row["m"] * row["k"] * row["n"] for row in rows)
    rows.append(
        {
            "layer": "all",
            "m": None,
            "k": None,
            "n": None,
            **together,
            "best": best,
            "scale_sim": {name: sum(row["scale_sim"][name] for row in rows) for name in DATAFLOWS},
            "utilisation": work / (best * params.rows * params.columns),
            "model_seconds": seconds,
        }
    )
    return rows


def series() -> Rows:
    shape, rows = (64, 512, 64), []
    params = replace(TILE, n=2, m=4)
    a = integers(1, *shape[:2])
    dense = dense_cycles(TILE, *shape, OUTPUT)
    for density, published in TASD_KEPT.items():
        random = np.random.default_rng([SEED, 3, round(100 * density)])
        values = random.integers(1, 128, shape[1:]) * random.choice([-1, 1], shape[1:])
        b = np.where(random.random(shape[1:]) < density, values, 0).astype(np.int8)
        for terms in ([(2, 4)], [(2, 4), (2, 4)]):
            parts, residue = decompose(b, terms, 0, "int8")
            if len(terms) > 1 and residue.any():
                raise click.ClickException("2:4 twice must leave nothing")
            whole = b - residue
            cycles = run(params, a, parts, whole, OUTPUT)
            rows.append(
                {
                    "density": density,
                    "series": " + ".join(f"{n}:{m}" for n, m in terms),
                    "kept": kept(b, terms, 0, "int8").nonzeros,
                    "published": published if len(terms) == 1 else 1.0,
                    "cycles": cycles,
                    "speedup": dense / cycles,
                }
            )
    return rows


def area() -> Rows:
    """Of a row: eight elements, and the registers along it."""
    tiles = {
        "weight-stationary": replace(TILE, dataflow=WEIGHT),
        "output-stationary": replace(TILE, dataflow=OUTPUT),
        "both": TILE,
        "both, registers_every = 8": replace(TILE, registers_every=8),
        "both, 2:4": replace(TILE, n=2, m=4),
        "both, 4:8": replace(TILE, n=4, m=8),
        "both, 8:16": replace(TILE, n=8, m=16),
    }
    rows = []
    for name, params in tiles.items():
        port = params.widths["input_payload"]
        rows.append({"tile": name, "input_bits": port, "gates": gates(params, "t__row", "systolic-tile")})
    whole = next(row["gates"] for row in rows if row["tile"] == "both")
    return [{**row, "over_both": row["gates"] / whole} for row in rows]


# ---- output ----


def column(header: str, key: str, text: Callable[[Any], str] = str, **options: Any) -> Column:
    return Column(header, lambda row, _: "-" if row[key] is None else text(row[key]), **options)


NAME = {WEIGHT: "weight", OUTPUT: "output"}
DATAFLOW = column("stationary", "dataflow", NAME.__getitem__, left=True)
CYCLES = column("cycles", "cycles", count)
MODEL = column("model", "model", count)
SPEEDUP = column("speed-up", "speedup", factor)
PUBLISHED_SPEEDUP = column("published", "published", factor)

PARTS: dict[str, tuple[str, Callable[[], Rows], tuple[Column, ...]]] = {
    "utilisation": (
        f"Utilisation, 8x8, int8 (RedMulE publishes {percent(REDMULE_UTILISATION)} %)",
        utilisation,
        (
            column("job", "job", left=True),
            DATAFLOW,
            CYCLES,
            MODEL,
            column("utilisation [%]", "utilisation", lambda value: percent(value, 2)),
            column("SCALE-Sim", "scale_sim", count),
            column("SCALE-Sim / cycles", "over_scale_sim", factor),
        ),
    ),
    "patterns": (
        "N:M weights on one 4:4 tile, 256x512x64, 8x8, int8 (VEGETA's published speed-ups)",
        patterns,
        (column("weights", "weights", left=True), DATAFLOW, CYCLES, SPEEDUP, PUBLISHED_SPEEDUP),
    ),
    "registers": (
        "Elements between pipeline registers, 32x64x32, 8x8, int8",
        registers,
        (column("registers_every", "registers_every"), DATAFLOW, column("latency", "latency"), CYCLES, MODEL),
    ),
    "resnet18": (
        "ResNet-18, one image of 224x224, 32x32 elements, by the model",
        resnet18,
        (
            column("layer", "layer", left=True),
            column("M", "m", count),
            column("K", "k", count),
            column("N", "n", count),
            *(column(f"{NAME[dataflow]}-\nstationary", dataflow, count) for dataflow in DATAFLOWS),
            column("better", "best", count),
            column("utili-\nsation [%]", "utilisation", percent),
            *(
                column(f"SCALE-Sim\n{NAME[dataflow]}", "scale_sim", lambda by, name=dataflow: count(by[name]))
                for dataflow in DATAFLOWS
            ),
        ),
    ),
    "series": (
        "TASD series of random weights on a 2:4 tile, 64x512x64, 8x8, int8, output-stationary",
        series,
        (
            column("density", "density"),
            column("series", "series", left=True),
            column("kept", "kept", lambda value: f"{value:.3f}"),
            column("expected", "published", lambda value: f"{value:.3f}"),
            CYCLES,
            SPEEDUP,
        ),
    ),
    "area": (
        "Generic gates of a row of 8 elements, int8, and the width of the tile's input",
        area,
        (
            column("tile", "tile", left=True),
            column("input, bits", "input_bits", count),
            column("gates of a row", "gates", count),
            column("over both, dense", "over_both", factor),
        ),
    ),
}


@click.command(help=__doc__)
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Only this; may be repeated."
)
@click.option(
    "--json",
    "json_path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also as JSON.",
)
def main(parts: tuple[str, ...], json_path: Path | None) -> None:
    check_writable(json_path)
    console = Console(width=max(stdout.width, LEAST_WIDTH))
    results = {}
    for name in parts or PARTS:
        title, measure, columns = PARTS[name]
        results[name] = rows = measure()
        table = empty_table(columns)
        for row in rows:
            table.add_row(*(column.text(row, False) for column in columns))
        console.print(f"\n{title}\n", table, sep="\n", highlight=False)
        for row in rows:
            if "model_seconds" in row:
                console.print(f"\nThe model took {row['model_seconds'] * 1000:.1f} ms.", highlight=False)
    if json_path is not None:
        write_json(json_path, results)


if __name__ == "__main__":
    main()

"""The digits network pruned by each scheme, and the clock cycles of its forward pass on the RTL.

All hardware has 64 multipliers for int8. Elapsed cycles are summed over the layers; every result is compared
with the exact product. A speed-up is over the reference's cycles for the same network, or for the dense one
where that is all the reference runs, whose cycles are the same whatever is zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from skiptile import sim
from skiptile.console import check_writable, progress_lines, stdout, write_json
from skiptile.golden import exact
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.pruning import BLOCK, SCHEMES, SPARSITIES, PrunedLayer, PrunedNetwork, prune_network
from skiptile.golden.systolic_tile import OUTPUT, SystolicTileParams, count_cycles, job_blocks
from skiptile.golden.systolic_tile_jobs import SystolicJobs
from skiptile.golden.tasd import decompose
from skiptile.golden.training import small_cnn
from skiptile.golden.workloads import split_digits, train_on_digits
from skiptile.pruning_chart import write_pruning_page
from skiptile.report import Column, count, empty_table, factor, percent, ratio

DENSE, MAGNITUDE, N_M, TILE_WISE, RESTORED = SCHEMES
LEAST_WIDTH = 150  # of the table: a narrow terminal wraps it, names are not cut
FILE = click.Path(path_type=Path, dir_okay=False)


# ---- hardware ----


def whole(model: sim.Model, layer: PrunedLayer) -> tuple[np.ndarray, int]:
    """The weights with their zeros."""
    c, counters = model.matmul(layer.a, layer.b)
    return c, counters.elapsed or 0


def gathered(model: sim.Model, layer: PrunedLayer) -> tuple[np.ndarray, int]:
    """One dense product after the other, of each tile and of the leftovers."""
    if layer.packed is None:
        return whole(model, layer)
    c = np.zeros((len(layer.a), layer.b.shape[1]), np.int64)
    elapsed = 0
    for product in layer.packed.products(layer.a):
        part, counters = model.matmul(product.a, product.b)
        c[:, product.columns] += part
        elapsed += counters.elapsed or 0
    return c, elapsed


@dataclass(frozen=True)
class Hardware:
    """What runs networks of these schemes, and how it is given a layer: gives c and elapsed cycles."""

    name: str
    schemes: tuple[str, ...]
    params: Any
    multiply: Callable[[sim.Model, PrunedLayer], tuple[np.ndarray, int]] = whole


def compressed(model: sim.Model, layer: PrunedLayer) -> tuple[np.ndarray, int]:
    """N:M weights; of a layer that stays dense a series that leaves nothing."""
    weights: Any = layer.compressed or decompose(layer.b, LOSSLESS, 0, "int8")[0]
    c, counters = model.matmul(layer.a, weights)
    return c, counters.elapsed or 0


def packed(model: sim.Model, layer: PrunedLayer) -> tuple[np.ndarray, int]:
    """Tile after tile, the leftovers merged into them."""
    weights: Any = layer.b if layer.packed is None else layer.packed
    c, counters = model.matmul(layer.a, weights)
    return c, counters.elapsed or 0


LOSSLESS = [(4, BLOCK)] * 2
DENSE_TILE = MacTileParams(rows=2, columns=2, lanes=16, lookahead=0)
DENSE_SYSTOLIC = SystolicTileParams(rows=8, columns=8, dataflow="both")
GATHERING = replace(DENSE_SYSTOLIC, gather_depth=512)
HARDWARE = (
    Hardware("dense mac-tile", (DENSE,), DENSE_TILE),
    Hardware("sparse mac-tile", SCHEMES, MacTileParams(rows=2, columns=2, lanes=16)),
    Hardware("dense mac-tile, gathered", (TILE_WISE, RESTORED), DENSE_TILE, gathered),
    Hardware("dense systolic tile", (DENSE,), DENSE_SYSTOLIC),
    Hardware("4:8 systolic tile", (N_M,), replace(DENSE_SYSTOLIC, n=4, m=BLOCK), compressed),
    Hardware("gathering systolic tile", (TILE_WISE, RESTORED), GATHERING, packed),
)
REFERENCES = ("dense systolic tile", "dense mac-tile", "sparse mac-tile")


# ---- the study ----


def prune_all(seed: int, images: int, progress: Callable[[float, int, str], None]) -> list[PrunedNetwork]:
    """The network as trained, and pruned by each scheme to each share."""
    plan = [(DENSE, 0.0), *((scheme, share) for scheme in SCHEMES[1:] for share in SPARSITIES)]
    progress(0, len(plan) + 1, "training")
    digits, network = split_digits(seed), small_cnn(seed=seed)
    train_on_digits(network, digits, seed=seed)
    networks = []
    for done, (scheme, share) in enumerate(plan, 1):
        progress(done, len(plan) + 1, f"{scheme}, {share:.0%}")
        networks.append(prune_network(network, digits, scheme, share, images=images, seed=seed))
    progress(len(plan) + 1, len(plan) + 1, "")
    return networks


def run_all(
    networks: list[PrunedNetwork], progress: Callable[[float, int, str], None]
) -> list[dict[str, Any]]:
    """A row for each network and each hardware that runs its scheme."""
    runs = [(network, item) for network in networks for item in HARDWARE if network.scheme in item.schemes]
    models, rows = {}, []
    for done, (network, item) in enumerate(runs):
        progress(done, len(runs), f"{network.scheme}, {network.sparsity:.0%}, {item.name}")
        model = models[item.name] = models.get(item.name) or sim.load(item.params)
        layers = {layer.name: run(model, item, layer) for layer in network.layers}
        rows.append(row(network, item, layers))
    progress(len(runs), len(runs), "")
    for each in rows:
        each["speedups"] = {name: ratio(elapsed_on(name, each, rows), each["elapsed"]) for name in REFERENCES}
    return rows


def run(model: sim.Model, item: Hardware, layer: PrunedLayer) -> int:
    """Elapsed cycles of a layer, whose result must be the exact one."""
    c, elapsed = item.multiply(model, layer)
    if not np.array_equal(c, exact.product(layer.a, layer.b, item.params.arithmetic).results):
        raise click.ClickException(f"{item.name}: the result of {layer.name} is not the exact product")
    return elapsed


def row(network: PrunedNetwork, item: Hardware, layers: dict[str, int]) -> dict[str, Any]:
    return {
        "scheme": network.scheme,
        "sparsity": network.sparsity,
        "sparsity_reached": network.sparsity_reached,
        "sparsity_overall": network.sparsity_overall,
        "layer_zeros": {layer.name: layer.zeros for layer in network.layers},
        "dense_accuracy": network.dense_accuracy,
        "pruned_accuracy": network.pruned_accuracy,
        "tuned_accuracy": network.tuned_accuracy,
        "hardware": item.name,
        "layer_elapsed": layers,
        "elapsed": sum(layers.values()),
    }


def elapsed_on(hardware: str, row: dict[str, Any], rows: list[dict[str, Any]]) -> int | None:
    """Elapsed cycles there of the row's network, or else of the dense one."""
    there = {
        (other["scheme"], other["sparsity"]): other["elapsed"]
        for other in rows
        if other["hardware"] == hardware
    }
    return there.get((row["scheme"], row["sparsity"]), there.get((DENSE, 0.0)))


def tile_wise_rows(networks: list[PrunedNetwork]) -> list[dict[str, Any]]:
    """Tile-wise layers on the gathering tile, output-stationary, by the model.

    Cycles by what becomes of the single elements, and the share of activation vectors that come in from
    outside; the others have been kept.
    """
    rows = []
    for network in networks:
        layers = [(layer, layer.packed) for layer in network.layers if layer.packed is not None]
        if not layers:
            continue
        cycles = {"tiles": 0, "merged": 0, "apart": 0}
        fresh = []
        for layer, whole in layers:
            tiles = [tile.values.shape for tile in whole.tiles]
            last = (len(np.unique(whole.leftover_rows)), len(np.unique(whole.leftover_columns)))
            merged = [tile.values.shape for tile in whole.merged().tiles]
            for name, panels in (("tiles", tiles), ("merged", merged), ("apart", [*tiles, last])):
                cycles[name] += count_cycles(GATHERING, job_blocks(GATHERING, len(layer.a), panels, OUTPUT))
            jobs = SystolicJobs(layer.a, whole, GATHERING, dataflow=OUTPUT)
            fresh.append(jobs.beats(0, len(jobs))["fresh"])
        share = float(np.concatenate(fresh).mean())
        rows.append({"scheme": network.scheme, "sparsity": network.sparsity, **cycles, "fresh": share})
    return rows


# ---- output ----


def speedup_over(reference: str) -> Column:
    kind, name = reference.split(" ", 1)
    return Column(f"over {kind}\n{name}", lambda row, _: factor(row["speedups"][reference]))


COLUMNS = (
    Column("scheme", lambda row, _: row["scheme"], left=True, folds=True),
    Column("zeros\n[%]", lambda row, _: percent(row["sparsity"], 0)),
    Column("\nreached", lambda row, _: percent(row["sparsity_reached"])),
    Column("accuracy\ndense", lambda row, _: percent(row["dense_accuracy"])),
    Column("[%]\npruned", lambda row, _: percent(row["pruned_accuracy"])),
    Column("\ntuned", lambda row, _: percent(row["tuned_accuracy"])),
    Column("hardware", lambda row, _: row["hardware"], left=True, folds=True),
    Column("elapsed", lambda row, _: count(row["elapsed"])),
    *(speedup_over(reference) for reference in REFERENCES),
)


TILE_WISE_COLUMNS = (
    *COLUMNS[:2],
    Column("tiles\nalone", lambda row, _: count(row["tiles"])),
    Column("elements\nmerged", lambda row, _: count(row["merged"])),
    Column("a product of\ntheir own", lambda row, _: count(row["apart"])),
    Column("vectors from\noutside [%]", lambda row, _: percent(row["fresh"], 0)),
)


def show(title: str, rows: list[dict[str, Any]], columns: Sequence[Column]) -> None:
    table = empty_table(columns, longest=30)
    for each in rows:
        table.add_row(*(column.text(each, False) for column in columns))
    Console(width=max(stdout.width, LEAST_WIDTH)).print(f"\n{title}\n", table, sep="\n", highlight=False)


@click.command(help=__doc__)
@click.option("--images", default=32, show_default=True, help="Test images in the forward pass.")
@click.option("--seed", default=0, show_default=True, help="Of the split, the training and the fine-tuning.")
@click.option("--json", "json_path", metavar="FILE", type=FILE, help="Also write the rows as JSON.")
@click.option("--html", "html_path", metavar="FILE", type=FILE, help="Also write one page with the chart.")
def main(images: int, seed: int, json_path: Path | None, html_path: Path | None) -> None:
    check_writable(json_path, html_path)
    with progress_lines() as line:
        networks = prune_all(seed, images, line("pruning", "networks"))
        rows = run_all(networks, line("running", "runs"))
    show(f"The digits network, forward pass of {images} images, on RTL", rows, COLUMNS)
    tile_wise = tile_wise_rows(networks)
    show("Tile-wise layers on the gathering tile, cycles by the model", tile_wise, TILE_WISE_COLUMNS)
    if json_path is not None:
        results = {"images": images, "seed": seed, "format": "int8", "rows": rows, "tile_wise": tile_wise}
        write_json(json_path, results)
    if html_path is not None:
        write_pruning_page(rows, REFERENCES[0], f"The digits network pruned, {images} images", html_path)


if __name__ == "__main__":
    main()

"""The commands that take a design's Verilog to hardware: our own flow, and the vendors'."""

from pathlib import Path

import click

from skiptile.console import check_writable, mistakes, progress_lines, stderr, stdout, write_json
from skiptile.options import DESIGN, JSON, NAMING, OUTPUT, TIMEOUT

EXPORT_NAMES = ("vivado", "quartus", "fusesoc")

# ---- synth ----


@click.command()
@click.argument("designs", metavar="DESIGN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--target",
    default="ecp5-85k",
    show_default=True,
    metavar="NAME",
    help="What to synthesise for: one of `skiptile list targets`.",
)
@click.option(
    "--seeds",
    default=3,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 100),
    help="Placements, side by side: Fmax is their median, and their range is told.",
)
@TIMEOUT
@click.option("--compare", is_flag=True, help="One DESIGN: set the dense design of its geometry before it.")
@JSON
def synth(
    designs: tuple[Path, ...],
    target: str,
    seeds: int,
    timeout: float,
    compare: bool,
    json_path: Path | None,
) -> None:
    """What DESIGN costs on a target: LUTs, DSP blocks, memories, Fmax, the slowest path, throughput.

    The design is synthesised by Yosys as it is delivered and placed by nextpnr in a frame of registers, which
    needs few pins. Of several designs the first is what the others are set against. What was placed before
    is not placed again. `skiptile verify --netlist` proves the netlist.

    \b
    skiptile synth designs/element16.toml --target ecp5-85k --seeds 3 --json cost.json
    skiptile synth --compare dense.toml sparse.toml
    skiptile synth designs/element16.toml --target osu018      area and delay in standard cells
    """
    from skiptile import synth_table
    from skiptile.gen.cost import find_target, report
    from skiptile.gen.design import dense_sister, read_design

    with mistakes("--target"):
        find_target(target)
    if compare and len(designs) > 1:
        raise click.UsageError("--compare takes one DESIGN; several are set against the first without it")
    chosen = [read_design(path) for path in designs]
    if compare:
        with mistakes("--compare"):
            chosen.insert(0, dense_sister(chosen[0]))
    names = [design.name for design in chosen]
    for path, name in zip(designs, names[-len(designs) :], strict=True):
        if names.count(name) > 1:
            raise click.UsageError(
                f"{path}: several designs are named {name}, so nobody could tell them apart"
            )
    check_writable(json_path, sources=designs)
    with progress_lines() as show:
        reports = [
            report(design, target, seeds=seeds, timeout=timeout, progress=show("synth", "steps"))
            for design in chosen
        ]
    stdout.print(synth_table.table(reports))
    for line in synth_table.paths(reports):
        click.echo(line)
    if json_path is not None:
        write_json(json_path, reports if len(reports) > 1 else reports[0])


# ---- export ----


@click.command()
@DESIGN
@click.option(
    "--to",
    required=True,
    type=click.Choice(EXPORT_NAMES),
    help="The tool: Vivado, Quartus, or FuseSoC and Edalize, which run either of them.",
)
@OUTPUT
@click.option(
    "--part",
    metavar="PART",
    help="The device. [default: xc7a100tcsg324-1 (Artix-7) for Vivado, 5CSEMA5F31C6 (Cyclone V) for Quartus; "
    "for FuseSoC either one, and Edalize's file is for its vendor]",
)
@click.option(
    "--frequency",
    default=100.0,
    show_default=True,
    metavar="MHZ",
    type=float,
    help="What the clock is constrained to, from 1 to 2000 MHz.",
)
@NAMING
def export(design: Path, to: str, output: Path, part: str | None, frequency: float, naming: str) -> None:
    """Write DESIGN for a vendor's tool: Verilog, manifest, file list, constraints and a script that runs it.

    Ports are taken for wires within a larger design, not for pins, of which no device has enough.

    \b
    skiptile export designs/tile4x4.toml --to vivado -o out/ --frequency 200
    vivado -mode batch -source out/tile4x4_vivado.tcl
    skiptile export designs/tile4x4.toml --to quartus -o out/ --part 10CX220YF780I5G
    quartus_sh -t out/tile4x4_quartus.tcl
    skiptile export designs/tile4x4.toml --to fusesoc -o out/
    fusesoc --cores-root out/ run --target=lint skiptile:generated:tile4x4
    """
    from skiptile.gen.design import read_design
    from skiptile.gen.export import check_frequency, choose_part, export_files

    with mistakes("--part"):
        choose_part(to, part)
    with mistakes("--frequency"):
        check_frequency(frequency)
    checked = read_design(design)
    with stderr.status("generating"):
        paths = export_files(checked, output, to=to, part=part, frequency=frequency, naming=naming)
    for path in paths:
        click.echo(path)

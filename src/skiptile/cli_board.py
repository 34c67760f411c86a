"""The command that takes a design to a real board."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Table

from skiptile.console import check_writable, mistakes, progress_lines, stderr, stdout, write_json
from skiptile.options import DESIGN, JSON, OUTPUT, TIMEOUT
from skiptile.report import plain

if TYPE_CHECKING:  # what is slow to import, and needed for no other command
    from skiptile.gen.board import Bitstream, Project
    from skiptile.sim.board import Transcript

BOARD_NAMES = ("ulx3s-85f",)
_CELLS = {"lut": "LUTs", "ff": "flip-flops", "dsp": "DSP blocks", "bram": "block RAMs"}


@click.command()
@DESIGN
@OUTPUT
@click.option(
    "--board",
    "board_name",
    default="ulx3s-85f",
    show_default=True,
    type=click.Choice(BOARD_NAMES),
    help="Which.",
)
@click.option(
    "--jobs",
    default=64,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="Random reductions in one run of the self-test. Block RAM holds them.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="Of the reductions, of the pauses between beats, and of place and route.",
)
@TIMEOUT
@click.option("--no-bitstream", is_flag=True, help="Write the sources and simulate them; no synthesis.")
@JSON
def board(
    design: Path,
    output: Path,
    board_name: str,
    jobs: int,
    seed: int,
    timeout: float,
    no_bitstream: bool,
    json_path: Path | None,
) -> None:
    """Put DESIGN, a mac-tile, on a board with a self-test: sources, simulation, bitstream.

    Block RAM holds random reductions and what must come out. On the board they run through the tile once a
    second; LEDs and one line of text over the UART tell how that went. The button FIRE1 starts anew.

    \b
    LED 0   changes every second     LED 2   the last run passed
    LED 1   a run is under way       LED 3   a run has failed since the reset

    First the same Verilog is simulated, pins and all, and you see the line that its UART sends. Only if it
    says PASS the whole is synthesised, placed, routed and packed. Then load it, and look at the UART:

    \b
    skiptile board designs/board1x2.toml -o out/
    openFPGALoader -b ulx3s out/board1x2.bit
    picocom -b 115200 /dev/ttyUSB0                     or any terminal at 115200 8N1

    DIR gets <name>.v and <name>.json as `skiptile generate` writes them, <name>__board.v with the self-test,
    <name>__board.lpf with the pins, and <name>.bit.
    """
    from skiptile.gen.board import make_bitstream, make_project
    from skiptile.gen.design import read_design
    from skiptile.gen.generate import write_files
    from skiptile.sim.board import simulate

    checked = read_design(design)
    _check_folder(output)
    check_writable(json_path, sources=[design])
    with stderr.status("generating"), mistakes(str(design)):
        project = make_project(checked, board_name, jobs=jobs, seed=seed)
    written = {output / name for name in (*project.files, project.bitstream_file)}
    if json_path is not None and json_path.resolve() in {path.resolve() for path in written}:
        raise click.ClickException(f"{json_path} is to hold two different results")
    with stderr.status("simulating"):
        transcript = simulate(project)
    click.echo(f"simulated for {transcript.cycles:,} clock cycles, the UART says:")
    for line in transcript.text.splitlines():
        click.echo(f"  {plain(line)}")
    if not transcript.passed:
        raise click.ClickException("the self-test fails in simulation, so there is nothing to put on a board")
    bitstream = None
    if not no_bitstream:
        with progress_lines() as show:
            bitstream = make_bitstream(project, seed=seed, timeout=timeout, progress=show("board", "steps"))
        stdout.print(_table(project, bitstream))
    for path in write_files(output, {**project.files, **_bitstream_file(project, bitstream)}):
        click.echo(path)
    if bitstream is not None:
        _tell_how_to_load(project, output)
    elif (output / project.bitstream_file).exists():
        click.echo(f"{output / project.bitstream_file} is of an earlier run, not of these sources")
    if json_path is not None:
        write_json(json_path, _figures(project, transcript, bitstream, seed))


def _check_folder(folder: Path) -> None:
    """Find out before the work that ``folder`` cannot be written to."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise click.ClickException(f"{there}: is a file, not a folder to write to")
    if not os.access(there, os.W_OK):
        raise click.ClickException(f"{there}: no permission to write in it")


def _bitstream_file(project: "Project", bitstream: "Bitstream | None") -> dict[str, bytes]:
    return {} if bitstream is None else {project.bitstream_file: bitstream.data}


def _tell_how_to_load(project: "Project", folder: Path) -> None:
    from skiptile.gen.boards import BAUD, BOARDS

    load = BOARDS[project.board].load.format(file=folder / project.bitstream_file)
    click.echo(f"load it:   {load}")
    click.echo(f"watch it:  a terminal on the board's USB serial port, {BAUD} baud, 8N1")


def _table(project: "Project", bitstream: "Bitstream") -> Table:
    """For people: what it takes of the device, and how fast it is."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(project.board)
    table.add_column(f"{project.design.name} and its self-test", justify="right")
    table.add_column("of", justify="right")
    for kind, label in _CELLS.items():
        table.add_row(label, f"{bitstream.counts[kind] or 0:,}", f"{bitstream.capacity[kind]:,}")
    table.add_row("clock, MHz", f"{bitstream.clock_mhz:g}", "")
    table.add_row("Fmax, MHz", f"{bitstream.fmax_mhz:.1f}", "")
    table.add_row("run time, s", f"{sum(bitstream.seconds.values()):,.0f}", "")
    return table


def _figures(
    project: "Project", transcript: "Transcript", bitstream: "Bitstream | None", seed: int
) -> dict[str, Any]:
    """For JSON; docs/board.md says what is in it."""
    return {
        "design": project.design.name,
        "board": project.board,
        "jobs": project.jobs,
        "seed": seed,
        "vector_block_rams": project.block_rams,
        "transcript": transcript.text,
        "passed": transcript.passed,
        "simulated_cycles": transcript.cycles,
        "bitstream": None if bitstream is None else {"file": project.bitstream_file, **bitstream.to_dict()},
    }

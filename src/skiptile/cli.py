"""The command line."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from skiptile import __version__
from skiptile.cli_board import board
from skiptile.cli_hardware import export, synth
from skiptile.console import check_writable, mistakes, progress_lines, stderr, stdout, write, write_json
from skiptile.options import DESIGN, HTML, JSON, NAMING, OUTPUT
from skiptile.report import Results, plain

ENGINE_NAMES = ("rtl", "golden")
TITLES = {
    "widths": "widths, in bits",
    "latencies": "latencies, in clock cycles",
    "scheduler": "scheduler: moves [step, lane offset] in priority order",
    "predicted_speedup": "predicted speed-up over dense, random zeros",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="skiptile")
def cli() -> None:
    """Generate, prove and measure sparse deep-learning training accelerators.

    A DESIGN is a short TOML file; `designs/` has some to begin with.

    \b
    skiptile show designs/tile4x4.toml                 what it will be
    skiptile generate designs/tile4x4.toml -o out/     its Verilog and manifest
    skiptile verify designs/tile4x4.toml               prove it against the golden model
    skiptile run designs/tile4x4.toml --workload digits-cnn --json one.json
    skiptile synth designs/element16.toml              LUTs, Fmax, critical path
    skiptile export designs/tile4x4.toml --to vivado -o out/
    skiptile report one.json two.json --html runs.html
    """


# ---- generate ----


@cli.command()
@DESIGN
@OUTPUT
@click.option(
    "--testbench",
    default=0,
    metavar="N",
    type=click.IntRange(0, 10_000),
    help="Add a self-checking Verilog testbench with N random jobs and stalls.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the testbench's jobs.")
@NAMING
def generate(design: Path, output: Path, testbench: int, seed: int, naming: str) -> None:
    """Write DIR/<name>.v, Verilog-2005 that is yours, and DIR/<name>.json, its manifest."""
    from skiptile.gen.design import read_design
    from skiptile.gen.generate import generate_files

    with stderr.status("generating"):
        paths = generate_files(read_design(design), output, testbench=testbench, seed=seed, naming=naming)
    for path in paths:
        click.echo(path)


# ---- verify ----


@cli.command()
@DESIGN
@click.option(
    "--cases",
    default=20,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 100_000),
    help="Random cases beside the fixed ones.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the random cases; a new one each time by default.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write results as JUnit XML.")
@click.option(
    "--waves",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write waves: FILE.fst where Verilator's FST library is there, else FILE.vcd.",
)
@click.option(
    "--netlist",
    type=click.Choice(["generic", "ecp5"]),
    help="Verify what synthesis makes of the Verilog: gates, or ECP5's cells with their DSP blocks.",
)
@JSON
def verify(
    design: Path,
    cases: int,
    seed: int | None,
    junit: Path | None,
    waves: Path | None,
    netlist: str | None,
    json_path: Path | None,
) -> None:
    """Run DESIGN's cocotb bench on its Verilog, against the golden model, under random stalls."""
    from skiptile.gen.design import read_design
    from skiptile.sim.netlist import verify_netlist
    from skiptile.sim.verify import verify_design

    checked = read_design(design)
    check_writable(junit, waves, json_path, sources=[design])
    with progress_lines() as show:
        verified = partial(verify_netlist, netlist=netlist) if netlist else verify_design
        outcome = verified(checked, cases=cases, seed=seed, waves=waves, progress=show("verifying", "cases"))
    stdout.print(outcome.table())
    if junit is not None:
        write(junit, outcome.junit())
    if json_path is not None:
        write_json(json_path, outcome.to_dict())
    if not outcome.passed:
        raise click.ClickException(outcome.summary())
    click.echo(outcome.summary())


cli.add_command(synth)
cli.add_command(export)
cli.add_command(board)


# ---- run ----


@cli.command()
@DESIGN
@click.option("--workload", metavar="NAME", help="A workload of real tensors: digits-cnn.")
@click.option(
    "--tensors",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Your own: .npz or .safetensors with <layer>.a and .b, or .activation, .weight, .gradient.",
)
@click.option(
    "--conv",
    "convolutions",
    multiple=True,
    metavar="LAYER=STRIDE,PAD[,DILATION[,GROUPS]]",
    help="A layer of --tensors is a convolution; once for each.",
)
@click.option(
    "--formats",
    metavar="NAME",
    help="Number formats of the tensors: fp8 (E4M3, gradients E5M2), or one of `skiptile list formats` for "
    "all; by default the design's format for activations and weights, its format_b for gradients.",
)
@click.option(
    "--engine",
    default="rtl",
    show_default=True,
    type=click.Choice(ENGINE_NAMES),
    help="rtl: the Verilog, simulated and compared; golden: its schedule alone, at once.",
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the workload's training."
)
@click.option(
    "--batch", default=32, show_default=True, type=click.IntRange(1), help="Images in a training step."
)
@HTML
@JSON
def run(
    design: Path,
    workload: str | None,
    tensors: Path | None,
    convolutions: tuple[str, ...],
    formats: str | None,
    engine: str,
    seed: int,
    batch: int,
    html_path: Path | None,
    json_path: Path | None,
) -> None:
    """Run real tensors on DESIGN and on the dense tile beside it, layer by layer and pass by pass.

    Shows zeros, cycles, speed-up, utilisation, elapsed cycles and the error against float64. Each tensor is
    quantised to its format; the one that saves more cycles there goes to port b, which skips zeros or holds
    the weights. Where a pass needs other formats than DESIGN has, it runs on a sister of DESIGN in the same
    geometry.
    """
    from skiptile import report
    from skiptile.gen.design import read_design
    from skiptile.gen.kinds import products_of
    from skiptile.golden.quantise import tensor_formats
    from skiptile.golden.workloads import WORKLOADS
    from skiptile.sim.measure import measure
    from skiptile.tensors import read_workload

    if (workload is None) == (tensors is None):
        raise click.UsageError("give either --workload NAME or --tensors FILE")
    if convolutions and tensors is None:
        raise click.UsageError("--conv belongs to --tensors")
    if workload is not None and workload not in WORKLOADS:
        raise click.UsageError(f"--workload must be one of {', '.join(WORKLOADS)}, not {workload!r}")
    if formats is not None:
        with mistakes("--formats"):
            tensor_formats(formats)
    checked = read_design(design)
    with mistakes(str(design)):
        products_of(checked.kind)
    check_writable(html_path, json_path, sources=[design])
    with progress_lines() as show:
        if tensors is not None:
            load = read_workload(tensors, convolutions)
        else:
            with mistakes("--batch"):
                load = WORKLOADS[str(workload)](seed=seed, batch=batch, progress=show("training", "steps"))
        results = measure(load, checked, formats=formats, engine=engine, progress=show("running", "passes"))
    stdout.print(report.table(results))
    for line in report.summary(results).splitlines():
        click.echo(line)
    if json_path is not None:
        report.write_json(results, json_path)
    if html_path is not None:
        _write_page([results], html_path)
    if results["total"]["exact"] is False:
        raise click.ClickException("the RTL and the golden model differ: see the column 'exact'")


# ---- report ----


@cli.command("report")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@HTML
@JSON
def report_(files: tuple[Path, ...], html_path: Path | None, json_path: Path | None) -> None:
    """Set the runs in FILES, as `skiptile run --json` writes them, side by side.

    Shows each run's formats, speed-up by pass, error and overflow; the page has all of each run besides.
    """
    from skiptile import comparison
    from skiptile.results import read_results

    check_writable(html_path, json_path, sources=files)
    runs = [read_results(path) for path in files]
    rows = comparison.compare(runs)
    stdout.print(comparison.table(rows))
    if json_path is not None:
        write_json(json_path, [{"file": str(path), **row} for path, row in zip(files, rows, strict=True)])
    if html_path is not None:
        _write_page(runs, html_path)


def _write_page(runs: Sequence[Results], path: Path) -> None:
    from skiptile.page import write_html  # slow to import, and needed for no other view

    write_html(runs, path)
    click.echo(f"charts: {path}")


# ---- show, list, doctor ----


@cli.command()
@DESIGN
@JSON
def show(design: Path, json_path: Path | None) -> None:
    """What DESIGN will be: widths, latencies, levels, mux inputs, capacities, predicted speed-up."""
    from skiptile.gen.design import read_design
    from skiptile.show import describe

    sections = describe(read_design(design))
    check_writable(json_path, sources=[design])
    for title, rows in sections.items():
        stdout.print(Text(TITLES.get(title, title), style="bold"))
        table = Table(show_header=False, box=None, padding=(0, 2))
        for name, value in rows.items():
            if isinstance(value, list):
                value = " ".join(str(part).replace(" ", "") for part in value)
            table.add_row(name.replace("_", " "), Text(str(value)))
        stdout.print(table)
        stdout.print()
    if json_path is not None:
        write_json(json_path, sections)


@cli.command("list")
@click.argument("what", type=click.Choice(["kinds", "interconnects", "formats", "workloads", "targets"]))
def list_(what: str) -> None:
    """What there is to choose from."""
    from skiptile.show import catalogue, missing_tools

    missing = missing_tools() if what == "targets" else {}
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, description in catalogue(what).items():
        state = ["missing" if name in missing else "ready"] if what == "targets" else []
        table.add_row(name, *state, Text(description))
    stdout.print(table)
    for sentence in dict.fromkeys(missing.values()):  # in full: it is there to be copied
        click.echo(sentence)


@cli.command()
@click.option("--clean", is_flag=True, help="Empty the build cache.")
@JSON
def doctor(clean: bool, json_path: Path | None) -> None:
    """What is installed, in which version, and the command that installs what is missing."""
    from skiptile.gen import cache
    from skiptile.sim.tools import inventory

    tools = inventory()
    table = Table(box=None, padding=(0, 2))
    for header in ("tool", "version", "for"):
        table.add_column(header, overflow="fold")
    for tool in tools:
        table.add_row(*map(Text, (tool.name, tool.version or "missing", tool.purpose)))
    stdout.print(table)
    for tool in tools:
        if not tool.version:  # in full: it is there to be copied
            click.echo(f"to install {tool.name}:  {tool.install}")
    if clean:
        cache.clean()
    size = cache.size()
    click.echo(f"build cache: {cache.folder()}, {size / 1e6:.1f} MB" + (", emptied" if clean else ""))
    if json_path is not None:
        versions = {tool.name: tool.version for tool in tools}
        write_json(json_path, {"tools": versions, "cache": {"folder": str(cache.folder()), "bytes": size}})
    missing = [tool.name for tool in tools if not tool.version and tool.required]
    if missing:
        raise click.ClickException(f"missing: {', '.join(missing)}")


def main() -> None:
    """Run the command line: a user's mistake is one sentence and a non-zero exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # whoever is stopped, or loses the terminal, cleans up
        signal.signal(number, _stop)
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read the output has seen enough
        sys.exit(1)
    except _user_errors() as error:
        click.echo(f"Error: {_sentence(error)}", err=True)
        sys.exit(1)


def _stop(number: int, _: Any) -> None:
    sys.exit(128 + number)


def _user_errors() -> tuple[type[Exception], ...]:
    """Errors that are about the user's input or machine, and say so in one sentence."""
    from skiptile.gen.design import DesignError
    from skiptile.gen.processes import ToolError
    from skiptile.gen.yosys import YosysError
    from skiptile.results import ResultsError
    from skiptile.sim.measure import WorkloadError
    from skiptile.tensors import TensorError

    ours = (DesignError, ResultsError, TensorError, ToolError, WorkloadError, YosysError)
    return (*ours, OSError, ImportError, MemoryError)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return plain(f"{error.filename}: {error.strerror}")
    if isinstance(error, MemoryError):
        return f"not enough memory ({error})"
    if isinstance(error, RuntimeError):  # a tool's: its own words may be lines
        return "\n".join(map(plain, str(error).splitlines()))
    return plain(error)

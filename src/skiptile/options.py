"""Arguments and options that several commands have."""

import math
from pathlib import Path

import click


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Of a callback: ``value``, unless it is NaN, which is in every range."""
    if math.isnan(value):
        raise click.BadParameter("nan is not a number of seconds")
    return value


DESIGN = click.argument("design", type=click.Path(path_type=Path))
JSON = click.option(
    "--json", "json_path", metavar="FILE", type=click.Path(path_type=Path), help="Also write this as JSON."
)
HTML = click.option(
    "--html",
    "html_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write one self-contained page with charts.",
)
OUTPUT = click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the files; made if it is not there, other files in it are left alone.",
)
TIMEOUT = click.option(
    "--timeout",
    default=3600,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0, 1e6, min_open=True, max_open=True),
    callback=_number,
    help="For synthesis, and for each placement.",
)
NAMING = click.option(
    "--naming",
    default="amaranth",
    show_default=True,
    type=click.Choice(["amaranth", "axi"]),
    help="Names of the streams' ports: i__payload, i__valid, i__ready; or i_tdata, i_tvalid, i_tready.",
)

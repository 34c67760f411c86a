"""Design files: a name, a kind and its parameters, in TOML."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skiptile.gen.keywords import KEYWORDS
from skiptile.gen.kinds import KINDS
from skiptile.golden.checks import check_keys

LONGEST_NAME = 64
PORTS = ("clk", "rst")


class DesignError(ValueError):
    """A design file that cannot be used; one sentence that names the file, the key, the value and what is
    allowed."""


@dataclass(frozen=True)
class Design:
    """What a design file says.

    Attributes:
        name: of the Verilog module and of the files.
        kind: one of `skiptile.gen.kinds.KINDS`.
        params: the kind's parameter object.

    Raises:
        ValueError: a name that is not allowed.
    """

    name: str
    kind: str
    params: Any

    def __post_init__(self) -> None:
        check_name(self.name)


def check_name(name: object) -> None:
    """Raise unless ``name`` is a plain identifier everywhere a design's name goes."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"name must be a lower-case letter and then letters, digits and underscores, not {name!r}"
        )
    if len(name) > LONGEST_NAME:
        raise ValueError(f"name must have at most {LONGEST_NAME} characters, not {len(name)}")
    if "__" in name:
        raise ValueError(f"name must not hold two underscores in a row, as inner modules do, not {name!r}")
    if name.endswith("_tb"):
        raise ValueError(f"name must not end in _tb, as testbenches do, not {name!r}")
    if name in PORTS:
        raise ValueError(f"name must not be that of a port, not {name!r}")
    if name in KEYWORDS:
        raise ValueError(f"name must not be a keyword of Verilog, SystemVerilog or VHDL, not {name!r}")


def dense_sister(design: Design) -> Design:
    """The design that skips nothing, in the same geometry.

    Raises:
        ValueError: ``design`` is dense itself, or of a kind that always is.
    """
    dense = getattr(design.params, "dense", design.params)
    if dense == design.params:
        raise ValueError(f"{design.name} skips nothing, so there is nothing dense to set beside it")
    suffix = "_dense"
    name = design.name[: LONGEST_NAME - len(suffix)].rstrip("_")  # a name has no two underscores in a row
    return Design(name + suffix, design.kind, dense)


def read_design(path: Path | str) -> Design:
    """Read and check a design file.

    Raises:
        DesignError: naming the file, the key, its value and what is allowed.
        OSError: the file cannot be read.
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))  # some editors put a mark in front
    except (ValueError, RecursionError) as error:  # also for numbers too long and nesting too deep
        raise DesignError(f"{path}: not a TOML file: {error}") from error
    try:
        return _design(table)
    except (TypeError, ValueError) as error:
        raise DesignError(f"{path}: {error}") from error


def _design(table: dict[str, Any]) -> Design:
    if "design" not in table:
        raise ValueError("the table [design] with name and kind is missing")
    head = table["design"]
    check_keys("[design]", head, ("name", "kind"), needed=("name", "kind"))
    kind = head["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    for key in table:
        if key not in ("design", kind):
            raise ValueError(f"unknown table [{key}]; a design of kind {kind!r} has [design] and [{kind}]")
    if kind not in table:
        raise ValueError(f"the table [{kind}] is missing")
    return Design(head["name"], kind, KINDS[kind].params.from_dict(table[kind]))

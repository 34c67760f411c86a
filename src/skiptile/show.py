"""What there is to know of a design before anything is built, and what there is to choose from."""

from typing import Any

from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.golden.interconnect import INTERCONNECTS
from skiptile.golden.mac_tile import FORMATS, predict_speedup
from skiptile.golden.workloads import WORKLOADS

ZEROS = (0.5, 0.7, 0.9)


def describe(design: Design) -> dict[str, dict[str, Any]]:
    """Sections of named values, for people and for JSON."""
    params = design.params
    sections: dict[str, dict[str, Any]] = {
        "design": {"name": design.name, "kind": design.kind, **_flat(params.to_dict())},
        "widths, in bits": params.widths,
        "latencies, in clock cycles": params.latencies,
        "capacities": params.capacities,
    }
    if params.lookahead:
        moves = (_move(step, offset, params.lanes) for step, offset in params.moves)
        sections["scheduler"] = {
            "moves, in priority order": " ".join(moves),
            "mux inputs per operand": len(params.moves),
            "levels": len(params.levels),
            "lanes of each level": " ".join(_braces(level) for level in params.levels),
        }
        sections["predicted speed-up over dense, random zeros"] = {
            f"{zeros:.0%} zeros": round(predict_speedup(params, zeros), 2) for zeros in ZEROS
        }
    return sections


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in table.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _move(step: int, offset: int, lanes: int) -> str:
    """A move with its lane offset to the nearer side."""
    return f"({step},{offset - lanes if 2 * offset > lanes else offset})"


def _braces(lanes: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, lanes)) + "}"


def catalogue(what: str) -> dict[str, str]:
    """Names and descriptions of the kinds, interconnects, formats or workloads."""
    if what == "kinds":
        return {name: kind.description for name, kind in KINDS.items()}
    if what == "interconnects":
        return dict(INTERCONNECTS)
    if what == "formats":
        return dict(FORMATS)
    return {name: str(make.__doc__).splitlines()[0] for name, make in WORKLOADS.items()}



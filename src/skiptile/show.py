"""What there is to know of a design before anything is built, and what there is to choose from."""

from typing import Any

from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.gen.targets import TARGETS
from skiptile.golden.formats import FORMATS
from skiptile.golden.interconnect import INTERCONNECTS
from skiptile.golden.workloads import WORKLOADS


def describe(design: Design) -> dict[str, dict[str, Any]]:
    """Sections of named values, for people and for JSON."""
    params = design.params
    return {
        "design": {"name": design.name, "kind": design.kind, **_flat(params.to_dict())},
        "widths": params.widths,
        "latencies": params.latencies,
        "capacities": params.capacities,
        **params.describe(),
    }


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in table.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def catalogue(what: str) -> dict[str, str]:
    """Names and descriptions of the kinds, interconnects, formats, workloads or targets."""
    if what == "kinds":
        return {name: kind.description for name, kind in KINDS.items()}
    if what == "interconnects":
        return dict(INTERCONNECTS)
    if what == "formats":
        return {name: format.description for name, format in FORMATS.items()}
    if what == "targets":
        return {name: target.description for name, target in TARGETS.items()}
    return {name: str(make.__doc__).splitlines()[0] for name, make in WORKLOADS.items()}


def missing_tools() -> dict[str, str]:
    """What each target lacks here, and how to install it; none of those that can run."""
    return {name: target.missing for name, target in TARGETS.items() if target.missing}

"""The manifest: all that a user's own bench or flow must know of a generated design, as JSON."""

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from skiptile import __version__
from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.gen.naming import AMARANTH, Naming
from skiptile.golden.payload import Field, payload_bits

RESET_CYCLES = 2


def manifest(design: Design, verilog: str, naming: Naming = AMARANTH) -> dict[str, Any]:
    """The manifest of ``design`` and its Verilog; the same wherever it is made."""
    params = design.params
    streams = [("i", "input", params.input_fields), ("o", "output", params.output_fields)]
    return {
        "skiptile": __version__,
        "design": design.name,
        "kind": design.kind,
        "parameters": params.to_dict(),
        "verilog": {
            "file": f"{design.name}.v",
            "sha256": hashlib.sha256(verilog.encode()).hexdigest(),
            "top": design.name,
        },
        "clock": "clk",
        "reset": {"port": "rst", "active": "high", "synchronous": True, "cycles": RESET_CYCLES},
        "streams": [_stream(name, direction, naming) for name, direction, _ in streams],
        "ports": [
            {"name": "clk", "direction": "input", "width": 1},
            {"name": "rst", "direction": "input", "width": 1},
            *(port for stream in streams for port in _ports(*stream, naming)),
        ],
        "widths": params.widths,
        "latencies": params.latencies,
        "capacities": params.capacities,
        "contract": params.contract,
        "probes": [
            {
                "name": probe.name,
                "width": probe.width,
                "elements": probe.elements,
                "ports": [
                    {"instance": instance, "module": f"{design.name}__{block}", "port": port}
                    for instance, block, port in probe.ports
                ],
            }
            for probe in KINDS[design.kind].component.probes(params)
        ],
        "tools": {name: version(name) for name in ("amaranth", "pyosys")},
    }


def _stream(name: str, direction: str, naming: Naming) -> dict[str, str]:
    parts = {part: naming.port(name, part) for part in ("payload", "valid", "ready")}
    return {"name": name, "direction": direction, **parts}


def _ports(name: str, direction: str, fields: Sequence[Field], naming: Naming) -> list[dict[str, Any]]:
    forward, backward = ("input", "output") if direction == "input" else ("output", "input")
    entries = []
    offset = 0
    for field in fields:
        entries.append(
            {
                "path": field.name,
                "offset": offset,
                "element_width": field.width,
                "shape": list(field.shape),
                "signed": field.signed,
            }
        )
        offset += field.bits
    payload = {"direction": forward, "width": payload_bits(fields), "fields": entries}
    return [
        {"name": naming.port(name, "payload"), **payload},
        {"name": naming.port(name, "valid"), "direction": forward, "width": 1},
        {"name": naming.port(name, "ready"), "direction": backward, "width": 1},
    ]

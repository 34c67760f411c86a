"""How the ports of streams are called in Verilog."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Naming:
    """A way to name ports: ``<stream><separator><part>``.

    Attributes:
        separator: between the names of stream and part.
        parts: name of each of "payload", "valid" and "ready".
    """

    separator: str
    parts: dict[str, str]

    def port(self, stream: str, part: str) -> str:
        """Name of the port ``part`` ("payload", "valid" or "ready") of ``stream``."""
        return f"{stream}{self.separator}{self.parts[part]}"


AMARANTH = Naming("__", {"payload": "payload", "valid": "valid", "ready": "ready"})
AXI = Naming("_", {"payload": "tdata", "valid": "tvalid", "ready": "tready"})
NAMINGS = {"amaranth": AMARANTH, "axi": AXI}

"""Running the delivered Verilog."""

from skiptile.sim.model import Model, StreamResult, load

__all__ = ["Model", "StreamResult", "load"]

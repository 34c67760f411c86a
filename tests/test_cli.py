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
from made_up_inputs import DESIGN, layers, normal
from rich.console import Console
from verilog_tools import needs_icarus, needs_verilator, simulate_icarus

pytestmark = pytest.mark.usefixtures("folder")

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


def test_one_file_for_two_results(refused):
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--json", "same", "--html", "./same")
    assert refused(*arguments).endswith("same is to hold two different results")
    assert refused("verify", "t.toml", "--json", "same", "--junit", "same").endswith("different results")


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
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's jobs may ignore it
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

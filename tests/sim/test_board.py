"""The top of a board in Verilator, from its pins: what its UART says, what its LEDs show, what it finds."""

import re
from dataclasses import replace

import pytest
from verilog_tools import needs_verilator

from skiptile.gen.board import make_project
from skiptile.gen.design import Design
from skiptile.gen.processes import ToolError
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import random_case
from skiptile.sim.board import PROGRAM, receive, simulate

pytest.importorskip("amaranth_boards", reason="amaranth-boards is missing: pip install 'skiptile[fpga]'")

JOBS, SEED = 5, 1
DESIGN = Design("t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, lookahead=1, max_reduction=100))


@pytest.fixture(scope="module")
def project():
    return make_project(DESIGN, "ulx3s-85f", jobs=JOBS, seed=SEED)


def line(errors=0, verdict="PASS", run=1):
    """What the terminal must show."""
    outputs = random_case(DESIGN.params, JOBS, SEED)[1]
    cycles, steps = (int(outputs[name][outputs["last"] == 1].sum()) for name in ("cycles", "steps"))
    counted = f"{JOBS} reductions, {cycles} cycles for {steps} steps, {errors} errors"
    return f"skiptile t, run {run}: {counted}: {verdict}\r\n"


@needs_verilator
def test_it_passes(project):
    """One line; LED 1 until the run is over, then LED 2; LED 4 is the lowest bit of the number of runs."""
    transcript = simulate(project)
    assert transcript.text == line()
    assert transcript.passed
    assert [value for _, value in transcript.leds] == [0, 0b10010, 0b10000, 0b10100]
    assert transcript.cycles < 12 * 25e6 / 115200 * len(line())


@needs_verilator
def test_the_button_starts_anew(project):
    """Pressed while the line is sent, it ends that, and the first run is run again."""
    transcript = simulate(project, press=(50_000, 50_200))
    assert transcript.text.endswith(line())
    assert transcript.text != line()
    assert [value for cycle, value in transcript.leds if cycle >= 50_000] == [0, 0b10010, 0b10000, 0b10100]


def with_wrong_tile(project):
    """The lowest bit of every result is wrong."""
    name = "t.v"
    text = project.tile.replace("o__payload = {", "o__payload = 1 ^ {", 1)
    assert text != project.tile
    return replace(project, tile_files={**project.tile_files, name: text.encode()})


def with_wrong_word(project):
    """One bit of one expected word is wrong."""
    text = re.sub(
        r"(self_test_expected_memory\[2\] = 36'h)(.)",
        lambda found: f"{found[1]}{int(found[2], 16) ^ 1:x}",
        project.top,
    )
    assert text != project.top
    return replace(project, top=text)


@needs_verilator
@pytest.mark.exhaustive
def test_a_wrong_tile_fails(project):
    """Quicker, and without the delivered Verilog: tests/hw/test_self_test.py."""
    transcript = simulate(with_wrong_tile(project))
    assert transcript.text == line(errors=2 * JOBS, verdict="FAIL")
    assert not transcript.passed
    assert transcript.leds[-1][1] == 0b11000


@needs_verilator
@pytest.mark.exhaustive
def test_a_wrong_word_fails(project):
    transcript = simulate(with_wrong_word(project))
    assert transcript.text == line(errors=1, verdict="FAIL")
    assert not transcript.passed


@needs_verilator
@pytest.mark.exhaustive
def test_it_runs_again_every_second(project):
    transcript = simulate(project, lines=2)
    assert transcript.text == line() + line(run=2)
    runs = [cycle for cycle, value in transcript.leds if value & 0b10]
    assert runs[-1] - runs[0] == pytest.approx(25e6, abs=1000)


@needs_verilator
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "options",
    [{"lookahead": 0}, {"format": "bfloat16"}, {"format": "float8_e5m2", "columns": 3}, {"out": "int8"}],
)
def test_any_tile(options):
    params = MacTileParams(**{"rows": 2, "columns": 1, "lanes": 3, "max_reduction": 100, **options})
    design = Design("t", "mac-tile", params)
    assert simulate(make_project(design, "ulx3s-85f", jobs=20, seed=1)).passed


# ---- the receiver ----


def wire(data, bit, start=100.0):
    """Changes of a wire that sends ``data``."""
    levels, time, changes, level = [], start, [], 1
    for byte in data:
        levels += [0, *(byte >> k & 1 for k in range(8)), 1]
    for value in levels:
        if value != level:
            changes.append((round(time), value))
        level, time = value, time + bit
    return changes


@pytest.mark.parametrize("off", [-0.03, 0, 0.03])
def test_bytes_are_received(off):
    """A real receiver's tolerance is about 4 %."""
    data = bytes(range(256))
    assert receive(wire(data, 217 * (1 + off)), 217.01) == data


@pytest.mark.parametrize("off", [-0.3, 0.3])
def test_a_wrong_rate_is_noticed(off):
    with pytest.raises(ToolError, match=r"^the UART sent no proper frame at clock cycle 100: bits \[0, "):
        receive(wire(bytes(9), 217 * (1 + off)), 217)


def test_nothing_is_received():
    assert receive([], 217) == b""


def test_a_short_pulse_is_no_byte():
    assert receive([(100, 0), (150, 1), *wire(b"a", 217, 900)], 217) == b"a"


def test_a_silent_board_is_told(project, tmp_path, monkeypatch):
    (tmp_path / PROGRAM).write_text("#!/bin/sh\necho 0 led 0\necho 4321 end 0\n")
    (tmp_path / PROGRAM).chmod(0o755)
    monkeypatch.setattr("skiptile.sim.board._build", lambda _: tmp_path)
    with pytest.raises(ToolError, match=r"^the self-test of t sent nothing in 4,321 clock cycles$"):
        simulate(project)

"""Targets: a small table, and what is missing for each comes with the command that installs it."""

import sys

import pytest

from skiptile.gen import targets
from skiptile.gen.cost import find_target
from skiptile.gen.targets import KINDS, TARGETS, Cells, Library, Router, tool_path


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_says_all_that_it_needs(name):
    target = TARGETS[name]
    assert target.description
    assert set(target.capacity) <= set(KINDS)
    assert all(getattr(target.cells, kind) for kind in target.capacity), "a capacity of what is not counted"
    commands = target.commands("t")
    assert any("-top t" in command for command in commands)
    assert not any("{" in command for command in commands)
    if isinstance(target.timing, Router):
        assert target.timing.package.startswith("pip install 'skiptile[")


def test_a_design_has_no_pads_and_the_frame_has():
    target = TARGETS["gowin-gw2a18"]
    assert target.commands("t")[-1] == "synth_gowin -top t -noiopads"
    assert target.commands("fit", pads=True)[-1] == "synth_gowin -top fit"
    assert TARGETS["ecp5-25k"].commands("t") == TARGETS["ecp5-25k"].commands("t", pads=True)


def test_pins_are_given_where_the_tool_chooses_none():
    assert TARGETS["gowin-gw2a18"].timing.files["pins.cst"].splitlines()[0] == 'IO_LOC "clk" H11;'
    line = "ldc_set_location -site {E12} [get_ports clk]"
    assert TARGETS["nexus-lifcl40"].timing.files["pins.pdc"].splitlines()[0] == line


def test_unknown_target():
    with pytest.raises(ValueError, match=r"^target must be one of ecp5-25k, .*, osu018, not 'ecp6'$"):
        find_target("ecp6")


def test_missing_tools_come_with_their_commands(monkeypatch, tmp_path):
    assert Router(("no-such-tool",), "pip install it").missing == "no-such-tool is missing: pip install it"
    library = Library(tmp_path / "cells.lib", "apt-get install it")
    assert library.missing == f"{tmp_path / 'cells.lib'} is missing: apt-get install it"
    library.liberty.touch()
    monkeypatch.setattr(targets, "tool_path", lambda name: None)
    assert library.missing == "OpenSTA (sta) is missing: apt-get install it"
    assert TARGETS["generic"].missing is None


def test_tools_are_found_beside_python_before_path(monkeypatch, tmp_path):
    assert tool_path("sh") is not None
    (tmp_path / "sh").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert tool_path("sh") == str(tmp_path / "sh")


def test_kinds_are_those_of_cells():
    assert all(hasattr(Cells(), kind) for kind in KINDS)

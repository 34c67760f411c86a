"""docs/adding-a-block.md is true: its listings, put into a copy of the tree, make a block that works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from verilog_tools import needs_icarus, simulate_icarus

ROOT = Path(__file__).parents[1]
ROOMS = ("golden", "hw", "gen", "sim")
IMPORTS = """
from skiptile.golden.dot_unit import DotUnitParams, random_case
from skiptile.hw.dot_unit import DotUnit
"""
VERIFY = """
from pathlib import Path
from skiptile.gen.design import read_design
from skiptile.sim.verify import verify_design
outcome = verify_design(read_design(Path("designs/dot8.toml")), cases=8, seed=0, simulator="icarus")
print(outcome.summary(), outcome.failures)
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the rooms and the front door, with the page's listings in their places."""
    for folder in (*ROOMS, "src"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    (tmp_path / "designs").mkdir()
    page = (ROOT / "docs" / "adding-a-block.md").read_text()
    listings = dict(re.findall(r"^```(?:python|toml) (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert len(listings) == 5
    kinds = tmp_path / "gen" / "kinds.py"
    kinds.write_text(kinds.read_text() + IMPORTS + listings.pop("gen/kinds.py"))
    for name, text in listings.items():
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(text)
    return tmp_path


@needs_icarus
def test_the_page_is_true(tree):
    def run(*command):
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(
            [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "multipliers" in run("-m", "skiptile", "show", "designs/dot8.toml")
    assert "dot-unit" in run("-m", "skiptile", "list", "kinds")
    run("-m", "skiptile", "generate", "designs/dot8.toml", "-o", "out", "--testbench", "30")
    assert "PASS: 30 beats in, 30 beats out" in simulate_icarus(tree / "out", "dot8_tb.v", "dot8.v")
    assert run("-c", VERIFY) == "dot8: all 8 cases passed (seed 0) []\n"

import os
import sys

import pytest
from made_up_inputs import DESIGN

from skiptile import cli


def pytest_addoption(parser):
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test fails: tools must be there")
    parser.addoption("--seed", type=int, default=0, help="of random shapes, operands and stalls")


def pytest_report_header(config):
    return f"random seed: {config.getoption('--seed')} (another one: --seed)"


@pytest.fixture(scope="session")
def seed(request):
    """Of a test's random choices; on failure it is in the report's header and among the test's locals."""
    return request.config.getoption("--seed")


@pytest.fixture
def skiptile(monkeypatch, capsys):
    """Runs a command: its exit status, what it printed, and its errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["skiptile", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "150")
        status = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def folder(request, tmp_path, monkeypatch):
    """Where a test of the command line starts: it holds ``t.toml`` and nothing else.

    The design file is a module's own DESIGN, if it has one.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(getattr(request.module, "DESIGN", DESIGN))
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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and item.config.getoption("--fail-on-skip"):
        report.outcome = "failed"
    if report.failed and "seed" in getattr(item, "fixturenames", ()):
        report.sections.append(("seed", f"--seed {item.config.getoption('--seed')} runs the same again"))

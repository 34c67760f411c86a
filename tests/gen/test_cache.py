"""The build cache: one build for all, and no trace of a build that failed or was killed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from skiptile.gen import cache
from skiptile.gen.processes import ToolError

# Builds "b" as its command line says, and prints what it holds.
SCRIPT = """
import os, sys, time
from skiptile.gen import cache
def build(folder):
    with open(sys.argv[1], "a") as log:
        log.write("built\\n")
    (folder / "half").write_text("half")
    time.sleep(float(sys.argv[2]))
    (folder / "half").rename(folder / "whole")
print(sorted(os.listdir(cache.built("b", build))))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPTILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def start(log, seconds):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(log), str(seconds)], stdout=subprocess.PIPE)


def entries(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_key_depends_on_every_part_and_where_it_ends():
    keys = [cache.key(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c", ""], ["c", "ab"])]
    assert len(set(keys)) == 5
    assert cache.key(["ab", "c"]) == keys[0]


def test_two_processes_build_once(tmp_path):
    processes = [start(tmp_path / "log", 1) for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == [b"['whole']\n"] * 2
    assert (tmp_path / "log").read_text() == "built\n"


def test_waiting_for_another_process_ends(tmp_path):
    process = start(tmp_path / "log", 60)
    while not (tmp_path / "log").exists():
        time.sleep(0.02)
    try:
        sentence = r"^another process is making this b and was not done after 0\.1 seconds$"
        with pytest.raises(ToolError, match=sentence):
            cache.built("b", lambda _: pytest.fail("built"), timeout=0.1)
        stop = threading.Event()
        stop.set()
        with pytest.raises(ToolError, match=r"^stopped$"):
            cache.built("b", lambda _: pytest.fail("built"), stop=stop)
    finally:
        process.kill()
        process.communicate()


def test_a_file_in_the_place_of_the_cache(tmp_path, folder):
    folder.write_text("")
    with pytest.raises(NotADirectoryError, match="the cache is to be a folder"):
        cache.built("b", lambda _: None)


def test_killed_build_leaves_no_entry_and_the_next_one_clears_up(tmp_path, folder):
    process = start(tmp_path / "log", 60)
    while not (tmp_path / "log").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [name.split(".")[-1] for name in entries(folder)] == ["tmp"]
    assert start(tmp_path / "log", 0).communicate()[0] == b"['whole']\n"
    assert entries(folder) == ["b"]


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_failed_build_leaves_nothing(folder, error):
    def build(place):
        (place / "half").write_text("half")
        raise error

    with pytest.raises(type(error)):
        cache.built("b", build)
    assert entries(folder) == []
    assert os.listdir(cache.built("b", lambda place: (place / "whole").touch())) == ["whole"]


def test_size_and_clean(tmp_path, folder):
    assert cache.size() == 0
    cache.clean()
    cache.built("b", lambda place: (place / "x").write_bytes(bytes(1000)))
    (folder / "c.0.tmp").mkdir()  # of a killed build
    assert cache.size() == 1000
    cache.clean()
    assert entries(folder) == []


def test_an_interrupted_clean_leaves_nothing_that_looks_whole(folder, monkeypatch):
    cache.built("b", lambda place: (place / "whole").touch())

    def interrupted(path, **_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cache.shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.clean()
    assert os.listdir(cache.built("b", lambda place: (place / "again").touch())) == ["again"]


def test_clean_does_not_disturb_a_build(tmp_path, folder):
    process = start(tmp_path / "log", 1)
    while not (tmp_path / "log").exists():
        time.sleep(0.02)
    cache.clean()
    assert process.communicate()[0] == b"['whole']\n"

import errno
import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from skiptile.golden.files import write_atomically


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "tile.v"
    write_atomically(path, b"one")
    assert path.read_bytes() == b"one"
    write_atomically(path, b"")
    assert path.read_bytes() == b""
    assert os.listdir(tmp_path) == ["tile.v"]


def test_mode_follows_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_longest_possible_name(tmp_path):
    path = tmp_path / ("n" * 255)
    write_atomically(path, b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("where", ["missing/x.json", "file/x.json", "folder"])
def test_bad_place_raises_with_the_path(tmp_path, where):
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "folder").mkdir()
    path = tmp_path / where
    with pytest.raises(OSError, match=where) as caught:
        write_atomically(path, b"x")
    assert caught.value.filename == str(path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept"
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_full_disk_leaves_what_was_there(tmp_path, monkeypatch, function, before):
    path = tmp_path / "x.json"
    if before is not None:
        path.write_bytes(before)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, full)
    with pytest.raises(OSError, match=r"No space left.*x\.json") as caught:
        write_atomically(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([] if before is None else [before])


def test_write_that_stops_half_way(tmp_path):
    """The kernel itself refuses the second half: nothing simulated."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match=r"x\.bin") as caught:
            write_atomically(tmp_path / "x.bin", bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_interrupt_leaves_nothing(tmp_path, monkeypatch, function):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, function, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", b"x")
    assert os.listdir(tmp_path) == []


def test_symbolic_link_is_replaced_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert target.read_bytes() == b"kept"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"


def test_devices_and_pipes_stay_what_they_are(tmp_path):
    null = Path(os.devnull)
    write_atomically(null, b"x")
    assert stat.S_ISCHR(null.stat().st_mode)

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through the pipe")
    reader.join(timeout=10)
    assert read == [b"through the pipe"]
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_full_device():
    with pytest.raises(OSError, match="/dev/full") as caught:
        write_atomically(Path("/dev/full"), b"x")
    assert caught.value.errno == errno.ENOSPC

import errno
import hashlib
import json
import os

import pytest

from skiptile.gen import generate as module
from skiptile.gen.design import Design
from skiptile.gen.generate import generate_files
from skiptile.golden.mac_tile import MacTileParams

DESIGN = Design("t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, lookahead=0))
ALL = ["t.v", "t_tb.v", "t_tb_i.hex", "t_tb_o.hex", "t.json"]


def fail_at(monkeypatch, name, error):
    """Writing the file ``name`` fails."""
    write = module.write_atomically

    def write_or_fail(path, data):
        if path.name == name:
            raise error
        write(path, data)

    monkeypatch.setattr(module, "write_atomically", write_or_fail)


def full_disk():
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "t")


def test_writes_the_manifest_last(tmp_path, monkeypatch):
    order = []
    write = module.write_atomically
    monkeypatch.setattr(
        module, "write_atomically", lambda path, data: (order.append(path.name), write(path, data))
    )
    folder = tmp_path / "new" / "out"
    paths = generate_files(DESIGN, folder, testbench=2)
    assert paths == [folder / name for name in ALL]
    assert order == ALL
    assert sorted(os.listdir(folder)) == sorted(ALL)


def test_manifest_knows_what_was_written(tmp_path):
    generate_files(DESIGN, tmp_path, testbench=2)
    facts = json.loads((tmp_path / "t.json").read_text())
    hashes = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ALL[:-1]}
    assert {facts["verilog"]["file"]: facts["verilog"]["sha256"], **facts["testbench"]} == hashes
    generate_files(DESIGN, tmp_path)
    assert json.loads((tmp_path / "t.json").read_text())["testbench"] == {}


def test_leaves_other_files_alone(tmp_path):
    for name in ("u.v", "t.toml", "t.v"):
        (tmp_path / name).write_text("mine")
    assert generate_files(DESIGN, tmp_path) == [tmp_path / "t.v", tmp_path / "t.json"]
    assert sorted(os.listdir(tmp_path)) == ["t.json", "t.toml", "t.v", "u.v"]
    assert (tmp_path / "u.v").read_text() == (tmp_path / "t.toml").read_text() == "mine"
    assert (tmp_path / "t.v").read_text() != "mine"


def test_naming(tmp_path):
    generate_files(DESIGN, tmp_path, testbench=1, naming="axi")
    for name in ("t.v", "t_tb.v", "t.json"):
        text = (tmp_path / name).read_text()
        assert "i_tdata" in text
        assert "i__payload" not in text
    with pytest.raises(ValueError, match=r"^naming must be one of 'amaranth', 'axi', not 'ahb'$"):
        generate_files(DESIGN, tmp_path, naming="ahb")


@pytest.mark.parametrize(
    ("where", "reason"),
    [("file", "is a file, not a folder to write to"), ("file/new", "Not a directory")],
)
def test_a_file_where_a_folder_should_be(tmp_path, where, reason):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError) as error:
        generate_files(DESIGN, tmp_path / where)
    assert (error.value.filename, error.value.strerror) == (str(tmp_path / where), reason)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("error", [full_disk(), KeyboardInterrupt()], ids=["full disk", "interrupt"])
def test_failure_leaves_no_new_folder(tmp_path, monkeypatch, name, error):
    (tmp_path / "old").mkdir()
    fail_at(monkeypatch, name, error)
    with pytest.raises(type(error)):
        generate_files(DESIGN, tmp_path / "old" / "new" / "out", testbench=1)
    assert os.listdir(tmp_path / "old") == []


def test_failure_keeps_an_old_folder(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("kept")
    generate_files(DESIGN, tmp_path)
    fail_at(monkeypatch, "t.json", full_disk())
    with pytest.raises(OSError, match="No space left"):
        generate_files(DESIGN, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["mine", "t.json", "t.v"]
    assert json.loads((tmp_path / "t.json").read_text())["design"] == "t"


def test_nothing_is_made_before_everything_is_known(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(module, "make_testbench", fail)
    with pytest.raises(MemoryError):
        generate_files(DESIGN, tmp_path / "out", testbench=1)
    assert os.listdir(tmp_path) == []

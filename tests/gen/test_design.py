import re

import pytest

from skiptile.gen.design import Design, DesignError, read_design
from skiptile.gen.kinds import KINDS
from skiptile.golden.mac_tile import MacTileParams

NAMES = ", ".join(map(repr, KINDS))
GOOD = """
[design]
name = "tile"
kind = "mac-tile"
[mac-tile]
rows = 2
columns = 3
lanes = 4
"""


def written(tmp_path, text):
    path = tmp_path / "tile.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_a_design(tmp_path):
    params = MacTileParams(rows=2, columns=3, lanes=4, lookahead=0)
    assert read_design(written(tmp_path, GOOD)) == Design("tile", "mac-tile", params)
    assert read_design(str(written(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()))).params == params
    assert read_design(written(tmp_path, GOOD.replace("\n", "\r\n"))).params == params


def test_reads_the_designs_that_come_with_it(request):
    paths = sorted(request.config.rootpath.glob("designs/*.toml"))
    assert len(paths) > 5
    for path in paths:
        design = read_design(path)
        assert design.name == path.stem
        assert design.params == type(design.params).from_dict(design.params.to_dict())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the table [design] with name and kind is missing"),
        ("design = 3", "[design] must be a table, not 3"),
        ('[design]\nkind = "mac-tile"', "[design] lacks the key 'name'"),
        ('[design]\nname = "tile"', "[design] lacks the key 'kind'"),
        (GOOD.replace("kind", "kinds"), "[design] has the unknown key 'kinds'; allowed are name, kind"),
        (GOOD.replace('"mac-tile"', '"gpu"'), f"kind must be one of {NAMES}, not 'gpu'"),
        (GOOD.replace('"mac-tile"', "[]"), f"kind must be one of {NAMES}, not []"),
        ('[design]\nname = "tile"\nkind = "mac-tile"', "the table [mac-tile] is missing"),
        (
            GOOD + "[systolic-tile]\nrows = 1",
            "unknown table [systolic-tile]; a design of kind 'mac-tile' has [design] and [mac-tile]",
        ),
        (
            "rows = 1\n" + GOOD,
            "unknown table [rows]; a design of kind 'mac-tile' has [design] and [mac-tile]",
        ),
        (GOOD.replace("rows = 2", "rows = 0"), "rows must be an integer from 1 to 64, not 0"),
        (GOOD.replace("rows = 2", "rows = 2.0"), "rows must be an integer from 1 to 64, not 2.0"),
        (GOOD.replace("rows = 2", "rows = true"), "rows must be an integer from 1 to 64, not True"),
        (GOOD.replace("rows = 2", ""), "[mac-tile] lacks the key 'rows'"),
        (GOOD + "sparsity = 3", "[mac-tile.sparsity] must be a table, not 3"),
        (
            GOOD + "[mac-tile.sparsity]\nlook = 3",
            "[mac-tile.sparsity] has the unknown key 'look'; allowed are "
            "side, lookahead, interconnect, contexts",
        ),
        (
            GOOD + "[mac-tile.sparsity]\ninterconnect = 3",
            "interconnect must be a name or a list of [step, lane offset], not 3",
        ),
        (
            GOOD + "[mac-tile.sparsity]\ninterconnect = [[0, 0], [1, 4]]",
            "interconnect move [1, 4] must have an offset below lanes = 4",
        ),
        ("x = [", "not a TOML file: Invalid value (at end of document)"),
        (GOOD + "rows = 3", "not a TOML file: Cannot overwrite a value (at end of document)"),
        (
            b"\xff" + GOOD.encode(),
            "not a TOML file: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_refused_files(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(DesignError) as error:
        read_design(path)
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = " + "9" * 5000, "Exceeds the limit"), ("x = " + "[" * 10_000, "maximum recursion depth")],
    ids=["long number", "deep nesting"],
)
def test_files_that_are_too_much_for_the_parser(tmp_path, text, message):
    with pytest.raises(DesignError, match=f"tile.toml: not a TOML file: {message}"):
        read_design(written(tmp_path, text))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "none.toml"))):
        read_design(tmp_path / "none.toml")
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))):
        read_design(tmp_path)


@pytest.mark.parametrize("name", ["a", "tile4x4", "a_b_c", "t_", "x" * 64])
def test_allowed_names(tmp_path, name):
    assert read_design(written(tmp_path, GOOD.replace('"tile"', f'"{name}"'))).name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(
            (name, f"must be a lower-case letter and then letters, digits and underscores, not {name!r}")
            for name in ("", "Tile", "4x4", "_t", "t-1", "t.1", "t 1", "tile\n", "../t", "tïle", "a;b", "$t")
        ),
        ("a__b", "must not hold two underscores in a row, as inner modules do, not 'a__b'"),
        ("x" * 65, "must have at most 64 characters, not 65"),
        *(
            (word, f"must not be a keyword of Verilog, SystemVerilog or VHDL, not {word!r}")
            for word in ("module", "reg", "endmodule", "logic", "always_ff", "entity", "signal", "vunit")
        ),
    ],
)
def test_refused_names(name, message):
    params = MacTileParams(rows=1, columns=1, lanes=1)
    with pytest.raises(ValueError, match=r"^name must") as error:
        Design(name, "mac-tile", params)
    assert str(error.value) == f"name {message}"

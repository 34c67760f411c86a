"""`skiptile run` and `report`: what they print and write, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_up_inputs import DESIGN, layers, normal
from safetensors.numpy import save_file
from verilog_tools import needs_verilator

from skiptile import cli

pytestmark = pytest.mark.usefixtures("folder")

KEYS = {
    *("step", "layer", "pass", "groups", "m", "k", "n", "zeros_a", "zeros_b", "zeros_a_real", "zeros_b_real"),
    *("side", "dense_cycles", "cycles", "ideal_cycles", "ideal_capped_cycles", "real_cycles"),
    *("dense_elapsed", "elapsed", "speedup", "real_speedup", "utilisation", "error", "overflow", "exact"),
    "finite",
    *("design", "format_a", "format_b"),
}


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_run_own_tensors(skiptile, suffix):
    if suffix == "npz":
        np.savez("own.npz", **layers())
    else:
        save_file(layers(), "own.safetensors")
    arguments = ("--tensors", f"own.{suffix}", "--conv", "conv=2,1", "--engine", "golden")
    status, output, _ = skiptile("run", "t.toml", *arguments, "--json", "r.json", "--html", "r.html")
    assert status == 0
    assert "own on t in int8: " in output
    results = json.loads(Path("r.json").read_text())
    passes = ("forward", "input-gradient", "weight-gradient")
    wanted = [("free", "forward"), *((layer, name) for layer in ("conv", "full") for name in passes)]
    found = [(row["layer"], row["pass"]) for row in results["layers"]]
    assert found == wanted if suffix == "npz" else sorted(found) == sorted(wanted)
    assert all(set(row) == KEYS for row in results["layers"])
    assert results["total"]["exact"] is None
    by_name = dict(zip(found, results["layers"], strict=True))
    assert by_name["free", "forward"]["side"] == "b"
    assert [by_name["conv", "forward"][key] for key in "mkn"] == [18, 27, 4]
    assert "<html" in Path("r.html").read_text()


@pytest.fixture
def results(skiptile):
    """Two files of results: of the design's own format, and of FP8."""
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--conv", "conv=2,1", "--engine", "golden")
    for name, more in (("int8", ()), ("fp8", ("--formats", "fp8"))):
        assert skiptile(*arguments, *more, "--json", f"{name}.json")[0] == 0
    return "int8.json", "fp8.json"


def test_run_names_the_formats(skiptile):
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--conv", "conv=2,1", "--engine", "golden")
    assert "\nown on t in int8: " in skiptile(*arguments)[1]
    output = skiptile(*arguments, "--formats", "fp8", "--html", "r.html")[1]
    assert "\nown on t in float8_e4m3fn, gradients float8_e5m2: " in output
    assert "e5m2 × e4m3fn" in Path("r.html").read_text()


def test_report(skiptile, results):
    status, output, _ = skiptile("report", *results, "--html", "r.html", "--json", "r.json")
    assert status == 0
    assert output.splitlines()[-1] == "charts: r.html"
    rows = json.loads(Path("r.json").read_text())
    runs = [json.loads(Path(name).read_text()) for name in results]
    assert [row["file"] for row in rows] == ["int8.json", "fp8.json"]
    for row, run in zip(rows, runs, strict=True):
        assert row["formats"] == run["formats"]
        assert row["error"] == run["total"]["error"] > 0
        assert f"{row['error']:.1e}" in output
        assert f"{row['speedup']:.2f}x" in output
    assert Path("r.html").read_text().count("<details>") == 2


def test_report_of_one_run_is_its_page(skiptile, results):
    assert skiptile("report", results[0], "--html", "r.html")[0] == 0
    arguments = ("--conv", "conv=2,1", "--engine", "golden", "--html", "s.html")
    assert skiptile("run", "t.toml", "--tensors", "own.npz", *arguments)[0] == 0
    assert Path("r.html").read_text() == Path("s.html").read_text()


@needs_verilator
def test_run_on_rtl_counts_what_golden_counts(skiptile):
    np.savez("own.npz", **layers())
    arguments = ("run", "t.toml", "--tensors", "own.npz", "--conv", "conv=2,1", "--json")
    assert skiptile(*arguments, "golden.json", "--engine", "golden")[0] == 0
    status, output, _ = skiptile(*arguments, "rtl.json")
    assert status == 0
    assert "all 7 results exact" in output
    golden, rtl = (json.loads(Path(f"{name}.json").read_text()) for name in ("golden", "rtl"))
    for ours, theirs in zip(rtl["layers"], golden["layers"], strict=True):
        assert ours["exact"] is True
        assert ours["elapsed"] > ours["cycles"] >= ours["ideal_capped_cycles"] >= ours["ideal_cycles"]
        for key in KEYS - {"exact", "elapsed", "dense_elapsed"}:
            assert ours[key] == theirs[key], key


@pytest.mark.parametrize("name", ["[/red]", "[bold]x", "a\nError: b", "\x1b[31m", "ü̈", "<b>&amp;"])
def test_names_of_layers_are_only_shown(skiptile, name):
    np.savez("own.npz", **{f"{name}.a": normal(5, 9), f"{name}.b": normal(9, 3)})
    arguments = ("--tensors", "own.npz", "--engine", "golden", "--json", "r.json", "--html", "r.html")
    status, output, errors = skiptile("run", "t.toml", *arguments)
    assert status == 0
    assert "\x1b[31m" not in output + errors
    assert json.loads(Path("r.json").read_text())["layers"][0]["layer"] == name
    status, _, errors = skiptile("run", "t.toml", "--tensors", "own.npz", "--conv", f"{name}=1,1")
    assert (status, errors.strip().count("\n")) == (1, 0)
    assert "\x1b" not in errors


def test_big_endian_tensors(skiptile):
    arrays = {"x.a": normal(5, 9), "x.b": normal(9, 3, zeros=0.5)}
    for order in "<>":
        np.savez("own.npz", **{key: array.astype(f"{order}f4") for key, array in arrays.items()})
        assert (
            skiptile("run", "t.toml", "--tensors", "own.npz", "--engine", "golden", "--json", order)[0] == 0
        )
    assert Path("<").read_text() == Path(">").read_text()


@pytest.mark.parametrize("name", ["t_", "t" * 64])
def test_every_allowed_name_can_run(skiptile, folder, monkeypatch, name):
    from skiptile.sim import engines

    monkeypatch.setitem(engines.ENGINES, "rtl", engines.GoldenEngine)
    (folder / "t.toml").write_text(DESIGN.replace('"t"', f'"{name}"'))
    np.savez("own.npz", **{"x.a": normal(5, 9), "x.b": normal(9, 3)})
    assert skiptile("run", "t.toml", "--tensors", "own.npz")[0] == 0


def test_engines_have_the_names_that_the_help_tells():
    from skiptile.sim.engines import ENGINES

    assert tuple(ENGINES) == cli.ENGINE_NAMES


# ---- what is refused ----


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x.b": normal(8, 3)}, "own.npz: layer 'x' must have as many columns in .a as rows in .b"),
        ({"x.a": normal(5, 9) > 0}, "own.npz: array 'x.a' must hold float16, float32, float64 or int8"),
        ({"x.a": normal(9)}, "own.npz: array 'x.a' must have 2 dimensions, not shape (9,)"),
        (
            {"x.a": normal(5, 9) * np.float32(np.nan)},
            "own.npz: array 'x.a' must be finite to be quantised, but 45 of its 45",
        ),
        ({"x.a": np.array(["a"])}, "own.npz: array 'x.a' must hold"),
        ({"x.a": np.array([{}])}, "own.npz: not a readable .npz file of plain arrays (Object arrays"),
        ({"y": normal(2, 2)}, "own.npz: array must be named <layer>.<what>, such as conv1.weight, not 'y'"),
        ({"x.weight": normal(2, 2)}, "own.npz: layer 'x' must have"),
        ({"x.a": normal(1, 2000), "x.b": normal(2000, 1)}, "layer 'x', pass forward: a reduction of 2000"),
        ({"x.activation": normal(1, 1, 4, 4)}, "own.npz: layer 'x' must have"),
    ],
)
def test_bad_tensors(refused, arrays, sentence):
    np.savez("own.npz", **{"x.a": normal(5, 9), "x.b": normal(9, 3)} | arrays)
    assert refused("run", "t.toml", "--tensors", "own.npz", "--json", "r.json").startswith(sentence)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("own.npz", b"PK\x03", "own.npz: not a readable .npz file of plain arrays (not a zip archive)"),
        ("own.npz", b"", "own.npz: not a readable .npz file"),
        ("own.safetensors", b"\xff" * 40, "own.safetensors: not a readable .safetensors file"),
        ("own.pt", b"", "own.pt: tensors must be a .npz or .safetensors file, not .pt"),
    ],
)
def test_broken_tensor_files(refused, folder, name, data, sentence):
    (folder / name).write_bytes(data)
    assert refused("run", "t.toml", "--tensors", name).startswith(sentence)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("conv=1", "--conv must be layer=stride,padding"),
        ("conv=one,1", "--conv must be layer=stride,padding"),
        ("conv=0,1", "--conv conv=0,1: stride must be at least 1, not 0"),
        ("conv=1,1", "own.npz: layer 'conv': gradient must have the output's size 6x6"),
        ("conv=1,1 conv=2,0", "--conv must be given once for layer 'conv', not again as 'conv=2,0'"),
        ("other=1,1", "own.npz: --conv names the layer 'other', but the arrays have only free, conv, full"),
    ],
)
def test_bad_convolutions(refused, setting, sentence):
    np.savez("own.npz", **layers())
    settings = [option for each in setting.split() for option in ("--conv", each)]
    assert refused("run", "t.toml", "--tensors", "own.npz", *settings).startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give either --workload NAME or --tensors FILE"),
        (["--workload", "digits-cnn", "--tensors", "x.npz"], "give either --workload NAME or --tensors FILE"),
        (["--workload", "imagenet"], "--workload must be one of digits-cnn, not 'imagenet'"),
        (["--workload", "digits-cnn", "--conv", "x=1,1"], "--conv belongs to --tensors"),
        (["--workload", "digits-cnn", "--batch", "5000"], "--batch: batch must"),
        (["--workload", "digits-cnn", "--json", "no/r.json"], "no/r.json: there is no folder no"),
        (["--workload", "digits-cnn", "--html", "."], ". is a folder; a file is wanted"),
    ],
)
def test_bad_run_options(refused, arguments, sentence):
    assert refused("run", "t.toml", *arguments).startswith(sentence)


def test_run_of_a_block_that_multiplies_nothing(refused, folder):
    design = folder / "unit.toml"
    design.write_text('[design]\nname = "unit"\nkind = "tasd-unit"\n[tasd-unit]\nm = 4\n')
    error = refused("run", design, "--workload", "digits-cnn")
    assert "a design of kind 'tasd-unit' does not multiply matrices" in error


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "bad.json: not a JSON file (Expecting value"),
        (b"[design]", "bad.json: not a JSON file (Expecting value"),
        (b"\xff\x00", "bad.json: not a JSON file ("),
        (b"[" * 100_000, "bad.json: not a JSON file ("),
        (b"1" * 5000, "bad.json: not a JSON file ("),
        (b"[1, 2]", "bad.json: not the results of a run: they must be an object, not [1, 2]"),
        (b"null", "bad.json: not the results of a run: they must be an object, not null"),
        (b'{"design": "t"}', "bad.json: not the results of a run: kind is missing"),
        (b'{"design": ["\\u001b[31m"]}', "bad.json: not the results of a run: design must be a text, not ["),
        (b'{"a":' * 20 + b"1" + b"}" * 20, "bad.json: not the results of a run: values are nested more than"),
    ],
)
def test_bad_files_of_results(refused, folder, results, data, sentence):
    (folder / "bad.json").write_bytes(data)
    error = refused("report", results[0], "bad.json", "--html", "r.html", "--json", "r.json")
    assert error.startswith(sentence)
    assert len(error) < 200


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (["layers", 2, "cycles"], -5, "layers[2].cycles must be an integer from 0 to 2^53, not -5"),
        (["layers", 0, "zeros_a"], 1.5, "layers[0].zeros_a must be a number from 0 to 1 or null, not 1.5"),
        (["layers"], {}, "layers must be a list, not {}"),
        (["layers", 1], 7, "layers[1] must be an object, not 7"),
        (["passes", "forward"], None, "passes['forward'] must be an object, not null"),
        (["passes", "\n", "x"], {}, "passes['\\n'].dense_cycles is missing"),
        (["formats", "gradient"], 8, "formats.gradient must be a text, not 8"),
        (["total", "exact"], "yes", 'total.exact must be true, false or null, not "yes"'),
        (["total", "error"], "x" * 99, 'total.error must be a number from 0 to 1e300 or null, not "xxx'),
    ],
)
def test_wrong_values_in_files_of_results(refused, folder, results, path, value, sentence):
    run = json.loads((folder / results[1]).read_text())
    inner = run
    for key in path[:-1]:
        inner = inner.setdefault(key, {}) if isinstance(inner, dict) else inner[key]
    inner[path[-1]] = value
    (folder / "bad.json").write_text(json.dumps(run))
    assert refused("report", "bad.json").startswith(f"bad.json: not the results of a run: {sentence}")


def test_report_refuses_what_it_cannot_read_or_write(refused, results):
    assert refused("report", "none.json") == "none.json: No such file or directory"
    assert refused("report", ".") == ".: Is a directory"
    assert refused("report") == "Missing argument 'FILES...'."
    assert refused("report", *results, "--html", "no/r.html") == "no/r.html: there is no folder no"
    before = Path(results[1]).read_text()
    error = refused("report", *results, "--json", f"./{results[1]}")
    assert error == "fp8.json is to be read, so no result can be written there"
    assert Path(results[1]).read_text() == before

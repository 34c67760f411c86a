import errno
import os
import re
import shutil
import subprocess
import sys
from functools import cache

import pytest
import yaml
from edalize.edatool import get_edatool
from edalize.flows.vivado import Vivado
from verilog_tools import needs_verilator, run

from skiptile.gen import export as module
from skiptile.gen import generate
from skiptile.gen.design import Design
from skiptile.gen.export import DEFAULT_PARTS, FILES, export_files
from skiptile.gen.generate import generate_files
from skiptile.golden.tasd_unit import TasdUnitParams
from skiptile.sim.tools import build_environment, verilator

DESIGN = Design("no", "tasd-unit", TasdUnitParams(m=4))  # YAML's word for false, unless it is quoted
INPUTS = ["rst", "i__payload[*]", "i__valid", "o__ready"]
OUTPUTS = ["i__ready", "o__payload[*]", "o__valid"]
CORE = "skiptile:generated:no"

needs_tcl = pytest.mark.skipif(shutil.which("tclsh") is None, reason="Tcl is missing: apt-get install tcl")


@cache
def made(naming):
    return generate.make_files(DESIGN, naming=naming)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Tests are not about the Verilog, so it is made once for all."""
    monkeypatch.setattr(module, "make_files", lambda design, naming: dict(made(naming)))


def exported(folder, to, **options):
    export_files(DESIGN, folder, to=to, **options)
    return folder


# ---- what is written ----


@pytest.mark.parametrize("to", FILES)
def test_writes_the_manifest_last(tmp_path, to):
    names = ["no.v", "no.f", *(f"no{end}" for end in FILES[to]), "no.json"]
    assert export_files(DESIGN, tmp_path / "new" / "out", to=to) == [
        tmp_path / "new" / "out" / name for name in names
    ]
    assert sorted(os.listdir(tmp_path / "new" / "out")) == sorted(names)


@pytest.mark.parametrize("naming", ["amaranth", "axi"])
def test_verilog_and_manifest_are_those_of_generate(tmp_path, naming):
    generate_files(DESIGN, tmp_path / "generated", naming=naming)
    exported(tmp_path / "out", "vivado", naming=naming)
    for name in ("no.v", "no.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "generated" / name).read_bytes()
    constraints = (tmp_path / "out" / "no.xdc").read_text()
    assert ("i_tdata[*]" in constraints) == (naming == "axi")


@pytest.mark.parametrize("to", FILES)
def test_same_bytes_twice(tmp_path, to):
    for folder in ("one", "two"):
        exported(tmp_path / folder, to)
    for path in (tmp_path / "one").iterdir():
        data = path.read_bytes()
        assert data == (tmp_path / "two" / path.name).read_bytes()
        assert str(tmp_path).encode() not in data
        assert not re.search(rb"20\d\d-\d\d", data)
        assert data.endswith(b"\n")
        assert not re.search(rb"[ \t]\n|\n\n$", data)


@pytest.mark.parametrize("to", FILES)
def test_listed_files_exist(tmp_path, to):
    listed = (exported(tmp_path, to) / "no.f").read_text().splitlines()
    assert listed == ["no.v"]
    assert all((tmp_path / name).is_file() for name in listed)


def test_leaves_other_files_alone(tmp_path):
    for name in ("u.xdc", "no_tb.v", "no.xdc"):
        (tmp_path / name).write_text("mine")
    exported(tmp_path, "vivado")
    assert (tmp_path / "u.xdc").read_text() == (tmp_path / "no_tb.v").read_text() == "mine"
    assert (tmp_path / "no.xdc").read_text() != "mine"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full", "no"), KeyboardInterrupt()])
def test_failure_leaves_no_new_folder(tmp_path, monkeypatch, error):
    write = generate.write_atomically

    def write_or_fail(path, data):
        if path.name == "no.core":
            raise error
        write(path, data)

    monkeypatch.setattr(generate, "write_atomically", write_or_fail)
    with pytest.raises(type(error)):
        exported(tmp_path / "new" / "out", "fusesoc")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("frequency", "period"),
    [(100.0, "10.000"), (1, "1000.000"), (2000, "0.500"), (300, "3.333"), (333.3, "3.000"), (150.0, "6.666")],
)
def test_period_is_never_too_long(tmp_path, frequency, period):
    for to, end in (("vivado", "xdc"), ("quartus", "sdc")):
        text = (exported(tmp_path, to, frequency=frequency) / f"no.{end}").read_text()
        assert f"\ncreate_clock -name clk -period {period} [get_ports clk]\n" in text
        assert f", {frequency:g} MHz" in text


# ---- what is refused ----


@pytest.mark.parametrize("frequency", [0, -1, 0.999, 2000.1, float("nan"), float("inf"), "100", True, None])
def test_bad_frequency(tmp_path, frequency):
    message = rf"^frequency must be a number of MHz from 1 to 2000, not {re.escape(repr(frequency))}$"
    with pytest.raises((TypeError, ValueError), match=message):
        exported(tmp_path / "out", "vivado", frequency=frequency)
    assert os.listdir(tmp_path) == []


NO_PARTS = ["", "x", "xc7 a100", 'xc7"a', "xc7a;exit", "xc7a[exit]", "xc7a$part", "xc7a\n", "xc7a/.."]
NO_PARTS += ["xc7ä100", "xc7a{", "5C\\x", "-mode", "5CSEMA5-", "x" * 99]


@pytest.mark.parametrize(
    ("to", "part"),
    [
        *((to, part) for to in FILES for part in NO_PARTS),
        ("vivado", "5CSEMA5F31C6"),
        ("quartus", "xc7a100tcsg324-1"),
    ],
)
def test_bad_part(tmp_path, to, part):
    allowed = {
        "vivado": "Vivado, such as xc7a100tcsg324-1",
        "quartus": "Quartus, such as 5CSEMA5F31C6",
        "fusesoc": "Vivado or Quartus, such as xc7a100tcsg324-1 or 5CSEMA5F31C6",
    }
    message = f"part must be the name of one for {allowed[to]}, not {part!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        exported(tmp_path / "out", to, part=part)
    assert os.listdir(tmp_path) == []


def test_bad_family_or_tool(tmp_path):
    exported(tmp_path, "quartus", part="EPM7128SLC84-15")  # Quartus itself knows the family
    with pytest.raises(
        ValueError, match=r"^part must be one for Vivado or begin with one of 5AGZ, .*, not 'EPM7128S'$"
    ):
        exported(tmp_path, "fusesoc", part="EPM7128S")
    with pytest.raises(ValueError, match=r"^to must be one of 'vivado', 'quartus', 'fusesoc', not 'ise'$"):
        exported(tmp_path, "ise")


# ---- Tcl: every command is one that the tools have ----

# Command: the options it may have here, and what it gives.
VIVADO = {
    "read_verilog": ([], ""),
    "read_xdc": ([], ""),
    "synth_design": (["-top", "-part", "-mode"], ""),
    "opt_design": ([], ""),
    "place_design": ([], ""),
    "route_design": ([], ""),
    "report_utilization": (["-file"], ""),
    "report_timing_summary": (["-file"], ""),
    "write_checkpoint": (["-force"], ""),
    "get_timing_paths": ([], "paths"),
    "get_property": ([], "1.234"),
    "get_runs": ([], "run"),
    "set_property": (["-name", "-value", "-objects"], ""),
}
QUARTUS = {
    "load_package": ([], ""),
    "project_new": (["-overwrite"], ""),
    "get_part_info": (["-family"], "{Cyclone V}"),
    "set_global_assignment": (["-name"], ""),
    "set_instance_assignment": (["-name", "-to"], ""),
    "execute_flow": (["-compile"], ""),
    "project_close": ([], ""),
}
CLOCK = {"create_clock": (["-name", "-period"], ""), "get_ports": ([], "")}
XDC = {**CLOCK, "get_clocks": ([], "clk"), "set_max_delay": (["-datapath_only", "-from", "-to"], "")}
SDC = {**CLOCK, "derive_clock_uncertainty": ([], ""), "set_false_path": (["-from", "-to"], "")}


def tcl(folder, script, commands):
    """The commands that a script runs, as lists of words, and what it prints; any other one is an error.

    Ports that are got are given on as their names.
    """
    procedures = [
        f"proc {name} {{args}} {{ record {name} {{*}}$args; return "
        + ("[lindex $args end]" if name == "get_ports" else f"{{{result}}}")
        + " }"
        for name, (_, result) in commands.items()
    ]
    stubs = folder.parent / "stubs.tcl"
    stubs.write_text(
        'proc record {args} { puts stderr [join $args "\\x1f"] }\n'
        + "\n".join(procedures)
        + f"\nsource {{{folder / script}}}\n"
    )
    done = subprocess.run(["tclsh", stubs], cwd=folder.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = [line.split("\x1f") for line in done.stderr.splitlines()]
    for name, *words in calls:
        options = {word for word in words if re.fullmatch("-[a-z_]+", word)}
        assert options <= set(commands[name][0]), (name, words)
    return calls, done.stdout


@needs_tcl
def test_unknown_tcl_is_noticed(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.tcl").write_text("read_vhdl x.vhd\n")
    with pytest.raises(AssertionError, match="invalid command name"):
        tcl(tmp_path / "out", "x.tcl", VIVADO)
    (tmp_path / "out" / "x.tcl").write_text("opt_design -hard\n")
    with pytest.raises(AssertionError, match="-hard"):
        tcl(tmp_path / "out", "x.tcl", VIVADO)


@needs_tcl
def test_vivado_script(tmp_path):
    folder = exported(tmp_path / "a b", "vivado", part="xcku5p-ffvb676-2-e")
    calls, output = tcl(folder, "no_vivado.tcl", VIVADO)
    assert calls == [
        ["read_verilog", f"{folder}/no.v"],
        ["read_xdc", f"{folder}/no.xdc"],
        ["synth_design", "-top", "no", "-part", "xcku5p-ffvb676-2-e", "-mode", "out_of_context"],
        *([f"{step}_design"] for step in ("opt", "place", "route")),
        ["report_utilization", "-file", f"{folder}/no_vivado_utilization.rpt"],
        ["report_timing_summary", "-file", f"{folder}/no_vivado_timing.rpt"],
        ["write_checkpoint", "-force", f"{folder}/no_vivado.dcp"],
        ["get_timing_paths"],
        ["get_property", "SLACK", "paths"],
    ]
    assert output == "no on xcku5p-ffvb676-2-e: slack 1.234 ns of 10.000 ns\n"
    assert all(os.path.isfile(call[1]) for call in calls if call[0].startswith("read_"))


@needs_tcl
def test_quartus_script(tmp_path):
    folder = exported(tmp_path / "a b", "quartus")
    calls, _ = tcl(folder, "no_quartus.tcl", QUARTUS)
    assigned = {call[2]: call[3] for call in calls if call[0] == "set_global_assignment"}
    assert assigned == {
        "FAMILY": "Cyclone V",
        "DEVICE": "5CSEMA5F31C6",
        "TOP_LEVEL_ENTITY": "no",
        "VERILOG_FILE": "no.v",
        "SDC_FILE": "no.sdc",
        "PROJECT_OUTPUT_DIRECTORY": "no_quartus_output",
    }
    assert all((folder / assigned[f"{kind}_FILE"]).is_file() for kind in ("VERILOG", "SDC"))
    pins = [call[1:] for call in calls if call[0] == "set_instance_assignment"]
    assert pins == [["-name", "VIRTUAL_PIN", "ON", "-to", port] for port in INPUTS + OUTPUTS]
    order = list(dict.fromkeys(call[0] for call in calls))
    assert order[0] == "load_package"
    assert order[-4:] == ["set_global_assignment", "set_instance_assignment", "execute_flow", "project_close"]


@needs_tcl
def test_constraints(tmp_path):
    calls, _ = tcl(exported(tmp_path / "v", "vivado", frequency=250), "no.xdc", XDC)
    assert [call for call in calls if not call[0].startswith("get_")] == [
        ["create_clock", "-name", "clk", "-period", "4.000", "clk"],
        ["set_max_delay", "4.000", "-datapath_only", "-from", f" {' '.join(INPUTS)} "],
        ["set_max_delay", "4.000", "-datapath_only", "-from", "clk", "-to", f" {' '.join(OUTPUTS)} "],
    ]
    calls, _ = tcl(exported(tmp_path / "q", "quartus", frequency=250), "no.sdc", SDC)
    assert [call for call in calls if not call[0].startswith("get_")] == [
        ["create_clock", "-name", "clk", "-period", "4.000", "clk"],
        ["derive_clock_uncertainty"],
        ["set_false_path", "-from", f" {' '.join(INPUTS)} "],
        ["set_false_path", "-to", f" {' '.join(OUTPUTS)} "],
    ]


@needs_tcl
def test_project_settings(tmp_path):
    folder = exported(tmp_path / "out", "fusesoc")
    calls, _ = tcl(folder, "no_ooc.tcl", VIVADO)
    name, value = "STEPS.SYNTH_DESIGN.ARGS.MORE OPTIONS", "-mode out_of_context"
    assert calls[-1] == ["set_property", "-name", name, "-value", value, "-objects", "run"]


# ---- FuseSoC and Edalize read what is meant for them ----


def fusesoc(folder, target, *options):
    """The folder in which FuseSoC has worked on the core's target, without a user's own settings."""
    place = folder.parent
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", folder, "run", *options]
    homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"), str(place))
    run([*command, f"--target={target}", "--work-root", place / target, CORE], place, env=os.environ | homes)
    return place / target


def test_fusesoc_sets_projects_up(tmp_path):
    folder = exported(tmp_path / "out", "fusesoc", part="10CL025YU256C8G")
    (project,) = fusesoc(folder, "quartus", "--setup").glob("*0_1_0.tcl")
    lines = project.read_text()
    assert 'FAMILY "Cyclone 10 LP"\n' in lines
    assert "DEVICE 10CL025YU256C8G\n" in lines
    for kind, name in (("VERILOG_FILE", "no.v"), ("SDC_FILE", "no.sdc"), ("source", "no_pins.tcl")):
        assert re.search(rf"{kind} src/\S+/{re.escape(name)}$", lines, re.MULTILINE)
    work = fusesoc(folder, "vivado", "--setup")
    lines = (work / "skiptile_generated_no_0.1.0.tcl").read_text()
    assert f"set_property part {DEFAULT_PARTS['vivado']} " in lines
    named = re.findall(r"^(?:read_verilog|read_xdc|source) \{(.*)\}$", lines, re.MULTILINE)
    assert [os.path.basename(path) for path in named] == ["no.v", "no.xdc", "no_ooc.tcl"]
    assert all((work / path).is_file() for path in named)


@pytest.fixture
def lint_tools(tmp_path, monkeypatch):
    """Verilator as Edalize looks for it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "verilator").symlink_to(verilator().command)
    environment = build_environment()
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@needs_verilator
def test_fusesoc_lints(tmp_path, lint_tools):
    fusesoc(exported(tmp_path / "out", "fusesoc"), "lint")


def edam(folder):
    """The EDAM in a folder, whose files must all be there."""
    description = yaml.safe_load((folder / "no.eda.yml").read_text())
    assert all((folder / file["name"]).is_file() for file in description["files"])
    return description


@needs_verilator
def test_edalize_lints(tmp_path, lint_tools):
    exported(tmp_path, "fusesoc")
    tool = get_edatool("verilator")(edam=edam(tmp_path), work_root=str(tmp_path))
    tool.configure()
    tool.build()
    with (tmp_path / "no.v").open("a") as file:
        file.write("module\n")
    with pytest.raises(RuntimeError, match="lint-only"):
        tool.build()


@pytest.mark.parametrize("flow", [get_edatool("vivado"), Vivado])
def test_edalize_sets_vivado_up(tmp_path, flow):
    exported(tmp_path, "fusesoc", part="xc7z020clg400-1")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    flow(edam(tmp_path), str(tmp_path)).configure()
    assert all(path.read_bytes() == data for path, data in before.items())
    lines = (tmp_path / "no_edam.tcl").read_text().splitlines()
    for line in ("read_verilog {no.v}", "read_xdc {no.xdc}", "source {no_ooc.tcl}"):
        assert line in lines
    assert "set_property part xc7z020clg400-1 [current_project]" in lines


def test_edalize_sets_quartus_up(tmp_path):
    exported(tmp_path, "fusesoc", part="10M50DAF484C7G")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    get_edatool("quartus")(edam=edam(tmp_path), work_root=str(tmp_path)).configure()
    assert all(path.read_bytes() == data for path, data in before.items())
    lines = (tmp_path / "no_edam.tcl").read_text().splitlines()
    for setting in ('FAMILY "MAX 10"', "DEVICE 10M50DAF484C7G", "VERILOG_FILE no.v", "SDC_FILE no.sdc"):
        assert f"set_global_assignment -name {setting}" in lines
    assert "source no_pins.tcl" in lines

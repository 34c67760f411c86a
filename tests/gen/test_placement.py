"""Place and route with a tool that does as it is told: what it says, how it fails, how long it takes."""

import json
import time

import pytest

from skiptile.gen.placement import own_name, place
from skiptile.gen.processes import ToolError
from skiptile.gen.targets import Router

REPORT = {
    "fmax": {"clk": {"achieved": 123.456, "constraint": 400}},
    "critical_paths": [
        {"from": "async", "to": "posedge clk", "path": []},
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                {
                    "type": "routing",
                    "delay": 0.8799999,
                    "net": "dut.x.level[1]",
                    "from": {"cell": "dut.x.level_TRELLIS_FF_Q_3"},
                    "to": {"cell": "dut.o__valid_LUT4_Z"},
                }
            ],
        },
    ],
    "utilization": {"TRELLIS_FF": {"available": 9, "used": 5}},
}


@pytest.fixture
def router(tmp_path, monkeypatch):
    """A router that runs a shell script; it has the seed as ``$seed``."""
    monkeypatch.setenv("SKIPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def make(script):
        path = tmp_path / "fake-router"
        path.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo "fake (Version nextpnr-9.9)"; exit; }\n'
            f"for seed; do :; done\necho $seed >> {tmp_path}/log\n{script}\n"
        )
        path.chmod(0o755)
        return Router(("fake-router", "--board"), "pip install it", {"pins": "clk A1\n"})

    return make


def succeeding(folder):
    (folder / "report.json").write_text(json.dumps(REPORT))
    return f"grep -q A1 pins && grep -q netlist netlist.json && cp {folder}/report.json report.json"


def test_a_placement(router, tmp_path):
    seen = []
    (placement,) = place("a netlist", router(succeeding(tmp_path)), [7], progress=lambda *n: seen.append(n))
    assert (placement.seed, placement.fmax_mhz) == (7, 123.46)
    assert placement.path == [
        {"kind": "routing", "ns": 0.88, "net": "dut.x.level", "from": "dut.x.level", "to": "dut.o__valid"}
    ]
    assert placement.used["TRELLIS_FF"]["used"] == 5
    assert seen == [(1, 1)]


def test_placed_once(router, tmp_path):
    for seeds in ([1, 2, 3], [3, 4]):
        placements = place("a netlist", router(succeeding(tmp_path)), seeds)
        assert [placement.seed for placement in placements] == seeds
    assert sorted((tmp_path / "log").read_text().split()) == ["1", "2", "3", "4"]
    place("another netlist", router(succeeding(tmp_path)), [1])
    assert len((tmp_path / "log").read_text().split()) == 5


def test_failure(router, tmp_path):
    broken = router("echo Info: fine; echo 'ERROR: no bels left'; exit 1")
    with pytest.raises(ToolError) as error:
        place("a netlist", broken, [1])
    assert str(error.value) == (
        "seed 1 could not be placed and routed, fake-router says: ERROR: no bels left"
    )
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


def test_out_of_time(router):
    with pytest.raises(
        ToolError, match=r"^seed 1 could not be placed and routed: stopped after 0\.3 seconds$"
    ):
        place("a netlist", router("sleep 60"), [1], timeout=0.3)


def test_the_first_failure_is_told_at_once(router, monkeypatch):
    monkeypatch.setattr("skiptile.gen.placement.cores", lambda: 2)
    start = time.monotonic()
    with pytest.raises(ToolError, match=r"^seed 2 .*: ERROR: no$"):
        place("a netlist", router("[ $seed = 2 ] && { echo ERROR: no; exit 1; }; sleep 60"), [1, 2])
    assert time.monotonic() - start < 30


def test_one_failure_ends_the_others(router):
    start = time.monotonic()
    with pytest.raises(ToolError, match=r"^seed 1 .*: ERROR: no$"):
        place("a netlist", router("[ $seed = 1 ] && { echo ERROR: no; exit 1; }; sleep 60"), [1, 2, 3])
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("dut.x.level_TRELLIS_FF_Q_3", "dut.x.level"),
        ("dut.a_SB_DFF_Q_9_DFFLC", "dut.a"),
        ("dut.mul_MULT18X18_Z/PREADD9_CORE_x0_z0", "dut.mul"),
        ("dut.o__payload[12]", "dut.o__payload"),
        ("dut.x$fci", "dut.x"),
        ("$PACKER_VCC", ""),
        ("chain_TRELLIS_FF_Q", "chain"),
    ],
)
def test_own_names(name, own):
    assert own_name(name) == own

"""The manifest against the Verilog it tells of, and against the packing of golden."""

import hashlib
import json
import re
from functools import cache

import numpy as np
import pytest

from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.naming import NAMINGS
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.payload import pack, unpack

SPARSE = MacTileParams(rows=4, columns=3, lanes=5, lookahead=2, output_rows=2)
DENSE = SPARSE.dense
ONE_MOVE = MacTileParams(rows=1, columns=2, lanes=1, lookahead=1, interconnect=((0, 0),))
each_tile = pytest.mark.parametrize("params", [SPARSE, DENSE, ONE_MOVE], ids=["sparse", "dense", "one move"])


@cache
def made(params, naming="amaranth"):
    design = Design("t", "mac-tile", params)
    text = generate(design, NAMINGS[naming])
    return text, manifest(design, text, NAMINGS[naming])


def module(text, name):
    return re.search(rf"^module {name}\(.*?^endmodule", text, re.MULTILINE | re.DOTALL)[0]


def declared_ports(text, name):
    """Direction and width of each port of a module."""
    pattern = r"^  (input|output) (?:\[(\d+):0\] )?(\w+);"
    found = re.findall(pattern, module(text, name), re.MULTILINE)
    return {port: (direction, int(msb or 0) + 1) for direction, msb, port in found}


@each_tile
@pytest.mark.parametrize("naming", NAMINGS)
def test_ports_are_those_of_the_verilog(params, naming):
    text, facts = made(params, naming)
    ports = {port["name"]: (port["direction"], port["width"]) for port in facts["ports"]}
    assert ports == declared_ports(text, "t")
    for stream in facts["streams"]:
        assert ports[stream["payload"]][0] == ports[stream["valid"]][0] == stream["direction"]
        assert ports[stream["ready"]][0] != stream["direction"]
    assert {facts["clock"], facts["reset"]["port"]} <= ports.keys()


@each_tile
def test_fields_are_where_golden_packs_them(params):
    _, facts = made(params)
    rng = np.random.default_rng(0)
    ports = {port["name"]: port for port in facts["ports"]}
    for stream, fields in zip(facts["streams"], (params.input_fields, params.output_fields), strict=True):
        port = ports[stream["payload"]]
        words = rng.integers(0, 1 << 32, (1, -(-port["width"] // 32)), np.uint32)
        payload = int.from_bytes(words.astype("<u4").tobytes(), "little") % (1 << port["width"])
        values = unpack(fields, words)
        assert [entry["path"] for entry in port["fields"]] == [field.name for field in fields]
        for entry in port["fields"]:
            elements = values[entry["path"]].ravel()
            assert list(values[entry["path"]].shape) == [1, *entry["shape"]]
            for index, element in enumerate(elements):
                raw = payload >> (entry["offset"] + index * entry["element_width"])
                raw &= (1 << entry["element_width"]) - 1
                sign = entry["signed"] and raw >> (entry["element_width"] - 1)
                assert element == raw - (sign << entry["element_width"])
        assert np.array_equal(unpack(fields, pack(fields, values))["last"], values["last"])
        last = port["fields"][-1]
        assert port["width"] == last["offset"] + last["element_width"] * int(np.prod(last["shape"]))


@each_tile
def test_probes_are_ports_of_instances(params):
    text, facts = made(params)
    assert [probe["name"] for probe in facts["probes"]][:2] == ["issue", "advance"]
    for probe in facts["probes"]:
        for place in probe["ports"]:
            assert f"  {place['module']} {place['instance']} (" in module(text, "t")
            assert declared_ports(text, place["module"])[place["port"]][1] == probe["width"]


@each_tile
def test_it_makes_the_same_design_again(params):
    text, facts = made(params)
    again = json.loads(json.dumps(facts, allow_nan=False))
    assert again == facts
    assert MacTileParams.from_dict(again["parameters"]) == params
    assert again["verilog"] == {
        "file": "t.v",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "top": "t",
    }


def test_what_else_it_says():
    _, facts = made(SPARSE)
    assert (facts["design"], facts["kind"], facts["clock"]) == ("t", "mac-tile", "clk")
    assert facts["reset"] == {"port": "rst", "active": "high", "synchronous": True, "cycles": 2}
    assert facts["latencies"] == SPARSE.latencies
    assert facts["capacities"] == SPARSE.capacities
    assert facts["widths"]["accumulator"] == SPARSE.arithmetic.accumulator_bits
    assert any("wraps" in sentence for sentence in facts["contract"])
    assert facts["tools"].keys() == {"amaranth", "pyosys"}

"""Netlists: what is counted, which registers move into a DSP block, and a netlist in the place of a cell."""

import copy

import pytest

from skiptile.gen.netlist import absorb_registers, count, free_carry_inputs, insert
from skiptile.gen.targets import Cells

CLOCK, ENABLE, RESET = 2, 3, 4


def cell(type, *, inputs, outputs, **parameters):
    connections = {
        port: bits if isinstance(bits, list) else [bits] for port, bits in (inputs | outputs).items()
    }
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {
        "type": type,
        "parameters": parameters,
        "connections": connections,
        "port_directions": directions,
    }


def register(data, output, **more):
    return cell("TRELLIS_FF", inputs={"CLK": CLOCK, "DI": data, **more}, outputs={"Q": output})


def multiplier(**changes):
    """Registers 10 -> 20 and 11 -> 21 on A, 12 -> 22 on B, 30 -> 40 and 31 -> 41 on P."""
    operands = {"A0": 20, "A1": 21, "A2": 21, "A3": "0", "B0": 22, "B1": "0"}
    cells = {
        "a0": register(10, 20),
        "a1": register(11, 21),
        "b0": register(12, 22),
        "mul": cell("MULT18X18D", inputs=operands, outputs={"P0": 30, "P1": 31, "P2": 32}),
        "p0": register(30, 40),
        "p1": register(31, 41),
    }
    ports = {
        "clk": {"direction": "input", "bits": [CLOCK]},
        "i": {"direction": "input", "bits": [10, 11, 12, ENABLE, RESET]},
        "o": {"direction": "output", "bits": [40, 41]},
    }
    cells.update(changes)
    return {"ports": ports, "cells": cells, "netnames": {}}


def registers_inside(netlist):
    parameters = netlist["cells"]["mul"]["parameters"]
    return {side for side in ("INPUTA", "INPUTB", "OUTPUT") if parameters.get(f"REG_{side}_CLK") == "CLK0"}


def pin(netlist, port):
    return netlist["cells"]["mul"]["connections"][port]


def test_registers_on_all_sides_move_in():
    netlist = multiplier()
    assert absorb_registers(netlist) == 5
    assert list(netlist["cells"]) == ["mul"]
    assert registers_inside(netlist) == {"INPUTA", "INPUTB", "OUTPUT"}
    assert [pin(netlist, port) for port in ("A0", "A1", "A2", "A3", "B0")] == [[10], [11], [11], ["0"], [12]]
    assert [pin(netlist, port) for port in ("P0", "P1", "P2")] == [[40], [41], [32]]
    assert [pin(netlist, port) for port in ("CLK0", "CE0", "RST0")] == [[CLOCK], ["1"], ["0"]]
    assert netlist["cells"]["mul"]["port_directions"]["CLK0"] == "input"


@pytest.mark.parametrize("control", [{"CE": ENABLE}, {"LSR": RESET}])
def test_registers_with_enable_or_reset_stay(control):
    for name, data, output, side in (("a1", 11, 21, "INPUTA"), ("p1", 31, 41, "OUTPUT")):
        netlist = multiplier(**{name: register(data, output, **control)})
        absorb_registers(netlist)
        assert side not in registers_inside(netlist)
        assert name in netlist["cells"]
        assert len(registers_inside(netlist)) == 2


@pytest.mark.parametrize("first", ["mul", "next"])
def test_a_register_between_two_multipliers_moves_into_one(first):
    """p <= a * b; o <= p * c: of the registers of p each bit is in the first block or in the second."""
    operands = {"A0": 40, "A1": 41, "B0": 13}
    following = cell("MULT18X18D", inputs=operands, outputs={"P0": 50, "P1": 51})
    netlist = multiplier(next=following, q0=register(50, 60), q1=register(51, 61))
    netlist["ports"]["o"]["bits"] = [60, 61]
    netlist["ports"]["c"] = {"direction": "input", "bits": [13]}
    if first == "next":
        netlist["cells"] = {"next": following} | netlist["cells"]
    assert absorb_registers(netlist) == 7
    assert set(netlist["cells"]) == {"mul", "next"}
    wires = [pin(netlist, port) for port in ("P0", "P1")]
    assert wires == [following["connections"][port] for port in ("A0", "A1")]
    in_first, in_second = "OUTPUT" in registers_inside(netlist), "REG_INPUTA_CLK" in following["parameters"]
    assert in_first != in_second


@pytest.mark.parametrize(("parameter", "value"), [("CLKMUX", "INV"), ("REGSET", "SET")])
def test_registers_on_falling_edges_or_that_begin_with_one_stay(parameter, value):
    other = register(12, 22)
    other["parameters"][parameter] = value
    netlist = multiplier(b0=other)
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTA", "OUTPUT"}


def test_shared_operand_registers_stay_for_their_other_readers():
    netlist = multiplier(lut=cell("LUT4", inputs={"A": 20}, outputs={"Z": 50}))
    netlist["ports"]["more"] = {"direction": "output", "bits": [50]}
    assert absorb_registers(netlist) == 4
    assert registers_inside(netlist) == {"INPUTA", "INPUTB", "OUTPUT"}
    assert set(netlist["cells"]) == {"a0", "mul", "lut"}


def test_a_product_with_another_reader_stays():
    netlist = multiplier(lut=cell("LUT4", inputs={"A": 31}, outputs={"Z": 50}))
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTA", "INPUTB"}
    assert {"p0", "p1"} <= set(netlist["cells"])


def test_a_product_that_is_a_port_stays():
    netlist = multiplier()
    netlist["ports"]["more"] = {"direction": "output", "bits": [31]}
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTA", "INPUTB"}


def test_registers_of_another_clock_stay():
    other = 5
    netlist = multiplier(a1=register(11, 21, CLK=other))
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTB", "OUTPUT"}
    netlist = multiplier(b0=register(12, 22, CLK=other), p0=register(30, 40, CLK=other))
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTA"}
    assert pin(netlist, "CLK0") == [CLOCK]


def test_a_port_called_like_a_pin_is_no_register():
    netlist = multiplier()
    netlist["ports"]["DI"] = {"direction": "output", "bits": [32]}
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTA", "INPUTB"}


def test_operands_without_registers_stay():
    netlist = multiplier()
    netlist["cells"]["mul"]["connections"]["B0"] = [12]
    absorb_registers(netlist)
    assert registers_inside(netlist) == {"INPUTA", "OUTPUT"}


def test_without_multipliers_nothing_changes():
    netlist = multiplier()
    del netlist["cells"]["mul"]
    before = copy.deepcopy(netlist)
    assert absorb_registers(netlist) == 0
    assert netlist == before


def test_counts():
    cells = Cells(lut={"LUT[1-4]": 1}, carry={"ALU": 1}, ff={"DFF*": 1}, dsp={"MULT9X9": 1, "MULT18X18": 2},
                  luts_per_carry=2)  # fmt: skip
    types = ["LUT1", "LUT4", "LUT5", "ALU", "DFF", "DFFRE", "MULT18X18", "MULT9X9", "GND"]
    netlist = {"cells": {str(index): {"type": type} for index, type in enumerate(types)}}
    counts = count(netlist, cells)
    assert counts == {
        **{"lut": 4, "carry": 1, "ff": 2, "dsp": 3},
        **dict.fromkeys(("bram", "lutram", "gates")),
    }
    assert count({"cells": {}}, cells)["lut"] == 0


def test_chains_of_nexus_begin_with_an_open_input():
    cells = {
        "low": cell("VLO", inputs={}, outputs={"Z": 9}),
        "first": cell("CCU2", inputs={"CIN": 9, "A0": "0"}, outputs={"COUT": 10}),
        "second": cell("CCU2", inputs={"CIN": 10}, outputs={"COUT": 11}),
        "other": cell("CCU2", inputs={"CIN": "0"}, outputs={"COUT": 12}),
    }
    free_carry_inputs({"cells": cells})
    assert "CIN" not in cells["first"]["connections"] | cells["first"]["port_directions"]
    assert "CIN" not in cells["other"]["connections"]
    assert cells["first"]["connections"]["A0"] == ["0"]
    assert cells["second"]["connections"]["CIN"] == [10]


def test_insert_puts_a_netlist_in_the_place_of_a_cell():
    outer = {
        "ports": {"x": {"direction": "input", "bits": [2]}, "y": {"direction": "output", "bits": [3]}},
        "cells": {"dut": cell("d", inputs={"i": [2, "1"]}, outputs={"o": [3]})},
        "netnames": {},
    }
    inner = {
        "ports": {"i": {"direction": "input", "bits": [2, 3]}, "o": {"direction": "output", "bits": [5]}},
        "cells": {
            "and": cell("LUT4", inputs={"A": 2, "B": 3, "C": "0"}, outputs={"Z": 4}),
            "not": cell("LUT4", inputs={"A": 4}, outputs={"Z": 5}),
        },
        "netnames": {"between": {"bits": [4]}, "i": {"bits": [2, 3]}},
    }
    insert(outer, "dut", inner)
    assert set(outer["cells"]) == {"dut.and", "dut.not"}
    first, second = (outer["cells"][name]["connections"] for name in ("dut.and", "dut.not"))
    assert first["A"] == [2]
    assert first["B"] == ["1"]
    assert first["C"] == ["0"]
    assert second["Z"] == [3]
    assert first["Z"] == second["A"] == outer["netnames"]["dut.between"]["bits"]
    assert first["Z"][0] not in (2, 3)
    assert inner["cells"]["and"]["connections"]["A"] == [2], "the inner netlist is not to change"

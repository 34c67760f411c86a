"""The harness finds what is wrong with a design: a hang, a broken protocol, a beat too many."""

import numpy as np
import pytest
from verilog_tools import needs_verilator

from skiptile import sim
from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.verilog import generate
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import random_case
from skiptile.golden.payload import pack, payload_words
from skiptile.sim.build import build
from skiptile.sim.harness import Simulation, SimulationError
from skiptile.sim.tools import ToolError

DESIGN = Design("t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, lookahead=0))
FLIP = "reg flip = 0; always @(posedge clk) flip <= ~flip; "
pytestmark = needs_verilator


def simulation(verilog, **options):
    description = manifest(DESIGN, verilog)
    return Simulation(build(description, verilog, random_start=True), description, **options)


def mutated(old, new):
    text = generate(DESIGN)
    assert text.count(old) == 1
    return text.replace(old, new)


def payloads(jobs=20):
    inputs, outputs = random_case(DESIGN.params, jobs, 0)
    results = np.zeros((len(outputs["last"]), payload_words(DESIGN.params.output_fields)), np.uint32)
    return pack(DESIGN.params.input_fields, inputs), results


def run(simulated, sent, results, **options):
    simulated.send("i", sent)
    simulated.expect("o", results)
    return list(simulated.run(**options))


def test_a_hang_ends_with_the_state_of_the_streams():
    sent, results = payloads()
    with simulation(generate(DESIGN), paces={"o": 1.0}) as simulated, pytest.raises(SimulationError) as error:
        run(simulated, sent, results)
    message = str(error.value)
    assert message.startswith("t: nothing has moved for 20000 clock cycles (i: ")
    assert "o: 0 of 40 beats" in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("assign o__valid = ", f"{FLIP}assign o__valid = flip & "),
        ("assign o__payload = ", f"{FLIP}assign o__payload = flip ^ "),
    ],
    ids=["valid falls", "payload changes"],
)
def test_a_broken_protocol_is_told(old, new):
    sent, results = payloads()
    with (
        simulation(mutated(old, new), paces={"o": 0.8}) as simulated,
        pytest.raises(SimulationError, match="withdrew or changed a beat"),
    ):
        run(simulated, sent, results)


def test_a_beat_too_many_is_told():
    sent, results = payloads()
    with simulation(generate(DESIGN)) as simulated:
        run(simulated, sent, results[:-1])
        with pytest.raises(SimulationError, match="stream o gave more beats than expected"):
            simulated.settle()


def test_paces_are_followed():
    """A pattern says exactly when; a chance is met on average; the same seed gives the same run."""
    sent, results = payloads(200)
    rests = np.array([True, True, True, False])
    with simulation(generate(DESIGN), paces={"i": rests}) as simulated:
        run(simulated, sent, results)
        assert simulated.elapsed >= 4 * (len(sent) - 1)
        simulated.settle()
    elapsed = []
    for seed in (1, 1, 2**31 - 2):
        with simulation(generate(DESIGN), paces={"i": 0.75}, seed=seed) as simulated:
            run(simulated, sent, results)
            elapsed.append(simulated.elapsed)
    assert elapsed[0] == elapsed[1] != elapsed[2]
    assert 3 * len(sent) < elapsed[0] < 5 * len(sent)


@pytest.mark.parametrize("pace", [-0.1, 1.1, float("nan"), np.zeros(0, bool), [[True]]])
def test_paces_that_make_no_sense_are_refused(pace):
    with pytest.raises(ValueError, match=r"^a pace must be a chance"):
        simulation(generate(DESIGN), paces={"i": pace})


def test_a_budget_of_cycles_ends_a_run_early():
    sent, results = payloads(200)
    with simulation(generate(DESIGN)) as simulated:
        assert run(simulated, sent, results, cycles=30)[-1] == 30
        simulated.reset()
        run(simulated, sent, results)
        simulated.settle()


def test_verilog_that_does_not_build_is_an_error():
    with pytest.raises(ToolError, match="the simulator did not build, verilator says: "):
        simulation(mutated("assign o__valid = ", "assign o__valid = nothing + "))


def test_registers_begin_with_random_values_on_request():
    """The one register that no reset reaches shows the seed in the first output."""
    text = mutated("assign o__valid = ", "reg [31:0] never; assign o__valid = never[0] | ")
    seen = set()
    for seed in range(20):
        with simulation(text, seed=seed) as simulated:
            try:
                simulated.settle()
                seen.add(0)
            except SimulationError:
                seen.add(1)
    assert seen == {0, 1}


def test_large_models_are_cut_at_the_element():
    """Flat or hierarchical, a model does the same."""
    design = Design("t", "mac-tile", MacTileParams(rows=2, columns=1, lanes=2, lookahead=1))
    text = generate(design)
    description = manifest(design, text)
    inputs, _ = random_case(design.params, 30, 0)
    both = []
    for flat in (True, False):
        library = build(description, text, random_start=True, flat=flat)
        both.append(sim.model.Model(design, library, description).stream(inputs, 0.3, 0.3, 1, trace=True))
    assert both[0].elapsed == both[1].elapsed
    for name, values in both[0].outputs.items():
        assert np.array_equal(both[1].outputs[name], values)
    for name, values in both[0].trace.items():
        assert np.array_equal(both[1].trace[name], values)

import numpy as np
import pytest
from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.sim import Simulator

from skiptile.golden.mac_tile import MacTileParams, schedule
from skiptile.hw.contexts import Contexts
from skiptile.hw.scheduler import Selection


class Wrapper(Elaboratable):
    """The combinational part of the scheduler on its own."""

    def __init__(self, params):
        self.params = params
        self.window = Signal(params.window_steps * params.lanes)
        self.select = Signal(params.lanes * len(params.moves))
        self.left = Signal(params.window_steps * params.lanes)

    def elaborate(self, platform):
        m = Module()
        lanes, steps = self.params.lanes, self.params.window_steps
        window = [self.window.word_select(k, lanes) for k in range(steps)]
        selection = Selection(m, window, self.params, Contexts(m, 1))
        m.d.comb += [
            self.select.eq(Cat(selection.select)),
            self.left.eq(Cat(selection.left)),
        ]
        return m


def first_issues(windows, params):
    """Golden selections and advances of the first issue on each window (n, steps, lanes)."""
    ends = np.zeros((len(windows), params.window_steps), bool)
    ends[:, -1] = True
    whole = schedule(windows.reshape(-1, 1, params.lanes), ends.reshape(-1), params)
    firsts = np.cumsum(whole.cycles) - whole.cycles
    return whole.select[firsts, 0], whole.advance[firsts]


def check(windows, params):
    select, advance = first_issues(windows, params)
    dut = Wrapper(params)
    steps, lanes = params.window_steps, params.lanes
    weights = 1 << np.arange(steps * lanes, dtype=object)
    numbers = windows.reshape(len(windows), -1).astype(object) @ weights

    async def bench(ctx):
        for number, wanted, wanted_advance in zip(numbers, select, advance, strict=True):
            ctx.set(dut.window, int(number))
            chosen, left = ctx.get(dut.select), ctx.get(dut.left)
            moves = len(params.moves)
            got = [(chosen >> lane * moves & (1 << moves) - 1).bit_length() - 1 for lane in range(lanes)]
            assert got == wanted.tolist(), f"window {number:#x}"
            drained = [left >> k * lanes & (1 << lanes) - 1 == 0 for k in range(steps)]
            assert [*drained, False].index(False) == wanted_advance, f"window {number:#x}"

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("interconnect", ["tensordash", "tensordash-sim", "lookahead"])
def test_every_window_of_four_lanes_and_three_steps(interconnect):
    params = MacTileParams(rows=1, columns=1, lanes=4, interconnect=interconnect)
    numbers = np.arange(1 << 12)
    windows = (numbers[:, None] >> np.arange(12) & 1).astype(bool).reshape(-1, 3, 4)
    check(windows, params)


@pytest.mark.parametrize(("lanes", "lookahead"), [(1, 1), (3, 7), (16, 2), (32, 3), (64, 1)])
def test_random_windows(lanes, lookahead):
    rng = np.random.default_rng([lanes, lookahead])
    params = MacTileParams(rows=1, columns=1, lanes=lanes, lookahead=lookahead)
    density = rng.random((100, 1, 1))
    check(rng.random((100, lookahead + 1, lanes)) < density, params)


def test_own_list_of_moves():
    rng = np.random.default_rng(8)
    moves = [[0, 0], [2, -3], [1, 2], [1, 0]]
    params = MacTileParams(rows=1, columns=1, lanes=7, interconnect=moves)
    check(rng.random((300, 3, 7)) < 0.5, params)

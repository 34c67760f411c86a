import numpy as np
import pytest

from skiptile.golden.interconnect import INTERCONNECTS
from skiptile.golden.mac_tile import MacTileParams, count_cycles, schedule
from skiptile.golden.published import TENSORDASH_SPEEDUPS, ZEROS


def tile(rows=1, lanes=16, lookahead=2, interconnect="tensordash", contexts=1):
    return MacTileParams(
        rows=rows,
        columns=1,
        lanes=lanes,
        lookahead=lookahead,
        interconnect=interconnect,
        contexts=contexts,
    )


def one_reduction(rng, steps, rows, lanes, zeros):
    ends = np.zeros(steps, bool)
    ends[-1] = True
    return rng.random((steps, rows, lanes)) >= zeros, ends


def reductions(rng, lengths, rows, lanes):
    """Reductions of different lengths and densities, one after the other."""
    pieces = [one_reduction(rng, steps, rows, lanes, rng.choice([0, 0.3, 0.7, 0.95, 1])) for steps in lengths]
    return np.concatenate([p for p, _ in pieces]), np.concatenate([e for _, e in pieces])


def by_the_paper(effectual, ends, params):
    """The schedule again, with sets and straight from the description; slow, and written on its own."""
    issues, cycles = [], []
    start = 0
    for stop in np.flatnonzero(ends) + 1:
        rows = [
            {(t, lane) for t in range(start, stop) for lane in range(params.lanes) if effectual[t, row, lane]}
            for row in range(params.rows)
        ]
        head, count = start, 0
        while head < stop:
            reach = min(head + params.lookahead + 1, stop)
            chosen = np.full((params.rows, params.lanes), -1)
            for row, left in enumerate(rows):
                for level in params.levels:
                    wanted = {}
                    for lane in level:
                        for index, (step, offset) in enumerate(params.moves):
                            place = (head + step, (lane + offset) % params.lanes)
                            if place in left and place[0] < reach:
                                wanted[lane] = (index, place)
                                break
                    places = [place for _, place in wanted.values()]
                    assert len(set(places)) == len(places), "two lanes of a level take one pair"
                    for lane, (index, place) in wanted.items():
                        chosen[row, lane] = index
                        left.remove(place)
            pending = [t for left in rows for t, _ in left]
            following = min([reach, *pending])
            issues.append((chosen, following - head))
            head, count = following, count + 1
        cycles.append(count)
        start = stop
    return cycles, issues


def with_two_contexts(effectual, ends, params):
    """A reduction's beats go to two windows in turn; one that was two beats ahead two rounds ago rests."""
    alone = tile(params.rows, params.lanes, params.lookahead, params.interconnect)
    nothing = (np.full((params.rows, params.lanes), -1), 0)
    issues, cycles = [], []
    start = 0
    for stop in np.flatnonzero(ends) + 1:
        dealt = [[], []]
        for first in range(start, stop, params.window_steps):
            dealt[(first - start) // params.window_steps % 2] += range(
                first, min(first + params.window_steps, stop)
            )
        parts = [
            by_the_paper(effectual[part], np.arange(len(part)) == len(part) - 1, alone)[1] for part in dealt
        ]
        behind = [[0, 0], [0, 0]]  # steps of each part, after each round
        count = 0
        while parts[0] or parts[1]:
            beats = [steps // params.window_steps for steps in behind[-2]]
            rests = [parts[1 - c] and beats[c] - beats[1 - c] >= 2 for c in (0, 1)]
            taken = [
                part.pop(0) if part and not rest else nothing for part, rest in zip(parts, rests, strict=True)
            ]
            issues += taken
            behind.append([steps + advance for steps, (_, advance) in zip(behind[-1], taken, strict=True)])
            count += 2
        cycles.append(count)
        start = stop
    return cycles, issues


@pytest.mark.parametrize(("interconnect", "rows"), TENSORDASH_SPEEDUPS)
def test_published_speed_ups(interconnect, rows):
    steps = 4096
    for index, (zeros, wanted) in enumerate(zip(ZEROS, TENSORDASH_SPEEDUPS[interconnect, rows], strict=True)):
        got = []
        for seed in range(3):
            pairs = one_reduction(np.random.default_rng([seed, index]), steps, rows, 16, zeros)
            got.append(steps / count_cycles(*pairs, tile(rows, interconnect=interconnect))[0])
        assert np.mean(got) == pytest.approx(wanted, rel=0.015)


@pytest.mark.parametrize("interconnect", [*INTERCONNECTS, ((0, 0), (1, 0), (2, 1), (1, -1)), ((0, 0),)])
@pytest.mark.parametrize("lookahead", [2, 3, 7])
@pytest.mark.parametrize(("rows", "lanes"), [(1, 4), (3, 2), (2, 16), (1, 5), (1, 64)])
@pytest.mark.parametrize("contexts", [1, 2])
def test_three_implementations_agree(rows, lanes, lookahead, interconnect, contexts):
    rng = np.random.default_rng([rows, lanes, lookahead])
    params = tile(rows, lanes, lookahead, interconnect, contexts)
    effectual, ends = reductions(rng, [1, 2, 3, 4, 17, 1, 30, 8, 90], rows, lanes)
    beats = np.arange(90) // params.window_steps
    effectual[-90:][rng.random(90)[beats] < 0.5] = False  # uneven, so that a context rests
    result = schedule(effectual, ends, params)
    described = by_the_paper if contexts == 1 else with_two_contexts
    cycles, issues = described(effectual, ends, params)
    assert result.cycles.tolist() == cycles
    assert result.advance.tolist() == [advance for _, advance in issues]
    assert np.array_equal(result.select, [chosen for chosen, _ in issues])
    assert count_cycles(effectual, ends, params).tolist() == cycles


@pytest.mark.parametrize(("lanes", "lookahead"), [(1, 0), (1, 1), (1, 7), (3, 1), (2, 3), (64, 1), (64, 7)])
def test_counting_agrees_at_the_limits(lanes, lookahead):
    rng = np.random.default_rng([lanes, lookahead])
    for rows in (1, 2, 5):
        effectual, ends = reductions(rng, rng.integers(1, 40, 20), rows, lanes)
        params = tile(rows, lanes, lookahead)
        assert np.array_equal(count_cycles(effectual, ends, params), schedule(effectual, ends, params).cycles)


@pytest.mark.parametrize("interconnect", INTERCONNECTS)
def test_every_pair_is_taken_exactly_once(interconnect):
    rng = np.random.default_rng(5)
    params = tile(3, 8, 2, interconnect)
    effectual, ends = reductions(rng, [1, 5, 40, 2, 3], 3, 8)
    result = schedule(effectual, ends, params)
    taken = np.zeros(effectual.shape, int)
    head = 0
    for select, advance in zip(result.select, result.advance, strict=True):
        for row, lane in np.argwhere(select >= 0):
            step, offset = params.moves[select[row, lane]]
            taken[head + step, row, (lane + offset) % params.lanes] += 1
        head += advance
    assert np.array_equal(taken, effectual)
    assert head == len(ends)


def test_more_moves_than_a_byte_counts():
    moves = [(0, 0), *((step, lane) for step in range(1, 8) for lane in range(20))]
    params = tile(1, 20, 7, moves)
    effectual, ends = np.zeros((8, 1, 20), bool), np.arange(8) == 7
    effectual[7, 0, 19] = True  # lane 0 is asked first, and reaches it by its last move
    wanted = by_the_paper(effectual, ends, params)[1]
    result = schedule(effectual, ends, params)
    assert result.select.max() == 140
    assert np.array_equal(result.select, [chosen for chosen, _ in wanted])


def test_bounds():
    rng = np.random.default_rng(6)
    params = tile(2, 4, 2)
    lengths = np.arange(1, 60)
    effectual, ends = reductions(rng, lengths, 2, 4)
    cycles = count_cycles(effectual, ends, params)
    assert np.all(cycles >= -(-lengths // 3))  # an advance never crosses the boundary
    assert np.all(cycles <= lengths)


def test_a_context_two_beats_ahead_rests():
    params = tile(1, 1, 1, contexts=2)  # beats of two steps
    effectual, ends = np.zeros((24, 1, 1), bool), np.arange(24) == 23
    effectual[np.arange(24) // 2 % 2 == 1] = True  # the second context's: each takes it two turns
    result = schedule(effectual, ends, params)
    # Its lead after 1, 2 .. rounds is 1 1 2 2 2 1 1 1 2; a round sees that of two rounds before.
    assert result.advance[0::2].tolist() == [2, 2, 2, 2, 0, 0, 0, 2, 2, 0, 0, 0]
    assert result.advance[1::2].tolist() == [1] * 12
    assert result.cycles.tolist() == [24]


@pytest.mark.parametrize("zeros", [0.3, 0.5, 0.7, 0.9])
def test_two_contexts_cost_little_in_long_reductions(zeros):
    pairs = one_reduction(np.random.default_rng(0), 4096, 1, 16, zeros)
    one, two = (count_cycles(*pairs, tile(contexts=contexts))[0] for contexts in (1, 2))
    assert two == pytest.approx(one, rel=0.02)


def test_extremes():
    params = tile(2, 4, 2)
    ends = np.arange(9) == 8
    assert count_cycles(np.ones((9, 2, 4), bool), ends, params).tolist() == [9]
    assert count_cycles(np.zeros((9, 2, 4), bool), ends, params).tolist() == [3]
    assert count_cycles(np.zeros((1, 2, 4), bool), np.array([True]), params).tolist() == [1]
    nothing = schedule(np.zeros((0, 2, 4), bool), np.zeros(0, bool), params)
    assert nothing.cycles.shape == (0,)
    assert nothing.select.shape == (0, 2, 4)
    assert count_cycles(np.zeros((0, 2, 4), bool), np.zeros(0, bool), params).shape == (0,)
    params = tile(2, 4, 2, contexts=2)
    assert count_cycles(np.zeros((9, 2, 4), bool), ends, params).tolist() == [4]  # two beats and one
    assert count_cycles(np.zeros((1, 2, 4), bool), np.array([True]), params).tolist() == [2]
    nothing = schedule(np.zeros((0, 2, 4), bool), np.zeros(0, bool), params)
    assert (nothing.cycles.shape, nothing.select.shape) == ((0,), (0, 2, 4))


def test_more_zeros_and_more_lookahead_never_take_longer_on_average():
    rng = np.random.default_rng(7)
    chances = rng.random((2000, 4, 16))
    ends = np.arange(2000) == 1999
    cycles = [
        [count_cycles(chances >= zeros, ends, tile(4, 16, lookahead))[0] for zeros in (0.2, 0.5, 0.8)]
        for lookahead in (0, 1, 2)
    ]
    assert np.all(np.diff(cycles, axis=1)[1:] < 0)
    assert np.all(np.diff(cycles, axis=0) < 0)


@pytest.mark.parametrize(
    ("effectual", "ends", "message"),
    [
        (
            np.ones((2, 1, 4)),
            np.array([False, True]),
            "effectual and ends must be bool, not float64 and bool",
        ),
        (
            np.ones((2, 1, 3), bool),
            np.array([False, True]),
            "effectual must have the shape (steps, rows, lanes) = (2, 1, 4), not (2, 1, 3)",
        ),
        (
            np.ones((2, 1, 4), bool),
            np.array([True, False]),
            "ends must be true for the last step: a reduction is not complete",
        ),
    ],
)
def test_bad_input(effectual, ends, message):
    for function in (schedule, count_cycles):
        with pytest.raises((TypeError, ValueError)) as error:
            function(effectual, ends, tile(1, 4))
        assert str(error.value) == message

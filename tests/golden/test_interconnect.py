import numpy as np
import pytest

from skiptile.golden.interconnect import (
    INTERCONNECTS,
    check_moves,
    cut_moves,
    derive_levels,
    named_moves,
    steps_ahead,
)

# The levels published for 16 lanes (TensorDash, MICRO 2020).
PUBLISHED = ((0, 5, 10), (1, 6, 11), (2, 7, 12), (3, 8, 13), (4, 9, 14), (15,))


@pytest.mark.parametrize("name", ["tensordash", "tensordash-sim"])
def test_published_levels(name):
    moves = cut_moves(named_moves(name, 2), 16, 2)
    assert len(moves) == 8
    assert derive_levels(moves, 16) == PUBLISHED


@pytest.mark.parametrize("name", [name for name in INTERCONNECTS if "-level-" in name])
def test_names_say_levels_and_moves_at_16_lanes(name):
    levels, moves = name.split("-level-")
    ahead = steps_ahead(name)
    cut = cut_moves(named_moves(name, ahead), 16, ahead)
    assert ahead == (3 if name == "two-level-7" else 2)
    assert len(cut) == int(moves)
    assert len(derive_levels(cut, 16)) == {"one": 1, "two": 2, "four": 4}[levels]


def test_lookahead_has_one_level():
    assert derive_levels(cut_moves(named_moves("lookahead", 3), 16, 3), 16) == (tuple(range(16)),)


@pytest.mark.parametrize("name", INTERCONNECTS)
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 5, 8, 16, 33, 64])
@pytest.mark.parametrize("lookahead", [1, 2, 3, 7])
def test_every_name_serves_every_size(name, lanes, lookahead):
    moves = cut_moves(named_moves(name, lookahead), lanes, lookahead)
    assert moves[0] == (0, 0)
    assert len(set(moves)) == len(moves)
    assert all(step <= lookahead and 0 <= offset < lanes for step, offset in moves)
    assert check_moves(moves, lanes, lookahead) == moves
    levels = derive_levels(moves, lanes)
    assert sorted(lane for level in levels for lane in level) == list(range(lanes))
    for level in levels:  # no two lanes of a level can want the same pair
        reach = [(step, (lane + offset) % lanes) for lane in level for step, offset in moves]
        assert len(set(reach)) == len(reach)


def test_cut_drops_moves_that_land_together():
    # with two lanes an offset of -1 is one of +1, and -2, 2 are the lane's own
    assert cut_moves(named_moves("tensordash", 2), 2, 2) == ((0, 0), (1, 0), (2, 0), (1, 1))
    assert cut_moves(named_moves("tensordash", 2), 1, 2) == ((0, 0), (1, 0), (2, 0))


@pytest.mark.parametrize(
    ("moves", "kind", "message"),
    [
        ("ring", TypeError, "interconnect must be a name or a list of [step, lane offset], not 'ring'"),
        ([], TypeError, "interconnect must be a name or a list of [step, lane offset], not []"),
        ([[0, 0], [1]], TypeError, "interconnect move 1 must be [step, lane offset], not [1]"),
        ([[0, 0], [1, True]], TypeError, "interconnect move 1 must be [step, lane offset], not [1, True]"),
        ([[0, 0], [1, 0.5]], TypeError, "interconnect move 1 must be [step, lane offset], not [1, 0.5]"),
        (
            [[1, 0]],
            ValueError,
            "interconnect must start with [0, 0], or the head may never drain, not [1, 0]",
        ),
        ([[0, 0], [0, 1]], ValueError, "interconnect move [0, 1] must have a step of at least 1"),
        (
            [[0, 0], [3, 0]],
            ValueError,
            "interconnect move [3, 0] must have a step from 0 to lookahead = 2",
        ),
        (
            [[0, 0], [-1, 0]],
            ValueError,
            "interconnect move [-1, 0] must have a step from 0 to lookahead = 2",
        ),
        ([[0, 0], [1, 4]], ValueError, "interconnect move [1, 4] must have an offset below lanes = 4"),
        ([[0, 0], [1, -4]], ValueError, "interconnect move [1, -4] must have an offset below lanes = 4"),
        (
            [[0, 0], [1, 1], [1, -3]],
            ValueError,
            "interconnect move [1, -3] lands where [1, 1] does with lanes = 4",
        ),
    ],
)
def test_refused_lists(moves, kind, message):
    with pytest.raises(kind) as error:
        check_moves(moves, 4, 2)
    assert str(error.value) == message


def test_random_lists_have_levels_without_conflict():
    rng = np.random.default_rng(3)
    for _ in range(50):
        lanes, lookahead = int(rng.integers(1, 20)), int(rng.integers(1, 5))
        places = [(step, offset) for step in range(1, lookahead + 1) for offset in range(lanes)]
        chosen = rng.permutation(len(places))[: rng.integers(0, 8)]
        moves = ((0, 0), *(places[k] for k in chosen))
        for level in derive_levels(moves, lanes):
            reach = [(s, (lane + o) % lanes) for lane in level for s, o in moves]
            assert len(set(reach)) == len(reach)

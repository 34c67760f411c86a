"""Sparse interconnects: where each lane may take its pair from, and the levels that decide.

A **move** is (step, lane offset): lane i may take the pair at ``step`` steps ahead of the window's
head, lane ``(i + offset) mod lanes``. An interconnect is a list of moves in priority order. Lanes are
grouped in **levels**: within a level no two lanes can reach the same place, and each level sees what
the earlier ones left (TensorDash, MICRO 2020).
"""

from functools import cache

Move = tuple[int, int]

# The published lists. `tensordash-sim` is the one of the authors' public simulator.
_TENSORDASH = ((0, 0), (1, 0), (2, 0), (1, -1), (1, 1), (2, -2), (2, 2), (1, -3))
_TENSORDASH_SIM = ((0, 0), (1, -1), (1, 0), (1, 1), (1, 3), (2, -2), (2, 0), (2, 2))

# Found by search for 16 lanes and as many steps ahead as they have, named by their levels there and their
# moves: the fewer levels, the shorter the scheduler's loop; the fewer moves, the smaller its multiplexers.
_FOUND = {
    "one-level-3": ((0, 0), (1, -5), (2, 5)),
    "two-level-4": ((0, 0), (1, -2), (1, -1), (2, 6)),
    "two-level-5": ((0, 0), (1, -1), (1, 0), (2, 6), (2, -7)),
    "two-level-7": ((0, 0), (1, 6), (1, -5), (2, 4), (2, 5), (3, 6), (3, 3)),
    "four-level-6": ((0, 0), (1, -7), (1, 6), (1, 7), (2, -8), (2, 2)),
    "four-level-8": ((0, 0), (1, -5), (1, 5), (1, -2), (1, -4), (2, 4), (2, -7), (2, 6)),
    "four-level-9": ((0, 0), (1, 4), (1, 7), (1, -3), (1, 2), (2, 0), (2, -2), (2, -1), (2, -7)),
}

INTERCONNECTS = {
    "tensordash": "the paper's eight moves, two steps ahead, in six levels of 16 lanes",
    "tensordash-sim": "the eight moves of the authors' public simulator, in six levels",
    "lookahead": "the lane's own place in every step of the window, in one level",
    "one-level-3": "three moves in one level: the smallest of those that leave their lane",
    "two-level-4": "four moves in two levels",
    "two-level-5": "five moves in two levels: the most products per second and LUT",
    "two-level-7": "seven moves in two levels, for lookahead = 3: the most products per second on an FPGA",
    "four-level-6": "six moves in four levels: as fast as the paper's in cycles, with fewer inputs",
    "four-level-8": "eight moves in four levels: 6 % faster in cycles than the paper's",
    "four-level-9": "nine moves in four levels: the fastest two steps ahead, 9 % above the paper's",
}


def named_moves(name: str, lookahead: int) -> tuple[Move, ...]:
    """The moves of the interconnect ``name``, before they are cut to a tile's size."""
    if name == "lookahead":
        return tuple((step, 0) for step in range(lookahead + 1))
    return {"tensordash": _TENSORDASH, "tensordash-sim": _TENSORDASH_SIM, **_FOUND}[name]


def steps_ahead(name: str) -> int:
    """The ``lookahead`` that the named list is for."""
    return max(step for step, _ in named_moves(name, 2))


def cut_moves(moves: tuple[Move, ...], lanes: int, lookahead: int) -> tuple[Move, ...]:
    """Cut a named list to ``lanes`` and ``lookahead``.

    Moves beyond ``lookahead`` go, offsets become their residue modulo ``lanes``, and a move that
    lands where an earlier one lands is dropped, so that every name serves every size.
    """
    kept: dict[Move, None] = {}
    for step, offset in moves:
        if step <= lookahead:
            kept.setdefault((step, offset % lanes))
    return tuple(kept)


def check_moves(moves: object, lanes: int, lookahead: int) -> tuple[Move, ...]:
    """A user's own list as a tuple of moves, or an error that names the move it is refused for.

    Raises:
        TypeError: not a list of [step, lane offset] pairs of integers.
        ValueError: a list that could lose a pair or never drain.
    """
    if not isinstance(moves, list | tuple) or not moves:
        raise TypeError(f"interconnect must be a name or a list of [step, lane offset], not {moves!r}")
    seen: dict[Move, object] = {}
    for index, move in enumerate(moves):
        if (
            not isinstance(move, list | tuple)
            or len(move) != 2
            or any(isinstance(part, bool) or not isinstance(part, int) for part in move)
        ):
            raise TypeError(f"interconnect move {index} must be [step, lane offset], not {move!r}")
        step, offset = move
        shown = [step, offset]
        if index == 0 and (step, offset) != (0, 0):
            raise ValueError(f"interconnect must start with [0, 0], or the head may never drain, not {shown}")
        if step < 0 or step > lookahead:
            raise ValueError(f"interconnect move {shown} must have a step from 0 to lookahead = {lookahead}")
        if index > 0 and step == 0:
            raise ValueError(f"interconnect move {shown} must have a step of at least 1")
        if abs(offset) >= lanes:
            raise ValueError(f"interconnect move {shown} must have an offset below lanes = {lanes}")
        place = (step, offset % lanes)
        if place in seen:
            raise ValueError(f"interconnect move {shown} lands where {seen[place]} does with lanes = {lanes}")
        seen[place] = shown
    return tuple(seen)


@cache
def derive_levels(moves: tuple[Move, ...], lanes: int) -> tuple[tuple[int, ...], ...]:
    """Group lanes 0 .. ``lanes`` - 1 into levels by first fit.

    Each lane goes into the first level with none of whose lanes it shares a reachable place of a
    step above 0. (The place of step 0 is the lane's own, no other lane reaches it.)
    """
    levels: list[list[int]] = []
    taken: list[set[Move]] = []
    for lane in range(lanes):
        reach = {(step, (lane + offset) % lanes) for step, offset in moves if step > 0}
        for level, places in zip(levels, taken, strict=True):
            if not reach & places:
                level.append(lane)
                places |= reach
                break
        else:
            levels.append([lane])
            taken.append(set(reach))
    return tuple(tuple(level) for level in levels)

"""The sparse-skipping schedule of the `mac-tile`, cycle for cycle (TensorDash, MICRO 2020).

A window holds the head step of the current reduction and up to ``lookahead`` more. Each cycle every
lane of every row takes one effectual pair, level by level, from the first of its moves that finds
one; then all rows advance together over the steps that are drained in every row. The window never
holds a step of the next reduction.

With two contexts a reduction's beats go to two windows in turn. Each part is scheduled as if it were a
reduction of its own; their issues alternate, context 0 first, until both parts have ended. A context that is
`LEAD` beats ahead of the other, as of two rounds ago, rests until the other has come nearer.

Two implementations say the same: :func:`schedule` element by element, with every selection, and
:func:`count_cycles` on bit masks, which only counts.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from skiptile.golden.interconnect import Move

# The largest for which the tile's `BUFFER_BEATS` of 8 leave no cycle without an issue; 3 does.
LEAD = 2


class ScheduledTile(Protocol):
    """What a schedule needs to know of a tile's parameters."""

    @property
    def rows(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def lookahead(self) -> int: ...
    @property
    def contexts(self) -> int: ...
    @property
    def moves(self) -> tuple[Move, ...]: ...
    @property
    def levels(self) -> tuple[tuple[int, ...], ...]: ...


@dataclass(frozen=True)
class Schedule:
    """What the scheduler does in each issue cycle.

    Attributes:
        cycles: int64 (reductions,), issue cycles of each reduction.
        select: int16 (issues, rows, lanes), index of the move taken, -1 for none.
        advance: int64 (issues,), steps by which the window of the issue's context advances; 0 when it rests
            and once its part has ended.
    """

    cycles: np.ndarray
    select: np.ndarray
    advance: np.ndarray


def schedule(effectual: np.ndarray, ends: np.ndarray, params: ScheduledTile) -> Schedule:
    """Schedule every cycle of a sequence of reductions.

    Args:
        effectual: bool (steps, rows, lanes), the pairs that are not annihilated by a zero.
        ends: bool (steps,), the last step of each reduction; the last one is true.
        params: the tile.

    Raises:
        ValueError: shapes that do not fit each other or the tile.
    """
    effectual, ends = _checked(effectual, ends, params)
    order = np.array([lane for level in params.levels for lane in level], np.int64)
    moves = np.array(params.moves, np.int64)
    parts = [
        (there, *_schedule(effectual[steps], part_ends, order, moves, params.lookahead))
        for steps, part_ends, there in _parts(ends, params)
    ]
    if len(parts) == 1:
        return Schedule(*parts[0][1:])
    rounds, turns = _joined(
        [(there, cycles, advance) for there, cycles, _, advance in parts], params.lookahead
    )
    cycles = rounds * len(parts)
    select = np.full((cycles.sum(), params.rows, params.lanes), -1, np.int16)
    advance = np.zeros(cycles.sum(), np.int64)
    for context, (_, _, part_select, part_advance) in enumerate(parts):
        issues = turns[context] * len(parts) + context
        select[issues], advance[issues] = part_select, part_advance
    return Schedule(cycles, select, advance)


def count_cycles(effectual: np.ndarray, ends: np.ndarray, params: ScheduledTile) -> np.ndarray:
    """Issue cycles of each reduction, int64 (reductions,): :func:`schedule` without the selections."""
    effectual, ends = _checked(effectual, ends, params)
    levels = np.array([sum(1 << lane for lane in level) for level in params.levels], np.uint64)
    moves = np.array(params.moves, np.int64)
    parts = [
        (there, *_count_cycles(effectual[steps], part_ends, levels, moves, params.lookahead))
        for steps, part_ends, there in _parts(ends, params)
    ]
    return parts[0][1] if len(parts) == 1 else _joined(parts, params.lookahead)[0] * len(parts)


Part = tuple[np.ndarray | slice, np.ndarray, np.ndarray | slice]


def _parts(ends: np.ndarray, params: ScheduledTile) -> list[Part]:
    """What each context gets: its steps, which of them are the last of a part, which reductions it has."""
    contexts, window = params.contexts, params.lookahead + 1
    if contexts == 1:
        return [(slice(None), ends, slice(None))]
    reduction = np.cumsum(ends) - ends
    lengths = np.bincount(reduction)
    within = np.arange(len(ends)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    dealt = within // window % contexts
    parts: list[Part] = []
    for context in range(contexts):
        steps = np.flatnonzero(dealt == context)
        owners = reduction[steps]
        part_ends = np.append(owners[1:] != owners[:-1], True)[: len(steps)]
        parts.append((steps, part_ends, owners[part_ends]))
    return parts


def _joined(
    parts: list[tuple[np.ndarray | slice, np.ndarray, np.ndarray]], lookahead: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """When the issues of two contexts' parts take place.

    Args:
        parts: for each context which reductions it has a part of, the issues of each, and their advances.

    Returns:
        Rounds of each reduction, in which each context has a turn; for each context the round of each issue.
    """
    cycles = np.zeros((len(parts), len(parts[0][1])), np.int64)  # the first has a part of every reduction
    for context, (there, part_cycles, _) in enumerate(parts):
        cycles[context, there] = part_cycles
    rounds, *turns = _join(cycles, tuple(advance for _, _, advance in parts), lookahead + 1)
    return rounds, turns


def _checked(effectual: np.ndarray, ends: np.ndarray, params: ScheduledTile) -> tuple[np.ndarray, np.ndarray]:
    effectual, ends = np.asarray(effectual), np.asarray(ends)
    if effectual.dtype != bool or ends.dtype != bool:
        raise TypeError(f"effectual and ends must be bool, not {effectual.dtype} and {ends.dtype}")
    wanted = (len(ends), params.rows, params.lanes)
    if ends.ndim != 1 or effectual.shape != wanted:
        raise ValueError(
            f"effectual must have the shape (steps, rows, lanes) = {wanted}, not {effectual.shape}"
        )
    if len(ends) and not ends[-1]:
        raise ValueError("ends must be true for the last step: a reduction is not complete")
    return np.ascontiguousarray(effectual), np.ascontiguousarray(ends)


def selected_moves(select: np.ndarray) -> np.ndarray:
    """Index of the move that each of ``select`` shows as its one set bit; -1 where none is."""
    lengths = np.frompyfunc(int.bit_length, 1, 1)(np.asarray(select).astype(object))
    return np.asarray(lengths, np.int64) - 1


@njit(cache=True)
def _schedule(effectual, ends, order, moves, lookahead):
    steps, rows, lanes = effectual.shape
    pending = effectual.copy()
    cycles = np.zeros(np.sum(ends), np.int64)
    # every issue drains at least the head step, so there are at most as many issues as steps
    select = np.full((steps, rows, lanes), -1, np.int16)
    advance = np.zeros(steps, np.int64)
    issue = 0
    head = 0
    for reduction in range(len(cycles)):
        stop = head
        while not ends[stop]:
            stop += 1
        stop += 1
        while head < stop:
            window = min(lookahead + 1, stop - head)
            for row in range(rows):
                for lane in order:
                    for move in range(len(moves)):
                        step = moves[move, 0]
                        place = (lane + moves[move, 1]) % lanes
                        if step < window and pending[head + step, row, place]:
                            pending[head + step, row, place] = False
                            select[issue, row, lane] = move
                            break
            drained = 0
            while drained < window and not np.any(pending[head + drained]):
                drained += 1
            advance[issue] = drained
            head += drained
            issue += 1
            cycles[reduction] += 1
    return cycles, select[:issue].copy(), advance[:issue].copy()


@njit(cache=True)
def _join(cycles, advances, beat_steps):
    rounds = np.zeros(cycles.shape[1], np.int64)
    turns = np.zeros(len(advances[0]), np.int64), np.zeros(len(advances[1]), np.int64)
    issue = np.zeros(2, np.int64)
    now = 0
    for reduction in range(len(rounds)):
        start = now
        stop = issue + cycles[:, reduction]
        steps = np.zeros(2, np.int64)  # of each part that are behind
        ahead = known = 0  # beats that the first context is ahead, before this round and before the last one
        while np.any(issue < stop):
            for context in range(2):
                # The other has more than a window left then, so it cannot have ended since.
                rests = (known if context == 0 else -known) >= LEAD
                if issue[context] < stop[context] and not rests:
                    turns[context][issue[context]] = now
                    steps[context] += advances[context][issue[context]]
                    issue[context] += 1
            known, ahead = ahead, steps[0] // beat_steps - steps[1] // beat_steps
            now += 1
        rounds[reduction] = now - start
    return rounds, turns[0], turns[1]


@njit(cache=True)
def _count_cycles(effectual, ends, levels, moves, lookahead):
    steps, rows, lanes = effectual.shape
    full = ~np.uint64(0) >> np.uint64(64 - lanes)
    right = np.empty(len(moves), np.uint64)  # rotation that brings a move's place to its lane
    left = np.empty(len(moves), np.uint64)
    for move in range(len(moves)):
        offset = moves[move, 1] % lanes
        right[move] = np.uint64(offset)
        left[move] = np.uint64((lanes - offset) % lanes)
    pending = np.zeros((steps, rows), np.uint64)
    for step in range(steps):
        for row in range(rows):
            bits = np.uint64(0)
            for lane in range(lanes):
                bits |= np.uint64(effectual[step, row, lane]) << np.uint64(lane)
            pending[step, row] = bits
    cycles = np.zeros(np.sum(ends), np.int64)
    advances = np.zeros(steps, np.int64)
    issue = 0
    head = 0
    for reduction in range(len(cycles)):
        stop = head
        while not ends[stop]:
            stop += 1
        stop += 1
        while head < stop:
            window = min(lookahead + 1, stop - head)
            advance = window
            for row in range(rows):
                free = full & ~pending[head, row]  # lanes whose own place is empty
                pending[head, row] = np.uint64(0)  # all others take theirs: the head drains
                ahead = np.uint64(0)
                for step in range(1, window):
                    ahead |= pending[head + step, row]
                if free and ahead:
                    for level in levels:
                        wanting = level & free
                        for move in range(1, len(moves)):
                            if not wanting:
                                break
                            step = moves[move, 0]
                            if step >= window:
                                continue
                            bits = pending[head + step, row]
                            at_lane = ((bits >> right[move]) | (bits << left[move])) & full
                            if right[move] == 0:
                                at_lane = bits
                            taken = at_lane & wanting
                            wanting &= ~taken
                            places = (taken << right[move]) | (taken >> left[move])
                            if right[move] == 0:
                                places = taken
                            pending[head + step, row] = bits & ~(places & full)
                drained = 1
                while drained < window and not pending[head + drained, row]:
                    drained += 1
                advance = min(advance, drained)
            advances[issue] = advance
            head += advance
            issue += 1
            cycles[reduction] += 1
    return cycles, advances[:issue].copy()

"""How far ahead of each other two contexts are, and which of them rests.

A beat is taken only when both contexts have room, so one that is far behind keeps beats from the other. If
that one went on as far as it could, the two would wait for each other. The golden schedule therefore lets it
rest at a lead that the buffer has beats for.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value

from skiptile.golden.schedule import LEAD
from skiptile.hw.contexts import Contexts


class Lead:
    """By how many beats the first context is ahead of the second, and who rests for it."""

    def __init__(self, m: Module, contexts: Contexts) -> None:
        self._m, self._contexts = m, contexts
        most = LEAD + 1  # one more round issues before a lead is known
        self._lead = Signal(range(-most, most + 1), name="lead")

    def waits(self, ended: Sequence[Value]) -> list[Value]:
        """Whether each context lets its next turn pass, if it is not the first of a reduction.

        Args:
            ended: for each, whether all of its part has issued. (Where one leads that far the other has more
                than a window left, so it cannot have ended.)
        """
        if self._contexts.count == 1:
            return list(ended)
        first, second = ended
        return [first | (self._lead >= LEAD), second | (self._lead <= -LEAD)]

    def follow(self, go: Value, turn: Value, turns: Value, left: Value) -> None:
        """Keep count.

        A round's beats are counted when the next round issues, however long that takes, so that what is
        known in a round depends on the rounds before and not on when they were.

        Args:
            go, turn: the contexts issue, and begin a reduction.
            turns: as the last turn closes, what ``turn`` becomes.
            left: the early context has left a beat behind in its turn before.
        """
        if self._contexts.count == 1:
            return
        m = self._m
        lefts = [Signal(name=f"left_beat{c}") for c in range(2)]
        # As a reduction begins this is still of the one before.
        second = lefts[1] | (left & ~turn)
        with m.If(self._contexts.closes):
            m.d.sync += lefts[0].eq(lefts[0] | left)
            with m.If(turns):
                m.d.sync += [self._lead.eq(0), *(each.eq(0) for each in lefts)]
        with m.Elif(go):
            m.d.sync += [self._lead.eq(self._lead + lefts[0] - second), *(each.eq(0) for each in lefts)]
        with m.Else():
            m.d.sync += lefts[1].eq(second)

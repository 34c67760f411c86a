"""One or two contexts in one circuit, each a state of its own (C-slow: Leiserson and Saxe, 1991).

With two, the contexts have their turns in alternate cycles, and what decides a turn has two stages: in the
first, *early*, a context's state is read; in the second, *late*, a cycle later, what has become of it is
decided, while the other context is early. So a loop through both stages takes two cycles and not one. With
one context both stages are the same cycle.
"""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value

from skiptile.hw.pipeline import delayed


class Contexts:
    """Whose turn it is.

    Attributes:
        count: 1 or 2.
        early, late: the context in its first and in its second stage.
    """

    def __init__(self, m: Module, count: int) -> None:
        self._m = m
        self.count = count
        self.early: Value = Const(0)
        self.late: Value = Const(0)
        if count > 1:
            # A register each, as both go to very many places.
            early, late = Signal(name="early_context", init=1), Signal(name="late_context")
            m.d.sync += [early.eq(~early), late.eq(~late)]
            self.early, self.late = early, late

    @property
    def leads(self) -> Value:
        """Whether the first context is late."""
        return ~self.late if self.count > 1 else Const(1)

    @property
    def closes(self) -> Value:
        """Whether the last context is late."""
        return self.late if self.count > 1 else Const(1)

    def to_late(self, value: Value, name: str, *, reset_less: bool = False) -> Value:
        """What ``value``, of the early context, is when that context is late."""
        return delayed(self._m, value, self.count - 1, name=name, reset_less=reset_less)

    def of(self, context: Value, each: Sequence[Value]) -> Value:
        """That of ``context``, where ``each`` has one for every context."""
        return each[0] if self.count == 1 else Mux(context, each[1], each[0])

    def bank(self, shape: int, name: str, *, init: int = 0) -> "Bank":
        """A register for each context."""
        registers = [Signal(shape, name=f"{name}{c}", init=init) for c in range(self.count)]
        return Bank(self._m, self, registers)


class Bank:
    """A register for each context.

    Attributes:
        all: the registers.
    """

    def __init__(self, m: Module, contexts: Contexts, registers: list[Signal]) -> None:
        self._m, self._contexts = m, contexts
        self.all = registers

    def of(self, context: Value) -> Value:
        """That of ``context``."""
        return self._contexts.of(context, self.all)

    def set(self, context: Value, value: Value) -> None:
        """Let that of ``context`` become ``value``; the others stay."""
        for number, register in enumerate(self.all):
            chosen = context == number if len(self.all) > 1 else Const(1)
            self._m.d.sync += register.eq(Mux(chosen, value, register))

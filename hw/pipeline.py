"""Small pieces of pipelines."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value


def delayed(m: Module, value: Value, cycles: int, *, name: str, reset_less: bool = False) -> Value:
    """``value``, ``cycles`` clock cycles later; zero until then after a reset, unless ``reset_less``."""
    for stage in range(1, cycles + 1):
        register = Signal(value.shape(), name=f"{name}_delayed{stage}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value


def one_of(choices: Sequence[Value], select: Value) -> Value:
    """The choice whose bit of the one-hot ``select`` is set; 0 where none is."""
    gated = [choice & select[k].replicate(len(choice)) for k, choice in enumerate(choices)]
    total = gated[0]
    for choice in gated[1:]:
        total |= choice
    return total


def total(terms: list[Value]) -> Value:
    """The exact sum of ``terms``, in one cycle, by a tree."""
    while len(terms) > 1:
        terms = [sum(terms[k + 1 : k + 2], terms[k]) for k in range(0, len(terms), 2)]
    return terms[0]


def adder_tree(
    m: Module, terms: list[Value], *, radix: int = 2, most: int | None = None, name: str = "sum"
) -> Value:
    """The exact sum of ``terms``, ``radix`` of them added up in each pipeline stage.

    Latency: `golden.arithmetic.tree_stages` cycles. ``most``: the largest value of a term, none of which is
    negative, so that sums have no bits that are never set.
    """
    stage = 0
    limits = [most or 0] * len(terms)
    while len(terms) > 1:
        sums: list[Value] = []
        for index in range(0, len(terms), radix):
            value = total(terms[index : index + radix])
            if most is not None:
                value = value[: sum(limits[index : index + radix]).bit_length()]
            register = Signal(value.shape(), name=f"{name}_stage{stage}_{index // radix}", reset_less=True)
            m.d.sync += register.eq(value)
            sums.append(register)
        if most is not None:
            limits = [sum(limits[index : index + radix]) for index in range(0, len(terms), radix)]
        terms, stage = sums, stage + 1
    return terms[0]

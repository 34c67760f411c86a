"""What a tile counts while it works."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Sums over a list of jobs. ``None``: not known (a schedule alone has no clock).

    Attributes:
        cycles: clock cycles in which the scheduler issued.
        steps: lane-wide steps of all reductions, which is what a dense tile needs in cycles.
        effectual: scheduled pairs, once per (step, row, lane).
        overflow: results that lost a product too large for the accumulator's window, and are infinite or NaN.
        elapsed: clock cycles from the first beat taken to the last result given.
        input_stalls: cycles in which a reduction was pending but input was missing.
        output_stalls: cycles in which a reduction was pending but the result buffers were full.
        ideal_cycles: sum over reductions of max(1, ceil(pairs of the busiest row / lanes)).
        ideal_capped_cycles: the same, but no reduction below ceil(steps / (lookahead + 1)).
    """

    cycles: int = 0
    steps: int = 0
    effectual: int = 0
    overflow: int = 0
    elapsed: int | None = None
    input_stalls: int | None = None
    output_stalls: int | None = None
    ideal_cycles: int | None = None
    ideal_capped_cycles: int | None = None

    def __add__(self, other: "Counters") -> "Counters":
        def total(name: str) -> int | None:
            mine, theirs = getattr(self, name), getattr(other, name)
            return None if mine is None or theirs is None else mine + theirs

        return Counters(**{field.name: total(field.name) for field in fields(Counters)})  # type: ignore[arg-type]

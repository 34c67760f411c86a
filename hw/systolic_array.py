"""Rows of elements of the systolic tile, and the element.

Operands of ``a`` move along a row, weights and sums from row to row; ``registers_every`` elements stand
between two registers in both directions. The registers along a row are here, those between rows belong to
the tile, which also delays what enters a row or a column so that operands meet.
"""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib.wiring import In, Out

from skiptile.golden.systolic_tile import BOTH, OUTPUT, WEIGHT, SystolicTileParams
from skiptile.hw.arith.element_type import ElementType
from skiptile.hw.hierarchy import Block, place
from skiptile.hw.operands import words
from skiptile.hw.pipeline import delayed


class SystolicElement(Block):
    """Multiplies an activation by a weight, and adds the product to a sum.

    Weight-stationary: the weight is held, the next one is loaded beside it, the sum goes on to the row below.
    Output-stationary: both operands go past, the sum stays until it is captured for the drain chain.
    Latency: `SystolicTileParams.element_latency`, of which the sum is one cycle.

    Members (those of a dataflow only where the tile has it):
        a: the block of activations.
        weight: a weight of ``b`` with its index.
        load: ``weight`` is this row's next weight. Weight-stationary, as the next three.
        swap: the next weight takes over, for this cycle's activations already.
        loaded: there is a next weight; without one it is zero. Beside ``swap``.
        above, below: the sum, with its flags, of the rows before, and with this one's product.
        streamed: (both dataflows) ``weight`` is multiplied, not the one that is held.
        accumulate, first: the product is added to the sum that stays, or starts a new one. Output-stationary,
            as all that follow; one cycle less than the latency after the operands.
        capture: move the sum that stays to the drain register; a cycle after ``accumulate``.
        shift: move the drain register of the row before here.
        drained_above, drained: the drain registers of the row before and of this one.
    """

    block_name = "element"
    has_reset = False

    a: Signal
    weight: Signal
    load: Signal
    swap: Signal
    loaded: Signal
    above: Signal
    below: Signal
    streamed: Signal
    accumulate: Signal
    first: Signal
    capture: Signal
    shift: Signal
    drained_above: Signal
    drained: Signal

    def __init__(self, params: SystolicTileParams) -> None:
        self.params = params
        super().__init__(
            {
                "a": In(params.block * params.arithmetic.a.bits),
                "weight": In(params.weight_bits),
                **_control_ports(params),
                **_sum_ports(params, 1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, element = self.params, ElementType(self.params.arithmetic)
        term = element.multiply(m, *self._operands(m), name="lane")
        if not params.has(OUTPUT):
            m.d.comb += self.below.eq(Cat(element.added(element.split(self.above), term)))
            return m
        state = Signal(params.arithmetic.state_bits, reset_less=True)
        base = chosen(self.first, (0, 0), element.split(state))
        if params.has(WEIGHT):
            base = chosen(self.accumulate, base, element.split(extended(params, self.above)))
        total, flags = element.added(base, term)
        with m.If(self.accumulate):
            m.d.sync += state.eq(Cat(total, flags))
        if params.has(WEIGHT):
            m.d.comb += self.below.eq(Cat(total[: params.partial_bits], flags))
        drain = Signal.like(state, name="drain")
        with m.If(self.capture):
            m.d.sync += drain.eq(state)
        with m.Elif(self.shift):
            m.d.sync += drain.eq(self.drained_above)
        m.d.comb += self.drained.eq(drain)
        return m

    def _operands(self, m: Module) -> tuple[Value, Value]:
        """The registered activation, picked from its block, and the weight."""
        params, arithmetic = self.params, self.params.arithmetic
        bits = arithmetic.b.bits
        # the index stays with a weight that is held
        held = Signal(params.weight_bits if params.has(WEIGHT) else bits, name="held_weight", reset_less=True)
        now: Value = self.weight
        if params.has(WEIGHT):
            following = Signal.like(held, name="next_weight")
            with m.If(self.load):
                m.d.sync += following.eq(self.weight)
            now = Mux(self.swap, Mux(self.loaded, following, 0), held)
            if params.dataflow == BOTH:
                now = Mux(self.streamed, self.weight, now)
        weight = Signal(params.weight_bits, name="weight_now")
        m.d.comb += weight.eq(now)
        m.d.sync += held.eq(weight)
        block = Array(words(self.a, arithmetic.a.bits))
        activation = Signal(arithmetic.a.bits, name="activation", reset_less=True)
        m.d.sync += activation.eq(block[weight[bits:]] if params.index_bits else block[0])
        return activation, held[:bits]


def chosen(
    select: Value, one: tuple[ValueLike, ValueLike], other: tuple[Value, Value]
) -> tuple[Value, Value]:
    """One of two states, as `ElementType.split` gives them."""
    number, flags = (Mux(select, *pair) for pair in zip(one, other, strict=True))
    return number.as_signed(), flags


def extended(params: SystolicTileParams, partial: Value) -> Value:
    """A column's sum, with its flags, in the width of the accumulator."""
    total, flags = partial[: params.partial_bits].as_signed(), partial[params.partial_bits :]
    missing = params.arithmetic.accumulator_bits - params.partial_bits
    return Cat(total, total[-1].replicate(missing), flags)


def partial_state_bits(params: SystolicTileParams) -> int:
    """Bits of a column's sum with its flags."""
    return params.partial_bits + len(params.arithmetic.flags)


def _control_ports(params: SystolicTileParams) -> dict[str, object]:
    weight = ("load", "swap", "loaded") if params.has(WEIGHT) else ()
    both = ("streamed",) if params.dataflow == BOTH else ()
    output = ("accumulate", "first", "capture", "shift") if params.has(OUTPUT) else ()
    return {name: In(1) for name in (*weight, *both, *output)}


def _sum_ports(params: SystolicTileParams, columns: int) -> dict[str, object]:
    ports: dict[str, object] = {}
    if params.has(WEIGHT):
        bits = columns * partial_state_bits(params)
        ports |= {"above": In(bits), "below": Out(bits)}
    if params.has(OUTPUT):
        bits = columns * params.arithmetic.state_bits
        ports |= {"drained_above": In(bits), "drained": Out(bits)}
    return ports


class SystolicRow(Block):
    """A row of elements, the pipeline registers along it, and the control of its drain registers.

    Members (those of a dataflow only where the tile has it):
        a: the block of activations.
        weights: of all columns, a cycle after ``a`` and each column of registers one more.
        load, swap, streamed: as of `SystolicElement`, beside ``a``.
        accumulate, first: this beat's products are added to the sums that stay, or start new ones.
        capture: the beat completes sums of this row, which are to be given out.
        free: the sums captured last move on to the next row, from the next cycle on.
        above, below, drained_above, drained: of all columns.
    """

    block_name = "row"
    has_reset = True

    a: Signal
    weights: Signal
    load: Signal
    swap: Signal
    streamed: Signal
    accumulate: Signal
    first: Signal
    capture: Signal
    free: Signal
    above: Signal
    below: Signal
    drained_above: Signal
    drained: Signal

    def __init__(self, params: SystolicTileParams) -> None:
        self.params = params
        controls = _control_ports(params)
        controls.pop("loaded", None)
        if params.has(OUTPUT):
            controls["free"] = controls.pop("shift")
        super().__init__(
            {
                "a": In(params.block * params.arithmetic.a.bits),
                "weights": In(params.columns * params.weight_bits),
                **controls,
                **_sum_ports(params, params.columns),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self.params
        signals = {"a": self.a, **self._controls(m)}
        elements = []
        for column in range(params.columns):
            if column % params.registers_every == 0:
                stage = column // params.registers_every
                for name, value in signals.items():
                    register = Signal(len(value), name=f"{name}_stage{stage}", reset_less=True)
                    m.d.sync += register.eq(value)
                    signals[name] = register
            element = SystolicElement(params)
            place(m, f"element_{column}", element, platform)
            m.d.comb += [
                element.weight.eq(self.weights.word_select(column, params.weight_bits)),
                *(getattr(element, name).eq(value) for name, value in signals.items()),
            ]
            elements.append(element)
        for name_in, name_out in (("above", "below"), ("drained_above", "drained")):
            if name_in in self.signature.members:
                m.d.comb += getattr(self, name_out).eq(Cat(getattr(each, name_out) for each in elements))
                bits = len(getattr(elements[0], name_in))
                m.d.comb += [
                    getattr(element, name_in).eq(getattr(self, name_in).word_select(column, bits))
                    for column, element in enumerate(elements)
                ]
        return m

    def _controls(self, m: Module) -> dict[str, Value]:
        """The elements' controls, each as late as it is needed after the operands."""
        params = self.params
        controls: dict[str, Value] = {}
        if params.has(WEIGHT):
            loaded = Signal()  # the row's next weights
            m.d.sync += loaded.eq(self.load | (loaded & ~self.swap))
            controls |= {"load": self.load, "swap": self.swap, "loaded": loaded}
        if params.dataflow == BOTH:
            controls["streamed"] = self.streamed
        if params.has(OUTPUT):
            holding = Signal()  # captured sums that must not move yet
            m.d.sync += holding.eq(self.capture | (holding & ~self.free))
            sums = params.element_latency - 1
            late: Sequence[tuple[str, Value, int]] = (
                ("accumulate", self.accumulate, sums),
                ("first", self.first, sums),
                ("capture", self.capture, sums + 1),
                ("shift", self.free | ~holding, sums + 1),
            )
            controls |= {
                name: delayed(m, value, cycles, name=name, reset_less=True) for name, value, cycles in late
            }
        return controls

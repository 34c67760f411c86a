"""The top of a board, simulated: what a terminal on its UART shows, and what its LEDs do."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skiptile.gen import cache
from skiptile.gen.board import Project
from skiptile.gen.boards import BAUD
from skiptile.gen.processes import ToolError, run
from skiptile.hw.self_test import PATIENCE_BITS
from skiptile.hw.uart import FRAME_BITS
from skiptile.sim import tools
from skiptile.sim.build import verilator_headers, verilator_runtime

BENCH = Path(__file__).with_name("board.cpp")
PROGRAM = "board"
PASS = ": PASS"
LONGEST_LINE = 200  # characters
_QUIET_FRAMES = 3  # the UART is idle for so many characters: the line is over

_OPTIMISE = "-O0"  # a run is short, so that most of the time goes into the build
_VERILATE = (
    *("--cc", "--prefix", "Vtop", "--Mdir", "obj", "-CFLAGS", "-fPIC -std=c++17"),
    *("--no-timing", "-Wno-lint", "--x-assign", "unique", "--x-initial", "unique"),
)
_RANDOM_START = ("+verilator+rand+reset+2", "+verilator+seed+1")

Changes = Sequence[tuple[int, int]]
"""Clock cycles in which a signal changed, each with its new value."""


@dataclass(frozen=True)
class Transcript:
    """What a simulated board did.

    Attributes:
        text: what a terminal shows.
        leds: changes of the LEDs, bit 0 for LED 0.
        cycles: clock cycles in all.
    """

    text: str
    leds: Changes
    cycles: int

    @property
    def passed(self) -> bool:
        """Whether there are lines, and every one of them says so."""
        lines = self.text.splitlines()
        return bool(lines) and all(line.endswith(PASS) for line in lines)


def simulate(project: Project, *, lines: int = 1, press: tuple[int, int] = (0, 0)) -> Transcript:
    """Run the top of ``project`` from power-up; registers begin random.

    Args:
        lines: of text after which it ends.
        press: the clock cycles in which the button goes down and up.

    Raises:
        ToolError: a tool is missing, the build failed, or nothing that a UART understands was sent.
        OSError: the cache cannot be written.
    """
    bit = project.constraints.clock_hz / BAUD
    frame = round(FRAME_BITS * bit)
    vectors = project.vectors
    words = sum(len(each.words) + sum(each.pauses) for each in (vectors.inputs, vectors.outputs))
    # Far more than a run and its line take; a tile that is silent is given up by the self-test itself.
    run_cycles = 4 * words + (1 << PATIENCE_BITS) + LONGEST_LINE * frame
    most = press[1] + 2 * run_cycles + (lines - 1) * (run_cycles + project.constraints.clock_hz)
    arguments = [most, _QUIET_FRAMES * frame, lines, *press]
    folder = _build(project)
    command = [str(folder / PROGRAM), *map(str, arguments), *_RANDOM_START]
    output = run(command, folder, failure="the simulation failed")
    changes: dict[str, list[tuple[int, int]]] = {"tx": [], "led": [], "end": []}
    for line in output.splitlines():
        cycle, name, value = line.split()
        changes[name].append((int(cycle), int(value)))
    ((cycles, _),) = changes["end"]
    text = receive(changes["tx"], bit).decode("ascii", errors="replace")
    if not text:
        raise ToolError(f"the self-test of {project.design.name} sent nothing in {cycles:,} clock cycles")
    return Transcript(text, changes["led"], cycles)


def receive(changes: Changes, bit: float) -> bytes:
    """What a UART receiver makes of a wire that is idle before ``changes``.

    It looks at the middle of each bit, counted from its frame's falling edge, as a real one does; so a
    wrong bit rate shows.

    Args:
        changes: of the wire.
        bit: clock cycles of one bit, at the receiver.

    Raises:
        ToolError: a frame without a stop bit.
    """
    cycles = [cycle for cycle, _ in changes]

    def level(cycle: float) -> int:
        index = bisect_right(cycles, cycle)
        return changes[index - 1][1] if index else 1

    received, free = bytearray(), -1.0
    for start, value in changes:
        if value or start < free:
            continue
        bits = [level(start + (index + 0.5) * bit) for index in range(FRAME_BITS)]
        if bits[0]:  # over before its middle: no start bit
            continue
        if not bits[-1]:
            raise ToolError(f"the UART sent no proper frame at clock cycle {start}: bits {bits}")
        received.append(sum(value << index for index, value in enumerate(bits[1:-1])))
        free = start + (FRAME_BITS - 0.5) * bit
    return bytes(received)


def _build(project: Project) -> Path:
    """The folder of the program that runs the top."""
    tools.check_build_tools()
    sources = {"tile.v": project.tile, "top.v": project.top, "board.cpp": BENCH.read_text()}
    command = [*_VERILATE, "--top-module", project.top_name, "tile.v", "top.v"]

    def build(place: Path) -> None:
        for name, text in sources.items():
            (place / name).write_text(text)
        runtime = [str(path) for path in verilator_runtime()]
        tools.verilate(command, place)
        optimise = [f"OPT_FAST={_OPTIMISE}", "OPT_SLOW=-O0"]
        tools.make(["-C", "obj", "-f", "Vtop.mk", "Vtop__ALL.a", *optimise], place)
        headers = [f"-I{path}" for path in (place / "obj", *verilator_headers())]
        parts = ["board.cpp", "obj/Vtop__ALL.a", *runtime, "-pthread"]
        tools.run([tools.compiler(), "-std=c++17", *headers, *parts, "-o", PROGRAM], place)
        cache.remove(place / "obj")
        for name in sources:
            (place / name).unlink()

    key = cache.key([*sources.values(), *command, _OPTIMISE, *tools.versions()])
    return cache.built(f"board-sim-{key}", build)

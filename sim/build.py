"""From Verilog and manifest to a shared library that simulates it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skiptile.gen import cache
from skiptile.gen.kinds import KINDS
from skiptile.sim import tools

HARNESS = Path(__file__).with_name("harness.cpp")
LIBRARY = "model.so"
RUNTIME = ("verilated", "verilated_threads", "verilated_dpi")  # Verilator's own sources that models need
_FAST = ["-fPIC", "-std=c++17", "-O3", "-march=native"]
_QUICK = ["-fPIC", "-std=c++17", "-O0"]

# Above this many elements the block that repeats is compiled on its own, once, so that builds stay short;
# below, one flat model is mostly as fast or faster (benchmarks/simulation_speed.py).
MOST_FLAT = 64


def build(
    manifest: dict[str, Any], verilog: str, *, random_start: bool = False, flat: bool | None = None
) -> Path:
    """The shared library of a design, from the cache or built now.

    Args:
        manifest, verilog: as `skiptile generate` writes them.
        random_start: registers begin with random values that depend on a seed; otherwise with zeros. Such
            models are for tests, so they are built quickly and run slowly.
        flat: one model for all of it, or the block that repeats on its own; by its size if not given.

    Raises:
        ToolError: a tool is missing, or the build failed.
        OSError: the cache cannot be written.
    """
    tools.check_build_tools()
    repeated = KINDS[manifest["kind"]].component.repeated
    whole = manifest["capacities"].get("elements", 0) <= MOST_FLAT if flat is None else flat
    whole = whole or repeated is None
    alone = f'hier_block -module "{manifest["design"]}__{repeated}"'
    sources = {
        "design.v": verilog,
        "design.h": _header(manifest),
        "control.vlt": control_file(manifest, *([] if whole else [alone])),
        "harness.cpp": HARNESS.read_text(),
    }
    start = "unique" if random_start else "fast"
    flags = _QUICK if random_start else _FAST
    command = [
        *("--cc", "--top-module", manifest["design"], "--prefix", "Vtop", "--Mdir", "obj"),
        *("-O3", "--no-timing", "-Wno-lint", "--x-assign", start, "--x-initial", start),
        *([] if whole else ["--hierarchical"]),
        *("-CFLAGS", " ".join(flags), "control.vlt", "design.v"),
    ]
    name = f"model-{cache.key([*sources.values(), *command, *tools.versions()])}"
    return cache.built(name, lambda place: _build_model(place, sources, command, flags)) / LIBRARY


def _build_model(place: Path, sources: dict[str, str], command: list[str], flags: list[str]) -> None:
    """Leave the library, and nothing else, in ``place``."""
    for name, text in sources.items():
        (place / name).write_text(text)
    runtime = verilator_runtime()
    tools.verilate(command, place)
    tools.make(["-C", "obj", "-f", "Vtop.mk", "Vtop__ALL.a", "OPT_FAST=", "OPT_SLOW=-O0"], place)
    parts = sorted(path for path in place.glob("obj/*/lib*.a"))
    headers = [f"-I{path}" for path in (place, place / "obj", *verilator_headers())]
    archives = ["obj/Vtop__ALL.a", *(str(path) for path in parts), *(str(path) for path in runtime)]
    tools.run([tools.compiler(), *flags, *headers, "-shared", "harness.cpp", *archives, "-pthread",
          "-o", LIBRARY], place)  # fmt: skip
    for path in (place / "obj", *(place / name for name in sources)):
        cache.remove(path)


def verilator_runtime() -> list[Path]:
    """Verilator's own part of a model, compiled once for all models."""

    def compile_all(place: Path) -> None:
        root, headers = verilator_headers()[0], " ".join(f"-I{path}" for path in verilator_headers())
        settings = [f"VPATH={root}", f"CPPFLAGS={headers}", f"CXXFLAGS={' '.join(_QUICK)}"]
        tools.make([*settings, *(f"{name}.o" for name in RUNTIME)], place)

    place = cache.built(f"runtime-{cache.key([*_QUICK, *tools.versions()])}", compile_all)
    return [place / f"{name}.o" for name in RUNTIME]


def verilator_headers() -> list[Path]:
    root = tools.verilator().root / "include"
    return [root, root / "vltstd"]


def control_file(manifest: Mapping[str, Any], *more: str) -> str:
    """Verilator's control file: the probes are public, and ``more`` lines."""
    probed = {(port["module"], port["port"]): None for probe in manifest["probes"] for port in probe["ports"]}
    lines = [f'public_flat_rd -module "{module}" -var "{port}"' for module, port in probed]
    return "\n".join(["`verilator_config", *lines, *more, ""])


def _header(manifest: dict[str, Any]) -> str:
    """design.h: where the streams' signals and the probes are in the Verilated class."""
    inputs = [stream for stream in manifest["streams"] if stream["direction"] == "input"]
    outputs = [stream for stream in manifest["streams"] if stream["direction"] == "output"]
    design = manifest["design"]
    probes = [
        f"top.rootp->{_mangled(design + '.' + port['instance'] + '.' + port['port'])}"
        for probe in manifest["probes"]
        for port in probe["ports"]
    ]
    lines = [
        '#include "Vtop.h"',
        '#include "Vtop___024root.h"',
        "using Top = Vtop;",
        f"constexpr int INPUTS = {len(inputs)}, OUTPUTS = {len(outputs)}, PROBES = {len(probes)};",
        "inline void bind(Top& top, Stream* inputs, Stream* outputs, Probe* probes) {",
    ]
    for array, streams in (("inputs", inputs), ("outputs", outputs)):
        for index, stream in enumerate(streams):
            payload = f"top.{_mangled(stream['payload'])}"
            handshake = f"&top.{_mangled(stream['valid'])}, &top.{_mangled(stream['ready'])}"
            lines.append(f"    {array}[{index}] = {{&{payload}, sizeof({payload}), {handshake}}};")
    for index, probe in enumerate(probes):
        lines.append(f"    probes[{index}] = {{&{probe}, sizeof({probe})}};")
    return "\n".join([*lines, "}", ""])


def _mangled(name: str) -> str:
    """A Verilog name as Verilator writes it in C++."""
    return name.replace("__", "___05F").replace(".", "__DOT__")

"""The Python side of `harness.cpp`: payloads in, payloads out, clock cycles counted."""

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skiptile.golden.payload import Field, unpack

Pace = float | Sequence[bool] | np.ndarray | None
"""When a stream rests: never, with a chance in each cycle, or a bool for each cycle, again and again."""

CHUNK = 20_000  # clock cycles in one call, so that an interrupt is heard
PATIENCE = 20_000  # clock cycles without a handshake after which a simulation is stuck
SETTLE = 64  # clock cycles at the end in which nothing more may come

_BUDGET_USED, _DONE, _STUCK, _PROTOCOL, _SURPLUS = range(5)


class SimulationError(RuntimeError):
    """A design that hangs or breaks the protocol of its streams."""


class _Pace(ctypes.Structure):
    _fields_ = (
        ("pattern", ctypes.c_void_p),
        ("length", ctypes.c_int64),
        ("chance", ctypes.c_double),
        ("state", ctypes.c_uint64),
    )


class _Beats(ctypes.Structure):
    _fields_ = (
        ("words", ctypes.c_void_p),
        ("words_per_beat", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("pace", _Pace),
    )


class Simulation:
    """A running design, out of reset.

    Parameters:
        library: of `skiptile.sim.build.build`.
        manifest: of the design.
        reset_cycles: how long ``rst`` is held at the start.
        seed: of the streams' paces, and of registers' first values where the library has random ones.
        paces: by stream, when it rests; never by default.
        trace: keep the probes of every issue.
    """

    def __init__(
        self,
        library: Path,
        manifest: dict[str, Any],
        *,
        seed: int = 0,
        paces: dict[str, Pace] | None = None,
        trace: bool = False,
    ) -> None:
        self._functions = _load(library)
        self._manifest = manifest
        self._streams = {"input": _names(manifest, "input"), "output": _names(manifest, "output")}
        self._keep: list[np.ndarray] = []  # arrays that C++ points to
        self._run = _run_type(len(self._streams["input"]), len(self._streams["output"]))()
        self._run.trace = trace
        self._run.patience = PATIENCE
        rng = np.random.default_rng(seed)
        for name, beats in self._named_beats():
            beats.pace = self._pace((paces or {}).get(name), int(rng.integers(1, 1 << 63)))
        self._handle = ctypes.c_void_p(self._functions.skiptile_open(seed % (2**31 - 1) + 1))
        self.reset()

    def close(self) -> None:
        """Free the simulation."""
        self._functions.skiptile_close(self._handle)
        self._handle = None

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Hold ``rst`` for as long as the manifest says; counts of cycles begin again."""
        self._functions.skiptile_reset(self._handle, self._manifest["reset"]["cycles"])

    def send(self, stream: str, payloads: np.ndarray) -> None:
        """Give ``stream`` what it sends next: uint32 (beats, words)."""
        self._attach(stream, np.ascontiguousarray(payloads, np.uint32))

    def expect(self, stream: str, payloads: np.ndarray) -> None:
        """Give ``stream`` room, uint32 (beats, words), for every beat that is to come."""
        self._attach(stream, payloads)

    def run(self, *, more: bool = False, cycles: int | None = None) -> Iterator[int]:
        """Run until everything is sent and, unless ``more`` will be sent, every expected beat is there.

        Yields now and then the clock cycles that the run has taken so far; stops early after ``cycles``.

        Raises:
            SimulationError: the design hangs, changes a payload that waits, or gives more than expected.
        """
        self._run.open_ended = more
        used = 0
        while cycles is None or used < cycles:
            self._run.budget = CHUNK if cycles is None else min(CHUNK, cycles - used)
            outcome = self._functions.skiptile_run(self._handle, ctypes.byref(self._run))
            used += self._run.budget
            if outcome == _DONE:
                return
            if outcome != _BUDGET_USED:
                raise SimulationError(self._complaint(outcome))
            yield used

    def settle(self) -> None:
        """See that the design is drained: nothing more comes."""
        self._run.budget = SETTLE
        outcome = self._functions.skiptile_idle(self._handle, ctypes.byref(self._run))
        if outcome != _DONE:
            raise SimulationError(self._complaint(outcome))

    @property
    def elapsed(self) -> int:
        """Clock cycles from the first beat taken to the last one given, both included."""
        return self._functions.skiptile_elapsed(self._handle)

    def trace(self) -> dict[str, np.ndarray]:
        """For each probe int64 (issues, ports, elements); "cycle": in which clock cycle, (issues,)."""
        pointer = ctypes.POINTER(ctypes.c_uint32)()
        count = self._functions.skiptile_trace(self._handle, ctypes.byref(pointer))
        words = np.ctypeslib.as_array(pointer, (count,)).copy() if count else np.zeros(0, np.uint32)
        probes = self._manifest["probes"][1:]  # the first one only says when
        per_issue = 2 + sum(-(-probe["width"] // 32) * len(probe["ports"]) for probe in probes)
        words = words.reshape(count // per_issue, per_issue)
        found = {"cycle": unpack([Field("cycle", 63)], words[:, :2])["cycle"]}
        offset = 2
        for probe in probes:
            size = -(-probe["width"] // 32)
            field = Field("values", probe["width"] // probe["elements"], (probe["elements"],))
            ports = [
                words[:, offset + k * size : offset + (k + 1) * size] for k in range(len(probe["ports"]))
            ]
            found[probe["name"]] = np.stack([unpack([field], port)["values"] for port in ports], axis=1)
            offset += size * len(ports)
        return found

    def _named_beats(self) -> list[tuple[str, _Beats]]:
        inputs = zip(self._streams["input"], self._run.inputs, strict=True)
        return [*inputs, *zip(self._streams["output"], self._run.outputs, strict=True)]

    def _attach(self, stream: str, payloads: np.ndarray) -> None:
        beats = dict(self._named_beats())[stream]
        self._keep = [array for array in self._keep if array.ctypes.data != beats.words]
        self._keep.append(payloads)
        beats.words = payloads.ctypes.data
        beats.words_per_beat = payloads.shape[1]
        beats.count = len(payloads)
        beats.done = 0

    def _pace(self, pace: Pace, state: int) -> _Pace:
        if pace is None or isinstance(pace, int | float):
            chance = float(pace or 0)
            if not 0 <= chance <= 1:
                raise ValueError(f"a pace must be a chance from 0 to 1, not {pace!r}")
            return _Pace(None, 0, chance, state)
        pattern = np.ascontiguousarray(pace, bool)
        if pattern.ndim != 1 or not len(pattern):
            raise ValueError(f"a pace must be a chance or a list of bools, not one of shape {pattern.shape}")
        self._keep.append(pattern)
        return _Pace(pattern.ctypes.data, len(pattern), 0.0, state)

    def _complaint(self, outcome: int) -> str:
        progress = [f"{name}: {beats.done} of {beats.count} beats" for name, beats in self._named_beats()]
        stream = self._streams["output"][self._run.stream]
        what = {
            _STUCK: f"nothing has moved for {PATIENCE} clock cycles",
            _PROTOCOL: f"stream {stream} withdrew or changed a beat before it was taken",
            _SURPLUS: f"stream {stream} gave more beats than expected",
        }[outcome]
        return f"{self._manifest['design']}: {what} ({', '.join(progress)})"


def _names(manifest: dict[str, Any], direction: str) -> list[str]:
    return [stream["name"] for stream in manifest["streams"] if stream["direction"] == direction]


def _run_type(inputs: int, outputs: int) -> type[Any]:
    """The `Run` of harness.cpp for a design with so many streams."""
    fields = (
        ("inputs", _Beats * inputs),
        ("outputs", _Beats * outputs),
        ("budget", ctypes.c_int64),
        ("patience", ctypes.c_int64),
        ("open_ended", ctypes.c_int32),
        ("trace", ctypes.c_int32),
        ("stream", ctypes.c_int32),
    )
    return type("_Run", (ctypes.Structure,), {"_fields_": fields})


def _load(library: Path) -> Any:
    functions = ctypes.CDLL(str(library))
    functions.skiptile_open.restype = ctypes.c_void_p
    functions.skiptile_elapsed.restype = ctypes.c_int64
    functions.skiptile_trace.restype = ctypes.c_int64
    return functions

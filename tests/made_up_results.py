"""Made-up results of runs, and how a console shows them."""

from io import StringIO
from typing import Any

from rich.console import Console

from skiptile import report

PASSES = ("forward", "input-gradient", "weight-gradient")
HOSTILE = [
    "</script><b>bold</b>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    '"><a href="https://example.com">x</a>',
    "[red]markup[/red] {{ 7 * 7 }} %{x} $x^2$ &amp;",
    "\x1b[31mred\x07\u202e\ud800\n",
]


def make(
    layers: list[str],
    steps=("start", "middle", "end"),
    passes=PASSES,
    undefined=False,
    formats=("int8", "int8"),
    **more,
) -> dict[str, Any]:
    """Made-up results whose counters agree with each other."""
    rows: list[dict[str, Any]] = []
    for s, step in enumerate(steps):
        for p, name in enumerate(passes):
            for i, layer in enumerate(layers):
                dense = 12_345 * (1 + (i * 7 + p * 3) % 5)
                share = 0.45 + 0.03 * i % 0.2 + 0.08 * s - 0.05 * p
                cycles = int(dense * share)
                shape = {"groups": 1, "m": 1800, "k": 144, "n": 16}
                zeros = {"zeros_a": 0.62 - 0.1 * p, "zeros_b": 0.05}
                real = {"zeros_a_real": 0.55 - 0.1 * p, "zeros_b_real": 0.0}
                ideals = {"ideal_cycles": int(cycles * 0.7), "ideal_capped_cycles": int(cycles * 0.9)}
                elapsed = {"dense_elapsed": dense + 50, "elapsed": int(cycles * 1.04)}
                fast = {"speedup": dense / cycles, "real_speedup": dense / cycles / 1.1}
                rows.append(
                    {"step": step, "layer": layer, "pass": name, **shape, **zeros, **real, "side": "a"}
                    | {"dense_cycles": dense, "cycles": cycles, **ideals, "real_cycles": int(cycles * 1.1)}
                    | {**elapsed, **fast, "utilisation": 0.6, "exact": True}
                    | {"design": "tile4x4", "format_a": formats[p > 0], "format_b": formats[0]}
                    | {"error": 0.0023 * (1 + p) / (1 + i), "overflow": 0}
                )
    if undefined:
        for row in rows[:: max(1, len(rows) // 3)]:
            row.update(
                dict.fromkeys(("dense_elapsed", "elapsed", "speedup", "real_speedup", "utilisation", "error"))
            )
            row.update(dense_cycles=0, cycles=0, ideal_cycles=0, ideal_capped_cycles=0, real_cycles=0, k=0)

    def total(rows):
        def add(key):
            values = [row[key] for row in rows]
            return None if None in values else sum(values)

        names = ("dense_cycles", "cycles", "ideal_cycles", "ideal_capped_cycles", "dense_elapsed", "elapsed")
        sums = {key: add(key) for key in (*names, "overflow")}
        fast = report.ratio(sums["dense_cycles"], sums["cycles"])
        real = report.ratio(sums["dense_cycles"], add("real_cycles"))
        worst = max((row["error"] for row in rows if row["error"] is not None), default=None)
        right = all(row["exact"] for row in rows)
        return {**sums, "speedup": fast, "real_speedup": real, "error": worst, "exact": right}

    results = {
        **{"design": "tile4x4", "kind": "mac-tile", "workload": "digits-cnn", "engine": "rtl"},
        "formats": {"activation": formats[0], "weight": formats[0], "gradient": formats[1]},
        "facts": {"test_accuracy": 0.987, "data": "scikit-learn digits"},
        "geometry": {
            **{"rows": 4, "columns": 4, "lanes": 16, "lookahead": 2, "interconnect": "tensordash"},
            "side": "b",
        },
        "layers": rows,
        "total": total(rows),
        "passes": {name: total([row for row in rows if row["pass"] == name]) for name in passes},
    }
    return {**results, **more}


CNN = ["conv1", "conv2", "conv3", "fc1", "fc2"]
FP8 = ("float8_e4m3fn", "float8_e5m2")
CASES = {
    "cnn": make(CNN),
    "undefined": make(CNN, undefined=True),
    "one layer": make(["only"], steps=("",), passes=("forward",)),
    "no work": make(["only"], steps=("",), passes=("forward",), undefined=True),
    "nothing": make([], facts={}),
    "fp8": make(CNN, formats=FP8),
    "60 layers": make([f"block{i}.conv" for i in range(60)]),
    "hostile": make(
        HOSTILE, steps=(HOSTILE[0],), passes=(*PASSES, HOSTILE[1]), design=HOSTILE[0], workload=HOSTILE[1],
        engine=HOSTILE[2], facts={HOSTILE[0]: HOSTILE[5]}, geometry={HOSTILE[3]: [[1, -1]]},
        formats=(HOSTILE[4], HOSTILE[0]),
    ),
}  # fmt: skip
RUNS = {
    **{name: [results] for name, results in CASES.items()},
    "three runs": [CASES["cnn"], CASES["fp8"], CASES["undefined"]],
    "hostile runs": [CASES["hostile"], CASES["cnn"], CASES["hostile"]],
    "runs of nothing": [CASES["nothing"], CASES["nothing"]],
}


def overflowing() -> dict[str, Any]:
    results = make(CNN)
    for row in (results["layers"][3], results["passes"]["forward"], results["total"]):
        row["overflow"] = 1234
    return results


def shown(results, width, encoding="utf-8", view=report.table) -> str:
    class Stream(StringIO):
        pass

    stream = Stream()
    Stream.encoding = encoding  # type: ignore[assignment]
    Console(file=stream, width=width).print(view(results))
    return stream.getvalue()

"""TensorDash's published speed-ups for random zeros, reached by golden and by the RTL."""

import numpy as np
from measuring import print_table

from skiptile import sim
from skiptile.golden.mac_tile import MacTileParams, count_cycles
from skiptile.golden.published import TENSORDASH_SPEEDUPS, ZEROS

STEPS, SEEDS = 4096, 3


def main() -> None:
    rows, worst = [], 0.0
    ends = np.arange(STEPS) == STEPS - 1
    for (interconnect, count), published in TENSORDASH_SPEEDUPS.items():
        params = MacTileParams(rows=count, columns=1, lanes=16, interconnect=interconnect)
        model = sim.load(params)
        golden, rtl = [], []
        for index, zeros in enumerate(ZEROS):
            counted = simulated = 0
            for seed in range(SEEDS):
                pairs = np.random.default_rng([seed, index]).random((STEPS, count, 16)) >= zeros
                counted += int(count_cycles(pairs, ends, params)[0])
                b = pairs.transpose(0, 2, 1).reshape(-1, count).astype(np.int8)
                simulated += model.matmul(np.ones((1, len(b)), np.int8), b)[1].cycles
            golden.append(SEEDS * STEPS / counted)
            rtl.append(SEEDS * STEPS / simulated)
        worst = max(worst, *(abs(got / want - 1) for got, want in zip(golden, published, strict=True)))
        name = f"`{interconnect}`, {count} row{'s' if count > 1 else ''}"
        for what, values in (("published", published), ("golden", golden), ("RTL", rtl)):
            rows.append((name, what, *(f"{value:.2f}" for value in values)))
    print_table("Speed-up over dense by share of random zeros:", ("", "", *ZEROS), rows)
    print(f"\nLargest deviation from what is published: {100 * worst:.1f} %")


if __name__ == "__main__":
    main()

"""How fast golden counts and schedules: row-steps of 16 lanes per second."""

import numpy as np
from measuring import machine, print_table, seconds

from skiptile.golden.mac_tile import MacTileParams, count_cycles, schedule

STEPS = 200_000
PER_REDUCTION = 100


def main() -> None:
    rows = []
    for tile_rows in (1, 4, 16):
        params = MacTileParams(rows=tile_rows, columns=1, lanes=16)
        steps = STEPS // tile_rows
        for zeros in (0.5, 0.7, 0.9):
            effectual = np.random.default_rng(0).random((steps, tile_rows, 16)) >= zeros
            ends = np.arange(steps) % PER_REDUCTION == PER_REDUCTION - 1
            ends[-1] = True
            assert np.array_equal(
                count_cycles(effectual, ends, params), schedule(effectual, ends, params).cycles
            )
            million = steps * tile_rows / 1e6
            counting = seconds(lambda e=effectual, n=ends, p=params: count_cycles(e, n, p))
            scheduling = seconds(lambda e=effectual, n=ends, p=params: schedule(e, n, p))
            rows.append((tile_rows, zeros, f"{million / counting:.1f}", f"{million / scheduling:.1f}"))
    print_table(
        f"Million row-steps of 16 lanes per second ({machine()}):",
        ("rows", "zeros", "`count_cycles`", "`schedule`"),
        rows,
    )


if __name__ == "__main__":
    main()

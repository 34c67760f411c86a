"""Numbers that are known of published systems, for golden and RTL to reach.

TensorDash: Awad et al., MICRO 2020, and its authors' public simulator.
"""

ZEROS = tuple(tenths / 10 for tenths in range(1, 10))

# Speed-up over dense of one reduction of 4,096 steps of 16 lanes with so many random zeros, by
# interconnect and rows.
TENSORDASH_SPEEDUPS = {
    ("tensordash", 1): (1.10, 1.22, 1.35, 1.52, 1.73, 1.98, 2.32, 2.75, 2.98),
    ("tensordash", 4): (1.08, 1.18, 1.29, 1.43, 1.59, 1.80, 2.04, 2.44, 2.92),
    ("tensordash", 16): (1.07, 1.16, 1.26, 1.37, 1.51, 1.68, 1.92, 2.14, 2.78),
    ("tensordash-sim", 1): (1.11, 1.25, 1.41, 1.60, 1.81, 2.07, 2.37, 2.75, 2.97),
    ("lookahead", 1): (1.05, 1.11, 1.18, 1.27, 1.37, 1.51, 1.71, 2.00, 2.51),
}

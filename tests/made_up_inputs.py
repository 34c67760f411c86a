"""A design file and tensors to try the command line with."""

import numpy as np

DESIGN = """
[design]
name = "t"
kind = "mac-tile"

[mac-tile]
rows = 2
columns = 3
lanes = 4
max_reduction = 500

[mac-tile.sparsity]
interconnect = "lookahead"
"""


def normal(*shape, zeros=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * (rng.random(shape) >= zeros)).astype(np.float32)


def layers():
    """A matrix product, a convolution and a fully connected layer."""
    return {
        "free.a": normal(5, 40),
        "free.b": normal(40, 7, zeros=0.8),
        "conv.activation": normal(2, 3, 6, 6, zeros=0.5),
        "conv.weight": normal(4, 3, 3, 3),
        "conv.gradient": normal(2, 4, 3, 3, zeros=0.7),
        "full.activation": normal(4, 10),
        "full.weight": normal(6, 10),
        "full.gradient": normal(4, 6),
    }

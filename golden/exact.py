"""Exact matrix products: the one right answer that every architecture must give."""

import numpy as np


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` of int8 (M, K) and (K, N), int64 (M, N).

    In float64, whose 53 bits hold any sum of 2^39 products of int8: BLAS is many times faster than
    NumPy's integer product.
    """
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)

"""Arithmetic of processing elements: operands, products in the accumulator's window, read-out."""

"""Skiptile: generate, prove and measure sparse deep-learning training accelerators."""

__version__ = "0.1.0"

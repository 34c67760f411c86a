"""``python -m skiptile``."""

from skiptile.cli import main

main()

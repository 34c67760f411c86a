"""Checks of parameters: one sentence that names the parameter, its value and what is allowed."""

from collections.abc import Iterable


def check_integer(name: str, value: object, least: int, most: int) -> None:
    """Raise unless ``value`` is an integer from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer from {least} to {most}, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be an integer from {least} to {most}, not {value!r}")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless ``value`` is one of the names in ``allowed``."""
    names = ", ".join(repr(choice) for choice in allowed)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {names}, not {value!r}")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {names}, not {value!r}")


def check_keys(name: str, table: object, allowed: Iterable[str], needed: Iterable[str] = ()) -> None:
    """Raise unless ``table`` is a dictionary whose keys are all ``allowed``, with all that are ``needed``."""
    if not isinstance(table, dict):
        raise TypeError(f"{name} must be a table, not {table!r}")
    for key in table:
        if key not in allowed:
            raise ValueError(f"{name} has the unknown key {key!r}; allowed are {', '.join(allowed)}")
    for key in needed:
        if key not in table:
            raise ValueError(f"{name} lacks the key {key!r}")

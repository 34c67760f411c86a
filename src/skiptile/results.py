"""Files of results, as ``skiptile run --json`` writes them: anybody's data, so nothing is taken on trust."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LARGEST_COUNT = 2**53  # up to here every reader of JSON has the same integer
_LARGEST_NUMBER = 1e300  # so that no sum or product of a few is infinite
_DEEPEST = 16


class ResultsError(ValueError):
    """A file that does not hold the results of a run."""


@dataclass(frozen=True)
class _Value:
    """A value that is no part of the structure: what it must be, in words and as a check."""

    words: str
    check: Callable[[Any], bool]


@dataclass(frozen=True)
class _Each:
    """An object with any keys and one kind of value, or a list of them."""

    type: type
    inner: dict[str, Any]


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _or_null(value: _Value) -> _Value:
    return _Value(f"{value.words} or null", lambda given: given is None or value.check(given))


_TEXT = _Value("a text", lambda value: isinstance(value, str))
_TABLE = _Value("an object", lambda value: isinstance(value, dict))
_COUNT = _Value(
    "an integer from 0 to 2^53", lambda value: isinstance(value, int) and _is_number(value, _LARGEST_COUNT)
)
_NUMBER = _Value("a number from 0 to 1e300", lambda value: _is_number(value, _LARGEST_NUMBER))
_SHARE = _Value("a number from 0 to 1", lambda value: _is_number(value, 1))
_VERDICT = _Value("true, false or null", lambda value: value is None or isinstance(value, bool))

_TOTAL = {
    **dict.fromkeys(("dense_cycles", "cycles", "ideal_cycles", "ideal_capped_cycles"), _COUNT),
    **dict.fromkeys(("dense_elapsed", "elapsed", "overflow"), _or_null(_COUNT)),
    **dict.fromkeys(("speedup", "real_speedup", "error"), _or_null(_NUMBER)),
    "exact": _VERDICT,
}
_ROW = {
    **dict.fromkeys(("step", "layer", "pass", "side", "format_a", "format_b"), _TEXT),
    **dict.fromkeys(("groups", "m", "k", "n"), _COUNT),
    **dict.fromkeys(("zeros_a", "zeros_b", "zeros_a_real", "zeros_b_real"), _or_null(_SHARE)),
    **_TOTAL,
    "utilisation": _or_null(_SHARE),
}


_RESULTS = {
    **dict.fromkeys(("design", "kind", "workload", "engine"), _TEXT),
    "formats": dict.fromkeys(("activation", "weight", "gradient"), _TEXT),
    "facts": _TABLE,
    "geometry": _TABLE,
    "layers": _Each(list, _ROW),
    "passes": _Each(dict, _TOTAL),
    "total": _TOTAL,
}
"""The keys that a reader needs; docs/results-format.md says what each of them means."""


def read_results(path: Path) -> dict[str, Any]:
    """The results in a file, with every key that the views of them need.

    Raises:
        ResultsError: one sentence that names the file, and the key that is missing or wrong.
        OSError: the file cannot be read.
    """
    data = path.read_bytes()
    try:
        results = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not a JSON file ({error})") from error
    try:
        if _is_deeper(results, _DEEPEST):
            raise ValueError(f"values are nested more than {_DEEPEST} deep")
        _check(results, _RESULTS, "")
    except ValueError as error:
        raise ResultsError(f"{path}: not the results of a run: {error}") from error
    return results


def _check(value: Any, wanted: Any, where: str) -> None:
    """Raise ValueError, naming the key, where ``value`` has not the structure of ``wanted``."""
    if isinstance(wanted, _Value):
        if not wanted.check(value):
            raise ValueError(f"{where} must be {wanted.words}, not {_shown(value)}")
        return
    kind = wanted.type if isinstance(wanted, _Each) else dict
    if not isinstance(value, kind):
        words = {list: "a list", dict: "an object"}[kind]
        raise ValueError(f"{where or 'they'} must be {words}, not {_shown(value)}")
    if isinstance(wanted, _Each):
        for key, inner in value.items() if kind is dict else enumerate(value):
            _check(inner, wanted.inner, f"{where}[{key!r}]")
        return
    for key, inner in wanted.items():
        name = f"{where}.{key}" if where else key
        if key not in value:
            raise ValueError(f"{name} is missing")
        _check(value[key], inner, name)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _is_deeper(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(most == 0 or _is_deeper(each, most - 1) for each in inner)

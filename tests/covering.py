"""Sets of configurations in which every pair of options occurs somewhere."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def covering_set(
    options: Mapping[str, Sequence[Any]], allowed: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """A small list of configurations that holds every pair of values that some allowed one has.

    Greedy: always the allowed configuration that has most of the pairs still missing. The same list
    each time.
    """
    names = list(options)
    product = [dict(zip(names, values, strict=True)) for values in itertools.product(*options.values())]
    configurations = [configuration for configuration in product if allowed(configuration)]
    pairs = [_pairs(configuration) for configuration in configurations]
    missing = set().union(*pairs)
    chosen = []
    while missing:
        best = max(range(len(pairs)), key=lambda index: len(pairs[index] & missing))
        missing -= pairs[best]
        chosen.append(configurations[best])
    return chosen


def _pairs(configuration: Mapping[str, Any]) -> set[Any]:
    return set(itertools.combinations([(name, str(value)) for name, value in configuration.items()], 2))

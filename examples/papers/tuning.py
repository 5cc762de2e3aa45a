"""Cross-validation as papers state it: folds of entries at random, every weight on every fold."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask

__all__ = ["best_of", "folds_of_entries"]

Data = Mapping[str, Array]
# Answers at a sequence of weights, for some data.
Walk = Callable[[Data], Iterable[Any]]


def folds_of_entries(
    data: Data, count: int, rng: np.random.Generator
) -> Iterator[tuple[dict[str, Array], dict[str, Mask]]]:
    """The data without a fold, and where that fold is, for each of the folds.

    The observed entries of each block are divided at random into ``count`` disjoint subsets of
    equal size, up to one entry.
    """
    places = {}
    for name, block in data.items():
        seen = ~np.isnan(block)
        places[name] = np.full(block.shape, -1)
        places[name][seen] = rng.permutation(np.count_nonzero(seen)) % count
    for fold in range(count):
        held = {name: place == fold for name, place in places.items()}
        yield {name: np.where(held[name], np.nan, block) for name, block in data.items()}, held


def best_of(
    walks: Sequence[Walk],
    data: Data,
    score: Callable[[Any, Mapping[str, Mask]], float],
    count: int,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """The walk and the place on it with the least mean score over folds; of equals the first.

    ``score`` gets an answer, and where the entries are that it has not seen. A walk that ends
    early on a fold is not chosen beyond its end.
    """
    scores = [
        [[score(answer, held) for answer in walk(shown)] for walk in walks]
        for shown, held in folds_of_entries(data, count, rng)
    ]
    longest = max(len(row) for fold in scores for row in fold)
    padded = [[row + [np.inf] * (longest - len(row)) for row in fold] for fold in scores]
    means = np.mean(padded, axis=0)
    walk, place = np.unravel_index(np.argmin(means), means.shape)
    return int(walk), int(place)

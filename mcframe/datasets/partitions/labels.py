"""Labels of rows and columns in a folder of partitions: text, or whole numbers."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mcframe.contracts.errors import DataError
from mcframe.model.labels import Labels, code_labels, in_words

__all__ = ["arrays_of_labels", "labels_from"]


def arrays_of_labels(what: str, given: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that hold some labels: numbers, or the bytes of texts and where each ends.

    Raises
    ------
    DataError
        For labels of another kind, and one that stands twice.
    """
    labels = given.tolist() if hasattr(given, "tolist") else list(given)
    kinds = {type(label) for label in labels}
    if kinds - {str} and kinds - {int}:
        wrong = next((k for k, label in enumerate(labels) if type(label) not in (str, int)), 0)
        raise DataError(
            f"{what}: labels are text alone, or whole numbers alone, and label {wrong} is"
            f" {in_words(labels[wrong])}; give str(label) of each"
        )
    places, codes = code_labels(labels, what)
    if len(places) < len(labels):
        second = int(np.flatnonzero(codes != np.arange(codes.size))[0])
        raise DataError(
            f"{what}: {in_words(labels[second])} stands at places {codes[second]} and {second}"
            " (counted from 0); each label names one, as pandas.factorize numbers them"
        )
    if kinds == {str}:
        encoded = [label.encode() for label in labels]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
        return {"labels": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ends": ends}
    try:
        return {"labels": np.array(labels, dtype=np.int64)}
    except OverflowError:
        raise DataError(f"{what}: a label is beyond 64 bits; give str(label) of each") from None


def labels_from(numbers: npt.NDArray[Any], ends: npt.NDArray[Any] | None, name: str) -> Labels:
    """Return the labels that ``arrays_of_labels`` was given."""
    if ends is None:
        return Labels(tuple(numbers.tolist()), name)
    content, starts = numbers.tobytes(), [0, *ends.tolist()]
    return Labels(tuple(content[a:b].decode() for a, b in pairwise(starts)), name)

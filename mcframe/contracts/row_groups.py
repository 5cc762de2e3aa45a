"""Groups of rows, such as the visits of one patient: their labels, and the group of each row."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import as_given
from mcframe.contracts.wording import wording


@stored
@attrs.frozen
class RowGroups:
    """The groups of the rows of a table, numbered in the order in which they appear.

    Attributes
    ----------
    labels : tuple
        Of the groups.
    numbers : array of integers (n,)
        The group of each row.
    """

    labels: tuple[Any, ...]
    numbers: IntArray = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)

    @classmethod
    def of(cls, groups: Any, what: str = "groups") -> "RowGroups":
        """The groups of rows with these labels; a ``DataError`` names a row without one."""
        if isinstance(groups, RowGroups):
            return groups
        labels = labels_of(groups, what)
        numbers: dict[Any, int] = {}
        for label in labels:
            numbers.setdefault(label, len(numbers))
        return cls(tuple(numbers), np.array([numbers[label] for label in labels], dtype=np.intp))

    def of_new_rows(self, groups: Any, what: str = "groups") -> IntArray:
        """The groups of new rows; those that are not known have numbers from ``count`` on."""
        numbers = {label: k for k, label in enumerate(self.labels)}
        labels = labels_of(groups, what)
        return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.intp)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.labels)


def labels_of(groups: Any, what: str) -> Sequence[Any]:
    """One label for each row, as values of Python."""
    labels = np.asarray(groups)
    if labels.ndim != 1:
        raise ModelError(
            f"{what}={as_given(groups)} was given; one label for each row is needed, such as"
            " frame['school']"
        )
    values: list[Any] = labels.tolist()
    for row, label in enumerate(values):
        if label is None or label != label:  # NaN
            raise DataError(f"{what}: {wording().row(row)} has no group; each needs one")
        if isinstance(label, list | dict | set):
            raise DataError(
                f"{what}: {wording().row(row)} has {label!r}, which is no label; texts, numbers or"
                " dates are needed"
            )
    return values

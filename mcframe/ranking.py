"""Answers by label: pairs of a row and a column, and the best columns of a row."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import whole
from mcframe.model import Block
from mcframe.model.labels import AxisLabels, some_in_words
from mcframe.model.series import columns_of_frame, frame_of, is_frame
from mcframe.model.table import Table

UNKNOWN = ("refuse", "nan")
PREDICTED = "predicted"
# How many predictions of whole rows are held at a time.
BATCH = 2_000_000
# How many unknown labels are compared for a message.
LOOKED_AT = 1_000


@attrs.frozen(eq=False)
class Axes:
    """The labels of the rows and of the columns of a block, positions where it has none.

    Attributes
    ----------
    block : str
        The name of the block, for messages.
    rows, columns : AxisLabels
    """

    block: str
    rows: AxisLabels
    columns: AxisLabels

    @classmethod
    def of(cls, block: str, table: Table) -> "Axes":
        """Return the axes of a block's table, with names that a frame can have side by side."""
        rows = AxisLabels.of(table.index, table.shape[0], "row")
        columns = AxisLabels.of(table.names, table.shape[1], "column")
        if len({rows.name, columns.name, PREDICTED}) < 3:
            rows, columns = attrs.evolve(rows, name="row"), attrs.evolve(columns, name="column")
        return cls(block, rows, columns)

    def places_of_pairs(self, pairs: Any, unknown: str) -> tuple[IntArray, IntArray]:
        """Return the rows and the columns of pairs of labels, -1 for a label that is unknown.

        Raises
        ------
        ModelError
            Where ``unknown`` is neither "refuse" nor "nan".
        DataError
            Where it is "refuse" and a label is unknown, or these are no pairs.
        """
        if unknown not in UNKNOWN:
            raise ModelError(f'unknown={unknown!r} was given; take "refuse" or "nan"')
        places = []
        for labels, given in zip((self.rows, self.columns), self.sides_of(pairs), strict=True):
            found = labels.find(given)
            if unknown == "refuse":
                self.check_known(labels, given, found)
            places.append(found)
        return places[0], places[1]

    def sides_of(self, pairs: Any) -> list[Any]:
        """Return the row labels and the column labels of pairs, of a frame by their names."""
        if is_frame(pairs):
            names = (self.rows.name, self.columns.name)
            return columns_of_frame(pairs, names, f"block {self.block!r}, pairs")[1]
        try:
            given = pairs.tolist() if isinstance(pairs, np.ndarray) else list(pairs)
        except TypeError:
            given = [pairs]
        for place, pair in enumerate(given):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise DataError(
                    f"block {self.block!r}, pairs: {pair!r}, at place {place}, is no pair of"
                    f" {self.rows.name} and {self.columns.name}; give a list of such pairs, or a"
                    " frame with both columns"
                )
        return [[pair[side] for pair in given] for side in (0, 1)]

    def places_of_rows(self, row: Any) -> IntArray:
        """Return the places of rows by one label, or by a list, an array or a Series of them.

        Raises
        ------
        DataError
            Where one is unknown.
        """
        several = isinstance(row, list | np.ndarray) or hasattr(row, "to_list")
        given = list(row) if several else [row]
        found = self.rows.find(given)
        self.check_known(self.rows, given, found)
        return found

    def check_known(self, labels: AxisLabels, given: Any, found: IntArray) -> None:
        """Raise a ``DataError`` that names labels which the fit does not know."""
        unknown = np.flatnonzero(found < 0)[:LOOKED_AT]
        if unknown.size:
            names = list(dict.fromkeys(given[int(place)] for place in unknown))
            remedy = "; fit.predict_rows and fit.top_rows take new rows" * (labels is self.rows)
            raise DataError(
                f"block {self.block!r}: the fit has no {labels.name} {some_in_words(names)}"
                f"{remedy}"
            )

    def as_triples(self, rows: IntArray, columns: IntArray, predicted: Array) -> Any:
        """Return predictions with their labels, in a frame of the library of the data.

        With columns by the names of both axes and "predicted"; where the data were no frames, a
        list of tuples.
        """
        labels = self.rows.take(rows), self.columns.take(columns)
        if self.rows.library is None:
            return list(zip(*labels, predicted.tolist(), strict=True))
        names = self.rows.name, self.columns.name, PREDICTED
        return frame_of(dict(zip(names, (*labels, predicted), strict=True)), self.rows.library)


def check_ranked(block: Block) -> None:
    """Raise a ``ModelError`` where a block has classes, of which none is more than another."""
    if block.likelihood.width > 1:
        raise ModelError(
            f"block {block.name!r}: {type(block.likelihood).__name__} has classes, of which none"
            " is more than another; rank by probabilities, as of"
            f" fit.predict_pairs({block.name!r}, pairs)"
        )


def best_columns(
    table: Table,
    rows: IntArray,
    predictions: Callable[[IntArray], Array],
    n: int,
    observed: bool,
) -> tuple[IntArray, IntArray, Array]:
    """Return the n columns of each row where most is predicted, best first.

    Of equal predictions the one further left comes first. A row with fewer columns to choose
    from has fewer.

    Parameters
    ----------
    table : Table
        Whose observed entries are left out, unless ``observed``.
    rows : array of integers
    predictions : function of some of these rows
        The predictions of their whole rows (rows x columns).
    n : int
        At least 1.
    observed : bool

    Returns
    -------
    rows, columns, predictions : arrays, one element each for a row and one of its columns
    """
    most = whole(n, "n", least=1)
    found = []
    step = max(1, BATCH // table.shape[1])
    for start in range(0, rows.size, step):
        part = rows[start : start + step]
        for row, numbers in zip(part, predictions(part), strict=True):
            left = np.arange(numbers.size) if observed else table.unobserved_columns(row)
            chosen = left[largest(numbers[left], most)]
            found.append((np.full(chosen.size, row), chosen, numbers[chosen]))
    if not found:
        nowhere = np.zeros(0, dtype=np.intp)
        return nowhere, nowhere, np.zeros(0)
    at_rows, at_columns, predicted = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return at_rows, at_columns, predicted


def largest(numbers: Array, n: int) -> IntArray:
    """Return where the n largest numbers are, in descending order, equal ones in theirs."""
    if numbers.size > n:
        least = np.partition(numbers, numbers.size - n)[numbers.size - n]
        candidates = np.flatnonzero(numbers >= least)
    else:
        candidates = np.arange(numbers.size)
    return candidates[np.argsort(-numbers[candidates], kind="stable")[:n]]

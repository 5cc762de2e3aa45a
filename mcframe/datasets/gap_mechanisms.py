"""Mechanisms by which entries go missing: what is hidden together, and in which order."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import plain


@attrs.frozen(eq=False)
class ArrayColumn:
    """A column of an array, with what is asked of the column of a frame."""

    name: int
    numbers: Array
    form = "number"

    @property
    def missing(self) -> Mask:
        """Mark the missing entries."""
        return np.isnan(self.numbers)

    @property
    def values(self) -> list[float | None]:
        """The numbers, None where missing."""
        return [None if np.isnan(number) else number for number in self.numbers.tolist()]


@attrs.frozen(eq=False)
class Units:
    """Sets of entries, each hidden as a whole, in the order in which they are tried.

    Attributes
    ----------
    cells : list of arrays of shape (k, 2)
        Row and column of the observed entries of a unit. No entry is in two of them.
    chains : sequence of int, optional
        The chain of each unit: where one is refused, all later ones of its chain are, too.
    """

    cells: list[IntArray]
    chains: Sequence[int] | None = None

    @property
    def n_cells(self) -> int:
        """The number of entries of all units."""
        return sum(map(len, self.cells))

    def hidden(self, observed: Mask, n_hidden: int, keep: tuple[int, int]) -> Mask:
        """Mark the entries of units until so many are hidden.

        A unit larger than what is left to hide, and one after which fewer than ``keep[1]``
        entries of a column would be observed, is refused. Of a unit the rows stay that would have
        fewer than ``keep[0]``.
        """
        marked: Mask = np.zeros(observed.shape, dtype=bool)
        in_rows = observed.sum(axis=1).tolist()
        in_columns = observed.sum(axis=0).tolist()
        refused: set[int] = set()
        for place, cells in enumerate(self.cells):
            chain = -1 - place if self.chains is None else self.chains[place]
            if chain in refused:
                continue
            if n_hidden == 0:
                break
            of_unit = cells.tolist()
            of_rows = Counter(row for row, _ in of_unit)
            left = [(i, j) for i, j in of_unit if in_rows[i] - of_rows[i] >= keep[0]]
            of_columns = Counter(column for _, column in left)
            if len(left) > n_hidden or any(
                in_columns[column] - count < keep[1] for column, count in of_columns.items()
            ):
                refused.add(chain)
                continue
            for row, column in left:
                marked[row, column] = True
                in_rows[row] -= 1
                in_columns[column] -= 1
            n_hidden -= len(left)
        return marked


@attrs.frozen(eq=False)
class Request:
    """The columns of a table, and the options of a mechanism by their places.

    Attributes
    ----------
    columns : list of Column or ArrayColumn
        Those of the table.
    observed : mask (n_rows, n_columns)
    groups : list of lists of int
        The places of columns that may lose entries, in groups that are missing together.
    by : list of int
        The places of columns that decide.
    values : list
        The values of ``by`` that decide.
    rng : numpy.random.Generator
    largest : bool
    strength : float
    """

    columns: list[Any]
    observed: Mask
    groups: list[list[int]]
    by: list[int]
    values: list[Any]
    rng: np.random.Generator
    largest: bool = True
    strength: float = 4.0

    @property
    def losing(self) -> list[int]:
        """The places of all columns that may lose entries."""
        return [place for group in self.groups for place in group]

    @property
    def entries(self) -> IntArray:
        """Row and column of the observed entries that may be hidden, row after row."""
        may_lose = np.zeros(self.observed.shape, dtype=bool)
        may_lose[:, self.losing] = True
        return np.argwhere(self.observed & may_lose)

    def random_subset(self, share: float) -> Mask:
        """Mark a share of the entries, all subsets of that size equally likely."""
        entries = self.entries
        chosen = self.rng.choice(len(entries), size=round(share * len(entries)), replace=False)
        marked: Mask = np.zeros(self.observed.shape, dtype=bool)
        marked[tuple(entries[chosen].T)] = True
        return marked

    def ranks(self, place: int) -> Array:
        """The ranks of a column from 0 to 1, 1/2 where it is missing."""
        return mid_ranks(numbers_in_order(self.columns[place]))

    def deciding_ranks(self) -> Array:
        """The ranks of the columns that decide, of the mean rank of several."""
        return mid_ranks(np.mean([self.ranks(place) for place in self.by], axis=0))

    def drawn_order(self, ranks: Array) -> IntArray:
        """An order of units: as if each was missing with a probability logistic in its rank.

        The units of which strength * rank plus a logistic error exceeds any threshold are the
        first ones of this order.
        """
        signed = self.strength if self.largest else -self.strength
        scores = signed * ranks + self.rng.logistic(size=ranks.size)
        return np.argsort(-scores, kind="stable")


def mid_ranks(numbers: Array) -> Array:
    """Ranks from 0 to 1: the share of smaller numbers and half of that of equal ones.

    It is 1/2 where there is no number.
    """
    ranks = np.full(numbers.shape, 0.5)
    seen = ~np.isnan(numbers)
    _, codes, counts = np.unique(numbers[seen], return_inverse=True, return_counts=True)
    ranks[seen] = ((np.cumsum(counts) - 0.5 * counts) / max(1, seen.sum()))[codes]
    return ranks


def numbers_in_order(column: Any) -> Array:
    """Numbers in the order of the values of a column, NaN where one is missing."""
    if column.form in ("boolean", "number", "date"):
        numbers: Array = column.numbers
        return numbers
    if column.form == "other":
        raise DataError(
            f"column {plain(column.name)!r}: {column.trouble}. Its values cannot be put in order"
            " as they are; leave the column out of columns= and by= otherwise"
        )
    code_of = {value: code for code, value in enumerate(column.distinct)}
    return np.array([np.nan if value is None else code_of[value] for value in column.values])


def parts_by_key(entries: IntArray, keys: IntArray) -> list[IntArray]:
    """The entries in parts of one key, in the order of the keys."""
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    return np.split(entries[order], ends) if keys.size else []


def single_entries(request: Request, depends_on: str = "nothing") -> Units:
    """Any entry by itself: at random, by the ranks of other columns, or by its own rank."""
    entries = request.entries
    if depends_on == "other columns":
        order = request.drawn_order(request.deciding_ranks()[entries[:, 0]])
    elif depends_on == "its value":
        order = request.drawn_order(own_ranks(request, entries))
    else:
        order = request.rng.permutation(len(entries))
    return Units(list(entries[order][:, None, :]))


def own_ranks(request: Request, entries: IntArray) -> Array:
    """The rank of each entry in its column."""
    ranks = np.zeros(request.observed.shape)
    for place in request.losing:
        ranks[:, place] = request.ranks(place)
    return ranks[entries[:, 0], entries[:, 1]]


def outer_values(request: Request) -> Units:
    """All entries of one value of a column, from the largest (the smallest) value on."""
    entries = request.entries
    ranks = own_ranks(request, entries)
    ranks = -ranks if request.largest else ranks
    order = np.lexsort((entries[:, 1], ranks))
    entries, ranks = entries[order], ranks[order]
    changes = (np.diff(ranks) != 0.0) | (np.diff(entries[:, 1]) != 0)
    cells = np.split(entries, np.flatnonzero(changes) + 1) if len(entries) else []
    return Units(cells, [int(unit[0, 1]) for unit in cells])


def groups_in_rows(request: Request) -> Units:
    """The entries of a row in a group of columns, in random order."""
    entries = request.entries
    group_of = np.zeros(request.observed.shape[1], dtype=np.intp)
    for group, places in enumerate(request.groups):
        group_of[places] = group
    keys = entries[:, 0] * len(request.groups) + group_of[entries[:, 1]]
    cells = parts_by_key(entries, keys)
    return Units([cells[k] for k in request.rng.permutation(len(cells))])


def skipped(request: Request) -> Units:
    """All entries of rows in which a column has certain values."""
    values = request.columns[request.by[0]].values
    chosen = [value for value in request.values if value is not None]
    rows = np.array([value is not None and value in chosen for value in values])
    entries = request.entries
    return Units([entries[rows[entries[:, 0]]]])


def dropouts(request: Request) -> Units:
    """Entries of columns in time, so that later ones of a row precede earlier ones.

    With exponential times E of the rows, column k (from 1) of those with k / E above any threshold
    is missing: of the rows that are left at any column the same share drops out.
    """
    place_in_time = np.zeros(request.observed.shape[1])
    place_in_time[request.losing] = np.arange(1, len(request.losing) + 1)
    entries = request.entries
    times = request.rng.exponential(size=len(request.observed))
    order = np.argsort(-place_in_time[entries[:, 1]] / times[entries[:, 0]], kind="stable")
    entries = entries[order]
    return Units(list(entries[:, None, :]), entries[:, 0].tolist())


def clusters_of_columns(request: Request) -> Units:
    """The entries of a column in all rows of one label, in random order."""
    labels = numbers_in_order(request.columns[request.by[0]])
    entries = request.entries
    entries = entries[~np.isnan(labels[entries[:, 0]])]
    _, codes = np.unique(labels[entries[:, 0]], return_inverse=True)
    cells = parts_by_key(entries, codes * request.observed.shape[1] + entries[:, 1])
    return Units([cells[k] for k in request.rng.permutation(len(cells))])


def second_phase(request: Request) -> Units:
    """The entries of a row in all expensive columns, by the rank of the row in cheap ones."""
    entries = request.entries
    cells = parts_by_key(entries, entries[:, 0])
    rows = np.array([unit[0, 0] for unit in cells], dtype=np.intp)
    order = request.drawn_order(request.deciding_ranks()[rows])
    return Units([cells[k] for k in order])


@attrs.frozen
class Mechanism:
    """A way to lose entries: its units, and the options that it takes and needs."""

    units: Callable[[Request], Units]
    takes: tuple[str, ...]
    needs: tuple[str, ...] = ()


MECHANISMS = {
    "mcar": Mechanism(single_entries, ("columns",)),
    "mar": Mechanism(
        partial(single_entries, depends_on="other columns"),
        ("by", "columns", "largest", "strength"),
    ),
    "self-masked": Mechanism(
        partial(single_entries, depends_on="its value"), ("columns", "largest", "strength")
    ),
    "censored": Mechanism(outer_values, ("columns", "largest")),
    "blocks": Mechanism(groups_in_rows, ("columns",), ("columns",)),
    "skip": Mechanism(skipped, ("by", "columns"), ("by", "columns")),
    "monotone": Mechanism(dropouts, ("columns",)),
    "clusters": Mechanism(clusters_of_columns, ("by", "columns"), ("by",)),
    "two-phase": Mechanism(second_phase, ("by", "columns", "largest", "strength"), ("columns",)),
}

"""Folds of whole rows, judged as new rows are answered."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import number
from mcframe.model import Problem
from mcframe.model.table import Table
from mcframe.selection.column_order import by_content
from mcframe.selection.entry_folds import number_of_folds
from mcframe.selection.folds import Fold, fold_of, observed_entries
from mcframe.selection.order_of_time import successive_parts, times_of

__all__ = ["RowFolds"]


def names_of_blocks(value: object) -> tuple[str, ...] | None:
    """An attrs converter: names of blocks, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    names = tuple(value) if isinstance(value, list | tuple | set) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ModelError(f"RowFolds: given={value!r} was given; names of blocks are needed")
    return names


@attrs.frozen(eq=False)
class RowFolds:
    """Folds of whole rows, for the use on new rows: each row is held out once, in all blocks.

    A fit sees nothing of the rows of its fold. Then some of their entries are given, and others
    are predicted by the rule for new rows (``Fit.predict_rows``) and judged.

    Parameters
    ----------
    count : int, default 5
        At least 2.
    groups : sequence (n_items), optional
        Labels of rows that belong together, such as visits of one patient: they are in the same
        fold. Folds have about as many rows.
    order : sequence (n_items), optional
        A time for each row, numbers or ``numpy.datetime64``. Rows are cut into ``count + 1``
        successive parts; fold k fits the parts 0, ..., k, and the rows of part k + 1 are new.
    given : list of block names, optional
        The blocks that are given of new rows, as features are; the others are judged whole.
        Without it the entries that are judged are drawn from all blocks.
    hidden : float, default 0.3
        Without ``given``: the share of the entries of a row that are judged, from 0 to 1; of a
        row with two entries or more one at least is, and one at least is given.

    Raises
    ------
    DataError
        By ``draw``: where groups or times do not fit the data or the number of folds.
    ModelError
        Where a block in ``given`` is not one of the model's, or all are; by ``cross_validate``
        with the first fit, where the model has no rule for new rows.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import RelativeError, RowFolds
    >>> x = np.outer(np.arange(1.0, 13.0), [1.0, 2.0, 3.0, 4.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> chosen = mc.cross_validate(
    ...     model, {"x": x}, criterion=RelativeError("x"), weights=[20.0, 2.0], folds=RowFolds(3)
    ... )
    >>> chosen.best_weight
    2.0
    """

    count: int = attrs.field(default=5, validator=number_of_folds)
    groups: Any = attrs.field(default=None, kw_only=True)
    order: Any = attrs.field(default=None, kw_only=True)
    given: tuple[str, ...] | None = attrs.field(
        default=None, converter=names_of_blocks, kw_only=True
    )
    hidden: float = attrs.field(default=0.3, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.groups is not None and self.order is not None:
            raise ModelError("RowFolds: groups and order were both given; give one of them")
        if not 0.0 < number(self.hidden, "RowFolds: hidden") < 1.0:
            raise ModelError(
                f"RowFolds: hidden={self.hidden!r} was given; a share between 0 and 1 is needed"
            )

    def draw(
        self, problem: Problem, data: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[Fold, ...]:
        """The folds; memory of two copies of the data each."""
        observed = observed_entries(problem)
        part, later = self.parts_of_rows(problem.n_items, rng)
        judged = self.judged_entries(problem, observed, rng)
        folds = []
        for k in range(self.count):
            new = part == k + later
            fitted = part <= k if later else ~new
            folds.append(
                fold_of(
                    k,
                    data,
                    observed,
                    {name: fitted[table.rows] for name, table in observed.items()},
                    {name: new[table.rows] & judged[name] for name, table in observed.items()},
                    {name: new[table.rows] & ~judged[name] for name, table in observed.items()},
                )
            )
        return tuple(folds)

    def parts_of_rows(self, n_items: int, rng: np.random.Generator) -> tuple[IntArray, int]:
        """The part of each row, and by how many parts what is new is ahead of the fold."""
        if self.order is not None:
            times = times_of(self.order, "RowFolds: order")
            check_length("order", times, n_items)
            return successive_parts(times, self.count + 1, "RowFolds: order"), 1
        labels = None if self.groups is None else codes_of(self.groups, n_items)
        sizes = np.ones(n_items) if labels is None else np.bincount(labels)
        if sizes.size < self.count:
            what = "rows" if self.groups is None else "groups"
            raise DataError(
                f"RowFolds: count={self.count} was given, and there are {sizes.size} {what}; ask"
                " for fewer folds, at least 2"
            )
        if labels is not None:
            return part_of_groups(sizes, self.count, rng)[labels], 0
        return rng.permutation(n_items) % self.count, 0

    def judged_entries(
        self, problem: Problem, observed: Mapping[str, Table], rng: np.random.Generator
    ) -> dict[str, Mask]:
        """Which of the observed entries are judged where their row is new."""
        if self.given is None:
            return drawn_share(observed, problem.n_items, self.hidden, rng)
        for name in self.given:
            problem.model.block(name)
        if set(self.given) == set(observed):
            raise ModelError(
                f"RowFolds: given={self.given!r} are all blocks, so that none is left to be"
                " judged; leave one out, or drop given"
            )
        return {
            name: np.full(table.n_entries, name not in self.given)
            for name, table in observed.items()
        }


def check_length(what: str, given: Any, n_items: int) -> None:
    """Raise a ``DataError`` where this is not one value a row."""
    if given.shape != (n_items,):
        raise DataError(
            f"RowFolds: {what} has the shape {given.shape}; one value for each of the {n_items}"
            " rows is needed"
        )


def codes_of(groups: Any, n_items: int) -> IntArray:
    """The groups of rows as numbers from 0."""
    labels = np.asarray(groups)
    check_length("groups", labels, n_items)
    numbers: dict[Any, int] = {}
    for row, label in enumerate(labels.tolist()):
        if label is None or label != label:  # NaN
            raise DataError(f"RowFolds: groups: row {row} has no group; each needs one")
        numbers.setdefault(label, len(numbers))
    return np.array([numbers[label] for label in labels.tolist()], dtype=np.intp)


def part_of_groups(sizes: Any, count: int, rng: np.random.Generator) -> IntArray:
    """The part of each group: the largest first, into the part that has the fewest rows."""
    drawn = rng.permutation(sizes.size)
    part, rows = np.zeros(sizes.size, dtype=np.intp), np.zeros(count)
    for group in drawn[np.argsort(-sizes[drawn], kind="stable")]:
        part[group] = np.argmin(rows)
        rows[part[group]] += sizes[group]
    return part


def drawn_share(
    observed: Mapping[str, Table], n_items: int, share: float, rng: np.random.Generator
) -> dict[str, Mask]:
    """Draw a share of the entries of each row, over all blocks: one at least, but not all."""
    ordered = by_content(observed)
    rows = np.concatenate([table.rows for table, _ in ordered.values()])
    in_row = np.bincount(rows, minlength=n_items)
    drawn = rng.permutation(rows.size)
    order = drawn[np.argsort(rows[drawn], kind="stable")]
    place: IntArray = np.empty(rows.size, dtype=np.intp)
    place[order] = np.arange(rows.size) - (np.cumsum(in_row) - in_row)[rows[order]]
    wanted = np.minimum(np.maximum(np.rint(share * in_row), 1), in_row - 1)
    ends = np.cumsum([table.n_entries for table, _ in ordered.values()])[:-1]
    chosen = dict(zip(ordered, np.split(place < wanted[rows], ends), strict=True))
    return {name: chosen[name][np.argsort(ordered[name][1])] for name in observed}

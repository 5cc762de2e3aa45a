"""Folds by the time of each entry: what is later is held out."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.model import Problem
from mcframe.model.table import Table
from mcframe.selection.entry_folds import number_of_folds
from mcframe.selection.folds import Fold, fold_of, observed_entries
from mcframe.selection.order_of_time import successive_parts, times_of

__all__ = ["TimeFolds"]


@attrs.frozen(eq=False)
class TimeFolds:
    """Folds that hold out the future: fitted to what was before, judged on what came next.

    The observed entries are cut by their times into ``count + 1`` successive parts of about equal
    size, all of one time into the same part. Fold k fits the parts 0, ..., k, and part k + 1 is
    held out; what is later still is not looked at. Whole rows by their times are
    ``RowFolds(order=...)``.

    Parameters
    ----------
    order : dict from block name to array
        The time of each entry of a block: an array of the block's shape, a column (n_items x 1)
        or a row (1 x columns), of numbers or ``numpy.datetime64``. Times of observed entries
        must not be missing. Blocks that are not in it are fitted whole in every fold.
    count : int, default 5
        At least 2.

    Raises
    ------
    DataError
        By ``draw``: where the times do not fit the data, or are too much alike for so many folds.

    Examples
    --------
    A panel whose columns are years:

    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import TimeFolds
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> data = {"x": np.arange(24.0).reshape(4, 6)}
    >>> years = TimeFolds({"x": [[2019, 2020, 2021, 2022, 2023, 2024]]}, count=2)
    >>> folds = years.draw(mc.Problem.bind(model, data), data, np.random.default_rng(0))
    >>> [np.unique(fold.held["x"].columns).tolist() for fold in folds]
    [[2, 3], [4, 5]]
    """

    order: Mapping[str, Any] = attrs.field()
    count: int = attrs.field(default=5, validator=number_of_folds)

    @order.validator
    def check_order(self, attribute: "attrs.Attribute[Any]", value: object) -> None:
        """Raise a ``DataError`` where this is no dict of blocks."""
        if not isinstance(value, Mapping) or not value:
            raise DataError(
                f"TimeFolds: order of type {type(value).__name__} was given; a dict from block"
                " name to the time of each entry is needed, such as {'x': [[2019, 2020]]} for"
                " columns that are years; RowFolds(order=...) takes one time a row"
            )

    def draw(
        self, problem: Problem, data: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[Fold, ...]:
        """The folds; nothing in them is random."""
        observed = observed_entries(problem)
        for name in self.order:
            problem.model.block(name)
        times = {
            name: times_at_entries(name, self.order[name], table)
            for name, table in observed.items()
            if name in self.order
        }
        if len({each.dtype.kind for each in times.values()}) > 1:
            raise DataError("TimeFolds: order has numbers and dates; give all of one kind")
        together = np.concatenate(list(times.values()))
        cut = np.cumsum([each.size for each in times.values()])[:-1]
        found = np.split(successive_parts(together, self.count + 1, "TimeFolds: order"), cut)
        parts = dict(zip(times, found, strict=True))
        always = {name: np.zeros(observed[name].n_entries, np.intp) for name in observed}
        whole = always | parts
        return tuple(
            fold_of(
                k,
                data,
                observed,
                {name: whole[name] <= k for name in observed},
                {name: whole[name] == k + 1 for name in observed},
            )
            for k in range(self.count)
        )


def times_at_entries(name: str, given: Any, table: Table) -> Any:
    """The time of each observed entry of a block."""
    times = times_of(given, f"TimeFolds: order of block {name!r}")
    try:
        return np.broadcast_to(times, table.shape)[table.rows, table.columns]
    except ValueError:
        raise DataError(
            f"TimeFolds: order of block {name!r} has the shape {times.shape}; the block is"
            f" {table.shape[0]} x {table.shape[1]}: give a time for each entry, a column"
            f" ({table.shape[0]} x 1) or a row (1 x {table.shape[1]})"
        ) from None

"""Ways to cut a table into folds, with ``split`` and ``get_n_splits`` as in scikit-learn."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import attrs
import numpy as np

from mcframe.backends import Point
from mcframe.contracts.arrays import IntArray, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.validators import (
    Options,
    RandomState,
    a_type,
    as_given,
    number,
    suggests_options,
    takes,
    whole,
)
from mcframe.fitting.fit_answer import Fit, new_rows
from mcframe.model import Model, Problem
from mcframe.model.held_out import (
    NEVER_HELD_OUT,
    Held,
    HeldOut,
    by_content,
    dealt,
    drawn_share,
    observed_entries,
)
from mcframe.model.table import Table
from mcframe.storage.digest import digest_of

Tables = Mapping[str, Table]
# The fitted and the scored entries of each fold: masks of the observed entries of each block.
Split = Iterator[tuple[Mapping[str, Mask], Mapping[str, Mask]]]


# An attrs validator: the number of folds.
number_of_folds = takes(partial(whole, least=2))


def generator(random_state: RandomState) -> np.random.Generator:
    """Return the generator that draws folds."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(Options.random_state(random_state))


@attrs.frozen(eq=False)
class Splitter(ABC):
    """A way to cut a table into folds: ``cross_validate(cv=...)`` takes any subclass.

    ``split`` yields the training and the test set of each fold, as the splitters of scikit-learn
    do. Here each of the two is a dict from block name to a mask of the observed entries of that
    block, in the order of ``problem.tables[block].observed_entries()``. Every block needs an entry
    that is fitted, and every fold one that is scored.
    """

    # True if the scored entries are of new rows, which are not fitted. The entries of these rows
    # that are not scored are then what the predictions are made from.
    new_rows: ClassVar[bool] = False
    n_splits: int = attrs.field(default=5, validator=number_of_folds)

    @abstractmethod
    def split(self, problem: Problem, random_state: RandomState = 0) -> Split:
        """The entries of each block that are fitted and those that are scored, fold by fold."""

    def get_n_splits(self) -> int:
        """The number of folds."""
        return self.n_splits


def folds_in_turn(parts: Mapping[str, IntArray], count: int, later: bool = False) -> Split:
    """Yield folds that hold out part k and fit the others, or k + 1 after the parts 0, ..., k."""
    for k in range(count):
        held = {block: part == (k + 1 if later else k) for block, part in parts.items()}
        fitted = {b: part <= k if later else part != k for b, part in parts.items()}
        yield fitted, held


@attrs.frozen
class EntryFolds(Splitter):
    """Folds of entries at random: ``cross_validate(cv=5)`` is ``cv=EntryFolds(5)``.

    The observed entries of each block are divided into ``n_splits`` parts: column by column, and
    for labels, classes and levels value by value. So each part has its share of the entries of a
    column, and of the positives of a rare label. Each part is held out once.

    Every row and every column keeps an entry to be fitted. The only entry of a row (over all
    blocks) or of a column is never held out. If all entries of a row are drawn into one part, one
    of them is moved to another. The folds do not depend on the order of blocks and columns.

    Parameters
    ----------
    n_splits : int, default 5
        At least 2.

    Raises
    ------
    DataError
        In ``split``, if fewer entries of a block can be held out than there are folds.
    """

    def split(self, problem: Problem, random_state: RandomState = 0) -> Split:
        """The entries of each block that are fitted and those that are scored, fold by fold."""
        count, observed = self.n_splits, observed_entries(problem)
        ordered = by_content(observed)
        tables = {name: table for name, (table, _) in ordered.items()}
        free = free_entries(tables, problem.n_items)
        for name, table in observed.items():
            n_free, reason = free[name].size, ""
            if n_free < table.n_entries:
                reason = (
                    f", of which {n_free} can be held out: each other one is the only entry of its"
                    " row or of its column"
                )
            if n_free < count:
                raise DataError(
                    f"block {name!r}: {count} folds were asked for, and {table.n_entries} entries"
                    f" are observed{reason}; ask for fewer folds, at least 2, or hold out whole"
                    f" rows by cv=RowFolds({count}) of mcframe.selection"
                )
        parts = dealt_parts(problem, tables, free, count, generator(random_state))
        return folds_in_turn({b: parts[b][np.argsort(ordered[b][1])] for b in observed}, count)


def dealt_parts(
    problem: Problem,
    observed: Tables,
    free: Mapping[str, IntArray],
    count: int,
    rng: np.random.Generator,
) -> dict[str, IntArray]:
    """Return the part of each entry, which depends on their order; -1 of those that stay."""
    parts = {}
    for name, table in observed.items():
        parts[name] = np.full(table.n_entries, NEVER_HELD_OUT, dtype=np.intp)
        drawn = free[name][rng.permutation(free[name].size)]
        strata = table.columns
        if problem.model.block(name).likelihood.values is not None:  # each label, class and level
            codes = (table.values - table.values.min()).astype(np.intp)
            strata = strata * (codes.max() + 1) + codes
        parts[name][drawn] = dealt(strata[drawn], count)
    # One entry of each row that is in one part alone moves into another part.
    in_single_part = in_one_part(
        [(t.rows, parts[name]) for name, t in observed.items()], problem.n_items
    )
    for name, table in observed.items():
        moved = first_of_each(table.rows, in_single_part)
        parts[name][moved] = (parts[name][moved] + rng.integers(1, count, moved.size)) % count
        in_single_part[table.rows[moved]] = False
    # After these moves one entry of each column that is in one part alone is never held out.
    for name, table in observed.items():
        in_single_part = in_one_part([(table.columns, parts[name])], table.shape[1])
        parts[name][first_of_each(table.columns, in_single_part)] = NEVER_HELD_OUT
    return parts


def free_entries(observed: Tables, n_items: int) -> dict[str, IntArray]:
    """Return the entries of each block that are not the only one of their row or column."""
    rows = np.concatenate([table.rows for table in observed.values()])
    in_row, free = np.bincount(rows, minlength=n_items), {}
    for name, table in observed.items():
        in_column = np.bincount(table.columns, minlength=table.shape[1])
        free[name] = np.flatnonzero((in_row[table.rows] > 1) & (in_column[table.columns] > 1))
    return free


def fewest_free(model: Model, data: Mapping[str, Any]) -> int:
    """Return the smallest number over blocks of entries that can be held out."""
    problem = Problem.bind(model, data)
    free = free_entries(observed_entries(problem), problem.n_items)
    return min(entries.size for entries in free.values())


def in_one_part(pairs: list[tuple[IntArray, IntArray]], size: int) -> Mask:
    """Return the rows or columns, ``size`` in all, whose free entries are all in one part.

    ``pairs`` are the row or column and the part of each entry.
    """
    lowest, highest = np.full(size, np.iinfo(np.intp).max), np.full(size, NEVER_HELD_OUT)
    for places, part in pairs:
        np.minimum.at(lowest, places, part)
        np.maximum.at(highest, places, part)
    return np.asarray((lowest == highest) & (lowest != NEVER_HELD_OUT))


def first_of_each(places: IntArray, chosen: Mask) -> IntArray:
    """Return the first entry in each of the chosen rows or columns."""
    within = np.flatnonzero(chosen[places])
    return within[np.unique(places[within], return_index=True)[1]]


def names_of_blocks(value: object) -> tuple[str, ...] | None:
    """An attrs converter: names of blocks, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    names = tuple(value) if isinstance(value, list | tuple | set) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ModelError(
            f"RowFolds: observed_blocks={as_given(value)} was given; names of blocks are needed"
        )
    return names


@attrs.frozen(eq=False)
class RowFolds(Splitter):
    """Folds of whole rows, for predictions of new rows: each row is held out once, in all blocks.

    The rows of a fold are not fitted. They are then treated as new rows: some of their entries are
    given, and the others are predicted by ``Fit.predict_rows`` and scored.

    Parameters
    ----------
    n_splits : int, default 5
        At least 2.
    groups : sequence (n_items), optional
        Labels of rows that belong together, such as visits of one patient: they are in the same
        fold. Folds have about equally many rows.
    order : sequence (n_items), optional
        A time for each row, numbers or ``numpy.datetime64``. Rows are cut into ``n_splits + 1``
        successive parts; fold k fits the parts 0, ..., k, and the rows of part k + 1 are new.
    observed_blocks : list of block names, optional
        The blocks that are known of new rows, such as features. All entries of the other blocks
        are scored. Without it the scored entries are drawn from all blocks.
    hidden : float, default 0.3
        Without ``observed_blocks``: the share of the entries of a row that are scored, from 0 to
        1. In a row with two entries or more, at least one is scored and at least one is given.

    Raises
    ------
    DataError
        In ``split``, if groups or times do not fit the data or the number of folds.
    ModelError
        If ``observed_blocks`` names a block that the model does not have, or all of its blocks.
        Also in ``cross_validate``, with the first fit, if the model has no rule for new rows.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import RelativeError, RowFolds
    >>> x = np.outer(np.arange(1.0, 13.0), [1.0, 2.0, 3.0, 4.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> chosen = mc.cross_validate(
    ...     model, {"x": x}, criterion=RelativeError("x"), weights=[20.0, 2.0], cv=RowFolds(3)
    ... )
    >>> chosen.best_weight
    2.0
    """

    new_rows: ClassVar[bool] = True
    groups: Any = attrs.field(default=None, kw_only=True)
    order: Any = attrs.field(default=None, kw_only=True)
    observed_blocks: tuple[str, ...] | None = attrs.field(
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

    def split(self, problem: Problem, random_state: RandomState = 0) -> Split:
        """The entries of each block that are fitted and those that are scored, fold by fold."""
        observed, rng = observed_entries(problem), generator(random_state)
        part = self.parts_of_rows(problem.n_items, rng)
        scored = self.scored_entries(problem, observed, rng)
        parts = {name: part[table.rows] for name, table in observed.items()}
        for fitted, new in folds_in_turn(parts, self.n_splits, later=self.order is not None):
            yield fitted, {name: new[name] & scored[name] for name in observed}

    def parts_of_rows(self, n_items: int, rng: np.random.Generator) -> IntArray:
        """Return the part of each row."""
        if self.order is not None:
            times = times_of(self.order, "RowFolds: order")
            check_length("order", times, n_items)
            return successive_parts(times, self.n_splits + 1, "RowFolds: order")
        what, labels = "rows", np.arange(n_items)
        if self.groups is not None:
            check_length("groups", np.asarray(self.groups), n_items)
            what, labels = "groups", RowGroups.of(self.groups, "RowFolds: groups").numbers
        sizes = np.bincount(labels)
        if sizes.size < self.n_splits:
            raise DataError(
                f"RowFolds: {self.n_splits} folds need as many {what}, and there are"
                f" {sizes.size}; give more {what}, or ask for fewer folds (n_splits=), at least 2"
            )
        if self.groups is None:
            return rng.permutation(n_items) % self.n_splits
        # The largest group first, into the part that has the fewest rows.
        drawn = rng.permutation(sizes.size)
        part, rows = np.zeros(sizes.size, dtype=np.intp), np.zeros(self.n_splits)
        for group in drawn[np.argsort(-sizes[drawn], kind="stable")]:
            part[group] = np.argmin(rows)
            rows[part[group]] += sizes[group]
        return part[labels]

    def scored_entries(
        self, problem: Problem, observed: Tables, rng: np.random.Generator
    ) -> dict[str, Mask]:
        """Return the observed entries that are scored where their row is new."""
        if self.observed_blocks is None:
            ordered = by_content(observed)
            rows = np.concatenate([table.rows for table, _ in ordered.values()])
            ends = np.cumsum([table.n_entries for table, _ in ordered.values()])[:-1]
            parts = np.split(drawn_share(rows, self.hidden, rng), ends)
            drawn = dict(zip(ordered, parts, strict=True))
            return {name: drawn[name][np.argsort(ordered[name][1])] for name in observed}
        for name in self.observed_blocks:
            problem.model.block(name)
        if set(self.observed_blocks) == set(observed):
            raise ModelError(
                f"RowFolds: observed_blocks={self.observed_blocks!r} are all blocks, so that none"
                " can be scored; leave one out, or drop observed_blocks"
            )
        return {
            name: np.full(table.n_entries, name not in self.observed_blocks)
            for name, table in observed.items()
        }


def check_length(what: str, values: Any, n_items: int) -> None:
    """Raise a ``DataError`` unless there is one value for each row."""
    if values.shape != (n_items,):
        shown, such = f" has the shape {values.shape}", ""
        if values.ndim == 0:
            shown, such = (
                f"={values.item()!r} was given",
                f", such as frame[{values.item()!r}]",
            )
        raise DataError(f"{what}{shown}; one value for each of the {n_items} rows is needed{such}")


@attrs.frozen(eq=False)
class TimeFolds(Splitter):
    """Folds that hold out the future: fits of earlier entries are scored on the next ones.

    The observed entries are cut by their times into ``n_splits + 1`` successive parts of about
    equal size; entries of one time are in the same part. Fold k fits the parts 0, ..., k, and part
    k + 1 is held out; later parts are not used. ``RowFolds(order=...)`` cuts whole rows by
    their times.

    Parameters
    ----------
    order : dict from block name to array
        The time of each entry of a block: an array of the block's shape, a column (n_items x 1)
        or a row (1 x columns), of numbers or ``numpy.datetime64``. Times of observed entries
        must not be missing. Blocks that are not in it are fitted whole in every fold.
    n_splits : int, default 5
        At least 2.

    Raises
    ------
    DataError
        In ``split``, if the times do not fit the data, or if there are too few different times.

    Examples
    --------
    A panel whose columns are years:

    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import TimeFolds
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> problem = mc.Problem.bind(model, {"x": np.arange(24.0).reshape(4, 6)})
    >>> years = TimeFolds({"x": [[2019, 2020, 2021, 2022, 2023, 2024]]}, n_splits=2)
    >>> for train, test in years.split(problem):
    ...     print(np.count_nonzero(train["x"]), np.count_nonzero(test["x"]))
    8 8
    16 8
    """

    order: Mapping[str, Any] = attrs.field()
    n_splits: int = attrs.field(default=5, validator=number_of_folds)

    @order.validator
    def check_order(self, attribute: "attrs.Attribute[Any]", value: object) -> None:
        """Raise a ``DataError`` where this is no dict of blocks."""
        if not isinstance(value, Mapping) or not value:
            raise DataError(
                f"TimeFolds: order of type {type(value).__name__} was given; a dict from block"
                " name to the time of each entry is needed, such as {'x': [[2019, 2020]]} for"
                " columns that are years; RowFolds(order=...) takes one time a row"
            )

    def split(self, problem: Problem, random_state: RandomState = 0) -> Split:
        """The entries of each block that are fitted and those that are scored, fold by fold.

        Nothing in them is random.
        """
        observed = observed_entries(problem)
        for name in self.order:
            problem.model.block(name)
        times = {
            name: times_at_entries(name, self.order[name], table)
            for name, table in observed.items()
            if name in self.order
        }
        if len({entry_times.dtype.kind for entry_times in times.values()}) > 1:
            raise DataError("TimeFolds: order has numbers and dates; give all of one kind")
        together = np.concatenate(list(times.values()))
        cut = np.cumsum([entry_times.size for entry_times in times.values()])[:-1]
        parts = np.split(successive_parts(together, self.n_splits + 1, "TimeFolds: order"), cut)
        always = {name: np.zeros(observed[name].n_entries, np.intp) for name in observed}
        parts_of = always | dict(zip(times, parts, strict=True))
        return folds_in_turn(parts_of, self.n_splits, later=True)


def times_at_entries(name: str, order: Any, table: Table) -> Any:
    """Return the time of each observed entry of a block."""
    times = times_of(order, f"TimeFolds: order of block {name!r}")
    try:
        return np.broadcast_to(times, table.shape)[table.rows, table.columns]
    except ValueError:
        raise DataError(
            f"TimeFolds: order of block {name!r} has the shape {times.shape}; the block is"
            f" {table.shape[0]} x {table.shape[1]}: give a time for each entry, a column"
            f" ({table.shape[0]} x 1) or a row (1 x {table.shape[1]})"
        ) from None


def times_of(order: Any, what: str) -> Any:
    """Return times as numbers or ``datetime64[ns]``, or raise a ``DataError``."""
    times = np.asarray(order)
    if times.dtype.kind == "M":
        return times.astype("datetime64[ns]")
    if times.dtype.kind not in "iuf":
        raise DataError(
            f"{what} of dtype {times.dtype} was given; numbers or numpy.datetime64 are needed, as"
            " pandas.to_datetime(column, utc=True).dt.tz_localize(None) makes of dates"
        )
    return times.astype(np.float64)


def successive_parts(times: Any, count: int, what: str) -> IntArray:
    """Cut times into ``count`` parts of about equal size, the earliest first.

    Raises
    ------
    DataError
        If a time is missing, or there are fewer distinct times than parts.
    """
    if np.isnat(times).any() if times.dtype.kind == "M" else not np.isfinite(times).all():
        raise DataError(f"{what}: a time is missing or infinite; each needs one")
    distinct, place, sizes = np.unique(times, return_inverse=True, return_counts=True)
    if distinct.size < count:
        raise DataError(
            f"{what}: {distinct.size} distinct times cannot be cut into {count} successive parts,"
            " one more than there are folds; ask for fewer folds"
        )
    # A part begins with the time that is nearest to its share, at least one time after the last
    # part, and such that each later part has a time.
    before = np.cumsum(sizes) - sizes
    part_of_time = np.zeros(distinct.size, dtype=np.intp)
    begin = 0
    for part in range(1, count):
        nearest = int(np.argmin(np.abs(before - part * times.size / count)))
        begin = min(max(nearest, begin + 1), distinct.size - count + part)
        part_of_time[begin:] = part
    return np.asarray(part_of_time[place.ravel()])


@attrs.frozen(eq=False)
class Fold:
    """The training data, in the form of the given data, and the held-out entries by block.

    With ``observed_rows`` the held-out entries are of new rows, and ``observed_rows`` has the
    entries that are given of these rows. ``digest`` is one of all entries of each kind, and
    ``kept`` the share of each block's entries that are training data.
    """

    data: Mapping[str, Any]
    held: Mapping[str, Held]
    digest: str
    kept: Mapping[str, float]
    observed_rows: Mapping[str, Any] | None = None

    def fitted_model(self, model: Model) -> Model:
        """Return the model whose rates of missing labels are those of the training data."""
        return attrs.evolve(
            model,
            blocks=[
                attrs.evolve(b, likelihood=b.likelihood.keeping_labels(self.kept[b.name]))
                for b in model.blocks
            ],
        )

    def answer(self, fit: Any) -> Any:
        """Return the fit that is scored: for new rows with the answer of ``Fit.predict_rows``."""
        if self.observed_rows is None:
            return fit
        if not isinstance(fit, Fit):
            raise ModelError(
                f"folds of rows: path gave {a_type(fit)}, which has no answer for new"
                " rows; a Fit is needed"
            )
        answer, problem, effects = (
            new_rows(fit, self.observed_rows),
            fit.problem,
            dict(fit.effects),
        )
        for name, row_effects in answer.row_effects.items():
            layout, effects[name] = problem.layout(name), effects[name].copy()
            if name in problem.origins:
                row_effects = row_effects - layout.row_effects(problem.origins[name])
            # Held-out rows are rows of the fitted table, too, but without an entry.
            new = ~problem.tables[name].rows_with_entries
            layout.row_effects(effects[name])[new] = row_effects[new]
        return attrs.evolve(fit, point=Point(answer.latent), effects=effects)


@suggests_options
def folds_of(
    cv: Splitter, problem: Problem, data: Mapping[str, Any], random_state: RandomState = 0
) -> tuple[Fold, ...]:
    """Return the folds of a problem's data, each a copy of the data, of new rows two copies.

    Raises
    ------
    DataError
        If a fold holds out all entries of a block, or none of any.
    """
    observed, folds = observed_entries(problem), list[Fold]()
    for k, (train, test) in enumerate(cv.split(problem, random_state)):
        for name, fitted in train.items():
            if not fitted.any():
                raise DataError(
                    f"block {name!r}: fold {k} holds out all of its observed entries, so that"
                    " none can be fitted; ask for other folds, or leave the block out"
                )
        if not any(held.any() for held in test.values()):
            raise DataError(f"fold {k} holds out not one entry; ask for fewer folds")
        held_out = HeldOut(observed, train, test)
        observed_rows = held_out.new_rows if cv.new_rows else None
        folds.append(
            Fold(
                held_out.remaining(data),
                {
                    name: attrs.evolve(held, of_new_rows=cv.new_rows)
                    for name, held in held_out.values.items()
                },
                digest_of([dict(train), dict(test), observed_rows]),
                {name: float(np.mean(train[name])) for name in observed},
                None if observed_rows is None else held_out.part_of(data, observed_rows),
            )
        )
    return tuple(folds)

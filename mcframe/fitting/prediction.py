"""Predictions of a fit, in the units and in the form of its data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from mcframe.contracts.arrays import (
    EXPOSED,
    INTERVALS,
    Array,
    InFormOfData,
    IntArray,
    Mask,
    Pairs,
    Positions,
    Shape,
    class_offers,
    labels_of,
    points_of,
)
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.validators import NotANumber, Options, floats_of
from mcframe.model import Block, Problem
from mcframe.model.forms import check_domain
from mcframe.model.labels import AxisLabels, columns_of_frame, frame_of, is_frame, some_in_words
from mcframe.model.table import Table
from mcframe.numerics.operators import LowRank
from mcframe.runtime.machine import MEMORY_SHARE, physical_gigabytes

# How many arrays of the size of a block a whole answer takes at its peak.
ARRAYS_PER_ANSWER = 3


@attrs.frozen(eq=False)
class Rows(ABC):
    """Rows of Z with the free effects of a fit, as predictions in the units of the data."""

    problem: Problem
    effects: Mapping[str, Array]
    latent: LowRank

    @abstractmethod
    def table(self, name: str) -> Table:
        """The data of a block in these rows, with the labels of an answer."""

    @abstractmethod
    def predictor(self, name: str) -> Array:
        """Z + effects + offset of a block (rows x its latent columns), in units of the data."""

    def likelihood(self, name: str) -> Likelihood:
        """The likelihood of a block with its fitted parameters."""
        self.problem.model.block(name)  # which names the blocks there are
        return self.problem.likelihood(name, self.effects)

    def mean(self, name: str) -> Array:
        """The mean response of a block (rows x its latent columns)."""
        return mean_response(self.likelihood(name), self.predictor(name))

    def predicted(self, name: str) -> InFormOfData:
        """The mean response of a block, in the form that its data came in."""
        mean = self.problem.model.block(name).limited(self.mean(name))
        return self.table(name).wrap(mean, self.likelihood(name).width)

    def imputed(self, name: str) -> InFormOfData:
        """The observed entries of a block, elsewhere what its likelihood fills with."""
        likelihood, z = self.likelihood(name), self.predictor(name)
        table = self.table(name).observed_entries()
        values = likelihood.filling(in_classes(likelihood, z))
        return table.filled_with(self.problem.model.block(name).limited(values))


def mean_response(likelihood: Likelihood, z: Array) -> Array:
    """The mean response at a linear predictor (rows x latent columns of the block)."""
    return likelihood.mean(in_classes(likelihood, z)).reshape(z.shape)


def in_classes(likelihood: Likelihood, z: Array) -> Array:
    """Predictors (rows x latent columns), of classes with one row for each column of data."""
    return z if likelihood.width == 1 else z.reshape(-1, likelihood.width)


@attrs.frozen(eq=False)
class FittedRows(Rows):
    """The rows that a model was fitted to."""

    def table(self, name: str) -> Table:
        """The data of a block."""
        return self.problem.tables[name]

    def predictor(self, name: str) -> Array:
        """Z + effects + offset of a block, dense; a ``DataError`` where memory is too small."""
        check_size(name, self.problem.n_items, self.problem.n_latent(name))
        problem = self.problem
        z = self.latent.columns(problem.columns(name)).dense()
        rows, columns = np.ogrid[: z.shape[0], : z.shape[1]]
        if name in self.effects:
            z = z + problem.layout(name).at(rows, columns, self.effects[name])
        return problem.transforms(name).invert(z, rows, columns)

    def places(self, name: str, rows: Positions, columns: Positions) -> tuple[IntArray, IntArray]:
        """Positions of entries of a block as integers, or an error."""
        self.problem.model.block(name)  # which names the blocks there are
        return checked_places(name, self.problem.tables[name].shape, rows, columns)

    def predictor_at(self, name: str, rows: Positions, columns: Positions) -> Array:
        """The linear predictor at some entries: one number each, or one a class."""
        problem, (rows, columns) = self.problem, self.places(name, rows, columns)
        z = problem.fitted_at(name, self.latent, self.effects, rows, columns)
        places = problem.latent_places(name, rows, columns)
        return problem.transforms(name).invert(z, *places)

    def mean_at(self, name: str, rows: Positions, columns: Positions) -> Array:
        """The mean response at some entries."""
        return self.likelihood(name).mean(self.predictor_at(name, rows, columns))

    def losses_at(
        self, name: str, rows: Positions, columns: Positions, values: ArrayLike
    ) -> Array:
        """The losses of values, as the data have them, at some entries; no weight counts."""
        problem, (rows, columns) = self.problem, self.places(name, rows, columns)
        block, fitted = problem.model.block(name), problem.tables[name]
        table = table_of_values(block, fitted, rows, columns, values)
        z, y = problem.predictors_and_targets(name, self.latent, self.effects, table)
        return self.likelihood(name).of_label.value(z, y)


def check_size(name: str, n_rows: int, width: int) -> None:
    """Raise a ``DataError`` where an answer for so many rows and columns of Z takes too much."""
    gigabytes = 8e-9 * ARRAYS_PER_ANSWER * n_rows * width
    memory = physical_gigabytes()
    if gigabytes > MEMORY_SHARE * memory:
        raise DataError(
            f"block {name!r}: all of its {n_rows} x {width} entries take about"
            f" {gigabytes:.2g} GB, more than {MEMORY_SHARE:.0%} of the machine's"
            f" {memory:.3g} GB; ask for some of them, as by fit.predict({name!r}, rows=rows,"
            f" columns=columns) or by label, fit.predict_pairs({name!r}, pairs)"
        )


def checked_places(
    name: str, shape: Shape, rows: Positions, columns: Positions
) -> tuple[IntArray, IntArray]:
    """Positions of entries of a block of this shape as integers, or a ``DataError``."""
    n_rows, n_columns = shape
    if rows is None or columns is None:
        present, missing = ("columns", "rows") if rows is None else ("rows", "columns")
        raise DataError(f"block {name!r}: {present} were given without {missing}; give both")
    row_places = checked_positions(name, "rows", rows, n_rows)
    column_places = checked_positions(name, "columns", columns, n_columns)
    if row_places.size != column_places.size:
        raise DataError(
            f"block {name!r}: {row_places.size} rows and {column_places.size} columns were"
            " given; a row and a column for each entry are needed"
        )
    return row_places, column_places


def checked_positions(name: str, what: str, data: Positions, count: int) -> IntArray:
    """Positions of rows or columns as integers from 0, or a ``DataError`` with the first wrong."""
    try:
        positions = np.asarray(data)
    except ValueError:  # lists among numbers
        positions = np.asarray(data, dtype=object)
    if positions.ndim != 1 or (positions.dtype.kind not in "iu" and positions.size):
        raise DataError(
            f"block {name!r}: {what} of shape {positions.shape} and dtype {positions.dtype} were"
            " given; a list of positions is needed, integers counted from 0. For labels give"
            f" pairs, as in fit.predict_pairs({name!r}, pairs) or posterior.sd({name!r},"
            " pairs=pairs)"
        )
    wrong = (positions < 0) | (positions >= count)
    if wrong.any():
        raise DataError(
            f"block {name!r}: {what} hold position {positions[wrong][0]}; they go from 0 to"
            f" {count - 1}"
        )
    return positions.astype(np.intp)


def table_of_values(
    block: Block, fitted: Table, rows: IntArray, columns: IntArray, numbers: ArrayLike
) -> Table:
    """Values at entries of a block in the units of its fitted table, or a ``DataError``.

    Of held-out entries whose values are not known exactly the two limits, of the dtype
    ``INTERVALS``.
    """
    if block.likelihood.takes_intervals and getattr(numbers, "dtype", None) == INTERVALS:
        intervals: Array = np.asarray(numbers)
        table = Table(
            fitted.shape,
            rows,
            columns,
            points_of(intervals),
            names=fitted.names,
            offset=fitted.offset_in_data,
            intervals=intervals,
        )
        return table.on_standard_of(fitted)
    has_propensities = getattr(numbers, "dtype", None) == EXPOSED
    labels = labels_of(np.asarray(numbers)) if has_propensities else numbers
    try:
        values = floats_of(labels)
    except (NotANumber, TypeError, ValueError):
        values = np.zeros((0, 0))
    if values.shape != rows.shape:
        raise DataError(
            f"block {block.name!r}: values={numbers!r} were given for {rows.size} entries; one"
            " number for each is needed"
        )
    absent = np.flatnonzero(np.isnan(values))
    if absent.size:
        raise DataError(
            f"block {block.name!r}: values[{absent[0]}] is NaN; leave out entries that are not"
            " known"
        )
    names, offset = fitted.names, fitted.offset_in_data
    table = Table(fitted.shape, rows, columns, values, names=names, offset=offset)
    check_domain(block, table)
    return table.on_standard_of(fitted)


# The columns of a ranking after its labels.
NUMBER_COLUMNS = ("predicted", "sd")
# How many unknown labels are compared for a message.
MAX_COMPARED_LABELS = 1_000


@attrs.frozen(eq=False)
class BlockLabels:
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
    def of(cls, block: str, table: Table) -> "BlockLabels":
        """Return the axes of a block's table, with names that a frame can have side by side."""
        rows = AxisLabels.of(table.index, table.shape[0], "row")
        columns = AxisLabels.of(table.names, table.shape[1], "column")
        if len({rows.name, columns.name, *NUMBER_COLUMNS}) < 4:
            rows, columns = attrs.evolve(rows, name="row"), attrs.evolve(columns, name="column")
        return cls(block, rows, columns)

    def places_of_pairs(self, pairs: Pairs, unknown: str) -> tuple[IntArray, IntArray]:
        """Return the places of rows and columns by pairs of labels, -1 where one is unknown.

        Raises
        ------
        ModelError
            Where ``unknown`` is neither "refuse" nor "nan".
        DataError
            If it is "refuse" and a label is unknown, or these are no pairs.
        """
        Options.unknown(unknown)
        places = []
        for labels, side_labels in zip(
            (self.rows, self.columns), self.sides_of(pairs), strict=True
        ):
            places.append(labels.find(side_labels))
            if unknown == "refuse":
                self.check_known(labels, side_labels, places[-1])
        return places[0], places[1]

    def sides_of(self, pairs: Any) -> list[Any]:
        """Return the row labels and the column labels of pairs, of a frame by their names."""
        if is_frame(pairs):
            names = (self.rows.name, self.columns.name)
            return columns_of_frame(pairs, names, f"block {self.block!r}, pairs")[1]
        try:
            listed = pairs.tolist() if isinstance(pairs, np.ndarray) else list(pairs)
        except TypeError:
            listed = [pairs]
        for place, pair in enumerate(listed):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise DataError(
                    f"block {self.block!r}, pairs: {pair!r}, at place {place}, is no pair of"
                    f" {self.rows.name} and {self.columns.name}; give a list of such pairs, or a"
                    " frame with both columns"
                )
        return [[pair[side] for pair in listed] for side in (0, 1)]

    def places_of_rows(self, row: Any) -> IntArray:
        """Return the places of rows by one label, or by a list, an array or a Series of them.

        Raises
        ------
        DataError
            If one is unknown.
        """
        several = isinstance(row, list | np.ndarray) or class_offers(row, "to_list")
        row_labels: list[Any] = list(row) if several else [row]
        at = self.rows.find(row_labels)
        self.check_known(self.rows, row_labels, at)
        return at

    def check_known(self, labels: AxisLabels, requested: Sequence[Any], at: IntArray) -> None:
        """Raise a ``DataError`` that names labels which the fit does not know."""
        unknown = np.flatnonzero(at < 0)[:MAX_COMPARED_LABELS]
        if unknown.size:
            names = list(dict.fromkeys(requested[int(place)] for place in unknown))
            remedy = '; take unknown="nan" for NaN there'
            if labels is self.rows:
                remedy = "; give new rows to predict_rows, top_rows or posterior.condition"
            others = [other for other in of_another_type(names[0]) if labels.find([other])[0] >= 0]
            if others:
                remedy = f"; it has {others[0]!r}, of another type"
            raise DataError(
                f"block {self.block!r}: the fit has no {labels.name} {some_in_words(names)}"
                f"{remedy}"
            )

    def best(
        self,
        table: Table,
        predict: Callable[[IntArray, IntArray], Array],
        row: object,
        n: int,
        observed: bool,
    ) -> tuple[IntArray, IntArray, Array]:
        """Return the n best columns of rows by ``predict(rows, columns)``, best first."""

        def predictions(rows: IntArray) -> Array:
            columns = np.arange(table.shape[1])
            cells = np.repeat(rows, columns.size), np.tile(columns, rows.size)
            return np.asarray(predict(*cells)).reshape(rows.size, columns.size)

        return best_columns(table, self.places_of_rows(row), predictions, n, observed)

    def as_list(self, rows: IntArray, columns: IntArray, *numbers: Array) -> InFormOfData:
        """Return predictions, and their deviations or not, with the labels of their entries.

        In a frame of the library of the data, whose columns have the names of both axes,
        "predicted" and "sd"; where the data were no frames, a list of tuples.
        """
        labels = self.rows.take(rows), self.columns.take(columns)
        if self.rows.library is None:
            return list(zip(*labels, *(array.tolist() for array in numbers), strict=True))
        names = (self.rows.name, self.columns.name, *NUMBER_COLUMNS)[: 2 + len(numbers)]
        return frame_of(dict(zip(names, (*labels, *numbers), strict=True)), self.rows.library)


@attrs.frozen(eq=False)
class Cells:
    """The cells of a block that an answer is asked for: all, at positions, or at pairs of labels.

    Attributes
    ----------
    table : Table
    rows, columns : arrays of integers (n,)
        The cells that are answered.
    shape : tuple of int
        Of an answer with a number for each: that of the table if all are asked for.
    width : int
        How many numbers of each cell stand side by side where all are asked for.
    answered : array of bool, or None
        Which of the pairs have known labels; None if all cells are answered.
    """

    table: Table
    rows: IntArray
    columns: IntArray
    shape: tuple[int, ...]
    width: int = 1
    answered: Mask | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        tables: Mapping[str, Table],
        block: str,
        rows: Positions,
        columns: Positions,
        pairs: Pairs = None,
        unknown: str = "refuse",
    ) -> "Cells":
        """Return the cells of a block by positions or by pairs; without any of these all cells.

        Raises
        ------
        DataError
            If a position or a label is unknown, or not all cells fit into memory.
        ModelError
            If both positions and pairs are given, or ``unknown`` is unknown.
        """
        problem.model.block(block)  # which names the blocks there are
        table = tables[block]
        if pairs is not None:
            if rows is not None or columns is not None:
                raise ModelError(
                    f"block {block!r}: pairs were given together with rows or columns; give pairs"
                    " of labels, or positions"
                )
            return cls.of_pairs(table, block, pairs, unknown)
        if rows is not None or columns is not None:
            row, column = checked_places(block, table.shape, rows, columns)
            return cls(table, row, column, row.shape)
        check_size(block, table.shape[0], problem.n_latent(block))
        row, column = (places.ravel() for places in np.indices(table.shape))
        return cls(table, row, column, table.shape, problem.model.block(block).likelihood.width)

    @classmethod
    def of_pairs(cls, table: Table, block: str, pairs: Pairs, unknown: str) -> "Cells":
        """Return the cells at pairs of labels; with ``unknown="nan"`` those that are known."""
        rows, columns = BlockLabels.of(block, table).places_of_pairs(pairs, unknown)
        answered = (rows >= 0) & (columns >= 0)
        return cls(table, rows[answered], columns[answered], rows.shape, answered=answered)

    def array(self, numbers: Array) -> Array:
        """Return an answer (n, ...) for each cell in the shape that was asked for, as an array.

        It is NaN at pairs with an unknown label.
        """
        if self.answered is None:
            return numbers.reshape(*self.shape, *numbers.shape[1:])
        if self.answered.all():
            return numbers
        filled = np.full((self.answered.size, *numbers.shape[1:]), np.nan)
        filled[self.answered] = numbers
        return filled

    def form(self, numbers: Array) -> InFormOfData:
        """Return an answer for each cell: of all cells in the form of the data, else an array."""
        if len(self.shape) == 1:
            return self.array(numbers)
        n_rows, n_columns = self.shape
        return self.table.wrap(numbers.reshape(n_rows, n_columns * self.width), self.width)


def check_ranked(block: Block) -> None:
    """Raise a ``ModelError`` where a block has classes, of which none is more than another."""
    if block.likelihood.width > 1:
        raise ModelError(
            f"block {block.name!r}: {type(block.likelihood).__name__} has classes, of which none"
            " is more than another; rank by probabilities, as of"
            f" fit.predict_pairs({block.name!r}, pairs)"
        )


def best_columns(
    table: Table, rows: IntArray, predictions: Callable[[IntArray], Array], n: int, observed: bool
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
    most = Options.n(n)
    best = []
    step = max(1, BATCH_NUMBERS // table.shape[1])
    for start in range(0, rows.size, step):
        part = rows[start : start + step]
        for row, numbers in zip(part, predictions(part), strict=True):
            left = np.arange(numbers.size) if observed else table.unobserved_columns(row)
            chosen = left[largest(numbers[left], most)]
            best.append((np.full(chosen.size, row), chosen, numbers[chosen]))
    if not best:
        nowhere = np.zeros(0, dtype=np.intp)
        return nowhere, nowhere, np.zeros(0)
    at_rows, at_columns, predicted = (np.concatenate(parts) for parts in zip(*best, strict=True))
    return at_rows, at_columns, predicted


def largest(numbers: Array, n: int) -> IntArray:
    """Return where the n largest numbers are, in descending order, equal ones in theirs."""
    if numbers.size > n:
        least = np.partition(numbers, numbers.size - n)[numbers.size - n]
        candidates = np.flatnonzero(numbers >= least)
    else:
        candidates = np.arange(numbers.size)
    return candidates[np.argsort(-numbers[candidates], kind="stable")[:n]]


def of_another_type(label: object) -> list[str | int]:
    """The labels that look like this one and are of another type: text for a number, or back."""
    if isinstance(label, str):
        return [int(label)] if label.isdecimal() and len(label) < 20 else []
    return [str(label)]

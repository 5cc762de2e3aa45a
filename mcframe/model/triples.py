"""Tables given as triples: a row, a column and the value there, by labels of any kind."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.data_forms import is_labelled
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import (
    NotANumber,
    a_type,
    counted,
    exact,
    one_of,
    reads_as_number,
    suggests_options,
)
from mcframe.contracts.wording import wording
from mcframe.model.labels import (
    AxisLabels,
    code_labels,
    columns_of_frame,
    in_words,
    is_series,
    numbers_of_column,
    series_of,
    some_in_words,
)
from mcframe.model.model import Observations
from mcframe.model.table import Table

WAYS_WITH_DUPLICATES = ("refuse", "mean", "last", "sum")
# What ``DataError``s begin with.
FUNCTION = "from_triples"


@attrs.frozen(eq=False, repr=False)
class Triples:
    """A sparse table with labels, made by ``from_triples``: data of a block of ``mc.fit``.

    Attributes
    ----------
    rows, columns : arrays of integers (n_entries,)
        The positions of the labels of each value, row after row, each cell once.
    values : array (n_entries,)
        Only observed values.
    index, names : AxisLabels
        The labels of the rows and of the columns.
    """

    rows: IntArray
    columns: IntArray
    values: Array
    index: AxisLabels
    names: AxisLabels

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the table."""
        return len(self.index), len(self.names)

    @property
    def row_labels(self) -> tuple[Any, ...]:
        """The label of each row, in the order of answers."""
        return self.index.values

    @property
    def column_labels(self) -> tuple[Any, ...]:
        """The label of each column, in the order of answers."""
        return self.names.values

    @property
    def cells(self) -> IntArray:
        """The place of each value in the table read row after row, in ascending order."""
        return self.rows.astype(np.int64) * len(self.names) + self.columns

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        return (
            f"Triples: {len(self)} values in a table of {n_rows} x {n_columns}"
            f" ({len(self) / (n_rows * n_columns):.1%}),"
            f" rows by {self.index.name!r}, columns by {self.names.name!r}"
        )


@suggests_options
def from_triples(
    frame: Any = None,
    *,
    row: Any,
    column: Any,
    value: Any,
    rows: Any = None,
    columns: Any = None,
    duplicates: str = "refuse",
) -> Triples:
    """Read a list of (row, column, value), one for each entry of a table, as data of a block.

    The table is never formed: each entry has its value and the positions of its row and column.
    Predictions are asked for by label: ``Fit.predict_pairs``, ``Fit.top``.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, or table of pyarrow, optional
        One entry in each row. Without it ``row``, ``column`` and ``value`` are sequences.
    row, column, value : name of a column, or sequence
        The labels of rows and of columns: text, numbers, times, tuples, anything that can be a key
        of a dict. Values are numbers; an entry whose value is missing is not observed, but its
        labels are in the table.
    rows, columns : sequence of labels, optional
        All rows or columns of the table, in order; an entry elsewhere raises an error. Use it for
        rows that other blocks have too: ``rows=features.index``. The default is the labels of the
        list, by their first appearance.
    duplicates : "refuse", "mean", "last" or "sum", default "refuse"
        The value of a pair that occurs more than once; "refuse" raises an error.

    Returns
    -------
    Triples
        With ``row_labels`` and ``column_labels``.

    Raises
    ------
    DataError
        If there is no triple, a label is missing, a pair is duplicate, or a value is not a finite
        number. The message names pair, value and remedy.
    ModelError
        If ``duplicates`` is none of these.

    Examples
    --------
    >>> import mcframe as mc
    >>> stars = mc.from_triples(
    ...     row=["ann", "ann", "bob", "bob", "eve"],
    ...     column=["Up", "Alien", "Up", "Jaws", "Alien"],
    ...     value=[5, 4, 4, 2, 5],
    ... )
    >>> stars
    Triples: 5 values in a table of 3 x 3 (55.6%), rows by 'row', columns by 'column'
    >>> model = mc.Model([mc.Block("stars", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)])
    >>> fit = mc.fit(model, {"stars": stars})
    >>> fit.predict_pairs("stars", [("eve", "Up")]).round(1)
    array([4.1])
    """
    one_of(duplicates, f"{FUNCTION}: duplicates", WAYS_WITH_DUPLICATES)
    library, names, (of_rows, of_columns, of_values) = three_columns(frame, (row, column, value))
    index, row_codes = coded(of_rows, names[0], library, rows)
    labels, column_codes = coded(of_columns, names[1], library, columns)
    empty = Triples(row_codes, column_codes, np.empty(0), index, labels)
    try:
        values = numbers_of_column(of_values)
    except NotANumber as error:
        raise wrong_value(empty, error.position[0], error.value, "is not a number") from None
    infinite = np.isinf(values)
    if infinite.any():
        place = int(np.argmax(infinite))
        raise wrong_value(empty, place, float(values[place]), "is not finite")
    return sorted_by_cells(attrs.evolve(empty, values=values), duplicates)


def three_columns(
    frame: Any, columns: Sequence[Any]
) -> tuple[str | None, tuple[Any, Any], Sequence[Any]]:
    """Return the library of the triples, what their labels are called, and the three columns."""
    if frame is not None:
        library, three = columns_of_frame(frame, columns, FUNCTION)
        if len(set(columns)) < len(columns):
            raise DataError(
                f"{FUNCTION}: row={columns[0]!r}, column={columns[1]!r}, value={columns[2]!r} were"
                " given; name three different columns"
            )
        names = (columns[0], columns[1])
    else:
        library, names = None, ("row", "column")
        three = [sequence(*pair) for pair in zip(("row", "column", "value"), columns, strict=True)]
        indexes = [series.index for series in three if is_labelled(series)]
        if any(not index.equals(indexes[0]) for index in indexes):
            raise DataError(
                f"{FUNCTION}: row, column and value are Series with different indexes; give"
                " columns of one frame, or arrays (series.to_numpy()) if they belong together by"
                " position"
            )
    lengths = [len(column) for column in three]
    if len(set(lengths)) > 1:
        raise DataError(
            f"{FUNCTION}: row, column and value have {lengths[0]}, {lengths[1]} and {lengths[2]}"
            " elements; one of each is needed for each triple"
        )
    if not lengths[0]:
        raise DataError(f"{FUNCTION}: not one triple was given; at least one is needed")
    return library, names, three


def sequence(what: str, data: Any) -> Any:
    """Return a sequence of labels or values as one that has a length and can be cut."""
    if isinstance(data, str | bytes):
        raise DataError(
            f"{FUNCTION}: {what}={data!r} is the name of a column, and no frame was given; give"
            " from_triples(frame, ...), or a sequence"
        )
    if isinstance(data, np.ndarray) and data.ndim != 1:
        raise DataError(
            f"{FUNCTION}: {what} is an array of shape {data.shape}; one dimension is needed"
        )
    series = series_of(data)
    if is_series(series) or isinstance(series, np.ndarray | list | tuple | range):
        return series
    try:
        return list(series)
    except TypeError:
        raise DataError(
            f"{FUNCTION}: {what} is {a_type(data)}; a sequence is needed, one element for each"
            " triple"
        ) from None


def coded(
    column: Any, name: Any, library: str | None, axis_labels: Any
) -> tuple[AxisLabels, IntArray]:
    """Return the labels of an axis, and the place of the label of each triple among them."""
    if axis_labels is None:
        places, codes = code_labels(column, name)
        return AxisLabels(tuple(places), name, library), codes
    all_of_them, label_codes = code_labels(sequence(f"{name} labels", axis_labels), name)
    if len(all_of_them) < label_codes.size:
        twice = int(np.argmax(np.bincount(label_codes) > 1))
        raise DataError(
            f"{FUNCTION}: {name} {in_words(list(all_of_them)[twice])} stands twice among the"
            " labels that were given; give each once"
        )
    if not all_of_them:
        raise DataError(f"{FUNCTION}: not one {name} label was given; at least one is needed")
    labels = AxisLabels(tuple(all_of_them), name, library)
    codes = labels.find(column)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        others = f" and in {unknown.size - 1} more" if unknown.size > 1 else ""
        raise DataError(
            f"{FUNCTION}: {name} {in_words(column[int(unknown[0])])} in triple {unknown[0]}"
            f" (counted from 0){others} is not among the labels that were given; add it to them,"
            " or leave such triples out"
        )
    return labels, codes


def wrong_value(triples: Triples, place: int, value: object, wrong: str) -> DataError:
    """Return the error about a value by the pair that it stands at."""
    row = in_words(triples.index[triples.rows[place]])
    column = in_words(triples.names[triples.columns[place]])
    is_number = isinstance(value, str | bytes) and reads_as_number(value)
    remedy = ". Its text reads as a number: convert the values by pandas.to_numeric" * is_number
    return DataError(
        f"{FUNCTION}: value {value!r} at {triples.index.name} {row}, {triples.names.name} {column}"
        f" {wrong}; finite numbers are needed, NaN where a value is missing{remedy}"
    )


def sorted_by_cells(triples: Triples, duplicates: str = "refuse") -> Triples:
    """Return the observed triples row after row, and one for each cell."""
    rows, columns, values = triples.rows, triples.columns, triples.values
    missing = np.isnan(values)
    if missing.any():
        rows, columns, values = rows[~missing], columns[~missing], values[~missing]
    n_columns = len(triples.names)
    cells = rows.astype(np.int64) * n_columns + columns
    order = np.argsort(cells)
    fresh = np.diff(cells[order], prepend=-1) != 0
    if not fresh.all():  # then it matters which one was given last; slower by far
        order = np.argsort(cells, kind="stable")
    cells, values = cells[order], values[order]
    if not fresh.all():
        if duplicates == "refuse":
            raise repeated(triples, cells, values, fresh)
        values = merged(values, np.flatnonzero(fresh), duplicates)
        cells = cells[fresh]
    at_rows, at_columns = np.divmod(cells, n_columns)
    return attrs.evolve(
        triples,
        rows=at_rows.astype(np.intp, copy=False),
        columns=at_columns.astype(np.intp, copy=False),
        values=values,
    )


def merged(values: Array, starts: IntArray, way: str) -> Array:
    """Return one value for each run of values, which begins at ``starts``, in their order."""
    ends = np.append(starts[1:], values.size)
    if way == "last":
        return values[ends - 1]
    with np.errstate(over="ignore", invalid="ignore"):
        sums: Array = np.add.reduceat(values, starts)
    if not np.all(np.isfinite(sums)):
        raise DataError(f"{FUNCTION}: sums of the values of one pair overflow; rescale the values")
    return sums if way == "sum" else sums / (ends - starts)


def repeated(triples: Triples, cells: Any, values: Array, fresh: Mask) -> DataError:
    """Return the error about pairs that stand more than once."""
    second = int(np.argmin(fresh))
    row, column = (int(place) for place in divmod(cells[second], len(triples.names)))
    count = int(np.unique(cells[~fresh]).size)
    others = f" ({counted(count - 1, 'more such pair')})" if count > 1 else ""
    option = wording().either(
        python='duplicates="mean", "last" or "sum"', command="--duplicates mean, last or sum"
    )
    return DataError(
        f"{FUNCTION}: {triples.index.name} {in_words(triples.index[row])} and {triples.names.name}"
        f" {in_words(triples.names[column])} stand together more than once, with the values"
        f" {exact(values[second - 1])} and {exact(values[second])}{others}; leave one of them, or"
        f" choose their common value by {option}"
    )


def in_columns_of(fitted: Table, name: str, data: Any) -> Any:
    """Return data of new rows in the columns of a fit, where they are triples.

    Columns that the triples do not have are not observed.

    Raises
    ------
    DataError
        If they have a column that the fit has not.
    """
    if isinstance(data, Observations):
        return attrs.evolve(data, values=in_columns_of(fitted, name, data.values))
    if not isinstance(data, Triples):
        columns = getattr(data, "column_names", getattr(data, "columns", ()))  # of a frame
        columns, fitted_names = list(columns), fitted.names
        if (
            columns
            and isinstance(fitted_names, AxisLabels)
            and np.all(fitted_names.find(columns) < 0)
        ):
            raise DataError(
                f"block {name!r}: the new rows are a frame without a column of the fit, whose data"
                f" are triples; give mc.from_triples(frame, row={fitted.index.name!r},"
                f" column={fitted_names.name!r}, value=...)"
            )
        return data
    names = AxisLabels.of(fitted.names, fitted.shape[1], data.names.name)
    places = places_among(data.names, names, f"block {name!r}: the new rows", "fit has")
    return sorted_by_cells(attrs.evolve(data, columns=places[data.columns], names=names))


def in_cells_of(table: Table, triples: Triples, what: str, of_all: bool = True) -> Triples:
    """Return numbers of the entries of a table, such as weights, by its rows and columns.

    Raises
    ------
    DataError
        If they have a row or a column that the table has not, or, with ``of_all``, none for one of
        its entries.
    """
    index = AxisLabels.of(table.index, table.shape[0], triples.index.name)
    names = AxisLabels.of(table.names, table.shape[1], triples.names.name)
    rows = places_among(triples.index, index, what, "values have")[triples.rows]
    columns = places_among(triples.names, names, what, "values have")[triples.columns]
    aligned = sorted_by_cells(Triples(rows, columns, triples.values, index, names))
    without = np.flatnonzero(~np.isin(table.cells, aligned.cells, assume_unique=True))
    if of_all and without.size:
        row, column = index[table.rows[without[0]]], names[table.columns[without[0]]]
        others = f" and at {counted(without.size - 1, 'more pair')}" if without.size > 1 else ""
        raise DataError(
            f"{what} have no number at {index.name} {in_words(row)}, {names.name}"
            f" {in_words(column)}{others}; give one for each value"
        )
    return aligned


def places_among(labels: AxisLabels, others: AxisLabels, what: str, have: str) -> IntArray:
    """Return the place of each label among other ones, or raise a ``DataError``."""
    places = others.find(labels.values)
    unknown = labels.take(np.flatnonzero(places < 0))
    if unknown:
        raise DataError(
            f"{what} have {others.name} {some_in_words(unknown)}, which the {have} not; leave such"
            " triples out"
        )
    return places

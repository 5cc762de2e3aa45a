"""One block's data: read from what users have, checked, and given back in the same form."""

import sys
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import NotANumber, floats_of, is_missing, plain
from mcframe.model.block import Block
from mcframe.model.frames import is_pandas, is_pandas_array, numbers_of
from mcframe.model.observations import Observations
from mcframe.model.refusals import not_a_number
from mcframe.numerics.memory import MEMORY_SHARE, physical_gigabytes

__all__ = ["Table", "check_observed", "read_table", "same_rows"]

# How many offending entries a message shows.
SHOWN = 3
# Sums of squares of values up to this stay finite.
LARGEST = 1e140
# Formats of sparse matrices that store whole blocks or diagonals, and their zeros with them.
UNCLEAR_FORMATS = ("bsr", "dia")
# From so many cells on the unlabeled ones of a block stay unwritten where they can.
WRITTEN_OUT = 20_000_000
# What reading and compiling hold of every cell that is written out, at their peak: indices,
# values, and both orders of a pattern.
BYTES_PER_CELL = 80


@attrs.frozen(eq=False)
class Table:
    """The entries of one block that carry loss, row-major, and the labels of its rows and columns.

    ``rows``, ``columns`` and ``values`` have one element for each of them: the observed
    entries, and for a risk the unlabeled ones too, whose value is NaN. ``weights`` has one
    element for each, or is None where all are 1; ``offset`` has one number for each row and
    latent column (K for each column of K classes), or is None. ``index`` and ``names`` are the
    labels of a DataFrame, None for arrays and sparse matrices. With ``unwritten`` all other cells
    carry loss too, as unlabeled, but are not among the entries: there are too many of them.
    """

    shape: tuple[int, int]
    rows: IntArray
    columns: IntArray
    values: Array
    index: Any = None
    names: Any = None
    weights: Array | None = None
    offset: Array | None = None
    unwritten: bool = False

    @property
    def n_cells(self) -> int:
        """The number of entries, observed or not."""
        return self.shape[0] * self.shape[1]

    @property
    def n_entries(self) -> int:
        """The number of entries that carry loss."""
        return int(self.values.size)

    @property
    def n_observed(self) -> int:
        """The number of observed entries."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    @property
    def total_weight(self) -> float:
        """The sum of the weights: the number of entries where all are 1."""
        if self.unwritten:
            return float(self.n_cells)
        return float(self.n_entries if self.weights is None else np.sum(self.weights))

    @property
    def offsets(self) -> Array | None:
        """The offset of each number of z: (n_entries,), of K classes (n_entries x K)."""
        return self.offset_at(self.rows, self.columns)

    def offset_at(self, rows: IntArray, columns: IntArray) -> Array | None:
        """The offset of each number of z at some entries: one each, or one a class."""
        if self.offset is None:
            return None
        by_class = self.offset.reshape(*self.shape, -1)[rows, columns]
        return by_class if by_class.shape[1] > 1 else by_class[:, 0]

    def observed(self) -> "Table":
        """The observed entries alone."""
        kept = ~np.isnan(self.values)
        return self if kept.all() else self.restricted(kept)

    def restricted(self, kept: Mask) -> "Table":
        """Some of the entries."""
        return attrs.evolve(
            self,
            rows=self.rows[kept],
            columns=self.columns[kept],
            values=self.values[kept],
            weights=None if self.weights is None else self.weights[kept],
        )

    def completed(self) -> "Table":
        """Every entry of the block, the missing ones with the value NaN."""
        rows, columns = np.divmod(np.arange(self.n_cells), self.shape[1])
        values = np.full(self.shape, np.nan)
        values[self.rows, self.columns] = self.values
        written = values.ravel()
        return attrs.evolve(self, rows=rows, columns=columns, values=written, unwritten=False)

    def column_label(self, column: int) -> str:
        """How messages call a column: by its name where it has one."""
        return str(column) if self.names is None else repr(plain(self.names[column]))

    def wrap(self, entries: Array, parts: int = 1) -> Any:
        """A dense answer in the form the data came in: a DataFrame if they were one.

        With ``parts`` > 1 each column of the data has so many of the answer, labelled
        (name, 0), (name, 1), ...
        """
        if self.index is None:
            return entries
        pandas = sys.modules["pandas"]
        names = range(self.shape[1]) if self.names is None else self.names
        if parts > 1:
            names = pandas.MultiIndex.from_product([names, range(parts)])
        return pandas.DataFrame(entries, index=self.index, columns=names)

    def wrap_column(self, entries: Array) -> Any:
        """One number a row in the form the data came in: a Series if the rows had labels."""
        if self.index is None:
            return entries
        return sys.modules["pandas"].Series(entries, index=self.index)

    def wrap_row(self, entries: Array) -> Any:
        """One number a column in the form the data came in: a Series if they had names."""
        if self.names is None:
            return entries
        return sys.modules["pandas"].Series(entries, index=self.names)


def read_table(block: Block, given: Any, unwritten: bool = False) -> Table:
    """Read and check one block's data: an array, a DataFrame or a scipy.sparse matrix.

    NaN is missing; in a sparse matrix what is not stored is missing and a stored zero is an
    observed zero. A one-dimensional array or a Series is one column. There may be no observed
    entry at all, as in new rows. With ``unwritten`` the unlabeled cells of a large table are not
    written out: its memory is that of the labels.
    """
    if isinstance(given, Observations):
        return read_observations(block, given)
    table = read_values(block, given)
    check_values(block, table)
    if not block.likelihood.reads_unlabeled:
        return table
    if unwritten and table.n_cells > WRITTEN_OUT:
        return attrs.evolve(table, unwritten=True)
    return written_out(block, table)


def written_out(block: Block, table: Table) -> Table:
    """The table with every cell, or a ``DataError`` where they do not fit into memory."""
    gigabytes, memory = BYTES_PER_CELL * table.n_cells / 1e9, physical_gigabytes()
    if gigabytes > MEMORY_SHARE * memory:
        raise DataError(
            f"block {block.name!r}: {type(block.likelihood).__name__} reads the unlabeled entries"
            f" too, and all {table.n_cells} cells take about {gigabytes:.3g} GB, more than"
            f" {MEMORY_SHARE:.0%} of the machine's {memory:.3g} GB. They stay unwritten with the"
            " squared and the logistic loss, mc.Gaussian() and mc.Bernoulli(), where the"
            " block has neither bias nor row_effects, its data no weights and no offset, and the"
            " model a NuclearNorm as its only term; or take pn=1, which reads labels alone"
        )
    return table.completed()


def read_values(block: Block, given: Any) -> Table:
    """The observed entries as they are given, if any; their values are not checked."""
    if sp.issparse(given):
        table = from_sparse(block, given)
    elif is_pandas(given):
        table = from_pandas(block, given)
    elif is_pandas_array(given):
        table = from_dense(numbers_of(block, sys.modules["pandas"].Series(given)))
    else:
        table = from_array(block, given)
    if 0 in table.shape:
        raise DataError(
            f"block {block.name!r}: data of shape {table.shape} were given; a matrix of at least"
            " one row (item) and one column is needed"
        )
    return table


def read_observations(block: Block, given: Observations) -> Table:
    """Values with weights and offsets; entries of weight 0 are left out."""
    table = read_values(block, given.values)
    check_values(block, table)
    if block.likelihood.reads_unlabeled:
        table = written_out(block, table)
    table = attrs.evolve(table, offset=offset_of(block, given, table))
    if given.weights is None:
        return table
    weights = spread(block, given.weights, "weights", table, table.rows, table.columns)
    refuse(block, "weight", table, weights, "0 or above; 0 leaves it out", weights < 0.0)
    return attrs.evolve(table, weights=weights).restricted(weights > 0.0)


def offset_of(block: Block, given: Observations, table: Table) -> Array | None:
    """The offset that is given, or the logarithm of the exposure, for each latent column."""
    if given.exposure is not None:
        exposure = spread(block, given.exposure, "exposure", table)
        refuse(block, "exposure", table, exposure, "above 0", exposure <= 0.0)
        offset = np.log(exposure)
    elif given.offset is not None:
        offset = spread(block, given.offset, "offset", table)
    else:
        return None
    return np.repeat(offset, block.likelihood.width, axis=1)


def spread(
    block: Block,
    given: Any,
    what: str,
    table: Table,
    rows: IntArray | None = None,
    columns: IntArray | None = None,
) -> Array:
    """Weights or offsets over the block's shape, or at some entries; all finite."""
    if sp.issparse(given):
        row_major(block, sp.coo_array(given), f"{what} of ")  # none is stored twice
        given = given.toarray()
    aligned(block, given, what, table)
    dense = np.broadcast_to(spreadable(block, given, what, table.shape), table.shape)
    chosen = dense if rows is None else dense[rows, columns]
    refuse(block, what.removesuffix("s"), table, chosen, "finite", ~np.isfinite(chosen))
    return np.array(chosen)


def spreadable(block: Block, given: Any, what: str, shape: tuple[int, int]) -> Array:
    """Weights or offsets as numbers that numpy spreads over a shape, or a ``DataError``.

    Numpy would read a vector as a row. That of a square block may as well be a column, and is
    refused.
    """
    try:
        numbers = floats_of(given)
    except NotANumber as error:
        found = f"with value {error.value!r}" if error.position else repr(given)
    except (TypeError, ValueError):
        found = "with rows of different lengths"
    else:
        if numbers.shape == (shape[0],) == (shape[1],) != (1,):
            raise DataError(
                f"block {block.name!r}: {what} of shape {numbers.shape} were given for"
                f" {shape[0]} items and as many columns; with w = numpy.asarray({what}) write"
                " w[:, None] for one number for each item, or w[None, :] for one for each column"
            )
        if numbers.ndim == 1 and shape[1] == 1:
            return numbers[:, np.newaxis]  # as the values of one column may be
        if fits(numbers.shape, shape):
            return numbers
        found = f"of shape {numbers.shape}"
    raise DataError(
        f"block {block.name!r}: {what} {found} were given; numbers of"
        f" shape {shape}, ({shape[0]}, 1), (1, {shape[1]}) or one number are needed"
    )


def fits(shape: tuple[int, ...], wanted: tuple[int, int]) -> bool:
    """Whether numpy spreads an array of one shape over another."""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def aligned(block: Block, given: Any, what: str, table: Table) -> None:
    """A ``DataError`` where labels of rows or columns are others than those of the values."""
    if not is_pandas(given) or table.index is None:
        return
    same = given.index.equals(table.index)
    if given.ndim == 2 and same:
        same = given.columns.equals(table.names)
    if not same:
        raise DataError(
            f"block {block.name!r}: {what} have other row or column labels than the values;"
            " align them first, for example with reindex_like(values)"
        )


def refuse(block: Block, what: str, table: Table, values: Array, needed: str, wrong: Mask) -> None:
    """A ``DataError`` that shows the first wrong number of a table's cells, or of its entries."""
    if wrong.any():
        first = np.argwhere(wrong)[0]
        cells = values.ndim > 1
        row, column = first if cells else (table.rows[first[0]], table.columns[first[0]])
        count = int(wrong.sum())
        others = "" if count == 1 else f" and {count - 1} more"
        raise DataError(
            f"block {block.name!r}: {what} {values[tuple(first)]:g} in column"
            f" {table.column_label(int(column))}, row {row_label(table, int(row))}{others};"
            f" every one must be {needed}"
        )


def from_sparse(block: Block, given: Any) -> Table:
    """Stored = observed; entries stored twice are refused, since their sum would be a guess."""
    if given.ndim != 2:
        raise DataError(
            f"block {block.name!r}: a sparse array of shape {given.shape} was given;"
            " two dimensions are needed"
        )
    if given.format in UNCLEAR_FORMATS and given.count_nonzero() < given.nnz:
        raise DataError(
            f"block {block.name!r}: a sparse matrix in {given.format} format with zeros was given,"
            " which may stand there because blocks and diagonals are stored whole; give a"
            " scipy.sparse.coo_array of the observed entries alone, zeros among them or not"
        )
    triplets = sp.coo_array(given)
    rows, columns = triplets.coords
    order = row_major(block, triplets)
    try:
        values = floats_of(triplets.data[order])
    except NotANumber as error:
        column = str(columns[order][error.position])
        raise not_a_number(block, column, error, triplets.data, triplets.data.dtype) from None
    missing = np.isnan(values)
    kept = order[~missing]
    return Table(
        shape=(int(triplets.shape[0]), int(triplets.shape[1])),
        rows=rows[kept].astype(np.intp),
        columns=columns[kept].astype(np.intp),
        values=values[~missing],
    )


def row_major(block: Block, triplets: Any, what: str = "") -> IntArray:
    """The order of the entries, row after row; a ``DataError`` where one is stored twice."""
    cells = np.ravel_multi_index([at.astype(np.int64) for at in triplets.coords], triplets.shape)
    order = np.argsort(cells, kind="stable")
    repeated = np.flatnonzero(np.diff(cells[order]) == 0)
    if repeated.size:
        first = order[repeated[0]]
        where = zip(("row", "column"), triplets.coords[-2:], strict=False)
        entry = ", ".join(f"{axis} {int(at[first])}" for axis, at in where)
        raise DataError(
            f"block {block.name!r}: {what}entry ({entry}) is stored more than once"
            f" ({repeated.size} such entries); call sum_duplicates() or drop them first"
        )
    return order


def from_pandas(block: Block, given: Any) -> Table:
    """A DataFrame with its labels; a Series is one column."""
    names = given.columns if given.ndim == 2 else given.to_frame().columns
    return from_dense(numbers_of(block, given), index=given.index, names=names)


def from_array(block: Block, given: Any) -> Table:
    """Anything numpy reads as a matrix; masked arrays count as missing where masked."""
    try:
        array = np.ma.asarray(given) if isinstance(given, np.ma.MaskedArray) else np.asarray(given)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"block {block.name!r}: the data do not form a matrix; are the rows of equal length?"
        ) from None
    if array.ndim == 0:
        raise DataError(
            f"block {block.name!r}: a {type(given).__name__} was given; an array, a DataFrame or"
            " a scipy.sparse matrix is needed"
        )
    if array.ndim == 1 and array.size:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise DataError(
            f"block {block.name!r}: data of shape {array.shape} were given; a matrix of"
            " n_items rows and at least one column is needed"
        )
    try:
        return from_dense(floats_of(array))
    except NotANumber as error:
        column = error.position[1]
        raise not_a_number(block, str(column), error, array[:, column], array.dtype) from None


def from_dense(dense: Array, index: Any = None, names: Any = None) -> Table:
    """A dense float matrix whose NaN are missing."""
    rows, columns = np.nonzero(~np.isnan(dense))
    shape = (int(dense.shape[0]), int(dense.shape[1]))
    return Table(shape, rows, columns, dense[rows, columns], index, names)


def check_observed(block: Block, table: Table) -> None:
    """At least one observed entry, or a ``DataError``."""
    if table.n_observed == 0:
        raise DataError(
            f"block {block.name!r}: not one of its {table.shape[0]} x {table.shape[1]} entries"
            " is observed; leave the block out of the model, or check that its missing values"
            " and only those are NaN"
        )


def check_values(block: Block, table: Table) -> None:
    """Values that are finite, not too large, and what the likelihood takes them for."""
    infinite = np.isinf(table.values)
    if infinite.any():
        raise DataError(
            f"block {block.name!r}: {entries_of(table, infinite)}; every observed value must be"
            " finite. Replace infinities by NaN if they stand for missing values"
        )
    huge = np.abs(table.values) > LARGEST
    if huge.any():
        raise DataError(
            f"block {block.name!r}: {entries_of(table, huge)}; squares of such values overflow."
            " Rescale the column, or use NaN if they stand for missing values"
        )
    wrong = block.likelihood.invalid(table.values)
    if wrong.any():
        likelihood = type(block.likelihood).__name__
        raise DataError(
            f"block {block.name!r}: {entries_of(table, wrong)}; {likelihood} needs"
            f" {block.likelihood.needs}. {block.likelihood.remedy}"
        )
    doubt = block.likelihood.doubt(table.shape, table.rows, table.values)
    if doubt is not None:
        raise DataError(f"block {block.name!r}: {doubt}")


def entries_of(table: Table, chosen: Any) -> str:
    """A few offending entries in words: value, column and row of each."""
    where = np.flatnonzero(chosen)
    described = [
        f"value {table.values[i]:g} in column {table.column_label(int(table.columns[i]))},"
        f" row {row_label(table, int(table.rows[i]))}"
        for i in where[:SHOWN]
    ]
    more = f" and {where.size - SHOWN} more" if where.size > SHOWN else ""
    return "; ".join(described) + more


def row_label(table: Table, row: int) -> str:
    """How messages call a row: by its label where it has one."""
    return str(row) if table.index is None else repr(plain(table.index[row]))


def same_rows(tables: Iterable[tuple[str, Table]]) -> tuple[int, Any]:
    """The common number of rows and the common index; a DataError where blocks differ."""
    named = list(tables)
    first_name, first = named[0]
    for name, table in named[1:]:
        if table.shape[0] != first.shape[0]:
            raise DataError(
                f"block {first_name!r} has {first.shape[0]} rows but block {name!r} has"
                f" {table.shape[0]}; rows are items, so every block needs the same ones,"
                " in the same order"
            )
    indexed = [(name, table) for name, table in named if table.index is not None]
    for name, table in indexed[1:]:
        row = first_difference(indexed[0][1].index, table.index)
        if row is not None:
            theirs, ours = row_label(indexed[0][1], row), row_label(table, row)
            raise DataError(
                f"blocks {indexed[0][0]!r} and {name!r} have different row labels, first"
                f" {theirs} and {ours} in row {row}; align them first,"
                " for example with other.reindex(frame.index)"
            )
    return first.shape[0], indexed[0][1].index if indexed else None


def first_difference(one: Any, other: Any) -> int | None:
    """Where two equally long indexes differ first; None where they hold the same labels.

    Of different dtypes they may do so without being ``equals``.
    """
    if one.equals(other):
        return None
    pairs = enumerate(zip(one, other, strict=True))
    return next((row for row, labels in pairs if not same_label(*labels)), None)


def same_label(one: Any, other: Any) -> bool:
    """Whether two labels are equal, or both missing."""
    missing = [is_missing(label) or label != label for label in (one, other)]  # NaN != NaN
    return all(missing) if any(missing) else bool(one == other)

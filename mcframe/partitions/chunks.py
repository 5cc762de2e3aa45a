"""Sources of a block, piece by piece: chunks of consecutive rows, or of triples."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Mask, class_offers
from mcframe.contracts.errors import DataError
from mcframe.contracts.limits import BATCH_ENTRIES
from mcframe.contracts.validators import NotANumber, a_type, exact, floats_of
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Observations
from mcframe.model.forms import UNCLEAR_FORMATS, table_of_numbers
from mcframe.model.labels import (
    columns_of_frame,
    is_frame,
    numbers_of_column,
    nw,
    some_in_words,
)
from mcframe.model.model import EntryExposures
from mcframe.model.reading import read_numbers
from mcframe.model.table import Table
from mcframe.partitions.store import is_collection

# The additions that an entry may have to its value: names of columns of triples.
TRIPLE_ADDITIONS = ("weight", "offset", "exposure")
# Rows of triples are counted in memory up to this one; larger tables say how many they have.
MOST_COUNTED_ROWS = 1 << 28

Arrays = Mapping[str, npt.NDArray[Any]]


@attrs.frozen(eq=False)
class Chunk:
    """Some entries of a block, in any order.

    Attributes
    ----------
    label : str
        The name of the chunk in messages, such as ``chunk 3``.
    rows, columns : arrays of integers (n_entries,)
        Counted from 0 over the whole table.
    values : array (n_entries,)
        Of observed entries alone.
    additions : dict of arrays (n_entries,)
        By their names in ``TRIPLE_ADDITIONS``.
    n_columns : int or None
        Of a block of rows; triples do not say it.
    rows_until : int or None
        Of a block of rows the first row after it; triples do not say it.
    """

    label: str
    rows: IntArray
    columns: IntArray
    values: Array
    additions: dict[str, Array]
    n_columns: int | None = None
    rows_until: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the additions to the values."""
        return tuple(sorted(self.additions))

    def select(self, kept: Mask) -> "Chunk":
        """Return the chunk with some of its entries."""
        additions = {name: numbers[kept] for name, numbers in self.additions.items()}
        return attrs.evolve(
            self,
            rows=self.rows[kept],
            columns=self.columns[kept],
            values=self.values[kept],
            additions=additions,
        )


def check_chunk(name: str, chunk: Chunk) -> Chunk:
    """Return the entries that count: those of weight 0 are not observed.

    Raises
    ------
    DataError
        For a number that is not finite, a weight below 0 and an exposure that is not above 0,
        with chunk, row, column and value.
    """
    remedy = (
        "; leave out the entry, or give a dense block with NaN, if it stands for a missing value"
    )
    for what, numbers in {"value": chunk.values, **chunk.additions}.items():
        needed = "finite" + remedy * (what == "value")
        refuse_entries(name, chunk, what, numbers, ~np.isfinite(numbers), needed)
        if what == "weight":
            refuse_entries(
                name, chunk, what, numbers, numbers < 0.0, "0 or above; 0 leaves it out"
            )
        if what == "exposure":
            refuse_entries(name, chunk, what, numbers, numbers <= 0.0, "above 0")
    if "weight" in chunk.additions:
        return chunk.select(chunk.additions["weight"] > 0.0)
    return chunk


def refuse_entries(
    name: str, chunk: Chunk, what: str, numbers: Array, wrong: Mask, needed: str
) -> None:
    """Raise a ``DataError`` that shows the first entry with a wrong number, if there is one."""
    if not wrong.any():
        return
    first, others = int(np.argmax(wrong)), int(wrong.sum()) - 1
    more = f" and {others} more there" if others else ""
    raise DataError(
        f"block {name!r}: {what} {exact(numbers[first])} in {chunk.label}, row"
        f" {chunk.rows[first]}, column {chunk.columns[first]}{more}; every one must be {needed}"
    )


def matrix_of_chunk(arrays: Arrays, shape: tuple[int, int]) -> Any:
    """Return a compressed matrix of the entries, or ``Observations`` of one; nothing is copied.

    Parameters
    ----------
    arrays : dict of arrays
        ``indptr`` and ``columns`` as SciPy has them, ``value`` and, where entries have them,
        ``weight`` and ``offset`` or ``exposure``.
    shape : (rows, columns)
    """

    def matrix(what: str) -> Any:
        if what not in arrays:
            return None
        return sp.csr_array((arrays[what], arrays["columns"], arrays["indptr"]), shape=shape)

    values, weights, offset, exposure = map(matrix, ("value", "weight", "offset", "exposure"))
    if weights is None and offset is None and exposure is None:
        return values
    exposures = None if exposure is None else EntryExposures(exposure)
    return Observations(values, weights=weights, offset=offset, exposure=exposures)


def arrays_of(name: str, chunk: Chunk, start: int, shape: tuple[int, int]) -> Arrays:
    """Return the entries of a chunk row after row, as ``matrix_of_chunk`` takes them.

    Parameters
    ----------
    name : str
        Of the block.
    chunk : Chunk
        All entries of a partition.
    start : int
        The first row of the partition.
    shape : (rows, columns)
        Of the partition.

    Raises
    ------
    DataError
        Where a cell has several entries.
    """
    cells = (chunk.rows - start) * shape[1] + chunk.columns
    order = np.argsort(cells, kind="stable")
    repeated = np.flatnonzero(np.diff(cells[order]) == 0)
    if repeated.size:
        first = order[repeated[0]]
        raise DataError(
            f"block {name!r}: {repeated.size} entries of {chunk.label} stand in a cell that has"
            f" another one, the first in row {chunk.rows[first]}, column {chunk.columns[first]};"
            " keep one of each"
        )
    ends = np.searchsorted(chunk.rows[order] - start, np.arange(shape[0] + 1))
    numbers = {"value": chunk.values, **chunk.additions}
    places = index_type(order.size)
    return {
        "indptr": ends.astype(places),
        "columns": chunk.columns[order].astype(places),
        **{what: array[order] for what, array in numbers.items()},
    }


def index_type(n_entries: int) -> type:
    """Return the type of ``indptr`` and ``columns``: SciPy copies both where they differ."""
    return np.int32 if n_entries <= np.iinfo(np.int32).max else np.int64


# The names of the place and the value of an entry in triples.
TRIPLE_COLUMNS = ("row", "column", "value")
# Numbers of columns are below this.
COLUMN_NUMBER_LIMIT = 2**31


def chunks_of(name: str, source: Any, label: str = "chunk") -> Iterator[Chunk]:
    """Yield the observed entries of a block's source, checked.

    Parameters
    ----------
    name : str
        Of the block.
    source : iterable
        Of blocks of rows (matrices, ``scipy.sparse`` matrices, ``Observations``), which follow
        each other; or of triples, in any order.
    label : str
        The name of an element in messages, before its number from 0.

    Raises
    ------
    DataError
        Where an element cannot be read, or not together with those before it.
    """
    start, width = 0, None
    first: Chunk | None = None
    for position, element in enumerate(elements_of(name, source)):
        where = f"{label} {position}"
        if is_rows(element):
            chunk = chunk_of_rows(name, element, where, start)
            assert chunk.rows_until is not None
            start = chunk.rows_until
        else:
            chunk = chunk_of_triples(name, element, where)
        first = first or chunk
        refuse_unlike(name, first, chunk)
        width = width or chunk.n_columns
        yield check_chunk(name, chunk)
    if first is None:
        raise DataError(f"block {name!r}: its source is empty; give at least one entry")


def elements_of(name: str, source: Any) -> Iterator[Any]:
    """Yield the elements of a source; triples given one by one are taken together."""
    if is_collection(source):
        raise DataError(
            f"block {name!r}: a collection of Dask was given; mcframe.datasets.from_dask reads it,"
            " and (part.compute() for part in frame.partitions) writes it, of an array"
            " (block.compute() for block in array.rechunk({1: -1}).blocks)"
        )
    if is_frame(source):
        refuse_wide(f"block {name!r}", source)
    whole = is_rows(source) or is_frame(source) or isinstance(source, Mapping)
    if whole or isinstance(source, str | bytes):
        remedy = "give [data] for data that are in memory as a whole"
        if isinstance(source, str | bytes):
            remedy = "a Parquet file is read by mcframe.datasets.parquet_triples(path)"
        raise DataError(
            f"block {name!r}: {a_type(source)} was given where an iterable of blocks of"
            f" rows or of triples is needed; {remedy}"
        )
    try:
        elements = iter(source)
    except TypeError:
        raise DataError(
            f"block {name!r}: {a_type(source)} was given, which cannot be iterated over;"
            " give an iterable of blocks of rows, or of triples (row, column, value)"
        ) from None
    for element in elements:
        if is_single_triple(element):
            rest = chain([element], islice(elements, BATCH_ENTRIES - 1))
            yield joined_triples(name, rest)
            while some := list(islice(elements, BATCH_ENTRIES)):
                yield joined_triples(name, some)
            return
        yield element


def refuse_wide(where: str, frame: Any) -> None:
    """Raise a ``DataError`` for a frame with a column for each column of the block."""
    names = list(nw.from_native(frame).columns)
    if set(map(str, names)) & set(TRIPLE_COLUMNS):
        return
    shown = some_in_words(names)
    raise DataError(
        f"{where}: a wide frame was given, with the columns {shown} of the block itself;"
        " its matrix is a block of rows: give [frame.to_numpy()], and its names by column_labels."
        " A long frame has the columns 'row', 'column' and 'value'"
    )


def is_rows(data: Any) -> bool:
    """Return True for a block of rows."""
    array = isinstance(data, np.ndarray)
    return array or sp.issparse(data) or isinstance(data, Observations)


def is_single_triple(element: Any) -> bool:
    """Return True for one triple of numbers, and not three sequences of them."""
    return isinstance(element, tuple) and all(np.ndim(part) == 0 for part in element)


def joined_triples(name: str, triples: Iterable[Any]) -> tuple[list[Any], ...]:
    """Return three sequences for a sequence of triples."""
    rows, columns, values = [], [], []
    for triple in triples:
        if not is_single_triple(triple) or len(triple) != len(TRIPLE_COLUMNS):
            raise DataError(
                f"block {name!r}: {triple!r} was given among triples; each is a tuple (row,"
                " column, value) of three numbers. Weights, offsets and exposures are given in"
                " chunks, dict(row=rows, column=columns, value=values, weight=weights)"
            )
        rows.append(triple[0])
        columns.append(triple[1])
        values.append(triple[2])
    return rows, columns, values


def refuse_unlike(name: str, first: Chunk, chunk: Chunk) -> None:
    """Raise a ``DataError`` where a chunk does not fit those before it."""
    if (first.n_columns is None) != (chunk.n_columns is None):
        raise DataError(
            f"block {name!r}: {first.label} and {chunk.label} are blocks of rows and triples;"
            " one source holds either of them"
        )
    if first.n_columns != chunk.n_columns:
        raise DataError(
            f"block {name!r}: {chunk.label} has {chunk.n_columns} columns and {first.label} has"
            f" {first.n_columns}; every one needs the same columns, in the same order"
        )
    if first.names != chunk.names:
        raise DataError(
            f"block {name!r}: {first.label} has {additions_in_words(first)} with its values and"
            f" {chunk.label} has {additions_in_words(chunk)}; give the same with every chunk"
        )


def additions_in_words(chunk: Chunk) -> str:
    """Return the additions to the values of a chunk in words."""
    return " and ".join(chunk.names) or "nothing"


def chunk_of_rows(name: str, rows: Any, label: str, start: int) -> Chunk:
    """Return the observed entries of a block of rows whose first row is ``start``."""
    observed = rows if isinstance(rows, Observations) else Observations(rows)
    where = f"block {name!r}: {label}"
    table = cells_of(where, observed.values)
    additions = {}
    for what in TRIPLE_ADDITIONS:
        numbers = observed.weights if what == "weight" else getattr(observed, what)
        if numbers is not None:
            additions[what] = numbers_at(name, label, numbers, what, table)
    n_rows, n_columns = table.shape
    places = table.rows + start, table.columns
    return Chunk(label, *places, table.values, additions, n_columns, rows_until=start + n_rows)


def cells_of(where: str, matrix: Any) -> Table:
    """Return the table of a matrix; NaN is missing in a dense one."""
    if np.ndim(matrix) != 2 and not sp.issparse(matrix):
        raise DataError(
            f"{where} has the shape {np.shape(matrix)}; a matrix of rows and columns is needed"
        )
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(f"{where} has the shape {matrix.shape}; at least one column is needed")
    if sp.issparse(matrix) and matrix.format in UNCLEAR_FORMATS and 0.0 in matrix.data:
        raise DataError(
            f"{where} is in {matrix.format} format with zeros, which may stand there because"
            " blocks and diagonals are stored whole; give a scipy.sparse.coo_array of the observed"
            " entries alone"
        )
    try:
        if not sp.issparse(matrix):
            return table_of_numbers(floats_of(matrix))
        stored = sp.coo_array(matrix)
        rows, columns = (at.astype(np.int64) for at in stored.coords)
        return Table(stored.shape, rows, columns, floats_of(stored.data))
    except NotANumber as error:
        raise DataError(f"{where} holds {error.value!r}; a table holds numbers alone") from None


def numbers_at(name: str, label: str, numbers: Any, what: str, table: Table) -> Array:
    """Return weights, offsets or exposures of the entries of a block of rows."""
    block = Block(name, Gaussian())  # what can be wrong here does not depend on the likelihood
    try:
        return read_numbers(block, numbers, what, table).at(table.rows, table.columns)
    except DataError as error:
        raise DataError(f"{label} of its source: {error}") from None


def chunk_of_triples(name: str, triples: Any, label: str) -> Chunk:
    """Return triples that are given as three sequences, or as a mapping or a frame by names."""
    where = f"block {name!r}: {label}"
    named = columns_by_name(where, triples)
    lengths = {key: len(column) for key, column in named.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{size} of {key}" for key, size in lengths.items())
        raise DataError(f"{where} has {counts}; one of each is needed for each triple")
    if "offset" in named and "exposure" in named:
        raise DataError(
            f"{where} has both offset and exposure; add log(exposure) to the offset and give that"
            " alone"
        )
    numbers = {
        key: numbers_in(where, key, column)
        for key, column in named.items()
        if key not in ("row", "column")
    }
    values = numbers.pop("value")
    rows, columns = (indices_in(where, key, named[key]) for key in ("row", "column"))
    return Chunk(label, rows, columns, values, numbers)


def columns_by_name(where: str, triples: Any) -> dict[str, Any]:
    """Return the columns of a chunk of triples by their names."""
    if isinstance(triples, tuple | list) and len(triples) == len(TRIPLE_COLUMNS):
        if any(np.ndim(part) == 0 for part in triples):
            raise DataError(
                f"{where} is {triples!r}; one triple is a tuple (row, column, value), and rows of"
                " a table are given as a matrix, numpy.array(rows), in a list"
            )
        return dict(zip(TRIPLE_COLUMNS, triples, strict=True))
    if isinstance(triples, Mapping):
        missing = [key for key in TRIPLE_COLUMNS if key not in triples]
        unknown = [key for key in triples if key not in (*TRIPLE_COLUMNS, *TRIPLE_ADDITIONS)]
        if missing or unknown:
            raise DataError(
                f"{where} has {', '.join(map(repr, triples))}; triples have 'row', 'column',"
                f" 'value' and, or not, {', '.join(map(repr, TRIPLE_ADDITIONS))}"
            )
        return {
            key: triples[key] for key in (*TRIPLE_COLUMNS, *TRIPLE_ADDITIONS) if key in triples
        }
    if is_frame(triples):
        refuse_wide(where, triples)
        columns = set(map(str, nw.from_native(triples).columns))
        names = [*TRIPLE_COLUMNS, *(key for key in TRIPLE_ADDITIONS if key in columns)]
        return dict(zip(names, columns_of_frame(triples, names, where)[1], strict=True))
    raise DataError(
        f"{where} is {a_type(triples)}; a matrix of rows, a tuple (rows, columns, values),"
        " or a dict or a frame with 'row', 'column' and 'value' is needed"
    )


def numbers_in(where: str, key: str, column: Any) -> Array:
    """Return a column of numbers of a chunk of triples."""
    try:
        return numbers_of_column(column)
    except NotANumber as error:
        raise DataError(
            f"{where} has {key} {error.value!r} in its triple {error.position[0]}; a number is"
            " needed"
        ) from None


def indices_in(where: str, key: str, column: Any) -> IntArray:
    """Return the rows or the columns of a chunk of triples: whole numbers from 0."""
    numbers = column.to_numpy() if class_offers(column, "to_numpy") else np.asarray(column)
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise DataError(
            f"{where} has {key}s of type {numbers.dtype}; whole numbers from 0 are needed,"
            " none of them missing. Labels are numbered first, for example by pandas.factorize"
        )
    most = COLUMN_NUMBER_LIMIT if key == "column" else np.iinfo(np.int64).max
    wrong = (numbers < 0) | (numbers >= most)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DataError(
            f"{where} has {key} {numbers[first]} in its triple {first}; {key}s are counted from 0"
            f" and stay below {most}"
        )
    return numbers.astype(np.int64)

"""The data of a block, read into a table and checked."""

import math
import sys
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import (
    Array,
    IntArray,
    Mask,
    Shape,
    between,
    ends_of,
    is_interval,
    points_of,
)
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Parametric
from mcframe.contracts.row_stores import refuse_stores
from mcframe.contracts.validators import NotANumber, exact, floats_of
from mcframe.contracts.wording import wording
from mcframe.model.forms import (
    LARGEST_VALUE,
    check_values,
    is_pandas,
    is_pandas_array,
    numbers_of,
    row_major,
    table_of_array,
    table_of_numbers,
    table_of_sparse,
    triplets_of,
)
from mcframe.model.labels import frame_in_memory, is_frame, is_series, numbers_of_frame, series_of
from mcframe.model.model import Block, EntryExposures, Observations
from mcframe.model.table import Table
from mcframe.model.transforms import CellNumbers
from mcframe.model.triples import Triples, in_cells_of
from mcframe.runtime.machine import MEMORY_SHARE, physical_gigabytes

# The memory of every cell that is written out, at the peak of reading and compiling: indices,
# values, and both orders of a pattern.
BYTES_PER_CELL = 80


def read_block(block: Block, data: Any, implicit_beyond: float = math.inf) -> Table:
    """Read and check one block's data: an array, a DataFrame, a scipy.sparse matrix, triples.

    NaN is missing; in a sparse matrix what is not stored is missing and a stored zero is an
    observed zero. A one-dimensional array or a Series is one column. There may be no observed
    entry at all, as in new rows. The unlabeled cells of a table of more than
    ``implicit_beyond`` cells are not written out: its memory is that of the labels.
    """
    refuse_stores(data, f"block {block.name!r}: ")
    observed = data if isinstance(data, Observations) else Observations(data)
    table = read_values(block, observed.values)
    check_values(block, table)
    if observed.lower is not None or observed.upper is not None:
        table = with_limits(block, observed, table)
    if observed.propensity is not None or block.likelihood.takes_propensities:
        table = with_propensities(block, observed.propensity, table)
    if block.likelihood.reads_unlabeled:
        if observed.of_labels_alone and table.n_cells > implicit_beyond:
            return attrs.evolve(table, has_implicit_cells=True)
        table = written_out(block, table)
    table = attrs.evolve(table, offset=offset_of(block, observed, table))
    if observed.weights is None:
        return table
    # Entries that a sparse matrix of weights does not store have the weight 0.
    weights = read_numbers(block, observed.weights, "weights", table).at(table.rows, table.columns)
    read = CellNumbers(table.shape, weights, table.cells)
    most = np.finfo(np.float64).max / max(weights.size, 1)
    check_cells(block, "weight", table, read, "finite", ~np.isfinite(weights))
    check_cells(block, "weight", table, read, "0 or above; 0 leaves it out", weights < 0.0)
    check_cells(block, "weight", table, read, "so small that their sum is finite", weights > most)
    return attrs.evolve(table, weights=weights).select(weights > 0.0)


def with_propensities(block: Block, data: Any, table: Table) -> Table:
    """Return the table with the propensities of its labels, or raise a ``DataError``."""
    likelihood, word = block.likelihood, type(block.likelihood).__name__
    if not likelihood.takes_propensities:
        exposing = wording().word("RiskMixture", "pu", "likelihood", propensities=True)
        raise DataError(
            f"block {block.name!r}: propensities were given, which {word} as declared does not"
            f" take; declare the block with {exposing}, or, where unlabeled entries carry no loss,"
            " give weights, which are the inverses of propensities"
        )
    if data is None:
        remedy = wording().either(
            python="give mc.Observations(labels, propensity=...), for example what"
            " mc.estimate_propensities(labels) finds from counts",
            command="leave it out, since files of labels have none, or fit the model in Python",
        )
        raise DataError(
            f"block {block.name!r}: {word} was declared with"
            f" {wording().argument('propensities', True)}, and the data have none; {remedy}"
        )
    least = 1.0 / LARGEST_VALUE
    numbers = read_numbers(block, data, "propensities", table).at(table.rows, table.columns)
    read = CellNumbers(table.shape, numbers, table.cells)
    needed = f"the probability that a label of the entry is recorded, from {least:g} to 1"
    possible = (numbers >= least) & (numbers <= 1.0)  # NaN is not
    check_cells(block, "propensity", table, read, needed, ~possible)
    return attrs.evolve(table, propensities=np.array(numbers))


def with_limits(block: Block, observed: Observations, table: Table) -> Table:
    """Return the table with the entries of which limits are known, or raise a ``DataError``."""
    if not block.likelihood.takes_intervals:
        word = type(block.likelihood).__name__
        raise DataError(
            f"block {block.name!r}: lower and upper limits of values were given, which {word} does"
            f" not take; declare the block with {wording().word('Censored', 'likelihood')}, or"
            " drop them"
        )
    limits = [
        read_limits(block, data, what, no_limit, table)
        for data, what, no_limit in (
            (observed.lower, "lower", -np.inf),
            (observed.upper, "upper", np.inf),
        )
    ]
    cells = np.unique(np.concatenate([table.cells, *(limited for limited, _ in limits)]))
    rows, columns = np.divmod(cells, table.shape[1])
    values, lower, upper = (np.full(cells.size, fill) for fill in (np.nan, -np.inf, np.inf))
    numbers = [(table.cells, table.values), *limits]
    for array, (places, stated) in zip((values, lower, upper), numbers, strict=True):
        array[np.searchsorted(cells, places)] = stated
    has_value = ~np.isnan(values)
    table = attrs.evolve(table, rows=rows, columns=columns, values=values)
    check_limits(block, table, lower, upper)
    intervals = between(np.where(has_value, values, lower), np.where(has_value, values, upper))
    check_intervals(block, table, intervals)
    censored = bool(is_interval(intervals).any())
    return attrs.evolve(
        table, values=points_of(intervals), intervals=intervals if censored else None
    )


def read_limits(
    block: Block, data: Any, what: str, no_limit: float, table: Table
) -> tuple[IntArray, Array]:
    """Return the cells for which a limit is given, and the limits; a ``DataError`` for wrong ones.

    ``no_limit`` is the infinite number that says that there is none, as NaN does.
    """
    if data is None:
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    read = read_numbers(block, data, f"{what} limits", table, of_all=False)
    check_cells(
        block,
        f"{what} limit",
        table,
        read,
        "finite, or NaN where there is none",
        read.numbers == -no_limit,
    )
    huge = np.isfinite(read.numbers) & (np.abs(read.numbers) > LARGEST_VALUE)
    check_cells(block, f"{what} limit", table, read, f"at most {LARGEST_VALUE:g} in size", huge)
    cells = np.arange(table.n_cells) if read.cells is None else read.cells
    numbers = read.numbers if read.cells is not None else read.dense().ravel()
    stated = np.isfinite(numbers)
    return cells[stated], numbers[stated]


def check_limits(block: Block, table: Table, lower: Array, upper: Array) -> None:
    """Raise a ``DataError`` where limits exclude each other, or the value that is known."""
    for wrong, remedy in (
        (lower > upper, "give the lower one as lower and the upper one as upper"),
        (
            (table.values < lower) | (table.values > upper),
            "correct them, or give NaN as the limit of a value that is known",
        ),
    ):
        if wrong.any():
            raise DataError(
                f"block {block.name!r}: {limits_in_words(table, lower, upper, wrong)}; {remedy}"
            )


def check_intervals(block: Block, table: Table, intervals: Array) -> None:
    """Raise a ``DataError`` where no value of the domain lies between two limits."""
    wrong = block.likelihood.invalid(intervals)
    if wrong.any():
        inner = block.likelihood.of_value
        raise DataError(
            f"block {block.name!r}: {limits_in_words(table, *ends_of(intervals), wrong)};"
            f" {type(inner).__name__} needs {inner.needs}, and none lies between them. Correct the"
            " limits, or give NaN where there is none"
        )


def limits_in_words(table: Table, lower: Array, upper: Array, chosen: Mask) -> str:
    """The first offending entry in words, value and limits, column and row, and how many more."""
    first, *others = np.flatnonzero(chosen)
    value, column, row = table.values[first], int(table.columns[first]), int(table.rows[first])
    beginning = "" if np.isnan(value) else f"value {exact(value)} with "
    return (
        f"{beginning}lower limit {exact(lower[first])} and upper limit {exact(upper[first])} in"
        f" column {table.column_label(column)}, row {table.row_label(row)}"
        f"{f' and {len(others)} more' if others else ''}"
    )


def written_out(block: Block, table: Table) -> Table:
    """Return the table with every cell, or raise a ``DataError`` if memory is too small."""
    gigabytes, memory = BYTES_PER_CELL * table.n_cells / 1e9, physical_gigabytes()
    if gigabytes > MEMORY_SHARE * memory:
        raise DataError(
            f"block {block.name!r}: {type(block.likelihood).__name__} reads the unlabeled entries"
            f" too, and all {table.n_cells} cells take about {gigabytes:.3g} GB, more than"
            f" {MEMORY_SHARE:.0%} of the machine's {memory:.3g} GB. They stay unwritten with the"
            f" squared and the logistic loss, {wording().word('Gaussian')} and"
            f" {wording().word('Bernoulli')}, where the"
            " block has neither bias nor row_effects, its data no weights and no offset, and the"
            " model a NuclearNorm as its only term; or take pn=1, which reads labels alone"
        )
    return table.with_all_cells()


def read_values(block: Block, data: Any) -> Table:
    """Return the table of observed entries, whose values are not checked."""
    if isinstance(data, np.ndarray):
        table = table_of_array(block, data)
    elif sp.issparse(data):
        table = table_of_sparse(block, data)
    elif isinstance(data, Triples):
        table = Table(data.shape, data.rows, data.columns, data.values, data.index, data.names)
    elif is_pandas(data):
        names = data.columns if data.ndim == 2 else data.to_frame().columns
        table = table_of_numbers(numbers_of(block, data), data.index, names)
    elif is_pandas_array(data):
        table = table_of_numbers(numbers_of(block, sys.modules["pandas"].Series(data)))
    elif is_frame(data):
        table = table_of_numbers(numbers_of(block, data))
    elif is_series(series_of(data)):
        table = table_of_numbers(numbers_of(block, series_of(data).to_frame().to_native()))
    else:
        table = table_of_array(block, data)
    if 0 in table.shape:
        raise DataError(
            f"block {block.name!r}: data of shape {table.shape} were given; a matrix of at least"
            " one row (item) and one column is needed"
        )
    return table


def offset_of(block: Block, observations: Observations, table: Table) -> CellNumbers | None:
    """Return the offset or the logarithm of the exposure, for each latent column; None without."""
    if observations.exposure is not None:
        check_link(block)
        of_entries = isinstance(observations.exposure, EntryExposures)
        matrix = observations.exposure.matrix if of_entries else observations.exposure
        read = read_numbers(block, matrix, "exposure", table)
        if read.cells is not None and not of_entries:  # a sparse one has to store every cell
            lacking = table.n_cells - read.cells.size
            if lacking:
                first = int(np.argmax(np.append(read.cells, -1) != np.arange(read.cells.size + 1)))
                raise wrong_number(block, "exposure", table, 0.0, first, lacking, "above 0")
            read = CellNumbers(read.shape, read.dense())
        check_cells(block, "exposure", table, read, "finite", ~np.isfinite(read.numbers))
        check_cells(block, "exposure", table, read, "above 0", read.numbers <= 0.0)
        read = attrs.evolve(read, numbers=np.log(read.numbers))
    elif observations.offset is not None:
        read = read_numbers(block, observations.offset, "offset", table)
        check_cells(block, "offset", table, read, "finite", ~np.isfinite(read.numbers))
        needed, huge = f"at most {LARGEST_VALUE:g} in size", np.abs(read.numbers) > LARGEST_VALUE
        check_cells(block, "offset", table, read, needed, huge)
    else:
        return None
    return read.repeat(block.likelihood.width)


def check_link(block: Block) -> None:
    """Raise a ``DataError`` where the link is not the logarithm.

    An exposure enters as the offset log(exposure), and multiplies the mean of a log link alone.
    """
    likelihood = block.likelihood
    if likelihood.width == 1 and not isinstance(likelihood, Parametric):
        once, thrice = likelihood.mean(np.array([0.0, np.log(3.0)]))
        if np.isclose(thrice, 3.0 * once, rtol=1e-9) and once > 0.0:
            return
    raise DataError(
        f"block {block.name!r}: an exposure was given, which multiplies the mean where the link"
        f" is the logarithm; that of {type(likelihood).__name__} is another. Give offset=...,"
        " which is added to z, or weights"
    )


def read_numbers(
    block: Block, data: Any, what: str, table: Table, of_all: bool = True
) -> CellNumbers:
    """Return weights or offsets of the cells of a block, or raise a ``DataError``.

    With ``of_all`` every entry has to have one in triples.
    """
    if isinstance(data, Triples):
        aligned = in_cells_of(table, data, f"block {block.name!r}: {what}", of_all)
        return CellNumbers(table.shape, aligned.values, aligned.cells)
    if not sp.issparse(data):
        if is_pandas(data) and table.index is not None:
            same = data.index.equals(table.index)
            if not same or (data.ndim == 2 and not data.columns.equals(table.names)):
                raise DataError(
                    f"block {block.name!r}: {what} have other row or column labels than the"
                    " values; align them first, for example with reindex_like(values)"
                )
        return CellNumbers(table.shape, spreadable(block, data, what, table.shape))
    triplets = triplets_of(block, data)
    order = row_major(block, triplets, f"{what} of ")  # none is stored twice
    if data.shape != table.shape:
        if not fits(data.shape, table.shape):
            raise unfit(block, what, table.shape, f"of shape {data.shape}")
        return CellNumbers(table.shape, spreadable(block, data.toarray(), what, table.shape))
    rows, columns = (at[order].astype(np.int64) for at in triplets.coords)
    try:
        numbers = floats_of(triplets.data[order])
    except NotANumber as error:
        raise unfit(block, what, table.shape, f"with value {error.value!r}") from None
    return CellNumbers(table.shape, numbers, rows * table.shape[1] + columns)


def spreadable(block: Block, data: Any, what: str, shape: Shape) -> Array:
    """Return weights or offsets as a matrix that numpy broadcasts to a shape.

    Numpy would read a vector as a row. For a square block it may as well be a column, and is
    refused.
    """
    # Numbers of a pandas frame whose names are checked elsewhere, and may stand twice.
    table = None
    if is_frame(data) and not is_pandas(data):
        table = frame_in_memory(data, f"block {block.name!r}: {what}: ")
    try:
        numbers = floats_of(data) if table is None else numbers_of_frame(table)
    except NotANumber as error:
        received = f"with value {error.value!r}" if error.position else repr(data)
    except (TypeError, ValueError):
        received = "with rows of different lengths"
    else:
        if numbers.shape == (shape[0],) == (shape[1],) != (1,):
            raise DataError(
                f"block {block.name!r}: {what} of shape {numbers.shape} were given for"
                f" {shape[0]} items and as many columns; with w = numpy.asarray({what}) write"
                " w[:, None] for one number for each item, or w[None, :] for one for each column"
            )
        if numbers.ndim == 1 and shape[1] == 1 and numbers.size in (1, shape[0]):
            return numbers[:, np.newaxis]  # as the values of one column may be
        if fits(numbers.shape, shape):
            return np.atleast_2d(numbers)
        received = f"of shape {numbers.shape}"
    raise unfit(block, what, shape, received)


def unfit(block: Block, what: str, shape: Shape, received: str) -> DataError:
    """Return the error about numbers of a wrong shape or kind."""
    return DataError(
        f"block {block.name!r}: {what} {received} were given; numbers of"
        f" shape {shape}, ({shape[0]}, 1), (1, {shape[1]}) or one number are needed"
    )


def fits(shape: tuple[int, ...], wanted: tuple[int, int]) -> bool:
    """Return True where numpy broadcasts an array of one shape to another."""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def check_cells(
    block: Block, what: str, table: Table, read: CellNumbers, needed: str, wrong: Mask
) -> None:
    """Raise a ``DataError`` that shows the first cell with a wrong number, if there is one."""
    if wrong.any():
        if read.cells is None:
            cells = np.flatnonzero(np.broadcast_to(wrong, read.shape))
        else:
            cells = read.cells[wrong]
        value = float(read.at(*np.divmod(cells[:1], read.shape[1]))[0])
        raise wrong_number(block, what, table, value, int(cells[0]), cells.size, needed)


def wrong_number(
    block: Block, what: str, table: Table, value: float, cell: int, count: int, needed: str
) -> DataError:
    """Return the error about a wrong number, by the labels of its row and of its column."""
    row, column = divmod(cell, table.shape[1])
    others = "" if count == 1 else f" and {count - 1} more"
    return DataError(
        f"block {block.name!r}: {what} {exact(value)} in column {table.column_label(column)},"
        f" row {table.row_label(row)}{others}; every one must be {needed}"
    )

"""Weights, offsets and exposures of the entries of a block, read from what users have."""

from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Parametric
from mcframe.contracts.real_numbers import NotANumber, floats_of
from mcframe.model.block import Block
from mcframe.model.cell_numbers import CellNumbers
from mcframe.model.forms import row_major
from mcframe.model.frames import is_pandas
from mcframe.model.observations import EntryExposures, Observations
from mcframe.model.table import Table
from mcframe.model.triples import Triples, in_cells_of
from mcframe.model.valid_values import LARGEST

__all__ = ["offset_of", "weights_of"]


def weights_of(block: Block, given: Observations, table: Table) -> Array:
    """Return the weight of each entry of a table; what a sparse matrix does not store is 0."""
    read = read_numbers(block, given.weights, "weights", table)
    weights = read.at(table.rows, table.columns)
    refuse(block, "weight", table, weights, "finite", ~np.isfinite(weights))
    refuse(block, "weight", table, weights, "0 or above; 0 leaves it out", weights < 0.0)
    most = np.finfo(np.float64).max / max(weights.size, 1)
    refuse(block, "weight", table, weights, "so small that their sum is finite", weights > most)
    return weights


def offset_of(block: Block, given: Observations, table: Table) -> CellNumbers | None:
    """Return the offset or the logarithm of the exposure, for each latent column; None without."""
    if given.exposure is not None:
        refuse_exposure(block)
        read = read_exposure(block, given.exposure, table)
        refuse_cells(block, "exposure", table, read, "finite", ~np.isfinite(read.numbers))
        refuse_cells(block, "exposure", table, read, "above 0", read.numbers <= 0.0)
        read = attrs.evolve(read, numbers=np.log(read.numbers))
    elif given.offset is not None:
        read = read_numbers(block, given.offset, "offset", table)
        refuse_cells(block, "offset", table, read, "finite", ~np.isfinite(read.numbers))
        needed, huge = f"at most {LARGEST:g} in size", np.abs(read.numbers) > LARGEST
        refuse_cells(block, "offset", table, read, needed, huge)
    else:
        return None
    return read.repeat(block.likelihood.width)


def read_exposure(block: Block, given: Any, table: Table) -> CellNumbers:
    """Return the exposures of all cells, or of the entries where no others are known."""
    if isinstance(given, EntryExposures):
        return read_numbers(block, given.matrix, "exposure", table)
    read = read_numbers(block, given, "exposure", table)
    if read.cells is None:
        return read
    # Each has to be stored, so that dense ones take no more.
    return CellNumbers(read.shape, refuse_unstored(block, table, read).dense())


def refuse_exposure(block: Block) -> None:
    """Raise a ``DataError`` where an exposure, which multiplies means, would not do so.

    It enters as the offset log(exposure), so that the mean has to be that of a log link.
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


def read_numbers(block: Block, given: Any, what: str, table: Table) -> CellNumbers:
    """Return weights or offsets of the cells of a block, or raise a ``DataError``."""
    if isinstance(given, Triples):
        moved = in_cells_of(table, given, f"block {block.name!r}: {what}")
        return CellNumbers(table.shape, moved.values, moved.cells)
    if not sp.issparse(given):
        refuse_other_labels(block, given, what, table)
        return CellNumbers(table.shape, spreadable(block, given, what, table.shape))
    triplets = sp.coo_array(given)
    order = row_major(block, triplets, f"{what} of ")  # none is stored twice
    if given.shape != table.shape:
        if not fits(given.shape, table.shape):
            raise unfit(block, what, table.shape, f"of shape {given.shape}")
        return CellNumbers(table.shape, spreadable(block, given.toarray(), what, table.shape))
    rows, columns = (at[order].astype(np.int64) for at in triplets.coords)
    try:
        numbers = floats_of(triplets.data[order])
    except NotANumber as error:
        raise unfit(block, what, table.shape, f"with value {error.value!r}") from None
    return CellNumbers(table.shape, numbers, rows * table.shape[1] + columns)


def spreadable(block: Block, given: Any, what: str, shape: tuple[int, int]) -> Array:
    """Return weights or offsets as a matrix that numpy spreads over a shape.

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
            return np.atleast_2d(numbers)
        found = f"of shape {numbers.shape}"
    raise unfit(block, what, shape, found)


def unfit(block: Block, what: str, shape: tuple[int, int], found: str) -> DataError:
    """Return the error that says what was given and what is needed."""
    return DataError(
        f"block {block.name!r}: {what} {found} were given; numbers of"
        f" shape {shape}, ({shape[0]}, 1), (1, {shape[1]}) or one number are needed"
    )


def fits(shape: tuple[int, ...], wanted: tuple[int, int]) -> bool:
    """Whether numpy spreads an array of one shape over another."""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def refuse_other_labels(block: Block, given: Any, what: str, table: Table) -> None:
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


def refuse_unstored(block: Block, table: Table, read: CellNumbers) -> CellNumbers:
    """Return sparse exposures that are stored for every cell, or raise a ``DataError``."""
    assert read.cells is not None
    missing = table.n_cells - read.cells.size
    if missing:
        gaps = read.cells != np.arange(read.cells.size)
        first = int(np.argmax(gaps)) if gaps.any() else read.cells.size
        row, column = divmod(first, table.shape[1])
        raise wrong_number(block, "exposure", table, 0.0, (row, column), missing, "above 0")
    return read


def refuse_cells(
    block: Block, what: str, table: Table, read: CellNumbers, needed: str, wrong: Mask
) -> None:
    """Raise a ``DataError`` that shows the first cell with a wrong number, if there is one."""
    if not wrong.any():
        return
    if read.cells is None:
        places = np.argwhere(np.broadcast_to(wrong, read.shape))
        rows, columns = places[:, 0], places[:, 1]
    else:
        rows, columns = np.divmod(read.cells[wrong], read.shape[1])
    value = float(read.at(rows[:1], columns[:1])[0])
    raise wrong_number(block, what, table, value, (rows[0], columns[0]), rows.size, needed)


def refuse(block: Block, what: str, table: Table, values: Array, needed: str, wrong: Mask) -> None:
    """Raise a ``DataError`` that shows the first entry with a wrong number, if there is one."""
    if wrong.any():
        first = int(np.argmax(wrong))
        place, count = (table.rows[first], table.columns[first]), int(wrong.sum())
        raise wrong_number(block, what, table, float(values[first]), place, count, needed)


def wrong_number(
    block: Block,
    what: str,
    table: Table,
    value: float,
    place: tuple[Any, Any],
    count: int,
    needed: str,
) -> DataError:
    """Return the error about a wrong number, by the labels of its row and of its column."""
    others = "" if count == 1 else f" and {count - 1} more"
    return DataError(
        f"block {block.name!r}: {what} {value:g} in column {table.column_label(int(place[1]))},"
        f" row {table.row_label(int(place[0]))}{others}; every one must be {needed}"
    )

"""One partition of Dask's collections: its entries, and what is to be known of them."""

from typing import Any

import attrs

from mcframe.contracts.errors import DataError
from mcframe.model import Observations
from mcframe.model.chunks.assembling import arrays_of
from mcframe.model.chunks.entries import ADDITIONS, MOST_ROWS, Chunk, check_chunk
from mcframe.model.chunks.sources import PLACES, chunk_of_rows, chunk_of_triples
from mcframe.numerics.digest import digest_of

__all__ = [
    "BESIDE",
    "Facts",
    "chunk_of",
    "digest_of_chunk",
    "facts_of_part",
    "in_scipy",
    "refuse_labels",
]

# What stands beside the values of ``Observations``.
BESIDE = ("weights", "offset", "exposure")


@attrs.frozen
class Facts:
    """What is known of one block of one partition.

    Attributes
    ----------
    n_entries : int
    first_row, last_row, last_column : int
        Of its entries; 0, -1 and -1 where there is none.
    digest : str
        Of all its bits, by which a task is seen that gives something else another time.
    additions : tuple of str
        What its entries have beside their values.
    """

    n_entries: int
    first_row: int
    last_row: int
    last_column: int
    digest: str
    additions: tuple[str, ...]


def chunk_of(name: str, given: Any, p: int, start: int, rows_given: bool) -> Chunk:
    """Return the checked entries of a partition from what its task gives."""
    label = f"partition {p}"
    if rows_given:
        return check_chunk(name, chunk_of_rows(name, in_scipy(given), label, start))
    if "row" not in given.columns and given.index.name == "row":  # as set_index leaves it
        given = given.reset_index()
    named = [what for what in (*PLACES, *ADDITIONS) if what in given.columns]
    return check_chunk(name, chunk_of_triples(name, given[named], label))


def in_scipy(given: Any) -> Any:
    """Return a block of rows whose ``sparse.COO`` is a matrix of SciPy."""
    if isinstance(given, Observations):
        beside = {what: in_scipy(getattr(given, what)) for what in BESIDE}
        return Observations(in_scipy(given.values), **beside)
    return given.to_scipy_sparse() if hasattr(given, "to_scipy_sparse") else given


def facts_of_part(
    name: str, given: Any, p: int, start: int, shape: tuple[int, int] | None
) -> Facts:
    """Return what is to be known of one block of one partition; ``shape`` is that of its rows."""
    chunk = chunk_of(name, given, p, start, shape is not None)
    if shape is not None:
        found = (chunk.rows_until or 0) - start, chunk.n_columns
        if found != shape:
            raise DataError(
                f"block {name!r}: partition {p} is of shape {found} and its array says {shape};"
                " every partition needs the same columns, and the rows that were said"
            )
    if not chunk.values.size:
        return Facts(0, 0, -1, -1, digest_of_chunk(chunk), chunk.names)
    last_column = int(chunk.columns.max())
    first, last = int(chunk.rows.min()), int(chunk.rows.max())
    refuse_labels(last, last - first + 1)
    arrays_of(name, chunk, first, (last - first + 1, last_column + 1))  # refuses cells given twice
    return Facts(chunk.values.size, first, last, last_column, digest_of_chunk(chunk), chunk.names)


def refuse_labels(row: int, n_rows: int) -> None:
    """Raise a ``DataError`` where so many rows up to this one are more likely labels."""
    if n_rows > MOST_ROWS:
        raise DataError(
            f"there are entries in row {row}; rows are counted from 0, and the factors have a row"
            " for each. If these are labels, number them first, for example by pandas.factorize;"
            " if there are so many rows, give them in shapes, and each partition some of them"
        )


def digest_of_chunk(chunk: Chunk) -> str:
    """Return a digest of all bits of some entries, in their order."""
    return digest_of([chunk.rows, chunk.columns, chunk.values, chunk.additions])

"""Triples in Parquet files, read batch by batch."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.folder import path_of

pq: Any = Deferred("pyarrow.parquet", "reading Parquet files")

# Rows of a file that are in memory at a time.
BATCH = 1 << 18


@attrs.frozen
class ParquetTriples:
    """Triples of Parquet files as an iterable of chunks, made by ``parquet_triples``.

    Attributes
    ----------
    files : tuple of Path
    columns : dict
        Names of columns in the files by what they are: row, column, value, weight and so on.
    """

    files: tuple[Path, ...]
    columns: dict[str, str]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path in self.files:
            try:
                for batch in opened(path, self.columns).iter_batches(
                    BATCH, columns=list(self.columns.values())
                ):
                    yield {
                        what: numbers(path, name, batch.column(name))
                        for what, name in self.columns.items()
                    }
            except DataError:
                raise
            except (OSError, ValueError) as error:
                raise unreadable(path, error) from None


def parquet_triples(
    path: str | os.PathLike[str],
    *,
    row: str = "row",
    column: str = "column",
    value: str = "value",
    weight: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
) -> ParquetTriples:
    """Read triples from a Parquet file, or from all of a folder, as a source of a block.

    Rows of the files may stand in any order; some 260,000 of them are in memory at a time.

    Parameters
    ----------
    path : path
        Of a file, or of a folder whose ``*.parquet`` files are read in the order of their names.
    row, column, value : str
        The columns of the files with the places of entries, whole numbers from 0, and with what
        was observed there.
    weight, offset, exposure : str, optional
        Columns with additions to the values of entries.

    Returns
    -------
    ParquetTriples
        It stands where a source stands in ``write_partitions``.

    Raises
    ------
    DataError
        Where a file is not there, is no Parquet, or lacks a column.

    Examples
    --------
    >>> import pathlib, tempfile, pyarrow, pyarrow.parquet, mcframe.datasets as datasets
    >>> stars = pyarrow.table({"user": [1, 0], "film": [0, 2], "stars": [5.0, 3.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "stars.parquet")
    ...     pyarrow.parquet.write_table(stars, file)
    ...     triples = datasets.parquet_triples(file, row="user", column="film", value="stars")
    ...     datasets.write_partitions(file.parent / "sorted", {"stars": triples}).shape("stars")
    (2, 3)
    """
    given = path_of(path)
    files = tuple(sorted(given.glob("*.parquet"))) if given.is_dir() else (given,)
    if not files:
        raise DataError(f"folder {str(given)!r} holds no file *.parquet; check the path")
    named = {"row": row, "column": column, "value": value}
    additions = {"weight": weight, "offset": offset, "exposure": exposure}
    columns = named | {what: name for what, name in additions.items() if name is not None}
    for file in files:
        opened(file, columns)
    return ParquetTriples(files, columns)


def opened(path: Path, columns: dict[str, str]) -> Any:
    """Open a Parquet file that has these columns, or raise a ``DataError``."""
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}; check the path")
    try:
        file = pq.ParquetFile(path)
    except (OSError, ValueError) as error:  # the base classes of pyarrow's errors
        raise unreadable(path, error) from None
    there = file.schema_arrow.names
    for what, name in columns.items():
        if name not in there:
            raise DataError(
                f"file {str(path)!r} has no column {name!r}, its columns are"
                f" {', '.join(map(repr, there))}; name the right one by {what}=..."
            )
    return file


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the error about a file that is no Parquet, or a damaged one."""
    return DataError(f"file {str(path)!r} is no Parquet that can be read: {error}")


def numbers(path: Path, name: str, column: Any) -> Any:
    """Return a column of a batch as an array, or raise a ``DataError`` where some are null."""
    if column.null_count:
        raise DataError(
            f"file {str(path)!r}: column {name!r} is null in {column.null_count} rows of a batch;"
            " an entry that is not observed is left out"
        )
    return column.to_numpy(zero_copy_only=False)

"""Triples read from Parquet files, and cells of a fit written to such files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.limits import BATCH_ENTRIES
from mcframe.contracts.validators import Options, a_type, suggests_options
from mcframe.fitting.fit_answer import Fit
from mcframe.model.model import Observations
from mcframe.model.reading import read_values
from mcframe.model.table import TableWithoutData
from mcframe.partitions.binding_rounds import hash_sums
from mcframe.partitions.on_disk import FolderLayout, pa, portable_path, pq, staging_directory
from mcframe.partitions.part import read_part
from mcframe.partitions.partitioned_data import PartitionedData
from mcframe.partitions.partitioned_problem import PartitionedProblem
from mcframe.partitions.store import is_partitioned


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
                for batch in open_parquet(path, self.columns).iter_batches(
                    BATCH_ENTRIES, columns=list(self.columns.values())
                ):
                    yield {
                        what: numbers_of_batch(path, name, batch.column(name))
                        for what, name in self.columns.items()
                    }
            except DataError:
                raise
            except (OSError, ValueError) as error:
                raise unreadable(path, error) from None


@suggests_options
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
        If a file is not there, is no Parquet, or lacks a column.

    Examples
    --------
    >>> import pathlib, tempfile, pyarrow, pyarrow.parquet, mcframe.datasets as datasets
    >>> stars = pyarrow.table({"user": [1, 0], "film": [0, 2], "stars": [5.0, 3.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "stars.parquet")
    ...     pyarrow.parquet.write_table(stars, file)
    ...     triples = datasets.parquet_triples(file, row="user", column="film", value="stars")
    ...     datasets.write_partitions({"stars": triples}, file.parent / "sorted").shape("stars")
    (2, 3)
    """
    location = portable_path(path)
    files = tuple(sorted(location.glob("*.parquet"))) if location.is_dir() else (location,)
    if not files:
        raise DataError(f"folder {str(location)!r} holds no file *.parquet; check the path")
    named = {"row": row, "column": column, "value": value}
    additions = {"weight": weight, "offset": offset, "exposure": exposure}
    columns = named | {what: name for what, name in additions.items() if name is not None}
    for file in files:
        open_parquet(file, columns)
    return ParquetTriples(files, columns)


def open_parquet(path: Path, columns: dict[str, str]) -> Any:
    """Open a Parquet file that has these columns, or raise a ``DataError``."""
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}; check the path")
    try:
        file = pq.ParquetFile(path)
    except (OSError, ValueError) as error:  # the base classes of pyarrow's errors
        raise unreadable(path, error) from None
    column_names = file.schema_arrow.names
    for what, name in columns.items():
        if name not in column_names:
            raise DataError(
                f"file {str(path)!r} has no column {name!r}, its columns are"
                f" {', '.join(map(repr, column_names))}; name the right one by {what}=..."
            )
    return file


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the error about a file that is no Parquet, or a damaged one."""
    return DataError(
        f"file {str(path)!r} is no Parquet that can be read; check the path ({error})"
    )


def numbers_of_batch(path: Path, name: str, column: Any) -> Any:
    """Return a column of a batch as an array, or raise a ``DataError`` where some are null."""
    if column.null_count:
        raise DataError(
            f"file {str(path)!r}: column {name!r} is null in {column.null_count} rows of a batch;"
            " an entry that is not observed is left out"
        )
    return column.to_numpy(zero_copy_only=False)


CELLS_LAYOUT = FolderLayout("mcframe cells", "cells", "impute_to", "", r"part-\d+\.parquet")


@suggests_options
def impute_to(
    fit: Fit,
    data: PartitionedData,
    folder: str | os.PathLike[str],
    block: str,
    *,
    cells: str = "missing",
) -> tuple[Path, ...]:
    """Write a block without its holes to Parquet, a file for each partition of the rows.

    A file has columns ``row`` and ``column``, counted from 0 over the whole table, and ``value``:
    what was observed where there is an observation, elsewhere the mean response, of classes the
    most probable one, as ``Fit.impute`` has them. Entries follow each other row after row. No
    more than one partition and some 260,000 cells are in memory at a time.

    Parameters
    ----------
    fit : Fit
    data : PartitionedData
        What was fitted, such as ``on_disk(folder)``.
    folder : path
        A new or an empty one.
    block : str
    cells : "missing" or "all", default "missing"
        Which cells are written; ``"all"`` has a column ``observed``, true or false.

    Returns
    -------
    tuple of Path
        The files, in the order of the partitions.

    Raises
    ------
    DataError
        If the folder is not empty or cannot be written, another call is at work there, or the
        data are not those of the fit: entries are compared, but of a compact fit, which has none,
        shapes alone. No file is left then.
    ModelError
        Where ``block`` is none of the fit, or ``cells`` neither of these.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, mcframe as mc, mcframe.datasets as datasets
    >>> x = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, np.nan]])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1e-4)])
    >>> fit = mc.fit(model, {"x": x})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = datasets.write_partitions({"x": [x]}, pathlib.Path(folder, "x"))
    ...     files = datasets.impute_to(fit, table, pathlib.Path(folder, "filled"), "x")
    ...     for chunk in datasets.parquet_triples(files[0]):
    ...         print(chunk["row"], chunk["column"], chunk["value"].round(1))
    [2] [1] [2.2]
    """
    Options.cells(cells)
    if not isinstance(fit, Fit):
        raise DataError(
            f"{a_type(fit)} was given in the place of the fit; write impute_to(fit, data, folder,"
            " block)"
        )
    refuse_other_data(fit, data, block)
    place = portable_path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise DataError(f"{str(place)!r} is there and not an empty folder; give another one")
    files = [f"part-{p:05d}.parquet" for p in range(data.n_partitions)]
    with staging_directory(place, CELLS_LAYOUT, overwrite=True, needed=str) as unfinished:
        try:
            for p, file in enumerate(files):
                write_cells(unfinished / file, fit, data, block, p, cells == "all")
        except OSError as error:
            raise DataError(
                f"folder {str(place)!r} cannot be written ({error.strerror}); its files are"
                " deleted. Give a folder on a disk with more room"
            ) from error
        for file in files:
            os.replace(unfinished / file, place / file)
    return tuple(place / file for file in files)


def refuse_other_data(fit: Fit, data: PartitionedData, name: str) -> None:
    """Raise an error where the data cannot be those of the fit."""
    fit.model.block(name)  # which names the blocks there are
    if not is_partitioned(data):
        raise DataError(
            f"{a_type(data)} was given; the rows of the fit in partitions are needed, of"
            " mcframe.datasets.on_disk(folder) or from_dask(collections). Of a table in memory"
            " fit.impute(name) is the whole answer"
        )
    if name not in data.blocks:
        raise DataError(f"block {name!r}: the data have {', '.join(map(repr, data.blocks))} alone")
    fitted = fit.problem.tables[name].shape
    if data.shape(name) != fitted:
        raise DataError(
            f"block {name!r}: the data are {data.shape(name)[0]} x {data.shape(name)[1]} and the"
            f" fit is of {fitted[0]} x {fitted[1]}; give the data that were fitted"
        )
    if holds_other_entries(fit, data, name):
        raise DataError(
            f"block {name!r}: the data hold other entries than those of the fit; give the data"
            " that were fitted"
        )


def holds_other_entries(fit: Fit, data: PartitionedData, name: str) -> bool:
    """Compare the entries with those of the fit; False for a compact fit, which has none."""
    problem = fit.problem
    if isinstance(problem, PartitionedProblem):
        fitted = problem.partitions.source.data
        if fitted.fingerprint == data.fingerprint:
            return False
        expected = hashes_of_entries(fit, fitted, name)
    elif isinstance(problem.tables[name], TableWithoutData):
        return False
    else:
        expected = hash_sums(problem.tables[name].observed_entries().in_data_units(), 0, 0)
    return not np.array_equal(expected, hashes_of_entries(fit, data, name))


def hashes_of_entries(fit: Fit, data: PartitionedData, name: str) -> IntArray:
    """Return the sums of hashes of all entries of a block, in whatever partitions they are."""
    block = fit.model.block(name)
    tables = (read_part(block, data.part(p)[name]) for p in range(data.n_partitions))
    hashes = [
        hash_sums(table.observed_entries(), data.rows(p)[0], 0) for p, table in enumerate(tables)
    ]
    return np.sum(hashes, axis=0, dtype=np.uint64)


def write_cells(
    file: Path, fit: Fit, data: PartitionedData, name: str, p: int, with_observed: bool
) -> None:
    """Write the cells of a partition without its holes, some rows at a time."""
    (start, stop), n_columns = data.rows(p), data.shape(name)[1]
    block_data = data.part(p)[name]
    values = block_data.values if isinstance(block_data, Observations) else block_data
    table = read_values(fit.model.block(name), values)
    kinds = {"row": pa.int64(), "column": pa.int32(), "value": pa.float64()}
    schema = pa.schema(kinds | ({"observed": pa.bool_()} if with_observed else {}))
    height = max(1, BATCH_ENTRIES // n_columns)
    with pq.ParquetWriter(file, schema) as writer:
        for low in range(0, stop - start, height):
            high = min(low + height, stop - start)
            first, last = np.searchsorted(table.rows, [low, high])
            cells = (table.rows[first:last] - low) * n_columns + table.columns[first:last]
            filled = np.full((high - low) * n_columns, np.nan)
            filled[cells] = table.values[first:last]
            observed = np.zeros(filled.size, dtype=bool)
            observed[cells] = True
            rows, columns = np.divmod(np.arange(filled.size), n_columns)
            rows += start + low
            if not observed.all():
                at = {"rows": rows[~observed], "columns": columns[~observed]}
                means = fit.predict(name, **at)
                filled[~observed] = np.argmax(means, axis=1) if means.ndim > 1 else means
            kept = np.ones_like(observed) if with_observed else ~observed
            written = {"row": rows, "column": columns, "value": filled, "observed": observed}
            arrays = {field: written[field][kept] for field in schema.names}
            writer.write_table(pa.table(arrays, schema=schema))

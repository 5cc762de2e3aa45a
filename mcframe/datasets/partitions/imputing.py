"""The answers of a fit to Parquet files, partition by partition."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mcframe.answer import Fit
from mcframe.compile import PartitionedProblem
from mcframe.compile.partitions.binding import mixed_bits
from mcframe.compile.partitions.part import read_part
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError, ModelError
from mcframe.datasets.partitions.folder import FolderLayout, path_of, workshop
from mcframe.model.observations import Observations
from mcframe.model.partitioned import PartitionedData, is_partitioned
from mcframe.model.reading import read_values
from mcframe.model.table import LeftBehind, Table

__all__ = ["impute_to"]

pa: Any = Deferred("pyarrow", "writing Parquet files")
pq: Any = Deferred("pyarrow.parquet", "writing Parquet files")

CELLS = ("missing", "all")
CELLS_WRITTEN = FolderLayout("mcframe cells", "cells", "impute_to", "", r"part-\d+\.parquet")
# So many cells are in memory at a time.
AT_ONCE = 1 << 18


def impute_to(
    folder: str | os.PathLike[str],
    fit: Fit,
    data: PartitionedData,
    name: str,
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
    folder : path
        A new or an empty one.
    fit : Fit
    data : PartitionedData
        What was fitted, such as ``on_disk(folder)``.
    name : str
        Of the block.
    cells : "missing" or "all", default "missing"
        Which cells are written; ``"all"`` has a column ``observed``, true or false.

    Returns
    -------
    tuple of Path
        The files, in the order of the partitions.

    Raises
    ------
    DataError
        Where the folder is not empty or cannot be written, another call is at work there, or the
        data are not those of the fit: entries are compared, but of a compact fit, which has none,
        shapes alone. No file is left then.
    ModelError
        Where ``name`` is no block, or ``cells`` neither of these.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, mcframe as mc, mcframe.datasets as datasets
    >>> block = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, np.nan]])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1e-4)])
    >>> fit = mc.fit(model, {"x": block})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = datasets.write_partitions(pathlib.Path(folder, "x"), {"x": [block]})
    ...     files = datasets.impute_to(pathlib.Path(folder, "filled"), fit, table, "x")
    ...     for chunk in datasets.parquet_triples(files[0]):
    ...         print(chunk["row"], chunk["column"], chunk["value"].round(1))
    [2] [1] [2.2]
    """
    if cells not in CELLS:
        raise ModelError(f"cells={cells!r} was given; take one of {', '.join(map(repr, CELLS))}")
    refuse_other_data(fit, data, name)
    place = path_of(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise DataError(f"{str(place)!r} is there and not an empty folder; give another one")
    files = [f"part-{p:05d}.parquet" for p in range(data.n_partitions)]
    with workshop(place, CELLS_WRITTEN, overwrite=True, needed=str) as unfinished:
        try:
            for p, file in enumerate(files):
                write_file(unfinished / file, filled_cells(fit, data, name, p, cells == "all"))
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
            f"a {type(data).__name__} was given; the rows of the fit in partitions are needed, of"
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
    there = bits_of_fit(fit, data, name)
    if there is not None and not np.array_equal(there, bits_of_entries(fit, data, name)):
        raise DataError(
            f"block {name!r}: the data hold other entries than those of the fit; give the data"
            " that were fitted"
        )


def bits_of_fit(fit: Fit, data: PartitionedData, name: str) -> IntArray | None:
    """Return what the entries of a fit mix to, as ``bits_of_entries``; None where nobody knows.

    And where the data say by themselves that they are those of the fit.
    """
    problem = fit.problem
    if isinstance(problem, PartitionedProblem):
        fitted = problem.partitions.source.data
        same = fitted.fingerprint == data.fingerprint
        return None if same else bits_of_entries(fit, fitted, name)
    table = problem.tables[name]
    if isinstance(table, LeftBehind):
        return None
    return mixed_bits(table.observed_entries().as_given(), 0, 0)


def bits_of_entries(fit: Fit, data: PartitionedData, name: str) -> IntArray:
    """Return what the entries of a block mix to, in whatever partitions they are."""
    block = fit.model.block(name)
    tables = (read_part(block, data.part(p)[name]) for p in range(data.n_partitions))
    bits = [
        mixed_bits(table.observed_entries(), data.rows(p)[0], 0) for p, table in enumerate(tables)
    ]
    found: IntArray = np.sum(bits, axis=0, dtype=np.uint64)
    return found


def write_file(file: Path, tables: Iterator[dict[str, Any]]) -> None:
    """Write tables one after the other to a Parquet file."""
    kinds = {
        "row": pa.int64(),
        "column": pa.int32(),
        "value": pa.float64(),
        "observed": pa.bool_(),
    }
    first = next(tables)
    schema = pa.schema([(name, kinds[name]) for name in first])
    with pq.ParquetWriter(file, schema) as writer:
        writer.write_table(pa.table(first, schema=schema))
        for table in tables:
            writer.write_table(pa.table(table, schema=schema))


def filled_cells(
    fit: Fit, data: PartitionedData, name: str, p: int, with_observed: bool
) -> Iterator[dict[str, Any]]:
    """Yield the cells of a partition without its holes, some rows at a time."""
    (start, stop), n_columns = data.rows(p), data.shape(name)[1]
    given = data.part(p)[name]
    values = given.values if isinstance(given, Observations) else given
    table = read_values(fit.model.block(name), values)
    height = max(1, AT_ONCE // n_columns)
    for low in range(0, stop - start, height):
        high = min(low + height, stop - start)
        there, observed = observed_between(table, low, high)
        wanted = np.arange(there.size) if with_observed else np.flatnonzero(~there)
        rows, columns = wanted // n_columns + start + low, wanted % n_columns
        filled = observed[wanted]
        holes = ~there[wanted]
        filled[holes] = mean_or_class(fit, name, rows[holes], columns[holes])
        yield {
            "row": rows,
            "column": columns,
            "value": filled,
            **({"observed": ~holes} if with_observed else {}),
        }


def observed_between(table: Table, low: int, high: int) -> tuple[Any, Array]:
    """Return of each cell of some rows whether it is observed, and its value."""
    first, last = np.searchsorted(table.rows, [low, high])
    cells = (table.rows[first:last] - low) * table.shape[1] + table.columns[first:last]
    there = np.zeros((high - low) * table.shape[1], dtype=bool)
    values = np.full(there.size, np.nan)
    there[cells], values[cells] = True, table.values[first:last]
    return there, values


def mean_or_class(fit: Fit, name: str, rows: IntArray, columns: IntArray) -> Array:
    """Return the mean response at some entries, of classes the most probable one."""
    if not rows.size:
        return np.empty(0)
    found = fit.predict(name, rows=rows, columns=columns)
    return np.argmax(found, axis=1).astype(np.float64) if found.ndim > 1 else found

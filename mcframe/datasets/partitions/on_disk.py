"""Partitions in a folder, as ``fit`` takes them: each is read when it is asked for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.folder import Folder, FolderLayout, path_of
from mcframe.model.chunks.entries import data_of, type_of_places
from mcframe.model.labels import AxisLabels
from mcframe.model.partitioned import CountedPartitions

pa: Any = Deferred("pyarrow", "a table in a folder (mcframe[disk])")
pq: Any = Deferred("pyarrow.parquet", "a table in a folder (mcframe[disk])")

PARTITIONS = FolderLayout(
    "mcframe partitions",
    "partitions",
    "write_partitions",
    "mcframe-partitions.json",
    # DuckDB keeps temporary files there while entries are sorted.
    r"p\d+-b\d+\.parquet|(rows|b\d+)\.labels\.parquet|b\d+\.entries\.arrow|duckdb_temp.*",
)


@attrs.frozen(eq=False, repr=False)
class PartitionsOnDisk(CountedPartitions):
    """A table in a folder, its rows cut into partitions, made by ``on_disk``.

    It stands where ``data`` stands in ``fit``. In memory it is the manifest alone: shapes, and
    names and sizes of files. It pickles to the name of the folder and its fingerprint, so that
    another process, which sees the folder under the same name, reads the parts by itself.

    Attributes
    ----------
    stored : Folder
        Its facts are ``starts``, and of each of the ``blocks`` its ``columns``, the additions
        ``beside`` the values, and its ``entries``.
    stamp : tuple of int
        Of the manifest's file when it was read, by which another one in its place is seen.
    """

    stored: Folder
    stamp: tuple[int, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (str(self.folder), self.fingerprint)

    @property
    def folder(self) -> Path:
        """The path of the folder, the same in every process."""
        return self.stored.path

    @property
    def fingerprint(self) -> str:
        """A digest of shapes, partitions and checksums: equal for equal content."""
        return self.stored.fingerprint

    @property
    def n_bytes(self) -> int:
        """The size of all files together."""
        return sum(file.size for file in self.stored.files.values())

    def additions(self, name: str) -> tuple[str, ...]:
        """Names of the additions to the values of a block: weight, offset, exposure."""
        return tuple(self.stored.facts["blocks"][name]["beside"])

    def part(self, p: int) -> Mapping[str, Any]:
        """Return the entries of partition p by block, as ``Problem.bind`` takes them.

        Each is a ``scipy.sparse.csr_array`` (rows of the partition x columns of the block), or
        ``Observations`` of one with additions of the same form. Each time all bytes that are
        read are compared with their checksums.

        Raises
        ------
        DataError
            Where a file is not there, or does not hold what was written, or the folder was
            written anew with another table.
        """
        try:
            return {name: self.block_of(p, name) for name in self.blocks}
        except DataError:
            if stamp_of(self.folder) != self.stamp:
                reopen(str(self.folder), self.fingerprint)
            raise

    def block_of(self, p: int, name: str) -> Any:
        """Return one block of partition p."""
        (start, stop), n_columns = self.rows(p), self.shape(name)[1]
        content = self.stored.read(file_of_entries(p, self.blocks.index(name)))
        file = pq.ParquetFile(pa.BufferReader(content))

        def array(column: str) -> npt.NDArray[Any]:
            numbers = file.read([column], use_threads=False).column(0).to_numpy()
            numbers.flags.writeable = False
            return numbers

        counts = np.bincount(array("row") - start, minlength=stop - start)
        places = type_of_places(file.metadata.num_rows)
        arrays = {what: array(what) for what in ("value", *self.additions(name))}
        arrays["columns"] = array("column").astype(places, copy=False)
        arrays["indptr"] = np.concatenate([[0], np.cumsum(counts)]).astype(places)
        return data_of(arrays, (stop - start, n_columns))

    @property
    def row_labels(self) -> AxisLabels | None:
        """The labels of the rows, read from the folder; None where it has none."""
        return self.labels(file_of_labels(None), "row")

    def column_labels(self, name: str) -> AxisLabels | None:
        """Return the labels of the columns of a block, None where the folder has none."""
        return self.labels(file_of_labels(self.blocks.index(name)), "column")

    def labels(self, file: str, axis: str) -> AxisLabels | None:
        """Return the labels of a file, if it is there."""
        if file not in self.stored.files:
            return None
        table = pq.read_table(pa.BufferReader(self.stored.read(file)), use_threads=False)
        return AxisLabels(tuple(table["label"].to_pylist()), axis)

    def __repr__(self) -> str:
        place = f"{self.n_bytes / 1e6:.3g} MB in {str(self.folder)!r}"
        return f"{CountedPartitions.__repr__(self)}, {place}"


def on_disk(folder: str | os.PathLike[str], *, verify: bool = False) -> PartitionsOnDisk:
    """Open a folder that ``write_partitions`` has written, as data of ``fit``.

    The manifest, and that all files are there in their sizes, is checked here. Each time a file
    is read its bytes are compared with their checksum.

    Parameters
    ----------
    folder : path
    verify : bool, default False
        Read all files and compare their checksums now.

    Returns
    -------
    PartitionsOnDisk
        The table; its entries stay on the disk.

    Raises
    ------
    DataError
        For a folder that is not there, not ours, not finished, damaged, or of another format.

    Examples
    --------
    >>> import tempfile, numpy as np, mcframe.datasets as datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     halves = [np.array([[1.0, np.nan]]), np.array([[2.0, 3.0]])]
    ...     _ = datasets.write_partitions(folder, {"x": halves})
    ...     table = datasets.on_disk(folder, verify=True)
    ...     table.n_partitions, table.shape("x"), table.n_entries(0)
    (1, (2, 2), 3)
    """
    table = opened(path_of(folder))
    for name in table.stored.files:
        if verify:
            table.stored.read(name)
        else:
            table.stored.check_size(name)
    return table


def opened(path: Path) -> PartitionsOnDisk:
    """Open a folder by its manifest alone."""
    stamp, stored = stamp_of(path), Folder.open(path, PARTITIONS)
    blocks = stored.facts["blocks"]
    return PartitionsOnDisk(
        stored,
        stamp,
        starts=stored.facts["starts"],
        columns={name: block["columns"] for name, block in blocks.items()},
        entries={name: block["entries"] for name, block in blocks.items()},
    )


def reopen(folder: str, fingerprint: str) -> PartitionsOnDisk:
    """Open a folder in another process, or raise a ``DataError`` where it holds another table."""
    table = opened(Path(folder))
    if table.fingerprint != fingerprint:
        raise DataError(
            f"folder {folder!r} holds another table here than where the work began; was it"
            " written again, or is it another folder of the same name on this machine?"
        )
    return table


def stamp_of(folder: Path) -> tuple[int, ...]:
    """Return what changes when a folder gets another manifest; nothing where it has none."""
    try:
        status = (folder / PARTITIONS.manifest).stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def file_of_entries(partition: int, block: int) -> str:
    """Return the name of the file with the entries of a block in a partition."""
    return f"p{partition:05d}-b{block}.parquet"


def file_of_labels(block: int | None) -> str:
    """Return the name of the file with labels of the columns of a block, or of the rows."""
    return "rows.labels.parquet" if block is None else f"b{block}.labels.parquet"

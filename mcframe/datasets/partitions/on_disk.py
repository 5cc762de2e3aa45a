"""Partitions in a folder, as ``fit`` takes them: each is read when it is asked for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy.typing as npt

from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.header import (
    HEADER,
    PARTITIONS,
    Header,
    check_size,
    file_name,
    path_of,
    read_array,
    read_header,
)
from mcframe.datasets.partitions.labels import labels_from
from mcframe.model.chunks.assembling import data_of
from mcframe.model.labels import Labels

__all__ = ["PartitionsOnDisk", "on_disk"]


@attrs.frozen(eq=False, repr=False)
class PartitionsOnDisk:
    """A table in a folder, its rows cut into partitions, made by ``on_disk``.

    It stands where ``data`` stands in ``fit``. In memory it is the header alone: shapes, and
    names and sizes of files. It pickles to the name of the folder and its fingerprint, so that
    another process, which sees the folder under the same name, reads the parts by itself.

    Attributes
    ----------
    folder : Path
    header : Header
    stamp : tuple of int
        Of the header's file when it was read, by which another one in its place is seen.
    """

    folder: Path
    header: Header
    stamp: tuple[int, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (str(self.folder), self.fingerprint)

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return len(self.header.starts) - 1

    @property
    def n_items(self) -> int:
        """The number of rows of all partitions together."""
        return self.header.starts[-1]

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks."""
        return tuple(self.header.columns)

    @property
    def fingerprint(self) -> str:
        """A digest of shapes, partitions and checksums: equal for equal content."""
        return self.header.fingerprint

    @property
    def n_bytes(self) -> int:
        """The size of all files together."""
        return sum(stored.size for stored in self.header.files.values())

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a block, (n_items, its columns)."""
        return self.n_items, self.header.columns[name]

    def rows(self, p: int) -> tuple[int, int]:
        """The first row of partition p, and the one after its last."""
        return self.header.starts[p], self.header.starts[p + 1]

    def n_entries(self, p: int) -> int:
        """The entries of partition p, all blocks together."""
        return sum(counts[p] for counts in self.header.entries.values())

    def block_entries(self, name: str, p: int) -> int:
        """The entries of a block in partition p."""
        return self.header.entries[name][p]

    def additions(self, name: str) -> tuple[str, ...]:
        """What the entries of a block have beside their values."""
        return self.header.additions[name]

    def part(self, p: int) -> Mapping[str, Any]:
        """Return the entries of partition p by block, as ``Problem.bind`` takes them.

        Each is a ``scipy.sparse.csr_array`` (rows of the partition x columns of the block), or
        ``Observations`` of one, with such matrices beside it. Each time all bytes that are read
        are compared with their checksums.

        Raises
        ------
        DataError
            Where a file is not there, or does not hold what was written, or the folder was
            written anew with another table.
        """
        try:
            return {name: self.block_of(p, position) for position, name in enumerate(self.blocks)}
        except DataError:
            if stamp_of(self.folder) != self.stamp:
                reopen(str(self.folder), self.fingerprint)
            raise

    def block_of(self, p: int, position: int) -> Any:
        """Return one block of partition p."""
        name, (start, stop) = self.blocks[position], self.rows(p)
        there = ("indptr", "columns", "value", *self.header.additions[name])
        arrays = {what: self.array(p, position, what) for what in there}
        return data_of(arrays, (stop - start, self.header.columns[name]))

    @property
    def row_labels(self) -> Labels | None:
        """The labels of the rows, read from the folder; None where it has none."""
        return self.labels("rows", "row")

    def column_labels(self, name: str) -> Labels | None:
        """Return the labels of the columns of a block, None where the folder has none."""
        return self.labels(f"b{self.blocks.index(name)}", "column")

    def labels(self, prefix: str, name: str) -> Labels | None:
        """Return the labels whose files begin so."""
        files = [f"{prefix}.{what}.npy" for what in ("labels", "ends")]
        if files[0] not in self.header.files:
            return None
        numbers, ends = (
            self.stored(file) if file in self.header.files else None for file in files
        )
        assert numbers is not None
        return labels_from(numbers, ends, name)

    def array(self, p: int, position: int, what: str) -> npt.NDArray[Any]:
        """Return an array of a block of partition p, read-only."""
        return self.stored(file_name(p, position, what))

    def stored(self, name: str) -> npt.NDArray[Any]:
        """Return the array of a file, read-only, its checksum compared."""
        return read_array(self.folder, name, self.header.files[name], PARTITIONS.writer)

    def __repr__(self) -> str:
        tables = ", ".join(
            f"{name!r} {self.n_items} x {self.header.columns[name]} with"
            f" {sum(self.header.entries[name])} entries"
            for name in self.blocks
        )
        return (
            f"PartitionsOnDisk: {tables}; {self.n_partitions} partitions,"
            f" {self.n_bytes / 1e6:.3g} MB in {str(self.folder)!r}"
        )


def on_disk(folder: str | os.PathLike[str], *, verify: bool = False) -> PartitionsOnDisk:
    """Open a folder that ``write_partitions`` has written, as data of ``fit``.

    The header, and that all files are there in their sizes, is checked here. Each time a file is
    read its bytes are compared with their checksum.

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
    path = path_of(folder)
    stamp, header = stamp_of(path), read_header(path)
    for name, stored in header.files.items():
        (read_array if verify else check_size)(path, name, stored, PARTITIONS.writer)
    return PartitionsOnDisk(path, header, stamp)


def stamp_of(folder: Path) -> tuple[int, ...]:
    """Return what changes when a folder gets another header; nothing where it has none."""
    try:
        found = (folder / HEADER).stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def reopen(folder: str, fingerprint: str) -> PartitionsOnDisk:
    """Open a folder in another process, or raise a ``DataError`` where it holds another table."""
    path = Path(folder)
    stamp, header = stamp_of(path), read_header(path)
    if header.fingerprint != fingerprint:
        raise DataError(
            f"folder {folder!r} holds another table here than where the work began; was it"
            " written again, or is it another folder of the same name on this machine?"
        )
    return PartitionsOnDisk(path, header, stamp)

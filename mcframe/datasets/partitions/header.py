"""The header of a folder of partitions, and its files: their names, sizes and checksums."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
import numpy.typing as npt

from mcframe import __version__
from mcframe.contracts.errors import DataError
from mcframe.numerics.digest import digest_of

__all__ = [
    "HEADER",
    "WORKSHOP",
    "Header",
    "StoredFile",
    "check_content",
    "check_size",
    "damaged",
    "file_name",
    "path_of",
    "read_header",
    "save_array",
]

KIND, FORMAT = "mcframe partitions", 1
HEADER = "mcframe-partitions.json"
# Where files are until all of them are there.
WORKSHOP = "mcframe-writing"


@attrs.frozen
class StoredFile:
    """The size of a file in bytes, and a checksum of them (BLAKE2b, 16 bytes)."""

    size: int
    checksum: str


@attrs.frozen
class Header:
    """What a folder of partitions holds.

    Attributes
    ----------
    version : str
        Of the mcframe that wrote it.
    starts : tuple of int (n_partitions + 1)
        The first row of each partition, and the number of rows.
    columns : dict from block name to int
        The number of columns of each block; the order is that of the blocks' files.
    additions : dict from block name to tuple of str
        What the entries of each block have beside their values.
    entries : dict from block name to tuple of int (n_partitions)
        How many entries of the block each partition has.
    files : dict from name to StoredFile
    """

    version: str
    starts: tuple[int, ...]
    columns: Mapping[str, int]
    additions: Mapping[str, tuple[str, ...]]
    entries: Mapping[str, tuple[int, ...]]
    files: Mapping[str, StoredFile]

    @property
    def fingerprint(self) -> str:
        """A digest of shapes, partitions and checksums: equal for equal content."""
        return digest_of(
            [self.starts, self.columns, self.additions, self.entries, sorted(self.checksums)]
        )

    @property
    def checksums(self) -> list[tuple[str, str]]:
        """The checksum of each file."""
        return [(name, stored.checksum) for name, stored in self.files.items()]

    def as_json(self) -> str:
        """Return the header as text."""
        facts = {"kind": KIND, "format": FORMAT, **attrs.asdict(self)}
        return json.dumps({**facts, "fingerprint": self.fingerprint}, indent=1)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Header":
        """Return the header that ``as_json`` was asked for."""
        return cls(
            version=facts["version"],
            starts=tuple(facts["starts"]),
            columns=dict(facts["columns"]),
            additions={name: tuple(names) for name, names in facts["additions"].items()},
            entries={name: tuple(counts) for name, counts in facts["entries"].items()},
            files={name: StoredFile(**stored) for name, stored in facts["files"].items()},
        )


def path_of(given: str | os.PathLike[str]) -> Path:
    """Return a path that says the same in every process, wherever it runs."""
    return Path(os.path.abspath(Path(os.fsdecode(given)).expanduser()))


def file_name(partition: int, block: int, what: str) -> str:
    """Return the name of the file with one array of a block of a partition."""
    return f"p{partition:05d}-b{block}.{what}.npy"


def read_header(folder: Path) -> Header:
    """Return the header of a folder.

    Raises
    ------
    DataError
        Where there is none, or it is damaged, or of another format.
    """
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {str(folder)!r}; mcframe.datasets.write_partitions writes one"
        )
    try:
        facts = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(without_header(folder)) from None
    except (OSError, ValueError) as error:
        raise DataError(damaged(folder, f"its header {HEADER} cannot be read: {error}")) from None
    if not isinstance(facts, dict) or facts.get("kind") != KIND:
        raise DataError(damaged(folder, f"its header {HEADER} says no {KIND}"))
    if facts.get("format") != FORMAT:
        raise DataError(
            f"folder {str(folder)!r} was written by mcframe {facts.get('version')} in format"
            f" {facts.get('format')}, and mcframe {__version__} reads format {FORMAT};"
            " write it again with this version, or read it with that one"
        )
    try:
        header = Header.from_json(facts)
        whole = header.fingerprint == facts["fingerprint"]
    except (KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise DataError(damaged(folder, f"its header {HEADER} does not agree with itself"))
    return header


def without_header(folder: Path) -> str:
    """Say what a folder without a header is."""
    if (folder / WORKSHOP).is_dir():
        return (
            f"folder {str(folder)!r} is not finished: write_partitions is still at work there, or"
            " was stopped; write it again with overwrite=True"
        )
    return (
        f"folder {str(folder)!r} holds no partitions: {HEADER} is not there; give a folder that"
        " mcframe.datasets.write_partitions has written"
    )


def damaged(folder: Path, how: str, writer: str = "write_partitions") -> str:
    """Say that a folder is damaged, how, and what to do."""
    return f"folder {str(folder)!r} is damaged: {how}. Write it again with {writer}"


def save_array(path: Path, array: npt.NDArray[Any]) -> StoredFile:
    """Write an array as ``.npy`` and return its size and its checksum."""
    with path.open("wb") as file:
        summed = Summed(file)
        np.lib.format.write_array(summed, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())  # the header, which says that it is there, comes later
    return StoredFile(summed.size, summed.digest.hexdigest())


class Summed:
    """A file to write to that counts bytes and sums them up."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = 0
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, data: bytes) -> int:
        """Write bytes, and take them into size and digest."""
        self.size += len(data)
        self.digest.update(data)
        return self.file.write(data)


def checksum_of(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def check_size(
    folder: Path, name: str, stored: StoredFile, writer: str = "write_partitions"
) -> None:
    """Raise a ``DataError`` where a file is not there or has another size."""
    try:
        size = (folder / name).stat().st_size
    except FileNotFoundError:
        raise DataError(damaged(folder, f"its file {name} is not there", writer)) from None
    if size != stored.size:
        how = f"its file {name} has {size} bytes and should have {stored.size}"
        raise DataError(damaged(folder, how, writer))


def check_content(
    folder: Path, name: str, stored: StoredFile, writer: str = "write_partitions"
) -> None:
    """Raise a ``DataError`` where a file holds other bytes than were written."""
    check_size(folder, name, stored, writer)
    if checksum_of(folder / name) != stored.checksum:
        how = f"its file {name} holds other bytes than were written"
        raise DataError(damaged(folder, how, writer))

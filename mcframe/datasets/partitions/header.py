"""The header of a folder of partitions, and its files: their names, sizes and checksums."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from io import BytesIO
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
    "LOCK",
    "PARTITIONS",
    "WORKSHOP",
    "Header",
    "StoredFile",
    "Written",
    "as_text",
    "check_size",
    "damaged",
    "file_name",
    "path_of",
    "read_array",
    "read_facts",
    "read_header",
    "save_array",
]

# Of folders of partitions and of fits: 2 since a header has a checksum of its own.
FORMAT = 2
HEADER = "mcframe-partitions.json"
# Where files are until all of them are there, and the file that their writer holds.
WORKSHOP, LOCK = "mcframe-writing", "lock"


@attrs.frozen
class Written:
    """What one function writes into a folder: that, its own name, its header, and other files."""

    kind: str  # by which its header is known
    what: str
    writer: str
    header: str
    files: str  # a regular expression

    def is_ours(self, path: Path) -> bool:
        """Whether a path inside a folder was written by that function, which may just move it."""
        if path.name == WORKSHOP and not path.is_file():
            return all(file.name == LOCK or self.is_ours(file) for file in path.iterdir())
        named = path.name == self.header or re.fullmatch(self.files, path.name) is not None
        return named and not path.is_dir()


PARTITIONS = Written(
    "mcframe partitions",
    "partitions",
    "write_partitions",
    HEADER,
    r"p\d+-b\d+\.(indptr|columns|value|weight|offset|exposure)\.npy|b\d+\.spool"
    r"|p\d+-b\d+\.bucket|(rows|b\d+)\.(labels|ends)\.npy",
)


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
        return as_text(PARTITIONS, attrs.asdict(self))

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


def as_text(ours: Written, facts: Mapping[str, Any]) -> str:
    """Return the facts of a header as JSON, with a checksum of them."""
    known = {"kind": ours.kind, "format": FORMAT, **facts}
    return json.dumps({**known, "checksum": checksum_of_facts(known)}, indent=1)


def checksum_of_facts(facts: Mapping[str, Any]) -> str:
    """Return the checksum of what a header says, however it is written down."""
    return checksum_of(json.dumps(facts, sort_keys=True).encode())


def read_header(folder: Path) -> Header:
    """Return the header of a folder, or raise a ``DataError`` as ``read_facts`` does."""
    return Header.from_json(read_facts(folder, PARTITIONS))


def read_facts(folder: Path, ours: Written) -> dict[str, Any]:
    """Return the facts of a folder's header.

    Raises
    ------
    DataError
        Where there is no header, or it is damaged, or of another format.
    """
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {str(folder)!r}; mcframe.datasets.{ours.writer} writes one"
        )
    try:
        facts = json.loads((folder / ours.header).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(without_header(folder, ours)) from None
    except (OSError, ValueError, RecursionError) as error:
        how = f"its header {ours.header} cannot be read: {error}"
        raise DataError(damaged(folder, how, ours.writer)) from None
    if not isinstance(facts, dict) or facts.get("kind") != ours.kind:
        how = f"its header {ours.header} says no {ours.kind}"
        raise DataError(damaged(folder, how, ours.writer))
    # Headers of format 1 had none: they are told apart from later ones that are damaged.
    checksum = facts.pop("checksum", None)
    whole = checksum == checksum_of_facts(facts)
    if facts.get("format") != FORMAT and (whole or checksum is None):
        raise DataError(
            f"folder {str(folder)!r} was written by mcframe {facts.get('version')} in format"
            f" {facts.get('format')}, and mcframe {__version__} reads format {FORMAT};"
            " write it again with this version, or read it with that one"
        )
    if not whole:
        how = f"its header {ours.header} does not agree with itself"
        raise DataError(damaged(folder, how, ours.writer))
    return facts


def without_header(folder: Path, ours: Written) -> str:
    """Say what a folder without a header is."""
    if (folder / WORKSHOP).is_dir():
        return (
            f"folder {str(folder)!r} is not finished: {ours.writer} is still at work there, or"
            " was stopped; write it again with overwrite=True"
        )
    return (
        f"folder {str(folder)!r} holds no {ours.kind}: {ours.header} is not there; give a folder"
        f" that mcframe.datasets.{ours.writer} has written"
    )


def damaged(folder: Path, how: str, writer: str) -> str:
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


def checksum_of(content: bytes) -> str:
    """Return the checksum of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def check_size(folder: Path, name: str, stored: StoredFile, writer: str) -> None:
    """Raise a ``DataError`` where a file is not there or has another size."""
    try:
        size = (folder / name).stat().st_size
    except FileNotFoundError:
        raise DataError(damaged(folder, f"its file {name} is not there", writer)) from None
    except OSError as error:
        raise DataError(damaged(folder, unreadable(name, error), writer)) from None
    if size != stored.size:
        how = f"its file {name} has {size} bytes and should have {stored.size}"
        raise DataError(damaged(folder, how, writer))


def read_array(folder: Path, name: str, stored: StoredFile, writer: str) -> npt.NDArray[Any]:
    """Return the array of a file, read-only, whose bytes are those that were written.

    All of it is read into memory: where a file that is mapped there is cut off, the system ends
    the process, and where it is changed nobody notices.

    Raises
    ------
    DataError
        Where the file is not there, cannot be read, or holds other bytes.
    """
    check_size(folder, name, stored, writer)
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise DataError(damaged(folder, unreadable(name, error), writer)) from None
    if checksum_of(content) != stored.checksum:
        how = f"its file {name} holds other bytes than were written"
        raise DataError(damaged(folder, how, writer))
    stream = BytesIO(content)
    np.lib.format.read_magic(stream)
    shape, columnwise, dtype = np.lib.format.read_array_header_1_0(stream)
    numbers = np.frombuffer(content, dtype, offset=stream.tell())
    return numbers.reshape(shape, order="F" if columnwise else "C")


def unreadable(name: str, error: OSError) -> str:
    """Say that a file is there and cannot be read."""
    return f"its file {name} cannot be read ({error.strerror})"

"""The folder that partitions are written into: nobody else's files, and all of ours or none."""

import errno
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import attrs

from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.header import HEADER, WORKSHOP, StoredFile

__all__ = ["Needed", "Written", "prepare_folder", "publish", "refuse_full", "workshop"]


@attrs.frozen
class Written:
    """What one function writes into a folder: that, its own name, its header, and other files."""

    what: str
    writer: str
    header: str
    files: str  # a regular expression

    def is_ours(self, path: Path) -> bool:
        """Whether a path inside a folder was written by that function."""
        if path.name == WORKSHOP and path.is_dir():
            return all(map(self.is_ours, path.iterdir()))
        named = path.name == self.header or re.fullmatch(self.files, path.name) is not None
        return path.is_file() and named


PARTITIONS = Written(
    "partitions",
    "write_partitions",
    HEADER,
    r"p\d+-b\d+\.(indptr|columns|value|weight|offset|exposure)\.npy|b\d+\.spool"
    r"|p\d+-b\d+\.bucket|(rows|b\d+)\.(labels|ends)\.npy",
)
# A disk, a quota or a limit that has no room for more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# How many files that are not ours a message shows.
SHOWN = 3


class Room(Protocol):
    """What knows how much room a disk has to have."""

    def in_words(self) -> str:
        """Say what was to be written, and how many bytes it needs."""
        ...


class Index(Protocol):
    """A header: what files there are."""

    @property
    def files(self) -> Mapping[str, StoredFile]:
        """The files beside the header."""
        ...

    def as_json(self) -> str:
        """Return the header as text."""
        ...


def prepare_folder(folder: Path, overwrite: bool, ours: Written = PARTITIONS) -> None:
    """See that a folder can be written into; nothing is deleted yet.

    Raises
    ------
    DataError
        Where it is a file, holds files that are not ours, or ours without ``overwrite``.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; the path of a folder is needed")
    if not folder.exists():
        return
    foreign = sorted(file.name for file in folder.iterdir() if not ours.is_ours(file))
    if foreign:
        shown = ", ".join(map(repr, foreign[:SHOWN]))
        more = f" and {len(foreign) - SHOWN} more" if len(foreign) > SHOWN else ""
        raise DataError(
            f"folder {str(folder)!r} holds {shown}{more}, not written by {ours.writer} and not"
            " deleted by it either; give an empty folder or a new one"
        )
    if any(folder.iterdir()) and not overwrite:
        raise DataError(
            f"folder {str(folder)!r} holds {ours.what} already, or the rest of an unfinished"
            " writing; give another folder, or overwrite=True to delete what is there"
        )


@contextmanager
def workshop(folder: Path, needed: Room, ours: Written = PARTITIONS) -> Iterator[Path]:
    """Make the place for files that are not finished, and clear it away whatever happens.

    Raises
    ------
    DataError
        Where the disk is full, with how many bytes were needed.
    """
    fresh = not folder.exists()
    place = folder / WORKSHOP
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clear(place, ours)
        place.mkdir()
        yield place
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DataError(
            f"no room in folder {str(folder)!r} ({error.strerror}): {needed.in_words()}"
            f" and {shutil.disk_usage(folder).free} bytes are free. What was written is deleted;"
            " make room, or give a folder on another disk"
        ) from error
    finally:
        clear(place, ours)
        if fresh and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@attrs.define
class Needed:
    """How much room a disk has to have, as far as it is known.

    Attributes
    ----------
    n_entries : int
    blocks : dict from block name to int
        The bytes of the entries of each, which stand there twice while they are sorted.
    """

    n_entries: int = 0
    blocks: dict[str, int] = attrs.field(factory=dict)

    def add(self, name: str, n_entries: int, size: int) -> None:
        """Take in entries of a block, each of a size in bytes."""
        self.n_entries += n_entries
        self.blocks[name] = self.blocks.get(name, 0) + n_entries * size

    @property
    def n_bytes(self) -> int:
        """The largest number of bytes that are there at a time: blocks are sorted in turn."""
        return sum(self.blocks.values()) + max(self.blocks.values(), default=0)

    def in_words(self) -> str:
        """Say how many bytes the entries take that were read so far."""
        return (
            f"{self.n_entries} entries were read, which need {self.n_bytes} bytes there while they"
            " are sorted"
        )


def refuse_full(place: Path, n_bytes: int) -> None:
    """Raise the error of a full disk where so many bytes more would fill it."""
    if shutil.disk_usage(place).free < n_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def clear(place: Path, ours: Written) -> None:
    """Delete our files in a workshop, and it if nothing else is in there."""
    if not place.is_dir():
        return
    for file in place.iterdir():
        if ours.is_ours(file):
            file.unlink()
    place.rmdir()


def publish(place: Path, folder: Path, header: Index, ours: Written = PARTITIONS) -> None:
    """Move finished files from the workshop into the folder; the header comes last.

    What the folder held before goes now, when the new files are all written: a reader finds
    the old content, no header, or the new content.
    """
    with (place / ours.header).open("w", encoding="utf-8") as file:
        file.write(header.as_json())
        file.flush()
        os.fsync(file.fileno())
    (folder / ours.header).unlink(missing_ok=True)
    for old in folder.iterdir():
        if old.is_file() and old.name not in header.files and ours.is_ours(old):
            old.unlink()
    for name in (*header.files, ours.header):
        os.replace(place / name, folder / name)

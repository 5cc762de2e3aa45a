"""The folder that partitions are written into: nobody else's files, and all of ours or none."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import attrs

from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.header import LOCK, PARTITIONS, WORKSHOP, StoredFile, Written
from mcframe.numerics.machine import held

__all__ = ["Needed", "publish", "refuse_full", "workshop"]


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


def check_folder(folder: Path, overwrite: bool, ours: Written) -> None:
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
        raise DataError(taken(folder, ours))


@contextmanager
def workshop(
    folder: Path, needed: Room, overwrite: bool, ours: Written = PARTITIONS
) -> Iterator[Path]:
    """Make the place for files that are not finished, and clear it away whatever happens.

    Raises
    ------
    DataError
        Where the folder cannot be written into, as ``check_folder`` says, or another writer is at
        work there; where the disk is full, with how many bytes were needed.
    """
    fresh, place = not folder.exists(), folder / WORKSHOP
    with ExitStack() as stack:
        try:
            check_folder(folder, overwrite, ours)
            place.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(place / LOCK))
        except (BlockingIOError, FileNotFoundError):  # or it clears its place away just now
            raise DataError(
                f"another {ours.writer} is at work in folder {str(folder)!r}; wait until it has"
                " ended, or give another folder"
            ) from None
        except OSError as error:
            raise DataError(
                f"folder {str(folder)!r} cannot be written into ({error.strerror}); give another"
            ) from None
        try:
            if not overwrite and any(file != place for file in folder.iterdir()):
                raise DataError(taken(folder, ours))  # since it was looked at
            clear(place, ours)
            yield place
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise DataError(
                f"no room in folder {str(folder)!r} ({error.strerror}): {needed.in_words()}"
                f" and {shutil.disk_usage(folder).free} bytes are free. What was written is"
                " deleted; make room, or give a folder on another disk"
            ) from error
        finally:
            clear(place, ours)
            with suppress(OSError):  # where another writer has just come
                (place / LOCK).unlink()
                place.rmdir()
                if fresh:
                    folder.rmdir()


def taken(folder: Path, ours: Written) -> str:
    """Say that a folder holds files of ours."""
    return (
        f"folder {str(folder)!r} holds {ours.what} already, or the rest of an unfinished writing;"
        " give another folder, or overwrite=True to delete what is there"
    )


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
    """Delete our files in a workshop."""
    for file in place.iterdir():
        if ours.is_ours(file):
            file.unlink()


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

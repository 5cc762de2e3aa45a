"""The folder that partitions are written into: nobody else's files, and all of ours or none."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.header import HEADER, WORKSHOP, Header

__all__ = ["Needed", "prepare_folder", "publish", "refuse_full", "workshop"]

OURS = re.compile(
    r"p\d+-b\d+\.(indptr|columns|value|weight|offset|exposure)\.npy|b\d+\.spool|p\d+-b\d+\.bucket"
    rf"|{re.escape(HEADER)}"
)
# A disk, a quota or a limit that has no room for more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# How many files that are not ours a message shows.
SHOWN = 3


def prepare_folder(folder: Path, overwrite: bool) -> None:
    """Make a folder to write partitions into; nothing is deleted yet.

    Raises
    ------
    DataError
        Where it is a file, holds files that are not ours, or partitions without ``overwrite``.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; the path of a folder is needed")
    if not folder.exists():
        return
    foreign = sorted(file.name for file in folder.iterdir() if not is_ours(file))
    if foreign:
        shown = ", ".join(map(repr, foreign[:SHOWN]))
        more = f" and {len(foreign) - SHOWN} more" if len(foreign) > SHOWN else ""
        raise DataError(
            f"folder {str(folder)!r} holds {shown}{more}, not written by write_partitions and not"
            " deleted by it either; give an empty folder or a new one"
        )
    if any(folder.iterdir()) and not overwrite:
        raise DataError(
            f"folder {str(folder)!r} holds partitions already, or the rest of an unfinished"
            " writing; give another folder, or overwrite=True to delete what is there"
        )


def is_ours(path: Path) -> bool:
    """Whether a path inside a folder of partitions was written by us."""
    if path.name == WORKSHOP and path.is_dir():
        return all(map(is_ours, path.iterdir()))
    return path.is_file() and OURS.fullmatch(path.name) is not None


@contextmanager
def workshop(folder: Path, needed: "Needed") -> Iterator[Path]:
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
        clear(place)
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
        clear(place)
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


def clear(place: Path) -> None:
    """Delete our files in a workshop, and it if nothing else is in there."""
    if not place.is_dir():
        return
    for file in place.iterdir():
        if is_ours(file):
            file.unlink()
    place.rmdir()


def publish(place: Path, folder: Path, header: Header) -> None:
    """Move finished files from the workshop into the folder; the header comes last.

    What the folder held before goes now, when the new files are all written: a reader finds
    the old content, no header, or the new content.
    """
    with (place / HEADER).open("w", encoding="utf-8") as file:
        file.write(header.as_json())
        file.flush()
        os.fsync(file.fileno())
    (folder / HEADER).unlink(missing_ok=True)
    for old in folder.iterdir():
        if old.is_file() and old.name not in header.files and is_ours(old):
            old.unlink()
    for name in (*header.files, HEADER):
        os.replace(place / name, folder / name)

"""Folders whose files are all there or none: a manifest with checksums, one writer at a time."""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from mcframe import __version__
from mcframe.contracts.errors import DataError
from mcframe.numerics.machine import held

# 3 since entries are Parquet files.
FORMAT = 3
# Where files are until all of them are there, and the file that their writer holds.
WORKSHOP, LOCK = "mcframe-writing", "lock"
# The errors of a full disk, a full quota and a limit of the size of files.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# How many files that are not ours a message shows.
SHOWN = 3


@attrs.frozen
class FolderLayout:
    """One kind of folder: what it holds, the function that writes it, and its files."""

    kind: str  # by which its manifest is known
    contents: str
    writer: str
    manifest: str
    files: str  # a regular expression

    def is_ours(self, path: Path) -> bool:
        """Return True for a path inside a folder that the function has written."""
        if path.name == WORKSHOP and not path.is_file():
            return all(file.name == LOCK or self.is_ours(file) for file in path.iterdir())
        named = path.name == self.manifest or re.fullmatch(self.files, path.name) is not None
        return named and not path.is_dir()


@attrs.frozen
class StoredFile:
    """The size of a file in bytes, and the SHA-256 of these."""

    size: int
    sha256: str


@attrs.frozen(eq=False)
class Folder:
    """A folder that was written by ``publish``: what its manifest says.

    Attributes
    ----------
    path : Path
    layout : FolderLayout
    version : str
        Of the mcframe that wrote it.
    facts : dict
        Further facts that the writer has put into the manifest.
    files : dict from name to StoredFile
    """

    path: Path
    layout: FolderLayout
    version: str
    facts: Mapping[str, Any]
    files: Mapping[str, StoredFile]

    @classmethod
    def open(cls, path: Path, layout: FolderLayout) -> "Folder":
        """Read the manifest of a folder.

        Raises
        ------
        DataError
            Where there is no manifest, or it is damaged, or of another format.
        """
        if not path.is_dir():
            raise DataError(
                f"there is no folder {str(path)!r}; mcframe.datasets.{layout.writer} writes one"
            )
        try:
            facts = json.loads((path / layout.manifest).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise without_manifest(path, layout) from None
        except (OSError, ValueError, RecursionError) as error:
            how = f"its manifest {layout.manifest} cannot be read: {error}"
            raise damaged(path, layout, how) from None
        if not isinstance(facts, dict) or facts.pop("kind", None) != layout.kind:
            raise damaged(path, layout, f"its manifest {layout.manifest} says no {layout.kind}")
        if facts.get("format") != FORMAT:
            raise DataError(
                f"folder {str(path)!r} was written by mcframe {facts.get('version')}: its manifest"
                f" {layout.manifest} is in format {facts.get('format')}, and mcframe"
                f" {__version__} reads format {FORMAT}. Write it again with {layout.writer}, or"
                " read it with that version"
            )
        if facts.pop("checksum", None) != checksum_of_facts(facts):
            how = f"its manifest {layout.manifest} does not agree with itself"
            raise damaged(path, layout, how)
        del facts["format"]
        version, stored = facts.pop("version"), facts.pop("files")
        files = {name: StoredFile(**file) for name, file in stored.items()}
        return cls(path, layout, version, facts, files)

    @property
    def fingerprint(self) -> str:
        """A digest of facts and files: equal for equal content."""
        files = {name: file.sha256 for name, file in self.files.items()}
        return checksum_of_facts({**self.facts, "files": files})[:32]

    def check_size(self, name: str) -> None:
        """Raise a ``DataError`` where a file is not there or has another size."""
        try:
            size = (self.path / name).stat().st_size
        except FileNotFoundError:
            raise damaged(self.path, self.layout, f"its file {name} is not there") from None
        except OSError as error:
            raise self.unreadable(name, error) from None
        if size != self.files[name].size:
            how = f"its file {name} has {size} bytes and should have {self.files[name].size}"
            raise damaged(self.path, self.layout, how)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file, which are those that were written.

        All of it is read into memory: where a file that is mapped there is cut off, the system
        ends the process, and where it is changed nobody notices.

        Raises
        ------
        DataError
            Where the file is not there, cannot be read, or holds other bytes.
        """
        self.check_size(name)
        try:
            content = (self.path / name).read_bytes()
        except OSError as error:
            raise self.unreadable(name, error) from None
        if hashlib.sha256(content).hexdigest() != self.files[name].sha256:
            how = f"its file {name} holds other bytes than were written"
            raise damaged(self.path, self.layout, how)
        return content

    def unreadable(self, name: str, error: OSError) -> DataError:
        """Return the error about a file that is there and cannot be read."""
        how = f"its file {name} cannot be read ({error.strerror})"
        return damaged(self.path, self.layout, how)


def path_of(given: str | os.PathLike[str]) -> Path:
    """Return a path that says the same in every process, wherever it runs."""
    return Path(os.path.abspath(Path(os.fsdecode(given)).expanduser()))


def checksum_of_facts(facts: Mapping[str, Any]) -> str:
    """Return the checksum of what a manifest says, however it is written down."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def without_manifest(folder: Path, layout: FolderLayout) -> DataError:
    """Return the error about a folder without a manifest."""
    if (folder / WORKSHOP).is_dir():
        return DataError(
            f"folder {str(folder)!r} is not finished: {layout.writer} is still at work there, or"
            " was stopped; write it again with overwrite=True"
        )
    return DataError(
        f"folder {str(folder)!r} holds no {layout.kind}: {layout.manifest} is not there; give a"
        f" folder that mcframe.datasets.{layout.writer} has written"
    )


def damaged(folder: Path, layout: FolderLayout, how: str) -> DataError:
    """Return the error about a damaged folder."""
    return DataError(
        f"folder {str(folder)!r} is damaged: {how}. Write it again with {layout.writer}"
    )


def save(path: Path, *content: Any) -> StoredFile:
    """Write bytes, or arrays of bytes, one after the other, and return size and checksum."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for piece in content:
            digest.update(piece)
            size += file.write(piece)
        file.flush()
        os.fsync(file.fileno())  # the manifest, which says that it is there, comes later
    return StoredFile(size, digest.hexdigest())


@contextmanager
def workshop(
    folder: Path, layout: FolderLayout, overwrite: bool, needed: Callable[[], str]
) -> Iterator[Path]:
    """Make the place for files that are not finished, and clear it away whatever happens.

    Parameters
    ----------
    folder : Path
    layout : FolderLayout
    overwrite : bool
        Whether the folder may hold files of that layout.
    needed : function
        It says what was to be written, and how many bytes it takes.

    Raises
    ------
    DataError
        Where the folder cannot be written into, as ``check_folder`` says, or another writer is at
        work there; where the disk is full, with how many bytes were needed.
    """
    fresh, place = not folder.exists(), folder / WORKSHOP
    with ExitStack() as stack:
        try:
            check_folder(folder, layout, overwrite)
            place.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(place / LOCK))
        except (BlockingIOError, FileNotFoundError):  # or it clears its place away just now
            raise DataError(
                f"another {layout.writer} is at work in folder {str(folder)!r}; wait until it has"
                " ended, or give another folder"
            ) from None
        except OSError as error:
            raise DataError(
                f"folder {str(folder)!r} cannot be written into ({error.strerror}); give another"
            ) from None
        try:
            if not overwrite and any(file != place for file in folder.iterdir()):
                raise taken(folder, layout)  # since the check above
            clear(place, layout)
            yield place
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise DataError(
                f"the disk of folder {str(folder)!r} is full ({error.strerror}): {needed()}"
                f" and {shutil.disk_usage(folder).free} bytes are free. What was written is"
                " deleted; free some space, or give a folder on another disk"
            ) from error
        finally:
            clear(place, layout)
            with suppress(OSError):  # where another writer has just come
                (place / LOCK).unlink()
                place.rmdir()
                if fresh:
                    folder.rmdir()


def check_folder(folder: Path, layout: FolderLayout, overwrite: bool) -> None:
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
    foreign = sorted(file.name for file in folder.iterdir() if not layout.is_ours(file))
    if foreign:
        shown = ", ".join(map(repr, foreign[:SHOWN]))
        more = f" and {len(foreign) - SHOWN} more" if len(foreign) > SHOWN else ""
        raise DataError(
            f"folder {str(folder)!r} holds {shown}{more}, not written by {layout.writer} and not"
            " deleted by it either; give an empty folder or a new one"
        )
    if any(folder.iterdir()) and not overwrite:
        raise taken(folder, layout)


def taken(folder: Path, layout: FolderLayout) -> DataError:
    """Return the error about a folder that holds files of ours."""
    return DataError(
        f"folder {str(folder)!r} holds {layout.contents} already, or the rest of an unfinished"
        " writing; give another folder, or overwrite=True to delete what is there"
    )


def refuse_full(place: Path, n_bytes: int) -> None:
    """Raise the error of a full disk where so many bytes more would fill it."""
    if shutil.disk_usage(place).free < n_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def clear(place: Path, layout: FolderLayout) -> None:
    """Delete our files in a workshop."""
    for file in place.iterdir():
        if layout.is_ours(file):
            file.unlink(missing_ok=True)


def publish(
    place: Path,
    folder: Path,
    layout: FolderLayout,
    facts: Mapping[str, Any],
    files: Mapping[str, StoredFile],
) -> None:
    """Move finished files from the workshop into the folder; the manifest comes last.

    What the folder held before goes now, when the new files are all written: a reader finds
    the old content, no manifest, or the new content.
    """
    known = {"format": FORMAT, "version": __version__, **facts}
    known["files"] = {name: attrs.asdict(file) for name, file in files.items()}
    said = {"kind": layout.kind, **known, "checksum": checksum_of_facts(known)}
    save(place / layout.manifest, json.dumps(said, indent=1).encode())
    (folder / layout.manifest).unlink(missing_ok=True)
    for old in folder.iterdir():
        if old.is_file() and old.name not in files and layout.is_ours(old):
            old.unlink()
    for name in (*files, layout.manifest):
        os.replace(place / name, folder / name)

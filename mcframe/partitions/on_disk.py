"""Partitions in a folder, as ``fit`` takes them: each is read when it is asked for."""

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
import numpy as np
import numpy.typing as npt

from mcframe import __version__
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import listed, suggests_options
from mcframe.model.labels import AxisLabels
from mcframe.partitions.chunks import index_type, matrix_of_chunk
from mcframe.partitions.partitioned_data import CountedPartitions
from mcframe.runtime.machine import held
from mcframe.storage import archive as storage

# 3 since entries are Parquet files.
FOLDER_FORMAT = 3
# Where files are until all of them are there, and the file that their writer holds.
STAGING_FOLDER, LOCK_FILE = "mcframe-writing", "lock"
# The errors of a full disk, a full quota and a limit of the size of files.
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        if path.name == STAGING_FOLDER and not path.is_file():
            return all(file.name == LOCK_FILE or self.is_ours(file) for file in path.iterdir())
        named = path.name == self.manifest or re.fullmatch(self.files, path.name) is not None
        return named and not path.is_dir()


@attrs.frozen
class StoredFile:
    """The size of a file in bytes, and the SHA-256 of these."""

    size: int
    sha256: str


@attrs.frozen(eq=False)
class Folder:
    """A folder that was written by ``commit``: what its manifest says.

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
            If there is no manifest, or it is damaged, or of another format.
        """
        if not path.is_dir():
            raise DataError(
                f"there is no folder {str(path)!r}; mcframe.datasets.{layout.writer} writes one"
            )
        try:
            facts = json.loads((path / layout.manifest).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise error_of_missing_manifest(path, layout) from None
        except (OSError, ValueError, RecursionError) as error:
            how = f"its manifest {layout.manifest} cannot be read: {error}"
            raise error_of_damage(path, layout, how) from None
        if not isinstance(facts, dict) or facts.pop("kind", None) != layout.kind:
            raise error_of_damage(
                path, layout, f"its manifest {layout.manifest} says no {layout.kind}"
            )
        if facts.get("format") != FOLDER_FORMAT:
            raise DataError(
                f"folder {str(path)!r} was written by mcframe {facts.get('version')}: its manifest"
                f" {layout.manifest} is in format {facts.get('format')}, and mcframe"
                f" {__version__} reads format {FOLDER_FORMAT}. Write it again with"
                f" {layout.writer}, or read it with that version"
            )
        if facts.pop("checksum", None) != checksum_of_facts(facts):
            how = f"its manifest {layout.manifest} does not agree with itself"
            raise error_of_damage(path, layout, how)
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
            raise error_of_damage(
                self.path, self.layout, f"its file {name} is not there"
            ) from None
        except OSError as error:
            raise self.unreadable(name, error) from None
        if size != self.files[name].size:
            how = f"its file {name} has {size} bytes and should have {self.files[name].size}"
            raise error_of_damage(self.path, self.layout, how)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file, which are those that were written.

        All of it is read into memory: where a file that is mapped there is cut off, the system
        ends the process, and where it is changed nobody notices.

        Raises
        ------
        DataError
            If the file is not there, cannot be read, or holds other bytes.
        """
        self.check_size(name)
        try:
            content = (self.path / name).read_bytes()
        except OSError as error:
            raise self.unreadable(name, error) from None
        if hashlib.sha256(content).hexdigest() != self.files[name].sha256:
            how = f"its file {name} holds other bytes than were written"
            raise error_of_damage(self.path, self.layout, how)
        return content

    def unreadable(self, name: str, error: OSError) -> DataError:
        """Return the error about a file that is there and cannot be read."""
        how = f"its file {name} cannot be read ({error.strerror})"
        return error_of_damage(self.path, self.layout, how)


def portable_path(path: str | os.PathLike[str]) -> Path:
    """Return a path that says the same in every process, wherever it runs."""
    return Path(os.path.abspath(storage.checked_path(path, "folder").expanduser()))


def checksum_of_facts(facts: Mapping[str, Any]) -> str:
    """Return the checksum of what a manifest says, however it is written down."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def error_of_missing_manifest(folder: Path, layout: FolderLayout) -> DataError:
    """Return the error about a folder without a manifest."""
    if (folder / STAGING_FOLDER).is_dir():
        return DataError(
            f"folder {str(folder)!r} is not finished: {layout.writer} is still at work there, or"
            " was stopped; write it again with overwrite=True"
        )
    return DataError(
        f"folder {str(folder)!r} holds no {layout.kind}: {layout.manifest} is not there; give a"
        f" folder that mcframe.datasets.{layout.writer} has written"
    )


def error_of_damage(folder: Path, layout: FolderLayout, how: str) -> DataError:
    """Return the error about a damaged folder."""
    return DataError(
        f"folder {str(folder)!r} is damaged: {how}. Write it again with {layout.writer}"
    )


def write_bytes(path: Path, *content: Any) -> StoredFile:
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
def staging_directory(
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
        If the folder cannot be written into, as ``check_folder`` says, or another writer is at
        work there; where the disk is full, with how many bytes were needed.
    """
    fresh, place = not folder.exists(), folder / STAGING_FOLDER
    with ExitStack() as stack:
        try:
            check_folder(folder, layout, overwrite)
            place.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(place / LOCK_FILE))
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
                raise error_of_occupied_folder(folder, layout)  # since the check above
            clear_staging(place, layout)
            yield place
        except OSError as error:
            if error.errno not in DISK_FULL_ERRORS:
                raise
            raise DataError(
                f"the disk of folder {str(folder)!r} is full ({error.strerror}): {needed()}"
                f" and {shutil.disk_usage(folder).free} bytes are free. What was written is"
                " deleted; free some space, or give a folder on another disk"
            ) from error
        finally:
            clear_staging(place, layout)
            with suppress(OSError):  # where another writer has just come
                (place / LOCK_FILE).unlink()
                place.rmdir()
                if fresh:
                    folder.rmdir()


def check_folder(folder: Path, layout: FolderLayout, overwrite: bool) -> None:
    """See that a folder can be written into; nothing is deleted yet.

    Raises
    ------
    DataError
        If it is a file, holds files that are not ours, or ours without ``overwrite``.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; the path of a folder is needed")
    if not folder.exists():
        return
    foreign = sorted(file.name for file in folder.iterdir() if not layout.is_ours(file))
    if foreign:
        raise DataError(
            f"folder {str(folder)!r} holds {listed(foreign, repr)}, not written by {layout.writer}"
            " and not deleted by it either; give an empty folder or a new one"
        )
    if any(folder.iterdir()) and not overwrite:
        raise error_of_occupied_folder(folder, layout)


def error_of_occupied_folder(folder: Path, layout: FolderLayout) -> DataError:
    """Return the error about a folder that holds files of ours."""
    return DataError(
        f"folder {str(folder)!r} holds {layout.contents} already, or the rest of an unfinished"
        " writing; give another folder, or overwrite=True to delete what is there"
    )


def refuse_full(place: Path, n_bytes: int) -> None:
    """Raise the error of a full disk where so many bytes more would fill it."""
    if shutil.disk_usage(place).free < n_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def clear_staging(place: Path, layout: FolderLayout) -> None:
    """Delete our files in a staging directory."""
    for file in place.iterdir():
        if layout.is_ours(file):
            file.unlink(missing_ok=True)


def commit(
    place: Path,
    folder: Path,
    layout: FolderLayout,
    facts: Mapping[str, Any],
    files: Mapping[str, StoredFile],
) -> None:
    """Move finished files from the staging directory into the folder; the manifest comes last.

    What the folder held before goes now, when the new files are all written: a reader finds
    the old content, no manifest, or the new content.
    """
    manifest = {"format": FOLDER_FORMAT, "version": __version__, **facts}
    manifest["files"] = {name: attrs.asdict(file) for name, file in files.items()}
    checked_manifest = {"kind": layout.kind, **manifest, "checksum": checksum_of_facts(manifest)}
    write_bytes(place / layout.manifest, json.dumps(checked_manifest, indent=1).encode())
    (folder / layout.manifest).unlink(missing_ok=True)
    for old in folder.iterdir():
        if old.is_file() and old.name not in files and layout.is_ours(old):
            old.unlink()
    for name in (*files, layout.manifest):
        os.replace(place / name, folder / name)


pa: Any = Deferred("pyarrow", "a table in a folder (mcframe[disk])")
pq: Any = Deferred("pyarrow.parquet", "a table in a folder (mcframe[disk])")

PARTITIONS_LAYOUT = FolderLayout(
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
            If a file is not there, or does not hold what was written, or the folder was
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
        places = index_type(file.metadata.num_rows)
        arrays = {what: array(what) for what in ("value", *self.additions(name))}
        arrays["columns"] = array("column").astype(places, copy=False)
        arrays["indptr"] = np.concatenate([[0], np.cumsum(counts)]).astype(places)
        return matrix_of_chunk(arrays, (stop - start, n_columns))

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


@suggests_options
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
    ...     _ = datasets.write_partitions({"x": halves}, folder)
    ...     table = datasets.on_disk(folder, verify=True)
    ...     table.n_partitions, table.shape("x"), table.n_entries(0)
    (1, (2, 2), 3)
    """
    table = open_partitions(portable_path(folder))
    for name in table.stored.files:
        if verify:
            table.stored.read(name)
        else:
            table.stored.check_size(name)
    return table


def open_partitions(path: Path) -> PartitionsOnDisk:
    """Open a folder by its manifest alone."""
    stamp, stored = stamp_of(path), Folder.open(path, PARTITIONS_LAYOUT)
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
    table = open_partitions(Path(folder))
    if table.fingerprint != fingerprint:
        raise DataError(
            f"folder {folder!r} holds another table here than where the work began; was it"
            " written again, or is it another folder of the same name on this machine?"
        )
    return table


def stamp_of(folder: Path) -> tuple[int, ...]:
    """Return what changes when a folder gets another manifest; nothing where it has none."""
    try:
        status = (folder / PARTITIONS_LAYOUT.manifest).stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def file_of_entries(partition: int, block: int) -> str:
    """Return the name of the file with the entries of a block in a partition."""
    return f"p{partition:05d}-b{block}.parquet"


def file_of_labels(block: int | None) -> str:
    """Return the name of the file with labels of the columns of a block, or of the rows."""
    return "rows.labels.parquet" if block is None else f"b{block}.labels.parquet"

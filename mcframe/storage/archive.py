"""Answers on disk: arrays and JSON in one file, where each addition is whole or not there."""

import json
import math
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, DataError, ModelError
from mcframe.contracts.validators import a_type, as_given
from mcframe.contracts.wording import wording
from mcframe.runtime.machine import held
from mcframe.storage.serializing import (
    FORMAT,
    FORMATS,
    deserialize,
    formats_read,
    message_of,
    serialize,
)

HEADER = "header.json"
# A file ends with a CRC of all bytes before it, of which 4 GB take a second.
CHECKSUM_BYTES = 4
# Identities longer than this are digests, which say nothing to anybody.
READABLE = 24
# The name of the only entry of a saved answer.
ANSWER = "answer"


@attrs.frozen(eq=False)
class Archive:
    """Entries by name in an ``.npz`` file, which grows entry by entry.

    ``numpy.load`` reads it. Each addition is written to another file, which then takes the
    place of the first: whenever the process dies, the file holds all entries before that one.
    The comment at its end is a checksum of all other bytes, which is compared before any of them
    is made use of. Nothing in it can be run: arrays without objects, and JSON. Nothing is
    compressed, so that no small file holds a large array.
    """

    path: Path
    word: str = "checkpoint"  # what messages call it
    whole: set[tuple[int, ...]] = attrs.field(factory=set)  # files whose checksum was compared

    @classmethod
    def at_path(cls, path: object, kind: str, identity: Mapping[str, str]) -> "Archive":
        """Open the archive of a piece of work, or begin it where there is no file.

        Parameters
        ----------
        path : str or Path
        kind : str
            What it holds, in a word.
        identity : dict of str
            What must be the same for its entries to be of use: short texts, or digests.

        Raises
        ------
        ModelError
            Where ``path`` is no path.
        DataError
            If the file is no archive, or of other work, or cannot be written.
        """
        archive = cls(path_of_file(path, "checkpoint"))
        header = header_of(kind, identity)
        if archive.path.exists():
            archive.refuse_another(header)
        else:
            archive.write({HEADER: json.dumps(header)})
        return archive

    def refuse_another(self, header: Mapping[str, Any]) -> None:
        """Raise a ``DataError`` where the file is of another kind or of other work."""
        stored_header = self.header()
        if stored_header["kind"] != header["kind"]:
            content = f"a {stored_header['kind']}, and a {header['kind']} is asked for"
            if ANSWER in self:
                content = f"a {stored_header['kind']} that save has written, and no checkpoint"
            raise DataError(f"checkpoint {self.path} holds {content}; give another file")
        identity, stored_identity = header["identity"], stored_header["identity"]
        changed = [
            difference(key, stored_identity.get(key, "none"), identity.get(key, "none"))
            for key in dict.fromkeys([*identity, *stored_identity])
            if stored_identity.get(key) != identity.get(key)
        ]
        if changed:
            raise DataError(
                f"checkpoint {self.path} holds another {header['kind']}: {'; '.join(changed)}."
                " Give the same to go on with it, or another file, or delete this one"
            )

    def header(self) -> dict[str, Any]:
        """The header, or a ``DataError`` where the file is of another version."""
        with self.reading() as file:
            stored_header: dict[str, Any] = json.loads(file.read(HEADER))
            format_number, kind, by = (
                stored_header["format"],
                stored_header["kind"],
                stored_header["mcframe"],
            )
            identity = stored_header["identity"]
            texts = {"kind": kind, "mcframe": by, **identity}
            if not isinstance(format_number, int) or not all(
                isinstance(t, str) for t in texts.values()
            ):
                raise TypeError("no header")
        if format_number not in FORMATS:
            remedy = "upgrade mcframe" if format_number > FORMAT else "read it with that version"
            raise DataError(
                f"{self.word} {self.path} was written by mcframe {by} in format {format_number},"
                f" and mcframe {version()} reads formats {formats_read()}; {remedy}, or give"
                " another file"
            )
        return stored_header

    def __contains__(self, name: str) -> bool:
        with self.reading() as file:
            return f"{name}/facts.json" in file.namelist()

    def read(self, name: str, *kinds: str, **shared: object) -> Any:
        """The value of that name, of one of the classes; ``shared`` parts are those of ``add``."""
        with self.reading() as file:
            arrays, most = {}, self.path.stat().st_size
            for member in file.infolist():
                if member.filename.startswith(f"{name}/") and member.filename.endswith(".npy"):
                    key = member.filename.removeprefix(f"{name}/").removesuffix(".npy")
                    arrays[key] = read_array(file, member, most)
            facts = json.loads(file.read(f"{name}/facts.json"))
            value = deserialize(arrays, facts, shared)
            if type(value).__name__ not in kinds:
                raise TypeError(f"it is {a_type(value)}, and a {kinds[0]} is needed")
            return value

    def add(self, name: str, value: object, **shared: object) -> None:
        """Add a value, which is on the disk when this returns; ``shared`` parts are left out."""
        self.write(members_of_value(name, value, shared))

    def replace(self, name: str, value: object, **shared: object) -> None:
        """Put one value in the place of all, which is on the disk when this returns."""
        header = json.dumps(self.header())
        self.write({HEADER: header, **members_of_value(name, value, shared)}, keep=False)

    def remove(self) -> None:
        """Delete the file, and unfinished ones of processes that died."""
        self.path.unlink(missing_ok=True)
        self.unfinished.unlink(missing_ok=True)

    @property
    def unfinished(self) -> Path:
        """The file that is written before it takes the place of the other."""
        return self.path.with_name(self.path.name + ".writing")

    def write(self, members: Mapping[str, Any], keep: bool = True) -> None:
        """Replace the file by one with more members; ``keep`` those that are there, or not."""
        self.refuse_no_file()
        try:
            with held(self.unfinished) as file:
                try:
                    self.fill(file, members, keep)
                    os.replace(self.unfinished, self.path)
                except BaseException:  # half a file would fill the disk for others, too
                    self.unfinished.unlink(missing_ok=True)
                    raise
        except BlockingIOError:
            raise DataError(
                f"{self.word} {self.path} is being written by another process; give each of them"
                " a file of its own"
            ) from None
        except OSError as error:
            raise DataError(
                f"{self.word} {self.path} cannot be written ({error.strerror}); give a file in a"
                " folder that exists, on a disk with room"
            ) from None

    def refuse_no_file(self) -> None:
        """Raise a ``DataError`` where the path is a device, a pipe or another thing with no end.

        To read one may take forever, and a new file moved into its place would delete it, where
        the user may, even ``/dev/null``.
        """
        try:
            mode = self.path.stat().st_mode
        except OSError:  # whoever opens it says what is wrong
            return
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DataError(
                f"{self.word} {self.path} is a device or a pipe, and no file; give the path of a"
                " file"
            )

    def fill(self, file: IO[bytes], members: Mapping[str, Any], keep: bool) -> None:
        """Write members into an open file, and the checksum of all; it is on the disk then."""
        file.truncate(0)  # a process may have left it that died
        if keep and self.path.exists():
            with self.reading():  # no damage gets a new checksum
                pass
            with self.path.open("rb") as before:
                shutil.copyfileobj(before, file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = bytes(CHECKSUM_BYTES)
            names = archive.namelist()  # another process may have added the same
            for name, value in members.items():
                if name in names:
                    continue
                with archive.open(name, "w", force_zip64=True) as stream:
                    if isinstance(value, str):
                        stream.write(value.encode())
                    else:
                        array = np.asarray(value)
                        np.lib.format.write_array(stream, array, allow_pickle=False)
        file.flush()
        checksum, _ = checksums_of(file)
        file.write(checksum)
        file.flush()
        os.fsync(file.fileno())

    @contextmanager
    def reading(self) -> Iterator[zipfile.ZipFile]:
        """The file to read from; a ``DataError`` for whatever is wrong with it."""
        self.refuse_no_file()
        remedy = "delete the file to begin afresh"
        if self.word != "checkpoint":
            tables = wording().either(
                python=", no tables", command=" (fit, or impute --save), no tables"
            )
            remedy = f"save the answer again; this reads what save has written{tables}"
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                if stamp not in self.whole:
                    checksum, stored_checksum = checksums_of(file)
                    if checksum != stored_checksum:
                        raise zipfile.BadZipFile
                    self.whole.add(stamp)
                with zipfile.ZipFile(file) as archive:
                    yield archive
        except (OSError, zipfile.BadZipFile):
            raise DataError(
                f"{self.word} {self.path} was not written by mcframe, or it is damaged: its bytes"
                f" do not agree with their checksum. Give another path, or {remedy}"
            ) from None
        except BackendError:  # a library that is not installed
            raise
        except Exception as error:  # whatever other hands have written, with a checksum
            raise DataError(
                f"{self.word} {self.path} holds nothing that mcframe {version()} can read"
                f" ({message_of(error)}). Give another path, or {remedy}"
            ) from None


def read_array(file: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> Array:
    """An array without objects, of no more bytes than the file has."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed")
    with file.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{member.filename} is an array of another version")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
        length = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or length != member.file_size - stream.tell():
            raise ValueError(f"{member.filename} has another size than its shape")
        if not 0 <= length <= most:
            raise ValueError(f"{member.filename} is longer than the file")
        content = np.empty(length, dtype=np.uint8)
        reader: Any = stream
        if reader.readinto(content) != length:
            raise ValueError(f"{member.filename} is cut off")
        return content.view(dtype).reshape(shape, order="F" if by_columns else "C")


def checksums_of(file: IO[bytes]) -> tuple[bytes, bytes]:
    """The checksum of all bytes but the last ones, and these, at which the file is left."""
    end = max(file.seek(0, os.SEEK_END) - CHECKSUM_BYTES, 0)
    file.seek(0)
    checksum = 0
    while chunk := file.read(min(end - file.tell(), 1 << 20)):
        checksum = zlib.crc32(chunk, checksum)
    stored_checksum = file.read(CHECKSUM_BYTES)
    file.seek(end)
    return checksum.to_bytes(CHECKSUM_BYTES, "little"), stored_checksum


def difference(key: str, stored: str, current: str) -> str:
    """Say in words what two pieces of work differ in."""
    if max(len(stored), len(current)) > READABLE:
        return f"different {key}"
    return f"{key} is {stored} there and {current} here"


def version() -> str:
    """The version of the package, which is imported as a whole by then."""
    from mcframe import __version__

    return __version__


def header_of(kind: str, identity: Mapping[str, str]) -> dict[str, Any]:
    """The header of a file that this version writes."""
    return {"format": FORMAT, "mcframe": version(), "kind": kind, "identity": dict(identity)}


def members_of_value(name: str, value: object, shared: Mapping[str, object]) -> dict[str, Any]:
    """The members of a file that a value is stored as."""
    arrays, facts = serialize(value, "", shared)
    members = {f"{name}/{key}.npy": array for key, array in arrays.items()}
    return {**members, f"{name}/facts.json": json.dumps(facts)}


def checked_path(path: object, name: str) -> Path:
    """The path that was given, or a ``ModelError``."""
    if not isinstance(path, str | os.PathLike):
        raise ModelError(f"{name}={as_given(path)} was given; a path is needed")
    return Path(os.fsdecode(path))


def path_of_file(path: object, name: str) -> Path:
    """The path of a file that was given, or a ``ModelError``."""
    file = checked_path(path, name)
    if not file.name:
        raise ModelError(f"{name}={as_given(path)} was given; the path of a file is needed")
    return file


# Endings of files that other programs would read as tables, which no answer is.
ENDINGS_OF_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xls", ".xlsx")


def save(answer: object, path: object) -> Path:
    """Write an answer into a file, which takes the place of one that is there; see ``load``.

    Raises
    ------
    ModelError
        If the ending of the path is that of a table, such as ``.csv``.
    """
    archive = Archive(path_of_file(path, "path"), "file")
    if archive.path.suffix.lower() in ENDINGS_OF_TABLES:
        raise ModelError(
            f"path={as_given(path)} was given; save writes an answer, which load reads, and no"
            " table: give another ending, such as .npz. The completed table is written by the"
            " library that it is of, as by to_csv of pandas"
        )
    header = json.dumps(header_of(type(answer).__name__, {}))
    archive.write({HEADER: header, **members_of_value(ANSWER, answer, {})}, keep=False)
    return archive.path

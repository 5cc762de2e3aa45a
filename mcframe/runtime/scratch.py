"""Objects whose arrays lie in a file without a name, mapped into memory while they are used."""

import errno
import mmap
import os
import pickle
import shutil
import tempfile
from collections.abc import Sequence
from io import BytesIO
from typing import IO, Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError

# Arrays begin at multiples of so many bytes, as those that are allocated do.
ALIGNED = 64
# How another folder is named, in errors.
OTHER_FOLDER = (
    "name a folder on another disk by the environment variable TMPDIR, that of workers by Dask's"
    " temporary-directory"
)
# Errors of a full disk, quota or size limit.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Pickler(pickle.Pickler):
    """A pickler that leaves out what its reader has: the ``shared`` objects, by their places."""

    def __init__(self, file: IO[bytes], shared: Sequence[Any], buffers: list[Any]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.places = {id(value): place for place, value in enumerate(shared)}

    def persistent_id(self, value: Any) -> int | None:
        """The place of an object among the shared ones; None for others."""
        return self.places.get(id(value))


class Unpickler(pickle.Unpickler):
    """The reader of what ``Pickler`` has written."""

    def __init__(self, file: IO[bytes], shared: Sequence[Any], buffers: Sequence[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self.shared = shared

    def persistent_load(self, place: int) -> Any:
        """The shared object at a place."""
        return self.shared[place]


@attrs.frozen(eq=False)
class Packed:
    """An object pickled without its arrays, and these; nothing is copied."""

    pickled: bytes
    arrays: tuple[memoryview, ...]

    @property
    def n_bytes(self) -> int:
        """The bytes that it takes in memory or in a file."""
        return sum(next_multiple(array.nbytes) for array in self.arrays)


def packed(value: Any, shared: Sequence[Any]) -> Packed:
    """An object as bytes and arrays; ``shared`` objects within are named by their places."""
    buffers: list[pickle.PickleBuffer] = []
    file = BytesIO()
    Pickler(file, shared, buffers).dump(value)
    return Packed(file.getvalue(), tuple(buffer.raw() for buffer in buffers))


def next_multiple(size: int, unit: int = ALIGNED) -> int:
    """The least multiple of a unit that is no smaller than a size."""
    return -(-size // unit) * unit


@attrs.frozen(eq=False)
class Stored:
    """An object's place in a file: its arrays from ``start`` on, and spare bytes behind."""

    pickled: bytes
    sizes: tuple[int, ...]
    start: int
    spare: int  # counted from the start
    n_bytes: int


@attrs.define(eq=False)
class Scratch:
    """A file without a name, opened when something is put into it.

    Its space is free again when it is closed, and when the process ends in whatever way. What is
    read from it are arrays over the file's pages, which the operating system keeps in memory as
    long as there is memory. They can be written to, as the loops have been compiled for such
    arrays; nobody does.

    Attributes
    ----------
    folder : str or None
        Where the file is, of which nothing is seen there; None for the system's temporary folder.
    """

    folder: str | None = None
    file: IO[bytes] | None = None
    end: int = 0

    @property
    def place(self) -> str:
        """The folder that the file is in."""
        return tempfile.gettempdir() if self.folder is None else self.folder

    def check(self, where: str = "") -> None:
        """Raise a ``BackendError`` where the folder cannot be written into."""
        try:
            tempfile.TemporaryFile(dir=self.place).close()
        except OSError as error:
            raise BackendError(
                f"temporary files cannot be written into {self.place!r}{where}"
                f" ({error.strerror}); {OTHER_FOLDER}"
            ) from None

    def put(self, packed: Packed, spare: int, ahead: int = 0) -> Stored:
        """Write an object, with spare bytes behind its arrays.

        Raises
        ------
        BackendError
            Where there is no space for it, or for so many bytes more as are ``ahead``.
        """
        sizes = tuple(array.nbytes for array in packed.arrays)
        start, n_arrays = next_multiple(self.end, mmap.ALLOCATIONGRANULARITY), packed.n_bytes
        stored = Stored(packed.pickled, sizes, start, n_arrays, n_arrays + spare)
        self.demand_space(start + stored.n_bytes + ahead)
        at = start
        for array in packed.arrays:
            self.write(at, array)
            at += next_multiple(array.nbytes)
        self.end = start + max(stored.n_bytes, 1)
        self.opened().truncate(self.end)
        return stored

    def get(self, stored: Stored, shared: Sequence[Any]) -> tuple[Any, memoryview]:
        """An object that was put here, and its spare bytes; no page is read yet."""
        end, at, arrays = stored.start + max(stored.n_bytes, 1), 0, []
        mapped = memoryview(
            mmap.mmap(self.opened().fileno(), end - stored.start, offset=stored.start)
        )
        for size in stored.sizes:
            arrays.append(mapped[at : at + size])
            at += next_multiple(size)
        value = Unpickler(BytesIO(stored.pickled), shared, arrays).load()
        return value, mapped[stored.spare :]

    def array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """The numbers from the beginning of the file on, as an array; no page is read yet."""
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        pages = mmap.mmap(self.opened().fileno(), n_bytes)
        numbers: Array = np.frombuffer(pages, dtype).reshape(shape)
        return numbers

    def write(self, start: int, array: memoryview) -> None:
        """Write an array at a place; a ``BackendError`` where the disk is full."""
        if not array.nbytes:
            return
        file = self.opened()
        try:
            file.seek(start)
            file.write(array.cast("B"))
            file.flush()
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise self.without_space(array.nbytes) from error

    def demand_space(self, end: int) -> None:
        """Raise a ``BackendError`` where the file cannot grow to a size."""
        allocated = getattr(os.fstat(self.opened().fileno()), "st_blocks", 0) * 512
        if shutil.disk_usage(self.place).free < end - allocated:
            raise self.without_space(end - allocated)

    def without_space(self, n_bytes: int) -> BackendError:
        """The error of a full disk."""
        free = shutil.disk_usage(self.place).free
        return BackendError(
            f"no room in folder {self.place!r}: what does not fit into memory"
            f" needs {n_bytes} bytes there, and {free} are free; make room, or {OTHER_FOLDER}"
        )

    def opened(self) -> IO[bytes]:
        """The file, made where there is none yet."""
        if self.file is None:
            try:
                self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
            except OSError as error:
                raise BackendError(
                    f"folder {self.place!r} cannot hold what does not fit into memory"
                    f" ({error.strerror}); {OTHER_FOLDER}"
                ) from error
        return self.file

    def close(self) -> None:
        """Free the space; what was read before stays readable until it is dropped."""
        if self.file is not None:
            self.file.close()
        self.file, self.end = None, 0

"""Files that one writer holds at a time."""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

__all__ = ["held"]

fcntl: Any = None  # Windows has no such locks: there every writer holds the file
with suppress(ImportError):
    fcntl = importlib.import_module("fcntl")


@contextmanager
def held(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write and to read, made where there is none, that nobody else holds.

    The system lets it go when the process ends, in whatever way. It may have content.

    Raises
    ------
    BlockingIOError
        Where another writer holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        if fcntl is None:
            yield file
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a disk without locks, as some network disks are
            pass
        try:
            if not is_at(path, descriptor):  # who held it has moved or deleted it meanwhile
                raise BlockingIOError
            yield file
        finally:
            with suppress(OSError):  # processes that were forked meanwhile have it open, too
                fcntl.flock(file, fcntl.LOCK_UN)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one that has this path now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False

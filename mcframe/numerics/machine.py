"""The machine: time limits, memory, files that one writer holds, and loops that numba compiles."""

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import update_wrapper
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np

from mcframe.contracts.deferred import Deferred


class OutOfTime(Exception):
    """The time is up; raised by ``check_time`` in the midst of something."""


DEADLINE: ContextVar[float] = ContextVar("deadline", default=np.inf)


@contextmanager
def stop_at(moment: float) -> Iterator[None]:
    """Inside, ``check_time`` raises from a moment of ``time.perf_counter`` on."""
    before = DEADLINE.set(min(moment, DEADLINE.get()))
    try:
        yield
    finally:
        DEADLINE.reset(before)


def check_time() -> None:
    """Raise ``OutOfTime`` where the time is up.

    Every loop calls it whose number of rounds is not known beforehand, or whose rounds read all
    entries.
    """
    if time.perf_counter() > DEADLINE.get():
        raise OutOfTime


# The part of the machine's memory that a fit may take.
MEMORY_SHARE = 0.7
# Where Linux says which control groups this process is in, and what these limit.
GROUPS, LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def physical_gigabytes() -> float:
    """The machine's memory; where it cannot be asked, 8."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):
        return 8.0


def memory_gigabytes() -> float:
    """The memory that this process may take: the machine's, or a lower limit on it.

    Limits are those of a control group, by which containers have them, and of ``ulimit``.
    """
    return min([physical_gigabytes(), *(n_bytes / 1e9 for n_bytes in limits())])


def limits() -> list[int]:
    """The limits on this process that can be read, in bytes."""
    found = []
    with suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            for file in limit_files(controllers.split(","), group.lstrip("/")):
                with suppress(OSError, ValueError):  # not there, or "max"
                    found.append(int(file.read_text()))
    with suppress(ImportError):  # not on every system
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                found.append(limit)
    return found


def limit_files(controllers: list[str], group: str) -> list[Path]:
    """The files that may hold the limit of a control group, of version 2 or of version 1.

    Inside of a container its own group may be shown as the root.
    """
    if controllers == [""]:
        return [LIMITS / group / "memory.max", LIMITS / "memory.max"]
    if "memory" in controllers:
        root = LIMITS / "memory"
        return [root / group / "memory.limit_in_bytes", root / "memory.limit_in_bytes"]
    return []


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


numba = Deferred("numba", "every solver")
ONE_AT_A_TIME = Lock()


class Compiled:
    """A function of plain loops, handed to ``numba.njit`` when it is first called.

    Numba takes half a second to import, and is not needed to declare a model. What is compiled is
    kept on disk and loaded from there by other processes, as with ``numba.njit(cache=True)``.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self.dispatcher: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """What the loop returns for these arguments, compiled for their types."""
        return (self.dispatcher or self.compile())(*arguments)

    def compile(self) -> Any:
        """The dispatcher of numba, one for all threads that ask for it at once."""
        mine = numba.njit(cache=True, **self.options)(self.function)
        with ONE_AT_A_TIME:  # two of them would compile the same loop twice
            self.dispatcher = self.dispatcher or mine
        return self.dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a name in a loop that it compiles: here another compiled loop."""
        return (self.dispatcher or self.compile())._numba_type_


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """Return a decorator; ``@compiled(nogil=True)`` takes the options of ``numba.njit``."""
    return lambda function: Compiled(function, options)

"""The machine: time, memory, files that one writer holds, compiled loops, and threads."""

import importlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache, update_wrapper, wraps
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar, cast

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_limits

from mcframe.contracts.arrays import Array, IntArray
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
    sizes = []
    with suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            for file in limit_files(controllers.split(","), group.lstrip("/")):
                with suppress(OSError, ValueError):  # not there, or "max"
                    sizes.append(int(file.read_text()))
    with suppress(ImportError):  # not on every system
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                sizes.append(limit)
    return sizes


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
    """True if an open file is the one that has this path now."""
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
        """The result of the loop for these arguments, compiled for their types."""
        return (self.dispatcher or self.compile())(*arguments)

    def compile(self) -> Any:
        """The dispatcher of numba, one for all threads that ask for it at once."""
        mine = numba.njit(cache=True, **self.options)(self.function)
        with ONE_AT_A_TIME:  # two of them would compile the same loop twice
            self.dispatcher = self.dispatcher or mine
        return self.dispatcher

    @property
    def _numba_type_(self) -> Any:
        """The type of a name in a loop that numba compiles: here that of another compiled loop."""
        return (self.dispatcher or self.compile())._numba_type_


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """Return a decorator; ``@compiled(nogil=True)`` takes the options of ``numba.njit``."""
    return lambda function: Compiled(function, options)


# Thread pools of BLAS and of OpenMP wait by spinning. On a machine with other busy processes a
# thread that spins takes the processor from the one it waits for, and a fit of many short products
# takes ten times its time. So BLAS has one thread inside of a fit, and large work, compiled loops
# over many entries and large products of matrices, is cut into pieces that a pool of Python's
# threads takes one after the other: a thread that is held up by others takes fewer.

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
# Multiplications that take about as long as handing them to a thread and back, twenty times over.
WORTH_SHARING = 1_000_000
# Multiplications of a matrix product in the time of one in a loop over entries.
PRODUCT = 20.0
# Pieces for each thread, so that one that is held up leaves the rest to the others.
PIECES = 8
# The variables that limit threads, of which the first one that is set counts.
VARIABLES = ("MCFRAME_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS")


# The most threads to use; None for as many as the environment says.
LIMIT: ContextVar[int | None] = ContextVar("threads", default=None)


@cache
def usual_count() -> int:
    """The number of threads that the environment names when first asked, or one a processor."""
    for name in VARIABLES:
        if os.environ.get(name, "").isdigit():
            return max(int(os.environ[name]), 1)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def thread_count() -> int:
    """The number of threads that share work."""
    return LIMIT.get() or usual_count()


@contextmanager
def thread_limit(count: int | None) -> Iterator[None]:
    """A context with at most ``count`` threads, None for what holds outside of it."""
    before = LIMIT.set(LIMIT.get() if count is None else count)
    try:
        yield
    finally:
        LIMIT.reset(before)


class BlasAlone:
    """A context of all threads of a process in which BLAS has one thread.

    The first one limits it and the last one gives the others back. One between them takes a
    microsecond, where to ask each pool takes twenty, and to look for pools milliseconds, which is
    done only after something was imported that may have brought one.
    """

    def __init__(self) -> None:
        self.one_at_a_time = Lock()
        self.count, self.n_modules, self.known_to = 0, -1, -1
        self.limits = ExitStack()

    def __enter__(self) -> None:
        with self.one_at_a_time:
            n_modules = len(sys.modules)
            if n_modules != self.known_to:
                self.pools, self.known_to = ThreadpoolController(), n_modules
            if n_modules != self.n_modules:
                self.limits.enter_context(self.pools.limit(limits=1, user_api="blas"))
                self.n_modules = n_modules
            self.count += 1

    def __exit__(self, *raised: object) -> None:
        with self.one_at_a_time:
            self.count -= 1
            if not self.count:
                self.n_modules = -1
                self.limits.close()


@cache
def blas_of(process: int) -> BlasAlone:
    """The context of one process, which a child of it does not inherit."""
    return BlasAlone()


def blas_alone() -> BlasAlone:
    """BLAS with one thread inside."""
    return blas_of(os.getpid())


def limits_blas(function: FunctionT) -> FunctionT:
    """Return a function that runs with one thread of BLAS."""

    @wraps(function)
    def limited(*arguments: Any, **options: Any) -> Any:
        with blas_alone():
            return function(*arguments, **options)

    return cast("FunctionT", limited)


def openmp_alone() -> AbstractContextManager[Any]:
    """OpenMP with one thread inside, in this thread, by libraries that are imported before."""
    return threadpool_limits(limits=1, user_api="openmp")


@cache
def pool(count: int, process: int) -> ThreadPoolExecutor:
    """So many threads of a process, which a child of it does not inherit."""
    return ThreadPoolExecutor(count, thread_name_prefix=f"mcframe-{process}")


def n_pieces(cost: float) -> int:
    """Into how many pieces work is cut that takes so many multiplications."""
    threads = thread_count()
    return 1 if threads == 1 else max(1, min(PIECES * threads, int(cost / WORTH_SHARING)))


def cuts(cost: float, starts: IntArray) -> Sequence[int]:
    """Cuts of rows into pieces of about equally many entries, by where those of each begin."""
    n_lines, count = starts.size - 1, n_pieces(cost)
    if count == 1:
        return (0, n_lines)
    places = np.searchsorted(starts, np.linspace(0, starts[-1], count + 1)[1:-1])
    return (0, *np.unique(np.clip(places, 1, n_lines - 1)).tolist(), n_lines)


def even_cuts(cost: float, size: int) -> Sequence[int]:
    """Cuts into pieces of equal size."""
    count = min(n_pieces(cost), max(size, 1))
    return tuple(size * k // count for k in range(count + 1))


def share(work: Callable[[int, int], None], pieces: Sequence[int]) -> None:
    """``work(first, last)`` for all neighbouring numbers, by as many threads as there are.

    Which thread takes which piece makes no difference to what comes out, if they write to
    different places.
    """
    todo = deque(pairwise(pieces))

    def take() -> None:
        while todo:
            try:
                piece = todo.popleft()
            except IndexError:  # another one was faster
                return
            work(*piece)

    helpers = min(thread_count(), len(todo)) - 1
    if helpers < 1:
        take()
        return
    threads = pool(thread_count(), os.getpid())
    others = [threads.submit(take) for _ in range(helpers)]
    try:
        take()
    finally:  # interrupted: the others finish the piece that they are at
        todo.clear()
        for other in others:
            other.result()


def matmul(left: Array, right: Array, out: Array | None = None) -> Array:
    """``left @ right``, the rows of the left one, or the columns of the right, shared out."""
    n_rows, inner = left.shape
    tall = n_rows >= right.shape[1]
    cost = float(n_rows) * inner * right.shape[1] / PRODUCT
    pieces = even_cuts(cost, n_rows if tall else right.shape[1])
    if out is None:
        out = np.empty((n_rows, right.shape[1]), dtype=np.result_type(left, right))
    whole = out

    def rows(first: int, last: int) -> None:
        np.matmul(left[first:last], right, out=whole[first:last])

    def columns(first: int, last: int) -> None:
        np.matmul(left, right[:, first:last], out=whole[:, first:last])

    share(rows if tall else columns, pieces)
    return whole


def gram(tall: Array) -> Array:
    """``tall.T @ tall``, its columns shared out, each product once."""
    n_rows, width = tall.shape
    pieces = even_cuts(0.5 * float(n_rows) * width**2 / PRODUCT, width)
    if len(pieces) == 2:
        return np.asarray(tall.T @ tall)  # which numpy knows to be symmetric
    out = np.empty((width, width), dtype=tall.dtype)

    def columns(first: int, last: int) -> None:
        out[first:last, first:] = tall[:, first:last].T @ tall[:, first:]
        out[last:, first:last] = out[first:last, last:].T

    share(columns, pieces)
    return out

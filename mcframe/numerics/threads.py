"""How many threads linear algebra may use."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads"]

# Up to this many cells a second thread saves little, and on a machine with other work its waiting
# for the first one costs up to twenty times the time; at 1000 x 600 it halves the time of an
# eigenvalue decomposition.
ONE_THREAD_CELLS = 250_000


@cache
def controller() -> ThreadpoolController:
    """The thread pools there are; found once, since that takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def blas_threads(n_cells: int, *, thin: bool = False) -> Iterator[None]:
    """One thread for matrices of up to ``ONE_THREAD_CELLS``, as many as there are above.

    One too where matrices are thin and compiled loops take turns with them: a second thread
    that waits for the next product takes their processor meanwhile, which doubled the time of a
    Lanczos step with 5 million entries.
    """
    if n_cells > ONE_THREAD_CELLS and not thin:
        yield
        return
    with controller().limit(limits=1, user_api="blas"):
        yield

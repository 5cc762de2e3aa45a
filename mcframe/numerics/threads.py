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
def blas_threads(n_cells: int) -> Iterator[None]:
    """One thread for matrices of up to ``ONE_THREAD_CELLS``, as many as there are above."""
    if n_cells > ONE_THREAD_CELLS:
        yield
        return
    with controller().limit(limits=1, user_api="blas"):
        yield

"""Loops that numba compiles at their first call, and not while they are imported."""

from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import Any

from mcframe.contracts.deferred import Deferred

__all__ = ["Compiled", "compiled"]

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

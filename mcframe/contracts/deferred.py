"""Modules that are imported at their first use: heavy, and not needed to declare a model."""

import importlib
import importlib.util
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mcframe.contracts.errors import BackendError


class Deferred:
    """Stands for a module, which is imported when one of its names is first asked for.

    ``cp = Deferred("cvxpy", "the reference backend")`` is used as ``import cvxpy as cp`` would
    be, but for annotations, which Python evaluates when it reads a class or a function.

    Parameters
    ----------
    module : str
        The full name, as ``import`` takes it.
    needed_for : str
        What cannot be done without it, as the message says it.

    Raises
    ------
    BackendError
        At the first use of a name, where the module is not installed or fails while it is
        imported.
    """

    def __init__(self, module: str, needed_for: str) -> None:
        self._module, self._needed_for = module, needed_for
        self._imported: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspect and copy look for is no reason to import
            raise AttributeError(name)
        return getattr(self.load(), name)

    def __repr__(self) -> str:
        return f"Deferred({self._module!r}, {self._needed_for!r})"

    def absence(self) -> str | None:
        """Return the sentence that the module is not installed, or None; imports nothing."""
        if importlib.util.find_spec(self._module) is not None:
            return None
        return f"{self._needed_for} needs {self._module}, which is not installed"

    def load(self) -> ModuleType:
        """Return the module, imported now if it was not."""
        if self._imported is None:
            try:
                with interrupted_later():
                    self._imported = importlib.import_module(self._module)
            except Exception as error:  # what is installed may fail in any way it likes
                raise BackendError(
                    f"{self._needed_for} needs {self._module}, which cannot be imported"
                    f" ({type(error).__name__}: {error})"
                ) from error
        return self._imported


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Hold Ctrl-C back until the end.

    A package whose import was cut off stays behind in parts, and cannot be imported any more in
    that process. Signals reach the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if came:
            signal.raise_signal(signal.SIGINT)

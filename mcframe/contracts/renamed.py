"""Old names: those of packages go on working, methods that nothing asks for are refused."""

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from mcframe.contracts.errors import ModelError

__all__ = ["old_name_of", "refuse_old_methods", "value_of_old_name"]


def value_of_old_name(package: str, old: str, now: Mapping[str, tuple[str, object]]) -> object:
    """What a package's old name stands for, with a ``FutureWarning``: for ``__getattr__``.

    ``now`` gives the new name of each old one, and the object. Of a name that never was one an
    ``AttributeError``.
    """
    if old not in now:
        raise AttributeError(f"module {package!r} has no attribute {old!r}")
    new, value = now[old]
    # `from package import old` asks twice; the first time importlib only wants to know whether it
    # is there.
    if sys._getframe(2).f_code.co_name != "_handle_fromlist":
        warnings.warn(
            f"{package}.{old} is called {package}.{new} now", FutureWarning, stacklevel=3
        )
    return value


def refuse_old_methods(word: type, now: Mapping[str, str]) -> None:
    """Raise a ``ModelError`` where a class defines a method that is not asked for any more.

    For ``__init_subclass__``: what it says would otherwise be left out without a word. ``now``
    says of each old name what to give instead.
    """
    for old, new in now.items():
        if old in vars(word):
            raise ModelError(
                f"{word.__name__}.{old} is not asked for any more: give {new} instead"
            )


def old_name_of(method: Callable[..., Any], old: str) -> Callable[..., Any]:
    """A method under its old name, which goes on working with a ``FutureWarning``."""

    def call(*arguments: Any, **options: Any) -> Any:
        owner = type(arguments[0]).__name__
        warnings.warn(
            f"{owner}.{old} is called {owner}.{method.__name__} now", FutureWarning, stacklevel=2
        )
        return method(*arguments, **options)

    call.__name__, call.__doc__ = old, f"``{method.__name__}`` by its old name."
    return call

"""Old names: those of packages go on working, methods that nothing asks for are refused."""

import warnings
from collections.abc import Mapping

from mcframe.contracts.errors import ModelError

__all__ = ["refuse_old_methods", "value_of_old_name"]


def value_of_old_name(package: str, old: str, now: Mapping[str, tuple[str, object]]) -> object:
    """What a package's old name stands for, with a ``FutureWarning``: for ``__getattr__``.

    ``now`` gives the new name of each old one, and the object. Of a name that never was one an
    ``AttributeError``.
    """
    if old not in now:
        raise AttributeError(f"module {package!r} has no attribute {old!r}")
    new, value = now[old]
    warnings.warn(f"{package}.{old} is called {package}.{new} now", FutureWarning, stacklevel=3)
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

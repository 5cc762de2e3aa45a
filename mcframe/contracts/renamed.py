"""Old names of a package that go on working."""

import warnings
from collections.abc import Mapping

__all__ = ["renamed"]


def renamed(package: str, old: str, now: Mapping[str, tuple[str, object]]) -> object:
    """What a package's old name stands for, with a ``FutureWarning``: for ``__getattr__``.

    ``now`` gives the new name of each old one, and the object. Of a name that never was one an
    ``AttributeError``.
    """
    if old not in now:
        raise AttributeError(f"module {package!r} has no attribute {old!r}")
    new, value = now[old]
    warnings.warn(f"{package}.{old} is called {package}.{new} now", FutureWarning, stacklevel=3)
    return value

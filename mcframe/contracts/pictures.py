"""Pictures of answers: an answer asks for them by its class, and the package that draws has them.

An entry point names that package, which is imported where the first picture is asked for.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar

from mcframe.contracts.errors import ModelError

Shown = TypeVar("Shown", bound=type)
PicturesT = TypeVar("PicturesT", covariant=True)
# The packages that draw, and what shows the pictures of an answer, by the name of its class.
PACKAGES: list[str] = []
SHOWN: dict[str, Callable[[Any], Any]] = {}


def drawn_by(package: str) -> None:
    """Name a package that registers pictures when it is imported."""
    PACKAGES.append(package)


def pictures_for(*kinds: str) -> Callable[[Shown], Shown]:
    """Return a decorator for a class that shows the pictures of answers of these classes."""

    def register(shown: Shown) -> Shown:
        SHOWN.update(dict.fromkeys(kinds, shown))
        return shown

    return register


def pictures_of(answer: object) -> Any:
    """The pictures of an answer, or a ``ModelError`` where no package draws it."""
    for package in PACKAGES:
        import_module(package)
    for kind in type(answer).__mro__:
        if kind.__name__ in SHOWN:
            return SHOWN[kind.__name__](answer)
    raise ModelError(
        f"no package draws pictures of an object of the class {type(answer).__name__}; import"
        " mcframe.plots, or register one by mcframe.contracts.pictures.pictures_for"
    )


class Pictured(Generic[PicturesT]):
    """An answer that has pictures, of the class that type checkers see."""

    __slots__ = ()

    @property
    def plot(self) -> PicturesT:
        """The pictures, such as ``answer.plot.gap()``, which is ``mcframe.plots.gap(answer)``."""
        shown: PicturesT = pictures_of(self)
        return shown

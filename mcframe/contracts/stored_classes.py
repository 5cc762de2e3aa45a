"""The classes that files may hold: each says so beside itself, by the decorator ``stored``."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import attrs

from mcframe.contracts.errors import ModelError

__all__ = ["stored"]

AnyClass = TypeVar("AnyClass", bound=type)
PACKAGE = __name__.partition(".")[0]


@attrs.frozen
class Declaration:
    """The options of ``stored`` for one class."""

    kind: type
    renamed_fields: Mapping[str, str]
    former_fields: tuple[str, ...]
    formerly_none: tuple[str, ...]
    recomputed: tuple[str, ...]
    stored_as: type | None
    stands_for: type | None
    dispensable: bool


# Declarations by all names that files may have for their classes.
STORED: dict[str, Declaration] = {}


@overload
def stored(kind: AnyClass) -> AnyClass: ...
@overload
def stored(
    *,
    formerly: tuple[str, ...] = (),
    renamed_fields: Mapping[str, str] | None = None,
    former_fields: tuple[str, ...] = (),
    formerly_none: tuple[str, ...] = (),
    recomputed: tuple[str, ...] = (),
    stored_as: type | None = None,
    stands_for: type | None = None,
    dispensable: bool = False,
) -> Callable[[AnyClass], AnyClass]: ...
def stored(
    kind: Any = None,
    *,
    formerly: tuple[str, ...] = (),
    renamed_fields: Mapping[str, str] | None = None,
    former_fields: tuple[str, ...] = (),
    formerly_none: tuple[str, ...] = (),
    recomputed: tuple[str, ...] = (),
    stored_as: type | None = None,
    stands_for: type | None = None,
    dispensable: bool = False,
) -> Any:
    """Declare that files may hold instances of a class, such as a likelihood of your own.

    A decorator, with or without options. A file has the name of the class and the values of its
    fields, and no code: ``mc.load`` finds the class by its name among those that are declared, so
    that the module of a class of your own has to be imported before.

    Parameters
    ----------
    kind : class that attrs has made
        Its fields are numbers, texts, arrays, frames, or of classes that are stored.
    formerly : tuple of str
        Names that earlier files have for the class: "package.module.Name".
    renamed_fields : dict of str
        Names that earlier files have for fields, with the names that these have now.
    former_fields : tuple of str
        Fields of earlier files that the class has no longer. What they hold is left out.
    formerly_none : tuple of str
        The same for fields that are None in all these files; another value is refused.
    recomputed : tuple of str
        Fields that are not written: they follow from others, and are None, or have their
        default, when the class is made from a file.
    stored_as : class, optional
        A declared class whose name is written, and which makes this one out of the same fields.
    stands_for : class, optional
        One whose place in a field of that type this one may take.
    dispensable : bool, default False
        Whether None is written for an instance that holds something that cannot be stored.

    Returns
    -------
    class
        The same one.

    Raises
    ------
    ModelError
        If attrs has not made the class, if it lacks a field that an option says it has, or has one
        that an option says it had.

    Examples
    --------
    >>> import attrs, mcframe as mc
    >>> from mcframe.contracts import stored
    >>> @stored
    ... @attrs.frozen
    ... class Halved(mc.Gaussian):
    ...     divisor: float = 2.0
    """

    def declare(made: AnyClass) -> AnyClass:
        fields = attrs.fields(made) if attrs.has(made) else None
        if fields is None:
            raise ModelError(
                f"stored: {made.__name__} is no class of attrs, whose fields could be stored;"
                " write @attrs.frozen below @stored"
            )
        names = {field.alias or field.name for field in fields}
        renamed = dict(renamed_fields or {})
        for name in (*renamed.values(), *recomputed):
            if name not in names:
                raise ModelError(
                    f"stored: {made.__name__} has no field {name!r}; correct the name"
                )
        for name in (*renamed, *former_fields, *formerly_none):
            if name in names:
                raise ModelError(
                    f"stored: {made.__name__} has a field {name!r}; drop it from the earlier names"
                )
        declaration = Declaration(
            made,
            renamed,
            former_fields,
            formerly_none,
            recomputed,
            stored_as,
            stands_for,
            dispensable,
        )
        STORED.update(dict.fromkeys((*names_of(made), *formerly), declaration))
        return made

    return declare if kind is None else declare(kind)


def full_name_of(kind: type) -> str:
    """The module and the name of a class, as files have them."""
    return f"{kind.__module__}.{kind.__qualname__}"


def names_of(kind: type) -> tuple[str, ...]:
    """The names of a class: of one of the package its name alone, too."""
    return (full_name_of(kind), *[kind.__name__] * is_inside(kind))


def from_outside() -> list[Declaration]:
    """The declarations of classes from outside of the package, oldest first."""
    named = STORED.items()
    return [d for name, d in named if name == full_name_of(d.kind) and not is_inside(d.kind)]


def is_inside(kind: type) -> bool:
    """True for a class of the package."""
    return kind.__module__.startswith(f"{PACKAGE}.")


def declaration_of(kind: type) -> Declaration | None:
    """The declaration of a class itself, not of one above it; None without any."""
    declaration = STORED.get(full_name_of(kind))
    return declaration if declaration is not None and declaration.kind is kind else None

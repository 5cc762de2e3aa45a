"""Classes from outside of the package that files may hold."""

from typing import TypeVar

from mcframe.contracts.errors import ModelError

__all__ = ["stored"]

AnyClass = TypeVar("AnyClass", bound=type)
# Classes by the names that files have for them.
STORED: dict[str, type] = {}


def stored(kind: AnyClass) -> AnyClass:
    """Declare that files may hold instances of a class, such as a likelihood of your own.

    A decorator. A file has the name of the class and the values of its fields, and no code:
    ``mc.load`` finds the class by its name among those that are declared, so that its module has
    to be imported before.

    Parameters
    ----------
    kind : class that attrs has made
        Its fields are numbers, texts, arrays, frames, or of classes that are stored.

    Returns
    -------
    class
        The same one.

    Raises
    ------
    ModelError
        If attrs has not made the class.

    Examples
    --------
    >>> import attrs, mcframe as mc
    >>> from mcframe.contracts import stored
    >>> @stored
    ... @attrs.frozen
    ... class Halved(mc.Gaussian):
    ...     divisor: float = 2.0
    """
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is None:
        raise ModelError(
            f"stored: {kind.__name__} is no class of attrs, whose fields could be stored; write"
            " @attrs.frozen below @stored"
        )
    STORED[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind

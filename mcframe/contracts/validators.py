"""Checks of parameters, shared by every word: the message names word, value and remedy."""

import math
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError

__all__ = ["block_name", "number", "positive", "read_only_matrix", "whole"]


def number(value: object, what: str) -> float:
    """A finite float, or a ``ModelError`` that says what was given instead."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        try:
            value = float(value.item())  # type: ignore[attr-defined]  # a numpy scalar
        except (AttributeError, TypeError, ValueError):
            raise ModelError(f"{what}={value!r} was given; a finite number is needed") from None
    if not math.isfinite(value):
        raise ModelError(f"{what}={value!r} was given; a finite number is needed")
    return float(value)


def whole(value: object, what: str, least: float = -math.inf) -> int:
    """A Python integer that is at least ``least``, or a ``ModelError``."""
    found = number(value, what)
    if found != math.floor(found) or found < least:
        bound = f" of at least {least:g}" if math.isfinite(least) else ""
        raise ModelError(f"{what}={value!r} was given; a whole number{bound} is needed")
    return int(found)


def positive(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a finite number above zero, kept as a Python float.

    A numpy scalar of lower precision would otherwise round the objective, and with it the
    certificate.
    """
    word = type(instance).__name__
    name = getattr(instance, "name", None)
    word = f"{word} {name!r}" if isinstance(name, str) and word == "Block" else word
    found = number(value, f"{word}: {attribute.name}")
    object.__setattr__(instance, attribute.name, found)
    if found <= 0:
        off = (
            f" (to switch {word} off, leave it out of the model)"
            if attribute.name == "weight"
            else ""
        )
        raise ModelError(f"{word}: {attribute.name}={value!r} was given; it must be above 0{off}")


def block_name(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: the name of a block that a term speaks of."""
    if not isinstance(value, str) or not value.strip():
        word = type(instance).__name__
        raise ModelError(f"{word}: block={value!r} was given; the name of a block is needed")


def read_only_matrix(value: object, what: str) -> Array:
    """A copy as finite float64 numbers that cannot be changed; a vector becomes one row."""
    if hasattr(value, "index") and hasattr(value, "to_numpy"):
        raise ModelError(
            f"{what}: a {type(value).__name__} was given, whose labels would be ignored; put its"
            " rows and columns in the order of the block and give .to_numpy()"
        )
    if hasattr(value, "toarray"):
        value = value.toarray()
    try:
        matrix = np.atleast_2d(np.array(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise ModelError(
            f"{what} of type {type(value).__name__} was given; a matrix of numbers, with rows of"
            " one length, is needed"
        ) from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise ModelError(f"{what} of shape {matrix.shape} was given; a matrix is needed")
    if not np.all(np.isfinite(matrix)):
        row, column = (int(k) for k in np.argwhere(~np.isfinite(matrix))[0])
        raise ModelError(
            f"{what}[{row}, {column}]={matrix[row, column]} was given; finite numbers are needed"
        )
    matrix.flags.writeable = False
    return matrix

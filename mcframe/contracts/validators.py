"""Checks of parameters, shared by every word: the message names word, value and remedy."""

import math
from typing import Any

import attrs

from mcframe.contracts.errors import ModelError

__all__ = ["number", "positive"]


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

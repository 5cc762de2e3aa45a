"""Digests of values by their bits, the same in every process."""

import functools
import hashlib
import types
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

# In a ``repr``: it is another one in another process.
ADDRESS = " at 0x"


def digest_of(value: object) -> str:
    """A digest of words, numbers, arrays and functions, the same in every process.

    Arrays count with all their bits, where their ``repr`` leaves out the middle; functions by
    their code and what they have closed over.
    """
    digest = hashlib.blake2b(digest_size=16)
    feed(digest, value, frozenset())
    return digest.hexdigest()


def feed(digest: Any, value: Any, within: frozenset[int]) -> None:
    """Add a value to a digest, part by part; ``within`` are the values that it is a part of."""
    kind: type = type(value)
    digest.update(f"<{kind.__module__}.{kind.__qualname__}".encode())
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif id(value) not in within:  # a function may have closed over itself
        for part in parts_of_value(value):
            if isinstance(part, bytes):
                digest.update(part)
            else:
                feed(digest, part, within | {id(value)})
    digest.update(b">")


def parts_of_value(value: Any) -> list[Any]:
    """The parts of a value; of what has no parts its ``repr`` as bytes."""
    if isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__module__, value.__qualname__, value.__code__, value.__defaults__, cells]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    if attrs.has(type(value)):
        return [getattr(value, field.name) for field in attrs.fields(type(value))]
    text = repr(value)
    if ADDRESS in text:
        return [dict(sorted(getattr(value, "__dict__", {}).items()))]
    return [text.encode()]

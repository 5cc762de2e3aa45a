"""How messages write what a user gives: as an expression of Python, or as files and options.

A message names arguments, values and remedies as facts, and the surface that called the package
decides how they are written: ``wording().types("visits", "count")`` is ``types={'visits':
'count'}`` in Python and ``--types visits=count`` at a terminal. A surface sets its own wording
around its work by ``worded``; that of Python is in force where none has done so.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from mcframe.contracts.arrays import IntArray


class Wording(Protocol):
    """The ways of one surface to write what its users give."""

    def value(self, value: object) -> str:
        """A value of an argument: None, a number, a text, a list, an instance of a word."""
        ...

    def word(self, name: str, *needed: str, **arguments: object) -> str:
        """A likelihood, term or solver: the names of values to choose, and arguments with one."""
        ...

    def block(self, name: str | None = None, **arguments: object) -> str:
        """A block, of this name or of any, with further arguments."""
        ...

    def argument(self, name: str, value: object) -> str:
        """An argument of a word or of a block, with its value."""
        ...

    def types(self, column: object, kind: object) -> str:
        """The declaration of a column's type."""
        ...

    def types_of_any(self, kind: str = "kind") -> str:
        """The declaration of a type, of a column that the reader chooses."""
        ...

    def refused_type(self, column: object, kind: object) -> str:
        """The beginning of a message about the declared type of a column."""
        ...

    def gaps(self, option: str, gaps: Mapping[object, Sequence[object]]) -> str:
        """The declaration of values that stand for missing ones, by column.

        ``option`` is what a caller in Python names the argument; an empty list of values says
        that no value of that column does.
        """
        ...

    def row(self, row: int) -> str:
        """A row of the table, which is counted from 0."""
        ...

    def how_rows_count(self) -> str:
        """A clause on how the rows of a list are counted; "" where that goes without saying."""
        ...

    def either(self, *, python: str, command: str) -> str:
        """The one of two remedies that applies: in Python, or at a terminal."""
        ...


class InPython:
    """Expressions of Python."""

    def value(self, value: object) -> str:
        """A value, written by ``repr``."""
        return repr(value)

    def word(self, name: str, *needed: str, **arguments: object) -> str:
        """A call, such as ``mc.NuclearNorm(weight)``."""
        return f"mc.{name}({', '.join([*needed, *self.named(arguments)])})"

    def block(self, name: str | None = None, **arguments: object) -> str:
        """A call, such as ``mc.Block('x', ..., bias=True)``."""
        first = [] if name is None else [repr(name)]
        return f"mc.Block({', '.join([*first, '...', *self.named(arguments)])})"

    def named(self, arguments: Mapping[str, object]) -> list[str]:
        """Arguments with their values."""
        return [self.argument(name, value) for name, value in arguments.items()]

    def argument(self, name: str, value: object) -> str:
        """An argument of a call, where ``...`` is a value to choose."""
        return f"{name}={'...' if value is ... else repr(value)}"

    def types(self, column: object, kind: object) -> str:
        """The argument ``types``."""
        return f"types={{{column!r}: {kind!r}}}"

    def types_of_any(self, kind: str = "kind") -> str:
        """The argument ``types``."""
        return f"types={{name: {kind if kind == 'kind' else repr(kind)}}}"

    def refused_type(self, column: object, kind: object) -> str:
        """An element of the argument ``types``."""
        return f"types[{column!r}] is {kind!r};"

    def gaps(self, option: str, gaps: Mapping[object, Sequence[object]]) -> str:
        """The argument, a dict."""
        return f"{option}={dict(gaps)!r}"

    def row(self, row: int) -> str:
        """The number of the row."""
        return f"row {row_number(row)}"

    def how_rows_count(self) -> str:
        """The empty text: rows are counted from 0, which goes without saying in Python."""
        return ""

    def either(self, *, python: str, command: str) -> str:
        """The way of Python."""
        return python


PYTHON = InPython()
WORDING: ContextVar[Wording] = ContextVar("wording", default=PYTHON)


def wording() -> Wording:
    """The wording in force."""
    return WORDING.get()


@contextmanager
def worded(chosen: Wording) -> Iterator[None]:
    """Write messages by this wording until the block ends."""
    token = WORDING.set(chosen)
    try:
        yield
    finally:
        WORDING.reset(token)


# The numbers that messages give rows, where these are some of a longer table.
ROW_NUMBERS: ContextVar[Sequence[int] | IntArray | None] = ContextVar("row_numbers", default=None)


def row_number(row: int) -> int:
    """The number of a row in the table that a user has: the row itself, if all rows are there."""
    numbers = ROW_NUMBERS.get()
    return row if numbers is None else int(numbers[row])


@contextmanager
def rows_numbered(numbers: Sequence[int] | IntArray | None) -> Iterator[None]:
    """Name rows by these numbers in messages, as rows of a longer table, until the block ends."""
    token = ROW_NUMBERS.set(numbers)
    try:
        yield
    finally:
        ROW_NUMBERS.reset(token)

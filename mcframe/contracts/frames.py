"""Data frames as type checkers see them: those of pandas and polars, and tables of pyarrow."""

from typing import TYPE_CHECKING, Any, Protocol


class AnyFrame(Protocol):
    """A table with named columns that is in memory."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""

    @property
    def columns(self) -> Any:
        """The columns, or their names."""


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # The class of the table that was given, which is that of the tables in the answer.
    Frame = TypeVar("Frame", bound=AnyFrame, default=Any)
    # The class of a table of new rows.
    NewFrame = TypeVar("NewFrame", bound=AnyFrame)
else:
    from typing import TypeVar

    Frame, NewFrame = TypeVar("Frame"), TypeVar("NewFrame")

"""Shifts of the missing values of columns: assumptions on values that hide themselves."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import a_type, number, plain
from mcframe.tables.coding import Numbers
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn


@attrs.frozen(eq=False)
class Shifts:
    """Columns of numbers, and what is added to their drawn values.

    Attributes
    ----------
    columns : tuple of (DeclaredColumn, float)
        The shift of each one in the unit of its values.
    """

    columns: tuple[tuple[DeclaredColumn, float], ...] = ()

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return tuple(column.name for column, _ in self.columns)

    @classmethod
    def of(cls, declared: Declared[Any], shifts: Any) -> "Shifts":
        """Return the shifts of a dict from column name to number, or a ``ModelError``."""
        if shifts is None:
            return cls()
        if not isinstance(shifts, Mapping):
            raise ModelError(
                f"shift is {a_type(shifts)}; a dict from column name to number is needed, such as"
                " {'income': 0.3}"
            )
        columns = []
        for name, shift in shifts.items():
            column = declared.column(name)
            what = f"shift of column {plain(name)!r}"
            finite = number(
                shift, what, "a finite number is needed", lambda x: bool(np.isfinite(x))
            )
            if not isinstance(column.coding, Numbers) or column.place is None:
                raise ModelError(
                    f"{what}: the column is taken for: {column.kind}; only numbers, counts and"
                    " dates have shifts"
                )
            columns.append((column, finite))
        return cls(tuple(columns))

    def applied(self, codes: Mapping[Any, Array], rng: np.random.Generator) -> dict[Any, Array]:
        """Codes of missing entries by column, those of shifted columns with their shift."""
        shifted = dict(codes)
        for column, shift in self.columns:
            if column.name in shifted and shift:
                coding: Any = column.coding
                shifted_codes = shifted[column.name] + shift / coding.unit
                if column.has_whole_values or coding.is_whole:  # up or down, right on average
                    shifted_codes = np.floor(shifted_codes + rng.random(shifted_codes.size))
                lowest, highest = coding.support
                shifted_codes = np.clip(shifted_codes, lowest, highest)
                ends = coding.lower / coding.unit, coding.upper / coding.unit
                shifted_codes = coding.whole_within(np.clip(shifted_codes, *ends))
                limited = column.column.limited[column.column.missing]  # which are not missing
                shifted[column.name] = np.where(limited, shifted[column.name], shifted_codes)
        return shifted


NO_SHIFTS = Shifts()

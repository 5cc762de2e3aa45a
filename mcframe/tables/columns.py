"""Columns of DataFrames of any library, read through narwhals: their form, numbers and values."""

import datetime as dt
import sys
from collections import Counter
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import as_float, is_missing, plain
from mcframe.model.labels import numbers_of_column
from mcframe.model.partitioned import refuse_partitions

__all__ = ["Column", "Form", "read_columns", "read_frame", "sort_of", "values_of"]

# What the values of a column are, whatever dtype holds them.
Form = Literal["boolean", "number", "text", "category", "ordered", "date", "other"]


@attrs.frozen(eq=False)
class Column:
    """A column of a table as it was given, and what its values are.

    Attributes
    ----------
    name : object
        As the frame has it; pandas has names that are no strings.
    series : narwhals.Series
    form : Form
        "other" for what is no number, text, category or date.
    trouble : str
        Of "other": what it is instead, and how to convert it.
    """

    name: Any
    series: Any
    form: Form
    trouble: str = ""

    @cached_property
    def numbers(self) -> Array:
        """Numbers and truth values, dates as microseconds since 1970: float64, NaN if missing."""
        series = self.series
        if series.dtype in (nw.String, nw.Object):  # Python numbers in a column of objects
            return np.array([as_float(value) for value in self.values], dtype=np.float64)
        if self.form == "date":
            series = series.dt.timestamp("us")
        return numbers_of_column(series)

    @cached_property
    def values(self) -> list[Any]:
        """The values as Python objects, None where missing."""
        return values_of(self.series)

    @cached_property
    def missing(self) -> Mask:
        """Where no value is observed; NaN counts as missing in every library."""
        if self.form in ("boolean", "number", "date"):
            return np.isnan(self.numbers)
        return np.array([value is None for value in self.values], dtype=bool)

    @cached_property
    def distinct(self) -> tuple[Any, ...]:
        """The different observed values: categories in their own order, others sorted."""
        observed = {value for value in self.values if value is not None}
        if self.form in ("category", "ordered"):
            return tuple(level for level in self.series.cat.get_categories() if level in observed)
        return tuple(sorted(observed))

    @property
    def n_observed(self) -> int:
        """How many values are observed."""
        return int(np.count_nonzero(~self.missing))

    @property
    def n_distinct(self) -> int:
        """How many different values are observed."""
        if self.form in ("boolean", "number", "date"):
            return int(np.unique(self.numbers[~self.missing]).size)
        return len(self.distinct)

    @property
    def whole(self) -> tuple[int, int] | None:
        """The smallest and largest number of a dtype of whole numbers; None of others."""
        dtype = self.series.dtype
        if not dtype.is_integer():
            return None
        word = str(dtype)  # Int8, UInt64, also Int128, which numpy has not
        bits = int(word.lstrip("UInt"))
        low = 0 if word.startswith("U") else -(2 ** (bits - 1))
        return low, low + 2**bits - 1

    def written(self, values: list[Any]) -> list[Any]:
        """Values as the column holds them."""
        return values

    def refuse_infinite(self) -> None:
        """A ``DataError`` where a number is infinite."""
        infinite = np.flatnonzero(np.isinf(self.numbers))
        if infinite.size:
            row = int(infinite[0])
            raise DataError(
                f"column {plain(self.name)!r}: value {self.numbers[row]:g} in row {row}; every"
                " observed value must be finite. Replace infinities by NaN if they stand for"
                " missing values"
            )


def read_frame(frame: Any) -> Any:
    """Return a table as a ``narwhals.DataFrame``.

    Raises
    ------
    DataError
        Where it is no table of pandas, polars or pyarrow (or of another library that narwhals
        reads and that is in memory), where it has no rows or no columns, and where two columns
        have the same name.
    """
    refuse_partitions(frame)
    try:
        table = nw.from_native(frame, eager_only=True)
    except DuplicateError:
        raise repeated_name(frame) from None
    except TypeError:
        raise DataError(
            f"a {type(frame).__name__} was given; a DataFrame of pandas or polars or a Table of"
            " pyarrow is needed (collect a lazy one first, make a pandas.DataFrame of an array)"
        ) from None
    names = table.columns
    if len(set(names)) < len(names):
        raise repeated_name(frame)
    if 0 in table.shape:
        rows, columns = table.shape
        raise DataError(
            f"the table has {rows} rows and {columns} columns; at least one of each is needed"
        )
    return table


def repeated_name(frame: Any) -> DataError:
    """The error of a table with a column name that stands twice."""
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    name, times = Counter(names).most_common(1)[0]
    return DataError(
        f"column name {plain(name)!r} stands {times} times in the table; rename or drop one of"
        " them"
    )


def read_columns(table: Any) -> list[Column]:
    """Return the columns of a ``narwhals.DataFrame``, each with the form of its values."""
    return [read_column(series) for series in table.iter_columns()]


def read_column(series: Any) -> Column:
    """Return a column with the form of its values."""
    name, dtype = series.name, series.dtype
    refuse_sparse(series)
    if dtype == nw.Boolean:
        return Column(name, series, "boolean")
    if dtype in (nw.Categorical, nw.Enum):
        if series.implementation.is_pandas() and not hasattr(series.to_native(), "cat"):
            return Column(name, series, "other", trouble_of("an Arrow dictionary"))
        return Column(name, series, "ordered" if is_ordered(series) else "category")
    if dtype in (nw.Datetime, nw.Date):
        return Column(name, series, "date")
    if dtype == nw.Object and series.implementation.is_polars():  # which sets no entry of them
        return Column(name, series, "other", trouble_of("Python objects"))
    if dtype in (nw.String, nw.Object):
        return column_of_objects(series)
    if dtype.is_numeric() and dtype != nw.Decimal:
        return Column(name, series, "number")
    if len(series) == series.null_count():  # libraries have a dtype of its own for nothing
        return Column(name, series, "text")
    native = series.to_native()
    held = getattr(native, "dtype", dtype) if dtype == nw.Unknown else dtype
    return Column(name, series, "other", trouble_of(str(held)))


def refuse_sparse(series: Any) -> None:
    """A ``DataError`` where a column of pandas is sparse: it says not if a gap is a zero."""
    pandas, native = sys.modules.get("pandas"), series.to_native()
    if pandas is not None and isinstance(getattr(native, "dtype", None), pandas.SparseDtype):
        name = plain(series.name)
        raise DataError(
            f"column {name!r}: the column is sparse (dtype {native.dtype}), and what it does not"
            f" store may be missing or an observed value. Give frame[{name!r}].sparse.to_dense()"
            " as the column, with NaN where a value is missing"
        )


def is_ordered(series: Any) -> bool:
    """Whether the dtype of categories says that they are ordered; an Enum of polars does."""
    if series.dtype == nw.Enum:
        return True
    kind = getattr(series.to_native(), "type", None)  # pyarrow keeps it beside the dtype
    return bool(getattr(kind, "ordered", False))


def column_of_objects(series: Any) -> Column:
    """Return a column of Python objects, or of text, with the form that all of them have."""
    values = values_of(series)
    first: dict[str, tuple[int, Any]] = {}
    for row, value in enumerate(values):
        if value is not None:
            first.setdefault(sort_of(value), (row, value))
    if len(first) > 1:
        told = " and ".join(
            f"{what} ({plain(value)!r} in row {row})" for what, (row, value) in first.items()
        )
        return Column(series.name, series, "other", f"it mixes {told}; give it one type")
    sort = next(iter(first), "text")
    forms: dict[str, Form] = {"text": "text", "numbers": "number", "truth values": "boolean"}
    if sort in forms:
        return Column(series.name, series, forms[sort])
    return Column(series.name, series, "other", trouble_of(sort))


def sort_of(value: object) -> str:
    """What a Python object is, in the plural."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "truth values"
    if isinstance(value, Decimal):
        return "Decimal objects"
    if isinstance(value, np.timedelta64):  # which numpy counts among whole numbers
        return "timedelta64 objects"
    if isinstance(value, Real):
        return "numbers"
    if isinstance(value, dt.date):
        return "Python dates"
    return f"{type(value).__name__} objects"


def trouble_of(what: str) -> str:
    """What a column holds that is none of the known forms, with a remedy."""
    remedies = {
        "Python dates": "convert it by pandas.to_datetime",
        "Decimal objects": "convert it to float",
        "an Arrow dictionary": "convert it by .astype('category')",
    }
    if what.startswith("Decimal"):
        what = "Decimal objects"
    if what.startswith("Duration"):
        return "it holds durations; convert it to numbers, as by .dt.total_seconds()"
    remedy = remedies.get(what, "convert it to numbers, text or categories")
    return f"it holds {what}; {remedy}"


def values_of(series: Any) -> list[Any]:
    """The values as Python objects, None for all that stands for a missing one."""
    listed = series.to_list()
    # NaN and NaT are not equal to themselves; pandas.NA has no truth value, and comes first.
    return [None if is_missing(v) or v != v else v for v in listed]

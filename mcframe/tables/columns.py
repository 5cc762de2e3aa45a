"""Columns of DataFrames of any library, through narwhals: read, and filled in place."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, class_offers
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.limits import MOST_LISTED
from mcframe.contracts.row_stores import refuse_stores
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    REAL_KINDS,
    as_float,
    exact,
    is_missing,
    listed,
    plain,
)
from mcframe.contracts.wording import row_number, wording
from mcframe.model.labels import (
    frame_in_memory,
    is_sparse_column,
    leaves_zeros_out,
    native_dtype,
    numbers_of_column,
)
from mcframe.tables.gaps import (
    Code,
    codes_among,
    is_sign,
    is_word_of_missing,
    number_in,
    numbers_are_gaps,
    stand_for_gaps,
)
from mcframe.tables.known_limits import KnownLimits, limits_of_texts

# What the values of a column are, whatever dtype holds them.
Form = Literal["boolean", "number", "text", "category", "ordered", "date", "other"]

# The kind of a Python object is that of the first class in this list. The order matters: numpy's
# durations are whole numbers to it, and truth values are so to Python.
KINDS_OF_OBJECTS: tuple[tuple[Any, str], ...] = (
    (str, "text"),
    (bool | np.bool_, "truth values"),
    (np.timedelta64, "timedelta64 objects"),
    (Real | Decimal, "numbers"),
    (dt.date, "Python dates"),
)
# Squares may overflow of limits that are so many times as far from 0 as all numbers.
MOST_SIZES_OF_LIMIT = 1e50
# Numbers of these dtypes are not the nearest to what was written.
PRECISION_OF_DTYPE = {"Float32": np.float32, "Float16": np.float16}
REMEDIES = {
    "Python dates": "convert it by pandas.to_datetime",
    "an Arrow dictionary": "convert it by .astype('category')",
}
# How commands read numbers and dates that are text.
BY_OPTIONS = " (--dates FORMAT reads dates, and --decimal CHAR numbers)"


@stored
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
    gaps : tuple
        Values that were declared to stand for missing ones.
    given_limits : KnownLimits or None
        Limits of cells that stand elsewhere, as ``mc.censored`` declares them.
    n_determined : int
        How many of its numbers were gaps, and follow from others by relations.
    """

    name: Any
    series: Any
    form: Form
    trouble: str = ""
    gaps: tuple[Any, ...] = ()
    given_limits: KnownLimits | None = None
    n_determined: int = 0  # not in files of earlier versions

    @cached_property
    def cells(self) -> list[Any]:
        """The cells of the column as Python objects, None where they are empty."""
        return values_of(self.series)

    @cached_property
    def places_of_cells(self) -> tuple[list[Any], IntArray]:
        """The different cells, and the place of each cell among them."""
        return distinct_places(self.cells)

    @cached_property
    def places_of_values(self) -> tuple[list[Any], IntArray]:
        """The different values, None among them, and the place of each value."""
        return distinct_places(self.values)

    @cached_property
    def marked(self) -> Mask:
        """Mark the values that were declared to stand for a missing one."""
        if self.form != "number" or self.series.dtype == nw.Object:
            return stand_for_gaps(self.cells, self.gaps)
        precision = PRECISION_OF_DTYPE.get(str(self.series.dtype), np.float64)
        return numbers_are_gaps(self.stored_numbers, self.gaps, precision)

    @cached_property
    def stored_numbers(self) -> Array:
        """The numbers that stand in the column, NaN where none does."""
        if self.series.dtype == nw.Object:  # text that stands for a missing value is left out
            return numbers_of_column(self.values)
        is_date = self.form == "date"
        return numbers_of_column(self.series.dt.timestamp("us") if is_date else self.series)

    @cached_property
    def numbers(self) -> Array:
        """Numbers and truth values, dates as microseconds since 1970: float64, NaN if missing."""
        return np.where(self.marked | self.limited, np.nan, self.stored_numbers)

    @property
    def limits(self) -> KnownLimits | None:
        """The limits that are known of cells without a number."""
        return self.given_limits

    @cached_property
    def limited(self) -> Mask:
        """Mark the cells of which limits are known; they are filled as missing ones are."""
        if self.limits is None:
            return np.zeros(len(self.series), dtype=bool)
        return self.limits.cells

    @cached_property
    def values(self) -> list[Any]:
        """The values as Python objects, None where missing."""
        if not self.gaps and self.limits is None:
            return self.cells
        pairs = zip(self.cells, self.marked | self.limited, strict=True)
        return [None if marked else value for value, marked in pairs]

    @cached_property
    def missing(self) -> Mask:
        """Mark the cells without a value; NaN counts as missing in every library."""
        if self.form in ("boolean", "number", "date"):
            return np.isnan(self.numbers)
        return np.array([value is None for value in self.values], dtype=bool)

    @cached_property
    def distinct(self) -> tuple[Any, ...]:
        """The different observed values: categories in their own order, others sorted."""
        observed = set(self.places_of_values[0]) - {None}
        if self.form in ("category", "ordered"):
            return tuple(level for level in self.series.cat.get_categories() if level in observed)
        return tuple(sorted(observed))

    @cached_property
    def text_numbers(self) -> "TextNumbers | None":
        """A column of text, or of text and numbers, as numbers; None of others."""
        dtype, polars = self.series.dtype, self.series.implementation.is_polars()
        of_texts = dtype == nw.String or (dtype == nw.Object and not polars)
        if self.form not in ("text", "other") or not of_texts:
            return None
        examples = dict(zip(map(type, self.values), self.values, strict=True))
        examples.pop(type(None), None)
        if set(map(sort_of, examples.values())) - {"text", "numbers"}:
            return None
        return TextNumbers(self.name, self.series, "number", "", self.gaps, self.given_limits)

    @cached_property
    def observed(self) -> Mask:
        """Mark the cells whose value is read: a number among text that holds numbers."""
        is_numeric = self.form in ("boolean", "number", "date")
        return ~np.isnan(self.numbers) if is_numeric else ~self.missing

    @property
    def n_observed(self) -> int:
        """The number of observed values."""
        return int(np.count_nonzero(self.observed))

    @property
    def n_distinct(self) -> int:
        """The number of different observed values."""
        if self.form in ("boolean", "number", "date"):
            return int(np.unique(self.numbers[self.observed]).size)
        return len(self.distinct)

    @cached_property
    def suspects(self) -> tuple[Code, ...]:
        """Numbers that are probably codes for missing values."""
        return codes_among(self.numbers) if self.form == "number" else ()

    @cached_property
    def decimals(self) -> tuple[int, int] | None:
        """The digits of a decimal number, and those behind the point; None of others."""
        return decimals_of(self) if self.form == "number" else None

    @property
    def whole(self) -> tuple[int, int] | None:
        """The smallest and largest number of a dtype of whole numbers; None of others."""
        dtype = self.series.dtype
        if self.decimals is not None and self.decimals[1] == 0:
            most = int(largest_decimal(*self.decimals))
            return -most, most
        if not dtype.is_integer():
            of_numpy = dtype_of_numpy(self.series)  # sparse, or of another order of bytes
            if of_numpy is None or of_numpy.kind not in "iu":
                return None
            return int(np.iinfo(of_numpy).min), int(np.iinfo(of_numpy).max)
        word = str(dtype)  # Int8, UInt64, also Int128, which numpy has not
        bits = int(word.lstrip("UInt"))
        low = 0 if word.startswith("U") else -(2 ** (bits - 1))
        return low, low + 2**bits - 1

    def written(self, values: list[Any]) -> list[Any]:
        """Values as the column holds them."""
        if self.decimals is None:
            return values
        return [None if value is None else as_decimal(value, *self.decimals) for value in values]

    @property
    def is_converted(self) -> bool:
        """True if the column comes back with another dtype: text that is numbers, as numbers."""
        return False

    def filled(self, rows: IntArray, values: list[Any]) -> Any:
        """The column with these values at these rows, as a ``narwhals.Series``."""
        return filled_series(self.series, rows, self.written(values))

    def like(self, table: Any, values: list[Any]) -> Any:
        """A ``narwhals.Series`` of these values as this column has them, for another table."""
        return series_like(self.series, table, self.written(values))

    def refuse_infinite(self) -> None:
        """A ``DataError`` where a number is infinite."""
        infinite = np.flatnonzero(np.isinf(self.numbers))
        if infinite.size:
            row = int(infinite[0])
            gap = wording().either(python="NaN", command="empty cells")
            raise DataError(
                f"column {plain(self.name)!r}: value {exact(self.numbers[row])} in"
                f" {wording().row(row)};"
                f" every observed value must be finite. Replace infinities by {gap} if they stand"
                " for missing values"
            )

    def refuse_far_limits(self, numbers: Array) -> None:
        """A ``DataError`` where a limit is far larger than all of these numbers."""
        size = np.max(np.abs(numbers[~np.isnan(numbers)]), initial=0.0)
        if self.limits is None or not size > 0.0:
            return
        for ends in (self.limits.lower, self.limits.upper):
            far = np.flatnonzero(np.isfinite(ends) & (np.abs(ends) > MOST_SIZES_OF_LIMIT * size))
            if far.size:
                row = int(far[0])
                raise DataError(
                    f"column {plain(self.name)!r} has the limit {ends[row]:g} in"
                    f" {wording().row(row)}, more than {MOST_SIZES_OF_LIMIT:g} times as far from 0"
                    " as all its numbers. Correct the limit, or mark it as missing"
                )


@attrs.frozen
class Bounds:
    """Declared bounds of a number: ``("number", lower, upper)``."""

    lower: float = -np.inf
    upper: float = np.inf

    @classmethod
    def of(cls, declared: Any) -> "Bounds | None":
        """The declared bounds, None if a word, levels or a likelihood was declared."""
        if not isinstance(declared, list | tuple) or declared[:1] not in (["number"], ("number",)):
            return None
        if len(declared) != 3:
            return None
        lower, upper = (
            default if end is None else as_float(end)
            for end, default in zip(declared[1:], (-np.inf, np.inf), strict=True)
        )
        return None if lower is None or upper is None or not lower < upper else cls(lower, upper)

    def __str__(self) -> str:
        lowest = f" from {exact(self.lower)}" if self.lower > -np.inf else ""
        return f"numbers{lowest}" + (f" to {exact(self.upper)}" if self.upper < np.inf else "")


def read_frame(frame: Any) -> Any:
    """Return a table as a ``narwhals.DataFrame``.

    Raises
    ------
    DataError
        If it is no frame in memory (``frame_in_memory``), and where it has no rows or no columns.
    """
    refuse_stores(frame)
    table = frame_in_memory(frame)
    if 0 in table.shape:
        rows, columns = table.shape
        raise DataError(
            f"the table has {rows} rows and {columns} columns; at least one of each is needed"
        )
    return table


def read_columns(table: Any, gaps: Mapping[Any, tuple[Any, ...]] | None = None) -> list[Column]:
    """Return the columns of a ``narwhals.DataFrame``, each with the form of its values.

    ``gaps`` has the values of columns that were declared to stand for missing ones.
    """
    declared = gaps or {}
    return [read_column(series, declared.get(series.name, ())) for series in table.iter_columns()]


def read_column(series: Any, gaps: tuple[Any, ...] = ()) -> Column:
    """Return a column with the form of its values, but for those that stand for missing ones."""
    dtype, native, library = series.dtype, series.to_native(), series.implementation
    of_numpy = dtype_of_numpy(series)
    is_of_reals = of_numpy is not None and of_numpy.kind in REAL_KINDS
    if leaves_zeros_out(series):
        name = plain(series.name)
        raise DataError(
            f"column {name!r}: the column is sparse (dtype {native.dtype}), and what it does not"
            f" store may be missing or an observed zero. Give frame[{name!r}].sparse.to_dense()"
            " as the column, with NaN where a value is missing"
        )
    form: Form = "other"
    held = ""  # by a column of no known form
    if dtype == nw.Boolean:
        form = "boolean"
    elif dtype in (nw.Categorical, nw.Enum):
        if library.is_pandas() and not class_offers(native.dtype, "categories"):
            held = "an Arrow dictionary"
        else:  # of an Enum of polars the order counts; pyarrow keeps this beside the dtype
            ordered = dtype == nw.Enum or getattr(getattr(native, "type", None), "ordered", False)
            form = "ordered" if ordered else "category"
    elif dtype in (nw.Datetime, nw.Date):
        form = "date"
    elif dtype == nw.Object and library.is_polars():  # which sets no entry of them
        held = "Python objects"
    elif dtype in (nw.String, nw.Object):
        return column_of_objects(series, gaps)
    elif dtype.is_numeric() or is_decimal(series) or is_of_reals:
        form = "number"
    elif len(series) == series.null_count():  # libraries have a dtype of its own for nothing
        form = "text"
    else:
        held = str(getattr(native, "dtype", dtype) if dtype == nw.Unknown else dtype)
    return Column(series.name, series, form, trouble_of(held) if held else "", gaps)


def is_decimal(series: Any) -> bool:
    """Return whether a column has a dtype of decimal numbers, also one of 256 bits."""
    native = series.to_native()
    of_arrow = getattr(native, "type", None) or getattr(native.dtype, "pyarrow_dtype", None)
    return bool(series.dtype == nw.Decimal or str(of_arrow).startswith("decimal"))


def dtype_of_numpy(series: Any) -> Any:
    """Return the dtype of numpy that a column, or the entries of a sparse one, has; or None."""
    dtype = native_dtype(series)
    dtype = dtype.subtype if is_sparse_column(series) else dtype
    return dtype if isinstance(dtype, np.dtype) else None


def column_of_objects(series: Any, gaps: tuple[Any, ...] = ()) -> Column:
    """Return a column of Python objects, or of text, with the form that all of them have."""
    cells = values_of(series)
    if gaps:
        marked = stand_for_gaps(cells, gaps)
        cells = [None if gone else cell for cell, gone in zip(cells, marked, strict=True)]
    types = list(map(type, cells))
    first_rows: dict[str, int] = {}  # the first row with a value of a sort
    for row in sorted(map(types.index, set(types) - {type(None)})):
        first_rows.setdefault(sort_of(cells[row]), row)
    if len(first_rows) > 1:
        examples = " and ".join(
            f"{sort} ({plain(cells[row])!r} in row {row_number(row)})"
            for sort, row in first_rows.items()
        )
        trouble = f"it mixes {examples}{wording().how_rows_count()}; give it one type"
        return Column(series.name, series, "other", trouble, gaps)
    sort = next(iter(first_rows), "text")
    forms: dict[str, Form] = {"text": "text", "numbers": "number", "truth values": "boolean"}
    if sort in forms:
        return Column(series.name, series, forms[sort], "", gaps)
    return Column(series.name, series, "other", trouble_of(sort), gaps)


def sort_of(value: object) -> str:
    """The sort of a Python object, in the plural."""
    for kinds, plural in KINDS_OF_OBJECTS:
        if isinstance(value, kinds):
            return plural
    return f"{type(value).__name__} objects"


def trouble_of(held: str) -> str:
    """The reason why a column has none of the supported forms, with a remedy."""
    if held.startswith("Duration"):
        remedy = wording().either(python=", as by .dt.total_seconds()", command=" of seconds")
        return f"it holds durations; convert it to numbers{remedy}"
    remedy = REMEDIES.get(held, "convert it to numbers, text or categories")
    return f"it holds {held}; {remedy}"


# Of these types NaN alone stands for a missing value.
PLAIN_TYPES = frozenset((str, float, int, bool))


def values_of(series: Any) -> list[Any]:
    """The values as Python objects, None for all that stands for a missing one."""
    # NaN and NaT are not equal to themselves; pandas.NA has no truth value, and comes first.
    return [
        None if (type(value) not in PLAIN_TYPES and is_missing(value)) or value != value else value
        for value in series.to_list()
    ]


def distinct_places(values: list[Any]) -> tuple[list[Any], IntArray]:
    """Return the different values, and the place of each value among them."""
    place_of = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(place_of), np.fromiter(map(place_of.__getitem__, values), np.intp, len(values))


def decimals_of(column: Column) -> tuple[int, int] | None:
    """Return the digits of decimal numbers, and those behind the point; None of other numbers.

    They are those of the dtype, or of Python's Decimal objects as many as one of them has.
    """
    series = column.series
    if is_decimal(series):
        native = series.to_native()
        of_arrow = getattr(native, "type", None) or getattr(native.dtype, "pyarrow_dtype", None)
        kind = native.dtype if of_arrow is None else of_arrow
        return kind.precision or MOST_DECIMAL_DIGITS, kind.scale
    if series.dtype != nw.Object:
        return None
    observed = [value for value in column.values if value is not None]
    if not observed:
        return None
    if not all(isinstance(value, Decimal) for value in observed):
        return None
    exponents = [value.as_tuple().exponent for value in observed if value.is_finite()]
    return MOST_DECIMAL_DIGITS, max((-exponent for exponent in exponents), default=0)


# The digits of a decimal number whose dtype does not say how many, and of computations with them.
MOST_DECIMAL_DIGITS, DECIMAL_PRECISION = 38, 1000


def largest_decimal(digits: int, places: int) -> Decimal:
    """Return the largest decimal number with so many digits, some of them behind the point."""
    with localcontext(prec=DECIMAL_PRECISION):
        return Decimal(10) ** (digits - places) - Decimal(10) ** -places


def as_decimal(value: Any, digits: int, places: int) -> Decimal:
    """Return a number as the nearest decimal one with so many digits and places."""
    most = largest_decimal(digits, places)
    with localcontext(prec=DECIMAL_PRECISION):
        number = value if isinstance(value, int | Decimal) else Decimal(repr(float(value)))
        rounded = Decimal(number).quantize(Decimal(10) ** -places)
        return min(max(rounded, -most), most) if digits < MOST_DECIMAL_DIGITS else rounded


def filled_series(series: Any, rows: IntArray, values: list[Any]) -> Any:
    """Return a copy of a ``narwhals.Series`` with these values at these rows.

    The dtype stays: its categories and their order, its time zone, nullable or not. narwhals has
    one name for several of them, so that each library fills its own.
    """
    native = series.to_native()
    library = series.implementation
    if library.is_polars():
        replacements = type(native)(native.name, values, dtype=native.dtype)
        whole = native.clone().scatter(rows, replacements)
    elif library.is_pyarrow():
        whole = filled_arrow(series.__native_namespace__(), native, rows, values)
    elif "string_view" in str(native.dtype):  # of which pandas takes nothing
        cells = native.tolist()
        for row, value in zip(rows, values, strict=True):
            cells[row] = value
        whole = type(native)(cells, index=native.index, dtype=native.dtype)
    else:
        sparse = is_sparse_column(series)  # in whose arrays nothing can be set
        whole = native.sparse.to_dense() if sparse else native.copy()
        whole.iloc[rows] = type(native)(values, dtype=whole.dtype).array
        whole = whole.astype(native.dtype) if sparse else whole
    return nw.from_native(whole, series_only=True).alias(series.name)


def series_like(like: Any, table: Any, values: list[Any]) -> Any:
    """Return a ``narwhals.Series`` of values, with the name of ``like``, for a table.

    With its dtype where the table is of the same library, else with the one that values of this
    type have there; in pandas with the index of the table.
    """
    if table.implementation != like.implementation:
        made = nw.new_series(like.name, values, backend=table.implementation)
        native = made.to_native()
    else:
        native = like.to_native()
        if table.implementation.is_polars():
            native = type(native)(like.name, values, dtype=native.dtype)
        elif table.implementation.is_pyarrow():
            pa = like.__native_namespace__()
            native = pa.chunked_array([pa.array(values, type=native.type)])
        else:
            native = type(native)(values, dtype=native.dtype)
    if table.implementation.is_pandas():
        native.index = table.to_native().index
    return nw.from_native(native, series_only=True).alias(like.name)


def with_categories(series: Any, values: list[Any]) -> Any:
    """Return a ``narwhals.Series`` of categories whose dtype holds these values, too."""
    native, categories = series.to_native(), list(series.cat.get_categories())
    more = [value for value in dict.fromkeys(values) if value not in categories]
    if series.implementation.is_polars():
        native = native.cast(type(native.dtype)([*categories, *more]))
    elif series.implementation.is_pandas_like():
        native = native.cat.add_categories(more)
    # Those of pyarrow are added by filled_arrow.
    return nw.from_native(native, series_only=True).alias(series.name)


def filled_arrow(pa: Any, native: Any, rows: IntArray, values: list[Any]) -> Any:
    """Return a chunked array with these values at these rows."""
    if not pa.types.is_dictionary(native.type):
        chosen = np.zeros(len(native), dtype=bool)
        chosen[rows] = True
        try:
            return pa.compute.replace_with_mask(native, chosen, pa.array(values, type=native.type))
        except pa.ArrowNotImplementedError:  # of views of strings
            listed = native.to_pylist()
            for row, value in zip(rows, values, strict=True):
                listed[row] = value
            return pa.chunked_array([pa.array(listed, type=native.type)])
    coded = native.unify_dictionaries().combine_chunks()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    code_of = {value: code for code, value in enumerate(coded.dictionary.to_pylist())}
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(float)  # NaN where missing
    codes[rows] = [
        np.nan if value is None else code_of.setdefault(value, len(code_of)) for value in values
    ]
    indices = pa.array(codes, type=native.type.index_type, from_pandas=True)
    words = pa.array(list(code_of), type=native.type.value_type)
    whole = pa.DictionaryArray.from_arrays(indices, words, ordered=native.type.ordered)
    return pa.chunked_array([whole])


# A column of text is read as numbers if at least this share of its values reads as numbers.
LEAST_SHARE_READ = 0.9


# Quantities that are not read as such: money and shares, dates and times of day, and numbers with
# a unit, which stands apart or is in small letters (5A may be a class of a school, 5th is a rank).
QUANTITY = re.compile(
    r"(?=.*[€$£¥%‰])[€$£¥]?\s*[+-]?\d[\d.,' ]*[€$£¥%‰]?|\d\d?:\d\d(:\d\d)?"
    r"|\d{4}([./-])\d\d?\2\d\d?|\d\d?([./-])\d\d?\3(\d{4}|\d\d)"
    r"|[+-]?\d[\d.,]*(\s+[^\W\d_]+|\s*[°µ][^\W\d_]+|(?!st|nd|rd|th)[a-z]{2,5})[²³]?(/[^\W\d_]+[²³]?)?"
)


@stored
@attrs.frozen(eq=False)
class TextNumbers(Column):
    """A column of text, or of text and numbers, that is read as numbers.

    ``values`` are numbers, None where a text stands for a missing value, gives limits, or reads as
    no number. Only the first two are ``missing``, and are filled. The column comes back as numbers
    if all of its other text is numbers; else it stays text, and is filled with text.
    """

    @cached_property
    def limits(self) -> KnownLimits | None:
        """The limits that texts give, as "<0.5" or "10-20", and those that stand elsewhere."""
        limits = limits_of_texts(*self.places_of_cells).only(~self.marked)
        if self.given_limits is not None:
            limits = limits.joined(self.given_limits)
        return limits if limits.cells.any() else None

    @cached_property
    def stored_numbers(self) -> Array:
        """The numbers, NaN where a text is none."""
        cells, places = self.places_of_cells
        return np.array([number_in(cell) for cell in cells], dtype=np.float64)[places]

    @cached_property
    def marked(self) -> Mask:
        """Mark the values that were declared to stand for a missing one."""
        return stand_for_gaps(self.cells, self.gaps)

    @cached_property
    def words(self) -> Mask:
        """Mark the texts that say in words that nothing was observed, as in surveys."""
        return self.marks(is_word_of_missing) & ~self.marked

    @cached_property
    def missing(self) -> Mask:
        """Mark the empty cells, and the texts that stand for a missing value."""
        blank = self.marks(lambda value: value is None or is_sign(value))
        return blank | self.marked | self.words | self.limited

    def marks(self, is_one: Callable[[Any], bool]) -> Mask:
        """Mark the cells for which a function is true, which is asked of different ones alone."""
        cells, places = self.places_of_cells
        return np.array([is_one(cell) for cell in cells], dtype=bool)[places]

    @cached_property
    def values(self) -> list[Any]:
        """The numbers, None where there is none."""
        return [None if np.isnan(number) else number for number in self.numbers.tolist()]

    @property
    def n_texts(self) -> int:
        """The number of texts that are no numbers, words that stand for missing values too."""
        return int(np.count_nonzero(self.unread))

    @cached_property
    def whole(self) -> tuple[int, int] | None:
        """The range of 64 bits where each number within is written as a whole one; else None."""
        inside = np.all(np.abs(self.distinct) < 2.0**63)
        return (-(2**63), 2**63 - 1) if self.is_written_whole and inside else None

    @cached_property
    def is_written_whole(self) -> bool:
        """True where a number is written as a whole one."""
        pairs = zip(self.cells, self.values, strict=True)
        read = {str(value) for value, number in pairs if number is not None}
        if self.limits is not None and not self.limits.hold_whole_numbers:
            return False
        return bool(read) and all(WHOLE_NUMBER.fullmatch(value) for value in read)

    @cached_property
    def is_converted(self) -> bool:
        """True if all text is numbers that have a dtype, so that it comes back as numbers."""
        strange = np.isnan(self.numbers) & ~self.missing
        return not strange.any() and (self.whole is not None or not self.is_written_whole)

    def as_number(self, value: Any, whole: bool) -> Any:
        """A number or a text as a number of the dtype that the column comes back with."""
        if value is None:
            return None
        if not whole:
            return number_in(value)
        return int(value) if isinstance(value, str) else round(value)

    def filled(self, rows: IntArray, values: list[Any]) -> Any:
        """The column with these values at these rows, as numbers if it is converted."""
        if not self.is_converted:
            return filled_series(self.series, rows, self.written(values))
        pairs = zip(self.cells, self.values, strict=True)
        # New rows may be written as whole numbers where the others are not.
        is_whole = [value is None or value == round(value) for value in values]
        whole = self.whole is not None and all(is_whole)
        numbers = [None if read is None else self.as_number(cell, whole) for cell, read in pairs]
        for row, value in zip(rows, values, strict=True):
            numbers[row] = self.as_number(value, whole)
        return as_number_series(self.series, numbers)

    def like(self, table: Any, values: list[Any]) -> Any:
        """A ``narwhals.Series`` of these values as this column comes back, for another table."""
        if not self.is_converted:
            return series_like(self.series, table, self.written(values))
        numbers = [self.as_number(value, self.whole is not None) for value in values]
        made = nw.new_series(self.name, numbers, backend=table.implementation)
        if table.implementation.is_pandas():
            made = nw.maybe_set_index(made, index=table.to_native().index)
        return made

    def written(self, values: list[Any]) -> list[Any]:
        """Numbers as text where the column has none."""
        if any(not isinstance(value, str) for value in self.cells if value is not None):
            return values
        return [f"{value:.15g}" if isinstance(value, float) else str(value) for value in values]

    def texts(self, missing: bool) -> str:
        """The texts that are no numbers, those for missing values or others, with their counts."""
        chosen = np.isnan(self.numbers) & (self.missing == missing) & ~self.marked
        return self.counted(chosen & ~self.limited)

    def counted(self, chosen: Mask) -> str:
        """The most frequent texts among some, with their counts."""
        texts = Counter(self.cells[row] for row in np.flatnonzero(chosen))
        texts.pop(None, None)
        return listed([f"{text!r} ({times}x)" for text, times in texts.most_common()])

    @property
    def n_limited(self) -> int:
        """The number of cells of which limits are known."""
        return int(np.count_nonzero(self.limited))

    @property
    def has_numbers_beside_limits(self) -> bool:
        """True if as many numbers stand beside limits as make a column one of numbers.

        And no one of classes such as "0", "1-5" and "6+".
        """
        least = LEAST_SHARE_BESIDE_WORDS * (self.n_observed + self.n_limited)
        return self.n_observed >= max(FEWEST_NUMBERS, least)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """The most frequent texts that keep a column of mostly numbers from being read as such.

        It is mostly numbers where three quarters of it are, or where all others are words for
        missing values.
        """
        n_numbers, n_texts = self.n_observed, self.n_texts
        if not n_texts or n_numbers < FEWEST_NUMBERS:
            return ()
        texts = Counter(self.cells[row] for row in np.flatnonzero(self.unread))
        expected = all(map(is_word_of_missing, texts))
        if n_numbers < (LEAST_SHARE_BESIDE_WORDS if expected else LEAST_SHARE_OF_NUMBERS) * (
            n_numbers + n_texts
        ):
            return ()
        return tuple(text for text, _ in texts.most_common(MOST_LISTED))

    @property
    def unread(self) -> Mask:
        """Mark the texts that are neither a number nor a sign of a missing value."""
        return np.isnan(self.numbers) & (~self.missing | self.words)

    @property
    def what_is_unread(self) -> str:
        """The share of the values that is numbers, and the texts that are none."""
        share = self.n_observed / (self.n_observed + self.n_texts)
        return f"{share:.0%} of its values are numbers, but not {self.counted(self.unread)}"


# A column of text counts as mostly numbers from the first share of numbers on, or from the second
# one if its other values are words for missing ones; so it does beside limits of detection. It
# needs so many numbers.
LEAST_SHARE_OF_NUMBERS, LEAST_SHARE_BESIDE_WORDS, FEWEST_NUMBERS = 0.75, 0.3, 5
WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*")


def as_number_series(series: Any, numbers: list[Any]) -> Any:
    """Return a ``narwhals.Series`` of numbers in the place of one of text.

    Its dtype is nullable, or one of Arrow, where that of the text is.
    """
    whole = all(isinstance(number, int) for number in numbers)
    texts = [None if number is None else repr(number) for number in numbers]
    text = filled_series(series, np.arange(len(numbers)), texts)
    converted = text.cast(nw.Int64 if whole else nw.Float64)
    if str(getattr(series.to_native(), "dtype", "")) == "string":  # nullable text of pandas
        native = converted.to_native().astype("Int64" if whole else "Float64")
        return nw.from_native(native, series_only=True)
    return converted


def with_comma(texts: Sequence[str | None]) -> int | None:
    """Return where the first comma stands, in texts that are numbers but for commas; else None.

    Commas may stand before thousands, or before decimals: "0,5" without it would be a code.
    """
    counts = Counter(texts)
    observed = [text for text in counts if text is not None and not is_sign(text)]
    is_read = [
        not all(np.isnan(number_in(text.replace(",", mark))) for mark in ("", "."))
        for text in observed
    ]
    n_read = sum(counts[text] for text, read in zip(observed, is_read, strict=True) if read)
    if n_read < LEAST_SHARE_READ * sum(counts[text] for text in observed):
        return None
    return next((row for row, text in enumerate(texts) if text and "," in text), None)


def text_as_numbers(column: Column, declared: Any) -> Column:
    """Return a column of text as numbers where nearly all of it is, or where it is declared so.

    Text of two different values, all of them numbers, is left: it is a label.

    Parameters
    ----------
    declared : object
        What the column was declared to be, None where nothing is said of it.
    """
    numbers = column.text_numbers
    if numbers is None or not numbers.n_observed:
        return column
    if isinstance(declared, Likelihood):
        return numbers if declared.width == 1 and declared.values is None else column
    if declared is not None:
        return (
            numbers if declared in ("number", "count") or isinstance(declared, Bounds) else column
        )
    n_read = numbers.n_observed + numbers.n_limited
    n_texts = n_read + numbers.n_texts
    signless = column.form == "text" and not numbers.texts(missing=True)
    if signless and n_texts > len(column.distinct) == 2:
        return column
    if numbers.n_limited and not numbers.has_numbers_beside_limits:
        return column
    return numbers if n_read >= LEAST_SHARE_READ * n_texts else column


def read_column_like(series: Any, declared: Column) -> Column:
    """Return a column of new rows read as that of the table was."""
    column = read_column(series, declared.gaps)
    return (isinstance(declared, TextNumbers) and column.text_numbers) or column


def is_of_quantities(column: Column) -> bool:
    """Return whether nearly all texts are quantities in a form that is not read."""
    if column.form != "text" or isinstance(column, TextNumbers) or len(column.distinct) <= 2:
        return False
    texts = [str(text).strip() for text in column.distinct if not is_sign(text)]
    return sum(map(bool, map(QUANTITY.fullmatch, texts))) >= LEAST_SHARE_READ * max(len(texts), 1)


def warn_of_text(columns: Sequence[Column], declared: Any) -> None:
    """Two ``UserWarning``: columns of text that are read as numbers, and those of quantities.

    Not those that were declared so, but where some of the text is no number.
    """
    unread = [
        f"{plain(column.name)!r} (such as {column.distinct[0]!r})"
        for column in columns
        if column.name not in declared and is_of_quantities(column)
    ]
    if unread:
        how = wording().either(
            python=" (as by pandas.to_datetime; types={name: 'date'} then takes dates as days)",
            command=BY_OPTIONS,
        )
        warn_caller(
            f"columns of text hold quantities that are not read as such: {listed(unread)}; convert"
            f" them to numbers or dates{how},"
            f" or confirm by {wording().types_of_any('category')} or 'skip'"
        )
    converted = []
    for column in columns:
        if isinstance(column, TextNumbers):
            signs, strange = column.texts(missing=True), column.texts(missing=False)
            of_limits = column.counted(column.limited)
            parts = [f"{signs} as missing"] * bool(signs)
            parts += [f"{of_limits} as limits of a number"] * bool(of_limits)
            parts += [f"{strange} stays text, and so does the column"] * bool(strange)
            if column.name not in declared or strange or column.words.any():
                converted.append(
                    repr(plain(column.name)) + (f" ({'; '.join(parts)})" if parts else "")
                )
    if converted:
        warn_caller(
            f"columns of text are read as numbers: {listed(converted)};"
            f" {wording().types_of_any('number')} confirms this, 'category' or 'skip' prevents it",
        )

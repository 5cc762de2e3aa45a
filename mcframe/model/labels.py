"""Columns of frames through narwhals, and labels of rows and columns with their places."""

import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, class_offers
from mcframe.contracts.data_forms import is_sparse_matrix
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.contracts.limits import BATCH_ENTRIES
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    REAL_KINDS,
    NotANumber,
    a_type,
    all_and_meant,
    floats_of,
    how_to_read,
    is_missing,
    listed,
    plain,
)

nw = Deferred("narwhals.stable.v2", "reading columns of frames")


def is_frame(data: Any) -> bool:
    """Return True for a table with named columns, in memory or not."""
    if not class_offers(data, "columns"):
        return False
    try:
        table = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        return True
    return isinstance(table, nw.DataFrame | nw.LazyFrame)


def is_series(data: Any) -> bool:
    """Return True for a Series of narwhals."""
    return isinstance(data, nw.Series)


def frame_in_memory(frame: Any, what: str = "") -> Any:
    """Return a frame of any library as a ``narwhals.DataFrame``: the one reader of frames.

    Parameters
    ----------
    frame : DataFrame or Table
    what : str
        The first words of messages, with their colon.

    Raises
    ------
    DataError
        Where it is no frame, not in memory, or has two columns of one name.
    """
    try:
        table = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError:
        of_arrow = class_offers(frame, "column_names")
        raise name_twice(frame.column_names if of_arrow else frame.columns, what) from None
    if not isinstance(table, nw.DataFrame):
        is_sparse = is_sparse_matrix(frame) or class_offers(frame, "row_labels")  # of triples
        sparse = ". Give a sparse table as a block's data to mc.fit or mc.posterior" * is_sparse
        of_series = ". Of one row give frame.iloc[[0]], of one column series.to_frame()"
        series = of_series * nw.dependencies.is_pandas_series(frame)
        raise DataError(
            f"{what}{a_type(frame)} was given; a DataFrame of pandas or polars or a Table of"
            " pyarrow is needed (collect a lazy one first, make a pandas.DataFrame of an array)"
            f"{how_to_read(frame) or series or sparse}"
        )
    if sum(map(absent, table.columns)) > 1:  # NaN is no equal of NaN
        raise name_twice([None if absent(name) else name for name in table.columns], what)
    return table


def name_twice(names: Iterable[Any], what: str = "") -> DataError:
    """Return the error of names of columns one of which stands twice."""
    name, times = Counter(names).most_common(1)[0]
    title = "no name" if absent(name) else f"the name {plain(name)!r}"
    return DataError(
        f"{what}{times} columns of the table have {title}; rename or drop all but one"
    )


def columns_of_frame(frame: Any, names: Sequence[Any], what: str) -> tuple[str, list[Any]]:
    """Return the name of a frame's library, and some of its columns as Series of narwhals.

    Raises
    ------
    DataError
        As in ``frame_in_memory``, and where the frame lacks one of the columns.
    """
    table = frame_in_memory(frame, f"{what}: ")
    column_names = list(table.columns)
    for name in names:
        if not isinstance(name, Hashable):
            raise DataError(
                f"{what}: {a_type(name)} was given for a column of the frame; give its name"
            )
        if name not in column_names:
            candidates = all_and_meant(name, column_names, "columns")
            raise DataError(f"{what}: column {name!r} is not there; {candidates}")
    return table.implementation.value, [table.get_column(name) for name in names]


def series_of(data: Any) -> Any:
    """Return a Series of narwhals for one of a library that it knows; all else as it is."""
    return nw.from_native(data, pass_through=True, allow_series=True)


def native_dtype(series: Any) -> Any:
    """Return the dtype of a ``narwhals.Series`` as its library has it."""
    native = series.to_native()
    return native.type if class_offers(native, "type") else native.dtype


def is_sparse_column(series: Any) -> bool:
    """Return True for a sparse column of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(native_dtype(series), pandas.SparseDtype)


def leaves_zeros_out(series: Any) -> bool:
    """Return True for a sparse column of pandas that does not store all of its zeros.

    That they are zeros is what pandas says; that they are missing is what a ``scipy.sparse``
    matrix of the same entries means here. NaN that are left out are missing, and any other number
    is that number.
    """
    native = series.to_native()
    return is_sparse_column(series) and bool(
        native.dtype.fill_value == 0 and native.sparse.density < 1.0
    )


def numbers_of_frame(table: Any) -> Array:
    """Return the numbers of a ``narwhals.DataFrame`` (rows x columns), NaN where missing.

    Column by column: numpy would read dates and durations beside numbers as numbers.

    Raises
    ------
    NotANumber
        With the first value that is none, by its row and column.
    """
    numbers = np.empty(table.shape)
    for place, series in enumerate(table.iter_columns()):
        try:
            numbers[:, place] = numbers_of_column(series)
        except NotANumber as error:
            raise NotANumber((*error.position, place), error.value) from None
    return numbers


def numbers_of_column(column: Any) -> Array:
    """Return a column or a sequence of numbers as float64, NaN where one is missing.

    The one reader of numbers in frames: of the data of models, of weights and offsets, of tables
    that are completed, of what estimators are given, and of labels and values in lists of entries.

    Raises
    ------
    NotANumber
        With the first value that is none.
    """
    if is_series(column):
        of_floats = column.dtype.is_numeric() and not column.dtype.is_decimal()  # rounded by some
        if of_floats or column.dtype == nw.Boolean:
            try:
                return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
            except ValueError:  # pyarrow rounds no whole numbers beyond 2**53
                pass
        column = column.to_list()
    try:
        array = column if isinstance(column, np.ndarray) else np.asarray(column)
    except (ValueError, OverflowError):  # lists among the numbers
        array = np.zeros((1, 1))
    if array.ndim != 1 or (array is not column and array.dtype.kind not in REAL_KINDS):
        array = np.fromiter(column, dtype=object, count=len(column))
    return floats_of(array)


def frame_of(columns: dict[str, Any], library: str) -> Any:
    """Return a frame of a library, with these columns."""
    return nw.from_dict(columns, backend=library).to_native()


# Kinds of arrays whose elements are distinguished by sorting: numbers and times.
SORTED_KINDS = "iufmM"
# Units of NumPy's times that are finer than those of Python's.
FINER_THAN_MICROSECONDS = ("ns", "ps", "fs", "as")


@stored
@attrs.frozen(eq=False, repr=False)
class AxisLabels:
    """The labels of the rows or of the columns of a table, in the order of the table.

    Attributes
    ----------
    values : tuple
    name : str, or what else names a column
        How a column of a frame that holds them is called.
    library : str or None
        Whose frames the data came in, as narwhals calls it ("pandas", "polars", "pyarrow"); None
        for sequences and arrays.
    """

    values: tuple[Any, ...]
    name: Any
    library: str | None = None

    @classmethod
    def of(cls, labels: Any, count: int, name: str) -> "AxisLabels":
        """Return the labels of an axis of a table: as they are, of pandas, or positions from 0."""
        if isinstance(labels, AxisLabels):
            return labels
        if labels is None:
            return cls(tuple(range(count)), name)
        axis = name if labels.name is None else labels.name
        return cls(tuple(plain_list(labels.to_numpy(dtype=object))), axis, "pandas")

    @cached_property
    def places(self) -> Mapping[Any, int]:
        """Return the place of each label.

        Raises
        ------
        DataError
            Where one stands twice, so that it says nothing.
        """
        places = {label: place for place, label in enumerate(self.values)}
        if len(places) < len(self.values):
            wrong = next(k for k, label in enumerate(self.values) if places[label] != k)
            raise DataError(
                f"{self.name} {in_words(self.values[wrong])} stands twice among the labels, so"
                " that it names no single one; ask by positions, or rename one of them"
            )
        return places

    def find(self, labels: Any) -> IntArray:
        """Return the places of some labels, -1 for one that is not among these."""
        return code_labels(labels, self.name, self.places)[1]

    def take(self, places: IntArray) -> list[Any]:
        """Return the labels at some places."""
        return [self.values[place] for place in places]

    def equals(self, other: Any) -> bool:
        """Return True for the same labels in the same order."""
        return self.values == tuple(other)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __getitem__(self, place: int) -> Any:
        return self.values[place]

    def __repr__(self) -> str:
        return f"AxisLabels({len(self)} of {self.name!r}: {some_in_words(self.values)})"


def pandas_index(labels: Any, always: bool = False) -> Any:
    """Return the labels of an axis as pandas' ``Index``.

    None where they came from elsewhere, but for ``always``, and where there are none.
    """
    if not isinstance(labels, AxisLabels):
        return labels
    if labels.library != "pandas" and not always:
        return None
    index = sys.modules["pandas"].Index
    return index(list(labels.values), name=labels.name, tupleize_cols=False)


def code_labels(
    sequence: Any, what: Any, positions: Mapping[Any, int] | None = None
) -> tuple[Mapping[Any, int], IntArray]:
    """Return where each label stands, and the places of those of a sequence.

    Parameters
    ----------
    sequence : sequence, array, or Series of narwhals
    what : str, or what else names a column
        How messages call one of them.
    positions : mapping from label to place, optional
        Those that there are; others have the code -1. Without it all are new, and stand in the
        order of their first appearance.

    Raises
    ------
    DataError
        Where a label is missing, cannot be compared, or is equal to another one of another kind.
    """
    places: dict[Any, int] = {}
    codes: IntArray = np.empty(len(sequence), dtype=np.intp)
    kinds: set[type] = set()
    start = 0
    for labels, part_codes in in_parts(sequence):
        kinds.update(map(type, labels))
        try:
            if positions is None:
                label_codes = [places.setdefault(label, len(places)) for label in labels]
            else:
                label_codes = [positions.get(label, -1) for label in labels]
        except TypeError:
            raise not_hashable(labels, what) from None
        stop = start + (len(labels) if part_codes is None else part_codes.size)
        codes[start:stop] = (
            label_codes
            if part_codes is None
            else np.asarray(label_codes, dtype=np.intp)[part_codes]
        )
        start = stop
    check_truth_values(kinds, what)
    if positions is not None:
        return positions, codes
    for label, place in places.items():
        if absent(label):
            raise DataError(
                f"{what} label {in_words(label)} at place {int(np.argmax(codes == place))}"
                " (counted from 0): a missing label names nothing; leave it out, in pandas by"
                f" frame.dropna(subset=[{what!r}])"
            )
    return places, codes


def in_parts(sequence: Any) -> Iterator[tuple[list[Any], IntArray | None]]:
    """Yield the labels part by part as Python's objects, and which of them stands where.

    Numbers, and what pandas has a dtype for, are distinguished by its library, and yielded
    once each; of others all are yielded, many at a time, and the second is None.
    """
    if is_series(sequence) and sequence.dtype.is_numeric() and not sequence.dtype.is_decimal():
        sequence = sequence if sequence.null_count() else sequence.to_numpy()
    if (
        isinstance(sequence, np.ndarray)
        and sequence.dtype.kind in SORTED_KINDS
        and not np.ma.is_masked(sequence)
    ):
        yield by_appearance(sequence)
        return
    if is_series(sequence) and sequence.implementation.is_pandas() and sequence.dtype != nw.Object:
        codes, labels = sequence.to_native().factorize(use_na_sentinel=False)
        yield list(labels), codes
        return
    for start in range(0, len(sequence), BATCH_ENTRIES):
        yield plain_list(sequence[start : start + BATCH_ENTRIES]), None


def by_appearance(numbers: Any) -> tuple[list[Any], IntArray]:
    """Return the different numbers in the order of their first appearance, and their codes."""
    different, codes = np.unique(np.asarray(numbers), return_inverse=True)
    first = np.empty(different.size, dtype=np.intp)
    first[codes[::-1]] = np.arange(numbers.size - 1, -1, -1)  # the last one that is written stays
    order = np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return plain_list(different[order]), places[codes]


def plain_list(sequence: Any) -> list[Any]:
    """Return labels as Python's objects, which are equal where they mean the same."""
    if isinstance(sequence, np.ndarray):
        labels = (in_microseconds(sequence) if sequence.dtype.kind in "mM" else sequence).tolist()
    elif is_series(sequence):
        unit = getattr(sequence.dtype, "time_unit", None)
        if unit in FINER_THAN_MICROSECONDS and not sequence.implementation.is_pandas_like():
            in_microseconds(sequence.to_numpy())  # which refuses what lists would round
        labels = sequence.to_list()
    else:
        labels = list(sequence)
    if {np.datetime64, np.timedelta64} & set(map(type, labels)):
        return [
            in_microseconds(np.asarray(label)).item()
            if isinstance(label, np.datetime64 | np.timedelta64)
            else label
            for label in labels
        ]
    return labels


def in_microseconds(times: Any) -> Any:
    """Return NumPy's times in units that Python's times have, or raise a ``DataError``."""
    if np.datetime_data(times.dtype)[0] not in FINER_THAN_MICROSECONDS:
        return times
    coarse = times.astype(f"{times.dtype.kind}8[us]")
    lost = (coarse.astype(times.dtype) != times) & ~np.isnat(times)
    if np.any(lost):
        raise DataError(
            f"label {np.atleast_1d(times)[np.argmax(np.atleast_1d(lost))]} is finer than a"
            " microsecond, which times as labels are rounded to; give the labels as text or as"
            " whole numbers"
        )
    return coarse


def check_truth_values(kinds: set[type], what: Any) -> None:
    """Raise a ``DataError`` where True and 1, which are equal, may both be labels."""
    truths = {kind for kind in kinds if kind in (bool, np.bool_)}
    numbers = {kind for kind in kinds - truths if issubclass(kind, int | float | np.number)}
    if truths and numbers:
        raise DataError(
            f"{what} labels are truth values and numbers, and True is equal to 1; give labels of"
            " one kind, for example as text"
        )


def not_hashable(labels: list[Any], what: Any) -> DataError:
    """Return the error that shows the first label that cannot be looked up."""
    for label in labels:
        try:
            hash(label)
        except TypeError:
            return DataError(
                f"{what} label {label!r} is {a_type(label)}, which cannot be looked up;"
                " give text, numbers, times or tuples"
            )
    raise AssertionError("unreachable: a label has just failed")


def absent(label: Any) -> bool:
    """Return True for a label that is missing, and for a tuple with a missing part."""
    if isinstance(label, tuple):
        return any(map(absent, label))
    return is_missing(label) or bool(label != label)  # NaN != NaN


def in_words(label: Any) -> str:
    """Return how messages write a label."""
    return repr(plain(label))


def some_in_words(labels: Any) -> str:
    """Return the first labels, and how many more there are."""
    return listed(labels, in_words)

"""Frames, labels and times as numbers, texts and arrays, and back."""

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.validators import a_type, plain

nw: Any = Deferred("narwhals.stable.v2", "reading columns of frames")
pa: Any = Deferred("pyarrow", "reading tables of Arrow")
pandas: Any = Deferred("pandas", "reading frames of pandas")
polars: Any = Deferred("polars", "reading frames of polars")

# The name of what a value is, and its parts: values of the same kinds, texts and arrays.
Parts = tuple[str, Mapping[str, Any]]


def of_index(index: Any) -> Parts:
    """The parts of the labels of rows or of columns in pandas."""
    if isinstance(index, pandas.RangeIndex):
        parts = {"start": index.start, "stop": index.stop, "step": index.step}
        return "pandas.RangeIndex", {**parts, "name": index.name}
    if isinstance(index, pandas.MultiIndex):
        levels = tuple(array_behind(index.get_level_values(k)) for k in range(index.nlevels))
        return "pandas.MultiIndex", {"arrays": levels, "names": tuple(index.names)}
    return "pandas.Index", {"of": array_behind(index), "name": index.name}


def of_frame(frame: Any) -> Parts:
    """The parts of a DataFrame of pandas: one array where all columns have one dtype of numpy."""
    kinds = set(frame.dtypes)
    whole = len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind != "O"
    columns = [array_behind(frame.iloc[:, k]) for k in range(0 if whole else frame.shape[1])]
    parts = {"index": frame.index, "columns": frame.columns}
    # Notes that files can hold: a number or a text by name; those of numpy as Python's.
    notes = {
        key: plain(note)
        for key, note in frame.attrs.items()
        if type(key) is str and type(plain(note)) in (bool, int, float, str)
    }
    parts |= {"notes": notes} if notes else {}
    return "pandas.DataFrame", {**parts, "of": frame.to_numpy() if whole else tuple(columns)}


def frame_of_parts(
    index: Any, columns: Any, of: Any, notes: Mapping[str, Any] | None = None
) -> Any:
    """The DataFrame of pandas with these parts, and with notes in its ``attrs``."""
    if isinstance(of, np.ndarray):
        frame = pandas.DataFrame(of, index=index, columns=columns)
    else:
        made = {k: pandas_series(column, index, None) for k, column in enumerate(of)}
        frame = pandas.DataFrame(made, index=index)
        frame.columns = columns
    frame.attrs.update(notes or {})
    return frame


def pandas_series(of: Any, index: Any, name: Any) -> Any:
    """The Series of pandas with these parts."""
    if len(column_of(of)) != len(index):  # one number for all rows would be repeated
        raise ValueError("a column has other rows than its frame")
    return pandas.Series(of, index=index, dtype=of.dtype, name=name)


def column_of(of: Any) -> Any:
    """An array with a dimension, of numpy or of pandas; a ``TypeError`` for anything else.

    Labels of rows that are counted would be written out where an array is needed.
    """
    if type(of) is np.ndarray and of.ndim == 1:
        return of
    if isinstance(of, pandas.api.extensions.ExtensionArray):
        return of
    raise TypeError(f"{a_type(of)} stands where an array is needed")


def scalars(of: Any) -> list[Any]:
    """A list of objects that libraries do not read as many: a ``TypeError`` for anything else."""
    if not isinstance(of, tuple) or any(getattr(element, "ndim", 0) for element in of):
        raise TypeError("an array stands where a list of objects is needed")
    return list(of)


def array_behind(column: Any) -> Any:
    """The array of numpy or of pandas that holds a Series or labels."""
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array


def of_extension(array: Any) -> Parts:
    """The parts of an array of pandas whose dtype is not one of numpy."""
    dtype = array.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        parts = {"codes": np.asarray(array.codes), "categories": array.categories}
        return "pandas.Categorical", {**parts, "ordered": bool(array.ordered)}
    if isinstance(dtype, pandas.DatetimeTZDtype):
        utc = array.tz_convert("UTC").tz_localize(None)
        return "pandas.DatetimeArray", {"of": np.asarray(utc), "dtype": str(dtype)}
    if isinstance(dtype, pandas.ArrowDtype):
        return "pandas.ArrowExtensionArray", {"of": pa.chunked_array(array.__arrow_array__())}
    for text in (str(dtype), f"string[{getattr(dtype, 'storage', '')}]"):
        if is_dtype(text, dtype):
            return "pandas.array", {"of": tuple(array.tolist()), "dtype": text}
    raise TypeError(f"dtype {dtype}")


def is_dtype(text: str, dtype: Any) -> bool:
    """True if pandas understands a text as this dtype."""
    try:
        return bool(pandas.api.types.pandas_dtype(text) == dtype)
    except TypeError:
        return False


def written_bytes(write: Callable[[BytesIO], Any]) -> Array:
    """The bytes that a function writes into a file, as an array."""
    file = BytesIO()
    write(file)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def of_arrow(table: Any) -> Array:
    """The bytes of a table of Arrow."""

    def write(file: BytesIO) -> None:
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)

    return written_bytes(write)


def arrow_of(of: Array) -> Any:
    """The table of Arrow with these bytes."""
    table = pa.ipc.open_stream(column_of(of).tobytes()).read_all()
    table.validate(full=True)
    return table


def of_polars(frame: Any) -> Array:
    """The bytes of a frame of polars."""
    return written_bytes(
        lambda file: frame.write_ipc(file, compat_level=polars.CompatLevel.newest())
    )


def polars_of(of: Array) -> Any:
    """The frame of polars with these bytes."""
    try:
        return polars.read_ipc(BytesIO(column_of(of).tobytes()))
    except polars.exceptions.PanicException as error:  # which is no Exception
        raise ValueError(f"bytes that are no frame of polars: {error}") from None


def series_of(of: Any, name: Any) -> Any:
    """The Series of narwhals of one of a library; those of Arrow have no name."""
    series = nw.from_native(of, series_only=True)
    return series if series.name == name else series.alias(name)


# By the first package and the name of a class: the parts of its values.
TAKEN_APART: dict[tuple[str, str], Callable[[Any], Parts]] = {
    ("datetime", "date"): lambda value: ("date", {"of": value.isoformat()}),
    ("datetime", "datetime"): lambda value: ("datetime", {"of": value.isoformat()}),
    ("decimal", "Decimal"): lambda value: ("Decimal", {"of": str(value)}),
    ("narwhals", "DataFrame"): lambda value: ("narwhals.DataFrame", {"of": value.to_native()}),
    ("narwhals", "Series"): lambda value: (
        "narwhals.Series",
        {"of": value.to_native(), "name": value.name},
    ),
    ("pandas", "DataFrame"): of_frame,
    ("pandas", "ExtensionArray"): of_extension,
    ("pandas", "Index"): of_index,
    ("pandas", "Interval"): lambda value: (
        "pandas.Interval",
        {"left": value.left, "right": value.right, "closed": value.closed},
    ),
    ("pandas", "NAType"): lambda value: ("pandas.NA", {}),
    ("pandas", "NaTType"): lambda value: ("pandas.NaT", {}),
    ("pandas", "Period"): lambda value: (
        "pandas.Period",
        {"of": value.ordinal, "freq": value.freqstr},
    ),
    ("pandas", "Series"): lambda value: (
        "pandas.Series",
        {"of": array_behind(value), "index": value.index, "name": value.name},
    ),
    ("pandas", "Timestamp"): lambda value: (
        "pandas.Timestamp",
        {"of": value.isoformat(), "zone": None if value.tz is None else str(value.tz)},
    ),
    ("polars", "DataFrame"): lambda value: ("polars.DataFrame", {"of": of_polars(value)}),
    ("polars", "Series"): lambda value: ("polars.Series", {"of": of_polars(value.to_frame())}),
    ("pyarrow", "ChunkedArray"): lambda value: (
        "pyarrow.ChunkedArray",
        {"of": of_arrow(pa.table({"": value}))},
    ),
    ("pyarrow", "Table"): lambda value: ("pyarrow.Table", {"of": of_arrow(value)}),
}
# The way back, by the name.
PUT_TOGETHER: dict[str, Callable[..., Any]] = {
    "date": lambda of: dt.date.fromisoformat(of),
    "datetime": lambda of: dt.datetime.fromisoformat(of),
    "Decimal": lambda of: Decimal(of),
    "narwhals.DataFrame": lambda of: nw.from_native(of, eager_only=True),
    "narwhals.Series": series_of,
    "pandas.ArrowExtensionArray": lambda of: pandas.arrays.ArrowExtensionArray(of),
    "pandas.Categorical": lambda codes, categories, ordered: pandas.Categorical.from_codes(
        column_of(codes), categories, ordered=ordered
    ),
    "pandas.DataFrame": frame_of_parts,
    "pandas.DatetimeArray": lambda of, dtype: (
        pandas.DatetimeIndex(column_of(of)).tz_localize("UTC").astype(dtype).array
    ),
    "pandas.Index": lambda of, name: pandas.Index(column_of(of), dtype=of.dtype, name=name),
    "pandas.Interval": lambda left, right, closed: pandas.Interval(left, right, closed),
    "pandas.MultiIndex": lambda arrays, names: pandas.MultiIndex.from_arrays(
        [column_of(level) for level in arrays], names=names
    ),
    "pandas.NA": lambda: pandas.NA,
    "pandas.NaT": lambda: pandas.NaT,
    "pandas.Period": lambda of, freq: pandas.Period(ordinal=of, freq=freq),
    "pandas.RangeIndex": lambda start, stop, step, name: pandas.RangeIndex(
        start, stop, step, name=name
    ),
    "pandas.Series": pandas_series,
    "pandas.Timestamp": lambda of, zone: (
        pandas.Timestamp(of) if zone is None else pandas.Timestamp(of).tz_convert(zone)
    ),
    "pandas.array": lambda of, dtype: pandas.array(scalars(of), dtype=dtype),
    "polars.DataFrame": polars_of,
    "polars.Series": lambda of: polars_of(of).to_series(),
    "pyarrow.ChunkedArray": lambda of: arrow_of(of).column(0),
    "pyarrow.Table": arrow_of,
}

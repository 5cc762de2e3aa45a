"""Missing entries of a column filled in place, in the dtype that the column has."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import IntArray

__all__ = ["filled_series", "series_like", "with_categories"]


def filled_series(series: Any, rows: IntArray, values: list[Any]) -> Any:
    """Return a copy of a ``narwhals.Series`` with these values at these rows.

    The dtype stays: its categories and their order, its time zone, nullable or not. narwhals has
    one name for several of them, so that each library fills its own.
    """
    native = series.to_native()
    library = series.implementation
    if library.is_polars():
        given = type(native)(native.name, values, dtype=native.dtype)
        whole = native.clone().scatter(rows, given)
    elif library.is_pyarrow():
        whole = filled_arrow(series.__native_namespace__(), native, rows, values)
    else:
        given = type(native)(values, dtype=native.dtype)
        whole = native.copy()
        whole.iloc[rows] = given.array
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
    native, known = series.to_native(), list(series.cat.get_categories())
    more = [value for value in dict.fromkeys(values) if value not in known]
    if series.implementation.is_polars():
        native = native.cast(type(native.dtype)([*known, *more]))
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
    codes = coded.indices.to_numpy(zero_copy_only=False).copy()
    codes[rows] = [code_of.setdefault(value, len(code_of)) for value in values]
    indices = pa.array(codes, type=native.type.index_type, from_pandas=True)
    words = pa.array(list(code_of), type=native.type.value_type)
    whole = pa.DictionaryArray.from_arrays(indices, words, ordered=native.type.ordered)
    return pa.chunked_array([whole])

"""Tables of the user's own library with columns that were changed or added."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals.stable.v2 as nw


def with_columns(table: Any, changed: Sequence[Any]) -> Any:
    """A table in its library with some columns replaced or added, and its labels of columns."""
    native = table.to_native()
    if not changed:
        return native
    made = table.with_columns(*changed).to_native()
    if table.implementation.is_pandas() and made.shape[1] == native.shape[1]:
        made.columns = native.columns  # narwhals keeps neither their names nor None
    if table.implementation.is_pyarrow():
        return with_pandas_types(made)
    return made


# The types of columns of text in the metadata of pandas.
PANDAS_TEXT_TYPES = ("unicode", "mixed", "object")


def with_pandas_types(table: Any) -> Any:
    """A table of pyarrow whose notes for pandas name the types that its columns have now."""
    notes = (table.schema.metadata or {}).get(b"pandas")
    if notes is None:
        return table
    facts, changed = json.loads(notes), False
    for column in facts.get("columns", ()):
        place = table.schema.get_field_index(column["field_name"] or "")
        stored = str(table.schema.field(place).type) if place >= 0 else ""
        kind = {"double": "float64", "int64": "int64"}.get(stored)
        if kind is not None and column["pandas_type"] in PANDAS_TEXT_TYPES:
            column |= {"pandas_type": kind, "numpy_type": kind, "metadata": None}
            changed = True
    if not changed:
        return table
    metadata = {**table.schema.metadata, b"pandas": json.dumps(facts).encode()}
    return table.replace_schema_metadata(metadata)


def like_frame(table: Any, names: list[Any], columns: Iterable[Any]) -> Any:
    """Return an array or a series for each name as a table like another, with its index."""
    pandas = table.implementation.is_pandas()
    labels = range(len(names)) if pandas else names
    of_labels = {  # native, since narwhals leaves zones of dates of pandas out
        str(name): nw.to_native(values, pass_through=True)
        for name, values in zip(labels, columns, strict=True)
    }
    made = nw.from_dict(of_labels, backend=table.implementation).to_native()
    if pandas:
        native = table.to_native()
        made.columns = native.columns if list(native.columns) == names else names
        made.index = native.index
    return made

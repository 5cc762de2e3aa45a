"""Files of commands: tables in CSV, Parquet and Arrow, types and models in TOML and JSON."""

import json
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcframe.backends import BACKENDS, Backend, BackendLike
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import a_type, meant
from mcframe.datasets.delimited import (
    NUMBER,
    WHOLE,
    Dialect,
    frame_of_columns,
    list_of_cells,
    read_cells,
)
from mcframe.datasets.delimited import column_of_text as read_text_column
from mcframe.datasets.readers import find_file
from mcframe.datasets.table_files import (
    feather,
    format_of,
    gaps_by_name,
    meet_extensions,
    parquet,
    reading,
    table_without_gaps,
)
from mcframe.model import Model
from mcframe.model.labels import name_twice
from mcframe.storage.serializing import (
    FORMAT,
    check_format,
    deserialize,
    find_declaration,
    message_of,
)
from mcframe.tables.gaps import stand_for_gaps


def read_table_file(
    path: str,
    *,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    missing: Sequence[str] = (),
    dates: str | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Any:
    """Read a table from a file: of Arrow, or of CSV in the first library that is installed.

    Parameters
    ----------
    path : str
    delimiter, decimal, encoding
        Of CSV: what stands between two cells and before decimals.
    missing : sequence of str
        What stands for missing entries, too: TEXT in all columns, NAME=TEXT in one.
    dates : str, optional
        The format of dates in CSV, in the words of ``strptime``, beside that of ISO.
    dtypes : dict from column name to a dtype of narwhals, optional
        Those of the columns of a fitted table, by which new rows in CSV are read.

    Raises
    ------
    DataError
        Where there is no such file, or it is no table of its kind.
    """
    format_of(Path(path))
    file = find_file(path)
    file_format = format_of(file)
    if dates is not None and "%" not in dates:
        raise DataError(f"--dates {dates!r} is no format; give one such as %d.%m.%Y")
    if delimiter == decimal != ",":  # cells with decimal commas may be quoted
        raise DataError(
            f"{delimiter!r} stands between cells and before decimals; give another one"
        )
    if file_format == "csv":
        dialect = Dialect(delimiter, encoding, lambda name, text: f"--{name} {shlex.quote(text)}")
        return read_csv_file(file, dialect, decimal, missing, dates, dtypes or {})
    with reading(path, file_format):
        table = read_arrow(file, file_format)
        if meet_extensions(table.schema):
            table = read_arrow(file, file_format)
        return table_without_gaps(table, missing)


def read_arrow(file: Path, file_format: str) -> Any:
    """Read a table of Parquet or Feather."""
    return (
        parquet.ParquetFile(file).read() if file_format == "parquet" else feather.read_table(file)
    )


def read_csv_file(
    file: Path,
    dialect: Dialect,
    decimal: str,
    missing: Sequence[str],
    dates: str | None,
    dtypes: Mapping[str, Any],
) -> Any:
    """Read a table whose columns are text, or numbers and dates where all cells are.

    It is one of pyarrow, of polars or of pandas: the first of them that is installed.
    """
    table = read_cells(file, dialect)
    names = table.names
    if len(set(names)) < len(names):
        raise name_twice(names)
    if not all(map(WHOLE.fullmatch, names)) and all(map(NUMBER.fullmatch, names)):
        warn_caller(
            f"{file}: the first line, {dialect.delimiter.join(names[:3])} ..., holds numbers"
            " alone, and is taken for the names of the columns; add a line of names if it is a row"
        )
    gaps = gaps_by_name(missing, names)
    columns = []
    for name, cells in zip(names, table.columns, strict=True):
        if gaps.get(name):
            cells = list_of_cells(cells)
            marked = stand_for_gaps(cells, gaps[name])
            cells = [None if gap else cell for cell, gap in zip(cells, marked, strict=True)]
        columns.append(read_text_column(name, cells, dtypes.get(name), decimal, dates))
    if dates is not None and not any(column.kind in ("date", "time") for column in columns):
        warn_caller(
            f"--dates {dates} fits no column: a column has dates where all of its cells read as"
            " dates of this format"
        )
    return frame_of_columns(columns)


def read_document(path: str) -> dict[str, Any]:
    """Read a file of TOML or JSON that holds a table of values.

    TOML has no null; the text ``"null"`` stands for it there.
    """
    file, hint = find_file(path), ""
    is_toml = file.suffix.lower() == ".toml"
    try:
        text = file.read_text(encoding="utf-8-sig")
        if is_toml and UNQUOTED_NULL.search(text):
            hint = '; TOML has no null of its own, write "null" with quotes'
        document: Any = with_nulls(tomllib.loads(text)) if is_toml else json.loads(text)
    except (OSError, ValueError) as error:  # of which errors of TOML and JSON are a kind
        raise DataError(f"{path} cannot be read as TOML or JSON: {error}{hint}") from None
    if not isinstance(document, dict):
        raise DataError(f"{path} holds {a_type(document)}; names with values are needed")
    return document


UNQUOTED_NULL = re.compile(r"[=,\[]\s*(null|None)\b")


def with_nulls(value: Any) -> Any:
    """A value of TOML with None where the text is "null", but for names."""
    if isinstance(value, dict):
        return {
            key: part if key in ("name", "columns") else with_nulls(part)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [with_nulls(part) for part in value]
    return None if value == "null" else value


def is_document(text: str) -> bool:
    """True if an argument names a file of TOML or JSON."""
    return "=" not in text and text.lower().endswith((".toml", ".json"))


def description_of(description: Any) -> Any:
    """Return what is stored of a word: ``"Huber"`` is ``{"is": "Huber"}``."""
    return {"is": description} if isinstance(description, str) else description


def read_types(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the types of columns from arguments NAME=KIND and from files.

    Raises
    ------
    DataError
        Where an argument is neither, or names no type.
    """
    types: dict[str, Any] = {}
    named = set()
    for text in texts:
        if is_document(text):
            types |= read_document(text)
            continue
        name, _, kind = text.partition("=")
        if not (name and kind):
            raise DataError(f"--types {text!r}: NAME=KIND or a file .toml or .json is needed")
        if name in named:
            raise DataError(f"--types {text!r}: column {name!r} has a type already; give one")
        named.add(name)
        try:
            types[name] = json.loads(kind) if kind[0] in "[{" else kind
        except ValueError as error:
            raise DataError(
                f"--types {text!r}: {kind} is no JSON ({error}); texts in it need double quotes,"
                f' as in \'{name}=["I","II"]\''
            ) from None
    for name, kind in types.items():
        if isinstance(kind, dict):
            types[name] = instance_of(f"--types: column {name!r}", kind)
    return types or None


def read_model(path: str) -> tuple[Model, dict[str, Any]]:
    """Read a model from TOML or JSON, and the columns of each block.

    The file has ``blocks`` and ``terms``, or is what ``Model.to_json`` has written; each block has
    ``columns`` beside.

    Raises
    ------
    DataError
        Where it holds no model.
    """
    document, columns = read_document(path), dict[str, Any]()
    try:
        check_format(document.get("format", FORMAT))
        facts = document.get("model", document)
        if not isinstance(facts.get("blocks"), list) or not isinstance(facts.get("terms"), list):
            raise DataError("a list of blocks and a list of terms are needed")
        unknown = sorted({*facts} - {"is", "format", "blocks", "terms"})
        if unknown:
            raise DataError(
                f"{unknown[0]!r} is no part of a model; blocks and terms are, and constraints are"
                " terms, too"
            )
        blocks = [dict(block) for block in facts["blocks"]]
        for place, block in enumerate(blocks, 1):
            name = block.get("name", place)
            for key in ("name", "columns"):
                if not block.get(key):
                    raise DataError(f"block {name!r} has no {key}; add {key} = ...")
            columns[str(name)] = block.pop("columns")
            likelihood = instance_of(f"block {name!r}", description_of(block.get("likelihood")))
            block |= {"is": "Block", "likelihood": likelihood}
        terms = [description_of(term) for term in facts["terms"]]
        model = deserialize({}, {"is": "Model", "blocks": blocks, "terms": terms})
    except Exception as error:  # whatever other hands have written into it
        raise DataError(f"{path} holds no model: {message_of(error)}") from None
    return model, columns


def read_backend(text: str) -> BackendLike:
    """Return a backend from its name, or from a class and its options as files have them.

    Raises
    ------
    DataError
        Where it is neither.
    """
    if text == "auto" or text in BACKENDS:
        return text
    try:
        description = json.loads(text) if text.startswith("{") else description_of(text)
    except ValueError as error:
        raise DataError(f"--backend {text!r} is no JSON ({error})") from None
    if not text.startswith("{") and find_declaration(text) is None and "." not in text:
        raise DataError(f"--backend {text!r}: {meant(text, ['auto', *BACKENDS], 'backends')}")
    backend = instance_of(f"--backend {text}", description)
    if not isinstance(backend, Backend | Solver):
        raise DataError(f"--backend {text!r} is {a_type(backend)}; a solver is needed")
    return backend


def instance_of(what: str, description: Any) -> Any:
    """Return a value from what a file says of it; errors name what it is of."""
    try:
        return deserialize({}, description)
    except Exception as error:  # whatever other hands have written
        raise DataError(f"{what}: {message_of(error)}") from None

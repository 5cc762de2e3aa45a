"""Tables of comma-separated values, their columns gathered into the blocks of a model."""

import csv
import difflib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.datasets.arff import as_number
from mcframe.datasets.files import find_file, read_text, refuse_repeated, some_names

MISSING = ("", "NA", "NaN", "nan")


def read_csv(
    path: str | os.PathLike[str],
    blocks: Mapping[str, str | Sequence[str]],
    *,
    missing: Collection[str] = MISSING,
    delimiter: str = ",",
    as_frame: bool = False,
    index: str | None = None,
    encoding: str = "utf-8",
) -> dict[str, Any]:
    r"""Read a table with a header, and give its blocks as ``mcframe.fit`` takes them.

    Parameters
    ----------
    path : path of the file
        The first line names the columns. A relative path that does not exist is searched for in
        the folder that the environment variable ``MCFRAME_DATA`` names.
    blocks : dict
        For each block its columns by name, in the order they shall have, or one text in which
        ``*`` stands for anything, such as ``"gene_*"``: all columns it fits, in the order of the
        file. Columns in no block are left alone.
    missing : texts that mean that an entry is missing
        By default an empty cell, NA, NaN and nan.
    delimiter : one character
        ``";"`` or a tab where that stands between the columns.
    as_frame : bool
        Give DataFrames with the names of the columns instead of arrays; it needs pandas.
    index : str, optional
        With ``as_frame``, the column that names the items.
    encoding : str

    Returns
    -------
    dict
        Block name to array, or DataFrame, (n_items, n_columns), NaN where missing.

    Raises
    ------
    DataError
        An unknown column, a column in two blocks, a cell that is neither a number nor missing,
        a line of another length; it names file, line, column, value and remedy.
    ModuleNotFoundError
        With ``as_frame``, where pandas is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mcframe.datasets import read_csv
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = pathlib.Path(place) / "songs.csv"
    ...     _ = file.write_text("id,bpm,length,sad\na,120,,1\nb,NA,3.5,\n")
    ...     data = read_csv(file, {"features": ["length", "bpm"], "labels": "sa*"})
    >>> data["features"].tolist()
    [[nan, 120.0], [3.5, nan]]
    >>> data["labels"].tolist()
    [[1.0], [nan]]
    """
    file = find_file(path)
    if len(delimiter) != 1:
        raise DataError(f"delimiter={delimiter!r} was given; one character is needed")
    if index is not None and not as_frame:
        raise DataError(f"index={index!r} needs as_frame=True: arrays have no names of items")
    reader = csv.reader(read_text(file, encoding).splitlines(keepends=True), delimiter=delimiter)
    header = [name.strip() for name in next(reader, [])]
    if not any(header):
        raise DataError(f"{file}, line 1, is empty; the names of the columns are needed there")
    refuse_repeated(file, header, "columns")
    names = {
        block: choose_columns(file, header, block, wanted) for block, wanted in blocks.items()
    }
    places = find_columns(file, header, names, index)
    absent = frozenset(missing)
    rows, items = [], []
    for line in filter(None, reader):
        where = f"{file}, line {reader.line_num}"
        if len(line) != len(header):
            raise DataError(
                f"{where}, has {len(line)} cells and the header {len(header)}; put cells that hold"
                " the delimiter between quotation marks, or give delimiter="
            )
        rows.append([number_in(where, header[place], line[place], absent) for place in places])
        items.append(line[header.index(index)] if index is not None else "")
    if not rows:
        raise DataError(f"{file} has a header and no rows; is it complete?")
    table = np.array(rows, dtype=np.float64)
    ends = np.cumsum([len(columns) for columns in names.values()])[:-1]
    arrays = dict(zip(names, np.split(table, ends, axis=1), strict=True))
    if not as_frame:
        return arrays
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "as_frame=True needs pandas; get it with pip install pandas, or leave as_frame out"
        ) from None
    labels = None if index is None else pd.Index(items, name=index)
    return {
        block: pd.DataFrame(array, columns=names[block], index=labels)
        for block, array in arrays.items()
    }


def choose_columns(
    file: Path, header: list[str], block: str, wanted: str | Sequence[str]
) -> list[str]:
    """Name the columns of a block."""
    if not isinstance(wanted, str):
        names = list(wanted)
    elif "*" in wanted:
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("*")))
        names = [name for name in header if pattern.fullmatch(name)]
    else:
        names = [wanted]
    known = f"the columns are {some_names(header)}"
    if not names:
        raise DataError(f"{file}: no column fits block {block!r}, {wanted!r}; {known}")
    for name in names:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1)
            hint = f"did you mean {near[0]!r}?" if near else known
            raise DataError(
                f"{file}: block {block!r} names the column {name!r}, which is not there; {hint}"
            )
    return names


def find_columns(
    file: Path, header: list[str], names: Mapping[str, list[str]], index: str | None
) -> list[int]:
    """Find the places of all columns, block after block; none may be used twice."""
    if not names:
        raise DataError("blocks={} was given; name at least one block and its columns")
    used: dict[str, str] = {}
    if index is not None:
        used.update(dict.fromkeys(choose_columns(file, header, "index", [index]), "index"))
    for block, columns in names.items():
        for name in columns:
            if name in used:
                raise DataError(
                    f"column {name!r} is in block {used[name]!r} and again in {block!r}; a column"
                    " belongs to one block"
                )
            used[name] = block
    return [header.index(name) for columns in names.values() for name in columns]


def number_in(where: str, column: str, text: str, missing: Collection[str]) -> float:
    """Return the number in a cell, NaN for a text that means that it is missing."""
    text = text.strip()
    if text in missing:
        return np.nan
    value = as_number(text)
    if value is None or np.isnan(value):
        raise DataError(
            f"{where}, column {column!r}: {text!r} is no finite number; recode it, or, if it means"
            " missing, add it to missing="
        )
    return value

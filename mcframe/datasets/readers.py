"""Data files: where they are, their text and arrays; tables as blocks, and ratings."""

import math
import os
import re
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from scipy import sparse

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import meant, suggests_options
from mcframe.datasets.arrow_cells import finite_numbers
from mcframe.datasets.delimited import (
    MISSING,
    Dialect,
    TextTable,
    list_of_cells,
    read_cells,
    rows_with_lines,
)
from mcframe.storage.archive import checked_path

VARIABLE = "MCFRAME_DATA"


def folder() -> Path | None:
    """Give the folder that the environment variable ``MCFRAME_DATA`` names, None if unset.

    Raises
    ------
    DataError
        If the variable names something that is no folder.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataError(
            f"{VARIABLE}={named!r} is no folder; set it to the folder that holds your data"
            " files, or unset it"
        )
    return path


def find_file(path: str | os.PathLike[str]) -> Path:
    """Find the file of a path or, where there is none, of that path inside ``folder()``.

    Raises
    ------
    DataError
        If neither is a file; it names the places that were searched.
    """
    file = checked_path(path, "path").expanduser()
    if file.is_file():
        return file
    if file.is_dir():
        raise DataError(f"{str(file)!r} is a folder; the path of a file is needed")
    named = None if file.is_absolute() else folder()
    if named is not None and (named / file).is_file():
        return named / file
    if file.is_absolute():
        remedy = "check the path"
    elif named is None:
        remedy = f"give its full path, or name its folder in {VARIABLE}"
    else:
        remedy = f"nor is it in {str(named)!r}, the folder of {VARIABLE}; give its full path"
    raise DataError(f"there is no file {str(file)!r}; {remedy}")


def refuse_repeated(file: Path, names: list[str], kind: str) -> None:
    """Raise a ``DataError`` where two columns have one name."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"{file}: two {kind} are called {repeated!r}; rename one of them")


def read_arrays(
    file: Path, *, needed: tuple[str, ...], optional: tuple[str, ...], recipe: str
) -> Mapping[str, Any]:
    """Read the named arrays of an npz file; what is optional may be absent.

    Raises
    ------
    DataError
        No npz file, an array missing, pickled objects, which are never loaded; it ends with the
        ``recipe`` that writes such a file.
    """
    if not zipfile.is_zipfile(file):
        raise DataError(f"{str(file)!r} is not an npz file; {recipe}")
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in (*needed, *optional) if key in archive}
            held = ", ".join(map(repr, archive.files)) or "nothing"
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{str(file)!r} cannot be read as arrays of numbers and strings ({error}); {recipe}"
        ) from None
    for key in needed:
        if key not in arrays:
            raise DataError(f"{str(file)!r} has no array {key!r}, it holds {held}; {recipe}")
    return arrays


def as_number(text: str) -> float | None:
    """Read a number, None where it is none; Python alone would take 1_000 for one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if "_" in text or math.isinf(value) else value


@suggests_options
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
        ``*`` stands for anything, such as ``"gene_*"``: all columns whose names match, in the
        order of the file. Columns in no block are left alone.
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
    if not isinstance(blocks, Mapping) or not blocks:
        raise DataError(
            f"blocks={blocks!r} was given; name at least one block and its columns, as"
            " {'x': ['age', 'size']}"
        )
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise DataError(f"delimiter={delimiter!r} was given; one character is needed")
    if index is not None and not as_frame:
        raise DataError(f"index={index!r} needs as_frame=True: arrays have no names of items")
    table = read_cells(file, Dialect(delimiter, encoding))
    header = [name.strip() for name in table.names]
    refuse_repeated(file, header, "columns")
    names = {
        block: choose_columns(file, header, block, wanted) for block, wanted in blocks.items()
    }
    places = find_columns(file, header, names, index)
    other = [mark for mark in missing if not isinstance(mark, str)]
    if other:
        raise DataError(
            f"missing holds {other[0]!r}; cells are compared as text, so that texts are needed,"
            f" such as {str(other[0])!r}"
        )
    absent = frozenset(missing)
    items = [] if index is None else list_of_cells(table.columns[header.index(index)])
    if not table.lines:
        raise DataError(f"{file} has a header and no rows; is it complete?")
    numbers = numbers_by_arrow(table, places, absent)
    if numbers is None:
        rows = [
            [
                number_in_cell(f"{file}, line {line}", header[place], cell, absent)
                for place, cell in zip(places, cells, strict=True)
            ]
            for line, cells in rows_with_lines(table, places)
        ]
        numbers = np.array(rows, dtype=np.float64)
    ends = np.cumsum([len(columns) for columns in names.values()])[:-1]
    arrays = dict(zip(names, np.split(numbers, ends, axis=1), strict=True))
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


def numbers_by_arrow(
    table: TextTable, places: Sequence[int], missing: Collection[str]
) -> Array | None:
    """Return the numbers of some columns (rows x columns); None where cells are to be looked at.

    They are in lists, or one of them is no number and needs the message of ``number_in_cell``.
    """
    numbers = np.empty((len(table.lines), len(places)))
    for column, place in enumerate(places):
        cells = table.columns[place]
        read = None if isinstance(cells, list) else finite_numbers(cells, missing)
        if read is None:
            return None
        numbers[:, column] = read
    return numbers


def choose_columns(
    file: Path, header: list[str], block: str, wanted: str | Sequence[str]
) -> list[str]:
    """Name the columns of a block."""
    if not isinstance(wanted, str):
        names = list(wanted) if isinstance(wanted, Iterable) else [wanted]
        strange = [name for name in names if not isinstance(name, str)]
        if strange:
            raise DataError(
                f"{file}: block {block!r} names the column {strange[0]!r}; a text is needed"
            )
    elif "*" in wanted:
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("*")))
        names = [name for name in header if pattern.fullmatch(name)]
    else:
        names = [wanted]
    if not names:  # that fit a pattern
        hint = meant(str(wanted), header, "columns")
        raise DataError(f"{file}: no column fits block {block!r}, {wanted!r}; {hint}")
    for name in names:
        if name not in header:
            raise DataError(
                f"{file}: block {block!r} names the column {name!r}, which is not there;"
                f" {meant(name, header, 'columns')}"
            )
    return names


def find_columns(
    file: Path, header: list[str], names: Mapping[str, list[str]], index: str | None
) -> list[int]:
    """Find the places of all columns, block after block; none may be used twice."""
    used: dict[str, str] = {}
    if index is not None:
        used.update(dict.fromkeys(choose_columns(file, header, "index", [index]), "index"))
    for block, columns in names.items():
        for name in columns:
            if name in used:
                raise DataError(
                    f"column {name!r} is in block {used[name]!r} and again in {block!r}; leave"
                    " it out of one of them"
                )
            used[name] = block
    return [header.index(name) for columns in names.values() for name in columns]


def number_in_cell(where: str, column: str, text: str, missing: Collection[str]) -> float:
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


Integers = npt.NDArray[np.int64]
COLUMNS = ("userId", "movieId", "rating", "timestamp")


@attrs.frozen(eq=False, repr=False)
class Ratings:
    """Who rated what, and how.

    Attributes
    ----------
    name : str
        How prints call the data.
    user_ids, item_ids : arrays (n_users,), (n_items,)
        The ids of the file, ascending; only those with a rating.
    users, items : arrays (n_ratings,)
        For each rating its place in ``user_ids`` and ``item_ids``, in the order of the file.
    ratings : array (n_ratings,)
    timestamps : array (n_ratings,) or None
        Seconds since 1970, where the file has them.
    """

    name: str
    user_ids: Integers
    item_ids: Integers
    users: Integers
    items: Integers
    ratings: Array
    timestamps: Integers | None = None

    def matrix(self) -> Any:
        """Give a ``scipy.sparse.csr_array`` (n_users, n_items); what is not stored is missing."""
        shape = (len(self.user_ids), len(self.item_ids))
        return sparse.csr_array((self.ratings, (self.users, self.items)), shape=shape)

    def __len__(self) -> int:
        return len(self.ratings)

    def __repr__(self) -> str:
        cells = len(self.user_ids) * len(self.item_ids)
        return (
            f"{self.name}: {len(self)} ratings of {len(self.item_ids)} items by"
            f" {len(self.user_ids)} users ({1 - len(self) / cells:.1%} missing)"
        )


@suggests_options
def read_ratings(path: str | os.PathLike[str]) -> Ratings:
    r"""Read ratings from a file of the kinds that MovieLens has, or from an npz file.

    Parameters
    ----------
    path : path of a file
        - ``u.data``: user, item, rating, timestamp with tabs between them, without a header;
        - ``ratings.dat``: the same with ``::`` between them;
        - ``ratings.csv``: a header with ``userId``, ``movieId``, ``rating`` and, or not,
          ``timestamp``, then commas;
        - ``.npz``: arrays ``user``, ``item``, ``rating`` and, or not, ``timestamp``.

        What is between the columns is read off the first line. A relative path that does not
        exist is searched for in the folder that the environment variable ``MCFRAME_DATA`` names.

    Raises
    ------
    DataError
        A line that is none of these, an item rated twice by a user; it names file, line, column,
        value and remedy.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mcframe.datasets import read_ratings
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = pathlib.Path(place) / "u.data"
    ...     _ = file.write_text("7\t30\t4\t881250949\n2\t30\t5\t891717742\n2\t11\t1\t878887116")
    ...     ratings = read_ratings(file)
    >>> ratings
    u: 3 ratings of 2 items by 2 users (25.0% missing)
    >>> ratings.user_ids.tolist(), ratings.item_ids.tolist()
    ([2, 7], [11, 30])
    >>> ratings.matrix().toarray().tolist()
    [[1.0, 5.0], [0.0, 4.0]]
    """
    file = find_file(path)
    columns = from_archive(file) if zipfile.is_zipfile(file) else read_by_first_line(file)
    users, items, ratings, timestamps = columns
    user_ids, user_places = np.unique(users, return_inverse=True)
    item_ids, item_places = np.unique(items, return_inverse=True)
    pairs = user_places * len(item_ids) + item_places
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    if (counts > 1).any():
        row = first[np.argmax(counts > 1)]
        raise DataError(
            f"{file}: user {users[row]} rated item {items[row]} more than once; keep one rating"
            " for each user and item"
        )
    return Ratings(file.stem, user_ids, item_ids, user_places, item_places, ratings, timestamps)


def from_archive(file: Path) -> tuple[Integers, Integers, Array, Integers | None]:
    """Read the arrays of an npz file."""
    recipe = "write one with numpy.savez(path, user=users, item=items, rating=ratings)"
    needed = ("user", "item", "rating")
    arrays = read_arrays(file, needed=needed, optional=("timestamp",), recipe=recipe)
    shapes = {name: np.shape(values) for name, values in arrays.items()}
    if len(set(shapes.values())) > 1 or len(shapes["user"]) != 1 or not shapes["user"][0]:
        raise DataError(
            f"{file} holds arrays of the shapes {shapes}; (n_ratings,) is needed of all"
        )
    for name in arrays:
        if arrays[name].dtype.kind not in ("iuf" if name == "rating" else "iu"):
            raise DataError(
                f"{file}: {name!r} is of type {arrays[name].dtype}; numbers are needed"
            )
    whole = {name: values.astype(np.int64) for name, values in arrays.items() if name != "rating"}
    ratings = arrays["rating"].astype(np.float64)
    if not np.isfinite(ratings).all():
        row = int(np.argmin(np.isfinite(ratings)))
        raise DataError(f"{file}: rating[{row}] is {ratings[row]}; leave out such ratings")
    return whole["user"], whole["item"], ratings, whole.get("timestamp")


def read_by_first_line(file: Path) -> tuple[Integers, Integers, Array, Integers | None]:
    """Read a text file by its first line."""
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        first = lines.readline().strip()
    separator = next((mark for mark in ("::", "\t", ",") if mark in first), None)
    if separator is None:
        raise DataError(
            f"{file}, line 1: {first[:40]!r} has none of tab, :: and comma between its columns; a"
            " file such as u.data, ratings.dat or ratings.csv of MovieLens is needed"
        )
    places = csv_places(file, first) if separator == "," else None
    width = len(first.split(separator))
    if places is None and width not in (3, 4):
        raise DataError(
            f"{file}, line 1, has {width} columns; user, item, rating and, or not, timestamp are"
            " needed"
        )
    chosen = tuple(range(width)) if places is None else places
    cells = numbers(file, separator, chosen, skipped=int(places is not None))
    ids = cells[:, [0, 1, *range(3, cells.shape[1])]]
    if not (np.isfinite(cells).all() and np.array_equal(ids, np.floor(ids))):
        raise error_of_line(file, separator, chosen, int(places is not None))
    whole = ids.astype(np.int64)
    timestamps = whole[:, 2] if whole.shape[1] > 2 else None
    return whole[:, 0], whole[:, 1], cells[:, 2].copy(), timestamps


def csv_places(file: Path, first: str) -> tuple[int, ...]:
    """Find the columns by the header."""
    names = [name.strip().strip('"') for name in first.split(",")]
    for name in COLUMNS[:3]:
        if name not in names:
            raise DataError(
                f"{file}, line 1: the header has {', '.join(names)[:60]}, and no {name!r};"
                f" {', '.join(COLUMNS)} are needed, the last of them or not. Rename the columns,"
                " or"
                " read the file by pandas.read_csv and give the frame to mc.from_triples"
            )
    return tuple(names.index(name) for name in COLUMNS if name in names)


def numbers(file: Path, separator: str, places: tuple[int, ...], skipped: int) -> Array:
    """Read columns of numbers, (n_ratings, n_columns)."""
    # numpy needs a separator of one character.
    delimiter = "\t" if separator == "::" else separator
    with file.open(encoding="utf-8-sig", errors="replace") as lines, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of no data, an error below
        text = (line.replace("::", "\t") for line in islice(lines, skipped, None))
        try:
            cells = np.loadtxt(text, delimiter=delimiter, usecols=places, ndmin=2, comments=None)
        except ValueError:
            cells = np.empty((0, 0))
    if not cells.size:
        raise error_of_line(file, separator, places, skipped)
    return cells


def error_of_line(file: Path, separator: str, places: tuple[int, ...], skipped: int) -> DataError:
    """Find the line that is no rating: slower than reading, and exact."""
    number = 0
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if number <= skipped or not line.strip():
                continue
            values = line.rstrip("\n").split(separator)
            for name, place in zip(COLUMNS, places, strict=False):
                text = values[place].strip() if place < len(values) else ""
                value = as_number(text)
                readable = value is not None and not np.isnan(value)
                if not (readable and (name == "rating" or float(text).is_integer())):
                    return DataError(
                        f"{file}, line {number}: {text!r} was given as {name};"
                        f" a {'number' if name == 'rating' else 'whole number'} is needed"
                    )
    return DataError(f"{file} has no ratings in its {number} lines; is it complete?")

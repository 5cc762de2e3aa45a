"""Ratings of items by users: triples, as the MovieLens files hold them."""

import os
import warnings
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from scipy import sparse

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.datasets.arff import as_number
from mcframe.datasets.files import find_file, read_arrays

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
    columns = from_archive(file) if zipfile.is_zipfile(file) else from_text(file)
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


def from_text(file: Path) -> tuple[Integers, Integers, Array, Integers | None]:
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
                f" {', '.join(COLUMNS)} are needed, the last of them or not"
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

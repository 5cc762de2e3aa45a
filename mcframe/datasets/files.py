"""Data files: the folder that holds them, their text, and arrays by name."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError

VARIABLE = "MCFRAME_DATA"


def folder() -> Path | None:
    """Give the folder that the environment variable ``MCFRAME_DATA`` names, None if unset.

    Raises
    ------
    DataError
        Where the variable names something that is no folder.
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
        Where neither is a file; it names the places that were searched.
    """
    given = Path(path).expanduser()
    if given.is_file():
        return given
    if given.is_dir():
        raise DataError(f"{str(given)!r} is a folder; the path of a file is needed")
    named = None if given.is_absolute() else folder()
    if named is not None and (named / given).is_file():
        return named / given
    if given.is_absolute():
        remedy = "check the path"
    elif named is None:
        remedy = f"give its full path, or name its folder in {VARIABLE}"
    else:
        remedy = f"nor is it in {str(named)!r}, the folder of {VARIABLE}; give its full path"
    raise DataError(f"there is no file {str(given)!r}; {remedy}")


def read_text(file: Path, encoding: str) -> str:
    """Read a text file without the byte order mark that spreadsheets and editors write first."""
    try:
        return file.read_text(encoding="utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not text in {encoding} (byte {error.start}); give its encoding, such as"
            ' encoding="latin-1"'
        ) from None


def refuse_repeated(file: Path, names: list[str], kind: str) -> None:
    """Raise a ``DataError`` where two columns have one name."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"{file}: two {kind} are called {repeated!r}; rename one of them")


def some_names(names: Sequence[str]) -> str:
    """List names, the first eight of them where there are more."""
    return ", ".join(names[:8]) + ", ..." * (len(names) > 8)


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
            found = {key: archive[key] for key in (*needed, *optional) if key in archive}
            held = ", ".join(map(repr, archive.files)) or "nothing"
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{str(file)!r} cannot be read as arrays of numbers and strings ({error}); {recipe}"
        ) from None
    for key in needed:
        if key not in found:
            raise DataError(f"{str(file)!r} has no array {key!r}, it holds {held}; {recipe}")
    return found

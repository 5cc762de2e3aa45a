"""The folder that data files are looked for in."""

import os
from pathlib import Path

from mcframe.contracts.errors import DataError

__all__ = ["find_file", "folder"]

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
        Where neither is a file; it names the places that were looked at.
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

"""Arrays by name from npz files."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError

__all__ = ["read_arrays"]


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
            for key in needed:
                if key not in archive:
                    held = ", ".join(repr(name) for name in archive.files) or "nothing"
                    raise DataError(
                        f"{str(file)!r} has no array {key!r}, it holds {held}; {recipe}"
                    )
            return {key: archive[key] for key in (*needed, *optional) if key in archive}
    except DataError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{str(file)!r} cannot be read as arrays of numbers and strings ({error}); {recipe}"
        ) from None

"""A fit in a folder: its left factor in a file for each partition, and all else beside them."""

import os
import pickle
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from mcframe import __version__
from mcframe.answer import Fit
from mcframe.backends import Point
from mcframe.compile import PartitionedProblem
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.datasets.partitions.folder import (
    Folder,
    FolderLayout,
    StoredFile,
    path_of,
    publish,
    save,
    workshop,
)
from mcframe.numerics.operators import LowRank

__all__ = ["load_fit", "save_fit"]

RIGHT, REST = "right.npy", "rest.npy"
FIT = FolderLayout(
    "mcframe fit",
    "a fit",
    "save_fit",
    "mcframe-fit.json",
    r"p\d+\.left\.npy|right\.npy|rest\.npy",
)


def save_fit(folder: str | os.PathLike[str], fit: Fit, *, overwrite: bool = False) -> Path:
    """Write a fit to a folder, its left factor in a file for each partition of the rows.

    With Z = U V', file ``p00003.left.npy`` has the rows of U of partition 3 (rows x k), and
    ``right.npy`` V (columns x k): plain arrays, which ``numpy.load`` reads or maps one by one.
    ``rest.npy`` has what else ``fit.compact()`` keeps, as bytes of ``pickle``;
    ``mcframe-fit.json`` the first row of each file, sizes and checksums. A fit of a table in
    memory, or one that is compact, is one file of rows.

    Parameters
    ----------
    folder : path
        A new or an empty one. Files stand there under their names when all are written.
    fit : Fit
    overwrite : bool, default False
        Delete the fit that the folder holds, when the new one is all written. Files that were not
        written by this function are never deleted.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    DataError
        For a folder with other files or a fit, and a full disk. What the folder held before is
        untouched then.

    Examples
    --------
    >>> import tempfile, numpy as np, mcframe as mc, mcframe.datasets as datasets
    >>> from mcframe.model.partitioned import RowsInMemory
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1e-4)])
    >>> x = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0])
    >>> fit = mc.fit(model, RowsInMemory({"x": x}, n_partitions=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = datasets.save_fit(folder, fit)
    ...     print(sorted(file.name for file in saved.glob("*.npy")))
    ...     print(datasets.load_fit(folder).predict("x", rows=[3], columns=[1]).round(2))
    ['p00000.left.npy', 'p00001.left.npy', 'rest.npy', 'right.npy']
    [8.]
    """
    path = path_of(folder)
    left, right = fit.latent.left, fit.latent.right
    starts = starts_of(fit)
    needed = f"the factors take {left.nbytes + right.nbytes} bytes"
    with workshop(path, FIT, overwrite, lambda: needed) as place:
        files = {
            name: save_array(place / name, array)
            for name, array in arrays_of_fit(fit, starts, left, right)
        }
        publish(place, path, FIT, {"starts": starts}, files)
    return path


def starts_of(fit: Fit) -> tuple[int, ...]:
    """The first row of each partition of what was fitted, and the number of rows."""
    problem = fit.problem
    if not isinstance(problem, PartitionedProblem):
        return 0, problem.n_items
    return (*(first for first, _ in problem.partitions.rows), problem.n_items)


def arrays_of_fit(
    fit: Fit, starts: tuple[int, ...], left: Array, right: Array
) -> Iterator[tuple[str, Array]]:
    """Yield names and arrays of the files of a fit."""
    for p, first in enumerate(starts[:-1]):
        yield left_name(p), left[first : starts[p + 1]]
    yield RIGHT, right
    without: Any = Point(LowRank(left[:0], right[:0]))
    rest = attrs.evolve(fit.compact(), point=without)
    yield REST, np.frombuffer(pickle.dumps(rest), dtype=np.uint8)


def left_name(p: int) -> str:
    """The name of the file with the rows of the left factor of partition p."""
    return f"p{p:05d}.left.npy"


def save_array(path: Path, array: npt.NDArray[Any]) -> StoredFile:
    """Write an array as ``.npy``, and return its size and checksum."""
    array, header = np.ascontiguousarray(array), BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return save(path, header.getvalue(), array.data)


def load_fit(folder: str | os.PathLike[str]) -> Fit:
    """Read a fit that ``save_fit`` has written: it answers what ``fit.compact()`` does.

    All files are compared with their checksums first. ``rest.npy`` is read by ``pickle``, which
    can be made to run any code: load folders of people whom you would let run code.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Fit
        Compact: without data, its factors in memory.

    Raises
    ------
    DataError
        For a folder that is not there, not ours, not finished, damaged, or of a version that this
        one cannot read.

    Examples
    --------
    >>> import tempfile, numpy as np, mcframe as mc, mcframe.datasets as datasets
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1e-4)])
    >>> fit = mc.fit(model, {"x": np.outer([1.0, 2.0, 3.0], [1.0, 2.0])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = datasets.load_fit(datasets.save_fit(folder, fit))
    >>> again.objective == fit.objective, again.gap == fit.gap
    (True, True)
    """
    stored = Folder.open(path_of(folder), FIT)
    arrays = {
        name: np.load(BytesIO(stored.read(name)), allow_pickle=False) for name in stored.files
    }
    n_partitions = len(stored.facts["starts"]) - 1
    left = np.concatenate([arrays[left_name(p)] for p in range(n_partitions)])
    try:
        rest: Fit = pickle.loads(arrays[REST].tobytes())
        return attrs.evolve(rest, point=Point(LowRank(left, arrays[RIGHT])))
    except Exception as error:  # of whatever class that is not as it was
        raise DataError(
            f"folder {str(stored.path)!r} was written by mcframe {stored.version}, and mcframe"
            f" {__version__} here cannot read it ({type(error).__name__}: {error}); the files of"
            " the factors can be read by numpy.load"
        ) from error

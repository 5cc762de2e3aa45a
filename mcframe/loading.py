"""The verb ``load``: read an answer that was saved."""

import os
from typing import Any, TypeVar, overload

from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import as_given, suggests_options
from mcframe.fitting.fit_answer import Fit
from mcframe.posterior.answer import Posterior
from mcframe.storage.archive import ANSWER, Archive, path_of_file
from mcframe.tables.completion import Completion

Answer = TypeVar("Answer")


@overload
def load(path: str | os.PathLike[str]) -> Fit | Posterior | Completion[Any]: ...
@overload
def load(path: str | os.PathLike[str], kind: type[Answer]) -> Answer: ...
@suggests_options
def load(path: str | os.PathLike[str], kind: type[Any] | None = None) -> Any:
    """Read an answer that was saved: by ``Fit.save``, ``Posterior.save`` or ``Completion.save``.

    The loaded answer gives the same results, with the same bits. The file is a zip of arrays and
    JSON, as ``numpy.savez`` writes one. Nothing in it is run: it has no pickle, and only classes
    of this package are made from it. A checksum of all bytes is compared before any of them is
    used. A later version of mcframe may have another format. It then raises an error that says so.

    Parameters
    ----------
    path : str or Path
    kind : class, optional
        ``mc.Fit``, ``mc.Posterior`` or ``mc.Completion``: what the file should hold. Editors and
        type checkers then know what the answer is.

    Returns
    -------
    Fit, Posterior or Completion

    Raises
    ------
    DataError
        If there is no such file, or it is damaged, cut off, not written by mcframe, of another
        format, or holds an answer of another kind.
    BackendError
        If the library of a completed table is not installed.

    Examples
    --------
    >>> import os, tempfile, numpy as np, mcframe as mc
    >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = mc.fit(model, {"x": x}).save(os.path.join(folder, "fit.npz"))
    ...     fit = mc.load(path, mc.Fit)
    >>> print(fit.status, fit.predict("x").round(1)[2])
    certified [3. 6.]
    """
    archive = Archive(path_of_file(path, "path"), "file")
    if not archive.path.exists():
        raise DataError(f"there is no file {archive.path}; give the path that save was given")
    stored = archive.header()["kind"]
    if ANSWER not in archive:
        raise DataError(
            f"file {archive.path} is a checkpoint that holds a {stored}; give it as checkpoint= to"
            " the function that wrote it"
        )
    if kind is not None and not isinstance(kind, type):
        raise ModelError(f"kind={as_given(kind)} was given; a class is needed, such as mc.Fit")
    if kind is not None and kind.__name__ != stored:
        raise DataError(
            f"file {archive.path} holds a {stored}, and a {kind.__name__} is asked for; give"
            f" another file, or mc.{stored}"
        )
    return archive.read(ANSWER, stored)

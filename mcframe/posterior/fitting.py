"""The verb ``posterior``."""

import os
from typing import Any

import numpy as np

from mcframe.model import Model
from mcframe.options import checked_seed
from mcframe.posterior.answer import Posterior, posterior_of


def posterior(
    model: Model,
    data: Any,
    *,
    factors: int | str = "auto",
    tol: float = 1e-3,
    max_iter: int = 500,
    max_seconds: float = np.inf,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: bool = False,
    client: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Posterior:
    """Compute the posterior of a model: likely values given the data, with their uncertainty.

    The losses of the model are negative log likelihoods, and its regularizer is the negative
    logarithm of a prior density:

    - ``NuclearNorm(w)`` is the mode of Gaussian factors, since ``||Z||_*`` is the minimum of
      ``(||U||_F^2 + ||V||_F^2) / 2`` over Z = U V'. The posterior is over U and V, with precisions
      1 and w^2. A w below 1e-6 divided by the root mean square of the values counts as that, the
      limit of double precision. ``NuclearNorm()`` without a weight learns one precision for each
      factor, which removes useless factors.
    - ``GaussianRows(covariance, mean)`` has rows that are draws from this Gaussian. Their
      posterior is exact for Gaussian blocks. ``GaussianRows()`` estimates mean and covariance.
      ``GaussianRows(components="auto")`` estimates those of a mixture, and the number of its
      components.

    ``Gaussian(variance=None)`` learns a noise variance for each column; with ``GaussianRows`` it
    is a hundredth of the mean square of the column's values. Biases and row effects are Gaussian,
    with the precision ``effects_weight`` or a learned one.

    Parameters
    ----------
    model : Model
    data : dict from block name to array, DataFrame, scipy.sparse matrix or Observations
        As in ``mc.fit``. Weights multiply log likelihoods; they divide a learned variance. Offsets
        are known. With ``NuclearNorm`` data may also be in partitions of rows, on disk or
        elsewhere, or be collections of Dask, so that no process holds all rows.
    factors : "auto" or int, default "auto"
        The largest number of factors. "auto" is 24, or the length of the shorter side if that is
        less. An error with ``GaussianRows``, which has no factors.
    tol : float, default 1e-3
        Stop after a sweep that raises the bound on the log evidence by less than this for each
        entry. A smaller value finds more evidence with fewer factors; on ratings it predicts less
        well (see the guide).
    max_iter : int, default 500
        The largest number of sweeps. The steps that estimate ``GaussianRows()`` are not sweeps;
        each estimate makes 100 at most.
    max_seconds : float, default inf
    random_state : int or None, default 0
        The seed of the initial factors and of draws.
    n_jobs : int, optional
        The number of threads for the rows; -1 for one on each processor. The default is that of
        ``mc.fit``.
    progress : bool, default False
        Print a line at every sweep.
    client : distributed.Client, or the address of a scheduler, optional
        For data in partitions: the Dask cluster whose workers compute, as in ``mc.fit``.
    checkpoint : str or Path, optional
        With ``NuclearNorm``: a file for columns and priors, written after a sweep, at least every
        half minute. If it exists already, for the same model, data, factors and seed, the sweeps
        continue from there. Bounds of likelihoods that are not Gaussian are then computed again.
    scratch : str or Path, optional
        For data in partitions: a folder on a disk for what does not fit into memory, as in
        ``mc.fit``.

    Returns
    -------
    Posterior
        With means, standard deviations, intervals, sets, draws, and the evidence.

    Raises
    ------
    DataError
        If the data do not fit the model.
    ModelError
        If an option is wrong.
    BackendError
        If the model has no posterior; the message gives the reason.

    Notes
    -----
    The posterior of rows and columns is approximated by a product of Gaussians: variational Bayes
    (Lim and Teh, 2007; Raiko, Ilin and Karhunen, 2007). The logarithm of a likelihood that is not
    Gaussian is replaced by the best quadratic lower bound (Jaakkola and Jordan, 2000); counts and
    durations have a Gaussian for each entry. The lower bound on the evidence rises with every half
    sweep; a fall from one sweep to the next beyond rounding is an error. Variances are too small,
    since the product ignores dependence between rows and columns; ``mc.verify_posterior`` measures
    by how much.

    A sweep over N entries of n rows and d columns with k factors takes ``N k^2`` multiplications,
    four times as many if bounds are recomputed, and (n + d) k^3. Memory was some 50 bytes an entry
    beyond the data (ten million entries, ten factors); bounds take 32 N more. In partitions a
    sweep is one round, and each partition answers with d k^2 / 2 numbers. A hundred million
    entries on disk took 2.6 GB. Bounds that a process has lost are computed again.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> x = np.outer(rng.normal(size=50), rng.normal(size=20)) + 0.1 * rng.normal(size=(50, 20))
    >>> hidden, x[0, 0] = x[0, 0], np.nan
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.NuclearNorm()])
    >>> posterior = mc.posterior(model, {"x": x})
    >>> lower, upper = posterior.interval("x", 0.99, rows=[0], columns=[0])
    >>> bool(lower[0] < hidden < upper[0])
    True
    """
    options: dict[str, Any] = {"factors": factors, "tol": tol, "max_iter": max_iter}
    options |= {"max_seconds": max_seconds, "n_jobs": n_jobs}
    where = {"progress": progress, "client": client, "checkpoint": checkpoint, "scratch": scratch}
    return posterior_of(model, data, checked_seed(random_state), options, **where)

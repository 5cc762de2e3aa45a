"""Principal axes of the posterior of Z: scores of rows, loadings of columns, and deviations."""

from collections.abc import Mapping

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, InFormOfData, svd
from mcframe.contracts.errors import ModelError
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.rounding import EPS, TINY
from mcframe.contracts.validators import suggest_options
from mcframe.model import Problem
from mcframe.model.table import Table
from mcframe.posterior.engine import Engine
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.gaussians import Gaussians
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.rows import RowsPosterior
from mcframe.posterior.sampled_engines import SampledDistribution

# Axes whose singular values are at most this share of the largest are those of removed factors.
NEGLIGIBLE_AXIS = 1e-6


@attrs.frozen(eq=False, repr=False)
class Factors:
    """Scores and loadings along r principal axes, largest first: the answer of ``factors``.

    ``scores @ loadings.T`` is the mean of Z, without effects and the mean of its rows.

    Attributes
    ----------
    scores, score_sds : arrays (n_rows x r)
        DataFrames if the data had labels of rows. They have no unit; mean squares are about 1.
    loadings, loading_sds : dicts from block name to array (n_columns x r)
        DataFrames if the data were. In units of z; of K classes with K columns for each axis.
    shares : array (r,)
        The share of each axis in the mean square of Z. The shares sum up to 1.
    """

    scores: InFormOfData
    score_sds: InFormOfData
    loadings: Mapping[str, InFormOfData]
    loading_sds: Mapping[str, InFormOfData]
    shares: Array

    def __repr__(self) -> str:
        lines = [f"Factors: {self.shares.size} of {len(self.scores)} rows", "  axis    share"]
        return "\n".join([*lines, *(f"  {a:<4d} {s:8.4f}" for a, s in enumerate(self.shares))])


suggest_options(Factors, methods=True)


# Scores (n x r), their standard deviations, loadings (n_columns of Z x r), and theirs.
AxisMoments = tuple[Array, Array, Array, Array]


def factors_of(engine: Engine, problem: Problem, tables: Mapping[str, Table]) -> Factors:
    """The factors of a posterior, as ``Posterior.factors`` says."""
    if isinstance(engine, SampledDistribution):
        raise ModelError(
            "factors of draws turn from one draw to the next, so that they have no means; take the"
            ' posterior of method="variational"'
        )
    if isinstance(engine, FactorPosterior):
        if tables is not problem.tables:
            raise ModelError(
                "this posterior is one of new rows, and the axes are those of the rows of the fit;"
                " ask the posterior that it was conditioned from"
            )
        engine = engine.refined
        k, columns = engine.n_factors, engine.state.columns
        rows = engine.rows_given(np.arange(engine.observed.shape[0]))
        scores, score_sds, loadings, loading_sds = axes_of_factors(rows, columns, k)
    elif engine.n_factors > 1:
        raise ModelError(
            f"the rows are a mixture of {engine.n_factors} Gaussians, each of which has axes of"
            " its own; declare GaussianRows() with one component, or NuclearNorm()"
        )
    else:
        assert isinstance(engine, JointPosterior)  # which Gaussian rows have
        scores, score_sds, loadings, loading_sds = axes_of_rows(engine.refined.rows)
    squares = np.sum(np.square(loadings), axis=0)
    order = np.argsort(-squares, kind="stable")
    largest = np.argmax(np.abs(loadings), axis=0) if len(loadings) else order
    signs = np.sign(loadings[largest, np.arange(squares.size)])

    def labelled(numbers: Array, index: object, width: int = 1) -> InFormOfData:
        """Numbers by axis (n x r, or n K x r of K classes) in a DataFrame if there are labels."""
        n, nowhere = len(numbers) // width, np.zeros(0, dtype=np.intp)
        table = Table((n, order.size), nowhere, nowhere, np.zeros(0), index=index)
        by_axis = numbers[:, order].reshape(n, width, order.size).transpose(0, 2, 1)
        return table.wrap(by_axis.reshape(n, order.size * width), width)

    def of_columns(numbers: Array) -> dict[str, InFormOfData]:
        return {
            block.name: labelled(
                numbers[problem.columns(block.name)],
                tables[block.name].names,
                block.likelihood.width,
            )
            for block in problem.model.blocks
        }

    index = next(iter(tables.values())).index
    return Factors(
        labelled(signs * scores, index),
        labelled(score_sds, index),
        of_columns(signs * loadings),
        of_columns(loading_sds),
        squares[order] / max(float(np.sum(squares)), TINY),
    )


def axes_of_factors(rows: Gaussians, columns: Gaussians, k: int) -> AxisMoments:
    """The axes of E[U] E[V]', of k factors of rows U and of columns V.

    With its singular value decomposition P S Q' scores are ``U V'Q S^-1 sqrt(n)``, where V is at
    its mean, and loadings ``V U'P / sqrt(n)``, where U is.
    """
    u, v = rows.means[:, :k], columns.means[:, :k]
    n = len(u)
    of_u, of_v = np.linalg.qr(u), np.linalg.qr(v)
    left, sizes, right = svd(of_u.R @ of_v.R.T)
    kept = np.flatnonzero(sizes > NEGLIGIBLE_AXIS * max(sizes[0] if sizes.size else 0.0, 0.0))
    p, q, sizes = of_u.Q @ left[:, kept], of_v.Q @ right.T[:, kept], sizes[kept]
    of_rows = np.sqrt(n) * (v.T @ q) / sizes
    of_columns = u.T @ p / np.sqrt(n)
    score_sds, loading_sds = (
        np.sqrt(np.einsum("nab,ar,br->nr", side.full_covariances(k), directions, directions))
        for side, directions in ((rows, of_rows), (columns, of_columns))
    )
    return np.sqrt(n) * p, score_sds, q * (sizes / np.sqrt(n)), loading_sds


def axes_of_rows(posterior: RowsPosterior) -> AxisMoments:
    """The axes of the covariance S = A diag(l) A' of one Gaussian, of a ``RowsPosterior``.

    With L = A diag(l)^1/2 a row is ``mean + L s`` with s ~ N(0, I): s are its scores, L are the
    loadings. Of an estimated S ~ inverse Wishart they are ``S A diag(l)^-1/2`` at the axes A of
    its mean, with the variances of an inverse Wishart (von Rosen, Scand. J. Statist. 1988).
    """
    table = posterior.components.about_means(posterior.table)
    mean = posterior.components.means[0]
    covariance = posterior.components.covariances[0]
    values, axes = np.linalg.eigh(covariance)
    kept = values > len(values) * EPS * max(values[-1], 0.0)
    values, axes = values[kept], axes[:, kept]
    loadings = axes * np.sqrt(values)
    n, r = len(table.values), values.size
    scores, sds = np.empty((n, r)), np.empty((n, r))
    size = max(BATCH_NUMBERS // max(r * r, 1), 1)
    for start in range(0, n, size):
        batch = slice(start, start + size)
        weighted = table.precisions[batch, :, None] * loadings
        precisions = np.eye(r) + np.einsum("ja,njb->nab", loadings, weighted)
        score_covariances = np.linalg.inv(precisions)
        deviations = np.where(table.precisions[batch] > 0.0, table.values[batch] - mean, 0.0)
        vectors = np.einsum("nj,njb->nb", deviations, weighted)
        scores[batch] = np.einsum("nab,nb->na", score_covariances, vectors)
        sds[batch] = np.sqrt(np.diagonal(score_covariances, axis1=1, axis2=2))
    variances = np.zeros_like(loadings)
    if posterior.parameters is not None:
        excess_degrees = float(posterior.parameters.degrees[0]) - len(covariance)
        squares = (excess_degrees + 1.0) * np.square(loadings)
        squares += (excess_degrees - 1.0) * np.diag(covariance)[:, None]
        variances = (
            squares / (excess_degrees * (excess_degrees - 3.0))
            if excess_degrees > 3.0
            else np.full_like(squares, np.inf)
        )
    return scores, sds, loadings, np.sqrt(variances)

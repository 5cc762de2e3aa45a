"""Principal axes of the posterior of Z: scores of rows, loadings of columns, and how sure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import EPS
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.factor_state import Gaussians
from mcframe.posterior.factors import FactorPosterior

if TYPE_CHECKING:
    from mcframe.posterior.answer import Posterior

# Axes along which Z is smaller than this share of the first one: factors that are switched off.
SWITCHED_OFF = 1e-6
# Numbers in the arrays of the rows that are worked on at a time.
BLOCK = 4_000_000


@attrs.frozen(eq=False, repr=False)
class Factors:
    """Scores and loadings along r principal axes, the largest first, of ``Posterior.factors``.

    The mean of Z, without effects and the mean of its rows, is ``scores @ loadings.T``.

    Attributes
    ----------
    scores, score_sds : arrays (n_rows x r)
        DataFrames if the data had labels of rows. Without a unit: mean squares are about 1.
    loadings, loading_sds : dicts from block name to array (n_columns x r)
        DataFrames if the data were. In units of z; of K classes with K columns for each axis.
    shares : array (r,)
        The share of each axis in the mean square of Z; they sum up to 1.
    """

    scores: Any
    score_sds: Any
    loadings: Mapping[str, Any]
    loading_sds: Mapping[str, Any]
    shares: Array

    def __repr__(self) -> str:
        lines = [f"Factors: {self.shares.size} of {len(self.scores)} rows", "  axis    share"]
        return "\n".join([*lines, *(f"  {a:<4d} {s:8.4f}" for a, s in enumerate(self.shares))])


@attrs.frozen(eq=False)
class AxisMoments:
    """Scores (n x r), loadings (n_columns of Z x r), and their standard deviations."""

    scores: Array
    score_sds: Array
    loadings: Array
    loading_sds: Array


def factors_of(posterior: "Posterior") -> Factors:
    """The factors of a posterior, as ``Posterior.factors`` says."""
    engine, problem = posterior.engine, posterior.problem
    if isinstance(engine, FactorPosterior):
        if posterior.tables is not problem.tables:
            raise ModelError(
                "this posterior is one of new rows, and the axes are those of the rows of the fit;"
                " ask the posterior that it was conditioned from"
            )
        axes = axes_of_factors(
            leading(engine.rows_given(np.arange(engine.n_rows)), engine.n_factors),
            leading(engine.state.columns, engine.n_factors),
        )
    elif engine.n_factors > 1:
        raise ModelError(
            f"the rows are a mixture of {engine.n_factors} Gaussians, each of which has axes of"
            " its own; declare GaussianRows() with one component, or NuclearNorm()"
        )
    else:
        axes = axes_of_rows(engine.rows)
    squares = np.sum(np.square(axes.loadings), axis=0)
    order = np.argsort(-squares, kind="stable")
    largest = np.argmax(np.abs(axes.loadings), axis=0) if len(axes.loadings) else order
    signs = np.sign(axes.loadings[largest, np.arange(squares.size)])
    tables = posterior.tables
    first = next(iter(tables.values()))
    rows = attrs.evolve(first, shape=(first.shape[0], order.size), names=None)

    def of_columns(numbers: Array) -> dict[str, Any]:
        found = {}
        for name, table in tables.items():
            width = posterior.model.block(name).likelihood.width
            shape = table.shape[1], order.size
            columns = attrs.evolve(table, shape=shape, names=None, index=table.names)
            own = numbers[problem.columns(name)].reshape(shape[0], width, order.size)
            found[name] = columns.wrap(own.transpose(0, 2, 1).reshape(shape[0], -1), width)
        return found

    return Factors(
        rows.wrap((signs * axes.scores)[:, order]),
        rows.wrap(axes.score_sds[:, order]),
        of_columns((signs * axes.loadings)[:, order]),
        of_columns(axes.loading_sds[:, order]),
        squares[order] / max(float(np.sum(squares)), np.finfo(float).tiny),
    )


def leading(gaussians: Gaussians, k: int) -> tuple[Array, Array]:
    """Means (n x k) and covariances (n x k x k) of the first k numbers of each row or column."""
    where = loops.unpacking(gaussians.means.shape[1])[:k, :k]
    return gaussians.means[:, :k], gaussians.covariances[:, where]


def axes_of_factors(rows: tuple[Array, Array], columns: tuple[Array, Array]) -> AxisMoments:
    """The axes of E[U] E[V]', of moments of U and of V.

    With its singular value decomposition P S Q' scores are ``U V'Q S^-1 sqrt(n)``, where V is at
    its mean, and loadings ``V U'P / sqrt(n)``, where U is.
    """
    (u, u_spread), (v, v_spread) = rows, columns
    n = len(u)
    of_u, of_v = np.linalg.qr(u), np.linalg.qr(v)
    left, sizes, right = np.linalg.svd(of_u.R @ of_v.R.T)
    kept = np.flatnonzero(sizes > SWITCHED_OFF * max(sizes[0] if sizes.size else 0.0, 0.0))
    p, q, sizes = of_u.Q @ left[:, kept], of_v.Q @ right.T[:, kept], sizes[kept]
    of_rows = np.sqrt(n) * (v.T @ q) / sizes
    of_columns = u.T @ p / np.sqrt(n)
    return AxisMoments(
        np.sqrt(n) * p,
        np.sqrt(np.einsum("nab,ar,br->nr", u_spread, of_rows, of_rows)),
        q * (sizes / np.sqrt(n)),
        np.sqrt(np.einsum("nab,ar,br->nr", v_spread, of_columns, of_columns)),
    )


def axes_of_rows(posterior: Any) -> AxisMoments:
    """The axes of the covariance S = A diag(l) A' of one Gaussian, of a ``RowsPosterior``.

    With L = A diag(l)^1/2 a row is ``mean + L s`` with s ~ N(0, I): s are its scores, L are the
    loadings. Of an estimated S ~ inverse Wishart they are ``S A diag(l)^-1/2`` at the axes A of
    its mean, with the variances of an inverse Wishart (von Rosen, Scand. J. Statist. 1988).
    """
    table, covariance = posterior.table, posterior.covariances[0]
    values, axes = np.linalg.eigh(covariance)
    kept = values > len(values) * EPS * max(values[-1], 0.0)
    values, axes = values[kept], axes[:, kept]
    loadings = axes * np.sqrt(values)
    n, r = len(table.values), values.size
    scores, sds = np.empty((n, r)), np.empty((n, r))
    for start in range(0, n, max(BLOCK // max(r * r, 1), 1)):
        here = slice(start, start + max(BLOCK // max(r * r, 1), 1))
        weighted = table.precisions[here, :, None] * loadings
        precisions = np.eye(r) + np.einsum("ja,njb->nab", loadings, weighted)
        spread = np.linalg.inv(precisions)
        away = np.where(table.precisions[here] > 0.0, table.values[here] - posterior.means[0], 0.0)
        vectors = np.einsum("nj,njb->nb", away, weighted)
        scores[here] = np.einsum("nab,nb->na", spread, vectors)
        sds[here] = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
    variances = np.zeros_like(loadings)
    if posterior.parameters is not None:
        free = float(posterior.parameters.degrees[0]) - len(covariance)
        own = np.diag(covariance)[:, None]
        known = (free + 1.0) * np.square(loadings) + (free - 1.0) * own
        variances = known / (free * (free - 3.0)) if free > 3.0 else np.full_like(known, np.inf)
    return AxisMoments(scores, sds, loadings, np.sqrt(variances))

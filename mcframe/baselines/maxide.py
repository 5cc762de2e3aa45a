"""Maxide (Xu, Jin and Zhou, NIPS 2013): matrix completion with side information."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends import relative_gap
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import number, whole
from mcframe.numerics.spectral_norm import norm_upper_bound

__all__ = ["SideCompletion", "maxide"]

EPS = float(np.finfo(np.float64).eps)
# How far above the norm of a slope its bound is tried first.
NORM_SLACK = 1e-10
# With a tolerance the certificate is computed at every so many iterations.
LOOKS = 10


@attrs.frozen(eq=False, repr=False)
class SideCompletion:
    """``A Z B'`` completed from some of its entries, with a certificate.

    Attributes
    ----------
    core : array (k_rows, k_columns)
        Z.
    rows, columns : array or None
        A (n_rows, k_rows) and B (n_columns, k_columns), orthonormal; None for the identity.
    objective, bound : float
        Of the problem of ``maxide`` at Z; a lower bound on its minimum.
    iterations : int
    status : str
        "certified", "stopped" by the change of the objective, or "iteration_limit".
    """

    core: Array
    rows: Array | None
    columns: Array | None
    objective: float
    bound: float
    iterations: int
    status: str

    @property
    def gap(self) -> float:
        """(objective - bound) / max(|objective|, |bound|)."""
        return relative_gap(self.objective, self.bound)

    def predict(self) -> Array:
        """A Z B', every entry."""
        return spread(self.core, self.rows, self.columns)

    def __repr__(self) -> str:
        return (
            f"SideCompletion: {self.status} after {self.iterations} iterations, objective"
            f" {self.objective:.9g}, gap {self.gap:.1e}"
        )


def maxide(
    entries: Any,
    rows: Any = None,
    columns: Any = None,
    weight: float = 1.0,
    *,
    max_iter: int = 100,
    change: float = 1e-5,
    tol: float = 0.0,
    start: SideCompletion | None = None,
) -> SideCompletion:
    """``min 1/2 ||R_Omega(A Z B' - Y)||_F^2 + weight ||Z||_*`` by accelerated proximal gradients.

    A and B are orthonormal bases of what is known of the rows and columns. Without either it
    is plain matrix completion. The bound is Fenchel's: with S the residual at Z, and
    ``c <= weight / ||A' S B||_2``, it is ``-c^2/2 ||S||_F^2 - c <S, Y>`` at the best such c.

    Cost of an iteration: products of Z with A and B, and one eigenvalue decomposition of the
    smaller side of Z.

    Parameters
    ----------
    entries : array (n_rows, n_columns)
        Y; NaN is missing.
    rows : array (n_rows, d), optional
        Side information of the rows, as features: of its columns an orthonormal basis is taken.
    columns : array (n_columns, e), optional
        The same of the columns.
    weight : float, default 1
        Of the nuclear norm.
    max_iter : int, default 100
    change : float, default 1e-5
        Stop where the objective changes by less than this, relatively: the rule of the authors'
        code. With both defaults an answer may be far from the optimum, which ``gap`` says.
    tol : float, default 0
        Stop at this gap.
    start : SideCompletion, optional
        Begin at its Z, as along a path of weights.

    References
    ----------
    M. Xu, R. Jin, Z.-H. Zhou. Speedup matrix completion with side information: application to
    multi-label learning. NIPS 2013, Eq. 2 and Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.baselines import maxide
    >>> side = np.array([[1.0], [2.0], [3.0]])
    >>> known = np.array([[1.0, np.nan], [np.nan, 4.0], [3.0, np.nan]])
    >>> maxide(known, side, weight=1e-3, tol=1e-6, change=0.0).predict().round(1)
    array([[1., 2.],
           [2., 4.],
           [3., 6.]])
    """
    problem = Completion.of(entries, rows, columns, positive_weight(weight))
    max_iter = whole(max_iter, "max_iter", 0)
    previous = core = problem.first(start)
    alpha, alpha_before = 1.0, 1.0
    last = problem.objective(core)
    iterations, status = 0, "iteration_limit"
    while iterations < max_iter:
        momentum = alpha * (1.0 / alpha_before - 1.0)
        ahead = core + momentum * (core - previous)
        previous, (core, nuclear) = core, problem.proximal(ahead)
        alpha_before = alpha
        alpha = 0.5 * (np.sqrt(alpha**4 + 4.0 * alpha**2) - alpha**2)
        iterations += 1
        reached = problem.objective(core, nuclear)
        if tol > 0.0 and iterations % LOOKS == 0 and problem.gap(core) <= tol:
            status = "certified"
            break
        if iterations > 1 and abs(reached - last) < change * reached:
            status = "stopped"
            break
        last = reached
    objective, bound = problem.judged(core)
    if tol > 0.0 and relative_gap(objective, bound) <= tol:
        status = "certified"
    return SideCompletion(
        core, problem.rows, problem.columns, objective, bound, iterations, status
    )


@attrs.frozen(eq=False)
class Completion:
    """The problem of ``maxide``: what is known, where, and the bases."""

    known: Array
    seen: Mask
    rows: Array | None
    columns: Array | None
    weight: float

    @classmethod
    def of(cls, entries: Any, rows: Any, columns: Any, weight: float) -> "Completion":
        """Checked, with orthonormal bases."""
        values = matrix_of(entries, "entries")
        seen = ~np.isnan(values)
        if not seen.any():
            raise DataError("entries: all are NaN; at least one observed entry is needed")
        return cls(
            np.where(seen, values, 0.0),
            seen,
            None if rows is None else basis(rows, "rows", values.shape[0]),
            None if columns is None else basis(columns, "columns", values.shape[1]),
            weight,
        )

    def first(self, start: SideCompletion | None) -> Array:
        """Z to begin from."""
        n_rows, n_columns = self.known.shape
        width = n_rows if self.rows is None else self.rows.shape[1]
        height = n_columns if self.columns is None else self.columns.shape[1]
        if start is None:
            return np.zeros((width, height))
        if start.core.shape != (width, height):
            raise DataError(
                f"start has a Z of {start.core.shape}, this problem one of {(width, height)};"
                " start from an answer for the same entries and sides"
            )
        return start.core

    def residual(self, core: Array) -> Array:
        """R_Omega(A Z B' - Y)."""
        return self.seen * spread(core, self.rows, self.columns) - self.known

    def proximal(self, core: Array) -> tuple[Array, float]:
        """A gradient step of length 1 and the shrinkage after it; and ||Z||_* there.

        The curvature of the loss is 1, since A and B are orthonormal.
        """
        return shrunk(core - gathered(self.residual(core), self.rows, self.columns), self.weight)

    def objective(self, core: Array, nuclear: float | None = None) -> float:
        """At Z, whose nuclear norm may be known."""
        if nuclear is None:
            nuclear = float(np.sum(np.linalg.svd(core, compute_uv=False))) if core.any() else 0.0
        residual = self.residual(core)
        return 0.5 * float(np.vdot(residual, residual)) + self.weight * nuclear

    def judged(self, core: Array) -> tuple[float, float]:
        """The objective, and Fenchel's bound from the residual."""
        residual = self.residual(core)
        pulled = gathered(residual, self.rows, self.columns)
        norm = norm_upper_bound(pulled, NORM_SLACK)
        square = float(np.vdot(residual, residual))
        product = float(np.vdot(residual, self.known))
        scale = 0.0 if square == 0.0 else max(0.0, -product / square)
        if norm > 0.0:
            scale = min(scale, self.weight / norm)
        bound = -0.5 * scale**2 * square - scale * product
        # Rounding of the sums, and of a dual point just outside of the ball.
        summands = scale**2 * square + scale * float(np.sum(np.abs(residual * self.known)))
        return self.objective(core), bound - 8.0 * EPS * np.log2(residual.size + 2.0) * summands

    def gap(self, core: Array) -> float:
        """Of Z."""
        return relative_gap(*self.judged(core))


def spread(core: Array, rows: Array | None, columns: Array | None) -> Array:
    """A Z B'."""
    image = core if rows is None else rows @ core
    return image if columns is None else image @ columns.T


def gathered(matrix: Array, rows: Array | None, columns: Array | None) -> Array:
    """A' S B."""
    image = matrix if rows is None else rows.T @ matrix
    return image if columns is None else image @ columns


def shrunk(matrix: Array, threshold: float) -> tuple[Array, float]:
    """Singular values less a threshold, and their sum.

    ``A V max(0, 1 - threshold / s) V'`` with the eigenvectors V of A'A, whose squares hide only
    singular values that the threshold cuts off unless it is below 1e-8 of the largest.
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    eigenvalues, vectors = np.linalg.eigh(tall.T @ tall)
    values = np.sqrt(np.maximum(eigenvalues, 0.0))
    kept = values > threshold
    factors = 1.0 - threshold / values[kept]
    short = vectors[:, kept]
    result = (tall @ (short * factors)) @ short.T
    nuclear = float(np.sum(values[kept] - threshold))
    return result if tall is matrix else result.T, nuclear


def matrix_of(values: Any, what: str) -> Array:
    """A float matrix, or a ``DataError``."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what}: numbers are needed, with NaN where one is missing") from None
    if matrix.ndim != 2 or 0 in matrix.shape or np.isinf(matrix).any():
        raise DataError(
            f"{what}: an array of shape {matrix.shape} was given; a matrix of finite numbers is"
            " needed, NaN where one is missing"
        )
    return matrix


def basis(side: Any, what: str, length: int) -> Array:
    """An orthonormal basis of the columns of complete side information."""
    matrix = matrix_of(side, what)
    if len(matrix) != length or np.isnan(matrix).any():
        raise DataError(
            f"{what}: {matrix.shape[0]} rows with {int(np.isnan(matrix).sum())} missing values were"
            f" given; {length} complete ones are needed: complete them first"
        )
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    kept = values > max(matrix.shape) * EPS * values[0]
    if not kept.any():
        raise DataError(f"{what}: every value is 0, which says nothing; leave {what} out")
    return left[:, kept]


def positive_weight(weight: float) -> float:
    """The weight, or a ``ModelError``."""
    if number(weight, "weight") <= 0.0:
        raise ModelError(f"weight={weight!r} was given; it must be above 0")
    return float(weight)

"""Maxide (Xu, Jin and Zhou, NIPS 2013): matrix completion with side information."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends import relative_gap
from mcframe.contracts.arrays import Array, Mask, singular_values, svd
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import number, whole
from mcframe.numerics.norms import norm_upper_bound
from papers.baselines.checks import checked_features

__all__ = ["SideCompletion", "maxide"]

# By how much rounding may raise a loss above its model, relatively.
ROUNDING = 1e-12
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
        A (n_rows, k_rows) and B (n_columns, k_columns); None for the identity.
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
        return table_of_core(self.core, self.rows, self.columns)

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
    orthonormal: bool = True,
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
        Side information of the rows, as features.
    columns : array (n_columns, e), optional
        The same of the columns.
    weight : float, default 1
        Of the nuclear norm.
    orthonormal : bool, default True
        Take orthonormal bases of the sides, as the problem states; else the sides as they are.
    max_iter : int, default 100
    change : float, default 1e-5
        Stop where the objective changes by less than this, relatively: the rule of the authors'
        code. With both defaults an answer may be far from the optimum, which ``gap`` says.
    tol : float, default 0
        Stop at this gap.
    start : SideCompletion, optional
        Begin at its Z, as along a path of weights.

    Raises
    ------
    DataError, ModelError

    References
    ----------
    M. Xu, R. Jin, Z.-H. Zhou. Speedup matrix completion with side information: application to
    multi-label learning. NIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.baselines import maxide
    >>> side = np.array([[1.0], [2.0], [3.0]])
    >>> known = np.array([[1.0, np.nan], [np.nan, 4.0], [3.0, np.nan]])
    >>> maxide(known, side, weight=1e-3, tol=1e-6, change=0.0).predict().round(1)
    array([[1., 2.],
           [2., 4.],
           [3., 6.]])
    """
    problem = Completion.of(entries, rows, columns, positive_weight(weight), orthonormal)
    max_iter = whole(max_iter, "max_iter", 0)
    iterate = Iterate.at(problem, problem.first(start))
    status = "iteration_limit"
    while iterate.count < max_iter:
        last = iterate.objective
        iterate.advance(problem)
        look = tol > 0.0 and iterate.count % LOOKS == 0
        if look and relative_gap(*problem.objective_and_bound(iterate.core)) <= tol:
            status = "certified"
            break
        if iterate.count > 1 and abs(iterate.objective - last) < change * iterate.objective:
            status = "stopped"
            break
    objective, bound = problem.objective_and_bound(iterate.core)
    if tol > 0.0 and relative_gap(objective, bound) <= tol:
        status = "certified"
    sides = problem.rows, problem.columns
    return SideCompletion(iterate.core, *sides, objective, bound, iterate.count, status)


@attrs.define(eq=False)
class Iterate:
    """Z, the one before, their momentum, and the curvature found so far."""

    core: Array
    previous: Array
    objective: float
    alpha: float = 1.0
    momentum: float = 0.0
    curvature: float = 1.0
    count: int = 0

    @classmethod
    def at(cls, problem: "Completion", core: Array) -> "Iterate":
        """Return the iterate at rest at a core."""
        return cls(core, core, problem.objective(core))

    def advance(self, problem: "Completion") -> None:
        """A step from ahead of Z; the curvature doubles until its model lies above the loss.

        With orthonormal sides 1, where it begins, is enough.
        """
        ahead = self.core + self.momentum * (self.core - self.previous)
        residual = problem.residual(ahead)
        loss, gradient = 0.5 * float(np.vdot(residual, residual)), problem.core_of_table(residual)
        while True:
            threshold = problem.weight / self.curvature
            core, nuclear = shrink_singular_values(ahead - gradient / self.curvature, threshold)
            reached = problem.loss(core)
            moved = core - ahead
            model = loss + float(np.vdot(gradient, moved))
            model += 0.5 * self.curvature * float(np.vdot(moved, moved))
            if problem.orthonormal or reached <= model * (1.0 + ROUNDING):
                break
            self.curvature *= 2.0
        self.previous, self.core = self.core, core
        self.objective = reached + problem.weight * nuclear
        following = 0.5 * (np.sqrt(self.alpha**4 + 4.0 * self.alpha**2) - self.alpha**2)
        self.momentum = following * (1.0 / self.alpha - 1.0)
        self.alpha = following
        self.count += 1


@attrs.frozen(eq=False)
class Completion:
    """The problem of ``maxide``: what is known, where, and the bases."""

    known: Array
    seen: Mask
    rows: Array | None
    columns: Array | None
    weight: float
    orthonormal: bool

    @classmethod
    def of(
        cls, entries: Any, rows: Any, columns: Any, weight: float, orthonormal: bool
    ) -> "Completion":
        """Checked, with orthonormal bases where they are asked for."""
        values = checked_features(entries, "entries")
        seen = ~np.isnan(values)
        if not seen.any():
            raise DataError("entries: all are NaN; at least one observed entry is needed")
        return cls(
            np.where(seen, values, 0.0),
            seen,
            side_of(rows, "rows", values.shape[0], orthonormal),
            side_of(columns, "columns", values.shape[1], orthonormal),
            weight,
            orthonormal or (rows is None and columns is None),
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
        return self.seen * table_of_core(core, self.rows, self.columns) - self.known

    def core_of_table(self, matrix: Array) -> Array:
        """A' S B."""
        image = matrix if self.rows is None else self.rows.T @ matrix
        return image if self.columns is None else image @ self.columns

    def loss(self, core: Array) -> float:
        """Half the sum of squares."""
        residual = self.residual(core)
        return 0.5 * float(np.vdot(residual, residual))

    def objective(self, core: Array) -> float:
        """The loss and the nuclear norm."""
        nuclear = float(np.sum(singular_values(core))) if core.any() else 0.0
        return self.loss(core) + self.weight * nuclear

    def objective_and_bound(self, core: Array) -> tuple[float, float]:
        """The objective, and Fenchel's bound from the residual."""
        residual = self.residual(core)
        norm = norm_upper_bound(self.core_of_table(residual))
        square = float(np.vdot(residual, residual))
        product = float(np.vdot(residual, self.known))
        scale = 0.0 if square == 0.0 else max(0.0, -product / square)
        if norm > 0.0:
            scale = min(scale, self.weight / norm)
        bound = -0.5 * scale**2 * square - scale * product
        # Rounding of the sums, and of a dual point just outside of the ball.
        summands = scale**2 * square + scale * float(np.sum(np.abs(residual * self.known)))
        return self.objective(core), bound - 8.0 * EPS * np.log2(residual.size + 2.0) * summands


def table_of_core(core: Array, rows: Array | None, columns: Array | None) -> Array:
    """A Z B'."""
    image = core if rows is None else rows @ core
    return image if columns is None else image @ columns.T


def shrink_singular_values(matrix: Array, threshold: float) -> tuple[Array, float]:
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


def side_of(side: Any, what: str, length: int, orthonormal: bool) -> Array | None:
    """Complete side information, or an orthonormal basis of its columns; None without any."""
    if side is None:
        return None
    matrix = checked_features(side, what)
    if len(matrix) != length or np.isnan(matrix).any():
        raise DataError(
            f"{what}: {matrix.shape[0]} rows with {int(np.isnan(matrix).sum())} missing values"
            f" were given; {length} complete ones are needed: complete them first"
        )
    if not matrix.any():
        raise DataError(f"{what}: every value is 0, which says nothing; leave {what} out")
    if not orthonormal:
        return matrix
    left, values, _ = svd(matrix)
    return left[:, values > max(matrix.shape) * EPS * values[0]]


def positive_weight(weight: float) -> float:
    """The weight, or a ``ModelError``."""
    if number(weight, "weight") <= 0.0:
        raise ModelError(f"weight={weight!r} was given; it must be above 0")
    return float(weight)

"""A square of each row of a matrix by itself: values, conjugates, and the rows in its units."""

from functools import cached_property

import attrs
import numpy as np
from scipy.linalg import qr, solve_triangular

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.operators import LowRank


@attrs.frozen
class DualOfRows:
    """A dual matrix Y as the conjugate of ``RowSquares`` sees it.

    Attributes
    ----------
    linear, linear_off : float
        ``<Y, 1 centre'>``, and how far rounding may have moved it.
    square, square_off : float
        Half the sum of ``p'C p`` over the rows p of Y in units of spreads, and how far rounding
        may have moved that.
    """

    linear: float
    linear_off: float
    square: float
    square_off: float

    def conjugate(self, scale: float = 1.0) -> float:
        """Return the conjugate at ``scale * Y``: a linear part and a square."""
        return scale * self.linear + scale**2 * self.square

    def rounding(self, scale: float = 1.0) -> float:
        """Return how far rounding may have moved that."""
        return abs(scale) * self.linear_off + scale**2 * self.square_off


@attrs.frozen(eq=False)
class RowSquares:
    """The sum over all rows ``z = centre + s * x`` of ``x' C^-1 x / 2``, in spreads s of columns.

    ``C = K K' + E`` with a lower triangular factor K and what rounding left of the matrix that it
    is a factor of. The diagonal of C is about 1, so that scales of columns never mix. With
    ``x = K t`` and ``p = K'^-1 t`` the value of a row is ``(t't - p'E p) / 2`` to first order in
    E, and its conjugate at p is ``(t't + p'E p) / 2``: where columns are nearly dependent p is
    large, and E has to be known.

    Attributes
    ----------
    centre : array (d,)
        The row of the least value.
    spreads : array (d,)
    factor : array (d x d), lower triangular, invertible
        K.
    defect : array (d x d)
        E.
    """

    centre: Array
    spreads: Array
    factor: Array
    defect: Array

    @classmethod
    def of_covariance(cls, mean: Array, covariance: Array, weight: float) -> "RowSquares":
        """Return ``weight / 2 * (z - mean)' covariance^-1 (z - mean)``.

        Spreads are powers of two, by which rounding does not divide, but for the weight.
        """
        spreads = np.exp2(np.floor(0.5 * np.log2(np.diag(covariance))))
        scaled = covariance / spreads / spreads[:, None]
        factor = np.linalg.cholesky(scaled)
        return cls(mean, spreads / np.sqrt(weight), factor, residual_of(scaled, factor))

    @classmethod
    def of_loadings(cls, centre: Array, loadings: Array) -> "RowSquares":
        """Return ``||t||^2 / 2`` of ``z = centre + loadings t``, for invertible loadings."""
        spreads = np.linalg.norm(loadings, axis=1)
        # Of all loadings with the same products one is lower triangular.
        factor = np.tril(np.linalg.qr((loadings / spreads[:, None]).T)[1].T)
        return cls(centre, spreads, factor, np.zeros_like(factor))

    @property
    def width(self) -> int:
        """d."""
        return int(self.centre.size)

    @property
    def loadings(self) -> Array:
        """The loadings L of the rows ``z = centre + L t``."""
        return self.spreads[:, None] * self.factor

    @cached_property
    def inverse(self) -> Array:
        """The inverse of K."""
        return solve_triangular(self.factor, np.eye(self.width), lower=True)

    @cached_property
    def defect_by_coordinates(self) -> Array:
        """``K^-1 E K'^-1``: E in the coordinates t, small where its norm is far below 1."""
        return self.inverse @ self.defect @ self.inverse.T

    def coordinates(self, dense: Array) -> Array:
        """Return the t of each row (n_rows x d)."""
        away = ((dense - self.centre) / self.spreads).T
        return solve_triangular(self.factor, away, lower=True, check_finite=False).T

    def scaled_gradient(self, coordinates: Array) -> Array:
        """Return the p of rows with these t: the gradient, in each column times its spread."""
        return solve_triangular(
            self.factor, coordinates.T, lower=True, trans="T", check_finite=False
        ).T

    def latent(self, coordinates: Array) -> LowRank:
        """Return the matrix of rows with these t, ``[1, T] [centre, loadings]'``."""
        left = np.column_stack([np.ones(len(coordinates)), coordinates])
        return LowRank(left, np.column_stack([self.centre, self.loadings]))

    def value(self, dense: Array) -> float:
        """Return the value at a matrix."""
        t = self.coordinates(dense)
        p = self.scaled_gradient(t)
        return 0.5 * float(np.vdot(t, t) - np.vdot(p @ self.defect, p))

    def gradient(self, dense: Array) -> Array:
        """Return the gradient (n_rows x d)."""
        return self.scaled_gradient(self.coordinates(dense)) / self.spreads

    def rounding(self, dense: Array) -> float:
        """Return how far rounding may have moved the value at a matrix.

        That of the matrix, a product of factors, and of t solved from it: a computed solution
        belongs to another K with each element off by d units in its last place at most (Higham,
        Accuracy and Stability of Numerical Algorithms, 2002, theorem 8.5). And the terms of E
        beyond the first order.
        """
        t, share = self.coordinates(dense), float(np.linalg.norm(self.defect_by_coordinates))
        if not share < 0.5:  # K itself is known to no digit
            return np.inf
        p = np.abs(self.scaled_gradient(t))
        sizes = (np.abs(dense) + 2.0 * np.abs(self.centre)) / self.spreads
        off = EPS * (sizes + (2 * self.width + 4) * np.linalg.norm(t, axis=1)[:, None])
        beyond = t @ self.defect_by_coordinates
        second = float(np.linalg.norm(self.inverse) * np.linalg.norm(off)) ** 2
        unsure = residual_rounding(self.width) * float(np.sum(np.square(p.sum(axis=1))))
        return float(np.vdot(p, off)) + second + unsure + float(np.vdot(beyond, beyond))

    def dual(self, matrix: Array) -> "DualOfRows":
        """Return what the conjugate at multiples of a dual matrix follows from.

        Rounding is bounded column by column, so that scales of columns do not mix.
        """
        summed = EPS * (self.width + 8 + float(np.log2(len(matrix) + 1)))
        p = matrix * self.spreads
        images, sizes = p @ self.factor, np.abs(p).sum(axis=1)
        square = 0.5 * float(np.vdot(images, images) + np.vdot(p @ self.defect, p))
        off = EPS * (2 * self.width + 4) * sizes
        first, second = float(off @ np.linalg.norm(images, axis=1)), float(off @ off)
        unsure = residual_rounding(self.width) * float(sizes @ sizes)
        return DualOfRows(
            linear=float(matrix.sum(axis=0) @ self.centre),
            linear_off=summed * float(np.abs(matrix).sum(axis=0) @ np.abs(self.centre)),
            square=square,
            square_off=first + second + unsure + summed * abs(square),
        )

    def best_rows(self, matrix: Array) -> Array:
        """Return the rows at which ``<Y, Z>`` less the value is largest, for a dual matrix Y."""
        return self.centre + (matrix @ self.loadings) @ self.loadings.T

    def with_ridge(self, weight: float) -> "RowSquares":
        """Return the squares with ``weight / 2 * ||z||^2`` added to each row's, less a constant.

        With ``[I; r L] = Q R`` for the loadings L and ``r^2 = weight`` the new ones are
        ``L Q_1 = Q_2 / r``, whose rows are each taken from where they are exact. Householder's
        transformations with columns pivoted and rows sorted by length are stable row by row (Cox
        and Higham, Stability of Householder QR factorization for weighted least squares problems,
        1998), whatever the scales of the columns of Z.
        """
        if not weight:
            return self
        root, width, old = float(np.sqrt(weight)), self.width, self.loadings
        stacked = np.vstack([np.eye(width), root * old])
        order = np.argsort(-np.max(np.abs(stacked), axis=1), kind="stable")
        thin = np.empty_like(stacked)
        thin[order] = qr(stacked[order], mode="economic", pivoting=True)[0]
        first, second = thin[:width], thin[width:]
        light = root * self.spreads <= 1.0  # columns that the ridge hardly moves
        loadings = np.where(light[:, None], old @ first, second / root)
        begin = solve_triangular(self.factor, self.centre / self.spreads, lower=True)
        centre = np.where(
            light,
            self.centre - loadings @ (second.T @ (root * self.centre)),
            loadings @ (first.T @ begin),
        )
        return RowSquares.of_loadings(centre, loadings)


def short_bits(width: int) -> int:
    """The bits behind the point that numbers up to 2 may have for sums of products to be exact.

    Sums of so many products of two of them, in double precision, whatever the order.
    """
    return (50 - int(np.ceil(np.log2(width)))) // 2


def residual_of(matrix: Array, factor: Array) -> Array:
    """Return ``matrix - factor factor'`` of numbers up to 2, to about twice double precision.

    The factor is split into numbers with few bits, whose products are exact, and the rest.
    """
    unit = 2.0 ** short_bits(len(factor))
    high = np.round(factor * unit) / unit
    low = factor - high
    mixed = high @ low.T
    return (matrix - high @ high.T) - (mixed + mixed.T + low @ low.T)


def residual_rounding(width: int) -> float:
    """Bound on the rounding of an element of a residual of matrices of that width."""
    return EPS * (4 * width + 8) * 2.0 ** -short_bits(width)

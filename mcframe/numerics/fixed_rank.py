"""Newton's step for F(Z) + ||Z||_* along the matrices of a rank."""

from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics.machine import check_time
from mcframe.numerics.operators import LowRank
from mcframe.numerics.threads import matmul

# Conjugate gradient steps at most, and the length of the residual relative to the first that
# ends them: from there on the rank's curvature says less than a new step would.
STEPS, ENOUGH = 10, 0.1
# Pairs of singular vectors of the gradient beyond the rank count from this length on. On
# 1,000 x 600 at rank 276 steps for a gap of 2e-7 were as many with 0.3 (all) as with 0.93; without
# any the gap was 100 times as large after so many.
CROWDED = 0.9
# A pair's curvature counts as at least this share of what it would be without its partner.
FLATTEST = 0.02
SINGLE = np.float32


@attrs.frozen(eq=False)
class Tangent:
    """A move A K B' + U B' + A V' of Z = A diag(s) B', with A'U = 0 and B'V = 0."""

    middle: Array
    left: Array
    right: Array

    def dot(self, other: "Tangent") -> float:
        """The inner product of the two as matrices."""
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return sum(float(np.vdot(a, b)) for a, b in zip(mine, others, strict=True))

    def plus(self, share: float, other: "Tangent") -> "Tangent":
        """The sum of this move and so much of another."""
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Tangent(*(a + a.dtype.type(share) * b for a, b in zip(mine, others, strict=True)))

    def cast(self, dtype: type[np.floating], share: float = 1.0) -> "Tangent":
        """A share of it, in numbers of another type."""
        return Tangent(*((share * each).astype(dtype) for each in attrs.astuple(self)))


@attrs.frozen(eq=False)
class FixedRank:
    """A matrix Z = A diag(s) B' and the gradient of F there, with a nuclear norm of weight 1."""

    left: Array
    values: Array
    right: Array
    gradient: Array

    def cast(self, dtype: type[np.floating]) -> "FixedRank":
        """All arrays in numbers of another type."""
        arrays = (self.left, self.values, self.right, self.gradient)
        left, values, right, gradient = (each.astype(dtype) for each in arrays)
        return FixedRank(left, values, right, gradient)

    def riemannian_gradient(self) -> Tangent:
        """The gradient of F + ||.||_* along the matrices of the rank."""
        forward, backward = matmul(self.gradient, self.right), matmul(self.gradient.T, self.left)
        middle = matmul(self.left.T, forward)
        aside = forward - matmul(self.left, middle), backward - matmul(self.right, middle.T)
        middle.ravel()[:: middle.shape[0] + 1] += 1.0
        return Tangent(middle, *aside)

    def matrix(self, move: Tangent) -> LowRank:
        """A move as a product."""
        left = matmul(self.left, move.middle) + move.left
        return LowRank(np.hstack([left, self.left]), np.hstack([self.right, move.right]))

    def curve(self, move: Tangent, change: Array) -> Tangent:
        """The change of the gradient along a move, given that of the gradient of F.

        In addition to that change K has the curvature of the norm in its skew part, U and V have
        ``1 / s``, and S (I - B B') ties U diag(1 / s) to V diag(1 / s) (Vandereycken, SIAM J.
        Optim. 2013).
        """
        forward, backward = matmul(change, self.right), matmul(change.T, self.left)
        middle = matmul(self.left.T, forward)
        forward += matmul(self.gradient, move.right / self.values)
        backward += matmul(self.gradient.T, move.left / self.values)
        forward -= matmul(self.left, matmul(self.left.T, forward))
        backward -= matmul(self.right, matmul(self.right.T, backward))
        stiff = SINGLE(1.0) / self.values
        middle += self.skewed() * (move.middle - move.middle.T)
        return Tangent(middle, forward + stiff * move.left, backward + stiff * move.right)

    def skewed(self) -> Array:
        """Half of the norm's curvature along each skew pair of K."""
        return 1.0 / (self.values[:, None] + self.values)

    def pairs(self, near: Array) -> tuple[Array, Array, Array]:
        """Singular vectors and values of S off the spaces of Z, in the span of some given ones.

        ``near`` (m columns) are orthonormal vectors of the shorter side.
        """
        n_rows, n_columns = self.gradient.shape
        if n_rows < n_columns:
            turned = FixedRank(self.right, self.values, self.left, self.gradient.T)
            return turned.pairs(near)[::-1]
        image = matmul(self.gradient, near)
        image -= matmul(self.left, matmul(self.left.T, image))
        squares, turn = np.linalg.eigh(image.T @ image)
        crowded = squares > CROWDED**2
        lengths, turn = np.sqrt(squares[crowded]), turn[:, crowded]
        return image @ turn / lengths, lengths, near @ turn


class Preconditioner:
    """The inverse of the curvature, that of F taken to be the same everywhere.

    Where singular values of S off the spaces of Z crowd below 1, a move of U along such a
    left vector and of V along its partner has next to no curvature of the norm: there 2 x 2
    matrices are inverted.
    """

    def __init__(self, at: FixedRank, curvature: float, near: Array | None) -> None:
        if near is None:
            near = np.zeros((min(at.gradient.shape), 0))
        self.left, lengths, self.right = (each.astype(SINGLE) for each in at.pairs(near))
        alone = curvature + 1.0 / at.values
        tied = lengths[:, None] / at.values
        both = np.maximum(alone**2 - tied**2, (FLATTEST * alone) ** 2)
        self.alone = alone.astype(SINGLE)
        self.kept = (alone / both - 1.0 / alone).astype(SINGLE)
        self.crossed = (-tied / both).astype(SINGLE)
        self.curvature, self.skewed = curvature, (curvature + 2.0 * at.skewed()).astype(SINGLE)

    def __call__(self, move: Tangent) -> Tangent:
        """The curvature's inverse times a move."""
        along, across = matmul(self.left.T, move.left), matmul(self.right.T, move.right)
        left = matmul(self.left, self.kept * along + self.crossed * across)
        right = matmul(self.right, self.kept * across + self.crossed * along)
        even, odd = move.middle + move.middle.T, move.middle - move.middle.T
        middle = even * SINGLE(0.5 / self.curvature) + SINGLE(0.5) * odd / self.skewed
        return Tangent(middle, left + move.left / self.alone, right + move.right / self.alone)


def newton_move(
    at: FixedRank, change: Callable[[Array], Array], curvature: float, near: Array | None = None
) -> LowRank:
    """Newton's move of F + ||.||_* from Z along the matrices of its rank, about.

    Preconditioned conjugate gradients, ended where the curvature is not positive. All but the
    gradient is of 32 bits: the step is accepted only if it lowers the objective.

    Parameters
    ----------
    at : FixedRank
    change : callable
        The change of the gradient of F along a move, both arrays (n_rows, n_columns) of 32 bits,
        to first order.
    curvature : float
        About that of F.
    near : array or None
        Vectors of the shorter side that may belong to singular values of the gradient just below
        1: orthonormal, and orthogonal to those of Z.
    """
    gradient = at.riemannian_gradient()
    length = float(np.sqrt(gradient.dot(gradient)))
    zero = gradient.cast(SINGLE, 0.0)
    if length == 0.0:
        return at.matrix(zero)
    precondition, single = Preconditioner(at, curvature, near), at.cast(SINGLE)
    move, residual = zero, gradient.cast(SINGLE, -1.0 / length)
    direction = turned = precondition(residual)
    size = first = residual.dot(turned)
    for _ in range(STEPS):
        check_time()
        curved = single.curve(direction, change(single.matrix(direction).dense()))
        along = direction.dot(curved)
        if not along > 0.0:
            break
        move, residual = move.plus(size / along, direction), residual.plus(-size / along, curved)
        turned = precondition(residual)
        before, size = size, residual.dot(turned)
        if size <= ENOUGH**2 * first:
            break
        direction = turned.plus(size / before, direction)
    return at.matrix(move.cast(np.float64, length))

"""Losses and terms without a gradient, made smooth: what the method of multipliers minimises.

The Moreau envelope of f with stiffness beta is ``e(v) = min over X of f(X) + beta/2 ||X - v||^2``:
smooth, with the gradient ``Y = beta (v - X)`` at the minimiser X = prox(v), which is a subgradient
of f at X, so that the conjugate of f is finite at Y. Each is asked for at v = K Z - c + multiplier
/ beta, of a loss at its predictor in place of K Z - c.
"""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.attached import Attached
from mcframe.compile.piece import Piece
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import TwiceDifferentiable


@attrs.frozen(eq=False)
class SmoothedLoss(TwiceDifferentiable):
    """The envelopes of a loss, one for each entry: it stands where a likelihood stands.

    ``step`` is 1 / beta relative to the entry's scale and ``shift`` multiplier / beta.
    """

    inner: Any
    step: Array
    shift: Array

    quadratic = False
    smooth = True
    convex = True
    width = 1

    @property
    def curvature(self) -> float:
        """1 / the smallest step."""
        return 1.0 / float(self.step.min())

    @property
    def length_scale(self) -> float:
        """The smallest step: the width in z of a kink where the gradient jumps by 1."""
        return float(self.step.min())

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """e(v) and Y, unscaled."""
        shifted = z + self.shift
        nearest = self.inner.prox(shifted, y, self.step)
        away = shifted - nearest
        gradient = away / self.step
        return self.inner.value(nearest, y) + 0.5 * away * gradient, gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """(1 - prox'(v)) / step."""
        second: Array = (1.0 - self.inner.prox_gradient(z + self.shift, y, self.step)) / self.step
        return second


@attrs.frozen(eq=False)
class SmoothedTerm:
    """The envelope of a term at its columns of Z: it stands where an attached term stands."""

    attached: Attached
    multiplier: Array
    stiffness: float

    smooth = True

    @property
    def columns(self) -> slice:
        """The columns of the term."""
        return self.attached.columns

    @property
    def width(self) -> int:
        """How many these are."""
        return self.attached.width

    @property
    def curvature(self) -> float:
        """The Lipschitz constant of the gradient: the stiffness, but for a factor."""
        return self.stiffness * self.attached.stretch**2

    def value_and_dual(self, own: Array) -> tuple[float, Array]:
        """e(v) and Y; (Y - multiplier) / stiffness is K Z - c - X."""
        shifted = self.attached.forward(own) + self.multiplier / self.stiffness
        nearest, value = self.attached.prox(shifted, 1.0 / self.stiffness)
        dual = self.stiffness * (shifted - nearest)
        return value + 0.5 * float(np.vdot(dual, dual)) / self.stiffness, dual

    def gradient_of(self, dual: Array) -> Array:
        """K' Y."""
        return self.attached.gradient_of(dual)


def smoothed_piece(piece: Piece, multiplier: Array | None, stiffness: float) -> Piece:
    """A piece whose loss is replaced by its envelope; the same without a multiplier."""
    if multiplier is None:
        return piece
    scale = piece.scale * np.ones(piece.y.size)
    loss = SmoothedLoss(piece.likelihood, step=scale / stiffness, shift=multiplier / stiffness)
    return attrs.evolve(piece, likelihood=loss, scale=scale)

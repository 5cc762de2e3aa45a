"""What is left of Z under a nuclear norm beside a column of ones: equal rows, the intercepts."""

from functools import cached_property

import attrs
import numpy as np
import scipy

from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.descent.quasi_newton import descent
from mcframe.numerics.operators import LowRank
from mcframe.numerics.spectra.spectral_norm import norm_upper_bound

__all__ = ["Intercepts"]

# Quasi-Newton steps between two looks at the gradient, how often, and how small it has to become
# beside the gradients at c = 0.
STEPS, LOOKS, STILL = 10, 30, 1e-8
# The accuracy of the weight, and what counts as none beside the gradients.
ACCURACY, NEAR_ZERO = 1e-6, 1e-6
# How often the bracket of the weight is widened.
DOUBLINGS = 60


@attrs.frozen(eq=False)
class Intercepts:
    """``W = r (c', 1)``, with c (n_columns - 1) the best intercepts under a weight.

    They minimise ``F(r c') + weight sqrt(n (1 + |c|^2)) + ridge n |c|^2 / 2``, n = r'r, as the
    nuclear norm of W is that root. F is smooth. r is 1 where W is Z: then n counts the items.
    """

    program: Program

    @cached_property
    def ones(self) -> Array:
        """r, the W of a column of ones."""
        scales = self.program.entries.scales
        return np.ones(self.program.shape[0]) if scales is None else 1.0 / scales.rows

    @property
    def n_rows(self) -> float:
        """The number r'r."""
        return float(np.dot(self.ones, self.ones))

    def latent(self, c: Array) -> LowRank:
        """Return W = r (c, 1)' in factors."""
        return LowRank(self.ones[:, None], np.append(c, 1.0)[:, None])

    def evaluation(self, c: Array) -> Evaluation:
        """F at Z."""
        return self.program.evaluate(self.latent(c))

    def value_and_gradient(self, c: Array, weight: float) -> tuple[float, Array]:
        """The objective and its gradient in c."""
        at, n_rows, ridge = self.evaluation(c), self.n_rows, self.program.penalty.ridge
        root = float(np.sqrt(n_rows * (1.0 + np.dot(c, c))))
        value = at.value + weight * root + 0.5 * ridge * n_rows * float(np.dot(c, c))
        sums = at.gradient.T @ self.ones
        return value, sums[:-1] + (weight / root + ridge) * n_rows * c

    def best(self, weight: float, begin: Array | None = None) -> Array:
        """c, from those of a weight close by, or from one step down the gradient at 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # a loss may overflow on the way
            c = self.first(weight) if begin is None else begin
            for _ in range(LOOKS):
                if np.linalg.norm(self.value_and_gradient(c, weight)[1]) <= self.still:
                    break
                c = descent(lambda at: self.value_and_gradient(at, weight), c, STEPS)
        return c

    def first(self, weight: float) -> Array:
        """One step down the gradient at c = 0, shorter where a loss overflows there."""
        value, gradient = self.value_and_gradient(self.nothing, weight)
        if np.linalg.norm(gradient) <= self.still:
            return self.nothing
        c = -gradient / (self.n_rows * self.curvature)
        while not self.value_and_gradient(c, weight)[0] <= value:
            c = 0.5 * c
        return c

    @property
    def nothing(self) -> Array:
        """c = 0."""
        return np.zeros(self.program.shape[1] - 1)

    @cached_property
    def still(self) -> float:
        """Gradients of this size are 0."""
        return STILL * self.size_at_nothing

    @cached_property
    def size_at_nothing(self) -> float:
        """The size of the gradient at c = 0."""
        return float(np.linalg.norm(self.evaluation(self.nothing).entry_gradients))

    @cached_property
    def curvature(self) -> float:
        """Return the curvature of F at c = 0."""
        return self.program.curvature_at(self.program.evaluate(LowRank.zeros(self.program.shape)))

    def norm_beside(self, c: Array) -> float:
        """``||(I - rr'/n) G (I, -c)||_2``, G the gradient of F in all columns but the last.

        Z is optimal where that is at most the weight: with the multiplier of the fixed column the
        dual matrix is ``weight (u v' + W)``, u v' the singular vectors of Z, and W, what is
        orthogonal to u and takes v to 0, has that norm over the weight.
        """
        gradient = self.evaluation(c).gradient.dense()[:, :-1]
        beside = gradient - np.outer(self.ones, self.ones @ gradient / self.n_rows)
        return norm_upper_bound(np.column_stack([beside, -beside @ c]), 1e-10)

    def largest_weight(self) -> float:
        """The weight from which no more than the intercepts is left."""
        last: Array | None = None

        def excess(weight: float) -> float:
            nonlocal last
            last = self.best(weight, last)
            return self.norm_beside(last) - weight

        high = self.size_at_nothing
        if high == 0.0:
            return 0.0
        for _ in range(DOUBLINGS):
            if excess(high) < 0.0:
                break
            high *= 2.0
        # The norm falls with the weight, as c does, and slowly: the root is close to it.
        low = self.norm_beside(self.best(high, last))
        if excess(low) <= 0.0:
            low, high = NEAR_ZERO * high, low
            if excess(low) <= 0.0:
                return 0.0
        return float(scipy.optimize.brentq(excess, low, high, rtol=ACCURACY)) * (1.0 + ACCURACY)

"""Rows and columns of a sparse matrix scaled down until its norm is about a bound."""

from functools import cached_property

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.rounding import TINY
from mcframe.numerics.operators import Operator
from mcframe.numerics.shrinkage import orthonormal
from mcframe.runtime.machine import check_time

# Rounds in which rows and columns are scaled until the norm is low enough.
MOST_ROUNDS = 8
# A row that is scaled by exp(-h) counts as if its linear cost grew by the factor
# 1 + COST_GROWTH h: changes are spread over many rows, so that few directions grow past the bound
# anew.
COST_GROWTH = 300.0
# The share of the norm by which a round aims below the bound, over 1: other directions become the
# longest once these are shorter.
OVERSHOOT = 1.2


@attrs.frozen(eq=False)
class ScalingCosts:
    """The cost of scaling rows, then columns, by exp(-h): linear h + quadratic h^2 / 2 for each.

    Infinite for those that stay as they are.
    """

    linear: Array
    quadratic: Array

    @cached_property
    def free(self) -> Mask:
        """Which rows and columns may be scaled."""
        return np.isfinite(self.quadratic + self.linear)

    def of(self, logs: Array) -> float:
        """The cost of all of these scales."""
        h, free = logs[self.free], self.free
        return float(self.linear[free] @ h + 0.5 * self.quadratic[free] @ np.square(h))

    @cached_property
    def stiff(self) -> Array:
        """The quadratic cost of what is free, a share of the linear one counted in."""
        stiff: Array = (self.quadratic + COST_GROWTH * self.linear)[self.free]
        return np.maximum(stiff, 1e-3 * np.mean(stiff))


def lower_directions(
    matrix: Operator, near: Array, logs: Array, aim: float, above: float, costs: ScalingCosts
) -> Array:
    """Larger ``logs`` h, so that D S E has no norm above (1 + above) aim in some directions.

    D and E are diagonal, with exp(-h) of the rows and of the columns. ``near`` spans the right
    singular vectors of S that are longer than the aim.

    Scaling all of S down costs as much as S is too long in its worst direction. Where these
    directions lie on few rows or columns, scaling those alone costs little. To first order
    the logarithm of a singular value falls by ``sum u_i^2 h_i + sum v_j^2 h_j`` where row i is
    scaled by exp(-h_i) and column j by exp(-h_j); each round takes the cheapest h >= 0 for all
    singular values that are too large. No singular value grows by it: what is left of S outside
    of the vectors B stays as short as it was, since D S E is D (S - S B B') E off the span of
    E B. So a round needs one product of S with ``near``, and no more.
    """
    n_rows, free, logs = matrix.shape[0], costs.free, logs.copy()
    for _ in range(MOST_ROUNDS):
        check_time()
        rows, columns = np.exp(-logs[:n_rows, None]), np.exp(-logs[n_rows:, None])
        basis = orthonormal(columns * near)
        image = rows * (matrix @ (columns * basis))
        squares, turn = np.linalg.eigh(image.T @ image)
        s = np.sqrt(np.maximum(squares, 0.0))
        long = s > aim * (1.0 + above)
        if not long.any():
            break
        turn = turn[:, long]
        shares = np.square(np.vstack([image @ turn / s[long], basis @ turn]))
        needed = OVERSHOOT * np.log(s[long] / aim)
        linear = costs.linear[free] + costs.stiff * logs[free]
        logs[free] += cheapest_scales(shares[free], needed, linear, costs.stiff)
    return logs


def cheapest_scales(shares: Array, needed: Array, linear: Array, quadratic: Array) -> Array:
    """argmin of ``linear @ h + quadratic @ h^2 / 2`` over h >= 0 with ``shares.T @ h >= needed``.

    By its dual, which has a variable m for each constraint:
    h = max(shares @ m - linear, 0) / quadratic.
    """

    def heights(multipliers: Array) -> Array:
        return np.maximum(shares @ multipliers - linear, 0.0) / quadratic

    # Where the first row begins to change.
    units = np.array(
        [
            np.min((linear + quadratic * need) / np.maximum(share, TINY))
            for share, need in zip(shares.T, needed, strict=True)
        ]
    )
    size = float(needed @ units)

    def negative_dual(scaled: Array) -> tuple[float, Array]:
        h = heights(scaled * units)
        value = needed @ (scaled * units) - 0.5 * np.sum(quadratic * h * h)
        return -float(value) / size, -(needed - shares.T @ h) * units / size

    solved = scipy.optimize.minimize(
        negative_dual,
        np.ones(needed.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * needed.size,
        options={"maxiter": 100, "ftol": 1e-10, "gtol": 1e-6},
    )
    return heights(solved.x * units)

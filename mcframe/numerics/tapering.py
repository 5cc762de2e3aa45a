"""A sparse matrix with rows and columns scaled down until its norm is at most a bound."""

from functools import cached_property

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, Mask
from mcframe.numerics.machine import check_time
from mcframe.numerics.norms import Lanczos, add_rounding
from mcframe.numerics.sampled import Sampled
from mcframe.numerics.shrinkage import orthonormal

# Norms computed at most, leading singular vectors used each time, rounds of scaling for them, and
# the least number of Lanczos steps for them to be accurate.
NORMS, FOLLOWED, ROUNDS, LEAST_STEPS = 4, 48, 8, 80
# A further gain below this share of the cost so far is left.
MINOR = 0.1
# The share of the allowed excess that singular values are lowered to.
HALF = 0.5
TINY = float(np.finfo(np.float64).tiny)
# A row or column that is scaled by exp(-h) counts as if its linear cost grew by the factor 1 +
# SPREAD h: changes are spread over many of them, so that few directions grow past the bound anew.
SPREAD = 300.0
# A round lowers singular values beyond the bound by this factor of the logarithm: others follow.
FURTHER = 1.2


@attrs.frozen(eq=False)
class LineCosts:
    """What it costs to scale rows, then columns, by exp(-h): linear h + quadratic h^2 / 2 each.

    Infinite for rows and columns that stay as they are.
    """

    linear: Array
    quadratic: Array

    @cached_property
    def free(self) -> Mask:
        """The mask of the rows and columns that may be scaled."""
        return np.isfinite(self.quadratic + self.linear)

    def of(self, logs: Array) -> float:
        """The cost of all these scales."""
        h, free = logs[self.free], self.free
        return float(self.linear[free] @ h + 0.5 * self.quadratic[free] @ np.square(h))

    @cached_property
    def stiff(self) -> Array:
        """The quadratic cost of free rows and columns, with a share of the linear one."""
        stiff: Array = (self.quadratic + SPREAD * self.linear)[self.free]
        return np.maximum(stiff, 1e-3 * np.mean(stiff))


def taper(
    matrix: Sampled, aim: float, costs: LineCosts, excess: float, slack: float
) -> tuple[Sampled, float, float]:
    """D S E with diagonal D, E <= 1 and ||D S E||_2 about at most ``aim``, bounds on it and ||S||.

    About: scaling D S E down to ``aim`` may cost, together with D and E, as much as scaling all of
    S by a relative ``excess``. The iteration ends where that is proven.

    Scaling all of S down costs as much as S is too long in its worst direction. Where these
    directions lie on few rows or columns, scaling those alone costs little. To first order
    the logarithm of a singular value falls by ``sum u_i^2 h_i + sum v_j^2 h_j`` where row i is
    scaled by exp(-h_i) and column j by exp(-h_j); each round takes the cheapest h >= 0 for all
    singular values beyond half of the excess. No singular value grows by it.

    S outside of its leading right singular vectors B gets no longer: off the span of E B, D S E is
    D (S - S B B') E. So rounds use the images of 48 vectors alone, one product each; then the norm
    of the whole matrix is computed again, three times at most, by 10 to 150 block Lanczos steps,
    which bound the norm to ``slack``, see ``Lanczos.run_to_bounds``.
    """
    n_rows = matrix.shape[0]
    rng = np.random.default_rng(matrix.seed)
    logs: Array = np.zeros(sum(matrix.shape))
    found = matrix
    # The cost of scaling all of it by exp(-h), to first order; 0 where <S, Z> has the other sign.
    whole = float(min(np.sum(costs.linear[:n_rows]), np.sum(costs.linear[n_rows:])))
    above, untouched = HALF * excess, np.inf
    for count in range(1, NORMS + 1):
        lanczos, spent = Lanczos(found, rng), costs.of(logs) / max(whole, TINY)
        enough = aim * (1.0 + max(excess - spent, 0.0))
        least, most = lanczos.run_to_bounds(aim, max(slack, MINOR * spent), enough)
        if found is matrix:
            untouched = most
        # The possible further gain has to be a share of the cost so far.
        short = most <= enough or least <= aim * (1.0 + max(above, MINOR * spent))
        if short or count == NORMS or not costs.free.any():
            break
        lanczos.advance(max(LEAST_STEPS - lanczos.steps, 0))
        if lanczos.turned:
            near = lanczos.leading(FOLLOWED)[2]
        else:
            near = lanczos.leading_of_short_side(FOLLOWED)[0]
        logs = lower_directions(matrix, near, logs, aim, above, costs)
        found = matrix.between(np.exp(-logs[:n_rows]), np.exp(-logs[n_rows:]))
    return found, add_rounding(most, found), add_rounding(untouched, matrix)


def lower_directions(
    matrix: Sampled, near: Array, logs: Array, aim: float, above: float, costs: LineCosts
) -> Array:
    """Larger ``logs``, such that no singular value in the images of ``near`` is beyond the aim."""
    n_rows, free, logs = matrix.shape[0], costs.free, logs.copy()
    for _ in range(ROUNDS):
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
        needed = FURTHER * np.log(s[long] / aim)
        linear = costs.linear[free] + costs.stiff * logs[free]
        logs[free] += cheapest(shares[free], needed, linear, costs.stiff)
    return logs


def cheapest(shares: Array, needed: Array, linear: Array, quadratic: Array) -> Array:
    """argmin of ``linear @ h + quadratic @ h^2 / 2`` over h >= 0 with ``shares.T @ h >= needed``.

    By its dual, which has a variable m for each constraint:
    h = max(shares @ m - linear, 0) / quadratic.
    """

    def heights(multipliers: Array) -> Array:
        return np.maximum(shares @ multipliers - linear, 0.0) / quadratic

    # The multiplier at which the first row or column is scaled.
    units = np.array(
        [
            np.min((linear + quadratic * need) / np.maximum(share, 1e-300))
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

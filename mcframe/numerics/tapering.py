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

# Looks at the matrix at most, the singular vectors of each that are followed, and the rounds in
# which lines are scaled until these are low enough; Lanczos steps that make these vectors sharp.
LOOKS, FOLLOWED, ROUNDS, LEAST_STEPS = 4, 48, 8, 80
# What is this small beside the cost so far is not worth another look.
MINOR = 0.1
# The share of the allowed excess that singular values are lowered to.
HALF = 0.5
TINY = float(np.finfo(np.float64).tiny)
# A line that is scaled by exp(-h) counts as if its linear cost grew by the factor 1 + SPREAD h:
# changes are spread over many lines, so that few directions grow past the bound anew.
SPREAD = 300.0
# How much further than to the bound a round aims: others rise to the top once these are lowered.
FURTHER = 1.2


@attrs.frozen(eq=False)
class LineCosts:
    """What it costs to scale rows, then columns, by exp(-h): linear h + quadratic h^2 / 2 each.

    Infinite for lines that stay as they are.
    """

    linear: Array
    quadratic: Array

    @cached_property
    def free(self) -> Mask:
        """Which lines may be scaled."""
        return np.isfinite(self.quadratic + self.linear)

    def of(self, logs: Array) -> float:
        """What all of these scales cost."""
        h, free = logs[self.free], self.free
        return float(self.linear[free] @ h + 0.5 * self.quadratic[free] @ np.square(h))

    @cached_property
    def stiff(self) -> Array:
        """The quadratic cost of the free lines, some of the linear one counted in."""
        stiff: Array = (self.quadratic + SPREAD * self.linear)[self.free]
        return np.maximum(stiff, 1e-3 * np.mean(stiff))


def taper(
    matrix: Sampled, aim: float, costs: LineCosts, excess: float, slack: float
) -> tuple[Sampled, float, float]:
    """D S E with diagonal D, E <= 1 and ||D S E||_2 about at most ``aim``, bounds on it and ||S||.

    About, since it does no harm if scaling D S E down to ``aim`` costs together with D and E as
    much as scaling all of S by a relative ``excess``: all ends where that is known to be so.

    Scaling all of S down costs as much as S is too long in its worst direction. Where these
    directions lie on few rows or columns, scaling those alone costs little. To first order
    the logarithm of a singular value falls by ``sum u_i^2 h_i + sum v_j^2 h_j`` where row i is
    scaled by exp(-h_i) and column j by exp(-h_j); each round takes the cheapest h >= 0 for all
    singular values beyond half of the excess. No singular value grows by it.

    What is left of S outside of its leading right singular vectors B stays as short as it was:
    off the span of E B, D S E is D (S - S B B') E. So rounds look at the images of 48 vectors
    alone, one product each; then the whole matrix is looked at again, three times at most, by 10
    to 150 block Lanczos steps, which bound the norm to ``slack``, see ``Lanczos.run_to_bounds``.
    """
    n_rows = matrix.shape[0]
    rng = np.random.default_rng(matrix.seed)
    logs: Array = np.zeros(sum(matrix.shape))
    found = matrix
    # What it costs to scale all of it by exp(-h), to first order; 0 where Z pulls the wrong way.
    whole = float(min(np.sum(costs.linear[:n_rows]), np.sum(costs.linear[n_rows:])))
    above, untouched = HALF * excess, np.inf
    for look in range(LOOKS):
        lanczos, spent = Lanczos(found, rng), costs.of(logs) / max(whole, TINY)
        enough = aim * (1.0 + max(excess - spent, 0.0))
        least, most = lanczos.run_to_bounds(aim, max(slack, MINOR * spent), enough)
        if found is matrix:
            untouched = most
        # Of what is left to gain there has to be some beside what was spent.
        short = most <= enough or least <= aim * (1.0 + max(above, MINOR * spent))
        if short or look + 1 == LOOKS or not costs.free.any():
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

    # Where the first line begins to move.
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

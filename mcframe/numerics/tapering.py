"""A sparse matrix with rows and columns scaled down until its norm is at most a bound."""

import attrs
import numpy as np
from scipy.optimize import minimize

from mcframe.contracts.arrays import Array
from mcframe.numerics.sampled import SampledMatrix, top_singular

__all__ = ["LineCosts", "tapered"]

# Rounds at most, Lanczos steps of the first and of later ones, and the singular vectors that a
# round looks at.
ROUNDS, STEPS, MOST = 10, (80, 48), 32
# A line that is scaled by exp(-h) counts as if its linear cost grew by the factor 1 + SPREAD h:
# changes are spread over many lines, so that few directions grow past the bound anew.
SPREAD = 300.0
# How much further than to the bound a round aims: others rise to the top once these are lowered.
FURTHER = 1.5


@attrs.frozen(eq=False)
class LineCosts:
    """What it costs to scale rows, then columns, by exp(-h): linear h + bent h^2 / 2 each.

    Infinite for lines that stay as they are.
    """

    linear: Array
    bent: Array


def tapered(matrix: SampledMatrix, aim: float, costs: LineCosts, slack: float) -> SampledMatrix:
    """D S E with diagonal D, E <= 1 and ||D S E||_2 about at most ``aim``, at little cost.

    Scaling all of S down costs as much as S is too long in its worst direction. Where these
    directions lie on few rows or columns, scaling those alone costs little. To first order
    the logarithm of a singular value falls by ``sum u_i^2 h_i + sum v_j^2 h_j`` where row i is
    scaled by exp(-h_i) and column j by exp(-h_j); each round takes the cheapest h >= 0 for all
    singular values above ``aim``, up to 32 of them. Rounds end when none is above
    ``aim (1 + slack)``, or after 10. No singular value grows by it.

    A round costs 96 products of the matrix and a vector, the first one 160.
    """
    n_rows, n_columns = matrix.shape
    stiff = costs.bent + SPREAD * costs.linear
    free = np.isfinite(stiff)
    if not free.any():
        return matrix
    stiff = np.maximum(stiff, 1e-3 * np.mean(stiff[free]))
    rng = np.random.default_rng(1)
    nothing = np.zeros((n_rows, 0)), np.zeros((n_columns, 0))
    logs, found, last = np.zeros(n_rows + n_columns), matrix, None
    for number in range(ROUNDS):
        steps = STEPS[min(number, 1)]
        left, s, right = top_singular(found, *nothing, MOST, steps, rng, last)
        above = s > aim * (1.0 + slack)
        if not above.any():
            break
        shares = np.square(np.vstack([left[:, above], right[:, above]]))
        needed = FURTHER * np.log(s[above] / aim)
        linear = costs.linear[free] + stiff[free] * logs[free]
        logs[free] += cheapest(shares[free], needed, linear, stiff[free])
        last = left, right
        found = matrix.between(np.exp(-logs[:n_rows]), np.exp(-logs[n_rows:]))
    return found


def cheapest(shares: Array, needed: Array, linear: Array, bent: Array) -> Array:
    """argmin of ``linear @ h + bent @ h^2 / 2`` over h >= 0 with ``shares.T @ h >= needed``.

    By its dual, which has a variable for each constraint: h = max(shares @ m - linear, 0) / bent.
    """

    def moved(multipliers: Array) -> Array:
        return np.maximum(shares @ multipliers - linear, 0.0) / bent

    # Where the first line begins to move.
    units = np.array(
        [
            np.min((linear + bent * need) / np.maximum(share, 1e-300))
            for share, need in zip(shares.T, needed, strict=True)
        ]
    )
    size = float(needed @ units)

    def negative_dual(scaled: Array) -> tuple[float, Array]:
        h = moved(scaled * units)
        value = needed @ (scaled * units) - 0.5 * np.sum(bent * h * h)
        return -float(value) / size, -(needed - shares.T @ h) * units / size

    solved = minimize(
        negative_dual,
        np.ones(needed.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * needed.size,
        options={"maxiter": 100, "ftol": 1e-10, "gtol": 1e-6},
    )
    return moved(solved.x * units)

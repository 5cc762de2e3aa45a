"""Rows and columns of a sparse matrix shortened until its norm is about a bound."""

from collections.abc import Callable, Sequence
from functools import cached_property

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, Mask
from mcframe.numerics.operators import Operator, thin_qr
from mcframe.runtime.machine import check_time

# Rounds in which rows and columns are scaled until the norm is low enough.
MOST_ROUNDS = 8
# A share h counts as if its linear cost grew by the factor 1 + COST_GROWTH h: changes are spread
# over many rows, so that few directions grow past the bound anew.
COST_GROWTH = 300.0
# The share of the norm by which a round aims below the bound, over 1: other directions become the
# longest once these are shorter.
OVERSHOOT = 1.5
# Norms may be this much above the aim where products in single precision are exact enough.
LEAST_SINGLE_EXCESS = 1e-5


@attrs.frozen(eq=False)
class ScalingCosts:
    """The cost of shares h that are taken off: linear h + quadratic h^2 / 2 for each.

    A row of shares for each part: those of the rows of a matrix, if rows may be changed, then
    those of its columns. Infinite for those that stay as they are.
    """

    linear: Array
    quadratic: Array

    @cached_property
    def free(self) -> Mask:
        """Which rows and columns may be changed."""
        return np.isfinite(self.quadratic + self.linear)

    def of(self, shares: Array) -> float:
        """The cost of all of these shares."""
        h, free = shares[self.free], self.free
        return float(self.linear[free] @ h + 0.5 * self.quadratic[free] @ np.square(h))

    @cached_property
    def stiff(self) -> Array:
        """The quadratic cost of what is free, a share of the linear one counted in."""
        stiff: Array = (self.quadratic + COST_GROWTH * self.linear)[self.free]
        return np.maximum(stiff, 1e-3 * np.mean(stiff))


def lower_directions(
    shortened: Callable[[Array], Operator],
    parts: Sequence[tuple[Operator, Operator]],
    near: Array,
    shares: Array,
    aim: float,
    above: float,
    costs: ScalingCosts,
    price: float,
    most: float,
) -> tuple[Array, float]:
    """Larger shares g of rows and h of columns, so that ``S - sum of (D_g R + C D_h)`` is short.

    That is, none of its norms in some directions is above (1 + above) aim, as far as that pays.
    ``near`` spans the right singular vectors that are longer than the aim. Of each pair in
    ``parts`` shares of the rows of R and of the columns of C may be taken off, and ``shortened``
    is that matrix for some shares. They cost ``most`` at most. Also what they and scaling all
    that is left down to the aim cost, at the ``price`` of a relative unit.

    Scaling all of S down costs as much as S is too long in its worst direction. Where these
    directions lie on few rows or columns, shortening those alone costs little. To first order
    a singular value s falls by ``sum g_i u_i (R v)_i + sum h_j v_j (C'u)_j``; each round takes the
    cheapest larger shares for all singular values that are too large. Others may grow, by the
    second order of the shares. A round takes V'A'A V for V = ``near``, and products of A, each R
    and each C' with what is too long, in single precision unless ``above`` is small: the shares
    need not be exact. The largest arrays are the derivatives of each s by all shares.
    """
    single = above >= LEAST_SINGLE_EXCESS
    free, basis, unit = costs.free, thin_qr(near)[0], aim if single else 1.0
    parts = in_units(parts, unit) if single else parts
    best, least = shares, np.inf
    for _ in range(MOST_ROUNDS):
        check_time()
        matrix = shortened(shares).in_units(unit) if single else shortened(shares)
        squares, turn = np.linalg.eigh(matrix.gram_within(basis.astype(matrix.dtype)))
        s = unit * np.sqrt(np.maximum(squares, 0.0))
        cost = costs.of(shares)
        total = cost + price * max(float(np.log(s[-1] / aim)), 0.0)
        if total >= least or cost > most:  # what is too long does not lie on few rows or columns
            break
        best, least = shares, total
        long = s > aim * (1.0 + above)
        if not long.any():
            break
        with_rows = shares.shape[1] > matrix.shape[1]
        of_lines = matrix.relative_falls(parts, basis @ turn[:, long], squares[long], with_rows)
        del matrix  # half as large as the data
        falls, s = np.hstack(of_lines)[free], s[long]
        if not np.all(np.any(falls > 0.0, axis=0)):
            break
        linear = costs.linear[free] + costs.stiff * shares[free]
        added = cheapest_scales(falls, OVERSHOOT * np.log(s / aim), linear, costs.stiff)
        shares = shares.copy()
        shares[free] = np.minimum(shares[free] + added, 1.0)
    return best, least


def in_units(
    parts: Sequence[tuple[Operator, Operator]], unit: float
) -> Sequence[tuple[Operator, Operator]]:
    """Pairs of matrices divided by a number, each of them once."""
    matrices = {id(one): one for pair in parts for one in pair}
    divided = {name: one.in_units(unit) for name, one in matrices.items()}
    return [(divided[id(rows)], divided[id(columns)]) for rows, columns in parts]


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
            np.min((linear + quadratic * need)[share > 0.0] / share[share > 0.0])
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

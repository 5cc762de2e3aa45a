"""Points of polyhedra: of numbers between bounds that meet linear equations."""

from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import MOST_STEPS, REFINEMENTS
from mcframe.contracts.rounding import SUMMAND_ROUNDING
from mcframe.runtime.machine import check_time

# The most products of an interior-point step for equations that hang together.
LARGEST_SYSTEM = 3e8
# The distance from an equation that has been moved, relative to the size of its summands, that
# counts as none.
MOVED_TOLERANCE = 1e-11
# What the products of multipliers and distances from bounds fall to, relative to squared moves.
COMPLEMENTARITY_TOLERANCE = 1e-10
# The distance from the equations at which steps end, relative to what it was.
RESIDUAL_REDUCTION = 1e-13
# Larger multipliers show that the polyhedron is empty.
LARGEST_MULTIPLIER = 1e14
# The share of the way to the nearest bound that a step takes.
STEP_SHARE = 0.99


@attrs.frozen(eq=False)
class Polyhedron:
    """The x with ``lower <= x <= upper`` and ``C x = t``, C sparse (m x n) with rows of length 1.

    Bounds may be infinite, and equal.
    """

    lower: Array
    upper: Array
    coefficients: sp.csr_array
    targets: Array

    @classmethod
    def of(
        cls, lower: Array, upper: Array, coefficients: sp.csr_array, targets: Array
    ) -> "Polyhedron":
        """The polyhedron with each equation divided by its length; empty ones are left out."""
        lengths = np.sqrt(np.asarray(coefficients.power(2).sum(axis=1)).ravel())
        kept = np.flatnonzero(lengths > 0.0)
        scaled = sp.csr_array(sp.diags_array(1.0 / lengths[kept]) @ coefficients[kept])
        return cls(lower, upper, scaled, targets[kept] / lengths[kept])

    @cached_property
    def components(self) -> list[tuple[IntArray, IntArray]]:
        """Equations that hang together by numbers that may move, and these numbers."""
        moving = self.lower < self.upper
        shared = sp.csr_array(abs(self.coefficients) @ sp.diags_array(1.0 * moving))
        n_parts, part = sp.csgraph.connected_components(shared @ shared.T, directed=False)
        ends = np.cumsum(np.bincount(part, minlength=n_parts))[:-1]
        parts = []
        for rows in np.split(np.argsort(part, kind="stable"), ends):
            places = np.unique(self.coefficients[rows].indices)
            parts.append((rows, places[moving[places]]))
        return parts

    def meets(self, x: Array) -> bool:
        """True if all equations hold at x up to rounding."""
        size = abs(self.coefficients) @ np.abs(x) + np.abs(self.targets)
        return bool(np.all(np.abs(self.targets - self.coefficients @ x) <= MOVED_TOLERANCE * size))

    def with_halfspaces(self, gradients: Sequence[Array], limit: float) -> "Polyhedron":
        """The part of it where ``<g, x> <= limit`` for each g: one more number is what is left."""
        n_more, length = len(gradients), self.lower.size
        rows = [np.concatenate([g, np.zeros(length - g.size)]) for g in gradients]
        new = sp.block_array([[sp.csr_array(np.array(rows)), sp.eye_array(n_more)]])
        old = sp.hstack([self.coefficients, sp.csr_array((self.targets.size, n_more))])
        return Polyhedron.of(
            np.concatenate([self.lower, np.zeros(n_more)]),
            np.concatenate([self.upper, np.full(n_more, np.inf)]),
            sp.csr_array(sp.vstack([old, new])),
            np.concatenate([self.targets, np.full(n_more, limit)]),
        )

    def near(self, x: Array) -> Array:
        """A point close to x. Where there is none it meets the bounds alone.

        As where so many equations hang together that a step would take a second.
        """
        point = np.clip(x, self.lower, self.upper)
        for _ in range(REFINEMENTS):
            left = self.targets - self.coefficients @ point
            sizes = abs(self.coefficients) @ np.abs(point) + np.abs(self.targets)
            apart = np.abs(left) > SUMMAND_ROUNDING * sizes
            if not apart.any():
                break
            for rows, places in self.components:
                small = rows.size**2 * places.size <= LARGEST_SYSTEM
                if places.size and small and apart[rows].any():
                    check_time()
                    matrix = self.coefficients[rows][:, places].toarray()
                    lower, upper = (b[places] - point[places] for b in (self.lower, self.upper))
                    point[places] += shortest_move(matrix, left[rows], lower, upper)
            point = np.clip(point, self.lower, self.upper)
        return point


def shortest_move(matrix: Array, targets: Array, lower: Array, upper: Array) -> Array:
    """argmin ||u|| with ``C u = t`` and ``lower <= u <= upper``, where lower <= 0 <= upper.

    A primal-dual interior-point method with predictor and corrector (Mehrotra, SIAM J. Optim.
    1992), from a point between the bounds. ``t`` should be small relative to what t was before
    numbers were moved to the bounds: bounds and moves are then known to more digits than x.
    """
    size = float(np.max(np.abs(targets)))
    t, below, above = targets / size, lower / size, upper / size
    whole = matrix.T @ multipliers(matrix, np.ones(matrix.shape[1]), t)  # the shortest solution
    if np.all((whole >= below) & (whole <= above)):
        return size * whole
    has_lower, has_upper = np.isfinite(below), np.isfinite(above)
    n_bounds = max(float(np.sum(has_lower) + np.sum(has_upper)), 1.0)
    width = np.minimum(above - below, 1.0)
    u = np.clip(0.0, below + 0.1 * width, above - 0.1 * width)
    y = np.zeros(t.size)
    to_lower, to_upper = (np.where(has, 1.0, 0.0) for has in (has_lower, has_upper))
    # Kept by themselves: a distance of next to nothing is lost in the difference.
    from_lower = np.where(has_lower, u - below, 1.0)
    from_upper = np.where(has_upper, above - u, 1.0)
    best, least = u, np.inf
    for _ in range(MOST_STEPS):
        left, steepness = t - matrix @ u, u - matrix.T @ y - to_lower + to_upper
        mean = float(to_lower @ from_lower + to_upper @ from_upper) / n_bounds
        distance = float(np.max(np.abs(left)))
        if distance < least:
            best, least = u, distance
        if mean <= COMPLEMENTARITY_TOLERANCE and (
            distance <= RESIDUAL_REDUCTION or mean <= RESIDUAL_REDUCTION
        ):
            break
        if (
            max(float(np.max(to_lower)), float(np.max(to_upper))) > LARGEST_MULTIPLIER
        ):  # no point, or none but for rounding
            break
        weights = 1.0 / (1.0 + to_lower / from_lower + to_upper / from_upper)

        at = Interior(matrix, weights, left, steepness, from_lower, from_upper, to_lower, to_upper)
        zero = np.zeros(u.size)
        move, _, rise_lower, rise_upper = at.direction(zero, zero)
        primal = longest(from_lower, move * has_lower, from_upper, -move * has_upper)
        dual = longest(to_lower, rise_lower, to_upper, rise_upper)
        after = (to_lower + dual * rise_lower) @ (from_lower + primal * move * has_lower)
        after += (to_upper + dual * rise_upper) @ (from_upper - primal * move * has_upper)
        centre = mean * (max(float(after), 0.0) / n_bounds / mean) ** 3 if mean > 0.0 else 0.0
        move, rise, rise_lower, rise_upper = at.direction(
            centre - move * rise_lower, centre + move * rise_upper
        )
        primal = longest(from_lower, move * has_lower, from_upper, -move * has_upper)
        dual = longest(to_lower, rise_lower, to_upper, rise_upper)
        primal, dual = min(1.0, STEP_SHARE * primal), min(1.0, STEP_SHARE * dual)
        u = u + primal * move
        from_lower = from_lower + primal * move * has_lower
        from_upper = from_upper - primal * move * has_upper
        y = y + dual * rise
        to_lower, to_upper = to_lower + dual * rise_lower, to_upper + dual * rise_upper
    return size * best


@attrs.frozen(eq=False)
class Interior:
    """A point between bounds: its distances from them, their multipliers, and what is left.

    Where there is no bound the distance is 1 and the multiplier 0.
    """

    matrix: Array
    weights: Array
    left: Array
    steepness: Array
    from_lower: Array
    from_upper: Array
    to_lower: Array
    to_upper: Array

    def direction(self, lower: Array, upper: Array) -> tuple[Array, Array, Array, Array]:
        """The move to products of multipliers and distances of these sizes, and of multipliers."""
        push_lower = np.where(self.to_lower > 0.0, lower / self.from_lower - self.to_lower, 0.0)
        push_upper = np.where(self.to_upper > 0.0, upper / self.from_upper - self.to_upper, 0.0)
        pushed = self.weights * (push_lower - push_upper - self.steepness)
        rise = multipliers(self.matrix, self.weights, self.left - self.matrix @ pushed)
        move = pushed + self.weights * (self.matrix.T @ rise)
        rise_lower = push_lower - self.to_lower / self.from_lower * move
        rise_upper = push_upper + self.to_upper / self.from_upper * move
        return move, rise, rise_lower, rise_upper


def longest(first: Array, first_move: Array, second: Array, second_move: Array) -> float:
    """The longest step at which positive numbers stay so, at most 1e3."""
    fastest = max(
        float(np.max(-first_move / np.where(first > 0.0, first, 1.0), initial=0.0)),
        float(np.max(-second_move / np.where(second > 0.0, second, 1.0), initial=0.0)),
    )
    return 1.0 / max(fastest, 1e-3)


def multipliers(matrix: Array, weights: Array, targets: Array) -> Array:
    """y with ``C diag(weights) C' y = t``, of least squares, refined once."""
    roots = np.sqrt(weights)
    left, values, _ = np.linalg.svd(matrix * roots, full_matrices=False)
    kept = values > 1e-13 * np.max(values, initial=0.0)
    left, values = left[:, kept], values[kept]
    y = left @ ((left.T @ targets) / values**2)
    missing = targets - matrix @ (weights * (matrix.T @ y))
    return y + left @ ((left.T @ missing) / values**2)

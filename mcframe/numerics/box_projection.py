"""Projection of rows onto linear equations, bounds and whole numbers."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.limits import BISECTIONS, MOST_STEPS
from mcframe.contracts.rounding import DAMPING, RESULT_ROUNDING, SUM_ROUNDING

# Distance of a bound from a whole number at which it counts as one.
WHOLE_ROUNDING = 1e-6


def orthonormal_equations(coefficients: Array, constants: Array) -> tuple[Array, Array]:
    """The equations of rows (b x q) as ones with orthonormal coefficients, and their constants.

    Coefficients (q x m) are alike in all rows. Equations that follow from others are left out.
    """
    sizes = np.max(np.abs(coefficients), axis=1, initial=0.0)
    kept = sizes > 0.0
    if not kept.any():
        return coefficients[:0], constants[:, :0]
    scaled, right = coefficients[kept] / sizes[kept, None], constants[:, kept] / sizes[kept]
    norms = np.linalg.norm(scaled, axis=1)
    scaled, right = scaled / norms[:, None], right / norms
    left, values, axes = np.linalg.svd(scaled, full_matrices=False)
    rank = int(np.count_nonzero(values > RESULT_ROUNDING * values[0]))
    return axes[:rank], right @ left[:, :rank] / values[:rank]


def projected(
    points: Array,
    coefficients: Array,
    constants: Array,
    units: Array,
    lower: Array,
    upper: Array,
) -> tuple[Array, Mask]:
    """The nearest points that satisfy equations and bounds, and the rows that have such a point.

    ``min sum(((x - point) / unit)^2)`` with ``coefficients x = constants`` and ``lower <= x <=
    upper``: x is the point plus ``unit^2 * (A' multipliers)``, clipped, and the multipliers are
    the maximum of a concave dual that is quadratic in pieces, by Newton steps.

    Parameters
    ----------
    points : array (b x m)
        Finite.
    coefficients : array (q x m)
    constants : array (b x q)
    units : array (m,)
        In which distances are measured, above 0.
    lower, upper : arrays (b x m)
        Infinite where there is no bound.
    """
    axes, right = orthonormal_equations(coefficients * units, constants)
    start = points / units
    low, high = lower / units, upper / units
    n_equations = len(axes)
    size = 1.0 + np.max(np.abs(right), axis=1, initial=0.0)
    size += np.max(np.abs(np.clip(start, low, high)), axis=1, initial=0.0)
    multipliers = np.zeros((len(points), n_equations))
    best = np.clip(start, low, high)
    if not n_equations:
        return np.clip(points, lower, upper), np.ones(len(points), dtype=bool)

    def heights(multipliers: Array) -> Array:
        inside = start + multipliers @ axes
        clipped = np.clip(inside, low, high)
        return np.sum(clipped * (inside - 0.5 * clipped), axis=1) - np.sum(
            multipliers * right, axis=1
        )

    for _ in range(MOST_STEPS):
        inside = start + multipliers @ axes
        best = np.clip(inside, low, high)
        residuals = best @ axes.T - right
        active = np.flatnonzero(np.max(np.abs(residuals), axis=1) > SUM_ROUNDING * size)
        if not active.size:
            break
        free = (inside[active] > low[active]) & (inside[active] < high[active])
        stretched = np.where(free, 1.0, DAMPING)[:, None] * axes
        hessians = stretched @ axes.T
        steps = -np.linalg.solve(hessians, residuals[active][:, :, None])[:, :, 0]
        gradients = np.sum(steps * residuals[active], axis=1)
        before, length = heights(multipliers)[active], np.ones(active.size)
        for _ in range(BISECTIONS):
            tried = multipliers.copy()
            tried[active] += length[:, None] * steps
            too_high = heights(tried)[active] > before + 1e-4 * length * gradients
            too_high &= length > 0.0
            if not too_high.any():
                break
            length = np.where(too_high, 0.5 * length, length)
        multipliers = tried
    residuals = best @ axes.T - right
    satisfied = np.max(np.abs(residuals), axis=1) <= RESULT_ROUNDING * size
    return np.clip(best * units, lower, upper), satisfied


@attrs.frozen(eq=False)
class RowProjection:
    """Equations of the missing numbers of rows that lack the same ones.

    Attributes
    ----------
    matrix : array (q x m)
    rest : array (b x q)
    units : array (m,)
        In which distances are measured.
    steps : array (m,)
        Numbers are multiples of these; 0 for any numbers.
    """

    matrix: Array
    rest: Array
    units: Array
    steps: Array

    def of_rows(self, rows: Mask) -> "RowProjection":
        """The equations of some of the rows."""
        return attrs.evolve(self, rest=self.rest[rows])

    def solution(self, points: Array, lower: Array, upper: Array) -> tuple[Array, Mask]:
        """The nearest numbers to points (b x m) within bounds (b x m), and where there are some.

        Whole numbers are rounded one after the other, and the others follow; the last one is then
        whole by the equation.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.ceil(lower / self.steps - WHOLE_ROUNDING) * self.steps
            lower = np.where((self.steps > 0.0) & np.isfinite(lower), inner, lower)
            inner = np.floor(upper / self.steps + WHOLE_ROUNDING) * self.steps
            upper = np.where((self.steps > 0.0) & np.isfinite(upper), inner, upper)
        moved, possible = self.projected(points, lower, upper)
        whole = np.flatnonzero((self.steps > 0.0) & np.any(self.matrix != 0.0, axis=0))
        if not whole.size:
            return moved, possible
        order = whole[np.argsort(-np.max(np.abs(self.matrix), axis=0)[whole], kind="stable")]
        rounded, feasible = self.rounded(moved, lower, upper, order)
        for others in (order[::-1], *(np.roll(order, k) for k in range(1, order.size))):
            failing = possible & ~feasible
            if not failing.any():
                break
            rounded[failing], feasible[failing] = self.of_rows(failing).rounded(
                moved[failing], lower[failing], upper[failing], others
            )
        return rounded, possible & feasible

    def rounded(
        self, points: Array, low: Array, high: Array, order: IntArray
    ) -> tuple[Array, Mask]:
        """Points whose whole numbers are rounded in this order, and which of them are whole."""
        points, low, high = points.copy(), low.copy(), high.copy()
        possible = np.ones(len(points), dtype=bool)
        for k in order:
            nearest = np.rint(points[:, k] / self.steps[k]) * self.steps[k]
            best, feasible = points, np.zeros(len(points), dtype=bool)
            for shift in (0.0, 1.0, -1.0):
                value = np.clip(nearest + shift * self.steps[k], low[:, k], high[:, k])
                tried_low, tried_high = low.copy(), high.copy()
                tried_low[:, k] = tried_high[:, k] = value
                tried, fits = self.projected(points, tried_low, tried_high)
                chosen = fits & ~feasible
                best = np.where(chosen[:, None], tried, best)
                feasible |= fits
                if feasible.all():
                    break
            points = best
            value = np.rint(points[:, k] / self.steps[k]) * self.steps[k]
            possible &= feasible
            points[:, k] = low[:, k] = high[:, k] = value
        return self.projected(points, low, high)[0] + 0.0, possible  # no number is -0

    def projected(self, points: Array, low: Array, high: Array) -> tuple[Array, Mask]:
        """The nearest numbers within bounds that satisfy the equations, to the last bit."""
        moved, possible = projected(points, self.matrix, self.rest, self.units, low, high)
        free = (moved > low) & (moved < high)
        for row, equation in enumerate(self.matrix):
            # One number of each equation takes what rounding has left.
            alone = np.count_nonzero(self.matrix, axis=0) == 1
            candidates = free & alone & (equation != 0.0)
            movable = np.flatnonzero(possible & candidates.any(axis=1))
            heights = np.abs(equation) * self.units
            place = np.argmax(np.where(candidates, heights, -1.0), axis=1)[movable]
            for _ in range(2):
                left = self.rest[movable, row] - moved[movable] @ equation
                moved[movable, place] += left / equation[place]
        return moved, possible

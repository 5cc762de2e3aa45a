"""Effects of columns and of rows together: what ties them is the graph of entries."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.effects.conjugate_gradients import conjugate_gradients
from mcframe.compile.effects.contract import Correction, Effects, Ridge, corrected
from mcframe.compile.effects.newton import SOLVED, Local, newton
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.rounding import EPS
from mcframe.model import Layout

__all__ = [
    "Reduced",
    "TwoKinds",
    "centred",
    "damping",
    "eliminated",
    "exactness",
    "inverted",
    "representative",
]

# How exactly a Newton system is solved, beside what is left of the gradient.
EXACT, LEAST_EXACT = 0.1, 1e-13
# Rounds in which gradients are centred.
REFINEMENTS = 3
# What is added to the diagonal of a system, relatively: where a loss is flat, as Huber's in its
# tails, it has no curvature though its gradient is not 0, and a constant may be traded.
LEAST_DAMPING, MOST_DAMPING = 1e-12, 0.1
# What has less curvature than this does not move.
TINY = 1e-300


@attrs.frozen(eq=False)
class TwoKinds(Effects):
    """``b[column] + a[row]`` for each entry, and a common c beside a ridge on all of them.

    Without a ridge a constant may be traded between b and a: within each part of the table that
    entries connect, a has the mean 0. An effect without entries has the mean of its kind, so that
    an item without any is predicted as an average one; both counted from 0 by ``origin``.
    """

    layout: Layout
    rows: IntArray
    columns: IntArray
    fixed: Array
    ridge: Ridge | None = None
    origin: Array | None = None

    @property
    def size(self) -> int:
        """Biases, row effects and the intercept."""
        return self.layout.n_effects

    def at_entries(self, effects: Array) -> Array:
        """The sum of the effects of each entry."""
        return self.layout.at(self.rows, self.columns, effects)

    def sum_by_effect(self, numbers: Array) -> Array:
        """The sum over the entries of each effect."""
        layout = self.layout
        parts = [
            np.bincount(self.columns, weights=numbers, minlength=layout.n_biases),
            np.bincount(self.rows, weights=numbers, minlength=layout.n_row_effects),
        ]
        if layout.n_intercepts:
            parts.append(np.array([float(np.sum(numbers))]))
        return np.concatenate(parts)

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z plus the effects of column and row."""
        return z if effects is None else z + self.at_entries(effects)

    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> Array:
        """argmin over e of sum over entries of w l(z + b + a, y), plus the ridge.

        Newton's method, one step for a quadratic loss. Of its systems the larger kind is
        eliminated, and conjugate gradients solve for the smaller one, each step of which takes two
        products of the sparse matrix of second derivatives with a vector; they begin from the
        effects of a point nearby and end when the gradients' sums are 0 up to 1e-11 of their
        sizes. Cost: about 20 passes over the entries for each Newton step, three of them with the
        loss.
        """
        free, start = self.fixed == 0.0, self.begin(z, warm)
        with np.errstate(over="ignore", invalid="ignore"):
            gradients = likelihood.value_and_gradient(z + self.at_entries(start), y)[1]
            if not np.all(np.isfinite(gradients)):
                start = np.where(free, self.below_zero(z), start)

        def at(effects: Array) -> Local:
            with np.errstate(over="ignore", invalid="ignore"):
                return self.local_at(likelihood, z, y, weights, effects, free)

        def step(effects: Array, here: Local) -> Array:
            shifted = z + self.at_entries(effects)
            second = weights * likelihood.second_derivative(shifted, y)

            def stretch() -> Array:
                return self.sum_by_effect(weights * np.ones(z.shape))

            damped = damping(likelihood, self.sum_by_effect(second), stretch, here.left)
            return self.newton_step(second, here.gradient, damped, free, exactness(here))

        return self.representative(newton(at, step, start))

    def local_at(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        free: Any,
    ) -> Local:
        """Losses, gradient and sizes at z and effects."""
        value, gradient = likelihood.value_and_gradient(z + self.at_entries(effects), y)
        return self.local(weights * value, weights * gradient, effects, free)

    def correction(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        gradients: Array,
    ) -> Correction | None:
        """A Newton step of all effects together, its system solved as in ``solve``."""
        free = self.fixed == 0.0
        here = self.local(np.zeros(0), gradients, effects, free)
        if here.off <= SOLVED:
            return Correction(effects, 0.0, np.zeros(gradients.size))
        if not np.isfinite(here.off):
            return None
        second = weights * likelihood.second_derivative(z + self.at_entries(effects), y)
        least = LEAST_DAMPING * self.sum_by_effect(second)
        step = self.newton_step(second, here.gradient, least, free, exactness(here))
        moved = self.at_entries(step)
        found = corrected(likelihood, effects, here.gradient, step, moved, second * moved)
        return found and attrs.evolve(found, effects=self.representative(found.effects))

    def below_zero(self, z: Array) -> Array:
        """Effects of columns that bring each predictor to 0 or below, where no loss overflows."""
        highest = np.full(self.layout.n_biases, -np.inf)
        np.maximum.at(highest, self.columns, z)
        effects = np.zeros(self.size)
        self.layout.biases(effects)[:] = np.where(np.isfinite(highest), -highest, 0.0)
        return effects

    @property
    def groups(self) -> IntArray:
        """The places of the effects of each entry (N, 2)."""
        return np.stack([self.columns, self.layout.n_biases + self.rows], axis=-1)

    @cached_property
    def by_rows(self) -> tuple[IntArray | None, IntArray, IntArray]:
        """The entries' order by rows (None if they are), their columns, and where rows begin."""
        ordered = bool(np.all(self.rows[1:] >= self.rows[:-1]))
        order = None if ordered else np.argsort(self.rows, kind="stable")
        columns = self.columns if order is None else self.columns[order]
        counts = np.bincount(self.rows, minlength=self.layout.n_row_effects)
        return order, columns, np.concatenate([[0], np.cumsum(counts)])

    def table(self, numbers: Array) -> Any:
        """Numbers of the entries as a sparse matrix (n_rows x n_columns)."""
        order, columns, starts = self.by_rows
        values = numbers if order is None else numbers[order]
        shape = (self.layout.n_row_effects, self.layout.n_biases)
        return sp.csr_array((values, columns, starts), shape=shape)

    def newton_step(
        self, second: Array, gradient: Array, damping: Array, free: Any, exact: float
    ) -> Array:
        """-(H + damping + ridge)^-1 g, for H of the entries' second derivatives."""
        d, n = self.layout.n_biases, self.layout.n_row_effects
        diagonal = self.sum_by_effect(second) + damping + self.stiffness
        usable, inverse = inverted(diagonal, free)
        places = np.arange(self.size)
        table = self.table(second)
        if n >= d:  # what is kept stands first: one kind and the intercept
            kept, gone = np.concatenate([places[:d], places[d + n :]]), places[d : d + n]
        else:
            kept, gone, table = places[d:], places[:d], table.T
        system = Reduced(table, diagonal[kept], inverse[gone])
        return eliminated(system, gradient, (kept, gone), usable, inverse, exact)

    @cached_property
    def parts(self) -> tuple[IntArray, Mask]:
        """The connected part of each column and each row, and which of them stand alone.

        Entries of an infinite effect cost nothing, and connect nothing.
        """
        d, n = self.layout.n_biases, self.layout.n_row_effects
        here = (self.fixed[self.columns] == 0.0) & (self.fixed[d + self.rows] == 0.0)
        places = self.columns[here], d + self.rows[here]
        graph = sp.coo_array((np.ones(places[0].size), places), shape=(d + n, d + n))
        part = sp.csgraph.connected_components(graph, directed=False)[1]
        return part, np.bincount(part)[part] == 1

    def representative(self, effects: Array) -> Array:
        """Equal effects, a constant traded as the class says, those that stand alone set."""
        if self.ridge is not None:
            return effects
        return representative(effects, self.layout.n_biases, self.parts, self.fixed, self.origin)

    def centre(self, gradient: Array) -> Array:
        """The nearest gradient whose sums over rows and over columns vanish.

        Least squares on the graph of entries, refined until rounding ends it. Entries of an
        infinite effect have gradients of one sign, whose sum vanishes where all of them do.
        """
        if self.ridge is not None:
            return gradient
        d = self.layout.n_biases
        ends = (self.fixed[self.columns] != 0.0) | (self.fixed[d + self.rows] != 0.0)
        gradient, ones, free = (
            np.where(ends, 0.0, gradient),
            np.where(ends, 0.0, 1.0),
            self.fixed == 0.0,
        )
        undamped = np.zeros(self.size)
        found: Array = centred(
            gradient,
            lambda gradient: (self.sum_by_effect(gradient), self.sum_by_effect(np.abs(gradient))),
            lambda sums, exact: self.newton_step(ones, sums, undamped, free, exact),
            lambda gradient, step: gradient + ones * self.at_entries(step),
        )
        return found


def damping(likelihood: Any, second: Array, stretch: Callable[[], Array], left: float) -> Array:
    """What is added to the diagonal of a Newton system, whose sums are ``second``.

    ``stretch`` gives the sums of the factors of the losses; ``left`` is what is left of the
    gradient. Beside it counts what curvature the losses lack here: where they lack none Newton's
    step is exact, and damped steps would creep along moves that only a light ridge holds.
    """
    least = LEAST_DAMPING * second
    if np.isfinite(likelihood.curvature) and not likelihood.quadratic:
        lacking = np.maximum(float(likelihood.curvature) * stretch() - second, 0.0)
        least = least + MOST_DAMPING * left * lacking
    return least


def exactness(here: Local) -> float:
    """How exactly the Newton system at a point is solved."""
    return max(EXACT * SOLVED / here.off, LEAST_EXACT)


def inverted(diagonal: Array, free: Any) -> tuple[Mask, Array]:
    """Which effects move, and the inverse diagonal, 0 for the others."""
    usable = free & (diagonal > TINY)
    return usable, np.where(usable, 1.0 / np.where(usable, diagonal, 1.0), 0.0)


def eliminated(
    system: Any,
    gradient: Array,
    places: tuple[IntArray, IntArray],
    usable: Mask,
    inverse: Array,
    exact: float,
) -> Array:
    """A Newton step by the Schur complement of the kept effects; ``places`` are kept and gone."""
    kept, gone = places
    target = -gradient[kept] + system.backward(inverse[gone] * gradient[gone])
    found = conjugate_gradients(system.times, target, inverse[kept], usable[kept], exact)
    step = np.zeros(gradient.size)
    step[kept] = found
    step[gone] = -inverse[gone] * (gradient[gone] + system.forward(found))
    return step


def representative(
    effects: Array, d: int, parts: tuple[IntArray, Mask], fixed: Array, origin: Array | None
) -> Array:
    """Equal effects of d columns and of rows, by the parts that entries connect."""
    part, alone = parts
    counts = np.bincount(part[d:], minlength=part.size)
    means = np.bincount(part[d:], effects[d:], minlength=part.size) / np.maximum(counts, 1)
    traded = np.where(np.arange(part.size) < d, means[part], -means[part])
    moved = np.where(alone, effects, effects + traded)
    origin = np.zeros(part.size) if origin is None else origin
    for kind in (slice(0, d), slice(d, None)):
        known, idle = ~alone[kind], alone[kind] & (fixed[kind] == 0.0)
        mean = np.mean((moved + origin)[kind][known]) if known.any() else 0.0
        moved[kind] = np.where(idle, mean - origin[kind], moved[kind])
    return moved


def centred(
    gradient: Any,
    sums_of: Callable[[Any], tuple[Array, Array]],
    step_for: Callable[[Array, float], Array],
    moved_by: Callable[[Any, Array], Any],
) -> Any:
    """Gradients moved by sums of effects until their sums vanish, refined until rounding ends it.

    ``sums_of`` has the sums of gradients over each effect, and of their sizes; ``step_for`` solves
    for the effects that take sums off, as exactly as it is told.
    """
    sums, sizes = sums_of(gradient)
    floor = np.maximum(sizes, 1e-3 * float(np.max(sizes, initial=0.0)) + TINY)
    off = float(np.max(np.abs(sums) / floor))
    for _ in range(REFINEMENTS):
        if off <= 4.0 * EPS:
            break
        moved = moved_by(gradient, step_for(sums, max(EPS / off, LEAST_EXACT)))
        there = sums_of(moved)[0]
        left = float(np.max(np.abs(there) / floor))
        if left >= off:
            break
        gradient, sums, off = moved, there, left
    return gradient


@attrs.frozen(eq=False)
class Reduced:
    """The Newton system of the kept effects x, the others eliminated: a Schur complement.

    With N = ``table`` (and its row sums, for an intercept) S x = M x - N' D N x, D the inverse
    diagonal of the others, M the diagonal of the kept ones and what an intercept adds to it.
    """

    table: Any  # (n_gone x n_kept kind)
    diagonal: Array
    inverse_gone: Array

    @cached_property
    def sums(self) -> Array:
        """Row sums of the table: how the eliminated effects are tied to an intercept."""
        return np.asarray(self.table @ np.ones(self.table.shape[1]))

    @cached_property
    def column_sums(self) -> Array:
        """How the kept kind is tied to an intercept."""
        return np.asarray(self.table.T @ np.ones(self.table.shape[0]))

    def forward(self, kept: Array) -> Array:
        """N x."""
        width = self.table.shape[1]
        image = self.table @ kept[:width]
        if kept.size > width:
            image = image + self.sums * kept[width]
        return np.asarray(image)

    def backward(self, gone: Array) -> Array:
        """N' y."""
        image = self.table.T @ gone
        if self.diagonal.size > self.table.shape[1]:
            image = np.append(image, self.sums @ gone)
        return np.asarray(image)

    def times(self, kept: Array) -> Array:
        """S x."""
        image = self.diagonal * kept - self.backward(self.inverse_gone * self.forward(kept))
        width = self.table.shape[1]
        if kept.size > width:
            image[:width] += self.column_sums * kept[width]
            image[width] += self.column_sums @ kept[:width]
        return image

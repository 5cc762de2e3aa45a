"""The free effects of a block: predictors are z + G e with a sparse G, and e is solved out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.equations import EffectSquares, SquaresAt, equations_of_effects
from mcframe.compile.solving import (
    Curvature,
    EntriesAt,
    ObjectiveAt,
    SumsAt,
    best_effects,
    centre_gradients,
    newton_correction,
)
from mcframe.contracts.arrays import Array, IntArray, Mask, ranges_of_observations, sizes_of
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Parametric, PointwiseLoss
from mcframe.contracts.limits import BISECTIONS, MOST_STEPS
from mcframe.contracts.rounding import FAR_PREDICTOR, RESULT_ROUNDING, SUM_ROUNDING
from mcframe.contracts.wording import wording
from mcframe.model import Block, Layout, Problem

# Predictors that move by less than this, in units of the length scale, leave second derivatives
# as they are but for a few hundredths: a Newton step's expansion is trusted so far.
NEWTON_RADIUS = 0.05


def is_short(likelihood: PointwiseLoss, longest: float) -> bool:
    """True where a Newton step that moves predictors by at most so much leads to the best."""
    return likelihood.quadratic or longest <= NEWTON_RADIUS * float(likelihood.length_scale)


# How much farther out effects lie that were found a round before.
ROUND_DISTANCE_RATIO = 4.0


def asymptotic_predictor(likelihood: PointwiseLoss) -> float:
    """A predictor so large that a loss that falls to a limit is at that limit."""
    return FAR_PREDICTOR * float(likelihood.length_scale)


def asymptotic_gradients(likelihood: PointwiseLoss, y: Array) -> tuple[Array, Array]:
    """The gradients far above 0 and far below 0; for a location far above and below the values.

    For classes, those far below are taken one class at a time; far above none falls without end.
    """
    far = asymptotic_predictor(likelihood)
    if likelihood.width > 1:
        falling = np.zeros((y.size, likelihood.width))
        for k in range(likelihood.width):
            z = np.zeros(falling.shape)
            z[:, k] = -far
            falling[:, k] = likelihood.value_and_gradient(z, y)[1][:, k]
        return np.ones(falling.shape), falling
    zeros = np.zeros(y.shape)
    least, largest = ranges_of_observations(y) if likelihood.location else (zeros, zeros)
    with np.errstate(over="ignore"):
        above = likelihood.value_and_gradient(largest + (far + np.abs(largest)), y)[1]
        below = likelihood.value_and_gradient(least - (far + np.abs(least)), y)[1]
    return above, below


def diverging_effects(
    effects: Any,
    likelihood: PointwiseLoss,
    asymptotic_gradient_signs: Callable[[Mask], tuple[Array, ...]],
    size: float = 0.0,
) -> Array:
    """Far values for diverging effects, 0 for the others.

    An effect diverges if the losses of all its entries fall one way however far out, as those of
    labels all alike, or of a class that a column never has. Where entries have two effects those
    of a diverging one then cost nothing, and without them others may diverge, so that the search
    repeats (as with perfect scores in a Rasch model); those found first are the farthest out.
    Effects that equations restrain stay.

    ``asymptotic_gradient_signs`` are those of ``EntryEffects`` over all entries but those of the
    effects that are known to diverge, ``size`` the largest value of a location.
    """
    rounds: list[Array] = []
    diverging = np.zeros(effects.size, dtype=bool)
    while True:
        counts, rises, falls = asymptotic_gradient_signs(diverging)
        candidates = (counts > 0) & ~diverging & ~effects.restrained
        sign = ((rises == 0) * 1.0 - (falls == 0) * 1.0) * candidates
        if not sign.any():
            break
        rounds.append(sign)
        diverging |= sign != 0.0
        if not effects.tied:
            break
    far = asymptotic_predictor(likelihood) + 2.0 * size
    return sum(
        (
            far * ROUND_DISTANCE_RATIO ** (len(rounds) - 1 - k) * sign
            for k, sign in enumerate(rounds)
        ),
        start=np.zeros(effects.size),
    )


def refuse_falling(
    likelihood: PointwiseLoss,
    name_of: Callable[[int], str],
    asymptotic_gradient_sums: Callable[[], tuple[Array, ...]],
    restrained: Mask | None = None,
) -> None:
    """Raise a ``DataError`` where the loss falls without end along a free effect.

    By ``EntryEffects.asymptotic_gradient_sums`` over all entries, which only losses without a
    lower bound are asked for. Effects that equations restrain are not looked at.
    """
    if np.isfinite(likelihood.infimum) or likelihood.width > 1:
        return
    above, below, size = asymptotic_gradient_sums()
    with np.errstate(invalid="ignore"):
        falls = (above < -RESULT_ROUNDING * size) | (below > RESULT_ROUNDING * size)
    falling = np.flatnonzero(falls if restrained is None else falls & ~restrained)
    if falling.size:
        raise DataError(
            f"the loss {type(likelihood).__name__} falls without end along the free"
            f" {name_of(int(falling[0]))}; give up the bias, or the share of the risk that"
            " has no lower bound, or give the effects a ridge by effects_weight"
        )


@attrs.frozen(eq=False)
class EffectsRidge:
    """``weight / 2 * ||e - towards||^2`` for the effects e of a block."""

    weight: float
    towards: Array

    def value(self, effects: Array) -> float:
        """The ridge at some effects."""
        away = effects - self.towards
        return 0.5 * self.weight * float(np.dot(away, away))

    def gradient(self, effects: Array) -> Array:
        """Gradient of the ridge at the effects."""
        return self.weight * (effects - self.towards)

    def conjugate(self, sums: Array) -> tuple[float, float]:
        """Addition to F* at gradients with these sums over each effect, and its summands' size.

        The supremum over e of ``-<sums, e>`` minus the ridge.
        """
        squares = np.square(sums) / (2.0 * self.weight)
        tilts = sums * self.towards
        return float(np.sum(squares - tilts)), float(np.sum(squares + np.abs(tilts)))


@attrs.frozen(eq=False, kw_only=True)
class Effects(ABC):
    """Numbers e in addition to Z, one vector a block: F(z) = min over e of the losses at z and e.

    With a ridge the minimum includes it. Biases of columns (of each class, for likelihoods over
    ``width`` columns), effects of rows, and an intercept are added to z; parameters of a
    likelihood change it instead. ``fixed`` has far values for diverging effects, whose best value
    is infinite, 0 for the others; ``origin`` is what effects are counted from, if not 0.
    ``equations`` are the directions of the rows in which terms of the block's predictors P state
    sums of it: those effects that these depend on are ``restrained``.

    Not all effects are determined: without a ridge a constant may be traded between biases and
    effects of rows, and the latter have the mean 0 within each part of the table that entries
    connect. An effect without entries has the mean of its kind, so that an item without any is
    predicted as an average one; both counted from 0 by ``origin``. A constant may be traded
    between the classes of a column, too; from 0 on it is not.
    """

    layout: Layout = attrs.field(factory=Layout)
    width: int = 1
    fixed: Array = attrs.field(factory=lambda: np.zeros(0))
    ridge: EffectsRidge | None = None
    origin: Array | None = None
    equations: EffectSquares | None = None

    @property
    def restrained(self) -> Mask:
        """A mask of the effects that an equation depends on."""
        if self.equations is None:
            return np.zeros(self.size, dtype=bool)
        return self.equations.restrained

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self.layout.size

    @property
    def n_added(self) -> int:
        """The number of effects that are added to z."""
        return self.layout.n_effects

    @property
    def tied(self) -> bool:
        """True where entries have effects of two kinds, by which all of them are tied."""
        return bool(self.layout.n_biases and self.layout.n_row_effects)

    @property
    def separable(self) -> bool:
        """True where each effect has entries of its own, so that G'HG is diagonal."""
        return self.width == 1 and not self.tied

    @property
    def free(self) -> Mask:
        """A mask of the effects that do not diverge."""
        return np.asarray(self.fixed == 0.0)

    @property
    def stiffness(self) -> float:
        """The ridge's weight, 0 without one."""
        return 0.0 if self.ridge is None else self.ridge.weight

    @property
    @abstractmethod
    def connected(self) -> tuple[IntArray, Mask]:
        """The connected part of each effect, and which of them no entry determines."""

    def cost(self, effects: Array | None) -> float:
        """The ridge at the effects, 0 without one."""
        return 0.0 if self.ridge is None or effects is None else self.ridge.value(effects)

    def conjugate_of_sums(
        self, sums: Array, sizes: Array, largest_gradient: float
    ) -> tuple[float, float]:
        """Addition to F* at gradients with these sums over each effect, and its summands' size.

        The ridge's conjugate; without one infinite where the sums do not vanish. ``sizes`` are
        sums of the gradients' sizes; a sum much smaller than these, or than
        ``largest_gradient``, may be rounding.
        """
        if self.ridge is not None:
            return self.ridge.conjugate(sums)
        size = max(float(np.max(sizes, initial=0.0)), largest_gradient)
        return (0.0 if bool(np.all(np.abs(sums) <= SUM_ROUNDING * size)) else np.inf), 0.0

    def imbalance_of_sums(self, sums: Array, effects: Array | None) -> float:
        """Bound on what sums that do not quite vanish change the objective by at these effects."""
        if self.ridge is not None or effects is None:
            return 0.0
        magnitudes = np.where(self.free, np.abs(effects), 0.0)
        return float(np.abs(sums) @ magnitudes[: sums.size])

    def initial_effects(self, warm: Array | None, reach: Callable[[], float]) -> Array:
        """The start of a solve: effects of a point nearby or 0, diverging ones far beyond z.

        ``reach`` gives the largest predictor.
        """
        start = np.zeros(self.size) if warm is None else warm
        if not self.fixed.any():
            return start
        # As far beyond predictors as they were beyond 0.
        far = self.fixed * (1.0 + reach() / float(np.min(np.abs(self.fixed[~self.free]))))
        return np.where(self.free, start, far)

    def identified(self, effects: Array) -> Array:
        """The identified effects: constants traded as the class says, those without entries set.

        Equations have cells of several parts of the table, and leave no constant to trade.
        """
        if self.ridge is not None or self.width > 1:
            return effects
        part, without_entries = self.connected
        without_entries = without_entries & ~self.restrained
        traded_freely = self.tied and self.equations is None
        if not (traded_freely or without_entries.any()):
            return effects
        shifted, d = effects.copy(), self.layout.n_biases
        if traded_freely:
            counts = np.bincount(part[d:], minlength=part.size)
            means = np.bincount(part[d:], effects[d:], minlength=part.size) / np.maximum(counts, 1)
            traded = np.where(np.arange(part.size) < d, means[part], -means[part])
            shifted = np.where(without_entries, effects, effects + traded)
        origin = np.zeros(self.size) if self.origin is None else self.origin
        for kind in (slice(0, d), slice(d, None)):
            determined, is_free = (
                ~without_entries[kind] & self.free[kind],
                without_entries[kind] & self.free[kind],
            )
            mean = np.mean((shifted + origin)[kind][determined]) if determined.any() else 0.0
            shifted[kind] = np.where(is_free, mean - origin[kind], shifted[kind])
        return shifted


@attrs.frozen(eq=False, kw_only=True)
class EntryEffects(Effects):
    """The effects of entries in memory: G by the row of each entry and the place of each bias.

    ``columns`` (N,), or (N, K) of K classes, has for each number of z the place of its bias.
    z comes in the shape of the likelihood's methods, offsets added; gradients come flat.
    """

    rows: IntArray = attrs.field(factory=lambda: np.zeros(0, dtype=np.intp))
    columns: IntArray = attrs.field(factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def places(self) -> IntArray:
        """The effect of each entry, which has one."""
        return self.columns if self.layout.n_biases else self.rows

    def at_entries(self, effects: Array) -> Any:
        """G e: the sum of the effects of each number of z."""
        layout = self.layout
        total: Any = None
        if layout.n_biases:
            total = layout.biases(effects)[self.columns]
        if layout.n_row_effects:
            of_rows = layout.row_effects(effects)[self.rows]
            total = of_rows if total is None else total + of_rows
        return total + layout.intercept(effects) if layout.n_intercepts else total

    def sum_by_effect(self, numbers: Array) -> Array:
        """G' x: the sum of numbers of z over each effect that is added to them."""
        layout = self.layout
        sums: list[Any] = []
        if layout.n_biases:
            places, flat = self.columns.ravel(), numbers.ravel()
            sums.append(np.bincount(places, weights=flat, minlength=layout.n_biases))
        if layout.n_row_effects:
            sums.append(np.bincount(self.rows, weights=numbers, minlength=layout.n_row_effects))
        if layout.n_intercepts:
            sums.append(np.array([float(np.sum(numbers))]))
        return sums[0] if len(sums) == 1 else np.concatenate([*sums, np.zeros(0)])

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z plus its effects."""
        return z if effects is None or not self.n_added else z + self.at_entries(effects)

    def likelihood(self, likelihood: PointwiseLoss, effects: Array | None) -> PointwiseLoss:
        """The likelihood with its parameters, where these are what is solved for."""
        parametric: Any = likelihood
        return parametric.with_parameters(effects) if self.layout.n_parameters else likelihood

    @cached_property
    def counts(self) -> Array:
        """The number of entries of each effect."""
        return self.sum_by_effect(np.ones(self.columns.shape))

    @cached_property
    def connected(self) -> tuple[IntArray, Mask]:
        """The connected part of each effect, and which of them stand alone.

        Entries of a diverging effect cost nothing, and connect nothing.
        """
        if not self.tied:
            return np.arange(self.size), self.counts == 0
        finite, d = self.undiverged == 1.0, self.layout.n_biases
        places = self.columns[finite], d + self.rows[finite]
        size = d + self.layout.n_row_effects
        graph = sp.coo_array((np.ones(places[0].size), places), shape=(size, size))
        part = sp.csgraph.connected_components(graph, directed=False)[1]
        return part, np.bincount(part)[part] == 1

    @cached_property
    def by_rows(self) -> tuple[IntArray | None, IntArray, IntArray]:
        """The entries' order by rows (None if they are), their columns, and where rows begin."""
        ordered = bool(np.all(self.rows[1:] >= self.rows[:-1]))
        order = None if ordered else np.argsort(self.rows, kind="stable")
        columns = self.columns if order is None else self.columns[order]
        counts = np.bincount(self.rows, minlength=self.layout.n_row_effects)
        return order, columns, np.concatenate([[0], np.cumsum(counts)])

    @property
    def undiverged(self) -> Array:
        """1 at numbers of z none of whose effects diverges, 0 at the others."""
        return np.where(self.at_entries(np.abs(self.fixed)) == 0.0, 1.0, 0.0)

    def solve(
        self,
        likelihood: PointwiseLoss,
        z: Array,
        y: Array,
        weights: Array | float,
        warm: Array | None,
        squares: SquaresAt | None = None,
    ) -> Array | None:
        """argmin over e of sum over entries of w l(z + G e, y), plus the ridge and the squares.

        At the answer the gradients sum to 0 over each effect, or to minus the gradient of the
        ridge and the squares, which is what a certificate needs. ``warm`` are the effects of a
        point nearby. Parameters are the likelihood's own best ones.
        """
        if not self.size:
            return None
        if self.layout.n_parameters:
            assert isinstance(likelihood, Parametric)
            return likelihood.best_parameters(z, y, weights * np.ones(y.size), warm)
        entries = EntriesAt(self, likelihood, z, y, weights)
        return best_effects(self, entries, likelihood, warm, squares)[0]

    def correction(
        self,
        likelihood: PointwiseLoss,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        gradients: Array,
    ) -> tuple[Array, float, Array] | None:
        """The Newton step from effects, at which the losses have these gradients, to the best.

        The effects there, and what the step adds to the losses and to their gradients (flat): to
        second and to first order in it, after which the gradients' sums vanish. None where that is
        not near the best effects: it goes too far, or lacks curvature.
        """
        entries = EntriesAt(self, likelihood, z, y, weights)
        gradient = self.sum_by_effect(gradients)
        sizes: Array = np.zeros(0)
        if not self.separable:
            sizes = self.sum_by_effect(np.abs(gradients))
        predictor = self.predictor(z, effects)
        find_curvature = partial(entries.curvature_at, predictor)
        current = ObjectiveAt(
            self, SumsAt(entries, 0.0, 0.0, 0.0, gradient, sizes, find_curvature), effects
        )
        correction = newton_correction(self, current)
        if correction is None:
            return None
        step, added = correction
        if not step.any():
            return effects, added, np.zeros(gradients.size)
        moved = self.at_entries(step)
        if not is_short(likelihood, float(np.max(np.abs(moved), initial=0.0))):
            return None
        change = current.sums.curvature.times_numbers(moved).ravel()
        return self.identified(effects + step), added, change

    def centre(self, gradient: Array) -> Array:
        """The nearest gradient whose sums over free effects vanish: g - G (G'G)^-1 G' g.

        Rounding leaves such sums. Entries of a diverging effect have gradients of one sign, whose
        sum vanishes where all of them do.
        """
        return self.centred_with(gradient, (), ())[0]

    def centred_with(
        self, gradient: Array, duals: Sequence[Array], equations: Sequence[EffectSquares]
    ) -> tuple[Array, tuple[Array, ...]]:
        """The nearest gradients and dual matrices of equations whose sums over effects vanish.

        Of ``G'g + E'Y`` for the sum Y of the dual matrices. These stay what such matrices are,
        sums of the directions of their equations, of weights 1/2.
        """
        inputs = gradient, tuple(duals)
        if self.ridge is not None or not self.n_added:
            return inputs
        if self.fixed.any():
            gradient = gradient * self.undiverged.ravel()
        if not (self.tied or duals):
            means = self.sum_by_effect(gradient) / np.maximum(self.counts, 1)
            return gradient - self.at_entries(means).ravel(), ()
        ones = self.undiverged
        directions = [group for equation in equations for group in equation.directions]
        squares = EffectSquares(self.layout, tuple(directions)) if directions else None

        def sums_of(pair: tuple[Array, tuple[Array, ...]]) -> tuple[Array, Array]:
            return self.sums_with(*pair)

        def shift(
            pair: tuple[Array, tuple[Array, ...]], step: Array
        ) -> tuple[Array, tuple[Array, ...]]:
            gradient, duals = pair
            pairs = zip(duals, equations, strict=True)
            return (
                gradient + (ones * self.at_entries(step)).ravel(),
                tuple(dual + equation.projected(step, dual.shape) for dual, equation in pairs),
            )

        balanced: tuple[Array, tuple[Array, ...]] = centre_gradients(
            self, Curvature(self, lambda: ones), (gradient, inputs[1]), sums_of, shift, squares
        )
        return balanced

    def sums_with(self, gradient: Array, duals: Sequence[Array]) -> tuple[Array, Array]:
        """G'g + E'Y for gradients (flat) and the sum Y of dual matrices; the sums of sizes."""
        if not self.n_added:
            return self.sum_by_effect(gradient), np.zeros(0)
        sums, sizes = self.layout.sums_of_duals(duals)
        return sums + self.sum_by_effect(gradient), sizes + self.sum_by_effect(np.abs(gradient))

    def nearest_dual(
        self,
        gradient: Array,
        nearest: Callable[[Array], Array],
        duals: Sequence[Array] = (),
    ) -> Array:
        """Gradients near by at which F* is finite; ``nearest`` moves them into their domains.

        The nearest ones where each effect has entries of its own: those of the gradients minus a
        shift for each effect, whose sums fall with the shift. Else by projections in turn. Dual
        matrices of equations, which stay, are part of the sums.
        """
        inside = nearest(gradient)
        if not self.n_added or self.ridge is not None or np.array_equal(inside, gradient):
            return inside
        if not self.separable:
            for _ in range(MOST_STEPS):
                if np.isfinite(self.conjugate_of_sums(*self.sums_with(inside, duals), 0.0)[0]):
                    break
                gradient = (
                    self.centre(inside) if not duals else self.balanced_gradient(inside, duals)
                )
                inside = nearest(gradient)
                if np.array_equal(inside, gradient):
                    break
            return inside
        reach = np.full(self.size, float(np.max(np.abs(gradient) + np.abs(inside))))
        below, above = -reach, reach
        for _ in range(BISECTIONS):
            shift = 0.5 * (below + above)
            inside = nearest(gradient - self.at_entries(shift))
            sums = self.sums_with(inside, duals)[0]
            below = np.where(sums > 0.0, shift, below)
            above = np.where(sums > 0.0, above, shift)
        return inside

    def balanced_gradient(self, gradient: Array, duals: Sequence[Array]) -> Array:
        """The nearest gradients whose sums over effects are minus those of dual matrices."""
        ones = self.undiverged

        def shift(gradient: Array, step: Array) -> Array:
            return gradient + (ones * self.at_entries(step)).ravel()

        balanced: Array = centre_gradients(
            self,
            Curvature(self, lambda: ones),
            gradient,
            lambda gradient: self.sums_with(gradient, duals),
            shift,
        )
        return balanced

    def checked(
        self, likelihood: PointwiseLoss, y: Array, weights: Array | float, whole: bool = True
    ) -> "EntryEffects":
        """The effects with those found that diverge, of observations y with these weights.

        ``whole`` says that these are all entries; where they are those of some rows alone, others
        may hold a loss that falls along an effect here, or a bias that diverges.

        Raises
        ------
        DataError
            Where the loss falls without end along an effect.
        """
        if not self.n_added or self.ridge is not None or (self.layout.n_biases and not whole):
            return self
        if whole:
            sums = partial(self.asymptotic_gradient_sums, likelihood, y, weights)
            refuse_falling(likelihood, self.layout.name_of, sums, self.restrained)
        size = float(np.max(sizes_of(y), initial=0.0)) if likelihood.location else 0.0
        fixed = diverging_effects(
            self, likelihood, partial(self.asymptotic_gradient_signs, likelihood, y), size
        )
        return attrs.evolve(self, fixed=fixed)

    def asymptotic_gradient_signs(
        self, likelihood: PointwiseLoss, y: Array, diverging: Mask
    ) -> tuple[Array, ...]:
        """Entries of each effect: all, those rising far above 0, those falling far below 0.

        Entries with a ``diverging`` effect are not counted.
        """
        included = np.ones(self.columns.shape)
        if diverging.any():
            included = np.where(self.at_entries(1.0 * diverging) == 0.0, 1.0, 0.0)
        up, down = asymptotic_gradients(likelihood, y)
        numbers = included, included * (up > 0.0), included * (down < 0.0)
        return tuple(self.sum_by_effect(counted) for counted in numbers)

    def asymptotic_gradient_sums(
        self, likelihood: PointwiseLoss, y: Array, weights: Array | float
    ) -> tuple[Array, ...]:
        """Sums by effect of gradients far above 0, of those far below, and of their sizes."""
        with np.errstate(over="ignore", invalid="ignore"):  # a weight of 0, an infinite gradient
            up, down = (weights * side for side in asymptotic_gradients(likelihood, y))
            sides = up, down, np.abs(up) + np.abs(down)
            return tuple(self.sum_by_effect(gradients) for gradients in sides)


def ridge_of(layout: Layout, weight: float, origin: Array | None) -> EffectsRidge | None:
    """The ridge of a block on its effects counted from 0; None without a weight or effects."""
    if not (weight and layout.n_effects):
        return None
    return EffectsRidge(weight, np.zeros(layout.n_effects) if origin is None else -origin)


def described_effects(
    layout: Layout,
    likelihood: PointwiseLoss,
    rows: IntArray,
    columns: IntArray,
    ridge: float = 0.0,
    origin: Array | None = None,
    equations: EffectSquares | None = None,
) -> EntryEffects:
    """The effects of a block by the entries' rows and columns of data, none of them diverging.

    ``layout`` has how many of each kind there are, ``ridge`` the weight of the ridge, 0 for none,
    which is one on the effects counted from 0, ``origin`` what they are counted from, and
    ``equations`` those in which they take part.
    """
    width = int(likelihood.width)
    if width > 1 and layout.n_effects:
        columns = columns[:, None] * width + np.arange(width)
    return EntryEffects(
        layout=layout,
        width=width,
        fixed=np.zeros(layout.size),
        ridge=ridge_of(layout, ridge, origin),
        origin=origin,
        equations=equations,
        rows=rows,
        columns=columns,
    )


def places_of_diverging_effects(problem: Problem, block: Block) -> IntArray:
    """The places of the diverging effects of a block, whose best value is infinite.

    All observations of such an effect have gradients of one sign, as labels that are all alike
    have, or counts of 0.
    """
    layout, likelihood = problem.layout(block.name), problem.likelihoods[block.name]
    if not layout.n_effects or problem.ridge(block.name) or likelihood.has_finite_effects:
        return np.zeros(0, dtype=np.intp)
    table, y = problem.tables[block.name], problem.targets(block.name)
    effects = described_effects(
        layout, likelihood, table.rows, table.columns, equations=equations_of(problem, block.name)
    )
    signs = partial(effects.asymptotic_gradient_signs, likelihood, y)
    return np.flatnonzero(diverging_effects(effects, likelihood, signs))


def equations_of(problem: Problem, name: str) -> EffectSquares | None:
    """The equations in which the effects of a block take part; None if there are none."""
    terms = [t for t in problem.terms if t.block == name and problem.effects_in_term(t)]
    return equations_of_effects(problem.layout(name), terms) if terms else None


def notes_on_effects(problem: Problem) -> tuple[str, ...]:
    """A note for each block with an infinite effect or parameter."""
    notes = []
    for block in problem.model.blocks:
        notes.append(note_on_infinite(problem, block, places_of_diverging_effects(problem, block)))
        if problem.layout(block.name).n_parameters:
            notes.append(note_on_parameters(problem, block, problem.targets(block.name)))
    return tuple(note for note in notes if note is not None)


def note_on_infinite(problem: Problem, block: Block, places: IntArray) -> str | None:
    """A note on the effects of a block at these places, which are infinite; None if none is."""
    if not places.size:
        return None
    others = f" and {places.size - 1} more effects have" if places.size > 1 else " has"
    effect = describe_effect(problem, block, int(places[0]))
    return (
        f"block {block.name!r}: {effect}{others} no finite"
        " optimum: the losses of all observations fall in one direction (complete separation), as"
        " those of labels that are all the same; what is predicted there"
        f" is as good as certain. {wording().block(effects_weight=...)} keeps effects finite"
    )


def note_on_parameters(problem: Problem, block: Block, y: Array) -> str | None:
    """A note on the parameters of a block that observations of these values leave infinite."""
    likelihood = problem.likelihoods[block.name]
    assert isinstance(likelihood, Parametric)
    clause = likelihood.unbounded(y)
    return None if clause is None else f"block {block.name!r}: {clause}"


def describe_effect(problem: Problem, block: Block, place: int) -> str:
    """An effect in words: by the names of its column and class, or of its row."""
    layout, table = problem.layout(block.name), problem.tables[block.name]
    if place >= layout.n_biases:
        return f"the effect of row {table.row_label(place - layout.n_biases)}"
    column, k = divmod(place, block.likelihood.width)
    one = "" if block.likelihood.width == 1 else f"class {k} of "
    return f"the bias of {one}column {table.column_label(column)}"

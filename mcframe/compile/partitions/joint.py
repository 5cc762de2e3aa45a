"""Effects of columns and of rows together, of a table whose rows are in partitions."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.effects import Ridge
from mcframe.compile.effects.far import extremes_by_pulls, far_out, pulls
from mcframe.compile.effects.newton import Local, newton
from mcframe.compile.effects.two_kinds import (
    Reduced,
    centred,
    damping,
    eliminated,
    exactness,
    inverted,
    representative,
)
from mcframe.compile.partitions.by_effect import apart, together
from mcframe.compile.partitions.connected import connected
from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.least import Least
from mcframe.compile.partitions.numbers import ByRows, Numbers, effects_by_rows
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.tasks import EffectSums
from mcframe.compile.partitions.tied import FiniteAt, TiedEffects
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.model import Layout

__all__ = ["JointEffects"]

# Up to so many effects of columns partitions send their part of the system, 0.5 MB: a product is
# then no round.
WRITTEN_OUT = 256


@attrs.frozen(eq=False)
class JointEffects(TiedEffects):
    """``TwoKinds`` of a block: a Newton step by rounds of tasks.

    Effects of rows are eliminated within the partitions; conjugate gradients solve for those of
    columns, a sum of d numbers over the partitions a step. ``parts`` are what entries connect,
    None with a ridge.
    """

    origin: Array | None
    parts: tuple[IntArray, Mask] | None

    @classmethod
    def of(
        cls,
        partitions: Partitions,
        k: int,
        layout: Layout,
        likelihood: Any,
        ridge: Ridge | None,
        stretch: Array,
        origin: Array | None,
    ) -> "JointEffects":
        """The effects, infinite ones found, a round each time that others may be; and parts."""
        fixed: Array = np.zeros(layout.size)
        parts = None
        if ridge is None:

            def pulls_without(found: Mask) -> tuple[Array, Array, Array]:
                task = Pulls(k, effects_by_rows(layout, found))
                counts, rises, falls = together(layout, *partitions.rows_and_sum(task))
                return counts, rises, falls

            fixed = extremes_by_pulls(far_out(likelihood), layout.size, pulls_without)
            parts = connected(partitions, k, effects_by_rows(layout, fixed))
        return cls(partitions, k, layout, likelihood, ridge, stretch, fixed, origin, parts)

    def solve(self, z: Numbers, warm: Array | None) -> Array:
        """The best effects at z, by Newton's method from those of a point nearby."""
        free, start = self.fixed == 0.0, self.begin(z, warm)
        if not (np.isfinite(self.likelihood.curvature) or self.finite_at(z, start)):
            start = np.where(free, self.below_zero(z), start)

        def at(effects: Array) -> Local:
            return self.local_at(z, effects, free)

        def step(effects: Array, here: Local) -> Array:
            second = SecondDerivatives(size=z.size, z=z, k=self.k, effects=self.cut(effects))
            sums = self.sums_of(second)
            damped = damping(self.likelihood, sums, lambda: self.stretch, here.left)
            return self.newton_step(
                second, sums + damped, sums, here.gradient, free, exactness(here)
            )

        return self.representative(newton(at, step, start))

    def finite_at(self, z: Numbers, effects: Array) -> bool:
        """Whether no gradient overflows at some effects."""
        return all(self.partitions.each(FiniteAt(z, self.k, self.cut(effects))))

    def sums_of(self, numbers: Numbers) -> Array:
        """The sums of numbers over each effect."""
        task = SumsOf(numbers, self.k)
        [sums] = together(self.layout, *self.partitions.rows_and_sum(task))
        return sums

    def below_zero(self, z: Numbers) -> Array:
        """Effects of columns that bring each predictor to 0 or below, where no loss overflows."""
        effects = np.zeros(self.layout.size)
        self.layout.biases(effects)[:] = self.partitions.sum(BelowZero(z, self.k)).numbers
        return effects

    def newton_step(
        self,
        weights: Numbers,
        diagonal: Array,
        sums: Array,
        gradient: Array,
        free: Mask,
        exact: float,
    ) -> Array:
        """-(H + damping + ridge)^-1 g for H of the entries' weights, their ``sums`` by effect.

        ``diagonal`` is that of H and the damping.
        """
        d, n = self.layout.n_biases, self.layout.n_row_effects
        stiff = diagonal + (0.0 if self.ridge is None else self.ridge.weight)
        usable, inverse = inverted(stiff, free)
        places = np.arange(self.layout.size)
        kept, gone = np.concatenate([places[:d], places[d + n :]]), places[d : d + n]
        system = ReducedByRounds(
            self.partitions, weights, self.k, stiff[kept], sums[:d], inverse[gone]
        )
        return eliminated(system, gradient, (kept, gone), usable, inverse, exact)

    def representative(self, effects: Array) -> Array:
        """Equal effects, a constant traded, those that stand alone set."""
        if self.parts is None:
            return effects
        return representative(effects, self.layout.n_biases, self.parts, self.fixed, self.origin)

    def centre(self, gradient: Numbers) -> Numbers:
        """The nearest gradients whose sums over rows and over columns vanish."""
        if self.ridge is not None:
            return gradient
        size, free = gradient.size, self.fixed == 0.0
        tied = Tied(size=size, k=self.k, fixed=self.cut(self.fixed))
        counts = self.sums_of(tied)

        def moved(gradient: Numbers, step: Array) -> Numbers:
            return Moved(size=size, of=gradient, tied=tied, k=self.k, step=self.cut(step))

        def sums_of(gradient: Numbers) -> tuple[Array, Array]:
            rows, others = self.partitions.rows_and_sum(EffectSums(gradient))
            sums, sizes = together(self.layout, [own[self.k] for own in rows], others[self.k])
            return sums, sizes

        found: Numbers = centred(
            moved(gradient, np.zeros(self.layout.size)) if not free.all() else gradient,
            sums_of,
            lambda sums, exact: self.newton_step(tied, counts, counts, sums, free, exact),
            moved,
        )
        return found


@attrs.frozen(eq=False)
class ReducedByRounds:
    """``Reduced`` of all partitions: a product is a round, or one round writes them all out."""

    partitions: Partitions
    weights: Numbers
    k: int
    diagonal: Array
    column_sums: Array
    inverse_gone: Array

    @property
    def width(self) -> int:
        """Effects of columns; what is kept beside them is an intercept."""
        return self.column_sums.size

    def forward(self, kept: Array) -> Array:
        """N x."""
        return self.partitions.concatenate(Forward(self.weights, self.k, kept))

    def backward(self, gone: Array) -> Array:
        """N' y."""
        size = self.diagonal.size
        task = Backward(self.weights, self.k, size, ByRows(gone))
        return np.asarray(self.partitions.sum(task))

    def eliminated(self, kept: Array) -> Array:
        """N' D N x."""
        if kept.size <= WRITTEN_OUT:
            return np.asarray(self.written_out @ kept)
        task = Eliminated(self.weights, self.k, kept, ByRows(self.inverse_gone))
        return np.asarray(self.partitions.sum(task))

    @cached_property
    def written_out(self) -> Array:
        """N' D N."""
        size, inverse = self.diagonal.size, ByRows(self.inverse_gone)
        return np.asarray(self.partitions.sum(WrittenOut(self.weights, self.k, size, inverse)))

    def times(self, kept: Array) -> Array:
        """S x."""
        image: Array = self.diagonal * kept - self.eliminated(kept)
        if kept.size > self.width:
            image[: self.width] += self.column_sums * kept[self.width]
            image[self.width] += self.column_sums @ kept[: self.width]
        return image


@attrs.frozen(eq=False, kw_only=True, slots=False)
class SecondDerivatives(Numbers):
    """Second derivatives of the losses of block k at z and effects."""

    z: Numbers
    k: int
    effects: Any

    def find(self, part: Part) -> Array:
        """Second derivatives at the entries of a partition."""
        piece: Any = part.program.loss.pieces[self.k]
        shifted = piece.predictor(piece.offset_part(part.numbers(self.z)), self.effects)
        found: Array = piece.scale * piece.likelihood.second_derivative(shifted, piece.y)
        return found


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Tied(Numbers):
    """1 at entries of block k both of whose effects are finite, 0 at the others."""

    k: int
    fixed: Any

    def find(self, part: Part) -> Array:
        """Ones and zeros at the entries of a partition."""
        kind: Any = part.program.loss.pieces[self.k].effects
        return np.where((self.fixed[kind.groups] == 0.0).all(axis=-1), 1.0, 0.0)


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Moved(Numbers):
    """Gradients of block k moved by sums of effects where entries are tied, and 0 elsewhere."""

    of: Numbers
    tied: Numbers
    k: int
    step: Any

    def find(self, part: Part) -> Array:
        """Gradients of a partition."""
        moved, piece = part.numbers(self.of).copy(), part.program.loss.pieces[self.k]
        kind: Any = piece.effects
        own = moved[piece.part] + kind.at_entries(self.step)
        moved[piece.part] = part.numbers(self.tied) * own
        return moved


@attrs.frozen(eq=False)
class Pulls(Task):
    """Which way the entries of each effect of block k pull it, without those found already."""

    k: int
    found: Any

    def of(self, part: Part) -> tuple[Any, Any]:
        """What a partition counts."""
        piece = part.program.loss.pieces[self.k]
        kind: Any = piece.effects
        counts = pulls(piece.likelihood, piece.y, kind.groups, kind.size, self.found)
        return apart(piece.layout, *counts)


@attrs.frozen(eq=False)
class BelowZero(Task):
    """Effects of columns of block k that bring each predictor to 0 or below."""

    z: Numbers
    k: int

    def of(self, part: Part) -> Least:
        """Effects that the predictors of a partition need, 0 at least where it has none."""
        piece = part.program.loss.pieces[self.k]
        kind: Any = piece.effects
        effects: Array = kind.below_zero(piece.offset_part(part.numbers(self.z)))
        return Least(kind.layout.biases(effects))


@attrs.frozen(eq=False)
class SumsOf(Task):
    """The sums of numbers of block k over each of its effects."""

    numbers: Numbers
    k: int

    def of(self, part: Part) -> tuple[Any, Any]:
        """What a partition has of them."""
        piece = part.program.loss.pieces[self.k]
        return apart(piece.layout, piece.effects.sum_by_effect(part.numbers(self.numbers)))


@attrs.frozen(eq=False)
class Forward(Task):
    """N x for the table N of weights."""

    weights: Numbers
    k: int
    kept: Array

    def of(self, part: Part) -> Array:
        """The rows of a partition."""
        return reduced(part, self.weights, self.k, self.kept.size).forward(self.kept)


@attrs.frozen(eq=False)
class Backward(Task):
    """N' y."""

    weights: Numbers
    k: int
    size: int
    gone: Any

    def of(self, part: Part) -> Array:
        """What the rows of a partition add to it."""
        return reduced(part, self.weights, self.k, self.size).backward(self.gone)


@attrs.frozen(eq=False)
class Eliminated(Task):
    """N' D N x for the inverse diagonal D of the effects of rows."""

    weights: Numbers
    k: int
    kept: Array
    inverse: Any

    def of(self, part: Part) -> Array:
        """What the rows of a partition add to it."""
        system = reduced(part, self.weights, self.k, self.kept.size)
        return system.backward(self.inverse * system.forward(self.kept))


@attrs.frozen(eq=False)
class WrittenOut(Task):
    """N' D N for the inverse diagonal D of the effects of rows."""

    weights: Numbers
    k: int
    size: int
    inverse: Any

    def of(self, part: Part) -> Array:
        """What the rows of a partition add to it."""
        system = reduced(part, self.weights, self.k, self.size)
        table = system.table
        if self.size > table.shape[1]:
            table = sp.hstack([table, system.sums[:, None]], format="csr")
        written: Array = (table.T @ (sp.diags_array(self.inverse) @ table)).toarray()
        return written


def reduced(part: Part, weights: Numbers, k: int, n_kept: int) -> Reduced:
    """The system of the rows of a partition, as far as products with its table go."""
    kind: Any = part.program.loss.pieces[k].effects
    table = kind.table(part.numbers(weights))
    return Reduced(table, np.zeros(n_kept), np.zeros(0))

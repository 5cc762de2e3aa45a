"""Ridge regressions for the rows of one factor, the other fixed, as alternation takes them."""

from collections.abc import Callable, Sequence
from functools import cached_property, singledispatch
from typing import Any, Protocol

import attrs
import numpy as np

from mcframe.compile.program import Evaluation, Program
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.rounding import SUM_ROUNDING, TINY, VALUE_ROUNDING
from mcframe.numerics import kernels
from mcframe.numerics.operators import LowRank
from mcframe.numerics.tapering import ScalingCosts

# Shares of a step that are tried where the full one is not sure to descend. Second derivatives far
# from the answer, as of rates that are far too low, make steps too long by any factor.
STEP_SHARES = (1.0, 0.5, 0.25, 0.1, *(10.0**-k for k in range(2, 15)))
# Rows of factors are moved by steps whose matrices are in single precision where these have so
# many rows in the mean: smaller ones take no longer in double precision.
LEAST_SINGLE_ORDER = 32
# Rows in partitions are shortened one by one up to so many: what a certificate holds of them takes
# 1 GB then.
MOST_TAPERED_ROWS = 2_000_000


class AlternatingRows(Protocol):
    """F near Z = U V' as alternation asks for it, wherever the rows of U are."""

    def ridge_solutions(self, other: Array, weight: float, by_rows: bool) -> Array:
        """New rows of one factor: ridge regressions of this weight on the other factor."""
        ...

    def descending_solutions(
        self, current: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """New rows of one factor: ridge solutions, or as far towards them as objectives fall."""
        ...

    def along(self, left: Array, right: Array) -> Array:
        """The second derivative of F along each a b', a and b a column of each."""
        ...

    def scaling_costs(self, gradient: Any, with_rows: bool) -> tuple[Any, Any]:
        """The costs of scaling down rows of the gradient, or of none, and those of columns."""
        ...

    def descend(
        self, current: Array, fresh: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """Each row of a factor moved towards its new value as far as its own objective falls."""
        ...


@attrs.frozen(eq=False)
class NormalEquations:
    """``N_i u_i = b_i`` for the rows u_i of a factor: images b (n x k).

    ``normals`` (n x k (k + 1) / 2) are the lower triangles of the symmetric N_i, row after row.
    """

    normals: Array
    images: Array

    def __add__(self, other: "NormalEquations") -> "NormalEquations":
        return NormalEquations(self.normals + other.normals, self.images + other.images)

    def solutions(self, weight: float) -> Array:
        """(N_i + weight I)^-1 b_i, a row each."""
        return kernels.solutions(self.normals, self.images, weight)


@attrs.frozen(eq=False)
class FactorRows:
    """F near Z = U V' as a quadratic of each entry, by rows of U or of V, effects fixed.

    Newton's: with second derivatives w each row u of U minimises a ridge regression on the rows
    of V at its entries, ``sum of w/2 (u'v - z + s/w)^2``, s the gradients. Where
    the program is one of a part of the rows, ``highest`` are the curvatures of the losses of all
    rows, or where these have no bound their largest second derivatives.
    """

    program: Program
    evaluation: Evaluation
    highest: tuple[float, ...] | None = None

    @cached_property
    def newton_weights(self) -> Array:
        """The second derivative for each number; one number for all where they are equal."""
        weights_and_counts = [(w, block_loss.n_numbers) for block_loss, w in self.by_blocks]
        if (
            all(w.size == 1 for w, _ in weights_and_counts)
            and len({float(w[0]) for w, _ in weights_and_counts}) == 1
        ):
            return weights_and_counts[0][0]
        return np.concatenate(
            [np.full(count, w[0]) if w.size == 1 else w for w, count in weights_and_counts]
        )

    @cached_property
    def by_blocks(self) -> list[tuple[Any, Array]]:
        """Each loss with its second derivatives."""
        z, block_losses = self.evaluation.iterate.z, self.program.loss.block_losses
        highest = self.highest or (None,) * len(block_losses)
        triples = zip(block_losses, self.evaluation.effects, highest, strict=True)
        return [
            (p, p.newton_weights(p.offset_part(z), block_effects, largest))
            for p, block_effects, largest in triples
        ]

    @property
    def full_steps_descend(self) -> bool:
        """True if the second derivatives are nowhere larger, so that full steps descend."""
        bounds = [block_loss.curvature for block_loss in self.program.loss.block_losses]
        if self.highest is not None:  # those of all rows, where there are any
            own_and_all = zip(bounds, self.highest, strict=True)
            bounds = [
                of_all if np.isfinite(of_rows) else of_rows for of_rows, of_all in own_and_all
            ]
        pairs = zip(bounds, self.by_blocks, strict=True)
        return all(np.all(w >= bound * (1.0 - SUM_ROUNDING)) for bound, (_, w) in pairs)

    def ridge_solutions(self, other: Array, weight: float, by_rows: bool) -> Array:
        """New rows of one factor: ridge regressions of this weight on the other factor.

        The normal equations of each row are accumulated and solved in one loop, then forgotten.
        """
        curvature, target, shared = self.quadratics(by_rows)
        lines = self.program.entries.pattern.lines(by_rows)
        return lines.ridge_solutions(curvature, target, other, weight, shared)

    def newton_solutions(
        self, current: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """The ridge solutions by steps from Z, one factor of which is ``current``.

        They are all but exact, and take less time where factors have many columns.
        """
        entries = self.program.entries
        lines = entries.pattern.lines(by_rows)
        curvature = entries.times_scales(self.newton_weights, 2)
        gradient = entries.times_scales(self.evaluation.entry_gradients)
        updated = lines.newton_solutions(curvature, gradient, other, weight, current)
        inexact = np.flatnonzero(np.isnan(updated[:, 0]))
        if inexact.size:
            target = self.quadratics(by_rows)[1]
            some = lines.of_rows(inexact)
            updated[inexact] = some.ridge_solutions(curvature, target, other, weight)
        return updated

    def descending_solutions(
        self, current: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """New rows of one factor: ridge solutions, or as far towards them as objectives fall.

        Where losses are quadratic a full step is exact, so that it descends.
        """
        order = min(other.shape[1], self.program.entries.size / current.shape[0])
        if self.program.background or order < LEAST_SINGLE_ORDER:
            updated = self.ridge_solutions(other, weight, by_rows)
        else:
            updated = self.newton_solutions(current, other, weight, by_rows)
        if self.full_steps_descend:
            return updated
        return self.descend(current, updated, other, weight, by_rows)

    def normal_equations(
        self, other: Array, by_rows: bool, first: int = 0, last: int | None = None
    ) -> NormalEquations:
        """The sums that ``ridge_solutions`` solves with, of the rows from first to last.

        Of programs of some of the rows those of the columns add up to the ones of all rows.
        """
        curvature, target, shared = self.quadratics(by_rows)
        lines = self.program.entries.pattern.lines(by_rows).between(first, last)
        normals, images = lines.normal_sums(curvature, target, np.ascontiguousarray(other))
        if shared is not None:
            shared.add_to(normals, images, slice(first, last))
        return NormalEquations(normals, images)

    def quadratics(self, by_rows: bool) -> tuple[Array, Array, kernels.SharedQuadratic | None]:
        """Curvature c and target p of each entry, ``c/2 x^2 - p x``, and unlabeled cells."""
        z, background = self.evaluation.iterate.z, self.evaluation.background
        curvature = self.newton_weights
        target: Array = curvature * z - self.evaluation.entry_gradients
        shared, curvature, target = background.normal_equations(by_rows, curvature, target)
        entries = self.program.entries
        return entries.times_scales(curvature, 2), entries.times_scales(target), shared

    def along(self, left: Array, right: Array) -> Array:
        """The second derivative of F along each a b', a and b a column of each."""
        curvature, background = self.newton_weights, self.program.background
        if curvature.size == 1:
            curvature = np.full(self.program.entries.size, curvature[0])
        beyond = self.program.entries.matrix(
            self.program.entries.times_scales(background.excess_curvature(curvature))
        )
        along: Array = np.einsum("ij,ij->j", left * left, beyond @ (right * right))
        along += background.curvatures_along(left, right)
        return np.maximum(along, TINY)

    def scaling_costs(self, gradient: Array, with_rows: bool) -> tuple[Any, Any]:
        """The costs of scaling down rows of the gradient, or of none, and those of columns.

        Sums of ``-S_ij z_ij`` and of ``S_ij^2 / f''`` over the entries of each.
        """
        entries, z = self.program.entries, self.evaluation.iterate.z
        second = np.broadcast_to(self.newton_weights, gradient.shape)
        n_rows, n_columns = self.program.shape
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            costs = -gradient * z, np.square(gradient) / second
            rows: list[Any] = [np.zeros(0)] * 2
            if with_rows:
                rows = [np.bincount(entries.rows, weights=c, minlength=n_rows) for c in costs]
            columns = [np.bincount(entries.columns, weights=c, minlength=n_columns) for c in costs]
        return (rows[0], rows[1]), (columns[0], columns[1])

    def descend(
        self, current: Array, updated: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """Each row of a factor moved towards its new value as far as its own objective falls."""
        entries, z = self.program.entries, self.evaluation.iterate.z
        places = entries.rows if by_rows else entries.columns
        moved = self.moved(updated, other, by_rows)
        tied = np.zeros(current.shape[0], dtype=bool)
        for block_loss in self.program.loss.block_losses:
            if block_loss.width > 1 and not by_rows:
                tied[places[block_loss.part]] = True

        def objectives(share: Array, factor: Array) -> Array:
            trial_z = z + share[places] * moved
            return self.objectives(trial_z, factor, other, weight, by_rows)

        at_first = self.objectives(z, current, other, weight, by_rows)
        return descended(current, updated, at_first, objectives, tied)

    def moved(self, updated: Array, other: Array, by_rows: bool) -> Array:
        """The change of the numbers at the entries where all rows of a factor change."""
        return (
            self.program.entries.of(product_of_rows(updated, other, by_rows))
            - self.evaluation.iterate.z
        )

    def objectives(
        self, z: Array, factor: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """The objective of each row of a factor, effects fixed: its losses and its own penalty."""
        return penalties(factor, weight) + self.losses(z, factor, other, by_rows)

    def losses(self, z: Array, factor: Array, other: Array, by_rows: bool) -> Array:
        """The losses of each row of a factor: those of its entries, at z, and unlabeled cells."""
        entries, background = self.program.entries, self.program.background
        total = np.zeros(factor.shape[0])
        places = entries.rows if by_rows else entries.columns
        with np.errstate(over="ignore", invalid="ignore"):
            for block_loss, effects in zip(
                self.program.loss.block_losses, self.evaluation.effects, strict=True
            ):
                predictor = block_loss.predictor(block_loss.offset_part(z), effects)
                losses = block_loss.scale * block_loss.at(effects).value(predictor, block_loss.y)
                lines = places[block_loss.part][:: block_loss.width]
                total += np.bincount(lines, weights=losses, minlength=total.size)
        return total + background.of_lines(product_of_rows(factor, other, by_rows), z, by_rows)


def penalties(factor: Array, weight: float) -> Array:
    """The part of each row of a factor in a nuclear norm of this weight."""
    return 0.5 * weight * np.einsum("ij,ij->i", factor, factor)


def descended(
    current: Array,
    updated: Array,
    at_first: Array,
    objectives: Callable[[Array, Array], Array],
    tied: Mask,
) -> Array:
    """Rows of a factor moved by the largest share that lowers their own objectives.

    ``objectives`` are those of all rows at shares of their steps, and at the factor there. Rows
    that are ``tied`` to others take the full step, which descends.
    """
    share, unsettled = np.ones(current.shape[0]), ~tied
    for trial in STEP_SHARES:
        share[unsettled] = trial
        factor = current + share[:, None] * (updated - current)
        values = objectives(share, factor)
        with np.errstate(invalid="ignore"):
            unsettled &= ~(values <= at_first + VALUE_ROUNDING * np.abs(at_first))
        if not unsettled.any():
            return factor
    share[unsettled] = 0.0
    return current + share[:, None] * (updated - current)


def product_of_rows(factor: Array, other: Array, by_rows: bool) -> LowRank:
    """U V' for rows of U, or for rows of V."""
    return LowRank(factor, other) if by_rows else LowRank(other, factor)


@singledispatch
def rows_at(entries: object, program: Program, evaluation: Evaluation) -> AlternatingRows:
    """F near a point as a quadratic of each entry; other forms of entries register their own."""
    return FactorRows(program, evaluation)


def factor_rows_near(program: Program, evaluation: Evaluation) -> AlternatingRows:
    """F near a point as a quadratic of each entry, wherever the entries are."""
    return rows_at(program.entries, program, evaluation)


def may_be_tapered(program: Program) -> bool:
    """True if rows and columns of the gradient may be scaled down one by one.

    Not where sums over rows or over a block have to vanish, nor where gradients of several numbers
    belong together, nor where nothing but multiples of the gradient has a known conjugate.
    """
    if program.background or program.terms:
        return False
    return bool(np.isfinite(program.penalty.dual_radius)) and all(
        p.has_conjugate() and p.width == 1 and p.layout.size == p.layout.n_biases
        for p in program.loss.block_losses
    )


def n_tapered_rows(program: Program) -> int:
    """The number of rows of which shares may be taken off: all of them, or none.

    None where a block has biases: sums over its columns stay 0. Nor where rows are in partitions
    and so many that what belongs to each of them takes much memory in one place.
    """
    n_rows = program.shape[0]
    many = program.entries.rows_elsewhere and n_rows > MOST_TAPERED_ROWS
    biased = any(block_loss.layout.n_biases for block_loss in program.loss.block_losses)
    return 0 if biased or many else n_rows


# The weight of rows that are fitted anew, relative to that of the model: with none, rows of few
# entries have no solution.
REFIT_WEIGHT_RATIO = 1e-2


def unexplained_gradients(
    program: Program, evaluation: Evaluation, latent: LowRank
) -> tuple[Any, Any]:
    """The gradients of the losses where rows of U, or rows of V, are fitted almost without weight.

    Of each row, or each column, of the gradient near Z = U V' what the other factor does not
    explain: it is all but orthogonal to Z there, so that F* is stationary along it. The factors
    are balanced.
    """
    near = evaluation  # of the same Z, if that has no other columns
    if latent.width < evaluation.iterate.factors.width:
        near = program.evaluate(latent, evaluation.effects)
    rows = factor_rows_near(program, near)
    weight, gradients = REFIT_WEIGHT_RATIO * float(program.penalty.dual_radius), []
    sides = (True, latent.left, latent.right), (False, latent.right, latent.left)
    for by_rows, factor, other in sides:
        refitted = rows.descending_solutions(factor, other, weight, by_rows)
        product = product_of_rows(refitted, other, by_rows)
        gradients.append(program.evaluate(product, evaluation.effects).entry_gradients)
    return gradients[0], gradients[1]


def scaling_costs(
    program: Program, evaluation: Evaluation, parts: Sequence[tuple[Any, Any]]
) -> ScalingCosts:
    """The increase of F* of the gradient at z where shares of some parts are taken off.

    Of each pair of gradients R and C in ``parts`` they are taken of the rows of R, unless columns
    alone change, and of the columns of C. F* changes by ``-R_ij z_ij`` for each share of an entry,
    as F*' is z there; its second derivative is ``R_ij^2 / f''``.
    """
    near, with_rows = factor_rows_near(program, evaluation), n_tapered_rows(program) > 0
    pairs = []
    for of_rows, of_columns in parts:
        costs = near.scaling_costs(of_rows, with_rows)
        others = costs if of_columns is of_rows else near.scaling_costs(of_columns, False)
        pairs.append(np.concatenate([costs[0], others[1]], axis=1))
    linear, quadratic = np.stack(pairs, axis=1)
    return ScalingCosts(np.maximum(linear, 0.0), quadratic)

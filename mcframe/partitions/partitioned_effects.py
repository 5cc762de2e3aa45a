"""The effects of a block whose rows are in partitions: sums over entries are rounds of tasks."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.effects import (
    Effects,
    describe_effect,
    diverging_effects,
    is_short,
    note_on_infinite,
    note_on_parameters,
    refuse_falling,
    ridge_of,
)
from mcframe.compile.loss import BlockLoss, EntryLoss
from mcframe.compile.solving import (
    Curvature,
    EntriesAt,
    ObjectiveAt,
    SumsAt,
    best_effects,
    centre_gradients,
    newton_correction,
    takes_chords,
)
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Parametric, ParametricBySums, PointwiseLoss
from mcframe.model import Problem
from mcframe.partitions.executor import DeferredSum, Partitions
from mcframe.partitions.part import (
    LOSS,
    ByEffect,
    ElementwiseMin,
    LazyEntryValues,
    PartValue,
    RowSharded,
    block_loss_of,
    entries_of,
    sharded_effects,
)

# Up to so many effects of columns partitions send their part of the system, 0.5 MB: a product is
# then no round.
EXPLICIT_COLUMNS = 256


@attrs.frozen(eq=False, kw_only=True)
class EffectsInParts(Effects):
    """The effects of block ``k``: the counts of the entries of each effect."""

    partitions: Partitions
    k: int
    likelihood: PointwiseLoss
    counts: Array
    connected: tuple[IntArray, Mask]

    @classmethod
    def of(
        cls, problem: Problem, partitions: Partitions, k: int, counts: Array
    ) -> "EffectsInParts":
        """The effects of a block with so many entries each, diverging ones found.

        Raises
        ------
        DataError
            Where the loss falls without end along an effect.
        """
        block = problem.model.blocks[k]
        layout, origin = problem.layout(block.name), problem.origins.get(block.name)
        likelihood = problem.likelihoods[block.name]
        effects = cls(
            layout=layout,
            width=int(likelihood.width),
            fixed=np.zeros(layout.size),
            ridge=ridge_of(layout, problem.ridge(block.name), origin),
            origin=origin,
            partitions=partitions,
            k=k,
            likelihood=likelihood,
            counts=counts,
            connected=(np.arange(layout.size), counts == 0),
        )
        if not effects.n_added or effects.ridge is not None:
            return effects

        def name_of(effect: int) -> str:
            return describe_effect(problem, block, effect).removeprefix("the ")

        def signs_without(diverging: Mask) -> tuple[Array, ...]:
            return tuple(
                effects.by_effect(
                    asymptotic_gradient_signs, effects.block_loss, effects.cut(diverging)
                )
            )

        try:
            refuse_falling(
                likelihood,
                name_of,
                lambda: tuple(effects.by_effect(asymptotic_gradient_sums, effects.block_loss)),
            )
        except DataError as error:
            raise DataError(f"block {block.name!r}: {error}") from None
        fixed = diverging_effects(effects, likelihood, signs_without)
        effects = attrs.evolve(effects, fixed=fixed)
        if not effects.tied:
            return effects
        return attrs.evolve(effects, connected=effects.connected_by_entries())

    @property
    def block_loss(self) -> PartValue:
        """The losses of the block in each partition."""
        return block_loss_of(self.k)

    def by_effect(self, question: Callable[..., Any], *question_arguments: Any) -> Array:
        """Sums by effect of what partitions answer to a question."""
        arguments = (
            PartValue(getattr, (self.block_loss, "layout")),
            PartValue(question, question_arguments),
        )
        return self.partitions.sum(ByEffect.of, *arguments).sums

    def connected_by_entries(self) -> tuple[IntArray, Mask]:
        """The connected part of each column and each row, and which of them stand alone.

        Columns that are connected within partitions first, by sums; then each partition answers
        for its own rows.
        """
        at = self.block_loss, self.cut(self.fixed)
        columns = self.partitions.sum(parts_of_columns, *at).labels
        rows: Any = self.partitions.concatenate(parts_of_rows, *at, columns)
        without_entries = rows < 0
        rows[without_entries] = int(np.max(columns)) + 1 + np.arange(np.sum(without_entries))
        labels = np.concatenate([columns, rows])
        return labels, np.bincount(labels)[labels] == 1

    def cut(self, effects: Array | Mask | None) -> Any:
        """Effects as questions take them: those of rows go to their partitions."""
        return sharded_effects(self.layout, effects)

    def entries_asked_ahead(
        self, z: LazyEntryValues, warm: Array | None, nearly: bool
    ) -> "EntriesInParts":
        """The entries at z, asked with the next round for the sums of a Newton step if ``nearly``.

        From the effects of a point nearby, if there are any.
        """
        entries = EntriesInParts(self, z)
        if nearly and warm is not None and self.n_added and not self.likelihood.differs_by_entry:
            entries.ask_ahead(self.initial_effects(warm, lambda: entries.reach))
        return entries

    def solution(self, entries: "EntriesInParts", warm: Array | None) -> "EffectsSolution":
        """The best effects, by one Newton step where it was asked for and suffices."""
        solution = None if entries.latest is None else self.newton_solution(entries)
        if solution is None:
            effects, value = self.solve(entries, warm)
            solution = EffectsSolution(effects, value, effects)
        entries.latest = None  # which refers to the entries: arrays would outlive them
        return solution

    def newton_solution(self, entries: "EntriesInParts") -> "EffectsSolution | None":
        """The effects after a Newton step from those asked for, or None where it is too long."""
        assert entries.latest is not None
        start = entries.latest[0]
        current = ObjectiveAt(self, entries.at(start), start)
        correction = newton_correction(self, current)
        if correction is None or not is_short(self.likelihood, self.reach_of(correction[0])):
            return None
        step, added = correction
        if not step.any():
            return EffectsSolution(start, current.value, start)
        best = self.identified(start + step)
        return EffectsSolution(best, current.value + added, start, step, added)

    def reach_of(self, effects: Array) -> float:
        """The largest sum of effects of one entry, at most."""
        d, last = self.layout.n_biases, self.layout.n_biases + self.layout.n_row_effects
        kinds = effects[:d], effects[d:last], effects[last:]
        return sum(float(np.max(np.abs(of_kind), initial=0.0)) for of_kind in kinds)

    def solve(
        self, entries: "EntriesInParts", warm: Array | None
    ) -> tuple[Array | None, float | None]:
        """The best effects at z from those of a point nearby, and the losses if they are known."""
        z = entries.z
        if not self.size:
            return None, None
        if self.layout.n_parameters:
            return self.parameters(z, warm), None
        if not self.layout.n_biases:  # each partition has all entries of its rows
            begun = None if warm is None else RowSharded(warm)
            solution = self.partitions.concatenate(row_effects, self.entries_at(z), begun)
            return self.identified(solution), None
        effects, objective = best_effects(self, entries, self.likelihood, warm)
        if effects is not objective.effects:
            return effects, None
        return effects, objective.sums.value + self.cost(effects)

    def entries_at(self, z: LazyEntryValues) -> PartValue:
        """The entries of each partition at predictors z."""
        return PartValue(entries_of, (self.block_loss, z))

    def parameters(self, z: LazyEntryValues, warm: Array | None) -> Array:
        """The likelihood's own best parameters, by sums over all entries."""

        def sums_for(asked: Any) -> tuple[Any, Array]:
            sums, negated = self.partitions.sum(parameter_sums, self.entries_at(z), asked)
            return sums, -negated.numbers

        assert isinstance(self.likelihood, ParametricBySums)
        return self.likelihood.parameters_by_sums(sums_for, warm)

    def centre(self, gradient: LazyEntryValues) -> LazyEntryValues:
        """The nearest gradients whose sums over rows and over columns vanish, of tied effects."""
        undiverged = gradient.changed(undiverged_of, self.block_loss, self.cut(self.fixed))

        def moved(gradient: LazyEntryValues, step: Array) -> LazyEntryValues:
            arguments = self.block_loss, gradient, undiverged, self.cut(step)
            return gradient.changed(moved_by_effects, *arguments)

        def sums_of(gradient: LazyEntryValues) -> tuple[Array, Array]:
            sums, sizes = self.partitions.sum(effect_sums, LOSS, gradient)[self.k].sums
            return sums, sizes

        if self.fixed.any():
            gradient = moved(gradient, np.zeros(self.size))
        ones = CurvatureInParts(self, PartValue(weighted, (self.block_loss, undiverged)))
        return centre_gradients(self, ones, gradient, sums_of, moved)


@attrs.frozen(eq=False)
class EffectsSolution:
    """The best effects of a block, and its losses with the ridge there, where these are known.

    With a Newton ``step`` losses and gradients are those at ``start``, and what the step adds to
    them: to second and to first order in it.
    """

    effects: Array | None
    value: float | None
    start: Array | None
    step: Array | None = None
    added: float = 0.0


@attrs.define(eq=False)
class EntriesInParts:
    """``EntriesAt`` predictors z of a block in partitions: each question is a round."""

    effects: EffectsInParts
    z: LazyEntryValues
    latest: tuple[Array, DeferredSum] | None = None  # the effects asked for last, and their sums

    @property
    def entries(self) -> PartValue:
        """The entries of each partition."""
        return self.effects.entries_at(self.z)

    @property
    def reach(self) -> float:
        """The largest predictor."""
        return max(self.effects.partitions.map_partitions(getattr, self.entries, "reach"))

    def at(self, effects: Array) -> SumsAt:
        """The sums at some effects."""
        if self.latest is None or self.latest[0] is not effects:
            self.ask_ahead(effects)
        assert self.latest is not None
        sums: SumsAt = self.latest[1].value
        return sums

    def ask_ahead(self, effects: Array) -> None:
        """Have the sums at some effects come with the next round."""
        design, sharded = self.effects, self.effects.cut(effects)
        second = None
        # Systems of tied effects take several rounds; those with chords have other curvatures.
        chords = design.tied and takes_chords(design.likelihood)
        if design.tied and not chords:
            second = self.z.changed(second_derivatives, self.entries, sharded, 0.0)
        arguments = self.entries, sharded, second, not chords

        def find_curvature(
            diagonal: Sequence[Array], chord_share: float = 0.0
        ) -> CurvatureInParts:
            if not chord_share:
                arguments = self.entries, sharded, 0.0, second
                return CurvatureInParts(
                    design, PartValue(curvature_of_partition, arguments), *diagonal
                )
            curved = None
            if design.tied:
                curved = self.z.changed(second_derivatives, self.entries, sharded, chord_share)
            arguments = self.entries, sharded, chord_share, curved
            return CurvatureInParts(design, PartValue(curvature_of_partition, arguments))

        def sums_of(answers: Any) -> SumsAt:
            value, summands, negated, by_effect = answers
            gradient, sizes, *diagonal = by_effect.sums
            sums = float(value), float(summands), -float(negated.numbers), gradient, sizes
            return SumsAt(self, *sums, partial(find_curvature, diagonal))

        self.latest = effects, design.partitions.later(local_sums, *arguments, change=sums_of)

    def below_zero(self) -> Array:
        """Effects of columns that bring each predictor to 0 or below."""
        effects = np.zeros(self.effects.size)
        lowest = self.effects.partitions.sum(below_zero, self.entries)
        self.effects.layout.biases(effects)[:] = lowest.numbers
        return effects


@attrs.frozen(eq=False)
class CurvatureInParts:
    """The ``Curvature`` of all partitions together: each question is a round."""

    effects: EffectsInParts
    parts: PartValue  # the ``Curvature`` of each partition
    known_diagonal: Array | None = None

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G'HG."""
        if self.known_diagonal is not None:
            return self.known_diagonal
        [total] = self.effects.by_effect(diagonal, self.parts)
        return total

    def sum(self, question: Callable[..., Array], *arguments: Any) -> Array:
        """The sum of the partitions' answers."""
        return np.asarray(self.effects.partitions.sum(question, self.parts, *arguments))

    def blocks(self) -> Array:
        """The second derivatives in the effects of the classes of each column."""
        return self.sum(Curvature.blocks)

    def times(self, vector: Array) -> Array:
        """G'HG e of classes."""
        return self.sum(Curvature.times, vector)

    def of_rows(self, others: Array) -> Array:
        """N x for the table N and effects x of columns and intercept."""
        partitions = self.effects.partitions
        return partitions.concatenate(Curvature.of_rows, self.parts, others)

    def of_others(self, rows: Array) -> Array:
        """N' y for effects y of rows."""
        return self.sum(Curvature.of_others, RowSharded(rows))

    def elimination(self, rows: Array) -> Callable[[Array], Array]:
        """The product x -> N' D N x: a round each, or one that writes the matrix out."""
        sharded = RowSharded(rows)
        if self.effects.size - rows.size > EXPLICIT_COLUMNS:
            return lambda others: self.sum(Curvature.eliminated, sharded, others)
        matrix = self.sum(Curvature.dense_elimination, sharded)
        return lambda others: matrix @ others


def curvature_of_partition(
    entries: EntriesAt, effects: Array, chord_share: float, second: Array | None
) -> Curvature:
    """The second derivatives of a partition, or ``second`` in their place."""
    if second is None:
        curvature: Curvature = entries.at(effects).find_curvature(chord_share=chord_share)
        return curvature
    return Curvature(entries.effects, lambda: second)


def weighted(block_loss: BlockLoss, weights: Array) -> Curvature:
    """The curvature of quadratics with these weights."""
    return Curvature(block_loss.effects, lambda: weights)


def local_sums(
    entries: EntriesAt, effects: Any, second: Array | None, with_second: bool
) -> tuple[Any, ...]:
    """Losses, their sizes, and predictors; gradient, sizes, and second derivatives by effect.

    The latter where they are asked for and a number of z is an entry.
    """
    sums, design = entries.at(effects), entries.effects
    by_effect = [sums.gradient, sums.sizes]
    if with_second and design.width == 1:
        numbers = sums.curvature.numbers if second is None else second
        by_effect.append(design.sum_by_effect(numbers))
    reach = ElementwiseMin(np.asarray(-sums.reach))
    return sums.value, sums.summands, reach, ByEffect.of(design.layout, by_effect)


def below_zero(entries: EntriesAt) -> ElementwiseMin:
    """Effects of columns that bring each predictor to 0 or below."""
    return ElementwiseMin(entries.effects.layout.biases(entries.below_zero()))


def gradient_change(block_loss: BlockLoss, z: Array, effects: Array, step: Array) -> Array:
    """The change of gradients by a step of the effects, to first order."""
    entries = entries_of(block_loss, z)
    curvature = entries.curvature_at(block_loss.effects.predictor(entries.z, effects))
    change: Array = curvature.times_numbers(block_loss.effects.at_entries(step))
    return change.ravel()


def row_effects(entries: EntriesAt, warm: Array | None) -> Array | None:
    """The best effects of the rows."""
    arguments = entries.likelihood, entries.z, entries.y, entries.weights
    return entries.effects.solve(*arguments, warm)


def parameter_sums(entries: EntriesAt, asked: Any) -> tuple[Any, ElementwiseMin]:
    """Sums over entries for the parameters, and the negated largest numbers."""
    assert isinstance(entries.likelihood, ParametricBySums)
    weights = entries.weights * np.ones(entries.y.size)
    answers = entries.likelihood.parameter_sums(entries.z, entries.y, weights)
    sums, largest = answers(asked)
    return sums, ElementwiseMin(-largest)


def asymptotic_gradient_signs(block_loss: BlockLoss, diverging: Mask) -> tuple[Array, ...]:
    """Signs of gradients far out by effect, without entries of effects found already."""
    return block_loss.effects.asymptotic_gradient_signs(
        block_loss.likelihood, block_loss.y, diverging
    )


def asymptotic_gradient_sums(block_loss: BlockLoss) -> tuple[Array, ...]:
    """The sums of gradients far out over each effect, and of their sizes."""
    return block_loss.effects.asymptotic_gradient_sums(
        block_loss.likelihood, block_loss.y, block_loss.scale
    )


@attrs.frozen(eq=False)
class ColumnParts:
    """Which columns entries connect, by a label each; of more entries the sum of such answers."""

    labels: IntArray

    def __add__(self, other: "ColumnParts") -> "ColumnParts":
        first, start = self.labels, int(np.max(self.labels)) + 1
        size = start + int(np.max(other.labels)) + 1
        pairs = first, start + other.labels
        graph = sp.coo_array((np.ones(first.size), pairs), shape=(size, size))
        return ColumnParts(sp.csgraph.connected_components(graph, directed=False)[1][first])


def parts_of_columns(block_loss: BlockLoss, fixed: Array) -> ColumnParts:
    """Labels of the columns that the entries of a partition connect by themselves."""
    labels: IntArray = attrs.evolve(block_loss.effects, fixed=fixed).connected[0]
    return ColumnParts(labels[: block_loss.layout.n_biases])


def parts_of_rows(block_loss: BlockLoss, fixed: Array, labels: IntArray) -> IntArray:
    """The label of the columns that each row is connected with, -1 where it stands alone."""
    parts: IntArray = attrs.evolve(block_loss.effects, fixed=fixed).connected[0]
    labels_of_parts = np.full(int(np.max(parts)) + 1, -1, dtype=labels.dtype)
    labels_of_parts[parts[: labels.size]] = labels
    return labels_of_parts[parts[labels.size :]]


def diagonal(curvature: Curvature) -> tuple[Array]:
    """The diagonal of second derivatives."""
    return (curvature.diagonal,)


def second_derivatives(entries: EntriesAt, effects: Any, chord_share: float) -> Array:
    """Second derivatives of the losses at predictors with effects."""
    numbers: Array = entries.at(effects).find_curvature(chord_share=chord_share).numbers
    return numbers


def undiverged_of(block_loss: BlockLoss, fixed: Array) -> Array:
    """1 at entries none of whose effects diverges, 0 at the others."""
    return attrs.evolve(block_loss.effects, fixed=fixed).undiverged


def moved_by_effects(block_loss: BlockLoss, gradient: Array, weights: Array, step: Array) -> Array:
    """Gradients of all blocks, a block's moved by effects where weights are 1, and 0 elsewhere."""
    moved = gradient.copy()
    moved[block_loss.part] = weights * (
        moved[block_loss.part] + block_loss.effects.at_entries(step)
    )
    return moved


def effect_sums(loss: EntryLoss, gradient: Array) -> tuple[ByEffect, ...]:
    """The sums of gradients and of their sizes over each effect, of each block."""
    pairs = zip(loss.block_losses, loss.sums_by_effect(gradient), strict=True)
    return tuple(ByEffect.of(block_loss.layout, sums) for block_loss, sums in pairs)


def notes_on_blocks(problem: Problem, loss: Any) -> tuple[str, ...]:
    """A note for each block with an infinite effect or parameter."""
    notes = []
    for k, (block, block_loss) in enumerate(
        zip(problem.model.blocks, loss.block_losses, strict=True)
    ):
        notes.append(note_on_infinite(problem, block, np.flatnonzero(block_loss.effects.fixed)))
        if block_loss.layout.n_parameters:
            values = values_of(loss.partitions, k, block_loss.likelihood)
            notes.append(note_on_parameters(problem, block, values))
    return tuple(note for note in notes if note is not None)


def values_of(partitions: Partitions, k: int, likelihood: Parametric) -> Array:
    """The values of block k, each once; none are asked for where they make no difference."""
    if type(likelihood).unbounded is Parametric.unbounded:
        return np.zeros(0)
    return np.unique(np.concatenate(partitions.map_partitions(distinct_values, block_loss_of(k))))


def distinct_values(block_loss: BlockLoss) -> Array:
    """The values that a partition has, each once."""
    return np.unique(block_loss.y)

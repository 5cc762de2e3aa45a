"""The effects of a block whose rows are in partitions: sums over entries are rounds of tasks."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.effects.diverging import diverging_effects, refuse_falling
from mcframe.compile.effects.effects import Effects, ridge_of
from mcframe.compile.effects.notes import describe_effect
from mcframe.compile.effects.solving import best_effects, centred
from mcframe.compile.effects.sums import Curvature, EntriesAt
from mcframe.compile.partitions.by_effect import apart, in_halves, together
from mcframe.compile.partitions.executor import Partitions
from mcframe.compile.partitions.least import Least
from mcframe.compile.partitions.numbers import ByRows, Cut, Numbers, effects_by_rows
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.tasks import EffectSums
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import ParametricBySums
from mcframe.model import Problem

# Up to so many effects of columns partitions send their part of the system, 0.5 MB: a product is
# then no round.
WRITTEN_OUT = 256


@attrs.frozen(eq=False, kw_only=True)
class EffectsInParts(Effects):
    """The effects of block ``k``, of which entries and their sums are known by effect."""

    partitions: Partitions
    k: int
    likelihood: Any
    counts: Array
    total_weights: Array
    connected: tuple[IntArray, Mask]

    @classmethod
    def of(
        cls, problem: Problem, partitions: Partitions, k: int, counts: Array, weights: Array
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
            total_weights=weights,
            connected=(np.arange(layout.size), counts == 0),
        )
        if not effects.n_added or effects.ridge is not None:
            return effects

        def name_of(effect: int) -> str:
            return describe_effect(problem, block, effect).removeprefix("the ")

        def signs_without(found: Mask) -> tuple[Array, ...]:
            return effects.by_effect(BlockOf(k), signs_far_out, effects.cut(found))

        try:
            refuse_falling(
                likelihood, name_of, lambda: effects.by_effect(BlockOf(k), sums_far_out)
            )
        except DataError as error:
            raise DataError(f"block {block.name!r}: {error}") from None
        fixed = diverging_effects(effects, likelihood, signs_without)
        effects = attrs.evolve(effects, fixed=fixed)
        if not effects.tied:
            return effects
        return attrs.evolve(effects, connected=effects.connected_by_entries())

    def by_effect(self, at: "BlockOf", question: Any, *given: Any) -> tuple[Array, ...]:
        """Sums by effect of what partitions answer to a question."""
        arguments = sums_at, at, question, *given
        return together(self.layout, *in_halves(self.partitions, (self.layout,), *arguments))

    def connected_by_entries(self) -> tuple[IntArray, Mask]:
        """The connected part of each column and each row, and which of them stand alone.

        Columns that are connected within partitions first, by sums; then each partition tells of
        its own rows.
        """
        at, fixed = BlockOf(self.k), self.cut(self.fixed)
        columns = self.partitions.sum(answer_at, at, parts_of_columns, fixed).labels
        rows: Any = self.partitions.concatenate(answer_at, at, parts_of_rows, fixed, columns)
        alone = rows < 0
        rows[alone] = int(np.max(columns)) + 1 + np.arange(np.sum(alone))
        found = np.concatenate([columns, rows])
        return found, np.bincount(found)[found] == 1

    def cut(self, effects: Array | Mask | None) -> Any:
        """Effects as tasks take them: those of rows go to their partitions."""
        return None if effects is None else effects_by_rows(self.layout, effects)

    def solve(self, z: Numbers, warm: Array | None) -> tuple[Array | None, float | None]:
        """The best effects at z from those of a point nearby, and the losses if they are known."""
        if not self.size:
            return None, None
        if self.layout.n_parameters:
            return self.parameters(z, warm), None
        if not self.layout.n_biases:  # each partition has all entries of its rows
            begun = None if warm is None else ByRows(warm)
            at = EntriesOf(self.k, z)
            found = self.partitions.concatenate(answer_at, at, row_effects, begun)
            return self.representative(found), None
        effects, here = best_effects(self, EntriesInParts(self, z), self.likelihood, warm)
        return effects, here.sums.value if effects is here.effects else None

    def parameters(self, z: Numbers, warm: Array | None) -> Array:
        """The likelihood's own best parameters, by sums over all entries."""

        def tell(asked: Any) -> tuple[Any, Array]:
            at = EntriesOf(self.k, z)
            sums, negated = self.partitions.sum(answer_at, at, parameter_sums, asked)
            return sums, -negated.numbers

        parametric: ParametricBySums = self.likelihood
        return parametric.parameters_by_sums(tell, warm)

    def centre(self, gradient: Numbers) -> Numbers:
        """The nearest gradients whose sums over rows and over columns vanish, of tied effects."""
        size = gradient.size
        undiverged = Undiverged(size=size, k=self.k, fixed=self.cut(self.fixed))

        def moved(gradient: Numbers, step: Array) -> Numbers:
            return Moved(size=size, of=gradient, weights=undiverged, k=self.k, step=self.cut(step))

        def sums_of(gradient: Numbers) -> tuple[Array, Array]:
            rows, others = self.partitions.rows_and_sum(EffectSums(gradient))
            sums, sizes = together(self.layout, [own[self.k] for own in rows], others[self.k])
            return sums, sizes

        if self.fixed.any():
            gradient = moved(gradient, np.zeros(self.size))
        ones = CurvatureInParts(self, CurvatureOf(self.k, undiverged))
        found: Numbers = centred(self, ones, gradient, sums_of, moved)
        return found


@attrs.frozen(eq=False)
class EntriesInParts:
    """``EntriesAt`` predictors z of a block in partitions: each question is a round."""

    effects: EffectsInParts
    z: Numbers

    @property
    def entries(self) -> "EntriesOf":
        """The entries, for tasks."""
        return EntriesOf(self.effects.k, self.z)

    @property
    def reach(self) -> float:
        """The largest predictor."""
        return -float(self.effects.partitions.sum(answer_at, self.entries, reach).numbers)

    def at(self, effects: Array) -> "SumsInParts":
        """The sums at some effects."""
        known, own = self.effects, self.effects.cut(effects)
        second = None
        if known.tied:  # whose systems take several rounds
            second = SecondDerivatives(size=self.z.size, entries=self.entries, effects=own)
        curvature = CurvatureOf(known.k, second, self.entries, own)
        arguments = local_sums, self.entries, own, curvature
        rows, (losses, others) = in_halves(known.partitions, (known.layout,), *arguments)
        value, summands, negated = losses
        gradient, sizes, *diagonal = together(known.layout, rows, others)
        return SumsInParts(
            float(value),
            float(summands),
            -float(negated.numbers),
            gradient,
            sizes,
            CurvatureInParts(known, curvature, *diagonal),
            known.total_weights,
        )

    def below_zero(self) -> Array:
        """Effects of columns that bring each predictor to 0 or below."""
        effects = np.zeros(self.effects.size)
        found = self.effects.partitions.sum(answer_at, self.entries, below_zero)
        self.effects.layout.biases(effects)[:] = found.numbers
        return effects


@attrs.frozen(eq=False)
class SumsInParts:
    """What ``SumsOfEntries`` answers, of all partitions."""

    value: float
    summands: float
    reach: float
    gradient: Array
    sizes: Array
    curvature: "CurvatureInParts"
    total_weights: Array


@attrs.frozen(eq=False)
class CurvatureInParts:
    """What ``Curvature`` answers, of all partitions: each question is a round."""

    effects: EffectsInParts
    at: "CurvatureOf"
    known: Array | None = None

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G'HG."""
        if self.known is not None:
            return self.known
        [found] = self.effects.by_effect(self.at, diagonal)
        return found

    def sum(self, question: Callable[..., Array], *given: Any) -> Array:
        """The sum of the partitions' answers."""
        return np.asarray(self.effects.partitions.sum(answer_at, self.at, question, *given))

    def blocks(self) -> Array:
        """The second derivatives in the effects of the classes of each column."""
        return self.sum(Curvature.blocks)

    def times(self, vector: Array) -> Array:
        """G'HG e of classes."""
        return self.sum(Curvature.times, vector)

    def of_rows(self, others: Array) -> Array:
        """N x for the table N and effects x of columns and intercept."""
        partitions = self.effects.partitions
        return partitions.concatenate(answer_at, self.at, Curvature.of_rows, others)

    def of_others(self, rows: Array) -> Array:
        """N' y for effects y of rows."""
        return self.sum(Curvature.of_others, ByRows(rows))

    def elimination(self, rows: Array) -> Callable[[Array], Array]:
        """The product x -> N' D N x: a round each, or one that writes the matrix out."""
        own = ByRows(rows)
        if self.effects.size - rows.size > WRITTEN_OUT:
            return lambda others: self.sum(eliminated, own, others)
        matrix = self.sum(written_out, own)
        return lambda others: matrix @ others


@attrs.frozen(eq=False)
class BlockOf(Cut):
    """Block k of a partition: its piece of the loss."""

    k: int

    def of(self, part: Part) -> Any:
        """The piece of a partition."""
        return part.program.loss.pieces[self.k]


@attrs.frozen(eq=False)
class EntriesOf(BlockOf):
    """The entries of block k at predictors z."""

    z: Numbers

    def of(self, part: Part) -> EntriesAt:
        """The entries of a partition."""
        piece = part.program.loss.pieces[self.k]
        z = piece.offset_part(part.numbers(self.z))
        return EntriesAt(piece.effects, piece.likelihood, z, piece.y, piece.scale)


@attrs.frozen(eq=False)
class CurvatureOf(BlockOf):
    """Second derivatives of block k at entries and effects, or with weights in their place."""

    weights: Numbers | None
    entries: EntriesOf | None = None
    effects: Any = None

    def of(self, part: Part) -> Curvature:
        """The second derivatives of a partition."""
        if self.weights is None:
            assert self.entries is not None
            return self.entries.of(part).at(self.effects).curvature
        known, weights = part.program.loss.pieces[self.k].effects, self.weights
        return Curvature(known, lambda: part.numbers(weights))


def answer_at(part: Part, at: BlockOf, question: Callable[..., Any], *given: Any) -> Any:
    """What a block, its entries or their second derivatives answer to a question about them."""
    return question(at.of(part), *given)


def sums_at(part: Part, at: BlockOf, question: Callable[..., Any], *given: Any) -> Any:
    """Answers to a question that are sums by effect, of which those of rows stand apart."""
    return apart(part.program.loss.pieces[at.k].layout, *question(at.of(part), *given))


def local_sums(
    part: Part, entries: EntriesOf, effects: Any, curvature: CurvatureOf
) -> tuple[Any, Any]:
    """Losses, their sizes, and predictors; gradient, sizes, and second derivatives by effect.

    The latter where a number of z is an entry.
    """
    sums = entries.of(part).at(effects)
    by_effect = [sums.gradient, sums.sizes]
    if sums.entries.effects.width == 1:
        by_effect.append(curvature.of(part).diagonal)
    rows, others = apart(sums.entries.effects.layout, *by_effect)
    return rows, ((sums.value, sums.summands, Least(np.asarray(-sums.reach))), others)


def reach(entries: EntriesAt) -> Least:
    """The largest predictor, negated."""
    return Least(np.asarray(-entries.reach))


def below_zero(entries: EntriesAt) -> Least:
    """Effects of columns that bring each predictor to 0 or below."""
    return Least(entries.effects.layout.biases(entries.below_zero()))


def row_effects(entries: EntriesAt, warm: Array | None) -> Array | None:
    """The best effects of the rows."""
    at = entries
    return at.effects.solve(at.likelihood, at.z, at.y, at.weights, warm)


def parameter_sums(entries: EntriesAt, asked: Any) -> tuple[Any, Least]:
    """What entries answer to a question for the parameters; negated of what the largest counts."""
    weights = entries.weights * np.ones(entries.y.size)
    answers = entries.likelihood.parameter_sums(entries.z, entries.y, weights)
    sums, largest = answers(asked)
    return sums, Least(-largest)


def signs_far_out(piece: Any, found: Mask) -> tuple[Array, ...]:
    """Signs of gradients far out by effect, without entries of effects found already."""
    answer: tuple[Array, ...] = piece.effects.signs_far_out(piece.likelihood, piece.y, found)
    return answer


def sums_far_out(piece: Any) -> tuple[Array, ...]:
    """The sums of gradients far out over each effect, and of their sizes."""
    answer: tuple[Array, ...]
    answer = piece.effects.sums_far_out(piece.likelihood, piece.y, piece.scale)
    return answer


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


def parts_of_columns(piece: Any, fixed: Array) -> ColumnParts:
    """Labels of the columns that the entries of a partition connect by themselves."""
    labels: IntArray = attrs.evolve(piece.effects, fixed=fixed).connected[0]
    return ColumnParts(labels[: piece.layout.n_biases])


def parts_of_rows(piece: Any, fixed: Array, labels: IntArray) -> IntArray:
    """The label of the columns that each row is connected with, -1 where it stands alone."""
    own: IntArray = attrs.evolve(piece.effects, fixed=fixed).connected[0]
    found = np.full(int(np.max(own)) + 1, -1, dtype=labels.dtype)
    found[own[: labels.size]] = labels
    return found[own[labels.size :]]


def diagonal(curvature: Curvature) -> tuple[Array]:
    """The diagonal of second derivatives."""
    return (curvature.diagonal,)


def eliminated(curvature: Curvature, rows: Array, others: Array) -> Array:
    """N' D N x."""
    return curvature.elimination(rows)(others)


def written_out(curvature: Curvature, rows: Array) -> Array:
    """N' D N."""
    table = curvature.table
    written: Array = (table.T @ (sp.diags_array(rows) @ table)).toarray()
    return written


@attrs.frozen(eq=False, kw_only=True, slots=False)
class SecondDerivatives(Numbers):
    """Second derivatives of the losses of a block at predictors and effects."""

    entries: EntriesOf
    effects: Any

    def find(self, part: Part) -> Array:
        """Second derivatives at the entries of a partition."""
        return self.entries.of(part).at(self.effects).curvature.numbers


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Undiverged(Numbers):
    """1 at entries of block k none of whose effects diverges, 0 at the others."""

    k: int
    fixed: Any

    def find(self, part: Part) -> Array:
        """Ones and zeros at the entries of a partition."""
        effects = part.program.loss.pieces[self.k].effects
        return attrs.evolve(effects, fixed=self.fixed).undiverged


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Moved(Numbers):
    """Gradients of block k moved by sums of effects where weights are 1, and 0 elsewhere."""

    of: Numbers
    weights: Numbers
    k: int
    step: Any

    def find(self, part: Part) -> Array:
        """Gradients of a partition."""
        moved, piece = part.numbers(self.of).copy(), part.program.loss.pieces[self.k]
        own = moved[piece.part] + piece.effects.at_entries(self.step)
        moved[piece.part] = part.numbers(self.weights) * own
        return moved

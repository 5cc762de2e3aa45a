"""A problem as numbers only: entries, losses and terms, which the first-order solvers read."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.equations import EffectSquares, SquaresAt
from mcframe.compile.loss import (
    BlockEffects,
    EntryLoss,
    FenchelConjugates,
    LossAt,
    smoothed_block_loss,
)
from mcframe.compile.penalty import BlockTerm, Penalty, RowPenalty, SpectralPenalty
from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import BackendError
from mcframe.contracts.limits import MOST_OPERATIONS, SMALL_ORDER, STORED_NUMBERS
from mcframe.contracts.term import Term
from mcframe.numerics import kernels
from mcframe.numerics.operators import Dense, LowRank, Operator, Placed, Scales, Sum
from mcframe.numerics.sampled import Pattern, Sampled
from mcframe.numerics.unlabeled import ImplicitLoss, ImplicitLossAt
from mcframe.runtime.machine import even_cuts, share

# Z is kept in factors if at most this share of its cells is observed, and if the table is large:
# for solvers that work on factors above ``SMALL_ORDER``, for others from so many cells on.
# Alternation is faster with gradients at the entries at any size, proximal gradients, whose Newton
# steps need a dense Z, from some million cells on.
SPARSE_SHARE, SMALL_TABLE_CELLS = 0.1, 2_000_000


def pays_in_factors(
    shape: Shape, n_entries: int, in_factors: bool = False, dense: bool = True
) -> bool:
    """True if a Z of that shape with so many observed entries is kept in factors.

    True if few of many cells are observed, or if a dense matrix takes much memory or time.
    ``in_factors`` and ``dense`` belong to the solver: whether it works on factors, and whether it
    ever holds Z dense.
    """
    cells = shape[0] * shape[1]
    if cells > STORED_NUMBERS or (in_factors and cells * min(shape) > MOST_OPERATIONS):
        return True
    large = sum(shape) > SMALL_ORDER if in_factors else cells > SMALL_TABLE_CELLS
    return large and (n_entries <= SPARSE_SHARE * cells or not dense)


@attrs.frozen(eq=False)
class Iterate:
    """A W, in factors or written out, and the numbers ``z`` of its Z at a program's entries."""

    latent: LowRank | Array
    z: Array

    @cached_property
    def array(self) -> Array:
        """W written out (n_rows x n_columns)."""
        return self.latent.dense() if isinstance(self.latent, LowRank) else self.latent

    def columns(self, columns: slice) -> Array:
        """Some columns of W, written out."""
        part = columns.stop - columns.start < self.latent.shape[1]
        if isinstance(self.latent, LowRank) and part:
            return self.latent.columns(columns).dense()
        return self.array[:, columns]

    @property
    def factors(self) -> LowRank:
        """W in factors, where it was given so."""
        assert isinstance(self.latent, LowRank)
        return self.latent


@attrs.define(eq=False)
class EntryIndex:
    """The positions of entries in Z raveled, and by rows and columns, computed when needed."""

    flat: IntArray | None = None
    pattern: Pattern | None = None


@attrs.frozen(eq=False)
class Entries:
    """The rows and columns of the numbers of all losses, in the order of the losses.

    If ``sparse``, Z is kept in factors, with gradients at the entries alone; otherwise Z is
    written out. Random starts of certificates of sparse programs are drawn from ``random_state``
    and from the bits of the places and of ``values``.

    A program is a function of W, with ``Z = diag(a) W diag(b)`` if there are ``scales`` a and b;
    otherwise W is Z. Entry values and their gradients are those of Z. Matrices, the matrix of the
    gradients included, are in W.
    """

    shape: Shape
    rows: IntArray
    columns: IntArray
    values: Array
    sparse: bool = False
    random_state: int = 0
    index: EntryIndex = attrs.field(factory=EntryIndex)
    scales: Scales | None = None

    @property
    def size(self) -> int:
        """The number of numbers of the losses."""
        return int(self.rows.size)

    def with_form(self, sparse: bool, random_state: int) -> "Entries":
        """The entries with Z kept in factors or not, and with a seed; their known orders stay."""
        if (sparse, random_state) == (self.sparse, self.random_state):
            return self
        return attrs.evolve(self, sparse=sparse, random_state=random_state)

    @property
    def work(self) -> None:
        """Nothing is asked of partitions."""

    @property
    def flat(self) -> IntArray:
        """The place of each number in Z, raveled."""
        if self.index.flat is None:
            rows = self.rows.astype(np.int64, copy=False)  # the product takes 8 bytes
            self.index.flat = rows * self.shape[1] + self.columns
        return self.index.flat

    @property
    def pattern(self) -> Pattern:
        """Places of the entries by rows and by columns, with the seed of random starts."""
        if self.index.pattern is None:
            pattern = Pattern.of(self.shape, self.rows, self.columns)
            self.index.pattern = pattern.seeded_by(0, self.values)
        pattern = self.index.pattern
        return attrs.evolve(pattern, seed=(self.random_state, *pattern.seed[1:]))

    @property
    def seed(self) -> tuple[int, ...]:
        """Whole numbers from which random starts are drawn."""
        return self.pattern.seed

    @property
    def rows_elsewhere(self) -> bool:
        """False: this process has them."""
        return False

    @property
    def largest_scale(self) -> float:
        """The largest number of a Z whose W has entries of at most 1."""
        return 1.0 if self.scales is None else self.scales.largest

    def times_scales(self, numbers: Array, power: int = 1) -> Array:
        """Numbers here, each times a power of what takes its entry of W to that of Z."""
        if self.scales is None:
            return numbers
        return numbers * self.scales.at(self.rows, self.columns) ** power

    def less(
        self, numbers: Array, parts: Sequence[tuple[Array, Array]], rows: Array, columns: Array
    ) -> Array:
        """Numbers here less shares of others, p pairs of which one goes by rows, one by columns.

        ``rows`` are the shares of each row (n_rows x p), or of none (0 x p), ``columns`` those of
        each column.
        """
        rows = rows if len(rows) else np.zeros((self.shape[0], len(parts)))
        out, rows, columns = numbers.copy(), rows.T.copy(), columns.T.copy()

        def take(first: int, last: int) -> None:
            for pair, *shares in zip(parts, rows, columns, strict=True):
                kernels.take_shares(first, last, out, *pair, self.rows, self.columns, *shares)

        share(take, even_cuts(2 * len(parts) * out.size, out.size))
        return out

    def squared_length(self, latent: LowRank) -> Any:
        """The square of the Frobenius norm of W, with the next round where rows are in parts."""
        return latent.squared_length

    def dot(self, numbers: Array, others: Array) -> float:
        """The sum of the products of numbers here."""
        return float(np.dot(numbers, others))

    def norm(self, numbers: Array) -> float:
        """The Euclidean norm of numbers here."""
        return float(np.linalg.norm(numbers))

    def finite(self, numbers: Array) -> bool:
        """True if all numbers here are finite."""
        return bool(np.all(np.isfinite(numbers)))

    def iterate(self, latent: LowRank | Array) -> Iterate:
        """A W with its numbers here."""
        if isinstance(latent, LowRank):
            return Iterate(latent, self.of(latent))
        # In range: no check, no copy.
        z = np.take(latent, self.flat, mode="clip").astype(np.float64, copy=False)
        return Iterate(latent, self.times_scales(z))

    def of(self, latent: LowRank) -> Array:
        """The numbers of W = U V' here, without forming it where that takes more than they do."""
        latent = latent if self.scales is None else self.scales.apply(latent)
        if not self.sparse:
            return latent.at(self.rows, self.columns)
        z = np.empty(self.size)
        left, right = np.ascontiguousarray(latent.left), np.ascontiguousarray(latent.right)
        self.pattern.entries(left, right, z)
        return z

    def matrix(
        self,
        numbers: Array,
        blocks: Sequence[tuple[slice, Array]] = (),
        others: Sequence[Operator] = (),
    ) -> Operator:
        """The matrix in W of these numbers here, 0 elsewhere, plus ``blocks`` at their columns.

        ``others``, which go with sparse entries alone, are added, too.
        """
        numbers = self.times_scales(numbers)
        if self.sparse:
            placed = [Placed(Dense(block), columns, self.shape[1]) for columns, block in blocks]
            sampled = Sampled(self.pattern, numbers)
            return Sum((sampled, *placed, *others)) if placed or others else sampled
        assert not others
        written = np.zeros(self.shape)
        written.ravel()[self.flat] = numbers
        for columns, block in blocks:
            written[:, columns] += block
        return Dense(written)


@attrs.frozen(eq=False)
class Evaluation:
    """F, the losses, and the smooth terms at a W, the best effects solved for.

    Attributes
    ----------
    losses_of_entries : float
        The losses of all entries; of rows in partitions they are asked for with the next round.
    entry_gradients : array
        The gradient in Z of each number of the losses.
    effects : tuple
        One array a block, or None; the start of solves nearby.
    values, duals : tuples
        The value and the dual matrix of each smooth term; 0.0 and None for others.
    blocks : tuple of (columns, gradient)
        The gradients of the smooth terms at Z.
    """

    entries: Entries
    iterate: Iterate
    background: ImplicitLossAt
    losses_of_entries: Any
    entry_gradients: Array
    effects: tuple[Array | None, ...]
    values: tuple[float, ...] = ()
    duals: tuple[Array | None, ...] = ()
    blocks: tuple[tuple[slice, Array], ...] = ()

    @cached_property
    def losses(self) -> float:
        """F: the losses of all entries, and of the unlabeled cells that are not among them."""
        background = self.background.value if self.background else 0.0
        return float(self.losses_of_entries) + background

    @property
    def value(self) -> float:
        """F and the smooth terms."""
        return self.losses + sum(self.values)

    @property
    def finite(self) -> bool:
        """True if no loss overflowed."""
        return self.entries.finite(self.entry_gradients)

    @cached_property
    def gradient(self) -> Operator:
        """The gradient of ``value`` in W (n_rows x n_columns), which is Z without scales."""
        gradients = self.background.excess_gradients(self.entry_gradients)
        return self.entries.matrix(gradients, self.blocks, self.background.gradients())

    def column_gradient(self, left: Array, which: Any) -> Array:
        """S' U: the gradient of F(U V') in some columns of the factor V of this Z.

        ``which`` says where these stand. It takes no further pass over unlabeled cells.
        """
        if not self.background:
            return np.asarray(self.gradient.T @ left)
        excess = self.background.excess_gradients(self.entry_gradients)
        beyond = self.entries.matrix(excess, self.blocks)
        return np.asarray(beyond.T @ left + self.background.column_products[:, which])

    def along(self, moved: Array) -> float:
        """<S, D> of the losses of entries, for a move D of Z by so much at the entries."""
        return self.entries.dot(self.entry_gradients, moved)

    def curvature_along(self, after: "Evaluation", moved: LowRank) -> float:
        """<S_after - S, D> of the losses for Z_after = Z + D: D'H D for a mean Hessian H.

        Unlabeled cells add twice the height of their losses above the tangent after the move.
        """
        at_entries = after.iterate.z - self.iterate.z
        curved = self.entries.dot(after.entry_gradients - self.entry_gradients, at_entries)
        return curved + self.background.curvature_along(after.background, moved, at_entries)


# A difference of gradients is taken over so much of the largest entry of Z.
DIFFERENCE_STEP = 1e-5


@attrs.frozen(eq=False)
class Program:
    """minimise F(Z) + R(W) + sum of terms(Z) over W of ``shape``, Z = W but for scales.

    F is the loss of ``entries``, which say where in Z they stand and how W is held, and have the
    scales a and b of ``Z = diag(a) W diag(b)``, if any. R, the main regularizer, covers all of W:
    ``penalty``, a ``SpectralPenalty``, a ``FactoredPenalty`` or a ``RowPenalty``. ``terms`` are
    others at their columns. ``names`` and ``columns`` are the blocks' names and their columns of
    Z, block by block. ``background`` is the loss of cells that are no entries: where there are
    some, ``loss`` is not all of F, and W has to be in factors. ``unit`` is the size of predictors
    that fit the entries roughly; where all data are 0 it is the size of the nearest point of the
    constraints, and 1 without any.
    """

    entries: Entries
    loss: EntryLoss
    background: ImplicitLoss
    penalty: Penalty
    names: tuple[str, ...]
    columns: tuple[slice, ...]
    terms: tuple[BlockTerm, ...] = ()
    unit: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of Z."""
        return self.entries.shape

    @property
    def spectral(self) -> SpectralPenalty:
        """The penalty as a function of singular values; a ``BackendError`` where it is none."""
        if not isinstance(self.penalty, SpectralPenalty):
            raise BackendError(f"R is no function of singular values: {self.penalty.no_shrinkage}")
        return self.penalty

    @property
    def row_penalty(self) -> RowPenalty:
        """The penalty as a square of each row; a ``BackendError`` where it is none."""
        if not isinstance(self.penalty, RowPenalty):
            raise BackendError("R is no square of each row by itself")
        return self.penalty

    @property
    def main(self) -> Term | None:
        """The main regularizer as the word that it is; None of a ridge alone."""
        return self.penalty.main

    def variable(self, latent: LowRank) -> LowRank:
        """The W of a Z."""
        scales = self.entries.scales
        return latent if scales is None else scales.invert(latent)

    def latent(self, variable: LowRank) -> LowRank:
        """The Z of a W."""
        scales = self.entries.scales
        return variable if scales is None else scales.apply(variable)

    @cached_property
    def terms_of_block(self) -> Mapping[int, tuple[int, ...]]:
        """Positions of the terms of predictors that have the effects of a block, by block."""
        positions: dict[int, tuple[int, ...]] = {}
        for position, term in enumerate(self.terms):
            if term.block_index is not None:
                positions[term.block_index] = (*positions.get(term.block_index, ()), position)
        return positions

    @cached_property
    def squares(self) -> Mapping[int, EffectSquares]:
        """Smooth terms of predictors as squares of the effects of a block, by block."""
        squares = {}
        for k, positions in self.terms_of_block.items():
            terms = [self.terms[position] for position in positions if self.terms[position].smooth]
            if terms:
                directions = tuple(direction for term in terms for direction in term.directions)
                squares[k] = EffectSquares(self.loss.block_losses[k].layout, directions)
        return squares

    @cached_property
    def fixed_blocks(self) -> frozenset[int]:
        """The blocks whose effects a set of predictors determines, and not the losses alone."""
        terms = [term for term in self.terms if not term.smooth]
        return frozenset(term.block_index for term in terms if term.block_index is not None)

    def squares_at(self, iterate: Iterate) -> dict[int, SquaresAt]:
        """The squares of effects at a W, by block."""
        squares_by_block = {}
        for k, squares in self.squares.items():
            terms = [self.terms[position] for position in self.terms_of_block[k]]
            distances = [
                distance
                for term in terms
                if term.smooth
                for distance in term.distances(iterate.columns(term.columns))
            ]
            squares_by_block[k] = SquaresAt(squares, tuple(distances))
        return squares_by_block

    def sums_of_terms(self, duals: Sequence[Array | None]) -> dict[int, tuple[Array, Array]]:
        """Sums of terms' known dual matrices, and of their sizes, over the effects of each block.

        Of blocks whose effects are in a term.
        """
        return {
            k: self.loss.block_losses[k].layout.sums_of_duals(
                dual for position in positions if (dual := duals[position]) is not None
            )
            for k, positions in self.terms_of_block.items()
        }

    def duals_by_block(self, duals: Sequence[Array]) -> dict[int, list[Array]]:
        """The dual matrices of terms of predictors by the block whose effects they speak of."""
        return {
            k: [duals[position] for position in positions]
            for k, positions in self.terms_of_block.items()
        }

    def centred(self, gradient: Any, duals: tuple[Array, ...]) -> tuple[Any, tuple[Array, ...]]:
        """Gradients, and dual matrices of terms, whose sums over free effects vanish.

        What rounding, or steps that have not converged, left of the sums is taken off both.
        """
        if not self.terms_of_block:
            return self.loss.centre(gradient), duals
        centred, matrices = gradient.copy(), list(duals)
        for k, block_loss in enumerate(self.loss.block_losses):
            positions = self.terms_of_block.get(k, ())
            centred[block_loss.part], centred_duals = block_loss.effects.centred_with(
                gradient[block_loss.part],
                [matrices[position] for position in positions],
                [self.terms[position].equations for position in positions],
            )
            for position, matrix in zip(positions, centred_duals, strict=True):
                matrices[position] = matrix
        return centred, tuple(matrices)

    def fenchel_conjugates(
        self, evaluation: "Evaluation", duals: Sequence[Array | None]
    ) -> FenchelConjugates:
        """F* at the gradients of an evaluation, of losses that have no conjugate.

        With the conjugate of their effects, of which the dual matrices of terms are part: at best
        effects e it is ``-<G'S + E'Y, e>`` less the ridge, where Y are those matrices.
        """
        of_losses = self.loss.fenchel_conjugates(evaluation.iterate.z, evaluation.effects)
        sums = self.sums_of_terms(duals)
        conjugates = []
        for k, pair in enumerate(of_losses):
            block_effects = evaluation.effects[k]
            if pair is None or block_effects is None or k not in sums:
                conjugates.append(pair)
                continue
            products = sums[k][0] * block_effects[: sums[k][0].size]
            size = float(np.sum(np.abs(products)))
            conjugates.append((pair[0] - float(np.sum(products)), pair[1] + size))
        return tuple(conjugates)

    @property
    def plain(self) -> bool:
        """True if all but the main regularizer is smooth, so that no multipliers are needed."""
        return self.loss.smooth and all(term.smooth for term in self.terms)

    @property
    def curvature(self) -> float:
        """An upper bound on the curvature of F and all smooth terms in Z."""
        return self.highest([block_loss.curvature for block_loss in self.loss.block_losses])

    def curvature_at(self, evaluation: Evaluation) -> float:
        """The curvature where it is bounded, else at these entries: for a first step length."""
        bounds = self.loss.curvatures_at(evaluation.iterate.z, evaluation.effects)
        # Flat everywhere, as counts of 0 alone are with a bias: any positive number will do.
        curvature = self.highest(bounds)
        return (
            curvature
            if curvature > 0.0
            else max(float(np.max(p.scale)) for p in self.loss.block_losses)
        )

    def highest(self, curvatures: Sequence[float]) -> float:
        """The curvature from those of the losses: in each column they and the terms there add."""
        total = np.zeros(self.shape[1])
        for columns, curvature in zip(self.columns, curvatures, strict=True):
            total[columns] += curvature
        if self.entries.scales is not None:
            scales = self.entries.scales
            total *= np.square(float(np.max(scales.rows)) * scales.columns)
        for term in self.terms:
            if term.smooth:
                total[term.columns] += term.curvature
        return float(np.max(total))

    def with_storage_for(
        self, in_factors: bool, dense: bool = True, random_state: int = 0
    ) -> "Program":
        """The program with Z kept in factors or written out, as suits a solver, and its seed.

        This is decided here alone; see ``pays_in_factors``.
        """
        # Terms are written out at their columns, of no more cells than there are entries.
        few = self.shape[0] * sum(term.width for term in self.terms) <= self.entries.size
        many = few and pays_in_factors(self.shape, self.entries.size, in_factors, dense)
        sparse = many or bool(self.background)
        return attrs.evolve(self, entries=self.entries.with_form(sparse, random_state))

    @property
    def n_numbers(self) -> int:
        """The number of entries of Z that losses read."""
        return self.entries.size

    def evaluate(
        self,
        point: Iterate | LowRank | Array,
        warm: BlockEffects | None = None,
        fixed: BlockEffects | None = None,
        nearly: bool = False,
    ) -> Evaluation:
        """The losses and the smooth terms at a W, with their gradient and the best effects.

        ``warm`` are effects from a nearby point: the start of their solution, or with ``nearly``
        of one Newton step where that suffices (for steps, never for a certificate). The effects
        of losses without a gradient, and those that a set determines, are the ``fixed`` ones.
        """
        iterate = point if isinstance(point, Iterate) else self.entries.iterate(point)
        if not self.terms_of_block:
            loss = self.loss.evaluate(iterate.z, warm, fixed, nearly)
        else:
            squares = self.squares_at(iterate)
            loss = self.loss.evaluate(
                iterate.z, warm, fixed, nearly, squares=squares, fixed_blocks=self.fixed_blocks
            )
        return self.add_smooth_terms(iterate, loss)

    def gradient_changes(self, evaluation: Evaluation, factor: float) -> Callable[[Array], Array]:
        """The function from a move of Z to ``factor`` times the change of the losses' gradient.

        To first order, by differences, with all effects solved for anew. Moves and changes are
        dense, in 32 bits. The next call overwrites the array that a call returns.
        """
        change, flat = np.zeros(self.shape, dtype=np.float32), self.entries.flat
        reach = DIFFERENCE_STEP * max(float(np.max(np.abs(evaluation.iterate.z))), self.unit)

        def change_along(move: Array) -> Array:
            moved = self.entries.times_scales(np.take(move, flat, mode="clip").astype(np.float64))
            longest = float(np.max(np.abs(moved)))
            share = reach / longest if longest > 0.0 else 1.0
            gradient = self.loss.evaluate(
                evaluation.iterate.z + share * moved, evaluation.effects
            ).gradient
            changed = self.entries.times_scales(gradient - evaluation.entry_gradients)
            change.ravel()[flat] = changed * (factor / share)
            return change

        return change_along

    def evaluate_at(self, point: Iterate | LowRank | Array, effects: BlockEffects) -> Evaluation:
        """Evaluate the program at given effects, which stay as they are."""
        iterate = point if isinstance(point, Iterate) else self.entries.iterate(point)
        return self.add_smooth_terms(iterate, self.loss.evaluate_at(iterate.z, effects))

    def extrapolate(
        self, iterate: Iterate, theta: float, current: Evaluation, previous: Evaluation
    ) -> Evaluation | None:
        """The program at X + theta (X - X before), from its values at X and at the X before.

        For steps alone. Quadratic losses are exact. Others are off by the third power of the move,
        and their gradients by the second; None if the move is too long for that.
        """
        moved = iterate.z - current.iterate.z
        if self.terms_of_block:  # along which the losses do not rise as their gradients say
            return None
        if not all(
            block_loss.keeps_curvature(moved[block_loss.part])
            for block_loss in self.loss.block_losses
        ):
            return None
        change = theta * (current.entry_gradients - previous.entry_gradients)
        rise = float(np.dot(current.entry_gradients + 0.5 * change, moved))
        effects = tuple(
            None if now is None or then is None else now + theta * (now - then)
            for now, then in zip(current.effects, previous.effects, strict=True)
        )
        value = current.losses_of_entries + rise
        return self.add_smooth_terms(
            iterate, LossAt(value, current.entry_gradients + change, effects)
        )

    def add_smooth_terms(self, iterate: Iterate, loss: LossAt) -> Evaluation:
        """The losses of entries, with those of unlabeled cells and the smooth terms added."""
        background = self.background.at(iterate.latent, iterate.z)
        losses = loss.value, loss.gradient, loss.effects
        evaluation = Evaluation(self.entries, iterate, background, *losses)
        if not self.terms:
            return evaluation
        values_and_duals = [
            t.value_and_dual(iterate.columns(t.columns), loss.effects) if t.smooth else (0.0, None)
            for t in self.terms
        ]
        values, duals = zip(*values_and_duals, strict=True)
        blocks = tuple(
            (term.columns, term.gradient_of(dual))
            for term, dual in zip(self.terms, duals, strict=True)
            if dual is not None
        )
        return attrs.evolve(evaluation, values=values, duals=duals, blocks=blocks)

    def effects_by_block(self, solved: BlockEffects) -> dict[str, Array]:
        """The free effects that were solved for, by block name."""
        pairs = zip(self.names, solved, strict=False)
        return {name: bias for name, bias in pairs if bias is not None}

    def with_smooth_parts(
        self, multipliers: Sequence[Array | None], stiffness: Sequence[float]
    ) -> "Program":
        """The program with each nonsmooth block, then each nonsmooth term, made smooth.

        There is one multiplier and one stiffness for each block and then each term; those of
        smooth ones are None.
        """
        envelopes = list(zip(multipliers, stiffness, strict=True))
        n_blocks = len(self.loss.block_losses)
        block_losses = tuple(
            smoothed_block_loss(block_loss, *envelope)
            for block_loss, envelope in zip(
                self.loss.block_losses, envelopes[:n_blocks], strict=True
            )
        )
        terms = tuple(
            term if envelope is None else attrs.evolve(term, multiplier=envelope, stiffness=beta)
            for term, (envelope, beta) in zip(self.terms, envelopes[n_blocks:], strict=True)
        )
        return attrs.evolve(
            self, loss=attrs.evolve(self.loss, block_losses=block_losses), terms=terms
        )

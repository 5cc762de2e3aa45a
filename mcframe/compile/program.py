"""A problem as numbers only: what the first-order solvers read."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.compile.entries import Entries, Evaluation, Place, pays_in_factors
from mcframe.compile.loss import EntryLoss, LossAt, Solved, smoothed_piece
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank
from mcframe.numerics.unlabeled import Background

# A difference of gradients is taken over so much of the largest entry of Z.
NEARBY = 1e-5


@attrs.frozen(eq=False)
class Program:
    """minimise F(Z) + R(W) + sum of terms(Z) over W of ``shape``, Z = W but for scales.

    F is the loss of ``entries``, which say where in Z they stand and how W is held, and have the
    scales a and b of ``Z = diag(a) W diag(b)``, if any. R, the main regularizer, covers all of W:
    ``penalty``, a ``SpectralPenalty``, a ``FactoredPenalty`` or a ``RowPenalty``. ``terms`` are
    others at their columns. ``names`` and ``columns`` are the blocks' names and their columns of
    Z, piece by piece. ``background`` is the loss of cells that are no entries: where there are
    some, ``loss`` is not all of F, and W has to be in factors. ``unit`` is the size of predictors
    that fit the entries roughly; where all data are 0 it is the size of the nearest point of the
    constraints, and 1 without any.
    """

    entries: Entries
    loss: EntryLoss
    background: Background
    penalty: Any
    names: tuple[str, ...]
    columns: tuple[slice, ...]
    terms: tuple[Any, ...] = ()
    unit: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of Z."""
        return self.entries.shape

    @property
    def main(self) -> Any:
        """The main regularizer as the word that it is; None of a ridge alone."""
        return self.penalty.main

    def variable(self, latent: LowRank) -> LowRank:
        """The W of a Z."""
        scales = self.entries.scales
        return latent if scales is None else scales.inverse.of(latent)

    def latent(self, variable: LowRank) -> LowRank:
        """The Z of a W."""
        scales = self.entries.scales
        return variable if scales is None else scales.of(variable)

    @property
    def plain(self) -> bool:
        """Whether all but the main regularizer is smooth: no multipliers are needed."""
        return self.loss.smooth and all(term.smooth for term in self.terms)

    @property
    def curvature(self) -> float:
        """An upper bound on the curvature of F and all smooth terms in Z."""
        return self.highest([piece.curvature for piece in self.loss.pieces])

    def curvature_at(self, evaluation: Evaluation) -> float:
        """The curvature where it is bounded, else at these entries: for a first step length."""
        own = self.loss.curvatures_at(evaluation.place.z, evaluation.effects)
        # Flat everywhere, as counts of 0 alone are with a bias: any positive number will do.
        found = self.highest(own)
        return found if found > 0.0 else max(float(np.max(p.scale)) for p in self.loss.pieces)

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

    def held_for(self, in_factors: bool, dense: bool = True) -> "Program":
        """The program, Z kept in factors or written out, for a solver of these facts.

        The one place where that is decided; see ``pays_in_factors``.
        """
        # Terms are written out at their columns, of no more cells than there are entries.
        few = self.shape[0] * sum(term.width for term in self.terms) <= self.entries.size
        many = few and pays_in_factors(self.shape, self.entries.size, in_factors, dense)
        sparse = many or bool(self.background)
        return attrs.evolve(
            self, entries=self.entries.with_form(sparse, self.entries.random_state)
        )

    def with_seed(self, random_state: int) -> "Program":
        """The program with another seed for random starts."""
        return attrs.evolve(
            self, entries=self.entries.with_form(self.entries.sparse, random_state)
        )

    @property
    def n_numbers(self) -> int:
        """The number of entries of Z that losses read."""
        return self.entries.size

    def evaluate(
        self,
        at: Place | LowRank | Array,
        warm: Solved | None = None,
        given: Solved | None = None,
        nearly: bool = False,
    ) -> Evaluation:
        """The losses and the smooth terms at a W, with their gradient and the best effects.

        ``warm`` are effects from a nearby point: the start of their solves, or with ``nearly``,
        for steps alone and never for a certificate, of one Newton step where that will do. Of
        losses without a gradient the effects that are ``given`` stay as they are.
        """
        place = at if isinstance(at, Place) else self.entries.place(at)
        return self.add_smooth_terms(place, self.loss.evaluate(place.z, warm, given, nearly))

    def gradient_changes(self, at: Evaluation, factor: float) -> Callable[[Array], Array]:
        """How the gradient of the losses changes along a move of Z, to first order, as a function.

        ``factor`` times that. Of moves and changes written out, in 32 bits; the function's array
        is its own, and is overwritten by the next call. By differences, with all effects solved
        for anew.
        """
        change, flat = np.zeros(self.shape, dtype=np.float32), self.entries.flat
        near = NEARBY * max(float(np.max(np.abs(at.place.z))), self.unit)

        def change_along(move: Array) -> Array:
            moved = self.entries.times_scales(np.take(move, flat, mode="clip").astype(np.float64))
            longest = float(np.max(np.abs(moved)))
            share = near / longest if longest > 0.0 else 1.0
            gradient = self.loss.evaluate(at.place.z + share * moved, at.effects).gradient
            changed = self.entries.times_scales(gradient - at.entry_gradients)
            change.ravel()[flat] = changed * (factor / share)
            return change

        return change_along

    def evaluate_at(self, at: Place | LowRank | Array, effects: Solved) -> Evaluation:
        """Evaluate the program at given effects, which stay as they are."""
        place = at if isinstance(at, Place) else self.entries.place(at)
        return self.add_smooth_terms(place, self.loss.evaluate_at(place.z, effects))

    def extrapolate(
        self, place: Place, theta: float, here: Evaluation, before: Evaluation
    ) -> Evaluation | None:
        """The program at X + theta (X - X before), from its values at both these.

        For steps alone. The losses of entries are exact where they are quadratic, else off by the
        third power of the move and their gradients by its second; None where it is too long for
        that.
        """
        moved = place.z - here.place.z
        if not all(piece.bends_alike(moved[piece.part]) for piece in self.loss.pieces):
            return None
        bent = theta * (here.entry_gradients - before.entry_gradients)
        rise = float(np.dot(here.entry_gradients + 0.5 * bent, moved))
        effects = tuple(
            None if now is None or then is None else now + theta * (now - then)
            for now, then in zip(here.effects, before.effects, strict=True)
        )
        value = here.losses_of_entries + rise
        return self.add_smooth_terms(place, LossAt(value, here.entry_gradients + bent, effects))

    def add_smooth_terms(self, place: Place, at: LossAt) -> Evaluation:
        """The losses of entries, with those of unlabeled cells and the smooth terms added."""
        behind = self.background.at(place.latent, place.z)
        evaluation = Evaluation(self.entries, place, behind, at.value, at.gradient, at.effects)
        if not self.terms:
            return evaluation
        found = [
            t.value_and_dual(place.columns(t.columns)) if t.smooth else (0.0, None)
            for t in self.terms
        ]
        values, duals = zip(*found, strict=True)
        blocks = tuple(
            (term.columns, term.gradient_of(dual))
            for term, dual in zip(self.terms, duals, strict=True)
            if dual is not None
        )
        return attrs.evolve(evaluation, values=values, duals=duals, blocks=blocks)

    def effects_by_block(self, solved: Solved) -> dict[str, Array]:
        """The free effects that were solved for, by block name."""
        pairs = zip(self.names, solved, strict=False)
        return {name: bias for name, bias in pairs if bias is not None}

    def with_smooth_parts(
        self, multipliers: Sequence[Array | None], stiffness: Sequence[float]
    ) -> "Program":
        """The program with each nonsmooth piece, then each nonsmooth term, made smooth.

        There is one multiplier and one stiffness for each piece and then each term; those of
        smooth ones are None.
        """
        given = list(zip(multipliers, stiffness, strict=True))
        n_pieces = len(self.loss.pieces)
        pieces = tuple(
            smoothed_piece(piece, *own)
            for piece, own in zip(self.loss.pieces, given[:n_pieces], strict=True)
        )
        terms = tuple(
            term if own is None else attrs.evolve(term, multiplier=own, stiffness=beta)
            for term, (own, beta) in zip(self.terms, given[n_pieces:], strict=True)
        )
        return attrs.evolve(self, loss=attrs.evolve(self.loss, pieces=pieces), terms=terms)

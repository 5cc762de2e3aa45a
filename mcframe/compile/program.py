"""A problem as numbers only: what the first-order solvers read."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.compile.attached import Attached, Moreau
from mcframe.compile.background import Background
from mcframe.compile.entries import Entries, Place, pays_in_factors
from mcframe.compile.envelope import Envelope
from mcframe.compile.evaluation import Evaluation
from mcframe.compile.loss import EntryLoss, LossAt
from mcframe.compile.penalty import SpectralPenalty
from mcframe.compile.piece import Piece
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.term import Factored
from mcframe.likelihoods import Gaussian
from mcframe.numerics.operators import LowRank

__all__ = ["Program"]


@attrs.frozen(eq=False)
class Program:
    """minimise F(Z) + R(Z) + sum of terms(Z) over Z of ``shape``.

    F is the loss of ``entries``, which say where in Z they stand and how Z is held. R, the main
    term, covers all of Z: ``penalty``, a function of singular values, or ``factored``, one of
    factors; one of them is None. ``terms`` are others at their columns; ``ones`` says whether Z's
    last column is fixed to 1. ``names`` are the blocks' names, piece by piece. ``background``, if
    there is one, is the loss of cells that are no entries: ``loss`` is then not all of F, and only
    Z in factors will do. ``unit`` is the size of predictors that fit the entries roughly.
    """

    entries: Entries
    loss: EntryLoss
    penalty: SpectralPenalty
    names: tuple[str, ...]
    ones: bool = False
    factored: Factored | None = None
    terms: tuple[Any, ...] = ()
    background: Background | None = None
    unit: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of Z."""
        return self.entries.shape

    @property
    def plain(self) -> bool:
        """Whether all but the main term is smooth: no multipliers are needed."""
        rough = any(isinstance(term, Attached) and not term.smooth for term in self.terms)
        return self.loss.smooth and not rough and not self.ones

    @property
    def curvature(self) -> float:
        """An upper bound on the curvature of F and all smooth terms in Z."""
        return self.loss.curvature + sum(term.curvature for term in self.terms)

    def curvature_at(self, evaluation: Evaluation) -> float:
        """The same where it is bounded, else at these entries: a first step length."""
        own = self.loss.curvature_at(evaluation.place.z, evaluation.effects)
        return own + sum(term.curvature for term in self.terms)

    def held_for(self, in_factors: bool) -> "Program":
        """The same, Z kept in factors or written out: for a solver that works on factors, or not.

        The one place where that is decided.
        """
        many = not self.terms and pays_in_factors(self.shape, self.entries.size, in_factors)
        sparse = many or self.background is not None
        if sparse == self.entries.sparse:
            return self
        return attrs.evolve(self, entries=attrs.evolve(self.entries, sparse=sparse))

    def evaluate(
        self,
        at: Place | LowRank | Array,
        warm: tuple[Array | None, ...] | None = None,
        given: tuple[Array | None, ...] | None = None,
    ) -> Evaluation:
        """The losses and the smooth terms at a Z, with their slope and the best effects.

        ``warm`` are effects from a nearby point: the start of their solves. Of losses without a
        slope the effects that are ``given`` stay as they are.
        """
        place = at if isinstance(at, Place) else self.entries.place(at)
        return self.completed(place, self.loss.evaluate(place.z, warm, given))

    def evaluate_at(
        self, at: Place | LowRank | Array, effects: tuple[Array | None, ...]
    ) -> Evaluation:
        """The same at given effects, which stay as they are."""
        place = at if isinstance(at, Place) else self.entries.place(at)
        return self.completed(place, self.loss.evaluate_at(place.z, effects))

    def completed(self, place: Place, at: LossAt) -> Evaluation:
        """The losses of entries, with those of unlabeled cells and the smooth terms added."""
        evaluation = Evaluation(self.entries, place, at.value, at.slope, at.effects)
        if self.background is not None:
            behind = self.background.at(place.factors, place.z)
            return attrs.evolve(evaluation, losses=at.value + behind.value, behind=behind)
        if not self.terms:
            return evaluation
        found = [t.value_and_dual(place.array) if t.smooth else (0.0, None) for t in self.terms]
        values, duals = zip(*found, strict=True)
        blocks = tuple(
            (term.columns, term.pull(dual))
            for term, dual in zip(self.terms, duals, strict=True)
            if dual is not None
        )
        return attrs.evolve(evaluation, values=values, duals=duals, blocks=blocks)

    def biases(self, solved: tuple[Array | None, ...]) -> dict[str, Array]:
        """The loss's effects by block name."""
        pairs = zip(self.names, solved, strict=False)
        return {name: bias for name, bias in pairs if bias is not None}

    def with_multiplier(self, multiplier: Array, stiffness: float) -> "Program":
        """The same program with ``Z[:, -1] = 1`` moved into the loss.

        The augmented Lagrangian nu'(z - 1) + beta/2 ||z - 1||^2 of the last column z is,
        up to a constant, a Gaussian loss with weight beta and data 1 - nu/beta.
        """
        n_rows, n_columns = self.shape
        rows: IntArray = np.arange(n_rows)
        piece = Piece(
            likelihood=Gaussian(),
            scale=stiffness,
            y=1.0 - multiplier / stiffness,
            rows=rows,
            columns=np.zeros(n_rows, dtype=np.intp),
            part=slice(0, 0),
        )
        entries = self.entries.joined(rows, np.full(n_rows, n_columns - 1), piece.y)
        return attrs.evolve(self, entries=entries, loss=self.loss.joined(piece), ones=False)

    def softened(
        self, multipliers: Sequence[Array | None], stiffness: Sequence[float]
    ) -> "Program":
        """The same program with each rough piece, then each rough term, made smooth.

        There is one multiplier and one stiffness for each piece and then each term; those of
        smooth ones are None.
        """
        n_pieces = len(self.loss.pieces)
        pieces = tuple(
            softened_piece(piece, multiplier, beta)
            for piece, multiplier, beta in zip(
                self.loss.pieces, multipliers[:n_pieces], stiffness[:n_pieces], strict=True
            )
        )
        terms = tuple(
            term if multiplier is None else Moreau(term, multiplier, beta)
            for term, multiplier, beta in zip(
                self.terms, multipliers[n_pieces:], stiffness[n_pieces:], strict=True
            )
        )
        return attrs.evolve(self, loss=attrs.evolve(self.loss, pieces=pieces), terms=terms)


def softened_piece(piece: Piece, multiplier: Array | None, stiffness: float) -> Piece:
    """A piece whose loss is replaced by its Moreau envelope."""
    if multiplier is None:
        return piece
    scale = piece.scale * np.ones(piece.y.size)
    envelope = Envelope(
        inner=piece.likelihood, step=scale / stiffness, shift=multiplier / stiffness
    )
    return attrs.evolve(piece, likelihood=envelope, scale=scale)

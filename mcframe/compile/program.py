"""A problem as numbers only: what the first-order solvers read."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.attached import Attached, Moreau
from mcframe.compile.background import Background, Behind
from mcframe.compile.envelope import Envelope
from mcframe.compile.loss import EntryLoss, Evaluation
from mcframe.compile.penalty import SpectralPenalty
from mcframe.compile.piece import Piece
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.term import Factored
from mcframe.likelihoods import Gaussian
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.sampled import Pattern, Sampled, SampledMatrix

__all__ = ["Program"]


@attrs.frozen(eq=False)
class Program:
    """minimise F(Z) + R(Z) + sum of terms(Z) over Z of ``shape``.

    F is the loss of entries. R, the main term, covers all of Z: ``penalty``, a function of
    singular values, or ``factored``, one of factors; one of them is None. ``terms`` are
    others at their columns; ``ones`` says whether Z's last column is fixed to 1. ``names`` are
    the blocks' names, piece by piece. ``background``, if there is one, is the loss of cells that
    are no entries: ``loss`` is then not all of F, and only Z in factors will do. ``unit`` is the
    size of predictors that fit the entries roughly; ``random_state`` and the bits of the data are
    what random starts of certificates are drawn from.
    """

    shape: tuple[int, int]
    loss: EntryLoss
    penalty: SpectralPenalty
    names: tuple[str, ...]
    ones: bool = False
    factored: Factored | None = None
    terms: tuple[Any, ...] = ()
    background: Background | None = None
    unit: float = 1.0
    random_state: int = 0

    @property
    def plain(self) -> bool:
        """Whether all but the main term is smooth: no multipliers are needed."""
        rough = any(isinstance(term, Attached) and not term.smooth for term in self.terms)
        return self.loss.smooth and not rough and not self.ones

    @property
    def curvature(self) -> float:
        """An upper bound on the curvature of F and all smooth terms in Z."""
        return self.loss.curvature + sum(term.curvature for term in self.terms)

    def curvature_at(self, z: Array, biases: tuple[Array | None, ...]) -> float:
        """The same where it is bounded, else at these entries: a first step length."""
        return self.loss.curvature_at(z, biases) + sum(term.curvature for term in self.terms)

    @cached_property
    def flat(self) -> IntArray:
        """Where each number of the loss stands in Z, raveled."""
        places: IntArray = self.loss.rows * self.shape[1] + self.loss.columns
        return places

    @cached_property
    def pattern(self) -> Pattern:
        """Where the numbers of the loss stand, by rows and by columns."""
        pattern = Pattern.of(self.shape, self.loss.rows, self.loss.columns)
        values = np.concatenate([piece.y for piece in self.loss.pieces])
        return pattern.seeded_by(self.random_state, values)

    def behind(self, latent: LowRank, z: Array) -> Behind | None:
        """The background at Z, whose entries are z."""
        return None if self.background is None else self.background.at(latent, z)

    def evaluate_thin(
        self, latent: LowRank, z: Array, warm: tuple[Array | None, ...] | None = None
    ) -> Evaluation:
        """F at Z in factors, background included; slopes at its entries z."""
        evaluation, behind = self.loss.evaluate(z, warm), self.behind(latent, z)
        if behind is None:
            return evaluation
        return attrs.evolve(evaluation, value=evaluation.value + behind.value, behind=behind)

    def thin_slope(self, evaluation: Evaluation) -> Sampled:
        """The slope of F there."""
        if evaluation.behind is None:
            return SampledMatrix(self.pattern, evaluation.slope)
        return evaluation.behind.slope(self.pattern, evaluation.slope)

    def thin_gradients(
        self, evaluation: Evaluation, left: Array, right: Array, which: Any
    ) -> tuple[Array, Array]:
        """S V and S' U: the gradients of F(U V') in some columns of the factors evaluated.

        ``which`` says where these stand. It takes no further pass over unwritten cells.
        """
        sparse, behind = SampledMatrix(self.pattern, evaluation.slope), evaluation.behind
        if behind is None:
            return sparse.times(right), sparse.transposed_times(left)
        beyond = SampledMatrix(self.pattern, evaluation.slope - behind.at_entries)
        forward, backward = behind.products
        times, back = beyond.times(right), beyond.transposed_times(left)
        return times + forward[:, which], back + backward[:, which]

    def evaluate(
        self, z: Array, latent: Array, warm: tuple[Array | None, ...] | None = None
    ) -> Evaluation:
        """F and the smooth terms, with their slopes, at a dense Z whose entries are z."""
        return self.with_terms(self.loss.evaluate(z, warm), latent)

    def with_terms(self, evaluation: Evaluation, latent: Array) -> Evaluation:
        """An evaluation of the loss with the smooth terms added."""
        if not self.terms:
            return evaluation
        value, blocks, duals = evaluation.value, [], []
        for term in self.terms:
            own, dual = term.value_and_dual(latent)
            value += own
            duals.append(dual)
            blocks.append((term.columns, term.pull(dual)))
        return attrs.evolve(evaluation, value=value, blocks=tuple(blocks), duals=tuple(duals))

    def slope_matrix(self, evaluation: Evaluation) -> Array:
        """The whole slope in Z, dense."""
        matrix = np.zeros(self.shape)
        matrix.ravel()[self.flat] = evaluation.slope
        for columns, slope in evaluation.blocks:
            matrix[:, columns] += slope
        return matrix

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
        columns: IntArray = np.full(n_rows, n_columns - 1)
        loss = self.loss.joined(piece, rows, columns)
        return attrs.evolve(self, loss=loss, ones=False)

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

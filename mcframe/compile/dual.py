"""Points of the dual of a program: where weak duality gives a bound."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.entries import Evaluation
from mcframe.compile.loss import Known, Solved
from mcframe.compile.penalty import Attached
from mcframe.compile.program import Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.contracts.term import Composed, Constraint
from mcframe.numerics.operators import Operator
from mcframe.numerics.unlabeled import Behind


@attrs.frozen(eq=False)
class Dual:
    """What a solver with multipliers knows of the dual.

    A gradient for each number of the losses, a dual matrix for each term (None where the term's
    own gradient will do), and F* at the gradient for each loss that has no conjugate. ``given``
    are the effects of the point: those of losses without a gradient cannot be solved for.
    """

    gradient: Array
    terms: tuple[Array | None, ...]
    given: Solved
    known: Known

    @classmethod
    def of(cls, program: Program, at: Evaluation, terms: tuple[Array | None, ...]) -> "Dual":
        """The gradients of an evaluation of the program, or of one made smooth.

        F* at the gradients of a loss without a conjugate is that of the same evaluation.
        """
        known = program.loss.known_conjugates(at.place.z, at.effects)
        return cls(at.entry_gradients, terms, at.effects, known)


@attrs.frozen(eq=False)
class DualPoint:
    """A gradient S for the losses and dual matrices Y_t of the terms.

    Of unlabeled cells (``behind``) ``share`` times their gradient; of losses without a conjugate
    F* at ``known`` gradients, of which S is ``share`` times.
    """

    program: Program
    gradient: Array
    terms: tuple[Array, ...]
    known: Known
    behind: Behind
    share: float = 1.0
    finite: bool = True  # whether no loss overflowed

    @property
    def matrix(self) -> Operator:
        """S + sum of K_t' Y_t: what the main regularizer takes up."""
        pairs = zip(self.program.terms, self.terms, strict=True)
        blocks = [(term.columns, term.gradient_of(dual)) for term, dual in pairs]
        gradient = self.behind.beyond(self.gradient, self.share)
        return self.program.entries.matrix(gradient, blocks, self.behind.gradients(self.share))

    def multiple(self, scale: float) -> "DualPoint":
        """All of it scaled."""
        if scale == 1.0:
            return self
        terms = tuple(scale * dual for dual in self.terms)
        share, gradient = scale * self.share, scale * self.gradient
        return attrs.evolve(self, gradient=gradient, terms=terms, share=share)

    def repair(self, scale: float) -> "DualPoint":
        """Scaled, then moved to the nearest point of every domain but the main regularizer's."""
        scaled = self.multiple(scale)
        gradient = self.program.loss.nearest_gradient(scaled.gradient)
        return attrs.evolve(scaled, gradient=gradient, terms=scaled.nearest_terms())

    def without_rounding(self) -> "DualPoint":
        """Dual matrices and gradients that rounding left just outside of a domain moved in."""
        gradient = self.program.loss.clip(self.gradient)
        return attrs.evolve(self, gradient=gradient, terms=self.nearest_terms())

    def nearest_terms(self) -> tuple[Array, ...]:
        """The nearest dual matrices at which the terms' conjugates are finite."""
        pairs = zip(self.program.terms, self.terms, strict=True)
        return tuple(term.nearest_dual(dual) for term, dual in pairs)

    def without_main(self) -> "DualPoint":
        """A point close by that leaves the main regularizer as little to take up as can be.

        Each term takes what is left at its columns, as far as its domain allows, and the gradients
        of the losses become what the terms stand against. Where the optimum does not touch a ball
        it takes up nothing, and what convergence has left of it would cost the ball's radius.
        """
        terms, left = list(self.terms), self.matrix.dense()
        for k, term in enumerate(self.program.terms):
            if not isinstance(term.term, Composed):
                rest = term.natural(left[:, term.columns], -1)
                terms[k] = term.nearest_dual(terms[k] - rest)
                left[:, term.columns] += term.gradient_of(terms[k] - self.terms[k])
        own = attrs.evolve(self, gradient=np.zeros(self.gradient.size), terms=tuple(terms))
        entries = self.program.entries
        against = entries.times_scales(-own.matrix.dense().ravel()[entries.flat], -1)
        return attrs.evolve(own, gradient=self.program.loss.nearest_gradient(against))

    def conjugates(self) -> tuple[float, float]:
        """F*(S) + sum of f_t*(Y_t), and the size of the summands."""
        total, size = self.program.loss.conjugate(self.gradient, self.share, self.known)
        if not np.isfinite(total):  # what the others are does not matter
            return total, size
        for term, dual in zip(self.program.terms, self.terms, strict=True):
            value = term.conjugate(dual)
            total += value
            size += abs(value) + float(np.linalg.norm(dual)) * EPS
        unwritten, unsure = self.behind.conjugate(self.share)
        return total + unwritten, size + unsure

    def allowed_excess(self, length: float) -> float:
        """Bound on the objective error caused by the feasibility tolerance of the other sets.

        ``length`` is ||Z||_F of the candidate.
        """
        sets = 0.0
        for attached, dual in zip(self.program.terms, self.terms, strict=True):
            if isinstance(attached.term, Constraint):
                sets += attached.term.room(dual, attached.stretch * length)
        return sets + self.program.loss.allowed_excess(self.gradient)

    def imbalance(self, effects: Solved) -> float:
        """Bound on the change of the objective by sums over free effects that do not vanish."""
        return self.program.loss.imbalance(self.gradient, effects)


def dual_point(program: Program, at: Evaluation, dual: Dual | None) -> DualPoint:
    """The dual point of an evaluated candidate: its own gradients, or what a solver knows better.

    Of the gradients what rounding left of sums over free effects is taken off. Of a nonsmooth term
    of which nothing is known it has the dual matrix 0.
    """
    duals: tuple[Any, ...] = (None,) * len(program.terms) if dual is None else dual.terms
    found = zip(program.terms, duals, at.duals, strict=True)
    terms = tuple(dual_matrix(term, known, own, at) for term, known, own in found)
    gradient, known = (at.entry_gradients, ()) if dual is None else (dual.gradient, dual.known)
    own = dual is None and program.loss.convex
    if own:
        program.loss.ask_ahead(gradient)
    finite = program.entries.finite(gradient)
    if finite:
        gradient = program.loss.centre(gradient)
        if own:
            known = program.loss.known_conjugates(at.place.z, at.effects)
    return DualPoint(program, gradient, terms, known, at.behind, finite=finite)


def dual_matrix(term: Attached, known: Array | None, own: Array | None, at: Evaluation) -> Array:
    """What is known of a term, else its gradient, else 0."""
    if known is not None:
        return known
    if own is not None:
        return own
    return np.zeros_like(term.forward(at.place.columns(term.columns)))

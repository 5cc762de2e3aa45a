"""A problem beside its program, compiled once for all that judge it or solve it."""

from functools import cached_property

import attrs

from mcframe.compile.compiling import compile_problem, recompile_terms, refusal
from mcframe.compile.program import Program
from mcframe.contracts.term import Term
from mcframe.model import Problem

__all__ = ["CompiledProblem"]


@attrs.frozen(eq=False)
class CompiledProblem:
    """A problem and its first-order program, which is compiled at the first look and kept.

    ``origin`` is another problem of the same blocks and data: its losses, all of a program that
    grows with the data, are shared and not compiled again.
    """

    problem: Problem
    origin: "CompiledProblem | None" = None

    @cached_property
    def refusal(self) -> str | None:
        """Why there is no program, as a clause; None if there is one. Nothing is compiled."""
        return refusal(self.problem)

    @cached_property
    def program(self) -> Program:
        """The program; a ``BackendError`` with the reason where there is none."""
        if self.origin is None or self.origin.refusal is not None:
            return compile_problem(self.problem)
        return recompile_terms(self.origin.program, self.problem)

    def with_weight(self, place: int, weight: float) -> "CompiledProblem":
        """The problem with another weight of the term at a place; the losses are shared."""
        return CompiledProblem(self.problem.with_weight(place, weight), self)

    def with_terms(self, terms: tuple[Term, ...]) -> "CompiledProblem":
        """The problem under other terms, bound to its data already; the losses are shared."""
        return CompiledProblem(attrs.evolve(self.problem, terms=terms), self)

"""Terms beside the main one, at their columns of Z."""

from typing import Any

import attrs

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Composed, Constraint, SmoothTerm, Term

__all__ = ["Attached"]


@attrs.frozen(eq=False)
class Attached:
    """A term and the columns of Z that it speaks of, which its methods are given.

    Of a ``Composed`` term dual matrices are those of its inner one; ``pull`` carries them to
    Z.
    """

    term: Term
    columns: slice

    @property
    def smooth(self) -> bool:
        """Whether it has a gradient."""
        return isinstance(self.term, SmoothTerm)

    @property
    def curvature(self) -> float:
        """The Lipschitz constant of the gradient of a smooth term."""
        assert isinstance(self.term, SmoothTerm)
        return self.term.curvature

    @property
    def width(self) -> int:
        """How many columns these are."""
        return self.columns.stop - self.columns.start

    @property
    def fixed(self) -> float | None:
        """The value that all entries of its columns have, where it is a set of that alone."""
        return self.term.fixed if isinstance(self.term, Constraint) else None

    def value(self, own: Array) -> float:
        """The term at the columns it reads."""
        return self.term.value(own)

    def value_and_dual(self, own: Array) -> tuple[float, Array]:
        """Value and gradient of a smooth term."""
        assert isinstance(self.term, SmoothTerm)
        return self.term.value_and_gradient(own)

    def forward(self, own: Array) -> Array:
        """What the prox acts on."""
        return self.term.forward(own) if isinstance(self.term, Composed) else own

    def pull(self, dual: Array) -> Array:
        """A dual matrix as a gradient over the term's columns."""
        return self.term.adjoint(dual) if isinstance(self.term, Composed) else dual

    def prox(self, image: Array, step: float) -> tuple[Array, float]:
        """The prox of what the map leads to."""
        inner: Any = self.term.inner if isinstance(self.term, Composed) else self.term
        nearest: tuple[Array, float] = inner.prox(image, step)
        return nearest

    def conjugate(self, dual: Array) -> float:
        """An upper bound on the conjugate at ``pull(dual)``."""
        if isinstance(self.term, Composed):
            value: float = self.term.inner.conjugate(dual) + self.term.pairing(dual)
            return value
        return self.term.conjugate(dual)

    def nearest_dual(self, dual: Array) -> Array:
        """The nearest dual matrix at which that is finite."""
        inner: Any = self.term.inner if isinstance(self.term, Composed) else self.term
        nearest: Array = inner.nearest_dual(dual)
        return nearest

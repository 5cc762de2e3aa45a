"""Terms beside the main one, at their columns of Z: smooth ones, and rough ones made smooth."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Composed, SmoothTerm, Term

__all__ = ["Attached", "Moreau"]


@attrs.frozen(eq=False)
class Attached:
    """A term and the columns of Z that it speaks of.

    Of a ``Composed`` term dual matrices are those of its inner one; ``pull`` carries them to
    Z.
    """

    term: Term
    columns: slice

    @property
    def smooth(self) -> bool:
        """Whether it has a slope."""
        return isinstance(self.term, SmoothTerm)

    @property
    def curvature(self) -> float:
        """Of its slope."""
        assert isinstance(self.term, SmoothTerm)
        return self.term.curvature

    def value(self, latent: Array) -> float:
        """The term at its columns of a dense Z."""
        return self.term.value(latent[:, self.columns])

    def value_and_dual(self, latent: Array) -> tuple[float, Array]:
        """Of a smooth term: value and slope at its columns of a dense Z."""
        assert isinstance(self.term, SmoothTerm)
        return self.term.value_and_slope(latent[:, self.columns])

    def forward(self, latent: Array) -> Array:
        """What the prox acts on."""
        own = latent[:, self.columns]
        return self.term.forward(own) if isinstance(self.term, Composed) else own

    def pull(self, dual: Array) -> Array:
        """A dual matrix as a slope over the term's columns."""
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


@attrs.frozen(eq=False)
class Moreau:
    """min over X of f(X) + stiffness/2 ||X - (K Z - c) - multiplier/stiffness||^2.

    The Moreau envelope of an attached term's f: smooth, with the slope K' Y where
    ``Y = stiffness (K Z - c + multiplier/stiffness - X)`` is a subgradient of f at the
    minimiser X, so that the conjugate of f is finite at Y.
    """

    attached: Attached
    multiplier: Array
    stiffness: float

    smooth = True

    @property
    def columns(self) -> slice:
        """Those of the term."""
        return self.attached.columns

    @property
    def curvature(self) -> float:
        """The stiffness."""
        return self.stiffness

    def value_and_dual(self, latent: Array) -> tuple[float, Array]:
        """The envelope at a dense Z, and Y; (Y - multiplier) / stiffness is K Z - c - X."""
        image = self.attached.forward(latent) + self.multiplier / self.stiffness
        nearest, value = self.attached.prox(image, 1.0 / self.stiffness)
        dual = self.stiffness * (image - nearest)
        return value + 0.5 * float(np.vdot(dual, dual)) / self.stiffness, dual

    def pull(self, dual: Array) -> Array:
        """K' Y."""
        return self.attached.pull(dual)

"""Terms other than the main regularizer, at their columns of Z."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Composed, Constraint, SmoothTerm, Term


@attrs.frozen(eq=False)
class Attached:
    """A term and the columns of W that it speaks of, which its methods are given.

    Of a ``Composed`` term dual matrices are those of its inner one; ``gradient_of`` carries them
    to W. The term itself is given ``factor * W``, entry by entry, where there is one.

    With a ``multiplier`` it is the Moreau envelope of the term, of this ``stiffness``: see
    ``SmoothedLoss``.
    """

    term: Term
    columns: slice
    factor: Array | None = None
    multiplier: Array | None = None
    stiffness: float = 0.0

    @property
    def smooth(self) -> bool:
        """Whether it has a gradient."""
        return isinstance(self.term, SmoothTerm) or self.multiplier is not None

    @property
    def curvature(self) -> float:
        """The Lipschitz constant of the gradient of a smooth term."""
        term: Any = self.term
        own = self.stiffness if self.multiplier is not None else term.curvature
        return float(self.stretch**2 * own)

    @property
    def inner(self) -> Any:
        """The term that the prox and dual matrices are of."""
        return self.term.inner if isinstance(self.term, Composed) else self.term

    @property
    def stretch(self) -> float:
        """The largest factor."""
        return 1.0 if self.factor is None else float(np.max(self.factor))

    def natural(self, own: Array, power: int = 1) -> Array:
        """The columns of W as the term is given them, or the way back with ``power`` -1."""
        if self.factor is None:
            return own
        return own * self.factor if power == 1 else own / self.factor

    @property
    def width(self) -> int:
        """How many columns these are."""
        return self.columns.stop - self.columns.start

    @property
    def fixed(self) -> Any:
        """The entries of its columns, one for all or all, where it is a set of that alone."""
        if not isinstance(self.term, Constraint) or self.term.fixed is None:
            return None
        return self.term.fixed if self.factor is None else self.term.fixed / self.factor[:, 0]

    def value(self, own: Array) -> float:
        """The term at the columns it reads."""
        return self.term.value(self.natural(own))

    def rounding(self, own: Array) -> float:
        """Bound on how far rounding moves that, beyond that of a short sum."""
        return self.term.rounding(self.natural(own))

    def value_and_dual(self, own: Array) -> tuple[float, Array]:
        """Value and dual matrix of a smooth term; of an envelope e(v) and Y.

        (Y - multiplier) / stiffness is then K Z - c - X.
        """
        if self.multiplier is None:
            assert isinstance(self.term, SmoothTerm)
            return self.term.value_and_gradient(self.natural(own))
        shifted = self.forward(own) + self.multiplier / self.stiffness
        nearest, value = self.prox(shifted, 1.0 / self.stiffness)
        dual = self.stiffness * (shifted - nearest)
        return value + 0.5 * float(np.vdot(dual, dual)) / self.stiffness, dual

    def forward(self, own: Array) -> Array:
        """What the prox acts on."""
        own = self.natural(own)
        return self.term.forward(own) if isinstance(self.term, Composed) else own

    def gradient_of(self, dual: Array) -> Array:
        """A dual matrix as a gradient over the term's columns."""
        return self.natural(self.term.adjoint(dual) if isinstance(self.term, Composed) else dual)

    def prox(self, image: Array, step: float) -> tuple[Array, float]:
        """The prox of what the map leads to."""
        return self.inner.prox(image, step)

    def project(self, own: Array) -> Array:
        """A point of a set, the nearest one to its columns of W if nothing scales these."""
        return self.natural(self.prox(self.natural(own), 1.0)[0], -1)

    def conjugate(self, dual: Array) -> float:
        """An upper bound on the conjugate at ``gradient_of(dual)``."""
        if isinstance(self.term, Composed):
            return self.term.inner.conjugate(dual) + self.term.pairing(dual)
        return self.term.conjugate(dual)

    def nearest_dual(self, dual: Array) -> Array:
        """The nearest dual matrix at which that is finite."""
        return self.inner.nearest_dual(dual)

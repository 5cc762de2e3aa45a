"""What a link of yes/no labels must give."""

from abc import ABC, abstractmethod
from typing import Any

from mcframe.contracts.arrays import Array


class Link(ABC):
    """A symmetric distribution function P, and the loss ``-log P(m)`` that it makes.

    The margin ``m = s z / scale`` with ``s = 2 y - 1`` is positive where z is on the side of
    the label. Since ``P(-m) = 1 - P(m)``, one function of m serves both labels: it is convex,
    falls from inf to 0, and is the whole negative log-likelihood. All methods are entrywise.
    """

    #: The supremum of the second derivative of the loss in m.
    curvature: float
    #: The supremum of minus its gradient: gradients fill the interval from there up to 0.
    steepness: float
    #: The gradient of ``-log P(m) + log P(-m)`` where that is a line through 0, else None.
    difference: float | None

    @abstractmethod
    def probability(self, m: Array) -> Array:
        """P(m)."""

    @abstractmethod
    def loss(self, m: Array) -> Array:
        """Return -log P(m), entrywise."""

    @abstractmethod
    def loss_and_gradient(self, m: Array) -> tuple[Array, Array]:
        """-log P(m) and its derivative, which is never positive."""

    @abstractmethod
    def second_derivative(self, m: Array) -> Array:
        """The second derivative of -log P(m)."""

    @abstractmethod
    def gaussian_bound(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """(value, precision, constant) of the best parabola below log P for m ~ N(mean, variance).

        As ``GaussianBound`` has it, of the margin.
        """

    @abstractmethod
    def conjugate(self, gradient: Array) -> Array:
        """sup over m of gradient * m + log P(m); ``inf`` outside its domain."""

    @abstractmethod
    def expression(self, cp: Any, m: Any, near: tuple[Array, float] | None = None) -> Any:
        """The loss as a DCP expression of CVXPY, or a lower bound on it where there is none.

        ``near`` says where a bound is to be tight: margins, and how far around them.
        """

    @abstractmethod
    def expression_error(self, near: tuple[Array, float], m: Array) -> Array:
        """The loss minus ``expression`` near these margins, at m."""

    @abstractmethod
    def formula(self, z: str, y: str, over_scale: str) -> str:
        """The loss as plain text; ``over_scale`` is "/scale", or nothing."""

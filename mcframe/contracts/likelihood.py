"""What a likelihood must give, and what it may give besides."""

from abc import ABC, abstractmethod
from typing import Any

from mcframe.contracts.arrays import Array, Mask

__all__ = ["Conjugate", "Likelihood", "Sampler", "TwiceDifferentiable"]


class Likelihood(ABC):
    """A convex entrywise loss l(z, y) of a linear predictor z and an observation y.

    A likelihood is a frozen object with parameters only: data and weights are arguments of
    its methods, never state. All methods are entrywise over arrays of one common shape and
    leave their arguments unharmed. Terms of l that do not depend on z are dropped, so that
    every backend and every test agrees on the value.
    """

    #: The data it accepts, as the end of the sentence "block 'labels' needs ...".
    needs: str
    #: What to do when the data are not of that kind, as a sentence.
    remedy: str
    #: How an observation is written in the printed model: x for a real value, y for a label.
    symbol: str = "y"
    #: Whether l is quadratic in z: its curvature is the same everywhere.
    quadratic: bool = False

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The supremum of the second derivative of l in z; ``inf`` where there is none."""

    @property
    @abstractmethod
    def infimum(self) -> float:
        """A lower bound on l(z, y) over all z and all valid y; ``-inf`` where there is none."""

    @abstractmethod
    def invalid(self, y: Array) -> Mask:
        """True where an observation lies outside the domain."""

    @abstractmethod
    def value(self, z: Array, y: Array) -> Array:
        """l(z, y), entrywise."""

    @abstractmethod
    def value_and_slope(self, z: Array, y: Array) -> tuple[Array, Array]:
        """l(z, y) and its derivative in z, in one pass."""

    @abstractmethod
    def mean(self, z: Array) -> Array:
        """E[y | z], the mean response: the inverse link."""

    @abstractmethod
    def start(self, y: Array) -> Array:
        """A natural parameter that fits y roughly: where an iteration may begin."""

    @abstractmethod
    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """The definition: l(z, y) as a DCP expression of CVXPY, entrywise over a vector.

        ``cp`` is the cvxpy module, passed in so that the vocabulary never imports it.
        """

    @abstractmethod
    def formula(self, z: str, y: str) -> str:
        """l as plain text, for ``print(model)``."""

    @abstractmethod
    def latex(self, z: str, y: str) -> str:
        """l as LaTeX, for notebooks."""


class Conjugate(ABC):
    """Ability: the convex conjugate in z, which turns a gradient into a certificate."""

    @abstractmethod
    def conjugate(self, slope: Array, y: Array) -> Array:
        """sup over z of slope * z - l(z, y), entrywise; ``inf`` outside the domain."""


class TwiceDifferentiable(ABC):
    """Ability: the second derivative in z, which lets a free bias be solved by Newton steps."""

    @abstractmethod
    def second_derivative(self, z: Array, y: Array) -> Array:
        """d2 l / dz2, entrywise."""


class Sampler(ABC):
    """Ability: draw observations given the linear predictor."""

    @abstractmethod
    def sample(self, z: Array, rng: Any) -> Array:
        """One draw of y for each entry of z; ``rng`` is a ``numpy.random.Generator``."""

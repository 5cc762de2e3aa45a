"""The main term's share of a bound: R* at what the others leave to it."""

from abc import ABC, abstractmethod

import attrs
import numpy as np

from mcframe.backends.certificate.rounding import summed_rounding
from mcframe.compile import DualPoint, FactoredPenalty, RowPenalty
from mcframe.compile.entries import LARGEST_GRAM
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS, NORM_SLACK
from mcframe.contracts.term import Factored
from mcframe.numerics.norms import norm_bound, norm_upper_bound, singular_value_bounds
from mcframe.numerics.operators import Dense, LowRank

__all__ = ["Aim", "MainTerm", "main_term"]


@attrs.frozen
class Aim:
    """How close a bound is wanted; by default as close as can be.

    ``slack`` is how far above a norm its bound may be, relatively, ``room`` how far below the
    objective the bound that follows may be, as an absolute number.
    """

    slack: float = 0.0
    room: float = 0.0


class MainTerm(ABC):
    """R*(-S) for the matrix S of one dual point, at any scale of it."""

    #: The largest scale up to 1 that is sure to make it finite.
    largest: float = 1.0

    @abstractmethod
    def conjugate(self, scale: float) -> float:
        """R*(-scale S), or an upper bound on it, up to ``rounding``."""

    def rounding(self, scale: float) -> float:
        """Bound on how far rounding moves that, beyond that of a short sum; by default 0."""
        return 0.0


class OfFactors(MainTerm):
    """The main term as a function of factors, with multipliers from those of the candidate."""

    def __init__(self, point: DualPoint, term: Factored, latent: LowRank, aim: Aim) -> None:
        self.term, self.matrix = term, point.matrix
        self.multipliers = term.bounding_multipliers(self.matrix, latent.balance(), aim.room)
        self.largest = term.feasible_scale(-self.matrix, self.multipliers)

    def conjugate(self, scale: float) -> float:
        """The conjugate at ``scale`` times the gradient, from multipliers scaled too."""
        return self.term.conjugate_from(-scale * self.matrix, scale * self.multipliers)


class OfSingularValues(MainTerm):
    """The main term as a function of singular values.

    Where it is finite in a ball alone the norm is all that counts. Norms of matrices at hand are
    bounded by factorisations, of others and of very large ones by Lanczos steps, to a relative
    ``slack``.
    """

    def __init__(self, point: DualPoint, slack: float) -> None:
        self.penalty = point.program.penalty
        radius = self.penalty.dual_radius
        if np.isfinite(radius):
            norm = norm_of(point, radius, slack)
            self.bounds: Array = np.array([norm])
            self.largest = 1.0 if norm <= radius else radius / norm
        else:
            self.bounds = singular_value_bounds(point.matrix.dense())

    def conjugate(self, scale: float) -> float:
        """The conjugate at ``scale`` times the gradient, from bounds on its singular values."""
        return self.penalty.conjugate(scale * self.bounds)


class OfRows(MainTerm):
    """The main term as a square of each row: finite at every scale, from some products of S.

    The conjugate of a sum is at most that of its parts at any two matrices with the same sum. So
    a ridge gets ``ridge * Z`` of the gradient, with the rows Z that are the best ones there, and
    no bound depends on how exactly these are known.
    """

    def __init__(self, point: DualPoint, penalty: RowPenalty) -> None:
        left, self.ridged, self.parted = -point.matrix.dense(), 0.0, 0.0
        if penalty.ridge:
            rows = penalty.squares.best_rows(left)
            own = penalty.ridge * rows
            self.ridged = float(np.vdot(own, own)) / (2.0 * penalty.ridge)
            left = left - own
            # The two parts have another sum by rounding, which counts as the rows are large.
            self.parted = EPS * float(np.vdot(np.abs(left), np.abs(rows)))
            self.parted += summed_rounding(self.ridged, own.size)
        self.taken = penalty.main.squares.dual(left)

    def conjugate(self, scale: float) -> float:
        """The conjugate at ``-scale`` times the gradient."""
        return self.taken.conjugate(scale) + scale**2 * self.ridged

    def rounding(self, scale: float) -> float:
        """Bound on how far rounding of the products, and of the two parts, moves the conjugate."""
        return self.taken.rounding(scale) + abs(scale) * self.parted


def main_term(point: DualPoint, latent: LowRank, aim: Aim) -> MainTerm:
    """The main term of a dual point which comes from a candidate."""
    penalty = point.program.penalty
    if isinstance(penalty, FactoredPenalty):
        return OfFactors(point, penalty.main, latent, aim)
    if isinstance(penalty, RowPenalty):
        return OfRows(point, penalty)
    return OfSingularValues(point, aim.slack)


def norm_of(point: DualPoint, radius: float, slack: float) -> float:
    """An upper bound on ||S||_2, which need not be close where it is below the radius."""
    if point.norm is not None:
        return point.norm
    matrix = point.matrix
    n_rows, n_columns = matrix.shape
    if isinstance(matrix, Dense) and n_rows * n_columns * min(matrix.shape) <= LARGEST_GRAM:
        return norm_upper_bound(matrix.array, NORM_SLACK)
    return norm_bound(matrix, radius, slack, point.program.entries.seed)

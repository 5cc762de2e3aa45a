"""The main term's share of a bound: R* at what the others leave to it."""

import numpy as np

from mcframe.compile import DualPoint, Program
from mcframe.compile.entries import LARGEST_GRAM
from mcframe.contracts.rounding import NORM_SLACK
from mcframe.numerics.operators import Dense, LowRank
from mcframe.numerics.spectra.lanczos import norm_bound
from mcframe.numerics.spectra.spectral_norm import norm_upper_bound, singular_value_bounds

__all__ = ["MainTerm", "main_of", "main_value"]


class MainTerm:
    """R*(-S) for the matrix S of one dual point, at any scale of it.

    Norms of matrices at hand are bounded by factorisations, of others and of very large ones by
    Lanczos steps, to a relative ``slack``. A term of factors takes multipliers from those of the
    candidate.
    """

    def __init__(self, point: DualPoint, latent: LowRank, slack: float) -> None:
        self.program, self.latent, self.slack = point.program, latent, slack
        self.matrix = matrix = point.matrix
        radius = self.program.penalty.dual_radius
        self.largest = 1.0
        if self.program.factored is not None:
            stacked = latent.balanced()
            self.multipliers = self.program.factored.bounding_multipliers(matrix, stacked)
            self.largest = self.program.factored.feasible_scale(-matrix, self.multipliers)
        elif np.isfinite(radius):
            norm = self.norm(point, radius)
            self.bounds = np.array([norm])
            self.largest = 1.0 if norm <= radius else radius / norm
        else:
            self.bounds = singular_value_bounds(matrix.dense())

    def of(self, point: DualPoint) -> "MainTerm":
        """The same for another dual point of the candidate."""
        return MainTerm(point, self.latent, self.slack)

    def beyond(self, largest: float) -> float:
        """What it is worth at the candidate that a dual point is 1 / ``largest`` times too long.

        It bounds the optimum of a weight so much larger.
        """
        return (1.0 / largest - 1.0) * main_value(self.program, self.latent)

    def norm(self, point: DualPoint, radius: float) -> float:
        """An upper bound on ||S||_2, which need not be close where it is below the radius."""
        if point.norm is not None:
            return point.norm
        n_rows, n_columns = self.matrix.shape
        cheap = n_rows * n_columns * min(n_rows, n_columns) <= LARGEST_GRAM
        if isinstance(self.matrix, Dense) and cheap:
            return norm_upper_bound(self.matrix.array, NORM_SLACK)
        return norm_bound(self.matrix, radius, self.slack, point.program.entries.pattern.seed)

    def conjugate(self, scale: float) -> float:
        """R*(-scale S), or an upper bound on it."""
        if self.program.factored is not None:
            dual, multipliers = -scale * self.matrix, scale * self.multipliers
            return self.program.factored.conjugate_from(dual, multipliers)
        return self.program.penalty.conjugate(scale * self.bounds)


def main_of(program: Program) -> object:
    """The main term, None beside a ridge alone."""
    return program.factored or program.penalty.main


def main_value(program: Program, latent: LowRank) -> float:
    """R at Z, of factors for its own factors."""
    if program.factored is not None:
        return program.factored.of_factors(latent.balanced())
    return program.penalty.of_singular_values(latent.singular_values())

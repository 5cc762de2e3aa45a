"""Rows of one factor, the other fixed: what alternation asks of the losses."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.evaluation import Evaluation
from mcframe.compile.program import Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.loops import kernels
from mcframe.numerics.operators import LowRank

__all__ = ["SHARES", "Lines", "NormalEquations"]

# Shares of a step that are tried where the full one is not sure to descend. Second derivatives far
# from the answer, as of rates that are far too low, make steps too long by any factor.
SHARES = (1.0, 0.5, 0.25, 0.1, *(10.0**-k for k in range(2, 15)))


@attrs.frozen(eq=False)
class NormalEquations:
    """``N_i u_i = b_i`` for the rows u_i of a factor: normals (n x k x k), images (n x k)."""

    normals: Array
    images: Array

    def __add__(self, other: "NormalEquations") -> "NormalEquations":
        return NormalEquations(self.normals + other.normals, self.images + other.images)

    def solutions(self, weight: float) -> Array:
        """(N_i + weight I)^-1 b_i, a row each."""
        n_lines, width = self.images.shape
        nothing: Any = np.zeros(0, dtype=np.uint32)  # as places are held
        none = np.zeros(1)
        shared = kernels.Shared(self.normals, np.ones(n_lines), self.images)
        out, starts = np.empty((n_lines, width)), np.zeros(n_lines + 1, dtype=np.int64)
        right = np.zeros((1, width))
        kernels.ridge_solutions(starts, nothing, nothing, none, none, right, weight, out, shared)
        return out


@attrs.frozen(eq=False)
class Lines:
    """F near Z = U V' as a quadratic of each entry, by rows of U or of V, effects fixed.

    Newton's: with second derivatives w each row u of U minimises a ridge regression on the rows
    of V at its entries, ``sum of w/2 (u'v - z + s/w)^2``, s the slopes.
    """

    program: Program
    at: Evaluation

    @cached_property
    def newton_weights(self) -> Array:
        """The second derivative for each number; one number for all where they are equal."""
        found = [(w, piece.n_numbers) for piece, w in self.by_pieces]
        if all(w.size == 1 for w, _ in found) and len({float(w[0]) for w, _ in found}) == 1:
            return found[0][0]
        return np.concatenate(
            [w if w.size == count else np.full(count, w[0]) for w, count in found]
        )

    @cached_property
    def by_pieces(self) -> list[tuple[Any, Array]]:
        """Each loss with its second derivatives."""
        pairs = zip(self.program.loss.pieces, self.at.effects, strict=True)
        z = self.at.place.z
        return [(piece, piece.newton_weights(piece.offset_part(z), own)) for piece, own in pairs]

    @property
    def sure(self) -> bool:
        """Whether the second derivatives are nowhere larger, so that full steps descend."""
        return all(np.all(w >= p.curvature * (1.0 - 1e-12)) for p, w in self.by_pieces)

    def ridge_solutions(self, other: Array, weight: float, by_rows: bool) -> Array:
        """New rows of one factor: ridge regressions of this weight on the other factor.

        Each line's normal equations are accumulated and solved in one loop, and then forgotten.
        """
        curvature, pull, shared = self.quadratics(by_rows)
        lines = self.program.entries.pattern.lines(by_rows)
        fresh = np.empty((self.program.shape[0 if by_rows else 1], other.shape[1]))
        kernels.ridge_solutions(
            lines.starts, lines.across, lines.places, curvature, pull, other, weight, fresh, shared
        )
        return fresh

    def normal_equations(self, other: Array, by_rows: bool) -> NormalEquations:
        """The sums that ``ridge_solutions`` solves with, apart from their solution.

        Of programs of some of the rows those of the columns add up to the ones of all rows.
        """
        curvature, pull, shared = self.quadratics(by_rows)
        lines = self.program.entries.pattern.lines(by_rows)
        if curvature.size == 1:
            curvature = np.full(pull.size, curvature[0])
        first, second = np.tril_indices(other.shape[1])
        sums, images = (
            self.program.entries.matrix(numbers) @ columns
            if by_rows
            else self.program.entries.matrix(numbers).T @ columns
            for numbers, columns in (
                (curvature, other[:, first] * other[:, second]),
                (pull, other),
            )
        )
        normals = np.empty((lines.starts.size - 1, other.shape[1], other.shape[1]))
        normals[:, first, second] = normals[:, second, first] = sums
        if shared is not None:
            normals = normals + shared.scales[:, None, None] * shared.normals
            images = images + shared.images
        return NormalEquations(normals, images)

    def quadratics(self, by_rows: bool) -> tuple[Array, Array, kernels.Shared | None]:
        """Curvature c and pull p of each entry, ``c/2 x^2 - p x``, and what lies behind lines."""
        z, behind = self.at.place.z, self.at.behind
        curvature = self.newton_weights
        pull: Array = curvature * z - self.at.entry_slopes
        shared, curvature, pull = behind.normal_equations(by_rows, curvature, pull)
        return curvature, pull, shared

    def along(self, left: Array, right: Array) -> Array:
        """The second derivative of F along each a b', a and b a column of each."""
        curvature, background = self.newton_weights, self.program.background
        if curvature.size == 1:
            curvature = np.full(self.program.entries.size, curvature[0])
        beyond = self.program.entries.matrix(background.excess_curvature(curvature))
        along: Array = np.einsum("ij,ij->j", left * left, beyond @ (right * right))
        along += background.curvatures_along(left, right)
        return np.maximum(along, 1e-300)

    def descend(
        self, own: Array, fresh: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """Each row of a factor moved towards its new value as far as its own objective falls."""
        entries, z = self.program.entries, self.at.place.z
        places = entries.rows if by_rows else entries.columns
        moved = entries.of(product(fresh, other, by_rows)) - z
        at_first = self.objectives(z, own, other, weight, by_rows)
        share = np.ones(own.shape[0])
        unsettled = np.ones(own.shape[0], dtype=bool)
        for piece in self.program.loss.pieces:
            if piece.width > 1 and not by_rows:  # tied columns, whose full step descends
                unsettled[places[piece.part]] = False
        for trial in SHARES:
            share[unsettled] = trial
            factor = own + share[:, None] * (fresh - own)
            reached = self.objectives(z + share[places] * moved, factor, other, weight, by_rows)
            with np.errstate(invalid="ignore"):
                unsettled &= ~(reached <= at_first + 1e-14 * np.abs(at_first))
            if not unsettled.any():
                return factor
        share[unsettled] = 0.0
        return own + share[:, None] * (fresh - own)

    def objectives(
        self, z: Array, factor: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """The objective of each row of a factor, effects fixed: its losses and its own penalty."""
        entries, background = self.program.entries, self.program.background
        places = entries.rows if by_rows else entries.columns
        total = 0.5 * weight * np.einsum("ij,ij->i", factor, factor)
        with np.errstate(over="ignore", invalid="ignore"):
            for piece, effects in zip(self.program.loss.pieces, self.at.effects, strict=True):
                predictor = piece.predictor(piece.offset_part(z), effects)
                losses = piece.scale * piece.at(effects).value(predictor, piece.y)
                lines = places[piece.part][:: piece.width]
                total += np.bincount(lines, weights=losses, minlength=total.size)
        return total + background.of_lines(product(factor, other, by_rows), z, by_rows)


def product(own: Array, other: Array, by_rows: bool) -> LowRank:
    """U V' for rows of U, or for rows of V."""
    return LowRank(own, other) if by_rows else LowRank(other, own)

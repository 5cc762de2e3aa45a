"""The smooth part of a program: losses of observed entries, the free biases solved out."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.bias import best_bias
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Conjugate, Likelihood, TwiceDifferentiable

__all__ = ["EntryLoss", "Evaluation", "Piece"]


@attrs.frozen(eq=False)
class Piece:
    """The entries of one block: ``scale * l(z + b[column], y)`` for each of them."""

    likelihood: Likelihood
    scale: float
    y: Array
    columns: IntArray
    n_columns: int
    has_bias: bool
    part: slice
    infinite: Array  # the columns whose best bias is infinite

    @property
    def curvature(self) -> float:
        """The supremum of the second derivative in z."""
        return self.scale * self.likelihood.curvature


@attrs.frozen(eq=False)
class Evaluation:
    """F at some z: its value, its slope at every entry, and the biases (None without one)."""

    value: float
    slope: Array
    biases: tuple[Array | None, ...]


@attrs.frozen(eq=False)
class EntryLoss:
    """F(z) = min over b of the sum over all entries of scale * l(z + b, y).

    ``rows`` and ``columns`` say where in Z each entry stands, piece after piece. Partial
    minimisation keeps F convex and does not raise its curvature: the Hessian in z is a Schur
    complement of the joint one.
    """

    pieces: tuple[Piece, ...]
    rows: IntArray
    columns: IntArray

    @property
    def n_entries(self) -> int:
        """The number of entries."""
        return int(self.rows.size)

    @property
    def curvature(self) -> float:
        """An upper bound on the curvature of F in Z."""
        return max(piece.curvature for piece in self.pieces)

    def curvature_at(self, z: Array, biases: tuple[Array | None, ...]) -> float:
        """The curvature where it is bounded everywhere, else the largest one at these entries.

        A first step length for backtracking, where there is no proven one.
        """
        highest = 0.0
        for piece, bias in zip(self.pieces, biases, strict=True):
            local = piece.curvature
            if not np.isfinite(local):
                assert isinstance(piece.likelihood, TwiceDifferentiable)
                shifted = z[piece.part] if bias is None else z[piece.part] + bias[piece.columns]
                second = piece.likelihood.second_derivative(shifted, piece.y)
                local = piece.scale * float(np.max(second))
            highest = max(highest, local)
        # Flat everywhere, as counts of 0 alone are with a bias: any positive number will do.
        return highest if highest > 0.0 else max(piece.scale for piece in self.pieces)

    @property
    def infimum(self) -> float:
        """A lower bound on F over all Z."""
        return sum(piece.scale * piece.likelihood.infimum * piece.y.size for piece in self.pieces)

    def evaluate(self, z: Array, warm: tuple[Array | None, ...] | None = None) -> Evaluation:
        """F and its slopes at the entries' z, each bias optimal.

        ``warm`` are biases from a nearby point: the start of the one-dimensional solves.
        """
        value = 0.0
        slope = np.empty_like(z)
        biases: list[Array | None] = []
        for k, piece in enumerate(self.pieces):
            if piece.has_bias:
                near = warm[k] if warm is not None else None
                start = np.zeros(piece.n_columns) if near is None else near
                solved = best_bias(
                    piece.likelihood, z[piece.part], piece.y, piece.columns, start, piece.infinite
                )
                losses, slopes = solved.values, solved.slopes
                biases.append(solved.bias)
            else:
                losses, slopes = piece.likelihood.value_and_slope(z[piece.part], piece.y)
                biases.append(None)
            value += piece.scale * float(np.sum(losses))
            np.multiply(slopes, piece.scale, out=slope[piece.part])
        return Evaluation(value, slope, tuple(biases))

    def evaluate_at(self, z: Array, biases: tuple[Array | None, ...]) -> Evaluation:
        """The joint loss and its slopes at given biases, which stay as they are."""
        value = 0.0
        slope = np.empty_like(z)
        for piece, bias in zip(self.pieces, biases, strict=True):
            shifted = z[piece.part] if bias is None else z[piece.part] + bias[piece.columns]
            losses, slopes = piece.likelihood.value_and_slope(shifted, piece.y)
            value += piece.scale * float(np.sum(losses))
            np.multiply(slopes, piece.scale, out=slope[piece.part])
        return Evaluation(value, slope, biases)

    def has_conjugate(self) -> bool:
        """Whether every likelihood gives its conjugate."""
        return all(isinstance(piece.likelihood, Conjugate) for piece in self.pieces)

    def conjugate(self, slope: Array) -> tuple[float, float]:
        """F* at slopes whose column sums vanish where a bias is free, and sum of |summands|.

        The second number times the unit roundoff bounds how far rounding can have moved the
        first.
        """
        total = 0.0
        size = 0.0
        for piece in self.pieces:
            if not isinstance(piece.likelihood, Conjugate):
                raise TypeError(f"{type(piece.likelihood).__name__} has no conjugate")
            terms = piece.likelihood.conjugate(slope[piece.part] / piece.scale, piece.y)
            total += piece.scale * float(np.sum(terms))
            size += piece.scale * float(np.sum(np.abs(terms)))
        return total, size

    def centred(self, slope: Array) -> Array:
        """The slopes with what rounding left of the column sums of biased pieces taken off."""
        centred = slope.copy()
        for piece in self.pieces:
            if piece.has_bias:
                part = centred[piece.part]
                counts = np.bincount(piece.columns, minlength=piece.n_columns)
                sums = np.bincount(piece.columns, weights=part, minlength=piece.n_columns)
                part -= (sums / np.maximum(counts, 1))[piece.columns]
        return centred

    def start(self) -> Array:
        """A rough natural parameter for every entry: where the published FPC begins."""
        return np.concatenate([piece.likelihood.start(piece.y) for piece in self.pieces])

    def joined(self, piece: Piece, rows: IntArray, columns: IntArray) -> "EntryLoss":
        """The loss with one more piece behind the others."""
        part = slice(self.n_entries, self.n_entries + rows.size)
        placed: Any = attrs.evolve(piece, part=part)
        return EntryLoss(
            (*self.pieces, placed),
            np.concatenate([self.rows, rows]),
            np.concatenate([self.columns, columns]),
        )

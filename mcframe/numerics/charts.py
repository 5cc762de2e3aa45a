"""Factors without constraints: smooth maps from all vectors onto the factors of a set.

A bound on the length of a row becomes a row of fixed length by one more coordinate, a slack
that the product U V' does not see; so a set of factors is covered by spheres, and a descent
method for smooth functions of a vector applies.
"""

from abc import ABC, abstractmethod

import attrs
import numpy as np

from mcframe.contracts.arrays import Array

# The least slack, relative to the squared length: exactly 0 would hold a row on its boundary.
LEAST_SLACK = 1e-8


class Chart(ABC):
    """Stacked factors W (n_rows x k) as a smooth function of a free vector."""

    def enough(self, n_rows: int, n_columns: int) -> int:
        """Columns beyond which no more are needed: those of any factors of any Z."""
        return n_rows + n_columns

    def in_units(self, unit: float) -> "Chart":
        """The chart with coordinates of size 1 where entries of U V' have the size of the unit.

        By default the chart itself, whose coordinates have one size.
        """
        return self

    @abstractmethod
    def free(self, stacked: Array) -> Array:
        """A vector whose factors are these, up to the least slack."""

    def with_columns(self, stacked: Array, columns: Array) -> Array:
        """A vector whose factors have further columns, at about the same cost of their own."""
        return self.free(np.hstack([stacked, columns]))

    def with_row_lengths(self, vector: Array, lengths: Array) -> Array:
        """A vector of the same factors whose rows have other lengths, if those are free.

        A descent turns a row that is twice as long a quarter as far, which suits one of four times
        the curvature. ``lengths`` has one positive number for each row, about 1. By default the
        vector itself, where a row has the length that its factors have.
        """
        return vector

    @abstractmethod
    def factors(self, vector: Array, n_rows: int) -> Array:
        """The factors of a vector."""

    @abstractmethod
    def value(self, vector: Array) -> float:
        """The cost of the factors of a vector, as the term counts it."""

    @abstractmethod
    def gradient(self, vector: Array, n_rows: int, smooth_gradient: Array) -> Array:
        """The gradient in the vector of that cost plus a function of W with this gradient."""


@attrs.frozen
class Flat(Chart):
    """W itself, at the cost weight / 2 ||W||_F^2."""

    weight: float

    def enough(self, n_rows: int, n_columns: int) -> int:
        """The smaller of both: where the gradients vanish U'U = V'V, and ||G||_2 is the weight."""
        return min(n_rows, n_columns)

    def free(self, stacked: Array) -> Array:
        """The stacked factors W, raveled."""
        return stacked.ravel().copy()

    def factors(self, vector: Array, n_rows: int) -> Array:
        """The vector as a matrix."""
        return vector.reshape(n_rows, -1)

    def value(self, vector: Array) -> float:
        """weight / 2 ||W||_F^2."""
        return 0.5 * self.weight * float(np.dot(vector, vector))

    def gradient(self, vector: Array, n_rows: int, smooth_gradient: Array) -> Array:
        """gradient + weight W."""
        return smooth_gradient.ravel() + self.weight * vector


@attrs.frozen
class Spheres(Chart):
    """Rows with squared norms of at most ``radius``: each row and its slack on a sphere."""

    radius: float

    def free(self, stacked: Array) -> Array:
        """Each row with its slack."""
        return with_slack(stacked, self.radius).ravel()

    def with_columns(self, stacked: Array, columns: Array) -> Array:
        """Each row turned towards the further columns, along its sphere."""
        return append_coordinates(with_slack(stacked, self.radius), columns).ravel()

    def with_row_lengths(self, vector: Array, lengths: Array) -> Array:
        """Each row and its slack at so many roots of the radius."""
        return with_lengths(vector, np.sqrt(self.radius) * lengths)

    def factors(self, vector: Array, n_rows: int) -> Array:
        """sqrt(radius) times the unit rows, slacks left out."""
        rows = vector.reshape(n_rows, -1)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.sqrt(self.radius) * rows[:, :-1] / lengths

    def value(self, vector: Array) -> float:
        """0."""
        return 0.0

    def gradient(self, vector: Array, n_rows: int, smooth_gradient: Array) -> Array:
        """The gradient in the tangent of each sphere."""
        rows = vector.reshape(n_rows, -1)
        return (np.sqrt(self.radius) * on_tangent(rows, smooth_gradient)).ravel()


@attrs.frozen
class ScaledSpheres(Chart):
    """Rows of squared length unit s^2 at most, for the last coordinate s and at the cost of it."""

    weight: float
    unit: float = 1.0

    def in_units(self, unit: float) -> "ScaledSpheres":
        """The last coordinate next to rows of length 1."""
        return ScaledSpheres(self.weight, unit)

    def scale(self, vector: Array) -> float:
        """The common length of all rows and slacks, sqrt(unit) s."""
        return float(np.sqrt(self.unit) * vector[-1])

    def free(self, stacked: Array) -> Array:
        """Each row with its slack, then the largest norm."""
        longest = float(np.max(np.einsum("ij,ij->i", stacked, stacked), initial=0.0))
        longest = longest or 1e-12 * self.unit
        unit = with_slack(stacked / np.sqrt(longest), 1.0)
        return np.append(unit.ravel(), np.sqrt(longest / self.unit))

    def with_columns(self, stacked: Array, columns: Array) -> Array:
        """Each row turned along its sphere; the largest norm stays."""
        vector = self.free(stacked)
        rows = vector[:-1].reshape(stacked.shape[0], -1)
        return np.append(
            append_coordinates(rows, columns / self.scale(vector)).ravel(), vector[-1]
        )

    def with_row_lengths(self, vector: Array, lengths: Array) -> Array:
        """Each row and its slack at these lengths; the largest norm stays."""
        return np.append(with_lengths(vector[:-1], lengths), vector[-1])

    def factors(self, vector: Array, n_rows: int) -> Array:
        """The scale times the unit rows."""
        return self.scale(vector) * Spheres(1.0).factors(vector[:-1], n_rows)

    def value(self, vector: Array) -> float:
        """weight unit s^2."""
        return self.weight * self.unit * float(np.square(vector[-1]))

    def gradient(self, vector: Array, n_rows: int, smooth_gradient: Array) -> Array:
        """The scale times the tangent smooth_gradient, then the gradient in s."""
        unit = Spheres(1.0)
        along = float(np.vdot(smooth_gradient, unit.factors(vector[:-1], n_rows)))
        rows = self.scale(vector) * unit.gradient(vector[:-1], n_rows, smooth_gradient)
        cost_gradient = 2.0 * self.weight * self.unit * float(vector[-1])
        return np.append(rows, np.sqrt(self.unit) * along + cost_gradient)


@attrs.frozen
class OneSphere(Chart):
    """||W||_F^2 of at most ``radius``: all entries and one slack on a sphere."""

    radius: float

    def enough(self, n_rows: int, n_columns: int) -> int:
        """The smaller of both: where the gradients vanish U'U = V'V, and ||G||_2 is the weight."""
        return min(n_rows, n_columns)

    def free(self, stacked: Array) -> Array:
        """All entries, then the slack."""
        return with_slack(stacked.reshape(1, -1), self.radius).ravel()

    def factors(self, vector: Array, n_rows: int) -> Array:
        """sqrt(radius) times the unit vector, the slack left out."""
        unit = vector[:-1] / float(np.linalg.norm(vector))
        return np.sqrt(self.radius) * unit.reshape(n_rows, -1)

    def value(self, vector: Array) -> float:
        """0."""
        return 0.0

    def gradient(self, vector: Array, n_rows: int, smooth_gradient: Array) -> Array:
        """The gradient in the tangent of the sphere."""
        tangent = on_tangent(vector[None, :], smooth_gradient.reshape(1, -1))
        return (np.sqrt(self.radius) * tangent).ravel()


def with_slack(rows: Array, squared: float) -> Array:
    """Rows with one more coordinate that brings their squared norms to a number."""
    missing = squared - np.einsum("ij,ij->i", rows, rows)
    slack = np.sqrt(np.maximum(missing, LEAST_SLACK * squared))
    return np.column_stack([rows, slack])


def with_lengths(vector: Array, lengths: Array) -> Array:
    """Rows, raveled, that point where they did, at these lengths."""
    rows = vector.reshape(lengths.size, -1)
    paced: Array = rows * (lengths / np.linalg.norm(rows, axis=1))[:, None]
    return paced.ravel()


def append_coordinates(rows: Array, columns: Array) -> Array:
    """Rows with further coordinates before the last, and the norms they had."""
    wider = np.hstack([rows[:, :-1], columns, rows[:, -1:]])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return wider * (lengths / np.linalg.norm(wider, axis=1, keepdims=True))


def on_tangent(rows: Array, smooth_gradient: Array) -> Array:
    """The gradient in rows of a function of their unit vectors, whose last coordinate is free."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / lengths
    along = np.einsum("ij,ij->i", smooth_gradient, unit[:, :-1])[:, None]
    tangent = -along * unit
    tangent[:, :-1] += smooth_gradient
    return tangent / lengths

"""Squares of sums of predictors as functions of the free effects, which are solved for with them.

A term of the predictors P = Z + E e of a block (E e adds each effect to the cells that it belongs
to) is one of Z and of the effects e together. Where it is smooth it is, for a Z, a sum of squares
``sum over k of w_k ||v_k'(Z + E e) - t_k||^2``, up to a constant, which joins the losses that
the best effects are of; see ``solving``.
"""

from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.contracts.term import Sums, Term
from mcframe.model import Layout


@attrs.frozen(eq=False)
class Directions:
    """Orthonormal directions ``right`` (n_rows x r) of some columns, and the weight of each.

    With the axis 1 they are directions (n_columns x r) of some rows; ``lines`` are these columns,
    or rows.
    """

    lines: IntArray
    right: Array
    weights: Array
    axis: int = 0

    @cached_property
    def sums(self) -> Array:
        """The sum of each direction over its length, exactly 0 where it is 0 but for rounding."""
        sums: Array = self.right.sum(axis=0)
        return np.where(np.abs(sums) > RESULT_ROUNDING * np.sqrt(len(self.right)), sums, 0.0)


@attrs.frozen(eq=False)
class EffectSquares:
    """``sum over directions of weight * ||v'E e + t||^2`` of the effects e of a block, for any t.

    ``layout`` are the effects; numbers are one array (r x columns) for each of the ``directions``.
    """

    layout: Layout
    directions: tuple[Directions, ...]

    def split(self, group: Directions, vector: Array) -> tuple[Array, Array]:
        """The effects along a direction, and those of the lines, one each; both may be none."""
        biases, row_effects = self.layout.biases(vector), self.layout.row_effects(vector)
        return (row_effects, biases) if group.axis == 0 else (biases, row_effects)

    @property
    def couples(self) -> bool:
        """True where a square is of several effects: the second derivatives are not diagonal.

        Of the effects of lines alone each square is of one, and of an intercept alone.
        """
        numbers = np.zeros(self.layout.n_effects)
        along = any(self.split(group, numbers)[0].size for group in self.directions)
        return along or bool(self.layout.n_intercepts and self.layout.n_effects > 1)

    def at_directions(self, effects: Array) -> list[Array]:
        """v'E e."""
        layout, projections = self.layout, list[Array]()
        for group in self.directions:
            along, of_lines = self.split(group, effects)
            common = group.right.T @ along if along.size else np.zeros(group.weights.size)
            common = common + group.sums * layout.intercept(effects)
            total = np.tile(common[:, None], group.lines.size)
            if of_lines.size:
                total += group.sums[:, None] * of_lines[group.lines]
            projections.append(total)
        return projections

    def by_effect(self, numbers: Sequence[Array], sizes: bool = False) -> Array:
        """E'v x, the adjoint: what numbers x add up to for each effect; or sums of sizes."""
        layout, total = self.layout, np.zeros(self.layout.n_effects)
        for group, values in zip(self.directions, numbers, strict=True):
            right, sums = group.right, group.sums
            if sizes:
                right, sums, values = np.abs(right), np.abs(sums), np.abs(values)
            along, of_lines = self.split(group, total)
            if of_lines.size:
                of_lines[group.lines] += sums @ values
            if along.size:
                along += right @ values.sum(axis=1)
            if layout.n_intercepts:
                total[-1] += float(sums @ values.sum(axis=1))
        return total

    def projected(self, effects: Array, shape: Shape) -> Array:
        """E e (n_rows x columns) less what is orthogonal to the directions of each line."""
        projected = np.zeros(shape)
        for group, coefficients in zip(self.directions, self.at_directions(effects), strict=True):
            turned = projected if group.axis == 0 else projected.T
            turned[:, group.lines] = group.right @ coefficients
        return projected

    def weighted(self, numbers: Sequence[Array]) -> list[Array]:
        """Twice the weights times numbers."""
        pairs = zip(self.directions, numbers, strict=True)
        return [2.0 * group.weights[:, None] * values for group, values in pairs]

    def times(self, vector: Array) -> Array:
        """The product of the second derivatives and effects."""
        return self.by_effect(self.weighted(self.at_directions(vector)))

    @cached_property
    def diagonal(self) -> Array:
        """The second derivative in each effect."""
        layout, total = self.layout, np.zeros(self.layout.n_effects)
        for group in self.directions:
            twice, count = 2.0 * group.weights, group.lines.size
            of_sums = float(twice @ np.square(group.sums))
            along, of_lines = self.split(group, total)
            if of_lines.size:
                of_lines[group.lines] += of_sums
            if along.size:
                along += count * (np.square(group.right) @ twice)
            if layout.n_intercepts:
                total[-1] += count * of_sums
        return total

    @property
    def restrained(self) -> Mask:
        """The effects that a square depends on."""
        return self.diagonal > 0.0

    @cached_property
    def matrix(self) -> Array:
        """The second derivatives, written out (n_effects x n_effects)."""
        columns = [self.times(unit) for unit in np.eye(self.layout.n_effects)]
        return np.array(columns).reshape(2 * (self.layout.n_effects,))


@attrs.frozen(eq=False)
class SquaresAt:
    """The squares at a Z: ``t`` are the numbers that they are of without effects."""

    squares: EffectSquares
    distances: tuple[Array, ...]

    def at(self, effects: Array) -> list[Array]:
        """v'E e + t."""
        pairs = zip(self.squares.at_directions(effects), self.distances, strict=True)
        return [projection + distance for projection, distance in pairs]

    def value(self, effects: Array) -> float:
        """The sum of the squares, times their weights."""
        pairs = zip(self.squares.directions, self.at(effects), strict=True)
        return sum(
            float(group.weights @ np.square(residuals).sum(axis=1)) for group, residuals in pairs
        )

    def gradient(self, effects: Array) -> Array:
        """The derivative in each effect."""
        return self.squares.by_effect(self.squares.weighted(self.at(effects)))

    def sizes(self, effects: Array) -> Array:
        """The sums of the sizes of what each derivative is the sum of."""
        pairs = zip(self.squares.at_directions(effects), self.distances, strict=True)
        numbers = [np.abs(projection) + np.abs(distance) for projection, distance in pairs]
        return self.squares.by_effect(self.squares.weighted(numbers), sizes=True)


def equations_of_effects(layout: Layout, terms: Sequence[Term]) -> EffectSquares:
    """The directions in which terms state sums of predictors, each of weight 1/2."""
    return EffectSquares(
        layout,
        tuple(
            Directions(group.lines, group.right, np.full(group.right.shape[1], 0.5), term.axis)
            for term in terms
            if isinstance(term, Sums)
            for group in term.groups
        ),
    )

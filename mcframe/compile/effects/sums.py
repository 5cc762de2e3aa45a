"""Sums over the entries of each effect, in memory: all that the solver of effects needs."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array


@attrs.frozen(eq=False)
class Curvature:
    """The second derivatives G'HG of losses in the effects, or G'WG for weights in place of H.

    ``second`` gives H's diagonal in the shape of z, and ``hessian``, if it has more than that, its
    product with numbers of z.
    """

    effects: Any
    second: Callable[[], Array]
    hessian: Callable[[Array], Array] | None = None

    @cached_property
    def numbers(self) -> Array:
        """The diagonal of H."""
        return self.second()

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G'HG."""
        return self.effects.sum_by_effect(self.numbers)

    def times_numbers(self, numbers: Array) -> Array:
        """H x for numbers x of z."""
        return self.numbers * numbers if self.hessian is None else self.hessian(numbers)

    def times(self, vector: Array) -> Array:
        """The product G'HG e."""
        image = self.times_numbers(self.effects.at_entries(vector))
        return self.effects.sum_by_effect(image)

    def blocks(self) -> Array:
        """The second derivatives in the effects of the classes of each column, (columns, K, K).

        K products of the entries' Hessian, each with one class, sum up to the rows of the blocks.
        """
        n_classes = self.effects.width
        images = np.empty((self.effects.size, n_classes))
        for k in range(n_classes):
            unit = np.zeros(self.effects.columns.shape)
            unit[:, k] = 1.0
            images[:, k] = self.effects.sum_by_effect(self.times_numbers(unit))
        return images.reshape(-1, n_classes, n_classes)

    @cached_property
    def table(self) -> Any:
        """H as a sparse matrix (rows x columns), with a column of row sums for an intercept."""
        layout = self.effects.layout
        order, columns, starts = self.effects.by_rows
        values = self.numbers if order is None else self.numbers[order]
        shape = (layout.n_row_effects, layout.n_biases)
        table = sp.csr_array((values, columns, starts), shape=shape)
        if layout.n_intercepts:
            sums = sp.csr_array((table @ np.ones(shape[1]))[:, None])
            table = sp.hstack([table, sums], format="csr")
        return table

    def of_rows(self, others: Array) -> Array:
        """N x for the table N and effects x of columns and intercept."""
        return np.asarray(self.table @ others)

    def of_others(self, rows: Array) -> Array:
        """N' y for effects y of rows."""
        return np.asarray(self.table.T @ rows)

    def elimination(self, rows: Array) -> Callable[[Array], Array]:
        """The product x -> N' D N x, where D has numbers of the rows on its diagonal."""
        return lambda others: np.asarray(self.table.T @ (rows * (self.table @ others)))


@attrs.frozen(eq=False)
class EntriesAt:
    """The entries of a block at predictors z without effects, and the factors of their losses."""

    effects: Any
    likelihood: Any
    z: Array
    y: Array
    weights: Array | float

    @cached_property
    def reach(self) -> float:
        """The largest predictor."""
        return float(np.max(np.abs(self.z), initial=0.0))

    @property
    def weights_of_numbers(self) -> Any:
        """The weights of entries in the shape of their gradients."""
        several = self.effects.width > 1 and np.ndim(self.weights)
        return np.asarray(self.weights)[:, None] if several else self.weights

    @cached_property
    def total_weights(self) -> Array:
        """The sum of the weights of each effect's entries."""
        return self.effects.sum_by_effect(self.weights_of_numbers * np.ones(self.z.shape))

    def at(self, effects: Array) -> "SumsOfEntries":
        """The sums at some effects."""
        predictor = self.effects.predictor(self.z, effects)
        losses, gradients = self.likelihood.value_and_gradient(predictor, self.y)
        gradients = self.weights_of_numbers * gradients
        return SumsOfEntries(
            self,
            predictor,
            float(np.sum(self.weights * losses)),
            float(np.sum(self.weights * np.abs(losses))),
            self.effects.sum_by_effect(gradients),
            self.effects.sum_by_effect(np.abs(gradients)),
        )

    def below_zero(self) -> Array:
        """Effects of columns that bring each predictor to 0 or below, where no loss overflows."""
        layout = self.effects.layout
        highest = np.full(layout.n_biases, -np.inf)
        np.maximum.at(highest, self.effects.columns.ravel(), self.z.ravel())
        effects = np.zeros(self.effects.size)
        layout.biases(effects)[:] = np.where(np.isfinite(highest), -highest, 0.0)
        return effects


@attrs.frozen(eq=False)
class SumsOfEntries:
    """Losses at predictors with effects and their sizes, as sums; their derivatives by effect.

    ``sizes`` are the sums of the sizes of what each derivative is the sum of.
    """

    entries: EntriesAt
    predictor: Array
    value: float
    summands: float
    gradient: Array
    sizes: Array

    @property
    def reach(self) -> float:
        """The largest predictor without effects."""
        return self.entries.reach

    @property
    def total_weights(self) -> Array:
        """The sum of the weights of each effect's entries."""
        return self.entries.total_weights

    @property
    def curvature(self) -> Curvature:
        """The second derivatives, which are computed as far as they are asked for."""
        at, weights = self.entries, self.entries.weights_of_numbers

        def second() -> Array:
            return weights * at.likelihood.second_derivative(self.predictor, at.y)

        if at.effects.width == 1:
            return Curvature(at.effects, second)
        hessian = at.likelihood.hessian_at(self.predictor, at.y)
        return Curvature(at.effects, second, lambda numbers: weights * hessian(numbers))

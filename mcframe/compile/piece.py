"""The entries of one block as numbers, and the effects that are solved out of them."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.bias import best_bias, infinite_biases
from mcframe.compile.effects import (
    absent_effects,
    best_effects,
    extreme_effects,
    falling_effects,
    gathered,
    without_effects,
)
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import (
    Conjugate,
    Likelihood,
    Parametric,
    TwiceDifferentiable,
)
from mcframe.model import Layout

__all__ = ["Piece"]

# The least second derivative that steps count with, relative to the curvature.
FLATTEST = 0.1
# Entries whose losses are computed at a time.
SLICE = 32_768
# Bisections for a shift: to the last bit of numbers of one size.
HALVINGS = 80
# A sum of slopes that is this small beside the sum of their sizes is rounding.
VANISHING = 1e-12


@attrs.frozen(eq=False)
class Piece:
    """``scale * l(z + offset + effects, y)`` for each entry of one block.

    ``rows``, ``columns`` and ``y`` have one element for each entry; ``scale`` is one number
    or one for each; ``part`` is where its numbers stand among those of the whole loss, K of
    them for each entry of a likelihood over K columns. ``offset`` has the shape of z. ``fixed``
    are the effects whose best value is infinite, 0 for the others.
    """

    likelihood: Any
    scale: Any
    y: Array
    rows: IntArray
    columns: IntArray
    part: slice
    layout: Layout = attrs.field(factory=Layout)
    offset: Array | None = None
    fixed: Array = attrs.field(factory=lambda: np.zeros(0))

    @cached_property
    def pull(self) -> float:
        """The size of the slopes at z = 0: effects may leave none of it but rounding."""
        z = np.zeros((self.y.size, self.width) if self.width > 1 else self.y.size)
        slopes = np.abs(self.stretch * self.likelihood.value_and_slope(z, self.y)[1])
        return float(np.max(slopes, initial=0.0))

    @classmethod
    def of(cls, likelihood: Any, layout: Layout, **numbers: Any) -> "Piece":
        """The piece, its infinite effects found."""
        piece = cls(likelihood=likelihood, layout=layout, **numbers)
        if not layout.size or layout.n_parameters:
            return piece
        groups = piece.groups()
        if piece.width > 1:
            fixed = absent_effects(likelihood, piece.y, groups, layout.size)
            return attrs.evolve(piece, fixed=fixed)
        falling = falling_effects(likelihood, piece.y, piece.scale, groups, layout.size)
        if falling.size:
            raise DataError(
                f"the loss {type(likelihood).__name__} falls without end along the free"
                f" {layout.called(int(falling[0]))}; give up the bias, or the share of the risk"
                " that has no lower bound"
            )
        if piece.grouping is None:
            fixed = extreme_effects(likelihood, piece.y, groups, layout.size)
        else:
            fixed = infinite_biases(likelihood, piece.y, piece.grouping, layout.size)
        return attrs.evolve(piece, fixed=fixed)

    @property
    def width(self) -> int:
        """Numbers of z for each entry."""
        return int(self.likelihood.width)

    @property
    def n_numbers(self) -> int:
        """Numbers of z in all."""
        return int(self.y.size) * self.width

    @property
    def curvature(self) -> float:
        """The supremum of the second derivative in z."""
        return float(np.max(self.scale * np.ones(1))) * float(self.likelihood.curvature)

    @property
    def stretch(self) -> Any:
        """The scale in the shape of the slopes."""
        several = self.width > 1 and np.ndim(self.scale) > 0
        return np.asarray(self.scale)[:, None] if several else self.scale

    @property
    def grouping(self) -> IntArray | None:
        """The one effect of each entry, where rows alone or columns alone have them."""
        if self.width > 1 or (self.layout.n_biases and self.layout.n_row_effects):
            return None
        return self.rows if self.layout.n_row_effects else self.columns

    def groups(self) -> IntArray:
        """All effects of each number of z, along the last axis."""
        kinds = []
        if self.layout.n_biases:
            columns = self.columns[:, None] * self.width + np.arange(self.width)
            kinds.append(columns if self.width > 1 else columns[:, 0])
        if self.layout.n_row_effects:
            kinds.append(self.layout.n_biases + self.rows)
        return np.stack(kinds, axis=-1)

    def shaped(self, z: Array) -> Array:
        """The piece's numbers of z, offsets added: (N,) or (N, K)."""
        own = z[self.part]
        own = own.reshape(-1, self.width) if self.width > 1 else own
        return own if self.offset is None else own + self.offset

    def solve(self, z: Array, warm: Array | None) -> Array | None:
        """The best effects at z (already shaped); None for a piece without any."""
        layout = self.layout
        if not layout.size:
            return None
        if layout.n_parameters:
            parametric: Parametric = self.likelihood
            weights = self.scale * np.ones(self.y.size)
            return parametric.best_parameters(z, self.y, weights, warm)
        start = np.zeros(layout.size) if warm is None else warm
        if self.grouping is None:
            return best_effects(
                self.likelihood, z, self.y, self.scale, self.groups(), start, self.fixed
            )
        weights = self.scale if np.ndim(self.scale) else 1.0
        return best_bias(
            self.likelihood, z, self.y, self.grouping, start, self.fixed, weights
        ).bias

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z (already shaped) plus the effects."""
        if effects is None or self.layout.n_parameters:
            return z
        if self.grouping is not None:
            return z + effects[self.grouping]
        return z + effects[self.groups()].sum(axis=-1)

    def at(self, effects: Array | None) -> Any:
        """The likelihood with its parameters, if it has any."""
        if self.layout.n_parameters:
            return self.likelihood.with_parameters(effects)
        return self.likelihood

    def value_and_slope(
        self, z: Array, effects: Array | None, out: Array | None = None
    ) -> tuple[float, Array]:
        """The sum of the losses at z (already shaped) and effects, and the slopes, flat.

        A slice at a time, so that what a loss computes on its way stays in the cache. The
        slopes go into ``out``, if it is given.
        """
        slopes = np.empty(self.n_numbers) if out is None else out
        shaped = slopes.reshape(-1, self.width) if self.width > 1 else slopes
        likelihood, predictor = self.at(effects), self.predictor(z, effects)
        value = 0.0
        for part in self.slices(likelihood):
            losses, bent = likelihood.value_and_slope(predictor[part], self.y[part])
            if np.ndim(self.scale):
                value += float(np.dot(self.scale[part], losses))
                np.multiply(self.stretch[part], bent, out=shaped[part])
            else:
                value += self.scale * float(np.sum(losses))
                np.multiply(self.scale, bent, out=shaped[part])
        return value, slopes

    def slices(self, likelihood: Any) -> Iterator[slice]:
        """All entries in slices; at once for what is no likelihood, and may tie them together."""
        length = SLICE if isinstance(likelihood, Likelihood) else max(self.y.size, 1)
        for first in range(0, self.y.size, length):
            yield slice(first, first + length)

    def curvature_at(self, z: Array, effects: Array | None) -> float:
        """The curvature where it is bounded everywhere, else the largest one at these numbers."""
        if np.isfinite(self.curvature):
            return self.curvature
        likelihood = self.at(effects)
        assert isinstance(likelihood, TwiceDifferentiable)
        second = likelihood.second_derivative(self.predictor(z, effects), self.y)
        return float(np.max(self.stretch * second))

    def bend(self, z: Array, effects: Array | None) -> Array:
        """The second derivative for each number of z (already shaped); one number if all equal.

        The curvature where there is none. Nowhere below a tenth of the curvature: where a loss is
        flat a Newton step has no length.
        """
        likelihood = self.at(effects)
        newton = isinstance(likelihood, TwiceDifferentiable) and self.width == 1
        if newton and not self.layout.n_parameters:
            bend = self.scale * likelihood.second_derivative(self.predictor(z, effects), self.y)
            bounded = np.isfinite(self.curvature)
            bend = np.maximum(bend, FLATTEST * self.curvature if bounded else 1e-6 * np.max(bend))
            return bend[:1] if np.all(bend == bend[0]) else bend
        scale = self.stretch * np.ones((self.y.size, self.width))
        return (scale * float(likelihood.curvature)).ravel()

    def has_conjugate(self) -> bool:
        """Whether a conjugate is at hand: not with parameters, which tie all entries together."""
        return isinstance(self.likelihood, Conjugate) and not self.layout.n_parameters

    @property
    def infimum(self) -> float:
        """A lower bound on the sum of all losses."""
        return float(np.sum(self.scale * np.ones(self.y.size))) * float(self.likelihood.infimum)

    def conjugate_at(self, z: Array, effects: Array | None) -> tuple[float, float]:
        """The conjugate at the slopes of z, <slope, z> - loss, and the size of its summands.

        The effects' own slopes vanish, so that they add nothing to the product.
        """
        own = self.shaped(z)
        value, slope = self.value_and_slope(own, effects)
        products = slope * z[self.part]
        return float(np.sum(products)) - value, float(np.sum(np.abs(products))) + abs(value)

    def conjugate(self, slope: Array) -> Array:
        """The conjugate at the slopes (flat, of the scaled losses), entry by entry.

        inf where their sums over free effects do not vanish, up to rounding.
        """
        if not self.sums_vanish(slope):
            return np.full(self.y.shape, np.inf)
        slopes = slope.reshape(-1, self.width) if self.width > 1 else slope
        terms: Array = self.scale * self.likelihood.conjugate(slopes / self.stretch, self.y)
        if self.offset is not None:
            along = slopes * self.offset
            terms = terms - (along.sum(axis=-1) if self.width > 1 else along)
        return terms

    def sums_vanish(self, slope: Array) -> bool:
        """Whether the sums of slopes over every effect are 0, up to rounding."""
        if not self.layout.size or self.layout.n_parameters:
            return True
        groups = self.groups().reshape(-1, self.groups().shape[-1])
        sums = gathered(slope, groups, self.layout.size)
        sizes = gathered(np.abs(slope), groups, self.layout.size)
        size = max(float(np.max(sizes, initial=0.0)), self.pull)
        return bool(np.all(np.abs(sums) <= VANISHING * size))

    def nearest_dual(self, slope: Array) -> Array:
        """Slopes (flat) close by at which the conjugate is finite and sums over effects vanish.

        With one effect for each entry these are the nearest ones: those of the slopes minus a
        shift for each effect, whose sums fall with the shift.
        """
        nearest = self.nearest_slope(slope)
        if np.array_equal(nearest, slope) or not self.layout.size or self.layout.n_parameters:
            return nearest
        if self.grouping is None:
            return self.centred(nearest)
        group, n_groups = self.grouping, self.layout.size
        reach = np.full(n_groups, float(np.max(np.abs(slope) + np.abs(nearest))))
        below, above = -reach, reach
        for _ in range(HALVINGS):
            shift = 0.5 * (below + above)
            moved = self.nearest_slope(slope - shift[group])
            sums = np.bincount(group, weights=moved, minlength=n_groups)
            below = np.where(sums > 0.0, shift, below)
            above = np.where(sums > 0.0, above, shift)
        return moved

    def nearest_slope(self, slope: Array) -> Array:
        """The nearest slopes (flat) at which the conjugate is finite."""
        slopes = slope.reshape(-1, self.width) if self.width > 1 else slope
        likelihood: Conjugate = self.likelihood
        unscaled = slopes / self.stretch
        nearest = likelihood.nearest_slope(unscaled, self.y)
        # What stays where it is stays to the last bit.
        moved = np.where(nearest == unscaled, slopes, self.stretch * nearest)
        return np.asarray(moved).ravel()

    def centred(self, slope: Array) -> Array:
        """The slopes (flat) with what rounding left of the sums over each effect taken off."""
        if not self.layout.size or self.layout.n_parameters:
            return slope
        groups = self.groups() if self.grouping is None else self.grouping[:, None]
        return without_effects(slope, groups.reshape(-1, groups.shape[-1]), self.layout.size)

    def start(self) -> Array:
        """A rough natural parameter for every number, flat."""
        begun = np.asarray(self.likelihood.start(self.y))
        if self.offset is not None:
            begun = begun - self.offset
        return begun.ravel()

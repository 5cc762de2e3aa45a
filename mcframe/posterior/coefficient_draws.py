"""Draws of the coefficients of attributes, given the rows or columns whose prior means they make.

The number k of row i is ``x_ik = sum over p of s_gk f_ip u_pk + d_ik``, as in ``coefficients``.
Given the rows it is a linear model: coefficients are Gaussian, with precisions ``D F'T F D + t``
for the scales D, the precisions T of deviations and those t of coefficients. A draw from the prior
is moved by what it leaves of the rows (Papandreou and Yuille, Gaussian sampling by local
perturbations, NIPS 2010), which takes one system of equations, of as many unknowns as there are
attributes or rows with entries, whichever are fewer.

Rows without entries do not hold coefficients back: their deviations stay as they are, and not the
rows. Scales are drawn twice: given what they make of coefficients, and given the coefficients (Yu
and Meng, To center or not to center, Journal of Computational and Graphical Statistics 2011).
Their prior is half-Cauchy about the scales at which sweeps begin.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.stored_classes import stored
from mcframe.posterior.attributes import AttributeGroup, read_new_rows
from mcframe.posterior.coefficients import AttributeValues, Coefficients
from mcframe.posterior.factor_state import Design
from mcframe.posterior.observed import Observed
from mcframe.posterior.observed_chains import LOG_SCALE_WIDTH, ChainState, sliced


@stored
@attrs.define(eq=False)
class CoefficientDraws(ChainState):
    """Coefficients u (m x p x K) and scales (m x groups x K) of m chains or draws."""

    u: Array
    scales: Array

    @classmethod
    def absent(cls, m: int, width: int) -> "CoefficientDraws":
        """The coefficients of no attributes."""
        return cls(np.zeros((m, 0, width)), np.zeros((m, 0, width)))

    @classmethod
    def of(
        cls, coefficients: Coefficients | None, m: int, width: int, rng: np.random.Generator
    ) -> "CoefficientDraws":
        """Draws of variational coefficients, with their scales; of no attributes where None."""
        if coefficients is None:
            return cls.absent(m, width)
        scales = np.tile(coefficients.scales, (m, 1, 1))
        return cls(coefficients.gaussians.draws(rng, m), scales)


@stored
@attrs.frozen(eq=False)
class AttributedSide:
    """The attributes of all rows, or of all columns, which may be none.

    Attributes
    ----------
    attributes : AttributeValues
    free : mask (K,)
        The numbers that take attributes.
    n_factors : int
        The first numbers, whose scales are the same.
    reference_scales : array (groups x K)
        The scales of the prior of scales.
    has_entries : mask (n,)
    kinds : array (n,)
        Rows of one kind have the same prior precisions.
    groups : tuple of AttributeGroup
        How attributes of new rows are read.
    """

    attributes: AttributeValues
    free: Mask
    n_factors: int
    reference_scales: Array
    has_entries: Mask
    kinds: IntArray
    groups: tuple[AttributeGroup, ...] = ()

    @classmethod
    def of(
        cls, coefficients: Coefficients | None, observed: Observed, side: int, design: Design
    ) -> "AttributedSide":
        """The attributes of rows (side 0) or columns (1) that these coefficients have, or none."""
        n, n_factors = observed.shape[side], design.n_factors
        kinds = np.zeros(n, dtype=np.intp)
        if side:
            for b, block in enumerate(observed.blocks):
                kinds[block.columns] = b
        has_entries = np.bincount(observed.cells[side], minlength=n) > 0
        if coefficients is None:
            starts, nothing = np.zeros(n + 1, dtype=np.intp), np.zeros(0, dtype=np.intp)
            none = AttributeValues(starts, nothing, np.zeros(0), nothing)
            free, scales = np.zeros(design.width, dtype=bool), np.zeros((0, design.width))
            return cls(none, free, n_factors, scales, has_entries, kinds)
        return cls(
            coefficients.attributes,
            coefficients.free,
            n_factors,
            coefficients.reference_scales,
            has_entries,
            kinds,
            coefficients.groups,
        )

    @property
    def count(self) -> int:
        """p."""
        return self.attributes.shape[1]

    def of_new_rows(self, raw: Any, observed: Observed) -> "AttributedSide":
        """The attributes of other rows, of which coefficients are not drawn."""
        if not self.count:
            return self
        return attrs.evolve(self, attributes=read_new_rows(raw, self.groups, observed))

    @property
    def numbers_together(self) -> Iterator[IntArray]:
        """The factors, and each effect that takes attributes: those with the same scales."""
        if self.n_factors:
            yield np.arange(self.n_factors)
        for place in range(self.n_factors, self.free.size):
            if self.free[place]:
                yield np.array([place])

    @cached_property
    def of_rows_with_entries(self) -> Any:
        """The attributes of rows with entries."""
        return self.attributes.matrix[self.has_entries]

    @property
    def is_wide(self) -> bool:
        """True if there are more attributes than rows with entries."""
        return bool(self.of_rows_with_entries.shape[1] > self.of_rows_with_entries.shape[0])

    @cached_property
    def products(self) -> Array:
        """F'F of the rows of each kind (kinds x p x p), or FF' of each group (groups x n x n)."""
        attributes, kinds = self.of_rows_with_entries, self.kinds[self.has_entries]
        if self.is_wide:
            of_group = self.attributes.group_of
            groups = (attributes[:, of_group == g] for g in range(len(self.reference_scales)))
            return np.array([(one @ one.T).toarray() for one in groups])
        of_kinds = (attributes[kinds == kind] for kind in range(int(np.max(kinds, initial=0)) + 1))
        return np.array([(one.T @ one).toarray() for one in of_kinds])

    def contributions(self, matrix: Any, u: Array) -> Array:
        """The products of attributes (n x p) and scaled coefficients (m x p x K), (m x n x K)."""
        m, p, width = u.shape
        made = matrix @ u.transpose(1, 0, 2).reshape(p, m * width)
        return np.asarray(made.reshape(-1, m, width).transpose(1, 0, 2))

    def prior_means(self, draws: CoefficientDraws) -> Array:
        """The part of the prior means of all rows that is due to attributes (m x n x K)."""
        scaled = draws.u * draws.scales[:, self.attributes.group_of]
        return self.contributions(self.attributes.matrix, scaled)

    def coefficients_of_prior(
        self, draws: CoefficientDraws, precisions: Array, rng: np.random.Generator
    ) -> Array:
        """Coefficients u drawn from their prior of these precisions (m x K)."""
        normal = rng.standard_normal(draws.u.shape)
        return np.asarray(self.free * normal / np.sqrt(precisions[:, None]))

    def scales_of_prior(self, m: int, rng: np.random.Generator) -> Array:
        """Scales drawn from their prior (m x groups x K)."""
        scales = np.zeros((m, *self.reference_scales.shape))
        for places in self.numbers_together:
            drawn = np.abs(rng.standard_cauchy((m, len(self.reference_scales), 1)))
            scales[:, :, places] = drawn * self.reference_scales[:, places]
        return scales

    def draw(
        self,
        draws: CoefficientDraws,
        numbers: Array,
        prior: tuple[Array, Array],
        precisions: Array,
        rng: np.random.Generator,
        learns_scales: bool,
    ) -> None:
        """Draw coefficients, and scales, given rows with entries; other rows follow.

        Parameters
        ----------
        draws : CoefficientDraws
        numbers : array (m x n x K)
            The rows.
        prior : arrays (m x n x K)
            Their prior precisions, and means without attributes.
        precisions : array (m x K)
            Prior precisions of coefficients.
        rng : numpy.random.Generator
        learns_scales : bool
        """
        of_rows, means = (part[:, self.has_entries] for part in prior)
        rows = numbers[:, self.has_entries] - means
        before = self.prior_means(draws)
        for places in self.numbers_together:
            numbers_of = rows[:, :, places], of_rows[:, :, places]
            of_coefficients = precisions[:, places]
            self.draw_coefficients(draws, places, *numbers_of, of_coefficients, rng)
            if learns_scales:
                self.draw_scales_of_contributions(draws, places, of_coefficients, rng)
                self.draw_scales_given_coefficients(draws, places, *numbers_of, rng)
        moves = self.prior_means(draws) - before
        numbers[:, ~self.has_entries] += moves[:, ~self.has_entries]

    def draw_coefficients(
        self,
        draws: CoefficientDraws,
        places: IntArray,
        rows: Array,
        of_rows: Array,
        precisions: Array,
        rng: np.random.Generator,
    ) -> None:
        """Draw the coefficients of some numbers, in units where they and rows have variance 1."""
        root, attributes = np.sqrt(precisions)[:, None], self.of_rows_with_entries
        weights = np.sqrt(of_rows[:, :, 0] / precisions[:, :1])
        scales = draws.scales[:, :, places[0]]
        of_attributes = scales[:, self.attributes.group_of]
        u = rng.standard_normal((len(rows), self.count, places.size))
        noise = rng.standard_normal(rows.shape)
        left: Array = rows * np.sqrt(of_rows) - noise
        left -= weights[..., None] * self.contributions(attributes, of_attributes[..., None] * u)
        if self.is_wide:
            system = np.einsum("mg,gij->mij", np.square(scales), self.products)
            left = solved(system, weights, left)
        right = self.contributions(attributes.T, weights[..., None] * left)
        right *= of_attributes[..., None]
        if not self.is_wide:
            of_kinds = self.of_kinds(np.square(weights))
            system = np.einsum("mb,bij->mij", of_kinds, self.products)
            right = solved(system, of_attributes, right)
        draws.u[:, :, places] = (u + right) / root

    def of_kinds(self, numbers: Array) -> Array:
        """The numbers of rows with entries (m x n) that those of one kind share (m x kinds)."""
        kinds, first = np.unique(self.kinds[self.has_entries], return_index=True)
        of_kinds = np.zeros((len(numbers), len(self.products)))
        of_kinds[:, kinds] = numbers[:, first]
        return of_kinds

    def draw_scales_of_contributions(
        self,
        draws: CoefficientDraws,
        places: IntArray,
        precisions: Array,
        rng: np.random.Generator,
    ) -> None:
        """Draw scales and move coefficients so that what they make of attributes stays."""
        n_groups, group_of = len(self.reference_scales), self.attributes.group_of
        squares = np.sum(np.square(draws.u[:, :, places]) * precisions[:, None], axis=2)
        sums = np.array([np.bincount(group_of, of_chain, n_groups) for of_chain in squares])
        count = places.size * np.bincount(group_of, minlength=n_groups)
        begin = np.log(draws.scales[:, :, places[0]])
        reference = self.reference_scales[:, places[0]]

        def log_density(logs: Array) -> Array:
            with np.errstate(over="ignore"):
                quadratic = 0.5 * sums * np.exp(2.0 * (begin - logs))
            return log_half_cauchy(logs, reference) - count * logs - quadratic

        logs = sliced(log_density, begin, rng, LOG_SCALE_WIDTH)
        draws.scales[:, :, places] = np.exp(logs)[..., None]
        draws.u[:, :, places] *= np.exp(begin - logs)[:, group_of, None]

    def draw_scales_given_coefficients(
        self,
        draws: CoefficientDraws,
        places: IntArray,
        rows: Array,
        of_rows: Array,
        rng: np.random.Generator,
    ) -> None:
        """Draw the scale of each group in turn, coefficients and rows with entries as they are."""
        group_of, u = self.attributes.group_of, draws.u[:, :, places]
        parts = [
            self.contributions(self.of_rows_with_entries[:, group_of == g], u[:, group_of == g])
            for g in range(len(self.reference_scales))
        ]
        scales, reference = draws.scales[:, :, places[0]], self.reference_scales[:, places[0]]
        left = rows - sum(scales[:, g, None, None] * part for g, part in enumerate(parts))
        for g, part in enumerate(parts):
            left += scales[:, g, None, None] * part
            squares = np.sum(of_rows * np.square(part), axis=(1, 2))
            products = np.sum(of_rows * part * left, axis=(1, 2))

            def log_density(
                logs: Array, g: int = g, squares: Array = squares, products: Array = products
            ) -> Array:
                with np.errstate(over="ignore", invalid="ignore"):
                    scale = np.exp(logs)
                    quadratic = scale * (products - 0.5 * squares * scale)
                return log_half_cauchy(logs, float(reference[g])) + quadratic

            at = np.log(scales[:, g])
            scales[:, g] = np.exp(sliced(log_density, at, rng, LOG_SCALE_WIDTH))
            left -= scales[:, g, None, None] * part
        draws.scales[:, :, places] = scales[..., None]


def log_half_cauchy(logs: Array, scale: Array | float) -> Array:
    """The log density of the logarithm of a half-Cauchy number, less a constant."""
    t = logs - np.log(scale)
    return np.asarray(t - np.logaddexp(0.0, 2.0 * t))


def solved(system: Array, weights: Array, right: Array) -> Array:
    """Solve ``(W S W + 1) x = right`` with the diagonal W of weights (m x n)."""
    system = system * weights[:, :, None] * weights[:, None]
    system[:, np.arange(weights.shape[1]), np.arange(weights.shape[1])] += 1.0
    return np.asarray(np.linalg.solve(system, right))

"""Coefficients of attributes of rows or columns, on which the means of their factors depend.

The number k of row i is ``x_ik = sum over p of f_ip s_gk u_pk + d_ik``, with the attributes f_ip,
p in group g, a scale s for each group, one for all factors and one for effects, and deviations
d_ik of the prior of rows. Coefficients u_p have the same prior as factors, so that they are turned
and scaled with these, as if they were more rows. Their posterior is a Gaussian for each attribute;
given the other side the means of coefficients and deviations are found together, by conjugate
gradients. The bound is largest at the scales, which are found as EM finds them. The same holds of
columns.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from scipy import sparse

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.rounding import TINY
from mcframe.contracts.sent import Broadcast
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.gaussians import Gaussians, gaussians_given

# At the beginning attributes explain this share of the prior variance of a number, each group the
# same.
INITIAL_SHARE = 0.5
# Conjugate gradients end after so many steps, or when the squared norm has fallen by this factor.
# The next sweep goes on from where they end.
MOST_GRADIENT_STEPS, GRADIENT_FALL = 20, 1e-2


@stored
@attrs.frozen(eq=False)
class AttributeValues(Broadcast):
    """Attributes of n rows or columns (n x p): numbers that are not 0, row after row."""

    starts: IntArray
    places: IntArray
    values: Array
    group_of: IntArray  # the group of each attribute

    @classmethod
    def of(cls, groups: list[Any]) -> "AttributeValues":
        """Groups of attributes (sparse matrices of n rows) side by side."""
        joined = sparse.csr_array(sparse.hstack(groups))
        group_of = np.repeat(np.arange(len(groups)), [group.shape[1] for group in groups])
        return cls(joined.indptr, joined.indices, joined.data.astype(float), group_of)

    @property
    def shape(self) -> tuple[int, int]:
        """n and p."""
        return self.starts.size - 1, self.group_of.size

    @cached_property
    def matrix(self) -> Any:
        """The numbers as a sparse matrix."""
        return sparse.csr_array((self.values, self.places, self.starts), shape=self.shape)

    @property
    def sums_of_squares(self) -> Array:
        """The sums of the squares of each attribute (p,)."""
        return np.asarray(self.squares.sum(axis=0)).ravel()

    @cached_property
    def squares(self) -> Any:
        """The squares of the numbers as a sparse matrix."""
        return sparse.csr_array(
            (np.square(self.values), self.places, self.starts), shape=self.shape
        )


@attrs.frozen(eq=False)
class AttributeSums:
    """Sums over rows from which the coefficients of their attributes follow, before scales.

    With rows x_i under coefficients of 0, their covariances S_i, matrices A_i of their normal
    equations, other prior means m_i, and prior precisions T.

    Attributes
    ----------
    products : array (p x P)
        Sums of f_ip^2 A_i, packed.
    right : array (p x K)
        Sums of f_ip T (x_i - m_i).
    shares : array (p x K)
        Sums of f_ip^2 times the diagonal of T - T S_i T.
    crossed : callable
        From numbers v of all attributes (p x K) to the sums of f_ip (T - T S_i T) f_i'v.
    """

    products: Array
    right: Array
    shares: Array
    crossed: Callable[[Array], Array]

    @classmethod
    def of(
        cls,
        values: AttributeValues,
        matrices: Array,
        without: Gaussians,
        other_means: Array,
        precisions: Array,
    ) -> "AttributeSums":
        """The sums of rows in this process, passed over for each product."""
        covariances = without.full_covariances()

        def crossed(numbers: Array) -> Array:
            means = np.asarray(values.matrix @ numbers)
            pulled = (covariances @ (precisions * means)[..., None])[..., 0]
            return np.asarray(values.matrix.T @ (precisions * (means - pulled)))

        of_squares = values.squares.T
        return cls(
            np.asarray(of_squares @ matrices),
            np.asarray(values.matrix.T @ (precisions * (without.means - other_means))),
            np.asarray(of_squares @ (precisions * (1.0 - precisions * without.variances))),
            crossed,
        )


@stored
@attrs.frozen(eq=False)
class Coefficients(Broadcast):
    """Coefficients of the attributes of all rows, or of all columns.

    Attributes
    ----------
    attributes : AttributeValues
    gaussians : Gaussians
        Of u (p x K); 0 at numbers that take no attributes.
    scales, reference_scales : arrays (n_groups x K)
        Those that were found, and those at which sweeps begin.
    free : mask (K,)
        The numbers that take attributes.
    groups : tuple
        How each group is read, of new rows, too.
    """

    attributes: AttributeValues
    gaussians: Gaussians
    scales: Array
    reference_scales: Array
    free: Mask
    groups: tuple[Any, ...] = ()

    @classmethod
    def initial(
        cls,
        attributes: AttributeValues,
        mean_squares: Array,
        free: Mask,
        precisions: Array,
        n_factors: int,
    ) -> "Coefficients":
        """Coefficients of 0, with scales at which attributes explain a part of the prior.

        ``mean_squares`` (p,) are those of the attributes over all rows. ``precisions`` (K,) are
        those of the numbers of rows or columns; in their units factors have the scale 1.
        """
        n_groups = int(attributes.group_of[-1]) + 1
        sizes = np.bincount(attributes.group_of, mean_squares, n_groups)
        variances = np.where(np.arange(free.size) < n_factors, 1.0, 1.0 / precisions)
        scales = np.sqrt(INITIAL_SHARE * variances / (n_groups * sizes[:, None])) * free
        means = np.zeros((attributes.shape[1], free.size))
        return cls(attributes, Gaussians.without_variance(means), scales, scales, free)

    @cached_property
    def means(self) -> Array:
        """Prior means of all rows given the coefficients' means (n x K)."""
        return self.prior_means(self.gaussians.means)

    @cached_property
    def covariances(self) -> Array:
        """Covariances of the prior means of all rows, packed (n x P)."""
        scaled = self.gaussians.covariances * self.packed_scales
        return np.asarray(self.attributes.squares @ scaled)

    @property
    def variances(self) -> Array:
        """Variances of the prior means of all rows (n x K)."""
        scaled = self.gaussians.variances * np.square(self.scales[self.attributes.group_of])
        return np.asarray(self.attributes.squares @ scaled)

    def prior_means(self, u: Array) -> Array:
        """The prior means of all rows under coefficients (p x K)."""
        scaled = u * self.scales[self.attributes.group_of]
        return np.asarray(self.attributes.matrix @ scaled)

    @property
    def packed_scales(self) -> Array:
        """Products of the scales of two numbers, for each attribute (p x P)."""
        rows, columns = np.tril_indices(self.free.size)
        products = self.scales[:, rows] * self.scales[:, columns]
        return np.asarray(products[self.attributes.group_of])

    @property
    def outer_products(self) -> Array:
        """The sum of E[u u'] over all attributes (K x K)."""
        where = loops.unpacking(self.free.size)
        return np.asarray(np.sum(self.gaussians.outer_products, axis=0)[where])

    def with_values(self, attributes: AttributeValues) -> "Coefficients":
        """Coefficients of this fit beside the attributes of other rows."""
        return attrs.evolve(self, attributes=attributes)

    def deviations(self, total: Gaussians, some: slice = slice(None)) -> Gaussians:
        """All or some rows without what attributes say of them."""
        return Gaussians(
            total.means - self.means[some],
            total.covariances - self.covariances[some],
            total.log_determinants,
        )

    def added_to(self, without: Gaussians, precisions: Array) -> tuple[Gaussians, Gaussians]:
        """Rows given the coefficients, of rows if these were 0; and deviations from attributes.

        ``precisions`` (n or 1 x K) are those of the prior of the rows.
        """
        pull = (precisions * self.means)[..., None]
        means = without.means + (without.full_covariances() @ pull)[..., 0]
        deviations = attrs.evolve(without, means=means - self.means)
        covariances = without.covariances + self.covariances
        return Gaussians(means, covariances, without.log_determinants), deviations

    def updated(self, sums: AttributeSums, own_precisions: Array) -> "Coefficients":
        """The best coefficients given what rows say of them; deviations of rows follow.

        ``own_precisions`` (K,) are those of the prior of coefficients.
        """
        products = sums.products * self.packed_scales
        nothing, no_prior = np.zeros(self.gaussians.means.shape), np.zeros((1, self.free.size))
        gaussians = gaussians_given(
            products, nothing, self.free, no_prior, own_precisions[None], no_prior
        )
        means = self.best_means(sums, own_precisions)
        return attrs.evolve(self, gaussians=attrs.evolve(gaussians, means=means))

    def best_means(self, sums: AttributeSums, own_precisions: Array) -> Array:
        """Means of coefficients, by conjugate gradients from where they are.

        With the covariances S of rows given the columns, the rows' precisions T, those of
        coefficients t and scaled attributes F, the equations are ``(F'(T - T S T) F + t) u = F'T
        (x - m)``, where x are rows without attributes and m their other means.
        """
        scales = self.scales[self.attributes.group_of]

        def product(u: Array) -> Array:
            return scales * sums.crossed(scales * u) + own_precisions * u

        diagonal = sums.shares * np.square(scales) + own_precisions
        u = self.gaussians.means
        residual = (scales * sums.right - product(u)) * self.free
        direction = scaled = residual / diagonal
        size = first = float(np.sum(residual * scaled))
        for _ in range(MOST_GRADIENT_STEPS):
            if size <= GRADIENT_FALL * first or not size > TINY:
                break
            image = product(direction) * self.free
            step = size / float(np.sum(direction * image))
            u, residual = u + step * direction, residual - step * image
            scaled = residual / diagonal
            before, size = size, float(np.sum(residual * scaled))
            direction = scaled + size / before * direction
        return u

    def rescaled(self, own_precisions: Array, n_factors: int) -> "Coefficients":
        """Coefficients with the scales that make the bound largest, contributions unchanged."""
        squares = own_precisions * (np.square(self.gaussians.means) + self.gaussians.variances)
        n_groups, group_of = len(self.scales), self.attributes.group_of
        sums = np.array([np.bincount(group_of, column, n_groups) for column in squares.T]).T
        means = sums / np.bincount(group_of, minlength=n_groups)[:, None]
        if n_factors:
            means[:, :n_factors] = np.mean(means[:, :n_factors], axis=1, keepdims=True)
        growth = np.sqrt(np.where(self.free, np.maximum(means, TINY), 1.0))
        shrinking = 1.0 / growth[group_of]
        rows, columns = np.tril_indices(self.free.size)
        gaussians = Gaussians(
            self.gaussians.means * shrinking,
            self.gaussians.covariances * shrinking[:, rows] * shrinking[:, columns],
            self.gaussians.log_determinants + 2.0 * np.sum(np.log(shrinking), axis=1),
        )
        return attrs.evolve(self, gaussians=gaussians, scales=self.scales * growth)

    def turned(self, matrix: Array, log_determinant: float) -> "Coefficients":
        """The coefficients where factors are turned and scaled."""
        return attrs.evolve(self, gaussians=self.gaussians.turned(matrix, log_determinant))

    def divergence(self, own_precisions: Array) -> float:
        """KL(q(u) || p), summed over attributes."""
        squares = np.square(self.gaussians.means) + self.gaussians.variances
        terms = own_precisions * squares - np.log(own_precisions) - 1.0
        return 0.5 * float(np.sum(terms[:, self.free]) - np.sum(self.gaussians.log_determinants))

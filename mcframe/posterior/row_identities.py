"""Rows whose numbers satisfy linear equations: conditioning of Gaussians on linear observations.

Given what is observed of a row, its missing numbers x have the distribution N(m, S) by a component
of the mixture. Given ``A x = b``, too, they have the mean ``m + S A' (A S A')^-1 (b - A m)`` and
the covariance ``S - S A' (A S A')^-1 A S``. A draw of N(m, S) is a draw of that after the same
step (conditioning by kriging: Journel and Huijbregts, Mining Geostatistics, 1978).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.rounding import EPS, RESULT_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.row_mixtures import (
    Conditionals,
    moments_of,
    roots_of,
    rows_by_pattern,
)
from mcframe.posterior.row_draws import drawn_places
from mcframe.runtime.machine import check_time

if TYPE_CHECKING:
    from mcframe.posterior.rows import RowsPosterior


@attrs.frozen(eq=False)
class MissingNumbers:
    """The missing numbers of some rows (b, each of m) given the observed ones, by component.

    Attributes
    ----------
    rows : array of integers (b,)
    places : array of integers (b x m)
    log_weights : array (C x b)
        The logarithms of the probabilities of components.
    means : array (C x b x m)
    covariances : array (C x g x m x m)
        Of z; g is b, or 1 where all rows have the same.
    scales : array (b x m)
        By which z is stretched about its mean.
    noise : array (b x m)
        The variances of numbers given z.
    """

    rows: IntArray
    places: IntArray
    log_weights: Array
    means: Array
    covariances: Array
    scales: Array
    noise: Array

    @property
    def variances(self) -> Array:
        """The variance of each number by component (C x b x m)."""
        diagonals = np.einsum("cgjj->cgj", self.covariances)
        return np.square(self.scales) * diagonals + self.noise

    def conditioned(
        self, coefficients: Array, rest: Array
    ) -> tuple["MissingNumbers", Array, Array]:
        """The means and probabilities given ``coefficients x = rest``, and the gains.

        Coefficients are (b x q x m), and what is returned last are ``S A' (A S A')^-1``, (C x b x
        m x q), and the products ``A S`` (C x b x q x m). Equations without missing numbers, and
        those that follow from others, are left out.
        """
        stretched = coefficients * self.scales[:, None]
        products = stretched @ self.covariances * self.scales[:, None]
        products += coefficients * self.noise[:, None]
        squares = products @ coefficients.swapaxes(-1, -2)
        inverse, log_determinants = pseudo_inverse(squares)
        gains = products.swapaxes(-1, -2) @ inverse
        residuals = rest - np.einsum("bqj,cbj->cbq", coefficients, self.means)
        distances = np.einsum("cbq,cbqr,cbr->cb", residuals, inverse, residuals)
        log_weights = self.log_weights - 0.5 * (distances + log_determinants)
        means = self.means + np.einsum("cbjq,cbq->cbj", gains, residuals)
        return attrs.evolve(self, means=means, log_weights=log_weights), gains, products

    def draws(self, rng: np.random.Generator) -> tuple[Array, IntArray]:
        """A draw of each row's deviations from its mean (b x m), and of its component (b,)."""
        component = drawn_places(self.log_weights.T, rng)
        normal = rng.standard_normal(self.scales.shape)
        deviations = np.empty(self.scales.shape)
        roots = roots_of(self.covariances + EPS * np.eye(self.scales.shape[1]))
        for c in range(len(self.means)):
            chosen = np.flatnonzero(component == c)
            of_rows = roots[c][chosen if len(roots[c]) > 1 else [0]]
            deviations[chosen] = (of_rows @ normal[chosen][:, :, None])[:, :, 0]
        noise = np.sqrt(self.noise) * rng.standard_normal(self.noise.shape)
        return self.scales * deviations + noise, component


def batches_of(missing: Mask, informed: Mask) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Rows with missing numbers, some at a time: (b,), and the places of two kinds of numbers.

    Those that are missing (b x m), and those of which something is known (b x o), which may be
    missing, too. Rows with the same have these places once, (1 x m) and (1 x o).
    """
    width = missing.shape[1]
    size = max(1, BATCH_NUMBERS // width**2)
    some_missing: Mask = np.any(missing, axis=1, keepdims=True)
    kinds = np.hstack([missing, informed & some_missing])
    for rows, places in rows_by_pattern(kinds):
        counts = np.count_nonzero(missing[rows[: len(places)]], axis=1)
        for count in np.unique(counts):
            chosen = counts == count
            of_count = rows if len(places) == 1 else rows[chosen]
            both = places[chosen]
            for start in range(0, of_count.size, size):
                part = slice(start, start + size)
                some = both if len(both) == 1 and len(places) == 1 else both[part]
                yield of_count[part], some[:, :count], some[:, count:] - width


def pseudo_inverse(squares: Array) -> tuple[Array, Array]:
    """The pseudoinverses of positive semidefinite matrices, and their log pseudodeterminants."""
    sizes = np.sqrt(np.maximum(np.einsum("...ii->...i", squares), 0.0))
    inverses = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    scaled = squares * inverses[..., None, :] * inverses[..., None]
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.swapaxes(-1, -2)))
    large = values > RESULT_ROUNDING
    shares = np.divide(1.0, values, out=np.zeros_like(values), where=large)
    inner = (vectors * shares[..., None, :]) @ vectors.swapaxes(-1, -2)
    logs = np.sum(np.log(np.where(large, values, 1.0)), axis=-1)
    logs += 2.0 * np.sum(np.log(np.where(sizes > 0.0, sizes, 1.0)), axis=-1)
    return inner * inverses[..., None, :] * inverses[..., None], logs


@stored
@attrs.frozen(eq=False)
class RowIdentities:
    """Linear equations that hold in each row.

    Attributes
    ----------
    coefficients : array (q x d)
        In the units of the rows, of length 1 each.
    constants : array (q,)
    noise : array (d,)
        The variance of each number given z: equations are of numbers, with their noise.
    holds : mask (n x q) or None
        The rows in which each one holds; None for all.
    offsets : array (n x d) or None
        What the numbers of rows lack: the equations are of the sums. None for 0.
    """

    coefficients: Array
    constants: Array
    noise: Array
    holds: Mask | None = None
    offsets: Array | None = None

    def take(self, rows: IntArray) -> "RowIdentities":
        """The identities of some rows."""
        return attrs.evolve(
            self,
            holds=None if self.holds is None else self.holds[rows],
            offsets=None if self.offsets is None else self.offsets[rows],
        )

    @property
    def of_other_rows(self) -> "RowIdentities":
        """The identities of further rows, in all of which they hold."""
        return attrs.evolve(self, holds=None, offsets=None)

    def constants_of(self, rows: IntArray) -> Array:
        """The constants in rows (b x q), or those of all rows (q,)."""
        if self.offsets is None:
            return self.constants
        return np.asarray(self.constants - self.offsets[rows] @ self.coefficients.T)

    def coefficients_of(self, rows: IntArray) -> Array:
        """The coefficients in rows (b x q x d), 0 where an equation does not hold."""
        if self.holds is None:
            return np.broadcast_to(self.coefficients, (rows.size, *self.coefficients.shape))
        return np.asarray(self.holds[rows][:, :, None] * self.coefficients)

    def concerned(self, missing: Mask) -> Mask:
        """The rows (n,) in which a number of an equation that holds is missing."""
        touched = missing.astype(np.float64) @ (self.coefficients != 0.0).T > 0.0
        return np.any(touched if self.holds is None else touched & self.holds, axis=1)

    def missing_numbers(
        self, posterior: "RowsPosterior"
    ) -> Iterator[tuple[MissingNumbers, Array, Array]]:
        """The missing numbers of rows that are concerned, with what equations say of them.

        That is their coefficients (b x q x m), and the constants less what is observed (b x q).
        Numbers of which limits are known are missing, and their sites are observations of them.
        """
        table, components = posterior.table, posterior.components
        width = table.values.shape[1]
        informed = table.precisions > 0.0
        observed = informed if posterior.limits is None else informed & ~posterior.limits.mask
        concerned = self.concerned(~observed)
        responsibilities: Array = np.ones((len(observed), 1))
        if len(components.means) > 1:
            _, responsibilities = components.evidence(table)
        for rows, pattern, others in batches_of(~observed & concerned[:, None], informed):
            check_time()
            places = np.broadcast_to(pattern, (rows.size, pattern.shape[1]))
            of_rows = responsibilities[rows]
            with np.errstate(divide="ignore"):
                log_weights = np.log(of_rows.T)
            numbers = MissingNumbers(
                rows,
                places,
                log_weights,
                *components.conditional_numbers(table, rows, others, pattern),
                *np.ones((2, 1, 1)),
            )
            diagonals = np.maximum(np.einsum("cgjj->cgj", numbers.covariances), 0.0)
            mean, variance = moments_of(of_rows.T[:, :, None], numbers.means, diagonals)
            every = np.ones((rows.size, width))
            every[np.arange(rows.size)[:, None], places] = variance
            scales = posterior.scales(every)[np.arange(rows.size)[:, None], places]
            coefficients = self.coefficients_of(rows)
            observed_values = np.where(observed[rows], table.values[rows], 0.0)
            yield (
                attrs.evolve(
                    numbers,
                    means=mean + scales * (numbers.means - mean),
                    scales=scales,
                    noise=self.noise[places],
                ),
                np.take_along_axis(coefficients, places[:, None], 2),
                self.constants_of(rows) - np.einsum("bqj,bj->bq", coefficients, observed_values),
            )

    def conditioned(self, posterior: "RowsPosterior", cells: Conditionals) -> Conditionals:
        """The distribution of each number of z in the rows of a posterior, given these, too.

        ``cells`` are those without. Their noise is part of the variances of numbers, so that those
        of z are smaller by that, but not below 0.
        """
        responsibilities = cells.responsibilities.copy()
        means, variances = cells.means.copy(), cells.variances.copy()
        for numbers, coefficients, rest in self.missing_numbers(posterior):
            after, gains, products = numbers.conditioned(coefficients, rest)
            weights = np.exp(after.log_weights - np.max(after.log_weights, axis=0))
            responsibilities[numbers.rows] = (weights / np.sum(weights, axis=0)).T
            explained = np.einsum("cbjq,cbqj->cbj", gains, products)
            at = slice(None), numbers.rows[:, None], numbers.places
            means[at] = after.means
            variances[at] = np.maximum(numbers.variances - explained - numbers.noise, 0.0)
        return attrs.evolve(
            cells, responsibilities=responsibilities, means=means, variances=variances
        )

    def drawn(self, posterior: "RowsPosterior", drawn: Array, rng: np.random.Generator) -> Array:
        """Draws of numbers with their noise (n x d), those of rows that are concerned anew."""
        drawn = drawn.copy()
        for numbers, coefficients, rest in self.missing_numbers(posterior):
            after, gains, _ = numbers.conditioned(coefficients, rest)
            deviations, component = after.draws(rng)
            row = np.arange(component.size)
            steps = np.einsum("bqj,bj->bq", coefficients, deviations)
            moved = deviations - np.einsum("bjq,bq->bj", gains[component, row], steps)
            drawn[numbers.rows[:, None], numbers.places] = after.means[component, row] + moved
        return drawn

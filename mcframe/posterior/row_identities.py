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
    IncompleteRows,
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


def batches_of(missing: Mask) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows and places of missing numbers as ``rows_by_pattern`` has them, some rows at a time."""
    size = max(1, BATCH_NUMBERS // missing.shape[1] ** 2)
    for rows, places in rows_by_pattern(missing):
        for start in range(0, rows.size, size):
            part = slice(start, start + size)
            yield rows[part], places if len(places) == 1 else places[part]


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
    """

    coefficients: Array
    constants: Array
    noise: Array
    holds: Mask | None = None

    def of_rows(self, rows: IntArray) -> "RowIdentities":
        """The identities of some rows."""
        if self.holds is None:
            return self
        return attrs.evolve(self, holds=self.holds[rows])

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
        self, posterior: "RowsPosterior", table: IncompleteRows
    ) -> Iterator[tuple[MissingNumbers, Array, Array]]:
        """The missing numbers of rows that are concerned, with what equations say of them.

        That is their coefficients (b x q x m), and the constants less what is observed (b x q).
        """
        mixture, width = posterior.components, table.values.shape[1]
        observed = table.precisions > 0.0
        concerned = self.concerned(~observed)
        covariances = mixture.covariances
        responsibilities: Array = np.ones((len(observed), 1))
        if len(mixture.means) > 1:
            _, responsibilities = mixture.evidence(table)
        for rows, pattern in batches_of(~observed & concerned[:, None]):
            check_time()
            first = rows[: len(pattern)]
            others = np.nonzero(observed[first])[1].reshape(len(pattern), -1)
            inside = pattern[:, :, None], pattern[:, None, :]
            across = others[:, :, None], pattern[:, None, :]
            around = others[:, :, None], others[:, None, :]
            noise = table.noise[first[:, None], others]
            values = table.values[rows[:, None], others]
            means, inner = [], []
            for mean, covariance in zip(mixture.means, covariances, strict=True):
                system = covariance[around] + noise[:, :, None] * np.eye(others.shape[1])
                weights = np.linalg.solve(system, covariance[across])
                deviations = values - mean[others]
                means.append(mean[pattern] + (deviations[:, None] @ weights)[:, 0])
                inner.append(covariance[inside] - covariance[across].swapaxes(1, 2) @ weights)
            places = np.broadcast_to(pattern, (rows.size, pattern.shape[1]))
            of_rows = responsibilities[rows]
            with np.errstate(divide="ignore"):
                log_weights = np.log(of_rows.T)
            numbers = MissingNumbers(
                rows, places, log_weights, np.array(means), np.array(inner), *np.ones((2, 1, 1))
            )
            diagonals = np.maximum(np.einsum("cgjj->cgj", numbers.covariances), 0.0)
            mean, variance = moments_of(of_rows.T[:, :, None], numbers.means, diagonals)
            every = np.ones((rows.size, width))
            every[np.arange(rows.size)[:, None], places] = variance
            scales = posterior.scales(every)[np.arange(rows.size)[:, None], places]
            coefficients = self.coefficients_of(rows)
            of_others = np.take_along_axis(
                coefficients, np.broadcast_to(others, (rows.size, others.shape[1]))[:, None], 2
            )
            yield (
                attrs.evolve(
                    numbers,
                    means=mean + scales * (numbers.means - mean),
                    scales=scales,
                    noise=self.noise[places],
                ),
                np.take_along_axis(coefficients, places[:, None], 2),
                self.constants - np.einsum("bqj,bj->bq", of_others, values),
            )

    def conditioned(
        self, posterior: "RowsPosterior", table: IncompleteRows, cells: Conditionals
    ) -> Conditionals:
        """The distribution of each number of z in rows of a table, given the identities, too.

        ``cells`` are those without. Their noise is part of the variances of numbers, so that those
        of z are smaller by that, but not below 0.
        """
        responsibilities = cells.responsibilities.copy()
        means, variances = cells.means.copy(), cells.variances.copy()
        for numbers, coefficients, rest in self.missing_numbers(posterior, table):
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

    def drawn(
        self,
        posterior: "RowsPosterior",
        table: IncompleteRows,
        drawn: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Draws of numbers with their noise (n x d), those of rows that are concerned anew."""
        drawn = drawn.copy()
        for numbers, coefficients, rest in self.missing_numbers(posterior, table):
            after, gains, _ = numbers.conditioned(coefficients, rest)
            deviations, component = after.draws(rng)
            row = np.arange(component.size)
            steps = np.einsum("bqj,bj->bq", coefficients, deviations)
            moved = deviations - np.einsum("bjq,bq->bj", gains[component, row], steps)
            drawn[numbers.rows[:, None], numbers.places] = after.means[component, row] + moved
        return drawn

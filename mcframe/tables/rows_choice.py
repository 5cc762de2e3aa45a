"""The prior of the rows of a table, chosen on held-out entries, and the errors at these."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import UnobservedWarning
from mcframe.contracts.validators import counted
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.model.table import AffineUnits, affine_units
from mcframe.numerics.row_mixtures import Incomplete, moments_of
from mcframe.posterior.answer import Posterior, posterior
from mcframe.posterior.joint import NOISE
from mcframe.posterior.rows import RowsPosterior, fit_rows, powers_of, student_factors
from mcframe.posterior.wide_rows import is_wide
from mcframe.regularizers import GaussianRows, NuclearNorm
from mcframe.runtime.machine import limits_blas
from mcframe.runtime.progress import current
from mcframe.selection.splitters import places_by_content
from mcframe.tables.coding import (
    BLOCK,
    Coding,
    Indicator,
    RawPredictions,
    calibrated,
    joined,
    most_likely,
)

# Rows times the cube of columns up to which a full covariance is estimated. A step of that takes
# n m^3 / 2 multiplications where m numbers of a row are missing.
MOST_WORK = 1e11
# The cube of rows times columns up to which the covariance of a wide table is estimated.
MOST_WIDE_WORK = 2.5e9

# The numbers of rows that a prior may count as. The first that is tried is the one nearest to half
# the number of columns.
PRIORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
USUAL_PRIOR = 3.0
# How many Gaussians are mixed beside one, in this order, as long as they predict better; and how
# many columns they have together at most.
COMPONENTS = (2, 3, 4, 6, 8)
MOST_COLUMNS = 200
# The variances of the noise of features that are tried where targets of a row tell of each other,
# and the second with which the search begins. Noise keeps small what features tell by chance.
FEATURE_NOISES = (NOISE, 0.1, 0.3, 1.0, 3.0, 10.0)
FIRST_FEATURE_NOISE = 3.0
# The tolerance of the estimate from all numbers. If few columns have missing entries, these
# change the evidence by little.
FINAL_TOLERANCE = 1e-5
# Of the steps on a fold: what raises the evidence by less for each number is the last.
TOLERANCE = 1e-4


@attrs.frozen(eq=False)
class HeldOutMoments:
    """Predictive means and variances of held-out numbers, NaN elsewhere.

    Attributes
    ----------
    spread : array (d,)
        The standard deviations of the columns.
    means : array (n x d)
    variances : array (n x d)
        In standard units: 1 without any information.
    """

    spread: Array
    means: Array
    variances: Array

    def of_columns(self, columns: slice) -> RawPredictions:
        """The raw predictions of some columns."""
        return RawPredictions(self.means[:, columns], self.variances[:, columns])


# Other columns are hidden beside a held-out entry if they are missing that much more often, with
# its column, and by ``DEVIATIONS`` standard errors. So many entries of a column are held out at
# least, and as many as make so much work: entries times the cube of columns.
LEAST_EXCESS, FEWEST_TOGETHER, WORK_TOGETHER = 0.1, 200, 1e10
# Numbers of rows beside whose entries others are hidden, in one batch.
MOST_TOGETHER = 2_000_000


@attrs.frozen(eq=False)
class CoMissingness:
    """Entries that go missing together with those of a column, beyond chance.

    An entry that is held out is observed, and so may be all that goes missing together with its
    column. To stand for missing entries it is predicted from a row that looks like theirs: what is
    missing of a row that lacks the column is hidden, each entry with such a probability that it
    is hidden or missing as often as where the column is missing.

    Attributes
    ----------
    missing : mask (n x number of columns)
    donors : array of integers (n,)
        For each row one that lacks the column, drawn at random.
    chances : array (number of columns,)
        For each column the probability with which an entry is hidden where the donor lacks it.
    levels : array (n,)
        For each row a number drawn from 0 to 1; its entries are hidden where chances exceed it.
    """

    missing: Mask
    donors: IntArray
    chances: Array
    levels: Array

    def hidden(self, rows: IntArray) -> Mask:
        """The entries to hide in these rows (len(rows) x number of columns)."""
        hidden: Mask = self.missing[self.donors[rows]] & (self.levels[rows, None] < self.chances)
        return hidden

    @classmethod
    def of_columns(cls, missing: Mask, rng: np.random.Generator) -> dict[int, "CoMissingness"]:
        """Return it for all columns that are missing together with others."""
        n, numbers, counts = len(missing), missing.astype(np.float32), missing.sum(axis=0)
        by_column, shares = {}, counts / n
        # One pair of all that are compared is expected to differ as far by chance.
        deviations = max(DEVIATIONS, float(scipy.special.ndtri(1.0 - 1.0 / (counts.size**2 + 1))))
        for column in np.flatnonzero((counts > 0) & (counts < n)):
            n_missing = counts[column]
            n_both_missing = (numbers.T @ numbers[:, column]).astype(np.float64)
            share_if_missing, share_if_observed = (
                n_both_missing / n_missing,
                (counts - n_both_missing) / (n - n_missing),
            )
            sds = np.sqrt(shares * (1.0 - shares) * (1.0 / n_missing + 1.0 / (n - n_missing)))
            co_missing = share_if_missing - share_if_observed > np.maximum(
                LEAST_EXCESS, deviations * sds
            )
            co_missing[column] = False
            if co_missing.any():
                chances = np.zeros(co_missing.size)
                excess = (share_if_missing - share_if_observed)[co_missing]
                chances[co_missing] = (
                    excess / (share_if_missing * (1.0 - share_if_observed))[co_missing]
                )
                donors = rng.choice(np.flatnonzero(missing[:, column]), n)
                by_column[int(column)] = cls(missing, donors, chances, rng.random(n))
        return by_column


@attrs.define(eq=False)
class RowsFold:
    """One fold of a table: the numbers from which rows are estimated, and those held out.

    Attributes
    ----------
    values : array (n x d)
        The table, NaN where missing.
    seen : array (n x d)
        The values without those that are held out.
    held : mask (n x number of owners)
    owners : array of integers (d,)
        The column of the table that each number belongs to, in ascending order.
    n_features : int
        The number of first columns, from which the others, the targets, are to be predicted; 0
        where none are targets. Held-out targets are predicted from ``seen`` alone, as where all
        targets of a row are held out; otherwise from all other numbers of their row.
    co_missing : dict from column to CoMissingness
        Of the columns whose entries are missing together with others.
    """

    values: Array
    seen: Array
    held: Mask
    owners: IntArray
    n_features: int = 0
    co_missing: Mapping[int, CoMissingness] = attrs.field(factory=dict)
    last: RowsPosterior | None = None

    def co_masked(self, column: int, rows: IntArray) -> Mask:
        """The entries hidden with held-out ones of a column (len(rows) x d), these included."""
        hidden = self.co_missing[column].hidden(rows)
        hidden[:, column] = True
        return hidden[:, self.owners]

    @property
    def factors(self) -> Array:
        """The factors of variances of columns with few numbers (d,)."""
        return student_factors(np.count_nonzero(~np.isnan(self.seen), axis=0))

    @property
    def targets_inform_targets(self) -> bool:
        """True if rows with held-out targets have targets that are seen."""
        if not self.n_features:
            return False
        held, seen = self.held[:, self.n_features :], ~np.isnan(self.seen[:, self.n_features :])
        return bool(np.any(held.any(axis=1) & seen.any(axis=1)))

    def precisions(self, feature_noise: float = NOISE) -> Array:
        """One over the variance of the noise of each number."""
        noise = np.full(self.owners.size, NOISE)
        noise[: self.n_features] = feature_noise
        return 1.0 / noise

    def estimated(
        self, components: int, prior_rows: float, feature_noise: float = NOISE
    ) -> RowsPosterior:
        """The posterior of the rows by ``seen``; it starts from the last one of one Gaussian."""
        fitted = ~np.all(np.isnan(self.seen), axis=1)
        posterior = fit_rows(
            standardized(self.seen)[fitted],
            self.precisions(feature_noise),
            components=components,
            prior_rows=prior_rows,
            tol=TOLERANCE,
            start=self.last,
        )
        if components == 1:
            self.last = posterior
        return posterior

    def predictions(
        self, posterior: RowsPosterior, feature_noise: float = NOISE
    ) -> "HeldOutMoments":
        """The moments of the held-out numbers."""
        return self.moments_in_units(posterior, standard_units(self.seen), feature_noise)

    def moments_in_units(
        self, posterior: RowsPosterior, units: AffineUnits, feature_noise: float
    ) -> "HeldOutMoments":
        """The moments of the held-out numbers under a posterior in these units."""
        rows, columns = np.flatnonzero(self.held.any(axis=1)), np.arange(self.owners.size)
        if self.n_features:
            standard = units.standard(self.seen[rows], columns)
            cells = posterior.condition(standard, self.precisions(feature_noise)).cells
            weights = cells.responsibilities.T[:, :, None]
            predicted, variances = moments_of(weights, cells.means, cells.variances)
            variances += NOISE
        else:
            standard = units.standard(self.values[rows], columns)
            predicted, variances = posterior.components.left_out(standard, NOISE, self.owners)
            self.predict_co_masked(posterior, standard, rows, predicted, variances)
        held = self.held[np.ix_(rows, self.owners)]
        moments = HeldOutMoments(units.spread, *np.full((2, *self.values.shape), np.nan))
        moments.means[rows] = np.where(held, units.natural(predicted, columns), np.nan)
        moments.variances[rows] = np.where(held, variances, np.nan)
        return moments

    def predict_co_masked(
        self,
        posterior: RowsPosterior,
        standard: Array,
        rows: IntArray,
        means: Array,
        variances: Array,
    ) -> None:
        """Set the moments of entries with co-masked ones (all but rows n_held x d)."""
        pairs = [(column, np.flatnonzero(self.held[rows, column])) for column in self.co_missing]
        if not pairs:
            return
        columns = np.concatenate([np.full(places.size, column) for column, places in pairs])
        places = np.concatenate([places for _, places in pairs])
        size = max(1, MOST_TOGETHER // standard.shape[1])
        for first in range(0, places.size, size):
            part = slice(first, first + size)
            hidden = np.vstack(
                [
                    self.co_masked(column, rows[places[part][columns[part] == column]])
                    for column in np.unique(columns[part])
                ]
            )
            seen = np.where(hidden, np.nan, standard[places[part]])
            table = Incomplete.of(seen, self.precisions(), posterior.table.variances)
            cells = posterior.components.conditionals(table)
            moments = moments_of(
                cells.responsibilities.T[:, :, None], cells.means, cells.variances
            )
            cell, number = np.nonzero(self.owners == columns[part, None])
            at = places[part][cell], number
            means[at], variances[at] = (moment[cell, number] for moment in moments)
            variances[at] += NOISE

    def predictions_by_factors(self) -> "HeldOutMoments":
        """The moments of the held-out numbers under Gaussian factors, from ``seen``."""
        model, seen = RowsChoice().model([number_block(BLOCK)]), self.seen.copy()
        for column in self.co_missing:
            rows = np.flatnonzero(self.held[:, column])
            seen[rows] = np.where(self.co_masked(column, rows), np.nan, seen[rows])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            fitted = posterior(model, {BLOCK: seen}, random_state=0)
        cells = np.nonzero(self.held[:, self.owners])
        spread = standard_units(self.seen).spread
        moments = HeldOutMoments(spread, *np.full((2, *self.values.shape), np.nan))
        moments.means[cells] = fitted.predict(BLOCK, *cells)
        moments.variances[cells] = np.square(fitted.sd(BLOCK, *cells) / spread[cells[1]])
        return moments

    def loss(self, predictions: Array) -> float:
        """The mean over columns of the squared errors of held-out numbers, over the variance."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            squares = np.square(self.values - predictions)
            scored = ~np.isnan(squares)
            counts = np.count_nonzero(scored, axis=0)
            errors = np.sum(np.where(scored, squares, 0.0), axis=0) / counts
            variances = np.zeros(counts.size)
            variances[counts > 0] = np.nanvar(self.values[:, counts > 0], axis=0)
            errors = np.bincount(self.owners, np.where(counts > 0, errors, 0.0))
            relative = errors / np.bincount(self.owners, variances)
        relative = relative[np.isfinite(relative)]
        return float(np.mean(relative)) if relative.size else np.nan


@attrs.frozen(eq=False)
class RowsChoice:
    """The mixture of rows: how many Gaussians, the strength of their prior, noise of features.

    Attributes
    ----------
    components : int or None
        None where rows have Gaussian factors, for the table is wide.
    prior_rows : float or None
        How many rows the prior of the covariance of one Gaussian counts as.
    feature_noise : float
        The variance of the noise of features in standard units, where targets are predicted.
    tried : tuple of (components, prior_rows, feature_noise)
    losses : array (n_tried x n_folds)
        Mean over columns of the squared errors of held-out numbers, over the variance.
    """

    components: int | None = None
    prior_rows: float | None = None
    feature_noise: float = NOISE
    tried: tuple[tuple[int, float, float], ...] = ()
    losses: Array = attrs.field(factory=lambda: np.zeros((0, 0)))

    @property
    def means(self) -> Array:
        """The mean loss over folds of each that was tried."""
        return np.mean(self.losses, axis=1)

    @property
    def best_weight(self) -> float:
        """The number of rows that the prior counts as, NaN for factors."""
        return np.nan if self.prior_rows is None else self.prior_rows

    def noise_of(self, is_target: bool) -> float | None:
        """The variance of the noise of a block, in standard units; None for the usual one."""
        return None if is_target or self.feature_noise == NOISE else self.feature_noise

    def model(self, blocks: Sequence[Block]) -> Model:
        """The model of rows of these blocks of numbers."""
        if self.components is None:
            return Model([attrs.evolve(block, bias=True) for block in blocks], [NuclearNorm()])
        rows = GaussianRows(components=self.components, prior_rows=self.prior_rows)
        return Model(blocks, [rows])

    def posterior(
        self,
        model: Model,
        data: Any,
        folds: Sequence[RowsFold] = (),
        moments: Sequence[HeldOutMoments] = (),
        **options: Any,
    ) -> Posterior:
        """The posterior of that model, with the options of ``mc.posterior``.

        Its variances have the powers with the largest likelihood of what was held out in the
        folds and has these moments, and the factors of columns with few observed numbers.
        """
        if self.components is None:
            return posterior(model, data, **options)
        fitted = posterior(model, data, tol=FINAL_TOLERANCE, **options)
        rows, exponents = fitted.engine.rows, None
        if moments:
            variances = errors_of(*self.predict_held_out(rows, folds))[1]
            exponents = powers_of(errors_of(folds, moments)[0], variances)
        factors = student_factors(np.count_nonzero(rows.table.precisions, axis=0))
        rows = attrs.evolve(rows, powers=exponents, factors=factors)
        return attrs.evolve(fitted, engine=attrs.evolve(fitted.engine, rows=rows))

    def predict_held_out(
        self, rows: RowsPosterior, folds: Sequence[RowsFold]
    ) -> tuple[Sequence[RowsFold], list[HeldOutMoments]]:
        """Moments of held-out numbers under one posterior; of tables it is one fold."""
        if not folds[0].n_features:  # what else is held out does not matter
            held = np.logical_or.reduce([fold.held for fold in folds])
            folds = [attrs.evolve(folds[0], held=held)]
        units = standard_units(folds[0].values)
        return folds, [fold.moments_in_units(rows, units, self.feature_noise) for fold in folds]

    def final_moments(self, rows: RowsPosterior, folds: Sequence[RowsFold]) -> HeldOutMoments:
        """Moments of all held-out numbers under the final posterior, with its variances.

        No number is held out in two folds.
        """
        without_scales = attrs.evolve(rows, powers=None, factors=None)
        moments_by_fold = self.predict_held_out(without_scales, folds)[1]
        means, variances = np.full((2, *folds[0].values.shape), np.nan)
        for moments in moments_by_fold:
            held = ~np.isnan(moments.variances)
            means[held], variances[held] = moments.means[held], moments.variances[held]
        variances -= NOISE
        variances = np.square(rows.scales(variances)) * variances + NOISE
        return HeldOutMoments(moments_by_fold[0].spread, means, variances)

    def __str__(self) -> str:
        if self.components is None:
            return "Gaussian factors of rows and columns"
        several = f" of {self.components} components" * (self.components > 1)
        noisy = f", features with noise {self.feature_noise:g}" * (self.feature_noise > NOISE)
        return f"Gaussian rows{several}, a prior of {counted(self.best_weight, 'row')}{noisy}"


@attrs.define(eq=False)
class PriorSearch:
    """The candidates tried on the folds, their losses, and the best moments of each fold.

    ``one_gaussian`` has the posteriors of the best prior and noise, from which mixtures start.
    """

    folds: Sequence[RowsFold]
    priors: Sequence[float]
    tried: list[tuple[int, float, float]] = attrs.field(factory=list)
    losses: list[list[float]] = attrs.field(factory=list)
    predictions: list[HeldOutMoments] = attrs.field(factory=list)
    one_gaussian: list[RowsPosterior | None] = attrs.field(factory=list)

    @property
    def best(self) -> tuple[int, float, float]:
        """The number of Gaussians, the strength of the prior and the noise with the least loss."""
        return self.tried[int(np.argmin(np.mean(self.losses, axis=1)))]

    def try_candidate(self, components: int, prior: float, noise: float) -> bool:
        """Compute the losses of a candidate; True if it is new and has the least loss so far."""
        if (components, prior, noise) in self.tried:
            return False
        with np.errstate(over="ignore", invalid="ignore"):  # of a held-out number of 1e300
            predictions = [
                fold.predictions(fold.estimated(components, prior, noise), noise)
                for fold in self.folds
            ]
        self.tried.append((components, prior, noise))
        pairs = zip(self.folds, predictions, strict=True)
        self.losses.append([fold.loss(moments.means) for fold, moments in pairs])
        tried_now = f"{counted(components, 'Gaussian')}, prior of {counted(prior, 'row')}"
        current().report(f"{tried_now}: loss {np.mean(self.losses[-1]):.4g}")
        if len(self.tried) > 1 and self.best != self.tried[-1]:
            return False
        self.predictions = predictions
        if components == 1:
            self.one_gaussian = [fold.last for fold in self.folds]
        return True

    def search_priors(self, first: float, noise: float) -> None:
        """Try strengths of the prior of one Gaussian, from this one on."""
        line_search(self.priors, first, lambda prior: self.try_candidate(1, prior, noise))

    def search_noise(self, first: float) -> None:
        """Try noises of features, from this one on, with the best prior of one Gaussian."""
        prior = self.best[1]
        line_search(FEATURE_NOISES, first, lambda noise: self.try_candidate(1, prior, noise))


def line_search(values: Sequence[float], first: float, is_better: Callable[[float], bool]) -> None:
    """Try the first value, then larger ones while they are better, or else smaller ones."""
    is_better(first)
    at = values.index(first)
    for others in (values[at + 1 :], values[:at][::-1]):
        if [*itertools.takewhile(is_better, others)]:
            break


@limits_blas
def choose_rows(
    folds: Sequence[RowsFold],
    wide: bool = False,
    prior_rows: float | None = None,
    components: Sequence[int] = COMPONENTS,
    also: RowsChoice | None = None,
) -> tuple[RowsChoice, list[HeldOutMoments]]:
    """Return the choice with the least loss on held-out numbers, and its moments of each fold.

    With one Gaussian, the prior first counts as half as many rows as there are columns, then as
    more rows while the loss falls, or else as fewer. Where targets of a row tell of each other,
    this is done with two variances of the noise of features; then features get more noise while
    the loss falls, or else less, and the prior is searched again. Last, mixtures of 2, 3, ...
    components are tried while the loss falls. Nothing is tried without a fold, or for a ``wide``
    table, which has factors. If ``prior_rows`` is given, one Gaussian has that prior. The choice
    ``also`` is tried, too.
    """
    if wide:
        return RowsChoice(), [fold.predictions_by_factors() for fold in folds]
    if not folds:
        return RowsChoice(1, prior_rows or USUAL_PRIOR), []
    width = folds[0].owners.size
    search = PriorSearch(folds, PRIORS if prior_rows is None else (prior_rows,))
    distances = np.abs(np.log(search.priors) - np.log(0.5 * width))
    search.search_priors(search.priors[int(np.argmin(distances))], NOISE)
    if also is not None and also.prior_rows is not None:
        search.try_candidate(1, also.prior_rows, also.feature_noise)
    if folds[0].targets_inform_targets:
        search.search_priors(search.best[1], FIRST_FEATURE_NOISE)
        search.search_noise(search.best[2])
        search.search_priors(*search.best[1:])
    if prior_rows is None and components:
        _, prior, noise = search.best
        for fold, posterior_of_one in zip(folds, search.one_gaussian, strict=True):
            fold.last = posterior_of_one
        for number in components:
            if number * width > MOST_COLUMNS or not search.try_candidate(number, prior, noise):
                break
    exponents = powers_of(*errors_of(folds, search.predictions))
    predictions = [
        attrs.evolve(
            moments, variances=fold.factors * np.minimum(moments.variances, 1.0) ** exponents
        )
        for fold, moments in zip(folds, search.predictions, strict=True)
    ]
    return RowsChoice(*search.best, tuple(search.tried), np.array(search.losses)), predictions


def errors_of(
    folds: Sequence[RowsFold], predictions: Sequence[HeldOutMoments]
) -> tuple[Array, Array]:
    """Squares of held-out errors over the factors of their columns, and variances, else NaN."""
    squares, variances = np.full((2, *folds[0].values.shape), np.nan)
    for fold, moments in zip(folds, predictions, strict=True):
        held = ~np.isnan(moments.variances)
        with np.errstate(over="ignore", invalid="ignore"):  # of a held-out number of 1e300
            errors = (fold.values - moments.means) / moments.spread
            squares[held] = (np.square(errors) / fold.factors)[held]
        variances[held] = moments.variances[held]
    return squares, variances


def takes_factors(shape: tuple[int, int]) -> bool:
    """True if the rows of a table of numbers (n x d) have factors, and no full covariance."""
    rows, columns = map(float, shape)
    if is_wide(*shape):
        return rows**3 * columns > MOST_WIDE_WORK
    return rows * columns**3 > MOST_WORK


def number_block(name: str) -> Block:
    """A block of numbers in standard units, with noise that is learned."""
    return Block(name, Gaussian(variance=None), standardize=True)


def dealt_entries(codes: Array, count: int, rng: np.random.Generator) -> IntArray:
    """Return the fold of each observed entry of a table (n x n_columns), -1 of the others.

    Column by column, entries with the same value in turn, so that each fold has its share of a
    rare one. The order of columns plays no part.
    """
    parts = np.full(codes.shape, -1)
    for place in np.argsort(places_by_content(codes)):
        rows = rng.permutation(np.flatnonzero(~np.isnan(codes[:, place])))
        rows = rows[np.argsort(codes[rows, place], kind="stable")]
        parts[rows, place] = (rng.integers(count) + np.arange(rows.size)) % count
    return parts


def folds_of_parts(
    values: Array, parts: IntArray, owners: IntArray, count: int, **options: Any
) -> list[RowsFold]:
    """Return the folds of a table of numbers by the fold of each entry (n x number of owners).

    Folds that hold nothing out, or leave nothing to be fitted, are left out.
    """
    folds = []
    for k in range(count):
        held = parts == k
        seen = np.where(held[:, owners], np.nan, values)
        if held.any() and not np.isnan(seen).all():
            folds.append(RowsFold(values, seen, held, owners, **options))
    return folds


def standard_units(values: Array) -> AffineUnits:
    """Return the units in which the columns (n x d) of a standardised block are read."""
    rows, columns = np.nonzero(~np.isnan(values))
    return affine_units(
        values[rows, columns], columns, np.ones(rows.size), values.shape[1], robust=False
    )


def standardized(values: Array) -> Array:
    """Return numbers (n x d) in the units of their own columns."""
    return standard_units(values).standard(values, np.arange(values.shape[1]))


# Other columns predict which entries are missing if the AUC is at least this, and so many of its
# standard errors above 1/2. A column needs at least so many missing and observed entries.
LEAST_AUC, DEVIATIONS, FEWEST = 0.55, 4.0, 20
# Folds of rows, and the ridge, in rows, of the regression that predicts missing entries.
FOLDS, RIDGE = 3, 10.0
# No entry counts more than so many times the mean.
MOST_WEIGHT = 10.0


@attrs.frozen(eq=False)
class Missingness:
    """The prediction of which entries of a column are missing by the other columns.

    Attributes
    ----------
    auc : float or None
        The area under the ROC curve of that prediction, on rows that were left out; None where
        there are too few missing or observed entries.
    weights : array (n,)
        The weight of each row in errors at held-out entries, which are to stand for errors at
        missing ones; 1 where the other columns do not predict what is missing.
    """

    auc: float | None
    weights: Array

    @classmethod
    def of_columns(
        cls, values: Array, owners: IntArray, rng: np.random.Generator
    ) -> list["Missingness"]:
        """The missingness of each column.

        Parameters
        ----------
        values : array (n x d)
            The table as numbers, NaN where missing.
        owners : array of integers (d,)
            The column that each number belongs to, from 0, in ascending order.
        """
        missing = np.isnan(values[:, np.searchsorted(owners, np.arange(owners[-1] + 1))])
        counts = np.count_nonzero(missing, axis=0)
        columns = np.flatnonzero(np.minimum(counts, len(missing) - counts) >= FEWEST)
        of_columns = [cls(None, np.ones(len(missing))) for _ in counts]
        scores = scores_of(values, missing, owners, columns, rng)
        for column, score in zip(columns, scores.T, strict=True):
            is_missing, n_missing = missing[:, column], counts[column]
            n_observed = is_missing.size - n_missing
            ranked = scipy.stats.mannwhitneyu(
                score[is_missing], score[~is_missing], method="asymptotic"
            )
            auc = float(ranked.statistic / (n_missing * n_observed))
            deviation = np.sqrt((is_missing.size + 1.0) / (12.0 * n_missing * n_observed))
            weights: Array = np.ones(is_missing.size)
            if auc >= max(LEAST_AUC, 0.5 + DEVIATIONS * deviation):
                weights = odds_of_missing(score, is_missing)
            of_columns[column] = cls(auc, weights)
        return of_columns


def scores_of(
    values: Array, missing: Mask, owners: IntArray, columns: IntArray, rng: np.random.Generator
) -> Array:
    """Return how far rows look like those where a column is missing, by all other columns.

    A ridge regression, fitted on the other folds of rows. The response is the indicator that an
    entry of the column is missing; the design has the numbers of the other columns and the
    indicators of their missing entries. The result is (n x len(columns)).
    """
    columns_with_missing = np.flatnonzero(missing.any(axis=0))
    design = np.hstack([np.nan_to_num(standardized(values)), missing[:, columns_with_missing]])
    belongs = np.concatenate([owners, columns_with_missing])
    scores = np.zeros((len(missing), columns.size))
    parts = rng.permutation(len(values)) % FOLDS
    for k in range(FOLDS):
        fitted = parts != k
        if not fitted.any() or not columns.size:  # of a single row
            break
        centred = design - np.mean(design[fitted], axis=0)
        ridge_predictions = (
            ridge_by_rows if np.count_nonzero(fitted) < belongs.size else ridge_by_columns
        )
        responses = missing[np.ix_(fitted, columns)].astype(np.float64)
        scores[~fitted] = ridge_predictions(
            centred[fitted], responses, centred[~fitted], belongs, columns
        )
    return scores


def ridge_by_columns(
    design: Array, responses: Array, others: Array, belongs: IntArray, columns: IntArray
) -> Array:
    """Return ridge predictions of responses, each without its own columns of the design.

    One inverse of as many rows as the design has columns serves all responses: with H that inverse
    of the whole design, and c the coefficients by all columns, those without the columns B are
    ``c - H_B H_BB^-1 c_B``.

    Parameters
    ----------
    design : array (n x p)
        Its columns have the mean 0.
    responses : array (n x q)
    others : array (n_others x p)
        The rows that are predicted.
    belongs : array of integers (p,)
        The column of the table that each column of the design is of.
    columns : array of integers (q,)
        The column of the table that each response is of.

    Returns
    -------
    array (n_others x q)
    """
    inverse = np.linalg.inv(design.T @ design + RIDGE * np.eye(design.shape[1]))
    coefficients = inverse @ (design.T @ responses)
    for q, column in enumerate(columns):
        left_out = np.flatnonzero(belongs == column)
        within = np.linalg.solve(inverse[np.ix_(left_out, left_out)], coefficients[left_out, q])
        coefficients[:, q] -= inverse[:, left_out] @ within
    return others @ coefficients


def ridge_by_rows(
    design: Array, responses: Array, others: Array, belongs: IntArray, columns: IntArray
) -> Array:
    """Return what ``ridge_by_columns`` does, by an inverse of as many rows as the design has.

    With X the design, T the other rows and ``K = X X' + ridge I`` the predictions by all columns
    are ``T X' K^-1 y``. Without the columns B the products are those less ``T_B X_B'``, and K has
    the inverse ``K^-1 + L (I - X_B' L)^-1 L'`` with ``L = K^-1 X_B``.
    """
    inverse = np.linalg.inv(design @ design.T + RIDGE * np.eye(len(design)))
    images, solutions = inverse @ design, inverse @ responses
    products = others @ design.T
    predictions = products @ solutions
    for q, column in enumerate(columns):
        left_out = np.flatnonzero(belongs == column)
        part, image = design[:, left_out], images[:, left_out]
        within = np.eye(left_out.size) - part.T @ image
        solution = solutions[:, q] + image @ np.linalg.solve(within, image.T @ responses[:, q])
        predictions[:, q] = products @ solution - others[:, left_out] @ (part.T @ solution)
    return predictions


def odds_of_missing(scores: Array, missing: Mask) -> Array:
    """Return the odds of being missing by a logistic curve of the scores, over their mean.

    The mean is that of observed entries; no entry counts more than ``MOST_WEIGHT`` times that.
    """
    spread = float(np.std(scores))
    both = np.column_stack([np.zeros(scores.size), scores / spread])
    slope, offsets = most_likely(both, missing.astype(np.intp))
    logs = slope * both[:, 1] + offsets[1] - offsets[0]
    odds = np.exp(np.minimum(logs - np.median(logs[~missing]), 50.0))
    capped: Array = np.minimum(odds, MOST_WEIGHT * np.mean(odds[~missing]))
    return capped / float(np.mean(capped[~missing]))


@attrs.frozen
class ColumnScores:
    """Errors of the predictions of a column at its held-out entries.

    Attributes
    ----------
    loss : float
        The mean loss of the held-out entries over that of a constant.
    error, error_of_constant : float
        By the coding's measure. The constant is, as for ``loss``, the best one for what the fit
        has seen.
    n_held : int
        How many entries were held out, over all folds.
    auc_of_holes : float or None
        How well the other columns tell which entries are missing: the area under the curve on rows
        that were left out; None where that was not looked at.
    weighted : bool
        Whether held-out entries are weighted by how likely they were to be missing.
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int
    auc_of_holes: float | None = None
    weighted: bool = False


def observed(codes: Array) -> Array:
    """Return the numbers that are not missing."""
    return codes[~np.isnan(codes)]


def calibrated_and_scored(
    coding: Coding,
    codes: Array,
    held: Sequence[Mask],
    raw: Sequence[RawPredictions],
    missingness: Missingness,
    final_predictions: RawPredictions | None = None,
) -> tuple[Coding, ColumnScores]:
    """Return the coding of a column, fitted to its held-out entries, and the losses at these.

    The losses of a fold are those of a coding that was fitted to the other folds; the constant is
    the best one for the entries that the fold does not hold out. The final fit is another one than
    those of the folds: the losses are at least those of its predictions at the same entries. If
    probabilities lose more than constant ones, the constant ones are taken; if values are farther
    off than the best constant, probabilities are drawn to it as far as it is the best value.

    Parameters
    ----------
    codes : array (n,)
    held : sequence of masks (n,)
        Fold by fold.
    raw : sequence of RawPredictions (n x width of the coding)
        Of each fold, NaN where nothing is held out.
    missingness : Missingness
    final_predictions : RawPredictions, optional
        Those of the final fit, each held-out entry from the rest of its row.
    """
    folds, observed_codes, all_held = range(len(held)), observed(codes), np.logical_or.reduce(held)

    def fitted(to: Iterable[int]) -> Coding:
        pairs = [(codes[held[k]], raw[k].at(held[k])) for k in to]
        if not pairs:
            return coding
        return calibrated(
            coding, np.concatenate([c for c, _ in pairs]), joined(r for _, r in pairs)
        )

    def losses(
        fold_coding: Coding, predictions: RawPredictions, hidden: Array, remaining: Array
    ) -> Array:
        """Losses and errors of the answers and of a constant (4 x n_hidden)."""
        answer, constant = (
            fold_coding.decode(predictions.means, predictions.variances),
            fold_coding.constant(remaining),
        )
        answers = np.repeat(fold_coding.constant_answer(remaining), hidden.size, axis=0)
        lost = (
            fold_coding.losses(answer, hidden),
            fold_coding.losses(answers, hidden),
            fold_coding.errors(fold_coding.predicted(answer), hidden),
            fold_coding.errors(np.full(hidden.size, constant), hidden),
        )
        return np.array(lost)

    def sums_of(adjust: Callable[[Coding, Array], Coding]) -> Array:
        """Return weighted sums of losses over folds, at least those of the answers at the end."""
        sums = np.zeros(4)
        for k in folds:
            hidden, remaining = codes[held[k]], observed(np.where(held[k], np.nan, codes))
            remaining = remaining if remaining.size else hidden
            predictions = raw[k].at(held[k])
            fold_coding = adjust(
                codings_of_other_folds[k].with_reference(predictions.variances), remaining
            )
            sums += (
                losses(fold_coding, predictions, hidden, remaining) @ missingness.weights[held[k]]
            )
        if final_predictions is not None:
            fold_coding, hidden = adjust(final_coding, observed_codes), codes[all_held]
            final_losses = (
                losses(fold_coding, final_predictions.at(all_held), hidden, observed_codes)
                @ missingness.weights[all_held]
            )
            sums[[0, 2]] = np.maximum(sums, final_losses)[[0, 2]]
        return sums

    codings_of_other_folds = [fitted(other for other in folds if other != k) for k in folds]
    final_coding = fitted(folds)
    if final_predictions is not None:
        final_coding = final_coding.with_reference(final_predictions.at(all_held).variances)
    sums = sums_of(lambda fitted_coding, _: fitted_coding)
    if isinstance(final_coding, Indicator):
        if sums[0] <= sums[1] and sums[2] > sums[3]:
            final_coding, sums = (
                final_coding.filling(observed_codes),
                sums_of(lambda fitted_coding, remaining: fitted_coding.filling(remaining)),
            )
            sums[2] = sums[3]
        if sums[0] > sums[1]:  # the same probabilities everywhere
            final_coding, sums[0], sums[2] = (
                final_coding.as_constant(observed_codes),
                sums[1],
                sums[3],
            )
    weight = sum(float(np.sum(missingness.weights[mask])) for mask in held)
    return final_coding, ColumnScores(
        loss=float(sums[0] / sums[1]) if sums[1] > 0.0 else np.nan,
        error=coding.error(float(sums[2] / weight)),
        error_of_constant=coding.error(float(sums[3] / weight)),
        n_held=sum(int(np.count_nonzero(mask)) for mask in held),
        auc_of_holes=missingness.auc,
        weighted=bool(np.ptp(missingness.weights) > 0.0),
    )

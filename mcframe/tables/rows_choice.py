"""The prior of the rows of a table and the number of Gaussians, chosen on held-out entries."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import PriorOfRows
from mcframe.contracts.validators import counted
from mcframe.model import Block, Model
from mcframe.model.held_out import NEVER_HELD_OUT, HeldOut
from mcframe.model.transforms import AffineUnits
from mcframe.posterior.answer import Posterior, posterior
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.row_estimates import COMPONENTS_TRIED, fit_rows
from mcframe.posterior.row_limits import RowLimits
from mcframe.posterior.row_variances import (
    NOISE_SHARE,
    error_ratios_of,
    student_variance_inflation,
    variance_exponents_of,
)
from mcframe.posterior.rows import RowsPosterior
from mcframe.regularizers import GaussianRows
from mcframe.runtime.machine import limits_blas
from mcframe.runtime.progress import current
from mcframe.tables.coding import NUMBERS_BLOCK
from mcframe.tables.number_tables import factor_model, standard_units
from mcframe.tables.rows_folds import HeldOutMoments, RowsFold

# The numbers of rows that a prior may count as. The first that is tried is the one nearest to half
# the number of columns.
PRIOR_ROWS_TRIED = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)

DEFAULT_PRIOR_ROWS = 3.0

# The largest number of Gaussians times columns.
MOST_MIXTURE_COLUMNS = 200

# The variances of the noise of features that are tried if some targets of a row help to predict
# its others, and the one from which the second search begins. Noise limits what features seem to
# explain by chance.
FEATURE_NOISES_TRIED = (NOISE_SHARE, 0.1, 0.3, 1.0, 3.0, 10.0)

FIRST_FEATURE_NOISE = 3.0

# The tolerance of the estimate from all numbers. If few columns have missing entries, these
# change the evidence by little.
FINAL_TOLERANCE = 1e-5

# Folds hold out so much that errors are larger than those of an estimate from all numbers. By how
# much is seen where this share of it is held out.
SMALL_SHARE = 0.3


@stored
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
    feature_noise: float = NOISE_SHARE
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
        """The variance of the noise of a block, in standard units; None for the default one."""
        return None if is_target or self.feature_noise == NOISE_SHARE else self.feature_noise

    def model(
        self,
        blocks: Sequence[Block],
        groups: RowGroups | None = None,
        row_weights: Array | None = None,
        variables: IntArray | None = None,
    ) -> Model:
        """The model of rows of these blocks of numbers, in groups or with weights if they are.

        With ``variables`` the prior learns what it expects of the variances of each.
        """
        if self.components is None:
            return factor_model(blocks)
        rows = GaussianRows(
            components=self.components,
            prior_rows=self.prior_rows,
            variables=variables,
            groups=groups,
            row_weights=row_weights,
        )
        return Model(blocks, [rows])

    def posterior(
        self,
        model: Model,
        data: Any,
        folds: Sequence[RowsFold] = (),
        moments: Sequence[HeldOutMoments] = (),
        limits: RowLimits | None = None,
        calibrated: Mask | None = None,
        **options: Any,
    ) -> tuple[Posterior, HeldOutMoments | None]:
        """The posterior of that model, and the moments of held-out numbers under it.

        ``options`` are those of ``mc.posterior``, and ``limits`` those of numbers that are missing
        in the data, in its units. The variances of each column are raised to the
        power with the largest likelihood of the numbers that the folds hold out, whose predictions
        are ``moments``, and are multiplied by a factor if the column has few observed numbers. So
        are those of the moments that are returned, which are None without folds or with Gaussian
        factors of rows. Errors of folds are reduced to those of an estimate from all numbers,
        except of numbers that are ``calibrated`` (d,), to whose errors probabilities are fitted.
        """
        if self.components is None:
            return posterior(model, data, **options), None
        fitted = posterior(model, data, tol=FINAL_TOLERANCE, **options)
        engine, exponents, final_moments = fitted.engine, None, None
        assert isinstance(engine, JointPosterior)  # of Gaussian rows
        rows = engine.rows
        # The folds may hold a part of the rows, whose units are others.
        numbers = [np.asarray(data[block.name], dtype=np.float64) for block in model.blocks]
        units = standard_units(np.hstack(numbers))
        if limits is not None:
            [prior] = model.regularizers
            assert isinstance(prior, PriorOfRows)
            in_units = limits.in_units(units, NOISE_SHARE)
            rows = self.rows_within(in_units, rows, prior.variables)
        if moments:
            final_moments = self.predict_held_out(rows, folds, units)
            ratios = self.error_ratios(folds, moments, final_moments)
            ratios = ratios if calibrated is None else np.where(calibrated, 1.0, ratios)
            final_moments = attrs.evolve(final_moments, error_ratios=ratios)
            exponents = variance_exponents_of(
                np.square(ratios) * squares_of(folds, moments)[0], final_moments.variances
            )
        inflation = student_variance_inflation(np.count_nonzero(rows.table.precisions, axis=0))
        rows = attrs.evolve(rows, variance_exponents=exponents, variance_inflation=inflation)
        if final_moments is not None:
            variances = final_moments.variances - NOISE_SHARE
            variances = np.square(rows.scales(variances)) * variances + NOISE_SHARE
            final_moments = attrs.evolve(final_moments, variances=variances)
        return attrs.evolve(fitted, engine=attrs.evolve(engine, rows=rows)), final_moments

    def rows_within(
        self, limits: RowLimits, rows: RowsPosterior, variables: IntArray | None
    ) -> RowsPosterior:
        """The posterior of rows that was estimated without limits, estimated with them.

        The limits are in standard units.
        """
        values = np.where(rows.table.precisions > 0.0, rows.table.values, np.nan)
        return fit_rows(
            values,
            rows.table.precisions,
            components=self.components or 1,
            prior_rows=self.prior_rows,
            variables=variables,
            tol=FINAL_TOLERANCE,
            start=rows if self.components == 1 else None,
            limits=limits,
            members=rows.table.members,
            n_groups=rows.n_groups,
            row_weights=rows.table.row_weights,
        )

    def error_ratios(
        self,
        folds: Sequence[RowsFold],
        moments: Sequence[HeldOutMoments],
        final_moments: HeldOutMoments,
    ) -> Array:
        """Errors of an estimate from all numbers over those of the folds, by number (d,).

        Of a third held out, pairs of columns lose more than half of the rows in which both are
        seen. So a smaller share is held out once more, and one over the square of errors is taken
        to be linear in the share. Ratios are at most 1. They are 1 where there is one fold, which
        holds out rows of a longer table.
        """
        if len(folds) == 1 or self.prior_rows is None:
            return np.ones(final_moments.means.shape[1])
        tables, rng = folds[0].held_out.tables, np.random.default_rng(0)
        is_held = rng.random(tables[NUMBERS_BLOCK].shape[0]) < SMALL_SHARE
        fold_of_row = np.where(
            is_held, rng.integers(len(folds), size=is_held.size), NEVER_HELD_OUT
        )
        scored = np.logical_or.reduce(
            [
                fold.held_out.scored_cells(NUMBERS_BLOCK) & (fold_of_row == number)[:, None]
                for number, fold in enumerate(folds)
            ]
        )
        held_out = HeldOut.of_cells(tables, {NUMBERS_BLOCK: scored})
        fold = attrs.evolve(folds[0], held_out=held_out)
        rows = fold.estimate(self.components or 1, self.prior_rows, self.feature_noise)
        deviations = np.sqrt(final_moments.variances)
        errors, of_folds = (
            errors_of(*predicted) / deviations
            for predicted in (([fold], [fold.predict(rows, self.feature_noise)]), (folds, moments))
        )
        gains = np.maximum(error_ratios_of(errors, of_folds) ** -2.0 - 1.0, 0.0)
        return np.asarray((1.0 + gains / (1.0 - SMALL_SHARE)) ** -0.5)

    def predict_held_out(
        self, rows: RowsPosterior, folds: Sequence[RowsFold], units: AffineUnits
    ) -> HeldOutMoments:
        """Moments of all held-out numbers under one posterior, whose numbers are in these units.

        No number is held out in two folds.
        """
        # What else is held out does not matter, but for the sites of limits.
        if not folds[0].n_features and folds[0].limits is None:
            held_out = HeldOut.of_all([fold.held_out for fold in folds])
            folds = [attrs.evolve(folds[0], held_out=held_out)]
        means, variances = np.full((2, *folds[0].values.shape), np.nan)
        for fold in folds:
            moments = fold.moments_in_units(rows, units, self.feature_noise)
            predicted = ~np.isnan(moments.variances)
            means[predicted], variances[predicted] = (
                moments.means[predicted],
                moments.variances[predicted],
            )
        return HeldOutMoments(units.spread, means, variances)

    def __str__(self) -> str:
        if self.components is None:
            return "Gaussian factors of rows and columns"
        several = f" of {self.components} components" * (self.components > 1)
        noisy = f", features with noise {self.feature_noise:g}" * (
            self.feature_noise > NOISE_SHARE
        )
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
                fold.predict(fold.estimate(components, prior, noise), noise) for fold in self.folds
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
            self.one_gaussian = [fold.warm_start for fold in self.folds]
        return True

    def search_priors(self, first: float, noise: float) -> None:
        """Try strengths of the prior of one Gaussian, from this one on."""
        search_upwards(self.priors, first, lambda prior: self.try_candidate(1, prior, noise))

    def search_noise(self, first: float) -> None:
        """Try noises of features, from this one on, with the best prior of one Gaussian."""
        prior = self.best[1]
        search_upwards(
            FEATURE_NOISES_TRIED, first, lambda noise: self.try_candidate(1, prior, noise)
        )


def nearest_prior(width: int, priors: Sequence[float] = PRIOR_ROWS_TRIED) -> float:
    """Return the prior that is the nearest to half the number of columns, which is tried first."""
    distances = np.abs(np.log(priors) - np.log(0.5 * width))
    return priors[int(np.argmin(distances))]


def search_upwards(
    values: Sequence[float], first: float, is_better: Callable[[float], bool]
) -> None:
    """Try the first value, then larger ones while they are better, or else smaller ones."""
    is_better(first)
    place = values.index(first)
    for others in (values[place + 1 :], values[:place][::-1]):
        if [*itertools.takewhile(is_better, others)]:
            break


@limits_blas
def choose_rows(
    folds: Sequence[RowsFold],
    wide: bool = False,
    prior_rows: float | None = None,
    components: Sequence[int] = COMPONENTS_TRIED,
    extra_candidate: RowsChoice | None = None,
) -> tuple[RowsChoice, list[HeldOutMoments]]:
    """Return the choice with the least loss on held-out numbers, and its moments of each fold.

    With one Gaussian, the prior first counts as half as many rows as there are columns, then as
    more rows while the loss falls, or else as fewer. If some targets of a row help to predict
    others, this is done with two variances of the noise of features; then features get more noise
    while the loss falls, or else less, and the prior is searched again. Last, mixtures of 2, 3,
    ... components are tried while the loss falls. Nothing is tried without a fold, or for a
    ``wide`` table, which has factors. If ``prior_rows`` is given, one Gaussian has that prior. The
    prior and the noise of ``extra_candidate`` are tried, too.
    """
    if wide:
        return RowsChoice(), [fold.predict_by_factors() for fold in folds]
    if not folds:
        return RowsChoice(1, prior_rows or DEFAULT_PRIOR_ROWS), []
    width = folds[0].column_of_number.size
    search = PriorSearch(folds, PRIOR_ROWS_TRIED if prior_rows is None else (prior_rows,))
    search.search_priors(nearest_prior(width, search.priors), NOISE_SHARE)
    if extra_candidate is not None and extra_candidate.prior_rows is not None:
        search.try_candidate(1, extra_candidate.prior_rows, extra_candidate.feature_noise)
    if folds[0].targets_inform_targets:
        search.search_priors(search.best[1], FIRST_FEATURE_NOISE)
        search.search_noise(search.best[2])
        search.search_priors(*search.best[1:])
    if prior_rows is None and components:
        _, prior, noise = search.best
        for fold, posterior_of_one in zip(folds, search.one_gaussian, strict=True):
            fold.warm_start = posterior_of_one
        for number in components:
            if number * width > MOST_MIXTURE_COLUMNS or not search.try_candidate(
                number, prior, noise
            ):
                break
    exponents = variance_exponents_of(*squares_of(folds, search.predictions))
    predictions = [
        attrs.evolve(
            moments,
            variances=fold.variance_inflation * np.minimum(moments.variances, 1.0) ** exponents,
        )
        for fold, moments in zip(folds, search.predictions, strict=True)
    ]
    return RowsChoice(*search.best, tuple(search.tried), np.array(search.losses)), predictions


def errors_of(folds: Sequence[RowsFold], predictions: Sequence[HeldOutMoments]) -> Array:
    """Held-out errors in units of the numbers (n x d), NaN elsewhere."""
    errors = np.full(folds[0].values.shape, np.nan)
    for fold, moments in zip(folds, predictions, strict=True):
        predicted = ~np.isnan(moments.variances)
        with np.errstate(over="ignore", invalid="ignore"):  # of a held-out number of 1e300
            errors[predicted] = ((fold.values - moments.means) / moments.spread)[predicted]
    return errors


def squares_of(
    folds: Sequence[RowsFold], predictions: Sequence[HeldOutMoments]
) -> tuple[Array, Array]:
    """Squares of held-out errors over the inflation of variances, and variances; else NaN."""
    squares, variances = np.full((2, *folds[0].values.shape), np.nan)
    for fold, moments in zip(folds, predictions, strict=True):
        predicted = ~np.isnan(moments.variances)
        with np.errstate(over="ignore"):
            of_fold = np.square(errors_of([fold], [moments])) / fold.variance_inflation
        squares[predicted] = of_fold[predicted]
        variances[predicted] = moments.variances[predicted]
    return squares, variances

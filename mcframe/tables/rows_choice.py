"""The prior of the rows of a table of numbers, chosen on held-out entries."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import UnobservedWarning
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.model.units import AffineUnits, affine_units
from mcframe.numerics.left_out import left_out_means
from mcframe.numerics.threads import limits_blas
from mcframe.posterior.answer import Posterior
from mcframe.posterior.fitting import posterior
from mcframe.posterior.joint import NOISE
from mcframe.posterior.rows import RowsPosterior, fit_rows
from mcframe.regularizers import GaussianRows, NuclearNorm
from mcframe.selection.column_order import places_by_content
from mcframe.tables.as_numbers import BLOCK

# Rows times the cube of columns up to which a full covariance is estimated. A step of that takes
# n m^3 / 2 multiplications where m numbers of a row are missing.
MOST_WORK = 1e11

# The numbers of rows that a prior may count as. The first that is tried is the one nearest to half
# the number of columns.
PRIORS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
USUAL_PRIOR = 3.0
# How many Gaussians are mixed beside one, in this order, as long as they predict better; and how
# many columns they have together at most.
COMPONENTS = (2, 3, 4, 6, 8)
MOST_COLUMNS = 200
# The tolerance of the estimate from all numbers: where few columns have holes, much of what is
# missing changes little of the evidence.
FINAL_TOLERANCE = 1e-5
# Of the steps on a fold: what raises the evidence by less for each number is the last.
TOLERANCE = 1e-3


@attrs.define(eq=False)
class RowsFold:
    """The numbers of a table that its rows are estimated from, and those that are held out.

    Attributes
    ----------
    values : array (n x d)
        The table, NaN where missing.
    seen : array (n x d)
        What is left for the estimate.
    held : mask (n x number of owners)
    owners : array of integers (d,)
        The column of a table that each number belongs to, in ascending order.
    from_seen : bool
        Whether held-out numbers are predicted from what the estimate has seen, as where rows of
        all targets are held out, and not from all others of their row.
    """

    values: Array
    seen: Array
    held: Mask
    owners: IntArray
    from_seen: bool = False
    last: RowsPosterior | None = None

    @property
    def precisions(self) -> Array:
        """One over the variance of the noise of each number."""
        return np.full(self.owners.size, 1.0 / NOISE)

    def estimated(self, components: int, prior_rows: float) -> RowsPosterior:
        """The posterior of the rows that the fold has seen, from the last of one Gaussian on."""
        fitted = ~np.all(np.isnan(self.seen), axis=1)
        found = fit_rows(
            standardized(self.seen)[fitted],
            self.precisions,
            components=components,
            prior_rows=prior_rows,
            tol=TOLERANCE,
            start=self.last,
        )
        if components == 1:
            self.last = found
        return found

    def means(self, found: RowsPosterior) -> Array:
        """What is predicted of the held-out numbers (n x d), NaN elsewhere."""
        rows, columns = np.flatnonzero(self.held.any(axis=1)), np.arange(self.owners.size)
        units = standard_units(self.seen)
        if self.from_seen:
            standard = units.standard(self.seen[rows], columns)
            cells = found.condition(standard, self.precisions).cells
            predicted = np.einsum("nc,cnd->nd", cells.responsibilities, cells.means)
        else:
            standard = units.standard(self.values[rows], columns)
            predicted = left_out_means(standard, NOISE, found.components, self.owners)
        held = self.held[np.ix_(rows, self.owners)]
        means = np.full(self.values.shape, np.nan)
        means[rows] = np.where(held, units.natural(predicted, columns), np.nan)
        return means

    def means_by_factors(self) -> Array:
        """The same under Gaussian factors, predicted from what the fold has seen."""
        model = RowsChoice().model([number_block(BLOCK)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            found = posterior(model, {BLOCK: self.seen}, random_state=0)
        rows, columns = np.nonzero(self.held[:, self.owners])
        means = np.full(self.values.shape, np.nan)
        means[rows, columns] = found.predict(BLOCK, rows, columns)
        return means

    def loss(self, means: Array) -> float:
        """The mean over columns of the squared errors of held-out numbers, over the variance."""
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.square(self.values - means)
            known = ~np.isnan(squares)
            counts = np.count_nonzero(known, axis=0)
            errors = np.sum(np.where(known, squares, 0.0), axis=0) / counts
            variances = np.where(counts > 0, np.nanvar(self.values, axis=0), 0.0)
            errors = np.bincount(self.owners, np.where(counts > 0, errors, 0.0))
            relative = errors / np.bincount(self.owners, variances)
        relative = relative[np.isfinite(relative)]
        return float(np.mean(relative)) if relative.size else np.nan


@attrs.frozen(eq=False)
class RowsChoice:
    """The number of Gaussians in the mixture of rows, and the strength of the prior covariance.

    Attributes
    ----------
    components : int or None
        None where rows have Gaussian factors, for the table is wide.
    prior_rows : float or None
        How many rows the prior of the covariance of one Gaussian counts as.
    tried : tuple of (components, prior_rows)
    losses : array (n_tried x n_folds)
        Mean over columns of the squared errors of held-out numbers, over the variance.
    """

    components: int | None = None
    prior_rows: float | None = None
    tried: tuple[tuple[int, float], ...] = ()
    losses: Array = attrs.field(factory=lambda: np.zeros((0, 0)))

    @property
    def means(self) -> Array:
        """The mean loss over folds of each that was tried."""
        return np.mean(self.losses, axis=1)

    @property
    def best_weight(self) -> float:
        """The number of rows that the prior counts as, NaN for factors."""
        return np.nan if self.prior_rows is None else self.prior_rows

    def model(self, blocks: Sequence[Block]) -> Model:
        """The model of rows of these blocks of numbers."""
        if self.components is None:
            return Model([attrs.evolve(block, bias=True) for block in blocks], [NuclearNorm()])
        rows = GaussianRows(components=self.components, prior_rows=self.prior_rows)
        return Model(blocks, [rows])

    def posterior(self, model: Model, data: Any, **options: Any) -> Posterior:
        """The posterior of that model, with the options of ``mc.posterior``."""
        if self.components is not None:
            options["tol"] = FINAL_TOLERANCE
        return posterior(model, data, **options)

    def __str__(self) -> str:
        if self.components is None:
            return "Gaussian factors of rows and columns"
        several = f" of {self.components} components" * (self.components > 1)
        return f"Gaussian rows{several}, a prior of {self.prior_rows:g} rows"


@limits_blas
def choose_rows(
    folds: Sequence[RowsFold],
    wide: bool = False,
    prior_rows: float | None = None,
    report: Callable[[str], None] | None = None,
    components: Sequence[int] = COMPONENTS,
) -> tuple[RowsChoice, list[Array]]:
    """Return the choice with the least loss on held-out numbers, and its predictions of each fold.

    Of one Gaussian a prior of half as many rows as there are columns, then of more as long as the
    loss falls, or else of fewer; with the best of these 2, 3, ... components as long as the loss
    falls. Without a fold nothing is tried, nor of a ``wide`` table, which has factors; where
    ``prior_rows`` are given, one Gaussian has that prior.
    """
    tried: list[tuple[int, float]] = []
    losses: list[list[float]] = []
    best: list[Array] = []

    def improves(components: int, prior: float) -> bool:
        nonlocal best
        means = [fold.means(fold.estimated(components, prior)) for fold in folds]
        tried.append((components, prior))
        losses.append([fold.loss(own) for fold, own in zip(folds, means, strict=True)])
        found = np.mean(losses, axis=1)
        if report is not None:
            report(f"{components} component(s), prior of {prior:g} rows: loss {found[-1]:.4g}")
        better = len(found) == 1 or bool(found[-1] < np.min(found[:-1]))
        best = means if better else best
        return better

    if wide:
        return RowsChoice(), [fold.means_by_factors() for fold in folds]
    if not folds:
        return RowsChoice(1, prior_rows or USUAL_PRIOR), []
    if prior_rows is not None:
        improves(1, prior_rows)
        return RowsChoice(1, prior_rows, tuple(tried), np.array(losses)), best
    first = int(np.argmin(np.abs(np.log(PRIORS) - np.log(0.5 * folds[0].owners.size))))
    improves(1, PRIORS[first])
    for priors in (PRIORS[first + 1 :], PRIORS[:first][::-1]):
        better = [*itertools.takewhile(lambda prior: improves(1, prior), priors)]
        if better:
            break
    prior = tried[int(np.argmin(np.mean(losses, axis=1)))][1]
    for fold in folds:
        fold.estimated(1, prior)
    for number in components:
        if number * folds[0].owners.size > MOST_COLUMNS or not improves(number, prior):
            break
    number, prior = tried[int(np.argmin(np.mean(losses, axis=1)))]
    return RowsChoice(number, prior, tuple(tried), np.array(losses)), best


def takes_factors(shape: tuple[int, int]) -> bool:
    """Whether the rows of a table of numbers (n x d) have factors, and no full covariance."""
    return float(shape[0]) * float(shape[1]) ** 3 > MOST_WORK


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

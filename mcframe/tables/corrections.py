"""Corrections of columns by similar rows and trees, of what the rows' posterior leaves over."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np
from scipy.special import chdtrc

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.validators import counted
from mcframe.model.transforms import AffineUnits
from mcframe.numerics.boosted_trees import BoostedTrees
from mcframe.numerics.row_mixtures import IncompleteRows
from mcframe.posterior.row_corrections import ColumnCorrection, Features
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows import RowsPosterior
from mcframe.posterior.similar_rows import SimilarRows
from mcframe.runtime.machine import limits_blas, openmp_alone
from mcframe.runtime.progress import stage
from mcframe.tables.coding import Choice, Coding
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.missingness import CoMissingness, ComparedShares
from mcframe.tables.number_tables import first_numbers
from mcframe.tables.raw_predictions import RawPredictions
from mcframe.tables.rows_folds import HeldOutMoments
from mcframe.tables.semicontinuous import SemiContinuous

# Parts of the rows: trees are fitted to all but one, and correct this one.
PARTS = 3
# If gaps come in clusters, such as places where some things are not measured, those of a row tell
# where it is from, and nothing of the places where the column itself is missing. So where rows
# without the column have other gaps than rows with it, by a test of this level, trees do not know
# of gaps, and rows with the same gaps are in one part, unless rows without the column have them.
GAPS_LEVEL = 0.01
# Columns with fewer held-out entries have no correction.
FEWEST_ENTRIES = 60
# Trees are fitted to at most so many rows, and rows are compared with at most so many.
MOST_ROWS, MOST_SIMILAR_ROWS = 10_000, 3000
# The widths of the weights of similar rows that are tried, on at most so many held-out entries.
WIDTHS, MOST_TRIED = (0.035, 0.07, 0.14), 500
# The fewest rows of a part whose rows have the same gaps.
FEWEST_ROWS = 10
# A correction is taken if errors at held-out entries fall by so many standard errors.
LEAST_GAIN = 0.5
# The same of labels, levels and categories, and of their log losses, since their curves are fitted
# to these entries, too.
LEAST_LABEL_GAIN = 2.0
# Means are shifted to similar rows for at least this gain of numbers, for one of several widths.
LEAST_SIMILAR_GAIN = 1.0
# The exponents of variances that are tried.
EXPONENTS = tuple(np.linspace(0.0, 1.5, 7).tolist())
# Variances depend on features only where so many entries are held out. Their trees are few, since
# squares of errors say little; no square counts more than this times its mean.
FEWEST_SPREADS, SPREAD_TREES, LARGEST_SPREAD = 200, 10, 20.0


@attrs.frozen(eq=False)
class ProposedCorrection:
    """A correction of a column, and what it adds at held-out entries.

    Attributes
    ----------
    correction : ColumnCorrection
    rows : array of integers (n,)
        The rows of the held-out entries.
    shifts : array (n x K)
        Of their means, in standard units, by trees and similar rows that have not seen the entry.
    variances : array (n x K)
        Corrected ones.
    """

    correction: ColumnCorrection
    rows: IntArray
    shifts: Array
    variances: Array

    def applied(self, moments: HeldOutMoments, spread: Array) -> HeldOutMoments:
        """Moments of held-out numbers with those of this column corrected."""
        numbers = self.correction.features.numbers
        means, variances = moments.means.copy(), moments.variances.copy()
        cells = np.ix_(self.rows, numbers)
        means[cells] += self.shifts * spread[numbers]
        held = ~np.isnan(means[cells])
        variances[cells] = np.where(held, self.variances + NOISE_SHARE, np.nan)
        return attrs.evolve(moments, means=means, variances=variances)


@attrs.frozen(eq=False)
class CorrectionData:
    """Numbers of rows and residuals of held-out entries, of which corrections are learned.

    Attributes
    ----------
    rows : RowsPosterior
        The posterior of all rows, without corrections.
    values : array (n x d)
        Numbers of some of them, or of all, in its units, NaN where missing.
    residuals : array (n x d)
        What predictions by folds leave over at held-out numbers, NaN elsewhere.
    column_of_number : array of integers (d,)
    co_missing : dict from column to CoMissingness
    seed : int
    row_weights : array (n,) or None
        How often each row counts, where trees are fitted and where errors are compared.
    error_ratios : array (d,) or None
        Of errors of an estimate from all numbers over those of the folds. None for 1.
    """

    rows: RowsPosterior
    values: Array
    residuals: Array
    column_of_number: IntArray
    co_missing: Mapping[int, CoMissingness]
    seed: int
    row_weights: Array | None = None
    error_ratios: Array | None = None

    @cached_property
    def kept_rows(self) -> IntArray:
        """The rows with which others are compared: all, or a sample of them."""
        n_rows = len(self.values)
        if n_rows <= MOST_SIMILAR_ROWS:
            return np.arange(n_rows)
        return np.sort(np.random.default_rng(self.seed).permutation(n_rows)[:MOST_SIMILAR_ROWS])

    @cached_property
    def similar(self) -> SimilarRows:
        """The rows with which others are compared."""
        return SimilarRows.of(self.values[self.kept_rows])

    @classmethod
    def of(
        cls,
        rows: RowsPosterior,
        values: Array,
        units: AffineUnits,
        moments: Sequence[HeldOutMoments],
        column_of_number: IntArray,
        co_missing: Mapping[int, CoMissingness],
        seed: int,
        row_weights: Array | None = None,
    ) -> "CorrectionData":
        """The data from numbers in natural units and the predictions of the folds."""
        residuals = np.full(values.shape, np.nan)
        for of_fold in moments:
            held = ~np.isnan(of_fold.means)
            residuals[held] = ((values - of_fold.means) / units.spread)[held]
        standard = units.apply(values, *np.ogrid[: values.shape[0], : values.shape[1]])
        return cls(rows, standard, residuals, column_of_number, co_missing, seed, row_weights)

    def without(self, column: int, rows: IntArray) -> Array:
        """Numbers of rows (n x d) without a column, and what is missing together with it."""
        seen: Array = self.values[rows]
        if column in self.co_missing:
            hidden = self.co_missing[column].hidden(rows)
            seen[hidden[:, self.column_of_number]] = np.nan
        seen[:, self.column_of_number == column] = np.nan
        return seen

    def moments(self, seen: Array) -> tuple[Array, Array]:
        """Means and variances of all numbers of rows of which these are seen (n x d)."""
        moments = np.empty((2, *seen.shape))
        precisions = np.full(seen.shape[1], 1.0 / NOISE_SHARE)
        size = max(1, BATCH_NUMBERS // seen.shape[1])
        for start in range(0, len(seen), size):
            batch = slice(start, start + size)
            table = IncompleteRows.of(seen[batch], precisions, self.rows.table.variances)
            moments[:, batch] = self.rows.components.conditionals(table).moments
        return moments[0], moments[1]

    def propose(
        self, numbers: IntArray, least_gain: float = LEAST_GAIN
    ) -> ProposedCorrection | None:
        """The correction of numbers of one column; None if held-out entries do not gain by it.

        Their errors have to fall by more than ``least_gain`` standard errors, also on the entries
        of the parts that have been predicted so far.
        """
        column = self.column_data(numbers)
        if column is None:
            return None
        column = column.with_similar_rows(self.similar, least_gain)
        boosted = column.boosted(self.seed, least_gain)
        if boosted is None and column.pull is None:
            return None
        return column.proposal(boosted, self.seed)

    def column_data(self, numbers: IntArray) -> "ColumnData | None":
        """Rows from which the correction of a column is learned; None if these are too few."""
        column = int(self.column_of_number[numbers[0]])
        observed = np.all(~np.isnan(self.values[:, numbers]), axis=1)
        held: Mask = np.all(~np.isnan(self.residuals[:, numbers]), axis=1)
        if np.count_nonzero(held) < FEWEST_ENTRIES:
            return None
        rng = np.random.default_rng((self.seed, column))
        shuffled = rng.permutation(np.flatnonzero(observed))
        shuffled = shuffled[np.argsort(~held[shuffled], kind="stable")]  # those held out first
        is_used = (np.arange(shuffled.size) < MOST_ROWS) | held[shuffled]
        rows = shuffled[is_used]
        is_fitted = np.arange(rows.size) < MOST_ROWS
        seen = self.without(column, rows)
        others = np.flatnonzero(self.column_of_number != column)
        firsts = np.delete(first_numbers(self.column_of_number), column)
        gaps = np.isnan(seen[:, firsts])
        of_others = np.isnan(self.values[np.ix_(~observed, firsts)])
        part, gap_features = np.arange(rows.size) % PARTS, firsts[gaps.any(axis=0)]
        label, label_of_row = rows, np.arange(len(self.values))  # no row is compared with itself
        if are_associated(gaps, of_others):
            part, gap_features = parts_by_gaps(gaps, of_others), gap_features[:0]
            if np.bincount(part[is_fitted], minlength=PARTS).min() < FEWEST_ROWS:
                return None  # the rows have too few gaps of their own
            label, label_of_row = part, np.full(len(self.values), -1)
            label_of_row[rows] = part
        moments = self.moments(seen)
        means, variances = (of_all[:, numbers] for of_all in moments)
        return ColumnData(
            features=Features(numbers, others, gap_features),
            rows=rows,
            part=part,
            is_fitted=is_fitted,
            is_held=held[rows],
            seen=seen,
            moments=moments,
            labels=(label, label_of_row[self.kept_rows]),
            responses=self.values[np.ix_(rows, numbers)] - means,
            residuals=self.residuals[np.ix_(rows, numbers)],
            variances=variances,
            weights=np.ones(rows.size) if self.row_weights is None else self.row_weights[rows],
            error_ratios=np.ones(numbers.size)
            if self.error_ratios is None
            else self.error_ratios[numbers],
        )


@attrs.frozen(eq=False)
class Pull:
    """Shifts of means to similar rows (n x K), times their weight."""

    width: float
    weight: float
    shifts: Array


@attrs.frozen(eq=False)
class Boosted:
    """Trees of each part, the weight of what they predict, and that times the weight (n x K)."""

    trees: tuple[tuple[BoostedTrees, ...], ...]
    weight: float
    shifts: Array


@attrs.frozen(eq=False)
class ColumnData:
    """Rows in which a column is observed, of which its correction is learned.

    Attributes
    ----------
    features : Features
    rows : array of integers (n,)
    part : array of integers (n,)
        The part of each row, whose trees have not seen it.
    is_fitted : mask (n,)
        The rows to which trees are fitted.
    is_held : mask (n,)
        Those whose entry was held out.
    seen : array (n x d)
        The numbers of the rows without the column, NaN where missing.
    moments : (array (n x d), array (n x d))
        Means and variances of all numbers given these.
    labels : (array of integers (n,), array of integers (m,))
        Of the rows and of those with which others are compared: none is compared with itself, or
        with one of the same part where gaps tell of the column.
    responses : array (n x K)
        What the posterior without the column leaves over of it.
    residuals : array (n x K)
        What predictions by folds leave over; NaN where an entry was not held out.
    variances : array (n x K)
    weights : array (n,)
        How often each row counts.
    error_ratios : array (K,)
        Of errors of an estimate from all numbers over those of the folds.
    pull : Pull or None
        By which means are shifted before trees.
    """

    features: Features
    rows: IntArray
    part: IntArray
    is_fitted: Mask
    is_held: Mask
    seen: Array
    moments: tuple[Array, Array]
    labels: tuple[IntArray, IntArray]
    responses: Array
    residuals: Array
    variances: Array
    weights: Array
    error_ratios: Array
    pull: Pull | None = None

    @property
    def design(self) -> Array:
        """The features of the rows (n x p)."""
        means, variances = self.moments
        if self.pull is not None:
            means = means.copy()
            means[:, self.features.numbers] += self.pull.shifts
        return self.features.design(means, variances, np.isnan(self.seen))

    def with_similar_rows(self, similar: SimilarRows, least_gain: float) -> "ColumnData":
        """The data with means shifted to similar rows, if held-out entries gain by one width."""
        least_gain = max(least_gain, LEAST_SIMILAR_GAIN)
        some = np.flatnonzero(self.is_held)[:MOST_TRIED]
        tried = self.pulls(similar, WIDTHS, some, least_gain)
        if not tried:
            return self
        width = min(tried, key=lambda pull: self.squares_left(pull, some)).width
        pulls = self.pulls(similar, [width], np.arange(self.rows.size), least_gain)
        if not pulls:
            return self
        [pull] = pulls
        return attrs.evolve(
            self,
            pull=pull,
            responses=self.responses - pull.shifts,
            residuals=self.residuals - pull.shifts,
        )

    def pulls(
        self, similar: SimilarRows, widths: Sequence[float], rows: IntArray, least_gain: float
    ) -> list[Pull]:
        """The shifts of some rows, by the widths that gain enough at their held-out entries."""
        numbers, held = self.features.numbers, self.is_held[rows]
        labels = self.labels[0][rows], self.labels[1]
        groups = [(width, numbers) for width in widths]
        sums = similar.sums(self.seen[rows], groups, labels)
        means, pulls = self.moments[0][np.ix_(rows, numbers)], []
        for width, of_width in zip(widths, sums, strict=True):
            shifts = of_width.shifts(means)
            weight = self.weight(shifts[held], rows[held], least_gain)
            if weight is not None:
                pulls.append(Pull(width, weight, weight * shifts))
        return pulls

    def squares_left(self, pull: Pull, rows: IntArray) -> float:
        """The weighted sum of squares that the shifts of some rows leave over."""
        left = np.square(self.residuals[rows] - pull.shifts)
        return float(self.weights[rows] @ np.sum(left, axis=1))

    def weight(self, shifts: Array, rows: IntArray, least_gain: float) -> float | None:
        """The best weight of shifts of some rows (m x K); None if that gains too little."""
        roots = np.sqrt(self.weights[rows])[:, None]
        return best_weight(roots * self.residuals[rows], roots * shifts, least_gain)

    def boosted(self, seed: int, least_gain: float) -> Boosted | None:
        """Trees of all parts; None where entries gain too little, after each part."""
        shifts, models, design = np.zeros(self.responses.shape), [], self.design
        for k in range(PARTS):
            seen, unseen = self.is_fitted & (self.part != k), self.part == k
            model = tuple(
                BoostedTrees.fitted(design[seen], response[seen], seed, self.weights[seen])
                for response in self.responses.T
            )
            models.append(model)
            for number, trees in enumerate(model):
                shifts[unseen, number] = trees.predict(design[unseen])
            needed = least_gain * np.sqrt((k + 1.0) / PARTS)
            judged = np.flatnonzero(self.is_held & (self.part <= k))
            weight = self.weight(shifts[judged], judged, needed)
            if weight is None:
                return None
        assert weight is not None  # of all parts
        return Boosted(tuple(models), weight, weight * shifts)

    def proposal(self, boosted: Boosted | None, seed: int) -> ProposedCorrection:
        """The correction by these trees, with variances that suit what held entries leave over."""
        held, pull = self.is_held, self.pull
        shifts = np.zeros(self.residuals.shape) if boosted is None else boosted.shifts
        shifts, design, variances = shifts[held], self.design[held], self.variances[held]
        squares = np.square(self.error_ratios * (self.residuals[held] - shifts))
        exponent, inflation = likeliest_variances(squares, variances)
        correction = ColumnCorrection(
            self.features,
            () if boosted is None else boosted.trees,
            0.0 if boosted is None else boosted.weight,
            exponent,
            inflation,
            similar_weight=0.0 if pull is None else pull.weight,
            width=0.0 if pull is None else pull.width,
        )
        variances = correction.variances(design, variances)
        spreads, logs = fit_spreads(design, np.mean(squares / variances, axis=1), seed)
        variances *= np.exp(logs)[:, None]
        excess = float(np.mean(squares / variances))
        correction = attrs.evolve(correction, spreads=spreads, inflation=inflation * excess)
        if pull is not None:
            shifts = shifts + pull.shifts[held]
        return ProposedCorrection(correction, self.rows[held], shifts, excess * variances)


def fit_spreads(design: Array, ratios: Array, seed: int) -> tuple[tuple[BoostedTrees, ...], Array]:
    """Trees of the logarithm of ratios (n,) of squares to variances, and what they predict.

    Each half of the rows is predicted by the trees of the other one. None, and 0, where that
    makes errors no likelier.
    """
    none: tuple[BoostedTrees, ...] = ()
    logs = np.zeros(ratios.size)
    if ratios.size < FEWEST_SPREADS:
        return none, logs
    capped = np.clip(ratios, NOISE_SHARE, LARGEST_SPREAD)
    half = np.arange(ratios.size) % 2 == 0
    models = []
    for seen in (half, ~half):
        trees = BoostedTrees.fitted(
            *(design[seen], capped[seen], seed),
            loss="gamma",
            trees=SPREAD_TREES,
        )
        logs[~seen] = trees.predict(design[~seen])
        models.append(trees)
    if not gains(ratios - ratios * np.exp(-logs) - logs, LEAST_GAIN):
        return none, np.zeros(ratios.size)
    return tuple(models), logs


def parts_by_gaps(gaps: Mask, of_others: Mask) -> IntArray:
    """The part of each row: the same of equal gaps, unless other rows have these, too.

    Parameters
    ----------
    gaps : mask (n x q)
        Of the rows.
    of_others : mask (m x q)
        Of rows without the column.
    """
    packed = np.packbits(np.concatenate([of_others, gaps]), axis=1)
    _, patterns = np.unique(packed, axis=0, return_inverse=True)
    elsewhere, of_rows = np.split(patterns.ravel(), [len(of_others)])
    is_shared = np.isin(of_rows, elsewhere)
    groups = np.where(is_shared, patterns.size + np.arange(of_rows.size), of_rows)
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    part_of_group, rows_of_part = np.zeros(sizes.size, dtype=np.intp), [0] * PARTS
    for group in np.argsort(-sizes, kind="stable").tolist():  # the largest first
        part = rows_of_part.index(min(rows_of_part))
        part_of_group[group] = part
        rows_of_part[part] += int(sizes[group])
    return part_of_group[groups]


def are_associated(gaps: Mask, of_others: Mask) -> bool:
    """True if gaps of rows (n x q) and of other rows (m x q) clearly differ in their shares.

    By the chi-square test of two shares, with Bonferroni's factor for q columns.
    """
    if not (gaps.size and of_others.size):
        return False
    sums = np.sum(gaps, axis=0), np.sum(of_others, axis=0)
    compared = ComparedShares(sums[0], len(gaps), sums[1], len(of_others))
    errors = np.where(compared.errors > 0.0, compared.errors, np.inf)
    largest = np.max(np.square(compared.differences / errors))
    return bool(chdtrc(1, largest) * gaps.shape[1] <= GAPS_LEVEL)


def best_weight(residuals: Array, shifts: Array, least_gain: float) -> float | None:
    """The weight of shifts (n x K) that leaves the least squares over, at most 1.

    None if these fall by less than ``least_gain`` standard errors.
    """
    power = float(np.sum(np.square(shifts)))
    weight = float(np.sum(shifts * residuals)) / power if power > 0.0 else 0.0
    weight = min(weight, 1.0)
    left = np.square(residuals - weight * shifts)
    gain = np.sum(np.square(residuals) - left, axis=1)
    return weight if weight > 0.0 and gains(gain, least_gain) else None


def gains(differences: Array, errors: float) -> bool:
    """True if the mean of the differences is above 0 by so many of its standard errors."""
    if not differences.size:
        return False
    error = float(np.std(differences)) / np.sqrt(differences.size)
    return bool(float(np.mean(differences)) > errors * error)


def entry_losses(
    coding: Coding,
    codes: Array,
    masks: Sequence[Mask],
    predictions_of_folds: Sequence[RawPredictions],
) -> Array:
    """The losses of the held-out codes of a column, fold by fold."""
    losses = []
    for mask, of_fold in zip(masks, predictions_of_folds, strict=True):
        predictions = of_fold.at(mask)
        answer = coding.decode(predictions.means, predictions.variances)
        losses.append(coding.losses(answer, codes[mask]))
    return np.concatenate(losses)


def likeliest_variances(squares: Array, variances: Array) -> tuple[float, float]:
    """The exponent b and the inflation c for which errors have the largest density N(0, c T^b).

    Parameters
    ----------
    squares : array
        Of errors in standard units.
    variances : array
        T of each.
    """
    logs = np.log(np.clip(variances, NOISE_SHARE, 1.0))
    candidates = []
    for exponent in EXPONENTS:
        inflation = float(np.mean(squares * np.exp(-exponent * logs)))
        inflation = max(inflation, NOISE_SHARE)
        loss = np.log(inflation) + exponent * float(np.mean(logs))
        candidates.append((loss, float(exponent), inflation))
    return min(candidates)[1:]


@limits_blas
def proposed_corrections(
    data: CorrectionData, columns: Sequence[DeclaredColumn]
) -> dict[int, list[ProposedCorrection]]:
    """The corrections that squared errors at held-out entries speak for, by number of column.

    Of columns with gaps. Of a number beside a point mass, whether it is another number and this
    number are corrected each by itself, since the second is missing where the first is 0.
    """
    proposed = {}
    with openmp_alone(), stage("trees") as trees:
        for k, column in enumerate(columns):
            if column.neighbour is not None or not column.column.missing.any():
                continue
            numbers = np.flatnonzero(data.column_of_number == k)
            is_in_parts = isinstance(column.coding, SemiContinuous)
            parts = np.split(numbers, numbers.size) if is_in_parts else [numbers]
            is_choice = isinstance(column.coding, Choice)
            least_gain = LEAST_LABEL_GAIN if is_choice else LEAST_GAIN
            proposals = [data.propose(part, least_gain) for part in parts]
            proposed[k] = [proposal for proposal in proposals if proposal is not None]
            n_proposed = sum(map(bool, proposed.values()))
            trees.report(
                f"{k + 1} of {counted(len(columns), 'column')}, {n_proposed} corrected",
                (k + 1) / len(columns),
            )
    return proposed

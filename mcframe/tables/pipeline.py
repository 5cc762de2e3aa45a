"""The stages in which the posterior of its rows fills a table.

    read -> code -> hold out -> scale -> choose -> estimate -> calibrate (-> correct) -> fill

Each stage is a function, and what it returns is a class of its own. ``read_table``
(``mcframe/tables/column_types.py``) is the first one.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.contracts.limits import MOST_OPERATIONS
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.row_weights import counts_of_rows
from mcframe.contracts.wording import wording
from mcframe.model.forms import table_of_numbers
from mcframe.model.held_out import NEVER_HELD_OUT, dealt_cells
from mcframe.posterior.answer import Posterior
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.row_corrections import RowCorrections
from mcframe.posterior.row_estimates import COMPONENTS_TRIED, SUBSAMPLE_NUMBERS
from mcframe.posterior.row_limits import RowLimits
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows import RowsPosterior
from mcframe.posterior.wide_rows import is_wide
from mcframe.runtime.progress import current
from mcframe.selection.splitters import RowFolds
from mcframe.tables.calibrating import ColumnScores, calibrated_columns
from mcframe.tables.coding import NUMBERS_BLOCK, Choice, Coding, Numbers
from mcframe.tables.column_types import ReadTable
from mcframe.tables.completion import Completion
from mcframe.tables.corrections import (
    LEAST_LABEL_GAIN,
    CorrectionData,
    entry_losses,
    gains,
    proposed_corrections,
)
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import (
    DeclaredColumn,
    as_numbers,
    in_content_order,
    numbers_in,
    placed_columns,
    row_limits_of,
    warn_of_limits,
)
from mcframe.tables.detected_limits import End, detected_limits, warn_of_ends, with_ends
from mcframe.tables.marginals import with_scales
from mcframe.tables.missingness import FOLDS, CoMissingness, Missingness
from mcframe.tables.neighbours import Copies
from mcframe.tables.number_tables import number_block, standard_units, takes_factors
from mcframe.tables.relations import NO_RELATIONS, Relations
from mcframe.tables.rows_choice import RowsChoice, choose_rows, nearest_prior
from mcframe.tables.rows_folds import HeldOutMoments, RowsFold, folds_of_parts

# Mixtures are tried if no column has more categories than this, for they may separate many of them
# badly.
MOST_CLASSES_FOR_MIXTURE = 6
# So many entries of a column that goes missing together with others are held out, or more where
# ``MOST_OPERATIONS`` suffice for them, with the cube of columns for each.
FEWEST_CO_MASKED = 200


@attrs.frozen(eq=False)
class CodedTable:
    """Some or all rows of a table as numbers of one Gaussian block.

    Attributes
    ----------
    frame : narwhals.DataFrame
        The table, with all of its rows.
    columns : tuple of DeclaredColumn
        Those with a place in the block, in the order of what they hold.
    other_columns : tuple of DeclaredColumn
        Those in no block.
    rows : array of integers (n,)
        The rows of the table that were coded, ascending: all, or a sample of a long table.
    codes : array (n x number of columns)
        NaN where missing.
    values : array (n x d)
        The numbers of these codes.
    column_of_number : array of integers (d,)
        The column of the table, counted in ``columns``, that each number belongs to; ascending.
    best_codings : dict from column name to Numbers
        Of columns whose numbers have a larger log density on another scale than the plainest one.
    limits : RowLimits or None
        The limits of numbers that are known of missing entries.
    groups : RowGroups or None
        Of all rows of the table, where these have means of groups.
    relations : Relations
        Between the columns.
    row_weights : array or None
        How many of a population each row of the table stands for.
    """

    frame: Any
    columns: tuple[DeclaredColumn, ...]
    other_columns: tuple[DeclaredColumn, ...]
    rows: IntArray
    codes: Array
    values: Array
    column_of_number: IntArray
    best_codings: Mapping[Any, Numbers]
    limits: RowLimits | None = None
    groups: RowGroups | None = None
    relations: Relations = NO_RELATIONS
    row_weights: Array | None = None

    @property
    def weights_of_coded(self) -> Array | None:
        """The weights of the coded rows in sums over rows (n,); None for 1."""
        return None if self.row_weights is None else counts_of_rows(self.row_weights[self.rows])

    def with_codings(self, codings: Mapping[Any, Numbers]) -> "CodedTable":
        """Numbers of the rows by codings of columns, which take as many numbers as before."""
        columns = tuple(
            attrs.evolve(column, coding=codings.get(column.name, column.coding))
            for column in self.columns
        )
        values = [
            column.block_coding.numbers(column_codes)
            for column, column_codes in zip(columns, self.codes.T, strict=True)
        ]
        limits_by_name = {
            column.name: None if column.limits is None else column.limits.at(self.rows)
            for column in columns
        }
        limits = None
        if not self.has_factors:  # which have no use for them
            limits = row_limits_of(columns, limits_by_name, self.rows.size)
        return attrs.evolve(self, columns=columns, values=np.column_stack(values), limits=limits)

    @property
    def learns_shares(self) -> bool:
        """True if the prior of the rows learns what it expects of the variance of each column.

        Means of groups and deviations from these have two priors, which expect the variances.
        """
        return self.groups is None

    @property
    def is_sample(self) -> bool:
        """True if only some rows of the table were coded."""
        return self.rows.size < self.frame.shape[0]

    @property
    def has_factors(self) -> bool:
        """True if rows have Gaussian factors, for the table is too large for a covariance."""
        return takes_factors((self.frame.shape[0], self.column_of_number.size))


@attrs.frozen(eq=False)
class HeldOutTable:
    """A coded table and the entries of it that are held out.

    Attributes
    ----------
    coded : CodedTable
    folds : list of RowsFold
        What the prior is chosen on.
    masks : list of masks (n x number of columns)
        The same entries, in the parts by which codings are fitted and scored.
    missingness : list of Missingness
        Of each column.
    """

    coded: CodedTable
    folds: list[RowsFold]
    masks: list[Mask]
    missingness: list[Missingness]

    def with_codings(self, codings: Mapping[Any, Numbers]) -> "HeldOutTable":
        """Held-out entries as numbers by codings of columns, which take as many as before."""
        coded = self.coded.with_codings(codings)
        tables = {NUMBERS_BLOCK: table_of_numbers(coded.values)}
        folds = [
            attrs.evolve(
                fold,
                values=coded.values,
                held_out=attrs.evolve(fold.held_out, tables=tables),
                limits=coded.limits,
            )
            for fold in self.folds
        ]
        return attrs.evolve(self, coded=coded, folds=folds)

    def entry_losses(self, k: int, coding: Coding, moments: Sequence[HeldOutMoments]) -> Array:
        """The losses of held-out entries of column k by a coding of the moments of folds."""
        numbers = np.flatnonzero(self.coded.column_of_number == k)
        columns = slice(int(numbers[0]), int(numbers[-1]) + 1)
        masks = [mask[:, k] for mask in self.masks]
        predictions = [of_fold.of_columns(columns) for of_fold in moments]
        predictions *= len(masks) // len(predictions)
        return entry_losses(coding, self.coded.codes[:, k], masks, predictions)

    def densities(self) -> dict[Any, float]:
        """The sums of log densities of held-out entries, by column, under one Gaussian.

        Of columns that have another scale, in the unit of their codes; of two folds, which tell
        large gains from none.
        """
        sums = dict.fromkeys(self.coded.best_codings, 0.0)
        prior = nearest_prior(self.coded.column_of_number.size)
        for fold in self.folds[:2]:
            mask = fold.held_out_entries
            moments = fold.predict(fold.estimate(1, prior))
            last = np.cumsum([column.block_coding.width for column in self.coded.columns]) - 1
            for k, column in enumerate(self.coded.columns):
                coding = column.coding
                if not isinstance(coding, Numbers) or column.name not in sums:
                    continue
                rows = np.flatnonzero(mask[:, k] & ~np.isnan(self.coded.values[:, last[k]]))
                numbers, mean = self.coded.values[rows, last[k]], moments.means[rows, last[k]]
                variances = moments.variances[rows, last[k]] * moments.spread[last[k]] ** 2
                logs = -0.5 * (np.square(numbers - mean) / variances + np.log(variances))
                logs += coding.log_slopes(self.coded.codes[rows, k])
                counts = self.coded.weights_of_coded
                sums[column.name] += float(np.sum(logs if counts is None else counts[rows] * logs))
        return sums


@attrs.frozen(eq=False)
class ChosenRows:
    """The distribution of the rows that predicts held-out entries best, and its predictions.

    Attributes
    ----------
    choice : RowsChoice
    moments : list of HeldOutMoments
        Of each fold.
    """

    choice: RowsChoice
    moments: list[HeldOutMoments]


@attrs.frozen(eq=False)
class EstimatedRows:
    """The posterior of all rows of a table.

    Attributes
    ----------
    posterior : Posterior
    declared : Declared
        The table as the data of its model.
    final_moments : HeldOutMoments or None
        Its predictions of the held-out entries, each from the rest of its row; None of factors.
    """

    posterior: Posterior
    declared: Declared[Any]
    final_moments: HeldOutMoments | None

    @property
    def numbers(self) -> Array:
        """The numbers of all rows of the table, NaN where missing."""
        return np.asarray(numbers_in(self.declared.data[NUMBERS_BLOCK]), dtype=np.float64)


@attrs.frozen(eq=False)
class CalibratedTable:
    """Columns with codings that were fitted to held-out entries.

    Attributes
    ----------
    columns : tuple of DeclaredColumn
        Those of a ``CodedTable``.
    scores : dict from column name to ColumnScores
        Of the columns with held-out entries.
    """

    columns: tuple[DeclaredColumn, ...]
    scores: Mapping[Any, ColumnScores]


def complete_by_posterior(
    table: ReadTable,
    *,
    seed: int = 0,
    groups: RowGroups | None = None,
    row_weights: Array | None = None,
    n_folds: int = FOLDS,
    prior_rows: float | None = None,
    nonlinear: bool | None = None,
    detect_limits: bool = False,
) -> Completion[Any]:
    """Choose the prior of a table's rows on held-out entries, and fill it by their posterior.

    Parameters
    ----------
    table : ReadTable
    seed : int
        Draws what is held out.
    groups : RowGroups, optional
        Of the rows, which are then about the means of their groups.
    row_weights : array (n,), optional
        How many of a population each row stands for.
    n_folds : int
    prior_rows : float, optional
        How many rows the prior of one Gaussian counts as; by default it is chosen.
    nonlinear : bool, optional
        Whether columns are corrected by what trees learn from held-out entries: by default where
        the table allows it, and with a warning where it does not if this is True.
    detect_limits : bool
        Whether gaps are looked for that are the numbers beyond an end. With such limits, of which
        a warning tells, the table is completed from the beginning.
    """
    rng = np.random.default_rng(seed)
    coded = with_means_of_groups(code(table, rng), groups)
    coded = attrs.evolve(coded, row_weights=row_weights)
    if coded.has_factors:
        warn_of_limits(coded.columns, None)
        if row_weights is not None:
            warn_caller(
                "row_weights were given, and the table has too many columns for a covariance: gaps"
                " are filled by factors, which know no weights of rows, and only errors and pooled"
                " estimates are weighted; complete it with fewer columns"
            )
    held_out = scale(hold_out(coded, n_folds, rng))
    chosen = choose(held_out, prior_rows)
    estimated = estimate(held_out, chosen, seed)
    ends = ends_of(held_out, chosen, estimated, seed) if detect_limits else {}
    if ends:
        warn_of_ends(ends)
        return complete_by_posterior(
            attrs.evolve(table, columns=with_ends(table.columns, ends)),
            seed=seed,
            groups=groups,
            row_weights=row_weights,
            n_folds=n_folds,
            prior_rows=prior_rows,
            nonlinear=nonlinear,
        )
    calibrated = calibrate(held_out, chosen, estimated)
    if nonlinear is not False:
        why = why_no_corrections(coded)
        if why is None:
            estimated, calibrated = correct(held_out, chosen, estimated, calibrated, seed)
        elif nonlinear:
            option = wording().either(python="nonlinear=True", command="--nonlinear")
            warn_caller(f"{option} has no effect: {why}; leave it out")
    completed = fill(chosen, estimated, calibrated)
    return attrs.evolve(completed, row_weights=row_weights)


def code(table: ReadTable, rng: np.random.Generator) -> CodedTable:
    """Turn the columns with a place in a block into numbers of one block."""
    columns = as_numbers(in_content_order(table.columns))
    modelled = tuple(column for column in columns if column.place is not None)
    others = tuple(column for column in columns if column.place is None)
    n_rows = table.frame.shape[0]
    most_numbers = len(modelled) + sum(column.block_coding.width for column in modelled)
    may_have_atom = not is_wide(n_rows, most_numbers)  # of which numbers are missing together
    scales = {
        column.name: with_scales(
            column.coding,
            column.codes,
            may_have_atom,
            column.limits,
            may_change=column.name not in table.relations.identity_columns,
        )
        for column in modelled
        if isinstance(column.coding, Numbers) and column.coding.has_scale
    }
    modelled = placed_columns(
        attrs.evolve(column, coding=scales[column.name][0]) if column.name in scales else column
        for column in modelled
    )
    widths = [column.block_coding.width for column in modelled]
    column_of_number = np.repeat(np.arange(len(modelled)), widths)
    most_rows = SUBSAMPLE_NUMBERS // column_of_number.size
    rows = np.arange(n_rows)
    if n_rows > most_rows:
        rows = np.sort(rng.choice(n_rows, most_rows, replace=False))
    codes = np.column_stack([column.codes[rows] for column in modelled])
    best_codings = {name: best for name, (_, best) in scales.items() if best.scale_gain > 0.0}
    coded = CodedTable(
        *(table.frame, modelled, others, rows, codes, codes, column_of_number, best_codings),
        relations=table.relations,
    )
    return coded.with_codings({})


def with_means_of_groups(coded: CodedTable, groups: RowGroups | None) -> CodedTable:
    """A table with the groups of its rows, where means of groups can be estimated."""
    if groups is None:
        return coded
    if groups.count < 2:
        raise DataError("groups has one label for all rows; at least 2 groups are needed")
    if coded.has_factors or is_wide(coded.frame.shape[0], coded.column_of_number.size):
        warn_caller(
            "groups were given, and the table has too many columns for means of groups: they have"
            " no effect; complete it with fewer columns"
        )
        return coded
    return attrs.evolve(coded, groups=groups)


def hold_out(coded: CodedTable, n_folds: int, rng: np.random.Generator) -> HeldOutTable:
    """Hold out single entries, or whole rows where these were drawn from a longer table.

    Of drawn rows there is one fold. Single entries are held out in tables with factors: a row of
    which nothing is seen would have none.
    """
    if coded.has_factors or not coded.is_sample:
        parts, n_scored_folds = dealt_cells(coded.codes, n_folds, rng), n_folds
    else:
        n_scored_folds = 1
        part_of_row = RowFolds(n_folds + 1).parts_of_rows(len(coded.values), rng)
        parts = np.where(np.isnan(coded.codes), NEVER_HELD_OUT, part_of_row[:, None])
    missing = np.isnan(coded.codes)
    for k, declared in enumerate(coded.columns):  # of which limits are known is not missing
        missing[:, k] &= ~declared.column.limited[coded.rows]
        if declared.neighbour is not None:  # which is no answer
            parts[:, k] = NEVER_HELD_OUT
    related = coded.relations.pairs([column.name for column in coded.columns])
    lacking = missing
    if related is not None:  # a number within limits does not determine another one
        lacking = np.where(related.any(axis=1), np.isnan(coded.codes), missing)
    co_missing = CoMissingness.of_columns(lacking, rng, related)
    work_per_entry = max(len(co_missing), 1) * float(coded.column_of_number.size) ** 3
    n_held_out = max(FEWEST_CO_MASKED, int(MOST_OPERATIONS / work_per_entry))
    for column in co_missing:
        rows = np.flatnonzero((parts[:, column] >= 0) & (parts[:, column] < n_scored_folds))
        parts[rng.permutation(rows)[n_held_out:], column] = NEVER_HELD_OUT
    folds = folds_of_parts(
        coded.values, parts, coded.column_of_number, n_scored_folds, co_missing=co_missing
    )
    folds = [attrs.evolve(fold, limits=coded.limits) for fold in folds]
    if coded.groups is not None:
        of_rows = coded.groups.take(coded.rows)
        folds = [attrs.evolve(fold, groups=of_rows) for fold in folds]
    counts, learns = coded.weights_of_coded, coded.learns_shares
    copies = Copies.of(coded.columns, coded.other_columns, coded.rows)
    folds = [
        attrs.evolve(fold, row_weights=counts, learns_shares=learns, copies=copies)
        for fold in folds
    ]
    masks = [fold.held_out_entries for fold in folds]
    if len(folds) == 1:  # probabilities are fitted and scored on different rows of the one fold
        part_of_row = np.arange(len(coded.codes)) % n_folds
        masks = [masks[0] & (part_of_row == k)[:, None] for k in range(n_folds)]
    missingness = Missingness.of_columns(coded.values, coded.column_of_number, rng, missing)
    return HeldOutTable(coded, folds, masks, missingness)


def scale(held_out: HeldOutTable) -> HeldOutTable:
    """Take another scale for each column whose held-out entries it makes likelier.

    The density of a column by itself proposes the scale. It is taken if the entries are likelier
    given the other columns, too, all of these on the scales that are proposed for them.
    """
    proposed = held_out.coded.best_codings
    if not proposed:
        return held_out
    rescaled = held_out.with_codings(proposed)
    if held_out.coded.has_factors or not held_out.folds:
        return rescaled
    plain, scaled = held_out.densities(), rescaled.densities()
    better = {name: coding for name, coding in proposed.items() if scaled[name] > plain[name]}
    if len(better) == len(proposed):
        return rescaled
    return held_out.with_codings(better) if better else held_out


def choose(held_out: HeldOutTable, prior_rows: float | None) -> ChosenRows:
    """Choose the prior and the number of Gaussians with the least loss on held-out entries."""
    coded, folds = held_out.coded, held_out.folds
    may_mix = np.bincount(coded.column_of_number).max() <= MOST_CLASSES_FOR_MIXTURE
    may_mix &= coded.groups is None
    components = COMPONENTS_TRIED if may_mix else ()
    chosen = ChosenRows(*choose_rows(folds, coded.has_factors, prior_rows, components))
    current().report(f"{chosen.choice}: chosen")
    return chosen


def estimate(held_out: HeldOutTable, chosen: ChosenRows, seed: int) -> EstimatedRows:
    """Estimate the posterior of all rows of the table, and predict what was held out by it."""
    coded, choice, folds = held_out.coded, chosen.choice, held_out.folds
    variables = coded.column_of_number if coded.learns_shares else None
    blocks = [number_block(NUMBERS_BLOCK)]
    model = choice.model(blocks, coded.groups, coded.row_weights, variables)
    columns = [*coded.columns, *coded.other_columns]
    declared = Declared.of(columns, coded.frame, model, coded.relations)
    is_choice = np.array([isinstance(column.coding, Choice) for column in coded.columns])
    posterior, final_moments = choice.posterior(
        *(model, declared.data, folds, chosen.moments, declared.row_limits),
        is_choice[coded.column_of_number],
        random_state=seed,
    )
    posterior = declared.related_rows.of_posterior(posterior)
    return EstimatedRows(posterior, declared, final_moments)


def ends_of(
    held_out: HeldOutTable, chosen: ChosenRows, estimated: EstimatedRows, seed: int
) -> dict[Any, End]:
    """The ends beyond which gaps lie, in tables without groups, relations and factors.

    Where some are found, rows are estimated with these limits, and others are looked for. Then
    each has to stand a stricter comparison, until all that are left do.
    """
    coded, declared, engine = held_out.coded, estimated.declared, estimated.posterior.engine
    is_large = is_wide(coded.frame.shape[0], coded.column_of_number.size)
    if coded.has_factors or is_large or coded.groups is not None or coded.relations.declared:
        return {}
    assert isinstance(engine, JointPosterior)  # of Gaussian rows
    without = engine.rows
    if without.limits is not None:  # their sites are no observations
        is_known = ~np.isnan(estimated.numbers)
        precisions = np.where(is_known, without.table.precisions, 0.0)
        without = without.with_numbers(without.table.values, precisions)
    units = standard_units(estimated.numbers)

    def rows_within(ends: Mapping[Any, End]) -> RowsPosterior:
        """The posterior of rows whose gaps lie beyond ends."""
        if not ends:
            return engine.rows
        limits = declared.replace_columns(with_ends(declared.columns, ends)).row_limits
        assert limits is not None
        in_units = limits.in_units(units, NOISE_SHARE)
        return chosen.choice.rows_within(in_units, without, coded.column_of_number)

    ends: dict[Any, End] = {}
    rows = engine.rows
    while new := detected_limits(declared.columns, rows, ends, seed):
        ends |= new
        rows = rows_within(ends)
    while ends:
        kept = detected_limits(declared.columns, rows, ends, seed, stricter=True)
        if len(kept) == len(ends):
            break
        ends, rows = kept, rows_within(kept)
    return ends


def calibrate(
    held_out: HeldOutTable, chosen: ChosenRows, estimated: EstimatedRows
) -> CalibratedTable:
    """Fit the codings of columns to the predictions of held-out entries, and score these.

    After the estimate, for errors count as at least those of the final posterior there.
    """
    coded, masks = held_out.coded, held_out.masks
    moments = chosen.moments * (len(masks) // max(len(chosen.moments), 1))
    columns, scores = calibrated_columns(
        coded.columns,
        coded.codes,
        masks,
        moments,
        held_out.missingness,
        estimated.final_moments,
        coded.weights_of_coded,
        coded.relations.identity_columns,
    )
    return CalibratedTable(tuple(columns), scores)


def correct(
    held_out: HeldOutTable,
    chosen: ChosenRows,
    estimated: EstimatedRows,
    calibrated: CalibratedTable,
    seed: int,
) -> tuple[EstimatedRows, CalibratedTable]:
    """Correct columns with missing entries by trees, where held-out entries are predicted better.

    Codings are fitted again to the corrected predictions. A column keeps its correction if its
    loss at held-out entries is then lower, too.
    """
    coded, engine = held_out.coded, estimated.posterior.engine
    if not held_out.folds:
        return estimated, calibrated
    assert isinstance(engine, JointPosterior)  # of Gaussian rows
    units = standard_units(estimated.numbers)
    data = CorrectionData.of(
        *(engine.rows, coded.values, units, chosen.moments, coded.column_of_number),
        *(held_out.folds[0].co_missing, seed, coded.weights_of_coded),
    )
    if estimated.final_moments is not None:
        data = attrs.evolve(data, error_ratios=estimated.final_moments.error_ratios)
    proposed = proposed_corrections(data, coded.columns)
    moments, final_moments = chosen.moments, estimated.final_moments
    for proposal in itertools.chain.from_iterable(proposed.values()):
        moments = [proposal.applied(of_fold, units.spread) for of_fold in moments]
        if final_moments is not None:
            final_moments = proposal.applied(final_moments, units.spread)
    corrected = calibrate(
        held_out,
        attrs.evolve(chosen, moments=moments),
        attrs.evolve(estimated, final_moments=final_moments),
    )
    columns, scores, taken = list(calibrated.columns), dict(calibrated.scores), []
    for k, proposals in proposed.items():
        name, error = columns[k].name, scores[columns[k].name].error
        is_taken = bool(proposals) and corrected.scores[name].loss < scores[name].loss
        if is_taken and isinstance(columns[k].coding, Choice):
            before, after = (
                held_out.entry_losses(k, column.block_coding, predicted)
                for column, predicted in (
                    (columns[k], chosen.moments),
                    (corrected.columns[k], moments),
                )
            )
            is_taken = gains(before - after, LEAST_LABEL_GAIN)
        if is_taken:
            taken += [proposal.correction for proposal in proposals]
            columns[k] = corrected.columns[k]
            scores[name] = attrs.evolve(corrected.scores[name], error_uncorrected=error)
    if not taken:
        return estimated, calibrated
    similar = data.similar if any(one.similar_weight > 0.0 for one in taken) else None
    corrections = RowCorrections(tuple(taken), similar)
    rows = attrs.evolve(engine.rows, corrections=corrections)
    posterior = attrs.evolve(estimated.posterior, engine=attrs.evolve(engine, rows=rows))
    return attrs.evolve(estimated, posterior=posterior), CalibratedTable(tuple(columns), scores)


def why_no_corrections(coded: CodedTable) -> str | None:
    """The reason why no column is corrected, as a clause; None where columns may be."""
    if coded.has_factors or is_wide(coded.frame.shape[0], coded.column_of_number.size):
        return "the table has too many columns"
    if coded.groups is not None:
        return "rows have means of groups"
    if coded.limits is not None:
        return "of some cells limits are known"
    if coded.relations.declared:
        return "columns have relations"
    return None


def fill(
    chosen: ChosenRows, estimated: EstimatedRows, calibrated: CalibratedTable
) -> Completion[Any]:
    """Fill the table by the posterior of its rows, read by the calibrated codings."""
    declared = estimated.declared.replace_columns(calibrated.columns)
    scores = tuple(calibrated.scores.get(column.name) for column in declared.columns)
    table = declared.table(estimated.posterior)
    return Completion(table, estimated.posterior, declared, chosen.choice, scores)

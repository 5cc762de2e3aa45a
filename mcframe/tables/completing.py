"""The verb ``complete``: fill the missing entries of a table."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError, NoInfluence, UnobservedWarning, warn_caller
from mcframe.contracts.frames import Frame
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.validators import RandomState, checked_seed, is_word, plain
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.model.forms import long_list
from mcframe.runtime.progress import checked_progress, current, stage
from mcframe.selection import (
    Criterion,
    EntryFolds,
    Grid,
    Held,
    HeldOutLoss,
    RelativeDeviance,
    RowFolds,
    cross_validate,
)
from mcframe.selection.cross_validation_answer import without_edge_warnings
from mcframe.selection.splitters import check_length, fewest_free
from mcframe.selection.weight_max import weight_max
from mcframe.tables.calibrating import ColumnScores, calibrated_and_scored
from mcframe.tables.coding import BLOCK, Indicators, Numbers, RawPredictions
from mcframe.tables.column_types import typed_columns
from mcframe.tables.completion import Completion
from mcframe.tables.declared import Declared, declared_of
from mcframe.tables.declared_column import (
    DeclaredColumn,
    answers,
    as_numbers,
    aside,
    in_content_order,
    warn_of_aside,
)
from mcframe.tables.gaps import Missing, listed
from mcframe.tables.missingness import FEWEST_TOGETHER, WORK_TOGETHER, CoMissingness, Missingness
from mcframe.tables.number_tables import number_block, takes_factors
from mcframe.tables.rows_choice import COMPONENTS, choose_rows
from mcframe.tables.rows_folds import HeldOutMoments, RowsFold, dealt_entries, folds_of_parts

# The warning about columns that are in no block.
ASIDE = "columns that are set aside are neither used nor filled"
# Folds of held-out entries.
FOLDS = 3
# The choice is made on at most so many numbers. In a longer table they are in rows drawn at
# random, and one row in ``FOLDS + 1`` is held out.
MOST_NUMBERS = 200_000
# Gaussians are mixed where no column has more categories: those of a mixture tell more of them
# apart in some fits and not in others.
MOST_CLASSES = 30
# Where one of three and more classes is to be told, one Gaussian takes the place of a mixture if
# its mean loss is below this share of the mixture's.
CLEARLY = 0.9


def complete(
    frame: Frame,
    types: Mapping[Any, Any] | None = None,
    *,
    missing: Missing = None,
    method: Literal["posterior", "optimum"] | None = None,
    random_state: RandomState = 0,
    groups: Any = None,
    progress: bool | None = None,
) -> Completion[Frame]:
    """Fill the missing entries of a table of numbers, labels, counts, levels and categories.

    The type of each column follows from its dtype and values, as in ``declare``. All columns are
    then standardized numbers: a category becomes one indicator for each of its values, a level
    becomes its position. Missing entries are filled from the posterior of their rows
    (``mc.posterior``):

    - The rows are draws from one Gaussian distribution, or from a mixture of 2, 3, 4, 6 or 8
      (``GaussianRows``). Mean and covariance have distributions themselves, found by variational
      Bayes. Two things are chosen on 3 folds of held-out entries of every column: the number of
      rows that the prior of the covariance counts as (.03, .1, .3, 1, ... or 1,000), and the
      number of Gaussians. The criterion is the mean over columns of the squared error divided by
      the variance.
    - Tables of n rows and d columns (as numbers) whose ``n d^3`` is more than 1e11, as 1,000 rows
      of 465 columns, have Gaussian factors of rows and columns (``NuclearNorm()`` without a
      weight). The evidence keeps as many factors as are needed. Of few rows (d above 128, ``n^3``
      at most ``4 d^2``) the time grows with ``n^3 d`` and memory with ``n d`` instead, and factors
      are taken above 2.5e9, as for 100 rows of 2,600 columns.

    The answer does not depend on clock times. Probabilities of labels and levels come from a
    logistic curve of the mean, with a coefficient and cut points for each column from held-out
    entries. Those of categories come from a linear discriminant of the means of their indicators.
    Levels are filled with the median of their probabilities. If held-out entries of a column are
    predicted worse than by its constant, the constant is used.

    ``method="optimum"`` uses the model of ``declare``: each type of column has its own likelihood,
    and one nuclear norm has a weight that ``cross_validate`` chooses among 10. Its optimum is
    certified. On mixed tables the posterior predicts better (see the page on how good the answers
    are), in less time.

    Parameters
    ----------
    frame, types, missing : as in ``declare``
    method : "posterior" or "optimum", optional
        The default is "posterior", or "optimum" if ``types`` contains a likelihood, which the
        posterior cannot use.
    random_state : int, generator of numpy or None, default 0
        The seed of the held-out entries.
    groups : sequence with a label for each row, optional
        Rows that belong together, such as ``groups=frame["patient"]`` for several visits. All rows
        of a group are held out together, so the choices are made for new groups. Tables with
        factors hold out single entries all the same.
    progress : bool, optional
        As in ``mc.fit``: what is tried, and the steps of the estimate.

    Returns
    -------
    Completion
        ``table`` is the completed table, in its own library and dtypes. ``sd`` is the expected
        error of each filled entry. ``report()`` says how well each column is predicted at held-out
        entries. ``draws(m)`` are m tables filled by random draws. A ``UserWarning`` names columns
        that are set aside.

    Raises
    ------
    DataError, ModelError
        As in ``declare``; if ``random_state`` is none of these; if there are fewer than 3 groups,
        or not one label for each row; if the method is neither, or is "posterior" together with a
        likelihood.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "height": [1.6, 1.7, None, 1.9] * 6, "tall": ["no", "no", "yes", None] * 6,
    ... })
    >>> completed = mc.complete(frame)
    >>> completed.table.isna().to_numpy().any()
    np.False_
    """
    if method is not None and not is_word(method, "posterior", "optimum"):
        raise ModelError(f"method={method!r} was given; 'posterior' or 'optimum' is needed")
    with_likelihood = []
    if isinstance(types, Mapping):
        with_likelihood = [
            plain(name) for name, kind in types.items() if isinstance(kind, Likelihood)
        ]
    if method == "posterior" and with_likelihood:
        raise ModelError(
            f"types[{with_likelihood[0]!r}] is a likelihood, which method='posterior' has no"
            " use for; take method='optimum', or declare a kind such as 'number'"
        )
    seed = checked_seed(random_state)
    with stage("complete", checked_progress(progress)):
        table, columns = typed_columns(frame, types, missing)
        long_format = long_list(table)
        if long_format and not any(column.column.missing.any() for column in columns):
            warn_caller(f"nothing is missing, and {long_format}")
        if method == "optimum" or (method is None and with_likelihood):
            completed = optimum(columns, table, seed, groups)
        else:
            completed = fit_table(columns, table, seed=seed, groups=groups)
    warn_of_aside(ASIDE, aside(completed.declared.columns))
    warn_of_columns(completed.declared.columns)
    return completed


# Numbers that lie this many interquartile ranges beyond the quartiles are named, where there are
# so many others: of five normal numbers 2 % of the columns would be.
FAR, FEWEST = 20.0, 7


def warn_of_columns(columns: Sequence[DeclaredColumn]) -> None:
    """A ``UserWarning`` of constants that fill entries, and one of numbers that are far out."""
    constants = [
        f"{plain(column.name)!r} ({plain(column.constant[0])!r})"
        for column in columns
        if column.constant and column.column.missing.any()
    ]
    if constants:
        message = (
            "columns with a single observed value are filled with it, which may say nothing of"
        )
        warn_caller(f"{message} their missing entries: {listed(constants)}")
    far = []
    for column in columns:
        if isinstance(column.coding, Numbers):
            codes = [code.value for code in column.column.suspects]  # which have a warning already
            numbers = column.column.numbers / column.coding.unit
            numbers[np.isin(column.column.numbers, codes)] = np.nan
            for row in (int(np.nanargmin(numbers)), int(np.nanargmax(numbers))):
                others = numbers[(numbers != numbers[row]) & ~np.isnan(numbers)]
                if others.size < FEWEST:
                    continue
                low, high = np.quantile(others, [0.25, 0.75])
                if max(low - numbers[row], numbers[row] - high) > FAR * (high - low) > 0.0:
                    value = column.column.values[row]
                    far.append(f"{plain(value)!r} in row {row} of column {plain(column.name)!r}")
    if far:
        warn_caller(
            f"numbers more than {FAR:g} interquartile ranges beyond the quartiles of the other"
            f" values dominate means and correlations: {listed(far)}; correct them, make them"
            " missing, or transform the column, as by a logarithm",
        )


# Weights that are tried, and how many clearly worse ones end the search.
WEIGHTS, PATIENCE = 10, 1
# The smallest weight beside the largest. Tables of few columns have their best one far down.
RATIO = 0.003


def optimum(
    columns: Sequence[DeclaredColumn], table: Any, seed: int, groups: Any
) -> Completion[Any]:
    """Return the completion by the certified optimum of the model of ``declare``."""
    declared = declared_of(in_content_order(columns), table)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)  # the fit says it
            weight_max(declared.model, declared.data)
    except NoInfluence:  # of constants; all weights have one optimum, and none is chosen
        return Completion.of(declared, fit(declared.model, declared.data, random_state=seed))
    # A loss without a deviance, as that of equalities, says nothing of the weight.
    deviances: list[Criterion] = [
        RelativeDeviance(block.name)
        for block in declared.model.blocks
        if RelativeDeviance().refusal(block.likelihood, block.name) is None
    ]
    fits_by_weight: dict[float, list[tuple[Fit, Mapping[str, Held]]]] = {}

    def relative_deviance(fit: Fit, held: Mapping[str, Held]) -> float:
        """The mean over blocks; fits of each weight are kept for the scores of the columns."""
        norm: Any = fit.model.terms[0]
        fits_by_weight.setdefault(norm.weight, []).append((fit, held))
        ratios = [deviance(fit, held) for deviance in deviances or [HeldOutLoss()]]
        finite = [ratio for ratio in ratios if not np.isnan(ratio)]
        return float(np.mean(finite)) if finite else np.nan

    with without_edge_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit at the end says it once
        cv: Any = EntryFolds(max(min(fewest_free(declared.model, declared.data), FOLDS), 2))
        chosen = cross_validate(
            declared.model,
            declared.data,
            criterion=relative_deviance,
            weights=Grid(count=WEIGHTS, ratio=RATIO, patience=PATIENCE),
            cv=cv if groups is None else RowFolds(FOLDS, groups=groups),
            random_state=seed,
        )
        folds = fits_by_weight[chosen.best_weight]
        scores = tuple(scores_of_fits(column, folds) for column in declared.columns)
    current().report(f"NuclearNorm({chosen.best_weight:.6g}) has the least loss")
    final = fit(chosen.best_model, declared.data, random_state=seed)
    return Completion(declared.table(final), final, declared, chosen, scores)


def scores_of_fits(
    column: DeclaredColumn, folds: Sequence[tuple[Fit, Mapping[str, Held]]]
) -> ColumnScores | None:
    """Return the scores of a column by fits and what each has not seen; None where all was."""
    if column.place is None:
        return None
    (coding, block), codes = column.modelled, column.codes
    held, raw = list[Mask](), list[RawPredictions]()
    for fitted, entries in folds:
        mask = entries[block].columns == column.place
        rows = entries[block].rows[mask]
        [(_, answer)] = answers(fitted, [(column, rows)])
        answer = answer[:, None] if answer.ndim == 1 else answer
        held.append(np.zeros(codes.size, dtype=bool))
        raw.append(RawPredictions(np.full((codes.size, answer.shape[1]), np.nan)))
        held[-1][rows], raw[-1].means[rows] = True, answer
    if not any(mask.any() for mask in held):
        return None
    uniform_missingness = Missingness(None, np.ones(codes.size))
    return calibrated_and_scored(coding, codes, held, raw, uniform_missingness)[1]


def folds_of_table(
    values: Array,
    codes: Array,
    owners: IntArray,
    groups: Array | None,
    rng: np.random.Generator,
    n_folds: int,
    wide: bool,
    drawn: bool,
) -> list[RowsFold]:
    """The held-out entries of a table, fold by fold.

    Single entries, or whole rows where these have groups, or were ``drawn`` from a longer table,
    of which there is one fold.
    """
    if wide or not (drawn or groups is not None):
        # Single entries are held out: a row of which nothing is seen would have no factors.
        parts, count = dealt_entries(codes, n_folds, rng), n_folds
    else:
        count = 1 if drawn else n_folds
        part = RowFolds(n_folds + drawn, groups=groups).parts_of_rows(len(values), rng)
        parts = np.where(np.isnan(codes), -1, part[:, None])
    co_missing = CoMissingness.of_columns(np.isnan(codes), rng)
    work_per_entry = max(len(co_missing), 1) * float(owners.size) ** 3
    n_held_out = max(FEWEST_TOGETHER, int(WORK_TOGETHER / work_per_entry))
    for column in co_missing:
        places = np.flatnonzero((parts[:, column] >= 0) & (parts[:, column] < count))
        parts[rng.permutation(places)[n_held_out:], column] = -1
    return folds_of_parts(values, parts, owners, count, co_missing=co_missing)


def calibrated_columns(
    columns: Sequence[DeclaredColumn],
    codes: Array,
    held: Sequence[Mask],
    moments: Sequence[HeldOutMoments],
    missingness: Sequence[Missingness],
    final_moments: HeldOutMoments | None = None,
) -> tuple[list[DeclaredColumn], dict[Any, ColumnScores]]:
    """Columns with codings fitted to held-out entries, and the scores of those with any.

    Codes (n x number of columns) are held out where ``held`` says so, fold by fold. ``moments``
    are their predictions, and ``final_moments`` those of the final fit for all of them.
    """
    calibrated, scores, first = list(columns), {}, 0
    for k, column in enumerate(columns):
        masks, end = [mask[:, k] for mask in held], first + column.modelled[0].width
        numbers = slice(first, end)
        if any(mask.any() for mask in masks):
            coding, scores[column.name] = calibrated_and_scored(
                column.modelled[0],
                codes[:, k],
                masks,
                [fold.of_columns(numbers) for fold in moments],
                missingness[k],
                None if final_moments is None else final_moments.of_columns(numbers),
            )
            calibrated[k] = attrs.evolve(column, coding=coding)
        first = end
    return calibrated, scores


def mean_loss(scores: Mapping[Any, ColumnScores]) -> float:
    """The mean over columns of the loss on held-out entries, of those that have one."""
    losses = [
        column_scores.loss for column_scores in scores.values() if np.isfinite(column_scores.loss)
    ]
    return float(np.mean(losses)) if losses else np.nan


def fit_table(
    columns: Sequence[DeclaredColumn],
    frame: Any,
    *,
    seed: int = 0,
    groups: Any = None,
    n_folds: int = FOLDS,
    prior_rows: float | None = None,
) -> Completion[Any]:
    """Choose the prior of a table's rows on held-out entries, and fill it by their posterior.

    Parameters
    ----------
    columns : sequence of DeclaredColumn
        As ``declare`` takes them.
    frame : narwhals.DataFrame
    seed : int
        Draws what is held out.
    groups : sequence with a label for each row, optional
        Rows with the same label are held out together.
    n_folds : int
    prior_rows : float, optional
        How many rows the prior of one Gaussian counts as; by default it is chosen.
    """
    # 1. Code the columns as numbers of one block; only those with a place in it are modelled.
    columns = as_numbers(in_content_order(columns))
    modelled = [column for column in columns if column.place is not None]
    unmodelled = [column for column in columns if column.place is None]
    widths = [column.modelled[0].width for column in modelled]
    owners = np.repeat(np.arange(len(modelled)), widths)
    n_rows, n_rows_used = frame.shape[0], MOST_NUMBERS // owners.size
    rng, rows = np.random.default_rng(seed), np.arange(n_rows)
    if n_rows > n_rows_used:
        rows = np.sort(rng.choice(n_rows, n_rows_used, replace=False))
    codes = np.column_stack([column.codes[rows] for column in modelled])
    values = np.column_stack(
        [
            column.modelled[0].numbers(column_codes)
            for column, column_codes in zip(modelled, codes.T, strict=True)
        ]
    )

    # 2. Hold entries out, or rows by their groups.
    labels = None
    if groups is not None:
        labels = np.asarray(groups)
        check_length("groups", labels, n_rows)
        labels = labels[rows]
    wide = takes_factors((n_rows, owners.size))
    folds = folds_of_table(values, codes, owners, labels, rng, n_folds, wide, rows.size < n_rows)
    masks = [fold.held for fold in folds]
    if len(folds) == 1:  # probabilities are fitted and scored on different rows of the one fold
        part = np.arange(len(codes)) % n_folds
        masks = [masks[0] & (part == k)[:, None] for k in range(n_folds)]

    # 3. Choose the prior and the number of Gaussians with the least loss on held-out entries.
    may_mix = np.bincount(owners).max() <= MOST_CLASSES
    chosen, moments = choose_rows(folds, wide, prior_rows, COMPONENTS if may_mix else ())
    missingness = Missingness.of_columns(values, owners, rng)

    def calibrate(
        fold_moments: Sequence[HeldOutMoments], final_moments: HeldOutMoments | None = None
    ) -> tuple[list[DeclaredColumn], dict[Any, ColumnScores]]:
        repeated = [*fold_moments] * (len(masks) // max(len(fold_moments), 1))
        return calibrated_columns(modelled, codes, masks, repeated, missingness, final_moments)

    has_classes = any(isinstance(column.modelled[0], Indicators) for column in modelled)
    if (chosen.components or 1) > 1 and has_classes:
        # Each fit of a mixture has other components, which may tell classes apart badly.
        _, moments_of_one = choose_rows(folds, prior_rows=chosen.prior_rows, components=())
        if mean_loss(calibrate(moments_of_one)[1]) < CLEARLY * mean_loss(calibrate(moments)[1]):
            chosen, moments = attrs.evolve(chosen, components=1), moments_of_one
    current().report(f"{chosen}: chosen")

    # 4. Estimate the posterior of all rows.
    model = chosen.model([number_block(BLOCK)])
    declared = Declared.of([*modelled, *unmodelled], frame, model)
    posterior = chosen.posterior(declared.model, declared.data, folds, moments, random_state=seed)

    # 5. Calibrate the codings, score the columns, and fill the table.
    final_moments = None
    if moments and chosen.components is not None:
        final_moments = chosen.final_moments(posterior.engine.rows, folds)
    calibrated, scores = calibrate(moments, final_moments)
    declared = Declared.of([*calibrated, *unmodelled], frame, model)
    column_scores = tuple(scores.get(column.name) for column in declared.columns)
    return Completion(declared.table(posterior), posterior, declared, chosen, column_scores)

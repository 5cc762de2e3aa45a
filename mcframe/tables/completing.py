"""The verb ``complete``: fill the missing entries of a table."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.contracts.validators import whole
from mcframe.fitting import fit
from mcframe.options import checked_switch
from mcframe.regularizers import NuclearNorm
from mcframe.selection import CrossValidation, EntryFolds, Held, RowFolds, cross_validate
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.splitters import Splitter, check_length, fewest_free
from mcframe.tables.as_numbers import BLOCK, as_numbers
from mcframe.tables.completion import Completion
from mcframe.tables.declared_column import (
    DeclaredColumn,
    aside,
    in_content_order,
    members_of,
    warn_of_aside,
)
from mcframe.tables.declaring import Declared, declared_of, read_table
from mcframe.tables.held_out import (
    ColumnScores,
    Missingness,
    calibrated_and_scored,
    errors_of_constant,
    observed,
)
from mcframe.tables.rows_choice import (
    choose_rows,
    dealt_entries,
    folds_of_parts,
    number_block,
    takes_factors,
)
from mcframe.tables.table_model import TableModel

# What is said of columns that stand in no block.
ASIDE = "columns that are set aside are neither used nor filled"
# Folds of held-out entries.
FOLDS = 3
# Numbers by which is chosen at most: of longer tables so many in rows drawn at random, of which
# one in ``FOLDS + 1`` is held out.
MOST_NUMBERS = 200_000


def complete(
    frame: Any,
    types: Mapping[Any, Any] | None = None,
    *,
    method: Literal["posterior", "optimum"] | None = None,
    random_state: int = 0,
    groups: Any = None,
    progress: bool = False,
) -> Completion:
    """Fill the missing entries of a table of numbers, labels, counts, levels and categories.

    The type of each column follows from its dtype and values, as in ``declare``. All columns are
    then standardized numbers: a category becomes one indicator for each of its values, a level
    becomes its position. Missing entries are filled with the posterior of the rows
    (``mc.posterior``):

    - The rows are draws from one Gaussian distribution, or from a mixture of 2, 3, 4, 6 or 8
      (``GaussianRows``). Mean and covariance have distributions themselves, found by variational
      Bayes. Two things are chosen on 3 folds of held-out entries of every column: the number of
      rows that the prior of the covariance counts as (1, 3, 10, ... or 1,000), and the number of
      Gaussians. The criterion is the mean over columns of the squared error divided by the
      variance.
    - Tables whose number of rows times the cube of the number of columns (as numbers) is more than
      1e11, as 1,000 rows of 465 columns, have Gaussian factors of rows and columns
      (``NuclearNorm()`` without a weight). The evidence keeps as many factors as are needed.

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
    frame, types : as in ``declare``
    method : "posterior" or "optimum", optional
        The default is "posterior", or "optimum" if ``types`` contains a likelihood, which the
        posterior cannot use.
    random_state : int, default 0
        The seed of the held-out entries.
    groups : sequence with a label for each row, optional
        Rows that belong together, such as ``groups=frame["patient"]`` for several visits. All rows
        of a group are held out together, so the choices are made for new groups. Tables with
        factors hold out single entries all the same.
    progress : bool, default False
        Print what is tried, and the steps of the estimate.

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
        As in ``declare``; if ``random_state`` is below 0; if there are fewer than 3 groups, or not
        one label for each row; if the method is neither, or is "posterior" together with a
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
    chosen = checked_method(method, types)
    seed = whole(random_state, "random_state", 0)
    progress = checked_switch(progress, "progress")
    table, columns = read_table(frame, types)
    if chosen == "optimum":
        completed = optimum(columns, table, seed, groups, progress)
    else:
        completed = fit_table(columns, table, seed=seed, groups=groups, progress=progress)
    warn_of_aside(ASIDE, aside(completed.declared.columns))
    return completed


def checked_method(method: Any, types: Any) -> str:
    """Return the method, or raise a ``ModelError`` if it is unknown or cannot use the types."""
    if method not in (None, "posterior", "optimum"):
        raise ModelError(f"method={method!r} was given; 'posterior' or 'optimum' is needed")
    given = []
    if isinstance(types, Mapping):
        given = [plain(name) for name, kind in types.items() if isinstance(kind, Likelihood)]
    if method == "posterior" and given:
        raise ModelError(
            f"types[{given[0]!r}] is a likelihood, which method='posterior' has no use for; take"
            " method='optimum', or declare a kind such as 'number'"
        )
    return method or ("optimum" if given else "posterior")


def optimum(
    columns: Sequence[DeclaredColumn], table: Any, seed: int, groups: Any, progress: bool
) -> Completion:
    """Return the completion by the certified optimum of the model of ``declare``."""
    declared = declared_of(in_content_order(columns), table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit at the end says it once
        cv: Any = EntryFolds(max(min(fewest_free(declared.model, declared.data), FOLDS), 2))
        if groups is not None:
            cv = RowFolds(FOLDS, groups=groups)
        chosen, scores = chosen_weight(declared, cv, seed)
    final = fit(chosen.best_model, declared.data, random_state=seed)
    if progress:
        print(f"NuclearNorm({chosen.best_weight:.6g}) has the least loss; {final.status}")
    return Completion(declared.table(final), final, declared, chosen, scores)


def fit_table(
    columns: Sequence[DeclaredColumn],
    frame: Any,
    *,
    seed: int = 0,
    groups: Any = None,
    n_folds: int = FOLDS,
    prior_rows: float | None = None,
    progress: bool = False,
) -> Completion:
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
    progress : bool
        Whether what is tried is printed.
    """
    columns = as_numbers(in_content_order(columns))
    own = [each for each in columns if each.place is not None]
    outside = [each for each in columns if each.place is None]
    owners = np.repeat(np.arange(len(own)), [each.modelled[0].width for each in own])
    n_rows, n_kept = frame.shape[0], MOST_NUMBERS // owners.size
    rng, rows = np.random.default_rng(seed), np.arange(n_rows)
    if n_rows > n_kept:
        rows = np.sort(rng.choice(n_rows, n_kept, replace=False))
    codes = np.column_stack([each.codes[rows] for each in own])
    values = np.column_stack(
        [each.modelled[0].numbers(code) for each, code in zip(own, codes.T, strict=True)]
    )
    labels = None
    if groups is not None:
        labels = np.asarray(groups)
        check_length("groups", labels, n_rows)
        labels = labels[rows]
    whole, wide = rows.size == n_rows, takes_factors((n_rows, owners.size))
    if wide or (whole and labels is None):
        # Single entries: rows of a wide table of which nothing is seen have no factors.
        folds = folds_of_parts(values, dealt_entries(codes, n_folds, rng), owners, n_folds)
    else:  # whole rows: of groups, or of a long table one fold of those that were drawn
        splitter = RowFolds(n_folds if whole else n_folds + 1, groups=labels)
        part = splitter.parts_of_rows(len(values), rng)
        parts = np.where(np.isnan(codes), -1, part[:, None])
        folds = folds_of_parts(values, parts, owners, n_folds if whole else 1)
    chosen, means = choose_rows(folds, wide, prior_rows, print if progress else None)
    held = [fold.held for fold in folds]
    if len(folds) == 1:  # probabilities are fitted and scored on different rows of the one fold
        part = np.arange(len(codes)) % n_folds
        held = [held[0] & (part == k)[:, None] for k in range(n_folds)]
        means = means * n_folds
    scores: dict[Any, ColumnScores] = {}
    for k, (each, told) in enumerate(
        zip(own, Missingness.of_columns(values, owners, rng), strict=True)
    ):
        masks = [mask[:, k] for mask in held]
        if any(mask.any() for mask in masks):
            first, end = np.searchsorted(owners, [k, k + 1])
            of_column = [at[:, first:end] for at in means]
            coding = each.modelled[0]
            coding, scores[each.name] = calibrated_and_scored(
                coding, codes[:, k], masks, of_column, told
            )
            own[k] = attrs.evolve(each, coding=coding)
    declared = Declared.of([*own, *outside], frame, chosen.model([number_block(BLOCK)]))
    found = chosen.posterior(declared.model, declared.data, random_state=seed, progress=progress)
    by_column = tuple(scores.get(each.name) for each in declared.columns)
    return Completion(TableModel(declared, found).table(), found, declared, chosen, by_column)


# Weights that are tried, and how many clearly worse ones end the search.
WEIGHTS, PATIENCE = 10, 1
# The smallest weight beside the largest. Tables of few columns have their best one far down.
RATIO = 0.003


@attrs.frozen(eq=False)
class JudgedColumns:
    """The criterion of ``method="optimum"``: the mean over columns of their relative losses.

    The loss of a column is the mean over its held-out entries of ``-log`` of the probability of
    the observed value, of numbers of the square of the difference, of counts of half the Poisson
    deviance, over what the best constant loses on all of its observed entries. So a column counts
    once, whatever its kind and unit, and 1 is what constants lose. It keeps what it saw of each
    column, by the weight of the nuclear norm.

    Attributes
    ----------
    declared : Declared
    seen : dict from weight to a list of one (array (3 x n_columns), held) for each fold
        Sums of losses and of errors, and the number of entries, of each column of the table, with
        the entries that the fold held out.
    """

    declared: Declared
    seen: dict[float, list[tuple[Array, Mapping[str, Held]]]] = attrs.field(factory=dict)

    @cached_property
    def members(self) -> dict[str, Any]:
        """The columns of each block by their places, each as its position in the table."""
        position = {each.name: k for k, each in enumerate(self.declared.columns)}
        return {
            block: np.array([position[each.name] for each in own])
            for block, own in members_of(self.declared.columns).items()
        }

    @cached_property
    def losses_of_constants(self) -> Array:
        """What the best constant of each column loses, NaN where nothing or not modelled."""
        found = np.full(len(self.declared.columns), np.nan)
        for position in np.concatenate(list(self.members.values())):
            each = self.declared.columns[position]
            loss = each.modelled[0].loss_of_constant(observed(each.codes))
            found[position] = loss if loss > 0.0 else np.nan
        return found

    def __call__(self, fit: Fit, held: Mapping[str, Held]) -> float:
        """The mean relative loss of the columns, NaN where no column has a held-out entry."""
        n_columns = len(self.declared.columns)
        sums = np.zeros((3, n_columns))
        for block, positions in self.members.items():
            # Columns of a block have codings of one class, whose answers are alike.
            coding, entries = self.declared.columns[positions[0]].modelled[0], held[block]
            if entries.values.size == 0:
                continue
            answer = coding.answer(fit, block, entries.rows, entries.columns)
            owners = positions[entries.columns]
            losses = coding.losses(answer, entries.values)
            errors = coding.errors(coding.predicted(answer), entries.values)
            for row, numbers in zip(sums, (losses, errors, None), strict=True):
                row += np.bincount(owners, numbers, n_columns)
        weight = next(term.threshold for term in fit.model.terms if isinstance(term, NuclearNorm))
        self.seen.setdefault(weight, []).append((sums, held))
        relative = sums[0] / np.maximum(sums[2], 1.0) / self.losses_of_constants
        relative = relative[(sums[2] > 0.0) & ~np.isnan(relative)]
        return float(np.mean(relative)) if relative.size else np.nan

    def errors_of_constants(self, held: Mapping[str, Held]) -> Array:
        """The sums of errors, on a fold, of the best constant of what is left of each column."""
        sums = np.zeros(len(self.declared.columns))
        for block, positions in self.members.items():
            entries = held[block]
            order = np.argsort(entries.columns, kind="stable")
            ends = np.cumsum(np.bincount(entries.columns, minlength=positions.size))
            for position, here in zip(positions, np.split(order, ends[:-1]), strict=True):
                each = self.declared.columns[position]
                kept = each.codes.copy()
                kept[entries.rows[here]] = np.nan
                if here.size:
                    errors = errors_of_constant(each.modelled[0], kept, entries.values[here])
                    sums[position] = np.sum(errors)
        return sums

    def scores(self, weight: float) -> tuple[ColumnScores | None, ...]:
        """The scores of each column at a weight, over all folds; None where none was held out."""
        seen = self.seen[weight]
        losses, errors, counts = np.sum([sums for sums, _ in seen], axis=0)
        constants = np.sum([self.errors_of_constants(held) for _, held in seen], axis=0)
        found: list[ColumnScores | None] = []
        for k, each in enumerate(self.declared.columns):
            if counts[k] == 0.0:
                found.append(None)
                continue
            coding = each.modelled[0]
            found.append(
                ColumnScores(
                    loss=float(losses[k] / counts[k] / self.losses_of_constants[k]),
                    error=coding.error(float(errors[k] / counts[k])),
                    error_of_constant=coding.error(float(constants[k] / counts[k])),
                    n_held=int(counts[k]),
                )
            )
        return tuple(found)


def chosen_weight(
    declared: Declared, cv: Splitter, seed: int
) -> tuple[CrossValidation, tuple[ColumnScores | None, ...]]:
    """Return the cross-validation of the weight, and the losses of each column at the best one."""
    judged = JudgedColumns(declared)
    with edges_unsaid():
        chosen = cross_validate(
            declared.model,
            declared.data,
            criterion=judged,
            count=WEIGHTS,
            ratio=RATIO,
            cv=cv,
            patience=PATIENCE,
            random_state=seed,
        )
    return chosen, judged.scores(chosen.best_weight)

"""The verb ``complete``: a table with holes in, the same table without them out."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import ModelError, UnobservedWarning
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.contracts.validators import number, whole
from mcframe.fitting import fit
from mcframe.model import Model
from mcframe.selection import CrossValidation, EntryFolds, RowFolds
from mcframe.selection.prior_rows import PRIORS
from mcframe.selection.splitters import Splitter, fewest_free
from mcframe.tables.column_scores import ColumnScores
from mcframe.tables.completion import Completion
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import aside, warn_of_aside
from mcframe.tables.declaring import declare
from mcframe.tables.gaussian_table import (
    FOLDS,
    gaussian_table,
    is_narrow,
    log_likelihood_of,
    work_of_search,
)
from mcframe.tables.nuclear_weight import chosen_weight
from mcframe.tables.prior_rows import ChosenPrior, choose_prior

__all__ = ["complete"]

# The share of the budget that choosing may take.
CHOOSING = 0.5
# Multiplications a second of one core of an Intel Xeon, in matrices of 20 to 200 columns: a budget
# is counted by these, and not by a clock.
SPEED = 4e9
# Cells by which the prior is chosen at most: of longer tables some rows, drawn at random.
MOST_CELLS = 200_000
# What is said of columns that stand in no block.
ASIDE = "columns that are set aside play no part, and keep their holes"
# Iterations that a fit is given at least and at most.
FEWEST_STEPS, MOST_STEPS = 20, 1_000_000
METHODS = ("gaussian", "likelihoods")


@attrs.frozen(eq=False)
class Chosen:
    """A table with its model, and how that was chosen.

    Attributes
    ----------
    declared : Declared
    model : Model
    by : ChosenPrior or CrossValidation
    scores : tuple of ColumnScores or None
        What was lost of each column at the best.
    cut_short : str
        What the budget left out, in words.
    """

    declared: Declared
    model: Model
    by: ChosenPrior | CrossValidation
    scores: tuple[ColumnScores | None, ...]
    cut_short: str


def complete(
    frame: Any,
    types: Mapping[Any, Any] | None = None,
    *,
    method: Literal["gaussian", "likelihoods"] | None = None,
    max_seconds: float = 60.0,
    random_state: int = 0,
    groups: Any = None,
) -> Completion:
    """Fill the holes of a table of numbers, labels, counts, levels and categories.

    ``declare`` says what each column is. There are two methods from there:

    - "gaussian": all columns are numbers in standard units, a category one indicator for each of
      its values, levels their places, and the rows are draws of one Gaussian distribution. Its
      covariance is estimated by EM (Little and Rubin, Statistical Analysis with Missing Data, 3rd
      edition, 2019, section 11.2), with a prior of independent columns that counts as 1, 3, 10,
      ... or 1,000 rows. Given the covariance the completion is a convex program, with
      ``GaussianRows``, and certified; nothing certifies the covariance. Probabilities of labels
      and levels are those of a logistic curve of the mean, with a coefficient and cut points for
      each column from held-out entries; those of categories are those of a linear discriminant of
      the means of their indicators. Levels are filled by the median of their probabilities. Where
      held-out entries are predicted worse than by the column's constant, that is the answer.
    - "likelihoods": the model of ``declare``, each kind of column under its own likelihood, and
      one nuclear norm, whose weight ``cross_validate`` chooses among 10.

    Both choose on 3 folds of held-out entries of every column, by the mean over columns of their
    losses relative to those of the best constants. On mixed tables the first predicts better
    (see the page on how good answers are), in less time.

    Parameters
    ----------
    frame, types : as in ``declare``
    method : "gaussian" or "likelihoods", optional
        Default: "gaussian", but "likelihoods" where ``types`` gives a likelihood, which the other
        has no use for, and where the table has so many columns that EM takes more than 3e11
        multiplications. That depends on the shape of the table and on its holes alone.
    max_seconds : float, default 60
        How much work choosing and fitting may be, at 4e9 multiplications a second: about the
        seconds of one core. It is counted by the sizes of matrices and not by a clock, so that a
        seed has one answer on every machine, and it never changes the method. What it cuts short,
        such as priors or weights that were not tried, a warning says, and ``print``.
    random_state : int, default 0
        Draws the folds.
    groups : sequence with a label for each row, optional
        Rows that belong together, such as ``groups=frame["patient"]`` of several visits: all of a
        group are held out together, and what is chosen is chosen for rows of groups that the fit
        has seen nothing of (``mcframe.selection.RowFolds``).

    Returns
    -------
    Completion
        ``table`` is the completed table in its own library, with its own dtypes; ``report()``
        says of each column how well it is predicted where it was held out; ``fit`` has the
        certificate. A ``UserWarning`` names columns that are set aside.

    Raises
    ------
    DataError, ModelError
        As in ``declare``; ``max_seconds`` that are no positive number; a ``random_state`` below
        0; fewer groups than 3, or not a label for each row; a method that is neither, or
        "gaussian" beside a likelihood.

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
    if not 0.0 < number(max_seconds, "max_seconds") < np.inf:
        raise ModelError(
            f"max_seconds={max_seconds!r} was given; a positive number of seconds is needed"
        )
    checked_method(method, types)
    seed = whole(random_state, "random_state", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the fit at the end says it once
        declared = declare(frame, types)
        work = CHOOSING * max_seconds * SPEED
        gaussian = (method or usual_method(declared, types)) == "gaussian"
        chosen = (by_covariance if gaussian else by_likelihoods)(declared, work, seed, groups)
    if chosen.cut_short:
        warnings.warn(chosen.cut_short, UserWarning, stacklevel=2)
    n_steps = steps_of(declared, (1.0 - CHOOSING) * max_seconds * SPEED)
    final = fit(chosen.model, chosen.declared.data, max_iter=n_steps, random_state=seed)
    warn_of_aside(ASIDE, aside(declared.columns))
    return Completion(
        chosen.declared.table(final),
        final,
        chosen.declared,
        chosen.by,
        chosen.scores,
        log_likelihood_of(chosen.declared) if gaussian else None,
        chosen.cut_short,
    )


def checked_method(method: Any, types: Mapping[Any, Any] | None) -> None:
    """Raise a ``ModelError`` where the method is neither of the two, or makes no use of types."""
    if method is not None and method not in METHODS:
        raise ModelError(f"method={method!r} was given; 'gaussian' or 'likelihoods' is needed")
    given = likelihoods_in(types)
    if method == "gaussian" and given:
        raise ModelError(
            f"types[{given[0]!r}] is a likelihood, which method='gaussian' has no use for; take"
            " method='likelihoods', or declare a kind such as 'number'"
        )


def likelihoods_in(types: Any) -> list[Any]:
    """Return the columns that were declared by a likelihood."""
    if not isinstance(types, Mapping):
        return []
    return [plain(name) for name, given in types.items() if isinstance(given, Likelihood)]


def usual_method(declared: Declared, types: Mapping[Any, Any] | None) -> str:
    """Return the method that is taken where none is asked for: by the table, and by no clock."""
    n_rows = rows_to_choose_by(declared, np.random.default_rng(0)).size
    gaussian = not likelihoods_in(types) and is_narrow(declared, n_rows)
    return "gaussian" if gaussian else "likelihoods"


def by_covariance(declared: Declared, work: float, seed: int, groups: Any) -> Chosen:
    """Return the table as rows of one Gaussian distribution, and how its prior was chosen."""
    rng = np.random.default_rng(seed)
    rows = rows_to_choose_by(declared, rng)
    counts = range(2, len(PRIORS) + 1)
    most = 1 + sum(work_of_search(declared, rows.size, count) <= work for count in counts)
    chosen = choose_prior(declared, folds_of(declared, groups, rows), rows, most, rng)
    cut_short = (
        f"the budget ended the search at {chosen}, after {len(chosen.search.priors)} that were"
        " tried; a larger max_seconds tries more"
    )
    numbers = gaussian_table(declared, chosen)
    said = cut_short if chosen.search.ended else ""
    return Chosen(numbers, numbers.model, chosen, chosen.scores, said)


def by_likelihoods(declared: Declared, work: float, seed: int, groups: Any) -> Chosen:
    """Return the table as it was declared, and how the weight of its nuclear norm was chosen."""
    folds = folds_of(declared, groups, np.arange(declared.frame.shape[0])) or EntryFolds(2)
    chosen, scores, cut_short = chosen_weight(declared, folds, steps_of(declared, work), seed)
    return Chosen(declared, chosen.best_model, chosen, scores, cut_short)


def folds_of(declared: Declared, groups: Any, rows: IntArray) -> Splitter | None:
    """Return the way of cutting these rows of a table into folds; None where there is none."""
    if groups is not None:
        labels = np.asarray(groups)
        whole = labels.shape == (declared.frame.shape[0],)
        return RowFolds(FOLDS, groups=labels[rows] if whole else labels)
    data = {name: np.asarray(own, dtype=np.float64)[rows] for name, own in declared.data.items()}
    fewest = fewest_free(declared.model, data)
    return EntryFolds(min(fewest, FOLDS)) if fewest >= 2 else None


def rows_to_choose_by(declared: Declared, rng: np.random.Generator) -> IntArray:
    """Return all rows, of very long tables some of them."""
    n_rows = declared.frame.shape[0]
    n_kept = MOST_CELLS // len(declared.columns)
    if n_rows <= n_kept:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, n_kept, replace=False))


def steps_of(declared: Declared, work: float) -> int:
    """Return how many iterations of a fit are so many multiplications, at least ``FEWEST_STEPS``.

    One is taken for n d min(n, d) multiplications of an n x d table, and a million more.
    """
    n_rows, n_columns = declared.frame.shape
    each = n_rows * n_columns * min(n_rows, n_columns) + 1e6
    return int(np.clip(work / each, FEWEST_STEPS, MOST_STEPS))

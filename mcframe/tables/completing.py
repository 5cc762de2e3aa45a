"""The verb ``complete``: fill the missing entries of a table."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal

from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.contracts.validators import whole
from mcframe.fitting import fit
from mcframe.options import checked_switch
from mcframe.selection import EntryFolds, RowFolds
from mcframe.selection.splitters import fewest_free
from mcframe.tables.completion import Completion
from mcframe.tables.declared_column import aside, in_content_order, warn_of_aside
from mcframe.tables.declaring import declared_of, read_table
from mcframe.tables.judging import chosen_weight
from mcframe.tables.table_model import FOLDS, checked_groups, fit_table

__all__ = ["complete"]

# What is said of columns that stand in no block.
ASIDE = "columns that are set aside are neither used nor filled"
REMOVED = {
    "gaussian": "the posterior of Gaussian rows is the default now: leave method out",
    "likelihoods": "the certified optimum of mc.declare's model is method='optimum' now",
}


def complete(
    frame: Any,
    types: Mapping[Any, Any] | None = None,
    *,
    method: Literal["posterior", "optimum"] | None = None,
    random_state: int = 0,
    groups: Any = None,
    progress: bool = False,
    max_seconds: None = None,
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
    max_seconds : None
        There is no time limit: giving one is an error.

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
    if max_seconds is not None:
        raise ModelError(
            f"max_seconds={max_seconds!r} was given; complete has no limit of time any more. Leave"
            " it out; of a table that takes too long give fewer columns"
        )
    chosen = checked_method(method, types)
    seed = whole(random_state, "random_state", 0)
    progress = checked_switch(progress, "progress")
    if chosen == "optimum":
        completed = optimum(frame, types, seed, groups, progress)
    else:
        table, columns = read_table(frame, types)
        model = fit_table(columns, table, seed=seed, groups=groups, progress=progress)
        completed = Completion(
            model.table(), model.posterior, model.declared, model.chosen, model.scores, model
        )
    warn_of_aside(ASIDE, aside(completed.declared.columns))
    return completed


def checked_method(method: Any, types: Mapping[Any, Any] | None) -> str:
    """Return the method, or raise a ``ModelError`` if it is unknown or cannot use the types."""
    if isinstance(method, str) and method in REMOVED:
        raise ModelError(f"method={method!r} was given; {REMOVED[method]}")
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
    frame: Any, types: Mapping[Any, Any] | None, seed: int, groups: Any, progress: bool
) -> Completion:
    """Return the completion by the certified optimum of the model of ``declare``."""
    table, columns = read_table(frame, types)
    declared = declared_of(in_content_order(columns), table)
    labels = checked_groups(groups, declared.frame.shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit at the end says it once
        cv: Any = EntryFolds(max(min(fewest_free(declared.model, declared.data), FOLDS), 2))
        if labels is not None:
            cv = RowFolds(FOLDS, groups=labels)
        chosen, scores = chosen_weight(declared, cv, seed)
    final = fit(chosen.best_model, declared.data, random_state=seed)
    if progress:
        print(f"NuclearNorm({chosen.best_weight:.6g}) has the least loss; {final.status}")
    return Completion(declared.table(final), final, declared, chosen, scores)

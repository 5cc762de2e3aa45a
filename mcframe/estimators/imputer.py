"""The imputer: missing entries from a model of the whole table."""

from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted, validate_data

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.estimators.columns import groups_of, table_data
from mcframe.estimators.completion import Completion
from mcframe.selection import HeldOutLoss

__all__ = ["MatrixCompletionImputer"]


class MatrixCompletionImputer(OneToOneFeatureMixin, TransformerMixin, Completion):
    """Fill missing numbers by a certified low-rank model of the table, one loss for each column.

    The objective is that of ``mcframe.Model``: the losses of the observed entries, in standard
    units of each column and with a level of its own, plus the terms. ``fit_transform`` answers by
    the fit itself, ``transform`` by the rule for new rows (Zheng and Hastie, 2015), which on the
    rows of the fit gives the same up to ``tol``. Observed entries are never changed.

    Parameters
    ----------
    likelihoods : "auto", a likelihood, or a dict from column to likelihood, default "auto"
        Columns by name or position; "auto", and columns that a dict leaves out: ``Gaussian()``.
        Labels, counts, levels and codes of classes are numbers here, filled as by ``Fit.impute``:
        a label by the probability of 1, a count and a level by its mean, a class by the code of
        the most probable one.
    terms : list of regularizers and constraints, optional
        By default a ``NuclearNorm``.
    weight : "cv", float or None, default "cv"
        The weight of the norm among the terms: chosen by cross-validation on held-out entries, a
        number, or that of ``terms``. Tables with fewer than ``2 * cv`` observed entries are given
        a tenth of the least weight at which nothing is left to learn.
    n_weights, cv : int, default 12 and 3
        How many weights are tried, and on how many folds.
    min_value, max_value : float or array of one a column, default -inf and inf
        What is filled in is clipped to that.
    missing_values : number, default NaN
        What stands for a missing entry; None and pandas.NA always do.
    keep_empty_features : bool, default False
        Columns without one observed entry: dropped, or filled with 0.
    add_indicator : bool, default False
        Whether 0/1 columns follow that say what was missing, as of ``MissingIndicator``.
    tol, max_iter, random_state, threads : as in ``mcframe.fit``

    Attributes
    ----------
    completion_ : Fit
        With its certificate: ``.gap``, ``.status``, ``.bound``.
    model_ : Model
        As fitted; ``print`` writes it as mathematics.
    cross_validation_ : CrossValidation
        Where the weight was chosen.
    n_iter_, n_features_in_, feature_names_in_, indicator_ : as elsewhere in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.estimators import MatrixCompletionImputer
    >>> X = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0])
    >>> X[2, 1] = np.nan
    >>> imputer = MatrixCompletionImputer(weight=0.01)
    >>> print(imputer.fit_transform(X)[2].round(1))
    [3. 6. 9.]
    """

    def __init__(
        self,
        likelihoods: Any = "auto",
        terms: Any = None,
        *,
        weight: Any = "cv",
        n_weights: int = 12,
        cv: int = 3,
        min_value: Any = -np.inf,
        max_value: Any = np.inf,
        missing_values: Any = np.nan,
        keep_empty_features: bool = False,
        add_indicator: bool = False,
        tol: float = 1e-5,
        max_iter: int = 20_000,
        random_state: int | None = 0,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            likelihoods,
            terms,
            weight=weight,
            n_weights=n_weights,
            cv=cv,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
            threads=threads,
        )
        self.min_value = min_value
        self.max_value = max_value
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.add_indicator = add_indicator

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to a table (n_samples x n_features), NaN where missing."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit the model, and fill the table that it was fitted to."""
        table = self.read(X, reset=True)
        observed = ~np.isnan(table)
        self.kept_ = np.flatnonzero(observed.any(axis=0))
        self.lowest_, self.highest_ = self.limits(table.shape[1])
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(table)
        filled = table[:, self.kept_]
        if not self.kept_.size:
            self.n_iter_ = 1
            return self.completed(table, filled)
        names = getattr(self, "feature_names_in_", None)
        self.groups_ = groups_of(self.likelihoods, self.kept_, names)
        fitted = self.fit_model(
            [group.block for group in self.groups_],
            table_data(self.groups_, filled),
            HeldOutLoss(),
        )
        for group in self.groups_:
            filled[:, group.columns] = fitted.impute(group.block.name)
        return self.completed(table, filled)

    def transform(self, X: Any) -> Any:
        """Fill a table of other rows, of the columns of the fit."""
        check_is_fitted(self, "kept_")
        table = self.read(X, reset=False)
        filled = table[:, self.kept_]
        if self.kept_.size and np.isnan(filled).any():
            new = self.completion_.new_rows(table_data(self.groups_, filled))
            for group in self.groups_:
                filled[:, group.columns] = self.completion_.filled_rows(group.block.name, new)
        return self.completed(table, filled)

    def completed(self, table: Array, filled: Array) -> Array:
        """The answer: clipped where it was missing, empty columns and indicators put beside it."""
        missing = np.isnan(table[:, self.kept_])
        clipped = np.clip(filled, self.lowest_[self.kept_], self.highest_[self.kept_])
        answer = np.where(missing, clipped, filled)
        if self.keep_empty_features:
            whole = np.where(np.isnan(table), 0.0, table)
            whole[:, self.kept_] = answer
            answer = whole
        if self.add_indicator:
            answer = np.hstack([answer, self.indicator_.transform(table)])
        return answer.astype(table.dtype, copy=False)

    def read(self, X: Any, reset: bool) -> Array:
        """The table as floats, NaN where missing."""
        table: Array = validate_data(
            self,
            X,
            dtype=(np.float64, np.float32),
            copy=True,
            ensure_all_finite="allow-nan",
            reset=reset,
        )
        if not np.isnan(self.missing_values):
            table[table == self.missing_values] = np.nan
        return table

    def limits(self, n_features: int) -> tuple[Array, Array]:
        """The lowest and the highest value of each column that may be filled in."""
        limits = []
        for name in ("min_value", "max_value"):
            given = getattr(self, name)
            numbers = np.asarray(given, dtype=np.float64)
            if numbers.ndim > 1 or (numbers.ndim == 1 and numbers.size != n_features):
                raise ModelError(
                    f"{name} of shape {numbers.shape} was given; one number, or one for each of"
                    f" the {n_features} features is needed"
                )
            limits.append(np.broadcast_to(numbers, n_features))
        if (limits[0] >= limits[1]).any():
            raise ModelError("min_value has to be below max_value in every feature")
        return limits[0], limits[1]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns of the answer."""
        check_is_fitted(self, "kept_")
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[self.kept_]
        if not self.add_indicator:
            return kept
        return np.concatenate([kept, self.indicator_.get_feature_names_out(names)])

    def __sklearn_tags__(self) -> Any:
        """NaN are allowed; numbers of 32 bits stay so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

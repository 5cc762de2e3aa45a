"""The imputer: missing entries from a model of the whole table."""

import warnings
from typing import Any, Self

import attrs
import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, UnobservedWarning
from mcframe.contracts.validators import NotANumber, Options, floats_of
from mcframe.estimators.base import TableEstimator
from mcframe.estimators.feature_blocks import FrameColumns
from mcframe.tables.column_types import ReadTable
from mcframe.tables.pipeline import complete_by_posterior


@attrs.define(slots=False, eq=False, repr=False)
class MatrixCompletionImputer(OneToOneFeatureMixin, TransformerMixin, TableEstimator):
    """Fill missing entries with one model of the whole table.

    By default the rows are draws from a Gaussian distribution, or from a mixture of several, and
    missing entries are filled with their posterior, as by ``mcframe.complete``. With likelihoods,
    terms or a weight the objective is that of ``mcframe.Model``: the losses of the observed
    entries, in standard units of each column, plus the terms. Its optimum is certified.
    ``fit_transform`` uses the fit itself. ``transform`` uses the rule for new rows, which on the
    rows of the fit gives the same up to ``tol``. Observed entries are never changed.

    X is an array or a DataFrame. A DataFrame with a column of text, categories, booleans or dates
    is read as by ``mcframe.declare``. It comes back as a DataFrame of its library with its own
    dtypes; labels, levels and categories are filled with the most probable value.

    Parameters
    ----------
    likelihoods : "auto", a likelihood, or a dict from column to likelihood, default "auto"
        Columns by name or position. "auto", and columns that a dict leaves out, mean
        ``Gaussian()`` in a table of numbers, and ``types`` in other tables. Filled as by
        ``Fit.impute``: numbers and counts with their mean; labels, levels and codes of classes
        with the most probable value.
    terms : "gaussian", list of regularizers and constraints, or None, default None
        "gaussian" treats the rows as draws from a Gaussian distribution, or from a mixture of
        several, and predicts with their posterior; wide tables have factors (see
        ``mcframe.complete``). None means "gaussian" if ``likelihoods``, ``model`` and ``weight``
        have their defaults, else a ``NuclearNorm``, whose optimum is certified.
    model : Model, optional
        Instead of likelihoods and terms. For a table of numbers a model of one block with any
        name; for other DataFrames a model with the blocks of ``mcframe.declare(X, types)``.
    types : dict from column name to a kind, optional
        Overrides the detected types of the columns of a DataFrame, as in ``mcframe.declare``. With
        it a DataFrame of only numbers is also read as by ``declare``.
    relations : list of str or Relation, optional
        Equations between columns of a DataFrame that hold in each row, as in
        ``mcframe.complete``. With them a DataFrame of only numbers is also read as by ``declare``.
    unseen : "missing" or "error", default "missing"
        In ``transform``, a label or a category that was not in the fit counts as missing, with one
        warning that names it, or raises a ``DataError``. It is never replaced.
    weight : "cv", float or None, default "cv"
        The weight of the norm among the terms: chosen by cross-validation on held-out entries, a
        number, or that of ``terms`` or ``model``. Tables with fewer than ``2 * cv`` observed
        entries use a tenth of ``weight_max``. With Gaussian rows: the number of rows of
        independent columns that the prior counts as.
    n_weights, cv : int, default 12 and 3
        The number of weights of a norm that are tried, and of folds.
    min_value, max_value : float or array of one a column, default -inf and inf
        Filled numbers are clipped to this range, in a table of numbers.
    missing_values : a value, a list of values, or a dict from column to such, default NaN
        Values that stand for missing entries, as ``missing`` in ``mcframe.declare``; columns of an
        array by position. None, NaN, pandas.NA and masked entries are always missing.
    keep_empty_features : bool, default False
        Columns without an observed entry are dropped, or filled with 0 if they are numbers.
    add_indicator : bool, default False
        Append 0/1 columns that mark missing entries, as by ``MissingIndicator``.
    tol, max_iter : as in ``mcframe.fit``, for an optimum
    random_state, n_jobs : as in ``mcframe.fit``

    Attributes
    ----------
    completion_ : Posterior or Fit
        The posterior of Gaussian rows, or the fit with its certificate: ``.gap``, ``.bound``.
    model_ : Model
        The fitted model; ``print`` writes it as a formula.
    declared_ : Declared
        The types of the columns, for a DataFrame that is not a table of numbers.
    cross_validation_ : CrossValidation
        The choice of the weight of a norm.
    prior_rows_, prior_search_ : float and RowsChoice
        For Gaussian rows: the size of the prior, and its choice.
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
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, 1.1, 2.0, 2.2, 2.1], "kind": [*"aabb", None]})
    >>> MatrixCompletionImputer(weight=0.1).fit_transform(frame)["kind"].tolist()
    ['a', 'a', 'b', 'b', 'b']
    """

    relations: Any = attrs.field(default=None, kw_only=True)
    min_value: Any = attrs.field(default=-np.inf, kw_only=True)
    max_value: Any = attrs.field(default=np.inf, kw_only=True)
    keep_empty_features: bool = attrs.field(default=False, kw_only=True)
    add_indicator: bool = attrs.field(default=False, kw_only=True)

    @property
    def stated_relations(self) -> Any:
        """Equations between the columns of a frame; None without any."""
        return self.relations

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to a table (n_samples x n_features), NaN where missing."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit the model to a table, and fill this table."""
        table = self.read(X, reset=True)
        columns = self.columns_ = self.read_columns(table)
        self.limits_ = self.limits(self.n_features_in_)
        if isinstance(columns, FrameColumns):
            if np.isfinite(self.limits_).any():
                raise ModelError(
                    "min_value or max_value was given for a table whose columns are not all"
                    " numbers; give bounds of a column by types={name: ('number', lower, upper)}"
                )
            columns.warn_of_columns_set_aside(empty=self.keep_empty_features)
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(columns.marked(table))
        self.n_iter_ = 1
        if self.gaussian_ and isinstance(columns, FrameColumns):
            self.columns_ = self.with_posterior(columns)
        elif columns.blocks:
            if isinstance(columns, FrameColumns):
                self.fit_blocks(columns.blocks, columns.data_within_limits(table))
            else:
                self.fit_blocks(columns.blocks, columns.data(table))
        return self.completed(table, fitted=True)

    def with_posterior(self, columns: FrameColumns) -> FrameColumns:
        """The columns of a frame with the posterior of their rows, as of ``mcframe.complete``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            declared = columns.declared
            completion = complete_by_posterior(
                ReadTable(declared.frame, declared.columns, declared.relations),
                seed=Options.random_state(self.random_state),
                n_folds=Options.cv(self.cv),
                prior_rows=self.given_prior(),
            )
        self.declared_ = completion.declared
        self.set_posterior(completion.chosen, completion.posterior)
        return attrs.evolve(columns, declared=completion.declared, completed=completion)

    def transform(self, X: Any) -> Any:
        """Fill a table of other rows, with the columns of the fit."""
        check_is_fitted(self, "columns_")
        return self.completed(self.read(X, reset=False), fitted=False)

    def completed(self, table: Any, fitted: bool) -> Any:
        """The answer: the table of the fit or of other rows filled, with its indicators."""
        columns, keep_empty = self.columns_, self.keep_empty_features
        fit = self.completion_ if columns.blocks else None
        answer: Any = columns.filled(fit, table, fitted, self.limits_, keep_empty)
        if self.add_indicator:
            names = self.indicator_.get_feature_names_out(super().get_feature_names_out())
            indicated = self.indicator_.transform(columns.marked(table))
            answer = columns.with_indicators(answer, names, indicated)
        library = _get_output_config("transform", self)["dense"]
        if self.is_frame_ and library in ("pandas", "polars"):
            # scikit-learn makes one of another library's as well, but of objects.
            frame = nw.from_native(answer, eager_only=True)
            if frame.implementation.value != library:
                return frame.to_pandas() if library == "pandas" else frame.to_polars()
        return answer

    def read_numbers(self, X: Any, reset: bool, dtype: Any = None, copy: bool = True) -> Any:
        """X as floats, of 32 bits where it is, NaN where missing."""
        return super().read_numbers(X, reset, dtype or (np.float64, np.float32), copy)

    def limits(self, n_features: int) -> tuple[Array, Array]:
        """The lowest and the highest value of each column that may be filled in."""
        limits = []
        for name in ("min_value", "max_value"):
            limit = getattr(self, name)
            try:
                numbers = floats_of(limit)
            except (NotANumber, TypeError, ValueError):
                raise ModelError(
                    f"{name}={limit!r} was given; one number, or one for each feature, is needed"
                ) from None
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
        check_is_fitted(self, "columns_")
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[self.columns_.kept]
        if not self.add_indicator:
            return kept
        return np.concatenate([kept, self.indicator_.get_feature_names_out(names)])

    def __sklearn_tags__(self) -> Any:
        """NaN are allowed; numbers of 32 bits stay so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

"""The regressor: targets are further columns of the table of features."""

from typing import Any, Self

from sklearn.base import RegressorMixin

from mcframe.contracts.arrays import Array
from mcframe.estimators.prediction import TARGETS, Prediction
from mcframe.estimators.targets import read_numbers
from mcframe.likelihoods import Gaussian
from mcframe.model import Block

__all__ = ["MatrixCompletionRegressor"]


class MatrixCompletionRegressor(RegressorMixin, Prediction):
    """Regress by completing one table of features, with the targets as further columns.

    Features and targets may have missing entries, and there may be several targets. They are
    standardized and fitted with the squared loss. By default rows are draws from a Gaussian
    distribution. With terms such as a ``NuclearNorm`` targets share the low-rank structure of the
    features. On rows of the fit ``predict`` is transductive: it uses the targets observed there.
    On others it uses the rule for new rows.

    Parameters
    ----------
    likelihoods : "auto", a likelihood, or a dict from column to likelihood, default "auto"
        For the features, by name or position. "auto", and columns that a dict leaves out, mean
        ``Gaussian()`` in a table of numbers. DataFrames with text, categories, booleans or dates
        are read as by ``mcframe.declare``.
    terms : "gaussian", list of regularizers and constraints, or None, default None
        "gaussian" treats the rows as draws from a Gaussian distribution, or from a mixture of
        several, and predicts with their posterior; wide tables have factors (see
        ``mcframe.complete``). None means "gaussian" if ``likelihoods``, ``model`` and ``weight``
        have their defaults, else a ``NuclearNorm``, whose optimum is certified.
    model : Model, optional
        For the features, instead of likelihoods and terms. The block "targets" is added to its
        own: one block for a table of numbers, else those of ``mcframe.declare(X, types)``.
    types : dict from column name to a kind, optional
        Overrides the detected types of the columns of a DataFrame, as in ``mcframe.declare``.
    unseen : "missing" or "error", default "missing"
        In ``predict``, a category that was not in the fit counts as missing, with one warning that
        names it, or raises a ``DataError``.
    weight : "cv", float or None, default "cv"
        The weight of the norm: the one with the least held-out loss of targets, a number, or that
        of ``terms`` or ``model``. With Gaussian rows: the number of rows of independent columns
        that the prior counts as.
    n_weights, cv : int, default 12 and 3
        The number of weights of a norm that are tried, and of folds.
    tol, max_iter : as in ``mcframe.fit``, for an optimum
    random_state, n_jobs : as in ``mcframe.fit``

    Attributes
    ----------
    completion_ : Posterior or Fit
        The posterior of Gaussian rows, or the fit with its certificate: ``.gap``, ``.bound``.
    model_ : Model
    declared_ : Declared
        The types of the columns, for a DataFrame that is not a table of numbers.
    cross_validation_ : CrossValidation
        The choice of the weight of a norm.
    prior_rows_, prior_search_ : float and RowsChoice
        For Gaussian rows: the size of the prior, and its choice.
    n_iter_, n_features_in_, feature_names_in_ : as elsewhere in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.estimators import MatrixCompletionRegressor
    >>> X = np.arange(1.0, 9.0)[:, None]
    >>> model = MatrixCompletionRegressor(weight=1e-3).fit(X, 2.0 * X[:, 0])
    >>> print(model.predict([[10.0]]).round(1))
    [20.]
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to features (n_samples x n_features) and targets, NaN where missing."""
        table = self.read(X, reset=True)
        targets = read_numbers(y)
        self.flat_ = targets.ndim == 1
        block = Block(TARGETS, Gaussian(), standardize=True, bias=True)
        self.gaussian_ = self.takes_gaussian()
        self.fit_targets(table, block, targets.reshape(len(targets), -1))
        return self

    def predict(self, X: Any) -> Array:
        """The mean of each target (n_samples,) or (n_samples x n_targets), as y was given."""
        found = self.means(X)
        return found[:, 0] if self.flat_ else found

    def __sklearn_tags__(self) -> Any:
        """There may be several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

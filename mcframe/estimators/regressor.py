"""The regressor: numbers as columns beside the features."""

from typing import Any, Self

from sklearn.base import RegressorMixin

from mcframe.contracts.arrays import Array
from mcframe.estimators.prediction import TARGETS, Prediction
from mcframe.estimators.targets import read_numbers
from mcframe.likelihoods import Gaussian
from mcframe.model import Block

__all__ = ["MatrixCompletionRegressor"]


class MatrixCompletionRegressor(RegressorMixin, Prediction):
    """Regress by completing one table: features, and targets as columns beside them.

    Features and targets may have holes, and there may be several targets. They are fitted in
    standard units with the squared loss. By default rows are draws of a Gaussian distribution;
    under terms such as a ``NuclearNorm`` targets share the features' low-rank structure. On rows
    of the fit ``predict`` is the transductive answer, which knows the targets observed
    there; on others the rule for new rows.

    Parameters
    ----------
    likelihoods : "auto", a likelihood, or a dict from column to likelihood, default "auto"
        Of the features, by name or position; "auto" and those left out: ``Gaussian()`` in a
        table of numbers. DataFrames with text, categories, truth values or dates are read as
        ``mcframe.declare`` reads them.
    terms : "gaussian", list of regularizers and constraints, or None, default None
        "gaussian" takes the rows for draws of a Gaussian distribution, or of a mixture of
        several, and answers by their posterior; those of a wide table have factors (see
        ``mcframe.complete``). None is that where ``likelihoods``, ``model`` and ``weight`` are as
        by default, else a ``NuclearNorm``, whose optimum is certified.
    model : Model, optional
        Of the features, in place of likelihoods and terms; the block "targets" is put beside
        its own: one for a table of numbers, else those of ``mcframe.declare(X, types)``.
    types : dict from column name to a kind, optional
        What columns of a DataFrame are, as in ``mcframe.declare``.
    unseen : "missing" or "error", default "missing"
        What a category is in ``predict`` that was not in the fit: missing, with one warning that
        names them, or a ``DataError``.
    weight : "cv", float or None, default "cv"
        Of the norm: the one with the least held-out loss of targets, a number, or that of
        ``terms`` or ``model``. With Gaussian rows: how many rows of independent columns a prior
        counts as.
    n_weights, cv : int, default 12 and 3
        How many weights of a norm are tried, and on how many folds.
    tol, max_iter : as in ``mcframe.fit``, of an optimum
    random_state, n_jobs : as in ``mcframe.fit``

    Attributes
    ----------
    completion_ : Posterior or Fit
        The posterior of Gaussian rows, or the fit with its certificate: ``.gap``, ``.bound``.
    model_ : Model
    declared_ : Declared
        What the columns of a DataFrame that is no table of numbers were taken for.
    cross_validation_ : CrossValidation
        Where the weight of a norm was chosen.
    prior_rows_, prior_search_ : float and RowsChoice
        Of Gaussian rows: what the prior counts as, and how that was chosen.
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

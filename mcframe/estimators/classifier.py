"""The classifier: labels and classes are further columns of the table of features."""

from typing import Any, Self

import numpy as np
from scipy.special import logit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mcframe.contracts.arrays import Array
from mcframe.estimators.prediction import TARGETS, Prediction
from mcframe.estimators.targets import Labels, read_labels
from mcframe.likelihoods import Bernoulli, Gaussian, Multinomial
from mcframe.model import Block
from mcframe.tables.as_numbers import Indicator, Indicators, calibrated
from mcframe.tables.coding import Means

__all__ = ["MatrixCompletionClassifier"]

# Probabilities nearer to 0 and 1 than this have that logit.
NEAREST = 1e-300


class MatrixCompletionClassifier(ClassifierMixin, Prediction):
    """Classify by completing one table of features, with the labels as further columns.

    Features and labels may have missing entries, and there may be several columns of labels
    (multi-label). Unlabeled samples in the fit help. By default rows of features and of 0/1
    indicators of the labels are draws from one Gaussian distribution, and predictions come from
    its posterior. Probabilities are those of a logistic curve of the indicators' means, or of a
    linear discriminant for several classes. With terms such as a ``NuclearNorm`` labels have the
    logistic loss, or the softmax loss for several classes, and share their low-rank structure with
    the features (Goldberg et al., 2010). On rows of the fit ``predict`` is transductive: it uses
    the labels observed there. On others it uses the rule for new rows.

    Parameters
    ----------
    likelihoods : "auto", a likelihood, or a dict from column to likelihood, default "auto"
        For the features, by name or position. "auto", and columns that a dict leaves out, mean
        ``Gaussian()`` in a table of numbers. DataFrames with text, categories, booleans or dates
        are read as by ``mcframe.declare``.
    terms : "gaussian", list of regularizers and constraints, or None, default None
        "gaussian" treats the rows as draws from a Gaussian distribution, and predicts with their
        posterior; wide tables have factors (see ``mcframe.complete``). None means "gaussian" if
        ``likelihoods``, ``model`` and ``weight`` have their defaults, else a ``NuclearNorm``,
        whose optimum is certified.
    model : Model, optional
        For the features, instead of likelihoods and terms. The block "targets" is added to its
        own: one block for a table of numbers, else those of ``mcframe.declare(X, types)``.
    types : dict from column name to a kind, optional
        Overrides the detected types of the columns of a DataFrame, as in ``mcframe.declare``.
    unseen : "missing" or "error", default "missing"
        In ``predict``, a category that was not in the fit counts as missing, with one warning that
        names it, or raises a ``DataError``.
    weight : "cv", float or None, default "cv"
        The weight of the norm: the one with the least held-out loss of labels, a number, or that
        of ``terms`` or ``model``. With Gaussian rows: the number of rows of independent columns
        that the prior counts as.
    n_weights, cv : int, default 12 and 3
        The number of weights of a norm that are tried, and of folds.
    tol, max_iter : as in ``mcframe.fit``, for an optimum
    random_state, n_jobs : as in ``mcframe.fit``

    Attributes
    ----------
    classes_ : array
        The labels; with several outputs [0, 1].
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
    >>> from mcframe.estimators import MatrixCompletionClassifier
    >>> X = np.array([[-2.0], [-1.5], [-1.0], [1.0], [np.nan], [2.0]])
    >>> y = np.array(["low", "low", None, "high", "high", "high"], dtype=object)
    >>> model = MatrixCompletionClassifier(weight=0.1).fit(X, y)
    >>> model.predict([[-3.0], [3.0]]).tolist()
    ['low', 'high']
    """

    # Of mixtures means of indicators are nearer to the labels, but order them less well.
    components_tried = ()
    calibrates = True

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to features (n_samples x n_features) and labels, NaN or None where missing."""
        table = self.read(X, reset=True)
        labels = read_labels(y)
        self.classes_, self.several_ = labels.classes, labels.several
        if len(labels.classes) == 1:  # nothing to tell apart
            self.n_iter_ = 1
            return self
        self.codings_ = codings_of(labels)
        self.gaussian_ = self.takes_gaussian()
        if not self.gaussian_:
            self.fit_targets(table, block_of(labels), labels.codes)
            return self
        numbers = [
            coding.numbers(own) for coding, own in zip(self.codings_, labels.codes.T, strict=True)
        ]
        block = Block(TARGETS, Gaussian(), standardize=True)
        self.calibrate(labels.codes, self.fit_targets(table, block, np.hstack(numbers)))
        return self

    def calibrate(self, codes: Array, held_means: Any) -> None:
        """Probabilities of each output that fit the labels that were held out."""
        found, first = list[Means](), 0
        for coding, own in zip(self.codings_, codes.T, strict=True):
            means = held_means[:, first : first + coding.width]
            known = ~np.isnan(means).any(axis=1) & ~np.isnan(own)
            found.append(calibrated(coding, own[known], means[known]))
            first += coding.width
        self.codings_ = found

    def read_means(self, means: Array) -> Array:
        """P(1) of each output, or P of each class, from the means of indicators."""
        found, first = [], 0
        for coding in self.codings_:
            answer = coding.read(means[:, first : first + coding.width])
            found.append(answer[:, 1:] if coding.width == 1 else answer)
            first += coding.width
        return np.hstack(found)

    def probabilities(self, X: Any) -> Array:
        """P(1) of each output, or P of each class."""
        check_is_fitted(self, "classes_")
        if len(self.classes_) == 1:
            return np.ones((len(self.read(X, reset=False)), 1))
        means = self.means(X)
        return self.read_means(means) if self.gaussian_ else means

    def predict(self, X: Any) -> Any:
        """The most probable label of each sample, of each output."""
        found = self.probabilities(X)
        if self.several_:
            return (found > 0.5).astype(int)
        codes = found[:, 0] > 0.5 if len(self.classes_) == 2 else np.argmax(found, axis=1)
        return self.classes_[np.asarray(codes, dtype=int)]

    def predict_proba(self, X: Any) -> Array:
        """P of each class (n_samples x n_classes), or P(1) of each of several outputs."""
        found = self.probabilities(X)
        if self.several_ or len(self.classes_) != 2:
            return found
        return np.hstack([1.0 - found, found])

    def decision_function(self, X: Any) -> Array:
        """The logit of the second class, or of each output; logarithms of P of several classes."""
        found = np.clip(self.probabilities(X), NEAREST, 1.0)
        if not self.several_ and len(self.classes_) > 2:
            return np.asarray(np.log(found))
        levels = logit(np.clip(found, NEAREST, 1.0 - np.finfo(float).epsneg))
        return np.asarray(levels if self.several_ else levels[:, 0])

    def __sklearn_tags__(self) -> Any:
        """Several outputs are labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def codings_of(labels: Labels) -> list[Means]:
    """How the labels of each output are numbers: 1 of the second one, or one column a class."""
    if labels.several:
        return [Indicator((0, 1)) for _ in labels.codes.T]
    places = tuple(labels.classes.tolist())
    return [Indicator(places) if len(places) == 2 else Indicators(places)]


def block_of(labels: Labels) -> Block:
    """The block of the labels."""
    binary = labels.several or len(labels.classes) == 2
    likelihood = Bernoulli() if binary else Multinomial(len(labels.classes))
    return Block(TARGETS, likelihood, standardize=True, bias=True)

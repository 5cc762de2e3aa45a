"""The classifier and the regressor: features and targets in one table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.special import logit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import _safe_indexing, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import exact, is_missing, reads_as_number
from mcframe.estimators.base import HeldOutPredictions, TableEstimator
from mcframe.estimators.feature_blocks import FrameColumns
from mcframe.likelihoods import Bernoulli, Gaussian, Multinomial
from mcframe.model import Block
from mcframe.tables.coded_rows import conditioned
from mcframe.tables.coding import PROBABILITY_LIMITS, Choice
from mcframe.tables.indicator_codings import Indicator, Indicators
from mcframe.tables.raw_predictions import RawPredictions

# The name of the block of targets.
TARGETS_BLOCK = "targets"


class Prediction(TableEstimator):
    """An estimator whose targets are further columns of the table, missing in new rows.

    Rows of the fit are predicted by the fit, which uses all observed targets, their own included.
    Other rows are predicted by the rule for new rows. If several rows of the fit have the same
    features, such a row is treated as new.
    """

    target_name = "y"

    def fit_targets(
        self, table: Any, block: Block, targets: Array
    ) -> tuple[HeldOutPredictions, HeldOutPredictions] | None:
        """Fit features and targets (n_samples x columns of the block) together.

        Returned are, of Gaussian rows, the predictions of what was held out, for rows of the fit
        and for new rows. Targets are the last columns there.
        """
        check_lengths(table, targets)
        if np.isnan(targets).all():
            raise DataError("y holds nothing but missing values; at least one target is needed")
        empty = np.flatnonzero(np.isnan(targets).all(axis=0))
        if empty.size:
            raise DataError(
                f"column {empty[0]} of y holds nothing but missing values, from which nothing can"
                " be learnt; drop it"
            )
        if TARGETS_BLOCK in [block.name for block in self.columns_.blocks]:
            raise ModelError(
                f"model has a block {TARGETS_BLOCK!r}, the name of the block of y, which is put"
                " beside those of the model; call it otherwise"
            )
        if isinstance(self.columns_, FrameColumns):
            self.columns_.warn_of_columns_set_aside("columns that are set aside are not used")
            self.columns_.warn_of_limits()
        features = self.columns_.data(table)
        self.n_targets_ = targets.shape[1]
        blocks, data = [*self.columns_.blocks, block], {**features, TARGETS_BLOCK: targets}
        predictions = self.fit_blocks(blocks, data, TARGETS_BLOCK)
        if not self.gaussian_:
            self.new_rows_ = self.completion_
        keys = row_keys(features, len(targets))
        counts = Counter(keys)
        unique = np.array([counts[key] == 1 for key in keys])
        if self.new_rows_ is not self.completion_:  # which then serves rows without targets, too
            unique &= ~np.isnan(targets).all(axis=1)
        self.known_ = {keys[k]: int(k) for k in np.flatnonzero(unique)}
        return predictions

    def raw_predictions(
        self, X: Any, with_variances: bool = False
    ) -> list[tuple[int, Mask, RawPredictions]]:
        """Raw predictions of the targets (samples x columns), each with the mask of its samples.

        Those of samples of the fit come with 0, those of new ones with 1.
        """
        check_is_fitted(self, "completion_")
        table = self.read(X, reset=False)
        features = self.columns_.data(table)
        places = np.asarray([self.known_.get(key, -1) for key in row_keys(features, len(table))])
        new, asked = places < 0, list[tuple[int, Mask, Any, IntArray]]()
        if not new.all():
            asked.append((0, ~new, self.completion_, places[~new]))
        if new.any():
            data = {name: values[new] for name, values in features.items()}
            rows = np.arange(np.count_nonzero(new))
            data[TARGETS_BLOCK] = np.full((rows.size, self.n_targets_), np.nan)
            asked.append((1, new, conditioned(self.new_rows_, data), rows))
        predictions = []
        for is_new, samples, fit, rows in asked:
            columns = np.tile(np.arange(self.n_targets_), rows.size)
            cells = np.repeat(rows, self.n_targets_), columns
            raw = RawPredictions.of(fit, TARGETS_BLOCK, *cells, with_variances)
            predictions.append(
                (is_new, samples, raw.of_rows(slice(None), rows.size, self.n_targets_))
            )
        return predictions

    def __sklearn_tags__(self) -> Any:
        """NaN are allowed among the features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


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
    missing_values : a value, a list of values, or a dict from column to such, default NaN
        Values of X that stand for missing entries, as ``missing`` in ``mcframe.declare``; columns
        of an array by position. None, NaN, pandas.NA and masked entries are always missing.
    unseen : "missing" or "error", default "missing"
        In ``predict``, a category that was not in the fit counts as missing, with one warning that
        names it, or raises a ``DataError``.
    weight : "cv", float or None, default "cv"
        The weight of the norm: the one with the least held-out loss of labels, a number, or that
        of ``terms`` or ``model``. With Gaussian rows: the number of rows of independent columns
        that the prior counts as. Where most samples have some of several labels and miss others,
        "cv" chooses a variance of the noise of the features, too: the larger it is, the less they
        count beside the observed labels.
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
    new_rows_ : Posterior or Fit
        What predicts new rows: ``completion_``, or a posterior of their own where the noise of
        the features was chosen for rows with some targets.
    model_ : Model
    declared_ : Declared
        The types of the columns, for a DataFrame that is not a table of numbers.
    cross_validation_ : CrossValidation
        The choice of the weight of a norm.
    prior_rows_, prior_search_ : float and RowsChoice
        For Gaussian rows: the size of the prior, and its choice, with ``feature_noise``.
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
        codes, self.classes_, self.several_ = read_labels(y)
        check_lengths(table, codes)
        n_classes = len(self.classes_)
        if n_classes == 1:  # nothing to tell apart
            self.n_iter_ = 1
            return self
        self.columns_ = self.read_columns(table)
        places = tuple(self.classes_.tolist())
        # The way to probabilities, column by column: of rows of the fit, and of new ones.
        self.codings_: list[list[Any]] = [[], []]
        if not self.gaussian_:
            likelihood = Bernoulli() if n_classes == 2 else Multinomial(n_classes)
            block = Block(TARGETS_BLOCK, likelihood, standardize=True, bias=True)
            self.fit_targets(table, block, codes)
            self.codings_ = [[Choice(places) for _ in codes.T]] * 2
            return self
        # 1 of the second label of each output, or one column for each of several classes.
        kind = Indicator if n_classes == 2 else Indicators
        codings = [kind(places) for _ in codes.T]
        numbers = [
            coding.numbers(output_codes)
            for coding, output_codes in zip(codings, codes.T, strict=True)
        ]
        block = Block(TARGETS_BLOCK, Gaussian(), standardize=True)
        held_out = self.fit_targets(table, block, np.hstack(numbers))
        assert held_out is not None
        ends = np.cumsum([coding.width for coding in codings])
        for calibrated, predictions in zip(self.codings_, held_out, strict=True):
            for coding, labels, end in zip(codings, codes.T, ends, strict=True):
                columns = slice(end - coding.width, end)
                calibrated.append(predictions.calibrated(coding, labels, columns))
        return self

    def probabilities(self, X: Any) -> Array:
        """P(1) of each output, or P of each class."""
        check_is_fitted(self, "classes_")
        if len(self.classes_) == 1:
            return np.ones((len(self.read(X, reset=False)), 1))
        by_samples = []
        for is_new, samples, raw in self.raw_predictions(X, with_variances=self.gaussian_):
            codings = self.codings_[is_new]
            parts = zip(codings, raw.split(len(codings)), strict=True)
            answers = [coding.decode(output.means, output.variances) for coding, output in parts]
            by_samples.append(
                (samples, np.hstack([self.of_classes(answer) for answer in answers]))
            )
        return in_samples(by_samples)

    def of_classes(self, answer: Array) -> Array:
        """P(1) of two classes, P of each of several."""
        return answer[:, 1:] if len(self.classes_) == 2 else answer

    def predict(self, X: Any) -> Any:
        """The most probable label of each sample, of each output."""
        probabilities = self.probabilities(X)
        if self.several_:
            return (probabilities > 0.5).astype(int)
        codes = (
            probabilities[:, 0] > 0.5
            if len(self.classes_) == 2
            else np.argmax(probabilities, axis=1)
        )
        return self.classes_[np.asarray(codes, dtype=int)]

    def predict_proba(self, X: Any) -> Array:
        """P of each class (n_samples x n_classes), or P(1) of each of several outputs."""
        probabilities = self.probabilities(X)
        if self.several_ or len(self.classes_) != 2:
            return probabilities
        return np.hstack([1.0 - probabilities, probabilities])

    def decision_function(self, X: Any) -> Array:
        """The logit of the second class, or of each output; logarithms of P of several classes."""
        probabilities = np.clip(self.probabilities(X), *PROBABILITY_LIMITS)
        if not self.several_ and len(self.classes_) > 2:
            return np.asarray(np.log(probabilities))
        levels = logit(probabilities)
        return np.asarray(levels if self.several_ else levels[:, 0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of the samples whose labels are all known."""
        return float(super().score(*with_known_targets(X, y, sample_weight)))

    def __sklearn_tags__(self) -> Any:
        """Several outputs are labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


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
    missing_values : a value, a list of values, or a dict from column to such, default NaN
        Values of X that stand for missing entries, as ``missing`` in ``mcframe.declare``; columns
        of an array by position. None, NaN, pandas.NA and masked entries are always missing.
    unseen : "missing" or "error", default "missing"
        In ``predict``, a category that was not in the fit counts as missing, with one warning that
        names it, or raises a ``DataError``.
    weight : "cv", float or None, default "cv"
        The weight of the norm: the one with the least held-out loss of targets, a number, or that
        of ``terms`` or ``model``. With Gaussian rows: the number of rows of independent columns
        that the prior counts as. Where most samples have some of several targets and miss others,
        "cv" chooses a variance of the noise of the features, too: the larger it is, the less they
        count beside the observed targets.
    n_weights, cv : int, default 12 and 3
        The number of weights of a norm that are tried, and of folds.
    tol, max_iter : as in ``mcframe.fit``, for an optimum
    random_state, n_jobs : as in ``mcframe.fit``

    Attributes
    ----------
    completion_ : Posterior or Fit
        The posterior of Gaussian rows, or the fit with its certificate: ``.gap``, ``.bound``.
    new_rows_ : Posterior or Fit
        What predicts new rows: ``completion_``, or a posterior of their own where the noise of
        the features was chosen for rows with some targets.
    model_ : Model
    declared_ : Declared
        The types of the columns, for a DataFrame that is not a table of numbers.
    cross_validation_ : CrossValidation
        The choice of the weight of a norm.
    prior_rows_, prior_search_ : float and RowsChoice
        For Gaussian rows: the size of the prior, and its choice, with ``feature_noise``.
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
        table, targets = self.read(X, reset=True), read_targets(y)
        self.columns_ = self.read_columns(table)
        self.flat_ = targets.ndim == 1
        block = Block(TARGETS_BLOCK, Gaussian(), standardize=True, bias=True)
        self.fit_targets(table, block, targets.reshape(len(targets), -1))
        return self

    def predict(self, X: Any) -> Array:
        """The mean of each target (n_samples,) or (n_samples x n_targets), as y was given."""
        raw = self.raw_predictions(X)
        means = in_samples([(samples, predictions.means) for _, samples, predictions in raw])
        return means[:, 0] if self.flat_ else means

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the samples whose targets are all known."""
        return float(super().score(*with_known_targets(X, y, sample_weight)))

    def __sklearn_tags__(self) -> Any:
        """There may be several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


def check_lengths(table: Any, targets: Array) -> None:
    """A ``DataError`` where features and targets have different numbers of rows."""
    if len(targets) != len(table):
        raise DataError(
            f"X has {len(table)} rows and y {len(targets)}; one row of both for each sample is"
            " needed"
        )


def in_samples(parts: Sequence[tuple[Mask, Array]]) -> Array:
    """Rows of numbers, each part at its samples (n_samples x k)."""
    rows = np.empty((parts[0][0].size, parts[0][1].shape[1]))
    for samples, numbers in parts:
        rows[samples] = numbers
    return rows


def row_keys(features: Mapping[str, Array], n_rows: int) -> list[bytes]:
    """The bits of each row of all blocks, the same ones for every NaN and for both zeros."""
    rows = np.hstack([np.empty((n_rows, 0)), *features.values()])
    return [np.where(np.isnan(row), np.nan, row + 0.0).tobytes() for row in rows]


def missing_in(targets: Array) -> Mask:
    """Which targets, of any kind, are NaN, None, or pandas' NA or NaT (as many, flat)."""
    return np.array([is_missing(v) or v != v for v in targets.ravel()], dtype=bool)


def with_known_targets(X: Any, y: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Features, targets and weights of the samples whose targets are all known."""
    targets = np.asarray(y)
    missing = missing_in(targets)
    if not missing.any():
        return X, y, weights
    complete = np.flatnonzero(~missing.reshape(len(targets), -1).any(axis=1))
    if not complete.size:
        raise DataError("y has no sample whose targets are all known; there is nothing to score")
    weights = None if weights is None else np.asarray(weights)[complete]
    plain = np.asarray(targets[complete].tolist())  # no objects, where numbers were among None
    return _safe_indexing(X, complete), plain, weights


def read_targets(y: Any) -> Array:
    """Numbers of one output (n_samples,) or several (n_samples x n_outputs), NaN where missing."""
    if y is None:
        raise DataError(
            "requires y to be passed, but the target y is None; give a label for each row"
        )
    targets = np.asarray(y)
    if targets.dtype.kind in "mM":
        raise DataError(f"y holds {targets.dtype.name}; give numbers, such as days since a date")
    options: dict[str, Any] = {"ensure_all_finite": "allow-nan", "input_name": "y", "copy": True}
    try:
        return check_array(y, dtype=np.float64, ensure_2d=False, **options)
    except ValueError as error:
        texts = [
            v for v in targets.ravel().tolist() if isinstance(v, str) and not reads_as_number(v)
        ]
        if not texts:
            raise
        raise DataError(
            f"y holds {texts[0]!r} where numbers are needed; recode each as a number, labels of"
            " several columns as 0 or 1, with NaN where one is missing"
        ) from error


def read_labels(y: Any) -> tuple[Array, Any, bool]:
    """Codes of labels, the classes that they stand for, and whether there are several outputs.

    Labels are one of any kind for each sample, or 0/1 for each of several outputs, with the
    classes [0, 1]. NaN and None are missing: codes (n_samples x n_outputs) are NaN there.
    """
    labels = np.asarray(y)
    if y is None or (labels.ndim == 2 and labels.shape[1] > 1):
        numbers = read_targets(y)
        wrong = ~(np.isnan(numbers) | (numbers == 0.0) | (numbers == 1.0))
        if wrong.any():
            raise DataError(
                f"Unknown label type: y of several columns holds {exact(numbers[wrong][0])};"
                " recode each as 0 or 1, with NaN where it is missing"
            )
        return numbers, np.array([0, 1]), True
    single = column_or_1d(y, warn=True, dtype=labels.dtype)
    missing = missing_in(single)
    observed = single[~missing]
    if single.dtype.kind == "f" and np.isinf(observed).any():
        raise DataError(
            "Input y contains infinity or a value too large for dtype('float64'); leave such rows"
            " out"
        )
    if not observed.size:
        raise DataError("y holds nothing but missing values; at least one label is needed")
    if observed.dtype.kind == "O":
        observed = np.asarray(observed.tolist())
    check_classification_targets(observed)
    classes, places = np.unique(observed, return_inverse=True)
    if classes.dtype.kind == "f" and "int" in str(getattr(y, "dtype", "")).lower():
        classes = classes.astype(np.int64)  # beside nulls, whole numbers were read as floats
    codes = np.full((single.size, 1), np.nan)
    codes[~missing, 0] = places
    return codes, classes, False

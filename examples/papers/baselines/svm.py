"""One linear support vector machine a label, its strength chosen by cross-validation."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from papers.baselines.checks import checked_features, checked_labels

__all__ = ["STRENGTHS", "svm_labels"]

# scikit-learn's C: the range of Goldberg et al. for the regularization parameter, 1e-8 to 1e8,
# is the same from either end.
STRENGTHS = tuple(10.0**k for k in range(-8, 9))


def svm_labels(
    features: Array,
    labels: Array,
    rng: np.random.Generator,
    *,
    strengths: Sequence[float] = STRENGTHS,
    folds: int = 5,
    largest: bool = False,
) -> Array:
    """Predict every label by an SVM trained on the observed ones of its column.

    As Goldberg et al. (2010), section 4: for each label on its own, a linear SVM on complete
    features, its regularization parameter chosen by label error in a cross-validation. Theirs
    is SVMlin, which minimises squared hinge losses in the primal; so does scikit-learn's
    ``LinearSVC(loss="squared_hinge", dual=False)``, in both with the intercept penalised.

    Parameters
    ----------
    features : array (n_items, n_features)
        Complete; see ``mean_imputed`` and the others.
    labels : array (n_items, n_labels)
        0 or 1, NaN where one is missing.
    rng : numpy Generator
        Draws the folds.
    strengths : list of float, default 1e-8, 1e-7, ..., 1e8
        Values of C.
    folds : int, default 5
        A label with fewer observations is cut into as many parts as it has.
    largest : bool, default False
        Of equally good C take the largest, not the smallest, which has the strongest penalty.

    Returns
    -------
    array (n_items, n_labels)
        0 or 1, for observed labels the predictions too. Where all observed labels of a column
        are alike they are predicted for every item; where none is observed, 0. A part in whose
        rest only one class is left predicts that class.
    """
    table = checked_features(features)
    if np.isnan(table).any():
        raise DataError(
            f"{int(np.isnan(table).sum())} features are missing; fill them first, for example by"
            " mean_imputed(features)"
        )
    known = checked_labels(labels, len(table))
    # Of equal scores the first is taken.
    grid = np.sort(np.asarray(strengths, dtype=np.float64))[:: -1 if largest else 1]
    predicted = np.zeros(known.shape)
    for column in range(known.shape[1]):
        seen = ~np.isnan(known[:, column])
        if seen.any():
            predicted[:, column] = of_one_label(
                table, known[:, column] == 1.0, seen, grid, folds, rng
            )
    return predicted


def of_one_label(
    features: Array, positive: Mask, seen: Mask, grid: Array, folds: int, rng: np.random.Generator
) -> Mask:
    """The predictions for one label."""
    x, y = features[seen], positive[seen]
    part = rng.permutation(len(y)) % folds
    wrong = np.zeros(grid.size)
    if y.any() and not y.all() and grid.size > 1 and len(y) > 1:
        for k in range(min(folds, len(y))):
            out = part == k
            for place, strength in enumerate(grid):
                wrong[place] += np.sum(train_svm(x[~out], y[~out], strength)(x[out]) != y[out])
    predicted: Mask = train_svm(x, y, float(grid[np.argmin(wrong)]))(features)
    return predicted


def train_svm(x: Array, y: Mask, strength: float) -> Any:
    """A function from features to predictions."""
    if y.all() or not y.any():
        return lambda features: np.full(len(features), bool(y.all()))
    from sklearn import config_context  # only here: importing it is slow
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    # A machine on the way to one that separates everything predicts about what that one does.
    with (
        warnings.catch_warnings(),
        config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = LinearSVC(C=strength, loss="squared_hinge", dual=False).fit(x, y)
    return lambda features: features @ machine.coef_[0] + machine.intercept_[0] > 0.0

"""What one would do without matrix completion: column means, and one regression a label."""

import warnings

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.demo.experiment import Experiment

__all__ = ["Baseline", "best_baseline", "fit_baseline"]

# scikit-learn's C, the inverse of the ridge weight.
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
MAX_ITER = 5000


@attrs.frozen(eq=False)
class Baseline:
    """What the baseline predicts: features (hidden ones by means) and label probabilities.

    ``unconverged`` counts labels whose regression stopped at its iteration limit.
    """

    features: Array
    probabilities: Array
    strength: float
    unconverged: int


def fit_baseline(experiment: Experiment, strength: float) -> Baseline:
    """Impute means, then fit a logistic regression for each label on its observed entries.

    A label with one class observed is predicted to be that class always, one without any
    observation to be 0.
    """
    seen = experiment.observed
    known = ~np.isnan(seen["features"])
    features = np.where(known, seen["features"], experiment.constant("features"))
    probabilities = experiment.constant("labels").copy()
    unconverged = 0
    for column, labels in enumerate(seen["labels"].T):
        if np.unique(labels[~np.isnan(labels)]).size == 2:
            probabilities[:, column], done = regression(features, labels, strength)
            unconverged += not done
    return Baseline(features, probabilities, strength, unconverged)


def regression(features: Array, labels: Array, strength: float) -> tuple[Array, bool]:
    """Predict the probability of one label for every item; say whether the solver converged."""
    from sklearn.linear_model import LogisticRegression  # only here: importing it is slow

    known = ~np.isnan(labels)
    model = LogisticRegression(C=strength, max_iter=MAX_ITER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of, no convergence, is reported instead
        model.fit(features[known], labels[known])
    probability: Array = model.predict_proba(features)[:, 1]
    return probability, bool(np.max(model.n_iter_) < MAX_ITER)


def best_baseline(validation: Experiment) -> float:
    """Choose the strength with the lowest log loss on the labels hidden in ``validation``."""
    return min(
        STRENGTHS,
        key=lambda strength: validation.log_loss(fit_baseline(validation, strength).probabilities),
    )

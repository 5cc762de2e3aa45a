"""A table with hidden entries, and what competes for them: a declared model, and a baseline."""

import warnings

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError, NotCertifiedWarning, UnobservedWarning
from mcframe.datasets import MultiLabel, hide
from mcframe.fitting import fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model
from mcframe.regularizers import NuclearNorm

# The farthest from certainty that a log loss is charged for.
CAUTION = 1e-6
BLOCKS = ("features", "labels")
# Hidden, and seen, of each block: enough that a tenth can be set aside for validation.
FEWEST = 20


@attrs.frozen
class Errors:
    """Errors of a method on hidden entries, as Goldberg et al. (2010) define them.

    ``labels`` is the share of wrong labels; ``features`` the sum of squared errors over the
    sum of squares of the truth.
    """

    labels: float
    features: float


@attrs.frozen(eq=False)
class Experiment:
    """The truth, NaN where nobody knows it, and which of its entries are hidden."""

    features: Array
    labels: Array
    hidden_features: Mask
    hidden_labels: Mask

    @property
    def observed(self) -> dict[str, Array]:
        """The entries that a method is given: NaN where hidden, the blocks by name."""
        return {
            "features": np.where(self.hidden_features, np.nan, self.features),
            "labels": np.where(self.hidden_labels, np.nan, self.labels),
        }

    def means(self, block: str) -> Array:
        """Average what is observed of each column; 0 for a column with nothing observed."""
        entries = self.observed[block]
        known = ~np.isnan(entries)
        total: Array = np.where(known, entries, 0.0).sum(axis=0)
        means: Array = total / np.maximum(known.sum(axis=0), 1)
        return means

    def constant(self, block: str) -> Array:
        """Predict every entry of a block by the mean of its column."""
        constant: Array = np.tile(self.means(block), (len(self.features), 1))
        return constant

    def errors(self, features: Array, probabilities: Array) -> Errors:
        """Judge hidden entries; a label is 1 where its probability is above 0.5."""
        hidden = self.hidden_labels
        wrong = (probabilities[hidden] > 0.5) != (self.labels[hidden] == 1.0)
        truth = self.features[self.hidden_features]
        missed = features[self.hidden_features] - truth
        return Errors(float(np.mean(wrong)), ratio(float(missed @ missed), float(truth @ truth)))

    def score(self, features: Array, probabilities: Array) -> float:
        """Average the log loss of hidden labels and the squared error of hidden features.

        Each relative to that of column means: 1 is no better than means, 0 is perfect.
        """
        truth = self.features[self.hidden_features]
        missed = features[self.hidden_features] - truth
        usual = self.constant("features")[self.hidden_features] - truth
        squares = ratio(float(missed @ missed), float(usual @ usual))
        logs = ratio(self.log_loss(probabilities), self.log_loss(self.constant("labels")))
        return 0.5 * squares + 0.5 * logs

    def log_loss(self, probabilities: Array) -> float:
        """Average -log P(the true label) over hidden labels."""
        hidden = self.hidden_labels
        right = np.where(self.labels == 1.0, probabilities, 1.0 - probabilities)[hidden]
        return float(-np.mean(np.log(np.maximum(right, CAUTION))))

    def hide_more(self, share: float, rng: np.random.Generator) -> "Experiment":
        """Set observed entries aside: an experiment that never sees what is hidden here."""
        seen = self.observed
        return Experiment(
            seen["features"],
            seen["labels"],
            hide(seen["features"], share, rng),
            hide(seen["labels"], share, rng),
        )


def ratio(error: float, reference: float) -> float:
    """Divide an error by a reference, with 0 / 0 = 0 where all entries are alike."""
    if reference == 0.0:
        return 0.0 if error == 0.0 else np.inf
    return error / reference


def prepare(
    data: MultiLabel,
    *,
    hidden_features: float,
    hidden_labels: float,
    standardise: bool,
    rng: np.random.Generator,
) -> Experiment:
    """Hide shares of both blocks at random; standardise features by what is left observed.

    A column is shifted by the mean and divided by the standard deviation of its observed
    entries; one that is constant there is only shifted.

    Raises
    ------
    DataError
        Where the table is too small for entries to be hidden and seen in both blocks.
    """
    masks = hide(data.features, hidden_features, rng), hide(data.labels, hidden_labels, rng)
    for entries, mask, word in zip((data.features, data.labels), masks, BLOCKS, strict=True):
        known = int((~np.isnan(entries)).sum())
        if known - int(mask.sum()) < FEWEST or int(mask.sum()) < FEWEST:
            raise DataError(
                f"{data.name}: its {known} known {word} are too few to hide"
                f" {mask.sum() / max(known, 1):.0%} of them; take more items"
            )
    if not standardise:
        return Experiment(data.features, data.labels, *masks)
    plain = Experiment(data.features, data.labels, *masks)
    centred = data.features - plain.means("features")
    spread = np.sqrt(Experiment(centred**2, data.labels, *masks).means("features"))
    scaled = centred / np.where(spread > 0, spread, 1.0)
    return Experiment(scaled, data.labels, *masks)


SCALES = (0.3, 0.1, 0.03, 0.01)
# Nuclear weights, as fractions of the smallest one at which Z = 0.
FRACTIONS = tuple(2.0**-k for k in range(2, 9))
# A ranking needs no more digits than this gap gives, nor more iterations.
ROUGH, PATIENCE = 3e-3, 400


def declare(scale: float, weight: float) -> Model:
    """Declare MC-b of Goldberg et al. (2010), with a bias for both blocks.

    The labels' scale says how large a z makes a label certain, in the units of the features:
    the nuclear norm charges both blocks alike. Their weight is the scale as well, so that the
    largest gradient of a label's loss is 1 / N_labels at every scale.
    """
    return Model(
        blocks=[
            Block("features", Gaussian(), reduce="mean", bias=True),
            Block("labels", Bernoulli(scale=scale), weight=scale, reduce="mean", bias=True),
        ],
        terms=[NuclearNorm(weight)],
    )


def largest_weight(experiment: Experiment) -> float:
    """Compute the smallest nuclear weight at which Z = 0 is optimal: ||gradient at 0||_2.

    At Z = 0 the best biases predict column means, so that an observed entry contributes
    (mean - y) / N of its block, at every scale of the labels.
    """
    gradients = []
    for block, entries in experiment.observed.items():
        known = ~np.isnan(entries)
        gradients.append(np.where(known, experiment.means(block) - entries, 0.0) / known.sum())
    return float(np.linalg.norm(np.hstack(gradients), ord=2))


@attrs.frozen
class GridScores:
    """Every score that was computed, by (scale, weight); the lowest is the choice.

    ``interrupted`` says that Ctrl-C ended the search early.
    """

    scores: dict[tuple[float, float], float]
    interrupted: bool = False

    @property
    def best(self) -> tuple[float, float]:
        """The scale and the weight with the lowest score."""
        return min(self.scores, key=lambda pair: self.scores[pair])


def search(validation: Experiment, weights: tuple[float, ...] | None = None) -> GridScores:
    """Score a grid of label scales and nuclear weights on the entries hidden in ``validation``.

    At each scale the weights go down, each fit from the one before, until the score rises.
    """
    if weights is None:
        largest = largest_weight(validation)
        weights = tuple(float(f"{fraction * largest:.2g}") for fraction in FRACTIONS)
    scores: dict[tuple[float, float], float] = {}
    for scale in SCALES:
        start, lowest = None, np.inf
        for weight in weights:
            start = quick_fit(declare(scale, weight), validation, start)
            score = validation.score(start.predict("features"), start.predict("labels"))
            scores[scale, weight] = score
            if start.status == "interrupted":
                return GridScores(scores, interrupted=True)
            if score > lowest:
                break
            lowest = score
    return GridScores(scores)


def quick_fit(model: Model, experiment: Experiment, start: Fit | None) -> Fit:
    """Fit well enough for a ranking: that it is not certified is no cause for a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        warnings.simplefilter("ignore", UnobservedWarning)
        return fit(model, experiment.observed, tol=ROUGH, max_iter=PATIENCE, start=start)


# scikit-learn's C, the inverse of the ridge weight.
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
MAX_ITER = 5000


@attrs.frozen(eq=False)
class Baseline:
    """Predictions of the baseline: features (hidden ones by means) and label probabilities.

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

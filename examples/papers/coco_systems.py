"""The systems that Xu et al. (2018) compare: as published, and solved."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.datasets import MultiLabel, hide
from mcframe.fitting.fit import fit
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.operators import LowRank
from mcframe.papers import coco_subgradient, concatenated
from mcframe.regularizers import NuclearNorm
from mcframe.selection import Grid, path
from papers.baselines import limo_by_cross_validation, maxide
from papers.data import cocompletion
from papers.data.cocompletion import CoCompletion

__all__ = [
    "Recovered",
    "Sizes",
    "by_coco",
    "by_maxide",
    "by_mc",
    "errors",
    "errors_of_classifiers",
    "maxide_solved",
    "mc_solved",
    "of_latent",
    "sizes_from",
]

# A tenth of the observed entries is held out to choose a weight among so many, from the one at
# which Z = 0 down to this share of it.
HELD_OUT, WEIGHTS, LOWEST = 0.1, 8, 1e-3


@attrs.frozen
class Sizes:
    """A synthetic setting: n, d, l, r, and the percentage of observed entries."""

    n_items: int
    n_features: int
    n_labels: int
    rank: int
    percent: int

    def __str__(self) -> str:
        return (
            f"n={self.n_items} d={self.n_features} l={self.n_labels} r={self.rank}"
            f" {self.percent} %"
        )

    def draw(self, rng: np.random.Generator) -> CoCompletion:
        """A table of these sizes."""
        shape = (self.n_items, self.n_features, self.n_labels, self.rank)
        return cocompletion(*shape, observed=self.percent / 100.0, random_state=rng)


def sizes_from(sizes: Sequence[Sizes], setting: str) -> Sizes:
    """Return the sizes that a setting is called by."""
    return next(each for each in sizes if str(each) == setting)


def errors(features: Array, labels: Array | Mask, truth: CoCompletion) -> tuple[float, float]:
    """||X_hat - X||_F / ||X||_F, and the Hamming loss, over all entries."""
    residual = np.linalg.norm(features - truth.features)
    x_error = float(residual / np.linalg.norm(truth.features))
    return x_error, float(np.mean(labels != truth.labels))


def of_latent(latent: LowRank, truth: CoCompletion) -> tuple[float, float]:
    """The errors of a latent matrix: labels are 1 where sigma(z) > 1/2."""
    n_features = truth.features.shape[1]
    dense = latent.dense()
    return errors(dense[:, :n_features], dense[:, n_features:] > 0.0, truth)


@attrs.frozen(eq=False)
class Recovered:
    """What a system makes of a table: complete features, and labels of 0 and 1."""

    features: Array
    labels: Array


def by_coco(
    data: Mapping[str, Array], lambda_2: float, iterations: int, least_step: float = 40.0
) -> Recovered:
    """Algorithm 1 as published."""
    answer = coco_subgradient(data, lambda_2=lambda_2, max_iter=iterations, least_step=least_step)
    n_features = data["features"].shape[1]
    dense = answer.latent.dense()
    return Recovered(dense[:, :n_features], (dense[:, n_features:] > 0.0).astype(np.float64))


def by_maxide(data: Mapping[str, Array]) -> Recovered:
    """Features completed on their own, then labels with these as side information.

    With what the published figures show to have been used, see the notes of ``CocoTable1``.
    """
    features = maxide(data["features"]).predict()
    labels = maxide(data["labels"], features, orthonormal=False).predict()
    return Recovered(features, (labels > 0.5).astype(np.float64))


def by_mc(data: Mapping[str, Array]) -> Recovered:
    """Plain completion of features and labels side by side, labels as 0 and 1."""
    n_features = data["features"].shape[1]
    both = maxide(np.hstack([data["features"], data["labels"]])).predict()
    labels = (both[:, n_features:] > 0.5).astype(np.float64)
    return Recovered(both[:, :n_features], labels)


def without(entries: Array, hidden: Mask) -> Array:
    """The entries but the hidden ones."""
    return np.where(hidden, np.nan, entries)


def best_weight(
    model: Model, data: Mapping[str, Array], tol: float, rng: np.random.Generator
) -> float:
    """The weight of a model's nuclear norm with the least squared error on held-out entries."""
    hidden = {
        name: hide(entries, HELD_OUT, keep=(0, 0), random_state=rng).cells
        for name, entries in data.items()
    }
    shown = {name: without(entries, hidden[name]) for name, entries in data.items()}
    tried = path(model, shown, weights=Grid(count=WEIGHTS, ratio=LOWEST), tol=tol)
    losses = [
        sum(
            float(np.sum((each.predict(name) - entries)[hidden[name]] ** 2))
            for name, entries in data.items()
        )
        for each in tried
    ]
    return float(tried.weights[int(np.argmin(losses))])


def mc_solved(data: Mapping[str, Array], tol: float, rng: np.random.Generator) -> Recovered:
    """Mc at its optimum."""
    weight = best_weight(concatenated(), data, tol, rng)
    answer = fit(concatenated(weight), data, tol=tol)
    labels = (answer.predict("labels") > 0.5).astype(np.float64)
    return Recovered(answer.predict("features"), labels)


def maxide_solved(data: Mapping[str, Array], tol: float, rng: np.random.Generator) -> Recovered:
    """Maxide at its optima: of the features, then of the labels."""
    alone = Model([Block("features", Gaussian())], [NuclearNorm(1.0)])
    known = {"features": data["features"]}
    weight = best_weight(alone, known, tol, rng)
    answer = fit(attrs.evolve(alone, terms=[NuclearNorm(weight)]), known, tol=tol)
    features = answer.predict("features")
    hidden = hide(data["labels"], HELD_OUT, keep=(0, 0), random_state=rng).cells
    shown = without(data["labels"], hidden)
    side = answer.latent.left
    # At this weight Z = 0.
    largest = float(np.linalg.norm(np.linalg.qr(side)[0].T @ np.nan_to_num(shown), 2))
    weights, wrong, start = np.geomspace(0.5 * largest, LOWEST * largest, WEIGHTS), [], None
    limits: dict[str, Any] = {"change": 0.0, "tol": tol, "max_iter": 5000}
    for each in weights:
        start = maxide(shown, side, weight=each, start=start, **limits)
        wrong.append(np.mean((start.predict() > 0.5)[hidden] != data["labels"][hidden]))
    chosen = float(weights[int(np.argmin(wrong))])
    labels = maxide(data["labels"], side, weight=chosen, **limits).predict()
    return Recovered(features, (labels > 0.5).astype(np.float64))


def errors_of_classifiers(
    answer: Recovered, test: MultiLabel, hidden_units: int, seed: int
) -> tuple[float, float, float]:
    """Hamming losses on clean items of three classifiers that were trained on recovered ones.

    LIMO, ridge regression of each label, and a network with one hidden layer.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(answer.features)
    train, clean = scaler.transform(answer.features), scaler.transform(test.features)
    marks = answer.labels.astype(int)
    margins = limo_by_cross_validation(train, marks, seed)
    ridge = RidgeClassifierCV(alphas=np.logspace(-1, 5, 13)).fit(train, marks)
    with warnings.catch_warnings():
        # The network is trained for its default number of epochs, as far as that leads.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPClassifier((hidden_units,), random_state=seed).fit(train, marks)
    limo_error, ridge_error, network_error = (
        float(np.mean(classifier.predict(clean) != test.labels))
        for classifier in (margins, ridge, network)
    )
    return limo_error, ridge_error, network_error

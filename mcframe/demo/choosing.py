"""The declaration: two numbers of the model, chosen on observed entries set aside."""

import warnings

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.errors import NotCertifiedWarning, UnobservedWarning
from mcframe.demo.experiment import Experiment
from mcframe.fitting import fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model
from mcframe.regularizers import NuclearNorm

__all__ = ["Choice", "declare", "largest_weight", "search"]

SCALES = (0.3, 0.1, 0.03, 0.01)
# Nuclear weights, as fractions of the smallest one at which Z = 0.
FRACTIONS = tuple(2.0**-k for k in range(2, 9))
# A ranking needs no more digits than this gap gives, nor more iterations.
ROUGH, PATIENCE = 3e-3, 400


def declare(scale: float, weight: float) -> Model:
    """Declare MC-b of Goldberg et al. (2010), with a bias for both blocks.

    The labels' scale says how large a z makes a label certain, in the units of the features:
    the nuclear norm charges both blocks alike. Their weight is the scale as well, so that the
    steepest gradient of a label's loss is 1 / N_labels at every scale.
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
class Choice:
    """Every score that was computed, by (scale, weight); the lowest is the choice.

    ``interrupted`` says that Ctrl-C ended the search early.
    """

    scores: dict[tuple[float, float], float]
    interrupted: bool = False

    @property
    def best(self) -> tuple[float, float]:
        """The scale and the weight with the lowest score."""
        return min(self.scores, key=lambda pair: self.scores[pair])


def search(validation: Experiment, weights: tuple[float, ...] | None = None) -> Choice:
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
            start = nonsmooth_fit(declare(scale, weight), validation, start)
            score = validation.score(start.predict("features"), start.predict("labels"))
            scores[scale, weight] = score
            if start.status == "interrupted":
                return Choice(scores, interrupted=True)
            if score > lowest:
                break
            lowest = score
    return Choice(scores)


def nonsmooth_fit(model: Model, experiment: Experiment, start: Fit | None) -> Fit:
    """Fit well enough for a ranking; that it is nonsmooth is meant and no cause for a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        warnings.simplefilter("ignore", UnobservedWarning)
        return fit(model, experiment.observed, tol=ROUGH, max_iter=PATIENCE, start=start)

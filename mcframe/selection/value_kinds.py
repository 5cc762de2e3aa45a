"""What a likelihood's observations are: labels, classes, levels, or numbers."""

from typing import Any

import numpy as np

from mcframe.contracts.likelihood import Likelihood
from mcframe.likelihoods import Ordinal

__all__ = ["reads_classes", "reads_few_values", "reads_labels", "reads_levels"]


def reads_labels(likelihood: Likelihood) -> bool:
    """Whether a likelihood's observations are 0 and 1, and nothing else."""
    inside, outside = np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0])
    return likelihood.width == 1 and domain_has(likelihood, inside, outside)


def reads_classes(likelihood: Likelihood) -> bool:
    """Whether they are codes of classes, one for each of several latent columns."""
    inside, outside = np.arange(float(likelihood.width)), np.array([-1.0, 0.5, likelihood.width])
    return likelihood.width > 1 and domain_has(likelihood, inside, outside)


def reads_levels(likelihood: Likelihood) -> bool:
    """Whether they are ordered levels, cut out of z by thresholds."""
    return isinstance(likelihood, Ordinal)


def reads_few_values(likelihood: Likelihood) -> bool:
    """Whether they are labels, classes or levels: values that come again and again."""
    return reads_labels(likelihood) or reads_classes(likelihood) or reads_levels(likelihood)


def domain_has(likelihood: Likelihood, inside: Any, outside: Any) -> bool:
    """Whether all of the former are valid observations, and none of the latter."""
    return not likelihood.invalid(inside).any() and bool(likelihood.invalid(outside).all())

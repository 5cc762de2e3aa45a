"""The cumulative logit model and its thresholds: what ``Ordinal`` is made of.

No words of the vocabulary: a model says ``Ordinal(levels)``.
"""

from mcframe.likelihoods.cumulative.cumulative_logit import (
    centred_conjugate,
    gap_loss,
    logistic_parts,
)
from mcframe.likelihoods.cumulative.thresholds import Positions, best_thresholds

__all__ = ["Positions", "best_thresholds", "centred_conjugate", "gap_loss", "logistic_parts"]

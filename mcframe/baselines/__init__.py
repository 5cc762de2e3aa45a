"""Floor 8: what others would do with the same table: the baselines of the papers."""

from mcframe.baselines.imputation import mean_imputed, zero_imputed
from mcframe.baselines.maxide import SideCompletion, maxide
from mcframe.baselines.mixture import GaussianMixture, fit_mixture
from mcframe.baselines.svm import STRENGTHS, svm_labels

__all__ = [
    "STRENGTHS",
    "GaussianMixture",
    "SideCompletion",
    "fit_mixture",
    "maxide",
    "mean_imputed",
    "svm_labels",
    "zero_imputed",
]

"""Floor 8: what others would do with the same table: the baselines of the papers."""

from mcframe.baselines.collective import Separate, collective_soft_impute
from mcframe.baselines.imputation import mean_imputed, zero_imputed
from mcframe.baselines.maxide import SideCompletion, maxide
from mcframe.baselines.mixture import GaussianMixture, fit_mixture
from mcframe.baselines.svm import STRENGTHS, svm_labels
from mcframe.baselines.two_stage import TwoStage, two_stage

__all__ = [
    "STRENGTHS",
    "GaussianMixture",
    "Separate",
    "SideCompletion",
    "TwoStage",
    "collective_soft_impute",
    "fit_mixture",
    "maxide",
    "mean_imputed",
    "svm_labels",
    "two_stage",
    "zero_imputed",
]

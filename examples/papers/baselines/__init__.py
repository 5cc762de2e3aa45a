"""What others would do with the same table: the baselines of the papers."""

from papers.baselines.collective import Separate, collective_soft_impute
from papers.baselines.imputation import mean_imputed, zero_imputed
from papers.baselines.limo import MarginClassifier, limo, limo_by_cross_validation
from papers.baselines.maxide import SideCompletion, maxide
from papers.baselines.mixture import GaussianMixture, fit_mixture
from papers.baselines.svm import STRENGTHS, svm_labels
from papers.baselines.two_stage import TwoStage, two_stage

__all__ = [
    "STRENGTHS",
    "GaussianMixture",
    "MarginClassifier",
    "Separate",
    "SideCompletion",
    "TwoStage",
    "collective_soft_impute",
    "fit_mixture",
    "limo",
    "limo_by_cross_validation",
    "maxide",
    "mean_imputed",
    "svm_labels",
    "two_stage",
    "zero_imputed",
]

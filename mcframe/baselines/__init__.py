"""Floor 8: what others would do with the same table: the baselines of the papers."""

from mcframe.baselines.collective import Separate, collective_soft_impute
from mcframe.baselines.two_stage import TwoStage, two_stage

__all__ = ["Separate", "TwoStage", "collective_soft_impute", "two_stage"]

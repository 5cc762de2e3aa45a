"""Floor 3: risks, which read unlabeled entries too."""

from mcframe.risks.risk_mixture import RiskMixture

__all__ = ["RiskMixture"]

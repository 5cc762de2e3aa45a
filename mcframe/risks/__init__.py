"""Risks, which read unlabeled entries too."""

from mcframe.risks.risk_mixture import RiskMixture

__all__ = ["RiskMixture"]

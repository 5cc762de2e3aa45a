"""How the probability of a label depends on the linear predictor: what ``Bernoulli`` is made of.

No words of the vocabulary: a model says ``Bernoulli("logit")`` or ``Bernoulli("probit")``.
"""

from mcframe.likelihoods.links.link import Link
from mcframe.likelihoods.links.logit import Logit
from mcframe.likelihoods.links.probit import Probit

__all__ = ["LINKS", "Link"]

LINKS: dict[str, Link] = {"logit": Logit(), "probit": Probit()}

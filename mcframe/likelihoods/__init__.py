"""Likelihoods, one word a file."""

from mcframe.likelihoods.bernoulli import Bernoulli
from mcframe.likelihoods.censored import Censored
from mcframe.likelihoods.equality import Equality
from mcframe.likelihoods.gamma import Exponential, Gamma
from mcframe.likelihoods.gaussian import Gaussian
from mcframe.likelihoods.hinge import Hinge
from mcframe.likelihoods.huber import Huber
from mcframe.likelihoods.logistic import Logistic
from mcframe.likelihoods.multinomial import Multinomial
from mcframe.likelihoods.negative_binomial import NegativeBinomial
from mcframe.likelihoods.ordinal import Ordinal
from mcframe.likelihoods.poisson import Poisson
from mcframe.likelihoods.quantile import Quantile

__all__ = [
    "Bernoulli",
    "Censored",
    "Equality",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Hinge",
    "Huber",
    "Logistic",
    "Multinomial",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Quantile",
]

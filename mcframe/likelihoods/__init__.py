"""Floor 2: likelihoods, one word a file."""

from mcframe.likelihoods.bernoulli import Bernoulli
from mcframe.likelihoods.gaussian import Gaussian
from mcframe.likelihoods.huber import Huber
from mcframe.likelihoods.poisson import Poisson

__all__ = ["Bernoulli", "Gaussian", "Huber", "Poisson"]

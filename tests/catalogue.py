"""Every word of the vocabulary, right and wrong: one line each.

A public word that is missing here fails ``test_every_word_is_in_the_catalogue``.
"""

import attrs
import numpy as np

import mcframe as mc
from mcframe.contracts import Likelihood, Term


@attrs.frozen
class Entry:
    """A likelihood, observations inside and outside its domain, and the size of its predictors."""

    word: Likelihood
    valid: tuple[float, ...]
    invalid: tuple[float, ...]
    scale: float = 1.0


LIKELIHOODS = [
    Entry(mc.Gaussian(), (-2.0, 0.0, 0.5, 40.0), (np.inf, -np.inf)),
    Entry(mc.Gaussian(variance=0.01), (-2.0, 0.0, 0.5), (np.inf,)),
    Entry(mc.Huber(), (-2.0, 0.0, 0.5, 40.0), (np.inf,)),
    Entry(mc.Huber(delta=0.1), (-2.0, 0.0, 0.5), (np.inf, -np.inf)),
    Entry(mc.Poisson(), (0.0, 1.0, 7.0, 1e6), (-1.0, 0.5, np.inf)),
    Entry(mc.Bernoulli(), (0.0, 1.0), (-1.0, 0.5, 2.0)),
    Entry(mc.Bernoulli(scale=1 / 7), (0.0, 1.0), (-1.0, 0.5), scale=1 / 7),
    Entry(mc.Bernoulli("logit", scale=30.0), (0.0, 1.0), (3.0,), scale=30.0),
]

TERMS: list[Term] = [
    mc.NuclearNorm(0.5),
    mc.NuclearNorm(3.0),
    mc.Ridge(0.5),
    mc.Ridge(20.0),
    mc.OnesColumn(),
]

# What must be refused at construction, and what the message must name.
WRONG = [
    (lambda: mc.Gaussian(variance=0.0), "variance=0.0"),
    (lambda: mc.Gaussian(variance=-1), "variance=-1"),
    (lambda: mc.Gaussian(variance=float("nan")), "variance=nan"),
    (lambda: mc.Bernoulli(scale=0), "scale=0"),
    (lambda: mc.Bernoulli("cauchit"), "cauchit"),  # type: ignore[arg-type]
    (lambda: mc.NuclearNorm(-0.1), "weight=-0.1"),
    (lambda: mc.NuclearNorm("0.1"), "weight='0.1'"),  # type: ignore[arg-type]
    (lambda: mc.Ridge(0), "weight=0"),
    (lambda: mc.Ridge(np.inf), "weight=inf"),
]

"""Intervals of both posteriors beside the truth, which is drawn from the model.

``certainty_tables.py`` measures with it. For each likelihood, tables are drawn from Gaussian
factors with a given weight, and 30 % of the entries are hidden. The 90 % intervals of z at the
hidden entries should hold z in 90 % of the cells, and the total of the hidden entries should lie
in the lowest or highest twentieth of the totals of draws in 10 % of the tables.
"""

import time

import numpy as np
from scipy.special import ndtr

import mcframe as mc

SHAPE, FACTORS = (40, 10), 2
SETTINGS = [
    ("Gaussian, variance .25", mc.Gaussian(variance=0.25), 1.0),
    ("labels", mc.Bernoulli(), 2.0),
    ("labels, far apart", mc.Bernoulli(), 4.0),
    ("levels", mc.Ordinal(5, (-2.0, -0.7, 0.7, 2.0)), 2.0),
    ("counts, Poisson", mc.Poisson(), 0.7),
    ("counts, negative binomial", mc.NegativeBinomial(0.5), 0.7),
]
METHODS = ("variational", "sampler")


def drawn(likelihood, deviation, seed):
    """z, observations and which of them are hidden; and the weight of the norm."""
    rng = np.random.default_rng(seed)
    weight = np.sqrt(FACTORS) / deviation
    z = (
        rng.standard_normal((SHAPE[0], FACTORS))
        @ rng.standard_normal((FACTORS, SHAPE[1]))
        / weight
    )
    if isinstance(likelihood, mc.Gaussian):
        y = z + np.sqrt(likelihood.variance) * rng.standard_normal(SHAPE)
    else:
        y = likelihood.sample(z, rng)
    return z, y, rng.random(SHAPE) < 0.3, weight


def measured(likelihood, deviation, seed, method):
    """Share of z in its interval, width of these, whether the total is in a tail, CPU seconds."""
    z, y, hidden, weight = drawn(likelihood, deviation, seed)
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(weight)])
    began = time.process_time()
    options = {"tol": 0.07} if method == "sampler" else {}
    posterior = mc.posterior(
        model, {"y": np.where(hidden, np.nan, y)}, factors=FACTORS, method=method, **options
    )
    seconds = time.process_time() - began
    _, means, variances = posterior.engine.mixture(*np.nonzero(hidden))
    spread = np.sqrt(np.maximum(variances, 1e-300))
    below = np.mean(ndtr((z[hidden] - means) / spread), axis=0)
    sd = np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))
    totals = posterior.sample("y", 400)[:, hidden].sum(axis=1)
    place = np.mean(totals < y[hidden].sum()) + 0.5 * np.mean(totals == y[hidden].sum())
    return np.mean(np.abs(below - 0.5) < 0.45), np.mean(sd), abs(place - 0.5) > 0.45, seconds

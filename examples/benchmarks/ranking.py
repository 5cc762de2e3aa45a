"""Ranking from likes alone: mcframe beside implicit, on the same splits of MovieLens 100k.

    python examples/benchmarks/ranking.py [--seeds 0 1 2] [--methods "mc.fit, squared" ...]
        [--again] [--page] [--quick] [--out DIR]

MovieLens 100k of ``$MCFRAME_DATA``; 4 and 5 stars are likes, and nothing else is known. A tenth of
the ratings is the test; a tenth of the others is the validation split, on which each method
chooses its settings by NDCG@10, or in one row by the held-out risk; with these it is fitted to the
likes of all but the test. Splits, and NDCG@10 of all films but those that a user rated in the
training part, are those of ``ratings.py``. The models of mcframe are certified to 1e-2.
"""

import argparse
import itertools
import pathlib
import statistics
import time
import warnings

import numpy as np
from pages import DOCUMENT, markdown, write_part
from ratings import GOOD, first_films, implicit, judged, parts
from runs import Runs, seeds_of
from scipy import sparse

import mcframe as mc
from mcframe.datasets import read_ratings
from mcframe.selection import HeldOutRisk

MEASURE, TOL = "ndcg of all films", 1e-2
# Weights of the norm, over the smallest one at which Z is 0.
WEIGHTS = tuple(np.geomspace(0.16, 0.04, 7))
SHARES = (1.0, 0.5, 0.25, 0.12, 0.06)
EXPONENTS = (-0.2, 0.2, 0.4)


def likes_of(table):
    """The likes among ratings, in a sparse table of ones."""
    return sparse.coo_array(sparse.csr_array(table >= GOOD).astype(float))


def risk_of(share, loss, **options):
    """A like weighs 1 / share times as much as an unlabeled pair, and is rated 1, the others 0."""
    return mc.RiskMixture.pnu(share, 0.0, likelihood=loss, **options)


def along_path(risk, data, weights):
    """The fits at some weights, over the smallest weight at which Z is 0."""
    model = mc.Model([mc.Block("likes", risk)], [mc.NuclearNorm(1.0)])
    largest = mc.weight_max(model, {"likes": data})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        path = mc.path(model, {"likes": data}, weights=largest * np.sort(weights)[::-1], tol=TOL)
    return path.fits


def popular(table, settings):
    """The number of likes of each film, for all users."""
    for _ in settings:
        yield np.tile(likes_of(table).sum(axis=0), (table.shape[0], 1))


def weighted(loss, table, settings):
    """Squared or logistic losses of all pairs and a nuclear norm, likes weighing more."""
    for share, places in itertools.groupby(settings, key=lambda setting: setting[0]):
        weights = [weight for _, weight in places]
        for fit in along_path(risk_of(share, loss), likes_of(table), weights):
            yield fit.natural("likes")


def exposed(table, settings):
    """The same for squared losses with propensities, powers of the films' numbers of likes."""
    likes = likes_of(table)
    for (share, exponent), places in itertools.groupby(settings, key=lambda setting: setting[:2]):
        theta = mc.estimate_propensities(likes, columns=exponent)
        data = mc.Observations(likes, propensity=theta)
        risk = risk_of(share, mc.Gaussian(), propensities=True)
        for fit in along_path(risk, data, [weight for *_, weight in places]):
            yield fit.natural("likes")


METHODS = {
    "most liked": popular,
    "mc.fit, squared": lambda table, settings: weighted(mc.Gaussian(), table, settings),
    "mc.fit, logistic": lambda table, settings: weighted(mc.Bernoulli(), table, settings),
    "mc.fit, propensities": exposed,
    "implicit": implicit,
}
# Weights descend, as paths do.
SETTINGS = {
    "most liked": ["none"],
    "mc.fit, squared": list(itertools.product(SHARES, WEIGHTS)),
    "mc.fit, logistic": list(itertools.product((0.5, 0.12), WEIGHTS)),
    "mc.fit, propensities": list(itertools.product((1.0, 0.25, 0.06), (0.25, 0.5), WEIGHTS)),
    "implicit": list(
        itertools.product((8, 16, 32, 64), (1.0, 3.0, 7.0, 12.0, 20.0), (1.0, 3.0, 10.0, 30.0))
    ),
}
if __name__ == "__main__":
    import sys

    ratings = read_ratings("movielens100k.npz")
    for seed in map(int, sys.argv[2].split(",")):
        fitted, last, checked, test = parts(ratings, seed)
        for name in sys.argv[1].split(";"):
            t = time.process_time()
            scores = [
                judged(s, fitted, ratings, checked)[MEASURE]
                for s in METHODS[name](fitted, SETTINGS[name])
            ]
            print(
                name,
                seed,
                round(time.process_time() - t, 1),
                "best",
                SETTINGS[name][int(np.argmax(scores))],
                max(scores),
            )
            for s, v in zip(SETTINGS[name], scores):
                print("   ", s, round(v, 4))
            sys.stdout.flush()

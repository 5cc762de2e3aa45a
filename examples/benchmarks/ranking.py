"""Ranking from likes alone: mcframe beside implicit, on the same splits of MovieLens 100k.

    python examples/benchmarks/ranking.py [--seeds 0 1 2] [--methods "mc.fit, squared" ...]
        [--again] [--page] [--quick] [--out DIR]

MovieLens 100k of ``$MCFRAME_DATA``; 4 and 5 stars are likes, and nothing else is known. A tenth of
the ratings is the test; a tenth of the others is the validation split, on which each method
chooses its settings by NDCG@10; with these it is fitted to the likes of all but the test. One row
has its weight from cross-validation by ``HeldOutRisk``, which knows nothing of rankings. Splits,
and NDCG@10 of all films but those that a user rated in the training part, are those of
``ratings.py``. The fits of mcframe have gaps of at most 1e-2.
"""

import itertools
import statistics
import time
import warnings

import numpy as np
from pages import markdown
from ratings import GOOD, compare, implicit, judged, parts, told
from runs import seeds_of
from scipy import sparse

import mcframe as mc
from mcframe.selection import HeldOutRisk

MEASURE, TOL = "ndcg of all films", 1e-2
# Weights of the norm, over the smallest one at which Z is 0.
WEIGHTS = tuple(np.geomspace(0.16, 0.05, 6))
SHARES, EXPONENTS = (1.0, 0.5, 0.25, 0.12), (0.15, 0.3)
WEIGHTS_BY_RISK = tuple(np.geomspace(0.3, 0.08, 6))


def likes_of(table):
    """The likes among ratings, in a sparse table of ones."""
    return sparse.coo_array(sparse.csr_array(table >= GOOD).astype(float))


def model_of(share, loss, **options):
    """Likes are to be 1 and all else 0, which counts ``share`` times as much; a nuclear norm."""
    risk = mc.RiskMixture.pnu(share, 0.0, likelihood=loss, **options)
    return mc.Model([mc.Block("likes", risk)], [mc.NuclearNorm(1.0)])


def along_path(model, likes, weights):
    """The scores at some weights, given over the smallest weight at which Z is 0."""
    data = {"likes": likes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        largest = mc.weight_max(model, data)
        fits = mc.path(model, data, weights=[largest * w for w in weights], tol=TOL).fits
    for fit in fits:
        assert fit.status == "certified"
        yield fit.natural("likes")


def most_liked(table, settings):
    """The number of likes of each film, for all users."""
    for _ in settings:
        yield np.tile(likes_of(table).sum(axis=0), (table.shape[0], 1))


def weighted(loss):
    """A method: losses of all pairs, where likes weigh more."""

    def method(table, settings):
        for share, same in itertools.groupby(settings, key=lambda setting: setting[0]):
            weights = [weight for _, weight in same]
            yield from along_path(model_of(share, loss), likes_of(table), weights)

    return method


def exposed(table, settings):
    """The same for squared losses with propensities, powers of the films' numbers of likes."""
    likes = likes_of(table)
    for (share, power), same in itertools.groupby(settings, key=lambda setting: setting[:2]):
        theta = mc.estimate_propensities(likes, columns=power)
        model = model_of(share, mc.Gaussian(), propensities=True)
        weights = [weight for *_, weight in same]
        yield from along_path(model, mc.Observations(likes, propensity=theta), weights)


def by_risk(table, settings):
    """Squared losses of all pairs alike, the weight chosen by the held-out risk of the likes."""
    data, model = {"likes": likes_of(table)}, model_of(1.0, mc.Gaussian())
    for _ in settings:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.UnobservedWarning)
            weights = mc.weight_max(model, data) * np.array(WEIGHTS_BY_RISK)
            chosen = mc.cross_validate(
                model, data, criterion=HeldOutRisk("likes"), weights=weights, tol=TOL
            )
            fit = mc.fit(chosen.best_model, data, tol=TOL)
        assert fit.status == "certified"
        yield fit.natural("likes")


METHODS = {
    "most liked": most_liked,
    "mc.fit, squared": weighted(mc.Gaussian()),
    "mc.fit, squared, by HeldOutRisk": by_risk,
    "mc.fit, propensities": exposed,
    "mc.fit, logistic": weighted(mc.Bernoulli()),
    "implicit": implicit,
}
# Weights descend, as paths do.
SETTINGS = {
    "most liked": ["none"],
    "mc.fit, squared": list(itertools.product(SHARES, WEIGHTS)),
    "mc.fit, squared, by HeldOutRisk": ["cross-validated"],
    "mc.fit, propensities": list(itertools.product(SHARES[::2], EXPONENTS, WEIGHTS)),
    "mc.fit, logistic": list(
        itertools.product((1.0, 0.25, 0.08), (0.06, 0.04, 0.03, 0.02, 0.015, 0.01))
    ),
    "implicit": list(
        itertools.product(
            (12, 16, 24, 32), (3.0, 7.0, 12.0, 20.0, 30.0), (1.0, 2.0, 3.0, 5.0, 10.0)
        )
    ),
}


def run_once(name, ratings, seed):
    """A method tuned and judged by NDCG@10."""
    fitted, last, checked, test = parts(ratings, seed)
    method, settings = METHODS[name], SETTINGS[name]
    began, best, tried = time.process_time(), 0, [np.nan]
    if len(settings) > 1:
        tried = [
            judged(each, fitted, ratings, checked)[MEASURE] for each in method(fitted, settings)
        ]
        best = int(np.argmax(tried))
    (scores,) = method(last, [settings[best]])
    return {
        "seconds": time.process_time() - began,
        "ndcg": judged(scores, last, ratings, test)[MEASURE],
        "on validation": float(np.max(tried)),
        "setting": settings[best],
    }


def report(runs):
    """A row a method: means over seeds, and the figure of each."""
    rows, seeds = [], sorted({run["seed"] for run in runs})
    for name in METHODS:
        done = {run["seed"]: run for run in runs if run["method"] == name and "failed" not in run}
        if not done:
            failed = [run["failed"] for run in runs if run["method"] == name]
            rows.append([name, *["–"] * (len(seeds) + 2), *(failed or ["not run"])[:1]])
            continue
        first = next(iter(done.values()))
        rows.append(
            [
                name,
                f"{statistics.mean(run['ndcg'] for run in done.values()):.4f}",
                *(f"{done[seed]['ndcg']:.4f}" if seed in done else "–" for seed in seeds),
                f"{statistics.median(run['seconds'] for run in done.values()):.3g}",
                told(first["setting"]),
            ]
        )
    header = ["method", "NDCG@10", *(f"seed {seed}" for seed in seeds), "seconds"]
    return [
        f"Means over {seeds_of(runs)}; seconds of the processor, with the search over settings.",
        "",
        *markdown([*header, "settings chosen, first seed"], rows),
    ]


def main(arguments=None):
    """Run what has not been run, then write the report."""
    compare(arguments, __doc__, METHODS, run_once, report, "ranking")


if __name__ == "__main__":
    main()

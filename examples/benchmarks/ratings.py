"""Ratings of films: mcframe beside cmfrec, implicit, myfm and NumPyro, on the same splits.

    python examples/benchmarks/ratings.py [--seeds 0 1 2] [--methods posterior myfm ...]
        [--again] [--page [PART]] [--quick] [--out DIR]

MovieLens 100k of ``$MCFRAME_DATA``. A tenth of the ratings is the test; a tenth of the others is
the validation split, on which each method chooses among ``N_SETTINGS`` settings, once for the
root mean square error and once for NDCG@10; with these it is fitted to all but the test. A method
without settings is fitted once.

The log density is the mean of log p(rating) in the test, beside the share of ratings inside 90 %
intervals. Methods with a predictive distribution give their own; predictions of the others are the
means of normal distributions, with the error of the validation split as standard deviation.

NDCG@10 is of users with a film in the test that they gave 4 or 5 stars, which are the relevant
ones: of all films that were not among the user's ratings fitted to, and of the user's films in
the test alone. A model of ratings is made for the second, one of preferences for the first.
"""

import argparse
import itertools
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pages import DOCUMENT, add_page, markdown, write_part
from rating_folds import THRESHOLD_RATIOS, attributes, block_of
from runs import Runs, seeds_of
from scipy import sparse, stats
from scipy.special import logsumexp

import mcframe as mc
from mcframe.datasets import read_ratings
from mcframe.datasets.readers import find_file

N_SETTINGS, MOST, GOOD = 12, 10, 4.0
MEASURES = ("rmse", "ndcg of all films", "ndcg of rated films")
KEPT, LEVEL = 0.8, 0.9  # share of a chain's draws, and of intervals
DRAWS = 100  # of a distribution that is known
DEFAULTS = "defaults"  # the setting of what chooses nothing
SETS = attributes({}, ("sets",))


@dataclass
class Predictive:
    """Scores of all films for all users; of some ratings their log densities and intervals."""

    scores: np.ndarray
    log_density: Callable
    interval: Callable


def normal(scores, sd):
    """Normal distributions of one standard deviation around predictions."""

    def around(users, films):
        return stats.norm(np.clip(scores[users, films], 1.0, 5.0), sd)

    return Predictive(
        scores,
        lambda users, films, ratings: around(users, films).logpdf(ratings),
        lambda users, films: around(users, films).interval(LEVEL),
    )


def posterior(table, settings, **options):
    """Gaussian factors, effects of rows and columns and all variances learned.

    Of ratings as numbers, or as five levels for each distance of the thresholds.
    """
    for setting in settings:
        yield predictive(table, None if setting == DEFAULTS else setting, **options)


def rated_sets(table, settings):
    """With who rated which film, of several numbers of factors; of levels by distances, too."""
    for *ratios, n_factors in settings:
        yield predictive(table, *ratios, factors=n_factors, **SETS)


def sampler(table, settings):
    """Draws from the exact posterior, of several numbers of factors and sweeps."""
    for n_factors, sweeps in settings:
        yield predictive(table, factors=n_factors, method="sampler", max_iter=sweeps)


def levels_and_attributes(table, settings):
    """Of levels, with what is known of users and films, and who rated which film."""
    with np.load(find_file("movielens100k.npz"), allow_pickle=False) as archive:
        known = {name: archive[name] for name in archive}
    for side, size in zip(("user_", "item_"), table.shape, strict=True):
        known |= {name: known[name][:size] for name in known if name.startswith(side)}
    yield from posterior(table, settings, **attributes(known, ("known", "sets")))


def predictive(table, ratio=None, **options):
    """What a posterior of the ratings says, as levels where there is a ratio of thresholds."""
    block = block_of(ratio, table.data)
    model = mc.Model([block], [mc.NuclearNorm()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        warnings.simplefilter("ignore", mc.NotConvergedWarning)
        found = mc.posterior(model, {block.name: table}, **options)
    return Predictive(
        np.asarray(found.predict(block.name)),
        lambda *places: found.log_predictive_density(block.name, *places),
        lambda *places: found.interval(block.name, LEVEL, *places),
    )


def myfm(table, settings):
    """Bayesian factorisation by Gibbs sampling, of several ranks and lengths of the chain."""
    from myfm import MyFMGibbsRegressor

    triples, n_users = sparse.coo_array(table), table.shape[0]
    each = np.tile(np.arange(triples.nnz), 2)
    columns = np.concatenate([triples.row, n_users + triples.col])
    X = sparse.csr_matrix(
        (np.ones(each.size), (each, columns)), shape=(triples.nnz, sum(table.shape))
    )
    for rank, length in settings:
        model, kept = MyFMGibbsRegressor(rank=rank, random_seed=0), int(KEPT * length)
        model.fit(X, triples.data, group_shapes=table.shape, n_iter=length, n_kept_samples=kept)
        noise = model.get_hyper_trace()["alpha"].to_numpy()[-kept:] ** -0.5
        yield of_draws(model.w0_samples, model.w_samples, model.V_samples, noise, n_users)


def numpyro(table, settings):
    """The posterior's model with independent normals by NumPyro's stochastic optimisation."""
    import jax
    import numpyro as npy
    from numpyro import distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    triples, n_users = sparse.coo_array(table), table.shape[0]
    users, films = np.asarray(triples.row), n_users + np.asarray(triples.col)
    users_first = np.arange(sum(table.shape)) < n_users

    def model(rank):
        constant = npy.sample("constant", dist.Normal(3.5, 1.0))
        of_effects = npy.sample("of_effects", dist.HalfNormal(1.0).expand([2]))
        of_factors = npy.sample("of_factors", dist.HalfNormal(1.0).expand([2, rank]))
        noise = npy.sample("noise", dist.HalfNormal(1.0))
        own, shape = (~users_first).astype(int), (users_first.size, rank)
        effects = npy.sample("effects", dist.Normal(0.0, of_effects[own]).to_event(1))
        factors = npy.sample(
            "factors", dist.Normal(jax.numpy.zeros(shape), of_factors[own]).to_event(2)
        )
        product = (factors[users] * factors[films]).sum(axis=1)
        mean = constant + effects[users] + effects[films] + product
        npy.sample("ratings", dist.Normal(mean, noise).to_event(1), obs=triples.data)

    for rank, steps in settings:
        guide = AutoNormal(model, init_scale=0.01, init_loc_fn=npy.infer.init_to_sample)
        search = SVI(model, guide, npy.optim.Adam(0.02), Trace_ELBO())
        found = search.run(jax.random.PRNGKey(0), steps, rank, progress_bar=False)
        drawn = guide.sample_posterior(
            jax.random.PRNGKey(1), found.params, rank, sample_shape=(DRAWS,)
        )
        each = ("constant", "effects", "factors", "noise")
        yield of_draws(*(np.asarray(drawn[name], dtype=float) for name in each), n_users)


def of_draws(constants, effects, factors, noise, n_users):
    """The mixture of normal distributions that draws of a factorisation are."""
    left, right = factors[:, :n_users], factors[:, n_users:]

    def means(users, films):
        products = np.einsum("skr,skr->sk", left[:, users], right[:, films])
        return constants[:, None] + effects[:, users] + effects[:, n_users + films] + products

    def log_density(users, films, ratings):
        of_each = stats.norm(means(users, films), noise[:, None]).logpdf(ratings)
        return logsumexp(of_each, axis=0) - np.log(noise.size)

    def interval(users, films):
        drawn = means(users, films)
        sd = np.sqrt(drawn.var(axis=0) + np.mean(np.square(noise)))
        return stats.norm(drawn.mean(axis=0), sd).interval(LEVEL)

    U, V = (np.concatenate(side, axis=1) for side in (left, right))
    of_users, of_films = np.split(effects.mean(axis=0), [n_users])
    scores = constants.mean() + of_users[:, None] + of_films + U @ V.T / noise.size
    return Predictive(scores, log_density, interval)


def mcframe(table, settings):
    """Row and column effects and a nuclear norm: predictions at each weight, along one path."""
    block = mc.Block("ratings", mc.Gaussian(), bias=True, row_effects=True, effects_weight=1.0)
    model = mc.Model([block], [mc.NuclearNorm(1.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        fits = mc.path(model, {"ratings": table}, weights=settings, tol=1e-3).fits
    for fit in fits:
        yield np.asarray(fit.predict("ratings"))


def cmfrec(table, settings):
    """Sixty factors and biases by alternating least squares, of several weights of both."""
    from cmfrec import CMF

    triples = sparse.coo_array(table)
    for of_biases, of_factors in settings:
        weights = np.array([of_biases, of_biases, of_factors, of_factors, 1.0, 1.0])
        model = CMF(k=60, lambda_=weights, niter=20, nthreads=1, verbose=False)
        model.fit(sparse.coo_matrix(triples))
        scores = model.A_ @ model.B_.T + model.glob_mean_
        yield scores + model.user_bias_[:, None] + model.item_bias_


def implicit(table, settings):
    """Alternating least squares for the films that a user gave 4 or 5 stars."""
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    liked = sparse.csr_matrix(table >= GOOD).astype(np.float32)
    for rank, weight, alpha in settings:
        model = AlternatingLeastSquares(
            factors=rank, regularization=weight, alpha=alpha, random_state=0, num_threads=1
        )
        with threadpool_limits(1, "blas"):
            model.fit(liked, show_progress=False)
        yield model.user_factors @ model.item_factors.T


METHODS = {
    "mc.posterior": posterior,
    "mc.posterior, levels": posterior,
    "mc.posterior, rated sets": rated_sets,
    "mc.posterior, levels and rated sets": rated_sets,
    "mc.posterior, levels and attributes": levels_and_attributes,
    "mc.posterior, sampler": sampler,
    "mc.path": mcframe,
    "cmfrec": cmfrec,
    "implicit": implicit,
    "myfm": myfm,
    "numpyro": numpyro,
}
# Weights descend, as paths do.
SETTINGS = {
    "mc.posterior": [DEFAULTS],
    "mc.posterior, levels": list(THRESHOLD_RATIOS),
    "mc.posterior, rated sets": [(12,), (24,)],
    "mc.posterior, levels and rated sets": list(itertools.product(THRESHOLD_RATIOS, (12, 24))),
    "mc.posterior, levels and attributes": list(THRESHOLD_RATIOS),
    "mc.posterior, sampler": list(itertools.product((8, 12), (80, 120))),
    "mc.path": list(np.geomspace(26.0, 7.0, N_SETTINGS)),
    "cmfrec": list(itertools.product((1.0, 4.0), (8.0, 11.0, 14.0, 17.0, 20.0, 26.0))),
    "implicit": list(itertools.product((16, 32), (0.1, 10.0), (1.0, 5.0, 20.0))),
    "myfm": list(itertools.product((4, 8, 12, 16, 24, 32), (100, 300))),
    "numpyro": list(itertools.product((8, 24), (1000, 3000))),
}


def parts(ratings, seed):
    """The tables to fit first and last, the places of the validation split and of the test."""
    order = np.random.default_rng(seed).permutation(len(ratings))
    tenth = len(order) // 10
    test, checked, fitted = order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]
    last = np.concatenate([checked, fitted])
    return table_of(ratings, fitted), table_of(ratings, last), checked, test


def table_of(ratings, places):
    """Some ratings as a sparse table."""
    shape = len(ratings.user_ids), len(ratings.item_ids)
    at = ratings.users[places], ratings.items[places]
    return sparse.csr_array((ratings.ratings[places], at), shape=shape)


def judged(scores, table, ratings, places):
    """The three measures of scores, of which higher ones come first."""
    users, films = ratings.users[places], ratings.items[places]
    truth, found = ratings.ratings[places], scores[users, films]
    clipped = np.clip(found, 1.0, 5.0)
    gains = {"ndcg of all films": [], "ndcg of rated films": []}
    for user in np.unique(users[truth >= GOOD]):
        own = users == user
        liked = np.zeros(scores.shape[1], dtype=bool)
        liked[films[own & (truth >= GOOD)]] = True
        left = np.ones(scores.shape[1], dtype=bool)
        left[table.indices[table.indptr[user] : table.indptr[user + 1]]] = False
        gains["ndcg of all films"].append(gain(scores[user, left], liked[left]))
        gains["ndcg of rated films"].append(gain(found[own], liked[films[own]]))
    means = {name: float(np.mean(each)) for name, each in gains.items()}
    return {"rmse": float(np.sqrt(np.mean((clipped - truth) ** 2))), **means}


def gain(scores, liked):
    """NDCG@10: discounted gains of the first ten, over the most that they can be."""
    first = np.argsort(-scores, kind="stable")[:MOST]
    discounts = 1.0 / np.log2(np.arange(2, MOST + 2))
    most = discounts[: min(MOST, int(liked.sum()))].sum()
    return float(discounts[: first.size][liked[first]].sum() / most)


def run_once(name, ratings, seed):
    """A method tuned and judged; of each measure by the setting that was best for it."""
    fitted, last, checked, test = parts(ratings, seed)
    method, settings = METHODS[name], SETTINGS[name]
    few = first_films(ratings, 40)
    for _ in method(table_of(few, np.arange(len(few))), settings[:1]):
        pass  # which imports and compiles
    began = time.process_time()
    best, sd = dict.fromkeys(MEASURES, 0), np.nan
    if len(settings) > 1:
        tried = [
            judged(scores_of(each), fitted, ratings, checked) for each in method(fitted, settings)
        ]
        best = {
            measure: int(np.argmax([sign_of(measure) * each[measure] for each in tried]))
            for measure in MEASURES
        }
        sd = tried[best["rmse"]]["rmse"]
    chosen = sorted(set(best.values()))
    finals = dict(zip(chosen, method(last, [settings[k] for k in chosen]), strict=True))
    seconds = time.process_time() - began
    answers = {k: judged(scores_of(each), last, ratings, test) for k, each in finals.items()}
    return {
        "seconds": seconds,
        **{measure: answers[best[measure]][measure] for measure in MEASURES},
        **uncertainty(finals[best["rmse"]], sd, ratings, test),
        "settings": {measure: settings[best[measure]] for measure in MEASURES},
    }


def scores_of(answer):
    """The scores of a method's answer."""
    return answer.scores if isinstance(answer, Predictive) else answer


def uncertainty(answer, sd, ratings, places):
    """Mean log density of ratings, and the share of them inside their intervals."""
    known = answer if isinstance(answer, Predictive) else normal(answer, sd)
    at, truth = (ratings.users[places], ratings.items[places]), ratings.ratings[places]
    lower, upper = known.interval(*at)
    return {
        "log density": float(np.mean(known.log_density(*at, truth))),
        "covered": float(np.mean((lower <= truth) & (truth <= upper))),
    }


def sign_of(measure):
    """1 where more is better."""
    return -1.0 if measure == "rmse" else 1.0


def report(runs):
    """A row a method that was run: means over seeds."""
    rows = []
    for name in METHODS:
        own = [run for run in runs if run["method"] == name]
        done = [run for run in own if "failed" not in run]
        if not done:
            rows += [[name, *["–"] * 6, run["failed"]] for run in own[:1]]
            continue
        columns = (*MEASURES, "log density", "covered")
        cells = [f"{statistics.mean(run[each] for run in done):.4f}" for each in columns]
        if name == "implicit":
            cells[0] = cells[3] = cells[4] = "–"  # it predicts preferences
        seconds = f"{statistics.median(run['seconds'] for run in done):.3g}"
        settings = "; ".join(
            f"{measure} {told(done[0]['settings'][measure])}"
            for measure in MEASURES[name == "implicit" :]
        )
        rows.append([name, *cells, seconds, settings])
    header = [
        "method",
        *MEASURES,
        "log density",
        "in 90 % intervals",
        "seconds",
        "settings chosen, first seed",
    ]
    return [
        f"Means over {seeds_of(runs)}; seconds of the processor.",
        "",
        *markdown(header, rows),
    ]


def told(setting):
    """One number or several, in three digits."""
    if isinstance(setting, str):
        return setting
    return " ".join(f"{number:.3g}" for number in np.atleast_1d(setting))


def main(arguments=None):
    """Run what has not been run, then write the report."""
    compare(arguments, __doc__, METHODS, run_once, report, "ratings")


def compare(arguments, description, methods, run_method, lines_of, part):
    """The command of a comparison of methods on MovieLens 100k: runs, and their report.

    ``run_method(name, ratings, seed)`` is a dict, ``lines_of(runs)`` the report, and ``part``
    names the default folder and the part of docs/quality.md. A method whose package is absent
    says so.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=range(3))
    parser.add_argument("--methods", nargs="+", choices=list(methods), default=list(methods))
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    add_page(parser, part)
    parser.add_argument("--quick", action="store_true", help="those of 80 films by 80 users")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(f"{part}-results"))
    options = parser.parse_args(arguments)
    runs = Runs(options.out, ("seed", "method"), options.again)
    ratings = read_ratings("movielens100k.npz")
    if options.quick:
        ratings = first_films(ratings, 80)
    for seed in options.seeds:
        for name in options.methods:
            run = {"seed": seed, "method": name}
            if "failed" not in (runs.get(run) or {"failed": ""}):
                continue
            try:
                runs.add(run | run_method(name, ratings, seed))
            except ImportError as error:
                runs.add(run | {"failed": f"absent: {error}"})
    lines = lines_of(runs.latest())
    runs.write_table(lines)
    if options.page:
        write_part(DOCUMENT, options.page, lines)


def first_films(ratings, count):
    """The ratings of some films by some users, for a try."""
    import attrs

    kept = (ratings.items < count) & (ratings.users < count)
    return attrs.evolve(
        ratings,
        user_ids=ratings.user_ids[:count],
        item_ids=ratings.item_ids[:count],
        users=ratings.users[kept],
        items=ratings.items[kept],
        ratings=ratings.ratings[kept],
        timestamps=None,
    )


if __name__ == "__main__":
    main()

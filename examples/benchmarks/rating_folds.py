"""Ratings on the five published folds of MovieLens 100k, with and without attributes.

    python examples/benchmarks/rating_folds.py [--folds 1 2 3 4 5] [--models plain ...]
        [--again] [--page] [--quick] [--out DIR]

The folds u1 to u5 are the slices of 20,000 lines of the file of ``$MCFRAME_DATA``, which has the
order of the source. All models have 24 factors and defaults, and the attributes below; of levels
the distances of the thresholds are chosen on a tenth of the training part. Errors are those of
means, clipped to 1 to 5 stars; seconds are of the processor, and include reading, sweeps,
predictions and this choice.
"""

import argparse
import pathlib
import statistics
import time
import warnings

import numpy as np
from pages import DOCUMENT, markdown, write_part
from runs import Runs
from scipy import sparse

import mcframe as mc
from mcframe.datasets.readers import find_file

FOLD, USERS = 20_000, (459, 653, 869, 923, 927)  # ratings of a fold, and the users in its test
YEARS_OF_AGE, YEARS_OF_FILMS = 8, 5  # that are one group
LEVEL, STARS = 0.9, (1.0, 5.0)
# Thresholds of levels, over the log odds of the shares of ratings up to each level: given z they
# lie further apart.
THRESHOLD_RATIOS = (1.5, 2.0, 2.4)
MODELS = {
    "plain": ((), "numbers"),
    "people and films": (("known",), "numbers"),
    "rated sets": (("sets",), "numbers"),
    "all attributes": (("known", "sets"), "numbers"),
    "all attributes, levels": (("known", "sets"), "levels"),
}


def indicators(values):
    """A column for each value."""
    return (np.unique(values) == np.asarray(values)[:, None]).astype(float)


def attributes(arrays, kinds):
    """What is known of users and films; films without a year have a gap."""
    rows, columns = {}, {}
    if "known" in kinds:
        age, year = arrays["user_age"], np.asarray(arrays["item_year"], dtype=float)
        year[year < 0.0] = np.nan
        groups = [arrays["user_sex"], arrays["user_occupation"], age // YEARS_OF_AGE]
        rows["people"] = np.hstack([indicators(values) for values in groups])
        known = np.nan_to_num(year, nan=np.nanmedian(year))
        decades = indicators(known // YEARS_OF_FILMS)
        columns["films"] = np.column_stack([arrays["item_genres"], year, decades])
    if "sets" in kinds:
        rows["rated"] = columns["raters"] = "observed"
    return {"row_attributes": rows or None, "column_attributes": columns or None}


def block_of(ratio, ratings):
    """The block of ratings as numbers, or as levels with thresholds by their shares."""
    if ratio is None:
        return mc.Block("stars", mc.Gaussian(variance=None), bias=True, row_effects=True)
    shares = np.cumsum(np.bincount(ratings.astype(int), minlength=6)[1:5]) / ratings.size
    thresholds = ratio * np.log(shares / (1.0 - shares))
    likelihood = mc.Ordinal(5, thresholds=tuple(thresholds.tolist()))
    return mc.Block("stars", likelihood, bias=True, row_effects=True)


def run_once(arrays, fold, name):
    """Error, log density, coverage and seconds of a model on a fold."""
    kinds, form = MODELS[name]
    users, films = arrays["user"], arrays["item"]
    ratings = np.asarray(arrays["rating"], dtype=float)
    size = ratings.size // 5
    test = np.arange((fold - 1) * size, fold * size)
    if size == FOLD:
        assert np.unique(users[test]).size == USERS[fold - 1]
    fitted = np.setdiff1d(np.arange(ratings.size), test)
    began, ratio = time.process_time(), None
    if form == "levels":
        shuffled = np.random.default_rng(fold).permutation(fitted)
        checked, rest = np.split(shuffled, [fitted.size // 10])
        errors = [
            error_at(fitted_to(arrays, rest, kinds, one), arrays, checked)
            for one in THRESHOLD_RATIOS
        ]
        ratio = THRESHOLD_RATIOS[int(np.argmin(errors))]
    answer = fitted_to(arrays, fitted, kinds, ratio)
    error = error_at(answer, arrays, test)
    seconds = time.process_time() - began
    cells, truth = (users[test], films[test]), ratings[test]
    lower, upper = answer.interval("stars", LEVEL, *cells)
    return {
        "rmse": error,
        "ratio": ratio,
        "log density": float(np.mean(answer.log_predictive_density("stars", *cells, truth))),
        "covered": float(np.mean((lower <= truth) & (truth <= upper))),
        "seconds": seconds,
        "sweeps": len(answer.history),
    }


def fitted_to(arrays, places, kinds, ratio):
    """The posterior of some of the ratings."""
    ratings = np.asarray(arrays["rating"][places], dtype=float)
    cells = arrays["user"][places], arrays["item"][places]
    shape = len(arrays["user_age"]), len(arrays["item_year"])
    table = sparse.csr_array((ratings, cells), shape=shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        model = mc.Model([block_of(ratio, ratings)], [mc.NuclearNorm()])
        return mc.posterior(model, {"stars": table}, **attributes(arrays, kinds))


def error_at(answer, arrays, places):
    """The root mean square error of clipped means at some of the ratings."""
    means = answer.predict("stars", arrays["user"][places], arrays["item"][places])
    return float(np.sqrt(np.mean((np.clip(means, *STARS) - arrays["rating"][places]) ** 2)))


def report(runs):
    """A row a model: the error of each fold, and means."""
    rows = []
    for name in MODELS:
        by_fold = {run["fold"]: run for run in runs if run["model"] == name}
        if not by_fold:
            continue
        errors = [f"{by_fold[k]['rmse']:.4f}" if k in by_fold else "–" for k in range(1, 6)]
        means = [
            statistics.mean(run[measure] for run in by_fold.values())
            for measure in ("rmse", "log density", "covered")
        ]
        seconds = statistics.median(run["seconds"] for run in by_fold.values())
        formats = [f"{value:.4f}" for value in means]
        rows.append([name, *errors, *formats, f"{seconds:.3g}"])
    folds = [f"u{k}" for k in range(1, 6)]
    return markdown(["model", *folds, "mean", "log density", "in 90 % intervals", "seconds"], rows)


def main(arguments=None):
    """Run what has not been run, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", nargs="+", type=int, default=range(1, 6))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    parser.add_argument("--page", action="store_true", help="write the table into docs/quality.md")
    parser.add_argument("--quick", action="store_true", help="the first 5,000 ratings alone")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("rating-folds-results"))
    options = parser.parse_args(arguments)
    runs = Runs(options.out, ("fold", "model"), options.again)
    with np.load(find_file("movielens100k.npz"), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive}
    if options.quick:
        for name in ("user", "item", "rating"):
            arrays[name] = arrays[name][:5_000]
    for name in options.models:
        for fold in options.folds:
            run = {"fold": fold, "model": name}
            if runs.get(run) is None:
                runs.add(run | run_once(arrays, fold, name))
    lines = report(runs.latest())
    runs.write_table(lines)
    if options.page:
        write_part(DOCUMENT, "rating folds", lines)


if __name__ == "__main__":
    main()

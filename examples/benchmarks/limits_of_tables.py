"""Cells below a limit of detection: coverage of intervals and of pooled estimates.

    python examples/benchmarks/limits_of_tables.py [--repetitions 200] [--page]

Tables of 200 rows and five columns are drawn from one normal distribution of mean 3, variance 1
and correlation .5. Of the first column the smallest 30 % are known only to lie below their
quantile. Coverage of 90 % intervals of these cells, and of 95 % intervals of three estimates: the
mean of the column, its slope on the second column in a regression on all others, and its
own slope in a regression of the last column on all others. Beside ``mc.complete`` with 20 draws
stand half the limit in the place of the cells, complete rows alone, lifelines (the exponential of
the column as lifetimes that are censored on the left), and the table before it was cut off.
``--page`` writes the table into docs/quality.md.
"""

import argparse
import importlib.util
import warnings

import numpy as np
import pandas as pd
import scipy
from pages import DOCUMENT, markdown, write_part

import mcframe as mc

N_ROWS, NAMES, CORRELATION, MEAN, SHARE, DRAWS = 200, list("abcde"), 0.5, 3.0, 0.3, 20
ESTIMATES = ("mean", "slope of the cut column", "slope on the cut column")
SLOPE = CORRELATION / (1.0 + (len(NAMES) - 2) * CORRELATION)
TRUTHS = MEAN, SLOPE, SLOPE


def drawn(seed):
    """A table, and the limit below which its first column is not known."""
    rng = np.random.default_rng(seed)
    covariance = CORRELATION + (1.0 - CORRELATION) * np.eye(len(NAMES))
    numbers = rng.multivariate_normal(np.full(len(NAMES), MEAN), covariance, N_ROWS)
    return pd.DataFrame(numbers, columns=NAMES), MEAN + float(scipy.stats.norm.ppf(SHARE))


def regression(outcome, design):
    """The first slope and its standard error."""
    x = np.column_stack([design, np.ones(len(design))])
    slopes, *_ = np.linalg.lstsq(x, outcome, rcond=None)
    variance = np.sum((outcome - x @ slopes) ** 2) / (len(x) - x.shape[1])
    return slopes[0], np.sqrt(variance * np.linalg.inv(x.T @ x)[0, 0])


def analysis(frame):
    """The three estimates of a complete table, and their standard errors."""
    a = frame["a"].to_numpy()
    mean = a.mean(), a.std(ddof=1) / np.sqrt(a.size)
    of_a = regression(a, frame[["b", "c", "d", "e"]].to_numpy())
    on_a = regression(frame["e"].to_numpy(), frame[["a", "b", "c", "d"]].to_numpy())
    return np.array([mean, of_a, on_a]).T


def intervals(estimates, errors, freedom):
    """The ends of 95 % intervals."""
    half = scipy.stats.t.ppf(0.975, freedom) * errors
    return np.stack([estimates - half, estimates + half], axis=-1)


def of_complete(frame, below, limit, whole):
    """Intervals of pooled estimates, and the share of cells that their intervals cover."""
    texts = np.where(below, f"<{limit!r}", frame["a"].map(repr))
    completed = mc.complete(frame.assign(a=texts), {"a": "number"})
    lower, upper = (end["a"][below] for end in completed.interval(0.9))
    truth = whole["a"][below]
    found = [analysis(table) for table in completed.draws(DRAWS)]
    estimates, errors = np.swapaxes(found, 0, 1)
    pooled = mc.pool(estimates, errors**2, float(N_ROWS - 5))
    error = np.sqrt(np.mean((completed.table["a"][below] - truth) ** 2))
    ends = np.stack(pooled.interval(0.95), axis=-1)
    return ends, np.mean((lower <= truth) & (truth <= upper)), error


def of_lifelines(frame, below):
    """Intervals of the mean and of the slope of the column; the third estimate has no model."""
    import lifelines

    times, observed = np.exp(frame["a"]), ~below
    fitter = lifelines.LogNormalFitter().fit_left_censoring(times, observed)
    mean = fitter.summary.loc["mu_", ["coef lower 95%", "coef upper 95%"]]
    table = frame[["b", "c", "d", "e"]].assign(times=times, observed=observed)
    fitter = lifelines.LogNormalAFTFitter()
    fitter.fit_left_censoring(table, "times", "observed")
    slope = fitter.summary.loc[("mu_", "b"), ["coef lower 95%", "coef upper 95%"]]
    return np.array([mean, slope, [np.nan, np.nan]], dtype=float)


def repetition(seed):
    """The intervals (3 x 2) of each method, the coverage of cells, and errors of them."""
    whole, limit = drawn(seed)
    below = (whole["a"] < limit).to_numpy()
    cut = whole.assign(a=whole["a"].where(~below, limit))
    half = whole.assign(a=whole["a"].where(~below, 0.5 * limit))
    found = {}
    found["mc.complete"], covered, error = of_complete(whole, below, limit, whole)
    found["half the limit"] = intervals(*analysis(half), N_ROWS - 5)
    found["complete rows"] = intervals(*analysis(whole[~below]), int(np.sum(~below)) - 5)
    if importlib.util.find_spec("lifelines"):
        found["lifelines"] = of_lifelines(cut, below)
    found["nothing cut off"] = intervals(*analysis(whole), N_ROWS - 5)
    of_half = np.sqrt(np.mean((half["a"] - whole["a"])[below] ** 2))
    return found, covered, (error, of_half)


def main():
    """Print the table, and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = [repetition(seed) for seed in range(given.repetitions)]
    covered = np.array([run[1] for run in runs])
    errors = np.sqrt(np.mean(np.square([run[2] for run in runs]), axis=0))
    rows = []
    for method in runs[0][0]:
        ends = np.array([run[0][method] for run in runs])
        row = [method]
        for k, truth in enumerate(TRUTHS):
            inside = (ends[:, k, 0] <= truth) & (truth <= ends[:, k, 1])
            bias, width = np.mean(ends[:, k]) - truth, np.mean(np.diff(ends[:, k], axis=1))
            empty = np.isnan(ends[:, k]).any()
            row.append("" if empty else f"{inside.mean():.3f} ({bias:+.3f}, {width:.2f})")
        rows.append(row)
    lines = markdown(["method", *ESTIMATES], rows)
    deviation = covered.std(ddof=1) / np.sqrt(covered.size)
    lines += [
        "",
        f"Intervals of 90 % of the cells that were cut off cover {covered.mean():.3f} ±"
        f" {deviation:.3f} of them. The filled values have a root mean square error of"
        f" {errors[0]:.3f}, half the limit one of {errors[1]:.3f}.",
    ]
    print("\n".join(lines))
    if given.page:
        write_part(DOCUMENT, "limits", lines)


if __name__ == "__main__":
    main()

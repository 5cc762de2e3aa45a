"""Panels with gaps, filled with the order of rows in time and without it.

    python examples/benchmarks/panels.py [--seconds 1800] [--first-seed 0] [--out FOLDER]
        [--shapes "short, lines, single gaps" ...] [--page [PART]]

Of 20 units at 15 times each, or of 150 units at 5 times, three columns are means of units plus
deviations that follow an autoregression in time, and ``y = a - 0.5 b + e``. In more than half of
the panels the means of units are lines in time, whose slopes have the variance of the deviations.
A quarter of all numbers is hidden, either single ones or two to four times in a row. Of the hidden
numbers the error over
their standard deviation and the share inside 90 % intervals are taken, and of ten draws the
coefficients of y are pooled by ``mc.pool``. Methods and tables take turns until the seconds are
over; results are kept in ``panels/runs.jsonl`` of ``--out``. ``--page`` writes the table of these
shapes into docs/quality.md.
"""

import argparse
import pathlib
import warnings

import numpy as np
import pandas as pd
from pages import DOCUMENT, add_page, markdown, write_part
from runs import Runs

import mcframe as mc

CORRELATION, SHARE, DRAWS = 0.8, 0.25, 10
NUMBERS = ["a", "b", "c", "y"]
SHAPES = ("single gaps", "gaps in a row", "lines, single gaps", "lines, gaps in a row")
SHAPES += ("short, lines, single gaps",)
METHODS = ("mcframe, units and time", "mcframe, units", "IterativeImputer, lags and leads")
METHODS += ("mcframe, units, time and lines",)
METHODS += ("straight lines between neighbours",)


def size_of(shape):
    """The numbers of units and of times."""
    return (150, 5) if shape.startswith("short") else (20, 15)


def drawn(shape, seed):
    """A panel without gaps, and which of its numbers are hidden."""
    rng, (n_units, n_times) = np.random.default_rng([SHAPES.index(shape), seed]), size_of(shape)
    root = np.linalg.cholesky(0.4 + 0.6 * np.eye(3))
    deviations = rng.standard_normal((n_units, n_times, 3))
    for at in range(1, n_times):
        new = np.sqrt(1.0 - CORRELATION**2) * deviations[:, at]
        deviations[:, at] = CORRELATION * deviations[:, at - 1] + new
    means = 0.7 * rng.standard_normal((n_units, 1, 3))
    series = means + deviations @ root.T
    if "lines" in shape:
        slopes = rng.standard_normal((n_units, 1, 3))
        series += slopes * np.linspace(-1.7, 1.7, n_times)[:, None]
    x = series.reshape(-1, 3)
    y = x[:, 0] - 0.5 * x[:, 1] + rng.standard_normal(len(x))
    table = pd.DataFrame({**dict(zip("abc", x.T, strict=True)), "y": y})
    hidden = rng.random(table.shape) < SHARE
    if shape.endswith("gaps in a row"):
        hidden[:] = False
        while hidden.mean() < SHARE:
            length = rng.integers(2, 5)
            first = rng.integers(n_units) * n_times + rng.integers(n_times - length + 1)
            hidden[first : first + length, rng.integers(4)] = True
    table["unit"] = np.repeat([f"u{k}" for k in range(n_units)], n_times)
    table["time"] = np.tile(np.arange(n_times), n_units)
    return table, hidden


def filled_by_peer(given, seed):
    """Tables of one draw each by chained equations, with means of units, lags and leads."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    of_units = given.groupby("unit")[NUMBERS]
    beside = [of_units.shift(step).add_suffix(str(step)) for step in (-1, 1)]
    wide = pd.concat(
        [given[[*NUMBERS, "time"]], *beside, of_units.transform("mean").add_suffix(" of unit")],
        axis=1,
    )
    for k in range(DRAWS):
        imputer = IterativeImputer(sample_posterior=True, random_state=1000 * seed + k)
        filled = imputer.fit_transform(wide)[:, : len(NUMBERS)]
        yield given.assign(**dict(zip(NUMBERS, filled.T, strict=True)))


def filled(method, given, seed):
    """A filled table, ends of 90 % intervals or None, and draws."""
    if method.startswith("straight"):
        between = given.groupby("unit")[NUMBERS].transform(
            lambda one: one.interpolate(limit_direction="both")
        )
        return between.fillna(given[NUMBERS].mean()), None, []
    if method.startswith("Iterative"):
        draws = list(filled_by_peer(given, seed))
        return sum(one[NUMBERS] for one in draws) / DRAWS, None, draws
    options = {"time": "time"} if "time" in method else {}
    options |= {"trend": 1} if "lines" in method else {}
    completed = mc.complete(given, groups="unit", random_state=seed, progress=False, **options)
    return completed.table, completed.interval(0.9), completed.draws(DRAWS, random_state=seed)


def regression(table):
    """The coefficients of y and their covariance matrix."""
    x = np.column_stack([np.ones(len(table)), table[["a", "b"]]])
    inverse = np.linalg.inv(x.T @ x)
    coefficients = inverse @ x.T @ table["y"].to_numpy()
    residual = table["y"].to_numpy() - x @ coefficients
    return coefficients, inverse * (residual @ residual) / (len(x) - 3)


def measured(shape, method, seed):
    """Errors and what intervals hold."""
    table, hidden = drawn(shape, seed)
    given = table.copy()
    given[NUMBERS] = table[NUMBERS].mask(hidden)
    answer, ends, draws = filled(method, given, seed)
    truth, found = table[NUMBERS].to_numpy(), answer[NUMBERS].to_numpy(dtype=float)
    errors = (found - truth) / truth.std(axis=0)
    values = {"error": float(np.sqrt(np.mean(np.square(errors[hidden]))))}
    if ends is not None:
        lower, upper = (end[NUMBERS].to_numpy(dtype=float) for end in ends)
        values["cells"] = float(np.mean(((lower <= truth) & (truth <= upper))[hidden]))
    if draws:
        estimates, covariances = zip(*(regression(one) for one in draws), strict=True)
        low, high = mc.pool(np.array(estimates), np.array(covariances)).interval(0.95)
        right = np.array([0.0, 1.0, -0.5])
        values["coefficients"] = float(np.mean(((low <= right) & (right <= high))[1:]))
    return values


def table(runs, shapes):
    """A line for each kind of gaps and method."""
    header = ["gaps", "method", "error", "cells in 90 %", "coefficients in 95 %", "panels"]
    rows, latest = [], runs.latest()
    for shape in shapes:
        for method in METHODS:
            mine = [one for one in latest if (one["shape"], one["method"]) == (shape, method)]
            if len(mine) < 2:
                continue
            errors = np.array([one["error"] for one in mine])
            spread = errors.std(ddof=1) / np.sqrt(errors.size)
            shares = [
                f"{np.mean([one[name] for one in mine]):.1%}" if name in mine[0] else ""
                for name in ("cells", "coefficients")
            ]
            seconds = np.mean([one["seconds"] for one in mine])
            cells = [f"{errors.mean():.3f} ± {spread:.3f}", *shares, str(errors.size)]
            rows.append([shape, method, *cells, f"{seconds:.2g}"])
    return markdown([*header, "CPU s a panel"], rows)


def main():
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmark-results"))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    add_page(parser, "panels")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs(options.out / "panels", ("shape", "method", "seed"))
    runs.take_turns(options.shapes, METHODS, measured, options.seconds, options.first_seed)
    lines = table(runs, options.shapes)
    print("\n".join(lines))
    if options.page:
        write_part(DOCUMENT, options.page, lines)


if __name__ == "__main__":
    main()

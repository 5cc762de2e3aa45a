"""Regressions in groups after imputation, with the groups of rows and without.

    python examples/benchmarks/grouped.py [--seconds 900] [--first-seed 0] [--out FOLDER] [--page]

Tables are drawn with ``y = 0.5 w + 1.5 a_g + u_g + e`` and ``x = a_g + w``, so that the slope
within groups is .5 and that between them another one, beside a third column. Of x, y and the
third column 30 % is hidden, more of y where the third column is large. Of 20 draws of each method
the slope within groups, by deviations from the means of groups, and the mean of y, whose standard
error is that of means of groups, are pooled by ``mc.pool``. Methods and tables take turns until
the seconds are over; results are kept in ``grouped/runs.jsonl`` of ``--out``. ``--page`` writes
the table into docs/quality.md.
"""

import argparse
import pathlib
import warnings

import numpy as np
import pandas as pd
from pages import DOCUMENT, markdown, write_part
from runs import Runs

import mcframe as mc

DRAWS, SLOPE = 20, 0.5
SHAPES = {"30 groups of 8": (30, 8), "100 groups of 3": (100, 3), "8 groups of 40": (8, 40)}
METHODS = ("mcframe, groups", "mcframe, without groups", "IterativeImputer")


def drawn(shape, seed):
    """A table without gaps, which cells are hidden, and the groups of rows."""
    rng = np.random.default_rng(seed)
    n_groups, size = SHAPES[shape]
    groups = np.repeat(np.arange(n_groups), size)
    a, u = (deviation * rng.standard_normal(n_groups)[groups] for deviation in (0.7, 0.5))
    w, e, other = rng.standard_normal((3, groups.size))
    y = SLOPE * w + 1.5 * a + u + e
    third = 0.5 * w + 0.4 * y + other
    table = pd.DataFrame({"x": a + w, "y": y, "third": third})
    hidden = rng.random(table.shape) < 0.3
    hidden[:, 1] = rng.random(groups.size) < 0.6 / (1.0 + np.exp(-1.2 * third))
    hidden[:, 2] &= ~hidden[:, 1]
    return table, hidden, groups


def draws_of(method, given, groups, seed):
    """Completed tables."""
    if method == "IterativeImputer":
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        return [
            pd.DataFrame(
                IterativeImputer(
                    sample_posterior=True, random_state=1000 * seed + k
                ).fit_transform(given),
                columns=given.columns,
            )
            for k in range(DRAWS)
        ]
    options = {"groups": groups} if method.endswith(", groups") else {}
    completed = mc.complete(given, random_state=seed, progress=False, **options)
    return completed.draws(DRAWS, random_state=seed)


def estimates(table, groups):
    """The slope within groups and the mean of y, with squared standard errors."""
    means = table[["x", "y"]].groupby(groups).transform("mean")
    x, y = (table[["x", "y"]] - means).to_numpy().T
    n_groups = groups[-1] + 1
    slope = x @ y / (x @ x)
    residual = np.sum(np.square(y - slope * x)) / (x.size - n_groups - 1)
    of_groups = table["y"].groupby(groups).mean()
    return (
        np.array([slope, of_groups.mean()]),
        np.array([residual / (x @ x), of_groups.var() / n_groups]),
    )


def measured(shape, method, seed):
    """Whether 95 % intervals hold the truth, and the bias and the width of that of the slope."""
    table, hidden, groups = drawn(shape, seed)
    draws = draws_of(method, table.mask(hidden), groups, seed)
    values, variances = map(np.array, zip(*(estimates(d, groups) for d in draws), strict=True))
    pooled = mc.pool(values, variances)
    lower, upper = pooled.interval(0.95)
    holds = (lower <= [SLOPE, 0.0]) & (upper >= [SLOPE, 0.0])
    return {
        "slope": bool(holds[0]),
        "mean": bool(holds[1]),
        "bias": float(pooled.estimate[0] - SLOPE),
        "width": float(upper[0] - lower[0]),
    }


def table(runs):
    """A line for each shape and method."""
    header = ["groups", "method", "slope in 95 %", "mean of y in 95 %", "bias of the slope"]
    rows, latest = [], runs.latest()
    for shape in SHAPES:
        for method in METHODS:
            mine = [one for one in latest if (one["shape"], one["method"]) == (shape, method)]
            if len(mine) < 2:
                continue
            slope, mean, bias, width, seconds = (
                np.array([one[name] for one in mine], dtype=float)
                for name in ("slope", "mean", "bias", "width", "seconds")
            )
            error = bias.std(ddof=1) / np.sqrt(bias.size)
            rows.append(
                [
                    shape,
                    method,
                    f"{slope.mean():.1%}",
                    f"{mean.mean():.1%}",
                    f"{bias.mean():+.3f} ± {error:.3f}",
                    f"{width.mean():.2f}",
                    str(slope.size),
                    f"{seconds.mean():.2g}",
                ]
            )
    return markdown([*header, "width of its interval", "tables", "CPU s a table"], rows)


def main():
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmark-results"))
    parser.add_argument("--page", action="store_true", help="write the table into docs/quality.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs(options.out / "grouped", ("shape", "method", "seed"))
    runs.take_turns(SHAPES, METHODS, measured, options.seconds, options.first_seed)
    print(table(runs))
    if options.page:
        write_part(DOCUMENT, "grouped", table(runs))


if __name__ == "__main__":
    main()

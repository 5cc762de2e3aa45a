"""Values that are missing not at random: coverage of pooled estimates under the assumption.

    python examples/benchmarks/shifted.py [--repetitions 200] [--rows 200] [--draws 20]

Printed are, over all repetitions, the mean of the pooled estimate less the truth (``bias``), the
standard deviation of the estimates (``sd``), the mean of the reported ones (``reported``), and the
share of 95 % intervals that hold the truth (``coverage``).

- ``shift``: y depends on x; it is missing more often where x is large, and missing values are
  larger by 1 than in rows that are otherwise alike. Pooled are the mean of y and the
  coefficient of x, at the shifts 0 and 1, beside the rows that are complete.
- ``reference``: a trial with two arms, a baseline x and two visits, the second one missing more
  often after a large first one. The effect of the arm at the second visit, adjusted for x, is
  pooled with values missing at random and by each method of a reference group. The truth is that
  of a large trial in which patients who drop out are drawn by this method.
- ``slope``: a trial in which the effect of the treatment grows with x, where y is missing more
  often. Pooled is the coefficient of the product of arm and x, with rows that jump to reference,
  of tables that were drawn with this term and without it.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

import mcframe as mc

SHIFT = 1.0
LARGE = 1_000_000
METHODS = ["jump", "copy", "increments"]


def shifted_table(rng, n):
    """Rows whose missing values are larger by ``SHIFT``, and the mask of these."""
    x = rng.standard_normal(n)
    y = 0.6 * x + 0.8 * rng.standard_normal(n)
    missing = rng.random(n) < 1.0 / (1.0 + np.exp(0.8 - 0.8 * x))
    return pd.DataFrame({"x": x, "y": y + SHIFT * missing}), missing


def trial(rng, n, method):
    """A trial in which treated patients who drop out are drawn by a method, and the mask."""
    treated = np.arange(n) % 2
    x = rng.standard_normal(n)
    first = 0.5 * x + 0.6 * treated + 0.8 * rng.standard_normal(n)
    missing = rng.random(n) < 1.0 / (1.0 + np.exp(0.8 - 0.5 * first))
    kept = {"at random": 0.64, "copy": 0.0, "jump": -0.36, "increments": 0.24}[method]
    effect = np.where(missing, kept, 0.64) * treated
    second = 0.6 * first + 0.2 * x + effect + 0.7 * rng.standard_normal(n)
    arm = np.where(treated == 1, "treated", "control").astype(object)
    return pd.DataFrame({"arm": arm, "x": x, "first": first, "second": second}), missing


def regression(design, outcome):
    """Coefficients of least squares and their standard errors."""
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ outcome
    residuals = outcome - design @ coefficients
    variance = residuals @ residuals / (len(outcome) - design.shape[1])
    return coefficients, np.sqrt(variance * np.diag(inverse))


def of_shift(seed, n, m):
    """The estimates of one table: mean and coefficient by the name of the way."""
    table, missing = shifted_table(np.random.default_rng(seed), n)
    table.loc[missing, "y"] = np.nan
    completed = mc.complete(table)
    for shift in (0.0, SHIFT):
        tables = completed.draws(m, shift={"y": shift})
        for what, formula in (("mean", "y ~ 1"), ("coefficient", "y ~ x")):
            pooled = mc.pool.formula(formula, tables)
            lower, upper = pooled.interval()
            yield f"{what}, shift {shift:g}", pooled.estimate[-1], pooled.sd[-1], lower, upper
    whole = table[~missing]
    for what, columns in (("mean", []), ("coefficient", [whole["x"]])):
        design = np.column_stack([np.ones(len(whole)), *columns])
        estimates, sds = regression(design, whole["y"].to_numpy())
        lower, upper = estimates - 1.96 * sds, estimates + 1.96 * sds
        yield f"{what}, complete rows", estimates[-1], sds[-1], lower, upper


def of_reference(seed, n, m):
    """The effects of one trial by the name of the method."""
    table, missing = trial(np.random.default_rng(seed), n, "at random")
    table.loc[missing, "second"] = np.nan
    completed = mc.complete(table)
    for method in ("at random", *METHODS):
        shift = None
        if method != "at random":
            of_visit = mc.shift(by="arm", to="control", method=method)
            shift = {"first": of_visit, "second": of_visit}
        pooled = mc.pool.formula("second ~ arm + x", completed, m, shift=shift)
        lower, upper = pooled.interval()
        yield method, pooled.estimate[1], pooled.sd[1], lower[1:2], upper[1:2]


def crossed_trial(rng, n):
    """A trial whose effect is 1 + x; where y is missing, treated rows are as those of control."""
    treated, x = np.arange(n) % 2, rng.standard_normal(n)
    missing = rng.random(n) < 1.0 / (1.0 + np.exp(0.8 - 0.8 * x))
    y = 0.4 * x + (1.0 + x) * treated * ~missing + 0.8 * rng.standard_normal(n)
    arm = np.where(treated == 1, "treated", "control").astype(object)
    return pd.DataFrame({"arm": arm, "x": x, "y": y}), missing


def of_slope(seed, n, m):
    """The coefficients of the product of arm and x of one trial."""
    table, missing = crossed_trial(np.random.default_rng(seed), n)
    table.loc[missing, "y"] = np.nan
    completed, formula = mc.complete(table), "y ~ arm * x"
    shift = {"y": mc.shift(by="arm", to="control")}
    for way, terms in (("slope, jump", formula), ("slope, jump, drawn without terms", None)):
        tables = completed.draws(m, terms=terms, shift=shift)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of terms that were not drawn
            pooled = mc.pool.formula(formula, tables)
        lower, upper = pooled.interval()
        yield way, pooled.estimate[-1], pooled.sd[-1], lower, upper


def truths():
    """The truth of each way, by its name, from a large table."""
    table, _ = shifted_table(np.random.default_rng(0), LARGE)
    slope = np.polyfit(table["x"], table["y"], 1)[0]
    of_ways = {}
    for way in ("shift 0", "shift 1", "complete rows"):
        of_ways |= {f"mean, {way}": float(table["y"].mean()), f"coefficient, {way}": float(slope)}
    for method in ("at random", *METHODS):
        table, _ = trial(np.random.default_rng(0), LARGE, method)
        design = np.column_stack([np.ones(LARGE), table["arm"] == "treated", table["x"]])
        coefficients, _ = regression(design.astype(float), table["second"].to_numpy())
        of_ways[method] = float(coefficients[1])
    table, _ = crossed_trial(np.random.default_rng(0), LARGE)
    arm, x = (table["arm"] == "treated").to_numpy(float), table["x"].to_numpy()
    design = np.column_stack([np.ones(LARGE), arm, x, arm * x])
    slope = float(regression(design, table["y"].to_numpy())[0][-1])
    of_ways |= {"slope, jump": slope, "slope, jump, drawn without terms": slope}
    return of_ways


def main():
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    truth, answers = truths(), {}
    for seed in range(options.repetitions):
        for task in (of_shift, of_reference, of_slope):
            for way, estimate, sd, lower, upper in task(seed, options.rows, options.draws):
                held = np.ravel(lower)[-1] <= truth[way] <= np.ravel(upper)[-1]
                answers.setdefault(way, []).append((estimate, sd, held))
    print("| way | truth | bias | sd | reported | coverage |\n|---|---|---|---|---|---|")
    for way, rows in answers.items():
        estimates, sds, held = np.array(rows, dtype=float).T
        numbers = truth[way], np.mean(estimates) - truth[way], np.std(estimates), np.mean(sds)
        shown = " | ".join(f"{number:.3f}" for number in numbers)
        print(f"| {way} | {shown} | {np.mean(held):.1%} |")


if __name__ == "__main__":
    main()

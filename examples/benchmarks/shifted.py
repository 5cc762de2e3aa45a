"""Values that are missing not at random: coverage of pooled estimates under the assumption.

    python examples/benchmarks/shifted.py [--seconds 1800] [--rows 200] [--draws 20]
        [--only shift] [--only reference] [--only product] [--out FOLDER] [--page]

Printed are, over all tables, the mean of the pooled estimate less the truth (``bias``), the
standard deviation of the estimates (``sd``), the mean of the reported ones (``reported``), and the
share of 95 % intervals that hold the truth. Results are kept in ``shifted/runs.jsonl`` of
``--out``; ``--page`` writes the table into docs/tables.md.

- ``shift``: y depends on x; it is missing more often where x is large, and missing values are
  larger by 1 than in rows that are otherwise alike. Pooled are the mean of y and the
  coefficient of x, at the shifts 0 and 1, beside the rows that are complete.
- ``reference``: a trial with two arms, a baseline x and two visits, the second one missing more
  often after a large first one. The effect of the arm at the second visit, adjusted for x, is
  pooled with values missing at random and by each method of a reference group. The truth is that
  of a large trial in which patients who drop out are drawn by this method.
- ``product``: a trial in which the effect of the treatment grows with x, where y is missing more
  often. Pooled is the coefficient of the product of arm and x, with rows that jump to reference,
  of tables that were drawn with this term and without it.
"""

import functools
import warnings

import numpy as np
import pandas as pd
from pages import DOCUMENT
from pooled_estimates import simulate_and_write

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
    """Mean and coefficient of one table, by each shift and of its complete rows."""
    table, missing = shifted_table(np.random.default_rng(seed), n)
    table.loc[missing, "y"] = np.nan
    completed = mc.complete(table)
    for shift in (0.0, SHIFT):
        tables = completed.draws(m, shift={"y": shift})
        for what, formula in (("mean", "y ~ 1"), ("coefficient", "y ~ x")):
            pooled = mc.pool.formula(formula, tables)
            yield what, f"shift {shift:g}", pooled.estimate, pooled.sd, *pooled.interval()
    whole = table[~missing]
    for what, columns in (("mean", []), ("coefficient", [whole["x"]])):
        design = np.column_stack([np.ones(len(whole)), *columns])
        estimates, sds = regression(design, whole["y"].to_numpy())
        lower, upper = estimates - 1.96 * sds, estimates + 1.96 * sds
        yield what, "complete rows", estimates, sds, lower, upper


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
        of_arm = (values[:2] for values in (pooled.estimate, pooled.sd, *pooled.interval()))
        yield "effect", method, *of_arm


def crossed_trial(rng, n):
    """A trial whose effect is 1 + x; where y is missing, treated rows are as those of control."""
    treated, x = np.arange(n) % 2, rng.standard_normal(n)
    missing = rng.random(n) < 1.0 / (1.0 + np.exp(0.8 - 0.8 * x))
    y = 0.4 * x + (1.0 + x) * treated * ~missing + 0.8 * rng.standard_normal(n)
    arm = np.where(treated == 1, "treated", "control").astype(object)
    return pd.DataFrame({"arm": arm, "x": x, "y": y}), missing


def of_product(seed, n, m):
    """The coefficients of the product of arm and x of one trial."""
    table, missing = crossed_trial(np.random.default_rng(seed), n)
    table.loc[missing, "y"] = np.nan
    completed, formula = mc.complete(table), "y ~ arm * x"
    shift = {"y": mc.shift(by="arm", to="control")}
    for way, terms in (("jump", formula), ("jump, drawn without terms", None)):
        tables = completed.draws(m, terms=terms, shift=shift)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of terms that were not drawn
            pooled = mc.pool.formula(formula, tables)
        yield "coefficient", way, pooled.estimate, pooled.sd, *pooled.interval()


ESTIMATES = {"shift": of_shift, "reference": of_reference, "product": of_product}


@functools.cache
def truths(simulation):
    """The truths of a simulation, by quantity or way, from a large table."""
    rng = np.random.default_rng(0)
    if simulation == "shift":
        table, _ = shifted_table(rng, LARGE)
        slope = np.polyfit(table["x"], table["y"], 1)[0]
        return {"mean": table["y"].mean(), "coefficient": slope}
    if simulation == "product":
        table, _ = crossed_trial(rng, LARGE)
        arm, x = (table["arm"] == "treated").to_numpy(float), table["x"].to_numpy()
        design = np.column_stack([np.ones(LARGE), arm, x, arm * x])
        return {"coefficient": regression(design, table["y"].to_numpy())[0][-1]}
    effects = {}
    for method in ("at random", *METHODS):
        table, _ = trial(np.random.default_rng(0), LARGE, method)
        design = np.column_stack([np.ones(LARGE), table["arm"] == "treated", table["x"]])
        coefficients, _ = regression(design.astype(float), table["second"].to_numpy())
        effects[method] = coefficients[1]
    return effects


def truth(simulation, quantity, way):
    """The truth of an estimate: in trials with a reference group it depends on the way."""
    return truths(simulation)[way if simulation == "reference" else quantity]


def main():
    """Simulate, and print a row for each quantity and way."""
    simulate_and_write(
        "shifted",
        DOCUMENT.with_name("tables.md"),
        tuple(ESTIMATES),
        lambda simulation, seed, rows=200, draws=20: ESTIMATES[simulation](seed, rows, draws),
        truth,
        __doc__.splitlines()[0],
    )


if __name__ == "__main__":
    main()

"""Rows of a survey with unequal weights: coverage of pooled estimates of the population.

    python examples/benchmarks/weighted.py [--seconds 1800] [--rows 400] [--draws 20]
        [--only strata] [--only outcome] [--out FOLDER] [--page]

A population has two strata in which y depends on x in different ways, and a label that is likelier
where y is large. Rows are sampled with probabilities that depend on the stratum (``strata``) or on
y itself (``outcome``, as in a case-control study); their weights are the inverses. A third of y
and of the label are missing, more often where x is large; x is missing in a tenth of the rows. The
stratum is not in the table. Pooled are the mean of y, the coefficient of x in the regression of y
on x in the whole population, and the share of the label.

Each way fills the table and makes the weighted analysis of m completed tables:

- ``weights``: ``mc.complete(row_weights=)``, of which ``mc.pool.formula`` takes the weights.
- ``filled without``: ``mc.complete`` without weights, analysed with them.
- ``no weights``: neither.
- ``weight as a column``: ``mc.complete`` with the logarithm of the weight as a column that
  predicts the others, analysed with weights.
- ``IterativeImputer``: of scikit-learn with draws (``sample_posterior=True``), m times, with the
  logarithm of the weight as a column; analysed with weights.

Printed are, over all tables, the mean of the estimate less the truth (``bias``), the standard
deviation of the estimates (``sd``), the mean of the reported ones (``reported``), and the share
of 95 % intervals that hold the truth. Results are kept in ``weighted/runs.jsonl`` of ``--out``;
``--page`` writes the table into docs/quality.md.
"""

import functools
import warnings

import numpy as np
import pandas as pd
from pages import DOCUMENT
from pooled_estimates import simulate_and_write
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import mcframe as mc

POPULATION, DESIGNS = 1_000_000, ("strata", "outcome")
FORMULAS = {"mean of y": "y ~ 1", "coefficient of x": "y ~ x", "share of yes": "yes ~ 1"}


def population(rng, n):
    """Rows of the population, and the stratum of each."""
    stratum = (rng.random(n) < 0.3).astype(float)
    x = rng.standard_normal(n) + 0.5 * stratum
    y = np.where(stratum == 1.0, 1.0 + 1.2 * x, 0.4 * x) + 0.8 * rng.standard_normal(n)
    yes = (rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - y))).astype(float)
    return pd.DataFrame({"x": x, "y": y, "yes": yes}), stratum


def sampled(rng, n, design):
    """A sample with its weights, in which numbers are missing."""
    table, stratum = population(rng, 40 * n)
    if design == "strata":
        chances = np.where(stratum == 1.0, 4.0, 1.0)
    else:
        chances = 0.2 + 2.0 / (1.0 + np.exp(-2.0 * table["y"].to_numpy()))
    rows = rng.choice(len(table), n, replace=False, p=chances / np.sum(chances))
    table, weights = table.iloc[rows].reset_index(drop=True), 1.0 / chances[rows]
    for name in ("y", "yes"):
        hidden = rng.random(n) < 1.0 / (1.0 + np.exp(0.9 - 0.8 * table["x"]))
        table[name] = table[name].mask(hidden)
    hidden = (rng.random(n) < 0.1) & table["y"].notna()
    return table.assign(x=table["x"].mask(hidden)), weights


def drawn_by_peer(table, weights, m):
    """Tables drawn by IterativeImputer; a label is 1 above one half."""
    with_weight = table.assign(log_weight=np.log(weights))
    tables = []
    for seed in range(m):
        imputer = IterativeImputer(sample_posterior=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            filled = imputer.fit_transform(with_weight)
        drawn = pd.DataFrame(filled, columns=with_weight.columns)
        tables.append(drawn.assign(yes=(drawn["yes"] > 0.5).astype(float)))
    return tables


def ways_of(table, weights, m):
    """Drawn tables and the weights of their analysis, by the name of the way."""
    labelled = table.assign(yes=table["yes"].map({0.0: False, 1.0: True}).astype("boolean"))
    yield "weights", mc.complete(labelled, row_weights=weights).draws(m), weights
    plain = mc.complete(labelled).draws(m)
    yield "filled without", plain, weights
    yield "no weights", plain, None
    with_column = mc.complete(labelled.assign(log_weight=np.log(weights)))
    yield "weight as a column", with_column.draws(m), weights
    yield "IterativeImputer", drawn_by_peer(table, weights, m), weights


def estimates(design, seed, rows=400, draws=20):
    """Quantity, way, estimate, standard deviation and interval of one sample."""
    table, weights = sampled(np.random.default_rng(seed), rows, design)
    for way, tables, of_analysis in ways_of(table, weights, draws):
        # A label as a number has a mean, and no log odds.
        as_numbers = [one.assign(yes=one["yes"].astype(float)) for one in tables]
        for quantity, formula in FORMULAS.items():
            pooled = mc.pool.formula(formula, as_numbers, row_weights=of_analysis)
            yield quantity, way, pooled.estimate, pooled.sd, *pooled.interval()


@functools.cache
def truths():
    """The truth of each quantity, of a large population."""
    table, _ = population(np.random.default_rng(0), POPULATION)
    return {
        "mean of y": table["y"].mean(),
        "coefficient of x": np.polyfit(table["x"], table["y"], 1)[0],
        "share of yes": table["yes"].mean(),
    }


def main():
    """Simulate, and print a row for each design, quantity and way."""
    simulate_and_write(
        "weighted",
        DOCUMENT,
        DESIGNS,
        estimates,
        lambda _, quantity, __: truths()[quantity],
        __doc__.splitlines()[0],
    )


if __name__ == "__main__":
    main()

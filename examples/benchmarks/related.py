"""Tables whose columns satisfy an identity: coverage, errors and pooled coefficients.

    python examples/benchmarks/related.py [--repetitions 200] [--peers]

Expenses of 300 households: three parts, two of them correlated, their total, and an age that
depends on the parts; 30 % of all entries are missing. Each table is filled with the relation
``total = food + rent + other`` and without it. Printed are, over all repetitions:

- ``coverage``: the share of 90 % intervals that hold the true value, at missing entries that the
  row does not determine, column by column;
- ``error``: the root mean square error at missing entries, those that the row determines
  included, over the standard deviation of the column;
- ``broken``: the share of rows of the filled table that break the identity;
- ``pooled``: the share of 95 % intervals of pooled coefficients that hold the true one, in the
  regression of the age on the three parts, with 10 draws;
- with ``--peers`` the errors of ``IterativeImputer`` and of miceforest, which take no relation.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd

import mcframe as mc

PARTS = ["food", "rent", "other"]
RELATION = "total = food + rent + other"
COEFFICIENTS = {"food": 0.05, "rent": 0.01, "other": -0.02}


def expenses(rng, n=300):
    """A table of households without gaps."""
    z = rng.standard_normal((n, 2))
    table = pd.DataFrame(
        {
            "food": 300.0 + 80.0 * z[:, 0] + 30.0 * rng.standard_normal(n),
            "rent": 800.0 + 150.0 * z[:, 1] + 60.0 * z[:, 0] + 50.0 * rng.standard_normal(n),
            "other": 200.0 + 40.0 * z[:, 0] + 60.0 * rng.standard_normal(n),
        }
    )
    table["total"] = table[PARTS].sum(axis=1)
    mean = 20.0 + sum(slope * table[name] for name, slope in COEFFICIENTS.items())
    table["age"] = mean + 4.0 * rng.standard_normal(n)
    return table


def errors_of(table, truth, gaps):
    """The root mean square error of filled entries, over the deviation of the column."""
    return np.sqrt(((table - truth) ** 2)[gaps].mean()) / truth.std()


def broken(table):
    """The share of rows in which the total is not the sum of its parts."""
    difference = np.abs(table["total"] - table[PARTS].sum(axis=1))
    return float(np.mean(difference > 1e-6 * table["total"].abs()))


def peers(frame, seed):
    """The table as other packages fill it."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    filled = IterativeImputer(random_state=seed, max_iter=30).fit_transform(frame)
    yield "IterativeImputer", pd.DataFrame(filled, columns=frame.columns)
    try:
        import miceforest
    except ModuleNotFoundError:
        return
    kernel = miceforest.ImputationKernel(
        frame.reset_index(drop=True), num_datasets=1, random_state=seed
    )
    kernel.mice(5, num_threads=1)
    yield "miceforest", kernel.complete_data(0)


def repetition(seed, with_peers):
    """The figures of one table, by name of the way of filling."""
    rng = np.random.default_rng(seed)
    truth = expenses(rng)
    frame = truth.mask(rng.random(truth.shape) < 0.3)
    gaps, figures = frame.isna(), {}
    related = mc.complete(frame, relations=[RELATION])
    undetermined = gaps & (related.sd > 0.0)
    for name, done in (("related", related), ("free", mc.complete(frame))):
        lower, upper = done.interval(0.9)
        held = (lower <= truth) & (truth <= upper) & undetermined
        row = {f"coverage {column}": held[column].sum() for column in truth}
        row |= {f"count {column}": undetermined[column].sum() for column in truth}
        for column, error in errors_of(done.table, truth, gaps).items():
            row[f"error {column}"] = error
        row["broken"] = broken(done.table)
        pooled = mc.pool.formula("age ~ food + rent + other", done, m=10, random_state=seed)
        lower, upper = (np.asarray(end) for end in pooled.interval(0.95))
        names = list(pooled.names)
        for column, slope in COEFFICIENTS.items():
            k = names.index(column)
            row[f"pooled {column}"] = float(lower[k] <= slope <= upper[k])
        figures[name] = row
    for name, table in peers(frame, seed) if with_peers else ():
        row = {f"error {c}": error for c, error in errors_of(table, truth, gaps).items()}
        figures[name] = row | {"broken": broken(table)}
    return figures


def main():
    """Print the figures of all repetitions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start, tables = time.perf_counter(), {}
    for seed in range(options.first, options.first + options.repetitions):
        for name, row in repetition(seed, options.peers).items():
            tables.setdefault(name, []).append(row)
    for name, rows in tables.items():
        table = pd.DataFrame(rows)
        means = table.mean()
        for column in [c[6:] for c in table if c.startswith("count ")]:
            covered, count = table[f"coverage {column}"].sum(), table[f"count {column}"].sum()
            means[f"coverage {column}"] = covered / count
            means = means.drop(f"count {column}")
        print(f"{name} ({len(rows)} tables)")
        for what in ("coverage", "error", "pooled", "broken"):
            part = {c: v for c, v in means.items() if c.startswith(what)}
            if part:
                cells = [f"{c.removeprefix(what)} {v:.3f}".strip() for c, v in part.items()]
                print(f"  {what}: {', '.join(cells)}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

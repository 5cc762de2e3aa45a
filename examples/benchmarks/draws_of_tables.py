"""How good the draws of tables of any columns are: CRPS and energy scores at hidden entries.

    python examples/benchmarks/draws_of_tables.py [--tables iris ...] [--seeds 0 1] [--page]
        [--methods mc.complete ...] [--out DIR]

The tables and masks are those of ``imputation.py``, with 30 % of the entries hidden, and each
method draws 20 tables. Numbers and levels count in standard deviations of the whole column, a
category as the corners of a simplex whose sides are 1. The score of an entry is ``mean |X - y| -
mean |X - X'| / 2`` over draws X and pairs of them (Gneiting and Raftery, JASA 2007): of numbers
the CRPS. The energy score of a row is the same with all its hidden entries as one vector, so that
it depends on how these are drawn together. The energy distance of a drawn table is ``2 mean |X -
Y| - mean |X - X'| - mean |Y - Y'|`` over its rows X and those of the whole table Y, so that it
compares two distributions of rows, whichever row a value stands in; it is the mean over the draws.
All three are divided by those of draws of the observed values of the column. Smaller is better. A
run is a line of ``runs.jsonl``; packages that are not installed have none.
"""

import argparse
import importlib.util
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from hidden_tables import masked
from imputers import Design
from mixed_tables import CATEGORY, DEVELOPMENT, SET_ASIDE_FIRST, TABLES, table
from pages import DOCUMENT, markdown, write_part
from runs import Runs
from scipy.spatial.distance import cdist

DRAWS, SHARE = 20, 0.3
# What is measured of whole rows and of whole tables.
ENERGIES = ("energy", "distance")


def of_complete(frame, seed):
    """``mc.complete(frame).draws()``."""
    import mcframe as mc

    return mc.complete(frame, random_state=seed, progress=False).draws(DRAWS, random_state=seed)


def of_observed(frame, seed):
    """Observed values of the column, drawn with replacement."""
    rng, tables = np.random.default_rng(seed), []
    for _ in range(DRAWS):
        drawn = {}
        for name, series in frame.items():
            values = rng.choice(series.dropna().to_numpy(dtype=object), len(series))
            whole = np.where(series.isna(), values, series.to_numpy(dtype=object))
            drawn[name] = pd.Series(whole).astype(series.dtype)
        tables.append(pd.DataFrame(drawn))
    return tables


def of_iterative(frame, seed):
    """scikit-learn's chained Bayesian regressions, each draw with its own noise."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    design = Design(frame)
    return [
        design.back(
            IterativeImputer(
                sample_posterior=True, random_state=1000 * seed + k, keep_empty_features=True
            ).fit_transform(design.matrix)
        )
        for k in range(DRAWS)
    ]


def of_miceforest(frame, seed):
    """Chained LightGBM models with mean matching, levels as numbers."""
    import miceforest

    given = frame.copy()
    for name, series in frame.items():
        if hasattr(series, "cat") and series.cat.ordered:
            given[name] = series.cat.codes.astype(float).where(series.notna())
    given.columns = [f"c{k}" for k in range(given.shape[1])]  # no signs of JSON
    tables = []
    for k in range(DRAWS):  # one after the other: a kernel keeps all of its models
        kernel = miceforest.ImputationKernel(
            given,
            num_datasets=1,
            mean_match_candidates=5,
            save_all_iterations_data=False,
            random_state=1000 * seed + k,
        )
        kernel.mice(5, verbose=False, num_threads=1, min_data_in_leaf=5)
        drawn = kernel.complete_data(0)
        for place, (_, series) in enumerate(frame.items()):
            if hasattr(series, "cat") and series.cat.ordered:
                codes = np.round(drawn.iloc[:, place].to_numpy(float)).astype(int)
                levels = pd.Categorical.from_codes(codes, dtype=series.dtype)
                drawn = drawn.assign(**{drawn.columns[place]: levels})
        tables.append(drawn.set_axis(frame.columns, axis=1))
    return tables


METHODS = {
    "mc.complete": ("mcframe", of_complete),
    "IterativeImputer": ("sklearn", of_iterative),
    "miceforest": ("miceforest", of_miceforest),
}


def corners(whole, codes):
    """A vector for each entry, and the number of the column of each of its numbers."""
    parts, columns = [], []
    for place, (column, values) in enumerate(zip(whole.columns, codes.T, strict=True)):
        truth = whole.codes[:, place]
        if column.kind == CATEGORY:
            size = int(np.nanmax(truth)) + 1
            part = (values[:, None] == np.arange(size)) / np.sqrt(2.0)
        else:
            part = (values / (np.nanstd(truth) or 1.0))[:, None]
        parts.append(part)
        columns += [place] * part.shape[1]
    return np.hstack(parts), np.array(columns)


def energy(draws, truth):
    """``mean |X - y| - mean |X - X'| / 2`` of vectors, draws (m x n x p) and truth (n x p)."""
    distances = np.mean(np.linalg.norm(draws - truth, axis=-1), axis=0)
    between = np.zeros(distances.shape)
    for shift in range(1, len(draws)):
        between += np.mean(np.linalg.norm(draws - np.roll(draws, shift, axis=0), axis=-1), axis=0)
    return distances - 0.5 * between / (len(draws) - 1)  # without pairs of a draw with itself


def energy_distance(draws, truth):
    """The mean over drawn tables (m x n x p) of their energy distances to true rows (n x p).

    Of the two as distributions on their rows: pairs of a row with itself count, and it is 0 of
    equal tables.
    """
    within = np.mean(cdist(truth, truth))
    distances = [2.0 * np.mean(cdist(one, truth)) - np.mean(cdist(one, one)) for one in draws]
    return float(np.mean(distances) - within)


def scores(whole, given, tables):
    """Scores by column, the energy score of rows, and the energy distance of rows without gaps."""
    hidden = np.isnan(given.codes) & ~np.isnan(whole.codes)
    drawn = [whole.codes_of(one) for one in tables]
    if any(np.isnan(one[hidden]).any() for one in drawn):
        raise ValueError("hidden entries were not filled")
    truth, columns = corners(whole, whole.codes)
    vectors = np.stack([corners(whole, one)[0] for one in drawn])
    by_column = []
    for place in np.flatnonzero(hidden.any(axis=0)):
        rows, of_column = hidden[:, place], columns == place
        one = energy(vectors[:, rows][:, :, of_column], truth[rows][:, of_column])
        by_column.append(float(np.mean(one)))
    counts = hidden[:, columns]
    rows = counts.any(axis=1)
    of_rows = energy(np.where(counts, vectors, 0.0)[:, rows], np.where(counts, truth, 0.0)[rows])
    known = ~np.isnan(whole.codes).any(axis=1)
    distance = energy_distance(vectors[:, known], truth[known])
    return by_column, float(np.mean(of_rows)), distance


def measured(name, whole, given, seed):
    """A run of a method: scores over those of observed values, and seconds."""
    frame, began = given.frame(), time.process_time()
    tables = METHODS[name][1](frame, seed)
    seconds = time.process_time() - began
    by_column, *of_tables = scores(whole, given, tables)
    constants, *of_observed_tables = scores(whole, given, of_observed(frame, seed))
    crps = float(np.mean(np.divide(by_column, constants)))
    energies = dict(zip(ENERGIES, np.divide(of_tables, of_observed_tables).tolist(), strict=True))
    return {"seconds": seconds, "crps": crps} | energies


def report(runs):
    """The table: each method's mean scores and ranks, and its score on each table."""
    lines = runs.latest()
    names = [name for name in METHODS if any(run["method"] == name for run in lines)]
    done = {}
    for run in lines:
        done.setdefault((run["table"], run["seed"]), {})[run["method"]] = run
    whole = [cell for cell in done.values() if set(names) <= set(cell)]
    rows = []
    for name in names:
        row = [name]
        for what in ("crps", *ENERGIES):
            values = np.array([[cell[n].get(what, np.inf) for n in names] for cell in whole])
            place = names.index(name)
            ranks = 1 + np.sum(values < values[:, [place]], axis=1)
            finite = values[np.isfinite(values).all(axis=1), place]
            row += [f"{np.mean(finite):.3f}", f"{np.mean(ranks):.2f}"]
        failed = sum("failed" in cell[name] for cell in whole)
        seconds = np.median([cell[name].get("seconds", np.nan) for cell in whole])
        rows.append([*row, f"{seconds:.1f}", f"{failed} of {len(whole)}"])
    header = ["20 draws"]
    header += ["CRPS", "rank", "energy score", "rank", "energy distance", "rank"]
    header += ["CPU s", "failed"]
    per_table = []
    for one in dict.fromkeys(run["table"] for run in lines):
        cells = [
            cell for (name, _), cell in done.items() if name == one and set(names) <= set(cell)
        ]
        texts = [
            ", ".join(
                f"{np.mean([c[n].get(what, np.nan) for c in cells]):.3f}"
                for what in ("crps", *ENERGIES)
            )
            for n in names
        ]
        per_table.append([one, *texts])
    return [
        *markdown(header, rows),
        "",
        *markdown(["CRPS, energy score, energy distance", *names], per_table),
    ]


def main():
    """Run what has not been run, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tables", nargs="+", choices=list(TABLES), default=list(DEVELOPMENT | SET_ASIDE_FIRST)
    )
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--page", action="store_true", help="write the table into docs/quality.md")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("draws-results"))
    options = parser.parse_args()
    runs = Runs(options.out, ("table", "seed", "method"))
    for seed in options.seeds:
        for label in options.tables:
            whole = table(label)
            given = masked(whole, SHARE, seed)
            for name in options.methods:
                run = {"table": label, "seed": seed, "method": name}
                if run in runs or importlib.util.find_spec(METHODS[name][0]) is None:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        runs.add(run | measured(name, whole, given, seed))
                    except (ValueError, IndexError, KeyError, TypeError) as error:
                        runs.add(run | {"failed": f"{type(error).__name__}: {error}"[:200]})
    lines = report(runs)
    runs.write_table(lines)
    if options.page:
        write_part(DOCUMENT, "draws", lines)


if __name__ == "__main__":
    main()

"""Corrections: ``mc.complete`` with them and without (``nonlinear=False``), and peers.

    MCFRAME_DATA=... OMP_NUM_THREADS=1 python examples/benchmarks/nonlinear.py [--seeds 0 1]
        [--shares 0.1 0.3] [--tables concrete ...] [--page] [--out DIR]

Entries are hidden completely at random. Of both answers of mcframe the score is measured as by
``imputation.py``, with the log loss of labels over that of constant probabilities, the coverage of
90 % intervals of numbers and their score (Gneiting and Raftery, 2007); of peers the score alone,
but not on tables of thousands of rows and those used in development. Each run is a line of
``runs.jsonl``, and what was run is not run again.
"""

import argparse
import itertools
import os
import pathlib
import tempfile
import time
import warnings

import numpy as np
import pandas as pd
from compare import machine
from hidden_tables import masked
from imputation_scores import column_scores, score
from imputers import method
from mixed_tables import (
    ALIKE,
    ALIKE_KEPT_BACK,
    CURVED,
    DEVELOPMENT,
    LONG,
    NUMBER,
    Coded,
    table,
    toy,
)
from pages import DOCUMENT, markdown, write_part
from runs import Runs

PLAIN, CORRECTED = "nonlinear=False", "mc.complete"
PEERS = ("IterativeImputer", "missForest")
LEAST_PROBABILITY = 1e-4


def emotions():
    """Songs: 72 features and 6 labels."""
    with np.load(pathlib.Path(os.environ["MCFRAME_DATA"]) / "emotions.npz") as file:
        frame = pd.DataFrame(file["X"], columns=file["feature_names"])
        labels = np.where(file["Y"] > 0, "yes", "no")
        return frame.assign(**dict(zip(file["label_names"], labels.T, strict=True)))


OTHERS = {"emotions": emotions}


def loaded(name):
    """A table by its name, coded."""
    return Coded.of(name, OTHERS[name]()) if name in OTHERS else table(name)


def measured(whole, given, which):
    """Seconds, scores of columns, and of our answers what is said of certainty."""
    frame = given.frame()
    began = time.process_time()
    if which not in (PLAIN, CORRECTED):
        filled = method(which).filled(frame)
        seconds = time.process_time() - began
        return {"seconds": seconds, "columns": column_scores(whole, given, given.codes_of(filled))}
    import mcframe as mc

    completed = mc.complete(frame, nonlinear=which == CORRECTED)
    filled = completed.table
    seconds = time.process_time() - began
    run = {"seconds": seconds, "columns": column_scores(whole, given, given.codes_of(filled))}
    run["corrected"] = int(completed.report()["error_uncorrected"].notna().sum())
    return run | certainty(whole, given, completed)


def certainty(whole, given, completed):
    """The means over columns of coverage, of the score of intervals, and of the log loss."""
    lower, upper = completed.interval(0.9)
    hidden = np.isnan(given.codes) & ~np.isnan(whole.codes)
    covered, widths, losses = [], [], []
    for place, column in enumerate(whole.columns):
        at, truth = hidden[:, place], whole.codes[hidden[:, place], place]
        if not at.any():
            continue
        if column.kind == NUMBER and column.name in lower:
            low, high = (end[column.name].to_numpy(float)[at] for end in (lower, upper))
            outside = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
            covered.append(float(np.mean(outside == 0.0)))
            widths.append(
                float(np.mean(high - low + 20.0 * outside)) / np.nanstd(whole.codes[:, place])
            )
        elif column.kind != NUMBER:
            answer = completed.predict(column.name)[at]
            seen = given.codes[~np.isnan(given.codes[:, place]), place]
            shares = np.bincount(seen.astype(int), minlength=len(column.values)) + 0.5
            constant = -np.log(shares / shares.sum())[truth.astype(int)].mean()
            p = np.zeros(truth.size)
            for code, value in enumerate(column.values):
                if value in answer:
                    p = np.where(truth == code, answer[value].to_numpy(float), p)
            losses.append(float(-np.log(np.maximum(p, LEAST_PROBABILITY)).mean() / constant))
    means = {"coverage": covered, "intervals": widths, "log_loss": losses}
    return {name: float(np.mean(part)) for name, part in means.items() if part}


def warm_up():
    """Imports and loops that are compiled, before any clock starts."""
    curve = masked(loaded("curves"), 0.2, 0)
    for which in (PLAIN, CORRECTED):
        measured(loaded("curves"), curve, which)
    for which in PEERS:
        method(which).warm_up(toy().frame())


def changes(runs, names, what):
    """The mean over tables of the change in per cent by the correction, and its standard error."""
    by_table = []
    for name in names:
        pairs = [
            (run, runs.get({**run, "method": CORRECTED}))
            for run in runs.known.values()
            if run["table"] == name and run["method"] == PLAIN
        ]
        ratios = [
            value(after, what) / value(before, what) - 1.0
            for before, after in pairs
            if after is not None and value(before, what) is not None
        ]
        if ratios:
            by_table.append(100.0 * float(np.mean(ratios)))
    if not by_table:
        return "–"
    error = np.std(by_table, ddof=1) / np.sqrt(len(by_table)) if len(by_table) > 1 else np.nan
    return (
        f"{np.mean(by_table):+.1f} ± {error:.1f}" if len(by_table) > 1 else f"{by_table[0]:+.1f}"
    )


def value(run, what):
    """A figure of a run."""
    return score(run["columns"]) if what == "score" else run.get(what)


def mean_of(runs, name, which, what):
    """The mean of a figure over the masks of a table, as text."""
    values = [
        value(run, what)
        for run in runs.known.values()
        if run["table"] == name and run["method"] == which and "failed" not in run
    ]
    values = [one for one in values if one is not None]
    return f"{np.mean(values):.3g}" if values else "–"


def lines(runs, names):
    """The part of the page."""
    seeds = sorted({run["seed"] for run in runs.known.values()})
    shares = sorted({run["share"] for run in runs.known.values()})
    about = machine()
    made = [
        f"{about['date']}, {about['processor']}, {about['cores']} cores,"
        f" Python {about['python']}.",
        "",
        f"Shares hidden {', '.join(f'{share:.0%}' for share in shares)};"
        f" seeds {', '.join(map(str, seeds))}. Changes by the correction, in per cent:",
        "",
    ]
    groups = {
        "curved relations": [name for name in names if name in CURVED],
        "rows that are alike": [name for name in names if name in ALIKE],
        "the same, kept back": [name for name in names if name in ALIKE_KEPT_BACK],
        "thousands of rows": [name for name in names if name in LONG],
        "tables used in development": [name for name in names if name in DEVELOPMENT],
        **{name: [name] for name in names if name in OTHERS},
    }
    figures = ("score", "intervals", "log_loss", "seconds")
    header = ["tables", "number", "score", "score of intervals", "log loss", "seconds"]
    rows = [
        [group, str(len(members)), *(changes(runs, members, what) for what in figures)]
        for group, members in groups.items()
        if members
    ]
    made += [*markdown(header, rows), "", "By table, means over masks:", ""]
    header = ["table", "columns corrected", PLAIN, CORRECTED, *PEERS]
    header += ["coverage", "with correction", "seconds", "with correction"]
    rows = []
    for name in names:
        row = [name, mean_of(runs, name, CORRECTED, "corrected")]
        row += [mean_of(runs, name, which, "score") for which in (PLAIN, CORRECTED, *PEERS)]
        for what in ("coverage", "seconds"):
            row += [mean_of(runs, name, which, what) for which in (PLAIN, CORRECTED)]
        rows.append(row)
    return [*made, *markdown(header, rows)]


def main():
    """Run what was not run, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    beside_peers = (*CURVED, *ALIKE, *ALIKE_KEPT_BACK)
    names = (*beside_peers, *LONG, *DEVELOPMENT, *(OTHERS if "MCFRAME_DATA" in os.environ else ()))
    parser.add_argument("--tables", nargs="+", default=names)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--page", action="store_true", help="write the part of the page")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), "nonlinear")
    )
    options = parser.parse_args()
    runs = Runs(options.out, ("table", "share", "seed", "method"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
    cells = list(itertools.product(options.seeds, options.tables, options.shares))
    ours = [(*cell, which) for cell in cells for which in (PLAIN, CORRECTED)]
    peers = [(*cell, which) for cell in cells for which in PEERS if cell[1] in beside_peers]
    for seed, name, share, which in (*ours, *peers):
        key = {"table": name, "share": share, "seed": seed, "method": which}
        if key in runs:
            continue
        whole = loaded(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run = key | measured(whole, masked(whole, share, seed), which)
            except Exception as error:  # of a peer
                if which in (PLAIN, CORRECTED):
                    raise
                run = key | {"failed": f"{type(error).__name__}: {error}"[:200], "columns": []}
        runs.add(run)
        runs.known[runs.key(run)] = run
    found = lines(runs, options.tables)
    print("\n".join(found))
    if options.page:
        write_part(DOCUMENT, "nonlinear", found)


if __name__ == "__main__":
    main()

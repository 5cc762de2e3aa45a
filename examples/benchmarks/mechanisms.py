"""``mc.complete`` where entries are missing for nine reasons, beside entries missing at random.

    OMP_NUM_THREADS=1 python examples/benchmarks/mechanisms.py [--tables iris wine ...]
        [--mechanisms mar censored ...] [--seeds 0 1] [--again] [--page] [--out DIR]

The tables are those of ``imputation.py`` that were used in development. For each mechanism of
``mc.datasets.hide`` as many entries of each column are hidden at random, too. Each run is a line
of ``runs.jsonl``, and what was run is not run again; ``--page`` writes the tables into
docs/quality.md.
"""

import argparse
import pathlib
import warnings

import numpy as np
from ablation import completed_run
from ablation_tables import Case
from compare import machine
from hidden_tables import MECHANISMS, hidden_alike, hidden_by
from imputation_scores import column_scores, score
from imputers import method
from mixed_tables import DEVELOPMENT, table, toy
from pages import DOCUMENT, markdown, write_part
from runs import Runs, seeds_of

import mcframe as mc

KEYS = ("table", "mechanism", "seed", "entries")
# The entries that a mechanism hides, and as many of each column at random.
MEANT, ALIKE = "by the mechanism", "at random"
SHARE = 0.3
PEERS = ("KNNImputer", "IterativeImputer")
# Of columns with fewer hidden numbers no coverage is told.
LEAST_HIDDEN = 50


def measured(whole, given):
    """What ``mc.complete`` says of hidden entries, how good it is, and scores of peers."""
    run = completed_run(Case(whole, given))
    hidden = np.isnan(given.codes) & ~np.isnan(whole.codes)
    run["hidden"] = float(hidden.sum() / np.sum(~np.isnan(whole.codes)))
    for name in PEERS:
        filled = given.codes_of(method(name).filled(given.frame()))
        run[name] = score(column_scores(whole, given, filled))
    return run


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
    known = {tuple(run[key] for key in KEYS): run for run in runs}
    meant = [run for run in runs if run["mechanism"] == mechanism and run["entries"] == MEANT]
    keys = [(run["table"], mechanism, run["seed"], ALIKE) for run in meant]
    return [(run, known[key]) for run, key in zip(meant, keys, strict=True) if key in known]


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
    ]


def scores_of(runs, mechanism):
    """The row of a mechanism in the table of methods: scores, and how often each is first."""
    pairs = pairs_of(runs, mechanism)
    keys = ("score", *PEERS)
    firsts = [min(keys, key=lambda key: meant[key]) for meant, _ in pairs]
    cells = [f"{mean_of(pairs, 0, key):.3f} ({firsts.count(key)})" for key in keys]
    return [mechanism, *cells, str(len(pairs))]


def errors_by_table(runs, mechanism, names):
    """The row of a mechanism in the table of tables."""
    found = by_table(pairs_of(runs, mechanism), lambda *both: relative(*both, 1))
    return [mechanism, *(f"{np.exp(np.mean(np.log(found[name]))):.2f}" for name in names)]


def lines(runs, about):
    """The report."""
    present = [name for name in MECHANISMS if pairs_of(runs, name)]
    names = [name for name in DEVELOPMENT if any(run["table"] == name for run in runs)]
    header = ["mechanism", "hidden", "error", "error of the constant", "score", "at random"]
    header += ["reported error", "at random", "intervals cover", "at random", "worst column"]
    return [
        f"{about['date']}, {about['processor']}, {seeds_of(runs)}.",
        "",
        *markdown(header, [row_of(runs, name) for name in present]),
        "",
        "Errors by table, relative to those at random:",
        "",
        *markdown(["mechanism", *names], [errors_by_table(runs, name, names) for name in present]),
        "",
        "Scores of methods, and on how many of the tables with hidden entries each is first:",
        "",
        *markdown(
            ["mechanism", "mc.complete", *PEERS, "tables"],
            [scores_of(runs, name) for name in present],
        ),
    ]


def main(arguments=None):
    """Run what has not been run, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=DEVELOPMENT, default=DEVELOPMENT)
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=MECHANISMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    parser.add_argument("--page", action="store_true", help="write the tables into the page")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("mechanisms-results"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    runs = Runs(options.out, KEYS, options.again)
    mc.complete(toy().frame())  # which compiles what is compiled
    wholes = {name: table(name) for name in options.tables}
    for seed in options.seeds:
        for name, whole in wholes.items():
            for how in options.mechanisms:
                given = hidden_by(whole, how, SHARE, seed)
                alike = hidden_alike(whole, given, seed)
                for entries, case in ((MEANT, given), (ALIKE, alike)):
                    run = dict(zip(KEYS, (name, how, seed, entries), strict=True))
                    if run not in runs:
                        runs.add(run | measured(whole, case))
    report = lines(runs.latest(), machine())
    runs.write_table(report)
    if options.page:
        write_part(DOCUMENT, "mechanisms", report)


if __name__ == "__main__":
    main()

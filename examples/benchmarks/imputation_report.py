"""The tables of a comparison of ways to fill tables, from its runs alone.

python examples/benchmarks/imputation_report.py DIR
"""

import json
import pathlib
import statistics
import sys

import numpy as np
from imputation_scores import score
from imputers import METHODS
from mixed_tables import (
    CATEGORY,
    CURVED,
    DEVELOPMENT,
    NUMBER,
    ORDINAL,
    SET_ASIDE_FIRST,
    SET_ASIDE_LATER,
    TABLES,
)
from pages import markdown
from runs import Runs, seeds_of
from scipy.stats import rankdata

__all__ = ["KEYS", "lines", "mean_ranks"]

# What identifies a run.
KEYS = ("table", "share", "seed", "method")

GROUPS = {
    "Tables used in development": DEVELOPMENT,
    "Tables with curved relations, used in development": CURVED,
    "Tables set aside": SET_ASIDE_FIRST,
    "Tables set aside later": SET_ASIDE_LATER,
}
KINDS = {"all": (NUMBER, CATEGORY, ORDINAL), "numbers": (NUMBER,), "others": (CATEGORY, ORDINAL)}


def lines(runs, about):
    """The report: what was measured where, then tables of development and tables set aside."""
    told = [*introduction(about), ""]
    groups = {title: [run for run in runs if run["table"] in GROUPS[title]] for title in GROUPS}
    groups = {title: here for title, here in groups.items() if here}
    if len(groups) > 1:
        told += ["### All tables", "", *summary(runs, about), ""]
    for title, here in groups.items():
        told += [f"### {title}", "", *summary(here, about), "", *by_table(here), ""]
    return told[:-1]


def introduction(about):
    """The machine and the versions."""
    machine, versions = about["machine"], about["versions"]
    named = ", ".join(f"{package} {version}" for package, version in versions.items())
    return [
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, Python"
        f" {machine['python']}. {named}."
    ]


def summary(runs, about):
    """Ranks, scores and seconds by method."""
    shares = sorted({run["share"] for run in runs})
    names = methods_of(runs)
    everywhere = methods_everywhere(runs)
    ranks, n_cells = mean_ranks([run for run in runs if run["method"] in everywhere], everywhere)
    header = ["method", *(f"rank, {share:.0%}" for share in shares)]
    header += [f"score, {share:.0%}" for share in shares]
    header += ["numbers", "categories, levels", "seconds", "failed", "note"]
    rows = []
    for name in everywhere:
        own = of(runs, method=name)
        row = [name, *(shown(ranks[name].get(share)) for share in shares)]
        row += [shown(mean_score(own, "all", share)) for share in shares]
        row += [shown(mean_score(own, kind)) for kind in ("numbers", "others")]
        row += [median_seconds(own), count_of_failures(own), notes()[name]]
        rows.append(row)
    absent = {k: v for k, v in about["absent"].items() if k not in names}
    rows += [[name, *[""] * (len(header) - 2), why] for name, why in absent.items()]
    told = [f"{seeds_of(runs).capitalize()}. Ranks are means over {n_cells} masked tables.", ""]
    told += markdown(header, rows)
    return told + (beside_ours(runs) if everywhere != names else [])


def by_table(runs):
    """Mean scores by table, and why runs failed."""
    told = ["By table, the mean score over shares and seeds:", ""]
    tables = [name for name in TABLES if of(runs, table=name)]
    rows = [
        [name, *(shown(mean_score(of(runs, table=table, method=name), "all")) for table in tables)]
        for name in methods_of(runs)
    ]
    failures = sorted({f"{run['method']}: {run['failed']}" for run in runs if "failed" in run})
    told += markdown(["method", *tables], rows)
    return [*told, *(["", "Failures: " + "; ".join(failures) + "."] if failures else [])]


def methods_everywhere(runs):
    """The methods that were run on all masked tables, in the order of the list."""
    cells = {name: {cell_of(run) for run in of(runs, method=name)} for name in methods_of(runs)}
    every = set().union(*cells.values())
    return [name for name, its_cells in cells.items() if its_cells == every]


def cell_of(run):
    """What identifies a masked table."""
    return run["table"], run["share"], run["seed"]


def beside_ours(runs):
    """The table of the others beside mcframe on the masked tables that both were run on."""
    ours = [method.name for method in METHODS if method.ours and of(runs, method=method.name)]
    header = ["method", "masked tables", "score"]
    header += [text for name in ours for text in (name, "is better on")]
    header += ["seconds", "failed", "note"]
    rows = []
    for name in methods_of(runs):
        if name in ours:
            continue
        answers = {one: scores_of(of(runs, method=one)) for one in (name, *ours)}
        cells = set.intersection(*map(set, answers.values()))
        here = [run for run in runs if cell_of(run) in cells]
        row = [name, str(len(cells)), shown(mean_score(of(here, method=name), "all"))]
        for reference in ours:
            better = sum(answers[reference][cell] < answers[name][cell] for cell in cells)
            row += [shown(mean_score(of(here, method=reference), "all")), str(better)]
        own = of(runs, method=name)
        rows.append([*row, median_seconds(own), count_of_failures(own), notes()[name]])
    if not ours or not rows:
        return []
    told = "Beside mcframe, on the masked tables that both were run on and that did not fail:"
    return ["", told, "", *markdown(header, rows)]


def scores_of(runs):
    """The scores of a method by masked table, of those that did not fail."""
    return {cell_of(run): score(run["columns"]) for run in runs if "failed" not in run}


def median_seconds(runs):
    """The median of the seconds, as text."""
    seconds = [run["seconds"] for run in runs if "seconds" in run]
    return f"{statistics.median(seconds):.2g}" if seconds else "–"


def count_of_failures(runs):
    """How many of the runs failed, as text, empty where none did."""
    n_failed = sum("failed" in run for run in runs)
    return f"{n_failed} of {len(runs)}" if n_failed else ""


def of(runs, **wanted):
    """The runs with these properties."""
    return [run for run in runs if all(run[key] == value for key, value in wanted.items())]


def notes():
    """How each method is set."""
    return {method.name: method.note for method in METHODS}


def methods_of(runs):
    """The methods that were run, in the order of the list."""
    ran = {run["method"] for run in runs}
    return [method.name for method in METHODS if method.name in ran]


def scores_where_all_ran(runs, names):
    """By masked table on which all were run the score of each method, infinite where it failed."""
    cells = {}
    for run in runs:
        value = None if "failed" in run else score(run["columns"])
        scores = cells.setdefault(cell_of(run), {})
        scores[run["method"]] = np.inf if value is None else value
    return {cell: scores for cell, scores in cells.items() if len(scores) == len(names)}


def mean_ranks(runs, names):
    """By method and share the mean rank over masked tables where all were run, and their number.

    What failed has the last rank.
    """
    complete = scores_where_all_ran(runs, names)
    gathered = {name: {} for name in names}
    for (_, share, _), cell in complete.items():
        for name, rank in zip(names, rankdata([cell[name] for name in names]), strict=True):
            gathered[name].setdefault(share, []).append(float(rank))
    means = {n: {s: statistics.mean(r) for s, r in by.items()} for n, by in gathered.items()}
    return means, len(complete)


def mean_score(runs, kind, share=None):
    """The mean over tables of the means over their runs, of columns of some kinds."""
    by_table = {}
    for run in runs:
        if "failed" in run or share not in (None, run["share"]):
            continue
        value = score(run["columns"], KINDS[kind])
        if value is not None:
            by_table.setdefault(run["table"], []).append(value)
    return statistics.mean(map(statistics.mean, by_table.values())) if by_table else None


def shown(number):
    """Three digits, or that there is none."""
    return "–" if number is None else f"{number:.3g}"


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    about = json.loads((folder / "about.json").read_text())
    print("\n".join(lines(Runs(folder, KEYS).latest(), about)))

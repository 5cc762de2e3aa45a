"""The tables of an ablation of ``mc.complete``, from its runs alone.

python examples/benchmarks/ablation_report.py DIR
"""

import pathlib
import sys

import numpy as np
from pages import markdown
from runs import Runs, seeds_of

__all__ = ["KEYS", "WHOLE", "lines"]

# What identifies a run.
KEYS = ("group", "table", "pattern", "seed", "variant")
WHOLE = "everything"
TITLES = {
    "real": "Tables of packages",
    "drawn": "Drawn tables",
    "labels": "Labels of partly labelled rows, by the classifier",
    "set aside": "Tables set aside",
}


def relative(name):
    """The change of a number in per cent of what it is with everything."""
    return lambda whole, other: 100.0 * (other[name] / whole[name] - 1.0)


def in_points(name):
    """The change of a share in points."""
    return lambda whole, other: 100.0 * (other[name] - whole[name])


def of_reports(whole, other):
    """How much farther reported errors are from the true ones, in per cent of these."""
    return 100.0 * (abs(np.log(other["reported"])) - abs(np.log(whole["reported"])))


# What is compared: its title, what a run needs for it, and the change.
MEASURES = {
    "score, %": ("score", relative("score")),
    "log loss, %": ("log_loss", relative("log_loss")),
    "coverage, points": ("coverage", in_points("coverage")),
    "score of intervals, %": ("interval_score", relative("interval_score")),
    "reported errors off by, %": ("reported", of_reports),
    "AUC, points": ("auc", in_points("auc")),
}


def lines(runs):
    """The report: a table for each group of tables, and the drawn tables one by one."""
    cells = {}
    for run in runs:
        key = tuple(run[name] for name in KEYS[:-1])
        cells.setdefault(key, {})[run["variant"]] = run
    cells = {key: cell for key, cell in cells.items() if WHOLE in cell}
    variants = [v for v in dict.fromkeys(run["variant"] for run in runs) if v != WHOLE]
    report = []
    for group, title in TITLES.items():
        inside = {key: cell for key, cell in cells.items() if key[0] == group}
        if inside:
            report += [f"{title}, {what(inside)}:", "", *section(inside, variants), ""]
    drawn = {key: cell for key, cell in cells.items() if key[0] == "drawn"}
    if drawn:
        report += ["Drawn tables one by one, score in per cent and coverage in points:", ""]
        report += [*by_table(drawn, variants), ""]
    return report[:-1]


def what(cells):
    """How many tables, and the seeds."""
    runs = [cell[WHOLE] for cell in cells.values()]
    tables = len({run["table"] for run in runs})
    return f"{len(cells)} masked ones of {tables}, {seeds_of(runs)}"


def pairs(cells, variant):
    """The runs with everything and without a mechanism, by table; equal where it is idle."""
    of_tables = {}
    for (_, table, _, _), cell in cells.items():
        whole, other = cell[WHOLE], cell.get(variant)
        if other is None and variant in whole.get("idle", ()):
            other = whole
        if other is not None:
            of_tables.setdefault(table, []).append((whole, other))
    return of_tables


def changes(of_tables, name, change):
    """The mean change of each table that has this number."""
    means = []
    for runs in of_tables.values():
        values = [change(*pair) for pair in runs if all(run.get(name) for run in pair)]
        if values:
            means.append(np.mean(values))
    return np.array(means)


def section(cells, variants):
    """A row for each mechanism: mean changes over tables with standard errors, median seconds."""
    measures = {
        title: rule
        for title, rule in MEASURES.items()
        if any(rule[0] in cell[WHOLE] for cell in cells.values())
    }
    rows = []
    for variant in variants:
        of_tables = pairs(cells, variant)
        acting = [(w, o) for runs in of_tables.values() for w, o in runs if w is not o]
        if not acting:
            continue
        row = [variant, f"{len(acting)} of {sum(map(len, of_tables.values()))}"]
        for name, change in measures.values():
            row.append(with_error(changes(of_tables, name, change)))
        saved = [1.0 - other["seconds"] / whole["seconds"] for whole, other in acting]
        rows.append([*row, f"{100.0 * np.median(saved):.0f} %"])
    header = ["without", "acts on", *measures, "seconds saved there"]
    return markdown(header, rows)


def with_error(values):
    """A mean over tables and its standard error."""
    if not values.size:
        return "–"
    if values.size == 1:
        return f"{values[0]:+.2f}"
    error = np.std(values, ddof=1) / np.sqrt(values.size)
    return f"{np.mean(values):+.2f} ± {error:.2f}"


def by_table(cells, variants):
    """A row for each table: the changes without each mechanism, empty where it does not act."""
    names = list(dict.fromkeys(key[1] for key in cells))
    rows = []
    for name in names:
        inside = {key: cell for key, cell in cells.items() if key[1] == name}
        row = [name]
        for variant in variants:
            of_tables = pairs(inside, variant)
            if all(w is o for runs in of_tables.values() for w, o in runs):
                row.append("")
                continue
            parts = []
            for title in ("score, %", "coverage, points"):
                values = changes(of_tables, *MEASURES[title])
                parts.append(f"{values[0]:+.1f}" if values.size else "–")
            row.append(", ".join(parts))
        rows.append(row)
    kept = [k for k in range(len(variants) + 1) if k == 0 or any(row[k] for row in rows)]
    header = ["table", *variants]
    return markdown([header[k] for k in kept], [[row[k] for k in kept] for row in rows])


if __name__ == "__main__":
    print("\n".join(lines(Runs(pathlib.Path(sys.argv[1]), KEYS).latest())))

"""Labels with holes: mcframe's classifier beside one classifier for each label.

    python examples/benchmarks/multilabel.py [--data emotions yeast CAL500] [--shares 0.4 0.6 0.8]
        [--seeds 0 1 2] [--methods ...] [--new-rows] [--again] [--page] [--quick] [--out DIR]

Data are those of ``$MCFRAME_DATA``. Of the labels a share is hidden, entry by entry, so that most
rows are partly labelled; the features are whole. Every method sees the same table and is judged
by the hidden labels. Each chooses one of ``N_SETTINGS`` settings, for all labels together, by
labels held out in three folds, drawn alike: mcframe by their log loss, which is its default, the
others by their Brier score, since neighbours are sometimes certain and wrong. With ``--new-rows``
a quarter of the rows is left out of the fit, and the methods are judged by all labels of these.
"""

import argparse
import pathlib
import statistics
import time
import warnings

import numpy as np
from pages import DOCUMENT, markdown, write_part
from runs import Runs, seeds_of

import mcframe as mc
from mcframe.datasets import read_multilabel
from mcframe.estimators import MatrixCompletionClassifier
from mcframe.selection import EntryFolds, folds_of

DATA = ("emotions", "yeast", "CAL500")
N_SETTINGS = 12
NEW = ", new rows"
NEIGHBOURS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 70, 100)
STRENGTHS = np.logspace(-4, 1.5, N_SETTINGS)
ROUNDS = (5, 10, 15, 20, 30, 40, 50, 65, 80, 100, 125, 150)


def hidden_labels(labels, share, seed):
    """Where labels are hidden; one positive and one negative of each label stay at least."""
    rng = np.random.default_rng([seed, round(100 * share)])
    hidden = rng.random(labels.shape) < share
    for column, truth in zip(hidden.T, labels.T, strict=True):
        for value in (0.0, 1.0):
            own = np.flatnonzero(truth == value)
            if own.size and column[own].all():
                column[rng.choice(own)] = False
    return hidden


def held_labels(features, labels):
    """The places of held-out labels of three folds, drawn as mcframe draws them."""
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli())]
    data = {"x": features, "y": labels}
    problem = mc.Problem.bind(mc.Model(blocks, [mc.NuclearNorm(1.0)]), data)
    drawn = folds_of(EntryFolds(3), problem, data)
    return [(fold.held["y"].rows, fold.held["y"].columns) for fold in drawn]


def new_rows(n_rows, share, seed):
    """A quarter of the rows, at random."""
    return np.random.default_rng([seed, round(100 * share), 1]).permutation(n_rows) % 4 == 0


def matrix_completion(features, labels, new):
    """``MatrixCompletionClassifier()`` of all rows but the new ones."""
    fitted = MatrixCompletionClassifier().fit(features[~new], labels[~new])
    return fitted.predict_proba(features)


def tuned(predictions):
    """A method that fits every setting to each label, and takes the one best on held-out labels.

    ``predictions(features, seen, labels)`` are the probabilities of one label in all rows, one
    column a setting, from the rows where it is seen.
    """

    def method(features, labels, _new):
        from sklearn.preprocessing import StandardScaler

        features = StandardScaler().fit_transform(features)
        errors = np.zeros(N_SETTINGS)
        for rows, columns in held_labels(features, labels):
            less = labels.copy()
            less[rows, columns] = np.nan
            for label in np.unique(columns):
                held = rows[columns == label]
                found = each_setting(predictions, features, less[:, label])[held]
                errors += ((found - labels[held, label][:, None]) ** 2).sum(axis=0)
        best = int(np.argmin(errors))
        found = [each_setting(predictions, features, column)[:, best] for column in labels.T]
        return np.column_stack(found)

    return method


def each_setting(predictions, features, label):
    """The predictions of each setting; of a label that is seen with one value, that value."""
    seen = np.flatnonzero(~np.isnan(label))
    if np.ptp(label[seen]) == 0.0:
        return np.full((len(label), N_SETTINGS), label[seen[0]])
    return predictions(features, seen, label[seen].astype(int))


def logistic(features, seen, label):
    """Logistic regressions of rising C."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000, warm_start=True)
    found = []
    for strength in STRENGTHS:
        model.set_params(C=strength).fit(features[seen], label)
        found.append(model.predict_proba(features)[:, 1])
    return np.column_stack(found)


def boosting(features, seen, label):
    """Gradient boosting after more and more rounds, of which one fit has all."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=ROUNDS[-1], learning_rate=0.05, early_stopping=False, random_state=0
    ).fit(features[seen], label)
    stages = list(model.staged_predict_proba(features))
    return np.column_stack([stages[rounds - 1][:, 1] for rounds in ROUNDS])


def neighbours(features, seen, label):
    """Shares of positive ones among the nearest k rows."""
    from sklearn.neighbors import NearestNeighbors

    most = min(NEIGHBOURS[-1], len(seen))
    search = NearestNeighbors(n_neighbors=most).fit(features[seen])
    places = search.kneighbors(features, return_distance=False)
    shares = np.cumsum(label[places], axis=1) / np.arange(1, most + 1)
    return np.column_stack([shares[:, min(k, most) - 1] for k in NEIGHBOURS])


METHODS = {
    "MatrixCompletionClassifier": matrix_completion,
    "logistic regression": tuned(logistic),
    "HistGradientBoosting": tuned(boosting),
    "nearest neighbours": tuned(neighbours),
}


def judged(found, labels, hidden):
    """The share of hidden labels that is wrong, and the mean AUC over labels."""
    from sklearn.metrics import roc_auc_score

    error = np.mean((found[hidden] > 0.5) != (labels[hidden] > 0.5))
    areas = [
        roc_auc_score(truth[at], probability[at])
        for truth, probability, at in zip(labels.T, found.T, hidden.T, strict=True)
        if at.any() and np.ptp(truth[at]) > 0.0
    ]
    return {"error": float(error), "auc": float(np.mean(areas))}


def run_once(name, data, hidden, new):
    """One method on one table with holes, judged by the new rows alone if there are some."""
    hidden = hidden | new[:, None]
    labels = np.where(hidden, np.nan, data.labels)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        found = METHODS[name](data.features, labels, new)
    seconds = time.process_time() - began
    if new.any():
        hidden &= new[:, None]
    return {"seconds": seconds, **judged(found, data.labels, hidden)}


def report(runs):
    """A row for each data set and share: the mean over seeds of each method."""
    lines = []
    for measure, title in (("error", "Share of hidden labels wrong"), ("auc", "Macro AUC")):
        rows = []
        for data in [*DATA, *(f"{name}{NEW}" for name in DATA)]:
            for share in sorted({run["share"] for run in runs if run["data"] == data}):
                cells = [means(runs, data, share, name, measure) for name in METHODS]
                rows.append([data, f"{share:.0%}", *cells])
        lines += [f"{title}, means over {seeds_of(runs)}:", ""]
        lines += [*markdown(["data", "hidden", *METHODS], rows), ""]
    seconds = [
        [data, *(means(runs, data, None, name, "seconds") for name in METHODS)]
        for data in DATA
        if any(run["data"] == data for run in runs)
    ]
    return [
        *lines,
        "Seconds of the processor, mean of a run:",
        "",
        *markdown(["data", *METHODS], seconds),
    ]


def means(runs, data, share, method, measure):
    """The mean of a measure over runs, over all shares for None."""
    values = [
        run[measure]
        for run in runs
        if (run["data"], run["method"]) == (data, method) and share in (None, run["share"])
    ]
    return f"{statistics.mean(values):.3g}" if values else "–"


def parsed(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--shares", nargs="+", type=float, default=(0.4, 0.6, 0.8))
    parser.add_argument("--seeds", nargs="+", type=int, default=range(3))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--new-rows", action="store_true", help="predict rows without labels")
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    parser.add_argument("--page", action="store_true", help="write tables into docs/quality.md")
    parser.add_argument("--quick", action="store_true", help="60 rows of each, 3 labels")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("multilabel-results"))
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run what has not been run, then write the report."""
    options = parsed(arguments)
    runs = Runs(options.out, ("data", "share", "seed", "method"), options.again)
    for seed in options.seeds:
        for name in options.data:
            data = read_multilabel(f"{name}.npz")
            if options.quick:
                data = mc.datasets.MultiLabel(name, data.features[:60], data.labels[:60, :3])
            for share in options.shares:
                hidden = hidden_labels(data.labels, share, seed)
                new = new_rows(len(hidden), share, seed) & options.new_rows
                told = f"{name}{NEW}" if options.new_rows else name
                for method in options.methods:
                    run = {"data": told, "share": share, "seed": seed, "method": method}
                    if run not in runs:
                        runs.add(run | run_once(method, data, hidden, new))
    lines = report(runs.latest())
    runs.write_table(lines)
    if options.page:
        write_part(DOCUMENT, "multilabel", lines)


if __name__ == "__main__":
    main()

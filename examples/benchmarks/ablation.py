"""The mechanisms of ``mc.complete`` switched off one at a time: errors, coverage and seconds.

    MCFRAME_DATA=... python examples/benchmarks/ablation.py [--groups real drawn labels]
        [--tables ...] [--seeds 0 1 2] [--variants ...] [--again] [--page] [--out DIR]

Every variant fills the same tables with the same entries hidden, in one process, and is compared
with the whole of ``mc.complete`` table by table. A run is a line of ``runs.jsonl`` as soon as it
is done, and runs of mechanisms that were removed since then stay in the report; ``--page`` writes
it into docs/quality.md.
"""

import argparse
import contextlib
import functools
import os
import pathlib
import time
import warnings
from unittest import mock

import numpy as np
from ablation_report import KEYS, WHOLE, lines
from ablation_tables import DRAWN, PATTERNS, drawn_case, real_case
from imputation_scores import column_scores, score
from mixed_tables import DEVELOPMENT, NUMBER, SET_ASIDE, toy
from pages import DOCUMENT, add_page, write_part
from runs import Runs

import mcframe as mc
from mcframe.tables import missingness, pipeline, rows_choice, rows_folds
from mcframe.tables.discriminant import Discriminant
from mcframe.tables.indicator_codings import Indicators
from mcframe.tables.platt_scaling import PRIOR_SLOPE

LEVEL = 0.9
NOTHING = "all of these"


def ones(counts):
    """A factor of 1 for each column."""
    return np.ones(np.shape(counts))


def no_powers(squares, variances):
    """An exponent of 1 for each column."""
    return np.ones(squares.shape[1])


# What takes the place of a part of the library where a mechanism is switched off.
SWITCHES = {
    "mixtures of rows": [(pipeline, "COMPONENTS_TRIED", ())],
    "shares of variances": [(pipeline.CodedTable, "learns_shares", False)],
    "co-missing masks": [(missingness, "LEAST_EXCESS_MISSING", np.inf)],
    "weights by missingness": [(missingness, "LEAST_AUC", np.inf)],
    "exponents of variances": [(rows_choice, "variance_exponents_of", no_powers)],
    "Student factors": [
        (rows_choice, "student_variance_inflation", ones),
        (rows_folds, "student_variance_inflation", ones),
    ],
    "noise of features": [(rows_folds.RowsFold, "targets_inform_targets", False)],
    "discriminant": [
        (Discriminant, "of", lambda *_: None),
        (Indicators, "usual_slope", PRIOR_SLOPE),
    ],
}
VARIANTS = (WHOLE, *SWITCHES, NOTHING)
# Those that the classifier of labels has.
OF_LABELS = (WHOLE, "exponents of variances", "Student factors", "noise of features", NOTHING)


def idle(case, completed):
    """The mechanisms that a completion had no use for: without them it is the same."""
    missing = np.isnan(case.hidden.codes)
    codings = [column.coding for column in completed.declared.columns]
    acts = {
        "co-missing masks": bool(
            missingness.CoMissingness.of_columns(missing, np.random.default_rng(0))
        ),
        "weights by missingness": any(score.weighted for score in completed.scores if score),
        "noise of features": False,
        "discriminant": any(isinstance(of_column, Indicators) for of_column in codings),
    }
    return [name for name, does in acts.items() if not does]


@contextlib.contextmanager
def switched_off(variant):
    """The library without a mechanism, or without all."""
    names = {WHOLE: (), NOTHING: tuple(SWITCHES)}.get(variant, (variant,))
    with contextlib.ExitStack() as stack:
        for name in names:
            for owner, attribute, replacement in SWITCHES[name]:
                stack.enter_context(mock.patch.object(owner, attribute, replacement))
        yield


def completed_run(case, **options):
    """What ``mc.complete`` costs on a table, and how good its answers are."""
    frame, truth = case.hidden.frame(), case.whole
    began = time.process_time()
    completed = mc.complete(frame, **options)
    seconds = time.process_time() - began
    columns = column_scores(truth, case.hidden, case.hidden.codes_of(completed.table))
    run = {"seconds": seconds, "score": score(columns), "chosen": str(completed.chosen)}
    run |= {"columns": columns, "idle": idle(case, completed)}
    run |= {"ends": sum(column.has_detected_limits for column in completed.declared.columns)}
    hidden = np.isnan(case.hidden.codes) & ~np.isnan(truth.codes)
    return (
        run | of_intervals(case, completed, hidden) | of_others(case, completed, hidden, columns)
    )


def uncorrected_run(case):
    """The same without the correction by trees, which is compared by ``nonlinear.py``."""
    return completed_run(case, nonlinear=False)


def of_intervals(case, completed, hidden):
    """Coverage of intervals of hidden numbers, and their scores over standard deviations.

    The score of an interval is its length, and 2 / (1 - level) times the distance of a number that
    lies outside (Gneiting and Raftery, Strictly proper scoring rules, 2007).
    """
    lower, upper = completed.interval(LEVEL)
    inside, scores = {}, []
    for place, column in enumerate(case.whole.columns):
        rows = hidden[:, place]
        if column.kind != NUMBER or column.name not in lower or not rows.any():
            continue
        truth, observed = case.whole.codes[rows, place], case.hidden.codes[:, place]
        low, high = (np.asarray(end[column.name], dtype=float)[rows] for end in (lower, upper))
        outside = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
        inside[column.name] = outside == 0.0
        length = (high - low) + 2.0 / (1.0 - LEVEL) * outside
        scores.append(np.mean(length) / (np.nanstd(observed) or 1.0))
    if not inside:
        return {}
    by_column = {
        name: [of_column.size, int(of_column.sum())] for name, of_column in inside.items()
    }
    inside = np.concatenate(list(inside.values()))
    run = {"coverage": float(np.mean(inside)), "hidden_numbers": inside.size}
    run["covered"] = by_column
    return run | {"interval_score": float(np.mean(scores))}


def of_others(case, completed, hidden, columns):
    """Losses of the probabilities over those of shares, and reported over true errors."""
    losses, ratios = [], []
    places = [place for place in range(len(case.whole.columns)) if hidden[:, place].any()]
    for place, (_, error, _) in zip(places, columns, strict=True):
        column, rows = case.whole.columns[place], hidden[:, place]
        scores = completed.scores[place]
        if scores is not None and error > 0.0 and scores.error > 0.0:
            ratios.append(np.log(scores.error / error))
        if column.kind == NUMBER or completed.declared.columns[place].place is None:
            continue
        probabilities = completed.predict(column.name)
        names = [str(name) for name in probabilities.columns]
        chances = np.full((rows.sum(), len(column.values)), 0.0)
        for k, value in enumerate(column.values):
            if value in names:
                chances[:, k] = probabilities.iloc[:, names.index(value)].to_numpy()[rows]
        codes = case.whole.codes[rows, place].astype(int)
        observed = case.hidden.codes[:, place]
        observed = observed[~np.isnan(observed)].astype(int)
        shares = np.bincount(observed, minlength=len(column.values)) + 0.5
        at = np.arange(codes.size), codes
        loss = -np.mean(np.log(np.maximum(chances[at], 1e-4)))
        losses.append(loss / -np.mean(np.log((shares / shares.sum())[codes])))
    run = {}
    if losses:
        run["log_loss"] = float(np.mean(losses))
    if ratios:
        run["reported"] = float(np.exp(np.mean(ratios)))
    return run


def labels_run(data, share, seed):
    """What the classifier costs on a table of labels, and how good its answers are."""
    from multilabel import hidden_labels
    from sklearn.metrics import roc_auc_score

    features, labels = data
    hidden = hidden_labels(labels, share, seed)
    began = time.process_time()
    fitted = mc.estimators.MatrixCompletionClassifier().fit(
        features, np.where(hidden, np.nan, labels)
    )
    chances = fitted.predict_proba(features)
    seconds = time.process_time() - began
    errors, losses, areas = [], [], []
    for column, chance, at in zip(labels.T, chances.T, hidden.T, strict=True):
        truth, p, rate = column[at], chance[at], np.mean(column[~at])
        if not truth.size or np.ptp(truth) == 0.0:
            continue
        areas.append(roc_auc_score(truth, p))
        of_chance = np.where(truth > 0.5, p, 1.0 - p)
        of_share = np.where(truth > 0.5, rate, 1.0 - rate)
        losses.append(np.mean(np.log(np.maximum(of_chance, 1e-4))) / np.mean(np.log(of_share)))
        constant = np.mean((truth > 0.5) != (rate > 0.5))
        errors.append(np.mean((p > 0.5) != (truth > 0.5)) / constant)
    run = {"seconds": seconds, "score": float(np.mean(errors)), "auc": float(np.mean(areas))}
    return run | {"log_loss": float(np.mean(losses)), "chosen": str(fitted.prior_search_)}


def drawn_labels(seed):
    """Six labels upon one factor, and thirty features, of which all but one tell nothing."""
    rng = np.random.default_rng([seed, 30])
    factor = rng.standard_normal((200, 1))
    labels = factor + 0.7 * rng.standard_normal((200, 6)) > 0.0
    features = rng.standard_normal((200, 30))
    features[:, :1] += factor
    return features, labels.astype(float)


def features_and_labels(name):
    """A table of ``$MCFRAME_DATA``."""
    with np.load(pathlib.Path(os.environ["MCFRAME_DATA"]) / f"{name}.npz") as file:
        return file["X"].astype(float), file["Y"].astype(float)


# Tables of features and labels, each a function of the seed.
LABELS = {
    "emotions": lambda _: features_and_labels("emotions"),
    "yeast": lambda _: features_and_labels("yeast"),
    "drawn labels": drawn_labels,
}


def cells(groups, seeds):
    """What identifies a cell of the comparison, and the function that runs it, seed by seed."""
    for seed in seeds:
        for group, names in (("real", DEVELOPMENT), ("set aside", SET_ASIDE)):
            if group not in groups:
                continue
            for name in names:
                for pattern in PATTERNS:
                    case = real_case(name, pattern, seed)
                    yield (group, name, pattern, seed), functools.partial(uncorrected_run, case)
        if "drawn" in groups:
            for name in DRAWN:
                case = drawn_case(name, seed)
                yield ("drawn", name, "as drawn", seed), functools.partial(uncorrected_run, case)
        if "labels" in groups:
            for name, load in LABELS.items():
                for share in (0.4, 0.8):
                    data = load(seed)
                    run_cell = functools.partial(labels_run, data, share, seed)
                    yield ("labels", name, f"{share:.0%}", seed), run_cell


def main(arguments=None):
    """Run what has not been run, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", nargs="+", default=["drawn", "real", "labels"])
    parser.add_argument("--tables", nargs="+", help="of these names alone")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    add_page(parser, "ablation")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("ablation-results"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    runs = Runs(options.out, KEYS, options.again)
    mc.complete(toy().frame())  # which compiles what is compiled
    for key, run_cell in cells(options.groups, options.seeds):
        if options.tables and key[1] not in options.tables:
            continue
        whole = dict(zip(KEYS, (*key, WHOLE), strict=True))
        idle_here = (runs.get(whole) or {}).get("idle", ())
        for variant in options.variants:
            run = whole | {"variant": variant}
            if run in runs or (key[0] == "labels" and variant not in OF_LABELS):
                continue
            if variant in idle_here:
                continue
            with switched_off(variant):
                run |= run_cell()
            runs.add(run)
            if variant == WHOLE:
                idle_here = run.get("idle", ())
    report = lines(runs.latest())
    runs.write_table(report)
    if options.page:
        write_part(DOCUMENT, options.page, report)


if __name__ == "__main__":
    main()

"""The demo from the first line that it prints to the last."""

import time
import warnings
from pathlib import Path

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, NotCertifiedWarning, UnobservedWarning
from mcframe.datasets import MultiLabel, digits, read_multilabel
from mcframe.demo.experiment import (
    Baseline,
    Errors,
    Experiment,
    GridScores,
    best_baseline,
    declare,
    fit_baseline,
    prepare,
    search,
)
from mcframe.fitting import fit
from mcframe.plots import draw_pixels

HIDDEN_FEATURES, HIDDEN_LABELS = 0.5, 0.75
# Of the observed entries, for choosing the declaration.
SET_ASIDE = 0.1
PICTURE = "demo.png"


@attrs.frozen
class Demo:
    """The arguments of ``python -m mcframe demo``."""

    data: str | None = None
    items: int | None = None
    seed: int = 0
    weight: float | None = None
    picture: str | None = None
    tol: float = 1e-6


def demonstrate(demo: Demo) -> Fit:
    """Hide entries of a table, complete it with a certificate, compare with a baseline; print all.

    Raises
    ------
    DataError
        Where the file cannot be read or the table is too small.
    """
    rng = np.random.default_rng(demo.seed)
    data = table(demo, rng)
    pictures = demo.data is None
    experiment = prepare(
        data,
        hidden_features=HIDDEN_FEATURES,
        hidden_labels=HIDDEN_LABELS,
        standardise=not pictures,
        rng=rng,
    )
    describe(data, experiment, demo)
    answer, baseline, seconds = contest(experiment, demo, rng)
    compare(experiment, answer, baseline, seconds)
    if pictures:
        draw(data, experiment, answer, baseline, demo.picture or PICTURE)
    return answer


def contest(
    experiment: Experiment, demo: Demo, rng: np.random.Generator
) -> tuple[Fit, Baseline, Array]:
    """Choose and fit, first mcframe, then the baseline; the four durations in this order."""
    times = [time.perf_counter()]
    validation = experiment.hide_more(SET_ASIDE, rng)
    scale, weight = declaration(validation, demo)
    times.append(time.perf_counter())
    answer = complete(experiment, scale, weight, demo)
    times.append(time.perf_counter())
    strength = best_baseline(validation)
    times.append(time.perf_counter())
    baseline = fit_baseline(experiment, strength)
    times.append(time.perf_counter())
    return answer, baseline, np.diff(times)


def table(demo: Demo, rng: np.random.Generator) -> MultiLabel:
    """Read the data, or a random part of their rows."""
    data = digits() if demo.data is None else read_multilabel(demo.data)
    if demo.items is None or demo.items >= data.n_items:
        return data
    return data.rows(np.sort(rng.choice(data.n_items, size=demo.items, replace=False)))


def describe(data: MultiLabel, experiment: Experiment, demo: Demo) -> None:
    """Print what the data are, and what of them is hidden."""
    print("Two blocks of one table, completed together: features and yes/no labels")
    headline("The data")
    print(data)
    print(
        f"hidden at random (seed {demo.seed}): {experiment.hidden_features.sum()} features"
        f" ({HIDDEN_FEATURES:.0%}), {experiment.hidden_labels.sum()} labels ({HIDDEN_LABELS:.0%})"
    )
    if demo.data is None:
        print("units of the features: grey values of pixels, from 0 to 1")
        return
    print(
        "units of the features: standard deviations; each column is standardised by the mean and\n"
        "standard deviation of its observed entries, and errors are reported in these units"
    )


def declaration(validation: Experiment, demo: Demo) -> tuple[float, float]:
    """Choose the label scale and the nuclear weight, and print how."""
    headline("Choosing the label scale and the nuclear weight")
    print(
        f"on {SET_ASIDE:.0%} of the observed entries, set aside; no hidden entry is used.\n"
        "score: log loss of labels and squared error of features, each relative to column means,\n"
        "averaged (1: no better than means; 0: perfect). A row ends where the score rises."
    )
    choice = search(validation, None if demo.weight is None else (demo.weight,))
    print("\n" + grid(choice))
    scale, weight = choice.best
    if choice.interrupted:
        print("interrupted: the best of what was tried is taken")
    print(f"chosen: label scale {scale:g}, nuclear weight {weight:g}")
    return scale, weight


def complete(experiment: Experiment, scale: float, weight: float, demo: Demo) -> Fit:
    """Print the model as mathematics, fit it, print progress and certificate."""
    model = declare(scale, weight)
    headline("The model")
    print(model)
    headline("The fit")
    with warnings.catch_warnings():
        # Both are printed with the fit, as its status and its notes.
        warnings.simplefilter("ignore", NotCertifiedWarning)
        warnings.simplefilter("ignore", UnobservedWarning)
        answer = fit(
            model, experiment.observed, tol=demo.tol, random_state=demo.seed, progress=True
        )
    print(answer)
    print("the bound is computed, not assumed: no Z and no b whatever have an objective below it")
    return answer


def draw(
    data: MultiLabel, experiment: Experiment, answer: Fit, baseline: Baseline, path: str
) -> None:
    """Draw the first item of each digit there is; without matplotlib, say how to get it."""
    present = [label for label in data.labels.T if label.any()]
    items = [int(np.argmax(label)) for label in present]
    names = [data.label_names[int(np.argmax(data.labels[item]))] for item in items]
    completed: Array = answer.impute("features")
    try:
        draw_pixels(
            path,
            truth=data.features[items],
            hidden=experiment.hidden_features[items],
            answers={
                "filled in by\nmcframe": completed[items],
                "filled in by\ncolumn means": baseline.features[items],
            },
            titles=names,
            heading=f"Handwritten digits with {HIDDEN_FEATURES:.0%} of their pixels hidden,"
            " and what is filled in (first item of each digit)",
        )
    except ModuleNotFoundError:
        print('no picture: it needs matplotlib; get it with pip install "mcframe[plot]"')
        return
    except OSError as error:
        raise DataError(f"the picture cannot be written: {error}; try --picture PATH") from None
    print(f"picture: {Path(path).resolve()}")


def headline(text: str) -> None:
    """Print the line that begins a chapter."""
    print(f"\n{text}\n{'-' * len(text)}")


def grid(choice: GridScores) -> str:
    """Write the scores as a table: a row for each scale, a column for each weight."""
    scales = list(dict.fromkeys(scale for scale, _ in choice.scores))
    weights = sorted({weight for _, weight in choice.scores}, reverse=True)
    lines = ["scale \\ weight" + "".join(f"{weight:>10.2g}" for weight in weights)]
    for scale in scales:
        cells = [choice.scores.get((scale, weight)) for weight in weights]
        shown = [
            "" if cell is None else f"{cell:.4f}" + "*" * ((scale, weight) == choice.best)
            for cell, weight in zip(cells, weights, strict=True)
        ]
        lines.append(f"{scale:<14g}" + "".join(f"{text:>10}" for text in shown).rstrip())
    return "\n".join(lines)


def compare(experiment: Experiment, answer: Fit, baseline: Baseline, seconds: Array) -> None:
    """Print the errors on hidden entries: of the fit, the baseline, and no learning at all."""
    ours = experiment.errors(answer.predict("features"), answer.predict("labels"))
    theirs = experiment.errors(baseline.features, baseline.probabilities)
    nothing = experiment.errors(experiment.constant("features"), experiment.constant("labels"))
    headline("Hidden entries: errors and seconds")
    print(f"{'':<34}{'label':>10}{'imputation':>12}{'choosing':>10}{'fitting':>9}")
    print(f"{'':<34}{'error':>10}{'error':>12}{'s':>10}{'s':>9}")
    print(line("mcframe", ours, seconds[0], seconds[1]))
    print(line("column means, logistic regression", theirs, seconds[2], seconds[3]))
    print(line("column means, commoner class", nothing))
    print(
        "label error: share of wrong 0/1 at threshold 0.5. imputation error: sum of squared errors"
        "\n/ sum of squares of the truth (Goldberg et al., 2010)"
        f"\nlogistic regression: one a label, C={baseline.strength:g} chosen on the same entries"
        " set aside"
    )
    if baseline.unconverged:
        print(f"note: {baseline.unconverged} of its regressions did not converge")
    print("\n" + verdict(ours, theirs))


def line(name: str, errors: Errors, *seconds: float) -> str:
    """Write one row of the table."""
    times = "".join(f"{s:>{width}.1f}" for s, width in zip(seconds, (10, 9), strict=False))
    return f"{name:<34}{errors.labels:>10.4f}{errors.features:>12.4f}{times}"


def verdict(ours: Errors, theirs: Errors) -> str:
    """Say in a sentence who is ahead."""
    labels = change(ours.labels, theirs.labels)
    features = change(ours.features, theirs.features)
    return (
        f"against the baseline, mcframe's label error is {labels}, its imputation error {features}"
    )


def change(ours: float, theirs: float) -> str:
    """Say how much lower or higher a number is."""
    if ours == theirs:
        return "the same"
    if theirs == 0.0:
        return "higher than its 0"
    return f"{abs(ours / theirs - 1):.0%} {'lower' if ours < theirs else 'higher'}"

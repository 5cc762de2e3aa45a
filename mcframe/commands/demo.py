"""The command ``demo``: a table with hidden entries, completed and compared with a baseline."""

import argparse
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcframe.answer import Fit
from mcframe.commands.parsing import DONE, LAYOUT, UNFINISHED, positive, tolerance, whole
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError, NotCertifiedWarning, UnobservedWarning
from mcframe.datasets import MultiLabel, digits, hide, read_multilabel
from mcframe.fitting import fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model
from mcframe.plots import draw_pixels
from mcframe.regularizers import NuclearNorm
from mcframe.selection import (
    CrossValidation,
    Held,
    LabelError,
    RelativeDeviance,
    RelativeError,
    cross_validate,
    weight_max,
)

# What matplotlib writes without further packages.
FORMATS = (".png", ".pdf", ".svg")

DEMO = """\
Hide half of the features and three quarters of the labels of a table, fit a low-rank model
to the others, print its certificate, and compare its predictions of the hidden entries
with mean imputation and logistic regression. About 15 seconds on two cores.

Without --data the table is scikit-learn's 1797 handwritten digits, nothing is downloaded, and
a picture of hidden and completed digits is written if matplotlib is installed.
"""

NOTES = """\
your own data: an npz file with X (items x features, numbers) and Y (items x labels, 0 or 1),
NaN where missing, as numpy.savez("mine.npz", X=X, Y=Y) writes it. A relative path is also
searched for in the folder named by the environment variable MCFRAME_DATA.

Ctrl-C during the fit ends it with the best point so far and its certificate.

exit codes: 0 the fit is certified; 1 it is not, and says why; 2 a mistake in what was given;
130 interrupted before there was a fit
"""


def add_demo(commands: Any) -> None:
    """Declare the command among the others."""
    demo = commands.add_parser(
        "demo",
        help="complete a table with hidden entries and judge the result",
        description=DEMO,
        epilog=NOTES,
        formatter_class=LAYOUT,
    )
    demo.set_defaults(run=run_demo, interrupted="interrupted before there was a fit")
    for name, metavar, kind, default, told in OPTIONS:
        demo.add_argument(name, metavar=metavar, type=kind, default=default, help=told)


# The options of the demo: name, what stands for the value, how it is read, default, and help.
OPTIONS: tuple[tuple[str, str, Any, Any, str], ...] = (
    ("--data", "FILE", str, None, "an npz file of yours instead of the digits"),
    ("--items", "N", whole, None, "take N random rows only (default: all)"),
    ("--seed", "N", whole, 0, "of all that is random (default: 0)"),
    (
        *("--weight", "W", positive, None),
        "weight of the nuclear norm (default: chosen on observed entries set aside)",
    ),
    (
        *("--picture", "FILE", str, None),
        "where to write the picture of the digits: .png, .pdf or .svg (default: demo.png)",
    ),
    (
        *("--tol", "T", tolerance, 1e-6),
        "relative gap at which the fit is certified and stops (default: 1e-6)",
    ),
)


def check_picture(picture: str | None, data: str | None) -> None:
    """Refuse before the fit what would fail only after it."""
    if picture is None:
        return
    if data is not None:
        raise DataError("--picture draws digits, which --data replaces; leave one of them out")
    path = Path(picture)
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"--picture {picture!r}: the ending {', '.join(FORMATS)} is needed")
    if not path.resolve().parent.is_dir():
        raise DataError(f"--picture {picture!r}: its folder does not exist; make it first")


def run_demo(given: argparse.Namespace) -> int:
    """Run the demo; the exit code says whether its fit is certified."""
    check_picture(given.picture, given.data)
    return DONE if demonstrate(given).status == "certified" else UNFINISHED


SHARES = {"features": 0.5, "labels": 0.75}
# Hidden, and seen, of each block: enough that some can be set aside for the choice.
FEWEST = 20
SCALES = (0.3, 0.1, 0.03, 0.01)
# Nuclear weights, as fractions of the smallest one at which Z = 0.
FRACTIONS = tuple(2.0**-k for k in range(2, 9))
# A ranking needs no more digits than this gap gives, nor more iterations.
ROUGH, MOST_ITERATIONS = 3e-3, 400
PICTURE = "demo.png"


def demonstrate(given: argparse.Namespace) -> Fit:
    """Hide entries of a table, complete it with a certificate, compare with a baseline; print all.

    ``given`` has the arguments of ``mcframe demo``.

    Raises
    ------
    DataError
        Where the file cannot be read or the table is too small.
    """
    rng = np.random.default_rng(given.seed)
    data = digits() if given.data is None else read_multilabel(given.data)
    if given.items is not None and given.items < data.n_items:
        data = data.rows(np.sort(rng.choice(data.n_items, size=given.items, replace=False)))
    truth = {"features": data.features, "labels": data.labels}
    hidden = {block: hide(truth[block], share, rng) for block, share in SHARES.items()}
    for block, mask in hidden.items():
        known, n_hidden = np.count_nonzero(~np.isnan(truth[block])), np.count_nonzero(mask)
        if min(known - n_hidden, n_hidden) < FEWEST:
            raise DataError(
                f"{data.name}: its {known} known {block} are too few to hide"
                f" {SHARES[block]:.0%} of them; take more items"
            )
    if given.data is not None:
        truth["features"] = standardized(truth["features"], hidden["features"])
    observed = {block: np.where(hidden[block], np.nan, truth[block]) for block in truth}
    print("Two blocks of one table, completed together: features and yes/no labels")
    headline("The data")
    print(data)
    counts = [f"{mask.sum()} {block} ({SHARES[block]:.0%})" for block, mask in hidden.items()]
    print(f"hidden at random (seed {given.seed}): {', '.join(counts)}")
    if given.data is None:
        print("units of the features: grey values of pixels, from 0 to 1")
    else:
        print("units of the features: standard deviations of the observed entries of a column")
    begun = time.perf_counter()
    chosen = choose(observed, given)
    answer = complete(chosen.best_model, observed, given)
    compare(answer, truth, hidden, observed, time.perf_counter() - begun)
    if given.data is None:
        draw(data, hidden["features"], observed["features"], answer, given.picture or PICTURE)
    return answer


def standardized(features: Array, hidden: Mask) -> Array:
    """Return features in standard units of what is not hidden; a constant column is 0."""
    centred = features - column_means(np.where(hidden, np.nan, features))
    spread = np.sqrt(column_means(np.where(hidden, np.nan, centred) ** 2))
    return centred / np.where(spread > 0.0, spread, 1.0)


def declare(scale: float) -> Model:
    """Declare MC-b of Goldberg et al. (2010), with a bias for both blocks.

    The labels' scale says how large a z makes a label certain, in the units of the features:
    the nuclear norm charges both blocks alike. Their weight is the scale as well, so that the
    largest gradient of a label's loss is 1 / N_labels at every scale.
    """
    features = Block("features", Gaussian(), reduce="mean", bias=True)
    labels = Block("labels", Bernoulli(scale=scale), weight=scale, reduce="mean", bias=True)
    return Model([features, labels], [NuclearNorm(1.0)])


def score(fit: Fit, held: Mapping[str, Held]) -> float:
    """Return the criterion: relative errors of features and labels, averaged."""
    features = RelativeError("features")(fit, held)
    return 0.5 * features + 0.5 * RelativeDeviance("labels")(fit, held)


def choose(observed: Mapping[str, Array], given: argparse.Namespace) -> CrossValidation:
    """Choose the label scale and the nuclear weight on observed entries, and print how."""
    headline("Choosing the label scale and the nuclear weight")
    print(
        "by cross-validation on observed entries; no hidden entry is used. score: squared error\n"
        "of features / sum of their squares, and log loss of labels / that of column means,\n"
        "averaged. "
        f"models 0, 1, ... have the label scales {', '.join(map(str, SCALES))}"
    )
    models = [declare(scale) for scale in SCALES]
    with warnings.catch_warnings():
        for category in (NotCertifiedWarning, UnobservedWarning, UserWarning):
            warnings.simplefilter("ignore", category)  # a ranking needs no certificate
        weights = [given.weight]
        if given.weight is None:
            largest = weight_max(models[0], observed)
            weights = [float(f"{fraction * largest:.2g}") for fraction in FRACTIONS]
        chosen = cross_validate(
            models,
            observed,
            criterion=score,
            weights=weights,
            cv=2,
            patience=1,
            tol=ROUGH,
            max_iter=MOST_ITERATIONS,
            random_state=given.seed,
        )
    print(f"\n{chosen}")
    print(f"chosen: label scale {SCALES[chosen.best[0]]:g}, nuclear weight {chosen.best_weight:g}")
    return chosen


def complete(model: Model, observed: Mapping[str, Array], given: argparse.Namespace) -> Fit:
    """Print the model as mathematics, fit it, print history and certificate."""
    headline("The model")
    print(model)
    headline("The fit")
    with warnings.catch_warnings():
        # Both are printed with the fit, as its status and its notes.
        warnings.simplefilter("ignore", NotCertifiedWarning)
        warnings.simplefilter("ignore", UnobservedWarning)
        answer = fit(model, observed, tol=given.tol, random_state=given.seed)
    print(answer.history)
    print(answer)
    print("the bound is computed, not assumed: no Z and no b whatever have an objective below it")
    return answer


def compare(
    answer: Fit,
    truth: Mapping[str, Array],
    hidden: Mapping[str, Mask],
    observed: Mapping[str, Array],
    seconds: float,
) -> None:
    """Print the errors on hidden entries: of the fit, the baseline, and no learning at all."""
    held = {
        block: Held(np.nonzero(mask)[0], np.nonzero(mask)[1], truth[block][mask])
        for block, mask in hidden.items()
    }
    begun = time.perf_counter()
    theirs = regressions(observed["features"], observed["labels"])
    times = [seconds, time.perf_counter() - begun]
    means = {block: column_means(own)[held[block].columns] for block, own in observed.items()}
    wrong = [
        LabelError("labels")(answer, held),
        *(
            float(np.mean((p > 0.5) != held["labels"].values))
            for p in (theirs[hidden["labels"]], means["labels"])
        ),
    ]
    squares = np.square(held["features"].values)
    missed = np.square(means["features"] - held["features"].values)
    errors = [RelativeError("features")(answer, held), *[float(missed.sum() / squares.sum())] * 2]
    headline("Hidden entries: errors and seconds")
    print(f"{'':<34}{'label error':>12}{'imputation error':>18}{'s':>8}")
    names = ("mcframe", "column means, logistic regression", "column means, commoner class")
    for row in zip(names, wrong, errors, [*(f"{s:.1f}" for s in times), ""], strict=True):
        print("{:<34}{:>12.4f}{:>18.4f}{:>8}".format(*row).rstrip())
    print(
        "label error: share of wrong 0/1 at threshold 0.5. imputation error: sum of squared errors"
        "\n/ sum of squares of the truth (Goldberg et al., 2010)"
        "\nlogistic regression: one a label, its ridge chosen by cross-validation"
    )
    print(
        f"\nagainst the baseline, mcframe's label error is {change(wrong[0], wrong[1])}, its"
        f" imputation error {change(errors[0], errors[1])}"
    )


def column_means(entries: Array) -> Array:
    """Return the mean of what is observed of each column; 0 of one with nothing observed."""
    known = ~np.isnan(entries)
    return np.where(known, entries, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


def regressions(features: Array, labels: Array) -> Array:
    """Return P(1) of each label by a logistic regression, with means for missing features.

    A label with one class observed is predicted to be that class always, one without any
    observation to be 0.
    """
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV  # slow to import

    filled = np.where(np.isnan(features), column_means(features), features)
    found = np.tile(column_means(labels), (len(labels), 1))
    for column, own in enumerate(labels.T):
        known = ~np.isnan(own)
        fewest = np.bincount(own[known].astype(np.intp), minlength=2).min()
        if fewest:
            model = LogisticRegression(max_iter=5000)
            if fewest >= 3:  # one of either class in each fold
                model = LogisticRegressionCV(
                    Cs=(0.01, 0.1, 1.0, 10.0), cv=3, scoring="neg_log_loss", max_iter=5000
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(filled[known], own[known])
            found[:, column] = model.predict_proba(filled)[:, 1]
    return found


def change(ours: float, theirs: float) -> str:
    """Say how much lower or higher a number is."""
    if ours == theirs:
        return "the same"
    if theirs == 0.0:
        return "higher than its 0"
    return f"{abs(ours / theirs - 1):.0%} {'lower' if ours < theirs else 'higher'}"


def draw(data: MultiLabel, hidden: Mask, observed: Array, answer: Fit, path: str) -> None:
    """Draw the first item of each digit there is; without matplotlib, say how to get it."""
    present = [label for label in data.labels.T if label.any()]
    items = [int(np.argmax(label)) for label in present]
    means = np.where(hidden, column_means(observed), data.features)
    try:
        draw_pixels(
            path,
            truth=data.features[items],
            hidden=hidden[items],
            answers={
                "filled in by\nmcframe": np.asarray(answer.impute("features"))[items],
                "filled in by\ncolumn means": means[items],
            },
            titles=[data.label_names[int(np.argmax(data.labels[item]))] for item in items],
            heading=f"Handwritten digits with {SHARES['features']:.0%} of their pixels hidden,"
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

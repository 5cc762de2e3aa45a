"""The command ``demo``: a mixed table filled beside two peers, and a model with a certificate."""

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.commands.parsing import (
    DONE,
    LAYOUT,
    UNFINISHED,
    Subparsers,
    natural,
    tolerance,
    whole_number,
)
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import DataError, NotCertifiedWarning
from mcframe.fitting.fit import fit
from mcframe.fitting.verification import verify
from mcframe.plots.drawing import BLUE, GREEN, GREY, VERMILLION
from mcframe.tables.completing import complete
from mcframe.tables.completion import Completion
from mcframe.tables.declaring import declare

# What matplotlib writes without further packages.
FORMATS = (".png", ".pdf", ".svg")
PICTURE = "demo.png"
# Frames that hold the table, the first one that is installed.
FRAMES = ("pandas", "polars", "pyarrow")
# The share of the entries that is hidden, the probability of the intervals, and the half width of
# such an interval of a Gaussian, in standard deviations.
HIDDEN, LEVEL, HALF_WIDTH = 0.3, 0.9, 1.645
# Rows that are also solved by CVXPY, and hidden entries in the picture of intervals.
VERIFIED_ROWS, DRAWN = 60, 40
OURS, TREES, NEIGHBOURS = "mcframe", "extra trees", "neighbours"
COLOURS = {OURS: BLUE, TREES: VERMILLION, NEIGHBOURS: GREEN}
MARKS = {OURS: "o", TREES: "s", NEIGHBOURS: "^"}

DEMO = """\
Hide three entries in ten of a table of numbers and a category, fill them by mc.complete with
intervals, and compare with two imputers of scikit-learn at the hidden entries. Then fit a model
of the same table with a certificate, and verify it by CVXPY. About 20 seconds on two cores.

Nothing is downloaded: the tables come with scikit-learn. A picture is written if matplotlib is
installed. Columns of the table "cells", the default, depend strongly on each other, and the gain
is large; on "wine" the imputer with trees is as good.
"""

NOTES = """\
your own table: mcframe impute table.csv --out done.csv

exit codes: 0 the fit is certified and CVXPY agrees; 1 not so, and why is printed; 2 a mistake in
what was given; 130 interrupted
"""


def add_demo(commands: Subparsers) -> None:
    """Declare the command among the others."""
    demo = commands.add_parser(
        "demo",
        help="fill a table beside two peers, and certify a model of it",
        description=DEMO,
        epilog=NOTES,
        formatter_class=LAYOUT,
    )
    demo.set_defaults(run=run_demo, interrupted="interrupted")
    demo.add_argument(
        "--table", choices=TABLES, default="cells", help="which table (default: cells)"
    )
    demo.add_argument(
        "--rows", metavar="N", type=natural, help="take N random rows only (default: all)"
    )
    demo.add_argument(
        "--seed",
        metavar="N",
        type=whole_number,
        default=0,
        help="of all that is random (default: 0)",
    )
    demo.add_argument(
        "--picture",
        metavar="FILE",
        default=PICTURE,
        help=f"where to write the picture: .png, .pdf or .svg (default: {PICTURE})",
    )
    demo.add_argument(
        "--tol",
        metavar="T",
        type=tolerance,
        default=1e-6,
        help="relative gap at which the fit is certified and stops (default: 1e-6)",
    )


@attrs.frozen(eq=False)
class DemoTable:
    """A table without gaps: what it describes, its numbers by name, and one category."""

    what: str
    numbers: Mapping[str, Array]
    category: str
    values: Any

    @property
    def columns(self) -> dict[str, Any]:
        """All columns by name, the category last."""
        return {**self.numbers, self.category: self.values}


def cells() -> DemoTable:
    """Nuclei of cells in 569 images of breast tissue, and the diagnosis."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    numbers = {
        str(name).removeprefix("mean "): data.data[:, place]
        for place, name in enumerate(data.feature_names)
        if name.startswith("mean ")
    }
    what = "nuclei of cells in images of breast tissue (Wisconsin): ten means, and the diagnosis"
    return DemoTable(what, numbers, "diagnosis", data.target_names[data.target].astype(object))


def wine() -> DemoTable:
    """13 measurements of 178 wines, and the cultivar."""
    from sklearn.datasets import load_wine

    data = load_wine()
    names = np.array(["Barolo", "Grignolino", "Barbera"], dtype=object)
    numbers = dict(zip(data.feature_names, data.data.T, strict=True))
    return DemoTable(
        "wines: 13 measurements, and the cultivar", numbers, "cultivar", names[data.target]
    )


def patients() -> DemoTable:
    """Nine measurements of 442 patients, and their sex."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    columns = dict(zip(data.feature_names, data.data.T, strict=True)) | {"disease": data.target}
    sex = np.where(columns.pop("sex") == 1.0, "one", "other").astype(object)
    return DemoTable("patients with diabetes: ten measurements, and the sex", columns, "sex", sex)


TABLES: dict[str, Callable[[], DemoTable]] = {"cells": cells, "wine": wine, "patients": patients}


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the demo; the exit code says whether its fit is certified and verified."""
    check_picture(arguments.picture)
    table = TABLES[arguments.table]()
    rng = np.random.default_rng(arguments.seed)
    n_rows = len(table.values)
    if arguments.rows is not None and arguments.rows < n_rows:
        rows = np.sort(rng.choice(n_rows, size=arguments.rows, replace=False))
        numbers = {name: values[rows] for name, values in table.numbers.items()}
        table = attrs.evolve(table, numbers=numbers, values=table.values[rows])
    shape = len(table.values), len(table.columns)
    hidden = dict(zip(table.columns, (rng.random(shape) < HIDDEN).T, strict=True))
    for name, mask in hidden.items():
        if min(np.count_nonzero(mask), np.count_nonzero(~mask)) < 2:
            raise DataError(f"{shape[0]} rows are too few to hide entries of {name!r}; take more")
    frame = frame_of(table, hidden)

    headline("The table")
    print(table.what)
    count = sum(int(np.count_nonzero(mask)) for mask in hidden.values())
    print(
        f"{shape[0]} rows, {shape[1]} columns; {count} entries are hidden (seed {arguments.seed})"
    )

    headline("mc.complete(frame)")
    began = time.perf_counter()
    completed = complete(frame, random_state=arguments.seed)
    seconds = {OURS: time.perf_counter() - began}
    print(completed)
    filled = {OURS: columns_of(completed.table)}
    for name, imputer in peers(arguments.seed).items():
        began = time.perf_counter()
        filled[name] = filled_by(imputer, table, hidden)
        seconds[name] = time.perf_counter() - began
    errors = {name: errors_of(answer, table, hidden) for name, answer in filled.items()}
    compare(errors, seconds, table)
    print(interval_report(completed, table, hidden))
    draw(arguments.picture, errors, filled, completed, table, hidden)
    return certify(frame, arguments)


def check_picture(picture: str) -> None:
    """Refuse before the work what would fail only after it."""
    path = Path(picture)
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"--picture {picture!r}: the ending {', '.join(FORMATS)} is needed")
    if not path.resolve().parent.is_dir():
        raise DataError(f"--picture {picture!r}: its folder does not exist; make it first")


def frame_of(table: DemoTable, hidden: Mapping[str, Mask]) -> Any:
    """Return the table with its gaps, as a frame of a library that is installed."""
    library = next((name for name in FRAMES if find_spec(name)), None)
    if library is None:
        raise DataError('the demo needs a library of tables: pip install "mcframe[pandas]"')
    columns: dict[str, Any] = {
        name: np.where(hidden[name], np.nan, values) for name, values in table.numbers.items()
    }
    gaps = hidden[table.category]
    columns[table.category] = [
        None if gap else value for value, gap in zip(table.values, gaps, strict=True)
    ]
    return nw.from_dict(columns, backend=import_module(library)).to_native()


def columns_of(frame: Any) -> dict[str, Array]:
    """Return the columns of a frame by name, as arrays."""
    wrapped = nw.from_native(frame, eager_only=True)
    return {name: wrapped.get_column(name).to_numpy() for name in wrapped.columns}


def peers(seed: int) -> dict[str, Any]:
    """Return two imputers of scikit-learn.

    Of the settings that were tried on the table "cells", these had the lowest errors: 0.49 against
    0.51 by Bayesian ridge regressions, the default of ``IterativeImputer``; 0.72 against 0.75 of 5
    neighbours with weights.
    """
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer

    trees = ExtraTreesRegressor(n_estimators=50, random_state=seed, n_jobs=2)
    return {
        TREES: IterativeImputer(trees, max_iter=5, random_state=seed),
        NEIGHBOURS: KNNImputer(n_neighbors=10, weights="distance"),
    }


def filled_by(imputer: Any, table: DemoTable, hidden: Mapping[str, Mask]) -> dict[str, Array]:
    """Fill by an imputer of numbers: in standard units, the category as columns of 0 and 1."""
    gaps = np.column_stack([hidden[name] for name in table.numbers])
    numbers = np.where(gaps, np.nan, np.column_stack(list(table.numbers.values())))
    centre, spread = np.nanmean(numbers, axis=0), np.nanstd(numbers, axis=0)
    levels = np.unique(table.values[~hidden[table.category]])
    # The first level has no column: it would be the others' complement.
    shares = (table.values[:, None] == levels[None, 1:]).astype(float)
    shares[hidden[table.category]] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that five sweeps have not converged
        answer = imputer.fit_transform(np.column_stack([(numbers - centre) / spread, shares]))
    n_numbers = numbers.shape[1]
    restored = answer[:, :n_numbers] * spread + centre
    columns = dict(zip(table.numbers, restored.T, strict=True))
    shares = answer[:, n_numbers:]
    every = np.column_stack([1.0 - shares.sum(axis=1), shares])
    return {**columns, table.category: levels[np.argmax(every, axis=1)]}


def errors_of(
    filled: Mapping[str, Array], table: DemoTable, hidden: Mapping[str, Mask]
) -> dict[str, float]:
    """Return the error of each column at its hidden entries.

    Of numbers the root mean square error divided by the standard deviation of the observed
    entries, of the category the share that is wrong.
    """
    errors = {}
    for name, truth in table.numbers.items():
        gaps = hidden[name]
        missed = (filled[name] - truth)[gaps]
        errors[name] = float(np.sqrt(np.mean(missed**2)) / np.std(truth[~gaps]))
    gaps = hidden[table.category]
    errors[table.category] = float(np.mean((filled[table.category] != table.values)[gaps]))
    return errors


def compare(
    errors: Mapping[str, Mapping[str, float]], seconds: Mapping[str, float], table: DemoTable
) -> None:
    """Print the errors of all answers beside each other."""
    headline("Hidden entries: errors beside two imputers of scikit-learn")
    longest = max(len(name) for name in table.columns) + 8
    print(" " * longest + "".join(f"{name:>13}" for name in errors))
    for column in table.numbers:
        print(
            f"{column:<{longest}}"
            + "".join(f"{answer_errors[column]:>13.2f}" for answer_errors in errors.values())
        )
    means = {name: average(answer_errors, table) for name, answer_errors in errors.items()}
    print(f"{'mean of numbers':<{longest}}" + "".join(f"{mean:>13.2f}" for mean in means.values()))
    wrong = [f"{answer_errors[table.category]:>13.1%}" for answer_errors in errors.values()]
    print(f"{f'{table.category}, wrong':<{longest}}" + "".join(wrong))
    spent = "".join(f"{seconds[name]:>11.1f} s" for name in errors)
    print(f"{'time':<{longest}}{spent}")
    print(
        "numbers: root mean square error / standard deviation of the column; 1 is no better than"
        "\nits mean. extra trees: IterativeImputer with 50 of them, 5 sweeps; neighbours:"
        "\nKNNImputer with 10, weighted by distance. Both read numbers in standard units."
    )


def average(errors: Mapping[str, float], table: DemoTable) -> float:
    """Return the mean error of the columns of numbers."""
    return float(np.mean([errors[name] for name in table.numbers]))


def interval_report(completed: Completion, table: DemoTable, hidden: Mapping[str, Mask]) -> str:
    """Say how many hidden numbers lie in their intervals, and how wide these are."""
    lower, upper = (columns_of(ends) for ends in completed.interval(LEVEL))
    inside, widths = [], []
    for name, truth in table.numbers.items():
        gaps = hidden[name]
        inside.append(((lower[name] <= truth) & (truth <= upper[name]))[gaps])
        spread = 2.0 * HALF_WIDTH * np.std(truth[~gaps])
        widths.append((upper[name] - lower[name])[gaps] / spread)
    return (
        f"mcframe's {LEVEL:.0%} intervals hold {np.mean(np.concatenate(inside)):.0%} of the hidden"
        f" numbers. They are {np.mean(np.concatenate(widths)):.0%} as wide as\nmean ± {HALF_WIDTH}"
        " standard deviations. Both imputers give no intervals."
    )


def certify(frame: Any, arguments: argparse.Namespace) -> int:
    """Print a model of the table, its fit, and the verification of some rows."""
    headline("A model with a certificate: mc.fit(*mc.declare(frame))")
    model, data = declare(frame)
    print(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)  # printed as the status
        answer = fit(model, data, tol=arguments.tol, random_state=arguments.seed)
        print(f"\n{answer}")
        print("the bound is computed: no Z whatever has an objective below it")
        first = declare(nw.from_native(frame).head(VERIFIED_ROWS).to_native())
        count = len(nw.from_native(frame, eager_only=True).head(VERIFIED_ROWS))
        headline(f"The same for the first {count} rows, and by CVXPY: mc.verify")
        verified = verify(*first)
    print(verified)
    return DONE if answer.status is Status.CERTIFIED and verified else UNFINISHED


def draw(
    path: str,
    errors: Mapping[str, Mapping[str, float]],
    filled: Mapping[str, Mapping[str, Array]],
    completed: Completion,
    table: DemoTable,
    hidden: Mapping[str, Mask],
) -> None:
    """Draw errors of all answers, and intervals of one column; without matplotlib say so."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        print('no picture: it needs matplotlib; get it with pip install "mcframe[plot]"')
        return
    figure = Figure(figsize=(11.0, 4.8), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.1))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    ours = errors[OURS]
    order = [table.category, *sorted(table.numbers, key=lambda name: -ours[name])]
    places = np.arange(len(order))
    left.hlines(
        places,
        0.0,
        [max(answer_errors[name] for answer_errors in errors.values()) for name in order],
        "0.9",
    )
    for name, answer_errors in errors.items():
        left.plot(
            [answer_errors[column] for column in order],
            places,
            MARKS[name],
            color=COLOURS[name],
            label=name,
        )
    labels = [f"{name} (share wrong)" if name == table.category else name for name in order]
    left.set_yticks(places, labels)
    left.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    left.set(
        xlabel="error at hidden entries, in standard deviations of the column", xlim=(0, None)
    )
    left.set_title("Errors of three answers (1: filled with the mean)", fontsize="medium")
    # The column of the median error, so that neither the best nor the worst is shown.
    column = sorted(table.numbers, key=ours.__getitem__)[len(table.numbers) // 2]
    lower, upper = (columns_of(ends)[column] for ends in completed.interval(LEVEL))
    rows = np.flatnonzero(hidden[column])[:DRAWN]
    rows = rows[np.argsort(filled[OURS][column][rows])]
    places = np.arange(rows.size)
    label = f"mcframe, {LEVEL:.0%} interval"
    right.vlines(places, lower[rows], upper[rows], BLUE, alpha=0.35, linewidth=4.0, label=label)
    for name in (TREES, NEIGHBOURS):
        values = filled[name][column][rows]
        right.plot(places, values, MARKS[name], color=COLOURS[name], markersize=3.0, label=name)
    truth = table.numbers[column][rows]
    right.plot(places, truth, "_", color="black", markersize=9.0, mew=1.5, label="truth")
    right.set(xlabel=f"{rows.size} hidden entries, sorted by their filled value", ylabel=column)
    right.set_xticks([])
    right.set_title(f"One column: {column}", fontsize="medium")
    handles = [*left.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0][::3]]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise DataError(f"the picture cannot be written: {error}; try --picture PATH") from None
    print(f"picture: {Path(path).resolve()}")


def headline(text: str) -> None:
    """Print the line that begins a chapter."""
    print(f"\n{text}\n{'-' * len(text)}")

"""The command ``ratings``: a list of (user, item, rating), predicted by the posterior."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mcframe.commands.parsing import (
    DONE,
    UNFINISHED,
    Report,
    Subparsers,
    natural,
    tolerance,
)
from mcframe.commands.verbs import (
    MODELS,
    NOTES,
    SAVED,
    add_csv,
    add_output,
    add_seed,
    added,
    list_of_files,
    output,
    table_in_file,
)
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import DataError, ModelError, warn_caller
from mcframe.contracts.validators import a_type, counted, meant
from mcframe.datasets.readers import find_file
from mcframe.datasets.table_files import write_tables
from mcframe.fitting.prediction import BlockLabels
from mcframe.likelihoods import Gaussian
from mcframe.loading import load
from mcframe.model import Block, Model
from mcframe.model.triples import from_triples
from mcframe.posterior.answer import Posterior, posterior
from mcframe.regularizers import NuclearNorm

# The columns that are written beside those of the list.
PREDICTED = ("predicted", "lower", "upper")


def add_ratings(commands: Subparsers) -> None:
    """Declare the command among the others."""
    command = added(commands, ratings, "predict what a list of (user, item, rating) leaves out")
    command.epilog = NOTES.replace(f"{MODELS}\n", "")
    command.add_argument("table", metavar="list", help="the list, or what --save has written")
    command.add_argument(
        "--columns",
        metavar="USER,ITEM,RATING",
        help="the columns of the list that name its rows and columns and hold its values (default:"
        " those of a list of three)",
    )
    command.add_argument(
        "--duplicates",
        choices=("mean", "last", "sum"),
        help="how the values of a pair that stands there more than once become one",
    )
    command.add_argument(
        "--bounds", metavar="LOWER,UPPER", type=bounds, help="of the values, such as 1,5"
    )
    command.add_argument(
        "--pairs",
        metavar="FILE",
        help="predict these pairs, of the same columns (default: the best items of each user)",
    )
    command.add_argument(
        "--top", metavar="N", type=natural, help="how many items of each user (default: 10)"
    )
    command.add_argument(
        "--intervals",
        metavar="LEVEL",
        type=tolerance,
        help="with 0.9, write the ends of 90 %% intervals, too: the columns lower and upper",
    )
    command.add_argument("--save", metavar="FILE", help="save the answer for later (.npz)")
    add_csv(command)
    add_output(command, "the predictions")
    add_seed(command)


def bounds(text: str) -> tuple[float, float]:
    """Read two numbers with a comma between them."""
    try:
        lower, upper = map(float, text.split(","))
    except ValueError:
        lower = upper = np.nan
    if not lower < upper:
        needed = "two numbers are needed, the lower one first, such as 1,5"
        raise argparse.ArgumentTypeError(f"{text!r} was given; {needed}")
    return lower, upper


def ratings(arguments: argparse.Namespace) -> Report:
    """Predict what a list of ratings leaves out, a user, an item and a number in each line."""
    if arguments.pairs is not None and arguments.top is not None:
        raise ModelError("--top is about the best items of each user; leave out it or --pairs")
    out = output(arguments, arguments.out)
    saved = None if arguments.save is None else output(arguments, arguments.save, SAVED)
    answer = answer_of(arguments)
    [block] = answer.model.blocks
    labels = BlockLabels.of(block.name, answer.tables[block.name])
    if arguments.pairs is None:
        users = list(labels.rows.values)
        table: Any = answer.top(block.name, users, 10 if arguments.top is None else arguments.top)
    else:
        table = predicted_pairs(answer, block.name, labels, arguments)
    if arguments.intervals:
        pair_table = nw.from_native(table).select(labels.rows.name, labels.columns.name)
        pairs = pair_table.to_native()
        ends = answer.interval(block.name, arguments.intervals, pairs=pairs, unknown="nan")
        table = with_numbers(table, dict(zip(PREDICTED[1:], ends, strict=True)))
    write_tables({out: table})
    written = [out, *([] if saved is None else [answer.save(saved)])]
    n_pairs = len(nw.from_native(table))
    facts = {
        "status": answer.status,
        "evidence": answer.evidence,
        "pairs": n_pairs,
        "outputs": written,
    }
    code = DONE if answer.status == Status.CONVERGED else UNFINISHED
    counts = (
        f"{counted(len(labels.rows.values), 'row')} by {labels.rows.name!r},"
        f" {counted(len(labels.columns.values), 'column')} by {labels.columns.name!r},"
        f" values of {block.name!r}"
    )
    text = f"{counts}\n\n{answer}\n\n{counted(n_pairs, 'pair')} predicted"
    return code, f"{text}\n{list_of_files(written)}", facts


def answer_of(arguments: argparse.Namespace) -> Posterior:
    """The posterior of the list, or the one that was saved."""
    if Path(arguments.table).suffix.lower() in SAVED:
        of_fit = ("columns", "duplicates", "bounds", "save")
        needless = [name for name in of_fit if vars(arguments)[name] is not None]
        if needless:
            raise ModelError(
                f"--{needless[0]} belongs to a list, and {arguments.table} is a saved answer;"
                " leave it out"
            )
        answer = load(find_file(arguments.table))
        if not isinstance(answer, Posterior) or len(answer.model.blocks) != 1:
            raise DataError(
                f"{arguments.table} holds {a_type(answer)} of no list; give a list, or what"
                " mcframe ratings --save has written"
            )
        return answer
    table = table_in_file(arguments)
    row, column, value = columns_of_list(arguments.columns, nw.from_native(table).columns)
    duplicates = arguments.duplicates or "refuse"
    triples = from_triples(table, row=row, column=column, value=value, duplicates=duplicates)
    block = Block(value, Gaussian(variance=None), bias=True, bounds=arguments.bounds)
    model = Model([block], [NuclearNorm()])
    return posterior(model, {value: triples}, random_state=arguments.seed)


def columns_of_list(chosen: str | None, names: Sequence[str]) -> list[str]:
    """The columns of rows, of columns and of values, by name."""
    columns = list(names) if chosen is None else chosen.split(",")
    if len(columns) != 3:
        example = "--columns user,item,rating"
        raise ModelError(
            f"{counted(len(columns), 'column')} ({', '.join(map(repr, columns))}) where a list has"
            f" three, for rows, columns and values; name them, as in {example}"
        )
    for name in columns:
        if name not in names:
            raise ModelError(
                f"--columns: {name!r} is no column of the list; {meant(name, names, 'columns')}"
            )
    return columns


def predicted_pairs(
    answer: Posterior, block: str, labels: BlockLabels, arguments: argparse.Namespace
) -> Any:
    """The table of the pairs that are asked about, with predictions."""
    texts = {
        axis.name: nw.String()
        for axis in (labels.rows, labels.columns)
        if all(isinstance(label, str) for label in axis.values)
    }
    table = table_in_file(arguments, arguments.pairs, texts)
    double = [name for name in PREDICTED if name in nw.from_native(table).columns]
    if double:
        raise DataError(
            f"{arguments.pairs} has a column {double[0]!r}, which is written here; rename it"
        )
    numbers = answer.predict_pairs(block, table, unknown="nan")
    n_unknown = int(np.count_nonzero(np.isnan(numbers)))
    if n_unknown:
        warn_caller(
            f"{n_unknown} of {counted(numbers.size, 'pair')} have a {labels.rows.name!r} or"
            f" {labels.columns.name!r} that the list does not have; their predictions are empty"
        )
    return with_numbers(table, {"predicted": numbers})


def with_numbers(table: Any, columns: dict[str, Any]) -> Any:
    """A table with further columns of numbers, missing where they are NaN."""
    read = nw.from_native(table, eager_only=True)
    made = [
        nw.new_series(
            name,
            [None if np.isnan(number) else float(number) for number in numbers],
            nw.Float64(),
            backend=read.implementation,
        )
        for name, numbers in columns.items()
    ]
    return read.with_columns(*made).to_native()

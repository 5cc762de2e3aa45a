"""What is allowed in data, but worth saying."""

from collections.abc import Mapping

import numpy as np

from mcframe.contracts.arrays import IntArray, Mask
from mcframe.contracts.term import Sums
from mcframe.model.model import Model
from mcframe.model.table import Table

__all__ = ["notes_on_gaps", "notes_on_sums", "notes_on_unobserved", "worth_a_warning"]

# What is predicted in a column without an observed entry.
NOT_LEARNT = "Z = 0, not learnt from data"
MEAN_BIAS = "Z = 0 and the mean of the other columns' biases, not learnt from that column"
FROM_UNLABELED = "learnt from its unlabeled entries alone"
# And in a row: all its entries are alike then.
NOT_RANKED = f"{FROM_UNLABELED}, and which of its columns come first may be rounding"


def notes_on_unobserved(
    model: Model, tables: Mapping[str, Table], n_items: int
) -> tuple[str, ...]:
    """What is allowed but worth saying: columns and rows without an observed entry."""
    counts = {
        name: np.bincount(table.observed_entries().columns, minlength=table.shape[1])
        for name, table in tables.items()
    }
    seen = np.zeros(n_items, dtype=bool)
    for table in tables.values():
        seen[table.observed_entries().rows] = True
    return notes_on_gaps(model, tables, counts, seen)


def notes_on_gaps(
    model: Model, tables: Mapping[str, Table], counts: Mapping[str, IntArray], seen: Mask
) -> tuple[str, ...]:
    """Return those notes from the observed entries of each column, and the rows with any."""
    notes = []
    for name, own in counts.items():
        block = model.block(name)
        unlearnt = MEAN_BIAS if block.bias else NOT_LEARNT
        empty = np.flatnonzero(own == 0)
        if empty.size:
            first = tables[name].column_label(int(empty[0]))
            others = f" and {empty.size - 1} more columns" if empty.size > 1 else ""
            notes.append(
                f"block {name!r}: column {first}{others} without one observed entry;"
                f" what is predicted there is"
                f" {FROM_UNLABELED if block.likelihood.reads_unlabeled else unlearnt}"
            )
    if not seen.all():
        first_row = int(np.flatnonzero(~seen)[0])
        others = f" and {int((~seen).sum()) - 1} more rows" if (~seen).sum() > 1 else ""
        unlabeled = any(block.likelihood.reads_unlabeled for block in model.blocks)
        predicted = NOT_RANKED if unlabeled else "not learnt from that row"
        notes.append(
            f"row {first_row}{others} without one observed entry in any block;"
            f" what is predicted there is {predicted}"
        )
    return tuple(notes)


def worth_a_warning(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes but that on rows without a label, which many tables of labels have."""
    return tuple(note for note in notes if NOT_RANKED not in note)


def notes_on_sums(model: Model, tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Return notes on terms that state sums of Z where users may mean sums of means."""
    notes = []
    for term in model.terms:
        if term.block is None or not isinstance(term, Sums):
            continue
        block = model.block(term.block)
        beside = {
            "biases": block.bias,
            "effects of rows": block.row_effects,
            "offsets": tables[term.block].offset is not None,
        }
        apart = ", ".join(name for name, there in beside.items() if there)
        if block.likelihood.z_name or apart:
            notes.append(
                f"block {term.block!r}: {term.word} is about sums of Z"
                + (f", which is {block.likelihood.z_name}" if block.likelihood.z_name else "")
                + (f", without {apart}" if apart else "")
                + ", and not about sums of means"
            )
    return tuple(notes)

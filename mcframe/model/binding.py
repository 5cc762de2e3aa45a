"""Data beside the model that they are of: which block they belong to, and what terms need."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.term import Factored, Regularizer, Spectral, Sums, Term
from mcframe.model.block import Block
from mcframe.model.model import Model
from mcframe.model.partitioned import refuse_partitions
from mcframe.model.reading import read_table
from mcframe.model.table import Table
from mcframe.model.units import AffineUnits
from mcframe.model.valid_values import check_observed

__all__ = ["bound_term", "tables_of"]

# From so many cells on the unlabeled ones of a block stay unwritten where they can.
WRITTEN_OUT = 20_000_000


def tables_of(model: Model, data: Mapping[str, Any]) -> dict[str, Table]:
    """Return the table of each block, read and checked, or raise a ``DataError``."""
    if not isinstance(model, Model):
        raise ModelError(f"{type(model).__name__} was given where a Model is needed")
    refuse_partitions(data)
    if not isinstance(data, Mapping):
        raise DataError(
            f"data of type {type(data).__name__} were given; a dict from block name to"
            f" matrix is needed, here with {block_names(model)}"
        )
    for name in data:
        if name not in {block.name for block in model.blocks}:
            raise DataError(
                f"data hold {name!r}, which no block is named; the blocks are {block_names(model)}"
            )
    for block in model.blocks:
        if block.name not in data:
            raise DataError(f"block {block.name!r} has no data; add data[{block.name!r}]")
    tables = {
        block.name: read_table(
            block, data[block.name], WRITTEN_OUT if stays_unwritten(model, block) else np.inf
        )
        for block in model.blocks
    }
    for block in model.blocks:
        check_observed(block, tables[block.name])
    return tables


def stays_unwritten(model: Model, block: Block) -> bool:
    """Whether the unlabeled cells of a block, if many, need not be among the entries.

    That takes one convex loss for all of them, of bounded curvature, and a solver that works in
    factors: smooth losses and a norm of all of Z that is a function of singular values and of
    factors, and nothing else.
    """
    if block.likelihood.unlabeled is None or block.bias or block.row_effects:
        return False
    losses = [other.likelihood for other in model.blocks]
    if not all(loss.smooth and loss.convex for loss in losses) or len(model.terms) != 1:
        return False
    term = model.terms[0]
    both = isinstance(term, Spectral) and isinstance(term, Factored)
    return both and isinstance(term, Regularizer) and term.block is None


def bound_term(term: Term, model: Model, tables: Mapping[str, Table]) -> Term:
    """Return a term with the data of its block, checked against the shape of its columns of Z.

    Sums are stated in the data's own units, and become those of Z. A term of all blocks is given
    their shape and no entries.
    """
    if term.block is None:
        widths = [tables[b.name].shape[1] * b.likelihood.width for b in model.blocks]
        n_rows, nowhere = tables[model.blocks[0].name].shape[0], np.zeros(0, dtype=np.intp)
        return term.bound_to((n_rows, sum(widths)), nowhere, nowhere, np.zeros(0))
    table = tables[term.block].observed_entries()
    n_rows, n_columns = table.shape
    shape = (n_rows, n_columns * model.block(term.block).likelihood.width)
    bound = term.bound_to(shape, table.rows, table.columns, table.values)
    units = None if table.given is None else table.given.standard.units
    if isinstance(bound, Sums) and isinstance(units, AffineUnits):
        return bound.about_standard(units.centre, units.spread)
    return bound


def block_names(model: Model) -> str:
    """The names of a model's blocks, quoted."""
    return ", ".join(repr(block.name) for block in model.blocks)

"""A block's data as users have them, read into a table and checked."""

import math
import sys
from typing import Any

import attrs
import scipy.sparse as sp

from mcframe.contracts.errors import DataError
from mcframe.model.block import Block
from mcframe.model.forms import table_of_array, table_of_numbers, table_of_pandas, table_of_sparse
from mcframe.model.frames import is_pandas, is_pandas_array, numbers_of
from mcframe.model.observations import Observations
from mcframe.model.partitioned import refuse_partitions
from mcframe.model.table import Table
from mcframe.model.triples import Triples, table_of_triples
from mcframe.model.valid_values import check_values
from mcframe.model.weights_and_offsets import offset_of, weights_of
from mcframe.numerics.machine import MEMORY_SHARE, physical_gigabytes

__all__ = ["read_table"]

# What reading and compiling hold of every cell that is written out, at their peak: indices,
# values, and both orders of a pattern.
BYTES_PER_CELL = 80


def read_table(block: Block, given: Any, unwritten_beyond: float = math.inf) -> Table:
    """Read and check one block's data: an array, a DataFrame, a scipy.sparse matrix, triples.

    NaN is missing; in a sparse matrix what is not stored is missing and a stored zero is an
    observed zero. A one-dimensional array or a Series is one column. There may be no observed
    entry at all, as in new rows. The unlabeled cells of a table of more than
    ``unwritten_beyond`` cells are not written out: its memory is that of the labels.
    """
    refuse_partitions(given, f"block {block.name!r}: ")
    if isinstance(given, Observations):
        return read_observations(block, given)
    table = read_values(block, given)
    check_values(block, table)
    if not block.likelihood.reads_unlabeled:
        return table
    if table.n_cells > unwritten_beyond:
        return attrs.evolve(table, unwritten=True)
    return written_out(block, table)


def written_out(block: Block, table: Table) -> Table:
    """The table with every cell, or a ``DataError`` where they do not fit into memory."""
    gigabytes, memory = BYTES_PER_CELL * table.n_cells / 1e9, physical_gigabytes()
    if gigabytes > MEMORY_SHARE * memory:
        raise DataError(
            f"block {block.name!r}: {type(block.likelihood).__name__} reads the unlabeled entries"
            f" too, and all {table.n_cells} cells take about {gigabytes:.3g} GB, more than"
            f" {MEMORY_SHARE:.0%} of the machine's {memory:.3g} GB. They stay unwritten with the"
            " squared and the logistic loss, mc.Gaussian() and mc.Bernoulli(), where the"
            " block has neither bias nor row_effects, its data no weights and no offset, and the"
            " model a NuclearNorm as its only term; or take pn=1, which reads labels alone"
        )
    return table.with_all_cells()


def read_values(block: Block, given: Any) -> Table:
    """The observed entries as they are given, if any; their values are not checked."""
    if sp.issparse(given):
        table = table_of_sparse(block, given)
    elif isinstance(given, Triples):
        table = table_of_triples(given)
    elif is_pandas(given):
        table = table_of_pandas(block, given)
    elif is_pandas_array(given):
        table = table_of_numbers(numbers_of(block, sys.modules["pandas"].Series(given)))
    else:
        table = table_of_array(block, given)
    if 0 in table.shape:
        raise DataError(
            f"block {block.name!r}: data of shape {table.shape} were given; a matrix of at least"
            " one row (item) and one column is needed"
        )
    return table


def read_observations(block: Block, given: Observations) -> Table:
    """Values with weights and offsets; entries of weight 0 are left out."""
    table = read_values(block, given.values)
    check_values(block, table)
    if block.likelihood.reads_unlabeled:
        table = written_out(block, table)
    table = attrs.evolve(table, offset=offset_of(block, given, table))
    if given.weights is None:
        return table
    weights = weights_of(block, given, table)
    return attrs.evolve(table, weights=weights).select(weights > 0.0)

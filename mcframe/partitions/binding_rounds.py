"""A model bound to data in partitions: what is counted over all rows first, then compiled."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.compile.loss import BlockLoss
from mcframe.compile.penalty import SpectralPenalty
from mcframe.compile.program import Program
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError, DataError
from mcframe.contracts.likelihood import (
    BoundBySums,
    Likelihood,
    ParametricBySums,
    fits_parameters,
)
from mcframe.contracts.term import Factored, Regularizer, Spectral
from mcframe.model import Block, Model
from mcframe.model.best_constants import ColumnEntries, best_constants
from mcframe.model.binding import Totals, counts_of, middles_between, notes_on_gaps, targets_of
from mcframe.model.standardising import mean_losses, weights_of_entries
from mcframe.model.table import Standard, Table
from mcframe.model.transforms import Units, affine_units_of, middles_and_sizes_of
from mcframe.numerics.splitmix64 import MULTIPLIERS, splitmix64
from mcframe.numerics.unlabeled import ImplicitLoss
from mcframe.partitions.executor import Partitions
from mcframe.partitions.part import PART, ByEffect, ElementwiseMin, Part, PartValue, Source
from mcframe.partitions.partitioned_data import PartitionedData
from mcframe.partitions.partitioned_effects import EffectsInParts
from mcframe.partitions.partitioned_loss import (
    PartitionedBlockLoss,
    PartitionedEntries,
    PartitionedImplicitLoss,
    PartitionedLoss,
)
from mcframe.partitions.partitioned_problem import (
    OffsetInPartitions,
    PartitionedProblem,
    TableInPartitions,
    gathered_origins,
)

# The multipliers of two hashes of an entry: both sums together have 128 bits.
HASH_MULTIPLIERS = (MULTIPLIERS, (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))


def refusal_of_partitions(model: Model) -> str | None:
    """The reason why a model is not fitted to rows in partitions, or None."""
    terms = model.terms
    alone = len(terms) == 1 and terms[0].block is None and isinstance(terms[0], Regularizer)
    if not (alone and isinstance(terms[0], Spectral) and isinstance(terms[0], Factored)):
        return "one NuclearNorm is needed as the only term; others need all of Z in one place"
    for block in model.blocks:
        reason = refusal_of_block(block)
        if reason is not None:
            return f"block {block.name!r}: {reason}"
    return None


def refusal_of_block(block: Block) -> str | None:
    """The reason why a block is not fitted to rows in partitions, as a clause, or None."""
    likelihood, word = block.likelihood, type(block.likelihood).__name__
    if not likelihood.smooth:
        return f"{word} has no gradient, and takes multipliers with a number an entry in one place"
    if not likelihood.convex:
        return f"{word} is not convex, so that there is no certificate to add up"
    return refusal_of_reading(block)


def refusal_of_reading(block: Block) -> str | None:
    """The reason why a block is not read from rows in partitions, as a clause, or None."""
    likelihood, word = block.likelihood, type(block.likelihood).__name__
    if likelihood.reads_unlabeled:
        reason = refusal_of_unlabeled(block)
        if reason is not None:
            return f"{word} reads unlabeled cells, which are not written out: {reason}"
    if likelihood.takes_intervals:
        return (
            f"{word} takes limits of values, which partitions do not carry; give the likelihood of"
            " the values without it, or fit the table in one piece"
        )
    if likelihood.takes_propensities:
        return (
            f"{word} takes propensities of labels, which partitions do not carry; leave them out,"
            " or fit the table in one piece"
        )
    fitted = fits_parameters(likelihood)
    if fitted and not isinstance(likelihood, ParametricBySums):
        return f"{word} fits parameters to all entries at once, and not by sums; give them"
    estimates = type(likelihood).bound_to is not Likelihood.bound_to
    if estimates and not isinstance(likelihood, BoundBySums):
        return f"{word} estimates something from all values at once; give it as an option"
    if block.standardize in ("robust", "ranks"):
        return (
            f"standardize={block.standardize!r} sorts whole columns; standardize=True takes sums"
        )
    if block.standardize and (likelihood.width > 1 or fitted):
        return f"standardize=True of {word} finds the best constants of whole columns; leave it"
    return None


def refusal_of_unlabeled(block: Block) -> str | None:
    """The reason why the unlabeled cells of a block are too many, as a clause, or None."""
    loss = block.likelihood.unlabeled
    if loss is None or loss.quadratic is None:
        return "only those of a squared loss, mc.Gaussian(), are summed without reading each one"
    if block.bias or block.row_effects:
        return "that takes neither bias nor row_effects; leave these out"
    return None


def bind_partitions(model: Model, partitions: Partitions) -> tuple[PartitionedProblem, Program]:
    """Bind a model to data in partitions and compile it, in two rounds of tasks or more.

    Standardised blocks and effects take further ones.

    Returns
    -------
    problem, program
        The problem, whose ``partitions`` is the executor of parts that are bound with all totals,
        and the program that solvers take.

    Raises
    ------
    BackendError
        Where the model is not fitted to rows in partitions, with the reason.
    DataError
        For anything in the data that the model cannot mean; it names the partition.
    """
    demand_partitions(model)
    problem, seen = problem_of_partitions(model, partitions)
    return problem, compiled_partitions(problem, problem.partitions, seen)


def problem_of_partitions(
    model: Model, partitions: Partitions
) -> tuple[PartitionedProblem, tuple["TableFacts", ...]]:
    """The problem of data in partitions, not compiled, and what is known of each block."""
    check_data(model, partitions.source.data)
    rows, added_up = partitions.rows_and_sum(table_facts, PART)
    seen = tuple(
        TableFacts(np.concatenate([block_facts[k] for block_facts in rows]), *facts)
        for k, facts in enumerate(added_up)
    )
    totals = totals_of(model, partitions, seen)
    tables = tables_without_data(model, partitions.source, seen, totals)
    bound = partitions.bound_to(partitions.source.bound_with(totals))
    counts = {
        block.name: block_facts.column_counts
        for block, block_facts in zip(model.blocks, seen, strict=True)
    }
    seen_rows = np.any([block_facts.row_counts > 0 for block_facts in seen], axis=0)
    notes = notes_on_gaps(model, tables, counts, seen_rows)
    origins = gathered_origins(model, tables, totals, bound)
    n_items = partitions.source.data.n_items
    problem = PartitionedProblem(
        model, tables, totals, model.terms, n_items, None, notes, origins, partitions=bound
    )
    return problem, seen


def demand_partitions(model: Model) -> None:
    """Raise a ``BackendError`` for a model that is not fitted to rows in partitions."""
    reason = refusal_of_partitions(model)
    if reason is not None:
        raise BackendError(f"rows in partitions: {reason}")


def check_blocks(model: Model, block_names: Collection[str]) -> None:
    """Raise a ``DataError`` where blocks are missing, or some are no blocks of the model."""
    names = tuple(block.name for block in model.blocks)
    for name in names:
        if name not in block_names:
            held = ", ".join(map(repr, block_names))
            raise DataError(f"block {name!r} has no data; the partitions hold {held}")
    for name in block_names:
        if name not in names:
            raise DataError(f"the partitions hold {name!r}, which no block is named")


def check_data(model: Model, data: PartitionedData) -> None:
    """Raise a ``DataError`` where blocks are others than the model's, or rows do not follow."""
    check_blocks(model, data.blocks)
    wanted = 0
    for p in range(data.n_partitions):
        first, last = data.rows(p)
        if first != wanted or last <= first:
            raise DataError(
                f"partition {p} has the rows {first} to {last - 1}; rows from {wanted} on, one at"
                " least, are needed there, since partitions follow each other"
            )
        wanted = last
    if wanted != data.n_items:
        raise DataError(f"the partitions have {wanted} rows, and n_items is {data.n_items}")


@attrs.frozen(eq=False)
class TableFacts:
    """Counts and sums over all rows of a block, before it is bound."""

    row_counts: IntArray  # observed entries of each row
    column_counts: IntArray
    total_weight: float
    ranges: ElementwiseMin  # of values less offsets: lowest of each column, and highest negated
    n_offsets: int  # partitions that have some
    to_bind: Array  # sums from which the likelihood estimates something, if it does
    hash_sums: IntArray  # of places, values and weights


def table_facts(part: Part) -> tuple[tuple[IntArray, ...], tuple[tuple[Any, ...], ...]]:
    """Counts and sums that binding needs: counts by rows, and sums over all rows."""
    source = part.source
    first = source.data.rows(part.p)[0]
    tables = [(block, part.tables[block.name]) for block in source.model.blocks]
    rows = tuple(attrs.evolve(table, has_implicit_cells=False).row_counts for _, table in tables)
    return rows, tuple(
        summed_facts(block, table, first, k) for k, (block, table) in enumerate(tables)
    )


def summed_facts(block: Block, table: Table, first: int, k: int) -> tuple[Any, ...]:
    """The sums of block ``k`` over a table whose rows begin with ``first``."""
    n_columns, likelihood = table.shape[1], block.likelihood
    to_bind: Array = np.zeros(0)
    if isinstance(likelihood, BoundBySums):
        to_bind = likelihood.sums_to_bind(table.values)
    lowest, highest = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    if (likelihood.location and block.bias) or block.standardize:
        values = targets_of(block, table)
        np.minimum.at(lowest, table.columns, values)
        np.maximum.at(highest, table.columns, values)
    return (
        np.bincount(table.columns, minlength=n_columns),
        table.total_weight,
        ElementwiseMin(np.stack([lowest, -highest])),
        int(table.offset is not None),
        to_bind,
        hash_sums(table, first, k),
    )


def hash_sums(table: Table, first: int, k: int) -> IntArray:
    """Two sums over the entries of a table, of hashes of each one's place, value and weight.

    They depend on neither the order nor the partitions of the entries.

    Parameters
    ----------
    table : Table
    first : int
        The number of its first row in the whole table.
    k : int
        The number of the block.
    """
    sums = []
    places = (table.rows + first).astype(np.uint64) * np.uint64(table.shape[1])
    places += table.columns.astype(np.uint64)
    weights = np.ones(1) if table.weights is None else table.weights
    for multipliers in HASH_MULTIPLIERS:
        bits = np.full(places.size, k + 1, dtype=np.uint64)
        for word in (places, table.values.view(np.uint64), weights.view(np.uint64)):
            bits = splitmix64(bits + word, increment=0, multipliers=multipliers)
        sums.append(np.sum(bits, dtype=np.uint64))
    return np.array(sums, dtype=np.uint64)


def totals_of(model: Model, partitions: Partitions, seen: tuple[TableFacts, ...]) -> Totals:
    """The totals of all rows."""
    weights, centres, standards, likelihoods = {}, {}, {}, {}
    for block, facts in zip(model.blocks, seen, strict=True):
        weights[block.name] = facts.total_weight
        if not facts.column_counts.any():
            raise DataError(f"block {block.name!r}: not one of its entries is observed")
        shape = partitions.source.data.shape(block.name)
        likelihoods[block.name] = block.likelihood
        if isinstance(block.likelihood, BoundBySums):
            try:
                likelihoods[block.name] = block.likelihood.bound_by_sums(shape, facts.to_bind)
            except DataError as error:
                raise DataError(f"block {block.name!r}: {error}") from None
        lowest, highest = facts.ranges.numbers[0], -facts.ranges.numbers[1]
        if block.standardize:
            standard = standard_of_partitions(block, partitions, lowest, highest)
            standards[block.name] = standard
            if standard.units is not None:
                lowest, highest = ranges_in(standard.units, lowest, highest)
        if block.likelihood.location and block.bias:
            middles = middles_between(lowest, highest)
            if middles.any():
                centres[block.name] = middles
    n_items, columns = partitions.source.data.n_items, {}
    for block, facts in zip(model.blocks, seen, strict=True):
        everywhere = np.full(facts.column_counts.size, n_items)
        columns[block.name] = (
            everywhere if block.likelihood.reads_unlabeled else facts.column_counts
        )
    counts = counts_of(model, columns.__getitem__, n_items)
    return Totals(weights, centres, likelihoods, standards, counts)


def tables_without_data(
    model: Model, source: Source, seen: tuple[TableFacts, ...], totals: Totals
) -> Mapping[str, Any]:
    """Tables without entries, which know shapes and which rows have any."""
    data = source.data
    nowhere: IntArray = np.zeros(0, dtype=np.intp)
    row_labels = getattr(data, "row_labels", None)
    column_labels = getattr(data, "column_labels", None)
    tables: dict[str, Any] = {}
    for block, facts in zip(model.blocks, seen, strict=True):
        names = None if column_labels is None else column_labels(block.name)
        table = Table(data.shape(block.name), nowhere, nowhere, np.zeros(0), row_labels, names)
        offset: Any = None
        if facts.n_offsets:
            width = table.shape[1] * block.likelihood.width
            offset = OffsetInPartitions((table.shape[0], width), block.name, source)
        table = attrs.evolve(table, offset=offset)
        if block.standardize:
            table = table.standardised(totals.standards[block.name])
        everywhere = np.full(facts.row_counts.size, facts.column_counts.size)
        rows = everywhere if block.likelihood.reads_unlabeled else facts.row_counts
        tables[block.name] = TableInPartitions(block.name, table, rows, source)
    return tables


def loss_facts(part: Part) -> tuple[Any, ...]:
    """Sums and largest numbers of the losses of bound blocks.

    The facts of each block, squares of nonsmooth predictors, entries of the longest row, and of
    each column of Z.
    """
    loss, entries = part.program.loss, part.program.entries
    blocks = tuple(facts_of_block(block_loss) for block_loss in loss.block_losses)
    squares = sum(float(np.sum(np.square(block_loss.start()))) for block_loss in loss.block_losses)
    longest = ElementwiseMin(np.asarray(-entries.pattern.by_rows.longest))
    columns = np.bincount(entries.columns, minlength=entries.shape[1])
    return blocks, squares, longest, columns


def facts_of_block(block_loss: BlockLoss) -> tuple[Any, ...]:
    """Counts of entries by effect, and facts of the block."""
    kind, scale = block_loss.effects, block_loss.scale * np.ones(block_loss.y.size)
    by_effect = ByEffect.of(block_loss.layout, (kind.counts,))
    gradient = block_loss.largest_gradient if block_loss.has_conjugate() else 0.0
    largest = ElementwiseMin(-np.array([np.max(scale, initial=0.0), gradient]))
    return by_effect, largest, block_loss.total_scale, block_loss.n_numbers


def compiled_partitions(
    problem: PartitionedProblem, partitions: Partitions, tables: tuple[TableFacts, ...]
) -> Program:
    """The program of all partitions."""
    blocks, squares, longest, columns = partitions.sum(loss_facts, PART)
    block_losses = []
    for k, (by_effect, largest, total_scale, n_numbers) in enumerate(blocks):
        effects = EffectsInParts.of(problem, partitions, k, *by_effect.sums)
        scale, gradient = (float(part) for part in -largest.numbers)
        sizes = scale, total_scale, n_numbers, gradient
        block_losses.append(
            PartitionedBlockLoss(effects.likelihood, effects.layout, *sizes, effects)
        )
    size = sum(block_loss.n_numbers for block_loss in block_losses)
    unit = float(np.sqrt(squares / size)) or 1.0
    hashes = np.sum([facts.hash_sums for facts in tables], axis=0, dtype=np.uint64)
    bits = hashlib.blake2b(hashes.tobytes() + repr(problem.shape).encode(), digest_size=16)
    main: Any = problem.terms[0]
    scales = problem.scales_of(main)
    entries: Any = PartitionedEntries(
        partitions,
        problem.shape,
        size,
        max(-int(longest.numbers), int(np.max(columns))),
        int.from_bytes(bits.digest(), "little"),
        scales=None if scales is None else scales.inverse,
    )
    loss: Any = PartitionedLoss(partitions, tuple(block_losses), unit)
    background: Any = ImplicitLoss((), np.zeros(0, dtype=np.intp), problem.shape)
    if any(part.reads_unlabeled for part in problem.likelihoods.values()):
        background = PartitionedImplicitLoss(partitions)
    return Program(
        entries=entries,
        loss=loss,
        background=background,
        penalty=SpectralPenalty(main=main),
        names=tuple(block.name for block in problem.model.blocks),
        columns=tuple(problem.columns(block.name) for block in problem.model.blocks),
        unit=unit,
    )


def standard_of_partitions(
    block: Block, partitions: Partitions, lowest: Array, highest: Array
) -> Standard:
    """Return the standard of a block's columns, whose values less offsets have these ranges.

    Mean and mean square are taken of values less the middle of their range, in its size, so that
    those around 1e12 lose no digit; then each column is weighed by its losses at its best
    constant, which takes two rounds of a quadratic, and a bisection in some 90.
    """
    units = None
    if block.likelihood.location:
        pivot, size = middles_and_sizes_of(lowest, highest)
        zeros = np.zeros(lowest.size)
        total, sums, _ = partitions.sum(column_moments, PART, block.name, pivot, size, zeros)
        mean = sums / np.where(total > 0.0, total, 1.0)
        total, _, squares = partitions.sum(column_moments, PART, block.name, pivot, size, mean)
        spread = np.sqrt(squares / np.where(total > 0.0, total, 1.0))
        units = affine_units_of(pivot, size, mean, spread)
        lowest, highest = ranges_in(units, lowest, highest)
    unweighted = Standard(units, np.ones(lowest.size))
    if block.likelihood.why_no_optimum is not None:
        return unweighted  # a variance that is learned weighs each column by itself
    arguments = PART, block.name, unweighted, lowest < highest
    sums_at = PartitionedColumnSums(partitions, PartValue(column_entries, arguments))
    z = best_constants(block.likelihood, sums_at, lowest.size)
    losses = mean_losses(*sums_at.excess_at(z))
    return attrs.evolve(unweighted, weights=1.0 / np.where(losses > 0.0, losses, 1.0))


def ranges_in(units: Units, lowest: Array, highest: Array) -> tuple[Array, Array]:
    """Ranges of columns in their units, which are monotone to the last bit."""
    columns, seen = np.arange(lowest.size), lowest <= highest
    ends = [
        units.apply(np.where(seen, end, 0.0), np.zeros_like(columns), columns)
        for end in (lowest, highest)
    ]
    return np.where(seen, ends[0], np.inf), np.where(seen, ends[1], -np.inf)


@attrs.frozen(eq=False)
class PartitionedColumnSums:
    """``ColumnEntries`` of all partitions, of the columns with several values."""

    partitions: Partitions
    constants: PartValue  # those of each partition

    def total(self) -> Array:
        """The weight of each column."""
        return np.asarray(self.partitions.sum(ColumnEntries.total, self.constants))

    def gradients(self, z: Array) -> Array:
        """The sums of gradients at one predictor a column."""
        return np.asarray(self.partitions.sum(ColumnEntries.gradients, self.constants, z))

    def start_ranges(self) -> tuple[Array, Array]:
        """The ranges of nonsmooth predictors."""
        lowest, highest = self.partitions.sum(ranges_of_starts, self.constants)
        return lowest.numbers, -highest.numbers

    def excess_at(self, z: Array) -> tuple[Array, Array, Array]:
        """Weights, losses and sizes at one predictor a column."""
        total, lost, sizes = self.partitions.sum(ColumnEntries.excess_at, self.constants, z)
        return total, lost, sizes


def column_moments(
    part: Part, block: str, pivot: Array, size: Array, centre: Array
) -> tuple[Array, Array, Array]:
    """Weights, sums and squares of ``(values - pivot) / size - centre`` by columns."""
    table = part.tables[block]
    columns, weights = table.columns, weights_of_entries(table)
    scaled = (table.targets() - pivot[columns]) / size[columns] - centre[columns]
    total, sums, squares = (
        np.asarray(np.bincount(columns, weights * numbers, pivot.size), dtype=np.float64)
        for numbers in (np.ones(scaled.size), scaled, np.square(scaled))
    )
    return total, sums, squares


def column_entries(part: Part, block: str, standard: Standard, several: Mask) -> ColumnEntries:
    """The entries of a partition in columns with several values, in standard units."""
    table = part.tables[block].standardised(standard)
    table = table.select(np.flatnonzero(several[table.columns]))
    return ColumnEntries(
        part.source.model.block(block).likelihood,
        table.values,
        table.columns,
        weights_of_entries(table),
        several.size,
        np.zeros(table.n_entries) if table.offsets is None else table.offsets,
    )


def ranges_of_starts(entries: ColumnEntries) -> tuple[ElementwiseMin, ElementwiseMin]:
    """The least nonsmooth predictors of each column, and the largest with the other sign."""
    lowest, highest = entries.start_ranges()
    return ElementwiseMin(lowest), ElementwiseMin(-highest)

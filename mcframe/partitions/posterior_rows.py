"""The rows of Gaussian factors in partitions: a sweep is one round."""

from typing import Any, ClassVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.fitting.new_rows import table_without_entries
from mcframe.model import Problem
from mcframe.partitions.attribute_rows import (
    CrossedProducts,
    products_of_attributes,
    state_of_part,
)
from mcframe.partitions.executor import WHY_NOT_STORED, OneByOne, Partitions
from mcframe.partitions.part import PART, PROGRAM, ElementwiseMin, Part, PartValue
from mcframe.posterior.coefficients import AttributeSums
from mcframe.posterior.factor_state import FactorState
from mcframe.posterior.linear_response import RowsGiven
from mcframe.posterior.observed import (
    Observed,
    ObservedBlock,
    Summary,
    with_computed_summaries,
)
from mcframe.posterior.row_pass import RowPass, RowSums, row_pass, row_sums


@attrs.define(eq=False)
class PartitionedPosteriorRows:
    """The rows of Gaussian factors in partitions.

    A sweep is one round. Single rows are asked for in this process: of the partitions that have
    them, read again one after the other. Where likelihoods are no Gaussians their bounds are found
    given the columns then.
    """

    why_not_stored: ClassVar[str] = WHY_NOT_STORED

    partitions: Partitions
    latest: tuple[FactorState, int, RowPass] | None = None  # the part asked for rows last

    def sums(self, summaries: tuple[Summary, ...], state: FactorState, key: str) -> RowSums:
        """The sums over all rows; bounds of entries are kept by this key."""
        of_part = PartValue(state_of_part, (PART, state.without_column_coefficients))
        sums: RowSums = self.partitions.sum(row_sums, PART, summaries, of_part, key)
        for sent in (state.columns, state.priors, state.row_coefficients):
            self.partitions.forget(sent)
        return sums

    def attribute_sums(self, summaries: tuple[Summary, ...], state: FactorState) -> AttributeSums:
        """The sums by which rows given the columns determine coefficients of attributes."""
        coefficients = state.row_coefficients
        assert coefficients is not None
        of_parts = state.without_column_coefficients
        answers = self.partitions.sum(attribute_sums_of_part, PART, summaries, of_parts)
        self.partitions.forget(coefficients)
        products, right, shares, packed = answers
        crossed = CrossedProducts.of(packed, *coefficients.gaussians.means.shape)
        return AttributeSums(products, right, shares, crossed)

    def fitted(self, observed: Observed, state: FactorState) -> Observed:
        """The entries with the parameters of likelihoods that suit the predictors best."""
        return fitted_in_parts(self.partitions, observed, state.without_column_coefficients)

    def rows_given(
        self, rows: IntArray, summaries: tuple[Summary, ...], state: FactorState
    ) -> RowsGiven:
        """Some rows given the columns; rows are in ascending order."""
        parts = []
        for p, (first, last) in enumerate(self.partitions.rows):
            inside = rows[(rows >= first) & (rows < last)] - first
            if inside.size:
                if self.latest is None or self.latest[0] is not state or self.latest[1] != p:
                    part = self.partitions.source.part(p)
                    of_part = row_pass(part, summaries, state_of_part(part, state))
                    self.latest = state, p, of_part
                parts.append(self.latest[2].of_rows(inside))
        return RowsGiven.joined(parts)

    def for_sweeps(self) -> "PartitionedPosteriorRows":
        """Rows for further sweeps in this process, which keeps the parts meanwhile."""
        return PartitionedPosteriorRows(OneByOne(self.partitions.source))

    def without_bounds(self) -> "PartitionedPosteriorRows":
        """Rows in partitions, of which this process keeps no bounds of entries."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionedPosteriorRows, (self.partitions,)


def attribute_sums_of_part(
    part: Part, summaries: tuple[Summary, ...], state: FactorState
) -> tuple[Array, Array, Array, Array]:
    """The sums by which the rows of a partition determine coefficients of attributes."""
    rows = row_pass(part, summaries, state_of_part(part, state))
    if rows.unsettled:  # bounds that a process has lost, and finds once
        for chunk in sorted(rows.unsettled):
            rows.settled_chunk(chunk)
        part.keep(f"{state.key}/values", rows.values)
        part.keep(f"{state.key}/precisions", rows.precisions)
    return products_of_attributes(rows)


def observed_of_part(part: Part) -> Observed:
    """The entries of a partition, places of 4 bytes: what it holds in the place of a program."""
    entries = Observed.of_tables(part.problem, part.problem.tables)
    blocks = tuple(
        attrs.evolve(block, entry_columns=block.entry_columns.astype(np.int32))
        for block in entries.blocks
    )
    return attrs.evolve(entries, blocks=blocks)


def without_entries(problem: Problem) -> Observed:
    """The blocks of a problem without an entry."""
    names = [block.name for block in problem.model.blocks]
    tables = {name: table_without_entries(problem, name, problem.n_items) for name in names}
    return Observed.of_tables(problem, tables)


def observed_in_parts(partitions: Partitions, problem: Problem) -> Observed:
    """The blocks without an entry, their summaries of all rows, and thresholds at z = 0."""

    def total(question: Any, *arguments: Any) -> Any:
        return partitions.sum(question, PROGRAM, *arguments)

    return fitted_in_parts(
        partitions, with_computed_summaries(without_entries(problem), total), None
    )


def fitted_in_parts(
    partitions: Partitions, observed: Observed, state: FactorState | None
) -> Observed:
    """The entries with the parameters of likelihoods that suit predictors best, or z = 0."""
    blocks = list(observed.blocks)
    for b, block in enumerate(blocks):
        if not block.layout.n_parameters:
            continue
        parametric: Any = block.unfitted
        arguments = PART, observed.summaries, state, b

        def answer_of_entries(question: Any, arguments: Any = arguments) -> tuple[Any, Array]:
            sums, negated = partitions.sum(parameter_sums, *arguments, question)
            return sums, -negated.numbers

        start = block.required_summary.parameters
        blocks[b] = block.with_parameters(parametric.parameters_by_sums(answer_of_entries, start))
        if state is not None:
            both = block.required_summary, blocks[b].required_summary
            before, after = partitions.sum(parameter_bounds, *arguments, both)
            blocks[b] = blocks[b] if after > before else block
    return attrs.evolve(observed, blocks=tuple(blocks))


def parameter_sums(
    part: Part, summaries: tuple[Summary, ...], state: FactorState | None, b: int, asked: Any
) -> tuple[Any, ElementwiseMin]:
    """Sums over the entries of a block for its parameters, and the negated largest numbers.

    Predictors have the moments that rows and columns give them, or are 0. They are kept.
    """
    block, mean, sd = moments_of_block(part, summaries, state, b)
    parametric: Any = block.unfitted
    weights = np.broadcast_to(block.weights, block.y.shape)
    sums, largest = parametric.parameter_sums(mean + block.offset, block.y, weights, sd)(asked)
    return sums, ElementwiseMin(-largest)


def parameter_bounds(
    part: Part, summaries: tuple[Summary, ...], state: FactorState, b: int, of_block: Any
) -> Array:
    """The sums of the expected bounds of a block under summaries with other parameters."""
    block, mean, sd = moments_of_block(part, summaries, state, b)
    assert sd is not None
    blocks = [block.with_summary(summary) for summary in of_block]
    return np.array([block_losses.expected_bound(mean, sd) for block_losses in blocks])


def moments_of_block(
    part: Part, summaries: tuple[Summary, ...], state: FactorState | None, b: int
) -> tuple[ObservedBlock, Array, Array | None]:
    """The entries of a block, and the means and deviations of their predictors, which are kept."""
    entries: Any = part.program
    block = entries.with_summaries(summaries).blocks[b]
    if state is None:
        return block, np.zeros(block.y.size), None
    names = f"{state.key}/mean", f"{state.key}/sd"
    if any(name not in part.kept for name in names):
        mean, variance = row_pass(part, summaries, state_of_part(part, state)).all_moments()
        for name, array in zip(names, (mean, np.sqrt(variance)), strict=True):
            part.keep(name, array)
    mean, sd = (part.kept[name][block.part] for name in names)
    return block, mean, sd

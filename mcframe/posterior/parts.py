"""Rows of Gaussian factors in partitions: questions to these, and what they know together."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.values import PART, PROGRAM, Least
from mcframe.contracts.arrays import Array, IntArray
from mcframe.model import Problem
from mcframe.posterior.factor_rows import RowPass, RowSums, row_pass, row_sums
from mcframe.posterior.factor_state import FactorState, Gaussians
from mcframe.posterior.observed import Observed, ObservedBlock, Summary, nothing, summaries


def observed_of_part(part: Part) -> Observed:
    """The entries of a partition, places of 4 bytes: what it holds in the place of a program."""
    found = Observed.of_tables(part.problem)
    blocks = tuple(attrs.evolve(own, at=own.at.astype(np.int32)) for own in found.blocks)
    return attrs.evolve(found, blocks=blocks)


def without_entries(problem: Problem) -> Observed:
    """The blocks of a problem without an entry."""
    names = [block.name for block in problem.model.blocks]
    return Observed.of_tables(
        problem, {name: nothing(problem, name, problem.n_items) for name in names}
    )


@attrs.define(eq=False)
class RowsInParts:
    """The rows of all partitions; a sweep is one round.

    Rows are asked for in this process: of the partitions that have them, read again one after the
    other. Where likelihoods are no Gaussians their bounds are found given the columns then.
    """

    partitions: Partitions
    latest: tuple[FactorState, int, RowPass] | None = None  # the partition asked for rows last
    before: FactorState | None = None  # that of the sweep before

    def observed(self, problem: Problem) -> Observed:
        """What is known of all blocks, without an entry; thresholds are those at 0."""
        found = without_entries(problem)

        def total(question: Any, *given: Any) -> Any:
            return self.partitions.sum(question, PROGRAM, *given)

        found = found.summed_up(summaries(found.blocks, problem.likelihoods, total))
        return self.fitted(found, None)

    def sums(self, known: tuple[Summary, ...], state: FactorState, key: str) -> RowSums:
        """The sums over all rows; bounds of entries are kept by this key."""
        found: RowSums = self.partitions.sum(row_sums, PART, known, state, key)
        if self.before is not None and self.before is not state:
            self.partitions.forget(self.before.columns)
            self.partitions.forget(self.before.priors)
        self.before = state
        return found

    def fitted(self, observed: Observed, state: FactorState | None) -> Observed:
        """The entries with the parameters of likelihoods that suit the predictors best."""
        blocks = list(observed.blocks)
        for b, own in enumerate(blocks):
            if own.layout.n_parameters:
                parametric: Any = own.block.likelihood

                def tell(asked: Any, b: int = b) -> tuple[Any, Array]:
                    given = PART, observed.summaries, state, b, asked
                    sums, negated = self.partitions.sum(parameter_sums, *given)
                    return sums, -negated.numbers

                likelihood: Any = own.likelihood
                known = None if state is None else np.array(likelihood.thresholds)
                found = own.with_parameters(parametric.parameters_by_sums(tell, known))
                if state is not None:
                    given = PART, observed.summaries, state, b, (own.likelihood, found.likelihood)
                    before, after = self.partitions.sum(parameter_bounds, *given)
                    found = found if after > before else own
                blocks[b] = found
        return attrs.evolve(observed, blocks=tuple(blocks))

    def gaussians(
        self, rows: IntArray, known: tuple[Summary, ...], state: FactorState
    ) -> Gaussians:
        """The Gaussians of some rows, which are in ascending order."""
        found = []
        for p, (first, last) in enumerate(self.partitions.rows):
            here = rows[(rows >= first) & (rows < last)] - first
            if here.size:
                if self.latest is None or self.latest[0] is not state or self.latest[1] != p:
                    self.latest = state, p, row_pass(self.partitions.source.part(p), known, state)
                own = self.latest[2].of_rows(here)
                found.append(attrs.astuple(own, recurse=False))
        return Gaussians(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsInParts, (self.partitions,)


def parameter_sums(
    part: Part, known: tuple[Summary, ...], state: FactorState | None, b: int, asked: Any
) -> tuple[Any, Least]:
    """What the entries of a block answer to a question for its parameters; see ``Least``.

    Predictors have the moments that rows and columns give them, or are 0. They are kept.
    """
    own, mean, sd = moments_of_block(part, known, state, b)
    weights = np.ones(own.y.size) if own.weights is None else own.weights
    z = mean if own.offset is None else mean + own.offset
    likelihood: Any = own.block.likelihood
    sums, largest = likelihood.parameter_sums(z, own.y, weights, sd)(asked)
    return sums, Least(-largest)


def parameter_bounds(
    part: Part, known: tuple[Summary, ...], state: FactorState, b: int, likelihoods: Any
) -> Array:
    """The sums of the expected bounds of a block under several likelihoods."""
    own, mean, sd = moments_of_block(part, known, state, b)
    assert sd is not None
    found = []
    for likelihood in likelihoods:
        summary = attrs.evolve(own.known, likelihood=likelihood)
        found.append(attrs.evolve(own, summary=summary).expected_bound(mean, sd))
    return np.array(found)


def moments_of_block(
    part: Part, known: tuple[Summary, ...], state: FactorState | None, b: int
) -> tuple[ObservedBlock, Array, Array | None]:
    """The entries of a block, and the means and deviations of their predictors, which are kept."""
    entries: Any = part.program
    own = entries.summed_up(known).blocks[b]
    if state is None:
        return own, np.zeros(own.y.size), None
    names = f"{state.key}/mean", f"{state.key}/sd"
    if any(name not in part.kept for name in names):
        mean, variance = row_pass(part, known, state).all_moments()
        for name, array in zip(names, (mean, np.sqrt(variance)), strict=True):
            part.keep(name, array)
    mean, sd = (part.kept[name][own.part] for name in names)
    return own, mean, sd

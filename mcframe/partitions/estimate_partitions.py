"""``posterior`` of data whose rows come in partitions."""

from typing import Any

import attrs

from mcframe.contracts.errors import BackendError, UnobservedWarning, warn_caller
from mcframe.contracts.sent import fresh_key
from mcframe.contracts.term import PriorOfFactors
from mcframe.contracts.validators import is_word
from mcframe.model import Model, Problem
from mcframe.model.binding import worth_a_warning
from mcframe.partitions.attribute_rows import WHAT, AttributeRows
from mcframe.partitions.binding_rounds import problem_of_partitions, refusal_of_reading
from mcframe.partitions.executor import Partitions
from mcframe.partitions.fit_partitions import executor_of
from mcframe.partitions.posterior_rows import (
    PartitionedPosteriorRows,
    observed_in_parts,
    observed_of_part,
    without_entries,
)
from mcframe.posterior.attributes import OBSERVED, AttributesRead, raw_groups
from mcframe.posterior.estimation import CoordinateAscent, PosteriorOptions, run_on_factors
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import Observed


@attrs.frozen
class RowsInParts:
    """The rows of a posterior of factors in partitions: a ``FactorSource``."""

    partitions: Partitions
    kind: str = "posterior of partitions"

    def observed(self, problem: Problem) -> Observed:
        """The blocks without an entry, their summaries of all rows, and thresholds at z = 0."""
        return observed_in_parts(self.partitions, problem)

    def without_summaries(self, problem: Problem) -> Observed:
        """The blocks without an entry."""
        return without_entries(problem)

    def row_attributes(self, raw: Any, observed: Observed, width: int) -> AttributesRead:
        """The groups of attributes, of which partitions have the values."""
        attributes = self.partitions.source.row_attributes
        return (
            attributes.read(self.partitions, observed, width) if attributes else AttributesRead()
        )

    def rows(self, observed: Observed) -> PartitionedPosteriorRows:
        """The rows of the factors, as a sweep needs them."""
        return PartitionedPosteriorRows(self.partitions)


def estimate_partitions(
    ascent: CoordinateAscent,
    model: Model,
    data: Any,
    seed: int,
    options: PosteriorOptions,
    *,
    checkpoint: object,
) -> None:
    """Run the ascent of a model with a posterior, options checked; it has the engine then."""
    reason = refusal_of_posterior(model)
    if reason is not None:
        raise BackendError(f"no posterior of rows in partitions: {reason}")
    with executor_of(model, data, observed_of_part) as of_data:
        attributes = AttributeRows.of(options.get(WHAT), of_data.source.data.n_items)
        refuse_observed_rows(options.get("column_attributes"))
        source = attrs.evolve(of_data.source, row_attributes=attributes, key=fresh_key())
        executor = of_data if attributes is None else of_data.bound_to(source)
        bound, _ = problem_of_partitions(model, executor)
        for note in worth_a_warning(bound.notes):
            warn_caller(note, UnobservedWarning)
        parts = bound.partitions
        run_on_factors(ascent, bound, seed, options, checkpoint, RowsInParts(parts))
        # Parts, and what a cluster was sent, are not kept for as long as the answer.
        alone = parts.alone()
        assert isinstance(ascent.engine, FactorPosterior)  # of rows in partitions
        ascent.engine = attrs.evolve(ascent.engine, rows=PartitionedPosteriorRows(alone))
        ascent.problem = attrs.evolve(bound, partitions=alone)


def refuse_observed_rows(raw: Any) -> None:
    """Raise a ``BackendError`` where columns have the sets of observed rows as attributes."""
    for name, group in raw_groups(raw, "column_attributes").items():
        if is_word(group, OBSERVED):
            raise BackendError(
                f"{name}={OBSERVED!r}: no process knows the set of rows that are observed in a"
                " column where rows are in partitions; leave it out, or give all rows as arrays"
            )


def refusal_of_posterior(model: Model) -> str | None:
    """The reason why a model has no posterior of rows in partitions, or None."""
    if not isinstance(model.terms[0], PriorOfFactors):
        word = model.terms[0].word
        return f"{word} is estimated from all rows in one place; take NuclearNorm()"
    reasons = ((block.name, refusal_of_reading(block)) for block in model.blocks)
    return next((f"block {name!r}: {reason}" for name, reason in reasons if reason), None)

"""``fit`` and ``explain`` of data whose rows come in partitions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Alternating, Eligibility, FirstOrder, Outcome, Settings, run
from mcframe.backends.alternating import INITIAL_COLUMNS
from mcframe.backends.row_space import RowSpace
from mcframe.compile import Program, demand_determined
from mcframe.compile.factor_rows import MOST_TAPERED_ROWS
from mcframe.contracts.errors import BackendError, ModelError, UnobservedWarning, warn_caller
from mcframe.contracts.limits import STORED_NUMBERS
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import as_given, is_word
from mcframe.fitting.fit import resumed
from mcframe.fitting.fit_answer import CompactState, Fit
from mcframe.model import Model
from mcframe.model.binding import check_model, worth_a_warning
from mcframe.partitions.alternating_rows import EQUATION_BYTES
from mcframe.partitions.binding_rounds import (
    bind_partitions,
    check_blocks,
    demand_partitions,
    refusal_of_partitions,
)
from mcframe.partitions.cluster import current_client
from mcframe.partitions.executor import OneByOne, PartCache, Partitions
from mcframe.partitions.from_dask import tables_from_dask
from mcframe.partitions.on_dask import OnDask
from mcframe.partitions.part import (
    Part,
    Source,
    bytes_compiled,
    bytes_of_equations,
    bytes_to_driver,
    sums_in_memory,
)
from mcframe.partitions.partitioned_data import PartitionedData
from mcframe.partitions.partitioned_effects import notes_on_blocks
from mcframe.partitions.tall_matrix import settled, written_out
from mcframe.runtime.machine import memory_gigabytes
from mcframe.runtime.scratch import Scratch
from mcframe.runtime.work import in_bytes

# The share of the available memory that compiled partitions may take between rounds.
COMPILED_MEMORY_SHARE = 0.3
# Numbers for each row that a certificate holds where it shortens rows of a gradient: 0.5 GB of a
# million rows.
TAPERED_NUMBERS = 60


def read_partitions(data: Any) -> PartitionedData:
    """The rows in partitions; those of collections of Dask are computed once, to count them."""
    return tables_from_dask(data) if isinstance(data, Mapping) else data


def fit_partitions(
    model: Model,
    data: Any,
    backend: object,
    start: Fit | None,
    settings: Settings,
    checkpoint: object = None,
) -> Fit:
    """The fit of a model to data in partitions, or to collections of Dask, options checked.

    With a ``checkpoint`` the best point of each certificate is written into that file, and a
    better one between certificates that are far apart; a fit continues from such a file.
    """
    check_model(model)
    demand_determined(model)
    solver = solver_for(backend)
    demand_partitions(model)
    with executor_of(model, data) as executor:
        problem, program = bind_partitions(model, executor)
        reason = solver.refusal(program)
        if reason is not None:
            raise BackendError(f"rows in partitions: {reason}")
        for note in worth_a_warning(problem.notes):
            warn_caller(note, UnobservedWarning)

        def fit_of(outcome: Outcome) -> Fit:
            return Fit.of(problem, outcome, solver.name, settings.random_state)

        settings, _ = resumed(settings, start, problem, fit_of, checkpoint, "fit of partitions")
        if settings.write_checkpoint is not None:
            write = settings.write_checkpoint
            settings = attrs.evolve(settings, write_checkpoint=lambda o: write(written_out(o)))
        # What is said of the answer is computed where its rows are, and last they come here.
        outcome = run(solver, program, settings)
        fit = fit_of(attrs.evolve(outcome, point=settled(outcome.point)))
        loss: Any = program.loss
        notes = (*problem.notes, *notes_on_blocks(problem, loss), *problem.partitions.notes)
        infinite = {
            block.name: np.flatnonzero(block_loss.effects.fixed)
            for block, block_loss in zip(model.blocks, loss.block_losses, strict=True)
        }
        point, space = written_out(fit.point), None
        # Of rows that fit into memory the bits are those of a table there.
        few = point.latent.left.size <= STORED_NUMBERS
        latent = (point if few else fit.point).latent
        with suppress(ModelError):  # without it a question about new rows raises an error
            space = RowSpace.of(problem, latent, fit.effects, fit.point.dual, infinite)
        # Parts that are compiled, and what a cluster was sent, are not kept as long as the fit.
        rested: Any = problem.partitions.bound_to(problem.partitions.source)
        problem = attrs.evolve(problem, partitions=rested)
        return attrs.evolve(fit, problem=problem, point=point, kept=CompactState(space, notes))


@contextmanager
def executor_of(
    model: Model,
    data: Any,
    form: Callable[[Part], Any] | None = None,
) -> Iterator[Partitions]:
    """The executor for data in partitions or collections of Dask, closed at the end."""
    check_blocks(model, data if isinstance(data, Mapping) else data.blocks)
    client = current_client()
    with closing(executor_for(model, read_partitions(data), client, form)) as executor:
        yield executor


def solver_for(backend: object) -> Solver[Program, Any]:
    """The solver of rows in partitions, or a ``BackendError`` where another one is asked for."""
    if isinstance(backend, FirstOrder):
        backend = backend.solver
    if isinstance(backend, Solver) and backend.sums_over_rows:
        return backend
    if is_word(backend, "auto", Alternating.name):
        return Alternating()
    raise BackendError(
        f"backend={as_given(backend)} was given; rows in partitions are fitted by 'alternating'"
        " alone, or by a solver of your own that declares sums_over_rows, since the others hold"
        " all of Z, or a number for each entry, in one place"
    )


def executor_for(
    model: Model,
    data: PartitionedData,
    client: Any,
    form: Callable[[Part], Any] | None = None,
) -> Partitions:
    """The executor: the workers of a client, or this process, one partition after the other.

    ``form`` is that of a ``Source``.
    """
    source = Source(data, model, form=form)
    if client is not None:
        return OnDask(source, client)
    file = Scratch()
    file.check()
    return OneByOne(source, PartCache(COMPILED_MEMORY_SHARE * 1e9 * memory_gigabytes(), file))


@attrs.frozen(eq=False, repr=False)
class PartitionsExplanation:
    """Memory and traffic of a fit of rows in partitions, estimated before any work.

    Attributes
    ----------
    refusal : str or None
        Why the model is not fitted to rows in partitions; None if it is.
    n_partitions : int
    partition_bytes : tuple of int
        What each partition takes compiled, with the numbers at its entries: by the classes of
        its blocks, their weights and offsets as far as the data tell of them.
    driver_bytes : int
        Factors, their steps and the Lanczos vectors of a certificate, with ``width`` columns. If
        there are more rows than columns, rows of factors are with the partitions until the end.
    round_bytes : int
        What travels at most in a round: factors to the partitions, but rows that are there, and
        normal equations of a slab of columns back, added up on the way where they are large.
    width : int
        The columns of the factors for which sizes are estimated; they grow with it.
    """

    refusal: str | None
    n_partitions: int
    partition_bytes: tuple[int, ...]
    driver_bytes: int
    round_bytes: int
    width: int = INITIAL_COLUMNS

    @property
    def chosen(self) -> str | None:
        """The backend of rows in partitions, or None if it cannot run the model."""
        return Alternating.name if self.refusal is None else None

    @property
    def why(self) -> str:
        """The sentence that says why this backend is taken, or what it cannot do."""
        return self.refusal or (
            "'alternating' needs sums over rows, which partitions add up; other backends hold all"
            " of Z, or a number for each entry, in one place"
        )

    @property
    def eligibilities(self) -> tuple[Eligibility, ...]:
        """One verdict, of that backend."""
        cost = f"{in_bytes(self.driver_bytes)} in the driver"
        return (Eligibility(Alternating.name, self.refusal, cost),)

    def __repr__(self) -> str:
        if self.refusal is not None:
            return f"rows in partitions: no, {self.refusal}"
        largest = max(self.partition_bytes)
        return "\n".join(
            [
                f"rows in {self.n_partitions} partitions, by 'alternating'",
                f"  a partition  {in_bytes(largest)} at most, all together"
                f" {in_bytes(sum(self.partition_bytes))}",
                f"  the driver   {in_bytes(self.driver_bytes)} with {self.width} columns",
                f"  a round      {in_bytes(self.round_bytes)} at most",
            ]
        )


def explain_partitions(model: Model, data: PartitionedData) -> PartitionsExplanation:
    """Estimate memory and traffic of a fit of rows in partitions, without reading one."""
    n_partitions = data.n_partitions
    n_columns = sum(
        data.shape(block.name)[1] * block.likelihood.width
        for block in model.blocks
        if block.name in data.blocks
    )
    n_rows, lanczos = data.n_items, 600 * min(data.n_items, n_columns)
    # Rows of factors stay with their partitions if they are more than the columns, until the end.
    stay = n_rows > n_columns
    of_rows = INITIAL_COLUMNS if stay else 12 * INITIAL_COLUMNS
    if n_rows <= MOST_TAPERED_ROWS and not any(block.bias for block in model.blocks):
        of_rows = max(of_rows, TAPERED_NUMBERS)
    slab = min(n_columns * bytes_of_equations(INITIAL_COLUMNS), EQUATION_BYTES)
    sums = bytes_to_driver(n_partitions, slab)
    return PartitionsExplanation(
        refusal_of_partitions(model),
        n_partitions,
        tuple(bytes_compiled(model, data, p) for p in range(n_partitions)),
        8 * (of_rows * n_rows + 12 * n_columns * INITIAL_COLUMNS + lanczos)
        + max(sums_in_memory(n_partitions) * slab, sums),
        8 * INITIAL_COLUMNS * (n_partitions * n_columns + (0 if stay else n_rows)) + sums,
    )

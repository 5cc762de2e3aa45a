"""Coordinate ascent of a posterior: its sweeps, when they end, and which models have one."""

import time
from collections.abc import Iterator
from typing import Any, NotRequired, Protocol, TypedDict, runtime_checkable

import attrs
import numpy as np

from mcframe.backends import Budget, checked_budget
from mcframe.backends.loop import CHECKPOINT_SECONDS, CHECKPOINT_TIME_RATIO
from mcframe.contracts.endings import Ending, Status, StopReason
from mcframe.contracts.errors import BackendError, ModelError, warn_caller
from mcframe.contracts.likelihood import ExpectedLogLikelihood, GaussianBound, GaussianNoise
from mcframe.contracts.rounding import EPS
from mcframe.contracts.row_stores import RowStore, store_of
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import PriorOfFactors, PriorOfRows, Term
from mcframe.contracts.validators import Options, is_word
from mcframe.contracts.wording import wording
from mcframe.fitting.checkpoints import Checkpoint
from mcframe.model import Block, Model, Problem
from mcframe.model.binding import check_model
from mcframe.posterior.attributes import AttributesRead, read_attributes
from mcframe.posterior.coefficients import Coefficients
from mcframe.posterior.engine import Engine
from mcframe.posterior.factor_state import FactorState, initial_state
from mcframe.posterior.factors import SWEEPS_OF_FIXED_NOISE, FactorPosterior, factor_sweeps
from mcframe.posterior.gaussians import SINGULAR_MESSAGE
from mcframe.posterior.joint import joint_sweeps
from mcframe.posterior.method_choice import (
    MAX_R_HAT,
    MOST_SWEEPS_RATIO,
    TYPICAL_SWEEPS,
    reason_against,
    too_long,
)
from mcframe.posterior.observed import Observed, Summary
from mcframe.posterior.row_chains import WIDE_MESSAGE
from mcframe.posterior.row_pass import PosteriorRows, SweptRows
from mcframe.posterior.sampled_engines import sampled
from mcframe.posterior.sampling import SAMPLER_SWEEPS, SAMPLER_TOL
from mcframe.posterior.variational_em import check_rise
from mcframe.posterior.wide_rows import is_wide
from mcframe.runtime.machine import OutOfTime, blas_alone, stop_at, thread_limit
from mcframe.runtime.progress import current, stage

# The number of factors if none is given; at most as many as rows or columns.
DEFAULT_FACTORS = 24
# The methods: the variational approximation, chains that draw from the exact posterior, and these
# where they take seconds.
VARIATIONAL, SAMPLER, AUTO = "variational", "sampler", "auto"
# The most sweeps if no number is given.
DEFAULT_SWEEPS = 500
# The tolerances if none is given: of factors, and of Gaussian rows, whose sweeps raise the bound
# in small steps. A few labels among many numbers add little to the rise for each entry, too.
FACTORS_TOL, ROWS_TOL = 1e-3, 1e-5
# ROWS_TOL is also the tolerance of factors that may be more than half as many as rows or columns,
# since sweeps separate these from noise in small steps, in tables of at most so many entries.
# Larger ones would take long.
SMALL_TABLE_ENTRIES = 50_000
# Sweeps go on while a rise is more than this share of the one before: a noise variance that is far
# from its best value changes by a few per cent a sweep, which raises the bound by little, but for
# long. Rises below the second share of the tolerance end them in any case.
CONVERGED_RISE_RATIO, NEGLIGIBLE_RISE_SHARE = 0.99, 0.01
# How far rounding may move the bound, over the sum of the sizes of its terms.
BOUND_ROUNDING = 1e4 * EPS


@stored
@attrs.frozen
class Sweep:
    """One sweep: its number, the bound on the log evidence, factors, and seconds.

    With ``GaussianRows`` as the prior ``n_factors`` is the number of Gaussians in the mixture.
    """

    iteration: int
    evidence: float
    n_factors: int
    seconds: float


class PosteriorOptions(TypedDict):
    """The options of ``mc.posterior`` on which its numbers depend."""

    method: NotRequired[str]  # which files of earlier versions do not have
    factors: int | str
    tol: float | None
    max_iter: int | None
    max_seconds: float
    n_jobs: int | None
    row_attributes: NotRequired[Any]
    column_attributes: NotRequired[Any]


@attrs.define(eq=False)
class CoordinateAscent:
    """Coordinate ascent of the bound on the log evidence: its sweeps so far, and its ending.

    Attributes
    ----------
    budget : Budget
    began : float
        ``time.perf_counter()`` when the posterior was asked for.
    problem : Problem
    engine : Engine
        The distributions of z after the last whole sweep.
    history : list of Sweep
    ending : Ending or None
    checkpoint : Checkpoint or None
        For the state after a sweep; after every sweep as long as writing takes little time.
    """

    budget: Budget
    began: float
    problem: Problem | None = None
    engine: Engine | None = None
    history: list[Sweep] = attrs.field(factory=list)
    ending: Ending | None = None
    checkpoint: Checkpoint | None = None

    def run(self, observed: Observed, sweeps: Iterator[Engine]) -> None:
        """Take sweeps until one of them raises the bound by little, or the budget ends."""
        with stop_at(self.began + self.budget.max_seconds):
            self.ending = self.sweep_until_end(observed, sweeps)
        if self.checkpoint is not None:
            self.write_state(self.checkpoint)

    def sample(self, seed: int, budget: Budget) -> None:
        """Draw from the exact posterior, from where the sweeps ended."""
        assert self.engine is not None
        assert self.ending is not None
        seconds = self.began + budget.max_seconds - time.perf_counter()
        if self.ending.status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            try:
                budget = attrs.evolve(budget, max_seconds=seconds)
                self.engine, self.ending = sampled(self.engine, seed, budget)
                return
            except OutOfTime:
                self.ending = Ending(
                    Status.TIME_LIMIT, f"stopped after {len(self.history)} sweeps"
                )
        message = (
            f"{self.ending.message}, before the chains of the sampler began: this is the"
            " variational posterior"
        )
        self.ending = attrs.evolve(self.ending, message=message)

    def sample_if_quick(self, seed: int, budget: Budget, reason: str) -> None:
        """Draw from the exact posterior if chains take seconds, and keep the draws if they mix.

        Not if there is a ``reason`` against it.
        """
        assert self.engine is not None
        assert self.ending is not None
        size: tuple[Any, ...] = (None,)
        if isinstance(self.engine, FactorPosterior):
            size = self.engine.n_factors, self.engine.state.coefficient_counts
        reason = reason or too_long(self.engine.observed, *size)
        if reason:
            self.stay_variational(reason)
            return
        before = self.engine, self.ending
        self.sample(seed, budget)
        diagnostics = self.engine.diagnostics
        if diagnostics is None:  # no time was left for them
            return
        if diagnostics.r_hat <= MAX_R_HAT:
            message = f"{self.ending.message}; by the sampler, which takes seconds here"
            self.ending = attrs.evolve(self.ending, message=message)
            return
        ended_by, (self.engine, self.ending) = self.ending.status, before
        sweeps, r_hat = f"after {diagnostics.n_sweeps} sweeps", f"R-hat {diagnostics.r_hat:.3f}"
        reasons = {
            Status.TIME_LIMIT: f"max_seconds={budget.max_seconds:g} ended chains {sweeps}, before"
            f" they agreed ({r_hat})",
            Status.INTERRUPTED: f"chains were interrupted {sweeps}, before they agreed ({r_hat})",
        }
        self.stay_variational(reasons.get(ended_by, f"chains disagreed {sweeps} ({r_hat})"))

    def stay_variational(self, reason: str) -> None:
        """Say why the method "auto" has the variational posterior."""
        assert self.ending is not None
        message = f"{self.ending.message}; by the variational method, since {reason}"
        self.ending = attrs.evolve(self.ending, message=message)

    def write_state(self, checkpoint: Checkpoint) -> None:
        """Write the state without the bounds of entries, which are computed again from it."""
        assert isinstance(self.engine, FactorPosterior)  # which alone have checkpoints
        summaries, history = self.engine.observed.summaries, tuple(self.history)
        state = {"state": self.engine.state, "summaries": summaries, "history": history}
        checkpoint.write(state)

    def sweep_until_end(self, observed: Observed, sweeps: Iterator[Engine]) -> Ending:
        """Take sweeps until one of them is the last; the reason why it is."""
        budget, history = self.budget, self.history
        n_numbers = int(np.sum(observed.counts))
        least_rise = budget.tol * observed.n_entries
        most_sweeps = len(history) + max(budget.max_iter, 1)
        while True:
            previous_evidence = history[-1].evidence if history else -np.inf
            rises = np.diff([sweep.evidence for sweep in history[-3:]])
            if len(history) > SWEEPS_OF_FIXED_NOISE + 1 and (
                rises[1]
                <= min(
                    least_rise,
                    max(CONVERGED_RISE_RATIO * rises[0], NEGLIGIBLE_RISE_SHARE * least_rise),
                )
            ):
                reason = f"the last sweep raised the evidence by less than tol={budget.tol:g}"
                return Ending(Status.CONVERGED, f"{reason} an entry")
            if len(history) == most_sweeps:
                return Ending(Status.ITERATION_LIMIT, f"stopped after {budget.max_iter} sweeps")
            try:
                engine = next(sweeps)
            except np.linalg.LinAlgError:
                raise BackendError(SINGULAR_MESSAGE) from None
            except OutOfTime:
                if self.engine is None:
                    raise BackendError(
                        f"max_seconds={budget.max_seconds:g} was given, in which there is not"
                        " one sweep; give more, or fewer factors"
                    ) from None
                return Ending(Status.TIME_LIMIT, f"stopped after {len(history)} sweeps")
            except KeyboardInterrupt:
                if self.engine is None:
                    raise
                return Ending(
                    Status.INTERRUPTED,
                    f"stopped after {len(history)} sweeps",
                    StopReason.FROM_OUTSIDE,
                )
            size = abs(previous_evidence) + abs(engine.evidence) + n_numbers
            check_rise(
                previous_evidence, engine.evidence, BOUND_ROUNDING * size + 16.0 * engine.rounding
            )
            self.engine = engine
            seconds = time.perf_counter() - self.began
            history.append(Sweep(len(history) + 1, engine.evidence, engine.n_factors, seconds))
            display = current()
            share = display.fall(engine.evidence - previous_evidence, least_rise)
            share = max(share, len(history) / most_sweeps, seconds / budget.max_seconds)
            if engine.converged is not None:  # as rows are after one sweep
                share = 1.0
            display.report(
                f"evidence {engine.evidence:.6g}, {' '.join(str(engine).split())}", share
            )
            if self.checkpoint is not None and self.checkpoint.is_due:
                self.write_state(self.checkpoint)
            if engine.converged is not None:
                status = Status.CONVERGED if engine.converged else Status.ITERATION_LIMIT
                return Ending(status, f"the rows took {engine.n_steps} steps")


@runtime_checkable
class EstimatingStore(RowStore, Protocol):
    """A store of rows whose posterior is estimated where they are."""

    def estimate(
        self,
        ascent: CoordinateAscent,
        model: Model,
        data: object,
        seed: int,
        options: PosteriorOptions,
        *,
        checkpoint: object,
    ) -> None:
        """Run the ascent of a model that has a posterior; its problem and its engine are set."""
        ...


def estimate(
    model: Model,
    data: Any,
    seed: int,
    options: PosteriorOptions,
    *,
    progress: bool | None = None,
    checkpoint: object = None,
    scales: tuple[Summary, ...] | None = None,
) -> CoordinateAscent:
    """The ascent of the posterior of a model, which has ended.

    ``options`` are method, factors, tol, max_iter, max_seconds and n_jobs of the verb. Summaries
    of blocks in ``scales`` have the sizes of values that priors of factors expect; by default
    these are those of the data.
    """
    progress_stage = stage("posterior", Options.progress(progress))
    with thread_limit(Options.n_jobs(options["n_jobs"])), progress_stage, blas_alone():
        check_model(model)
        method = options.get("method", VARIATIONAL)
        samples = method == SAMPLER
        most_sweeps = SAMPLER_SWEEPS if samples else MOST_SWEEPS_RATIO * TYPICAL_SWEEPS
        sampler_budget = budget_of(options, SAMPLER_TOL, most_sweeps)
        if method == AUTO and (options["tol"], options["max_iter"]) != (None, None):
            raise ModelError(
                'tol or max_iter was given with method="auto", and their meaning depends on the'
                ' method: take method="sampler" or "variational", or give neither'
            )
        if samples:
            if checkpoint is not None:
                raise ModelError(
                    'checkpoint was given, and method="sampler" keeps no chains on disk; drop it,'
                    " and save the answer by posterior.save(path)"
                )
            options = options.copy()
            options["tol"] = options["max_iter"] = None
        began, factors = time.perf_counter(), options["factors"]
        if has_attributes(options):
            refuse_beside_attributes(model, checkpoint)
        ascent = CoordinateAscent(budget_of(options, ROWS_TOL, DEFAULT_SWEEPS), began)
        store = store_of(data)
        if isinstance(store, EstimatingStore):
            demand_posterior(model, model.terms)
            if samples:
                raise BackendError(
                    'method="sampler" needs all rows in this process, and rows in partitions were'
                    " given; drop method=, or give arrays, for example of a sample of the rows"
                )
            store.estimate(
                *(ascent, model, data, seed, options),
                checkpoint=checkpoint,
            )
            if method == AUTO:
                ascent.stay_variational("rows are in partitions")
            return ascent
        ascent.problem = problem = Problem.bind(model, data)
        demand_posterior(problem.model, problem.terms)
        for block in problem.model.blocks:
            if isinstance(block.likelihood, GaussianBound):
                loose = block.likelihood.looseness(problem.tables[block.name].values)
                if loose is not None:
                    warn_caller(f"block {block.name!r}: {loose}")
        prior = problem.terms[0]
        if not isinstance(prior, PriorOfRows):
            run_on_factors(ascent, problem, seed, options, checkpoint, AllRows(scales))
            if samples:
                ascent.sample(seed, sampler_budget)
            elif method == AUTO:
                reason = "chains have no checkpoint" * (checkpoint is not None)
                ascent.sample_if_quick(seed, sampler_budget, reason)
            return ascent
        if not is_word(factors, "auto"):
            raise ModelError(f"factors={factors!r} was given; {prior.word}() has none: drop it")
        if checkpoint is not None:
            raise ModelError(
                f"checkpoint was given, and the steps of {prior.word}() are not kept; drop it, and"
                " save the answer by posterior.save(path)"
            )
        observed = Observed.of(problem)
        n_rows = int(np.count_nonzero(np.diff(observed.by_rows.starts)))
        wide = is_wide(n_rows, observed.shape[1])
        if samples and prior.gaussian is None and wide:
            raise BackendError(WIDE_MESSAGE)
        if prior.groups is not None and (samples or wide):
            raise ModelError(refusal_of_groups(prior, wide))
        if prior.row_weights is not None:
            refuse_row_weights(problem.model, prior, observed, samples)
        budget = ascent.budget
        ascent.run(observed, joint_sweeps(observed, prior, budget.tol, budget.max_iter, seed))
        if samples:
            ascent.sample(seed, sampler_budget)
        elif method == AUTO:
            reason = reason_against(prior, observed, wide)
            ascent.sample_if_quick(seed, sampler_budget, reason)
        return ascent


def refusal_of_groups(prior: PriorOfRows, wide: bool) -> str:
    """Why rows cannot have groups, in a wide table or under the sampler."""
    if wide:
        return (
            f"{prior.word}: groups were given, and the table has too many columns for its rows to"
            " have covariances between groups and within them; take fewer columns, or no groups"
        )
    return (
        f"{prior.word}: groups were given, and chains have none; take method='variational', or no"
        " groups"
    )


def refuse_row_weights(
    model: Model, prior: PriorOfRows, observed: Observed, samples: bool
) -> None:
    """Raise a ``ModelError`` where rows cannot count by weights: under the sampler, of labels."""
    if samples:
        raise ModelError(
            f"{prior.word}: row_weights were given, and chains have none; take"
            " method='variational', or no row_weights"
        )
    for block, declared in zip(observed.blocks, model.blocks, strict=True):
        if not isinstance(block.unfitted, GaussianNoise):
            raise ModelError(
                f"{prior.word}: row_weights were given, and block {declared.name!r} is not"
                " Gaussian; its pseudo-observations know no weights. Declare it as numbers, or"
                " leave out row_weights"
            )


def has_attributes(options: PosteriorOptions) -> bool:
    """True if attributes of rows or columns were given."""
    return any(options.get(name) is not None for name in ("row_attributes", "column_attributes"))


def refuse_beside_attributes(model: Model, checkpoint: object) -> None:
    """Raise a ``BackendError`` where something else was given that takes no attributes."""
    reason = ""
    if checkpoint is not None:
        reason = (
            "checkpoint was given, and coefficients of attributes are not kept in it; drop it, and"
            " save the answer by posterior.save(path)"
        )
    elif any(isinstance(term, PriorOfRows) for term in model.terms):
        reason = (
            "a Gaussian of rows has no factors that could depend on attributes; take"
            f" {wording().word('NuclearNorm')}, or give the attributes as a block of the data"
        )
    if reason:
        raise BackendError(f"row_attributes or column_attributes: {reason}")


def budget_of(options: PosteriorOptions, tol: float, max_iter: int) -> Budget:
    """The budget of these options, with default values of two of them."""
    tol = tol if options["tol"] is None else options["tol"]
    max_iter = max_iter if options["max_iter"] is None else options["max_iter"]
    return checked_budget(tol, max_iter, options["max_seconds"])


class FactorSource(Protocol):
    """The place of the rows of a posterior of factors: this process, or a store."""

    @property
    def kind(self) -> str:
        """The text by which a checkpoint of this computation is recognised."""
        ...

    def observed(self, problem: Problem) -> Observed:
        """The entries with the summaries of all rows, and thresholds at z = 0."""
        ...

    def without_summaries(self, problem: Problem) -> Observed:
        """The entries before anything is summed over all rows."""
        ...

    def row_attributes(self, raw: Any, observed: Observed, width: int) -> AttributesRead:
        """The attributes of rows with so many numbers each."""
        ...

    def rows(self, observed: Observed) -> SweptRows:
        """The rows, as a sweep passes over them."""
        ...


@attrs.frozen(eq=False)
class AllRows:
    """All rows in this process: a ``FactorSource``.

    ``scales`` are as ``estimate`` takes them.
    """

    scales: tuple[Summary, ...] | None = None
    kind = "posterior"

    def observed(self, problem: Problem) -> Observed:
        """The entries with their summaries, and thresholds at z = 0."""
        observed = Observed.of(problem)
        if self.scales is None:
            return observed
        pairs = zip(observed.summaries, self.scales, strict=True)
        return observed.with_summaries(tuple(summary.with_scales(one) for summary, one in pairs))

    def without_summaries(self, problem: Problem) -> Observed:
        """The entries before anything is summed."""
        return Observed.of_tables(problem, problem.tables)

    def row_attributes(self, raw: Any, observed: Observed, width: int) -> AttributesRead:
        """The attributes of all rows."""
        return read_attributes(raw, observed, 0)

    def rows(self, observed: Observed) -> PosteriorRows:
        """The rows, as a sweep passes over them."""
        return PosteriorRows(observed)


def run_on_factors(
    ascent: CoordinateAscent,
    problem: Problem,
    seed: int,
    options: PosteriorOptions,
    checkpoint: object,
    source: "FactorSource | None" = None,
) -> None:
    """Run the ascent of Gaussian factors, from the beginning or where a checkpoint ended.

    ``source`` has the rows; None where all are in this process.
    """
    source = AllRows() if source is None else source
    n_factors, saved = number_of_factors(options["factors"], problem), None
    if checkpoint is not None:
        identity = {"factors": n_factors, "random_state": seed}
        ascent.checkpoint = Checkpoint.at_path(
            checkpoint,
            source.kind,
            problem,
            identity,
            CHECKPOINT_SECONDS,
            CHECKPOINT_TIME_RATIO,
        )
        saved = ascent.checkpoint.read(dict)
    if saved is not None:
        ascent.history = list(saved["history"])
        observed = source.without_summaries(problem).with_summaries(saved["summaries"])
        state = saved["state"]
    else:
        observed = source.observed(problem)
        prior, rng = problem.terms[0], np.random.default_rng(seed)
        assert isinstance(prior, PriorOfFactors)  # as ``estimate`` has found
        state = initial_state(observed, n_factors, prior.weight, rng)
        state = with_attributes(observed, state, options, source)
    is_small = observed.n_entries <= SMALL_TABLE_ENTRIES and 2 * n_factors > min(problem.shape)
    if options["tol"] is None and not is_small:
        ascent.budget = attrs.evolve(ascent.budget, tol=FACTORS_TOL)
    evidence = ascent.history[-1].evidence if ascent.history else -np.inf
    engine = FactorPosterior(source.rows(observed), observed, state, evidence, has_response=True)
    ascent.engine = engine if ascent.history else None
    ascent.run(observed, factor_sweeps(engine, len(ascent.history)))


def with_attributes(
    observed: Observed,
    state: FactorState,
    options: PosteriorOptions,
    source: FactorSource | None = None,
) -> FactorState:
    """The state with coefficients of the attributes that were given, of rows in ``source``."""
    design, priors = state.design, state.priors
    sides = (
        ("row_attributes", design.row_free, priors.of_rows(design)[0]),
        (
            "column_attributes",
            np.all(design.free, axis=0),
            priors.of_columns(observed, design)[0][0],
        ),
    )
    coefficients: list[Coefficients | None] = []
    for side, (name, free, precisions) in enumerate(sides):
        raw = options.get(name)
        if side:
            read = read_attributes(raw, observed, side)
        else:
            read = (source or AllRows()).row_attributes(raw, observed, design.width)
        if read.values is None:
            coefficients.append(None)
            continue
        initial = Coefficients.initial(
            read.values, read.mean_squares, free, precisions, design.n_factors
        )
        coefficients.append(attrs.evolve(initial, groups=read.groups))
    of_rows, of_columns = coefficients
    return attrs.evolve(state, row_coefficients=of_rows, column_coefficients=of_columns)


def number_of_factors(factors: int | str, problem: Problem) -> int:
    """The number of factors, or a ``ModelError``."""
    if is_word(factors, "auto"):
        return min(DEFAULT_FACTORS, *problem.shape)
    if isinstance(factors, str):
        raise ModelError(f'factors={factors!r} was given; "auto" or a whole number is needed')
    return min(Options.factors(factors), *problem.shape)


def demand_posterior(model: Model, terms: tuple[Term, ...]) -> None:
    """Raise a ``BackendError`` where a model has no posterior, with the reason."""
    reason = refusal(model, terms)
    if reason is not None:
        raise BackendError(f"no posterior: {reason}")


def refusal(model: Model, terms: tuple[Term, ...]) -> str | None:
    """Why a model with these terms has no posterior, as a clause; None if it has one."""
    for block in model.blocks:
        reason = refusal_of_block(block)
        if reason is not None:
            return f"block {block.name!r}: {reason}"
    priors = [term for term in terms if term.prior is not None]
    if len(priors) != 1:
        priors_of_all = f"{wording().word('NuclearNorm')} or {wording().word('GaussianRows')}"
        return f"one prior of Z is needed, {priors_of_all}"
    [prior] = priors
    for term in terms:
        if term is not prior:
            return f"{term.word} is no part of a density; drop it, or {take_the_optimum()}"
    if not isinstance(prior, PriorOfFactors | PriorOfRows):
        return (
            f"{prior.word} declares a prior without its parameters; derive it from PriorOfFactors"
            " or PriorOfRows of mcframe.contracts"
        )
    if prior.count_share:
        return "count_share= scales factors by counts, which no density of data does; drop it"
    for block in model.blocks if isinstance(prior, PriorOfRows) else ():
        if block.bias or block.row_effects:
            return (
                f"block {block.name!r}: biases and row effects were declared with"
                f" {prior.word}, whose mean is an intercept of each column already; drop them"
            )
        if isinstance(block.likelihood, ExpectedLogLikelihood):
            word = type(block.likelihood).__name__
            remedy = f"take {wording().word('NuclearNorm')}"
            return f"block {block.name!r}: {word} has none with {prior.word}; {remedy}"
    return None


def refusal_of_block(block: Block) -> str | None:
    """Why a block's loss has no posterior; None if it has one."""
    if block.reduce == "mean":
        return (
            "reduce='mean' counts all entries together as one, which no likelihood of data does;"
            " drop it"
        )
    if not isinstance(block.likelihood, GaussianBound | ExpectedLogLikelihood):
        word = type(block.likelihood).__name__
        return f"{word} is a loss without a distribution of data; {take_the_optimum()}"
    if block.likelihood.why_no_posterior is not None:
        return f"{block.likelihood.why_no_posterior}; {take_the_optimum()}"
    return None


def take_the_optimum() -> str:
    """The remedy where a model has an optimum, and no posterior."""
    return wording().either(python="take mc.fit", command="leave --method posterior out")

"""The one loop outside all solvers: budget, certificate, history, callback, interruption."""

import time
from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import (
    Budget,
    History,
    Outcome,
    Record,
    Settings,
    SolverCheckpoint,
    Start,
)
from mcframe.backends.certificate import (
    Certificate,
    Point,
    Rounding,
    at_zero,
    certify,
    relative_gap,
    uncertified,
)
from mcframe.backends.recession import UNBOUNDED_MESSAGE, falls_along, falls_from
from mcframe.compile import Program
from mcframe.contracts.endings import Ending, Status, StopReason
from mcframe.contracts.errors import BackendError, NothingFeasible
from mcframe.contracts.rounding import SUM_ROUNDING
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Constraint
from mcframe.numerics.operators import LowRank
from mcframe.runtime.machine import OutOfTime, blas_alone, stop_at
from mcframe.runtime.progress import current

# The iteration of the first certificate after the start, and the least and the largest number of
# iterations between two later ones.
FIRST_CHECK = 8
MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL = 3, 100
# Least seconds between two checkpoints, also as a multiple of the time that writing one takes.
CHECKPOINT_SECONDS, CHECKPOINT_TIME_RATIO = 10.0, 10.0
# The solver is asked for more exact steps if a gap is at least this multiple of the gap before it.
STALLED_GAP_RATIO = 0.98
NO_BOUND_MESSAGE = (
    "no lower bound was found: the objective may fall without end; a larger weight, a ball or"
    " a box bounds it"
)
# A gap of at most SUM_ROUNDING that is the same after so many certificates is due to rounding.
CERTIFICATES_WITHOUT_GAIN = 10
# Seconds that inner loops may take beyond the time limit.
GRACE_SECONDS = 3.0
# The most iterations without a feasible point.
MAX_INFEASIBLE_ITERATIONS = 100
ROUNDING_MESSAGE = (
    "objective and bound differ by no more than their rounding error in double precision and the"
    " error of the norms in the bound; columns of one scale, or a larger tol, help"
)
NO_GAIN_MESSAGE = (
    f"objective and bound have come no closer in {CERTIFICATES_WITHOUT_GAIN} certificates, and"
    f" differ by at most {SUM_ROUNDING:g} of their size"
)
BEST_POINT_MESSAGE = "this is the best point before it"
# Ends of a run that need no numbers in their sentences.
INTERRUPTED = Ending(
    Status.INTERRUPTED,
    "interrupted from outside; this is the best point so far",
    StopReason.FROM_OUTSIDE,
)
STOPPED_BY_CALLBACK = Ending(Status.INTERRUPTED, "the callback asked to stop", StopReason.CALLBACK)
UNBOUNDED_BELOW = Ending(Status.UNBOUNDED, UNBOUNDED_MESSAGE)
STATIONARY_POINT = Ending(
    Status.LOCAL, "a stationary point of a loss that is declared not convex; no bound is known"
)


@attrs.define(eq=False)
class SolverRun:
    """One run: the solver's state, the best point and bound so far, the next certificate."""

    solver: Solver[Program, Any]
    program: Program
    settings: Settings
    state: Any = None
    iteration: int = attrs.Factory(lambda run: run.settings.iterations_made, takes_self=True)
    point: Point | None = None  # the best one so far, with its certificate
    certificate: Certificate = attrs.field(factory=lambda: Certificate(np.inf, -np.inf, {}))
    answer: Point | None = None  # the point in Z, the same object as long as that is the best one
    bound: float = -np.inf
    bound_rounding: Rounding = attrs.field(factory=Rounding)  # how exactly the bound is known
    records: list[Record] = attrs.field(factory=list)
    next_check: int = attrs.Factory(
        lambda run: run.settings.iterations_made + FIRST_CHECK, takes_self=True
    )
    gap_ratio: float = 1.0  # of the certified gap to the expected one, at the last certificate
    check_seconds: float = 0.0  # seconds of the last certificate
    paused: SolverCheckpoint | None = None  # where the solver stood at the last certificate
    in_callback: bool = False
    stopped: bool = False  # by the callback
    unbounded: bool = False  # the objective was seen to fall without end
    began: float = attrs.Factory(lambda run: run.settings.clock(), takes_self=True)
    last_checkpoint: float = attrs.field(factory=time.perf_counter)  # when it was written
    checkpoint_seconds: float = 0.0  # seconds that writing it took

    @property
    def budget(self) -> Budget:
        """When to stop."""
        return self.settings.budget

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.began

    @property
    def gap(self) -> float:
        """The relative gap of the best point and the best bound so far."""
        return relative_gap(self.certificate.objective, self.bound, self.rounding)

    @property
    def rounding(self) -> Rounding:
        """Rounding of the best objective and the best bound."""
        return self.certificate.rounding.with_bound_of(self.bound_rounding)

    @property
    def may_be_unbounded(self) -> bool:
        """True where the objective may fall without end: no bound was found."""
        return self.bound == -np.inf and self.program.loss.convex

    def falls_from_best(self) -> bool:
        """True if the objective falls without end from the best point, where none has a bound."""
        if self.point is None or not self.may_be_unbounded:
            return False
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return falls_from(self.program, self.point.latent, self.certificate.effects)

    def begin(self, start: Start | None) -> None:
        """The state before the first step, certified."""
        solver, rng = self.solver, np.random.default_rng(self.settings.random_state)
        start_certificate = None if start is None else start.certificate
        if start_certificate is None and not (solver.begins_at_zero or solver.answers_last):
            zero = at_zero(self.program)
            if zero is not None:
                self.take(*zero)
        if start is None:
            self.state = solver.init(self.program, None, rng)
        else:
            self.state = start.state_of(solver, self.program, rng)
        if start is None or start_certificate is None:
            self.check()
            return
        self.take(start.point, start_certificate)
        self.bound, self.bound_rounding = start_certificate.bound, start_certificate.rounding
        self.paused = paused = start.paused
        if paused is not None and paused.solver == solver:
            self.gap_ratio = paused.gap_ratio
            if paused.wait is not None:
                self.next_check = self.iteration + min(FIRST_CHECK, paused.wait)
            if not paused.certified:  # it was stopped between two certificates
                candidate = solver.candidate(self.program, self.state)
                certificate = uncertified(self.program, candidate)
                if certificate.objective < self.certificate.objective:
                    self.take(candidate, certificate)
        self.note(self.record(self.certificate.objective, self.state.rank))

    def take(self, point: Point, certificate: Certificate) -> None:
        """A point becomes the best one."""
        self.point, self.certificate = point, certificate
        self.answer = Point(self.program.latent(point.latent), point.dual)

    def record(self, objective: float, rank: int) -> Record:
        """The numbers of this iteration."""
        work = self.program.entries.work
        return Record(self.iteration, self.seconds, objective, self.bound, self.gap, rank, work)

    def check(self) -> None:
        """Certify the iterate, keep it if it is the best, and plan the next certificate."""
        wait = int(self.iteration == self.settings.iterations_made)
        self.checkpoint_if_old(wait, seconds_ahead=self.check_seconds)
        began, solver, state = time.perf_counter(), self.solver, self.state
        candidate, expected = solver.candidate(self.program, state), solver.expected_gap(state)
        certificate = certify(self.program, candidate, self.budget.tol)
        self.check_seconds = time.perf_counter() - began
        if certificate.objective < self.certificate.objective or solver.answers_last:
            self.take(candidate, certificate)
        if certificate.bound > self.bound:
            self.bound, self.bound_rounding = certificate.bound, certificate.rounding
        if self.may_be_unbounded:
            self.unbounded = falls_along(self.program, candidate.latent, certificate.effects)
        if 0.0 < expected < np.inf and 0.0 < self.gap < np.inf:
            self.gap_ratio = self.gap / expected
        record = self.record(certificate.objective, state.rank)
        self.plan(record)
        self.paused = self.pause(self.next_check - self.iteration)
        self.note(record)
        if self.settings.write_checkpoint is not None:
            self.settings.write_checkpoint(self.outcome(INTERRUPTED))
            self.last_checkpoint = time.perf_counter()

    def pause(self, wait: int, certified: bool = True) -> SolverCheckpoint:
        """The state to go on from in another run, so many iterations before the next check."""
        paused = self.solver.pause(self.program, self.state)
        return SolverCheckpoint(self.solver, paused, wait, self.gap_ratio, certified)

    def checkpoint_if_old(self, wait: int, seconds_ahead: float = 0.0) -> None:
        """Write a checkpoint of the solver's state and the best point if the last one is old.

        It is written, too, if the last one will be old after the next ``seconds_ahead`` seconds.
        Nothing is evaluated for it, and the state of the run does not change, so that results do
        not depend on clocks.
        """
        began, write = time.perf_counter(), self.settings.write_checkpoint
        late = began - self.last_checkpoint + seconds_ahead >= max(
            CHECKPOINT_SECONDS, CHECKPOINT_TIME_RATIO * self.checkpoint_seconds
        )
        if write is None or self.point is None or not (late and np.isfinite(self.state.objective)):
            return
        outcome = self.outcome(INTERRUPTED)
        write(attrs.evolve(outcome, paused=self.pause(wait, certified=False)))
        self.last_checkpoint = time.perf_counter()
        self.checkpoint_seconds = self.last_checkpoint - began

    def note(self, record: Record) -> None:
        """Add a record, report it and pass it to the callback."""
        self.records.append(record)
        budget, display = self.budget, current()
        spent = max(
            record.iteration / max(budget.max_iter, 1), record.seconds / budget.max_seconds
        )
        rounds = "" if record.work is None else f", {record.work.rounds} rounds"
        summary = f"gap {record.gap:.1e}, rank {record.rank}{rounds}"
        display.report(summary, max(display.fall(record.gap, budget.tol), spent))
        if self.settings.callback is not None:
            self.in_callback = True  # its errors say nothing about the solver's arithmetic
            self.stopped = bool(self.settings.callback(record)) or self.stopped
            self.in_callback = False

    def is_due(self, expected: float) -> bool:
        """True where a certificate is planned now, or the predicted gap is at most the tolerance.

        The solver's estimate is corrected by its ratio to the gap at the last certificate.
        An expected gap of 0, of an objective that falls no more, counts as unknown: else every
        iteration would be certified.
        """
        predicted = expected * max(self.gap_ratio, 1.0)
        return self.iteration >= self.next_check or 0.0 < predicted <= self.budget.tol

    def plan(self, record: Record) -> None:
        """Plan the next certificate where the gap, at its present rate, will be the tolerance.

        It depends on gaps and iteration numbers alone, so that runs repeat exactly.
        """
        iterations = record.iteration - self.settings.iterations_made
        latest = int(np.clip(iterations // 2, MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL))
        wait = latest
        if self.records and 0.0 < self.budget.tol < record.gap < np.inf:
            # The larger of the last two rates, since a gap may fall in jumps.
            rate = max(rate_of_fall(earlier, record) for earlier in self.records[-2:])
            if rate > 0.0:
                wait = int(np.ceil(0.8 * np.log(record.gap / self.budget.tol) / rate))
            if stalled(self.records[-1], record) and iterations > 2 * FIRST_CHECK:
                self.state.increase_accuracy()
        wait = min(max(wait, MIN_CHECK_INTERVAL), latest)
        self.next_check = self.settings.iterations_made + max(FIRST_CHECK, iterations + wait)

    def iterate(self) -> Ending:
        """Steps and certificates until there is a reason to stop."""
        step_seconds, max_seconds = 0.0, self.budget.max_seconds
        # The residual below which a point counts as stationary, relative to the gradient at Z = 0.
        stationary_residual = 0.0
        if not self.program.loss.convex:
            at_first = self.program.evaluate(LowRank.zeros(self.program.shape))
            stationary_residual = self.budget.tol * self.program.entries.norm(
                at_first.entry_gradients
            )
        if self.next_check <= self.iteration:
            # A certificate that was interrupted. If it is again, the next run steps before it.
            self.checkpoint_if_old(wait=1, seconds_ahead=np.inf)
            self.check()
        while True:
            if (
                self.point is None
                and self.iteration - self.settings.iterations_made >= MAX_INFEASIBLE_ITERATIONS
            ):
                raise NothingFeasible(no_feasible_point(self.program))
            ending = self.end_of_run(stationary_residual)
            if ending is not None:
                return ending
            # The last certificate counts as part of the time. Before a step that may not end in
            # time the iterate is certified, since such a step may be cut off.
            spent = self.seconds + self.check_seconds > max_seconds
            late = self.seconds + self.check_seconds + step_seconds > max_seconds
            ended = spent or self.iteration >= self.budget.max_iter
            if ended and self.point is None:
                raise NothingFeasible(no_feasible_point(self.program))
            if (ended or late) and self.records[-1].iteration < self.iteration:
                self.check()
                continue
            if ended:
                return self.end_of_budget(spent)
            began = time.perf_counter()
            for _ in self.solver.stages(self.program, self.state):
                self.checkpoint_if_old(wait=max(self.next_check - self.iteration, 1))
            step_seconds = time.perf_counter() - began
            self.iteration += 1
            if not np.isfinite(self.state.objective):
                if self.falls_from_best():
                    return UNBOUNDED_BELOW
                why = f" and {NO_BOUND_MESSAGE}" if self.may_be_unbounded else ""
                return Ending(
                    Status.INTERRUPTED,
                    f"iterate {self.iteration} is not finite{why}; {BEST_POINT_MESSAGE}",
                    StopReason.ARITHMETIC,
                )
            expected = self.solver.expected_gap(self.state)
            if self.state.finished is not None or self.is_due(expected):
                self.check()

    def end_of_run(self, stationary_residual: float) -> Ending | None:
        """The end of the run, if there is a reason to stop but the budget."""
        if self.gap <= self.budget.tol:
            return certified_to(self.budget.tol)
        # A gap of ``resolution`` may remain, and the computed one is off by up to ``total``.
        unknown = self.rounding.total + self.rounding.resolution
        if np.isfinite(self.bound) and self.certificate.objective - self.bound <= unknown:
            return Ending(Status.LIMITED_BY_ROUNDING, ROUNDING_MESSAGE)
        earlier = self.records[:-CERTIFICATES_WITHOUT_GAIN]
        if self.gap <= SUM_ROUNDING and earlier and earlier[-1].gap <= self.gap:
            return Ending(Status.LIMITED_BY_ROUNDING, NO_GAIN_MESSAGE)
        if self.stopped:
            return STOPPED_BY_CALLBACK
        if self.unbounded:
            return UNBOUNDED_BELOW
        if not self.program.loss.convex and self.state.residual <= stationary_residual:
            return STATIONARY_POINT
        if self.state.finished is not None:
            return stopped_by_rule(self.state.finished)
        return None

    def end_of_budget(self, in_time: bool) -> Ending:
        """The end where the budget is spent: its time, or its iterations."""
        status = Status.TIME_LIMIT if in_time else Status.ITERATION_LIMIT
        if self.may_be_unbounded:
            return Ending(status, f"the budget was spent and {NO_BOUND_MESSAGE}")
        if in_time:
            return out_of_time(self.budget.max_seconds)
        return Ending(status, f"max_iter={self.budget.max_iter} iterations were made")

    def outcome(self, ending: Ending) -> Outcome:
        """The best point, with the end of the run."""
        assert self.answer is not None
        if not self.records:  # it ended before the first certificate was there
            self.records.append(self.record(self.certificate.objective, self.answer.latent.rank))
        return Outcome(
            point=self.answer,
            effects=self.certificate.effects,
            bound=self.bound,
            rounding=self.rounding,
            status=ending.status,
            message=ending.message,
            reason=ending.reason,
            history=History(tuple(self.records)),
            tol=self.budget.tol,
            paused=self.paused,
        )


def certified_to(tol: float) -> Ending:
    """The end of a run whose gap is at most the tolerance."""
    return Ending(Status.CERTIFIED, f"the gap is at most tol={tol:g}")


def out_of_time(max_seconds: float) -> Ending:
    """The end of a run whose seconds were spent."""
    return Ending(Status.TIME_LIMIT, f"max_seconds={max_seconds:g} were spent")


def stopped_by_rule(rule: str) -> Ending:
    """The end of a run that the solver's own rule stopped."""
    return Ending(Status.INTERRUPTED, f"stopped by its own rule: {rule}", StopReason.OWN_RULE)


def run(solver: Solver[Program, Any], program: Program, settings: Settings) -> Outcome:
    """Step a solver until the certified gap is at most the tolerance, or the budget is spent.

    From a start of the same program the run continues: with its bound, and an objective that is
    no higher. Where the solver is the same, iterates are those of an uninterrupted run, up to a
    certificate from which a solver goes on in another way if it has stalled.

    Whatever ends the loop, Ctrl-C included, the best point so far is returned with its
    certificate; only an interruption before the first certificate is raised again.
    """
    start, seconds = settings.start, settings.budget.max_seconds
    program = program.with_storage_for(solver.in_factors, solver.dense, settings.random_state)
    if start is not None:
        begin = attrs.evolve(start.point, latent=program.variable(start.point.latent))
        start = attrs.evolve(start, point=begin)
    solver_run = SolverRun(solver, program, settings)
    try:
        # Overflow shows in objectives and bounds that are not finite.
        with blas_alone(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            solver_run.begin(start)
            if solver_run.point is None and program.plain:
                raise BackendError(
                    "the objective overflows at the start; rescale the columns of the data,"
                    " or check the offsets"
                )
            # Without a point there would be nothing to return.
            with stop_at(
                np.inf if solver_run.point is None else solver_run.began + seconds + GRACE_SECONDS
            ):
                ending = solver_run.iterate()
    except KeyboardInterrupt:
        if solver_run.point is None:
            raise
        ending = INTERRUPTED
    except OutOfTime:
        ending = out_of_time(seconds)
    except (ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
        no_memory = isinstance(error, MemoryError)
        if solver_run.in_callback or (no_memory and solver_run.point is None):
            raise
        what = "memory did not suffice" if no_memory else "the arithmetic broke down"
        if solver_run.point is None:
            raise BackendError(
                f"{what} ({error}) before there was an answer; rescale the columns of the data"
            ) from error
        reason = StopReason.MEMORY if no_memory else StopReason.ARITHMETIC
        ending = Ending(Status.INTERRUPTED, f"{what} ({error}); {BEST_POINT_MESSAGE}", reason)
        if not no_memory and solver_run.falls_from_best():
            ending = UNBOUNDED_BELOW
    if solver_run.point is None:  # whatever ended it, there is nothing to return
        raise NothingFeasible(no_feasible_point(program))
    return solver_run.outcome(ending)


def rate_of_fall(earlier: Record, later: Record) -> float:
    """The decrease of the logarithm of the gap per iteration, 0 where it hardly fell."""
    if stalled(earlier, later) or not np.isfinite(earlier.gap):
        return 0.0
    fallen = later.gap / earlier.gap
    return float(-np.log(fallen)) / (later.iteration - earlier.iteration)


def stalled(earlier: Record, later: Record) -> bool:
    """True where the gap is much the same, or was 0 already."""
    return later.gap >= STALLED_GAP_RATIO * earlier.gap


def no_feasible_point(program: Program) -> str:
    """A message that no feasible point was found, with the names of the constraints."""
    names = [program.main.word] if isinstance(program.main, Constraint) else []
    names += [t.term.word for t in program.terms if isinstance(t.term, Constraint)]
    names += [
        type(p.likelihood).__name__ for p in program.loss.block_losses if not p.likelihood.smooth
    ]
    return (
        f"no Z was found that meets all constraints at once ({', '.join(names)}), or the objective"
        " overflows there: loosen one of them, or rescale the columns of the data"
    )

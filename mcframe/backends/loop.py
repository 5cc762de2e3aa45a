"""The one loop outside all solvers: budget, certificate, history, callback, interruption."""

import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import Budget, History, Outcome, Paused, Record, Settings, Start
from mcframe.backends.certificate import (
    Certificate,
    Point,
    Rounding,
    at_zero,
    certify,
    relative_gap,
    uncertified,
)
from mcframe.compile import Program
from mcframe.contracts.errors import BackendError, NothingFeasible
from mcframe.contracts.solver import Candidate, Solver, State
from mcframe.contracts.term import Constraint
from mcframe.numerics.machine import OutOfTime, stop_at
from mcframe.numerics.operators import LowRank
from mcframe.numerics.threads import blas_alone

# The iteration of the first certificate after the start, and the least and the largest number of
# iterations between two later ones.
FIRST_CHECK = 8
SOONEST, LATEST = 3, 100
# Least seconds between two checkpoints, also as a multiple of the time that writing one takes.
KEPT_AFTER, KEPT_SHARE = 10.0, 10.0
# The solver is asked for more exact steps if a gap is at least this multiple of the gap before it.
STALLED = 0.98
FALLING = (
    "no lower bound was found: the objective may fall without end; a larger weight, a ball or"
    " a box bounds it"
)
# Seconds that inner loops may take beyond the time limit.
GRACE = 3.0
# The most iterations without a feasible point.
SEARCHED = 100
FROM_OUTSIDE = "interrupted from outside; this is the best point so far"
ASKED_TO_STOP = "the callback asked to stop"
LIMITED = (
    "objective and bound differ by no more than their rounding error in double precision and the"
    " error of the norms in the bound; columns of one scale, or a larger tol, help"
)
BEFORE = "this is the best point before it"
LOCAL = "a stationary point of a loss that is declared not convex; no bound is known"


class CallbackError(Exception):
    """An exception raised by a callback, on its way out of the loop."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@attrs.define(eq=False)
class Watch:
    """State of the loop: the best point, the best bound, the records, the next certificate."""

    program: Program
    budget: Budget
    callback: Callable[[Record], Any] | None
    progress: bool
    began: float  # a moment of ``time.perf_counter``
    made: int = 0  # iterations of another backend before
    point: Candidate | None = None
    certificate: Certificate | None = None
    bound: float = -np.inf
    bound_rounding: Rounding = attrs.field(factory=Rounding)  # how exactly the bound is known
    records: list[Record] = attrs.field(factory=list)
    next_check: int = attrs.Factory(lambda watch: watch.made + FIRST_CHECK, takes_self=True)
    gap_ratio: float = 1.0  # of the certified gap to the expected one, at the last certificate
    check_seconds: float = 0.0  # seconds of the last certificate
    paused: Paused | None = None  # where the solver stood at the last certificate
    stopped: bool = False
    keep: Callable[[Outcome], Any] | None = None
    kept: float = attrs.field(factory=time.perf_counter)  # the time of the last checkpoint
    keep_seconds: float = 0.0  # seconds that writing it took
    answered: tuple[LowRank, LowRank] | None = None  # the W of a point, and its Z

    @property
    def seconds(self) -> float:
        """Seconds since the loop began."""
        return time.perf_counter() - self.began

    @property
    def objective(self) -> float:
        """The lowest objective so far."""
        return np.inf if self.certificate is None else self.certificate.objective

    @property
    def gap(self) -> float:
        """The relative gap of the best point and the best bound so far."""
        return relative_gap(self.objective, self.bound, self.rounding)

    @property
    def rounding(self) -> Rounding:
        """Rounding of the best objective and the best bound."""
        known = Rounding() if self.certificate is None else self.certificate.rounding
        return known.with_bound_of(self.bound_rounding)

    @property
    def limited(self) -> bool:
        """True where rounding alone keeps the objective from its bound."""
        unknown = max(self.rounding.moved, self.rounding.resolved)
        return np.isfinite(self.bound) and self.objective - self.bound <= unknown

    @property
    def endless(self) -> bool:
        """True where the objective may fall without end: no bound was found."""
        return self.bound == -np.inf and self.program.loss.convex

    def latent(self, variable: LowRank) -> LowRank:
        """The Z of the best point, the same object as long as that is the best one."""
        if self.answered is None or self.answered[0] is not variable:
            self.answered = variable, self.program.latent(variable)
        return self.answered[1]

    def begin_at_zero(self) -> None:
        """Take Z = 0 as the best point so far."""
        found = at_zero(self.program)
        if found is not None:
            self.point, self.certificate = found

    def begin_at(self, start: Start, solver: Solver[Program, Any], state: State) -> None:
        """Take the start, of the same program, as the best point so far.

        Or the paused iterate, where the solver was stopped between two certificates and has a
        lower objective there.
        """
        assert start.certificate is not None
        self.point, self.certificate, self.paused = start.point, start.certificate, start.paused
        self.bound, self.bound_rounding = start.certificate.bound, start.certificate.rounding
        paused = start.paused
        if paused is not None and paused.solver == solver:
            self.gap_ratio = paused.gap_ratio
            self.next_check = self.made + min(
                FIRST_CHECK, FIRST_CHECK if paused.wait is None else paused.wait
            )
            if not paused.certified:
                candidate = solver.candidate(self.program, state)
                certificate = uncertified(self.program, candidate)
                if certificate.objective < self.objective:
                    self.point, self.certificate = candidate, certificate
        known = self.objective, self.bound, self.gap, state.rank
        self.note(Record(self.made, self.seconds, *known, self.program.entries.work))

    def check(self, iteration: int, solver: Solver[Program, Any], state: State) -> None:
        """Certify the iterate, keep it if it is the best, and plan the next certificate."""
        self.keep_between(
            solver, state, wait=int(iteration == self.made), ahead=self.check_seconds
        )
        began = time.perf_counter()
        candidate, expected = solver.candidate(self.program, state), solver.expected_gap(state)
        certificate = certify(self.program, candidate, self.budget.tol)
        self.check_seconds = time.perf_counter() - began
        if certificate.objective < self.objective or solver.answers_last:
            self.point, self.certificate = candidate, certificate
        if certificate.bound > self.bound:
            self.bound, self.bound_rounding = certificate.bound, certificate.rounding
        if 0.0 < expected < np.inf and 0.0 < self.gap < np.inf:
            self.gap_ratio = self.gap / expected
        known = certificate.objective, self.bound, self.gap, state.rank
        record = Record(iteration, self.seconds, *known, self.program.entries.work)
        self.plan(record, state)
        self.paused = self.paused_at(solver, state, self.next_check - iteration)
        self.note(record)
        if self.keep is not None:
            self.keep(self.outcome("interrupted", FROM_OUTSIDE))
            self.kept = time.perf_counter()

    def paused_at(
        self, solver: Solver[Program, Any], state: State, wait: int, certified: bool = True
    ) -> Paused:
        """The state to go on from in another run, so many iterations before the next check."""
        paused = solver.pause(self.program, state)
        return Paused(solver, paused, wait, self.gap_ratio, certified)

    def keep_between(
        self, solver: Solver[Program, Any], state: State, wait: int, ahead: float = 0.0
    ) -> None:
        """Write a checkpoint of the solver's state and the best point, where the last one is old.

        Or will be after the next ``ahead`` seconds. Nothing is evaluated for it, and the state of
        the run does not change, so that results do not depend on clocks.
        """
        began = time.perf_counter()
        late = began - self.kept + ahead >= max(KEPT_AFTER, KEPT_SHARE * self.keep_seconds)
        if self.keep is None or self.point is None or not (late and np.isfinite(state.objective)):
            return
        between = attrs.evolve(self, paused=self.paused_at(solver, state, wait, certified=False))
        self.keep(between.outcome("interrupted", FROM_OUTSIDE))
        self.kept = time.perf_counter()
        self.keep_seconds = self.kept - began

    def note(self, record: Record) -> None:
        """Add a record, print it and pass it to the callback."""
        self.records.append(record)
        if self.progress:
            print(record, flush=True)
        if self.callback is None:
            return
        try:
            self.stopped = bool(self.callback(record)) or self.stopped
        except Exception as error:  # which says nothing about the solver's arithmetic
            raise CallbackError(error) from error

    def is_due(self, iteration: int, expected: float) -> bool:
        """True where a certificate is planned now, or the predicted gap is at most the tolerance.

        The solver's estimate is corrected by its ratio to the gap at the last certificate.
        An expected gap of 0, of an objective that falls no more, counts as unknown: else every
        iteration would be certified.
        """
        predicted = expected * max(self.gap_ratio, 1.0)
        return iteration >= self.next_check or 0.0 < predicted <= self.budget.tol

    def plan(self, record: Record, state: State) -> None:
        """Plan the next certificate where the gap, at its present rate, will be the tolerance.

        It depends on gaps and iteration numbers alone, so that runs repeat exactly.
        """
        own = record.iteration - self.made
        latest = int(np.clip(own // 2, SOONEST, LATEST))
        wait = latest
        if self.records and 0.0 < self.budget.tol < record.gap < np.inf:
            # The larger of the last two rates, since a gap may fall in jumps.
            rate = max(rate_of_fall(earlier, record) for earlier in self.records[-2:])
            if rate > 0.0:
                wait = int(np.ceil(0.8 * np.log(record.gap / self.budget.tol) / rate))
            if stalled(self.records[-1], record) and own > 2 * FIRST_CHECK:
                state.sharpen()
        self.next_check = self.made + max(FIRST_CHECK, own + min(max(wait, SOONEST), latest))

    def reason_to_stop(self) -> tuple[str, str] | None:
        """A reason to stop, as status and sentence, if there is one."""
        if self.gap <= self.budget.tol:
            return "certified", f"the gap is at most tol={self.budget.tol:g}"
        if self.limited:
            return "limited_by_rounding", LIMITED
        if self.stopped:
            return "interrupted", ASKED_TO_STOP
        return None

    def status_when_spent(self, in_time: bool) -> tuple[str, str]:
        """The status where the budget is spent: its time, or its iterations."""
        status = "time_limit" if in_time else "iteration_limit"
        if self.endless:
            return status, f"the budget was spent and {FALLING}"
        if in_time:
            return status, f"max_seconds={self.budget.max_seconds:g} were spent"
        return status, f"max_iter={self.budget.max_iter} iterations were made"

    def outcome(self, status: str, message: str) -> Outcome:
        """The best point with a status; the sentence gets the gap."""
        assert self.point is not None
        assert self.certificate is not None
        if not self.records:  # it ended before the first certificate was there
            known = self.objective, self.bound, self.gap, self.point.latent.rank
            self.records.append(Record(self.made, self.seconds, *known, self.program.entries.work))
        return Outcome(
            point=Point(self.latent(self.point.latent), self.point.dual),
            effects=self.certificate.effects,
            bound=self.bound,
            rounding=self.rounding,
            status=status,
            message=message,
            history=History(tuple(self.records)),
            tol=self.budget.tol,
            paused=self.paused,
        )


def run(solver: Solver[Program, Any], program: Program, settings: Settings) -> Outcome:
    """Step a solver until its certificate says that it is done, or the budget is spent.

    From a start of the same program the run continues: with its bound, an objective that is no
    higher, and the same iterates as an uninterrupted run where the solver is the same.

    Whatever ends the loop, Ctrl-C included, the best point so far is returned with its
    certificate; only an interruption before the first certificate is raised again.
    """
    budget, start, seed = settings.budget, settings.start, settings.random_state
    program = program.held_for(solver.in_factors, solver.dense).with_seed(seed)
    if start is not None:
        begin = attrs.evolve(start.point, latent=program.variable(start.point.latent))
        start = attrs.evolve(start, point=begin)
    watch = Watch(
        program, budget, settings.callback, settings.progress, settings.clock(), settings.made
    )
    watch.keep = settings.keep
    try:
        # Overflow shows in objectives and bounds that are not finite.
        with blas_alone(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            state = first_state(solver, program, watch, start, np.random.default_rng(seed))
            if watch.point is None and program.plain:
                raise BackendError(
                    "the objective overflows at the start; rescale the columns of the data,"
                    " or check the offsets"
                )
            # Without a point there would be nothing to return.
            late = np.inf if watch.point is None else watch.began + budget.max_seconds + GRACE
            with stop_at(late):
                status, message = iterate(solver, program, budget, watch, state)
    except CallbackError as raised:
        raise raised.error from None
    except KeyboardInterrupt:
        if watch.point is None:
            raise
        status, message = "interrupted", FROM_OUTSIDE
    except OutOfTime:
        status, message = "time_limit", f"max_seconds={budget.max_seconds:g} were spent"
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        if watch.point is None:
            raise BackendError(
                f"the arithmetic broke down ({error}) before there was an answer; rescale the"
                " columns of the data"
            ) from error
        status, message = "interrupted", f"the arithmetic broke down ({error}); {BEFORE}"
    except MemoryError as error:
        if watch.point is None:
            raise
        status, message = "interrupted", f"memory did not suffice ({error}); {BEFORE}"
    if watch.point is None:  # whatever ended it, there is nothing to return
        raise NothingFeasible(nowhere(program))
    return watch.outcome(status, message)


def first_state(
    solver: Solver[Program, Any],
    program: Program,
    watch: Watch,
    start: Start | None,
    rng: np.random.Generator,
) -> State:
    """The state before the first step, certified."""
    known = start is not None and start.certificate is not None
    if not (known or solver.begins_at_zero or solver.answers_last):
        watch.begin_at_zero()
    if start is None:
        state: State = solver.init(program, None, rng)
    else:
        state = start.state_of(solver, program, rng)
        if known:
            watch.begin_at(start, solver, state)
            return state
    watch.check(watch.made, solver, state)
    return state


def rate_of_fall(earlier: Record, later: Record) -> float:
    """The decrease of the logarithm of the gap per iteration, 0 where it hardly fell."""
    if stalled(earlier, later) or not np.isfinite(earlier.gap):
        return 0.0
    fallen = later.gap / earlier.gap
    return float(-np.log(fallen)) / (later.iteration - earlier.iteration)


def stalled(earlier: Record, later: Record) -> bool:
    """True where the gap is much the same, or was 0 already."""
    return later.gap >= STALLED * earlier.gap


def nowhere(program: Program) -> str:
    """A message that no feasible point was found, with the names of the constraints."""
    names = [type(program.main).__name__] * isinstance(program.main, Constraint)
    names += [type(t.term).__name__ for t in program.terms if isinstance(t.term, Constraint)]
    names += [type(p.likelihood).__name__ for p in program.loss.pieces if not p.likelihood.smooth]
    return (
        f"no Z was found that meets all constraints at once ({', '.join(names)}), or the objective"
        " overflows there: loosen one of them, or rescale the columns of the data"
    )


def iterate(
    solver: Solver[Program, Any], program: Program, budget: Budget, watch: Watch, state: State
) -> tuple[str, str]:
    """Steps and certificates until there is a reason to stop: its status and sentence."""
    iteration, step_seconds = watch.made, 0.0
    small = 0.0  # the residual of a local answer, relative to the gradient at Z = 0
    if not program.loss.convex:
        small = budget.tol * program.evaluate(LowRank.zeros(program.shape)).steepness
    if watch.next_check <= iteration:
        # A certificate that was interrupted. If it is again, the next run makes a step before it.
        watch.keep_between(solver, state, wait=1, ahead=np.inf)
        watch.check(iteration, solver, state)
    while True:
        if watch.point is None and iteration - watch.made >= SEARCHED:
            raise NothingFeasible(nowhere(program))
        reason = watch.reason_to_stop()
        if reason is not None:
            return reason
        if not program.loss.convex and state.residual <= small:
            return "local", LOCAL
        if state.finished is not None:
            return "interrupted", f"stopped by its own rule: {state.finished}"
        # The last certificate counts as part of the time. Before a step that may not end in time
        # the iterate is certified, since such a step may be cut off.
        spent = watch.seconds + watch.check_seconds > budget.max_seconds
        late = watch.seconds + watch.check_seconds + step_seconds > budget.max_seconds
        if late and not spent and watch.records and watch.records[-1].iteration < iteration:
            watch.check(iteration, solver, state)
            continue
        if iteration >= budget.max_iter or spent:
            if watch.point is None:
                raise NothingFeasible(nowhere(program))
            if watch.records[-1].iteration < iteration:
                watch.check(iteration, solver, state)
                continue
            return watch.status_when_spent(spent)
        began = time.perf_counter()
        for _ in solver.stages(program, state):
            watch.keep_between(solver, state, wait=max(watch.next_check - iteration, 1))
        step_seconds = time.perf_counter() - began
        iteration += 1
        if not np.isfinite(state.objective):
            why = f" and {FALLING}" if watch.endless else ""
            return "interrupted", f"iterate {iteration} is not finite{why}; {BEFORE}"
        if state.finished is not None or watch.is_due(iteration, solver.expected_gap(state)):
            watch.check(iteration, solver, state)

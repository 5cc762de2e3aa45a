"""Every backend by its name, the one that ``auto`` takes, and the reasons against the others."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any

import attrs

from mcframe.backends.alternating import Alternating
from mcframe.backends.backend import Backend, History, Outcome, Record, Settings, Start
from mcframe.backends.certificate import Certificate, best_of
from mcframe.backends.factored import FactoredDescent
from mcframe.backends.fpc import FPC
from mcframe.backends.loop import INTERRUPTED, STOPPED_BY_CALLBACK, certified_to
from mcframe.backends.proximal import Proximal
from mcframe.backends.reference import Reference, estimated_cost
from mcframe.backends.rowwise import Rowwise
from mcframe.backends.splitting import FirstOrder, Splitting, is_stiff
from mcframe.compile import CompiledProblem, EntryLoss, Program
from mcframe.contracts.endings import Ending, Status, StopReason
from mcframe.contracts.errors import BackendError, ModelError, NothingFeasible
from mcframe.contracts.rounding import SUM_ROUNDING
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import as_given, is_word
from mcframe.contracts.wording import wording
from mcframe.runtime.progress import current

# What ``backend=`` takes: a name, an options object, or a solver of one's own.
BackendLike = str | Backend | Solver[Program, Any]

# Operations of decomposing a Z written out, n d min(n, d) for n x d, for each observed entry:
# above so many the solvers that work on factors and entries come first.
MAX_OPERATIONS_PER_ENTRY = 10_000
# A backend makes so many iterations before the next one may replace it, twice as many after each
# change. It goes on if twice as many again would suffice. All backends together then make only a
# few times the iterations of the best one.
ITERATIONS_PER_TURN = 500
# The most seconds, as estimated, until the first answers of a reference that is asked where others
# make little progress, and of one that is asked where the first of them does, before the others.
MAX_REFERENCE_SECONDS, QUICK_REFERENCE_SECONDS = 40.0, 1.0
# Certificates without a feasible point after which such a reference is asked.
MAX_INFEASIBLE_CERTIFICATES = 2


@attrs.frozen
class Candidate:
    """A backend of the list that ``auto`` goes through, and what it is there for.

    Attributes
    ----------
    backend : Backend
    serves : str
        The problems that it can run, or why ``auto`` never takes it.
    automatic : bool
        Whether ``auto`` asks it at all.
    """

    backend: Backend
    serves: str
    automatic: bool = True

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self.backend.name

    def __str__(self) -> str:
        return f"{self.name:<11} {'' if self.automatic else 'never: '}{self.serves}"


CANDIDATES = (
    Candidate(FirstOrder(Proximal()), "smooth losses and terms, one function of singular values"),
    Candidate(FirstOrder(Splitting(Proximal())), "any losses and terms with a gradient or a prox"),
    Candidate(FirstOrder(Alternating()), "a nuclear norm alone over smooth losses"),
    # Its class is not called Factored: that is the ability of a term (``contracts.term``).
    Candidate(FirstOrder(FactoredDescent()), "a nuclear norm or ball, a max norm"),
    Candidate(
        FirstOrder(Rowwise()), "a square of each row, as of GaussianRows, over smooth losses"
    ),
    Candidate(
        FirstOrder(FPC()),
        "it needs more iterations than ``proximal`` for the same gap",
        automatic=False,
    ),
    Candidate(Reference(), "whatever remains and is small"),
)
BACKENDS = {candidate.name: candidate.backend for candidate in CANDIDATES}


@attrs.frozen
class Eligibility:
    """The cost of a problem for a backend, or the reason against it.

    Attributes
    ----------
    name : str
    reason : str or None
        Why it cannot; None if it can.
    cost : str
        What it holds.
    """

    name: str
    reason: str | None
    cost: str

    @property
    def can_run(self) -> bool:
        """True without a reason against it."""
        return self.reason is None

    def __str__(self) -> str:
        return self.reason or self.cost


def eligibility_of(backend: Backend, compiled: CompiledProblem) -> Eligibility:
    """The eligibility of one backend: it may refuse a problem, or need too much for it."""
    cost = backend.cost(compiled)
    return Eligibility(backend.name, backend.refusal(compiled) or cost.excess, cost.text)


def eligibilities(compiled: CompiledProblem) -> tuple[Eligibility, ...]:
    """The eligibility of every backend, without solving anything."""
    return tuple(eligibility_of(backend, compiled) for backend in BACKENDS.values())


def able(compiled: CompiledProblem) -> Iterator[Backend]:
    """The backends of ``CANDIDATES`` that can run the problem, in the order of ``auto``.

    Each is asked when its turn comes.
    """
    backends = [candidate.backend for candidate in CANDIDATES if candidate.automatic]
    if compiled.refusal is None and decomposition(compiled) > MAX_OPERATIONS_PER_ENTRY:
        backends.sort(key=lambda backend: not works_on_factors(backend))
    elif prefers_copies(compiled):
        backends.sort(key=lambda backend: backend.name != "splitting")
    return (backend for backend in backends if eligibility_of(backend, compiled).can_run)


def prefers_copies(compiled: CompiledProblem) -> bool:
    """True where the method of multipliers pays although all losses are smooth.

    A loss in memory is far stiffer than the main regularizer.
    """
    if compiled.refusal is not None:
        return False
    program = compiled.program
    in_memory = isinstance(program.loss, EntryLoss) and not program.background
    return in_memory and any(
        is_stiff(block_loss, program) for block_loss in program.loss.block_losses
    )


def decomposition(compiled: CompiledProblem) -> float:
    """Operations of decomposing Z written out, for each number that is read at a step."""
    program = compiled.program
    n_rows, n_columns = program.shape
    n_read = program.entries.size + program.background.n_read
    return n_rows * n_columns * min(program.shape) / max(n_read, 1)


def works_on_factors(backend: Backend) -> bool:
    """True for a solver that works on factors of Z."""
    return isinstance(backend, FirstOrder) and backend.solver.in_factors


def best_backend(compiled: CompiledProblem) -> Backend:
    """The backend of a list that suits a problem best; a ``BackendError`` if none can run it.

    The rule stands in the notes of ``fit``.
    """
    for backend in able(compiled):
        return backend
    # Backends that share a reason are named together.
    named_by: dict[str, list[str]] = {}
    for eligibility in eligibilities(compiled):
        named_by.setdefault(str(eligibility.reason), []).append(eligibility.name)
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in named_by.items())
    raise BackendError(f"no backend can run this problem ({reasons})")


def choice_of(compiled: CompiledProblem) -> tuple[str | None, str]:
    """The name of the backend that ``auto`` takes, if one can run, and why it does, in words."""
    backends = list(able(compiled))
    if not backends:
        return None, "auto takes none: no backend can run this problem"
    name = backends[0].name
    if len(backends) == 1:
        return name, f"auto takes {name}: none of the others that it may take can run this problem"
    operations = decomposition(compiled)
    comparison = "more than" if operations > MAX_OPERATIONS_PER_ENTRY else "not more than"
    reason = "the first that can run it"
    if works_on_factors(backends[0]) and operations > MAX_OPERATIONS_PER_ENTRY:
        reason = "the first that works on factors"
    elif prefers_copies(compiled) and name == "splitting":
        reason = "since a loss is far stiffer than the regularizer"
    return name, (
        f"auto takes {name}, {reason}: decomposing Z takes {operations:,.0f} operations for each"
        f" observed entry, {comparison} {MAX_OPERATIONS_PER_ENTRY:,}"
    )


def backend_from(backend: object, compiled: CompiledProblem) -> Backend:
    """The backend asked for: a name, an options object, or "auto"."""
    if isinstance(backend, Backend):
        return backend
    if isinstance(backend, Solver):
        return FirstOrder(backend)
    if is_word(backend, "auto"):
        return best_backend(compiled)
    if isinstance(backend, str) and backend in BACKENDS:
        return BACKENDS[backend]
    if isinstance(backend, type):
        raise ModelError(f"backend is the class {backend.__name__}; write {backend.__name__}()")
    names = ", ".join(repr(name) for name in ("auto", *BACKENDS))
    raise ModelError(
        f"backend={as_given(backend)} was given; one of {names}, or an options"
        f" object such as {wording().word('FPC')}, is needed"
    )


def checked_backend(backend: object, compiled: CompiledProblem) -> Backend:
    """The backend asked for, or a ``BackendError`` with the reason why it cannot run."""
    chosen = backend_from(backend, compiled)
    # What "auto" has chosen was asked already.
    if not is_word(backend, "auto"):
        reason = eligibility_of(chosen, compiled).reason
        if reason is not None:
            raise BackendError(f"backend {chosen.name!r} cannot run this problem: {reason}")
    return chosen


def solve_by(backend: Backend, compiled: CompiledProblem, settings: Settings) -> Outcome:
    """The outcome of one backend; a ``ModelError`` where it cannot begin from the start."""
    if settings.start is not None and backend.start_refusal is not None:
        raise ModelError(f"start was given, but {backend.start_refusal}")
    return backend.solve(compiled, settings)


def solve_by_choice(compiled: CompiledProblem, settings: Settings) -> tuple[Outcome, str]:
    """The outcome of the backend that ``auto`` takes, or of another, and its name.

    If one makes little progress, the next one continues from its point and bound. A start is
    continued by the solver that it comes from.
    """
    chosen = backend_of_start(settings.start, compiled) or best_backend(compiled)

    @cache
    def others() -> list[Backend]:  # computed only where the first one makes little progress
        return [backend for backend in able(compiled) if backend.name != chosen.name]

    try:
        return solve_in_turn(compiled, chosen, others, settings)
    except NothingFeasible as error:
        # Without the start, from which nothing feasible came; the first backend was perhaps
        # stopped early, for the sake of a reference that has not answered either.
        backends, fresh = [*others(), chosen], attrs.evolve(settings, start=None)
        if reference_seconds(compiled, backends) <= QUICK_REFERENCE_SECONDS:
            backends = sorted(backends, key=lambda backend: not isinstance(backend, Reference))
        for backend in backends:
            with suppress(BackendError):
                return backend.solve(compiled, fresh), backend.name
        raise error


def backend_of_start(start: Start | None, compiled: CompiledProblem) -> Backend | None:
    """The backend that a start of the same program comes from, if ``auto`` may take it."""
    if start is None or not start.backend:
        return None
    backends = [b for b in able(compiled) if isinstance(b, FirstOrder)]
    return next((b for b in backends if b.name == start.backend), None)


def solve_in_turn(
    compiled: CompiledProblem,
    first: Backend,
    others: Callable[[], list[Backend]],
    settings: Settings,
) -> tuple[Outcome, str]:
    """The outcome of the first backend, or of another that goes on from its point and bound.

    If all of them make little progress, the reference is asked where a table is small; where it is
    tiny, as soon as the first one does. If it does not certify either, they continue.
    """
    queue, changes = [first], ""
    reference: Reference | None = None
    turns_before_reference = 0
    records: tuple[Record, ...] = ()

    @cache
    def seconds_of_reference() -> float:
        return reference_seconds(compiled, others())

    def has_next() -> bool:
        nonlocal reference, turns_before_reference
        if n_changes:
            return len(queue) > 1
        # On a problem that proximal can run, splitting makes the same steps.
        equivalent = {"splitting"} if "proximal" in [b.name for b in (first, *others())] else set()
        # Beside a stiff loss the steps of all others are too short.
        if not (first.name == "splitting" and prefers_copies(compiled)):
            queue.extend(
                b for b in others() if b.start_refusal is None and b.name not in equivalent
            )
        if seconds_of_reference() <= MAX_REFERENCE_SECONDS:
            reference = next(b for b in others() if isinstance(b, Reference))
            turns_before_reference = 1 if has_quick_reference() else len(queue)
        return len(queue) > 1 or reference is not None

    def has_quick_reference() -> bool:
        return seconds_of_reference() <= QUICK_REFERENCE_SECONDS

    for n_changes in count():
        patience = ITERATIONS_PER_TURN * 2.0**n_changes
        monitor = StallMonitor(
            settings.callback, settings.budget.tol, patience, has_next, has_quick_reference
        )
        outcome = solve_by(queue[0], compiled, attrs.evolve(settings, callback=monitor))
        # The first record of a later backend is the last one of the one before.
        records += outcome.history.records[min(n_changes, 1) :]
        if not monitor.is_poor or outcome.reason is not StopReason.CALLBACK:
            break
        iterations_made = records[-1].iteration
        changes += (
            f"; {queue[0].name}, slower than expected, handed over after {iterations_made}"
            " iterations"
        )
        if reference is not None and n_changes + 1 == turns_before_reference:
            outcome, ends = with_reference(reference, compiled, outcome, iterations_made, settings)
            records += outcome.history.records
            iterations_made = records[-1].iteration
            if ends:
                queue = [reference]
                break
        certificate = certificate_of(compiled, outcome)
        settings = attrs.evolve(
            settings, start=Start(outcome.point, certificate), iterations_made=iterations_made
        )
        queue = [*queue[1:], queue[0]]
        current().begin(f"{queue[-1].name} hands over to {queue[0].name}", announced=True)
    message, history = outcome.message + changes, History(records)
    return attrs.evolve(outcome, message=message, history=history), queue[0].name


def reference_seconds(compiled: CompiledProblem, backends: Sequence[Backend]) -> float:
    """Seconds, as estimated, until the reference answers; infinite if it is none of these."""
    references = (backend for backend in backends if isinstance(backend, Reference))
    return min(
        (estimated_cost(compiled.problem, r.max_iters).first for r in references), default=math.inf
    )


def certificate_of(compiled: CompiledProblem, outcome: Outcome) -> Certificate:
    """The certificate of an outcome, its objective evaluated by the problem."""
    effects = dict(outcome.effects)
    objective = compiled.problem.objective(outcome.point.latent, effects)
    return Certificate(objective, outcome.bound, effects, outcome.rounding)


def with_reference(
    reference: Reference,
    compiled: CompiledProblem,
    outcome: Outcome,
    made: int,
    settings: Settings,
) -> tuple[Outcome, bool]:
    """A known outcome or the reference's, whichever is better, with the better bound.

    Its history has the record of that, which counts as one iteration more than the ``made`` ones;
    none where the reference fails. Also whether the run ends with it, so that no other backend
    goes on.
    """
    outcome = attrs.evolve(outcome, history=History(()))
    current().begin("the reference is asked", announced=True)
    try:
        exact = reference.answer(compiled, attrs.evolve(settings, start=None, callback=None))
    except BackendError:
        return outcome, False
    except KeyboardInterrupt:
        return ended(outcome, INTERRUPTED), True
    candidates = [(answer.point, certificate_of(compiled, answer)) for answer in (outcome, exact)]
    point, best = best_of(candidates)
    seconds, rank = exact.history[-1].seconds, point.latent.rank
    record = Record(made + 1, seconds, best.objective, best.bound, best.gap, rank)
    ending = None
    if settings.callback is not None and settings.callback(record):
        ending = STOPPED_BY_CALLBACK
    elif best.gap <= settings.budget.tol:
        ending = certified_to(settings.budget.tol)
    elif exact.status is Status.UNBOUNDED:
        ending = Ending(exact.status, exact.message, exact.reason)
    better = attrs.evolve(
        outcome if point is outcome.point else exact,
        bound=best.bound,
        rounding=best.rounding,
        history=History((record,)),
    )
    return (better, False) if ending is None else (ended(better, ending), True)


def ended(outcome: Outcome, ending: Ending) -> Outcome:
    """The outcome with another end of its run."""
    return attrs.evolve(
        outcome, status=ending.status, message=ending.message, reason=ending.reason
    )


@attrs.define(eq=False)
class StallMonitor:
    """A callback that stops a fit which would take too long at the rate at which its gap fell.

    Gaps and counts of iterations decide, no clocks: equal tables are fitted by equal steps.
    """

    callback: Callable[[Record], Any] | None  # the user's
    tol: float
    patience: float  # iterations that are made in any case
    has_next: Callable[[], bool]  # whether another backend can go on
    has_quick_reference: Callable[[], bool]  # whether the reference takes next to no time
    records: list[Record] = attrs.field(factory=list)
    is_poor: bool = False

    def __call__(self, record: Record) -> bool:
        """True to stop: the user's callback says so, or the headway is poor."""
        stopped = self.callback is not None and bool(self.callback(record))
        self.records.append(record)
        tol, made = max(self.tol, SUM_ROUNDING), record.iteration - self.records[0].iteration
        if not stopped and made >= self.patience and record.gap > tol:
            slow = iterations_ahead(self.records, tol) >= 2.0 * self.patience
            self.is_poor = slow and self.has_next()
        elif not stopped and self.is_infeasible:
            self.is_poor = self.has_next()
        return stopped or self.is_poor

    @property
    def is_infeasible(self) -> bool:
        """True if no point was feasible so far, and the reference would soon have one."""
        tried = len(self.records) >= MAX_INFEASIBLE_CERTIFICATES
        nothing = tried and all(record.objective == math.inf for record in self.records)
        return nothing and self.has_quick_reference()


def iterations_ahead(records: Sequence[Record], tol: float) -> float:
    """Iterations to a gap if objective and bound go on as over the second half of the steps.

    By the fall of their difference: a gap relative to an objective that is far above the optimum
    stays near 1 though the objective falls by any factor. Infinite where it did not fall, or where
    there is still no bound; 0 where the first bound was found since, so that nothing is known.
    """
    first, last = records[0].iteration, records[-1]
    middle = first + 0.5 * (last.iteration - first)
    earlier = [record for record in records[:-1] if record.iteration <= middle][-1]
    if earlier.gap == math.inf:
        return 0.0 if last.gap < math.inf else math.inf
    before, after = earlier.objective - earlier.bound, last.objective - last.bound
    if not 0.0 < after < before < math.inf:
        return math.inf
    fall = math.log(before / after) / (last.iteration - earlier.iteration)
    size = after / last.gap
    if 0.0 < last.bound < 0.5 * size:  # the objective falls to that
        size = last.bound
    return math.log(after / (tol * size)) / fall

"""The contract of backends: what they are given, what they answer, and their records."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Certificate, Point, Rounding
from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.endings import Status, StopReason
from mcframe.contracts.solver import Solver, State
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import Options
from mcframe.runtime.work import Work


@stored
@attrs.frozen
class Record:
    """The numbers of one certificate.

    ``seconds`` count from the start of the solver; ``bound`` is the best lower bound so far
    and ``gap`` the relative gap of the best point so far. For rows in partitions ``work`` counts
    rounds of tasks, bytes sent and received, and partitions compiled; else it is None.
    """

    iteration: int
    seconds: float
    objective: float
    bound: float
    gap: float
    rank: int
    work: Work | None = None

    def __str__(self) -> str:
        line = (
            f"iteration {self.iteration:6d}  {self.seconds:8.2f} s"
            f"  objective {self.objective:<13.9g}  gap {self.gap:8.1e}  rank {self.rank:4d}"
        )
        return line if self.work is None else f"{line}  {self.work}"


# The fields of a record that are numbers: all but the last.
NUMERIC_FIELDS = tuple(field.name for field in attrs.fields(Record))[:-1]


@stored
@attrs.frozen(repr=False)
class History:
    """The records of a fit, oldest first; each number as an array by its name.

    ``history.gap`` is the array of gaps, ``history[-1]`` the last record,
    ``pandas.DataFrame(history.table())`` a frame.
    """

    records: tuple[Record, ...]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, position: int) -> Record:
        return self.records[position]

    def table(self) -> dict[str, Array]:
        """Every number of the records as an array."""
        return {
            name: np.array([getattr(r, name) for r in self.records]) for name in NUMERIC_FIELDS
        }

    @property
    def iteration(self) -> Array:
        """Iterations at the certificates."""
        return self.table()["iteration"]

    @property
    def seconds(self) -> Array:
        """Seconds since the solver began."""
        return self.table()["seconds"]

    @property
    def objective(self) -> Array:
        """Objectives of the iterates."""
        return self.table()["objective"]

    @property
    def bound(self) -> Array:
        """Best lower bounds so far."""
        return self.table()["bound"]

    @property
    def gap(self) -> Array:
        """Relative gaps of the best points so far."""
        return self.table()["gap"]

    @property
    def rank(self) -> Array:
        """Ranks of the iterates."""
        return self.table()["rank"]

    def __repr__(self) -> str:
        if not self.records:
            return "History: no record"
        shown = self.records if len(self) <= 8 else (*self.records[:4], *self.records[-4:])
        lines = [str(record) for record in shown]
        if len(self) > 8:
            lines.insert(4, f"... {len(self) - 8} more ...")
        return "\n".join(lines)


@attrs.frozen
class Budget:
    """When to stop: the tolerance on the gap, iterations, seconds."""

    tol: float = 1e-6
    max_iter: int = 20_000
    max_seconds: float = np.inf


def checked_budget(tol: float, max_iter: int, max_seconds: float) -> Budget:
    """The budget, or a ``ModelError`` that names what is wrong with it."""
    return Budget(Options.tol(tol), Options.max_iter(max_iter), Options.max_seconds(max_seconds))


@stored(formerly=("Paused",), dispensable=True)
@attrs.frozen(eq=False)
class SolverCheckpoint:
    """The state of a run to go on from: that of its solver, and when it is certified next.

    Attributes
    ----------
    solver : Solver
    state : object
        What ``solver.pause`` gave.
    wait : int or None
        Iterations until the next certificate, 0 where one was due; None where nothing was planned.
    gap_ratio : float
        The ratio of the gap to the one that the solver expected, at the last certificate.
    certified : bool
        Whether the best point is at least as good: False of a state beyond the last certificate.
    """

    solver: Solver[Program, Any]
    state: Any
    wait: int | None = None
    gap_ratio: float = 1.0
    certified: bool = True


@attrs.frozen(eq=False)
class Start:
    """The point that a run begins from.

    If it belongs to the same program, it has its certificate, which is not computed again, and the
    name of the backend that it comes from; that of a checkpoint also has the state of the solver.
    Any other solver begins from the point alone.
    """

    point: Point
    certificate: Certificate | None = None
    backend: str = ""
    paused: SolverCheckpoint | None = None

    def state_of(
        self, solver: Solver[Program, Any], program: Program, rng: np.random.Generator
    ) -> State:
        """The solver's state at the start."""
        paused = self.paused
        if paused is None or paused.solver != solver:
            return solver.init(program, self.point, rng)
        return solver.resume(program, paused.state, rng)


@attrs.frozen(eq=False)
class Settings:
    """Budget, start and callbacks of a fit, whatever the backend.

    Attributes
    ----------
    budget : Budget
    start : Start or None
        None for the backend's own.
    callback : function of a Record, or None
        Called at every certificate; the run stops if it returns something true.
    random_state : int
        The seed of all that is random.
    began : float or None
        The moment of ``time.perf_counter`` from which seconds count; None for that of ``clock``.
    iterations_made : int
        Iterations that another backend has made before: they are part of the budget.
    write_checkpoint : function of an Outcome, or None
        Called at every certificate, and some time after one with a better iterate, with what
        would be the answer if all ended there.
    """

    budget: Budget = attrs.field(factory=Budget)
    start: Start | None = None
    callback: Callable[[Record], Any] | None = None
    random_state: int = 0
    began: float | None = None
    iterations_made: int = 0
    write_checkpoint: "Callable[[Outcome], Any] | None" = None

    def clock(self) -> float:
        """The moment from which seconds count."""
        return time.perf_counter() if self.began is None else self.began


@attrs.frozen(eq=False)
class Outcome:
    """The best point and bound of a run, how and why it ended, and the solver's last state.

    ``tol`` is the gap that the status "certified" promises. Without a ``reason`` it is the usual
    one of the status.
    """

    point: Point
    effects: dict[str, Array]
    bound: float
    rounding: Rounding
    status: Status = attrs.field(converter=Status)
    message: str
    history: History
    tol: float
    paused: SolverCheckpoint | None = None
    reason: StopReason = attrs.field()

    @reason.default
    def _usual_reason(self) -> StopReason:
        return self.status.usual_reason


@attrs.frozen
class Cost:
    """Memory and time of a backend for a problem in words, and the reason if that is too much."""

    text: str
    excess: str | None = None


class Backend(ABC):
    """One way to solve a compiled problem.

    Nothing outside asks which one it is: it says itself what it cannot do.
    """

    #: Why it cannot begin from a point, as a clause; None if it can.
    start_refusal: str | None = None
    #: Whether it solves the problem as it is stated, by CVXPY: what others are compared with.
    exact: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that ``backend=`` takes and ``Fit.backend`` has."""

    @abstractmethod
    def refusal(self, compiled: CompiledProblem) -> str | None:
        """The reason against a problem of whatever size, as a clause; None if it can solve it."""

    @abstractmethod
    def cost(self, compiled: CompiledProblem) -> Cost:
        """Memory and time in words, of a problem that it refuses, too."""

    @abstractmethod
    def solve(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The best point found, with a certificate; a ``BackendError`` where there is none."""


def nonsmooth_refusal(program: Program) -> str | None:
    """The nonsmooth losses and terms but the main regularizer, as a clause; None without any."""
    parts = [
        f"the loss {type(block_loss.likelihood).__name__}"
        for block_loss in program.loss.block_losses
        if not block_loss.likelihood.smooth
    ]
    parts += [term.term.word for term in program.terms if not term.smooth]
    verb = "have" if len(parts) > 1 else "has"
    return f"{', '.join(parts)} {verb} no gradient" if parts else None

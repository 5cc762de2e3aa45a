"""What a backend is, what it is given, and what it answers."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Judgement, Point, Rounding
from mcframe.backends.history import History, Record
from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver, State

__all__ = ["Backend", "Budget", "Cost", "Outcome", "Paused", "Settings", "Start"]


@attrs.frozen
class Budget:
    """When to stop: the tolerance on the gap, iterations, seconds."""

    tol: float = 1e-6
    max_iter: int = 20_000
    max_seconds: float = np.inf


@attrs.frozen(eq=False)
class Paused:
    """What a run needs to go on: the state of its solver, and when it looks at the certificate.

    Attributes
    ----------
    solver : Solver
    state : object
        What ``solver.pause`` gave.
    wait : int or None
        Iterations until the next look, 0 where one was due; None where nothing was planned.
    promises : tuple of pairs
        The gaps that the solver expected at the last two looks, and those that were found.
    judged : bool
        Whether the best point is at least as good: False of a state beyond the last look.
    """

    solver: Solver[Program, Any]
    state: Any
    wait: int | None = None
    promises: tuple[tuple[float, float], ...] = ()
    judged: bool = True


@attrs.frozen(eq=False)
class Start:
    """The point that a run begins from.

    Where it belongs to the same program, also what is known of it, which need not be found again,
    and where a solver stood: another solver begins from the point.
    """

    point: Point
    judgement: Judgement | None = None
    paused: Paused | None = None

    def state_of(self, solver: Solver[Program, Any], program: Program, rng: Any) -> State:
        """The solver's state at the start."""
        paused = self.paused
        if paused is None or paused.solver != solver:
            begun: State = solver.init(program, self.point, rng)
            return begun
        resumed: State = solver.resume(program, paused.state, rng)
        return resumed


@attrs.frozen(eq=False)
class Settings:
    """How a problem is to be solved, whatever the backend.

    Attributes
    ----------
    budget : Budget
    start : Start or None
        None for the backend's own.
    callback : function of a Record, or None
        Called at every certificate; the run stops if it returns something true.
    progress : bool
        Whether to print a line at every certificate.
    random_state : int
        The seed of all that is random.
    began : float or None
        The moment of ``time.perf_counter`` from which seconds count; None for that of ``clock``.
    made : int
        Iterations that another backend has made before: they are part of the budget.
    keep : function of an Outcome, or None
        Called at every certificate, and some time after one with a better iterate, with what
        would be the answer if all ended there.
    """

    budget: Budget = attrs.field(factory=Budget)
    start: Start | None = None
    callback: Callable[[Record], Any] | None = None
    progress: bool = False
    random_state: int = 0
    began: float | None = None
    made: int = 0
    keep: "Callable[[Outcome], Any] | None" = None

    def clock(self) -> float:
        """The moment from which seconds count."""
        return time.perf_counter() if self.began is None else self.began


@attrs.frozen(eq=False)
class Outcome:
    """The best point seen, the best bound, why the run stopped, and where it stood.

    ``tol`` is the gap that the status "certified" promises.
    """

    point: Point
    effects: dict[str, Array]
    bound: float
    rounding: Rounding
    status: str
    message: str
    history: History
    tol: float
    paused: Paused | None = None


@attrs.frozen
class Cost:
    """What a backend takes for a problem, in words, and why that is too much, if it is."""

    text: str
    excess: str | None = None


class Backend(ABC):
    """One way to solve a compiled problem.

    Nothing outside asks which one it is: what it cannot do it says itself.
    """

    #: Why it cannot begin from a point, as a clause; None if it can.
    refuses_start: str | None = None
    #: Whether it solves the problem as it is stated, by CVXPY: what others are compared with.
    exact: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """How ``backend=`` and ``Fit.backend`` call it."""

    @abstractmethod
    def refuses(self, compiled: CompiledProblem) -> str | None:
        """Why it cannot solve a problem of whatever size, as a clause; None if it can."""

    @abstractmethod
    def cost(self, compiled: CompiledProblem) -> Cost:
        """What it would take, of a problem that it refuses, too."""

    @abstractmethod
    def solve(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The best point found, with a certificate; a ``BackendError`` where there is none."""

"""The contract of first-order solvers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

ProgramT = TypeVar("ProgramT")
StateT = TypeVar("StateT", bound="State")
ProgramT_contra = TypeVar("ProgramT_contra", contravariant=True)
EvaluationT_co = TypeVar("EvaluationT_co", covariant=True)


class State(Protocol):
    """The state of any solver, as the loop and the multipliers see it."""

    @property
    def residual(self) -> float:
        """Norm of the gradient mapping: 0 at the optimum, in units of the gradient."""
        ...

    @property
    def rank(self) -> int:
        """Rank of the iterate."""
        ...

    @property
    def finished(self) -> str | None:
        """The sentence of the solver's own stopping rule once it has fired, else None."""
        ...

    @property
    def objective(self) -> float:
        """The program's objective at the iterate, as the solver sees it."""
        ...

    def increase_accuracy(self) -> None:
        """Called when the gap no longer shrinks: whatever was approximate becomes finer."""
        ...


class RetargetedState(State, Protocol[ProgramT_contra, EvaluationT_co]):
    """A state that goes on at the same Z with a changed program, as multipliers need."""

    @property
    def evaluation(self) -> EvaluationT_co:
        """The evaluation of the program at the iterate."""
        ...

    def retarget(self, program: ProgramT_contra) -> None:
        """Evaluate a changed program at the same Z."""
        ...


class ToMultipliers(Enum):
    """The nonsmooth parts of a program that the method of multipliers handles for a solver."""

    NOTHING = "nothing"
    FIXED_COLUMN = "the fixed column"
    ALL_NONSMOOTH = "all nonsmooth parts but the main regularizer"


class Solver(ABC, Generic[ProgramT, StateT]):
    """A frozen object of options that minimises programs, a step at a time.

    It owns no loop: budget, stopping, certificates, callbacks and history belong to the one
    loop outside all solvers.
    """

    #: Its name in ``backend=``.
    name: str
    #: Whether it holds Z dense, as a rule. If not, its memory is that of the observed entries and
    #: factors.
    dense: bool = True
    #: Whether it works on factors of Z: programs of few observed cells then write nothing out.
    in_factors: bool = False
    #: Whether it minimises a program's background, too: losses of cells that are no entries.
    reads_background: bool = False
    #: Whether it asks a program for sums over its rows alone, and holds no row of Z that the
    #: program does not give: rows may then be in partitions, which no process has together.
    sums_over_rows: bool = False
    #: Whether it begins at Z = 0 where no start is given: the loop then need not certify that.
    begins_at_zero: bool = False
    #: Whether its answer is its last iterate, as a published algorithm states, and not the best
    #: one that was certified.
    answers_last: bool = False

    @property
    def leaves(self) -> ToMultipliers:
        """The parts that the method of multipliers handles for it, under its own name.

        By default the fixed column if it holds Z dense. Inside multipliers a state needs
        ``evaluation`` and ``retarget(program)``, which evaluates a changed program at the same Z.
        """
        return ToMultipliers.FIXED_COLUMN if self.dense else ToMultipliers.NOTHING

    @abstractmethod
    def refusal(self, program: ProgramT) -> str | None:
        """The reason against a program, as a clause; None if it can run it."""

    def holds_dense(self, program: ProgramT) -> bool:
        """True where it holds Z dense on one program; by default ``dense``."""
        return self.dense

    @abstractmethod
    def init(self, program: ProgramT, start: Any, rng: np.random.Generator) -> StateT:
        """The state before the first step; ``start`` is a candidate, or None, and unharmed."""

    @abstractmethod
    def step(self, program: ProgramT, state: StateT) -> None:
        """One iteration; changes the state."""

    def stages(self, program: ProgramT, state: StateT) -> Iterator[None]:
        """One iteration in pieces, after each of which ``pause`` gives a state to go on from.

        A state that was paused in the midst of an iteration goes on with the pieces that are left
        of it. By default the whole step is one piece.
        """
        self.step(program, state)
        yield

    def pause(self, program: ProgramT, state: StateT) -> Any:
        """The state to go on from in a later run, of the size of a few thin factors.

        Later steps must leave it unharmed. By default the candidate alone.
        """
        return self.candidate(program, state)

    def resume(self, program: ProgramT, paused: Any, rng: np.random.Generator) -> StateT:
        """The state that goes on with the same program from what ``pause`` gave, unharmed."""
        return self.init(program, paused, rng)

    def expected_gap(self, state: StateT) -> float:
        """An estimate of the relative gap that a certificate would show now; infinite if unknown.

        The loop computes a certificate as soon as the estimate is at most ``tol``.
        """
        return float("inf")

    @abstractmethod
    def candidate(self, program: ProgramT, state: StateT) -> Any:
        """The iterate as a ``mcframe.backends.Point`` of the program's feasible set."""

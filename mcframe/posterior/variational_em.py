"""Variational EM with extrapolated steps, and the check that a bound on the evidence rises."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.numerics.low_rank_rows import LowRankRows
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.runtime.progress import current

# How many times longer an extrapolation is than the last one, until one lowers the evidence.
EXTRAPOLATION_GROWTH = 1.2


class RowExpectation(Protocol):
    """The expectations over rows that an E step finds."""

    @property
    def evidence(self) -> Array:
        """The part of the evidence lower bound that each row has (n,)."""
        ...


MomentsT = TypeVar("MomentsT", bound=RowExpectation)


class EMParameters(ABC, Generic[MomentsT]):
    """The distribution of the parameters of Gaussian rows, as variational EM needs it."""

    @property
    @abstractmethod
    def predictive(self) -> RowMixture | LowRankRows:
        """The moments of a new row."""

    @property
    def distribution(self) -> RowMixture | LowRankRows | RowsInGroups:
        """The distribution of rows, of which no other row is known."""
        return self.predictive

    @property
    @abstractmethod
    def degrees(self) -> Array:
        """The degrees of freedom of the covariance of each component (C,)."""

    @abstractmethod
    def expectation(self, table: IncompleteRows) -> MomentsT:
        """The expectations over rows of which the next step follows."""

    @abstractmethod
    def m_step(self, moments: MomentsT) -> Self:
        """The parameters after a step."""

    @abstractmethod
    def divergence(self) -> float:
        """The Kullback-Leibler divergence from the prior."""

    @abstractmethod
    def moments(self, table: IncompleteRows) -> tuple[Array, Array]:
        """Mean and variance of z (n x d) on which the evidence lower bound rests."""

    @abstractmethod
    def extrapolated(self, after: Self, length: float) -> Self:
        """``self + length (after - self)``, or ``after`` if those are no parameters."""

    def bound(self, moments: MomentsT) -> float:
        """The evidence lower bound, at the moments of rows under these parameters."""
        return float(np.sum(moments.evidence)) - self.divergence()

    def step(self, table: IncompleteRows) -> tuple[Self, float]:
        """The parameters after a step, and the evidence lower bound before it."""
        moments = self.expectation(table)
        return self.m_step(moments), self.bound(moments)


ParametersT = TypeVar("ParametersT", bound=EMParameters[Any])


class Extrapolated(Protocol):
    """A state from which steps can be extrapolated."""

    def extrapolated(self, after: Self, length: float) -> Self:
        """``self + length (after - self)``, or ``after`` if that is no state."""
        ...


class WithEvidence(Protocol):
    """The evidence lower bound at a state, and what else is computed there."""

    @property
    def evidence(self) -> float:
        """The evidence lower bound."""
        ...


StateT = TypeVar("StateT", bound=Extrapolated)
EvaluationT = TypeVar("EvaluationT", bound=WithEvidence)


def extrapolated_em(
    state: StateT,
    evaluate: Callable[[StateT], EvaluationT],
    advance: Callable[[StateT, EvaluationT], StateT],
) -> Iterator[tuple[StateT, EvaluationT]]:
    """Yield the states of an EM algorithm, and what was computed at them, without end.

    Steps of EM are short where much is unknown. Going on in the direction from the last step to
    this one takes far fewer of them, but may lower the evidence; then the next step begins at the
    last one (O'Donoghue and Candes, Adaptive restart for accelerated gradient schemes, 2015).
    States that lower it are not yielded.

    Parameters
    ----------
    state : Extrapolated
        The first one.
    evaluate : function of a state
        The E step, with the evidence lower bound at that state.
    advance : function of a state and its evaluation
        The M step: the state after it, not extrapolated.
    """
    not_extrapolated, length, highest = state, 1.0, -np.inf
    while True:
        evaluation = evaluate(state)
        if state is not not_extrapolated and not evaluation.evidence >= highest:
            state, length = not_extrapolated, 1.0  # it went too far
            continue
        yield state, evaluation
        highest, before = evaluation.evidence, not_extrapolated
        not_extrapolated = advance(state, evaluation)
        state, length = (
            before.extrapolated(not_extrapolated, length),
            EXTRAPOLATION_GROWTH * length,
        )


def check_rise(before: float, after: float, rounding: float) -> None:
    """Raise an error where a bound on the evidence has fallen by more than rounding, or is NaN.

    Parameters
    ----------
    before, after : float
        The bound at two consecutive states; -inf before the first one.
    rounding : float
        How far rounding may have moved the difference.

    Raises
    ------
    BackendError
    """
    if not (after >= before or after >= before - rounding):
        raise BackendError(
            f"the bound on the evidence fell from {before:.12g} to {after:.12g}, which no step may"
            " do; standardise columns, or raise the variances of the noise. If that does not help,"
            " this is a bug in mcframe: please report it with the model and, if possible, the data"
        )


@attrs.frozen(eq=False)
class EvaluatedRows(Generic[MomentsT]):
    """The expectations over rows under some parameters, and the evidence lower bound there."""

    moments: MomentsT
    evidence: float

    @property
    def size(self) -> float:
        """The sum of the absolute values of the parts of the bound."""
        return float(np.sum(np.abs(self.moments.evidence))) + abs(self.evidence)


def variational_em(
    table: IncompleteRows, parameters: ParametersT, tol: float, max_steps: int
) -> tuple[ParametersT, tuple[float, ...]]:
    """Parameters after the steps of variational EM, and the history of the evidence lower bound.

    Raises
    ------
    BackendError
        If a step lowers it by more than rounding can.
    """

    def evaluate(parameters: ParametersT) -> EvaluatedRows[Any]:
        moments = parameters.expectation(table)
        return EvaluatedRows(moments, parameters.bound(moments))

    history: list[float] = []
    least_rise = tol * table.n_observed
    steps = extrapolated_em(parameters, evaluate, lambda at, rows: at.m_step(rows.moments))
    while True:
        parameters, rows = next(steps)
        before = history[-1] if history else -np.inf
        check_rise(before, rows.evidence, RESULT_ROUNDING * (rows.size + table.values.size))
        history.append(rows.evidence)
        rise = rows.evidence - before
        share = current().fall(rise, least_rise)
        current().report(f"step {len(history)}, evidence {rows.evidence:.6g}", share)
        if rise < least_rise or len(history) > max_steps or not table.n_observed:
            return parameters, tuple(history)

"""How a run ended and why: enums whose members equal their texts."""

from enum import StrEnum

import attrs

__all__ = ["AgreementStatus", "Ending", "Status", "StopReason"]


class Fact(StrEnum):
    """A text out of a few: it is compared, printed and stored as that text."""

    def __repr__(self) -> str:
        return repr(self.value)


class Status(Fact):
    """The end of a fit or a posterior; ``fit.status == "certified"`` holds as for a text."""

    #: The relative gap of a fit is at most its tolerance.
    CERTIFIED = "certified"
    #: The bound of a posterior rises by less than its tolerance.
    CONVERGED = "converged"
    #: Double precision cannot separate objective and bound any further.
    LIMITED_BY_ROUNDING = "limited_by_rounding"
    #: The objective falls without end.
    UNBOUNDED = "unbounded"
    #: A stationary point of a loss that is declared nonconvex.
    LOCAL = "local"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    #: Anything else ended it: see the reason.
    INTERRUPTED = "interrupted"

    @property
    def usual_reason(self) -> "StopReason":
        """The reason of this status where nothing else is known."""
        return USUAL_REASONS[self]


class StopReason(Fact):
    """Why a run ended."""

    TOLERANCE = "tolerance"
    ROUNDING = "rounding"
    FALLS_WITHOUT_END = "falls without end"
    STATIONARY = "stationary"
    ITERATIONS = "iterations"
    TIME = "time"
    #: By Ctrl-C, or a signal like it.
    FROM_OUTSIDE = "from outside"
    #: The callback asked for it.
    CALLBACK = "callback"
    #: A solver's own rule.
    OWN_RULE = "own rule"
    #: A number that is not finite, or a decomposition that failed.
    ARITHMETIC = "arithmetic"
    MEMORY = "memory"
    #: The certificate was withdrawn: the objective, computed anew, contradicts it.
    CONTRADICTION = "contradiction"


USUAL_REASONS = {
    Status.CERTIFIED: StopReason.TOLERANCE,
    Status.CONVERGED: StopReason.TOLERANCE,
    Status.LIMITED_BY_ROUNDING: StopReason.ROUNDING,
    Status.UNBOUNDED: StopReason.FALLS_WITHOUT_END,
    Status.LOCAL: StopReason.STATIONARY,
    Status.ITERATION_LIMIT: StopReason.ITERATIONS,
    Status.TIME_LIMIT: StopReason.TIME,
    Status.INTERRUPTED: StopReason.OWN_RULE,
}


class AgreementStatus(Fact):
    """The result of a comparison with the reference."""

    AGREE = "agree"
    DIFFER = "differ"
    TOO_INEXACT = "too inexact"


@attrs.frozen
class Ending:
    """The end of a run: its status, the same in a sentence, and the reason."""

    status: Status
    message: str
    reason: StopReason = attrs.field()

    @reason.default
    def _usual_reason(self) -> StopReason:
        return self.status.usual_reason

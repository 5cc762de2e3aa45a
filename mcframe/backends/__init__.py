"""Floor 5: solvers, the one loop around them, certificates, and the choice among them."""

from mcframe.backends.alternating import Alternating
from mcframe.backends.certificate import Dual, Judgement, Point, Rounding, judge, relative_gap
from mcframe.backends.choice import (
    MEMORY_SHARE,
    Backend,
    Verdict,
    able,
    choose,
    named,
    physical_gigabytes,
    solver_for,
    verdict_on,
    verdicts,
)
from mcframe.backends.factored import FactoredDescent
from mcframe.backends.fpc import FPC
from mcframe.backends.history import History, Record
from mcframe.backends.loop import FROM_OUTSIDE, Budget, Outcome, Paused, Start, run
from mcframe.backends.multipliers import Multipliers
from mcframe.backends.proximal import Proximal
from mcframe.backends.reference import Reference, estimate, to_cvxpy

__all__ = [
    "FPC",
    "FROM_OUTSIDE",
    "MEMORY_SHARE",
    "Alternating",
    "Backend",
    "Budget",
    "Dual",
    "FactoredDescent",
    "History",
    "Judgement",
    "Multipliers",
    "Outcome",
    "Paused",
    "Point",
    "Proximal",
    "Record",
    "Reference",
    "Rounding",
    "Start",
    "Verdict",
    "able",
    "choose",
    "estimate",
    "judge",
    "named",
    "physical_gigabytes",
    "relative_gap",
    "run",
    "solver_for",
    "to_cvxpy",
    "verdict_on",
    "verdicts",
]

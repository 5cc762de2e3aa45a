"""Solvers, the one loop around them, certificates, and the choice among them."""

from mcframe.backends.alternating import Alternating
from mcframe.backends.backend import (
    Backend,
    Budget,
    History,
    Outcome,
    Record,
    Settings,
    SolverCheckpoint,
    Start,
    checked_budget,
)
from mcframe.backends.certificate import Certificate, Dual, Point, Rounding, certify, relative_gap
from mcframe.backends.choice import (
    BACKENDS,
    CANDIDATES,
    BackendLike,
    Eligibility,
    able,
    backend_from,
    best_backend,
    checked_backend,
    choice_of,
    eligibilities,
    eligibility_of,
    solve_by,
    solve_by_choice,
)
from mcframe.backends.factored import FactoredDescent
from mcframe.backends.fpc import FPC
from mcframe.backends.loop import run
from mcframe.backends.proximal import Proximal
from mcframe.backends.reference import Reference
from mcframe.backends.rowwise import Rowwise
from mcframe.backends.splitting import FirstOrder, Forced, Splitting
from mcframe.backends.statement import to_cvxpy

"""Conic solvers, asked through CVXPY."""

import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from mcframe.backends.statement import cp

# Up to this order of the cone Clarabel takes seconds at most.
MAX_CLARABEL_ORDER = 56
# The largest number that a conic solver is given: far beyond it Clarabel's eigenvalues overflow.
LARGEST_NUMBER = 1e60
# Asked of Clarabel, which stops short of it where arithmetic does.
CLARABEL_EPS = 1e-11
SCS_INTERRUPTED, SCS_SOLVED = -5, 1
# What is read of an answer of Clarabel.
CLARABEL_NUMBERS = ("x", "z", "obj_val", "iterations", "solve_time")
# Statuses of CVXPY whose answer is a direction along which the objective falls.
UNBOUNDED_STATUSES = ("unbounded", "unbounded_inaccurate")


class Silent(Exception):
    """A conic solver without an answer."""

    def __init__(self, solver: str, status: str) -> None:
        super().__init__(solver, status)
        self.solver, self.status = solver, status


def solve_conic(
    problem: Any, solver: str, eps: float = 0.0, max_iters: int = 0, until: float = np.inf
) -> None:
    """Give the variables of a problem of CVXPY their values, by SCS or Clarabel; else ``Silent``.

    ``eps`` and ``max_iters`` are SCS's alone; ``until`` is the time, of ``time.perf_counter``, at
    which both end. Where the objective falls without end the values are a ray, and ``Silent`` says
    so.
    """
    options: dict[str, Any] = {}
    if solver == "SCS":
        options |= {"eps_abs": eps, "eps_rel": eps, "max_iters": max_iters}
    else:
        options |= dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), CLARABEL_EPS)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # The certificate of an inaccurate answer says more than a warning.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            data, chain, inverse = problem.get_problem_data(solver, solver_opts=options)
        except cp.SolverError as error:  # it is not installed, or takes no such cones
            raise Silent(solver, f"failed ({error})") from error
        refuse_numbers(data, solver)
        rest = until - time.perf_counter()
        if rest <= 0.0:
            raise Silent(solver, "out of time")
        if np.isfinite(rest):
            options["time_limit_secs" if solver == "SCS" else "time_limit"] = rest
        try:
            raw = chain.solve_via_data(problem, data, verbose=False, solver_opts=options)
            # SCS keeps Ctrl-C from Python, and CVXPY tells it from no other failure.
            if isinstance(raw, dict) and raw["info"]["status_val"] == SCS_INTERRUPTED:
                raise KeyboardInterrupt
            problem.unpack_results(raw, chain, inverse)
            status = problem.status
            if status in UNBOUNDED_STATUSES:
                # The answer is a ray, which CVXPY leaves out.
                problem.unpack(chain.invert(as_solved(raw), inverse))
                raise Silent(solver, status)
        except (KeyboardInterrupt, SystemExit, Silent):
            raise
        except BaseException as error:  # a panic of Clarabel is no Exception
            raise Silent(solver, f"failed ({error})") from error


def as_solved(raw: Any) -> Any:
    """A raw answer with the status of a solved problem: CVXPY gives variables to no other one."""
    if isinstance(raw, dict):
        return raw | {"info": raw["info"] | {"status_val": SCS_SOLVED}}
    numbers = {name: getattr(raw, name) for name in CLARABEL_NUMBERS}
    return SimpleNamespace(status="Solved", **numbers)


def refuse_numbers(data: dict[str, Any], solver: str) -> None:
    """Raise ``Silent`` where a conic program has numbers that no conic solver computes with."""
    for part in ("A", "b", "c", "P"):
        numbers = data.get(part)
        numbers = getattr(numbers, "data", numbers) if part in "AP" else numbers
        if numbers is not None and not np.all(np.abs(numbers) <= LARGEST_NUMBER):
            raise Silent(solver, f"given numbers beyond {LARGEST_NUMBER:g}")

"""The exact reading: the problem as a CVXPY program, solved by a conic solver."""

import time
import warnings
from typing import Any, Literal

import attrs
import cvxpy as cp
import numpy as np

from mcframe.backends.certificate import Judgement, Point, judge, relative_gap
from mcframe.backends.history import History, Record
from mcframe.backends.loop import Budget, Outcome
from mcframe.compile import compile_problem, refusal
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.validators import positive
from mcframe.model.problem import Problem
from mcframe.numerics.low_rank import LowRank

__all__ = ["Estimate", "Reference", "estimate", "to_cvxpy"]

# Beyond either of these a reference is refused unless forced.
MAX_SECONDS = 120.0
MAX_GIGABYTES = 4.0
# Up to this order of the cone Clarabel takes about a second at most.
OTHER_OPINION_ORDER = 48
# Asked of Clarabel, which stops short of it where arithmetic does.
CLARABEL_EPS = 1e-11


def to_cvxpy(problem: Problem) -> tuple[cp.Problem, dict[str, cp.Variable]]:
    """The problem as it is stated, term by term, and its variables by name.

    ``"Z"`` is the latent matrix (n_items x n_columns); ``"bias:NAME"`` the offsets of block
    NAME, one a column. The problem is not solved.
    """
    latent = cp.Variable(problem.shape, name="Z")
    variables = {"Z": latent}
    summands = []
    for block in problem.model.blocks:
        table = problem.tables[block.name]
        columns = table.columns + problem.columns(block.name).start
        z = latent[table.rows, columns]
        if block.bias:
            bias = cp.Variable(table.shape[1], name=f"bias:{block.name}")
            variables[f"bias:{block.name}"] = bias
            z = z + bias[table.columns]
        loss = cp.sum(block.likelihood.expression(cp, z, table.values))
        summands.append(problem.scale(block.name) * loss)
    summands += [term.expression(cp, latent) for term in problem.model.regularizers]
    constraints: list[Any] = []
    for constraint in problem.model.constraints:
        constraints += constraint.constraints(cp, latent)
    return cp.Problem(cp.Minimize(cp.sum(cp.hstack(summands))), constraints), variables


@attrs.frozen
class Estimate:
    """What a reference would take: the order of the semidefinite cone, seconds, gigabytes."""

    order: int
    seconds: float
    gigabytes: float

    def __str__(self) -> str:
        return (
            f"a semidefinite cone of order {self.order}, about {self.seconds:.2g} s"
            f" and {self.gigabytes:.2g} GB"
        )


def estimate(problem: Problem) -> Estimate:
    """Size and time before anything is compiled.

    The nuclear norm of an n x d matrix is a semidefinite cone of order n + d. One SCS
    iteration decomposes it, O((n + d)^3). Measured times on two cores with these tolerances
    follow 0.05 s + 1.3 s ((n + d) / 120)^3 within a factor of three, for MC-b of orders 16 to
    220; a problem that SCS finds hard takes up to its limit on iterations, ten times longer.
    Memory holds a few copies of the cone and the factor of the system.
    """
    order = sum(problem.shape)
    seconds = 0.05 + 1.3 * (order / 120) ** 3
    gigabytes = (60.0 * order**2 + 400.0 * problem.n_observed) * 8 / 1e9
    return Estimate(order, seconds, gigabytes)


@attrs.frozen
class Reference:
    """Solves a problem exactly through CVXPY: small, slow, the definition of the right answer.

    SCS with tight tolerances comes first: on these cones it is three orders of magnitude
    faster than an interior point method. Where its answer misses the tolerance and the cone
    is tiny, Clarabel gives the other opinion, and the better answer is kept. Either way it
    is made feasible, judged by ``Problem.objective`` and certified like any other.

    Parameters
    ----------
    solver : "auto", "SCS" or "CLARABEL", default "auto"
    eps : float, default 1e-9
        SCS's absolute and relative tolerance, for the losses at Z = 0 scaled to 1.
    max_iters : int, default 50,000
        SCS's limit on its iterations; a tenth of it where Clarabel stands by.
    force : bool, default False
        Solve however large the estimate of size and time.
    """

    solver: Literal["auto", "SCS", "CLARABEL"] = "auto"
    eps: float = attrs.field(default=1e-9, validator=positive)
    max_iters: float = attrs.field(default=50_000, validator=positive)
    force: bool = False

    name = "reference"

    def __attrs_post_init__(self) -> None:
        if self.solver not in ("auto", "SCS", "CLARABEL"):
            raise ModelError(
                f"Reference: solver={self.solver!r} was given;"
                " 'auto', 'SCS' or 'CLARABEL' is needed"
            )

    def refuses(self, problem: Problem) -> str | None:
        """Why it will not solve a problem; None if it will."""
        reason = refusal(problem)  # without a program there is no certificate
        if reason is not None:
            return reason
        size = estimate(problem)
        small = size.seconds <= MAX_SECONDS and size.gigabytes <= MAX_GIGABYTES
        if self.force or small:
            return None
        return (
            f"it would take {size}, more than {MAX_SECONDS:g} s or {MAX_GIGABYTES:g} GB;"
            " pass force=True to do it all the same"
        )

    def solve(self, problem: Problem, budget: Budget, progress: bool = False) -> Outcome:
        """The conic solver's answer, made feasible and certified."""
        began = time.perf_counter()
        first = "SCS" if self.solver == "auto" else self.solver
        two = self.solver == "auto" and sum(problem.shape) <= OTHER_OPINION_ORDER
        brief = attrs.evolve(self, max_iters=self.max_iters / 10) if two else self
        point, judgement = brief.opinion(problem, first, budget, progress)
        bound = judgement.bound
        if two and judgement.gap > budget.tol:
            other, second = self.opinion(problem, "CLARABEL", budget, progress)
            bound = max(bound, second.bound)
            if second.objective < judgement.objective:
                point, judgement = other, second
        gap = relative_gap(judgement.objective, bound)
        seconds = time.perf_counter() - began
        record = Record(1, seconds, judgement.objective, bound, gap, point.latent.rank())
        certified = gap <= budget.tol
        return Outcome(
            point=point,
            biases=judgement.biases,
            bound=bound,
            status="certified" if certified else "iteration_limit",
            message=(
                f"the gap is at most tol={budget.tol:g}"
                if certified
                else f"the conic solver stopped at its own tolerance, before tol={budget.tol:g}"
            ),
            history=History((record,)),
        )

    def opinion(
        self, problem: Problem, solver: str, budget: Budget, progress: bool
    ) -> tuple[Point, Judgement]:
        """One conic solver's answer, made feasible, and what it is worth."""
        latent, multiplier = self.conic(problem, solver, budget, progress)
        if problem.model.extra_columns:
            latent = latent.with_last_column(1.0)
        point = Point(latent, multiplier)
        return point, judge(compile_problem(problem), point)

    def conic(
        self, problem: Problem, solver: str, budget: Budget, progress: bool
    ) -> tuple[LowRank, Array | None]:
        """Z and the multiplier of a fixed column, as the conic solver found them."""
        stated, variables = to_cvxpy(problem)
        # Conic tolerances are partly absolute: with the loss at Z = 0 scaled to 1 they mean the
        # same for every unit and weight.
        scale = problem.loss_at_zero() or 1.0
        scaled = cp.Problem(cp.Minimize(stated.objective.expr / scale), stated.constraints)
        options: dict[str, Any] = {"verbose": progress}
        if solver == "SCS":
            options |= {"eps_abs": self.eps, "eps_rel": self.eps, "max_iters": int(self.max_iters)}
            if np.isfinite(budget.max_seconds):
                options["time_limit_secs"] = budget.max_seconds
        else:
            options |= dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), CLARABEL_EPS)
        with warnings.catch_warnings():
            # An inaccurate answer is judged by its certificate, which says more than a warning.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            try:
                scaled.solve(solver=solver, **options)
            except cp.SolverError as error:
                raise BackendError(f"{solver} failed or was interrupted: {error}") from error
        if variables["Z"].value is None:
            raise BackendError(f"{solver} returned no answer: status {scaled.status!r}")
        multiplier = None
        if stated.constraints:
            multiplier = scale * np.asarray(stated.constraints[0].dual_value)
        return LowRank.of(np.asarray(variables["Z"].value)), multiplier

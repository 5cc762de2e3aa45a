"""The exact reading: the problem as a CVXPY program, solved by a conic solver."""

import time
import warnings
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.backends.backend import Backend, Budget, Cost, Outcome, Settings
from mcframe.backends.certificate import Judgement, Point, at_zero, judge, relative_gap
from mcframe.backends.conic import cp
from mcframe.backends.feasible import made_feasible
from mcframe.backends.history import History, Record
from mcframe.backends.statement import Statement, refusal_to_state
from mcframe.compile import CompiledProblem, Dual, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.likelihood import Approximated
from mcframe.contracts.validators import positive
from mcframe.model import Problem
from mcframe.numerics.machine.threads import blas_alone
from mcframe.numerics.operators import LowRank

__all__ = ["Estimate", "Reference", "estimate"]

# Beyond either of these a reference is refused unless forced.
MAX_SECONDS = 120.0
MAX_GIGABYTES = 4.0
# Up to this order of the cone Clarabel takes about a second at most.
OTHER_OPINION_ORDER = 48
# Asked of Clarabel, which stops short of it where arithmetic does.
CLARABEL_EPS = 1e-11
# Bounds from below that are refined around the last answer: how far around it at first and at
# last, in units of the loss, how often, and the error, relative to the tolerance, that no longer
# matters: the gap goes with its root.
FIRST_SPREAD, LEAST_SPREAD, REFINEMENTS, NEGLIGIBLE = 0.5, 1e-6, 15, 1e-4
SCS_INTERRUPTED = -5
# What a conic solver's status says, if it is true.
MEANT = {
    "infeasible": "no Z meets all constraints at once: loosen one of them",
    "unbounded": "the objective falls without end: a larger weight, a ball or a box bounds it",
}


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


class Silent(Exception):
    """A conic solver without an answer."""

    def __init__(self, solver: str, status: str) -> None:
        super().__init__(solver, status)
        self.solver, self.status = solver, status


@attrs.frozen
class Reference(Backend):
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
    refuses_start = "a conic solver cannot begin from a point"
    exact = True

    def __attrs_post_init__(self) -> None:
        if self.solver not in ("auto", "SCS", "CLARABEL"):
            raise ModelError(
                f"Reference: solver={self.solver!r} was given;"
                " 'auto', 'SCS' or 'CLARABEL' is needed"
            )

    def refuses(self, compiled: CompiledProblem) -> str | None:
        """The reason why CVXPY cannot state the problem, or no program can certify it, or None."""
        return cp.absence() or refusal_to_state(compiled.problem) or compiled.refusal

    def cost(self, compiled: CompiledProblem) -> Cost:
        """The order of its cone, seconds and gigabytes."""
        size = estimate(compiled.problem)
        small = size.seconds <= MAX_SECONDS and size.gigabytes <= MAX_GIGABYTES
        if self.force or small:
            return Cost(str(size))
        return Cost(
            str(size),
            f"it would take {size}, more than {MAX_SECONDS:g} s or {MAX_GIGABYTES:g} GB;"
            " pass force=True to do it all the same",
        )

    def solve(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The conic solver's answer, made feasible and certified.

        ``max_iter`` and ``random_state`` mean nothing to it, ``max_seconds`` limits SCS, and the
        callback sees the one record that there is. Ctrl-C is passed on: there is no point before
        the end.
        """
        cp.load()  # before BLAS is held to one thread: SCS brings one of its own
        with blas_alone():
            outcome = self.solve_compiled(compiled, settings.budget, settings.progress)
        if settings.callback is not None:
            settings.callback(outcome.history[-1])
        return outcome

    def solve_compiled(self, compiled: CompiledProblem, budget: Budget, progress: bool) -> Outcome:
        """The better one of the opinions, whatever the threads."""
        began = time.perf_counter()
        opinions = self.opinions(compiled, budget, progress)
        point, best = min(opinions, key=lambda opinion: opinion[1].objective)
        bound = max((judgement for _, judgement in opinions), key=lambda each: each.bound)
        rounding = best.rounding.beside(bound.rounding)
        gap = relative_gap(best.objective, bound.bound, rounding)
        seconds = time.perf_counter() - began
        record = Record(1, seconds, best.objective, bound.bound, gap, point.latent.rank)
        certified = gap <= budget.tol
        return Outcome(
            point=point,
            effects=best.effects,
            bound=bound.bound,
            rounding=rounding,
            status="certified" if certified else "iteration_limit",
            message=(
                f"the gap is at most tol={budget.tol:g}"
                if certified
                else f"the conic solver stopped at its own tolerance, before tol={budget.tol:g}"
            ),
            history=History((record,)),
        )

    def opinions(
        self, compiled: CompiledProblem, budget: Budget, progress: bool
    ) -> list[tuple[Point, Judgement]]:
        """What conic solvers answer: a second one where the first misses the tolerance.

        A ``BackendError`` where none answers.
        """
        until = time.perf_counter() + budget.max_seconds
        two = self.solver == "auto" and sum(compiled.problem.shape) <= OTHER_OPINION_ORDER
        first = "SCS" if self.solver == "auto" else self.solver
        brief = attrs.evolve(self, max_iters=self.max_iters / 10) if two else self
        found: list[tuple[Point, Judgement]] = []
        silent: list[Silent] = []
        for solver, own in ((first, brief), ("CLARABEL", self))[: 1 + two]:
            rest = until - time.perf_counter()
            if rest <= 0.0:
                break
            within = attrs.evolve(budget, max_seconds=rest)
            try:
                point, judgement = own.opinion(compiled, solver, within, progress)
            except Silent as error:
                silent.append(error)
                continue
            found.append((point, judgement))
            gap = relative_gap(judgement.objective, judgement.bound, judgement.rounding)
            if gap <= budget.tol:
                break
        if not found:
            raise BackendError(said_of(silent))
        return found

    def opinion(
        self, compiled: CompiledProblem, solver: str, budget: Budget, progress: bool
    ) -> tuple[Point, Judgement]:
        """One conic solver's answer, made feasible, and what it is worth.

        Losses that have no cone are stated by bounds from below: first by global ones, then
        again by ones that are tight around the answer, each time more closely, until they are
        off by a negligible part of the tolerance.
        """
        problem, program = compiled.problem, compiled.program
        approximated = [
            block.name
            for block in problem.model.blocks
            if isinstance(problem.likelihoods[block.name], Approximated)
        ]
        near: dict[str, tuple[Array, float]] = {}
        for _ in range(REFINEMENTS):
            stated = Statement.of(problem, program=program, near=near, unit=unit_of(program))
            scale = self.conic(null_size(program), stated, solver, budget, progress)
            with np.errstate(over="ignore"):  # an answer that is not finite is judged as one
                size = abs(float(stated.problem().objective.value))
            error = 0.0
            for name in approximated:
                error += shortfall(problem, stated, name)
                near[name] = tangent_region(problem, stated, name, near.get(name))
            if error <= NEGLIGIBLE * budget.tol * size:
                break
        point = point_of(problem, program, stated, scale)
        found, zero = judge(program, point), at_zero(program)
        if zero is None or zero[1].objective > found.objective:
            return point, found
        # Conic solvers stop at a Z of 1e-20 where it is 0.
        point, better = zero
        rounding = better.rounding.beside(found.rounding)
        return point, attrs.evolve(better, bound=found.bound, rounding=rounding)

    def conic(
        self, scale: float, stated: Statement, solver: str, budget: Budget, progress: bool
    ) -> float:
        """Solve a statement with its objective divided by a scale, which is given back.

        Conic tolerances are partly absolute: with the loss at Z = 0 scaled to 1 they mean the
        same for every unit and weight.
        """
        options: dict[str, Any] = {}
        if solver == "SCS":
            options |= {"eps_abs": self.eps, "eps_rel": self.eps, "max_iters": int(self.max_iters)}
            if np.isfinite(budget.max_seconds):
                options["time_limit_secs"] = budget.max_seconds
        else:
            options |= dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), CLARABEL_EPS)
            if np.isfinite(budget.max_seconds):
                options["time_limit"] = budget.max_seconds
        scaled = stated.problem(scale)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # An inaccurate answer is judged by its certificate, which says more than a warning.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            try:
                data, chain, inverse = scaled.get_problem_data(solver, solver_opts=options)
                raw = chain.solve_via_data(scaled, data, verbose=progress, solver_opts=options)
                if was_interrupted(raw):
                    raise KeyboardInterrupt
                scaled.unpack_results(raw, chain, inverse)
            except cp.SolverError as error:
                raise Silent(solver, f"failed ({error})") from error
        if stated.variables["Z"].value is None:
            raise Silent(solver, scaled.status)
        return scale


def was_interrupted(raw: Any) -> bool:
    """Whether a raw answer is one of SCS that ended by Ctrl-C, which it keeps from Python.

    CVXPY tells it from no other failure. Clarabel leaves the signal to Python.
    """
    return isinstance(raw, dict) and raw["info"]["status_val"] == SCS_INTERRUPTED


def unit_of(program: Program) -> float:
    """The power of two next to the size of predictors: numbers in it are rounded no further."""
    return float(2.0 ** np.clip(np.round(np.log2(program.unit)), -300, 300))


def said_of(silent: list[Silent]) -> str:
    """What is known where no conic solver answers: only what all of them are sure of is a fact."""
    names = " and ".join(error.solver for error in silent) or "no conic solver"
    statuses = {error.status for error in silent}
    if len(silent) > 1 and len(statuses) == 1 and statuses <= set(MEANT):
        return f"{names} agree that {MEANT[statuses.pop()]}"
    said = ", ".join(f"{error.solver} says {error.status!r}" for error in silent)
    return (
        f"{names} returned no answer ({said or 'no time was left'}), which is no proof of"
        " anything: on columns of very different scales conic solvers err. Another backend may"
        " run, see mc.explain"
    )


def null_size(program: Program) -> float:
    """The losses at Z = 0, effects solved for: a size to compare with.

    Where a loss is infinite the size of the values stands in, where all losses are 0 the weights.
    """
    total = counted = 0.0
    for piece in program.loss.pieces:
        z = piece.offset_part(np.zeros(program.entries.size))
        effects = piece.solve(z, None) if piece.likelihood.smooth else None
        with np.errstate(over="ignore", invalid="ignore"):
            losses = np.abs(piece.at(effects).value(piece.predictor(z, effects), piece.y))
        losses = np.where(np.isfinite(losses), losses, np.abs(piece.y))
        total += float(np.sum(piece.scale * losses))
        counted += float(np.sum(piece.scale * np.ones(piece.y.size)))
        if effects is not None and piece.effects.ridge is not None:
            total += piece.effects.ridge.value(effects)
    return total or counted


def shortfall(problem: Problem, stated: Statement, name: str) -> float:
    """How far the stated losses of a block lie below the true ones at an answer."""
    table = problem.tables[name]
    z = np.asarray(stated.predictors[name].value)
    losses = problem.likelihoods[name].value(z, problem.targets(name))
    off = losses - np.asarray(stated.losses[name].value)
    weights = 1.0 if table.weights is None else table.weights
    return problem.scale(name) * float(np.sum(weights * np.maximum(off, 0.0)))


def tangent_region(
    problem: Problem, stated: Statement, name: str, near: tuple[Array, float] | None
) -> tuple[Array, float]:
    """Centre and spread of the next bound: the answer, and as far around as it moved."""
    z = np.asarray(stated.predictors[name].value)
    unit = 1.0 / float(np.sqrt(problem.likelihoods[name].curvature))
    if near is None:
        return z, FIRST_SPREAD * unit
    return z, max(float(np.max(np.abs(z - near[0]))), LEAST_SPREAD * unit)


def point_of(problem: Problem, program: Program, stated: Statement, scale: float) -> Point:
    """The conic answer made feasible, with the multipliers of its copies as a dual point."""
    dense = stated.latent()
    effects = effects_of(problem, program, stated, LowRank.of(dense))
    latent, given = made_feasible(program, program.penalty.factors_of(dense), effects)
    if program.plain or not stated.copies:
        return Point(latent)
    loss, evaluation = program.loss, program.evaluate_at(LowRank.of(dense), effects)
    slope = evaluation.entry_slopes.copy()
    for k, piece in enumerate(loss.pieces):
        if k in stated.copies:
            slope[piece.part] = scale * stated.multiplier_of(k)
    places = {id(term): k for k, term in enumerate(problem.terms)}
    offset = len(problem.model.blocks)
    terms = []
    for attached in program.terms:
        k = offset + places[id(attached.term)]
        terms.append(scale * stated.multiplier_of(k) if k in stated.copies else None)
    dual = Dual.of(program, evaluation, tuple(terms))
    return Point(latent, attrs.evolve(dual, slope=slope, given=given))


def effects_of(
    problem: Problem, program: Program, stated: Statement, latent: LowRank
) -> tuple[Array | None, ...]:
    """The best effects at Z where they can be solved for, else the conic solver's."""
    loss, z = program.loss, program.entries.of(latent)
    effects: list[Array | None] = []
    for block, piece in zip(problem.model.blocks, loss.pieces, strict=True):
        if piece.likelihood.smooth or not piece.effects.size:
            effects.append(piece.solve(piece.offset_part(z), None))
            continue
        effects.append(stated.free_numbers(block.name))
    return tuple(effects)

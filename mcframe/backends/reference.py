"""The exact reading: the problem as a CVXPY program, solved by a conic solver."""

import time
from typing import Literal

import attrs
import numpy as np

from mcframe.backends.backend import Backend, Cost, History, Outcome, Record, Settings
from mcframe.backends.certificate import (
    Certificate,
    Dual,
    Point,
    at_zero,
    best_of,
    certify,
    uncertified,
)
from mcframe.backends.conic import (
    MAX_CLARABEL_ORDER,
    UNBOUNDED_STATUSES,
    Silent,
    solve_conic,
)
from mcframe.backends.feasible import made_feasible
from mcframe.backends.loop import (
    UNBOUNDED_BELOW,
    certified_to,
    no_feasible_point,
    out_of_time,
)
from mcframe.backends.recession import falls_along
from mcframe.backends.statement import Statement, cp
from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.arrays import Array, sizes_of
from mcframe.contracts.endings import Ending, Status, StopReason
from mcframe.contracts.errors import BackendError, NothingFeasible
from mcframe.contracts.likelihood import Approximated
from mcframe.contracts.validators import one_of, positive
from mcframe.contracts.wording import wording
from mcframe.model import Problem
from mcframe.numerics.operators import LowRank
from mcframe.runtime.machine import blas_alone
from mcframe.runtime.progress import current

# Beyond either of these a reference is refused unless forced.
MAX_SECONDS = 120.0
MAX_GIGABYTES = 4.0
# The share of SCS's iterations after which its answer is first certified: that mostly succeeds
# long before SCS meets its own tolerance.
FIRST_RUN_SHARE = 0.1
# Iterations of SCS as a rule, of losses over one column and over several.
TYPICAL_ITERATIONS, TYPICAL_ITERATIONS_WIDE = 300, 3_000
# Bounds from below that are refined around the last answer: how far around it at first and at
# last, in units of the loss, how often, and the error, relative to the tolerance, that no longer
# matters: the gap goes with its root.
FIRST_SPREAD, MIN_SPREAD, MAX_REFINEMENTS, NEGLIGIBLE_ERROR = 0.5, 1e-6, 15, 1e-4
# Units of the objective in which it is solved once more, as powers of the objective that was found
# relative to the losses at Z = 0: these may be larger by any factor, and conic tolerances are
# partly absolute. Where units are too small conic solvers take directions for rays.
POWERS_OF_OBJECTIVE = (1.0, 0.5, 0.75, 0.9, 1.25)
# Instead of these where the objective does not fall along the direction that came with them.
FALSE_RAY_MESSAGE = "unbounded, though the objective does not fall along its direction"


@attrs.frozen
class Estimate:
    """Size of a reference: the order of the semidefinite cone, seconds, gigabytes.

    ``seconds`` are those of most problems, ``first`` those until the first answers: of
    the brief run and of Clarabel, or of all of SCS where the order is too large for that, and
    ``most`` those of all answers where none meets the tolerance.
    """

    order: int
    seconds: float
    first: float
    most: float
    gigabytes: float

    def __str__(self) -> str:
        return (
            f"a semidefinite cone of order {self.order} and {self.gigabytes:.2g} GB,"
            f" {cost_in_words(self.seconds)} as a rule, {cost_in_words(self.most)} at most"
        )


def estimated_cost(problem: Problem, max_iters: float) -> Estimate:
    """Size and time before anything is compiled.

    The nuclear norm of an n x d matrix is a semidefinite cone of order n + d, which each iteration
    of SCS decomposes; the losses add cones of their own. Most problems take some hundred
    iterations, losses over several columns some thousand, and those with diverging effects, as
    classes that a column does not have, all that there are. Memory holds a few copies of the cone
    and the factor of the system.
    """
    order = sum(problem.shape)
    numbers = 0
    for block in problem.model.blocks:
        table = problem.tables[block.name]
        entries = table.n_cells if table.has_implicit_cells else table.n_entries
        numbers += entries * block.likelihood.width
    an_iteration = 5e-5 + 2e-7 * order**2 + 1e-9 * order**3 + 1e-6 * numbers
    wide = any(block.likelihood.width > 1 for block in problem.model.blocks)
    iterations = TYPICAL_ITERATIONS_WIDE if wide else TYPICAL_ITERATIONS
    first_run, whole_run = FIRST_RUN_SHARE * max_iters * an_iteration, max_iters * an_iteration
    first, most = first_run, first_run + whole_run
    if order <= MAX_CLARABEL_ORDER:
        by_clarabel = 1e-9 * order**6
        first += by_clarabel
        most += (1 + len(POWERS_OF_OBJECTIVE)) * by_clarabel
    else:
        first = most
    gigabytes = (60.0 * order**2 + 400.0 * numbers) * 8 / 1e9
    return Estimate(order, 0.05 + iterations * an_iteration, first, most, gigabytes)


def cost_in_words(seconds: float) -> str:
    """An estimate of seconds, as roughly as it is known."""
    if seconds < 0.1:
        return "less than 0.1 s"
    for size, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"about {float(f'{seconds / size:.1g}'):,.0f} {unit}"
    return f"about {float(f'{seconds:.1g}'):g} s"


class Falling(Exception):
    """A conic solver found a direction along which the objective falls without end."""


@attrs.frozen
class Reference(Backend):
    """Solves a problem exactly through CVXPY: small, slow, the definition of the right answer.

    SCS with tight tolerances comes first: on these cones it is three orders of magnitude
    faster than an interior point method. Where its answer misses the tolerance and the cone
    is tiny, Clarabel gives the other opinion, and the better answer is kept. Either way it
    is made feasible, evaluated by ``Problem.objective`` and certified like any other.

    Parameters
    ----------
    solver : "auto", "SCS" or "CLARABEL", default "auto"
    eps : float, default 1e-9
        SCS's absolute and relative tolerance, for the losses at Z = 0 scaled to 1.
    max_iters : int, default 50,000
        SCS's limit on its iterations; a tenth of it if Clarabel can take over.
    force : bool, default False
        Solve however large the estimate of size and time.
    """

    solver: Literal["auto", "SCS", "CLARABEL"] = "auto"
    eps: float = attrs.field(default=1e-9, validator=positive)
    max_iters: float = attrs.field(default=50_000, validator=positive)
    force: bool = False

    name = "reference"
    start_refusal = "a conic solver cannot begin from a point"
    exact = True

    def __attrs_post_init__(self) -> None:
        one_of(self.solver, "Reference: solver", ("auto", "SCS", "CLARABEL"))

    def refusal(self, compiled: CompiledProblem) -> str | None:
        """The reason why CVXPY cannot state the problem, or no program can certify it, or None."""
        if cp.absence():
            return cp.absence()
        for block in compiled.problem.model.blocks:
            if not block.likelihood.convex:
                return (
                    f"block {block.name!r}: the loss is not convex, so that no program states it"
                )
        return compiled.refusal

    def cost(self, compiled: CompiledProblem) -> Cost:
        """The order of its cone, seconds and gigabytes."""
        size = estimated_cost(compiled.problem, self.max_iters)
        small = size.seconds <= MAX_SECONDS and size.gigabytes <= MAX_GIGABYTES
        if self.force or small:
            return Cost(str(size))
        return Cost(
            str(size),
            f"it would take {size}, where {MAX_SECONDS:g} s and {MAX_GIGABYTES:g} GB are allowed;"
            f" {wording().word('Reference', force=True)} does it all the same",
        )

    def solve(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The conic solver's answer, made feasible and certified; an error if that is not finite.

        ``max_iter`` and ``random_state`` mean nothing to it, ``max_seconds`` limits the conic
        solvers, what was spent before counted in, and the callback sees the one record that there
        is. Ctrl-C is passed on: there is no point before the end.
        """
        outcome = self.answer(compiled, settings)
        if not np.isfinite(outcome.history[-1].objective):
            raise NothingFeasible(no_feasible_point(compiled.program))
        return outcome

    def answer(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The answer; where the objective falls without end its point may not be feasible."""
        began = settings.clock()
        cp.load()  # before BLAS is held to one thread: SCS brings one of its own
        budget = settings.budget
        until = began + budget.max_seconds
        # Overflow shows in objectives and bounds that are not finite.
        with blas_alone(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                point, best = best_of(self.opinions(compiled, budget.tol, until))
                falls = best.bound == -np.inf and falls_along(
                    compiled.program, point.latent, best.effects
                )
            except Falling:
                (point, best), falls = feasible_point(compiled.program), True
        seconds = time.perf_counter() - began
        record = Record(1, seconds, best.objective, best.bound, best.gap, point.latent.rank)
        if best.gap <= budget.tol:
            ending = certified_to(budget.tol)
        elif falls:
            ending = UNBOUNDED_BELOW
        elif time.perf_counter() >= until:
            ending = out_of_time(budget.max_seconds)
        else:
            ending = Ending(
                Status.ITERATION_LIMIT,
                f"the conic solver stopped at its own tolerance, before tol={budget.tol:g}",
                StopReason.OWN_RULE,
            )
        if settings.callback is not None:
            settings.callback(record)
        return Outcome(
            point=attrs.evolve(point, latent=compiled.program.latent(point.latent)),
            effects=best.effects,
            bound=best.bound,
            rounding=best.rounding,
            status=ending.status,
            message=ending.message,
            reason=ending.reason,
            history=History((record,)),
            tol=budget.tol,
        )

    def opinions(
        self, compiled: CompiledProblem, tol: float, until: float
    ) -> list[tuple[Point, Certificate]]:
        """Answers of conic solvers: of another one where those so far miss the tolerance.

        The last ones in units of the objective that was found. A ``BackendError`` where none
        answers.
        """
        brief = attrs.evolve(self, max_iters=max(1.0, FIRST_RUN_SHARE * self.max_iters))
        small = sum(compiled.problem.shape) <= MAX_CLARABEL_ORDER
        asked = [(self.solver, self)]
        if self.solver == "auto":
            asked = [("SCS", brief), ("SCS", self)]
            if small:
                asked.insert(1, ("CLARABEL", self))
        answers: list[tuple[Point, Certificate]] = []
        cut = False  # whether iterations of any ran out
        silent: list[Silent] = []
        for solver, options in asked:
            done = solver == "SCS" and answers and not cut
            if done or time.perf_counter() >= until:
                break
            current().begin(f"{solver} computes")
            try:
                point, certificate, ran_out = options.opinion(compiled, solver, tol, until)
            except Silent as error:
                silent.append(error)
                continue
            except (ArithmeticError, np.linalg.LinAlgError) as error:
                silent.append(Silent(solver, f"an answer that breaks arithmetic ({error})"))
                continue
            answers.append((point, certificate))
            cut |= ran_out
            if certificate.gap <= tol:
                break
        if not answers:
            late = time.perf_counter() >= until
            raise BackendError(no_answer_message(compiled.program, silent, late))
        null = null_size(compiled.program)
        for power in POWERS_OF_OBJECTIVE if small and self.solver != "SCS" else ():
            best = best_of(answers)[1]
            if best.gap <= tol or time.perf_counter() >= until:
                break
            with np.errstate(over="ignore", under="ignore"):
                unit = float(null * (np.abs(best.objective) / null) ** power)
            if not 0.0 < unit < np.inf:
                break
            try:
                answers.append(self.opinion(compiled, "CLARABEL", tol, until, unit)[:2])
            except (Silent, ArithmeticError, np.linalg.LinAlgError):
                continue
            except Falling:  # in units that are too small, directions are taken for rays
                if best.bound == -np.inf:
                    raise
        return answers

    def opinion(
        self,
        compiled: CompiledProblem,
        solver: str,
        tol: float,
        until: float,
        scale: float | None = None,
    ) -> tuple[Point, Certificate, bool]:
        """One conic solver's answer, made feasible, its certificate, and if iterations ran out.

        The objective is divided by a scale, by default that of ``null_size``. With another one
        all losses with a conjugate are stated of copies: where the optimum is far below the losses
        at Z = 0, their gradients at its Z have few digits, their multipliers have all.

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
        solved, cut, all_copied = None, False, scale is not None
        scale = null_size(program) if scale is None else scale
        for _ in range(MAX_REFINEMENTS):
            stated = Statement.of(
                problem,
                program=program,
                near=near,
                unit=unit_of(program),
                all_copied=all_copied,
            )
            try:
                cut = self.conic(scale, stated, solver, until)
            except Silent as silent:
                if silent.status in UNBOUNDED_STATUSES:
                    if falls_along(program, *ray_of(program, stated)):
                        raise Falling from silent
                    silent = Silent(solver, FALSE_RAY_MESSAGE)
                if solved is None:
                    raise silent from None
                break
            solved = stated
            size = abs(float(stated.problem().objective.value))
            error = 0.0
            for name in approximated:
                error += shortfall(problem, stated, name)
                near[name] = tangent_region(problem, stated, name, near.get(name))
            if error <= NEGLIGIBLE_ERROR * tol * size:
                break
        assert solved is not None
        point = point_of(problem, program, solved, scale)
        certificate, zero = certify(program, point), at_zero(program)
        # Conic solvers stop at a Z of 1e-20 where it is 0.
        if zero is not None and zero[1].objective <= certificate.objective:
            point, certificate = best_of([zero, (point, certificate)])
        if not np.isfinite(
            certificate.objective
        ):  # it does not meet all constraints, or overflows
            point, certificate = best_of([feasible_point(program), (point, certificate)])
        if not np.isfinite(certificate.objective):
            raise Silent(solver, "an answer at which the objective is infinite")
        return point, certificate, cut

    def conic(self, scale: float, stated: Statement, solver: str, until: float) -> bool:
        """Solve a statement with its objective divided by a scale; whether iterations ran out.

        Conic tolerances are partly absolute: with the loss at Z = 0 scaled to 1 they mean the
        same for every unit and weight.
        """
        scaled = stated.problem(scale)
        solve_conic(scaled, solver, self.eps, int(self.max_iters), until)
        if stated.variables["Z"].value is None:
            raise Silent(solver, scaled.status)
        return bool(scaled.solver_stats.num_iters >= int(self.max_iters))


def ray_of(program: Program, stated: Statement) -> tuple[LowRank, dict[str, Array]]:
    """The W and the effects of a ray, which stands in the place of an answer."""
    pairs = zip(program.names, program.loss.block_losses, strict=True)
    effects = {
        name: stated.free_numbers(name) for name, block_loss in pairs if block_loss.effects.size
    }
    return program.variable(LowRank.of(stated.latent())), effects


def feasible_point(program: Program) -> tuple[Point, Certificate]:
    """A point of all constraints near 0, without a bound."""
    zero, kinds = (
        LowRank.zeros(program.shape),
        [block_loss.effects for block_loss in program.loss.block_losses],
    )
    begun = tuple(np.zeros(kind.size) if kind.size else None for kind in kinds)
    effects = program.evaluate(zero, fixed=begun).effects
    latent, feasible_effects = made_feasible(program, zero, effects)
    evaluation = program.evaluate(latent, effects, feasible_effects)
    point = Point(latent, Dual.of(program, evaluation, (None,) * len(program.terms)))
    return point, uncertified(program, point)


def unit_of(program: Program) -> float:
    """The power of two next to the size of predictors: numbers in it are rounded no further."""
    return float(2.0 ** np.clip(np.round(np.log2(program.unit)), -300, 300))


def no_answer_message(program: Program, silent: list[Silent], late: bool) -> str:
    """The sentence where no conic solver answers.

    That nothing is feasible is said where all of them agree on it and no point was found either.
    """
    verb = wording().either(python="mc.explain", command="mcframe explain")
    asked = list(dict.fromkeys(error.solver for error in silent))
    names, statuses = " and ".join(asked), {error.status for error in silent}
    if late:
        return (
            "max_seconds were spent before a conic solver had an answer; allow more, or take"
            f" another backend, see {verb}"
        )
    agreed = len(asked) > 1 and statuses == {"infeasible"}
    if agreed and not np.isfinite(feasible_point(program)[1].objective):
        return f"{names} agree that no Z meets all constraints at once: loosen one of them"
    replies = ", ".join(f"{error.solver} says {error.status!r}" for error in silent)
    return (
        f"{names} returned no answer ({replies}), which is no proof of"
        " anything: on columns of very different scales conic solvers err. Another backend may"
        f" run, see {verb}"
    )


def null_size(program: Program) -> float:
    """The losses at Z = 0, effects solved for: a size to compare with.

    Where a loss is infinite the size of the values stands in, where all losses are 0 the weights.
    """
    total = counted = 0.0
    for block_loss in program.loss.block_losses:
        z = block_loss.offset_part(np.zeros(program.entries.size))
        effects = block_loss.solve(z, None) if block_loss.likelihood.smooth else None
        losses = np.abs(
            block_loss.at(effects).value(block_loss.predictor(z, effects), block_loss.y)
        )
        losses = np.where(np.isfinite(losses), losses, sizes_of(block_loss.y))
        total += float(np.sum(block_loss.scale * losses))
        counted += float(np.sum(block_loss.scale * np.ones(block_loss.y.size)))
        if effects is not None and block_loss.effects.ridge is not None:
            total += block_loss.effects.ridge.value(effects)
    return total or counted


def shortfall(problem: Problem, stated: Statement, name: str) -> float:
    """Sum by which the stated losses of a block lie below the true ones at an answer."""
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
    return z, max(float(np.max(np.abs(z - near[0]))), MIN_SPREAD * unit)


def point_of(problem: Problem, program: Program, stated: Statement, scale: float) -> Point:
    """The conic answer made feasible, with the multipliers of its copies as a dual point."""
    dense, scales = stated.latent(), program.entries.scales
    dense = dense if scales is None else scales.inverse.block(slice(None)) * dense
    effects = effects_of(problem, program, stated, LowRank.of(dense))
    latent, feasible_effects = made_feasible(program, program.penalty.factors_of(dense), effects)
    if not stated.copies:
        return Point(latent)
    loss, evaluation = program.loss, program.evaluate_at(LowRank.of(dense), effects)
    gradient = evaluation.entry_gradients.copy()
    for k, block_loss in enumerate(loss.block_losses):
        if k in stated.copies:
            gradient[block_loss.part] = scale * np.ravel(stated.multiplier_of(k))
    places = {id(term): k for k, term in enumerate(problem.terms)}
    offset = len(problem.model.blocks)
    terms = []
    for attached in program.terms:
        k = offset + places[id(attached.term)]
        terms.append(scale * stated.multiplier_of(k) if k in stated.copies else None)
    dual = Dual.of(program, evaluation, tuple(terms))
    return Point(latent, attrs.evolve(dual, gradient=gradient, effects=feasible_effects))


def effects_of(
    problem: Problem, program: Program, stated: Statement, latent: LowRank
) -> tuple[Array | None, ...]:
    """The best effects at Z where they can be solved for, else the conic solver's."""
    stated_effects = tuple(
        stated.free_numbers(block.name) if block_loss.effects.size else None
        for block, block_loss in zip(problem.model.blocks, program.loss.block_losses, strict=True)
    )
    return program.evaluate(latent, fixed=stated_effects).effects

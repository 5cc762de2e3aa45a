"""Fixed-point continuation, Algorithm 1 of Goldberg et al. (2010)."""

from typing import Any, Literal

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array, svd
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import TINY
from mcframe.contracts.solver import Solver
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import one_of, positive
from mcframe.numerics.operators import Dense, LowRank
from mcframe.numerics.shrinkage import Shrinker, Shrunk

Biases = tuple[Array | None, ...]

# Goldberg et al. use 3.8 where convergence is proven below 4.
PUBLISHED_STEP_FRACTION = 0.95


@stored(recomputed=("iterate", "previous_iterate", "evaluation"))
@attrs.define(eq=False)
class FPCState:
    """Z and b, the point before them, and the stage of the continuation."""

    iterate: Array  # Z
    previous_iterate: Array
    biases: Biases
    evaluation: Evaluation
    factors: Shrunk
    previous_factors: Shrunk
    penalty: float  # at the weight of the stage
    shrinker: Shrinker
    steps: tuple[float, float]  # tau_Z, tau_b
    stages: list[float]  # what remains of mu_1 / mu > mu_2 / mu > ... > 1
    step_length: float = np.inf
    momentum: float = 1.0  # t_k of Nesterov's momentum; 1 is none
    last_objective: float = np.inf  # within the stage
    residual: float = np.inf
    finished: str | None = None

    @property
    def rank(self) -> int:
        """Rank of the iterate."""
        return int(self.factors.values.size)

    @property
    def objective(self) -> float:
        """The objective of the stage, with the biases as they are."""
        return self.evaluation.value + self.penalty

    def increase_accuracy(self) -> None:
        """Ask for more exact shrinkages from here on."""
        self.shrinker.increase_accuracy()

    def retarget(self, program: Program) -> None:
        """The loss has changed a little: evaluate it and its step sizes anew."""
        self.evaluation = program.evaluate_at(self.iterate, self.biases)
        self.steps = published_steps(program)
        self.momentum = 1.0


@stored
@attrs.frozen
class FPC(Solver[Program, FPCState]):
    """Solves min F(Z, b) + mu ||Z||_* by gradient steps in Z and b and shrinkage of Z.

    Algorithm 1 of Goldberg, Zhu, Recht, Xu and Nowak, Transduction with Matrix Completion
    (NIPS 2010), with their step sizes ``tau_Z = min(3.8 |Omega_Y| / lambda, |Omega_X|)``
    and ``tau_b = 3.8 |Omega_Y| / (lambda n)``, their start (b = 0, Z the best rank-1
    approximation of the observed entries, labels as -1 and 1) and their continuation
    ``mu_1 = eta sigma_1, mu_{k+1} = max(eta mu_k, mu)``. A ridge joins the shrinkage.

    With ``stopping="published"`` this is their algorithm to the letter. A certificate asks
    for more than their rule does, and where weights differ by orders of magnitude plain
    gradient steps do not get there in any reasonable number: the biases are then solved for,
    and the last stage adds Nesterov's momentum, restarted where it points uphill.

    Cost of an iteration: one or two passes over the observed entries and one decomposition
    of the smaller side; memory: five dense n_items x n_columns matrices. The steps are fixed
    by the largest curvature of all blocks, where ``proximal`` measures its own.

    Parameters
    ----------
    eta : float, default 0.25
        The decay of the continuation, below 1.
    stopping : "certificate" or "published", default "certificate"
        How the last stage ends: by its certificate, or as published, when the objective
        changes by less than ``change`` relatively. Earlier stages end by the published rule.
    change : float, default 1e-5
        The relative change of the objective below which a stage is done.
    """

    eta: float = attrs.field(default=0.25, validator=positive)
    stopping: Literal["certificate", "published"] = "certificate"
    change: float = attrs.field(default=1e-5, validator=positive)

    name = "fpc"

    def __attrs_post_init__(self) -> None:
        if self.eta >= 1.0:
            raise ModelError(f"FPC: eta={self.eta!r} was given; it must be below 1")
        one_of(self.stopping, "FPC: stopping", ("certificate", "published"))

    def refusal(self, program: Program) -> str | None:
        """A fixed column needs the multipliers around this solver; its steps need a bound."""
        if not np.isfinite(program.curvature):
            return "its fixed steps need losses of bounded curvature"
        layouts = [block_loss.layout for block_loss in program.loss.block_losses]
        if any(layout.size > layout.n_biases for layout in layouts):
            return "it knows biases of columns, no other free effects"
        if any(block_loss.width > 1 for block_loss in program.loss.block_losses):
            return "it knows losses of single entries, not of classes"
        n_columns = max(columns.stop for columns in program.columns)
        beside_losses = any(term.columns.start < n_columns for term in program.terms)
        if beside_losses or program.penalty.no_shrinkage is not None:
            return "it is for losses of entries and one function of singular values"
        main = program.spectral.main
        if main is not None and not np.isfinite(main.dual_radius):
            return "its continuation needs a penalty, not a ball"
        return nonsmooth_refusal(program)

    def init(self, program: Program, start: Point | None, rng: np.random.Generator) -> FPCState:
        """The published start and all stages; a given start goes straight to the last one."""
        loss = program.loss
        main = program.spectral.main
        begin, sigma = published_start(program) if start is None else (start.latent, 0.0)
        iterate = begin.dense()
        biases = tuple(
            np.zeros(p.layout.n_biases) if p.layout.n_biases else None for p in loss.block_losses
        )
        return FPCState(
            iterate=iterate,
            previous_iterate=iterate,
            biases=biases,
            evaluation=program.evaluate_at(iterate, biases),
            factors=Shrunk(begin.left, np.ones(begin.width), begin.right),
            previous_factors=Shrunk(begin.left, np.ones(begin.width), begin.right),
            penalty=program.spectral.of_singular_values(begin.singular_values()),
            shrinker=Shrinker.near(begin, rng),
            steps=published_steps(program),
            stages=[1.0] if main is None else continuation(sigma, main.threshold, self.eta),
        )

    def pause(self, program: Program, state: FPCState) -> FPCState:
        """The two iterates in factors alone, the biases and the stages that are left."""
        gone: Any = None
        return attrs.evolve(
            state,
            iterate=gone,
            previous_iterate=gone,
            evaluation=gone,
            stages=list(state.stages),
            shrinker=state.shrinker.copy(),
        )

    def resume(self, program: Program, paused: FPCState, rng: np.random.Generator) -> FPCState:
        """The paused state, its iterates written out again."""
        now, before = (
            LowRank(factors.left * factors.values, factors.right).dense()
            for factors in (paused.factors, paused.previous_factors)
        )
        evaluate = program.evaluate if self.solves_biases else program.evaluate_at
        return attrs.evolve(
            paused,
            iterate=now,
            previous_iterate=before,
            evaluation=evaluate(now, paused.biases),
            stages=list(paused.stages),
            shrinker=paused.shrinker.copy(rng),
        )

    @property
    def solves_biases(self) -> bool:
        """True where biases are solved for, in place of published gradient steps."""
        return self.stopping == "certificate"

    def step(self, program: Program, state: FPCState) -> None:
        """Gradient step in b and Z, shrinkage of Z, and the next stage where this one is done."""
        self.move(program, state)
        self.advance(state)

    def move(self, program: Program, state: FPCState) -> None:
        """Gradient step in b and Z, shrinkage of Z."""
        step = state.steps[0]
        momentum, ahead, evaluation = 1.0, state.iterate, state.evaluation
        solved = self.solves_biases
        evaluate = program.evaluate if solved else program.evaluate_at
        last_stage = len(state.stages) == 1
        if solved and last_stage:
            momentum = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * state.momentum**2)))
            theta = (state.momentum - 1.0) / momentum
            ahead = state.iterate + theta * (state.iterate - state.previous_iterate)
            evaluation = evaluate(ahead, state.biases)
        if solved:
            state.biases = evaluation.effects
        else:
            state.biases = gradient_step(program, state.biases, evaluation, state.steps[1])
        target = ahead - step * evaluation.gradient.dense()
        objective_before, state.previous_factors = state.objective, state.factors
        state.factors, state.penalty = self.shrink(program, state, target)
        iterate = (state.factors.left * state.factors.values) @ state.factors.right.T
        away = iterate - ahead
        uphill = float(np.vdot(away, iterate - state.iterate)) < 0.0
        state.previous_iterate, state.iterate = state.iterate, iterate
        state.evaluation = evaluate(iterate, state.biases)
        state.momentum = 1.0 if uphill or state.objective > objective_before else momentum
        # Before the last stage the iterate heads for another optimum.
        state.step_length = float(np.linalg.norm(away))
        state.residual = state.step_length / step if last_stage else np.inf

    def shrink(self, program: Program, state: FPCState, target: Array) -> tuple[Shrunk, float]:
        """The shrinkage at the weight of the stage, and the penalty there."""
        step = state.steps[0]
        penalty = attrs.evolve(program.spectral, strength=state.stages[0])
        factors = state.shrinker(
            Dense(target),
            lambda s: penalty.shrink(s, step),
            penalty.threshold(step),
            state.step_length,
        )
        return factors, penalty.of_singular_values(factors.values)

    def advance(self, state: FPCState) -> None:
        """End a stage by the paper's rule: its objective changes by less than 1e-5."""
        last, now = state.last_objective, state.objective
        state.last_objective = now
        if abs(last - now) > self.change * max(abs(now), TINY):
            return
        if len(state.stages) > 1:
            state.stages.pop(0)
            state.last_objective = np.inf  # no change is measured across stages
        elif self.stopping == "published":
            state.finished = f"the objective changed by less than {self.change:g} relatively"

    def candidate(self, program: Program, state: FPCState) -> Point:
        """The iterate in factors."""
        factors = state.factors
        return Point(LowRank(factors.left * factors.values, factors.right))


def gradient_step(
    program: Program, biases: Biases, evaluation: Evaluation, bias_step: float
) -> Biases:
    """b - tau_b g(b), Eq. 4 of the paper."""
    moved: list[Array | None] = []
    for block_loss, bias in zip(program.loss.block_losses, biases, strict=True):
        if bias is None:
            moved.append(None)
            continue
        gradient = evaluation.entry_gradients[block_loss.part]
        total = block_loss.effects.sum_by_effect(gradient)
        if block_loss.effects.ridge is not None:
            total = total + block_loss.effects.ridge.gradient(bias)
        moved.append(bias - bias_step * total)
    return tuple(moved)


def published_steps(program: Program) -> tuple[float, float]:
    """tau_Z and tau_b: 0.95 / L for label losses, 1 / L for squared ones and a fixed column.

    For MC-b, L is lambda / (4 |Omega_Y|) for the labels and 1 / |Omega_X| for the features.
    """
    limits, bias_limits = [1.0 / term.curvature for term in program.terms if term.smooth], []
    # Of a weighted norm the steps are in W; the scales of cells without a loss do not count.
    stretches = program.entries.times_scales(np.ones(program.entries.size), 2)
    for block_loss in program.loss.block_losses:
        fraction = 1.0 if block_loss.likelihood.quadratic else PUBLISHED_STEP_FRACTION
        stretch = float(np.max(stretches[block_loss.part], initial=0.0)) or 1.0
        if program.background:
            stretch = program.entries.largest_scale**2
        limits.append(fraction / (block_loss.curvature * stretch))
        if block_loss.layout.n_biases:
            ridge = block_loss.effects.ridge
            stiffness = 0.0 if ridge is None else ridge.weight
            bias_limits.append(
                PUBLISHED_STEP_FRACTION / (block_loss.curvature * program.shape[0] + stiffness)
            )
    return min(limits), min(bias_limits, default=0.0)


def published_start(program: Program) -> tuple[LowRank, float]:
    """The best rank-1 approximation of the zero-filled observed entries, and sigma_1."""
    filled = np.zeros(program.shape)
    start = program.entries.times_scales(program.loss.start(), -1)
    filled.ravel()[program.entries.flat] = start
    left, values, right = svd(filled)
    return LowRank(left[:, :1] * values[:1], right[:1].T), float(values[0])


def continuation(sigma: float, weight: float, eta: float) -> list[float]:
    """mu_1 / mu, ..., 1: from eta sigma_1 downwards by the factor eta."""
    stages = []
    stage = eta * sigma / weight
    while stage > 1.0:
        stages.append(stage)
        stage *= eta
    return [*stages, 1.0]

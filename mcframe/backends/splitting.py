"""The method of multipliers around a solver, for nonsmooth parts besides the main regularizer."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import Backend, Cost, Outcome, Settings
from mcframe.backends.certificate import Dual, Point
from mcframe.backends.feasible import made_feasible
from mcframe.backends.loop import run
from mcframe.backends.proximal import Proximal
from mcframe.compile import CompiledProblem, Evaluation, Program
from mcframe.compile.loss import BlockLoss
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Proximable
from mcframe.contracts.solver import RetargetedState, Solver, ToMultipliers
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Norm
from mcframe.numerics.operators import LowRank
from mcframe.runtime.machine import MEMORY_SHARE, physical_gigabytes

# The multipliers are updated when the inner residual is this fraction of their update. It is
# halved at each doubling of a stiffness after the first ones, down to the least: slow convergence
# is then due to inexact inner problems.
INNER_RATIO, MIN_INNER_RATIO, FIRST_DOUBLINGS = 0.3, 0.01, 2
# An update of a multiplier is slow if it leaves at least this share of the violation before it. A
# stiffness doubles once slow updates outnumber others by so many.
SLOW_VIOLATION_RATIO, MAX_SLOW_UPDATES = 0.7, 3
# The fewest iterations between two doublings, also as a share of all so far: the inner problems
# become harder with the stiffness.
MIN_STEPS_TO_DOUBLE, MIN_STEPS_SHARE = 20, 0.25
# A smooth loss counts as stiff if its curvature is so many times the stiffness of a balanced copy:
# proximal gradients take more iterations from there on.
STIFF_CURVATURE_RATIO = 500.0
# The first stiffness of a loss with kinks is at most so many times that of a balanced copy.
MAX_BALANCED_RATIO = 10.0
# The first stiffness relative to the curvature of the smooth part, and the largest one relative to
# the first.
INITIAL_STIFFNESS_RATIO, MAX_STIFFNESS_GROWTH = 0.3, 1e6
# What a first-order solver holds at its peak, certificate included, in numbers of 8 bytes: per
# entry of Z, and per observed entry.
NUMBERS_PER_CELL = 7.5
NUMBERS_PER_ENTRY = 10.0
# The same for one that holds no dense matrix, per observed entry.
SPARSE_NUMBERS_PER_ENTRY = 20.0
# The state of an inner solver.
InnerState = RetargetedState[Program, Evaluation]
BACKGROUND_REFUSAL = (
    "the unlabeled cells are too many to be written out, and it works on entries alone"
)


@stored
@attrs.define(eq=False)
class Nonsmooth:
    """One nonsmooth part: its multiplier, its stiffness, and its last violation."""

    multiplier: Array
    stiffness: float
    first_stiffness: float
    violation: float = np.inf
    slow_updates: int = 0  # by how many slow updates outnumber others since the last check
    last_check: int = 0  # the iteration at which the stiffness was last considered

    def update(self, dual: Array, step: int) -> bool:
        """The multiplier becomes the dual that the inner solver found; the stiffness follows.

        True where it grew.
        """
        before = self.stiffness
        violation = float(np.linalg.norm(dual - self.multiplier)) / self.stiffness
        is_slow = violation > SLOW_VIOLATION_RATIO * self.violation
        self.multiplier, self.violation = dual, violation
        self.slow_updates = max(0, self.slow_updates + (1 if is_slow else -1))
        if step - self.last_check >= max(MIN_STEPS_TO_DOUBLE, MIN_STEPS_SHARE * step):
            if self.slow_updates >= MAX_SLOW_UPDATES:
                self.stiffness = min(
                    2.0 * self.stiffness, MAX_STIFFNESS_GROWTH * self.first_stiffness
                )
            self.slow_updates, self.last_check = 0, step
        return self.stiffness > before


@stored(recomputed=("program",))
@attrs.define(eq=False)
class SplittingState:
    """The inner solver's state, and the nonsmooth ones of all blocks and terms, else None."""

    inner: InnerState
    program: Program  # the augmented one, all smooth but the main regularizer
    parts: list[Nonsmooth | None]
    n_steps: int = 0
    n_doublings: int = 0  # steps at which some stiffness doubled

    @property
    def rank(self) -> int:
        """Rank of the inner iterate."""
        return int(self.inner.rank)

    @property
    def residual(self) -> float:
        """The residual of the inner problem."""
        return float(self.inner.residual)

    @property
    def objective(self) -> float:
        """The objective of the inner problem."""
        return float(self.inner.objective)

    @property
    def finished(self) -> str | None:
        """The inner solver's own rule."""
        return self.inner.finished

    def increase_accuracy(self) -> None:
        """Ask the inner solver for more exact steps."""
        self.inner.increase_accuracy()

    def duals(self) -> list[tuple[Nonsmooth, Array]]:
        """Each nonsmooth part with the dual that the inner iterate gives it."""
        evaluation = self.inner.evaluation
        duals: list[Array | None] = [
            evaluation.entry_gradients[block_loss.part]
            for block_loss in self.program.loss.block_losses
        ]
        duals += evaluation.duals
        pairs = zip(self.parts, duals, strict=True)
        return [
            (part, dual.copy()) for part, dual in pairs if part is not None and dual is not None
        ]

    def copy(self) -> "SplittingState":
        """The state with nonsmooth parts of its own, which later moves do not change."""
        parts = [None if part is None else attrs.evolve(part) for part in self.parts]
        return attrs.evolve(self, parts=parts)


@stored
@attrs.frozen
class Splitting(Solver[Program, SplittingState]):
    """Solves min F(Z) + R(Z) + nonsmooth parts by a solver for min F(Z) + R(Z).

    Nonsmooth parts are losses without a gradient, and regularizers and constraints other than the
    main regularizer R, a fixed column among them. Each gets a copy X of what it acts on, tied to
    Z by a multiplier Y and a stiffness beta. Minimised over X, the augmented Lagrangian holds its
    Moreau envelope ``min over X of f(X) + beta/2 ||K Z - c + Y/beta - X||^2``, which is
    smooth, so each inner problem is a plain one. The multiplier becomes the envelope's gradient
    whenever the inner residual is small relative to the violation (Hestenes; Powell, 1969;
    Rockafellar, 1976), and beta doubles where the violation keeps falling slowly.

    That gradient is a subgradient of f at X: a point in the domain of f's conjugate by
    construction, which the certificate adds to the gradient of F. The candidate is the iterate
    itself, moved into the hard constraints where there are any.

    A squared loss that is far stiffer than R gets a copy, too, as where a small weight asks for
    nearly exact completion: the steps are then as long as R allows, and not as the loss does.

    Cost: that of the inner solver, and one prox of each nonsmooth part for each evaluation; 1.3
    to 2.9 times the iterations that MC-b takes for the fixed column along paths of the tables
    emotions and yeast of Goldberg et al. (2010), certified to 1e-5.
    """

    inner: Solver[Program, Any] = attrs.field(factory=Proximal)
    name: str = "splitting"

    leaves = ToMultipliers.NOTHING

    @property
    def in_factors(self) -> bool:  # type: ignore[override]
        """True where the inner solver works on factors."""
        return self.inner.in_factors

    def refusal(self, program: Program) -> str | None:
        """The inner solver's reason against the program made smooth, or None."""
        smooth = [
            not to_multipliers(block_loss, program) for block_loss in program.loss.block_losses
        ]
        smooth += [term.smooth for term in program.terms]
        nothing = [None if is_smooth else Nonsmooth(np.zeros(1), 1.0, 1.0) for is_smooth in smooth]
        return self.inner.refusal(made_smooth(program, nothing))

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> SplittingState:
        """Multipliers of the start, or 0; stiffnesses below the curvature keep steps long."""
        begin, dual = LowRank.zeros(program.shape), None
        if start is not None:
            begin, dual = start.latent, start.dual
        # Not those of another program, whose entries or terms differ.
        if dual is not None and (
            dual.gradient.size != program.entries.size or len(dual.terms) != len(program.terms)
        ):
            dual = None
        reference = smooth_curvature(program, begin)
        parts: list[Nonsmooth | None] = []
        for block_loss in program.loss.block_losses:
            if not to_multipliers(block_loss, program):
                parts.append(None)
                continue
            multiplier = (
                np.zeros(block_loss.n_numbers) if dual is None else dual.gradient[block_loss.part]
            )
            first = max(
                balanced_stiffness(block_loss, program), INITIAL_STIFFNESS_RATIO * reference
            )
            parts.append(Nonsmooth(multiplier.copy(), first, first))
        for k, term in enumerate(program.terms):
            if term.smooth:
                parts.append(None)
                continue
            term_dual = None if dual is None else dual.terms[k]
            multiplier = np.zeros_like(term.forward(begin.columns(term.columns).dense()))
            if term_dual is not None and term_dual.shape == multiplier.shape:
                multiplier = term_dual.copy()
            parts.append(
                Nonsmooth(
                    multiplier,
                    INITIAL_STIFFNESS_RATIO * reference,
                    INITIAL_STIFFNESS_RATIO * reference,
                )
            )
        augmented = made_smooth(program, parts)
        return SplittingState(self.inner.init(augmented, start, rng), augmented, parts)

    def pause(self, program: Program, state: SplittingState) -> SplittingState:
        """The inner solver's, and multipliers with their stiffness."""
        omitted: Any = None
        inner = self.inner.pause(state.program, state.inner)
        return attrs.evolve(state.copy(), inner=inner, program=omitted)

    def resume(
        self, program: Program, paused: SplittingState, rng: np.random.Generator
    ) -> SplittingState:
        """The program made smooth as it was, and the inner solver within it."""
        state = paused.copy()
        state.program = made_smooth(program, state.parts)
        state.inner = self.inner.resume(state.program, paused.inner, rng)
        return state

    def step(self, program: Program, state: SplittingState) -> None:
        """One inner step, and an update of the multipliers when it is due."""
        self.inner.step(state.program, state.inner)
        state.n_steps += 1
        duals = state.duals()
        changes = [float(np.linalg.norm(dual - nonsmooth.multiplier)) for nonsmooth, dual in duals]
        length = float(np.linalg.norm(changes))
        # The largest ratio of the inner residual to the length at which multipliers are updated.
        largest_ratio = max(
            MIN_INNER_RATIO, INNER_RATIO * 0.5 ** max(0, state.n_doublings - FIRST_DOUBLINGS)
        )
        if length == 0.0 or state.inner.residual > largest_ratio * length:
            return
        has_grown = [nonsmooth.update(dual, state.n_steps) for nonsmooth, dual in duals]
        state.n_doublings += any(has_grown)
        state.program = made_smooth(program, state.parts)
        state.inner.retarget(state.program)

    def candidate(self, program: Program, state: SplittingState) -> Point:
        """The inner iterate made feasible, and the dual point that its gradients show."""
        inner = self.inner.candidate(state.program, state.inner)
        if not any(state.parts):
            return Point(inner.latent, warm=inner.warm)
        # The inner evaluation is one for steps, its effects nearly solved for.
        evaluation = state.program.evaluate(inner.latent, inner.warm)
        latent, effects = made_feasible(program, inner.latent, evaluation.effects)
        dual = Dual.of(program, evaluation, evaluation.duals)
        return Point(latent, attrs.evolve(dual, effects=effects))


def with_multipliers(solver: Solver[Program, Any], program: Program) -> Solver[Program, Any]:
    """The solver, within the method of multipliers if the program has parts that it leaves to it.

    It has the solver's name either way.
    """
    match solver.leaves:
        case ToMultipliers.NOTHING:
            needed = False
        case ToMultipliers.FIXED_COLUMN:
            nonsmooth = [term for term in program.terms if not term.smooth]
            fixed = bool(nonsmooth) and all(term.fixed is not None for term in nonsmooth)
            needed = fixed and program.loss.smooth
        case ToMultipliers.ALL_NONSMOOTH:
            needed = not program.plain
    return Splitting(solver, name=solver.name) if needed else solver


@attrs.frozen
class FirstOrder(Backend):
    """Steps a solver on the program of a problem, until its certificate says that it is done.

    ``backend=`` makes one of any ``Solver``. The method of multipliers handles the parts that the
    solver leaves to it (``Solver.leaves``); the loop has budget, certificates, history, callbacks.
    """

    solver: Solver[Program, Any]

    @property
    def name(self) -> str:
        """The name of the solver."""
        return self.solver.name

    def refusal(self, compiled: CompiledProblem) -> str | None:
        """The reason against the program, alone and with multipliers, or None."""
        if compiled.refusal is not None:
            return compiled.refusal
        program = compiled.program
        if program.background and not self.solver.reads_background:
            return BACKGROUND_REFUSAL
        return with_multipliers(self.solver, program).refusal(program)

    def cost(self, compiled: CompiledProblem) -> Cost:
        """Memory in words, and the reason if that is too large a share of the machine's."""
        held, gigabytes = self.memory(compiled)
        text = f"{held}, about {gigabytes:.2g} GB"
        memory = physical_gigabytes()
        if gigabytes <= MEMORY_SHARE * memory:
            return Cost(text)
        return Cost(text, f"{text}, more than {MEMORY_SHARE:.0%} of the machine's {memory:.3g} GB")

    def memory(self, compiled: CompiledProblem) -> tuple[str, float]:
        """Memory in words and in gigabytes."""
        problem = compiled.problem
        program = compiled.program if compiled.refusal is None else None
        n_rows, n_columns = problem.shape
        n_entries = sum(table.n_entries for table in problem.tables.values())
        if self.solver.dense if program is None else self.solver.holds_dense(program):
            numbers = NUMBERS_PER_CELL * n_rows * n_columns + NUMBERS_PER_ENTRY * n_entries
            return f"dense matrices of {n_rows} x {n_columns}", 8 * numbers / 1e9
        size = 8 * SPARSE_NUMBERS_PER_ENTRY * n_entries
        held = f"{n_entries} observed entries and thin factors"
        if program is not None:
            size += program.background.held_bytes
            if program.background.n_read:
                read = program.background.n_read
                held += f", {read} cells read by blocks of rows at each step"
        return held, size / 1e9

    def solve(self, compiled: CompiledProblem, settings: Settings) -> Outcome:
        """The loop around the solver."""
        return run(self.solver_for(compiled), compiled.program, settings)

    def solver_for(self, compiled: CompiledProblem) -> Solver[Program, Any]:
        """The solver, or within multipliers where the program has parts that it leaves to them."""
        return with_multipliers(self.solver, compiled.program)


def made_smooth(program: Program, parts: list[Nonsmooth | None]) -> Program:
    """The augmented program at the multipliers as they are."""
    return program.with_smooth_parts(
        [None if part is None else part.multiplier for part in parts],
        [1.0 if part is None else part.stiffness for part in parts],
    )


def smooth_curvature(program: Program, begin: LowRank) -> float:
    """The largest curvature of smooth losses and terms at the start; without any, a stiffness."""
    loss, z = program.loss, program.entries.of(begin)
    curvatures = [term.curvature for term in program.terms if term.smooth]
    for block_loss in loss.block_losses:
        if not to_multipliers(block_loss, program):
            part = block_loss.offset_part(z)
            curvatures.append(block_loss.curvature_at(part, block_loss.solve(part, None)))
    highest = max(curvatures, default=0.0)
    if highest > 0.0:
        return highest
    stiffness = max(first_stiffness(block_loss, program) for block_loss in loss.block_losses)
    # Sets alone have no unit but that of Z.
    return (
        stiffness
        or 1.0
        / max(predictor_spread(block_loss, program) for block_loss in loss.block_losses) ** 2
    )


def to_multipliers(block_loss: BlockLoss, program: Program) -> bool:
    """True if a loss gets a copy of its predictors: without a gradient, or far too stiff."""
    return not block_loss.likelihood.smooth or is_stiff(block_loss, program)


def is_stiff(block_loss: BlockLoss, program: Program) -> bool:
    """True if a loss with a prox is so much stiffer than R that gradient steps are far too short.

    They are made for the curvature of the loss, and unobserved entries have that of R. As of
    values whose noise is said to be next to nothing beside them.
    """
    if (
        block_loss.effects.tied and not block_loss.likelihood.quadratic
    ):  # whose envelopes take Newton long
        return False
    if not (isinstance(block_loss.likelihood, Proximable) and largest_gradient(program) > 0.0):
        return False
    curvature = block_loss.curvature
    return bool(
        np.isfinite(curvature)
        and curvature > STIFF_CURVATURE_RATIO * balanced_stiffness(block_loss, program)
    )


def loss_stiffness(block_loss: BlockLoss, program: Program) -> float:
    """The gradients of a nonsmooth loss relative to the spread of its predictors.

    A loss that has no gradient of its own, as an equality, has the gradients of the main
    regularizer against it: of its weight, spread over the entries of a singular vector, and of its
    ridge. 0 where it is a ball.
    """
    spread, size = predictor_spread(block_loss, program), 0.0
    # At 0, or where all data are 0, which is at the kinks of their losses, as far as they spread.
    for far in (0.0, spread):
        z = block_loss.by_entries(np.full(block_loss.n_numbers, far))
        gradients = block_loss.scale * block_loss.likelihood.value_and_gradient(z, block_loss.y)[1]
        size = size or root_mean_square(gradients)
    if size == 0.0:
        weight = program.main.weight if isinstance(program.main, Norm) else 0.0
        size = weight / np.sqrt(max(program.shape)) + program.penalty.ridge * spread
    return float(size / spread)


def first_stiffness(block_loss: BlockLoss, program: Program) -> float:
    """The stiffness that a loss asks for where nothing else is smooth.

    Gradients of kinks are those of the loss at most observed entries, except where the weight of
    R is too small to stand against them.
    """
    balanced = balanced_stiffness(block_loss, program)
    if is_stiff(block_loss, program):
        return balanced
    return min(loss_stiffness(block_loss, program), MAX_BALANCED_RATIO * balanced)


def balanced_stiffness(block_loss: BlockLoss, program: Program) -> float:
    """Gradients of a nonsmooth loss that the main regularizer stands against, relative to spread.

    However heavy a loss is, at the optimum all gradients together are a matrix of limited length,
    but for what a ridge adds.
    """
    length = largest_gradient(program)
    if not length:
        return loss_stiffness(block_loss, program)
    most = length / float(np.sqrt(max(block_loss.y.size, min(program.shape))))
    balanced = most / predictor_spread(block_loss, program) + program.penalty.ridge
    return min(loss_stiffness(block_loss, program), balanced)


def largest_gradient(program: Program) -> float:
    """The Frobenius norm that gradients have at an optimum, at most; 0 where R does not limit it.

    Their dual norm is at most the weight w of R. Of a nuclear norm it is the largest singular
    value, so that the length is at most ``w sqrt(min(shape))``; of the max norm it is at least the
    length over sqrt(2), by Khinchine's inequality for the signs of a row.
    """
    weight = program.penalty.threshold(1.0)
    if weight:
        return float(weight * np.sqrt(min(program.shape)))
    return float(np.sqrt(2.0)) * program.main.weight if isinstance(program.main, Norm) else 0.0


def predictor_spread(block_loss: BlockLoss, program: Program) -> float:
    """The root mean square of the predictors that a nonsmooth loss asks for; for 0 that of all."""
    return root_mean_square(block_loss.likelihood.start(block_loss.y)) or program.unit


def root_mean_square(numbers: Array) -> float:
    """The root of the mean of the squares, none of which overflows or vanishes."""
    largest = float(np.max(np.abs(numbers), initial=0.0))
    if not 0.0 < largest < np.inf:
        return largest
    return largest * float(np.sqrt(np.mean(np.square(numbers / largest))))


@attrs.frozen
class Forced(FirstOrder):
    """Runs a solver such as ``mc.Proximal()`` however much memory it is estimated to take.

    Parameters
    ----------
    solver : Solver

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> mc.fit(model, {"x": np.eye(3)}, backend=mc.backends.Forced(mc.Proximal())).status
    'certified'
    """

    def cost(self, compiled: CompiledProblem) -> Cost:
        """Memory in words, and nothing against it."""
        return Cost(super().cost(compiled).text)

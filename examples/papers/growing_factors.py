"""All of section 5.4 of Hayashi et al. (2018): projected gradient in factors whose widths grow."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Budget, Point, Settings, Start, run
from mcframe.compile import compile_problem
from mcframe.compile.penalty import split_rows
from mcframe.constraints import Box, MaxNormBall
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError
from mcframe.contracts.validators import positive
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Bernoulli
from mcframe.likelihoods.links import mills
from mcframe.model import Model, Problem
from mcframe.numerics.operators import LowRank
from mcframe.papers.hayashi import ProjectedFactors, gradient_step, project, with_random_columns
from mcframe.risks import RiskMixture

__all__ = ["GrowingFactors", "RiskGradients", "growing_factors"]

# The step that is taken where none is given, in units of 1 / (curvature * alpha * longer side).
STEP = 3.0


def growing_factors(
    model: Model,
    data: Mapping[str, Any],
    scheme: "GrowingFactors | None" = None,
    *,
    random_state: int = 0,
) -> Fit:
    """All of section 5.4: ``projected_factors`` with k growing until U V' changes no more.

    **It does not solve the problem**: see ``ProjectedFactors``.

    Parameters
    ----------
    model : Model
        As ``tri`` gives it, with the max norm.
    data : dict with "labels" (0, 1, NaN for unlabeled)
    scheme : GrowingFactors, optional
        The widths, the step, and when a width is done.

    Returns
    -------
    Fit
        Of the last factors, with a certificate where the risk is convex, computed once.
    """
    scheme = scheme or GrowingFactors()
    problem = Problem.bind(model, data)
    latent = scheme.last_latent(problem, np.random.default_rng(random_state))
    solver = ProjectedFactors(latent.width, 1.0)
    settings = Settings(Budget(max_iter=0), start=Start(Point(latent)))
    outcome = run(solver, compile_problem(problem), settings)
    return Fit.of(problem, outcome, "growing_factors")


@attrs.frozen
class GrowingFactors:
    """k from a small number upwards, each width from the factors of the one before.

    The paper leaves all of this open but the idea.

    Attributes
    ----------
    step : float, optional
        Their tau; by default ``3 / (L alpha max(d1, d2))``, L the curvature of the likelihood:
        about the largest that does not make the risk jump, as ||V||_2^2 is of the order of
        alpha max(d1, d2).
    first, growth : int and float
        The first width, and by how much the next one is larger.
    largest : int, optional
        The last width; by default their max(d1, d2).
    max_iter : int
        Steps at each width, at most.
    still : float
        A width is done when a step moves Z by less than this, relative to its size.
    change : float
        All is done when a width has moved Z by less than this.
    single : bool
        Compute in single precision, in a third of the time: enough for statistics. What is
        returned is projected once more in double precision.
    """

    step: float | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    first: int = 5
    growth: float = 2.0
    largest: int | None = None
    max_iter: int = 200
    still: float = 1e-3
    change: float = 0.1
    single: bool = False

    def last_latent(self, problem: Problem, rng: np.random.Generator) -> LowRank:
        """Z of the last width, without a certificate.

        Cost of a step: as of ``ProjectedFactors``, the risk itself not computed.
        """
        precision: Any = np.float32 if self.single else np.float64
        gradients, ball, bound = words_of_tri(problem, precision)
        n_rows, step = problem.shape[0], self.step
        if step is None:
            size = min(ball.radius, bound)
            step = STEP / (float(gradients.likelihood.curvature) * size * max(problem.shape))
        stacked: Array = np.zeros((sum(problem.shape), 0))
        latent: Array = np.zeros(problem.shape)
        for width in self.widths(max(problem.shape)):
            before = latent
            begin = with_random_columns(stacked, width, rng).astype(precision)
            stacked, latent = project(begin, n_rows, ball, bound)
            for _ in range(self.max_iter):
                last = latent
                stacked = gradient_step(stacked, gradients.at(latent), step)
                stacked, latent = project(stacked, n_rows, ball, bound)
                if nearer(latent, last, self.still):
                    break
            if nearer(latent, before, self.change):
                break
        stacked, _ = project(stacked.astype(np.float64), n_rows, ball, bound)
        return split_rows(stacked, n_rows)

    def widths(self, longest: int) -> Iterator[int]:
        """The widths in turn."""
        last = min(longest, self.largest or longest)
        width = min(self.first, last)
        while width < last:
            yield width
            width = min(last, max(width + 1, round(self.growth * width)))
        yield last


def nearer(latent: Array, other: Array, share: float) -> bool:
    """Return True where two matrices differ by less than a share of the first one's norm."""
    difference = float(np.linalg.norm(latent - other))
    return difference < share * float(np.linalg.norm(latent))


def words_of_tri(problem: Problem, precision: Any) -> tuple["RiskGradients", MaxNormBall, float]:
    """The gradients, the ball and the box of a problem as ``tri`` states it."""
    block = problem.model.blocks[0]
    balls = [term for term in problem.terms if isinstance(term, MaxNormBall)]
    boxes = [term for term in problem.terms if isinstance(term, Box)]
    table = problem.tables[block.name]
    alone = len(balls) == 1 and len(balls) + len(boxes) == len(problem.terms)
    alone &= len(problem.model.blocks) == 1 and not (block.bias or block.row_effects)
    if not alone or table.offset is not None or table.weights is not None:
        raise BackendError("section 5.4 is for one risk in K_max alone; see mcframe.papers.tri")
    bound = min((box.upper for box in boxes), default=np.inf)
    return RiskGradients.of(problem, block.name, precision), balls[0], bound


@attrs.frozen(eq=False)
class RiskGradients:
    """The gradient of a risk at a dense Z: ``one l'(z, 1) + zero l'(z, 0)`` at each entry.

    ``both`` is one + zero; ``flat`` says where the entries stand, None where they are all
    there are.
    """

    likelihood: Any
    one: Array
    zero: Array
    both: Array
    flat: IntArray | None

    @classmethod
    def of(cls, problem: Problem, name: str, precision: Any = np.float64) -> "RiskGradients":
        """Return the gradients of a block: of a mixture's states, or of PN's labels alone."""
        risk, table = problem.likelihood(name, {}), problem.tables[name]
        if not isinstance(risk, RiskMixture):
            risk = RiskMixture(pn=1.0, likelihood=risk)
        loss, scale = risk.entries(table.values), problem.scale(name)
        one = scale * (loss.base * loss.weight + loss.tilt)
        zero = scale * ((1.0 - loss.base) * loss.weight - loss.tilt)
        whole = table.n_entries == table.n_cells
        shape: Any = table.shape if whole else -1
        one, zero, both = (
            share.astype(precision).reshape(shape) for share in (one, zero, one + zero)
        )
        flat = None if whole else table.rows * table.shape[1] + table.columns
        return cls(risk.likelihood, one, zero, both, flat)

    def at(self, latent: Array) -> Array:
        """The gradient, dense."""
        if self.flat is None:
            return self.of_entries(latent)
        whole = np.zeros_like(latent)
        whole.ravel()[self.flat] = self.of_entries(np.take(latent, self.flat))
        return whole

    def of_entries(self, z: Array) -> Array:
        """Gradients at the entries: for the two links without the losses, which take longer."""
        likelihood = self.likelihood
        if not isinstance(likelihood, Bernoulli):
            rises = [likelihood.value_and_gradient(z, np.full_like(z, y))[1] for y in (1.0, 0.0)]
            return self.one * rises[0] + self.zero * rises[1]
        if likelihood.link == "probit":
            margin = z / likelihood.scale
            gradient = self.zero * mills(-margin) - self.one * mills(margin)
            return gradient / likelihood.scale
        # both / (1 + exp(-z / scale)) - one, in place: numpy's exp takes half of expit's time.
        work = z * (-1.0 / likelihood.scale)
        with np.errstate(over="ignore"):  # 1 / inf is the 0 that is meant
            np.exp(work, out=work)
        work += 1.0
        np.divide(self.both, work, out=work)
        work -= self.one
        work *= 1.0 / likelihood.scale
        return work

"""Rigorous lower bounds on the optimal value of a program."""

import attrs
import numpy as np
from scipy.optimize import minimize_scalar

from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Candidate
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.spectral_norm import norm_upper_bound, singular_value_bounds

__all__ = ["Judgement", "Point", "judge", "relative_gap"]

EPS = float(np.finfo(np.float64).eps)
# How far above the norm of a large gradient its bound is tried first.
NORM_SLACK = 1e-10


@attrs.frozen(eq=False)
class Point:
    """A candidate: Z in factors, feasible, and the multiplier of a fixed column, if any."""

    latent: LowRank
    multiplier: Array | None = None


@attrs.frozen(eq=False)
class Judgement:
    """What a candidate is worth: objective, lower bound, and the biases that go with them."""

    objective: float
    bound: float
    biases: dict[str, Array]

    @property
    def gap(self) -> float:
        """(objective - bound) / max(|objective|, |bound|)."""
        return relative_gap(self.objective, self.bound)


def relative_gap(objective: float, bound: float) -> float:
    """(objective - bound) / max(|objective|, |bound|); 0 where both are 0."""
    difference = objective - bound
    if not np.isfinite(difference):
        return np.inf
    if difference <= 0.0:
        return 0.0
    return float(difference / max(abs(objective), abs(bound)))


def judge(program: Program, candidate: Candidate, best: float = np.inf) -> Judgement:
    """The objective at a candidate, and a lower bound on the optimum from the gradient there.

    Weak duality (Fenchel): for every S whose column sums vanish where a bias is free,
    optimum >= -F*(S) - R*(-S), a fixed column contributing -sum of its multiplier. S is the
    gradient at the candidate, scaled by c <= 1 so that R*(-c S) is finite.

    Parameters
    ----------
    best : float
        The lowest objective known, which bounds the level set where a conjugate is missing.
    """
    latent: LowRank = candidate.latent
    loss = program.loss
    evaluation = loss.evaluate(latent.at(loss.rows, loss.columns))
    objective = evaluation.value + program.penalty.of_singular_values(latent.singular_values())
    if not np.all(np.isfinite(evaluation.slope)):  # a loss overflowed: nothing is known here
        return Judgement(np.inf, -np.inf, program.biases(evaluation.biases))
    slope = loss.centred(evaluation.slope)
    bounds = dual_norms(program, slope, candidate.multiplier)
    if loss.has_conjugate():
        bound = fenchel_bound(program, slope, candidate.multiplier, bounds)
    else:
        lowest = min(best, objective)
        bound = level_set_bound(program, evaluation, candidate, bounds, lowest)
    return Judgement(objective, float(bound), program.biases(evaluation.biases))


def dual_norms(program: Program, slope: Array, multiplier: Array | None) -> Array:
    """Upper bounds on the singular values of S: all of them, or the largest if that suffices."""
    matrix = np.zeros(program.shape)
    matrix.ravel()[program.loss.rows * program.shape[1] + program.loss.columns] = slope
    if multiplier is not None:
        matrix[:, -1] = multiplier
    if np.isfinite(program.penalty.dual_radius):
        return np.array([norm_upper_bound(matrix, NORM_SLACK)])
    return singular_value_bounds(matrix)


def fenchel_bound(program: Program, slope: Array, multiplier: Array | None, norms: Array) -> float:
    """-F*(cS) - R*(-cS) at the best feasible c, lowered by what rounding may have added."""

    def at(scale: float) -> float:
        conjugate, size = program.loss.conjugate(scale * slope)
        pinned = 0.0 if multiplier is None else scale * float(np.sum(multiplier))
        spread = 0.0 if multiplier is None else scale * float(np.sum(np.abs(multiplier)))
        dual = program.penalty.conjugate(scale * norms)
        value = -conjugate - pinned - dual
        rounding = EPS * (8 + np.log2(slope.size + 1)) * (size + spread + abs(dual))
        return value - rounding

    radius = program.penalty.dual_radius
    if np.isfinite(radius):
        largest = float(norms[0])
        return at(1.0 if largest <= radius else radius / largest)
    # With a ridge every scale is feasible, and the bound is concave in it; 1 is exact at the
    # optimum.
    search = minimize_scalar(lambda c: -at(c), bounds=(0.0, 1.0), method="bounded")
    return max(at(1.0), at(float(search.x)))


def level_set_bound(
    program: Program,
    evaluation: Evaluation,
    candidate: Candidate,
    norms: Array,
    best: float,
) -> float:
    """F(Z0) + <S, Z - Z0> + R(Z), minimised over a set that is sure to hold an optimum.

    Convexity alone, for losses without a conjugate. With a ridge the minimum is -R*(-S). Else
    m ||Z||_* <= best - inf F at an optimum, so that
    <S, Z> + m ||Z||_* >= -(||S||_2 - m)_+ (best - inf F) / m.
    """
    latent: LowRank = candidate.latent
    z = latent.at(program.loss.rows, program.loss.columns)
    products = evaluation.slope * z
    value = evaluation.value - float(np.sum(products))
    size = abs(evaluation.value) + float(np.sum(np.abs(products)))
    if candidate.multiplier is not None:
        value -= float(np.sum(candidate.multiplier))
        size += float(np.sum(np.abs(candidate.multiplier)))
    radius = program.penalty.dual_radius
    if np.isfinite(radius):
        excess = max(0.0, float(norms[0]) - radius)
        missing = excess * (best - program.loss.infimum) / radius
    else:
        missing = program.penalty.conjugate(norms)
    rounding = EPS * (8 + np.log2(z.size + 1)) * (size + missing)
    return value - missing - rounding

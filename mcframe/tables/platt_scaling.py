"""Logits of scores, fitted to observed values: Platt scaling, of two or more values."""

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BISECTIONS, MOST_STEPS
from mcframe.contracts.rounding import RESULT_ROUNDING, SUM_ROUNDING
from mcframe.runtime.machine import limits_blas

# The mean of the prior of slopes, taken if nothing was held out; in nine mixed tables slopes were
# 1 to 9.
PRIOR_SLOPE = 4.0
# The largest slope: entries that are classified without an error have no finite best one.
LARGEST_SLOPE = 150.0
# The least slope is that at which logits differ by so little, as a standard deviation. It moves
# probabilities by next to nothing. With 0 all entries would be equally probable, in no order.
LEAST_DEVIATION = 0.05
# The standard deviation of the Gaussian priors of the slope, relative to ``PRIOR_SLOPE``, and of
# each offset.
PRIOR_DEVIATION = 1.0


@limits_blas  # threads wait for one another at numbers as few as these
def most_likely(
    scores: Array,
    codes: IntArray,
    offset_factors: Array | float = 1.0,
    log_shares: Array | float = 0.0,
    usual_slope: float = PRIOR_SLOPE,
    weights: Array | float = 1.0,
) -> tuple[float, tuple[float, ...]]:
    """Return the slope and the offsets with the largest posterior density, given codes (n,).

    With slope a and offsets o the logits are ``log_shares + a scores + offset_factors o``
    (n x K). Gaussian priors hold the slope near ``usual_slope`` and offsets near 0 where there are
    few entries. The slope is at least that at which the logits differ a little among entries, or
    ``usual_slope``. Newton's method is used, since the loss is strictly convex and has few
    unknowns: the ratio of the slope to ``usual_slope``, and the offsets. ``weights`` (n,) say how
    often each entry counts.
    """
    n, n_values = scores.shape
    largest_ratio, chosen = LARGEST_SLOPE / usual_slope, (np.arange(n), codes)
    scores, offset_factors = usual_slope * scores, np.broadcast_to(offset_factors, n)
    weights = np.broadcast_to(weights, n)
    deviation = float(np.mean(np.std(scores, axis=0)))
    least_ratio = min(LEAST_DEVIATION / deviation, 1.0) if deviation > 0.0 else 0.0
    counts = np.bincount(codes, weights * offset_factors, n_values)
    prior_mean = np.concatenate([[1.0], np.zeros(n_values)])

    def loss(unknowns: Array) -> tuple[float, Array]:
        """-log of the posterior density, and the probabilities of all values."""
        logits = log_shares + unknowns[0] * scores + offset_factors[:, None] * unknowns[1:]
        logits -= np.max(logits, axis=1, keepdims=True)
        p = np.exp(logits)
        sums = np.sum(p, axis=1)
        value = weights @ (np.log(sums) - logits[chosen])
        penalty = 0.5 * np.sum(np.square(unknowns - prior_mean)) / PRIOR_DEVIATION**2
        return float(value + penalty), p / sums[:, None]

    def newton_step(unknowns: Array, p: Array) -> tuple[Array, float]:
        """The step, at most to the bounds of the slope, and twice the decrease it promises."""
        expected = np.sum(p * scores, axis=1)
        centred, changes = scores - expected[:, None], offset_factors[:, None] * p
        weighted = weights[:, None] * changes
        gradient = (unknowns - prior_mean) / PRIOR_DEVIATION**2
        gradient[0] += weights @ (expected - scores[chosen])
        gradient[1:] += np.sum(weighted, axis=0) - counts
        hessian = np.eye(n_values + 1) / PRIOR_DEVIATION**2
        hessian[0, 0] += weights @ np.sum(p * np.square(centred), axis=1)
        hessian[0, 1:] = hessian[1:, 0] = np.sum(weighted * centred, axis=0)
        hessian[1:, 1:] += np.diag(offset_factors @ weighted) - weighted.T @ changes
        step = -np.linalg.solve(hessian, gradient)
        ratio = min(max(unknowns[0] + step[0], least_ratio), largest_ratio)
        if abs(ratio - unknowns[0]) <= RESULT_ROUNDING:  # the slope stays at its bound
            step[0], step[1:] = 0.0, -np.linalg.solve(hessian[1:, 1:], gradient[1:])
            return step, -float(gradient @ step)
        return step * ((ratio - unknowns[0]) / step[0]), -float(gradient @ step)

    unknowns, (value, p) = prior_mean, loss(prior_mean)
    for _ in range(MOST_STEPS):
        step, decrease = newton_step(unknowns, p)
        if not decrease > SUM_ROUNDING * (1.0 + abs(value)):
            break
        for halvings in range(BISECTIONS):
            candidate = unknowns + 0.5**halvings * step
            candidate_value, candidate_p = loss(candidate)
            if candidate_value < value:
                break
        else:  # no more than rounding is left
            break
        unknowns, value, p = candidate, candidate_value, candidate_p
    return float(usual_slope * unknowns[0]), tuple(map(float, unknowns[1:]))

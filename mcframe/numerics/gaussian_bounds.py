"""Gaussians in a predictor below a likelihood, and the Gaussian that fits an exponential best."""

import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["logistic_bound", "tangent_bound"]

# Sizes of a predictor from here to there have a finite ratio, and a precision above 0.
NEAREST, FARTHEST = 1e-200, 1e300


def logistic_bound(
    mean: Array, variance: Array, successes: Array, failures: Array
) -> tuple[Array, Array, Array]:
    """(value, precision, constant) of a parabola below successes log s(t) + failures log s(-t).

    With s(t) = 1 / (1 + exp(-t)), ``log s(t) = t/2 - log(2 cosh(t/2))``, and the last term is
    convex in t^2, so that its tangent at xi^2 lies below it: ``log(2 cosh(t/2)) <= log(2
    cosh(xi/2)) + tanh(xi/2) (t^2 - xi^2) / (4 xi)`` for every xi. The best one for t ~ N(mean,
    variance) has ``xi^2 = mean^2 + variance`` (Jaakkola and Jordan, Statistics and Computing
    2000, equations 7 and 12). Both numbers of observations are at least 0, their sum is above 0.
    """
    n = successes + failures
    xi = np.clip(np.hypot(mean, np.sqrt(variance)), NEAREST, FARTHEST)
    decay = np.exp(-xi)
    ratio = xi * (1.0 + decay) / -np.expm1(-xi)  # xi / tanh(xi / 2)
    lacking = 2.0 * decay / (1.0 + decay)  # 1 - tanh(xi / 2)
    # The parabola's maximum, ordered so that no two large numbers cancel.
    constant = n * (0.25 * ratio * np.square(lacking) - np.log1p(decay))
    constant = constant - successes * (failures / n) * ratio
    return (successes - failures) / n * ratio, n / (2.0 * ratio), constant


def tangent_bound(
    value: Array, gradient: Array, mean: Array, curvature: float
) -> tuple[Array, Array, Array]:
    """(value, precision, constant) of the parabola that touches minus a loss at the mean.

    ``-l(mean) - gradient (z - mean) - curvature (z - mean)^2 / 2`` lies below -l everywhere if no
    second derivative of l, or eigenvalue of its Hessian, is above the curvature (Boehning and
    Lindsay, Ann. Inst. Statist. Math. 1988): what a smooth loss has that has nothing better. Of a
    group of K columns mean and gradient have shape (N, K).
    """
    squares = np.square(gradient)
    lost = squares if squares.ndim == value.ndim else squares.sum(axis=-1)
    constant = -value + lost / (2.0 * curvature)
    return mean - gradient / curvature, np.full_like(mean, curvature), constant

"""Log likelihoods of observations whose predictors have Gaussian noise, and their expectations."""

from functools import cache

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import ExpectedLogLikelihood
from mcframe.runtime.machine import compiled

# Nodes of Gauss and Hermite, of the predictor and of its noise given the predictor.
PREDICTOR_NODES, NOISE_NODES = 5, 7
# Newton steps to the mode of the noise.
MODE_STEPS = 4
# The largest exponent whose exponential a square may follow.
LARGEST_EXPONENT = 300.0


def expected_with_noise(
    likelihood: ExpectedLogLikelihood,
    mean: Array,
    variance: Array,
    noise: float,
    y: Array,
    weights: Array | float = 1.0,
) -> tuple[Array, Array, Array]:
    """E L(f), E L'(f) and -E L''(f) for f ~ N(mean, variance), entrywise.

    L(f) is the logarithm of the mean of ``p(y | f + e)^weight`` over the noise e ~ N(0, noise).
    With ``log p(y | t) = constant + a t - rate exp(sign t)`` and r the rate at t = f + e the
    derivatives are ``a - sign E r`` and ``E r - Var r`` given y and f: L is concave, as log p is.
    Both integrals are by Gauss-Hermite quadrature, that over e about its mode, by Laplace's
    approximation of its density (Liu and Pierce, Biometrika 1994).

    Parameters
    ----------
    likelihood : ExpectedLogLikelihood
    mean, variance, y : arrays (N,)
    noise : float
        At least 0.
    weights : array or float, default 1
        At least 0: the factors of the log likelihoods.
    """
    linear, rate, sign, constant = likelihood.exponential_form(y)
    numbers = (weights * linear, weights * rate, mean, variance)
    flat = [np.array(np.broadcast_to(array, y.shape), dtype=float) for array in numbers]
    expected = np.empty((3, y.size))
    nodes, shares = quadrature(PREDICTOR_NODES)
    noise_nodes, noise_shares = quadrature(NOISE_NODES)
    log_shares = np.log(noise_shares) + 0.5 * np.square(noise_nodes)
    arrays = nodes, shares, noise_nodes, log_shares
    write_expectations(*flat, float(sign), float(noise), *arrays, expected)
    value, slope, precision = expected
    return value + weights * constant, slope, precision


@cache
def quadrature(n: int) -> tuple[Array, Array]:
    """Nodes and shares of the Gauss-Hermite quadrature of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / np.sum(weights)


@compiled(nogil=True)
def write_expectations(  # type: ignore[no-untyped-def]
    linear, rate, mean, variance, sign, noise, nodes, shares, noise_nodes, log_shares, expected
):
    """Write the three expectations of ``expected_with_noise``, without constants."""
    deviation = np.sqrt(noise)
    for i in range(linear.size):
        a, sd = linear[i], np.sqrt(variance[i])
        log_rate = np.log(rate[i]) if rate[i] > 0.0 else -np.inf
        target = log_rate + np.log(noise) + sign * (mean[i] + noise * a) if noise > 0.0 else 0.0
        value, slope, precision = 0.0, 0.0, 0.0
        for j in range(nodes.size):
            f = mean[i] + sd * nodes[j]
            # The mode of the noise, with the size noise * rate: log size + size = target.
            size = 0.0
            if noise > 0.0 and rate[i] > 0.0:
                at_f = target + sign * sd * nodes[j]
                log_size = min(at_f, np.log(max(at_f, 1.0)))
                for _ in range(MODE_STEPS):
                    size = np.exp(log_size)
                    log_size -= (log_size + size - at_f) / (1.0 + size)
                size = np.exp(log_size)
            conditional = deviation / np.sqrt(1.0 + size)
            centre = f + noise * a - sign * size
            largest, total, first, second = -np.inf, 0.0, 0.0, 0.0
            for k in range(noise_nodes.size if noise > 0.0 else 1):
                t, log_share = f, 0.0
                if noise > 0.0:
                    t = centre + conditional * noise_nodes[k]
                    e = (t - f) / deviation
                    log_share = log_shares[k] - 0.5 * e * e
                exponent = min(log_rate + sign * t, LARGEST_EXPONENT)
                r = np.exp(exponent)
                log_share += a * t - r
                if log_share > largest:
                    shrink = np.exp(largest - log_share)
                    total, first, second = total * shrink, first * shrink, second * shrink
                    largest = log_share
                share = np.exp(log_share - largest)
                total += share
                first += share * r
                second += share * r * r
            first /= total
            second = max(second / total - first * first, 0.0)
            log_mean = largest + np.log(total)
            if noise > 0.0:
                log_mean += np.log(conditional / deviation)
            value += shares[j] * log_mean
            slope += shares[j] * (a - sign * first)
            # Rounding of the difference leaves at least what a Gaussian in place of r would.
            precision += shares[j] * max(first - second, 0.1 * first / (1.0 + noise * first))
        expected[0, i], expected[1, i], expected[2, i] = value, slope, precision

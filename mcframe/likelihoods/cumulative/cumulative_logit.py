"""The loss of an interval under a logistic distribution, without overflow or cancellation."""

import numpy as np

from mcframe.contracts.arrays import Array

# exp of it is far from overflowing.
LARGE = 300.0


def logistic_parts(x: Array) -> tuple[Array, Array, Array]:
    """log(1 + exp(x)), its first and its second derivative; x may be infinite."""
    # One exponential serves all: exp(-|x|) is at most 1 and cannot overflow.
    decay = np.exp(-np.abs(x))
    first = np.where(x >= 0.0, 1.0, decay) / (1.0 + decay)
    return np.maximum(x, 0.0) + np.log1p(decay), first, decay / np.square(1.0 + decay)


def gap_loss(gap: Array) -> Array:
    """-log(1 - exp(-gap)) for gaps above 0, accurate for narrow and for infinite ones."""
    # Below log 2 the difference loses digits, above it the logarithm does (Maechler, 2012).
    narrow = np.minimum(gap, 1.0)
    wide = np.maximum(gap, 0.5)
    loss: Array = np.where(
        gap < np.log(2.0), -np.log(-np.expm1(-narrow)), -np.log1p(-np.exp(-wide))
    )
    return loss


def centred_conjugate(q: Array, half: Array) -> Array:
    """The conjugate of a middle level with thresholds -half and half, at gradients of size q.

    The loss is ``log(2 cosh half + 2 cosh z)`` up to a constant. Its gradient equals q where
    ``sinh z - q cosh z = q cosh half``, a quadratic in exp(z) with one positive root:
    ``z = artanh q + arsinh(q cosh(half) / sqrt(1 - q^2))``, free of cancellation.
    """
    short = 1.0 - q
    # At q = 1 the supremum is reached at infinity; the next smaller number shows its value.
    shorter = np.maximum(short, 1e-16)
    log_cosh = half + np.log1p(np.exp(-2.0 * half)) - np.log(2.0)
    log_ratio = np.log(np.maximum(q, 1e-300)) + log_cosh - 0.5 * np.log(shorter * (1.0 + q))
    z = 0.5 * np.log((1.0 + q) / shorter) + np.where(
        log_ratio > LARGE,
        log_ratio + np.log(2.0),
        np.arcsinh(np.exp(np.minimum(log_ratio, LARGE))),
    )
    # q z - log(1 + exp(z - half)) - log(1 + exp(-z - half)) + log(1 - exp(-2 half)), ordered
    # so that large numbers leave before they are rounded.
    inner = np.minimum(z, half) - np.log1p(np.exp(-np.abs(z - half)))
    return inner - short * z - np.log1p(np.exp(-z - half)) - gap_loss(2.0 * half)

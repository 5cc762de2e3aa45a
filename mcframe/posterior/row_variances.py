"""How sure the rows of a table are of their numbers: variances that suit held-out errors."""

import numpy as np
from scipy.special import ndtri, stdtrit

from mcframe.contracts.arrays import Array

# The noise variance of a Gaussian block that does not declare it, over the variance of the
# column's values. It is fixed, since an estimated covariance and noise cannot be identified both.
NOISE_SHARE = 0.001
# Exponents of variances lie between this and its inverse, and are found by so many bisections. The
# precision of the Gaussian prior of a column's exponent about that of all columns, and of that one
# about 1.
LEAST_EXPONENT, EXPONENT_STEPS = 0.25, 20
EXPONENT_PRIOR_PRECISION = 5.0
# Squares of errors are at most so large.
LARGEST_SQUARE = 1e12
# Where errors of two estimates are compared, none counts more than so many deviations. So many
# equal ones are added to those of all columns, and so many in the ratio of all to each column's.
LARGEST_DEVIATION, RATIO_PRIOR_NUMBERS = 4.0, 40.0


def student_variance_inflation(counts: Array) -> Array:
    """The inflation of variances of columns of which few numbers are observed.

    A new number minus the mean of n others has, over their standard deviation s, a Student
    distribution with n - 1 degrees of freedom, times ``sqrt((n + 1) / (n - 1))``. Of that
    ``(n + 1) / n`` is in the distribution of a new row; the factor is what is left, ``n / (n - 1)
    (t / z)^2`` with t and z the 95 % quantiles of Student's and the normal distribution, so that
    90 % intervals are as wide as they should be.

    Parameters
    ----------
    counts : array (d,)
        How many numbers of each column are observed; fewer than 2 count as 2.
    """
    observed = np.maximum(counts, 2.0)
    factors: Array = (
        observed / (observed - 1.0) * np.square(stdtrit(observed - 1.0, 0.95) / ndtri(0.95))
    )
    return factors


def error_ratios_of(errors: Array, reference: Array) -> Array:
    """The size of errors over that of a reference at the same numbers, column by column (d,).

    A ratio of sums of absolute values, drawn to that of all columns where numbers are few, as this
    is to 1.

    Parameters
    ----------
    errors, reference : array (n x d)
        In units of the deviations expected of them, NaN where they are not to be compared.
    """
    compared = ~np.isnan(errors) & ~np.isnan(reference)
    if not compared.any():
        return np.ones(errors.shape[1])
    sizes, of_reference = (
        np.where(compared, np.minimum(np.abs(part), LARGEST_DEVIATION), 0.0)
        for part in (errors, reference)
    )
    prior = RATIO_PRIOR_NUMBERS * np.sum(of_reference) / np.count_nonzero(compared)
    if prior == 0.0:
        return np.ones(errors.shape[1])
    ratio = (np.sum(sizes) + prior) / (np.sum(of_reference) + prior)
    return np.asarray(
        (np.sum(sizes, axis=0) + prior * ratio) / (np.sum(of_reference, axis=0) + prior)
    )


def variance_exponents_of(squares: Array, variances: Array) -> Array:
    """The exponent of conditional variances, column by column, under which errors are likeliest.

    A prior that predicts best may say little of how sure predictions are: covariances that are
    held back leave conditional variances that are too large, and those of few rows ones that are
    too small. An error e has the density ``N(0, T^b)`` where its variance is said to be T, and b
    is that with the largest likelihood on held-out numbers, near 1 where there are few, less one
    standard deviation of the b of all columns, so that few numbers promise little. A row of which
    nothing is known keeps the variance 1.

    Parameters
    ----------
    squares : array (n x d)
        Squares of errors in units of their columns, NaN where nothing was held out.
    variances : array (n x d)
        What was said of them.
    """
    observed = ~np.isnan(squares)
    logs = np.where(observed, np.log(np.clip(variances, NOISE_SHARE, 1.0)), 0.0)
    squares = np.where(observed, np.minimum(squares, LARGEST_SQUARE), 0.0)

    def posterior_mode(prior_mean: float, axis: int | None) -> Array:
        """The root of the derivative in b, which rises, by bisection."""
        low, high = (np.full(d, end) for end in (LEAST_EXPONENT, 1.0 / LEAST_EXPONENT))
        for _ in range(EXPONENT_STEPS):
            middle = 0.5 * (low + high)
            rises = 0.5 * logs * (1.0 - squares * np.exp(-middle * logs))
            slope = np.sum(rises, axis=axis) + EXPONENT_PRIOR_PRECISION * (middle - prior_mean)
            low, high = np.where(slope < 0.0, middle, low), np.where(slope < 0.0, high, middle)
        return 0.5 * (low + high)

    d = squares.shape[1]
    exponents = posterior_mode(float(posterior_mode(1.0, None)[0]), 0)
    deviation = 1.0 / np.sqrt(EXPONENT_PRIOR_PRECISION + 0.5 * np.sum(logs**2))
    return np.where(observed.any(axis=0), np.maximum(exponents - deviation, LEAST_EXPONENT), 1.0)

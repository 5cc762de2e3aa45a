"""Rounding, and the sizes of numbers that arithmetic bears, for all parts of the package."""

import numpy as np

__all__ = [
    "DAMPING",
    "DUAL_ROUNDING",
    "EPS",
    "FAR_PREDICTOR",
    "LARGEST_MODERATE",
    "LEAST_MODERATE",
    "RESULT_ROUNDING",
    "SET_ROUNDING",
    "SUMMAND_ROUNDING",
    "SUM_ROUNDING",
    "TINY",
    "VALUE_ROUNDING",
]

#: The distance from 1 to the next number of double precision.
EPS = float(np.finfo(np.float64).eps)
#: Divisors are at least this: even a hundred million over it is finite.
TINY = 1e-300
#: The least number that has a finite square and a finite inverse,
LEAST_MODERATE = 1e-150
#: and the largest one.
LARGEST_MODERATE = 1e150
#: In units of the length scale of a loss: exp(-x) underflows to 0 well before.
FAR_PREDICTOR = 1000.0
#: A number that a few operations give, relative to the sizes of its summands.
SUMMAND_ROUNDING = 16.0 * EPS
#: A value that is compared with one at a point nearby, relative to the sizes of its summands:
#: rounding alone may raise it by this, which is no ascent.
VALUE_ROUNDING = 1e-14
#: A sum over many entries, such as an objective, relative to the sizes of its summands: a smaller
#: sum is 0, and a smaller difference of two says nothing.
SUM_ROUNDING = 1e-12
#: The result of a long computation, relative to its size: what differs by less counts as equal.
RESULT_ROUNDING = 1e-9
#: Sets count as met up to this share of their size: Z is a product of factors, which is not exact
#: to the last bit, and ``Constraint.feasibility_tolerance`` bounds how much that changes the
#: optimum.
SET_ROUNDING = 1e-9
#: A norm of a dual matrix may pass its limit by this share, the rounding of a norm, and the dual
#: point still counts as feasible.
DUAL_ROUNDING = 1e-12
#: What is added to the diagonal of a system, relative to it, so that no direction is flat.
DAMPING = 1e-12

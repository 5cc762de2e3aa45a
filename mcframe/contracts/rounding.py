"""Tolerances of rounding that several parts of the package rely on, stated once."""

import numpy as np

__all__ = ["DUAL_ROUNDING", "EPS", "OBJECTIVE_ROUNDING", "SET_ROUNDING"]

#: The distance from 1 to the next number of double precision.
EPS = float(np.finfo(np.float64).eps)
#: Sets count as met up to this share of their size: Z is a product of factors, which is not exact
#: to the last bit, and ``Constraint.feasibility_tolerance`` bounds how much that changes the
#: optimum.
SET_ROUNDING = 1e-9
#: A norm of a dual matrix may pass its limit by this share, the rounding of a norm, and the dual
#: point still counts as feasible.
DUAL_ROUNDING = 1e-12
#: The rounding of an objective relative to its size: a smaller difference of two says nothing.
OBJECTIVE_ROUNDING = 1e-12

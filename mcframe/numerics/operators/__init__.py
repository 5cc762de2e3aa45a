"""Matrices that are known by their products, and the algebra of them."""

from mcframe.numerics.operators.dense import Dense, as_operator
from mcframe.numerics.operators.low_rank import LowRank, orthogonal_factors
from mcframe.numerics.operators.operator import Operator, Scaled, Sum, Transposed
from mcframe.numerics.operators.placed import Placed
from mcframe.numerics.operators.projected import Projected, without
from mcframe.numerics.operators.rescaled import Rescaled, Scales
from mcframe.numerics.operators.sampled import Sampled

__all__ = [
    "Dense",
    "LowRank",
    "Operator",
    "Placed",
    "Projected",
    "Rescaled",
    "Sampled",
    "Scaled",
    "Scales",
    "Sum",
    "Transposed",
    "as_operator",
    "orthogonal_factors",
    "without",
]

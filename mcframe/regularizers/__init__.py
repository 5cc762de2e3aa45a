"""Regularizers, one word a file."""

from mcframe.regularizers.gaussian_rows import GaussianRows
from mcframe.regularizers.max_norm import MaxNorm
from mcframe.regularizers.nuclear_norm import NuclearNorm
from mcframe.regularizers.residual_nuclear_norm import ResidualNuclearNorm
from mcframe.regularizers.ridge import Ridge

__all__ = ["GaussianRows", "MaxNorm", "NuclearNorm", "ResidualNuclearNorm", "Ridge"]

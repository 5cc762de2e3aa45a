"""Constraints, one word a file."""

from mcframe.constraints.box import Box
from mcframe.constraints.max_norm_ball import MaxNormBall
from mcframe.constraints.nuclear_ball import NuclearBall
from mcframe.constraints.ones_column import OnesColumn

__all__ = ["Box", "MaxNormBall", "NuclearBall", "OnesColumn"]

"""Floor 2: regularizers, one word a file."""

from mcframe.regularizers.nuclear_norm import NuclearNorm
from mcframe.regularizers.ridge import Ridge

__all__ = ["NuclearNorm", "Ridge"]

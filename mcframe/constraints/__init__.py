"""Floor 2: constraints, one word a file."""

from mcframe.constraints.ones_column import OnesColumn

__all__ = ["OnesColumn"]

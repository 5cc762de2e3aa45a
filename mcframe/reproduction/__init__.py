"""Floor 9: the tables and figures of the papers, one command each."""

from mcframe.reproduction.registry import experiments, find, listing
from mcframe.reproduction.reproducing import Run, reproduce

__all__ = ["Run", "experiments", "find", "listing", "reproduce"]

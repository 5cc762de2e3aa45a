"""The tables and figures of the papers, one command each."""

from papers.registry import experiments, find, listing
from papers.reproducing import Run, reproduce

__all__ = ["Run", "experiments", "find", "listing", "reproduce"]

"""Floor 3: the sentence, and the sentence with data."""

from mcframe.model.block import Block
from mcframe.model.model import Model
from mcframe.model.problem import Problem

__all__ = ["Block", "Model", "Problem"]

"""Floor 3: the model, and the model with data."""

from mcframe.model.layout import Layout
from mcframe.model.model import Block, Model
from mcframe.model.observations import Observations
from mcframe.model.problem import Problem
from mcframe.model.triples import Triples, from_triples

__all__ = ["Block", "Layout", "Model", "Observations", "Problem", "Triples", "from_triples"]

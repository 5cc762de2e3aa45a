"""The model, and the model with data."""

from mcframe.model.binding import Layout
from mcframe.model.model import Block, Model, Observations
from mcframe.model.problem import Problem
from mcframe.model.propensities import estimate_propensities
from mcframe.model.triples import Triples, from_triples

__all__ = [
    "Block",
    "Layout",
    "Model",
    "Observations",
    "Problem",
    "Triples",
    "estimate_propensities",
    "from_triples",
]

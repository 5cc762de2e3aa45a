"""The best constant of each column: what a bias alone says, fitted to the training entries."""

from collections.abc import Mapping

import attrs

from mcframe.answer import Fit
from mcframe.backends import Point
from mcframe.compile import compile_problem
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Parametric
from mcframe.model import Block, Model, Problem
from mcframe.model.table import Table
from mcframe.numerics.operators import LowRank
from mcframe.regularizers import NuclearNorm
from mcframe.selection.finite_effects import with_ridge
from mcframe.selection.weight_max import smooth

__all__ = ["best_constants"]

# As in the fits that are compared: a tenth of an entry keeps constants finite.
EFFECTS_WEIGHT = 0.1


def best_constants(fit: Fit, name: str) -> Fit:
    """The fit of a block with Z = 0: each column at its best constant.

    ``argmin over c_j of sum_i w_ij l(c_j, y_ij)`` over the entries that the fit has seen, with
    their own weights, and with a ridge of 0.1 where the best constant may be infinite, as of
    labels that are all alike. Known offsets stay, and a location its standard units. Levels
    without thresholds have those that suit the whole block at Z = 0, and a constant for each
    column besides.
    """
    table, own = fit.problem.tables[name].observed_entries().as_given(), fit.model.block(name)
    block = attrs.evolve(
        own,
        weight=1.0,
        reduce="sum",
        row_effects=False,
        effects_weight=None,
        standardize=own.standardize if own.likelihood.location else False,
    )
    if isinstance(block.likelihood, Parametric) and block.likelihood.n_parameters:
        problem, effects = at_zero(block, table)
        block = attrs.evolve(block, likelihood=problem.likelihood(name, effects))
    problem, effects = at_zero(attrs.evolve(block, bias=True), table)
    point = Point(LowRank.zeros(problem.shape))
    return attrs.evolve(fit, problem=problem, point=point, effects=effects, paused=None)


def at_zero(block: Block, table: Table) -> tuple[Problem, Mapping[str, Array]]:
    """The problem of one block alone, and its best effects at Z = 0."""
    model = with_ridge(Model([block], [NuclearNorm(1.0)]), EFFECTS_WEIGHT)
    problem = Problem.of_tables(model, {block.name: table})
    program = smooth(compile_problem(problem))
    (found,) = program.evaluate(LowRank.zeros(problem.shape)).effects
    assert found is not None  # the block has effects, or thresholds
    return problem, {block.name: found}

"""Notes on the effects of a fit which have no finite best value."""

from functools import partial

import numpy as np

from mcframe.compile.effects.diverging import diverging_effects
from mcframe.compile.effects.effects import described_effects
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Parametric
from mcframe.model import Block, Problem


def infinite_effects(problem: Problem, block: Block) -> IntArray:
    """The places of the diverging effects of a block, whose best value is infinite.

    All observations of such an effect have gradients of one sign, as labels that are all alike
    have, or counts of 0.
    """
    layout, likelihood = problem.layout(block.name), problem.likelihoods[block.name]
    if not layout.n_effects or problem.ridge(block.name) or likelihood.location:
        return np.zeros(0, dtype=np.intp)
    table, y = problem.tables[block.name], problem.targets(block.name)
    effects = described_effects(layout, likelihood, table.rows, table.columns)
    signs = partial(effects.signs_far_out, likelihood, y)
    return np.flatnonzero(diverging_effects(effects, likelihood, signs))


def notes_on_effects(problem: Problem) -> tuple[str, ...]:
    """A note for each block with an infinite effect or parameter."""
    notes = []
    for block in problem.model.blocks:
        notes.append(note_on_infinite(problem, block, infinite_effects(problem, block)))
        if problem.layout(block.name).n_parameters:
            notes.append(note_on_parameters(problem, block, problem.targets(block.name)))
    return tuple(note for note in notes if note is not None)


def note_on_infinite(problem: Problem, block: Block, places: IntArray) -> str | None:
    """A note on the effects of a block at these places, which are infinite; None if none is."""
    if not places.size:
        return None
    others = f" and {places.size - 1} more effects have" if places.size > 1 else " has"
    effect = describe_effect(problem, block, int(places[0]))
    return (
        f"block {block.name!r}: {effect}{others} no finite"
        " best value, since all observations there pull one way; what is predicted there"
        " is as good as certain. mc.Block(..., effects_weight=...) keeps effects finite"
    )


def note_on_parameters(problem: Problem, block: Block, y: Array) -> str | None:
    """A note on the parameters of a block that observations of these values leave infinite."""
    likelihood = problem.likelihoods[block.name]
    assert isinstance(likelihood, Parametric)
    clause = likelihood.unbounded(y)
    return None if clause is None else f"block {block.name!r}: {clause}"


def describe_effect(problem: Problem, block: Block, place: int) -> str:
    """How notes call an effect: by the names of its column and class, or of its row."""
    layout, table = problem.layout(block.name), problem.tables[block.name]
    if place >= layout.n_biases:
        return f"the effect of row {table.row_label(place - layout.n_biases)}"
    column, k = divmod(place, block.likelihood.width)
    one = "" if block.likelihood.width == 1 else f"class {k} of "
    return f"the bias of {one}column {table.column_label(column)}"

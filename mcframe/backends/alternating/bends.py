"""Second derivatives: what steps count with."""

import numpy as np

from mcframe.backends.alternating.state import AlternatingState
from mcframe.compile import Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.sampled import SampledMatrix

__all__ = ["bends", "bends_along"]


def bends(program: Program, state: AlternatingState) -> tuple[Array, bool]:
    """The second derivative of the loss for each number, and whether it is nowhere larger.

    One number stands for all where they are equal.
    """
    sure, found = True, []
    for piece, effects in zip(program.loss.pieces, state.evaluation.biases, strict=True):
        bend = piece.bend(piece.shaped(state.z), effects)
        sure = sure and bool(np.all(bend >= piece.curvature * (1.0 - 1e-12)))
        found.append((bend, piece.n_numbers))
    if all(bend.size == 1 for bend, _ in found) and len({float(b[0]) for b, _ in found}) == 1:
        return found[0][0], sure
    spread = [bend if bend.size == count else np.full(count, bend[0]) for bend, count in found]
    return np.concatenate(spread), sure


def bends_along(program: Program, state: AlternatingState, left: Array, right: Array) -> Array:
    """The second derivative of the loss along each a b', a and b a column of each."""
    bend, _ = bends(program, state)
    if bend.size == 1:
        bend = np.full(program.loss.n_entries, bend[0])
    everywhere: Array | float = 0.0
    if program.background is not None:
        bend = program.background.beyond_bend(bend)
        everywhere = program.background.bends_along(left, right)
    curved = SampledMatrix(program.pattern, bend).times(right * right)
    along: Array = np.einsum("ij,ij->j", left * left, curved) + everywhere
    return np.maximum(along, 1e-300)

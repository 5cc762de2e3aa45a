"""Second derivatives: what steps count with."""

import numpy as np

from mcframe.backends.alternating.state import AlternatingState
from mcframe.compile import Piece, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import TwiceDifferentiable
from mcframe.numerics.sampled import SampledMatrix

__all__ = ["bends", "bends_along"]

# The least second derivative that a step counts with, relative to the curvature.
FLATTEST = 0.1


def bends(program: Program, state: AlternatingState) -> tuple[Array, bool]:
    """The second derivative of the loss for each number, and whether it is nowhere larger.

    One number stands for all where they are equal.
    """
    sure, found = True, []
    for piece, effects in zip(program.loss.pieces, state.evaluation.biases, strict=True):
        bend = piece_bend(piece, piece.shaped(state.z), effects)
        sure = sure and bool(np.all(bend >= piece.curvature * (1.0 - 1e-12)))
        found.append((bend, piece.n_numbers))
    if all(bend.size == 1 for bend, _ in found) and len({float(b[0]) for b, _ in found}) == 1:
        return found[0][0], sure
    spread = [bend if bend.size == count else np.full(count, bend[0]) for bend, count in found]
    return np.concatenate(spread), sure


def piece_bend(piece: Piece, z: Array, effects: Array | None) -> Array:
    """The second derivative at z (already shaped), or the curvature where there is none."""
    likelihood = piece.at(effects)
    newton = isinstance(likelihood, TwiceDifferentiable) and piece.width == 1
    if newton and not piece.layout.n_parameters:
        bend = piece.scale * likelihood.second_derivative(piece.predictor(z, effects), piece.y)
        # Where a loss is flat a Newton step has no length.
        bounded = np.isfinite(piece.curvature)
        bend = np.maximum(bend, FLATTEST * piece.curvature if bounded else 1e-6 * np.max(bend))
        return bend[:1] if np.all(bend == bend[0]) else bend
    scale = piece.stretch * np.ones((piece.y.size, piece.width))
    return (scale * float(likelihood.curvature)).ravel()


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

"""Half a sweep: each row of one factor is a ridge regression on the other."""

import numpy as np

from mcframe.backends.alternating.bends import bends
from mcframe.backends.alternating.state import SHARES, AlternatingState, entries
from mcframe.compile import Program
from mcframe.contracts.arrays import Array
from mcframe.numerics import kernels
from mcframe.numerics.low_rank import LowRank

__all__ = ["half_sweep"]


def half_sweep(program: Program, state: AlternatingState, by_rows: bool) -> None:
    """New rows of one factor, the other and the effects fixed; then the best effects."""
    own, other = (state.left, state.right) if by_rows else (state.right, state.left)
    bend, sure = bends(program, state)
    pull: Array = bend * state.z - state.evaluation.slope
    shared, behind = None, state.evaluation.behind
    if behind is not None:
        shared, bend, pull = behind.shared(by_rows, bend, pull)
    lines = program.pattern.lines(by_rows)
    weight = program.penalty.threshold(1.0)
    fresh = np.empty_like(own)
    kernels.ridge_solutions(
        lines.starts, lines.across, lines.places, bend, pull, other, weight, fresh, shared
    )
    if behind is not None:  # to look at each line takes a pass, and is seldom needed
        before, objective = state.snapshot(), state.objective
        state.arrive(program, *((fresh, other) if by_rows else (other, fresh)))
        if state.objective < objective:
            return
        state.restore(before)
    if behind is not None or not sure:
        fresh = descended(program, state, by_rows, fresh, weight)
    pair = (fresh, other) if by_rows else (other, fresh)
    state.arrive(program, *pair)


def descended(
    program: Program, state: AlternatingState, by_rows: bool, fresh: Array, weight: float
) -> Array:
    """Each row of a factor moved towards its new value as far as its own objective falls."""
    own, other = (state.left, state.right) if by_rows else (state.right, state.left)
    places = program.loss.rows if by_rows else program.loss.columns
    pair = (fresh, other) if by_rows else (other, fresh)
    moved = entries(program, *pair) - state.z
    at_first = of_lines(program, state, state.z, by_rows, own, weight)
    share = np.ones(own.shape[0])
    unsettled = np.ones(own.shape[0], dtype=bool)
    for piece in program.loss.pieces:
        if piece.width > 1 and not by_rows:  # tied columns, whose full step descends
            unsettled[places[piece.part]] = False
    for trial in SHARES:
        share[unsettled] = trial
        factor = own + share[:, None] * (fresh - own)
        z = state.z + share[places] * moved
        reached = of_lines(program, state, z, by_rows, factor, weight)
        with np.errstate(invalid="ignore"):
            unsettled &= ~(reached <= at_first + 1e-14 * np.abs(at_first))
        if not unsettled.any():
            return factor
    share[unsettled] = 0.0
    return own + share[:, None] * (fresh - own)


def of_lines(
    program: Program,
    state: AlternatingState,
    z: Array,
    by_rows: bool,
    factor: Array,
    weight: float,
) -> Array:
    """The objective of each row of a factor, effects fixed: its losses and its own penalty."""
    places = program.loss.rows if by_rows else program.loss.columns
    total = 0.5 * weight * np.einsum("ij,ij->i", factor, factor)
    with np.errstate(over="ignore", invalid="ignore"):
        for piece, effects in zip(program.loss.pieces, state.evaluation.biases, strict=True):
            predictor = piece.predictor(piece.shaped(z), effects)
            losses = piece.scale * piece.at(effects).value(predictor, piece.y)
            lines = places[piece.part][:: piece.width]
            total += np.bincount(lines, weights=losses, minlength=total.size)
    if program.background is not None:
        pair = (factor, state.right) if by_rows else (state.left, factor)
        total += program.background.of_lines(LowRank(*pair), z, by_rows)
    return total

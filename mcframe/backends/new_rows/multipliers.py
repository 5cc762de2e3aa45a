"""Scores of new rows with nonsmooth losses or bounds, by the method of multipliers."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends.new_rows.losses import At, RowLosses, Scored
from mcframe.backends.new_rows.newton import newton
from mcframe.backends.new_rows.space import RowSpace
from mcframe.compile import Piece
from mcframe.compile.moreau import smoothed_piece
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Proximable

__all__ = ["BestRows", "best_rows"]

# The stiffness of a nonsmooth part, beside 1 / ||v||^2 of its loadings v, by which a row's own
# cost holds z; by how much it grows at each move of the multipliers, and in all.
FIRST, GROWTH, STIFFEST = 10.0, 3.0, 1e4
# Moves at most; at the largest stiffness they end where they bring no more than this.
MOST_MOVES, STILL = 60, 0.5
# Nonsmooth parts are met where z and their prox differ by less than this beside the largest z of
# the row; a row is off where they still differ by more than that.
MET, OFF = 1e-11, 1e-6
# Rows that are much smaller than the largest are measured by this share of it.
SMALL_ROW = 1e-6
# How long a gradient may be beside what it sums; see ``RowLosses.off``.
STEEP = 1e-7


@attrs.frozen(eq=False)
class BestRows:
    """Scores t of new rows (n_rows x m), their effects by piece, and which rows are off."""

    scores: Array
    effects: tuple[Array | None, ...]
    off: Mask


@attrs.frozen
class Between(Proximable):
    """0 for lower <= z <= upper, else inf: a ``Box``, number by number, in a loss's place."""

    lower: float
    upper: float

    smooth = False
    width = 1

    def value(self, z: Array, y: Array) -> Array:
        """0: it is asked for at a prox alone."""
        return np.zeros_like(z)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """The nearest number within."""
        return np.clip(z, self.lower, self.upper)

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """1 within, 0 outside."""
        return ((z > self.lower) & (z < self.upper)).astype(np.float64)


def best_rows(
    n_rows: int, pieces: tuple[Piece, ...], columns: tuple[slice, ...], space: RowSpace
) -> BestRows:
    """The scores of each row at which its losses and its own cost are least, within its bounds.

    Parameters
    ----------
    n_rows : int
    pieces : tuple of Piece
        The losses of blocks, as in ``RowLosses``.
    columns : tuple of slices
        The columns of Z at which each of them stands.
    space : RowSpace
    """
    kept = len(pieces)
    for own, lower, upper in space.bounds:
        start = pieces[-1].part.stop if pieces else 0
        pieces = (*pieces, bounds_of(n_rows, own, Between(lower, upper), start))
        columns = (*columns, own)
    if not pieces:
        nothing: Array = np.zeros((n_rows, space.directions.shape[1]))
        return BestRows(nothing, (), np.zeros(n_rows, dtype=bool))
    losses = RowLosses(pieces, Scored.of(n_rows, pieces, columns, space))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # such rows are off
        if all(piece.likelihood.smooth for piece in pieces):
            here = newton(losses)
            off = losses.off(here, STEEP)
        else:
            here, off = by_multipliers(losses)
    return BestRows(here.scores, here.effects[:kept], off)


def bounds_of(n_rows: int, columns: slice, within: Between, start: int) -> Piece:
    """All cells of some columns, as a piece whose loss is 0 between the bounds."""
    width = columns.stop - columns.start
    rows, across = np.divmod(np.arange(n_rows * width), width)
    part = slice(start, start + rows.size)
    return Piece(within, 1.0, np.zeros(rows.size), rows, across, part)


def by_multipliers(losses: RowLosses) -> tuple[At, Mask]:
    """Rows under nonsmooth losses, and which of them are off: the method of multipliers.

    Each nonsmooth loss is replaced by its envelope (``mcframe.compile.moreau``), whose gradient at
    the minimum is the next multiplier, and which grows stiffer from one to the next.
    """
    nonsmooth = [k for k, piece in enumerate(losses.pieces) if not piece.likelihood.smooth]
    multipliers: dict[int, Array] = {k: np.zeros(losses.pieces[k].n_numbers) for k in nonsmooth}
    first = {k: stiffness(losses, k) for k in nonsmooth}
    factor, last, here = 1.0, np.inf, None
    for _ in range(MOST_MOVES):
        pieces: list[Any] = list(losses.pieces)
        for k in nonsmooth:
            pieces[k] = smoothed_piece(pieces[k], multipliers[k], factor * first[k])
        smooth = attrs.evolve(losses, pieces=tuple(pieces))
        here = newton(smooth, here)
        duals = {k: here.gradients[losses.pieces[k].part].copy() for k in nonsmooth}
        away = np.zeros(losses.scored.n_rows)
        for k in nonsmooth:
            moved = np.abs(duals[k] - multipliers[k]) / (factor * first[k])
            away = np.maximum(away, moved_by(losses, here, k, moved))
        multipliers, worst = duals, float(np.max(away))
        stiffest = factor >= STIFFEST
        if worst <= MET or (stiffest and worst > STILL * last):
            break
        factor, last = min(GROWTH * factor, STIFFEST), worst
    assert here is not None
    return here, smooth.off(here, STEEP) | (away > OFF)


def stiffness(losses: RowLosses, k: int) -> float:
    """The first stiffness of a nonsmooth piece; of one that no score moves in units of its own."""
    piece, loadings = losses.pieces[k], losses.scored.loadings[losses.scored.slices[k]]
    squared = float(np.mean(np.sum(np.square(loadings), axis=1)))
    if squared > 0.0:
        return FIRST / squared
    spread = float(np.std(piece.y)) or 1.0
    return FIRST * float(np.mean(piece.scale)) / spread


def moved_by(losses: RowLosses, here: At, k: int, moved: Array) -> Array:
    """The longest of some moves in each row, beside the size of its predictors."""
    piece = losses.pieces[k]
    own = piece.offset_part(here.z)
    sizes = np.abs(piece.predictor(own, here.effects[k])) + np.abs(own) + np.abs(piece.y)
    largest = by_rows(losses, piece, sizes)
    unit = np.maximum(largest, SMALL_ROW * float(np.max(largest, initial=0.0)))
    longest = by_rows(losses, piece, moved)
    return np.divide(longest, unit, out=np.zeros_like(unit), where=unit > 0.0)


def by_rows(losses: RowLosses, piece: Piece, numbers: Array) -> Array:
    """The largest of some numbers that are not below 0, row by row."""
    found = np.zeros(losses.scored.n_rows)
    np.maximum.at(found, piece.rows, numbers)
    return found

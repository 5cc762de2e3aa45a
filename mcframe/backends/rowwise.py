"""Newton's method for each row, where the regularizer is a quadratic function of each row."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.backends.row_newton import RowLosses, batches, newton
from mcframe.compile import Dual, Piece, Program, RowPenalty
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.contracts.solver import Solver, ToMultipliers

SETTLED = "no row's objective falls any further"


@attrs.frozen(eq=False)
class SortedPiece:
    """The entries of a piece, row after row, and where each row's begin.

    ``order`` has their places in the piece that they come from.
    """

    piece: Piece
    starts: IntArray
    order: IntArray

    @classmethod
    def of(cls, piece: Piece, n_rows: int) -> "SortedPiece":
        """Sort the entries of a piece where they do not come so."""
        order: IntArray = np.arange(piece.y.size)
        if np.any(np.diff(piece.rows) < 0):
            order = np.argsort(piece.rows, kind="stable")
            piece = some_entries(piece, order)
        return cls(piece, np.searchsorted(piece.rows, np.arange(n_rows + 1)), order)

    def cut(self, first: int, last: int, begin: int) -> Piece:
        """Return the piece of some rows, its numbers from ``begin`` on, its rows from 0."""
        own = some_entries(self.piece, slice(self.starts[first], self.starts[last]))
        part = slice(begin, begin + own.n_numbers)
        return attrs.evolve(own, rows=own.rows - first, part=part)

    def numbers(self, first: int, last: int) -> IntArray:
        """Return where the numbers of some rows stand among those of the whole loss."""
        entries, width = self.order[self.starts[first] : self.starts[last]], self.piece.width
        places: IntArray = (entries[:, None] * width + np.arange(width)).ravel()
        return places + self.piece.part.start


def some_entries(piece: Piece, which: Any) -> Piece:
    """Return a piece with some of its entries."""
    return attrs.evolve(
        piece,
        scale=piece.scale[which] if np.ndim(piece.scale) else piece.scale,
        y=piece.y[which],
        rows=piece.rows[which],
        columns=piece.columns[which],
        offset=None if piece.offset is None else piece.offset[which],
    )


@attrs.define(eq=False)
class RowwiseState:
    """The coordinates of all rows in the loadings of the regularizer, with their objective.

    ``gradients`` are those of the losses where Newton's systems have them, for each number of z.
    """

    coordinates: Array
    pieces: tuple[SortedPiece, ...]
    objective: float
    gradients: Array | None = None
    residual: float = np.inf
    finished: str | None = None

    @property
    def rank(self) -> int:
        """The rank that rows of any kind have."""
        return int(min(self.coordinates.shape))

    @property
    def iterate(self) -> Array:
        """The coordinates: no multipliers ask for Z."""
        return self.coordinates

    def sharpen(self) -> None:
        """Nothing to do: rows are exact to double precision."""


@attrs.frozen
class Rowwise(Solver[Program, RowwiseState]):
    """Solves min F(Z) + R(Z) row by row: F smooth losses of entries, R a square of each row.

    With ``z = centre + loadings t`` and R = ||t||^2 / 2 each row is a problem of its own, and all
    of them take Newton steps side by side, shortened where they do not descend. A step solves a
    system in the row's observed entries where these are no more than its columns (the identity of
    Woodbury), else in its columns. Quadratic losses are exact after one, so that a second
    iteration rarely has anything to do. Rows are worked on in batches.

    Cost of a Newton step with o observed of d columns: o^3 operations a row, or d^2 (o + d / 3)
    of classes; of a certificate d^2 a row. Memory: a few matrices n_items x d, and the systems of
    one batch.
    """

    name = "rowwise"
    leaves = ToMultipliers.NOTHING

    def refusal(self, program: Program) -> str | None:
        """The reason against all but smooth losses under a square of each row, or None."""
        if not isinstance(program.penalty, RowPenalty):
            return "rows by themselves need a term that takes each by itself, such as GaussianRows"
        if program.terms:
            return f"terms other than {program.main.word} are left to the other backends"
        if not program.loss.smooth:
            return nonsmooth_refusal(program)
        if not program.loss.convex:
            return "a loss that is not convex is left to the other backends"
        if any(piece.layout.size for piece in program.loss.pieces):
            return (
                "free effects and thresholds tie rows to each other; leave them out: the mean of"
                f" {program.main.word} has the part of a bias"
            )
        return None

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> RowwiseState:
        """Every row at the centre, or those of the start."""
        squares, n_rows = program.penalty.squares, program.shape[0]
        coordinates = np.zeros(program.shape)
        if start is not None:
            coordinates = squares.coordinates(start.latent.dense())
        pieces = tuple(SortedPiece.of(piece, n_rows) for piece in program.loss.pieces)
        return RowwiseState(coordinates, pieces, np.inf)

    def step(self, program: Program, state: RowwiseState) -> None:
        """Newton's method for each row, to its end, batch by batch."""
        squares = program.penalty.squares
        centre, loadings = squares.centre, squares.loadings
        n_rows, before = program.shape[0], state.objective
        total = squared = 0.0
        classes = any(piece.width > 1 for piece in program.loss.pieces)
        numbers = program.entries.size / n_rows + squares.width * (squares.width if classes else 8)
        state.gradients = np.zeros(program.entries.size)
        for part in batches(n_rows, numbers):
            losses = losses_of(program, state, part, centre, loadings)
            here = newton(losses, losses.at(state.coordinates[part]))
            state.coordinates[part] = here.scores
            total += float(np.sum(here.objectives))
            squared += float(np.sum(np.square(here.gradient)))
            own = [piece.numbers(part.start, part.stop) for piece in state.pieces]
            state.gradients[np.concatenate(own)] = losses.next_gradients(here)
        state.objective, state.residual = total, float(np.sqrt(squared))
        if before - total <= EPS * abs(total):
            state.finished = SETTLED

    def expected_gap(self, state: RowwiseState) -> float:
        """Rounding: after an iteration there is nothing left but to certify."""
        return EPS if np.isfinite(state.residual) else np.inf

    def candidate(self, program: Program, state: RowwiseState) -> Point:
        """The iterate in the loadings of the regularizer, with the gradients that are known."""
        latent = program.penalty.squares.latent(state.coordinates)
        if state.gradients is None:
            return Point(latent)
        dual = Dual.of(program, program.evaluate(latent), ())
        for piece in program.loss.pieces:
            if piece.has_conjugate():
                dual.gradient[piece.part] = state.gradients[piece.part]
        return Point(latent, dual)


def losses_of(
    program: Program, state: RowwiseState, part: slice, centre: Array, loadings: Array
) -> RowLosses:
    """Return the losses of some rows."""
    pieces: list[Piece] = []
    columns: list[slice] = []
    for by_rows, own in zip(state.pieces, program.columns, strict=True):
        piece = by_rows.cut(part.start, part.stop, pieces[-1].part.stop if pieces else 0)
        if piece.y.size:
            pieces.append(piece)
            columns.append(own)
    n_rows = part.stop - part.start
    return RowLosses.of(n_rows, tuple(pieces), tuple(columns), centre, loadings)

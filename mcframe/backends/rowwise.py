"""Newton's method for each row, where the regularizer is a quadratic function of each row."""

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.backends.row_newton import RowLosses, batches, newton
from mcframe.compile import Dual, Piece, Program, RowPenalty
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.contracts.solver import Solver, ToMultipliers

SETTLED = "no row's objective falls any further"


@attrs.define(eq=False)
class RowwiseState:
    """The coordinates of all rows in the loadings of the regularizer, with their objective.

    ``gradients`` are those of the losses where Newton's systems have them, for each number of z.
    """

    coordinates: Array
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
        squares = program.penalty.squares
        coordinates = np.zeros(program.shape)
        if start is not None:
            coordinates = squares.coordinates(start.latent.dense())
        return RowwiseState(coordinates, np.inf)

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
            losses, places = losses_of(program, part, centre, loadings)
            here = newton(losses, losses.at(state.coordinates[part]))
            state.coordinates[part] = here.scores
            total += float(np.sum(here.objectives))
            squared += float(np.sum(np.square(here.gradient)))
            gradients = losses.next_gradients(here)
            for piece, place in zip(losses.pieces, places, strict=True):
                state.gradients[place] = gradients[piece.part]
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
    program: Program, part: slice, centre: Array, loadings: Array
) -> tuple[RowLosses, list[slice]]:
    """Return the losses of some rows, and where the numbers of each piece stand among all.

    Entries of a piece come row after row.
    """
    pieces: list[Piece] = []
    columns, places = [], []
    begun, n_rows = 0, part.stop - part.start
    for piece, own in zip(program.loss.pieces, program.columns, strict=True):
        first, last = np.searchsorted(piece.rows, [part.start, part.stop])
        if first == last:
            continue
        entries, n_numbers = slice(first, last), int(last - first) * piece.width
        start = piece.part.start + int(first) * piece.width
        cut = attrs.evolve(
            piece,
            scale=piece.scale[entries] if np.ndim(piece.scale) else piece.scale,
            y=piece.y[entries],
            rows=piece.rows[entries] - part.start,
            columns=piece.columns[entries],
            offset=None if piece.offset is None else piece.offset[entries],
            part=slice(begun, begun + n_numbers),
        )
        begun += n_numbers
        pieces.append(cut)
        columns.append(own)
        places.append(slice(start, start + n_numbers))
    losses = RowLosses.of(n_rows, tuple(pieces), tuple(columns), centre, loadings)
    return losses, places

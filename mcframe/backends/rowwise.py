"""Newton's method for each row, where the regularizer is a quadratic function of each row."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Dual, Point
from mcframe.compile import STEP_SHARES, BlockLoss, Program, RowPenalty
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.likelihood import TwiceDifferentiable
from mcframe.contracts.limits import BATCH_NUMBERS, MOST_STEPS
from mcframe.contracts.rounding import (
    DAMPING,
    EPS,
    LEAST_MODERATE,
    SUM_ROUNDING,
    SUMMAND_ROUNDING,
    TINY,
)
from mcframe.contracts.solver import Solver, ToMultipliers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import kernels
from mcframe.numerics.quasi_newton import ARMIJO
from mcframe.numerics.sampled import Pattern
from mcframe.runtime.machine import check_time

# Above this curvature in a row's scores, systems in these leave few digits of the other numbers.
MAX_SCORE_CURVATURE = 1e12


@attrs.frozen(eq=False)
class RowsAt:
    """Rows at some scores t (n_rows x m), the best row effects solved for.

    ``objectives`` has each row's losses and ``||t||^2 / 2``, ``sizes`` the sum of their sizes,
    ``gradients`` one number for each of z, and ``gradient`` (n_rows x m) is the objectives'.
    """

    scores: Array
    z: Array
    effects: tuple[Array | None, ...]
    objectives: Array
    sizes: Array
    gradients: Array
    gradient: Array


@attrs.frozen(eq=False)
class RowLosses:
    """``sum of losses at z = L t + base, plus ||t||^2 / 2``, least over row effects, row by row.

    Attributes
    ----------
    block_losses : tuple of BlockLoss
        The losses of blocks, their ``part`` one after the other, their effects those of rows or
        none.
    rows, columns : arrays of integers
        Of each number of z its row, and its row of L.
    slices : tuple of slices
        The rows of L of each block.
    loadings : array (n x m)
        L.
    with_effects : array (n x (m + blocks with row effects))
        L, and the indicators of the numbers that each kind of row effects is added to.
    base : array
        z at t = 0.
    pattern : Pattern
        The numbers of z, by rows.
    """

    block_losses: tuple[BlockLoss, ...]
    rows: IntArray
    columns: IntArray
    slices: tuple[slice, ...]
    loadings: Array
    with_effects: Array
    base: Array
    pattern: Pattern

    @classmethod
    def of(
        cls,
        n_rows: int,
        block_losses: tuple[BlockLoss, ...],
        columns: tuple[slice, ...],
        centre: Array,
        loadings: Array,
    ) -> "RowLosses":
        """Losses of rows ``centre + loadings t`` of Z, of blocks that stand at these columns."""
        ends = np.cumsum([0, *(part.stop - part.start for part in columns)]).tolist()
        slices = tuple(slice(first, last) for first, last in pairwise(ends))
        nothing = np.zeros(0, dtype=np.intp)
        selected = np.concatenate(
            [nothing, *(np.arange(part.start, part.stop) for part in columns)]
        )
        indicators = np.zeros((selected.size, len(block_losses)))
        rows, places = [nothing], [nothing]
        for k, (block_loss, part) in enumerate(zip(block_losses, slices, strict=True)):
            indicators[part, k] = 1.0
            numbers = block_loss.columns[:, None] * block_loss.width + np.arange(block_loss.width)
            rows.append(np.repeat(block_loss.rows, block_loss.width))
            places.append(part.start + numbers.ravel())
        of_rows, of_columns = np.concatenate(rows), np.concatenate(places)
        has_effects = [block_loss.effects.n_added > 0 for block_loss in block_losses]
        return cls(
            block_losses,
            of_rows,
            of_columns,
            slices,
            loadings[selected],
            np.hstack([loadings[selected], indicators[:, has_effects]]),
            centre[selected][of_columns],
            Pattern.of((n_rows, selected.size), of_rows, of_columns),
        )

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.pattern.shape[0]

    @property
    def width(self) -> int:
        """The number m of scores of a row."""
        return int(self.loadings.shape[1])

    @property
    def has_short_rows(self) -> bool:
        """True where no row has more numbers than scores, nor effects of its own."""
        return self.pattern.by_rows.longest <= self.width == self.with_effects.shape[1]

    def images(self, scores: Array) -> Array:
        """L t at some scores (n_rows x m), block after block."""
        images = np.empty(self.rows.size)
        self.pattern.entries(np.ascontiguousarray(scores), self.loadings, images)
        return images

    def in_scores(self, gradients: Array) -> Array:
        """S L for a gradient S with these numbers (n_rows x m)."""
        rows = self.pattern.by_rows
        return kernels.product(rows.starts, rows.across, rows.reorder(gradients), self.loadings)

    def at(self, scores: Array, warm: RowsAt | None = None) -> RowsAt:
        """The rows at these scores; the search for effects begins at those of ``warm``."""
        z = self.images(scores) + self.base
        gradients = np.empty_like(z)
        squares: Array = 0.5 * np.einsum("ij,ij->i", scores, scores)
        objectives, sizes, solved = squares, squares, []
        with np.errstate(over="ignore", invalid="ignore"):
            for k, block_loss in enumerate(self.block_losses):
                shifted = block_loss.offset_part(z)
                effects = block_loss.solve(shifted, None if warm is None else warm.effects[k])
                predictor = block_loss.predictor(shifted, effects)
                losses, gradient_of_losses = block_loss.at(effects).value_and_gradient(
                    predictor, block_loss.y
                )
                gradients[block_loss.part] = np.ravel(
                    block_loss.gradient_scale * gradient_of_losses
                )
                losses = block_loss.scale * losses
                objectives = objectives + self.by_rows(block_loss, losses)
                sizes = sizes + self.by_rows(block_loss, np.abs(losses))
                ridge = block_loss.effects.ridge
                if ridge is not None and effects is not None:
                    away = effects - ridge.towards
                    objectives = objectives + 0.5 * ridge.weight * np.square(away)
                solved.append(effects)
            gradient = self.in_scores(gradients) + scores
        return RowsAt(scores, z, tuple(solved), objectives, sizes, gradients, gradient)

    def lower_of(self, current: RowsAt, other: RowsAt) -> RowsAt:
        """Each row where its objective is lower; an infinite one is higher than any other."""
        with np.errstate(invalid="ignore"):
            stays = np.isfinite(current.objectives) & ~(other.objectives < current.objectives)
        if stays.all():
            return current
        return self.at(np.where(stays[:, None], current.scores, other.scores))

    def by_rows(self, block_loss: BlockLoss, numbers: Array) -> Array:
        """The sum over each row of a block's entries."""
        sums: Any = np.bincount(block_loss.rows, weights=numbers, minlength=self.n_rows)
        return sums

    def newton_steps(self, current: RowsAt) -> Array:
        """Newton's step of each row's scores, row effects moving with them (n_rows x m)."""
        curvatures, hessians = self.curvatures(current)
        lengths = np.sum(np.square(self.loadings), axis=1)[self.columns]
        # Systems in the scores would then lose a row's own cost to rounding.
        steep = bool(np.any(curvatures * lengths > MAX_SCORE_CURVATURE))
        if self.has_short_rows and (hessians is None or steep):
            return -self.in_scores(self.next_gradients(current)) - current.scores
        largest = float(np.max(curvatures, initial=0.0, where=np.isfinite(curvatures)))
        damping = DAMPING * (largest or 1.0)
        costs, images = [np.ones(self.width)], [-current.scores]
        for block_loss in self.block_losses:
            if block_loss.effects.n_added:
                costs.append(np.array([block_loss.effects.stiffness + damping]))
                # They are the best ones: the gradients of the entries are taken back.
                images.append(
                    self.by_rows(block_loss, current.gradients[block_loss.part])[:, None]
                )
        systems = np.diag(np.concatenate(costs))[None]
        if hessians is not None:
            systems = systems + hessians
        shared = kernels.SharedQuadratic(systems, np.ones(self.n_rows), np.hstack(images))
        steps = self.pattern.by_rows.ridge_solutions(
            curvatures, -current.gradients, self.with_effects, 0.0, shared
        )
        return steps[:, : self.width]

    def next_gradients(self, current: RowsAt) -> Array:
        """The gradients that Newton's next scores -L's go with, one for each number of z.

        With S^2 the curvatures and g the gradients at L t, ``s = g + S^2 (L t_new - L t)`` and
        ``t_new = -L's`` give ``s = -S q`` where ``(I + S L L' S) q = S L t - g / S``, systems in
        the numbers of each row. Of a loss of large curvature the gradient at z has few digits,
        these have all of them. Numbers of classes keep their gradients, as if they had no
        curvature.
        """
        of_single_numbers = np.zeros(current.z.size, dtype=bool)
        for block_loss in self.block_losses:
            of_single_numbers[block_loss.part] = block_loss.width == 1
        kept_gradients = np.where(of_single_numbers, 0.0, current.gradients)
        roots = np.sqrt(np.maximum(self.curvatures(current)[0], TINY))
        moved = self.images(current.scores + self.in_scores(kept_gradients))
        right_sides = np.where(of_single_numbers, roots * moved - current.gradients / roots, 0.0)
        gram = self.loadings @ self.loadings.T
        roots = np.where(of_single_numbers, roots, 0.0)
        return kept_gradients - self.pattern.by_rows.short_solutions(roots, right_sides, gram)

    def curvatures(self, current: RowsAt) -> tuple[Array, Array | None]:
        """The second derivative at each number of z, and what entries of several numbers add.

        The latter are matrices in the coordinates of ``with_effects``, one for each row; the
        second derivatives of their numbers are then 0.
        """
        second: Array = np.zeros(current.z.size)
        hessians: Array | None = None
        for block_loss, rows, effects in zip(
            self.block_losses, self.slices, current.effects, strict=True
        ):
            likelihood = block_loss.at(effects)
            predictor = block_loss.predictor(block_loss.offset_part(current.z), effects)
            if block_loss.width > 1:
                added = self.hessians(block_loss, likelihood, predictor, self.with_effects[rows])
                hessians = added if hessians is None else hessians + added
            elif isinstance(likelihood, TwiceDifferentiable):
                at_numbers = likelihood.second_derivative(predictor, block_loss.y)
                second[block_loss.part] = block_loss.scale * at_numbers
            else:
                second[block_loss.part] = block_loss.scale * float(likelihood.curvature)
        return second, hessians

    def hessians(
        self, block_loss: BlockLoss, likelihood: Any, predictor: Array, loadings: Array
    ) -> Array:
        """The sums of ``L' H L`` over each row's entries, H over the numbers of an entry.

        By products of H with the columns of L: H itself, K x K, is never written out.
        """
        n_numbers, size = block_loss.width, loadings.shape[1]
        sums: Array = np.zeros((self.n_rows, size, size))
        for column, column_loadings in enumerate(loadings.reshape(-1, n_numbers, size)):
            in_column = block_loss.columns == column
            shape = (int(np.count_nonzero(in_column)), size, n_numbers)
            moves = np.broadcast_to(column_loadings.T, shape)
            if isinstance(likelihood, TwiceDifferentiable):
                z = np.broadcast_to(predictor[in_column][:, None], shape)
                y = np.broadcast_to(block_loss.y[in_column][:, None], shape[:2])
                images = likelihood.hessian_product(z, y, moves)
            else:
                images = float(likelihood.curvature) * moves
            # Each row has one entry in a column at most.
            scale = np.broadcast_to(block_loss.scale, block_loss.y.shape)[in_column]
            sums[block_loss.rows[in_column]] += scale[:, None, None] * (images @ column_loadings)
        return sums

    def unconverged(self, current: RowsAt, share: float) -> Any:
        """Rows whose gradient is longer than a share of what it sums: a mask.

        Its length bounds how far their scores are from the best ones.
        """
        sizes_of_gradients = (
            np.abs(current.gradients) * np.linalg.norm(self.loadings, axis=1)[self.columns]
        )
        sizes = np.bincount(self.rows, weights=sizes_of_gradients, minlength=self.n_rows)
        sizes = sizes + np.linalg.norm(current.scores, axis=1)
        return ~(np.linalg.norm(current.gradient, axis=1) <= share * sizes)


def batches(n_rows: int, numbers: float) -> Iterator[slice]:
    """Rows to work on at once, of which each takes so many numbers."""
    size = max(1, int(BATCH_NUMBERS / (1.0 + numbers)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


# Bisections of the order of magnitude of the share of a step, and interpolations of the share.
LOG_BISECTIONS, INTERPOLATIONS = 11, 16


def newton(losses: RowLosses, start: RowsAt | None = None) -> RowsAt:
    """argmin over t of the losses of each row: full steps as far as they descend, else shares.

    The objective of a row is a convex function plus ``||t||^2 / 2``: it has one minimum, and the
    length of its gradient bounds the distance from there. Where objectives differ by rounding
    alone, full steps are taken, for Newton's are then exact, until they get no shorter.
    """
    n_rows, width = losses.n_rows, losses.width
    current = losses.at(np.zeros((n_rows, width)) if start is None else start.scores, start)
    if not width:
        return current
    unfinished, last_lengths = np.ones(n_rows, dtype=bool), np.full(n_rows, np.inf)
    for _ in range(MOST_STEPS):
        check_time()
        steps = losses.newton_steps(current)
        slopes = np.einsum("ij,ij->i", current.gradient, steps)
        lengths = np.linalg.norm(steps, axis=1)
        within_rounding = -slopes <= SUMMAND_ROUNDING * current.sizes
        unfinished &= ~(within_rounding & (lengths > 0.5 * last_lengths))
        unfinished &= lengths > SUM_ROUNDING * np.linalg.norm(current.scores, axis=1)
        if not unfinished.any():
            break
        last_lengths = np.where(unfinished, lengths, last_lengths)
        current = descend(
            losses, current, np.where(unfinished[:, None], steps, 0.0), slopes, within_rounding
        )
    return current


def descend(
    losses: RowLosses, current: RowsAt, steps: Array, slopes: Array, within_rounding: Mask
) -> RowsAt:
    """Each row moved by a share of its step at which its objective falls.

    By one of ``STEP_SHARES`` or, where even the least of them is too long, as where Huber's losses
    have no curvature, by the share at which the objective is least.
    """
    share, unsettled = np.ones(losses.n_rows), np.any(steps != 0.0, axis=1)
    for trial in STEP_SHARES:
        share[unsettled] = trial
        trial_rows = losses.at(current.scores + share[:, None] * steps, current)
        with np.errstate(invalid="ignore"):
            enough = (
                current.objectives + ARMIJO * share * slopes + SUMMAND_ROUNDING * current.sizes
            )
            fallen = (trial_rows.objectives <= enough) | (
                within_rounding & np.isfinite(trial_rows.objectives)
            )
        unsettled &= ~fallen
        if not unsettled.any():
            return trial_rows

    def slopes_at(shares: Array) -> Array:
        moved = losses.at(current.scores + shares[:, None] * steps, current)
        return np.asarray(np.einsum("ij,ij->i", moved.gradient, steps))

    with np.errstate(over="ignore", invalid="ignore"):
        share[unsettled] = least_shares(slopes_at, share, slopes)[unsettled]
        moved = losses.at(current.scores + share[:, None] * steps, current)
        # Where rounding hides the slope as well, a row stays.
        share[unsettled & ~(moved.objectives <= current.objectives)] = 0.0
    return losses.at(current.scores + share[:, None] * steps, current)


def least_shares(slopes_at: Callable[[Array], Array], longest: Array, slopes: Array) -> Array:
    """The share up to ``longest`` at which each of several convex functions is least.

    By its slope, which is below 0 before and above 0 after that share (``slopes`` at 0): its
    order of magnitude by bisection, then the share by interpolation, which is exact where the
    slope is linear. Infinite slopes lie after it.
    """
    low, high = np.zeros(longest.size), longest.copy()
    below, above = slopes.copy(), slopes_at(high)
    for _ in range(LOG_BISECTIONS):
        trial = np.sqrt(np.where(low > 0.0, low, LEAST_MODERATE)) * np.sqrt(high)
        slope = slopes_at(trial)
        falls = slope < 0.0
        low, below = np.where(falls, trial, low), np.where(falls, slope, below)
        high, above = np.where(falls, high, trial), np.where(falls, above, slope)
    weight_below, weight_above = below, above
    last_falls: Any = None
    for _ in range(INTERPOLATIONS):
        trial = (low * weight_above - high * weight_below) / (weight_above - weight_below)
        inside = (trial > low) & (trial < high)
        trial = np.where(inside, trial, low + 0.5 * (high - low))
        slope = slopes_at(trial)
        falls = slope < 0.0
        # The weight of an end that stays twice is halved, so that both ends move (Illinois).
        again = np.zeros(low.size, dtype=bool) if last_falls is None else falls == last_falls
        halved, last_falls = np.where(again, 0.5, 1.0), falls
        weight_below = np.where(falls, slope, halved * weight_below)
        weight_above = np.where(falls, halved * weight_above, slope)
        low, below = np.where(falls, trial, low), np.where(falls, slope, below)
        high, above = np.where(falls, high, trial), np.where(falls, above, slope)
    return np.where(np.abs(above) < np.abs(below), high, low)


CONVERGED_MESSAGE = "no row's objective falls any further"


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

    def increase_accuracy(self) -> None:
        """Nothing to do: rows are exact to double precision."""


@stored
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
            return "it solves row by row, which needs a prior of single rows, such as GaussianRows"
        if program.terms:
            return f"terms other than {program.penalty.main.word} are left to the other backends"
        if not program.loss.smooth:
            return nonsmooth_refusal(program)
        if not program.loss.convex:
            return "a loss that is not convex is left to the other backends"
        if any(block_loss.layout.size for block_loss in program.loss.block_losses):
            return (
                "free effects and thresholds tie rows to each other; leave them out: the mean of"
                f" {program.penalty.main.word} has the part of a bias"
            )
        return None

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> RowwiseState:
        """Every row at the centre, or those of the start."""
        squares = program.row_penalty.squares
        coordinates: Array = np.zeros(program.shape)
        if start is not None:
            coordinates = squares.coordinates(start.latent.dense())
        return RowwiseState(coordinates, np.inf)

    def step(self, program: Program, state: RowwiseState) -> None:
        """Newton's method for each row, to its end, batch by batch."""
        squares = program.row_penalty.squares
        centre, loadings = squares.centre, squares.loadings
        n_rows, before = program.shape[0], state.objective
        # Far from Z = 0 losses may overflow, or have no curvature that Newton's steps could use.
        origin = squares.coordinates(np.zeros((1, program.shape[1])))
        total = squared = 0.0
        classes = any(block_loss.width > 1 for block_loss in program.loss.block_losses)
        numbers = program.entries.size / n_rows + squares.width * (squares.width if classes else 8)
        state.gradients = np.zeros(program.entries.size)
        for part in batches(n_rows, numbers):
            losses, places = losses_of(program, part, centre, loadings)
            rows = losses.at(state.coordinates[part])
            if not np.isfinite(before):
                rows = losses.lower_of(rows, losses.at(np.broadcast_to(origin, rows.scores.shape)))
            rows = newton(losses, rows)
            state.coordinates[part] = rows.scores
            total += float(np.sum(rows.objectives))
            squared += float(np.sum(np.square(rows.gradient)))
            gradients = losses.next_gradients(rows)
            for block_loss, place in zip(losses.block_losses, places, strict=True):
                state.gradients[place] = gradients[block_loss.part]
        state.objective, state.residual = total, float(np.sqrt(squared))
        if before - total <= EPS * abs(total):
            state.finished = CONVERGED_MESSAGE

    def expected_gap(self, state: RowwiseState) -> float:
        """Rounding: after an iteration there is nothing left but to certify."""
        return EPS if np.isfinite(state.residual) else np.inf

    def candidate(self, program: Program, state: RowwiseState) -> Point:
        """The iterate in the loadings of the regularizer, with the gradients that are known."""
        latent = program.row_penalty.squares.latent(state.coordinates)
        if state.gradients is None:
            return Point(latent)
        dual = Dual.of(program, program.evaluate(latent), ())
        for block_loss in program.loss.block_losses:
            if block_loss.has_conjugate():
                dual.gradient[block_loss.part] = state.gradients[block_loss.part]
        return Point(latent, dual)


def losses_of(
    program: Program, part: slice, centre: Array, loadings: Array
) -> tuple[RowLosses, list[slice]]:
    """Return the losses of some rows, and where the numbers of each block stand among all.

    Entries of a block come row after row.
    """
    block_losses: list[BlockLoss] = []
    columns, places = [], []
    begun, n_rows = 0, part.stop - part.start
    for block_loss, block_columns in zip(program.loss.block_losses, program.columns, strict=True):
        first, last = np.searchsorted(block_loss.rows, [part.start, part.stop])
        if first == last:
            continue
        entries, n_numbers = slice(first, last), int(last - first) * block_loss.width
        start = block_loss.part.start + int(first) * block_loss.width
        cut = attrs.evolve(
            block_loss,
            scale=block_loss.scale_of(entries),
            y=block_loss.y[entries],
            rows=block_loss.rows[entries] - part.start,
            columns=block_loss.columns[entries],
            offset=None if block_loss.offset is None else block_loss.offset[entries],
            part=slice(begun, begun + n_numbers),
        )
        begun += n_numbers
        block_losses.append(cut)
        columns.append(block_columns)
        places.append(slice(start, start + n_numbers))
    losses = RowLosses.of(n_rows, tuple(block_losses), tuple(columns), centre, loadings)
    return losses, places

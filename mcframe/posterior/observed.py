"""The entries of a problem as the posterior reads them: Gaussian pseudo-observations."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.partitions.values import Sent
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import ExpectedLogLikelihood, Likelihood, Parametric
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Layout, Problem
from mcframe.model.layout import layout_of
from mcframe.model.table import Table
from mcframe.numerics.gaussian_bounds import best_gaussian
from mcframe.numerics.kernels import Compressed

LOG_TWO_PI = float(np.log(2.0 * np.pi))
# Mean squares of columns are shrunk towards that of all columns, which counts as so many entries.
DRAWN = 10.0


@attrs.frozen(eq=False)
class Summary(Sent):
    """What is known of a block by the entries of all rows, wherever these are.

    Attributes
    ----------
    likelihood : Likelihood
        With its fitted parameters, if it has any.
    centres : array (columns of Z of the block,)
        The numbers that values and biases are counted from: means of locations that have biases,
        else 0.
    counts : array (columns of Z of the block,)
        How many numbers of z each column has.
    mean_squares : array (columns of Z of the block,)
        About the mean square of the values of each column; 1 where z has no unit.
    usual_square : float
        The mean square that the priors of effects expect, in the units of z.
    log_weights : float
        The sum of the logarithms of the weights.
    """

    likelihood: Likelihood
    centres: Array
    counts: Array
    mean_squares: Array
    usual_square: float
    log_weights: float


@attrs.frozen(eq=False)
class ObservedBlock:
    """The entries of one block: y of (N,), N numbers of z, or N K of K classes, row after row.

    ``part`` is where its numbers stand among those of all blocks, ``columns`` which columns of Z
    are its own. ``weights`` say how often each entry counts; None for once. The entries of row r
    are those from ``starts[r]`` to ``starts[r + 1]``; ``at`` says in which column of the block
    each of them stands. As soon as the ``summary`` is known y is counted from its centres.
    """

    block: Block
    layout: Layout
    y: Array
    weights: Array | None
    offset: Array | None
    part: slice
    columns: slice
    starts: IntArray
    ridge: float
    at: IntArray
    summary: Summary | None = None

    @property
    def known(self) -> Summary:
        """The summary, which is known."""
        assert self.summary is not None
        return self.summary

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood with its fitted parameters, if it has any."""
        return self.known.likelihood

    @property
    def centres(self) -> Array:
        """The numbers that values and biases of the columns of Z are counted from."""
        return self.known.centres

    @property
    def usual_square(self) -> float:
        """The mean square that the priors of effects expect, in the units of z."""
        return self.known.usual_square

    @property
    def mean_squares(self) -> Array:
        """About the mean square of the values of each column of Z."""
        return self.known.mean_squares

    def summed_up(self, summary: Summary) -> "ObservedBlock":
        """The block with this summary, y counted from its centres."""
        y = self.y
        if self.summary is None and self.block.likelihood.location and self.block.bias:
            y = y - summary.centres[self.at]
        return attrs.evolve(self, y=y, summary=summary)

    @property
    def unknown_noise(self) -> str | None:
        """Which noise variance is unknown: one for each "column", one for the "block", or None.

        The variance of a block is that of a Gaussian which is added to its predictors, where no
        parabola lies below the log likelihood (see ``ExpectedLogLikelihood``).
        """
        if isinstance(self.likelihood, Gaussian) and self.likelihood.variance is None:
            return "column"
        return "block" if isinstance(self.likelihood, ExpectedLogLikelihood) else None

    def fitted(self, mean: Array, sd: Array | None) -> "ObservedBlock":
        """The block with the parameters of its likelihood, if it fits any, that suit z best.

        The sum of the expected bounds is the largest where z has these means and deviations.
        """
        declared = self.block.likelihood
        if not isinstance(declared, Parametric) or not declared.n_parameters:
            return self
        weights = np.ones(self.y.size) if self.weights is None else self.weights
        likelihood: Any = self.likelihood
        start = None if likelihood is declared else np.array(likelihood.thresholds)
        z = mean if self.offset is None else mean + self.offset
        found = declared.best_parameters(z, self.y, weights, start, sd=sd)
        fitted = self.with_parameters(found)
        if sd is None or start is None:
            return fitted
        # Thresholds that are best at infinity stay where they are: the bound has a tail.
        return fitted if fitted.expected_bound(mean, sd) > self.expected_bound(mean, sd) else self

    def with_parameters(self, found: Array) -> "ObservedBlock":
        """The block with these parameters of its likelihood."""
        declared: Any = self.block.likelihood
        likelihood = declared.with_parameters(found)
        return attrs.evolve(self, summary=attrs.evolve(self.known, likelihood=likelihood))

    def expected_bound(self, mean: Array, sd: Array) -> float:
        """The sum over entries of the expected Gaussian bounds where z has these moments."""
        z = mean if self.offset is None else mean + self.offset
        likelihood: Any = self.likelihood
        value, precision, constants = likelihood.gaussian_bound(z, np.square(sd), self.y)
        expected = constants - 0.5 * precision * (np.square(z - value) + np.square(sd))
        return float(np.sum(expected if self.weights is None else self.weights * expected))

    def entries(self, first: int, last: int) -> slice:
        """The entries of some rows."""
        return slice(int(self.starts[first]), int(self.starts[last]))

    def numbers(self, entries: slice) -> slice:
        """The numbers of z of some entries, among those of all blocks."""
        width, begin = self.likelihood.width, self.part.start
        return slice(begin + entries.start * width, begin + entries.stop * width)

    def pseudo_observations(
        self, entries: slice, mean: Array, variance: Array, noise: float
    ) -> "PseudoObservations":
        """The best Gaussian observations in the place of some entries.

        Their numbers of z have these means and variances, flat; ``noise`` is the variance of the
        block's own noise.
        """
        likelihood: Any = self.likelihood
        y = self.y[entries]
        weight: Any = 1.0 if self.weights is None else self.weights[entries]
        if self.unknown_noise == "column":
            return PseudoObservations(y, np.broadcast_to(weight, y.shape))
        shaped = (-1, likelihood.width) if likelihood.width > 1 else (-1,)
        mean, variance = mean.reshape(shaped), variance.reshape(shaped)
        offset = 0.0 if self.offset is None else self.offset[entries]
        if self.unknown_noise == "block":
            centre, spread = best_gaussian(
                likelihood, mean + offset, np.asarray(noise), y, weights=weight
            )
            expected = weight * likelihood.expected_log_likelihood(centre, spread, y)[0]
            constant = float(np.sum(expected + 0.5 * np.log(spread) + 0.5))
            return PseudoObservations(
                centre - offset, np.ones(y.size), constant, float(np.sum(spread))
            )
        value, precision, constants = likelihood.gaussian_bound(mean + offset, variance, y)
        stretch = weight[:, None] if np.ndim(weight) and value.ndim > 1 else weight
        constant = float(np.sum(weight * constants))
        return PseudoObservations(
            (value - offset).ravel(), (stretch * precision).ravel(), constant
        )


@attrs.frozen(eq=False)
class PseudoObservations:
    """Gaussian observations of numbers of z: ``constant - sum of precision / 2 (z - value)^2``.

    That is a lower bound on the log likelihoods of their entries at every z. Where a variance is
    learned the precisions have to be divided by it. With noise of the predictors (``noise`` is
    "block") values are the means of noisy predictors, ``spread`` is the sum of their variances,
    and the bound is one on expectations over the noise.
    """

    values: Array
    precisions: Array
    constant: float = 0.0
    spread: float = 0.0


@attrs.frozen(eq=False)
class Observed:
    """All entries of a problem: the blocks, and the numbers of z by rows.

    ``across`` and ``places`` of ``by_rows`` say at which column of Z each number stands, and where
    among the numbers, block after block.
    """

    shape: tuple[int, int]
    blocks: tuple[ObservedBlock, ...]
    by_rows: Compressed

    @classmethod
    def of(
        cls,
        problem: Problem,
        tables: Mapping[str, Table] | None = None,
        known: "Observed | None" = None,
    ) -> "Observed":
        """The entries of a problem, or of ``tables`` of new rows where a fit is ``known``."""
        found = cls.of_tables(problem, tables)
        if known is not None:
            return found.summed_up(known.summaries)
        found = found.summed_up(
            summaries(found.blocks, problem.likelihoods, lambda ask, *given: ask(found, *given))
        )
        return found.fitted(np.zeros(found.n_numbers), None)

    @classmethod
    def of_tables(cls, problem: Problem, tables: Mapping[str, Table] | None = None) -> "Observed":
        """The entries of a problem without a summary, those of standardised blocks in its units.

        Weights of blocks and entries multiply log likelihoods. Those by which ``standardize``
        divides columns do not: the scale of a log likelihood is part of it.
        """
        blocks: list[ObservedBlock] = []
        rows, columns, start = [], [], 0
        tables = problem.tables if tables is None else tables
        n_rows = next(iter(tables.values())).shape[0]
        for block in problem.model.blocks:
            name = block.name
            table = tables[name] if name in tables else nothing(problem, name, n_rows)
            width, here = block.likelihood.width, problem.columns(block.name)
            stop = start + table.n_entries * width
            weights, scale = table.as_given().weights, problem.scale(name)
            if scale != 1.0:
                weights = np.full(table.n_entries, scale) if weights is None else scale * weights
            location = block.likelihood.location
            blocks.append(
                ObservedBlock(
                    block=block,
                    layout=layout_of(block, table),
                    y=table.less_offsets() if location else table.values,
                    weights=weights,
                    offset=None if location else table.offsets,
                    part=slice(start, stop),
                    columns=here,
                    starts=np.searchsorted(table.rows, np.arange(table.shape[0] + 1)),
                    ridge=problem.ridge(name),
                    at=table.columns,
                )
            )
            rows.append(np.repeat(table.rows, width))
            columns.append(
                (here.start + table.columns[:, None] * width + np.arange(width)).ravel()
            )
            start = stop
        shape = n_rows, problem.n_block_columns
        return cls(shape, tuple(blocks), ordered(shape, rows, columns))

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """What is known of each block by all rows."""
        return tuple(block.known for block in self.blocks)

    def summed_up(self, summaries: tuple[Summary, ...]) -> "Observed":
        """The entries with what is known of each block by all rows."""
        pairs = zip(self.blocks, summaries, strict=True)
        return attrs.evolve(self, blocks=tuple(own.summed_up(known) for own, known in pairs))

    @property
    def fits_parameters(self) -> bool:
        """Whether a likelihood has parameters that are fitted with z."""
        return any(own.layout.n_parameters for own in self.blocks)

    def fitted(self, mean: Array, sd: Array | None) -> "Observed":
        """The entries with fitted parameters where all numbers of z have these moments."""
        blocks = [
            own.fitted(mean[own.part], None if sd is None else sd[own.part]) for own in self.blocks
        ]
        return attrs.evolve(self, blocks=tuple(blocks))

    @cached_property
    def columns_with_noise(self) -> IntArray:
        """The columns of Z that have an unknown noise variance each."""
        own = [block.columns for block in self.blocks if block.unknown_noise == "column"]
        return np.concatenate([np.arange(c.start, c.stop) for c in own]) if own else np.arange(0)

    @cached_property
    def counts(self) -> Array:
        """The number of numbers of z in each column of Z, by all rows."""
        return np.concatenate([block.known.counts for block in self.blocks])

    @cached_property
    def mean_squares(self) -> Array:
        """The mean square of the values of each column of Z; 1 where z has no unit."""
        return np.concatenate([block.mean_squares for block in self.blocks])

    @cached_property
    def cells(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of Z of all numbers, block after block."""
        rows, columns = (np.empty(self.n_numbers, dtype=np.intp) for _ in range(2))
        rows[self.by_rows.places] = np.repeat(
            np.arange(self.shape[0]), np.diff(self.by_rows.starts)
        )
        columns[self.by_rows.places] = self.by_rows.across
        return rows, columns

    @property
    def needs_bounds(self) -> bool:
        """Whether a likelihood is no Gaussian, so that pseudo-observations depend on z."""
        return any(not isinstance(block.likelihood, Gaussian) for block in self.blocks)

    @property
    def n_entries(self) -> int:
        """The number of entries of all blocks, by all rows."""
        return sum(int(np.sum(own.known.counts)) // own.likelihood.width for own in self.blocks)

    @property
    def n_numbers(self) -> int:
        """The number of numbers of z here."""
        return self.blocks[-1].part.stop


def nothing(problem: Problem, name: str, n_rows: int) -> Table:
    """The table of a block of which new rows have no entry."""
    fitted, nowhere = problem.tables[name], np.zeros(0, dtype=np.intp)
    empty = Table((n_rows, fitted.shape[1]), nowhere, nowhere, np.zeros(0))
    return empty.on_standard_of(fitted)


def summaries(
    blocks: tuple[ObservedBlock, ...],
    likelihoods: Mapping[str, Likelihood],
    total: Callable[..., Any],
) -> tuple[Summary, ...]:
    """What is known of each block by all rows, in three sums over their entries.

    ``total(question, *arguments)`` is the sum of ``question(entries, *arguments)`` over entries
    that have no summary yet, wherever they are.
    """
    counts, sums = zip(*total(column_sums), strict=True)
    means = tuple(own / np.maximum(n, 1) for own, n in zip(sums, counts, strict=True))
    # Twice, for the mean of numbers far from 0 is off by their rounding.
    left = total(sums_about, means)
    means = tuple(
        own + more / np.maximum(n, 1) for own, more, n in zip(means, left, counts, strict=True)
    )
    middles = tuple(
        float(np.sum(n * own) / max(np.sum(n), 1)) for own, n in zip(means, counts, strict=True)
    )
    centres = tuple(map(centres_of, blocks, means, counts))
    squares = total(squares_about, centres, middles)
    return tuple(
        summary_of(own, likelihoods[own.block.name], *given)
        for own, *given in zip(blocks, centres, counts, squares, strict=True)
    )


def column_sums(observed: Observed) -> tuple[tuple[Array, Array], ...]:
    """The entries of each column of each block, and the sums of the values of locations."""
    found = []
    for own in observed.blocks:
        n_columns = (own.columns.stop - own.columns.start) // own.block.likelihood.width
        counts = np.bincount(own.at, minlength=n_columns).astype(float)
        location = own.block.likelihood.location
        values = summed(own, own.y, n_columns) if location else np.zeros(n_columns)
        found.append((counts, values))
    return tuple(found)


def summed(own: ObservedBlock, numbers: Array, n_columns: int) -> Array:
    """The sums of numbers of the entries of a block by its columns."""
    return np.asarray(np.bincount(own.at, numbers, n_columns), dtype=np.float64)


def sums_about(observed: Observed, means: tuple[Array, ...]) -> tuple[Array, ...]:
    """The sums of values of locations less these means of their columns."""
    return tuple(
        summed(own, own.y - mean[own.at], mean.size)
        if own.block.likelihood.location
        else np.zeros(mean.size)
        for own, mean in zip(observed.blocks, means, strict=True)
    )


def squares_about(
    observed: Observed, centres: tuple[Array, ...], middles: tuple[float, ...]
) -> tuple[tuple[Any, ...], ...]:
    """Of each block sums of squares and of logarithms of weights.

    Of squares of values of locations less the centres of their columns, by column; of all less
    one number, and of all.
    """
    found: list[tuple[Any, ...]] = []
    for own, centre, middle in zip(observed.blocks, centres, middles, strict=True):
        with np.errstate(divide="ignore"):
            logs = 0.0 if own.weights is None else float(np.sum(np.log(own.weights)))
        if not own.block.likelihood.location:
            found.append((np.zeros(centre.size), 0.0, 0.0, logs))
            continue
        away = summed(own, np.square(own.y - centre[own.at]), centre.size)
        spread = float(np.sum(np.square(own.y - middle)))
        found.append((away, spread, float(np.sum(np.square(own.y))), logs))
    return tuple(found)


def centres_of(own: ObservedBlock, means: Array, counts: Array) -> Array:
    """What values and biases are counted from in each column of Z: means of locations, else 0."""
    width = own.block.likelihood.width
    if not (own.block.likelihood.location and own.block.bias):
        return np.zeros(means.size * width)
    empty = counts == 0
    if empty.any() and not empty.all():
        return np.where(empty, np.mean(means[~empty]), means)
    return means


def summary_of(
    own: ObservedBlock, likelihood: Likelihood, centres: Array, counts: Array, sums: Any
) -> Summary:
    """The summary of a block by ``squares_about``.

    Mean squares of columns with few entries are shrunk towards that of the others, on the scale
    of logarithms, since the units of columns may differ by orders of magnitude.
    """
    by_column, spread, square, log_weights = sums
    usual_square, mean_squares, size = 1.0, np.ones(centres.size), float(np.sum(counts))
    if likelihood.location and size:
        usual_square = spread / size or square / size or 1.0
        seen = by_column > 0.0
        mean_squares = np.full(centres.size, usual_square)
        if seen.any():
            logs = np.log(by_column[seen] / counts[seen])
            usual = np.average(logs, weights=counts[seen])
            weights = np.where(seen, counts, 0.0)
            shrunk = np.full(centres.size, usual)
            shrunk[seen] = (weights[seen] * logs + DRAWN * usual) / (weights[seen] + DRAWN)
            mean_squares = np.exp(shrunk)
    return Summary(
        likelihood=likelihood,
        centres=centres,
        counts=np.repeat(counts, likelihood.width),
        mean_squares=mean_squares,
        usual_square=usual_square,
        log_weights=log_weights,
    )


def ordered(shape: tuple[int, int], rows: list[IntArray], columns: list[IntArray]) -> Compressed:
    """Numbers at these places by rows."""
    row, column = np.concatenate(rows), np.concatenate(columns)
    places = np.arange(row.size, dtype=np.int32)
    return Compressed.of(sp.coo_array((places, (row, column)), shape=shape).tocsr())

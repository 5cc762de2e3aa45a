"""The entries of a problem as the posterior reads them: Gaussian pseudo-observations."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import ExpectedLogLikelihood, Likelihood, Parametric
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Layout, Problem
from mcframe.model.layout import layout_of
from mcframe.model.table import Table
from mcframe.numerics.gaussian_bounds import best_gaussian
from mcframe.numerics.sampled import Compressed

LOG_TWO_PI = float(np.log(2.0 * np.pi))
# Mean squares of columns are shrunk towards that of all columns, which counts as so many entries.
DRAWN = 10.0


@attrs.frozen(eq=False)
class ObservedBlock:
    """The entries of one block: y of (N,), N numbers of z, or N K of K classes, row after row.

    ``part`` is where its numbers stand among those of all blocks, ``columns`` which columns of Z
    are its own. ``weights`` say how often each entry counts; None for once. The entries of row r
    are those from ``starts[r]`` to ``starts[r + 1]``. Of locations with biases y is counted from
    the ``centres`` of the columns of Z, and so are the biases; ``at`` says in which column of the
    block each entry stands.
    """

    block: Block
    likelihood: Likelihood
    layout: Layout
    y: Array
    weights: Array | None
    offset: Array | None
    part: slice
    columns: slice
    starts: IntArray
    ridge: float
    centres: Array
    at: IntArray

    @property
    def noise(self) -> str | None:
        """Which noise variance is unknown: one for each "column", one for the "block", or None.

        The variance of a block is that of a Gaussian which is added to its predictors, where no
        parabola lies below the log likelihood (see ``ExpectedLogLikelihood``).
        """
        if isinstance(self.likelihood, Gaussian) and self.likelihood.variance is None:
            return "column"
        return "block" if isinstance(self.likelihood, ExpectedLogLikelihood) else None

    @cached_property
    def usual_square(self) -> float:
        """The mean square that the priors of effects expect, in the units of z."""
        if not self.likelihood.location or not self.y.size:
            return 1.0
        values = self.y + self.centres[self.at]
        return float(np.var(values)) or float(np.mean(np.square(values))) or 1.0

    @cached_property
    def squares(self) -> Array:
        """About the mean square of the values of each column of Z; 1 where z has no unit.

        Those of columns with few entries are shrunk towards that of the others, on the scale of
        logarithms, since the units of columns may differ by orders of magnitude.
        """
        if not self.likelihood.location:
            return np.ones(self.centres.size)
        counts = np.bincount(self.at, minlength=self.centres.size)
        sums = np.bincount(self.at, np.square(self.y), self.centres.size)
        seen = sums > 0.0
        if not seen.any():
            return np.full(self.centres.size, self.usual_square)
        logs = np.log(sums[seen] / counts[seen])
        usual, weights = np.average(logs, weights=counts[seen]), np.where(seen, counts, 0.0)
        found = np.full(self.centres.size, usual)
        found[seen] = (weights[seen] * logs + DRAWN * usual) / (weights[seen] + DRAWN)
        return np.exp(found)

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
        fitted: Any = declared.with_parameters(found)
        if sd is not None and start is not None:
            # Thresholds that are best at infinity stay where they are: the bound has a tail.
            bounds = []
            for each in (likelihood, fitted):
                value, precision, constants = each.gaussian_bound(z, np.square(sd), self.y)
                away = np.square(z - value) + np.square(sd)
                bounds.append(np.sum(weights * (constants - 0.5 * precision * away)))
            fitted = likelihood if bounds[0] >= bounds[1] else fitted
        return attrs.evolve(self, likelihood=fitted)

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
        if self.noise == "column":
            return PseudoObservations(y, np.broadcast_to(weight, y.shape))
        shaped = (-1, likelihood.width) if likelihood.width > 1 else (-1,)
        mean, variance = mean.reshape(shaped), variance.reshape(shaped)
        offset = 0.0 if self.offset is None else self.offset[entries]
        if self.noise == "block":
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
        """The entries of a problem, values of standardised blocks in standard units.

        Weights of blocks and entries multiply log likelihoods. Those by which ``standardize``
        divides columns do not: the scale of a log likelihood is part of it. ``tables`` of new rows
        may be given with the entries that are ``known``, whose centres are taken.
        """
        blocks: list[ObservedBlock] = []
        rows, columns, start = [], [], 0
        tables = problem.tables if tables is None else tables
        n_rows = next(iter(tables.values())).shape[0]
        for b, block in enumerate(problem.model.blocks):
            name = block.name
            table = tables[name] if name in tables else nothing(problem, name, n_rows)
            width, here = block.likelihood.width, problem.columns(block.name)
            stop = start + table.n_entries * width
            centres = centres_of(block, table) if known is None else known.blocks[b].centres
            weights, scale = table.as_given().weights, problem.scale(name)
            if scale != 1.0:
                weights = np.full(table.n_entries, scale) if weights is None else scale * weights
            blocks.append(
                ObservedBlock(
                    block=block,
                    likelihood=known.blocks[b].likelihood if known else problem.likelihoods[name],
                    layout=layout_of(block, table),
                    y=centred(block, table, centres),
                    weights=weights,
                    offset=None if block.likelihood.location else table.offsets,
                    part=slice(start, stop),
                    columns=here,
                    starts=np.searchsorted(table.rows, np.arange(table.shape[0] + 1)),
                    ridge=problem.ridge(name),
                    centres=centres,
                    at=table.columns,
                )
            )
            rows.append(np.repeat(table.rows, width))
            columns.append(
                (here.start + table.columns[:, None] * width + np.arange(width)).ravel()
            )
            start = stop
        shape = n_rows, problem.n_block_columns
        if known is None:
            blocks = [own.fitted(np.zeros(own.y.size), None) for own in blocks]
        return cls(shape, tuple(blocks), ordered(shape, rows, columns))

    @property
    def fits_parameters(self) -> bool:
        """Whether a likelihood has parameters that are fitted with z."""
        return any(own.layout.n_parameters for own in self.blocks)

    def fitted(self, mean: Array, variance: Array) -> "Observed":
        """The entries with fitted parameters where all numbers of z have these moments."""
        sd = np.sqrt(variance)
        blocks = [own.fitted(mean[own.part], sd[own.part]) for own in self.blocks]
        return attrs.evolve(self, blocks=tuple(blocks))

    @cached_property
    def columns_with_noise(self) -> IntArray:
        """The columns of Z that have an unknown noise variance each."""
        own = [block.columns for block in self.blocks if block.noise == "column"]
        return np.concatenate([np.arange(c.start, c.stop) for c in own]) if own else np.arange(0)

    @cached_property
    def counts(self) -> Array:
        """The number of numbers of z in each column of Z."""
        counts = np.bincount(self.by_rows.across, minlength=self.shape[1])
        return counts.astype(np.float64)

    @cached_property
    def squares(self) -> Array:
        """The mean square of the values of each column of Z; 1 where z has no unit."""
        return np.concatenate([block.squares for block in self.blocks])

    @cached_property
    def cells(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of Z of all numbers, block after block."""
        rows, columns = np.empty(self.size, dtype=np.intp), np.empty(self.size, dtype=np.intp)
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
        """The number of entries of all blocks."""
        return sum(int(block.y.size) for block in self.blocks)

    @property
    def size(self) -> int:
        """The number of numbers of z."""
        return self.blocks[-1].part.stop


def nothing(problem: Problem, name: str, n_rows: int) -> Table:
    """The table of a block of which new rows have no entry."""
    fitted, nowhere = problem.tables[name], np.zeros(0, dtype=np.intp)
    empty = Table((n_rows, fitted.shape[1]), nowhere, nowhere, np.zeros(0))
    return empty.on_standard_of(fitted)


def centres_of(block: Block, table: Table) -> Array:
    """What values and biases are counted from in each column of Z: means of locations, else 0."""
    centres = np.zeros(table.shape[1] * block.likelihood.width)
    if block.likelihood.location and block.bias:
        values = table.less_offsets()
        counts = np.maximum(np.bincount(table.columns, minlength=centres.size), 1)
        for _ in range(2):  # for the mean of numbers far from 0 is off by their rounding
            left = values - centres[table.columns]
            centres = centres + np.bincount(table.columns, left, centres.size) / counts
        empty = np.bincount(table.columns, minlength=centres.size) == 0
        if empty.any() and not empty.all():
            centres[empty] = np.mean(centres[~empty])
    return centres


def centred(block: Block, table: Table, centres: Array) -> Array:
    """The targets of a block's entries."""
    if not block.likelihood.location:
        return table.values
    return table.less_offsets() - centres[table.columns]


def ordered(shape: tuple[int, int], rows: list[IntArray], columns: list[IntArray]) -> Compressed:
    """Numbers at these places by rows."""
    row, column = np.concatenate(rows), np.concatenate(columns)
    places = np.arange(row.size, dtype=np.int32)
    return Compressed.of(sp.coo_array((places, (row, column)), shape=shape).tocsr())

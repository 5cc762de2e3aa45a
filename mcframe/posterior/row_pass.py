"""The half of a sweep over rows: their Gaussians given the columns, and the sums for columns.

Given the columns rows are independent. So the rows of a table may be in several places, each a
part: what a part is asked here are functions of it and of small arrays, and the sums of all parts
add up to those of the table. Data in memory are one part.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS, MOST_STEPS
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.coefficients import AttributeSums
from mcframe.posterior.factor_state import FactorState
from mcframe.posterior.gaussians import ROWS_PER_CHUNK, Gaussians, gaussians_given
from mcframe.posterior.linear_response import RowsGiven
from mcframe.posterior.observed import Observed, Summary
from mcframe.runtime.machine import check_time, limits_blas, share

# Sums over rows are taken in so many parts at most, of so many multiplications at least, so that
# the order of summation does not depend on the threads.
MOST_SUM_PARTS, LEAST_MULTIPLICATIONS = 8, 2_000_000
# Sums over numbers are products of matrices with zeros, which take less time than loops, where
# there are more than this share of the cells, plus the second one over multiplications for one.
LEAST_DENSE_SHARE, DENSE_CELL_COST = 0.1, 6.0
# Rounds in which rows and the bounds of their entries are found given each other, at most, where
# bounds of an earlier sweep are not known; and the change of the means, over their size, that ends
# them.
MEAN_TOLERANCE = 1e-9
# The Gaussians of rows of which something was asked are kept in tables with at most so many means
# and covariances: each column of a table is asked by itself, of almost the same rows.
MOST_KEPT_NUMBERS = 16_000_000


@attrs.frozen(eq=False)
class RowSums:
    """Sums over the entries of some rows, and over the rows themselves.

    Attributes
    ----------
    matrices, vectors : arrays (n_columns x P), (n_columns x K)
        Normal equations of the columns, before a division by learned noise variances.
    totals : array (n_columns x 2)
        Sums of precisions and of precision * value^2.
    outer_products : array (P,)
        The sum over rows of E[x x'], without what attributes say of them.
    variance_sums : array (n_blocks,)
        Sums of the variances of predictors with noise of their own.
    constants, log_determinants, rounding : arrays of no dimension
        Of the bounds of entries, of the rows' covariances, and how far rounding of offsets may
        move the bounds.
    """

    matrices: Array
    vectors: Array
    totals: Array
    outer_products: Array
    variance_sums: Array
    constants: Array
    log_determinants: Array
    rounding: Array

    @classmethod
    def zeros(cls, n_columns: int, width: int, n_blocks: int) -> "RowSums":
        """The sums over no rows."""
        size = loops.packed_size(width)
        shapes = (n_columns, size), (n_columns, width), (n_columns, 2), size, n_blocks
        return cls(*(np.zeros(shape) for shape in shapes), *(np.zeros(()) for _ in range(3)))

    def __add__(self, other: "RowSums") -> "RowSums":
        mine, theirs = (attrs.astuple(sums, recurse=False) for sums in (self, other))
        return RowSums(*(one + another for one, another in zip(mine, theirs, strict=True)))


class SweptRows(Protocol):
    """The rows of Gaussian factors, wherever they are."""

    def sums(self, summaries: tuple[Summary, ...], state: FactorState, key: str) -> RowSums:
        """The sums over all rows; bounds of entries are kept by this key."""
        ...

    def fitted(self, observed: Observed, state: FactorState) -> Observed:
        """The entries with the parameters of likelihoods that suit the predictors best."""
        ...

    def attribute_sums(self, summaries: tuple[Summary, ...], state: FactorState) -> AttributeSums:
        """The sums by which rows given the columns determine coefficients of attributes."""
        ...

    def rows_given(
        self, rows: IntArray, summaries: tuple[Summary, ...], state: FactorState
    ) -> RowsGiven:
        """Some rows given the columns; rows are in ascending order."""
        ...

    def for_sweeps(self) -> "SweptRows":
        """Rows for further sweeps, which keep bounds of entries of their own."""
        ...

    def without_bounds(self) -> "SweptRows":
        """Rows that keep no bounds of entries: these are found anew, given the columns."""
        ...


@stored(recomputed=("latest",), formerly_none=("partitions",))
@attrs.define(eq=False)
class PosteriorRows:
    """The rows of Gaussian factors, all of them in this process.

    They are the only part of a table: ``program`` are its entries, and ``kept`` the bounds of
    these.
    """

    program: Observed
    kept: dict[str, Array] = attrs.field(factory=dict)
    latest: "tuple[FactorState, RowPass] | None" = None  # of the rows that were asked for last

    def keep(self, key: str, numbers: Array) -> None:
        """Keep the numbers of this sweep, and forget those of earlier ones."""
        sweep = key.partition("/")[0] + "/"
        self.kept = {name: array for name, array in self.kept.items() if name.startswith(sweep)}
        self.kept[key] = numbers

    def sums(self, summaries: tuple[Summary, ...], state: FactorState, key: str) -> RowSums:
        """The sums over all rows; bounds of entries are kept by this key."""
        return row_sums(self, summaries, state, key)

    def fitted(self, observed: Observed, state: FactorState) -> Observed:
        """The entries with the parameters of likelihoods that suit the predictors best."""
        mean, variance = row_pass(self, observed.summaries, state).all_moments()
        return observed.fitted(mean, np.sqrt(variance))

    def rows_given(
        self, rows: IntArray, summaries: tuple[Summary, ...], state: FactorState
    ) -> RowsGiven:
        """Some rows given the columns; rows are in ascending order."""
        if self.latest is None or self.latest[0] is not state:
            self.latest = state, row_pass(self, summaries, state)
        return self.latest[1].of_rows(rows)

    def attribute_sums(self, summaries: tuple[Summary, ...], state: FactorState) -> AttributeSums:
        """The sums by which rows given the columns determine coefficients of attributes."""
        assert state.row_coefficients is not None
        parts = row_pass(self, summaries, state).without_attributes()
        return AttributeSums.of(state.row_coefficients.attributes, *parts)

    def for_sweeps(self) -> "PosteriorRows":
        """Rows for further sweeps, which keep bounds of entries of their own."""
        return PosteriorRows(self.program)

    def without_bounds(self) -> "PosteriorRows":
        """Rows that keep no bounds of entries: these are found anew, given the columns."""
        return PosteriorRows(self.program)

    def __reduce__(self) -> tuple[Any, ...]:
        return PosteriorRows, (self.program, self.kept)


@attrs.frozen(eq=False)
class RowPass:
    """One pass over rows: their Gaussians given the columns, new bounds, and sums for columns.

    ``values`` and ``precisions`` are a Gaussian observation of each number of z, precisions yet to
    be divided by learned noise variances. ``refresh`` overwrites them in place. Of the chunks of
    rows that are ``unsettled`` they have to be found given the columns, by ``settle``. Gaussians
    of chunks that were asked for are ``kept``.
    """

    observed: Observed
    state: FactorState
    values: Array
    precisions: Array
    unsettled: set[int] = attrs.field(factory=set)
    kept: dict[int, Gaussians] = attrs.field(factory=dict)

    @cached_property
    def column_products(self) -> Array:
        """E[w w'] of the columns, packed."""
        return self.state.columns.outer_products

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Arrays for means and variances of all numbers of z; 0 where no bound needs them."""
        return np.zeros(self.observed.n_numbers), np.zeros(self.observed.n_numbers)

    @property
    def places(self) -> tuple[IntArray, IntArray, IntArray]:
        """The starts of the numbers of z of each row, their columns, and their places."""
        by_rows = self.observed.by_rows
        return by_rows.starts, by_rows.across, by_rows.places

    def equations(self, first: int, last: int) -> tuple[Array, Array]:
        """The normal equations of some rows given the columns, without priors."""
        design, priors, columns = self.state.design, self.state.priors, self.state.columns
        matrices = np.zeros((last - first, loops.packed_size(design.width)))
        vectors = np.zeros((last - first, design.width))
        if self.is_dense:
            scales = 1.0 / priors.noise[:, None]
            squares, means = scales * self.column_products, scales * columns.means
            for rows, weights, products, _ in self.dense_numbers(first, last):
                np.matmul(weights, squares, out=matrices[rows])
                np.matmul(products, means, out=vectors[rows])
            return matrices, vectors
        numbers = (*self.places, self.values, self.precisions)
        moments = 1.0 / priors.noise, columns.means, self.column_products
        loops.add_by_rows(first, last, *numbers, *moments, matrices, vectors)
        return matrices, vectors

    @property
    def is_dense(self) -> bool:
        """True if products of matrices take less time than loops over the numbers."""
        n_rows, n_columns = self.observed.shape
        size = max(loops.packed_size(self.state.design.width), 1)
        least = n_rows * n_columns * (LEAST_DENSE_SHARE + DENSE_CELL_COST / size)
        return self.observed.n_numbers > least

    def dense_numbers(self, first: int, last: int) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Some rows, a part at a time: which of them, counted from the first, and their numbers.

        These are precisions, and precisions times values (n x n_columns), 0 where missing, and
        their sums for columns, as ``totals`` of ``RowSums``.
        """
        n_columns = self.observed.shape[1]
        step = max(BATCH_NUMBERS // n_columns, 1)
        for begin in range(first, last, step):
            end = min(begin + step, last)
            weights, products = np.zeros((2, end - begin, n_columns))
            totals = np.zeros((n_columns, 2))
            numbers = (*self.places, self.values, self.precisions)
            loops.scatter_rows(begin, end, *numbers, weights, products, totals)
            yield slice(begin - first, end - first), weights, products, totals

    def add_to_columns(self, first: int, last: int, gaussians: Gaussians, sums: RowSums) -> Array:
        """Add some rows to the normal equations of columns; E[x x'] of these rows, packed."""
        products = gaussians.outer_products
        if not self.is_dense:
            numbers = (*self.places, self.values, self.precisions)
            equations = sums.matrices, sums.vectors, sums.totals
            loops.add_by_columns(first, last, *numbers, gaussians.means, products, *equations)
            return products
        for rows, weights, weighted_values, totals in self.dense_numbers(first, last):
            sums.matrices[:] += weights.T @ products[rows]
            sums.vectors[:] += weighted_values.T @ gaussians.means[rows]
            sums.totals[:] += totals
        return products

    def gaussians(self, first: int, last: int) -> Gaussians:
        """The Gaussians of some rows given the columns."""
        design, coefficients = self.state.design, self.state.row_coefficients
        means: Array = np.zeros((1, design.width))
        if coefficients is not None:
            means = coefficients.means[first:last]
        fixed = design.row_free, design.row_fixed_values
        prior = self.state.priors.of_rows(design), means
        gaussians = gaussians_given(*self.equations(first, last), *fixed, *prior)
        if coefficients is not None:
            gaussians.covariances[:] += coefficients.covariances[first:last]
        return gaussians

    def without_attributes(self) -> tuple[Array, Gaussians, Array, Array]:
        """All rows given the columns under coefficients of 0, for ``AttributeSums``.

        The matrices of their normal equations, their Gaussians less what is fixed, the other prior
        means, and the prior precisions.
        """
        design, precisions = self.state.design, self.state.priors.of_rows(self.state.design)
        matrices, vectors = self.equations(0, self.observed.shape[0])
        fixed, nothing = (design.row_free, design.row_fixed_values), np.zeros(precisions.shape)
        rows = gaussians_given(matrices, vectors, *fixed, precisions, nothing)
        rows = attrs.evolve(rows, means=rows.means - design.row_fixed_values)
        return matrices, rows, nothing, precisions

    def deviations(self, first: int, last: int, gaussians: Gaussians) -> Gaussians:
        """Some rows without what attributes say of them."""
        coefficients = self.state.row_coefficients
        if coefficients is None:
            return gaussians
        return coefficients.deviations(gaussians, slice(first, last))

    def refresh(
        self, first: int, last: int, gaussians: Gaussians, expects: bool = False
    ) -> tuple[float, float, Array]:
        """Find the best bounds of some rows' entries, or what they have in their place.

        Their ``constants``, ``rounding`` and ``variance_sums``.
        """
        observed = self.observed
        variance_sums = np.zeros(len(observed.blocks))
        constants = rounding = 0.0
        mean, variance = self.moments
        if observed.needs_bounds:
            self.find_moments(first, last, gaussians)
        for b, block in enumerate(observed.blocks):
            if block.learned_noise == "column":
                continue
            if block.learned_noise == "block" and self.state.expects and not expects:
                continue  # they stay where they begin
            entries = block.entries(first, last)
            numbers = block.numbers(entries)
            noise = self.noise_of(b)
            moments = mean[numbers], variance[numbers]
            if expects and block.has_expectations:
                pseudo = block.expected_observations(entries, *moments, float(noise[0]))
            else:
                pseudo = block.pseudo_observations(entries, *moments, float(noise[0]))
            self.values[numbers], self.precisions[numbers] = pseudo.values, pseudo.precisions
            if block.learned_noise == "block" or not expects:
                constants += pseudo.constant
            rounding += pseudo.rounding
            variance_sums[b] += pseudo.variance_sum
        return constants, rounding, variance_sums

    def noise_of(self, b: int) -> Array:
        """The noise variances of the columns of a block."""
        columns, of_predictors = self.observed.blocks[b].columns, self.state.predictor_noise
        if of_predictors is None or self.observed.blocks[b].learned_noise != "block":
            return self.state.priors.noise[columns]
        return of_predictors[b : b + 1]

    def expected_bounds(self, first: int, last: int) -> float:
        """The expected bounds of rows whose ``moments`` were found last, as far as these matter.

        Beside expected log likelihoods of noisy predictors: of all other blocks.
        """
        mean, variance = self.moments
        total = 0.0
        for b, block in enumerate(self.observed.blocks):
            if block.learned_noise != "block":
                entries = block.entries(first, last)
                numbers = block.numbers(entries)
                moments = mean[numbers], variance[numbers]
                total += block.expected_bounds(entries, *moments, self.noise_of(b))
        return total

    def find_moments(self, first: int, last: int, gaussians: Gaussians) -> None:
        """Write ``moments`` of the numbers of z in some rows, which have these distributions."""
        columns = self.state.columns
        of_rows = gaussians.means, gaussians.covariances
        of_columns = columns.means, columns.covariances
        loops.predictor_moments(first, last, *self.places, *of_rows, *of_columns, *self.moments)

    def all_moments(self) -> tuple[Array, Array]:
        """Means and variances of all numbers of z, rows given the columns."""
        for chunk in range(-(-self.observed.shape[0] // ROWS_PER_CHUNK)):
            self.find_moments(*self.settled_chunk(chunk))
        return self.moments

    def sums(self, first: int, last: int) -> RowSums:
        """The sums over some rows."""
        observed = self.observed
        width = self.state.design.width
        sums = RowSums.zeros(observed.shape[1], width, len(observed.blocks))
        for begin in range(first, last, ROWS_PER_CHUNK):
            check_time()
            end = min(begin + ROWS_PER_CHUNK, last)
            gaussians = self.gaussians(begin, end)
            constants, rounding, variance_sums = self.refresh(
                begin, end, gaussians, self.state.expects
            )
            products = self.add_to_columns(begin, end, gaussians, sums)
            deviations = self.deviations(begin, end, gaussians)
            if deviations is not gaussians:
                products = deviations.outer_products
            sums.outer_products[:] += np.sum(products, axis=0)
            sums.variance_sums[:] += variance_sums
            sums.constants[...] += constants
            if self.state.predictor_noise is not None:
                sums.constants[...] += self.expected_bounds(begin, end)
            sums.log_determinants[...] += float(np.sum(gaussians.log_determinants))
            sums.rounding[...] += rounding
        return sums

    @limits_blas
    def all_sums(self) -> RowSums:
        """The sums over all rows, by threads; in the same order for any number of these."""
        rows, n_rows = self.observed.by_rows, self.observed.shape[0]
        cost = rows.across.size * loops.packed_size(self.state.design.width)
        count = int(np.clip(cost // LEAST_MULTIPLICATIONS, 1, MOST_SUM_PARTS))
        places = np.searchsorted(rows.starts, np.linspace(0, rows.starts[-1], count + 1)[1:-1])
        cuts = (0, *np.unique(np.clip(places, 1, n_rows - 1)).tolist(), n_rows)
        sums: dict[int, RowSums] = {}

        def work(first: int, last: int) -> None:
            sums[first] = self.sums(first, last)

        _ = self.column_products, self.moments  # before threads ask for them
        if self.state.row_coefficients is not None:
            _ = self.state.row_coefficients.means, self.state.row_coefficients.covariances
        share(work, sorted(set(cuts)))
        ordered = [sums[first] for first in sorted(sums)]
        return sum(ordered[1:], start=ordered[0])

    @limits_blas
    def settled_chunk(self, chunk: int) -> tuple[int, int, Gaussians]:
        """A chunk of rows: the first one, the one after the last, and their Gaussians."""
        first, last = (
            chunk * ROWS_PER_CHUNK,
            min((chunk + 1) * ROWS_PER_CHUNK, self.observed.shape[0]),
        )
        if chunk in self.unsettled:
            self.settle(first, last)
            self.unsettled.discard(chunk)
        gaussians = self.kept.get(chunk)
        if gaussians is None:
            gaussians = self.gaussians(first, last)
            width = self.state.design.width
            if self.observed.shape[0] * width * (width + 1) <= MOST_KEPT_NUMBERS:
                self.kept[chunk] = gaussians
        return first, last, gaussians

    def settle(self, first: int, last: int) -> None:
        """Find rows and the bounds of their entries given each other, the columns as they are.

        Both together maximise the same bound; by expectations, that with the expected log
        likelihoods themselves.
        """
        # Expectations are found from where the bounds end: from far off their steps might diverge.
        for expects in (False, True) if self.state.expects else (False,):
            last_means: Array | float = np.inf
            for _ in range(MOST_STEPS):
                check_time()
                gaussians = self.gaussians(first, last)
                self.refresh(first, last, gaussians, expects)
                changes = np.abs(gaussians.means - last_means)
                last_means = gaussians.means
                if np.all(changes <= MEAN_TOLERANCE * (1.0 + np.abs(last_means))):
                    break

    def of_rows(self, rows: IntArray) -> RowsGiven:
        """Some rows given the columns; rows are in ascending order."""
        parts = []
        starts, across, places = self.places
        for chunk in map(int, np.unique(rows // ROWS_PER_CHUNK)):
            first, last, gaussians = self.settled_chunk(chunk)
            chosen = rows[(rows >= first) & (rows < last)]
            counts = starts[chosen + 1] - starts[chosen]
            ends = np.concatenate([np.zeros(1, dtype=np.intp), np.cumsum(counts)])
            numbers = np.arange(ends[-1]) + np.repeat(starts[chosen] - ends[:-1], counts)
            columns, at = across[numbers].astype(np.intp), places[numbers]
            precisions = self.precisions[at] / self.state.priors.noise[columns]
            entries = ends, columns, self.values[at], precisions
            parts.append(RowsGiven(gaussians.take(chosen - first), *entries))
        return RowsGiven.joined(parts)


def row_pass(part: Any, summaries: tuple[Summary, ...], state: FactorState) -> RowPass:
    """The pass over the rows of a part, with the bounds that the last sweep found there.

    Where the part has not kept them, as in a process that takes the place of another, bounds are
    found given the present columns: they are at least as tight once they have settled.

    Parameters
    ----------
    part : PosteriorRows, or a part of the rows in a store
        Its ``program`` are the ``Observed`` entries of its rows; it can ``keep`` arrays by name.
    summaries : tuple of Summary
    state : FactorState
    """
    observed: Observed = part.program.with_summaries(summaries)
    names = f"{state.key}/values", f"{state.key}/precisions"
    if all(name in part.kept for name in names):
        for name in names:
            part.keep(name, part.kept.pop(name))  # asked for last, and so forgotten last
        values, precisions = (np.array(part.kept[name]) for name in names)
        return RowPass(observed, state, values, precisions)
    values, precisions = np.empty(observed.n_numbers), np.empty(observed.n_numbers)
    for block in observed.blocks:
        size, entries = block.part.stop - block.part.start, slice(0, block.y.size)
        pseudo = block.pseudo_observations(entries, np.zeros(size), np.ones(size), 1.0)
        values[block.part], precisions[block.part] = pseudo.values, pseudo.precisions
    waits = state.key and observed.needs_bounds
    n_chunks = -(-observed.shape[0] // ROWS_PER_CHUNK)
    return RowPass(observed, state, values, precisions, set(range(n_chunks)) if waits else set())


def row_sums(part: Any, summaries: tuple[Summary, ...], state: FactorState, key: str) -> RowSums:
    """The sums over the rows of a part, which keeps the bounds of its entries by this key."""
    rows = row_pass(part, summaries, state)
    for chunk in sorted(rows.unsettled):
        rows.settled_chunk(chunk)
    sums = rows.all_sums()
    if rows.observed.needs_bounds:
        part.keep(f"{key}/values", rows.values)
        part.keep(f"{key}/precisions", rows.precisions)
    return sums

"""The half of a sweep over rows: their Gaussians given the columns, and the sums for columns."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.machine import check_time
from mcframe.numerics.threads import share
from mcframe.posterior.factor_state import FactorState, Gaussians, gaussians_given
from mcframe.posterior.observed import Observed

# Rows that are worked on at a time.
CHUNK = 2048
# Sums over rows are taken in so many parts at most, of so many multiplications at least, so that
# the order of summation does not depend on the threads.
PARTS, PART = 8, 2_000_000


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
        The sum over rows of E[x x'].
    spreads : array (n_blocks,)
        Sums of the variances of predictors with noise of their own.
    scalars : array (2,)
        The constants of the bounds, and the log determinants of the rows' covariances.
    """

    matrices: Array
    vectors: Array
    totals: Array
    outer_products: Array
    spreads: Array
    scalars: Array

    @classmethod
    def zeros(cls, n_columns: int, width: int, n_blocks: int) -> "RowSums":
        """The sums over no rows."""
        size = loops.packed_size(width)
        shapes = (n_columns, size), (n_columns, width), (n_columns, 2), size, n_blocks, 2
        return cls(*(np.zeros(shape) for shape in shapes))

    def __add__(self, other: "RowSums") -> "RowSums":
        mine = attrs.astuple(self, recurse=False)
        theirs = attrs.astuple(other, recurse=False)
        return RowSums(*(one + another for one, another in zip(mine, theirs, strict=True)))


@attrs.frozen(eq=False)
class RowPass:
    """One pass over rows: their Gaussians given the columns, new bounds, and sums for columns.

    Given the columns rows are independent, so that the sums of any groups of rows add up to those
    of all. ``refresh`` overwrites the state's ``values`` and ``precisions`` in place.
    """

    observed: Observed
    state: FactorState

    @cached_property
    def column_products(self) -> Array:
        """E[w w'] of the columns, packed."""
        return self.state.columns.outer_products

    def gaussians(self, first: int, last: int) -> Gaussians:
        """The Gaussians of some rows given the columns."""
        state, rows = self.state, self.observed.by_rows
        width = state.design.width
        matrices = np.zeros((last - first, loops.packed_size(width)))
        vectors = np.zeros((last - first, width))
        loops.add_by_rows(
            first,
            last,
            rows.starts,
            rows.across,
            rows.places,
            state.values,
            state.precisions,
            1.0 / state.priors.noise,
            state.columns.means,
            self.column_products,
            matrices,
            vectors,
        )
        design = state.design
        precisions = state.priors.of_rows(design)
        return gaussians_given(
            matrices, vectors, design.row_free, design.row_given, precisions, np.zeros((1, width))
        )

    def refresh(self, first: int, last: int, gaussians: Gaussians) -> tuple[float, Array]:
        """Find the best bounds for the entries of some rows; constants, and spreads of blocks."""
        observed, state = self.observed, self.state
        spreads, constant = np.zeros(len(observed.blocks)), 0.0
        mean, variance = self.moments
        if mean.size:
            self.find_moments(first, last, gaussians)
        for b, block in enumerate(observed.blocks):
            if block.unknown_noise == "column":
                continue
            entries = block.entries(first, last)
            here = block.numbers(entries)
            noise = float(state.priors.noise[block.columns][0])
            pseudo = block.pseudo_observations(entries, mean[here], variance[here], noise)
            state.values[here], state.precisions[here] = pseudo.values, pseudo.precisions
            constant += pseudo.constant
            spreads[b] += pseudo.spread
        return constant, spreads

    def find_moments(self, first: int, last: int, gaussians: Gaussians) -> None:
        """Write ``moments`` of the numbers of z in some rows, which have these distributions."""
        rows, columns = self.observed.by_rows, self.state.columns
        loops.predictor_moments(
            first,
            last,
            rows.starts,
            rows.across,
            rows.places,
            gaussians.means,
            gaussians.covariances,
            columns.means,
            columns.covariances,
            *self.moments,
        )

    def all_moments(self) -> tuple[Array, Array]:
        """Means and variances of all numbers of z, rows given the columns."""
        n_rows = self.observed.shape[0]
        for first in range(0, n_rows, CHUNK):
            last = min(first + CHUNK, n_rows)
            self.find_moments(first, last, self.gaussians(first, last))
        return self.moments

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Arrays for means and variances of all numbers of z; empty where no bound needs them."""
        asked = any(block.unknown_noise != "column" for block in self.observed.blocks)
        size = self.observed.size if asked else 0
        return np.empty(size), np.empty(size)

    def sums(self, first: int, last: int) -> RowSums:
        """The sums over some rows."""
        observed, state = self.observed, self.state
        n_columns, width = state.columns.means.shape
        rows = observed.by_rows
        found = RowSums.zeros(n_columns, width, len(observed.blocks))
        for begin in range(first, last, CHUNK):
            check_time()
            end = min(begin + CHUNK, last)
            gaussians = self.gaussians(begin, end)
            constant, spreads = self.refresh(begin, end, gaussians)
            products = gaussians.outer_products
            loops.add_by_columns(
                begin,
                end,
                rows.starts,
                rows.across,
                rows.places,
                state.values,
                state.precisions,
                gaussians.means,
                products,
                found.matrices,
                found.vectors,
                found.totals,
            )
            found.outer_products[:] += np.sum(products, axis=0)
            found.spreads[:] += spreads
            found.scalars[:] += (constant, float(np.sum(gaussians.log_determinants)))
        return found

    def all_sums(self) -> RowSums:
        """The sums over all rows, by threads; in the same order for any number of these."""
        rows, width = self.observed.by_rows, self.state.design.width
        cost = rows.across.size * loops.packed_size(width)
        count = int(np.clip(cost // PART, 1, PARTS))
        places = np.searchsorted(rows.starts, np.linspace(0, rows.starts[-1], count + 1)[1:-1])
        n_rows = self.observed.shape[0]
        cuts = (0, *np.unique(np.clip(places, 1, n_rows - 1)).tolist(), n_rows)
        found: dict[int, RowSums] = {}

        def work(first: int, last: int) -> None:
            found[first] = self.sums(first, last)

        _ = self.column_products, self.moments  # before threads ask for them
        share(work, sorted(set(cuts)))
        ordered = [found[first] for first in sorted(found)]
        return sum(ordered[1:], start=ordered[0])

"""Places of the losses' numbers in Z, and whether Z is written out or kept in factors."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.numerics.operators import Dense, LowRank, Operator, Placed, Scales, Sum
from mcframe.numerics.sampled import Pattern, Sampled
from mcframe.numerics.unlabeled import Behind

# Up to which share of cells observed Z in factors is the faster form: for solvers that work on
# factors from so many rows and columns together on, where certificates of dense gradients are no
# longer the better ones, for others from so many cells on. Alternation is faster so at any share:
# on 950 x 900 with 3 % observed twice as fast with gradients at the entries as with dense ones, on
# 2,500 x 2,000 with 15 % 2.5 times, on 1,000 x 600 with 30 % 1.1 times. Proximal gradients are up
# to 1.8 times as fast dense, up to a million cells; since they leap there, which they do dense
# alone, on 1,500 x 900 with a tenth observed, too (to 1e-6 in 0.4 of the time of alternation,
# which is ahead on 2,000 x 1,500).
SPARSE, SMALL_ORDER, LARGEST_SMALL = 0.1, 400, 2_000_000
# Cells of Z from which on nothing is written out in any case, and operations for a Gram matrix
# from which on factors and certificates do without it.
LARGEST_DENSE, LARGEST_GRAM = 50_000_000, 2e10


def pays_in_factors(
    shape: Shape, n_entries: int, in_factors: bool = False, dense: bool = True
) -> bool:
    """Whether a Z of that shape with so many observed entries is kept in factors.

    Few of many cells are observed, or a dense matrix takes much memory or time. ``in_factors`` and
    ``dense`` are those of the solver: whether it works on factors, and whether it ever holds Z
    dense.
    """
    cells = shape[0] * shape[1]
    if cells > LARGEST_DENSE or (in_factors and cells * min(shape) > LARGEST_GRAM):
        return True
    large = sum(shape) > SMALL_ORDER if in_factors else cells > LARGEST_SMALL
    return large and (n_entries <= SPARSE * cells or not dense)


@attrs.frozen(eq=False)
class Place:
    """A W, in factors or written out, and the numbers ``z`` of its Z at a program's entries."""

    latent: LowRank | Array
    z: Array

    @cached_property
    def array(self) -> Array:
        """W written out (n_rows x n_columns)."""
        return self.latent.dense() if isinstance(self.latent, LowRank) else self.latent

    def columns(self, columns: slice) -> Array:
        """Some columns of W, written out."""
        part = columns.stop - columns.start < self.latent.shape[1]
        if isinstance(self.latent, LowRank) and part:
            return self.latent.columns(columns).dense()
        return self.array[:, columns]

    @property
    def factors(self) -> LowRank:
        """W in factors, where it was given so."""
        assert isinstance(self.latent, LowRank)
        return self.latent


@attrs.define(eq=False)
class Orders:
    """The places of entries raveled, and by rows and columns: found once, when asked for."""

    flat: IntArray | None = None
    pattern: Pattern | None = None


@attrs.frozen(eq=False)
class Entries:
    """The rows and columns of the numbers of all losses, in the order of the losses.

    ``sparse`` is the one decision on how Z is held: in factors, with gradients at the entries
    alone, or written out. Random starts of certificates of sparse programs are drawn from
    ``random_state`` and from the bits of the places and of ``values``.

    What a program is a function of is W, with ``Z = diag(a) W diag(b)`` where there are ``scales``
    a and b, else Z itself. Numbers here are those of Z, and gradients those in Z; matrices,
    gradients among them, are those in W.
    """

    shape: Shape
    rows: IntArray
    columns: IntArray
    values: Array
    sparse: bool = False
    random_state: int = 0
    orders: Orders = attrs.field(factory=Orders)
    scales: Scales | None = None

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(self.rows.size)

    def with_form(self, sparse: bool, random_state: int) -> "Entries":
        """The entries with Z kept in factors or not, and with a seed; their known orders stay."""
        if (sparse, random_state) == (self.sparse, self.random_state):
            return self
        return attrs.evolve(self, sparse=sparse, random_state=random_state)

    @property
    def work(self) -> None:
        """Nothing is asked of partitions."""

    @property
    def flat(self) -> IntArray:
        """The place of each number in Z, raveled."""
        if self.orders.flat is None:
            rows = self.rows.astype(np.int64, copy=False)  # the product takes 8 bytes
            self.orders.flat = rows * self.shape[1] + self.columns
        return self.orders.flat

    @property
    def pattern(self) -> Pattern:
        """Places of the entries by rows and by columns, with the seed of random starts."""
        if self.orders.pattern is None:
            pattern = Pattern.of(self.shape, self.rows, self.columns)
            self.orders.pattern = pattern.seeded_by(0, self.values)
        pattern = self.orders.pattern
        return attrs.evolve(pattern, seed=(self.random_state, *pattern.seed[1:]))

    @property
    def seed(self) -> tuple[int, ...]:
        """Whole numbers from which random starts are drawn."""
        return self.pattern.seed

    @property
    def stretch(self) -> float:
        """The largest number of a Z whose W has entries of at most 1."""
        return 1.0 if self.scales is None else self.scales.largest

    def times_scales(self, numbers: Array, power: int = 1) -> Array:
        """Numbers here, each times a power of what takes its entry of W to that of Z."""
        if self.scales is None:
            return numbers
        return numbers * self.scales.at(self.rows, self.columns) ** power

    def dot(self, numbers: Array, others: Array) -> float:
        """The sum of the products of numbers here."""
        return float(np.dot(numbers, others))

    def norm(self, numbers: Array) -> float:
        """The Euclidean norm of numbers here."""
        return float(np.linalg.norm(numbers))

    def finite(self, numbers: Array) -> bool:
        """Whether all numbers here are finite."""
        return bool(np.all(np.isfinite(numbers)))

    def place(self, latent: LowRank | Array) -> Place:
        """A W with its numbers here."""
        if isinstance(latent, LowRank):
            return Place(latent, self.of(latent))
        # In range: no check, no copy.
        z = np.take(latent, self.flat, mode="clip").astype(np.float64, copy=False)
        return Place(latent, self.times_scales(z))

    def of(self, latent: LowRank) -> Array:
        """The numbers of W = U V' here, without forming it where that takes more than they do."""
        latent = latent if self.scales is None else self.scales.of(latent)
        if not self.sparse:
            return latent.at(self.rows, self.columns)
        z = np.empty(self.size)
        left, right = np.ascontiguousarray(latent.left), np.ascontiguousarray(latent.right)
        self.pattern.entries(left, right, z)
        return z

    def matrix(
        self,
        numbers: Array,
        blocks: Sequence[tuple[slice, Array]] = (),
        others: Sequence[Operator] = (),
    ) -> Operator:
        """The matrix in W of these numbers here, 0 elsewhere, plus ``blocks`` at their columns.

        ``others``, which go with sparse entries alone, are added, too.
        """
        numbers = self.times_scales(numbers)
        if self.sparse:
            placed = [Placed(Dense(block), columns, self.shape[1]) for columns, block in blocks]
            sampled = Sampled(self.pattern, numbers)
            return Sum((sampled, *placed, *others)) if placed or others else sampled
        assert not others
        written = np.zeros(self.shape)
        written.ravel()[self.flat] = numbers
        for columns, block in blocks:
            written[:, columns] += block
        return Dense(written)


@attrs.frozen(eq=False)
class Evaluation:
    """F, the losses, and the smooth terms at a W, the best effects solved for.

    Attributes
    ----------
    losses_of_entries : float
        The losses of all entries; of rows in partitions they are asked for with the next round.
    entry_gradients : array
        The gradient in Z of each number of the losses.
    effects : tuple
        One array a block, or None; the start of solves nearby.
    values, duals : tuples
        Of each term, if it is smooth: its value, and its dual matrix. Else 0.0 and None.
    blocks : tuple of (columns, gradient)
        The gradients of the smooth terms at Z.
    """

    entries: Entries
    place: Place
    behind: Behind
    losses_of_entries: Any
    entry_gradients: Array
    effects: tuple[Array | None, ...]
    values: tuple[float, ...] = ()
    duals: tuple[Array | None, ...] = ()
    blocks: tuple[tuple[slice, Array], ...] = ()

    @cached_property
    def losses(self) -> float:
        """F: of all entries, and of unlabeled cells (``behind``), mostly of none."""
        behind = self.behind.value if self.behind else 0.0
        return float(self.losses_of_entries) + behind

    @property
    def value(self) -> float:
        """F and the smooth terms."""
        return self.losses + sum(self.values)

    @property
    def finite(self) -> bool:
        """Whether no loss overflowed."""
        return self.entries.finite(self.entry_gradients)

    @property
    def steepness(self) -> float:
        """The Euclidean norm of the losses' gradients at the entries."""
        return self.entries.norm(self.entry_gradients)

    @cached_property
    def gradient(self) -> Operator:
        """The gradient of ``value`` in W (n_rows x n_columns), which is Z without scales."""
        gradients = self.behind.beyond(self.entry_gradients)
        return self.entries.matrix(gradients, self.blocks, self.behind.gradients())

    def factor_gradients(self, left: Array, right: Array, which: Any) -> tuple[Array, Array]:
        """S V and S' U: the gradients of F(U V') in some columns of the factors of this Z.

        ``which`` says where these stand. It takes no further pass over unlabeled cells.
        """
        if not self.behind:
            return self.gradient.both_products(left, right)
        beyond = self.entries.matrix(self.behind.beyond(self.entry_gradients), self.blocks)
        pulled, pulled_back = beyond.both_products(left, right)
        forward, backward = self.behind.products
        return pulled + forward[:, which], pulled_back + backward[:, which]

    def along(self, moved: Array) -> float:
        """<S, D> of the losses of entries, for a move D of Z by so much at the entries."""
        return self.entries.dot(self.entry_gradients, moved)

    def curvature_along(self, after: "Evaluation", moved: LowRank) -> float:
        """<S_after - S, D> of the losses for Z_after = Z + D: D'H D for a mean Hessian H.

        Of unlabeled cells how far they lie above their tangent after the move, twice.
        """
        at_entries = after.place.z - self.place.z
        curved = self.entries.dot(after.entry_gradients - self.entry_gradients, at_entries)
        return curved + self.behind.curvature_along(after.behind, moved, at_entries)

"""A program evaluated at a W: values, gradient and effects."""

from functools import cached_property
from typing import Any

import attrs

from mcframe.compile.entries import Entries, Place
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank, Operator
from mcframe.numerics.unlabeled import Behind


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

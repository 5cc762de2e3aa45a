"""The nuclear norm of a block's residual on its observed entries."""

from typing import Any, NoReturn

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import DataError
from mcframe.contracts.rounding import DUAL_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Composed, Regularizer
from mcframe.contracts.validators import block_name, positive
from mcframe.regularizers.nuclear_norm import NuclearNorm


@stored
@attrs.frozen
class ResidualNuclearNorm(Regularizer):
    """``weight * ||R_Omega(Z_block - X)||_*``; Omega the observed entries of a block, X its data.

    R_Omega keeps the observed entries and sets the others to 0. The feature term of COCO (Xu
    et al. 2018, Eq. 1): a residual that is low-rank, as errors of whole rows or columns are,
    costs less than one without structure. Its value depends on the data, so it is known only
    when the model is bound to data.

    Parameters
    ----------
    block : str
    weight : float
        Positive; 1 in the paper.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> word = mc.ResidualNuclearNorm("x", weight=0.5)
    >>> rows, columns, values = np.array([0, 1]), np.array([0, 1]), np.array([3.0, 1.0])
    >>> word.bound_to((2, 2), rows, columns, values).value(np.zeros((2, 2)))
    2.0
    """

    block: str = attrs.field(validator=block_name)
    weight: float = attrs.field(validator=positive)

    needs_values = True

    def bound_to(
        self, shape: Shape, rows: IntArray, columns: IntArray, values: Array
    ) -> "BoundResidualNuclearNorm":
        """The term with the observed entries of its block."""
        return BoundResidualNuclearNorm(self.block, self.weight, shape, rows, columns, values)

    def value(self, latent: Array) -> float:
        """A ``DataError``: it needs data."""
        self.refuse()

    def conjugate(self, dual: Array) -> float:
        """A ``DataError``: it needs data."""
        self.refuse()

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """A ``DataError``: it needs data."""
        self.refuse()

    def refuse(self) -> NoReturn:
        """Say what to do."""
        raise DataError(
            f"ResidualNuclearNorm of block {self.block!r} has no data, and no value without;"
            " bind the model to data, mc.Problem.bind(model, data), or the term by bound_to"
        )

    def formula(self) -> str:
        """weight ‖R_Ω(Z_block − X)‖_*."""
        return f"{self.weight:g} ‖R_Ω(Z_{self.block} − X)‖_*"


@stored
@attrs.frozen
class BoundResidualNuclearNorm(Composed, Regularizer):
    """A ``ResidualNuclearNorm`` with the observed entries of its block, each of them once."""

    word = "ResidualNuclearNorm"

    block: str
    weight: float
    shape: Shape
    rows: IntArray = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)
    columns: IntArray = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)
    values: Array = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)

    @property
    def inner(self) -> NuclearNorm:
        """weight * the nuclear norm, of R_Omega(Z - X)."""
        return NuclearNorm(self.weight)

    def forward(self, latent: Array) -> Array:
        """R_Omega(Z - X)."""
        return self.fill_entries(latent[self.rows, self.columns] - self.values)

    def fill_entries(self, entries: Array) -> Array:
        """A matrix with these entries on Omega and 0 elsewhere."""
        matrix = np.zeros(self.shape)
        matrix[self.rows, self.columns] = entries
        return matrix

    def forward_expression(self, cp: Any, latent: Any) -> Any:
        """multiply(Omega, Z) - X."""
        observed = self.fill_entries(np.ones(self.values.size))
        return cp.multiply(observed, latent) - self.fill_entries(self.values)

    def adjoint(self, dual: Array) -> Array:
        """R_Omega(Y)."""
        return self.fill_entries(dual[self.rows, self.columns])

    def pairing(self, dual: Array) -> float:
        """The sum of Y * X over Omega."""
        return float(np.dot(dual[self.rows, self.columns], self.values))

    def conjugate_size(self, dual: Array) -> float:
        """The sum of |Y * X| over Omega."""
        return float(np.dot(np.abs(dual[self.rows, self.columns]), np.abs(self.values)))

    def conjugate(self, dual: Array) -> float:
        """<S, X> for S that is 0 off Omega with ||S||_2 <= weight, else inf: an upper bound.

        The conjugate is <S, X> wherever S is R_Omega(Y) of some Y with ||Y||_2 <= weight.
        Those who know Y ask ``inner.conjugate(Y) + pairing(Y)``.
        """
        if np.any(dual != self.adjoint(dual)):
            return np.inf
        largest = float(np.linalg.norm(dual, 2))
        return self.pairing(dual) if largest <= self.weight * (1 + DUAL_ROUNDING) else np.inf

    def nearest_dual(self, dual: Array) -> Array:
        """0 off Omega, and scaled down until its spectral norm is at most the weight."""
        kept = self.adjoint(dual)
        kept = dual if np.array_equal(kept, dual) else kept
        return self.inner.nearest_dual(kept)

    def in_units(self, unit: float) -> "BoundResidualNuclearNorm":
        """``weight * unit``, and data that are as many times smaller."""
        return attrs.evolve(self, weight=self.weight * unit, values=self.values / unit)

    def recession(self) -> "BoundResidualNuclearNorm":
        """``weight * ||R_Omega(D)||_*``, without the data."""
        return attrs.evolve(self, values=np.zeros(self.values.size))

    def formula(self) -> str:
        """weight ‖R_Ω(Z_block − X)‖_*."""
        return ResidualNuclearNorm(self.block, self.weight).formula()

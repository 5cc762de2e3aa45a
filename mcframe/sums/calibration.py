"""Known column sums, averages or contrasts of a block: the term ``Calibration``."""

from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import DataError
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import block_name, check_equations, positive, same_matrix
from mcframe.sums.known_sums import (
    ExactSums,
    KnownSums,
    MeansOrPredictors,
    SumsPenalty,
    means_or_predictors,
)


@stored
@attrs.frozen(repr=False)
class Calibration(KnownSums):
    """Linear equations ``A P = B`` in the predictors of one block, as a penalty or exactly.

    P (n_items x columns of the block) is Z plus all free effects and offsets of the block, in the
    units of the data: what ``fit.natural`` returns. Where z is the mean, as in a ``Gaussian``
    block, P is also what ``fit.predict`` returns, and the equations are known sums, means or
    contrasts of its columns. With A = (1, ..., 1) / n_items, B holds the mean of each column.
    With a weight the penalty is ``weight * ||A P - B||_F^2`` over the known equations.

    Where z is not the mean, as the log of the rate of counts or the log odds of labels, known
    totals are sums of exp(z) or of probabilities: no linear equations, and equalities of them are
    not convex. Such a block is refused unless ``of="predictors"`` says that A and B are about
    predictors, sums of log rates or of log odds.

    For a block with ``standardize=True`` or ``"robust"`` A and B are in the units of the data,
    too. In the penalty, differences are then divided by the spread of their column.

    Parameters
    ----------
    block : str
        The block to whose columns the equations apply.
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        The values of A P; a vector is one row. A likelihood over K classes has K columns of P for
        each of its own. In the exact form some P must have A P = B. NaN marks an unknown value,
        which imposes nothing; a column of NaN is free.
    weight : float, optional
        Positive. Without it the equations are a constraint. Redundant equations are allowed,
        contradictory ones raise an error, and P counts as a solution up to
        ``||A P - B||_F <= 1e-9 * max(||B||_F, ||A||_2 ||P||_F)`` over the known ones, the rounding
        of a Z in factors; of a standardised block in its standard units, and less what the
        origins of effects and offsets amount to.
    of : "means" or "predictors", default "means"
        What is summed. The two are the same if z is the mean; otherwise ``"predictors"`` is
        needed.

    Raises
    ------
    ModelError
        Where A and B have different numbers of rows or entries that are no finite numbers, where
        B is NaN throughout, and in the exact form where no P has A P = B. ``Model`` raises one
        where the sums of means are no linear equations.

    Notes
    -----
    Free effects take part in the equations: with ``bias=True`` a known mean moves the bias of its
    column where Z is penalised and the bias is not.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0], weight=3.0).formula())
    3 ‖A P_x − B‖_F²
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0]).formula())
    A P_x = B
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, np.nan]).formula())
    A P_x = B where B is known
    >>> total = mc.Calibration("x", A=[1.0, 1.0, 1.0], B=[3.0], weight=2.0)
    >>> total.value(np.array([[1.0], [1.0], [2.0]]))
    2.0
    >>> total = mc.Calibration("x", A=[1.0, 1.0, 1.0], B=[3.0])
    >>> total.value(np.array([[1.0], [1.0], [1.0]])), total.value(np.array([[1.0], [1.0], [4.0]]))
    (0.0, inf)
    """

    block: str = attrs.field(validator=block_name)
    # Left out of the hash, which stays a valid one: arrays have none.
    A: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    weight: float | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    of: MeansOrPredictors = attrs.field(default="means", validator=means_or_predictors)

    word = "Calibration"

    def __new__(
        cls,
        block: str,
        A: Any,
        B: Any,
        weight: float | None = None,
        of: MeansOrPredictors = "means",
    ) -> "Calibration":
        """Make a penalty, which is smooth, or a set: a term's types tell what it can do."""
        if cls is Calibration:
            return object.__new__(CalibrationConstraint if weight is None else CalibrationPenalty)
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.block, self.A, self.B, self.weight, self.of

    def __attrs_post_init__(self) -> None:
        check_equations(self)

    def __repr__(self) -> str:
        return self.in_words()

    def bound_to(self, shape: Shape, rows: IntArray, columns: IntArray, values: Array) -> Self:
        """The term itself; ``DataError`` where A and B do not fit the block's shape."""
        m, n_rows = self.A.shape
        if n_rows != shape[0]:
            raise DataError(
                f"Calibration of block {self.block!r}: A has shape {m} x {n_rows} and the block"
                f" {shape[0]} rows; A needs one column for each row (item) of the block"
            )
        if self.B.shape[1] != shape[1]:
            raise DataError(
                f"Calibration of block {self.block!r}: B has shape {m} x {self.B.shape[1]} and the"
                f" block {shape[1]} columns; B needs one column for each column of the block"
            )
        return self

    def equations_about(self, origin: Array, scale: Array | float) -> tuple[Array, Array]:
        """``A V = (B - A origin) / scale``."""
        return self.A, (self.B - self.A @ origin) / scale

    def recession(self) -> "Calibration":
        """``A D = 0`` at the known equations: squares grow without end in all other directions."""
        return Calibration(self.block, self.A, np.where(np.isnan(self.B), np.nan, 0.0))


@stored(stored_as=Calibration)
@attrs.frozen(repr=False)
class CalibrationPenalty(Calibration, SumsPenalty):
    """``Calibration`` with a weight: ``weight * ||A P - B||_F^2`` over the known equations."""

    weight: float = attrs.field(validator=positive)
    # Again, since a field that is declared anew comes after all others.
    of: MeansOrPredictors = attrs.field(default="means", validator=means_or_predictors)


@stored(stored_as=Calibration)
@attrs.frozen(repr=False)
class CalibrationConstraint(Calibration, ExactSums):
    """``Calibration`` without a weight: the set of P with ``A P = B`` where B is known."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.refuse_unreachable()

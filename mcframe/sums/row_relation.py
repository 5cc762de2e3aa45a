"""Linear equations within each row of a block: the term ``RowRelation``."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.limits import MOST_CHARACTERS
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    as_given,
    block_name,
    check_equations,
    meant,
    positive,
    read_only_matrix,
    same_matrix,
)
from mcframe.sums.decomposed_equations import KnownEquations
from mcframe.sums.known_sums import (
    ExactSums,
    KnownSums,
    MeansOrPredictors,
    SumsPenalty,
    means_or_predictors,
)


@stored
@attrs.frozen(repr=False)
class RowRelation(KnownSums):
    """Linear equations ``P A' = B`` in each row of the predictors of a block, or a penalty.

    P (n_items x columns of the block) is Z plus all free effects and offsets of the block, in the
    units of the data: what ``fit.natural`` returns. Where z is the mean, as in a ``Gaussian``
    block, P is also what ``fit.predict`` returns, and the equations are sums and differences of
    columns that every predicted row has: ``sum over j of a_kj p_ij = b_ik``. With a weight the
    penalty is ``weight * ||P A' - B||_F^2`` over the known equations. ``Calibration`` sums over
    rows instead.

    Observed entries are not changed: what ``fit.impute`` returns satisfies the equations as
    exactly as the observed entries of a row do. Where z is not the mean the block is refused
    unless ``of="predictors"`` says that A and B are about predictors, as a sum of log odds.

    For a block with ``standardize=True`` or ``"robust"`` A and B are in the units of the data,
    too. In the penalty, the differences of equation k are then divided by
    ``sqrt(sum over j of (a_kj s_j)^2 / sum over j of a_kj^2)`` for the spreads s_j of the columns.

    Parameters
    ----------
    block : str, or list of str
        The block to whose rows the equations apply, or several blocks whose columns they join.
        Several have no free effects; ``standardize=True`` centres their columns.
    A : dict, or array (m x columns of the block)
        Coefficients. Of a dict the keys are names of columns, places if the data have no names,
        and the values numbers, or m of them for m equations; columns without one have 0. Of
        several blocks it is a dict by block of such dicts. Of an array a row is one equation, and
        a vector is one row; a likelihood over K classes has K columns of P for each of its own,
        and needs an array.
    B : number or array (n_items x m), default 0
        The values of P A'. A number stands for all equations of all rows, a vector of m > 1
        numbers for one of each equation, and a vector beside one equation for one of each row.
        NaN marks an unknown value, which imposes nothing; a row of NaN is free.
    weight : float, optional
        Positive. Without it the equations are a constraint. Redundant equations are allowed,
        contradictory ones raise an error, and P counts as a solution up to
        ``||P A' - B||_F <= 1e-9 * max(||B||_F, ||A||_2 ||P||_F)`` over the known ones, the
        rounding of a Z in factors; of a standardised block in its standard units, and less what
        the origins of effects and offsets amount to.
    of : "means" or "predictors", default "means"
        What is summed. The two are the same if z is the mean; otherwise ``"predictors"`` is
        needed.
    columns : sequence, optional
        The names of the columns of an array A. A dict has them as keys.
    blocks : tuple of str, optional
        Several blocks beside ``block=None``, as a term of several blocks has them once made.

    Raises
    ------
    ModelError
        Where A and B have different numbers of equations or entries that are no finite numbers,
        where B is NaN throughout, and in the exact form where no P has P A' = B.
    DataError
        By ``fit``, where the block has no such column or another number of rows.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> total = mc.RowRelation("x", {"total": 1.0, "food": -1.0, "rent": -1.0})
    >>> print(total.formula())
    P_x Aᵀ = B
    >>> x = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    >>> x[[0, 1, 2], [2, 0, 1]] = np.nan
    >>> sums = mc.RowRelation("x", A=[1.0, 1.0, -1.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1), sums])
    >>> fit = mc.fit(model, {"x": x})
    >>> print(np.abs(fit.predict("x") @ [1.0, 1.0, -1.0]).max() < 1e-6)
    True
    """

    # None of several blocks, which ``blocks`` has once the term is made.
    block: Any = attrs.field()
    # Left out of the hash, which stays a valid one: arrays have none.
    # Of any type, since a dict and a number are given, too; arrays once the term is made.
    A: Any = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    B: Any = attrs.field(default=0.0, eq=attrs.cmp_using(eq=same_matrix), hash=False)
    weight: float | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    of: MeansOrPredictors = attrs.field(default="means", validator=means_or_predictors)
    columns: Any = None  # names in a tuple once the term is made
    blocks: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    axis = 1
    word = "RowRelation"

    def __new__(
        cls,
        block: Any,
        A: Any,
        B: Any = 0.0,
        weight: float | None = None,
        of: MeansOrPredictors = "means",
        columns: Sequence[Any] | None = None,
        *,
        blocks: tuple[str, ...] | None = None,
    ) -> "RowRelation":
        """Make a penalty, which is smooth, or a set: a term's types tell what it can do."""
        if cls is RowRelation:
            return object.__new__(RowRelationConstraint if weight is None else RowRelationPenalty)
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.block, self.A, self.B, self.weight, self.of, self.columns

    def __attrs_post_init__(self) -> None:
        if isinstance(self.block, list | tuple) and self.blocks is None:
            object.__setattr__(self, "blocks", checked_blocks(self.block))
            object.__setattr__(self, "block", None)
        if self.blocks is None:
            block_name(self, attrs.fields(type(self)).block, self.block)
        if isinstance(self.A, Mapping):
            by_column = self.A if self.blocks is None else pairs_of(self.A, self.blocks)
            object.__setattr__(self, "columns", tuple(by_column))
            object.__setattr__(self, "A", coefficients_of(by_column))
        A, B = (read_only_matrix(getattr(self, n), f"RowRelation: {n}") for n in "AB")
        if np.ndim(self.B) < 2 and len(A) == 1:  # a number of each row
            B = B.T
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "B", np.broadcast_to(B, (1, len(A))) if B.size == 1 else B)
        check_equations(self, axis=1)
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_names(self.columns, self.A.shape[1]))

    def __repr__(self) -> str:
        return self.in_words(*([] if self.columns is None else [f"columns={self.columns!r}"]))

    @property
    def block_names(self) -> tuple[str, ...]:
        """The blocks of whose predictors the equations are."""
        return (self.block,) if self.blocks is None else self.blocks

    @property
    def summary(self) -> str:
        """The equation itself, if it is one of named columns and the same in all rows.

        As far as it fits into a line.
        """
        if self.columns is None or self.B.size > 1:
            return super().summary
        words = [
            f"{'−' if number < 0.0 else '+'} {'' if abs(number) == 1.0 else f'{abs(number):g} '}"
            + (str(name) if self.blocks is None else ".".join(map(str, name)))
            for name, number in zip(self.columns, self.A[0], strict=True)
            if number
        ]
        left = " ".join(words).removeprefix("+ ") or "0"
        text = f"{self.word} of {self.in_blocks}: {left} = {self.B[0, 0]:g} in each row"
        return text if len(text) <= MOST_CHARACTERS else super().summary

    def equations_of(self, n_lines: int) -> KnownEquations:
        """The equations of so many rows, where B may be the same for all."""
        return self.equations if len(self.B) == n_lines else self.of_rows(n_lines).equations

    def of_rows(self, n_rows: int) -> Self:
        """The term with B for so many rows, where it has one for all."""
        if len(self.B) != 1 or n_rows == 1:
            return self
        return attrs.evolve(self, B=np.broadcast_to(self.B, (n_rows, self.B.shape[1])))

    def with_columns(self, names: Sequence[Any], width: int) -> Self:
        """The term with a coefficient for each of these columns, 0 where it does not name one."""
        if self.columns is None:
            return self
        if width > 1:
            raise DataError(
                f"RowRelation of {self.in_blocks}: columns of classes have {width} predictors"
                f" each; give A as an array with {width} columns for each of them"
            )
        places = {name: place for place, name in enumerate(names)}
        coefficients = np.zeros((len(self.A), len(names)))
        for name, numbers in zip(self.columns, self.A.T, strict=True):
            if name not in places:
                raise DataError(
                    f"RowRelation of {self.in_blocks}: A has a coefficient of column"
                    f" {as_given(name)}, which is not there;"
                    f" {meant(str(name), [str(column) for column in names], 'columns')}"
                )
            coefficients[:, places[name]] = numbers
        return attrs.evolve(self, A=coefficients, columns=None)

    def bound_to(self, shape: Shape, rows: IntArray, columns: IntArray, values: Array) -> Self:
        """The term for so many rows; ``DataError`` where A and B do not fit the block's shape."""
        m, n_columns = self.A.shape
        if n_columns != shape[1]:
            raise DataError(
                f"RowRelation of {self.in_blocks}: A has shape {m} x {n_columns} and the"
                f" {'model' if self.block is None else 'block'} {shape[1]} columns; A needs one"
                " column for each of them, or is a dict by their names"
            )
        if len(self.B) not in (1, shape[0]):
            raise DataError(
                f"RowRelation of {self.in_blocks}: B has {len(self.B)} rows and the block"
                f" {shape[0]}; B needs one row for each row (item) of the block, or one for all"
            )
        return self.of_rows(shape[0])

    def equations_about(self, origin: Array, scale: Array | float) -> tuple[Array, Array]:
        """``V (A S / u)' = (B - origin A') / u`` for scales S, u the lengths of A S to those of A.

        So equations keep their size beside the losses in V.
        """
        scaled = self.A * scale
        lengths = np.linalg.norm(self.A, axis=1)
        units = np.linalg.norm(scaled, axis=1) / np.where(lengths > 0.0, lengths, 1.0)
        units = np.where(units > 0.0, units, 1.0)
        return scaled / units[:, None], (self.B - origin @ self.A.T) / units

    def recession(self) -> "RowRelation":
        """``D A' = 0`` at the known equations: squares grow without end elsewhere."""
        values = np.where(np.isnan(self.B), np.nan, 0.0)
        return RowRelation(self.block, self.A, values, blocks=self.blocks)


@stored(stored_as=RowRelation)
@attrs.frozen(repr=False)
class RowRelationPenalty(RowRelation, SumsPenalty):
    """``RowRelation`` with a weight: ``weight * ||P A' - B||_F^2`` over the known equations."""

    # Not a number, which is refused: B has a default, and so has to have what comes after it.
    weight: float = attrs.field(default=np.nan, validator=positive)
    # Again, since a field that is declared anew comes after all others.
    of: MeansOrPredictors = attrs.field(default="means", validator=means_or_predictors)
    columns: Any = None


@stored(stored_as=RowRelation)
@attrs.frozen(repr=False)
class RowRelationConstraint(RowRelation, ExactSums):
    """``RowRelation`` without a weight: the set of P with ``P A' = B`` where B is known."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.refuse_unreachable()


def checked_blocks(names: Sequence[str]) -> tuple[str, ...]:
    """The names of several blocks, each once."""
    if len(set(names)) < max(2, len(names)) or not all(isinstance(name, str) for name in names):
        raise ModelError(
            f"RowRelation: block={as_given(names)} was given; the name of a block, or a list of"
            " two or more different ones, is needed"
        )
    return tuple(names)


def pairs_of(by_block: Mapping[Any, Any], blocks: Sequence[str]) -> dict[Any, Any]:
    """Coefficients by pairs of block and column, of a dict of dicts."""
    pairs = {}
    for name, by_column in by_block.items():
        if name not in blocks or not isinstance(by_column, Mapping):
            raise ModelError(
                f"RowRelation: A has {as_given(by_column)} for {as_given(name)}; of the blocks"
                f" {', '.join(map(repr, blocks))} a dict of dicts is needed, such as"
                f" A={{{blocks[0]!r}: {{'total': 1.0}}}}"
            )
        pairs.update({(name, column): number for column, number in by_column.items()})
    return pairs


def coefficients_of(by_column: Mapping[Any, Any]) -> Array:
    """The coefficients (m x columns) of a dict by column."""
    if not by_column:
        raise ModelError(
            "RowRelation: A={} was given, which names no column; give a coefficient of one or more"
        )
    numbers = {
        name: read_only_matrix(coefficients, f"RowRelation: A[{as_given(name)}]")
        for name, coefficients in by_column.items()
    }
    first, *others = numbers
    for name in others:
        if numbers[name].shape != numbers[first].shape:
            raise ModelError(
                f"RowRelation: A has {numbers[first].size} coefficients of column"
                f" {as_given(first)} and {numbers[name].size} of {as_given(name)}; give one for"
                " each equation"
            )
    return np.vstack(list(numbers.values())).T


def checked_names(columns: Sequence[Any], n_columns: int) -> tuple[Any, ...]:
    """The names of the columns of A, each once."""
    names = tuple(columns)
    if isinstance(columns, str) or len(names) != n_columns:
        raise ModelError(
            f"RowRelation: columns={as_given(columns)} was given beside A with {n_columns}"
            " columns; a list with one name for each is needed"
        )
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ModelError(
            f"RowRelation: columns has {as_given(twice[0])} twice; add up its coefficients"
        )
    return names

"""Equations that the columns of a table satisfy in each row: what follows from them, and filling.

What a row determines by itself is filled first, and is data of the model: the one missing cell of
an identity, or the one variable that solves a formula. Rows of which more is missing are
conditioned on the linear identities (``RowIdentities``). Last, the filled values are moved onto
identities, bounds and whole numbers, and the left sides of other formulas are computed.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    a_type,
    exact,
    listed,
    number,
    plain,
    suggests_options,
)
from mcframe.contracts.wording import wording
from mcframe.tables.coding import Numbers
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.relation_formulas import Equation, Expression


@stored
@attrs.frozen
class Relation:
    """An equation between columns, as ``relation`` declares it.

    Attributes
    ----------
    text : str
    tolerance : float or None
    """

    text: str
    tolerance: float | None = None

    def __str__(self) -> str:
        within = "" if self.tolerance is None else f" within {exact(self.tolerance)}"
        return f"{self.text}{within}"


@suggests_options
def relation(text: str, tolerance: float | None = None) -> Relation:
    """Declare that an equation between columns of numbers holds in each row of a table.

    A value of ``relations`` in ``mc.complete``, which also takes the text alone. An equation that
    is linear in all columns is an identity: every filled table, draw and new row satisfies it.
    Others have one column by itself on the left, which is computed from the right side.

    Parameters
    ----------
    text : str
        Two sides with ``=`` between them: columns, numbers, ``+ - * / **`` and the functions
        ``abs, cos, exp, expm1, log, log10, log1p, log2, sin, sqrt``. Names of columns that are no
        identifiers stand in backticks. No text is run as a program.
    tolerance : float, optional
        By how much both sides may differ in rows of which all is observed, in the unit of the
        columns. The default is rounding: that of arithmetic for an identity, and for a formula
        half a unit of the last digit to which the column on its left is rounded.

    Returns
    -------
    Relation

    Raises
    ------
    ModelError
        If the tolerance is no number from 0. The text is read by ``mc.complete``.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({"food": [1.1, 2.2, None, 4.4] * 5, "rent": [5.0, 7.0, 6.0, 8.0] * 5})
    >>> frame["total"] = frame["food"] + frame["rent"]
    >>> frame.loc[2, "total"] = 9.2
    >>> within = mc.relation("total = food + rent", tolerance=0.5)
    >>> float(mc.complete(frame, relations=[within]).table["food"][2].round(6))
    3.2
    """
    if tolerance is not None:
        needed = "a number from 0 is needed"
        tolerance = number(tolerance, "tolerance", needed, lambda x: 0.0 <= x < np.inf)
    return Relation(text, tolerance)


@attrs.frozen(eq=False)
class Identity:
    """``sum(coefficients * columns) = constant`` in each row.

    Attributes
    ----------
    relation : Relation
    columns : tuple of column names
    coefficients : array (len(columns),)
    constant : float
    """

    relation: Relation
    columns: tuple[Any, ...]
    coefficients: Array
    constant: float


@attrs.frozen(eq=False)
class Derivation:
    """``target = expression`` in each row.

    Attributes
    ----------
    relation : Relation
    target : object
        The name of the column on the left.
    expression : Expression
    """

    relation: Relation
    target: Any
    expression: Expression

    @property
    def columns(self) -> tuple[Any, ...]:
        """All columns, the target first."""
        return (self.target, *self.expression.columns)


@stored
@attrs.frozen(eq=False)
class Relations:
    """The relations between the columns of a table.

    Attributes
    ----------
    declared : tuple of Relation
    names : tuple
        The names of the columns of the table.
    """

    declared: tuple[Relation, ...] = ()
    names: tuple[Any, ...] = ()

    @classmethod
    def of(cls, relations: Any, columns: Sequence[DeclaredColumn]) -> "Relations":
        """Read relations between columns.

        Raises
        ------
        ModelError
            If one cannot be read, names no column or one that has no numbers, or contradicts
            others.
        """
        if relations is None:
            return cls()
        if isinstance(relations, str | Relation) or not isinstance(relations, Sequence):
            raise ModelError(
                f"relations is {a_type(relations)}; a list is needed, such as"
                " relations=['total = food + rent']"
            )
        for one in relations:
            if not isinstance(one, str | Relation) or not isinstance(
                getattr(one, "text", one), str
            ):
                raise ModelError(
                    f"relations has {one!r}; give texts such as 'total = food + rent',"
                    " or what relation(text, tolerance) makes of one"
                )
        declared = tuple(Relation(one) if isinstance(one, str) else one for one in relations)
        made = cls(declared, tuple(column.name for column in columns))
        made.check({column.name: column for column in columns})
        return made

    @cached_property
    def equations(self) -> tuple[tuple[Relation, Equation], ...]:
        """The equations as they are read."""
        return tuple((one, Equation.of(one.text, self.names)) for one in self.declared)

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        """The linear equations."""
        identities = []
        for one, equation in self.equations:
            linear = equation.linear
            if linear is not None:
                columns, coefficients = zip(*linear.coefficients.items(), strict=True)
                identities.append(Identity(one, columns, np.array(coefficients), -linear.constant))
        return tuple(identities)

    @cached_property
    def derivations(self) -> tuple[Derivation, ...]:
        """Equations that compute a column, each after those that compute what it reads."""
        waiting = [
            Derivation(one, equation.left.columns[0], equation.right)
            for one, equation in self.equations
            if equation.linear is None
        ]
        ordered = list[Derivation]()
        while waiting:
            targets = {derivation.target for derivation in waiting}
            ready = [one for one in waiting if not targets & {*one.expression.columns}]
            if not ready:
                chain = listed([repr(one.relation.text) for one in waiting])
                raise ModelError(
                    f"relations compute columns from each other in a circle: {chain}; leave one"
                    " of them out"
                )
            ordered += ready
            waiting = [one for one in waiting if one not in ready]
        return tuple(ordered)

    @property
    def either_kind(self) -> tuple[Identity | Derivation, ...]:
        """Identities, and then other equations."""
        return (*self.identities, *self.derivations)

    @cached_property
    def identity_columns(self) -> tuple[Any, ...]:
        """The columns of identities."""
        return tuple(dict.fromkeys(name for one in self.identities for name in one.columns))

    @cached_property
    def matrix(self) -> Array:
        """The coefficients of identities (number of identities x ``identity_columns``)."""
        matrix = np.zeros((len(self.identities), len(self.identity_columns)))
        for row, identity in zip(matrix, self.identities, strict=True):
            row[[self.identity_columns.index(name) for name in identity.columns]] = (
                identity.coefficients
            )
        return matrix

    @property
    def constants(self) -> Array:
        """The constants of identities."""
        return np.array([identity.constant for identity in self.identities])

    def check(self, columns: Mapping[Any, DeclaredColumn]) -> None:
        """Raise a ``ModelError`` as ``of`` says."""
        targets = dict[Any, str]()
        for one, equation in self.equations:
            what, linear = f"relation {one.text!r}", equation.linear
            for name in equation.columns:
                column = columns[name]
                if not isinstance(column.coding, Numbers) or column.column.form != "number":
                    kind = f"is taken for: {column.kind}"
                    if column.place is None:
                        kind += f" ({column.why})"
                    raise ModelError(
                        f"{what}: column {plain(name)!r} {kind}; give columns of numbers or"
                        f" counts, or declare one by {wording().types(plain(name), 'number')}"
                    )
            if linear is not None and not linear.coefficients:
                raise ModelError(f"{what} says nothing of a column; leave it out")
            if linear is None:
                target = equation.left.columns
                if not equation.computes_column:
                    raise ModelError(
                        f"{what} is not linear, so that its left side is computed from its right"
                        " side; write one column by itself on the left, as in 'bmi = weight /"
                        " height ** 2'"
                    )
                if target[0] in targets:
                    raise ModelError(
                        f"{what} computes column {plain(target[0])!r}, and so does"
                        f" {targets[target[0]]!r}; leave one of them out"
                    )
                targets[target[0]] = one.text
        for identity in self.identities:
            both = [name for name in identity.columns if name in targets]
            if both:
                raise ModelError(
                    f"relation {identity.relation.text!r} is an identity of column"
                    f" {plain(both[0])!r}, which {targets[both[0]]!r} computes; write the formula"
                    " in its place"
                )
        assert self.derivations is not None  # in an order
        self.refuse_contradictions(columns)

    def refuse_contradictions(self, columns: Mapping[Any, DeclaredColumn]) -> None:
        """A ``ModelError`` where no numbers satisfy all identities."""
        sizes = [size_of(columns[name].column.numbers) for name in self.identity_columns]
        for count in range(2, len(self.identities) + 1):
            scaled = self.matrix[:count] * sizes
            norms = np.max(np.abs(scaled), axis=1)
            scaled, right = scaled / norms[:, None], self.constants[:count] / norms
            solution = np.linalg.lstsq(scaled, right, rcond=RESULT_ROUNDING)[0]
            rest = np.abs(scaled @ solution - right)
            if np.max(rest) > 10.0 * RESULT_ROUNDING * (1.0 + np.max(np.abs(right))):
                last = self.identities[count - 1].relation.text
                others = listed([repr(one.relation.text) for one in self.identities[: count - 1]])
                raise ModelError(
                    f"relation {last!r} contradicts {others}: no numbers satisfy all of them;"
                    " correct or leave out one of them"
                )

    def pairs(self, names: Sequence[Any]) -> Mask | None:
        """Which two columns of these names stand in one relation; None without any."""
        if not self.declared:
            return None
        member = np.array(
            [[name in equation.columns for name in names] for _, equation in self.equations]
        )
        pairs: Mask = member.T.astype(float) @ member > 0.0
        np.fill_diagonal(pairs, False)
        return pairs


NO_RELATIONS = Relations()


def size_of(numbers: Array) -> float:
    """The largest absolute value of the observed numbers, 1 of none or zeros."""
    return float(np.max(np.abs(numbers[~np.isnan(numbers)]), initial=0.0)) or 1.0

"""Shifts of the missing values of columns: assumptions on values that hide themselves."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import a_type, number, one_of, plain, suggests_options
from mcframe.tables.applicability import OnlyIf, demand_value
from mcframe.tables.coding import Choice, Numbers
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn

Method = Literal["jump", "copy", "increments"]
METHODS: tuple[Method, ...] = ("jump", "copy", "increments")


@attrs.frozen
class Shift:
    """An assumption on missing values of a column, as ``mc.shift`` declares it.

    Attributes
    ----------
    amount : float or dict from group to float
    by, to : object
        The column of groups, and the reference group; None where there is none.
    method : "jump", "copy" or "increments"
    unit : "value" or "sd"
    """

    amount: Any
    by: Any
    to: Any
    method: Method
    unit: Literal["value", "sd"]


@suggests_options
def shift(
    amount: float | Mapping[Any, float] = 0.0,
    *,
    by: Any = None,
    to: Any = None,
    method: Method = "jump",
    unit: Literal["value", "sd"] = "value",
) -> Shift:
    """Declare how the missing values of a column differ from what other columns predict.

    A value of ``shift=`` in ``Completion.draws``, ``mc.pool.formula``, ``mc.pool.with_`` and
    ``mc.tipping_point``: ``shift={"income": mc.shift(0.3, unit="sd")}``. Observed values show
    nothing of this; it is an assumption, to be stated and varied.

    Parameters
    ----------
    amount : float or dict from group to float, default 0
        What is added to every drawn value (delta adjustment), or to those in rows of each group;
        groups that are not named have none. Together with ``to`` one number is added in rows of
        all groups but that one.
    by : object, optional
        The name of a column of groups, such as the arm of a trial. In rows where it is missing
        the group is drawn.
    to : object, optional
        A group of ``by``: missing values in rows of other groups are drawn as if the rows were of
        this one, the reference (control-based imputation).
    method : "jump", "copy" or "increments", default "jump"
        What rows of other groups keep of their own. Columns with the same ``by``, ``to`` and
        method are the outcomes; all other columns but ``by`` are covariates x, which stay as they
        are. Let m(x, g) be the mean of the outcomes in group g, and y those that are observed.

        - ``"jump"``, jump to reference: the mean is m(x, ``to``), and a row whose y lie above
          m(x, its group) lies above it as far as correlations say.
        - ``"copy"``, copy reference: as if the row had been of the reference group from the
          beginning, with y compared to m(x, ``to``).
        - ``"increments"``, copy increments in reference: as ``"jump"``, with the difference
          between both means at the last outcome that is observed, in the order of the dict,
          which stays as it is from there. Of numbers in one unit, such as visits.

        In draws with ``terms`` the outcomes are numbers that stand in none, and m(x, g) is
        their regression on x, g and the terms, such as products with the group.
    unit : "value" or "sd", default "value"
        The unit of ``amount``: that of the column (days of dates), or the standard deviation of
        the column, as in the column ``shift`` of the report.

    Returns
    -------
    Shift

    Raises
    ------
    ModelError
        If an amount is not finite, ``by`` and groups are not given together, or a word is unknown.

    References
    ----------
    Carpenter, Roger and Kenward, Analysis of longitudinal trials with protocol deviation: a
    framework for relevant, accessible assumptions, and inference via multiple imputation, Journal
    of Biopharmaceutical Statistics 23 (2013).

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> arm = np.repeat(["control", "treated"], 100)
    >>> y = 2.0 * (arm == "treated") + rng.standard_normal(200)
    >>> trial = pd.DataFrame({"arm": arm, "y": np.where(rng.random(200) < 0.3, np.nan, y)})
    >>> completed, formula = mc.complete(trial), "y ~ arm"
    >>> at_random = mc.pool.formula(formula, completed)
    >>> jump = {"y": mc.shift(by="arm", to="control")}
    >>> jumped = mc.pool.formula(formula, completed, shift=jump)
    >>> bool(0.5 < jumped.estimate[1] / at_random.estimate[1] < 0.9)
    True
    """
    one_of(method, "method", METHODS)
    one_of(unit, "unit", ("value", "sd"))
    if isinstance(amount, Mapping):
        if by is None or not amount:
            raise ModelError(
                f"amount={plain(amount)!r} was given without by; name the column of groups, as in"
                " mc.shift({'treated': -0.3}, by='arm')"
            )
        amount = {group: number(of, f"amount[{plain(group)!r}]") for group, of in amount.items()}
    else:
        amount = number(amount, "amount")
        if by is not None and to is None:
            raise ModelError(
                f"by={plain(by)!r} was given with one amount for all groups; give one for each"
                " group that is shifted, as in mc.shift({'treated': -0.3}, by='arm'), or a"
                " reference group, to="
            )
    if to is not None and by is None:
        raise ModelError(f"to={plain(to)!r} was given without by; name the column of groups")
    return Shift(amount, by, to, method, unit)


@attrs.frozen(eq=False)
class ColumnShift:
    """The shift of one column.

    Attributes
    ----------
    column : DeclaredColumn
    declared : Shift
    groups : DeclaredColumn or None
    size : float
        The unit of the amounts, in that of the values.
    """

    column: DeclaredColumn
    declared: Shift
    groups: DeclaredColumn | None
    size: float

    def amounts(self, declared: Declared[Any], codes: Mapping[Any, Array]) -> Array | float:
        """Return what is added at the missing entries, in the unit of the values."""
        amount = self.declared.amount
        if self.groups is None:
            return float(amount * self.size)

        def holds(group: Any) -> Mask:
            condition = OnlyIf(self.declared.by, group, None)
            return declared.applicability.holds(condition, codes)[self.column.column.missing]

        if not isinstance(amount, Mapping):
            return np.where(holds(self.declared.to), 0.0, amount * self.size) if amount else 0.0
        amounts: Array = sum(
            (self.size * of * holds(group) for group, of in amount.items() if of),
            np.zeros(np.count_nonzero(self.column.column.missing)),
        )
        return amounts


@attrs.frozen(eq=False)
class Shifts:
    """Columns, and what is assumed of their missing values.

    Attributes
    ----------
    columns : tuple of ColumnShift
    """

    columns: tuple[ColumnShift, ...] = ()

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return tuple(one.column.name for one in self.columns)

    @classmethod
    def of(cls, declared: Declared[Any], shifts: Any, spread: Callable[[Any], float]) -> "Shifts":
        """Return the shifts of a dict from column name to number or ``Shift``.

        ``spread`` is the standard deviation of a column by its name.

        Raises
        ------
        ModelError
            If a column is unknown, or is not one that the shift is for.
        DataError
            If no row is of a group.
        """
        if shifts is None:
            return cls()
        if not isinstance(shifts, Mapping):
            raise ModelError(
                f"shift is {a_type(shifts)}; a dict from column name to number is needed, such as"
                " {'income': 0.3}"
            )
        return cls(tuple(column_shift(declared, *item, spread) for item in shifts.items()))

    def times(self, multiple: float) -> "Shifts":
        """Return shifts with a multiple of these amounts."""
        return Shifts(tuple(attrs.evolve(one, size=multiple * one.size) for one in self.columns))

    @property
    def by_reference(self) -> dict[tuple[Any, Any, Method], list[DeclaredColumn]]:
        """The outcomes of each reference group: of a column of groups, a group and a method."""
        outcomes: dict[tuple[Any, Any, Method], list[DeclaredColumn]] = {}
        for one in self.columns:
            if one.declared.to is not None:
                key = (one.declared.by, one.declared.to, one.declared.method)
                outcomes.setdefault(key, []).append(one.column)
        return outcomes

    def applied(
        self, declared: Declared[Any], codes: Mapping[Any, Array], rng: np.random.Generator
    ) -> dict[Any, Array]:
        """Codes of missing entries by column, those of shifted columns with their amount."""
        shifted = dict(codes)
        for one in self.columns:
            amounts = one.amounts(declared, codes)
            if one.column.name in shifted and np.any(amounts):
                shifted[one.column.name] = moved(
                    one.column, shifted[one.column.name], amounts, rng
                )
        return shifted


def column_shift(
    declared: Declared[Any], name: Any, value: Any, spread: Callable[[Any], float]
) -> ColumnShift:
    """The shift of one column, or an error that names it."""
    column, what = declared.column(name), f"shift of column {plain(name)!r}"
    if isinstance(value, Mapping):
        raise ModelError(
            f"{what} is {a_type(value)}; name the column of groups, as in"
            " mc.shift({'treated': -0.3}, by='arm')"
        )
    one = value
    if not isinstance(value, Shift):
        one = Shift(number(value, what), None, None, "jump", "value")
    groups = None if one.by is None else declared.column(one.by)
    is_number = isinstance(column.coding, Numbers)
    is_by_group = isinstance(one.amount, Mapping)
    moves = one.to is None or one.method == "increments" or is_by_group or one.amount != 0.0
    if column.place is None or (moves and not is_number):
        raise ModelError(
            f"{what}: the column is taken for: {column.kind}; only numbers, counts and"
            " dates have shifts, so leave it out, or declare its kind in types"
        )
    if groups is not None:
        named = dict.fromkeys(one.amount if is_by_group else ())
        for group in named if one.to is None else {one.to: None} | named:
            demand_value(groups, group, f"{what} has the group {group!r} of {plain(one.by)!r}")
        unfilled = groups.place is None and groups.column.missing.any()
        if groups is column or unfilled:
            why = "is that column itself" if groups is column else "has gaps that are not drawn"
            raise ModelError(
                f"{what}: the column of groups {plain(one.by)!r} {why}; name another one"
            )
    if one.to is not None:
        assert groups is not None  # or mc.shift would have refused it
        if groups.place is None or not isinstance(groups.block_coding, Choice):
            raise ModelError(
                f"{what}: the column of groups {plain(one.by)!r} is taken for: {groups.kind};"
                " a reference group needs labels or categories"
            )
    size = spread(name) if one.unit == "sd" and is_number else 1.0
    return ColumnShift(column, one, groups, size)


def moved(
    column: DeclaredColumn, codes: Array, amounts: Array | float, rng: np.random.Generator
) -> Array:
    """Codes of missing entries with amounts in the unit of the values, within the support.

    Whole ones are rounded up or down at random, so that they are right on average.
    """
    coding: Any = column.coding
    shifted = codes + amounts / coding.unit
    if column.has_whole_values or coding.is_whole:
        shifted = np.floor(shifted + rng.random(shifted.size))
    shifted = np.clip(shifted, *coding.support)
    ends = coding.lower / coding.unit, coding.upper / coding.unit
    shifted = coding.whole_within(np.clip(shifted, *ends))
    limited = column.column.limited[column.column.missing]  # which are not missing
    return np.where(limited | (np.asarray(amounts) == 0.0), codes, shifted)


NO_SHIFTS = Shifts()

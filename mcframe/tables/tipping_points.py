"""The shift of missing values at which the conclusion of an analysis changes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np
import scipy

from mcframe.contracts.errors import ModelError
from mcframe.contracts.pictures import Pictured
from mcframe.contracts.showing import card, remarks, table_as_html, table_as_text
from mcframe.contracts.validators import (
    Options,
    RandomState,
    a_type,
    listed,
    number,
    plain,
    suggest_options,
    suggests_options,
)
from mcframe.tables.completion import Completion
from mcframe.tables.formula_terms import Formula
from mcframe.tables.pooling import SCALES, Pooled
from mcframe.tables.regression import pool_formula, pool_with
from mcframe.tables.shifts import shift as shift_of
from mcframe.tables.table_draws import DrawsOfTable

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import TippingPointPictures


@attrs.frozen(eq=False, repr=False)
class TippingPoint(Pictured["TippingPointPictures"]):
    """Pooled estimates under shifts of missing values, and where the conclusion changes.

    Attributes
    ----------
    table : DataFrame or Table
        A row for each multiple of the shift: ``multiple``, ``estimate``, ``sd``, the ends
        ``lower`` and ``upper`` of the confidence interval, the ``p_value`` of ``null``, and
        ``changed``, whether the conclusion is another one than without a shift.
    below, above : float
        The multiples below and above 0 next to it at which the conclusion changes, NaN where it
        does not within the multiples of the table.
    name : str
        What is estimated.
    null : float
    confidence_level : float
    """

    table: Any
    below: float
    above: float
    name: str
    null: float
    confidence_level: float

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table."""
        rows: list[dict[str, Any]] = nw.from_native(self.table).rows(named=True)
        return rows

    def __repr__(self) -> str:
        header, *rows = self._cells()
        footnotes = [f"  {line}" for line in self._remarks()]
        return "\n".join([self._title(), *table_as_text(header, rows), *footnotes])

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return card(self._title(), table_as_html(header, rows), remarks(self._remarks()))

    def _title(self) -> str:
        return f"TippingPoint: {self.name or 'the estimate'} under shifts of missing values"

    def _cells(self) -> list[list[str]]:
        rows = [
            [value if isinstance(value, str) else f"{value:.4g}" for value in row.values()]
            for row in ({**row, "changed": "yes" if row["changed"] else ""} for row in self.rows())
        ]
        return [list(self.rows()[0]), *rows]

    def _remarks(self) -> list[str]:
        """Sentences on where the conclusion changes."""
        rows = self.rows()
        [base] = [row for row in rows if row["multiple"] == 0.0]
        side = {0: "holds", 1: "lies above", -1: "lies below"}[conclusion(base, self.null)]
        level = f"{100.0 * self.confidence_level:g}%"
        changes_at = [f"{end:.4g}" for end in (self.below, self.above) if np.isfinite(end)]
        ends = f"{rows[0]['multiple']:g} to {rows[-1]['multiple']:g}"
        changes = (
            f"changes at {listed(changes_at)} times the shift"
            if changes_at
            else f"does not change from {ends} times the shift"
        )
        return [
            f"without a shift the {level} interval {side} {self.null:g}; that {changes}",
            "which shift is true, no table shows",
        ]


suggest_options(TippingPoint)


def conclusion(row: Mapping[str, Any], null: float) -> int:
    """1 where an interval lies above a number, -1 where it lies below, 0 where it holds it."""
    return int(row["lower"] > null) - int(row["upper"] < null)


@suggests_options
def tipping_point(
    completed: Completion[Any],
    analysis: str | Callable[[Any], Any],
    shift: Any,
    multiples: Any = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0),
    *,
    estimate: Any = None,
    null: float = 0.0,
    confidence_level: float = 0.95,
    m: int = 20,
    random_state: RandomState = 0,
    **options: Any,
) -> TippingPoint:
    """Find the shift of missing values at which the conclusion of an analysis changes.

    The conclusion is whether the confidence interval of an estimate lies above ``null``, below
    it, or holds it. Tables are drawn once; their missing values have multiples of the shift added,
    and each time the analysis is pooled by Rubin's rules, as ``mc.pool`` does. Between the two
    multiples where the conclusion changes first, the point is found to a thousandth of their
    distance. Whether such a shift is plausible is a question to those who know the data.

    Parameters
    ----------
    completed : Completion
        Of ``mc.complete`` with a posterior.
    analysis : str or function of a completed table
        A formula as in ``mc.pool.formula``, or a function as in ``mc.pool.with_``.
    shift : column name, or dict as ``shift=`` of ``Completion.draws``
        What one multiple is: for a name one standard deviation of that column. A reference group
        in ``mc.shift`` stays at all multiples, also at 0.
    multiples : sequence of float, default -2, -1.5, ..., 2
        0 is one of them, whether it is named or not.
    estimate : str or int, optional
        The name of an estimate, or its place. By default the only one beside an intercept.
    null : float, default 0
    confidence_level : float, default 0.95
    m : int, default 20
    random_state : int, generator of numpy or None, default 0
    **options
        ``complete_degrees_of_freedom`` and ``scale`` of ``mc.pool``, of a function.

    Returns
    -------
    TippingPoint

    Raises
    ------
    ModelError
        If no completed table was given, a multiple is not finite, there are several estimates and
        none was named; as ``Completion.draws`` and ``mc.pool``.
    DataError
        As ``mc.pool.with_``.

    References
    ----------
    Yan, Lee and Li, Missing data handling methods in medical device clinical trials, Journal of
    Biopharmaceutical Statistics 19 (2009).

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> arm = np.repeat(["control", "treated"], 100)
    >>> y = 1.0 * (arm == "treated") + rng.standard_normal(200)
    >>> trial = pd.DataFrame({"arm": arm, "y": np.where(rng.random(200) < 0.3, np.nan, y)})
    >>> worse = {"y": mc.shift({"treated": -1.0}, by="arm")}
    >>> tipping = mc.tipping_point(mc.complete(trial), "y ~ arm", worse, [0, 1, 2, 3, 4])
    >>> bool(1.0 < tipping.above < 4.0)
    True
    """
    if not isinstance(completed, Completion):
        raise ModelError(
            f"{a_type(completed)} was given to mc.tipping_point; give what mc.complete(frame)"
            " answers, of which tables are drawn"
        )
    if not isinstance(shift, Mapping):
        shift = {completed.declared.column(shift).name: shift_of(1.0, unit="sd")}
    level, null = Options.confidence_level(confidence_level), number(null, "null")
    if isinstance(multiples, str) or not np.iterable(multiples):
        raise ModelError(f"multiples={plain(multiples)!r} was given; give a list of numbers")
    grid = sorted({0.0, *(number(multiple, "multiples") for multiple in multiples)})
    formula = Formula.of_terms(analysis) if isinstance(analysis, str) else None
    shifts = completed.shifts(shift)
    seed = Options.random_state(random_state)
    draws = list(completed.drawn_codes(Options.m(m), seed, formula, shifts))

    def pooled(multiple: float) -> Pooled:
        amounts = shifts.times(multiple)
        drawn = (draw.table(amounts) for draw in draws)
        tables = DrawsOfTable(drawn, formula, completed.row_weights)
        if isinstance(analysis, str):
            return pool_formula(analysis, tables)
        return pool_with(tables, analysis, **options)

    name, place = chosen_estimate(pooled(0.0), estimate)

    def row(multiple: float) -> dict[str, Any]:
        """The estimate at a multiple of the shift."""
        answer = pooled(multiple)
        parts = (answer.estimate, answer.sd, *answer.interval(level), answer.degrees_of_freedom)
        value, sd, lower, upper, freedom = (float(np.ravel(part)[place]) for part in parts)
        to_scale = SCALES[answer.scale][0]
        with np.errstate(divide="ignore", invalid="ignore"):
            on_scale = to_scale(np.array([value, null]))
            t = abs(float(on_scale[0] - on_scale[1])) / sd
        p_value = 2.0 * float(scipy.stats.t.sf(t, freedom))
        answer_row = {"multiple": multiple, "estimate": value, "sd": sd}
        return answer_row | {"lower": lower, "upper": upper, "p_value": p_value}

    rows = [row(multiple) for multiple in grid]
    zero = grid.index(0.0)
    base = conclusion(rows[zero], null)
    for one in rows:
        one["changed"] = conclusion(one, null) != base
    ends = []
    for side in (rows[zero::-1], rows[zero:]):
        changed = [k for k, one in enumerate(side) if one["changed"]]
        if not changed:
            ends.append(np.nan)
            continue
        near, far = side[changed[0] - 1], side[changed[0]]
        crossing = base or conclusion(far, null)  # the interval has its lower or upper end there
        ends.append(crossed(row, near["multiple"], far["multiple"], crossing > 0, null))
    columns = {key: [one[key] for one in rows] for key in rows[0]}
    backend = completed.declared.frame.implementation
    table = nw.from_dict(columns, backend=backend).to_native()
    return TippingPoint(table, ends[0], ends[1], name, null, level)


def crossed(
    row: Callable[[float], Mapping[str, Any]], near: float, far: float, is_lower: bool, null: float
) -> float:
    """The multiple between two others at which an end of the interval crosses a number."""
    key = "lower" if is_lower else "upper"
    width = abs(far - near)
    root = scipy.optimize.brentq(
        lambda multiple: row(multiple)[key] - null, near, far, xtol=1e-3 * width, disp=False
    )
    return float(root)


def chosen_estimate(pooled: Pooled, estimate: Any) -> tuple[str, int]:
    """The name and the place of one estimate, or a ``ModelError`` that names all."""
    names = list(getattr(pooled.estimate, "index", pooled.names))
    count = np.size(pooled.estimate)
    if estimate is None:
        others = [k for k in range(count) if not names or names[k] not in ("Intercept", "const")]
        if len(others) != 1:
            choice = f"0 to {count - 1}"
            if names:
                choice = listed([repr(plain(name)) for name in names])
            raise ModelError(f"there are {count} estimates; name one by estimate=, of {choice}")
        return str(names[others[0]]) if names else "", others[0]
    is_place = isinstance(estimate, int) and not isinstance(estimate, bool)
    if is_place and 0 <= estimate < count:
        return str(names[estimate]) if names else str(estimate), estimate
    return str(estimate), int(pooled.places_of([estimate])[0])

"""Pictures of a table: which cells are missing, and how they were filled."""

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import IntArray, Shape
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import counted, plain, with_article
from mcframe.plots.drawing import (
    BLUE,
    GREY,
    MAP,
    MOST_PIXELS,
    PALE,
    SIZE_OF_MAP,
    VERMILLION,
    cells_of_groups,
    column_labels,
    draw_map,
    name_places,
    picture_of,
    shown,
    sums_of_groups,
    tables_of_answer,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The look of keys.
KEY: dict[str, Any] = {"frameon": False, "fontsize": "small"}
# Colours of differences, which are white at 0, and the least end of their range.
DIVERGING_MAP, NOT_COMPARED, LEAST_RANGE = "PuOr", "0.75", 0.2
# The level of tests.
LEVEL = 0.05


@picture_of(
    "Fit", "Posterior", "Completion", "Declared", "DataFrame", "Table", "ndarray", size=SIZE_OF_MAP
)
def missingness(data: Any, block: str | None = None, *, ax: Any = None) -> Any:
    """Draw which cells of a table are missing.

    A row of the picture is a row of the table. In a large table neighbouring rows or columns share
    a pixel, whose shade is their share of missing cells.

    Parameters
    ----------
    data : Fit, Posterior, Completion, Declared, DataFrame, pyarrow Table or array
    block : str, optional
        One block of a fit or posterior; by default all of them side by side.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    DataError
        If an array has not two dimensions, or a table has no cell.
    ModelError
        If there is no such block, the entries were left behind, or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe import plots
    >>> plots.missingness(np.array([[1.0, np.nan], [2.0, 3.0]])).get_title()
    '25% of 2 x 2 cells are missing'
    """
    from matplotlib.patches import Patch

    shape, rows, columns, names = observed_cells(data, block)
    n_cells = shape[0] * shape[1]
    if n_cells == 0:
        raise DataError(f"missingness: a table of {shape[0]} x {shape[1]} has no cell")
    missing = 1.0 - sums_of_groups(shape, rows, columns) / cells_of_groups(shape)
    image = draw_map(ax, shape, missing, cmap="Blues", vmin=-0.1, vmax=1.2)
    shares = {"observed": 0.0, "missing": 1.0}
    if max(shape) > MOST_PIXELS:
        shares = {"all observed": 0.0, "half missing": 0.5, "all missing": 1.0}
    handles = [Patch(facecolor=image.to_rgba(shares[name]), label=name) for name in shares]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), **KEY)
    name_places(ax.xaxis, names, across=True)
    share = 1.0 - rows.size / n_cells
    title = f"{share:.0%} of {shape[0]} x {shape[1]} cells are missing"
    ax.set(ylabel="row of the table", title=title)
    return ax


def observed_cells(data: Any, block: str | None) -> tuple[Shape, IntArray, IntArray, list[Any]]:
    """Shape of a table, rows and columns of its observed cells, and names of its columns."""
    if hasattr(data, "problem"):
        chosen = [data.model.block(block)] if block is not None else data.model.blocks
        tables = [tables_of_answer(data)[part.name].observed_entries() for part in chosen]
        starts = np.cumsum([0, *(table.shape[1] for table in tables)])
        shape = tables[0].shape[0], int(starts[-1])
        rows = np.concatenate([table.rows for table in tables])
        shifted = [table.columns + start for table, start in zip(tables, starts, strict=False)]
        return shape, rows, np.concatenate(shifted), [n for t in tables for n in column_labels(t)]
    declared = getattr(data, "declared", data)
    if hasattr(declared, "columns") and hasattr(declared, "frame"):
        names = [part.name for part in declared.columns]
        missing = np.column_stack([part.column.missing for part in declared.columns])
    elif isinstance(data, np.ndarray):
        if data.ndim != 2 or data.dtype.kind not in "biufO":
            raise DataError(
                f"missingness: an array of shape {data.shape} and dtype {data.dtype} was given; a"
                " matrix of numbers (rows x columns) is needed, NaN where missing"
            )
        names, missing = list(range(data.shape[1])), data != data
    else:
        frame = nw.from_native(data, eager_only=True)
        names = list(frame.columns)
        nothing = [series.is_null() | (series != series) for series in frame.iter_columns()]
        missing = np.column_stack([series.to_numpy() for series in nothing])
    rows, columns = np.nonzero(~missing.astype(bool))
    return missing.shape, rows, columns, names


@picture_of("Completion", size=SIZE_OF_MAP)
def filled(completed: Any, column: Any = None, *, ax: Any = None) -> "Axes":
    """Draw the filled cells of a completed table, or of one column, with their uncertainty.

    Of the whole table: a map whose colour is the expected error of each filled cell. For numbers,
    counts and dates this is the standard deviation over that of the observed values of the column:
    1 is no better than filling with the mean. For labels, levels and categories it is the
    probability that the filled value is wrong. Observed cells are grey.

    Of one column of numbers, counts or dates: the filled values in ascending order, each with a
    bar of one standard deviation to both sides, beside the observed values in grey.

    Parameters
    ----------
    completed : Completion
        Of ``mc.complete`` with a posterior.
    column : object, optional
        The name of a column of numbers, counts or dates.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If the table was completed by ``method="optimum"``, which has no standard deviations; if
        there is no such column, it has no filled cell or no numbers; or if ``ax`` is something
        else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
    ... })
    >>> mc.complete(frame).plot.filled("height").get_ylabel()
    'height'
    """
    completed.demand_posterior("pictures of filled cells")
    sds = completed.expected_errors
    if column is not None:
        return filled_column(completed.declared.column(column), completed, sds, ax)
    columns = completed.declared.columns
    shape = completed.declared.frame.shape
    rows, places, errors = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
    for place, declared_column in enumerate(columns):
        if declared_column.name in sds:
            rows.append(np.flatnonzero(declared_column.column.missing))
            places.append(np.full(rows[-1].size, place))
            spread = (
                1.0
                if declared_column.coding.places is not None
                else observed_spread(declared_column)
            )
            errors.append(sds[declared_column.name] / spread)
    at = np.concatenate(rows), np.concatenate(places)
    counts = sums_of_groups(shape, *at)
    means = sums_of_groups(shape, *at, np.concatenate(errors)) / np.where(counts > 0.0, counts, 1)
    image = draw_map(ax, shape, np.where(counts > 0.0, means, np.nan), cmap=MAP, vmin=0, vmax=1)
    ax.set_facecolor(PALE)
    name_places(ax.xaxis, [declared_column.name for declared_column in columns], across=True)
    title = f"{counted(at[0].size, 'filled cell')} of {shape[0]} x {shape[1]}"
    n_constants = sum(
        int(np.sum(declared_column.column.missing))
        for declared_column in columns
        if declared_column.constant and declared_column.place is None
    )
    title += f", without {n_constants} of constants" * (n_constants > 0)
    ax.set(ylabel="row of the table", title=title)
    extend = "max" if np.max(means, initial=0.0) > 1.0 else "neither"
    label = "expected error, observed cells are grey\n(1: no better than a constant)"
    ax.figure.colorbar(image, ax=ax, label=label, extend=extend)
    return ax


@picture_of("Completion", "Declared", size=SIZE_OF_MAP)
def gap_dependence(data: Any, *, ax: Any = None) -> "Axes":
    """Draw on which columns the gaps of each column depend.

    Each cell compares the rows that lack the column at its left with those that have it, by what
    the column below it holds. The colour is the probability that this is larger where there is a
    gap, less that it is smaller: 0 if gaps do not depend on it, 1 or -1 if all values at gaps lie
    above or below all others. Of labels and categories it is the difference of the shares of a
    value. A point marks p-values of at most .05 after multiplication by the number of all tested
    pairs (Bonferroni), so that any point is wrong in at most 5 % of tables. Cells with fewer than
    5 rows on a side are grey. Whether gaps depend on the missing value itself, no table shows.

    Parameters
    ----------
    data : Completion or Declared
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If no column has enough gaps and values, or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.normal(50.0, 10.0, 200)})
    >>> frame["income"] = rng.normal(40.0, 9.0, 200)
    >>> frame["income"] = frame["income"].where(frame["age"] < 60.0)
    >>> mc.complete(frame).plot.gap_dependence().get_title()
    'gaps depend on observed columns in 1 of 1 tested column'
    """
    tests = getattr(data, "declared", data).gap_tests
    count = len(tests.of_columns)
    if not count:
        raise ModelError(
            "gap_dependence: no column has at least 5 gaps and 5 values in rows in which another"
            " column is observed; give a table with more rows or gaps"
        )
    shape = tests.p_values.shape
    largest = max(float(np.nanmax(np.abs(tests.differences))), LEAST_RANGE)
    image = draw_map(ax, shape, tests.differences, cmap=DIVERGING_MAP, vmin=-largest, vmax=largest)
    ax.set_facecolor(NOT_COMPARED)
    n_pairs = np.count_nonzero(~np.isnan(tests.p_values))
    with np.errstate(invalid="ignore"):
        rows, columns = np.nonzero(n_pairs * tests.p_values <= LEVEL)
    label = "p at most .05 over all pairs"
    ax.plot(
        columns, rows, "o", color="black", markeredgecolor="white", markersize=5.0, label=label
    )
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, **KEY)
    name_places(ax.xaxis, tests.others, across=True)
    name_places(ax.yaxis, tests.columns, across=False)
    n_dependent = sum(p_value <= LEVEL for p_value in tests.adjusted.values())
    title = (
        f"gaps depend on observed columns in {n_dependent} of {counted(count, 'tested column')}"
    )
    ax.set_title(title, pad=22.0)
    ax.set(xlabel="may depend on", ylabel="gaps of")
    label = "probability that it is larger where\nthere is a gap, less that it is smaller"
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax


@picture_of("TippingPoint")
def estimates(tipping: Any, *, ax: Any = None) -> "Axes":
    """Draw the pooled estimate under multiples of a shift of missing values, with its interval.

    Dashed lines mark the multiples at which the conclusion changes, and the number that the
    interval holds or does not.

    Parameters
    ----------
    tipping : TippingPoint
        Of ``mc.tipping_point``.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.standard_normal((60, 2)), columns=["a", "b"])
    >>> frame.loc[:15, "b"] = None
    >>> tipping = mc.tipping_point(mc.complete(frame), "b ~ 1", "b", estimate="Intercept")
    >>> tipping.plot.estimates().get_ylabel()
    'Intercept'
    """
    rows = tipping.rows()
    columns = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    multiples, level = columns["multiple"], f"{100.0 * tipping.confidence_level:g}% interval"
    ax.fill_between(
        multiples, columns["lower"], columns["upper"], color=BLUE, alpha=0.2, label=level
    )
    ax.plot(multiples, columns["estimate"], ".-", color=BLUE, label="pooled estimate")
    ax.axhline(tipping.null, color=GREY, linewidth=1.0)
    label = "the conclusion changes"
    for multiple in (tipping.below, tipping.above):
        if np.isfinite(multiple):
            ax.axvline(multiple, color=VERMILLION, linestyle="--", linewidth=1.0, label=label)
            label = f"_{label}"  # once in the key
    ax.set(xlabel="multiple of the shift", ylabel=shown(tipping.name or "estimate"))
    ax.legend(**KEY)
    return ax


def observed_spread(declared_column: Any) -> float:
    """The standard deviation of the observed values of a column, in its own unit; 1 for 0."""
    spread = float(np.nanstd(declared_column.codes)) * declared_column.coding.unit
    return spread if spread > 0.0 else 1.0


def filled_column(declared_column: Any, completed: Any, sds: Any, ax: "Axes") -> Any:
    """Draw the filled values of a column with their standard deviations."""
    name = plain(declared_column.name)
    if declared_column.name not in sds or declared_column.coding.places is not None:
        why = (
            "has no filled cell"
            if declared_column.name not in sds
            else f"is {with_article(declared_column.kind)}"
        )
        raise ModelError(
            f"filled: column {name!r} {why}; a column of numbers, counts or dates with filled"
            " cells is needed, or none for a map of the whole table"
        )
    table = nw.from_native(completed.table, eager_only=True)
    values, missing = table.get_column(declared_column.name), declared_column.column.missing
    numbers = values.to_numpy()
    if numbers.dtype.kind in "MO":
        from matplotlib.dates import date2num

        numbers = date2num(np.asarray(values.to_list(), dtype="datetime64[us]"))
        ax.yaxis_date()
    numbers = numbers.astype(float)
    order = np.argsort(numbers[missing], kind="stable")
    mean, sd = numbers[missing][order], sds[declared_column.name][order]
    places = np.arange(mean.size)
    observed = np.sort(numbers[~missing])
    across = np.linspace(0.0, max(mean.size - 1.0, 1.0), observed.size)
    ax.plot(across, observed, color=GREY, linewidth=1.0, label="observed values, sorted")
    ax.vlines(places, mean - sd, mean + sd, color=BLUE, alpha=0.4, linewidth=1.5)
    ax.plot(places, mean, ".", color=BLUE, markersize=4.0, label="filled values ± sd")
    ax.set(xlabel="filled cells, sorted", ylabel=shown(declared_column.name))
    ax.legend(**KEY)
    return ax

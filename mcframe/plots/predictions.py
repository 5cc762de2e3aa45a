"""Pictures of predictions and observations, and of scores and loadings."""

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import scipy
from scipy.special import betaincinv

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.data_forms import is_labelled_table
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.likelihood import ValueKind, has_probabilities
from mcframe.contracts.validators import Options, whole
from mcframe.fitting.new_rows import tables_of_new_rows
from mcframe.fitting.prediction import BlockLabels
from mcframe.model.held_out import Held
from mcframe.numerics.operators import orthogonal_factors
from mcframe.plots.drawing import (
    BLUE,
    COLOURS,
    GREY,
    MOST_POINTS,
    SHORT,
    SPACING,
    column_labels,
    picture_of,
    shown,
    some,
    tables_of_answer,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Levels of intervals whose coverage is counted, and the most entries that it is counted of.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
MOST_COUNTED = 20_000
# The probability of the bars around observed shares.
CONFIDENCE = 0.9
# The most arrows of a biplot that have names, and the largest share of the width of one name.
MOST_NAMES, LARGEST_SHARE = 25, 0.3


@picture_of("Fit", "Posterior")
def predictions(
    answer: Any, block: str | None = None, truth: Any = None, *, ax: Any = None
) -> "Axes":
    """Draw observed values against predicted ones, with the line on which both are equal.

    Without ``truth`` the values are those that the answer was computed from, and look better than
    new ones. More than 5,000 entries are drawn at random.

    Parameters
    ----------
    answer : Fit or Posterior
    block : str, optional
        A block of numbers, counts or levels; not needed if the model has one block.
    truth : array, DataFrame, ... as in ``mc.fit``, or (rows, columns, values), optional
        The values to compare with, such as held-out ones, in the rows of the answer. NaN, and
        cells that are not stored, are left out. A ``Held`` of a fold is one, too. Positions of
        rows and columns count from 0.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If the block has labels or classes, which ``calibration`` draws; if there is no such block;
        or if ``answer`` or ``ax`` is something else.
    DataError
        If ``truth`` does not fit the block, or there is nothing to compare with.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
    >>> mc.fit(model, {"x": x}).plot.predictions().get_xlabel()
    'predicted x'
    """
    block = block_of(answer, block, "predictions")
    likelihood = answer.model.block(block).likelihood
    kind = type(likelihood).__name__
    if likelihood.kind in (ValueKind.LABEL, ValueKind.CLASS):
        probable = has_probabilities(likelihood.of_label)
        remedy = f"; take plots.calibration(answer, {block!r})" if probable else ""
        raise ModelError(f"predictions: block {block!r} ({kind}) has labels or classes{remedy}")
    rows, columns, values = known_entries(answer, block, truth, MOST_POINTS)
    predicted = np.asarray(answer.predict(block, rows, columns))
    ends = min(predicted.min(), values.min()), max(predicted.max(), values.max())
    ax.plot(ends, ends, color=GREY, linewidth=1.0, zorder=1.0)
    faint = float(np.clip(15.0 / np.sqrt(values.size), 0.15, 0.8))
    ax.plot(predicted, values, "o", color=BLUE, markersize=3.5, alpha=faint, markeredgewidth=0.0)
    error = float(np.sqrt(np.mean(np.square(values - predicted))))
    whose = "observed entries" if truth is None else "entries of truth"
    ax.set(xlabel=f"predicted {shown(block)}", ylabel=f"observed {shown(block)}")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(f"{values.size} {whose}, root mean square error {error:.3g}", fontsize="medium")
    return ax


@picture_of("Fit", "Posterior")
def calibration(
    answer: Any,
    block: str | None = None,
    truth: Any = None,
    *,
    bins: int = 10,
    ax: Any = None,
) -> "Axes":
    """Draw how often labels, levels or classes occur against their predicted probability.

    The predictions are sorted and cut into ``bins`` groups of about the same size. A point is the
    mean probability of a group and the share in which the value was observed, with a bar of 90 %
    probability for that share (under the prior of Jeffreys). On the diagonal probabilities hold.
    Of levels and classes each value of each entry is a prediction.

    Parameters
    ----------
    answer : Fit or Posterior
    block : str, optional
        A block with ``Bernoulli``, ``Ordinal`` or ``Multinomial``, or for a fit a ``RiskMixture``
        of ``Bernoulli``; not needed if the model has one block.
    truth : array, DataFrame, ... as in ``mc.fit``, or (rows, columns, values), optional
        As in ``predictions``. Without it the entries are those that the answer was computed from.
    bins : int, default 10
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If the block has no probabilities of labels, levels or classes; if there is no such block;
        or if ``answer``, ``bins`` or ``ax`` is something else.
    DataError
        If ``truth`` does not fit the block, or there is nothing to compare with.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(0.1)])
    >>> fit = mc.fit(model, {"y": [[1.0, 1.0], [0.0, 0.0], [1.0, np.nan]]})
    >>> fit.plot.calibration().get_ylabel()
    'observed share'
    """
    block, bins = block_of(answer, block, "calibration"), Options.bins(bins)
    rows, columns, values = known_entries(answer, block, truth, MOST_COUNTED)
    possible, probabilities = probabilities_of(answer, block, rows, columns)
    happened = values[:, None] == possible
    if possible.size == 2:  # of labels the probability of one says that of the other
        probabilities, happened = probabilities[:, 1:], happened[:, 1:]
    order = np.argsort(probabilities, axis=None, kind="stable")
    groups = [group for group in np.array_split(order, bins) if group.size]
    sizes = np.array([group.size for group in groups])
    means = np.array([np.mean(probabilities.ravel()[group]) for group in groups])
    counts = np.array([np.count_nonzero(happened.ravel()[group]) for group in groups])
    draw_shares(ax, means, counts, sizes)
    ax.set(xlabel="predicted probability", ylabel="observed share")
    ax.set_title(f"{shown(block)}, {values.size} entries", fontsize="medium")
    return ax


@picture_of("Posterior", "ConformalPredictions")
def coverage(
    answer: Any, block: str | None = None, truth: Any = None, *, ax: Any = None
) -> "Axes":
    """Draw the share of values inside their intervals or sets against the level of these.

    At levels from 10 % to 99 %, with a bar of 90 % probability for each share (under the prior of
    Jeffreys). On the diagonal the levels hold; below it intervals are too short. Counts and levels
    are whole numbers, so their intervals may hold more. Labels and classes have sets.

    Parameters
    ----------
    answer : Posterior or ConformalPredictions
    block : str, optional
        Not needed if the model has one block.
    truth : array, DataFrame, ... as in ``mc.fit``, or (rows, columns, values), optional
        As in ``predictions``; of more than 20,000 values some are taken at random. Without it they
        are those that the answer was computed from, and intervals hold more of them than of new
        ones.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If there is no such block, or ``answer`` or ``ax`` is something else.
    DataError
        If ``truth`` does not fit the block, or there is nothing to compare with.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
    >>> mc.posterior(model, {"x": x}).plot.coverage().get_xlabel()
    'level of the intervals'
    """
    block = block_of(answer, block, "coverage")
    rows, columns, values = known_entries(answer, block, truth, MOST_COUNTED)
    likelihood = problem_of(answer).model.block(block).likelihood
    has_sets = has_probabilities(likelihood) and likelihood.kind is not ValueKind.LEVEL
    counts = []
    for level in LEVELS:
        if has_sets:
            inside = answer.set(block, level, rows, columns)[
                np.arange(values.size), values.astype(int)
            ]
        else:
            lower, upper = answer.interval(block, level, rows, columns)
            inside = (lower <= values) & (values <= upper)
        counts.append(np.count_nonzero(inside))
    draw_shares(ax, LEVELS, np.array(counts), np.full(LEVELS.size, values.size))
    ax.set(xlabel=f"level of the {'sets' if has_sets else 'intervals'}", ylabel="share inside")
    ax.set_title(f"{shown(block)}, {values.size} entries", fontsize="medium")
    return ax


def draw_shares(ax: "Axes", expected: Array, counts: IntArray, sizes: IntArray) -> None:
    """Draw shares of counts among sizes against what was expected, with bars and the diagonal."""
    tail = 0.5 * (1.0 - CONFIDENCE)
    lower = betaincinv(counts + 0.5, sizes - counts + 0.5, tail)
    upper = betaincinv(counts + 0.5, sizes - counts + 0.5, 1.0 - tail)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=1.0)
    ax.vlines(expected, lower, upper, color=BLUE, alpha=0.6, linewidth=1.5)
    ax.plot(expected, counts / sizes, "o-", color=BLUE, markersize=4.0, linewidth=0.8)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")


@picture_of("Fit", "Posterior", "Factors")
def biplot(answer: Any, axes: tuple[int, int] = (0, 1), *, ax: Any = None) -> "Axes":
    """Draw rows as points and columns as arrows along two principal axes of Z.

    Points are scores and arrows loadings, so that a row's number in Z, along these axes, is the
    product of both. Arrows are scaled to the size of the scores and have a colour for each block.
    The 25 longest ones have names. Of a fit the axes are those of the singular value decomposition
    of Z, of a posterior those of ``factors``.

    Parameters
    ----------
    answer : Fit, Posterior or Factors
    axes : (int, int), default (0, 1)
        Two different axes, counted from 0.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If Z has not so many axes, if a posterior has none, or if ``answer``, ``axes`` or ``ax`` is
        something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    >>> fit = mc.fit(model, {"x": np.diag([4.0, 3.0])})
    >>> fit.plot.biplot().get_xlabel()
    'principal axis 0 (64% of Z)'
    """
    scores, loadings, shares = principal_axes(answer)
    two = check_axes(axes, shares.size)
    points = np.asarray(scores)[:, two]
    points = points[some(len(points))]
    ax.plot(*points.T, "o", color=GREY, markersize=2.5, alpha=0.6, markeredgewidth=0.0)
    tips = np.vstack([block_loadings[:, two] for _, block_loadings in loadings.values()])
    lengths = np.hypot(*tips.T)
    tips = tips * 0.9 * np.max(np.abs(points)) / max(float(np.max(lengths)), np.finfo(float).tiny)
    ends = np.cumsum([len(block_loadings) for _, block_loadings in loadings.values()])
    for k, (block, block_loadings) in enumerate(
        zip(loadings, np.split(tips, ends[:-1]), strict=True)
    ):
        colour = COLOURS[k % len(COLOURS)]
        ax.quiver(
            *np.zeros((2, len(block_loadings))),
            *block_loadings.T,
            color=colour,
            label=shown(block),
            angles="xy",
            scale_units="xy",
            scale=1.0,
            width=0.004,
        )
    ax.axhline(0.0, color=GREY, linewidth=0.5, zorder=0.5)
    ax.axvline(0.0, color=GREY, linewidth=0.5, zorder=0.5)
    ax.update_datalim(tips)
    ax.margins(0.05, 0.08)
    ax.autoscale_view()
    inches = ax.get_window_extent().height / ax.figure.dpi
    longest = np.argsort(-lengths, kind="stable")[: min(MOST_NAMES, int(inches / SPACING))]
    names = [name for block_loadings, _ in loadings.values() for name in block_loadings]
    name_tips(ax, [names[place] for place in longest], tips[longest])
    ax.set(
        xlabel=f"principal axis {two[0]} ({shares[two[0]]:.0%} of Z)",
        ylabel=f"principal axis {two[1]} ({shares[two[1]]:.0%} of Z)",
    )
    if len(loadings) > 1:
        ax.legend(
            frameon=False, fontsize="small", ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0)
        )
    return ax


def name_tips(ax: "Axes", names: list[Any], tips: Array) -> None:
    """Write names beside the tips of arrows, moved up or down so that none covers another.

    The x axis becomes long enough for them.
    """
    from matplotlib.patheffects import withStroke

    bottom, top = ax.get_ylim()
    box, half = ax.get_window_extent(), float(np.max(np.abs(ax.get_xlim())))
    spacing = SPACING * (top - bottom) * ax.figure.dpi / box.height
    for side, on_side in (("left", tips[:, 0] >= 0.0), ("right", tips[:, 0] < 0.0)):
        sorted_tips = np.flatnonzero(on_side)[np.argsort(tips[on_side, 1], kind="stable")]
        if not sorted_tips.size:
            continue
        # The nearest heights of which each is one spacing above the last, or more.
        apart = spacing * np.arange(sorted_tips.size)
        rising = scipy.optimize.isotonic_regression(tips[sorted_tips, 1] - apart).x
        for place, height in zip(sorted_tips, rising + apart, strict=True):
            at, name = (tips[place, 0], height), f" {shown(names[place], SHORT)} "
            text = ax.annotate(name, at, ha=side, va="center", fontsize="small")
            # White around the letters, so that they can be read over arrows and points.
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
            if abs(height - tips[place, 1]) > 0.5 * spacing:  # a line to where the arrow ends
                ax.plot(tips[place, [0, 0]], [tips[place, 1], height], color=GREY, linewidth=0.5)
            share = min(text.get_window_extent().width / box.width, LARGEST_SHARE)
            half = max(half, abs(tips[place, 0]) / (1.0 - 2.0 * share))
    ax.set_xlim(-half, half)


def check_axes(axes: Any, n_axes: int) -> list[int]:
    """Two axes of Z, or a ``ModelError``."""
    try:
        two = [whole(axis, "an axis", 0) for axis in axes]
    except TypeError:
        two = []
    if len(set(two)) != 2 or len(two) != 2 or max(two) >= n_axes:
        raise ModelError(
            f"biplot: axes={axes!r} was given; two different axes are needed, and Z has"
            f" {n_axes}, counted from 0"
        )
    return two


def principal_axes(answer: Any) -> tuple[Array, dict[str, tuple[list[Any], Array]], Array]:
    """Scores (n x r), names and loadings (columns x r) of each block, and shares (r,)."""
    problem = getattr(answer, "problem", None)
    if problem is not None and hasattr(answer, "latent"):
        left, sizes, right = orthogonal_factors(answer.latent.left, answer.latent.right)
        scale = np.sqrt(len(left) / np.maximum(sizes, np.finfo(float).tiny))
        signs = np.sign(right[np.argmax(np.abs(right), axis=0), np.arange(sizes.size)])
        loadings = {
            block.name: named_loadings(
                column_labels(problem.tables[block.name]),
                (signs * right / scale)[problem.columns(block.name)],
            )
            for block in problem.model.blocks
        }
        squares = np.square(sizes)
        return (
            signs * left * scale,
            loadings,
            squares / max(float(np.sum(squares)), np.finfo(float).tiny),
        )
    factors = answer.factors() if problem is not None else answer
    r, loadings = factors.shares.size, {}
    for name, block_loadings in factors.loadings.items():
        numbers = np.asarray(block_loadings).reshape(len(block_loadings), r, -1).transpose(0, 2, 1)
        names = (
            list(block_loadings.index)
            if is_labelled_table(block_loadings)
            else list(range(len(block_loadings)))
        )
        loadings[name] = named_loadings(names, numbers.reshape(-1, r))
    return np.asarray(factors.scores), loadings, factors.shares


def named_loadings(names: list[Any], loadings: Array) -> tuple[list[Any], Array]:
    """Names for each row of loadings, those of several classes of a column numbered."""
    width = len(loadings) // max(len(names), 1)
    if width > 1:
        names = [f"{name} = {k}" for name in names for k in range(width)]
    return names, loadings


def block_of(answer: Any, block: str | None, picture: str) -> str:
    """The name of a block, which need not be given if there is only one."""
    model = problem_of(answer).model
    if block is not None:
        return str(model.block(block).name)
    if len(model.blocks) > 1:
        names = ", ".join(repr(declared_block.name) for declared_block in model.blocks)
        raise ModelError(f"{picture}: no block was given; the blocks are {names}")
    return str(model.blocks[0].name)


def problem_of(answer: Any) -> Any:
    """The problem of a fit, of a posterior, or of conformal predictions."""
    return answer.problem if hasattr(answer, "problem") else answer.posterior.problem


def known_entries(
    answer: Any, block: str, truth: Any, most: int
) -> tuple[IntArray, IntArray, Array]:
    """Rows, columns and values to compare predictions with; of more than ``most`` some at random.

    ``truth`` is None for the observed entries, (rows, columns, values), a ``Held``, or data of
    the block as in ``mc.fit``.
    """
    fitted = tables_of_answer(answer)[block]
    if isinstance(truth, Held):
        truth = truth.rows, truth.columns, truth.values
    if truth is None:
        entries = fitted.in_data_units().observed_entries()
        rows, columns, values = entries.rows, entries.columns, entries.values
    elif isinstance(truth, tuple) and len(truth) == 3:
        rows, columns, values = (np.asarray(part) for part in truth)
    else:
        new_table = tables_of_new_rows(problem_of(answer), {block: truth})[block].in_data_units()
        entries = in_rows_of(fitted, block, new_table.observed_entries())
        rows, columns, values = entries.rows, entries.columns, entries.values
    if not rows.size == columns.size == values.size > 0:
        raise DataError(
            f"block {block!r}: predictions cannot be compared with {rows.size} rows,"
            f" {columns.size} columns and {values.size} values; at least one entry is needed, with"
            " one of each"
        )
    chosen = some(values.size, most)
    return rows[chosen], columns[chosen], values[chosen]


def in_rows_of(fitted: Any, block: str, entries: Any) -> Any:
    """Entries at the rows of the answer: by labels if both have them, else by position."""
    if entries.index is None or fitted.index is None:
        if entries.shape[0] != fitted.shape[0]:
            raise DataError(
                f"block {block!r}: truth has {entries.shape[0]} rows, and the answer has"
                f" {fitted.shape[0]}; give NaN in rows that are not known, or positions and"
                " values, (rows, columns, values)"
            )
        return entries
    axes = BlockLabels.of(block, fitted)
    if axes.rows.equals(entries.index):
        return entries
    places = axes.places_of_rows(list(entries.index))
    return attrs.evolve(entries, rows=places[entries.rows])


def probabilities_of(
    answer: Any, block: str, rows: IntArray, columns: IntArray
) -> tuple[Array, Array]:
    """The values (V,) that labels, levels or classes have, and their probabilities (N x V)."""
    declared = answer.model.block(block).likelihood
    likelihood = declared.of_label
    if not has_probabilities(likelihood):
        remedy = (
            "" if declared.kind is ValueKind.LABEL else f"; take plots.predictions(.., {block!r})"
        )
        raise ModelError(
            f"calibration: block {block!r} ({type(declared).__name__}) has no probabilities of"
            f" labels, levels or classes{remedy}"
        )
    possible = likelihood.values
    if hasattr(answer, "probabilities"):
        return possible, np.asarray(answer.probabilities(block, rows, columns))
    if likelihood.width > 1:
        return possible, np.asarray(answer.predict(block, rows, columns))
    fitted, z = answer.likelihood(block), answer.natural(block, rows, columns)
    logs = [fitted.of_label.log_likelihood(z, np.full(z.shape, value)) for value in possible]
    return possible, np.exp(np.stack(logs, axis=1))

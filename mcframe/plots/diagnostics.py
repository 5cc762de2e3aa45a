"""Pictures of how an answer was found: gaps, evidence, spectra, and scores of cross-validation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.fitting.fit_answer import Fit
from mcframe.plots.drawing import (
    BLUE,
    GREY,
    LONG,
    MAP,
    PALE,
    VERMILLION,
    axis_words,
    picture_of,
    shown,
    styles,
)
from mcframe.risks import RiskMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Singular values along a path that have a line each.
MOST_PATHS = 30
# The corners of a triangle whose sides have length 1, for shares of PN, PU and NU.
CORNERS = np.array([[0.5, np.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])


@picture_of("Fit")
def gap(fit: Fit, *, ax: Any = None) -> "Axes":
    """Draw the relative gap of a fit against time, on a logarithmic axis.

    One point for each certificate: the gap of the best point and the best lower bound until then.

    Parameters
    ----------
    fit : Fit
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If no certificate has a finite gap, or ``fit`` or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> fit = mc.fit(model, {"x": np.diag([4.0, 3.0])})
    >>> fit.plot.gap().get_ylabel()
    'relative gap'
    """
    seconds, gaps = fit.history.seconds, fit.history.gap
    finite = np.isfinite(gaps)
    if not finite.any():
        raise ModelError(f"gap: the fit has no lower bound and no gap ({fit.message})")
    # A gap of 0 has no logarithm, and is known to no more than this.
    gaps = np.maximum(gaps[finite], np.finfo(float).eps)
    ax.semilogy(seconds[finite], gaps, "o-", color=BLUE, markersize=3.5, linewidth=1.2)
    ax.set(xlabel="time (s)", ylabel="relative gap", xlim=(0.0, None))
    ax.set_title(f"{fit.status} by {fit.backend}, rank {fit.rank}", fontsize="medium")
    return ax


@picture_of("Posterior")
def evidence(posterior: Any, *, ax: Any = None) -> "Axes":
    """Draw the lower bound on the log evidence against the sweeps.

    The axis begins at the bound after the second sweep, since the first one is far below. One
    Gaussian of rows is found in one step, so its picture is one point.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If ``posterior`` or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
    >>> mc.posterior(model, {"x": x}).plot.evidence().get_xlabel()
    'sweep'
    """
    sweeps = np.array([sweep.iteration for sweep in posterior.history])
    bounds = np.array([sweep.evidence for sweep in posterior.history])
    ax.plot(sweeps, bounds, "o-", color=BLUE, markersize=3.0, linewidth=1.2)
    if bounds.size > 3 and bounds[-1] > bounds[1]:
        height = bounds[-1] - bounds[1]
        ax.set_ylim(bounds[1] - 0.05 * height, bounds[-1] + 0.08 * height)
    ax.set(xlabel="sweep", ylabel="log evidence, lower bound (nats)")
    ax.set_title(f"{posterior.status} after {sweeps[-1]} sweeps", fontsize="medium")
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


@picture_of("Fit", "Path")
def singular_values(answer: Any, *, ax: Any = None) -> "Axes":
    """Draw the singular values of Z: of a fit in descending order, of a path against the weight.

    Along a path each singular value has a line, the 30 largest of them. The weight falls from
    left to right, on a logarithmic axis.

    Parameters
    ----------
    answer : Fit or Path
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If Z is 0 in a fit or in all fits of a path, or ``answer`` or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> path = mc.path(model, {"x": np.diag([4.0, 3.0])}, weights=[4.0, 2.0, 1.0])
    >>> path.plot.singular_values().get_xlabel()
    'weight of the nuclear norm'
    """
    path = getattr(answer, "fits", None)
    fits = (answer,) if path is None else path
    spectra = [fit.latent.singular_values()[: fit.rank] for fit in fits]
    longest = max(map(len, spectra))
    if longest == 0:
        raise ModelError("singular_values: Z is 0, so that it has none; take a smaller weight")
    if path is None:
        places = np.arange(1, longest + 1)
        ax.vlines(places, spectra[0][-1] / 2.0, spectra[0], color=GREY, linewidth=0.8)
        ax.semilogy(places, spectra[0], "o", color=BLUE, markersize=4.0)
        ax.set(
            xlabel="number of the singular value", ylabel="singular value of the latent matrix Z"
        )
        ax.xaxis.get_major_locator().set_params(integer=True)
        return ax
    values = np.zeros((len(fits), min(longest, MOST_PATHS)))
    for row, spectrum in zip(values, spectra, strict=True):
        row[: spectrum.size] = spectrum[: row.size]
    for column, style in zip(values.T, styles(), strict=False):
        ax.plot(answer.weights, column, linewidth=1.2, **style)
    falling_weights(ax, answer.term)
    ax.set(ylabel="singular values of the matrix Z", ylim=(0.0, None))
    return ax


@picture_of("Posterior")
def precisions(posterior: Any, *, ax: Any = None) -> "Axes":
    """Draw the prior precision of each factor, on a logarithmic axis.

    A learned precision grows without limit for a factor that is not needed. Factors are sorted,
    the most important one first.

    Parameters
    ----------
    posterior : Posterior
        With a ``NuclearNorm``.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If the posterior has no factors, or ``posterior`` or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
    >>> mc.posterior(model, {"x": x}).plot.precisions().get_xlabel()
    'factor, the most important one first'
    """
    numbers = posterior.engine.factor_precisions
    if numbers is None:
        raise ModelError(
            "precisions: the rows of this posterior are Gaussian and have no factors; declare"
            " NuclearNorm(), or see its principal axes in plots.biplot"
        )
    places = np.arange(1, numbers.size + 1)
    ax.semilogy(places, numbers, "o", color=BLUE, markersize=4.0)
    ax.set(xlabel="factor, the most important one first", ylabel="prior precision of its loadings")
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


@picture_of("CrossValidation")
def scores(chosen: Any, *, ax: Any = None) -> "Axes":
    """Draw the mean score of each model against the weight, with standard errors.

    The weight falls from left to right, on a logarithmic axis. A circle marks the lowest mean. A
    dotted line marks the largest weight within one standard error of it, where there is one.

    Parameters
    ----------
    chosen : CrossValidation
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If no weight has a finite mean, or ``chosen`` or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import RelativeError
    >>> rng = np.random.default_rng(0)
    >>> x = np.outer(rng.normal(size=30), np.ones(8)) + rng.normal(size=(30, 8))
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> chosen = mc.cross_validate(
    ...     model, {"x": x}, criterion=RelativeError("x"), weights=[30.0, 10.0, 3.0, 1.0]
    ... )
    >>> chosen.plot.scores().get_xlabel()
    'weight of the nuclear norm'
    """
    model, position = chosen.best
    lines = zip(chosen.grids, chosen.means, chosen.standard_errors, styles(), strict=False)
    for number, (weights, means, errors, style) in enumerate(lines):
        finite = np.isfinite(means)
        spread = np.where(np.isfinite(errors), errors, 0.0)
        ax.errorbar(
            weights[finite],
            means[finite],
            spread[finite],
            label=f"model {number}",
            capsize=2.0,
            linewidth=1.2,
            **style,
        )
    ax.plot(
        chosen.best_weight, chosen.means[model, position], "o", mfc="none", mec="black", ms=9.0
    )
    if np.isfinite(chosen.standard_errors[model, position]):
        ax.axvline(chosen.one_standard_error_weight, linestyle=":", color=GREY)
    falling_weights(ax, chosen.term)
    ax.set_ylabel(f"mean {shown(axis_words(chosen.criterion), LONG)}")
    if len(chosen.grids) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax


def falling_weights(ax: "Axes", term: str) -> None:
    """Label the axis of weights, logarithmic and falling from left to right."""
    ax.set(xscale="log", xlabel=f"weight of the {axis_words(term)}")
    ax.invert_xaxis()


@picture_of("CrossValidation", "dict")
def ternary(values: Any, *, label: str | None = None, ax: Any = None) -> "Axes":
    """Draw a number for each mixture of risks as a map over the triangle of PN, PU and NU.

    Each point is a triple (pn, pu, nu) with sum 1. PN is the corner on top, PU the left one, NU
    the right one. Between the points colours are interpolated. A circle marks the lowest number.

    Parameters
    ----------
    values : dict from (pn, pu, nu) to number, or CrossValidation
        Of a cross-validation each model has one ``RiskMixture``, and its number is the lowest mean
        score over the weights.
    label : str, optional
        The name of the numbers, with their unit; by default the criterion of a cross-validation.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If there are no triples with sum 1, a model has not one mixture, or ``ax`` is something
        else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> from mcframe import plots
    >>> ax = plots.ternary({(1, 0, 0): 0.3, (0, 1, 0): 0.2, (0, 0, 1): 0.4}, label="error")
    >>> [text.get_text() for text in ax.texts]
    ['PN', 'PU', 'NU']
    """
    if not isinstance(values, Mapping):
        label, values = label or values.criterion, scores_of_mixtures(values)
    shares, numbers = checked_triples(values)
    x, y = (shares @ CORNERS).T
    spread = np.linalg.matrix_rank(shares - shares[0], tol=1e-9) > 1
    options = {"cmap": MAP, "vmin": np.min(numbers), "vmax": np.max(numbers)}
    if spread:
        colours = ax.tripcolor(x, y, numbers, shading="gouraud", **options)
    colours = ax.scatter(x, y, c=numbers, s=24.0, edgecolors="white", linewidths=0.8, **options)
    best = np.argmin(numbers)
    ax.plot(x[best], y[best], "o", mfc="none", mec=VERMILLION, mew=2.0, ms=11.0)
    ax.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color=GREY, linewidth=0.8, zorder=0.5)
    for name, (across, up), offset in zip(
        ("PN", "PU", "NU"), CORNERS, ((0.0, 14.0), (-8.0, -12.0), (8.0, -12.0)), strict=True
    ):
        ax.annotate(
            name, (across, up), xytext=offset, textcoords="offset points", ha="center", va="center"
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.margins(0.12)
    ax.figure.colorbar(colours, ax=ax, label=shown(axis_words(label or ""), LONG), shrink=0.8)
    return ax


def checked_triples(values: Mapping[Any, Any]) -> tuple[Array, Array]:
    """Return shares (n x 3) and numbers (n,) that are finite, or raise a ``ModelError``."""
    try:
        shares = np.array([tuple(map(float, item)) for item in values], dtype=float)
        numbers = np.array([float(item) for item in values.values()])
    except (TypeError, ValueError):
        shares = numbers = np.zeros(0)
    wrong = shares.ndim != 2 or shares.shape[1:] != (3,)
    if wrong or np.min(shares) < 0.0 or np.max(np.abs(np.sum(shares, axis=1) - 1.0)) > 0.01:
        raise ModelError(
            "ternary: a dict from (pn, pu, nu) to a number is needed, shares of at least 0 with"
            f" sum 1; the keys are {list(values)[:3]!r}"
        )
    finite = np.isfinite(numbers)
    if not finite.any():
        raise ModelError("ternary: not one of the numbers is finite")
    return (shares / np.sum(shares, axis=1, keepdims=True))[finite], numbers[finite]


def scores_of_mixtures(chosen: Any) -> dict[tuple[float, float, float], float]:
    """Return the lowest mean score of each model of a cross-validation by its mixture."""
    lowest_scores = {}
    lowest = np.min(np.where(np.isfinite(chosen.means), chosen.means, np.inf), axis=1)
    for number, (model, score) in enumerate(zip(chosen.models, lowest, strict=True)):
        mixtures = [b.likelihood for b in model.blocks if isinstance(b.likelihood, RiskMixture)]
        if len(mixtures) != 1:
            raise ModelError(
                f"ternary: model {number} has {len(mixtures)} blocks with a RiskMixture; one is"
                " needed"
            )
        lowest_scores[mixtures[0].pn, mixtures[0].pu, mixtures[0].nu] = float(score)
    return lowest_scores


@picture_of("PosteriorCalibration")
def ranks(calibration: Any, kind: str | None = None, *, ax: Any = None) -> "Axes":
    """Draw how far the distribution of ranks lies from the uniform one, with bands.

    A line for each kind of numbers: the share of ranks up to each point less that of uniform
    ranks. The line of ``kind`` has a colour, and the bands between which all of it lies with a
    probability of 95 % where the posterior is right (Säilynoja, Bürkner and Vehtari, 2022). An S
    that rises first says that the posterior is too sure, a hill that its numbers are too large.

    Parameters
    ----------
    calibration : PosteriorCalibration
        The answer of ``mc.laws.check_posterior``.
    kind : str, optional
        One of the kinds of its table; by default the one with the smallest p value.
    ax : Axes of matplotlib, optional
        By default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If there is no such kind, or ``calibration`` or ``ax`` is something else.
    ModuleNotFoundError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.5))], [mc.GaussianRows(np.eye(3))])
    >>> found = mc.laws.check_posterior(model, {"x": (8, 3)}, n_tables=20)
    >>> found.plot.ranks("z, hidden cells").get_xlabel()
    'rank'
    """
    kinds = calibration.ranks
    kind = calibration.worst if kind is None else kind
    if kind not in kinds:
        raise ModelError(f"ranks: kind={kind!r} was given; the kinds are {', '.join(kinds)}")
    test = kinds[kind].test
    ends = np.linspace(0.0, 1.0, test.lower.size + 2)
    band = [np.concatenate([[0.0], side - ends[1:-1], [0.0]]) for side in (test.lower, test.upper)]
    ax.fill_between(ends, *band, color=PALE, label="95 % of right posteriors")
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    for name in sorted(kinds, key=lambda other: other == kind):
        counts = calibration.counts[name].sum(axis=0)
        shares = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
        points = np.linspace(0.0, 1.0, shares.size)
        shown_as = {"color": GREY, "linewidth": 0.6}
        if name == kind:
            shown_as = {"color": VERMILLION, "linewidth": 1.6, "label": kind}
        ax.plot(points, shares - points, **shown_as)
    ax.set(xlabel="rank", ylabel="share of ranks below, less the rank", xlim=(0.0, 1.0))
    ax.legend(fontsize="small")
    ax.set_title(f"{calibration.n_tables} tables, {calibration.method}", fontsize="medium")
    return ax

"""The pictures of the page "Three readings of one sentence": one answer of each reading.

    python examples/three_readings.py [FOLDER]

Writes ``posterior-verified.png``, ``posterior-optimised.png`` and ``posterior-intervals.png`` to
the folder, docs/ by default. The table is that of the page. Needs CVXPY and matplotlib.
"""

import pathlib
import sys

import numpy as np
from matplotlib.figure import Figure

import mcframe as mc

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def table():
    """The table of the page with holes, and whole."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 12))
    complete = truth + 0.3 * rng.normal(size=truth.shape)
    hidden = rng.random(complete.shape) < 0.3
    return np.where(hidden, np.nan, complete), complete


def figure_of(xlabel, ylabel):
    """A figure with one pair of axes."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def verified(model, data):
    """Each number of Z by the fast solver and by CVXPY."""
    answer = mc.verify(model, data)
    figure, axes = figure_of("predictor by CVXPY", "predictor by the fast solver")
    exact, fast = (fit.predict("x").ravel() for fit in (answer.reference, answer.fast))
    ends = np.min(exact), np.max(exact)
    axes.plot(ends, ends, color="0.7", linewidth=1.0)
    axes.plot(exact, fast, "o", markersize=4.0, color="tab:blue")
    axes.set_title(f"largest difference {np.max(np.abs(exact - fast)):.1g}", fontsize=10)
    return figure


def optimised(model, data):
    """The objective and the lower bound on its optimum, by iteration."""
    history = mc.fit(model, data, tol=1e-9).history
    figure, axes = figure_of("iteration", "distance to the last lower bound")
    last = np.max(history.bound)
    objective = history.objective - last
    axes.semilogy(history.iteration, objective, "o-", markersize=3.0, label="objective")
    shown = history.bound < last
    bound = (last - history.bound)[shown]
    axes.semilogy(history.iteration[shown], bound, "s--", markersize=3.0, label="lower bound")
    axes.legend(frameon=False)
    return figure


def intervals(data, complete):
    """Hidden entries beside their means and 90 % intervals, in the order of the means."""
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None), bias=True)], [mc.NuclearNorm()])
    posterior = mc.posterior(model, data)
    cells = [places[::3] for places in np.nonzero(np.isnan(data["x"]))]
    mean, truth = posterior.predict("x", *cells), complete[tuple(cells)]
    lower, upper = posterior.interval("x", 0.9, *cells)
    order = np.argsort(mean)
    figure, axes = figure_of("hidden entries, in the order of their means", "value")
    places = np.arange(mean.size)
    axes.vlines(places, lower[order], upper[order], color="tab:blue", alpha=0.35, linewidth=3.0)
    axes.plot(places, mean[order], color="tab:blue", linewidth=1.0, label="mean, 90 % interval")
    inside = (lower <= truth) & (truth <= upper)
    for own, colour, label in ((inside, "black", "truth"), (~inside, "tab:red", "truth, outside")):
        axes.plot(places[own[order]], truth[order][own[order]], ".", color=colour, label=label)
    axes.legend(frameon=False)
    return figure


def main():
    """Write the pictures."""
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    holes, complete = table()
    blocks = [mc.Block("x", mc.Gaussian(variance=0.09), bias=True)]
    model = mc.Model(blocks, [mc.NuclearNorm(6.0)])
    pictures = {
        "verified": verified(model, {"x": holes[:15, :6]}),
        "optimised": optimised(model, {"x": holes}),
        "intervals": intervals({"x": holes}, complete),
    }
    for name, figure in pictures.items():
        figure.savefig(folder / f"posterior-{name}.png", dpi=100)


if __name__ == "__main__":
    main()

"""Slipped decimal points.

Question: can a table be completed, and cleaned, while some values are wrong?

Data: 569 tumours with 30 measurements each, scikit-learn's bundled breast cancer table (Street
and others, 1993). No table at hand tells which of its values are wrong, so errors are simulated:
in 4 % of the entries the decimal point slips by one place. A fifth of the table is hidden.

Model: a low-rank matrix under ``mc.Huber``, which counts large residuals linearly, beside the
same with squared residuals. Columns are scaled by median and quartiles, which errors hardly move.
Plain alternatives: the median of the column, and a rule for each column by itself (more than
1.5 interquartile ranges beyond the quartiles).
"""

import numpy as np
from common import OURS, PLAIN, axes, save
from sklearn.datasets import load_breast_cancer

import mcframe as mc

frame = load_breast_cancer(as_frame=True).data
rng = np.random.default_rng(0)
hidden = rng.random(frame.shape) < 0.2
slipped = (rng.random(frame.shape) < 0.04) & ~hidden & (frame != 0.0).to_numpy()
factor = np.where(rng.random(frame.shape) < 0.5, 10.0, 0.1)
table = frame.mask(slipped, frame * factor).mask(hidden)

spread = (table.quantile(0.75) - table.quantile(0.25)) / 1.349


def absolute_error(fit, held):
    """The mean absolute error of held-out entries, in spreads of their columns."""
    x = held["x"]
    found = fit.predict("x", x.rows, x.columns)
    return np.mean(np.abs(found - x.values) / spread.to_numpy()[x.columns])


def fitted(likelihood):
    """A fit at the weight with the smallest mean absolute error of held-out entries."""
    model = mc.Model(
        [mc.Block("x", likelihood, standardize="robust", bias=True)], [mc.NuclearNorm(1.0)]
    )
    chosen = mc.cross_validate(
        model,
        {"x": table},
        criterion=absolute_error,
        cv=3,
        weights=mc.selection.Grid(count=12, ratio=0.01),
        tol=1e-3,
    )
    fit = mc.fit(chosen.best_model, {"x": table}, tol=1e-4)
    print(f"{type(likelihood).__name__}: rank {fit.rank}, {fit.status}")
    return fit.predict("x")


answers = {
    "median": np.broadcast_to(table.median(), frame.shape),
    "Gaussian": fitted(mc.Gaussian()).to_numpy(),
    "Huber": fitted(mc.Huber(0.5)).to_numpy(),
}
print(f"{hidden.sum()} entries hidden, {slipped.sum()} wrong ones among the others")
error = {}
for name, found in answers.items():
    error[name] = (np.abs(found - frame) / spread).to_numpy()[hidden].mean()
    print(f"{name:<10} mean absolute error of hidden entries {error[name]:.3f} spreads")

# How unlike its prediction an entry is, or how far beyond the quartiles of its column.
surprise = {name: (np.abs(table - found) / spread).to_numpy() for name, found in answers.items()}
beyond = np.maximum(table.quantile(0.25) - table, table - table.quantile(0.75)) / spread
surprise["quartiles of the column"] = beyond.to_numpy()
observed, flagged = ~hidden, {}
for name, size in surprise.items():
    order = np.argsort(-size[observed])[: slipped.sum()]
    flagged[name] = slipped[observed][order].mean()
    print(
        f"{name:<24} {flagged[name]:.0%} of the {slipped.sum()} most unlike entries are wrong ones"
    )

axis = axes(xlabel="entries, the most unlike first", ylabel="wrong ones found")
for name, colour in (
    ("Huber", OURS),
    ("Gaussian", "tab:green"),
    ("quartiles of the column", PLAIN),
):
    order = np.argsort(-surprise[name][observed])[: 3 * slipped.sum()]
    axis.plot(np.cumsum(slipped[observed][order]), color=colour, label=name)
axis.axvline(slipped.sum(), color="0.7", linewidth=0.8)
axis.legend(frameon=False)
save(axis, "outliers")
# A slipped point moves a value by several spreads: squares follow it, and Huber's loss must not.
assert error["Huber"] < 0.6 * min(error["Gaussian"], error["median"])
assert flagged["Huber"] > flagged["quartiles of the column"]

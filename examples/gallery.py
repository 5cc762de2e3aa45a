"""The pictures of the gallery: curves of losses, and one table completed under several terms.

The pages ``docs/likelihoods.md`` and ``docs/regularizers.md`` call both functions when they are
built. Needs matplotlib.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import mcframe as mc
from mcframe.contracts import Likelihood, Term
from mcframe.laws.checking import observations_of

# The palette of Okabe and Ito (2008), which colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
BLANK = "0.82"


def losses(
    likelihood: Likelihood,
    observations: Sequence[float | tuple[float, float]],
    predictors: tuple[float, float] = (-4.0, 4.0),
) -> Any:
    """Draw the loss of each observation, and the prediction, against the predictor z.

    Of classes the first predictor varies and the others are 0. NaN is an unlabeled entry, a pair
    are the limits between which an observation lies.
    """
    z = np.linspace(*predictors, 401)
    latent = z
    if likelihood.width > 1:
        latent = np.column_stack([z, *[np.zeros_like(z)] * (likelihood.width - 1)])
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.0, 2.2), layout="constrained")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_prop_cycle(color=COLOURS)
    for y in observations:
        values = likelihood.value(latent, np.full(z.shape, observations_of(likelihood, [y])[0]))
        label = label_of(y)
        if np.count_nonzero(np.isfinite(values)) > 1:
            left.plot(z, values, label=label)
        else:  # finite at one point alone
            left.plot([y, y, y], [0.0, 0.5, 1.0], marker="o", markevery=[0], label=label)
    left.set(xlabel="predictor z", ylabel="loss", xlim=predictors)
    left.legend(frameon=False, fontsize="small")
    means = likelihood.mean(latent)
    if means.ndim > 1:
        right.plot(z, means, label=[f"class {k}" for k in range(likelihood.width)])
        right.legend(frameon=False, fontsize="small")
    else:
        right.plot(z, means, color="black")
    right.set(xlabel="predictor z", ylabel="prediction", xlim=predictors)
    return figure


def label_of(y: float | tuple[float, float]) -> str:
    """An observation in the legend."""
    if not isinstance(y, tuple):
        return "unlabeled" if np.isnan(y) else f"y = {y:g}"
    lower, upper = y
    if np.isinf(lower) or np.isinf(upper):
        return f"y < {upper:g}" if np.isinf(lower) else f"y > {lower:g}"
    return f"{lower:g} < y < {upper:g}"


def table(shape: tuple[int, int] = (24, 16), level: float = 0.0) -> tuple[Any, Any]:
    """A matrix of rank 2, and the same with noise and with half of its entries missing."""
    rng = np.random.default_rng(0)
    truth = level + rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    seen = truth + 0.3 * rng.standard_normal(shape)
    return truth, np.where(rng.random(shape) < 0.5, seen, np.nan)


def answers(models: Mapping[str, Sequence[Term]], truth: Any = None, seen: Any = None) -> Any:
    """Draw a matrix, its observed entries, and the completion under each list of terms.

    Below each completion stands its error at the missing entries.
    """
    if truth is None:
        truth, seen = table()
    missing = np.isnan(seen)
    panels = {"truth": truth, "observed": seen}
    for name, terms in models.items():
        model = mc.Model([mc.Block("x", mc.Gaussian())], terms)
        panels[name] = mc.fit(model, {"x": seen}, tol=1e-3).predict("x")
    widest = float(np.max(np.abs(truth - truth.mean())))
    colours = plt.get_cmap("RdBu_r").with_extremes(bad=BLANK)
    figure, row = plt.subplots(
        1, len(panels), figsize=(1.25 * len(panels), 2.2), layout="constrained"
    )
    for axes, (name, values) in zip(row, panels.items(), strict=True):
        axes.imshow(values, cmap=colours, vmin=truth.mean() - widest, vmax=truth.mean() + widest)
        axes.set_title(name, fontsize="small")
        axes.set(xticks=[], yticks=[])
        if name in models:
            error = np.sqrt(np.mean((values - truth)[missing] ** 2))
            axes.set_xlabel(f"error {error:.2f}", fontsize="small")
    return figure

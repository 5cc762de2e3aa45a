"""What Hayashi, Sakai and Sugiyama (2018) claim and show no table of, by simulation."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from mcframe.contracts.errors import NotCertifiedWarning
from mcframe.fitting.fit import fit
from mcframe.likelihoods import Bernoulli
from mcframe.model import Block, Model, Problem
from mcframe.numerics.operators import LowRank
from mcframe.papers import (
    logistic_quantization,
    max_norm_radius,
    nu,
    pn,
    probit_quantization,
    pu,
    tri,
)
from mcframe.regularizers import NuclearNorm
from mcframe.selection import Grid, path
from papers.data import binary_low_rank
from papers.experiment import Experiment, Summary
from papers.growing_factors import GrowingFactors

__all__ = [
    "HayashiBound",
    "HayashiOracle",
    "HayashiRisks",
    "HayashiWidths",
    "draw_orders",
    "slope",
]

SOURCE = "Hayashi, Sakai, Sugiyama (2018), Binary Matrix Completion Using Unobserved Entries"


@attrs.frozen
class HayashiRisks(Experiment):
    """Eqs. 80 to 95: PU and NU have the mean of the risk of complete labels, at any matrix."""

    size: int = 30
    rank: int = 2
    draws: int = 50
    missing: tuple[float, ...] = (0.15, 0.5, 0.85)

    name = "hayashi-risks"
    title = "Means of the PU and NU risks beside the risk of complete labels"
    source = f"{SOURCE}, Eqs. 80 to 95"
    default_trials = 20
    measure = "mean over draws / risk of complete labels"
    notes = (
        "A trial has matrices M and X of its own, and averages over draws of labels and of what"
        " is observed. PN is divided by the share observed.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """8 x 8, five draws."""
        return cls(size=8, draws=5)

    def settings(self) -> Sequence[str]:
        """Shares that are missing."""
        return tuple(f"{share:.0%} missing" for share in self.missing)

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The three risks at one matrix X, over labels drawn by another one."""
        share = self.missing[self.settings().index(setting)]
        likelihood, shape = logistic_quantization(4.0), (self.size, self.size)
        truth = binary_low_rank(shape, self.rank, 0.0, rng, likelihood=likelihood).latent
        at = binary_low_rank(shape, self.rank, 0.0, rng, likelihood=likelihood).latent
        probability = 1.0 / (1.0 + np.exp(-4.0 * truth))
        losses = np.logaddexp(0.0, -4.0 * at), np.logaddexp(0.0, 4.0 * at)
        complete = float(np.sum(probability * losses[0] + (1.0 - probability) * losses[1]))
        sums = dict.fromkeys(("PN", "PU", "NU"), 0.0)
        for _ in range(self.draws):
            labels = np.where(rng.random(shape) < share, np.nan, rng.random(shape) < probability)
            for name, preset in (("PN", pn), ("PU", pu), ("NU", nu)):
                model = preset(1e3, missing_rate=share, likelihood=likelihood)
                value = Problem.bind(model, {"labels": labels}).objective(LowRank.of(at), {})
                sums[name] += value / (1.0 - share if name == "PN" else 1.0)
        return {name: total / self.draws / complete for name, total in sums.items()}


@attrs.frozen
class HayashiBound(Experiment):
    """Sections 3.1 to 3.5: mean squared errors fall like the root of r n / |Omega| at least."""

    sizes: tuple[int, ...] = (25, 50, 100)
    shares: tuple[float, ...] = (0.2, 0.4, 0.8)
    ranks: tuple[int, ...] = (1, 2, 4)

    name = "hayashi-bound"
    title = "Mean squared error of PN in K_max by size and by the share observed"
    source = f"{SOURCE}, section 3"
    default_trials = 5
    notes = (
        "The certified optimum of PN in K_max(1, sqrt(rank)), logistic of steepness 4.",
        "slope: of log error by log size, or by log share; the bounds say at most -0.5.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """Up to 16 x 16."""
        return cls(sizes=(8, 16), shares=(0.5, 0.9), ranks=(2,))

    def settings(self) -> Sequence[str]:
        """Ranks; sizes and shares vary within a trial."""
        return tuple(f"rank {rank}" for rank in self.ranks)

    def tolerance(self, measure: str) -> float:
        """Fits are solved to a gap."""
        return 1e-2

    def error(self, rank: int, size: int, share: float, rng: np.random.Generator) -> float:
        """The mean squared error of one draw."""
        likelihood = logistic_quantization(4.0)
        drawn = binary_low_rank((size, size), rank, 1.0 - share, rng, likelihood=likelihood)
        model = pn(max_norm_radius(1.0, rank), bound=1.0, likelihood=likelihood)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCertifiedWarning)
            exact = fit(model, {"labels": drawn.labels}, tol=1e-3, max_iter=2000)
        return float(np.mean((exact.latent.dense() - drawn.latent) ** 2))

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """All sizes at the middle share, all shares at the largest size, and both slopes."""
        rank, middle = int(setting.removeprefix("rank ")), self.shares[len(self.shares) // 2]
        by_size = [self.error(rank, size, middle, rng) for size in self.sizes]
        by_share = [self.error(rank, self.sizes[-1], share, rng) for share in self.shares]
        found = {f"size {n}": value for n, value in zip(self.sizes, by_size, strict=True)}
        found |= {f"share {s:g}": value for s, value in zip(self.shares, by_share, strict=True)}
        found["slope by size"] = slope(self.sizes, by_size)
        found["slope by share"] = slope(self.shares, by_share)
        return found

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Lines on logarithmic axes by size and by share, with lines of slope -1/2."""
        return draw_orders(
            figure, summary, {"size": self.sizes, "share": self.shares}, (-0.5, -0.5)
        )


def draw_orders(
    figure: Any,
    summary: Summary,
    axis_places: Mapping[str, Sequence[float]],
    orders: Sequence[float],
) -> bool:
    """Draw errors on logarithmic axes, a panel for each axis, with a line of the bound's slope."""
    panels = figure.subplots(1, len(axis_places))
    for axes, (name, places), order in zip(panels, axis_places.items(), orders, strict=True):
        for setting, found in summary.items():
            means = [found[f"{name} {place:g}"].mean for place in places]
            axes.loglog(places, means, "o-", label=setting)
        bound = [means[0] * (place / places[0]) ** order for place in places]
        axes.loglog(places, bound, "k--", label=f"slope {order:g}")
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.xaxis.minorticks_off()
        axes.set_xlabel(name)
        axes.legend(fontsize=7)
    panels[0].set_ylabel("mean squared error")
    return True


def slope(places: Sequence[float], values: Sequence[float]) -> float:
    """The slope on logarithmic axes, by least squares."""
    return float(np.polyfit(np.log(places), np.log(values), 1)[0])


@attrs.frozen
class HayashiOracle(Experiment):
    """The least error of any nuclear norm penalty, its weight chosen by looking at M."""

    size: int = 100
    rank: int = 10
    weights: int = 15
    observed: tuple[float, ...] = (0.15, 0.85)

    name = "hayashi-oracle"
    title = "The least relative error that a nuclear norm penalty can have"
    source = f"{SOURCE}, section 6.1; not in the paper"
    default_trials = 5
    measure = "least relative error"

    @classmethod
    def tiny(cls) -> Self:
        """20 x 20 of rank 2."""
        return cls(size=20, rank=2, weights=5)

    def settings(self) -> Sequence[str]:
        """Shares observed."""
        return tuple(f"{share:.0%} observed" for share in self.observed)

    def tolerance(self, measure: str) -> float:
        """Fits are solved to a gap."""
        return 1e-2

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One draw of figure 1."""
        share = self.observed[self.settings().index(setting)]
        likelihood = probit_quantization(0.1)
        drawn = binary_low_rank(
            (self.size, self.size), self.rank, 1.0 - share, rng, likelihood=likelihood
        )
        model = Model([Block("labels", Bernoulli("probit", scale=0.1))], [NuclearNorm(1.0)])
        fits = path(
            model,
            {"labels": drawn.labels},
            weights=Grid(count=self.weights),
            tol=1e-4,
        )
        return {"probit": min(drawn.relative_error(each.latent.dense()) for each in fits)}


@attrs.frozen
class HayashiWidths(Experiment):
    """PN and a mixture by the last width of the factors, 85 % observed."""

    size: int = 300
    rank: int = 10
    widths: tuple[int, ...] = (10, 20, 40, 160)
    max_iter: int = 200

    name = "hayashi-widths"
    title = "Relative error by the last width of the factors"
    source = f"{SOURCE}, section 5.4; not in the paper"
    default_trials = 3
    measure = "relative error of"
    points: ClassVar[Mapping[str, tuple[float, float, float]]] = {
        "PN": (1.0, 0.0, 0.0),
        "(0.34, 0.33, 0.33)": (0.34, 0.33, 0.33),
    }

    @classmethod
    def tiny(cls) -> Self:
        """40 x 40 of rank 2."""
        return cls(size=40, rank=2, widths=(5, 10), max_iter=50)

    def settings(self) -> Sequence[str]:
        """The last widths."""
        return tuple(f"width {width}" for width in self.widths)

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """Both risks on one draw of figure 3."""
        likelihood = logistic_quantization(7.0)
        drawn = binary_low_rank(
            (self.size, self.size), self.rank, 0.15, rng, likelihood=likelihood
        )
        width, seed = int(setting.removeprefix("width ")), int(rng.integers(2**32))
        scheme = GrowingFactors(largest=width, max_iter=self.max_iter)
        found = {}
        for name, point in self.points.items():
            radius = max_norm_radius(1.0, self.rank)
            model = tri(*point, radius, bound=1.0, missing_rate=0.15, likelihood=likelihood)
            problem = Problem.bind(model, {"labels": drawn.labels})
            latent = scheme.last_latent(problem, np.random.default_rng(seed))
            found[name] = drawn.relative_error(latent.dense())
        return found

"""Ones alone observed: Hsieh et al. (2015) as section 3.3 of Hayashi et al. (2018) has it."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, singular_values
from mcframe.fitting.fit import fit
from mcframe.likelihoods import Bernoulli
from mcframe.model import Problem
from mcframe.papers import (
    logistic_quantization,
    max_norm_radius,
    pn,
    pu,
    shift_mc,
    shift_mc_projections,
    trace_norm_radius,
    tri,
)
from papers.data import binary_low_rank
from papers.experiment import Experiment, Summary
from papers.growing_factors import GrowingFactors
from papers.hayashi_claims import draw_orders, slope

__all__ = ["HayashiPositives", "HayashiPositivesBound"]

SOURCE = "Hayashi, Sakai, Sugiyama (2018), Binary Matrix Completion Using Unobserved Entries"
RADII = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0)


def ones_of(labels: Array) -> dict[str, Array]:
    """The observed ones; observed zeros become unlabeled."""
    return {"labels": np.where(labels == 1.0, 1.0, np.nan)}


@attrs.frozen
class HayashiPositives(Experiment):
    """Hsieh et al. beside PN, PU and TRI: the same draws, but the observed ones alone."""

    size: int = 100
    rank: int = 10
    largest: int = 20
    max_iter: int = 200
    shares: tuple[float, ...] = (0.15, 0.5, 0.85)

    name = "hayashi-positives"
    title = "Probabilities from ones alone (Hsieh et al., 2015) beside PN, PU and TRI"
    source = f"{SOURCE}, section 3.3; a table of ours"
    default_trials = 5
    measure = "method, what"
    notes = (
        "error: relative Frobenius error of the probabilities f(M). wrong: the share of entries"
        " on the wrong side of 1/2.",
        "Hsieh: the certified optimum of their problem, from the observed ones alone; t is the"
        " nuclear norm of f(M), sqrt(r d1 d2), or that of six shares of the first with the least"
        " error, which takes f(M) to know.",
        "Hsieh, one step: one singular value decomposition and one cut, scaled into the ball;"
        " steps: how many projections there are until the gap is 1e-3.",
        "PN, PU, TRI: the published algorithm in K_max, as in Figure 3. PN and TRI have the"
        " observed zeros, too; to PU they are unlabeled.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """30 x 30 of rank 2."""
        return cls(size=30, rank=2, largest=4, max_iter=100, shares=(0.5,))

    def settings(self) -> Sequence[str]:
        """Shares observed."""
        return tuple(f"{share:.0%} observed" for share in self.shares)

    def tolerance(self, measure: str) -> float:
        """Fits are solved to a gap."""
        return 1.0 if measure.endswith(("gap", "excess", "steps")) else 1e-2

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """All methods on one draw."""
        share = self.shares[self.settings().index(setting)]
        likelihood, shape = logistic_quantization(7.0), (self.size, self.size)
        drawn = binary_low_rank(shape, self.rank, 1.0 - share, rng, likelihood=likelihood)
        true = likelihood.mean(drawn.latent)
        answers = self.in_factors(likelihood, share, drawn.labels, rng)
        ones, norm = ones_of(drawn.labels), float(np.sum(singular_values(true)))
        exact = fit(shift_mc(norm, 1.0 - share), ones, tol=1e-4)
        step = shift_mc_projections(ones, norm, 1.0 - share, max_iter=1)
        steps = shift_mc_projections(ones, norm, 1.0 - share)
        loose = trace_norm_radius(1.0, self.rank, shape)
        tried = [shift_mc_projections(ones, c * norm, 1.0 - share) for c in RADII]
        tried.sort(key=lambda each: float(np.linalg.norm(each.latent.dense() - true)))
        answers |= {
            "Hsieh": exact.latent.dense(),
            "Hsieh, t = sqrt(r d1 d2)": fit(
                shift_mc(loose, 1.0 - share), ones, tol=1e-4
            ).latent.dense(),
            "Hsieh, best t": tried[0].latent.dense(),
            "Hsieh, one step": step.latent.dense(),
            "1/2 everywhere": np.full(shape, 0.5),
        }
        size, found = np.linalg.norm(true), dict[str, float]()
        for name, answer in answers.items():
            found[f"{name}, error"] = float(np.linalg.norm(answer - true) / size)
            found[f"{name}, wrong"] = float(np.mean((answer > 0.5) != (true > 0.5)))
        found["Hsieh, gap"] = exact.gap
        found["Hsieh, one step, excess"] = (step.objective - exact.bound) / abs(exact.bound)
        found["Hsieh, steps"] = float(steps.history[-1].iteration)
        return found

    def in_factors(
        self, likelihood: Bernoulli, share: float, labels: Array, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Probabilities of the published algorithm for the risks of the paper."""
        radius, seed = max_norm_radius(1.0, self.rank), int(rng.integers(2**32))
        options: Any = {"bound": 1.0, "missing_rate": 1.0 - share, "likelihood": likelihood}
        models = {
            "PN": pn(radius, **options),
            "PU": pu(radius, **options),
            "TRI (0.3, 0.3, 0.4)": tri(0.3, 0.3, 0.4, radius, **options),
        }
        scheme = GrowingFactors(largest=self.largest, max_iter=self.max_iter)
        found = {}
        for name, model in models.items():
            problem = Problem.bind(model, {"labels": labels})
            latent = scheme.last_latent(problem, np.random.default_rng(seed))
            found[name] = likelihood.mean(latent.dense())
        return found


@attrs.frozen
class HayashiPositivesBound(Experiment):
    """Theorem 3.5: the mean squared error is at most of order sqrt(r) / ((1 - rho) sqrt(d))."""

    sizes: tuple[int, ...] = (25, 50, 100, 200)
    shares: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8)
    ranks: tuple[int, ...] = (1, 2, 4)

    name = "hayashi-positives-bound"
    title = "Mean squared error of Hsieh et al. by size and by the share of ones observed"
    source = f"{SOURCE}, Theorem 3.5"
    default_trials = 5
    notes = (
        "The optimum to a gap of 1e-3. M = (1 + M') / 2, M' drawn as in section 6.1; a label is 1"
        " with probability M, and ones alone are observed.",
        "slope: of log error by log size at the share 0.4, or by log share at size 100. With"
        " t = sqrt(r) d the bound falls with slope -0.5 by size, and rises like 1 / share.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """Up to 16 x 16."""
        return cls(sizes=(8, 16), shares=(0.5, 0.9), ranks=(2,))

    @property
    def middle(self) -> tuple[int, float]:
        """The size at which shares vary, and the share at which sizes vary."""
        return self.sizes[len(self.sizes) // 2], self.shares[len(self.shares) // 2]

    def settings(self) -> Sequence[str]:
        """Ranks and radii; sizes and shares vary within a trial."""
        radii = ("t = norm of M", "t = sqrt(r) d")
        return tuple(f"rank {rank + 1}, {radius}" for rank in self.ranks for radius in radii)

    def tolerance(self, measure: str) -> float:
        """Fits are solved to a gap."""
        return 1e-2

    def error(self, setting: str, size: int, share: float, rng: np.random.Generator) -> float:
        """The mean squared error of one draw."""
        rank, shape = int(setting.split(",")[0].removeprefix("rank ")), (size, size)
        true = (1.0 + binary_low_rank(shape, rank - 1, 0.0, rng).latent) / 2.0
        labels = np.where(rng.random(shape) < share, rng.random(shape) < true, np.nan)
        if setting.endswith("norm of M"):
            radius = float(np.sum(singular_values(true)))
        else:
            radius = trace_norm_radius(1.0, rank, shape)
        answer = shift_mc_projections(ones_of(labels), radius, 1.0 - share)
        return float(np.mean((answer.latent.dense() - true) ** 2))

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """All sizes at the middle share, all shares at the middle size, and both slopes."""
        size, share = self.middle
        by_size = [self.error(setting, n, share, rng) for n in self.sizes]
        by_share = [self.error(setting, size, s, rng) for s in self.shares]
        found = {f"size {n}": value for n, value in zip(self.sizes, by_size, strict=True)}
        found |= {f"share {s:g}": value for s, value in zip(self.shares, by_share, strict=True)}
        found["slope by size"] = slope(self.sizes, by_size)
        found["slope by share"] = slope(self.shares, by_share)
        return found

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Lines on logarithmic axes by size and by share, with those of the bound's order."""
        return draw_orders(figure, summary, {"size": self.sizes, "share": self.shares}, (-0.5, -1))

"""How far the algorithm of Hayashi et al. (2018) ends above the optimum of its problem."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Self

import attrs
import numpy as np

from mcframe.contracts.errors import NotCertifiedWarning
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Problem
from mcframe.papers import logistic_quantization, max_norm_radius, probit_quantization, tri
from papers.data import binary_low_rank
from papers.experiment import Experiment
from papers.growing_factors import GrowingFactors, growing_factors
from papers.ternary import Triple

__all__ = ["HayashiExcess"]


@attrs.frozen
class Instance:
    """A draw as in figures 1 to 3, and a mixture of risks that is convex on it."""

    link: str
    missing_rate: float
    point: Triple


INSTANCES = {
    "PN, probit, 85 % observed": Instance("probit", 0.15, (1.0, 0.0, 0.0)),
    "TRI, logistic, 15 % observed": Instance("logit", 0.85, (0.3, 0.3, 0.4)),
    "TRI, logistic, 85 % observed": Instance("logit", 0.15, (0.3, 0.3, 0.4)),
    "PU, logistic, 85 % observed": Instance("logit", 0.15, (0.0, 1.0, 0.0)),
}


@attrs.frozen
class HayashiExcess(Experiment):
    """The published algorithm at several final widths beside the certified optimum."""

    size: int = 100
    rank: int = 10
    widths: tuple[int, ...] = (5, 10, 20, 100)
    max_iter: int = 200

    name = "hayashi-excess"
    title = "The published projected gradient beside the certified optimum of its problem"
    source = "Hayashi, Sakai, Sugiyama (2018), section 5.4; a table of ours"
    default_trials = 3
    measure = "width k, what"
    notes = (
        "excess: (objective - bound) / |bound|, with the bound of the certified optimum, inf where"
        " that is 0 (PN fits every label); gap: what the fit's own certificate says; error:"
        " relative Frobenius error.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """30 x 30 of rank 2, two widths."""
        return cls(size=30, rank=2, widths=(2, 8), max_iter=100)

    def tolerance(self, measure: str) -> float:
        """The optimum is known up to a gap, and the excess with it."""
        return 1.0

    def settings(self) -> Sequence[str]:
        """Return the names of the instances."""
        return tuple(INSTANCES)

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The optimum of one draw, and the algorithm at each width."""
        instance = INSTANCES[setting]
        probit = instance.link == "probit"
        likelihood = probit_quantization(0.1) if probit else logistic_quantization(7.0)
        draw = binary_low_rank(
            (self.size, self.size), self.rank, instance.missing_rate, rng, likelihood=likelihood
        )
        model = tri(
            *instance.point,
            max_norm_radius(1.0, self.rank),
            bound=1.0,
            missing_rate=instance.missing_rate,
            likelihood=likelihood,
        )
        data, seed = {"labels": draw.labels}, int(rng.integers(2**32))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCertifiedWarning)
            exact = fit(model, data, tol=1e-3, max_iter=1000)
        at_zero = losses_at_zero(exact.problem)
        found = {
            "optimum, error": draw.relative_error(exact.latent.dense()),
            "optimum, gap": exact.gap,
            "optimum, share of the risk at Z = 0": exact.objective / at_zero,
        }
        for width in self.widths:
            scheme = GrowingFactors(largest=width, max_iter=self.max_iter, change=0.0)
            published = growing_factors(model, data, scheme, random_state=seed)
            found[f"k = {width}, excess"] = excess(published, exact)
            share = published.objective / at_zero
            found[f"k = {width}, share of the risk at Z = 0"] = share
            found[f"k = {width}, gap"] = published.gap
            found[f"k = {width}, error"] = draw.relative_error(published.latent.dense())
        return found


def losses_at_zero(problem: Problem) -> float:
    """The sum of the absolute losses of all cells at Z = 0."""
    y = problem.targets("labels")
    losses = problem.likelihoods["labels"].value(np.zeros(y.size), y)
    return problem.scale("labels") * float(np.sum(np.abs(losses)))


def excess(published: Fit, exact: Fit) -> float:
    """(Objective - bound of the optimum) / |bound|: an upper bound on the true excess."""
    if exact.bound == 0.0:
        return math.inf
    return (published.objective - exact.bound) / abs(exact.bound)

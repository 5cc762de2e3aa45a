"""What Goldberg et al. (2010) say in words: perfect imputation without noise, and no bias."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np

import mcframe.papers as papers
from papers.data import transduction
from papers.experiment import Experiment, Summary
from papers.goldberg_contest import (
    FEATURE,
    LABEL,
    PRESETS,
    Tuning,
    feature_error,
    run_method,
)

__all__ = ["NoBias", "Recovery"]

SOURCE = "Goldberg, Zhu, Recht, Xu, Nowak, Transduction with Matrix Completion, NIPS 2010"


@attrs.frozen
class Recovery(Experiment):
    """Section 4.1: without noise features are recovered where enough of them is observed."""

    items: int = 200
    features: int = 40
    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
    ranks: tuple[int, ...] = (1, 2, 4, 8)
    last: float = 1e-6

    name = "goldberg-recovery"
    title = "Feature error of MC-b without noise, by the share observed and the rank"
    source = f"{SOURCE}, section 4.1"
    default_trials = 3
    measure = "relative error of hidden features at"
    notes = (
        "200 items, 40 features, 10 labels. The path of Algorithm 1 down to a mu that leaves next"
        " to no shrinkage, stopped at a relative change of 1e-6; lambda = 0.001.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """60 items, 20 features."""
        return cls(items=60, features=20, shares=(0.2, 0.8), ranks=(1,), last=1e-4)

    def settings(self) -> Sequence[str]:
        """The ranks."""
        return tuple(f"rank {rank}" for rank in self.ranks)

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One draw for each share."""
        rank, found = int(setting.removeprefix("rank ")), {}
        for share in self.shares:
            task = transduction(
                rng,
                n_items=self.items,
                n_features=self.features,
                rank=rank,
                noise=0.0,
                observed=share,
            )
            data = task.observed
            weights = Tuning(last=self.last).weights(data["features"], 2.0 * data["labels"] - 1.0)
            *_, answer = papers.fixed_point_path(
                papers.mc_b(1.0, 1e-3), data, weights, change=1e-6, max_iter=20_000
            )
            found[f"{share:.0%} observed"] = feature_error(task, answer.predict("features"))
        return found

    def draw(self, figure: Any, summary: Summary) -> bool:
        """A line for each rank."""
        axes = figure.subplots()
        for setting, found in summary.items():
            means = [found[f"{share:.0%} observed"].mean for share in self.shares]
            axes.semilogy(self.shares, means, "o-", label=setting)
        axes.set(xlabel="share observed", ylabel="relative error of hidden features")
        axes.legend()
        return True


@attrs.frozen
class NoBias(Experiment):
    """Section 2.2: the variant without a bias is inferior, they say."""

    items: tuple[int, ...] = (100, 400)
    share: float = 0.2
    tuning: Tuning = attrs.field(factory=lambda: Tuning(solve=False))

    name = "goldberg-nobias"
    title = "MC-b and MC-1 beside a model without a bias"
    source = f"{SOURCE}, section 2.2"
    default_trials = 10
    measure = "error"
    notes = (
        "All three by their algorithms, mu and lambda by the paper's cross-validation; the model"
        " without a bias by Algorithm 1 with b = 0.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """60 items."""
        return cls(items=(60,), share=0.4, tuning=attrs.evolve(Tuning.tiny(), solve=False))

    def settings(self) -> Sequence[str]:
        """Numbers of items."""
        return tuple(f"n = {count}" for count in self.items)

    def shows(self, measure: str) -> bool:
        """The errors, not what was chosen."""
        return measure in {f"{name} {kind}" for name in PRESETS for kind in (LABEL, FEATURE)}

    def tolerance(self, measure: str) -> float:
        """Rounding may turn a label."""
        return 0.02

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The three models on one draw of rank 2 and noise 0.01, with the same folds."""
        count = int(setting.removeprefix("n = "))
        task = transduction(rng, n_items=count, observed=self.share)
        seed, found = int(rng.integers(2**32)), dict[str, float]()
        for name in PRESETS:
            found |= run_method(task, name, self.tuning, np.random.default_rng(seed))
        return found

"""PN of Hayashi et al. (2018) on MovieLens: its certified optimum, and their algorithm."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Self

import attrs
import numpy as np

from mcframe.contracts.errors import NotCertifiedWarning, UnobservedWarning
from mcframe.fitting.fit import fit
from mcframe.papers import pn
from papers.experiment import Experiment
from papers.growing_factors import GrowingFactors, growing_factors
from papers.hayashi_excess import excess
from papers.hayashi_movielens import PN, SPLIT, Split, ratings, state_model

__all__ = ["HayashiOptimum"]


@attrs.frozen
class HayashiOptimum(Experiment):
    """PN in K_max(R, R), where the ball bounds the entries already and the box has no part."""

    radii: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    widths: tuple[int, ...] = (10, 20)
    n_held: int = 5000
    n_users: int = 943
    max_iter: int = 100
    tol: float = 1e-3

    name = "hayashi-optimum"
    title = "PN on MovieLens 100k: the certified optimum beside the published algorithm"
    source = "Hayashi, Sakai, Sugiyama (2018), sections 5.4 and 6.3; a table of ours"
    default_trials = 2
    measure = "what"
    notes = (
        SPLIT,
        "excess: (objective - bound) / |bound|, with the bound of the certified optimum; errors"
        " are shares of wrong signs.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """The first 60 users, one radius."""
        return cls(radii=(1.0,), widths=(2,), n_held=300, n_users=60, max_iter=20, tol=1e-2)

    def tolerance(self, measure: str) -> float:
        """The optimum is known up to a gap, and the excess with it."""
        return 1.0

    def settings(self) -> Sequence[str]:
        """Return the radii as settings."""
        return tuple(f"R = {radius:g}" for radius in self.radii)

    def check(self) -> None:
        """The file must be there."""
        ratings()

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One split: the optimum, and the algorithm at each width."""
        radius = float(setting.removeprefix("R = "))
        split = Split.draw(ratings(), self.n_held, self.n_users, rng)
        data, seed = {"labels": split.labels}, int(rng.integers(2**32))
        with warnings.catch_warnings():
            for kind in (NotCertifiedWarning, UnobservedWarning):
                warnings.simplefilter("ignore", kind)
            exact = fit(pn(radius), data, tol=self.tol, max_iter=2000)
        latent = exact.latent.dense()
        found = {
            "optimum, validation error": split.error(latent, split.validation),
            "optimum, test error": split.error(latent, split.test),
            "optimum, gap": exact.gap,
            "optimum, rank": float(exact.rank),
        }
        for width in self.widths:
            scheme = GrowingFactors(largest=width, max_iter=self.max_iter, change=0.0, single=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnobservedWarning)
                published = growing_factors(
                    state_model(PN, radius, 1.0), data, scheme, random_state=seed
                )
            latent = published.latent.dense()
            found[f"k = {width}, excess"] = excess(published, exact)
            found[f"k = {width}, validation error"] = split.error(latent, split.validation)
            found[f"k = {width}, test error"] = split.error(latent, split.test)
        return found

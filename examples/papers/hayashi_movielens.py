"""Hayashi, Sakai and Sugiyama (2018), section 6.3: figure 4 and table 1, on MovieLens 100k."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, Self, TypeVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import UnobservedWarning
from mcframe.datasets import Ratings, read_ratings
from mcframe.model import Model, Problem
from mcframe.papers import max_norm_radius, tri
from papers.experiment import Cause, Experiment, Published, Summary
from papers.growing_factors import GrowingFactors
from papers.ternary import Triple, draw_ternary, named_triple, triples

__all__ = ["HayashiAlpha", "HayashiFigure4", "HayashiTable1"]

SOURCE = "Hayashi, Sakai, Sugiyama (2018), Binary Matrix Completion Using Unobserved Entries"
FILE = "movielens100k.npz"
SETTING = "MovieLens 100k"
# Ratings of 4 and 5 are above the average of 3.5.
POSITIVE = 4.0
PN: Triple = (1.0, 0.0, 0.0)
COLUMNS = ("rating 1", "rating 2", "rating 3", "rating 4", "rating 5", "overall")
COLUMN = r"(rating \d|overall)"
# Alpha and r that are tried with the PN risk, which the paper does not list.
BOUNDS, RANKS = (1.0, 2.0, 4.0), (1.0, 4.0)
# Mixtures that are tried for table 1. One entry of PU or NU weighs 17 times one of PN here, so
# that most of what differs from all others lies close to PN.
MIXTURES: tuple[Triple, ...] = (
    PN,
    (0.98, 0.01, 0.01),
    (0.9, 0.05, 0.05),
    (0.8, 0.1, 0.1),
    (0.6, 0.2, 0.2),
    (0.3, 0.3, 0.4),
    (0.1, 0.45, 0.45),
    (0.1, 0.4, 0.5),
)
CLOSE, CLOSE_TO_PN = "close to PN", ((0.9, 0.05, 0.05), (0.8, 0.1, 0.1))
# An alpha that is not tuned, and the other reading of a predicted sign.
WIDE = 8.0
AVERAGE = "signs by the average"
# The best point of figure 3 in the paper; of that of figure 4 it only says that it is inside.
INSIDE: Triple = (0.3, 0.3, 0.4)
SPLIT = (
    "5000 ratings for validation, 5000 for testing, 90,000 to learn from, drawn anew each trial."
)
TUNING = (
    "Alpha and r are those with the least validation error of PN among alpha 1, 2, 4 and"
    " r 1, 4; then the mixture is chosen by validation error."
)
SCHEME = (
    "Projected gradient in factors as published, widths 5 and 10, at most 100 steps each,"
    " in single precision."
)


Kind = TypeVar("Kind", bound="MovieLens")


@cache
def ratings() -> Ratings:
    """The file, read once in a process."""
    return read_ratings(FILE)


@attrs.frozen(eq=False)
class Split:
    """Ratings to learn from, to choose by and to judge by."""

    labels: Array
    users: IntArray
    items: IntArray
    stars: Array
    validation: IntArray
    test: IntArray

    @classmethod
    def draw(cls, source: Ratings, n_held: int, n_users: int, rng: np.random.Generator) -> "Split":
        """Two lots of ``n_held`` ratings apart, of the first users alone if these are fewer."""
        kept = np.flatnonzero(source.users < n_users)
        order = rng.permutation(kept)
        learned = order[2 * n_held :]
        shape = (min(n_users, len(source.user_ids)), len(source.item_ids))
        labels = np.full(shape, np.nan)
        users, items = source.users, source.items
        labels[users[learned], items[learned]] = source.ratings[learned] >= POSITIVE
        held, tested = order[:n_held], order[n_held : 2 * n_held]
        return cls(labels, users, items, source.ratings, held, tested)

    def error(
        self, latent: Array, places: IntArray, rating: float | None = None, above: float = 0.0
    ) -> float:
        """How many of the held-out signs are predicted wrongly, of one rating or of all.

        Positive is what lies above a number, by default 0.
        """
        if rating is not None:
            places = places[self.stars[places] == rating]
        positive = latent[self.users[places], self.items[places]] > above
        return float(np.mean(positive != (self.stars[places] >= POSITIVE)))


@attrs.frozen
class MovieLens(Experiment):
    """What figure 4 and table 1 have in common: split, algorithm, tuning."""

    n_held: int = 5000
    n_users: int = 943
    bounds: tuple[float, ...] = BOUNDS
    ranks: tuple[float, ...] = RANKS
    first: int = 5
    largest: int = 10
    max_iter: int = 100

    def settings(self) -> Sequence[str]:
        """The one data set."""
        return (SETTING,)

    def check(self) -> None:
        """The file must be there."""
        ratings()

    def split(self, rng: np.random.Generator) -> Split:
        """The ratings of a trial."""
        return Split.draw(ratings(), self.n_held, self.n_users, rng)

    def complete(self, split: Split, model: Model, seed: int) -> Array:
        """Z by the published algorithm."""
        with warnings.catch_warnings():
            # Some films have no rating among those to learn from.
            warnings.simplefilter("ignore", UnobservedWarning)
            problem = Problem.bind(model, {"labels": split.labels})
        return self.scheme().last_latent(problem, np.random.default_rng(seed)).dense()

    def scheme(self) -> GrowingFactors:
        """The published algorithm."""
        return GrowingFactors(
            first=self.first, largest=self.largest, max_iter=self.max_iter, single=True
        )

    def tune(self, split: Split, seed: int) -> tuple[float, float, Array]:
        """Alpha and r with the least validation error of PN, and its Z."""
        best: tuple[float, float, float, Array] | None = None
        for alpha in self.bounds:
            for rank in self.ranks:
                latent = self.complete(split, state_model(PN, alpha, rank), seed)
                error = split.error(latent, split.validation)
                if best is None or error < best[0]:
                    best = error, alpha, rank, latent
        assert best is not None
        return best[1:]


def small(experiment: Kind) -> Kind:
    """Return the experiment on the first 60 users, in two factors and without tuning."""
    return attrs.evolve(
        experiment,
        n_held=300,
        n_users=60,
        bounds=(1.0,),
        ranks=(1.0,),
        first=2,
        largest=2,
        max_iter=20,
    )


def state_model(point: Triple, alpha: float, rank: float) -> Model:
    """The TRI risk in K_max(alpha, alpha sqrt(r)), missing rate as observed."""
    return tri(*point, max_norm_radius(alpha, rank), bound=alpha)


@attrs.frozen
class HayashiFigure4(MovieLens):
    """Test error over the triangle, alpha and r from PN."""

    divisions: int = 5

    name = "hayashi-fig4"
    title = "Test error of the TRI risk over the triangle of (PN, PU, NU), MovieLens 100k"
    source = f"{SOURCE}, Figure 4"
    default_trials = 10
    measure = "misclassification on test ratings at"
    notes = (
        "The paper has a picture of these numbers and no table; its best point lies inside.",
        SPLIT,
        "Alpha and r are those with the least validation error of PN.",
        SCHEME,
    )

    @classmethod
    def tiny(cls) -> Self:
        """The first 60 users, corners and centre."""
        return attrs.evolve(small(cls()), divisions=1)

    def parts(self, setting: str) -> Sequence[str]:
        """The regular grid, and two points that it has none as close to PN as."""
        return ("", CLOSE)

    def run_part(self, setting: str, part: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The grid, or the points close to PN on the same split with the same alpha and r."""
        if part != CLOSE:
            return self.run(setting, rng)
        split, seed = self.split(rng), int(rng.integers(2**32))
        alpha, rank, _ = self.tune(split, seed)
        found = {}
        for point in CLOSE_TO_PN:
            latent = self.complete(split, state_model(point, alpha, rank), seed)
            found[named_triple(point)] = split.error(latent, split.test)
        return found

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One split, all points."""
        split, seed = self.split(rng), int(rng.integers(2**32))
        alpha, rank, exact = self.tune(split, seed)
        found = {"alpha chosen": alpha, "r chosen": rank}
        for point in [*triples(self.divisions), (0.3, 0.3, 0.4)]:
            latent = exact
            if point != PN:
                latent = self.complete(split, state_model(point, alpha, rank), seed)
            found[named_triple(point)] = split.error(latent, split.test)
        return found

    def draw(self, figure: Any, summary: Summary) -> bool:
        """A ternary map."""
        return draw_ternary(figure, summary, "test error")


@attrs.frozen
class HayashiTable1(MovieLens):
    """Validation error of PN and of the proposed method, by original rating and overall."""

    mixtures: tuple[Triple, ...] = MIXTURES

    name = "hayashi-table1"
    title = "Misclassification error on validation samples, MovieLens 100k"
    source = f"{SOURCE}, Table 1"
    default_trials = 10
    measure = "method, original rating"
    notes = (
        SPLIT,
        TUNING,
        "The errors on validation ratings, by which the choice was made, are as in the paper's"
        " table; those on test ratings are beside them.",
        SCHEME,
    )
    # One row each: a class that is not tuned, and in it the mixture that the paper found best.
    causes = (
        Cause("alpha", rf"(PN), {COLUMN}", rf"\1, alpha {WIDE:g}, {AVERAGE}, \2"),
        Cause(
            "mixture",
            rf"(proposed), {COLUMN}",
            rf"{named_triple(INSIDE)}, alpha {WIDE:g}, {AVERAGE}, \2",
        ),
    )

    @classmethod
    def tiny(cls) -> Self:
        """The first 60 users, two mixtures."""
        return attrs.evolve(small(cls()), mixtures=(PN, (0.8, 0.1, 0.1)))

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One split: alpha and r, then the mixture, then all errors."""
        split, seed = self.split(rng), int(rng.integers(2**32))
        alpha, rank, latent = self.tune(split, seed)
        found = self.with_class(split, seed, alpha, rank, latent)
        return found | {"alpha chosen": alpha, "r chosen": rank}

    def parts(self, setting: str) -> Sequence[str]:
        """What the paper does, and the same with an alpha that is not tuned, by both signs."""
        return ("", f"alpha {WIDE:g}", f"alpha {WIDE:g}, {AVERAGE}")

    def run_part(self, setting: str, part: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The whole, or the same on the same split in a class that is wide."""
        if not part:
            return self.run(setting, rng)
        split, seed = self.split(rng), int(rng.integers(2**32))
        latent = self.complete(split, state_model(PN, WIDE, 1.0), seed)
        found = self.with_class(split, seed, WIDE, 1.0, latent, part)
        if part.endswith(AVERAGE):
            inside = self.complete(split, state_model(INSIDE, WIDE, 1.0), seed)
            name = f"{named_triple(INSIDE)}, {part}"
            found |= errors_of(split, inside, name, cut(inside, part))
        return found

    def with_class(
        self, split: Split, seed: int, alpha: float, rank: float, latent: Array, part: str = ""
    ) -> dict[str, float]:
        """All errors in one class, of which PN's answer is known already."""
        best, chosen, least = PN, latent, np.inf
        for point in self.mixtures:
            other = latent
            if point != PN:
                other = self.complete(split, state_model(point, alpha, rank), seed)
            error = split.error(other, split.validation, above=cut(other, part))
            if error < least:
                best, chosen, least = point, other, error
        ending = f", {part}" if part else ""
        found = errors_of(split, latent, f"PN{ending}", cut(latent, part))
        found |= errors_of(split, chosen, f"proposed{ending}", cut(chosen, part))
        return found | {f"proposed{ending}, share of PN chosen": best[0]}

    def published(self) -> Mapping[tuple[str, str], Published]:
        """Table 1; nothing for a part of the users."""
        if attrs.asdict(self) != attrs.asdict(HayashiTable1()):
            return {}
        return {
            (SETTING, f"{method}, {column}"): Published(mean, deviation, 10, 3)
            for method, row in PRINTED.items()
            for column, (mean, deviation) in zip(COLUMNS, row, strict=True)
        }


@attrs.frozen
class HayashiAlpha(MovieLens):
    """PN and mixtures by alpha with r = 1 and by steps, signs by 0 and by the average of Z."""

    alphas: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    points: tuple[Triple, ...] = (PN, (0.9, 0.05, 0.05), (0.8, 0.1, 0.1))
    largest: int = 20
    steps: tuple[int, ...] = (300, 1000)

    name = "hayashi-alpha"
    title = "Misclassification by alpha, MovieLens 100k"
    source = f"{SOURCE}, section 6.3; not in the paper"
    default_trials = 5
    measure = "misclassification of"
    notes = (SPLIT, "Projected gradient in factors, widths 5, 10 and 20.")

    @classmethod
    def tiny(cls) -> Self:
        """The first 60 users, two values of alpha."""
        return attrs.evolve(small(cls()), alphas=(1.0, 4.0), steps=(10, 20))

    def scheme(self) -> GrowingFactors:
        """All widths up to the last, however little one changes."""
        return attrs.evolve(super().scheme(), change=0.0)

    def parts(self, setting: str) -> Sequence[str]:
        """The values of alpha: all have the same split."""
        return tuple(f"alpha {alpha:g}" for alpha in self.alphas)

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One split, all values of alpha."""
        parts = [self.run_part(setting, part, copy.deepcopy(rng)) for part in self.parts(setting)]
        return {measure: value for part in parts for measure, value in part.items()}

    def run_part(self, setting: str, part: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One split, one alpha, all mixtures."""
        split, seed = self.split(rng), int(rng.integers(2**32))
        alpha = self.alphas[self.parts(setting).index(part)]
        found = {}
        for point, steps in product(self.points, self.steps):
            limited = attrs.evolve(self, max_iter=steps)
            latent = limited.complete(split, state_model(point, alpha, 1.0), seed)
            for rule, above in (("0", 0.0), ("the average", float(latent.mean()))):
                name = f"{part}, {steps} steps, {named_triple(point)}, signs by {rule}"
                for kind, places in (("validation", split.validation), ("test", split.test)):
                    found[f"{name}, {kind}"] = split.error(latent, places, above=above)
                for rating in (1, 5):
                    error = split.error(latent, split.validation, rating, above)
                    found[f"{name}, rating {rating}"] = error
        return found


PRINTED = {
    "PN": (
        (0.303, 0.034),
        (0.298, 0.026),
        (0.491, 0.015),
        (0.297, 0.014),
        (0.157, 0.025),
        (0.320, 0.015),
    ),
    "proposed": (
        (0.219, 0.019),
        (0.245, 0.021),
        (0.434, 0.023),
        (0.327, 0.020),
        (0.161, 0.011),
        (0.304, 0.005),
    ),
}


def cut(latent: Array, part: str) -> float:
    """What a positive entry lies above in a part: the average of Z, or 0."""
    return float(latent.mean()) if part.endswith(AVERAGE) else 0.0


def errors_of(split: Split, latent: Array, method: str, above: float) -> dict[str, float]:
    """Errors by rating and overall on validation ratings, overall on test ratings."""
    found = {
        f"{method}, rating {rating}": split.error(latent, split.validation, rating, above)
        for rating in (1, 2, 3, 4, 5)
    }
    found[f"{method}, overall"] = split.error(latent, split.validation, above=above)
    found[f"{method}, overall, test"] = split.error(latent, split.test, above=above)
    return found

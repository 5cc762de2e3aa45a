"""Tables 1 to 5 of Goldberg, Zhu, Recht, Xu and Nowak (NIPS 2010)."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import ClassVar, Self

import attrs
import numpy as np

import mcframe.papers as papers
from mcframe.answer import Fit
from mcframe.contracts.errors import UnobservedWarning
from mcframe.datasets import MultiLabel, digits, read_multilabel
from mcframe.fitting import fit
from papers.data import Transduction, masked, transduction
from papers.experiment import Experiment, Published
from papers.goldberg_contest import (
    EXCESS,
    FEATURE,
    LABEL,
    Tuning,
    contest,
    label_error,
)
from papers.goldberg_figures import EMOTIONS, SYNTHETIC, TASKS, YEAST, figures

__all__ = ["EXPERIMENTS"]

SOURCE = "Goldberg, Zhu, Recht, Xu, Nowak, Transduction with Matrix Completion, NIPS 2010"
NOTES = (
    "Feature errors are roots of the ratio of sums of squares, as the paper's figures are.",
    "A path of the cross-validation ends where two mu in a row were worse than the best before.",
)


def published_cells(
    table: Mapping[str, Mapping[str, str]], settings: Sequence[str], kinds: Sequence[str]
) -> dict[tuple[str, str], Published]:
    """The figures of a table by setting and measure."""
    return {
        (setting, f"{method} {kind}"): figure
        for kind in kinds
        for method, cells in table[kind].items()
        for setting, figure in zip(settings, figures(cells), strict=True)
    }


@attrs.frozen
class Synthetic(Experiment):
    """Tables 1 and 2: 24 synthetic settings, the same draws in both."""

    noises: tuple[float, ...] = (0.01, 0.1)
    ranks: tuple[int, ...] = (2, 4)
    items: tuple[int, ...] = (100, 400)
    shares: tuple[float, ...] = (0.1, 0.2, 0.4)
    tuning: Tuning = attrs.field(factory=Tuning)

    source = SOURCE
    default_trials = 10
    methods: ClassVar[tuple[str, ...]] = (
        "MC-b",
        "MC-1",
        "FPC+SVM",
        "EM1+SVM",
        "Mean+SVM",
        "Zero+SVM",
    )
    kinds: ClassVar[tuple[str, ...]]
    notes = NOTES

    @classmethod
    def tiny(cls) -> Self:
        """One setting of 60 items."""
        return cls((0.01,), (2,), (60,), (0.4,), Tuning.tiny())

    def cases(self) -> dict[str, dict[str, float]]:
        """The parameters of each setting, by its name."""
        return {
            f"noise {noise:g}, rank {rank}, n {items}, {share:.0%}": {
                "noise": noise,
                "rank": rank,
                "n_items": items,
                "observed": share,
            }
            for noise, rank, items, share in product(
                self.noises, self.ranks, self.items, self.shares
            )
        }

    def settings(self) -> list[str]:
        """Return the settings in the order of the paper's rows."""
        return list(self.cases())

    def run(self, setting: str, rng: np.random.Generator) -> dict[str, float]:
        """Every method on one draw."""
        task = transduction(rng, **self.cases()[setting])  # type: ignore[arg-type]
        return contest(task, self.methods, self.tuning, rng, self.kinds)

    def published(self) -> dict[tuple[str, str], Published]:
        """Return what the paper prints; nothing where the sizes are others."""
        whole = type(self)(tuning=self.tuning)
        if self != whole:
            return {}
        shown = {kind for kind in self.kinds if kind in SYNTHETIC}
        return published_cells(SYNTHETIC, self.settings(), sorted(shown))


@attrs.frozen
class Table1(Synthetic):
    """Table 1: the label errors."""

    name = "goldberg-table1"
    title = "Table 1: transductive label error on 24 synthetic settings"
    measure = "label error in per cent"
    kinds = (LABEL, EXCESS)


@attrs.frozen
class Table2(Synthetic):
    """Feature errors of the same trials as those of Table 1."""

    name = "goldberg-table2"
    title = "Table 2: relative feature imputation error on 24 synthetic settings"
    measure = "relative error of hidden features"
    kinds = (FEATURE,)


@attrs.frozen
class Table3(Experiment):
    """More tasks: 2 labels against 10."""

    labels: tuple[int, ...] = (2, 10)
    items: int = 400
    share: float = 0.1
    tuning: Tuning = attrs.field(factory=Tuning)

    name = "goldberg-table3"
    title = "Table 3: more tasks help matrix completion"
    source = SOURCE
    default_trials = 10
    notes = NOTES
    methods: ClassVar[tuple[str, ...]] = ("MC-b", "MC-1", "FPC+SVM")

    @classmethod
    def tiny(cls) -> Self:
        """60 items, 40 % observed."""
        return cls(items=60, share=0.4, tuning=Tuning.tiny())

    def settings(self) -> list[str]:
        """Numbers of labels."""
        return [f"t = {count}" for count in self.labels]

    def run(self, setting: str, rng: np.random.Generator) -> dict[str, float]:
        """Three methods on one draw of rank 2 and noise 0.01."""
        count = self.labels[self.settings().index(setting)]
        task = transduction(rng, n_items=self.items, n_labels=count, observed=self.share)
        return contest(task, self.methods, self.tuning, rng)

    def published(self) -> dict[tuple[str, str], Published]:
        """Return what the paper prints; nothing where the sizes are others."""
        if self != type(self)(tuning=self.tuning):
            return {}
        return published_cells(TASKS, self.settings(), (LABEL, FEATURE))


@attrs.frozen
class RealData(Experiment):
    """Tables 4 and 5: real tables under random masks, lambda = 1."""

    data: str = ""
    shares: tuple[float, ...] = (0.4, 0.6, 0.8)
    tuning: Tuning = attrs.field(factory=lambda: Tuning(lambdas=(1.0,)))

    source = SOURCE
    default_trials = 10
    notes = NOTES
    methods: ClassVar[tuple[str, ...]]
    figures: ClassVar[Mapping[str, Mapping[str, str]]]

    @classmethod
    def tiny(cls) -> Self:
        """40 handwritten digits, 60 % observed: no file is needed."""
        tuning = attrs.evolve(Tuning.tiny(), lambdas=(1.0,))
        return cls(data="digits", shares=(0.6,), tuning=tuning)

    def check(self) -> None:
        """The file must be there."""
        real(self.data, np.random.default_rng(0))

    def settings(self) -> list[str]:
        """Shares of observed entries."""
        return [f"{share:.0%}" for share in self.shares]

    def run(self, setting: str, rng: np.random.Generator) -> dict[str, float]:
        """Every method under one mask, and the oracle that sees all features."""
        share = self.shares[self.settings().index(setting)]
        task = masked(real(self.data, rng), share, rng)
        return contest(task, self.methods, self.tuning, rng)

    def published(self) -> dict[tuple[str, str], Published]:
        """Return what the paper prints; nothing where the data are others."""
        if self != type(self)(tuning=self.tuning):
            return {}
        return published_cells(self.figures, self.settings(), (LABEL, FEATURE))


@attrs.frozen
class Table4(RealData):
    """Music emotions: 593 songs, 72 features, 6 labels."""

    data: str = "emotions.npz"

    name = "goldberg-table4"
    title = "Table 4: music emotions, and the oracle of section 4.2"
    figures = EMOTIONS
    methods = (*Synthetic.methods[:4], "EM4+SVM", *Synthetic.methods[4:], "Oracle SVM")


@attrs.frozen
class Table5(RealData):
    """Yeast: 2417 genes, 103 features, 14 labels; nothing is solved beyond what is published."""

    data: str = "yeast.npz"
    tuning: Tuning = attrs.field(factory=lambda: Tuning(lambdas=(1.0,), solve=False))

    name = "goldberg-table5"
    title = "Table 5: yeast, and the oracle of section 4.3"
    figures = YEAST
    methods = (*Synthetic.methods, "Oracle SVM")


@attrs.frozen
class Optimum(Experiment):
    """The published algorithms beside the optimum of the problem that each is for.

    Algorithm 1 for MC-b and Algorithm 2 for MC-1, on three tables at two mu each, lambda = 1:
    the excess of the objective over the lower bound of a fit that is solved, when their rule of
    1e-5 stops the algorithm and when one of ``strict`` does, what its own certificate says, and
    the share of hidden labels that both get wrong.
    """

    items: tuple[int, int] = (100, 400)
    data: str = "emotions.npz"
    strict: float = 1e-8
    tol: float = 1e-6

    name = "goldberg-optimum"
    title = "The published algorithms against the optimum of their problems"
    source = SOURCE
    default_trials = 1
    algorithms: ClassVar[Mapping[str, Callable[..., Fit]]] = {
        "MC-b": papers.fixed_point_mc_b,
        "MC-1": papers.fixed_point_mc_1,
    }
    # mu = 0.25^k sigma_1, sigma_1 the largest singular value of what is observed: about where
    # cross-validation ends. That of raw features is far larger.
    stages: ClassVar[Mapping[bool, tuple[int, int]]] = {True: (6, 8), False: (8, 10)}

    @classmethod
    def tiny(cls) -> Self:
        """Fewer items, and digits in the place of emotions."""
        return cls(items=(20, 30), data="digits", strict=1e-6, tol=1e-4)

    def check(self) -> None:
        """The file must be there."""
        real(self.data, np.random.default_rng(0))

    def tables(self) -> dict[str, Callable[[np.random.Generator], Transduction]]:
        """The tables, by name."""
        small, large = self.items
        return {
            f"synthetic {small}": lambda rng: transduction(rng, n_items=small, observed=0.4),
            f"synthetic {large}, rank 4": lambda rng: transduction(
                rng, n_items=large, rank=4, noise=0.1, observed=0.2
            ),
            self.data.removesuffix(".npz"): lambda rng: masked(real(self.data, rng), 0.6, rng),
        }

    def settings(self) -> list[str]:
        """Tables and mu."""
        return list(self.cases())

    def cases(self) -> dict[str, tuple[Callable[[np.random.Generator], Transduction], int]]:
        """How the table is drawn and the stage k, by setting."""
        return {
            f"{table}, mu = sigma_1 / 4^{stage}": (drawn, stage)
            for table, drawn in self.tables().items()
            for stage in self.stages[table.startswith("synthetic")]
        }

    def run(self, setting: str, rng: np.random.Generator) -> dict[str, float]:
        """Run the two algorithms on one table at one mu."""
        drawn, stage = self.cases()[setting]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            task = drawn(rng)
            mu = 0.25 ** (stage - 1) * float(papers.published_weights(task.observed)[0])
            return {
                f"{name}: {measure}": value
                for name, algorithm in self.algorithms.items()
                for measure, value in self.run_twice(task, algorithm, mu).items()
            }

    def run_twice(
        self, task: Transduction, algorithm: Callable[..., Fit], mu: float
    ) -> dict[str, float]:
        """One algorithm, twice, and the optimum."""
        data = task.observed
        stopped = algorithm(data, mu)
        further = algorithm(data, mu, change=self.strict, max_iter=100_000)
        solved = fit(stopped.model, data, tol=self.tol, max_iter=100_000)
        return {
            "excess % at their rule": 100.0 * (stopped.objective / solved.bound - 1.0),
            f"excess % at {self.strict:g}": 100.0 * (further.objective / solved.bound - 1.0),
            "own gap % at their rule": 100.0 * stopped.gap,
            "gap % solved": 100.0 * solved.gap,
            "iterations at their rule": float(stopped.history[-1].iteration),
            f"iterations at {self.strict:g}": float(further.history[-1].iteration),
            "label error % at their rule": label_error(task, stopped.predict("labels")),
            "label error % solved": label_error(task, solved.predict("labels")),
        }


def real(name: str, rng: np.random.Generator) -> MultiLabel:
    """A file of one's own, or 40 of the handwritten digits."""
    if name == "digits":
        table = digits()
        return table.rows(rng.choice(table.n_items, 40, replace=False))
    return read_multilabel(name)


EXPERIMENTS: tuple[type[Experiment], ...] = (Table1, Table2, Table3, Table4, Table5, Optimum)

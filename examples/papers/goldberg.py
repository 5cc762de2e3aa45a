"""Tables 1 to 5 of Goldberg, Zhu, Recht, Xu and Nowak (NIPS 2010)."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Self

import attrs
import numpy as np

import mcframe as mc
import mcframe.papers as papers
from mcframe.contracts.errors import UnobservedWarning
from mcframe.datasets import MultiLabel, digits, read_multilabel
from papers.data import Transduction, masked, transduction
from papers.experiment import Cause, Experiment, Published
from papers.goldberg_claims import NoBias, Recovery
from papers.goldberg_contest import (
    AS_PUBLISHED,
    COVERAGE,
    EARLY,
    EXCESS,
    FEATURE,
    FOUR_FIFTHS,
    LABEL,
    LARGER,
    LARGEST,
    POSTERIOR,
    SMALLER,
    ZEROS,
    Tuning,
    label_error,
    run_method,
)
from papers.goldberg_figures import EMOTIONS, SYNTHETIC, TASKS, YEAST, figures

__all__ = ["AS_THEY_COME", "EXPERIMENTS"]

SOURCE = "Goldberg, Zhu, Recht, Xu, Nowak, Transduction with Matrix Completion, NIPS 2010"
AS_THEY_COME = ", features as they come"
# X0 is divided by its expected standard deviation, and not by that of the draw.
ROOT = ", divided by the root of r"
NOTES = (
    "Feature errors are roots of the ratio of sums of squares, as the paper's figures are.",
    "EM, as published: without the conditional covariances of what is missing.",
    "Posterior: noise and factors are learned, and nothing is tuned.",
)
FOLDS = Cause("4/5", rf"(Mean|Zero|FPC)(\+SVM) ({LABEL})", rf"\1\2{FOUR_FIFTHS} \3")
BOTH = Cause("EM, 4/5", rf"(EM1\+SVM) ({LABEL})", rf"\1{AS_PUBLISHED}{FOUR_FIFTHS} \2")
START = Cause("start", rf"(EM\d\+SVM) ({LABEL}|{FEATURE})", rf"\1{AS_PUBLISHED}{ZEROS} \2")
STOP = Cause("stop", rf"(FPC\+SVM) ({LABEL}|{FEATURE})", rf"\1{EARLY} \2")
# Of a path of mu whose label errors are flat another point was chosen.
MU = Cause("mu", rf"(MC-1) ({LABEL}|{FEATURE})", rf"\1{LARGER} \2")
EM = Cause("EM", rf"(EM\d\+SVM) ({LABEL}|{FEATURE})", rf"\1{AS_PUBLISHED} \2")
ROOTS = (
    Cause("root r", rf"((?:FPC|Mean)\+SVM) ({LABEL}|{FEATURE})", rf"\1{ROOT} \2"),
    Cause("EM, root r", rf"(EM1\+SVM) ({LABEL}|{FEATURE})", rf"\1{AS_PUBLISHED}{ROOT} \2"),
)
# Each draws random numbers of its own, so that one more changes no other; new ones come last.
# Those that are divided by the root of r draw the ones of their method.
METHODS = (
    "MC-b",
    "MC-1",
    "FPC+SVM",
    "EM1+SVM",
    "EM4+SVM",
    "Mean+SVM",
    "Zero+SVM",
    "Oracle SVM",
    f"MC-b{POSTERIOR}",
    f"MC-1{POSTERIOR}",
    f"EM1+SVM{AS_PUBLISHED}",
    f"EM4+SVM{AS_PUBLISHED}",
    f"MC-b{AS_THEY_COME}",
    f"MC-1{AS_THEY_COME}",
    f"FPC+SVM{AS_THEY_COME}",
    f"Mean+SVM{FOUR_FIFTHS}",
    f"Zero+SVM{FOUR_FIFTHS}",
    f"FPC+SVM{FOUR_FIFTHS}",
    f"EM1+SVM{AS_PUBLISHED}{FOUR_FIFTHS}",
    f"Mean+SVM{LARGEST}",
    f"Zero+SVM{LARGEST}",
    f"EM1+SVM{AS_PUBLISHED}{ZEROS}",
    f"EM4+SVM{AS_PUBLISHED}{ZEROS}",
    f"FPC+SVM{EARLY}",
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


class Contest(Experiment):
    """What the tables have in common: a trial is a task, its parts are the methods."""

    source = SOURCE
    default_trials = 10
    notes = NOTES
    causes: ClassVar[Sequence[Cause]] = (EM,)
    methods: ClassVar[tuple[str, ...]]
    tuning: Tuning

    def task(self, setting: str, rng: np.random.Generator, variant: str) -> Transduction:
        """The task of a trial, for methods of a variant."""
        raise NotImplementedError

    def parts(self, setting: str) -> Sequence[str]:
        """The methods."""
        return self.methods

    def run(self, setting: str, rng: np.random.Generator) -> dict[str, float]:
        """Every method on one task."""
        parts = [self.run_part(setting, part, copy.deepcopy(rng)) for part in self.parts(setting)]
        return {measure: value for part in parts for measure, value in part.items()}

    def run_part(self, setting: str, part: str, rng: np.random.Generator) -> dict[str, float]:
        """One method on the task; of a variant of the task the measures have its name."""
        variant = next((each for each in (AS_THEY_COME, ROOT) if part.endswith(each)), "")
        task = self.task(setting, rng, variant)
        own = rng.spawn(len(METHODS))[METHODS.index(part.removesuffix(ROOT))]
        found = run_method(task, part.removesuffix(variant), self.tuning, own)
        return {with_suffix(measure, variant): value for measure, value in found.items()}

    def shows(self, measure: str) -> bool:
        """Errors, excess and coverage; not what was chosen, and not its neighbours."""
        if LARGER in measure or SMALLER in measure:
            return False
        return measure.endswith((LABEL, FEATURE, EXCESS, COVERAGE))

    def tolerance(self, measure: str) -> float:
        """Rounding may turn a label; what is solved to a tolerance may turn more of them."""
        if measure.endswith(("lambda", "stage")):
            return 0.0
        return 0.1 if ", solved" in measure or POSTERIOR in measure or EXCESS in measure else 0.02


@attrs.frozen
class Synthetic(Contest):
    """Tables 1 and 2: 24 synthetic settings, the same trials in both."""

    noises: tuple[float, ...] = (0.01, 0.1)
    ranks: tuple[int, ...] = (2, 4)
    items: tuple[int, ...] = (100, 400)
    shares: tuple[float, ...] = (0.1, 0.2, 0.4)
    tuning: Tuning = attrs.field(factory=Tuning)

    methods: ClassVar[tuple[str, ...]] = (
        *("MC-b", "MC-1", "FPC+SVM", "EM1+SVM", f"EM1+SVM{AS_PUBLISHED}", "Mean+SVM", "Zero+SVM"),
        *(f"MC-b{POSTERIOR}", f"MC-1{POSTERIOR}"),
        *(f"Mean+SVM{FOUR_FIFTHS}", f"Zero+SVM{FOUR_FIFTHS}", f"FPC+SVM{FOUR_FIFTHS}"),
        *(f"EM1+SVM{AS_PUBLISHED}{FOUR_FIFTHS}", f"Mean+SVM{LARGEST}", f"Zero+SVM{LARGEST}"),
        f"FPC+SVM{EARLY}",
        *(f"Mean+SVM{ROOT}", f"EM1+SVM{AS_PUBLISHED}{ROOT}", f"FPC+SVM{ROOT}"),
    )
    causes = (EM, FOLDS, BOTH, STOP, *ROOTS)
    kinds: ClassVar[tuple[str, ...]]

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

    def task(self, setting: str, rng: np.random.Generator, variant: str) -> Transduction:
        """A draw of a setting."""
        given: dict[str, Any] = dict(self.cases()[setting])
        return transduction(rng, expected=variant == ROOT, **given)

    def shows(self, measure: str) -> bool:
        """What the table is about."""
        return super().shows(measure) and measure.endswith(self.kinds)

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
    trials_from = "goldberg-table1"
    kinds = (FEATURE, COVERAGE)


@attrs.frozen
class Table3(Contest):
    """More tasks: 2 labels against 10."""

    labels: tuple[int, ...] = (2, 10)
    items: int = 400
    share: float = 0.1
    tuning: Tuning = attrs.field(factory=Tuning)

    name = "goldberg-table3"
    title = "Table 3: more tasks help matrix completion"
    methods: ClassVar[tuple[str, ...]] = (
        *("MC-b", "MC-1", "FPC+SVM", f"FPC+SVM{EARLY}"),
        *(f"MC-b{POSTERIOR}", f"MC-1{POSTERIOR}"),
    )
    causes = (EM, STOP)

    @classmethod
    def tiny(cls) -> Self:
        """60 items, 40 % observed."""
        return cls(items=60, share=0.4, tuning=Tuning.tiny())

    def settings(self) -> list[str]:
        """Numbers of labels."""
        return [f"t = {count}" for count in self.labels]

    def task(self, setting: str, rng: np.random.Generator, variant: str) -> Transduction:
        """A draw of rank 2 and noise 0.01."""
        count = self.labels[self.settings().index(setting)]
        return transduction(rng, n_items=self.items, n_labels=count, observed=self.share)

    def published(self) -> dict[tuple[str, str], Published]:
        """Return what the paper prints; nothing where the sizes are others."""
        if self != type(self)(tuning=self.tuning):
            return {}
        return published_cells(TASKS, self.settings(), (LABEL, FEATURE))


@attrs.frozen
class RealData(Contest):
    """Tables 4 and 5: real tables under random masks, lambda = 1."""

    data: str = ""
    shares: tuple[float, ...] = (0.4, 0.6, 0.8)
    tuning: Tuning = attrs.field(factory=lambda: Tuning(lambdas=(1.0,)))

    figures: ClassVar[Mapping[str, Mapping[str, str]]]
    # What all methods are given but those of "features as they come".
    scaled: ClassVar[str]

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

    def task(self, setting: str, rng: np.random.Generator, variant: str) -> Transduction:
        """The table under a mask, its features scaled unless they are used as they come."""
        share = self.shares[self.settings().index(setting)]
        truth = real(self.data, rng)
        if variant != AS_THEY_COME:
            truth = attrs.evolve(truth, features=scaled(truth.features, self.scaled))
        return masked(truth, share, rng)

    def published(self) -> dict[tuple[str, str], Published]:
        """Return what the paper prints; nothing where the data are others."""
        if self != type(self)(tuning=self.tuning):
            return {}
        return published_cells(self.figures, self.settings(), (LABEL, FEATURE))


def scaled(features: np.ndarray, how: str) -> np.ndarray:
    """Features divided by the standard deviation of all of them, or with standardised columns."""
    if how == "one factor":
        return np.asarray(features / features.std())
    deviations = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(deviations > 0, deviations, 1))


def with_suffix(measure: str, suffix: str) -> str:
    """Return the name of a measure of a method's variant."""
    for kind in (LABEL, FEATURE, EXCESS, "lambda", "stage"):
        if measure.endswith(kind):
            return f"{measure.removesuffix(kind).rstrip()}{suffix} {kind}"
    return measure


@attrs.frozen
class Table4(RealData):
    """Music emotions: 593 songs, 72 features, 6 labels, divided by one factor."""

    data: str = "emotions.npz"

    name = "goldberg-table4"
    title = "Table 4: music emotions, and the oracle of section 4.2"
    figures = EMOTIONS
    scaled = "one factor"
    methods = (
        *("MC-b", "MC-1", "FPC+SVM", "EM1+SVM", f"EM1+SVM{AS_PUBLISHED}", "EM4+SVM"),
        *(f"EM4+SVM{AS_PUBLISHED}", "Mean+SVM", "Zero+SVM", "Oracle SVM"),
        *(f"MC-b{AS_THEY_COME}", f"MC-1{AS_THEY_COME}", f"FPC+SVM{AS_THEY_COME}"),
        *(f"MC-b{POSTERIOR}", f"MC-1{POSTERIOR}"),
        *(f"EM1+SVM{AS_PUBLISHED}{ZEROS}", f"EM4+SVM{AS_PUBLISHED}{ZEROS}"),
    )
    causes = (EM, START)


@attrs.frozen
class Table5(RealData):
    """Yeast: 2417 genes, 103 standardised features, 14 labels; nothing but what is published."""

    data: str = "yeast.npz"
    tuning: Tuning = attrs.field(factory=lambda: Tuning(lambdas=(1.0,), solve=False))

    name = "goldberg-table5"
    title = "Table 5: yeast, and the oracle of section 4.3"
    figures = YEAST
    scaled = "columns"
    causes = (EM, attrs.evolve(MU, settings="60%"))
    methods = (
        *("MC-b", "MC-1", "FPC+SVM", "EM1+SVM", f"EM1+SVM{AS_PUBLISHED}", "Mean+SVM"),
        *("Zero+SVM", "Oracle SVM"),
        *(f"MC-b{AS_THEY_COME}", f"MC-1{AS_THEY_COME}"),
        *(f"MC-b{POSTERIOR}", f"MC-1{POSTERIOR}"),
    )


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
    algorithms: ClassVar[Mapping[str, Callable[..., mc.Fit]]] = {
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

    def tolerance(self, measure: str) -> float:
        """An excess is measured from a bound with a gap of its own."""
        return 1.0

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
        self, task: Transduction, algorithm: Callable[..., mc.Fit], mu: float
    ) -> dict[str, float]:
        """One algorithm, twice, and the optimum."""
        data = task.observed
        stopped = algorithm(data, mu)
        further = algorithm(data, mu, change=self.strict, max_iter=100_000)
        solved = mc.fit(stopped.model, data, tol=self.tol, max_iter=100_000)
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


EXPERIMENTS: tuple[type[Experiment], ...] = (
    Table1,
    Table2,
    Table3,
    Table4,
    Table5,
    Optimum,
    Recovery,
    NoBias,
)

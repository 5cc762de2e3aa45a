"""Wang et al. (TMCC): the relative errors of features and targets, Figures 2 and 3."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array
from mcframe.datasets import hide
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model, Problem
from mcframe.papers import collective, mc0, soft_impute, tmcc, tmcc_accelerated
from mcframe.selection import Grid, path
from mcframe.selection.weight_max import largest_weight
from papers.baselines import collective_soft_impute, two_stage
from papers.data import CalibratedTasks, calibrated_tasks
from papers.experiment import Experiment, Summary
from papers.zheng import beside_optimum

__all__ = [
    "EXPERIMENTS",
    "TmccBound",
    "TmccCalibration",
    "TmccFig2",
    "TmccFig3",
    "TmccOptimum",
    "TmccRate",
]

FEATURES = "features"
TARGETS = ("bernoulli", "poisson", "gaussian")
METHODS = ("TMCC", "MC.0", "CMC.SI", "TS")
# Factors of mean 0, so that the column means that TMCC is told are close to 0 as well.
CENTRED = ", centred"
# TMCC's nuclear norms begin at so many times the best one of MC.0.
ABOVE = 1.25

Data = Mapping[str, Array]


@attrs.frozen
class Design:
    """Sizes, what the poster leaves open, and how weights are tuned.

    Attributes
    ----------
    n_items, n_columns, rank, noise, missing
        As in ``calibrated_tasks``; every block has ``n_columns``.
    held_out : float
        The share of the observed entries that tuning hides.
    tau_1s : tuple of float
        Weights of the calibration that are tried.
    weights, lowest : int, float
        How many weights of a nuclear norm, down to which share of the largest useful one.
    tol : float
        The gap of all fits.
    seed : int
        Of the draw that the weights are tuned on.
    """

    n_items: int = 1500
    n_columns: int = 500
    rank: int = 3
    noise: float = 1.0
    missing: float = 0.5
    held_out: float = 0.2
    tau_1s: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    weights: int = 16
    lowest: float = 0.2
    tol: float = 1e-5
    seed: int = 2023

    def draw(self, setting: str, rng: np.random.Generator) -> CalibratedTasks:
        """Data of one setting."""
        return calibrated_tasks(
            rng,
            linear=setting.startswith("linear"),
            n_items=self.n_items,
            n_features=self.n_columns,
            n_targets=self.n_columns,
            rank=self.rank,
            shift=0.0 if setting.endswith(CENTRED) else 0.5,
            noise=self.noise,
            missing=self.missing,
        )


@attrs.frozen
class Tuned:
    """The weights of all methods, and the loss of kept entries by tau_1 (0: no calibration)."""

    tau_1: float
    tau_2: float
    mc0: float
    lam: float
    collective: float
    second: float
    losses: Mapping[float, float]


@attrs.frozen(eq=False)
class Tuning:
    """One draw with hidden entries: what is ``seen``, and what was ``kept`` back of it."""

    design: Design
    seen: Data
    kept: Data

    @classmethod
    def of(cls, design: Design, data: Data, rng: np.random.Generator) -> "Tuning":
        """Hide some of the observed entries of each block."""
        hidden = {
            name: hide(block, design.held_out, keep=(0, 0), random_state=rng).cells
            for name, block in data.items()
        }
        return cls(
            design,
            {name: np.where(hidden[name], np.nan, block) for name, block in data.items()},
            {name: np.where(hidden[name], block, np.nan) for name, block in data.items()},
        )

    def best(
        self, model: Callable[[float], Model], data: Data, largest: float | None = None
    ) -> tuple[float, float]:
        """The weight with the least loss on what was kept back, and that loss.

        Weights go down, each fit from the one before, until the loss rises.
        """
        if largest is None:
            problem = Problem.bind(model(1.0), data)
            largest = largest_weight(CompiledProblem(problem), 0)
        best, least, last = largest, math.inf, None
        for weight in np.geomspace(largest, self.design.lowest * largest, self.design.weights):
            last = fit(model(float(weight)), data, start=last, tol=self.design.tol)
            loss = self.loss(last)
            if loss > least:
                break
            best, least = float(weight), loss
        return best, least

    def loss(self, answer: Fit) -> float:
        """The mean loss of the entries kept back, over the blocks that the model has."""
        total = count = 0.0
        for block in answer.model.blocks:
            rows, columns = np.nonzero(~np.isnan(self.kept[block.name]))
            z = answer.natural(block.name, rows, columns)
            losses = answer.likelihood(block.name).value(z, self.kept[block.name][rows, columns])
            total, count = total + float(np.sum(losses)), count + rows.size
        return total / count


@cache
def tune_weights(design: Design, setting: str) -> Tuned:
    """The weights of a setting, tuned on entries kept back in a draw of their own.

    One such draw serves all trials: tuning within each would take ten times as long. Weights
    of a nuclear norm are raised by the factor by which the noise of all entries is larger than
    that of those that were not hidden: its spectral norm grows like the root of their number.
    """
    rng = np.random.default_rng(design.seed)
    tasks = design.draw(setting, rng)
    n = tasks.n_cells
    tuning = Tuning.of(design, tasks.data, rng)
    features, others = {FEATURES: tuning.seen[FEATURES]}, without_features(tuning.seen)
    plain, loss_of_plain = tuning.best(lambda weight: mc0(n, weight), tuning.seen)

    def calibrated(tau_1: float) -> tuple[float, float]:
        def model(tau_2: float) -> Model:
            return tmcc(n, tau_1, tau_2, tasks.A, tasks.B)

        return tuning.best(model, tuning.seen, ABOVE * plain)

    found = {tau_1: calibrated(tau_1) for tau_1 in design.tau_1s}
    tau_1 = min(found, key=lambda key: found[key][1])
    lam = tuning.best(lambda weight: soft_impute(weight, [FEATURES]), features)[0]
    first = fit(soft_impute(lam, [FEATURES]), features, tol=design.tol)
    filled = {**others, FEATURES: first.impute(FEATURES)}
    n_others = sum(block.size for block in others.values())
    raised = 1.0 / math.sqrt(1.0 - design.held_out)
    return Tuned(
        tau_1=tau_1,
        tau_2=raised * found[tau_1][0],
        mc0=raised * plain,
        lam=raised * lam,
        collective=raised * tuning.best(lambda weight: collective(n_others, weight), others)[0],
        second=raised * tuning.best(lambda weight: mc0(n, weight), filled)[0],
        losses={0.0: loss_of_plain, **{key: loss for key, (_, loss) in found.items()}},
    )


def without_features(data: Data) -> dict[str, Array]:
    """Return the tasks alone, without the features."""
    return {name: block for name, block in data.items() if name != FEATURES}


class TmccFigure(Experiment):
    """What both figures share: the data, the four methods, their relative errors, bars."""

    source: ClassVar[str] = "Wang, Zhang, Mao, Wang (ICASSP 2023)"
    default_trials: ClassVar[int] = 5
    measure: ClassVar[str] = "relative error of"
    notes: ClassVar[Sequence[str]] = (
        "The weights are tuned once a setting, on a draw of its own.",
        "The paper has pictures without numbers, so that there is nothing to subtract.",
        "Rank, factors, noise, missing rate and tuning are ours: the paper does not print them.",
        "The setting called centred, with factors of mean 0, is an aside and not the paper's.",
    )
    blocks: ClassVar[tuple[str, ...]]
    trials_from: ClassVar[str] = "tmcc-fig2"
    design: Design

    def settings(self) -> Sequence[str]:
        """Return the two cases of the paper, and the linear one with centred factors."""
        return ("linear", "non-linear", "linear" + CENTRED)

    def trials_of(self, setting: str, trials: int) -> int:
        """The centred setting is an aside."""
        return min(trials, 2) if setting.endswith(CENTRED) else trials

    def shows(self, measure: str) -> bool:
        """The figure's blocks."""
        return measure.endswith(tuple(f", {block}" for block in self.blocks))

    def tolerance(self, measure: str) -> float:
        """All fits are solved to a gap."""
        return 1e-2

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The relative errors of all blocks, method by method, and what tuning chose."""
        weights = tune_weights(self.design, setting)
        tasks = self.design.draw(setting, rng)
        found = {
            f"{method}, {block}": tasks.relative_error(block, answer(block))
            for method, answer in self.answers(tasks, weights).items()
            for block in (FEATURES, *TARGETS)
        }
        found |= {f"loss at tau_1 = {tau:g}": loss for tau, loss in weights.losses.items()}
        found |= {
            f"size of {block}": float(np.sqrt(np.mean(tasks.truth[block] ** 2)))
            for block in (FEATURES, *TARGETS)
        }
        chosen = {"TMCC": weights.tau_2, "MC.0": weights.mc0, "tasks alone": weights.collective}
        found["tau_1 chosen"] = weights.tau_1
        return found | {f"weight x n D of {name}": w * tasks.n_cells for name, w in chosen.items()}

    def answers(self, tasks: CalibratedTasks, weights: Tuned) -> dict[str, Callable[[str], Array]]:
        """Natural parameters by block, for each method."""
        n, tol, data = tasks.n_cells, self.design.tol, tasks.data
        plain = fit(mc0(n, weights.mc0), data, tol=tol)
        model = tmcc(n, weights.tau_1, weights.tau_2, tasks.A, tasks.B)
        calibrated = fit(model, data, tol=tol, start=plain)
        apart = collective_soft_impute(data, weights.lam, weights.collective, tol=tol)
        stages = two_stage(data, weights.lam, weights.second, tol=tol)
        answers = (calibrated.natural, plain.natural, apart.natural, stages.natural)
        return dict(zip(METHODS, answers, strict=True))

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Bars of the four methods, black lines one standard error up and down."""
        panels = [(case, block) for case in ("linear", "non-linear") for block in self.blocks]
        axes = np.ravel(figure.subplots(2, len(self.blocks), sharey="row"))
        for panel, (case, block) in zip(axes, panels, strict=True):
            found = [summary[case][f"{name}, {block}"] for name in METHODS]
            errors = [(each.deviation or 0.0) / math.sqrt(each.trials) for each in found]
            heights = [each.mean for each in found]
            panel.bar(METHODS, heights, yerr=errors, color=["C0", "C1", "C2", "C3"], ecolor="k")
            panel.set_title(f"{case}, {block}", fontsize="small")
            panel.tick_params(labelsize="x-small")
        figure.supylabel("relative error")
        return True


@attrs.frozen
class TmccFig2(TmccFigure):
    """Figure 2: the features."""

    name: ClassVar[str] = "tmcc-fig2"
    trials_from: ClassVar[str] = ""
    title: ClassVar[str] = "Figure 2: relative error of the feature matrix"
    blocks: ClassVar[tuple[str, ...]] = (FEATURES,)
    design: Design = attrs.field(factory=Design)

    @classmethod
    def tiny(cls) -> Self:
        """A table of 90 x 120."""
        return cls(TINY)


@attrs.frozen
class TmccFig3(TmccFigure):
    """Figure 3: the natural parameters of the three targets."""

    name: ClassVar[str] = "tmcc-fig3"
    title: ClassVar[str] = "Figure 3: relative error of the target matrices"
    blocks: ClassVar[tuple[str, ...]] = TARGETS
    design: Design = attrs.field(factory=Design)

    @classmethod
    def tiny(cls) -> Self:
        """A table of 90 x 120."""
        return cls(TINY)


# As tall for its width as the paper's; the noise is smaller, since it does not average out here.
TINY = Design(n_items=90, n_columns=30, rank=2, noise=0.3, missing=0.3, weights=6, tol=1e-4)


@attrs.frozen
class Ours(Experiment):
    """What tables of ours have in common: draws of some sizes, and the model with a tau_2."""

    sizes: tuple[tuple[int, int], ...] = ((90, 30), (300, 100))

    source: ClassVar[str] = "Wang, Zhang, Mao, Wang (ICASSP 2023); not in the poster"
    default_trials: ClassVar[int] = 3

    @classmethod
    def tiny(cls) -> Self:
        """40 items, blocks of 12 columns."""
        return cls(sizes=((40, 12),))

    def settings(self) -> Sequence[str]:
        """Sizes of the whole table, and the two cases."""
        return tuple(
            f"{n} x {4 * width}, {case}"
            for n, width in self.sizes
            for case in ("linear", "non-linear")
        )

    def tolerance(self, measure: str) -> float:
        """Fits are solved to a gap of their own."""
        return 1e-2

    def draw_tasks(self, setting: str, rng: np.random.Generator) -> CalibratedTasks:
        """Data of one setting, all blocks of the same width."""
        sizes, _, case = setting.partition(", ")
        n, width = (int(number) for number in sizes.split(" x "))
        columns = width // 4
        return calibrated_tasks(
            rng, linear=case == "linear", n_items=n, n_features=columns, n_targets=columns
        )

    def nuclear_weight(self, tasks: CalibratedTasks, model: Model) -> float:
        """Half of the largest useful weight of the model's nuclear norm."""
        problem = Problem.bind(model, tasks.data)
        return 0.5 * float(largest_weight(CompiledProblem(problem), 0))

    def model(self, tasks: CalibratedTasks) -> Model:
        """TMCC with tau_1 = 1 / (2 columns)."""
        known = tasks.n_cells, 0.5 / tasks.B.size
        weight = self.nuclear_weight(tasks, tmcc(*known, 1.0, tasks.A, tasks.B))
        return tmcc(*known, weight, tasks.A, tasks.B)


@attrs.frozen
class TmccOptimum(Ours):
    """Algorithm 1 with several kappa beside the certified optimum."""

    kappas: tuple[float, ...] = (1e-4, 1e-6, 1e-8)

    name: ClassVar[str] = "tmcc-optimum"
    title: ClassVar[str] = "TMCC as published beside the optimum of its problem"
    notes: ClassVar[Sequence[str]] = (
        "excess: (objective where it stopped - bound) / bound; own gap: what its own certificate"
        " says; distance: of Z from the optimal one, relative.",
    )

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The optimum of one table, and the algorithm with each kappa."""
        tasks = self.draw_tasks(setting, rng)
        model = self.model(tasks)
        exact = fit(model, tasks.data, tol=1e-10, max_iter=100_000)
        found: dict[str, float] = {}
        for kappa in self.kappas:
            published = tmcc_accelerated(model, tasks.data, kappa=kappa)
            found |= beside_optimum(f"kappa {kappa:g}: ", published, exact)
        return found


@attrs.frozen
class TmccRate(Ours):
    """Their theorem on the algorithm: the excess falls like 1 / k^2 at least."""

    iterations: tuple[int, ...] = (1, 2, 4, 8, 16)

    name: ClassVar[str] = "tmcc-rate"
    title: ClassVar[str] = "TMCC: the excess of Algorithm 1 by iteration"
    notes: ClassVar[Sequence[str]] = (
        "slope: of the logarithm of the excess by that of k + 1, by least squares; the theorem"
        " says at most -2.",
    )

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The excess after some numbers of iterations, all from one start."""
        tasks = self.draw_tasks(setting, rng)
        model = self.model(tasks)
        exact = fit(model, tasks.data, tol=1e-11, max_iter=100_000)
        excesses = []
        for count in self.iterations:
            after = tmcc_accelerated(model, tasks.data, kappa=1e-300, max_iter=count)
            excesses.append(after.objective - exact.bound)
        slope = np.polyfit(np.log(np.add(self.iterations, 1)), np.log(excesses), 1)[0]
        pairs = zip(self.iterations, excesses, strict=True)
        return {f"excess after {k}": float(value) for k, value in pairs} | {"slope": float(slope)}

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Lines on logarithmic axes, and one of slope -2."""
        axes = figure.subplots()
        steps = np.array(self.iterations)
        for setting, found in summary.items():
            means = [found[f"excess after {k}"].mean for k in steps]
            axes.loglog(steps, means, "o-", label=setting)
        axes.loglog(steps, means[0] * ((steps[0] + 1) / (steps + 1)) ** 2, "k--", label="1 / k^2")
        axes.set(xlabel="iterations k", ylabel="objective - optimum")
        axes.legend(fontsize="small")
        return True


@attrs.frozen
class TmccCalibration(Ours):
    """Their second theorem: calibration lowers the error of the features as its weight grows."""

    tau_1s: tuple[float, ...] = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)

    name: ClassVar[str] = "tmcc-calibration"
    title: ClassVar[str] = "TMCC: error of the features by the weight of the calibration"
    measure: ClassVar[str] = "relative error of the features at"

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One table; the weight of its nuclear norm is that of MC.0 throughout."""
        tasks = self.draw_tasks(setting, rng)
        n = tasks.n_cells
        weight = self.nuclear_weight(tasks, mc0(n, 1.0))
        found, start = {}, None
        for tau_1 in self.tau_1s:
            model = tmcc(n, tau_1, weight, tasks.A, tasks.B) if tau_1 else mc0(n, weight)
            start = fit(model, tasks.data, tol=1e-7, start=start)
            error = tasks.relative_error(FEATURES, start.natural(FEATURES))
            found[f"tau_1 = {tau_1:g}"] = error
        return found

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Lines over the weight."""
        axes = figure.subplots()
        for setting, found in summary.items():
            means = [found[f"tau_1 = {tau:g}"].mean for tau in self.tau_1s]
            axes.plot([f"{tau:g}" for tau in self.tau_1s], means, "o-", label=setting)
        axes.set(xlabel="tau_1", ylabel="relative error of the features")
        axes.legend(fontsize="small")
        return True


@attrs.frozen
class TmccBound(Experiment):
    """Their second theorem: the order of the features' error in size, rank and share observed."""

    sizes: tuple[int, ...] = (50, 100, 200, 400)
    ranks: tuple[int, ...] = (1, 2, 4, 8)
    shares: tuple[float, ...] = (0.2, 0.4, 0.8)
    usual: tuple[int, int, float] = (200, 2, 0.8)
    weights: int = 8

    name: ClassVar[str] = "tmcc-bound"
    title: ClassVar[str] = "TMCC: the mean squared error by size, rank and share observed"
    source: ClassVar[str] = "Wang, Zhang, Mao, Wang (ICASSP 2023); not in the poster"
    default_trials: ClassVar[int] = 10
    measure: ClassVar[str] = "mean squared error at"
    notes: ClassVar[Sequence[str]] = (
        "n x n features without tasks, noise 0.3; by default 200 rows, rank 2, 80 % observed;"
        " tau_2 is the best of some by looking at the truth.",
        "slope: of logarithms, by least squares.",
    )

    @classmethod
    def tiny(cls) -> Self:
        """Up to 32 rows."""
        return cls((16, 32), (1, 2), (0.5, 0.8), (24, 2, 0.8), weights=3)

    def settings(self) -> Sequence[str]:
        """What varies."""
        return ("size", "rank", "share")

    def tolerance(self, measure: str) -> float:
        """Fits are solved to a gap."""
        return 1e-2

    def error(self, rng: np.random.Generator, size: int, rank: int, share: float) -> float:
        """The least error on a path of weights, of one draw."""
        tasks = calibrated_tasks(
            rng,
            linear=True,
            n_items=size,
            n_features=size,
            n_targets=1,
            rank=rank,
            noise=0.3,
            missing=1.0 - share,
        )
        model = tmcc(size**2, 0.5 / size, 1.0, tasks.A, tasks.B, tasks={})
        data = {FEATURES: tasks.data[FEATURES]}
        fits = path(model, data, weights=Grid(count=self.weights, ratio=0.03), tol=1e-4)
        truth = tasks.truth[FEATURES]
        return min(float(np.mean((each.natural(FEATURES) - truth) ** 2)) for each in fits)

    def values(self, setting: str) -> Sequence[float]:
        """Return the values of what varies."""
        found: Sequence[float] = getattr(self, f"{setting}s")
        return found

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The error at each value of what varies, and the slope."""
        usual: dict[str, Any] = dict(zip(self.settings(), self.usual, strict=True))
        values = self.values(setting)
        errors = [self.error(rng, **{**usual, setting: value}) for value in values]
        found = {
            f"{setting} {value:g}": error for value, error in zip(values, errors, strict=True)
        }
        return found | {"slope": float(np.polyfit(np.log(values), np.log(errors), 1)[0])}

    def draw(self, figure: Any, summary: Summary) -> bool:
        """A panel for each of what varies, on logarithmic axes, with the bound's slope."""
        panels = figure.subplots(1, len(summary), sharey=True)
        for axes, (setting, found) in zip(panels, summary.items(), strict=True):
            values = np.array(self.values(setting))
            means = [found[f"{setting} {value:g}"].mean for value in values]
            axes.loglog(values, means, "o-", label="ours")
            order = BOUND_ORDER[setting]
            bound = means[0] * (values / values[0]) ** order
            axes.loglog(values, bound, "k--", label=f"slope {order}")
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.xaxis.minorticks_off()
            axes.set_xlabel(setting)
            axes.legend(fontsize="small")
        panels[0].set_ylabel("mean squared error")
        return True


# The slopes of their bound, but for logarithms.
BOUND_ORDER = {"size": -1, "rank": 1, "share": -2}


EXPERIMENTS: tuple[type[Experiment], ...] = (
    TmccFig2,
    TmccFig3,
    TmccOptimum,
    TmccRate,
    TmccCalibration,
    TmccBound,
)

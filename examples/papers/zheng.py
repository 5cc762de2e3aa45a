"""Zheng and Hastie (2015): the prediction rule of Soft-Impute, on old rows and on new ones."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.datasets import hide
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.papers import gamma, soft_impute, soft_impute_iterations
from mcframe.selection import Grid, path
from papers.data import SemiSupervised, semi_supervised
from papers.experiment import Experiment

__all__ = ["EXPERIMENTS", "ZhengOptimum", "ZhengRule"]

COMPLETE, INCOMPLETE = "complete features", "30 % of the features missing"


@attrs.frozen
class ZhengRule(Experiment):
    """The rule beside the fitted rows, beside refitting, and beside a supervised regression.

    Attributes
    ----------
    n_items, n_new, n_features, rank, noise, labelled
        As in ``semi_supervised``.
    held_out : float
        The share of the observed entries of features and labels on which lambda is chosen.
    weights : int
        How many lambdas are tried, from the largest useful one to a hundredth of it.
    fixed : tuple of float
        Lambdas at which the error of the rule is measured beside that of the chosen one.
    tol : float
        The gap of the fit whose rows are compared.
    """

    name: ClassVar[str] = "zheng-rule"
    title: ClassVar[str] = "The prediction rule of Soft-Impute"
    source: ClassVar[str] = "Zheng, Hastie (2015), section 3"
    default_trials: ClassVar[int] = 20
    notes: ClassVar[Sequence[str]] = (
        "The paper has no experiments: data and sizes are ours.",
        "Errors are root mean square errors of the labels of new rows, noise included.",
    )

    n_items: int = 200
    n_new: int = 50
    n_features: int = 30
    rank: int = 5
    noise: float = 0.5
    labelled: float = 0.2
    held_out: float = 0.1
    weights: int = 15
    fixed: tuple[float, ...] = (0.3, 1.0, 2.0, 4.0, 8.0)
    tol: float = 1e-12

    @classmethod
    def tiny(cls) -> Self:
        """40 items, 3 new ones."""
        return cls(n_items=40, n_new=3, n_features=12, rank=2, labelled=0.5, weights=6)

    def settings(self) -> Sequence[str]:
        """The semi-supervised case of the paper, and a general pattern of missing entries."""
        return (COMPLETE, INCOMPLETE)

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """Distances of the rule from the fitted rows, and errors on new rows."""
        sizes = {
            name: getattr(self, name)
            for name in ("n_items", "n_new", "n_features", "rank", "noise", "labelled")
        }
        drawn = semi_supervised(rng, **sizes, missing=0.0 if setting == COMPLETE else 0.3)
        data = {"features": drawn.features, "labels": drawn.labels}
        lam = self.choose_weight(data, rng)
        answer = fit(soft_impute(lam), data, tol=self.tol)
        rule = answer.predict_rows("labels", {"features": drawn.new_features})
        again = refit_rows(answer, drawn, lam, self.tol)
        measures = {
            "lambda": lam,
            "rule - fitted rows, largest": distance(answer, data),
            "rule, error": error(rule, drawn.new_labels),
            "refitting, error": error(again, drawn.new_labels),
            "rule - refitting, rms": error(rule, again),
            "rule - refitting, paired errors": error(rule, drawn.new_labels)
            - error(again, drawn.new_labels),
            "refitting / rule": ratio(again, rule),
            "labels / rule": ratio(drawn.new_labels, rule),
            "label mean, error": error(np.nanmean(drawn.labels), drawn.new_labels),
        }
        for fixed in self.fixed:
            other = fit(soft_impute(fixed), data, tol=1e-8)
            predicted = other.predict_rows("labels", {"features": drawn.new_features})
            measures[f"rule, error at lambda {fixed:g}"] = error(predicted, drawn.new_labels)
            measures[f"labels / rule at lambda {fixed:g}"] = ratio(drawn.new_labels, predicted)
        if setting == COMPLETE:
            measures |= linear_rules(answer, drawn, rule)
        return measures

    def tolerance(self, measure: str) -> float:
        """Of distances that the gap of a fit leaves only the order of magnitude is comparable."""
        return 1e3 if measure.endswith("largest") else 1e-4

    def choose_weight(self, data: Mapping[str, Array], rng: np.random.Generator) -> float:
        """The lambda with the least squared error on observed entries kept back.

        Of features and labels: labels alone are too few.
        """
        hidden = {
            name: hide(block, self.held_out, keep=(0, 0), random_state=rng).cells
            for name, block in data.items()
        }
        seen = {name: np.where(hidden[name], np.nan, block) for name, block in data.items()}
        fits = path(soft_impute(1.0), seen, weights=Grid(count=self.weights), tol=1e-5)

        def loss(answer: Fit) -> float:
            squares = [
                (answer.natural(name) - block)[hidden[name]] ** 2 for name, block in data.items()
            ]
            return float(np.mean(np.concatenate(squares)))

        return float(fits.weights[np.argmin([loss(answer) for answer in fits])])


def distance(answer: Fit, data: Mapping[str, Array]) -> float:
    """The largest difference of the rule and the fitted rows, over the rows of the fit."""
    return max(
        float(np.max(np.abs(answer.predict_rows(name, data) - answer.predict(name))))
        for name in data
    )


def refit_rows(answer: Fit, drawn: SemiSupervised, lam: float, tol: float) -> Array:
    """The label of each new row by Soft-Impute on the table extended by that row."""
    found = np.empty(drawn.new_labels.shape)
    for place, row in enumerate(drawn.new_features):
        extended = {
            "features": np.vstack([drawn.features, row]),
            "labels": np.vstack([drawn.labels, [[np.nan]]]),
        }
        # Far fewer digits are needed here than where two answers are compared.
        again = fit(soft_impute(lam), extended, tol=max(tol, 1e-9))
        found[place] = again.predict("labels")[-1]
    return found


def linear_rules(answer: Fit, drawn: SemiSupervised, rule: Array) -> dict[str, float]:
    """Gamma beside the fitted and the predicted labels, and a ridge regression's error."""
    from sklearn.linear_model import RidgeCV  # only here: importing it takes half a second

    gammas = gamma(answer)
    unlabelled = np.isnan(drawn.labels[:, 0])
    fitted: Any = answer.predict("labels")[unlabelled]
    regression = RidgeCV(alphas=np.geomspace(1e-3, 1e3, 25))
    regression.fit(drawn.features[~unlabelled], drawn.labels[~unlabelled, 0])
    predicted = regression.predict(drawn.new_features)[:, None]
    old, new = drawn.features[unlabelled] @ gammas.T, drawn.new_features @ gammas.T
    return {
        "gamma - fitted labels, largest": float(np.max(np.abs(old - fitted))),
        "gamma - rule, largest": float(np.max(np.abs(new - rule))),
        "ridge regression, error": error(predicted, drawn.new_labels),
    }


def error(found: Any, wanted: Array) -> float:
    """The root of the mean squared difference."""
    return float(np.sqrt(np.mean((found - wanted) ** 2)))


def ratio(wanted: Any, found: Any) -> float:
    """The factor that takes ``found`` nearest to ``wanted``, by least squares."""
    return float(np.sum(wanted * found) / np.sum(found**2))


@attrs.frozen
class ZhengOptimum(Experiment):
    """Soft-Impute as published, for several epsilon, beside the certified optimum."""

    name: ClassVar[str] = "zheng-optimum"
    title: ClassVar[str] = "Soft-Impute as published beside the optimum of its problem"
    source: ClassVar[str] = "Mazumder et al. (2010), Algorithm 1; not in the paper"
    default_trials: ClassVar[int] = 5
    notes: ClassVar[Sequence[str]] = (
        "excess: (objective where it stopped - bound) / bound; own gap: what its own certificate"
        " says; distance: of Z from the optimal one, relative.",
    )

    n_items: int = 200
    tables: tuple[tuple[float, float], ...] = ((0.0, 4.0), (0.3, 3.0), (0.6, 2.0))
    epsilons: tuple[float, ...] = (1e-4, 1e-5, 1e-7)
    tol: float = 1e-11

    @classmethod
    def tiny(cls) -> Self:
        """40 items."""
        return cls(n_items=40, tables=((0.3, 2.0),), epsilons=(1e-4, 1e-6), tol=1e-9)

    def settings(self) -> Sequence[str]:
        """The share of missing features and lambda."""
        return tuple(f"{missing:.0%} missing, lambda {lam:g}" for missing, lam in self.tables)

    def tolerance(self, measure: str) -> float:
        """The excess is taken from a bound with a gap of its own."""
        return 1e-2

    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """The optimum of one table, and the algorithm with each epsilon."""
        missing, lam = self.tables[self.settings().index(setting)]
        drawn = semi_supervised(rng, n_items=self.n_items, missing=missing)
        data = {"features": drawn.features, "labels": drawn.labels}
        exact = fit(soft_impute(lam), data, tol=self.tol, max_iter=100_000)
        found: dict[str, float] = {}
        for epsilon in self.epsilons:
            published = soft_impute_iterations(data, lam, change=epsilon)
            found |= beside_optimum(f"epsilon {epsilon:g}: ", published, exact)
        return found


def beside_optimum(name: str, published: Fit, exact: Fit) -> dict[str, float]:
    """How far an algorithm stopped from the optimum of its problem."""
    optimal, there = exact.latent.dense(), published.latent.dense()
    return {
        f"{name}iterations": float(published.history[-1].iteration),
        f"{name}excess": (published.objective - exact.bound) / abs(exact.bound),
        f"{name}own gap": published.gap,
        f"{name}distance": float(np.linalg.norm(there - optimal) / np.linalg.norm(optimal)),
    }


EXPERIMENTS: tuple[type[Experiment], ...] = (ZhengRule, ZhengOptimum)

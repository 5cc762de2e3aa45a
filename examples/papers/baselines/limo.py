"""LIMO (Wu and Zhou, ICML 2017): a linear multi-label classifier of large pairwise margins."""

from typing import Any

import attrs
import numpy as np
from scipy.optimize import minimize

from mcframe.backends import relative_gap
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import at_least_0
from mcframe.runtime.machine import compiled
from papers.baselines.checks import checked_features, checked_labels

__all__ = ["MarginClassifier", "MarginProblem", "limo", "limo_by_cross_validation"]

# Widths of the rounded corner of the hinge, largest first: each solution starts the next one.
WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
# Evaluations of the objective within one width.
EVALUATIONS = 500
# The weights of both sums of margins among which cross-validation chooses, and its folds.
CANDIDATES, FOLDS = (1e-6, 1e-5, 1e-4), 3


@attrs.frozen(eq=False, repr=False)
class MarginClassifier:
    """Linear scores ``x'w_j`` of labels and their thresholds.

    Attributes
    ----------
    coefficients : array (n_features, n_labels)
    thresholds : array (n_labels,)
        A label is 1 where its score is above its threshold.
    objective, bound : float
        Of the problem of ``limo`` at the coefficients; a lower bound on its minimum.
    """

    coefficients: Array
    thresholds: Array
    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """(objective - bound) / max(|objective|, |bound|)."""
        return relative_gap(self.objective, self.bound)

    def scores(self, features: Any) -> Array:
        """X W, of shape (n_items, n_labels)."""
        scores: Array = checked_features(features) @ self.coefficients
        return scores

    def predict(self, features: Any) -> Array:
        """Labels of 0 and 1, of shape (n_items, n_labels)."""
        return (self.scores(features) > self.thresholds).astype(np.float64)

    def __repr__(self) -> str:
        return (
            f"MarginClassifier: {self.coefficients.shape[1]} labels,"
            f" objective {self.objective:.9g}, gap {self.gap:.1e}"
        )


@attrs.frozen(eq=False)
class Evaluation:
    """The objective with rounded hinges and its gradient; the objective itself, and a bound."""

    rounded: float
    gradient: Array
    objective: float
    bound: float


@attrs.frozen(eq=False)
class MarginProblem:
    """The convex problem of LIMO for one table of features and labels; see ``limo``."""

    features: Array
    labels: Array
    label_weight: float = attrs.field(validator=at_least_0)
    instance_weight: float = attrs.field(validator=at_least_0)
    labels_first: Array = attrs.field(init=False)

    @labels_first.default
    def _transposed(self) -> Array:
        return columns_first(self.labels)

    def evaluate(self, coefficients: Array, width: float) -> "Evaluation":
        """Both objectives, the gradient, and a bound, at coefficients and a width of rounding.

        The dual objective is the sum of the weighted slopes a in [0, 1] of all pairs less
        ||X'S||_F^2 / 2, where S has the sums of the slopes by item and label. The slopes of the
        rounded hinges are feasible.
        """
        scores = self.features @ coefficients
        slopes = np.zeros_like(scores)
        sums = np.zeros(3)
        if self.instance_weight:
            by_instance, gradient = pair_margins(scores, self.labels, width)
            sums += self.instance_weight * by_instance
            slopes += self.instance_weight * gradient
        if self.label_weight:
            by_label, gradient = pair_margins(columns_first(scores), self.labels_first, width)
            sums += self.label_weight * by_label
            slopes += self.label_weight * gradient.T
        pull = self.features.T @ slopes
        ridge = 0.5 * float(np.sum(coefficients**2))
        rounded, hinges, dual = sums.tolist()
        bound = dual - 0.5 * float(np.sum(pull**2))
        return Evaluation(ridge + rounded, coefficients + pull, ridge + hinges, bound)

    def solve(self, start: Array | None = None, tol: float = 1e-3) -> tuple[Array, float, float]:
        """Coefficients with their objective, and the best bound, once the gap is below ``tol``."""
        shape = self.features.shape[1], self.labels.shape[1]
        point = np.zeros(shape) if start is None else start
        best, objective, bound = point, np.inf, -np.inf
        for width in WIDTHS:

            def rounded(flat: Array, width: float = width) -> tuple[float, Array]:
                values = self.evaluate(flat.reshape(shape), width)
                return values.rounded, values.gradient.ravel()

            # The rounding is coarser than this change of the objective.
            limits = {"maxfun": EVALUATIONS, "maxiter": EVALUATIONS, "ftol": 1e-9, "gtol": 1e-9}
            answer = minimize(rounded, point.ravel(), jac=True, method="L-BFGS-B", options=limits)
            point = answer.x.reshape(shape)
            values = self.evaluate(point, width)
            bound = max(bound, values.bound)
            if values.objective < objective:
                best, objective = point, values.objective
            if relative_gap(objective, bound) <= tol:
                break
        return best, objective, bound


def limo(
    features: Any,
    labels: Any,
    label_weight: float = 1.0,
    instance_weight: float = 1.0,
    *,
    thresholds: Any = 0.0,
    start: Array | None = None,
    tol: float = 1e-3,
) -> MarginClassifier:
    """Solve the problem of LIMO, Eq. 6 of Wu and Zhou (2017), to optimality.

    ``min 1/2 ||W||_F^2 + instance_weight * sum_i sum_(u, v) [1 - (w_u - w_v)'x_i]_+
    + label_weight * sum_j sum_(a, b) [1 - w_j'(x_a - x_b)]_+``

    The pairs (u, v) are a label that item i has and one that it has not; the pairs (a, b) an item
    with label j and one without it. Hinges are rounded by a quadratic of falling width, each
    smooth problem is solved by L-BFGS, and its slopes give a lower bound (Fenchel), so that the
    gap belongs to the problem as it stands. An evaluation costs two products of matrices and a
    sort of each row and column of the scores; memory is a few tables of scores.

    Parameters
    ----------
    features : array (n_items, n_features)
    labels : array (n_items, n_labels) of 0 and 1
    label_weight, instance_weight : float
        Their lambda_2 and lambda_1, relative to half of the ridge.
    thresholds : float or array (n_labels,)
        Above which score a label is 1.
    start : array (n_features, n_labels), optional
        Where the first smooth problem begins.
    tol : float
        The gap at which to stop.

    Raises
    ------
    DataError
        If a feature or a label is missing, or their numbers of rows differ.
    """
    complete_features, complete_labels = complete_tables(features, labels)
    problem = MarginProblem(
        complete_features,
        complete_labels,
        label_weight,
        instance_weight,
    )
    coefficients, objective, bound = problem.solve(start, tol)
    cuts = np.broadcast_to(np.asarray(thresholds, dtype=np.float64), complete_labels.shape[1])
    return MarginClassifier(coefficients, cuts, objective, bound)


def limo_by_cross_validation(
    features: Any, labels: Any, random_state: int = 0
) -> MarginClassifier:
    """LIMO with both weights equal and chosen by cross-validation, and thresholds by label.

    For each weight the scores of the items that a fold leaves out are compared with their labels:
    a label has the threshold with the fewest errors among these scores, and the weight with the
    fewest errors is taken. Xu et al. give neither weights nor thresholds, so this is a guess.
    """
    complete_features, complete_labels = complete_tables(features, labels)
    order = np.random.default_rng(random_state).permutation(complete_labels.shape[0])
    folds = np.array_split(order, FOLDS)
    starts: list[Array | None] = [None] * FOLDS
    fewest, chosen = np.inf, CANDIDATES[0]
    thresholds: Array = np.zeros(complete_labels.shape[1])
    for weight in CANDIDATES:
        scores = np.empty_like(complete_labels)
        for index, fold in enumerate(folds):
            train = np.setdiff1d(order, fold)
            tables = complete_features[train], complete_labels[train]
            answer = limo(*tables, weight, weight, start=starts[index])
            starts[index] = answer.coefficients
            scores[fold] = answer.scores(complete_features[fold])
        cuts, errors = best_thresholds(scores, complete_labels)
        if errors < fewest:
            fewest, chosen, thresholds = errors, weight, cuts
    return limo(complete_features, complete_labels, chosen, chosen, thresholds=thresholds)


def best_thresholds(scores: Array, labels: Array) -> tuple[Array, int]:
    """The threshold of each label with the fewest errors, and the number of all errors."""
    thresholds, errors = np.empty(labels.shape[1]), 0
    for column, (ordered, order) in enumerate(
        zip(np.sort(scores.T, axis=1), np.argsort(scores.T, axis=1), strict=True)
    ):
        marks = labels[order, column]
        # With the k lowest scores as 0, the ones among them are errors, and the zeros above.
        wrong = np.sum(1.0 - marks) + np.concatenate([[0.0], np.cumsum(2.0 * marks - 1.0)])
        k = int(np.argmin(wrong))
        errors += round(wrong[k])
        edges = np.concatenate([[ordered[0] - 1.0], ordered, [ordered[-1] + 1.0]])
        thresholds[column] = 0.5 * (edges[k] + edges[k + 1])
    return thresholds, errors


def columns_first(table: Array) -> Array:
    """The transposed table, contiguous in its rows."""
    return np.ascontiguousarray(table.T)


def complete_tables(features: Any, labels: Any) -> tuple[Array, Array]:
    """Features and labels without gaps, or a ``DataError``."""
    table = checked_features(features)
    marks = checked_labels(labels, table.shape[0])
    for what, values in (("features", table), ("labels", marks)):
        if np.isnan(values).any():
            row, column = np.argwhere(np.isnan(values))[0]
            raise DataError(
                f"{what} have a missing value in row {row}, column {column}; fill it first"
            )
    return table, marks


@compiled(nogil=True)
def pair_margins(scores: Array, labels: Array, width: float) -> tuple[Array, Array]:
    """Sums over the pairs (1, 0) of each row: rounded hinges, hinges, slopes; and the gradient.

    A hinge at h = 1 - (s_1 - s_0) is rounded to h^2 / (2 width) for 0 < h < width and to
    h - width / 2 above; its slope is min(max(h / width, 0), 1). With both kinds of scores sorted,
    the pairs of one score are three ranges of the others, and sums over ranges are differences of
    cumulative sums, so that a row costs a sort.
    """
    sums, gradient = np.zeros(3), np.zeros_like(scores)
    for row in range(scores.shape[0]):
        ones = np.flatnonzero(labels[row] > 0.5)
        zeros = np.flatnonzero(labels[row] <= 0.5)
        if ones.size == 0 or zeros.size == 0:
            continue
        # h = c + s for c = 1 - s_1 and s = s_0.
        ones = ones[np.argsort(1.0 - scores[row][ones])]
        zeros = zeros[np.argsort(scores[row][zeros])]
        cuts, others = 1.0 - scores[row][ones], scores[row][zeros]
        values, slopes = range_sums(cuts, others, width)
        sums += values
        for k in range(ones.size):
            gradient[row, ones[k]] = -slopes[k]
        _, slopes = range_sums(others, cuts, width)
        for k in range(zeros.size):
            gradient[row, zeros[k]] = slopes[k]
    return sums, gradient


@compiled(nogil=True)
def range_sums(firsts: Array, seconds: Array, width: float) -> tuple[Array, Array]:
    """The sums, and slopes by first, over all h = first + second of two ascending arrays."""
    total, square = np.zeros(seconds.size + 1), np.zeros(seconds.size + 1)
    for k in range(seconds.size):
        total[k + 1] = total[k] + seconds[k]
        square[k + 1] = square[k] + seconds[k] ** 2
    sums, slopes = np.zeros(3), np.zeros(firsts.size)
    lower = upper = seconds.size  # where h > 0 and h >= width begin
    for k in range(firsts.size):
        first = firsts[k]
        while lower > 0 and first + seconds[lower - 1] > 0.0:
            lower -= 1
        while upper > 0 and first + seconds[upper - 1] >= width:
            upper -= 1
        count, above = upper - lower, seconds.size - upper
        near = count * first + total[upper] - total[lower]
        far = above * first + total[seconds.size] - total[upper]
        squares = square[upper] - square[lower] + first * (near + total[upper] - total[lower])
        slopes[k] = near / width + above
        sums[0] += 0.5 * squares / width + far - 0.5 * width * above
        sums[1] += near + far
        sums[2] += slopes[k]
    return sums, slopes

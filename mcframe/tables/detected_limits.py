"""Limits that the data tell: columns whose gaps are numbers beyond an end of the observed ones."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import scipy
from scipy.special import log_ndtr, ndtri

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import warn_caller
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import listed, plain
from mcframe.contracts.wording import wording
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows import RowsPosterior
from mcframe.tables.censoring import LimitColumns, LimitNumber, limits_from
from mcframe.tables.coding import Numbers
from mcframe.tables.declared_column import DeclaredColumn

# So many gaps and so many different numbers of a column are needed, and of longer tables so many
# rows are drawn.
FEWEST_GAPS, FEWEST_DISTINCT, MOST_ROWS = 20, 10, 2000
# An end is found if gaps beyond it are so many times likelier than gaps at random (the logarithm),
# and if the gaps alone are so many times likelier by it than with one probability. Beside a column
# whose end is found, the stricter comparison of others in that direction asks for 1 of the former.
LEAST_EVIDENCE = float(np.log(1000.0))
# The classifiers that predict gaps from what other columns hold.
GAP_FOLDS, GAP_TREES, GAP_LEAVES, GAP_STEPS = 5, 30, 6, 2000
# What shares may be at most, and how often an end has to be observed to be taken for a bound.
BOUNDS_OF_SHARES, FEWEST_AT_BOUND = (1.0, 100.0), 5


@attrs.frozen
class End:
    """An end of the observed numbers or dates of a column beyond which its gaps lie.

    Attributes
    ----------
    last : LimitNumber
        The largest observed number, or the least one.
    limit : LimitNumber
        From which on gaps lie: the same, or the next whole number of a column of whole numbers.
    is_upper : bool
        Whether the gaps are above it.
    log_ratio : float
        The logarithm of how many times likelier that is.
    """

    last: LimitNumber
    limit: LimitNumber
    is_upper: bool
    log_ratio: float

    def __str__(self) -> str:
        last = str(self.last) if self.last.is_date else f"{self.last.number:.6g}"
        return f"{'above' if self.is_upper else 'below'} {last}"

    @property
    def limits(self) -> LimitColumns:
        """The limit of each gap."""
        lower, upper = (self.limit, None) if self.is_upper else (None, self.limit)
        return LimitColumns(lower, upper, None, None, at_gaps_only=True)


@attrs.frozen(eq=False)
class PredictedNumbers:
    """Numbers of a column on a scale, and what other columns say of them.

    Attributes
    ----------
    numbers : array (n,)
        NaN at gaps.
    means, deviations : array (n,)
        Of the posterior of rows without the column.
    log_jacobian : float
        The logarithm of the density of the observed numbers is larger by it on their own scale.
    log_chance_of_gaps : float
        A log likelihood of the gaps given other columns.
    """

    numbers: Array
    means: Array
    deviations: Array
    log_jacobian: float
    log_chance_of_gaps: float = -np.inf

    @property
    def gaps(self) -> Mask:
        """Mark the gaps."""
        return np.isnan(self.numbers)

    @property
    def line(self) -> Array:
        """A constant and the means (n x 2)."""
        return np.column_stack([np.ones_like(self.means), self.means])

    def log_density_of_gaps_by_others(self) -> float:
        """The largest log likelihood where gaps depend on what other columns say.

        By a probit of the means, or as ``log_chance_of_gaps`` says. Numbers are Gaussian about a
        line of the means, with deviations in proportion.
        """
        observed = ~self.gaps
        normal, _ = largest_likelihood(self.residuals(observed), np.empty((0, 3)))
        signs = np.where(self.gaps, 1.0, -1.0)[:, None]
        probit, _ = largest_likelihood(np.empty((0, 2)), signs * self.line)
        return self.log_jacobian + normal + max(probit, self.log_chance_of_gaps)

    def log_density_of_gaps_beyond(self, end: float, sign: float) -> tuple[float, float]:
        """The largest log likelihood where gaps are the numbers beyond an end, and no others are.

        Beside it the logarithm of how many times likelier the gaps are than with one probability.
        """
        gaps = self.gaps
        ends = np.full(gaps.size, -end)
        beyond = sign * np.column_stack([self.line, ends]) / self.deviations[:, None]
        both, unknowns = largest_likelihood(self.residuals(~gaps), beyond[gaps])
        scores = np.where(gaps, 1.0, -1.0) * (beyond @ unknowns)
        n_gaps, n = np.count_nonzero(gaps), gaps.size
        alike = n_gaps * np.log(n_gaps / n) + (n - n_gaps) * np.log1p(-n_gaps / n)
        return self.log_jacobian + both, float(np.sum(log_ndtr(scores)) - alike)

    def by_ranks(self) -> "PredictedNumbers":
        """Normal scores in the place of the numbers, which may then have any density.

        That density is estimated at each number by Gaussian kernels about all others, and about
        their reflections beyond both ends (Silverman, Density Estimation, 1986, sections 2.10 and
        3.4).
        """
        observed = ~self.gaps
        numbers = self.numbers[observed]
        n, distinct = numbers.size, np.unique(numbers)
        # Half a step beyond the last values, so that those that are frequent are not doubled.
        low, high = (1.5 * ends[0] - 0.5 * ends[1] for ends in (distinct, distinct[::-1]))
        ranks = scipy.stats.rankdata(numbers)
        normal, scores = ndtri((ranks - 0.5) / n), np.full(self.numbers.size, np.nan)
        scores[observed] = normal
        quartiles = np.quantile(numbers, [0.25, 0.75])
        spread = min(float(np.std(numbers)), float(quartiles[1] - quartiles[0]) / 1.349)
        width = 0.9 * (spread or float(np.std(numbers))) * n**-0.2
        density = np.zeros(n)
        for images in (numbers, 2.0 * low - numbers, 2.0 * high - numbers):
            kernels = np.exp(-0.5 * np.square((numbers[:, None] - images) / width))
            density += np.sum(kernels, axis=1) - np.diag(kernels)
        log_density = np.log(np.maximum(density, EPS) / ((n - 1.0) * width))
        # Both have the factor (2 pi)^-1/2.
        log_jacobian = self.log_jacobian + float(np.sum(log_density + 0.5 * np.square(normal)))
        return attrs.evolve(self, numbers=scores, log_jacobian=log_jacobian)

    def residuals(self, rows: Mask) -> Array:
        """The rows r of observed numbers in ``largest_likelihood`` (n x 3)."""
        numbers = np.column_stack([-self.line, self.numbers])
        return numbers[rows] / self.deviations[rows, None]


def largest_likelihood(residuals: Array, scores: Array) -> tuple[float, Array]:
    """The maximum over w of a log likelihood that is concave in it, and w.

    It is ``sum_i log w_p - (r_i w)^2 / 2`` over rows r_i of residuals (n x p), without a constant,
    plus ``sum_j log Phi(s_j w)`` over rows s_j of scores (m x p). With ``w = (a, b, 1) / s`` it is
    that of numbers y with the mean ``a + b x`` and the deviation s, of which some are known to be
    beyond a limit c alone: ``r = (-1, -x, y)`` and ``s = (1, x, -c)`` (Tobin, Estimation of
    relationships for limited dependent variables, Econometrica 26, 1958; Olsen, Note on the
    uniqueness of the maximum likelihood estimator for the tobit model, Econometrica 46, 1978).
    """
    n, p = residuals.shape

    def loss(unknowns: Array) -> tuple[float, Array]:
        left, of_scores = residuals @ unknowns, scores @ unknowns
        logs = log_ndtr(of_scores)
        slopes = np.exp(-0.5 * np.square(of_scores) - logs) / np.sqrt(2.0 * np.pi)
        value, gradient = 0.5 * left @ left - np.sum(logs), residuals.T @ left - scores.T @ slopes
        if n:
            if unknowns[-1] <= 0.0:
                return np.inf, gradient
            value -= n * np.log(unknowns[-1])
            gradient[-1] -= n / unknowns[-1]
        return float(value), gradient

    start = np.zeros(p)
    if n:  # least squares of the observed numbers
        line, *_ = np.linalg.lstsq(-residuals[:, :-1], residuals[:, -1], rcond=None)
        start = np.append(line, 1.0)
        start /= max(np.sqrt(np.mean(np.square(residuals @ start))), np.sqrt(NOISE_SHARE))
    answer = scipy.optimize.minimize(loss, start, jac=True, method="BFGS")
    return -float(answer.fun), answer.x


def log_chance_of_gaps(gaps: Mask, features: Array, seed: int) -> float:
    """The log likelihood of the gaps of a column (n,) given features of the rows (n x p).

    The larger one of two: by a logistic regression, and by gradient boosting of trees, each of
    which predicts a fifth of the rows from the others.
    """
    # Only here: importing them takes more than a second.
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    spread = np.std(features, axis=0)
    features = features[:, spread > 0.0] / spread[spread > 0.0]
    folds = StratifiedKFold(GAP_FOLDS, shuffle=True, random_state=seed)
    trees = HistGradientBoostingClassifier(
        max_iter=GAP_TREES, max_leaf_nodes=GAP_LEAVES, early_stopping=False, random_state=seed
    )
    sums = []
    for classifier in (LogisticRegression(max_iter=GAP_STEPS), trees):
        both = cross_val_predict(classifier, features, gaps, cv=folds, method="predict_proba")
        probabilities = np.where(gaps, both[:, 1], both[:, 0])
        sums.append(np.sum(np.log(np.maximum(probabilities, EPS))))
    return float(max(sums))


def detected_limits(
    columns: Sequence[DeclaredColumn],
    rows: RowsPosterior,
    ends: Mapping[Any, End],
    seed: int,
    *,
    stricter: bool = False,
) -> dict[Any, End]:
    """The ends beyond which the gaps of columns of numbers lie, by column name.

    If only numbers up to an end were recorded, then the numbers that are observed end abruptly
    where others would be expected, and gaps are where other columns predict numbers beyond it. Of
    a column y, predicted with the mean m and the deviation d by the other columns, models are
    compared by their largest likelihoods. In all of them y is Gaussian with the mean ``a + b m``
    and the deviation ``s d``, on its own scale or, of positive numbers, on that of logarithms. In
    one of them it is missing where it is above the largest observed number, or where it is below
    the least one, and nowhere else. In the others it is missing with the probability
    ``Phi(g + h m)``: at random given the other columns. The first one has to be a thousand
    times likelier, and so have the gaps alone, by it, than with one probability.

    Parameters
    ----------
    columns : sequence of DeclaredColumn
        Of one block.
    rows : RowsPosterior
        The posterior of all rows of the table, in standard units.
    ends : dict from column name to End
        Those that ``rows`` have as limits.
    seed : int
        Draws the rows that are looked at in a long table, and folds of these.
    stricter : bool
        Whether the columns with ends are looked at, and compared with two more models: their gaps
        may be predicted by all that the other columns hold and by the gaps of these
        (``log_chance_of_gaps``), and their numbers may have any distribution (``by_ranks``). Where
        another column ends in that direction, the end has only to be as likely. Else the columns
        without ends are looked at.
    """
    chosen = np.arange(len(rows.table.values))
    if chosen.size > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(seed).permutation(chosen.size)[:MOST_ROWS])
    table, kept = rows.table.take(chosen), {}
    inside = [column for column in columns if column.place is not None]
    gaps_of_all = np.column_stack([np.isnan(column.codes[chosen]) for column in inside])
    for column in inside:
        codes, place = column.codes[chosen], column.place
        assert place is not None
        if (column.name in ends) != stricter or not may_end(column, codes):
            continue
        precisions = table.precisions.copy()
        precisions[:, place] = 0.0
        cells = rows.components.conditionals(table.with_numbers(table.values, precisions))
        means, variances = cells.moments
        chance = None
        if stricter:
            others = [other is not column for other in inside]
            features = np.delete(means, place, axis=1)
            chance = log_chance_of_gaps(
                np.isnan(codes), np.hstack([features, gaps_of_all[:, others]]), seed
            )
        deviations = np.sqrt(variances[:, place] + NOISE_SHARE)
        directions = {end.is_upper for name, end in ends.items() if name != column.name}
        end = end_of(column, codes, means[:, place], deviations, chance, directions)
        if end is not None:
            kept[column.name] = end
    sure = {end.is_upper for end in kept.values() if end.log_ratio >= LEAST_EVIDENCE}
    return {name: end for name, end in kept.items() if end.is_upper in sure}


def may_end(column: DeclaredColumn, codes: Array) -> bool:
    """True if limits of a column may be looked for, with these codes of some of its rows."""
    is_number = isinstance(column.coding, Numbers) and column.coding.width == 1
    has_form = column.column.form in ("number", "date")
    if not (is_number and has_form) or column.neighbour is not None:
        return False
    if column.condition is not None or column.limit_columns or column.column.limits is not None:
        return False
    gaps = np.isnan(codes)
    if np.count_nonzero(gaps) < FEWEST_GAPS:
        return False
    return bool(np.unique(codes[~gaps]).size >= FEWEST_DISTINCT)


def is_bound(number: float, numbers: Array, is_upper: bool) -> bool:
    """True if an end of numbers is probably one of what a column may hold, such as 100 %.

    That is 0 below, 1 and 100 above where no number is negative, and the most frequent number:
    where numbers are cut off, they become rarer towards the end, if more than half are left.
    """
    if number == 0.0 and not is_upper:
        return True
    if number in BOUNDS_OF_SHARES and is_upper and np.min(numbers) >= 0.0:
        return True
    counts = np.unique(numbers, return_counts=True)[1]
    at_end = counts[-1 if is_upper else 0]
    return bool(at_end >= FEWEST_AT_BOUND and at_end == np.max(counts))


def end_of(
    column: DeclaredColumn,
    codes: Array,
    means: Array,
    deviations: Array,
    log_chance: float | None,
    directions: Collection[bool],
) -> End | None:
    """The end of a column beyond which its gaps lie, by what other columns predict; or None.

    With ``log_chance``, of its gaps given other columns, the stricter comparison. ``directions``
    has True if another column has an upper end, and False if one has a lower end.
    """
    coding = column.coding
    assert isinstance(coding, Numbers)
    gaps = np.isnan(codes)
    is_upper = bool(np.mean(means[gaps]) > np.mean(means[~gaps]))
    sign = 1.0 if is_upper else -1.0
    code = sign * float(np.nanmax(sign * column.codes))
    # Of whole numbers, those beyond the last one are rounded from half a unit beyond it on.
    step = 1.0 if column.has_whole_values else 0.0
    last, next_one = coding.numbers_of(np.array([code, code + sign * step])).tolist()
    bound, observed = coding.upper if is_upper else coding.lower, column.codes
    observed = coding.numbers_of(observed[~np.isnan(observed)])
    if last == bound or is_bound(last, observed, is_upper):
        return None  # nothing lies beyond it
    chance = -np.inf if log_chance is None else log_chance
    at_random, beyond = [], []
    for scale in (np.asarray, np.log) if np.nanmin(column.codes) > 0.0 else (np.asarray,):
        scaled = scale(codes)
        center, spread = float(np.nanmean(scaled)), float(np.nanstd(scaled))
        if not spread > 0.0:
            return None
        log_jacobian = -np.count_nonzero(~gaps) * np.log(spread)
        if scale is np.log:
            log_jacobian -= float(np.nansum(scaled))
        numbers = (scaled - center) / spread
        predicted = PredictedNumbers(numbers, means, deviations, log_jacobian, chance)
        at_random.append(predicted.log_density_of_gaps_by_others())
        if log_chance is not None:
            ranked = predicted.by_ranks()
            at_random.append(ranked.log_density_of_gaps_by_others())
        end = (float(scale(code + 0.5 * sign * step)) - center) / spread
        beyond.append(predicted.log_density_of_gaps_beyond(end, sign))
    largest, of_gaps = max(beyond)
    log_ratio = largest - max(at_random)
    needed = 0.0 if log_chance is not None and is_upper in directions else LEAST_EVIDENCE
    if log_ratio < needed or of_gaps < LEAST_EVIDENCE:
        return None
    is_date = column.column.form == "date"
    return End(LimitNumber(last, is_date), LimitNumber(next_one, is_date), is_upper, log_ratio)


def with_ends(
    columns: Sequence[DeclaredColumn], ends: Mapping[Any, End]
) -> tuple[DeclaredColumn, ...]:
    """Columns with the limits of their gaps."""
    limited = []
    for column in columns:
        if column.name in ends:
            limits = ends[column.name].limits
            column = attrs.evolve(
                column,
                column=attrs.evolve(
                    column.column, given_limits=limits_from(column.column, limits, {})
                ),
                limit_columns=limits,
                why=f"{column.why}; limits of gaps: {limits}",
            )
        limited.append(column)
    return tuple(limited)


def warn_of_ends(ends: Mapping[Any, End]) -> None:
    """A ``UserWarning`` of the ends beyond which gaps are taken to lie."""
    if ends:
        option = wording().either(python="detect_limits=False", command="--no-detect-limits")
        names = listed([f"{plain(name)!r} ({end})" for name, end in ends.items()])
        warn_caller(
            f"gaps are taken for numbers beyond the observed ones: {names}. These end abruptly"
            f" where other columns predict further ones. {option} takes the gaps for numbers of"
            " any size"
        )

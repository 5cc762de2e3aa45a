"""Missing entries filled by a mixture of Gaussians, fitted by expectation-maximisation."""

from collections.abc import Iterator

import attrs
import numpy as np
from scipy.special import logsumexp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import number, whole
from papers.baselines.checks import checked_features
from papers.baselines.imputation import mean_imputed

__all__ = ["GaussianMixture", "fit_mixture"]

LOG_TWO_PI = float(np.log(2.0 * np.pi))
# Numbers in the covariances of a batch of items.
BATCH = 1_000_000
# Below this expected number of items a component's mean stays where it is.
NOBODY = 1e-12


@attrs.frozen(eq=False)
class Pattern:
    """Items with equally many observed entries: rows (m,), and their columns (m, p)."""

    rows: IntArray
    columns: IntArray


@attrs.frozen(eq=False)
class Conditioned:
    """Incomplete items under one Gaussian.

    ``logs`` are log p(observed entries) of each item, ``filled`` (n x d) the items with missing
    entries at their conditional means, ``inverses`` those of the covariances of what is
    observed, pattern by pattern.
    """

    logs: Array
    filled: Array
    inverses: tuple[Array, ...]


@attrs.frozen(eq=False)
class GaussianMixture:
    """k Gaussians with full covariances, as ``fit_mixture`` gives them.

    Attributes
    ----------
    shares : array (k,)
        Their probabilities.
    means : array (k, d)
    covariances : array (k, d, d)
    objectives : tuple of float
        The objective of ``fit_mixture`` at the start and after each iteration; it never falls.
    """

    shares: Array
    means: Array
    covariances: Array
    objectives: tuple[float, ...] = ()

    def log_likelihoods(self, features: Array) -> Array:
        """log p(observed entries) of each item, (n_items,)."""
        table = checked_features(features)
        logs = self.joint(self.condition_on_observed(table, tuple(patterns(table))))
        return np.asarray(logsumexp(logs, axis=1))

    def impute(self, features: Array) -> Array:
        """Fill missing entries with their conditional means, given what is observed of an item."""
        table = checked_features(features)
        parts = self.condition_on_observed(table, tuple(patterns(table)))
        filled = np.einsum("ik,kij->ij", memberships(self.joint(parts)), [p.filled for p in parts])
        return np.where(np.isnan(table), filled, table)

    def condition_on_observed(
        self, table: Array, groups: tuple[Pattern, ...]
    ) -> list[Conditioned]:
        """The items under each of the components."""
        return [
            condition_on_observed(table, groups, mean, covariance)
            for mean, covariance in zip(self.means, self.covariances, strict=True)
        ]

    def joint(self, parts: list[Conditioned]) -> Array:
        """log p(component and observed entries), (n_items, k)."""
        with np.errstate(divide="ignore"):  # a share may have fallen to 0
            return np.asarray(np.log(self.shares) + np.column_stack([p.logs for p in parts]))


def memberships(joint: Array) -> Array:
    """Posterior probabilities of the components."""
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def patterns(table: Array) -> Iterator[Pattern]:
    """Group items by how many entries are observed: their linear algebra runs in batches."""
    seen = ~np.isnan(table)
    counts = seen.sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        size = max(1, BATCH // max(int(count) ** 2, 1))
        for start in range(0, rows.size, size):
            part = rows[start : start + size]
            yield Pattern(part, np.nonzero(seen[part])[1].reshape(part.size, int(count)))


def condition_on_observed(
    table: Array, groups: tuple[Pattern, ...], mean: Array, covariance: Array
) -> Conditioned:
    """The items under one Gaussian; with P the inverse on what is observed, C P (x - m) + m."""
    logs, filled = np.empty(len(table)), np.tile(mean, (len(table), 1))
    inverses = []
    for group in groups:
        rows, columns = group.rows, group.columns
        roots = np.linalg.cholesky(covariance[columns[:, :, None], columns[:, None, :]])
        inverse = np.linalg.inv(roots)
        inverse = np.swapaxes(inverse, 1, 2) @ inverse
        away = table[rows[:, None], columns] - mean[columns]
        pulled = np.einsum("ipq,iq->ip", inverse, away)
        log_roots = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        squares = np.sum(away * pulled, axis=1)
        logs[rows] = -0.5 * (squares + columns.shape[1] * LOG_TWO_PI) - log_roots
        spread = np.zeros((rows.size, mean.size))
        np.put_along_axis(spread, columns, pulled, axis=1)
        filled[rows] += spread @ covariance
        inverses.append(inverse)
    seen = ~np.isnan(table)
    filled[seen] = table[seen]
    return Conditioned(logs, filled, tuple(inverses))


def scatter(
    covariance: Array, groups: tuple[Pattern, ...], part: Conditioned, weights: Array, mean: Array
) -> Array:
    """``sum_i weight_i E[(x_i - mean)(x_i - mean)' | observed entries of x_i]``.

    The conditional covariance of an item is C - C P C, with P padded by zeros, so that their
    sum takes one pass over the inverses.
    """
    side = len(covariance)
    padded = np.zeros(side * side)
    for group, inverse in zip(groups, part.inverses, strict=True):
        places = group.columns[:, :, None] * side + group.columns[:, None, :]
        weighted = inverse * weights[group.rows, None, None]
        padded += np.bincount(places.ravel(), weighted.ravel(), minlength=side * side)
    away = part.filled - mean
    total = (away * weights[:, None]).T @ away + np.sum(weights) * covariance
    total -= covariance @ padded.reshape(side, side) @ covariance
    return np.asarray(0.5 * (total + total.T))


def fit_mixture(
    features: Array,
    components: int,
    rng: np.random.Generator,
    *,
    ridge: float = 1.0,
    starts: int = 1,
    change: float = 1e-5,
    max_iter: int = 100,
    conditional_covariances: bool = True,
    zeros: bool = False,
) -> GaussianMixture:
    """Fit a mixture of Gaussians to incomplete items by expectation-maximisation.

    Maximises ``sum_i log p(observed entries of x_i) - ridge / 2 sum_k (log |C_k| + tr D C_k^-1)``
    over shares, means m_k and covariances C_k, D the diagonal of the observed variances
    (Ghahramani and Jordan, 1994; Little and Rubin, 2002). The ridge counts as much as that many
    more items with these variances around each component's mean, and keeps covariances away
    from singular ones, where the likelihood has no bound.

    Parameters
    ----------
    features : array (n_items, n_features)
        NaN where a value is missing.
    components : int
        k.
    rng : numpy Generator
        Draws the starts.
    ridge : float, default 1
        Above 0.
    starts : int, default 1
        How many; the best end is taken. Each component starts at an item drawn at random
        (missing entries at their column means) and the covariance D; a single one at the
        column means, once.
    change : float, default 1e-5
        Stop when the objective changes by less than this, relatively.
    max_iter : int, default 100
    conditional_covariances : bool, default True
        False leaves the covariance of what is missing, given what is observed, out of the
        maximisation: a known mistake, after which the objective may fall, and ``change`` means
        any change.
    zeros : bool, default False
        Begin from the table with zeros in the place of what is missing: at its mean and its
        covariance, or at random items of it.

    Returns
    -------
    GaussianMixture

    Notes
    -----
    An iteration inverts, for each item and component, the covariance of what is observed:
    O(k n p^3) operations in batches of items with equally many observed entries, and memory
    for k n p^2 numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.baselines import fit_mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.outer(rng.standard_normal(200), [1.0, 2.0]) + [0.0, 5.0]
    >>> x[0, 1] = np.nan
    >>> filled = fit_mixture(x, 1, rng, ridge=0.01).impute(x)
    >>> bool(abs(filled[0, 1] - (2.0 * x[0, 0] + 5.0)) < 0.01)
    True
    """
    table = checked_features(features)
    count = whole(components, "components", 1)
    if number(ridge, "ridge") <= 0.0:
        raise ModelError(f"ridge={ridge!r} was given; it must be above 0")
    if count > len(table):
        raise ModelError(f"components={count} were asked for, and there are {len(table)} items")
    runs = [
        maximise_likelihood(
            table,
            mixture_of_zero_filled(table, count, ridge, rng)
            if zeros
            else initial_mixture(table, count, rng),
            ridge,
            change,
            whole(max_iter, "max_iter", 1),
            conditional_covariances,
        )
        for _ in range(1 if count == 1 else whole(starts, "starts", 1))
    ]
    return max(runs, key=lambda run: run.objectives[-1])


def variances(table: Array) -> Array:
    """Return the variances of the observed entries by column; their mean where one is 0."""
    away = np.where(np.isnan(table), 0.0, table - mean_imputed(table).mean(axis=0))
    found = np.square(away).sum(axis=0) / np.maximum((~np.isnan(table)).sum(axis=0), 1)
    usual = float(np.mean(found))
    return np.where(found > 0.0, found, usual if usual > 0.0 else 1.0)


def initial_mixture(table: Array, count: int, rng: np.random.Generator) -> GaussianMixture:
    """Equal shares, the observed variances, and means at random items; of one, the mean."""
    filled = mean_imputed(table)
    means = filled.mean(axis=0)[None]
    if count > 1:
        means = filled[rng.choice(len(filled), count, replace=False)]
    covariances = np.tile(np.diag(variances(table)), (count, 1, 1))
    return GaussianMixture(np.full(count, 1.0 / count), means, covariances)


def mixture_of_zero_filled(
    table: Array, count: int, ridge: float, rng: np.random.Generator
) -> GaussianMixture:
    """The mean and covariance of the table filled with zeros; means at random items of it."""
    filled = np.nan_to_num(table)
    mean, items = filled.mean(axis=0), len(filled)
    around = ridge * np.diag(variances(table))
    covariance = ((filled - mean).T @ (filled - mean) + around) / (items + ridge)
    means = mean[None] if count == 1 else filled[rng.choice(items, count, replace=False)]
    return GaussianMixture(np.full(count, 1.0 / count), means, np.tile(covariance, (count, 1, 1)))


def maximise_likelihood(
    table: Array,
    mixture: GaussianMixture,
    ridge: float,
    change: float,
    max_iter: int,
    conditional_covariances: bool,
) -> GaussianMixture:
    """Expectation and maximisation in turn until the objective stands still."""
    groups = tuple(patterns(table))
    around = ridge * np.diag(variances(table))
    objectives: list[float] = []
    for iteration in range(max_iter + 1):
        parts = mixture.condition_on_observed(table, groups)
        joint = mixture.joint(parts)
        objective = float(np.sum(logsumexp(joint, axis=1)))
        for covariance in mixture.covariances:
            log_determinant = np.linalg.slogdet(covariance)[1]
            inside = np.trace(np.linalg.solve(covariance, around))
            objective -= 0.5 * (ridge * log_determinant + inside)
        objectives.append(objective)
        done = iteration == max_iter
        if iteration > 0:
            moved = objective - objectives[-2]
            if not conditional_covariances:
                moved = abs(moved)
            done = done or moved <= change * abs(objective)
        if done:
            break
        mixture = maximisation_step(
            mixture, groups, parts, memberships(joint), around, ridge, conditional_covariances
        )
    return attrs.evolve(mixture, objectives=tuple(objectives))


def maximisation_step(
    mixture: GaussianMixture,
    groups: tuple[Pattern, ...],
    parts: list[Conditioned],
    shares: Array,
    around: Array,
    ridge: float,
    conditional_covariances: bool,
) -> GaussianMixture:
    """The maximisation step."""
    counts = shares.sum(axis=0)
    means, covariances = mixture.means.copy(), mixture.covariances.copy()
    for k, part in enumerate(parts):
        weights = shares[:, k]
        if counts[k] > NOBODY:
            means[k] = weights @ part.filled / counts[k]
        if conditional_covariances:
            total = scatter(mixture.covariances[k], groups, part, weights, means[k])
        else:
            away = part.filled - means[k]
            total = (away * weights[:, None]).T @ away
        covariances[k] = (total + around) / (counts[k] + ridge)
    return GaussianMixture(counts / counts.sum(), means, covariances)

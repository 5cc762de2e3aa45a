"""Standard problems of matrix completion, each by its seed.

Needs numpy and scipy alone, so that it runs in the interpreter of any peer. An ``Instance`` holds
the observed entries, the weight of the nuclear norm, and positions that were never observed with
the noise-free natural parameter there.

==========  ======================================================================================
p1          1000 x 600, Gaussian, rank 10, factors N(0, 1), noise of standard deviation 1, 30 %
p2          5000 x (500 Gaussian + 100 Bernoulli), rank 20, factors U[-5, 5], noise 1, 30 %
p2g         the Gaussian part of p2
p3          100,000 x 10,000, Gaussian, 5,000,000 entries, rank 10, factors N(0, 1), noise 0.5
p3-mixed    the same shape: half of the columns Gaussian, a quarter Bernoulli, a quarter Poisson
p7          20,000 x 800, Gaussian, 400,000 entries, rank 5, noise 0.3: the weight is 8, about
            as large as the noise, as weights that cross-validation chooses often are
mc-b        80 items x (27 Gaussian + 13 Bernoulli with a bias), rank 3, 60 %, losses averaged
imputation  2000 x (10 continuous + 10 binary + 10 counts) of a rank-3 Gaussian, 40 % missing
==========  ======================================================================================

The number behind the name of a problem is its weight relative to the largest that is of use, the
spectral norm of the gradient of the losses at Z = 0. In p3-mixed-0.1 it is below the noise: the
noise of the 2500 columns of counts has singular values from 19 to 36 (drawn once, at the truth),
all above the weight 14.9, so that the optimum fits noise in a rank of that order. p3-mixed-0.2 is
above nearly all of the noise.
"""

from dataclasses import asdict, dataclass, fields, replace
from functools import partial

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

__all__ = ["NAMES", "Instance", "instance"]

GAUSSIAN, LABELS, COUNTS = "gaussian", "labels", "counts"
HELD = 100_000
# The logarithms of Poisson rates are this much smaller than the natural parameters beside them:
# with factors N(0, 1) and rank 10 rates would otherwise reach exp(20).
LOG_RATE = 0.2


@dataclass(frozen=True)
class Instance:
    """One problem: what is observed, what is held out, and the weight of the nuclear norm.

    ``kinds`` names the likelihood of each column; columns of a kind stand together. With ``mean``
    the loss of each kind is averaged and labels have a bias.
    """

    name: str
    shape: tuple
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    kinds: np.ndarray
    held_rows: np.ndarray
    held_columns: np.ndarray
    truth: np.ndarray
    weight: float = 0.0
    sparse: bool = False
    mean: bool = False

    def blocks(self):
        """The columns of each kind, in their order."""
        names = list(dict.fromkeys(self.kinds.tolist()))
        places = {name: np.flatnonzero(self.kinds == name) for name in names}
        return {name: slice(int(at[0]), int(at[-1]) + 1) for name, at in places.items()}

    def data(self):
        """All columns as a user has them: an array with NaN, or a sparse matrix in rows."""
        if self.sparse:
            entries = (self.values, (self.rows, self.columns))
            return scipy.sparse.csr_matrix(entries, shape=self.shape)
        table = np.full(self.shape, np.nan)
        table[self.rows, self.columns] = self.values
        return table

    def save(self, path):
        """Write everything into one file."""
        np.savez(path, **asdict(self))

    @classmethod
    def load(cls, path):
        """What ``save`` has written."""
        with np.load(path) as file:
            stored = {field.name: file[field.name] for field in fields(cls)}
        plain = {name: v.item() if v.ndim == 0 else v for name, v in stored.items()}
        return cls(**{**plain, "shape": tuple(plain["shape"].tolist())})


def instance(name, quick=False, seed=0):
    """A problem by its name, such as ``p1-0.1``; with ``quick`` a tiny one of its kind."""
    if name not in NAMES:
        raise ValueError(f"problem {name!r} was given; these are known: {', '.join(NAMES)}")
    family, _, fraction = (name, "", "") if name in FAMILIES else name.rpartition("-")
    make, full, tiny = FAMILIES[family]
    made = make(np.random.default_rng(seed), **(tiny if quick else full))
    weight = float(fraction) * largest_weight(made) if fraction else made.weight
    return replace(made, name=name, weight=weight)


def gaussian_factors(rng, n_rows, n_columns, rank, observed):
    """p1: a low-rank matrix of standard normal factors, and noise."""
    z = rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))
    y = z + rng.standard_normal(z.shape)
    return sampled(rng, z, y, np.repeat(GAUSSIAN, n_columns), observed)


def uniform_factors(rng, n_rows, n_gaussian, n_labels, rank, observed, only_gaussian=False):
    """p2: uniform factors; features with noise, labels by a logistic curve."""
    z = rng.uniform(-5, 5, (n_rows, rank)) @ rng.uniform(-5, 5, (rank, n_gaussian + n_labels))
    kinds = np.repeat([GAUSSIAN, LABELS], [n_gaussian, n_labels])
    made = sampled(rng, z, drawn(rng, z, kinds, noise=1.0), kinds, observed)
    return first_columns(made, n_gaussian) if only_gaussian else made


def first_columns(made, count):
    """An instance restricted to so many columns."""
    seen, held = made.columns < count, made.held_columns < count
    return replace(
        made,
        shape=(made.shape[0], count),
        rows=made.rows[seen],
        columns=made.columns[seen],
        values=made.values[seen],
        kinds=made.kinds[:count],
        held_rows=made.held_rows[held],
        held_columns=made.held_columns[held],
        truth=made.truth[held],
    )


def large_sparse(rng, n_rows, n_columns, rank, n_observed, noise=0.5, mixed=False):
    """p3: positions anywhere in a large table, of which no dense copy is made."""
    left, right = rng.standard_normal((n_rows, rank)), rng.standard_normal((n_columns, rank))
    kinds = np.repeat(GAUSSIAN, n_columns)
    if mixed:
        half, quarter = n_columns // 2, n_columns // 4
        kinds = np.repeat([GAUSSIAN, LABELS, COUNTS], [n_columns - half, half - quarter, quarter])
        right[kinds == COUNTS] *= LOG_RATE
    held = n_observed // 25
    cells = distinct(rng, n_rows * n_columns, n_observed + held)
    rows, columns = cells // n_columns, cells % n_columns
    z = np.concatenate(
        [
            np.einsum("ij,ij->i", left[rows[part]], right[columns[part]])
            for part in np.array_split(np.arange(cells.size), 50)
        ]
    )
    y = drawn(rng, z, kinds[columns], noise)
    seen = np.sort(rng.permutation(cells.size)[:n_observed])
    unseen = np.setdiff1d(np.arange(cells.size), seen, assume_unique=True)
    return Instance(
        name="",
        shape=(n_rows, n_columns),
        rows=rows[seen],
        columns=columns[seen],
        values=y[seen],
        kinds=kinds,
        held_rows=rows[unseen],
        held_columns=columns[unseen],
        truth=z[unseen],
        sparse=True,
    )


def at_the_noise(rng, n_rows, n_columns, rank, n_observed, weight):
    """p7: a weight at which some of the noise is fitted."""
    return replace(large_sparse(rng, n_rows, n_columns, rank, n_observed, 0.3), weight=weight)


def features_and_labels(rng, n_items, n_features, n_labels, rank, observed):
    """mc-b of Goldberg et al. (2010): labels have a bias, losses are averaged."""
    z = rng.standard_normal((n_items, rank)) @ rng.standard_normal((rank, n_features + n_labels))
    z[:, n_features:] += 0.5 * rng.standard_normal(n_labels)
    kinds = np.repeat([GAUSSIAN, LABELS], [n_features, n_labels])
    steep = np.where(kinds == LABELS, 2.0, 1.0) * z
    y = drawn(rng, steep, kinds, noise=0.1)
    return replace(sampled(rng, z, y, kinds, observed), weight=0.02, mean=True)


def mixed_table(rng, n_rows, n_each, rank, missing):
    """A table to impute; what is hidden is the truth here, not a natural parameter."""
    directions = rng.standard_normal((rank, 3 * n_each))
    directions /= np.linalg.norm(directions, axis=0)
    z = rng.standard_normal((n_rows, rank)) @ directions
    y = z + 0.3 * rng.standard_normal(z.shape)
    kinds = np.repeat([GAUSSIAN, LABELS, COUNTS], n_each)
    y[:, kinds == LABELS] = y[:, kinds == LABELS] > 0
    y[:, kinds == COUNTS] = rng.poisson(np.exp(0.5 + 0.6 * z[:, kinds == COUNTS]))
    return sampled(rng, y, y, kinds, 1.0 - missing, held=y.size)


def drawn(rng, z, kinds, noise):
    """Data by their natural parameters, of kinds that are broadcast against them."""
    y = z + noise * rng.standard_normal(z.shape)
    kinds = np.broadcast_to(kinds, z.shape)
    labels, counts = kinds == LABELS, kinds == COUNTS
    y[labels] = rng.random(int(labels.sum())) < 0.5 * (1 + np.tanh(0.5 * z[labels]))
    y[counts] = rng.poisson(np.exp(z[counts]))
    return y


def sampled(rng, z, y, kinds, observed, held=HELD):
    """An instance that sees a share of a whole table, and holds out some of the rest."""
    seen = rng.random(z.shape) < observed
    rows, columns = np.nonzero(seen)
    unseen = np.flatnonzero(~seen)
    unseen = np.sort(rng.permutation(unseen)[:held])
    held_rows, held_columns = unseen // z.shape[1], unseen % z.shape[1]
    truth = z[held_rows, held_columns]
    return Instance("", z.shape, rows, columns, y[seen], kinds, held_rows, held_columns, truth)


def distinct(rng, stop, count):
    """So many different numbers below ``stop``, ascending."""
    found = np.unique(rng.integers(0, stop, count + count // 100))
    while found.size < count:
        found = np.unique(np.concatenate([found, rng.integers(0, stop, count)]))
    return np.sort(rng.permutation(found)[:count])


def largest_weight(made):
    """The spectral norm of the gradient of the losses at Z = 0: from there on Z = 0 is optimal."""
    mean_at_zero = {GAUSSIAN: 0.0, LABELS: 0.5, COUNTS: 1.0}
    means = np.array([mean_at_zero[kind] for kind in made.kinds.tolist()])
    gradient = scipy.sparse.csr_matrix(
        (means[made.columns] - made.values, (made.rows, made.columns)), shape=made.shape
    )
    if made.sparse:
        start = np.ones(min(made.shape))
        return float(
            scipy.sparse.linalg.svds(gradient, k=1, v0=start, return_singular_vectors=False)[0]
        )
    return float(np.linalg.norm(gradient.toarray(), 2))


P2 = {"n_rows": 5000, "n_gaussian": 500, "n_labels": 100, "rank": 20, "observed": 0.3}
TINY_P2 = {"n_rows": 80, "n_gaussian": 30, "n_labels": 10, "rank": 2, "observed": 0.5}
P3 = {"n_rows": 100_000, "n_columns": 10_000, "rank": 10, "n_observed": 5_000_000}
TINY_P3 = {"n_rows": 400, "n_columns": 120, "rank": 2, "n_observed": 10_000}
P7 = {"n_rows": 20_000, "n_columns": 800, "rank": 5, "n_observed": 400_000, "weight": 8.0}

# The function of each family, its sizes, and those of its tiny copy.
FAMILIES = {
    "p1": (
        gaussian_factors,
        {"n_rows": 1000, "n_columns": 600, "rank": 10, "observed": 0.3},
        {"n_rows": 60, "n_columns": 40, "rank": 2, "observed": 0.5},
    ),
    "p2": (uniform_factors, P2, TINY_P2),
    "p2g": (partial(uniform_factors, only_gaussian=True), P2, TINY_P2),
    "p3": (large_sparse, P3, TINY_P3),
    "p3-mixed": (partial(large_sparse, mixed=True), P3, TINY_P3),
    "p7": (at_the_noise, P7, {**TINY_P3, "weight": 8.0}),
    "mc-b": (
        features_and_labels,
        {"n_items": 80, "n_features": 27, "n_labels": 13, "rank": 3, "observed": 0.6},
        {"n_items": 20, "n_features": 7, "n_labels": 3, "rank": 2, "observed": 0.6},
    ),
    "imputation": (
        mixed_table,
        {"n_rows": 2000, "n_each": 10, "rank": 3, "missing": 0.4},
        {"n_rows": 100, "n_each": 3, "rank": 2, "missing": 0.4},
    ),
}
NAMES = (
    "p1-0.1",
    "p1-0.02",
    "p2-0.1",
    "p2-0.02",
    "p2g-0.1",
    "p2g-0.02",
    "p3-0.1",
    "p3-mixed-0.1",
    "p3-mixed-0.2",
    "p7",
    "mc-b",
    "imputation",
)

"""Gaussians of rows or columns, and those that normal equations and a prior give."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError
from mcframe.contracts.sent import Broadcast
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops

SINGULAR_MESSAGE = (
    "no posterior: normal equations are singular in double precision, since columns or effects"
    " are of very different sizes; standardise the columns, or take fewer factors"
)
# Rows or columns that are worked on at a time.
ROWS_PER_CHUNK = 2048


@stored(formerly=("mcframe.posterior.factor_state.Gaussians",))
@attrs.frozen(eq=False)
class Gaussians(Broadcast):
    """A Gaussian for each row or column, given numbers included.

    ``means`` (n x K), packed ``covariances`` (n x P), and the log determinant of the covariance of
    the free numbers, (n,).
    """

    means: Array
    covariances: Array
    log_determinants: Array

    @classmethod
    def without_variance(cls, means: Array) -> "Gaussians":
        """Gaussians of no variance."""
        n, width = means.shape
        return cls(np.array(means), np.zeros((n, loops.packed_size(width))), np.zeros(n))

    @classmethod
    def joined(cls, parts: list["Gaussians"]) -> "Gaussians":
        """The Gaussians of several groups of rows, one after the other."""
        arrays = zip(*(attrs.astuple(part, recurse=False) for part in parts), strict=True)
        return cls(*map(np.concatenate, arrays))

    def take(self, rows: IntArray) -> "Gaussians":
        """Some of the Gaussians."""
        return Gaussians(*(array[rows] for array in attrs.astuple(self, recurse=False)))

    def put(self, rows: IntArray, others: "Gaussians") -> None:
        """Overwrite some of the Gaussians by others."""
        self.means[rows] = others.means
        self.covariances[rows] = others.covariances
        self.log_determinants[rows] = others.log_determinants

    @property
    def outer_products(self) -> Array:
        """E[x x'], packed."""
        rows, columns = np.tril_indices(self.means.shape[1])
        return self.covariances + self.means[:, rows] * self.means[:, columns]

    def full_covariances(self, k: int | None = None) -> Array:
        """The covariances (n x k x k) of the first k numbers, or of all."""
        return self.covariances[:, loops.unpacking(self.means.shape[1])[:k, :k]]

    @property
    def variances(self) -> Array:
        """Variances (n x K)."""
        return self.covariances[:, np.diag(loops.unpacking(self.means.shape[1]))]

    def turned(self, matrix: Array, log_determinant: float) -> "Gaussians":
        """The Gaussians of ``matrix x``; the logarithm of its determinant is given."""
        where, covariances = loops.unpacking(len(matrix)), np.empty_like(self.covariances)
        for begin in range(0, len(covariances), ROWS_PER_CHUNK):
            chunk = slice(begin, begin + ROWS_PER_CHUNK)
            full = self.covariances[chunk][:, where]
            covariances[chunk] = loops.packed(matrix @ full @ matrix.T)
        log_determinants = self.log_determinants + 2.0 * log_determinant
        return Gaussians(self.means @ matrix.T, covariances, log_determinants)

    def draws(self, rng: np.random.Generator, m: int) -> Array:
        """Draws (m x n x K); given numbers stay as they are.

        By ``roots``, which rounding moves by rounding alone.
        """
        normal = rng.standard_normal((m, *self.means.shape))
        return np.asarray(self.means + np.einsum("nab,mnb->mna", self.roots(), normal))

    def roots(self) -> Array:
        """The symmetric roots of the covariances (n x K x K); axes of others may turn."""
        values, axes = np.linalg.eigh(self.full_covariances())
        return axes * np.sqrt(np.maximum(values, 0.0))[:, None, :] @ axes.transpose(0, 2, 1)


def gaussians_of_groups(
    matrices: Array,
    vectors: Array,
    groups: tuple[tuple[IntArray, Mask], ...],
    fixed_values: Array,
    prior_precisions: Array,
    prior_means: Array,
) -> Gaussians:
    """``gaussians_given`` of rows or columns in groups of the same free numbers."""
    gaussians = Gaussians.without_variance(fixed_values)
    for members, free in groups:
        for begin in range(0, members.size, ROWS_PER_CHUNK):
            chunk = members[begin : begin + ROWS_PER_CHUNK]
            equations = matrices[chunk], vectors[chunk]
            prior = prior_precisions[chunk], prior_means[chunk]
            gaussians.put(chunk, gaussians_given(*equations, free, fixed_values[chunk], *prior))
    return gaussians


class SingularEquations(BackendError, np.linalg.LinAlgError):
    """Normal equations that double precision does not solve."""


def gaussians_given(
    matrices: Array,
    vectors: Array,
    free: Mask,
    fixed_values: Array,
    prior_precisions: Array,
    prior_means: Array,
) -> Gaussians:
    """The Gaussians with these normal equations and independent Gaussian priors.

    Densities proportional to ``exp(x'b - x'A x / 2)`` times the prior, of the free numbers given
    the others. Raises ``SingularEquations`` where a matrix is not positive definite.

    Parameters
    ----------
    matrices, vectors : arrays (n x P), (n x K)
        A and b.
    free : mask (K,)
    fixed_values : array (n or 1 x K)
    prior_precisions, prior_means : arrays (n or 1 x K)
    """
    gaussians = Gaussians.without_variance(np.broadcast_to(fixed_values, vectors.shape))
    means, places = gaussians.means, np.flatnonzero(free)
    if not places.size:
        return gaussians
    where = loops.unpacking(free.size)
    right = vectors[:, places] + prior_precisions[:, places] * prior_means[:, places]
    others = np.flatnonzero(~free)
    if others.size:
        across = matrices[:, where[np.ix_(places, others)]]
        right = right - np.einsum("nab,nb->na", across, means[:, others])
    solved = np.empty(right.shape)
    equations = matrices, right, np.ascontiguousarray(prior_precisions[:, places])
    of_places = np.ascontiguousarray(where[np.ix_(places, places)])
    answers = solved, gaussians.covariances, gaussians.log_determinants
    if not loops.solve_equations(*equations, of_places, *answers):
        raise SingularEquations(SINGULAR_MESSAGE)
    means[:, places] = solved
    return gaussians

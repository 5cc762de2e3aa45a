"""Labels, levels and classes as numbers, and the probabilities that predictions of these give."""

from typing import ClassVar, Self

import attrs
import numpy as np
from scipy.special import softmax

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.stored_classes import stored
from mcframe.tables.coding import PROBABILITY_LIMITS, Choice, Levels
from mcframe.tables.discriminant import MOST_UNEXPLAINED_SHARE, Discriminant
from mcframe.tables.platt_scaling import PRIOR_SLOPE

# The least unexplained share of a variance. Of labels under mixtures in 11 simulated tables, 0.2
# lost 3 % less than 0.01 and 0.05.
LEAST_UNEXPLAINED_SHARE = 0.2
# Of earlier files: the value that all entries had where no better one was found on held-out ones,
# and the frequencies to which probabilities were drawn for it.
FORMER_FIELDS = ("fill", "fill_shares")


@stored(formerly=("mcframe.tables.coding.Indicator",), former_fields=FORMER_FIELDS)
@attrs.frozen
class Indicator(Choice):
    """One of K values, its probabilities ``exp(score_k)`` over their sum.

    The second of two values is the number 1, the first 0. With slope a and offsets o from held-out
    entries, and the shares of the values, the score of place k at a mean m is

        log share_k + a r (2 (k - c) (m - c) - e (k - c)^2) + (e / e_0) o_k,   r = T_0 / T,

    where T is the conditional variance of the number, as a share of its variance over all rows,
    e = 1 - T what is explained of it, and T_0, e_0 are their means over held-out entries; c is the
    mean of the places. A row of which nothing is known (e = 0) has the shares for probabilities.
    At T_0 this is, for a label, a logistic curve of the mean (Platt, Probabilistic outputs for
    support vector machines, 1999), and for levels the adjacent-categories logit model. That slopes
    grow as 1 / T, and differences of means as e, is so for indicators under one Gaussian. Offsets,
    which correct for what is not Gaussian, do not grow as T vanishes: a number that is known
    stands for its own value.

    Parameters
    ----------
    slope : float
        0, in files of earlier versions, comes with the same probabilities everywhere.
    offsets : tuple of K floats
        Empty: 0 of each value.
    shares : tuple of K floats
        Empty: nothing was held out, and scores are ``-a (k - m)^2 + o_k``.
    reference_variance : float
        T_0.
    most_explained : float
        The largest e / e_0 of a held-out entry. Beyond it nothing was seen, and e counts as this
        times e_0.
    smoothing : float
        The share of the shares in all probabilities: of n held-out entries 1 / (n + 2), which is
        the chance of an error after n answers without one (Laplace's rule of succession).
    """

    slope: float = PRIOR_SLOPE
    offsets: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    reference_variance: float = 0.5
    most_explained: float = np.inf
    smoothing: float = 0.0

    usual_slope: ClassVar[float] = PRIOR_SLOPE

    @property
    def reads_variances(self) -> bool:
        """True: the less a row says, the nearer are probabilities to the shares."""
        return True

    def explained_share(self, variances: Array | None) -> Array:
        """The explained share of entries, from 0 to 1 (n, or 1 if it is the reference)."""
        reference = 1.0 - self.reference_variance
        if variances is None:
            return np.array([reference])
        explained = 1.0 - np.clip(self.variance_of_place(variances), LEAST_UNEXPLAINED_SHARE, 1.0)
        return np.minimum(explained, self.most_explained * reference)

    def variance_of_place(self, variances: Array) -> Array:
        """One variance for each entry (n,), of those of its numbers (n x width)."""
        return variances[:, 0]

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries (n x width)."""
        if variances is None or not len(variances):
            return self
        explained = attrs.evolve(self, most_explained=np.inf).explained_share(variances)
        reference = max(float(np.mean(explained)), 1.0 - MOST_UNEXPLAINED_SHARE)
        most = max(float(np.max(explained)) / reference, 1.0)
        return attrs.evolve(self, reference_variance=1.0 - reference, most_explained=most)

    def scores(self, means: Array, variances: Array | None = None) -> tuple[Array, Array]:
        """The coefficients of the slope (n x K) and of the offsets (n or 1) in the logits."""
        places = np.arange(len(self.places))
        if not self.shares:
            return -np.square(places - means), np.ones(1)
        explained, centre = self.explained_share(variances), places @ np.array(self.shares)
        variance_ratio = self.reference_variance / (1.0 - explained)
        centred = places - centre
        scores = 2.0 * centred * (means - centre) - explained[:, None] * centred**2
        return variance_ratio[:, None] * scores, explained / (1.0 - self.reference_variance)

    def scores_of_fit(
        self, means: Array, variances: Array | None, codes: IntArray, weights: Array
    ) -> tuple[Array, Array]:
        """Coefficients of slope and offsets of entries with these codes (n,), for fitting both."""
        return self.scores(means, variances)

    @property
    def log_shares(self) -> Array:
        """The logarithms of the shares, 0 without any."""
        return np.log(self.shares) if self.shares else np.zeros(len(self.places))

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The probability of each value."""
        scores, offset_factors = self.scores(means, variances)
        offsets = offset_factors[:, None] * np.array(self.offsets or [0.0])
        p = softmax(self.log_shares + self.slope * scores + offsets, axis=1)
        if self.smoothing:
            p = (1.0 - self.smoothing) * p + self.smoothing * np.array(self.shares)
        return np.clip(p, *PROBABILITY_LIMITS)


@stored(formerly=("mcframe.tables.coding.Steps",), former_fields=FORMER_FIELDS)
@attrs.frozen
class Steps(Indicator, Levels):
    """Levels as the numbers 0, 1, ..."""

    def predicted(self, answer: Array) -> Array:
        """The median of the probabilities, which is the fewest levels off."""
        return np.argmax(np.cumsum(answer, axis=1) >= 0.5, axis=1).astype(np.float64)


@stored(formerly=("mcframe.tables.coding.Indicators",), former_fields=FORMER_FIELDS)
@attrs.frozen
class Indicators(Indicator):
    """One column for each class, 1 in its own.

    Scores are those of the discriminant of held-out entries, or the means without one.
    """

    discriminant: Discriminant | None = None

    usual_slope = 1.0

    @property
    def width(self) -> int:
        """The number of classes."""
        return len(self.places)

    def numbers(self, codes: Array) -> Array:
        """1 in the column of the class, 0 in others, NaN where it is missing."""
        indicators = (codes[:, None] == np.arange(self.width)).astype(np.float64)
        indicators[np.isnan(codes)] = np.nan
        return indicators

    def variance_of_place(self, variances: Array) -> Array:
        """The unexplained variance of all indicators together, as a share of their variances."""
        shares = np.array(self.shares or np.full(self.width, 1.0 / self.width))
        counts = shares * (1.0 - shares)
        unexplained: Array = variances @ counts / np.sum(counts)
        return unexplained

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries (n x width)."""
        coding = super().with_reference(variances)
        if self.discriminant is None:
            return coding
        reference = 1.0 - coding.reference_variance
        discriminant = attrs.evolve(self.discriminant, reference=reference)
        return attrs.evolve(coding, discriminant=discriminant)

    def scores(self, means: Array, variances: Array | None = None) -> tuple[Array, Array]:
        """The logarithm of the density of each class, or its mean."""
        if self.discriminant is None:
            return means, np.ones(1)
        explained = self.explained_share(variances)
        scores = self.discriminant.scores(means, explained)
        return scores, explained / self.discriminant.reference

    def scores_of_fit(
        self, means: Array, variances: Array | None, codes: IntArray, weights: Array
    ) -> tuple[Array, Array]:
        """Log densities, an entry having no part in its own centre, and factors of offsets."""
        scores, offset_factors = self.scores(means, variances)
        if self.discriminant is not None:
            explained = self.explained_share(variances)
            scores[np.arange(codes.size), codes] = self.discriminant.left_out_scores(
                means, explained, codes, weights
            )
        return scores, offset_factors

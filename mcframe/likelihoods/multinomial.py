"""The likelihood of categories."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import attrs
import numpy as np
from scipy.special import xlog1py, xlogy

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    GaussianBound,
    Likelihood,
    TwiceDifferentiable,
    ValueKind,
)
from mcframe.contracts.limits import FEW_CLASSES
from mcframe.contracts.rounding import LARGEST_MODERATE, SUM_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import takes, whole
from mcframe.contracts.wording import wording
from mcframe.numerics.gaussian_bounds import (
    expected_softplus,
    increasing_root,
    logistic_bound,
    tangent_bound,
)

# From so many complete rows on, columns with one 1 a row are taken for one variable.
LEAST_ONE_HOT_ROWS = 5


@stored
@attrs.frozen
class Multinomial(Likelihood, Conjugate, TwiceDifferentiable, Distribution, GaussianBound):
    """``l(z, y) = log(sum_k exp(z_k)) - z_y``: the softmax loss over K classes.

    Domain: codes y in {0, ..., K-1}, one column of data for each categorical variable. Each
    has K latent columns, side by side: z has shape (..., K) where y has shape (...). The mean
    is ``P(y = k | z) = exp(z_k) / sum_j exp(z_j)``, one column a class; ``most_probable`` is
    the code with the largest of them, which fills a missing entry. This is the complete negative
    log-likelihood. Adding one number to all z_k of an entry does not change it; the regularizer
    determines that number.

    Parameters
    ----------
    classes : int
        K, two or more. It may include classes that are never observed.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> word = mc.Multinomial(3)
    >>> word.value(np.array([[0.0, 0.0, 0.0], [1e4, 0.0, 0.0]]), np.array([2.0, 1.0]))
    array([1.09861229e+00, 1.00000000e+04])
    >>> word.most_probable(np.array([[0.1, 2.0, -1.0]]))
    array([1.])
    """

    classes: int = attrs.field(validator=takes(partial(whole, least=2)))

    kind = ValueKind.CLASS

    @property
    def values(self) -> Array:
        """The codes of the classes."""
        return np.arange(float(self.classes))

    @property
    def needs(self) -> str:  # type: ignore[override]  # a sentence with the number in it
        """The codes there are."""
        return f"class codes 0, 1, ..., {self.classes - 1}"

    z_name = "the log of the probabilities, up to a constant"
    remedy = (
        "Code the classes as 0, 1, 2, ... (as pandas.factorize does), say how many there are"
        " by classes=, and mark a missing one as NaN."
    )
    words = (
        "pandas.factorize(column)[0] codes the classes; put NaN where a code is -1: there the"
        " value is missing"
    )
    curvature = 0.5  # the largest eigenvalue that diag(p) - p p' can have (Boehning, 1992)
    infimum = 0.0  # not attained: z would have to be infinite

    def why_suspicious(self, shape: Shape, rows: IntArray, y: Array) -> str | None:
        """Why K columns are rather one variable, with a column of 0 and 1 for each class.

        None if they are not. Each column of data is a variable of its own, so that they would be
        read as K of them.
        """
        if shape[1] != self.classes or self.classes == 2 or np.any(y > 1.0):
            return None
        complete = np.bincount(rows, minlength=shape[0]) == shape[1]
        ones = np.bincount(rows, weights=y, minlength=shape[0])
        if (
            np.any(ones > 1.0)
            or np.any(ones[complete] != 1.0)
            or complete.sum() < LEAST_ONE_HOT_ROWS
        ):
            return None
        conversion = wording().either(python=", as by numpy.argmax(values, axis=1)", command="")
        return (
            f"every row of its {shape[1]} columns has one 1 and else 0: that reads as one variable"
            f" with a column for each class, not as {shape[1]} variables of {self.classes} classes"
            f" each. Give codes in one column{conversion}, with NaN where"
            " they are missing; for variables of which no class above 1 is ever observed take"
            f" {wording().word('Multinomial', classes=2)}"
        )

    @property
    def width(self) -> int:  # type: ignore[override]
        """K."""
        return self.classes

    def invalid(self, y: Array) -> Mask:
        """True where y is not one of the codes."""
        return ~((y >= 0.0) & (y < self.classes) & (y == np.floor(y)))

    def value(self, z: Array, y: Array) -> Array:
        """log(sum_k exp(z_k)) - z_y, never overflowing."""
        highest, _, others = softmax_parts(z)
        return highest - at_class(z, y) + np.log1p(others)

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradients p - e_y, the probabilities less the indicator of y."""
        highest, ratios, others = softmax_parts(z)
        value = highest - at_class(z, y) + np.log1p(others)
        gradient = ratios / (1.0 + others)[..., None]
        observed_class = places(np.broadcast_to(y, gradient.shape[:-1]), self.classes)
        # Minus the sum of the others, not p_y - 1: accurate where p_y is close to 1.
        gradient.ravel()[observed_class] = 0.0
        gradient.ravel()[observed_class] = -sum_of_classes(gradient).ravel()
        return value, gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """p (1 - p): the diagonal of the Hessian diag(p) - p p', with the shape of z."""
        _, ratios, others = softmax_parts(z)
        # The largest ratio is 1, and what its probability lacks to 1 is the sum of the others.
        rest = np.where(ratios == 1.0, others[..., None], 1.0 + others[..., None] - ratios)
        return ratios * rest / np.square(1.0 + others)[..., None]

    def hessian_product(self, z: Array, y: Array, direction: Array) -> Array:
        """p * (direction - the mean of direction under p): the whole Hessian."""
        return self.hessian_at(z, y)(direction)

    def hessian_at(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """``hessian_product`` at one z, its probabilities p computed once."""
        p = self.mean(z)

        def product(direction: Array) -> Array:
            image: Array = p * direction
            image -= p * sum_of_classes(image)[..., None]
            return image

        return product

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """sum_k p_k log p_k for probabilities p = gradient + e_y, else inf."""
        p, label_gradient = gradient.copy(), at_class(gradient, y)[..., None]
        np.put_along_axis(p, codes(y), label_gradient + 1.0, axis=-1)
        inside = np.all(p >= -SUM_ROUNDING, axis=-1) & (
            np.abs(gradient.sum(axis=-1)) <= SUM_ROUNDING
        )
        p, short = np.clip(p, 0.0, 1.0), np.clip(label_gradient, -1.0, 0.0)
        terms = xlogy(p, p)
        # log p_y keeps its digits where p_y is almost 1.
        np.put_along_axis(terms, codes(y), xlog1py(1.0 + short, short), axis=-1)
        return np.where(inside, terms.sum(axis=-1), np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """p - e_y for the probabilities p nearest to gradient + e_y.

        The projection onto the simplex takes one number off every entry and drops what falls
        below 0 (Held, Wolfe and Crowder, Math. Programming 1974).
        """
        p, labels = gradient.copy(), codes(y)
        np.put_along_axis(p, labels, at_class(p, y)[..., None] + 1.0, axis=-1)
        falling = -np.sort(-p, axis=-1)
        offsets = (np.cumsum(falling, axis=-1) - 1.0) / np.arange(1, self.classes + 1)
        # The number of entries that stay positive: those above their own offset.
        last = np.count_nonzero(falling > offsets, axis=-1)[..., None] - 1
        kept = p > np.take_along_axis(offsets, last, axis=-1)
        # The offset from the gradients, and p_y - 1 from the others: where p_y is almost 1 the sum
        # of the gradients is else 0 up to 1e-16 alone, which a large z makes a false bound of.
        lacking = np.where(np.take_along_axis(kept, labels, axis=-1), 0.0, 1.0)
        surplus = np.sum(np.where(kept, gradient, 0.0), axis=-1, keepdims=True) - lacking
        near = np.where(kept, np.maximum(gradient - surplus / (last + 1), 0.0), 0.0)
        np.put_along_axis(near, labels, 0.0, axis=-1)
        np.put_along_axis(near, labels, -sum_of_classes(near)[..., None], axis=-1)
        return near

    def mean(self, z: Array) -> Array:
        """P(y = k | z), one column a class."""
        ratios = np.exp(z - highest_class(z)[..., None])
        ratios /= sum_of_classes(ratios)[..., None]
        return ratios

    def most_probable(self, z: Array) -> Array:
        """The code of the most probable class; of the first one where several are."""
        return np.argmax(z, axis=-1).astype(np.float64)

    def filling(self, z: Array) -> Array:
        """The code of the most probable class."""
        return self.most_probable(z)

    def start(self, y: Array) -> Array:
        """e_y - 1/K: like the answer it sums to 0, as any other offset only costs norm."""
        return (codes(y) == np.arange(self.classes)).astype(np.float64) - 1.0 / self.classes

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A code for each row of z: the largest of z_k plus Gumbel noise."""
        return self.most_probable(z + rng.gumbel(size=np.shape(z)))

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y)."""
        return -self.value(z, y)

    def cdf(self, z: Array, y: Array) -> Array:
        """The sum of the probabilities of the codes up to y."""
        upto = np.arange(self.classes) <= y[..., None]
        return np.where(y >= self.classes - 1.0, 1.0, np.sum(self.mean(z) * upto, axis=-1))

    def quantile(self, z: Array, probability: Array) -> Array:
        """The least code at which the sum of the probabilities reaches the one given."""
        sums = np.cumsum(self.mean(z), axis=-1)[..., :-1]
        return np.sum(sums < probability[..., None], axis=-1).astype(np.float64)

    def response_variance(self, z: Array) -> Array:
        """p (1 - p), of the indicator of each class."""
        return self.second_derivative(z, np.zeros(z.shape[:-1]))

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The better of two bounds: a tangent parabola, or each class against a common number.

        The parabola that touches at the mean has the precision 1/2 that no eigenvalue of the
        Hessian exceeds (Boehning, 1992), and is the better one for small variances. For large ones
        ``log sum_k exp(z_k) <= alpha + sum_k log(1 + exp(z_k - alpha))`` makes K labels of one
        class, each with the bound of Jaakkola and Jordan; the best alpha is solved for (Bouchard,
        NIPS Workshop on Approximate Bayesian Inference 2007). Of each observation the one with the
        larger expectation is given.
        """
        mean = np.clip(mean, -LARGEST_MODERATE, LARGEST_MODERATE)
        bound = tangent_bound(*self.value_and_gradient(mean, y), mean, self.curvature)
        # By convex duality, with p for the probabilities at the mean, no alpha loses less.
        p = self.mean(mean)
        least = -sum_of_classes(xlog1py(1.0 - p, -p))
        far = np.flatnonzero(0.5 * self.curvature * sum_of_classes(variance) > least)
        if far.size:
            mean, variance, is_label = (
                mean[far],
                variance[far],
                codes(y[far]) == np.arange(self.classes),
            )
            other = against_common(mean, variance, is_label.astype(np.float64))
            tangent = (bound[0][far], bound[1][far], bound[2][far])
            better = expected_parabola(other, mean, variance) > expected_parabola(
                tangent, mean, variance
            )
            for part, instead in zip(bound, other, strict=True):
                part[far[better]] = instead[better]
        return bound

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """log_sum_exp(z, axis=1) - z_y, for z of shape (N, K)."""
        indicator = (codes(y) == np.arange(self.classes)).astype(np.float64)
        return cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(indicator, z), axis=1)

    def formula(self, z: str, y: str) -> str:
        """log Σ_k exp(z[k]) − z[y]."""
        return f"(log Σ_k exp(({z})[k]) − ({z})[{y}])"


def expected_parabola(bound: tuple[Array, Array, Array], mean: Array, variance: Array) -> Array:
    """The expectation of a parabola of value, precision and constant for z ~ N(mean, variance)."""
    value, precision, constant = bound
    away = np.square(np.sqrt(precision) * (mean - value))
    return constant - 0.5 * sum_of_classes(away + precision * variance)


def against_common(mean: Array, variance: Array, is_label: Array) -> tuple[Array, Array, Array]:
    """(value, precision, constant) of Bouchard's bound; ``is_label`` is 1 at the class of y."""
    alpha = best_shift(mean, np.sqrt(variance))[:, None]
    value, precision, parts = logistic_bound(mean - alpha, variance, is_label, 1.0 - is_label)
    return value + alpha, precision, sum_of_classes(parts)


def best_shift(mean: Array, sd: Array) -> Array:
    """The alpha at which Bouchard's bound with those of Jaakkola and Jordan is the best.

    What it costs, alpha + sum_k of ``expected_softplus`` at mean_k - alpha, is convex in alpha.
    """
    n_classes = mean.shape[1]

    def derivative(alpha: Array, rows: IntArray) -> tuple[Array, Array]:
        _, first, second = expected_softplus(mean[rows] - alpha[:, None], sd[rows])
        return 1.0 - sum_of_classes(first), sum_of_classes(second)

    low, high = mean.min(axis=1), mean.max(axis=1)
    return increasing_root(
        derivative, low, high + n_classes * sd.max(axis=1) + np.log(2 * n_classes)
    )


def softmax_parts(z: Array) -> tuple[Array, Array, Array]:
    """max z, exp(z - max z), and the sum of the latter without one entry that is 1."""
    z = np.ascontiguousarray(z)
    highest = highest_class(z)
    ratios = np.exp(z - highest[..., None])
    # Left out rather than subtracted: a sum of tiny ratios keeps its digits.
    rest = ratios.copy()
    rest.ravel()[places(np.argmax(z, axis=-1), z.shape[-1])] = 0.0
    return highest, ratios, sum_of_classes(rest)


def highest_class(z: Array) -> Array:
    """The maximum over the last axis."""
    if z.shape[-1] > FEW_CLASSES:
        return np.asarray(np.max(z, axis=-1))
    return np.asarray(reduce(np.maximum, by_class(z)))


def sum_of_classes(numbers: Array) -> Array:
    """The sum over the last axis."""
    if numbers.shape[-1] > FEW_CLASSES:
        return np.asarray(numbers.sum(axis=-1))
    return np.asarray(reduce(np.add, by_class(numbers)))


def by_class(numbers: Array) -> list[Array]:
    """The numbers of each class along the last axis."""
    return [numbers[..., k] for k in range(numbers.shape[-1])]


def places(y: Array | IntArray, n_classes: int) -> IntArray:
    """The places of the classes y in an array with the classes along its last axis, raveled."""
    return np.arange(y.size) * n_classes + y.ravel().astype(np.intp)


def codes(y: Array) -> IntArray:
    """The classes as indices along a new last axis."""
    return y.astype(np.intp)[..., None]


def at_class(z: Array, y: Array) -> Array:
    """z_y."""
    y = np.broadcast_to(y, z.shape[:-1])
    return np.asarray(z).ravel()[places(y, z.shape[-1])].reshape(y.shape)

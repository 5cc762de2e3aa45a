"""Binary labels of which many are missing: a loss for the unlabeled entries, too."""

from typing import Any

import attrs
import numpy as np
from attrs.validators import optional

from mcframe.contracts.arrays import (
    Array,
    IntArray,
    Mask,
    Shape,
    labels_of,
    propensities_of,
)
from mcframe.contracts.errors import BackendError, DataError, ModelError
from mcframe.contracts.likelihood import (
    WORDS_AS_LABELS,
    BoundBySums,
    Conjugate,
    Likelihood,
    LinearDifference,
    TwiceDifferentiable,
    ValueKind,
    recession_of,
)
from mcframe.contracts.rounding import EPS, RESULT_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    as_given,
    at_least_0,
    instead_of_class,
    satisfies,
    switch,
    takes,
    within,
)
from mcframe.contracts.wording import wording


def takes_labels(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a smooth likelihood whose losses at the labels 0 and 1 compare."""
    abilities = (Likelihood, LinearDifference, Conjugate, TwiceDifferentiable)
    fits = all(isinstance(value, ability) for ability in abilities)
    if isinstance(value, Likelihood) and fits:
        fits = value.smooth and value.width == 1 and not value.invalid(np.array([0.0, 1.0])).any()
    remedy = instead_of_class(value, Likelihood)
    if isinstance(value, type) and remedy:
        raise ModelError(f"RiskMixture: likelihood is the class {value.__name__}; {remedy}")
    if not fits:
        raise ModelError(
            f"RiskMixture: likelihood={as_given(value)} was given; a loss for labels 0 and 1 is"
            f" needed, such as {wording().word('Bernoulli')} or {wording().word('Gaussian')}"
        )


def why_not_convex(pu: float, missing_rate: float | None, likelihood: Likelihood) -> str:
    """The sentence that refuses PU and NU of a loss whose d is no line."""
    label, coefficient, other = ("positive", "pu", 0) if pu > 0.0 else ("negative", "nu", 1)
    reason = (
        f"RiskMixture: with {as_given(likelihood)} the mixture is not convex: l(z, 1) - l(z, 0) is"
        f" not a line in z, and a {label} entry carries l(z, {other}) with the negative"
        f" coefficient -{coefficient} * missing_rate / (1 - missing_rate)"
    )
    if missing_rate == 0.0:
        reason = (
            "RiskMixture: missing_rate=0 says that no entry is unlabeled, where PU and NU are"
            f" PN; with {as_given(likelihood)} only pn=1 is taken as convex"
        )
    return (
        f"{reason}; take likelihood={wording().word('Bernoulli', link='logit')} or pn=1, or write"
        f" {wording().argument('nonconvex', True)} to minimise it without a certificate"
    )


IS_RATE = satisfies(
    lambda rate: 0.0 <= rate < 1.0, "0 <= missing_rate < 1 is needed; leave it out to estimate it"
)


def state_of(y: Array) -> IntArray:
    """0 and 1 for these labels, 2 for unlabeled."""
    labels = labels_of(y)
    return np.where(np.isnan(labels), 2.0, labels).astype(np.intp)


@attrs.frozen(eq=False)
class TiltedLoss:
    """``w l(z, b) + t d(z)`` with ``d(z) = l(z, 1) - l(z, 0)``, entry by entry.

    Parameters
    ----------
    likelihood : a ``LinearDifference`` that is ``Conjugate`` and ``TwiceDifferentiable``
        l.
    base, weight, tilt : arrays of one shape
        b in {0, 1}, w >= 0 and t of each entry; t = 0 wherever w = 0.
    """

    likelihood: Any
    base: Array
    weight: Array
    tilt: Array

    def value_and_gradient(self, z: Array) -> tuple[Array, Array]:
        """The loss and its gradient."""
        value, gradient = self.likelihood.value_and_gradient(z, self.base)
        difference, rise = self.difference(z)
        return (
            self.weight * value + self.tilt * difference,
            self.weight * gradient + self.tilt * rise,
        )

    def difference(self, z: Array) -> tuple[Array, Array]:
        """d(z) and its gradient."""
        line = self.likelihood.label_difference
        if line is not None:
            return line[0] * z + line[1], np.full_like(z, line[0])
        one, zero = (
            self.likelihood.value_and_gradient(z, np.full_like(z, label)) for label in (1.0, 0.0)
        )
        return one[0] - zero[0], one[1] - zero[1]

    def second_derivative(self, z: Array) -> Array:
        """w l''(z, b), and t d''(z) where d is no line."""
        second: Array = self.weight * self.likelihood.second_derivative(z, self.base)
        if self.likelihood.label_difference is not None:
            return second
        one, zero = (
            self.likelihood.second_derivative(z, np.full_like(z, label)) for label in (1.0, 0.0)
        )
        return second + self.tilt * (one - zero)

    @property
    def curvature(self) -> float:
        """The supremum of the second derivative, for a line d."""
        return float(np.max(self.weight)) * float(self.likelihood.curvature)

    @property
    def quadratic(self) -> tuple[float, float, float] | None:
        """(c, m, e) where all entries cost c/2 (z - m)^2 + e, else None."""
        if not self.likelihood.quadratic or self.base.size != 1 or self.curvature <= 0.0:
            return None
        value, gradient = self.value_and_gradient(np.zeros(1))
        centre = -float(gradient[0]) / self.curvature
        return self.curvature, centre, float(value[0]) - 0.5 * self.curvature * centre**2

    @property
    def tilt_gradient(self) -> Array:
        """The gradient of t d(z) for a line d, or for t = 0."""
        line = self.likelihood.label_difference
        return self.tilt * (line[0] if line is not None else 0.0)

    @property
    def tilt_constant(self) -> Array:
        """t d(0), likewise."""
        line = self.likelihood.label_difference
        return self.tilt * (line[1] if line is not None else 0.0)

    def untilt(self, gradient: Array) -> Array:
        """The gradient that l(., b) must have for the whole to have this one; 0 where w = 0."""
        counts = self.weight > 0.0
        return np.where(counts, gradient - self.tilt_gradient, 0.0) / np.where(
            counts, self.weight, 1.0
        )

    def conjugate(self, gradient: Array) -> Array:
        """w l*((gradient - t d') / w, b) - t d(0), for a line d."""
        inner = self.untilt(gradient)
        near = self.likelihood.nearest_gradient(inner, self.base)
        # Taking t d' off rounds: a gradient on the boundary of the domain must stay on it.
        rounding = 8.0 * EPS * (np.abs(gradient) + np.abs(self.tilt_gradient))
        inner = np.where(self.weight * np.abs(inner - near) <= rounding, near, inner)
        conjugate = self.weight * self.likelihood.conjugate(inner, self.base)
        conjugate = conjugate - self.tilt_constant
        return np.where((self.weight > 0.0) | (gradient == 0.0), conjugate, np.inf)

    def nearest_gradient(self, gradient: Array) -> Array:
        """The nearest gradients with a finite conjugate, for a line d."""
        inner = self.untilt(gradient)
        near = self.likelihood.nearest_gradient(inner, self.base)
        # What lies inside stays as it is, to the last digit.
        inside = (near == inner) & (self.weight > 0.0)
        return np.where(inside, gradient, self.weight * near + self.tilt_gradient)

    def recession(self, moves: Array) -> Array:
        """The limit of the loss at z + s moves, over s, for a line d."""
        return recession_of(moves, self.nearest_gradient)

    def statement(self, cp: Any, z: Any) -> tuple[Any, list[Any]]:
        """w l(z, b) + t d' z + t d(0), for a line d: convex by the rules, as w >= 0."""
        loss, constraints = self.likelihood.statement(cp, z, self.base)
        line = cp.multiply(self.tilt_gradient, z) + self.tilt_constant
        return cp.multiply(self.weight, loss) + line, constraints


@stored
@attrs.frozen(kw_only=True)
class RiskMixture(Likelihood, BoundBySums, Conjugate, TwiceDifferentiable):
    """``pn PN + pu PU + nu NU``: three risks of labels 1, 0 and unlabeled (missing) entries.

    With the loss l(z, y) of ``likelihood``, d(z) = l(z, 1) - l(z, 0), and
    k = missing_rate / (1 - missing_rate), an entry costs

    =========  ========================  ========================  ========================
    label      PN                        PU                        NU
    =========  ========================  ========================  ========================
    1          l(z, 1)                   l(z, 1) + k d(z)          l(z, 1)
    0          l(z, 0)                   l(z, 0)                   l(z, 0) - k d(z)
    unlabeled  0                         l(z, 0)                   l(z, 1)
    =========  ========================  ========================  ========================

    If labels are missing completely at random at that rate, then PU and NU, summed over the
    whole block, have the expectation of the loss of the complete labels, and PN has
    1 - missing_rate times it (Hayashi, Sakai, Sugiyama, Binary matrix completion using
    unobserved entries, Eqs. 77, 83-88 and 101-103, where labels are +1 and -1 and unlabeled is 0).

    It takes the place of a likelihood in a block, but is not a distribution. It is convex if d is
    linear in z: for the logistic loss, d = -z / scale, and for the squared loss, d = (1 - 2 z) /
    (2 variance). With other losses, such as the probit loss, PU and NU are not convex, and raise
    an error unless ``nonconvex=True``.

    With ``propensities=True`` the rate differs from entry to entry: a label is recorded with the
    probability ``theta_ij (1 - missing_rate)``, theta from the data, and k is that of each entry,
    ``1 / (theta_ij (1 - missing_rate)) - 1``. The PU risk is then ``l(z, 0) + d(z) / theta_ij``
    for a positive label at missing_rate = 0, the unbiased estimator of Saito et al. (Unbiased
    recommender learning from missing-not-at-random implicit feedback, WSDM 2020, Eq. 7). It is as
    convex as without. Unlabeled entries need no propensity, and cost the same for all.

    A loss may be negative and unbounded below, as the logistic loss of a positive entry under PU.
    So bound Z by a norm ball or a box, as the paper does (Hsieh et al., 2015, keep it in [0, 1]
    with the squared loss), or use a sufficiently strong penalty.

    Nearly every cell has an unlabeled entry. Up to 2e7 cells these are stored. For a larger
    table under a ``NuclearNorm`` alone only the labels are stored. With the squared loss Gram
    matrices of the factors are used, at no cost for each cell. With the logistic loss the cells
    are computed in blocks of rows: each pass takes cells x rank operations, and a logarithm and
    an exponential for each cell.

    Parameters
    ----------
    pn, pu, nu : float, default 0
        The weights of the three risks: at least 0, with sum 1.
    missing_rate : float or None, default None
        In [0, 1): the probability that a label is missing, the same for labels 1 and 0. None
        estimates it as the share of unlabeled entries. This needs labels of both kinds: if only
        positives (or only negatives) are ever labeled, the data do not determine the rate.
        ``cross_validate`` raises it in each fold, where held-out labels count as unlabeled. With
        propensities None is 0.
    propensities : bool, default False
        Take the propensities of ``Observations``, one for each label. It needs a share of PU or
        NU, and a loss with which the mixture is convex.
    likelihood : Likelihood
        l, a smooth loss for labels 0 and 1: ``Bernoulli`` or ``Gaussian``.
    nonconvex : bool, default False
        Allow a mixture that is not convex; its fit has no certificate.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
    >>> risk.value(np.ones(3), np.array([1.0, 0.0, np.nan])).round(4)
    array([-0.6867,  1.3133,  1.3133])
    """

    pn: float = attrs.field(default=0.0, validator=at_least_0)
    pu: float = attrs.field(default=0.0, validator=at_least_0)
    nu: float = attrs.field(default=0.0, validator=at_least_0)
    missing_rate: float | None = attrs.field(default=None, validator=optional(IS_RATE))
    likelihood: Any = attrs.field(validator=takes_labels)
    nonconvex: bool = attrs.field(default=False, validator=takes(switch))
    propensities: bool = attrs.field(default=False, validator=takes(switch))

    kind = ValueKind.LABEL
    needs = "labels 0 or 1, or NaN for unlabeled"
    words = WORDS_AS_LABELS
    remedy = "Recode positive labels as 1 and negative ones as 0, and leave NaN what has no label."

    def __attrs_post_init__(self) -> None:
        total = self.pn + self.pu + self.nu
        if abs(total - 1.0) > RESULT_ROUNDING:
            raise ModelError(
                f"RiskMixture: pn={self.pn!r}, pu={self.pu!r} and nu={self.nu!r} sum to {total!r};"
                " their sum must be 1"
            )
        if not self.convex and not self.nonconvex:
            raise ModelError(why_not_convex(self.pu, self.missing_rate, self.likelihood))
        if self.propensities and not (self.reads_unlabeled and self.convex):
            why = (
                f"with {as_given(self.likelihood)} a small one bends the loss without limit"
                if self.reads_unlabeled
                else "PN has no use for them"
            )
            raise ModelError(
                f"RiskMixture: {wording().argument('propensities', True)} was given, but {why};"
                f" take {wording().word('RiskMixture', pu=1.0, propensities=True)} with"
                f" {wording().word('Bernoulli')} or {wording().word('Gaussian')} as likelihood"
            )

    @classmethod
    def punu(
        cls, gamma: float, missing_rate: float | None = None, **options: Any
    ) -> "RiskMixture":
        """(1 - gamma) PU + gamma NU, 0 <= gamma <= 1 (Eq. 89); with options of the class."""
        gamma = within(gamma, "RiskMixture.punu: gamma", 0.0, 1.0)
        return cls(pu=1.0 - gamma, nu=gamma, missing_rate=missing_rate, **options)

    @classmethod
    def pnu(cls, eta: float, missing_rate: float | None = None, **options: Any) -> "RiskMixture":
        """(1 - eta) PN + eta PU for 0 <= eta <= 1, (1 + eta) PN - eta NU for -1 <= eta < 0.

        Eqs. 90-92; with options of the class.
        """
        eta = within(eta, "RiskMixture.pnu: eta", -1.0, 1.0)
        pn, pu, nu = 1.0 - abs(eta), max(eta, 0.0), max(-eta, 0.0)
        return cls(pn=pn, pu=pu, nu=nu, missing_rate=missing_rate, **options)

    @property
    def z_name(self) -> str:  # type: ignore[override]
        """The name of the likelihood's z; a probability outside of its limits if z is the mean."""
        return self.likelihood.z_name or "a probability that may lie outside of 0 and 1"

    @property
    def reads_unlabeled(self) -> bool:  # type: ignore[override]
        """True if PU or NU has a weight: PN alone has no loss where there is no label."""
        return self.pu + self.nu > 0.0

    @property
    def takes_propensities(self) -> bool:  # type: ignore[override]
        """True if labels have propensities."""
        return self.propensities

    @property
    def bounded_below(self) -> bool:
        """True if each entry has a least loss, which is lower for smaller propensities."""
        return bool(np.isfinite(self.infimum)) or (self.propensities and self.quadratic)

    @property
    def of_label(self) -> Likelihood:
        """The likelihood: a held-out label is judged by its loss, however labels are missing."""
        return self.likelihood

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """True if d is linear in z, or has no weight."""
        return self.likelihood.label_difference is not None or not self.reads_unlabeled

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        """True if l is quadratic, and d linear."""
        return bool(self.likelihood.quadratic and self.convex)

    @property
    def unlabeled(self) -> TiltedLoss | None:
        """The loss of an unlabeled entry, where PU or NU takes part and the mixture is convex.

        A label's curvature is that of l, of which the shares of PU and NU are no more than 1.
        """
        if not (self.convex and self.reads_unlabeled):
            return None
        base, weight, tilt = (np.array([number]) for number in self.unlabeled_state)
        return TiltedLoss(self.likelihood, base, weight, tilt)

    @property
    def odds(self) -> float:
        """k = missing_rate / (1 - missing_rate); 0 for PN, which has no use for it."""
        if not self.reads_unlabeled:
            return 0.0
        if self.missing_rate is None and self.propensities:
            return 0.0
        if self.missing_rate is None:
            raise ModelError(
                f"RiskMixture: {wording().argument('missing_rate', None)} has not been estimated"
                " yet; give a number, or bind the mixture to data with bound_to"
            )
        return self.missing_rate / (1.0 - self.missing_rate)

    def bound_to(self, shape: Shape, values: Array) -> Likelihood:
        """The mixture with ``missing_rate`` = the share of unlabeled entries, where it is None.

        The share estimates the rate if labels are missing completely at random, positive and
        negative ones alike. PN alone is nothing but the likelihood of the labels: it is what
        is returned.
        """
        if not self.reads_unlabeled:
            return self.likelihood.bound_to(shape, values)
        return self.bound_by_sums(shape, self.sums_to_bind(values))

    def keeping_labels(self, share: float) -> "RiskMixture":
        """The mixture where this share of the labels is kept: 1 - missing_rate falls by it."""
        if self.missing_rate is None and not self.propensities:
            return self
        recorded = (1.0 - (self.missing_rate or 0.0)) * share
        return attrs.evolve(self, missing_rate=max(1.0 - recorded, 0.0))

    def sums_to_bind(self, values: Array) -> Array:
        """The labels 1, and the labels 0."""
        return np.array([np.sum(values == 1.0), np.sum(values == 0.0)], dtype=np.float64)

    def bound_by_sums(self, shape: Shape, sums: Array) -> Likelihood:
        """``bound_to`` from the numbers of labels of both kinds."""
        if not self.reads_unlabeled:
            return self.likelihood
        if self.missing_rate is not None or self.propensities:
            return self
        n_positive, n_negative = map(int, sums)
        if min(n_positive, n_negative) == 0:
            raise DataError(
                f"RiskMixture: {wording().argument('missing_rate', None)} cannot be estimated from"
                f" {n_positive} labels 1 and {n_negative} labels 0: if one kind of label is never"
                " recorded, the share of unlabeled entries is not the rate at which labels are"
                " missing; give missing_rate"
            )
        rate = 1.0 - (n_positive + n_negative) / (shape[0] * shape[1])
        return attrs.evolve(self, missing_rate=rate)

    def states(self) -> tuple[Array, Array, Array]:
        """Base b, weight w and tilt t of the labels 0 and 1 and of unlabeled entries.

        Each costs w l(z, b) + t d(z): one form for all three risks, in which nothing cancels
        where an entry costs l(z, 1) or l(z, 0) alone.
        """
        labeled, (base, unlabeled, tilt) = self.pn + self.pu + self.nu, self.unlabeled_state
        return (
            np.array([0.0, 1.0, base]),
            np.array([labeled, labeled, unlabeled]),
            np.array([-self.nu * self.odds, self.pu * self.odds, tilt]),
        )

    @property
    def unlabeled_state(self) -> tuple[float, float, float]:
        """Base, weight and tilt of unlabeled entries, which do without the missing rate."""
        base, tilt = (1.0, -self.pu) if self.nu > self.pu else (0.0, self.nu)
        return base, self.pu + self.nu, tilt

    def entries(self, y: Array) -> TiltedLoss:
        """The losses of entries with these labels."""
        state = state_of(y)
        base, weight, tilt = (numbers[state] for numbers in self.states())
        if self.propensities:
            theta = np.where(state < 2, propensities_of(y), 1.0)
            shares = np.array([-self.nu, self.pu, 0.0])[state]
            tilt = np.where(state < 2, shares * ((self.odds + 1.0 - theta) / theta), tilt)
        return TiltedLoss(self.likelihood, base, weight, tilt)

    @property
    def curvature(self) -> float:
        """The curvature of l where d is a line; else a bound, with positive coefficients."""
        if self.likelihood.label_difference is not None or not self.reads_unlabeled:
            return (self.pn + self.pu + self.nu) * self.likelihood.curvature
        base, weight, tilt = self.states()
        coefficients = np.abs(base * weight + tilt) + np.abs((1.0 - base) * weight - tilt)
        return float(np.max(coefficients)) * self.likelihood.curvature

    @property
    def infimum(self) -> float:
        """The least loss of the three states; -inf where a tilt outweighs l at infinity.

        Or where a propensity may be as small as it likes.
        """
        if self.propensities:
            return -np.inf
        labels = np.array([0.0, 1.0, np.nan])
        return 0.0 - float(np.max(self.conjugate(np.zeros(3), labels)))

    def invalid(self, y: Array) -> Mask:
        """True where y is neither 0 nor 1 nor NaN, or its propensity no probability above 0."""
        label, theta = labels_of(y), propensities_of(y)
        wrong = (label != 0.0) & (label != 1.0) & ~np.isnan(label)
        return np.asarray(wrong | ~(np.isnan(label) | ((theta > 0.0) & (theta <= 1.0))))

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient."""
        return self.entries(y).value_and_gradient(z)

    def second_derivative(self, z: Array, y: Array) -> Array:
        """The second derivative of l, weighted, and where d is no line that of d."""
        return self.entries(y).second_derivative(z)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """The conjugate of l, shifted by the gradient of the tilt; inf if not convex.

        Where a coefficient is negative that inf is exact, as the loss falls below every line;
        elsewhere it is an upper bound.
        """
        if not self.convex:
            return np.full(np.shape(gradient), np.inf)
        return self.entries(y).conjugate(gradient)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """Gradients clipped into the domain, which for PU and NU need not hold 0."""
        return self.entries(y).nearest_gradient(gradient) if self.convex else gradient

    def mean(self, z: Array) -> Array:
        """The probability of the label 1: the mean response of the likelihood, within 0 and 1."""
        return np.clip(self.likelihood.mean(z), 0.0, 1.0)

    def filling(self, z: Array) -> Array:
        """The more probable label: 1 where its probability is above 1/2."""
        return (self.likelihood.mean(z) > 0.5).astype(np.float64)

    def start(self, y: Array) -> Array:
        """The likelihood's start for a label; halfway between both where there is none."""
        negative, positive = self.likelihood.start(np.array([0.0, 1.0]))
        starts = np.array([negative, positive, 0.5 * (negative + positive)])
        return starts[state_of(y)]

    def statement(self, cp: Any, z: Any, y: Array, **_: Any) -> tuple[Any, list[Any]]:
        """The loss, with d written as the line that it is."""
        if self.likelihood.label_difference is None:
            raise BackendError(
                f"RiskMixture: with {as_given(self.likelihood)} there is no exact program, as"
                " l(z, 1) - l(z, 0) is not a line in z; take"
                f" {wording().word('Bernoulli', link='logit')}, or in place of pn=1 the likelihood"
                " itself"
            )
        return self.entries(y).statement(cp, z)

    def formula(self, z: str, y: str) -> str:
        """Shares, rate and loss: ``(0.5 PN + 0.5 PU at ρ = 0.8)[log(1 + exp(−s z))]``."""
        rate = "estimated ρ" if self.missing_rate is None else f"ρ = {self.missing_rate:g}"
        if self.propensities:
            rate = "θ_ij" if not self.missing_rate else f"θ_ij and {rate}"
        shares = " + ".join(
            f"{share:g} {name}".removeprefix("1 ") for name, share in self.shares()
        )
        at = f" at {rate}" if self.reads_unlabeled else ""
        return f"({shares}{at})[{self.likelihood.formula(z, y)}]"

    def shares(self) -> list[tuple[str, float]]:
        """The risks that take part, with their weights."""
        named = (("PN", self.pn), ("PU", self.pu), ("NU", self.nu))
        return [(name, share) for name, share in named if share > 0.0]

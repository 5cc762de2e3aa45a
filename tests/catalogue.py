"""Every word of the vocabulary, right and wrong: one line each.

A public word that is missing here fails ``test_the_catalogue_holds_every_word``.
"""

import attrs
import numpy as np
from scipy import stats
from scipy.integrate import quad
from scipy.special import huber as huber_loss
from scipy.special import log_softmax

import mcframe as mc
from mcframe.contracts import Likelihood, Term
from mcframe.contracts.arrays import between, ends_of


@attrs.frozen
class Entry:
    """A likelihood, observations inside and outside its domain, and the size of its predictors.

    A pair is what is known of an observation between two limits, or a label and its propensity.
    ``drawn`` marks those of which random models are made: each word at least once, with parameters
    that a table of a dozen rows can bear.
    """

    word: Likelihood
    valid: tuple[float | tuple[float, float], ...]
    invalid: tuple[float | tuple[float, float], ...]
    scale: float = 1.0
    drawn: bool = False

    @property
    def values(self):
        """The observations inside that are known exactly."""
        return np.array([y for y in self.valid if not isinstance(y, tuple)])


# PN, PU, NU, two of PUNU and PNU, and TRI.
SHARES = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0.3, 0.7), (0.4, 0.6, 0), (0.3, 0.3, 0.4)]


def risk(
    pn: float, pu: float, nu: float, rate: float, loss: Likelihood, scale: float = 1.0
) -> Entry:
    """A mixture of risks; NaN is an observation here: it stands for unlabeled."""
    word = mc.RiskMixture(pn=pn, pu=pu, nu=nu, missing_rate=rate, likelihood=loss)
    return Entry(word, (0.0, 1.0, np.nan), (-1.0, 0.5, np.inf), scale)


# Values, limits below and above, wide and narrow intervals, and no interval.
INF = np.inf
KNOWN = (-2.0, 0.0, 0.5, (-INF, 0.5), (0.3, INF), (-1.0, 2.0), (0.4, 0.40001))
NOT_KNOWN = (INF, (2.0, 1.0), (np.nan, 1.0), (-INF, INF))
COUNTED = (0.0, 3.0, (4.0, INF), (-INF, 0.0), (-INF, 6.0), (2.0, 5.0), (10.0, 1000.0))
NOT_COUNTED = (0.5, (0.2, 0.8), (0.0, INF), (-3.0, -1.0), (-INF, INF))
TIMED = (1e-3, 1.0, 7.5, (0.5, INF), (-INF, 2.0), (0.0, 1.0), (1.0, 3.0), (2.0, 2.0001))
NOT_TIMED = (0.0, (-INF, 0.0), (2.0, 1.0), (0.0, INF))

# Labels, with propensities and without, and what is none.
EXPOSURES = (0.0, 1.0, np.nan, (1.0, 0.3), (0.0, 1e-3), (1.0, 1e-5), (1.0, 1.0))
NO_EXPOSURES = (0.5, INF, (1.0, 0.0), (1.0, 1.5), (0.0, -0.1), (1.0, np.nan), (2.0, 0.5))

LIKELIHOODS = [
    Entry(mc.Gaussian(), (-2.0, 0.0, 0.5, 40.0), (np.inf, -np.inf), drawn=True),
    Entry(mc.Gaussian(variance=0.25), (-2.0, 0.0, 0.5), (np.inf,), drawn=True),
    Entry(mc.Gaussian(variance=0.01), (-2.0, 0.0, 0.5), (np.inf,)),
    Entry(mc.Huber(), (-2.0, 0.0, 0.5, 40.0), (np.inf,)),
    Entry(mc.Huber(0.5), (-2.0, 0.0, 0.5), (np.inf,), drawn=True),
    Entry(mc.Huber(delta=0.1), (-2.0, 0.0, 0.5), (np.inf, -np.inf)),
    Entry(mc.Poisson(), (0.0, 1.0, 7.0, 1e6), (-1.0, 0.5, np.inf), drawn=True),
    Entry(mc.Bernoulli(), (0.0, 1.0), (-1.0, 0.5, 2.0), drawn=True),
    Entry(mc.Bernoulli(scale=0.5), (0.0, 1.0), (-1.0, 0.5), scale=0.5, drawn=True),
    Entry(mc.Bernoulli(scale=1 / 7), (0.0, 1.0), (-1.0, 0.5), scale=1 / 7),
    Entry(mc.Bernoulli("logit", scale=30.0), (0.0, 1.0), (3.0,), scale=30.0),
    Entry(mc.Bernoulli("probit"), (0.0, 1.0), (-1.0, 0.5, 2.0)),
    Entry(mc.Bernoulli("probit", scale=1 / 7), (0.0, 1.0), (0.5,), scale=1 / 7),
    Entry(mc.Bernoulli("probit", scale=30.0), (0.0, 1.0), (3.0,), scale=30.0),
    Entry(mc.NegativeBinomial(0.5), (0.0, 1.0, 7.0, 1e6), (-1.0, 0.5, np.inf), drawn=True),
    Entry(mc.NegativeBinomial(1e-6), (0.0, 1.0, 7.0, 1e6), (0.5,)),
    Entry(mc.NegativeBinomial(20.0), (0.0, 1.0, 7.0), (-3.0,)),
    Entry(mc.Exponential(), (1e-3, 1.0, 7.5, 1e6), (0.0, -1.0, np.inf), drawn=True),
    Entry(mc.Gamma(), (1e-3, 1.0, 7.5), (0.0, -1.0, np.inf)),
    Entry(mc.Gamma(shape=2.0), (1e-3, 1.0, 7.5), (0.0,), drawn=True),
    Entry(mc.Gamma(shape=0.3), (1e-3, 1.0, 7.5), (0.0,)),
    Entry(mc.Gamma(shape=50.0), (1e-3, 1.0, 7.5, 1e6), (-np.inf,)),
    Entry(mc.Logistic(), (-2.0, 0.0, 0.5, 40.0), (np.inf, -np.inf)),
    Entry(mc.Logistic(0.3), (-2.0, 0.0, 0.5), (np.inf,), scale=0.3, drawn=True),
    Entry(mc.Logistic(scale=40.0), (-2.0, 0.0, 50.0), (np.inf,), scale=40.0),
    Entry(mc.Censored(mc.Logistic(0.5)), KNOWN, NOT_KNOWN, drawn=True),
    Entry(mc.Censored(mc.Logistic(5.0)), KNOWN[1:], NOT_KNOWN, scale=5.0),
    Entry(mc.Censored(mc.Gaussian()), KNOWN, NOT_KNOWN),
    Entry(mc.Censored(mc.Gaussian(0.01)), KNOWN, NOT_KNOWN),
    Entry(mc.Censored(mc.Gaussian(30.0)), KNOWN[1:], NOT_KNOWN, scale=5.0),
    Entry(mc.Censored(mc.Poisson()), COUNTED, NOT_COUNTED),
    Entry(mc.Censored(mc.Exponential()), TIMED, NOT_TIMED),
    Entry(mc.Censored(mc.Gamma(2.0)), TIMED, NOT_TIMED),
    Entry(mc.Censored(mc.Gamma(0.3)), TIMED, NOT_TIMED),
    Entry(mc.Censored(mc.Gamma(50.0)), TIMED, NOT_TIMED),
    Entry(mc.Censored(likelihood=mc.Gaussian()), (-2.0, 0.0, 0.5), (np.inf,)),
    Entry(mc.Quantile(0.3), (-2.0, 0.0, 0.5), (np.inf,), drawn=True),
    Entry(mc.Quantile(0.5), (-2.0, 0.0, 0.5, 40.0), (np.inf, -np.inf), drawn=True),
    Entry(mc.Quantile(0.95), (-2.0, 0.0, 0.5), (np.inf,)),
    Entry(mc.Hinge(), (0.0, 1.0), (-1.0, 0.5, 2.0), drawn=True),
    Entry(mc.Equality(), (-2.0, 0.0, 0.5, 40.0), (np.inf, -np.inf), drawn=True),
    Entry(mc.Ordinal(), (1.0, 2.0, 3.0, 4.0, 5.0), (0.0, 6.0, 2.5, np.inf)),
    Entry(mc.Ordinal(levels=2, lowest=0), (0.0, 1.0), (-1.0, 2.0, 0.5)),
    Entry(mc.Ordinal(3), (1.0, 2.0, 3.0), (0.0, 4.0), drawn=True),
    Entry(mc.Ordinal(4, (-1.0, 0.0, 1.5)), (1.0, 2.0, 3.0, 4.0), (0.0, 5.0), drawn=True),
    Entry(mc.Ordinal(3, (-1.0, 2.5), lowest=-1), (-1.0, 0.0, 1.0), (-2.0, 2.0, 0.5)),
    Entry(mc.Ordinal(4, (-1e-6, 1e-6, 30.0)), (1.0, 2.0, 3.0, 4.0), (0.0, 5.0)),
    Entry(mc.Ordinal(2, (0.5,)), (1.0, 2.0), (0.0, 3.0)),
    Entry(mc.Multinomial(2), (0.0, 1.0), (-1.0, 2.0, 0.5, np.inf)),
    Entry(mc.Multinomial(3), (0.0, 1.0, 2.0), (3.0, 0.5), drawn=True),
    Entry(mc.Multinomial(5), (0.0, 1.0, 2.0, 4.0), (5.0, 1.5)),
    *(
        risk(*shares, *loss)
        for shares in SHARES
        for loss in [
            (0.3, mc.Bernoulli()),
            (0.85, mc.Bernoulli(scale=1 / 7), 1 / 7),
            (0.5, mc.Gaussian()),
            (0.95, mc.Gaussian(variance=0.25)),
        ]
    ),
    Entry(
        mc.RiskMixture.punu(
            0.3, 0.5, likelihood=mc.Bernoulli("probit", scale=0.2), nonconvex=True
        ),
        (0.0, 1.0, np.nan),
        (-1.0, 0.5, np.inf),
        scale=0.2,
    ),
    *(
        Entry(word, (0.0, 1.0, np.nan), (-1.0, 0.5, np.inf), drawn=True)
        for word in (
            mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli()),
            mc.RiskMixture(pn=0.3, pu=0.3, nu=0.4, missing_rate=0.6, likelihood=mc.Bernoulli()),
            mc.RiskMixture.punu(0.3, 0.5, likelihood=mc.Bernoulli()),
            mc.RiskMixture.pnu(-0.4, 0.7, likelihood=mc.Gaussian()),
            mc.RiskMixture(pu=1.0, missing_rate=0.4, likelihood=mc.Gaussian()),
        )
    ),
    *(
        Entry(word, EXPOSURES, NO_EXPOSURES, drawn=True)
        for word in (
            mc.RiskMixture(pu=1.0, propensities=True, likelihood=mc.Bernoulli()),
            mc.RiskMixture.pnu(0.3, 0.5, propensities=True, likelihood=mc.Gaussian()),
            mc.RiskMixture.punu(0.6, 0.2, propensities=True, likelihood=mc.Bernoulli()),
        )
    ),
]

# Every distribution beside its logarithm by scipy, at predictors z and observations y.
RNG = np.random.default_rng(3)
Z = np.concatenate([np.linspace(-8.0, 8.0, 33), RNG.normal(0.0, 2.0, 40)])
LABELS = RNG.integers(0, 2, Z.size).astype(float)
COUNTS = RNG.choice([0.0, 1.0, 2.0, 7.0, 300.0, 1e6], Z.size)
TIMES = RNG.choice([1e-8, 0.2, 1.0, 30.0, 1e6], Z.size)
CLASSES = RNG.integers(0, 3, Z.size).astype(float)
CLASS_Z = RNG.normal(0.0, 3.0, (Z.size, 3))
STARS = mc.Ordinal(3, (-1.0, 0.5), lowest=0)
CUTS = np.array([-np.inf, -1.0, 0.5, np.inf])
LOGIT, PROBIT = stats.logistic.cdf, stats.norm.cdf


def nbinom(dispersion):
    """scipy counts failures, with probability of a success 1 / (1 + dispersion * mean)."""
    return lambda y, z: stats.nbinom.logpmf(
        y, 1.0 / dispersion, 1.0 / (1.0 + dispersion * np.exp(z))
    )


def huber(delta):
    """scipy has the loss and no distribution: its constant by quadrature."""
    integral = 2.0 * sum(
        quad(lambda r: np.exp(-huber_loss(delta, r)), *ends)[0]
        for ends in ((0.0, delta), (delta, np.inf))
    )
    return lambda y, z: -huber_loss(delta, y - z) - np.log(integral)


def laplace(q):
    """scipy's falls with rate kappa / scale above its location, 1 / (kappa scale) below it."""
    kappa = np.sqrt(q / (1.0 - q))
    return lambda y, z: stats.laplace_asymmetric.logpdf(y, kappa, z, kappa / q)


# What is known of observations around the predictors, and the logs of density or probability.
LIMITED = between(
    np.where(np.arange(Z.size) % 4 == 1, -INF, Z[::-1]),
    np.select([np.arange(Z.size) % 4 == k for k in (0, 2)], [Z[::-1], INF], Z[::-1] + 1.5),
)


LIMITED_TIMES = between(
    np.where(np.isinf(LIMITED["lower"]), 0.0, np.exp(LIMITED["lower"] / 4.0)),
    np.exp(LIMITED["upper"] / 4.0),
)


def mean_of_gamma(z):
    """The gamma distribution of shape 3 and this logarithm of the mean."""
    return stats.gamma(3.0, scale=np.exp(z) / 3.0)


def censored(distribution):
    """The density where both limits are equal, else the probability between them."""

    def logs(y, z):
        of_values, (lower, upper) = distribution(z), ends_of(y)
        masses = of_values.cdf(upper) - of_values.cdf(lower)
        mirrored = of_values.sf(lower) - of_values.sf(upper)
        masses = np.where(of_values.cdf(lower) > 0.5, mirrored, masses)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(lower == upper, of_values.logpdf(upper), np.log(masses))

    return logs


DISTRIBUTIONS = [
    (mc.Logistic(), Z, 3.0 * Z[::-1], lambda y, z: stats.logistic.logpdf(y, z)),
    (mc.Logistic(0.4), Z, Z + 0.3, lambda y, z: stats.logistic.logpdf(y, z, 0.4)),
    (mc.Censored(mc.Gaussian(2.0)), Z, LIMITED, censored(lambda z: stats.norm(z, 2.0**0.5))),
    (mc.Censored(mc.Gamma(3.0)), Z / 4.0, LIMITED_TIMES, censored(mean_of_gamma)),
    (mc.Censored(mc.Logistic(0.7)), Z, LIMITED, censored(lambda z: stats.logistic(z, 0.7))),
    (mc.Gaussian(), Z, 3.0 * Z[::-1], lambda y, z: stats.norm.logpdf(y, z)),
    (mc.Gaussian(0.04), Z, Z + 0.3, lambda y, z: stats.norm.logpdf(y, z, 0.2)),
    (mc.Huber(0.7), Z, 3.0 * Z[::-1], huber(0.7)),
    (mc.Huber(20.0), Z, 3.0 * Z[::-1], huber(20.0)),
    (mc.Quantile(0.5), Z, 3.0 * Z[::-1], lambda y, z: stats.laplace.logpdf(y, z, 2.0)),
    (mc.Quantile(0.2), Z, 3.0 * Z[::-1], laplace(0.2)),
    (mc.Bernoulli(), Z, LABELS, lambda y, z: stats.bernoulli.logpmf(y, LOGIT(z))),
    (mc.Bernoulli(scale=3.0), Z, LABELS, lambda y, z: stats.bernoulli.logpmf(y, LOGIT(z / 3))),
    (mc.Bernoulli("probit"), Z, LABELS, lambda y, z: stats.norm.logcdf((2 * y - 1) * z)),
    (
        mc.Bernoulli("probit", scale=2.5),
        Z,
        LABELS,
        lambda y, z: stats.bernoulli.logpmf(y, PROBIT(z / 2.5)),
    ),
    (mc.Poisson(), Z, COUNTS, lambda y, z: stats.poisson.logpmf(y, np.exp(z))),
    (mc.NegativeBinomial(0.5), Z, COUNTS, nbinom(0.5)),
    (mc.NegativeBinomial(7.0), Z, COUNTS, nbinom(7.0)),
    (mc.NegativeBinomial(1e-3), Z, COUNTS, nbinom(1e-3)),
    (mc.Exponential(), Z, TIMES, lambda y, z: stats.expon.logpdf(y, scale=np.exp(z))),
    (mc.Gamma(), Z, TIMES, lambda y, z: stats.expon.logpdf(y, scale=np.exp(z))),
    (mc.Gamma(0.3), Z, TIMES, lambda y, z: stats.gamma.logpdf(y, 0.3, scale=np.exp(z) / 0.3)),
    (mc.Gamma(80.0), Z, TIMES, lambda y, z: stats.gamma.logpdf(y, 80.0, scale=np.exp(z) / 80)),
    (
        STARS,
        Z,
        CLASSES,
        lambda y, z: np.log(LOGIT(CUTS[y.astype(int) + 1] - z) - LOGIT(CUTS[y.astype(int)] - z)),
    ),
    (
        mc.Multinomial(3),
        CLASS_Z,
        CLASSES,
        lambda y, z: log_softmax(z, axis=1)[np.arange(y.size), y.astype(int)],
    ),
]

# Terms that fit a latent matrix, or a block, of every shape.
TERMS: list[Term] = [
    mc.NuclearNorm(0.5),
    mc.NuclearNorm(3.0),
    mc.NuclearNorm(0.7, count_share=0.9),
    mc.NuclearBall(1.0),
    mc.NuclearBall(6.0),
    mc.NuclearBall(2.0, count_share=0.5),
    mc.MaxNorm(0.5),
    mc.MaxNorm(20.0),
    mc.MaxNormBall(0.7),
    mc.MaxNormBall(3.0),
    mc.Ridge(0.5),
    mc.Ridge(20.0),
    mc.ResidualNuclearNorm("features", 0.7),
    mc.Box(-1, 1),
    mc.Box(-np.inf, 0.5, "features"),
    mc.Box(0.1, np.inf),
    mc.OnesColumn(),
]

# Terms that fit one shape, and that shape. Among the equations are redundant ones, and in
# penalties some that contradict each other; some are not known: of a column, of all, of none.
MEANS, TWICE = np.full(5, 0.2), np.array([[1.0, 0.0, 2.0], [2.0, 0.0, 4.0], [0.0, 3.0, 0.0]])
IN_PART = TWICE @ np.ones((3, 6))
IN_PART[[0, 1, 2, 0, 2], [1, 2, 3, 3, 4]] = IN_PART[:, 5] = np.nan
AGAINST = np.where(np.eye(3, 4, 1) == 1.0, np.nan, np.eye(3, 4))
SHAPED_TERMS: list[tuple[Term, tuple[int, int]]] = [
    (mc.Calibration("features", MEANS, [0.5, 1.0, -2.0, 0.0], weight=0.7), (5, 4)),
    (mc.Calibration("features", TWICE, np.eye(3, 2), weight=3.0), (3, 2)),
    (mc.Calibration("features", MEANS, [0.5, 1.0, -2.0, 0.0]), (5, 4)),
    (mc.Calibration("features", TWICE, TWICE @ np.ones((3, 6))), (3, 6)),
    (mc.Calibration("features", MEANS, [0.5, np.nan, -2.0, np.nan]), (5, 4)),
    (mc.Calibration("features", MEANS, [0.5, np.nan, -2.0, 0.0], weight=0.7), (5, 4)),
    (mc.Calibration("features", TWICE, IN_PART), (3, 6)),
    (mc.Calibration("features", TWICE, IN_PART, weight=0.7), (3, 6)),
    (mc.Calibration("features", TWICE, AGAINST, weight=3.0), (3, 4)),
    (mc.RowRelation("features", [1.0, 1.0, -1.0], np.arange(4.0), weight=0.7), (4, 3)),
    (mc.RowRelation("features", TWICE, np.eye(2, 3), weight=3.0), (2, 3)),
    (mc.RowRelation("features", [1.0, 1.0, -1.0], np.arange(4.0)), (4, 3)),
    (mc.RowRelation("features", [1.0, 1.0, -1.0]), (4, 3)),
    (mc.RowRelation("features", TWICE, IN_PART.T), (6, 3)),
    (mc.RowRelation("features", TWICE, IN_PART.T, weight=0.7), (6, 3)),
    (mc.GaussianRows(np.eye(4)), (5, 4)),
    (mc.GaussianRows([[2.0, 0.6, 0.0], [0.6, 0.5, 0.1], [0.0, 0.1, 1.0]], MEANS[:3], 3.0), (4, 3)),
    (mc.GaussianRows([[0.3]], [1.5], weight=0.5), (3, 1)),
]

# What must be refused at construction, and what the message must name.
WRONG = [
    (lambda: mc.Gaussian(variance=0.0), "variance=0.0"),
    (lambda: mc.Gaussian(variance=-1), "variance=-1"),
    (lambda: mc.Gaussian(variance=float("nan")), "variance=nan"),
    (lambda: mc.Bernoulli(scale=0), "scale=0"),
    (lambda: mc.Bernoulli("cauchit"), "cauchit"),  # type: ignore[arg-type]
    (lambda: mc.Bernoulli("probit", scale=-1.0), "scale=-1.0"),
    (lambda: mc.Bernoulli(["probit"]), "link="),  # type: ignore[arg-type]
    (lambda: mc.NegativeBinomial(0.0), "dispersion=0.0"),
    (lambda: mc.NegativeBinomial(dispersion="1"), "dispersion='1'"),  # type: ignore[arg-type]
    (lambda: mc.Gamma(shape=-2), "shape=-2"),
    (lambda: mc.Gamma(np.inf), "shape=inf"),
    (lambda: mc.RiskMixture(pn=0.5, pu=0.4, likelihood=mc.Bernoulli()), "sum to 0.9"),
    (lambda: mc.RiskMixture(pn=1.1, pu=-0.1, likelihood=mc.Bernoulli()), "pu=-0.1"),
    (lambda: mc.RiskMixture(nu=True, likelihood=mc.Bernoulli()), "nu=True"),
    (lambda: mc.RiskMixture(pn=1.0, missing_rate=1, likelihood=mc.Bernoulli()), "missing_rate=1"),
    (lambda: mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli), "likelihood is the class"),
    (lambda: mc.RiskMixture(pn=1.0, likelihood=mc.Poisson()), r"likelihood=Poisson\(\)"),
    (lambda: mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli(), nonconvex=1), "nonconvex=1"),  # type: ignore[arg-type]
    (lambda: mc.RiskMixture(pu=1.0, likelihood=mc.Bernoulli("probit")), "nonconvex=True"),
    (lambda: mc.RiskMixture.punu(1.5, likelihood=mc.Bernoulli()), "gamma=1.5"),
    (lambda: mc.RiskMixture.pnu(-2, likelihood=mc.Bernoulli()), "eta=-2"),
    (lambda: mc.Logistic(0.0), "scale=0.0"),
    (lambda: mc.Logistic("wide"), "scale='wide'"),  # type: ignore[arg-type]
    (lambda: mc.Censored(mc.Huber()), r"likelihood=Huber\(delta=1.0\)"),
    (lambda: mc.Censored(mc.Gaussian), "likelihood is the class Gaussian"),
    (lambda: mc.Censored(mc.Gaussian(None)), "limits say nothing of a variance"),
    (lambda: mc.Censored(3), "likelihood=3"),
    (lambda: mc.Quantile(0.0), "q=0.0"),
    (lambda: mc.Quantile(1), "q=1"),
    (lambda: mc.Quantile("median"), "q='median'"),  # type: ignore[arg-type]
    (lambda: mc.Ordinal(levels=1), "levels=1"),
    (lambda: mc.Ordinal(levels=2.5), "levels=2.5"),  # type: ignore[arg-type]
    (lambda: mc.Ordinal(lowest=0.5), "lowest=0.5"),  # type: ignore[arg-type]
    (lambda: mc.Ordinal(3, (1.0, 1.0)), r"thresholds=\(1.0, 1.0\)"),
    (lambda: mc.Ordinal(4, (0.0, 1.0)), "3 increasing numbers"),
    (lambda: mc.Ordinal(2, (np.inf,)), "inf"),
    (lambda: mc.Ordinal(2, 0.5), "thresholds=0.5"),
    (lambda: mc.Multinomial(1), "classes=1"),
    (lambda: mc.Multinomial(2.5), "classes=2.5"),  # type: ignore[arg-type]
    (lambda: mc.NuclearNorm(-0.1), "weight=-0.1"),
    (lambda: mc.NuclearNorm("0.1"), "weight='0.1'"),  # type: ignore[arg-type]
    (lambda: mc.NuclearNorm(0.1, count_share=1.0), "count_share=1.0 .* below 1"),
    (lambda: mc.NuclearNorm(0.1, count_share=-0.1), "count_share=-0.1"),
    (lambda: mc.NuclearNorm(0.1, count_share="0.5"), "count_share='0.5'"),  # type: ignore[arg-type]
    (lambda: mc.NuclearBall(2.0, count_share=np.nan), "count_share=nan"),
    (lambda: mc.NuclearBall(0), "radius=0"),
    (lambda: mc.NuclearBall(np.inf), "radius=inf"),
    (lambda: mc.MaxNorm(-2.0), "weight=-2.0"),
    (lambda: mc.MaxNormBall(-2.0), "radius=-2.0"),
    (lambda: mc.MaxNormBall("2"), "radius='2'"),  # type: ignore[arg-type]
    (lambda: mc.ResidualNuclearNorm("x", 0.0), "weight=0.0"),
    (lambda: mc.ResidualNuclearNorm("", 1.0), "block=''"),
    (lambda: mc.Box(1.0, 1.0), "lower=1 and upper=1"),
    (lambda: mc.Box(np.nan, 1.0), "lower=nan"),
    (lambda: mc.Box(np.inf, np.inf), "lower=inf and upper=inf"),
    (lambda: mc.Box(-np.inf, np.inf), "at least one is needed"),
    (lambda: mc.Box("a", 1.0), "lower='a'"),  # type: ignore[arg-type]
    (lambda: mc.Box(0.0, 1.0, ""), "block=''"),
    (lambda: mc.Calibration("x", [1.0, 1.0], [[1.0], [2.0]]), "same number of rows"),
    (lambda: mc.Calibration("x", [1.0, np.nan], [1.0]), r"A\[0, 1\]=nan"),
    (lambda: mc.Calibration("x", "abc", [1.0]), "A of type str"),
    (lambda: mc.Calibration("x", [1.0], np.zeros((1, 0))), r"B of shape \(1, 0\)"),
    (lambda: mc.Calibration("x", [1.0, 2.0], [1.0], weight=0), "^Calibration: weight=0"),
    (lambda: mc.Calibration("x", [1.0], [np.inf]), r"B\[0, 0\]=inf"),
    (lambda: mc.Calibration("x", [1.0], [np.nan]), "B of shape .* is NaN throughout"),
    (lambda: mc.Calibration("x", [1.0], [[np.nan, np.nan]], weight=1.0), "NaN throughout"),
    (lambda: mc.Calibration("x", [1.0], ["2"]), "B of type list with '2'"),
    (lambda: mc.Calibration("x", [1j], [2.0]), "A of type list with 1j"),
    (lambda: mc.Calibration("x", np.ma.masked_less([0.0, 2.0], 1), 2.0), r"A\[0, 0\]=nan"),
    (lambda: mc.Calibration(None, [1.0, 2.0], [1.0]), "^Calibration: block=None"),  # type: ignore[arg-type]
    (
        lambda: mc.RowRelation("x", [1.0, 1.0], np.ones((4, 2))),
        "B needs m columns, one for each equation",
    ),
    (lambda: mc.RowRelation("x", [1.0, np.nan]), r"A\[0, 1\]=nan"),
    (lambda: mc.RowRelation("x", {}), "names no column"),
    (lambda: mc.RowRelation("x", {"a": 1.0, "b": [1.0, 2.0]}), "2 of 'b'"),
    (lambda: mc.RowRelation("x", {"a": "one"}), r"A\['a'\] of type str"),
    (lambda: mc.RowRelation("x", [1.0, 2.0], columns=["a"]), "one name for each"),
    (lambda: mc.RowRelation("x", [1.0, 2.0], columns=["a", "a"]), "has 'a' twice"),
    (lambda: mc.RowRelation("x", [0.0, 0.0], 1.0), "no P has P A' = B"),
    (lambda: mc.RowRelation("x", TWICE, [1.0, 3.0, 0.0]), "row 0, column 0"),
    (lambda: mc.RowRelation("x", [1.0], np.nan), "NaN throughout"),
    (lambda: mc.RowRelation("x", [1.0], 1.0, of="sums"), "of='sums'"),  # type: ignore[arg-type]
    (lambda: mc.RowRelation("x", [1.0], 1.0, weight=-1.0), "^RowRelation: weight=-1"),
    (lambda: mc.Calibration("x", TWICE, np.eye(3)), "row 0, column 0|row 1, column 1"),
    (lambda: mc.Calibration("x", TWICE, AGAINST), "row 0, column 0"),
    (lambda: mc.GaussianRows(np.eye(2), weight=0.0), "weight=0.0"),
    (lambda: mc.GaussianRows([[1.0, 0.5]]), r"covariance of shape \(1, 2\)"),
    (lambda: mc.GaussianRows([[1.0, np.nan], [np.nan, 1.0]]), r"covariance\[0, 1\]=nan"),
    (lambda: mc.GaussianRows([[1.0, 0.5], [0.4, 1.0]]), r"covariance\[0, 1\]=0.5"),
    (lambda: mc.GaussianRows(np.diag([1.0, 0.0])), r"covariance\[1, 1\]=0 was given"),
    (lambda: mc.GaussianRows([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue .* is -1. Add"),
    (lambda: mc.GaussianRows(np.ones((3, 3))), "not positive definite"),
    (lambda: mc.GaussianRows(np.eye(2), [1.0]), "2 numbers are needed"),
    (lambda: mc.GaussianRows(np.eye(2), [1.0, np.inf]), r"mean\[1\]=inf"),
    (lambda: mc.GaussianRows("abc"), "covariance of type str"),
    (lambda: mc.Ridge(0), "weight=0"),
    (lambda: mc.Ridge(np.inf), "weight=inf"),
]

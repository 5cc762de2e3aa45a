"""Values known between two limits: their losses, how they are read, and what is computed of them.

The oracle of fits is the likelihood itself, maximised by SciPy; that of posteriors is a Gibbs
sampler with truncated normals.
"""

import warnings

import attrs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import optimize, stats
from scipy.special import ndtr, ndtri

import mcframe as mc
from mcframe.contracts.arrays import between, ends_of, points_of
from mcframe.likelihoods.intervals import NormalIntervals
from mcframe.model.best_constants import ColumnEntries, best_constants_of_entries

INF, NAN = np.inf, np.nan
# z, limits, and minus the log probability, minus the mean and 1 less the variance of a standard
# normal variable about z between them: by mpmath with 200 digits.
EXACT = [
    (0.0, -1.0, 2.0, (0.2001662943244626, -0.22963717909132897, 0.4802374607884661)),
    (0.0, 0.25, 0.25 + 2.0**-20, (14.813132263613017, -0.2500004768371393, 0.9999999999999242)),
    (30.0, 0.0, 1.0, (424.7874199097303, 29.034401237736176, 0.9988193395113814)),
    (-30.0, 0.0, 2.0**-8, (456.5221400574949, -30.001914984293208, 0.9999987293076432)),
    (8.0, -INF, 0.0, (35.01343715991455, 8.121368112236112, 0.9856751165566591)),
    (-40.0, 0.5, INF, (824.745849244038, -40.52466134256537, 0.9993925557146894)),
    (12.0, 0.0, INF, (1.776482112077679e-33, -2.1463837356630605e-32, 2.5756604827956722e-31)),
    (3.0, -2.0, 7.5, (3.68433148375016e-06, 1.4497075004102643e-05, 7.936093511060866e-05)),
    (100.0, 99.0, 99.0 + 2.0**-10, (8.349922176802211, 0.9995116393159492, 0.9999999205271466)),
    (-6.0, -0.5, 0.25, (17.790242499329338, -5.66342073036834, 0.9779843496507193)),
]
# The same of positive values and counts, of the log of the mean: differences of the logarithms
# of incomplete gamma functions with 80 digits.
OF_GAMMA = [
    (mc.Gamma(0.5), 0.0, 1.0, 2.0, (1.8325108361635656, -0.21509090691755456, 0.694823755138537)),
    (
        mc.Gamma(0.5),
        -3.0,
        1.0,
        1.25,
        (11.889354238919987, -10.303251123700257, 10.418789596940542),
    ),
    (mc.Gamma(2.0), 4.0, -INF, 0.5, (8.705348280502704, 1.987808233608296, 0.01217308417116389)),
    (mc.Gamma(30.0), -1.0, 1.0, INF, (24.741199792057003, -53.07082917971978, 80.7936677999999)),
    (
        mc.Gamma(30.0),
        0.1,
        1.0,
        1.0000152587890625,
        (10.456580796841289, 2.854670357094929, 27.14532962860815),
    ),
    (mc.Poisson(), 0.0, 2.0, 5.0, (1.3331444465285383, -1.3837209302325582, 0.5774743104380746)),
    (mc.Poisson(), 5.0, 3.0, 8.0, (118.96275093469784, 140.46929549508442, 148.35473659226147)),
    (mc.Poisson(), -4.0, 2.0, INF, (8.705348280502704, -1.987808233608296, 0.01217308417116389)),
    (mc.Poisson(), 6.0, -INF, 100.0, (166.8843921998607, 303.7555152106766, 402.9990389745127)),
    (mc.Poisson(), 3.0, 19.5, 20.5, (2.421153383941153, 0.08553692318766774, 20.085536923187668)),
    (mc.Poisson(), 2.0, -INF, 0.0, (7.38905609893065, 7.38905609893065, 7.38905609893065)),
]
WORDS = [mc.Censored(mc.Gaussian(0.3)), mc.Censored(mc.Logistic(0.4))]
LIMITS = [(-INF, 0.5), (0.3, INF), (-1.0, 2.0), (0.4, 0.4 + 1e-6)]


@pytest.mark.parametrize(("z", "lower", "upper", "exact"), EXACT)
@pytest.mark.parametrize("sd", [1.0, 0.125])
def test_the_normal_probability_keeps_its_digits(z, lower, upper, exact, sd):
    loss, shift = NormalIntervals(sd), 3.0
    ends = [np.array([shift + sd * end]) for end in (z, lower, upper)]
    value, slope, bend = loss.derivatives(*ends)
    found = value[0], slope[0] * sd, bend[0] * sd**2
    np.testing.assert_allclose(found, exact, rtol=2e-12)
    mirrored = loss.derivatives(-ends[0], -ends[2], -ends[1])
    np.testing.assert_allclose([value, slope, bend], [mirrored[0], -mirrored[1], mirrored[2]])


@pytest.mark.parametrize(("word", "z", "lower", "upper", "exact"), OF_GAMMA)
def test_incomplete_gamma_functions_keep_their_digits(word, z, lower, upper, exact):
    found = word.of_interval.derivatives(*(np.array([number]) for number in (z, lower, upper)))
    np.testing.assert_allclose([part[0] for part in found], exact, rtol=1e-9)


def test_the_loss_of_counts_is_convex():
    """The variance of a truncated Poisson count is at most the rate, wherever it is cut."""
    z = np.linspace(-8.0, 8.0, 401)
    for least, most in (
        (0, 0),
        (0, 3),
        (2, 5),
        (5, 50),
        (10, 11),
        (100, 200),
        (3, INF),
        (400, INF),
    ):
        ends = (np.full(z.size, float(end)) for end in (least, most))
        value, slope, bend = mc.Poisson().of_interval.derivatives(z, *ends)
        assert np.all(bend >= 0.0)
        assert np.all(np.diff(slope) >= -1e-9 * np.abs(slope[1:]))
        assert np.all(np.isfinite(value))


@pytest.mark.parametrize("inner", [mc.Exponential(), mc.Gamma(3.0), mc.Poisson()], ids=repr)
def test_positive_values_and_counts_agree_with_the_reference(inner):
    rng = np.random.default_rng(0)
    mean = np.exp(rng.standard_normal((8, 1)) @ rng.standard_normal((1, 3)) * 0.5 + 1.0)
    y = inner.sample(np.log(mean), rng)
    upper, lower = np.where(y < 1.0, 1.0, NAN), np.where(y > 4.0, 4.0, NAN)
    lower[(y >= 2.0) & (y <= 3.0)], upper[(y >= 2.0) & (y <= 3.0)] = 2.0, 3.0
    values = np.where(np.isnan(lower) & np.isnan(upper), y, NAN)
    model = mc.Model([mc.Block("x", mc.Censored(inner))], [mc.NuclearNorm(0.7)])
    data = {"x": mc.Observations(values, lower=lower, upper=upper)}
    assert mc.verify(model, data).agrees
    with pytest.raises(mc.BackendError, match="no parabola below their log probability"):
        mc.posterior(model, data)


@pytest.mark.parametrize("word", WORDS, ids=repr)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.some(0.2)
def test_the_conjugate_lies_above_a_dense_grid_and_touches_it(word, limits):
    z = np.linspace(-30.0, 30.0, 600_001)
    y = between(*np.array([limits]).T)
    value = word.value(z, np.broadcast_to(y, z.shape))
    for at in (-9.0, -1.0, 0.37, 0.9, 4.0):
        _, [gradient] = word.value_and_gradient(np.array([at]), y)
        highest = np.max(gradient * z - value)
        found = word.conjugate(np.array([gradient]), y)[0]
        assert highest <= found + 1e-12
        assert found <= highest + word.curvature * 1e-8 + 1e-12


def test_the_conjugate_is_never_too_small():
    """It is a bound from above: the one of a certificate is one from below."""
    rng = np.random.default_rng(0)
    z = 3.0 * rng.standard_normal(4000)
    lower = rng.standard_normal(z.size)
    y = between(lower, lower + 10.0 ** rng.uniform(-6.0, 1.0, z.size))
    for word in WORDS:
        value, gradient = word.value_and_gradient(z, y)
        least = gradient * z - value
        rounding = 4e-16 * (1.0 + np.abs(gradient * z) + value)
        assert np.all(word.conjugate(gradient, y) >= least - rounding)


def test_a_steep_and_a_flat_end_of_the_conjugate():
    logistic = WORDS[1]
    y = between(np.array([-INF, 0.3, -1.0]), np.array([0.5, INF, 2.0]))
    steepest = np.array([2.5, -2.5, 2.5])
    wanted = [1.25, -0.75, 5.0 + np.log1p(-np.exp(-7.5)) * -1.0]
    found = logistic.conjugate(steepest, y)
    np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-12)
    np.testing.assert_allclose(found[2], 2.0 / 0.4 + np.log1p(-np.exp(-7.5)), rtol=1e-12)
    np.testing.assert_array_equal(logistic.conjugate(np.zeros(2), y[:2]), 0.0)
    assert np.all(np.isinf(logistic.conjugate(1.01 * steepest, y)))
    assert np.all(np.isinf(WORDS[0].conjugate(np.array([-0.1, 0.1]), y[:2])))


@attrs.frozen
class ShortConjugate(mc.Censored):
    """Its conjugate is too small by the square of the last Newton step that it leaves out."""

    def conjugate(self, gradient, y):
        return super().conjugate(gradient, y) - 1e-4


@attrs.frozen
class WrongSide(mc.Censored):
    """Takes a value below its upper limit for one above it."""

    def value_and_gradient(self, z, y):
        return super().value_and_gradient(z, self.turned(y))

    def second_derivative(self, z, y):
        return super().second_derivative(z, self.turned(y))

    def conjugate(self, gradient, y):
        return super().conjugate(gradient, self.turned(y))

    def turned(self, y):
        lower, upper = ends_of(y)
        below = np.isinf(lower)
        return between(np.where(below, upper, lower), np.where(below, INF, upper))

    def in_units(self, unit):
        return None


@pytest.mark.parametrize(
    ("word", "law"),
    [(ShortConjugate, "Fenchel and Young"), (WrongSide, "no steeper than its recession function")],
)
@pytest.mark.parametrize("inner", [mc.Gaussian(), mc.Logistic()], ids=repr)
def test_laws_catch_planted_faults(word, law, inner):
    valid = (-2.0, 0.5, (-INF, 0.5), (-1.0, 2.0))
    with pytest.raises(mc.LawViolation, match=f"breaks the law '{law}'"):
        mc.laws.check_likelihood(word(inner), valid, ((2.0, 1.0),))


def test_a_certificate_of_a_short_conjugate_is_denied():
    """The bound is too large by as much for each entry, above the optimum."""
    model, data, _ = example(mc.Logistic(0.5))
    honest = mc.fit(model, data, tol=1e-6)
    short = mc.Model([mc.Block("x", ShortConjugate(mc.Logistic(0.5)))], model.terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        assert mc.fit(short, data, tol=1e-6).bound > honest.objective


# ------------------------------------------------------------------------------------ data


def example(inner, shape=(12, 4), seed=0, bias=False):
    """A model of rank two, its data with values, limits on either side, intervals and gaps."""
    rng = np.random.default_rng(seed)
    n, d = shape
    z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)) + 1.0
    y = z + 0.4 * rng.standard_normal(shape)
    lower, upper = np.full((2, *shape), NAN)
    values = y.copy()
    kinds = rng.random(shape)
    upper[(kinds < 0.2) & (y < 0.5)] = 0.5
    lower[(kinds > 0.8) & (y > 1.0)] = 1.0
    within = (kinds > 0.4) & (kinds < 0.5)
    lower[within], upper[within] = np.floor(y[within]), np.floor(y[within]) + 1.0
    values[~np.isnan(lower) | ~np.isnan(upper) | ((kinds > 0.5) & (kinds < 0.6))] = NAN
    model = mc.Model([mc.Block("x", mc.Censored(inner), bias=bias)], [mc.NuclearNorm(1.0)])
    return model, {"x": mc.Observations(values, lower=lower, upper=upper)}, z


def in_form(given, form):
    """The same data in another form."""
    parts = [given.values, given.lower, given.upper]
    if form == "frame":
        parts = [pd.DataFrame(part, columns=list("abcd")) for part in parts]
    elif form == "sparse":
        parts = [
            sp.coo_array((part[~np.isnan(part)], np.nonzero(~np.isnan(part))), part.shape)
            for part in parts
        ]
    elif form == "triples":
        rows, columns = np.indices(given.values.shape)
        parts = [
            mc.from_triples(row=rows.ravel(), column=columns.ravel(), value=part.ravel())
            for part in parts
        ]
    elif form == "infinite":
        parts[1] = np.where(np.isnan(parts[1]), -INF, parts[1])
        parts[2] = np.where(np.isnan(parts[2]), INF, parts[2])
    elif form == "of known values, too":
        parts[1] = np.where(np.isnan(parts[0]), parts[1], parts[0] - 1.0)
    return mc.Observations(parts[0], lower=parts[1], upper=parts[2])


@pytest.mark.parametrize(
    "form", ["frame", "sparse", "triples", "infinite", "of known values, too"]
)
def test_forms_mean_the_same(form):
    model, data, _ = example(mc.Gaussian(0.16))
    plain = mc.fit(model, data)
    other = mc.fit(model, {"x": in_form(data["x"], form)})
    assert other.objective == plain.objective
    assert other.problem.n_observed == plain.problem.n_observed


def test_the_problem_says_of_how_many_entries_limits_are_known():
    model, data, _ = example(mc.Gaussian(0.16))
    given = data["x"]
    limited = np.count_nonzero(~np.isnan(given.lower) | ~np.isnan(given.upper))
    observed = limited + np.count_nonzero(~np.isnan(given.values))
    text = str(mc.explain(model, data))
    assert f"{observed} observed ({observed / 48:.0%}), {limited} of them between limits" in text


def test_limits_common_to_a_column_or_to_all():
    values = np.array([[1.0, NAN], [NAN, 2.0], [3.0, 0.5]])
    model = mc.Model([mc.Block("x", mc.Censored(mc.Gaussian()))], [mc.NuclearNorm(0.1)])
    common = mc.fit(model, {"x": mc.Observations(values, lower=[[0.5, 0.2]])})
    written = np.where(np.isnan(values), np.array([[0.5, 0.2]]), NAN)
    assert (
        common.objective == mc.fit(model, {"x": mc.Observations(values, lower=written)}).objective
    )
    assert common.problem.n_observed == 6


def test_equal_limits_are_a_value_and_plain_data_have_none():
    model, data, _ = example(mc.Gaussian(0.16))
    values = np.where(np.isnan(data["x"].values), 0.0, data["x"].values)
    exact = mc.fit(mc.Model([mc.Block("x", mc.Gaussian(0.16))], model.terms), {"x": values})
    for given in (values, mc.Observations(np.full(values.shape, NAN), lower=values, upper=values)):
        fit = mc.fit(model, {"x": given})
        assert fit.objective == pytest.approx(exact.objective, rel=1e-14)
        np.testing.assert_allclose(fit.predict("x"), exact.predict("x"), rtol=1e-9, atol=1e-12)


def test_answers_lie_within_limits():
    model, data, _ = example(mc.Gaussian(0.16), shape=(30, 6))
    given = data["x"]
    for answer in (mc.fit(model, data), mc.posterior(model, data, method="variational")):
        filled = answer.impute("x")
        assert not np.isnan(filled).any()
        assert not np.any(filled < given.lower)
        assert not np.any(filled > given.upper)
        known = ~np.isnan(given.values)
        np.testing.assert_array_equal(filled[known], given.values[known])


@pytest.mark.parametrize("inner", [mc.Gaussian(0.16), mc.Logistic(0.25)], ids=repr)
@pytest.mark.parametrize("standardize", [True, "robust"])
def test_limits_are_in_the_units_of_the_data(inner, standardize):
    """Another unit and origin of a column change nothing but the unit of the answers."""
    model, data, _ = example(inner, shape=(20, 4))
    block = attrs.evolve(model.blocks[0], standardize=standardize)
    model, given = attrs.evolve(model, blocks=[block]), data["x"]
    unit, origin = np.array([1e-3, 1.0, 7.0, 1e4]), np.array([0.0, -50.0, 3.0, 1e5])
    moved = mc.Observations(
        *(unit * given.values + origin,),
        lower=unit * given.lower + origin,
        upper=unit * given.upper + origin,
    )
    one, other = mc.fit(model, data, tol=1e-9), mc.fit(model, {"x": moved}, tol=1e-9)
    assert np.isclose(one.objective, other.objective, rtol=1e-8)
    np.testing.assert_allclose(
        (other.predict("x") - origin) / unit, one.predict("x"), rtol=1e-4, atol=1e-4
    )


def test_an_offset_moves_the_limits():
    model, data, _ = example(mc.Gaussian(0.16))
    offset, given = np.arange(12.0)[:, None], data["x"]
    moved = mc.Observations(
        given.values + offset,
        lower=given.lower + offset,
        upper=given.upper + offset,
        offset=offset,
    )
    one, other = mc.fit(model, data), mc.fit(model, {"x": moved})
    assert np.isclose(one.objective, other.objective, rtol=1e-12)
    np.testing.assert_allclose(other.predict("x") - offset, one.predict("x"), atol=1e-9)


def test_a_weight_counts_as_repetitions():
    """With ||Z||_F^2 weighted alike."""
    model, data, _ = example(mc.Logistic(0.25))
    doubled = attrs.evolve(model, terms=[mc.Ridge(0.5)])
    weighted = mc.fit(doubled, {"x": attrs.evolve(data["x"], weights=2.0)})
    plain = mc.fit(attrs.evolve(model, terms=[mc.Ridge(0.25)]), data)
    assert np.isclose(weighted.objective, 2.0 * plain.objective, rtol=1e-6)


@pytest.mark.parametrize("inner", [mc.Gaussian(0.16), mc.Logistic(0.25)], ids=repr)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.some(1)
def test_fits_agree_with_the_reference(inner, bias):
    model, data, _ = example(inner, shape=(6, 3), bias=bias)
    assert mc.verify(model, data).agrees


def test_new_rows_with_limits_are_rows_of_a_fit():
    """Given the directions of the columns, a new row is fitted as it was among the others."""
    model, data, _ = example(mc.Gaussian(0.16), shape=(30, 4), bias=True)
    given = data["x"]
    fit = mc.fit(model, data, tol=1e-10)
    few = mc.Observations(given.values[:5], lower=given.lower[:5], upper=given.upper[:5])
    np.testing.assert_allclose(fit.predict_rows("x", {"x": few}), fit.predict("x")[:5], atol=1e-4)


def test_fits_and_posteriors_are_saved_with_limits(tmp_path):
    model, data, _ = example(mc.Gaussian(0.16), bias=True)
    fit = mc.fit(attrs.evolve(model, terms=[mc.NuclearNorm(2.0)]), data)
    posterior = mc.posterior(model, data, method="variational")
    for answer in (fit, posterior):
        answer.save(tmp_path / "answer.mcframe")
        read = mc.load(tmp_path / "answer.mcframe")
        np.testing.assert_array_equal(read.impute("x"), answer.impute("x"))
        np.testing.assert_array_equal(
            read.problem.tables["x"].intervals, answer.problem.tables["x"].intervals
        )


@pytest.mark.parametrize(
    "criterion",
    [
        None,
        *(
            pytest.param(kind("x"), marks=pytest.mark.slow(seconds=2))
            for kind in (mc.selection.MeanAbsoluteError, mc.selection.RelativeError)
        ),
    ],
)
@pytest.mark.slow(seconds=2)
def test_folds_hold_limits_out(criterion):
    model, data, _ = example(mc.Gaussian(0.16), shape=(30, 6))
    options = {"cv": 3, "weights": [200.0, 1.0, 1e-3], "tol": 1e-4}
    scores = mc.cross_validate(model, data, criterion=criterion, **options).scores
    assert np.all(np.isfinite(scores))
    assert np.argmin(scores.mean(axis=-1)) == 1


def test_the_density_of_a_fit_is_a_probability_where_limits_are_known():
    model, data, _ = example(mc.Gaussian(0.16))
    fit, given = mc.fit(model, data), data["x"]
    z = fit.predict("x")
    lower = np.where(np.isnan(given.lower), -INF, given.lower)
    upper = np.where(np.isnan(given.upper), INF, given.upper)
    probability = ndtr((upper - z) / 0.4) - ndtr((lower - z) / 0.4)
    wanted = np.where(
        np.isnan(given.values), np.log(probability), stats.norm.logpdf(given.values, z, 0.4)
    )
    wanted[np.isnan(given.values) & np.isnan(given.lower) & np.isnan(given.upper)] = NAN
    np.testing.assert_allclose(fit.log_likelihood("x"), wanted, rtol=1e-6)


def test_a_bias_of_limits_on_one_side_alone_is_infinite():
    values = np.array([[1.0, NAN], [2.0, NAN], [0.5, NAN]])
    lower = np.where(np.isnan(values), [[0.0, 3.0]], NAN)
    block = mc.Block("x", mc.Censored(mc.Gaussian()), bias=True)
    data = {"x": mc.Observations(values, lower=lower)}
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(1.0)]), data)
    assert any("bias of column 1 has no finite optimum" in note for note in fit.notes)
    assert np.all(fit.predict("x")[:, 1] > 100.0)


def test_best_constants_of_limits():
    rng = np.random.default_rng(0)
    lower = rng.standard_normal(40)
    y = between(lower, lower + rng.random(40))
    word = mc.Censored(mc.Gaussian(0.5))
    entries = ColumnEntries(word, y, np.zeros(40, int), np.ones(40), 1, np.zeros(40))
    [constant] = best_constants_of_entries(entries)

    def loss(z):
        masses = ndtr((ends_of(y)[1] - z) / 0.5**0.5) - ndtr((ends_of(y)[0] - z) / 0.5**0.5)
        return -np.sum(np.log(masses))

    assert constant == pytest.approx(optimize.minimize_scalar(loss).x, abs=1e-6)


WRONG = [
    ({"lower": [[NAN], [2.0]], "upper": [[NAN], [1.0]]}, "lower limit 2 and upper limit 1 in"),
    ({"lower": 3.0}, "value 1 with lower limit 3 and upper limit inf in column 0, row 0"),
    ({"upper": [[NAN], [-INF]]}, "upper limit -inf in column 0, row 1; every one must be finite"),
    ({"lower": [[NAN], [INF]]}, "lower limit inf in column 0, row 1; every one must be finite"),
    ({"lower": [[NAN], [1e200]]}, "lower limit 1e[+]200 .* at most 1e[+]140 in size"),
    ({"upper": [1.0, 2.0, 3.0]}, r"upper limits of shape \(3,\) were given"),
    ({"upper": "high"}, "upper limits 'high' were given"),
]


@pytest.mark.parametrize(("limits", "message"), WRONG)
def test_wrong_limits_are_named(limits, message):
    model = mc.Model([mc.Block("x", mc.Censored(mc.Gaussian()))], [mc.NuclearNorm(0.1)])
    with pytest.raises(mc.DataError, match=f"^block 'x': {message}"):
        mc.fit(model, {"x": mc.Observations(np.array([[1.0], [NAN]]), **limits)})


def test_limits_need_a_likelihood_that_takes_them():
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    data = {"x": mc.Observations(np.array([[1.0], [NAN]]), lower=0.0)}
    with pytest.raises(
        mc.DataError, match=r"^block 'x': .* which Gaussian does not take; declare"
    ):
        mc.fit(model, data)


# --------------------------------------------------------------------------------- regression


def test_a_regression_on_censored_values_is_tobit():
    """One factor that is known, by a prior that is nearly flat: SciPy's maximum likelihood."""
    rng = np.random.default_rng(3)
    n = 200
    design = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    y = design @ np.array([0.3, 1.0, -0.7]) + rng.standard_normal(n)
    lower_limit, sd = 0.0, 1.0
    censored = y < lower_limit

    def loss(beta):
        mean = design @ beta
        return 0.5 * np.sum(np.square((y - mean)[~censored])) - np.sum(
            stats.norm.logcdf(lower_limit - mean[censored])
        )

    direct = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    values = np.where(censored, NAN, y)[None]
    # A row of Z is beta' design: Gaussian with the covariance design design' times a wide prior.
    prior = mc.GaussianRows(1e4 * (design @ design.T) + 1e-4 * np.eye(n))
    model = mc.Model([mc.Block("y", mc.Censored(mc.Gaussian(sd**2)))], [prior])
    data = {"y": mc.Observations(values, upper=np.where(censored, lower_limit, NAN)[None])}
    fit = mc.fit(model, data, tol=1e-9)
    beta = np.linalg.lstsq(design, fit.predict("y")[0], rcond=None)[0]
    np.testing.assert_allclose(beta, direct.x, atol=2e-4)


# --------------------------------------------------------------------------------- posterior

MEAN = np.array([0.5, -0.5, 0.0, 1.0])
NOISE = 0.3


def rows_with_limits(seed=1, n=25):
    """Gaussian rows, their covariance, and data of which about half are limits."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((4, 4))
    covariance = root @ root.T / 4.0 + 0.3 * np.eye(4)
    y = rng.multivariate_normal(MEAN, covariance, n)
    y += NOISE**0.5 * rng.standard_normal(y.shape)
    lower, upper, seen = *np.full((2, *y.shape), NAN), rng.random(y.shape) > 0.2
    upper[seen & (y < -0.5)] = -0.5
    lower[seen & (y > 1.0)] = 1.0
    within = seen & (np.abs(y) < 0.3)
    lower[within], upper[within] = -0.3, 0.3
    values = np.where(seen & np.isnan(lower) & np.isnan(upper), y, NAN)
    return covariance, mc.Observations(values, lower=lower, upper=upper)


def gibbs(covariance, given, draws, rng):
    """Draws of z: given z values between limits are truncated normals, given these z Gaussian."""
    lower = np.where(np.isnan(given.lower), -INF, given.lower)
    upper = np.where(np.isnan(given.upper), INF, given.upper)
    known = ~np.isnan(given.values)
    censored = ~known & (np.isfinite(lower) | np.isfinite(upper))
    weights, precision = (known | censored) / NOISE, np.linalg.inv(covariance)
    posterior = np.linalg.inv(precision + weights[:, :, None] * np.eye(4))
    roots, sd = np.linalg.cholesky(posterior), NOISE**0.5
    z, kept = np.tile(MEAN, (len(known), 1)), []
    for step in range(draws + 200):
        low, high = ndtr((lower - z) / sd), ndtr((upper - z) / sd)
        uniform = low + (high - low) * rng.random(z.shape)
        drawn = np.clip(z + sd * ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15)), lower, upper)
        y = np.where(known, given.values, np.where(censored, drawn, 0.0))
        means = np.einsum("nij,nj->ni", posterior, weights * y + precision @ MEAN)
        z = means + np.einsum("nij,nj->ni", roots, rng.standard_normal(z.shape))
        if step >= 200:
            kept.append(z)
    return np.array(kept)


@pytest.fixture(scope="module")
def exact_moments():
    covariance, given = rows_with_limits()
    z = gibbs(covariance, given, 4000, np.random.default_rng(0))
    return covariance, given, z.mean(axis=0), z.std(axis=0)


def moments_of(posterior):
    """Means and standard deviations of z."""
    return posterior.predict("x"), np.sqrt(np.square(posterior.sd("x")) - NOISE)


def test_the_sampler_is_gibbs_with_truncated_normals(exact_moments):
    covariance, given, mean, sd = exact_moments
    model = mc.Model(
        [mc.Block("x", mc.Censored(mc.Gaussian(NOISE)))], [mc.GaussianRows(covariance, MEAN)]
    )
    posterior = mc.posterior(model, {"x": given}, method="sampler", random_state=0)
    means, sds = moments_of(posterior)
    assert np.max(np.abs(means - mean) / sd) < 0.2
    assert np.sqrt(np.mean(np.square((means - mean) / sd))) < 0.06
    assert np.all((sds / sd > 0.88) & (sds / sd < 1.12))


def test_pseudo_observations_are_near_gibbs(exact_moments):
    """Means within a third of a deviation; deviations are too small where limits are known."""
    covariance, given, mean, sd = exact_moments
    model = mc.Model(
        [mc.Block("x", mc.Censored(mc.Gaussian(NOISE)))], [mc.GaussianRows(covariance, MEAN)]
    )
    means, sds = moments_of(mc.posterior(model, {"x": given}, method="variational"))
    assert np.max(np.abs(means - mean) / sd) < 0.33
    assert np.all((sds / sd > 0.65) & (sds / sd < 1.07))


def test_without_limits_it_is_the_gaussian_posterior():
    covariance, given = rows_with_limits()
    terms = [mc.GaussianRows(covariance, MEAN)]
    values = np.where(np.isnan(given.lower) & np.isnan(given.upper), given.values, 0.3)
    one, other = (
        mc.posterior(mc.Model([mc.Block("x", word)], terms), {"x": values})
        for word in (mc.Gaussian(NOISE), mc.Censored(mc.Gaussian(NOISE)))
    )
    for question in ("predict", "sd"):
        np.testing.assert_allclose(
            getattr(one, question)("x"), getattr(other, question)("x"), rtol=1e-6, atol=1e-6
        )


@pytest.mark.slow(seconds=6)
def test_factors_with_limits_agree_with_the_sampler():
    _, data, _ = example(mc.Gaussian(0.16), shape=(30, 6), seed=2)
    model = mc.Model([mc.Block("x", mc.Censored(mc.Gaussian(0.16)))], [mc.NuclearNorm(1.0)])
    for cells in mc.verify_posterior(model, data).comparisons:
        off = (cells.means - cells.exact_means) / cells.exact_sds
        assert np.sqrt(np.mean(np.square(off))) < 0.25
        assert np.mean(cells.coverages) > 0.75  # .84 where all values are known


def test_the_density_of_limits_is_a_probability():
    model, data, _ = example(mc.Gaussian(0.16), shape=(20, 4))
    posterior = mc.posterior(model, data, method="variational")
    y = between(np.array([0.0, -INF]), np.array([1.0, 0.2]))
    logs = posterior.log_predictive_density("x", [0, 1], [0, 1], y)
    at = [(0, 0), (1, 1)]
    wanted = []
    for (row, column), lower, upper in zip(at, *ends_of(y), strict=True):
        mean, sd = posterior.predict("x")[row, column], posterior.sd("x")[row, column]
        wanted.append(ndtr((upper - mean) / sd) - ndtr((lower - mean) / sd))
    np.testing.assert_allclose(np.exp(logs), wanted, rtol=1e-9)
    assert points_of(y).tolist() == [0.5, 0.2]


@pytest.mark.slow(seconds=3)
def test_conformal_intervals_are_scored_on_values_alone():
    model, data, _ = example(mc.Gaussian(0.16), shape=(40, 6))
    posterior = mc.posterior(model, data, method="variational")
    conformal = posterior.conformalize(folds=2)
    lower, upper = conformal.interval("x", level=0.8)
    assert np.all(lower < upper)

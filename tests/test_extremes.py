"""What somebody's data hold: huge counts, far predictors, columns all alike, one row, rank 0.

Every answer must be finite and right, and numpy must not warn: warnings are errors here.
"""

import warnings

import numpy as np
import pytest

import mcframe as mc

LIGHT = mc.NuclearNorm(0.1)


def fitted(likelihood, y, terms=(LIGHT,), tol=1e-6, **block):
    """A certified fit of one block, everything about it finite."""
    model = mc.Model([mc.Block("y", likelihood, **block)], list(terms))
    fit = mc.fit(model, {"y": y}, tol=tol)
    assert fit.status == "certified"
    assert np.isfinite([fit.objective, fit.bound]).all()
    for answer in (fit.predict("y"), fit.natural("y"), fit.impute("y")):
        assert np.isfinite(answer).all()
    return fit


def agrees(fit):
    """The reference reaches the same objective, or where effects are infinite a higher one."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        reference = mc.fit(fit.model, data_of(fit), backend="reference", tol=1e-5)
    assert fit.bound <= reference.objective + 1e-8 * abs(reference.objective)
    if reference.status != "certified":
        return
    size = max(abs(fit.objective), abs(reference.objective))
    nothing = max(fit.rounding.zero_below, reference.rounding.zero_below)
    assert abs(fit.objective - reference.objective) <= 1e-5 * size + nothing


def data_of(fit):
    table = fit.problem.tables["y"]
    y = np.full(table.shape, np.nan)
    y[table.rows, table.columns] = table.values
    return {"y": mc.Observations(y, offset=0.0 if table.offset is None else table.offset)}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("word", [mc.Poisson(), mc.NegativeBinomial(0.5)], ids=repr)
def test_counts_up_to_a_million(word, bias):
    counts = np.array([[0.0, 1.0, 1e6], [3.0, np.nan, 7e5], [0.0, 2.0, 9e5], [1.0, 0.0, np.nan]])
    fit = fitted(word, counts, bias=bias)
    # One entry of an over-dispersed count says less about its mean than one of a Poisson's.
    away = 1e4 if isinstance(word, mc.Poisson) else 2e5
    assert abs(fit.predict("y")[0, 2] - 1e6) <= away


def test_counts_of_rows_and_columns_that_differ_by_millions():
    counts = np.array([[1.0, 1e3, 1e6], [0.0, 2e3, 2e6], [3.0, 5e2, np.nan], [2.0, 1e3, 9e5]])
    fit = fitted(mc.Poisson(), counts, bias=True, row_effects=True)
    assert fit.predict("y")[2, 2] > 1e5


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.some(1)
def test_predictors_of_ten_thousand(link, bias):
    """Offsets of +-1e4, with the labels and against them."""
    labels = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, np.nan], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    offset = np.where(np.arange(12).reshape(4, 3) % 2 == 0, 1e4, -1e4)
    model = mc.Model([mc.Block("y", mc.Bernoulli(link), bias=bias)], [mc.NuclearNorm(3.0)])
    fit = mc.fit(model, {"y": mc.Observations(labels, offset=offset)}, tol=1e-6)
    assert fit.status == "certified"
    assert np.isfinite(fit.objective)
    assert np.isfinite(fit.predict("y")).all()
    if link == "logit" and not bias:  # the loss of a far probit grows like a square
        assert set(np.round(fit.predict("y").ravel(), 6)) <= {0.0, 1.0}


@pytest.mark.parametrize("z", [-1e4, -40.0, 40.0, 1e4])
@pytest.mark.parametrize("word", [mc.Bernoulli(), mc.Bernoulli("probit")], ids=repr)
def test_far_tails_of_labels(word, z):
    """log(1 + e^-z) and -log Phi(z) from their expansions."""
    value, gradient = (
        float(a[0]) for a in word.value_and_gradient(np.array([z]), np.array([1.0]))
    )
    if word.link == "logit":
        wanted = np.exp(-z) if z > 0 else -z
        assert np.isclose(gradient, -np.exp(-z) if z > 0 else -1.0, rtol=1e-12, atol=1e-300)
    elif z < 0:  # Phi(z) = phi(z) / |z| (1 - 1/z^2 + 3/z^4 ...)
        wanted = z**2 / 2 + np.log(-z) + 0.5 * np.log(2 * np.pi) - np.log1p(-(z**-2) + 3 * z**-4)
        assert np.isclose(gradient, z - 1 / -z, rtol=1e-4)
    else:  # 1 - Phi(z) = phi(z) / z
        wanted = np.exp(-(z**2) / 2) / z / np.sqrt(2 * np.pi) if z < 100 else 0.0
        assert np.isclose(gradient, -wanted * z, rtol=1e-2, atol=1e-300)
    rtol = 1e-2 if word.link == "probit" and z > 0 else 1e-8
    assert np.isclose(value, wanted, rtol=rtol, atol=1e-300)


ALIKE = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, np.nan, 0.0], [0.0, 1.0, 1.0]])


@pytest.mark.parametrize("effects", [{}, {"bias": True}, {"bias": True, "row_effects": True}])
@pytest.mark.parametrize(
    "word",
    [
        mc.Bernoulli(),
        mc.Bernoulli("probit"),
        mc.Hinge(),
        mc.Poisson(),
        mc.NegativeBinomial(1.0),
        mc.Ordinal(2, (0.0,), lowest=0),
        mc.Gaussian(),
        mc.Quantile(0.5),
        mc.Equality(),
    ],
    ids=repr,
)
@pytest.mark.some(0.1)
def test_columns_all_zero_and_all_one(word, effects):
    fit = fitted(word, ALIKE, tol=1e-5, **effects)
    predicted = fit.predict("y")
    assert predicted[0, 0] <= predicted[0, 1]
    if not isinstance(word, mc.Bernoulli) or word.link == "logit":
        agrees(fit)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)], ids=str)
@pytest.mark.parametrize(
    "term",
    [
        mc.NuclearNorm(0.1),
        mc.NuclearBall(0.5),
        mc.MaxNorm(0.1),
        mc.MaxNormBall(0.5),
        mc.Ridge(0.1),
    ],
    ids=repr,
)
@pytest.mark.some(0.1)
def test_one_row_or_one_column(shape, term):
    y = np.random.default_rng(0).standard_normal(shape)
    fit = fitted(mc.Gaussian(), y, [term], tol=1e-5)
    agrees(fit)


@pytest.mark.parametrize(
    "term", [mc.NuclearNorm(1e3), mc.MaxNorm(1e3), mc.NuclearNorm(50.0)], ids=repr
)
@pytest.mark.parametrize(
    "word", [mc.Gaussian(), mc.Bernoulli(), mc.Poisson(), mc.Hinge(), mc.Quantile(0.3)], ids=repr
)
def test_rank_zero_is_an_answer(word, term):
    y = (np.arange(20).reshape(5, 4) % 3 == 0).astype(float)
    fit = fitted(word, y, [term], tol=1e-5)
    assert fit.rank == 0 or np.abs(fit.natural("y")).max() <= 1e-4


def test_values_whose_squares_vanish_are_refused():
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1e-180)])
    with pytest.raises(mc.DataError, match=r"'x': no value is larger than 3e-170"):
        mc.fit(model, {"x": 1e-170 * np.array([[1.0, 2.0], [3.0, np.nan]])})

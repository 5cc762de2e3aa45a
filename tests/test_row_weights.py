"""Rows with weights: whole ones are repeated rows, equal ones none, and those of samples."""

import attrs
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.contracts.row_weights import counts_of_rows
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture, expectation
from mcframe.posterior import row_estimates
from mcframe.posterior.row_draws import DrawnComponents
from mcframe.posterior.row_estimates import fit_rows
from mcframe.posterior.rows_parameters import RowsPrior
from mcframe.posterior.wide_rows import WideParameters
from mcframe.tables.calibrating import calibrated
from mcframe.tables.compatible_draws import Regression
from mcframe.tables.formula_terms import Formula
from mcframe.tables.indicator_codings import Indicator, Indicators, Steps
from mcframe.tables.pipeline import CodedTable
from mcframe.tables.raw_predictions import RawPredictions
from mcframe.tables.regression import fitted
from mcframe.tables.tipping import MeanOfColumn

PRECISION = 100.0


def incomplete(rng, n, d, hidden=0.3):
    """Numbers of correlated columns, NaN where missing."""
    values = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)
    return np.where(rng.random((n, d)) < hidden, np.nan, values)


def mixture_of(rng, count, d):
    roots = rng.standard_normal((count, d, d + 1))
    covariances = roots @ roots.swapaxes(1, 2) / d + 0.1 * np.eye(d)
    return RowMixture(
        np.log(rng.dirichlet(np.ones(count))), rng.standard_normal((count, d)), covariances
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6), st.integers(1, 3))
def test_sums_over_rows_with_whole_weights_are_those_of_repeated_rows(seed, n, d, count):
    rng = np.random.default_rng(seed)
    values, counts = incomplete(rng, n, d), rng.integers(1, 5, n)
    precisions = np.where(rng.random((n, d)) < 0.5, PRECISION, 3.0)
    components = mixture_of(rng, count, d)
    table = IncompleteRows.of(values, precisions, np.ones(d), row_weights=counts.astype(float))
    repeated = np.repeat(np.arange(n), counts)
    whole = IncompleteRows.of(values[repeated], precisions[repeated], np.ones(d))
    weighted, sums = expectation(table, components), expectation(whole, components)
    np.testing.assert_allclose(np.sum(weighted.evidence), np.sum(sums.evidence), rtol=1e-10)
    for name in ("weights", "shifts", "scatters"):
        expected = getattr(sums, name)
        size = 1e-10 * max(np.max(np.abs(expected)), 1.0)
        np.testing.assert_allclose(getattr(weighted, name), expected, atol=size)
    rows = rng.permutation(n)
    part = expectation(table.take(rows), components)
    np.testing.assert_allclose(part.scatters, weighted.scatters, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("shape", "components"), [((150, 4), 1), ((150, 4), 2), ((8, 130), 1)])
def test_estimates_of_whole_weights_are_those_of_repeated_rows(shape, components, monkeypatch):
    rng = np.random.default_rng(0)
    values, counts = incomplete(rng, *shape, 0.2), rng.integers(1, 4, shape[0])
    options = {"components": components, "prior_rows": 2.0, "tol": 1e-9, "max_steps": 500}
    precisions = np.full(shape[1], 1000.0)
    # As often as they are repeated, where else rows count together as their effective number.
    monkeypatch.setattr(row_estimates, "counts_of_rows", lambda weights, *_: weights)
    weighted = fit_rows(values, precisions, row_weights=counts.astype(float), **options)
    repeated = fit_rows(np.repeat(values, counts, axis=0), precisions, **options)
    assert isinstance(weighted.parameters, WideParameters) == (shape[1] > 128)
    assert weighted.evidence == pytest.approx(repeated.evidence, rel=1e-7)
    np.testing.assert_allclose(
        np.sort(weighted.components.means, axis=0),
        np.sort(repeated.components.means, axis=0),
        atol=1e-4,
    )


@pytest.mark.parametrize("components", [1, 2, "auto"])
def test_equal_weights_are_no_weights(components):
    values = incomplete(np.random.default_rng(1), 120, 3)
    values[7] = np.nan  # a row of which nothing is seen
    precisions = np.full(3, PRECISION)
    plain = fit_rows(values, precisions, components=components)
    weighted = fit_rows(values, precisions, components=components, row_weights=np.full(120, 7.3))
    assert weighted.evidence == pytest.approx(plain.evidence, rel=1e-9)
    np.testing.assert_allclose(
        weighted.components.covariances, plain.components.covariances, rtol=1e-6
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_counts_are_in_proportion_and_add_up_to_the_effective_number_of_rows(seed, n):
    weights = 10.0 ** np.random.default_rng(seed).uniform(-40.0, 40.0, n)
    counts = counts_of_rows(weights)
    assert 1.0 - 1e-12 <= np.sum(counts) <= n * (1.0 + 1e-12)
    assert np.sum(counts) == pytest.approx(np.sum(weights) ** 2 / np.sum(weights**2))
    np.testing.assert_allclose(counts * (np.max(weights) / np.max(counts)), weights, rtol=1e-9)
    np.testing.assert_allclose(counts_of_rows(np.full(n, weights[0])), 1.0)
    assert counts_of_rows(np.array([1e-300, 1e300]))[0] > 0.0
    seen = np.arange(n) > 0  # the others count in proportion to these
    if n > 1:
        of_seen = counts_of_rows(weights, seen)
        np.testing.assert_allclose(of_seen[seen], counts_of_rows(weights[seen]), rtol=1e-9)
        np.testing.assert_allclose(of_seen[0] * weights[1], of_seen[1] * weights[0], rtol=1e-9)


def test_draws_of_parameters_given_weighted_rows_are_those_of_repeated_rows():
    rng = np.random.default_rng(2)
    z, component = rng.standard_normal((3, 30, 2)), rng.integers(0, 2, (3, 30))
    counts = rng.integers(1, 4, 30)
    prior = RowsPrior(np.zeros(2), np.eye(2), 3.0, True)
    weighted = DrawnComponents.given_rows(
        prior, z, component, 2, np.random.default_rng(5), counts.astype(float)
    )
    repeated = DrawnComponents.given_rows(
        prior,
        np.repeat(z, counts, axis=1),
        np.repeat(component, counts, axis=1),
        2,
        np.random.default_rng(5),
    )
    for name in ("means", "precisions", "prior_rows"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8)


def test_regressions_of_terms_count_rows_by_weights():
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(40), rng.standard_normal((40, 2))])
    outcomes, counts = rng.standard_normal((40, 2)), rng.integers(1, 4, 40)
    weighted = Regression.drawn(design, outcomes, np.random.default_rng(0), counts.astype(float))
    repeated = Regression.drawn(
        np.repeat(design, counts, axis=0),
        np.repeat(outcomes, counts, axis=0),
        np.random.default_rng(0),
        np.ones(counts.sum()),
    )
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, rtol=1e-6)
    # The axes of both designs may differ in sign, and draws with them.
    assert weighted.coefficients.shape == repeated.coefficients.shape


@pytest.mark.parametrize(
    "coding",
    [Indicator(("no", "yes")), Steps(("a", "b", "c")), Indicators(("a", "b", "c"))],
    ids=lambda coding: type(coding).__name__,
)
def test_probabilities_fitted_with_whole_weights_are_those_of_repeated_rows(coding):
    rng = np.random.default_rng(4)
    n, values = 60, len(coding.places)
    codes, counts = rng.integers(0, values, n).astype(float), rng.integers(1, 4, n)
    means = coding.numbers(codes) + 0.7 * rng.standard_normal((n, coding.width))
    raw = RawPredictions(means, np.full(means.shape, 0.5))
    repeated = np.repeat(np.arange(n), counts)
    weighted = calibrated(coding, codes, raw, counts.astype(float))
    whole = calibrated(coding, codes[repeated], raw.at(repeated), np.ones(repeated.size))
    whole = attrs.evolve(whole, smoothing=weighted.smoothing)  # by the number of entries
    answers = (one.decode(raw.means, raw.variances) for one in (weighted, whole))
    np.testing.assert_allclose(*answers, atol=1e-6)


def test_means_of_columns_count_rows_by_weights():
    rng = np.random.default_rng(5)
    observed, means, variances = rng.random(20), rng.random(9), rng.random(9)
    counts = rng.integers(1, 4, 20), rng.integers(1, 4, 9)
    weighted = MeanOfColumn.of(
        observed, means, variances, False, counts=tuple(part.astype(float) for part in counts)
    )
    whole = MeanOfColumn.of(
        np.repeat(observed, counts[0]),
        np.repeat(means, counts[1]),
        np.repeat(variances, counts[1]),
        False,
    )
    np.testing.assert_allclose(attrs.astuple(weighted), attrs.astuple(whole))
    heavy = np.ones(20), np.full(9, 1e-300)
    assert MeanOfColumn.of(observed, means, variances, False, counts=heavy).sd > 0.0


def mixed_table(rng, n=150):
    a = rng.standard_normal(n)
    b = a + rng.standard_normal(n)
    frame = pd.DataFrame({
        "a": a,
        "b": b,
        "label": np.where(a + rng.standard_normal(n) > 0.0, "yes", "no").astype(object),
        "count": rng.poisson(np.exp(0.5 * b)).astype(float),
        "town": rng.choice(["x", "y", "z"], n).astype(object),
    })  # fmt: skip
    return frame.mask(rng.random(frame.shape) < 0.2)


def test_a_table_with_equal_weights_is_filled_as_without():
    frame = mixed_table(np.random.default_rng(0))
    plain = mc.complete(frame)
    weighted = mc.complete(frame, row_weights=np.full(len(frame), 3))
    pd.testing.assert_frame_equal(plain.table, weighted.table)
    pd.testing.assert_frame_equal(plain.report(), weighted.report(), rtol=1e-9)
    pd.testing.assert_frame_equal(plain.draws(2)[1], weighted.draws(2)[1])
    assert weighted.effective_rows == pytest.approx(plain.effective_rows)
    for terms in ("b ~ a + I(a**2)", "b ~ a + label"):
        estimates = [mc.pool.formula(terms, way, 3).estimate for way in (plain, weighted)]
        np.testing.assert_allclose(*estimates, rtol=1e-9)


@pytest.mark.slow(seconds=2)
def test_a_column_of_weights_is_set_aside_and_kept_in_files(tmp_path):
    rng = np.random.default_rng(1)
    frame = mixed_table(rng).assign(w=np.repeat([1.0, 4.0], 75))
    completed = mc.complete(frame, row_weights="w")
    assert completed.declared.column("w").kind == "weights"
    pd.testing.assert_series_equal(completed.table["w"], frame["w"])
    assert completed.effective_rows == pytest.approx(375.0**2 / 1275.0)
    assert "tell as much of a mean as 110.3 rows of equal weight" in repr(completed)
    loaded = mc.load(completed.save(tmp_path / "completed.npz"))
    np.testing.assert_array_equal(loaded.row_weights, frame["w"])
    pd.testing.assert_frame_equal(loaded.draws(1)[0], completed.draws(1)[0])
    new = completed.complete_rows(frame.drop(columns="w").head(4))
    assert not new.drop(columns="w", errors="ignore").isna().any(axis=None)
    beside = mc.complete(frame, row_weights=frame["w"])
    assert beside.declared.column("w").kind == "number"
    pooled = mc.pool.formula("b ~ a", completed, 3)
    by_name = mc.pool.formula("b ~ a", list(completed.draws(3)), row_weights="w")
    np.testing.assert_allclose(pooled.estimate, by_name.estimate)


def test_held_out_errors_are_weighted():
    rng = np.random.default_rng(2)
    n = 300
    a = rng.standard_normal(n)
    noisy = np.arange(n) % 2 == 1
    frame = pd.DataFrame({"a": a, "b": a + np.where(noisy, 2.0, 0.1) * rng.standard_normal(n)})
    frame["b"] = frame["b"].mask(rng.random(n) < 0.1)

    def error(weights):
        report = mc.complete(frame, row_weights=weights).report()
        return report.set_index("column")["error"]["b"]

    assert error(np.where(noisy, 1e-6, 1.0)) < 0.4 < error(np.where(noisy, 1.0, 1e-6))


def test_pooled_regressions_are_those_of_statsmodels_on_each_table():
    rng = np.random.default_rng(3)
    table = mixed_table(rng, 200).dropna().assign(count=lambda one: one["count"] + 1.0)
    weights = rng.uniform(0.5, 5.0, len(table))
    design = sm.add_constant(table[["a", "count"]])
    line = fitted(Formula.of("b ~ a + count"), table, weights)
    peer = sm.WLS(table["b"], design, weights=weights).fit(cov_type="HC1")
    np.testing.assert_allclose(line.coefficients, peer.params, rtol=1e-8)
    np.testing.assert_allclose(line.covariance, peer.cov_params(), rtol=1e-8)
    curve = fitted(Formula.of("label ~ a + count"), table, weights)
    answer = (table["label"] == "yes").astype(float)
    model = sm.GLM(answer, design, family=sm.families.Binomial(), freq_weights=weights)
    np.testing.assert_allclose(curve.coefficients, model.fit().params, rtol=1e-6)
    p = model.fit().predict(design).to_numpy()
    scores = design.to_numpy() * (weights * (answer.to_numpy() - p))[:, None]
    bread = np.linalg.inv((design.T.to_numpy() * (weights * p * (1.0 - p))) @ design.to_numpy())
    n, k = design.shape
    np.testing.assert_allclose(
        curve.covariance, n / (n - k) * bread @ scores.T @ scores @ bread, rtol=1e-6
    )


def sample_of_strata(seed, n=300):
    """A sample in which one of two strata is four times too frequent, the weights, the truth."""
    rng = np.random.default_rng(seed)
    stratum = rng.random(n) < 0.3 * 4.0 / (0.3 * 4.0 + 0.7)
    x = rng.standard_normal(n) + 0.5 * stratum
    y = np.where(stratum, 1.0 + 1.2 * x, 0.4 * x) + 0.8 * rng.standard_normal(n)
    hidden = rng.random(n) < 1.0 / (1.0 + np.exp(0.9 - 0.8 * x))
    weights = np.where(stratum, 0.25, 1.0)
    return pd.DataFrame({"x": x, "y": np.where(hidden, np.nan, y)}), weights


@pytest.mark.parametrize("n_tables", [4, pytest.param(20, marks=pytest.mark.slow(seconds=21))])
def test_weighted_means_are_those_of_the_population(n_tables):
    truth, errors, held = 0.3 * (1.0 + 1.2 * 0.5), [], []
    for seed in range(n_tables):
        frame, weights = sample_of_strata(seed)
        completed = mc.complete(frame, row_weights=weights)
        pooled = mc.pool.formula("y ~ 1", completed, 10)
        lower, upper = pooled.interval()
        held.append(lower[0] <= truth <= upper[0])
        mean = completed.means["y"]
        assert abs(mean.mean - pooled.estimate[0]) < 0.5 * mean.sd
        plain = mc.pool.formula("y ~ 1", mc.complete(frame), 10).estimate[0]
        errors.append((pooled.estimate[0] - truth, plain - truth))
    biases, noise = np.mean(errors, axis=0), np.std(errors, axis=0) / np.sqrt(len(errors))
    assert abs(biases[0]) < 0.1
    assert biases[1] > 0.4
    if n_tables >= 20:
        assert abs(biases[0]) < 3.0 * noise[0] < 0.1
        assert np.mean(held) >= 0.85


def test_limits_and_relations_stand_beside_weights():
    rng = np.random.default_rng(6)
    a, b = rng.random(80) + 1.0, rng.random(80) + 1.0
    frame = pd.DataFrame({"a": a, "b": b, "total": a + b})
    hidden = rng.random(frame.shape) < 0.15
    hidden[:, 2] &= ~hidden[:, :2].all(axis=1)
    frame = frame.mask(hidden).astype(object)
    frame.loc[frame["a"].astype(float) < 1.2, "a"] = "<1.2"
    weights = rng.uniform(0.1, 3.0, 80)
    types, relations = {"a": "number"}, ["total = a + b"]
    completed = mc.complete(frame, types, relations=relations, row_weights=weights)
    for table in (completed.table, *completed.draws(2)):
        numbers = table.astype(float)
        np.testing.assert_allclose(numbers["total"], numbers["a"] + numbers["b"], atol=1e-8)
        assert (numbers["a"][frame["a"] == "<1.2"] <= 1.2 + 1e-12).all()


def test_tables_with_factors_say_that_gaps_are_filled_without_weights(monkeypatch):
    monkeypatch.setattr(CodedTable, "has_factors", True)
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(incomplete(rng, 60, 8), columns=list("abcdefgh"))
    with pytest.warns(UserWarning, match="row_weights were given, and the table has too many"):
        completed = mc.complete(frame, row_weights=rng.uniform(1.0, 2.0, 60))
    assert completed.effective_rows < 60


WRONG = [
    ({"row_weights": [1.0] * 3}, mc.DataError, r"row_weights has the shape \(3,\)"),
    ({"row_weights": [0.0] + [1.0] * 23}, mc.DataError, "row 0 has the weight 0.0"),
    ({"row_weights": [1.0, -2.0] * 12}, mc.DataError, "row 1 has the weight -2.0"),
    ({"row_weights": [np.nan] * 24}, mc.DataError, "row 0 has no weight"),
    ({"row_weights": ["a"] * 24}, mc.DataError, "a number above 0 is needed for each row"),
    ({"row_weights": "b"}, mc.DataError, "column 'b' of row_weights: row 2 has no weight"),
    ({"row_weights": "nothing"}, mc.DataError, "row_weights names 'nothing', which is no column"),
    ({"row_weights": "w", "groups": "g"}, mc.ModelError, "row_weights and groups were given"),
    ({"row_weights": "w", "method": "optimum"}, mc.ModelError, "knows no weights of rows"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG)
def test_wrong_weights_are_named(options, error, message):
    frame = pd.DataFrame({
        "a": np.arange(24.0), "b": [1.0, 2.0, np.nan] * 8, "g": [1, 2] * 12, "w": [1.0, 3.0] * 12,
    })  # fmt: skip
    with pytest.raises(error, match=message):
        mc.complete(frame, **options)


def test_models_with_weights_say_what_they_cannot_have():
    x = np.random.default_rng(0).standard_normal((5, 2))
    weights = np.arange(1.0, 6.0)
    with pytest.raises(mc.ModelError, match="row_weights beside a covariance"):
        mc.GaussianRows(np.eye(2), row_weights=weights)
    with pytest.raises(mc.ModelError, match="row_weights beside groups"):
        mc.GaussianRows(groups=[1, 1, 2, 2, 2], row_weights=weights)
    rows = mc.GaussianRows(row_weights=weights)
    with pytest.raises(mc.ModelError, match="row_weights were given, and chains have none"):
        mc.posterior(mc.Model([mc.Block("x", mc.Gaussian())], [rows]), {"x": x}, method="sampler")
    with pytest.raises(mc.ModelError, match="block 'x' is not Gaussian"):
        mc.posterior(mc.Model([mc.Block("x", mc.Logistic())], [rows]), {"x": np.sign(x)})
    with pytest.raises(mc.DataError, match="row_weights has 5 numbers; one for each of the 4"):
        mc.posterior(mc.Model([mc.Block("x", mc.Gaussian())], [rows]), {"x": x[:4]})
    posterior = mc.posterior(mc.Model([mc.Block("x", mc.Gaussian())], [rows]), {"x": x})
    assert "w_i log" in posterior.model.terms[0].formula()
    frame = pd.DataFrame(np.random.default_rng(1).standard_normal((40, 2)), columns=["a", "b"])
    completed = mc.complete(frame.mask(frame > 1.5), row_weights=np.arange(1.0, 41.0))
    with pytest.raises(mc.ModelError, match="compares likelihoods, and rows have weights"):
        mc.pool.compare("a ~ b", "a ~ 1", completed, 3, method="D3")

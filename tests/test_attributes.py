"""Attributes of rows and columns: prior means of factors, cold rows and columns, and refusals."""

import warnings

import attrs
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import mcframe as mc
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.coefficient_draws import AttributedSide, CoefficientDraws
from mcframe.posterior.coefficients import AttributeSums, AttributeValues, Coefficients
from mcframe.posterior.gaussians import Gaussians, gaussians_given
from mcframe.posterior.method_choice import too_long
from mcframe.posterior.verifying import gibbs_draws

HIDDEN_ROWS, HIDDEN_COLUMNS = slice(-40, None), slice(-10, None)


def table(seed=0, n=200, d=50, share=0.3):
    """A table of factors linear in attributes, with rows and columns without entries."""
    rng = np.random.default_rng(seed)
    F, G = rng.normal(size=(n, 4)), rng.normal(size=(d, 3))
    rows = 0.6 * F @ rng.normal(size=(4, 2)) + 0.4 * rng.normal(size=(n, 2))
    columns = 0.6 * G @ rng.normal(size=(3, 2)) + 0.4 * rng.normal(size=(d, 2))
    z = rows @ columns.T + 0.5 * G @ rng.normal(size=3)
    y = z + 0.4 * rng.normal(size=z.shape)
    hidden = rng.random(z.shape) > share
    hidden[HIDDEN_ROWS], hidden[:, HIDDEN_COLUMNS] = True, True
    return np.where(hidden, np.nan, y), z, F, G


def posterior(y, likelihood=None, row_effects=False, **options):
    """Its posterior with biases."""
    likelihood = likelihood or mc.Gaussian(variance=None)
    block = mc.Block("x", likelihood, bias=True, row_effects=row_effects)
    options = {"factors": 5, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return mc.posterior(mc.Model([block], [mc.NuclearNorm()]), {"x": y}, **options)


def error(answer, z, *places):
    """The root mean square error of z."""
    return float(np.sqrt(np.mean((answer.predict("x") - z)[places] ** 2)))


def test_cold_rows_and_columns_are_predicted_from_attributes():
    y, z, F, G = table()
    without = posterior(y)
    answer = posterior(y, row_attributes=F, column_attributes=G)
    warm = slice(0, -40), slice(0, -10)
    assert error(answer, z, *warm) < 1.02 * error(without, z, *warm)
    assert error(answer, z, HIDDEN_ROWS, warm[1]) < 0.75 * error(without, z, HIDDEN_ROWS, warm[1])
    cold = warm[0], HIDDEN_COLUMNS
    assert error(answer, z, *cold) < 0.75 * error(without, z, *cold)
    lower, upper = answer.interval("x", 0.9, of="predictor")
    inside = (lower <= z) & (z <= upper)
    assert 0.86 < np.mean(inside[warm]) < 0.97
    assert 0.78 < np.mean(inside[HIDDEN_ROWS, warm[1]]) < 0.97
    assert answer.evidence > without.evidence + 50.0


def test_cold_rows_of_new_data_have_the_same_answers():
    y, z, F, G = table(1)
    fitted = posterior(y[:-40], row_attributes=F[:-40], column_attributes=G)
    new = {"x": np.full((40, 50), np.nan)}
    answer = fitted.condition(new, row_attributes=F[HIDDEN_ROWS])
    together = posterior(y, row_attributes=F, column_attributes=G)
    cold = slice(0, 40), slice(0, -10)
    assert error(answer, z[HIDDEN_ROWS], *cold) < 1.1 * error(together, z, HIDDEN_ROWS, cold[1])
    np.testing.assert_allclose(
        fitted.predict_rows("x", new, row_attributes=F[HIDDEN_ROWS]), answer.predict("x")
    )
    again = fitted.condition({"x": y[:-40]}, row_attributes=F[:-40])
    np.testing.assert_allclose(again.predict("x"), fitted.predict("x"), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.sd("x"), fitted.sd("x"), rtol=1e-9)


def test_attributes_that_do_not_vary_change_nothing():
    y = table(2)[0]
    plain = posterior(y)
    for zeros in (np.zeros((200, 2)), np.full((200, 1), 3.0), sparse.csr_array((200, 3))):
        answer = posterior(y, row_attributes=zeros)
        np.testing.assert_array_equal(answer.predict("x"), plain.predict("x"))
        assert answer.evidence == plain.evidence


@pytest.mark.parametrize("method", ["variational", "sampler"])
def test_effects_alone_take_attributes(method):
    y, _, F, G = table(17, n=60, d=20)
    y = np.random.default_rng(0).normal(size=(12, 4)) + F[:12, :1]
    given = {"row_attributes": F[:12], "column_attributes": G[:4], "row_effects": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotConvergedWarning)
        answer = posterior(y, factors=0, method=method, max_iter=40, **given)
    assert np.all(np.isfinite(answer.predict("x")))
    assert np.all(answer.sd("x") > 0.0)


def test_noise_as_attributes_loses_next_to_nothing():
    y, z, _, _ = table(3)
    rng = np.random.default_rng(0)
    noise = {
        "row_attributes": rng.normal(size=(200, 4)),
        "column_attributes": rng.normal(size=(50, 3)),
    }
    warm = slice(0, -40), slice(0, -10)
    assert error(posterior(y, **noise), z, *warm) < 1.03 * error(posterior(y), z, *warm)


@pytest.mark.parametrize(
    "likelihood", [mc.Gaussian(variance=None), mc.Bernoulli(), mc.Poisson(), mc.Ordinal(3)]
)
@pytest.mark.parametrize("prior", [mc.NuclearNorm(), mc.NuclearNorm(2.0)])
@pytest.mark.some(0.3)
def test_the_bound_rises(likelihood, prior):
    y, _, F, G = table(4, n=80, d=60)
    if isinstance(likelihood, mc.Bernoulli):
        y = np.where(np.isnan(y), y, y > 0.0)
    elif isinstance(likelihood, mc.Poisson):
        y = np.where(np.isnan(y), y, np.round(np.exp(np.clip(y, -2.0, 2.0))))
    elif isinstance(likelihood, mc.Ordinal):
        y = np.where(np.isnan(y), y, 1.0 + (y > -0.5) + (y > 0.5))
    effects = not isinstance(likelihood, mc.Ordinal)
    block = mc.Block("x", likelihood, bias=effects, row_effects=effects)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        answer = mc.posterior(
            mc.Model([block], [prior]),
            {"x": y},
            factors=4,
            row_attributes={"given": F, "cells": "observed"},
            column_attributes={"given": G, "cells": "observed"},
        )
    evidence = np.array([sweep.evidence for sweep in answer.history])
    assert np.all(np.diff(evidence) > -1e-9 * np.abs(evidence[1:]))
    assert np.all(np.isfinite(answer.predict("x")))
    assert np.all(answer.sd("x") > 0.0)


def test_means_of_coefficients_and_deviations_solve_the_joint_equations():
    """Conjugate gradients beside one dense system, and covariances by their definition."""
    rng = np.random.default_rng(5)
    n, p, k = 12, 3, 2
    F, roots = rng.normal(size=(n, p)), rng.normal(size=(n, k, k))
    A, b = roots @ roots.transpose(0, 2, 1), rng.normal(size=(n, k))
    free, ones, nothing = np.ones(k, bool), np.ones((1, k)), np.zeros((1, k))
    values = AttributeValues.of([sparse.csr_array(F)])
    mean_squares = np.mean(F**2, axis=0)
    coefficients = Coefficients.initial(values, mean_squares, free, np.ones(k), k)
    packed = loops.packed(A)
    without = gaussians_given(packed, b, free, nothing, ones, nothing)
    for _ in range(5):
        sums = AttributeSums.of(values, packed, without, nothing, ones)
        coefficients = coefficients.updated(sums, np.ones(k))
    answer, _ = coefficients.added_to(without, ones)
    scale = coefficients.scales[0, 0]
    # Unknowns are all deviations, then all coefficients; x_i = d_i + s sum of f_ip u_p.
    design = np.hstack([np.eye(n * k), scale * np.kron(F, np.eye(k))])
    blocks = np.zeros((n * k, n * k))
    for i in range(n):
        blocks[i * k : (i + 1) * k, i * k : (i + 1) * k] = A[i]
    system = design.T @ blocks @ design + np.eye(design.shape[1])
    solution = np.linalg.solve(system, design.T @ b.ravel())
    np.testing.assert_allclose(answer.means.ravel(), design @ solution, atol=1e-6)
    of_first = scale**2 * np.einsum("i,iab->ab", F[:, 0] ** 2, A) + np.eye(k)
    np.testing.assert_allclose(
        coefficients.gaussians.full_covariances()[0], np.linalg.inv(of_first), rtol=1e-9
    )


def test_scales_change_no_contribution_and_raise_the_bound():
    rng = np.random.default_rng(6)
    values = AttributeValues.of([sparse.csr_array(rng.normal(size=(9, 4)))])
    free = np.array([True, True, False])
    mean_squares = values.sums_of_squares / 9
    before = Coefficients.initial(values, mean_squares, free, np.ones(3), 2)
    covariances = np.zeros((4, 3, 3))
    covariances[:, :2, :2] = 0.3 * np.eye(2) + 0.1
    means = rng.normal(size=(4, 3)) * free
    dets = np.linalg.slogdet(covariances[:, :2, :2])[1]
    given = Gaussians(means, loops.packed(covariances), dets)
    before = attrs.evolve(before, gaussians=given)
    after = before.rescaled(np.ones(3), 2)
    np.testing.assert_allclose(after.means, before.means)
    np.testing.assert_allclose(after.covariances, before.covariances)
    assert after.divergence(np.ones(3)) < before.divergence(np.ones(3))


def test_frames_gaps_and_groups():
    y, _, F, _ = table(7)
    gaps = np.where(np.random.default_rng(0).random(F.shape) < 0.1, np.nan, F)
    frame = pd.DataFrame(gaps, columns=["a", "b", "c", "d"])
    answer = posterior(y, row_attributes={"people": frame, "cells": "observed"})
    units = posterior(y, row_attributes={"people": 1e3 * frame + 7.0, "cells": "observed"})
    np.testing.assert_allclose(answer.predict("x"), units.predict("x"), rtol=1e-6, atol=1e-6)
    new = {"x": y[:3]}
    same = answer.condition(new, row_attributes={"people": frame[:3]})
    np.testing.assert_allclose(same.predict("x"), answer.predict("x")[:3], rtol=1e-6, atol=1e-6)
    with pytest.raises(mc.DataError, match=r"columns 'b', 'a'"):
        answer.condition(new, row_attributes={"people": frame[:3][["b", "a"]]})
    with pytest.raises(mc.DataError, match="no row_attributes"):
        answer.condition(new)


def test_saved_posteriors_take_attributes_of_new_rows(tmp_path):
    y, _, F, G = table(8)
    answer = posterior(y, row_attributes=F, column_attributes=sparse.csr_array(G))
    answer.save(tmp_path / "fit.zip")
    loaded = mc.load(tmp_path / "fit.zip")
    np.testing.assert_array_equal(loaded.predict("x"), answer.predict("x"))
    new = {"x": y[:3]}
    np.testing.assert_array_equal(
        loaded.predict_rows("x", new, row_attributes=F[:3]),
        answer.predict_rows("x", new, row_attributes=F[:3]),
    )


def test_conformal_intervals_keep_the_attributes():
    y, _, F, G = table(9, n=100, d=40)
    answer = posterior(y, row_attributes=F, column_attributes=G)
    lower, upper = answer.conformalize(0.8).interval("x")
    assert np.all(lower <= upper)
    with pytest.raises(mc.ModelError, match="rows are held out"):
        answer.conformalize_jointly()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((3, 2)), "attributes of 3 rows were given, and the data have 200"),
        ({"a": np.ones((200, 1)), "b": np.ones((3, 2))}, r"row_attributes\['b'\]"),
        (np.full((200, 1), np.inf), "row 0, attribute 0 is inf"),
        (np.full((200, 1), np.nan), "attribute 0 has no number"),
        (pd.DataFrame({"job": ["x"] * 200}), "row 0, attribute 'job' is 'x', no number"),
        (np.ones((200, 1, 1)), "shape"),
        ("rated", "'observed', an array"),
        ({}, "an empty dict"),
        (sparse.csr_array((np.full(1, np.nan), ([0], [0])), shape=(200, 1)), "finite"),
        (sparse.csr_array((np.full(1, 1j), ([0], [0])), shape=(200, 1)), "real numbers"),
        (sparse.eye_array(200, 30_000), "30000 attributes are more than 20000"),
    ],
)
def test_wrong_attributes_are_named(given, message):
    with pytest.raises((mc.DataError, mc.ModelError), match=message):
        posterior(table()[0], row_attributes=given)


def test_attributes_of_new_rows_are_those_of_the_fit():
    y, _, F, _ = table(12, n=100, d=40)
    answer, new = posterior(y, row_attributes=F), {"x": y[:2]}
    with pytest.raises(mc.DataError, match="3 attributes were given, and the fit had 4"):
        answer.condition(new, row_attributes=F[:2, :3])
    with pytest.raises(mc.DataError, match="attributes of 3 rows were given"):
        answer.condition(new, row_attributes=F[:3])
    with pytest.raises(mc.DataError, match="csr_array was given, and the fit had an array"):
        answer.condition(new, row_attributes=sparse.csr_array(F[:2]))
    with pytest.raises(mc.DataError, match="was made without any"):
        posterior(y).condition(new, row_attributes=F[:2])


def test_the_report_names_attributes():
    y, _, F, _ = table(10, n=100, d=40)
    answer = posterior(y, row_attributes={"people": F, "cells": "observed"})
    text = "attributes of rows x_i = A'f_i + d_i, f = people (4), cells (observed cells)"
    assert text in " ".join(str(answer).split())


@pytest.mark.parametrize("wide", [False, True])
def test_coefficients_are_drawn_as_dense_algebra_has_them(wide):
    """Their mean and covariance given rows, where there are more rows than attributes or fewer."""
    rng = np.random.default_rng(13)
    m, n, p, k = 20_000, 6, 9 if wide else 3, 3
    F = rng.normal(size=(n, p))
    rows = rng.normal(size=(n, k))
    precisions, of_rows = np.array([2.0, 2.0, 1.0]), np.full((n, k), 2.0)
    kinds = np.array([0, 1, 0, 1, 0, 0])
    of_rows[:, 2] = np.where(kinds, 3.0, 0.5)
    scales = np.array([[0.7, 0.7, 0.2], [1.5, 1.5, 0.9]])
    groups = [sparse.csr_array(F[:, :2]), sparse.csr_array(F[:, 2:])]
    has_entries = np.arange(n) != 2
    side = AttributedSide(
        AttributeValues.of(groups), np.ones(k, bool), 2, scales, has_entries, kinds
    )
    draws = CoefficientDraws(np.zeros((m, p, k)), np.tile(scales, (m, 1, 1)))
    numbers = np.tile(rows, (m, 1, 1))
    given = np.tile(of_rows, (m, 1, 1)), np.ones((m, n, k))
    side.draw(draws, numbers, given, np.tile(precisions, (m, 1)), rng, learns_scales=False)
    for number in range(k):
        D = scales[side.attributes.group_of, number]
        seen, T = F[has_entries] * D, of_rows[has_entries, number]
        covariance = np.linalg.inv(seen.T @ (T[:, None] * seen) + precisions[number] * np.eye(p))
        mean = covariance @ seen.T @ (T * (rows[has_entries, number] - 1.0))
        u = draws.u[:, :, number]
        errors = np.sqrt(np.diag(covariance) / m)
        assert np.max(np.abs(u.mean(axis=0) - mean) / errors) < 4.5
        np.testing.assert_allclose(np.cov(u.T), covariance, atol=0.05 * np.max(covariance))
    np.testing.assert_array_equal(
        numbers[:, has_entries], given[1][:, has_entries] * 0.0 + rows[has_entries]
    )
    made = np.einsum("p,mpk,pk->mk", F[2], draws.u, scales[side.attributes.group_of])
    np.testing.assert_allclose(numbers[:, 2], rows[2] + made)  # it follows from before, 0


@pytest.mark.slow(seconds=2)
def test_the_sampler_is_the_reference_of_the_sweeps():
    """At the same precisions, noise and scales: means, deviations, and rows without entries."""
    y, _, F, G = table(14, n=90, d=30, share=0.5)
    cells = np.ix_([*range(50), *range(50, 60)], [*range(24)])
    y, F, G = y[cells], F[cells[0][:, 0]], G[cells[1][0]]
    answer = posterior(y, factors=3, tol=1e-5, row_attributes=F, column_attributes=G)
    rows, columns = np.indices(y.shape).reshape(2, -1)
    draws = gibbs_draws(answer.engine, rows, columns, 400, np.random.default_rng(0))
    means, sds = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    _, (mean,), (variance,) = answer.engine.mixture(rows, columns)
    cold = (rows >= 50) | (columns >= 20)
    for which in (cold, ~cold):
        distances = np.abs(mean - means)[which] / sds[which]
        assert np.median(distances) < 0.1
        assert np.max(distances) < 0.5
        assert 0.75 < np.median(variance[which] / sds[which] ** 2) < 1.15


def test_the_sampler_predicts_cold_rows_and_columns(tmp_path):
    y, z, F, G = table(15, n=90, d=60)
    cells = np.ix_([*range(30), *range(50, 65)], [*range(12), *range(50, 54)])
    y, z, F, G = y[cells], z[cells], F[cells[0][:, 0]], G[cells[1][0]]
    given = {"row_attributes": {"people": F}, "column_attributes": G, "factors": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotConvergedWarning)
        answer = posterior(y, method="sampler", max_iter=200, **given)
    plain = posterior(y, factors=2)
    rows, columns = slice(30, None), slice(12, None)
    assert np.all(np.isnan(y[rows]))
    assert np.all(np.isnan(y[:, columns]))
    for cold in ((rows, slice(12)), (slice(30), columns)):
        assert error(answer, z, *cold) < 0.9 * error(plain, z, *cold)
    assert "attributes of columns w_j = B'g_j + e_j, g = 3" in " ".join(str(answer).split())
    assert answer.engine.coefficients[0].u.shape == (answer.engine.n_draws, 4, 3)
    new = {"x": y[rows]}
    same = answer.condition(new, row_attributes={"people": F[rows]})
    spread = answer.sd("x")[rows] / np.sqrt(answer.engine.n_draws)
    differences = (same.predict("x") - answer.predict("x")[rows]) / spread
    assert np.sqrt(np.mean(np.square(differences))) < 2.0  # deviations of rows are drawn anew
    loaded = mc.load(answer.save(tmp_path / "answer.zip"))
    both = [
        one.predict_rows("x", new, row_attributes={"people": F[rows]}) for one in (answer, loaded)
    ]
    np.testing.assert_array_equal(*both)
    with pytest.raises(mc.DataError, match="no row_attributes"):
        answer.condition(new)


def test_the_sampler_stands_where_it_takes_seconds():
    y, _, F, _ = table(16, n=60, d=20)
    wide = np.random.default_rng(0).normal(size=(60, 300))
    answer = posterior(y, row_attributes=wide, column_attributes=np.ones(20), factors=1)
    assert answer.engine.state.coefficient_counts == [59]  # with their mean taken off
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.5))], [mc.NuclearNorm(1.0)])
    given = {"row_attributes": F[:12, :1], "factors": 1, "method": "auto"}
    table_of_12 = np.random.default_rng(1).normal(size=(12, 4))
    assert "by the sampler" in mc.posterior(model, {"x": table_of_12}, **given).message
    many = too_long(answer.engine.observed, 1, [1000])
    assert many.startswith("chains would take")
    assert not too_long(answer.engine.observed, 1)


@pytest.mark.slow(seconds=1)
def test_ranks_of_what_tables_with_attributes_are_drawn_from():
    rng = np.random.default_rng(0)
    block = mc.Block("x", mc.Gaussian(variance=None), row_effects=True)
    model = mc.Model([block], [mc.NuclearNorm(1.0)])
    hidden = rng.random((10, 6)) < 0.3
    hidden[0], hidden[:, 1] = True, True
    given = {"row_attributes": rng.normal(size=(10, 2)), "column_attributes": rng.normal(size=6)}
    found = mc.laws.check_posterior(
        model,
        {"x": (10, 6)},
        method="sampler",
        factors=1,
        max_iter=60,
        n_tables=5,
        hidden={"x": hidden},
        **given,
    )
    assert found.ranks["scales of attributes"].n == 5 * (1 + 1 + 1)  # factors twice, and effects
    with pytest.raises(mc.ModelError, match="drawn before cells are hidden"):
        mc.laws.check_posterior(model, {"x": (10, 6)}, row_attributes={"cells": "observed"})


def test_methods_without_attributes_say_so(tmp_path):
    y, _, F, _ = table(11, n=100, d=40)
    with pytest.raises(mc.BackendError, match="checkpoint was given"):
        posterior(y, row_attributes=F, checkpoint=tmp_path / "checkpoint")
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows()])
    with pytest.raises(mc.BackendError, match="no factors that could depend on attributes"):
        mc.posterior(model, {"x": y[:-40, :-10]}, row_attributes=F[:-40])

"""Attributes of rows and columns: prior means of factors, cold rows and columns, and refusals."""

import warnings

import attrs
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import mcframe as mc
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.coefficients import AttributeValues, Coefficients
from mcframe.posterior.gaussians import Gaussians, gaussians_given

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
    coefficients = Coefficients.initial(
        AttributeValues.of([sparse.csr_array(F)]), free, np.ones(k), k
    )
    packed = loops.packed(A)
    without = gaussians_given(packed, b, free, nothing, ones, nothing)
    for _ in range(5):
        coefficients = coefficients.updated(packed, without, nothing, ones, np.ones(k))
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
    before = Coefficients.initial(values, free, np.ones(3), 2)
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
    assert "people (4), cells (observed cells)" in str(answer)


def test_methods_without_attributes_say_so(tmp_path):
    y, _, F, _ = table(11, n=100, d=40)
    with pytest.raises(mc.BackendError, match="chains do not draw coefficients"):
        posterior(y, row_attributes=F, method="sampler")
    with pytest.raises(mc.BackendError, match="checkpoint was given"):
        posterior(y, row_attributes=F, checkpoint=tmp_path / "checkpoint")
    answer = posterior(y, row_attributes=F, method="auto")
    assert "chains do not draw coefficients of attributes" in answer.message
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows()])
    with pytest.raises(mc.BackendError, match="no factors that could depend on attributes"):
        mc.posterior(model, {"x": y[:-40, :-10]}, row_attributes=F[:-40])

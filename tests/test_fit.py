"""The verb fit: what it answers, how it stops, and that it repeats."""

import os
import signal
import time

import attrs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.runtime.machine import thread_limit


def test_the_answer_is_consistent(model, table):
    fit = mc.fit(model, table)
    assert fit.status == "certified"
    assert fit.gap <= 1e-6
    assert fit.bound <= fit.objective
    assert fit.objective == fit.problem.objective(fit.latent, fit.effects)
    z = fit.latent.dense()
    np.testing.assert_allclose(fit.natural("features"), z[:, :8])
    np.testing.assert_allclose(fit.natural("labels"), z[:, 8:] + fit.bias("labels"))
    np.testing.assert_allclose(fit.predict("labels"), 1 / (1 + np.exp(-fit.natural("labels"))))
    assert fit.rank == np.linalg.matrix_rank(z)
    assert "certified" in repr(fit)


def test_impute_keeps_what_was_observed(model, table):
    fit = mc.fit(model, table)
    imputed = fit.impute("features")
    seen = ~np.isnan(table["features"])
    np.testing.assert_array_equal(imputed[seen], table["features"][seen])
    np.testing.assert_array_equal(imputed[~seen], fit.predict("features")[~seen])


def test_frames_keep_their_labels(model, table):
    items = [f"item{i}" for i in range(20)]
    x = pd.DataFrame(table["features"], index=items).add_prefix("f")
    y = pd.DataFrame(table["labels"], index=items).add_prefix("l")
    fit = mc.fit(model, {"features": x, "labels": y})
    plain = mc.fit(model, table)
    assert fit.objective == plain.objective
    for found in (fit.predict("features"), fit.impute("features"), fit.natural("features")):
        assert found.index.tolist() == items
        assert found.columns.tolist() == x.columns.tolist()
    assert fit.bias("labels").index.tolist() == y.columns.tolist()


def test_sparse_means_stored_is_observed(model, table):
    seen = ~np.isnan(table["features"])
    sparse = sp.csr_array((table["features"][seen], np.nonzero(seen)), shape=seen.shape)
    fit = mc.fit(model, {"features": sparse, "labels": table["labels"]})
    assert fit.objective == mc.fit(model, table).objective


def test_asking_a_block_that_is_not_there(model, table):
    fit = mc.fit(model, table)
    with pytest.raises(mc.ModelError, match="there is no block 'ratings'"):
        fit.predict("ratings")
    with pytest.raises(mc.ModelError, match="'features' has no bias"):
        fit.bias("features")


@pytest.mark.parametrize("backend", ["proximal", "fpc"])
def test_the_iteration_limit_is_said(model, table, backend):
    with pytest.warns(mc.NotCertifiedWarning, match="iteration_limit"):
        fit = mc.fit(model, table, backend=backend, max_iter=3)
    assert fit.status == "iteration_limit"
    assert fit.gap > 1e-6
    assert fit.history[-1].iteration == 3


def test_the_time_limit_is_said(model, table):
    """Each record takes longer than the limit, since a fast machine ends the fit within any."""
    with pytest.warns(mc.NotCertifiedWarning, match="time_limit"):
        fit = mc.fit(model, table, max_seconds=0.05, callback=lambda record: time.sleep(0.06))
    assert fit.status == "time_limit"


@pytest.mark.usefixtures("interruptible")
def test_control_c_returns_the_best_point(model, table):
    def interrupt(record):
        if record.iteration > 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(mc.NotCertifiedWarning, match="interrupted"):
        fit = mc.fit(model, table, tol=1e-12, callback=interrupt)
    assert fit.status == "interrupted"
    assert np.isfinite(fit.objective)
    assert fit.bound <= fit.objective


def test_the_callback_sees_records_and_may_stop(model, table):
    seen = []

    def callback(record):
        seen.append(record)
        return len(seen) == 2

    with pytest.warns(mc.NotCertifiedWarning, match="the callback asked to stop"):
        fit = mc.fit(model, table, tol=1e-12, callback=callback)
    assert fit.status == "interrupted"
    assert tuple(seen) == fit.history.records


def test_history_is_monotone_where_it_must_be(model, table):
    fit = mc.fit(model, table, tol=1e-9)
    assert np.all(np.diff(fit.history.bound) >= 0)
    assert np.all(np.diff(fit.history.gap) <= 0)
    assert np.all(np.diff(fit.history.iteration) > 0)
    assert len(pd.DataFrame(fit.history.table())) == len(fit.history)
    assert "objective" in repr(fit.history)


def test_a_warm_start_saves_work_and_is_unharmed(model, table):
    first = mc.fit(model, table)
    kept = first.latent.dense()
    nearby = attrs.evolve(model, terms=[mc.NuclearNorm(0.021)])
    warm = mc.fit(nearby, table, start=first)
    cold = mc.fit(nearby, table)
    assert warm.history[-1].iteration < cold.history[-1].iteration
    assert abs(warm.objective - cold.objective) <= 2e-6 * cold.objective
    np.testing.assert_array_equal(first.latent.dense(), kept)


def test_a_start_of_another_shape_is_refused(model, table):
    first = mc.fit(model, table)
    fewer = {name: block[:10] for name, block in table.items()}
    with pytest.raises(mc.DataError, match=r"\(20, 12\).*\(10, 12\)"):
        mc.fit(model, fewer, start=first)


def test_equal_seeds_give_equal_bits(model, table):
    first, second = (mc.fit(model, table, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.latent.dense(), second.latent.dense())


@pytest.mark.parametrize("backend", ["proximal", "alternating"])
def test_threads_change_no_more_than_rounding(backend):
    """Equal bits for a number of threads, the same optimum within the tolerance for others."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((520, 3)) @ rng.standard_normal((3, 500))
    x = np.where(rng.random(z.shape) < 0.1, z + 0.3 * rng.standard_normal(z.shape), np.nan)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(10.0)])
    fits = []
    for count in (1, 2, 2):
        with thread_limit(count):
            fits.append(mc.fit(model, {"x": x}, backend=backend, tol=1e-3))
    one, two, again = fits
    np.testing.assert_array_equal(two.latent.dense(), again.latent.dense())
    assert abs(one.objective - two.objective) <= 1e-3 * one.objective


def test_fpc_stops_as_published_when_asked(model, table):
    with pytest.warns(mc.NotCertifiedWarning, match="changed by less than 1e-05"):
        fit = mc.fit(model, table, backend=mc.FPC(stopping="published"))
    assert fit.status == "interrupted"
    assert fit.gap > 1e-6
    exact = mc.fit(model, table)
    assert fit.bound <= exact.objective <= fit.objective


def test_a_heavy_nuclear_norm_gives_rank_zero(model, table):
    fit = mc.fit(attrs.evolve(model, terms=[mc.NuclearNorm(1e6)]), table)
    assert fit.rank == 0
    assert fit.gap <= 1e-12
    # The bias alone is left: the share of ones of each label.
    share = np.nanmean(table["labels"], axis=0)
    np.testing.assert_allclose(fit.predict("labels")[0], share, rtol=1e-9)


def test_labels_all_alike_with_a_bias():
    model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(0.1)])
    y = np.array([[1.0, 0.0], [1.0, 0.0], [np.nan, 0.0], [1.0, 0.0]])
    fit = mc.fit(model, {"y": y})
    assert fit.status == "certified"
    assert fit.objective == 0.0
    np.testing.assert_array_equal(fit.predict("y"), np.tile([1.0, 0.0], (4, 1)))


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1)])
@pytest.mark.parametrize("terms", [[mc.NuclearNorm(0.1)], [mc.NuclearNorm(0.1), mc.OnesColumn()]])
def test_one_row_or_one_column(shape, terms):
    x = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], terms), {"x": x})
    assert fit.status == "certified"


def test_predictors_far_out_stay_finite():
    x = np.array([[1e8, 1.0], [2e8, np.nan], [np.nan, 1e-8]])
    y = np.array([[1.0], [0.0], [1.0]])
    model = mc.Model(
        [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli(scale=1e-3))],
        [mc.NuclearNorm(1.0)],
    )
    fit = mc.fit(model, {"x": x, "y": y})
    assert np.all(np.isfinite(fit.natural("x")))
    assert fit.status == "certified"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tol": -1.0}, "tol=-1.0"),
        ({"tol": 2}, "tol=2"),
        ({"tol": 1}, "tol=1 .*at least 0 and below 1"),
        ({"max_iter": -5}, "max_iter=-5"),
        ({"max_iter": "a"}, "max_iter='a' was given; a whole number of iterations, 0 or more"),
        ({"max_iter": 2.5}, "max_iter=2.5 was given; a whole number"),
        ({"max_iter": np.inf}, "max_iter=inf was given; a whole number"),
        ({"max_seconds": 0}, "max_seconds=0"),
        ({"backend": "admm"}, "backend='admm'"),
        ({"backend": 3}, "backend=3"),
        ({"backend": mc.FPC}, r"write FPC\(\)"),
        ({"max_seconds": None}, "max_seconds=None"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"n_jobs": 1.5}, "n_jobs=1.5"),
        ({"n_jobs": 10**6}, "n_jobs=1000000 was given; a whole number of threads, 1 to 1024"),
        ({"progress": "x"}, "progress=.x. was given; True, False or None is needed"),
        ({"callback": 3}, "callback=3"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_wrong_options_are_named(model, table, options, named):
    with pytest.raises(mc.ModelError, match=named):
        mc.fit(model, table, **options)


def test_no_option_is_swallowed(model, table):
    with pytest.raises(TypeError, match="max_iters"):
        mc.fit(model, table, max_iters=3)


def test_a_reference_that_would_take_too_long_is_refused(model):
    rng = np.random.default_rng(0)
    data = {"features": rng.random((900, 20)), "labels": rng.integers(0, 2, (900, 5))}
    with pytest.raises(mc.BackendError, match=r"cone of order 925.*force=True"):
        mc.fit(model, data, backend="reference")
    eligibilities = {v.name: v for v in mc.explain(model, data).eligibilities}
    assert eligibilities["proximal"].can_run
    assert not eligibilities["reference"].can_run
    assert "force=True" in repr(mc.explain(model, data))


def test_a_problem_beyond_memory_is_refused(model):
    wide = sp.coo_array((np.ones(3), ([0, 1, 2], [0, 1, 10**5])), shape=(10**6, 10**5 + 1))
    one = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.BackendError, match="GB"), pytest.warns(mc.UnobservedWarning):
        mc.fit(one, {"x": wide}, backend="proximal")
    ridge = mc.Model(one.blocks, [mc.Ridge(1.0)])
    with pytest.raises(mc.BackendError, match="GB"), pytest.warns(mc.UnobservedWarning):
        mc.fit(ridge, {"x": wide})


def test_both_readings_agree(model, table):
    verification = mc.verify(model, table)
    assert verification.agrees
    assert abs(verification.difference) <= 1e-5
    assert verification.distance <= 1e-2
    assert "agree" in repr(verification)


def test_the_clarabel_opinion(model, table):
    small = {name: block[:8, :3] for name, block in table.items()}
    assert mc.verify(model, small, reference=mc.Reference(solver="CLARABEL")).agrees


def test_the_cvxpy_problem_is_the_objective(model, table):
    problem, variables = mc.to_cvxpy(model, table)
    fit = mc.fit(model, table)
    variables["Z"].value = fit.latent.dense()
    variables["bias:labels"].value = fit.bias("labels")
    assert problem.is_dcp()
    assert abs(problem.objective.value - fit.objective) <= 1e-9 * fit.objective


def test_an_iterate_that_is_not_finite_ends_the_fit_with_the_best_before_it(model, table):
    @attrs.frozen
    class Breaks(mc.Proximal):
        """Overflows at some point, as a loss of one's own may."""

        def step(self, program, state):
            super().step(program, state)
            if state.objective < 1.0:
                state.penalty = np.nan

    with pytest.warns(mc.NotCertifiedWarning, match="is not finite"):
        fit = mc.fit(model, table, backend=Breaks(), tol=1e-9)
    assert fit.status == "interrupted"
    assert np.isfinite(fit.objective)
    assert np.all(np.isfinite(fit.natural("features")))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_weights_of_low_precision_do_not_round_the_objective(table, dtype):
    """A numpy scalar counts as the float it stands for; a certificate rounded to it would lie."""

    def objective(weight):
        block = mc.Block("features", mc.Gaussian(variance=weight), weight=weight, reduce="mean")
        model = mc.Model([block], [mc.NuclearNorm(weight)])
        return mc.fit(model, {"features": table["features"]}, tol=1e-9).objective

    low = dtype(0.3) if dtype is not np.int8 else dtype(3)
    assert isinstance(mc.NuclearNorm(low).weight, float)
    assert objective(low) == objective(float(low))


@pytest.mark.parametrize("unit", [1e-100, 1e-15, 1e-8, 1e8, 1e30, 1e100])
def test_a_bias_does_not_depend_on_units(table, unit):
    x = table["features"]

    def fitted(unit):
        blocks = [mc.Block("x", mc.Gaussian(), bias=True)]
        return mc.fit(mc.Model(blocks, [mc.NuclearNorm(0.5 * unit)]), {"x": x * unit})

    plain, scaled = fitted(1.0), fitted(unit)
    assert scaled.status == "certified"
    np.testing.assert_allclose(scaled.bias("x") / unit, plain.bias("x"), rtol=1e-3, atol=1e-4)
    assert scaled.objective / unit**2 == pytest.approx(plain.objective, rel=1e-5)


def test_what_a_fit_hands_out_is_a_copy(model, table):
    fit = mc.fit(model, table)
    before = fit.predict("labels")
    bias = fit.bias("labels")
    bias += 100.0
    np.testing.assert_array_equal(fit.predict("labels"), before)


def test_effects_are_named_by_their_block(model, table):
    fit = mc.fit(model, table)
    assert {name: own.shape for name, own in fit.effects.items()} == {"labels": (4,)}


def test_the_judge_refuses_points_of_another_shape(model, table):
    problem = mc.Problem.bind(model, table)
    good = {"labels": np.zeros(4)}
    problem.objective(np.zeros((20, 12)), good)
    for latent, effects in (
        (np.zeros((20, 13)), good),
        (np.zeros((20, 12)), {}),
        (np.zeros((20, 12)), {"labels": np.zeros(5)}),
        (np.zeros((20, 12)), {**good, "features": np.zeros(8)}),
    ):
        with pytest.raises(mc.DataError, match="shape"):
            problem.objective(latent, effects)


@pytest.mark.parametrize("terms", [[mc.NuclearNorm(1.0)], [mc.Ridge(1.0), mc.OnesColumn()]])
def test_counts_of_zero_alone_with_a_bias(terms):
    """The loss is flat where the infinite bias puts it: no curvature, no first step from it."""
    model = mc.Model([mc.Block("y", mc.Poisson(), bias=True)], terms)
    fit = mc.fit(model, {"y": np.zeros((3, 2))})
    assert fit.status == "certified"
    np.testing.assert_array_equal(fit.predict("y"), 0.0)


def test_counts_up_to_a_million():
    rng = np.random.default_rng(0)
    y = rng.poisson(np.exp(13.8 * rng.random((8, 2)) @ rng.random((2, 5)) / 2)).astype(float)
    y[0, 0], y[3, 1] = 1e6, np.nan
    fit = mc.fit(mc.Model([mc.Block("y", mc.Poisson())], [mc.NuclearNorm(1.0)]), {"y": y})
    assert fit.status == "certified"
    assert np.all(np.isfinite(fit.predict("y")))


def test_a_start_with_multipliers_saves_steps(table):
    """And one from a model of other terms does no harm."""
    block = mc.Block("features", mc.Gaussian())
    data = {"features": table["features"]}
    boxed = mc.Model([block], [mc.NuclearNorm(0.3), mc.Box(-0.5, 0.5)])
    cold = mc.fit(boxed, data)
    warm = mc.fit(boxed, data, start=cold)
    assert cold.status == warm.status == "certified"
    assert warm.history[-1].iteration <= cold.history[-1].iteration
    other = mc.Model([block], [mc.NuclearNorm(0.3), mc.ResidualNuclearNorm("features", 0.1)])
    begun, plain = mc.fit(other, data, start=cold), mc.fit(other, data)
    assert begun.status == "certified"
    assert abs(begun.objective - plain.objective) <= 2e-6 * plain.objective


def test_constraints_that_exclude_each_other_are_named(table):
    block = mc.Block("features", mc.Gaussian())
    sums = mc.Calibration("features", np.ones(20), np.full(8, 100.0))
    model = mc.Model([block], [mc.NuclearBall(1.0), sums])
    with pytest.raises(mc.BackendError, match="meets all constraints at once"):
        mc.fit(model, {"features": table["features"]})


def test_a_risk_that_falls_without_end_is_named():
    labels = np.where(np.arange(12).reshape(4, 3) % 2 == 0, 1.0, np.nan)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.9, likelihood=mc.Bernoulli())
    model = mc.Model([mc.Block("y", risk, bias=True)], [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.DataError, match="falls without end along the free bias of column 0"):
        mc.fit(model, {"y": labels})
    free = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(1e-3)])
    with pytest.warns(mc.NotCertifiedWarning, match="the objective falls without end"):
        mc.fit(free, {"y": labels}, max_iter=50)


def test_a_loss_that_is_not_convex_is_local():
    labels = np.where(np.arange(12).reshape(4, 3) % 2 == 0, 1.0, np.nan)
    risk = mc.RiskMixture(
        pu=1.0, missing_rate=0.3, likelihood=mc.Bernoulli("probit"), nonconvex=True
    )
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearBall(2.0)])
    with pytest.warns(mc.NotCertifiedWarning, match="local"):
        fit = mc.fit(model, {"y": labels})
    assert fit.status == "local"
    assert fit.gap == np.inf


def test_classes_are_predicted_and_filled_in():
    """A categorical column that a real one determines."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 40).astype(float)
    x = np.eye(3)[kinds.astype(int)] * 4 + 0.1 * rng.standard_normal((40, 3))
    hidden = kinds.copy()
    hidden[:8] = np.nan
    model = mc.Model(
        [mc.Block("x", mc.Gaussian()), mc.Block("kind", mc.Multinomial(3), bias=True)],
        [mc.NuclearNorm(0.5)],
    )
    fit = mc.fit(model, {"x": x, "kind": hidden})
    chances = fit.predict("kind")
    assert chances.shape == (40, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.array_equal(fit.impute("kind")[:, 0], kinds)
    assert fit.bias("kind").shape == (1, 3)


def test_thresholds_are_fitted_with_the_rest():
    rng = np.random.default_rng(1)
    z = 2 * rng.standard_normal((60, 1)) @ rng.standard_normal((1, 6))
    ratings = 1.0 + (z[..., None] + rng.logistic(size=(60, 6, 1)) > [-2.0, 0.0, 1.0]).sum(axis=-1)
    ratings[rng.random(ratings.shape) < 0.3] = np.nan
    model = mc.Model([mc.Block("ratings", mc.Ordinal(4))], [mc.NuclearNorm(3.0)])
    fit = mc.fit(model, {"ratings": ratings}, tol=1e-5)
    thresholds = fit.likelihood("ratings").thresholds
    assert thresholds == tuple(sorted(thresholds))
    assert np.all((fit.predict("ratings") >= 1) & (fit.predict("ratings") <= 4))


LEVELS = mc.Ordinal(3, thresholds=(-1.0, 1.0), lowest=2)


@pytest.mark.parametrize(
    ("likelihood", "z", "expected"),
    [
        (mc.Gaussian(), [-2.0, 0.3], [-2.0, 0.3]),
        (mc.Poisson(), [0.0, np.log(2.5)], [1.0, 2.5]),
        (mc.Bernoulli(), [-0.1, 0.0, 0.1], [0.0, 0.0, 1.0]),
        (mc.Bernoulli("probit", scale=3.0), [-5.0, 0.01], [0.0, 1.0]),
        (mc.Hinge(), [-0.1, 0.0, 0.1], [0.0, 0.0, 1.0]),
        (mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli()), [-1.0, 1.0], [0.0, 1.0]),
        (LEVELS, [-9.0, -0.5, 0.0, 0.5, 9.0], [2.0, 3.0, 3.0, 3.0, 4.0]),
        (mc.Multinomial(3), [[0.0, 2.0, 1.0], [5.0, 5.0, 0.0]], [1.0, 0.0]),
    ],
    ids=str,
)
def test_missing_entries_are_filled_with_what_data_can_be(likelihood, z, expected):
    filling = likelihood.filling(np.array(z))
    np.testing.assert_allclose(filling, expected)
    assert not likelihood.invalid(np.round(filling)).any()


def test_labels_and_levels_are_imputed_as_classes_are():
    """Every entry that was missing is a label or a level, the most probable one."""
    rng = np.random.default_rng(2)
    z = 2.0 * rng.standard_normal((40, 1)) @ rng.standard_normal((1, 6))
    labels = (z[:, :3] + rng.logistic(size=(40, 3)) > 0.0).astype(float)
    levels = 1.0 + (z[:, 3:, None] + rng.logistic(size=(40, 3, 1)) > [-1.0, 1.0]).sum(axis=-1)
    hidden = rng.random((40, 3)) < [0.0, 0.4, 0.4]
    data = {"labels": np.where(hidden, np.nan, labels), "levels": np.where(hidden, np.nan, levels)}
    blocks = [mc.Block("labels", mc.Bernoulli(), bias=True), mc.Block("levels", mc.Ordinal(3))]
    fit = mc.fit(mc.Model(blocks, [mc.NuclearNorm(1.0)]), data)
    found = fit.impute("labels")
    np.testing.assert_array_equal(found[hidden], fit.predict("labels")[hidden] > 0.5)
    np.testing.assert_array_equal(found[~hidden], labels[~hidden])
    thresholds = fit.likelihood("levels").thresholds
    below = 1.0 / (1.0 + np.exp(fit.natural("levels")[..., None] - np.array(thresholds)))
    shares = np.diff(below, axis=-1, prepend=0.0, append=1.0)
    wanted = 1.0 + np.argmax(shares, axis=-1)
    np.testing.assert_array_equal(fit.impute("levels")[hidden], wanted[hidden])
    again = fit.impute_rows("levels", data)
    assert np.mean(again == fit.impute("levels")) > 0.99


@pytest.mark.parametrize(
    "terms",
    [
        [mc.NuclearNorm(0.1), mc.MaxNormBall(5.0)],
        [mc.NuclearNorm(0.1), mc.MaxNorm(0.3)],
        [mc.MaxNorm(0.3), mc.NuclearBall(10.0)],
        [mc.NuclearNorm(0.1), mc.NuclearBall(10.0)],
    ],
    ids=repr,
)
def test_two_norms_and_a_fixed_column_certify(terms):
    """Both norms and the column's multiplier pull at the last column of Z."""
    x = np.array([[1.0, 2.0, np.nan], [2.0, 4.0, 6.0], [np.nan, 1.0, 2.0], [1.0, 1.0, 1.0]])
    model = mc.Model([mc.Block("x", mc.Gaussian())], [*terms, mc.OnesColumn()])
    for backend in ("auto", "reference"):
        assert mc.fit(model, {"x": x}, backend=backend, tol=1e-5).status == "certified"


def some_entries(rng, shape):
    return rng.integers(0, shape[0], 30), rng.integers(0, shape[1], 30)


def test_entries_equal_those_of_the_whole_block(model, table):
    blocks = [attrs.evolve(model.blocks[0], row_effects=True), model.blocks[1]]
    offset = np.linspace(-1.0, 1.0, 20 * 4).reshape(20, 4)
    data = {**table, "labels": mc.Observations(table["labels"], offset=offset)}
    fit = mc.fit(mc.Model(blocks, model.terms), data, tol=1e-4)
    for name, width in (("features", 8), ("labels", 4)):
        rows, columns = some_entries(np.random.default_rng(0), (20, width))
        for ask in (fit.predict, fit.natural):
            expected = ask(name)[rows, columns]
            np.testing.assert_allclose(ask(name, rows, columns), expected, rtol=1e-12)
            np.testing.assert_allclose(ask(name, list(rows), columns=columns), expected)
    assert fit.predict("labels", [], []).shape == (0,)


def test_entries_of_frames_are_named_by_position(model, table):
    frames = {name: pd.DataFrame(block, index=range(5, 25)) for name, block in table.items()}
    fit = mc.fit(model, frames)
    assert fit.predict("features", [3], [2])[0] == pytest.approx(
        fit.predict("features").iloc[3, 2]
    )


def test_entries_of_classes():
    rng = np.random.default_rng(0)
    kinds = np.where(rng.random((15, 4)) < 0.7, rng.integers(0, 3, (15, 4)), np.nan)
    model = mc.Model([mc.Block("k", mc.Multinomial(3), bias=True)], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"k": kinds})
    rows, columns = some_entries(rng, (15, 4))
    whole = fit.predict("k").reshape(15, 4, 3)
    found = fit.predict("k", rows, columns)
    np.testing.assert_allclose(found, whole[rows, columns])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert fit.natural("k", rows, columns).shape == (30, 3)


@pytest.mark.parametrize(
    ("rows", "columns", "named"),
    [
        ([0], None, "rows were given without columns"),
        (None, [0], "columns were given without rows"),
        ([0, 1], [0], "2 rows and 1 columns"),
        ([20], [0], "rows hold position 20; they go from 0 to 19"),
        ([0], [-1], "columns hold position -1; they go from 0 to 7"),
        ([0.5], [0], "dtype float64"),
        ([True], [0], "dtype bool"),
        (["a"], [0], "integers counted from 0"),
        ([0, [1]], [0, 0], "dtype object"),
        (3, [0], r"rows of shape \(\)"),
    ],
)
def test_wrong_entries_are_named(model, table, rows, columns, named):
    fit = mc.fit(model, table, tol=1e-2)
    with pytest.raises(mc.DataError, match=rf"block 'features': .*{named}"):
        fit.predict("features", rows, columns)


@pytest.mark.slow(seconds=2)
def test_a_block_beyond_memory_is_answered_by_entries():
    shape = (10**6, 10**5)
    rows, columns = np.arange(3), np.array([0, 1, 10**5 - 1])
    wide = sp.coo_array((np.ones(3), (rows, columns)), shape=shape)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(model, {"x": wide}, backend="alternating")
    for ask in (fit.predict, fit.natural, fit.impute, fit.log_likelihood):
        with pytest.raises(mc.DataError, match=r"GB, .*fit.predict\('x', rows=rows"):
            ask("x")
    np.testing.assert_allclose(fit.predict("x", rows, columns), 0.9, atol=1e-3)


@pytest.mark.parametrize("ask", ["predict", "impute", "natural", "log_likelihood", "residual"])
def test_a_block_that_is_not_there_is_named(ask):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    fit = mc.fit(model, {"x": np.eye(3)})
    with pytest.raises(mc.ModelError, match="there is no block 'q'"):
        getattr(fit, ask)("q")


@pytest.mark.parametrize("standardize", [False, True])
def test_a_slow_fit_of_unlike_scales_recommends_to_standardize(standardize):
    block = mc.Block("x", mc.Gaussian(), standardize=standardize, bias=True)
    model = mc.Model([block], [mc.NuclearNorm(0.1)])
    x = np.random.default_rng(0).standard_normal((30, 5)) * [1e-3, 1.0, 1.0, 1e3, 0.0]
    with pytest.warns(mc.NotCertifiedWarning) as told:
        mc.fit(model, {"x": x}, max_iter=2, tol=1e-14)
    assert ("standardize=True" in str(told[0].message)) is not standardize


def test_what_is_forced_is_refused_for_other_reasons_alone(model, monkeypatch):
    data = {"features": np.eye(3), "labels": np.eye(3)}
    reference = mc.Reference(force=True)
    monkeypatch.setattr("mcframe.backends.reference.MAX_SECONDS", 0.0)
    monkeypatch.setattr("mcframe.backends.splitting.MEMORY_SHARE", 0.0)
    assert mc.fit(model, data, backend=reference).status == "certified"
    assert mc.verify(model, data, backend=mc.backends.Forced(mc.Proximal()), reference=reference)
    for backend in ("reference", "proximal", mc.Proximal()):
        with pytest.raises(mc.BackendError, match=r"cannot run .*(it would take|more than 0%)"):
            mc.fit(model, data, backend=backend)
    with pytest.raises(mc.ModelError, match="reference='SCS' was given"):
        mc.verify(model, data, reference="SCS")


def test_a_column_that_loses_next_to_nothing_keeps_a_finite_weight():
    """Its loss is a number below 1e-308, 1 over which is infinite."""
    values, weights = np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([[1e-180, 1.0], [1e139, 1.0]])
    block = mc.Block("y", mc.Poisson(), bias=True, standardize=True)
    data = {"y": mc.Observations(values, weights=weights)}
    assert np.isfinite(mc.fit(mc.Model([block], [mc.NuclearNorm(1.0)]), data).gap)


def test_effects_that_sums_tie_and_whose_curvatures_overflow():
    """Offsets of 1e4 on the scale of logarithms, beside a penalty on sums of predictors."""
    rng = np.random.default_rng(0)
    values, offsets = rng.uniform(4e3, 9e3, (4, 3)), 1e4 * rng.standard_normal((4, 3))
    block = mc.Block("y", mc.Gamma(2.0), bias=True, row_effects=True, effects_weight=1e3)
    sums = mc.Calibration("y", rng.standard_normal((2, 4)), np.zeros((2, 3)), 0.1, of="predictors")
    model = mc.Model([block], [mc.MaxNormBall(0.3), sums])
    data = {"y": mc.Observations(values, offset=offsets)}
    with pytest.raises(mc.BackendError, match="the objective overflows at the start"):
        mc.fit(model, data, max_seconds=1.0)

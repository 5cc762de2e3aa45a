"""Xu et al. (2018): the published algorithm, and small versions of its tables and figures."""

import itertools

import numpy as np
import pytest
from papers import baselines
from papers.coco import (
    EXPERIMENTS,
    CocoBound,
    CocoFig1,
    CocoFig2,
    CocoOptimum,
    CocoTable1,
    CocoTable2,
)
from papers.data import cocompletion
from papers.experiment import Trial, summarised

import mcframe as mc
from mcframe.contracts.errors import NotCertifiedWarning
from mcframe.datasets.readers import folder
from mcframe.papers import coco, coco_0, coco_subgradient, concatenated, maxide
from mcframe.papers.xu import CocoSubgradient, nuclear_subgradient


@pytest.fixture
def table():
    return cocompletion(40, 20, 6, rank=2, observed=0.5)


def results(experiment, trials=2, seed=0):
    """Measures by setting, of some trials."""
    done = {
        trial: experiment.run(trial.setting, trial.generator(seed))
        for trial in experiment.trials(trials)
    }
    return summarised(done)


def naive_algorithm_1(data, lambda_2, n_steps, step, decay):
    """Algorithm 1 as one writes it down, the shrinkage by step * lambda_1."""
    x, y = data["features"], data["labels"]
    seen_x, seen_y = ~np.isnan(x), ~np.isnan(y)
    signs = np.where(seen_y, 2 * y - 1, 0.0)
    z = np.zeros((len(x), x.shape[1] + y.shape[1]))
    for _ in range(n_steps):
        residual = np.where(seen_x, z[:, : x.shape[1]] - np.nan_to_num(x), 0.0)
        left, s, right = np.linalg.svd(residual, full_matrices=False)
        gradient = 0.02 * residual + lambda_2 * seen_x * (left @ right)
        with np.errstate(over="ignore"):
            labels = -signs / (1 + np.exp(signs * z[:, x.shape[1] :]))
        left, s, right = np.linalg.svd(
            z - step * np.hstack([gradient, labels]), full_matrices=False
        )
        z = (left * np.maximum(s - step, 0)) @ right
        step = decay * step if step >= 40 else step
    return z


@pytest.mark.parametrize("lambda_2", [0.0, 1.0])
@pytest.mark.parametrize(("step", "decay"), [(100.0, 0.99), (60.0, 0.9)])
def test_algorithm_1_is_what_was_published(table, lambda_2, step, decay):
    """Its labels are unstable on so small a table, which lets rounding grow: few steps."""
    published = naive_algorithm_1(table.data, lambda_2, 12, step, decay)
    seen = {}
    fit = coco_subgradient(
        table.data,
        lambda_2=lambda_2,
        max_iter=12,
        first_step=step,
        decay=decay,
        observe=lambda t, z: seen.update({t: z}),
    )
    np.testing.assert_allclose(fit.latent.dense(), published, atol=1e-7)
    assert sorted(seen) == list(range(1, 13))
    np.testing.assert_array_equal(seen[12].dense(), fit.latent.dense())


def test_the_answer_is_the_last_iterate_though_another_was_better(table):
    """Early on the objective rises again."""
    fits = [coco_subgradient(table.data, max_iter=k) for k in range(8, 30)]
    objectives = [fit.objective for fit in fits]
    assert any(later > earlier for earlier, later in itertools.pairwise(objectives))
    for k, fit in zip(range(8, 30), fits, strict=True):
        assert fit.history[-1].iteration == k
        assert fit.history[-1].objective == pytest.approx(fit.objective, rel=1e-9)
    problem = mc.Problem.bind(coco(), table.data)
    with pytest.warns(NotCertifiedWarning):
        same = mc.fit(coco(), table.data, backend=CocoSubgradient(), tol=1e-9, max_iter=29)
    assert same.objective == pytest.approx(problem.objective(fits[-1].latent, {}), rel=1e-9)


def test_a_step_that_decays_without_end(table):
    kept = coco_subgradient(table.data, max_iter=200)
    fading = coco_subgradient(table.data, max_iter=200, least_step=0.0)
    assert fading.objective < kept.objective


def test_names_and_weights_of_coco():
    assert coco_0(0.5, 0.1) == coco(0.5, 0.0, 0.1)
    assert len(coco_0().terms) == 1
    with pytest.raises(mc.ModelError, match="lambda_2"):
        coco(lambda_2=-1.0)


def test_mc_is_the_squared_loss_of_both(table):
    problem = mc.Problem.bind(concatenated(0.3), table.data)
    both = np.hstack(list(table.data.values()))
    z = np.random.default_rng(0).standard_normal(both.shape)
    value = 0.5 * np.nansum((z - both) ** 2) + 0.3 * np.linalg.norm(z, "nuc")
    assert problem.objective(z, {}) == pytest.approx(value, rel=1e-12)


def test_maxide_as_a_model_has_the_optimum_of_the_algorithm():
    rng = np.random.default_rng(3)
    items = rng.standard_normal((30, 4))
    labels = (items @ rng.standard_normal((4, 6)) > 0).astype(float)
    labels[rng.random(labels.shape) < 0.5] = np.nan
    for weight in (0.1, 1.0):
        solved = mc.fit(maxide(items, 6, weight), {"labels": labels}, tol=1e-6)
        limits = {"tol": 1e-6, "change": 0.0, "max_iter": 5000}
        known = baselines.maxide(labels, items, weight=weight, **limits)
        assert solved.status == "certified"
        assert known.status == "certified"
        assert solved.bound <= known.objective
        assert known.bound <= solved.objective
        np.testing.assert_allclose(solved.predict("labels"), known.predict(), atol=1e-4)


def test_maxide_needs_complete_features_that_leave_something_out():
    with pytest.raises(mc.ModelError, match="items"):
        maxide([[1.0], [np.nan], [2.0]], 2)
    with pytest.raises(mc.ModelError, match="rank 2 in 2 rows"):
        maxide(np.eye(2), 2)


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (6, 6)])
def test_the_subgradient_of_the_nuclear_norm(shape):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal(shape)
    value, factor = nuclear_subgradient(matrix)
    assert value == pytest.approx(np.linalg.norm(matrix, "nuc"))
    assert np.sum(factor * matrix) == pytest.approx(value)
    assert np.linalg.norm(factor, 2) == pytest.approx(1.0)
    # Of low rank, where a Gram matrix would divide rounding by rounding.
    low = np.outer(matrix[:, 0], matrix[0])
    value, factor = nuclear_subgradient(low)
    np.testing.assert_allclose(factor, low / value, atol=1e-12)
    assert not nuclear_subgradient(np.zeros(shape))[1].any()


def test_the_table_is_drawn_as_the_paper_says():
    table = cocompletion(400, 300, 50, rank=4, observed=0.2, random_state=3)
    assert np.linalg.matrix_rank(table.features) == 4
    # Products of two numbers uniform in [-5, 5] have the variance (25 / 3)^2.
    assert np.var(table.features) == pytest.approx(4 * (25 / 3) ** 2, rel=0.1)
    assert table.seen_features.mean() == pytest.approx(0.2, abs=0.005)
    assert table.seen_labels.mean() == pytest.approx(0.2, abs=0.02)
    assert set(np.unique(table.labels)) == {0.0, 1.0}
    assert np.isnan(table.data["labels"]).mean() == pytest.approx(0.8, abs=0.02)
    again = cocompletion(400, 300, 50, rank=4, observed=0.2, random_state=3)
    np.testing.assert_array_equal(table.labels, again.labels)
    with pytest.raises(mc.DataError, match="observed"):
        cocompletion(4, 3, 2, rank=1, observed=0.0)


def test_what_the_paper_prints():
    table_1 = CocoTable1()
    printed = table_1.published()
    assert len(table_1.settings()) == 10
    assert len(printed) == 80
    first = table_1.settings()[0]
    assert first == "n=1000 d=500 l=100 r=10 20 %"
    assert printed[first, "X error, COCO-1"].mean == pytest.approx(0.0221)
    assert printed[first, "Y error, Mc"].deviation == pytest.approx(0.0018)
    assert CocoTable2().published()["CAL500", "Y error, Mc"].mean == 0.143
    for kind in EXPERIMENTS:
        assert kind.tiny().published() == {}
        assert kind.tiny() != kind()


@pytest.mark.slow(seconds=2)
@pytest.mark.reproduction
def test_coco_1_is_below_coco_0_in_x_error():
    """Seed 0, one trial: 0.09 and 0.06 against 0.15 and 0.10; a margin of 20 % is asked for."""
    summary = results(CocoTable1.tiny(), trials=1)
    for measures in summary.values():
        with_residual, without = measures["X error, COCO-1"], measures["X error, COCO-0"]
        for one, zero in zip(with_residual.values, without.values, strict=True):
            assert one < 0.8 * zero


@pytest.mark.reproduction
def test_the_errors_fall_with_the_iterations():
    """Seed 0: every X error at iteration 60 is below half of that at iteration 1."""
    experiment = CocoFig2.tiny()
    summary = results(experiment, trials=1)
    for measures in summary.values():
        for system in ("COCO-1", "COCO-0"):
            first = measures[f"X error, {system}, t=1"].mean
            assert measures[f"X error, {system}, t=60"].mean < 0.5 * first
    figure = pytest.importorskip("matplotlib.figure").Figure()
    assert experiment.draw(figure, summary)
    assert len(figure.axes) == 4


@pytest.mark.slow(seconds=11)
@pytest.mark.reproduction
def test_the_published_answer_is_not_the_optimum_of_its_problem():
    """Seed 0, one table: COCO-1 is 30 % above it, COCO-0 2 %; solved COCO-1 finds the features."""
    experiment = CocoOptimum.tiny()
    setting = experiment.settings()[0]
    measures = experiment.run(setting, Trial(setting, 0).generator(0))
    assert measures["excess, COCO-1 published"] > 0.05
    assert measures["excess, COCO-0 published"] > 0.001
    assert measures["X error, COCO-1 solved"] < 0.1 * measures["X error, COCO-1 published"]
    assert measures["gap, COCO-1 solved"] <= experiment.tol


@pytest.mark.reproduction
def test_the_labels_of_cal500_are_of_no_low_rank():
    """All 60 singular values of 60 songs are far from 0."""
    if folder() is None:
        pytest.skip("MCFRAME_DATA names no folder")
    experiment = CocoFig1.tiny()
    experiment.check()
    summary = results(experiment)
    found = summary["labels of CAL500"]
    spectrum = [each for name, each in found.items() if name.startswith("singular value")]
    assert len(spectrum) == 60
    assert found["error of the commonest values"].mean < found["error of no label"].mean < 0.2
    assert found["share of the squares in one feature"].mean > 0.9
    assert spectrum[-1].mean > 0.02 * spectrum[0].mean
    figure = pytest.importorskip("matplotlib.figure").Figure()
    assert experiment.draw(figure, summary)


def test_the_bound_of_theorem_2_has_the_order_that_the_paper_prints():
    """By hand: n = 40, d = 12, l = 8, half of the entries seen, rank 2."""
    bound = CocoBound.tiny().bound("rank 2", 0.5)
    assert bound == pytest.approx(np.sqrt(2 * 60 / 400 * (1 + 60 * np.log(60) / 400) * 20 / 8))


@pytest.mark.slow(seconds=10)
@pytest.mark.reproduction
def test_clean_data_train_the_better_classifiers():
    """Seed 0: recovery is worse than none is needed, and the oracle's error is 0."""
    if folder() is None:
        pytest.skip("MCFRAME_DATA names no folder")
    experiment = CocoTable2.tiny()
    measures = experiment.run("CAL500", Trial("CAL500", 0).generator(0))
    assert measures["X error, Oracle"] == measures["Y error, Oracle"] == 0.0
    assert all(0.0 < measures[f"Y error, {name}"] < 0.3 for name in ("COCO", "Maxide", "Mc"))
    assert all(0.05 < value < 0.5 for name, value in measures.items() if "test error" in name)

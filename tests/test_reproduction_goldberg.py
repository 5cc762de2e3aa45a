"""Tables 1 to 5 of Goldberg et al. in small: what must hold well outside of noise."""

import attrs
import numpy as np
import pytest
from papers import goldberg
from papers.data import masked, transduction
from papers.experiment import Trial
from papers.goldberg_contest import (
    FEATURE,
    LABEL,
    Tuning,
    contest,
    feature_error,
    label_error,
    run_method,
)
from papers.goldberg_figures import META_AVERAGES, SYNTHETIC, figures
from papers.tuning import best_of, folds_of_entries

from mcframe.datasets import MultiLabel

RAW = goldberg.AS_THEY_COME
QUICK = attrs.evolve(Tuning.tiny(), solve=False)


@pytest.mark.parametrize("kind", list(SYNTHETIC))
def test_the_figures_have_the_averages_that_the_paper_prints(kind):
    """Which column a figure belongs to was read from a text in which columns are mixed up."""
    for method, printed in META_AVERAGES[kind].items():
        cells = figures(SYNTHETIC[kind][method])
        assert len(cells) == 24
        decimals = 1 if kind == LABEL else 2
        average = np.mean([cell.mean for cell in cells])
        assert average == pytest.approx(printed, abs=0.5001 * 10**-decimals)


@pytest.mark.parametrize("experiment", goldberg.EXPERIMENTS[:5])
def test_published_figures_are_of_settings_and_methods_that_run(experiment):
    whole, tiny = experiment(), experiment.tiny()
    assert {setting for setting, _ in whole.published()} == set(whole.settings())
    assert not tiny.published()
    assert experiment.tiny() == tiny
    methods = {measure.removesuffix(f" {LABEL}").removesuffix(f" {FEATURE}")
               for _, measure in whole.published()}  # fmt: skip
    assert methods <= set(whole.methods)


def test_errors_are_of_hidden_entries_alone():
    truth = MultiLabel("two", np.array([[3.0, 4.0], [6.0, 8.0]]), np.array([[0.0], [1.0]]))
    task = masked(truth, 0.5, np.random.default_rng(0))
    hidden = ~task.seen_features
    wrong = truth.features + 5.0 * task.seen_features + hidden
    size = np.sqrt(2.0 / np.sum(truth.features[hidden] ** 2))
    assert feature_error(task, wrong) == pytest.approx(size)
    missed = np.where(task.seen_labels, 1.0 - truth.labels, truth.labels)
    assert label_error(task, missed) == 0.0
    assert label_error(task, 1.0 - missed) == 100.0


def test_the_generator_draws_what_section_4_says():
    task = transduction(np.random.default_rng(0), n_items=2000, rank=3, noise=0.04, observed=0.2)
    x, y = task.truth.features, task.truth.labels
    assert x.shape == (2000, 20)
    assert y.shape == (2000, 10)
    assert np.var(x) == pytest.approx(1.04, abs=0.02)
    values = np.linalg.svd(x, compute_uv=False)
    assert values[2] > 10 * values[3]  # rank 3 above the noise
    assert np.mean(values[3:] ** 2) / 2000 == pytest.approx(0.04, rel=0.1)
    assert task.seen_features.sum() == 8000
    assert task.seen_labels.sum() == 4000
    observed = task.observed
    np.testing.assert_array_equal(np.isnan(observed["labels"]), ~task.seen_labels)
    np.testing.assert_array_equal(observed["features"][task.seen_features], x[task.seen_features])


def test_a_draw_divided_by_the_root_of_the_rank_has_the_same_random_numbers():
    ours, theirs = (
        transduction(np.random.default_rng(0), rank=2, noise=0.0, expected=expected)
        for expected in (False, True)
    )
    ratio = theirs.truth.features / ours.truth.features
    np.testing.assert_allclose(ratio, ratio[0, 0])
    assert np.std(ours.truth.features) == pytest.approx(1.0)
    np.testing.assert_array_equal(theirs.seen_features, ours.seen_features)
    sizes = [
        np.var(transduction(np.random.default_rng(seed), expected=True).truth.features)
        for seed in range(400)
    ]
    assert np.mean(sizes) == pytest.approx(1.01, abs=4 * np.std(sizes) / 20)
    assert np.std(sizes) > 0.1


@pytest.mark.slow(seconds=3)
def test_a_method_draws_the_same_whatever_is_measured():
    """Table 2 is of the trials of Table 1."""
    setting, number = "noise 0.01, rank 2, n 60, 40%", 3
    table = attrs.evolve(goldberg.EXPERIMENTS[0].tiny(), tuning=QUICK)
    together = table.run(setting, Trial(setting, number).generator(0))
    alone = {
        part: table.run_part(setting, part, Trial(setting, number, part).generator(0))
        for part in ("MC-1", "Zero+SVM")
    }
    assert alone["MC-1"] | alone["Zero+SVM"] == {
        measure: value
        for measure, value in together.items()
        if measure.startswith(("MC-1", "Zero"))
        and not any(other in measure for other in ("posterior", "fifths", "ties", "root of r"))
    }
    other = attrs.evolve(goldberg.EXPERIMENTS[1].tiny(), tuning=QUICK)
    assert other.run_part(setting, "MC-1", Trial(setting, number).generator(0)) == alone["MC-1"]
    shown = [{name for name in together if each.shows(name)} for each in (table, other)]
    assert not shown[0] & shown[1]


def test_cross_validation_divides_the_observed_entries_and_walks_every_path():
    rng = np.random.default_rng(0)
    data = {"x": np.where(rng.random((9, 5)) < 0.5, np.nan, 1.0)}
    seen = ~np.isnan(data["x"])
    folds = list(folds_of_entries(data, 4, rng))
    assert np.sum([held["x"] for _, held in folds], axis=0)[seen].tolist() == [1] * seen.sum()
    for shown, held in folds:
        np.testing.assert_array_equal(np.isnan(shown["x"]), ~seen | held["x"])
    walks = [lambda _: [4.0, 3.0, 5.0], lambda _: [3.0, 2.0, 2.0, 1.0]]
    visits = []

    def score(answer, held):
        visits.append(answer)
        return answer if len(visits) < 20 else answer + 1.0

    assert best_of(walks, data, score, 4, rng) == (1, 3)
    assert len(visits) == 4 * 7
    assert best_of([lambda _: [1.0, 1.0], lambda _: [1.0]], data, lambda a, _: a, 2, rng) == (0, 0)


def test_the_grid_of_mu_is_that_of_section_4():
    blocks = np.array([[3.0, np.nan]]), np.array([[4.0]])
    weights = Tuning(last=0.02).weights(*blocks)
    np.testing.assert_allclose(weights, [1.25, 0.3125, 0.078125, 0.02])


@pytest.mark.parametrize("scale", [1.0, pytest.param(20.0, marks=pytest.mark.slow(seconds=2))])
def test_posteriors_need_no_tuning(scale):
    task = transduction(np.random.default_rng(3), n_items=80, observed=0.5)
    truth = attrs.evolve(task.truth, features=scale * task.truth.features)
    found = run_method(attrs.evolve(task, truth=truth), "MC-1, posterior", QUICK, None)
    assert found["MC-1, posterior feature error"] < 0.3
    assert 80.0 < found["MC-1, posterior features in their 90 % intervals, %"] < 97.0


def test_features_are_scaled_as_the_tables_say():
    features = np.random.default_rng(0).normal(3.0, [1.0, 5.0], (50, 2))
    one = goldberg.scaled(features, "one factor")
    np.testing.assert_allclose(one / features, 1.0 / features.std())
    both = goldberg.scaled(features, "columns")
    np.testing.assert_allclose(both.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(both.std(axis=0), 1.0)


@pytest.mark.slow(seconds=1)
@pytest.mark.reproduction
def test_mc_1_is_below_mean_imputation_with_support_vector_machines():
    """Noise 0.01, rank 2, 60 items, 40 % observed; of 100 items the paper prints 10.8 and 16.5.

    Draws 0 to 2 of seed 0; the margin is 4 points in the mean, which is 6.9, with single draws
    from 1.4 to 9.7 among the first six.
    """
    tuning = attrs.evolve(QUICK, folds=3, last=1e-3, strengths=(1e-2, 1.0, 1e2))
    errors = []
    for number in range(3):
        rng = Trial("mc-1", number).generator(0)
        task = transduction(rng, n_items=60, observed=0.4)
        found = contest(task, ("MC-1", "Mean+SVM"), tuning, rng)
        errors.append((found["MC-1 label error %"], found["Mean+SVM label error %"]))
    completed, imputed = np.mean(errors, axis=0)
    assert completed < imputed - 4.0


@pytest.mark.reproduction
def test_solving_mc_1_beats_its_published_algorithm_on_its_own_objective():
    rng = Trial("excess", 0).generator(0)
    task = transduction(rng, n_items=60, observed=0.4)
    tuning = attrs.evolve(QUICK, solve=True, last=1e-3)
    found = contest(task, ("MC-1", "MC-b"), tuning, rng)
    assert found["MC-1 excess %"] > found["MC-b excess %"] >= 0.0


@pytest.mark.slow(seconds=3)
@pytest.mark.reproduction
def test_a_real_table_in_small():
    """Digits stand in for the real tables: every method answers, the oracle errs least or so."""
    table = attrs.evolve(goldberg.Table4.tiny(), tuning=QUICK)
    errors = table.run("60%", Trial("60%", 0).generator(0))
    names = {
        goldberg.with_suffix(f"{method.removesuffix(RAW)} {LABEL}", RAW * method.endswith(RAW))
        for method in table.methods
    }
    assert names <= set(errors)
    assert errors["Oracle SVM label error %"] < errors["Zero+SVM label error %"]
    assert errors["Zero+SVM feature error"] == 1.0

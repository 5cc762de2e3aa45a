"""Numbers that are predicted from the others of their row, as if they had been missing."""

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.estimators import MatrixCompletionClassifier, MatrixCompletionRegressor
from mcframe.estimators.base import folds_of_numbers
from mcframe.model.held_out import NEVER_HELD_OUT, dealt_cells
from mcframe.numerics import row_mixtures
from mcframe.numerics.row_mixtures import (
    IncompleteRows,
    RowMixture,
    conditionals,
    leave_one_out,
    moments_of,
)
from mcframe.posterior.row_variances import NOISE_SHARE as NOISE_OF_TABLES
from mcframe.posterior.row_variances import student_variance_inflation, variance_exponents_of
from mcframe.tables.missingness import CoMissingness, Missingness
from mcframe.tables.number_tables import number_block, standard_units
from mcframe.tables.rows_choice import choose_rows
from mcframe.tables.rows_folds import folds_of_parts

NOISE = 0.1


def drawn(seed=0, n=60, d=5, share=0.3):
    """Rows with two common directions, and holes; one row has nothing but holes."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    values += 0.5 * rng.standard_normal((n, d))
    values[rng.random((n, d)) < share] = np.nan
    values[0] = np.nan
    return values


def some_rows(n_components, d=5):
    rng = np.random.default_rng(1)
    roots = rng.standard_normal((n_components, d, d))
    shares = rng.dirichlet(np.ones(n_components))
    means = rng.standard_normal((n_components, d))
    return RowMixture(np.log(shares), means, roots @ roots.transpose(0, 2, 1))


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("batch", [20, 10**6])
@pytest.mark.parametrize("least", [1, 10**9])
def test_numbers_left_out_are_predicted_as_if_they_were_missing(
    n_components, batch, least, monkeypatch
):
    """One by one, those of one owner together; against the posterior of rows without them."""
    monkeypatch.setattr(row_mixtures, "BATCH_NUMBERS", batch)
    monkeypatch.setattr(row_mixtures, "LEAST_NUMBERS_OF_PATTERN", least)
    values, rows = drawn(), some_rows(n_components)
    values[:, 2][np.isnan(values[:, 1])] = np.nan
    values[:, 1][np.isnan(values[:, 2])] = np.nan
    values[10:20, :2] = np.nan  # rows with the same holes are solved together
    values[10:20, 2] = np.nan
    values[10:20, 3:] = 1.0 + 0.1 * np.arange(20.0).reshape(10, 2)
    owners = np.array([0, 1, 1, 2, 3])
    found, variances = leave_one_out(values, NOISE, rows, owners)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
    for owner in range(4):
        own = np.flatnonzero(owners == owner)
        less = values.copy()
        less[:, own] = np.nan
        table = IncompleteRows.of(less, np.full(5, 1.0 / NOISE), np.ones(5))
        cells = conditionals(table, rows)
        weights = cells.responsibilities.T[:, :, None]
        expected, spread = moments_of(weights, cells.means, cells.variances)
        seen = ~np.isnan(values[:, own])
        np.testing.assert_allclose(found[:, own][seen], expected[:, own][seen], atol=1e-9)
        spread = spread[:, own][seen] + NOISE
        np.testing.assert_allclose(variances[:, own][seen], spread, rtol=1e-7)


def folds(values, count=3, seed=0):
    owners = np.arange(values.shape[1])
    parts = dealt_cells(values, count, np.random.default_rng(seed))
    return folds_of_parts(values, parts, owners, count)


def test_every_observed_entry_is_held_out_once():
    values = drawn()
    found = folds(values)
    np.testing.assert_array_equal(sum(fold.held_out_entries for fold in found), ~np.isnan(values))
    for fold in found:
        np.testing.assert_array_equal(
            np.isnan(fold.seen), np.isnan(values) | fold.held_out_entries
        )


def test_each_fold_has_its_share_of_a_rare_value():
    codes = np.zeros((300, 2))
    codes[::50, 0] = 1.0
    parts = dealt_cells(codes, 3, np.random.default_rng(0))
    assert np.bincount(parts[codes[:, 0] == 1.0, 0]).tolist() == [2, 2, 2]


def test_what_is_dealt_depends_on_no_order_of_columns():
    values = drawn()
    order = [3, 0, 4, 2, 1]
    first, second = (
        dealt_cells(v, 3, np.random.default_rng(0)) for v in (values, values[:, order])
    )
    np.testing.assert_array_equal(second, first[:, order])


def test_the_choice_is_the_least_loss():
    values = drawn(n=100)
    chosen, told = choose_rows(folds(values))
    best = chosen.tried[int(np.argmin(chosen.means))]
    assert (chosen.components, chosen.prior_rows, chosen.feature_noise) == best
    assert chosen.losses.shape == (len(chosen.tried), 3)
    assert chosen.means.min() < 0.7
    for fold, own in zip(folds(values), told, strict=True):
        np.testing.assert_array_equal(~np.isnan(own.means), fold.held_out_entries)
        np.testing.assert_array_equal(~np.isnan(own.variances), fold.held_out_entries)
    fixed, _ = choose_rows(folds(values), prior_rows=7.0)
    assert (fixed.components, fixed.prior_rows, len(fixed.tried)) == (1, 7.0, 1)


def test_independent_columns_have_a_strong_prior_and_clusters_several_components():
    rng = np.random.default_rng(0)
    apart, _ = choose_rows(folds(rng.standard_normal((60, 6))))
    assert apart.prior_rows >= 100.0
    assert apart.components == 1
    centres = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 4.0], [-4.0, 4.0, -4.0]])
    values = centres[rng.integers(3, size=300)] + rng.standard_normal((300, 3))
    values[rng.random(values.shape) < 0.1] = np.nan
    clustered, _ = choose_rows(folds(values))
    assert clustered.components >= 2


def test_features_that_tell_nothing_get_noise_where_targets_tell_of_each_other():
    rng = np.random.default_rng(0)
    targets = rng.standard_normal((80, 1)) + 0.5 * rng.standard_normal((80, 6))
    targets[rng.random(targets.shape) < 0.4] = np.nan
    useless = rng.standard_normal((80, 30))
    useful = np.nanmean(targets, axis=1, keepdims=True) + 0.1 * rng.standard_normal((80, 1))
    found = {}
    for name, features in (("useless", useless), ("useful", useful)):
        folds = folds_of_numbers(np.hstack([features, targets]), 6, 3, np.random.default_rng(0))
        found[name], _ = choose_rows(folds, components=())
    assert found["useless"].feature_noise >= 3.0
    assert found["useful"].feature_noise <= 0.1
    # Where all targets of a row are asked for, none tells of another.
    whole = np.where(np.isnan(targets), 0.0, targets)
    folds = folds_of_numbers(np.hstack([useless, whole]), 6, 3, np.random.default_rng(0))
    chosen, _ = choose_rows(folds, components=())
    assert {noise for _, _, noise in chosen.tried} == {NOISE_OF_TABLES}


def test_powers_are_those_of_the_errors():
    """Errors whose variance is a power of what is said: that power is found, near 1 if few."""
    rng = np.random.default_rng(0)
    said, powers = rng.uniform(0.05, 1.0, (4000, 3)), np.array([0.5, 1.0, 2.0])
    errors = np.sqrt(said**powers) * rng.standard_normal(said.shape)
    np.testing.assert_allclose(variance_exponents_of(errors**2, said), powers, atol=0.08)
    few = variance_exponents_of(errors[:3] ** 2, said[:3])
    assert np.all(np.abs(few - 1.0) < 0.5)
    errors[:, 1] = np.nan
    assert variance_exponents_of(errors**2, said)[1] == 1.0
    assert np.isfinite(variance_exponents_of(np.full((5, 1), 1e300), np.zeros((5, 1)))).all()


@pytest.mark.parametrize("n", [2, 3, 8, 100])
def test_factors_make_intervals_cover_a_new_number(n):
    """By the mean and the variance of n others."""
    rng = np.random.default_rng(0)
    x, new = rng.standard_normal((n, 100_000)), rng.standard_normal(100_000)
    variances = student_variance_inflation(np.array([n]))[0] * (1.0 + 1.0 / n) * x.var(axis=0)
    inside = np.abs(new - x.mean(axis=0)) < 1.6449 * np.sqrt(variances)
    assert inside.mean() == pytest.approx(0.9, abs=0.004)
    np.testing.assert_array_equal(
        student_variance_inflation(np.array([0, 1])), student_variance_inflation(np.array([2, 2]))
    )


@pytest.mark.slow(seconds=8)
@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
def test_intervals_of_few_rows_cover():
    """Half of twelve rows says little of means, variances and correlations."""
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((12, 1)) @ rng.standard_normal((1, 4))
        frame = pd.DataFrame(x + rng.standard_normal(x.shape)).rename(columns=str)
        hidden = rng.permuted(
            np.repeat([[True], [False]], 6, axis=0) & np.ones((12, 4), bool), axis=0
        )
        lower, upper = mc.complete(frame.mask(hidden)).interval(0.9)
        inside = (lower <= frame) & (frame <= upper)
        covered.append(inside.to_numpy()[hidden].mean())
    assert 0.88 <= np.mean(covered) <= 0.95


@pytest.mark.slow(seconds=2)
def test_what_is_missing_together_is_held_out_together():
    """Two columns are nearly one and never observed alone: their errors are those by the third."""
    covered, sizes = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal(300)
        frame = pd.DataFrame({"a": z + 0.4 * rng.standard_normal(300), "x": z, "twin": 3.0 * z})
        frame["label"] = np.where(z > 0.0, "yes", "no")
        hidden = rng.random(300) < 0.2
        given = frame.copy()
        given.loc[hidden, ["x", "twin", "label"]] = None
        completed = mc.complete(given, relations=[])  # of which one would be the other
        error = np.sqrt(np.mean((completed.table["x"] - frame["x"])[hidden] ** 2))
        wrong = np.mean((completed.table["label"] != frame["label"])[hidden])
        told = [score.error for score in completed.scores]
        sizes.append([told[1] / error, told[3] / wrong])
        lower, upper = completed.interval(0.9)
        inside = (lower["x"] <= frame["x"]) & (frame["x"] <= upper["x"])
        covered.append(inside[hidden].mean())
    assert 0.84 <= np.mean(covered) <= 0.95
    assert np.all(np.abs(np.mean(sizes, axis=0) - 1.0) < 0.35)


def test_gaps_are_those_of_columns_that_are_missing_together():
    rng = np.random.default_rng(0)
    missing = rng.random((2000, 4)) < 0.3
    missing[:, 1] = missing[:, 0]
    missing[:, 2] |= missing[:, 0] & (rng.random(2000) < 0.5)
    gaps = CoMissingness.of_columns(missing, rng)
    assert set(gaps) == {0, 1, 2}
    observed = np.flatnonzero(~missing[:, 0])
    hidden = gaps[0].hidden(observed)
    shares = (hidden | missing[observed]).mean(axis=0)
    np.testing.assert_allclose(shares[1:], missing[missing[:, 0]].mean(axis=0)[1:], atol=0.05)
    assert not hidden[:, 3].any()
    assert not CoMissingness.of_columns(rng.random((2000, 4)) < 0.3, rng)


@pytest.mark.parametrize("seed", range(3))
def test_held_out_entries_are_predicted_without_what_is_missing_with_them(seed):
    """Entry by entry, each from its row without all numbers of the entries to hide with it."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 5))
    values[rng.random(60) < 0.3] *= [[np.nan, np.nan, np.nan, 1.0, 1.0]]  # two of one column
    values[rng.random(60) < 0.2, 4] = np.nan
    column_of_number = np.array([0, 1, 1, 2, 3])
    codes = values[:, [0, 1, 3, 4]]
    co_missing = CoMissingness.of_columns(np.isnan(codes), rng)
    assert set(co_missing) >= {0, 1}
    parts = dealt_cells(codes, 3, rng)
    for fold in folds_of_parts(values, parts, column_of_number, 3, co_missing=co_missing):
        posterior = fold.estimate(1, 3.0)
        moments, units = fold.predict(posterior), standard_units(fold.seen)
        standard = units.apply(values, *np.ogrid[:60, :5])
        for row, column in np.transpose(np.nonzero(fold.held_out_entries)):
            numbers, seen = column_of_number == column, standard[[row]]
            seen[:, numbers] = np.nan
            if column in co_missing:
                seen[co_missing[column].hidden(np.array([row]))[:, column_of_number]] = np.nan
            cells = posterior.condition(seen, fold.precisions()).cells
            means = units.invert(cells.means[0], np.array([[row]]), np.arange(5))
            np.testing.assert_allclose(moments.means[row, numbers], means[0, numbers], rtol=1e-6)
            np.testing.assert_allclose(
                moments.variances[row, numbers],
                cells.variances[0, 0, numbers] + NOISE_OF_TABLES,
                rtol=1e-6,
            )


def test_columns_that_go_missing_together_are_not_weighted():
    """They are hidden together, and which of them are missing says nothing of an error."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((600, 1)) + rng.standard_normal((600, 4))
    values[np.ix_(rng.random(600) < 0.3, [0, 1])] = np.nan
    values[rng.random(values.shape) < 0.05] = np.nan
    for missingness in Missingness.of_columns(values, np.arange(4), rng):
        np.testing.assert_array_equal(missingness.weights, 1.0)


@pytest.mark.parametrize("n_cities", [8, 12])
def test_many_categories_are_told_apart_by_one_gaussian(n_cities):
    """Components of a mixture tell them apart badly: of 8 they mistook a third."""
    rng = np.random.default_rng(0)
    city = rng.choice(n_cities, 600)
    place = rng.standard_normal((n_cities, 2))[city] + 0.1 * rng.standard_normal((600, 2))
    frame = pd.DataFrame(place, columns=["east", "north"])
    names = np.char.add("c", city.astype(str)).astype(object)
    hidden = rng.random(600) < 0.2
    completed = mc.complete(frame.assign(city=np.where(hidden, None, names)))
    assert completed.chosen.components == 1
    assert np.mean(completed.table["city"].to_numpy()[hidden] != names[hidden]) < 0.15


@pytest.mark.parametrize("n_classes", [20, pytest.param(40, marks=pytest.mark.slow(seconds=3))])
def test_classes_that_each_column_says_little_of_are_told_apart(n_classes):
    """Parts of a number: of each indicator it says next to nothing, of all of them much."""
    x = np.random.default_rng(0).standard_normal(1500)
    parts = np.argsort(np.argsort(x)) * n_classes // x.size
    names = np.char.add("p", parts.astype(str)).astype(object)
    hidden = np.random.default_rng(1).random(x.size) < 0.2
    completed = mc.complete(pd.DataFrame({"x": x, "part": np.where(hidden, None, names)}))
    wrong = np.mean(completed.table["part"].to_numpy()[hidden] != names[hidden])
    assert wrong < 0.3
    # Codings that are scored rest on two thirds of the held-out entries.
    assert wrong - 0.05 < completed.scores[1].error < wrong + 0.25
    assert completed.sd["part"].to_numpy()[hidden].mean() > wrong - 0.05


@pytest.mark.parametrize(
    ("n", "d"), [pytest.param(100, 30, marks=pytest.mark.slow(seconds=4)), (60, 80)]
)
def test_errors_are_as_large_as_they_are_said_to_be(n, d):
    """Where columns are many, the prior that predicts best has far larger variances."""
    covered, sizes = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
        frame = pd.DataFrame(x + 0.5 * rng.standard_normal(x.shape)).rename(columns=str)
        hidden = rng.random(x.shape) < 0.3
        completed = mc.complete(frame.mask(hidden))
        lower, upper = completed.interval(0.9)
        covered.append(((lower <= frame) & (frame <= upper)).to_numpy()[hidden].mean())
        errors = (completed.table - frame).to_numpy()[hidden]
        drawn = (completed.draws(1)[0] - frame).to_numpy()[hidden]
        sizes.append([np.mean(errors**2), np.mean(completed.sd.to_numpy()[hidden] ** 2)])
        sizes[-1].append(np.mean(drawn**2))
    error, said, of_draws = np.sqrt(np.mean(sizes, axis=0))
    assert 0.85 < np.mean(covered) < 0.94
    assert 0.85 < said / error < 1.2
    assert 1.25 < of_draws / error < 1.75


def test_the_posterior_has_the_chosen_noise_of_features():
    rng = np.random.default_rng(0)
    labels = (rng.standard_normal((80, 1)) + 0.5 * rng.standard_normal((80, 6)) > 0.0).astype(
        float
    )
    labels[rng.random(labels.shape) < 0.4] = np.nan
    x = rng.standard_normal((80, 30))
    model = MatrixCompletionClassifier().fit(x, labels)
    noise = model.prior_search_.feature_noise
    assert noise >= 3.0
    [features, targets] = model.model_.blocks
    assert (features.likelihood.variance, targets.likelihood.variance) == (noise, None)
    np.testing.assert_allclose(model.completion_.noise(features.name), noise * np.var(x, axis=0))


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e9), (1e12, -1e13)])
def test_predictions_are_in_the_units_of_the_data(scale, offset):
    values = drawn(n=100)
    found = []
    for own in (values, offset + scale * values):
        fold = folds(own)[0]
        found.append(fold.predict(fold.estimate(1, 10.0)).means)
    np.testing.assert_allclose((found[1] - offset) / scale, found[0], atol=1e-5)


def test_targets_are_predicted_from_what_was_seen():
    """With all targets of a row held out, no other target has a say."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    values = np.column_stack([x, x + rng.standard_normal(200), rng.standard_normal(200)])
    values[:, 2] = values[:, 1]
    held = np.zeros(values.shape, dtype=bool)
    held[:60, 1:] = True
    loss = {}
    for n_features in (0, 1):
        parts = np.where(held, 0, NEVER_HELD_OUT)
        [fold] = folds_of_parts(values, parts, np.arange(3), 1, n_features=n_features)
        loss[n_features] = fold.loss(fold.predict(fold.estimate(1, 3.0)).means)
    assert loss[0] < 0.1 < 0.4 < loss[1]


@pytest.mark.parametrize("estimator", [MatrixCompletionClassifier, MatrixCompletionRegressor])
def test_targets_without_a_value_are_refused(estimator):
    rng = np.random.default_rng(0)
    targets = (rng.random((40, 3)) > 0.5).astype(float)
    targets[:, 1] = np.nan
    with pytest.raises(mc.DataError, match="column 1 of y holds nothing but missing values"):
        estimator().fit(rng.standard_normal((40, 4)), targets)


def test_text_and_dates_are_no_targets():
    x = np.arange(6.0)[:, None]
    text = np.array([["yes", "no"]] * 6)
    for estimator, targets in (
        (MatrixCompletionClassifier, text),
        (MatrixCompletionRegressor, text),
    ):
        with pytest.raises(mc.DataError, match="y holds 'yes' where numbers"):
            estimator().fit(x, targets)
    with pytest.raises(mc.DataError, match="y holds datetime64"):
        MatrixCompletionRegressor().fit(x, np.arange(6).astype("datetime64[D]"))


def test_numbers_of_a_part_of_the_rows_are_read_in_the_units_of_all():
    values = np.random.default_rng(0).standard_normal((80, 5))
    values[60:] *= 50.0
    chosen, moments = choose_rows(folds(values[:60]), prior_rows=7.0)
    model = chosen.model([number_block("x")])
    _, final = chosen.posterior(model, {"x": values}, folds(values[:60]), moments)
    np.testing.assert_allclose(final.spread, standard_units(values).spread)

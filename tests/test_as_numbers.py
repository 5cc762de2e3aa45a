"""Columns of any kind as numbers of one block, and what their means say of values."""

import numpy as np
import pandas as pd
import pytest
import scipy
from scipy.special import logsumexp

import mcframe as mc
from mcframe.tables.calibrating import calibrated
from mcframe.tables.coding import CountedNumbers, Numbers
from mcframe.tables.declared_column import as_numbers
from mcframe.tables.indicator_codings import Indicator, Indicators, Steps
from mcframe.tables.platt_scaling import (
    LARGEST_SLOPE,
    LEAST_DEVIATION,
    PRIOR_DEVIATION,
    most_likely,
)
from mcframe.tables.raw_predictions import RawPredictions

from .test_declare import mixed

NAN = np.nan


def test_every_column_has_its_own_columns_of_the_block():
    declared = mc.declare(mixed(), {"visits": "count", "day": "date"})
    columns = as_numbers(declared.columns)
    widths = [each.block_coding.width for each in columns]
    assert [each.place for each in columns] == [0, *np.cumsum(widths)[:-1]]
    assert sum(widths) == len(columns) + 2  # the towns are three, every other column one
    for each in columns:
        coding = each.block_coding
        numbers = coding.numbers(each.codes)
        assert numbers.shape == (60, coding.width)
        np.testing.assert_array_equal(np.isnan(numbers).any(axis=1), np.isnan(each.codes))
        np.testing.assert_array_equal(np.isnan(numbers).all(axis=1), np.isnan(each.codes))


@pytest.mark.parametrize("slope", [0.5, 4.0, 50.0])
def test_values_that_are_known_are_the_most_probable(slope):
    codes = np.array([0.0, 2.0, 1.0, 1.0])
    for coding in (Indicators(("a", "b", "c")), Steps(("a", "b", "c"), slope)):
        answer = coding.decode(coding.numbers(codes))
        np.testing.assert_allclose(answer.sum(axis=1), 1.0)
        np.testing.assert_array_equal(coding.predicted(answer), codes)
    label = Indicator((False, True), slope)
    answer = label.decode(np.array([[0.2], [0.7], [0.5]]))
    assert label.predicted(answer).tolist() == [0.0, 1.0, 0.0]
    odds = np.exp(slope * (0.8 - 0.2))
    np.testing.assert_allclose(answer[0], [odds / (1.0 + odds), 1.0 / (1.0 + odds)])


def test_slope_and_intercept_are_those_of_the_highest_likelihood():
    """Labels drawn from a logistic model of the mean give its slope and intercept back."""
    rng = np.random.default_rng(0)
    means = rng.random((20_000, 1))
    p = 1.0 / (1.0 + np.exp(-(6.0 * means[:, 0] - 4.0)))
    codes = (rng.random(20_000) < p).astype(float)
    found = calibrated(Indicator(("no", "yes")), codes, RawPredictions(means))
    answer = found.decode(means)
    np.testing.assert_allclose(answer[:, 1], p, atol=0.02)
    assert found.slope == pytest.approx(3.0, abs=0.15)  # of 2 m - 1
    assert calibrated(Numbers(), codes, RawPredictions(means)) == Numbers()
    assert calibrated(Indicator(("no", "yes")), codes[:0], RawPredictions(means[:0])) == Indicator(
        ("no", "yes")
    )


def test_levels_have_cut_points_of_their_own():
    """Skewed levels whose means are timid: the nearest level is nearly always the middle one."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    codes = np.digitize(x + 0.3 * rng.standard_normal(3000), [0.8, 1.5]).astype(float)
    means = (np.mean(codes) + 0.35 * x)[:, None]
    plain = Steps(("low", "middle", "high"))
    found = calibrated(plain, codes, RawPredictions(means))
    wrong = np.mean(found.predicted(found.decode(means)) != codes)
    assert (
        wrong < 0.7 * np.mean(codes != 0.0) < np.mean(np.clip(np.rint(means[:, 0]), 0, 2) != codes)
    )
    answer = found.decode(means)
    shares = np.bincount(codes.astype(int)) / codes.size
    np.testing.assert_allclose(answer.mean(axis=0), shares, atol=0.01)
    medians = np.argmax(np.cumsum(answer, axis=1) >= 0.5, axis=1)
    np.testing.assert_array_equal(found.predicted(answer), medians)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_few_entries_say_little(n):
    means, codes = np.linspace(0.4, 0.6, n)[:, None], np.arange(n) % 2.0
    answer = calibrated(Indicator(("no", "yes")), codes, RawPredictions(means)).decode(
        np.array([[0.0], [1.0]])
    )
    assert answer[0, 1] < 0.5 < answer[1, 1]
    assert (answer > 0.001).all()


def test_a_class_in_the_middle_has_a_place_of_its_own():
    """Three classes along a line: regressions on indicators never have the middle one largest."""
    rng = np.random.default_rng(0)
    x = np.repeat([-1.0, 0.0, 1.0], 300) + 0.2 * rng.standard_normal(900)
    codes = np.repeat([0.0, 1.0, 2.0], 300)
    design = np.column_stack([np.ones(900), x])
    indicated = Indicators(("low", "middle", "high")).numbers(codes)
    means = design @ np.linalg.lstsq(design, indicated)[0]
    plain = Indicators(("low", "middle", "high"))
    assert np.mean(plain.predicted(plain.decode(means)) != codes) > 0.2
    found = calibrated(plain, codes, RawPredictions(means))
    assert np.mean(found.predicted(found.decode(means)) != codes) < 0.02
    np.testing.assert_allclose(found.decode(means).sum(axis=1), 1.0)
    alone = calibrated(plain, codes[:5], RawPredictions(means[:5]))  # a single class was held out
    assert np.isfinite(alone.decode(means)).all()


def test_means_of_counts_are_above_0():
    means = np.array([[-9.0], [0.0], [1.0], [1.0 + 1e-9], [2.5]])
    found = CountedNumbers(bend=1.0).decode(means)
    assert (np.diff(found) >= 0.0).all()
    np.testing.assert_allclose(found, [np.exp(-10.0), np.exp(-1.0), 1.0, 1.0, 2.5])
    rng = np.random.default_rng(0)
    rate = np.exp(rng.standard_normal(200))
    frame = pd.DataFrame({"y": rng.poisson(rate), "rate": rate, "z": rng.standard_normal(200)})
    frame["y"] = frame["y"].astype("Int64").mask(rng.random(200) < 0.3)
    completed = mc.complete(frame, {"y": "count"})
    assert completed.report()["loss"][0] < 1.0
    assert completed.table["y"].min() >= 0


def test_the_columns_of_the_block_are_named_by_their_values():
    frame = pd.DataFrame({"town": ["Ulm", "Bonn", "Kiel", None] * 5, "x": np.arange(20.0) ** 2})
    completed = mc.complete(frame)
    assert list(completed.declared.data["columns"].columns) == [
        *("town = Bonn", "town = Kiel", "town = Ulm", "x")
    ]
    [block] = completed.answer.model.blocks
    assert isinstance(block.likelihood, mc.Gaussian)


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("kind", ["label", "class", "levels"])
@pytest.mark.some(1.3, kind=1)
def test_probabilities_depend_on_what_is_known_of_a_row(kind):
    """Rows of which nothing is known have the shares; others errors as often as they are said."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal(1500)
    cuts = [1.2] if kind == "label" else [-0.7, 0.0, 0.7]
    places = np.digitize(u + 0.3 * rng.standard_normal(u.size), cuts)
    told = pd.Series(np.array(list("abcd"))[places])
    if kind == "levels":
        told = told.astype(pd.CategoricalDtype(list("abcd"), ordered=True))
    frame = pd.DataFrame({"x": u, "y": u + 1.5 * rng.standard_normal(u.size), "z": told})
    holes = rng.random(frame.shape) < 0.3
    holes[:100] = True
    completed = mc.complete(frame.mask(holes))
    found = completed.predict("z").to_numpy()
    shares = np.bincount(places[100:]) / (u.size - 100)
    np.testing.assert_allclose(found[0], shares, atol=0.03)
    right = found[np.arange(u.size), places]
    for known in (~holes[:, 0], holes[:, 0] & ~holes[:, 1]):
        own = holes[:, 2] & known
        surest = np.mean(np.max(found[own], axis=1))
        assert abs(surest - np.mean(np.argmax(found[own], axis=1) == places[own])) < 0.09
        assert -np.mean(np.log(right[own])) < -shares @ np.log(shares)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.some(0.1, seed=12)
def test_slope_and_offsets_are_those_of_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, n = int(rng.choice([2, 3, 6, 40])), int(rng.choice([1, 5, 60, 400]))
    scores = rng.normal(size=(n, k)) * rng.choice([0.001, 0.3, 1.0, 20.0])
    noise = rng.choice([0.0, 0.1, 3.0, 1e6])  # none: perfectly told apart; 1e6: of another sign
    codes = np.argmax(rng.choice([-1.0, 1.0]) * scores + noise * rng.normal(size=(n, k)), axis=1)
    counted, levels = rng.random(n) + 0.5, np.log(rng.dirichlet(np.ones(k)))
    usual = float(rng.choice([1.0, 4.0]))

    def loss(at: np.ndarray) -> float:
        inner = levels + usual * at[0] * scores + counted[:, None] * at[1:]
        drawn = np.sum(np.square(at - np.eye(k + 1)[0])) / (2.0 * PRIOR_DEVIATION**2)
        return float(np.sum(logsumexp(inner, axis=1) - inner[np.arange(n), codes]) + drawn)

    slope, offsets = most_likely(scores, codes, counted, levels, usual)
    deviation = np.sqrt(np.var(usual * scores, axis=0)).mean()
    least = 0.0 if n == 1 else min(LEAST_DEVIATION / deviation, 1.0)
    bounds = [(least, LARGEST_SLOPE / usual), *[(None, None)] * k]
    expected = scipy.optimize.minimize(
        loss, np.eye(k + 1)[0], method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12}
    )
    assert least * usual - 1e-12 <= slope <= LARGEST_SLOPE
    assert n == 1 or slope > 0.0
    assert loss(np.array([slope / usual, *offsets])) <= expected.fun + 1e-9 * (1 + expected.fun)

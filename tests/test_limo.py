"""LIMO: its problem against CVXPY, its sums over pairs against the pairs one by one."""

import cvxpy as cp
import numpy as np
import pytest
from papers.baselines import limo, limo_by_cross_validation
from papers.baselines.limo import best_thresholds, pair_margins

import mcframe as mc


def drawn(seed, n=12, d=3, n_labels=4):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, d))
    scores = features @ rng.standard_normal((d, n_labels)) + rng.standard_normal((n, n_labels))
    return features, (scores > 0.3).astype(float)


def pairs(labels):
    """Each row with the pairs of a column that has a 1 and one that has a 0."""
    for row, marks in enumerate(labels):
        for one in np.flatnonzero(marks):
            for zero in np.flatnonzero(1 - marks):
                yield row, one, zero


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.1, 2.0), (0.0, 0.5), (0.01, 0.0)])
def test_the_optimum_is_that_of_the_stated_problem(weights):
    features, labels = drawn(0)
    by_label, by_instance = weights
    variable = cp.Variable((3, 4))
    scores = features @ variable
    hinges = [
        by_instance * cp.pos(1 - scores[i, u] + scores[i, v]) for i, u, v in pairs(labels)
    ] + [by_label * cp.pos(1 - scores[a, j] + scores[b, j]) for j, a, b in pairs(labels.T)]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(variable) + sum(hinges)))
    problem.solve(solver=cp.CLARABEL)
    answer = limo(features, labels, by_label, by_instance, tol=1e-3)
    assert answer.gap <= 1e-3
    assert answer.bound <= problem.value * (1 + 1e-7)
    assert problem.value <= answer.objective * (1 + 1e-7)


@pytest.mark.parametrize("width", [0.01, 0.5, 3.0])
def test_sums_by_sorting_are_sums_over_pairs(width):
    rng = np.random.default_rng(1)
    scores = np.round(rng.standard_normal((6, 7)), 1)  # with ties
    labels = (rng.random((6, 7)) < 0.4).astype(float)
    labels[0], labels[1] = 0.0, 1.0
    sums, gradient = np.zeros(3), np.zeros_like(scores)
    for row, one, zero in pairs(labels):
        hinge = max(1.0 - scores[row, one] + scores[row, zero], 0.0)
        slope = min(hinge / width, 1.0)
        sums += [hinge * slope - 0.5 * width * slope**2, hinge, slope]
        gradient[row, one] -= slope
        gradient[row, zero] += slope
    answer = pair_margins(scores, labels, width)
    np.testing.assert_allclose(answer[0], sums, rtol=1e-12)
    np.testing.assert_allclose(answer[1], gradient, atol=1e-12)


def test_thresholds_have_the_fewest_errors():
    rng = np.random.default_rng(2)
    scores, labels = rng.standard_normal((9, 5)), (rng.random((9, 5)) < 0.4).astype(float)
    labels[:, 0], labels[:, 1] = 0.0, 1.0
    thresholds, errors = best_thresholds(scores, labels)
    tried = np.linspace(-4.0, 4.0, 4001)
    least = [
        np.min(np.sum((s[:, None] > tried) != y[:, None], axis=0))
        for s, y in zip(scores.T, labels.T, strict=True)
    ]
    assert errors == np.sum((scores > thresholds) != labels) == sum(least)


def test_cross_validation_separates_what_can_be_separated():
    features, _ = drawn(3, n=60)
    labels = (features @ np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]) > 0).astype(float)
    answer = limo_by_cross_validation(features, labels)
    assert np.mean(answer.predict(features) != labels) < 0.1


def test_gaps_are_refused():
    features, labels = drawn(0)
    labels[2, 1] = np.nan
    with pytest.raises(mc.DataError, match="labels have a missing value in row 2, column 1"):
        limo(features, labels)
    with pytest.raises(mc.McframeError, match="label_weight"):
        limo(*drawn(0), label_weight=-1.0)

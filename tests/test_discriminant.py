"""Discriminants of predicted indicators."""

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcframe.tables.calibrating import calibrated
from mcframe.tables.discriminant import MOST_UNEXPLAINED_SHARE, Discriminant
from mcframe.tables.indicator_codings import Indicators
from mcframe.tables.raw_predictions import RawPredictions


@st.composite
def entries(draw):
    """Predicted indicators, what is explained of them, classes, and weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, 4))
    means = rng.dirichlet(np.ones(n_classes), n)
    explained = rng.uniform(0.0, 1.0, draw(st.sampled_from([1, n])))
    weights = 10.0 ** rng.uniform(-3.0, 3.0, n)
    return means, explained, rng.integers(n_classes, size=n), n_classes, weights


@given(entries())
def test_an_entry_is_no_part_of_the_centre_that_it_is_compared_with(drawn):
    means, explained, codes, n_classes, weights = drawn
    fitted = Discriminant.of(means, explained, codes.astype(float), n_classes, weights)
    scores = fitted.left_out_scores(means, explained, codes, weights)
    least = 1.0 - MOST_UNEXPLAINED_SHARE
    relative = np.broadcast_to(np.maximum(explained, least), codes.shape) / fitted.reference
    scale = 1.0 + np.max(np.abs(fitted.scores(means, explained))) + np.sum(fitted.centres**2)
    for i, of_class in enumerate(codes):
        counts = np.where(codes == of_class, weights, 0.0)
        counts[i] -= min(weights[i], 1.0)
        centres = fitted.centres.copy()
        sums = counts @ (means - fitted.middle)
        centres[of_class] = fitted.root @ sums / (counts @ relative + 1.0)
        without = attrs.evolve(fitted, centres=centres)
        [expected] = without.scores(means[[i]], explained[[min(i, explained.size - 1)]])
        np.testing.assert_allclose(scores[i], expected[of_class], rtol=1e-6, atol=1e-9 * scale)


@pytest.mark.parametrize("n", [20, 60, 200])
def test_scores_of_noise_say_far_less_of_the_class_if_entries_are_left_out(n):
    """Those of which entries are a part speak for the class of the entry (300 tables)."""
    rng, explained = np.random.default_rng(n), np.array([0.5])
    gains = []
    for _ in range(300):
        means = rng.dirichlet(np.full(3, 20.0), n)
        codes, weights = rng.integers(3, size=n), np.ones(n)
        fitted = Discriminant.of(means, explained, codes.astype(float), 3, weights)
        scores = fitted.scores(means, explained)
        of_class = scores[np.arange(n), codes]
        of_others = 0.5 * (np.sum(scores, axis=1) - of_class)
        left_out = fitted.left_out_scores(means, explained, codes, weights)
        gains.append([np.mean(of_class - of_others), np.mean(left_out - of_others)])
    of_part, left_out = np.mean(gains, axis=0)
    assert of_part > 0.0
    assert abs(left_out) < 0.3 * of_part


def test_curves_of_noise_are_flat():
    """Of 60 entries; their slope were 1, the usual one, if entries had their part in centres."""
    rng, slopes = np.random.default_rng(0), []
    for _ in range(40):
        raw = RawPredictions(rng.dirichlet(np.full(3, 20.0), 60), np.full((60, 3), 0.5))
        coding = calibrated(Indicators(tuple("abc")), rng.integers(3, size=60).astype(float), raw)
        slopes.append(coding.slope)
    assert np.mean(slopes) < 0.6

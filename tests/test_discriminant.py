"""Discriminants of predicted indicators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcframe.tables.discriminant import Discriminant


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
    scores = fitted.scores_left_out(means, explained, codes, weights)
    plain = fitted.scores(means, explained)
    for i, of_class in enumerate(codes):
        others = np.where(codes == of_class, weights, 0.0)
        others[i] -= min(weights[i], 1.0)
        relative = np.broadcast_to(np.maximum(explained, 0.01), codes.shape) / fitted.reference
        sums = others @ (means - fitted.middle)
        centre = fitted.root @ sums / (others @ relative + 1.0)
        centres = fitted.centres.copy()
        centres[of_class] = centre
        changed = Discriminant(
            fitted.middle, fitted.root, fitted.spread, centres, fitted.reference
        )
        of_entry = explained if explained.size == 1 else explained[i : i + 1]
        [expected] = changed.scores(means[i : i + 1], of_entry)
        scale = np.max(np.abs(plain), initial=1.0) + np.sum(np.square(fitted.centres))
        np.testing.assert_allclose(scores[i], expected, rtol=1e-6, atol=1e-9 * scale)


@pytest.mark.parametrize("n", [20, 60, 200])
def test_scores_of_noise_say_nothing_of_the_class_if_entries_are_left_out(n):
    """Those that entries are part of speak for their own class, on average over 300 tables."""
    rng = np.random.default_rng(n)
    gains = []
    for _ in range(300):
        means = rng.dirichlet(np.full(3, 20.0), n)
        codes, weights = rng.integers(3, size=n), np.ones(n)
        fitted = Discriminant.of(means, np.array([0.5]), codes.astype(float), 3, weights)
        left_out = fitted.scores_left_out(means, np.array([0.5]), codes, weights)
        pair = (fitted.scores(means, np.array([0.5])), left_out)
        gains.append([np.mean(s[np.arange(n), codes] - np.mean(s, axis=1)) for s in pair])
    with_entries, without = np.mean(gains, axis=0)
    assert with_entries > 0.0
    assert abs(without) < 0.3 * with_entries

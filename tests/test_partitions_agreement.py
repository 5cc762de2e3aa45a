"""Rows in partitions against the table in one piece, on random models."""

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings

import mcframe as mc
from mcframe.model.partitioned import RowsInMemory

from .strategies import models_for_partitions

# What a few steps of an ill-conditioned model make of rounding, relative to the objective.
ROUNDED = 1e-6


def fitted(model, data, **options):
    """The fit, or the error that it ends with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        try:
            return mc.fit(model, data, backend="alternating", **options)
        except mc.McframeError as error:
            return error


def compare(model, data, n_partitions, tally):
    """Two steps: the same objectives and bounds. Then more: bounds that hold for each other."""
    tables = data, RowsInMemory(data, 1), RowsInMemory(data, n_partitions)
    fits = [fitted(model, table, tol=1e-12, max_iter=2) for table in tables]
    if any(isinstance(fit, mc.McframeError) for fit in fits):
        assert len({type(fit) for fit in fits}) == 1, fits
        tally["refused"] += 1
        return
    whole, one, many = fits
    alike = all(
        fit.objective == pytest.approx(whole.objective, rel=ROUNDED, abs=fit.rounding.moved)
        for fit in fits
    )
    # In one piece few rows and columns have another certificate: that of Z written out.
    if np.isfinite(one.bound):
        near = 1e-4 * abs(one.objective)
        alike = alike and many.bound == pytest.approx(one.bound, rel=ROUNDED, abs=near)
    tally["alike" if alike else "apart"] += 1
    fits += [fitted(model, table, tol=1e-12, max_iter=12) for table in (tables[0], tables[2])]
    for fit in fits:
        judged = fit.problem.objective(fit.latent, fit.effects)
        assert judged == pytest.approx(fit.objective, rel=1e-7, abs=fit.rounding.moved)
        for other in fits:
            unsure = 1e-9 * abs(other.objective) + other.rounding.moved
            assert fit.bound <= other.objective + unsure


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [(0, 60), *(pytest.param(k, 600, marks=pytest.mark.slow) for k in range(1, 5))],
)
def test_partitions_have_the_objectives_and_bounds_of_the_table(part, n_examples):
    """All but a few, where rounding has decided whether a step is taken."""
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])  # shrinking takes minutes
    @given(models_for_partitions())
    def agrees(example):
        compare(*example, tally)

    agrees()
    assert tally["alike"] > 0.8 * n_examples
    assert tally["apart"] < 0.01 * n_examples

"""Models side by side: evidence, and the density of what was held out."""

import numpy as np
import pytest

import mcframe as mc
from mcframe.selection import RowFolds

GAUSSIAN = mc.Gaussian(variance=None)


@pytest.fixture(scope="module")
def table():
    """Two factors, a level for each column, a fifth of the entries missing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(60, 8))
    x += 5.0 * rng.normal(size=8)
    return np.where(rng.random(x.shape) < 0.2, np.nan, x)


def models():
    return {
        "with biases": mc.Model([mc.Block("x", GAUSSIAN, bias=True)], [mc.NuclearNorm()]),
        "no factors": mc.Model([mc.Block("x", GAUSSIAN, bias=True)], [mc.NuclearNorm(1e6)]),
    }


@pytest.mark.parametrize("cv", [3, RowFolds(3)])
def test_the_model_that_made_the_data_is_best(table, cv):
    found = mc.compare(models(), {"x": table}, cv=cv)
    assert found.best == "with biases"
    assert found.densities.shape == (2, 3)
    assert found.evidence[0] > found.evidence[1]
    assert str(found).count("best") == 1


def test_models_are_scored_on_the_same_folds(table):
    """The order of the models has no part in it."""
    found = mc.compare(models(), {"x": table}, cv=4)
    again = mc.compare(dict(reversed(models().items())), {"x": table}, cv=4)
    np.testing.assert_array_equal(found.densities, again.densities[::-1])


def test_errors_name_what_is_wrong(table):
    with pytest.raises(mc.ModelError, match="one model or more"):
        mc.compare({}, {"x": table})
    other = mc.Model([mc.Block("y", GAUSSIAN)], [mc.NuclearNorm()])
    with pytest.raises(mc.McframeError, match="y"):
        mc.compare({**models(), "other": other}, {"x": table})
    robust = mc.Model([mc.Block("x", mc.Huber(1.0))], [mc.MaxNorm(1.0)])
    with pytest.raises(mc.BackendError, match="one prior of Z is needed"):
        mc.compare({"max norm": robust}, {"x": table})

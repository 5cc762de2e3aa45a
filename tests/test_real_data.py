"""End to end on real data, where MCFRAME_DATA names a folder that holds them."""

import numpy as np
import pytest

import mcframe as mc
from mcframe.datasets import read_multilabel
from mcframe.papers import mc_1, mc_b


@pytest.mark.parametrize("preset", [mc_b, mc_1])
@pytest.mark.parametrize("name", ["emotions", "yeast"])
@pytest.mark.some(0.6)
def test_certified_and_better_than_the_commoner_class(data_folder, name, preset):
    data = read_multilabel(data_folder / f"{name}.npz")
    rng = np.random.default_rng(0)
    seen_x = rng.random(data.features.shape) < 0.6
    seen_y = rng.random(data.labels.shape) < 0.6
    holes = {
        "features": np.where(seen_x, data.features, np.nan),
        "labels": np.where(seen_y, data.labels, np.nan),
    }
    fit = mc.fit(preset(1e-3), holes, tol=1e-5)
    assert fit.status == "certified"
    wrong = (fit.predict("labels") > 0.5) != (data.labels > 0.5)
    commoner = np.nanmean(holes["labels"], axis=0) > 0.5
    guess = commoner != (data.labels > 0.5)
    assert wrong[~seen_y].mean() < guess[~seen_y].mean()
    residual = fit.impute("features") - data.features
    assert np.all(residual[seen_x] == 0.0)
    assert np.sum(residual**2) < np.sum(data.features[~seen_x] ** 2)

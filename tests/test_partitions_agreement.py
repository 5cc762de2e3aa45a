"""Rows in partitions against the table in one piece, on random models."""

import warnings
from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings

import mcframe as mc
from mcframe.partitions.partitioned_data import RowsInMemory

from .strategies import FORMS, in_form, models_for_partitions, values_of

dask = pytest.importorskip("dask", reason="the extra for Dask is not installed")

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


def compare(model, data, n_partitions, form, folder, tally):
    """Two steps: the same objectives and bounds. Then more: bounds that hold for each other."""
    tables = data, RowsInMemory(data, 1), in_form(form, data, n_partitions, folder)
    fits = [fitted(model, table, tol=1e-12, max_iter=2) for table in tables]
    if any(isinstance(fit, mc.McframeError) for fit in fits):
        assert len({type(fit) for fit in fits}) == 1, fits
        tally["refused"] += 1
        return
    tally[form] += 1
    whole, one, many = fits
    alike = all(
        fit.objective == pytest.approx(whole.objective, rel=ROUNDED, abs=fit.rounding.total)
        for fit in fits
    )
    # In one piece few rows and columns have another certificate: that of Z written out.
    if np.isfinite(one.bound):
        near = 1e-4 * abs(one.objective)
        alike = alike and many.bound == pytest.approx(one.bound, rel=ROUNDED, abs=near)
    tally["alike" if alike else "apart"] += 1
    compare_answers(many, model, data, form)
    fits += [fitted(model, table, tol=1e-12, max_iter=12) for table in (tables[0], tables[2])]
    for fit in fits:
        judged = fit.problem.objective(fit.latent, fit.effects)
        assert judged == pytest.approx(fit.objective, rel=1e-7, abs=fit.rounding.total)
        for other in fits:
            unsure = 1e-9 * abs(other.objective) + other.rounding.total
            assert fit.bound <= other.objective + unsure


def compare_answers(fit, model, data, form):
    """What a fit of partitions answers is what one in memory answers at the same point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        problem = mc.Problem.bind(model, data)
        effects = {
            name: own + fit.problem.origins.get(name, 0.0) - problem.origins.get(name, 0.0)
            for name, own in fit.effects.items()
        }
        whole = attrs.evolve(fit, problem=problem, kept=None, effects=effects)
        named = form.startswith("dask")  # columns of frames
        assert len(fit.notes) == len(whole.notes)
        assert named or fit.notes == whole.notes
        for block in model.blocks:
            # On disk the offsets of cells without an entry are not known.
            anywhere = getattr(data[block.name], "exposure", None) is None or form != "on disk"
            asked = [answers(of, block, data, anywhere) for of in (fit, whole)]
            if anywhere or not block.likelihood.location:
                asked += [answers(of.compact(), block, data, None) for of in (fit, whole)]
            for name, found in asked[0].items():
                assert_same(found, asked[1][name], name)
            for name, found in (asked[2] if len(asked) > 2 else {}).items():
                assert_same(found, asked[3][name], f"compact {name}")


def answers(fit, block, data, anywhere):
    """Answers by name: of entries, of new rows, of rows of the fit, and of whole blocks.

    ``anywhere`` says that cells without an entry are asked for, None that no data are left.
    """
    name, values = block.name, values_of(data[block.name])
    places = rows, columns = np.nonzero(~np.isnan(values))
    new = {key: cut(given) for key, given in data.items()}
    hidden = {key: np.full_like(values_of(given), np.nan) for key, given in new.items()}
    try:
        found = {
            "new rows": fit.predict_rows(name, new),
            "rows without an entry": fit.predict_rows(name, hidden),
            "filled new rows": fit.impute_rows(name, new),
            "Z of new rows": fit.latent_rows(new).dense(),
        }
    except mc.ModelError:  # where the model leaves them no meaning, for the other fit, too
        found = {"new rows": np.zeros(0)}
    if block.bias:
        found["bias"] = fit.bias(name)
    if block.row_effects:
        found["effects of rows"] = fit.row_effects(name)
    if anywhere is None:
        return found
    found |= {
        "means": fit.predict(name, *places),
        "predictors": fit.natural(name, *places),
    }
    if not block.likelihood.location:  # of residuals nothing but rounding may be left
        found["losses"] = fit.losses_at(name, *places, values[rows, columns])
    if anywhere:
        found |= {"mean": fit.predict(name), "predictor": fit.natural(name)}
        found |= {"filled": fit.impute(name)}
        if block.likelihood.width == 1:
            best = fit.top(name, [0, len(values) - 1], n=2)
            found["best"] = [predicted for _, _, predicted in best]
    return found


def cut(given):
    """The first rows of a block, as data of new rows."""
    if not isinstance(given, mc.Observations):
        return given[:3]
    exposure = None if given.exposure is None else given.exposure[:3]
    weights = None if given.weights is None else given.weights[:3]
    return mc.Observations(given.values[:3], weights=weights, exposure=exposure)


def assert_same(found, wanted, name):
    """Answers are equal up to rounding of the largest."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    size = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9 * size, err_msg=name)


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [
        (0, 8),
        pytest.param(0, 15, marks=pytest.mark.slow(seconds=3)),
        *(pytest.param(k, 600, marks=pytest.mark.slow) for k in range(1, 5)),
    ],
)
def test_partitions_have_the_objectives_bounds_and_answers_of_the_table(
    part, n_examples, tmp_path_factory
):
    """All but a few, where rounding has decided whether a step is taken."""
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])  # shrinking takes minutes
    @given(models_for_partitions())
    def agrees(example):
        with dask.config.set(scheduler="synchronous"):
            compare(*example, tmp_path_factory.mktemp("partitions"), tally)

    agrees()
    assert tally["alike"] > 0.8 * n_examples
    assert tally["apart"] < 0.01 * n_examples
    assert min(tally[form] for form in FORMS) > 0.1 * n_examples

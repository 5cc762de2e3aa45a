"""Saved answers: the same bits in every method, and one error for every file that is no answer."""

import http
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import eligibilities
from mcframe.compile import CompiledProblem
from mcframe.storage.digest import digest_of

from .catalogue import LIKELIHOODS, SHAPED_TERMS, TERMS
from .strategies import everything, frames, posterior_models, whole_vocabulary

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{k}") for k in ("UserWarning", "RuntimeWarning")
]
UNCUT = [Phase.generate]  # shrinking takes minutes


def said(ask, answer):
    """What an answer says to a question, as bits; or the package's own error."""
    try:
        found = ask(answer)
    except mc.McframeError as error:
        return str(error)
    found = found if isinstance(found, tuple | list) else [found]
    return [bits(part) for part in found]


def bits(found):
    """Class, labels and bits of an array or a frame; of anything else what is printed."""
    if isinstance(found, np.ndarray):
        return found.dtype.str, found.shape, found.tobytes()
    if isinstance(found, pd.DataFrame | pd.Series):
        kinds = repr(found.dtypes) + repr(type(found.index))
        return type(found), kinds, found.to_csv(float_format=float.hex)
    if isinstance(found, pl.DataFrame):
        return type(found), found.schema, repr(found.to_dicts())
    if isinstance(found, pa.Table):
        return type(found), found.schema, repr(found.to_pylist())
    return type(found), repr(found)


def same(answer, again, *asks):
    for ask in asks:
        assert said(ask, again) == said(ask, answer)


def through(answer, folder):
    return mc.load(answer.save(folder / "answer.npz"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


def values_of(given):
    return given.values if isinstance(given, mc.Observations) else given


def check_fit(fit, data, folder):
    again = through(fit, folder)
    few = {name: values_of(given)[:2] for name, given in data.items()}
    same(
        fit,
        again,
        *[
            ask
            for block in fit.model.blocks
            for ask in (
                lambda own, name=block.name: own.predict(name),
                lambda own, name=block.name: own.natural(name),
                lambda own, name=block.name: own.impute(name),
                lambda own, name=block.name: own.bias(name),
                lambda own, name=block.name: own.predict_rows(name, few),
            )
        ],
        lambda own: [own.objective, own.bound, own.gap, own.rounding, own.history, own.notes],
        lambda own: [own.latent.left, own.latent.right],
    )
    assert repr(again) == repr(fit)
    assert again.problem.digest == fit.problem.digest
    short = {"max_iter": 3, "tol": 1e-12}
    same(
        fit,
        again,
        lambda own: mc.fit(fit.model, data, start=own, **short).objective,
        lambda own: mc.fit(fit.model, data, start=own, **short).bound,
    )


def fitted(model, data, which, n_parts=None):
    """A fit by one of the backends that are able; None where there is none in a moment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            able = eligibilities(CompiledProblem(mc.Problem.bind(model, data)))
            names = ["auto", *[v.name for v in able if v.can_run and v.name != "reference"]]
            return mc.fit(model, data, backend=names[which % len(names)], max_iter=40)
        except mc.McframeError:
            return None


@pytest.mark.parametrize(
    "n_examples", [6, pytest.param(400, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("models", [everything(), whole_vocabulary()], ids=["scales", "words"])
def test_fits_of_any_model_come_back(models, n_examples, folder):
    n_fits = []

    @settings(max_examples=n_examples, phases=UNCUT)
    @given(models, st.integers(0, 5))
    def come_back(example, which):
        model, data = example[:2]
        fit = fitted(model, data, which)
        if fit is not None:
            n_fits.append(fit.backend)
            check_fit(fit, data, folder)
            small = fit.compact()
            again = through(small, folder)
            same(small, again, *[lambda own, b=b: own.predict(b.name) for b in model.blocks])
            assert digest_of(mc.Model.from_json(model.to_json())) == digest_of(model)

    come_back()
    assert len(n_fits) > n_examples / 2


@pytest.mark.parametrize(
    "n_examples", [6, pytest.param(300, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_posteriors_of_any_model_come_back(n_examples, folder):
    kinds = set()

    @settings(max_examples=n_examples, phases=UNCUT)
    @given(posterior_models())
    def come_back(example):
        model, data = example
        try:
            posterior = mc.posterior(model, data, max_iter=5)
        except mc.McframeError:
            return
        kinds.add(type(posterior.engine).__name__)
        again = through(posterior, folder)
        few = {name: values_of(given)[:2] for name, given in data.items()}
        same(
            posterior,
            again,
            *[
                ask
                for block in model.blocks
                for ask in (
                    lambda own, name=block.name: own.predict(name),
                    lambda own, name=block.name: own.impute(name),
                    lambda own, name=block.name: own.interval(name, 0.8),
                    lambda own, name=block.name: own.sample(name, 2),
                    lambda own, name=block.name: own.condition(few).predict(name),
                )
            ],
            lambda own: [repr(own), own.evidence, own.history, own.random_state],
        )

    come_back()
    assert kinds == {"FactorPosterior", "JointPosterior"}


@pytest.mark.parametrize(
    "n_examples", [3, pytest.param(150, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("method", ["posterior", "optimum"])
def test_completions_of_any_table_come_back(method, n_examples, folder):
    """In their library, with their dtypes."""
    n_tables = []

    @settings(max_examples=n_examples, phases=UNCUT)
    @given(frames())
    def come_back(example):
        frame, to_library = example
        given = to_library(frame)
        try:
            completed = mc.complete(given, method=method)
        except mc.McframeError:
            return
        n_tables.append(1)
        again = through(completed, folder)
        same(
            completed,
            again,
            lambda own: own.table,
            lambda own: own.sd,
            lambda own: own.interval(0.9),
            lambda own: own.draws(2),
            lambda own: own.complete_rows(given[:3]),
            lambda own: own.report(),
            lambda own: [repr(own), own.scores, own.answer.model],
        )

    come_back()
    assert len(n_tables) >= n_examples / 4  # others have too few rows


@pytest.mark.parametrize("word", [entry.word for entry in LIKELIHOODS], ids=repr)
def test_likelihoods_as_text(word):
    model = mc.Model([mc.Block("a", word)], [mc.NuclearNorm(0.1)])
    again = mc.Model.from_json(model.to_json())
    assert repr(again) == repr(model)
    assert digest_of(again) == digest_of(model)


@pytest.mark.parametrize("term", [*TERMS, *[term for term, _ in SHAPED_TERMS]], ids=repr)
def test_terms_as_text(term):
    blocks = [mc.Block("features", mc.Gaussian()), mc.Block("y", mc.Bernoulli())]
    terms = [term] if getattr(term, "main", False) else [mc.NuclearNorm(2.0), term]
    try:
        model = mc.Model(blocks, terms)
    except mc.ModelError:  # two that are regularizers of all of Z
        model = mc.Model(blocks, [term])
    text = model.to_json()
    again = mc.Model.from_json(text)
    assert digest_of(again) == digest_of(model)
    assert again.to_json() == text


def test_a_file_holds_the_kind_of_answer_that_is_asked_for(tmp_path):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    fit, posterior = mc.fit(model, {"x": np.eye(3)}), mc.posterior(model, {"x": np.eye(3)})
    completed = mc.complete(pd.DataFrame({"a": [1.0, 2.0, np.nan] * 4, "b": range(12)}))
    for answer in (fit, posterior, completed):
        path = answer.save(tmp_path / "answer.npz")
        for kind in (mc.Fit, mc.Posterior, mc.Completion):
            if isinstance(answer, kind):
                assert type(mc.load(path, kind)) is type(mc.load(path)) is kind
                continue
            with pytest.raises(mc.DataError, match=f"and a {kind.__name__} is asked for"):
                mc.load(path, kind)
    with pytest.raises(mc.ModelError, match=r"a class is needed, such as mc\.Fit"):
        mc.load(path, "Completion")


def test_a_path_that_no_folder_takes_is_refused(tmp_path):
    fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)]), {"x": np.eye(3)})
    with pytest.raises(mc.DataError, match="cannot be written"):
        fit.save(tmp_path / ("a" * 300))


def test_notes_of_a_frame_that_are_no_plain_numbers_or_texts_are_left_out(tmp_path):
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "c"])
    frame.attrs = {"kind": http.HTTPStatus.OK, "site": "north", "count": 3}
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    loaded = mc.load(mc.fit(model, {"x": frame}).save(tmp_path / "fit.npz"))
    assert loaded.impute("x").shape == (3, 3)


def test_notes_of_a_frame_that_are_numbers_of_numpy_are_kept(tmp_path):
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [2.0, 3.0, 4.0]})
    frame.attrs = {"quantile": np.float64(2.0), "round": 1, "source": "survey", "list": [1]}
    completed = mc.load(mc.complete(frame).save(tmp_path / "table.npz"))
    assert completed.table.attrs == {"quantile": 2.0, "round": 1, "source": "survey"}

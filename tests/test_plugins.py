"""The files of the "how to add" pages: held to the laws, run by every backend that can."""

import importlib.util

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Splitting

from .test_docs import ROOT, examples_of

FOLDER = ROOT / "examples" / "plugins"
PAGES = {
    "log_cosh": "add-a-likelihood",
    "row_lasso": "add-a-regularizer",
    "plain_gradient": "add-a-backend",
}


def plugin(name):
    """A file of the folder as a module; nothing is installed or registered."""
    found = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


LogCosh = plugin("log_cosh").LogCosh
RowLasso = plugin("row_lasso").RowLasso
PlainGradient = plugin("plain_gradient").PlainGradient


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((14, 2)) @ rng.standard_normal((2, 8))
    x += 0.3 * rng.standard_normal(x.shape)
    return {"x": np.where(rng.random(x.shape) < 0.7, x, np.nan)}


def test_every_file_has_its_page():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PAGES)


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_the_page_shows_the_file(name, page):
    shown = examples_of((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))[0]
    assert shown.code == (FOLDER / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("delta", [0.05, 1.0, 30.0])
def test_a_likelihood_obeys_the_laws(delta):
    mc.laws.check_likelihood(
        LogCosh(delta), (-2.0, 0.0, 0.5, 40.0), (np.inf, -np.inf), scale=delta
    )


@pytest.mark.parametrize("shape", [(5, 4), (3, 6), (1, 4), (4, 1)])
@pytest.mark.parametrize("weight", [0.5, 20.0])
def test_a_regularizer_obeys_the_laws(weight, shape):
    mc.laws.check_regularizer(RowLasso(weight), shape=shape, scale=2.0)


def test_a_backend_obeys_the_laws():
    answers = mc.laws.check_solver(PlainGradient())
    assert all(answer.status == "certified" for answer in answers)


def runnable(model, data):
    """The backends that ``explain`` allows, the reference aside."""
    eligibilities = mc.explain(model, data).eligibilities
    return [v.name for v in eligibilities if v.can_run and v.name != "reference"]


def agrees_everywhere(model, data, backends):
    reference = mc.fit(model, data, backend="reference")
    for backend in backends:
        answer = mc.laws.check_agreement(backend, model, data, reference=reference, certified=1e-6)
        assert answer.exact
        assert answer.difference <= 1e-5


@pytest.mark.parametrize("effects", [{}, {"bias": True}, {"bias": True, "row_effects": True}])
def test_a_likelihood_runs_everywhere(data, effects):
    model = mc.Model([mc.Block("x", LogCosh(0.5), **effects)], [mc.NuclearNorm(0.5)])
    every = ["proximal", "splitting", "alternating", "factored", "fpc"]
    allowed = every[:-1] if "row_effects" in effects else every
    assert runnable(model, data) == allowed
    agrees_everywhere(model, data, [*allowed, PlainGradient()])


def test_a_regularizer_runs_beside_a_nuclear_norm(data):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5), RowLasso(0.3)])
    assert runnable(model, data) == ["splitting", "factored"]
    assert mc.explain(model, data).chosen == "splitting"
    agrees_everywhere(model, data, ["splitting", "factored", Splitting(PlainGradient())])


def test_a_regularizer_of_a_block(data):
    blocks = [mc.Block("x", LogCosh(0.5)), mc.Block("y", mc.Gaussian())]
    model = mc.Model(blocks, [mc.NuclearNorm(0.5), RowLasso(0.3, "x")])
    agrees_everywhere(model, {**data, "y": data["x"][:, :2]}, ["splitting"])


def test_a_backend_refuses_in_its_own_words(data):
    nonsmooth = mc.Model([mc.Block("x", mc.Quantile(0.5))], [mc.NuclearNorm(0.5)])
    with pytest.raises(mc.BackendError, match="'plain gradient' cannot run this problem: it runs"):
        mc.fit(nonsmooth, data, backend=PlainGradient())
    positive = {"x": np.exp(data["x"])}
    unbounded = mc.Model([mc.Block("x", mc.Exponential())], [mc.NuclearNorm(0.5)])
    with pytest.raises(mc.BackendError, match="its steps need a bounded curvature"):
        mc.fit(unbounded, positive, backend=PlainGradient())

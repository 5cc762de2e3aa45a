"""A likelihood from outside the package has all that the package's likelihoods have.

Each one here asks a likelihood of the package for its numbers, and is none of its classes. It has
the abilities of the contract and no other members, so an answer that differs, or an error, comes
from code that asks for a class by its name.
"""

import inspect
import warnings

import attrs
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.contracts import likelihood as contract
from mcframe.contracts import stored
from mcframe.contracts.stored_classes import STORED, full_name_of
from mcframe.selection import HeldOutLoss, LabelError, OrdinalDistance, RelativeError

from .helpers import members_of

mpl.use("Agg")


def from_outside(kind):
    """A class with the abilities of a likelihood of the package, which is none of its words."""
    abilities = [base for base in kind.__mro__ if base.__module__ == contract.__name__]

    def wrapped(answer):
        if isinstance(answer, kind):
            return outside(answer)
        return tuple(map(wrapped, answer)) if isinstance(answer, tuple) else answer

    def delegate(name):
        if inspect.isfunction(inspect.getattr_static(kind, name)):
            return lambda self, *given, **named: wrapped(
                getattr(self.inside, name)(*given, **named)
            )
        return property(lambda self: wrapped(getattr(self.inside, name)))

    space = {name: delegate(name) for name in members_of(abilities) if name != "of_label"}
    space |= {"__annotations__": {"inside": kind}, "__module__": __name__}
    made = type(f"Own{kind.__name__}", tuple(abilities), space)
    outside = stored(attrs.frozen(made, slots=False))
    return outside


OWN = {
    kind: from_outside(kind)
    for kind in (
        *(mc.Gaussian, mc.Huber, mc.Quantile, mc.Bernoulli, mc.Hinge, mc.Multinomial),
        *(mc.Ordinal, mc.Poisson, mc.NegativeBinomial, mc.Gamma, mc.Equality),
    )
}
globals().update({made.__name__: made for made in OWN.values()})  # by which files find them


def own(likelihood):
    """The same likelihood from outside."""
    return OWN[type(likelihood)](likelihood)


def numbers(shape, kind, rng):
    """A table of values of one kind, of rank two in its predictors; a quarter is missing."""
    factors = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    values = {
        "real": factors + 0.3 * rng.standard_normal(shape),
        "label": (factors > 0.0).astype(float),
        "level": np.clip(np.round(factors + 2.0), 1.0, 3.0),
        "class": np.clip(np.round(factors + 1.0), 0.0, 2.0),
        "count": np.floor(np.exp(0.5 * factors) * 2.0),
        "positive": np.exp(0.5 * factors),
    }[kind]
    missing = rng.random(shape) < 0.25
    missing[:, 0] = False  # so that no row is empty
    return np.where(missing, np.nan, values)


CASES = [
    (mc.Gaussian(variance=0.5), "real"),
    (mc.Huber(), "real"),
    (mc.Quantile(0.3), "real"),
    (mc.Bernoulli(), "label"),
    (mc.Hinge(), "label"),
    (mc.Ordinal(levels=3), "level"),
    (mc.Ordinal(levels=3, thresholds=(-1.0, 1.0)), "level"),
    (mc.Multinomial(3), "class"),
    (mc.Poisson(), "count"),
    (mc.NegativeBinomial(2.0), "count"),
    (mc.Gamma(2.0), "positive"),
]
IDS = [f"{type(word).__name__}-{k}" for k, (word, _) in enumerate(CASES)]


CRITERIA = {
    "label": [LabelError("y")],
    "class": [LabelError("y")],
    "level": [OrdinalDistance("y")],
    "real": [RelativeError("y")],
}


def takes_bias(word):
    """Thresholds that are fitted hold an offset already."""
    return not contract.fits_parameters(word)


def pair(word):
    """The model of a likelihood, and that of the same one from outside."""
    return [
        mc.Model([mc.Block("y", each, bias=takes_bias(each))], [mc.NuclearNorm(2.0)])
        for each in (word, own(word))
    ]


@pytest.mark.parametrize(("word", "kind"), CASES, ids=IDS)
def test_fits_and_their_certificates_are_the_same(word, kind, tmp_path):
    y = numbers((14, 4), kind, np.random.default_rng(0))
    fits = [mc.fit(model, {"y": y}, tol=1e-5, max_seconds=20.0) for model in pair(word)]
    theirs, ours = fits
    assert ours.status == theirs.status == "certified"
    assert ours.objective == theirs.objective
    assert ours.bound == theirs.bound
    np.testing.assert_array_equal(ours.predict("y"), theirs.predict("y"))
    np.testing.assert_array_equal(ours.impute("y"), theirs.impute("y"))
    assert mc.verify(pair(word)[1], {"y": y}, max_seconds=20.0).agrees
    ours.save(tmp_path / "fit.mcf")
    again = mc.load(tmp_path / "fit.mcf")
    np.testing.assert_array_equal(again.predict("y"), ours.predict("y"))


POSTERIOR = [(word, kind) for word, kind in CASES if not isinstance(word, mc.Huber | mc.Hinge)]


@pytest.mark.parametrize(("word", "kind"), POSTERIOR, ids=str)
def test_posteriors_are_the_same(word, kind):
    y = numbers((16, 5), kind, np.random.default_rng(1))
    answers = []
    for each in (word, own(word)):
        model = mc.Model([mc.Block("y", each, bias=takes_bias(each))], [mc.NuclearNorm()])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            answers.append(mc.posterior(model, {"y": y}, factors=2, max_iter=40))
    theirs, ours = answers
    np.testing.assert_array_equal(ours.predict("y"), theirs.predict("y"))
    np.testing.assert_array_equal(ours.sd("y"), theirs.sd("y"))
    np.testing.assert_array_equal(ours.sample("y", 3), theirs.sample("y", 3))
    if kind in ("label", "level", "class"):
        np.testing.assert_array_equal(ours.probabilities("y"), theirs.probabilities("y"))
        np.testing.assert_array_equal(ours.set("y", 0.9), theirs.set("y", 0.9))
    if kind != "class":
        for one, other in zip(ours.interval("y", 0.8), theirs.interval("y", 0.8), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("word", "kind"), CASES, ids=IDS)
def test_tables_pictures_and_folds_take_them(word, kind):
    rng = np.random.default_rng(2)
    y = numbers((30, 3), kind, rng)
    frame = pd.DataFrame(y, columns=["a", "b", "c"])
    tables = []
    for each in (word, own(word)):
        declared = mc.declare(frame, types=dict.fromkeys(frame, each))
        fit = mc.fit(
            mc.Model(declared.model.blocks, [mc.NuclearNorm(1.0)]), declared.data, tol=1e-4
        )
        tables.append(declared.table(fit))
        model = mc.Model([mc.Block("y", each)], [mc.NuclearNorm(1.0)])
        path = mc.path(model, {"y": y}, weights=[4.0, 2.0], tol=1e-3)
        path.plot.singular_values()
        picture = "calibration" if kind in ("label", "class") else "predictions"
        if not isinstance(word, mc.Hinge):
            getattr(path.fits[-1].plot, picture)()
    pd.testing.assert_frame_equal(*tables)
    criteria = [HeldOutLoss(), *CRITERIA.get(kind, [])]
    scores = [
        mc.cross_validate(model, {"y": y}, weights=[4.0, 2.0], cv=2, criterion=criteria).table
        for model in pair(word)
    ]
    pd.testing.assert_frame_equal(*scores)


TYPES = [(word, kind) for word, kind in CASES if word in (mc.Bernoulli(), mc.Multinomial(3))]


@pytest.mark.parametrize(("word", "kind"), TYPES, ids=str)
@pytest.mark.some(1, word=1)
def test_tables_are_completed_with_them(word, kind):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"y": numbers((60, 1), "real", rng)[:, 0], "x": rng.normal(size=60)})
    frame["y"] = numbers((60, 2), kind, rng)[:, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tables = [mc.complete(frame, types={"y": each}).table for each in (word, own(word))]
    pd.testing.assert_frame_equal(*tables)


def test_a_file_with_a_class_that_is_not_declared_says_how_to_go_on(tmp_path, monkeypatch):
    model = mc.Model([mc.Block("y", own(mc.Gaussian()))], [mc.NuclearNorm(1.0)])
    mc.fit(model, {"y": numbers((6, 3), "real", np.random.default_rng(0))}).save(
        tmp_path / "y.mcf"
    )
    monkeypatch.delitem(STORED, full_name_of(type(own(mc.Gaussian()))))
    with pytest.raises(mc.DataError, match=r"OwnGaussian' is a class from outside.*import its"):
        mc.load(tmp_path / "y.mcf")


def test_only_classes_of_attrs_are_declared_as_stored():
    with pytest.raises(mc.ModelError, match=r"Plain is no class of attrs.*@attrs\.frozen"):
        stored(type("Plain", (), {}))

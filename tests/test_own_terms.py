"""A regularizer or a constraint from outside the package has all that the package's terms have.

Each one here asks a term of the package for its numbers, and is none of its classes. It has the
abilities of the contract and fields of other names, so an answer that differs, or an error, comes
from code that asks for a class or for a field that the contract does not name.
"""

import inspect
import warnings

import attrs
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.contracts import stored
from mcframe.contracts import term as contract
from mcframe.estimators import MatrixCompletionImputer
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.selection import Grid

from .helpers import check_equal_fits, members_of, table_of_rank_two

mpl.use("Agg")


def from_outside(kind):
    """A class with the abilities of a term of the package, which is none of its words.

    Fields that the contract does not name have other names than in the package.
    """
    abilities = [base for base in kind.__mro__ if base.__module__ == contract.__name__]
    members = members_of(abilities)
    names = {
        field.name: field.name if field.name in members else f"my_{field.name}"
        for field in attrs.fields(kind)
    }

    def inside(self):
        return kind(**{name: getattr(self, mine) for name, mine in names.items()})

    def wrapped(answer):
        if isinstance(answer, contract.Term):
            return own(answer)
        return tuple(map(wrapped, answer)) if isinstance(answer, tuple) else answer

    def delegate(name):
        if inspect.isfunction(inspect.getattr_static(kind, name)):
            return lambda self, *values, **options: wrapped(
                getattr(inside(self), name)(*values, **options)
            )
        return property(lambda self: wrapped(getattr(inside(self), name)))

    space = {name: delegate(name) for name in members if name not in names}
    for field in attrs.fields(kind):
        space[names[field.name]] = attrs.field(
            default=field.default,
            kw_only=field.kw_only,
            eq=field.eq_key or field.eq,
            hash=field.hash,
        )
    annotations = {names[field.name]: field.type for field in attrs.fields(kind)}
    space |= {"__annotations__": annotations, "__module__": __name__}
    return stored(attrs.frozen(type(f"Own{kind.__name__}", tuple(abilities), space), slots=False))


OWN = {}


def own(term):
    """The same term from outside."""
    kind = type(term)
    if kind not in OWN:
        OWN[kind] = from_outside(kind)
        globals()[OWN[kind].__name__] = OWN[kind]  # by which files find them
    values = [getattr(term, field.name) for field in attrs.fields(kind)]
    names = [field.name for field in attrs.fields(OWN[kind])]
    return OWN[kind](**dict(zip(names, values, strict=True)))


SHAPE = N_ROWS, N_COLUMNS = 12, 4


COVARIANCE = 0.4 * np.eye(N_COLUMNS) + 0.6
MEANS = np.full((1, N_ROWS), 1.0 / N_ROWS)
CASES = {
    "nuclear norm": [mc.NuclearNorm(2.0)],
    "nuclear norm by counts": [mc.NuclearNorm(2.0, count_share=0.5)],
    "max norm": [mc.MaxNorm(1.0)],
    "ridge": [mc.Ridge(0.5)],
    "rows": [mc.GaussianRows(COVARIANCE, mean=np.full(N_COLUMNS, 0.2))],
    "nuclear norm and ridge": [mc.NuclearNorm(1.0), mc.Ridge(0.5)],
    "nuclear norm and box": [mc.NuclearNorm(1.0), mc.Box(-1.0, 1.5)],
    "ridge and box of a block": [mc.Ridge(0.2), mc.Box(0.0, np.inf, "y")],
    "rows and box": [mc.GaussianRows(COVARIANCE), mc.Box(-1.0, 1.0)],
    "nuclear ball": [mc.NuclearBall(4.0)],
    "nuclear ball and ridge": [mc.NuclearBall(4.0), mc.Ridge(0.1)],
    "max norm ball": [mc.MaxNormBall(1.5)],
    "ones": [mc.NuclearNorm(1.0), mc.OnesColumn()],
    "residual": [mc.NuclearNorm(1.0), mc.ResidualNuclearNorm("y", 0.5)],
    "sums": [mc.NuclearNorm(1.0), mc.Calibration("y", MEANS, np.full((1, N_COLUMNS), 0.3), 5.0)],
    "exact sums": [mc.NuclearNorm(1.0), mc.Calibration("y", MEANS, np.full((1, N_COLUMNS), 0.3))],
}


def models(terms, **options):
    """The model with terms of the package, and that with the same ones from outside."""
    return [
        mc.Model([mc.Block("y", mc.Gaussian(), **options)], list(chosen))
        for chosen in (terms, [own(term) for term in terms])
    ]


@pytest.mark.parametrize("terms", CASES.values(), ids=CASES)
def test_fits_of_every_backend_and_their_certificates_are_the_same(terms):
    data = {"y": table_of_rank_two(0, SHAPE)}
    theirs, ours = models(terms)
    explanations = [mc.explain(model, data) for model in (theirs, ours)]
    assert str(explanations[0]) == str(explanations[1])
    assert str(theirs) == str(ours)
    runnable = [v.name for v in explanations[0].eligibilities if v.can_run]
    for backend in ["auto", *(name for name in runnable if name != "reference")]:
        options = {"backend": backend, "tol": 1e-5, "max_seconds": 20.0, "max_iter": 400}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.NotCertifiedWarning)
            check_equal_fits(*(mc.fit(model, data, **options) for model in (ours, theirs)))
    if len(runnable) > 1:
        assert mc.verify(ours, data, max_seconds=20.0).agrees


@pytest.mark.parametrize("terms", CASES.values(), ids=CASES)
@pytest.mark.some(0.2, terms=[0, 1, 2, 3, 4, 8, 9, 12, 13, 14])
def test_files_new_rows_and_pictures_take_them(terms, tmp_path):
    data = {"y": table_of_rank_two(0, SHAPE)}
    theirs, ours = (mc.fit(model, data, tol=1e-5) for model in models(terms))
    assert mc.Model.from_json(ours.model.to_json()) == ours.model
    ours.save(tmp_path / "fit.mcf")
    check_equal_fits(mc.load(tmp_path / "fit.mcf"), ours)
    answers = []
    for fit in (theirs, ours):
        try:
            answers.append(fit.predict_rows("y", {"y": table_of_rank_two(1, SHAPE)}))
        except (mc.ModelError, mc.BackendError) as error:
            answers.append(str(error))
    assert type(answers[0]) is type(answers[1])
    np.testing.assert_array_equal(*answers)
    ours.plot.predictions()
    ours.plot.singular_values()


def weighted(term):
    """Whether a path can change the weight of a term of these models."""
    return isinstance(term, contract.Regularizer) and "weight" in attrs.fields_dict(type(term))


WEIGHTED = {name: terms for name, terms in CASES.items() if weighted(terms[0])}


@pytest.mark.parametrize("terms", WEIGHTED.values(), ids=WEIGHTED)
@pytest.mark.some(0.8, terms=[0, 1, 2, 3, 4, 8, 9, 10, 11])
def test_paths_and_folds_take_them(terms, tmp_path):
    data = {"y": table_of_rank_two(0, SHAPE)}
    has_start = not isinstance(terms[0], mc.GaussianRows)
    answers = []
    for model, chosen in zip(models(terms), (terms, list(map(own, terms))), strict=True):
        kind = type(chosen[0])
        few = Grid(values=[4.0, 1.0], term=kind)
        grid = Grid(count=3, term=kind) if has_start else few
        path = mc.path(model, data, weights=grid, tol=1e-4)
        path.plot.singular_values()
        validation = mc.cross_validate(model, data, weights=few, cv=2, tol=1e-4)
        validation.plot.scores()
        file = tmp_path / type(model.terms[0]).__name__  # a second run goes on from the first
        for _ in range(2):
            kept = mc.path(model, data, weights=few, tol=1e-4, checkpoint=file)
        assert [fit.status for fit in kept.fits] == ["certified"] * 2
        start = mc.weight_max(model, data, kind) if has_start else None
        answers.append((path, validation.table, start))
    (theirs, their_table, their_start), (ours, our_table, our_start) = answers
    assert our_start == their_start
    pd.testing.assert_frame_equal(our_table, their_table)
    for our_fit, their_fit in zip(ours.fits, theirs.fits, strict=True):
        check_equal_fits(our_fit, their_fit)


PRIORS = {
    "factors": mc.NuclearNorm(),
    "factors of one precision": mc.NuclearNorm(1.5),
    "given rows": mc.GaussianRows(COVARIANCE, mean=np.full(N_COLUMNS, 0.2), weight=2.0),
    "rows": mc.GaussianRows(),
    "a mixture": mc.GaussianRows(components=2, prior_rows=4.0),
}


@pytest.mark.parametrize("term", PRIORS.values(), ids=PRIORS)
def test_posteriors_are_the_same(term, tmp_path):
    data = {"y": table_of_rank_two(2, (24, N_COLUMNS))}
    answers = []
    for prior in (term, own(term)):
        model = mc.Model([mc.Block("y", mc.Gaussian(variance=0.2))], [prior])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.NotCertifiedWarning)
            answers.append(mc.posterior(model, data, max_iter=30))
    theirs, ours = answers
    assert ours.evidence == theirs.evidence
    np.testing.assert_array_equal(ours.predict("y"), theirs.predict("y"))
    np.testing.assert_array_equal(ours.sample("y", 2), theirs.sample("y", 2))
    new = {"y": table_of_rank_two(3, SHAPE)}
    np.testing.assert_array_equal(
        ours.condition(new).predict("y"), theirs.condition(new).predict("y")
    )
    ours.plot.coverage()
    ours.save(tmp_path / "posterior.mcf")
    np.testing.assert_array_equal(
        mc.load(tmp_path / "posterior.mcf").predict("y"), ours.predict("y")
    )


@pytest.mark.parametrize("terms", [[mc.MaxNorm(1.0)], [mc.NuclearNorm(), mc.Ridge(1.0)]], ids=str)
def test_models_without_a_posterior_are_refused_alike(terms):
    said = []
    for chosen in (terms, list(map(own, terms))):
        model = mc.Model([mc.Block("y", mc.Gaussian())], chosen)
        with pytest.raises(mc.BackendError, match="no posterior: ") as refused:
            mc.posterior(model, {"y": table_of_rank_two(0, SHAPE)})
        said.append(str(refused.value))
    assert said[0] == said[1]


@attrs.frozen
class OnlyDeclaresAPrior(mc.Ridge):
    """A term that names a prior and has none of its parameters."""

    prior = contract.Prior.ROWS


def test_a_prior_without_parameters_is_refused_with_the_remedy():
    model = mc.Model([mc.Block("y", mc.Gaussian())], [OnlyDeclaresAPrior(1.0)])
    with pytest.raises(mc.BackendError, match=r"OnlyDeclaresAPrior declares .* PriorOfRows"):
        mc.posterior(model, {"y": table_of_rank_two(0, SHAPE)})


@pytest.mark.parametrize("terms", CASES.values(), ids=CASES)
def test_tables_are_declared_and_filled_with_them(terms):
    frame = pd.DataFrame(table_of_rank_two(0, SHAPE), columns=list("abcd"))
    filled = []
    for model in models(terms, standardize=not isinstance(terms[-1], mc.ResidualNuclearNorm)):
        declared = mc.declare(frame, model=model, columns={"y": list("abcd")})
        fit = mc.fit(declared.model, declared.data, tol=1e-4)
        filled.append(declared.table(fit))
    pd.testing.assert_frame_equal(*filled)


ESTIMATED = ["nuclear norm", "max norm", "rows", "nuclear norm and box", "nuclear ball and ridge"]


@pytest.mark.parametrize("name", ESTIMATED)
@pytest.mark.some(0.6, name=[0, 1])
def test_estimators_take_them(name):
    terms = CASES[name]
    weight = None if isinstance(terms[0], mc.GaussianRows | mc.NuclearBall) else "cv"
    x = table_of_rank_two(0, SHAPE)
    filled = []
    for chosen in (terms, list(map(own, terms))):
        imputer = MatrixCompletionImputer(terms=chosen, weight=weight, n_weights=3, cv=2)
        filled.append(imputer.fit_transform(x))
    np.testing.assert_array_equal(*filled)


IN_PARTITIONS = ["nuclear norm", "nuclear norm by counts", "max norm", "nuclear norm and box"]


@pytest.mark.parametrize("name", IN_PARTITIONS)
def test_partitions_take_or_refuse_them_alike(name):
    answers = []
    for model in models(CASES[name]):
        parts = RowsInMemory({"y": table_of_rank_two(0, SHAPE)}, n_partitions=3)
        try:
            answers.append(mc.fit(model, parts, tol=1e-5).predict("y"))
        except mc.BackendError as error:
            answers.append(str(error))
    np.testing.assert_array_equal(*answers)

"""What is compiled, how often, and which backend is taken: the ladder stands once."""

import pathlib
import re
import warnings

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends import BACKENDS, LADDER, FirstOrder, choose
from mcframe.backends.ladder import backends_in_turn, ladder_text
from mcframe.compile import CompiledProblem, compiling
from mcframe.numerics.operators import LowRank
from mcframe.selection import RelativeError

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def compilations(monkeypatch):
    """A list that grows by one where the losses of a problem are compiled."""
    made, compile_loss = [], compiling.compile_loss

    def counted(problem):
        made.append(problem)
        return compile_loss(problem)

    monkeypatch.setattr(compiling, "compile_loss", counted)
    return made


@pytest.fixture
def boxed(model):
    """No slope: the first rung refuses, the second runs."""
    return attrs.evolve(model, terms=[*model.terms, mc.Box(-2.0, 2.0, "features")])


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_a_fit_compiles_once(model, table, compilations, backend):
    mc.fit(model, table, backend=backend, tol=1e-2)
    assert len(compilations) == 1


def test_what_the_first_backends_refuse_is_compiled_once(boxed, table, compilations):
    assert mc.fit(boxed, table, tol=1e-2).backend == "splitting"
    assert len(compilations) == 1


def test_explaining_compiles_once(boxed, table, compilations):
    assert mc.explain(boxed, table).chosen == "splitting"
    assert len(compilations) == 1


def test_verifying_compiles_once(model, table, compilations):
    assert mc.verify(model, table).agrees
    assert len(compilations) == 1


@pytest.mark.parametrize("weights", [None, [0.1, 0.05, 0.02, 0.01]])
def test_a_path_compiles_once(model, table, compilations, weights):
    assert len(mc.path(model, table, weights=weights, count=4, tol=1e-2)) == 4
    assert len(compilations) == 1


def test_a_reference_path_compiles_once(model, table, compilations):
    mc.path(model, table, weights=[0.1, 0.05], backend="reference", tol=1e-2)
    assert len(compilations) == 1


def test_a_cross_validation_compiles_each_table_once(model, table, compilations):
    """All data for the grid and the backend, then each fold for its path."""
    mc.cross_validate(model, table, criterion=RelativeError("features"), count=3, folds=4)
    assert len(compilations) == 1 + 4


def test_a_choice_of_ones_own_compiles_nothing(model, table, compilations):
    problem = CompiledProblem(mc.Problem.bind(model, table))
    assert not compilations
    assert problem.program is problem.program
    assert choose(problem).name == "proximal"
    assert len(compilations) == 1


def test_a_gap_costs_nothing(model, table):
    """Gap and slack are numbers of the outcome: they need no data and no point."""
    fit = mc.fit(model, table, tol=1e-3)
    bare = attrs.evolve(fit, problem=None, point=None, effects=None)
    assert (bare.gap, bare.slack) == (fit.gap, fit.slack)


def terms_for(name):
    return {
        "main": ([mc.NuclearNorm(0.3)], 0),
        "main beside a ridge": ([mc.NuclearNorm(0.3), mc.Ridge(0.2)], 0),
        "ridge": ([mc.NuclearNorm(0.3), mc.Ridge(0.2)], 1),
        "ridge alone": ([mc.Ridge(0.2)], 0),
        "factored": ([mc.MaxNorm(0.3), mc.Ridge(0.2)], 0),
        "attached to factors": ([mc.MaxNorm(0.3), mc.Ridge(0.2)], 1),
        "attached": ([mc.NuclearNorm(0.3), mc.ResidualNuclearNorm("features", 0.2)], 1),
        "beside a column": ([mc.NuclearNorm(0.3), mc.OnesColumn()], 0),
        "beside a set": ([mc.NuclearNorm(0.3), mc.Box(-1.0, 1.0, "features")], 0),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "main",
        "main beside a ridge",
        "ridge",
        "ridge alone",
        "factored",
        "attached to factors",
        "attached",
        "beside a column",
        "beside a set",
    ],
)
def test_a_reweighted_program_is_the_one_compiled_anew(model, table, name):
    terms, place = terms_for(name)
    problem = mc.Problem.bind(attrs.evolve(model, terms=terms), table)
    origin = CompiledProblem(problem)
    shared = origin.with_weight(place, 7.0).program
    anew = CompiledProblem(problem.with_weight(place, 7.0)).program
    assert shared.loss is origin.program.loss
    assert shared.background is origin.program.background
    assert anew.loss is not origin.program.loss
    for field in ("shape", "penalty", "names", "columns", "unit"):
        assert getattr(shared, field) == getattr(anew, field), field
    assert [(t.term, t.columns) for t in shared.terms] == [(t.term, t.columns) for t in anew.terms]
    assert (
        shared.penalty != origin.program.penalty
        or shared.terms[0].term != origin.program.terms[0].term
    )
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((n, 2)) for n in shared.shape)
    latent = LowRank(left, right)
    assert shared.entries.orders is origin.program.entries.orders
    assert shared.evaluate(latent).losses == anew.evaluate(latent).losses


def test_an_unwritten_background_is_shared():
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 6000 * 4000, 3000))
    labels = sp.csr_array((np.ones(cells.size), (cells // 4000, cells % 4000)), (6000, 4000))
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.4, likelihood=mc.Gaussian())
    model = mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(1.0)])
    with pytest.warns(mc.UnobservedWarning):
        origin = CompiledProblem(mc.Problem.bind(model, {"y": labels}))
    assert origin.program.background
    assert origin.with_weight(0, 2.0).program.background is origin.program.background


def test_force_overrules_size_and_nothing_else(boxed, table):
    with pytest.raises(mc.BackendError, match="'proximal' cannot run this problem: Box has no"):
        mc.fit(boxed, table, backend="proximal", force=True)


def test_a_start_that_a_backend_does_not_know_is_refused_in_its_words(model, table):
    start = mc.fit(model, table, tol=1e-2)
    with pytest.raises(mc.ModelError, match="but a conic solver cannot begin from a point"):
        mc.fit(model, table, backend="reference", start=start)


def test_sparse_tables_are_asked_about_in_another_order():
    """More than a million cells, few of them observed."""
    cells = np.arange(0, 1500 * 1000, 1000)

    def names(n_entries):
        kept = cells[:n_entries]
        matrix = sp.csr_array((np.ones(kept.size), (kept // 1000, kept % 1000)), (1500, 1000))
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
        with pytest.warns(mc.UnobservedWarning):
            problem = mc.Problem.bind(model, {"x": matrix})
        return [backend.name for backend in backends_in_turn(problem)]

    others = [rung.name for rung in LADDER if rung.automatic and rung.name != "alternating"]
    assert names(1500) == ["alternating", *others]
    small = mc.Problem.bind(
        mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)]), {"x": np.eye(3)}
    )
    assert backends_in_turn(small)[0].name == "proximal"


@pytest.mark.parametrize("verb", [choose, mc.fit, mc.explain])
def test_docstrings_print_the_ladder(verb):
    printed = "\n".join(line.strip() for line in verb.__doc__.splitlines())
    assert ladder_text() in printed
    assert all(
        f"``{rung.name}``" in printed and rung.serves in printed.replace("\n", " ")
        for rung in LADDER
    )


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_table_of_backends_follows_the_ladder():
    """The columns of docs/backends.md, and the row that says when each is chosen."""
    lines = [line for line in page("docs/backends.md").splitlines() if line.startswith("|")]
    columns = [cell.strip(" `") for cell in lines[0].strip("|").split("|")][1:]
    assert columns == [rung.name for rung in LADDER]
    (row,) = [line for line in lines if line.startswith("| chosen by `auto`")]
    said = [cell.strip() for cell in row.strip("|").split("|")][1:]
    ordinals = iter(["first", "second", "third", "fourth", "fifth", "sixth"])
    assert said == [next(ordinals) if rung.automatic else "never" for rung in LADDER]


def test_every_backend_has_a_section():
    headings = re.findall(r"^## `(\w+)`$", page("docs/backends.md"), re.MULTILINE)
    assert headings == [rung.name for rung in LADDER]


def test_the_readme_names_every_backend_in_order():
    (row,) = [line for line in page("README.md").splitlines() if line.startswith("| backends |")]
    named = re.findall(r'`"(\w+)"`', row)
    assert named[: len(LADDER)] == [rung.name for rung in LADDER]
    assert named[len(LADDER) :] == [
        "auto",
        *(rung.name for rung in LADDER if not rung.automatic),
        *(rung.name for rung in LADDER if rung.first_if_sparse is not None),
    ]


@pytest.mark.parametrize("package", [mc, mc.backends])
def test_the_old_name_goes_on_working(package):
    with pytest.warns(FutureWarning, match="Multipliers is called .*Splitting now"):
        assert package.Multipliers is mc.Splitting
    with pytest.raises(AttributeError, match="no attribute 'Multiplier'"):
        package.Multiplier  # noqa: B018


@pytest.mark.parametrize("package", ["mcframe", "mcframe.backends"])
def test_an_old_name_that_is_imported_warns_once(package):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exec(f"from {package} import Multipliers")
    assert [str(warning.message) for warning in said] == [
        f"{package}.Multipliers is called {package}.Splitting now"
    ]


def test_a_class_is_called_as_the_user_writes_it():
    """But for FactoredDescent: ``Factored`` is the ability of a term that it needs."""
    adapted = {n: b.solver if isinstance(b, FirstOrder) else b for n, b in BACKENDS.items()}
    classes = {name: type(word).__name__.lower() for name, word in adapted.items()}
    assert classes.pop("factored") == "factoreddescent"
    assert all(name == cls for name, cls in classes.items())

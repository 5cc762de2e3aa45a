"""What is compiled, how often, and which backend is taken: the list of candidates stands once."""

import pathlib
import re
import warnings

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends import BACKENDS, CANDIDATES, FirstOrder, able, best_backend, reference
from mcframe.backends.choice import MAX_OPERATIONS_PER_ENTRY
from mcframe.backends.reference import cost_in_words
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
    """No gradient: the first candidate refuses, the second runs."""
    return attrs.evolve(model, terms=[*model.terms, mc.Box(-2.0, 2.0, "features")])


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_a_fit_compiles_once(model, table, compilations, backend):
    if backend == "rowwise":
        blocks = [attrs.evolve(block, bias=False) for block in model.blocks]
        model = mc.Model(blocks, [mc.GaussianRows(np.eye(12))])
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
    assert len(mc.path(model, table, weights=mc.selection.Grid(weights, count=4), tol=1e-2)) == 4
    assert len(compilations) == 1


def test_a_reference_path_compiles_once(model, table, compilations):
    mc.path(model, table, weights=[0.1, 0.05], backend="reference", tol=1e-2)
    assert len(compilations) == 1


def test_a_cross_validation_compiles_each_table_once(model, table, compilations):
    """All data for the grid and the backend, then each fold for its path."""
    mc.cross_validate(
        model, table, criterion=RelativeError("features"), weights=mc.selection.Grid(count=3), cv=4
    )
    assert len(compilations) == 1 + 4


def test_a_choice_of_ones_own_compiles_nothing(model, table, compilations):
    problem = CompiledProblem(mc.Problem.bind(model, table))
    assert not compilations
    assert problem.program is problem.program
    assert best_backend(problem).name == "proximal"
    assert len(compilations) == 1


def test_a_gap_costs_nothing(model, table):
    """Gap and slack are numbers of the outcome: they need no data and no point."""
    fit = mc.fit(model, table, tol=1e-3)
    bare = attrs.evolve(fit, problem=None, point=None, effects=None)
    assert (bare.gap, bare.allowed_excess) == (fit.gap, fit.allowed_excess)


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
    assert shared.background.parts is origin.program.background.parts
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
    assert shared.entries.index is origin.program.entries.index
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
    shared = origin.with_weight(0, 2.0).program.background
    assert shared.parts is origin.program.background.parts


def test_force_overrules_size_and_nothing_else(boxed, table):
    with pytest.raises(mc.BackendError, match="'proximal' cannot run this problem: Box has no"):
        mc.fit(boxed, table, backend=mc.backends.Forced(mc.Proximal()))


def test_a_start_that_a_backend_does_not_know_is_refused_in_its_words(model, table):
    start = mc.fit(model, table, tol=1e-2)
    with pytest.raises(mc.ModelError, match="but a conic solver cannot begin from a point"):
        mc.fit(model, table, backend="reference", start=start)


def table_with(n_rows, n_columns, n_entries):
    x = np.full(n_rows * n_columns, np.nan)
    places = np.random.default_rng(0).permutation(x.size)[:n_entries]
    x[places] = np.random.default_rng(1).standard_normal(n_entries)
    return x.reshape(n_rows, n_columns)


def names_of_able(x, *terms, weight=3.0):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(weight), *terms])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return [each.name for each in able(CompiledProblem(mc.Problem.bind(model, {"x": x})))]


# 200 x 150 x 150 operations are so many for each of 450 entries.
FEW = 450
DENSE_FIRST = ["proximal", "splitting", "alternating", "factored", "reference"]
FACTORS_FIRST = ["alternating", "factored", "proximal", "splitting", "reference"]


@pytest.mark.parametrize(
    ("n_entries", "order"),
    [(30_000, DENSE_FIRST), (FEW, DENSE_FIRST), (FEW - 1, FACTORS_FIRST), (1, FACTORS_FIRST)],
)
def test_auto_takes_factors_where_a_decomposition_costs_more_than_entries(n_entries, order):
    assert MAX_OPERATIONS_PER_ENTRY * FEW == 200 * 150 * 150
    assert names_of_able(table_with(200, 150, n_entries)) == order
    assert names_of_able(table_with(150, 200, n_entries)) == order


def test_with_a_nonsmooth_part_splitting_or_factors_come_first():
    box = mc.Box(-2.0, 2.0)
    assert names_of_able(table_with(200, 150, FEW), box) == ["splitting", "factored", "reference"]
    few = names_of_able(table_with(200, 150, FEW - 1), box)
    assert few == ["factored", "splitting", "reference"]


def test_the_weight_has_no_part_in_the_choice():
    """So a path has one backend, whatever its weights."""
    x = table_with(200, 150, FEW - 1)
    assert names_of_able(x, weight=0.1) == names_of_able(x, weight=30.0) == FACTORS_FIRST
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    with pytest.warns(mc.UnobservedWarning):
        path = mc.path(model, {"x": x}, weights=[2.0, 1.0], tol=1e-2)
    assert {fit.backend for fit in path} == {"alternating"}


def test_estimates_in_words():
    said = [cost_in_words(s) for s in (0.01, 0.123, 3.3, 47.0, 119.0, 260.0, 9000.0)]
    assert said[:2] == ["less than 0.1 s", "about 0.1 s"]
    assert said[2:5] == ["about 3 s", "about 50 s", "about 100 s"]
    assert said[5:] == ["about 4 minutes", "about 2 hours"]


@pytest.mark.parametrize(
    ("n_entries", "terms", "said"),
    [
        (9000, (), "auto takes proximal, the first that can run it: decomposing Z takes 500 oper"),
        (449, (), "auto takes alternating, the first that works on factors: decomposing Z takes"),
        (449, (), "10,022 operations for each observed entry, more than 10,000"),
        (9000, (mc.Box(-1.0, 1.0),), "auto takes splitting, the first that can run it"),
        (9000, (mc.Ridge(0.1), mc.OnesColumn()), "auto takes proximal"),
    ],
)
def test_explain_says_why(n_entries, terms, said):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(3.0), *terms])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        explanation = mc.explain(model, {"x": table_with(200, 150, n_entries)})
    assert said in explanation.why
    assert repr(explanation).endswith(explanation.why)
    assert explanation.why.startswith(f"auto takes {explanation.chosen}")


def test_explain_says_that_there_is_no_choice(model, table):
    rows = [attrs.evolve(block, bias=False) for block in model.blocks]
    model = mc.Model(rows, [mc.GaussianRows(np.eye(12))])
    why = mc.explain(model, table).why
    assert why.startswith("auto takes rowwise")


def test_the_docstring_of_fit_prints_the_candidates():
    printed = " ".join(mc.fit.__doc__.split())
    automatic = [candidate for candidate in CANDIDATES if candidate.automatic]
    said = [
        f"{k}. ``{candidate.name}``: {candidate.serves}"
        for k, candidate in enumerate(automatic, 1)
    ]
    never = [f"``{r.name}`` is never chosen: {r.serves}" for r in CANDIDATES if not r.automatic]
    assert "; ".join(said) in printed
    assert all(text in printed for text in never)
    assert (
        f"more than {MAX_OPERATIONS_PER_ENTRY:,} times the number of observed entries" in printed
    )


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_table_of_backends_follows_the_candidates():
    """The rows of both tables of docs/backends.md."""
    tables = page("docs/backends.md").split("| backend |")[1:3]
    rows = [re.findall(r"^\| `(\w+)` \|", table.split("\n\n")[0], re.M) for table in tables]
    assert rows == 2 * [[candidate.name for candidate in CANDIDATES]]


def test_every_backend_has_a_section():
    headings = re.findall(r"^## `(\w+)`$", page("docs/backends.md"), re.MULTILINE)
    assert headings == [candidate.name for candidate in CANDIDATES]


def test_the_readme_names_every_backend_in_order():
    (row,) = [line for line in page("README.md").splitlines() if line.startswith("| backends |")]
    named = re.findall(r'`"(\w+)"`', row)
    assert named[: len(CANDIDATES)] == [candidate.name for candidate in CANDIDATES]
    assert named[len(CANDIDATES) :] == [
        "auto",
        *(candidate.name for candidate in CANDIDATES if not candidate.automatic),
    ]


def test_a_class_is_called_as_the_user_writes_it():
    """But for FactoredDescent: ``Factored`` is the ability of a term that it needs."""
    adapted = {n: b.solver if isinstance(b, FirstOrder) else b for n, b in BACKENDS.items()}
    classes = {name: type(word).__name__.lower() for name, word in adapted.items()}
    assert classes.pop("factored") == "factoreddescent"
    assert all(name == cls for name, cls in classes.items())


def test_the_estimate_of_a_reference_counts_all_its_answers(monkeypatch):
    """Where none meets the tolerance: SCS briefly and at length, Clarabel in several units."""
    x = np.random.default_rng(0).standard_normal((4, 3))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    compiled, asked = CompiledProblem(mc.Problem.bind(model, {"x": x})), []
    opinion = reference.Reference.opinion

    def inexact(solver, compiled, name, *arguments):
        point, certificate, _ = opinion(solver, compiled, name, *arguments)
        asked.append((name, solver.max_iters))
        return point, attrs.evolve(certificate, bound=certificate.bound - 1.0), True

    monkeypatch.setattr(reference.Reference, "opinion", inexact)
    solver = mc.Reference()
    solver.opinions(compiled, 1e-6, np.inf)
    by_clarabel = sum(name == "CLARABEL" for name, _ in asked)
    assert by_clarabel == 1 + len(reference.POWERS_OF_OBJECTIVE)
    few, many = (reference.estimated_cost(compiled.problem, n) for n in (1e-9, 1e4))
    assert few.most == pytest.approx(by_clarabel * 1e-9 * sum(x.shape) ** 6, rel=1e-3)
    by_scs = [n for name, n in asked if name == "SCS"]
    longer = (many.most - few.most) / (many.first - few.first)
    assert longer == pytest.approx(sum(by_scs) / by_scs[0])

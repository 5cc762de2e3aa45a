"""What is compiled, how often, and which backend is taken: the ladder stands once."""

import pathlib
import re

import attrs
import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends import BACKENDS, LADDER, FirstOrder, choose
from mcframe.backends.effort import EFFORTS, Effort, Size, Work, in_words
from mcframe.backends.ladder import in_turn, ladder_text, work_of
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
    """No gradient: the first rung refuses, the second runs."""
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
    assert len(mc.path(model, table, weights=weights, count=4, tol=1e-2)) == 4
    assert len(compilations) == 1


def test_a_reference_path_compiles_once(model, table, compilations):
    mc.path(model, table, weights=[0.1, 0.05], backend="reference", tol=1e-2)
    assert len(compilations) == 1


def test_a_cross_validation_compiles_each_table_once(model, table, compilations):
    """All data for the grid and the backend, then each fold for its path."""
    mc.cross_validate(model, table, criterion=RelativeError("features"), count=3, cv=4)
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


def constant(count, seconds):
    """An effort that is the same for every table."""
    iterations, rank, step = np.zeros((3, 9))
    iterations[0], step[0] = np.log(count), np.log(seconds)
    return Effort(tuple(iterations), tuple(rank), tuple(step), (seconds, *np.zeros(13)))


# More than 5,000 cells.
X = np.random.default_rng(0).standard_normal((110, 50))
X[np.random.default_rng(1).random(X.shape) < 0.5] = np.nan


@pytest.fixture
def plain():
    """A problem that three backends with an estimate can run."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(3.0)])
    return CompiledProblem(mc.Problem.bind(model, {"x": X}))


@pytest.mark.parametrize("fastest", ["proximal", "alternating", "factored"])
def test_auto_takes_what_is_expected_to_be_done_first(plain, monkeypatch, fastest):
    for name in EFFORTS:
        monkeypatch.setitem(EFFORTS, name, constant(10, 0.2 if name == fastest else 2.0))
    assert choose(plain).name == fastest


def test_what_has_no_estimate_comes_last(plain, monkeypatch):
    backends = [rung.backend for rung in LADDER if rung.automatic]
    for name in EFFORTS:
        monkeypatch.setitem(EFFORTS, name, constant(1, 1e9))
    named = [backend.name for backend in in_turn(backends, plain, 1e-6)]
    assert named == [rung.name for rung in LADDER if rung.automatic]  # where estimates are alike
    monkeypatch.delitem(EFFORTS, "alternating")
    last = tuple(BACKENDS[name] for name in ("alternating", "rowwise", "reference"))
    assert in_turn(backends, plain, 1e-6)[-3:] == last


def test_without_nonsmooth_parts_splitting_is_what_it_holds(plain, monkeypatch):
    monkeypatch.setitem(EFFORTS, "proximal", constant(3, 1.0))
    monkeypatch.setitem(EFFORTS, "splitting", constant(5, 1.0))
    size = Size.of(plain)
    assert work_of(BACKENDS["splitting"], size).seconds() == pytest.approx(3.0)
    nonsmooth = attrs.evolve(size, nonsmooth=True)
    assert work_of(BACKENDS["splitting"], nonsmooth).seconds() == pytest.approx(5.0)


def test_on_small_tables_the_ladder_decides(model, table, monkeypatch):
    monkeypatch.setitem(EFFORTS, "proximal", constant(1, 1e9))
    small = attrs.evolve(model, terms=[mc.NuclearNorm(0.02)])
    assert choose(CompiledProblem(mc.Problem.bind(small, table))).name == "proximal"


@pytest.mark.parametrize(
    ("weights", "taken"), [([40.0, 30.0, 20.0], "alternating"), ([0.4, 0.3, 0.2], "proximal")]
)
def test_a_path_chooses_by_its_middle_weight(plain, monkeypatch, weights, taken):
    """Alternation is the faster one where the weight is heavy; the model's own is 3."""
    heavier = np.zeros(9)
    heavier[1] = -1.0
    for name in EFFORTS:
        monkeypatch.setitem(EFFORTS, name, constant(1, 10.0))
    alternation = attrs.evolve(constant(1, 10.0), iterations=tuple(heavier))
    monkeypatch.setitem(EFFORTS, "alternating", alternation)
    path = mc.path(plain.problem.model, {"x": X}, weights=weights, tol=1e-2)
    assert {fit.backend for fit in path} == {taken}


def test_one_backend_that_can_is_taken_without_an_estimate(plain, monkeypatch):
    monkeypatch.setattr(Size, "of", None)
    assert in_turn([BACKENDS["factored"]], plain, 1e-6) == (BACKENDS["factored"],)


def test_an_estimate_is_of_the_backend_with_its_own_options(plain):
    size = Size.of(plain)
    assert work_of(FirstOrder(mc.Proximal()), size) is not None
    assert work_of(FirstOrder(mc.Proximal(precision="single")), size) is None
    assert work_of(BACKENDS["fpc"], size) is None


def test_the_traits_of_a_problem():
    x = np.where(np.arange(12).reshape(4, 3) < 6, 2.0, np.nan)
    counts = mc.Block("x", mc.Poisson(), bias=True)
    model = mc.Model([counts], [mc.NuclearNorm(3.0), mc.Box(-2.0, 2.0)])
    with pytest.warns(mc.UnobservedWarning):
        size = Size.of(CompiledProblem(mc.Problem.bind(model, {"x": x})))
    assert (size.shape, size.n_entries) == ((4, 3), 6)
    assert (size.curved, size.nonsmooth, size.effects) == (True, True, True)
    assert size.traits.size == len(EFFORTS["proximal"].iterations)
    # The best bias leaves no gradient at Z = 0.
    assert np.isnan(size.heaviness)
    plain = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(3.0)])
    with pytest.warns(mc.UnobservedWarning):
        size = Size.of(CompiledProblem(mc.Problem.bind(plain, {"x": x})))
    assert (size.curved, size.nonsmooth, size.effects) == (False, False, False)
    noise = np.sqrt(6 * 4.0) * (1 / np.sqrt(4) + 1 / np.sqrt(3))
    assert size.heaviness == pytest.approx(3.0 / noise)
    assert size.traits[:4] == pytest.approx([1.0, np.log(3.0 / noise), 0.0, np.log(0.5)])


def test_smaller_tolerances_take_more_iterations_up_to_rounding(plain):
    work = Work(constant(30, 0.1), Size.of(plain))
    assert work.seconds(1e-6) == pytest.approx(3.0)
    assert work.seconds(1e-3) == pytest.approx(1.5)
    assert work.seconds(0.0) == work.seconds(1e-12) == pytest.approx(6.0)


def test_estimates_in_words():
    said = [in_words(s) for s in (0.01, 0.123, 3.3, 47.0, 119.0, 260.0, 9000.0)]
    assert said[:2] == ["less than 0.1 s", "about 0.1 s"]
    assert said[2:5] == ["about 3 s", "about 50 s", "about 100 s"]
    assert said[5:] == ["about 4 minutes", "about 2 hours"]


def test_explain_says_what_is_expected(monkeypatch):
    monkeypatch.setitem(EFFORTS, "splitting", constant(10, 0.3))
    boxes = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(3.0), mc.Box(-2.0, 2.0)])
    explanation = mc.explain(boxes, {"x": X})
    seconds = {verdict.name: verdict.seconds for verdict in explanation.verdicts}
    assert seconds["splitting"] == pytest.approx(3.0)
    assert seconds["proximal"] is None
    (line,) = [row for row in repr(explanation).splitlines() if row.startswith("splitting ")]
    assert "; estimated at about 3 s" in line
    small = mc.explain(boxes, {"x": X[:90]})
    assert all(verdict.seconds is None for verdict in small.verdicts)
    assert "estimated" not in repr(small)


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
    """The columns of docs/backends.md, and the row that says how each is chosen."""
    lines = [line for line in page("docs/backends.md").splitlines() if line.startswith("|")]
    columns = [cell.strip(" `") for cell in lines[0].strip("|").split("|")][1:]
    assert columns == [rung.name for rung in LADDER]
    (row,) = [line for line in lines if line.startswith("| taken by `auto`")]
    said = [cell.strip() for cell in row.strip("|").split("|")][1:]
    by_estimate = ["by its estimate" if rung.name in EFFORTS else "last" for rung in LADDER]
    assert said == [
        how if rung.automatic else "never" for rung, how in zip(LADDER, by_estimate, strict=True)
    ]


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
    ]


def test_a_class_is_called_as_the_user_writes_it():
    """But for FactoredDescent: ``Factored`` is the ability of a term that it needs."""
    adapted = {n: b.solver if isinstance(b, FirstOrder) else b for n, b in BACKENDS.items()}
    classes = {name: type(word).__name__.lower() for name, word in adapted.items()}
    assert classes.pop("factored") == "factoreddescent"
    assert all(name == cls for name, cls in classes.items())

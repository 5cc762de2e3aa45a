"""What files may hold: classes that say so beside themselves, and of a saved fit no solver."""

import ast
import gc
import importlib
import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import get_args, get_origin

import attrs
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from scipy import sparse

import mcframe as mc
from mcframe.contracts import stored
from mcframe.contracts.stored_classes import STORED, declaration_of, full_name_of
from mcframe.fitting import fit as fitting
from mcframe.posterior.row_identities import RowIdentities
from mcframe.storage.archive import Archive
from mcframe.storage.digest import digest_of
from mcframe.storage.serializing import declared_as, deserialize, hints_of, serialize
from mcframe.tables.coding import Constant

from .catalogue import LIKELIHOODS, SHAPED_TERMS, TERMS
from .data import write_files
from .strategies import SHAPES, versions_of_a_class

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{k}") for k in ("UserWarning", "RuntimeWarning")
]
ROOT = Path(mc.__file__).parent
DATA = Path(write_files.__file__).parent
DECLARED = {d.kind: d for d in STORED.values() if d.kind.__module__.startswith("mcframe.")}
KINDS = ("fit", "posterior", "completion")
# The solvers, by the checkpoints that the writer of files makes of them.
SOLVERS = [name for name in write_files.CHECKPOINTS if name != "partitions"]


def names_in(facts):
    """The names of all classes in some JSON."""
    if isinstance(facts, dict):
        yield from [facts["is"]] if "is" in facts else []
        facts = list(facts.values())
    for part in facts if isinstance(facts, list) else []:
        yield from names_in(part)


def classes_in(facts):
    return {STORED[name].kind for name in names_in(facts) if name in STORED}


def facts_of(path, name="answer"):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(f"{name}/facts.json"))


def instances_in(value, seen):
    """All instances of declared classes that a value consists of."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if declaration_of(type(value)) is not None:
        yield value
        parts = [getattr(value, field.name) for field in attrs.fields(type(value))]
    elif isinstance(value, dict):
        parts = list(value.values())
    else:
        parts = list(value) if isinstance(value, list | tuple) else []
    for part in parts:
        yield from instances_in(part, seen)


# --- Declared beside itself -------------------------------------------------------------------


def is_stored(decorator):
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id == "stored"


def test_every_stored_class_is_declared_beside_itself():
    """By a decorator in its file; nothing else calls it, and no table names classes."""
    decorated = set()
    for path in ROOT.rglob("*.py"):
        module = ".".join(("mcframe", *path.relative_to(ROOT).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(map(is_stored, node.decorator_list)):
                decorated.add(f"{module}.{node.name}")
    assert decorated == {full_name_of(kind) for kind in DECLARED}
    text = (ROOT / "storage" / "serializing.py").read_text()
    strings = {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)}
    assert not strings & {kind.__name__ for kind in DECLARED}


def test_names_of_stored_classes_are_their_own():
    """A file may have the name alone of a class of the package."""
    for kind, declaration in DECLARED.items():
        assert STORED[kind.__name__] is STORED[full_name_of(kind)] is declaration
    assert len({kind.__name__ for kind in DECLARED}) == len(DECLARED)


def test_all_words_are_stored():
    for package in (mc.likelihoods, mc.risks, mc.regularizers, mc.constraints, mc.sums):
        for name in package.__all__:
            assert STORED[name].kind is getattr(package, name)
    assert declaration_of(type(mc.Calibration("x", [1.0], [1.0]))).stored_as is mc.Calibration


# What stays with the partitions of rows: answers are saved without it.
IN_PARTITIONS = {"PartitionedProblem", "TableInPartitions", "OffsetInPartitions"}


def subclasses_of(kind):
    for below in kind.__subclasses__():
        yield below
        yield from subclasses_of(below)


def test_a_class_below_a_stored_one_is_stored_as_itself():
    """Else answers with it could not be saved, or would come back with another class."""
    importlib.import_module("mcframe.partitions.partitioned_problem")
    gc.collect()  # a class with slots is made anew, and what it was made of is garbage
    below = {k for kind in DECLARED for k in subclasses_of(kind)}
    inside = {kind for kind in below if kind.__module__.startswith("mcframe.")}
    assert {kind.__name__ for kind in inside if declaration_of(kind) is None} == IN_PARTITIONS


def test_a_constant_column_comes_back_as_one(tmp_path):
    completed = mc.complete(pd.DataFrame({"a": [2.5] * 4, "b": ["x"] * 4}))
    again = mc.load(completed.save(tmp_path / "table.npz"), mc.Completion)
    for one in (completed, again):
        assert [type(column.coding) for column in one.declared.columns] == [Constant] * 2
    new = pd.DataFrame({"a": [np.nan, 9.0], "b": [None, "x"]})
    pd.testing.assert_frame_equal(again.complete_rows(new), completed.complete_rows(new))


def classes_of(hint):
    """The classes of the package that an annotation names."""
    origin = get_origin(hint)
    if origin is not None and origin.__module__.startswith("mcframe."):
        yield from classes_of(origin)  # whose arguments are no fields
        return
    for part in get_args(hint):
        yield from classes_of(part)
    if isinstance(hint, type) and attrs.has(hint) and hint.__module__.startswith("mcframe."):
        yield hint


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_fields_of_stored_classes_are_of_stored_classes(kind):
    for name, hint in hints_of(kind).items():
        for part in classes_of(hint):
            assert any(issubclass(other, part) for other in DECLARED), f"{name}: {part.__name__}"


# --- There and back ---------------------------------------------------------------------------


def there_and_back(value, **shared):
    """A value through JSON and arrays; what is written is the same the second time."""
    arrays, facts = serialize(value, "value", shared)
    again = deserialize(arrays, json.loads(json.dumps(facts)), shared)
    arrays_again, facts_again = serialize(again, "value", shared)
    assert facts_again == json.loads(json.dumps(facts))
    assert digest_of(arrays_again) == digest_of(arrays)
    return again


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """What the checkpoint of each solver holds, by its name, with the file and the problem."""
    folder, made = tmp_path_factory.mktemp("checkpoints"), {}
    for name in SOLVERS:
        terms, data, backend = write_files.CHECKPOINTS[name]
        model, path = mc.Model([write_files.GAUSSIAN], terms), folder / f"{name}.npz"
        fit = mc.fit(model, data, backend=backend, max_iter=6, tol=1e-12, checkpoint=path)
        archive = Archive(path)
        held = archive.read("latest", "FitCheckpoint", problem=fit.problem)
        made[name] = held, path, fit
    return made


def test_every_stored_class_goes_there_and_back(checkpoints):
    """Instances from answers of all kinds, checkpoints of all solvers, and all words."""
    seen, kinds = {}, set()
    files = [path for kind in KINDS for path in sorted((DATA / "format_8").glob(f"{kind}_*.npz"))]
    answers = [mc.load(path) for path in files]
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.5))], [mc.NuclearNorm(1.0)])
    draws = {"method": "sampler", "factors": 1, "tol": 0.3}
    answers.append(mc.posterior(model, {"x": np.arange(12.0).reshape(4, 3)}, **draws))
    of_factors = mc.posterior(model, {"x": np.arange(12.0).reshape(4, 3)}, factors=1)
    answers.append(of_factors.condition({"x": np.arange(6.0).reshape(2, 3)}))
    rows = mc.Model([mc.Block("x", mc.Gaussian(variance=0.5))], [mc.GaussianRows(prior_rows=1.0)])
    draws.pop("factors")
    answers.append(mc.posterior(rows, {"x": np.arange(12.0).reshape(4, 3) ** 0.5}, **draws))
    moving = mc.GaussianRows(groups=[0, 0, 1, 1], times=[0.0, 1.0, 0.0, 1.0], trend=1)
    grouped = mc.Model(rows.blocks, [moving])
    answers.append(mc.posterior(grouped, {"x": np.arange(12.0).reshape(4, 3) ** 0.5}))
    numbers = sparse.csr_array(np.arange(4.0)[:, None])
    attributes = {"row_attributes": numbers, "column_attributes": "observed"}
    table = {"x": np.arange(12.0).reshape(4, 3)}
    answers.append(mc.posterior(model, table, factors=1, **attributes))
    answers.append(mc.posterior(model, table, method="sampler", factors=1, tol=0.3, **attributes))
    z = np.random.default_rng(0).standard_normal(300)
    shaped = pd.DataFrame({name: shape(z) for name, (shape, *_) in SHAPES.items()})
    answers.append(mc.complete(shaped))
    cut = pd.DataFrame({"x": z, "y": np.where(z > 0.5, np.nan, z[::-1])})
    answers.append(mc.complete(cut, {"y": mc.censored(lower=3.0)}))
    curved = pd.DataFrame({"x": z, "y": z**2 + 0.1 * z[::-1]})
    curved.loc[::4, "y"] = np.nan
    answers.append(mc.complete(curved, nonlinear=True))
    alike = pd.DataFrame(np.repeat(z.reshape(-1, 3), 4, axis=0), columns=["a", "b", "c"])
    answers.append(mc.complete(alike.mask(np.arange(1200).reshape(-1, 3) % 7 == 0)))
    held = [value for value, _, _ in checkpoints.values()]
    words = [entry.word for entry in LIKELIHOODS]
    words += [*TERMS, *[term for term, _ in SHAPED_TERMS]]
    words += [
        mc.Rowwise(),
        Constant((2.5,)),
        mc.relation("x = 2 * y", tolerance=0.1),
        RowIdentities(np.ones((1, 2)), np.zeros(1), np.ones(2)),
        mc.RiskMixture(pn=1.0, missing_rate=0.5, likelihood=mc.Bernoulli("logit")),
        mc.Observations(np.array([[1.0, np.nan]]), lower=np.array([[np.nan, 2.0]])),
    ]
    for value in instances_in([*answers, *held, *words], seen):
        kinds.add(type(value))
        # As a part alone: what the whole computes of its parts is compared below.
        there_and_back(value)
    for value in [*answers, *held]:
        there_and_back(value)
    # In tests of their own:
    elsewhere = {"OnlyIf", "Neighbour"}
    missing = {kind.__name__ for kind in DECLARED if kind not in kinds}
    assert missing == {*mc.sums.__all__, *elsewhere}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(versions_of_a_class())
def test_a_later_version_reads_files_of_an_earlier_one(versions):
    """With fields that were renamed, dropped, and recomputed, in any combination."""
    earlier, later, options = versions
    before = dict(STORED)

    def version(name, values, **declared):
        recomputed = declared.get("recomputed", ())
        fields = {
            field: attrs.field(type=object, default="computed")
            if field in recomputed
            else attrs.field(type=object)
            for field in sorted(values, key=lambda field: field in recomputed)
        }
        return stored(**declared)(attrs.make_class(name, fields, frozen=True))

    try:
        first = version("Earlier", earlier)
        arrays, facts = serialize(first(**earlier))
        others = {
            name: serialize(first(**earlier | {name: 1})) for name in options["formerly_none"]
        }
        second = version("Later", later, formerly=(full_name_of(first),), **options)
        again = deserialize(arrays, json.loads(json.dumps(facts)))
        assert type(again) is second
        assert again == second(**later)
        arrays, facts = serialize(again)
        assert not {*facts} & {*options["recomputed"], *options["former_fields"]}
        assert deserialize(arrays, json.loads(json.dumps(facts))) == again
        for name, another in others.items():
            with pytest.raises(mc.DataError, match=f"has no '{name}'"):
                deserialize(*another)
    finally:
        STORED.clear()
        STORED.update(before)


# --- Solvers' states ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_a_saved_fit_holds_no_state_of_its_solver(name, checkpoints, tmp_path, monkeypatch):
    """Whatever becomes of the classes of states, and of their fields, saved fits are read."""
    held, path, fit = checkpoints[name]
    facts = facts_of(path, "latest")
    of_solver = classes_in(facts["solver"]) - classes_in(facts["fit"])
    of_solver -= {mc.backends.Point}
    assert type(held.solver.solver) in of_solver
    assert len(of_solver) > 2
    saved = fit.save(tmp_path / "fit.npz")
    assert not classes_in(facts_of(saved)) & of_solver
    names = [key for key, d in STORED.items() if d.kind in of_solver]
    for key in names:
        monkeypatch.delitem(STORED, key)
    np.testing.assert_array_equal(mc.load(saved).predict("x"), fit.predict("x"))
    earlier = DATA / "format_8" / f"fit_{name}.npz"
    assert set(names_in(facts_of(earlier)["paused"])) & set(names)
    assert mc.load(earlier, mc.Fit).backend == name
    with pytest.raises(mc.DataError, match="is no class that this version of mcframe reads"):
        Archive(path).read("latest", "FitCheckpoint", problem=fit.problem)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_checkpoint_makes_the_steps_that_would_have_followed(name, tmp_path, monkeypatch):
    """Up to the third certificate: from there on, steps depend on all certificates before."""
    monkeypatch.setattr(fitting, "CHECKPOINT_SECONDS", 0.0)
    terms, data, backend = write_files.CHECKPOINTS[name]
    model, options = mc.Model([write_files.GAUSSIAN], terms), {"backend": backend, "tol": 1e-12}
    whole = mc.fit(model, data, max_iter=24, **options).history[:4]
    for before, record in itertools.pairwise(whole):
        steps = record.iteration - before.iteration
        rest = mc.fit(model, data, max_iter=steps, checkpoint=tmp_path / "fit.npz", **options)
    assert rest.history[-1].objective == pytest.approx(whole[-1].objective, rel=1e-7)


# --- Nothing else is ever made ----------------------------------------------------------------


FOREIGN = [
    "os.system",
    "this.Zen",
    "builtins.eval",
    "subprocess.Popen",
    "mcframe.storage.archive.os",
    "mcframe.storage.archive.Archive",
    "mcframe.storage.serializing.Reader",
    "mcframe.fitting.fit_answer.save",
    "mcframe.backends.choice.FirstOrder",
    "mcframe.__main__.main",
    "mcframe.nowhere.Fit",
    "mcframe.this.Zen",
    "mcframe..this.Zen",
    "mcframe.Fit",
    ".Fit",
    "..",
    "",
    "Archive",
    "FirstOrder",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_no_other_class_is_made_from_a_file(name, monkeypatch):
    modules = set(sys.modules)
    with pytest.raises(mc.DataError, match=r"is = "):
        deserialize({}, {"is": name, "of": [{"is": "Gaussian"}]})
    with pytest.raises(mc.DataError):
        mc.Model.from_json(json.dumps({"format": 9, "model": {"is": name}}))
    new = set(sys.modules) - modules
    assert all(module.startswith("mcframe.") for module in new), new


def test_a_name_imports_no_module_from_outside(tmp_path):
    """Not even one that stands where Python looks for modules."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    (tmp_path / "mcframe_evil.py").write_text("raise SystemExit('imported')")
    script = (
        "import mcframe as mc\n"
        "from mcframe.storage.serializing import deserialize\n"
        "for name in ('evil.Own', 'mcframe_evil.Own', 'mcframe.evil.Own', 'mcframe..evil.Own'):\n"
        "    try:\n"
        "        deserialize({}, {'is': name})\n"
        "    except mc.DataError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 4


def test_classes_are_found_in_modules_of_the_package_that_are_not_imported():
    name = "mcframe.papers.nowhere.Fit"
    with pytest.raises(mc.DataError, match="is no class that this version of mcframe reads"):
        declared_as(name, {})
    assert "mcframe.papers" in sys.modules
    assert declared_as("mcframe.fitting.fit_answer.Fit", {}).kind is mc.Fit


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"recomputed": ("nothing",)}, "has no field 'nothing'"),
        ({"renamed_fields": {"old": "nothing"}}, "has no field 'nothing'"),
        ({"renamed_fields": {"variance": "variance"}}, "has a field 'variance'; drop it"),
        ({"former_fields": ("variance",)}, "has a field 'variance'; drop it"),
        ({"formerly_none": ("variance",)}, "has a field 'variance'; drop it"),
    ],
)
def test_wrong_declarations_are_refused(options, match):
    @attrs.frozen
    class Own(mc.Gaussian):
        """A likelihood of a user's own."""

    with pytest.raises(mc.ModelError, match=match):
        stored(**options)(Own)


def test_earlier_names_of_a_class_of_ones_own():
    """Another module, another name of the class and of a field."""

    @stored(formerly=("elsewhere.Before",), renamed_fields={"by": "divisor"})
    @attrs.frozen
    class Halved(mc.Gaussian):
        """A likelihood of a user's own."""

        divisor: float = 2.0

    again = deserialize({}, {"is": "elsewhere.Before", "variance": 1.0, "by": 3.0})
    assert again == Halved(1.0, 3.0)
    for name in ("elsewhere.Before", full_name_of(Halved)):
        del STORED[name]

"""The house: imports run downwards, siblings of the vocabulary never meet, files stay small."""

import ast
import json
import pathlib
import re
import subprocess
import sys
from functools import cache

import pytest

import mcframe
from mcframe.contracts import rounding

ROOT = pathlib.Path(mcframe.__file__).parent
# A folder imports from itself and from lower floors; those of one floor do not know each other.
FLOORS = {
    "contracts": 0,
    "interrupts": 0,
    "runtime": 1,
    "numerics": 2,
    "storage": 2,
    "likelihoods": 3,
    "risks": 3,
    "regularizers": 3,
    "constraints": 3,
    "sums": 3,
    "model": 4,
    "compile": 5,
    "backends": 6,
    "fitting": 7,
    "plots": 8,
    "posterior": 8,
    "laws": 9,
    "partitions": 9,
    "selection": 9,
    "papers": 10,
    "tables": 10,
    "datasets": 11,
    "estimators": 11,
    "loading": 11,
    "commands": 12,
    "__main__": 13,
    "__init__": 13,
}
# What may name the package of partitions: it registers itself, and is found by a registry.
ENTRY_POINTS = ("__init__.py", "__main__.py", "commands/", "datasets/__init__.py", "partitions/")
# Folders that can be deleted with what stands above them.
SEPARATE = ("partitions", "tables,estimators", "posterior", "plots", "commands", "papers")
FILES = sorted(ROOT.rglob("*.py"))


def place(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


@cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path, for_types=False):
    """The modules that a file imports when it runs, or those that only a type checker reads."""
    nodes = nodes_of(path)
    blocks = [node for node in nodes if isinstance(node, ast.If)]
    blocks = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
    types_alone = {node for block in blocks for line in block.body for node in ast.walk(line)}
    for node in nodes:
        if (node in types_alone) != for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "mcframe":
                yield from (f"mcframe.{alias.name}" for alias in node.names)
            else:
                yield node.module


@cache
def folders_of(path, for_types=False):
    """The folders and files of the package that a file imports, but for its own."""
    modules = [m for m in imports(path, for_types) if m.startswith("mcframe.")]
    folders = {module.split(".")[1] for module in modules} - {"__version__", place(path)}
    assert folders <= FLOORS.keys(), f"{path} imports {folders - FLOORS.keys()}, on no floor"
    return folders


def test_every_folder_stands_on_a_floor():
    assert {place(path) for path in FILES} == FLOORS.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downwards(path):
    too_high = {name for name in folders_of(path) if FLOORS[name] >= FLOORS[place(path)]}
    assert not too_high, f"{path} imports {too_high}, on its own floor or above"


def test_type_checkers_alone_read_which_pictures_an_answer_has():
    """Nothing else is imported upwards, even where nothing is run."""
    for path in FILES:
        modules = {m for m in imports(path, for_types=True) if m.startswith("mcframe.")}
        if place(path) == "__init__":
            continue
        lower = {m for m in modules if FLOORS[m.split(".")[1]] <= FLOORS[place(path)]}
        assert modules - lower <= {"mcframe.plots.of_answers"}, path


def test_nothing_but_entry_points_knows_of_partitions():
    knowing = {str(path.relative_to(ROOT)) for path in FILES if "partitions" in folders_of(path)}
    assert knowing
    assert all(name.startswith(ENTRY_POINTS) for name in knowing), knowing


def test_answers_import_no_plots_and_plots_no_posterior():
    knowing = {place(path) for path in FILES if "plots" in folders_of(path)}
    assert knowing <= {"commands", "__init__"}
    assert not any("posterior" in folders_of(path) for path in FILES if place(path) == "plots")


def test_numerics_are_mathematics_alone():
    """No storage and no progress: of the machine threads, memory and time."""
    for path in FILES:
        if place(path) == "numerics":
            assert folders_of(path) <= {"contracts", "runtime"}, path
            modules = {m for m in imports(path) if m.startswith("mcframe.runtime")}
            assert modules <= {"mcframe.runtime.machine"}, path


def test_files_have_names_of_their_own():
    """At most four names stand for two files each."""
    names = [path.stem for path in FILES if path.stem != "__init__"]
    assert len({name for name in names if names.count(name) > 1}) <= 4


def run_without(*arguments):
    """What ``without.py`` prints, or its errors."""
    script = pathlib.Path(__file__).with_name("without.py")
    ran = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def lines_gone():
    """The lines of the entry point that go with a folder and what stands above it."""
    return dict(zip(SEPARATE, json.loads(run_without(*SEPARATE)), strict=True))


@pytest.mark.parametrize("folders", SEPARATE)
def test_a_folder_can_be_deleted_with_what_stands_above_it(folders, lines_gone):
    """The lines of the entry point that have to go with it import nothing below it."""
    lowest = min(FLOORS[name] for name in folders.split(","))
    for line in lines_gone[folders]:
        names = re.findall(r"mcframe\.(\w+)|from mcframe import (\w+)", line)
        assert all(FLOORS[one or other] >= lowest for one, other in names), line


@pytest.mark.slow(seconds=13)
def test_tests_of_the_core_pass_without_all_that_stands_above_it():
    run_without("--tests", ",".join(SEPARATE), "tests/test_fit.py", "tests/test_operators.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_vocabulary_does_not_know_cvxpy(path):
    """The module is passed in; only the reference, the laws and its verbs import it."""
    if FLOORS[place(path)] <= FLOORS["compile"]:
        assert not any(module.split(".")[0] == "cvxpy" for module in imports(path))


def test_constants_of_rounding_have_one_home():
    """Whoever relies on another's room reads the same number, so it is assigned once."""
    homes = {}
    for path in FILES:
        for node in nodes_of(path)[0].body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id in rounding.__all__:
                        homes.setdefault(target.id, []).append(str(path.relative_to(ROOT)))
    assert homes == {name: ["contracts/rounding.py"] for name in rounding.__all__}


def test_public_names_have_docstrings():
    for name in mcframe.__all__:
        assert (getattr(mcframe, name).__doc__ or "").strip(), f"{name} has no docstring"
    assert sorted(mcframe.__all__, key=str) == sorted(set(mcframe.__all__))


# Classes that name different things in several folders; no name may join them.
HOMONYMS = {
    *("Completion", "Labels", "Numbers", "Part"),
}


def test_a_class_has_a_name_of_its_own():
    classes = [
        node.name for path in FILES for node in nodes_of(path) if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in classes if classes.count(name) > 1} <= HOMONYMS


def unpacked_arrays(path):
    """Where a compiled loop takes parts of a new array by unpacking it."""
    for function in nodes_of(path):
        if isinstance(function, ast.FunctionDef) and any(
            isinstance(each, ast.Call) and getattr(each.func, "id", "") == "compiled"
            for each in function.decorator_list
        ):
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                    called = getattr(getattr(node.value, "func", None), "attr", "")
                    if called in {"empty", "zeros", "ones", "full"}:
                        yield f"{path.name}:{node.lineno}"


def test_compiled_loops_unpack_no_arrays():
    # Numba takes the parts for strided arrays, over which loops are not vectorised.
    assert not [place for path in FILES for place in unpacked_arrays(path)]

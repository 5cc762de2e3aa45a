"""The house: imports run downwards, siblings of the vocabulary never meet, files stay small."""

import ast
import pathlib

import pytest

import mcframe
from mcframe.contracts import rounding

ROOT = pathlib.Path(mcframe.__file__).parent
FLOORS = {
    "contracts": 0,
    "runtime": 1,
    "numerics": 2,
    "storage": 2,
    "likelihoods": 3,
    "risks": 3,
    "regularizers": 3,
    "constraints": 3,
    "calibration": 3,
    "model": 4,
    "compile": 5,
    "backends": 6,
    "fitting": 7,
    "partitions": 4,
    "plots": 7,
    "posterior": 7,
    "laws": 8,
    "selection": 9,
    "tables": 9,
    "papers": 9,
    "datasets": 9,
    "loading": 10,
    "estimators": 10,
    "commands": 11,
    "__main__": 11,
    "__init__": 11,
}
VOCABULARY = 3
FILES = sorted(ROOT.rglob("*.py"))


def place(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "mcframe":
                yield from (f"mcframe.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downwards(path):
    here = place(path)
    for module in imports(path):
        if not module.startswith("mcframe."):
            continue
        there = module.split(".")[1]
        if there == "__version__":
            continue
        assert there in FLOORS, f"{path} imports {module}, which stands on no floor"
        assert FLOORS[there] <= FLOORS[here], f"{path} imports {module}, a floor above"
        if FLOORS[here] == FLOORS[there] == VOCABULARY:
            assert here == there, f"{path} imports its sibling {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_vocabulary_does_not_know_cvxpy(path):
    """The module is passed in; only the reference, the laws and its verbs import it."""
    if FLOORS[place(path)] <= FLOORS["compile"]:
        assert not any(module.split(".")[0] == "cvxpy" for module in imports(path))


def test_constants_of_rounding_have_one_home():
    """Whoever relies on another's room reads the same number, so it is assigned once."""
    homes = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
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
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in classes if classes.count(name) > 1} <= HOMONYMS


def unpacked_arrays(path):
    """Where a compiled loop takes parts of a new array by unpacking it."""
    for function in ast.walk(ast.parse(path.read_text())):
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

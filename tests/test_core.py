"""The tests that are run before a commit: there are some of each kind, and none is slow."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).parent
SOURCES = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("test_*.py")}
CORE = {
    path.name: text
    for path, text in SOURCES.items()
    if "mark.core" in text and path.name != Path(__file__).name
}
# What has to be seen when it breaks, and a file that looks at it.
SEEN = {
    "likelihoods, regularizers and constraints": "test_laws.py",
    "the program and its bounds": "test_program.py",
    "certificates": "test_planted_faults.py",
    "posteriors by sampling": "test_chains.py",
    "posteriors of rows": "test_posterior_rows.py",
    "declared tables": "test_declared_models.py",
    "completed tables": "test_complete_rows.py",
}


@pytest.fixture(scope="module")
def ignored():
    """The hook of the conftest at the root, asked for a file and the markers of a command."""
    path = FOLDER.parent / "conftest.py"
    spec = importlib.util.spec_from_file_location("conftest_at_the_root", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda file, markers: module.pytest_ignore_collect(
        file, SimpleNamespace(getoption=lambda name: markers)
    )


@pytest.mark.parametrize("what", SEEN)
def test_the_core_looks_at(what):
    assert SEEN[what] in CORE


def test_no_file_of_the_core_has_slow_tests():
    """With ``-m core`` no other marker leaves them out."""
    assert len(CORE) >= 20
    assert [name for name, text in CORE.items() if "mark.slow" in text] == []


def test_only_files_of_the_core_are_read_where_it_alone_is_asked_for(ignored):
    assert not ignored(FOLDER / "test_laws.py", "core")
    assert ignored(FOLDER / "test_agreement.py", "core")
    assert not ignored(FOLDER, "core")
    for markers in ("", "slow", "not slow and not fuzz", "core or slow"):
        assert not ignored(FOLDER / "test_agreement.py", markers)

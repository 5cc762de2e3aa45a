"""How far one fit goes through the code, and which names it may use: limits.

A limit is what has been reached. To raise one is a decision, to be taken where it is raised.
"""

import ast
import inspect
import re

import pytest

import mcframe as mc

from .test_benchmarks import script  # noqa: F401
from .test_docs import ROOT

# One more than before the chain of offsets and units had a file (model/transforms.py).
FILES_OF_A_FIT, BINDINGS_OF_COMPLETE = 39, 1
# Functions of modules of at most four lines that are used once: their names explain a formula or a
# step, are tasks of other processes, or pair with others.
SHORT_HELPERS = 100
# Terms of this library alone, and what the field calls them.
DIALECT = {
    r"slopes?": "gradient",
    r"rough": "nonsmooth",
    r"main terms?": "regularizer",
    r"bends?": "curvature",
    r"judgements?": "certificate",
    r"harmless excess": "allowed excess",
    r"numbers at entries": "entry values",
    r"far out": "diverging",
}
# Pages of the papers and of changes keep the words of their time, the register of numbers has the
# comments of the code.
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if path.name not in ("changelog.md", "quality.md", "constants.md")
]


@pytest.fixture
def code_size(script):  # noqa: F811
    return script("code_size")


def test_lines_of_code_leave_out_docstrings_comments_and_blanks(code_size, tmp_path):
    path = tmp_path / "module.py"
    text = ['"""Module."""', "# why", "x = (", "    1,", ")", "", "def f():"]
    text += ['    """Return."""', "    return 1"]
    path.write_text("\n".join(text))
    assert code_size.lines_of_code(path) == 3 + 2


def test_a_fit_passes_through_few_files(code_size):
    files, _, bindings = code_size.walk("lambda: mc.fit(model, {'x': values})")
    assert files <= FILES_OF_A_FIT
    assert bindings == 1


@pytest.mark.slow(seconds=5)
def test_complete_binds_a_table_a_few_times(code_size):
    assert code_size.walk("lambda: mc.complete(frame)")[2] <= BINDINGS_OF_COMPLETE


def test_short_functions_that_are_used_once_become_no_more(code_size):
    """What has one user and at most four lines stands where it is used, or explains a step."""
    names = code_size.short_helpers(code_size.parse(ROOT / "mcframe"))
    assert len(names) <= SHORT_HELPERS, names


def test_a_short_helper_is_counted(code_size):
    module = ast.parse(
        "def used():\n    'Docstring.'\n    return 1\n"
        "def twice():\n    return 2\n"
        "def long():\n" + "    x = 1\n" * 5 + "used() + twice() + twice() + long()"
    )
    assert code_size.short_helpers({"module": module}) == ["used"]


def docstrings(name):
    """The docstrings of a public name and of its public members."""
    found = getattr(mc, name)
    yield name, inspect.getdoc(found) or ""
    for member in vars(found) if inspect.isclass(found) else ():
        if not member.startswith("_"):
            yield f"{name}.{member}", inspect.getdoc(getattr(found, member)) or ""


@pytest.mark.parametrize("name", mc.__all__)
def test_public_docstrings_speak_the_language_of_the_field(name):
    found = {
        place: words for place, text in docstrings(name) if (words := words_of_the_dialect(text))
    }
    assert found == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_speak_the_language_of_the_field(path):
    assert words_of_the_dialect(path.read_text(encoding="utf-8")) == {}


def words_of_the_dialect(text):
    """The words of a text that the field has others for, with these."""
    return {
        found.group(): term
        for word, term in DIALECT.items()
        if (found := re.search(rf"\b{word}\b", text, re.IGNORECASE))
    }

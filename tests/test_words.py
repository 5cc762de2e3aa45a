"""A new word of the vocabulary: three files name it, its own, its room and the catalogue.

All else that lists words reads them off: the package, pages when they are built, random models.
"""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import mcframe as mc
from mcframe import constraints, likelihoods, regularizers, risks, sums
from mcframe.contracts import Likelihood, Term

from . import catalogue, strategies
from .test_docs import ROOT, TOP_PAGES

LIKELIHOODS = set(likelihoods.__all__)
KNOWN_SUMS = set(sums.__all__)  # whose instances are of one of two classes
CLASSES = {f"{word}{kind}" for word in KNOWN_SUMS for kind in ("Penalty", "Constraint")}
TERMS = {*regularizers.__all__, *constraints.__all__, *KNOWN_SUMS}
WORDS = {*LIKELIHOODS, *risks.__all__, *(TERMS - KNOWN_SUMS), *CLASSES}
README = (ROOT / "README.md").read_text(encoding="utf-8")
LISTS, LIKELIHOOD_PAGE, TERM_PAGE = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("reference", "likelihoods", "regularizers")
)


def calls_in(cell):
    """The calls among the `...` of a table's cell."""
    found = (ast.parse(code, mode="eval").body for code in re.findall(r"`([^`]*)`", cell))
    return [call for call in found if isinstance(call, ast.Call)]


def first_cells(page, title):
    """The first cells of the rows of the table below a heading."""
    section = page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    table = section[section.index("|") :].split("\n\n", 1)[0]
    return [row.split(" | ")[0] for row in table.splitlines()[2:]]


def readme_row(kind):
    """What the README's table has in the row of a kind of word."""
    return next(line for line in README.splitlines() if line.startswith(f"| {kind} |"))


def parameters(word):
    """What may be written between the brackets of a word, with defaults."""
    signature = inspect.signature(getattr(mc, word))
    return {name: parameter.default for name, parameter in signature.parameters.items()}


@pytest.mark.parametrize("base", [Likelihood, Term])
def test_public_words_stand_in_the_room_of_their_kind(base):
    rooms = {Likelihood: [likelihoods, risks], Term: [regularizers, constraints, sums]}
    public = [getattr(mc, name) for name in mc.__all__]
    words = {word.__name__ for word in public if isinstance(word, type) and issubclass(word, base)}
    assert words == {name for room in rooms[base] for name in room.__all__}
    for name in words:
        folder = getattr(mc, name).__module__.split(".")[1]
        assert folder in {room.__name__.split(".")[1] for room in rooms[base]}


def test_the_reference_lists_every_room():
    """From the classes, when the pages are built; the tables by hand may leave words out."""
    listed = " ".join(re.findall(r"^\.\. words:: (.*)$", LISTS, re.MULTILINE)).split()
    rooms = ("likelihoods", "risks", "regularizers", "constraints", "sums")
    assert listed == [f"mcframe.{room}" for room in rooms]


@pytest.mark.parametrize("word", sorted({*LIKELIHOODS, *TERMS, *risks.__all__}))
def test_the_first_line_of_a_docstring_stands_for_the_word(word):
    """It is what the list in the reference shows."""
    assert inspect.getdoc(getattr(mc, word)).partition("\n")[0].endswith(".")


def written_calls():
    kinds = ("likelihoods", "risks", "regularizers", "constraints", "regularizer or constraint")
    cells = [readme_row(kind) for kind in kinds]
    cells += first_cells(LIKELIHOOD_PAGE, "All likelihoods")
    cells += first_cells(TERM_PAGE, "All terms")
    return [call for cell in cells for call in calls_in(cell)]


@pytest.mark.parametrize("call", written_calls(), ids=ast.unparse)
def test_parameters_are_written_as_they_are(call):
    """Names in the order of the class, and what follows a = is the default."""
    known = parameters(call.func.id)
    given = [arg.id for arg in call.args if isinstance(arg, ast.Name)]
    given += [keyword.arg for keyword in call.keywords]
    assert [name for name in known if name in given] == given
    for keyword in call.keywords:
        assert known[keyword.arg] == ast.literal_eval(keyword.value)
    required = [name for name, default in known.items() if default is inspect.Parameter.empty]
    assert len(call.args) + len(call.keywords) >= len(required)


def test_the_catalogue_holds_every_word():
    terms = [*catalogue.TERMS, *(term for term, _ in catalogue.SHAPED_TERMS)]
    listed = [*(entry.word for entry in catalogue.LIKELIHOODS), *terms]
    assert {type(word).__name__ for word in listed} == WORDS


class EveryWordIsDrawn(Exception):
    """There is nothing more to draw."""


def test_random_models_draw_every_word():
    """Within 800 of them."""
    drawn = set()

    @settings(max_examples=800, deadline=None, derandomize=True, phases=[Phase.generate])
    @given(strategies.whole_vocabulary())
    def draw(case):
        model, _ = case
        words = [*(block.likelihood for block in model.blocks), *model.terms]
        drawn.update(type(word).__name__ for word in words)
        if drawn >= WORDS:
            raise EveryWordIsDrawn

    with pytest.raises(EveryWordIsDrawn):
        draw()
    assert drawn == WORDS


@pytest.mark.parametrize("word", strategies.DRAWN, ids=repr)
def test_the_kind_of_data_is_read_off_the_domain(word):
    """A new likelihood gets data of its own kind: reals, positive numbers, counts or levels."""
    values = {
        "reals": [-1.5, 0.0, 2.5],
        "positive": [0.25, 3.5],
        "counts": [0.0, 7.0, 1e6],
        "levels": strategies.levels_of(word),
    }[strategies.kind_of(word)]
    assert not any(word.invalid(np.array(values)))


LIKELIHOOD, REGULARIZER = "examples/plugins/log_cosh.py", "examples/plugins/row_lasso.py"
# What holds lists of words, and the laws on the new ones.
FILES = ("words", "docs", "floors", "likelihoods", "laws")
OTHER_TESTS = (
    "examples_print or three_files or can_be_deleted or test_solver or (test_laws and not ({}))"
    " or (downwards and not (log_cosh or row_lasso))"
)


def plant(where, path, line, added):
    """Put a line of code behind another."""
    text = (where / path).read_text(encoding="utf-8")
    assert text.count(line) == 1
    (where / path).write_text(text.replace(line, f"{line}{added}"), encoding="utf-8")


def checked(where, files, *options):
    """What the tests that hold lists of words say of a copy of the repository."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *(f"tests/test_{name}.py" for name in files),
            *("-k", f"not ({OTHER_TESTS.format('LogCosh or RowLasso')})"),
            *options,
        ],
        env=os.environ | {"PYTHONPATH": str(where)},
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


def test_a_new_word_touches_three_files(tmp_path):
    """The plugins of the pages become words of the package: every other list follows."""
    for name in ("mcframe", "tests", "docs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*TOP_PAGES, "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / LIKELIHOOD, tmp_path / "mcframe/likelihoods/log_cosh.py")
    shutil.copy(ROOT / REGULARIZER, tmp_path / "mcframe/regularizers/row_lasso.py")
    for room, module, word in (
        ("likelihoods", "log_cosh", "LogCosh"),
        ("regularizers", "row_lasso", "RowLasso"),
    ):
        room_names = f"mcframe/{room}/__init__.py"
        line = f"\nfrom mcframe.{room}.{module} import {word}\n"
        plant(tmp_path, room_names, 'one word a file."""\n', line)
        plant(tmp_path, room_names, "__all__ = [", f'"{word}", ')
    code, said = checked(tmp_path, ("words",), "-x")
    assert code
    assert "LogCosh" in said
    assert "RowLasso" in said
    entry = "\n    Entry(mc.LogCosh(0.5), (-2.0, 0.0, 0.5, 40.0), (np.inf,), drawn=True),"
    plant(tmp_path, "tests/catalogue.py", "\nLIKELIHOODS = [", entry)
    plant(tmp_path, "tests/catalogue.py", "\nTERMS: list[Term] = [", "\n    mc.RowLasso(0.5),")
    # To rewrite the asserts of so many files takes longer than to run them.
    code, said = checked(tmp_path, FILES, "--assert=plain")
    assert code == 0, said

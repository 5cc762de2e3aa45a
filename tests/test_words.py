"""A new word of the vocabulary: every list that names words names all of them, and as they are.

Each test says which file lacks which word; `docs/reference.md` is held by `test_docs`.
"""

import ast
import inspect
import re

import numpy as np
import pytest

import mcframe as mc
from mcframe import calibration, constraints, likelihoods, regularizers, risks
from mcframe.contracts import Likelihood, Term

from . import catalogue, strategies
from .test_docs import ROOT

LIKELIHOODS = set(likelihoods.__all__)
KNOWN_SUMS = {"Calibration"}  # its classes are not written by hand
TERMS = {*regularizers.__all__, *constraints.__all__, *KNOWN_SUMS}
README = (ROOT / "README.md").read_text(encoding="utf-8")
VOCABULARY = (ROOT / "docs" / "vocabulary.md").read_text(encoding="utf-8")


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


def names(calls):
    return {call.func.id for call in calls}


def parameters(word):
    """What may be written between the brackets of a word, with defaults."""
    signature = inspect.signature(getattr(mc, word))
    return {name: parameter.default for name, parameter in signature.parameters.items()}


@pytest.mark.parametrize("base", [Likelihood, Term])
def test_public_words_stand_in_the_room_of_their_kind(base):
    rooms = {Likelihood: [likelihoods, risks], Term: [regularizers, constraints, calibration]}
    public = [getattr(mc, name) for name in mc.__all__]
    words = {word.__name__ for word in public if isinstance(word, type) and issubclass(word, base)}
    assert words | (KNOWN_SUMS if base is Term else set()) == {
        name for room in rooms[base] for name in room.__all__
    }
    for name in words:
        folder = getattr(mc, name).__module__.split(".")[1]
        assert folder in {room.__name__.split(".")[1] for room in rooms[base]}


def test_the_readme_names_every_word():
    assert names(calls_in(readme_row("likelihoods"))) == LIKELIHOODS
    assert names(calls_in(readme_row("risks"))) == set(risks.__all__)
    assert names(calls_in(readme_row("regularizers"))) == set(regularizers.__all__)
    assert names(calls_in(readme_row("constraints"))) == set(constraints.__all__)
    assert names(calls_in(readme_row("either"))) == KNOWN_SUMS


def test_the_vocabulary_names_every_word():
    rows = {title: first_cells(VOCABULARY, title) for title in ("Likelihoods", "Terms")}
    listed = {title: names(calls_in(" ".join(cells))) for title, cells in rows.items()}
    assert listed == {"Likelihoods": LIKELIHOODS, "Terms": TERMS}
    printed = VOCABULARY.split("likelihoods = [", 1)[1].split("]\n", 1)[0]
    assert set(re.findall(r"mc\.(\w+)\(", printed)) == LIKELIHOODS


def test_the_package_names_every_word():
    for word in sorted({*LIKELIHOODS, *TERMS}):
        assert f"``{word}``" in mc.__doc__, f"{word} is not in the docstring of mcframe"


def written_calls():
    kinds = ("likelihoods", "risks", "regularizers", "constraints", "either")
    cells = [readme_row(kind) for kind in kinds]
    cells += first_cells(VOCABULARY, "Likelihoods") + first_cells(VOCABULARY, "Terms")
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
    listed = {type(entry.word).__name__ for entry in catalogue.LIKELIHOODS}
    assert listed == {*LIKELIHOODS, *risks.__all__}
    terms = [*catalogue.TERMS, *(term for term, _ in catalogue.SHAPED_TERMS)]
    made = {*calibration.__all__} - KNOWN_SUMS
    assert {type(term).__name__ for term in terms} == {
        *regularizers.__all__,
        *constraints.__all__,
        *made,
    }


def test_random_models_draw_every_word():
    drawn = {type(word).__name__ for word in strategies.SMOOTH + strategies.ROUGH}
    assert drawn == LIKELIHOODS
    assert {type(word).__name__ for word in strategies.RISKS} == set(risks.__all__)
    tree = ast.parse(inspect.getsource(strategies))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "mc"
    }
    assert used >= TERMS


@pytest.mark.parametrize("word", strategies.SMOOTH + strategies.ROUGH + strategies.RISKS, ids=repr)
def test_the_kind_of_data_is_read_off_the_domain(word):
    """A new likelihood gets data of its own kind: reals, positive numbers, counts or levels."""
    values = {
        "reals": [-1.5, 0.0, 2.5],
        "positive": [0.25, 3.5],
        "counts": [0.0, 7.0, 1e6],
        "levels": strategies.levels_of(word),
    }[strategies.kind_of(word)]
    assert not any(word.invalid(np.array(values)))

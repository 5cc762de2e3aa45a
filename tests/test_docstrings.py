"""Docstrings stand alone: nobody has to read the one above to know what comes back."""

import ast
import pathlib
import re

import pytest

import mcframe

ROOT = pathlib.Path(mcframe.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Openings that refer to something else, or are the end of a sentence without its beginning.
PRONOUNS = "It|Its|They|Them|Their|Those|These|This|That|Both|Another|The same|The other|Likewise"
FRAGMENTS = "As|RowsAt|By|For|From|In|Of|On|Where|With"
LEANING = re.compile(rf"({PRONOUNS}|{FRAGMENTS})\b")
FEWEST_WORDS = 3
# A word of prose has two letters or more and is neither joined to a name nor a function's name.
PROSE = re.compile(r"\b[A-Za-z]{2,}\b(?!\()")


def faults(source):
    """What is wrong with the docstrings of a file, a line each."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, kinds) or ast.get_docstring(node) is None:
            continue
        opening = ast.get_docstring(node).partition("\n")[0]
        where = f"{getattr(node, 'name', 'module')}: {opening}"
        if LEANING.match(opening):
            yield f"{where} (leans on what stands elsewhere)"
        elif len(opening.split()) < FEWEST_WORDS and PROSE.search(opening):
            yield f"{where} (says too little)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_stand_alone(path):
    assert not list(faults(path.read_text()))


def test_every_folder_of_the_package_is_read():
    folders = {path.parent.name for path in FILES}
    assert {name for name in dir(mcframe) if (ROOT / name / "__init__.py").exists()} <= folders
    assert {"fitting", "partitions", "posterior", "runtime", "storage", "tables"} <= folders


@pytest.mark.parametrize(
    "fault",
    ["The same at the entries.", "They at Z.", "Of the iterate.", "RowsAt rest.", "The width."],
)
def test_faults_are_seen(fault):
    assert list(faults(f'def f():\n    """{fault}"""\n'))
    assert not list(faults('def f():\n    """Return the width of the factors."""\n'))


@pytest.mark.parametrize(
    "formula", ["exp(z).", "0.", "||A||_2.", "N' y.", "A'A V.", "(n_rows, n_columns)."]
)
def test_a_formula_is_a_complete_answer(formula):
    assert not list(faults(f'def f():\n    """{formula}"""\n'))


@pytest.mark.parametrize("prose", ["None.", "A view.", "Row x.", "n_rows numbers."])
def test_few_words_beside_a_symbol_are_no_formula(prose):
    assert list(faults(f'def f():\n    """{prose}"""\n'))

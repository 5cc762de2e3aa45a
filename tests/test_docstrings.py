"""Docstrings stand alone: nobody has to read the one above to know what comes back."""

import ast
import pathlib
import re
from functools import cache

import pytest

import mcframe

ROOT = pathlib.Path(mcframe.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Openings that refer to something else, or are the end of a sentence without its beginning.
PRONOUNS = "It|Its|They|Them|Their|Those|These|This|That|Both|Another|The same|The other|Likewise"
FRAGMENTS = "As|RowsAt|By|For|From|In|Of|On|Where|With"
LEANING = re.compile(rf"({PRONOUNS}|{FRAGMENTS})\b")
# Questions instead of what is returned.
QUESTIONS = re.compile(r"(What|How|Whether)\b")
FEWEST_WORDS = 3
# A word of prose has two letters or more and is neither joined to a name nor a function's name.
PROSE = re.compile(r"\b[A-Za-z]{2,}\b(?!\()")

# The lists of names in a docstring, and what stands before the colon of an item.
SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w[^\n]*\n---|\Z)", re.S | re.M)
LISTED = re.compile(r"^(\*{0,2}\w[\w, *]*) :", re.M)


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
        elif QUESTIONS.match(opening) and not isinstance(node, ast.Module):
            yield f"{where} (asks, and does not say what is returned)"
        elif len(opening.split()) < FEWEST_WORDS and PROSE.search(opening):
            yield f"{where} (says too little)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_stand_alone(path):
    assert not list(faults(path.read_text()))


def words_of(node):
    """What a function takes, or a class of this name declares or assigns; its bases by name."""
    if isinstance(node, ast.FunctionDef):
        return {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}, ()
    methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
    words = {method.name for method in methods}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            words.add(inner.attr)
    for inner in node.body:
        if isinstance(inner, ast.Assign | ast.AnnAssign):
            words |= {name.id for name in ast.walk(inner) if isinstance(name, ast.Name)}
    for method in methods:
        words |= words_of(method)[0] if method.name == "__init__" else set()
    bases = [inner.id for base in node.bases for inner in ast.walk(base) if hasattr(inner, "id")]
    return words, bases


def undeclared(source, classes):
    """The parameters and attributes that docstrings of a file list, and that are not there."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        if isinstance(node, ast.FunctionDef) and node.args.kwarg:
            continue  # options that another function takes
        words, waiting = words_of(node)
        waiting = list(waiting)
        while waiting:
            more, bases = classes.get(waiting.pop(), (set(), ()))
            words, waiting = words | more, [*waiting, *bases]
        for section in SECTION.findall(ast.get_docstring(node) or ""):
            for listed in LISTED.findall(section):
                names = {name.strip("* ") for name in listed.split(",")}
                # Attributes with an underscore at the end are those of scikit-learn.
                yield from sorted(name for name in names - words if not name.endswith("_"))


@cache
def classes_of_the_package():
    """Words and bases of all classes, read when a test asks for them."""
    return {
        node.name: words_of(node)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_list_names_that_are_there(path):
    assert not list(undeclared(path.read_text(), classes_of_the_package()))


def test_a_name_that_is_gone_is_seen():
    section = '"""Doc.\n\n    Parameters\n    ----------\n    width : int\n    """'
    assert list(undeclared(f"def f(height):\n    {section}\n", {})) == ["width"]
    assert list(undeclared(f"class A:\n    {section}\n    height: int\n", {})) == ["width"]
    assert not list(undeclared(f"class A(B):\n    {section}\n", {"B": ({"width"}, ())}))


def test_every_folder_of_the_package_is_read():
    folders = {path.parent.name for path in FILES}
    assert {name for name in dir(mcframe) if (ROOT / name / "__init__.py").exists()} <= folders
    assert {"fitting", "partitions", "posterior", "runtime", "storage", "tables"} <= folders


@pytest.mark.parametrize(
    "fault",
    [
        "The same at the entries.",
        "They at Z.",
        "Of the iterate.",
        "What rows add to it.",
        "The width.",
    ],
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

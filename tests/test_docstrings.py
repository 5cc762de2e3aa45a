"""Docstrings stand alone: nobody has to read the one above to know what comes back."""

import ast
import pathlib
import re

import pytest

import mcframe

ROOT = pathlib.Path(mcframe.__file__).parent
ROOMS = (
    *("model", "datasets", "selection", "demo", "reproduction", "baselines", "papers", "plots"),
    *("commands", "storage.py", "prediction.py"),
)
FILES = sorted(
    path
    for room in ROOMS
    for path in ([ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py"))
)
# Openings that refer to something else, or are the end of a sentence without its beginning.
PRONOUNS = "It|Its|They|Them|Their|Those|These|This|That|Both|Another|The same|The other|Likewise"
FRAGMENTS = "As|At|By|For|From|In|Of|On|Where|With"
LEANING = re.compile(rf"({PRONOUNS}|{FRAGMENTS})\b")
FEWEST_WORDS = 3


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
        elif len(opening.split()) < FEWEST_WORDS:
            yield f"{where} (says too little)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_stand_alone(path):
    assert not list(faults(path.read_text()))


def test_the_rooms_are_there():
    assert all((ROOT / room).exists() for room in ROOMS)


@pytest.mark.parametrize(
    "fault",
    ["The same at the entries.", "They at Z.", "Of the iterate.", "At rest.", "The width."],
)
def test_faults_are_seen(fault):
    assert list(faults(f'def f():\n    """{fault}"""\n'))
    assert not list(faults('def f():\n    """Return the width of the factors."""\n'))

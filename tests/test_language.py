"""The code is written in nouns of the field and asks for declared facts: limits that only fall."""

import ast
import inspect
from collections import Counter
from functools import cache

import pytest

import mcframe as mc

from .test_floors import FILES, ROOT

# Words that stand for a noun which is not named.
PRONOUNS = {
    *("own", "each", "found", "known", "here", "told", "there", "said", "room", "doubt"),
    *("beside", "given"),
}
# How often they are names of variables, parameters or fields in the whole package, at most.
MOST_PRONOUNS = 1
# Earlier names of functions, classes and fields, which only this package had.
PRIVATE_WORDS = {
    *("Aim", "Piece", "Attached", "Orders", "held_for", "representative", "signs_far_out"),
    *("solved_together", "solved_apart", "Unwritten", "Uniform", "Background", "Scattered"),
    *("Sent", "Least", "Later", "EntryValues", "FAN", "LOOK", "SOON", "LEAVING", "LeftBehind"),
    *("Kept", "Paused", "Rung", "Verdict", "Headway", "leap", "relength", "step_aside", "seek"),
    *("arrive", "sharpen", "Told", "Gaps", "hidden_beside", "read_told", "taken_apart"),
    *("put_together", "workshop", "publish", "Spool", "Extent", "scrambled", "mixed_bits"),
    *("undetermined", "doubt", "room"),
}
VOCABULARY = ("likelihoods", "risks", "regularizers", "constraints")
MOST_OPTIONS = {"fit": 10, "path": 10, "cross_validate": 11}


@cache
def trees():
    """The syntax tree of each file of the package, read when a test asks for it."""
    return {path: ast.parse(path.read_text()) for path in FILES}


def names_in(tree):
    """The names that a module gives to variables, parameters, fields, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (argument.arg for argument in [*node.args.args, *node.args.kwonlyargs])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def calls_of(function):
    """Each call of a builtin function, with its file."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == function:
                yield path.relative_to(ROOT), node


def test_names_are_nouns():
    found = Counter(
        name for tree in trees().values() for name in names_in(tree) if name in PRONOUNS
    )
    assert found.total() <= MOST_PRONOUNS, found


def test_words_of_this_package_alone_do_not_come_back():
    found = {
        str(path.relative_to(ROOT)): words
        for path, tree in trees().items()
        if (words := sorted(PRIVATE_WORDS & set(names_in(tree))))
    }
    assert found == {}


def test_facts_are_declared_and_not_probed():
    """An object's members are asked for in one file; words of the vocabulary nearly nowhere."""
    assert sum(1 for _ in calls_of("hasattr")) <= 10
    words = {
        node.name
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] in VOCABULARY
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    asked = [
        f"{path}:{node.lineno}"
        for path, node in calls_of("isinstance")
        if path.parts[0] not in (*VOCABULARY, "laws", "papers")
        and words & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    ]
    assert len(asked) <= 5, asked


def test_files_tell_each_other_apart():
    stems = Counter(path.stem for path in FILES if path.stem != "__init__")
    assert [stem for stem, count in stems.items() if count > 1] == []


@pytest.mark.parametrize("verb", MOST_OPTIONS)
def test_verbs_have_few_options(verb):
    options = [
        name
        for name, parameter in inspect.signature(getattr(mc, verb)).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    assert len(options) <= MOST_OPTIONS[verb]

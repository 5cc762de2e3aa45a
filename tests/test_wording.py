"""Messages are written as Python is, or as files and options, by the surface that shows them."""

import ast
import functools
import inspect
import json
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.__main__ import main
from mcframe.commands.in_files import InFiles
from mcframe.contracts.wording import InPython, worded, wording

from .test_command_line import PYTHON, of_python

PACKAGE = Path(mc.__file__).parent
# Folders and files whose messages no command shows: they are about arguments of functions, or
# about forms of data and methods of answers that files do not have.
OF_PYTHON_ALONE = {
    *("estimators", "laws", "papers", "partitions", "plots", "selection", "runtime"),
    *(
        "contracts/former.py",
        "contracts/term.py",
        "contracts/wording.py",
        "datasets/multilabel.py",
    ),
    *("datasets/readers.py", "fitting/fit_answer.py", "fitting/prediction.py", "loading.py"),
    *("model/forms.py", "model/labels.py", "model/table.py"),
    *("model/triples.py", "regularizers/residual_nuclear_norm.py"),
    *(
        "tables/formula_terms.py",
        "tables/regression.py",
        "tables/shifts.py",
        "tables/tipping_points.py",
    ),
}
# Messages of other files that no command can show, each with the reason.
UNREACHABLE = {
    "Convert the column to numbers": "columns of tables are read before a likelihood sees them",
    "Ordered words become levels": "as before",
    "Code the classes as 0": "as before",
    "pandas.factorize(column)[0]": "as before",
    "Read the file first": "commands read files",
    "an integer from 0, a generator of numpy": "--seed is checked by the parser",
    "a whole number of threads": "commands take no n_jobs",
    "True, False or None is needed": "nor progress",
    "reference=": "an argument of mc.verify",
    "blocks holds": "blocks of files are blocks",
    "write w[:, None]": "files have no weights of entries",
    "thresholds=None was given": "losses alone",
    "a dict from column names": "types of files are such",
    "convert it by pandas.to_datetime": "no file has objects of Python",
    "draws of the sampler have no evidence": "commands ask for no evidence",
}
OF_CODE = re.compile(
    r"\bmc\.\w|types=\{|types\[|missing=|\bpandas\.|\bnumpy\.[a-z]"
    r"|(?<![\w'`])(None|True|False)(?![\w'`])"
)


def parts_of_no_message(tree):
    """Nodes that are docstrings, hints of types, keys, or what is written for Python alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg == "python":
            yield from ast.walk(node)
        for hint in (getattr(node, name, None) for name in ("annotation", "returns", "slice")):
            if isinstance(hint, ast.AST):
                yield from ast.walk(hint)


def texts_of(tree):
    """Texts of several words in a module that may be parts of messages."""
    left_out, texts = {*parts_of_no_message(tree)}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in left_out:
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            texts.append("{}".join(part.value for part in parts))
            left_out |= {*parts}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    texts += [node.value for node in constants if node not in left_out]
    texts = [text for text in texts if isinstance(text, str)]
    return [text for text in texts if " " in text and " | " not in text]


@functools.cache
def texts_in(name):
    return texts_of(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))


def files_of_messages():
    names = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]
    return [name for name in names if not {name, name.partition("/")[0]} & OF_PYTHON_ALONE]


@pytest.mark.parametrize("name", files_of_messages())
def test_no_message_that_commands_show_is_written_in_python(name):
    texts = texts_in(name)
    wrong = [
        text
        for text in texts
        if OF_CODE.search(text)
        and not any(beginning in text for beginning in UNREACHABLE)
        and not name.startswith("commands/demo")
    ]
    assert not wrong, "write it by wording() of mcframe.contracts.wording, or either() of that"


def test_each_exception_is_one():
    named = {part for name in OF_PYTHON_ALONE for part in PACKAGE.glob(name)}
    assert len(named) == len(OF_PYTHON_ALONE)
    texts = [
        text for name in files_of_messages() for text in texts_in(name) if OF_CODE.search(text)
    ]
    for beginning in UNREACHABLE:
        assert any(beginning in text for text in texts), beginning


def test_the_two_wordings_have_the_same_methods():
    def methods(kind):
        return {
            name: [*inspect.signature(member).parameters]
            for name, member in vars(kind).items()
            if inspect.isfunction(member) and not name.startswith("_") and name != "named"
        }

    assert methods(InPython) == methods(InFiles)


WORDS = [
    mc.Gaussian(),
    mc.Gaussian(variance=None),
    mc.Huber(delta=1.5),
    mc.Bernoulli("probit"),
    mc.Ordinal(levels=3),
    mc.NuclearNorm(0.5),
    mc.Box(lower=0.0, upper=1.0),
    mc.FPC(eta=0.5),
]


@pytest.mark.parametrize("word", WORDS, ids=str)
def test_an_instance_is_written_as_its_surface_reads_it(word):
    name, python, files = type(word).__name__, InPython(), InFiles()
    assert eval(f"mc.{python.value(word)}", {"mc": mc, "inf": np.inf}) == word
    facts = json.loads(files.value(word))
    assert facts.pop("is") == name
    assert getattr(mc, name)(**facts) == word
    assert not of_python(files.value(word))


@pytest.mark.parametrize("value", [None, True, 3, 0.5, ["number", 1], {"a": [False]}])
def test_a_value_is_written_as_its_surface_reads_it(value):
    assert eval(InPython().value(value), {}) == value
    assert json.loads(InFiles().value(value)) == value


def test_words_with_values_to_choose():
    python, files = InPython(), InFiles()
    assert python.word("Calibration", "A", "B", weight=1.0) == "mc.Calibration(A, B, weight=1.0)"
    said = files.word("Calibration", "A", "B", weight=1.0)
    assert said == '{"is": "Calibration", "A": ..., "B": ..., "weight": 1.0}'
    assert python.block("x", bias=True) == "mc.Block('x', ..., bias=True)"
    assert python.block(effects_weight=...) == "mc.Block(..., effects_weight=...)"
    assert files.block("x", bias=True) == "bias = true of block 'x'"
    assert tomllib.loads(files.argument("standardize", "ranks")) == {"standardize": "ranks"}


@pytest.mark.parametrize("column", ["visits", "a b", "it's"])
@pytest.mark.parametrize("kind", ["count", ["low", "high"], mc.Huber(delta=2.0)])
def test_types_and_gaps_are_arguments_that_can_be_copied(column, kind):
    python, files = InPython(), InFiles()
    assert eval(f"dict({python.types(column, kind)})", {"Huber": mc.Huber}) == {
        "types": {column: kind}
    }
    option, text = shlex.split(files.types(column, kind))
    name, _, said = text.partition("=")
    assert (option, name) == ("--types", column)
    assert said == (kind if isinstance(kind, str) else files.value(kind))
    gaps = {column: ["don't know", -99], "other": []}
    assert eval(f"dict({python.gaps('missing_values', gaps)})", {}) == {"missing_values": gaps}
    wanted = ["--missing", f"{column}=don't know", "--missing", f"{column}=-99"]
    assert shlex.split(files.gaps("missing", gaps)) == [*wanted, "--missing", "other="]


def test_a_surface_is_in_force_as_long_as_its_work(tmp_path, monkeypatch, capsys):
    with worded(InFiles()):
        assert wording().value(None) == "null"
        with worded(InPython()):
            assert wording().value(None) == "None"
        assert wording().value(None) == "null"
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(
        {"size": [1.0, None, 3.0, 4.0] * 5, "stage": ["low", "mid", "high"] * 6 + ["low"] * 2}
    )
    frame.to_csv("table.csv", index=False)
    types = {"stage": "ordinal"}
    assert main(["impute", "table.csv", "--out", "done.csv", "--types", "stage=ordinal"]) == 2
    of_command = capsys.readouterr().err
    with pytest.raises(mc.DataError) as caught:
        mc.complete(frame, types)
    remedy = "types={'stage': [lowest, ..., highest]}"
    assert remedy in str(caught.value)
    assert of_command.strip() == f"mcframe: {caught.value}".replace(
        remedy, """--types 'stage=["lowest", ..., "highest"]'"""
    )


def test_python_is_seen_where_it_stands():
    for text in ("give None", "mc.Huber", "a dict", "types['x'] is", "missing={'x'"):
        assert PYTHON.search(text), text
    for text in ("f'give None'", 'f"{x} was given; add mc.Huber()"', '"types={name: 1} says"'):
        assert any(map(OF_CODE.search, texts_of(ast.parse(f"x = {text}"))))

"""What editors and type checkers see: the answers of the verbs, and the examples of the pages."""

import importlib.util
import json
import re
import subprocess
import sys

import pytest
from write_examples import PAGES, ROOT, examples_of

# What the checkers say of the pages that is no fault of theirs, nor of the package.
ALLOWED = (
    r"SubFigure",  # matplotlib: the figure of axes may be a part of another one
    r"from_array",  # dask: its chunks are said to be text
    r"(class |^)\"?(Likelihood|Distribution)\"?",  # a field of the word of a block, not of all
    r"floating\[Any\]\" is not assignable to \"float\"",  # numbers of NumPy
    r"\"pool\"|\*zip",  # arguments behind a star, of which mypy does not know how many there are
    r"Expected iterable as variadic",  # a dict of tuples of different lengths
    r"\"list\[float\]\" has no attribute",  # a name that is used again for an array
)
# A class attribute takes the place of a read-only property, as mypy and Python allow; names of
# examples are defined in other blocks; libraries without types have none.
PYRIGHT = {
    "typeCheckingMode": "standard",
    "reportAssignmentType": False,
    "reportIncompatibleMethodOverride": False,
    "reportMissingImports": False,
    "reportMissingModuleSource": False,
    "reportMissingTypeStubs": False,
    "reportPossiblyUnboundVariable": False,
    "useLibraryCodeForTypes": False,
    "pythonVersion": "3.11",
    "extraPaths": [str(ROOT), str(ROOT / "examples")],
}
MYPY = f"""
[mypy]
ignore_missing_imports = true
follow_imports = silent
check_untyped_defs = true
disable_error_code = var-annotated
allow_redefinition = true
explicit_package_bases = true
python_version = 3.11
mypy_path = {ROOT}:{ROOT / "examples"}
cache_dir = {ROOT / ".mypy_cache"}
"""


def checked(checker, folder, severities=("error",), **options):
    """What a checker says of modules of a folder, by severity: (module, line from 1, sentence)."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed: pip install mcframe[test]")
    command = [sys.executable, "-m", checker]
    if checker == "mypy":
        (folder / "mypy.ini").write_text(MYPY)
        command += ["--config-file", "mypy.ini", "--no-error-summary", "."]
    else:
        (folder / "pyrightconfig.json").write_text(json.dumps({**PYRIGHT, **options}))
        command += ["--outputjson", "--pythonpath", sys.executable, "--project", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    if checker == "mypy":
        lines = re.findall(r"^(?:\./)?(\w+)\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
        return [[(module, int(line), said) for module, line, said in lines]]
    return [
        [
            (
                re.search(r"(\w+)\.py$", each["file"])[1],
                each["range"]["start"]["line"] + 1,
                each["message"],
            )
            for each in json.loads(done.stdout)["generalDiagnostics"]
            if each["severity"] == severity
        ]
        for severity in severities
    ]


def write_pages(folder):
    """A module for each page; the lines of examples that show an error, by module."""
    faulty = {}
    for path in PAGES:
        name = re.sub(r"\W", "_", str(path.relative_to(ROOT).with_suffix("")))
        lines, faulty[name] = [], set()
        for example in examples_of(path.read_text(encoding="utf-8"), ("python", "py")):
            lines += [""] * (example.line - len(lines)) + example.code.splitlines()
            if re.search(r"^\w*Error: ", example.shown or "", re.MULTILINE):
                faulty[name] |= set(range(example.line + 1, len(lines) + 1))
        if lines:
            (folder / f"{name}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return faulty


@pytest.mark.slow(seconds=12)
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_the_examples_of_the_pages_have_the_right_types(checker, tmp_path):
    """But where they show an error on purpose."""
    faulty = write_pages(tmp_path)
    found = [
        f"{module}, line {line}: {said}"
        for module, line, said in checked(checker, tmp_path)[0]
        if line not in faulty[module] and not any(re.search(text, said) for text in ALLOWED)
    ]
    assert not found, "\n".join(found)


# Expressions of users, and what a checker that knows pandas says that they are.
ANSWERS = {
    "completed": "Completion[DataFrame]",
    "completed.table": "DataFrame",
    "completed.sd": "DataFrame",
    "completed.interval(0.9)": "tuple[DataFrame, DataFrame]",
    "completed.predict('a')": "DataFrame",
    "completed.report()": "DataFrame",
    "completed.draws(2)": "list[DataFrame]",
    "completed.complete_rows(frame)": "DataFrame",
    "completed.predict_rows('a', frame)": "DataFrame",
    "completed.interval_rows(frame)": "tuple[DataFrame, DataFrame]",
    "completed.plot": "CompletionPictures",
    "mc.declare(frame)": "Declared[DataFrame]",
    "mc.declare(frame).table(fit)": "DataFrame",
    "mc.declare(frame).complete_rows(fit, frame)": "DataFrame",
    "fit": "Fit",
    "fit.plot": "FitPictures",
    "fit.plot.gap()": "Axes",
    "posterior.plot.coverage('x')": "Axes",
    "mc.plots.gap(fit)": "Axes",
    "fit.predict('x', rows=[0], columns=[0])": "ndarray[tuple[Any, ...], dtype[floating[Any]]]",
    "posterior.sd('x', pairs=[(0, 0)])": "ndarray[tuple[Any, ...], dtype[floating[Any]]]",
    "mc.load('x')": "Fit | Posterior | Completion[Any]",
    "mc.load('x', mc.Fit)": "Fit",
    "mc.load('x', mc.Posterior)": "Posterior",
    "mc.selection.RowFolds(3)": "RowFolds",
    "mc.datasets.digits()": "MultiLabel",
    "mc.cross_validate(model, {'x': x})": "CrossValidation",
    "mc.cross_validate(model, {'x': x}).plot.scores()": "Axes",
    "mc.explain(model, {'x': x}).chosen": "str | None",
}
MISTAKES = {
    "mc.complete(x)": "Frame",
    "fit.nothing": "nothing",
    "fit.plot.nothing()": "nothing",
    "completed.plot.gap()": "gap",
    "mc.nothing": "nothing",
    "mc.selection.nothing": "nothing",
}
BEGIN = """import numpy as np
import pandas as pd
from typing_extensions import reveal_type

import mcframe as mc

x, frame = np.eye(3), pd.DataFrame({"a": [1.0, 2.0]})
model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
fit, posterior = mc.fit(model, {"x": x}), mc.posterior(model, {"x": x})
completed = mc.complete(frame)
"""


def test_answers_have_their_types(tmp_path):
    lines = [f"reveal_type({expression})" for expression in ANSWERS]
    (tmp_path / "answers.py").write_text(BEGIN + "\n".join([*lines, *MISTAKES]) + "\n")
    first = BEGIN.count("\n") + 1
    config = {"useLibraryCodeForTypes": True, "reportUnusedExpression": False}
    found, revealed = checked("basedpyright", tmp_path, ("error", "information"), **config)
    wrong = first + len(ANSWERS)
    assert [line for _, line, _ in found] == list(range(wrong, wrong + len(MISTAKES))), found
    for (_, _, said), text in zip(found, MISTAKES.values(), strict=True):
        assert text in said
    told = [re.search(r'" is "(.*)"$', said)[1] for _, _, said in revealed]
    assert dict(zip(ANSWERS, told, strict=True)) == ANSWERS

"""The documents: every example runs and prints what they show, every public name is there."""

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from itertools import zip_longest
from pathlib import Path

import attrs
import pytest

import mcframe as mc

from .test_floors import FLOORS

if importlib.util.find_spec("distributed"):
    # Processes of clusters are forks of one that has imported what they need.
    importlib.import_module(".clusters", __package__)

ROOT = Path(__file__).resolve().parents[1]
TOP_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
PAGES = [*(ROOT / name for name in TOP_PAGES), *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "reproduction").glob("*.md"))
REFERENCE_PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Stands before an output whose numbers depend on the machine: only the words are compared.
DIGITS_VARY = "<!-- digits vary -->"
# Pictures with an axis in seconds.
OF_SECONDS = ("pictures-gap.png",)
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")


@attrs.frozen
class Example:
    """A block of code and the output that the page shows for it, if it shows any."""

    line: int
    code: str
    shown: str | None
    digits_vary: bool


def examples_of(
    page: str, languages: tuple[str, ...] = ("python", "py", "console")
) -> list[Example]:
    """All blocks of some languages, each with the ```text block that follows it directly."""
    found = []
    fences = list(FENCE.finditer(page))
    for fence, after in zip_longest(fences, fences[1:]):
        if fence[1] not in languages:
            continue
        code = commands_of(fence[2]) if fence[1] == "console" else fence[2]
        shown, digits_vary = None, False
        if after is not None and after[1] == "text":
            between = page[fence.end() : after.start()].strip()
            digits_vary = between == DIGITS_VARY
            if digits_vary or not between:
                shown = after[2]
        line = page[: fence.start()].count("\n") + 1
        found.append(Example(line, code, shown, digits_vary))
    return found


def commands_of(console: str) -> str:
    """Python that runs the lines of a console, each of which is ``$ mcframe ...``."""
    lines = [shlex.split(line) for line in console.replace("\\\n", " ").splitlines()]
    assert all(line[:2] == ["$", "mcframe"] for line in lines), console
    return "from mcframe.__main__ import main\n" + "".join(f"main({line[2:]})\n" for line in lines)


def run(example: Example, namespace: dict[str, object], page: str) -> str:
    """What a block prints, then the last line of its traceback where it raises.

    A warning is printed where it is given; one that the page does not show is an error.
    """
    printed = io.StringIO()

    def show(message: object, category: type, *_: object) -> None:
        if example.shown is None or category.__name__ not in example.shown:
            raise AssertionError(f"{page}:{example.line} warns {category.__name__}: {message}")
        printed.write(f"{category.__name__}: {message}\n")

    # Empty lines before the code keep the line numbers of the page in tracebacks.
    code = compile("\n" * example.line + example.code, page, "exec")
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        try:
            exec(code, namespace)
        except Exception as error:
            if example.shown is None or type(error).__name__ not in example.shown:
                raise
            printed.write(f"{type(error).__name__}: {error}\n")
    return printed.getvalue()


def comparable(output: str, digits_vary: bool) -> str:
    """Output with its white space collapsed, and without its numbers if they vary."""
    collapsed = " ".join(output.split())
    return NUMBER.sub("#", collapsed) if digits_vary else collapsed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_print_what_the_page_shows(path, tmp_path, monkeypatch):
    """One after the other, in a folder where nothing is but what they write."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    page = path.read_text(encoding="utf-8")
    for example in examples_of(page):
        printed = run(example, namespace, path.name)
        expected = comparable(example.shown or "", example.digits_vary)
        assert comparable(printed, example.digits_vary) == expected, (
            f"{path.name}, line {example.line}, prints\n{printed}"
        )
    shown_on_page = [file for file in tmp_path.glob("*.png") if f"]({file.name})" in page]
    for drawn in [file for file in shown_on_page if file.name not in OF_SECONDS]:
        from matplotlib.testing.compare import compare_images

        shown = shutil.copy(path.parent / drawn.name, tmp_path / f"shown-{drawn.name}")
        assert compare_images(shown, drawn, tol=20) is None, f"{drawn.name} is another picture"


# Runs blocks that come as JSON, (code, output or None), as if they were pasted.
PASTED = """
import json, sys
namespace = {"__name__": "__main__"}
for code, shown in json.load(sys.stdin):
    try:
        exec(code, namespace)
    except Exception as error:
        if type(error).__name__ not in (shown or ""):
            raise
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_run_when_they_are_pasted_into_a_fresh_interpreter(path, tmp_path):
    """Neither imports, nor files, nor settings of the tests are there.

    Pages of reproductions say that their modules are found with ``PYTHONPATH=examples``.
    """
    blocks = [(own.code, own.shown) for own in examples_of(path.read_text(encoding="utf-8"))]
    done = subprocess.run(
        [sys.executable, "-c", PASTED],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")])},
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_blocks_of_both_names_are_run():
    page = "```py\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 2\n```\n\n```sh\nls\n```\n"
    assert [own.code for own in examples_of(page)] == ["print(1)\n", "x = 2\n"]


def test_a_console_is_run_as_commands():
    page = "```console\n$ mcframe impute a.csv \\\n    --out 'b c.csv'\n```\n"
    assert examples_of(page)[0].code.endswith("main(['impute', 'a.csv', '--out', 'b c.csv'])\n")
    with pytest.raises(AssertionError, match="rm"):
        examples_of("```console\n$ rm -r .\n```\n")


def test_a_wrong_output_and_an_unshown_warning_are_noticed():
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nimport warnings\n```\n"
    first, second = examples_of(page)
    assert comparable(run(first, {}, "page"), first.digits_vary) != first.shown.strip()
    assert second.shown is None
    warns = attrs.evolve(second, code="import warnings\nwarnings.warn('loud')")
    with pytest.raises(AssertionError, match="page:9 warns UserWarning: loud"):
        run(warns, {}, "page")


REFERENCE = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE_PAGES)
OVERVIEW = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def names_in_the_reference():
    """Names with a directive of their own, and those of the rooms that are documented whole."""
    rooms = re.findall(r"^\.\. autowords:: mcframe\.(\w+)$", REFERENCE, re.MULTILINE)
    own = re.findall(r"^\.\. auto(?!words)\w+:: mcframe\.(\w+)(?:\(\))?$", REFERENCE, re.MULTILINE)
    return {*own, *(name for room in rooms for name in getattr(mc, room).__all__)}


def names_in_the_overview():
    """Names in tables of their own, and those of the rooms that are listed whole."""
    rooms = re.findall(r"^\.\. words:: (.*)$", OVERVIEW, re.MULTILINE)
    own = re.findall(r"^   (\w+)$", OVERVIEW, re.MULTILINE)
    rooms = " ".join(rooms).replace("mcframe.", "").split()
    return {*own, *(name for room in rooms for name in getattr(mc, room).__all__), "laws"}


@pytest.mark.parametrize("name", mc.__all__)
def test_public_names_are_documented(name):
    value = getattr(mc, name)
    assert value.__doc__
    assert value.__doc__.strip()
    assert name in names_in_the_reference(), f"{name} is on no page of docs/reference/"
    assert name in names_in_the_overview(), f"{name} is not in docs/reference.md"


@pytest.mark.parametrize("module", ["datasets", "estimators"])
def test_names_of_packages_are_documented(module):
    listed = re.findall(rf"^\.\. auto\w+:: mcframe\.{module}\.(\w+)", REFERENCE, re.MULTILINE)
    assert sorted(listed) == sorted(getattr(mc, module).__all__)


def test_links_between_the_pages_lead_somewhere():
    for path in [*PAGES, *REFERENCE_PAGES]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert "://" in target or (path.parent / target).exists(), f"{path.name}: {target}"


def test_no_line_of_a_page_is_a_comment_of_myst():
    """A line that begins with a per cent sign is left out by the build of the site."""
    for path in PAGES:
        assert not re.search(r"^\s*%", path.read_text(encoding="utf-8"), re.MULTILINE), path


# What the top level of the repository may hold, besides dot-files.
TOP_LEVEL = (*TOP_PAGES, "CITATION.cff", "LICENSE", "pyproject.toml")
TOP_LEVEL += ("docs", "examples", "mcframe", "tests")
# Made by tools and never committed; ``.git`` is a file in a worktree.
GENERATED = re.compile(r"_build|__pycache__|\.(git|venv|hypothesis|\w+_cache)|.*\.egg-info")
# Written in two parts, so that this file does not hold them itself.
FORBIDDEN = ("/" + r"work\b", r"\.\./" + "shared")


def repository_files():
    for entry in ROOT.iterdir():
        if entry.name not in TOP_LEVEL and not entry.name.startswith("."):
            continue
        for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
            parts = path.relative_to(ROOT).parts
            if path.is_file() and not any(GENERATED.fullmatch(part) for part in parts):
                yield path


def test_no_file_names_a_folder_of_one_machine():
    paths = list(repository_files())
    assert Path(__file__) in paths
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        for pattern in FORBIDDEN:
            found = re.search(pattern, text)
            assert found is None, f"{path.relative_to(ROOT)} names {found[0]}"


NAMED = re.compile(r"`((?:mcframe|tests|docs|examples)/[^`*<>{} ]+)`")
# A file that a page tells its reader to write.
TO_WRITE = {"examples/papers/mine.py"}


def test_files_that_pages_name_exist():
    """Paths in backquotes that begin with a folder of the repository."""
    named = {(page.name, path) for page in PAGES for path in NAMED.findall(page.read_text())}
    missing = [pair for pair in named if not (ROOT / pair[1]).exists()]
    assert {path for _, path in missing} == TO_WRITE, missing


def test_the_architecture_has_the_floors_that_are_held():
    """Each folder stands on the floor that test_floors holds it to, and none is left out."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", page, re.MULTILINE)
    told = {
        path.removeprefix("mcframe/").rstrip("/").removesuffix(".py"): int(floor)
        for floor, paths in rows
        for path in re.findall(r"`([^`]+)`", paths)
    }
    assert told == FLOORS

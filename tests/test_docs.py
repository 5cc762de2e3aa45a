"""The documents: every example runs and prints what they show, every public name is there."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from write_examples import (
    PAGES,
    ROOT,
    TOP_PAGES,
    difference,
    examples_of,
    pictures_of,
    rewritten,
    run,
    run_page,
    write_page,
)

import mcframe as mc

from .test_floors import FLOORS

if importlib.util.find_spec("distributed"):
    # Processes of clusters are forks of one that has imported what they need.
    importlib.import_module(".clusters", __package__)

REFERENCE_PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
# Pictures with an axis in seconds.
OF_SECONDS = ("pictures-gap.png",)
# A tolerance above this share would let numbers pass that mislead a reader.
LARGEST = 0.1
# Pages whose examples take so many seconds; the shorter ones call the same verbs.
LONG = {"tables.md": 21, "posterior.md": 8, "pictures.md": 6, "paths.md": 6}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, marks=[pytest.mark.slow(seconds=LONG.get(path.name))] * (path.name in LONG)
        )
        for path in PAGES
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_examples_print_what_the_page_shows(path, tmp_path):
    """One after the other, in a folder where nothing is but what they write."""
    page = path.read_text(encoding="utf-8")
    for example, printed in run_page(path, tmp_path):
        wrong = difference(printed, example.shown or "", example.tolerance)
        assert wrong is None, f"{path.name}, line {example.line}: {wrong}; it prints\n{printed}"
    for link, drawn in pictures_of(page, tmp_path):
        if drawn.name in OF_SECONDS:
            continue
        from matplotlib.testing.compare import compare_images

        shown = shutil.copy(path.parent / link, tmp_path / f"shown-{drawn.name}")
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
    assert difference(run(first, {}, "page"), first.shown, first.tolerance) is not None
    assert second.shown is None
    warns = attrs.evolve(second, code="import warnings\nwarnings.warn('loud')")
    with pytest.raises(AssertionError, match="page:9 warns UserWarning: loud"):
        run(warns, {}, "page")


def tolerance_of(marker):
    """The tolerance of a page whose output stands behind a marker."""
    (example,) = examples_of(f"```python\nx\n```\n\n{marker}\n```text\n1\n```\n")
    return example.tolerance


@pytest.mark.parametrize(
    ("marker", "printed", "shown"),
    [
        ("", "a  1\nb", "a 1 b"),
        ("", "took 3 ms, 0.12 s, 4 CPU s", "took 4 ms, 3.12 s, 1 CPU s"),
        ("<!-- within 2% -->", "sd 1.01 of 200 in 8 s", "sd 1.03 of 203 in 2 s"),
        ("<!-- within 2% -->", "-0.13 +1e-3 1,010.0", "-0.12 +2e-3 1,000.0"),
        ("<!-- within 1% or 1e-6 -->", "gap 9e-07, 0.5", "gap 0.0e+00, 0.5"),
        ("<!-- within 2% -->", "after 213 iterations, 2 s", "after 243 iterations, 1 s"),
    ],
)
def test_numbers_within_the_tolerance_of_the_page_agree(marker, printed, shown):
    assert difference(printed, shown, tolerance_of(marker)) is None


@pytest.mark.parametrize(
    ("marker", "printed", "shown", "wrong"),
    [
        ("", "sd 1.01", "sd 1.02", "'sd 1.01' is printed, not 'sd 1.02'"),
        ("<!-- within 2% -->", "sd 1.000", "sd 1.021", "after 'sd ' stands '1.000', not '1.021'"),
        ("<!-- within 2% -->", "df 38.9", "df 29.9", "stands '38.9', not '29.9'"),
        ("<!-- within 2% -->", "rank 5", "rank 6", "stands '5', not '6'"),
        ("<!-- within 2% -->", "213 iterations", "426.1 iterations", "stands '213', not '426.1'"),
        ("<!-- within 2% -->", "213 rows", "243 rows", "stands '213', not '243'"),
        ("", "213 iterations", "243 iterations", "'213 iterations' is printed"),
        ("<!-- within 2% -->", "3 sites", "4 sites", "stands '3', not '4'"),
        ("<!-- within 2% -->", "1 Bonn", "1 Kiel", "stands ' Bonn', not ' Kiel'"),
        ("<!-- within 2% -->", "1 2", "1 2 3", "stands '', not ' '"),
        ("<!-- within 2% -->", "", "1", "stands '', not '1'"),
        ("<!-- within 2% -->", "nan", "1", "stands 'nan', not ''"),
        ("<!-- within 2% or 1e-6 -->", "2e-6", "-2e-6", "stands '2e-6', not '-2e-6'"),
        ("<!-- within 2% -->", "x12 1.0", "x13 1.0", "stands 'x12 ', not 'x13 '"),
    ],
)
def test_numbers_beyond_the_tolerance_and_other_words_are_noticed(marker, printed, shown, wrong):
    assert wrong in difference(printed, shown, tolerance_of(marker))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_tolerances_of_pages_are_small(path):
    """And no comment between an example and its output is anything else."""
    page = path.read_text(encoding="utf-8")
    examples = examples_of(page, ("python", "py", "console", "sh"))
    markers = re.findall(r"^<!-- .*\n```text$", page, re.MULTILINE)
    assert len(markers) == sum(each.tolerance is not None for each in examples)
    for example in examples:
        if example.tolerance is not None:
            assert 0.0 < example.tolerance.relative <= LARGEST, example.line


def test_the_command_writes_output_and_pictures_anew(tmp_path):
    """Where they differ in more than times; other text stays as it is."""
    page = tmp_path / "page.md"
    stale = (
        "Text 1.\n```python\nprint(1, '0.2 s')\nprint()\n```\n\n```text\n1   0.1 s\n```\n\n"
        "```python\nprint(' 5')\nopen('a.png', 'wb').write(b'new')\n```\n\n"
        "<!-- within 2% -->\n```text\n```\n![a](pictures/a.png) Text 2.\n"
    )
    page.write_text(stale, encoding="utf-8")
    (tmp_path / "pictures").mkdir()
    assert write_page(page) == [tmp_path / "pictures" / "a.png", page]
    assert page.read_text(encoding="utf-8") == stale.replace("```text\n```", "```text\n 5\n```")
    assert (tmp_path / "pictures" / "a.png").read_bytes() == b"new"
    assert write_page(page) == []


def test_the_command_wants_a_place_for_each_output():
    page = "```python\nprint(1)\n```\n"
    with pytest.raises(ValueError, match=r"line 1 prints '1\\n'; no text block follows it"):
        rewritten(page, [(examples_of(page)[0], "1\n")])


def test_equal_blocks_have_outputs_of_their_own():
    page = "```py\nx\n```\n\n```text\n0\n```\n" * 2
    first, second = examples_of(page)
    assert rewritten(page, [(first, "1\n"), (second, "2\n")]) == (
        page.replace("0", "1", 1).replace("0", "2")
    )


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

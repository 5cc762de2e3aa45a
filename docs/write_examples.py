"""The examples of the pages: run them, compare what they print, and write it anew.

    python docs/write_examples.py [PAGE ...]

Runs the blocks of each page, one after the other in an empty folder, and writes what they print
into the text blocks that follow them, and the pictures that they save beside the page. By default
all pages. A block of text stays as it is where it differs in times alone. The scripts that
``docs/cases.md`` shows need the data of MCFRAME_DATA. Needs the extras ``docs`` and ``test``.

A block whose numbers depend on the machine has a comment before its output, such as ``<!-- within
2% -->`` or ``<!-- within 2% or 1e-6 -->``. A number then agrees with the page if it differs by no
more than this share of it, by no more than the second number, or by one unit of the last decimal
place that the page shows. A number of iterations agrees within half of it: bounds are computed
after every third or so of the iterations so far, and where a gap is close to ``tol``, the
rounding of a processor decides at which of them a fit ends. Times, which stand before ``s``,
``ms`` or ``CPU s``, are not compared. Without a comment the output must be the same, up to white
space and times.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
TOP_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
PAGES = [*(ROOT / name for name in TOP_PAGES), *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "reproduction").glob("*.md"))
# Pages that are made from a template of the same name, which shows the same examples.
TEMPLATES = ROOT / "examples" / "papers" / "templates"
LANGUAGES = ("python", "py", "console")
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITHIN = re.compile(r"<!-- within ([\d.]+)%(?: or ([\d.]+(?:e-?\d+)?))? -->")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*\.?\d*(?:e[-+]?\d+)?(?!\w)")
TIME = re.compile(NUMBER.pattern + r"(?= (?:CPU )?m?s\b)")
COUNTED = " iterations"
PICTURE = re.compile(r"\]\(([^)\s]+\.png)\)")
SCRIPT = re.compile(r"python (examples/cases/\w+\.py)\n")
# Characters of a line of a warning or an error.
WIDTH = 92


@attrs.frozen
class Tolerance:
    """How far a number may be from that of the page: relatively, or absolutely."""

    relative: float
    absolute: float = 0.0


ITERATIONS = Tolerance(0.5)


@attrs.frozen
class Example:
    """A block of code and the output that the page shows for it, if it shows any.

    ``place`` is where the output begins and ends in the text of the page. Without a ``tolerance``
    the output must be the same.
    """

    language: str
    line: int
    code: str
    shown: str | None
    place: tuple[int, int] | None
    tolerance: Tolerance | None


def examples_of(page: str, languages: tuple[str, ...] = LANGUAGES) -> list[Example]:
    """All blocks of some languages, each with the ```text block that follows it directly."""
    examples = []
    fences = list(FENCE.finditer(page))
    for fence, after in zip_longest(fences, fences[1:]):
        if fence[1] not in languages:
            continue
        code = commands_of(fence[2]) if fence[1] == "console" else fence[2]
        shown, place, tolerance = None, None, None
        if after is not None and after[1] == "text":
            between = page[fence.end() : after.start()].strip()
            marker = WITHIN.fullmatch(between)
            if marker:
                tolerance = Tolerance(float(marker[1]) / 100.0, float(marker[2] or 0.0))
            if marker or not between:
                shown, place = after[2], after.span(2)
        line = page[: fence.start()].count("\n") + 1
        examples.append(Example(fence[1], line, code, shown, place, tolerance))
    return examples


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
        printed.write(wrapped(f"{category.__name__}: {message}"))

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
            printed.write(wrapped(f"{type(error).__name__}: {error}"))
    return printed.getvalue()


def wrapped(message: str) -> str:
    """A message in lines that a page has room for."""
    lines = [
        textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        for line in message.splitlines()
    ]
    return "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Run in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_page(path: Path, folder: Path, *, scripts: bool = False) -> Iterator[tuple[Example, str]]:
    """Run the examples of a page in a folder; yield each with what it printed.

    With ``scripts`` also the scripts of the worked cases.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    with in_folder(folder):
        for example in examples_of(path.read_text(encoding="utf-8"), (*LANGUAGES, "sh")):
            script = SCRIPT.fullmatch(example.code)
            if script and scripts:
                yield example, run_script(ROOT / script[1], folder)
            elif example.language in LANGUAGES:
                yield example, run(example, namespace, path.name)


def run_script(script: Path, folder: Path) -> str:
    """What a script prints that writes its pictures into a folder, and warns of nothing."""
    done = subprocess.run(
        [sys.executable, script, folder],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode or done.stderr:
        raise AssertionError(f"{script.name}: {done.stderr[-2000:]}")
    return done.stdout


def difference(printed: str, shown: str, tolerance: Tolerance | None = None) -> str | None:
    """The first place where an output is not that of the page, or None where both agree."""
    texts = [TIME.sub("#", " ".join(text.split())) for text in (printed, shown)]
    if tolerance is None:
        return None if texts[0] == texts[1] else f"{texts[0]!r} is printed, not {texts[1]!r}"
    # Words and numbers alternate.
    printed_pieces, shown_pieces = (re.split(f"({NUMBER.pattern})", text) for text in texts)
    pieces = zip_longest(printed_pieces, shown_pieces, shown_pieces[1:], fillvalue="")
    for place, (ours, theirs, unit) in enumerate(pieces):
        numbers = place % 2 == 1 and ours and theirs
        allowed = ITERATIONS if unit.startswith(COUNTED) else tolerance
        if not (agree(ours, theirs, allowed) if numbers else ours == theirs):
            before = "".join(printed_pieces[:place])[-60:]
            return f"after {before!r} stands {ours!r}, not {theirs!r}"
    return None


def agree(number: str, shown: str, tolerance: Tolerance) -> bool:
    """True where a number is within the tolerance, or one unit of the last decimal shown."""
    ours, theirs = (float(text.replace(",", "")) for text in (number, shown))
    allowed = max(tolerance.relative * abs(theirs), tolerance.absolute, last_decimal(shown))
    return abs(ours - theirs) <= allowed * (1.0 + 1e-9)


def last_decimal(number: str) -> float:
    """The unit of the last decimal place of a number; 0 of a whole number."""
    digits, _, power = number.partition("e")
    if "." not in digits and not power:
        return 0.0
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def rewritten(text: str, outputs: list[tuple[Example, str]]) -> str:
    """The text of a page, or of its template, with the outputs that have changed.

    Raises ``ValueError`` where an example prints something and no text block follows it.
    """
    printed = defaultdict[str, list[str]](list)
    for example, output in outputs:
        printed[example.code].append(output)
    for example in reversed(examples_of(text, (*LANGUAGES, "sh"))):
        if not printed[example.code]:  # it was not run
            continue
        output = printed[example.code].pop()
        if difference(output, example.shown or "") is None:
            continue
        if example.place is None:
            raise ValueError(f"line {example.line} prints {output!r}; no text block follows it")
        begin, end = example.place
        text = text[:begin] + as_shown(output) + text[end:]
    return text


def as_shown(printed: str) -> str:
    """An output without spaces at the ends of lines, and empty lines at its ends."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return "".join(f"{line}\n" for line in "\n".join(lines).strip("\n").splitlines())


def pictures_of(page: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Pictures that were drawn into a folder and that a page shows: its link, and the file."""
    for link in dict.fromkeys(PICTURE.findall(page)):
        drawn = folder / Path(link).name
        if drawn.is_file():
            yield link, drawn


def write_page(path: Path) -> list[Path]:
    """Run the examples of a page, write output and pictures; return the files that changed."""
    page, template = path.read_text(encoding="utf-8"), TEMPLATES / path.name
    with tempfile.TemporaryDirectory() as name:
        outputs = list(run_page(path, Path(name), scripts=True))
        files = {
            path.parent / link: drawn.read_bytes() for link, drawn in pictures_of(page, Path(name))
        }
    for file in (path, template) if template.is_file() else (path,):
        files[file] = rewritten(file.read_text(encoding="utf-8"), outputs).encode()
    changed = [
        file for file, now in files.items() if not file.is_file() or file.read_bytes() != now
    ]
    for file in changed:
        file.write_bytes(files[file])
    return changed


def main() -> int:
    """Write the pages of the command line; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="default: all")
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.path.insert(1, str(ROOT / "examples"))  # reproductions
    failed = 0
    for page in parser.parse_args().pages:
        began = time.perf_counter()
        try:
            changed = write_page(page.resolve())
            result = ", ".join(str(file.relative_to(ROOT)) for file in changed) or "as before"
        except Exception:
            failed, result = 1, f"FAILED\n{traceback.format_exc()}"
        print(f"{page.name} ({time.perf_counter() - began:.0f} s): {result}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Tables in Markdown, and the parts of a page of the documents that a command writes."""

import pathlib
import re

__all__ = ["DOCUMENT", "SCALING", "add_page", "markdown", "write_part"]

DOCS = pathlib.Path(__file__).parents[2] / "docs"
DOCUMENT, SCALING = DOCS / "quality.md", DOCS / "scaling.md"


def markdown(header, rows):
    """The lines of a table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def add_page(parser, part):
    """The option to write tables into this part of the page, or into another one."""
    parser.add_argument(
        "--page",
        nargs="?",
        const=part,
        metavar="PART",
        help="write the tables into this part of docs/quality.md",
    )


def write_part(page, part, lines):
    """Replace what stands between the comments ``part: begin`` and ``part: end`` of a page."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{page} has no part between {begin} and {end}")
    made = "\n".join([begin, "", *lines, "", end])
    page.write_text(text[: found.start()] + made + text[found.end() :], encoding="utf-8")
